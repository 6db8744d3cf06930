//! `highwater conform`: golden traces against the engine.
//!
//! A trace is an input and what another engine, Apache Flink, answered to it. Each is replayed on this engine, and the
//! answers are compared. Where they differ the difference must be one of those that are meant: the engine's answer is then
//! that of a naive model by our rules, and the trace's is that of the same model with just those rules turned into
//! Flink's. Anything else is a failure. Nothing here knows any trace by its name.

mod answer;
mod assembler;
mod assign;
mod engine;
mod functions;
mod generator;
mod grid;
mod json;
mod merge;
mod model;
mod naive_merge;
mod pane;
mod process;
mod sessions;
mod sql;
mod timers;
mod trace;
mod verdict;
mod when;
mod window;

use std::io::{self, Write};
use std::path::PathBuf;

use serde_json::json;

use self::trace::Trace;
use self::verdict::Verdict;

/// Check the engine against golden traces.
///
/// Replays each trace, compares the answer with what the trace expects, and prints `ok`, `differs on purpose` with the
/// rule, `not supported` with the reason, or `FAIL` with the first difference. The exit code is 1 if anything fails.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Traces, or directories of them: all *.json and *.json.gz but index.json.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub paths: Vec<PathBuf>,
    /// Print only failures and the total.
    #[arg(long)]
    pub quiet: bool,
    /// Print one JSON object a trace, and one for the total.
    #[arg(long)]
    pub json: bool,
}

/// How many traces got which verdict.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    ok: usize,
    on_purpose: usize,
    not_supported: usize,
    failed: usize,
}

/// Checks all traces and prints to standard output; returns the exit code.
///
/// # Errors
/// The name of a file that cannot be read or is not a trace, and why.
pub fn run(args: &Args) -> Result<u8, String> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut total = Total::default();
    for path in trace::files(&args.paths)? {
        let trace = match Trace::read(&path) {
            Ok(trace) => trace,
            Err(error) => {
                // What is known by now should not be lost; that it cannot be written is the smaller trouble.
                _ = out.flush();
                return Err(format!("{}: {error}", path.display()));
            }
        };
        let verdict = check(&trace);
        total.add(&verdict);
        let shown = !args.quiet || matches!(verdict, Verdict::Fail(_));
        if shown && let Err(error) = print(&mut out, &trace, &verdict, args.json) {
            return written(error, &total);
        }
    }
    match print_total(&mut out, &total, args.json).and_then(|()| out.flush()) {
        Err(error) => written(error, &total),
        Ok(()) => Ok(total.exit_code()),
    }
}

/// A reader of the output who has left wants to hear no more, and that is no failure.
fn written(error: io::Error, total: &Total) -> Result<u8, String> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(total.exit_code()),
        _ => Err(error.to_string()),
    }
}

fn check(trace: &Trace) -> Verdict {
    let verdict = match trace.kind.as_str() {
        "assign" => assign::check(trace),
        "generator" => generator::check(trace),
        "merge" => merge::check(trace),
        "window" => window::check(trace),
        "sql" => sql::check(trace),
        "timers" => timers::check(trace),
        "assembler" => assembler::check(trace),
        other => Ok(Verdict::NotSupported(other.to_owned())),
    };
    verdict.unwrap_or_else(Verdict::Fail)
}

fn print(out: &mut impl Write, trace: &Trace, verdict: &Verdict, as_json: bool) -> io::Result<()> {
    let (name, word, detail) = (&trace.name, verdict.word(), verdict.detail());
    if as_json {
        let line = json!({
            "name": name, "group": trace.group, "kind": trace.kind, "verdict": word, "detail": detail
        });
        return writeln!(out, "{line}");
    }
    match verdict {
        Verdict::Ok => writeln!(out, "{word}  {name}"),
        Verdict::Fail(_) => writeln!(out, "{word}  {name}: {detail}"),
        _ => writeln!(out, "{word} ({detail})  {name}"),
    }
}

fn print_total(out: &mut impl Write, total: &Total, as_json: bool) -> io::Result<()> {
    let Total { ok, on_purpose, not_supported, failed } = *total;
    let traces = ok + on_purpose + not_supported + failed;
    if as_json {
        let line = json!({
            "traces": traces, "ok": ok, "differs on purpose": on_purpose, "not supported": not_supported, "FAIL": failed
        });
        return writeln!(out, "{line}");
    }
    writeln!(
        out,
        "{traces} traces: {ok} ok, {on_purpose} differ on purpose, {not_supported} not supported, {failed} FAIL"
    )
}

impl Total {
    fn add(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Ok => self.ok += 1,
            Verdict::OnPurpose(_) => self.on_purpose += 1,
            Verdict::NotSupported(_) => self.not_supported += 1,
            Verdict::Fail(_) => self.failed += 1,
        }
    }

    fn exit_code(&self) -> u8 {
        u8::from(self.failed > 0)
    }
}
