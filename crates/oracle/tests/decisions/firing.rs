//! When windows fire, fire again, and expire.

use highwater_oracle::{
    Cadence, Function, Kind, Late, LateFiring, MAX, Op, Row, Spec, Strategy, Value, Windows,
};

use crate::{Checked, fired, on_time, row};
use Kind::{Late as LateKind, OnTime};

fn explicit(size: i64, lateness: i64, late_firing: LateFiring) -> Spec {
    Spec { strategy: Strategy::Explicit, allowed_lateness: lateness, late_firing, ..Spec::tumbling(size) }
}

fn by_five() -> Windows {
    Windows::Aligned { size: 10, slide: 5, offset: 0 }
}

#[test]
fn a_window_is_due_at_its_last_tick() {
    let mut oracle = Checked::new(explicit(10, 0, LateFiring::PerRow));
    oracle.times(0, &[3]);
    assert_eq!(on_time(&oracle.apply(Op::Watermark(0, 8))), []);
    assert_eq!(on_time(&oracle.apply(Op::Watermark(0, 9))), [(0, 10, 1)]);
    // Expired at once, for want of lateness.
    let output = oracle.times(0, &[3]);
    assert_eq!(output.late, [Late { row: 1, watermark: 9 }]);
    assert_eq!(on_time(&oracle.apply(Op::Finish)), []);
}

#[test]
fn a_window_expires_at_its_last_tick_plus_the_lateness() {
    let mut oracle = Checked::new(explicit(10, 5, LateFiring::PerRow));
    oracle.times(0, &[3]);
    oracle.apply(Op::Watermark(0, 13));
    // 9 + 5 = 14 > 13: open still.
    assert_eq!(fired(&oracle.times(0, &[4])), [(0, 10, LateKind, Value::Int(2))]);
    oracle.apply(Op::Watermark(0, 14));
    assert_eq!(oracle.times(0, &[4]).late, [Late { row: 2, watermark: 14 }]);
    let c = oracle.0.counters(0);
    assert_eq!((c.taken, c.late_taken, c.partly_late, c.dropped_late), (2, 1, 0, 1));
}

#[test]
fn an_unlimited_lateness_ends_with_the_input() {
    // 9 + MAX saturates at MAX.
    let mut oracle = Checked::new(explicit(10, MAX, LateFiring::PerRow));
    oracle.apply(Op::Watermark(0, MAX - 1));
    assert_eq!(fired(&oracle.times(0, &[4])), [(0, 10, LateKind, Value::Int(1))]);
    oracle.apply(Op::Finish);
    assert_eq!(oracle.times(0, &[4]).late, [Late { row: 1, watermark: MAX }]);
}

#[test]
fn a_late_row_makes_a_window_that_never_fired_fire_late() {
    let mut oracle = Checked::new(explicit(10, 5, LateFiring::PerRow));
    oracle.apply(Op::Watermark(0, 10));
    assert_eq!(fired(&oracle.times(0, &[3])), [(0, 10, LateKind, Value::Int(1))]);
    // It was due already: no on-time firing follows.
    assert_eq!(oracle.apply(Op::Finish).fired, []);
}

#[test]
fn a_late_row_in_an_open_window_waits_for_it() {
    // 12 <= 15 is late, but [10, 20) is not due before 19.
    let mut oracle = Checked::new(explicit(10, 0, LateFiring::PerRow));
    oracle.apply(Op::Watermark(0, 15));
    assert_eq!(oracle.times(0, &[12]).fired, []);
    assert_eq!(oracle.0.counters(0).late_taken, 1);
    assert_eq!(on_time(&oracle.apply(Op::Watermark(0, 19))), [(10, 20, 1)]);
}

#[test]
fn a_row_can_be_late_for_some_windows_only() {
    // Size 10, slide 5, lateness 0, watermark 9: 7 lies in [0, 10), expired (9 >= 9), and [5, 15), not due.
    let mut oracle = Checked::new(Spec { window: by_five(), ..explicit(10, 0, LateFiring::PerRow) });
    oracle.apply(Op::Watermark(0, 9));
    let output = oracle.times(0, &[7]);
    assert_eq!((output.fired, output.late), (vec![], vec![]));
    let c = oracle.0.counters(0);
    assert_eq!((c.taken, c.late_taken, c.partly_late, c.dropped_late), (1, 1, 1, 0));
    assert_eq!(on_time(&oracle.apply(Op::Finish)), [(5, 15, 1)]);
}

#[test]
fn per_row_fires_each_late_row_in_each_due_window() {
    // Size 10, slide 5, lateness 20, watermark 14: both windows of 7 are due (ends 10 and 15), none has expired
    // (9 + 20 = 29). Row 0 has fired in [0, 10) and [-5, 5) by then.
    let mut oracle = Checked::new(Spec { window: by_five(), ..explicit(10, 20, LateFiring::PerRow) });
    oracle.times(0, &[2]);
    assert_eq!(on_time(&oracle.apply(Op::Watermark(0, 14))), [(-5, 5, 1), (0, 10, 1)]);
    let late = |start, end, count| (start, end, LateKind, Value::Int(count));
    assert_eq!(
        fired(&oracle.times(0, &[7, 8])),
        [late(0, 10, 2), late(5, 15, 1), late(0, 10, 3), late(5, 15, 2)]
    );
}

#[test]
fn coalesced_fires_each_changed_window_once_per_call() {
    let mut oracle = Checked::new(Spec { window: by_five(), ..explicit(10, 20, LateFiring::Coalesced) });
    oracle.times(0, &[2]);
    oracle.apply(Op::Watermark(0, 14));
    let late = |start, end, count| (start, end, LateKind, Value::Int(count));
    assert_eq!(fired(&oracle.times(0, &[7, 8])), [late(0, 10, 3), late(5, 15, 2)]);
    // One call of several batches is one call.
    let batches = vec![(0, vec![row(7, 1)]), (0, vec![row(8, 1)])];
    assert_eq!(fired(&oracle.apply(Op::PushAll(batches))), [late(0, 10, 5), late(5, 15, 4)]);
    assert_eq!(oracle.apply(Op::Watermark(0, 15)).fired, []);
}

#[test]
fn coalesced_fires_before_the_window_expires() {
    // Ascending, lateness 5. The rows of one call: 3, 10 (W = 9: [0, 10) on time), 4 (late), 20 (W = 19 expires it,
    // 9 + 5 = 14, and [10, 20) is on time), 5 (dropped).
    let spec = Spec { allowed_lateness: 5, ..Spec::tumbling(10) };
    let mut oracle = Checked::new(spec);
    let output = oracle.times(0, &[3, 10, 4, 20, 5]);
    assert_eq!(
        fired(&output),
        [(0, 10, OnTime, Value::Int(1)), (0, 10, LateKind, Value::Int(2)), (10, 20, OnTime, Value::Int(1))]
    );
    assert_eq!(output.late, [Late { row: 4, watermark: 19 }]);
}

#[test]
fn coalesced_sorts_the_firings_of_a_call() {
    // Lateness 100. 3, 10 (W = 9: [0, 10)), 4 (late), 20 (W = 19: [10, 20)); the late firing comes at the end of the
    // call and is sorted back to its window.
    let mut oracle = Checked::new(Spec { allowed_lateness: 100, ..Spec::tumbling(10) });
    let kinds: Vec<_> = oracle.times(0, &[3, 10, 4, 20]).fired.iter().map(|f| (f.start, f.kind)).collect();
    assert_eq!(kinds, [(0, OnTime), (0, LateKind), (10, OnTime)]);
}

#[test]
fn a_late_row_fires_its_key_only() {
    let keyed = |time, key: &str| Row { key: vec![Value::Text(key.to_owned())], ..row(time, 1) };
    let mut oracle = Checked::new(explicit(10, 5, LateFiring::PerRow));
    oracle.apply(Op::Push(0, vec![keyed(1, "b"), keyed(1, "a")]));
    let output = oracle.apply(Op::Watermark(0, 9));
    let keys: Vec<_> = output.fired.iter().map(|f| f.key.clone()).collect();
    assert_eq!(keys, [[Value::Text("a".to_owned())], [Value::Text("b".to_owned())]]);
    let output = oracle.apply(Op::Push(0, vec![keyed(2, "b")]));
    assert_eq!(output.fired.len(), 1);
    assert_eq!(output.fired[0].key, [Value::Text("b".to_owned())]);
}

#[test]
fn a_row_is_judged_by_the_watermark_before_it() {
    // Bound 0: 10 makes W = 9, 9 itself is then late and dropped, in whatever batches they come.
    let mut oracle = Checked::new(Spec::tumbling(5));
    let output = oracle.times(0, &[10, 9]);
    assert_eq!(output.late, [Late { row: 1, watermark: 9 }]);
    // Every batch: the watermark stays at "none" until the end of the batch, so both are taken, and 9 fires then.
    let mut oracle = Checked::new(Spec { cadence: Cadence::EveryBatch, ..Spec::tumbling(5) });
    assert_eq!(on_time(&oracle.times(0, &[10, 9])), [(5, 10, 1)]);
}

#[test]
fn a_sum_that_does_not_fit_names_window_and_key() {
    let spec = Spec { aggregates: vec![(Function::Sum, 0)], ..explicit(10, 0, LateFiring::PerRow) };
    let mut oracle = Checked::new(spec);
    let key = vec![Value::Int(7)];
    let rows = [MAX, 1].map(|v| Row { key: key.clone(), ..row(3, v) });
    oracle.apply(Op::Push(0, rows.to_vec()));
    let problem = oracle.0.apply(&Op::Finish).expect_err("too large");
    assert_eq!(problem, "window [0, 10), key [Int(7)]: the sum 9223372036854775808 does not fit i64");
}
