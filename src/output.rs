//! Fired windows and late rows as record batches.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::{
    Date32Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{ArrayRef, Int64Array, PrimitiveArray, RecordBatch, StringArray, UInt32Array};
use arrow_ord::sort::{SortColumn, lexsort_to_indices};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::accumulator::{Accumulator, FinishError};
use crate::error::{Error, Result};
use crate::fire::{Fired, Firing};
use crate::key::{Code, Interner, KeyColumns, Slots};
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

/// Windows with more rows than this are spread over several batches: the strings of one batch have to fit the 32-bit
/// offsets of Arrow, whatever the keys are.
const MAX_ROWS: usize = if cfg!(test) { 64 } else { 1 << 20 };

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
#[derive(Default)]
struct Pending {
    accumulators: Vec<Box<dyn Accumulator>>,
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
        let mut pending = Pending::default();
        for Fired { window, firing, table } in fired {
            // the last holder gives its buffers away
            let Table { slots, accumulators } = Shared::unwrap_or_clone(table);
            if !pending.codes.is_empty() && pending.codes.len() + slots.len() > BATCH_ROWS {
                batches.extend(self.batch(&mut pending, grid, keys, interner)?);
            }
            if slots.len() <= MAX_ROWS {
                pending.push(window, firing, &slots, 0..slots.len(), accumulators);
                continue;
            }
            for from in (0..slots.len()).step_by(MAX_ROWS) {
                let part = from..slots.len().min(from + MAX_ROWS);
                let numbers: Vec<u32> = part.clone().map(|slot| slot as u32).collect();
                let accumulators = accumulators.iter().map(|all| all.gather(&numbers)).collect();
                pending.push(window, firing, &slots, part, accumulators);
                batches.extend(self.batch(&mut pending, grid, keys, interner)?);
            }
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
        let Pending { accumulators, codes, nulls, windows } = std::mem::take(pending);
        if codes.is_empty() {
            return Ok(None);
        }
        let nulls = nulls.contains(&true).then_some(nulls);
        let mut columns = keys.decode(&codes, nulls.as_deref(), interner)?;
        let key_columns = columns.clone();
        let (mut starts, mut ends) = (Vec::with_capacity(codes.len()), Vec::with_capacity(codes.len()));
        for &(rows, window, _) in &windows {
            let (start, end) = grid.bounds(window);
            starts.resize(starts.len() + rows, start);
            ends.resize(ends.len() + rows, end);
        }
        for (accumulator, field) in accumulators.into_iter().zip(&self.aggregates) {
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
    /// Adds `part` of the slots of a window; `accumulators` has only those.
    fn push(
        &mut self,
        window: i128,
        firing: Firing,
        slots: &Slots,
        part: Range<usize>,
        accumulators: Vec<Box<dyn Accumulator>>,
    ) {
        self.windows.push((part.len(), window, firing));
        let null_slot = slots.null_slot().map(|slot| slot as usize);
        self.nulls.extend(part.clone().map(|slot| null_slot == Some(slot)));
        self.codes.extend_from_slice(&slots.codes()[part]);
        if self.accumulators.is_empty() {
            self.accumulators = accumulators;
        } else {
            self.accumulators.iter_mut().zip(accumulators).for_each(|(all, one)| all.append(one));
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

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;

    use super::*;
    use crate::watermark::WatermarkStrategy;
    use crate::{Aggregate, TimeDelta, Window, WindowOperator};

    /// 200 keys, the hundredth null: three batches of 64 rows and one of 8, in the order of the keys.
    #[test]
    fn windows_too_long_for_a_batch_are_spread_over_several() {
        let keys: StringArray = (0..200).map(|i| (i != 100).then(|| format!("key {i}"))).collect();
        let values = Int64Array::from_iter_values(0..200);
        let times: ArrayRef = Arc::new(Int64Array::from(vec![0; 200]));
        let columns =
            [("ts", times), ("key", Arc::new(keys.clone()) as _), ("value", Arc::new(values.clone()) as _)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut operator = WindowOperator::builder(batch.schema())
            .event_time("ts")
            .event_time_unit(TimeUnit::Second)
            .key("key")
            .window(Window::tumbling(TimeDelta::from_secs(10)))
            .watermark(WatermarkStrategy::ascending())
            .aggregate(Aggregate::sum("value"))
            .build()
            .unwrap();
        assert!(operator.push(0, &batch).unwrap().is_empty());
        let fired = operator.finish().unwrap().fired;
        assert_eq!(fired.iter().map(|batch| batch.num_rows()).collect::<Vec<_>>(), [64, 64, 64, 8]);
        let all = arrow_select::concat::concat_batches(&fired[0].schema(), &fired).unwrap();
        assert_eq!(all.column(0).as_string::<i32>(), &keys);
        assert_eq!(all["sum(value)"].as_primitive::<Int64Type>().values(), values.values());
        assert!(all.column(0).is_null(100));
        assert_eq!((operator.metrics().windows_fired, operator.metrics().fired_on_time), (1, 200));
    }
}
