//! One slice: its keys, and a column of accumulators for each aggregate.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

use super::Shared;
use crate::accumulator::{Accumulator, Call, Columns, Rows};
use crate::aggregate::Function;
use crate::block::Block;
use crate::key::{Code, Keys, Places, Slots, Union};
use crate::progress::Passage;
use crate::route::MORSEL;
use crate::workers::Workers;

/// Which columns the accumulators read, and how new ones are made.
#[derive(Debug)]
pub(crate) struct Inputs {
    columns: Vec<Columns<usize>>,
    pub(super) empty: Vec<Box<dyn Accumulator>>,
    /// The aggregates that are read from each accumulator, in words.
    pub(super) names: Vec<String>,
    /// Columns whose sum can be too large for its type.
    sums: Vec<usize>,
    /// Whether some function can fail for reasons of its own.
    unpredictable: bool,
    /// Whether updates may come block by block.
    light: bool,
}

impl Inputs {
    /// `accumulators` are those of the plan for the aggregates, `names` say what each is for.
    pub(crate) fn new(
        aggregates: &[Call],
        accumulators: Vec<(Columns<usize>, Box<dyn Accumulator>)>,
        names: Vec<String>,
    ) -> Self {
        let light = accumulators.iter().all(|(columns, a)| columns.value.is_none() || a.is_light());
        let (columns, empty) = accumulators.into_iter().unzip();
        Inputs {
            columns,
            empty,
            names,
            light,
            sums: aggregates
                .iter()
                .filter(|call| matches!(call.function, Function::Sum))
                .filter_map(|call| call.input.value.as_ref().map(|(column, _)| *column))
                .collect(),
            unpredictable: aggregates.iter().any(|call| matches!(call.function, Function::Custom(_))),
        }
    }

    /// Accumulators without a slot.
    pub(crate) fn empty(&self) -> Vec<Box<dyn Accumulator>> {
        self.empty.clone()
    }

    /// How much the rows of a batch can add to [`Table::magnitude`].
    pub(crate) fn magnitude(&self, batch: &RecordBatch) -> u128 {
        if self.unpredictable {
            return u128::MAX;
        }
        let rows = batch.num_rows() as u128;
        let largest = self.sums.iter().map(|&column| largest(batch.column(column))).max();
        largest.unwrap_or(0).saturating_mul(rows)
    }

    /// The input columns of each accumulator.
    pub(crate) fn of(&self, batch: &RecordBatch) -> Vec<Columns<ArrayRef>> {
        self.columns.iter().map(|columns| columns.map(|&column| batch.column(column).clone())).collect()
    }
}

/// The largest magnitude of an integer or decimal column, or more; zero for floats, which overflow to infinity.
fn largest(column: &ArrayRef) -> u128 {
    match column.data_type() {
        DataType::Dictionary(..) => largest(column.as_any_dictionary().values()),
        DataType::Int64 => {
            column.as_primitive::<Int64Type>().values().iter().fold(0, |max, v| v.unsigned_abs().max(max))
                as u128
        }
        DataType::UInt64 => {
            column.as_primitive::<UInt64Type>().values().iter().fold(0, |max, &v| v.max(max)) as u128
        }
        DataType::Decimal128(..) => column
            .as_primitive::<Decimal128Type>()
            .values()
            .iter()
            .fold(0, |max, v| v.unsigned_abs().max(max)),
        other if other.is_integer() => u32::MAX as u128,
        _ => 0,
    }
}

/// The rows of a batch, as accumulators see them.
pub(crate) struct BatchRows<'a> {
    pub(crate) columns: &'a [Columns<ArrayRef>],
    pub(crate) times: &'a [i64],
    pub(crate) first_arrival: u64,
}

impl<'a> BatchRows<'a> {
    pub(crate) fn new(passage: &'a Passage, columns: &'a [Columns<ArrayRef>]) -> Self {
        BatchRows { columns, times: &passage.times, first_arrival: passage.first_arrival }
    }
}

/// Buffers for the rows of a morsel.
#[derive(Default)]
pub(crate) struct Room {
    slots: Vec<u32>,
    blocks: Vec<Block>,
}

/// So many rows a key come before the accumulators are put at places.
const ROWS_PER_KEY: usize = 16;

/// Keys and accumulators of one slice, or of several combined.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) slots: Slots,
    pub(crate) accumulators: Vec<Box<dyn Accumulator>>,
    /// Where the accumulators are while many rows come, if not at the slots; nowhere outside the lanes.
    places: Option<Places>,
    /// Rows taken in at slots, and how many there have to be before it is asked whether places would do.
    rows: usize,
    next_look: usize,
}

impl Table {
    /// An empty table; `like` is one that it will probably resemble.
    pub(crate) fn new(inputs: &Inputs, like: Option<&Table>) -> Self {
        Table::of(like.map_or_else(Slots::default, |table| Slots::like(&table.slots)), inputs.empty())
    }

    /// These keys, with an accumulator at each slot.
    pub(super) fn of(slots: Slots, accumulators: Vec<Box<dyn Accumulator>>) -> Self {
        Table { slots, accumulators, places: None, rows: 0, next_look: MORSEL }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Takes in rows of a morsel: `blocks` of the batch, of whose rows `keys` has those from `first` on.
    pub(crate) fn update(
        &mut self,
        rows: &BatchRows<'_>,
        blocks: &[Block],
        keys: (&Keys<'_>, usize),
        inputs: &Inputs,
        room: &mut Room,
    ) {
        if let (Keys::One, _) = keys {
            self.slots.get_or_insert(0, false);
            let zeros = &[0; MORSEL][..blocks.iter().map(Block::len).sum()];
            self.resize();
            return self.update_accumulators(rows, blocks, |a, rows| a.update_one(zeros, rows));
        }
        let placed = self.update_at_places(rows, blocks, keys, inputs, room);
        let blocks = &blocks[placed..];
        if !blocks.is_empty() {
            self.settle();
            self.slots.assign(keys, blocks, &mut room.slots);
            self.resize();
            self.update_accumulators(rows, blocks, |a, rows| a.update(&room.slots, rows));
            self.rows += room.slots.len();
            self.look_for_places(inputs);
        }
    }

    /// Takes in blocks up to the first that has a key without a place; returns how many these are. One by one, if that costs
    /// little: then columns come from memory while rows before are worked off.
    fn update_at_places(
        &mut self,
        rows: &BatchRows<'_>,
        blocks: &[Block],
        keys: (&Keys<'_>, usize),
        inputs: &Inputs,
        Room { slots, blocks: taken }: &mut Room,
    ) -> usize {
        let mut done = 0;
        while let (Some(places), [next, ..]) = (&mut self.places, &blocks[done..]) {
            let next = if inputs.light { std::slice::from_ref(next) } else { &blocks[done..] };
            slots.clear();
            taken.clear();
            places.assign(&mut self.slots, keys, next, inputs.light, (taken, slots));
            if !taken.is_empty() {
                self.update_accumulators(rows, taken, |a, rows| a.update(slots, rows));
            }
            done += taken.len();
            if taken.len() < next.len() {
                break;
            }
        }
        done
    }

    /// Takes in rows whose keys are given.
    pub(crate) fn update_keys(
        &mut self,
        rows: &BatchRows<'_>,
        blocks: &[Block],
        keys: impl Iterator<Item = (Code, bool)>,
    ) {
        let slots: Vec<u32> = keys.map(|(code, null)| self.slots.get_or_insert(code, null)).collect();
        self.resize();
        self.update_accumulators(rows, blocks, |a, rows| a.update(&slots, rows));
    }

    /// Gives every key an accumulator.
    fn resize(&mut self) {
        let len = self.slots.len();
        self.accumulators.iter_mut().for_each(|accumulator| accumulator.resize(len));
    }

    fn update_accumulators(
        &mut self,
        rows: &BatchRows<'_>,
        blocks: &[Block],
        update: impl Fn(&mut dyn Accumulator, &Rows<'_>),
    ) {
        for (accumulator, columns) in self.accumulators.iter_mut().zip(rows.columns) {
            let rows = Rows {
                column: columns.value.as_ref(),
                by: columns.by.as_ref(),
                times: rows.times,
                first_arrival: rows.first_arrival,
                blocks,
            };
            update(accumulator.as_mut(), &rows);
        }
    }

    /// Puts the accumulators at places, if there have been many rows for each key, and the keys fill most of what they span. It is
    /// asked whenever there are twice as many rows.
    fn look_for_places(&mut self, inputs: &Inputs) {
        if inputs.unpredictable || self.rows < self.next_look.max(ROWS_PER_KEY * self.slots.len()) {
            return;
        }
        self.next_look = 2 * self.rows;
        let Some(places) = Places::of(&self.slots) else { return };
        // the last is one that has seen nothing
        let empty = self.slots.len();
        let mut order = vec![empty as u32; places.len()];
        for (slot, &code) in (0u32..).zip(self.slots.codes()) {
            order[places.of_code(code) as usize] = slot;
        }
        for accumulator in &mut self.accumulators {
            accumulator.resize(empty + 1);
            *accumulator = accumulator.gather(&order);
        }
        self.slots.forget_index();
        self.places = Some(places);
    }

    /// As if no rows had come yet.
    pub(super) fn forget_rows(&mut self) {
        (self.rows, self.next_look) = (0, MORSEL);
    }

    /// Puts the accumulators at their slots again.
    pub(super) fn settle(&mut self) {
        if self.places.is_some() {
            let order = self.homes(0..self.len());
            self.accumulators.iter_mut().for_each(|accumulator| *accumulator = accumulator.gather(&order));
            self.places = None;
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.places.is_none()
    }

    /// Where the accumulators of some slots are.
    pub(super) fn homes(&self, slots: Range<usize>) -> Vec<u32> {
        match &self.places {
            None => (slots.start as u32..slots.end as u32).collect(),
            Some(places) => self.slots.codes()[slots].iter().map(|&code| places.of_code(code)).collect(),
        }
    }

    /// One table of what several have seen, which are merged in the order given. It is made in `spare`, if there is one. Beside it
    /// what is left of the others.
    pub(crate) fn union(
        mut parts: Vec<Shared>,
        spare: Option<Table>,
        workers: &Workers,
    ) -> Option<(Shared, Vec<Shared>)> {
        let [first, rest @ ..] = parts.as_slice() else { return None };
        if rest.is_empty() {
            return Some((parts.remove(0), parts));
        }
        let slots = rest.iter().map(|table| &table.slots).collect::<Vec<_>>();
        let union = Union::of(&first.slots, &slots, workers);
        let mut all = match spare {
            Some(mut spare) => {
                spare.slots.append(first.slots.codes(), None);
                let accumulators = spare.accumulators.iter_mut().zip(&first.accumulators);
                accumulators.for_each(|(mine, theirs)| mine.append(theirs.as_ref()));
                spare
            }
            None => Shared::unwrap_or_clone(parts.remove(0)),
        };
        let rest = &parts[parts.len() - union.slots.len()..];
        all.slots.append(&union.added, union.null_slot);
        let len = all.len();
        let accumulators = all.accumulators.iter_mut().enumerate().collect::<Vec<_>>();
        workers.for_each(accumulators, |(number, mine)| {
            mine.resize(len);
            for (slots, theirs) in union.slots.iter().zip(rest) {
                mine.merge(slots, theirs.accumulators[number].as_ref());
            }
        });
        Some((Shared::new(all), parts))
    }

    /// Takes in what another table has seen, all of it later in the fixed order of merging.
    pub(crate) fn merge(&mut self, other: &Table) {
        let slots = self.slots.assign_all(&other.slots);
        let len = self.slots.len();
        for (mine, theirs) in self.accumulators.iter_mut().zip(&other.accumulators) {
            mine.resize(len);
            mine.merge(&slots, theirs.as_ref());
        }
    }

    /// The part of this table that has the wanted keys, in this table's order.
    pub(crate) fn select(&self, wanted: &Slots) -> Table {
        let null_slot = wanted.null_slot();
        let mut found: Vec<u32> = (0u32..)
            .zip(wanted.codes())
            .filter_map(|(slot, &code)| self.slots.find(code, null_slot == Some(slot)))
            .collect();
        found.sort_unstable();
        self.gather(&found)
    }

    /// A table of these slots, in this order.
    pub(crate) fn gather(&self, which: &[u32]) -> Table {
        let mut slots = Slots::default();
        for &slot in which {
            slots.get_or_insert(self.slots.codes()[slot as usize], self.slots.null_slot() == Some(slot));
        }
        Table::of(slots, self.accumulators.iter().map(|a| a.gather(which)).collect())
    }

    pub(crate) fn size(&self) -> usize {
        self.slots.size()
            + self.places.as_ref().map_or(0, Places::size)
            + self.accumulators.iter().map(|a| a.size()).sum::<usize>()
    }

    /// See [`Accumulator::magnitude`].
    pub(crate) fn magnitude(&self) -> u128 {
        self.accumulators.iter().map(|a| a.magnitude()).max().unwrap_or(0)
    }

    pub(crate) fn validate(&self) {
        assert!(self.len() > 0, "a table without keys");
        self.slots.validate();
        let len = self.places.as_ref().map_or(self.len(), Places::len);
        self.places.iter().for_each(|places| places.validate(&self.slots));
        for accumulator in &self.accumulators {
            assert_eq!(accumulator.len(), len);
        }
    }
}
