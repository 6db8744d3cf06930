//! Instructions of each workload, for callgrind: counts are stable where times are not. `benches/instructions.sh` runs this under valgrind
//! and compares; by itself it runs every workload once.

use highwater_bench::{check, ruled};
use highwater_cli::bench::{Drive, Load, Workload};
use highwater_cli::generate::Spec;

/// Rows of each.
const ROWS: u64 = 200_000;

/// What is counted: everything between the first push and the last result. Its name is what the script tells callgrind to count.
#[inline(never)]
fn counted_run(run: &dyn Fn() -> u64) -> u64 {
    run()
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    for workload in Workload::ALL {
        let name = workload.name();
        if !is_wanted(name) {
            continue;
        }
        let mut spec = Spec { rows: ROWS, ..Spec::new(workload.stream()) };
        if workload == Workload::W5 {
            // as many rows a key as ever, and time for sessions to end
            (spec.rate, spec.keys) = (1_000, 10_000);
        }
        let load = Load::generate(&spec, workload.question(), 65_536);
        let load = load.unwrap_or_else(|error| unreachable!("a fixed specification is valid: {error:?}"));
        if wanted.is_empty() {
            check(name, &load);
        }
        let run = || Drive::new(&load).and_then(Drive::all).unwrap_or_default();
        assert!(counted_run(&run) > 0, "{name} has no results");
    }
    let early_count = "early_count";
    if is_wanted(early_count) {
        for (name, ruled) in ruled(ROWS).iter().filter(|(name, _)| name.contains(early_count)) {
            if wanted.is_empty() {
                ruled.check(name);
            }
            assert!(counted_run(&|| ruled.run()) > 0, "{name} has no results");
        }
    }
}
