//! Windows by number of rows.

use highwater_oracle::{Function, Kind, MAX, Op, Row, Spec, Value, Windows};

use crate::{Checked, fired, on_time, row};

fn spec(size: u64, slide: u64) -> Spec {
    Spec::over(Windows::Count { size, slide })
}

#[test]
fn a_window_fires_when_it_is_full_with_the_bounds_of_its_rows() {
    let mut oracle = Checked::new(spec(3, 3));
    // Order of arrival, not of time; the row behind the watermark is late for nothing.
    assert_eq!(on_time(&oracle.times(0, &[50, 7, 20, 90, 1, 80])), [(7, 51, 3), (1, 91, 3)]);
    let c = oracle.0.counters(0);
    assert_eq!((c.taken, c.late_taken, c.dropped_late), (6, 0, 0));
    assert_eq!(oracle.apply(Op::Finish).fired, []);
}

#[test]
fn what_is_not_full_fires_at_the_end_of_input() {
    let mut oracle = Checked::new(spec(4, 2));
    // After two rows the last four are two, then four.
    assert_eq!(on_time(&oracle.times(0, &[0, 1, 2, 3, 4, 5, 6])), [(0, 2, 2), (0, 4, 4), (2, 6, 4)]);
    assert_eq!(on_time(&oracle.apply(Op::Finish)), [(3, 7, 4)]);
    // After that all rows are dropped.
    assert_eq!(oracle.times(0, &[9]).late.len(), 1);
}

#[test]
fn rows_that_no_window_holds_are_taken_all_the_same() {
    let mut oracle = Checked::new(spec(2, 3));
    // After every three rows the last two.
    assert_eq!(on_time(&oracle.times(0, &[0, 1, 2, 3, 4, 5])), [(1, 3, 2), (4, 6, 2)]);
    let c = oracle.0.counters(0);
    assert_eq!((c.taken, c.no_window), (6, 0));
}

#[test]
fn each_key_counts_for_itself() {
    let keyed = |time, key| Row { key: vec![Value::Int(key)], ..row(time, 1) };
    let mut oracle = Checked::new(spec(2, 2));
    let output =
        oracle.apply(Op::Push(0, vec![keyed(1, 1), keyed(2, 2), keyed(3, 2), keyed(4, 1), keyed(5, 1)]));
    let results: Vec<_> = output.fired.iter().map(|f| (f.key[0].clone(), f.start, f.end)).collect();
    assert_eq!(results, [(Value::Int(2), 2, 4), (Value::Int(1), 1, 5)]);
    assert_eq!(on_time(&oracle.apply(Op::Finish)), [(5, 6, 1)]);
}

#[test]
fn the_rest_comes_by_end_then_start() {
    let keyed = |time, key| Row { key: vec![Value::Int(key)], ..row(time, 1) };
    let mut oracle = Checked::new(spec(9, 9));
    oracle.apply(Op::Push(0, vec![keyed(5, 1), keyed(3, 2), keyed(1, 3), keyed(3, 3)]));
    assert_eq!(on_time(&oracle.apply(Op::Finish)), [(1, 4, 2), (3, 4, 1), (5, 6, 1)]);
}

#[test]
fn the_largest_time_has_no_tick_after_it() {
    let mut oracle = Checked::new(Spec { aggregates: vec![(Function::Members, 0)], ..spec(2, 2) });
    let output = oracle.times(0, &[MAX, 0]);
    assert_eq!(fired(&output), [(0, MAX, Kind::OnTime, Value::Text("0,1".to_owned()))]);
}

#[test]
#[should_panic(expected = "a count window has no trigger of its own")]
fn a_count_window_has_no_trigger_of_its_own() {
    Checked::new(Spec { trigger: highwater_oracle::Trigger::Count(1), ..spec(2, 2) });
}
