//! Approximate numbers of distinct values.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};
use datasketches::hash::value::raw_bytes;
use datasketches::hll::{HllType, HllUnion};

use super::bytes::Bytes;
use super::column::{Lens, Native, for_each};
use super::states::ObjectFunction;
use super::{Part, Rows};

/// 2^12 registers: a relative standard error of 1.04 / sqrt(4096) = 1.6 %.
const LG_REGISTERS: u8 = 12;

/// A HyperLogLog sketch a slot: up to 384 values as they are hashed, then 4 KiB of registers.
///
/// A state is a `HllUnion`, not a `HllSketch`, because only a union can be merged into. The estimate is the composite one,
/// a function of the registers: the default HIP estimator depends on the order in which they filled. Its sums are of powers
/// of two few enough to be exact, so they have no order either.
#[derive(Debug)]
pub(crate) struct Distinct<V> {
    values: V,
}

impl<V: Hashed> Distinct<V> {
    pub(crate) fn new(values: V) -> Self {
        Distinct { values }
    }
}

/// A column whose values can be put into sketches, equal values as equal hashes.
pub(crate) trait Hashed: Debug + Send + Sync + 'static {
    /// Calls `fold` with a slot and a value to be put into its sketch.
    fn update(&self, slots: &[u32], rows: &Rows<'_>, touch: impl FnMut(usize, &dyn Fn(&mut HllUnion)));
}

impl<N: Native> Hashed for Lens<N> {
    fn update(&self, slots: &[u32], rows: &Rows<'_>, mut touch: impl FnMut(usize, &dyn Fn(&mut HllUnion))) {
        for_each(slots, rows.blocks, self.view(rows), rows.nulls(), |slot, value| {
            touch(slot, &|sketch| sketch.update_value(value.identity()));
        });
    }
}

impl Hashed for Bytes {
    fn update(&self, slots: &[u32], rows: &Rows<'_>, mut touch: impl FnMut(usize, &dyn Fn(&mut HllUnion))) {
        self.for_each(slots, rows, |slot, _, value| {
            touch(slot, &|sketch| sketch.update_value(raw_bytes::from_slice(value)));
        });
    }
}

impl<V: Hashed> ObjectFunction for Distinct<V> {
    type State = HllUnion;

    fn create(&self) -> HllUnion {
        HllUnion::new(LG_REGISTERS).expect("12 is between 4 and 21")
    }
    fn update(&self, states: &mut [HllUnion], slots: &[u32], rows: &Rows<'_>) -> isize {
        let mut growth = 0;
        self.values.update(slots, rows, |slot, put| growth += self.tracked(&mut states[slot], put));
        growth
    }
    fn merge(&self, state: &mut HllUnion, other: &HllUnion) {
        state.update(&other.to_sketch(HllType::Hll8));
    }
    fn finish(&self, states: &[HllUnion], _: Part) -> Result<ArrayRef, String> {
        let counts = states.iter().map(|state| state.composite_estimate().round() as u64);
        Ok(Arc::new(UInt64Array::from_iter_values(counts)))
    }
    fn heap_size(&self, state: &HllUnion) -> usize {
        state.estimated_size()
    }
}
