//! Primitive columns by their native type: eleven numeric types and all dates and times are twelve slices.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, TimeUnit};
use half::f16;

use super::Rows;
use super::total::Total;
use crate::block::Block;
use crate::snapshot::Checked;

/// What the accumulators need to know about a value.
///
/// The order of floats is rule 27: NaN is the largest value, all NaN are one, -0.0 is below 0.0.
pub(crate) trait Native: ArrowNativeType {
    /// What sums are held in, wide enough never to wrap.
    type Total: Total;
    /// What equal values share.
    type Identity: Hash;
    const LOWEST: Self;
    const HIGHEST: Self;
    /// What [`Native::opposite`] makes of it, which is no constant function.
    const OPPOSITE_OF_HIGHEST: Self;
    /// Whether the value stands strictly below `other`.
    fn below(self, other: Self) -> bool;
    /// The one representative of equal values in the order of `below`.
    fn canonical(self) -> Self;
    /// Turns the order of `below` around, except that it leaves NaN a NaN; its own inverse.
    fn opposite(self) -> Self;
    /// Whether it is a float that `<` orders as `below` does: neither NaN nor -0.0. Integers are not, for to compare them
    /// costs less than to avoid it.
    fn is_simple(self) -> bool;
    fn identity(self) -> Self::Identity;
    fn total(self) -> Self::Total;
    /// Unscaled, for decimals.
    fn float(self) -> f64;
    /// An upper bound of the magnitude of any of the values; 0 for floats, whose sums cannot overflow.
    fn magnitude(values: &[Self]) -> u128;
}

/// The integers differ in name only.
macro_rules! integers {
    ($($native:ty, $total:ty, $identity:ty, $widen:expr;)*) => { $(impl Native for $native {
        type Total = $total;
        type Identity = $identity;
        const LOWEST: Self = <$native>::MIN;
        const HIGHEST: Self = <$native>::MAX;
        const OPPOSITE_OF_HIGHEST: Self = <$native>::MIN;
        fn below(self, other: Self) -> bool {
            self < other
        }
        fn canonical(self) -> Self {
            self
        }
        fn opposite(self) -> Self {
            !self
        }
        fn is_simple(self) -> bool {
            false
        }
        fn identity(self) -> $identity {
            self.into()
        }
        fn total(self) -> $total {
            $widen(self)
        }
        fn float(self) -> f64 {
            self as f64
        }
        fn magnitude(values: &[Self]) -> u128 {
            bits(values, |value| value ^ (value >> (<$native>::BITS - 1))) as u128 + 1
        }
    })* };
}

integers! {
    i8, i128, i64, i128::from;
    i16, i128, i64, i128::from;
    i32, i128, i64, i128::from;
    i64, i128, i64, i128::from;
    u8, i128, u64, i128::from;
    u16, i128, u64, i128::from;
    u32, i128, u64, i128::from;
    u64, i128, u64, i128::from;
    i128, i256, i128, i256::from_i128;
}

/// All the bits that any value has set: a maximum within a factor of two that needs no comparison, so that it takes a
/// fraction of a nanosecond a row. A negative value comes as its complement, which is one short of its magnitude; of an
/// unsigned one with its top bit set the lowest bit is flipped, which again loses at most one.
fn bits<N: Copy + Default + std::ops::BitOr<Output = N>>(values: &[N], positive: impl Fn(N) -> N) -> N {
    values.iter().fold(N::default(), |all, &value| all | positive(value))
}

/// The floats: widening to `f64` keeps order, zeros and NaN.
macro_rules! floats {
    ($($native:ty, $infinity:expr, $nan:expr, $minus_nan:expr, $widen:expr;)*) => { $(impl Native for $native {
        type Total = f64;
        type Identity = u64;
        const LOWEST: Self = $infinity;
        const HIGHEST: Self = $nan;
        const OPPOSITE_OF_HIGHEST: Self = $minus_nan;
        fn below(self, other: Self) -> bool {
            // The first comparison settles nearly every row: an extreme seldom changes.
            if self > other {
                return false;
            }
            rank(self.float()) < rank(other.float())
        }
        fn canonical(self) -> Self {
            if self.is_nan() { $nan } else { self }
        }
        fn opposite(self) -> Self {
            -self
        }
        fn is_simple(self) -> bool {
            let value = self.float();
            (value.to_bits() == (value + 0.0).to_bits()) & !value.is_nan()
        }
        fn identity(self) -> u64 {
            // Adding zero turns -0.0 into 0.0.
            (self.canonical().float() + 0.0).to_bits()
        }
        fn total(self) -> f64 {
            self.float()
        }
        fn float(self) -> f64 {
            $widen(self)
        }
        fn magnitude(_: &[Self]) -> u128 {
            0
        }
    })* };
}

floats! {
    f16, f16::NEG_INFINITY, f16::NAN, f16::from_bits(f16::NAN.to_bits() ^ 1 << 15), f16::to_f64;
    f32, f32::NEG_INFINITY, f32::NAN, -f32::NAN, f64::from;
    f64, f64::NEG_INFINITY, f64::NAN, -f64::NAN, std::convert::identity;
}

/// The place of a float in the order of rule 27. Read as integers, the bits of positive floats ascend and those of
/// negative ones descend; flipping all but the sign of the negative ones makes one ascending line.
fn rank(value: f64) -> i64 {
    let bits = if value.is_nan() { f64::NAN } else { value }.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// Compares floats by rule 27.
pub(crate) fn float_order(a: &f64, b: &f64) -> std::cmp::Ordering {
    rank(*a).cmp(&rank(*b))
}

/// How to see a column of one data type as a slice of natives, and to make one of them.
#[derive(Clone, Debug)]
pub(crate) struct Lens<N: Native> {
    view: fn(&ArrayRef) -> &[N],
    build: fn(ScalarBuffer<N>, Option<NullBuffer>, &DataType) -> ArrayRef,
    pub(crate) data_type: DataType,
    /// What the native numbers are divided by: a power of ten for decimals, 1 for all others.
    pub(crate) divisor: f64,
}

impl<N: Native> Lens<N> {
    fn of<T: ArrowPrimitiveType<Native = N>>(data_type: &DataType) -> Self {
        // Parsing rounds a power of ten correctly and the same everywhere, which `powi` does not promise.
        let divisor = match data_type {
            DataType::Decimal128(_, scale) => format!("1e{scale}").parse().unwrap_or(1.0),
            _ => 1.0,
        };
        Lens {
            view: |array| array.as_primitive::<T>().values(),
            build: |values, nulls, data_type| {
                Arc::new(PrimitiveArray::<T>::new(values, nulls).with_data_type(data_type.clone()))
            },
            data_type: data_type.clone(),
            divisor,
        }
    }
    /// The values of the whole batch.
    pub(crate) fn view<'a>(&self, rows: &Rows<'a>) -> &'a [N] {
        self.values(rows.column)
    }
    /// The values of a column.
    pub(crate) fn values<'a>(&self, column: Option<&'a ArrayRef>) -> &'a [N] {
        column.map_or(&[], self.view)
    }
    /// A column of the data type, without a copy of the values.
    pub(crate) fn build(&self, values: Vec<N>, nulls: Option<NullBuffer>) -> ArrayRef {
        (self.build)(values.into(), nulls, &self.data_type)
    }
    /// The values and nulls of a column that `build` has made.
    pub(crate) fn unbuilt<'a>(&self, column: &'a ArrayRef) -> Checked<(&'a [N], Option<&'a NullBuffer>)> {
        match column.data_type() == &self.data_type {
            true => Ok(((self.view)(column), column.nulls())),
            false => {
                Err(format!("values of type {} were expected, not {}", self.data_type, column.data_type()))
            }
        }
    }
    /// The number that a native value stands for.
    pub(crate) fn float(&self, value: N) -> f64 {
        let value = value.float();
        if self.divisor == 1.0 { value } else { value / self.divisor }
    }
}

/// What to do with a column whose native type is found out at run time.
pub(crate) trait Visit {
    type Output;
    fn visit<N: Native>(self, lens: Lens<N>) -> Self::Output;
}

/// Finds the native type of a data type; `None` if it is not one of those above.
pub(crate) fn visit<V: Visit>(data_type: &DataType, visitor: V) -> Option<V::Output> {
    use DataType::*;
    Some(match data_type {
        Int8 => visitor.visit(Lens::of::<Int8Type>(data_type)),
        Int16 => visitor.visit(Lens::of::<Int16Type>(data_type)),
        Int32 => visitor.visit(Lens::of::<Int32Type>(data_type)),
        Int64 => visitor.visit(Lens::of::<Int64Type>(data_type)),
        UInt8 => visitor.visit(Lens::of::<UInt8Type>(data_type)),
        UInt16 => visitor.visit(Lens::of::<UInt16Type>(data_type)),
        UInt32 => visitor.visit(Lens::of::<UInt32Type>(data_type)),
        UInt64 => visitor.visit(Lens::of::<UInt64Type>(data_type)),
        Float16 => visitor.visit(Lens::of::<Float16Type>(data_type)),
        Float32 => visitor.visit(Lens::of::<Float32Type>(data_type)),
        Float64 => visitor.visit(Lens::of::<Float64Type>(data_type)),
        Decimal128(..) => visitor.visit(Lens::of::<Decimal128Type>(data_type)),
        Date32 => visitor.visit(Lens::of::<Date32Type>(data_type)),
        Date64 => visitor.visit(Lens::of::<Date64Type>(data_type)),
        Time32(TimeUnit::Second) => visitor.visit(Lens::of::<Time32SecondType>(data_type)),
        Time32(_) => visitor.visit(Lens::of::<Time32MillisecondType>(data_type)),
        Time64(TimeUnit::Microsecond) => visitor.visit(Lens::of::<Time64MicrosecondType>(data_type)),
        Time64(_) => visitor.visit(Lens::of::<Time64NanosecondType>(data_type)),
        Timestamp(TimeUnit::Second, _) => visitor.visit(Lens::of::<TimestampSecondType>(data_type)),
        Timestamp(TimeUnit::Millisecond, _) => visitor.visit(Lens::of::<TimestampMillisecondType>(data_type)),
        Timestamp(TimeUnit::Microsecond, _) => visitor.visit(Lens::of::<TimestampMicrosecondType>(data_type)),
        Timestamp(TimeUnit::Nanosecond, _) => visitor.visit(Lens::of::<TimestampNanosecondType>(data_type)),
        Duration(TimeUnit::Second) => visitor.visit(Lens::of::<DurationSecondType>(data_type)),
        Duration(TimeUnit::Millisecond) => visitor.visit(Lens::of::<DurationMillisecondType>(data_type)),
        Duration(TimeUnit::Microsecond) => visitor.visit(Lens::of::<DurationMicrosecondType>(data_type)),
        Duration(TimeUnit::Nanosecond) => visitor.visit(Lens::of::<DurationNanosecondType>(data_type)),
        _ => return None,
    })
}

/// The null contract, once: `fold` gets the slot and the value of every row that is not null, in the order of the rows.
/// Without nulls the loop over a whole block is free of checks.
#[inline]
pub(crate) fn for_each<N: Copy>(
    slots: &[u32],
    blocks: &[Block],
    values: &[N],
    nulls: Option<&NullBuffer>,
    mut fold: impl FnMut(usize, N),
) {
    let mut rest = slots;
    for block in blocks {
        let (slots, behind) = rest.split_at(block.len());
        rest = behind;
        match (block.whole(), nulls) {
            (Some(rows), None) => {
                slots.iter().zip(&values[rows]).for_each(|(&slot, &value)| fold(slot as usize, value));
            }
            (_, None) => {
                slots.iter().zip(block.iter()).for_each(|(&slot, row)| fold(slot as usize, values[row]));
            }
            (_, Some(nulls)) => {
                let valid = slots.iter().zip(block.iter()).filter(|&(_, row)| nulls.is_valid(row));
                valid.for_each(|(&slot, row)| fold(slot as usize, values[row]));
            }
        }
    }
}

/// As [`for_each`], with the number of the row in place of its value.
#[inline]
pub(crate) fn for_each_row(
    slots: &[u32],
    blocks: &[Block],
    nulls: Option<&NullBuffer>,
    mut fold: impl FnMut(usize, usize),
) {
    let mut rest = slots;
    for block in blocks {
        let (slots, behind) = rest.split_at(block.len());
        rest = behind;
        match (block.whole(), nulls) {
            (Some(rows), None) => slots.iter().zip(rows).for_each(|(&slot, row)| fold(slot as usize, row)),
            (_, None) => slots.iter().zip(block.iter()).for_each(|(&slot, row)| fold(slot as usize, row)),
            (_, Some(nulls)) => {
                let valid = slots.iter().zip(block.iter()).filter(|&(_, row)| nulls.is_valid(row));
                valid.for_each(|(&slot, row)| fold(slot as usize, row));
            }
        }
    }
}

/// The values at `slots`, in this order.
pub(crate) fn gather<T: Clone>(values: &[T], slots: &[u32]) -> Vec<T> {
    slots.iter().map(|&slot| values[slot as usize].clone()).collect()
}

/// Grows to `slots` elements and never shrinks. There is room for a quarter more, not for as many again as `Vec` would have:
/// accumulators are most of what an operator holds.
pub(crate) fn grow<T: Clone>(values: &mut Vec<T>, slots: usize, value: T) {
    if slots > values.len() {
        if slots > values.capacity() {
            values.reserve_exact(slots + slots / 4 - values.len());
        }
        values.resize(slots, value);
    }
}

/// The same value at all of `slots`.
pub(crate) fn fill<T: Clone>(values: &mut [T], slots: &[u32], value: &T) {
    slots.iter().for_each(|&slot| values[slot as usize].clone_from(value));
}

/// Bytes that a vector holds, without what its elements point to.
pub(crate) fn bytes<T>(values: &Vec<T>) -> usize {
    values.capacity() * size_of::<T>()
}
