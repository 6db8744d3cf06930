//! The event-time column as ticks, and the rows that never get further: no time, or a time that cannot be.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Date64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::error::{Error, Result};
use crate::metrics::RowCounts;
use crate::scan::{Bounds, bounds};
use crate::time::{TickUnit, TimeDelta};

/// What becomes of a row whose event time is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NullPolicy {
    /// It is handed back in [`Output::rejected`](crate::Output::rejected).
    #[default]
    Reject,
    /// The call is an error and does nothing.
    Error,
    /// It is counted, and gone.
    Drop,
}

/// Rejects rows that claim to come from the future, before they can move a watermark.
///
/// A row is rejected if its event time exceeds a reference by more than `max_future`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FutureGuard {
    pub(crate) reference: Reference,
    pub(crate) max_future: TimeDelta,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    IngestTime(String),
    Clock,
}

impl FutureGuard {
    /// The reference is a column that says when the row was received: Timestamp, Date32, Date64, or Int64 in the
    /// unit of the event time. A row without it cannot be judged and is rejected.
    pub fn ingest_time(column: impl Into<String>, max_future: impl Into<TimeDelta>) -> Self {
        FutureGuard { reference: Reference::IngestTime(column.into()), max_future: max_future.into() }
    }
    /// The reference is the clock that the caller injects by [`advance_clock`](crate::WindowOperator::advance_clock).
    pub fn clock(max_future: impl Into<TimeDelta>) -> Self {
        FutureGuard { reference: Reference::Clock, max_future: max_future.into() }
    }
}

/// The name of the column that [`Output::rejected`](crate::Output::rejected) has behind those of the input.
pub const REJECT_REASON: &str = "reject_reason";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    NoEventTime,
    FromFuture,
    NoIngestTime,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Reason::NoEventTime => "null_event_time",
            Reason::FromFuture => "future_event_time",
            Reason::NoIngestTime => "null_ingest_time",
        }
    }
}

/// The rows of a batch that have a usable event time, and those that do not.
pub(crate) struct Admitted {
    pub(crate) batch: RecordBatch,
    /// The event times of `batch`, in ticks.
    pub(crate) times: ScalarBuffer<i64>,
    /// The lowest and highest of each block of them.
    pub(crate) bounds: Vec<Bounds>,
    pub(crate) rejected: Option<RecordBatch>,
    /// `rows_in` and the reasons.
    pub(crate) counts: RowCounts,
    /// More rows of the same batch follow, of which cadences by batches know nothing.
    pub(crate) goes_on: bool,
}

impl Admitted {
    /// Splits off all rows but the first `rows`; what has been counted and rejected stays.
    pub(crate) fn split_off(&mut self, rows: usize) -> Admitted {
        let split = |admitted: &Admitted, from: usize, len: usize| {
            let times = admitted.times.slice(from, len);
            (admitted.batch.slice(from, len), bounds(&times), times)
        };
        let (batch, rest_bounds, times) = split(self, rows, self.times.len() - rows);
        let (counts, goes_on) = (RowCounts::default(), self.goes_on);
        let rest = Admitted { batch, times, bounds: rest_bounds, rejected: None, counts, goes_on };
        self.goes_on = true;
        (self.batch, self.bounds, self.times) = split(self, 0, rows);
        rest
    }
}

/// Reads event time and admits rows, by column number and policy.
#[derive(Clone, Debug)]
pub(crate) struct EventTime {
    pub(crate) column: usize,
    pub(crate) name: String,
    pub(crate) unit: TickUnit,
    pub(crate) null_policy: NullPolicy,
    pub(crate) guard: Option<Guard>,
    pub(crate) rejected_schema: SchemaRef,
}

/// A [`FutureGuard`] resolved against the schema.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// Column number and unit of the ingest time; `None` for the clock.
    pub(crate) ingest_time: Option<(usize, TickUnit)>,
    pub(crate) max_future: TimeDelta,
}

/// The input schema with one column more, whose name must be free.
pub(crate) fn with_column(schema: &Schema, field: Field) -> Result<SchemaRef> {
    if schema.column_with_name(field.name()).is_some() {
        return Err(Error::invalid(
            "schema",
            format!("column {:?}", field.name()),
            "another name: this one is kept for the rows that are handed back",
        ));
    }
    let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
    fields.push(Arc::new(field));
    Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// The ticks of a column that [`TickUnit::of`] takes.
pub(crate) fn ticks(column: &ArrayRef) -> ScalarBuffer<i64> {
    use arrow_array::types::{
        TimestampMicrosecondType as Us, TimestampMillisecondType as Ms, TimestampNanosecondType as Ns,
        TimestampSecondType as S,
    };
    match column.data_type() {
        DataType::Date32 => {
            column.as_primitive::<Date32Type>().values().iter().map(|&day| day as i64).collect()
        }
        DataType::Date64 => column.as_primitive::<Date64Type>().values().clone(),
        DataType::Timestamp(TimeUnit::Second, _) => column.as_primitive::<S>().values().clone(),
        DataType::Timestamp(TimeUnit::Millisecond, _) => column.as_primitive::<Ms>().values().clone(),
        DataType::Timestamp(TimeUnit::Microsecond, _) => column.as_primitive::<Us>().values().clone(),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => column.as_primitive::<Ns>().values().clone(),
        _ => column.as_primitive::<Int64Type>().values().clone(),
    }
}

impl EventTime {
    /// Splits a batch into rows that the watermark may see and rows that it must not.
    pub(crate) fn admit(
        &self,
        partition: usize,
        batch: &RecordBatch,
        clock: Option<i64>,
    ) -> Result<Admitted> {
        let column = batch.column(self.column);
        let times = ticks(column);
        let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        if self.null_policy == NullPolicy::Error
            && let Some(row) = nulls.as_ref().and_then(|nulls| nulls.iter().position(|valid| !valid))
        {
            return Err(Error::NullEventTime { column: self.name.clone(), partition, row });
        }
        let mut counts = RowCounts { rows_in: batch.num_rows() as u64, ..RowCounts::default() };
        let reasons = self.reasons(batch, &times, nulls.as_ref(), clock)?;
        let Some(reasons) = reasons else {
            let bounds = bounds(&times);
            let batch = batch.clone();
            return Ok(Admitted { batch, times, bounds, rejected: None, counts, goes_on: false });
        };
        for reason in reasons.iter().flatten() {
            match reason {
                Reason::NoEventTime => counts.rejected_null += 1,
                Reason::FromFuture => counts.rejected_future += 1,
                Reason::NoIngestTime => counts.rejected_reference += 1,
            }
        }
        let keep: BooleanArray = reasons.iter().map(|reason| Some(reason.is_none())).collect();
        let admitted = arrow_select::filter::filter_record_batch(batch, &keep)?;
        let times = ticks(admitted.column(self.column));
        let rejected = self.hand_back(batch, &reasons)?;
        Ok(Admitted { batch: admitted, bounds: bounds(&times), times, rejected, counts, goes_on: false })
    }

    /// Why each row is rejected; `None` if none is.
    fn reasons(
        &self,
        batch: &RecordBatch,
        times: &[i64],
        nulls: Option<&NullBuffer>,
        clock: Option<i64>,
    ) -> Result<Option<Vec<Option<Reason>>>> {
        let references = match &self.guard {
            None => None,
            Some(Guard { ingest_time: None, .. }) => {
                let latest = (clock.ok_or(Error::ClockNotSet)? as i128).saturating_mul(self.unit.nanos());
                Some((None, latest))
            }
            Some(Guard { ingest_time: Some((column, unit)), .. }) => {
                Some((Some((batch.column(*column), *unit)), 0))
            }
        };
        let is_null = |row: usize| nulls.is_some_and(|nulls| nulls.is_null(row));
        let mut reasons = Vec::new();
        let mut put = |row: usize, reason: Reason| {
            if reasons.is_empty() {
                reasons.resize(batch.num_rows(), None);
            }
            reasons[row] = Some(reason);
        };
        if nulls.is_some() {
            (0..times.len()).filter(|&row| is_null(row)).for_each(|row| put(row, Reason::NoEventTime));
        }
        if let (Some((ingest, clock_nanos)), Some(guard)) = (references, &self.guard) {
            let tick = self.unit.nanos();
            let ingest = ingest.map(|(column, unit)| (ticks(column), column.logical_nulls(), unit.nanos()));
            for row in (0..times.len()).filter(|&row| !is_null(row)) {
                let reference = match &ingest {
                    None => clock_nanos,
                    Some((_, Some(nulls), _)) if nulls.is_null(row) => {
                        put(row, Reason::NoIngestTime);
                        continue;
                    }
                    Some((ticks, _, nanos)) => ticks[row] as i128 * nanos,
                };
                if times[row] as i128 * tick > reference.saturating_add(guard.max_future.as_nanos()) {
                    put(row, Reason::FromFuture);
                }
            }
        }
        Ok((!reasons.is_empty()).then_some(reasons))
    }

    /// The rejected rows with their reasons, but for those that the policy drops.
    fn hand_back(&self, batch: &RecordBatch, reasons: &[Option<Reason>]) -> Result<Option<RecordBatch>> {
        let dropped = |reason: Reason| reason == Reason::NoEventTime && self.null_policy == NullPolicy::Drop;
        let (rows, words): (Vec<u32>, Vec<&str>) = (0u32..)
            .zip(reasons)
            .filter_map(|(row, reason)| reason.filter(|&r| !dropped(r)).map(|r| (row, r.as_str())))
            .unzip();
        if rows.is_empty() {
            return Ok(None);
        }
        let words: ArrayRef = Arc::new(StringArray::from(words));
        take_with(batch, rows, words, &self.rejected_schema).map(Some)
    }
}

/// Rows of a batch, with one column more.
pub(crate) fn take_with(
    batch: &RecordBatch,
    rows: Vec<u32>,
    extra: ArrayRef,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let taken = arrow_select::take::take_record_batch(batch, &UInt32Array::from(rows))?;
    let mut columns = taken.columns().to_vec();
    columns.push(extra);
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}
