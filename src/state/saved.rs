//! Open slices in a snapshot and out of it.
//!
//! A row of the section is a slice, or a part of one: its lane, its first tick, and a list of its keys with their
//! accumulators. Codes, slots and numbers of slices stay inside: they are given anew.

use std::iter::Peekable;
use std::sync::Arc;

use arrow_array::builder::UInt8Builder;
use arrow_array::types::{Int64Type, UInt8Type};
use arrow_array::{ArrayRef, Int64Array};

use super::{Inputs, Lanes, Shared, State, Table};
use crate::accumulator::Accumulator;
use crate::key::{Code, Interner, KeyColumns, Slots};
use crate::snapshot::{Checked, Record, Section, lists, record};
use crate::window::Grid;

/// So many slots make a piece of the section.
const PIECE: usize = 16_384;

/// What the state does not know of itself.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) grid: &'a Grid,
    pub(crate) inputs: &'a Inputs,
    pub(crate) keys: &'a KeyColumns,
}

/// A slice, or a part of one.
struct Part {
    /// The lane whose interner has its keys.
    interner: usize,
    /// None if the lanes are merged.
    lane: Option<u8>,
    id: i128,
    table: Shared,
    from: usize,
    to: usize,
}

impl State {
    /// The slices that no due window has, lane by lane, then the others.
    pub(crate) fn save<'a>(&'a self, lanes: &'a Lanes, of: Context<'a>) -> Checked<Section<'a>> {
        let fresh = self.fresh.iter().enumerate();
        let fresh =
            fresh.flat_map(|(lane, slices)| slices.iter().map(move |slice| (lane, Some(lane as u8), slice)));
        let sealed = self.sealed.iter().map(|slice| (0, None, slice));
        let parts = fresh.chain(sealed).flat_map(|(interner, lane, (&id, table))| {
            let table = Table::settled(table);
            (0..table.len()).step_by(PIECE).map(move |from| {
                let to = table.len().min(from + PIECE);
                Part { interner, lane, id, table: table.clone(), from, to }
            })
        });
        let pieces = Pieces { parts: parts.peekable(), lanes, of };
        Ok(Section { name: "slices", empty: of.save(&[], lanes)?, pieces: Box::new(pieces) })
    }

    /// Takes in the pieces of a section. Lanes that there are no more of than once go to those that there are; `rows` have
    /// been taken by windows.
    pub(crate) fn restore(
        &mut self,
        pieces: &[ArrayRef],
        lanes: &mut Lanes,
        of: Context<'_>,
        rows: u64,
    ) -> Checked<()> {
        let mut left = vec![rows; of.inputs.empty.len()];
        for piece in pieces {
            let piece = Record::of(piece)?;
            let (numbers, starts) =
                (piece.optional::<UInt8Type>("lane")?, piece.numbers::<Int64Type>("start")?);
            for ((lane, &start), slots) in
                numbers.iter().zip(starts).zip(piece.lists("slots")?.iter().flatten())
            {
                let lane = lane.map(|lane| usize::from(lane) % self.fresh.len());
                let within = |error: String| format!("the slice from {start} on: {error}");
                let id = self.slice(start, lane, of.grid).map_err(within)?;
                let interner = &mut lanes.lanes[lane.unwrap_or(0)].interner;
                let table = of.restore(&slots, interner, &mut left).map_err(within)?;
                let slices = lane.map_or(&mut self.sealed, |lane| &mut self.fresh[lane]);
                self.open.insert(id);
                match slices.get_mut(&id) {
                    None => _ = slices.insert(id, Shared::new(table)),
                    Some(known) => Shared::make_mut(known).merge(&table),
                }
            }
        }
        Ok(())
    }

    /// The number of the slice that begins then, if it can be open in this lane.
    fn slice(&self, start: i64, lane: Option<usize>, grid: &Grid) -> Checked<i128> {
        let slice = grid.slice_of(start).filter(|slice| slice.first == start);
        let id = slice.ok_or("no slice begins there")?.id;
        if id < grid.first_kept(self.fired_to) {
            return Err("it has expired".into());
        }
        let due = grid.first_window_of(id) < grid.first_not_due(self.fired_to);
        match due == lane.is_none() {
            true => Ok(id),
            false if due => Err("its lanes are not merged, but a window of it is due".into()),
            false => Err("its lanes are merged, but no window of it is due".into()),
        }
    }
}

/// Parts of slices side by side until they are many slots: all of one lane, so that their keys are those of one interner.
struct Pieces<'a, I: Iterator<Item = Part>> {
    parts: Peekable<I>,
    lanes: &'a Lanes,
    of: Context<'a>,
}

impl<'a, I: Iterator<Item = Part>> Iterator for Pieces<'a, I> {
    type Item = Checked<ArrayRef>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.parts.next()?;
        let (interner, mut slots) = (first.interner, first.to - first.from);
        let mut piece = vec![first];
        let fits =
            |slots: usize, part: &Part| part.interner == interner && slots + (part.to - part.from) <= PIECE;
        while let Some(part) = self.parts.next_if(|part| fits(slots, part)) {
            slots += part.to - part.from;
            piece.push(part);
        }
        Some(self.of.save(&piece, self.lanes))
    }
}

impl Context<'_> {
    fn save(&self, parts: &[Part], lanes: &Lanes) -> Checked<ArrayRef> {
        let mut lane = UInt8Builder::new();
        parts.iter().for_each(|part| lane.append_option(part.lane));
        let starts = parts.iter().map(|part| self.grid.first_tick(part.id));
        let interner = &lanes.lanes[parts.first().map_or(0, |part| part.interner)].interner;
        record(vec![
            ("lane", Arc::new(lane.finish())),
            ("start", Arc::new(Int64Array::from_iter_values(starts))),
            (
                "slots",
                lists(parts.iter().map(|part| part.to - part.from), self.save_slots(parts, interner)?)?,
            ),
        ])
    }

    fn save_slots(&self, parts: &[Part], interner: &Interner) -> Checked<ArrayRef> {
        let mut codes: Vec<Code> = Vec::new();
        let mut nulls: Vec<bool> = Vec::new();
        let mut accumulators: Vec<Box<dyn Accumulator>> = self.inputs.empty();
        for Part { table, from, to, .. } in parts {
            codes.extend_from_slice(&table.slots.codes()[*from..*to]);
            nulls.extend((*from..*to).map(|slot| table.slots.null_slot() == Some(slot as u32)));
            let slots: Vec<u32> = (*from as u32..*to as u32).collect();
            for (all, own) in accumulators.iter_mut().zip(&table.accumulators) {
                match slots.len() == own.len() {
                    true => all.append(own.as_ref()),
                    false => all.append(own.gather(&slots).as_ref()),
                }
            }
        }
        let mut columns: Vec<(&str, ArrayRef)> =
            self.keys.save(&codes, &nulls, interner)?.into_iter().collect();
        columns.push(("state", self.inputs.save(&accumulators)?));
        record(columns)
    }

    fn restore(&self, slots: &ArrayRef, interner: &mut Interner, left: &mut [u64]) -> Checked<Table> {
        let saved = Record::of(slots)?;
        if saved.len() == 0 {
            return Err("it has no keys".into());
        }
        let codes = self.keys.restore(&saved, interner)?;
        let accumulators = self.inputs.restore(saved.column("state")?, left)?;
        Ok(Table::of(Slots::restore(&codes)?, accumulators))
    }
}

impl Inputs {
    /// The state of accumulators, as a struct.
    pub(crate) fn save(&self, accumulators: &[Box<dyn Accumulator>]) -> Checked<ArrayRef> {
        let mut states: Vec<(&str, ArrayRef)> = Vec::new();
        for (name, accumulator) in self.names.iter().zip(accumulators) {
            states.push((name, accumulator.save().map_err(|error| format!("aggregate {name}: {error}"))?));
        }
        record(states)
    }

    /// What [`save`](Inputs::save) has saved; of each accumulator so many rows are `left` to be counted.
    pub(crate) fn restore(&self, saved: &ArrayRef, left: &mut [u64]) -> Checked<Vec<Box<dyn Accumulator>>> {
        let saved = Record::of(saved)?;
        let all = self.empty.iter().zip(&self.names).zip(saved.columns()).zip(left);
        let all = all.map(|(((empty, name), state), left)| {
            let restored =
                empty.restore(state, left).map_err(|error| format!("aggregate {name}: {error}"))?;
            match restored.len() == saved.len() {
                true => Ok(restored),
                false => Err(format!("aggregate {name}: {} states for {}", restored.len(), saved.len())),
            }
        });
        all.collect()
    }
}
