//! What a process operator may hold, and what it counts.

use super::KeyedProcess;
use super::engine::Engine;
use super::shard::{Kind, Shard};
use crate::error::{Error, Result};
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

impl<P: KeyedProcess> Engine<P> {
    /// Whether a call with so many rows might fail after it has changed something.
    pub(crate) fn is_at_risk(&self, rows: usize) -> bool {
        let ProcessLimits { max_keys, max_timers, max_state_bytes } = self.limits;
        P::FALLIBLE
            || self.keys() + rows > max_keys
            || max_timers < usize::MAX
            || max_state_bytes < usize::MAX
    }

    pub(crate) fn check_limits(&self) -> Result<()> {
        let check = |limit, needed: usize, allowed: usize| {
            if needed > allowed { Err(Error::LimitReached { limit, needed, allowed }) } else { Ok(()) }
        };
        let ProcessLimits { max_keys, max_timers, max_state_bytes } = self.limits;
        let live = |shard: &Shard<P>| shard.state.keys.iter().filter(|(_, entry)| !entry.is_vacant()).count();
        if self.keys() > max_keys {
            // some may be about to be forgotten
            check("max_keys", self.shards.iter().map(live).sum(), max_keys)?;
        }
        if max_timers < usize::MAX {
            check("max_timers", self.timers(Kind::EventTime) + self.timers(Kind::Clock), max_timers)?;
        }
        if max_state_bytes < usize::MAX {
            check("max_state_bytes", self.size(), max_state_bytes)?;
        }
        Ok(())
    }

    fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.state.keys.len()).sum()
    }

    fn timers(&self, kind: Kind) -> usize {
        let len = |shard: &Shard<P>| match kind {
            Kind::EventTime => shard.state.timers.len(),
            Kind::Clock => shard.state.clock_timers.len(),
        };
        self.shards.iter().map(len).sum()
    }

    fn size(&self) -> usize {
        let heap = |shard: &Shard<P>| -> usize {
            let states = shard.state.keys.iter().filter_map(|(_, entry)| entry.state.as_ref());
            states.map(|state| self.process.heap_size(state)).sum()
        };
        let own = |shard: &Shard<P>| {
            shard.state.keys.size() + shard.state.timers.size() + shard.state.clock_timers.size()
        };
        self.spread.size() + self.shards.iter().map(|shard| own(shard) + heap(shard)).sum::<usize>()
    }

    pub(crate) fn metrics(&self) -> ProcessMetrics {
        let inputs = self.standing.progress.iter().map(|progress| {
            let partitions = progress.metrics();
            let mut total = RowCounts::default();
            partitions.iter().for_each(|partition| total.add(&partition.rows));
            InputMetrics { watermark: progress.watermark(), total, partitions }
        });
        ProcessMetrics {
            watermark: self.standing.watermark,
            inputs: inputs.collect(),
            results: self.totals.results,
            timers_fired: self.totals.fired,
            counters: self
                .process
                .counters()
                .iter()
                .copied()
                .zip(self.totals.counters.iter().copied())
                .collect(),
            keys: self.keys(),
            timers: self.timers(Kind::EventTime),
            clock_timers: self.timers(Kind::Clock),
            state_bytes: self.size(),
        }
    }
}
