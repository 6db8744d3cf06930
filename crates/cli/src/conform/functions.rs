//! Aggregates that only traces ask for, written against the public trait.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::{DataType, Field};
use highwater::{AggregateFunction, RowPosition};

/// The values of an `Int64` column, in order of arrival.
#[derive(Debug)]
pub(crate) struct Members;

/// How many different values an `Int64` column has, exactly.
#[derive(Debug)]
pub(crate) struct CountDistinct;

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
