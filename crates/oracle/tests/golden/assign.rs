//! Group 01: which windows hold a time.

use highwater_oracle::{MAX, Op, Oracle, Row, Spec, Strategy, Value, Windows, windows};
use serde_json::Value as Json;

use crate::trace::{group, list, text, time};

/// The windows of a question in exact arithmetic, written independently of the oracle: by the number of the window.
fn exact(ts: i64, size: i64, slide: i64, offset: i64) -> Vec<(i128, i128)> {
    let [ts, size, slide, offset] = [ts, size, slide, offset].map(i128::from);
    let last = (ts - offset).div_euclid(slide);
    let first = (ts - offset - size).div_euclid(slide) + 1;
    (first..=last).map(|k| (offset + k * slide, offset + k * slide + size)).collect()
}

#[derive(Debug, Default, PartialEq)]
struct Checked {
    /// Flink's answer is ours.
    equal: usize,
    /// The exact bounds do not fit: ours are the clipped ones.
    clipped: usize,
    /// The exact bounds fit, but on the way to them Flink computes a `ts - offset` or `ts - size` that does not.
    wrapped_inside: usize,
    /// Flink refuses the offset; we take it modulo the slide.
    offset_taken: usize,
    /// Flink's mark for "no timestamp" is a time like any other.
    minimum_taken: usize,
    /// Both refuse the size or slide.
    refused: usize,
    /// Flink refuses so many windows per row; the limit of the engine is its own, and the oracle has none.
    exploding: usize,
}

fn check(question: &Json, answer: &Json, checked: &mut Checked) {
    let (ts, size, offset) = (time(&question["ts"]), time(&question["size"]), time(&question["offset"]));
    let slide = question.get("slide").map_or(size, time);
    if size <= 0 || slide <= 0 {
        assert!(answer.get("error").is_some(), "{question}");
        checked.refused += 1;
        return;
    }
    if size / slide > 10_000_000 {
        assert!(text(&answer["message"]).contains("size / slide <= 10000000"), "{question}");
        checked.exploding += 1;
        return;
    }
    let ours = windows(&Spec::over(Windows::Aligned { size, slide, offset }), ts);
    let exact = exact(ts, size, slide, offset);
    let clip = |t: i128| t.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let clipped: Vec<(i64, i64)> = exact.iter().map(|&(start, end)| (clip(start), clip(end))).collect();
    assert_eq!(ours, clipped, "{question}");

    let is_start = text(&question["fn"]) == "window_start";
    let fits = |&(start, end): &(i128, i128)| {
        i64::try_from(start).is_ok() && (is_start || i64::try_from(end).is_ok())
    };
    if ts == i64::MIN && answer.get("error").is_some() {
        assert!(text(&answer["message"]).starts_with("Record has Long.MIN_VALUE timestamp"), "{question}");
        checked.minimum_taken += 1;
    } else if answer.get("error").is_some() {
        assert!(offset.unsigned_abs() >= slide.unsigned_abs(), "{question}: {answer}");
        checked.offset_taken += 1;
    } else if !exact.iter().all(fits) {
        checked.clipped += 1;
    } else if same(&ours, answer, is_start) {
        checked.equal += 1;
    } else {
        let wraps = [offset, size].iter().any(|x| ts.checked_sub(*x).is_none());
        assert!(wraps, "{question}: ours {ours:?}, Flink's {answer}");
        checked.wrapped_inside += 1;
    }
}

fn same(ours: &[(i64, i64)], answer: &Json, is_start: bool) -> bool {
    if is_start {
        return ours.last().expect("a window").0 == time(&answer["start"]);
    }
    // Flink lists the latest start first.
    let flinks = list(&answer["windows"]).iter().rev().map(|w| (time(&w[0]), time(&w[1])));
    ours.iter().copied().eq(flinks)
}

#[test]
fn flink_assigns_the_same_windows() {
    let mut checked = Checked::default();
    let mut tables = Vec::new();
    for table in group("01_assign") {
        let name = text(&table["name"]).to_owned();
        let ours = ["tumbling", "sliding", "window_start", "sql_tumble", "sql_hop"];
        if !ours.iter().any(|f| name == format!("assign_{f}")) {
            continue;
        }
        let (questions, answers) = (list(&table["input"]), list(&table["expected"]["rows"]));
        assert_eq!(questions.len(), answers.len());
        questions.iter().zip(answers).for_each(|(q, a)| check(q, a, &mut checked));
        tables.push((name, questions.len()));
    }
    let tables: Vec<(&str, usize)> = tables.iter().map(|(name, rows)| (name.as_str(), *rows)).collect();
    assert_eq!(
        tables,
        [
            ("assign_sliding", 4177),
            ("assign_sql_hop", 745),
            ("assign_sql_tumble", 510),
            ("assign_tumbling", 2387),
            ("assign_window_start", 3863)
        ]
    );
    let all = checked.equal
        + checked.clipped
        + checked.wrapped_inside
        + checked.offset_taken
        + checked.minimum_taken
        + checked.refused
        + checked.exploding;
    assert_eq!(all, 4177 + 745 + 510 + 2387 + 3863);
    let expected = Checked {
        equal: 10710,
        clipped: 864,
        wrapped_inside: 96,
        offset_taken: 5,
        minimum_taken: 1,
        refused: 5,
        exploding: 1,
    };
    assert_eq!(checked, expected);
}

/// Checks a table of another kind: `(question, answer)`.
fn table(name: &str, check: impl Fn(&Json, &Json)) -> usize {
    let table = group("01_assign").into_iter().find(|table| table["name"] == name).expect("a table");
    let (questions, answers) = (list(&table["input"]), list(&table["expected"]["rows"]));
    assert_eq!(questions.len(), answers.len());
    questions.iter().zip(answers).for_each(|(question, answer)| check(question, answer));
    questions.len()
}

/// `[start, end)` in JSON.
fn bounds(json: &Json) -> (i64, i64) {
    (time(&json[0]), time(&json[1]))
}

#[test]
fn flink_cumulates_in_the_same_windows() {
    let check = |question: &Json, answer: &Json| {
        let [ts, size, step, offset] = ["ts", "size", "step", "offset"].map(|name| time(&question[name]));
        if answer.get("error").is_some() {
            let refused = size <= 0 || step <= 0;
            assert_eq!(refused, text(&answer["message"]).contains("step > 0 and size > 0"), "{question}");
            // A size that is no multiple of the step is taken: the last step is shorter.
            assert!(refused || size % step != 0);
            return;
        }
        let flinks: Vec<(i64, i64)> = list(&answer["windows"]).iter().map(bounds).collect();
        assert_eq!(windows(&Spec::over(Windows::Cumulate { size, step, offset }), ts), flinks, "{question}");
    };
    assert_eq!(table("assign_sql_cumulate", check), 840);
}

#[test]
fn flink_starts_the_same_sessions() {
    let check = |question: &Json, answer: &Json| {
        let (ts, gap) = (time(&question["ts"]), time(&question["gap"]));
        // Flink's ends wrap around, ours are clipped.
        let expected = match ts.checked_add(gap) {
            Some(_) => bounds(&answer["windows"][0]),
            None => (ts, MAX),
        };
        assert_eq!(windows(&Spec::over(Windows::Session { gap }), ts), [expected], "{question}");
    };
    assert_eq!(table("assign_session", check), 145);
}

/// The sessions of rows that reach from start to end.
fn sessions(parts: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let spec = Spec { strategy: Strategy::Explicit, ..Spec::over(Windows::SessionByValue { column: 0 }) };
    let mut oracle = Oracle::new(spec);
    let row = |&(start, end): &(i64, i64)| Row {
        time: Some(start),
        values: vec![Value::Int(end - start)],
        ..Row::default()
    };
    oracle.apply(&Op::Push(0, parts.iter().map(row).collect())).expect("valid rows");
    oracle.validate();
    let output = oracle.apply(&Op::Finish).expect("the end");
    output.fired.iter().map(|firing| (firing.start, firing.end)).collect()
}

#[test]
fn flink_merges_the_same_windows() {
    let pairs = |question: &Json, answer: &Json| {
        let (a, b) = (bounds(&question["a"]), bounds(&question["b"]));
        let found = sessions(&[a, b]);
        if answer["intersects"] == true {
            assert_eq!(found, [bounds(&answer["cover"])], "{question}");
        } else {
            assert_eq!(found.len(), 2, "{question}");
        }
        assert_eq!(time(&answer["max_timestamp_a"]), a.1 - 1);
    };
    assert_eq!(table("window_intersects_cover", pairs), 213);

    let sets = |question: &Json, answer: &Json| {
        let parts: Vec<(i64, i64)> = list(&question["windows"]).iter().map(bounds).collect();
        // What merges with nothing stays; a window that is there twice is one.
        let mut expected = parts.clone();
        for merge in list(&answer["merges"]) {
            let from: Vec<(i64, i64)> = list(&merge["from"]).iter().map(bounds).collect();
            expected.retain(|part| !from.contains(part));
            expected.push(bounds(&merge["result"]));
        }
        expected.sort_by_key(|&(start, end)| (end, start));
        expected.dedup();
        assert_eq!(sessions(&parts), expected, "{question}");
    };
    assert_eq!(table("session_merge_sets", sets), 284);
}
