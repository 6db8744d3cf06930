//! Quantiles of a uniform sample.

use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{ArrayRef, Float64Array, UInt64Array};

use super::column::{Lens, Native, float_order, for_each_row};
use super::states::ObjectFunction;
use super::{Part, Rows};
use crate::snapshot::{Checked, Record, lists, record};

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

/// The rows sampled.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// The highest priority that is taken: that of the worst row of a full sample. It is kept here so that most rows are
    /// turned away without a look at the heap.
    limit: u64,
    rows: BinaryHeap<Sampled>,
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

    fn offer(&self, sample: &mut Sample, row: Sampled) {
        if sample.rows.len() < self.capacity {
            sample.rows.push(row);
        } else if let Some(mut highest) = sample.rows.peek_mut()
            && row < *highest
        {
            *highest = row;
        }
        if sample.rows.len() == self.capacity {
            sample.limit = sample.rows.peek().map_or(u64::MAX, |highest| highest.priority);
        }
    }

    fn quantile(&self, sample: &Sample) -> Option<f64> {
        let mut values: Vec<f64> = sample.rows.iter().map(|row| row.value).collect();
        let index = (self.q * values.len().checked_sub(1)? as f64) as usize;
        let (_, value, _) = values.select_nth_unstable_by(index, float_order);
        Some(*value)
    }
}

impl<N: Native> ObjectFunction for Reservoir<N> {
    type State = Sample;

    fn create(&self) -> Sample {
        Sample { limit: u64::MAX, rows: BinaryHeap::new() }
    }
    fn update(&self, states: &mut [Sample], slots: &[u32], rows: &Rows<'_>) -> isize {
        let values = self.lens.view(rows);
        let mut growth = 0;
        for_each_row(slots, rows.blocks, rows.nulls(), |slot, row| {
            let (sample, priority) = (&mut states[slot], self.priority(rows.position(row).arrival));
            if priority <= sample.limit {
                let row = Sampled { priority, value: self.lens.float(values[row].canonical()) };
                growth += self.tracked(sample, |sample| self.offer(sample, row));
            }
        });
        growth
    }
    fn merge(&self, state: &mut Sample, other: &Sample) {
        other.rows.iter().for_each(|&row| self.offer(state, row));
    }
    fn finish(&self, states: &[Sample], _: Part) -> Result<ArrayRef, String> {
        Ok(Arc::new(states.iter().map(|sample| self.quantile(sample)).collect::<Float64Array>()))
    }
    fn save(&self, states: &[Sample]) -> Checked<ArrayRef> {
        // in order of priority, so that equal samples are saved alike
        let sorted: Vec<Vec<Sampled>> =
            states.iter().map(|sample| sample.rows.clone().into_sorted_vec()).collect();
        let rows = sorted.iter().flatten();
        let rows = record(vec![
            ("priority", Arc::new(UInt64Array::from_iter_values(rows.clone().map(|row| row.priority)))),
            ("value", Arc::new(Float64Array::from_iter_values(rows.map(|row| row.value)))),
        ])?;
        record(vec![("sample", lists(sorted.iter().map(Vec::len), rows)?)])
    }
    fn restore(&self, saved: &ArrayRef, _: &mut u64) -> Checked<Vec<Sample>> {
        let samples = Record::of(saved)?.lists("sample")?;
        let sample = |rows: ArrayRef| {
            let rows = Record::of(&rows)?;
            let priorities = rows.numbers::<UInt64Type>("priority")?;
            if priorities.len() > self.capacity || !priorities.is_sorted_by(|a, b| a < b) {
                return Err(format!("{} rows are no sample of {}", priorities.len(), self.capacity));
            }
            let full = priorities.len() == self.capacity;
            let values = priorities.iter().zip(rows.numbers::<Float64Type>("value")?);
            Ok(Sample {
                limit: priorities.last().copied().filter(|_| full).unwrap_or(u64::MAX),
                rows: values.map(|(&priority, &value)| Sampled { priority, value }).collect(),
            })
        };
        samples.iter().flatten().map(sample).collect()
    }
    fn heap_size(&self, state: &Sample) -> usize {
        state.rows.capacity() * size_of::<Sampled>()
    }
}
