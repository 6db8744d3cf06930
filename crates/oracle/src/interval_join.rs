//! Rows of two inputs that lie close together in time.

use crate::{Merge, NONE, Reactivation, Value};

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
/// [`AtOnce`](crate::Reactivation::AtOnce). Nothing is ever forgotten here. An engine may forget a left row when the watermark has
/// reached its time + upper, and a right row at its time - lower: whatever could match it is late from then on.
#[derive(Clone, Debug)]
pub struct IntervalJoin {
    lower: i64,
    upper: i64,
    merge: Merge,
    /// Taken rows of both sides: number, time, key.
    kept: [Vec<(u64, i64, Vec<Value>)>; 2],
    counters: [JoinCounters; 2],
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
        let others = &self.kept[1 - side as usize];
        let found =
            others.iter().filter(|(_, _, other)| other == key).filter_map(|&(other, other_time, _)| {
                let (left, right) = match side {
                    Side::Left => ((row, time), (other, other_time)),
                    Side::Right => ((other, other_time), (row, time)),
                };
                let distance = i128::from(right.1) - i128::from(left.1);
                let fits = (i128::from(self.lower)..=i128::from(self.upper)).contains(&distance);
                fits.then_some(Joined { left: left.0, right: right.0, time: time.max(other_time) })
            });
        let found = found.collect();
        self.kept[side as usize].push((row, time, key.to_vec()));
        found
    }
}
