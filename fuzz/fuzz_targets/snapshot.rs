//! Any edit of a snapshot of any case: the changed file is refused, and one whose checksum was made to fit is refused or
//! makes an operator that can be used.
#![no_main]

use highwater_check::{Case, edited_snapshots_are_refused_or_used};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (edits, bytes) = input;
    if let Ok(case) = Case::from_bytes(bytes) {
        edited_snapshots_are_refused_or_used(&case, edits);
    }
});
