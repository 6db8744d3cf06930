//! How an input is described, in words.

use super::Input;
use crate::event_time::Reference;
use crate::watermark::{Cadence, WatermarkStrategy};

impl Input {
    /// A line for everything that the meaning of a saved state depends on. The number of partitions is none of it, nor is
    /// what only says how far apart they may drift.
    pub(crate) fn describe(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for (number, field) in self.schema.fields().iter().enumerate() {
            lines.push(format!("column {number}: {:?} {}", field.name(), field.data_type()));
        }
        lines.push(format!("event_time: {:?}", self.event_time.as_deref().unwrap_or_default()));
        lines.extend(self.event_time_unit.map(|unit| format!("event_time_unit: {unit:?}")));
        lines.extend(self.keys.iter().enumerate().map(|(number, key)| format!("key {number}: {key:?}")));
        lines.extend(self.watermark.as_ref().map(|strategy| format!("watermark: {}", describe(strategy))));
        let cadence = match self.cadence {
            Cadence::EveryRow => "every row".into(),
            Cadence::EveryBatch => "every batch".into(),
            Cadence::Every(interval) => format!("every {interval}"),
            Cadence::OnRequest => "on request".into(),
        };
        lines.push(format!("cadence: {cadence}"));
        lines.push(format!("null_policy: {:?}", self.null_policy));
        lines.extend(self.future_guard.as_ref().map(|guard| match &guard.reference {
            Reference::Clock => format!("future_guard: {} past the clock", guard.max_future),
            Reference::IngestTime(column) => format!("future_guard: {} past {column:?}", guard.max_future),
        }));
        lines.extend(self.idle_timeout.map(|timeout| format!("idle_timeout: {timeout}")));
        lines.push(format!("reactivation: {:?}", self.reactivation));
        lines
    }
}

fn describe(strategy: &WatermarkStrategy) -> String {
    match strategy {
        WatermarkStrategy::BoundedOutOfOrderness(bound) => format!("out of order by {bound}"),
        WatermarkStrategy::Ascending => "ascending".into(),
        WatermarkStrategy::Delay(delay) => format!("delay {delay}"),
        WatermarkStrategy::Explicit => "explicit".into(),
        WatermarkStrategy::Punctuated(column) => format!("punctuated by {column:?}"),
        WatermarkStrategy::Custom(generator) => format!("{generator:?}"),
    }
}
