//! Variances and standard deviations.

use std::sync::Arc;

use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{ArrayRef, Float64Array, UInt64Array};

use super::column::{Lens, Native, bytes, fill, for_each, gather, grow};
use super::{Accumulator, FinishError, Part, Rows, same, spend};
use crate::snapshot::{Checked, Record, record};

/// Count, mean and the sum of squared distances from the mean of the values seen.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Welford, "Note on a Method for Calculating Corrected Sums of Squares and Products", Technometrics 1962:
    /// `mean' = mean + (x - mean) / n`, `squares' = squares + (x - mean) (x - mean')`. No term is a difference of large
    /// squares, so values far from zero lose nothing.
    fn add(&mut self, value: f64) {
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
    }

    /// Chan, Golub and LeVeque 1979: with `d = mean_b - mean_a`, `mean = mean_a + d n_b / n` and
    /// `squares = squares_a + squares_b + d^2 n_a n_b / n`. An empty side leaves the other as it is, bit for bit.
    fn merge(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (own, others) = (self.count as f64, other.count as f64);
        let distance = other.mean - self.mean;
        let share = others / (own + others);
        self.count += other.count;
        self.mean += distance * share;
        self.squares += other.squares + distance * distance * own * share;
    }
}

/// One variance a slot.
#[derive(Clone, Debug)]
pub(crate) struct Variance<N: Native> {
    lens: Lens<N>,
    moments: Vec<Moments>,
    /// Divide by `n - 1` instead of `n`.
    sample: bool,
    /// Take the square root.
    sqrt: bool,
}

impl<N: Native> Variance<N> {
    pub(crate) fn new(lens: Lens<N>, sample: bool, sqrt: bool) -> Self {
        Variance { lens, moments: Vec::new(), sample, sqrt }
    }
}

impl<N: Native> Accumulator for Variance<N> {
    fn len(&self) -> usize {
        self.moments.len()
    }
    fn resize(&mut self, slots: usize) {
        grow(&mut self.moments, slots, Moments::default());
    }
    fn clear(&mut self) {
        self.moments.clear();
    }
    fn reset(&mut self, slots: &[u32]) {
        fill(&mut self.moments, slots, &Moments::default());
    }
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>) {
        let (lens, moments) = (&self.lens, self.moments.as_mut_slice());
        for_each(slots, rows.blocks, lens.view(rows), rows.nulls(), |slot, value| {
            moments[slot].add(lens.float(value));
        });
    }
    fn is_light(&self) -> bool {
        true
    }
    fn merge(&mut self, slots: &[u32], other: &dyn Accumulator) {
        for (&slot, moments) in slots.iter().zip(&same::<Self>(other).moments) {
            self.moments[slot as usize].merge(moments);
        }
    }
    fn gather(&self, slots: &[u32]) -> Box<dyn Accumulator> {
        Box::new(Variance { lens: self.lens.clone(), moments: gather(&self.moments, slots), ..*self })
    }
    fn append(&mut self, other: &dyn Accumulator) {
        self.moments.extend_from_slice(&same::<Self>(other).moments);
    }
    fn finish(&self, _: Part) -> Result<ArrayRef, FinishError> {
        let value = |moments: &Moments| {
            let degrees = moments.count.checked_sub(u64::from(self.sample)).filter(|&degrees| degrees > 0)?;
            let variance = moments.squares / degrees as f64;
            Some(if self.sqrt { variance.sqrt() } else { variance })
        };
        Ok(Arc::new(self.moments.iter().map(value).collect::<Float64Array>()))
    }
    fn size(&self) -> usize {
        bytes(&self.moments)
    }
    fn save(&self) -> Checked<ArrayRef> {
        let floats =
            |of: fn(&Moments) -> f64| Arc::new(Float64Array::from_iter_values(self.moments.iter().map(of)));
        record(vec![
            ("count", Arc::new(UInt64Array::from_iter_values(self.moments.iter().map(|m| m.count)))),
            ("mean", floats(|moments| moments.mean)),
            ("squares", floats(|moments| moments.squares)),
        ])
    }
    fn restore(&self, saved: &ArrayRef, left: &mut u64) -> Checked<Box<dyn Accumulator>> {
        let saved = Record::of(saved)?;
        let counts = saved.numbers::<UInt64Type>("count")?;
        spend(left, counts)?;
        let (means, squares) =
            (saved.numbers::<Float64Type>("mean")?, saved.numbers::<Float64Type>("squares")?);
        let values = counts.iter().zip(means).zip(squares);
        let moments = values.map(|((&count, &mean), &squares)| Moments { count, mean, squares }).collect();
        Ok(Box::new(Variance { lens: self.lens.clone(), moments, ..*self }))
    }
    fn boxed_clone(&self) -> Box<dyn Accumulator> {
        Box::new(self.clone())
    }
}
