//! Triggers and evictors, beyond what the golden traces pin.

use highwater_oracle::{
    Eviction, Evictor, Function, Kind, LateFiring, MAX, Op, Output, Row, Spec, Strategy, Trigger, Value,
    Windows,
};

use crate::{Checked, on_time, row};
use Kind::{Early, Late as LateKind, OnTime};

fn spec(trigger: Trigger) -> Spec {
    Spec { trigger, strategy: Strategy::Explicit, late_firing: LateFiring::PerRow, ..Spec::tumbling(100) }
}

/// The firings of counts, as `(kind, count)`.
fn counts(output: &Output) -> Vec<(Kind, i64)> {
    let count = |value: &Value| if let Value::Int(n) = value { *n } else { unreachable!("{value:?}") };
    output.fired.iter().map(|firing| (firing.kind, count(&firing.values[0]))).collect()
}

#[test]
fn an_interval_floors_before_1970() {
    // -95 floors to -100: the first early firing is at -90.
    let mut oracle = Checked::new(spec(Trigger::EarlyEventTime(10)));
    oracle.times(0, &[-95]);
    assert_eq!(counts(&oracle.apply(Op::Watermark(0, -91))), []);
    assert_eq!(counts(&oracle.apply(Op::Watermark(0, -90))), [(Early, 1)]);
}

#[test]
fn an_interval_is_cut_to_the_last_tick() {
    // From 5 by 60: 60, then 120, which is cut to 99, the on-time firing. One of 200 never fires early.
    let mut oracle = Checked::new(spec(Trigger::EarlyEventTime(60)));
    oracle.times(0, &[5]);
    assert_eq!(counts(&oracle.apply(Op::Watermark(0, 200))), [(Early, 1), (OnTime, 1)]);
    let mut oracle = Checked::new(spec(Trigger::EarlyEventTime(200)));
    oracle.times(0, &[5]);
    assert_eq!(counts(&oracle.apply(Op::Watermark(0, 200))), [(OnTime, 1)]);
}

#[test]
fn of_very_many_intervals_in_one_jump_the_last_are_given() {
    // At 1, then at 15,000 - 10,000 = 5,000 and on to 14,998: 1 + 9,999 of 14,998. The window is due at 14,999.
    let long = Spec { trigger: Trigger::EarlyEventTime(1), ..Spec::tumbling(15_000) };
    let mut oracle = Checked::new(Spec { strategy: Strategy::Explicit, ..long });
    oracle.times(0, &[0]);
    let given = counts(&oracle.apply(Op::Watermark(0, 20_000)));
    assert_eq!(given.len(), 10_001);
    assert_eq!(given[9_999..], [(Early, 1), (OnTime, 1)]);
}

#[test]
fn an_early_time_that_has_passed_fires_with_the_next_advance() {
    let mut oracle = Checked::new(spec(Trigger::EarlyEventTime(10)));
    oracle.apply(Op::Watermark(0, 35));
    // 3 would have fired at 10, 20 and 30.
    assert_eq!(counts(&oracle.times(0, &[3])), []);
    assert_eq!(counts(&oracle.apply(Op::Watermark(0, 36))), [(Early, 1), (Early, 1), (Early, 1)]);
}

#[test]
fn early_firings_come_in_order_of_time_per_row_and_of_windows_when_coalesced() {
    let window = Windows::Aligned { size: 100, slide: 50, offset: 0 };
    let bounds = |late_firing| {
        let spec = Spec { late_firing, window: window.clone(), ..spec(Trigger::EarlyEventTime(30)) };
        let mut oracle = Checked::new(spec);
        oracle.times(0, &[55]);
        let output = oracle.apply(Op::Watermark(0, 90));
        output.fired.iter().map(|firing| firing.start).collect::<Vec<_>>()
    };
    // Both windows fire at 60 and at 90.
    assert_eq!(bounds(LateFiring::PerRow), [0, 50, 0, 50]);
    assert_eq!(bounds(LateFiring::Coalesced), [0, 0, 50, 50]);
}

#[test]
fn a_window_without_end_has_no_early_firings_at_the_end_of_input() {
    let spec = Spec { window: Windows::Global, ..spec(Trigger::EarlyEventTime(10)) };
    let mut oracle = Checked::new(spec);
    oracle.times(0, &[3]);
    assert_eq!(counts(&oracle.apply(Op::Watermark(0, 25))), [(Early, 1), (Early, 1)]);
    assert_eq!(counts(&oracle.apply(Op::Finish)), [(OnTime, 1)]);
}

#[test]
fn the_clock_fires_early_what_has_new_rows() {
    let mut oracle = Checked::new(spec(Trigger::EarlyClock(10)));
    oracle.apply(Op::AdvanceClock(14));
    oracle.times(0, &[1]);
    // One interval after 10, the multiple at or before 14.
    assert_eq!(counts(&oracle.apply(Op::AdvanceClock(19))), []);
    assert_eq!(counts(&oracle.apply(Op::AdvanceClock(20))), [(Early, 1)]);
    // Nothing new; then one row, for which many intervals pass at once.
    assert_eq!(counts(&oracle.apply(Op::AdvanceClock(45))), []);
    oracle.times(0, &[2]);
    assert_eq!(counts(&oracle.apply(Op::AdvanceClock(49))), []);
    assert_eq!(counts(&oracle.apply(Op::AdvanceClock(500))), [(Early, 2)]);
    assert_eq!(counts(&oracle.apply(Op::AdvanceClock(900))), []);
    // On time all the same, and late.
    assert_eq!(counts(&oracle.apply(Op::Finish)), [(OnTime, 2)]);
}

#[test]
fn each_window_and_key_has_its_own_time_on_the_clock() {
    let mut oracle = Checked::new(spec(Trigger::EarlyClock(10)));
    oracle.apply(Op::AdvanceClock(0));
    let keyed = |time, key| Row { key: vec![Value::Int(key)], ..row(time, 1) };
    oracle.apply(Op::Push(0, vec![keyed(1, 1)]));
    oracle.apply(Op::AdvanceClock(9));
    oracle.apply(Op::Push(0, vec![keyed(1, 2), keyed(101, 1)]));
    oracle.apply(Op::AdvanceClock(10));
    oracle.apply(Op::Push(0, vec![keyed(2, 1)]));
    let output = oracle.apply(Op::AdvanceClock(20));
    let keys: Vec<_> = output.fired.iter().map(|firing| (firing.start, firing.key[0].clone())).collect();
    // At 10 all three fired; since then only key 1 in [0, 100) has a new row.
    assert_eq!(keys, [(0, Value::Int(1))]);
}

#[test]
fn rows_before_the_first_reading_count_as_come_with_it() {
    let mut oracle = Checked::new(spec(Trigger::EarlyClock(10)));
    oracle.times(0, &[1]);
    assert_eq!(counts(&oracle.apply(Op::AdvanceClock(33))), []);
    assert_eq!(counts(&oracle.apply(Op::AdvanceClock(39))), []);
    assert_eq!(counts(&oracle.apply(Op::AdvanceClock(40))), [(Early, 1)]);
}

#[test]
fn the_clock_moves_watermarks_before_it_fires_early() {
    // Partition 1 is silent; when it goes idle at 11, partition 0 alone makes [0, 100) due: on time, not early.
    let spec = Spec {
        partitions: 2,
        idle_timeout: Some(10),
        strategy: Strategy::Ascending,
        ..spec(Trigger::EarlyClock(5))
    };
    let mut oracle = Checked::new(spec);
    oracle.apply(Op::AdvanceClock(0));
    oracle.times(0, &[1]);
    oracle.apply(Op::AdvanceClock(4));
    oracle.times(0, &[300]);
    let kinds: Vec<_> =
        oracle.apply(Op::AdvanceClock(11)).fired.iter().map(|firing| (firing.start, firing.kind)).collect();
    assert_eq!(kinds, [(0, OnTime), (300, Early)]);
}

#[test]
fn counting_leaves_time_aside() {
    let mut oracle = Checked::new(spec(Trigger::Count(2)));
    assert_eq!(counts(&oracle.times(0, &[1, 2, 3])), [(Early, 2)]);
    // The third row never fires, not even at the end of input.
    assert_eq!(counts(&oracle.apply(Op::Watermark(0, 99))), []);
    assert_eq!(counts(&oracle.apply(Op::Finish)), []);
}

#[test]
fn counted_firings_of_due_windows_are_late_and_never_coalesced() {
    let spec = Spec { allowed_lateness: 50, late_firing: LateFiring::Coalesced, ..spec(Trigger::Count(2)) };
    let mut oracle = Checked::new(spec);
    oracle.apply(Op::Watermark(0, 99));
    assert_eq!(counts(&oracle.times(0, &[1, 2, 3, 4])), [(LateKind, 2), (LateKind, 4)]);
}

#[test]
fn a_trigger_that_never_fires() {
    let mut oracle = Checked::new(spec(Trigger::Never));
    oracle.times(0, &[1, 2]);
    assert_eq!(counts(&oracle.apply(Op::Finish)), []);
    assert_eq!(oracle.0.counters(0).taken, 2);
}

#[test]
fn a_delta_passes_over_what_is_no_number() {
    let mut oracle = Checked::new(spec(Trigger::Delta { column: 0, threshold: 1.5 }));
    let value = |value| Row { values: vec![value], ..row(1, 0) };
    let values =
        [Value::Null, Value::Float(1.0), Value::Null, Value::Int(2), Value::Float(2.75), Value::Int(-9)];
    // From 1.0 on: 2 - 1.0 is no more than 1.5, 2.75 - 1.0 is. From 2.75 on: down does not count.
    let output = oracle.apply(Op::Push(0, values.map(value).to_vec()));
    assert_eq!(counts(&output), [(Early, 5)]);
}

#[test]
fn a_purging_window_holds_what_is_new() {
    let spec = Spec { purging: true, allowed_lateness: 50, ..spec(Trigger::EarlyCount(2)) };
    let mut oracle = Checked::new(spec);
    assert_eq!(counts(&oracle.times(0, &[1, 2, 3])), [(Early, 2)]);
    assert_eq!(counts(&oracle.apply(Op::Watermark(0, 99))), [(OnTime, 1)]);
    assert_eq!(counts(&oracle.times(0, &[4])), [(LateKind, 1)]);
    assert_eq!(counts(&oracle.apply(Op::Finish)), []);
}

#[test]
fn an_empty_window_does_not_fire() {
    let spec = Spec { purging: true, ..spec(Trigger::EarlyCount(2)) };
    let mut oracle = Checked::new(spec);
    assert_eq!(counts(&oracle.times(0, &[1, 2])), [(Early, 2)]);
    assert_eq!(counts(&oracle.apply(Op::Watermark(0, 99))), []);
}

#[test]
fn early_firings_are_none_of_a_late_rows_business() {
    // A row for a window that is due fires late, and is not counted for early firings.
    let spec = Spec { allowed_lateness: 50, ..spec(Trigger::EarlyCount(3)) };
    let mut oracle = Checked::new(spec);
    oracle.times(0, &[1, 2]);
    oracle.apply(Op::Watermark(0, 99));
    assert_eq!(counts(&oracle.times(0, &[3, 4])), [(LateKind, 3), (LateKind, 4)]);
}

#[test]
fn an_evictor_that_takes_all_leaves_a_firing_over_nothing() {
    let spec = Spec {
        evictor: Some(Evictor { rule: Eviction::Count(0), after: false }),
        aggregates: vec![(Function::CountAll, 0), (Function::Sum, 0)],
        allowed_lateness: 50,
        ..spec(Trigger::EventTime)
    };
    let mut oracle = Checked::new(spec);
    oracle.times(0, &[1, 2]);
    let output = oracle.apply(Op::Watermark(0, 99));
    assert_eq!(output.fired[0].values, [Value::Int(0), Value::Null]);
    // What was evicted is gone.
    let output = oracle.times(0, &[3]);
    assert_eq!(output.fired[0].values, [Value::Int(0), Value::Null]);
}

#[test]
fn evictors_at_the_ends_of_time_and_with_odd_values() {
    let evict = |rule, rows: Vec<Row>| {
        let spec = Spec {
            window: Windows::Global,
            evictor: Some(Evictor { rule, after: false }),
            aggregates: vec![(Function::Members, 0)],
            ..spec(Trigger::EventTime)
        };
        let mut oracle = Checked::new(spec);
        oracle.apply(Op::Push(0, rows));
        let output = oracle.apply(Op::Finish);
        let Value::Text(members) = &output.fired[0].values[0] else { unreachable!("{output:?}") };
        members.clone()
    };
    // MIN - MAX does not fit, and need not: MIN + 1 > MIN - 5.
    assert_eq!(evict(Eviction::Time(5), vec![row(i64::MIN, 1), row(i64::MIN + 1, 1)]), "0,1");
    assert_eq!(evict(Eviction::Time(MAX), vec![row(0, 1), row(MAX, 1)]), "1");
    // The last value is 10: 5 is 5 away, and goes; null stays, as 6 does.
    let value = |value| Row { values: vec![value], ..row(1, 0) };
    let rows = [Value::Int(5), Value::Null, Value::Int(6), Value::Float(10.0)].map(value).to_vec();
    let rule = Eviction::Delta { column: 0, threshold: 5.0 };
    assert_eq!(evict(rule.clone(), rows.clone()), "1,2,3");
    // A last value that is no number makes nothing go.
    let rows = [Value::Int(5), Value::Int(60), Value::Null].map(value).to_vec();
    assert_eq!(evict(rule, rows), "0,1,2");
}

#[test]
fn columns_that_triggers_and_evictors_read_must_be_there() {
    let delta = Spec { aggregates: vec![], ..spec(Trigger::Delta { column: 1, threshold: 1.0 }) };
    let rule = Eviction::Delta { column: 1, threshold: 1.0 };
    let evictor = Some(Evictor { rule, after: true });
    for spec in [delta, Spec { evictor, aggregates: vec![], ..spec(Trigger::EventTime) }] {
        let problem = Checked::new(spec).refuse(Op::Push(0, vec![row(1, 1)]));
        assert_eq!(problem, "a row has no value column 1");
    }
}

#[test]
fn a_global_window_fires_at_the_end_of_input_and_has_no_late_rows() {
    let mut oracle = Checked::new(Spec { window: Windows::Global, ..Spec::tumbling(1) });
    // 50 moves the watermark to 49; 3 is behind it, but late for nothing.
    oracle.times(0, &[50, 3, MAX]);
    assert_eq!(oracle.0.counters(0).late_taken, 0);
    assert_eq!(on_time(&oracle.apply(Op::Finish)), [(i64::MIN, MAX, 3)]);
    // After that there is nothing left to be early for.
    assert_eq!(oracle.times(0, &[3]).late.len(), 1);
}

#[test]
fn every_step_of_a_series_is_a_window() {
    let window = Windows::Cumulate { size: 10, step: 4, offset: 1 };
    let spec = Spec { window, ..spec(Trigger::EventTime) };
    assert_eq!(highwater_oracle::windows(&spec, 5), [(1, 9), (1, 11)]);
    assert_eq!(highwater_oracle::windows(&spec, 0), [(-9, 1)]);
    // MAX - 7 is ...800: the step of 4 fits, that of 8 does not, nor does the last.
    let window = Windows::Cumulate { size: 100, step: 4, offset: 0 };
    assert_eq!(highwater_oracle::windows(&Spec::over(window), MAX - 6), [(MAX - 7, MAX - 3), (MAX - 7, MAX)]);
    let mut oracle = Checked::new(spec);
    // 1 lies in [1, 5), [1, 9), [1, 11); 10 in the last only.
    oracle.times(0, &[1, 10]);
    assert_eq!(on_time(&oracle.apply(Op::Watermark(0, 8))), [(1, 5, 1), (1, 9, 1)]);
    // 2 is late for two steps, and counts in the third.
    assert_eq!(oracle.times(0, &[2]).late, []);
    assert_eq!(oracle.0.counters(0).partly_late, 1);
    assert_eq!(on_time(&oracle.apply(Op::Finish)), [(1, 11, 3)]);
}
