//! The largest results of each window.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_ord::sort::{SortColumn, SortOptions, lexsort_to_indices};

use crate::accumulator;
use crate::error::Result;
use crate::state::Shared;

/// How many results of a window are kept, and by which of its columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Top {
    pub(crate) count: usize,
    pub(crate) output: accumulator::Output,
}

impl Top {
    /// The keys with the largest values, largest first; of equal ones the first.
    pub(crate) fn of(&self, table: &Shared) -> Result<Shared> {
        let values = table.accumulators[self.output.accumulator].finish(self.output.part);
        // a value that cannot be said is an error of the whole window
        let Ok(values) = values else { return Ok(table.clone()) };
        let slots: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..table.len() as u32));
        let largest = SortOptions { descending: true, nulls_first: false };
        let by = [SortColumn { values, options: Some(largest) }, SortColumn { values: slots, options: None }];
        let order = lexsort_to_indices(&by, Some(self.count))?;
        Ok(Shared::new(table.gather(order.values())))
    }
}
