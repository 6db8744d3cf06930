//! What `highwater window` computes, keeps and tells. All expected numbers are worked out by hand.

mod common;

use std::io::Read;
use std::process::Stdio;

use common::{FLAGS, Place, RESULTS};
use serde_json::Value;

#[test]
fn late_and_rejected_rows_are_kept_where_asked() {
    let place = Place::with_rows();
    place
        .run(&format!("window rows.csv {FLAGS} --out out.csv --late late.csv --rejected rejected.ndjson"))
        .ok();
    assert_eq!(place.read("out.csv"), RESULTS);
    // the largest time before the late row is 10:02:30; minus 20 s, minus a tick
    assert_eq!(
        place.read("late.csv"),
        "ts,tenant,usd,late_watermark\n2024-05-01T10:00:31Z,globex,2.0,2024-05-01T10:02:09.999Z\n"
    );
    assert_eq!(
        place.read("rejected.ndjson"),
        "{\"ts\":null,\"tenant\":\"acme\",\"usd\":8.0,\"reject_reason\":\"null_event_time\"}\n"
    );
    let late = place.run(&format!("window rows.csv {FLAGS} --out out.csv --late -")).ok();
    assert!(late.starts_with("{\"ts\":\"2024-05-01T10:00:31Z\""), "{late}");
}

#[test]
fn max_by_takes_one_column_and_chooses_by_another() {
    let place = Place::with_rows();
    let flags = "window rows.csv --time ts --tumble 1m --bound 20s";
    // 10:00 has 0.5 at :01, 0.25 at :30 and 0.125 at :59; the others have one row each
    place.run(&format!("{flags} --agg max_by(usd,ts) --agg MIN_BY(ts,usd)~as~cheapest --out out.csv")).ok();
    assert_eq!(
        place.read("out.csv"),
        "window_start,window_end,\"max_by(usd,ts)\",cheapest\n\
         2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,0.125,2024-05-01T10:00:59Z\n\
         2024-05-01T10:01:00Z,2024-05-01T10:02:00Z,1.0,2024-05-01T10:01:10.250Z\n\
         2024-05-01T10:02:00Z,2024-05-01T10:03:00Z,0.0625,2024-05-01T10:02:30Z\n"
    );
    let unknown = place.run(&format!("{flags} --agg max_by(usd,cost)"));
    let text = "--agg max_by(usd,cost): the input has no column \"cost\"; it has ts, tenant, usd";
    assert!(unknown.code == 2 && unknown.err.contains(text), "{unknown:?}");
    let text = place.run(&format!("{flags} --agg max_by(usd,tenant)"));
    assert!(text.code != 0 && text.err.contains("Utf8") && text.err.contains("tenant"), "{text:?}");
    // no value says which type the column has
    std::fs::write(place.directory.path().join("empty.csv"), "ts,x,y\n2024-05-01T10:00:01Z,1,\n")
        .expect("a file");
    place
        .run("window empty.csv --time ts --tumble 1m --ascending --agg max_by(x,y)~as~top --out out.csv")
        .ok();
    assert_eq!(
        place.read("out.csv"),
        "window_start,window_end,top\n2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,\n"
    );
}

#[test]
fn stats_hold_every_counter_and_watermark() {
    let place = Place::with_rows();
    place.run(&format!("window rows.csv {FLAGS} --stats stats.json")).ok();
    let stats: Value = serde_json::from_str(&place.read("stats.json")).expect("JSON");
    for (counter, expected) in [
        ("rows_in", 7),
        ("taken", 5),
        ("dropped_late", 1),
        ("no_window", 0),
        ("rejected_null", 1),
        ("rejected_future", 0),
        ("rejected_reference", 0),
        ("late_taken", 0),
        ("partly_late", 0),
    ] {
        assert_eq!(stats[counter], expected, "{counter}");
        assert_eq!(stats["partitions"][0][counter], expected, "{counter} of the partition");
    }
    assert_eq!(
        (&stats["windows_fired"], &stats["results_on_time"], &stats["results_late"]),
        (&3.into(), &4.into(), &0.into())
    );
    let end = &stats["before_end_of_input"];
    assert_eq!(end["watermark"]["text"], "2024-05-01T10:02:09.999Z");
    assert_eq!(end["watermark"]["ticks"], 1_714_557_729_999_i64);
    assert_eq!((&end["held_back_by"], &end["windows_held_back"]), (&"rows.csv".into(), &1.into()));
    assert_eq!(stats["watermark"]["text"], "end of input");
    assert_eq!(stats["partitions"][0]["watermark"]["text"], "2024-05-01T10:02:09.999Z");
    assert_eq!(stats["partitions"][0]["status"], "finished");
    assert_eq!(stats["tick_unit"], "millisecond");
}

#[test]
fn stats_may_follow_a_table_but_no_data() {
    let place = Place::with_rows();
    let out = place.run(&format!("window rows.csv {FLAGS} --stats -")).ok();
    let json = &out[out.find('{').expect("JSON after the table")..];
    assert!(serde_json::from_str::<Value>(json).is_ok(), "{json}");
    let refused = place.run(&format!("window rows.csv {FLAGS} --format csv --stats -"));
    assert_eq!(refused.code, 2);
    assert_eq!(
        refused.err,
        "error: --out and --stats both write to standard output; give one of them another path\n"
    );
}

#[test]
fn the_summary_says_what_became_of_rows() {
    let place = Place::with_rows();
    let ran = place.run(&format!("window rows.csv {FLAGS}"));
    let lines: Vec<&str> = ran.err.lines().collect();
    assert!(lines[0].starts_with("7 rows in 1 partition: 5 taken, 1 late, 1 rejected ("), "{}", ran.err);
    assert_eq!(
        lines[1..],
        [
            "3 windows fired: 4 results",
            "when the input ended the watermark was 2024-05-01T10:02:09.999Z, held back by rows.csv; \
             1 window still held back, and fired then",
            "1 late row only counted; --late PATH keeps them",
            "rejected: 1 null_event_time; --rejected PATH keeps them",
        ]
    );
    assert_eq!(place.run(&format!("window rows.csv {FLAGS} --quiet")).err, "");
}

#[test]
fn lateness_lets_a_late_row_update_its_window() {
    let place = Place::with_rows();
    let flags = format!("{FLAGS} --lateness 5m --firing --format csv");
    // the late 2 of globex is taken: 0.25 + 2, and 1 + 1 rows
    let expected = "\
tenant,window_start,window_end,usd,count,firing
acme,2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,0.625,2,on_time
globex,2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,0.25,1,on_time
globex,2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,2.25,2,late
acme,2024-05-01T10:01:00Z,2024-05-01T10:02:00Z,1.0,1,on_time
acme,2024-05-01T10:02:00Z,2024-05-01T10:03:00Z,0.0625,1,on_time
";
    let ran = place.run(&format!("window rows.csv {flags}"));
    assert!(ran.err.contains("4 results, and 1 late update"), "{}", ran.err);
    let mut found: Vec<String> = ran.ok().lines().map(str::to_string).collect();
    let mut wanted: Vec<String> = expected.lines().map(str::to_string).collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
}

#[test]
fn hopping_windows_overlap_and_gaps_are_counted() {
    let place = Place::new();
    // 10:00:05 is in [09:59:30, 10:00:30) and [10:00:00, 10:01:00)
    place.file("one.csv", "ts\n2024-05-01T10:00:05Z\n");
    let results = place.run("window one.csv --time ts --hop 1m,30s --ascending --format csv").ok();
    let expected = "window_start,window_end,count\n\
                    2024-05-01T09:59:30Z,2024-05-01T10:00:30Z,1\n2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,1\n";
    assert_eq!(results, expected);
    let ran = place.run("window one.csv --time ts --hop 1s,10s --ascending --format csv");
    assert!(
        ran.err.starts_with("1 row in 1 partition: 0 taken, 0 late, 0 rejected, 1 in no window"),
        "{}",
        ran.err
    );
    assert_eq!(ran.ok(), "window_start,window_end,count\n");
    let shifted =
        place.run("window one.csv --time ts --tumble 1m --offset -50s --ascending --format csv").ok();
    assert_eq!(shifted.lines().nth(1), Some("2024-05-01T09:59:10Z,2024-05-01T10:00:10Z,1"));
}

#[test]
fn a_row_of_the_year_9999_moves_nothing() {
    let place = Place::new();
    let rows = "ts,seen\n\
                2024-05-01T10:00:05Z,2024-05-01T10:00:06Z\n\
                9999-12-31T23:59:59Z,2024-05-01T10:00:07Z\n\
                2024-05-01T10:00:08Z,2024-05-01T10:00:09Z\n\
                2024-05-01T10:00:09Z,\n";
    place.file("rows.csv", rows);
    let flags = "--time ts --tumble 1m --ascending --ingest-time seen --max-future 1h";
    let ran = place.run(&format!("window rows.csv {flags} --format csv --rejected rejected.csv"));
    assert!(ran.err.contains("rejected: 1 future_event_time, 1 null_ingest_time"), "{}", ran.err);
    let expected = "window_start,window_end,count\n2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,2\n";
    assert_eq!(ran.ok(), expected);
    let rejected = place.read("rejected.csv");
    assert_eq!(rejected.lines().nth(1), Some("9999-12-31T23:59:59Z,2024-05-01T10:00:07Z,future_event_time"));
    assert_eq!(rejected.lines().nth(2), Some("2024-05-01T10:00:09Z,,null_ingest_time"));
}

#[test]
fn times_that_no_calendar_reaches_are_ticks() {
    let place = Place::new();
    // the last window of i64 milliseconds is clipped; its start is the last whole minute
    place.file("rows.csv", format!("ts\n{}\n", i64::MAX));
    let flags = "--schema ts:i64 --time ts --time-unit ms --tumble 1m --ascending";
    let start = i64::MAX - i64::MAX % 60_000;
    let expected = format!("window_start,window_end,count\n{start},{},1\n", i64::MAX);
    assert_eq!(place.run(&format!("window rows.csv {flags} --format csv")).ok(), expected);
    // a column of timestamps: the start is text as far as calendars go, and a number beyond
    place.run(&format!("window rows.csv {flags} --format parquet --out far.parquet")).ok();
}

#[test]
fn an_ended_input_holds_nothing_back() {
    let place = Place::new();
    place
        .file("a.csv", "ts\n2024-05-01T10:00:05Z\n2024-05-01T10:05:00Z\n")
        .file("b.csv", "ts\n2024-05-01T10:00:10Z\n");
    let ran = place.run("window b.csv a.csv --time ts --tumble 1m --ascending --stats stats.json");
    assert!(ran.err.contains("watermark was 2024-05-01T10:04:59.999Z, held back by a.csv"), "{}", ran.err);
    let stats: Value = serde_json::from_str(&place.read("stats.json")).expect("JSON");
    assert_eq!(stats["partitions"][0]["name"], "b.csv");
    assert_eq!(stats["partitions"][0]["watermark"]["text"], "2024-05-01T10:00:09.999Z");
    assert_eq!(stats["partitions"][1]["rows_in"], 2);
}

#[test]
fn partitions_by_a_column_each_have_a_watermark() {
    let place = Place::new();
    // one partition alone would drop the second row of b; b alone is in order
    let rows = "ts,shard\n2024-05-01T10:00:05Z,b\n2024-05-01T10:05:00Z,a\n2024-05-01T10:00:20Z,b\n";
    place.file("rows.csv", rows);
    let ran =
        place.run("window rows.csv --time ts --tumble 1m --ascending --partition-by shard --format csv");
    assert!(ran.err.contains("held back by shard=b"), "{}", ran.err);
    let expected = "window_start,window_end,count\n\
                    2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,2\n2024-05-01T10:05:00Z,2024-05-01T10:06:00Z,1\n";
    assert_eq!(ran.ok(), expected);
    let refused = place
        .run("window rows.csv --time ts --tumble 1m --ascending --partition-by shard --max-partitions 1");
    assert_eq!(refused.code, 2);
    assert_eq!(
        refused.err,
        "error: --partition-by shard has more than 1 values; --max-partitions allows more\n"
    );
    let refused =
        place.run_with("window - --time ts --tumble 1m --ascending --partition-by shard", rows.as_bytes());
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("standard input cannot be read twice"), "{}", refused.err);
}

#[test]
fn an_idle_partition_holds_nothing_back() {
    let place = Place::new();
    // a is seen once, at 10:00:06, and then silent. b goes on. At 10:00:37 a is idle (31 s), so the watermark of b counts:
    // 10:01:59.999 after its second row, and a's row at 10:00:30, seen at 10:02:10, is late for its window.
    place.file(
        "a.csv",
        "ts,seen\n2024-05-01T10:00:05Z,2024-05-01T10:00:06Z\n2024-05-01T10:00:30Z,2024-05-01T10:02:10Z\n",
    );
    place.file(
        "b.csv",
        "ts,seen\n2024-05-01T10:00:05Z,2024-05-01T10:00:07Z\n2024-05-01T10:02:00Z,2024-05-01T10:02:01Z\n",
    );
    let flags = "--time ts --tumble 1m --ascending --ingest-time seen --format csv";
    let waiting = place.run(&format!("window a.csv b.csv {flags}"));
    assert!(waiting.err.starts_with("4 rows in 2 partitions: 4 taken, 0 late"), "{}", waiting.err);
    let idle = place.run(&format!("window a.csv b.csv {flags} --idle 30s"));
    assert!(idle.err.starts_with("4 rows in 2 partitions: 3 taken, 1 late"), "{}", idle.err);
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    let place = Place::new();
    let minute = |n: u32| format!("2024-05-{:02}T{:02}:{:02}:00Z\n", 1 + n / 1440, n / 60 % 24, n % 60);
    place.file("rows.csv", format!("ts\n{}", (0..40_000).map(minute).collect::<String>()));
    for format in ["table", "csv", "ndjson"] {
        let mut command =
            place.command(&format!("window rows.csv --time ts --tumble 1m --ascending --format {format}"));
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
        let mut first = [0; 10];
        child.stdout.take().expect("a pipe").read_exact(&mut first).expect("some output");
        let output = child.wait_with_output().expect("the command ends");
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stderr)),
            (Some(0), "".into()),
            "{format}"
        );
    }
}

#[test]
fn a_failed_run_leaves_no_output() {
    let place = Place::new();
    let good = "2024-05-01T10:00:05Z,1\n".repeat(2_000);
    place.file("rows.csv", format!("ts,usd\n{good}2024-05-01T10:00:05Z,x\n")).file("out.csv", "as it was");
    let ran = place.run(
        "window rows.csv --time ts --tumble 1m --ascending --agg sum(usd) --out out.csv --late late.csv",
    );
    assert_eq!(ran.code, 1);
    assert_eq!(place.read("out.csv"), "as it was");
    assert_eq!(place.names(), ["out.csv", "rows.csv"]);
}

#[test]
fn help_version_and_completions() {
    let place = Place::new();
    let help = place.run("window --help").ok();
    for wanted in [
        "Examples:",
        "--bound <D>",
        "turns of 1,024 rows",
        "--partition-by",
        "reservoir_quantile",
        "--zone <ZONE>",
        "--session <GAP>",
        "Firing (",
        "--early-every <D>",
    ] {
        assert!(help.contains(wanted), "{wanted}: {help}");
    }
    assert_eq!(place.run("--version").ok(), format!("highwater {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(place.run(&format!("completions {shell}")).ok().contains("highwater"), "{shell}");
    }
}
