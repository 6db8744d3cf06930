//! The spine: the way of a row, step by step.

mod saved;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::builder::{Parts, WindowOperatorBuilder};
use crate::error::{Error, Result};
use crate::event_time::Admitted;
use crate::fire::{self, Firing, LateFiring};
use crate::input::Input;
use crate::key::BatchKeys;
use crate::keyed::{self, Gaps, Keyed, Shard, Spec};
use crate::metrics::{Metrics, RowCounts};
use crate::output::Output;
use crate::partition::Job;
use crate::progress::{Progress, Signal};
use crate::sliced::Sliced;
use crate::state::{Inputs, State};
use crate::time::TickUnit;
use crate::watermark::NONE;
use crate::window::Grid;
use crate::workers::Workers;

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
    windows: Windows,
    workers: Workers,
    fired: FiredCounts,
    /// Bounds of what is held, so that the exact numbers are computed only when they might matter.
    bounds: Bounds,
}

/// What has fired so far.
#[derive(Clone, Copy, Debug, Default)]
struct FiredCounts {
    early: u64,
    on_time: u64,
    late: u64,
    windows: u64,
}

/// How windows are made.
pub(crate) enum Kind {
    Sliced(Grid, LateFiring),
    Keyed(Spec),
}

/// What rows are made into.
enum Windows {
    Sliced(Sliced),
    Keyed(Keyed),
}

/// Everything that a failed call must leave as it was.
struct Saved {
    progress: Progress,
    state: SavedState,
}

enum SavedState {
    Sliced(Box<State>),
    Keyed(Vec<Shard>),
}

/// A batch whose rows can be trusted, before anything has been changed by it.
struct Prepared {
    partition: usize,
    admitted: Admitted,
    keys: BatchKeys,
    /// Of sessions, where keys have windows of their own.
    gaps: Option<Gaps>,
    /// How much its rows can add to the magnitude of a result.
    magnitude: u128,
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
        Input::new(schema).into()
    }

    pub(crate) fn new(kind: Kind, parts: Parts) -> Result<Self> {
        Ok(WindowOperator {
            workers: Workers::new(parts.threads)?,
            windows: match kind {
                Kind::Sliced(grid, late_firing) => Windows::Sliced(Sliced::new(grid, late_firing, &parts)),
                Kind::Keyed(spec) => Windows::Keyed(Keyed::new(spec, &parts)),
            },
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
    /// As [`push`](WindowOperator::push); one bad batch, and none is taken. Of several, [`Error::At`] says which.
    pub fn push_all(&mut self, batches: &[(usize, RecordBatch)]) -> Result<Output> {
        if let [(partition, batch)] = batches {
            return self.push(*partition, batch);
        }
        self.workers.clone().within(|| {
            let prepared = self.workers.map(batches, |(partition, batch)| self.prepare(*partition, batch));
            let at = |number, error| Error::At { place: format!("batch {number}"), error: Box::new(error) };
            let prepared = prepared.into_iter().enumerate();
            let prepared = prepared.map(|(number, batch)| batch.map_err(|error| at(number, error)));
            self.push_prepared(prepared.collect::<Result<_>>()?)
        })
    }

    /// Takes in what the operator before this one gave in a call, and then its watermark: rows first, so that no result is
    /// late for what follows. Every operator that goes before has a partition of its own here, and the minimum of their
    /// watermarks counts. For results of windows the event time is
    /// [`window_time`](WindowOperatorBuilder::window_time_column), and this operator's strategy is
    /// [`WatermarkStrategy::explicit`](crate::watermark::WatermarkStrategy::explicit).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{Int64Array, RecordBatch, StringArray, TimestampSecondArray};
    /// # use highwater::{Aggregate, TimeDelta, Window, WindowOperator, watermark::WatermarkStrategy};
    /// # let batch = RecordBatch::try_from_iter([
    /// #     ("ts", Arc::new(TimestampSecondArray::from(vec![1, 2, 61, 200])) as _),
    /// #     ("tenant", Arc::new(StringArray::from(vec!["acme", "globex", "acme", "acme"])) as _),
    /// # ])?;
    /// let mut per_tenant = WindowOperator::builder(batch.schema())
    ///     .event_time("ts")
    ///     .key("tenant")
    ///     .window(Window::tumbling(TimeDelta::from_mins(1)))
    ///     .watermark(WatermarkStrategy::ascending())
    ///     .aggregate(Aggregate::count_all().alias("requests"))
    ///     .window_time_column(true)
    ///     .build()?;
    /// let mut busiest = WindowOperator::builder(per_tenant.output_schema())
    ///     .event_time("window_time")
    ///     .window(Window::tumbling(TimeDelta::from_mins(1)))
    ///     .watermark(WatermarkStrategy::explicit())
    ///     .aggregate(Aggregate::max("requests"))
    ///     .build()?;
    /// let output = per_tenant.push(0, &batch)?;
    /// let output = busiest.push_results(0, &output, per_tenant.current_watermark())?;
    /// // the watermark is 199 s: minutes 0 and 1 have fired in both
    /// assert_eq!(output.fired[0].num_rows(), 2);
    /// assert!(output.late.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`push`](WindowOperator::push) and [`advance_watermark`](WindowOperator::advance_watermark); nothing is taken then.
    pub fn push_results(&mut self, partition: usize, results: &Output, watermark: i64) -> Result<Output> {
        let signal = Signal::Watermark { partition, watermark };
        Progress::check(signal, &self.parts.source)?;
        let prepared = results.fired.iter().map(|batch| self.prepare(partition, batch));
        let prepared = prepared.collect::<Result<Vec<_>>>()?;
        let saved = self.saved_if_at_risk(&prepared);
        let result = self.apply_results(prepared, signal);
        self.restore_on_error(saved, result)
    }

    /// Says that no more rows at or before `watermark` will come to a partition. [`END`](crate::watermark::END) finishes it.
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

    /// Moves the injected clock, in ticks since the epoch in the unit of the event time; a reading before the last one is ignored. Partitions that
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

    /// The merged watermark: [`NONE`](crate::watermark::NONE) before the first, [`END`](crate::watermark::END) at end of input.
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
            fired_early: self.fired.early,
            fired_on_time: self.fired.on_time,
            fired_late: self.fired.late,
            windows_fired: self.fired.windows,
            open_slices: self.windows.open(),
            keys: self.windows.keys(),
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
        let gaps = match &self.windows {
            Windows::Sliced(_) => None,
            Windows::Keyed(keyed) => Some(keyed.spec.assigner.gaps(&admitted.batch)?),
        };
        let magnitude = self.parts.inputs.magnitude(&admitted.batch);
        Ok(Prepared { partition, admitted, keys, gaps, magnitude })
    }

    /// The way of the rows of one call.
    fn push_prepared(&mut self, prepared: Vec<Prepared>) -> Result<Output> {
        let saved = self.saved_if_at_risk(&prepared);
        let result = self.apply(prepared);
        self.restore_on_error(saved, result)
    }

    fn apply(&mut self, prepared: Vec<Prepared>) -> Result<Output> {
        let mut output = Output::default();
        let (mut sliced, mut keyed) = (Vec::new(), Vec::new());
        for Prepared { partition, mut admitted, keys, gaps, .. } in prepared {
            output.rejected.extend(admitted.rejected.take());
            let passage = self.progress.observe(partition, admitted, &self.parts.source);
            match gaps {
                None => sliced.push(Job::new(passage, keys, &self.parts.inputs)),
                Some(gaps) => keyed.push(keyed::Job { passage, keys, gaps }),
            }
        }
        let (progress, parts, workers) = (&mut self.progress, &self.parts, &self.workers);
        let fired = match &mut self.windows {
            Windows::Sliced(windows) => {
                Fired::Sliced(windows.push(sliced, progress, parts, workers, &mut output)?)
            }
            Windows::Keyed(windows) => {
                Fired::Keyed(windows.push(keyed, progress, parts, workers, &mut output)?)
            }
        };
        self.complete(fired, output)
    }

    fn apply_results(&mut self, prepared: Vec<Prepared>, signal: Signal) -> Result<Output> {
        let mut output = self.apply(prepared)?;
        if !matches!(signal, Signal::Watermark { watermark: NONE, .. }) {
            self.progress.apply(signal, &self.parts.source);
        }
        output.fired.extend(self.advance(self.progress.clock)?.fired);
        Ok(output)
    }

    /// A call without rows, which may move the merged watermark.
    fn step(&mut self, signal: Signal) -> Result<Output> {
        Progress::check(signal, &self.parts.source)?;
        let saved = self.saved_if_at_risk(&[]);
        let before = self.progress.clock;
        self.progress.apply(signal, &self.parts.source);
        if let (Signal::Clock(_), Some(timeout)) = (signal, self.parts.quiet_timeout)
            && self.progress.is_quiet(timeout)
        {
            self.progress.raise(self.windows.latest_end().unwrap_or(NONE));
        }
        let result = self.advance(before);
        self.restore_on_error(saved, result)
    }

    /// Fires what a call without rows has made due; `before` is the clock before it.
    fn advance(&mut self, before: Option<i64>) -> Result<Output> {
        let (watermark, clock) = (self.progress.watermark(), self.progress.clock);
        let fired = match &mut self.windows {
            Windows::Sliced(windows) => Fired::Sliced(windows.advance(watermark, &self.parts, &self.workers)),
            Windows::Keyed(windows) => {
                let passed = windows.spec.clock_passed(before, clock);
                Fired::Keyed(windows.advance(watermark, passed, &self.parts)?)
            }
        };
        self.complete(fired, Output::default())
    }

    /// Makes batches of everything that has fired.
    fn complete(&mut self, mut fired: Fired, mut output: Output) -> Result<Output> {
        self.check_limits()?;
        if let (Some(top), Fired::Sliced(fired)) = (&self.parts.top, &mut fired) {
            for fired in fired {
                fired.table = top.of(&fired.table)?;
            }
        }
        let mut counts = self.fired;
        fired.count(&mut counts);
        match (&mut self.windows, fired) {
            (Windows::Sliced(windows), Fired::Sliced(fired)) => {
                windows.emit(fired, &self.parts, &self.workers, &mut output)?
            }
            (Windows::Keyed(windows), Fired::Keyed(fired)) => {
                windows.emit(fired, &self.parts, &self.workers, &mut output)?
            }
            _ => {}
        }
        self.fired = counts;
        Ok(output)
    }

    /// A copy of all that changes, if this call might fail after it has changed something.
    fn saved_if_at_risk(&mut self, coming: &[Prepared]) -> Option<Saved> {
        let (limits, windows) = (&self.parts.limits, &self.windows);
        let rows = coming.iter().map(|prepared| prepared.admitted.times.len()).sum::<usize>();
        let magnitude = coming.iter().fold(0_u128, |sum, prepared| sum.saturating_add(prepared.magnitude));
        self.bounds.keys += rows;
        if self.bounds.keys > limits.max_keys {
            self.bounds.keys = windows.keys() + rows;
        }
        self.bounds.magnitude = self.bounds.magnitude.saturating_add(magnitude);
        if self.bounds.magnitude > i64::MAX as u128 {
            self.bounds.magnitude = windows.magnitude(&self.parts.inputs).saturating_add(magnitude);
        }
        let at_risk = self.bounds.keys > limits.max_keys
            || self.bounds.magnitude > i64::MAX as u128
            || windows.open() + rows > limits.max_open_slices
            || limits.max_state_bytes < usize::MAX
            || windows.may_fail();
        at_risk.then(|| Saved { progress: self.progress.clone(), state: windows.save() })
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
        let (limits, windows) = (&self.parts.limits, &self.windows);
        let check = |limit, needed: usize, allowed: usize| {
            if needed > allowed { Err(Error::LimitReached { limit, needed, allowed }) } else { Ok(()) }
        };
        check("max_open_slices", windows.open(), limits.max_open_slices)?;
        if self.bounds.keys > limits.max_keys {
            check("max_keys", windows.keys(), limits.max_keys)?;
        }
        if limits.max_state_bytes < usize::MAX {
            check("max_state_bytes", windows.size(), limits.max_state_bytes)?;
        }
        Ok(())
    }

    /// Panics if an invariant does not hold: for tests, after every call.
    pub fn validate(&self) {
        self.progress.validate();
        self.windows.validate(self.progress.watermark());
    }
}

/// What the windows of a call have fired.
enum Fired {
    Sliced(Vec<fire::Fired>),
    Keyed(keyed::Fired),
}

impl Fired {
    fn count(&self, counts: &mut FiredCounts) {
        let mut add = |firing, rows: u64| match firing {
            Firing::Early => counts.early += rows,
            Firing::Late => counts.late += rows,
            Firing::OnTime => counts.on_time += rows,
        };
        match self {
            Fired::Sliced(fired) => {
                fired.iter().for_each(|fired| add(fired.firing, fired.table.len() as u64));
                counts.windows += fired.iter().filter(|fired| fired.firing == Firing::OnTime).count() as u64;
            }
            Fired::Keyed(fired) => {
                fired.results().for_each(|order| add(order.firing, 1));
                counts.windows += fired.windows();
            }
        }
    }
}

impl Windows {
    /// Open slices, or open windows of keys.
    fn open(&self) -> usize {
        match self {
            Windows::Sliced(windows) => windows.state.open.len(),
            Windows::Keyed(windows) => windows.panes(),
        }
    }

    fn keys(&self) -> usize {
        match self {
            Windows::Sliced(windows) => windows.state.keys(),
            Windows::Keyed(windows) => windows.panes(),
        }
    }

    fn size(&self) -> usize {
        match self {
            Windows::Sliced(windows) => windows.size(),
            Windows::Keyed(windows) => windows.size(),
        }
    }

    fn magnitude(&self, inputs: &Inputs) -> u128 {
        match self {
            Windows::Sliced(windows) => windows.state.magnitude(),
            Windows::Keyed(windows) => windows.magnitude(inputs),
        }
    }

    /// Whether a call may fail for reasons that nobody can foresee.
    fn may_fail(&self) -> bool {
        matches!(self, Windows::Keyed(keyed) if keyed.spec.keeps_rows())
    }

    fn save(&self) -> SavedState {
        match self {
            Windows::Sliced(windows) => SavedState::Sliced(Box::new(windows.state.clone())),
            Windows::Keyed(windows) => SavedState::Keyed(windows.shards.clone()),
        }
    }

    fn restore(&mut self, saved: SavedState) {
        match (self, saved) {
            (Windows::Sliced(windows), SavedState::Sliced(state)) => windows.restore(*state),
            (Windows::Keyed(windows), SavedState::Keyed(shards)) => windows.shards = shards,
            _ => {}
        }
    }

    /// The latest end of an open window, as the watermark that reaches it; windows without an end do not count.
    fn latest_end(&self) -> Option<i64> {
        match self {
            Windows::Sliced(windows) => windows.latest_end(),
            Windows::Keyed(windows) => windows.latest_end(),
        }
    }

    fn validate(&self, watermark: i64) {
        match self {
            Windows::Sliced(windows) => windows.validate(watermark),
            Windows::Keyed(windows) => windows.validate(watermark),
        }
    }
}
