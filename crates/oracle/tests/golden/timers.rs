//! Group 09: event-time timers, and the assembler of requests that is built on them.

use std::collections::BTreeMap;

use highwater_oracle::{
    Merge, NONE, Op, Oracle, Pair, Pairs, Reactivation, Row, Spec, Strategy, Timers, Value,
};
use serde_json::Value as Json;

use crate::trace::{group, index, list, text, time};

fn key(item: &Json) -> Vec<Value> {
    vec![Value::Text(text(&item["key"]).to_owned())]
}

/// A call of `onTimer`: at which item, at which time, for which key.
type Call = (usize, i64, String);

/// Flink's calls in their order; of calls at equal times by key, for their order is not defined.
fn flinks_calls(trace: &Json) -> Vec<Call> {
    let call = |timer: &Json| {
        (index(&timer["at_input_index"]), time(&timer["timer_ts"]), text(&timer["key"]).to_owned())
    };
    in_order_of_time(list(&trace["expected"]["timers"]).iter().map(call).collect())
}

/// Sorts calls at equal items and times by key, and leaves everything else in its place.
fn in_order_of_time(mut calls: Vec<Call>) -> Vec<Call> {
    calls.chunk_by_mut(|a, b| (a.0, a.1) == (b.0, b.1)).for_each(<[Call]>::sort);
    calls
}

fn inputs(trace: &Json) -> usize {
    index(&trace["spec"]["watermark"]["partitions"])
}

/// Takes an item that is a watermark, a mark or the end.
fn take(merge: &mut Merge, item: &Json, trace: &Json) {
    if item.get("end").is_some() {
        (0..inputs(trace)).for_each(|p| merge.finish(p));
    } else if let Some(p) = item.get("idle") {
        merge.idle(index(p));
    } else {
        merge.set(index(&item["partition"]), time(&item["watermark"]));
    }
}

/// What `onTimer` of the trace does, besides being called.
fn on_timer(timers: &mut Timers, at: i64, key: &[Value], does: &Json, calls_of_key: usize) {
    if let Some(delta) = does.get("register_delta_ms")
        && calls_of_key < index(&does["max_fires_per_key"])
    {
        timers.register(key, at + time(delta));
    }
    if let Some(delta) = does.get("delete_delta_ms") {
        timers.delete(key, at + time(delta));
    }
}

fn check_timers(trace: &Json) -> usize {
    let name = text(&trace["name"]);
    let mut merge = Merge::new(inputs(trace), Reactivation::WhenCaughtUp);
    let mut timers = Timers::new();
    let (mut calls, mut seen): (Vec<Call>, Vec<(usize, i64)>) = (vec![], vec![]);
    let mut calls_of_key: BTreeMap<Vec<Value>, usize> = BTreeMap::new();
    for (i, item) in list(&trace["input"]).iter().enumerate() {
        if item.get("ts").is_none() {
            take(&mut merge, item, trace);
            timers.advance(merge.watermark(), |timers, at, key| {
                let Some(Value::Text(name)) = key.first() else { unreachable!("{key:?}") };
                calls.push((i, at, name.clone()));
                let calls_of_key = calls_of_key.entry(key.to_vec()).or_default();
                *calls_of_key += 1;
                on_timer(timers, at, key, &trace["spec"]["on_timer"], *calls_of_key);
            });
            continue;
        }
        seen.push((i, merge.watermark()));
        match text(&item["op"]) {
            "register" => timers.register(&key(item), time(&item["timer_ts"])),
            "delete" => timers.delete(&key(item), time(&item["timer_ts"])),
            _ => {}
        }
    }
    let flinks_seen: Vec<(usize, i64)> = list(&trace["expected"]["seen"])
        .iter()
        .map(|seen| (index(&seen["input_index"]), time(&seen["current_watermark"])))
        .collect();
    assert_eq!(seen, flinks_seen, "{name}: watermarks seen");
    assert_eq!(in_order_of_time(calls), flinks_calls(trace), "{name}: calls of onTimer");
    list(&trace["expected"]["timers"]).len()
}

/// The merged watermark after each item of an assembler's trace, by explicit watermarks or by a generator: what a row
/// says moves the watermark after the row.
fn watermarks(trace: &Json) -> Vec<i64> {
    let watermark = &trace["spec"]["watermark"];
    let strategy = match text(&watermark["strategy"]) {
        "bounded" => Strategy::Bounded(time(&watermark["bound_ms"])),
        _ => Strategy::Explicit,
    };
    let mut oracle = Oracle::new(Spec { strategy, ..Spec::tumbling(1) });
    let after = |item: &Json| {
        let op = if let Some(ts) = item.get("ts") {
            Op::Push(0, vec![Row { time: Some(time(ts)), ..Row::default() }])
        } else if let Some(w) = item.get("watermark") {
            Op::Watermark(0, time(w))
        } else {
            Op::Finish
        };
        oracle.apply(&op).expect("golden input is valid");
        oracle.watermark()
    };
    list(&trace["input"]).iter().map(after).collect()
}

/// A record of the assembler: at which item, the item of its start, and of its end if it was not abandoned.
type Record = (usize, usize, Option<usize>);

fn record(item: usize, pair: &Pair, item_of_row: &[usize]) -> Record {
    let of = |row: u64| item_of_row[row as usize];
    (item, of(pair.start.row), pair.end.map(|end| of(end.row)))
}

/// Flink's record has what it took from the two rows.
fn check_record(ours: &Record, flinks: &Json, trace: &Json) {
    let (item, start, end) = *ours;
    assert_eq!(item, index(&flinks["at_input_index"]), "{flinks}");
    let start = &trace["input"][start];
    let common =
        [("key", "key"), ("tenant", "tenant"), ("started_ts", "ts"), ("prompt_tokens", "prompt_tokens")];
    for (name, of_start) in common {
        assert_eq!(flinks[name], start[of_start], "{flinks}, {start}");
    }
    let Some(end) = end.map(|end| &trace["input"][end]) else {
        assert_eq!((text(&flinks["status"]), text(&flinks["cause"])), ("abandoned", "timer"), "{flinks}");
        return;
    };
    let of_end = [
        ("completed_ts", "ts"),
        ("latency_ms", "latency_ms"),
        ("completion_tokens", "completion_tokens"),
        ("status", "status"),
    ];
    for (name, of_end) in of_end {
        assert_eq!(flinks[name], end[of_end], "{flinks}, {end}");
    }
}

fn check_assembler(trace: &Json) -> usize {
    let name = text(&trace["name"]);
    let mut pairs = Pairs::new(time(&trace["spec"]["abandon_ms"]));
    let (mut records, mut item_of_row, mut timers): (Vec<Record>, Vec<usize>, u64) = (vec![], vec![], 0);
    let after = watermarks(trace);
    for (i, item) in list(&trace["input"]).iter().enumerate() {
        if item.get("event").is_some() {
            item_of_row.push(i);
        }
        match item.get("event").map(text) {
            Some("RequestStarted") => pairs.start(&key(item), time(&item["ts"])),
            Some(_) => {
                let pair = pairs.end(&key(item), time(&item["ts"]));
                records.extend(pair.map(|pair| record(i, &pair, &item_of_row)));
            }
            None => {}
        }
        let abandoned = pairs.advance(after[i]);
        pairs.validate();
        records.extend(abandoned.iter().map(|pair| record(i, pair, &item_of_row)));
        let calls = pairs.counters().abandoned + pairs.counters().stale_timers - timers;
        timers += calls;
        let flinks = list(&trace["expected"]["timers"]).iter().filter(|t| index(&t["at_input_index"]) == i);
        assert_eq!(calls as usize, flinks.count(), "{name}: timers at item {i}");
    }
    let flinks = list(&trace["expected"]["outputs"]);
    assert_eq!(records.len(), flinks.len(), "{name}");
    records.iter().zip(flinks).for_each(|(ours, flinks)| check_record(ours, flinks, trace));
    let flinks_watermarks: Vec<i64> =
        list(&trace["expected"]["watermarks"]).iter().map(|w| time(&w["value"])).collect();
    let mut ours = after;
    ours.dedup();
    ours.retain(|&w| w != NONE);
    assert_eq!(ours, flinks_watermarks, "{name}");
    flinks.len()
}

#[test]
fn group_09_timers() {
    let (mut timers, mut assemblers) = ((0, 0), (0, 0));
    for trace in group("09_timers") {
        match text(&trace["kind"]) {
            "timers" => timers = (timers.0 + 1, timers.1 + check_timers(&trace)),
            _ => assemblers = (assemblers.0 + 1, assemblers.1 + check_assembler(&trace)),
        }
    }
    assert_eq!((timers, assemblers), ((13, 1805), (10, 738)));
}
