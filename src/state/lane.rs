//! Lanes: state that partitions fill without looking at one another.
//!
//! Partition `p` belongs to lane `p % LANES`. A lane is a function of the rows of its partitions alone, lanes are merged
//! in order of number, and threads only decide which lanes are worked on at the same time: so threads change the time
//! and nothing else.

use std::ops::Range;

use super::table::{BatchRows, Inputs, Table};
use super::{Shared, Slices};
use crate::key::{BatchKeys, Codes, Interner, KeyColumns};
use crate::route::Target;

/// A constant, for it is part of the meaning: float sums are added up lane by lane.
pub(crate) const LANES: usize = 16;

/// With more open slices than this, a new one starts small: it may be one of thousands.
const EXPECTANT_SLICES: usize = 16;

/// Tables with at least so many keys are kept for the next slice: to ask the system for their memory anew costs more than
/// to fill it.
const WORTH_KEEPING: usize = 4_096;

/// How many of them.
const KEPT: usize = 2;

/// The part of a lane that a failed call need not undo: buffers, and the numbers of byte-string keys.
#[derive(Default)]
pub(crate) struct Lane {
    pub(crate) interner: Interner,
    codes: Codes,
    slots: Vec<u32>,
    spare: Spare,
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
        let Lane { interner, codes, slots, spare, opened, .. } = self;
        let first = morsel.start;
        let keys = keys.morsel(morsel, interner, codes);
        for target in targets.iter().filter(|target| !target.blocks.is_empty()) {
            let id = target.slice.id;
            if let Some(table) = slices.get_mut(&id) {
                Shared::make_mut(table).update(rows, &target.blocks, &keys, first, slots);
                continue;
            }
            let mut table = open(slices, spare, inputs);
            table.update(rows, &target.blocks, &keys, first, slots);
            slices.insert(id, Shared::new(table));
            opened.push(id);
        }
    }
}

/// Empty tables with room for many keys.
#[derive(Default)]
struct Spare(Vec<Table>);

impl Spare {
    /// Keeps the memory of a table that nobody else has any more.
    fn recycle(&mut self, table: Shared) {
        if self.0.len() < KEPT
            && table.len() >= WORTH_KEEPING
            && let Some(mut table) = Shared::into_inner(table)
        {
            table.clear();
            self.0.push(table);
        }
    }

    fn pop(&mut self) -> Option<Table> {
        self.0.pop()
    }
}

/// A table for a new slice, which will probably be as large as the newest one is now.
fn open(slices: &Slices, spare: &mut Spare, inputs: &Inputs) -> Table {
    let like = slices.values().next_back().filter(|_| slices.len() < EXPECTANT_SLICES);
    match like {
        Some(like) if like.len() >= WORTH_KEEPING => {
            spare.pop().unwrap_or_else(|| Table::new(inputs, Some(like)))
        }
        like => Table::new(inputs, like.map(|table| table.as_ref())),
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

    /// One table of what each lane holds of a slice, in order of lane.
    pub(crate) fn seal(&mut self, slices: &mut [Slices], id: i128) -> Option<Shared> {
        let parts: Vec<(usize, Shared)> = slices
            .iter_mut()
            .enumerate()
            .filter_map(|(lane, slices)| Some((lane, slices.remove(&id)?)))
            .collect();
        let keys: usize = parts.iter().map(|(_, part)| part.len()).sum();
        // many keys find their room in a table that has had as many before
        let mut sealed =
            if parts.len() > 1 && keys >= WORTH_KEEPING { self.spare.pop().map(Shared::new) } else { None };
        for (lane, mut part) in parts {
            if lane > 0 && self.interns {
                Shared::make_mut(&mut part).slots.rename(self.numbers_in_first(lane));
            }
            match &mut sealed {
                None => sealed = Some(part),
                Some(sealed) => {
                    Shared::make_mut(sealed).merge(&part);
                    self.lanes[lane].spare.recycle(part);
                }
            }
        }
        sealed
    }

    /// Keeps the memory of tables that have fired.
    pub(crate) fn recycle(&mut self, tables: impl Iterator<Item = Shared>) {
        let spare = if let [lane] = self.lanes.as_mut_slice() { &mut lane.spare } else { &mut self.spare };
        tables.for_each(|table| spare.recycle(table));
    }

    fn numbers_in_first(&mut self, lane: usize) -> &[u32] {
        let (first, rest) = self.lanes.split_at_mut(1);
        let (first, lane) = (&mut first[0], &mut rest[lane - 1]);
        for number in lane.in_first.len()..lane.interner.len() {
            lane.in_first.push(first.interner.intern(lane.interner.get(number as u32)));
        }
        &lane.in_first
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
        Shared::make_mut(table).slots.rename(renamed);
    }
}
