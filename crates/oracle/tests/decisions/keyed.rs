//! Timers, pairs, joins and deduplication, beyond what the golden traces pin.

use highwater_oracle::{
    Dedup, DedupWithin, IntervalJoin, Joined, MAX, Pair, Pairs, Part, Side, Timers, Value, Verdict,
    WindowJoin, Windows,
};

use Side::{Left, Right};

fn key(n: i64) -> Vec<Value> {
    vec![Value::Int(n)]
}

/// The timers that a watermark fires, as `(time, key)`.
fn advance(timers: &mut Timers, watermark: i64) -> Vec<(i64, i64)> {
    let mut fired = Vec::new();
    timers.advance(watermark, |_, time, key| {
        let Value::Int(key) = key[0] else { unreachable!("{key:?}") };
        fired.push((time, key));
    });
    fired
}

#[test]
fn timers_fire_in_order_of_time_then_registration() {
    let mut timers = Timers::new();
    for (k, time) in [(3, 10), (1, 10), (2, 9), (3, 10)] {
        timers.register(&key(k), time);
    }
    // The second registration of (3, 10) changes nothing; one after a deletion goes to the end.
    timers.register(&key(4), 10);
    timers.delete(&key(1), 10);
    timers.register(&key(1), 10);
    timers.delete(&key(1), 11);
    assert_eq!(timers.len(), 4);
    assert_eq!(advance(&mut timers, 10), [(9, 2), (10, 3), (10, 4), (10, 1)]);
    assert!(timers.is_empty());
}

#[test]
fn timers_in_the_past_wait_for_an_advance() {
    let mut timers = Timers::new();
    advance(&mut timers, 10);
    timers.register(&key(1), 3);
    timers.register(&key(2), i64::MIN);
    assert_eq!(advance(&mut timers, 10), []);
    assert_eq!(advance(&mut timers, 9), []);
    assert_eq!(timers.watermark(), 10);
    assert_eq!(advance(&mut timers, 11), [(i64::MIN, 2), (3, 1)]);
    timers.register(&key(1), MAX);
    assert_eq!(advance(&mut timers, MAX - 1), []);
    assert_eq!(advance(&mut timers, MAX), [(MAX, 1)]);
}

/// As a watermark the lowest number says that nobody has spoken; a clock that shows it shows a time.
#[test]
fn the_lowest_reading_of_a_clock_is_one() {
    let timers = || {
        let mut timers = Timers::new();
        timers.register(&key(1), i64::MIN);
        timers
    };
    assert_eq!(advance(&mut timers(), i64::MIN), []);
    let (mut timers, mut fired) = (timers(), 0);
    timers.advance_clock(i64::MIN, |_, _, _| fired += 1);
    timers.register(&key(1), i64::MIN);
    timers.advance_clock(i64::MIN, |_, _, _| fired += 1);
    assert_eq!((fired, timers.len()), (1, 1), "a reading that is shown again is no advance");
}

#[test]
fn no_start_and_no_end_is_lost() {
    let mut pairs = Pairs::new(100);
    pairs.start(&key(1), 0);
    pairs.start(&key(1), 10);
    assert_eq!(pairs.end(&key(2), 5), None);
    let part = |row, time| Part { row, time };
    // The end need not be later than the start: nobody looks at it.
    assert_eq!(pairs.end(&key(1), 7), Some(Pair { key: key(1), start: part(1, 10), end: Some(part(3, 7)) }));
    pairs.start(&key(1), 20);
    pairs.validate();
    // The timer of the first start, at 100, fires for nothing; that of the second has been deleted.
    assert_eq!(pairs.advance(119), []);
    assert_eq!(pairs.advance(120), [Pair { key: key(1), start: part(4, 20), end: None }]);
    pairs.validate();
    let c = pairs.counters();
    assert_eq!((c.starts, c.matched, c.abandoned, c.replaced), (3, 1, 1, 1));
    assert_eq!((c.ends, c.unmatched, c.stale_timers), (2, 1, 1));
}

#[test]
fn an_endless_timeout_ends_with_the_input() {
    let mut pairs = Pairs::new(MAX);
    pairs.start(&key(1), 5);
    assert_eq!(pairs.advance(MAX - 1), []);
    assert_eq!(pairs.advance(MAX).len(), 1);
}

fn joined(left: u64, right: u64, time: i64) -> Joined {
    Joined { left, right, time }
}

#[test]
fn both_ends_of_the_interval_count() {
    let mut join = IntervalJoin::new(-2, 5);
    assert_eq!(join.push(Left, &key(1), 10), []);
    assert_eq!(join.push(Right, &key(1), 7), []);
    assert_eq!(join.push(Right, &key(1), 8), [joined(0, 1, 10)]);
    assert_eq!(join.push(Right, &key(1), 15), [joined(0, 2, 15)]);
    assert_eq!(join.push(Right, &key(1), 16), []);
    assert_eq!(join.push(Right, &key(2), 10), []);
    // A second left row meets what is there, in order of arrival: 7 - 9 = -2, 8, and not 15.
    assert_eq!(join.push(Left, &key(1), 9), [joined(1, 0, 9), joined(1, 1, 9)]);
}

#[test]
fn an_interval_may_lie_on_one_side_and_null_is_a_key() {
    let mut join = IntervalJoin::new(1, i64::MAX);
    join.push(Left, &[Value::Null], i64::MIN);
    assert_eq!(join.push(Right, &[Value::Null], i64::MIN), []);
    assert_eq!(join.push(Right, &[Value::Null], -1), [joined(0, 1, -1)]);
    // 0 - MIN is 2^63, one more than the interval allows.
    assert_eq!(join.push(Right, &[Value::Null], 0), []);
}

#[test]
fn rows_behind_the_merged_watermark_are_dropped_and_counted() {
    let mut join = IntervalJoin::new(-10, 10);
    join.push(Left, &key(1), 20);
    join.merge().set(0, 30);
    // The other input has not spoken.
    assert_eq!(join.push(Right, &key(1), 12), [joined(0, 0, 20)]);
    join.merge().set(1, 25);
    assert_eq!(join.watermark(), 25);
    assert_eq!(join.push(Right, &key(1), 25), []);
    assert_eq!(join.push(Right, &key(1), 26), [joined(0, 2, 26)]);
    assert_eq!(join.push(Left, &key(1), 24), []);
    let c = *join.counters(Right);
    assert_eq!((c.rows_in, c.taken, c.dropped_late), (3, 2, 1));
    assert_eq!(join.counters(Left).dropped_late, 1);
    join.merge().finish(0);
    join.merge().finish(1);
    assert_eq!(join.push(Left, &key(1), MAX), []);
}

#[test]
fn a_left_row_is_alone_when_every_partner_would_be_late() {
    let mut join = IntervalJoin::new(-5, 10);
    for (side, k, time) in [(Left, 1, 20), (Left, 2, 19), (Left, 1, 18), (Right, 2, 29)] {
        join.push(side, &key(k), time);
    }
    // left 1 has found right 0; the others have until 30 and 28
    let alone = |join: &mut IntervalJoin| {
        join.alone().into_iter().map(|(key, row)| (key[0].clone(), row)).collect::<Vec<_>>()
    };
    join.merge().set(0, 29);
    join.merge().set(1, 27);
    assert_eq!(alone(&mut join), []);
    join.merge().set(1, 28);
    assert_eq!(alone(&mut join), [(Value::Int(1), 2)]);
    join.merge().finish(0);
    join.merge().finish(1);
    assert_eq!(alone(&mut join), [(Value::Int(1), 0)]);
    assert_eq!(alone(&mut join), []);
    // partners would be 2 to 1 earlier: late by now, though the row is not
    let mut join = IntervalJoin::new(-2, -1);
    join.merge().set(0, 9);
    join.merge().set(1, 9);
    join.push(Left, &key(1), 10);
    assert_eq!(alone(&mut join), [(Value::Int(1), 0)]);
    // there is no time before the lowest
    let mut join = IntervalJoin::new(-2, -1);
    join.push(Left, &key(1), i64::MIN);
    assert_eq!(alone(&mut join), [(Value::Int(1), 0)]);
}

#[test]
fn rows_of_one_window_are_joined_when_it_is_due() {
    let mut join = WindowJoin::new(Windows::Aligned { size: 10, slide: 5, offset: 0 });
    for (side, k, time) in [(Left, 1, 7), (Right, 1, 3), (Right, 1, 9), (Right, 2, 8), (Left, 1, 0)] {
        join.push(side, &key(k), time);
    }
    join.merge().set(0, 9);
    assert_eq!(join.advance(), []);
    join.merge().set(1, 20);
    let pairs = |found: Vec<highwater_oracle::JoinedInWindow>| {
        found.iter().map(|j| (j.start, j.end, j.left, j.right)).collect::<Vec<_>>()
    };
    // [-5, 5) has left 1 (0) and right 0 (3), [0, 10) both left and right 0, 1; key 2 has no left row.
    let expected = [(-5, 5, 1, 0), (0, 10, 0, 0), (0, 10, 0, 1), (0, 10, 1, 0), (0, 10, 1, 1)];
    assert_eq!(pairs(join.advance()), expected);
    // 4 lies in fired windows only; 6 lies in [5, 15) too.
    join.push(Left, &key(1), 4);
    join.push(Left, &key(1), 6);
    join.merge().set(0, 15);
    assert_eq!(pairs(join.advance()), [(5, 15, 0, 1), (5, 15, 3, 1)]);
    let c = join.counters(Left);
    assert_eq!((c.rows_in, c.taken, c.dropped_late), (4, 3, 1));
    join.merge().finish(0);
    join.merge().finish(1);
    assert_eq!(join.advance(), []);
}

#[test]
#[should_panic(expected = "windows that their times tell")]
fn sessions_are_no_windows_to_join_in() {
    WindowJoin::new(Windows::Session { gap: 10 });
}

#[test]
fn the_first_row_of_a_key_in_a_window_is_kept() {
    let window = Windows::Aligned { size: 10, slide: 10, offset: 0 };
    let mut dedup = Dedup::new(window, 5);
    // First by arrival, not by time.
    assert_eq!(dedup.push(&key(1), 7), Verdict::First);
    assert_eq!(dedup.push(&key(1), 3), Verdict::Duplicate);
    assert_eq!(dedup.push(&key(2), 3), Verdict::First);
    assert_eq!(dedup.push(&key(1), 10), Verdict::First);
    assert_eq!(dedup.len(), 3);
    // [0, 10) is kept until 9 + 5.
    dedup.advance(13);
    assert_eq!(dedup.push(&key(1), 4), Verdict::Duplicate);
    dedup.advance(14);
    assert_eq!(dedup.push(&key(1), 4), Verdict::Late);
    assert_eq!(dedup.len(), 1);
    dedup.advance(MAX);
    assert!(dedup.is_empty());
}

#[test]
#[should_panic(expected = "a row must lie in exactly one window")]
fn deduplication_needs_one_window() {
    Dedup::new(Windows::Aligned { size: 10, slide: 5, offset: 0 }, 0);
}

#[test]
fn the_first_row_of_a_key_within_a_horizon_is_kept() {
    let mut dedup = DedupWithin::new(10, 5);
    assert_eq!(dedup.push(&key(1), 100), Verdict::First);
    for (time, verdict) in [(91, Verdict::Duplicate), (90, Verdict::First), (109, Verdict::Duplicate)] {
        assert_eq!(dedup.push(&key(1), time), verdict, "{time}");
    }
    // 119 is less than ten from 110, which has passed, and 110 from nothing that has
    assert_eq!(dedup.push(&key(1), 110), Verdict::First);
    assert_eq!(dedup.push(&key(1), 119), Verdict::Duplicate);
    assert_eq!(dedup.push(&key(2), 119), Verdict::First);
    // 90 is forgotten at 90 + 9 + 5, and so is what a row at 99 might repeat: one at 90 could have passed
    dedup.advance(103);
    assert_eq!(dedup.push(&key(3), 98), Verdict::Late);
    assert_eq!(dedup.push(&key(3), 99), Verdict::First);
    assert_eq!(dedup.len(), 5);
    dedup.advance(104);
    assert_eq!(dedup.push(&key(1), 82), Verdict::Late);
    assert_eq!(dedup.push(&key(1), 92), Verdict::Duplicate, "of 100");
    assert_eq!(dedup.len(), 4);
    dedup.advance(MAX);
    assert!(dedup.is_empty());
    assert_eq!(dedup.push(&key(1), MAX), Verdict::Late);
}
