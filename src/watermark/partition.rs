//! One partition's watermark: a generator behind its cadence.
//!
//! ```text
//! for each row:
//!     before[row] = emitted              the row is judged by this
//!     generator takes the row in         and only then may move it
//!     if the cadence says so and proposal > emitted: emitted = proposal
//! ```
//! That is what [`PartitionWatermark::observe`] means for every strategy and cadence. For the common case, the highest
//! event time minus a lag after every row, `before` is the running maximum of what came earlier minus the lag; it is
//! left to the reader to expand ([`Before::RunningMax`]), who can often judge a whole run of rows by its two ends, and
//! the state moves by one pass over the times that has no dependency between rows but the maximum.

use arrow_array::{ArrayRef, RecordBatch};

use super::generator::{Cadence, Lag, WatermarkGenerator, WatermarkStrategy};
use super::marker::Markers;
use super::{HIGHEST, NONE};
use crate::error::Result;
use crate::time::{TickConverter, TickUnit};

/// The watermark of one partition, as its rows and its cadence make it.
///
/// ```
/// use arrow_array::RecordBatch;
/// use arrow_schema::Schema;
/// use highwater::watermark::{Cadence, NONE, PartitionWatermark, WatermarkStrategy};
/// use highwater::{TickUnit, TimeDelta};
///
/// let strategy = WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_millis(10));
/// let mut partition = PartitionWatermark::new(&strategy, Cadence::EveryRow, "ts", TickUnit::Millisecond)?;
/// let rest_of_the_columns = RecordBatch::new_empty(Schema::empty().into());
/// let times = [100, 120, 110];
/// let before = partition.observe(&times, &rest_of_the_columns, None);
/// assert_eq!(before.watermarks(&times), [NONE, 89, 109]);
/// assert_eq!(partition.emitted(), 109);
/// # Ok::<(), highwater::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PartitionWatermark {
    pub(super) source: Source,
    pace: Pace,
    pub(super) emitted: i64,
    pub(super) regressions: u64,
}

/// A strategy, with its state and in ticks.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Highest { max: i64, lag: Lag },
    Explicit,
    Punctuated { highest: i64 },
    Custom(Box<dyn WatermarkGenerator>),
}

/// A cadence in ticks.
#[derive(Clone, Copy, Debug)]
enum Pace {
    EveryRow,
    EveryBatch,
    Every(i64),
    OnRequest,
}

/// The watermark that a partition had emitted before each row of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// The same before all rows.
    Constant(i64),
    /// The lag behind the highest event time of all earlier rows.
    RunningMax {
        /// The highest event time before the first row; [`NONE`] if there was no row.
        max: i64,
        /// How far the watermark stays behind it.
        lag: Lag,
    },
    /// Row by row.
    Each(Vec<i64>),
}

impl Before {
    /// One watermark a row, for the batch that was observed.
    pub fn watermarks(&self, times: &[i64]) -> Vec<i64> {
        match self {
            Before::Constant(watermark) => vec![*watermark; times.len()],
            Before::Each(watermarks) => watermarks.clone(),
            Before::RunningMax { max, lag } => {
                let mut max = *max;
                let highest = times.iter().map(|&time| {
                    let before = max;
                    max = time.max(max);
                    before
                });
                let mut before: Vec<i64> = highest.collect();
                // a loop of its own, for here no row has to wait for the one before it
                before.iter_mut().for_each(|before| *before = lag.watermark(*before));
                before
            }
        }
    }
}

impl PartitionWatermark {
    /// A partition without rows. `column` and `unit` are the event-time column's: the strategy's and the cadence's
    /// durations must be whole ticks of it, and not negative.
    pub fn new(strategy: &WatermarkStrategy, cadence: Cadence, column: &str, unit: TickUnit) -> Result<Self> {
        PartitionWatermark::resolve(strategy, cadence, &TickConverter { column: column.into(), unit })
    }

    /// The same, for those who already have the converter.
    pub(crate) fn resolve(
        strategy: &WatermarkStrategy,
        cadence: Cadence,
        ticks: &TickConverter,
    ) -> Result<Self> {
        let highest = |ticks, inclusive| Source::Highest { max: NONE, lag: Lag { ticks, inclusive } };
        let source = match strategy {
            WatermarkStrategy::BoundedOutOfOrderness(bound) => {
                highest(ticks.tolerance("bounded_out_of_orderness", *bound)?, true)
            }
            WatermarkStrategy::Ascending => highest(0, true),
            WatermarkStrategy::Delay(delay) => highest(ticks.tolerance("watermark delay", *delay)?, false),
            WatermarkStrategy::Explicit => Source::Explicit,
            WatermarkStrategy::Punctuated(_) => Source::Punctuated { highest: NONE },
            WatermarkStrategy::Custom(generator) => Source::Custom(generator.clone()),
        };
        let pace = match cadence {
            Cadence::EveryRow => Pace::EveryRow,
            Cadence::EveryBatch => Pace::EveryBatch,
            Cadence::Every(interval) => Pace::Every(ticks.tolerance("cadence interval", interval)?),
            Cadence::OnRequest => Pace::OnRequest,
        };
        Ok(PartitionWatermark { source, pace, emitted: NONE, regressions: 0 })
    }

    /// Takes in the rows of a batch, moves the watermark to what it is after the last of them, and tells what it
    /// was before each.
    ///
    /// `times` are the event times of the rows of `batch`, one a row and none null: rows that were rejected are in
    /// neither. `batch` is read by the user's own generators only, `marker` (the marker column of the batch) by
    /// punctuated watermarks only; see [`WatermarkStrategy::check_marker`] for its type.
    pub fn observe(&mut self, times: &[i64], batch: &RecordBatch, marker: Option<&ArrayRef>) -> Before {
        match times.iter().max() {
            Some(&highest) => self.observe_part(times, highest, batch, marker, false),
            None => Before::Constant(self.emitted),
        }
    }

    /// The same, for those who already know the highest of the times, and perhaps cut a batch: if it goes on, this is not its end.
    pub(crate) fn observe_part(
        &mut self,
        times: &[i64],
        highest: i64,
        batch: &RecordBatch,
        marker: Option<&ArrayRef>,
        goes_on: bool,
    ) -> Before {
        let first = self.emitted;
        match (&mut self.source, self.pace) {
            (Source::Explicit, _) => Before::Constant(first),
            // Not so if the caller has overtaken the rows by an explicit watermark: then row by row, until they
            // have caught up.
            (Source::Highest { max, lag }, Pace::EveryRow) if lag.watermark(*max) == first => {
                let before = Before::RunningMax { max: *max, lag: *lag };
                *max = highest.max(*max);
                self.emitted = lag.watermark(*max);
                before
            }
            (_, Pace::EveryRow) => self.observe_each(0, times, batch, &Markers::new(marker)),
            (_, Pace::Every(interval)) => self.observe_each(interval, times, batch, &Markers::new(marker)),
            (_, Pace::EveryBatch) => {
                self.take_all(times, highest, batch, &Markers::new(marker));
                if !goes_on {
                    self.emit();
                }
                Before::Constant(first)
            }
            (_, Pace::OnRequest) => {
                self.take_all(times, highest, batch, &Markers::new(marker));
                Before::Constant(first)
            }
        }
    }

    /// The literal reading, for cadences that emit between rows.
    fn observe_each(
        &mut self,
        interval: i64,
        times: &[i64],
        batch: &RecordBatch,
        markers: &Markers<'_>,
    ) -> Before {
        let first = self.emitted;
        let mut before = Vec::with_capacity(times.len());
        for (row, &time) in times.iter().enumerate() {
            before.push(self.emitted);
            self.take(row, time, batch, markers);
            let proposal = self.proposal().unwrap_or(NONE);
            if matches!(self.source, Source::Custom(_)) {
                self.regressions += u64::from(proposal < self.emitted);
            }
            if self.emitted == NONE || proposal > self.emitted.saturating_add(interval) {
                self.emitted = self.emitted.max(proposal);
            }
        }
        if self.emitted == first { Before::Constant(first) } else { Before::Each(before) }
    }

    /// Rows that emit nothing by themselves.
    fn take_all(&mut self, times: &[i64], highest: i64, batch: &RecordBatch, markers: &Markers<'_>) {
        if let Source::Highest { max, .. } = &mut self.source {
            *max = highest.max(*max);
            return;
        }
        for (row, &time) in times.iter().enumerate() {
            self.take(row, time, batch, markers);
        }
    }

    fn take(&mut self, row: usize, time: i64, batch: &RecordBatch, markers: &Markers<'_>) {
        match &mut self.source {
            Source::Highest { max, .. } => *max = time.max(*max),
            Source::Explicit => {}
            Source::Punctuated { highest } => {
                if let Some(watermark) = markers.get(row, time) {
                    self.regressions += u64::from(watermark < self.emitted);
                    *highest = watermark.min(HIGHEST).max(*highest);
                }
            }
            Source::Custom(generator) => generator.on_event(time, batch, row),
        }
    }

    /// Whether a row can move the watermark before the end of its batch.
    pub(crate) fn moves_within_batches(&self) -> bool {
        let by_row = matches!(self.pace, Pace::EveryRow | Pace::Every(_));
        by_row && !matches!(self.source, Source::Explicit)
    }

    /// What the rows so far would make the watermark, if they were asked now; `None` where rows have no say.
    pub fn proposal(&self) -> Option<i64> {
        match &self.source {
            Source::Highest { max, lag } => Some(lag.watermark(*max)),
            Source::Explicit => None,
            Source::Punctuated { highest } => Some(*highest),
            Source::Custom(generator) => Some(generator.watermark().min(HIGHEST)),
        }
    }

    /// Emits the proposal now, whatever the cadence, even inside an interval. Flink's `onPeriodicEmit`.
    pub fn emit(&mut self) {
        let Some(proposal) = self.proposal() else { return };
        // Under the other cadences each row has been asked, and counted, already.
        let first_asked = matches!(self.pace, Pace::EveryBatch | Pace::OnRequest);
        if first_asked && matches!(self.source, Source::Custom(_)) {
            self.regressions += u64::from(proposal < self.emitted);
        }
        self.emitted = self.emitted.max(proposal);
    }

    /// The caller says it, and is taken at his word at once, under any strategy and cadence. The end of input cannot
    /// be said here: a partition that has ended is [finished](super::WatermarkMerge::finish).
    pub fn explicit(&mut self, watermark: i64) {
        self.regressions += u64::from(watermark < self.emitted);
        self.emitted = self.emitted.max(watermark.min(HIGHEST));
    }

    /// The last watermark emitted; [`NONE`] if there was none.
    pub fn emitted(&self) -> i64 {
        self.emitted
    }

    /// How many proposals were ignored because they were below the watermark already emitted. Strategies that follow
    /// the highest event time never have any.
    pub fn regressions(&self) -> u64 {
        self.regressions
    }
}
