//! Files hold the rows of the stream, and errors say what is wrong.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema};
use arrow_select::concat::concat_batches;
use clap::Parser;
use highwater_cli::generate::{self, *};

use crate::{Cli, args, of_partition, rows_of};

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
