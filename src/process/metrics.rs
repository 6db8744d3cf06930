//! What a process operator may hold, and what it counts.

use crate::metrics::{PartitionMetrics, RowCounts};

/// How much an operator may hold. Reaching a limit is [`Error::LimitReached`](crate::Error::LimitReached); the call that
/// would have passed it does nothing. A limit that is set costs a copy of each state that a call changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Keys that have state or timers; by default 2^31 - 1.
    pub max_keys: usize,
    /// Timers; by default unlimited.
    pub max_timers: usize,
    /// Bytes of keys, states and timers; by default unlimited.
    pub max_state_bytes: usize,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        ProcessLimits { max_keys: crate::key::MAX_SLOTS, max_timers: usize::MAX, max_state_bytes: usize::MAX }
    }
}

/// One input's part in [`ProcessMetrics`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputMetrics {
    /// The merged watermark of its partitions.
    pub watermark: i64,
    /// What became of its rows. A row that was handed back is `dropped_late`, any other accepted one is `taken`.
    pub total: RowCounts,
    /// The same by partition.
    pub partitions: Vec<PartitionMetrics>,
}

/// What an operator with a process has done and holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessMetrics {
    /// The merged watermark.
    pub watermark: i64,
    /// By input: one, or left and right.
    pub inputs: Vec<InputMetrics>,
    /// Result rows.
    pub results: u64,
    /// Timers that have fired, of both kinds.
    pub timers_fired: u64,
    /// The counts of the process, by name.
    pub counters: Vec<(&'static str, u64)>,
    /// Keys that have state or timers.
    pub keys: usize,
    /// Event-time timers that are pending.
    pub timers: usize,
    /// Timers of the injected clock that are pending.
    pub clock_timers: usize,
    /// Bytes of keys, states and timers.
    pub state_bytes: usize,
}

impl ProcessMetrics {
    /// The count of the process that has this name; `None` if it has none such.
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|(known, _)| *known == name).map(|(_, count)| *count)
    }
}
