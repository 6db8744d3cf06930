//! Rows that are refused, and calls that fail.

use highwater_oracle::{Guard, MAX, NONE, NullPolicy, Op, Reason, Rejected, Row, Spec, Strategy};

use crate::{Checked, row};

fn null_time() -> Row {
    Row { time: None, ..row(0, 1) }
}

fn with_reference(time: i64, reference: Option<i64>) -> Row {
    Row { ingest_time: reference, ..row(time, 1) }
}

#[test]
fn a_row_without_a_time_is_handed_back_or_dropped() {
    for policy in [NullPolicy::Reject, NullPolicy::Drop] {
        let mut oracle = Checked::new(Spec { null_policy: policy.clone(), ..Spec::tumbling(10) });
        let output = oracle.apply(Op::Push(0, vec![row(3, 1), null_time(), row(4, 1)]));
        let handed_back = [Rejected { row: 1, reason: Reason::NullTime }];
        assert_eq!(output.rejected, if policy == NullPolicy::Reject { &handed_back[..] } else { &[] });
        let c = oracle.0.counters(0);
        assert_eq!((c.rows_in, c.taken, c.rejected_null), (3, 2, 1));
        // The rejected row has a number too.
        oracle.times(0, &[30]);
        assert_eq!(oracle.times(0, &[3]).late[0].row, 4);
    }
}

#[test]
fn an_error_changes_nothing_in_any_batch() {
    let mut oracle =
        Checked::new(Spec { null_policy: NullPolicy::Error, partitions: 2, ..Spec::tumbling(10) });
    oracle.refuse(Op::PushAll(vec![(0, vec![row(3, 1)]), (1, vec![row(4, 1), null_time()])]));
    assert_eq!((oracle.0.counters(0).rows_in, oracle.0.counters(1).rows_in), (0, 0));
    assert_eq!(oracle.watermarks(2), [NONE, NONE]);
    assert_eq!(oracle.apply(Op::Finish).fired, []);
}

#[test]
fn a_row_from_the_future_is_rejected_and_moves_nothing() {
    let mut oracle = Checked::new(Spec { guard: Guard::IngestTime(5), ..Spec::tumbling(10) });
    // 105 <= 100 + 5 < 106.
    let rows = vec![with_reference(105, Some(100)), with_reference(106, Some(100)), with_reference(9, None)];
    let output = oracle.apply(Op::Push(0, rows));
    let rejected =
        [Rejected { row: 1, reason: Reason::Future }, Rejected { row: 2, reason: Reason::NullReference }];
    assert_eq!(output.rejected, rejected);
    let c = oracle.0.counters(0);
    assert_eq!((c.rows_in, c.taken, c.rejected_future, c.rejected_reference), (3, 1, 1, 1));
    assert_eq!(oracle.0.watermark(), 104);
    // MAX - 1 + 5 saturates: nothing is ahead of it.
    assert_eq!(oracle.apply(Op::Push(0, vec![with_reference(MAX, Some(MAX - 1))])).rejected, []);
}

#[test]
fn a_null_time_is_judged_before_the_guard() {
    let mut oracle = Checked::new(Spec { guard: Guard::IngestTime(5), ..Spec::tumbling(10) });
    let output = oracle.apply(Op::Push(0, vec![Row { ingest_time: None, ..null_time() }]));
    assert_eq!(output.rejected, [Rejected { row: 0, reason: Reason::NullTime }]);
}

#[test]
fn the_clock_guards_from_its_first_reading() {
    let mut oracle = Checked::new(Spec { guard: Guard::Clock(5), ..Spec::tumbling(10) });
    oracle.refuse(Op::Push(0, vec![row(3, 1)]));
    assert_eq!(oracle.0.counters(0).rows_in, 0);
    oracle.apply(Op::AdvanceClock(100));
    // It does not move back: 103 <= 100 + 5, though not <= 90 + 5.
    oracle.apply(Op::AdvanceClock(90));
    let output = oracle.times(0, &[103, 106]);
    assert_eq!(output.rejected, [Rejected { row: 1, reason: Reason::Future }]);
}

#[test]
fn calls_that_make_no_sense_fail() {
    let mut oracle = Checked::new(Spec::tumbling(10));
    for op in [Op::Push(1, vec![]), Op::MarkIdle(1), Op::MarkActive(1), Op::FinishPartition(1)] {
        oracle.refuse(op);
    }
    oracle.refuse(Op::Watermark(0, 5));
    let mut explicit = Checked::new(Spec { strategy: Strategy::Explicit, ..Spec::tumbling(10) });
    explicit.refuse(Op::Watermark(1, 5));
}
