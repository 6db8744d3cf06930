//! Two inputs and a process.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::engine::{Engine, Given};
use super::metrics::ProcessMetrics;
use super::{KeyedProcess, OperatorBuilder, TwoInputOperatorBuilder};
use crate::error::Result;
use crate::input::Input;
use crate::output::Output;
use crate::progress::Signal;
use crate::time::TickUnit;

/// One of two inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Input 0 of [`Rows::input`](super::Rows::input).
    Left,
    /// Input 1.
    Right,
}

/// What a call gives: results, and the rows that were handed back by either side.
#[derive(Clone, Debug, Default)]
#[must_use = "results and late rows are handed over once"]
pub struct TwoInputOutput {
    /// Results.
    pub fired: Vec<RecordBatch>,
    /// Rows that were too late: the left input's columns, and [`LATE_WATERMARK`](crate::LATE_WATERMARK).
    pub left_late: Vec<RecordBatch>,
    /// The same of the right input.
    pub right_late: Vec<RecordBatch>,
    /// Rows without a usable event time: the left input's columns, and [`REJECT_REASON`](crate::REJECT_REASON).
    pub left_rejected: Vec<RecordBatch>,
    /// The same of the right input.
    pub right_rejected: Vec<RecordBatch>,
}

impl TwoInputOutput {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.fired.is_empty()
            && self.left_late.is_empty()
            && self.right_late.is_empty()
            && self.left_rejected.is_empty()
            && self.right_rejected.is_empty()
    }
}

/// Runs a [`KeyedProcess`] over rows of two inputs that have the same keys.
///
/// The merged watermark is the minimum over both inputs, each of which merges its own partitions by its own rule. An input whose
/// partitions are all idle is left out, and counts again at once when one of them is back (Flink's two-input operators); one that
/// has ended is left out for good.
///
/// A method that returns an error has done nothing.
pub struct TwoInputOperator<P: KeyedProcess> {
    pub(super) engine: Engine<P>,
}

impl<P: KeyedProcess> std::fmt::Debug for TwoInputOperator<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TwoInputOperator").field("metrics", &self.metrics()).finish_non_exhaustive()
    }
}

impl<P: KeyedProcess> TwoInputOperator<P> {
    /// Starts the description of an operator. Results that begin with the keys name them as the left input does.
    pub fn builder(process: P, left: Input, right: Input) -> TwoInputOperatorBuilder<P> {
        OperatorBuilder::new(process, [left, right])
    }

    /// Takes in rows of one partition of one side.
    ///
    /// # Errors
    /// A schema other than the input's, a null event time under [`NullPolicy::Error`](crate::NullPolicy::Error), a limit
    /// reached, an error of the process: the call has then done nothing.
    pub fn push(&mut self, side: Side, partition: usize, batch: &RecordBatch) -> Result<TwoInputOutput> {
        self.engine.push(std::iter::once((side as usize, partition, batch))).map(output)
    }

    /// Takes in batches of several partitions and of both sides, with the answer that pushing them one after the other would
    /// give, on as many threads as the operator was built with.
    ///
    /// # Errors
    /// As [`push`](TwoInputOperator::push); one bad batch, and none is taken.
    pub fn push_all(&mut self, batches: &[(Side, usize, RecordBatch)]) -> Result<TwoInputOutput> {
        let batches = batches.iter().map(|(side, partition, batch)| (*side as usize, *partition, batch));
        self.engine.push(batches).map(output)
    }

    /// Takes in what an operator before this one gave in a call, and then its watermark: see
    /// [`ProcessOperator::push_results`](super::ProcessOperator::push_results).
    ///
    /// # Errors
    /// As [`push`](TwoInputOperator::push) and [`advance_watermark`](TwoInputOperator::advance_watermark); nothing is taken then.
    pub fn push_results(
        &mut self,
        side: Side,
        partition: usize,
        results: &Output,
        watermark: i64,
    ) -> Result<TwoInputOutput> {
        self.engine.push_results(side as usize, partition, results, watermark).map(output)
    }

    /// Says that no more rows at or before `watermark` will come to a partition. [`END`](crate::watermark::END) finishes it.
    ///
    /// # Errors
    /// If the input was not built with [`WatermarkStrategy::Explicit`](crate::watermark::WatermarkStrategy::Explicit).
    pub fn advance_watermark(
        &mut self,
        side: Side,
        partition: usize,
        watermark: i64,
    ) -> Result<TwoInputOutput> {
        self.signal(side, Signal::Watermark { partition, watermark })
    }

    /// Takes a partition out of the minimum until it shows life again.
    pub fn mark_idle(&mut self, side: Side, partition: usize) -> Result<TwoInputOutput> {
        self.signal(side, Signal::Idle(partition))
    }

    /// Takes a partition back in, by the rule of reactivation.
    pub fn mark_active(&mut self, side: Side, partition: usize) -> Result<TwoInputOutput> {
        self.signal(side, Signal::Active(partition))
    }

    /// Moves the injected clock, in ticks since the epoch in the unit of the event time; one before the last is ignored. Clock timers that
    /// it reaches fire first, then what is due to partitions that have become idle by it.
    pub fn advance_clock(&mut self, now: i64) -> Result<TwoInputOutput> {
        self.engine.signal(0..2, Signal::Clock(now)).map(output)
    }

    /// Lets every partition emit the watermark that its rows have earned, whatever the cadence: Flink's periodic emission.
    pub fn emit_watermarks(&mut self) -> Result<TwoInputOutput> {
        self.engine.signal(0..2, Signal::Emit).map(output)
    }

    /// Says that a partition has ended. Rows that still come for it are judged like any others, and move nothing.
    pub fn finish_partition(&mut self, side: Side, partition: usize) -> Result<TwoInputOutput> {
        self.signal(side, Signal::FinishPartition(partition))
    }

    /// Says that one side has ended, with all of its partitions.
    pub fn finish_side(&mut self, side: Side) -> Result<TwoInputOutput> {
        self.signal(side, Signal::Finish)
    }

    /// End of input: both sides have ended, and every event-time timer fires.
    pub fn finish(&mut self) -> Result<TwoInputOutput> {
        self.engine.signal(0..2, Signal::Finish).map(output)
    }

    fn signal(&mut self, side: Side, signal: Signal) -> Result<TwoInputOutput> {
        let input = side as usize;
        self.engine.signal(input..input + 1, signal).map(output)
    }

    /// The merged watermark: [`NONE`](crate::watermark::NONE) before the first, [`END`](crate::watermark::END) at end of input.
    pub fn current_watermark(&self) -> i64 {
        self.engine.watermark()
    }

    /// Everything counted so far.
    pub fn metrics(&self) -> ProcessMetrics {
        self.engine.metrics()
    }

    /// The process.
    pub fn process(&self) -> &P {
        &self.engine.process
    }

    /// The schema of [`TwoInputOutput::fired`].
    pub fn output_schema(&self) -> SchemaRef {
        self.engine.schema.clone()
    }
    /// The schema of the late rows of one side.
    pub fn late_schema(&self, side: Side) -> SchemaRef {
        self.engine.sources[side as usize].late_schema.clone()
    }
    /// The schema of the rejected rows of one side.
    pub fn rejected_schema(&self, side: Side) -> SchemaRef {
        self.engine.sources[side as usize].event_time.rejected_schema.clone()
    }
    /// What watermarks, timers and the clock count.
    pub fn tick_unit(&self) -> TickUnit {
        self.engine.sources[0].event_time.unit
    }

    /// Panics if an invariant does not hold: for tests, after every call.
    pub fn validate(&self) {
        self.engine.validate();
    }
}

fn output(given: Given) -> TwoInputOutput {
    let Given { results, late, rejected } = given;
    let (mut late, mut rejected) = (late.into_iter(), rejected.into_iter());
    TwoInputOutput {
        fired: results,
        left_late: late.next().unwrap_or_default(),
        right_late: late.next().unwrap_or_default(),
        left_rejected: rejected.next().unwrap_or_default(),
        right_rejected: rejected.next().unwrap_or_default(),
    }
}
