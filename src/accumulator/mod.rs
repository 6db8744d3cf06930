//! Columns of compact accumulators, indexed by slot.
//!
//! An accumulator holds one aggregate for all keys of a slice: slot `i` is the state of the `i`-th key. It knows neither
//! keys nor time. Its algebra: `resize` adds slots at the identity, `update` takes in rows, `merge` takes in another
//! accumulator slot by slot, and `finish` gives an Arrow column. Updates of a slot happen in the order of the rows, one
//! after the other, so that even float sums are a function of the rows alone.

mod bytes;
mod column;
mod count;
mod dictionary;
mod distinct;
mod first_last;
mod mean;
mod min_max;
mod quantile;
mod reservoir;
mod seen;
mod states;
mod sum;
#[cfg(test)]
mod tests;
mod total;
mod variance;

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

pub(crate) use self::states::States;

use self::bytes::{Bytes, Pick, PickBytes};
use self::column::{Lens, Native, Visit, visit};
use crate::aggregate::{Function, RowPosition};

/// One aggregate for every key of a slice.
pub(crate) trait Accumulator: Any + Debug + Send + Sync {
    /// The number of slots.
    fn len(&self) -> usize;
    /// Grows to `slots` slots, or stays as it is if it has more; new ones have seen nothing.
    fn resize(&mut self, slots: usize);
    /// Takes in rows: the k-th row of `rows` belongs to `slots[k]`.
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>);
    /// Takes in `other`, an accumulator of the same kind: its slot `i` goes to `slots[i]`.
    fn merge(&mut self, slots: &[u32], other: &dyn Accumulator);
    /// A new accumulator with these slots, in this order.
    fn gather(&self, slots: &[u32]) -> Box<dyn Accumulator>;
    /// Puts the slots of `other`, of the same kind, behind the own ones.
    fn append(&mut self, other: Box<dyn Accumulator>);
    /// The result column, one value a slot.
    fn finish(self: Box<Self>) -> Result<ArrayRef, FinishError>;
    /// Bytes held, heap included.
    fn size(&self) -> usize;
    /// An upper bound of the magnitude that any slot can have, for accumulators whose `finish` can fail by overflow of the
    /// output type: zero for all others. `u128::MAX` where no bound is known and `finish` can fail.
    fn magnitude(&self) -> u128 {
        0
    }
    /// A copy.
    fn boxed_clone(&self) -> Box<dyn Accumulator>;
}

/// Rows of one batch that go to one slice, for one aggregate.
pub(crate) struct Rows<'a> {
    /// The input column of the whole batch; `None` for `count(*)`.
    pub(crate) column: Option<&'a ArrayRef>,
    /// The event times of the whole batch.
    pub(crate) times: &'a [i64],
    /// The arrival number of row 0 of the batch.
    pub(crate) first_arrival: u64,
    /// Which rows: ranges of row numbers of the batch, ascending.
    pub(crate) ranges: &'a [Range<usize>],
}

/// Why a result column could not be made.
#[derive(Debug)]
pub(crate) enum FinishError {
    /// The value of `slot` does not fit the output type.
    Overflow { slot: usize, value: String },
    /// A user's function failed.
    Function(String),
}

impl<'a> Rows<'a> {
    /// The nulls of the column, if there are any.
    fn nulls(&self) -> Option<&'a NullBuffer> {
        self.column.and_then(|column| column.nulls()).filter(|nulls| nulls.null_count() > 0)
    }
    /// As `nulls`, with those that some types keep elsewhere: a dictionary can hold a null among its values.
    fn logical_nulls(&self) -> Option<NullBuffer> {
        self.column.and_then(|column| column.logical_nulls()).filter(|nulls| nulls.null_count() > 0)
    }
    fn position(&self, row: usize) -> RowPosition {
        RowPosition { time: self.times[row], arrival: self.first_arrival + row as u64 }
    }
}

const SAME: &str = "merged accumulators come from one specification, so they are of one kind";

fn same<A: Accumulator>(other: &dyn Accumulator) -> &A {
    (other as &dyn Any).downcast_ref().expect(SAME)
}

fn same_box<A: Accumulator>(other: Box<dyn Accumulator>) -> Box<A> {
    (other as Box<dyn Any>).downcast().expect(SAME)
}

const NUMBERS: &str = "integers, floats, Decimal128 and dictionaries of these";
const ORDERED: &str =
    "numbers, Boolean, dates, times, timestamps, durations, strings, binary and dictionaries of these";

/// The type of the result of `function` over a column of type `input`, or what would be allowed.
pub(crate) fn output_type(function: &Function, input: Option<&DataType>) -> Result<DataType, String> {
    let Some(input) = input else {
        return match function {
            Function::CountAll => Ok(DataType::Int64),
            _ => Err("any column, but it needs one".into()),
        };
    };
    match function {
        Function::CountAll | Function::Count => return Ok(DataType::Int64),
        Function::Custom(function) => return function.output_type(input),
        Function::Quantile(q) | Function::ReservoirQuantile { q, .. } if !(0.0..=1.0).contains(q) => {
            return Err(format!("a quantile from 0 to 1, not {q}"));
        }
        Function::ReservoirQuantile { capacity: 0, .. } => {
            return Err("a capacity of at least 1, not 0".into());
        }
        _ => {}
    }
    if let DataType::Dictionary(_, values) = input {
        return output_type(function, Some(values));
    }
    let number = input.is_integer() || input.is_floating() || matches!(input, DataType::Decimal128(..));
    let ordered = number || input.is_temporal() && visit(input, Nothing).is_some() || bytes::is_bytes(input);
    match function {
        Function::Min | Function::Max if ordered => Ok(input.clone()),
        Function::First | Function::Last if ordered => Ok(input.clone()),
        Function::First | Function::Last => bytes::flattened(input).map_err(|error| error.to_string()),
        Function::ApproxDistinct if ordered => Ok(DataType::UInt64),
        Function::Min | Function::Max | Function::ApproxDistinct => Err(ORDERED.into()),
        _ if !number => Err(NUMBERS.into()),
        Function::Sum => Ok(sum::sum_type(input)),
        _ => Ok(DataType::Float64),
    }
}

/// Asks only whether a type is primitive.
struct Nothing;

impl Visit for Nothing {
    type Output = ();
    fn visit<N: Native>(self, _: Lens<N>) {}
}

/// An accumulator without slots, for a function and type that [`output_type`] has accepted. `seed` decides which rows a
/// sample takes.
pub(crate) fn accumulator(function: &Function, input: Option<&DataType>, seed: u64) -> Box<dyn Accumulator> {
    let input = match (function, input) {
        (Function::CountAll | Function::Count, _) | (_, None) => return Box::new(count::Count::default()),
        (Function::Custom(function), Some(input)) => return function.clone().accumulator(input),
        (_, Some(DataType::Dictionary(_, values))) => {
            return Box::new(dictionary::Dictionary::new(accumulator(function, Some(values), seed)));
        }
        (_, Some(input)) => input,
    };
    visit(input, Primitive { function, seed }).unwrap_or_else(|| over_bytes(function, input))
}

/// Builds an accumulator over a primitive column.
struct Primitive<'a> {
    function: &'a Function,
    seed: u64,
}

impl Visit for Primitive<'_> {
    type Output = Box<dyn Accumulator>;
    fn visit<N: Native>(self, lens: Lens<N>) -> Box<dyn Accumulator> {
        match *self.function {
            Function::Sum => Box::new(sum::Sum::new(lens)),
            Function::Min => Box::new(min_max::MinMax::<N, false>::new(lens)),
            Function::Max => Box::new(min_max::MinMax::<N, true>::new(lens)),
            Function::Mean => Box::new(mean::Mean::new(lens)),
            Function::Variance { sample, sqrt } => Box::new(variance::Variance::new(lens, sample, sqrt)),
            Function::First => Box::new(first_last::FirstLast::<N, false>::new(lens)),
            Function::Last => Box::new(first_last::FirstLast::<N, true>::new(lens)),
            Function::Quantile(q) => states(quantile::Quantile::new(lens, q)),
            Function::ReservoirQuantile { q, capacity } => {
                states(reservoir::Reservoir::new(lens, q, capacity, self.seed))
            }
            Function::ApproxDistinct => states(distinct::Distinct::new(lens)),
            Function::CountAll | Function::Count | Function::Custom(_) => Box::new(count::Count::default()),
        }
    }
}

/// Builds an accumulator over a column of any other type.
fn over_bytes(function: &Function, input: &DataType) -> Box<dyn Accumulator> {
    let bytes = Bytes::new(input);
    let pick = match function {
        Function::ApproxDistinct => return states(distinct::Distinct::new(bytes)),
        Function::Min => Pick::Min,
        Function::Max => Pick::Max,
        Function::First => Pick::First,
        _ => Pick::Last,
    };
    states(PickBytes { bytes, pick })
}

fn states<F: states::ObjectFunction>(function: F) -> Box<dyn Accumulator> {
    Box::new(States::new(Arc::new(function)))
}
