//! Functions of a user's over all rows of a window.

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};

use crate::fire::Firing;

/// A firing of one key's window, as a [`WindowFunction`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowContext {
    /// The window's start, in ticks, clipped to `i64`.
    pub start: i64,
    /// The window's end, in ticks, clipped to `i64`.
    pub end: i64,
    /// Why it fires.
    pub firing: Firing,
    /// How often this key's window has fired before.
    pub number: u32,
    /// The merged watermark that made it fire, or that its row was judged by.
    pub watermark: i64,
}

/// A function of a user's that gets all rows of a window at once: Flink's `ProcessWindowFunction`.
///
/// The rows of each key's window are kept until it expires, so prefer an [`Aggregate`](crate::Aggregate) where one will do.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::cast::AsArray;
/// use arrow_array::types::Int64Type;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use arrow_schema::{DataType, Field, Schema};
/// use highwater::{WindowContext, WindowFunction};
///
/// /// The largest step from one row to the next.
/// #[derive(Debug)]
/// struct LargestStep;
///
/// impl WindowFunction for LargestStep {
///     fn output(&self, _: &Schema) -> Result<Vec<Field>, String> {
///         Ok(vec![Field::new("largest_step", DataType::Int64, true)])
///     }
///     fn call(&self, _: &WindowContext, rows: &RecordBatch) -> Result<RecordBatch, String> {
///         let values = rows["value"].as_primitive::<Int64Type>().values();
///         let largest = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).max();
///         let column: ArrayRef = Arc::new(Int64Array::from(vec![largest]));
///         RecordBatch::try_from_iter_with_nullable([("largest_step", column, true)]).map_err(|error| error.to_string())
///     }
/// }
/// ```
pub trait WindowFunction: std::fmt::Debug + Send + Sync {
    /// The columns that a call gives, in the order of its batches.
    ///
    /// # Errors
    /// What the function would need of the input's columns.
    fn output(&self, input: &Schema) -> Result<Vec<Field>, String>;

    /// Any number of result rows for one firing of one key's window. `rows` are those of the window, in order of arrival, in
    /// the schema of the input; evictors have gone before.
    ///
    /// # Errors
    /// Why it failed, in the function's own words; the call of the operator is then undone.
    fn call(&self, window: &WindowContext, rows: &RecordBatch) -> Result<RecordBatch, String>;
}
