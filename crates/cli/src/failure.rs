//! How a command ends when it does not end well.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::text::tame;

/// The result of everything that a command does.
pub type Outcome<T> = Result<T, Failure>;

/// Why a command stopped. The kind decides the exit code, the text is for people.
#[derive(Debug)]
pub enum Failure {
    /// The command line asks for what cannot be done (exit code 2).
    Usage(String),
    /// The data or the machine stood in the way (exit code 1).
    Run(String),
    /// Whoever read standard output has gone; nobody is left to tell (exit code 0).
    ClosedPipe,
}

impl Failure {
    /// A usage failure.
    pub fn usage(text: impl Display) -> Self {
        Failure::Usage(text.to_string())
    }

    /// A failure of the run.
    pub fn run(text: impl Display) -> Self {
        Failure::Run(text.to_string())
    }

    /// A failure at a place: a file, `file:line`, a flag.
    pub fn at(place: impl Display, text: impl Display) -> Self {
        Failure::Run(format!("{place}: {text}"))
    }

    /// Says it on stderr and gives the exit code.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Usage(text) => {
                say(format_args!("error: {text}"));
                ExitCode::from(2)
            }
            Failure::Run(text) => {
                say(format_args!("error: {text}"));
                ExitCode::from(1)
            }
            Failure::ClosedPipe => ExitCode::SUCCESS,
        }
    }
}

/// Says something on stderr, line by line, in a form that cannot steer the terminal. That nobody hears it is no failure.
pub(crate) fn say(text: impl Display) {
    let text = text.to_string();
    let lines: Vec<String> = text.lines().map(tame).collect();
    drop(writeln!(io::stderr(), "{}", lines.join("\n")));
}

/// Arrow and Parquet put their own kind in front of every message; people need only the message.
pub fn plain(error: impl Display) -> String {
    let text = error.to_string();
    for prefix in
        ["Parser error: ", "Csv error: ", "Json error: ", "Ipc error: ", "Io error: ", "External error: "]
    {
        if let Some(rest) = text.strip_prefix(prefix) {
            return plain(rest);
        }
    }
    text
}
