//! What goes in and what comes out.

use crate::Value;

/// One input row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The event time.
    pub time: Option<i64>,
    /// The key columns.
    pub key: Vec<Value>,
    /// The value columns.
    pub values: Vec<Value>,
    /// The reference of [`Guard::IngestTime`](crate::Guard::IngestTime).
    pub ingest_time: Option<i64>,
    /// The watermark that the row proposes under [`Strategy::Punctuated`](crate::Strategy::Punctuated).
    pub marker: Option<i64>,
}

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A batch of rows of one partition.
    Push(usize, Vec<Row>),
    /// Batches, applied in order and together or not at all.
    PushAll(Vec<(usize, Vec<Row>)>),
    /// An explicit watermark of a partition; `MAX` finishes it.
    Watermark(usize, i64),
    /// The partition is idle now.
    MarkIdle(usize),
    /// The partition is active now.
    MarkActive(usize),
    /// The clock shows this; it never moves back.
    AdvanceClock(i64),
    /// Emit what the generators of all partitions propose.
    EmitWatermarks,
    /// The partition has ended.
    FinishPartition(usize),
    /// All partitions have ended.
    Finish,
}

/// Why a window fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Its trigger fired for a row before it was due, or for a time before its last tick.
    Early,
    /// The watermark reached its last tick, or it was full.
    OnTime,
    /// A row made it fire when the watermark had reached its last tick.
    Late,
}

/// One result row.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    /// The key columns.
    pub key: Vec<Value>,
    /// The window's start, clipped to `i64`; of a count window the smallest time in it.
    pub start: i64,
    /// The window's end, clipped to `i64`; of a count window the largest time in it plus one.
    pub end: i64,
    /// Why it fired.
    pub kind: Kind,
    /// How often this window and key have fired before. A session goes on from the largest number of those in it. A
    /// retraction has the number of what it retracts.
    pub number: u64,
    /// Whether this takes back a result: it is that result, word for word, but for this mark.
    pub retraction: bool,
    /// One value per aggregate.
    pub values: Vec<Value>,
}

/// A row that no window took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// The row's running number over all pushes, from 0; rejected rows count.
    pub row: u64,
    /// The merged watermark that it lost to.
    pub watermark: i64,
}

/// Why a row's time is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It has no time.
    NullTime,
    /// Its time is too far ahead of the reference.
    Future,
    /// It has no reference to be compared with.
    NullReference,
}

/// A row that was handed back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The row's running number.
    pub row: u64,
    /// Why.
    pub reason: Reason,
}

/// What one call gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// Results, in order.
    pub fired: Vec<Firing>,
    /// Dropped rows, in order of arrival.
    pub late: Vec<Late>,
    /// Rejected rows, in order of arrival.
    pub rejected: Vec<Rejected>,
}

/// What happened to the rows of one partition.
/// `rows_in = taken + dropped_late + no_window + rejected_null + rejected_future + rejected_reference`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// All rows pushed.
    pub rows_in: u64,
    /// Rows that at least one window took.
    pub taken: u64,
    /// Rows whose windows had all expired.
    pub dropped_late: u64,
    /// Rows in a gap between windows (of time, or of a key's rows).
    pub no_window: u64,
    /// Rows without a time.
    pub rejected_null: u64,
    /// Rows from the future.
    pub rejected_future: u64,
    /// Rows without a reference.
    pub rejected_reference: u64,
    /// Of the taken rows, those that were late.
    pub late_taken: u64,
    /// Of the taken rows, those that some of their windows refused.
    pub partly_late: u64,
    /// Explicit watermarks and markers below the partition's watermark.
    pub watermark_regressions: u64,
}
