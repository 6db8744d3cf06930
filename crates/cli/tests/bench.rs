//! `highwater bench`: its answers, what it prints, and what it says when something is wrong.

mod common;

use std::fs::File;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_select::concat::concat_batches;
use common::Place;
use serde_json::Value;

const WORKLOADS: [&str; 8] = ["w1", "w2", "w3", "w4", "w5", "q5", "q7", "ysb"];

/// The objects that a run prints.
fn objects(place: &Place, arguments: &str) -> Vec<Value> {
    let out = place.run(&format!("bench --json {arguments}")).ok();
    out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn object(place: &Place, arguments: &str) -> Value {
    let mut objects = objects(place, arguments);
    assert_eq!(objects.len(), 1);
    objects.remove(0)
}

fn read(place: &Place, name: &str) -> RecordBatch {
    let reader = FileReader::try_new(File::open(place.path(name)).expect("a file"), None).expect("Arrow");
    let schema = reader.schema();
    concat_batches(&schema, &reader.map(|batch| batch.expect("a batch")).collect::<Vec<_>>()).expect("rows")
}

fn write(place: &Place, name: &str, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let file = File::create(place.path(name)).expect("a file");
    let mut writer = FileWriter::try_new(file, &batch.schema()).expect("a writer");
    writer.write(&batch).and_then(|()| writer.finish()).expect("written");
}

/// Three minutes of rows in batches of 4,096, so that rows are late and windows fire in between.
#[test]
fn answers_are_right_on_any_number_of_partitions_and_threads() {
    let place = Place::new();
    for flags in ["", "--partitions 8", "--partitions 8 --threads 2", "--partitions 3 --threads 2"] {
        let objects = objects(
            &place,
            &format!("--runs 1 --rows 200k --rate 1000 --batch-rows 4096 --bound 5s {flags}"),
        );
        let names: Vec<&str> = objects.iter().filter_map(|object| object["workload"].as_str()).collect();
        assert_eq!(names, WORKLOADS);
        for object in &objects {
            assert_eq!(object["answer_ok"], true, "{flags}: {object}");
            assert_eq!(object["rows"], 200_000);
            let late = object["late_rows"].as_u64().expect("a number");
            // Rows that are at most a minute late still join the last of their windows of 5 minutes or a day. Of sessions few
            // are late, and with many partitions none need be.
            let workload = object["workload"].as_str().unwrap_or_default();
            let (seldom, never) = (workload == "w5", workload == "w2" || workload == "w4");
            assert!(seldom || (late > 0) != never, "{flags}: {object}");
        }
    }
}

#[test]
fn other_windows_keys_and_disorder() {
    let place = Place::new();
    for flags in [
        "w1 --size 10s",
        "w1 --size 10s --slide 4s --bound 0",
        "w1 --size 3s --slide 5s --bound 1s --partitions 2",
        "w1 --key-type utf8 --keys 100 --zipf 0 --stragglers 20% --straggler-delay 1s,90s",
        "w1 --key-type dictionary --in-order --bound 0",
        "w3 --key-type i32 --keys 10 --delay-mean 30s --delay-cap 1m",
        "w2 --key-type i64 --size 20s --slide 3s --bound 2s --seed 5",
        "w5 --gap 1s --bound 0 --keys 100",
        "w5 --gap 2s --bound 1s --keys 1k --stragglers 20% --straggler-delay 1s,9s --partitions 3 --threads 2",
        "w5 --gap 200ms --bound 2s --keys 20 --key-type utf8 --zipf 1",
        "q5 --size 30s --slide 7s --bound 1s",
        "q7 --size 3s --slide 1s --bound 500ms --partitions 3",
        "ysb --keys 50 --bound 1s --partitions 4 --threads 4",
    ] {
        let object = object(&place, &format!("{flags} --rows 50k --rate 500 --batch-rows 1000 --runs 1"));
        assert_eq!(object["answer_ok"], true, "{flags}: {object}");
    }
}

#[test]
fn all_fields_are_there() {
    let place = Place::new();
    let fields = [
        "workload",
        "threads",
        "partitions",
        "rows",
        "keys",
        "runs",
        "rows_per_s",
        "ns_per_row",
        "best_ns_per_row",
        "worst_ns_per_row",
        "scan_limit_ns_per_row",
        "share_of_limit",
        "peak_rss_bytes",
        "state_bytes",
        "allocations_per_million_rows",
        "late_rows",
        "result_rows",
        "answer_ok",
    ];
    let keys = |object: &Value| object.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let w1 = object(&place, "w1 --rows 100k --runs 3");
    assert_eq!(keys(&w1), fields);
    assert_eq!((&w1["keys"], &w1["runs"]), (&1_000.into(), &3.into()));
    for field in ["rows_per_s", "ns_per_row", "scan_limit_ns_per_row", "share_of_limit", "state_bytes"] {
        assert!(w1[field].as_f64() > Some(0.0), "{field}: {w1}");
    }
    assert!(w1["allocations_per_million_rows"].as_f64() > Some(0.0), "{w1}");
    assert!(w1["best_ns_per_row"].as_f64() <= w1["ns_per_row"].as_f64());
    assert!(w1["ns_per_row"].as_f64() <= w1["worst_ns_per_row"].as_f64());
    assert_eq!(w1["peak_rss_bytes"].is_u64(), cfg!(target_os = "linux"));
    let w2 = object(&place, "w2 --rows 100k");
    assert_eq!(keys(&w2)[..fields.len()], fields);
    assert_eq!(keys(&w2)[fields.len()..], ["quantile_error", "quantile_error_bound"]);
    assert!(
        w2["quantile_error"].as_f64() > Some(0.0) && w2["quantile_error"].as_f64() <= Some(1.0 / 129.0),
        "{w2}"
    );
    assert_eq!(w2["quantile_error_bound"], 1.0 / 129.0);
    let unchecked = object(&place, "q7 --rows 10k --no-check");
    assert_eq!((&unchecked["answer_ok"], &unchecked["keys"]), (&Value::Null, &Value::Null));
}

#[test]
fn the_table_has_a_header_and_a_line_a_workload() {
    let ran = Place::new().run("bench q7 w1 --rows 20k --runs 2");
    assert_eq!(ran.err, "", "progress is for terminals");
    let out = ran.ok();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert!(lines[0].starts_with("workload") && lines[1].contains("M rows/s"), "{out}");
    assert!(lines[2].starts_with("q7 ") && lines[3].starts_with("w1 "), "{out}");
    assert!(lines[2..].iter().all(|line| line.contains(" 20,000 ") && line.ends_with("  ok")), "{out}");
    let edge = |line: &str, text: &str| line.find(text).map(|at| at + text.len());
    assert_eq!(edge(lines[0], "rows"), edge(lines[2], "20,000"));
}

#[test]
fn no_rows_at_all() {
    let place = Place::new();
    for object in objects(&place, "--rows 0 --runs 2") {
        assert_eq!((&object["rows"], &object["answer_ok"]), (&0.into(), &true.into()), "{object}");
        assert_eq!(
            (&object["ns_per_row"], &object["share_of_limit"]),
            (&Value::Null, &Value::Null),
            "{object}"
        );
    }
    assert!(place.run("bench w1 --rows 0").ok().contains("ok"));
}

#[test]
fn rows_of_a_file_give_the_answer_of_generated_ones() {
    let place = Place::new();
    for (workload, stream) in WORKLOADS.map(|name| match name {
        "q5" | "q7" => (name, "nexmark"),
        _ => (name, name),
    }) {
        place.run(&format!("generate {stream} --rows 60k --batch-rows 1000 --out rows.arrow")).ok();
        place.run(&format!("generate {stream} --rows 60k --out rows.parquet")).ok();
        let flags = format!("{workload} --runs 1 --batch-rows 7000 --bound 1s");
        let expected = object(&place, &format!("{flags} --rows 60k --out generated.arrow"));
        let results = read(&place, "generated.arrow");
        assert_eq!(expected["result_rows"], results.num_rows());
        for file in ["rows.arrow", "rows.parquet"] {
            let object = object(&place, &format!("{flags} --input {file} --out results.arrow"));
            assert_eq!(object["answer_ok"], true, "{file}: {object}");
            assert_eq!((&object["late_rows"], &object["rows"]), (&expected["late_rows"], &expected["rows"]));
            assert_eq!(read(&place, "results.arrow"), results, "{workload} {file}");
        }
    }
}

#[test]
fn the_command_of_a_comparison() {
    let place = Place::new();
    place.run("generate w1 --rows 50k --out rows.arrow").ok();
    let flags = "bench w1 --input rows.arrow --out results.parquet --bound 61s --runs 3 --json --threads 1";
    let object: Value = serde_json::from_str(&place.run(flags).ok()).expect("an object");
    assert_eq!((&object["answer_ok"], &object["late_rows"]), (&true.into(), &0.into()));
    assert_eq!(&place.bytes("results.parquet")[..4], b"PAR1");
    assert_eq!(place.names(), ["results.parquet", "rows.arrow"]);
}

/// Times as whole numbers, keys as they are, values that are no multiples of 1/64.
#[test]
fn rows_that_are_not_generated() {
    let place = Place::new();
    let times = Int64Array::from(vec![1_000, 59_999, 60_000, -1, 200_000, 3]);
    let values = Float64Array::from(vec![0.1, 0.2, 0.3, 0.7, 0.6, 0.5]);
    let column = |array: Arc<dyn Array>| array;
    write(
        &place,
        "rows.arrow",
        vec![
            ("value", column(Arc::new(values))),
            ("other", Arc::new(Int32Array::from(vec![0; 6]))),
            ("key", Arc::new(Int64Array::from(vec![7, 7, 7, -7, 7, 7]))),
            ("ts", Arc::new(times)),
        ],
    );
    let object = object(&place, "w1 --input rows.arrow --out results.arrow --bound 0s --batch-rows 4");
    assert_eq!((&object["answer_ok"], &object["late_rows"]), (&true.into(), &2.into()), "{object}");
    let results = read(&place, "results.arrow");
    assert_eq!(results["key"].as_primitive::<Int64Type>().values(), &[7, 7, 7]);
    let starts = results["window_start"].as_primitive::<TimestampMillisecondType>();
    assert_eq!(starts.values(), &[0, 60_000, 180_000]);
    assert_eq!(results["count"].as_primitive::<Int64Type>().values(), &[2, 1, 1]);
    let object = self::object(&place, "w1 --input rows.arrow --rows 2");
    assert_eq!((&object["rows"], &object["result_rows"]), (&2.into(), &1.into()));
}

#[test]
fn campaigns_of_a_file() {
    let place = Place::new();
    place
        .run("generate ysb --rows 20k --keys 30 --seed 9 --out rows.arrow --campaigns campaigns.parquet")
        .ok();
    let flags = "ysb --input rows.arrow --campaigns campaigns.parquet --out results.arrow";
    assert_eq!(object(&place, flags)["answer_ok"], true);
    let results = read(&place, "results.arrow");
    assert_eq!(
        object(&place, "ysb --input rows.arrow --keys 30 --seed 9 --out same.arrow")["answer_ok"],
        true
    );
    assert_eq!(read(&place, "same.arrow"), results);
    place.run("generate ysb --rows 0 --keys 20 --out none.arrow --campaigns few.arrow").ok();
    let ran = place.run("bench ysb --input rows.arrow --campaigns few.arrow");
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("column \"ad_id\": ") && ran.err.contains("0 to 19, as in the table"),
        "{}",
        ran.err
    );
}

/// The exit code, and the message; nothing else is printed.
fn fails(place: &Place, arguments: &str) -> (i32, String) {
    let ran = place.run(&format!("bench {arguments}"));
    assert_eq!(ran.out, "", "nothing but the message");
    let line = ran.err.lines().next().unwrap_or_default();
    (ran.code, line.strip_prefix("error: ").unwrap_or(line).to_owned())
}

#[test]
fn flags_that_do_not_go_together() {
    let place = Place::new();
    for (arguments, text) in [
        (
            "w1 --threads 2",
            "--threads 2: one partition is one thread's work; allowed with --partitions 2 or more",
        ),
        ("--input rows.arrow", "--input: given with all workloads; allowed with exactly one"),
        ("w1 w2 --out out.arrow", "--out: given with 2 workloads; allowed with exactly one"),
        (
            "w1 --out out.csv",
            "--out out.csv: the extension is none of those that are written; allowed: .parquet .pq .arrow .ipc .feather",
        ),
        (
            "w1 --input rows.csv",
            "rows.csv: the extension is none of those that can be read; allowed: .parquet .pq .arrow .arrows .ipc .feather",
        ),
        ("q5 --keys 5", "--keys: given with q5 is not allowed; allowed: with w1 to w5, ysb and gateway"),
        ("w1 --input rows.arrow --seed 5", "--seed: given with rows of a file; allowed with generated rows"),
        ("w1 --input rows.arrow --campaigns table.arrow", "--campaigns: given with w1; allowed with ysb"),
        ("w1 --gap 1m", "--gap: given with w1; allowed with w5"),
        ("w5 --size 1m", "--size: given with w5; allowed with w1 to w4, q5, q7 and ysb"),
        ("w5 --slide 1m", "--slide: given with w5; allowed with w1 to w4, q5, q7 and ysb"),
        ("w1 --runs 0", "invalid value '0' for '--runs <N>': 0 is not in 1..=10000"),
        (
            "w1 --rows many",
            "invalid value 'many' for '--rows <N>': expected a whole number such as 5000, 5k or 50M",
        ),
    ] {
        assert_eq!(fails(&place, arguments), (2, text.to_owned()), "{arguments}");
    }
    let (code, text) = fails(&place, "w9");
    assert_eq!((code, text.as_str()), (2, "invalid value 'w9' for '[WORKLOAD]...'"));
    let ran = place.run("bench w9");
    assert!(ran.err.contains("[possible values: w1, w2, w3, w4, w5, q5, q7, ysb]"), "{}", ran.err);
    let (code, text) = fails(&place, "w1 --size 1500us");
    assert!(code == 2 && text.starts_with("--size: ") || text.contains("1ms500us"), "{text}");
    let (code, text) = fails(&place, "w5 --gap 1500us");
    assert!(code == 2 && text.starts_with("--gap: "), "{text}");
}

#[test]
fn files_that_are_not_what_they_should_be() {
    let place = Place::new();
    place.run("generate w1 --rows 20k --out rows.arrow").ok();
    place.run("generate w1 --rows 0 --out none.arrow").ok();
    place.run("generate nexmark --rows 10 --out bids.arrow").ok();
    place.run("generate w1 --rows 10 --poison-every 5 --poison-kind null --out nulls.arrow").ok();
    let whole = place.bytes("rows.arrow");
    place
        .file("cut.arrow", &whole[..whole.len() / 2])
        .file("empty.arrow", "")
        .file("text.parquet", "ts,key,value\n");
    write(
        &place,
        "wrong.arrow",
        vec![
            ("ts", Arc::new(Int64Array::from(vec![1])) as ArrayRef),
            ("key", Arc::new(Int64Array::from(vec![1]))),
            ("value", Arc::new(Int64Array::from(vec![1]))),
        ],
    );
    for (file, code, text) in [
        (
            "bids.arrow",
            2,
            "bids.arrow: there is no column \"key\"; w1 reads ts, key, value; the file has ts, auction, bidder, price",
        ),
        ("wrong.arrow", 2, "wrong.arrow: column \"value\" is Int64; allowed: Float64"),
        ("none.arrow", 1, "none.arrow: has no rows; allowed are files with at least one"),
        ("nulls.arrow", 1, "column \"ts\": a null is not allowed; allowed: values in all rows"),
        ("empty.arrow", 1, "empty.arrow: is empty"),
    ] {
        assert_eq!(fails(&place, &format!("w1 --input {file}")), (code, text.to_owned()), "{file}");
    }
    for (file, text) in [
        ("cut.arrow", "cut.arrow: cannot be read as Arrow IPC: "),
        ("text.parquet", "text.parquet: cannot be read as Parquet: "),
        ("absent.arrow", "absent.arrow: No such file"),
    ] {
        let (code, said) = fails(&place, &format!("w1 --input {file}"));
        assert_eq!(code, 1, "{file}");
        assert!(said.starts_with(text), "{said}");
    }
    let (code, said) = fails(&place, "w1 --rows 10 --out absent/out.arrow");
    assert!(code == 1 && said.starts_with("absent/out.arrow: cannot be written: "), "{said}");
}
