//! What is known of the rows of one key in one window, by plain addition.

use std::cmp::Reverse;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

use super::workload::Function;

/// The relative error that the engine's sketch promises at most: see `Aggregate::quantile`.
pub const QUANTILE_ERROR_BOUND: f64 = 1.0 / 129.0;

/// Two floats that went different ways to the same value differ by less than this share of it.
const ROUNDING: f64 = 1e-12;

/// What is aggregated of a batch.
pub(super) struct Values<'a> {
    pub(super) column: Column<'a>,
    /// The columns of which the value beside the largest is wanted.
    pub(super) picked: Vec<&'a [i64]>,
    /// The event time of each row, where something is picked.
    pub(super) times: &'a [i64],
    /// The arrival number of the first row.
    pub(super) first_arrival: u64,
    /// Whether all values are kept, for quantiles.
    pub(super) keep: bool,
}

/// The aggregated column.
#[derive(Clone, Copy)]
pub(super) enum Column<'a> {
    None,
    Int(&'a [i64]),
    Float(&'a [f64]),
}

impl<'a> Column<'a> {
    pub(super) fn of(column: Option<&'a ArrayRef>) -> Self {
        match column {
            Some(column) if *column.data_type() == DataType::Float64 => {
                Column::Float(column.as_primitive::<Float64Type>().values())
            }
            Some(column) => Column::Int(column.as_primitive::<Int64Type>().values()),
            None => Column::None,
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
    /// Event time and arrival of the row with the largest value, and what is picked of it: of several the earliest, of these
    /// the first to arrive.
    at: (i64, u64),
    picked: Vec<i64>,
    /// All values, if there are quantiles of them.
    values: Vec<f64>,
}

impl Default for Tally {
    fn default() -> Self {
        let at = (i64::MAX, u64::MAX);
        let (picked, values) = (Vec::new(), Vec::new());
        Tally { count: 0, sum: 0.0, least: i64::MAX, most: i64::MIN, at, picked, values }
    }
}

impl Tally {
    /// Adds row `row`.
    pub(super) fn add(&mut self, values: &Values<'_>, row: usize) {
        self.count += 1;
        let ordered = match values.column {
            Column::None => return,
            Column::Int(values) => values[row],
            Column::Float(column) => {
                self.sum += column[row];
                if values.keep {
                    self.values.push(column[row]);
                }
                order(column[row])
            }
        };
        if !values.picked.is_empty() {
            let at = (values.times[row], values.first_arrival + row as u64);
            if (ordered, Reverse(at)) > (self.most, Reverse(self.at)) {
                self.at = at;
                self.picked.clear();
                self.picked.extend(values.picked.iter().map(|column| column[row]));
            }
        }
        self.least = self.least.min(ordered);
        self.most = self.most.max(ordered);
    }

    pub(super) fn merge(&mut self, other: &Tally) {
        if (other.most, Reverse(other.at)) > (self.most, Reverse(self.at)) {
            (self.at, self.picked) = (other.at, other.picked.clone());
        }
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
        let mut picked = self.picked.clone().into_iter();
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
                    Function::MaxBy(_) => picked.next().unwrap_or_default(),
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
                Function::Max | Function::MaxBy(_) | Function::Count => {
                    (float(self.most), order(given) == self.most)
                }
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
pub(super) fn adds_exactly(column: Column<'_>) -> bool {
    match column {
        Column::Float(values) => {
            values.iter().all(|&value| (value * 64.0).trunc() == value * 64.0 && value.abs() < 1e9)
        }
        Column::None | Column::Int(_) => true,
    }
}

#[cfg(test)]
impl Values<'_> {
    /// Rows are counted, and nothing else.
    pub(super) const NONE: Self =
        Values { column: Column::None, picked: Vec::new(), times: &[], first_arrival: 0, keep: false };
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
        let column = Values { column: Column::Float(&values), keep: true, ..Values::NONE };
        (0..values.len()).for_each(|row| tally.add(&column, row));
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|q| tally.quantile(q)), [0.0, 50.0, 99.0, 100.0]);
    }
    /// The largest value is 5, in rows 1, 2 and 3; row 2 is earlier than row 1, and row 3 as early, but later to arrive.
    #[test]
    fn of_equal_values_the_earliest_is_picked() {
        let (values, picked, times) = ([4, 5, 5, 5], [10, 11, 12, 13], [0, 9, 8, 8]);
        let column =
            Values { column: Column::Int(&values), picked: vec![&picked], times: &times, ..Values::NONE };
        for split in 0..=4 {
            let mut parts = [Tally::default(), Tally::default()];
            (0..4).for_each(|row| parts[usize::from(row >= split)].add(&column, row));
            let [mut first, mut second] = parts.clone();
            first.merge(&parts[1]);
            second.merge(&parts[0]);
            assert_eq!((first.picked, second.picked), (vec![12], vec![12]), "{split}");
        }
    }
}
