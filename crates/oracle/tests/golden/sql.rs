//! Group 10, and the SQL story of group 11: the same windows under the names of SQL.

use std::collections::{BTreeMap, BTreeSet};

use highwater_oracle::{
    Cadence, Firing, Function, NONE, Op, Oracle, Row, Spec, Strategy, Value, Windows, windows,
};
use serde_json::Value as Json;

use crate::query::{row, window};
use crate::trace::{group, index, list, text, time};

fn spec(trace: &Json) -> Spec {
    let spec = &trace["spec"];
    // CURRENT_WATERMARK needs no window.
    let windows = spec.get("window").map_or(Windows::Global, window);
    Spec {
        strategy: match text(&spec["mode"]) {
            "batch" => Strategy::Explicit,
            _ => Strategy::Delay(time(&spec["delay_ms"])),
        },
        cadence: Cadence::Every(time(&spec["auto_watermark_interval_ms"])),
        aggregates: [Function::CountAll, Function::Sum, Function::Min, Function::Max, Function::Members]
            .into_iter()
            .map(|function| (function, 0))
            .collect(),
        ..Spec::over(windows)
    }
}

fn sql_row(item: &Json, trace: &Json) -> Row {
    let keyed = trace["spec"].get("keyed").is_none_or(|keyed| keyed == true);
    let row = row(item);
    if keyed { row } else { Row { key: vec![], ..row } }
}

/// What the oracle says.
#[derive(Default)]
struct Replay {
    /// Results by input item.
    fired: BTreeMap<usize, Vec<Firing>>,
    /// Rows that no result contains: dropped, or filtered out before the window.
    lost: Vec<usize>,
    dropped: u64,
    watermarks: Vec<(usize, i64)>,
    /// What each row saw.
    seen: Vec<i64>,
    /// The input item of each row that was pushed.
    item_of_row: Vec<usize>,
}

fn replay(trace: &Json) -> Replay {
    let mut oracle = Oracle::new(spec(trace));
    let mut replay = Replay::default();
    for (i, item) in list(&trace["input"]).iter().enumerate() {
        let before = oracle.watermark();
        let op = if item.get("end").is_some() {
            Op::Finish
        } else {
            replay.seen.push(before);
            // `ts > CURRENT_WATERMARK(ts)`. A row that is not ahead of the watermark does not move it either.
            let filtered = trace["spec"].get("filter_late").is_some_and(|filter| filter == true);
            if filtered && before != NONE && time(&item["ts"]) <= before {
                replay.lost.push(i);
                continue;
            }
            replay.item_of_row.push(i);
            Op::Push(0, vec![sql_row(item, trace)])
        };
        let output = oracle.apply(&op).expect("golden input is valid");
        oracle.validate();
        replay.lost.extend(output.late.iter().map(|late| replay.item_of_row[late.row as usize]));
        if oracle.watermark() != before {
            replay.watermarks.push((i, oracle.watermark()));
        }
        if !output.fired.is_empty() {
            replay.fired.insert(i, output.fired);
        }
    }
    replay.dropped = oracle.counters(0).dropped_late;
    replay
}

/// The input items in a result.
fn members(firing: &Firing, replay: &Replay) -> Vec<usize> {
    let Some(Value::Text(rows)) = firing.values.last() else { unreachable!("{firing:?}") };
    rows.split(',').map(|row| replay.item_of_row[row.parse::<usize>().expect("a row")]).collect()
}

/// One result row against Flink's.
fn check_row(ours: &Firing, flinks: &Json, replay: &Replay, trace: &Json) {
    let number = |name: &str| flinks.get(name).map(time);
    let integers: Vec<Option<i64>> = ["count", "sum", "min", "max"].map(number).to_vec();
    let values = |value: &Value| if let Value::Int(i) = value { Some(*i) } else { None };
    assert_eq!(ours.values[..4].iter().map(values).collect::<Vec<_>>(), integers, "{flinks}");
    let members = members(ours, replay);
    if let Some(expected) = flinks.get("members") {
        let expected: BTreeSet<usize> = list(expected).iter().map(index).collect();
        assert_eq!(members.iter().copied().collect::<BTreeSet<_>>(), expected, "{flinks}");
    }
    // What the oracle has no function for follows from the rows.
    let mut sorted: Vec<i64> = members.iter().map(|&i| time(&trace["input"][i]["value"])).collect();
    sorted.sort_unstable();
    if flinks.get("avg").is_some() {
        // Integer division truncates towards zero.
        assert_eq!(time(&flinks["avg"]), sorted.iter().sum::<i64>() / sorted.len() as i64, "{flinks}");
        let distinct: BTreeSet<i64> = sorted.iter().copied().collect();
        assert_eq!(index(&flinks["count_distinct"]), distinct.len(), "{flinks}");
    }
    for (name, q) in [("p50", 0.5), ("p99", 0.99)] {
        let Some(expected) = flinks.get(name).and_then(Json::as_f64) else { continue };
        let place = q * (sorted.len() - 1) as f64;
        let (low, high) = (sorted[place.floor() as usize] as f64, sorted[place.ceil() as usize] as f64);
        let interpolated = low + (high - low) * place.fract();
        assert!((interpolated - expected).abs() < 1e-9, "{name} {interpolated}, {flinks}");
    }
}

/// Checks an aggregate query; returns the number of its result rows.
fn check_aggregate(trace: &Json) -> usize {
    let (name, expected) = (text(&trace["name"]), &trace["expected"]);
    let ours = replay(trace);
    let end = list(&trace["input"]).len() - 1;
    let key_of = |firing: &Firing| match firing.key.first() {
        Some(Value::Text(key)) => key.clone(),
        _ => String::new(),
    };
    // Among the results of one item Flink's order is not defined; a batch query gives all at the end.
    let mut flinks: BTreeMap<usize, BTreeMap<(i64, i64, String), &Json>> = BTreeMap::new();
    for row in list(&expected["rows"]) {
        let key = row.get("key").map_or(String::new(), |key| text(key).to_owned());
        let item = row.get("at_input_index").map_or(end, index);
        let known =
            flinks.entry(item).or_default().insert((time(&row["end"]), time(&row["start"]), key), row);
        assert!(known.is_none(), "{name}: {row} twice");
    }
    assert_eq!(
        Vec::from_iter(ours.fired.keys()),
        Vec::from_iter(flinks.keys()),
        "{name}: items with results"
    );
    for (item, flinks) in &flinks {
        let found = &ours.fired[item];
        let keys: Vec<_> = found.iter().map(|f| (f.end, f.start, key_of(f))).collect();
        assert_eq!(keys, flinks.keys().cloned().collect::<Vec<_>>(), "{name}: results at item {item}");
        for (found, flinks) in found.iter().zip(flinks.values()) {
            check_row(found, flinks, &ours, trace);
        }
    }
    if let Some(lost) = expected.get("rows_in_no_window") {
        let lost: Vec<usize> = list(lost).iter().map(index).collect();
        assert_eq!(ours.lost, lost, "{name}");
    }
    if let Some(metric) = expected.get("late_records_dropped_metric").map(index) {
        // With two phases Flink counts partial aggregates, which may stand for several rows.
        let one_phase =
            trace["spec"].get("agg_phase").is_some() || text(&trace["spec"]["window"]["kind"]) == "session";
        assert!(metric <= ours.dropped as usize, "{name}: {metric} late, ours {}", ours.dropped);
        assert!(
            !one_phase || metric == ours.dropped as usize,
            "{name}: {metric} late, ours {}",
            ours.dropped
        );
    }
    check_watermarks(trace, &ours);
    list(&expected["rows"]).len()
}

/// Flink's SQL watermark starts from 0, so it never says what is not above that.
fn check_watermarks(trace: &Json, ours: &Replay) {
    let Some(flinks) = trace["expected"].get("watermarks") else { return };
    let flinks: Vec<(usize, i64)> =
        list(flinks).iter().map(|w| (index(&w["after_input_index"]), time(&w["value"]))).collect();
    let ours: Vec<(usize, i64)> = ours.watermarks.iter().copied().filter(|&(_, w)| w > 0).collect();
    assert_eq!(ours, flinks, "{}: watermarks", trace["name"]);
}

/// What each row saw. Flink says null where it should say a value that is not above 0.
fn check_current_watermark(trace: &Json) -> usize {
    let ours = replay(trace);
    check_watermarks(trace, &ours);
    let mut late = 0;
    let rows = list(&trace["expected"]["rows"]);
    for row in rows {
        let item = index(&row["input_index"]);
        let shown = Some(ours.seen[item]).filter(|&w| w > 0);
        assert_eq!(shown, row["current_watermark"].as_i64(), "{}: {row}", trace["name"]);
        let is_late = shown.is_some_and(|w| time(&trace["input"][item]["ts"]) <= w);
        assert_eq!(is_late, row["late"] == true, "{}: {row}", trace["name"]);
        late += usize::from(is_late);
    }
    assert_eq!(late, index(&trace["expected"]["rows_late_by_watermark"]));
    rows.len()
}

/// The windows of each row, late or not.
fn check_window_rows(trace: &Json) -> usize {
    let spec = spec(trace);
    let mut flinks: BTreeMap<usize, Vec<(i64, i64)>> = BTreeMap::new();
    let rows = list(&trace["expected"]["rows"]);
    for row in rows {
        let bounds = (time(&row["start"]), time(&row["end"]));
        flinks.entry(index(&row["input_index"])).or_default().push(bounds);
    }
    for (item, mut flinks) in flinks {
        flinks.sort_by_key(|&(start, end)| (end, start));
        assert_eq!(windows(&spec, time(&trace["input"][item]["ts"])), flinks, "{}: {item}", trace["name"]);
    }
    rows.len()
}

/// Times before 1970, where Flink has no watermark: our windows close when they are due.
fn check_negative(trace: &Json) {
    let ours = replay(trace);
    let fired: Vec<(usize, i64, Vec<usize>)> = ours
        .fired
        .iter()
        .flat_map(|(item, fired)| fired.iter().map(|f| (*item, f.start, members(f, &ours))))
        .collect();
    // Row -60001 closes [-120000, -60000), so row 3 (-119000) is late; row -1 closes [-60000, 0). Then all as in Flink.
    let expected =
        [(1, -120_000, vec![0, 1]), (2, -60_000, vec![2]), (6, 0, vec![4, 5, 6]), (9, 120_000, vec![8])];
    assert_eq!(fired, expected);
    assert_eq!(ours.lost, [3, 7]);
    check_watermarks(trace, &ours);
}

#[test]
fn group_10_sql_and_the_sql_story() {
    let (mut aggregates, mut windows, mut watermarks, mut refused) = ((0, 0), (0, 0), (0, 0), 0);
    let stories = group("11_worked_examples").into_iter().filter(|trace| trace["kind"] == "sql");
    for trace in group("10_sql").iter().chain(&Vec::from_iter(stories)) {
        let add = |sum: &mut (usize, usize), rows| *sum = (sum.0 + 1, sum.1 + rows);
        match text(&trace["spec"]["query"]) {
            _ if trace["spec"].get("expect_error").is_some() => {
                // A size need not be a multiple of slide or step.
                let row = Op::Push(0, vec![sql_row(&trace["input"][0], trace)]);
                Oracle::new(spec(trace)).apply(&row).expect("a valid row");
                refused += 1;
            }
            "aggregate" if text(&trace["name"]) == "sql_negative_times" => check_negative(trace),
            "aggregate" => add(&mut aggregates, check_aggregate(trace)),
            "window_rows" => add(&mut windows, check_window_rows(trace)),
            _ => add(&mut watermarks, check_current_watermark(trace)),
        }
    }
    assert_eq!((aggregates, windows, watermarks, refused), ((34, 14331), (3, 740), (5, 2407), 2));
}
