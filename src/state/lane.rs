//! Lanes: state that partitions fill without looking at one another.
//!
//! Partition `p` belongs to lane `p % LANES`. A lane is a function of the rows of its partitions alone, lanes are merged
//! in order of number, and threads only decide which lanes are worked on at the same time: so threads change the time
//! and nothing else.

use std::collections::BTreeSet;
use std::ops::Range;

use super::table::{BatchRows, Inputs, Novelty, Room, Table, United};
use super::{Shared, Slices};
use crate::key::{BatchKeys, Codes, Interner, KeyColumns};
use crate::route::Target;
use crate::workers::Workers;

/// A constant, for it is part of the meaning: float sums are added up lane by lane.
pub(crate) const LANES: usize = 16;

/// With more open slices than this, a new one starts small: it may be one of thousands.
const EXPECTANT_SLICES: usize = 16;

/// Tables with room for at least so many keys are kept for the next slice: to ask the system for their memory anew costs more
/// than to fill it.
const WORTH_KEEPING: usize = 4_096;

/// How many of them: as many as one call may seal.
const KEPT: usize = 8;

/// The part of a lane that a failed call need not undo: buffers, and the numbers of byte-string keys.
#[derive(Default)]
pub(crate) struct Lane {
    pub(crate) interner: Interner,
    codes: Codes,
    room: Room,
    spare: Spare,
    /// Of the slice that was sealed last.
    novelty: Novelty,
    /// Slices that have been opened since somebody last asked.
    pub(crate) opened: Vec<i128>,
    /// The number in lane 0 of each number of this lane's interner.
    in_first: Vec<u32>,
}

impl Lane {
    /// Applies the rows of one morsel, which are those of `targets`, to the slices of this lane.
    pub(crate) fn apply(
        &mut self,
        slices: &mut Slices,
        targets: &[Target],
        rows: &BatchRows<'_>,
        morsel: Range<usize>,
        keys: &mut BatchKeys,
        inputs: &Inputs,
    ) {
        let Lane { interner, codes, room, spare, novelty, opened, .. } = self;
        let first = morsel.start;
        let keys = (&keys.morsel(morsel, interner, codes), first);
        for target in targets.iter().filter(|target| !target.blocks.is_empty()) {
            let id = target.slice.id;
            if let Some(table) = slices.get_mut(&id) {
                Shared::make_mut(table).update(rows, &target.blocks, keys, inputs, room);
                continue;
            }
            let mut table = open(slices, spare, *novelty, inputs);
            table.update(rows, &target.blocks, keys, inputs, room);
            slices.insert(id, Shared::new(table));
            opened.push(id);
        }
    }
}

/// Tables with room for many keys, whose accumulators are empty already.
#[derive(Default)]
struct Spare(Vec<Table>);

impl Spare {
    /// Keeps the memory of a table that nobody else has any more.
    fn recycle(&mut self, table: Shared) {
        if self.0.len() < KEPT
            && table.slots.room() >= WORTH_KEEPING
            && let Some(mut table) = Shared::into_inner(table)
        {
            table.accumulators.iter_mut().for_each(|accumulator| accumulator.clear());
            self.0.push(table);
        }
    }

    /// To clear the index takes a while, and leaves it in the cache: so it is done by the lane that is about to fill it.
    fn pop(&mut self) -> Option<Table> {
        let mut table = self.0.pop()?;
        table.slots.clear();
        table.expect(Novelty::Unknown);
        Some(table)
    }
}

/// A table for a new slice, which will probably be as large as the newest one is now.
fn open(slices: &Slices, spare: &mut Spare, novelty: Novelty, inputs: &Inputs) -> Table {
    let novelty = if inputs.additive { novelty } else { Novelty::Low };
    let mut table = if slices.len() >= EXPECTANT_SLICES {
        Table::new(inputs, None)
    } else {
        let large = slices.values().any(|table| table.len() >= WORTH_KEEPING);
        let like = slices.values().next_back().map(|table| table.as_ref());
        let like = like.filter(|_| !matches!(novelty, Novelty::High(_)));
        large.then(|| spare.pop()).flatten().unwrap_or_else(|| Table::new(inputs, like))
    };
    table.expect(novelty);
    table
}

/// What lanes hold of a slice.
struct Seal {
    id: i128,
    /// Which lanes, ascending.
    lanes: Vec<usize>,
    parts: Vec<Shared>,
    /// Slots of all parts.
    slots: usize,
    /// Where the table of all is made, if there is one that has had as many keys before.
    spare: Option<Table>,
}

impl Seal {
    /// Takes a slice out of the lanes.
    fn new(slices: &mut [Slices], id: i128) -> Self {
        let found = slices.iter_mut().enumerate();
        let (lanes, parts): (Vec<usize>, Vec<Shared>) =
            found.filter_map(|(lane, slices)| Some((lane, slices.remove(&id)?))).unzip();
        let slots = parts.iter().map(|part| part.len()).sum();
        Seal { id, lanes, parts, slots, spare: None }
    }
}

/// All lanes, and the order in which their slices become one.
pub(crate) struct Lanes {
    pub(crate) lanes: Vec<Lane>,
    interns: bool,
    /// For slices of several lanes.
    spare: Spare,
}

impl Lanes {
    pub(crate) fn new(partitions: usize, keys: &KeyColumns) -> Self {
        let count = partitions.clamp(1, LANES);
        Lanes {
            lanes: (0..count).map(|_| Lane::default()).collect(),
            interns: keys.interns(),
            spare: Spare::default(),
        }
    }

    /// Sealed tables have the codes of this interner.
    pub(crate) fn interner(&mut self) -> &mut Interner {
        &mut self.lanes[0].interner
    }

    /// For each of these slices one table of what the lanes hold of it, in order of lane; `shared` if several windows will be
    /// made of it.
    pub(crate) fn seal(
        &mut self,
        slices: &mut [Slices],
        ids: &BTreeSet<i128>,
        shared: bool,
        workers: &Workers,
    ) -> Vec<(i128, Shared)> {
        let mut seals: Vec<Seal> = ids.iter().map(|&id| Seal::new(slices, id)).collect();
        let workers = workers.worth(seals.iter().map(|seal| seal.slots).sum());
        if self.interns {
            self.rename(&mut seals, workers);
        }
        for seal in &mut seals {
            if seal.parts.len() > 1 && seal.slots >= WORTH_KEEPING {
                seal.spare = self.spare.pop();
            }
        }
        let sealed = workers.map_each(seals, |Seal { id, lanes, parts, spare, .. }| {
            let rows: Vec<usize> = parts.iter().map(|part| part.rows()).collect();
            let united = Table::union(parts, spare, workers)?;
            if shared {
                united.table.slots.make_index();
            }
            Some((id, lanes, rows, united))
        });
        let mut tables = Vec::with_capacity(sealed.len());
        for (id, lanes, rows, United { table, left, keys }) in sealed.into_iter().flatten() {
            let novelty = Novelty::of(&rows, keys);
            lanes.iter().for_each(|&lane| self.lanes[lane].novelty = novelty);
            // if one is missing, it is the first
            let lanes = &lanes[lanes.len() - left.len()..];
            lanes.iter().zip(left).for_each(|(&lane, part)| self.lanes[lane].spare.recycle(part));
            tables.push((id, table));
        }
        tables
    }

    /// Goes over to the numbers of lane 0's interner.
    fn rename(&mut self, seals: &mut [Seal], workers: &Workers) {
        for lane in 1..self.lanes.len() {
            if seals.iter().any(|seal| seal.lanes.contains(&lane)) {
                self.number_in_first(lane);
            }
        }
        let lanes = &self.lanes;
        let parts = seals.iter_mut().flat_map(|seal| seal.lanes.iter().zip(&mut seal.parts));
        workers.for_each(parts.filter(|&(&lane, _)| lane > 0).collect(), |(&lane, part)| {
            Shared::make_mut(part).rename(&lanes[lane].in_first);
        });
    }

    /// Keeps the memory of tables that have fired.
    pub(crate) fn recycle(&mut self, tables: impl Iterator<Item = Shared>) {
        let spare = if let [lane] = self.lanes.as_mut_slice() { &mut lane.spare } else { &mut self.spare };
        tables.for_each(|table| spare.recycle(table));
    }

    /// Finds the numbers in lane 0 of all keys of another lane.
    fn number_in_first(&mut self, lane: usize) {
        let (first, rest) = self.lanes.split_at_mut(1);
        let (first, lane) = (&mut first[0], &mut rest[lane - 1]);
        for number in lane.in_first.len()..lane.interner.len() {
            lane.in_first.push(first.interner.adopt(&lane.interner, number as u32));
        }
    }

    /// Forgets the byte-string keys that no open slice has, once enough new ones have come. Returns whether it did.
    pub(crate) fn forget_dead_keys(&mut self, slices: &mut [Slices], sealed: &mut Slices) -> bool {
        if !self.interns || !self.lanes.iter().any(|lane| lane.interner.wants_retain()) {
            return false;
        }
        for (number, (lane, slices)) in self.lanes.iter_mut().zip(slices).enumerate() {
            let mut used = vec![false; lane.interner.len()];
            let sealed_here = sealed.values().filter(|_| number == 0);
            slices.values().chain(sealed_here).for_each(|table| table.slots.mark(&mut used));
            let renamed = lane.interner.retain(&used);
            rename(slices, &renamed);
            if number == 0 {
                rename(sealed, &renamed);
            }
            lane.in_first.clear();
        }
        true
    }

    pub(crate) fn size(&self) -> usize {
        self.lanes.iter().map(|lane| lane.interner.size()).sum()
    }
}

fn rename(slices: &mut Slices, renamed: &[u32]) {
    for table in slices.values_mut() {
        Shared::make_mut(table).rename(renamed);
    }
}
