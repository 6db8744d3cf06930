//! Fired windows and late rows as record batches.

use std::sync::Arc;

use arrow_array::types::{
    Date32Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{ArrayRef, Int64Array, PrimitiveArray, RecordBatch, StringArray, UInt32Array};
use arrow_ord::sort::{SortColumn, lexsort_to_indices};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::accumulator::FinishError;
use crate::error::{Error, Result};
use crate::fire::{Fired, Firing};
use crate::key::{Code, Interner, KeyColumns};
use crate::route::Judged;
use crate::state::{Shared, Table};
use crate::window::Grid;

/// What a call gives: results, and the rows that are in none.
#[derive(Clone, Debug, Default)]
#[must_use = "fired windows and late rows are handed over once"]
pub struct Output {
    /// Results in order of their window's end, then start (with [`LateFiring::PerRow`](crate::LateFiring::PerRow), in
    /// order of events): key columns, `window_start`, `window_end`, the aggregates, and `firing` on request.
    pub fired: Vec<RecordBatch>,
    /// Rows that no window took, because all of theirs had expired: the input's columns, and [`LATE_WATERMARK`].
    pub late: Vec<RecordBatch>,
    /// Rows without a usable event time: the input's columns, and [`REJECT_REASON`](crate::REJECT_REASON).
    pub rejected: Vec<RecordBatch>,
}

impl Output {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.fired.is_empty() && self.late.is_empty() && self.rejected.is_empty()
    }
}

/// The name of the column that [`Output::late`] has behind those of the input: the merged watermark that the row lost to.
pub const LATE_WATERMARK: &str = "late_watermark";

/// The names of the window columns.
pub(crate) const WINDOW_START: &str = "window_start";
pub(crate) const WINDOW_END: &str = "window_end";
pub(crate) const FIRING: &str = "firing";

/// Windows with fewer rows than this share a batch.
const BATCH_ROWS: usize = 16_384;

/// Makes batches of one schema.
#[derive(Debug)]
pub(crate) struct Assembler {
    pub(crate) schema: SchemaRef,
    pub(crate) late_schema: SchemaRef,
    pub(crate) time_type: DataType,
    pub(crate) firing_column: bool,
    pub(crate) sort_by_key: bool,
    pub(crate) aggregates: Vec<Field>,
}

/// The type of window bounds for an event-time column.
pub(crate) fn bound_type(event_time: &DataType) -> DataType {
    match event_time {
        // Date64 counts whole days by its definition, and window bounds need not
        DataType::Date64 => DataType::Timestamp(TimeUnit::Millisecond, None),
        other => other.clone(),
    }
}

/// Ticks as a column of [`bound_type`].
pub(crate) fn ticks_to_array(ticks: Vec<i64>, data_type: &DataType) -> ArrayRef {
    fn timestamps<T: arrow_array::types::ArrowTimestampType>(
        ticks: Vec<i64>,
        data_type: &DataType,
    ) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_iter_values(ticks).with_data_type(data_type.clone()))
    }
    match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => timestamps::<TimestampSecondType>(ticks, data_type),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            timestamps::<TimestampMillisecondType>(ticks, data_type)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            timestamps::<TimestampMicrosecondType>(ticks, data_type)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            timestamps::<TimestampNanosecondType>(ticks, data_type)
        }
        DataType::Date32 => {
            let days = ticks.into_iter().map(|day| day.clamp(i32::MIN as i64, i32::MAX as i64) as i32);
            Arc::new(PrimitiveArray::<Date32Type>::from_iter_values(days))
        }
        _ => Arc::new(Int64Array::from(ticks)),
    }
}

/// Results of several windows, one behind the other.
struct Pending {
    table: Option<Table>,
    codes: Vec<Code>,
    nulls: Vec<bool>,
    windows: Vec<(usize, i128, Firing)>,
}

impl Assembler {
    pub(crate) fn new(
        keys: &KeyColumns,
        aggregates: Vec<Field>,
        time_type: DataType,
        late_schema: SchemaRef,
        firing_column: bool,
        sort_by_key: bool,
    ) -> Result<Self> {
        let mut fields: Vec<Field> = keys.fields.iter().map(|field| field.as_ref().clone()).collect();
        fields.push(Field::new(WINDOW_START, time_type.clone(), false));
        fields.push(Field::new(WINDOW_END, time_type.clone(), false));
        fields.extend(aggregates.iter().cloned());
        if firing_column {
            fields.push(Field::new(FIRING, DataType::Utf8, false));
        }
        for (number, field) in fields.iter().enumerate() {
            if fields[..number].iter().any(|other| other.name() == field.name()) {
                return Err(Error::invalid(
                    "aggregate",
                    format!("name {:?}", field.name()),
                    "a name that no key, window or other aggregate column of the output has; see Aggregate::alias",
                ));
            }
        }
        let schema = Arc::new(Schema::new(fields));
        Ok(Assembler { schema, late_schema, time_type, firing_column, sort_by_key, aggregates })
    }

    /// Results of fired windows, in the order given.
    pub(crate) fn fired(
        &self,
        fired: Vec<Fired>,
        grid: &Grid,
        keys: &KeyColumns,
        interner: &Interner,
    ) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        let mut pending = Pending { table: None, codes: vec![], nulls: vec![], windows: vec![] };
        for Fired { window, firing, table } in fired {
            if !pending.codes.is_empty() && pending.codes.len() + table.len() > BATCH_ROWS {
                batches.extend(self.batch(&mut pending, grid, keys, interner)?);
            }
            pending.push(window, firing, table);
        }
        batches.extend(self.batch(&mut pending, grid, keys, interner)?);
        Ok(batches)
    }

    fn batch(
        &self,
        pending: &mut Pending,
        grid: &Grid,
        keys: &KeyColumns,
        interner: &Interner,
    ) -> Result<Option<RecordBatch>> {
        let Some(table) = pending.table.take() else { return Ok(None) };
        let (codes, nulls) = (std::mem::take(&mut pending.codes), std::mem::take(&mut pending.nulls));
        let windows = std::mem::take(&mut pending.windows);
        let nulls = nulls.contains(&true).then_some(nulls);
        let mut columns = keys.decode(&codes, nulls.as_deref(), interner)?;
        let key_columns = columns.clone();
        let (mut starts, mut ends) = (Vec::with_capacity(codes.len()), Vec::with_capacity(codes.len()));
        for &(rows, window, _) in &windows {
            let (start, end) = grid.bounds(window);
            starts.resize(starts.len() + rows, start);
            ends.resize(ends.len() + rows, end);
        }
        for (accumulator, field) in table.accumulators.into_iter().zip(&self.aggregates) {
            columns.push(accumulator.finish().map_err(|error| match error {
                FinishError::Overflow { slot, value } => Error::Overflow {
                    aggregate: field.name().clone(),
                    start: starts[slot],
                    end: ends[slot],
                    key: keys.describe(&key_columns, slot),
                    value,
                    output_type: field.data_type().to_string(),
                },
                FinishError::Function(message) => {
                    Error::Aggregate { aggregate: field.name().clone(), message }
                }
            })?);
        }
        let bounds = [ticks_to_array(starts, &self.time_type), ticks_to_array(ends, &self.time_type)];
        columns.splice(key_columns.len()..key_columns.len(), bounds);
        if self.firing_column {
            let mut labels = Vec::with_capacity(codes.len());
            for &(rows, _, firing) in &windows {
                labels.resize(labels.len() + rows, firing.as_str());
            }
            columns.push(Arc::new(StringArray::from(labels)));
        }
        if self.sort_by_key && !key_columns.is_empty() {
            columns = sorted(columns, &key_columns, &windows)?;
        }
        Ok(Some(RecordBatch::try_new(self.schema.clone(), columns)?))
    }

    /// Rows that came too late, each with the watermark it lost to.
    pub(crate) fn late(&self, batch: &RecordBatch, dropped: &[Judged]) -> Result<Option<RecordBatch>> {
        if dropped.is_empty() {
            return Ok(None);
        }
        let rows = dropped.iter().map(|judged| judged.row as u32).collect();
        let watermarks =
            ticks_to_array(dropped.iter().map(|judged| judged.watermark).collect(), &self.time_type);
        crate::event_time::take_with(batch, rows, watermarks, &self.late_schema).map(Some)
    }
}

impl Pending {
    fn push(&mut self, window: i128, firing: Firing, table: Shared) {
        // the last holder gives its buffers away
        let table = Shared::try_unwrap(table).unwrap_or_else(|shared| shared.as_ref().clone());
        self.windows.push((table.len(), window, firing));
        self.nulls.resize(self.nulls.len() + table.len(), false);
        if let Some(slot) = table.slots.null_slot() {
            self.nulls[self.codes.len() + slot as usize] = true;
        }
        self.codes.extend_from_slice(table.slots.codes());
        match &mut self.table {
            None => self.table = Some(table),
            Some(all) => {
                all.accumulators.iter_mut().zip(table.accumulators).for_each(|(all, one)| all.append(one))
            }
        }
    }
}

/// The columns with the rows of each window sorted by key, nulls first.
fn sorted(
    columns: Vec<ArrayRef>,
    keys: &[ArrayRef],
    windows: &[(usize, i128, Firing)],
) -> Result<Vec<ArrayRef>> {
    let numbers = (0u32..).zip(windows).flat_map(|(number, &(rows, ..))| std::iter::repeat_n(number, rows));
    let numbers: ArrayRef = Arc::new(UInt32Array::from(numbers.collect::<Vec<u32>>()));
    let by: Vec<SortColumn> = std::iter::once(&numbers)
        .chain(keys)
        .map(|values| SortColumn { values: values.clone(), options: None })
        .collect();
    let order = lexsort_to_indices(&by, None)?;
    columns.iter().map(|column| Ok(arrow_select::take::take(column, &order, None)?)).collect()
}
