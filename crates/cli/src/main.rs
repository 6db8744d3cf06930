//! The `highwater` command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use highwater_cli::conform;

#[derive(Parser)]
#[command(name = "highwater", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Conform(conform::Args),
}

fn main() -> ExitCode {
    let Command::Conform(args) = Cli::parse().command;
    match conform::run(&args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
