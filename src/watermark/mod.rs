//! Watermarks: how each partition claims how far it has come, and how the claims become one.

mod generator;
mod idle;
mod merge;

pub use generator::{Cadence, WatermarkGenerator, WatermarkStrategy};
