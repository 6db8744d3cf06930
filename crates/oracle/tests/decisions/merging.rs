//! Several partitions: minimum, idleness, reactivation, the end, alignment.

use Reactivation::{AtOnce, WhenCaughtUp};
use highwater_oracle::{Cadence, MAX, Merge, NONE, Op, Reactivation, Spec, Strategy};

use crate::{Checked, on_time, row};

fn spec(partitions: usize, strategy: Strategy, reactivation: Reactivation) -> Spec {
    Spec { partitions, strategy, reactivation, ..Spec::tumbling(1000) }
}

#[test]
fn one_that_has_not_spoken_holds_unless_idle() {
    for rule in [AtOnce, WhenCaughtUp] {
        let mut oracle = Checked::new(spec(3, Strategy::Delay(0), rule));
        oracle.times(0, &[10]);
        oracle.times(1, &[20]);
        assert_eq!(oracle.0.watermark(), NONE);
        oracle.apply(Op::MarkIdle(2));
        // The valve looks further only if the idle one held the merged watermark: NONE == NONE, so it did.
        assert_eq!(oracle.0.watermark(), 10);
    }
}

#[test]
fn all_idle_moves_to_the_maximum() {
    // 10 and 20; the one at 10 goes idle first: 20. Then the last: the maximum is 20.
    // The other way round: 20 goes idle first, and 10 stays. Then 10 == merged: the maximum, 20, comes out.
    for rule in [AtOnce, WhenCaughtUp] {
        for order in [[0, 1], [1, 0]] {
            let mut merge = Merge::new(2, rule);
            merge.set(0, 10);
            merge.set(1, 20);
            order.into_iter().for_each(|p| merge.idle(p));
            assert_eq!((merge.watermark(), merge.all_idle()), (20, true));
        }
    }
}

#[test]
fn the_valve_flushes_only_if_the_last_one_held_the_minimum() {
    // 10, 50, 30: 10 idles (30 comes out) and is active again, behind: left out. 50 idles, then 30 idles: it held the
    // minimum, but the one at 10 is active. Now that one idles: its 10 is not the merged 30, so 50 is not flushed.
    let replay = |rule| {
        let mut merge = Merge::new(3, rule);
        [10, 50, 30].into_iter().enumerate().for_each(|(p, w)| merge.set(p, w));
        merge.idle(0);
        merge.active(0);
        [1, 2, 0].into_iter().for_each(|p| merge.idle(p));
        merge.watermark()
    };
    assert_eq!((replay(WhenCaughtUp), replay(AtOnce)), (30, 50));
}

#[test]
fn one_that_wakes_up_behind_rejoins_by_rule() {
    // Delay 0: watermarks are times. 0 idles at 10, 1 goes on to 100; then 0 comes back with 50.
    let replay = |rule| {
        let mut oracle = Checked::new(spec(2, Strategy::Delay(0), rule));
        oracle.times(0, &[10]);
        oracle.times(1, &[100]);
        oracle.apply(Op::MarkIdle(0));
        oracle.times(0, &[50]);
        assert!(!oracle.0.is_idle(0));
        oracle.times(1, &[200]);
        let behind = oracle.0.watermark();
        oracle.times(0, &[150]);
        (behind, oracle.0.watermark())
    };
    // At once: 50 counts, and holds 100 until 150. When caught up: 200 comes out without it, and 150 is behind still.
    assert_eq!(replay(AtOnce), (100, 150));
    assert_eq!(replay(WhenCaughtUp), (200, 200));
}

#[test]
fn an_old_row_wakes_its_partition_only_at_once() {
    for (rule, idle) in [(AtOnce, false), (WhenCaughtUp, true)] {
        let mut oracle = Checked::new(spec(2, Strategy::Delay(0), rule));
        oracle.times(0, &[10]);
        oracle.apply(Op::MarkIdle(0));
        oracle.times(0, &[10]);
        assert_eq!(oracle.0.is_idle(0), idle);
        // A rejected row is no sign of life under either rule.
        oracle.apply(Op::MarkIdle(0));
        oracle.apply(Op::Push(0, vec![highwater_oracle::Row { time: None, ..row(0, 1) }]));
        assert!(oracle.0.is_idle(0));
    }
}

#[test]
fn an_explicit_watermark_wakes_its_partition() {
    for (rule, idle) in [(AtOnce, false), (WhenCaughtUp, true)] {
        let mut oracle = Checked::new(spec(2, Strategy::Explicit, rule));
        oracle.apply(Op::Watermark(0, 10));
        oracle.apply(Op::MarkIdle(0));
        oracle.apply(Op::Watermark(0, 10));
        assert_eq!(oracle.0.is_idle(0), idle);
        oracle.apply(Op::Watermark(0, 11));
        assert!(!oracle.0.is_idle(0));
        assert_eq!(oracle.watermarks(2), [11, NONE]);
    }
}

#[test]
fn the_bare_valve_ignores_a_watermark_of_an_idle_partition() {
    let mut merge = Merge::new(1, WhenCaughtUp);
    merge.idle(0);
    merge.set(0, 10);
    assert_eq!((merge.own(0), merge.is_idle(0)), (NONE, true));
    let mut merge = Merge::new(1, AtOnce);
    merge.idle(0);
    merge.set(0, 10);
    assert_eq!((merge.own(0), merge.is_idle(0)), (10, false));
}

#[test]
fn a_finished_partition_is_left_out() {
    for rule in [AtOnce, WhenCaughtUp] {
        let mut oracle = Checked::new(spec(2, Strategy::Delay(0), rule));
        oracle.times(0, &[10]);
        assert_eq!(oracle.0.watermark(), NONE);
        oracle.apply(Op::FinishPartition(1));
        assert_eq!(oracle.0.watermark(), 10);
        // Where Flink would end the stream, the merged watermark stays.
        oracle.apply(Op::MarkIdle(0));
        assert_eq!(oracle.0.watermark(), 10);
        oracle.times(0, &[11]);
        assert_eq!((oracle.0.watermark(), oracle.watermarks(2)), (11, vec![11, MAX]));
        assert_eq!(on_time(&oracle.apply(Op::FinishPartition(0))), [(0, 1000, 2)]);
        assert_eq!(oracle.0.watermark(), MAX);
    }
}

#[test]
fn the_last_active_one_finishes_as_if_it_went_idle() {
    for rule in [AtOnce, WhenCaughtUp] {
        // 10 holds the minimum, 30 is idle: when 10 leaves, 30 comes out. Its own last word does not count.
        let mut merge = Merge::new(2, rule);
        merge.set(0, 10);
        merge.set(1, 30);
        merge.idle(1);
        merge.finish(0);
        assert_eq!((merge.watermark(), merge.all_idle(), merge.is_idle(0)), (30, true, false));
        merge.finish(1);
        assert_eq!((merge.watermark(), merge.all_idle()), (MAX, false));
    }
}

#[test]
fn rows_of_a_finished_partition_are_judged_and_move_nothing() {
    let mut oracle = Checked::new(spec(2, Strategy::Delay(0), WhenCaughtUp));
    oracle.times(1, &[10]);
    oracle.apply(Op::FinishPartition(0));
    oracle.times(0, &[5000]);
    assert_eq!((oracle.0.watermark(), oracle.0.counters(0).taken), (10, 1));
    let output = oracle.apply(Op::Finish);
    assert_eq!(on_time(&output), [(0, 1000, 1), (5000, 6000, 1)]);
    assert_eq!(oracle.times(1, &[6]).late[0].watermark, MAX);
}

#[test]
fn idle_means_strictly_longer_than_the_timeout() {
    let idle_timeout = Some(100);
    let mut oracle = Checked::new(Spec { idle_timeout, ..spec(2, Strategy::Delay(0), WhenCaughtUp) });
    oracle.times(0, &[10]);
    // The first reading starts the clock for both.
    oracle.apply(Op::AdvanceClock(-50));
    oracle.apply(Op::AdvanceClock(0));
    oracle.times(0, &[5]);
    oracle.apply(Op::AdvanceClock(50));
    assert!(!oracle.0.is_idle(1)); // 50 - -50 = 100
    oracle.apply(Op::AdvanceClock(51));
    assert!(oracle.0.is_idle(1)); // 101
    assert_eq!(oracle.0.watermark(), 10);
    // The old row at clock 0 was activity.
    oracle.apply(Op::AdvanceClock(100));
    assert!(!oracle.0.is_idle(0));
    oracle.apply(Op::AdvanceClock(101));
    assert!(oracle.0.is_idle(0));
    // Marked active at 101; an older reading is no reading. A finished partition does not go idle.
    oracle.apply(Op::MarkActive(0));
    oracle.apply(Op::FinishPartition(1));
    oracle.apply(Op::AdvanceClock(0));
    oracle.apply(Op::AdvanceClock(201));
    assert!(!oracle.0.is_idle(0) && !oracle.0.is_idle(1));
    oracle.apply(Op::AdvanceClock(i64::MAX));
    assert!(oracle.0.is_idle(0) && !oracle.0.is_idle(1));
}

#[test]
fn the_clock_marks_in_order_of_partitions() {
    // 30 and 10, both quiet. The valve: 0 goes idle first (30 is not the merged 10), then 1 (10 is): 30 comes out.
    let idle_timeout = Some(5);
    let mut oracle = Checked::new(Spec { idle_timeout, ..spec(2, Strategy::Delay(0), WhenCaughtUp) });
    oracle.times(0, &[30]);
    oracle.times(1, &[10]);
    oracle.apply(Op::AdvanceClock(0));
    oracle.apply(Op::AdvanceClock(6));
    assert_eq!(oracle.0.watermark(), 30);
}

#[test]
fn on_request_the_merged_watermark_moves_once() {
    // The valve: 1 idles at 10, 0 is at 100 and the merged watermark with it. Then 0 sees 200 and 1 sees 150. One
    // after the other, 200 would come out first and leave 1 behind; together 1 has caught up, and holds 150.
    let cadence = Cadence::OnRequest;
    let mut oracle = Checked::new(Spec { cadence, ..spec(2, Strategy::Delay(0), WhenCaughtUp) });
    oracle.times(1, &[10]);
    oracle.times(0, &[100]);
    oracle.apply(Op::EmitWatermarks);
    oracle.apply(Op::MarkIdle(1));
    assert_eq!(oracle.0.watermark(), 100);
    oracle.times(0, &[200]);
    oracle.times(1, &[150]);
    oracle.apply(Op::EmitWatermarks);
    assert_eq!((oracle.0.watermark(), oracle.watermarks(2)), (150, vec![200, 150]));
    assert!(!oracle.0.is_idle(1));
}

#[test]
fn those_too_far_ahead_should_pause() {
    let mut oracle = Checked::new(Spec { max_drift: Some(50), ..spec(4, Strategy::Delay(0), WhenCaughtUp) });
    oracle.times(0, &[10]);
    oracle.times(1, &[60]);
    oracle.times(2, &[61]);
    // 10 + 50 = 60 < 61. Partition 3 has not spoken and does not count.
    assert_eq!(oracle.0.paused(), [2]);
    // Without 0 the slowest is 60.
    oracle.apply(Op::MarkIdle(0));
    assert_eq!(oracle.0.paused(), []);
    oracle.times(0, &[5]);
    oracle.apply(Op::MarkActive(0));
    assert_eq!(oracle.0.paused(), [2]);
    // An idle or finished one is not told to pause.
    oracle.apply(Op::MarkIdle(2));
    assert_eq!(oracle.0.paused(), []);
    oracle.apply(Op::MarkActive(2));
    oracle.apply(Op::FinishPartition(2));
    assert_eq!(oracle.0.paused(), []);
}

#[test]
fn a_drift_beyond_the_maximum_saturates() {
    let mut oracle = Checked::new(Spec { max_drift: Some(MAX), ..spec(2, Strategy::Delay(0), WhenCaughtUp) });
    oracle.times(0, &[10]);
    oracle.times(1, &[MAX]);
    assert_eq!(oracle.0.paused(), []);
}
