//! Quantiles within 1/129 (0.78 %) of the value.
//!
//! A histogram whose buckets are cut at the exponent and the six highest bits of the mantissa: 64 buckets from any power
//! of two to the next, each at most 1/64 wide. It is a DDSketch (Masson, Rim and Lee, VLDB 2019, section 2) with the linear
//! in place of the logarithmic mapping (section 2.2), the layout of Tene's HdrHistogram. The bucket of a value is a shift
//! of its bits: no logarithm, so it is cheap, and the same on every machine.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float64Array, UInt32Array, UInt64Array};

use super::column::{Lens, Native, for_each};
use super::states::ObjectFunction;
use super::{Part, Rows, spend};
use crate::snapshot::{Checked, Record, lists, record};

/// Bits of the mantissa that a bucket number keeps.
const MANTISSA_BITS: u32 = 6;
/// What is shifted out of a float's 52 bits.
const SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - MANTISSA_BITS;
/// The first bucket of values of at least `f64::MIN_POSITIVE`: what is closer to zero counts as zero.
const FIRST: u32 = 1 << MANTISSA_BITS;
/// One more than the bucket of the largest float.
const BUCKETS: usize = (f64::INFINITY.to_bits() >> SHIFT) as usize;

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
    const LIGHT: bool = true;

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
    fn save(&self, states: &[Buckets]) -> Checked<ArrayRef> {
        save(states)
    }
    fn restore(&self, saved: &ArrayRef, left: &mut u64) -> Checked<Vec<Buckets>> {
        restore(saved, left)
    }
    fn heap_size(&self, state: &Buckets) -> usize {
        state.heap_size()
    }
}

fn save(states: &[Buckets]) -> Checked<ArrayRef> {
    let floats = |of: fn(&Buckets) -> f64| Arc::new(Float64Array::from_iter_values(states.iter().map(of)));
    let counts = |of: fn(&Buckets) -> u64| Arc::new(UInt64Array::from_iter_values(states.iter().map(of)));
    let firsts = |of: fn(&Buckets) -> &Store| {
        Arc::new(UInt32Array::from_iter_values(states.iter().map(|state| of(state).first)))
    };
    let stores = |of: fn(&Buckets) -> &Store| {
        let counts = states.iter().flat_map(|state| of(state).counts.iter().copied());
        let lengths = states.iter().map(|state| of(state).counts.len());
        lists(lengths, Arc::new(UInt64Array::from_iter_values(counts)))
    };
    record(vec![
        ("min", floats(|state| state.min)),
        ("max", floats(|state| state.max)),
        ("first_positive", firsts(|state| &state.positive)),
        ("positive", stores(|state| &state.positive)?),
        ("first_negative", firsts(|state| &state.negative)),
        ("negative", stores(|state| &state.negative)?),
        ("zeros", counts(|state| state.zeros)),
        ("negative_infinities", counts(|state| state.negative_infinities)),
        ("infinities", counts(|state| state.infinities)),
        ("nans", counts(|state| state.nans)),
    ])
}

fn restore(saved: &ArrayRef, left: &mut u64) -> Checked<Vec<Buckets>> {
    let saved = Record::of(saved)?;
    let counts = |name: &str| saved.numbers::<UInt64Type>(name);
    let (min, max) = (saved.numbers::<Float64Type>("min")?, saved.numbers::<Float64Type>("max")?);
    let (zeros, nans) = (counts("zeros")?, counts("nans")?);
    let (negative_infinities, infinities) = (counts("negative_infinities")?, counts("infinities")?);
    let mut positive = restore_stores(&saved, "first_positive", "positive", left)?;
    let mut negative = restore_stores(&saved, "first_negative", "negative", left)?;
    let mut states = Vec::with_capacity(saved.len());
    for slot in 0..saved.len() {
        let state = Buckets {
            min: min[slot],
            max: max[slot],
            positive: std::mem::take(&mut positive[slot]),
            negative: std::mem::take(&mut negative[slot]),
            zeros: zeros[slot],
            negative_infinities: negative_infinities[slot],
            infinities: infinities[slot],
            nans: nans[slot],
        };
        spend(left, [&state.zeros, &state.negative_infinities, &state.infinities, &state.nans])?;
        let finite = state.zeros + state.positive.total() + state.negative.total() > 0;
        let ordered = match finite {
            true => state.min.is_finite() && state.max.is_finite() && state.min <= state.max,
            false => (state.min, state.max) == (f64::INFINITY, f64::NEG_INFINITY),
        };
        if !ordered {
            return Err(format!("extremes {} and {} cannot be", state.min, state.max));
        }
        states.push(state);
    }
    Ok(states)
}

fn restore_stores(saved: &Record<'_>, first: &str, counts: &str, left: &mut u64) -> Checked<Vec<Store>> {
    let firsts = saved.numbers::<UInt32Type>(first)?;
    let stores = firsts.iter().zip(saved.lists(counts)?.iter().flatten()).map(|(&first, counts)| {
        let counts = match counts.as_primitive_opt::<UInt64Type>() {
            Some(counts) if counts.null_count() == 0 => counts.values(),
            _ => return Err("counts of buckets are numbers".to_string()),
        };
        if (first as usize).saturating_add(counts.len()) > BUCKETS {
            return Err(format!("{} buckets from bucket {first} on are too many", counts.len()));
        }
        spend(left, counts)?;
        Ok(Store { first, counts: counts.to_vec() })
    });
    stores.collect()
}
