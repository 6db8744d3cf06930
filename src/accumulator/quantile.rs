//! Quantiles within 1/129 (0.78 %) of the value.
//!
//! A histogram whose buckets are cut at the exponent and the six highest bits of the mantissa: 64 buckets from any power
//! of two to the next, each at most 1/64 wide. It is a DDSketch (Masson, Rim and Lee, VLDB 2019, section 2) with the linear
//! in place of the logarithmic mapping (section 2.2), the layout of Tene's HdrHistogram. The bucket of a value is a shift
//! of its bits: no logarithm, so it is cheap, and the same on every machine.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};

use super::column::{Lens, Native, for_each};
use super::states::ObjectFunction;
use super::{Part, Rows};

/// Bits of the mantissa that a bucket number keeps.
const MANTISSA_BITS: u32 = 6;
/// What is shifted out of a float's 52 bits.
const SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - MANTISSA_BITS;
/// The first bucket of values of at least `f64::MIN_POSITIVE`: what is closer to zero counts as zero.
const FIRST: u32 = 1 << MANTISSA_BITS;

/// A histogram a slot.
#[derive(Debug)]
pub(crate) struct Quantile<N: Native> {
    lens: Lens<N>,
}

/// How many values are in each bucket.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    /// The extreme finite values, with all zeros as one.
    min: f64,
    max: f64,
    positive: Store,
    /// By magnitude.
    negative: Store,
    zeros: u64,
    negative_infinities: u64,
    infinities: u64,
    nans: u64,
}

/// Counts of finite magnitudes, from one bucket on.
#[derive(Clone, Debug, Default)]
struct Store {
    first: u32,
    counts: Vec<u64>,
}

/// The bucket of a positive value.
#[inline]
fn bucket(value: f64) -> u32 {
    (value.to_bits() >> SHIFT) as u32
}

/// The value that is within 1/129 of both ends of a bucket from `l` to `u`: their harmonic mean `2 l u / (l + u)`. With
/// `u = l (1 + 1/k)`, where `k` is the mantissa of `l` in units of the bucket's width, that is `l + l / (2k + 1)`.
fn middle(bucket: u32) -> f64 {
    let low = f64::from_bits(u64::from(bucket) << SHIFT);
    let k = FIRST + bucket % FIRST;
    low + low / f64::from(2 * k + 1)
}

impl Store {
    /// Counts a value if its bucket is there.
    #[inline]
    fn add_known(&mut self, bucket: u32) -> bool {
        let count = self.counts.get_mut(bucket.wrapping_sub(self.first) as usize);
        count.map(|count| *count += 1).is_some()
    }

    fn add(&mut self, bucket: u32) {
        if !self.add_known(bucket) {
            self.cover(bucket, bucket + 1);
            self.add_known(bucket);
        }
    }

    /// Makes room for some buckets.
    fn cover(&mut self, from: u32, to: u32) {
        if self.counts.is_empty() {
            self.first = from;
        }
        if from < self.first {
            self.counts.splice(..0, std::iter::repeat_n(0, (self.first - from) as usize));
            self.first = from;
        }
        let len = (to - self.first) as usize;
        if len > self.counts.len() {
            self.counts.resize(len, 0);
        }
    }

    fn merge(&mut self, other: &Store) {
        if other.counts.is_empty() {
            return;
        }
        self.cover(other.first, other.first + other.counts.len() as u32);
        let own = &mut self.counts[(other.first - self.first) as usize..];
        own.iter_mut().zip(&other.counts).for_each(|(own, count)| *own += count);
    }

    fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The middle of the bucket that holds the value of this rank in order of magnitude.
    fn at(&self, rank: u64) -> Option<f64> {
        let mut seen = 0;
        let passes = |&(_, &count): &(u32, &u64)| {
            seen += count;
            seen > rank
        };
        (self.first..).zip(&self.counts).find(passes).map(|(bucket, _)| middle(bucket))
    }
}

impl Buckets {
    /// Counts a value; gives the growth of the heap.
    #[inline]
    fn add(&mut self, value: f64) -> isize {
        // no other values have a bucket that a store of positive ones can have
        if value >= self.min && value <= self.max && self.positive.add_known(bucket(value)) {
            return 0;
        }
        self.add_any(value)
    }

    #[inline(never)]
    fn add_any(&mut self, value: f64) -> isize {
        let before = self.heap_size();
        if value.is_finite() {
            let value = if value.abs() < f64::MIN_POSITIVE { 0.0 } else { value };
            self.min = self.min.min(value);
            self.max = self.max.max(value);
            if value > 0.0 {
                self.positive.add(bucket(value));
            } else if value < 0.0 {
                self.negative.add(bucket(-value));
            } else {
                self.zeros += 1;
            }
        } else if value.is_nan() {
            self.nans += 1;
        } else if value > 0.0 {
            self.infinities += 1;
        } else {
            self.negative_infinities += 1;
        }
        self.heap_size() as isize - before as isize
    }

    fn merge(&mut self, other: &Buckets) {
        self.positive.merge(&other.positive);
        self.negative.merge(&other.negative);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.zeros += other.zeros;
        self.negative_infinities += other.negative_infinities;
        self.infinities += other.infinities;
        self.nans += other.nans;
    }

    /// The value of rank `floor(q (n - 1))`, counted from 0. The extreme finite values are exact.
    fn quantile(&self, q: f64) -> Option<f64> {
        let (negative, positive) = (self.negative.total(), self.positive.total());
        let finite = negative + self.zeros + positive;
        let total = finite + self.negative_infinities + self.infinities + self.nans;
        let rank = (q * total.checked_sub(1)? as f64) as u64;
        let Some(rank) = rank.checked_sub(self.negative_infinities) else { return Some(f64::NEG_INFINITY) };
        if rank >= finite {
            return Some(if rank < finite + self.infinities { f64::INFINITY } else { f64::NAN });
        }
        if rank == 0 {
            return Some(self.min);
        }
        if rank == finite - 1 {
            return Some(self.max);
        }
        let value = if rank < negative {
            -self.negative.at(negative - 1 - rank)?
        } else if rank < negative + self.zeros {
            0.0
        } else {
            self.positive.at(rank - negative - self.zeros)?
        };
        // the middle of the outermost buckets may lie beyond the values
        Some(value.clamp(self.min, self.max))
    }

    fn heap_size(&self) -> usize {
        (self.positive.counts.capacity() + self.negative.counts.capacity()) * size_of::<u64>()
    }
}

impl<N: Native> Quantile<N> {
    pub(crate) fn new(lens: Lens<N>) -> Self {
        Quantile { lens }
    }
}

impl<N: Native> ObjectFunction for Quantile<N> {
    type State = Buckets;

    fn create(&self) -> Buckets {
        Buckets {
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            positive: Store::default(),
            negative: Store::default(),
            zeros: 0,
            negative_infinities: 0,
            infinities: 0,
            nans: 0,
        }
    }
    fn update(&self, states: &mut [Buckets], slots: &[u32], rows: &Rows<'_>) -> isize {
        let mut growth = 0;
        for_each(slots, rows.blocks, self.lens.view(rows), rows.nulls(), |slot, value| {
            growth += states[slot].add(self.lens.float(value));
        });
        growth
    }
    fn merge(&self, state: &mut Buckets, other: &Buckets) {
        state.merge(other);
    }
    fn finish(&self, states: &[Buckets], part: Part) -> Result<ArrayRef, String> {
        let Part::Quantile(q) = part else { return Err(format!("a sketch of quantiles has no {part:?}")) };
        Ok(Arc::new(states.iter().map(|state| state.quantile(q)).collect::<Float64Array>()))
    }
    fn heap_size(&self, state: &Buckets) -> usize {
        state.heap_size()
    }
}
