//! The command line of `highwater bench`, and the rows that it asks for.

use std::path::PathBuf;

use highwater::TimeDelta;

use super::help::{DETAILS, EXAMPLES};
use super::input::Wanted;
use super::load::Load;
use super::workload::{AD, CAMPAIGN, Question, Step, Windows, Workload};
use crate::args::OutputFormat;
use crate::duration;
use crate::failure::{Failure, Outcome};
use crate::generate::units::parse_count;
use crate::generate::{Spec, StreamArgs};

/// Rows that are generated unless told otherwise.
const ROWS: u64 = 10_000_000;

/// The workloads whose windows are not sessions.
const ALIGNED: &str = "w1 to w4, q5, q7 and ysb";

/// Measures the engine on this machine, and checks its answers.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"))]
pub struct Args {
    /// What to measure [default: all]
    #[arg(value_enum, value_name = "WORKLOAD")]
    pub workloads: Vec<Workload>,

    /// Rows, such as 5000 or 50M [default: 10M; with --input: all]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub rows: Option<u64>,
    /// Threads of the engine, and of the scan that it is compared with
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Partitions; batches are dealt out to them in turns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub partitions: u32,
    /// Runs, each on all rows; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: u32,
    /// Rows that are pushed at a time
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub batch_rows: u32,
    /// Do not compare the answer with plain loops
    #[arg(long)]
    pub no_check: bool,
    /// Print one JSON object a workload
    #[arg(long)]
    pub json: bool,

    /// How far rows may be out of order [default: 20s]
    #[arg(long, value_name = "D", value_parser = duration::parse_tolerance, help_heading = "Windows")]
    pub bound: Option<TimeDelta>,
    /// Other windows than the workload's: their length
    #[arg(long, value_name = "D", value_parser = duration::parse_length, help_heading = "Windows")]
    pub size: Option<TimeDelta>,
    /// Other windows than the workload's: how far apart they start [default: as the workload; w1, w3, q7, ysb: --size]
    #[arg(long, value_name = "D", value_parser = duration::parse_length, help_heading = "Windows")]
    pub slide: Option<TimeDelta>,
    /// Other sessions than the workload's: how far rows of one may be apart
    #[arg(long, value_name = "D", value_parser = duration::parse_length, help_heading = "Windows")]
    pub gap: Option<TimeDelta>,

    /// Rows of your own instead of generated ones: a Parquet or Arrow IPC file, for one workload
    #[arg(
        long,
        value_name = "PATH",
        help_heading = "Files",
        conflicts_with_all = [
            "rate", "start", "zipf", "key_type", "delay_mean", "delay_cap", "stragglers", "straggler_delay", "in_order"
        ]
    )]
    pub input: Option<PathBuf>,
    /// The table from ads to campaigns for --input with ysb [default: that of generated rows]
    #[arg(long, value_name = "PATH", requires = "input", help_heading = "Files")]
    pub campaigns: Option<PathBuf>,
    /// Write the results of the last run: a Parquet or Arrow IPC file, for one workload
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    pub out: Option<PathBuf>,

    /// How the events are drawn, and how they are delayed.
    #[command(flatten)]
    pub stream: StreamArgs,
}

/// A workload as the command line wants it.
pub(super) struct Plan {
    pub(super) workload: Workload,
    question: Question,
    spec: Spec,
}

impl Args {
    /// The workloads to run, checked as far as it goes without their rows.
    pub(super) fn plans(&self) -> Outcome<Vec<Plan>> {
        if self.threads > 1 && self.partitions == 1 {
            return Err(Failure::usage(format_args!(
                "--threads {}: one partition is one thread's work; allowed with --partitions 2 or more",
                self.threads
            )));
        }
        for (flag, path) in [("--input", &self.input), ("--out", &self.out)] {
            if path.is_some() && self.workloads.len() != 1 {
                let given = match self.workloads.len() {
                    0 => "all workloads".to_owned(),
                    many => format!("{many} workloads"),
                };
                return Err(Failure::usage(format_args!(
                    "{flag}: given with {given}; allowed with exactly one"
                )));
            }
        }
        self.output_format()?;
        let chosen = if self.workloads.is_empty() { &Workload::ALL[..] } else { &self.workloads };
        chosen.iter().map(|&workload| self.plan(workload)).collect()
    }

    fn plan(&self, workload: Workload) -> Outcome<Plan> {
        let mut spec = Spec::new(workload.stream());
        self.stream.apply(&mut spec, workload.name()).map_err(Failure::usage)?;
        spec.rows = self.rows.unwrap_or(ROWS);
        spec.validate().map_err(Failure::usage)?;
        let question = self.question(workload)?;
        if workload != Workload::Ysb && self.campaigns.is_some() {
            return Err(Failure::usage(format_args!(
                "--campaigns: given with {}; allowed with ysb",
                workload.name()
            )));
        }
        // For ysb they draw the table of campaigns.
        if self.input.is_some() && (workload != Workload::Ysb || self.campaigns.is_some()) {
            let given = [("--keys", self.stream.keys.is_some()), ("--seed", self.stream.seed.is_some())];
            if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
                return Err(Failure::usage(format_args!(
                    "{flag}: given with rows of a file; allowed with generated rows"
                )));
            }
        }
        // Whether the operator takes it shows without rows.
        let empty = Load::generate(&Spec { rows: 0, ..spec.clone() }, question.clone(), 1)?;
        empty.operator()?;
        Ok(Plan { workload, question, spec })
    }

    /// What is asked, with the windows and the bound of the command line. Windows without gaps and overlaps stay so.
    fn question(&self, workload: Workload) -> Outcome<Question> {
        let usual = workload.question();
        let refuse = |flag: &str, allowed: &str| {
            let called = workload.name();
            Err(Failure::usage(format_args!("{flag}: given with {called}; allowed with {allowed}")))
        };
        let windows = match usual.windows {
            Windows::Aligned { .. } if self.gap.is_some() => return refuse("--gap", "w5"),
            Windows::Aligned { size: usual, slide } => {
                let size = self.size.unwrap_or(usual);
                let slide = self.slide.unwrap_or(if slide == usual { size } else { slide });
                Windows::Aligned { size, slide }
            }
            Windows::Session { .. } if self.size.is_some() => return refuse("--size", ALIGNED),
            Windows::Session { .. } if self.slide.is_some() => return refuse("--slide", ALIGNED),
            Windows::Session { gap } => Windows::Session { gap: self.gap.unwrap_or(gap) },
        };
        Ok(Question { windows, bound: self.bound.unwrap_or(usual.bound), ..usual })
    }

    /// The rows of a plan.
    pub(super) fn load(&self, plan: &Plan) -> Outcome<Load> {
        let question = plan.question.clone();
        let load = match &self.input {
            None => Load::generate(&plan.spec, question, self.batch_rows as usize)?,
            Some(path) => {
                let columns = question.columns();
                let called = plan.workload.name();
                let wanted = Wanted {
                    called,
                    columns: &columns,
                    rows: self.rows,
                    batch_rows: self.batch_rows as usize,
                };
                let (schema, batches) = wanted.read(path)?;
                let table = self.table(plan)?;
                Load::new(question, &schema, batches, table.as_ref())?
            }
        };
        Ok(load.with_partitions(self.partitions as usize).with_threads(usize::from(self.threads)))
    }

    /// The table of campaigns, if it is asked for.
    fn table(&self, plan: &Plan) -> Outcome<Option<arrow_array::RecordBatch>> {
        if plan.question.step != Step::Views {
            return Ok(None);
        }
        let Some(path) = &self.campaigns else {
            return crate::generate::campaigns(&plan.spec).map(Some).map_err(Failure::run);
        };
        let columns = [AD, CAMPAIGN];
        let wanted =
            Wanted { called: "the table of campaigns", columns: &columns, rows: None, batch_rows: 65_536 };
        let (schema, batches) = wanted.read(path)?;
        arrow_select::concat::concat_batches(&schema, &batches).map(Some).map_err(Failure::run)
    }

    /// How results are written, if they are.
    pub(super) fn output_format(&self) -> Outcome<Option<OutputFormat>> {
        let Some(path) = &self.out else { return Ok(None) };
        match crate::output::format_of(path) {
            Some(format @ (OutputFormat::Parquet | OutputFormat::Arrow)) => Ok(Some(format)),
            _ => Err(Failure::usage(format_args!(
                "--out {}: the extension is none of those that are written; allowed: .parquet .pq .arrow .ipc .feather",
                path.display()
            ))),
        }
    }
}

impl Plan {
    /// Distinct keys that the rows are drawn from, where that is a number to choose and they are drawn.
    pub(super) fn keys(&self, args: &Args) -> Option<u64> {
        (args.input.is_none() && self.spec.keys > 0).then_some(self.spec.keys)
    }
}
