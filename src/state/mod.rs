//! What the windows hold: one table of keys and accumulators for each open slice.

mod chain;
mod lane;
mod saved;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use chain::{Chain, combine};
pub(crate) use lane::{Lane, Lanes};
pub(crate) use saved::Context;
pub(crate) use table::{BatchRows, Inputs, Table};

use crate::key::Slots;
use crate::watermark::NONE;

/// A table that is shared with a saved state while a call that may fail runs: the first change then copies it.
pub(crate) type Shared = Arc<Table>;

/// Slices by number.
pub(crate) type Slices = BTreeMap<i128, Shared>;

/// Everything that rows have left behind. A copy is cheap, for tables are shared until one side changes them.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// Slices that no due window has, for each lane.
    pub(crate) fresh: Vec<Slices>,
    /// Slices that some due window has: the lanes are merged, and late rows are added here.
    pub(crate) sealed: Slices,
    /// The numbers of all of them.
    pub(crate) open: BTreeSet<i128>,
    pub(crate) chain: Chain,
    /// Windows that late rows have changed since they last fired, with the keys concerned.
    pub(crate) changed: BTreeMap<i128, Slots>,
    /// Everything due at this watermark has fired.
    pub(crate) fired_to: i64,
}

impl State {
    pub(crate) fn new(lanes: usize) -> Self {
        State {
            fresh: vec![Slices::new(); lanes],
            sealed: Slices::new(),
            open: BTreeSet::new(),
            chain: Chain::default(),
            changed: BTreeMap::new(),
            fired_to: NONE,
        }
    }

    fn tables(&self) -> impl Iterator<Item = &Shared> {
        self.fresh.iter().flat_map(|slices| slices.values()).chain(self.sealed.values())
    }

    /// Keys in open slices, each once a slice and lane.
    pub(crate) fn keys(&self) -> usize {
        self.tables().map(|table| table.keys()).sum()
    }

    pub(crate) fn size(&self) -> usize {
        self.tables().map(|table| table.size()).sum::<usize>() + self.chain.size()
    }

    /// An upper bound of every value that a window could fire with, where that can be too large; see
    /// [`Accumulator::magnitude`](crate::accumulator::Accumulator::magnitude).
    pub(crate) fn magnitude(&self) -> u128 {
        self.tables().fold(0, |sum, table| sum.saturating_add(table.magnitude()))
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn validate(&self, grid: &crate::window::Grid) {
        let mut numbers = BTreeSet::new();
        for slices in self.fresh.iter().chain([&self.sealed]) {
            for (&id, table) in slices {
                table.validate();
                numbers.insert(id);
            }
        }
        assert_eq!(numbers, self.open, "open slices");
        let first_kept = grid.first_kept(self.fired_to);
        for &id in &self.open {
            assert!(id >= first_kept, "slice {id} has expired");
        }
        for &id in self.fresh.iter().flat_map(|slices| slices.keys()) {
            let first = grid.first_window_of(id);
            assert!(first >= grid.first_not_due(self.fired_to), "slice {id} is due and not sealed");
        }
        assert!(self.changed.is_empty(), "late changes that have not fired");
    }
}
