//! The spine of operators with a process: one or two inputs, shards of keys, results in one order.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{Field, Schema, SchemaRef};
use std::sync::Arc;

use super::context::Moment;
use super::metrics::{InputMetrics, ProcessLimits, ProcessMetrics};
use super::order::take_outputs;
use super::shard::{Emitted, Kind, Shard};
use super::{KeyedProcess, Results};
use crate::error::{Error, Result};
use crate::event_time::Admitted;
use crate::input::{Input, Source};
use crate::key::{BatchKeys, Codes, Interner};
use crate::metrics::RowCounts;
use crate::partition::Workers;
use crate::progress::{Judged, Passage, Progress, Signal};
use crate::watermark::{END, NONE, PartitionStatus, Reactivation, WatermarkMerge};

/// Results of a call are spread over batches of at most this many rows.
const MAX_ROWS: usize = if cfg!(test) { 64 } else { 1 << 18 };

/// An operator with a process, for any number of inputs.
pub(crate) struct Engine<P: KeyedProcess> {
    pub(crate) process: P,
    pub(crate) sources: Vec<Source>,
    pub(crate) schema: SchemaRef,
    limits: ProcessLimits,
    workers: Workers,
    standing: Standing,
    interner: Interner,
    /// The shard of each interned key.
    shard_of: Vec<u32>,
    shards: Vec<Shard<P>>,
    counters: Vec<u64>,
    results: u64,
    fired: u64,
}

/// How far the inputs have come.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) progress: Vec<Progress>,
    /// The inputs' watermarks, if there is more than one.
    merge: WatermarkMerge,
    watermark: i64,
    /// Places in the order of events that have been given away.
    places: u64,
}

/// A batch whose rows can be trusted, before anything has been changed by it.
struct Prepared {
    input: usize,
    partition: usize,
    keys: BatchKeys,
    /// Rows that have gone on.
    taken: usize,
}

/// A batch on its way to the shards.
pub(crate) struct Job {
    pub(crate) input: usize,
    pub(crate) batch: RecordBatch,
    pub(crate) times: ScalarBuffer<i64>,
    /// The merged watermark before each row.
    pub(crate) watermarks: Vec<i64>,
    /// Where it rises: the row before which it does, and to what; the row behind the last for the watermark after the batch.
    pub(crate) advances: Vec<(usize, i64)>,
    pub(crate) codes: Codes,
    pub(crate) clock: Option<i64>,
    /// The rows of each shard, if there is more than one.
    rows: Vec<Vec<u32>>,
    passage: Passage,
    first_place: u64,
}

impl Job {
    /// The place of a row in the order of events.
    #[inline]
    pub(crate) fn row_event(&self, row: usize) -> u64 {
        2 * (self.first_place + row as u64) + 1
    }

    /// The place of the firings that come before a row.
    pub(crate) fn advance_event(&self, row: usize) -> u64 {
        2 * (self.first_place + row as u64)
    }
}

/// What a call gives: results, and by input what was handed back.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) results: Vec<RecordBatch>,
    pub(crate) late: Vec<Vec<RecordBatch>>,
    pub(crate) rejected: Vec<Vec<RecordBatch>>,
}

impl Given {
    fn new(inputs: usize) -> Self {
        Given { results: vec![], late: vec![vec![]; inputs], rejected: vec![vec![]; inputs] }
    }
}

impl<P: KeyedProcess> Engine<P> {
    pub(crate) fn new(process: P, inputs: &[Input], threads: usize, limits: ProcessLimits) -> Result<Self> {
        let sources = inputs.iter().map(Input::check).collect::<Result<Vec<_>>>()?;
        check_alike(&sources)?;
        if threads == 0 {
            return Err(Error::invalid("threads", 0, "one or more"));
        }
        let schemas: Vec<SchemaRef> = sources.iter().map(|source| source.schema.clone()).collect();
        let mut schema = process.output_schema(&schemas)?;
        if P::KEY_COLUMNS {
            schema = behind_keys(&sources[0], &schema)?;
        }
        let counters = process.counters().len();
        Ok(Engine {
            standing: Standing {
                progress: sources.iter().map(Progress::new).collect(),
                merge: WatermarkMerge::new(sources.len(), Reactivation::AtOnce),
                watermark: NONE,
                places: 0,
            },
            shards: (0..threads).map(|_| Shard::new(counters, threads > 1)).collect(),
            workers: Workers::new(threads)?,
            counters: vec![0; counters],
            interner: Interner::default(),
            shard_of: vec![],
            results: 0,
            fired: 0,
            process,
            sources,
            schema,
            limits,
        })
    }

    pub(crate) fn watermark(&self) -> i64 {
        self.standing.watermark
    }

    pub(crate) fn progress(&self, input: usize) -> &Progress {
        &self.standing.progress[input]
    }

    /// Takes in batches, each of an input's partition.
    pub(crate) fn push<'a>(
        &mut self,
        batches: impl Iterator<Item = (usize, usize, &'a RecordBatch)>,
    ) -> Result<Given> {
        let clock = self.clock();
        let batches: Vec<_> = batches.collect();
        let prepare = |&(input, partition, batch): &(usize, usize, &RecordBatch)| {
            let admitted = self.sources[input].admit(partition, batch, clock)?;
            let keys = self.sources[input].keys.prepare(&admitted.batch)?;
            Ok((Prepared { input, partition, keys, taken: 0 }, admitted))
        };
        let prepared = self.workers.map(&batches, prepare).into_iter().collect::<Result<Vec<_>>>()?;
        let rows = prepared.iter().map(|(_, admitted)| admitted.times.len()).sum();
        self.call(rows, |engine, given| {
            let mut jobs = Vec::with_capacity(prepared.len());
            for (batch, mut admitted) in prepared {
                given.rejected[batch.input].extend(admitted.rejected.take());
                engine.observe(batch, admitted, &mut jobs);
            }
            engine.run(&jobs)?;
            Ok(jobs)
        })
    }

    /// News of an input that is no row; the clock is one for all inputs.
    pub(crate) fn signal(
        &mut self,
        inputs: impl Iterator<Item = usize> + Clone,
        signal: Signal,
    ) -> Result<Given> {
        for input in inputs.clone() {
            Progress::check(signal, &self.sources[input])?;
        }
        self.call(0, |engine, _| {
            let before = engine.clock();
            for input in inputs {
                engine.standing.progress[input].apply(signal, &engine.sources[input]);
                engine.standing.merge_input(input);
            }
            let now = engine.clock().filter(|_| before != engine.clock());
            if let Some(now) = now {
                engine.fire(Kind::Clock, now, engine.standing.watermark)?;
            }
            let merged = engine.standing.merged();
            if merged > engine.standing.watermark {
                engine.standing.watermark = merged;
                engine.fire(Kind::EventTime, merged, merged)?;
            }
            Ok(vec![])
        })
    }

    /// Does `work`, gathers what it gives, and takes everything back if anything fails.
    fn call(
        &mut self,
        rows: usize,
        work: impl FnOnce(&mut Self, &mut Given) -> Result<Vec<Job>>,
    ) -> Result<Given> {
        let at_risk = self.is_at_risk(rows);
        let standing = at_risk.then(|| self.standing.clone());
        self.shards.iter_mut().for_each(|shard| shard.begin(at_risk));
        let first_event = 2 * self.standing.places;
        let mut given = Given::new(self.sources.len());
        let done = work(self, &mut given).and_then(|jobs| self.gather(&jobs, first_event, &mut given));
        match done {
            Ok(()) => {
                self.shards.iter_mut().for_each(Shard::commit);
                self.sweep();
                Ok(given)
            }
            Err(error) => {
                self.shards.iter_mut().for_each(Shard::undo);
                if let Some(standing) = standing {
                    self.standing = standing;
                }
                Err(error)
            }
        }
    }

    /// Moves the watermarks past the rows of a batch. A batch whose first rows take an idle input back in is cut behind
    /// each of them.
    fn observe(&mut self, mut batch: Prepared, mut admitted: Admitted, jobs: &mut Vec<Job>) {
        let several = self.sources.len() > 1;
        while several && admitted.times.len() > 1 && self.progress(batch.input).merge.is_idle() {
            let rest = admitted.split_off(1);
            let first = std::mem::replace(&mut admitted, rest);
            self.observe_piece(&mut batch, first, jobs);
        }
        self.observe_piece(&mut batch, admitted, jobs);
    }

    fn observe_piece(&mut self, batch: &mut Prepared, admitted: Admitted, jobs: &mut Vec<Job>) {
        let clock = self.clock();
        let input = batch.input;
        let (standing, source) = (&mut self.standing, &self.sources[input]);
        let passage = standing.progress[input].observe(batch.partition, admitted, source);
        let mut watermarks = passage.watermarks();
        let before = standing.watermark;
        if self.sources.len() > 1 {
            standing.judge(input, &mut watermarks);
            standing.merge_input(input);
        }
        standing.watermark = standing.merged();
        let after = std::iter::once(standing.watermark);
        let mut advances = Vec::new();
        let mut last = before;
        for (row, watermark) in watermarks.iter().copied().chain(after).enumerate() {
            if watermark > last {
                advances.push((row, watermark));
                last = watermark;
            }
        }
        let rows = passage.times.len();
        let mut codes = Codes::default();
        batch.keys.encode(batch.taken, batch.taken + rows, &mut self.interner, &mut codes);
        batch.taken += rows;
        let first_place = standing.places;
        // one more than rows: what is due after the batch comes before what the next one brings
        standing.places += rows as u64 + 1;
        let sharded = self.spread(input, &codes, rows);
        jobs.push(Job {
            input,
            batch: passage.batch.clone(),
            times: passage.times.clone(),
            watermarks,
            advances,
            codes,
            clock,
            rows: sharded,
            passage,
            first_place,
        });
    }

    /// The rows of each shard, if there are several.
    fn spread(&mut self, input: usize, codes: &Codes, rows: usize) -> Vec<Vec<u32>> {
        let shards = self.shards.len();
        if shards == 1 {
            return vec![];
        }
        let known = self.shard_of.len();
        self.shard_of.extend((known..self.interner.len()).map(|number| (number % shards) as u32));
        let interned = self.sources[input].keys.interns();
        let mut spread = vec![Vec::with_capacity(rows / shards + 1); shards];
        for row in 0..rows {
            let (code, null) = codes.get(row);
            let shard = match (null, interned) {
                (true, _) => 0,
                (false, true) => self.shard_of[code as usize] as usize,
                // bits in the middle: the tables of the shards use those at both ends
                (false, false) => {
                    let middle = (crate::key::hash(code) >> 20) as u32;
                    ((u64::from(middle) * shards as u64) >> 32) as usize
                }
            };
            spread[shard].push(row as u32);
        }
        spread
    }

    fn run(&mut self, jobs: &[Job]) -> Result<()> {
        let process = &self.process;
        let shards = self.shards.iter_mut().enumerate().collect();
        self.workers.for_each(shards, |(index, shard)| {
            let work = |(number, job): (usize, &Job)| {
                shard.run(process, job, number, job.rows.get(index).map(Vec::as_slice))
            };
            shard.log.error = jobs.iter().enumerate().try_for_each(work).err();
        });
        self.first_error()
    }

    fn fire(&mut self, kind: Kind, due: i64, watermark: i64) -> Result<()> {
        let moment = Moment { event: 2 * self.standing.places, watermark, clock: self.clock() };
        self.standing.places += 1;
        let process = &self.process;
        let shards = self.shards.iter_mut().collect();
        self.workers.for_each(shards, |shard: &mut Shard<P>| {
            shard.log.error = shard.fire(process, kind, due, moment).err();
        });
        self.first_error()
    }

    /// The error that one shard for all would have met first.
    fn first_error(&mut self) -> Result<()> {
        let failed = self.shards.iter_mut().filter(|shard| shard.log.error.is_some());
        match failed.min_by_key(|shard| shard.log.event).and_then(|shard| shard.log.error.take()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Makes batches of what a call has given, and counts it.
    fn gather(&mut self, jobs: &[Job], first_event: u64, given: &mut Given) -> Result<()> {
        self.check_limits()?;
        let outputs = take_outputs(&mut self.shards, first_event);
        let emitted = outputs.len() as u64;
        self.assemble(outputs, jobs, &mut given.results)?;
        let mut late: Vec<Vec<Judged>> = vec![vec![]; jobs.len()];
        for shard in &self.shards {
            shard.log.late.iter().for_each(|&(number, judged)| late[number].push(judged));
        }
        for (job, late) in jobs.iter().zip(&mut late) {
            late.sort_unstable_by_key(|judged| judged.row);
            given.late[job.input].extend(job.passage.late(late, &self.sources[job.input])?);
        }
        // nothing can fail from here on
        for (job, late) in jobs.iter().zip(&late) {
            let counts = &mut self.standing.progress[job.input].counts[job.passage.partition];
            job.count(late, counts);
        }
        for shard in &mut self.shards {
            shard.log.late.clear();
            self.fired += std::mem::take(&mut shard.log.fired);
            for (total, count) in self.counters.iter_mut().zip(&mut shard.log.counters) {
                *total += std::mem::take(count);
            }
        }
        self.results += emitted;
        Ok(())
    }

    fn assemble(
        &self,
        mut outputs: Vec<Emitted<P::Output>>,
        jobs: &[Job],
        results: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        let batches: Vec<RecordBatch> = jobs.iter().map(|job| job.batch.clone()).collect();
        while !outputs.is_empty() {
            let rest = outputs.split_off(outputs.len().min(MAX_ROWS));
            let (codes, nulls): (Vec<_>, Vec<_>) =
                outputs.iter().map(|output| (output.code, output.null)).unzip();
            let mut columns: Vec<ArrayRef> = match P::KEY_COLUMNS {
                true => self.sources[0].keys.decode(&codes, Some(&nulls), &self.interner)?,
                false => vec![],
            };
            let values = outputs.into_iter().map(|output| output.output).collect();
            columns.extend(self.process.results(values, &Results { batches: &batches })?);
            results.push(RecordBatch::try_new(self.schema.clone(), columns)?);
            outputs = rest;
        }
        Ok(())
    }

    fn clock(&self) -> Option<i64> {
        self.standing.progress[0].clock
    }

    /// Whether a call with so many rows might fail after it has changed something.
    fn is_at_risk(&self, rows: usize) -> bool {
        let ProcessLimits { max_keys, max_timers, max_state_bytes } = self.limits;
        P::FALLIBLE
            || self.keys() + rows > max_keys
            || max_timers < usize::MAX
            || max_state_bytes < usize::MAX
    }

    fn check_limits(&self) -> Result<()> {
        let check = |limit, needed: usize, allowed: usize| {
            if needed > allowed { Err(Error::LimitReached { limit, needed, allowed }) } else { Ok(()) }
        };
        let ProcessLimits { max_keys, max_timers, max_state_bytes } = self.limits;
        let live = |shard: &Shard<P>| shard.state.keys.iter().filter(|(_, entry)| !entry.is_vacant()).count();
        if self.keys() > max_keys {
            // some may be about to be forgotten
            check("max_keys", self.shards.iter().map(live).sum(), max_keys)?;
        }
        if max_timers < usize::MAX {
            check("max_timers", self.timers(Kind::EventTime) + self.timers(Kind::Clock), max_timers)?;
        }
        if max_state_bytes < usize::MAX {
            check("max_state_bytes", self.size(), max_state_bytes)?;
        }
        Ok(())
    }

    fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.state.keys.len()).sum()
    }

    fn timers(&self, kind: Kind) -> usize {
        let len = |shard: &Shard<P>| match kind {
            Kind::EventTime => shard.state.timers.len(),
            Kind::Clock => shard.state.clock_timers.len(),
        };
        self.shards.iter().map(len).sum()
    }

    fn size(&self) -> usize {
        let heap = |shard: &Shard<P>| -> usize {
            let states = shard.state.keys.iter().filter_map(|(_, entry)| entry.state.as_ref());
            states.map(|state| self.process.heap_size(state)).sum()
        };
        let own = |shard: &Shard<P>| {
            shard.state.keys.size() + shard.state.timers.size() + shard.state.clock_timers.size()
        };
        self.interner.size() + self.shards.iter().map(|shard| own(shard) + heap(shard)).sum::<usize>()
    }

    /// Forgets interned keys that no shard has any more, now and then.
    fn sweep(&mut self) {
        if !self.interner.wants_retain() {
            return;
        }
        let mut used = vec![false; self.interner.len()];
        for shard in &self.shards {
            for (_, entry) in shard.state.keys.iter().filter(|(_, entry)| !entry.null) {
                used[entry.code as usize] = true;
            }
        }
        let renamed = self.interner.retain(&used);
        self.shards.iter_mut().for_each(|shard| shard.state.keys.rename(&renamed));
        let kept = std::mem::take(&mut self.shard_of).into_iter().zip(&used);
        self.shard_of = kept.filter(|&(_, &used)| used).map(|(shard, _)| shard).collect();
    }

    pub(crate) fn metrics(&self) -> ProcessMetrics {
        let inputs = self.standing.progress.iter().map(|progress| {
            let partitions = progress.metrics();
            let mut total = RowCounts::default();
            partitions.iter().for_each(|partition| total.add(&partition.rows));
            InputMetrics { watermark: progress.watermark(), total, partitions }
        });
        ProcessMetrics {
            watermark: self.standing.watermark,
            inputs: inputs.collect(),
            results: self.results,
            timers_fired: self.fired,
            counters: self.process.counters().iter().copied().zip(self.counters.iter().copied()).collect(),
            keys: self.keys(),
            timers: self.timers(Kind::EventTime),
            clock_timers: self.timers(Kind::Clock),
            state_bytes: self.size(),
        }
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn validate(&self) {
        self.standing.progress.iter().for_each(Progress::validate);
        for shard in &self.shards {
            shard.validate();
        }
    }
}

impl Standing {
    fn merged(&self) -> i64 {
        match self.progress.as_slice() {
            [only] => only.watermark(),
            _ => self.merge.merged(),
        }
    }

    /// Tells the merge of inputs how far one of them has come.
    fn merge_input(&mut self, input: usize) {
        let progress = &self.progress[input];
        let (watermark, idle) = (progress.watermark(), progress.merge.is_idle());
        if watermark == END {
            self.merge.finish(input);
            return;
        }
        if !idle {
            self.merge.mark_active(input);
        }
        if self.merge.status(input) == PartitionStatus::Active {
            self.merge.advance(input, watermark);
        }
        if idle {
            self.merge.mark_idle(input);
        }
    }

    /// Turns an input's watermark before each row into that of all inputs.
    fn judge(&self, input: usize, watermarks: &mut [i64]) {
        let (floor, others) = (self.merge.merged(), self.merge.others_minimum(input));
        for watermark in watermarks {
            *watermark = floor.max(others.min(*watermark));
        }
    }
}

/// Two inputs are of one kind of time, and of the same keys.
fn check_alike(sources: &[Source]) -> Result<()> {
    let [left, right] = sources else { return Ok(()) };
    let unit = |source: &Source| source.ticks.unit;
    if unit(left) != unit(right) {
        let given = format!("{} of the right input, a {}", right.ticks.column, unit(right));
        return Err(Error::invalid("event_time", given, format!("a {}, as on the left", unit(left))));
    }
    let show = |source: &Source| {
        let types = source.keys.fields.iter().map(|field| field.data_type().to_string());
        format!("({})", types.collect::<Vec<_>>().join(", "))
    };
    if show(left) != show(right) {
        let given = format!("{} of the right input", show(right));
        return Err(Error::invalid("key", given, format!("{}, as on the left", show(left))));
    }
    Ok(())
}

/// The schema of results that begin with the keys.
fn behind_keys(source: &Source, schema: &Schema) -> Result<SchemaRef> {
    let mut fields: Vec<Arc<Field>> = source.keys.fields.clone();
    for field in schema.fields() {
        if fields.iter().any(|known| known.name() == field.name()) {
            return Err(Error::invalid(
                "output_schema",
                format!("column {:?}", field.name()),
                "a name that no other column of the results has",
            ));
        }
        fields.push(field.clone());
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

impl Job {
    /// Counts what became of the rows.
    fn count(&self, late: &[Judged], counts: &mut RowCounts) {
        let is_late = |&(time, &watermark): &(&i64, &i64)| *time <= watermark && watermark != NONE;
        let all_late = self.times.iter().zip(&self.watermarks).filter(is_late).count();
        let back =
            late.iter().filter(|judged| is_late(&(&self.times[judged.row], &judged.watermark))).count();
        counts.taken += (self.times.len() - late.len()) as u64;
        counts.dropped_late += late.len() as u64;
        counts.late_taken += (all_late - back) as u64;
    }
}
