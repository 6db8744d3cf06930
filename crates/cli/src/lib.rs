//! The `highwater` command: the binary is a thin shell around these modules.

// The command line, and how it may fail.
pub mod aggregates;
pub mod args;
pub mod duration;
pub mod failure;
pub mod firing;
pub mod shape;

// `highwater window`, in the order in which rows pass.
pub mod window;

// The other commands.
pub mod bench;
pub mod conform;
pub mod generate;

mod checkpoint;
mod clock;
mod engine;
mod fresh;
mod guard;
mod input;
mod interleave;
mod live;
mod output;
mod partition;
mod plan;
mod progress;
mod stats;
mod table;
mod text;

/// Writes to standard output, where a reader who has gone is no failure.
pub fn print(bytes: &[u8]) -> failure::Outcome<()> {
    output::write_text(std::path::Path::new("-"), &String::from_utf8_lossy(bytes))
}
