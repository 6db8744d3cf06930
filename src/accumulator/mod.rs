//! Columns of compact accumulators, indexed by slot.
//!
//! An accumulator holds one aggregate, or several that share their state, for all keys of a slice: slot `i` is the state
//! of the `i`-th key. It knows neither keys nor time. Its algebra: `resize` adds slots at the identity, `update` takes in
//! rows, `merge` takes in another accumulator slot by slot, and `finish` gives an Arrow column. Updates of a slot happen in the order of the rows, one
//! after the other, so that even float sums are a function of the rows alone.

mod bytes;
mod column;
mod count;
mod dictionary;
mod distinct;
mod first_last;
mod max_by;
mod plan;
mod quantile;
mod reservoir;
mod seen;
mod states;
mod summary;
#[cfg(test)]
mod tests;
mod total;
mod variance;

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

pub(crate) use self::plan::{Call, Output, Part, plan};
pub(crate) use self::states::States;

use self::column::{Lens, Native, Visit, visit};
use crate::aggregate::{Function, RowPosition};
use crate::block::Block;
use crate::key::Repeats;
use crate::snapshot::Checked;

/// One aggregate, or several of one column, for every key of a slice.
pub(crate) trait Accumulator: Any + Debug + Send + Sync {
    /// The number of slots.
    fn len(&self) -> usize;
    /// Grows to `slots` slots, or stays as it is if it has more; new ones have seen nothing.
    fn resize(&mut self, slots: usize);
    /// Goes back to no slots, and keeps the room for them.
    fn clear(&mut self);
    /// These slots have seen nothing again.
    fn reset(&mut self, slots: &[u32]);
    /// Takes in rows: the k-th row of `rows` belongs to `slots[k]`.
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>);
    /// As `update`, where all rows belong to slot 0: `zeros` are as many zeros as there are rows. The state comes out the
    /// same to the last bit.
    fn update_one(&mut self, zeros: &[u32], rows: &Rows<'_>) {
        self.update(zeros, rows);
    }
    /// Whether an update costs next to nothing beside its rows, so that they may come block by block.
    fn is_light(&self) -> bool {
        false
    }
    /// The same, if it can have a slot for every row and [fold](Additive::fold) them afterwards.
    fn as_additive(&mut self) -> Option<&mut dyn Additive> {
        None
    }
    /// Takes in `other`, an accumulator of the same kind: its slot `i` goes to `slots[i]`.
    fn merge(&mut self, slots: &[u32], other: &dyn Accumulator);
    /// A new accumulator with these slots, in this order.
    fn gather(&self, slots: &[u32]) -> Box<dyn Accumulator>;
    /// Makes room for so many more slots, where that saves copying.
    fn reserve(&mut self, _more: usize) {}
    /// Puts the slots of `other`, of the same kind, behind the own ones.
    fn append(&mut self, other: &dyn Accumulator);
    /// A result column, one value a slot; `part` is one that the [`plan`] asks of this accumulator.
    fn finish(&self, part: Part) -> Result<ArrayRef, FinishError>;
    /// Bytes held, heap included.
    fn size(&self) -> usize;
    /// An upper bound of the magnitude that any slot can have, for accumulators whose `finish` can fail by overflow of the
    /// output type: zero for all others. `u128::MAX` where no bound is known and `finish` can fail.
    fn magnitude(&self) -> u128 {
        0
    }
    /// The state as Arrow data, one row a slot, for a snapshot. The type is the same for any number of slots.
    fn save(&self) -> Checked<ArrayRef>;
    /// An accumulator of this kind with the state that `save` gave. No more than `left` rows can have been counted, and those
    /// that have been are taken off it: so no count will ever wrap, whatever the data.
    fn restore(&self, saved: &ArrayRef, left: &mut u64) -> Checked<Box<dyn Accumulator>>;
    /// A copy.
    fn boxed_clone(&self) -> Box<dyn Accumulator>;
}

/// An accumulator for which a slot that has seen one row is worth as much as the row: merged into another, it changes
/// that one as the row would have, to the last bit.
pub(crate) trait Additive {
    /// Merges what is to be merged, and takes out the slots that are gone.
    fn fold(&mut self, repeats: &Repeats);
}

impl Clone for Box<dyn Accumulator> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// The columns that an accumulator reads: their numbers, their types, or themselves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Columns<T> {
    /// The column of the values; `None` for `count(*)`.
    pub(crate) value: Option<T>,
    /// The column by which `max_by` and `min_by` choose a row; `None` for all others.
    pub(crate) by: Option<T>,
}

impl<T> Columns<T> {
    pub(crate) fn map<'a, U>(&'a self, mut of: impl FnMut(&'a T) -> U) -> Columns<U> {
        Columns { value: self.value.as_ref().map(&mut of), by: self.by.as_ref().map(of) }
    }
}

/// Rows of one batch that go to one slice, for one aggregate.
pub(crate) struct Rows<'a> {
    /// The input column of the whole batch; `None` for `count(*)`.
    pub(crate) column: Option<&'a ArrayRef>,
    /// The second column of the whole batch; see [`Columns::by`].
    pub(crate) by: Option<&'a ArrayRef>,
    /// The event times of the whole batch.
    pub(crate) times: &'a [i64],
    /// The arrival number of row 0 of the batch.
    pub(crate) first_arrival: u64,
    /// Which rows, ascending.
    pub(crate) blocks: &'a [Block],
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
        nulls(self.column)
    }
    /// As `nulls`, with those that some types keep elsewhere: a dictionary can hold a null among its values.
    fn logical_nulls(&self) -> Option<NullBuffer> {
        self.column.and_then(|column| column.logical_nulls()).filter(|nulls| nulls.null_count() > 0)
    }
    /// From the first row to the last, whether meant or not; `None` without rows.
    fn span(&self) -> Option<Range<usize>> {
        Some(self.blocks.first()?.start..self.blocks.last()?.end())
    }
    /// Runs `run` on the same rows, in a batch that is no longer than their span and has these columns.
    fn cut(&self, span: Range<usize>, columns: &Columns<ArrayRef>, run: impl FnOnce(&Rows<'_>)) {
        let start = span.start;
        let blocks: Vec<_> =
            self.blocks.iter().map(|block| Block { start: block.start - start, ..*block }).collect();
        run(&Rows {
            column: columns.value.as_ref(),
            by: columns.by.as_ref(),
            times: &self.times[span],
            first_arrival: self.first_arrival + start as u64,
            blocks: &blocks,
        });
    }
    fn position(&self, row: usize) -> RowPosition {
        RowPosition { time: self.times[row], arrival: self.first_arrival + row as u64 }
    }
}

/// The nulls of a column, if there are any.
fn nulls(column: Option<&ArrayRef>) -> Option<&NullBuffer> {
    column.and_then(|column| column.nulls()).filter(|nulls| nulls.null_count() > 0)
}

/// Takes counts of rows off those that are left to be counted.
fn spend<'a>(left: &mut u64, counts: impl IntoIterator<Item = &'a u64>) -> Checked<()> {
    for &count in counts {
        *left = left.checked_sub(count).ok_or("more rows are counted than have been taken")?;
    }
    Ok(())
}

const SAME: &str = "merged accumulators come from one specification, so they are of one kind";

fn same<A: Accumulator>(other: &dyn Accumulator) -> &A {
    (other as &dyn Any).downcast_ref().expect(SAME)
}

const NUMBERS: &str = "integers, floats, Decimal128 and dictionaries of these";
const ORDERED: &str =
    "numbers, Boolean, dates, times, timestamps, durations, strings, binary and dictionaries of these";

const BY: &str = "numbers, dates, times, timestamps, durations and dictionaries of these";

/// Whether rows can be chosen by a column of this type, or what would be allowed.
pub(crate) fn check_by(by: &DataType) -> Result<(), String> {
    if plan::is_primitive(by) { Ok(()) } else { Err(BY.into()) }
}

/// Whether values of this type can be added up.
pub(crate) fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_floating() || matches!(data_type, DataType::Decimal128(..))
}

/// The values of a primitive column as floats, nulls apart.
pub(crate) fn floats(column: &ArrayRef) -> Vec<Option<f64>> {
    struct Floats<'a>(&'a ArrayRef);
    impl Visit for Floats<'_> {
        type Output = Vec<Option<f64>>;
        fn visit<N: Native>(self, lens: Lens<N>) -> Self::Output {
            let valid = |row| self.0.is_valid(row);
            let values = lens.values(Some(self.0)).iter().enumerate();
            values.map(|(row, &value)| valid(row).then(|| lens.float(value))).collect()
        }
    }
    visit(column.data_type(), Floats(column)).unwrap_or_else(|| vec![None; column.len()])
}

/// The values of a column of integers or durations, nulls apart.
pub(crate) fn integers(column: &ArrayRef) -> Vec<Option<i64>> {
    struct Integers<'a>(&'a ArrayRef);
    impl Visit for Integers<'_> {
        type Output = Vec<Option<i64>>;
        fn visit<N: Native>(self, lens: Lens<N>) -> Self::Output {
            let valid = |row| self.0.is_valid(row);
            let values = lens.values(Some(self.0)).iter().enumerate();
            values.map(|(row, value)| value.to_i64().filter(|_| valid(row))).collect()
        }
    }
    visit(column.data_type(), Integers(column)).unwrap_or_else(|| vec![None; column.len()])
}

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
    let number = is_number(input);
    let ordered = number || input.is_temporal() && visit(input, Nothing).is_some() || bytes::is_bytes(input);
    match function {
        Function::Min | Function::Max if ordered => Ok(input.clone()),
        Function::First | Function::Last | Function::MaxBy | Function::MinBy => {
            if ordered {
                Ok(input.clone())
            } else {
                bytes::flattened(input).map_err(|error| error.to_string())
            }
        }
        Function::ApproxDistinct if ordered => Ok(DataType::UInt64),
        Function::Min | Function::Max | Function::ApproxDistinct => Err(ORDERED.into()),
        _ if !number => Err(NUMBERS.into()),
        Function::Sum => Ok(summary::sum_type(input)),
        _ => Ok(DataType::Float64),
    }
}

/// Asks only whether a type is primitive.
struct Nothing;

impl Visit for Nothing {
    type Output = ();
    fn visit<N: Native>(self, _: Lens<N>) {}
}
