//! Operators with a process against a model that sees one row after the other, on random cases.

use highwater_check::{ProcessCase, Way, against_model, edited_process_snapshots_are_refused_or_used};
use proptest::collection::vec;
use proptest::prelude::*;

/// Long enough for some hundred rows; each test sees its own cases.
fn cases() -> impl Strategy<Value = ProcessCase> {
    prop_oneof![vec(any::<u8>(), 40..400), vec(any::<u8>(), 400..6_000)]
        .prop_filter_map("bytes that make a case", |bytes| ProcessCase::from_bytes(&bytes).ok())
}

const PLAIN: Way = Way { threads: 1, piece: None, restored_every: None };

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_process_does_what_the_model_says(case in cases()) {
        against_model(&case, PLAIN);
    }

    #[test]
    fn on_any_number_of_threads(case in cases(), threads in 2usize..=8) {
        against_model(&case, Way { threads, ..PLAIN });
    }

    #[test]
    fn in_any_pieces(case in cases(), piece in prop_oneof![Just(1usize), 2usize..9, 20usize..90], threads in 1usize..4) {
        against_model(&case, Way { piece: Some(piece), threads, ..PLAIN });
    }

    #[test]
    fn restored_between_any_calls(case in cases(), every in 1usize..6, threads in 1usize..4) {
        against_model(&case, Way { restored_every: Some(every), threads, ..PLAIN });
    }

    #[test]
    fn no_edit_of_a_snapshot_goes_unnoticed_or_panics(case in cases(), edits in vec(any::<u8>(), 1..40)) {
        edited_process_snapshots_are_refused_or_used(&case, &edits);
    }
}
