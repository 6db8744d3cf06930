//! Groups 04, 05, 11 and 12: rows in, firings out.

use std::collections::BTreeMap;

use highwater_oracle::{
    Cadence, Counters, Eviction, Evictor, Firing, Function, Kind, LateFiring, MAX, Op, Oracle, Output,
    Reactivation, Row, Spec, Strategy, Trigger, Value, Windows, windows,
};
use serde_json::Value as Json;

use crate::trace::{group, has_tag, index, list, text, time};

/// The traces of windows, but for those that are refused.
fn is_ours(trace: &Json) -> bool {
    trace["kind"] == "window" && !has_tag(trace, "refused")
}

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
fn columns(trace: &Json) -> Vec<&str> {
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

fn row(item: &Json) -> Row {
    Row {
        time: Some(time(&item["ts"])),
        key: vec![Value::Text(text(&item["key"]).to_owned())],
        values: vec![Value::Int(time(&item["value"]))],
        ..Row::default()
    }
}

/// The call that an input item stands for; `None` for a watermark that Flink's valve ignores because the input is
/// idle and has not been marked active.
fn op(item: &Json, oracle: &Oracle, trace: &Json) -> Option<Op> {
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

/// A firing in the words of the trace, comparable: by kind, end, start, key.
type Fact = (Kind, i64, i64, String, Vec<String>);

fn our_fact(firing: &Firing, index_of_row: &[usize], columns: &[&str]) -> Fact {
    let show = |(value, column): (&Value, &&str)| match value {
        Value::Text(rows) if *column == "members" => {
            let indices =
                rows.split(',').map(|r| index_of_row[r.parse::<usize>().expect("a row")].to_string());
            indices.collect::<Vec<_>>().join(",")
        }
        Value::Int(i) => i.to_string(),
        other => unreachable!("{other:?}"),
    };
    let Some(Value::Text(key)) = firing.key.first() else { unreachable!("{firing:?}") };
    let values = firing.values.iter().zip(columns).map(show).collect();
    (firing.kind, firing.end, firing.start, key.clone(), values)
}

fn flinks_fact(firing: &Json, columns: &[&str]) -> Fact {
    let show = |column: &&str| match &firing[*column] {
        Json::Array(members) => members.iter().map(Json::to_string).collect::<Vec<_>>().join(","),
        number => time(number).to_string(),
    };
    let kind = match (text(&firing["firing"]), text(&firing["cause"])) {
        ("main", "timer") => Kind::OnTime,
        ("late", "element") => Kind::Late,
        other => unreachable!("{other:?}"),
    };
    let values = columns.iter().map(show).collect();
    (kind, time(&firing["end"]), time(&firing["start"]), text(&firing["key"]).to_owned(), values)
}

#[derive(Debug, Default)]
struct Replay {
    /// What the oracle said, call by call.
    outputs: Vec<Output>,
    /// `outputs` for the traces' words: firings by input index.
    firings: BTreeMap<usize, Vec<Fact>>,
    late: Vec<usize>,
    /// The merged watermark after each input item that moved it.
    watermarks: Vec<(usize, i64)>,
    /// The sum over the partitions.
    counters: Counters,
}

fn replay(trace: &Json) -> Replay {
    let mut oracle = Oracle::new(spec(trace));
    let columns = columns(trace);
    let mut index_of_row = Vec::new();
    let mut replay = Replay::default();
    for (i, item) in list(&trace["input"]).iter().enumerate() {
        let before = oracle.watermark();
        let Some(op) = op(item, &oracle, trace) else { continue };
        if matches!(op, Op::Push(..)) {
            index_of_row.push(i);
        }
        let output = oracle.apply(&op).expect("golden input is valid");
        oracle.validate();
        assert!(output.rejected.is_empty());
        replay.late.extend(output.late.iter().map(|late| index_of_row[late.row as usize]));
        assert!(output.late.iter().all(|late| late.watermark == before));
        if oracle.watermark() != before {
            replay.watermarks.push((i, oracle.watermark()));
        }
        let facts: Vec<Fact> = output.fired.iter().map(|f| our_fact(f, &index_of_row, &columns)).collect();
        let order: Vec<_> =
            facts.iter().map(|(kind, end, start, ..)| (*kind == Kind::OnTime, *end, *start)).collect();
        assert!(
            order.is_sorted(),
            "item {i}: the row's late firings, then the watermark's, by end, then start"
        );
        if !facts.is_empty() {
            replay.firings.insert(i, facts);
        }
        replay.outputs.push(output);
    }
    for p in 0..index(&trace["spec"]["watermark"]["partitions"]) {
        let c = oracle.counters(p);
        replay.counters.rows_in += c.rows_in;
        replay.counters.taken += c.taken;
        replay.counters.dropped_late += c.dropped_late;
        replay.counters.no_window += c.no_window;
    }
    replay
}

/// Compares a trace with the oracle; returns the number of Flink's firings.
fn check(trace: &Json) -> usize {
    let name = text(&trace["name"]);
    let columns = columns(trace);
    let ours = replay(trace);
    let expected = &trace["expected"];

    // Firings, item by item. Among equal ends Flink's order is not defined, and late ones come newest window first.
    let mut flinks: BTreeMap<usize, Vec<Fact>> = BTreeMap::new();
    for firing in list(&expected["firings"]) {
        flinks.entry(index(&firing["at_input_index"])).or_default().push(flinks_fact(firing, &columns));
    }
    let sorted = |firings: &BTreeMap<usize, Vec<Fact>>| {
        let mut firings = firings.clone();
        firings.values_mut().for_each(|facts| facts.sort());
        firings
    };
    let (found, flinks) = (sorted(&ours.firings), sorted(&flinks));
    for item in 0..list(&trace["input"]).len() {
        assert_eq!(found.get(&item), flinks.get(&item), "{name}: firings at input item {item}");
    }

    // Dropped rows. A row in a gap is `no_window` here, whatever Flink made of it.
    let spec = spec(trace);
    let items = list(&trace["input"]);
    let in_gap = |i: &usize| windows(&spec, time(&items[*i]["ts"])).is_empty();
    let side_output = trace["spec"]["late_side_output"] == true;
    let dropped = if side_output { &expected["late"] } else { &expected["dropped_indices"] };
    let dropped: Vec<usize> = list(dropped).iter().map(index).collect();
    let (gaps, dropped): (Vec<usize>, Vec<usize>) = dropped.into_iter().partition(in_gap);
    assert!(gaps.is_empty() || has_tag(trace, "gap_rows"), "{name}");
    assert_eq!(ours.late, dropped, "{name}: late rows");
    let flinks_count = if side_output { 0 } else { gaps.len() + dropped.len() };
    assert_eq!(index(&expected["dropped"]), flinks_count, "{name}");
    assert_eq!(ours.counters.dropped_late, dropped.len() as u64, "{name}: every dropped row is counted");
    let all_gaps = (0..items.len()).filter(|i| items[*i].get("ts").is_some()).filter(in_gap).count();
    assert_eq!(ours.counters.no_window, all_gaps as u64, "{name}: rows in gaps");

    // Watermarks. At the end Flink's inputs end one after the other; the last word counts.
    let flinks: BTreeMap<usize, i64> = list(&expected["watermarks"])
        .iter()
        .map(|w| (index(&w["after_input_index"]), time(&w["value"])))
        .collect();
    assert_eq!(ours.watermarks, Vec::from_iter(flinks), "{name}: watermarks");
    list(&expected["firings"]).len()
}

/// Rule 4: where Flink's bounds wrap around, ours are clipped, and a window whose end was clipped stays open until
/// the end of input. Firings as `(item, start, end, count)`.
fn check_wrapped(trace: &Json) {
    let ours = replay(trace);
    let firings: Vec<(usize, i64, i64, String)> = ours
        .firings
        .iter()
        .flat_map(|(i, facts)| {
            facts.iter().map(move |(_, end, start, _, v)| (*i, *start, *end, v[0].clone()))
        })
        .collect();
    let firings: Vec<(usize, i64, i64, &str)> =
        firings.iter().map(|(i, start, end, count)| (*i, *start, *end, count.as_str())).collect();
    match text(&trace["name"]) {
        "tumbling_extreme_timestamps_high" => {
            // Rows 2, 3 and 5 lie in [..775000, MAX]: one open window, which all three keep.
            let expected = [
                (4, 0, 1000, "1"),
                (7, 9223372036854770000, 9223372036854771000, "1"),
                (7, 9223372036854771000, 9223372036854772000, "1"),
                (7, 9223372036854775000, MAX, "3"),
            ];
            assert_eq!(firings, expected);
            assert_eq!((ours.late.len(), ours.counters.taken), (0, 6));
        }
        "tumbling_extreme_timestamps_high_counter" => {
            // Row 5 (time 5, watermark 1000) is the only one that is lost, and it is counted.
            assert_eq!(firings, [(2, 0, 1000, "1"), (6, 9223372036854775000, MAX, "3")]);
            assert_eq!((ours.late, ours.counters.dropped_late), (vec![5], 1));
        }
        "tumbling_extreme_timestamps_low" => {
            // Only the start of the first window is clipped; Flink's ends are right, and so are its firings.
            let expected = [
                (2, i64::MIN, -9223372036854775000, "1"),
                (4, -9223372036854772000, -9223372036854771000, "1"),
                (4, -9223372036854771000, -9223372036854770000, "1"),
                (6, 0, 1000, "1"),
            ];
            assert_eq!(firings, expected);
            assert_eq!((ours.late.len(), ours.counters.taken), (0, 4));
        }
        other => unreachable!("{other} has no answer of its own"),
    }
}

/// Rule 21: rows that follow each other in the input, pushed as one call, give the same.
fn check_cuts(trace: &Json, ours: &Replay) {
    let mut oracle = Oracle::new(spec(trace));
    let mut whole = Output::default();
    let mut waiting: Vec<(usize, Vec<Row>)> = Vec::new();
    let mut add = |oracle: &mut Oracle, op: &Op| {
        let output = oracle.apply(op).expect("golden input is valid");
        whole.fired.extend(output.fired);
        whole.late.extend(output.late);
    };
    for item in list(&trace["input"]) {
        if item.get("ts").is_some() {
            let p = item.get("partition").map_or(0, index);
            match waiting.last_mut() {
                Some((last, rows)) if *last == p => rows.push(row(item)),
                _ => waiting.push((p, vec![row(item)])),
            }
            continue;
        }
        add(&mut oracle, &Op::PushAll(std::mem::take(&mut waiting)));
        if let Some(op) = op(item, &oracle, trace) {
            add(&mut oracle, &op);
        }
    }
    add(&mut oracle, &Op::PushAll(waiting));
    let fired: Vec<&Firing> = ours.outputs.iter().flat_map(|o| &o.fired).collect();
    let late: Vec<_> = ours.outputs.iter().flat_map(|o| &o.late).collect();
    assert!(whole.fired.iter().collect::<Vec<_>>() == fired, "{}", trace["name"]);
    assert!(whole.late.iter().collect::<Vec<_>>() == late, "{}", trace["name"]);
}

/// Checks a group; returns the numbers of traces, of those answered differently on purpose, and of firings.
fn check_group(name: &str) -> (usize, usize, usize) {
    let (mut traces, mut wrapped, mut firings) = (0, 0, 0);
    for trace in group(name).iter().filter(|trace| is_ours(trace)) {
        traces += 1;
        if text(&trace["name"]).starts_with("tumbling_extreme_timestamps") {
            assert!(has_tag(trace, "wraparound"));
            check_wrapped(trace);
            wrapped += 1;
        } else {
            firings += check(trace);
        }
        check_cuts(trace, &replay(trace));
    }
    (traces, wrapped, firings)
}

#[test]
fn group_04_tumbling() {
    assert_eq!(check_group("04_tumbling"), (22, 3, 78));
}

#[test]
fn group_05_sliding() {
    assert_eq!(check_group("05_sliding"), (11, 0, 114));
}

#[test]
fn group_11_worked_examples() {
    assert_eq!(check_group("11_worked_examples"), (12, 0, 115));
}

#[test]
fn group_12_random() {
    assert_eq!(check_group("12_random"), (18, 0, 21538));
}
