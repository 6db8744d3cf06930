//! Quantiles of a uniform sample.

use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};

use super::Rows;
use super::column::{Lens, Native, float_order, for_each_row};
use super::states::ObjectFunction;

/// Bottom-k sampling (Cohen and Kaplan, PODC 2007): every row has a priority, a seeded hash of its arrival number, and the
/// sample is the `capacity` rows of the lowest. Which rows those are does not depend on the order in which they come or
/// are merged, and every set of rows is as likely as any other, so the sample of a merge is as fair as that of one
/// reservoir. Vitter's reservoir would need weights and fresh random numbers to merge.
#[derive(Debug)]
pub(crate) struct Reservoir<N: Native> {
    lens: Lens<N>,
    q: f64,
    capacity: usize,
    seed: u64,
}

/// A row of the sample, ordered by priority. No two rows have the same one: the hash is a bijection of the arrival number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    priority: u64,
    value: f64,
}

impl PartialEq for Sampled {
    fn eq(&self, other: &Self) -> bool {
        self.priority == other.priority
    }
}
impl Eq for Sampled {}
impl PartialOrd for Sampled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Sampled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.priority.cmp(&other.priority)
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014):
/// a bijection.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// 2^64 divided by the golden ratio: the step of SplitMix64.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl<N: Native> Reservoir<N> {
    pub(crate) fn new(lens: Lens<N>, q: f64, capacity: usize, seed: u64) -> Self {
        Reservoir { lens, q, capacity, seed: mix(seed.wrapping_add(STEP)) }
    }

    fn priority(&self, arrival: u64) -> u64 {
        mix(self.seed.wrapping_add(arrival.wrapping_mul(STEP)))
    }

    /// Full samples turn most rows away by one comparison.
    fn offer(&self, sample: &mut BinaryHeap<Sampled>, row: Sampled) {
        if sample.len() < self.capacity {
            sample.push(row);
        } else if let Some(mut highest) = sample.peek_mut()
            && row < *highest
        {
            *highest = row;
        }
    }

    fn quantile(&self, sample: &BinaryHeap<Sampled>) -> Option<f64> {
        let mut values: Vec<f64> = sample.iter().map(|row| row.value).collect();
        let index = (self.q * values.len().checked_sub(1)? as f64) as usize;
        let (_, value, _) = values.select_nth_unstable_by(index, float_order);
        Some(*value)
    }
}

impl<N: Native> ObjectFunction for Reservoir<N> {
    type State = BinaryHeap<Sampled>;

    fn create(&self) -> Self::State {
        BinaryHeap::new()
    }
    fn update(&self, states: &mut [Self::State], slots: &[u32], rows: &Rows<'_>) -> isize {
        let values = self.lens.view(rows);
        let mut growth = 0;
        for_each_row(slots, rows.ranges, rows.nulls(), |slot, row| {
            let priority = self.priority(rows.position(row).arrival);
            let row = Sampled { priority, value: self.lens.float(values[row].canonical()) };
            growth += self.tracked(&mut states[slot], |sample| self.offer(sample, row));
        });
        growth
    }
    fn merge(&self, state: &mut Self::State, other: &Self::State) {
        other.iter().for_each(|&row| self.offer(state, row));
    }
    fn finish(&self, states: &[Self::State]) -> Result<ArrayRef, String> {
        Ok(Arc::new(states.iter().map(|sample| self.quantile(sample)).collect::<Float64Array>()))
    }
    fn heap_size(&self, state: &Self::State) -> usize {
        state.capacity() * size_of::<Sampled>()
    }
}
