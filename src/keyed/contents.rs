//! What panes hold: accumulators that rows go into at once, or the rows themselves.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::buffer::Buffer;
use super::emission::{Emission, Emitted, Origin};
use crate::accumulator::{Accumulator, Rows};
use crate::block::{BLOCK, Block};
use crate::state::{BatchRows, Inputs};

/// The contents of all panes of a shard, by slot.
#[derive(Clone, Debug)]
pub(crate) enum Contents {
    Aggregated(Aggregated),
    Buffered(Buffer),
}

/// Columns of accumulators, and those that go with them.
#[derive(Clone, Debug)]
pub(crate) struct Aggregated {
    accumulators: Vec<Box<dyn Accumulator>>,
    slots: usize,
    /// Slots that no pane has any more, and that have seen nothing again: the next ones to be given.
    free: Vec<u32>,
    /// What panes have that were merged: more slots, in the order in which they are to be combined.
    more: HashMap<u32, Vec<u32>, FixedState>,
}

/// Rows of a batch that have not reached the accumulators yet, each with its slot. A row can be in several panes.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    blocks: Vec<Block>,
    slots: Vec<u32>,
    last: usize,
}

impl Pending {
    /// Adds a row, which is the last one again or lies behind it.
    #[inline]
    pub(crate) fn push(&mut self, row: usize, slot: u32) {
        let bit = 1 << (row % BLOCK);
        self.slots.push(slot);
        match self.blocks.last_mut() {
            Some(block) if row > self.last && row < block.start + BLOCK => block.rows |= bit,
            _ => self.blocks.push(Block { start: row - row % BLOCK, rows: bit }),
        }
        self.last = row;
    }

    /// Adds rows that lie behind the last one.
    pub(crate) fn push_block(&mut self, block: Block, slots: &[u32]) {
        self.slots.extend_from_slice(slots);
        match self.blocks.last_mut() {
            Some(last) if last.start == block.start => last.rows |= block.rows,
            _ => self.blocks.push(block),
        }
        self.last = block.end() - 1;
    }

    /// Makes room for so many more rows.
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.slots.reserve(rows);
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.slots.clear();
    }
}

impl Aggregated {
    pub(crate) fn new(inputs: &Inputs) -> Self {
        Aggregated { accumulators: inputs.empty(), slots: 0, free: Vec::new(), more: HashMap::default() }
    }

    pub(crate) fn new_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots as u32 - 1
        })
    }

    /// What the next [`new_slot`](Aggregated::new_slot) is.
    pub(crate) fn next_slot(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots as u32)
    }

    /// A slot and those that were merged to it, in the order in which they are to be combined.
    pub(super) fn slots_of(&self, slot: u32) -> impl Iterator<Item = u32> {
        std::iter::once(slot).chain(self.more.get(&slot).into_iter().flatten().copied())
    }

    /// What each of these slots holds by itself.
    pub(super) fn each(&self, slots: &[u32]) -> Vec<Box<dyn Accumulator>> {
        let each = self.accumulators.iter().map(|all| match all.len() < self.slots {
            true => {
                let mut all = all.clone();
                all.resize(self.slots);
                all.gather(slots)
            }
            false => all.gather(slots),
        });
        each.collect()
    }

    /// Adds a pane whose parts these are, all of the same kind. Returns its slot.
    pub(super) fn restore(&mut self, parts: &[Box<dyn Accumulator>]) -> u32 {
        let (slot, count) = (self.slots, parts.first().map_or(0, |part| part.len()));
        append(&mut self.accumulators, parts);
        self.slots += count;
        if count > 1 {
            self.more.insert(slot as u32, (slot as u32 + 1..self.slots as u32).collect());
        }
        slot as u32
    }

    /// The accumulators take in what is pending.
    pub(crate) fn flush(&mut self, pending: &mut Pending, rows: &BatchRows<'_>) {
        if pending.slots.is_empty() {
            return;
        }
        for (accumulator, columns) in self.accumulators.iter_mut().zip(rows.columns) {
            accumulator.resize(self.slots);
            let rows = Rows {
                column: columns.value.as_ref(),
                by: columns.by.as_ref(),
                times: rows.times,
                first_arrival: rows.first_arrival,
                blocks: &pending.blocks,
            };
            accumulator.update(&pending.slots, &rows);
        }
        pending.clear();
    }

    /// A pane with slot `into` swallows one that starts after it.
    pub(crate) fn merge(&mut self, into: u32, slot: u32) {
        let behind = self.more.remove(&slot).unwrap_or_default();
        let more = self.more.entry(into).or_default();
        more.push(slot);
        more.extend(behind);
    }

    /// Nobody wants these slots any more.
    pub(crate) fn release(&mut self, slots: &[u32]) {
        let known = self.free.len();
        self.free.extend_from_slice(slots);
        if !self.more.is_empty() {
            self.free.extend(slots.iter().filter_map(|slot| self.more.remove(slot)).flatten());
        }
        for accumulator in &mut self.accumulators {
            accumulator.resize(self.slots);
            accumulator.reset(&self.free[known..]);
        }
    }

    /// What the slots hold, merged slots combined.
    fn gather(&self, slots: &[u32]) -> Vec<Box<dyn Accumulator>> {
        let mut gathered: Vec<_> = self.accumulators.iter().map(|all| all.gather(slots)).collect();
        if self.more.is_empty() {
            return gathered;
        }
        let merged = slots.iter().zip(0..).filter_map(|(slot, place)| Some((place, self.more.get(slot)?)));
        let mut merged: Vec<(u32, &Vec<u32>)> = merged.collect();
        for depth in 0.. {
            merged.retain(|(_, more)| more.len() > depth);
            if merged.is_empty() {
                break;
            }
            let (places, more): (Vec<u32>, Vec<u32>) =
                merged.iter().map(|&(place, more)| (place, more[depth])).unzip();
            for (gathered, all) in gathered.iter_mut().zip(&self.accumulators) {
                gathered.merge(&places, all.gather(&more).as_ref());
            }
        }
        gathered
    }

    /// Copies what emissions have been waiting for. With `given`, results are also put behind those given before, from where
    /// they can be taken back.
    pub(crate) fn materialize(
        &mut self,
        emitted: &mut Emitted,
        given: Option<&mut Vec<Box<dyn Accumulator>>>,
    ) {
        let waiting = &mut emitted.entries[emitted.ready..];
        for accumulator in &mut self.accumulators {
            accumulator.resize(self.slots);
        }
        let (mut results, mut retractions) = (Vec::new(), Vec::new());
        let base = emitted.accumulators.first().map_or(0, |all| all.len()) as u32;
        for Emission { origin, .. } in waiting.iter() {
            match *origin {
                Origin::Slot(slot) => results.push(slot),
                Origin::Given(slot) => retractions.push(slot),
                Origin::Ready(_) => {}
            }
        }
        let gathered = self.gather(&results);
        append(&mut emitted.accumulators, &gathered);
        if let Some(given) = given {
            append(given, &gathered);
            let retracted: Vec<_> = given.iter().map(|given| given.gather(&retractions)).collect();
            append(&mut emitted.accumulators, &retracted);
        }
        let (mut result, mut retraction) = (base, base + results.len() as u32);
        for Emission { origin, .. } in waiting {
            let next = match origin {
                Origin::Slot(_) => &mut result,
                Origin::Given(_) => &mut retraction,
                Origin::Ready(_) => continue,
            };
            *origin = Origin::Ready(*next);
            *next += 1;
        }
        emitted.ready = emitted.entries.len();
    }

    /// Whether so many slots are free that it pays to leave them behind.
    pub(crate) fn wants_compaction(&self) -> bool {
        self.free.len() > 4_096.max(self.slots / 2)
    }

    /// Keeps these slots only, in this order, each with what has been merged to it.
    pub(crate) fn compact(&mut self, mut kept: Vec<u32>) {
        let mut more = HashMap::default();
        if !self.more.is_empty() {
            let merged =
                (0..).zip(&kept).filter_map(|(place, slot)| Some((place, self.more.get(slot)?.clone())));
            more.extend(merged);
        }
        let mut ordered: Vec<_> = more.iter_mut().collect();
        ordered.sort_unstable_by_key(|(place, _)| **place);
        for (_, merged) in ordered {
            for slot in merged {
                kept.push(*slot);
                *slot = kept.len() as u32 - 1;
            }
        }
        for accumulator in &mut self.accumulators {
            accumulator.resize(self.slots);
            *accumulator = accumulator.gather(&kept);
        }
        (self.slots, self.free, self.more) = (kept.len(), Vec::new(), more);
    }

    pub(crate) fn size(&self) -> usize {
        let accumulators: usize = self.accumulators.iter().map(|all| all.size()).sum();
        accumulators + self.free.capacity() * size_of::<u32>()
    }

    /// See [`Accumulator::magnitude`].
    pub(crate) fn magnitude(&self) -> u128 {
        self.accumulators.iter().map(|all| all.magnitude()).max().unwrap_or(0)
    }
}

/// Puts the slots of some accumulators behind those of others.
pub(crate) fn append(all: &mut [Box<dyn Accumulator>], more: &[Box<dyn Accumulator>]) {
    all.iter_mut().zip(more).for_each(|(all, more)| all.append(more.as_ref()));
}
