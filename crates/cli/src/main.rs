//! Reads the command line, runs the command, tells how it ended.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use highwater_cli::args::{Cli, Command};
use highwater_cli::failure::{Failure, Outcome};
use highwater_cli::{bench, conform, generate, window};
use mimalloc::MiMalloc;
use stats_alloc::StatsAlloc;

#[global_allocator]
static ALLOCATOR: StatsAlloc<MiMalloc> = StatsAlloc::new(MiMalloc);

/// How often memory has been asked for.
fn allocations() -> Option<u64> {
    let stats = ALLOCATOR.stats();
    Some((stats.allocations + stats.reallocations) as u64)
}

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.format(&mut Cli::command()).exit(),
    };
    match run(cli, &matches) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli, matches: &ArgMatches) -> Outcome<ExitCode> {
    match cli.command {
        Command::Window(args) => {
            if let Some(text) = args.missing() {
                let mut command = Cli::command();
                command.build();
                let window = command.find_subcommand_mut("window");
                if let Some(window) = window {
                    window.error(ErrorKind::MissingRequiredArgument, text).exit();
                }
            }
            let given = matches.subcommand().map(|(_, given)| window::given(given)).unwrap_or_default();
            window::run(&args, &given).map(|()| ExitCode::SUCCESS)
        }
        Command::Generate(args) => match generate::run(&args) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error @ generate::Error::Invalid { .. }) => Err(Failure::usage(error)),
            Err(error) => Err(Failure::run(error)),
        },
        Command::Bench(args) => {
            let right = bench::run(&args, allocations)?;
            Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Conform(args) => conform::run(&args).map(ExitCode::from).map_err(Failure::run),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "highwater", &mut script);
            highwater_cli::print(&script).map(|()| ExitCode::SUCCESS)
        }
    }
}
