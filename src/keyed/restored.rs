//! Windows of keys out of a snapshot.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, PrimitiveArray, RecordBatch,
};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{DataType, SchemaRef};

use super::assign::{Assigned, Assigner};
use super::buffer::Place;
use super::contents::Contents;
use super::emission::Said;
use super::pane::{Fill, Given, NOTHING, Pane, Past, Story};
use super::work::has_passed;
use super::{Keyed, Spec, append};
use crate::accumulator::Accumulator;
use crate::builder::Parts;
use crate::fire::Firing;
use crate::key::shard_of;
use crate::snapshot::{Checked, Pieces, Record};

/// More than any window or session can have had, and few enough that no counter wraps.
const MOST_ROWS: u64 = 1 << 62;
const MOST_FIRINGS: u32 = 1 << 31;

/// What all pieces have in common.
struct Restoring<'a> {
    parts: &'a Parts,
    watermark: i64,
    /// Rows that windows have taken.
    taken: u64,
    /// For each accumulator, and for what triggers have counted.
    left: Vec<u64>,
    counted: u64,
    /// How many rows are kept.
    rows: u64,
    /// The rows of each slot, shard by shard.
    kept: Vec<Vec<Vec<u64>>>,
}

impl Keyed {
    /// Takes in panes that were open at this watermark; `taken` rows were taken by windows.
    pub(crate) fn restore(
        &mut self,
        pieces: &Pieces,
        watermark: i64,
        taken: u64,
        parts: &Parts,
    ) -> Checked<()> {
        let batches = restore_rows(pieces.of("rows"), &parts.source.schema)?;
        let mut all = Restoring {
            parts,
            watermark,
            taken,
            left: vec![taken; parts.inputs.empty().len()],
            counted: taken,
            rows: batches.iter().map(|batch| batch.num_rows() as u64).sum(),
            kept: vec![Vec::new(); self.shards.len()],
        };
        for piece in pieces.of("panes") {
            self.restore_panes(&Record::of(piece)?, &mut all)?;
        }
        let ends: Vec<u64> = batches
            .iter()
            .scan(0, |end, batch| {
                *end += batch.num_rows() as u64;
                Some(*end)
            })
            .collect();
        let place = |row: u64| {
            let batch = ends.partition_point(|&end| end <= row);
            let start = batch.checked_sub(1).map_or(0, |before| ends[before]);
            Place { batch: batch as u32, row: (row - start) as u32 }
        };
        for (shard, kept) in self.shards.iter_mut().zip(all.kept) {
            shard.watermark = watermark;
            if let Contents::Buffered(buffer) = &mut shard.contents {
                let slots = kept.into_iter().map(|rows| rows.into_iter().map(place).collect());
                *buffer = buffer.restored(batches.clone(), slots.collect());
            }
        }
        Ok(())
    }

    fn restore_panes(&mut self, saved: &Record<'_>, all: &mut Restoring<'_>) -> Checked<()> {
        let codes = all.parts.source.keys.restore(saved, &mut self.interner)?;
        let columns = PaneColumns::of(saved)?;
        let Keyed { spec, shards, .. } = self;
        for row in 0..saved.len() {
            let (code, null) = codes.get(row);
            let number = shard_of(code, shards.len());
            let (first, last) = (columns.first[row], columns.last[row]);
            let within = |error: String| format!("the window from {first} to {last}: {error}");
            let key = shards[number].keys.get_or_insert(code, null);
            let mut pane = columns.pane(row, all.passed(last)).map_err(within)?;
            let story = columns.story(row);
            let shard = &mut shards[number];
            let ids = shard.panes.of_key(key);
            let (at, before) = (ids.len(), ids.last().map(|&id| shard.panes.get(id)));
            spec.check(&pane, before, all.passed(spec.expires_at(last)))
                .map_err(|error| within(error.into()))?;
            let past = Past { key, number: columns.number[row], created: columns.created[row] };
            all.check(past, &story, &pane, spec).map_err(within)?;
            pane.slot = match &mut shard.contents {
                Contents::Aggregated(contents) => {
                    contents.restore(&all.states(&saved.lists("contents")?.value(row), spec).map_err(within)?)
                }
                Contents::Buffered(_) => all
                    .keep(number, &saved.lists("rows")?.value(row), pane.fill != Fill::Empty)
                    .map_err(within)?,
            };
            let next = spec.next_time(&pane, || story.early_at);
            let time = if all.passed(next) { all.watermark.saturating_add(1) } else { next };
            let id = shard.panes.insert(key, at, pane, past.created);
            *shard.panes.past_mut(id) = past;
            if story != Story::NONE {
                *shard.panes.story_mut(id) = story;
            }
            shard.panes.set_time(id, time);
            if spec.retracts() {
                let given = saved.lists("given")?.value(row);
                shard.panes.story_mut(id).given = all.given(&given, &mut shard.given).map_err(within)?;
            }
        }
        Ok(())
    }
}

/// The columns of panes that are one value each.
struct PaneColumns<'a> {
    first: &'a [i64],
    last: &'a [i64],
    news: &'a BooleanArray,
    filled: &'a BooleanArray,
    created: &'a [u64],
    number: &'a [u32],
    count: &'a [u64],
    early_at: &'a Int64Array,
    mark: &'a Float64Array,
    lowest: &'a [i64],
    highest: &'a [i64],
}

impl<'a> PaneColumns<'a> {
    fn of(saved: &Record<'a>) -> Checked<Self> {
        Ok(PaneColumns {
            first: saved.numbers::<Int64Type>("first")?,
            last: saved.numbers::<Int64Type>("last")?,
            news: saved.flags("news")?,
            filled: saved.flags("filled")?,
            created: saved.numbers::<UInt64Type>("created")?,
            number: saved.numbers::<UInt32Type>("number")?,
            count: saved.numbers::<UInt64Type>("count")?,
            early_at: saved.optional::<Int64Type>("early_at")?,
            mark: saved.optional::<Float64Type>("mark")?,
            lowest: saved.numbers::<Int64Type>("lowest")?,
            highest: saved.numbers::<Int64Type>("highest")?,
        })
    }

    /// Without contents.
    fn pane(&self, row: usize, due: bool) -> Checked<Pane> {
        let mut pane = Pane::new(self.first[row], self.last[row], NOTHING);
        pane.due = due;
        pane.fill = match (self.filled.value(row), self.news.value(row)) {
            (false, false) => Fill::Empty,
            (true, false) => Fill::Said,
            (true, true) => Fill::News,
            (false, true) => return Err("rows have come, but it has no contents".into()),
        };
        Ok(pane)
    }

    /// Without results that may have to be taken back.
    fn story(&self, row: usize) -> Story {
        Story {
            count: self.count[row],
            early_at: self.early_at.is_valid(row).then(|| self.early_at.value(row)),
            mark: self.mark.is_valid(row).then(|| self.mark.value(row)),
            times: (self.lowest[row], self.highest[row]),
            given: Vec::new(),
        }
    }
}

impl Restoring<'_> {
    /// Whether the watermark has reached a time.
    fn passed(&self, time: i64) -> bool {
        has_passed(self.watermark, time)
    }

    /// Whether a pane can have come this far.
    fn check(&mut self, past: Past, story: &Story, pane: &Pane, spec: &Spec) -> Checked<()> {
        if story.early_at.is_some_and(|early| early < pane.first || early > pane.last) {
            return Err("it cannot fire early outside of it".into());
        }
        if past.number > MOST_FIRINGS {
            return Err(format!("it cannot have fired {} times", past.number));
        }
        if !spec.assigner.is_session() {
            self.counted = self.taken;
        }
        let counted = self.counted.checked_sub(story.count);
        self.counted = counted.ok_or_else(|| format!("it cannot have counted {} rows", story.count))?;
        Ok(())
    }

    /// The parts of a pane. Those of sessions can come together, so all of them count the rows once.
    fn states(&mut self, states: &ArrayRef, spec: &Spec) -> Checked<Vec<Box<dyn Accumulator>>> {
        if states.is_empty() || states.len() > 1 && !spec.assigner.is_session() {
            return Err(format!("it cannot be in {} parts", states.len()));
        }
        if !spec.assigner.is_session() {
            self.left.fill(self.taken);
        }
        self.parts.inputs.restore(states, &mut self.left)
    }

    /// Puts results that may have to be taken back behind those of other panes.
    fn given(&self, given: &ArrayRef, all: &mut [Box<dyn Accumulator>]) -> Checked<Vec<Given>> {
        let given = Record::of(given)?;
        let mut left = vec![MOST_ROWS; self.left.len()];
        let states = self.parts.inputs.restore(given.column("state")?, &mut left)?;
        let from = all.first().map_or(0, |all| all.len()) as u32;
        append(all, &states);
        restore_given(&given, from)
    }

    /// A new slot with these rows.
    fn keep(&mut self, shard: usize, rows: &ArrayRef, filled: bool) -> Checked<u32> {
        let rows = match rows.as_primitive_opt::<UInt64Type>() {
            Some(rows) if rows.null_count() == 0 => rows.values(),
            _ => return Err("rows are named by numbers".into()),
        };
        let last = rows.last().copied();
        if !rows.is_sorted_by(|a, b| a < b) || last.is_some_and(|last| last >= self.rows) {
            return Err(format!("rows {rows:?} are not among the {} that are kept", self.rows));
        }
        if filled && rows.is_empty() {
            return Err("a window is filled, but has no rows".into());
        }
        self.kept[shard].push(rows.to_vec());
        Ok(self.kept[shard].len() as u32 - 1)
    }
}

impl Spec {
    /// Whether a key can have this pane behind the one `before`.
    fn check(&self, pane: &Pane, before: Option<&Pane>, expired: bool) -> Result<(), &'static str> {
        if expired {
            return Err("it has expired");
        }
        let window = (pane.first, pane.last);
        let exists = match &self.assigner {
            Assigner::Session(_) | Assigner::SessionBy(_) => pane.first <= pane.last,
            assigner => {
                let mut assigned = Assigned::default();
                assigner.windows(pane.first, &mut assigned);
                assigned.windows.contains(&window)
            }
        };
        let follows = before.is_none_or(|before| match self.assigner.is_session() {
            true => i128::from(before.last) + 1 < i128::from(pane.first),
            false => (before.first, before.last) < window,
        });
        match (exists, follows) {
            (false, _) => Err("there is no such window"),
            (_, false) => Err("it does not follow the one before"),
            _ => Ok(()),
        }
    }
}

fn restore_given(given: &Record<'_>, from: u32) -> Checked<Vec<Given>> {
    let (starts, ends) = (given.numbers::<Int64Type>("start")?, given.numbers::<Int64Type>("end")?);
    let (firings, numbers) = (given.texts("firing")?, given.numbers::<UInt32Type>("number")?);
    let one = |row: usize| {
        let name = firings.value(row);
        let all = [Firing::Early, Firing::OnTime, Firing::Late];
        let firing = all.into_iter().find(|firing| firing.as_str() == name);
        let firing = firing.ok_or_else(|| format!("there is no firing {name:?}"))?;
        let said = Said { start: starts[row], end: ends[row], firing, number: numbers[row] };
        Ok(Given { slot: from + row as u32, said })
    };
    (0..given.len()).map(one).collect()
}

/// Rows in the schema of the input, in batches that the keys of its dictionaries can number.
fn restore_rows(pieces: &[ArrayRef], schema: &SchemaRef) -> Checked<Vec<RecordBatch>> {
    let fit = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Dictionary(keys, _) => match **keys {
            DataType::Int8 => i8::MAX as usize,
            DataType::UInt8 => u8::MAX as usize,
            DataType::Int16 => i16::MAX as usize,
            DataType::UInt16 => u16::MAX as usize,
            _ => usize::MAX,
        },
        _ => usize::MAX,
    });
    let fit = fit.min().unwrap_or(usize::MAX);
    let mut batches = Vec::new();
    for piece in pieces {
        for from in (0..piece.len()).step_by(fit) {
            let part = piece.slice(from, fit.min(piece.len() - from));
            let columns = schema.fields().iter().zip(Record::of(&part)?.columns());
            let columns = columns.map(|(field, column)| restored(column, field.data_type()));
            let batch = RecordBatch::try_new(schema.clone(), columns.collect::<Checked<_>>()?);
            batches.push(batch.map_err(|error| error.to_string())?);
        }
    }
    Ok(batches)
}

/// A column of this type: the column itself, or a dictionary that names each of its rows.
fn restored(column: &ArrayRef, data_type: &DataType) -> Checked<ArrayRef> {
    fn named<K: ArrowDictionaryKeyType>(column: &ArrayRef, values: &DataType) -> Checked<ArrayRef> {
        let keys = (0..column.len()).map(|row| K::Native::from_usize(row).filter(|_| column.is_valid(row)));
        let keys: PrimitiveArray<K> = keys.collect();
        let dictionary = DictionaryArray::try_new(keys, restored(column, values)?);
        Ok(Arc::new(dictionary.map_err(|error| error.to_string())?))
    }
    let DataType::Dictionary(keys, values) = data_type else { return Ok(column.clone()) };
    match **keys {
        DataType::Int8 => named::<Int8Type>(column, values),
        DataType::Int16 => named::<Int16Type>(column, values),
        DataType::Int32 => named::<Int32Type>(column, values),
        DataType::Int64 => named::<Int64Type>(column, values),
        DataType::UInt8 => named::<UInt8Type>(column, values),
        DataType::UInt16 => named::<UInt16Type>(column, values),
        DataType::UInt32 => named::<UInt32Type>(column, values),
        _ => named::<UInt64Type>(column, values),
    }
}
