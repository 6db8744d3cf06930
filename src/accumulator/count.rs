//! `count(*)` and `count(column)`.

use std::sync::Arc;

use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, Int64Array, UInt64Array};

use super::column::{bytes, fill, for_each_row, gather, grow};
use super::{Accumulator, Additive, FinishError, Part, Rows, same, spend};
use crate::key::Repeats;
use crate::snapshot::{Checked, Record, record};

/// Rows, or values that are not null. Without a column there are no nulls, so the two are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count {
    counts: Vec<i64>,
}

impl Accumulator for Count {
    fn len(&self) -> usize {
        self.counts.len()
    }
    fn resize(&mut self, slots: usize) {
        grow(&mut self.counts, slots, 0);
    }
    fn clear(&mut self) {
        self.counts.clear();
    }
    fn reset(&mut self, slots: &[u32]) {
        fill(&mut self.counts, slots, &0);
    }
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>) {
        let counts = self.counts.as_mut_slice();
        let nulls = rows.logical_nulls();
        match &nulls {
            None => slots.iter().for_each(|&slot| counts[slot as usize] += 1),
            Some(_) => for_each_row(slots, rows.blocks, nulls.as_ref(), |slot, _| counts[slot] += 1),
        }
    }
    fn update_one(&mut self, zeros: &[u32], rows: &Rows<'_>) {
        let Some(count) = self.counts.first_mut() else { return };
        let nulls = rows.logical_nulls();
        *count += match &nulls {
            None => zeros.len() as i64,
            Some(_) => {
                let mut valid = 0;
                for_each_row(zeros, rows.blocks, nulls.as_ref(), |_, _| valid += 1);
                valid
            }
        };
    }
    fn as_additive(&mut self) -> Option<&mut dyn Additive> {
        Some(self)
    }
    fn merge(&mut self, slots: &[u32], other: &dyn Accumulator) {
        for (&slot, count) in slots.iter().zip(&same::<Self>(other).counts) {
            self.counts[slot as usize] += count;
        }
    }
    fn gather(&self, slots: &[u32]) -> Box<dyn Accumulator> {
        Box::new(Count { counts: gather(&self.counts, slots) })
    }
    fn reserve(&mut self, more: usize) {
        self.counts.reserve(more);
    }
    fn append(&mut self, other: &dyn Accumulator) {
        self.counts.extend_from_slice(&same::<Self>(other).counts);
    }
    fn finish(&self, _: Part) -> Result<ArrayRef, FinishError> {
        Ok(Arc::new(Int64Array::new(self.counts.clone().into(), None)))
    }
    fn size(&self) -> usize {
        bytes(&self.counts)
    }
    fn save(&self) -> Checked<ArrayRef> {
        let counts = self.counts.iter().map(|&count| count as u64);
        record(vec![("count", Arc::new(UInt64Array::from_iter_values(counts)))])
    }
    fn restore(&self, saved: &ArrayRef, left: &mut u64) -> Checked<Box<dyn Accumulator>> {
        let counts = Record::of(saved)?.numbers::<UInt64Type>("count")?;
        spend(left, counts)?;
        Ok(Box::new(Count { counts: counts.iter().map(|&count| count as i64).collect() }))
    }
    fn boxed_clone(&self) -> Box<dyn Accumulator> {
        Box::new(self.clone())
    }
}

impl Additive for Count {
    fn fold(&mut self, repeats: &Repeats) {
        for &(into, from) in &repeats.merges {
            self.counts[into as usize] += self.counts[from as usize];
        }
        repeats.take_out(&mut self.counts);
    }
}
