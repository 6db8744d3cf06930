//! Aggregates that only traces ask for, written against the public trait.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array};
use arrow_schema::{DataType, Field};
use highwater::{AggregateFunction, RowPosition};

use super::answer::percentile;

/// The values of an `Int64` column, in order of arrival.
#[derive(Debug)]
pub(crate) struct Members;

/// How many different values an `Int64` column has, exactly.
#[derive(Debug)]
pub(crate) struct CountDistinct;

/// The percentile of an `Int64` column at this share, interpolated.
#[derive(Debug)]
pub(crate) struct Percentile(pub(crate) f64);

fn only_int64(name: &str, input: &DataType, output: DataType) -> Result<DataType, String> {
    match input {
        DataType::Int64 => Ok(output),
        other => Err(format!("{name} takes Int64, not {other}")),
    }
}

impl AggregateFunction for Members {
    type State = Vec<(u64, i64)>;

    fn return_type(&self, input: &DataType) -> Result<DataType, String> {
        only_int64("members", input, DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true))))
    }
    fn create(&self) -> Self::State {
        Vec::new()
    }
    fn add(&self, state: &mut Self::State, input: &ArrayRef, row: usize, at: RowPosition) {
        state.push((at.arrival, input.as_primitive::<Int64Type>().value(row)));
    }
    fn merge(&self, state: &mut Self::State, other: &Self::State) {
        state.extend_from_slice(other);
    }
    fn finish(&self, states: &[Self::State]) -> Result<ArrayRef, String> {
        let mut lists = ListBuilder::new(Int64Builder::new());
        for state in states {
            // Slices are merged in order of time, which need not be the order of arrival.
            let mut state = state.clone();
            state.sort_unstable();
            lists.append_value(state.into_iter().map(|(_, value)| Some(value)));
        }
        Ok(Arc::new(lists.finish()))
    }
}

impl AggregateFunction for CountDistinct {
    type State = BTreeSet<i64>;

    fn return_type(&self, input: &DataType) -> Result<DataType, String> {
        only_int64("count_distinct", input, DataType::Int64)
    }
    fn create(&self) -> Self::State {
        BTreeSet::new()
    }
    fn add(&self, state: &mut Self::State, input: &ArrayRef, row: usize, _at: RowPosition) {
        state.insert(input.as_primitive::<Int64Type>().value(row));
    }
    fn merge(&self, state: &mut Self::State, other: &Self::State) {
        state.extend(other);
    }
    fn finish(&self, states: &[Self::State]) -> Result<ArrayRef, String> {
        Ok(Arc::new(states.iter().map(|state| Some(state.len() as i64)).collect::<Int64Array>()))
    }
}

impl AggregateFunction for Percentile {
    type State = Vec<i64>;

    fn return_type(&self, input: &DataType) -> Result<DataType, String> {
        only_int64("percentile", input, DataType::Float64)
    }
    fn create(&self) -> Self::State {
        Vec::new()
    }
    fn add(&self, state: &mut Self::State, input: &ArrayRef, row: usize, _at: RowPosition) {
        state.push(input.as_primitive::<Int64Type>().value(row));
    }
    fn merge(&self, state: &mut Self::State, other: &Self::State) {
        state.extend_from_slice(other);
    }
    fn finish(&self, states: &[Self::State]) -> Result<ArrayRef, String> {
        let of = |state: &Vec<i64>| {
            let mut sorted = state.clone();
            sorted.sort_unstable();
            (!sorted.is_empty()).then(|| percentile(&sorted, self.0))
        };
        Ok(Arc::new(states.iter().map(of).collect::<Float64Array>()))
    }
}
