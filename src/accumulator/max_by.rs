//! `max_by(column, by)` and `min_by(column, by)`: the value of one column in the row that is extreme in another.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::column::{Lens, Native, bytes, fill, for_each_row, gather, grow};
use super::dictionary::looked_up;
use super::first_last::{Place, nowhere, place, replaces, restore_places, save_places};
use super::{Accumulator, Columns, FinishError, Part, Rows, nulls, same};
use crate::block::{Block, bits};
use crate::scan::outside;
use crate::snapshot::{Checked, Record as Saved, record};

/// The best row that a slot has seen.
#[derive(Clone, Copy, Debug)]
struct Record<N, const MAX: bool> {
    by: N,
    place: Place,
}

impl<N: Native, const MAX: bool> Record<N, MAX> {
    /// Gives way to every row.
    const NEW: Self = Record { by: if MAX { N::LOWEST } else { N::HIGHEST }, place: nowhere::<false>() };

    /// Whether a row certainly does not win, told by one comparison: nearly all rows end here. Of a NaN, or of what equals
    /// the record, it cannot tell.
    fn beats(&self, by: N) -> bool {
        if MAX { by < self.by } else { self.by < by }
    }

    /// Gives way to a row that is better in the order of rule 27, or as good and earlier.
    fn offer(&mut self, by: N, place: Place) -> bool {
        let (better, worse) = match MAX {
            true => (self.by.below(by), by.below(self.by)),
            false => (by.below(self.by), self.by.below(by)),
        };
        let wins = better || !worse && replaces::<false>(place, self.place);
        if wins {
            *self = Record { by, place };
        }
        wins
    }
}

/// The place of the largest value of `by` a slot if `MAX`, else of the smallest, and the value that stands there.
///
/// The records decide alone; the values follow once a call, for the rows that have won and were not beaten since.
#[derive(Debug)]
pub(crate) struct MaxBy<N: Native, const MAX: bool> {
    /// Of `by`.
    lens: Lens<N>,
    records: Vec<Record<N, MAX>>,
    /// One that keeps the last value given to a slot, be it null: a [`Keep`] or the like.
    values: Box<dyn Accumulator>,
}

impl<N: Native, const MAX: bool> MaxBy<N, MAX> {
    pub(crate) fn new(lens: Lens<N>, values: Box<dyn Accumulator>) -> Self {
        MaxBy { lens, records: Vec::new(), values }
    }

    /// Puts the values of these rows, ascending, into these slots, all different.
    fn put(&mut self, slots: &[u32], winners: impl Iterator<Item = usize>, rows: &Rows<'_>) {
        if !slots.is_empty() {
            let blocks: Vec<_> = winners.map(Block::one).collect();
            self.values.update(slots, &Rows { by: None, blocks: &blocks, ..*rows });
        }
    }
}

/// Runs `run` on rows whose `by` is not a dictionary, if there are any rows.
fn with_plain_by(rows: &Rows<'_>, run: impl FnOnce(&Rows<'_>)) {
    let (Some(by), Some(span)) = (rows.by, rows.span()) else { return };
    if !matches!(by.data_type(), DataType::Dictionary(..)) {
        return run(rows);
    }
    let value = rows.column.map(|column| column.slice(span.start, span.len()));
    let mut by = looked_up(by, span.clone());
    // the values of a dictionary can be a dictionary
    while matches!(by.data_type(), DataType::Dictionary(..)) {
        by = looked_up(&by, 0..by.len());
    }
    rows.cut(span, &Columns { value, by: Some(by) }, run);
}

impl<N: Native, const MAX: bool> Accumulator for MaxBy<N, MAX> {
    fn len(&self) -> usize {
        self.records.len()
    }
    fn resize(&mut self, slots: usize) {
        grow(&mut self.records, slots, Record::NEW);
        self.values.resize(slots);
    }
    fn clear(&mut self) {
        self.records.clear();
        self.values.clear();
    }
    fn reset(&mut self, slots: &[u32]) {
        fill(&mut self.records, slots, &Record::NEW);
        self.values.reset(slots);
    }
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>) {
        with_plain_by(rows, |rows| {
            let by = self.lens.values(rows.by);
            let records = self.records.as_mut_slice();
            let mut won: Vec<(u32, usize)> = Vec::new();
            for_each_row(slots, rows.blocks, nulls(rows.by), |slot, row| {
                let record = &mut records[slot];
                if !record.beats(by[row]) && record.offer(by[row], place(rows.position(row))) {
                    won.push((slot as u32, row));
                }
            });
            won.retain(|&(slot, row)| records[slot as usize].place == place(rows.position(row)));
            let slots: Vec<_> = won.iter().map(|&(slot, _)| slot).collect();
            self.put(&slots, won.iter().map(|&(_, row)| row), rows);
        });
    }
    /// Which rows of a block can win is found at once.
    fn update_one(&mut self, _: &[u32], rows: &Rows<'_>) {
        with_plain_by(rows, |rows| {
            let Some(mut record) = self.records.first().copied() else { return };
            let (by, nulls) = (self.lens.values(rows.by), nulls(rows.by));
            let mut winner = None;
            for block in rows.blocks {
                let perhaps = match MAX {
                    true => outside::<N, false, true>(block.of(by), record.by, record.by),
                    false => outside::<N, true, false>(block.of(by), record.by, record.by),
                };
                for row in bits(perhaps & block.valid(nulls)).map(|bit| block.start + bit) {
                    if !record.beats(by[row]) && record.offer(by[row], place(rows.position(row))) {
                        winner = Some(row);
                    }
                }
            }
            self.records[0] = record;
            let slots: &[u32] = if winner.is_some() { &[0] } else { &[] };
            self.put(slots, winner.into_iter(), rows);
        });
    }
    fn merge(&mut self, slots: &[u32], other: &dyn Accumulator) {
        let other = same::<Self>(other);
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for (number, (&slot, theirs)) in (0u32..).zip(slots.iter().zip(&other.records)) {
            if self.records[slot as usize].offer(theirs.by, theirs.place) {
                from.push(number);
                to.push(slot);
            }
        }
        match from.len() == other.records.len() {
            true => self.values.merge(&to, other.values.as_ref()),
            false => self.values.merge(&to, other.values.gather(&from).as_ref()),
        }
    }
    fn gather(&self, slots: &[u32]) -> Box<dyn Accumulator> {
        Box::new(MaxBy {
            lens: self.lens.clone(),
            records: gather(&self.records, slots),
            values: self.values.gather(slots),
        })
    }
    fn append(&mut self, other: &dyn Accumulator) {
        let other = same::<Self>(other);
        self.records.extend_from_slice(&other.records);
        self.values.append(other.values.as_ref());
    }
    fn finish(&self, part: Part) -> Result<ArrayRef, FinishError> {
        self.values.finish(part)
    }
    fn size(&self) -> usize {
        bytes(&self.records) + self.values.size()
    }
    fn magnitude(&self) -> u128 {
        self.values.magnitude()
    }
    fn save(&self) -> Checked<ArrayRef> {
        let places = self.records.iter().map(|record| record.place);
        let places = places.map(|place| (place != nowhere::<false>()).then_some(place));
        let nulls: NullBuffer = places.clone().map(|place| place.is_some()).collect();
        let by = self.lens.build(self.records.iter().map(|record| record.by).collect(), Some(nulls));
        let [time, arrival] = save_places(places);
        record(vec![time, arrival, ("by", by), ("value", self.values.save()?)])
    }
    fn restore(&self, saved: &ArrayRef, left: &mut u64) -> Checked<Box<dyn Accumulator>> {
        let saved = Saved::of(saved)?;
        let (by, nulls) = self.lens.unbuilt(saved.column("by")?)?;
        let places = restore_places(&saved)?.into_iter().zip(by).enumerate();
        let records =
            places.map(|(slot, (place, &by))| match (place, nulls.is_none_or(|n| n.is_valid(slot))) {
                (Some(place), true) => Ok(Record { by, place }),
                (None, false) => Ok(Record::NEW),
                _ => Err("a value without a place, or the reverse"),
            });
        Ok(Box::new(MaxBy::<N, MAX> {
            lens: self.lens.clone(),
            records: records.collect::<Result<_, _>>()?,
            values: self.values.restore(saved.column("value")?, left)?,
        }))
    }
    fn boxed_clone(&self) -> Box<dyn Accumulator> {
        Box::new(MaxBy {
            lens: self.lens.clone(),
            records: self.records.clone(),
            values: self.values.boxed_clone(),
        })
    }
}

/// The value that was put into the slot last, be it null. One call of `update` gives a slot no more than one row.
#[derive(Clone, Debug)]
pub(crate) struct Keep<N: Native> {
    lens: Lens<N>,
    values: Vec<N>,
    valid: Vec<bool>,
}

impl<N: Native> Keep<N> {
    pub(crate) fn new(lens: Lens<N>) -> Self {
        Keep { lens, values: Vec::new(), valid: Vec::new() }
    }

    fn column(&self) -> ArrayRef {
        let all = self.valid.iter().all(|&valid| valid);
        let nulls = (!all).then(|| NullBuffer::from(self.valid.as_slice()));
        self.lens.build(self.values.clone(), nulls)
    }
}

impl<N: Native> Accumulator for Keep<N> {
    fn len(&self) -> usize {
        self.values.len()
    }
    fn resize(&mut self, slots: usize) {
        grow(&mut self.values, slots, N::default());
        grow(&mut self.valid, slots, false);
    }
    fn clear(&mut self) {
        self.values.clear();
        self.valid.clear();
    }
    fn reset(&mut self, slots: &[u32]) {
        fill(&mut self.values, slots, &N::default());
        fill(&mut self.valid, slots, &false);
    }
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>) {
        let (values, nulls) = (self.lens.view(rows), rows.nulls());
        for_each_row(slots, rows.blocks, None, |slot, row| {
            self.values[slot] = values[row];
            self.valid[slot] = nulls.is_none_or(|nulls| nulls.is_valid(row));
        });
    }
    fn merge(&mut self, slots: &[u32], other: &dyn Accumulator) {
        let other = same::<Self>(other);
        for (&slot, (&value, &valid)) in slots.iter().zip(other.values.iter().zip(&other.valid)) {
            self.values[slot as usize] = value;
            self.valid[slot as usize] = valid;
        }
    }
    fn gather(&self, slots: &[u32]) -> Box<dyn Accumulator> {
        Box::new(Keep {
            lens: self.lens.clone(),
            values: gather(&self.values, slots),
            valid: gather(&self.valid, slots),
        })
    }
    fn append(&mut self, other: &dyn Accumulator) {
        let other = same::<Self>(other);
        self.values.extend_from_slice(&other.values);
        self.valid.extend_from_slice(&other.valid);
    }
    fn finish(&self, _: Part) -> Result<ArrayRef, FinishError> {
        Ok(self.column())
    }
    fn size(&self) -> usize {
        bytes(&self.values) + bytes(&self.valid)
    }
    fn save(&self) -> Checked<ArrayRef> {
        Ok(self.column())
    }
    fn restore(&self, saved: &ArrayRef, _: &mut u64) -> Checked<Box<dyn Accumulator>> {
        let (values, nulls) = self.lens.unbuilt(saved)?;
        let valid = |slot| nulls.is_none_or(|nulls| nulls.is_valid(slot));
        Ok(Box::new(Keep {
            lens: self.lens.clone(),
            values: values.to_vec(),
            valid: (0..values.len()).map(valid).collect(),
        }))
    }
    fn boxed_clone(&self) -> Box<dyn Accumulator> {
        Box::new(self.clone())
    }
}
