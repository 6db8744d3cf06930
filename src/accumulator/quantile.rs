//! Quantiles within 1 % of the value.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use sketches_ddsketch::{Config, DDSketch};

use super::Rows;
use super::column::{Lens, Native, for_each};
use super::states::ObjectFunction;

/// The relative error.
const ACCURACY: f64 = 0.01;
/// A bucket is `ln(1.01 / 0.99)`, about 0.02, wide and the normal floats of one sign span `ln(MAX / MIN_POSITIVE)`, about
/// 1,419: 70,911 buckets. So no sketch ever reaches this limit, at which it would start to collapse buckets, lose its error
/// bound and depend on the order of rows. Memory follows the span of the values, not the limit.
const MAX_BUCKETS: u32 = 1 << 17;

/// A DDSketch a slot.
#[derive(Debug)]
pub(crate) struct Quantile<N: Native> {
    lens: Lens<N>,
    q: f64,
    config: Config,
}

/// The finite values in a sketch, where those of magnitude up to `f64::MIN_POSITIVE` (2.2e-308) are zeros, whose buckets cannot hold the others, and these as counts.
///
/// Of the sketch only bucket counts, minimum and maximum are used, which are the same in any order of rows; its running
/// sum is not.
#[derive(Clone)]
pub(crate) struct Buckets {
    finite: DDSketch,
    negative_infinities: u64,
    infinities: u64,
    nans: u64,
}

impl fmt::Debug for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Buckets { finite, negative_infinities, infinities, nans } = self;
        write!(f, "{} finite, {negative_infinities} -inf, {infinities} inf, {nans} NaN", finite.count())
    }
}

impl Buckets {
    fn add(&mut self, value: f64) {
        if value.is_finite() {
            // Adding zero turns -0.0 into 0.0: the minimum and maximum of a sketch do not tell them apart.
            self.finite.add(value + 0.0);
        } else if value.is_nan() {
            self.nans += 1;
        } else if value > 0.0 {
            self.infinities += 1;
        } else {
            self.negative_infinities += 1;
        }
    }

    /// The value of rank `floor(q (n - 1))`, counted from 0. The extreme finite values are exact.
    fn quantile(&self, q: f64) -> Option<f64> {
        let finite = self.finite.count() as u64;
        let total = finite + self.negative_infinities + self.infinities + self.nans;
        let rank = (q * total.checked_sub(1)? as f64) as u64;
        let Some(rank) = rank.checked_sub(self.negative_infinities) else { return Some(f64::NEG_INFINITY) };
        if rank < finite {
            return self.finite_at(rank, finite);
        }
        Some(if rank < finite + self.infinities { f64::INFINITY } else { f64::NAN })
    }

    /// The sketch takes a quantile and truncates `q (n - 1)`; half a rank more makes it come to `rank` whatever the rounding.
    fn finite_at(&self, rank: u64, count: u64) -> Option<f64> {
        let (min, max) = (self.finite.min()?, self.finite.max()?);
        if rank == 0 {
            return Some(min);
        }
        if rank == count - 1 {
            return Some(max);
        }
        let q = (rank as f64 + 0.5) / (count - 1) as f64;
        // The middle of the outermost buckets may lie beyond the values, or even beyond the floats.
        self.finite.quantile(q).ok().flatten().map(|value| value.clamp(min, max))
    }
}

impl<N: Native> Quantile<N> {
    pub(crate) fn new(lens: Lens<N>, q: f64) -> Self {
        Quantile { lens, q, config: Config::new(ACCURACY, MAX_BUCKETS, f64::MIN_POSITIVE) }
    }
}

impl<N: Native> ObjectFunction for Quantile<N> {
    type State = Buckets;

    fn create(&self) -> Buckets {
        Buckets { finite: DDSketch::new(self.config), negative_infinities: 0, infinities: 0, nans: 0 }
    }
    fn update(&self, states: &mut [Buckets], slots: &[u32], rows: &Rows<'_>) -> isize {
        let mut growth = 0;
        for_each(slots, rows.ranges, self.lens.view(rows), rows.nulls(), |slot, value| {
            growth += self.tracked(&mut states[slot], |state| state.add(self.lens.float(value)));
        });
        growth
    }
    fn merge(&self, state: &mut Buckets, other: &Buckets) {
        let merged = state.finite.merge(&other.finite);
        debug_assert!(merged.is_ok(), "sketches of one function have one configuration");
        state.negative_infinities += other.negative_infinities;
        state.infinities += other.infinities;
        state.nans += other.nans;
    }
    fn finish(&self, states: &[Buckets]) -> Result<ArrayRef, String> {
        Ok(Arc::new(states.iter().map(|state| state.quantile(self.q)).collect::<Float64Array>()))
    }
    fn heap_size(&self, state: &Buckets) -> usize {
        state.finite.length() * size_of::<u64>()
    }
}
