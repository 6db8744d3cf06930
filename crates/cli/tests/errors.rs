//! What is said when something is wrong: what was given, what is allowed, and where.

mod common;

use common::{Place, csv};

const FLAGS: &str = "--time ts --tumble 1m --bound 5s --agg sum(usd)";

/// Runs `window` with the flags on files, and gives the exit code and the message.
fn fails(files: &[(&str, String)], arguments: &str) -> (i32, String) {
    let place = Place::new();
    for (name, content) in files {
        place.file(name, content);
    }
    let ran = place.run(&format!("window {arguments}"));
    assert_eq!(ran.out, "", "nothing but the message");
    (ran.code, ran.err.lines().next().unwrap_or_default().to_string())
}

/// The same with one file, and [`FLAGS`].
fn refused(name: &str, content: &str) -> (i32, String) {
    fails(&[(name, content.to_string())], &format!("{name} {FLAGS}"))
}

fn said(code: i32, text: &str) -> (i32, String) {
    (code, format!("error: {text}"))
}

#[test]
fn choices_that_must_be_made() {
    let rows = [("rows.csv", csv())];
    assert_eq!(
        fails(&rows, "rows.csv --time ts --tumble 1m"),
        said(
            2,
            "choose how the watermark follows the rows: --bound D (rows are at most D out of order), --ascending (they \
             are never out of order), or --delay D (Flink SQL's ts - INTERVAL)"
        )
    );
    assert_eq!(
        fails(&rows, "rows.csv --time ts --bound 5s"),
        said(
            2,
            "choose the windows: --tumble SIZE (one after the other), --hop SIZE,SLIDE (overlapping, a new one every SLIDE), \
             --cumulate SIZE,STEP (one after the other, with a result so far after every STEP), --session GAP (rows that follow \
             each other within GAP), --session-by COLUMN (with each row's gap in a column), --count N (every N rows), or \
             --global (one for all time)"
        )
    );
    assert_eq!(fails(&rows, "rows.csv --time ts --tumble 1m --bound 5s --ascending").0, 2);
    assert_eq!(fails(&rows, "rows.csv --time ts --tumble 1m --hop 1m,1m --ascending").0, 2);
    assert_eq!(fails(&rows, "rows.csv --tumble 1m --ascending").0, 2);
}

#[test]
fn values_of_flags() {
    let rows = [("rows.csv", csv())];
    for (flags, text) in [
        ("--bound 5", "invalid value '5' for '--bound <D>': \"5\" has no unit; write 5s, 5ms or 5m"),
        (
            "--bound=-5s",
            "invalid value '-5s' for '--bound <D>': \"-5s\" is negative; allowed is zero or more",
        ),
        ("--ascending --nonsense", "unexpected argument '--nonsense' found"),
        (
            "--ascending --cadence often",
            "invalid value 'often' for '--cadence <CADENCE>': \"often\" is not a duration such as 20s, 1m30s, 250ms, 7d or \
             PT1M; allowed are every-row, every-batch and a duration",
        ),
        (
            "--ascending --agg total(usd)",
            "invalid value 'total(usd)' for '--agg <FUNCTION>': \"total(usd)\": no function \"total\"; allowed: count, \
             count(x), sum(x), min(x), max(x), mean(x), stddev(x), var(x), stddev_pop(x), var_pop(x), first(x), last(x), \
             max_by(x,y), min_by(x,y), quantile(x,0.99), p99(x), reservoir_quantile(x,0.99[,capacity]), approx_distinct(x)",
        ),
    ] {
        assert_eq!(
            fails(&rows, &format!("rows.csv --time ts --tumble 1m {flags}")),
            said(2, text),
            "{flags}"
        );
    }
    assert_eq!(
        fails(&rows, "rows.csv --time ts --tumble 1500us --ascending"),
        said(
            2,
            "--tumble: 1ms500us is not a whole number of ticks of event time column \"ts\", whose unit is millisecond"
        )
    );
}

#[test]
fn columns_that_are_not_there() {
    let rows = [("rows.csv", csv())];
    for (flags, text) in [
        ("--time when", "--time: the input has no column \"when\"; it has ts, tenant, usd"),
        ("--time ts --key team", "--key: the input has no column \"team\"; it has ts, tenant, usd"),
        (
            "--time ts --agg max(eur)",
            "--agg max(eur): the input has no column \"eur\"; it has ts, tenant, usd",
        ),
        (
            "--time ts --ingest-time seen",
            "--ingest-time: the input has no column \"seen\"; it has ts, tenant, usd",
        ),
        (
            "--time ts --partition-by shard",
            "--partition-by: the input has no column \"shard\"; it has ts, tenant, usd",
        ),
    ] {
        assert_eq!(
            fails(&rows, &format!("rows.csv --tumble 1m --ascending {flags}")),
            said(2, text),
            "{flags}"
        );
    }
}

#[test]
fn columns_of_a_wrong_type() {
    let rows = [("rows.csv", csv())];
    for (flags, code, text) in [
        (
            "--time tenant",
            1,
            "rows.csv: column \"tenant\" is no time: its first value is \"acme\"; allowed are ISO 8601 text, as in \
             2024-05-01T10:00:00Z, and whole numbers with --time-unit",
        ),
        (
            "--time usd",
            2,
            "--time: column \"usd\" is Float64; allowed: Timestamp, Date32, Date64, or whole numbers (Int64) with --time-unit",
        ),
        (
            "--time ts --agg sum(tenant)",
            2,
            "--agg sum(tenant): column \"tenant\" is Utf8; allowed: integers, floats, Decimal128 and dictionaries of these",
        ),
        (
            "--time ts --agg count --agg count",
            2,
            "--agg: name \"count\" is not allowed: a name that no key, window or other aggregate column of the output has; \
             rename it by \"as NAME\"",
        ),
    ] {
        assert_eq!(
            fails(&rows, &format!("rows.csv --tumble 1m --ascending {flags}")),
            said(code, text),
            "{flags}"
        );
    }
    assert_eq!(
        refused("int.ndjson", "{\"ts\":1714557601,\"usd\":1}\n"),
        said(
            2,
            "--time ts: the column holds whole numbers; say what they count since 1970 by --time-unit s, ms, us or ns"
        )
    );
}

#[test]
fn rows_that_cannot_be_read_are_named_by_line() {
    let head = "ts,tenant,usd\n2024-05-01T10:00:01Z,acme,1\n";
    let many = format!("{head}{}", "2024-05-01T10:00:01Z,acme,1\n".repeat(1_500));
    for (name, content, text) in [
        (
            "a.csv",
            format!("{head}2024-05-01T10:00:02Z,\"ac\nme\",2\n2024-05-01T10:00:02Z,acme,x\n"),
            "a.csv:5: column \"usd\": cannot read \"x\" as Int64; --schema gives a column another type",
        ),
        (
            "a.csv",
            format!("{many}2024-05-01T10:00:02Z,acme,0.5\n"),
            "a.csv:1503: column \"usd\": cannot read \"0.5\" as Int64; --schema gives a column another type",
        ),
        (
            "a.csv",
            format!("{head}2024-05-01T10:00:02Z,acme\n"),
            "a.csv:3: the row has 2 columns, the header 3",
        ),
        (
            "a.csv",
            format!("{many}2024-05-01T10:00:02Z,acme,1,2\n"),
            "a.csv:1503: the row has 4 columns, the header 3",
        ),
        (
            "a.csv",
            format!("{head}yesterday,acme,1\n"),
            "a.csv:3: column \"ts\": Error parsing timestamp from 'yesterday': timestamp must contain at least 10 characters",
        ),
        (
            "a.csv",
            format!("{head}2024-05-01T10:00:02Z,\"acme,1\n2024-05-01T10:00:02Z,acme,1\n"),
            "a.csv:3: a quote that is opened in this record is never closed",
        ),
        ("a.csv", "ts,ts\n1,2\n".into(), "a.csv: the header has column \"ts\" twice"),
        ("a.csv", String::new(), "a.csv: is empty; a CSV file starts with a header"),
        (
            "a.ndjson",
            "{\"ts\":\"2024-05-01T10:00:01Z\",\"usd\":1}\n\n{\"ts\":\"2024-05-01T10:00:01Z\",\"usd\":1\n"
                .into(),
            "a.ndjson:3: Not valid JSON: EOF while parsing an object at column 36; NDJSON has one whole object on each line",
        ),
        (
            "a.ndjson",
            format!(
                "{}{{\"ts\":\"2024-05-01T10:00:01Z\",\"usd\":\"x\"}}\n",
                "{\"ts\":\"2024-05-01T10:00:01Z\",\"usd\":1}\n".repeat(1_200)
            ),
            "a.ndjson:1201: whilst decoding field 'usd': failed to parse \"x\" as Int64",
        ),
        (
            "a.ndjson",
            format!(
                "{}{{\"ts\":\"2024-05-01T10:00:01Z\"",
                "{\"ts\":\"2024-05-01T10:00:01Z\",\"usd\":1}\n".repeat(1_200)
            ),
            "a.ndjson:1201: Truncated record whilst reading object; NDJSON has one whole object on each line",
        ),
    ] {
        assert_eq!(refused(name, &content), said(1, text), "{text}");
    }
    assert_eq!(
        refused("a.ndjson", ""),
        said(
            2,
            "--time: the input has no column \"ts\"; it has none, for no row has a value; --schema can name columns"
        )
    );
}

#[test]
fn schema_gives_a_column_another_type() {
    let place = Place::new();
    let rows = format!("ts,usd\n{}2024-05-01T10:00:02Z,0.5\n", "2024-05-01T10:00:01Z,1\n".repeat(1_500));
    place.file("a.csv", rows);
    let expected = "window_start,window_end,sum(usd)\n2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,";
    let floats = place.run(&format!("window a.csv {FLAGS} --schema usd:f64 --format csv")).ok();
    assert_eq!(floats, format!("{expected}1500.5\n"));
    let decimals = place.run(&format!("window a.csv {FLAGS} --schema usd:decimal(18,2) --format csv")).ok();
    assert_eq!(decimals, format!("{expected}1500.50\n"));
}

#[test]
fn null_event_times() {
    let rows = [("rows.csv", csv())];
    assert_eq!(
        fails(&rows, "rows.csv --time ts --tumble 1m --ascending --on-null error"),
        said(
            1,
            "rows.csv: row 5: column \"ts\" has no event time; --on-null reject or drop lets such rows pass"
        )
    );
    let place = Place::new();
    // batches of several partitions come in one call, and rows are still told by file
    place.file("parts.csv", "ts,usd,p\n2024-05-01T10:00:00Z,1,0\n,2,1\n");
    let ran = place.run(&format!("window parts.csv {FLAGS} --partition-by p --on-null error"));
    assert!(ran.err.contains("parts.csv: row 2: column \"ts\" has no event time"), "{}", ran.err);
    place.file("nulls.csv", "ts,usd\n,1\n,2\n");
    let ran = place.run(&format!("window nulls.csv {FLAGS} --format csv --on-null drop --rejected r.csv"));
    assert!(ran.err.contains("rejected: 2 null_event_time"), "{}", ran.err);
    assert_eq!(ran.ok(), "window_start,window_end,sum(usd)\n");
    assert_eq!(place.read("r.csv"), "ts,usd,reject_reason\n", "dropped rows are only counted");
}

#[test]
fn files() {
    assert_eq!(
        refused("a.txt", "x"),
        said(
            2,
            "a.txt: the extension does not tell the format; known are .parquet .pq .csv .tsv .ndjson .jsonl .json .arrow \
             .arrows .ipc .feather, or use --input-format"
        )
    );
    let missing = fails(&[], &format!("missing.csv {FLAGS}"));
    assert_eq!(missing, said(1, "missing.csv: No such file or directory (os error 2)"));
    let twice = fails(&[], &format!("- - {FLAGS}"));
    assert_eq!(twice, said(2, "standard input (-) is given twice; it can be read once"));
    let rows = [("rows.csv", csv())];
    assert_eq!(
        fails(&rows, &format!("rows.csv {FLAGS} --out out.xls")),
        said(
            2,
            "--out out.xls: the extension does not tell the format; known are .csv .ndjson .jsonl .json .parquet .pq .arrow \
             .ipc .feather .txt or use --format"
        )
    );
    let (code, text) = fails(&rows, &format!("rows.csv {FLAGS} --out nowhere/out.csv"));
    assert!(
        code == 1 && text.starts_with("error: nowhere/out.csv: cannot be written: No such file"),
        "{text}"
    );
}

#[test]
fn truncated_files() {
    let place = Place::with_rows();
    for name in ["whole.parquet", "whole.arrow"] {
        place.run(&format!("window rows.csv --time ts --tumble 1m --ascending --out {name}")).ok();
        let bytes = place.bytes(name);
        let cut = name.replace("whole", "cut");
        for length in [0, 3, bytes.len() / 2, bytes.len() - 4] {
            place.file(&cut, &bytes[..length]);
            let ran = place.run(&format!("window {cut} --time window_start --tumble 1m --ascending"));
            assert_eq!(ran.code, 1, "{cut} of {length} bytes: {ran:?}");
            assert!(ran.err.starts_with(&format!("error: {cut}: ")), "{ran:?}");
        }
    }
}

#[test]
fn inputs_that_differ() {
    let a = "ts,usd\n2024-05-01T10:00:01Z,1\n";
    for (b, text) in [
        (
            "ts,usd\n2024-05-01T10:00:01Z,true\n",
            "the inputs differ: column \"usd\" is Int64 in a.csv, and Boolean in b.csv",
        ),
        (
            "ts\n2024-05-01T10:00:01Z\n",
            "the inputs differ: b.csv has no column \"usd\", which a.csv has as Int64",
        ),
        (
            "ts,usd,x\n2024-05-01T10:00:01Z,1,1\n",
            "the inputs differ: a.csv has no column \"x\", which b.csv has as Int64",
        ),
    ] {
        let files = [("a.csv", a.to_string()), ("b.csv", b.to_string())];
        assert_eq!(fails(&files, "a.csv b.csv --time ts --tumble 1m --ascending"), said(1, text));
    }
    // order does not matter, and whole numbers are floats if another file has floats
    let place = Place::new();
    place.file("a.csv", a).file("b.csv", "usd,ts\n0.5,2024-05-01T10:00:02.5Z\n");
    let results = place.run(&format!("window a.csv b.csv {FLAGS} --format csv")).ok();
    assert_eq!(results.lines().nth(1), Some("2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,1.5"));
}
