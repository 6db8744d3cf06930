//! Triggers and evictors, as a trace names them.

use highwater::TimeDelta;
use serde_json::Value as Json;

use super::json::{flag, index, int, text};

/// When a window fires, and whether that empties it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trigger {
    pub(crate) when: When,
    pub(crate) purging: bool,
}

/// Deltas are those of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    EventTime,
    EarlyCount(u64),
    EarlyEventTime(i64),
    Count(u64),
    Delta(i64),
}

impl Trigger {
    pub(crate) const EVENT_TIME: Trigger = Trigger { when: When::EventTime, purging: false };

    /// The trigger of a specification. The inner error is what the engine has no such thing for.
    pub(crate) fn read(spec: &Json) -> Result<Result<Trigger, String>, String> {
        let window = &spec["window"];
        let never = window["kind"] == "global" && !flag(window, "end_of_stream_trigger");
        Trigger::of(&spec["trigger"], never)
    }

    /// `never`: whether the default of the windows is not to fire at all.
    fn of(json: &Json, never: bool) -> Result<Result<Trigger, String>, String> {
        let kind = if json.is_null() { "default" } else { text(json, "kind")? };
        let count = || Ok::<_, String>(index(json, "n")? as u64);
        let when = match kind {
            "default" if never => return Ok(Err("windows that never fire".into())),
            "default" | "event_time" => When::EventTime,
            "early_count" => When::EarlyCount(count()?),
            "continuous_event_time" => When::EarlyEventTime(int(json, "interval_ms")?),
            "count" => When::Count(count()?),
            "delta" => When::Delta(int(json, "threshold")?),
            "purging" => {
                let inner = Trigger::of(&json["inner"], never)?;
                return Ok(inner.map(|inner| Trigger { purging: true, ..inner }));
            }
            other => return Ok(Err(format!("trigger {other}"))),
        };
        Ok(Ok(Trigger { when, purging: false }))
    }

    pub(crate) fn engines(&self) -> highwater::Trigger {
        let trigger = match self.when {
            When::EventTime => highwater::Trigger::event_time(),
            When::EarlyCount(rows) => highwater::Trigger::early_count(rows),
            When::EarlyEventTime(interval) => {
                highwater::Trigger::early_event_time(TimeDelta::from_millis(interval))
            }
            When::Count(rows) => highwater::Trigger::count(rows),
            When::Delta(threshold) => highwater::Trigger::delta("value", threshold as f64),
        };
        if self.purging { trigger.purging() } else { trigger }
    }

    /// Whether the watermark makes windows fire, at their end at least.
    pub(crate) fn is_by_time(&self) -> bool {
        !matches!(self.when, When::Count(_) | When::Delta(_))
    }

    /// Whether it is the watermark that makes windows fire early.
    pub(crate) fn is_early_by_time(&self) -> bool {
        matches!(self.when, When::EarlyEventTime(_))
    }

    /// Whether it is rows that make windows fire early.
    pub(crate) fn is_early_by_row(&self) -> bool {
        matches!(self.when, When::EarlyCount(_) | When::Count(_) | When::Delta(_))
    }
}

/// Which rows a window keeps when it fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evictor {
    pub(crate) keeps: Keeps,
    /// After the results are computed, not before.
    pub(crate) after: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    Last(usize),
    Recent(i64),
    Near(i64),
}

impl Evictor {
    /// The evictor of a specification, if it has one. The inner error is what the engine has no such thing for.
    pub(crate) fn read(spec: &Json) -> Result<Result<Option<Evictor>, String>, String> {
        let json = &spec["evictor"];
        if json.is_null() {
            return Ok(Ok(None));
        }
        let keeps = match text(json, "kind")? {
            "count" => Keeps::Last(index(json, "n")?),
            "time" => Keeps::Recent(int(json, "keep_ms")?),
            "delta" => Keeps::Near(int(json, "threshold")?),
            other => return Ok(Err(format!("evictor {other}"))),
        };
        Ok(Ok(Some(Evictor { keeps, after: flag(json, "after") })))
    }

    pub(crate) fn engines(&self) -> highwater::Evictor {
        let evictor = match self.keeps {
            Keeps::Last(rows) => highwater::Evictor::count(rows as u64),
            Keeps::Recent(keep) => highwater::Evictor::time(TimeDelta::from_millis(keep)),
            Keeps::Near(threshold) => highwater::Evictor::delta("value", threshold as f64),
        };
        if self.after { evictor.after() } else { evictor }
    }
}
