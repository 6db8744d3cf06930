//! What sums and means are held in: exact integers wider than their input, or `f64`.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::types::{Decimal128Type, Decimal256Type, DecimalType, Float64Type};
use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, PrimitiveArray, UInt64Array};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::DataType;

use super::FinishError;
use crate::snapshot::{Checked, Record};

/// A running sum.
pub(crate) trait Total: Copy + Debug + Send + Sync + 'static {
    /// The sum of nothing: adding it changes no bit of any total.
    const NOTHING: Self;
    fn plus(self, other: Self) -> Self;
    /// The mean of `count` values, of which there is at least one, each divided by `divisor`.
    fn mean(self, count: u64, divisor: f64) -> f64;
    /// The sums as a column of the output type.
    fn column(
        totals: Vec<Self>,
        nulls: Option<NullBuffer>,
        output: &DataType,
    ) -> Result<ArrayRef, FinishError>;
    /// The sums as they are, for a snapshot.
    fn save(totals: Vec<Self>) -> Checked<ArrayRef>;
    /// Those of the column `name`.
    fn restore(saved: &Record<'_>, name: &str) -> Checked<Vec<Self>>;
    /// Whether so many values can have this sum.
    fn possible(self, _count: u64) -> bool {
        true
    }
    /// Its magnitude where it can be too large for the output; zero for floats.
    fn magnitude(self) -> u128;
}

/// Integers of any width as decimals without a fraction.
fn whole<T: DecimalType>(values: Vec<T::Native>) -> Checked<ArrayRef> {
    let column = PrimitiveArray::<T>::new(values.into(), None).with_precision_and_scale(T::MAX_PRECISION, 0);
    Ok(Arc::new(column.map_err(|error| error.to_string())?))
}

/// 2^63 rows of 64 bits need 127 bits.
impl Total for i128 {
    const NOTHING: Self = 0;
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn mean(self, count: u64, _divisor: f64) -> f64 {
        let magnitude = ratio(self.unsigned_abs(), count);
        if self < 0 { -magnitude } else { magnitude }
    }
    fn column(
        totals: Vec<Self>,
        nulls: Option<NullBuffer>,
        output: &DataType,
    ) -> Result<ArrayRef, FinishError> {
        Ok(match output {
            DataType::UInt64 => Arc::new(UInt64Array::new(narrow::<_, u64>(&totals)?.into(), nulls)),
            _ => Arc::new(Int64Array::new(narrow::<_, i64>(&totals)?.into(), nulls)),
        })
    }
    fn save(totals: Vec<Self>) -> Checked<ArrayRef> {
        whole::<Decimal128Type>(totals)
    }
    fn restore(saved: &Record<'_>, name: &str) -> Checked<Vec<Self>> {
        Ok(saved.numbers::<Decimal128Type>(name)?.to_vec())
    }
    fn possible(self, count: u64) -> bool {
        self.unsigned_abs() <= u128::from(count) << 64
    }
    fn magnitude(self) -> u128 {
        self.unsigned_abs()
    }
}

fn narrow<W: Copy + ToString, N: TryFrom<W>>(totals: &[W]) -> Result<Vec<N>, FinishError> {
    let fit = |(slot, &total): (usize, &W)| {
        N::try_from(total).map_err(|_| FinishError::Overflow { slot, value: total.to_string() })
    };
    totals.iter().enumerate().map(fit).collect()
}

/// `sum / count`, rounded once to the nearest `f64`. The quotient is taken in integers with at least 56 bits, two more than a
/// float and its rounding bit need, and the lowest is set if any remainder is lost: so the conversion rounds as the exact
/// quotient would. A sum below 2^127 shifted so far is at most 120 bits wide, or was not shifted.
fn ratio(sum: u128, count: u64) -> f64 {
    let bits = |value: u128| u128::BITS - value.leading_zeros();
    let count = u128::from(count);
    let shift = (bits(count) + 56).saturating_sub(bits(sum));
    if sum == 0 {
        return 0.0;
    }
    let shifted = sum << shift;
    let quotient = (shifted / count) | u128::from(!shifted.is_multiple_of(count));
    // 2^-shift exactly: shift is at most 120.
    quotient as f64 * f64::from_bits(u64::from(1023 - shift) << 52)
}

/// One addition after the other.
impl Total for f64 {
    /// Not 0.0, which would turn a lone -0.0 into 0.0.
    const NOTHING: Self = -0.0;
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn mean(self, count: u64, divisor: f64) -> f64 {
        one_nan(self / count as f64 / divisor)
    }
    fn column(totals: Vec<Self>, nulls: Option<NullBuffer>, _: &DataType) -> Result<ArrayRef, FinishError> {
        let totals: Vec<_> = totals.into_iter().map(one_nan).collect();
        Ok(Arc::new(Float64Array::new(totals.into(), nulls)))
    }
    fn save(totals: Vec<Self>) -> Checked<ArrayRef> {
        Ok(Arc::new(Float64Array::new(totals.into(), None)))
    }
    fn restore(saved: &Record<'_>, name: &str) -> Checked<Vec<Self>> {
        Ok(saved.numbers::<Float64Type>(name)?.to_vec())
    }
    fn magnitude(self) -> u128 {
        0
    }
}

/// Which of its two terms a sum takes the bits of a NaN from is up to the compiler, and can differ from loop to loop. So all
/// NaN leave as one.
fn one_nan(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

const TWO_TO_128: f64 = (1_u128 << 127) as f64 * 2.0;

/// Decimals of 38 digits: 127 bits and 63 more for the rows.
impl Total for i256 {
    const NOTHING: Self = i256::ZERO;
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn mean(self, count: u64, divisor: f64) -> f64 {
        let quotient = match self.to_i128() {
            Some(total) => total.mean(count, 1.0),
            None => {
                let (low, high) = self.to_parts();
                (high as f64 * TWO_TO_128 + low as f64) / count as f64
            }
        };
        quotient / divisor
    }
    fn column(
        totals: Vec<Self>,
        nulls: Option<NullBuffer>,
        output: &DataType,
    ) -> Result<ArrayRef, FinishError> {
        let (DataType::Decimal128(precision, scale), limit) = (output, 10_i128.pow(38)) else {
            return Err(FinishError::Function(format!("a decimal sum cannot become {output}")));
        };
        let fit = |(slot, total): (usize, &i256)| match total.to_i128() {
            Some(value) if -limit < value && value < limit => Ok(value),
            _ => {
                let value = Decimal256Type::format_decimal(*total, Decimal256Type::MAX_PRECISION, *scale);
                Err(FinishError::Overflow { slot, value })
            }
        };
        let values = totals.iter().enumerate().map(fit).collect::<Result<Vec<_>, _>>()?;
        let column = Decimal128Array::new(values.into(), nulls).with_precision_and_scale(*precision, *scale);
        Ok(Arc::new(column.map_err(|error| FinishError::Function(error.to_string()))?))
    }
    fn save(totals: Vec<Self>) -> Checked<ArrayRef> {
        whole::<Decimal256Type>(totals)
    }
    fn restore(saved: &Record<'_>, name: &str) -> Checked<Vec<Self>> {
        Ok(saved.numbers::<Decimal256Type>(name)?.to_vec())
    }
    fn magnitude(self) -> u128 {
        self.to_i128().map_or(u128::MAX, i128::unsigned_abs)
    }
}
