//! When windows fire, and what they keep for it.

use arrow_schema::Schema;

use crate::accumulator::is_number;
use crate::error::{Error, Result};
use crate::input::find;
use crate::time::{TickConverter, TimeDelta};

/// When the results of a window are given, one key at a time. The default is [`event_time`](Trigger::event_time): once, when
/// the watermark passes the end of the window, and again for late rows.
///
/// ```
/// use highwater::{TimeDelta, Trigger};
/// let every_minute = Trigger::early_event_time(TimeDelta::from_mins(1));
/// let batches_of_100 = Trigger::count(100).purging();
/// assert_eq!(every_minute.to_string(), "event time, early every 1m");
/// assert_eq!(batches_of_100.to_string(), "every 100 rows, purging");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    when: When,
    purging: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum When {
    EventTime,
    EarlyCount(u64),
    EarlyEventTime(TimeDelta),
    EarlyClock(TimeDelta),
    Count(u64),
    Delta { column: String, threshold: f64 },
}

/// A [`Trigger`] in ticks and column numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TriggerRule {
    pub(crate) when: Rule,
    /// Whether a firing empties the window.
    pub(crate) purging: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    EventTime,
    EarlyCount(u64),
    EarlyEventTime(i64),
    EarlyClock(i64),
    Count(u64),
    Delta { column: usize, threshold: f64 },
}

impl Trigger {
    /// When the watermark passes the end of the window, and for late rows after that.
    pub fn event_time() -> Self {
        Trigger { when: When::EventTime, purging: false }
    }
    /// As [`event_time`](Trigger::event_time), and before that after every `rows` rows of the key in the window.
    pub fn early_count(rows: u64) -> Self {
        Trigger { when: When::EarlyCount(rows), purging: false }
    }
    /// As [`event_time`](Trigger::event_time), and before that whenever the watermark passes a multiple of `interval`
    /// (Flink's `ContinuousEventTimeTrigger`).
    pub fn early_event_time(interval: impl Into<TimeDelta>) -> Self {
        Trigger { when: When::EarlyEventTime(interval.into()), purging: false }
    }
    /// As [`event_time`](Trigger::event_time), and before that whenever the injected clock passes a multiple of `interval`
    /// and rows have come since the last firing (Flink's `ContinuousProcessingTimeTrigger`).
    pub fn early_clock(interval: impl Into<TimeDelta>) -> Self {
        Trigger { when: When::EarlyClock(interval.into()), purging: false }
    }
    /// After every `rows` rows of the key in the window, and at no other time (Flink's `CountTrigger`): what is left when the
    /// window ends never fires.
    pub fn count(rows: u64) -> Self {
        Trigger { when: When::Count(rows), purging: false }
    }
    /// When the value of `column` exceeds that at the last firing by more than `threshold` (Flink's `DeltaTrigger`), and at
    /// no other time. The first row of a window sets the mark; a null is passed over.
    pub fn delta(column: impl Into<String>, threshold: f64) -> Self {
        Trigger { when: When::Delta { column: column.into(), threshold }, purging: false }
    }
    /// Empties the window after each firing (Flink's `PurgingTrigger`).
    pub fn purging(mut self) -> Self {
        self.purging = true;
        self
    }

    pub(crate) fn check(&self, schema: &Schema, ticks: &TickConverter) -> Result<TriggerRule> {
        let when = match &self.when {
            When::EventTime => Rule::EventTime,
            When::EarlyCount(rows) => Rule::EarlyCount(*rows),
            When::EarlyEventTime(interval) => {
                Rule::EarlyEventTime(ticks.length("trigger interval", *interval)?)
            }
            When::EarlyClock(interval) => Rule::EarlyClock(ticks.length("trigger interval", *interval)?),
            When::Count(rows) => Rule::Count(*rows),
            When::Delta { column, threshold } => {
                let index = find(schema, "trigger", column)?;
                let given = schema.field(index).data_type();
                if !is_number(given) {
                    return Err(Error::ColumnType {
                        parameter: "trigger".into(),
                        column: column.clone(),
                        given: given.to_string(),
                        allowed: "integers, floats and Decimal128".into(),
                    });
                }
                if threshold.is_nan() {
                    return Err(Error::invalid("trigger threshold", threshold, "a number"));
                }
                Rule::Delta { column: index, threshold: *threshold }
            }
        };
        Ok(TriggerRule { when, purging: self.purging })
    }
}

impl Default for Trigger {
    fn default() -> Self {
        Trigger::event_time()
    }
}

impl std::fmt::Display for Trigger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.when {
            When::EventTime => write!(f, "event time"),
            When::EarlyCount(rows) => write!(f, "event time, early every {rows} rows"),
            When::EarlyEventTime(interval) => write!(f, "event time, early every {interval}"),
            When::EarlyClock(interval) => write!(f, "event time, early every {interval} of the clock"),
            When::Count(rows) => write!(f, "every {rows} rows"),
            When::Delta { column, threshold } => write!(f, "when {column:?} exceeds by {threshold}"),
        }?;
        if self.purging { write!(f, ", purging") } else { Ok(()) }
    }
}
