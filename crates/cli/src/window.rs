//! `highwater window`: from inputs to results.

use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};
use clap::ArgMatches;
use highwater::{Error, Output, WindowOperator};

use crate::args::{OutputFormat, WindowArgs};
use crate::checkpoint::{self, Checkpoints, Position, Saved};
use crate::clock::{ReplayClock, Step};
use crate::engine;
use crate::failure::{Failure, Outcome, say};
use crate::guard::Guard;
use crate::input::{self, Batches, Input, Mark, OpenOptions, types::Overrides};
use crate::interleave::{Interleaver, Item, Standing, Stretch};
use crate::live::{self, Alarm};
use crate::output::{Sink, write_text};
use crate::partition::Values;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::stats::{AtEnd, Report};
use crate::text::watermark_text;

/// A call is made once so many rows wait for it. A constant, for late firings are coalesced over a call.
const CALL: usize = 32 * 1_024;

/// The flags that a checkpoint must agree in, as they were given.
pub fn given(matches: &ArgMatches) -> Vec<(String, String)> {
    checkpoint::flags(matches)
}

/// Runs the command. `given` is what a checkpoint must agree in, as [`given`] has found it.
pub fn run(args: &WindowArgs, given: &[(String, String)]) -> Outcome<()> {
    let started = Instant::now();
    let plan = Plan::new(args)?;
    let checkpoints = Checkpoints::open(args, &plan, given)?;
    if checkpoints.as_ref().is_some_and(Checkpoints::is_complete) {
        return already_complete(args);
    }
    let saved = checkpoints.as_ref().map_or(Ok(None), Checkpoints::saved)?;
    let none = Overrides::default();
    let times = args.time_columns();
    let numeric = |column: &str| args.needs_number(column);
    let options = OpenOptions {
        format: args.input.input_format,
        overrides: args.input.schema.as_ref().unwrap_or(&none),
        delimiter: args.input.delimiter,
        times: &times,
        time_unit: args.input.time_unit.map(Into::into),
        as_it_comes: args.clock_flag().is_some(),
        numeric: &numeric,
    };
    let mut inputs = input::open_all(&args.inputs, &options)?;
    let all = input::unify(&inputs, &options)?;
    let wanted = plan.columns(args, &all)?;
    let mut values = None;
    if let Some(column) = &args.input.partition_by {
        values = Some(learn_values(args, inputs, &all, column)?);
        inputs = input::open_all(&args.inputs, &options)?;
    }
    let names: Vec<String> = match &values {
        Some(values) => {
            let column = args.input.partition_by.as_deref().unwrap_or_default();
            values.names().iter().map(|value| format!("{column}={value}")).collect()
        }
        None => inputs.iter().map(|input| input.name.clone()).collect(),
    };
    let snapshot = saved.as_ref().map(|saved| saved.operator.as_slice());
    let operator = engine::build(args, &plan.window, &wanted, names.len().max(1), snapshot)?;
    let mut run = Run::new(args, &plan, &wanted, operator, values, &inputs, saved.as_ref())?;
    run.checkpoints = checkpoints;
    let standing =
        saved.map_or_else(|| Standing::start(inputs.len()), |Saved { position, .. }| position.inputs);
    let batch_rows = args.resources.batch_rows as usize;
    let input_names: Vec<String> = inputs.iter().map(|input| input.name.clone()).collect();
    let marks = standing.taken.iter().map(|taken| taken.mark);
    let batches =
        inputs.into_iter().zip(marks).map(|(input, mark)| input.read(&all, &wanted, batch_rows, mark));
    let mut batches = batches.collect::<Outcome<Vec<_>>>()?;
    let at_end = if args.clock_flag().is_some() {
        run.rows_as_they_come(batches.remove(0), &input_names)?
    } else {
        let ingest = args.input.ingest_time.as_ref().map(|column| index_of(&wanted, column));
        run.all_rows(Interleaver::new(batches, &wanted, ingest, &standing)?, &input_names)?
    };
    let report = Report {
        metrics: run.operator.metrics(),
        at_end,
        names: &names,
        time_type: run.time_type.clone(),
        tick_unit: run.operator.tick_unit(),
        late_kept: args.output.late.is_some(),
        rejected_kept: args.output.rejected.is_some(),
        elapsed: started.elapsed(),
    };
    let checkpoints = run.finish_outputs()?;
    if let Some(path) = &args.output.stats {
        write_text(path, &report.json())?;
    }
    checkpoints.map_or(Ok(()), |mut checkpoints| checkpoints.complete())?;
    if !args.output.quiet {
        say(report.summary());
    }
    Ok(())
}

fn already_complete(args: &WindowArgs) -> Outcome<()> {
    if !args.output.quiet {
        let directory = args.checkpoint.checkpoint.as_deref().unwrap_or(Path::new(""));
        say(format_args!(
            "this run is complete, as {} says: nothing was done; remove the directory to run it anew",
            directory.display()
        ));
    }
    Ok(())
}

/// The place of a column that is known to be there.
pub(crate) fn index_of(schema: &Schema, column: &str) -> usize {
    schema.index_of(column).unwrap_or_default()
}

/// The first reading of `--partition-by`: which values there are.
fn learn_values(args: &WindowArgs, inputs: Vec<Input>, all: &SchemaRef, column: &str) -> Outcome<Values> {
    if let Some(path) = args.inputs.iter().find(|path| !input::is_regular_file(path)) {
        return Err(Failure::usage(format_args!(
            "--partition-by {column}: {} cannot be read twice, which is how the partitions are found; \
             write it to a file first",
            if input::is_stdin(path) { "standard input".into() } else { path.display().to_string() }
        )));
    }
    let only = all.project(&[index_of(all, column)]).map_err(Failure::run)?;
    let only: SchemaRef = only.into();
    let mut values = Values::default();
    for input in inputs {
        let mut batches = input.read(all, &only, args.resources.batch_rows as usize, Mark::default())?;
        while let Some(batch) = batches.next()? {
            values.learn(batch.column(0), column, args.input.max_partitions as usize)?;
        }
    }
    Ok(values)
}

/// Where the rows of a push stand in their input.
struct Place {
    input: usize,
    first_row: u64,
}

/// A run of the command from the first row to the last.
struct Run<'a> {
    args: &'a WindowArgs,
    operator: WindowOperator,
    values: Option<Values>,
    partition_column: usize,
    clock: Option<ReplayClock>,
    guard: Guard,
    time_type: DataType,
    pushes: Vec<(usize, RecordBatch)>,
    places: Vec<Place>,
    rows_waiting: usize,
    rows: u64,
    out: Sink,
    late: Option<Sink>,
    rejected: Option<Sink>,
    progress: Progress,
    checkpoints: Option<Checkpoints>,
    /// Rows up to the last checkpoint.
    checkpointed: u64,
}

impl<'a> Run<'a> {
    fn new(
        args: &'a WindowArgs,
        plan: &Plan,
        schema: &SchemaRef,
        operator: WindowOperator,
        values: Option<Values>,
        inputs: &[Input],
        saved: Option<&Saved>,
    ) -> Outcome<Self> {
        let partitions = values.as_ref().map_or(inputs.len(), Values::len);
        let guard = Guard::new(args, schema, &operator)?;
        let clock = match (args.watermark.idle, &guard.ingest) {
            (Some(timeout), Some((_, ingest_unit))) => {
                ReplayClock::new(timeout, *ingest_unit, operator.tick_unit(), partitions)
            }
            _ => None,
        };
        let clock = match saved {
            Some(saved) => clock.map(|clock| saved.position.set(clock)),
            None => clock,
        };
        let sink = |flag: &str, path: &Path, format, schema: &SchemaRef| match args.checkpoint.checkpoint {
            Some(_) => {
                let committed = saved.and_then(|saved| saved.committed(flag));
                Sink::keep(flag, path, format, schema, committed)
            }
            None => Sink::create(flag, path, format, schema),
        };
        let optional = |flag: &str, path: &Option<_>, format: Option<OutputFormat>, schema: &SchemaRef| {
            path.as_ref()
                .zip(format)
                .map(|(path, format): (&PathBuf, _)| sink(flag, path, format, schema))
                .transpose()
        };
        let output_schema = operator.output_schema();
        let time_type = output_schema
            .field_with_name("window_start")
            .map_or(DataType::Int64, |field| field.data_type().clone());
        let sizes: Option<u64> = inputs.iter().map(|input| input.size).sum();
        let counters = inputs.iter().map(|input| input.bytes_read.clone()).collect();
        Ok(Run {
            out: sink("--out", &args.output.out, plan.out, &output_schema)?,
            late: optional("--late", &args.output.late, plan.late, &operator.late_schema())?,
            rejected: optional(
                "--rejected",
                &args.output.rejected,
                plan.rejected,
                &operator.rejected_schema(),
            )?,
            partition_column: args.input.partition_by.as_ref().map_or(0, |column| index_of(schema, column)),
            progress: Progress::new(args.output.quiet, counters, sizes),
            pushes: Vec::new(),
            places: Vec::new(),
            rows_waiting: 0,
            rows: 0,
            checkpoints: None,
            checkpointed: 0,
            args,
            operator,
            values,
            clock,
            guard,
            time_type,
        })
    }

    fn all_rows(&mut self, mut interleaver: Interleaver, names: &[String]) -> Outcome<AtEnd> {
        let standing = interleaver.standing();
        let mut left = standing.line.len() + standing.ended.len();
        while let Some(item) = interleaver.next()? {
            match item {
                Item::Rows(stretch) => {
                    self.stretch(&stretch, names)?;
                    self.checkpoint_if_due(&interleaver, names)?;
                }
                Item::Ended(input) => {
                    left -= 1;
                    // Which of a column's values are done is not known, and the last input's end is the end of all.
                    if self.values.is_none() && left > 0 {
                        self.flush(names)?;
                        self.clock.iter_mut().for_each(|clock| clock.finish(input));
                        let output = self.operator.finish_partition(input);
                        self.take(output, names)?;
                    }
                }
            }
        }
        self.flush(names)?;
        self.end(names)
    }

    /// The rows of a pipe, and the clock while there are none.
    fn rows_as_they_come(&mut self, batches: Box<dyn Batches>, names: &[String]) -> Outcome<AtEnd> {
        let mut alarm = Alarm::new(self.args, self.operator.tick_unit());
        let rows = live::read(batches);
        loop {
            let now = live::now();
            let output = self.operator.advance_clock(alarm.ticks(now));
            self.take(output, names)?;
            let sinks = [Some(&mut self.out), self.late.as_mut(), self.rejected.as_mut()];
            sinks.into_iter().flatten().try_for_each(Sink::flush)?;
            match rows.recv_timeout(alarm.sleep(now)) {
                Ok(Ok(Some(batch))) => {
                    let now = live::now();
                    let output = self.operator.advance_clock(alarm.ticks(now));
                    self.take(output, names)?;
                    let first_row = self.rows + 1;
                    self.stretch(&Stretch { input: 0, first_row, batch, ingest: Vec::new() }, names)?;
                    self.flush(names)?;
                    alarm.hear(now);
                }
                Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => return self.end(names),
                Ok(Err(failure)) => return Err(failure),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// All inputs have ended.
    fn end(&mut self, names: &[String]) -> Outcome<AtEnd> {
        let at_end = AtEnd::of(&self.operator);
        let output = self.operator.finish();
        self.take(output, names)?;
        Ok(at_end)
    }

    fn stretch(&mut self, stretch: &Stretch, names: &[String]) -> Outcome<()> {
        let parts = match &self.values {
            None => vec![(stretch.input, 0, stretch.batch.num_rows())],
            Some(values) => values.split(stretch.batch.column(self.partition_column))?,
        };
        let mut steps = Vec::new();
        for (partition, start, length) in parts {
            let batch = stretch.batch.slice(start, length);
            let first_row = stretch.first_row + start as u64;
            steps.clear();
            match &mut self.clock {
                None => steps.push(Step::Push { start: 0, length }),
                Some(clock) => {
                    let alive = self.guard.accepted(&batch)?;
                    let ingest = &stretch.ingest[start..start + length];
                    clock.steps(partition, ingest, |row| alive[row], &mut steps);
                }
            }
            for step in &steps {
                match *step {
                    Step::Clock(now) => {
                        self.flush(names)?;
                        let output = self.operator.advance_clock(now);
                        self.take(output, names)?;
                    }
                    Step::Push { start, length } => {
                        self.pushes.push((partition, batch.slice(start, length)));
                        self.places.push(Place { input: stretch.input, first_row: first_row + start as u64 });
                        self.rows_waiting += length;
                    }
                }
            }
        }
        if self.rows_waiting >= CALL { self.flush(names) } else { Ok(()) }
    }

    /// Writes a checkpoint if enough rows have come since the last one, where that makes no difference to how late firings are
    /// coalesced; with a clock, whose steps cut calls anyway, at once.
    fn checkpoint_if_due(&mut self, interleaver: &Interleaver, names: &[String]) -> Outcome<()> {
        let due = self.rows - self.checkpointed >= self.args.checkpoint.checkpoint_every;
        if self.checkpoints.is_none() || !due || (self.clock.is_none() && !self.pushes.is_empty()) {
            return Ok(());
        }
        self.flush(names)?;
        let sinks = [
            ("--out", Some(&mut self.out)),
            ("--late", self.late.as_mut()),
            ("--rejected", self.rejected.as_mut()),
        ];
        let mut committed = Vec::new();
        for (flag, sink) in sinks {
            let sink = sink.map_or(Ok(None), Sink::commit)?;
            committed.extend(sink.map(|sink| (flag, sink)));
        }
        let position = Position::new(interleaver.standing(), self.clock.as_ref());
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.write(&self.operator, &position, &committed)?;
        }
        self.checkpointed = self.rows;
        Ok(())
    }

    /// Pushes what is waiting.
    fn flush(&mut self, names: &[String]) -> Outcome<()> {
        if self.pushes.is_empty() {
            return Ok(());
        }
        let output = self.operator.push_all(&self.pushes);
        self.take(output, names)?;
        self.rows += self.rows_waiting as u64;
        self.rows_waiting = 0;
        self.pushes.clear();
        self.places.clear();
        let (operator, time_type) = (&self.operator, &self.time_type);
        self.progress.update(self.rows, || watermark_text(operator.current_watermark(), time_type));
        Ok(())
    }

    /// Writes what the operator gives.
    fn take(&mut self, output: highwater::Result<Output>, names: &[String]) -> Outcome<()> {
        let output = output.map_err(|error| self.failure(&error, names))?;
        let mut write = || -> Outcome<()> {
            output.fired.iter().try_for_each(|batch| self.out.write(batch))?;
            if let Some(late) = &mut self.late {
                output.late.iter().try_for_each(|batch| late.write(batch))?;
            }
            if let Some(rejected) = &mut self.rejected {
                output.rejected.iter().try_for_each(|batch| rejected.write(batch))?;
            }
            Ok(())
        };
        if output.is_empty() { Ok(()) } else { self.progress.aside(&mut write) }
    }

    /// An error of the operator, with the place of the row if it is about one.
    fn failure(&self, error: &Error, names: &[String]) -> Failure {
        // files and their rows are told by name, not batches
        let error = if let Error::At { error, .. } = error { error } else { error };
        if let Error::NullEventTime { column, .. } = error {
            for ((_, batch), place) in self.pushes.iter().zip(&self.places) {
                let Some(times) = batch.column_by_name(column) else { continue };
                if let Some(row) = (0..times.len()).find(|&row| times.is_null(row)) {
                    return Failure::at(
                        &names[place.input],
                        format_args!(
                            "row {}: column {column:?} has no event time; --on-null reject or drop lets such rows pass",
                            place.first_row + row as u64
                        ),
                    );
                }
            }
        }
        if let Some(failure) = self.bad_gap(names) {
            return failure;
        }
        Failure::run(engine::in_flags(error, self.args))
    }

    /// The first row whose session gap is none, of those that are waiting.
    fn bad_gap(&self, names: &[String]) -> Option<Failure> {
        let column = self.args.shape.session_by.as_ref()?;
        for ((_, batch), place) in self.pushes.iter().zip(&self.places) {
            let gaps = arrow_cast::cast(batch.column_by_name(column)?, &DataType::Int64).ok()?;
            let gaps = gaps.as_primitive::<Int64Type>();
            let accepted = self.guard.accepted(batch).ok()?;
            let is_bad = |row: &usize| accepted[*row] && (gaps.is_null(*row) || gaps.value(*row) <= 0);
            if let Some(row) = (0..gaps.len()).find(is_bad) {
                let given = if gaps.is_null(row) { "null".into() } else { gaps.value(row).to_string() };
                return Some(Failure::at(
                    &names[place.input],
                    format_args!(
                        "row {}: --session-by: column {column:?} has the gap {given}; allowed is more than zero",
                        place.first_row + row as u64
                    ),
                ));
            }
        }
        None
    }

    fn finish_outputs(self) -> Outcome<Option<Checkpoints>> {
        self.progress.clear();
        self.out.finish()?;
        self.late.map_or(Ok(()), Sink::finish)?;
        self.rejected.map_or(Ok(()), Sink::finish)?;
        Ok(self.checkpoints)
    }
}
