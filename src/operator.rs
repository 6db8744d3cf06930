//! The spine: the way of a row, step by step.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::builder::{Parts, WindowOperatorBuilder};
use crate::error::{Error, Result};
use crate::fire::{Fire, Fired, Firing, LateFiring};
use crate::metrics::{Metrics, PartitionMetrics, RowCounts};
use crate::output::Output;
use crate::partition::{self, Job, Prepared, Workers};
use crate::progress::Progress;
use crate::state::{Lanes, State};
use crate::time::TickUnit;
use crate::watermark::{END, PartitionStatus, Reactivation};

/// Computes windows: rows of many partitions in, results of finished windows out.
///
/// Every method that can fire windows returns an [`Output`]. A method that returns an error has done nothing.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Float64Array, RecordBatch, StringArray, TimestampMillisecondArray};
/// use highwater::{Aggregate, TimeDelta, Window, WindowOperator, watermark::WatermarkStrategy};
///
/// let batch = RecordBatch::try_from_iter([
///     ("ts", Arc::new(TimestampMillisecondArray::from(vec![1_000, 61_000, 59_000, 85_000])) as _),
///     ("tenant", Arc::new(StringArray::from(vec!["acme", "acme", "globex", "acme"])) as _),
///     ("usd", Arc::new(Float64Array::from(vec![0.5, 0.25, 1.0, 0.125])) as _),
/// ])?;
/// let mut operator = WindowOperator::builder(batch.schema())
///     .event_time("ts")
///     .key("tenant")
///     .window(Window::tumbling(TimeDelta::from_mins(1)))
///     .watermark(WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_secs(20)))
///     .aggregate(Aggregate::sum("usd"))
///     .build()?;
/// let output = operator.push(0, &batch)?;
/// // the watermark is 85 s - 20 s - 1 ms: the first minute has fired, for both tenants
/// assert_eq!(operator.current_watermark(), 64_999);
/// assert_eq!(output.fired[0].num_rows(), 2);
/// assert_eq!(operator.finish()?.fired[0].num_rows(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WindowOperator {
    parts: Parts,
    lanes: Lanes,
    workers: Workers,
    progress: Progress,
    /// Bounds of what is held, so that the exact numbers are computed only when they might matter.
    bounds: Bounds,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    keys: usize,
    magnitude: u128,
}

impl std::fmt::Debug for WindowOperator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowOperator").field("metrics", &self.metrics()).finish_non_exhaustive()
    }
}

impl WindowOperator {
    /// Starts the description of an operator for batches of this schema.
    pub fn builder(schema: SchemaRef) -> WindowOperatorBuilder {
        WindowOperatorBuilder::new(schema)
    }

    pub(crate) fn new(parts: Parts) -> Result<Self> {
        let lanes = Lanes::new(parts.partitions, &parts.keys);
        let progress = Progress::new(&parts, lanes.lanes.len());
        Ok(WindowOperator {
            workers: Workers::new(parts.threads)?,
            lanes,
            progress,
            parts,
            bounds: Bounds::default(),
        })
    }

    /// Takes in rows of one partition.
    ///
    /// # Errors
    /// A schema other than the operator's, a null event time under [`NullPolicy::Error`](crate::NullPolicy::Error), a limit
    /// reached, a sum that overflows: the call has then done nothing.
    pub fn push(&mut self, partition: usize, batch: &RecordBatch) -> Result<Output> {
        self.push_prepared(vec![self.prepare(partition, batch)?])
    }

    /// Takes in batches of several partitions, with the answer that pushing them one after the other would give (late firings
    /// that are coalesced are so over the whole call), on as many threads as the operator was built with.
    ///
    /// # Errors
    /// As [`push`](WindowOperator::push); one bad batch, and none is taken.
    pub fn push_all(&mut self, batches: &[(usize, RecordBatch)]) -> Result<Output> {
        let prepared = self.workers.map(batches, |(partition, batch)| self.prepare(*partition, batch));
        self.push_prepared(prepared.into_iter().collect::<Result<_>>()?)
    }

    /// Says that no more rows at or before `watermark` will come to a partition. [`END`] finishes it.
    ///
    /// # Errors
    /// If the operator was not built with [`WatermarkStrategy::Explicit`](crate::watermark::WatermarkStrategy::Explicit).
    pub fn advance_watermark(&mut self, partition: usize, watermark: i64) -> Result<Output> {
        if !self.parts.explicit {
            let needs = "an operator built with WatermarkStrategy::explicit()";
            return Err(Error::WrongStrategy { call: "advance_watermark", needs });
        }
        if watermark == END {
            return self.finish_partition(partition);
        }
        self.check_partition(partition)?;
        self.step(|progress, reactivation| {
            if progress.merge.status(partition) == PartitionStatus::Finished {
                return;
            }
            let before = progress.sources[partition].emitted();
            progress.sources[partition].explicit(watermark);
            if progress.report(partition, before, reactivation == Reactivation::AtOnce) {
                progress.merge.refresh();
            }
        })
    }

    /// Takes a partition out of the minimum until it shows life again.
    pub fn mark_idle(&mut self, partition: usize) -> Result<Output> {
        self.check_partition(partition)?;
        self.step(|progress, _| {
            progress.merge.mark_idle(partition);
        })
    }

    /// Takes a partition back in, by the rule of reactivation.
    pub fn mark_active(&mut self, partition: usize) -> Result<Output> {
        self.check_partition(partition)?;
        self.step(|progress, _| {
            progress.touch(partition);
            progress.merge.mark_active(partition);
        })
    }

    /// Moves the injected clock, in ticks since the epoch in the unit of the event time; it never moves back. Partitions that
    /// have been without rows for longer than the idle timeout are marked idle.
    pub fn advance_clock(&mut self, now: i64) -> Result<Output> {
        self.step(|progress, _| {
            let first = progress.clock.is_none();
            let now = progress.clock.map_or(now, |clock| clock.max(now));
            progress.clock = Some(now);
            for partition in 0..progress.timers.len() {
                if first {
                    progress.timers[partition].start(now);
                }
                let active = progress.merge.status(partition) == PartitionStatus::Active;
                if active && progress.timers[partition].check(now) {
                    progress.merge.mark_idle(partition);
                }
            }
        })
    }

    /// Lets every partition emit the watermark that its rows have earned, whatever the cadence: Flink's periodic emission.
    pub fn emit_watermarks(&mut self) -> Result<Output> {
        self.step(|progress, _| {
            for partition in 0..progress.sources.len() {
                if progress.merge.status(partition) != PartitionStatus::Finished {
                    let before = progress.sources[partition].emitted();
                    progress.sources[partition].emit();
                    progress.report(partition, before, false);
                }
            }
            progress.merge.refresh();
        })
    }

    /// Says that a partition has ended. Rows that still come for it are judged like any others, and move nothing.
    pub fn finish_partition(&mut self, partition: usize) -> Result<Output> {
        self.check_partition(partition)?;
        self.step(|progress, _| {
            progress.merge.finish(partition);
        })
    }

    /// End of input: all partitions have ended, and everything fires.
    pub fn finish(&mut self) -> Result<Output> {
        self.step(|progress, _| {
            for partition in 0..progress.sources.len() {
                progress.merge.finish(partition);
            }
        })
    }

    /// The merged watermark: [`NONE`](crate::watermark::NONE) before the first, [`END`] at end of input.
    pub fn current_watermark(&self) -> i64 {
        self.progress.merge.merged()
    }

    /// The partition that keeps the merged watermark where it is; `None` if all are idle or have ended.
    pub fn holding_back(&self) -> Option<usize> {
        self.progress.merge.holding_back()
    }

    /// Partitions that have run ahead of their alignment group by more than its drift, and should not be read from for now.
    pub fn paused(&self) -> Vec<usize> {
        let groups = self.parts.alignment.iter();
        let mut paused: Vec<usize> =
            groups.flat_map(|(group, max_drift)| self.progress.merge.paused(group, *max_drift)).collect();
        paused.sort_unstable();
        paused.dedup();
        paused
    }

    /// Everything counted so far.
    pub fn metrics(&self) -> Metrics {
        let progress = &self.progress;
        let partitions: Vec<PartitionMetrics> = (0..progress.sources.len())
            .map(|partition| PartitionMetrics {
                rows: progress.counts[partition],
                watermark: progress.sources[partition].emitted(),
                watermark_regressions: progress.sources[partition].regressions(),
                status: progress.merge.status(partition),
            })
            .collect();
        let mut total = RowCounts::default();
        partitions.iter().for_each(|partition| total.add(&partition.rows));
        Metrics {
            watermark: progress.merge.merged(),
            total,
            partitions,
            fired_on_time: progress.fired_on_time,
            fired_late: progress.fired_late,
            windows_fired: progress.windows_fired,
            open_slices: progress.state.open.len(),
            keys: progress.state.keys(),
            state_bytes: progress.state.size() + self.lanes.size(),
        }
    }

    /// The schema of [`Output::fired`].
    pub fn output_schema(&self) -> SchemaRef {
        self.parts.assembler.schema.clone()
    }
    /// The schema of [`Output::late`].
    pub fn late_schema(&self) -> SchemaRef {
        self.parts.assembler.late_schema.clone()
    }
    /// The schema of [`Output::rejected`].
    pub fn rejected_schema(&self) -> SchemaRef {
        self.parts.event_time.rejected_schema.clone()
    }
    /// What watermarks, the clock and window bounds count.
    pub fn tick_unit(&self) -> TickUnit {
        self.parts.event_time.unit
    }

    fn check_partition(&self, given: usize) -> Result<()> {
        let partitions = self.parts.partitions;
        if given < partitions { Ok(()) } else { Err(Error::UnknownPartition { given, partitions }) }
    }

    /// Checks a batch and sorts out rows without a usable time; changes nothing.
    fn prepare(&self, partition: usize, batch: &RecordBatch) -> Result<Prepared> {
        self.check_partition(partition)?;
        let (given, expected) = (batch.schema_ref(), &self.parts.schema);
        if given != expected {
            let differs = |(a, b): (&arrow_schema::FieldRef, &arrow_schema::FieldRef)| {
                a.name() != b.name() || a.data_type() != b.data_type()
            };
            let pairs = given.fields().iter().zip(expected.fields());
            let index = pairs.clone().position(differs).unwrap_or(pairs.len());
            if index < given.fields().len().max(expected.fields().len()) {
                let show = |schema: &SchemaRef| match schema.fields().get(index) {
                    Some(field) => format!("{:?} {}", field.name(), field.data_type()),
                    None => "nothing".into(),
                };
                return Err(Error::SchemaMismatch { index, given: show(given), expected: show(expected) });
            }
        }
        let admitted = self.parts.event_time.admit(partition, batch, self.progress.clock)?;
        let keys = self.parts.keys.prepare(&admitted.batch)?;
        Ok(Prepared { partition, admitted, keys })
    }

    /// The way of the rows of one call.
    fn push_prepared(&mut self, prepared: Vec<Prepared>) -> Result<Output> {
        let rows = prepared.iter().map(|p| p.admitted.times.len()).sum();
        let magnitude = prepared
            .iter()
            .map(|p| self.parts.inputs.magnitude(&p.admitted.batch))
            .fold(0, u128::saturating_add);
        let saved = self.saved_if_at_risk(rows, magnitude);
        let result = self.apply(prepared);
        self.restore_on_error(saved, result)
    }

    fn apply(&mut self, prepared: Vec<Prepared>) -> Result<Output> {
        let mut output = Output::default();
        let mut jobs: Vec<Job> = Vec::with_capacity(prepared.len());
        for prepared in prepared {
            let Prepared { partition, mut admitted, keys } = prepared;
            self.progress.counts[partition].add(&admitted.counts);
            output.rejected.extend(admitted.rejected.take());
            let columns = self.parts.inputs.of(&admitted.batch);
            let mut job = Job::new(partition, admitted, keys, columns);
            self.progress.observe(&mut job, &self.parts);
            jobs.push(job);
        }
        let state = &mut self.progress.state;
        partition::run(&mut jobs, &mut self.lanes.lanes, &mut state.fresh, &self.parts, &self.workers);
        for lane in &mut self.lanes.lanes {
            state.open.extend(lane.opened.drain(..));
        }
        let mut fired = Vec::new();
        for job in &jobs {
            self.progress.counts[job.partition].add(&job.counts);
            let rows = job.late.iter().map(|judged| judged.row as u32).collect::<Vec<_>>();
            let codes = match rows.is_empty() {
                true => None,
                false => Some(self.parts.keys.encode_rows(&job.batch, &rows, self.lanes.interner())?),
            };
            let mut fire = self.fire(&mut fired);
            if let Some(codes) = codes {
                fire.late_rows(&job.late, &codes, &job.rows());
            }
            fire.up_to(job.after);
            output.late.extend(self.parts.assembler.late(&job.batch, &job.dropped)?);
        }
        self.complete(fired, output)
    }

    fn fire<'a>(&'a mut self, fired: &'a mut Vec<Fired>) -> Fire<'a> {
        Fire {
            grid: &self.parts.grid,
            inputs: &self.parts.inputs,
            late_firing: self.parts.late_firing,
            state: &mut self.progress.state,
            lanes: &mut self.lanes,
            fired,
        }
    }

    /// A call without rows that may move the merged watermark.
    fn step(&mut self, change: impl FnOnce(&mut Progress, Reactivation)) -> Result<Output> {
        let saved = self.saved_if_at_risk(0, 0);
        change(&mut self.progress, self.parts.reactivation);
        let watermark = self.progress.merge.merged();
        let mut fired = Vec::new();
        self.fire(&mut fired).up_to(watermark);
        let result = self.complete(fired, Output::default());
        self.restore_on_error(saved, result)
    }

    /// Fires what late rows have changed, and makes batches of everything fired.
    fn complete(&mut self, mut fired: Vec<Fired>, mut output: Output) -> Result<Output> {
        self.fire(&mut fired).late_changes(|_, _| true);
        if self.parts.late_firing == LateFiring::Coalesced {
            fired.sort_by_key(|fired| fired.window);
        }
        self.check_limits()?;
        for Fired { firing, table, .. } in &fired {
            match firing {
                Firing::Late => self.progress.fired_late += table.len() as u64,
                _ => {
                    self.progress.fired_on_time += table.len() as u64;
                    self.progress.windows_fired += 1;
                }
            }
        }
        let Parts { grid, keys, assembler, .. } = &self.parts;
        output.fired = assembler.fired(&fired, grid, keys, self.lanes.interner())?;
        self.lanes.recycle(fired.into_iter().map(|fired| fired.table));
        let State { fresh, sealed, chain, .. } = &mut self.progress.state;
        if self.lanes.forget_dead_keys(fresh, sealed) {
            *chain = Default::default();
        }
        Ok(output)
    }

    /// A copy of all progress, if this call might fail after it has changed something.
    fn saved_if_at_risk(&mut self, rows: usize, magnitude: u128) -> Option<Progress> {
        let (limits, state) = (&self.parts.limits, &self.progress.state);
        self.bounds.keys += rows;
        if self.bounds.keys > limits.max_keys {
            self.bounds.keys = state.keys() + rows;
        }
        self.bounds.magnitude = self.bounds.magnitude.saturating_add(magnitude);
        if self.bounds.magnitude > i64::MAX as u128 {
            self.bounds.magnitude = state.magnitude().saturating_add(magnitude);
        }
        let at_risk = self.bounds.keys > limits.max_keys
            || self.bounds.magnitude > i64::MAX as u128
            || state.open.len() + rows > limits.max_open_slices
            || limits.max_state_bytes < usize::MAX;
        at_risk.then(|| self.progress.clone())
    }

    fn restore_on_error(&mut self, saved: Option<Progress>, result: Result<Output>) -> Result<Output> {
        if result.is_err()
            && let Some(saved) = saved
        {
            self.progress = saved;
            self.lanes.lanes.iter_mut().for_each(|lane| lane.opened.clear());
        }
        result
    }

    fn check_limits(&self) -> Result<()> {
        let (limits, state) = (&self.parts.limits, &self.progress.state);
        let check = |limit, needed: usize, allowed: usize| {
            if needed > allowed { Err(Error::LimitReached { limit, needed, allowed }) } else { Ok(()) }
        };
        check("max_open_slices", state.open.len(), limits.max_open_slices)?;
        if self.bounds.keys > limits.max_keys {
            check("max_keys", state.keys(), limits.max_keys)?;
        }
        if limits.max_state_bytes < usize::MAX {
            check("max_state_bytes", state.size() + self.lanes.size(), limits.max_state_bytes)?;
        }
        Ok(())
    }

    /// Panics if an invariant does not hold: for tests, after every call.
    pub fn validate(&self) {
        self.progress.state.validate(&self.parts.grid);
        for counts in &self.progress.counts {
            assert_eq!(
                counts.rows_in,
                counts.taken + counts.dropped_late + counts.no_window + counts.rejected(),
                "every row is accounted for: {counts:?}"
            );
        }
        assert_eq!(self.progress.state.fired_to, self.current_watermark(), "everything due has fired");
    }
}
