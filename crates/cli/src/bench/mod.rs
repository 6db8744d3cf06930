//! `highwater bench`: how fast it is here, and whether the answers are right.
//!
//! ```text
//! args.rs       what to measure (help.rs: what --help says)
//! workload.rs   the workloads: rows and questions
//! load.rs       rows in memory (input.rs: from a file), and the operator for them
//! drive.rs      one way through the rows: what is timed
//! limit.rs      the scan that it is compared with
//! measure.rs    the runs (memory.rs: how much they hold)
//! check.rs      the answer, compared with plain loops (due.rs: a call's): reference.rs has the windows, sessions.rs the
//!               sessions, watermarks.rs how far time has come, tally.rs the sums
//! report.rs     JSON, or a table
//! ```

mod args;
mod check;
mod drive;
mod due;
mod help;
mod input;
mod limit;
mod load;
mod measure;
mod memory;
mod reference;
mod report;
mod sessions;
mod tally;
mod watermarks;
mod workload;

use crate::failure::{Outcome, say};
use crate::output::Sink;
use crate::progress::Status;

pub use args::Args;
pub use check::{Check, Verdict};
pub use drive::{Call, Drive};
pub use limit::Scan;
pub use load::Load;
pub use measure::{Inspected, Timed, Times, inspected, timed};
pub use tally::QUANTILE_ERROR_BOUND;
pub use workload::{Function, Question, Step, Windows, Workload};

use report::Report;

/// Measures the workloads and prints to standard output; says whether all answers are right, as far as they were checked.
/// `allocations` counts the calls of the allocator, if somebody does.
///
/// # Errors
/// Flags that do not go together, files that cannot be read or written, rows that a workload cannot have.
pub fn run(args: &Args, allocations: fn() -> Option<u64>) -> Outcome<bool> {
    let status = Status::new();
    let (mut all_right, mut header) = (true, true);
    for plan in args.plans()? {
        let name = plan.workload.name();
        status.say(|| format!("{name}: rows"));
        let load = args.load(&plan)?;
        let operator = load.operator()?;
        let mut sink = match (&args.out, args.output_format()?) {
            (Some(path), Some(format)) => {
                Some(Sink::create("--out", path, format, &operator.output_schema())?)
            }
            _ => None,
        };
        let runs = args.runs as usize;
        let timed = timed(&load, runs, |run| status.say(|| format!("{name}: run {run} of {runs}")))?;
        status.say(|| format!("{name}: {}", if args.no_check { "counters" } else { "check" }));
        let inspected = inspected(&load, !args.no_check, allocations, |batch| match &mut sink {
            Some(sink) => sink.write(batch),
            None => Ok(()),
        })?;
        sink.map_or(Ok(()), Sink::finish)?;
        let difference = inspected.verdict.as_ref().and_then(|verdict| verdict.difference.clone());
        let report =
            Report { workload: plan.workload, load: &load, keys: plan.keys(args), runs, timed, inspected };
        let text = match (args.json, std::mem::take(&mut header)) {
            (true, _) => report.json(),
            (false, true) => report::header() + &report.line(),
            (false, false) => report.line(),
        };
        status.aside(|| {
            if let Some(difference) = &difference {
                say(format_args!("{name}: the answer is wrong: {difference}"));
            }
            crate::print(text.as_bytes())
        })?;
        all_right &= difference.is_none();
    }
    Ok(all_right)
}
