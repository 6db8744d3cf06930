//! Watermarks: how each partition claims how far it has come, and how the claims become one.
//!
//! A watermark `W` says: no more rows at or before `W` will come. Every partition has a generator that reads the
//! claim off its rows ([`WatermarkStrategy`]) and a cadence that says when the claim is made ([`Cadence`]); both
//! together are a [`PartitionWatermark`]. The claims of all partitions become one in a [`WatermarkMerge`]: the
//! minimum over those that are active. Who is active is a matter of a clock that the caller reads ([`IdleTimer`]).
//!
//! The window operator does all of this by itself. The parts are public for those who build a source, and want its
//! splits to agree on a watermark before any window sees it.
//!
//! All times are ticks of the event-time column. Two values are set apart: [`NONE`] is no claim yet, and [`END`] is
//! the end of input, which no generator may claim.

mod alignment;
mod generator;
mod idle;
mod marker;
mod merge;
mod minima;
mod partition;
mod saved;

#[cfg(test)]
mod tests;

pub use generator::{Cadence, Lag, WatermarkGenerator, WatermarkStrategy};
pub use idle::IdleTimer;
pub use merge::{PartitionStatus, Reactivation, WatermarkMerge};
pub use partition::{Before, PartitionWatermark};
pub(crate) use saved::{SavedMerge, SavedWatermark};

/// No watermark yet: nothing has been claimed.
pub const NONE: i64 = i64::MIN;

/// The end of input: nothing more will come, whatever its time.
pub const END: i64 = i64::MAX;

/// The highest watermark that a generator can reach: only the end of input is [`END`].
const HIGHEST: i64 = END - 1;
