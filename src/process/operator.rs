//! One input and a process.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::engine::{Engine, Given};
use super::metrics::ProcessMetrics;
use super::{KeyedProcess, OperatorBuilder, ProcessOperatorBuilder};
use crate::error::Result;
use crate::input::Input;
use crate::output::Output;
use crate::progress::Signal;
use crate::time::TickUnit;

/// Runs a [`KeyedProcess`] over rows of many partitions.
///
/// Every method that can give results returns an [`Output`], whose `fired` holds them. A method that returns an error has done
/// nothing.
pub struct ProcessOperator<P: KeyedProcess> {
    pub(super) engine: Engine<P>,
}

impl<P: KeyedProcess> std::fmt::Debug for ProcessOperator<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessOperator").field("metrics", &self.metrics()).finish_non_exhaustive()
    }
}

impl<P: KeyedProcess> ProcessOperator<P> {
    /// Starts the description of an operator.
    pub fn builder(process: P, input: Input) -> ProcessOperatorBuilder<P> {
        OperatorBuilder::new(process, [input])
    }

    /// Takes in rows of one partition.
    ///
    /// # Errors
    /// A schema other than the input's, a null event time under [`NullPolicy::Error`](crate::NullPolicy::Error), a limit
    /// reached, an error of the process: the call has then done nothing.
    pub fn push(&mut self, partition: usize, batch: &RecordBatch) -> Result<Output> {
        self.engine.push(std::iter::once((0, partition, batch))).map(output)
    }

    /// Takes in batches of several partitions, with the answer that pushing them one after the other would give, on as many
    /// threads as the operator was built with.
    ///
    /// # Errors
    /// As [`push`](ProcessOperator::push); one bad batch, and none is taken.
    pub fn push_all(&mut self, batches: &[(usize, RecordBatch)]) -> Result<Output> {
        self.engine.push(batches.iter().map(|(partition, batch)| (0, *partition, batch))).map(output)
    }

    /// Takes in what the operator before this one gave in a call, and then its watermark: rows first, so that no result is
    /// late for what follows. As [`WindowOperator::push_results`](crate::WindowOperator::push_results).
    ///
    /// The first busy minute of each tenant in an hour:
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampSecondArray};
    /// # use highwater::process::deduplicate;
    /// # use highwater::{Aggregate, Input, TimeDelta, Window, WindowOperator, watermark::WatermarkStrategy};
    /// # let batch = RecordBatch::try_from_iter([
    /// #     ("ts", Arc::new(TimestampSecondArray::from(vec![1, 2, 61, 200])) as ArrayRef),
    /// #     ("tenant", Arc::new(StringArray::from(vec!["acme", "globex", "acme", "acme"])) as _),
    /// # ])?;
    /// let mut minutes = WindowOperator::builder(batch.schema())
    ///     .event_time("ts")
    ///     .key("tenant")
    ///     .window(Window::tumbling(TimeDelta::from_mins(1)))
    ///     .watermark(WatermarkStrategy::ascending())
    ///     .aggregate(Aggregate::count_all().alias("requests"))
    ///     .window_time_column(true)
    ///     .build()?;
    /// let results = Input::new(minutes.output_schema())
    ///     .event_time("window_time")
    ///     .key("tenant")
    ///     .watermark(WatermarkStrategy::explicit());
    /// let mut first = deduplicate(results).in_window(TimeDelta::from_hours(1), TimeDelta::ZERO).build()?;
    /// let output = minutes.push(0, &batch)?;
    /// let output = first.push_results(0, &output, minutes.current_watermark())?;
    /// // the watermark is 199 s: acme has had requests in minutes 0 and 1, globex in minute 0
    /// assert_eq!(output.fired[0]["tenant"].as_ref(), &StringArray::from(vec!["acme", "globex"]));
    /// assert_eq!(first.current_watermark(), 199);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`push`](ProcessOperator::push) and [`advance_watermark`](ProcessOperator::advance_watermark); nothing is taken then.
    pub fn push_results(&mut self, partition: usize, results: &Output, watermark: i64) -> Result<Output> {
        self.engine.push_results(0, partition, results, watermark).map(output)
    }

    /// Says that no more rows at or before `watermark` will come to a partition. [`END`](crate::watermark::END) finishes it.
    ///
    /// # Errors
    /// If the input was not built with [`WatermarkStrategy::Explicit`](crate::watermark::WatermarkStrategy::Explicit).
    pub fn advance_watermark(&mut self, partition: usize, watermark: i64) -> Result<Output> {
        self.signal(Signal::Watermark { partition, watermark })
    }

    /// Takes a partition out of the minimum until it shows life again.
    pub fn mark_idle(&mut self, partition: usize) -> Result<Output> {
        self.signal(Signal::Idle(partition))
    }

    /// Takes a partition back in, by the rule of reactivation.
    pub fn mark_active(&mut self, partition: usize) -> Result<Output> {
        self.signal(Signal::Active(partition))
    }

    /// Moves the injected clock, in ticks since the epoch in the unit of the event time; one before the last is ignored. Clock timers that
    /// it reaches fire first, then what is due to partitions that have become idle by it.
    pub fn advance_clock(&mut self, now: i64) -> Result<Output> {
        self.signal(Signal::Clock(now))
    }

    /// Lets every partition emit the watermark that its rows have earned, whatever the cadence: Flink's periodic emission.
    pub fn emit_watermarks(&mut self) -> Result<Output> {
        self.signal(Signal::Emit)
    }

    /// Says that a partition has ended. Rows that still come for it are judged like any others, and move nothing.
    pub fn finish_partition(&mut self, partition: usize) -> Result<Output> {
        self.signal(Signal::FinishPartition(partition))
    }

    /// End of input: all partitions have ended, and every event-time timer fires.
    pub fn finish(&mut self) -> Result<Output> {
        self.signal(Signal::Finish)
    }

    fn signal(&mut self, signal: Signal) -> Result<Output> {
        self.engine.signal(0..1, signal).map(output)
    }

    /// The merged watermark: [`NONE`](crate::watermark::NONE) before the first, [`END`](crate::watermark::END) at end of input.
    pub fn current_watermark(&self) -> i64 {
        self.engine.watermark()
    }

    /// The partition that keeps the merged watermark where it is; `None` if all are idle or have ended.
    pub fn holding_back(&self) -> Option<usize> {
        self.engine.progress(0).merge.holding_back()
    }

    /// Partitions that have run ahead of their alignment group by more than its drift, and should not be read from for now.
    pub fn paused(&self) -> Vec<usize> {
        self.engine.progress(0).paused(&self.engine.sources[0])
    }

    /// Everything counted so far.
    pub fn metrics(&self) -> ProcessMetrics {
        self.engine.metrics()
    }

    /// The process.
    pub fn process(&self) -> &P {
        &self.engine.process
    }

    /// The schema of [`Output::fired`].
    pub fn output_schema(&self) -> SchemaRef {
        self.engine.schema.clone()
    }
    /// The schema of [`Output::late`].
    pub fn late_schema(&self) -> SchemaRef {
        self.engine.sources[0].late_schema.clone()
    }
    /// The schema of [`Output::rejected`].
    pub fn rejected_schema(&self) -> SchemaRef {
        self.engine.sources[0].event_time.rejected_schema.clone()
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

fn output(mut given: Given) -> Output {
    let (late, rejected) = (given.late.swap_remove(0), given.rejected.swap_remove(0));
    Output { fired: given.results, late, rejected }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use arrow_schema::TimeUnit;

    use crate::process::deduplicate;
    use crate::watermark::WatermarkStrategy;
    use crate::{Input, TimeDelta};

    /// 200 rows that all pass: three batches of 64 rows and one of 8.
    #[test]
    fn many_results_are_spread_over_several_batches() {
        let times: ArrayRef = Arc::new(Int64Array::from_iter_values(0..200));
        let batch = RecordBatch::try_from_iter([("ts", times)]).unwrap();
        let input = Input::new(batch.schema())
            .event_time("ts")
            .event_time_unit(TimeUnit::Second)
            .watermark(WatermarkStrategy::ascending());
        let mut operator = deduplicate(input).within(TimeDelta::from_secs(1)).build().unwrap();
        let calls = [(0, batch.slice(0, 150)), (0, batch.slice(150, 50))];
        let fired = operator.push_all(&calls).unwrap().fired;
        assert_eq!(fired.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [64, 64, 64, 8]);
        assert_eq!(arrow_select::concat::concat_batches(&batch.schema(), &fired).unwrap(), batch);
    }
}
