//! What is ready-made on keyed state and timers, against naive models: row by row, one list of everything, over random rows,
//! every cut, and one to four threads. Random cases of state and timers themselves are in `crates/check`.
#![expect(clippy::unwrap_used, reason = "a test that panics has found something")]

mod common;
mod contract;
mod duplicates;
mod forged;
mod joins;
mod pairs;
mod refusals;
mod snapshots;
