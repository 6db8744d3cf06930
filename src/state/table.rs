//! One slice: its keys, and a column of accumulators for each aggregate.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

use super::Shared;
use crate::accumulator::{Accumulator, Call, Columns, Rows};
use crate::aggregate::Function;
use crate::block::Block;
use crate::key::{Code, Keys, Places, Repeats, Slots, Union};
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
    /// Whether every row may have a slot of its own for a while.
    pub(super) additive: bool,
}

impl Inputs {
    /// `accumulators` are those of the plan for the aggregates, `names` say what each is for.
    pub(crate) fn new(
        aggregates: &[Call],
        accumulators: Vec<(Columns<usize>, Box<dyn Accumulator>)>,
        names: Vec<String>,
    ) -> Self {
        let light = accumulators.iter().all(|(columns, a)| columns.value.is_none() || a.is_light());
        let (columns, mut empty): (_, Vec<_>) = accumulators.into_iter().unzip();
        Inputs {
            columns,
            names,
            light,
            additive: empty.iter_mut().all(|accumulator| accumulator.as_additive().is_some()),
            empty,
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
    layout: Layout,
    /// What is expected of keys to come.
    novelty: Novelty,
    /// Rows taken in, unless at places, and how many there have to be before it is asked whether another layout would do.
    rows: usize,
    next_look: usize,
}

/// Where the accumulators are while rows come. Outside the lanes they are always at the slots of their keys.
#[derive(Clone, Debug)]
enum Layout {
    Slots,
    /// At places that follow from the codes of the keys, where there are many rows for each key.
    Places(Places),
    /// One for each row, where nearly every row has a key of its own: keys are not looked up, but listed as often as they come.
    Rows,
}

/// What is expected of the keys of a slice, from what those of the one before were.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Novelty {
    #[default]
    Unknown,
    /// Many rows have keys of earlier ones.
    Low,
    /// Nearly all rows have keys of their own; there are so many in a lane.
    High(usize),
}

impl Novelty {
    /// Of the rows that lanes had of a slice, and their keys. With fewer than 7 keys for 8 rows it is quicker to look each up.
    pub(super) fn of(rows: &[usize], keys: usize) -> Self {
        const WORTH_LISTING: usize = if cfg!(test) { 64 } else { 4_096 };
        let (all, most) = (rows.iter().sum::<usize>(), rows.iter().max());
        match most {
            Some(&most) if all >= WORTH_LISTING.max(keys) => match 7 * all <= 8 * keys {
                true => Novelty::High(most),
                false => Novelty::Low,
            },
            _ => Novelty::Unknown,
        }
    }
}

/// What has become of several tables.
pub(crate) struct United {
    pub(crate) table: Shared,
    /// What is left of them.
    pub(crate) left: Vec<Shared>,
    /// How many keys they had, each once a table.
    pub(crate) keys: usize,
}

impl Table {
    /// An empty table; `like` is one that it will probably resemble.
    pub(crate) fn new(inputs: &Inputs, like: Option<&Table>) -> Self {
        let like = like.filter(|table| !table.is_by_row());
        Table::of(like.map_or_else(Slots::default, |table| Slots::like(&table.slots)), inputs.empty())
    }

    /// These keys, with an accumulator at each slot.
    pub(super) fn of(slots: Slots, accumulators: Vec<Box<dyn Accumulator>>) -> Self {
        let (layout, novelty) = (Layout::Slots, Novelty::Unknown);
        Table { slots, accumulators, layout, novelty, rows: 0, next_look: MORSEL }
    }

    /// The number of slots: rows, if each has one of its own, else keys.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The number of keys, which is looked for if it is not known.
    pub(crate) fn keys(&self) -> usize {
        self.len() - if self.is_by_row() { self.slots.repeats().gone.len() } else { 0 }
    }

    fn is_settled(&self) -> bool {
        matches!(self.layout, Layout::Slots)
    }

    fn is_by_row(&self) -> bool {
        matches!(self.layout, Layout::Rows)
    }

    /// Rows that have come, unless at places.
    pub(super) fn rows(&self) -> usize {
        self.rows
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
        if blocks.is_empty() {
            return;
        }
        if self.is_by_row() {
            self.slots.push_rows(keys, blocks, &mut room.slots);
        } else {
            self.settle();
            self.slots.assign(keys, blocks, &mut room.slots);
        }
        self.resize();
        self.update_accumulators(rows, blocks, |a, rows| a.update(&room.slots, rows));
        self.rows += room.slots.len();
        if self.rows >= self.next_look {
            self.look_at_layout(inputs);
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
        while let (Layout::Places(places), [next, ..]) = (&mut self.layout, &blocks[done..]) {
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

    /// Looks whether another layout would do now, which is asked again whenever there are twice as many rows.
    fn look_at_layout(&mut self, inputs: &Inputs) {
        let is_listed = self.is_by_row();
        if is_listed {
            self.settle();
        }
        let novelty = Novelty::of(&[self.rows], self.len());
        if inputs.additive && matches!(novelty, Novelty::High(_)) && self.novelty != Novelty::Low {
            self.slots.forget_index();
            self.layout = Layout::Rows;
        } else if is_listed {
            // once is enough
            self.novelty = Novelty::Low;
        } else if inputs.unpredictable || self.rows < ROWS_PER_KEY * self.len() {
            return;
        } else {
            self.look_for_places();
        }
        self.next_look = 2 * self.rows;
    }

    /// Puts the accumulators at places, if the keys fill most of what they span.
    fn look_for_places(&mut self) {
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
        self.layout = Layout::Places(places);
    }

    /// As if no rows had come yet, of which this is expected.
    pub(super) fn expect(&mut self, novelty: Novelty) {
        (self.novelty, self.rows) = (novelty, 0);
        (self.layout, self.next_look) = match novelty {
            Novelty::High(rows) => (Layout::Rows, 2 * rows),
            _ => (Layout::Slots, MORSEL),
        };
    }

    /// Puts the accumulators at the slots of their keys.
    pub(super) fn settle(&mut self) {
        match std::mem::replace(&mut self.layout, Layout::Slots) {
            Layout::Slots => {}
            Layout::Places(places) => {
                let order: Vec<u32> = self.slots.codes().iter().map(|&code| places.of_code(code)).collect();
                self.accumulators
                    .iter_mut()
                    .for_each(|accumulator| *accumulator = accumulator.gather(&order));
            }
            Layout::Rows => {
                let repeats = self.slots.repeats();
                self.fold(&repeats);
            }
        }
    }

    fn fold(&mut self, repeats: &Repeats) {
        self.slots.fold(repeats);
        let additive = self.accumulators.iter_mut().filter_map(|accumulator| accumulator.as_additive());
        additive.for_each(|accumulator| accumulator.fold(repeats));
    }

    /// This table, or one like it whose accumulators are at the slots of their keys.
    pub(super) fn settled(this: &Shared) -> Shared {
        let mut table = this.clone();
        if !table.is_settled() {
            Shared::make_mut(&mut table).settle();
        }
        table
    }

    /// Replaces every code by `renamed[code]`, for codes that are interned numbers.
    pub(super) fn rename(&mut self, renamed: &[u32]) {
        if !self.is_by_row() {
            self.settle();
        }
        self.slots.rename(renamed);
    }

    /// One table of what several have seen, which are merged in the order given. It is made in `spare`, if there is one.
    pub(crate) fn union(mut parts: Vec<Shared>, spare: Option<Table>, workers: &Workers) -> Option<United> {
        if parts.len() > 1 && parts.iter().all(|part| part.is_by_row()) {
            return Some(Table::list(parts, spare));
        }
        for part in parts.iter_mut().filter(|part| !part.is_settled()) {
            Shared::make_mut(part).settle();
        }
        let keys = parts.iter().map(|part| part.len()).sum();
        let [first, rest @ ..] = parts.as_slice() else { return None };
        if rest.is_empty() {
            return Some(United { table: parts.remove(0), left: parts, keys });
        }
        let slots = rest.iter().map(|table| &table.slots).collect::<Vec<_>>();
        let union = Union::of(&first.slots, &slots, workers);
        let mut all = Table::first_of(&mut parts, spare);
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
        Some(United { table: Shared::new(all), left: parts, keys })
    }

    /// The first table, which is taken out of `parts` unless there is a `spare` one to copy it to.
    fn first_of(parts: &mut Vec<Shared>, spare: Option<Table>) -> Table {
        match spare {
            Some(mut spare) => {
                spare.append(&parts[0], None);
                spare
            }
            None => Shared::unwrap_or_clone(parts.remove(0)),
        }
    }

    /// Puts the slots of another table behind the own ones; `null_slot` is that of the null key among all.
    fn append(&mut self, other: &Table, null_slot: Option<u32>) {
        self.slots.append(other.slots.codes(), null_slot);
        for (mine, theirs) in self.accumulators.iter_mut().zip(&other.accumulators) {
            mine.append(theirs.as_ref());
        }
    }

    /// As [`union`](Table::union), of tables in which every row has a slot of its own: they become one such table first.
    fn list(mut parts: Vec<Shared>, spare: Option<Table>) -> United {
        let ends: Vec<usize> = parts
            .iter()
            .scan(0, |end, part| {
                *end += part.len();
                Some(*end)
            })
            .collect();
        let starts = [0].iter().chain(&ends);
        let null_slot = |(part, &start): (&Shared, &usize)| Some(start as u32 + part.slots.null_slot()?);
        let nulls: Vec<u32> = parts.iter().zip(starts).filter_map(null_slot).collect();
        let mut all = Table::first_of(&mut parts, spare);
        let rest = &parts[parts.len() + 1 - ends.len()..];
        rest.iter().for_each(|part| all.append(part, nulls.first().copied()));
        let repeats = Repeats::of(all.slots.codes(), &nulls, &ends);
        let keys = all.len() - repeats.within;
        all.fold(&repeats);
        all.layout = Layout::Slots;
        United { table: Shared::new(all), left: parts, keys }
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
            + if let Layout::Places(places) = &self.layout { places.size() } else { 0 }
            + self.accumulators.iter().map(|a| a.size()).sum::<usize>()
    }

    /// See [`Accumulator::magnitude`].
    pub(crate) fn magnitude(&self) -> u128 {
        self.accumulators.iter().map(|a| a.magnitude()).max().unwrap_or(0)
    }

    pub(crate) fn validate(&self) {
        assert!(self.len() > 0, "a table without keys");
        let len = match &self.layout {
            Layout::Places(places) => {
                places.validate(&self.slots);
                places.len()
            }
            _ => self.len(),
        };
        if !self.is_by_row() {
            self.slots.validate();
        }
        for accumulator in &self.accumulators {
            assert_eq!(accumulator.len(), len);
        }
    }
}
