//! What a workload has come to, as JSON and as a line of a table.

use serde_json::json;

use super::load::Load;
use super::measure::{Inspected, Timed};
use super::tally::QUANTILE_ERROR_BOUND;
use super::workload::Workload;
use crate::text::grouped;

/// All numbers of a workload.
pub(super) struct Report<'a> {
    pub(super) workload: Workload,
    pub(super) load: &'a Load,
    /// Distinct keys that the generator draws from, where that is a number to choose.
    pub(super) keys: Option<u64>,
    pub(super) runs: usize,
    pub(super) timed: Timed,
    pub(super) inspected: Inspected,
}

/// A quotient, where it is one.
fn ratio(a: f64, b: f64) -> Option<f64> {
    let ratio = a / b;
    (b > 0.0 && ratio.is_finite()).then_some(ratio)
}

impl Report<'_> {
    fn per_row(&self, nanos: f64) -> Option<f64> {
        ratio(nanos, self.load.rows() as f64)
    }

    fn rows_per_second(&self) -> Option<f64> {
        ratio(self.load.rows() as f64 * 1e9, self.timed.engine.median())
    }

    fn share_of_limit(&self) -> Option<f64> {
        let share = ratio(self.timed.scan.median(), self.timed.engine.median());
        share.filter(|_| self.load.rows() > 0)
    }

    fn answer_ok(&self) -> Option<bool> {
        self.inspected.verdict.as_ref().map(|verdict| verdict.difference.is_none())
    }

    /// One object on one line.
    pub(super) fn json(&self) -> String {
        let (timed, inspected) = (&self.timed, &self.inspected);
        let allocations =
            inspected.allocations.and_then(|(calls, rows)| ratio(calls as f64 * 1e6, rows as f64));
        let mut object = json!({
            "workload": self.workload.name(),
            "threads": self.load.threads(),
            "partitions": self.load.partitions(),
            "rows": self.load.rows(),
            "keys": self.keys,
            "runs": self.runs,
            "rows_per_s": self.rows_per_second(),
            "ns_per_row": self.per_row(timed.engine.median()),
            "best_ns_per_row": self.per_row(timed.engine.best()),
            "worst_ns_per_row": self.per_row(timed.engine.worst()),
            "scan_limit_ns_per_row": self.per_row(timed.scan.median()),
            "share_of_limit": self.share_of_limit(),
            "peak_rss_bytes": timed.peak_rss_bytes,
            "state_bytes": inspected.state_bytes,
            "allocations_per_million_rows": allocations,
            "late_rows": inspected.late_rows,
            "result_rows": timed.results,
            "answer_ok": self.answer_ok(),
        });
        let quantile_error = inspected.verdict.as_ref().and_then(|verdict| verdict.quantile_error);
        if let (true, Some(object)) = (self.load.question.has_quantiles(), object.as_object_mut()) {
            object.insert("quantile_error".into(), json!(quantile_error));
            object.insert("quantile_error_bound".into(), json!(QUANTILE_ERROR_BOUND));
        }
        format!("{object}\n")
    }

    /// A line below [`header`].
    pub(super) fn line(&self) -> String {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        let answer = match self.answer_ok() {
            Some(true) => "ok",
            Some(false) => "WRONG",
            None => "not checked",
        };
        line([
            self.workload.name().to_owned(),
            self.load.threads().to_string(),
            self.load.partitions().to_string(),
            grouped(self.load.rows()),
            number(self.rows_per_second().map(|rate| rate / 1e6), 1),
            number(self.per_row(self.timed.engine.median()), 2),
            number(self.per_row(self.timed.scan.median()), 2),
            number(self.share_of_limit().map(|share| share * 100.0), 1),
            self.timed.peak_rss_bytes.map_or_else(|| "-".to_owned(), mib),
            mib(self.inspected.state_bytes as u64),
            grouped(self.inspected.late_rows),
            answer.to_owned(),
        ])
    }
}

/// The names of the columns, and below each its unit or a rule.
pub(super) fn header() -> String {
    let names = [
        "workload",
        "threads",
        "partitions",
        "rows",
        "speed",
        "time",
        "scan",
        "of limit",
        "memory",
        "state",
        "late",
        "answer",
    ];
    let units = ["", "", "", "", "M rows/s", "ns/row", "ns/row", "%", "MiB", "MiB", "rows", ""];
    line(names.map(str::to_owned)) + &line(units.map(str::to_owned))
}

/// The width of each column; the first and the last are aligned to the left.
const WIDTHS: [usize; 12] = [8, 7, 10, 13, 8, 8, 7, 8, 8, 8, 10, 0];

fn line(cells: [String; 12]) -> String {
    let mut line = format!("{:8}", cells[0]);
    for (cell, width) in cells.iter().zip(WIDTHS).skip(1).take(10) {
        line.push_str(&format!("  {cell:>width$}"));
    }
    line.push_str("  ");
    line.push_str(&cells[11]);
    format!("{}\n", line.trim_end())
}
