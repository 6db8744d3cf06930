//! Exact event-time windows over Apache Arrow record batches.

// A row's way, in this order; what the user asks for comes first.
pub mod error;
pub mod time;
pub mod aggregate;
pub mod watermark;

mod accumulator;

pub use aggregate::{Aggregate, AggregateFunction, RowPosition};
pub use error::{Error, Result};
pub use time::{TickUnit, TimeDelta};
