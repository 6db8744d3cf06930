//! Reads the command line, runs the command, tells how it ended.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use highwater_cli::args::{Cli, Command};
use highwater_cli::failure::Outcome;
use highwater_cli::window;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli) -> Outcome<()> {
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
            window::run(&args)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "highwater", &mut script);
            highwater_cli::print(&script)
        }
    }
}
