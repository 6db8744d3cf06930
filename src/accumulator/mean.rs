//! `mean(column)`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};

use super::column::{Lens, Native, bytes, for_each, gather, grow};
use super::total::Total;
use super::{Accumulator, FinishError, Rows, same, same_box};

/// Sums and counts, side by side: a row touches one cache line.
///
/// Integers are added exactly and their quotient is rounded once. Decimals are added exactly and divided in `f64`, within
/// two units in the last place. Floats are added in the order of the rows.
#[derive(Clone, Debug)]
pub(crate) struct Mean<N: Native> {
    lens: Lens<N>,
    sums: Vec<(N::Total, u64)>,
}

impl<N: Native> Mean<N> {
    pub(crate) fn new(lens: Lens<N>) -> Self {
        Mean { lens, sums: Vec::new() }
    }
}

impl<N: Native> Accumulator for Mean<N> {
    fn len(&self) -> usize {
        self.sums.len()
    }
    fn resize(&mut self, slots: usize) {
        grow(&mut self.sums, slots, (N::Total::NOTHING, 0));
    }
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>) {
        let sums = self.sums.as_mut_slice();
        for_each(slots, rows.ranges, self.lens.view(rows), rows.nulls(), |slot, value| {
            let (total, count) = &mut sums[slot];
            *total = total.plus(value.total());
            *count += 1;
        });
    }
    fn merge(&mut self, slots: &[u32], other: &dyn Accumulator) {
        for (&slot, &(total, count)) in slots.iter().zip(&same::<Self>(other).sums) {
            let own = &mut self.sums[slot as usize];
            *own = (own.0.plus(total), own.1 + count);
        }
    }
    fn gather(&self, slots: &[u32]) -> Box<dyn Accumulator> {
        Box::new(Mean { lens: self.lens.clone(), sums: gather(&self.sums, slots) })
    }
    fn append(&mut self, other: Box<dyn Accumulator>) {
        self.sums.append(&mut same_box::<Self>(other).sums);
    }
    fn finish(self: Box<Self>) -> Result<ArrayRef, FinishError> {
        let mean =
            |&(total, count): &(N::Total, u64)| (count > 0).then(|| total.mean(count, self.lens.divisor));
        Ok(Arc::new(self.sums.iter().map(mean).collect::<Float64Array>()))
    }
    fn size(&self) -> usize {
        bytes(&self.sums)
    }
    fn boxed_clone(&self) -> Box<dyn Accumulator> {
        Box::new(self.clone())
    }
}
