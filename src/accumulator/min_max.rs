//! `min(column)` and `max(column)` of primitive values; see `bytes` for strings and the like.

use arrow_array::ArrayRef;

use super::column::{Lens, Native, bytes, for_each, gather, grow};
use super::seen::Seen;
use super::{Accumulator, FinishError, Rows, same, same_box};

/// The largest value a slot if `MAX`, else the smallest.
#[derive(Clone, Debug)]
pub(crate) struct MinMax<N: Native, const MAX: bool> {
    lens: Lens<N>,
    values: Vec<N>,
    seen: Seen,
}

impl<N: Native, const MAX: bool> MinMax<N, MAX> {
    /// What every value beats or equals.
    const WORST: N = if MAX { N::LOWEST } else { N::HIGHEST };

    pub(crate) fn new(lens: Lens<N>) -> Self {
        MinMax { lens, values: Vec::new(), seen: Seen::default() }
    }

    fn take(best: &mut N, value: N) {
        if if MAX { best.below(value) } else { value.below(*best) } {
            *best = value.canonical();
        }
    }
}

impl<N: Native, const MAX: bool> Accumulator for MinMax<N, MAX> {
    fn len(&self) -> usize {
        self.values.len()
    }
    fn resize(&mut self, slots: usize) {
        grow(&mut self.values, slots, Self::WORST);
        self.seen.resize(slots);
    }
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>) {
        let (best, nulls) = (self.values.as_mut_slice(), rows.nulls());
        self.seen.update(slots, rows.ranges, nulls);
        for_each(slots, rows.ranges, self.lens.view(rows), nulls, |slot, value| {
            Self::take(&mut best[slot], value)
        });
    }
    fn merge(&mut self, slots: &[u32], other: &dyn Accumulator) {
        let other = same::<Self>(other);
        for (&slot, &value) in slots.iter().zip(&other.values) {
            Self::take(&mut self.values[slot as usize], value);
        }
        self.seen.merge(slots, &other.seen);
    }
    fn gather(&self, slots: &[u32]) -> Box<dyn Accumulator> {
        Box::new(MinMax::<N, MAX> {
            lens: self.lens.clone(),
            values: gather(&self.values, slots),
            seen: self.seen.gather(slots),
        })
    }
    fn append(&mut self, other: Box<dyn Accumulator>) {
        let mut other = same_box::<Self>(other);
        self.values.append(&mut other.values);
        self.seen.append(&other.seen);
    }
    fn finish(self: Box<Self>) -> Result<ArrayRef, FinishError> {
        Ok(self.lens.build(self.values, self.seen.nulls()))
    }
    fn size(&self) -> usize {
        bytes(&self.values) + self.seen.size()
    }
    fn boxed_clone(&self) -> Box<dyn Accumulator> {
        Box::new(self.clone())
    }
}
