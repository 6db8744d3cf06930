//! Rows that are kept as they are, for evictors and window functions.

use arrow_array::RecordBatch;
use arrow_array::{UInt32Array, UInt64Array};
use arrow_schema::SchemaRef;
use arrow_select::interleave::interleave_record_batch;
use arrow_select::take::take_record_batch;

use crate::accumulator::floats;
use crate::error::Result;
use crate::event_time::ticks;
use crate::evictor::{EvictorRule, KeepRule};
use crate::state::Inputs;

/// A row: a batch, and its place in it. They ascend with arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) batch: u32,
    pub(super) row: u32,
}

/// Rows by slot.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    schema: SchemaRef,
    event_time: usize,
    slots: Vec<Vec<Place>>,
    free: Vec<u32>,
    batches: Vec<RecordBatch>,
    /// Rows in slots, each once a slot.
    live: usize,
    /// How many batches the last rewriting has left.
    kept: usize,
}

/// With so many rows more than are in use, batches are rewritten.
const SPARE_ROWS: usize = 65_536;

/// With so many batches more than the last time, they are rewritten too.
const SPARE_BATCHES: usize = 1_024;

impl Buffer {
    pub(crate) fn new(schema: SchemaRef, event_time: usize) -> Self {
        Buffer { schema, event_time, slots: vec![], free: vec![], batches: vec![], live: 0, kept: 0 }
    }

    /// Slots of rows that are in these batches.
    pub(super) fn restored(&self, batches: Vec<RecordBatch>, slots: Vec<Vec<Place>>) -> Self {
        let live = slots.iter().map(Vec::len).sum();
        Buffer {
            batches,
            slots,
            live,
            free: vec![],
            schema: self.schema.clone(),
            event_time: self.event_time,
            kept: 0,
        }
    }

    /// The rows of a slot, in order of arrival.
    pub(super) fn places(&self, slot: u32) -> &[Place] {
        &self.slots[slot as usize]
    }

    pub(super) fn batch(&self, number: u32) -> &RecordBatch {
        &self.batches[number as usize]
    }

    pub(crate) fn new_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Vec::new());
            self.slots.len() as u32 - 1
        })
    }

    /// Rows to come are those of this batch.
    pub(crate) fn enter(&mut self, batch: &RecordBatch) {
        self.batches.push(batch.clone());
    }

    pub(crate) fn push(&mut self, row: usize, slot: u32) {
        let place = Place { batch: self.batches.len() as u32 - 1, row: row as u32 };
        self.slots[slot as usize].push(place);
        self.live += 1;
    }

    /// A pane with slot `into` swallows another: its rows are again in order of arrival.
    pub(crate) fn merge(&mut self, into: u32, slot: u32) {
        let swallowed = std::mem::take(&mut self.slots[slot as usize]);
        let rows = &mut self.slots[into as usize];
        rows.extend(swallowed);
        rows.sort_unstable();
        self.free.push(slot);
    }

    pub(crate) fn release(&mut self, slot: u32) {
        self.live -= std::mem::take(&mut self.slots[slot as usize]).len();
        self.free.push(slot);
    }

    pub(crate) fn is_empty(&self, slot: u32) -> bool {
        self.slots[slot as usize].is_empty()
    }

    /// The rows of a slot, in order of arrival.
    pub(crate) fn rows(&self, slot: u32) -> Result<RecordBatch> {
        let places = &self.slots[slot as usize];
        let mut used: Vec<u32> = places.iter().map(|place| place.batch).collect();
        used.sort_unstable();
        used.dedup();
        let batches: Vec<&RecordBatch> = used.iter().map(|&batch| &self.batches[batch as usize]).collect();
        if batches.is_empty() {
            return Ok(RecordBatch::new_empty(self.schema.clone()));
        }
        let indices: Vec<(usize, usize)> = places
            .iter()
            .map(|place| (used.partition_point(|&batch| batch < place.batch), place.row as usize))
            .collect();
        Ok(interleave_record_batch(&batches, &indices)?)
    }

    /// Removes what the evictor does not keep; `rows` are those of the slot. Returns what is left of them.
    pub(crate) fn evict(
        &mut self,
        slot: u32,
        rows: &RecordBatch,
        evictor: EvictorRule,
    ) -> Result<RecordBatch> {
        let kept = self.kept(rows, evictor.keeps);
        let places = &mut self.slots[slot as usize];
        self.live -= places.len() - kept.len();
        *places = kept.iter().map(|&row| places[row as usize]).collect();
        Ok(take_record_batch(rows, &UInt64Array::from(kept))?)
    }

    fn kept(&self, rows: &RecordBatch, keeps: KeepRule) -> Vec<u64> {
        let all = 0..rows.num_rows() as u64;
        match keeps {
            KeepRule::Last(count) => (all.end.saturating_sub(count)..all.end).collect(),
            KeepRule::Recent(keep) => {
                let times = ticks(rows.column(self.event_time));
                let latest = times.iter().copied().max().unwrap_or(i64::MIN);
                let limit = i128::from(latest) - i128::from(keep);
                all.filter(|&row| i128::from(times[row as usize]) > limit).collect()
            }
            KeepRule::Near { column, threshold } => {
                let values = floats(rows.column(column));
                let Some(Some(last)) = values.last().copied() else { return all.collect() };
                let near = |value: Option<f64>| value.is_none_or(|value| last - value < threshold);
                all.filter(|&row| near(values[row as usize])).collect()
            }
        }
    }

    /// At the end of a call: batches that hold far more rows than are in use are rewritten.
    pub(crate) fn compact(&mut self) -> Result<()> {
        let held: usize = self.batches.iter().map(RecordBatch::num_rows).sum();
        if held <= 2 * self.live + SPARE_ROWS && self.batches.len() < self.kept + SPARE_BATCHES {
            return Ok(());
        }
        let mut places: Vec<Place> = self.slots.iter().flatten().copied().collect();
        places.sort_unstable();
        places.dedup();
        let groups: Vec<&[Place]> = places.chunk_by(|a, b| a.batch == b.batch).collect();
        let taken = groups.iter().map(|group| {
            let rows = UInt32Array::from_iter_values(group.iter().map(|place| place.row));
            take_record_batch(&self.batches[group[0].batch as usize], &rows)
        });
        let taken = taken.collect::<std::result::Result<Vec<_>, _>>()?;
        // dictionaries with narrow keys may not fit together: then the batches stay apart
        let joined = arrow_select::concat::concat_batches(&self.schema, &taken).ok();
        let apart = joined.is_none();
        self.batches = joined.map_or(taken, |all| vec![all]);
        self.kept = self.batches.len();
        let mut first = 0;
        let mut starts = Vec::with_capacity(groups.len());
        for group in &groups {
            starts.push(first);
            first += group.len();
        }
        for place in self.slots.iter_mut().flatten() {
            let row = places.partition_point(|other| other < place);
            let group = starts.partition_point(|&start| start <= row) - 1;
            *place = match apart {
                true => Place { batch: group as u32, row: (row - starts[group]) as u32 },
                false => Place { batch: 0, row: row as u32 },
            };
        }
        Ok(())
    }

    /// See [`Accumulator::magnitude`](crate::accumulator::Accumulator::magnitude): every row may be in the same window.
    pub(crate) fn magnitude(&self, inputs: &Inputs) -> u128 {
        self.batches.iter().fold(0, |sum, batch| sum.saturating_add(inputs.magnitude(batch)))
    }

    pub(crate) fn size(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>()
            + self.slots.iter().map(|rows| rows.capacity() * size_of::<Place>()).sum::<usize>()
            + self.slots.capacity() * size_of::<Vec<Place>>()
    }
}
