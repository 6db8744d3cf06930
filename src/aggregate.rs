//! What to compute per window and key: the built-in aggregates, and the trait for a user's own.

use std::fmt;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use crate::accumulator::{Accumulator, States};

/// One aggregate of the output: a function, its input column and the name of the result.
///
/// ```
/// use highwater::Aggregate;
/// let cost = Aggregate::sum("usd").alias("cost");
/// assert_eq!(cost.name(), "cost");
/// assert_eq!(Aggregate::quantile("ms", 0.99).name(), "quantile(ms,0.99)");
/// ```
#[derive(Clone, Debug)]
pub struct Aggregate {
    pub(crate) function: Function,
    pub(crate) column: Option<String>,
    by: Option<String>,
    name: String,
}

/// The built-in functions and the door to a user's own.
#[derive(Clone, Debug)]
pub(crate) enum Function {
    CountAll,
    Count,
    Sum,
    Min,
    Max,
    Mean,
    Variance { sample: bool, sqrt: bool },
    First,
    Last,
    MaxBy,
    MinBy,
    Quantile(f64),
    ReservoirQuantile { q: f64, capacity: usize },
    ApproxDistinct,
    Custom(Arc<dyn ErasedFunction>),
}

impl Aggregate {
    fn new(function: Function, label: &str, column: impl Into<String>) -> Self {
        let column = column.into();
        Aggregate { function, name: format!("{label}({column})"), column: Some(column), by: None }
    }

    /// `count(*)`: rows, nulls included, as `Int64`. Its name is `count`.
    pub fn count_all() -> Self {
        Aggregate { function: Function::CountAll, column: None, by: None, name: "count".into() }
    }
    /// Rows whose `column` is not null, as `Int64`.
    pub fn count(column: impl Into<String>) -> Self {
        Self::new(Function::Count, "count", column)
    }
    /// The sum of a numeric column: `Int64` for signed, `UInt64` for unsigned integers, `Float64` for floats,
    /// `Decimal128(38, scale)` for decimals. Integers are added exactly; a result that does not fit is
    /// [`Error::Overflow`](crate::Error::Overflow).
    pub fn sum(column: impl Into<String>) -> Self {
        Self::new(Function::Sum, "sum", column)
    }
    /// The smallest value, in the column's own type: numbers, booleans, dates, timestamps, strings, binary.
    /// NaN is the largest float; -0.0 is below 0.0.
    pub fn min(column: impl Into<String>) -> Self {
        Self::new(Function::Min, "min", column)
    }
    /// The largest value; see [`Aggregate::min`].
    pub fn max(column: impl Into<String>) -> Self {
        Self::new(Function::Max, "max", column)
    }
    /// The arithmetic mean of a numeric column as `Float64`. Integers and decimals are added exactly; the mean of integers
    /// is the nearest float to the exact one.
    pub fn mean(column: impl Into<String>) -> Self {
        Self::new(Function::Mean, "mean", column)
    }
    /// The sample variance (n - 1) as `Float64`; null for fewer than two values. Welford's updates, merged by
    /// Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
    pub fn variance(column: impl Into<String>) -> Self {
        Self::new(Function::Variance { sample: true, sqrt: false }, "var", column)
    }
    /// The population variance (n) as `Float64`.
    pub fn variance_pop(column: impl Into<String>) -> Self {
        Self::new(Function::Variance { sample: false, sqrt: false }, "var_pop", column)
    }
    /// The square root of [`Aggregate::variance`].
    pub fn stddev(column: impl Into<String>) -> Self {
        Self::new(Function::Variance { sample: true, sqrt: true }, "stddev", column)
    }
    /// The square root of [`Aggregate::variance_pop`].
    pub fn stddev_pop(column: impl Into<String>) -> Self {
        Self::new(Function::Variance { sample: false, sqrt: true }, "stddev_pop", column)
    }
    /// The value with the smallest event time, of equal ones the one that arrived first; any type. Dictionaries give their
    /// values.
    pub fn first(column: impl Into<String>) -> Self {
        Self::new(Function::First, "first", column)
    }
    /// The value with the largest event time, of equal ones the one that arrived last; see [`Aggregate::first`].
    pub fn last(column: impl Into<String>) -> Self {
        Self::new(Function::Last, "last", column)
    }
    /// The value of `column` in the row whose `by` is the largest: `max_by` of Spark, `arg_max` of DuckDB. Of rows whose
    /// `by` is equally large, the one with the smallest event time counts, of those the one that arrived first.
    ///
    /// A row whose `by` is null is skipped; one whose `column` is null is not, so the result can be null. `by` is a number,
    /// date, time, timestamp or duration, or a dictionary of these, in the order of [`Aggregate::max`] (NaN is the largest
    /// float). `column` is of any type that [`Aggregate::first`] takes.
    ///
    /// The auction and the bidder of each minute's highest bid:
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampSecondArray};
    /// use highwater::{Aggregate, TimeDelta, Window, WindowOperator, watermark::WatermarkStrategy};
    ///
    /// let bids = RecordBatch::try_from_iter([
    ///     ("ts", Arc::new(TimestampSecondArray::from(vec![0, 20, 40])) as ArrayRef),
    ///     ("auction", Arc::new(Int64Array::from(vec![7, 8, 9]))),
    ///     ("bidder", Arc::new(StringArray::from(vec!["ann", "bob", "cat"]))),
    ///     ("price", Arc::new(Int64Array::from(vec![300, 500, 500]))),
    /// ])?;
    /// let mut operator = WindowOperator::builder(bids.schema())
    ///     .event_time("ts")
    ///     .window(Window::tumbling(TimeDelta::from_secs(60)))
    ///     .watermark(WatermarkStrategy::ascending())
    ///     .aggregate(Aggregate::max_by("auction", "price"))
    ///     .aggregate(Aggregate::max_by("bidder", "price").alias("bidder"))
    ///     .build()?;
    /// operator.push(0, &bids)?;
    /// let output = operator.finish()?;
    /// let fired = &output.fired[0];
    /// assert_eq!(fired["max_by(auction,price)"].as_ref(), &Int64Array::from(vec![8]));
    /// assert_eq!(fired["bidder"].as_ref(), &StringArray::from(vec!["bob"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_by(column: impl Into<String>, by: impl Into<String>) -> Self {
        Self::picked(Function::MaxBy, "max_by", column.into(), by.into())
    }
    /// The value of `column` in the row whose `by` is the smallest; see [`Aggregate::max_by`].
    pub fn min_by(column: impl Into<String>, by: impl Into<String>) -> Self {
        Self::picked(Function::MinBy, "min_by", column.into(), by.into())
    }
    fn picked(function: Function, label: &str, column: String, by: String) -> Self {
        Aggregate { function, name: format!("{label}({column},{by})"), column: Some(column), by: Some(by) }
    }
    /// The `q`-quantile (0 to 1) of a numeric column as `Float64`, within 1/129 (0.78 %) of the value: from a histogram of
    /// 64 buckets between any power of two and the next, a DDSketch (Masson, Rim and Lee, VLDB 2019) with the linear
    /// mapping. Merging adds bucket counts, so the result does not depend on the order of rows.
    ///
    /// The value meant is `sorted[floor(q * (n - 1))]` of all n values: no interpolation. The smallest and the largest
    /// finite value come out exactly. Infinities and NaN take part and come out as they are, NaN above all; values closer
    /// to zero than 2.3e-308 count as zero. Memory grows with the span of the values: 1.7 KiB a power of ten, no more than
    /// 2 MiB a window and key. Several quantiles of one column share one histogram.
    pub fn quantile(column: impl Into<String>, q: f64) -> Self {
        let column = column.into();
        Aggregate {
            function: Function::Quantile(q),
            name: format!("quantile({column},{q})"),
            column: Some(column),
            by: None,
        }
    }
    /// The `q`-quantile of a uniform sample of at most `capacity` values (a seeded reservoir); exact while a window
    /// holds no more than that. The value is `sorted[floor(q * (n - 1))]` of the sample. The sample keeps the rows
    /// with the smallest seeded hash of their arrival number (bottom-k sampling; Cohen and Kaplan, "Summarizing Data using
    /// Bottom-k Sketches", PODC 2007), so a merge is the sample that one reservoir over all rows would hold. The rank
    /// error of the q-quantile has standard deviation `sqrt(q (1 - q) / capacity)`.
    pub fn reservoir_quantile(column: impl Into<String>, q: f64, capacity: usize) -> Self {
        let column = column.into();
        Aggregate {
            function: Function::ReservoirQuantile { q, capacity },
            name: format!("reservoir_quantile({column},{q})"),
            column: Some(column),
            by: None,
        }
    }
    /// The number of distinct values as `UInt64`, from a HyperLogLog sketch of 4,096 registers (Apache DataSketches):
    /// relative standard error about 1.6 %, and practically exact below 400. Only nulls give 0. The estimate is a function
    /// of the set of values alone, whatever their order and however merged. Strings, binary, floats (one NaN, one zero), all
    /// that [`Aggregate::min`] takes.
    pub fn approx_distinct(column: impl Into<String>) -> Self {
        Self::new(Function::ApproxDistinct, "approx_distinct", column)
    }
    /// A user's own function over a column; see [`AggregateFunction`].
    pub fn custom<F: AggregateFunction>(label: &str, function: F, column: impl Into<String>) -> Self {
        Self::new(Function::Custom(Arc::new(function)), label, column)
    }

    /// Names the output column.
    pub fn alias(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
    /// The name of the output column.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The input column; `None` for `count(*)`.
    pub fn column(&self) -> Option<&str> {
        self.column.as_deref()
    }
    /// The column that decides which row's value is taken: the second one of [`max_by`](Aggregate::max_by) and
    /// [`min_by`](Aggregate::min_by).
    pub fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }
}

/// Where a row stands in time and in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPosition {
    /// The row's event time in ticks.
    pub time: i64,
    /// How many rows the operator had accepted before it, over all partitions: the order of arrival.
    pub arrival: u64,
}

/// A user's own aggregate: one state per window and key, as Flink's `AggregateFunction`.
///
/// The laws that keep results exact: `merge` is associative, and adding rows to one state must equal adding
/// them to two and merging those in the same order. Null values never reach [`add`](AggregateFunction::add); a key with only nulls has a state
/// fresh from [`create`](AggregateFunction::create).
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Array, ArrayRef, Int64Array, cast::AsArray, types::Int64Type};
/// use arrow_schema::DataType;
/// use highwater::{Aggregate, AggregateFunction, RowPosition};
///
/// /// The bits that any value has set.
/// #[derive(Debug)]
/// struct BitOr;
/// impl AggregateFunction for BitOr {
///     type State = i64;
///     fn return_type(&self, input: &DataType) -> Result<DataType, String> {
///         match input {
///             DataType::Int64 => Ok(DataType::Int64),
///             other => Err(format!("bit_or takes Int64, not {other}")),
///         }
///     }
///     fn create(&self) -> i64 {
///         0
///     }
///     fn add(&self, state: &mut i64, input: &ArrayRef, row: usize, _at: RowPosition) {
///         *state |= input.as_primitive::<Int64Type>().value(row);
///     }
///     fn merge(&self, state: &mut i64, other: &i64) {
///         *state |= other;
///     }
///     fn finish(&self, states: &[i64]) -> Result<ArrayRef, String> {
///         Ok(Arc::new(Int64Array::from(states.to_vec())))
///     }
/// }
/// let flags = Aggregate::custom("bit_or", BitOr, "flags");
/// assert_eq!(flags.name(), "bit_or(flags)");
/// ```
pub trait AggregateFunction: fmt::Debug + Send + Sync + 'static {
    /// What is kept per window and key.
    type State: Clone + fmt::Debug + Send + Sync + 'static;

    /// The output type for an input column of this type, or why the type is not taken.
    fn return_type(&self, input: &DataType) -> Result<DataType, String>;
    /// A state that has seen nothing.
    fn create(&self) -> Self::State;
    /// Takes the value `input[row]`, which is not null.
    fn add(&self, state: &mut Self::State, input: &ArrayRef, row: usize, at: RowPosition);
    /// Takes in what another state has seen, all of it later in the fixed order of merging.
    fn merge(&self, state: &mut Self::State, other: &Self::State);
    /// The results of many states, one value each, of the type that `return_type` gave.
    fn finish(&self, states: &[Self::State]) -> Result<ArrayRef, String>;
    /// Many states as Arrow data, one row each, for a [snapshot](crate::WindowOperator::snapshot). The type of the column is
    /// the same for any states, also for none. By default an error: there is no snapshot of an operator with this function.
    fn save(&self, _states: &[Self::State]) -> Result<ArrayRef, String> {
        Err("its states cannot be saved: AggregateFunction::save is not implemented".into())
    }
    /// The states of a column that [`save`](AggregateFunction::save) gave, in its order: each must go on as the one saved
    /// would have. Data that cannot be a state is an error.
    fn restore(&self, _saved: &ArrayRef) -> Result<Vec<Self::State>, String> {
        Err("its states cannot be restored: AggregateFunction::restore is not implemented".into())
    }
    /// Heap bytes held by a state, for the limit on state; by default none.
    fn heap_size(&self, _state: &Self::State) -> usize {
        0
    }
}

/// An [`AggregateFunction`] with its state type forgotten, so that a specification can hold any.
pub(crate) trait ErasedFunction: fmt::Debug + Send + Sync {
    fn output_type(&self, input: &DataType) -> Result<DataType, String>;
    fn accumulator(self: Arc<Self>, input: &DataType) -> Box<dyn Accumulator>;
}

impl<F: AggregateFunction> ErasedFunction for F {
    fn output_type(&self, input: &DataType) -> Result<DataType, String> {
        self.return_type(input)
    }
    fn accumulator(self: Arc<Self>, _input: &DataType) -> Box<dyn Accumulator> {
        Box::new(States::new(self))
    }
}
