//! Random cases of operators with a process, on one input or two.
//!
//! ```text
//! case.rs     what is asked, and the calls, out of bytes
//! script.rs   a process that does everything that a process can, for the engine
//! model.rs    what must come out, row by row: oracles of the inputs' watermarks, and of what is done with the rows
//! running.rs  the engine's operators
//! judge.rs    the comparison
//! ```

mod case;
mod judge;
mod model;
mod running;
mod script;

pub use case::ProcessCase;
pub use judge::{Way, against_model, edited_process_snapshots_are_refused_or_used};
