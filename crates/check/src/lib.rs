//! Random cases for the engine, and the judgement of what it does with them.
//!
//! A [`Case`] is a specification and a list of calls, made from any string of bytes: property tests make the bytes with
//! a seeded generator, fuzzers make them by what they reach. [`against_oracle`] compares the engine with the executable
//! specification after every call; [`same_for_every_cut`], [`same_for_all_threads`] and [`same_after_restore`] compare
//! it with itself, bit for bit.
//!
//! A [`ProcessCase`] is the same for an operator with a process. [`against_model`] drives the engine in some [`Way`], and compares
//! it with a model that sees one row after the other.
#![expect(clippy::panic, reason = "a judgement is a panic")]

mod case;
mod engine;
mod judge;
mod process;
mod snapshot;
mod vocabulary;

pub use case::{Case, KeyShape, Shape, TimeType};
pub use judge::{against_oracle, same_after_restore, same_for_all_threads, same_for_every_cut};
pub use process::{ProcessCase, Way, against_model, edited_process_snapshots_are_refused_or_used};
pub use snapshot::edited_snapshots_are_refused_or_used;
