//! Rows of two inputs in the same tumbling window.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::{JoinPlan, Joined, Sides, check, heap_size};
use crate::error::Result;
use crate::input::{Input, missing};
use crate::output::{WINDOW_END, WINDOW_START, ticks_to_array};
use crate::process::grid::Tumbling;
use crate::process::stored::{Bytes, unsaved};
use crate::process::{Keyed, KeyedProcess, OperatorBuilder, Results, Rows, Timer, TwoInputOperator};
use crate::snapshot::{Record, each_list, lists, record};
use crate::time::TimeDelta;
use crate::watermark::NONE;

/// Joins rows of two inputs that have the same key and are in the same tumbling window: each left row with each right one, when
/// the merged watermark of both inputs reaches the end of the window.
///
/// The pairs of a key and window come in order of arrival of the left row, then of the right. A row whose window is over (end -
/// 1 at or before the merged watermark) is handed back.
///
/// Results have the key columns, `window_start` and `window_end`, then the other columns of the left and of the right input (or
/// those chosen); a name that both have gets the prefix `left_` or `right_`. A null key is a key like any other.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampSecondArray};
/// use highwater::process::{Side, window_join};
/// use highwater::watermark::WatermarkStrategy;
/// use highwater::{Input, TimeDelta};
///
/// let batch = |times: Vec<i64>, value: &str, values: Vec<i64>| {
///     let keys = StringArray::from(vec!["a"; times.len()]);
///     RecordBatch::try_from_iter([
///         ("ts", Arc::new(TimestampSecondArray::from(times)) as ArrayRef),
///         ("key", Arc::new(keys) as _),
///         (value, Arc::new(Int64Array::from(values)) as _),
///     ])
/// };
/// let (bids, asks) = (batch(vec![5, 8, 61], "bid", vec![1, 2, 3])?, batch(vec![7, 65], "ask", vec![10, 20])?);
/// let input = |batch: &RecordBatch| {
///     let input = Input::new(batch.schema()).event_time("ts").key("key");
///     input.watermark(WatermarkStrategy::ascending())
/// };
/// let mut join = window_join(input(&bids), input(&asks))
///     .window(TimeDelta::from_mins(1), TimeDelta::ZERO)
///     .left_columns(["bid"])
///     .right_columns(["ask"])
///     .build()?;
/// assert!(join.push(Side::Left, 0, &bids)?.is_empty());
/// let output = join.push(Side::Right, 0, &asks)?;
/// // the watermark is 60: the first minute is over
/// assert_eq!(output.fired[0]["bid"].as_ref(), &Int64Array::from(vec![1, 2]));
/// assert_eq!(output.fired[0]["ask"].as_ref(), &Int64Array::from(vec![10, 10]));
/// assert_eq!(join.finish()?.fired[0]["ask"].as_ref(), &Int64Array::from(vec![20]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn window_join(left: Input, right: Input) -> WindowJoinBuilder {
    OperatorBuilder::new(JoinPlan::new(WindowPlan { window: None }), [left, right])
}

/// Builds what [`window_join`] describes; everything is checked in [`build`](WindowJoinBuilder::build).
pub type WindowJoinBuilder = OperatorBuilder<JoinPlan<WindowPlan>, 2>;

/// In which windows rows are to be joined.
#[derive(Clone, Debug)]
pub struct WindowPlan {
    /// Size and offset.
    window: Option<(TimeDelta, TimeDelta)>,
}

impl WindowJoinBuilder {
    /// The size of windows, which are aligned to the epoch plus `offset`.
    pub fn window(mut self, size: impl Into<TimeDelta>, offset: impl Into<TimeDelta>) -> Self {
        self.process.on.window = Some((size.into(), offset.into()));
        self
    }

    /// Checks everything and makes the operator.
    ///
    /// # Errors
    /// Those of the inputs; keys or event-time units that are not alike; no window, or one that is not a positive whole number
    /// of ticks; an unknown column, or two of one name in the results.
    pub fn build(self) -> Result<TwoInputOperator<WindowJoin>> {
        let (plan, [left, right]) = (&self.process, &check(&self.inputs)?);
        let (size, offset) = plan.on.window.ok_or_else(|| missing("window", "a size and an offset"))?;
        let (sides, of_rows) = Sides::new([left, right], &plan.columns, &[WINDOW_START, WINDOW_END], false)?;
        let bound = |name| Field::new(name, left.time_type.clone(), false);
        let fields = [bound(WINDOW_START), bound(WINDOW_END)].into_iter().chain(of_rows);
        let process = WindowJoin {
            grid: Tumbling::new(size, offset, &left.ticks)?,
            sides,
            time_type: left.time_type.clone(),
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        };
        self.with(process).build()
    }
}

/// The process behind [`window_join`].
#[derive(Debug)]
pub struct WindowJoin {
    grid: Tumbling,
    sides: Sides,
    time_type: DataType,
    schema: SchemaRef,
}

/// The rows of a key, by the last time of their window, and by side.
#[derive(Clone, Debug, Default)]
pub struct WindowState(BTreeMap<i64, [Vec<Bytes>; 2]>);

impl KeyedProcess for WindowJoin {
    type State = WindowState;
    type Output = Joined;

    const FALLIBLE: bool = false;

    fn output_schema(&self, _: &[SchemaRef]) -> Result<SchemaRef> {
        Ok(self.schema.clone())
    }

    fn rows(&self, rows: &mut Rows<'_, Self>) -> Result<()> {
        let input = rows.input();
        let encoded = self.sides.of(input).encode_all(rows.batch())?;
        while let Some(mut row) = rows.next()? {
            let last = self.grid.last(row.time);
            let watermark = row.key.watermark();
            if watermark != NONE && last <= watermark {
                row.hand_back();
            } else {
                row.key.state().0.entry(last).or_default()[input].push(encoded.get(row.index));
                row.key.register_timer(last);
            }
        }
        Ok(())
    }

    fn timer(&self, timer: Timer, key: &mut Keyed<'_, Self>) -> Result<()> {
        let [left, right] = key.state().0.remove(&timer.time).unwrap_or_default();
        if key.state().0.is_empty() {
            key.clear();
        }
        for left in &left {
            for right in &right {
                let (left, right) = (left.clone(), Some(right.clone()));
                key.emit(Joined { left, right, last: timer.time });
            }
        }
        Ok(())
    }

    fn results(&self, outputs: Vec<Joined>, _: &Results<'_>) -> Result<Vec<ArrayRef>> {
        let bounds = outputs.iter().map(|pair| self.grid.bounds(pair.last));
        let (starts, ends) = bounds.unzip();
        let mut columns =
            vec![ticks_to_array(starts, &self.time_type), ticks_to_array(ends, &self.time_type)];
        columns.extend(self.sides.decode(&outputs)?);
        Ok(columns)
    }

    fn describe(&self) -> String {
        format!("window join by {:?}; {}", self.grid, self.sides.describe())
    }

    fn save(&self, states: &[&WindowState]) -> Result<ArrayRef> {
        let windows = || states.iter().flat_map(|state| &state.0);
        let side = |input: usize| {
            let rows = windows().flat_map(|(_, sides)| sides[input].iter().map(Some));
            let row = self.sides.of(input).save(rows)?;
            lists(windows().map(|(_, sides)| sides[input].len()), row)
        };
        let save = || {
            let all = record(vec![
                (
                    "last",
                    Arc::new(Int64Array::from_iter_values(windows().map(|(last, _)| *last))) as ArrayRef,
                ),
                ("left", side(0)?),
                ("right", side(1)?),
            ])?;
            lists(states.iter().map(|state| state.0.len()), all)
        };
        save().map_err(unsaved)
    }

    fn restore(&self, saved: &ArrayRef) -> Result<Vec<WindowState>> {
        each_list(saved, |windows| {
            let windows = Record::of(windows)?;
            let side = |name: &str, input: usize| {
                each_list(windows.column(name)?, |rows| self.sides.of(input).restore(rows))
            };
            let sides =
                side("left", 0)?.into_iter().zip(side("right", 1)?).map(|(left, right)| [left, right]);
            let lasts = windows.numbers::<Int64Type>("last")?;
            match lasts.iter().all(|&last| self.grid.last(last) == last) && lasts.is_sorted_by(|a, b| a < b) {
                true => Ok(WindowState(lasts.iter().copied().zip(sides).collect())),
                false => Err(format!("{lasts:?} are not the last times of windows")),
            }
        })
        .map_err(unsaved)
    }

    fn heap_size(&self, state: &WindowState) -> usize {
        let rows = |rows: &Vec<Bytes>| {
            rows.capacity() * size_of::<Bytes>() + rows.iter().map(heap_size).sum::<usize>()
        };
        let windows = state.0.values().map(|sides| sides.iter().map(rows).sum::<usize>());
        windows.sum::<usize>() + state.0.len() * size_of::<(i64, [Vec<Bytes>; 2])>()
    }
}
