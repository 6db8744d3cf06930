//! What a trace asks for: its specification and its calls, in the oracle's words.

use highwater_oracle::{
    Cadence, Eviction, Evictor, Function, LateFiring, Op, Oracle, Reactivation, Row, Spec, Strategy, Trigger,
    Value, Windows,
};
use serde_json::Value as Json;

use crate::trace::{index, list, text, time};

fn function(name: &str) -> Function {
    match name {
        "count" => Function::CountAll,
        "sum" => Function::Sum,
        "min" => Function::Min,
        "max" => Function::Max,
        "p50" => Function::Quantile(0.5),
        "p99" => Function::Quantile(0.99),
        "members" => Function::Members,
        other => unreachable!("aggregate {other}"),
    }
}

/// The names of the result columns.
pub(crate) fn columns(trace: &Json) -> Vec<&str> {
    let mut names: Vec<&str> = list(&trace["spec"]["aggregates"]).iter().map(text).collect();
    if trace["spec"]["members"] == true {
        names.push("members");
    }
    names
}

/// The windows of a trace.
pub(crate) fn window(json: &Json) -> Windows {
    let or_zero = |name: &str| json.get(name).map_or(0, time);
    let size = or_zero("size_ms");
    match text(&json["kind"]) {
        "tumbling" => Windows::Aligned { size, slide: size, offset: or_zero("offset_ms") },
        "sliding" => Windows::Aligned { size, slide: time(&json["slide_ms"]), offset: or_zero("offset_ms") },
        "cumulate" => Windows::Cumulate { size, step: time(&json["step_ms"]), offset: or_zero("offset_ms") },
        "session" => Windows::Session { gap: time(&json["gap_ms"]) },
        "session_dynamic" => Windows::SessionByValue { column: 0 },
        "global" => Windows::Global,
        other => unreachable!("windows {other}"),
    }
}

/// A trigger, and whether it purges.
fn trigger(json: &Json) -> (Trigger, bool) {
    let count = || json["n"].as_u64().expect("a count");
    let trigger = match text(&json["kind"]) {
        "event_time" | "default" => Trigger::EventTime,
        "count" => Trigger::Count(count()),
        "early_count" => Trigger::EarlyCount(count()),
        "continuous_event_time" => Trigger::EarlyEventTime(time(&json["interval_ms"])),
        "delta" => Trigger::Delta { column: 0, threshold: time(&json["threshold"]) as f64 },
        "purging" => return (trigger(&json["inner"]).0, true),
        other => unreachable!("trigger {other}"),
    };
    (trigger, false)
}

fn evictor(json: &Json) -> Evictor {
    let rule = match text(&json["kind"]) {
        "count" => Eviction::Count(json["n"].as_u64().expect("a count")),
        "time" => Eviction::Time(time(&json["keep_ms"])),
        "delta" => Eviction::Delta { column: 0, threshold: time(&json["threshold"]) as f64 },
        other => unreachable!("evictor {other}"),
    };
    Evictor { rule, after: json.get("after").is_some_and(|after| after == true) }
}

pub(crate) fn spec(trace: &Json) -> Spec {
    let watermark = &trace["spec"]["watermark"];
    let (trigger, purging) = trigger(&trace["spec"]["trigger"]);
    Spec {
        trigger,
        purging,
        evictor: trace["spec"].get("evictor").map(evictor),
        allowed_lateness: time(&trace["spec"]["allowed_lateness_ms"]),
        strategy: match text(&watermark["strategy"]) {
            "bounded" => Strategy::Bounded(time(&watermark["bound_ms"])),
            "ascending" => Strategy::Ascending,
            "max_ts_minus_delay" => Strategy::Delay(time(&watermark["delay_ms"])),
            "none" | "explicit" => Strategy::Explicit,
            other => unreachable!("strategy {other}"),
        },
        cadence: match text(&watermark["emit"]) {
            "on-marker" => Cadence::OnRequest,
            _ => Cadence::EveryRow,
        },
        reactivation: match text(&watermark["merge"]) {
            "multiplexer" => Reactivation::AtOnce,
            _ => Reactivation::WhenCaughtUp,
        },
        partitions: index(&watermark["partitions"]),
        late_firing: LateFiring::PerRow,
        aggregates: columns(trace).into_iter().map(|name| (function(name), 0)).collect(),
        ..Spec::over(window(&trace["spec"]["window"]))
    }
}

pub(crate) fn row(item: &Json) -> Row {
    Row {
        time: Some(time(&item["ts"])),
        key: vec![Value::Text(text(&item["key"]).to_owned())],
        values: vec![Value::Int(time(&item["value"]))],
        ..Row::default()
    }
}

/// The call that an input item stands for; `None` for a watermark that Flink's valve ignores because the input is
/// idle and has not been marked active.
pub(crate) fn op(item: &Json, oracle: &Oracle, trace: &Json) -> Option<Op> {
    let partition = || item.get("partition").map_or(0, index);
    Some(if item.get("ts").is_some() {
        Op::Push(partition(), vec![row(item)])
    } else if let Some(w) = item.get("watermark") {
        if oracle.is_idle(partition()) && trace["spec"]["watermark"]["merge"] == "valve" {
            return None;
        }
        Op::Watermark(partition(), time(w))
    } else if let Some(p) = item.get("idle") {
        Op::MarkIdle(index(p))
    } else if let Some(p) = item.get("active") {
        Op::MarkActive(index(p))
    } else if item.get("periodic").is_some() {
        Op::EmitWatermarks
    } else {
        assert!(item.get("end").is_some(), "{item}");
        Op::Finish
    })
}
