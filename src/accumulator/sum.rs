//! `sum(column)`.

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use super::column::{Lens, Native, bytes, for_each, gather, grow};
use super::seen::Seen;
use super::total::Total;
use super::{Accumulator, FinishError, Rows, same, same_box};

/// Running sums, and a bound of what they can have come to.
#[derive(Clone, Debug)]
pub(crate) struct Sum<N: Native> {
    lens: Lens<N>,
    totals: Vec<N::Total>,
    seen: Seen,
    /// At least the sum of the magnitudes of all values taken in, whatever their slots: so it bounds every slot, and still
    /// does after slots have been merged.
    bound: u128,
}

/// The type of the sum of a column of numbers.
pub(crate) fn sum_type(input: &DataType) -> DataType {
    match *input {
        DataType::Decimal128(_, scale) => DataType::Decimal128(38, scale),
        _ if input.is_floating() => DataType::Float64,
        _ if input.is_unsigned_integer() => DataType::UInt64,
        _ => DataType::Int64,
    }
}

impl<N: Native> Sum<N> {
    pub(crate) fn new(lens: Lens<N>) -> Self {
        Sum { lens, totals: Vec::new(), seen: Seen::default(), bound: 0 }
    }
}

impl<N: Native> Accumulator for Sum<N> {
    fn len(&self) -> usize {
        self.totals.len()
    }
    fn resize(&mut self, slots: usize) {
        grow(&mut self.totals, slots, N::Total::NOTHING);
        self.seen.resize(slots);
    }
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>) {
        let (values, nulls) = (self.lens.view(rows), rows.nulls());
        for range in rows.ranges {
            let most = N::magnitude(&values[range.clone()]);
            self.bound = self.bound.saturating_add(most.saturating_mul(range.len() as u128));
        }
        self.seen.update(slots, rows.ranges, nulls);
        let totals = self.totals.as_mut_slice();
        for_each(slots, rows.ranges, values, nulls, |slot, value| {
            totals[slot] = totals[slot].plus(value.total())
        });
    }
    fn merge(&mut self, slots: &[u32], other: &dyn Accumulator) {
        let other = same::<Self>(other);
        for (&slot, &total) in slots.iter().zip(&other.totals) {
            self.totals[slot as usize] = self.totals[slot as usize].plus(total);
        }
        self.seen.merge(slots, &other.seen);
        self.bound = self.bound.saturating_add(other.bound);
    }
    fn gather(&self, slots: &[u32]) -> Box<dyn Accumulator> {
        Box::new(Sum {
            lens: self.lens.clone(),
            totals: gather(&self.totals, slots),
            seen: self.seen.gather(slots),
            bound: self.bound,
        })
    }
    fn append(&mut self, other: Box<dyn Accumulator>) {
        let mut other = same_box::<Self>(other);
        self.totals.append(&mut other.totals);
        self.seen.append(&other.seen);
        self.bound = self.bound.saturating_add(other.bound);
    }
    fn finish(self: Box<Self>) -> Result<ArrayRef, FinishError> {
        N::Total::column(self.totals, self.seen.nulls(), &sum_type(&self.lens.data_type))
    }
    fn size(&self) -> usize {
        bytes(&self.totals) + self.seen.size()
    }
    fn magnitude(&self) -> u128 {
        self.bound
    }
    fn boxed_clone(&self) -> Box<dyn Accumulator> {
        Box::new(self.clone())
    }
}
