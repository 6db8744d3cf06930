//! What Apache Flink answered to the same rows. `tests/golden/README.md` in the workspace describes the traces.

mod assign;
mod merge;
mod query;
mod sql;
mod timers;
mod trace;
mod window;
