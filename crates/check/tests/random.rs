//! The engine against the oracle, and against itself, on random cases.

use highwater_check::{
    Case, against_oracle, edited_snapshots_are_refused_or_used, same_after_restore, same_for_all_threads,
    same_for_every_cut,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Long enough for some hundred rows; each test sees its own cases.
fn cases() -> impl Strategy<Value = Case> {
    prop_oneof![vec(any::<u8>(), 40..400), vec(any::<u8>(), 400..6_000)]
        .prop_filter_map("bytes that make a case", |bytes| Case::from_bytes(&bytes).ok())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_does_what_the_oracle_says(case in cases()) {
        against_oracle(&case);
    }

    #[test]
    fn batch_cuts_do_not_matter(case in cases(), piece in prop_oneof![Just(1usize), 2usize..9, 20usize..90]) {
        same_for_every_cut(&case, piece);
    }

    #[test]
    fn snapshots_do_not_matter(case in cases(), every in 1usize..6, threads in 1usize..3) {
        same_after_restore(&case, every, threads);
    }

    #[test]
    fn no_edit_of_a_snapshot_goes_unnoticed_or_panics(case in cases(), edits in vec(any::<u8>(), 1..40)) {
        edited_snapshots_are_refused_or_used(&case, &edits);
    }

    #[test]
    fn threads_do_not_matter(case in cases(), threads in 2usize..=8) {
        same_for_all_threads(&case, threads);
    }
}
