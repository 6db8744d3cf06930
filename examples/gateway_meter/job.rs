//! The job: five operators in a row.
//!
//! ```text
//! events, 8 partitions -> requests (match_pairs) -> charges, one for each completed or failed request
//!                                                     -> bills    tenant, minute       corrected for 2 minutes
//!                                                     -> errors   model, minute
//!                                                     -> latency  model, 5 minutes every minute
//!                                                                   -> slowest  minute
//! ```
//!
//! Rows go down the row first, and then the watermark: so nothing that was in time above is late below.

use std::error::Error;

use arrow_array::RecordBatch;
use highwater::process::{MatchPairs, ProcessOperator, match_pairs};
use highwater::watermark::WatermarkStrategy;
use highwater::{
    Aggregate, FutureGuard, Input, Output, TimeDelta, Window, WindowOperator, WindowOperatorBuilder,
};

use crate::charges::{charge_schema, charges};
use crate::events::{Kind, to_batch};

/// A result, or what went wrong.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What a call has given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    /// Requests, `complete` or `abandoned`.
    pub(crate) requests: Vec<RecordBatch>,
    /// Events whose time cannot be.
    pub(crate) rejected: Vec<RecordBatch>,
    /// What the requests that ended cost.
    pub(crate) charges: Vec<RecordBatch>,
    /// `usd` and `requests` of a tenant and minute. Late ones are charges that are in no bill.
    pub(crate) bills: Output,
    /// `failed` and `requests` of a model and minute.
    pub(crate) errors: Output,
    /// `p50_ms` and `p99_ms` of a model over five minutes.
    pub(crate) latency: Output,
    /// The `model` with the highest `p99_ms`.
    pub(crate) slowest: Output,
}

/// The operators.
pub(crate) struct Job {
    pub(crate) requests: ProcessOperator<MatchPairs>,
    pub(crate) bills: WindowOperator,
    pub(crate) errors: WindowOperator,
    pub(crate) latency: WindowOperator,
    pub(crate) slowest: WindowOperator,
}

/// Everything that a job holds, between two calls: a file for each operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    requests: Vec<u8>,
    bills: Vec<u8>,
    errors: Vec<u8>,
    latency: Vec<u8>,
    slowest: Vec<u8>,
}

/// How the operators are made: anew, or from a snapshot.
struct Plan {
    requests: ProcessOperator<MatchPairs>,
    bills: WindowOperatorBuilder,
    errors: WindowOperatorBuilder,
    latency: WindowOperatorBuilder,
    slowest: WindowOperatorBuilder,
}

impl Plan {
    fn new(partitions: usize, threads: usize) -> Result<Self> {
        use Kind::{ModelError, RequestCompleted, RequestStarted};
        let minute = TimeDelta::from_mins(1);
        let events = Input::new(to_batch(&[])?.schema())
            .event_time("ts")
            .key("request_id")
            .partitions(partitions)
            .watermark(WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_secs(20)))
            .idle_timeout(minute)
            .future_guard(FutureGuard::clock(minute));
        let requests = match_pairs(events)
            .event("event", [RequestStarted.name()], [RequestCompleted.name(), ModelError.name()])
            .abandon_after(TimeDelta::from_mins(5))
            .start_columns(["tenant_id", "model"])
            .end_columns(["event", "prompt_tokens", "completion_tokens", "latency_ms"])
            .threads(threads)
            .build()?;
        let over_charges = |key: &str, window: Window| {
            WindowOperator::builder(charge_schema())
                .event_time("ts")
                .key(key)
                .window(window)
                .watermark(WatermarkStrategy::explicit())
                .threads(threads)
        };
        let bills = over_charges("tenant_id", Window::tumbling(minute))
            .allowed_lateness(TimeDelta::from_mins(2))
            .aggregate(Aggregate::sum("usd").alias("usd"))
            .aggregate(Aggregate::count_all().alias("requests"))
            .firing_column(true);
        let errors = over_charges("model", Window::tumbling(minute))
            .aggregate(Aggregate::sum("failed").alias("failed"))
            .aggregate(Aggregate::count_all().alias("requests"));
        let latency = over_charges("model", Window::sliding(TimeDelta::from_mins(5), minute))
            .aggregate(Aggregate::reservoir_quantile("latency_ms", 0.5, 4_096).alias("p50_ms"))
            .aggregate(Aggregate::reservoir_quantile("latency_ms", 0.99, 4_096).alias("p99_ms"))
            .window_time_column(true);
        let slowest = WindowOperator::builder(latency.clone().build()?.output_schema())
            .event_time("window_time")
            .window(Window::tumbling(minute))
            .watermark(WatermarkStrategy::explicit())
            .aggregate(Aggregate::max_by("model", "p99_ms").alias("model"))
            .aggregate(Aggregate::max("p99_ms").alias("p99_ms"));
        Ok(Plan { requests, bills, errors, latency, slowest })
    }
}

impl Job {
    /// A job for events on so many partitions, with so many threads.
    pub(crate) fn new(partitions: usize, threads: usize) -> Result<Self> {
        let plan = Plan::new(partitions, threads)?;
        Ok(Job {
            requests: plan.requests,
            bills: plan.bills.build()?,
            errors: plan.errors.build()?,
            latency: plan.latency.build()?,
            slowest: plan.slowest.build()?,
        })
    }

    /// Everything that it holds.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot {
            requests: self.requests.snapshot()?,
            bills: self.bills.snapshot()?,
            errors: self.errors.snapshot()?,
            latency: self.latency.snapshot()?,
            slowest: self.slowest.snapshot()?,
        })
    }

    /// The job that a snapshot was taken of. The number of threads may be another one.
    pub(crate) fn restore(partitions: usize, threads: usize, snapshot: &Snapshot) -> Result<Self> {
        let plan = Plan::new(partitions, threads)?;
        Ok(Job {
            requests: plan.requests.restore(&snapshot.requests)?,
            bills: plan.bills.restore(&snapshot.bills)?,
            errors: plan.errors.restore(&snapshot.errors)?,
            latency: plan.latency.restore(&snapshot.latency)?,
            slowest: plan.slowest.restore(&snapshot.slowest)?,
        })
    }

    /// Moves the clock, by which partitions become idle and events are from the future.
    pub(crate) fn advance_clock(&mut self, now: i64) -> Result<Results> {
        let output = self.requests.advance_clock(now)?;
        self.pass_on(output)
    }

    /// Takes in events of several partitions.
    pub(crate) fn push(&mut self, batches: &[(usize, RecordBatch)]) -> Result<Results> {
        let output = self.requests.push_all(batches)?;
        self.pass_on(output)
    }

    /// End of input.
    pub(crate) fn finish(&mut self) -> Result<Results> {
        let output = self.requests.finish()?;
        self.pass_on(output)
    }

    /// The rest of the row, after the first operator.
    fn pass_on(&mut self, requests: Output) -> Result<Results> {
        let watermark = self.requests.current_watermark();
        let charged = requests.fired.iter().map(charges).collect::<Result<_>>()?;
        let charged = Output { fired: charged, ..Output::default() };
        let bills = self.bills.push_results(0, &charged, watermark)?;
        let errors = self.errors.push_results(0, &charged, watermark)?;
        let latency = self.latency.push_results(0, &charged, watermark)?;
        let slowest = self.slowest.push_results(0, &latency, self.latency.current_watermark())?;
        let Output { fired, rejected, .. } = requests;
        Ok(Results { requests: fired, rejected, charges: charged.fired, bills, errors, latency, slowest })
    }
}
