//! What rows propose, and when it is emitted.

use highwater_oracle::{Cadence, MAX, NONE, Op, Row, Spec, Strategy};

use crate::{Checked, on_time, row};

fn with(strategy: Strategy, cadence: Cadence) -> Checked {
    Checked::new(Spec { strategy, cadence, ..Spec::tumbling(1000) })
}

/// The watermark after a row at each of the times.
fn after_each(strategy: Strategy, times: &[i64]) -> Vec<i64> {
    let mut oracle = with(strategy, Cadence::EveryRow);
    let mut after = |&time: &i64| {
        oracle.times(0, &[time]);
        oracle.0.watermark()
    };
    times.iter().map(&mut after).collect()
}

fn marker(time: i64, watermark: i64) -> Row {
    Row { marker: Some(watermark), ..row(time, 1) }
}

#[test]
fn strategies_count_back_from_the_largest_time() {
    // 20 - 5 - 1 = 14, 20 - 1 = 19, 20 - 5 = 15; an older row changes nothing.
    assert_eq!(after_each(Strategy::Bounded(5), &[20, 10, 21]), [14, 14, 15]);
    assert_eq!(after_each(Strategy::Ascending, &[20, 10, 21]), [19, 19, 20]);
    assert_eq!(after_each(Strategy::Delay(5), &[20, 10, 21]), [15, 15, 16]);
    assert_eq!(after_each(Strategy::Explicit, &[20]), [NONE]);
}

#[test]
fn strategies_saturate_at_none() {
    let min = i64::MIN;
    // MIN + 5 - 5 - 1 and MIN + 6 - 5 - 1 are below and at "none"; MIN + 7 - 5 - 1 is the first watermark.
    assert_eq!(
        after_each(Strategy::Bounded(5), &[min, min + 5, min + 6, min + 7]),
        [NONE, NONE, NONE, min + 1]
    );
    assert_eq!(after_each(Strategy::Delay(5), &[min, min + 5, min + 6]), [NONE, NONE, min + 1]);
    assert_eq!(after_each(Strategy::Bounded(MAX), &[-5, MAX]), [NONE, -1]);
}

#[test]
fn no_generator_says_max() {
    assert_eq!(after_each(Strategy::Ascending, &[MAX]), [MAX - 1]);
    assert_eq!(after_each(Strategy::Delay(0), &[MAX]), [MAX - 1]);
    let mut oracle = with(Strategy::Punctuated, Cadence::EveryRow);
    oracle.apply(Op::Push(0, vec![marker(0, MAX)]));
    assert_eq!(oracle.0.watermark(), MAX - 1);
    oracle.apply(Op::Finish);
    assert_eq!(oracle.0.watermark(), MAX);
}

#[test]
fn explicit_watermarks_only_rise() {
    let mut oracle = with(Strategy::Explicit, Cadence::EveryRow);
    for (said, heard) in [(10, 10), (9, 10), (10, 10), (NONE, 10), (11, 11)] {
        oracle.apply(Op::Watermark(0, said));
        assert_eq!(oracle.0.watermark(), heard);
    }
    // 9 and NONE were less; the second 10 was not.
    assert_eq!(oracle.0.counters(0).watermark_regressions, 2);
    // MAX is the end. After it there is nothing to move, or to regress.
    oracle.apply(Op::Watermark(0, MAX));
    oracle.apply(Op::Watermark(0, 5));
    assert_eq!((oracle.0.watermark(), oracle.0.counters(0).watermark_regressions), (MAX, 2));
}

#[test]
fn markers_propose_and_only_rise() {
    let mut oracle = with(Strategy::Punctuated, Cadence::EveryRow);
    oracle.times(0, &[500]);
    assert_eq!(oracle.0.watermark(), NONE);
    oracle.apply(Op::Push(0, vec![marker(1, 10), marker(1, 8), marker(1, 10)]));
    assert_eq!((oracle.0.watermark(), oracle.0.counters(0).watermark_regressions), (10, 1));
    // The marker row itself was judged by the watermark before it: 500 came before any, 1 <= 10 only afterwards.
    assert_eq!(oracle.0.counters(0).late_taken, 2);
}

#[test]
fn a_marker_regresses_against_what_was_emitted() {
    // 10 and 8 are both proposed before anything is emitted; 10 is. Then 9 is less than that.
    let mut oracle = with(Strategy::Punctuated, Cadence::EveryBatch);
    oracle.apply(Op::Push(0, vec![marker(1, 10), marker(1, 8)]));
    assert_eq!((oracle.0.watermark(), oracle.0.counters(0).watermark_regressions), (10, 0));
    oracle.apply(Op::Push(0, vec![marker(1, 9)]));
    assert_eq!((oracle.0.watermark(), oracle.0.counters(0).watermark_regressions), (10, 1));
}

#[test]
fn every_interval_waits_for_more_than_the_interval() {
    // Watermarks are times - 1. The first is emitted: 99. 109 is not > 99 + 10, 110 is. Next: more than 120.
    let mut oracle = with(Strategy::Ascending, Cadence::Every(10));
    let mut emitted = |time| {
        oracle.times(0, &[time]);
        oracle.0.watermark()
    };
    assert_eq!([100, 110, 111, 121, 122].map(&mut emitted), [99, 99, 110, 110, 121]);
    // On request it is emitted inside the interval too, and the interval starts anew: more than 123 + 10.
    oracle.times(0, &[124]);
    assert_eq!(oracle.0.watermark(), 121);
    oracle.apply(Op::EmitWatermarks);
    assert_eq!(oracle.0.watermark(), 123);
    oracle.times(0, &[134]);
    assert_eq!(oracle.0.watermark(), 123);
    oracle.times(0, &[135]);
    assert_eq!(oracle.0.watermark(), 134);
}

#[test]
fn an_endless_interval_emits_once() {
    let mut oracle = with(Strategy::Ascending, Cadence::Every(MAX));
    oracle.times(0, &[100, MAX]);
    assert_eq!(oracle.0.watermark(), 99);
}

#[test]
fn every_batch_emits_at_the_end_of_each_batch() {
    let mut oracle = with(Strategy::Ascending, Cadence::EveryBatch);
    // The second batch is judged by 99: 50 is late, and taken.
    oracle.apply(Op::PushAll(vec![(0, vec![row(100, 1), row(50, 1)]), (0, vec![row(50, 1)])]));
    assert_eq!((oracle.0.watermark(), oracle.0.counters(0).late_taken), (99, 1));
}

#[test]
fn on_request_emits_only_then() {
    let mut oracle = with(Strategy::Ascending, Cadence::OnRequest);
    oracle.times(0, &[100, 1100]);
    assert_eq!(oracle.0.watermark(), NONE);
    assert_eq!(on_time(&oracle.apply(Op::EmitWatermarks)), [(0, 1000, 1)]);
    assert_eq!(oracle.0.watermark(), 1099);
}
