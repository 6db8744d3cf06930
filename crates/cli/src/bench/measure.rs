//! Runs a workload again and again: the timed runs first, then one that looks closely.

use std::time::Instant;

use arrow_array::RecordBatch;

use super::check::{Check, Verdict};
use super::drive::Drive;
use super::limit::Scan;
use super::load::Load;
use super::memory::{peak_rss_bytes, reset_peak};
use crate::failure::Outcome;

/// Nanoseconds of each run, sorted.
#[derive(Clone, Debug)]
pub struct Times(Vec<f64>);

impl Times {
    fn of(mut nanos: Vec<f64>) -> Self {
        nanos.sort_by(f64::total_cmp);
        Times(nanos)
    }

    /// The middle one; of an even number of runs, the mean of the middle two.
    pub fn median(&self) -> f64 {
        let (low, high) = (self.0.len().saturating_sub(1) / 2, self.0.len() / 2);
        (self.at(low) + self.at(high)) / 2.0
    }

    /// The shortest.
    pub fn best(&self) -> f64 {
        self.at(0)
    }

    /// The longest.
    pub fn worst(&self) -> f64 {
        self.at(self.0.len().saturating_sub(1))
    }

    fn at(&self, index: usize) -> f64 {
        self.0.get(index).copied().unwrap_or(f64::NAN)
    }
}

/// What the timed runs gave.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Of the engine.
    pub engine: Times,
    /// Of the scan of the columns.
    pub scan: Times,
    /// The most resident memory during the runs, rows included.
    pub peak_rss_bytes: Option<u64>,
    /// Results of a run.
    pub results: u64,
}

/// Scan, engine, scan, engine, ...: whatever else the machine does meets both. `tell` hears the number of each run.
pub fn timed(load: &Load, runs: usize, mut tell: impl FnMut(usize)) -> Outcome<Timed> {
    let scan = Scan::new(load)?;
    let (mut scans, mut engines, mut results) = (Vec::new(), Vec::new(), 0);
    reset_peak();
    for run in 1..=runs {
        tell(run);
        let started = Instant::now();
        scan.run();
        scans.push(started.elapsed().as_nanos() as f64);
        let started = Instant::now();
        results = Drive::new(load)?.all()?;
        engines.push(started.elapsed().as_nanos() as f64);
    }
    let peak_rss_bytes = peak_rss_bytes();
    Ok(Timed { engine: Times::of(engines), scan: Times::of(scans), peak_rss_bytes, results })
}

/// What the run gave that looks closely.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// Rows that no window took.
    pub late_rows: u64,
    /// Most bytes of keys and accumulators between two calls.
    pub state_bytes: usize,
    /// Calls of the allocator in the second half of the calls, and the rows that were pushed there.
    pub allocations: Option<(u64, u64)>,
    /// What the check has found, if there was one.
    pub verdict: Option<Verdict>,
}

/// One run that is not timed: it counts and compares. `sink` gets all results.
pub fn inspected(
    load: &Load,
    check: bool,
    allocations: fn() -> Option<u64>,
    mut sink: impl FnMut(&RecordBatch) -> Outcome<()>,
) -> Outcome<Inspected> {
    let mut drive = Drive::new(load)?;
    let mut check = check.then(|| Check::new(load));
    let (mut state_bytes, mut allocated, mut rows) = (0, Some(0), 0);
    let half = load.calls().len() / 2;
    for (number, call) in load.calls().enumerate() {
        let before = allocations();
        let results = drive.push(call)?;
        if number >= half {
            let during = allocations().zip(before).map(|(after, before)| after - before);
            allocated = allocated.zip(during).map(|(all, during)| all + during);
            rows += call.iter().map(|(_, batch)| batch.num_rows() as u64).sum::<u64>();
        }
        state_bytes = state_bytes.max(drive.operator().metrics().state_bytes);
        results.iter().try_for_each(&mut sink)?;
        if let Some(check) = &mut check {
            check.call(call, &results);
        }
    }
    let results = drive.finish()?;
    results.iter().try_for_each(&mut sink)?;
    let late_rows = drive.operator().metrics().total.dropped_late;
    Ok(Inspected {
        late_rows,
        state_bytes,
        allocations: allocated.map(|allocated| (allocated, rows)),
        verdict: check.map(|check| check.finish(&results, late_rows)),
    })
}
