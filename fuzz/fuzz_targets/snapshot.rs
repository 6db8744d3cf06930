//! Any edit of a snapshot of any case, of windows or of a process: the changed file is refused, and one whose checksum was made to fit
//! is refused or makes an operator that can be used.
#![no_main]

use highwater_check::{
    Case, ProcessCase, edited_process_snapshots_are_refused_or_used, edited_snapshots_are_refused_or_used,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &[u8], &[u8])| {
    let (of_process, edits, bytes) = input;
    if of_process {
        if let Ok(case) = ProcessCase::from_bytes(bytes) {
            edited_process_snapshots_are_refused_or_used(&case, edits);
        }
    } else if let Ok(case) = Case::from_bytes(bytes) {
        edited_snapshots_are_refused_or_used(&case, edits);
    }
});
