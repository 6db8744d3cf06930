//! Rows a second of the whole operator, on one thread: `operator/<window>/<keys>/<disorder>`.
//!
//! `cargo bench -p highwater-bench` measures; with `-- --test` every bench runs once. Each checks its answer first.

use std::time::Duration;

use criterion::{Criterion, Throughput};
use highwater_bench::loads;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Long enough for twenty samples of the slowest.
const SAMPLING: Duration = Duration::from_secs(10);

fn main() {
    let once = std::env::args().any(|argument| argument == "--test");
    for load in loads(200_000) {
        load.check();
    }
    let mut criterion = Criterion::default().sample_size(20).measurement_time(SAMPLING).configure_from_args();
    let loads = loads(if once { 200_000 } else { 5_000_000 });
    let mut group = criterion.benchmark_group("limit");
    group.throughput(Throughput::Elements(loads[0].rows()));
    group.bench_function("scan_of_three_columns", |bencher| bencher.iter(|| loads[0].scan()));
    group.finish();
    let mut group = criterion.benchmark_group("operator");
    for load in &loads {
        group.throughput(Throughput::Elements(load.rows()));
        group.bench_function(load.id.as_str(), |bencher| {
            bencher.iter(|| {
                let mut results = 0;
                let done = load.run(|output| {
                    results += output.fired.iter().map(|batch| batch.num_rows()).sum::<usize>();
                });
                assert!(done.is_ok() && results > 0);
                results
            });
        });
    }
    group.finish();
    criterion.final_summary();
}
