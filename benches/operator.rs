//! Rows a second of the whole operator, on one thread: `operator/<window>/<keys>/<disorder>`.
//!
//! `cargo bench -p highwater-bench` measures; with `-- --test` every bench runs once. Each checks its answer first.

use std::time::Duration;

use criterion::{Criterion, Throughput};
use highwater_bench::{check, loads};
use highwater_cli::bench::{Drive, Scan};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Long enough for twenty samples of the slowest.
const SAMPLING: Duration = Duration::from_secs(10);

fn main() {
    let once = std::env::args().any(|argument| argument == "--test");
    for (name, load) in loads(200_000) {
        check(name, &load);
    }
    let mut criterion = Criterion::default().sample_size(20).measurement_time(SAMPLING).configure_from_args();
    let loads = loads(if once { 200_000 } else { 5_000_000 });
    let (_, first) = &loads[0];
    if let Ok(scan) = Scan::new(first) {
        let mut group = criterion.benchmark_group("limit");
        group.throughput(Throughput::Elements(first.rows()));
        group.bench_function("scan_of_three_columns", |bencher| bencher.iter(|| scan.run()));
        group.finish();
    }
    let mut group = criterion.benchmark_group("operator");
    for (name, load) in &loads {
        group.throughput(Throughput::Elements(load.rows()));
        group.bench_function(*name, |bencher| {
            bencher.iter(|| {
                let results = Drive::new(load).and_then(Drive::all).unwrap_or_default();
                assert!(results > 0, "{name} has no results");
                results
            });
        });
    }
    group.finish();
    criterion.final_summary();
}
