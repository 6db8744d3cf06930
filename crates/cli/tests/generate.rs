//! Generated streams: their rows never change, arrive in order, and come back from every file format.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema};
use arrow_select::concat::concat_batches;
use clap::Parser;
use highwater_cli::generate::{self, *};

const ALL: [Workload; 8] = [
    Workload::W1,
    Workload::W2,
    Workload::W3,
    Workload::W4,
    Workload::W5,
    Workload::Nexmark,
    Workload::Ysb,
    Workload::Gateway,
];

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: generate::Args,
}

fn args(line: &str) -> generate::Args {
    Cli::parse_from(std::iter::once("generate").chain(line.split_whitespace())).args
}

fn rows_of(spec: &Spec) -> RecordBatch {
    let stream = Stream::new(spec).unwrap();
    let schema = stream.schema().clone();
    let batches: Vec<_> = stream.map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

/// With both columns that tell about the arrival.
fn traced(workload: Workload, rows: u64) -> Spec {
    Spec { rows, ingest_column: true, partition_column: true, ..Spec::new(workload) }
}

fn millis(batch: &RecordBatch, name: &str) -> Vec<i64> {
    batch[name].as_primitive::<TimestampMillisecondType>().values().to_vec()
}

fn partitions(batch: &RecordBatch) -> Vec<i32> {
    batch["partition"].as_primitive::<Int32Type>().values().to_vec()
}

/// One variation for each knob.
fn knobs(workload: Workload) -> Vec<Spec> {
    let plain = traced(workload, 0);
    let partitions = 4;
    let stall = Some(Stall { partition: 2, from_ms: 50, length_ms: 700 });
    let poison = Some(Poison { first: 10, every: 100, kind: PoisonKind::Mixed });
    let slow = Disorder { mean_ms: 5_000, straggler_share: 0.2, ..plain.disorder };
    let mut specs = vec![
        plain.clone(),
        Spec { seed: 99, ..plain.clone() },
        Spec { rate: 333, ..plain.clone() },
        Spec { rate: 1, ..plain.clone() },
        Spec { start_ms: -7, ..plain.clone() },
        Spec { partitions, ..plain.clone() },
        Spec { partitions, stall, ..plain.clone() },
        Spec { disorder: slow, ..plain.clone() },
        Spec { disorder: Disorder::NONE, ..plain.clone() },
        Spec { poison, ..plain.clone() },
        Spec { ingest_column: false, partition_column: false, ..plain.clone() },
    ];
    if workload != Workload::Nexmark {
        specs.push(Spec { keys: 50, ..plain.clone() });
        specs.push(Spec { keys: 50, zipf: 1.5, ..plain.clone() });
    }
    if workload == Workload::W1 {
        let types = [KeyType::I32, KeyType::I64, KeyType::Utf8, KeyType::Dictionary];
        specs.extend(types.map(|key_type| Spec { key_type, ..plain.clone() }));
    }
    specs
}

#[test]
fn a_short_stream_is_the_beginning_of_a_long_one() {
    for spec in ALL.into_iter().flat_map(knobs) {
        let long = rows_of(&Spec { rows: 5_000, ..spec.clone() });
        assert_eq!(long.num_rows(), 5_000);
        for rows in [0, 1, 64, 1_234, 4_999] {
            let short = rows_of(&Spec { rows, ..spec.clone() });
            assert_eq!(short, long.slice(0, rows as usize), "{rows} rows of {spec:?}");
        }
        let cut = Stream::new(&Spec { rows: 5_000, ..spec.clone() }).unwrap().with_batch_rows(77);
        let cut: Vec<_> = cut.map(Result::unwrap).collect();
        assert!(cut.iter().rev().skip(1).all(|batch| batch.num_rows() == 77));
        assert_eq!(concat_batches(&long.schema(), &cut).unwrap(), long, "cut into batches: {spec:?}");
    }
}

#[test]
fn the_rows_never_change() {
    // A new value here means that everything ever generated, measured and recorded was about another stream.
    let recorded = [
        3305432575795628831,
        6881184503097634180,
        7094657075853598523,
        4410696406118260142,
        16211645180590216676,
        13111011374264145801,
        15569937590781881392,
        9499212586833061656,
    ];
    let mut hashes = Vec::new();
    for workload in ALL {
        let mut spec = traced(workload, 1_000);
        spec.partitions = 4;
        spec.stall = Some(Stall { partition: 1, from_ms: 100, length_ms: 2_000 });
        spec.poison = Some(Poison { first: 5, every: 50, kind: PoisonKind::Mixed });
        hashes.push(fnv(&text(&rows_of(&spec))));
    }
    assert_eq!(hashes, recorded);
}

fn text(batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    arrow_csv::Writer::new(&mut bytes).write(batch).unwrap();
    bytes
}

/// FNV-1a
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn seeds_and_columns_are_independent() {
    let first = rows_of(&Spec { rows: 2_000, ..Spec::new(Workload::W1) });
    let other = rows_of(&Spec { rows: 2_000, seed: 1, ..Spec::new(Workload::W1) });
    for column in ["ts", "key", "value"] {
        assert_ne!(first[column].to_data(), other[column].to_data(), "{column}");
    }
}

#[test]
fn the_order_is_that_of_the_whole_stream_sorted() {
    for workload in [Workload::W1, Workload::W4] {
        let plain = traced(workload, 20_000);
        let stall = Some(Stall { partition: 0, from_ms: 300, length_ms: 1_000 });
        for spec in [Spec { partitions: 3, stall, ..plain.clone() }, plain] {
            let mut arrivals = arrivals::Arrivals::new(&spec);
            let mut rows = Vec::new();
            arrivals.take(20_000, &mut rows);
            assert!(
                rows.windows(2).all(|pair| (pair[0].at_us, pair[0].event) < (pair[1].at_us, pair[1].event))
            );
            let last_ms = rows[19_999].at_us / 1000;
            for row in &rows {
                assert!(arrivals.timeline().event_ms(row.event) * 1000 <= row.at_us);
            }
            // Nothing that has arrived by then is missing: every event is there, or arrives later.
            let mut events: Vec<u64> = rows.iter().map(|row| row.event).collect();
            events.sort_unstable();
            events.dedup();
            assert_eq!(events.len(), 20_000);
            let old = last_ms.saturating_sub(61_000) * spec.rate / 1000;
            assert!(events.iter().take(old as usize).enumerate().all(|(i, &event)| i as u64 == event));

            let batch = rows_of(&spec);
            assert!(millis(&batch, "ingest_ts").is_sorted());
            let expected: Vec<i64> = rows
                .iter()
                .map(|row| spec.start_ms + arrivals.timeline().event_ms(row.event) as i64)
                .collect();
            assert_eq!(millis(&batch, "ts"), expected);
        }
    }
}

#[test]
fn in_order_streams_lie_on_the_grid_of_their_rate() {
    for rate in [1, 3, 8, 250, 10_000] {
        let spec = Spec { disorder: Disorder::NONE, rate, ..traced(Workload::W1, 3_000) };
        let batch = rows_of(&spec);
        let grid: Vec<i64> = (0..3_000).map(|i| spec.start_ms + i * 1000 / rate as i64).collect();
        assert_eq!(millis(&batch, "ts"), grid, "{rate}");
        assert_eq!(millis(&batch, "ingest_ts"), grid, "{rate}");
    }
}

#[test]
fn delays_have_the_stated_distribution() {
    let rows = 400_000;
    for (workload, longest) in [(Workload::W1, 60_000), (Workload::Gateway, 30_000)] {
        let spec = Spec { rate: 2_000, ..traced(workload, rows) };
        let batch = rows_of(&spec);
        let (times, arrivals) = (millis(&batch, "ts"), millis(&batch, "ingest_ts"));
        // Of the last minute only the quick rows are here yet.
        let horizon = arrivals[rows as usize - 1] - 60_000;
        let past = times.iter().zip(&arrivals).filter(|(ts, _)| **ts <= horizon);
        let delays: Vec<i64> = past.map(|(ts, at)| at - ts).collect();
        let n = delays.len() as f64;
        assert!(n > 200_000.0);
        assert!(delays.iter().all(|delay| (0..longest).contains(delay)));
        let share = spec.disorder.straggler_share;
        let late = delays.iter().filter(|delay| **delay > 20_000).count() as f64;
        assert!((late - n * share).abs() < 4.0 * (n * share * (1.0 - share)).sqrt(), "{late} of {n}");
        let usual: Vec<f64> =
            delays.iter().filter(|delay| **delay < 20_000).map(|delay| *delay as f64).collect();
        let mean = usual.iter().sum::<f64>() / usual.len() as f64;
        assert!((mean - 2_000.0).abs() < 30.0, "{mean}");
    }
}

#[test]
fn a_stalled_partition_is_silent_and_then_bursts() {
    let partitions = 4;
    let mut spec = Spec { partitions, rate: 100, ..traced(Workload::Gateway, 20_000) };
    spec.disorder.straggler_share = 0.0;
    let usual = rows_of(&spec);
    spec.stall = Some(Stall { partition: 2, from_ms: 60_000, length_ms: 45_000 });
    let stalled = rows_of(&spec);
    let (from, end) = (spec.start_ms + 60_000, spec.start_ms + 105_000);
    let arrivals = |batch: &RecordBatch, partition: i32| -> Vec<i64> {
        let of = partitions_and_arrivals(batch);
        of.filter(|(p, _)| *p == partition).map(|(_, at)| at).collect()
    };
    assert!(arrivals(&usual, 2).iter().filter(|at| (from..end).contains(at)).count() > 1_000);
    let at = arrivals(&stalled, 2);
    assert_eq!(at.iter().filter(|at| (from..end).contains(at)).count(), 0);
    let burst = at.iter().filter(|at| (end..end + 920).contains(at)).count();
    assert!((1_000..1_300).contains(&burst), "25 rows a second for 46 s: {burst}");
    for other in [0, 1, 3] {
        let (before, after) = (arrivals(&usual, other), arrivals(&stalled, other));
        let shared = before.len().min(after.len());
        assert_eq!(before[..shared], after[..shared], "partition {other}");
    }
    // In its own partition nothing overtakes anything because of the stall.
    let ids = |batch: &RecordBatch| -> Vec<String> {
        let ids = batch["request_id"].as_string::<i32>();
        let of = partitions_and_arrivals(batch).enumerate();
        of.filter(|(_, (p, _))| *p == 2).map(|(row, _)| ids.value(row).to_owned()).collect()
    };
    let (before, after) = (ids(&usual), ids(&stalled));
    let shared = before.len().min(after.len());
    assert_eq!(before[..shared], after[..shared]);
}

fn partitions_and_arrivals(batch: &RecordBatch) -> impl Iterator<Item = (i32, i64)> {
    partitions(batch).into_iter().zip(millis(batch, "ingest_ts"))
}

#[test]
fn poison_rows_are_counted_and_change_nothing_else() {
    let spec = Spec { disorder: Disorder::NONE, ..traced(Workload::Gateway, 2_400) };
    let clean = rows_of(&spec);
    for (kind, future, null) in
        [(PoisonKind::Future, 24, 0), (PoisonKind::Null, 0, 24), (PoisonKind::Mixed, 12, 12)]
    {
        let poison = Some(Poison { first: 99, every: 100, kind });
        let batch = rows_of(&Spec { poison, ..spec.clone() });
        let year_2999 = 32_472_144_000_000..32_503_680_000_000;
        assert_eq!(
            millis(&batch, "ts").iter().filter(|ts| year_2999.contains(*ts)).count(),
            future,
            "{kind:?}"
        );
        assert_eq!(batch["ts"].null_count(), null, "{kind:?}");
        for column in ["request_id", "ingest_ts", "partition", "usd"] {
            assert_eq!(clean[column].to_data(), batch[column].to_data(), "{column}");
        }
    }
    let single =
        args("gateway --in-order --rows 2400 --poison-first 1200 --poison-kind null").spec().unwrap();
    let batch = rows_of(&single);
    assert_eq!((batch["ts"].null_count(), batch["ts"].is_null(1_200)), (1, true));
    let every = args("gateway --poison-every 100").spec().unwrap();
    assert_eq!(every.poison, Some(Poison { first: 99, every: 100, kind: PoisonKind::Future }));
}

#[test]
fn keys_follow_zipf() {
    let batch = rows_of(&Spec { rows: 100_000, ..Spec::new(Workload::W1) });
    let mut counts = vec![0_u32; 1_000];
    for &key in batch["key"].as_primitive::<Int32Type>().values() {
        counts[key as usize] += 1;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let norm: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-1.1)).sum();
    for rank in [1, 2, 5, 10] {
        let expected = 100_000.0 * f64::from(rank).powf(-1.1) / norm;
        let got = f64::from(counts[rank as usize - 1]);
        assert!((got - expected).abs() < 5.0 * expected.sqrt(), "rank {rank}: {got} instead of {expected}");
    }
}

#[test]
fn split_streams_hold_the_rows_of_their_partition() {
    let poison = Some(Poison { first: 3, every: 500, kind: PoisonKind::Mixed });
    let spec = Spec { partitions: 5, poison, ..traced(Workload::Gateway, 10_000) };
    let whole = rows_of(&spec);
    for batch_rows in [1, 100, 65_536] {
        let mut parts = vec![Vec::new(); 5];
        for part in Stream::new(&spec).unwrap().with_batch_rows(batch_rows).split() {
            let (partition, batch) = part.unwrap();
            assert!((1..=batch_rows).contains(&batch.num_rows()));
            parts[partition].push(batch);
        }
        for (partition, batches) in parts.iter().enumerate() {
            let got = concat_batches(&whole.schema(), batches).unwrap();
            assert_eq!(got, of_partition(&whole, partition as i32), "partition {partition} by {batch_rows}");
        }
    }
}

fn of_partition(batch: &RecordBatch, partition: i32) -> RecordBatch {
    let mask = partitions(batch).into_iter().map(|p| Some(p == partition)).collect();
    arrow_select::filter::filter_record_batch(batch, &mask).unwrap()
}

fn read(path: &Path, like: &RecordBatch) -> RecordBatch {
    let file = File::open(path).unwrap();
    let schema = like.schema();
    let batches: Vec<RecordBatch> = match Format::of_path(path).unwrap() {
        Format::Parquet => parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(file, 1_000)
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap(),
        Format::Csv => {
            let reader = arrow_csv::ReaderBuilder::new(schema.clone()).with_header(true).build(file).unwrap();
            reader.collect::<Result<_, _>>().unwrap()
        }
        Format::Ndjson => {
            let reader = std::io::BufReader::new(file);
            let reader = arrow_json::ReaderBuilder::new(schema.clone()).build(reader).unwrap();
            reader.collect::<Result<_, _>>().unwrap()
        }
        Format::Arrow => {
            arrow_ipc::reader::FileReader::try_new(file, None).unwrap().collect::<Result<_, _>>().unwrap()
        }
        Format::Arrows => {
            arrow_ipc::reader::StreamReader::try_new(file, None).unwrap().collect::<Result<_, _>>().unwrap()
        }
    };
    concat_batches(&schema, &batches).unwrap()
}

/// What text can hold of a batch.
fn without_dictionaries(batch: &RecordBatch) -> RecordBatch {
    let strings = |column: &ArrayRef| match arrow_cast::cast(column, &DataType::Utf8) {
        Ok(text) if matches!(column.data_type(), DataType::Dictionary(..)) => text,
        _ => column.clone(),
    };
    let columns: Vec<_> = batch.columns().iter().map(strings).collect();
    let schema = batch.schema();
    let fields = schema.fields().iter().zip(&columns);
    let fields: Vec<_> = fields
        .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[test]
fn every_format_reads_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    for workload in ["w1", "w2", "nexmark", "ysb", "gateway"] {
        for format in ["parquet", "csv", "ndjson", "arrow", "arrows"] {
            let path = folder.path().join(format!("{workload}.{format}"));
            let line = format!(
                "{workload} --rows 3000 --poison-every 100 --poison-kind mixed --batch-rows 512 --out {}",
                path.display()
            );
            let args = args(&line);
            generate::run(&args).unwrap();
            let mut expected = rows_of(&args.spec().unwrap());
            if matches!(format, "csv" | "ndjson") {
                expected = without_dictionaries(&expected);
            }
            assert_eq!(read(&path, &expected), expected, "{line}");
        }
    }
}

#[test]
fn split_files_hold_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    for format in ["parquet", "csv", "ndjson", "arrow", "arrows"] {
        let out = folder.path().join(format!("requests.{format}"));
        let args = args(&format!("gateway --rows 2000 --partitions 3 --split --out {}", out.display()));
        generate::run(&args).unwrap();
        assert!(!out.exists());
        let whole = rows_of(&args.spec().unwrap());
        for partition in 0..3 {
            let path: PathBuf = folder.path().join(format!("requests-{partition}.{format}"));
            let expected = of_partition(&whole, partition);
            assert_eq!(read(&path, &expected), expected, "{}", path.display());
        }
    }
}

#[test]
fn text_times_are_iso() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.ndjson");
    let line = "gateway --in-order --rows 2 --poison-first 1 --poison-kind null --out";
    generate::run(&args(&format!("{line} {}", path.display()))).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains(r#""ts":"2026-01-15T10:00:00.000Z","ingest_ts":"2026-01-15T10:00:00.000Z""#),
        "{text}"
    );
    assert!(text.contains(r#""ts":null,"ingest_ts":"2026-01-15T10:00:00.050Z""#), "{text}");
    let path = folder.path().join("w1.csv");
    generate::run(&args(&format!("w1 --in-order --rows 0 --out {}", path.display()))).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "ts,key,value\n", "a header without rows");
}

#[test]
fn campaigns_hold_ten_ads_each() {
    let table = campaigns(&Spec::new(Workload::Ysb)).unwrap();
    let mut ads = vec![0; 100];
    for &campaign in table["campaign_id"].as_primitive::<Int32Type>().values() {
        ads[campaign as usize] += 1;
    }
    assert_eq!((table.num_rows(), ads), (1_000, vec![10; 100]));
}

#[test]
fn errors_name_the_flag_the_given_and_the_allowed() {
    for (line, message) in [
        ("w1 --partitions 0", "--partitions: 0 is not allowed; allowed: 1 to 65536"),
        ("w1 --keys 0", "--keys: 0 is not allowed; allowed: 1 to 16777216"),
        ("w1 --zipf 11", "--zipf: 11 is not allowed; allowed: 0 (uniform) to 10"),
        ("w1 --rate 0", "--rate: 0 is not allowed; allowed: 1 to 10000000"),
        ("gateway --stall 4,1m,40s", "--stall (partition): 4 is not allowed; allowed: 0 to 3"),
        (
            "w1 --straggler-delay 30s,20s",
            "--straggler-delay: 30s,20s is not allowed; allowed: MIN,MAX with MIN below MAX",
        ),
        ("w1 --delay-cap 8d", "--delay-cap: 8d is not allowed; allowed: 0 to 7d"),
        ("w1 --poison-every 0", "--poison-every: 0 is not allowed; allowed: 1 or more"),
        (
            "nexmark --keys 5",
            "--keys: given with nexmark is not allowed; allowed: with w1 to w5, ysb and gateway",
        ),
        ("w1 --campaigns ads.csv", "--campaigns: given with w1 is not allowed; allowed: with ysb"),
        ("w1 --split", "--out: - with --split is not allowed; allowed: the path of a file"),
        (
            "w1 --out rows.txt",
            "--out: rows.txt is not allowed; allowed: a name ending in .parquet, .csv, .ndjson, .arrow or .arrows, or --format",
        ),
    ] {
        assert_eq!(generate::run(&args(line)).unwrap_err().to_string(), message, "{line}");
    }
    let lost = generate::run(&args("w1 --out /nowhere/at/all/rows.csv")).unwrap_err().to_string();
    assert!(lost.starts_with("cannot write /nowhere/at/all/rows.csv: "), "{lost}");
    assert!(Cli::try_parse_from(["generate", "w1", "--stall", "1,2"]).is_err());
    assert!(Cli::try_parse_from(["generate", "w1", "--in-order", "--delay-mean", "1s"]).is_err());
}

#[test]
fn the_sample_data_is_what_its_commands_make() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data");
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let commands = readme.lines().filter_map(|line| line.strip_prefix("highwater generate "));
    for command in commands {
        let target = format!("{}/", scratch.path().display());
        generate::run(&args(&command.replace("examples/data/", &target))).unwrap();
    }
    let mut made: Vec<_> =
        std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    made.sort();
    assert_eq!(made, ["gateway-0.csv", "gateway-1.csv", "gateway-2.csv", "gateway-3.csv", "gateway.ndjson"]);
    for name in made {
        let (new, kept) = (std::fs::read(scratch.path().join(&name)), std::fs::read(folder.join(&name)));
        assert!(
            new.unwrap() == kept.unwrap(),
            "{} differs from what the README's command makes",
            name.display()
        );
    }
}
