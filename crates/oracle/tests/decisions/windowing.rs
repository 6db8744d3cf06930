//! Windows at the ends of `i64`, in gaps, with odd offsets.

use highwater_oracle::{MAX, Op, Spec, Strategy, Windows, windows};

use crate::{Checked, on_time};

const MIN: i64 = i64::MIN;

fn sliding(size: i64, slide: i64, offset: i64) -> Spec {
    Spec::over(Windows::Aligned { size, slide, offset })
}

#[test]
fn starts_are_floored_not_truncated() {
    assert_eq!(windows(&Spec::tumbling(10), -1), [(-10, 0)]);
    assert_eq!(windows(&Spec::tumbling(10), -10), [(-10, 0)]);
    assert_eq!(windows(&Spec::tumbling(10), 0), [(0, 10)]);
}

#[test]
fn the_offset_is_taken_modulo_the_slide() {
    // 23 mod 10 = 3, -7 mod 10 = 3: windows start at ..., -7, 3, 13, ...
    for offset in [3, 23, -7] {
        assert_eq!(windows(&sliding(10, 10, offset), 2), [(-7, 3)]);
        assert_eq!(windows(&sliding(10, 10, offset), 3), [(3, 13)]);
    }
}

#[test]
fn a_size_need_not_be_a_multiple_of_the_slide() {
    // Starts 0, 3, 6, 9 hold 9: 0 + 10 > 9.
    assert_eq!(windows(&sliding(10, 3, 0), 9), [(0, 10), (3, 13), (6, 16), (9, 19)]);
    // 0 + 10 does not hold 10.
    assert_eq!(windows(&sliding(10, 3, 0), 10), [(3, 13), (6, 16), (9, 19)]);
}

#[test]
fn a_gap_belongs_to_no_window() {
    // [0, 4), [10, 14): 4 to 9 lie between them.
    assert_eq!(windows(&sliding(4, 10, 0), 3), [(0, 4)]);
    assert_eq!(windows(&sliding(4, 10, 0), 4), []);
    assert_eq!(windows(&sliding(4, 10, 0), 9), []);
    assert_eq!(windows(&sliding(4, 10, 0), 10), [(10, 14)]);
}

#[test]
fn a_gap_row_is_neither_late_nor_dropped_but_moves_the_watermark() {
    let mut oracle = Checked::new(sliding(4, 10, 0));
    oracle.times(0, &[1]);
    // 5 is in a gap; its watermark 4 reaches 3, the last tick of [0, 4).
    assert_eq!(on_time(&oracle.times(0, &[5])), [(0, 4, 1)]);
    // 4 <= 4 would be late, but it is in the gap too.
    let output = oracle.times(0, &[4]);
    assert_eq!(output.late, []);
    let c = oracle.0.counters(0);
    assert_eq!((c.rows_in, c.taken, c.no_window, c.dropped_late, c.late_taken), (3, 1, 2, 0, 0));
}

#[test]
fn bounds_are_clipped_at_both_ends() {
    // MAX = 9223372036854775807: the last multiple of 1000 is ...775000, its end would be ...776000.
    assert_eq!(windows(&Spec::tumbling(1000), MAX), [(9223372036854775000, MAX)]);
    // MIN = -9223372036854775808 lies in [...776000, ...775000), whose start does not fit.
    assert_eq!(windows(&Spec::tumbling(1000), MIN), [(MIN, -9223372036854775000)]);
    // The largest size: one window of 2^63 - 1 ticks from 0, which leaves MAX to the next.
    assert_eq!(windows(&Spec::tumbling(MAX), MAX - 1), [(0, MAX)]);
    assert_eq!(windows(&Spec::tumbling(MAX), MAX), [(MAX, MAX)]);
    // Below: -MAX is the start of [-MAX, 0), and MIN = -MAX - 1 belongs to the one before.
    assert_eq!(windows(&Spec::tumbling(MAX), MIN), [(MIN, -MAX)]);
}

#[test]
fn windows_with_one_clipped_end_stay_distinct() {
    // Starts ...800, ...805 (MAX = ...807): the ends ...810 and ...815 are both clipped to MAX.
    let spec = Spec { strategy: Strategy::Explicit, ..sliding(10, 5, 0) };
    let (a, b) = (MAX - 7, MAX - 2);
    assert_eq!(windows(&spec, MAX), [(a, MAX), (b, MAX)]);
    let mut oracle = Checked::new(spec);
    oracle.times(0, &[MAX, MAX - 3]);
    // MAX - 3 = ...804 lies in [...795, ...805), due at ...804, and in the open window from ...800.
    let output = oracle.apply(Op::Watermark(0, MAX - 1));
    assert_eq!(on_time(&output), [(MAX - 12, MAX - 2, 1)]);
    assert_eq!(on_time(&oracle.apply(Op::Finish)), [(a, MAX, 2), (b, MAX, 1)]);
}

#[test]
fn an_exact_end_at_the_maximum_is_not_open() {
    // [MAX - 1, MAX) of size 1 is due at MAX - 1; [MAX, MAX + 1) is clipped, and due at the end of input only.
    let mut oracle = Checked::new(Spec { strategy: Strategy::Explicit, ..Spec::tumbling(1) });
    oracle.times(0, &[MAX - 1, MAX]);
    assert_eq!(on_time(&oracle.apply(Op::Watermark(0, MAX - 1))), [(MAX - 1, MAX, 1)]);
    assert_eq!(on_time(&oracle.apply(Op::Finish)), [(MAX, MAX, 1)]);
}

#[test]
fn the_first_tick_is_a_time_like_any_other() {
    // [MIN, MIN + 1) has its last tick at MIN, but a watermark of MIN is "none": it is due at MIN + 1.
    let mut oracle = Checked::new(Spec { strategy: Strategy::Explicit, ..Spec::tumbling(1) });
    oracle.times(0, &[MIN]);
    assert_eq!(on_time(&oracle.apply(Op::Watermark(0, MIN))), []);
    assert_eq!(on_time(&oracle.apply(Op::Watermark(0, MIN + 1))), [(MIN, MIN + 1, 1)]);
    assert_eq!(oracle.times(0, &[MIN]).late.len(), 1);
}
