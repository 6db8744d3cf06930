//! Everything that an operator with a process holds, as one file and back; see `docs/snapshot.md`.
//!
//! States and timers are saved by key; shards, slots and codes stay inside. The places of registrations in the order of all
//! events are saved, and they order the timers of whatever shards there are afterwards.

use std::io::Write;
use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, LargeStringArray, UInt32Array, UInt64Array};

use super::engine::Engine;
use super::keys::Keys;
use super::shard::{Kind, ShardState};
use super::timers::{Registered, Timers};
use super::{KeyedProcess, ProcessOperator, TwoInputOperator};
use crate::error::{Error, Result, SnapshotFault};
use crate::progress::Progress;
use crate::snapshot::{self, Checked, File, Pieces, Record, Section, record};
use crate::watermark::NONE;

/// The sections of each input.
const INPUTS: [[&str; 2]; 2] = [["input", "partitions"], ["right_input", "right_partitions"]];
const KINDS: [(&str, Kind); 2] = [("timers", Kind::EventTime), ("clock_timers", Kind::Clock)];
/// Places in the order of events that leave room for more than there will ever be.
const MOST_PLACES: u64 = 1 << 62;
/// So many states make a piece of a section.
const PIECE: usize = 16_384;

impl<P: KeyedProcess> ProcessOperator<P> {
    /// Everything that the operator holds, as one Arrow IPC file: states, timers, watermarks, clock and counters. This one is not
    /// changed. [`restore`](ProcessOperator::restore) goes on from it as this one would.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if the process does not say how its states are saved.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        self.engine.snapshot()
    }

    /// As [`snapshot`](ProcessOperator::snapshot), piece by piece to a writer.
    ///
    /// # Errors
    /// As `snapshot`, and what the writer refuses.
    pub fn snapshot_to(&self, out: impl Write) -> Result<()> {
        self.engine.snapshot_to(out)
    }

    /// This operator, with everything that a snapshot holds in the place of what it held. Threads and limits are its own, and
    /// may be others than those of the operator that the snapshot was taken of.
    ///
    /// # Errors
    /// [`Error::Snapshot`] for bytes that are not a whole snapshot of an operator with inputs and a process like these.
    pub fn restore(self, snapshot: &[u8]) -> Result<Self> {
        Ok(ProcessOperator { engine: self.engine.restored(snapshot, false)? })
    }

    /// As [`restore`](ProcessOperator::restore), for inputs that have been dealt anew into another number of partitions: so any of
    /// them may have any of the rows to come.
    ///
    /// The merged watermark stays what it is, and states and timers with it. Each partition starts at the lowest watermark of
    /// those of its input that have not finished, and is idle if all of these are. What was counted is counted for partition 0.
    ///
    /// # Errors
    /// As `restore`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, RecordBatch, TimestampSecondArray};
    /// use highwater::process::deduplicate;
    /// use highwater::watermark::WatermarkStrategy;
    /// use highwater::{Input, TimeDelta};
    ///
    /// let batch = |ts: i64| {
    ///     RecordBatch::try_from_iter([("ts", Arc::new(TimestampSecondArray::from(vec![ts])) as ArrayRef)])
    /// };
    /// let schema = batch(0)?.schema();
    /// let build = |partitions| {
    ///     let input = Input::new(schema.clone()).event_time("ts").partitions(partitions);
    ///     let input = input.watermark(WatermarkStrategy::ascending());
    ///     deduplicate(input).within(TimeDelta::from_mins(1)).build()
    /// };
    /// let mut operator = build(2)?;
    /// operator.push(0, &batch(100)?)?;
    /// operator.push(1, &batch(130)?)?;
    /// let mut restored = build(5)?.restore_repartitioned(&operator.snapshot()?)?;
    /// // less than a minute from 100, whatever partition it comes on
    /// assert!(restored.push(4, &batch(140)?)?.is_empty());
    /// assert_eq!(restored.metrics().counter("duplicates"), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore_repartitioned(self, snapshot: &[u8]) -> Result<Self> {
        Ok(ProcessOperator { engine: self.engine.restored(snapshot, true)? })
    }
}

impl<P: KeyedProcess> TwoInputOperator<P> {
    /// As [`ProcessOperator::snapshot`].
    ///
    /// # Errors
    /// As that.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        self.engine.snapshot()
    }

    /// As [`ProcessOperator::snapshot_to`].
    ///
    /// # Errors
    /// As that.
    pub fn snapshot_to(&self, out: impl Write) -> Result<()> {
        self.engine.snapshot_to(out)
    }

    /// As [`ProcessOperator::restore`].
    ///
    /// # Errors
    /// As that.
    pub fn restore(self, snapshot: &[u8]) -> Result<Self> {
        Ok(TwoInputOperator { engine: self.engine.restored(snapshot, false)? })
    }

    /// As [`ProcessOperator::restore_repartitioned`]; either input may have another number of partitions, or both.
    ///
    /// # Errors
    /// As that.
    pub fn restore_repartitioned(self, snapshot: &[u8]) -> Result<Self> {
        Ok(TwoInputOperator { engine: self.engine.restored(snapshot, true)? })
    }
}

/// A key's place: its shard, and its slot there.
type Spot = (usize, u32);

impl<P: KeyedProcess> Engine<P> {
    fn snapshot(&self) -> Result<Vec<u8>> {
        let mut file = Vec::new();
        self.snapshot_to(&mut file)?;
        Ok(file)
    }

    fn snapshot_to(&self, out: impl Write) -> Result<()> {
        self.check_whole()?;
        let sections = self.sections().map_err(|error| Error::snapshot(SnapshotFault::Unsupported, error))?;
        snapshot::write(out, &self.description, sections)
    }

    fn sections(&self) -> Checked<Vec<Section<'_>>> {
        let mut sections = Vec::new();
        for (progress, [input, partitions]) in self.standing.progress.iter().zip(INPUTS) {
            sections.push(Section::whole(input, progress.save_input()?));
            sections.push(Section::whole(partitions, progress.save_partitions()?));
        }
        let one = |number: u64| -> ArrayRef { Arc::new(UInt64Array::from(vec![number])) };
        let watermark = (self.standing.watermark != NONE).then_some(self.standing.watermark);
        let standing = record(vec![
            ("watermark", Arc::new(Int64Array::from(vec![watermark]))),
            ("places", one(self.standing.places)),
            ("results", one(self.totals.results)),
            ("timers_fired", one(self.totals.fired)),
        ])?;
        sections.push(Section::whole("process", standing));
        let merged_as = self.standing.merged_as().into_iter();
        let merged_as = merged_as.map(|watermark| (watermark != NONE).then_some(watermark));
        let merged_as: ArrayRef = Arc::new(merged_as.collect::<Int64Array>());
        sections.push(Section::whole("inputs", record(vec![("merged_as", merged_as)])?));
        let counters = record(vec![
            ("name", Arc::new(LargeStringArray::from(self.process.counters().to_vec())) as ArrayRef),
            ("count", Arc::new(UInt64Array::from(self.totals.counters.clone()))),
        ])?;
        sections.push(Section::whole("counters", counters));
        let with_state = |spot: &Spot| self.shards[spot.0].state.keys.entry(spot.1).state.is_some();
        let (stateful, bare): (Vec<Spot>, Vec<Spot>) = self.spots().into_iter().partition(with_state);
        let chunks: Vec<Vec<Spot>> = stateful.chunks(PIECE).map(<[Spot]>::to_vec).collect();
        let pieces = chunks.into_iter().map(|spots| self.save_states(&spots));
        let states = Section { name: "states", empty: self.save_states(&[])?, pieces: Box::new(pieces) };
        sections.push(states);
        sections.push(Section::whole("keys", self.save_keys(&bare)?));
        let spots = [stateful, bare].concat();
        for (name, kind) in KINDS {
            sections.push(Section::whole(name, self.save_timers(kind, &spots)?));
        }
        Ok(sections)
    }

    fn spots(&self) -> Vec<Spot> {
        let shards = self.shards.iter().enumerate();
        shards
            .flat_map(|(number, shard)| shard.state.keys.iter().map(move |(slot, _)| (number, slot)))
            .collect()
    }

    fn key_column(&self, spots: &[Spot]) -> Checked<Option<(&'static str, ArrayRef)>> {
        let key = |&(shard, slot): &Spot| {
            let entry = self.shards[shard].state.keys.entry(slot);
            (entry.code, entry.null)
        };
        let (codes, nulls): (Vec<_>, Vec<_>) = spots.iter().map(key).unzip();
        self.sources[0].keys.save(&codes, &nulls, &self.spread.interner)
    }

    /// Keys that have timers and no state.
    fn save_keys(&self, spots: &[Spot]) -> Checked<ArrayRef> {
        let there: ArrayRef = Arc::new(BooleanArray::from(vec![true; spots.len()]));
        record(self.key_column(spots)?.into_iter().chain([("has_timers", there)]).collect())
    }

    fn save_states(&self, spots: &[Spot]) -> Checked<ArrayRef> {
        let states: Vec<&P::State> = spots
            .iter()
            .filter_map(|&(shard, slot)| self.shards[shard].state.keys.entry(slot).state.as_ref())
            .collect();
        let saved = self.process.save(&states).map_err(|error| error.to_string())?;
        if saved.len() != states.len() {
            return Err(format!("{} states were saved as {} values", states.len(), saved.len()));
        }
        record(self.key_column(spots)?.into_iter().chain([("state", saved)]).collect())
    }

    /// Timers of a kind in order of registration, with the number of their key: states first, then keys without.
    fn save_timers(&self, kind: Kind, spots: &[Spot]) -> Checked<ArrayRef> {
        let mut all = Vec::new();
        let mut numbers: Vec<Vec<u64>> = vec![vec![]; self.shards.len()];
        for (number, &(shard, slot)) in (0_u64..).zip(spots) {
            let of_shard = &mut numbers[shard];
            of_shard.resize(of_shard.len().max(slot as usize + 1), u64::MAX);
            of_shard[slot as usize] = number;
        }
        for (shard, numbers) in self.shards.iter().zip(&numbers) {
            let timers = match kind {
                Kind::EventTime => &shard.state.timers,
                Kind::Clock => &shard.state.clock_timers,
            };
            all.extend(
                timers.iter().map(|timer| (timer.registered, timer.time, numbers[timer.slot as usize])),
            );
        }
        all.sort_unstable();
        record(vec![
            ("key", Arc::new(UInt64Array::from_iter_values(all.iter().map(|(.., key)| *key))) as ArrayRef),
            ("time", Arc::new(Int64Array::from_iter_values(all.iter().map(|(_, time, _)| *time)))),
            ("event", Arc::new(UInt64Array::from_iter_values(all.iter().map(|(at, ..)| at.event)))),
            ("number", Arc::new(UInt32Array::from_iter_values(all.iter().map(|(at, ..)| at.number)))),
        ])
    }

    /// This one, with what a snapshot holds; `may_deal` it to another number of partitions.
    fn restored(mut self, bytes: &[u8], may_deal: bool) -> Result<Self> {
        self.check_whole()?;
        let file = File::open(bytes)?;
        if let Some(difference) = snapshot::difference(file.configuration(), &self.description) {
            return Err(Error::snapshot(SnapshotFault::Configuration, difference));
        }
        let like = self.sections().map_err(|error| Error::snapshot(SnapshotFault::Unsupported, error))?;
        let impossible = |error| Error::snapshot(SnapshotFault::Impossible, error);
        let pieces = file.sections(&like).map_err(impossible)?;
        drop(like);
        for (source, [_, partitions]) in self.sources.iter().zip(INPUTS).filter(|_| !may_deal) {
            Progress::check_partitions(source, pieces.whole(partitions).map_err(impossible)?)?;
        }
        self.fill(&pieces).map_err(impossible)?;
        Ok(self)
    }

    /// Takes over what was saved; see [`sections`](Engine::sections).
    fn fill(&mut self, pieces: &Pieces) -> Checked<()> {
        let progress = self.sources.iter().zip(INPUTS).map(|(source, [input, partitions])| {
            Progress::restore(source, pieces.whole(input)?, pieces.whole(partitions)?)
        });
        let progress = progress.collect::<Checked<Vec<_>>>()?;
        let standing = Record::of(pieces.whole("process")?)?;
        let watermark = standing.optional::<Int64Type>("watermark")?;
        let watermark = watermark.iter().next().flatten().unwrap_or(NONE);
        let count = |name| match standing.number::<UInt64Type>(name)? {
            count if count <= MOST_PLACES => Ok(count),
            count => Err(format!("{name} cannot be {count}")),
        };
        let merged_as = Record::of(pieces.whole("inputs")?)?;
        let merged_as = merged_as.optional::<Int64Type>("merged_as")?.iter();
        let merged_as: Vec<i64> = merged_as.map(|watermark| watermark.unwrap_or(NONE)).collect();
        self.standing = self.standing.restored(progress, &merged_as, watermark, count("places")?)?;
        (self.totals.results, self.totals.fired) = (count("results")?, count("timers_fired")?);
        let (mut names, mut counts) = (Vec::new(), Vec::new());
        for piece in pieces.of("counters") {
            let counters = Record::of(piece)?;
            names.extend(counters.texts("name")?.iter().flatten());
            counts.extend(counters.numbers::<UInt64Type>("count")?);
        }
        if names != self.process.counters() {
            return Err(format!("its counters are {names:?}, not {:?}", self.process.counters()));
        }
        if let Some(count) = counts.iter().find(|&&count| count > MOST_PLACES) {
            return Err(format!("a counter cannot be {count}"));
        }
        self.totals.counters = counts;

        for shard in &mut self.shards {
            shard.state =
                ShardState { keys: Keys::new(), timers: Timers::new(), clock_timers: Timers::new() };
        }
        let mut spots = Vec::new();
        for piece in pieces.of("states") {
            let saved = Record::of(piece)?;
            let states = self.process.restore(saved.column("state")?).map_err(|error| error.to_string())?;
            if states.len() != saved.len() {
                return Err(format!("{} values are {} states", saved.len(), states.len()));
            }
            self.enter(&saved, states.into_iter().map(Some), &mut spots)?;
        }
        for piece in pieces.of("keys") {
            let saved = Record::of(piece)?;
            self.enter(&saved, std::iter::repeat_with(|| None), &mut spots)?;
        }
        for (name, kind) in KINDS {
            for piece in pieces.of(name) {
                self.register(kind, &Record::of(piece)?, &spots)?;
            }
        }
        match self.shards.iter().all(|shard| shard.state.keys.iter().all(|(_, entry)| !entry.is_vacant())) {
            true => Ok(()),
            false => Err("a key has neither state nor timers".into()),
        }
    }

    /// Puts keys and their states into the shards they belong to.
    fn enter(
        &mut self,
        saved: &Record<'_>,
        states: impl Iterator<Item = Option<P::State>>,
        spots: &mut Vec<Spot>,
    ) -> Checked<()> {
        let keys = &self.sources[0].keys;
        let codes = keys.restore(saved, &mut self.spread.interner)?;
        self.spread.assign();
        for (row, state) in (0..saved.len()).zip(states) {
            let (code, null) = codes.get(row);
            let number = self.spread.shard(code, null, keys.interns());
            let shard_keys = &mut self.shards[number].state.keys;
            let (slot, new) = shard_keys.find_or_insert(code, null);
            if !new {
                return Err("a key is there twice".into());
            }
            shard_keys.entry_mut(slot).state = state;
            spots.push((number, slot));
        }
        Ok(())
    }

    fn register(&mut self, kind: Kind, saved: &Record<'_>, spots: &[Spot]) -> Checked<()> {
        let (keys, times) = (saved.numbers::<UInt64Type>("key")?, saved.numbers::<Int64Type>("time")?);
        let (events, numbers) =
            (saved.numbers::<UInt64Type>("event")?, saved.numbers::<UInt32Type>("number")?);
        let mut last = None;
        for (row, (&event, &number)) in events.iter().zip(numbers).enumerate() {
            let registered = Registered { event, number };
            if event / 2 >= self.standing.places || last.is_some_and(|last| last > registered) {
                return Err(format!("{kind:?} timer {row} is not in the order of events"));
            }
            last = Some(registered);
            let spot = usize::try_from(keys[row]).ok().and_then(|key| spots.get(key));
            let &(shard, slot) = spot.ok_or_else(|| format!("there is no key {}", keys[row]))?;
            let state = &mut self.shards[shard].state;
            if !state.timers_of(kind).register(slot, times[row], registered) {
                return Err(format!("{kind:?} timer {row} is there twice"));
            }
            state.keys.entry_mut(slot).timers += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
