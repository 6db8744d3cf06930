//! What a partition's rows say about the watermark: the strategies, and when they get a word in.

use std::fmt::Debug;

use arrow_array::RecordBatch;
use arrow_schema::DataType;

use super::marker::check_marker;
use super::{HIGHEST, NONE};
use crate::error::Result;
use crate::time::TimeDelta;

/// How the watermark of a partition follows from its rows.
///
/// ```
/// use highwater::{TimeDelta, watermark::WatermarkStrategy};
/// let strategy = WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_secs(5));
/// assert_eq!(strategy.marker_column(), None);
/// assert_eq!(WatermarkStrategy::punctuated("complete_to").marker_column(), Some("complete_to"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WatermarkStrategy {
    /// Rows come at most this much behind the latest: the maximum event time, minus the bound, minus one tick, so
    /// that a row exactly `bound` behind is still on time. Flink's `BoundedOutOfOrdernessWatermarks`.
    BoundedOutOfOrderness(TimeDelta),
    /// Rows come in order; equal times may follow each other. A bound of zero. Flink's
    /// `AscendingTimestampsWatermarks`.
    Ascending,
    /// The maximum event time minus the delay, without the extra tick. Flink SQL's `ts - INTERVAL`.
    Delay(TimeDelta),
    /// The caller says it; rows propose nothing. Flink's `NoWatermarksGenerator`, with the caller as the source.
    Explicit,
    /// A marker in this column of a row says it: the row's own event time where a Boolean marker is true, or the
    /// marker itself where one of the event-time column's type is not null.
    Punctuated(String),
    /// The user's own.
    Custom(Box<dyn WatermarkGenerator>),
}

impl WatermarkStrategy {
    /// Rows come at most `bound` behind the latest one.
    pub fn bounded_out_of_orderness(bound: impl Into<TimeDelta>) -> Self {
        WatermarkStrategy::BoundedOutOfOrderness(bound.into())
    }
    /// Rows come in order.
    pub fn ascending() -> Self {
        WatermarkStrategy::Ascending
    }
    /// The maximum event time minus `delay`, as Flink SQL has it.
    pub fn delay(delay: impl Into<TimeDelta>) -> Self {
        WatermarkStrategy::Delay(delay.into())
    }
    /// The caller says it.
    pub fn explicit() -> Self {
        WatermarkStrategy::Explicit
    }
    /// Markers in `column` say it.
    pub fn punctuated(column: impl Into<String>) -> Self {
        WatermarkStrategy::Punctuated(column.into())
    }
    /// The user's own generator; every partition gets a copy of it.
    pub fn custom(generator: impl WatermarkGenerator + 'static) -> Self {
        WatermarkStrategy::Custom(Box::new(generator))
    }

    /// The column whose markers decide, if there is one.
    pub fn marker_column(&self) -> Option<&str> {
        match self {
            WatermarkStrategy::Punctuated(column) => Some(column),
            _ => None,
        }
    }

    /// Whether the marker column may have type `marker` next to event times of type `event_time`: Boolean, or the
    /// same type. Strategies without markers do not mind.
    pub fn check_marker(&self, marker: &DataType, event_time: &DataType) -> Result<()> {
        self.marker_column().map_or(Ok(()), |column| check_marker(column, marker, event_time))
    }
}

/// When a partition's generator is asked for its watermark.
///
/// `EveryRow` is exact and the default: what a row does to the watermark holds for the next row. The others are for
/// those who want Flink's periodic emission, where the watermark stands still between two emissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cadence {
    /// After each row.
    #[default]
    EveryRow,
    /// After each batch. The only cadence under which the cut into batches shows.
    EveryBatch,
    /// After each row, but only a watermark that is more than the interval ahead of the last one; the first always.
    /// Flink SQL's row-time assigner with its auto-watermark interval, on event time.
    Every(TimeDelta),
    /// Only when the caller asks for it. Flink's `onPeriodicEmit`, with the caller as the timer.
    OnRequest,
}

/// A user's own way from rows to watermarks. Flink's `WatermarkGenerator`, except that it answers a question
/// ([`watermark`](WatermarkGenerator::watermark)) instead of holding an output.
///
/// It sees each accepted row of its partition once, in order; rows without an event time, or held back by the future
/// guard, it never sees. What it proposes is not trusted: a watermark below the last one is ignored and counted, and
/// [`END`](super::END) is taken as one less. It must be a function of the rows alone, or the same input will not give
/// the same windows twice.
///
/// Ten rows make a claim, and the claim is the lowest of the ten times:
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use highwater::TickUnit;
/// use highwater::watermark::{Cadence, NONE, PartitionWatermark, WatermarkGenerator, WatermarkStrategy};
///
/// #[derive(Clone, Debug)]
/// struct LowestOfTen { lowest: i64, rows: u32, watermark: i64 }
///
/// impl WatermarkGenerator for LowestOfTen {
///     fn on_event(&mut self, timestamp: i64, _batch: &RecordBatch, _row: usize) {
///         self.lowest = self.lowest.min(timestamp);
///         self.rows += 1;
///         if self.rows == 10 {
///             *self = LowestOfTen { lowest: i64::MAX, rows: 0, watermark: self.lowest };
///         }
///     }
///     fn watermark(&self) -> i64 {
///         self.watermark
///     }
///     fn boxed_clone(&self) -> Box<dyn WatermarkGenerator> {
///         Box::new(self.clone())
///     }
/// }
///
/// let strategy = WatermarkStrategy::custom(LowestOfTen { lowest: i64::MAX, rows: 0, watermark: NONE });
/// let mut partition = PartitionWatermark::new(&strategy, Cadence::EveryRow, "ts", TickUnit::Millisecond)?;
/// let times: Vec<i64> = (100..115).rev().collect();
/// let column: ArrayRef = Arc::new(Int64Array::from(times.clone()));
/// let batch = RecordBatch::try_from_iter([("ts", column)])?;
/// let before = partition.observe(&times, &batch, None).watermarks(&times);
/// assert_eq!(before[9], NONE); // the tenth row is judged before it makes the claim,
/// assert_eq!(before[10], 105); // the eleventh after
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait WatermarkGenerator: Debug + Send + Sync {
    /// Takes in one row: its event time, and where to find its other columns.
    fn on_event(&mut self, timestamp: i64, batch: &RecordBatch, row: usize);
    /// The watermark as far as the rows seen so far tell; [`NONE`](super::NONE) if they do not.
    fn watermark(&self) -> i64;
    /// A copy, for a partition of its own, and for what a call that fails goes back to.
    fn boxed_clone(&self) -> Box<dyn WatermarkGenerator>;
    /// What the rows have left behind, for a [snapshot](crate::WindowOperator::snapshot). By default an error: there is no
    /// snapshot of an operator with this generator.
    fn save(&self) -> Result<Vec<u8>, String> {
        Err("its state cannot be saved: WatermarkGenerator::save is not implemented".into())
    }
    /// Takes the state that [`save`](WatermarkGenerator::save) gave, in a generator made as that one was: it must go on as
    /// that one would have. Bytes that cannot be a state are an error.
    fn restore(&mut self, _saved: &[u8]) -> Result<(), String> {
        Err("its state cannot be restored: WatermarkGenerator::restore is not implemented".into())
    }
}

impl Clone for Box<dyn WatermarkGenerator> {
    fn clone(&self) -> Self {
        self.as_ref().boxed_clone()
    }
}

/// How far the watermark stays behind the highest event time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The bound or delay.
    pub ticks: i64,
    /// Whether a row exactly `ticks` behind the highest is still on time: one more tick, then. True for a bound,
    /// false for a delay.
    pub inclusive: bool,
}

impl Lag {
    /// The watermark when `max` is the highest event time; [`NONE`] when there was no row, or when `i64` cannot
    /// hold a watermark that low.
    ///
    /// ```
    /// use highwater::watermark::{END, Lag, NONE};
    /// let bound = Lag { ticks: 5, inclusive: true };
    /// assert_eq!(bound.watermark(100), 94);
    /// assert_eq!(bound.watermark(NONE), NONE);
    /// assert_eq!(Lag { ticks: 0, inclusive: false }.watermark(i64::MAX), END - 1);
    /// ```
    pub fn watermark(self, max: i64) -> i64 {
        max.saturating_sub(self.ticks).saturating_sub(i64::from(self.inclusive)).min(HIGHEST)
    }
}

const _: () = assert!(NONE == i64::MIN, "saturation must end at NONE");
