#![doc = include_str!("../README.md")]
//!
//! # Reading order
//!
//! What the user asks for is checked once, by [`WindowOperatorBuilder`]. The [`WindowOperator`] is the spine; the modules below
//! it are declared in the order in which a row meets them.

// What the user asks for.
mod aggregate;
mod builder;
mod error;
mod evictor;
mod function;
mod input;
mod time;
mod trigger;
mod window;

// The spine.
mod operator;

// The way of a row.
mod event_time;
pub mod watermark;
mod route;
mod key;
mod state;
mod accumulator;
mod sliced;
mod keyed;
mod fire;
mod rank;
mod output;

// The other way: a user's function instead of windows.
pub mod process;

// Beside the way: what rows move, counting, and threads.
mod progress;
mod scan;
mod block;
mod metrics;
mod partition;
mod workers;
mod snapshot;

pub use aggregate::{Aggregate, AggregateFunction, RowPosition};
pub use builder::{Limits, WindowOperatorBuilder};
pub use error::{Error, Result, SnapshotFault};
pub use event_time::{FutureGuard, NullPolicy, REJECT_REASON};
pub use evictor::Evictor;
pub use fire::{Firing, LateFiring, ResultMode};
pub use function::{WindowContext, WindowFunction};
pub use input::Input;
pub use metrics::{Metrics, PartitionMetrics, RowCounts};
pub use operator::WindowOperator;
pub use output::{LATE_WATERMARK, Output};
pub use time::{TickUnit, TimeDelta};
pub use trigger::Trigger;
pub use window::{CalendarUnit, Weekday, Window};
