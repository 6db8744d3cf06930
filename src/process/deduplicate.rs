//! The first row of each key passes, within an event-time horizon or window.

use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::{ArrowError, Field, SchemaRef};
use arrow_select::interleave::interleave;

use super::grid::Tumbling;
use super::stored::unsaved;
use super::{Keyed, KeyedProcess, OperatorBuilder, Position, ProcessOperator, Results, Rows, Timer};
use crate::error::{Error, Result};
use crate::input::{Input, missing};
use crate::snapshot::{Record, each_list, lists, record};
use crate::time::TimeDelta;
use crate::watermark::NONE;

/// Lets the first row of each key pass, in the input's schema, and counts its duplicates.
///
/// What is first is a matter of arrival; what is a duplicate, of event time:
///
/// * [`within`](DeduplicateBuilder::within) a horizon: a row is a duplicate if a row of its key has passed whose time is less than
///   the horizon away, before or after. A late row of which that cannot be said any more is handed back in
///   [`Output::late`](crate::Output::late).
/// * [`in_window`](DeduplicateBuilder::in_window): a row is a duplicate if a row of its key and tumbling window has passed. A row
///   whose window is over (end - 1 at or before the watermark) is handed back.
///
/// What has passed is forgotten when the watermark says that no duplicate can come, or so much later as
/// [`allowed_lateness`](DeduplicateBuilder::allowed_lateness) says. [`counter`] knows `passed` and
/// `duplicates`.
///
/// [`counter`]: super::ProcessMetrics::counter
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampSecondArray};
/// use highwater::process::deduplicate;
/// use highwater::watermark::WatermarkStrategy;
/// use highwater::{Input, TimeDelta};
///
/// let batch = RecordBatch::try_from_iter([
///     ("ts", Arc::new(TimestampSecondArray::from(vec![100, 130, 90, 160, 161])) as ArrayRef),
///     ("order", Arc::new(StringArray::from(vec!["a", "a", "a", "a", "b"])) as _),
/// ])?;
/// let input = Input::new(batch.schema())
///     .event_time("ts")
///     .key("order")
///     .watermark(WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_secs(60)));
/// let mut operator = deduplicate(input).within(TimeDelta::from_mins(1)).build()?;
/// let output = operator.push(0, &batch)?;
/// // 130 and 90 are less than a minute from 100, 160 is not
/// assert_eq!(output.fired[0]["ts"].as_ref(), &TimestampSecondArray::from(vec![100, 160, 161]));
/// assert_eq!(operator.metrics().counter("duplicates"), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn deduplicate(input: Input) -> DeduplicateBuilder {
    OperatorBuilder::new(DeduplicatePlan { horizon: None, window: None, lateness: TimeDelta::ZERO }, [input])
}

/// Builds what [`deduplicate`] describes; everything is checked in [`build`](DeduplicateBuilder::build).
pub type DeduplicateBuilder = OperatorBuilder<DeduplicatePlan, 1>;

/// What is to be a duplicate.
#[derive(Clone, Debug)]
pub struct DeduplicatePlan {
    horizon: Option<TimeDelta>,
    /// Size and offset.
    window: Option<(TimeDelta, TimeDelta)>,
    lateness: TimeDelta,
}

impl DeduplicateBuilder {
    /// Rows of a key whose times are less than this apart are duplicates.
    pub fn within(mut self, horizon: impl Into<TimeDelta>) -> Self {
        self.process.horizon = Some(horizon.into());
        self
    }
    /// Rows of a key in the same tumbling window of this size are duplicates; windows are aligned to the epoch plus `offset`.
    pub fn in_window(mut self, size: impl Into<TimeDelta>, offset: impl Into<TimeDelta>) -> Self {
        self.process.window = Some((size.into(), offset.into()));
        self
    }
    /// How long what has passed is remembered for late rows; by default not at all.
    pub fn allowed_lateness(mut self, lateness: impl Into<TimeDelta>) -> Self {
        self.process.lateness = lateness.into();
        self
    }

    /// Checks everything and makes the operator.
    ///
    /// # Errors
    /// Those of the input; neither horizon nor window, or both, or one that is not a positive whole number of ticks; a lateness that is
    /// negative or not a whole number of them.
    pub fn build(self) -> Result<ProcessOperator<Deduplicate>> {
        let ticks = self.inputs[0].check()?.ticks;
        let plan = &self.process;
        let scope = match (plan.horizon, plan.window) {
            (Some(horizon), None) => Scope::Horizon(ticks.length("horizon", horizon)?),
            (None, Some((size, offset))) => Scope::Window(Tumbling::new(size, offset, &ticks)?),
            (None, None) => return Err(missing("deduplicate", "within or in_window")),
            (Some(_), Some(_)) => {
                return Err(Error::invalid("deduplicate", "within and in_window", "one of them"));
            }
        };
        let lateness = ticks.tolerance("allowed_lateness", plan.lateness)?;
        self.with(Deduplicate { scope, lateness }).build()
    }
}

/// The process behind [`deduplicate`].
#[derive(Debug)]
pub struct Deduplicate {
    scope: Scope,
    lateness: i64,
}

/// Among which rows the first is looked for.
#[derive(Clone, Copy, Debug)]
enum Scope {
    Horizon(i64),
    Window(Tumbling),
}

impl Scope {
    /// The last time that a row can have and repeat one of this time.
    fn last(&self, time: i64) -> i64 {
        match self {
            Scope::Horizon(horizon) => time.saturating_add(horizon - 1),
            Scope::Window(grid) => grid.last(time),
        }
    }

    /// Whether a row repeats one that has passed.
    fn repeats(&self, time: i64, passed: &[Passed]) -> bool {
        match self {
            Scope::Horizon(horizon) => {
                passed.iter().any(|passed| passed.time.abs_diff(time) < horizon.unsigned_abs())
            }
            Scope::Window(grid) => passed.iter().any(|passed| grid.last(passed.time) == grid.last(time)),
        }
    }

    /// The first watermark at which what a row would repeat may be forgotten, if nothing is kept for late rows.
    fn over_at(&self, time: i64) -> i64 {
        match self {
            Scope::Horizon(_) => time,
            Scope::Window(grid) => grid.last(time),
        }
    }
}

/// A row that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    time: i64,
    /// The watermark at which it is forgotten.
    until: i64,
}

/// The places of [`Deduplicate::counters`].
enum Count {
    Passed,
    Duplicates,
}

/// One result holds rows of several batches, each of which has a dictionary of its own.
fn too_many_values(field: &Field) -> Error {
    let (name, data_type) = (field.name(), field.data_type());
    let message = format!(
        "the rows of this call that pass have more values in column {name:?} than a {data_type} can count; push fewer batches \
         at a time, or give the column wider keys"
    );
    Error::Process { message }
}

impl KeyedProcess for Deduplicate {
    type State = Vec<Passed>;
    type Output = Position;

    const KEY_COLUMNS: bool = false;

    fn output_schema(&self, inputs: &[SchemaRef]) -> Result<SchemaRef> {
        inputs.first().cloned().ok_or_else(|| Error::invalid("input", "none", "one"))
    }

    fn counters(&self) -> &'static [&'static str] {
        &["passed", "duplicates"]
    }

    fn rows(&self, rows: &mut Rows<'_, Self>) -> Result<()> {
        while let Some(mut row) = rows.next()? {
            let (time, position, watermark) = (row.time, row.position(), row.key.watermark());
            if self.scope.repeats(time, row.key.peek().map_or(&[], Vec::as_slice)) {
                row.key.count(Count::Duplicates as usize);
            } else if watermark != NONE && self.scope.over_at(time).saturating_add(self.lateness) <= watermark
            {
                row.hand_back();
            } else {
                let until = self.scope.last(time).saturating_add(self.lateness);
                row.key.state().push(Passed { time, until });
                row.key.register_timer(until);
                row.key.count(Count::Passed as usize);
                row.key.emit(position);
            }
        }
        Ok(())
    }

    fn timer(&self, timer: Timer, key: &mut Keyed<'_, Self>) -> Result<()> {
        let passed = key.state();
        passed.retain(|passed| passed.until != timer.time);
        if passed.is_empty() {
            key.clear();
        }
        Ok(())
    }

    fn results(&self, outputs: Vec<Position>, call: &Results<'_>) -> Result<Vec<ArrayRef>> {
        let places: Vec<(usize, usize)> =
            outputs.iter().map(|position| (position.batch, position.row)).collect();
        let batches = call.batches();
        let columns = batches.first().map_or(0, |batch| batch.num_columns());
        let gather = |column: usize| {
            let pieces: Vec<_> = batches.iter().map(|batch| batch.column(column).as_ref()).collect();
            interleave(&pieces, &places).map_err(|error| match error {
                ArrowError::DictionaryKeyOverflowError => {
                    too_many_values(batches[0].schema_ref().field(column))
                }
                error => error.into(),
            })
        };
        (0..columns).map(gather).collect()
    }

    fn describe(&self) -> String {
        format!("duplicates: {:?}, lateness of {} ticks", self.scope, self.lateness)
    }

    fn save(&self, states: &[&Vec<Passed>]) -> Result<ArrayRef> {
        let passed = || states.iter().flat_map(|state| state.iter());
        let times = Int64Array::from_iter_values(passed().map(|passed| passed.time));
        let until = Int64Array::from_iter_values(passed().map(|passed| passed.until));
        let all = record(vec![("time", Arc::new(times)), ("until", Arc::new(until))]).map_err(unsaved)?;
        lists(states.iter().map(|state| state.len()), all).map_err(unsaved)
    }

    fn restore(&self, saved: &ArrayRef) -> Result<Vec<Vec<Passed>>> {
        each_list(saved, |list| {
            let list = Record::of(list)?;
            let pairs = list.numbers::<Int64Type>("time")?.iter().zip(list.numbers::<Int64Type>("until")?);
            Ok(pairs.map(|(&time, &until)| Passed { time, until }).collect())
        })
        .map_err(unsaved)
    }

    fn heap_size(&self, state: &Self::State) -> usize {
        state.capacity() * size_of::<Passed>()
    }
}
