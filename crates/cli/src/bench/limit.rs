//! The limit: reading every column of a workload once and adding it up. Nothing that looks at all rows is faster.

use std::hint::black_box;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int8Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::DataType;
use multiversion::multiversion;

use super::load::{Load, is_time};
use crate::failure::{Failure, Outcome};

/// The columns of a workload as plain numbers.
pub struct Scan {
    batches: Vec<Vec<Column>>,
    threads: usize,
}

/// A column as it lies in memory, bytes as unsigned ones. Of strings that is their offsets and their bytes, of a dictionary its keys.
enum Column {
    Bytes(Buffer),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    Float64(ScalarBuffer<f64>),
}

impl Scan {
    /// Prepares the scan of what the workload reads; copies nothing.
    pub fn new(load: &Load) -> Outcome<Self> {
        let columns = |(_, batch): &(usize, RecordBatch)| {
            let columns = batch.columns().iter().map(columns_of).collect::<Outcome<Vec<_>>>()?;
            Ok(columns.into_iter().flatten().collect())
        };
        let batches = load.batches.iter().map(columns).collect::<Outcome<Vec<_>>>()?;
        Ok(Scan { batches, threads: load.threads() })
    }

    /// Reads everything once, each thread its share of the batches.
    pub fn run(&self) {
        let share = self.batches.len().div_ceil(self.threads).max(1);
        if share >= self.batches.len() {
            return scan(&self.batches);
        }
        std::thread::scope(|scope| {
            for part in self.batches.chunks(share) {
                scope.spawn(|| scan(part));
            }
        });
    }
}

fn scan(batches: &[Vec<Column>]) {
    for column in batches.iter().flatten() {
        match column {
            Column::Bytes(values) => _ = black_box(sum_u8(values)),
            Column::Int32(values) => _ = black_box(sum_i32(values)),
            Column::Int64(values) => _ = black_box(sum_i64(values)),
            Column::Float64(values) => _ = black_box(sum_f64(values)),
        }
    }
}

fn columns_of(column: &ArrayRef) -> Outcome<Vec<Column>> {
    Ok(match column.data_type() {
        data_type if is_time(data_type) => {
            let ticks = arrow_cast::cast(column, &DataType::Int64).map_err(Failure::run)?;
            vec![Column::Int64(ticks.as_primitive::<Int64Type>().values().clone())]
        }
        DataType::Int8 => vec![Column::Bytes(column.as_primitive::<Int8Type>().values().inner().clone())],
        DataType::Int32 => vec![Column::Int32(column.as_primitive::<Int32Type>().values().clone())],
        DataType::Int64 => vec![Column::Int64(column.as_primitive::<Int64Type>().values().clone())],
        DataType::Float64 => vec![Column::Float64(column.as_primitive::<Float64Type>().values().clone())],
        DataType::Utf8 => {
            let texts = column.as_string::<i32>();
            vec![Column::Int32(texts.offsets().inner().clone()), Column::Bytes(texts.values().clone())]
        }
        DataType::Dictionary(..) => {
            let keys = column.as_dictionary::<Int32Type>().keys();
            vec![Column::Int32(keys.values().clone())]
        }
        other => return Err(Failure::run(format_args!("no workload has a column of type {other}"))),
    })
}

/// Lanes of a sum: four vectors of eight at the widest, so that additions overlap and floats may be added in any width.
const LANES: usize = 32;

/// The sum of some values, in the widest vectors that the machine at hand has; the compiler makes them.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn sum_f64(values: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, value)| *lane += value);
    }
    lanes.iter().sum::<f64>() + rest.iter().sum::<f64>()
}

/// The same for whole numbers, which the compiler may reorder as it likes.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn sum_i64(values: &[i64]) -> i64 {
    values.iter().fold(0, |sum: i64, &value| sum.wrapping_add(value))
}

/// Sums of narrow numbers wrap too: their bits have been read, which is what counts.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn sum_i32(values: &[i32]) -> i32 {
    values.iter().fold(0, |sum: i32, &value| sum.wrapping_add(value))
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn sum_u8(values: &[u8]) -> u8 {
    values.iter().fold(0, |sum: u8, &value| sum.wrapping_add(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_sums() {
        for rows in [0, 1, 31, 32, 33, 1_000] {
            let expected = rows * (rows + 1) / 2;
            assert_eq!(sum_i64(&(1..=rows).collect::<Vec<i64>>()), expected);
            assert_eq!(sum_i32(&(1..=rows as i32).collect::<Vec<_>>()), expected as i32);
            assert_eq!(sum_f64(&(1..=rows).map(|value| value as f64).collect::<Vec<_>>()), expected as f64);
            assert_eq!(sum_u8(&(1..=rows).map(|value| value as u8).collect::<Vec<_>>()), expected as u8);
        }
    }
}
