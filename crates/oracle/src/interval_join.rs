//! Rows of two inputs that lie close together in time.

use crate::{Merge, NONE, Reactivation, Timers, Value};

/// An input of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that the interval is relative to.
    Left,
    /// The other.
    Right,
}

/// Two rows that belong together, by their running numbers in their inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The left row.
    pub left: u64,
    /// The right row.
    pub right: u64,
    /// The larger of their times: that of the result.
    pub time: i64,
}

/// What became of the rows of one input: `rows_in = taken + dropped_late + no_window`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinCounters {
    /// All rows.
    pub rows_in: u64,
    /// Rows that could find partners.
    pub taken: u64,
    /// Late rows.
    pub dropped_late: u64,
    /// Rows in a gap between windows; an interval has none.
    pub no_window: u64,
}

/// Joins rows of equal keys (null equals null) with `left + lower <= right <= left + upper`, both inclusive, as soon as both
/// are there. In pseudo-code:
///
/// ```text
/// row: if its time <= the merged watermark: it is late; drop it
///      join it with every row of the other side that fits, in order of arrival
///      keep it
/// ```
///
/// The watermark of the result is the minimum of the two inputs', by the rule
/// [`AtOnce`](crate::Reactivation::AtOnce). Nothing is ever forgotten here once it is kept. An engine may forget a left row when the watermark has
/// reached its time + upper, and a right row at its time - lower: whatever could match it is late from then on.
///
/// This is also when it is known of a left row that it has no partner ([`alone`](IntervalJoin::alone)): at once if that
/// moment is over, else by a timer. Each row has a timer of its key for this moment, a right one too, and the left rows of a
/// timer come in order of their times, then of arrival.
#[derive(Clone, Debug)]
pub struct IntervalJoin {
    lower: i64,
    upper: i64,
    merge: Merge,
    /// Rows of both sides that may find a partner.
    kept: [Vec<Kept>; 2],
    timers: Timers,
    /// Left rows without a partner that nobody has asked for, with their keys.
    alone: Vec<(Vec<Value>, u64)>,
    counters: [JoinCounters; 2],
}

#[derive(Clone, Debug)]
struct Kept {
    row: u64,
    time: i64,
    key: Vec<Value>,
    /// The first watermark at which every partner would be late, or the end.
    until: i64,
    matched: bool,
}

impl IntervalJoin {
    /// Panics if the interval is empty.
    pub fn new(lower: i64, upper: i64) -> IntervalJoin {
        assert!(lower <= upper, "no time lies in an interval from {lower} to {upper}");
        IntervalJoin {
            lower,
            upper,
            merge: Merge::new(2, Reactivation::AtOnce),
            kept: [vec![], vec![]],
            timers: Timers::new(),
            alone: vec![],
            counters: [JoinCounters::default(); 2],
        }
    }

    /// The merged watermark, before which no result will come.
    pub fn watermark(&self) -> i64 {
        self.merge.watermark()
    }

    /// The inputs' watermarks, to be moved by the caller.
    pub fn merge(&mut self) -> &mut Merge {
        &mut self.merge
    }

    /// What became of an input's rows.
    pub fn counters(&self, side: Side) -> &JoinCounters {
        &self.counters[side as usize]
    }

    /// A row, and what it gives.
    pub fn push(&mut self, side: Side, key: &[Value], time: i64) -> Vec<Joined> {
        let watermark = self.merge.watermark();
        let counters = &mut self.counters[side as usize];
        let row = counters.rows_in;
        counters.rows_in += 1;
        if watermark != NONE && time <= watermark {
            counters.dropped_late += 1;
            return vec![];
        }
        counters.taken += 1;
        let [mut lefts, mut rights] = std::mem::take(&mut self.kept);
        let (kept, others, until) = match side {
            Side::Left => (&mut lefts, &mut rights, i128::from(time) + i128::from(self.upper)),
            Side::Right => (&mut rights, &mut lefts, i128::from(time) - i128::from(self.lower)),
        };
        let mut found = Vec::new();
        for other in others.iter_mut().filter(|other| other.key == key) {
            let (left, right) = match side {
                Side::Left => ((row, time), (other.row, other.time)),
                Side::Right => ((other.row, other.time), (row, time)),
            };
            let distance = i128::from(right.1) - i128::from(left.1);
            if (i128::from(self.lower)..=i128::from(self.upper)).contains(&distance) {
                other.matched = true;
                found.push(Joined { left: left.0, right: right.0, time: time.max(other.time) });
            }
        }
        let matched = !found.is_empty();
        if until < i128::from(i64::MIN) || watermark != NONE && until <= i128::from(watermark) {
            self.alone.extend((side == Side::Left && !matched).then(|| (key.to_vec(), row)));
        } else {
            let until = i64::try_from(until).unwrap_or(i64::MAX);
            self.timers.register(key, until);
            kept.push(Kept { row, time, key: key.to_vec(), until, matched });
        }
        self.kept = [lefts, rights];
        found
    }

    /// Left rows that have found no partner and cannot find one any more, as far as the merged watermark says, with their keys: those
    /// of the last [`push`](IntervalJoin::push), and those that the watermark has reached since.
    pub fn alone(&mut self) -> Vec<(Vec<Value>, u64)> {
        let mut alone = std::mem::take(&mut self.alone);
        let lefts = &self.kept[0];
        self.timers.advance(self.merge.watermark(), |_, moment, key| {
            let of_timer = |left: &&Kept| left.key == key && !left.matched && left.until == moment;
            let mut of_timer: Vec<&Kept> = lefts.iter().filter(of_timer).collect();
            of_timer.sort_by_key(|left| (left.time, left.row));
            alone.extend(of_timer.iter().map(|left| (key.to_vec(), left.row)));
        });
        alone
    }
}
