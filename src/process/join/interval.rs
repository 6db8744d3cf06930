//! Rows of two inputs whose times are no further apart than an interval.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray, Int64Array, UInt64Array};
use arrow_schema::{Schema, SchemaRef};

use super::{JoinPlan, Joined, Sides, check, heap_size};
use crate::error::{Error, Result};
use crate::input::{Input, missing};
use crate::process::stored::{Bytes, unsaved};
use crate::process::{Keyed, KeyedProcess, OperatorBuilder, Results, Rows, Timer, TwoInputOperator};
use crate::snapshot::{Checked, Record, each_list, lists, record};
use crate::time::{TickConverter, TimeDelta};
use crate::watermark::NONE;

/// Joins rows of two inputs that have the same key, and whose times are near each other:
/// `left.ts + lower <= right.ts <= left.ts + upper`.
///
/// A pair comes when the second of its rows does; the partners of one row come in order of arrival. A row whose time is at or
/// before the merged watermark of both inputs is late: it is joined with nothing and handed back. A row is kept until no partner
/// can come that is not late. With [`left_outer`](IntervalJoinBuilder::left_outer) a left row that has found none comes then, its
/// right columns null.
///
/// Results have the key columns, then the other columns of the left and of the right input (or those chosen); a name that both
/// have gets the prefix `left_` or `right_`. A null key is a key like any other.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampSecondArray};
/// use highwater::process::{Side, interval_join};
/// use highwater::watermark::WatermarkStrategy;
/// use highwater::{Input, TimeDelta};
///
/// let clicks = RecordBatch::try_from_iter([
///     ("ts", Arc::new(TimestampSecondArray::from(vec![100, 200])) as ArrayRef),
///     ("user", Arc::new(StringArray::from(vec!["ada", "bob"])) as _),
/// ])?;
/// let orders = RecordBatch::try_from_iter([
///     ("ts", Arc::new(TimestampSecondArray::from(vec![110, 170, 190])) as ArrayRef),
///     ("user", Arc::new(StringArray::from(vec!["ada", "ada", "bob"])) as _),
///     ("cents", Arc::new(Int64Array::from(vec![999, 250, 100])) as _),
/// ])?;
/// let input = |batch: &RecordBatch| {
///     let input = Input::new(batch.schema()).event_time("ts").key("user");
///     input.watermark(WatermarkStrategy::ascending())
/// };
/// // orders in the minute after a click
/// let mut join = interval_join(input(&clicks), input(&orders))
///     .between(TimeDelta::ZERO, TimeDelta::from_mins(1))
///     .build()?;
/// assert!(join.push(Side::Left, 0, &clicks)?.is_empty());
/// let output = join.push(Side::Right, 0, &orders)?;
/// let pairs = &output.fired[0];
/// assert_eq!(pairs["user"].as_ref(), &StringArray::from(vec!["ada"]));
/// assert_eq!(pairs["left_ts"].as_ref(), &TimestampSecondArray::from(vec![100]));
/// assert_eq!(pairs["cents"].as_ref(), &Int64Array::from(vec![999]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn interval_join(left: Input, right: Input) -> IntervalJoinBuilder {
    OperatorBuilder::new(JoinPlan::new(IntervalPlan { bounds: None, outer: false }), [left, right])
}

/// Builds what [`interval_join`] describes; everything is checked in [`build`](IntervalJoinBuilder::build).
pub type IntervalJoinBuilder = OperatorBuilder<JoinPlan<IntervalPlan>, 2>;

/// Which rows are to be joined.
#[derive(Clone, Debug)]
pub struct IntervalPlan {
    bounds: Option<(TimeDelta, TimeDelta)>,
    outer: bool,
}

impl IntervalJoinBuilder {
    /// How much later than the left row the right one may be, at least and at most; both ends belong to it, and may be
    /// negative.
    pub fn between(mut self, lower: impl Into<TimeDelta>, upper: impl Into<TimeDelta>) -> Self {
        self.process.on.bounds = Some((lower.into(), upper.into()));
        self
    }
    /// A left row without a partner is a result too: as soon as every partner would be late, which is when the watermark reaches
    /// its time + upper. Those of one such moment come key by key, in the order in which the keys first had a row, of either
    /// side, that is forgotten then; those of one key in order of their times, then of arrival.
    pub fn left_outer(mut self) -> Self {
        self.process.on.outer = true;
        self
    }

    /// Checks everything and makes the operator.
    ///
    /// # Errors
    /// Those of the inputs; keys or event-time units that are not alike; a lower bound above the upper one, a bound that is not
    /// a whole number of ticks; an unknown column, or two of one name in the results.
    pub fn build(self) -> Result<TwoInputOperator<IntervalJoin>> {
        let (plan, [left, right]) = (&self.process, &check(&self.inputs)?);
        let (lower, upper) =
            plan.on.bounds.ok_or_else(|| missing("between", "a lower and an upper bound"))?;
        if lower > upper {
            return Err(Error::invalid(
                "between",
                lower,
                format!("a lower bound up to the upper one, {upper}"),
            ));
        }
        let (sides, fields) = Sides::new([left, right], &plan.columns, &[], plan.on.outer)?;
        let process = IntervalJoin {
            lower: bound(&left.ticks, "lower bound", lower)?,
            upper: bound(&left.ticks, "upper bound", upper)?,
            outer: plan.on.outer,
            sides,
            schema: Arc::new(Schema::new(fields)),
        };
        self.with(process).build()
    }
}

/// Ticks of a bound; beyond `i64` it saturates, as what is computed with it does.
fn bound(ticks: &TickConverter, parameter: &str, bound: TimeDelta) -> Result<i64> {
    let wide = ticks.wide(parameter, bound)?;
    Ok(wide.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
}

/// The process behind [`interval_join`].
#[derive(Debug)]
pub struct IntervalJoin {
    lower: i64,
    upper: i64,
    outer: bool,
    sides: Sides,
    schema: SchemaRef,
}

/// More rows of a key than there will ever be.
const MOST_ARRIVALS: u64 = 1 << 62;

/// The rows of a key that may still find a partner.
#[derive(Clone, Debug, Default)]
pub struct IntervalState {
    /// By side, in order of time, then arrival.
    kept: [VecDeque<Kept>; 2],
    arrivals: u64,
}

#[derive(Clone, Debug)]
struct Kept {
    time: i64,
    arrival: u64,
    row: Bytes,
    matched: bool,
}

impl IntervalJoin {
    /// The first and the last time that a partner of a row may have; `i64` may hold neither.
    fn partners(&self, input: usize, time: i64) -> (i128, i128) {
        let (lower, upper) = (i128::from(self.lower), i128::from(self.upper));
        let (from, to) = if input == 0 { (lower, upper) } else { (-upper, -lower) };
        (i128::from(time) + from, i128::from(time) + to)
    }

    /// The watermark at which a row is forgotten.
    fn until(&self, input: usize, time: i64) -> i64 {
        self.partners(input, time).1.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// Rows of one side, out of a snapshot.
    fn restore_side(&self, input: usize, saved: &ArrayRef) -> Checked<VecDeque<Kept>> {
        let rows = self.sides.of(input);
        let saved = Record::of(saved)?;
        let (times, arrivals) =
            (saved.numbers::<Int64Type>("time")?, saved.numbers::<UInt64Type>("arrival")?);
        let matched = saved.flags("matched")?;
        if !times.is_sorted() {
            return Err("rows are not kept in order of time".into());
        }
        let rows = rows.restore(saved.column("row")?)?;
        let kept = times.iter().zip(arrivals).zip(matched.values()).zip(rows);
        let kept = kept.map(|(((&time, &arrival), matched), row)| Kept { time, arrival, row, matched });
        Ok(kept.collect())
    }

    /// Takes in a row that is not late.
    fn take(&self, key: &mut Keyed<'_, Self>, input: usize, time: i64, row: Bytes) {
        let (first, last) = self.partners(input, time);
        let mut found = Vec::new();
        let others = &mut key.state().kept[1 - input];
        let from = others.partition_point(|other| i128::from(other.time) < first);
        for other in others.range_mut(from..).take_while(|other| i128::from(other.time) <= last) {
            other.matched = true;
            found.push((other.arrival, other.row.clone()));
        }
        found.sort_unstable_by_key(|&(arrival, _)| arrival);
        let matched = !found.is_empty();
        for (_, other) in found {
            let (left, right) = if input == 0 { (row.clone(), other) } else { (other, row.clone()) };
            key.emit(Joined { left, right: Some(right), last: 0 });
        }
        let watermark = key.watermark();
        if last > i128::from(watermark) || watermark == NONE && last == i128::from(NONE) {
            let state = key.state();
            let place = state.kept[input].partition_point(|other| other.time <= time);
            state.kept[input].insert(place, Kept { time, arrival: state.arrivals, row, matched });
            state.arrivals += 1;
            key.register_timer(self.until(input, time));
        } else if input == 0 && self.outer && !matched {
            key.emit(Joined { left: row, right: None, last: 0 });
        }
        forget_if_empty(key);
    }
}

fn forget_if_empty(key: &mut Keyed<'_, IntervalJoin>) {
    if key.peek().is_some_and(|state| state.kept.iter().all(VecDeque::is_empty)) {
        key.clear();
    }
}

impl KeyedProcess for IntervalJoin {
    type State = IntervalState;
    type Output = Joined;

    const FALLIBLE: bool = false;

    fn output_schema(&self, _: &[SchemaRef]) -> Result<SchemaRef> {
        Ok(self.schema.clone())
    }

    fn rows(&self, rows: &mut Rows<'_, Self>) -> Result<()> {
        let input = rows.input();
        let encoded = self.sides.of(input).encode_all(rows.batch())?;
        while let Some(mut row) = rows.next()? {
            if row.is_late() {
                row.hand_back();
            } else {
                let (time, bytes) = (row.time, encoded.get(row.index));
                self.take(&mut row.key, input, time, bytes);
            }
        }
        Ok(())
    }

    fn timer(&self, timer: Timer, key: &mut Keyed<'_, Self>) -> Result<()> {
        let mut alone = Vec::new();
        if let Some(state) = key.peek_mut() {
            for (input, kept) in state.kept.iter_mut().enumerate() {
                while let Some(first) = kept.front()
                    && self.until(input, first.time) <= timer.time
                    && let Some(over) = kept.pop_front()
                {
                    if input == 0 && self.outer && !over.matched {
                        alone.push(over.row);
                    }
                }
            }
        }
        for left in alone {
            key.emit(Joined { left, right: None, last: 0 });
        }
        forget_if_empty(key);
        Ok(())
    }

    fn results(&self, outputs: Vec<Joined>, _: &Results<'_>) -> Result<Vec<ArrayRef>> {
        self.sides.decode(&outputs)
    }

    fn describe(&self) -> String {
        let IntervalJoin { lower, upper, outer, sides, .. } = self;
        format!("interval join from {lower} to {upper} ticks, outer: {outer}; {}", sides.describe())
    }

    fn save(&self, states: &[&IntervalState]) -> Result<ArrayRef> {
        let side = |input: usize| {
            let kept = || states.iter().flat_map(|state| &state.kept[input]);
            let rows = record(vec![
                ("time", Arc::new(Int64Array::from_iter_values(kept().map(|kept| kept.time))) as ArrayRef),
                ("arrival", Arc::new(UInt64Array::from_iter_values(kept().map(|kept| kept.arrival)))),
                ("matched", Arc::new(kept().map(|kept| Some(kept.matched)).collect::<BooleanArray>())),
                ("row", self.sides.of(input).save(kept().map(|kept| Some(&kept.row)))?),
            ])?;
            lists(states.iter().map(|state| state.kept[input].len()), rows)
        };
        let arrivals = UInt64Array::from_iter_values(states.iter().map(|state| state.arrivals));
        let columns = vec![
            ("left", side(0).map_err(unsaved)?),
            ("right", side(1).map_err(unsaved)?),
            ("arrivals", Arc::new(arrivals) as ArrayRef),
        ];
        record(columns).map_err(unsaved)
    }

    fn restore(&self, saved: &ArrayRef) -> Result<Vec<IntervalState>> {
        let restore = || {
            let saved = Record::of(saved)?;
            let side = |name: &str, input: usize| {
                each_list(saved.column(name)?, |rows| self.restore_side(input, rows))
            };
            let (left, right) = (side("left", 0)?, side("right", 1)?);
            let arrivals = saved.numbers::<UInt64Type>("arrivals")?;
            if let Some(arrivals) = arrivals.iter().find(|&&arrivals| arrivals > MOST_ARRIVALS) {
                return Err(format!("{arrivals} rows cannot have come"));
            }
            let states = left.into_iter().zip(right).zip(arrivals);
            Ok(states
                .map(|((left, right), &arrivals)| IntervalState { kept: [left, right], arrivals })
                .collect())
        };
        restore().map_err(unsaved)
    }

    fn heap_size(&self, state: &IntervalState) -> usize {
        let rows = |kept: &VecDeque<Kept>| kept.iter().map(|kept| heap_size(&kept.row)).sum::<usize>();
        state.kept.iter().map(|kept| kept.capacity() * size_of::<Kept>() + rows(kept)).sum()
    }
}
