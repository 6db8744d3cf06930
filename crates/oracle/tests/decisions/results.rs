//! How the firings of a window relate, and what quiet does.

use highwater_oracle::{Kind, Late, LateFiring, MAX, NONE, Op, ResultMode, Spec, Strategy, Trigger, Windows};

use crate::{Checked, on_time, results};
use Kind::{Early, Late as LateKind, OnTime};

fn spec(result_mode: ResultMode) -> Spec {
    Spec {
        result_mode,
        trigger: Trigger::EarlyCount(2),
        strategy: Strategy::Explicit,
        allowed_lateness: 50,
        late_firing: LateFiring::PerRow,
        ..Spec::tumbling(100)
    }
}

/// Two rows (early), one more, on time, one late.
fn story(result_mode: ResultMode) -> Vec<(i64, i64, Kind, u64, bool, i64)> {
    let mut oracle = Checked::new(spec(result_mode));
    let mut all = results(&oracle.times(0, &[1, 2, 3]));
    all.extend(results(&oracle.apply(Op::Watermark(0, 99))));
    all.extend(results(&oracle.times(0, &[4])));
    all
}

#[test]
fn each_firing_is_the_whole_value() {
    assert_eq!(
        story(ResultMode::Accumulate),
        [(0, 100, Early, 0, false, 2), (0, 100, OnTime, 1, false, 3), (0, 100, LateKind, 2, false, 4)]
    );
}

#[test]
fn each_firing_is_what_came_since_the_last() {
    assert_eq!(
        story(ResultMode::Discard),
        [(0, 100, Early, 0, false, 2), (0, 100, OnTime, 1, false, 1), (0, 100, LateKind, 2, false, 1)]
    );
}

#[test]
fn nothing_new_is_no_firing_of_a_delta() {
    let mut oracle = Checked::new(spec(ResultMode::Discard));
    assert_eq!(results(&oracle.times(0, &[1, 2])).len(), 1);
    assert_eq!(results(&oracle.apply(Op::Watermark(0, 99))), []);
    // It is no firing, so it has no number.
    assert_eq!(results(&oracle.times(0, &[4])), [(0, 100, LateKind, 1, false, 1)]);
}

#[test]
fn a_superseded_result_is_taken_back_word_for_word() {
    assert_eq!(
        story(ResultMode::Retract),
        [
            (0, 100, Early, 0, false, 2),
            (0, 100, Early, 0, true, 2),
            (0, 100, OnTime, 1, false, 3),
            (0, 100, OnTime, 1, true, 3),
            (0, 100, LateKind, 2, false, 4)
        ]
    );
}

#[test]
fn a_retraction_stays_with_what_supersedes_it() {
    // Coalesced: the windows of a call are sorted. Session [0, 10) fired; 15 and 8 make it [0, 25). [12, 22) of the other key
    // would come between by its end, if retractions were sorted on their own.
    let spec = Spec {
        window: Windows::Session { gap: 10 },
        trigger: Trigger::EventTime,
        late_firing: LateFiring::Coalesced,
        ..spec(ResultMode::Retract)
    };
    let mut oracle = Checked::new(spec);
    oracle.times(0, &[0]);
    assert_eq!(results(&oracle.apply(Op::Watermark(0, 9))), [(0, 10, OnTime, 0, false, 1)]);
    oracle.times(0, &[15, 8]);
    let other = highwater_oracle::Row {
        time: Some(12),
        key: vec![highwater_oracle::Value::Int(1)],
        ..highwater_oracle::Row::default()
    };
    oracle.apply(Op::Push(0, vec![other]));
    let output = oracle.apply(Op::Watermark(0, 30));
    assert_eq!(
        results(&output),
        [(12, 22, OnTime, 0, false, 1), (0, 10, OnTime, 0, true, 1), (0, 25, OnTime, 1, false, 3)]
    );
}

#[test]
#[should_panic(expected = "nothing can be retracted")]
fn purging_and_retracting_exclude_each_other() {
    Checked::new(Spec { purging: true, ..spec(ResultMode::Retract) });
}

fn quiet(limit: i64) -> Spec {
    Spec { quiet_flush: Some(limit), strategy: Strategy::Bounded(1000), ..Spec::tumbling(10) }
}

#[test]
fn quiet_fires_what_is_open_and_later_rows_are_late() {
    let mut oracle = Checked::new(quiet(30));
    oracle.apply(Op::AdvanceClock(100));
    oracle.times(0, &[3, 12]);
    assert_eq!(oracle.apply(Op::AdvanceClock(130)).fired, []);
    assert_eq!(on_time(&oracle.apply(Op::AdvanceClock(131))), [(0, 10, 1), (10, 20, 1)]);
    assert_eq!(oracle.0.watermark(), 19);
    // The partition itself has said 12 - 1000 - 1 = -989.
    assert_eq!(oracle.0.partition_watermark(0), -989);
    let output = oracle.times(0, &[15, 25]);
    assert_eq!(output.late, [Late { row: 2, watermark: 19 }]);
    // Quiet again, from the row on.
    assert_eq!(oracle.apply(Op::AdvanceClock(161)).fired, []);
    assert_eq!(on_time(&oracle.apply(Op::AdvanceClock(162))), [(20, 30, 1)]);
}

#[test]
fn quiet_concerns_all_partitions_together_and_starts_with_the_clock() {
    let mut oracle = Checked::new(Spec { partitions: 2, ..quiet(30) });
    oracle.times(0, &[3]);
    assert_eq!(oracle.apply(Op::AdvanceClock(500)).fired, []);
    oracle.apply(Op::AdvanceClock(520));
    oracle.times(1, &[4]);
    assert_eq!(oracle.apply(Op::AdvanceClock(550)).fired, []);
    assert_eq!(on_time(&oracle.apply(Op::AdvanceClock(551))), [(0, 10, 2)]);
}

#[test]
fn marks_and_rejected_rows_are_no_rows() {
    let mut oracle = Checked::new(quiet(30));
    oracle.apply(Op::AdvanceClock(0));
    oracle.times(0, &[3]);
    oracle.apply(Op::AdvanceClock(20));
    oracle.apply(Op::MarkActive(0));
    oracle.apply(Op::Push(0, vec![highwater_oracle::Row { time: None, ..crate::row(0, 1) }]));
    assert_eq!(on_time(&oracle.apply(Op::AdvanceClock(31))), [(0, 10, 1)]);
}

#[test]
fn a_flush_stays_below_the_end_of_input() {
    let mut oracle = Checked::new(quiet(30));
    oracle.apply(Op::AdvanceClock(0));
    // [MAX - 7, MAX] is open at the top: it waits for the end of input, and raises nothing.
    oracle.times(0, &[MAX]);
    let before = oracle.0.watermark();
    assert_eq!(oracle.apply(Op::AdvanceClock(31)).fired, []);
    assert_eq!(oracle.0.watermark(), before);
    assert_eq!(on_time(&oracle.apply(Op::Finish)), [(MAX - 7, MAX, 1)]);
    // Global windows know no other end.
    let mut oracle = Checked::new(Spec { window: Windows::Global, ..quiet(30) });
    oracle.apply(Op::AdvanceClock(0));
    oracle.times(0, &[-5000]);
    assert_eq!(oracle.apply(Op::AdvanceClock(31)).fired, []);
    assert!(oracle.0.watermark() > NONE && oracle.0.watermark() < 0);
}

#[test]
fn partitions_go_on_as_if_nothing_had_been_flushed() {
    let spec =
        Spec { partitions: 2, strategy: Strategy::Explicit, quiet_flush: Some(30), ..Spec::tumbling(10) };
    let mut oracle = Checked::new(spec);
    oracle.apply(Op::AdvanceClock(0));
    oracle.times(0, &[95]);
    oracle.apply(Op::Watermark(0, 5));
    oracle.apply(Op::Watermark(1, 6));
    assert_eq!(on_time(&oracle.apply(Op::AdvanceClock(31))), [(90, 100, 1)]);
    assert_eq!(oracle.0.watermark(), 99);
    // Partition 0 is at 150, but partition 1 holds the minimum at 6: the watermark stays where the flush has put it.
    oracle.times(0, &[120]);
    assert_eq!(oracle.apply(Op::Watermark(0, 150)).fired, []);
    assert_eq!(oracle.0.watermark(), 99);
    assert_eq!(on_time(&oracle.apply(Op::Watermark(1, 140))), [(120, 130, 1)]);
    assert_eq!(oracle.0.watermark(), 140);
}
