//! Windows of keys in a snapshot.
//!
//! A row of the section `panes` is what one key has in one window, key by key; shards, slots, queues and numbers stay inside.
//! Rows that windows keep are a section of their own, each once and a key's in order of arrival, and panes name them by their
//! number there. None of it tells how many shards there were.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, LargeStringArray, RecordBatch, StructArray,
    UInt32Array, UInt64Array,
};
use arrow_schema::Field;
use arrow_select::interleave::interleave;

use super::buffer::{Buffer, Place};
use super::contents::Contents;
use super::pane::{Fill, Pane, Past, Story};
use super::{Keyed, Shard};
use crate::accumulator::Accumulator;
use crate::builder::Parts;
use crate::key::Code;
use crate::snapshot::{Checked, Section, lists, record};

/// So many panes, or rows, make a piece of a section.
const PIECE: usize = 16_384;

/// A pane, by its shard and its number there.
#[derive(Clone, Copy)]
struct Spot {
    shard: usize,
    id: u32,
}

/// Rows by the number that the section gives them.
#[derive(Default)]
struct Numbers {
    rows: Vec<(usize, Place)>,
    of: BTreeMap<(usize, Place), u64>,
}

impl Keyed {
    /// The panes, and the rows that they keep if they do.
    pub(crate) fn save<'a>(&'a self, parts: &'a Parts) -> Checked<Vec<Section<'a>>> {
        let keys = self.spots();
        let numbers = Arc::new(self.numbers(&keys));
        let spots: Vec<Spot> = keys.into_iter().flatten().collect();
        let chunks: Vec<Vec<Spot>> = spots.chunks(PIECE).map(<[Spot]>::to_vec).collect();
        let empty = self.save_panes(&[], &numbers, parts)?;
        let named = numbers.clone();
        let pieces = chunks.into_iter().map(move |spots| self.save_panes(&spots, &named, parts));
        let mut sections = vec![Section { name: "panes", empty, pieces: Box::new(pieces) }];
        if self.spec.keeps_rows() {
            let empty = self.save_rows(&[], parts)?;
            let chunks = numbers.rows.len().div_ceil(PIECE);
            let pieces = (0..chunks).map(move |chunk| {
                let rows = &numbers.rows[chunk * PIECE..];
                self.save_rows(&rows[..rows.len().min(PIECE)], parts)
            });
            sections.push(Section { name: "rows", empty, pieces: Box::new(pieces) });
        }
        Ok(sections)
    }

    /// The panes of each key from the earliest to the latest, keys in the order in which their oldest pane was opened.
    fn spots(&self) -> Vec<Vec<Spot>> {
        let mut keys: Vec<(u64, Vec<Spot>)> = Vec::new();
        for (number, shard) in self.shards.iter().enumerate() {
            for (_, ids) in shard.panes.by_key() {
                let spots: Vec<Spot> = ids.iter().map(|&id| Spot { shard: number, id }).collect();
                let oldest = spots.iter().map(|spot| self.past(*spot).created).min();
                keys.extend(oldest.map(|oldest| (oldest, spots)));
            }
        }
        keys.sort_by_key(|(oldest, _)| *oldest);
        keys.into_iter().map(|(_, spots)| spots).collect()
    }

    fn shard(&self, spot: Spot) -> &Shard {
        &self.shards[spot.shard]
    }

    fn pane(&self, spot: Spot) -> &Pane {
        self.shard(spot).panes.get(spot.id)
    }

    fn past(&self, spot: Spot) -> Past {
        self.shard(spot).panes.past(spot.id)
    }

    fn story(&self, spot: Spot) -> &Story {
        self.shard(spot).panes.story(spot.id)
    }

    fn buffer(&self, spot: Spot) -> Option<&Buffer> {
        match &self.shard(spot).contents {
            Contents::Buffered(buffer) => Some(buffer),
            Contents::Aggregated(_) => None,
        }
    }

    fn places(&self, spot: Spot) -> &[Place] {
        self.buffer(spot).map_or(&[], |buffer| buffer.places(self.pane(spot).slot))
    }

    fn numbers(&self, keys: &[Vec<Spot>]) -> Numbers {
        let mut numbers = Numbers::default();
        for spots in keys {
            let mut places: Vec<(usize, Place)> = spots
                .iter()
                .flat_map(|spot| self.places(*spot).iter().map(|place| (spot.shard, *place)))
                .collect();
            places.sort_unstable();
            places.dedup();
            for place in places {
                numbers.of.insert(place, numbers.rows.len() as u64);
                numbers.rows.push(place);
            }
        }
        numbers
    }

    fn save_panes(&self, spots: &[Spot], numbers: &Numbers, parts: &Parts) -> Checked<ArrayRef> {
        let panes = || spots.iter().map(|spot| self.pane(*spot));
        let pasts = || spots.iter().map(|spot| self.past(*spot));
        let stories = || spots.iter().map(|spot| self.story(*spot));
        let mut columns: Vec<(&str, ArrayRef)> = self.save_keys(spots, parts)?.into_iter().collect();
        columns.extend::<[(&str, ArrayRef); 11]>([
            ("first", Arc::new(Int64Array::from_iter_values(panes().map(|pane| pane.first)))),
            ("last", Arc::new(Int64Array::from_iter_values(panes().map(|pane| pane.last)))),
            ("news", Arc::new(panes().map(|pane| Some(pane.fill == Fill::News)).collect::<BooleanArray>())),
            (
                "filled",
                Arc::new(panes().map(|pane| Some(pane.fill != Fill::Empty)).collect::<BooleanArray>()),
            ),
            ("created", Arc::new(UInt64Array::from_iter_values(pasts().map(|past| past.created)))),
            ("number", Arc::new(UInt32Array::from_iter_values(pasts().map(|past| past.number)))),
            ("count", Arc::new(UInt64Array::from_iter_values(stories().map(|story| story.count)))),
            ("early_at", Arc::new(stories().map(|story| story.early_at).collect::<Int64Array>())),
            ("mark", Arc::new(stories().map(|story| story.mark).collect::<Float64Array>())),
            ("lowest", Arc::new(Int64Array::from_iter_values(stories().map(|story| story.times.0)))),
            ("highest", Arc::new(Int64Array::from_iter_values(stories().map(|story| story.times.1)))),
        ]);
        if self.spec.keeps_rows() {
            let rows = spots.iter().flat_map(|spot| {
                self.places(*spot).iter().map(|place| numbers.of.get(&(spot.shard, *place)).copied())
            });
            let rows = rows.collect::<Option<Vec<_>>>().ok_or("a row has no number")?;
            let lengths = spots.iter().map(|spot| self.places(*spot).len());
            columns.push(("rows", lists(lengths, Arc::new(UInt64Array::from(rows)))?));
        } else {
            columns.push(("contents", self.save_contents(spots, parts)?));
        }
        if self.spec.retracts() {
            columns.push(("given", self.save_given(spots, parts)?));
        }
        record(columns)
    }

    fn save_keys(&self, spots: &[Spot], parts: &Parts) -> Checked<Option<(&'static str, ArrayRef)>> {
        let key = |spot: &Spot| {
            let (keys, slot) = (&self.shard(*spot).keys, self.past(*spot).key);
            (keys.codes()[slot as usize], keys.null_slot() == Some(slot))
        };
        let (codes, nulls): (Vec<Code>, Vec<bool>) = spots.iter().map(key).unzip();
        parts.source.keys.save(&codes, &nulls, &self.interner)
    }

    /// The accumulators of each pane: those of its slot, and of what was merged to it and not combined yet.
    fn save_contents(&self, spots: &[Spot], parts: &Parts) -> Checked<ArrayRef> {
        let mut lengths = Vec::with_capacity(spots.len());
        let mut wanted: Vec<(usize, u32)> = Vec::new();
        for spot in spots {
            let Contents::Aggregated(contents) = &self.shard(*spot).contents else { continue };
            let slots = contents.slots_of(self.pane(*spot).slot);
            let before = wanted.len();
            wanted.extend(slots.map(|slot| (spot.shard, slot)));
            lengths.push(wanted.len() - before);
        }
        let gathered = self.gather(&wanted, parts, |shard, slots| match &shard.contents {
            Contents::Aggregated(contents) => contents.each(slots),
            Contents::Buffered(_) => Vec::new(),
        });
        lists(lengths, parts.inputs.save(&gathered)?)
    }

    /// Results that may have to be taken back.
    fn save_given(&self, spots: &[Spot], parts: &Parts) -> Checked<ArrayRef> {
        let given = || spots.iter().flat_map(|spot| self.story(*spot).given.iter().map(|g| (spot.shard, g)));
        let wanted: Vec<(usize, u32)> = given().map(|(shard, given)| (shard, given.slot)).collect();
        let gathered = self
            .gather(&wanted, parts, |shard, slots| shard.given.iter().map(|all| all.gather(slots)).collect());
        let firings: Vec<&str> = given().map(|(_, given)| given.said.firing.as_str()).collect();
        let given = record(vec![
            ("start", Arc::new(Int64Array::from_iter_values(given().map(|(_, given)| given.said.start)))),
            ("end", Arc::new(Int64Array::from_iter_values(given().map(|(_, given)| given.said.end)))),
            ("firing", Arc::new(LargeStringArray::from(firings))),
            ("number", Arc::new(UInt32Array::from_iter_values(given().map(|(_, given)| given.said.number)))),
            ("state", parts.inputs.save(&gathered)?),
        ])?;
        lists(spots.iter().map(|spot| self.story(*spot).given.len()), given)
    }

    /// Slots of several shards side by side, in the order given.
    fn gather(
        &self,
        wanted: &[(usize, u32)],
        parts: &Parts,
        of: impl Fn(&Shard, &[u32]) -> Vec<Box<dyn Accumulator>>,
    ) -> Vec<Box<dyn Accumulator>> {
        let mut all = parts.inputs.empty();
        let mut order = vec![0; wanted.len()];
        let mut next = 0;
        for (number, shard) in self.shards.iter().enumerate() {
            let mine = || wanted.iter().enumerate().filter(|(_, (shard, _))| *shard == number);
            let slots: Vec<u32> = mine().map(|(_, (_, slot))| *slot).collect();
            for (place, _) in mine() {
                order[place] = next;
                next += 1;
            }
            super::append(&mut all, &of(shard, &slots));
        }
        all.iter().map(|all| all.gather(&order)).collect()
    }

    /// Rows as they came, but for dictionaries, which are looked up: no single one might hold all of their values.
    fn save_rows(&self, rows: &[(usize, Place)], parts: &Parts) -> Checked<ArrayRef> {
        let mut used: Vec<(usize, u32)> = rows.iter().map(|(shard, place)| (*shard, place.batch)).collect();
        used.sort_unstable();
        used.dedup();
        let batches = used.iter().filter_map(|&(shard, batch)| match &self.shards[shard].contents {
            Contents::Buffered(buffer) => Some(plain_rows(buffer.batch(batch))),
            Contents::Aggregated(_) => None,
        });
        let batches: Vec<ArrayRef> = batches.collect::<Checked<_>>()?;
        if batches.is_empty() {
            return plain_rows(&RecordBatch::new_empty(parts.source.schema.clone()));
        }
        let index = |(shard, place): &(usize, Place)| {
            (used.partition_point(|batch| *batch < (*shard, place.batch)), place.row as usize)
        };
        let batches: Vec<&dyn Array> = batches.iter().map(|batch| batch.as_ref()).collect();
        let rows: Vec<(usize, usize)> = rows.iter().map(index).collect();
        interleave(&batches, &rows).map_err(|error| error.to_string())
    }
}

/// A batch as a struct, without dictionaries.
fn plain_rows(batch: &RecordBatch) -> Checked<ArrayRef> {
    let columns = batch.columns().iter().map(plain).collect::<Checked<Vec<_>>>()?;
    let names = batch.schema_ref().fields().iter().map(|field| field.name().clone());
    let fields: Vec<Field> = names
        .zip(&columns)
        .map(|(name, column)| Field::new(name, column.data_type().clone(), true))
        .collect();
    let rows = StructArray::try_new(fields.into(), columns, None);
    Ok(Arc::new(rows.map_err(|error| error.to_string())?))
}

/// A column, or the values that a dictionary stands for.
fn plain(column: &ArrayRef) -> Checked<ArrayRef> {
    match column.as_any_dictionary_opt() {
        None => Ok(column.clone()),
        Some(dictionary) => {
            let values = arrow_select::take::take(dictionary.values(), dictionary.keys(), None);
            plain(&values.map_err(|error| error.to_string())?)
        }
    }
}
