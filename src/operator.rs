//! The spine: the way of a row, step by step.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::builder::{Parts, WindowOperatorBuilder};
use crate::error::{Error, Result};
use crate::event_time::Admitted;
use crate::fire::{Fired, Firing, LateFiring};
use crate::key::BatchKeys;
use crate::metrics::{Metrics, RowCounts};
use crate::output::Output;
use crate::partition::{Job, Workers};
use crate::progress::{Progress, Signal};
use crate::sliced::Sliced;
use crate::state::State;
use crate::time::TickUnit;
use crate::window::Grid;

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
    progress: Progress,
    windows: Sliced,
    workers: Workers,
    fired: FiredCounts,
    /// Bounds of what is held, so that the exact numbers are computed only when they might matter.
    bounds: Bounds,
}

/// What has fired so far.
#[derive(Clone, Copy, Debug, Default)]
struct FiredCounts {
    on_time: u64,
    late: u64,
    windows: u64,
}

/// Everything that a failed call must leave as it was.
struct Saved {
    progress: Progress,
    state: State,
}

/// A batch whose rows can be trusted, before anything has been changed by it.
struct Prepared {
    partition: usize,
    admitted: Admitted,
    keys: BatchKeys,
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

    pub(crate) fn new(grid: Grid, late_firing: LateFiring, parts: Parts) -> Result<Self> {
        Ok(WindowOperator {
            workers: Workers::new(parts.threads)?,
            windows: Sliced::new(grid, late_firing, &parts),
            progress: Progress::new(&parts.source),
            fired: FiredCounts::default(),
            bounds: Bounds::default(),
            parts,
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
        self.step(Signal::Watermark { partition, watermark })
    }

    /// Takes a partition out of the minimum until it shows life again.
    pub fn mark_idle(&mut self, partition: usize) -> Result<Output> {
        self.step(Signal::Idle(partition))
    }

    /// Takes a partition back in, by the rule of reactivation.
    pub fn mark_active(&mut self, partition: usize) -> Result<Output> {
        self.step(Signal::Active(partition))
    }

    /// Moves the injected clock, in ticks since the epoch in the unit of the event time; it never moves back. Partitions that
    /// have been without rows for longer than the idle timeout are marked idle.
    pub fn advance_clock(&mut self, now: i64) -> Result<Output> {
        self.step(Signal::Clock(now))
    }

    /// Lets every partition emit the watermark that its rows have earned, whatever the cadence: Flink's periodic emission.
    pub fn emit_watermarks(&mut self) -> Result<Output> {
        self.step(Signal::Emit)
    }

    /// Says that a partition has ended. Rows that still come for it are judged like any others, and move nothing.
    pub fn finish_partition(&mut self, partition: usize) -> Result<Output> {
        self.step(Signal::FinishPartition(partition))
    }

    /// End of input: all partitions have ended, and everything fires.
    pub fn finish(&mut self) -> Result<Output> {
        self.step(Signal::Finish)
    }

    /// The merged watermark: [`NONE`](crate::watermark::NONE) before the first, [`END`] at end of input.
    pub fn current_watermark(&self) -> i64 {
        self.progress.watermark()
    }

    /// The partition that keeps the merged watermark where it is; `None` if all are idle or have ended.
    pub fn holding_back(&self) -> Option<usize> {
        self.progress.merge.holding_back()
    }

    /// Partitions that have run ahead of their alignment group by more than its drift, and should not be read from for now.
    pub fn paused(&self) -> Vec<usize> {
        self.progress.paused(&self.parts.source)
    }

    /// Everything counted so far.
    pub fn metrics(&self) -> Metrics {
        let partitions = self.progress.metrics();
        let mut total = RowCounts::default();
        partitions.iter().for_each(|partition| total.add(&partition.rows));
        Metrics {
            watermark: self.progress.watermark(),
            total,
            partitions,
            fired_on_time: self.fired.on_time,
            fired_late: self.fired.late,
            windows_fired: self.fired.windows,
            open_slices: self.windows.state.open.len(),
            keys: self.windows.state.keys(),
            state_bytes: self.windows.size(),
        }
    }

    /// The schema of [`Output::fired`].
    pub fn output_schema(&self) -> SchemaRef {
        self.parts.assembler.schema.clone()
    }
    /// The schema of [`Output::late`].
    pub fn late_schema(&self) -> SchemaRef {
        self.parts.source.late_schema.clone()
    }
    /// The schema of [`Output::rejected`].
    pub fn rejected_schema(&self) -> SchemaRef {
        self.parts.source.event_time.rejected_schema.clone()
    }
    /// What watermarks, the clock and window bounds count.
    pub fn tick_unit(&self) -> TickUnit {
        self.parts.source.event_time.unit
    }

    /// Checks a batch and sorts out rows without a usable time; changes nothing.
    fn prepare(&self, partition: usize, batch: &RecordBatch) -> Result<Prepared> {
        let admitted = self.parts.source.admit(partition, batch, self.progress.clock)?;
        let keys = self.parts.source.keys.prepare(&admitted.batch)?;
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
        let mut jobs = Vec::with_capacity(prepared.len());
        for Prepared { partition, mut admitted, keys } in prepared {
            output.rejected.extend(admitted.rejected.take());
            let passage = self.progress.observe(partition, admitted, &self.parts.source);
            jobs.push(Job::new(passage, keys, &self.parts.inputs));
        }
        let fired = self.windows.push(jobs, &mut self.progress, &self.parts, &self.workers, &mut output)?;
        self.complete(fired, output)
    }

    /// A call without rows, which may move the merged watermark.
    fn step(&mut self, signal: Signal) -> Result<Output> {
        Progress::check(signal, &self.parts.source)?;
        let saved = self.saved_if_at_risk(0, 0);
        self.progress.apply(signal, &self.parts.source);
        let fired = self.windows.advance(self.progress.watermark(), &self.parts);
        let result = self.complete(fired, Output::default());
        self.restore_on_error(saved, result)
    }

    /// Makes batches of everything that has fired.
    fn complete(&mut self, fired: Vec<Fired>, mut output: Output) -> Result<Output> {
        self.check_limits()?;
        let mut counts = self.fired;
        for Fired { firing, table, .. } in &fired {
            match firing {
                Firing::Late => counts.late += table.len() as u64,
                _ => {
                    counts.on_time += table.len() as u64;
                    counts.windows += 1;
                }
            }
        }
        self.windows.emit(fired, &self.parts, &mut output)?;
        self.fired = counts;
        Ok(output)
    }

    /// A copy of all that changes, if this call might fail after it has changed something.
    fn saved_if_at_risk(&mut self, rows: usize, magnitude: u128) -> Option<Saved> {
        let (limits, state) = (&self.parts.limits, &self.windows.state);
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
        at_risk.then(|| Saved { progress: self.progress.clone(), state: state.clone() })
    }

    fn restore_on_error(&mut self, saved: Option<Saved>, result: Result<Output>) -> Result<Output> {
        if result.is_err()
            && let Some(saved) = saved
        {
            self.progress = saved.progress;
            self.windows.restore(saved.state);
        }
        result
    }

    fn check_limits(&self) -> Result<()> {
        let (limits, state) = (&self.parts.limits, &self.windows.state);
        let check = |limit, needed: usize, allowed: usize| {
            if needed > allowed { Err(Error::LimitReached { limit, needed, allowed }) } else { Ok(()) }
        };
        check("max_open_slices", state.open.len(), limits.max_open_slices)?;
        if self.bounds.keys > limits.max_keys {
            check("max_keys", state.keys(), limits.max_keys)?;
        }
        if limits.max_state_bytes < usize::MAX {
            check("max_state_bytes", self.windows.size(), limits.max_state_bytes)?;
        }
        Ok(())
    }

    /// Panics if an invariant does not hold: for tests, after every call.
    pub fn validate(&self) {
        self.progress.validate();
        self.windows.validate(self.progress.watermark());
    }
}
