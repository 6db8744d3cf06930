//! Fired windows and late rows as record batches.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::{
    Date32Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, PrimitiveArray, RecordBatch, StringArray, UInt32Array,
};
use arrow_ord::sort::{SortColumn, lexsort_to_indices};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};

use crate::accumulator::{self, Accumulator, FinishError};
use crate::error::{Error, Result};
use crate::fire::{Fired, Firing};
use crate::input::Source;
use crate::key::{Code, Interner, KeyColumns};
use crate::keyed::{self, Emission, Said};
use crate::window::Grid;
use crate::workers::Workers;

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
pub(crate) const WINDOW_TIME: &str = "window_time";
pub(crate) const FIRING: &str = "firing";
pub(crate) const FIRING_NUMBER: &str = "firing_number";
pub(crate) const RETRACTION: &str = "retraction";

/// Windows with fewer rows than this share a batch.
const BATCH_ROWS: usize = 16_384;

/// Windows with more rows than this are spread over several batches: the strings of one batch have to fit the 32-bit
/// offsets of Arrow, whatever the keys are.
const MAX_ROWS: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// Which columns results have beside keys, window bounds and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) window_time: bool,
    pub(crate) firing: bool,
    pub(crate) number: bool,
    pub(crate) retraction: bool,
}

/// What result rows say, but for their values. What no column asks for is not kept.
struct Lines {
    starts: Vec<i64>,
    ends: Vec<i64>,
    /// One number for the rows of a window's firing, where rows are sorted.
    groups: Option<Vec<u32>>,
    firings: Option<Vec<&'static str>>,
    numbers: Option<Vec<i64>>,
    retractions: Option<Vec<bool>>,
}

/// Makes batches of one schema.
#[derive(Debug)]
pub(crate) struct Assembler {
    pub(crate) schema: SchemaRef,
    pub(crate) time_type: DataType,
    pub(crate) columns: Columns,
    pub(crate) sort_by_key: bool,
    /// Name and type of each aggregate, and where its result comes from.
    pub(crate) aggregates: Vec<(Field, accumulator::Output)>,
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
        Arc::new(PrimitiveArray::<T>::new(ticks.into(), None).with_data_type(data_type.clone()))
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

/// Some slots of a fired window.
struct Part<'a> {
    fired: &'a Fired,
    slots: Range<usize>,
}

/// A result column, or why there is none.
type Finished = std::result::Result<ArrayRef, FinishError>;

impl Assembler {
    pub(crate) fn new(
        source: &Source,
        aggregates: Vec<(Field, accumulator::Output)>,
        functions: &[FieldRef],
        columns: Columns,
        sort_by_key: bool,
    ) -> Result<Self> {
        let time_type = source.time_type.clone();
        let time = |name: &str| Field::new(name, time_type.clone(), false);
        let mut fields: Vec<Field> = source.keys.fields.iter().map(|field| field.as_ref().clone()).collect();
        fields.extend([time(WINDOW_START), time(WINDOW_END)]);
        fields.extend(columns.window_time.then(|| time(WINDOW_TIME)));
        fields.extend(aggregates.iter().map(|(field, _)| field.clone()));
        fields.extend(functions.iter().map(|field| field.as_ref().clone()));
        fields.extend(columns.firing.then(|| Field::new(FIRING, DataType::Utf8, false)));
        fields.extend(columns.number.then(|| Field::new(FIRING_NUMBER, DataType::Int64, false)));
        fields.extend(columns.retraction.then(|| Field::new(RETRACTION, DataType::Boolean, false)));
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
        Ok(Assembler { schema, time_type, columns, sort_by_key, aggregates })
    }

    /// Results of fired windows, in the order given.
    pub(crate) fn fired(
        &self,
        fired: &[Fired],
        grid: &Grid,
        keys: (&KeyColumns, &Interner),
        workers: &Workers,
    ) -> Result<Vec<RecordBatch>> {
        let workers = workers.worth(fired.iter().map(|fired| fired.table.len()).sum());
        let batches = workers.map_each(cut(fired), |parts| self.batch(&parts, grid, keys, workers));
        batches.into_iter().collect()
    }

    /// Results of one window or of several.
    fn batch(
        &self,
        parts: &[Part<'_>],
        grid: &Grid,
        (keys, interner): (&KeyColumns, &Interner),
        workers: &Workers,
    ) -> Result<RecordBatch> {
        // a lone window is read where it is
        let all: Vec<Box<dyn Accumulator>>;
        let (codes, accumulators) = match parts {
            [part] if part.is_whole() => (Cow::Borrowed(part.codes()), &part.fired.table.accumulators),
            _ => {
                all = joined(parts);
                (Cow::Owned(parts.iter().flat_map(Part::codes).copied().collect()), &all)
            }
        };
        let nulls = nulls(parts, codes.len());
        let (keys, (lines, values)) = workers.join(
            || Keys::decode(keys, &codes, nulls.as_deref(), interner),
            || workers.join(|| self.lines_of(parts, grid), || self.finish(accumulators, workers)),
        );
        let keys = keys?;
        let values = self.values(values, &lines, &keys)?;
        self.assemble(keys, lines, values)
    }

    fn lines_of(&self, parts: &[Part<'_>], grid: &Grid) -> Lines {
        let mut lines = Lines::new(self, parts.iter().map(|part| part.slots.len()).sum());
        for (group, part) in (0..).zip(parts) {
            let label = (part.fired.firing, 0, false);
            lines.push(part.slots.len(), grid.bounds(part.fired.window), group, label);
        }
        lines
    }

    /// The results of each aggregate.
    fn finish(&self, accumulators: &[Box<dyn Accumulator>], workers: &Workers) -> Vec<Finished> {
        workers.map(&self.aggregates, |(_, output)| accumulators[output.accumulator].finish(output.part))
    }

    /// The same, with errors that say where.
    fn values(&self, finished: Vec<Finished>, lines: &Lines, keys: &Keys<'_>) -> Result<Vec<ArrayRef>> {
        let values = self.aggregates.iter().zip(finished).map(|((field, _), values)| {
            values.map_err(|error| match error {
                FinishError::Overflow { slot, value } => Error::Overflow {
                    aggregate: field.name().clone(),
                    start: lines.starts[slot],
                    end: lines.ends[slot],
                    key: keys.of.describe(&keys.columns, slot),
                    value,
                    output_type: field.data_type().to_string(),
                },
                FinishError::Function(message) => {
                    Error::Aggregate { aggregate: field.name().clone(), message }
                }
            })
        });
        values.collect()
    }

    /// A batch of results.
    fn assemble(&self, keys: Keys<'_>, lines: Lines, values: Vec<ArrayRef>) -> Result<RecordBatch> {
        let Lines { starts, ends, groups, firings, numbers, retractions } = lines;
        let times = self.columns.window_time.then(|| ends.iter().map(|end| end.saturating_sub(1)).collect());
        let time = |ticks| ticks_to_array(ticks, &self.time_type);
        let mut columns = keys.columns.clone();
        columns.extend([time(starts), time(ends)]);
        columns.extend(times.map(time));
        columns.extend(values);
        columns.extend(firings.map(|firings| Arc::new(StringArray::from(firings)) as ArrayRef));
        columns.extend(numbers.map(|numbers| Arc::new(Int64Array::from(numbers)) as ArrayRef));
        columns.extend(retractions.map(|retractions| Arc::new(BooleanArray::from(retractions)) as ArrayRef));
        if let Some(groups) = groups.filter(|_| !keys.columns.is_empty()) {
            columns = sorted(columns, &keys.columns, groups)?;
        }
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    /// Results of windows that each key has for itself.
    pub(crate) fn lines(
        &self,
        fired: &keyed::Fired,
        (keys, interner): (&KeyColumns, &Interner),
        workers: &Workers,
    ) -> Result<Vec<RecordBatch>> {
        let entries = fired.entries();
        let workers = workers.worth(entries.len());
        let batches = workers.map_each(batches(&entries).collect(), |entries| {
            let slots: Vec<u32> = entries.iter().map(|entry| entry.place()).collect();
            let accumulators: Vec<_> = fired.accumulators.iter().map(|all| all.gather(&slots)).collect();
            let (keys, lines) = self.entry_lines(entries, keys, interner)?;
            let finished = self.finish(&accumulators, workers);
            let values = self.values(finished, &lines, &keys)?;
            self.assemble(keys, lines, values)
        });
        batches.into_iter().collect()
    }

    /// Results of a window function, which gives batches of `schema`.
    pub(crate) fn functions(
        &self,
        fired: &keyed::Fired,
        schema: &SchemaRef,
        keys: &KeyColumns,
        interner: &Interner,
    ) -> Result<Vec<RecordBatch>> {
        let mut made = Vec::new();
        for entries in batches(&fired.entries()) {
            let rows: Vec<&RecordBatch> =
                entries.iter().map(|entry| &fired.rows[entry.place() as usize]).collect();
            let values = arrow_select::concat::concat_batches(schema, rows.iter().copied())?;
            if values.num_rows() > 0 {
                let each = entries.iter().zip(&rows);
                let entries: Vec<&Emission> =
                    each.flat_map(|(entry, rows)| std::iter::repeat_n(*entry, rows.num_rows())).collect();
                let (keys, lines) = self.entry_lines(&entries, keys, interner)?;
                made.push(self.assemble(keys, lines, values.columns().to_vec())?);
            }
        }
        Ok(made)
    }

    /// What rows say that are due to these firings.
    fn entry_lines<'a>(
        &self,
        entries: &[&Emission],
        keys: &'a KeyColumns,
        interner: &Interner,
    ) -> Result<(Keys<'a>, Lines)> {
        fn column<T>(entries: &[&Emission], of: impl Fn(&Emission) -> T) -> Vec<T> {
            entries.iter().map(|entry| of(entry)).collect()
        }
        let window = |entry: &Emission| {
            let Said { start, end, firing, .. } = entry.said();
            (start, end, firing, entry.order.result)
        };
        let groups = || {
            let next = entries.windows(2).map(|pair| u32::from(window(pair[0]) != window(pair[1])));
            let groups = std::iter::once(0).chain(next).scan(0, |group, next| {
                *group += next;
                Some(*group)
            });
            groups.collect()
        };
        let lines = Lines {
            starts: column(entries, |entry| entry.said().start),
            ends: column(entries, |entry| entry.said().end),
            groups: self.sort_by_key.then(groups),
            firings: self.columns.firing.then(|| column(entries, |entry| entry.said().firing.as_str())),
            numbers: self.columns.number.then(|| column(entries, |entry| i64::from(entry.said().number))),
            retractions: self.columns.retraction.then(|| column(entries, |entry| !entry.order.result)),
        };
        let codes = column(entries, |entry| entry.code);
        let nulls = column(entries, |entry| entry.null);
        let nulls = nulls.contains(&true).then_some(nulls);
        Ok((Keys::decode(keys, &codes, nulls.as_deref(), interner)?, lines))
    }
}

impl<'a> Part<'a> {
    fn is_whole(&self) -> bool {
        self.slots.len() == self.fired.table.len()
    }

    fn codes(&self) -> &'a [Code] {
        &self.fired.table.slots.codes()[self.slots.clone()]
    }

    /// Which of the slots stands for the null key.
    fn null(&self) -> Option<usize> {
        let slot = self.fired.table.slots.null_slot()? as usize;
        self.slots.contains(&slot).then(|| slot - self.slots.start)
    }
}

/// Fired windows by the batch that their results go to.
fn cut(fired: &[Fired]) -> Vec<Vec<Part<'_>>> {
    let mut batches: Vec<Vec<Part<'_>>> = Vec::new();
    // rows of the last batch; a part of a window shares its batch with nobody
    let mut rows = usize::MAX;
    for fired in fired {
        let len = fired.table.len();
        if len > MAX_ROWS {
            let parts = (0..len).step_by(MAX_ROWS).map(|from| from..len.min(from + MAX_ROWS));
            batches.extend(parts.map(|slots| vec![Part { fired, slots }]));
            rows = usize::MAX;
            continue;
        }
        let part = Part { fired, slots: 0..len };
        match batches.last_mut() {
            Some(batch) if rows.saturating_add(len) <= BATCH_ROWS => {
                batch.push(part);
                rows += len;
            }
            _ => {
                batches.push(vec![part]);
                rows = len;
            }
        }
    }
    batches
}

/// The accumulators of some parts, one behind the other; all but the first are whole.
fn joined(parts: &[Part<'_>]) -> Vec<Box<dyn Accumulator>> {
    let [first, rest @ ..] = parts else { return Vec::new() };
    let own = &first.fired.table.accumulators;
    let mut all = match first.is_whole() {
        true => own.clone(),
        false => {
            let slots: Vec<u32> = first.slots.clone().map(|slot| slot as u32).collect();
            own.iter().map(|own| own.gather(&slots)).collect()
        }
    };
    let more = rest.iter().map(|part| part.slots.len()).sum();
    for (number, all) in all.iter_mut().enumerate() {
        all.reserve(more);
        rest.iter().for_each(|part| all.append(part.fired.table.accumulators[number].as_ref()));
    }
    all
}

/// Which rows of the parts have the null key, if any has.
fn nulls(parts: &[Part<'_>], rows: usize) -> Option<Vec<bool>> {
    parts.iter().any(|part| part.null().is_some()).then(|| {
        let (mut nulls, mut before) = (vec![false; rows], 0);
        for part in parts {
            if let Some(null) = part.null() {
                nulls[before + null] = true;
            }
            before += part.slots.len();
        }
        nulls
    })
}

/// Key columns of results, and where they come from.
struct Keys<'a> {
    of: &'a KeyColumns,
    columns: Vec<ArrayRef>,
}

impl<'a> Keys<'a> {
    fn decode(
        of: &'a KeyColumns,
        codes: &[Code],
        nulls: Option<&[bool]>,
        interner: &Interner,
    ) -> Result<Self> {
        Ok(Keys { of, columns: of.decode(codes, nulls, interner)? })
    }
}

impl Lines {
    /// None yet; `rows` are expected.
    fn new(of: &Assembler, rows: usize) -> Self {
        fn wanted<T>(wanted: bool, rows: usize) -> Option<Vec<T>> {
            wanted.then(|| Vec::with_capacity(rows))
        }
        Lines {
            starts: Vec::with_capacity(rows),
            ends: Vec::with_capacity(rows),
            groups: wanted(of.sort_by_key, rows),
            firings: wanted(of.columns.firing, rows),
            numbers: wanted(of.columns.number, rows),
            retractions: wanted(of.columns.retraction, rows),
        }
    }

    /// Adds rows of one firing.
    fn push(&mut self, rows: usize, bounds: (i64, i64), group: u32, label: (Firing, u32, bool)) {
        fn extend<T: Clone>(column: &mut Option<Vec<T>>, len: usize, value: T) {
            if let Some(column) = column {
                column.resize(len, value);
            }
        }
        let len = self.starts.len() + rows;
        self.starts.resize(len, bounds.0);
        self.ends.resize(len, bounds.1);
        extend(&mut self.groups, len, group);
        extend(&mut self.firings, len, label.0.as_str());
        extend(&mut self.numbers, len, i64::from(label.1));
        extend(&mut self.retractions, len, label.2);
    }
}

/// Firings in batches of a handy size; those of a window are in one if they fit.
fn batches<'a, 'e>(entries: &'a [&'e Emission]) -> impl Iterator<Item = &'a [&'e Emission]> {
    let window = |entry: &Emission| {
        let Said { start, end, firing, .. } = entry.said();
        (start, end, firing)
    };
    let mut rest = entries;
    std::iter::from_fn(move || {
        let len = rest.len().min(BATCH_ROWS);
        let last = rest.get(len.checked_sub(1)?).map(|entry| window(entry));
        let more = rest[len..].iter().take_while(|entry| Some(window(entry)) == last).count();
        let (batch, behind) = rest.split_at(len + more.min(MAX_ROWS));
        rest = behind;
        Some(batch)
    })
}

/// The columns with the rows of each group sorted by key, nulls first.
fn sorted(columns: Vec<ArrayRef>, keys: &[ArrayRef], groups: Vec<u32>) -> Result<Vec<ArrayRef>> {
    let numbers: ArrayRef = Arc::new(UInt32Array::from(groups));
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
