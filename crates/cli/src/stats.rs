//! What a run has counted: the JSON of `--stats`, and the summary for people.

use std::time::Duration;

use arrow_schema::DataType;
use highwater::watermark::{NONE, PartitionStatus};
use highwater::{Metrics, RowCounts, TickUnit, WindowOperator};
use serde_json::{Map, Value, json};

use crate::text::{counted, grouped, watermark_text};

/// Where things stood when the last input ended, before that fired what was left.
pub(crate) struct AtEnd {
    watermark: i64,
    held_back_by: Option<usize>,
    windows_fired: u64,
    results: u64,
}

impl AtEnd {
    pub(crate) fn of(operator: &WindowOperator) -> Self {
        let metrics = operator.metrics();
        AtEnd {
            watermark: metrics.watermark,
            held_back_by: operator.holding_back(),
            windows_fired: metrics.windows_fired,
            results: results(&metrics),
        }
    }
}

/// Everything to be told about a run.
pub(crate) struct Report<'a> {
    pub(crate) metrics: Metrics,
    pub(crate) at_end: AtEnd,
    /// The partitions by number.
    pub(crate) names: &'a [String],
    pub(crate) time_type: DataType,
    pub(crate) tick_unit: TickUnit,
    pub(crate) late_kept: bool,
    pub(crate) rejected_kept: bool,
    pub(crate) elapsed: Duration,
}

impl Report<'_> {
    fn watermark(&self, ticks: i64) -> Value {
        let number = if ticks == NONE { Value::Null } else { json!(ticks) };
        json!({"ticks": number, "text": watermark_text(ticks, &self.time_type)})
    }

    /// The JSON of `--stats`: one object, with a line end.
    pub(crate) fn json(&self) -> String {
        let metrics = &self.metrics;
        let partitions = metrics.partitions.iter().zip(self.names).map(|(partition, name)| {
            let mut object = Map::new();
            object.insert("name".into(), json!(name));
            object.insert("status".into(), json!(status_text(partition.status)));
            object.insert("watermark".into(), self.watermark(partition.watermark));
            object.insert("watermark_regressions".into(), json!(partition.watermark_regressions));
            object.extend(counts(&partition.rows));
            Value::Object(object)
        });
        let mut whole = Map::new();
        whole.insert("tick_unit".into(), json!(self.tick_unit.to_string()));
        whole.extend(counts(&metrics.total));
        whole.insert("windows_fired".into(), json!(metrics.windows_fired));
        whole.insert("results_early".into(), json!(metrics.fired_early));
        whole.insert("results_on_time".into(), json!(metrics.fired_on_time));
        whole.insert("results_late".into(), json!(metrics.fired_late));
        let fired_at_end = metrics.windows_fired - self.at_end.windows_fired;
        whole.insert(
            "before_end_of_input".into(),
            json!({
                "watermark": self.watermark(self.at_end.watermark),
                "held_back_by": self.held_back_by(),
                "windows_held_back": fired_at_end,
                "results_held_back": results(metrics) - self.at_end.results,
            }),
        );
        whole.insert("watermark".into(), self.watermark(metrics.watermark));
        whole.insert("partitions".into(), partitions.collect());
        format!("{:#}\n", Value::Object(whole))
    }

    /// The summary on stderr.
    pub(crate) fn summary(&self) -> String {
        let (metrics, total) = (&self.metrics, &self.metrics.total);
        let rate = total.rows_in as f64 / self.elapsed.as_secs_f64().max(0.001);
        let mut lines = vec![format!(
            "{} in {}: {} taken, {} late, {} rejected{} ({:.2} s, {} rows/s)",
            counted(total.rows_in, "row"),
            counted(self.names.len() as u64, "partition"),
            grouped(total.taken),
            grouped(total.dropped_late),
            grouped(total.rejected()),
            if total.no_window > 0 {
                format!(", {} in no window", grouped(total.no_window))
            } else {
                String::new()
            },
            self.elapsed.as_secs_f64(),
            grouped(rate as u64),
        )];
        let more = [(metrics.fired_early, "early result"), (metrics.fired_late, "late update")];
        let more = more.iter().filter(|(results, _)| *results > 0);
        let more: Vec<String> = more.map(|(results, what)| counted(*results, what)).collect();
        let more = if more.is_empty() { String::new() } else { format!(", and {}", more.join(", ")) };
        lines.push(format!(
            "{} fired: {}{more}",
            counted(metrics.windows_fired, "window"),
            counted(metrics.fired_on_time, "result")
        ));
        lines.push(self.held_back());
        if total.dropped_late > 0 && !self.late_kept {
            lines.push(format!(
                "{} only counted; --late PATH keeps them",
                counted(total.dropped_late, "late row")
            ));
        }
        if total.rejected() > 0 {
            let hint = if self.rejected_kept { "" } else { "; --rejected PATH keeps them" };
            lines.push(format!("rejected: {}{hint}", reasons(total)));
        }
        lines.join("\n")
    }

    /// The name of the partition that held the watermark back; without rows, --partition-by has found none.
    fn held_back_by(&self) -> Option<&String> {
        self.at_end.held_back_by.and_then(|partition| self.names.get(partition))
    }

    fn held_back(&self) -> String {
        let at = watermark_text(self.at_end.watermark, &self.time_type);
        let windows = self.metrics.windows_fired - self.at_end.windows_fired;
        let by = self.held_back_by().map_or_else(String::new, |name| format!(", held back by {name}"));
        format!(
            "when the input ended the watermark was {at}{by}; {} still held back, and fired then",
            counted(windows, "window")
        )
    }
}

/// All results but retractions.
fn results(metrics: &Metrics) -> u64 {
    metrics.fired_early + metrics.fired_on_time + metrics.fired_late
}

fn status_text(status: PartitionStatus) -> &'static str {
    match status {
        PartitionStatus::Active => "active",
        PartitionStatus::Idle => "idle",
        PartitionStatus::Finished | PartitionStatus::Removed => "finished",
    }
}

fn reasons(total: &RowCounts) -> String {
    let reasons = [
        (total.rejected_null, "null_event_time"),
        (total.rejected_future, "future_event_time"),
        (total.rejected_reference, "null_ingest_time"),
    ];
    let given = reasons.iter().filter(|(rows, _)| *rows > 0);
    given.map(|(rows, reason)| format!("{} {reason}", grouped(*rows))).collect::<Vec<_>>().join(", ")
}

fn counts(rows: &RowCounts) -> Map<String, Value> {
    [
        ("rows_in", rows.rows_in),
        ("taken", rows.taken),
        ("dropped_late", rows.dropped_late),
        ("no_window", rows.no_window),
        ("rejected_null", rows.rejected_null),
        ("rejected_future", rows.rejected_future),
        ("rejected_reference", rows.rejected_reference),
        ("late_taken", rows.late_taken),
        ("partly_late", rows.partly_late),
    ]
    .into_iter()
    .map(|(name, number)| (name.to_string(), json!(number)))
    .collect()
}
