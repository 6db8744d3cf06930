//! Groups 04 to 08, 11 and 12: rows in, firings out.

use std::collections::BTreeMap;
use std::panic::catch_unwind;

use highwater_oracle::{Counters, Firing, Kind, MAX, Op, Oracle, Output, Row, Value, Windows, windows};
use serde_json::Value as Json;

use crate::query::{columns, op, row, spec};
use crate::trace::{group, has_tag, index, list, text, time};

/// The traces of windows, but for those that are refused.
fn is_ours(trace: &Json) -> bool {
    trace["kind"] == "window" && !has_tag(trace, "refused")
}

/// A firing in the words of the trace, comparable: by kind, end, start, key.
type Fact = (Kind, i64, i64, String, Vec<String>);

fn our_fact(firing: &Firing, index_of_row: &[usize], columns: &[&str]) -> Fact {
    let show = |(value, column): (&Value, &&str)| match value {
        Value::Text(rows) if *column == "members" => {
            let rows = rows.split(',').filter(|row| !row.is_empty());
            let indices = rows.map(|row| index_of_row[row.parse::<usize>().expect("a row")].to_string());
            indices.collect::<Vec<_>>().join(",")
        }
        Value::Int(i) => i.to_string(),
        Value::Null => "null".to_owned(),
        other => unreachable!("{other:?}"),
    };
    let Some(Value::Text(key)) = firing.key.first() else { unreachable!("{firing:?}") };
    let values = firing.values.iter().zip(columns).map(show).collect();
    (firing.kind, firing.end, firing.start, key.clone(), values)
}

/// Flink's order of rows in merged sessions is not that of arrival, and not part of the contract.
fn flinks_fact(firing: &Json, columns: &[&str]) -> Fact {
    let show = |column: &&str| match &firing[*column] {
        Json::Array(members) => {
            let mut members: Vec<usize> = members.iter().map(index).collect();
            members.sort_unstable();
            members.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    };
    let kind = match text(&firing["firing"]) {
        "early" => Kind::Early,
        "main" => Kind::OnTime,
        _ => Kind::Late,
    };
    let values = columns.iter().map(show).collect();
    // Global windows have no bounds.
    let bound = |name: &str, none: i64| if firing[name].is_null() { none } else { time(&firing[name]) };
    (kind, bound("end", MAX), bound("start", i64::MIN), text(&firing["key"]).to_owned(), values)
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

/// Compares the firings item by item. Their order is Flink's, by cause, then by the time of the timer. Among equal times
/// Flink's is not defined, and of one row's firings Flink gives the newest window first; ours go by end, then start.
fn check_firings(trace: &Json, ours: &BTreeMap<usize, Vec<Fact>>) {
    let (name, columns) = (text(&trace["name"]), columns(trace));
    let mut rest = ours.clone();
    let moment = |firing: &Json| (index(&firing["at_input_index"]), firing.get("timer_ts").map(time));
    for flinks in list(&trace["expected"]["firings"]).chunk_by(|a, b| moment(a) == moment(b)) {
        let (item, timer) = moment(&flinks[0]);
        let found = rest.remove(&item).unwrap_or_default();
        assert!(found.len() >= flinks.len(), "{name}: firings at item {item}: {found:?}, Flink's {flinks:?}");
        let (now, later) = found.split_at(flinks.len());
        let order = |(_, end, start, ..): &Fact| (*end, *start);
        assert!(now.is_sorted_by_key(order), "{name}: order at item {item}: {now:?}");
        let (mut now, mut flinks) =
            (now.to_vec(), flinks.iter().map(|f| flinks_fact(f, &columns)).collect::<Vec<_>>());
        now.sort();
        flinks.sort();
        assert_eq!(now, flinks, "{name}: firings at item {item}, timer {timer:?}");
        if !later.is_empty() {
            rest.insert(item, later.to_vec());
        }
    }
    assert!(rest.is_empty(), "{name}: more firings than Flink's: {rest:?}");
}

/// Compares a trace with the oracle; returns the number of Flink's firings.
fn check(trace: &Json) -> usize {
    let name = text(&trace["name"]);
    let mut ours = replay(trace);
    let expected = &trace["expected"];
    if name == "trigger_continuous_negative_times" {
        // Row -95 first fires at the next multiple of 10, -90, which watermark -85 passes; Flink's remainder truncates, so
        // it waits for -80. From there on both go on alike.
        let extra = ours.firings.remove(&3).expect("a firing at item 3");
        let values = ["2", "3", "1", "2", "0,1"].map(str::to_owned).to_vec();
        assert_eq!(extra, [(Kind::Early, 0, -100, "a".to_owned(), values)]);
    }
    check_firings(trace, &ours.firings);

    // Dropped rows. A row in a gap is `no_window` here, whatever Flink made of it.
    let spec = spec(trace);
    let items = list(&trace["input"]);
    let can_have_gaps = matches!(spec.window, Windows::Aligned { .. });
    let in_gap = |i: &usize| can_have_gaps && windows(&spec, time(&items[*i]["ts"])).is_empty();
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
        "session_extreme_high" => {
            // All three rows reach beyond the maximum or touch one that does: one open session.
            assert_eq!(firings, [(4, 0, 1000, "1"), (5, 9223372036854774807, MAX, "3")]);
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
        if ["tumbling_extreme", "session_extreme"].iter().any(|name| text(&trace["name"]).starts_with(name)) {
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
fn group_06_session() {
    assert_eq!(check_group("06_session"), (15, 1, 48));
}

#[test]
fn group_07_trigger() {
    assert_eq!(check_group("07_trigger"), (17, 0, 92));
}

#[test]
fn group_08_evictor() {
    assert_eq!(check_group("08_evictor"), (7, 0, 18));
}

/// What Flink refuses, and what it does here.
#[test]
fn group_07_refused() {
    let refused: Vec<Json> =
        group("07_trigger").into_iter().filter(|trace| has_tag(trace, "refused")).collect();
    for trace in &refused {
        let row = Op::Push(0, vec![row(&trace["input"][0])]);
        let answer = catch_unwind(|| Oracle::new(spec(trace)).apply(&row));
        match text(&trace["name"]) {
            "reject_negative_lateness" => assert!(answer.is_err(), "no such spec"),
            "reject_session_dynamic_zero_gap" => assert!(answer.expect("a spec").is_err(), "no such row"),
            // Any offset is taken modulo the slide.
            _ => assert!(answer.expect("a spec").is_ok()),
        }
    }
    assert_eq!(refused.len(), 4);
}

#[test]
fn group_11_worked_examples() {
    assert_eq!(check_group("11_worked_examples"), (12, 0, 115));
}

#[test]
fn group_12_random() {
    assert_eq!(check_group("12_random"), (32, 0, 35789));
}
