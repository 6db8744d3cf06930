//! Columns of compact accumulators, indexed by slot.
//!
//! An accumulator holds one aggregate for all keys of a slice: slot `i` is the state of the `i`-th key. It knows neither
//! keys nor time. Its algebra: `resize` adds slots at the identity, `update` takes in rows, `merge` takes in another
//! accumulator slot by slot, and `finish` gives an Arrow column. Updates of a slot happen in the order of the rows, one
//! after the other, so that even float sums are a function of the rows alone.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;

use arrow_array::ArrayRef;

/// One aggregate for every key of a slice.
pub(crate) trait Accumulator: Any + Debug + Send + Sync {
    /// The number of slots.
    fn len(&self) -> usize;
    /// Grows to `slots` slots; new ones have seen nothing.
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
