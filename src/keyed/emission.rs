//! What a shard fires in a call.

use arrow_array::RecordBatch;

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
    pub(crate) arrival: Option<u64>,
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

/// One result row, or one call of a window function.
#[derive(Clone, Debug)]
pub(crate) struct Emission {
    pub(crate) order: Order,
    pub(crate) code: Code,
    pub(crate) null: bool,
    /// The bounds that are shown.
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// What is said of it: a retraction says what the result said that it takes back.
    pub(crate) firing: Firing,
    pub(crate) number: u32,
    pub(crate) origin: Origin,
    /// Where its values are in the accumulators of [`Emitted`], or its rows among the rows, once they are there.
    pub(crate) at: u32,
}

/// Where its values come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// Still in the contents of the pane.
    Slot(u32),
    /// Among the results that were kept to be taken back.
    Given(u32),
    /// They are there.
    Nowhere,
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
