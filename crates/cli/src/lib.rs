//! The modules of the `highwater` command; the binary is a thin shell around them.

pub mod aggregates;
pub mod duration;
pub mod args;
pub mod failure;
pub mod input;
