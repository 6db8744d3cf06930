//! What a shard fires in a call.

use std::num::NonZeroU64;

use arrow_array::RecordBatch;

use super::pane::Given;
use crate::accumulator::Accumulator;
use crate::fire::Firing;
use crate::key::Code;

/// The place of a firing in the output of its call. Results come by end, then start. Those of sessions that end together come in
/// the order of events instead, for one of them may have become another; and so do all results where late rows fire one by
/// one, or windows are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    /// What comes first of what follows, most often all that is needed: the end, or where results come in the order of events
    /// the arrival number.
    pub(crate) lead: i64,
    /// The arrival number of the row before which it happens, or which it is due to; none if that is the first row that is
    /// judged by `time` or more, and nobody has looked it up.
    pub(crate) arrival: Option<Arrival>,
    /// Whether the row itself is the cause.
    pub(crate) by_row: bool,
    /// The watermark that was waited for.
    pub(crate) time: i64,
    pub(crate) last: i64,
    pub(crate) first: i64,
    pub(crate) firing: Firing,
    /// The arrival number of the first row of the pane.
    pub(crate) created: u64,
    pub(crate) number: u32,
    /// Retractions come before the result that replaces them.
    pub(crate) result: bool,
}

/// The arrival number of a row, or the end of a call, in a way that leaves room for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival(NonZeroU64);

impl Arrival {
    /// Behind all rows.
    pub(crate) const LAST: Arrival = Arrival(NonZeroU64::MAX);

    pub(crate) fn of(row: u64) -> Self {
        Arrival(NonZeroU64::MIN.saturating_add(row))
    }

    pub(crate) fn row(self) -> u64 {
        self.0.get() - 1
    }
}

/// One result row, or one call of a window function.
#[derive(Clone, Debug)]
pub(crate) struct Emission {
    pub(crate) order: Order,
    pub(crate) code: Code,
    /// Of a retraction, what it takes back.
    pub(crate) given: Option<Box<Given>>,
    pub(crate) origin: Origin,
    pub(crate) null: bool,
}

/// What is said of a firing: of a retraction, what the result said that it takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) firing: Firing,
    pub(crate) number: u32,
}

impl Emission {
    pub(crate) fn said(&self) -> Said {
        let Order { first, last, firing, number, .. } = self.order;
        match &self.given {
            Some(given) => given.said,
            // an end that cannot be said in 64 bits is shown as the highest
            None => Said { start: first, end: last.saturating_add(1), firing, number },
        }
    }

    /// Where its values are, once they have been fetched.
    pub(crate) fn place(&self) -> u32 {
        match self.origin {
            Origin::Ready(place) => place,
            Origin::Slot(_) | Origin::Given(_) => {
                unreachable!("all results of a call are fetched at its end")
            }
        }
    }
}

/// Where its values come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// Still in the contents of the pane.
    Slot(u32),
    /// Among the results that were kept to be taken back.
    Given(u32),
    /// They are there: at this place of the accumulators of [`Emitted`], or among the rows.
    Ready(u32),
}

/// All that a shard fires in a call.
#[derive(Debug, Default)]
pub(crate) struct Emitted {
    pub(crate) entries: Vec<Emission>,
    /// How many of them need nothing from the contents any more.
    pub(crate) ready: usize,
    pub(crate) accumulators: Vec<Box<dyn Accumulator>>,
    /// What window functions gave.
    pub(crate) rows: Vec<RecordBatch>,
}
