//! Any list of calls on any specification: the engine agrees with the oracle, with itself in pieces, with itself on
//! several threads, and with itself when it is restored from snapshots on the way.
#![no_main]

use highwater_check::{Case, against_oracle, same_after_restore, same_for_all_threads, same_for_every_cut};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(case) = Case::from_bytes(bytes) {
        against_oracle(&case);
        same_for_every_cut(&case, 1 + bytes.len() % 7);
        match bytes.len() % 4 {
            0 => same_for_all_threads(&case, 2),
            1 => same_after_restore(&case, 1 + bytes.len() % 5, 1),
            _ => {}
        }
    }
});
