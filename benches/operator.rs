//! Rows a second on one thread: `operator/<window>/<keys>/<disorder>` is the whole operator, `stage/<stage>/<variant>` its stages one
//! after the other, `growth/<what>/<n>` the same work with one thing growing, `timers/<firing>/<keys>` timers a second,
//! `snapshot/<way>/<window>/<keys>` bytes of the snapshot a second.
//!
//! `cargo bench -p highwater-bench` measures; with `-- --test` every bench runs once. Each checks its answer first.

use std::time::Duration;

use criterion::{Criterion, Throughput};
use highwater_bench::{
    Gateway, Held, Ruled, Timers, check, gateway, growth, held, loads, ruled, stages, timers,
};
use highwater_cli::bench::{Drive, Load, Scan};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// For twenty samples of each; the slowest take longer.
const SAMPLING: Duration = Duration::from_secs(3);

fn main() {
    let once = std::env::args().any(|argument| argument == "--test");
    let few = 200_000;
    for (group, loads) in [("operator", loads(few)), ("stage", stages(few)), ("growth", growth(few))] {
        loads.iter().for_each(|(name, load)| check(&format!("{group}/{name}"), load));
    }
    ruled(few).iter().for_each(|(name, ruled)| ruled.check(name));
    gateway(few).iter().for_each(|(name, gateway)| gateway.check(name));
    timers(few).iter().for_each(|(name, timers)| timers.check(name));
    held(few).into_iter().for_each(|(name, held)| held.check(&name));
    let mut criterion = Criterion::default().sample_size(20).measurement_time(SAMPLING).configure_from_args();
    let rows = |many| if once { few } else { many };
    let whole = loads(rows(5_000_000));
    if let Ok(scan) = Scan::new(&whole[0].1) {
        let mut group = criterion.benchmark_group("limit");
        group.throughput(Throughput::Elements(whole[0].1.rows()));
        group.bench_function("scan_of_three_columns", |bencher| bencher.iter(|| scan.run()));
        group.finish();
    }
    let drive = |load: &Load| Drive::new(load).and_then(Drive::all).unwrap_or_default();
    let many = |load: &Load| Throughput::Elements(load.rows());
    measure(&mut criterion, "operator", &whole, many, drive);
    drop(whole);
    let ruled = ruled(rows(5_000_000));
    measure(&mut criterion, "operator", &ruled, |ruled| Throughput::Elements(ruled.rows()), Ruled::run);
    drop(ruled);
    let gateway = gateway(rows(2_000_000));
    measure(
        &mut criterion,
        "operator",
        &gateway,
        |gateway| Throughput::Elements(gateway.rows()),
        Gateway::run,
    );
    drop(gateway);
    measure(&mut criterion, "stage", &stages(rows(2_000_000)), many, drive);
    measure(&mut criterion, "growth", &growth(rows(3_000_000)), many, drive);
    let timers = timers(rows(10_000_000));
    // a sample is one run, and takes seconds
    let mut criterion = criterion.sample_size(10);
    measure(&mut criterion, "timers", &timers, |timers| Throughput::Elements(timers.timers()), Timers::run);
    drop(timers);
    let held = held(rows(5_000_000));
    let bytes = |held: &Held| Throughput::Bytes(held.bytes());
    measure(&mut criterion, "snapshot/write", &held, bytes, Held::write);
    measure(&mut criterion, "snapshot/restore", &held, bytes, Held::restore);
    criterion.final_summary();
}

/// Measures how long `run` takes, which gives a number that is not zero: of results, or of bytes.
fn measure<L>(
    criterion: &mut Criterion,
    group: &str,
    loads: &[(String, L)],
    amount: fn(&L) -> Throughput,
    run: fn(&L) -> u64,
) {
    let mut group = criterion.benchmark_group(group);
    for (name, load) in loads {
        group.throughput(amount(load));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let given = run(load);
                assert!(given > 0, "{name} gives nothing");
                given
            });
        });
    }
    group.finish();
}
