//! The spine of operators with a process: one or two inputs, shards of keys, results in one order.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, FieldRef, Schema, SchemaRef};

use super::context::Moment;
use super::metrics::ProcessLimits;
use super::order::take_outputs;
use super::shard::{Emitted, Kind, Shard};
use super::spread::Spread;
use super::standing::{Job, Prepared, Standing};
use super::{KeyedProcess, Results};
use crate::error::{Error, Result};
use crate::event_time::Admitted;
use crate::input::{Input, SIDES, Source, check_all};
use crate::output::Output;
use crate::progress::{Judged, Progress, Signal};
use crate::watermark::NONE;
use crate::workers::Workers;

/// Results of a call are spread over batches of at most this many rows.
const MAX_ROWS: usize = if cfg!(test) { 64 } else { 1 << 18 };

/// An operator with a process, for any number of inputs.
pub(crate) struct Engine<P: KeyedProcess> {
    pub(crate) process: P,
    pub(crate) sources: Vec<Source>,
    pub(crate) schema: SchemaRef,
    pub(crate) limits: ProcessLimits,
    /// How it was built, a line for each parameter that saved state depends on.
    pub(crate) description: String,
    workers: Workers,
    pub(crate) standing: Standing,
    pub(crate) spread: Spread,
    pub(crate) shards: Vec<Shard<P>>,
    pub(crate) totals: Totals,
    /// A call that was not to fail has failed halfway, with this error.
    broken: Option<Box<Error>>,
}

/// What has been counted so far, beside rows.
#[derive(Clone, Debug)]
pub(crate) struct Totals {
    /// By the process, in its own order.
    pub(crate) counters: Vec<u64>,
    pub(crate) results: u64,
    pub(crate) fired: u64,
}

/// The batches of a call, checked.
struct Coming {
    batches: Vec<(Prepared, Admitted)>,
    rows: usize,
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
        let sources = check_all(inputs)?;
        check_alike(&sources)?;
        Workers::check(threads)?;
        let schemas: Vec<SchemaRef> = sources.iter().map(|source| source.schema.clone()).collect();
        let mut schema = process.output_schema(&schemas)?;
        if P::KEY_COLUMNS {
            schema = behind_keys(&sources[0], &schema)?;
        }
        let counters = process.counters().len();
        let mut description: Vec<String> = inputs.iter().flat_map(Input::describe).collect();
        description.push(format!("process: {}", process.describe()));
        let description =
            description.iter().map(|line| line.replace('\n', " ")).collect::<Vec<_>>().join("\n");
        Ok(Engine {
            standing: Standing::new(&sources),
            spread: Spread::new(threads),
            shards: (0..threads).map(|_| Shard::new(counters, threads > 1)).collect(),
            workers: Workers::new(threads)?,
            totals: Totals { counters: vec![0; counters], results: 0, fired: 0 },
            broken: None,
            process,
            sources,
            schema,
            limits,
            description,
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
        let coming = self.prepare(batches)?;
        self.call(coming.rows, |engine, given| engine.take(coming, given))
    }

    /// News of an input that is no row; the clock is one for all inputs.
    pub(crate) fn signal(
        &mut self,
        inputs: impl Iterator<Item = usize> + Clone,
        signal: Signal,
    ) -> Result<Given> {
        for input in inputs.clone() {
            Progress::check(signal, &self.sources[input]).map_err(|error| self.at(None, input, error))?;
        }
        self.call(0, |engine, _| {
            engine.apply(inputs, signal)?;
            Ok(vec![])
        })
    }

    /// Takes in results of the operator before, and then its watermark.
    pub(crate) fn push_results(
        &mut self,
        input: usize,
        partition: usize,
        results: &Output,
        watermark: i64,
    ) -> Result<Given> {
        let signal = Signal::Watermark { partition, watermark };
        Progress::check(signal, &self.sources[input]).map_err(|error| self.at(None, input, error))?;
        let coming = self.prepare(results.fired.iter().map(|batch| (input, partition, batch)))?;
        self.call(coming.rows, |engine, given| {
            let jobs = engine.take(coming, given)?;
            if watermark != NONE {
                engine.apply(std::iter::once(input), signal)?;
            }
            Ok(jobs)
        })
    }

    /// Checks batches and sorts out rows without a usable time; changes nothing.
    fn prepare<'a>(&self, batches: impl Iterator<Item = (usize, usize, &'a RecordBatch)>) -> Result<Coming> {
        let clock = self.standing.clock();
        let (sources, given) = (&self.sources, batches.collect::<Vec<_>>());
        let prepare = |&(input, partition, batch): &(usize, usize, &RecordBatch)| {
            let admitted = sources[input].admit(partition, batch, clock)?;
            let keys = sources[input].keys.prepare(&admitted.batch)?;
            Ok((Prepared { input, partition, keys, taken: 0 }, admitted))
        };
        let prepared = self.workers.map(&given, prepare).into_iter().enumerate();
        let several = given.len() > 1;
        let at = |number: usize, error| self.at(several.then_some(number), given[number].0, error);
        let batches = prepared
            .map(|(number, batch)| batch.map_err(|error| at(number, error)))
            .collect::<Result<Vec<_>>>()?;
        let rows = batches.iter().map(|(_, admitted)| admitted.times.len()).sum();
        Ok(Coming { batches, rows })
    }

    /// An error with the place that it is about, where there is more than one.
    fn at(&self, batch: Option<usize>, input: usize, error: Error) -> Error {
        let side = (self.sources.len() > 1).then(|| format!("{} input", SIDES[input]));
        let place: Vec<String> =
            batch.map(|batch| format!("batch {batch}")).into_iter().chain(side).collect();
        if place.is_empty() { error } else { Error::At { place: place.join(", "), error: Box::new(error) } }
    }

    /// The way of the rows of one call.
    fn take(&mut self, coming: Coming, given: &mut Given) -> Result<Vec<Job>> {
        let mut jobs = Vec::with_capacity(coming.batches.len());
        for (batch, mut admitted) in coming.batches {
            given.rejected[batch.input].extend(admitted.rejected.take());
            let on_the_way = (&self.sources[batch.input], &mut self.spread);
            self.standing.observe(batch, admitted, on_the_way, &mut jobs);
        }
        self.run(&jobs)?;
        Ok(jobs)
    }

    /// Moves the watermarks by a signal that makes sense, and fires what that makes due.
    fn apply(&mut self, inputs: impl Iterator<Item = usize>, signal: Signal) -> Result<()> {
        let before = self.standing.clock();
        for input in inputs {
            self.standing.apply(input, signal, &self.sources[input]);
        }
        if let Some(now) = self.standing.clock().filter(|&now| before != Some(now)) {
            self.fire(Kind::Clock, now, self.standing.watermark)?;
        }
        let merged = self.standing.merged();
        if merged > self.standing.watermark {
            self.standing.watermark = merged;
            self.fire(Kind::EventTime, merged, merged)?;
        }
        Ok(())
    }

    /// Does `work`, gathers what it gives, and takes everything back if anything fails.
    fn call(
        &mut self,
        rows: usize,
        work: impl FnOnce(&mut Self, &mut Given) -> Result<Vec<Job>>,
    ) -> Result<Given> {
        self.check_whole()?;
        let at_risk = self.is_at_risk(rows);
        let standing = at_risk.then(|| self.standing.clone());
        self.shards.iter_mut().for_each(|shard| shard.begin(at_risk));
        let first_event = 2 * self.standing.places;
        let mut given = Given::new(self.sources.len());
        let done = work(self, &mut given).and_then(|jobs| self.gather(&jobs, first_event, &mut given));
        match done {
            Ok(()) => {
                self.shards.iter_mut().for_each(Shard::commit);
                self.spread.sweep(&mut self.shards);
                Ok(given)
            }
            Err(error) => {
                self.shards.iter_mut().for_each(Shard::undo);
                match standing {
                    Some(standing) => self.standing = standing,
                    None => self.broken = Some(Box::new(error.clone())),
                }
                Err(error)
            }
        }
    }

    /// A process that cannot fail has kept nothing that could be taken back. If it fails all the same, that was the last call.
    pub(crate) fn check_whole(&self) -> Result<()> {
        let Some(error) = &self.broken else { return Ok(()) };
        let message = format!(
            "an earlier call has failed halfway, although the process says that it is not FALLIBLE ({error}); this operator can \
             be used no more, and a new one be restored from a snapshot of before"
        );
        Err(Error::Process { message })
    }

    /// Works off the rows of all batches.
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

    /// Fires what is due in all shards.
    fn fire(&mut self, kind: Kind, due: i64, watermark: i64) -> Result<()> {
        let moment = Moment { event: 2 * self.standing.places, watermark, clock: self.standing.clock() };
        self.standing.places += 1;
        let process = &self.process;
        let shards = self.shards.iter_mut().filter(|shard| shard.state.earliest(kind) <= due).collect();
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
            self.totals.fired += std::mem::take(&mut shard.log.fired);
            for (total, count) in self.totals.counters.iter_mut().zip(&mut shard.log.counters) {
                *total += std::mem::take(count);
            }
        }
        self.totals.results += emitted;
        Ok(())
    }

    fn assemble(
        &self,
        outputs: Vec<Emitted<P::Output>>,
        jobs: &[Job],
        results: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        let batches: Vec<RecordBatch> = jobs.iter().map(|job| job.batch.clone()).collect();
        let mut outputs = outputs.into_iter().peekable();
        while outputs.peek().is_some() {
            let outputs: Vec<_> = outputs.by_ref().take(MAX_ROWS).collect();
            let (codes, nulls): (Vec<_>, Vec<_>) =
                outputs.iter().map(|output| (output.code, output.null)).unzip();
            let mut columns: Vec<ArrayRef> = match P::KEY_COLUMNS {
                true => self.sources[0].keys.decode(&codes, Some(&nulls), &self.spread.interner)?,
                false => vec![],
            };
            let values: Vec<_> = outputs.into_iter().map(|output| output.output).collect();
            let (count, keys) = (values.len(), columns.len());
            let of_process = self.process.results(values, &Results { batches: &batches })?;
            check_results(&of_process, &self.schema.fields()[keys..], count)?;
            columns.extend(of_process);
            // results without columns are still so many
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            results.push(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?);
        }
        Ok(())
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn validate(&self) {
        self.standing.progress.iter().for_each(Progress::validate);
        for shard in &self.shards {
            shard.validate();
        }
    }
}

/// A process gives the columns that it has said, a value for each output.
fn check_results(columns: &[ArrayRef], fields: &[FieldRef], outputs: usize) -> Result<()> {
    let refused = |message: String| Err(Error::Process { message });
    if columns.len() != fields.len() {
        let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        let (given, names) = (columns.len(), names.join(", "));
        return refused(format!(
            "results gives {given} columns; output_schema has {}: {names}",
            fields.len()
        ));
    }
    for (column, field) in columns.iter().zip(fields) {
        let (name, nulls) = (field.name(), column.null_count());
        if column.data_type() != field.data_type() {
            let (given, said) = (column.data_type(), field.data_type());
            return refused(format!("results gives column {name:?} as {given}; output_schema says {said}"));
        }
        if column.len() != outputs {
            let given = column.len();
            return refused(format!("results gives {given} values of column {name:?} for {outputs} outputs"));
        }
        if nulls > 0 && !field.is_nullable() {
            return refused(format!("results gives column {name:?} {nulls} nulls; output_schema says none"));
        }
    }
    Ok(())
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
