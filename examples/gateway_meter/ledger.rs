//! What becomes of results: a sink that keeps the last word on everything, and the versions before it.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, RecordBatch};
use highwater::{LATE_WATERMARK, REJECT_REASON};

use crate::job::Results;

/// A bill of a tenant and minute, as it stood at a firing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bill {
    /// Millionths of a dollar.
    pub(crate) micro_usd: i128,
    /// How many requests it is for.
    pub(crate) requests: i64,
    /// `on_time` or `late`.
    pub(crate) firing: String,
}

/// A charge that came too late for its bill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missed {
    /// Whose it is.
    pub(crate) request_id: String,
    /// When the request ended.
    pub(crate) ts: i64,
    /// Millionths of a dollar.
    pub(crate) micro_usd: i128,
    /// The watermark that it lost to.
    pub(crate) watermark: i64,
}

/// A minute in which more than 5 % of a model's requests failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alert {
    /// When the minute began.
    pub(crate) minute: i64,
    /// The model.
    pub(crate) model: String,
    /// How many failed,
    pub(crate) failed: i64,
    /// of how many.
    pub(crate) requests: i64,
}

/// Everything that the job has found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// By tenant and minute: the bill, and how it was corrected.
    pub(crate) bills: BTreeMap<(String, i64), Vec<Bill>>,
    /// Charges that are in no bill.
    pub(crate) missed: Vec<Missed>,
    /// Requests that never ended, and when they started.
    pub(crate) abandoned: Vec<(String, i64)>,
    /// Events whose time cannot be: request, time, reason.
    pub(crate) rejected: Vec<(String, i64, String)>,
    /// Error rates above 5 %.
    pub(crate) alerts: Vec<Alert>,
    /// By end of five minutes and model: p50 and p99, if any request was answered.
    pub(crate) latency: BTreeMap<(i64, String), (Option<i64>, Option<i64>)>,
    /// By end of five minutes: the model with the highest p99.
    pub(crate) slowest: BTreeMap<i64, String>,
    /// All charges, in millionths of a dollar.
    pub(crate) charged: i128,
}

impl Ledger {
    /// Enters what a call has given.
    pub(crate) fn enter(&mut self, results: &Results) {
        results.requests.iter().for_each(|batch| self.enter_abandoned(batch));
        results.rejected.iter().for_each(|batch| self.enter_rejected(batch));
        for charges in &results.charges {
            self.charged += usd(charges).iter().sum::<i128>();
        }
        results.bills.fired.iter().for_each(|batch| self.enter_bills(batch));
        results.bills.late.iter().for_each(|batch| self.enter_missed(batch));
        results.errors.fired.iter().for_each(|batch| self.enter_alerts(batch));
        for batch in &results.latency.fired {
            let (ends, models) = (times(batch, "window_end"), texts(batch, "model"));
            let quantiles = whole(batch, "p50_ms").into_iter().zip(whole(batch, "p99_ms"));
            self.latency.extend(ends.into_iter().zip(models).zip(quantiles));
        }
        for batch in &results.slowest.fired {
            let models = batch["model"].as_string::<i32>().iter();
            let rows = times(batch, "window_end").into_iter().zip(models);
            self.slowest.extend(rows.filter_map(|(end, model)| Some((end, model?.to_owned()))));
        }
    }

    /// What all bills come to, in millionths of a dollar.
    pub(crate) fn billed(&self) -> i128 {
        self.bills.values().filter_map(|versions| versions.last()).map(|bill| bill.micro_usd).sum()
    }

    fn enter_bills(&mut self, batch: &RecordBatch) {
        let (minutes, requests) = (times(batch, "window_start"), numbers(batch, "requests"));
        let (firings, usd) = (texts(batch, "firing"), usd(batch));
        for (row, tenant) in texts(batch, "tenant_id").into_iter().enumerate() {
            let bill = Bill { micro_usd: usd[row], requests: requests[row], firing: firings[row].clone() };
            self.bills.entry((tenant, minutes[row])).or_default().push(bill);
        }
    }

    fn enter_missed(&mut self, batch: &RecordBatch) {
        let (times, usd) = (times(batch, "ts"), (usd(batch), times(batch, LATE_WATERMARK)));
        for (row, request_id) in texts(batch, "request_id").into_iter().enumerate() {
            let (micro_usd, watermark) = (usd.0[row], usd.1[row]);
            self.missed.push(Missed { request_id, ts: times[row], micro_usd, watermark });
        }
    }

    fn enter_abandoned(&mut self, batch: &RecordBatch) {
        let rows = texts(batch, "request_id").into_iter().zip(times(batch, "started"));
        let statuses = texts(batch, "status");
        let abandoned = rows.zip(statuses).filter(|(_, status)| status == "abandoned");
        self.abandoned.extend(abandoned.map(|(row, _)| row));
    }

    fn enter_rejected(&mut self, batch: &RecordBatch) {
        let rows = texts(batch, "request_id").into_iter().zip(times(batch, "ts"));
        let reasons = texts(batch, REJECT_REASON);
        self.rejected.extend(rows.zip(reasons).map(|((request, ts), reason)| (request, ts, reason)));
    }

    fn enter_alerts(&mut self, batch: &RecordBatch) {
        let (failed, requests) = (numbers(batch, "failed"), numbers(batch, "requests"));
        let minutes = times(batch, "window_start");
        for (row, model) in texts(batch, "model").into_iter().enumerate() {
            let (failed, requests) = (failed[row], requests[row]);
            if failed * 100 > requests * 5 {
                self.alerts.push(Alert { minute: minutes[row], model, failed, requests });
            }
        }
    }
}

fn texts(batch: &RecordBatch, name: &str) -> Vec<String> {
    let column = batch[name].as_string::<i32>();
    (0..column.len()).map(|row| column.value(row).to_owned()).collect()
}

fn numbers(batch: &RecordBatch, name: &str) -> Vec<i64> {
    batch[name].as_primitive::<Int64Type>().values().to_vec()
}

/// Quantiles of whole numbers are whole.
fn whole(batch: &RecordBatch, name: &str) -> Vec<Option<i64>> {
    batch[name].as_primitive::<Float64Type>().iter().map(|ms| ms.map(|ms| ms as i64)).collect()
}

fn times(batch: &RecordBatch, name: &str) -> Vec<i64> {
    batch[name].as_primitive::<TimestampMillisecondType>().values().to_vec()
}

fn usd(batch: &RecordBatch) -> Vec<i128> {
    batch["usd"].as_primitive::<Decimal128Type>().values().to_vec()
}
