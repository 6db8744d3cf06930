//! Windows written by hand: one single-purpose loop for each workload, over plain arrays. No Arrow, one time unit, one
//! key column, nothing that the workload does not need.
//!
//! `handrolled WORKLOAD DATA_DIR THREADS RUNS BOUND_MS [RESULT.csv]` prints one line of JSON.

mod data;
mod sessions;
mod windows;
mod workloads;

use data::{Columns, Result, Row, Sink};
use std::path::Path;
use std::time::Instant;
use workloads::Share;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [workload, dir, threads, runs, bound, output @ ..] = args.as_slice() else {
        return Err("usage: handrolled WORKLOAD DATA_DIR THREADS RUNS BOUND_MS [RESULT.csv]".into());
    };
    let (threads, bound) = (threads.parse()?, bound.parse()?);
    let data = Columns::read(workload, Path::new(dir))?;
    let mut samples = Vec::new();
    for _ in 0..runs.parse()? {
        let start = Instant::now();
        let rows = run(workload, &data, bound, threads, !output.is_empty())?;
        samples.push(start.elapsed().as_secs_f64() * 1e9 / data.ts.len() as f64);
        if let [path] = output {
            data::write_csv(Path::new(path), &rows)?;
        }
    }
    let (rows, peak) = (data.ts.len(), peak_rss()?);
    let form = if workload == "w5" { "a hash map of open sessions" } else { "one hash map a pane" };
    println!(
        r#"{{"peer": "hand-rolled Rust", "version": "rustc-hash 2.1.3", "form": "{form}", "workload": "{workload}", "threads": {threads}, "rows": {rows}, "ns_per_row": {samples:?}, "peak_rss_bytes": {peak}}}"#
    );
    Ok(())
}

fn run(workload: &str, data: &Columns, bound: i64, threads: usize, keep: bool) -> Result<Vec<Row>> {
    let keep = keep || threads > 1 && workloads::needs_combining(workload);
    let work = |thread| {
        let mut sink = Sink { keep, ..Sink::default() };
        workloads::run(workload, data, bound, Share { thread, threads }, &mut sink);
        std::hint::black_box(sink.total);
        sink.rows
    };
    let parts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        workers.into_iter().map(|worker| worker.join()).collect::<std::thread::Result<Vec<_>>>()
    });
    let mut parts = parts.map_err(|_| "a worker panicked")?;
    Ok(if threads == 1 { parts.remove(0) } else { workloads::combine(workload, parts) })
}

fn peak_rss() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim_end_matches("kB").trim().parse::<u64>()? * 1024)
}
