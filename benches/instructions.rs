//! Instructions of each workload, for callgrind: counts are stable where times are not. `benches/instructions.sh` runs this under valgrind
//! and compares; by itself it runs every workload once.

use highwater_bench::check;
use highwater_cli::bench::{Drive, Load, Workload};
use highwater_cli::generate::Spec;

/// What is counted: everything between the first push and the last result. Its name is what the script tells callgrind to count.
#[inline(never)]
fn counted_run(load: &Load) -> u64 {
    Drive::new(load).and_then(Drive::all).unwrap_or_default()
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for workload in Workload::ALL {
        let name = workload.name();
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let spec = Spec { rows: 200_000, ..Spec::new(workload.stream()) };
        let load = Load::generate(&spec, workload.question(), 65_536);
        let load = load.unwrap_or_else(|error| unreachable!("a fixed specification is valid: {error:?}"));
        if wanted.is_empty() {
            check(name, &load);
        }
        assert!(counted_run(&load) > 0, "{name} has no results");
    }
}
