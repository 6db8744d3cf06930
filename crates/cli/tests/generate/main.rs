//! Generated streams: their rows never change, arrive in order, and come back from every file format.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod files;
mod rows;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampMillisecondType};
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

fn of_partition(batch: &RecordBatch, partition: i32) -> RecordBatch {
    let mask = partitions(batch).into_iter().map(|p| Some(p == partition)).collect();
    arrow_select::filter::filter_record_batch(batch, &mask).unwrap()
}
