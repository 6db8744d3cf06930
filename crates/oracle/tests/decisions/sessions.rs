//! Sessions, beyond what the golden traces pin.

use highwater_oracle::{
    Kind, Late, LateFiring, MAX, Op, ResultMode, Row, Spec, Strategy, Trigger, Value, Windows,
};

use crate::{Checked, fired, on_time, results, row};
use Kind::{Early, Late as LateKind, OnTime};

fn session(gap: i64, lateness: i64, late_firing: LateFiring) -> Spec {
    Spec {
        strategy: Strategy::Explicit,
        allowed_lateness: lateness,
        late_firing,
        ..Spec::over(Windows::Session { gap })
    }
}

#[test]
fn touching_rows_are_one_session() {
    let mut oracle = Checked::new(session(10, 0, LateFiring::PerRow));
    oracle.times(0, &[0, 21, 10]);
    // [0, 10) and [10, 20) touch, [21, 31) does not.
    assert_eq!(on_time(&oracle.apply(Op::Finish)), [(0, 20, 2), (21, 31, 1)]);
}

#[test]
fn a_row_is_merged_first_and_judged_after() {
    let mut oracle = Checked::new(session(10, 0, LateFiring::PerRow));
    oracle.times(0, &[20]);
    oracle.apply(Op::Watermark(0, 25));
    // 11 alone would end at 21, long expired; with [20, 30) it is a session that is not due before 29.
    assert_eq!(oracle.times(0, &[11]).late, []);
    // 9 does not reach it: [9, 19) stands alone, and has expired.
    assert_eq!(oracle.times(0, &[0]).late, [Late { row: 2, watermark: 25 }]);
    assert_eq!(on_time(&oracle.apply(Op::Watermark(0, 29))), [(11, 30, 2)]);
}

#[test]
fn keys_have_sessions_of_their_own() {
    let mut oracle = Checked::new(session(10, 0, LateFiring::PerRow));
    let keyed = |time, key| Row { key: vec![Value::Int(key)], ..row(time, 1) };
    oracle.apply(Op::Push(0, vec![keyed(0, 1), keyed(8, 2), keyed(16, 1)]));
    assert_eq!(on_time(&oracle.apply(Op::Finish)), [(0, 10, 1), (8, 18, 1), (16, 26, 1)]);
}

#[test]
fn a_merged_session_owes_one_late_firing_per_call() {
    let mut oracle = Checked::new(session(10, 100, LateFiring::Coalesced));
    oracle.times(0, &[0, 30]);
    assert_eq!(on_time(&oracle.apply(Op::Watermark(0, 50))), [(0, 10, 1), (30, 40, 1)]);
    // 20 joins [30, 40), 10 joins that to [0, 10): the late firing of [20, 40) is left to [0, 40).
    assert_eq!(fired(&oracle.times(0, &[20, 10])), [(0, 40, LateKind, Value::Int(4))]);
}

#[test]
fn a_late_firing_that_is_owed_is_not_given_if_the_session_goes_on() {
    let mut oracle = Checked::new(session(10, 100, LateFiring::Coalesced));
    oracle.times(0, &[0]);
    oracle.apply(Op::Watermark(0, 15));
    // 1 is owed a late firing; 8 makes it [0, 18), which is not due before 17.
    assert_eq!(oracle.times(0, &[1, 8]).fired, []);
    assert_eq!(fired(&oracle.apply(Op::Watermark(0, 17))), [(0, 18, OnTime, Value::Int(3))]);
}

#[test]
fn rows_of_a_merged_session_are_in_order_of_arrival() {
    let spec = Spec {
        aggregates: vec![(highwater_oracle::Function::Members, 0)],
        ..session(10, 0, LateFiring::PerRow)
    };
    let mut oracle = Checked::new(spec);
    oracle.times(0, &[20, 0, 21, 1, 10]);
    let all = Value::Text("0,1,2,3,4".to_owned());
    assert_eq!(fired(&oracle.apply(Op::Finish)), [(0, 31, OnTime, all)]);
}

#[test]
fn the_gap_comes_from_the_row() {
    let spec = Spec { strategy: Strategy::Explicit, ..Spec::over(Windows::SessionByValue { column: 0 }) };
    let mut oracle = Checked::new(spec);
    oracle.apply(Op::Push(0, vec![row(0, 50), row(10, 5), row(51, 5)]));
    // A call with a gap that is none changes nothing, whichever row has it.
    for bad in [Value::Int(0), Value::Int(-1), Value::Null, Value::Float(1.0)] {
        let bad = Row { values: vec![bad], ..row(3, 1) };
        oracle.refuse(Op::Push(0, vec![row(2, 1), bad]));
    }
    // A row that is rejected for its time needs none.
    let rejected = Row { time: None, values: vec![Value::Null], ..Row::default() };
    assert_eq!(oracle.apply(Op::Push(0, vec![rejected])).rejected.len(), 1);
    assert_eq!(on_time(&oracle.apply(Op::Finish)), [(0, 50, 2), (51, 56, 1)]);
}

#[test]
fn a_session_that_reaches_beyond_the_maximum_is_open() {
    let mut oracle = Checked::new(session(10, 0, LateFiring::PerRow));
    oracle.times(0, &[MAX - 5, MAX - 30]);
    // [MAX - 30, MAX - 20) is due at MAX - 21; the other one ends at MAX + 5.
    assert_eq!(on_time(&oracle.apply(Op::Watermark(0, MAX - 1))), [(MAX - 30, MAX - 20, 1)]);
    assert_eq!(on_time(&oracle.times(0, &[MAX])), []);
    assert_eq!(on_time(&oracle.apply(Op::Finish)), [(MAX - 5, MAX, 2)]);
}

#[test]
fn a_merged_session_goes_on_counting_its_firings() {
    let spec = Spec { trigger: Trigger::EarlyCount(1), ..session(10, 0, LateFiring::PerRow) };
    let mut oracle = Checked::new(spec);
    // [0, 10): firings 0, 1, 2; [20, 30): firing 0; 10 joins them: 3.
    let numbers: Vec<u64> =
        oracle.times(0, &[0, 0, 0, 20, 10]).fired.iter().map(|firing| firing.number).collect();
    assert_eq!(numbers, [0, 1, 2, 0, 3]);
}

#[test]
fn what_merged_sessions_gave_is_taken_back_before_the_next_firing() {
    let spec = Spec { result_mode: ResultMode::Retract, ..session(10, 100, LateFiring::PerRow) };
    let mut oracle = Checked::new(spec);
    oracle.times(0, &[0, 20]);
    assert_eq!(on_time(&oracle.apply(Op::Watermark(0, 29))), [(0, 10, 1), (20, 30, 1)]);
    // 10 joins the two to [0, 30), which is due.
    let output = oracle.times(0, &[10]);
    assert_eq!(
        results(&output),
        [(0, 10, OnTime, 0, true, 1), (20, 30, OnTime, 0, true, 1), (0, 30, LateKind, 1, false, 3)]
    );
    // 25 makes it [0, 35), which is not: nothing is said until then.
    assert_eq!(oracle.times(0, &[25]).fired, []);
    let output = oracle.apply(Op::Watermark(0, 34));
    assert_eq!(results(&output), [(0, 30, LateKind, 1, true, 3), (0, 35, OnTime, 2, false, 4)]);
}

#[test]
fn early_firings_keep_their_rhythm_through_a_merge() {
    let spec = Spec { trigger: Trigger::EarlyEventTime(10), ..session(30, 0, LateFiring::PerRow) };
    let mut oracle = Checked::new(spec);
    // [3, 33) would first fire early at 10, [40, 70) at 50: together at 10.
    oracle.times(0, &[40, 3]);
    oracle.times(0, &[20]);
    assert_eq!(fired(&oracle.apply(Op::Watermark(0, 10))), [(3, 70, Early, Value::Int(3))]);
    assert_eq!(fired(&oracle.apply(Op::Watermark(0, 20))), [(3, 70, Early, Value::Int(3))]);
}

#[test]
fn an_interval_cut_to_the_end_of_a_session_stays_cut_when_the_session_grows() {
    // As in Flink: the first early firing of [0, 10) would be at 100, which is cut to 9; 5 makes it [0, 15), and 9 stays. Then
    // it would be at 109, which is cut to 14: the on-time firing.
    let spec = Spec { trigger: Trigger::EarlyEventTime(100), ..session(10, 0, LateFiring::PerRow) };
    let mut oracle = Checked::new(spec);
    oracle.times(0, &[0, 5]);
    assert_eq!(fired(&oracle.apply(Op::Watermark(0, 9))), [(0, 15, Early, Value::Int(2))]);
    assert_eq!(fired(&oracle.apply(Op::Watermark(0, 14))), [(0, 15, OnTime, Value::Int(2))]);
}
