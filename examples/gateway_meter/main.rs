//! Meters a gateway in front of language models, on made-up events: bills, alerts, latencies, and what came too late.
//!
//! ```sh
//! cargo run --release --example gateway_meter
//! ```
//!
//! A number behind `--` is another seed. `README.md` walks through it.

mod prices;
mod events;
mod generate;
mod charges;
mod job;
mod ledger;
mod summary;

#[cfg(test)]
mod tests;

use generate::{MINUTE, PARTITIONS, START, Workload, generate, seconds};
use job::{Job, Result};
use ledger::Ledger;
use summary::Summary;

/// Twenty minutes of 40 requests a second.
const WORKLOAD: Workload = Workload { seed: 7, minutes: 20, requests_per_minute: 2_400 };

/// When the job is killed and goes on from a snapshot: 10:14, while partition 5 is silent.
const KILLED: i64 = START + 14 * MINUTE;

fn main() -> Result<()> {
    let seed = match std::env::args().nth(1) {
        Some(text) => {
            text.parse().map_err(|_| format!("seed {text:?}: a whole number below 2^64 is meant"))?
        }
        None => WORKLOAD.seed,
    };
    let summary = meter(&Workload { seed, ..WORKLOAD })?;
    print!("{summary}");
    if summary.adds_up() { Ok(()) } else { Err("the numbers do not add up".into()) }
}

/// Runs the job over all events of a workload.
fn meter(workload: &Workload) -> Result<Summary> {
    let (deliveries, truth) = generate(workload);
    let mut job = Job::new(PARTITIONS, 2)?;
    let mut ledger = Ledger::default();
    for second in seconds(&deliveries)? {
        if second.clock == KILLED {
            // what is lost with the process is in the snapshot; the ledger would be in a database
            let snapshot = job.snapshot()?;
            drop(job);
            job = Job::restore(PARTITIONS, 2, &snapshot)?;
        }
        ledger.enter(&job.advance_clock(second.clock)?);
        ledger.enter(&job.push(&second.batches)?);
    }
    ledger.enter(&job.finish()?);
    Ok(Summary { workload: *workload, events: deliveries.len() as u64, truth, job, ledger })
}
