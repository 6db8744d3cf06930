//! Exact event-time windows over Apache Arrow record batches.

// What the user asks for.
mod aggregate;
mod builder;
mod error;
mod time;
mod window;

// The spine, and a row's way in the order of its steps.
mod operator;

mod accumulator;
mod event_time;
mod fire;
mod key;
mod output;
mod route;
mod state;
pub mod watermark;

mod metrics;
mod partition;

pub use aggregate::{Aggregate, AggregateFunction, RowPosition};
pub use builder::{Limits, WindowOperatorBuilder};
pub use error::{Error, Result};
pub use event_time::{FutureGuard, NullPolicy, REJECT_REASON};
pub use fire::{Firing, LateFiring, ResultMode};
pub use metrics::{Metrics, PartitionMetrics, RowCounts};
pub use operator::WindowOperator;
pub use output::{LATE_WATERMARK, Output};
pub use time::{TickUnit, TimeDelta};
pub use window::Window;
