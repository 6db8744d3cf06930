//! Approximate numbers of distinct values.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::{ArrayRef, LargeBinaryArray, UInt64Array};
use datasketches::hash::value::raw_bytes;
use datasketches::hll::{HllSketch, HllType, HllUnion};

use super::bytes::Bytes;
use super::column::{Lens, Native, for_each};
use super::states::ObjectFunction;
use super::{Part, Rows};
use crate::snapshot::{Checked, Record, record};

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
    fn save(&self, states: &[HllUnion]) -> Checked<ArrayRef> {
        let sketches = states.iter().map(image);
        record(vec![("sketch", Arc::new(LargeBinaryArray::from_iter_values(sketches)))])
    }
    fn restore(&self, saved: &ArrayRef, _: &mut u64) -> Checked<Vec<HllUnion>> {
        let sketches = Record::of(saved)?.bytes("sketch")?;
        sketches.iter().map(|image| restore(image.unwrap_or_default())).collect()
    }
    fn heap_size(&self, state: &HllUnion) -> usize {
        state.estimated_size()
    }
}

/// What an image begins with: sizes, versions and flags, of which these are looked at here.
const LG_REGISTERS_AT: usize = 3;
const ROOM_AT: usize = 4;
const FLAGS_AT: usize = 5;
const COUNT_AT: usize = 6;
const MODE_AT: usize = 7;
/// Registers follow the sums over them; the mode byte says what an image holds, and that registers are bytes.
const REGISTERS_AT: usize = 40;
const LIST: u8 = 0b1000;
const SET: u8 = 0b1001;
const REGISTERS: u8 = 0b1010;
/// No gaps between hashes.
const COMPACT: u8 = 8;
/// The order of updates is not known: it is the flag of those that are read by the composite estimator.
const OUT_OF_ORDER: u8 = 16;

/// A sketch in the binary format of Apache DataSketches, the same for the same values: hashes in order, and nothing of
/// the estimator that is not used.
fn image(state: &HllUnion) -> Vec<u8> {
    let mut image = state.to_sketch(HllType::Hll8).serialize();
    let mode = image[MODE_AT];
    if mode == REGISTERS {
        image[FLAGS_AT] |= OUT_OF_ORDER;
        image[8..16].fill(0);
        return image;
    }
    let hashes = &mut image[if mode == SET { 12 } else { 8 }..];
    let mut sorted: Vec<u32> = words(hashes).collect();
    sorted.sort_unstable();
    hashes
        .chunks_exact_mut(4)
        .zip(sorted)
        .for_each(|(chunk, hash)| chunk.copy_from_slice(&hash.to_le_bytes()));
    image
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks::<4>().0.iter().map(|&chunk| u32::from_le_bytes(chunk))
}

/// The library checks lengths and versions; that the contents can be a sketch is checked here.
fn restore(image: &[u8]) -> Checked<HllUnion> {
    let refused = || format!("{} bytes are no sketch", image.len());
    let head = image.first_chunk::<8>().ok_or_else(refused)?;
    let possible = head[LG_REGISTERS_AT] == LG_REGISTERS
        && match (head[MODE_AT], head[FLAGS_AT]) {
            (REGISTERS, OUT_OF_ORDER) => image.split_at_checked(REGISTERS_AT).is_some_and(registers_agree),
            (LIST, flags) if flags & COMPACT != 0 => {
                image.len() == 8 + 4 * usize::from(head[COUNT_AT]) && hashes_ascend(&image[8..])
            }
            (SET, COMPACT) => image.get(12..).is_some_and(|hashes| {
                // a table has no more room than its hashes need
                hashes_ascend(hashes)
                    && 1_usize.checked_shl(head[ROOM_AT].into()).is_some_and(|room| room <= hashes.len())
            }),
            _ => false,
        };
    if !possible {
        return Err(refused());
    }
    let sketch = HllSketch::deserialize(image).map_err(|error| error.to_string())?;
    let mut state = HllUnion::new(LG_REGISTERS).map_err(|error| error.to_string())?;
    state.update(&sketch);
    Ok(state)
}

/// Hashes are 26 bits of a register's number, and six of what it counts, which is more than zero.
fn hashes_ascend(hashes: &[u8]) -> bool {
    words(hashes).is_sorted_by(|a, b| a < b) && words(hashes).all(|hash| hash >> 26 > 0)
}

/// Whether the sums are those of the registers.
fn registers_agree((head, registers): (&[u8], &[u8])) -> bool {
    let sum = |of: std::ops::Range<u8>| -> f64 {
        let of = registers.iter().filter(|&register| of.contains(register));
        of.map(|&register| f64::from_bits((1023 - u64::from(register)) << 52))
            .fold(0.0, |sum, term| sum + term)
    };
    let zeros = registers.iter().filter(|&&register| register == 0).count() as u32;
    registers.len() == 1 << LG_REGISTERS
        && registers.iter().all(|&register| register < 64)
        && head[16..24] == sum(0..32).to_le_bytes()
        && head[24..32] == sum(32..64).to_le_bytes()
        && head[32..36] == zeros.to_le_bytes()
}
