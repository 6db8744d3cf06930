//! The engine's operators, whatever their process and number of inputs.

use arrow_array::RecordBatch;
use highwater::process::{
    KeyedProcess, ProcessMetrics, ProcessOperator, Side, TwoInputOperator, TwoInputOutput, deduplicate,
    interval_join, match_pairs, window_join,
};
use highwater::{Error, Output};
use highwater_oracle::Op;

use super::case::{Call, ProcessCase, Task};
use super::script::Script;
use crate::engine::{Batches, input, spans};

/// What a call gives; late and rejected rows by input.
pub(crate) struct Given {
    pub(crate) fired: Vec<RecordBatch>,
    pub(crate) late: Vec<Vec<RecordBatch>>,
    pub(crate) rejected: Vec<Vec<RecordBatch>>,
}

pub(crate) trait Running {
    /// Makes a call; the batches are those of a push.
    fn call(&mut self, call: &Call, batches: &[(usize, usize, RecordBatch)]) -> Result<Given, Error>;
    fn snapshot(&self) -> Result<Vec<u8>, Error>;
    fn restored(self: Box<Self>, snapshot: &[u8]) -> Result<Box<dyn Running>, Error>;
    fn metrics(&self) -> ProcessMetrics;
    fn validate(&self);
}

/// An operator that does what the case says.
pub(crate) fn build(case: &ProcessCase, threads: usize) -> Box<dyn Running> {
    let (batches, span) = (Batches::new(&case.shape), spans(&case.shape));
    let of = |number: usize| input(&case.inputs[number], &batches);
    let text = "a case is a valid description";
    match case.task {
        Task::Script => {
            Box::new(ProcessOperator::builder(Script, of(0)).threads(threads).build().expect(text))
        }
        Task::Pairs { timeout } => {
            let pairs = match_pairs(of(0)).event("v2", ["a", "b"], ["bb", ""]).abandon_after(span(timeout));
            let pairs = pairs.start_columns(["id"]).end_columns(["id"]);
            Box::new(pairs.threads(threads).build().expect(text))
        }
        Task::Deduplicate { size, offset, lateness } => {
            let passed = deduplicate(of(0)).in_window(span(size), span(offset));
            Box::new(passed.allowed_lateness(span(lateness)).threads(threads).build().expect(text))
        }
        Task::Within { horizon, lateness } => {
            let passed = deduplicate(of(0)).within(span(horizon)).allowed_lateness(span(lateness));
            Box::new(passed.threads(threads).build().expect(text))
        }
        Task::Interval { lower, upper, left_outer } => {
            let join = interval_join(of(0), of(1)).between(span(lower), span(upper));
            let join = if left_outer { join.left_outer() } else { join };
            let join = join.left_columns(["id"]).right_columns(["id"]);
            Box::new(join.threads(threads).build().expect(text))
        }
        Task::Window { size, offset } => {
            let join = window_join(of(0), of(1)).window(span(size), span(offset));
            let join = join.left_columns(["id"]).right_columns(["id"]);
            Box::new(join.threads(threads).build().expect(text))
        }
    }
}

fn one(output: Output) -> Given {
    Given { fired: output.fired, late: vec![output.late], rejected: vec![output.rejected] }
}

fn two(output: TwoInputOutput) -> Given {
    let late = vec![output.left_late, output.right_late];
    Given { fired: output.fired, late, rejected: vec![output.left_rejected, output.right_rejected] }
}

impl<P: KeyedProcess + 'static> Running for ProcessOperator<P> {
    fn call(&mut self, call: &Call, batches: &[(usize, usize, RecordBatch)]) -> Result<Given, Error> {
        let output = match (call, batches) {
            (Call::Push(_), [(_, partition, batch)]) => self.push(*partition, batch),
            (Call::Push(_), batches) => {
                self.push_all(&batches.iter().map(|(_, p, batch)| (*p, batch.clone())).collect::<Vec<_>>())
            }
            (Call::Of(_, op) | Call::All(op), _) => match op {
                Op::Watermark(partition, watermark) => self.advance_watermark(*partition, *watermark),
                Op::MarkIdle(partition) => self.mark_idle(*partition),
                Op::MarkActive(partition) => self.mark_active(*partition),
                Op::FinishPartition(partition) => self.finish_partition(*partition),
                Op::AdvanceClock(now) => self.advance_clock(*now),
                Op::EmitWatermarks => self.emit_watermarks(),
                _ => self.finish(),
            },
        };
        output.map(one)
    }

    fn snapshot(&self) -> Result<Vec<u8>, Error> {
        ProcessOperator::snapshot(self)
    }

    fn restored(self: Box<Self>, snapshot: &[u8]) -> Result<Box<dyn Running>, Error> {
        Ok(Box::new(self.restore(snapshot)?))
    }

    fn metrics(&self) -> ProcessMetrics {
        ProcessOperator::metrics(self)
    }

    fn validate(&self) {
        ProcessOperator::validate(self);
    }
}

impl<P: KeyedProcess + 'static> Running for TwoInputOperator<P> {
    fn call(&mut self, call: &Call, batches: &[(usize, usize, RecordBatch)]) -> Result<Given, Error> {
        let side = |input: usize| if input == 0 { Side::Left } else { Side::Right };
        let output = match (call, batches) {
            (Call::Push(_), [(input, partition, batch)]) => self.push(side(*input), *partition, batch),
            (Call::Push(_), batches) => {
                let batches = batches.iter().map(|(input, p, batch)| (side(*input), *p, batch.clone()));
                self.push_all(&batches.collect::<Vec<_>>())
            }
            (Call::Of(input, op), _) => match op {
                Op::Watermark(partition, watermark) => {
                    self.advance_watermark(side(*input), *partition, *watermark)
                }
                Op::MarkIdle(partition) => self.mark_idle(side(*input), *partition),
                Op::MarkActive(partition) => self.mark_active(side(*input), *partition),
                Op::FinishPartition(partition) => self.finish_partition(side(*input), *partition),
                _ => self.finish_side(side(*input)),
            },
            (Call::All(op), _) => match op {
                Op::AdvanceClock(now) => self.advance_clock(*now),
                Op::EmitWatermarks => self.emit_watermarks(),
                _ => self.finish(),
            },
        };
        output.map(two)
    }

    fn snapshot(&self) -> Result<Vec<u8>, Error> {
        TwoInputOperator::snapshot(self)
    }

    fn restored(self: Box<Self>, snapshot: &[u8]) -> Result<Box<dyn Running>, Error> {
        Ok(Box::new(self.restore(snapshot)?))
    }

    fn metrics(&self) -> ProcessMetrics {
        TwoInputOperator::metrics(self)
    }

    fn validate(&self) {
        TwoInputOperator::validate(self);
    }
}
