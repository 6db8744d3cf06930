//! What is known of the rows of one key in one window, by plain addition.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

use super::workload::Function;

/// The relative error that the engine's sketch promises at most: see `Aggregate::quantile`.
pub const QUANTILE_ERROR_BOUND: f64 = 1.0 / 129.0;

/// Two floats that went different ways to the same value differ by less than this share of it.
const ROUNDING: f64 = 1e-12;

/// The aggregated column of a batch.
pub(super) enum Values<'a> {
    None,
    Int(&'a [i64]),
    Float(&'a [f64]),
}

impl<'a> Values<'a> {
    pub(super) fn of(column: Option<&'a ArrayRef>) -> Self {
        match column {
            Some(column) if *column.data_type() == DataType::Float64 => {
                Values::Float(column.as_primitive::<Float64Type>().values())
            }
            Some(column) => Values::Int(column.as_primitive::<Int64Type>().values()),
            None => Values::None,
        }
    }
}

/// Rows that have been added up.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) count: i64,
    /// Exact for multiples of 1/64.
    sum: f64,
    /// Smallest and largest value, as [`order`] for floats.
    least: i64,
    most: i64,
    /// All values, if there are quantiles of them.
    values: Vec<f64>,
}

impl Default for Tally {
    fn default() -> Self {
        Tally { count: 0, sum: 0.0, least: i64::MAX, most: i64::MIN, values: Vec::new() }
    }
}

impl Tally {
    /// Adds row `row`; `keep` its value for quantiles.
    pub(super) fn add(&mut self, values: &Values<'_>, row: usize, keep: bool) {
        self.count += 1;
        let ordered = match *values {
            Values::None => return,
            Values::Int(values) => values[row],
            Values::Float(values) => {
                self.sum += values[row];
                if keep {
                    self.values.push(values[row]);
                }
                order(values[row])
            }
        };
        self.least = self.least.min(ordered);
        self.most = self.most.max(ordered);
    }

    pub(super) fn merge(&mut self, other: &Tally) {
        self.count += other.count;
        self.sum += other.sum;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.values.extend_from_slice(&other.values);
    }

    /// Compares with results in the last columns of a row. `worst` is the largest relative error of a quantile so far.
    pub(super) fn compare(
        &mut self,
        functions: &[(Function, &str)],
        results: &RecordBatch,
        row: usize,
        exact: bool,
        worst: &mut f64,
    ) -> Result<(), String> {
        let first = results.num_columns() - functions.len();
        for ((function, name), column) in functions.iter().zip(&results.columns()[first..]) {
            let differs =
                |given: String, expected: String| Err(format!("{name} is {given}, expected {expected}"));
            if column.is_null(row) {
                return differs("null".into(), "a value".into());
            }
            if let Some(values) = column.as_primitive_opt::<Int64Type>() {
                let expected = match function {
                    Function::Count => self.count,
                    Function::Min => self.least,
                    _ => self.most,
                };
                if values.value(row) != expected {
                    return differs(values.value(row).to_string(), expected.to_string());
                }
                continue;
            }
            let given = column.as_primitive::<Float64Type>().value(row);
            let (expected, right) = match *function {
                Function::Sum => {
                    (self.sum, given == self.sum || !exact && self.is_near(given, self.sum, self.count))
                }
                Function::Min => (float(self.least), order(given) == self.least),
                Function::Mean => {
                    let mean = self.sum / self.count as f64;
                    (mean, self.is_near(given, mean, 1))
                }
                Function::Quantile(q) => {
                    let value = self.quantile(q);
                    let error = if given == value { 0.0 } else { ((given - value) / value).abs() };
                    *worst = worst.max(error);
                    (value, error <= QUANTILE_ERROR_BOUND * (1.0 + ROUNDING))
                }
                Function::Max | Function::Count => (float(self.most), order(given) == self.most),
            };
            if !right {
                return differs(given.to_string(), expected.to_string());
            }
        }
        Ok(())
    }

    /// Whether two ways to add up `terms` of these values may have led to both.
    fn is_near(&self, a: f64, b: f64, terms: i64) -> bool {
        let largest = float(self.least).abs().max(float(self.most).abs());
        (a - b).abs() <= ROUNDING * largest * terms as f64
    }

    /// The value of rank `floor(q (n - 1))`, which is what the sketch estimates.
    fn quantile(&mut self, q: f64) -> f64 {
        let rank = (q * (self.values.len().saturating_sub(1)) as f64) as usize;
        if rank >= self.values.len() {
            return f64::NAN;
        }
        *self.values.select_nth_unstable_by(rank, f64::total_cmp).1
    }
}

/// The bits of a float as a whole number that has its place in the total order.
fn order(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// The float that has this place.
fn float(order: i64) -> f64 {
    f64::from_bits((order ^ ((order >> 63) as u64 >> 1) as i64) as u64)
}

/// Whether floats of this kind have the same sum in any order: multiples of 1/64 that are small enough.
pub(super) fn adds_exactly(values: &Values<'_>) -> bool {
    match values {
        Values::Float(values) => {
            values.iter().all(|&value| (value * 64.0).trunc() == value * 64.0 && value.abs() < 1e9)
        }
        Values::None | Values::Int(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_keep_their_order() {
        let values = [f64::NEG_INFINITY, -2.0, -0.0, 0.0, 1e-300, 1.0, 1.5, f64::INFINITY];
        assert!(values.windows(2).all(|pair| order(pair[0]) < order(pair[1])));
        assert!(values.iter().all(|&value| float(order(value)).to_bits() == value.to_bits()));
    }

    #[test]
    fn quantiles_are_ranks() {
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let mut tally = Tally::default();
        (0..values.len()).for_each(|row| tally.add(&Values::Float(&values), row, true));
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|q| tally.quantile(q)), [0.0, 50.0, 99.0, 100.0]);
    }
}
