//! Keyed state, timers and what is ready-made on them, against naive models: row by row, one list of everything, over random rows,
//! every cut, and one to four threads.
#![expect(clippy::unwrap_used, reason = "a test that panics has found something")]

mod common;
mod contract;
mod duplicates;
mod forged;
mod joins;
mod pairs;
mod snapshots;
mod timers;
