//! The command line, as clap reads it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use highwater::TimeDelta;

use crate::firing::FiringArgs;
use crate::shape::ShapeArgs;
use crate::{bench, conform, duration, generate};

/// Exact event-time windows over Parquet, CSV, NDJSON and Arrow files.
#[derive(Debug, Parser)]
#[command(name = "highwater", version, propagate_version = true, max_term_width = 110, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 the data or the machine stood in the way, \
                          2 the command line asks for what cannot be done.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Group rows into event-time windows and aggregate them.
    #[command(after_help = EXAMPLES, after_long_help = LONG_HELP)]
    Window(Box<WindowArgs>),
    /// Make a seeded event stream to try things on.
    Generate(Box<generate::Args>),
    /// Measure how fast it is here, and check the answers.
    Bench(Box<bench::Args>),
    /// Compare the engine with recorded traces of Apache Flink.
    Conform(conform::Args),
    /// Print the completion script of a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

const EXAMPLES: &str = "\
Examples:
  highwater window calls.ndjson --time ts --key tenant --tumble 1m --bound 20s --agg 'sum(usd) as usd' --agg count
  highwater window a.parquet b.parquet --time ts --hop 5m,1m --bound 20s --agg 'p99(ms)' --out result.parquet
  cat calls.csv | highwater window - --time ts --tumble 1h --ascending --format csv
  highwater window calls.csv --time ts --tumble 1m --bound 5s --late late.csv --rejected bad.csv --stats stats.json";

const LONG_HELP: &str = "\
Examples:
  highwater window calls.ndjson --time ts --key tenant --tumble 1m --bound 20s --agg 'sum(usd) as usd' --agg count
      the first minutes of a gateway's cost, per tenant; rows may be up to 20 s out of order
  highwater window a.parquet b.parquet --time ts --hop 5m,1m --bound 20s --agg 'p99(ms)' --out result.parquet
      windows of five minutes, one every minute, over two partitions
  cat calls.csv | highwater window - --time ts --tumble 1h --ascending --format csv
      standard input, rows never out of order
  highwater window calls.csv --time ts --tumble 1m --bound 5s --late late.csv --rejected bad.csv --stats stats.json
      keep the rows that no window took, and all counters
  highwater window eu.csv us.csv --time ts --ingest-time seen --max-future 1h --idle 30s --tumble 1m --bound 5s
      replay two partitions in the order they were seen; a partition silent for 30 s holds nothing back
  highwater window calls.parquet --time ts --key tenant --cumulate 1d,1h --bound 20s --agg 'sum(usd) as so_far'
      every hour, what each tenant has spent since midnight UTC
  highwater window calls.parquet --time ts --key tenant --tumble '1 month' --zone Europe/Berlin --bound 20s --agg 'sum(usd)'
      the bill of each calendar month in Berlin
  highwater window calls.parquet --time ts --key user --session 30m --bound 20s --agg count --agg 'sum(usd) as usd'
      each user's sessions: calls no more than half an hour apart
  highwater window calls.parquet --time ts --key tenant --tumble 1h --bound 20s --early-every 5m --mode retract --firing
      the calls of each hour, with a first result every five minutes; each takes back the one before it
  highwater window calls.parquet --time ts --key tenant --tumble 1h --bound 20s --agg 'sum(usd) as usd' --top 3 --by usd
      the three tenants of each hour that have spent most
  tail -f calls.csv | highwater window - --time ts --tumble 1m --bound 5s --flush-after-quiet 10s --format csv
      a result for each minute, and for what is open once nothing has come for ten seconds
  highwater window trips.csv --time ts --key car --global --ascending --trigger-delta odometer,100 --agg 'last(odometer)'
      a result whenever a car has gone another hundred kilometers
  highwater window big.parquet --time ts --tumble 1h --bound 20s --out hours.csv --checkpoint hours.ckpt
      a long run that may be killed: the same command goes on where it was

Order of rows:
  Every input is a partition, unless --partition-by splits them. The order of rows inside an input never changes.
  Without --ingest-time the inputs take turns of 1,024 rows, in the order given, until each ends; an input that ends is
  a finished partition from then on. With --ingest-time rows are merged by that column (ties: in the order of the
  inputs; a null, or a step back, counts as the largest time seen so far in that input). Neither --batch-rows nor
  --threads has any influence on the output.

Idleness:
  With --idle the clock is the ingest time: it stands at a row's ingest time when that row is taken, so a replay shows
  what a consumer would have seen. A partition without rows for the timeout no longer holds the watermark back.

Checkpoints:
  With --checkpoint, a run that was killed at any moment and is started again by the same command gives the output of an
  undisturbed run: no row is lost, none is there twice. Every --checkpoint-every rows the state of the windows, the place in
  each input and the length of each output go to the directory together. Outputs must be .csv or .ndjson files (others
  cannot be cut back to what was committed), inputs files that do not change. Until the end an output is in a hidden file
  beside its place, .NAME.part. A command that asks for something else is refused; --threads, --batch-rows, --quiet,
  --stats, --checkpoint-every and the limits may change. Once a run is complete, the same command says so and does nothing;
  without the directory it starts over. With --idle, late rows are also not coalesced across a checkpoint.

Durations:
  20s, 1m30s, 250ms, 5us, 1.5h, 7d, 2w, PT1M, P1DT12H. Days have 24 hours; months and years are refused.

Calendar windows:
  With --zone, --tumble takes a whole number of hours, days, weeks, months, quarters or years and counts them on the
  clocks of that zone, of the IANA database: '6 hours', '1 day', '2 weeks', '1 month', '1 quarter', P1Y. Hours count from
  each midnight, days from 1970-01-01, weeks from the one that has that day, longer units from January 1970. A day has
  23 to 25 hours, and an hour that comes twice is two windows. Window bounds are written as the event time is: those
  of Berlin's days in UTC, if the column is in UTC. Without --zone days have 24 hours and begin at midnight UTC, and
  weeks begin on Thursdays, as 1970 did.

Sessions:
  A row belongs from its time to its time + GAP, and rows of a key that touch or overlap in this are one session: a row
  exactly GAP after another joins it. A session ends GAP after its last row. A row that comes late is first put with the
  sessions it touches, which it can make one, and only then judged. --session-by takes each row's gap from a column; a
  gap that is null, zero or negative is an error.

Early results and retractions:
  --early-count and --early-every add results to those at the end of a window; --trigger-count and --trigger-delta take
  their place. Results are full values (--mode accumulate), what is new (discard), or full values after a copy of the
  result that they replace, with true in the column retraction (retract): the sum over all results, retractions
  counted negative, is right at any moment, also where sessions merge.

Fewer rows, fewer results:
  --evict-count and --evict-time take rows out of a window just before it fires, for good: those before its last N; those D
  or more before the latest. The rows of a window are kept for that until it expires. --top keeps the results of a
  window with the largest values of --by, largest first, nulls last; it is for windows that are not sessions or counted and
  fire at their end.

Pipes:
  A pipe is read to its end like a file, unless --flush-after-quiet or --early-clock asks for the clock of the machine. Then
  its rows are taken and results are written as they come, and the output depends on when that is. There must be one
  input then, which is not a file. The types of CSV and NDJSON columns are inferred from the rows that come first;
  --schema is surer. Watermarks follow the rows as always: after a flush, rows of the windows that it fired are late.

Text inputs:
  The columns of CSV and NDJSON are inferred from the first 1,000 rows; --schema overrides. ISO 8601 text in the time
  columns becomes a UTC timestamp in milliseconds, or finer if a value has more digits; whole numbers need --time-unit.
  A later row with more digits than that is an error, for its time would not be what it says. A unit that --schema or
  --time-unit gives cuts off what is finer.
  Only the columns that the command names are read, unless --late or --rejected keeps whole rows.";

/// The formats that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InputFormat {
    /// Apache Parquet (.parquet)
    Parquet,
    /// Comma-separated values with a header (.csv; .tsv with tabs)
    Csv,
    /// One JSON object per line (.ndjson, .jsonl)
    Ndjson,
    /// Arrow IPC, file or stream (.arrow, .arrows, .ipc, .feather)
    Arrow,
}

/// The formats that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Columns for people
    Table,
    /// Comma-separated values with a header (.csv)
    Csv,
    /// One JSON object per line (.ndjson, .jsonl)
    Ndjson,
    /// Apache Parquet (.parquet)
    Parquet,
    /// Arrow IPC file (.arrow, .ipc, .feather)
    Arrow,
}

/// What one tick of a whole-number time column is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeUnitArg {
    /// Seconds
    S,
    /// Milliseconds
    Ms,
    /// Microseconds
    Us,
    /// Nanoseconds
    Ns,
}

impl From<TimeUnitArg> for arrow_schema::TimeUnit {
    fn from(unit: TimeUnitArg) -> Self {
        match unit {
            TimeUnitArg::S => arrow_schema::TimeUnit::Second,
            TimeUnitArg::Ms => arrow_schema::TimeUnit::Millisecond,
            TimeUnitArg::Us => arrow_schema::TimeUnit::Microsecond,
            TimeUnitArg::Ns => arrow_schema::TimeUnit::Nanosecond,
        }
    }
}

/// What happens to a row without event time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnNull {
    /// Hand it to --rejected with its reason
    Reject,
    /// Stop with an error
    Error,
    /// Count it
    Drop,
}

/// How often late rows make a window fire again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LateFiringArg {
    /// Once for all late rows among some 32,768 that are taken in together (fewer with --idle)
    Coalesced,
    /// Once per late row, as Flink does
    PerRow,
}

/// How a partition that was idle comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReactivationArg {
    /// It counts again once it has reached the merged watermark
    WhenCaughtUp,
    /// It counts at once: the merged watermark waits for it
    AtOnce,
}

/// When watermarks are taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CadenceArg {
    /// After every row.
    EveryRow,
    /// After every run of rows of one input.
    EveryBatch,
    /// After so much event time.
    Every(TimeDelta),
}

fn cadence(text: &str) -> Result<CadenceArg, String> {
    match text {
        "every-row" => Ok(CadenceArg::EveryRow),
        "every-batch" => Ok(CadenceArg::EveryBatch),
        _ => duration::parse_length(text)
            .map(CadenceArg::Every)
            .map_err(|error| format!("{error}; allowed are every-row, every-batch and a duration")),
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "\\t" | "tab" => Ok(b'\t'),
        _ => match text.as_bytes() {
            [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(*byte),
            _ => Err(format!("{text:?} is not one ASCII character (or tab)")),
        },
    }
}

/// The arguments of `highwater window`.
#[derive(Debug, Args)]
pub struct WindowArgs {
    /// Files to read, each a partition; - is standard input
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,

    /// Input options.
    #[command(flatten)]
    pub input: InputArgs,
    /// Window options.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Firing options.
    #[command(flatten)]
    pub firing: FiringArgs,
    /// Watermark options.
    #[command(flatten)]
    pub watermark: WatermarkArgs,
    /// Output options.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Checkpoint options.
    #[command(flatten)]
    pub checkpoint: CheckpointArgs,
    /// Resource options.
    #[command(flatten)]
    pub resources: ResourceArgs,
}

/// How rows are read.
#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub struct InputArgs {
    /// Format of all inputs [default: by extension; standard input: by its first bytes]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub input_format: Option<InputFormat>,
    /// Types of CSV and NDJSON columns, as in 'ts:timestamp_ms,usd:f64,qty:i64,name:utf8'
    #[arg(long, value_name = "COLUMN:TYPE,...", value_parser = crate::input::types::parse)]
    pub schema: Option<crate::input::types::Overrides>,
    /// Separator of CSV columns [default: comma; tab for .tsv]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// Column with the event time
    #[arg(long, value_name = "COLUMN")]
    pub time: String,
    /// What a tick of a whole-number event time is worth; for ISO text, the precision to read: finer digits are cut off
    #[arg(long, value_enum, value_name = "UNIT")]
    pub time_unit: Option<TimeUnitArg>,
    /// Column whose values are the partitions, instead of the inputs (files only: they are read twice)
    #[arg(long, value_name = "COLUMN")]
    pub partition_by: Option<String>,
    /// Most partitions that --partition-by may find
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub max_partitions: u32,
    /// Column with the time at which a row was received: rows are merged by it
    #[arg(long, value_name = "COLUMN")]
    pub ingest_time: Option<String>,
    /// Reject rows whose event time is further than this beyond their ingest time
    #[arg(long, value_name = "D", requires = "ingest_time", value_parser = duration::parse_tolerance)]
    pub max_future: Option<TimeDelta>,
    /// What happens to a row without event time
    #[arg(long, value_enum, value_name = "POLICY", default_value = "reject")]
    pub on_null: OnNull,
}

/// When windows fire.
#[derive(Debug, Args)]
#[command(next_help_heading = "Watermark (one of --bound, --ascending, --delay)")]
pub struct WatermarkArgs {
    /// Rows are at most D out of order: the watermark is the largest time seen - D - 1 tick
    #[arg(long, value_name = "D", value_parser = duration::parse_tolerance, conflicts_with_all = ["ascending", "delay"])]
    pub bound: Option<TimeDelta>,
    /// Rows are never out of order: the same as --bound 0
    #[arg(long, conflicts_with = "delay")]
    pub ascending: bool,
    /// The watermark is the largest time seen - D, as in Flink SQL
    #[arg(long, value_name = "D", value_parser = duration::parse_tolerance)]
    pub delay: Option<TimeDelta>,
    /// Keep fired windows for D, for late rows to update them [default: 0]
    #[arg(long, value_name = "D", value_parser = duration::parse_tolerance)]
    pub lateness: Option<TimeDelta>,
    /// Leave out of the watermark a partition that is silent for D of ingest time
    #[arg(long, value_name = "D", requires = "ingest_time", value_parser = duration::parse_length)]
    pub idle: Option<TimeDelta>,
    /// Fire all open windows when a pipe has given no rows for D of real time; rows that come for them later are late
    #[arg(long, value_name = "D", value_parser = duration::parse_length)]
    pub flush_after_quiet: Option<TimeDelta>,
    /// How a partition that was idle comes back [default: when-caught-up]
    #[arg(long, value_enum, value_name = "RULE", requires = "idle")]
    pub reactivation: Option<ReactivationArg>,
    /// When the watermark moves: every-row, every-batch (a run of rows of one input), or after so much event time
    #[arg(long, value_name = "CADENCE", default_value = "every-row", value_parser = cadence)]
    pub cadence: CadenceArg,
    /// How often late rows make a window fire again
    #[arg(long, value_enum, value_name = "RULE", default_value = "coalesced")]
    pub late_firing: LateFiringArg,
}

/// Where results go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// File for the results; - is standard output
    #[arg(long, value_name = "PATH", default_value = "-")]
    pub out: PathBuf,
    /// Format of the results [default: by the extension of --out; else table]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<OutputFormat>,
    /// File for late rows, by extension; - is standard output (as NDJSON)
    #[arg(long, value_name = "PATH")]
    pub late: Option<PathBuf>,
    /// File for rejected rows, by extension; - is standard output (as NDJSON)
    #[arg(long, value_name = "PATH")]
    pub rejected: Option<PathBuf>,
    /// File for all counters and watermarks as JSON; - is standard output
    #[arg(long, value_name = "PATH")]
    pub stats: Option<PathBuf>,
    /// No summary and no progress on stderr
    #[arg(long, short)]
    pub quiet: bool,
}

/// How a run outlasts a crash.
#[derive(Debug, Args)]
#[command(next_help_heading = "Checkpoints")]
pub struct CheckpointArgs {
    /// Keep the state of the run in this directory; the same command goes on from there
    #[arg(long, value_name = "DIR")]
    pub checkpoint: Option<PathBuf>,
    /// Write a checkpoint after so many rows, at the next multiple of some 32,768
    #[arg(long, value_name = "ROWS", default_value_t = 1_000_000, requires = "checkpoint",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub checkpoint_every: u64,
}

/// How much of the machine it takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Resources")]
pub struct ResourceArgs {
    /// Threads of the engine [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Rows decoded at a time; has no influence on the output
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub batch_rows: u32,
    /// Stop with an error at more open slices of time than this; of sessions and the like, at more windows, each once a key
    #[arg(long, value_name = "N")]
    pub max_open_slices: Option<usize>,
    /// Stop with an error at more keys than this
    #[arg(long, value_name = "N")]
    pub max_keys: Option<usize>,
    /// Stop with an error at more bytes of state than this
    #[arg(long, value_name = "BYTES")]
    pub max_state_bytes: Option<usize>,
}
