//! The modules of the `highwater` command; the binary is a thin shell around them.

pub mod conform;
