//! Times as text: the first rows say what unit they need, and no later row loses a digit without a word.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use common::{Place, Ran};

const HEAD: usize = 1_000;

/// Rows of 10:00:01, as many as types are inferred from, then others.
fn csv_rows(first: &str, then: &[&str]) -> String {
    let head = vec![first; HEAD];
    let rows = head.iter().chain(then).map(|ts| format!("{ts},1\n"));
    format!("ts,v\n{}", rows.collect::<String>())
}

fn ndjson_rows(first: &str, then: &[&str]) -> String {
    let head = vec![first; HEAD];
    head.iter().chain(then).map(|ts| format!("{{\"ts\":{ts},\"v\":1}}\n")).collect()
}

const WHOLE: &str = "2024-05-01T10:00:01Z";
const HEADER: &str = "window_start,window_end,count\n";

fn run(name: &str, content: &str, flags: &str) -> Ran {
    let place = Place::new();
    place.file(name, content);
    place.run(&format!("window {name} --time ts --format csv {flags}"))
}

fn said(ran: &Ran) -> (i32, &str) {
    (ran.code, ran.err.lines().next().unwrap_or_default())
}

#[test]
fn a_finer_time_after_the_first_rows_is_told() {
    let finer = |place: &str, time: &str, than: &str, needs: &str| {
        format!(
            "error: {place}: column \"ts\": \"{time}\" is finer than {than}, which is all that the first rows need; \
             --schema ts:{needs} reads it whole"
        )
    };
    for (first, later, than, needs) in [
        (WHOLE, "2024-05-01T10:00:01.0001Z", "milliseconds", "timestamp_us"),
        (WHOLE, "2024-05-01 10:00:01.1234567", "milliseconds", "timestamp_ns"),
        ("2024-05-01T10:00:01.000001Z", "2024-05-01T10:00:01.00000001+02:00", "microseconds", "timestamp_ns"),
    ] {
        // the header, the first rows, one that fits, and then this one
        let rows = csv_rows(first, &[WHOLE, later, "yesterday"]);
        let ran = run("a.csv", &rows, "--tumble 1m --ascending");
        assert_eq!(said(&ran), (1, finer("a.csv:1003", later, than, needs).as_str()));
        assert_eq!(ran.out, HEADER);
        let ran = run("a.csv", &rows, "--tumble 1m --ascending --batch-rows 1");
        assert_eq!(said(&ran), (1, finer("a.csv:1003", later, than, needs).as_str()));
        let quoted = [WHOLE, later].map(|ts| format!("{ts:?}"));
        let rows = ndjson_rows(&format!("{first:?}"), &[&quoted[0], "null", &quoted[1], "7"]);
        let ran = run("a.ndjson", &rows, "--tumble 1m --ascending");
        assert_eq!(said(&ran), (1, finer("a.ndjson:1003", later, than, needs).as_str()));
    }
    // as it is told, so it is; the session ends a second after its last row
    let rows = csv_rows(WHOLE, &["2024-05-01T10:00:01.0001Z"]);
    let results = "window_start,window_end,count\n2024-05-01T10:00:01Z,2024-05-01T10:00:02.000100Z,1001\n";
    let flags = "--session 1s --ascending --schema ts:timestamp_us";
    assert_eq!(run("a.csv", &rows, flags).ok(), results);
}

#[test]
fn a_pipe_is_read_no_differently() {
    let rows = csv_rows(WHOLE, &["2024-05-01T10:00:01.0001Z"]);
    let place = Place::new();
    let flags = "--time ts --tumble 1m --ascending --format csv";
    let text = "error: stdin:1002: column \"ts\": \"2024-05-01T10:00:01.0001Z\" is finer than milliseconds, which is all \
                that the first rows need; --schema ts:timestamp_us reads it whole";
    let ran = place.run_with(&format!("window - {flags}"), rows.as_bytes());
    assert_eq!((said(&ran), ran.out.as_str()), ((1, text), HEADER));
}

/// What comes first may be one row. Its result is waited for, so the other one is no part of what the unit was inferred from.
#[test]
fn rows_that_come_later_are_told_too() {
    let place = Place::new();
    let flags = "--time ts --tumble 1m --ascending --format csv --flush-after-quiet 50ms";
    let mut command = place.command(&format!("window - {flags}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let (mut stdin, stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let mut lines = BufReader::new(stdout).lines().map(|line| line.expect("text"));
    stdin.write_all(b"ts\n2024-05-01T10:00:01Z\n").expect("it reads");
    assert_eq!(lines.next().as_deref(), Some(HEADER.trim_end()));
    assert_eq!(lines.next().as_deref(), Some("2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,1"));
    stdin.write_all(b"2024-05-01T11:00:01.0001Z\n").expect("it reads");
    assert_eq!(lines.next(), None);
    let output = child.wait_with_output().expect("it ends");
    let text = "error: stdin:3: column \"ts\": \"2024-05-01T11:00:01.0001Z\" is finer than milliseconds, which is all that the \
                first rows need; --schema ts:timestamp_us reads it whole\n";
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(1), text));
}

#[test]
fn digits_that_say_nothing_fit() {
    let same = ["2024-05-01T10:00:01.250000000Z", "2024-05-01T12:00:01.50000000000000+02:00"];
    let results = "window_start,window_end,count\n2024-05-01T10:00:01Z,2024-05-01T10:00:02.500Z,1002\n";
    let flags = "--session 1s --ascending";
    assert_eq!(run("a.csv", &csv_rows(WHOLE, &same), flags).ok(), results);
    let quoted = same.map(|ts| format!("{ts:?}"));
    let rows = ndjson_rows(&format!("{WHOLE:?}"), &[&quoted[0], &quoted[1]]);
    assert_eq!(run("a.ndjson", &rows, flags).ok(), results);
}

#[test]
fn a_given_unit_cuts() {
    let rows = csv_rows(WHOLE, &["2024-05-01T10:00:01.9999Z"]);
    let end = |flags: &str| {
        let out = run("a.csv", &rows, &format!("--session 1s --ascending {flags}")).ok();
        out.lines().nth(1).and_then(|line| line.split(',').nth(1)).unwrap_or_default().to_string()
    };
    assert_eq!(end("--time-unit s"), "2024-05-01T10:00:02Z");
    assert_eq!(end("--time-unit ms"), "2024-05-01T10:00:02.999Z");
    assert_eq!(end("--schema ts:timestamp_ms"), "2024-05-01T10:00:02.999Z");
    assert_eq!(end("--time-unit us"), "2024-05-01T10:00:02.999900Z");
}

#[test]
fn the_inputs_settle_the_unit_together() {
    let place = Place::new();
    place.file("a.csv", csv_rows(WHOLE, &["2024-05-01T10:00:01.000001Z"]));
    place.file("b.csv", csv_rows("2024-05-01T10:00:01.000002Z", &[WHOLE]));
    let flags = "--time ts --session 1s --ascending --format csv";
    let results = "window_start,window_end,count\n2024-05-01T10:00:01Z,2024-05-01T10:00:02.000002Z,2002\n";
    assert_eq!(place.run(&format!("window a.csv b.csv {flags}")).ok(), results);
    assert_eq!(place.run(&format!("window a.csv {flags}")).code, 1);
}

#[test]
fn what_no_unit_holds_is_told() {
    let rows = csv_rows("2024-05-01T10:00:01.123456789Z", &["2024-05-01T10:00:01.0000000001Z"]);
    let ran = run("a.csv", &rows, "--tumble 1m --ascending");
    let text = "error: a.csv:1002: column \"ts\": \"2024-05-01T10:00:01.0000000001Z\" is finer than nanoseconds, and nothing \
                finer is known; --schema ts:timestamp_ns cuts it there";
    assert_eq!(said(&ran), (1, text));
    run("a.csv", &rows, "--tumble 1m --ascending --schema ts:timestamp_ns").ok();
    let rows = csv_rows("2024-05-01T10:00:01.123456789Z", &["9999-12-31T00:00:00Z"]);
    let ran = run("a.csv", &rows, "--tumble 1m --ascending");
    let text = "error: a.csv:1002: column \"ts\": \"9999-12-31T00:00:00Z\" is not within reach of nanoseconds, which are for \
                1677 to 2262; --schema ts:timestamp_us reads it, without what is finer";
    assert_eq!(said(&ran), (1, text));
    run("a.csv", &rows, "--tumble 1m --ascending --schema ts:timestamp_us").ok();
}

#[test]
fn dates_do_not_swallow_the_time_of_day() {
    let rows = csv_rows("2024-05-01", &["2024-05-02", "2024-05-02T10:00:00Z"]);
    let ran = run("a.csv", &rows, "--tumble 1d --ascending");
    let text = "error: a.csv:1003: column \"ts\": \"2024-05-02T10:00:00Z\" is finer than days, which is all that the first \
                rows need; --schema ts:timestamp_ms reads it whole";
    assert_eq!(said(&ran), (1, text));
    let out = run("a.csv", &rows, "--session 1d --ascending --schema ts:timestamp_ms").ok();
    assert_eq!(out.lines().nth(1), Some("2024-05-01T00:00:00Z,2024-05-03T10:00:00Z,1002"));
    let ran = run("a.csv", &csv_rows("2024-05-01", &["2024-05-02", "someday"]), "--tumble 1d --ascending");
    assert_eq!(said(&ran), (1, "error: a.csv:1003: column \"ts\": \"someday\" is no date"));
    let ran = run("a.csv", &csv_rows("2024-05-01", &["2024-05-99", ""]), "--tumble 1d --ascending");
    assert_eq!(said(&ran), (1, "error: a.csv:1002: column \"ts\": \"2024-05-99\" is no date"));
}

/// Columns that hold times without being the event time are no different, if they are read.
#[test]
fn other_columns_keep_their_digits_too() {
    let head = "2024-05-01T10:00:01Z,2024-05-01T10:00:01\n".repeat(HEAD);
    let rows = format!("ts,seen\n{head}2024-05-01T10:00:01Z,2024-05-01T10:00:01.5\n,2024-05-01T10:00:01\n");
    let text = "error: a.csv:1002: column \"seen\": \"2024-05-01T10:00:01.5\" is finer than seconds, which is all that the \
                first rows need; --schema seen:timestamp_ms reads it whole";
    let ran = run("a.csv", &rows, "--tumble 1m --ascending --rejected rejected.csv");
    assert_eq!(said(&ran), (1, text));
    let ran = run("a.csv", &rows, "--tumble 1m --ascending --agg max(seen)");
    assert_eq!(said(&ran), (1, text));
    let out = run("a.csv", &rows, "--tumble 1m --ascending").ok();
    assert_eq!(out.lines().nth(1), Some("2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,1001"));
}

/// Nothing of the first rows says what a number counts.
#[test]
fn numbers_after_rows_without_times() {
    let text = |name: &str| {
        format!(
            "error: {name}:1001: column \"ts\": 1714557601000 is a number, where ISO 8601 text was expected; --schema ts:i64 \
             and --time-unit read numbers"
        )
    };
    let flags = "--tumble 1m --ascending";
    let rows = ndjson_rows("null", &["1714557601000"]);
    assert_eq!(said(&run("a.ndjson", &rows, flags)), (1, text("a.ndjson").as_str()));
    let rows = csv_rows("", &["1714557601000"]);
    assert_eq!(said(&run("a.csv", &rows, flags)), (1, text("a.csv").replace("1001", "1002").as_str()));
    let out = run("a.csv", &rows, &format!("{flags} --schema ts:i64 --time-unit ms")).ok();
    // 1714557601000 - 1714557601000 mod 60000
    assert_eq!(out.lines().nth(1), Some("1714557600000,1714557660000,1"));
}

/// A run that is started again reads from where it stood, and meets the same row at the same line.
#[test]
fn a_run_that_goes_on_tells_it_too() {
    let place = Place::new();
    let mut then = vec![WHOLE; 69_000];
    then.push("2024-05-01T10:00:01.0001Z");
    place.file("a.csv", csv_rows(WHOLE, &then));
    let command = "window a.csv --time ts --tumble 1m --ascending --out out.csv --checkpoint kept --checkpoint-every 300";
    for _ in 0..2 {
        let ran = place.run(command);
        let text = "error: a.csv:70002: column \"ts\": \"2024-05-01T10:00:01.0001Z\" is finer than milliseconds, which is all \
                    that the first rows need; --schema ts:timestamp_us reads it whole";
        assert_eq!(said(&ran), (1, text));
        assert!(place.read("kept/checkpoint.json").contains("read_from"));
    }
}
