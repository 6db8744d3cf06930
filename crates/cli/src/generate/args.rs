use std::path::{Path, PathBuf};

use super::columns::campaigns;
use super::error::Error;
use super::spec::{Disorder, KeyType, Poison, PoisonKind, Spec, Stall, Workload};
use super::stream::{BATCH_ROWS, Stream};
use super::units::{parse_count, parse_duration_ms, parse_instant_ms, parse_share};
use super::write::{Format, write, write_split};

const EXAMPLES: &str = "\
Examples:
  highwater generate gateway --rows 10
      ten requests of a language-model gateway as NDJSON on the terminal
  highwater generate gateway --rows 5000 --seed 7 --out gateway.ndjson
  highwater generate gateway --rows 1M --partitions 8 --split --out gateway.parquet
      gateway-0.parquet to gateway-7.parquet: one file per partition
  highwater generate gateway --stall 2,1m,40s --poison-every 1000 --out trouble.csv
      partition 2 falls silent after a minute, for 40 s; every 1,000th event has a time in the year 2999
  highwater generate w1 --rows 50M --out w1.arrow
  highwater generate w3 --keys 10M --in-order --out ordered.parquet

The first rows of a stream are the same however many are asked for. Equal flags give equal rows, on any machine.";

/// Writes a seeded stream of events, in the order in which they would arrive
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What the events are about
    #[arg(value_enum)]
    pub workload: Workload,

    /// Where to write; `-` is standard output
    #[arg(long, value_name = "PATH", default_value = "-")]
    pub out: PathBuf,
    /// File format [default: by the extension; ndjson for standard output]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Number of rows, such as 5000 or 50M [default: 5000 for gateway, else 1M]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub rows: Option<u64>,
    /// How the events are drawn, and how they are delayed.
    #[command(flatten)]
    pub stream: StreamArgs,
    /// Also write the table from ads to campaigns of ysb
    #[arg(long, value_name = "PATH", help_heading = "Keys")]
    pub campaigns: Option<PathBuf>,

    /// A partition that delivers nothing for a while, then catches up, such as 2,1m,40s
    #[arg(long, value_name = "PARTITION,FROM,LENGTH", value_parser = parse_stall, help_heading = "Disorder")]
    pub stall: Option<Stall>,

    /// Number of partitions [default: 4 for gateway, else 1]
    #[arg(long, value_name = "N", help_heading = "Partitions")]
    pub partitions: Option<u32>,
    /// One file per partition: name-0.csv, name-1.csv, ... for `--out name.csv`
    #[arg(long, help_heading = "Partitions")]
    pub split: bool,
    /// Write a column `partition` [default: if there are several in one file; gateway: always]
    #[arg(long, help_heading = "Partitions")]
    pub partition_column: bool,
    /// Write the time of arrival as column `ingest_ts` [default: gateway only]
    #[arg(long, help_heading = "Partitions")]
    pub ingest_column: bool,

    /// Spoil the time of every Nth event
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Poison")]
    pub poison_every: Option<u64>,
    /// Number of the first spoilt event, counted from 0; alone: spoil only this one [default: N - 1]
    #[arg(long, value_name = "EVENT", value_parser = parse_count, help_heading = "Poison")]
    pub poison_first: Option<u64>,
    /// What a spoilt time looks like
    #[arg(long, value_enum, value_name = "KIND", default_value = "future", help_heading = "Poison")]
    pub poison_kind: PoisonKind,

    /// Rows per batch of the Arrow formats; the rows are the same for any
    #[arg(long, value_name = "N", default_value_t = BATCH_ROWS)]
    pub batch_rows: usize,
}

/// The flags of a stream that other commands have too.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct StreamArgs {
    /// Another seed, another stream [default: one for each workload]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Events per second of event time [default: gateway 20, w4 250, else 10k]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub rate: Option<u64>,
    /// Time of the first event [default: 2026-01-15T10:00:00Z for gateway, else 2024-01-01T00:00:00Z]
    #[arg(long, value_name = "TIME", value_parser = parse_instant_ms, allow_hyphen_values = true)]
    pub start: Option<i64>,

    /// Distinct keys, ads (ysb) or tenants (gateway)
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Keys")]
    pub keys: Option<u64>,
    /// Zipf exponent of the keys; 0 is uniform
    #[arg(long, value_name = "X", help_heading = "Keys")]
    pub zipf: Option<f64>,
    /// Type of the key column of w1 to w5
    #[arg(long, value_enum, value_name = "TYPE", help_heading = "Keys")]
    pub key_type: Option<KeyType>,

    /// Mean of the exponential delay between event and arrival [default: 2s]
    #[arg(long, value_name = "D", value_parser = parse_duration_ms, help_heading = "Disorder")]
    pub delay_mean: Option<u64>,
    /// Longest ordinary delay [default: 20s]
    #[arg(long, value_name = "D", value_parser = parse_duration_ms, help_heading = "Disorder")]
    pub delay_cap: Option<u64>,
    /// Share of stragglers, such as 0.5% [default: 1% for gateway, else 0.5%]
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "Disorder")]
    pub stragglers: Option<f64>,
    /// Delay of stragglers, uniform [default: 20s,30s for gateway, else 20s,60s]
    #[arg(long, value_name = "MIN,MAX", value_parser = parse_range_ms, help_heading = "Disorder")]
    pub straggler_delay: Option<(u64, u64)>,
    /// No delays at all: rows arrive in the order of their events
    #[arg(
        long,
        help_heading = "Disorder",
        conflicts_with_all = ["delay_mean", "delay_cap", "stragglers", "straggler_delay"]
    )]
    pub in_order: bool,
}

impl StreamArgs {
    /// Changes what the flags say. `called` is the workload's name in messages.
    pub fn apply(&self, spec: &mut Spec, called: &str) -> Result<(), Error> {
        self.refuse_unused(spec.workload, called)?;
        spec.seed = self.seed.unwrap_or(spec.seed);
        spec.rate = self.rate.unwrap_or(spec.rate);
        spec.start_ms = self.start.unwrap_or(spec.start_ms);
        spec.keys = self.keys.unwrap_or(spec.keys);
        spec.zipf = self.zipf.unwrap_or(spec.zipf);
        spec.key_type = self.key_type.unwrap_or(spec.key_type);
        spec.disorder = self.disorder(spec.disorder);
        Ok(())
    }

    fn disorder(&self, usual: Disorder) -> Disorder {
        if self.in_order {
            return Disorder::NONE;
        }
        let stragglers = self.straggler_delay.unwrap_or((usual.straggler_min_ms, usual.straggler_max_ms));
        Disorder {
            mean_ms: self.delay_mean.unwrap_or(usual.mean_ms),
            cap_ms: self.delay_cap.unwrap_or(usual.cap_ms),
            straggler_share: self.stragglers.unwrap_or(usual.straggler_share),
            straggler_min_ms: stragglers.0,
            straggler_max_ms: stragglers.1,
        }
    }

    /// A flag that would change nothing is a misunderstanding.
    fn refuse_unused(&self, workload: Workload, called: &str) -> Result<(), Error> {
        use Workload::{Gateway, Nexmark, Ysb};
        match workload {
            Nexmark if self.keys.is_some() => Err(unused("--keys", called, "w1 to w5, ysb and gateway")),
            Nexmark | Ysb if self.zipf.is_some() => Err(unused("--zipf", called, "w1 to w5 and gateway")),
            Nexmark | Ysb | Gateway if self.key_type.is_some() => {
                Err(unused("--key-type", called, "w1 to w5"))
            }
            _ => Ok(()),
        }
    }
}

fn unused(flag: &'static str, workload: &str, allowed: &str) -> Error {
    Error::invalid(flag, format!("given with {workload}"), format!("with {allowed}"))
}

impl Args {
    /// The stream that the flags describe.
    pub fn spec(&self) -> Result<Spec, Error> {
        let mut spec = Spec::new(self.workload);
        self.stream.apply(&mut spec, &name(&self.workload))?;
        if self.campaigns.is_some() && self.workload != Workload::Ysb {
            return Err(unused("--campaigns", &name(&self.workload), "ysb"));
        }
        spec.rows = self.rows.unwrap_or(spec.rows);
        spec.partitions = self.partitions.unwrap_or(spec.partitions);
        spec.stall = self.stall;
        spec.poison = self.poison()?;
        spec.ingest_column |= self.ingest_column;
        spec.partition_column |= self.partition_column || (spec.partitions > 1 && !self.split);
        spec.validate()?;
        Ok(spec)
    }

    fn poison(&self) -> Result<Option<Poison>, Error> {
        let (first, every) = match (self.poison_first, self.poison_every) {
            (None, None) => return Ok(None),
            (_, Some(0)) => return Err(Error::invalid("--poison-every", 0, "1 or more")),
            (first, Some(every)) => (first.unwrap_or(every - 1), every),
            (Some(first), None) => (first, 0),
        };
        Ok(Some(Poison { first, every, kind: self.poison_kind }))
    }

    fn file_format(&self, path: &Path) -> Result<Format, Error> {
        match self.format.or_else(|| Format::of_path(path)) {
            Some(format) => Ok(format),
            None if is_stdout(path) => Ok(Format::Ndjson),
            None => {
                let allowed = "a name ending in .parquet, .csv, .ndjson, .arrow or .arrows, or --format";
                Err(Error::invalid("--out", path.display(), allowed))
            }
        }
    }
}

/// `highwater generate`.
pub fn run(args: &Args) -> Result<(), Error> {
    let spec = args.spec()?;
    let format = args.file_format(&args.out)?;
    if args.split && is_stdout(&args.out) {
        return Err(Error::invalid("--out", "- with --split", "the path of a file"));
    }
    if let Some(path) = &args.campaigns {
        let table = campaigns(&spec)?;
        super::write::write_table(&table, path, args.file_format(path)?)?;
    }
    let stream = Stream::new(&spec)?.with_batch_rows(args.batch_rows);
    if args.split {
        write_split(stream, &args.out, format).map(|_| ())
    } else {
        write(stream, &args.out, format)
    }
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn name(workload: &Workload) -> String {
    use clap::ValueEnum;
    workload.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn parse_range_ms(text: &str) -> Result<(u64, u64), String> {
    let (least, most) = text.split_once(',').ok_or("expected two durations, MIN,MAX, such as 20s,60s")?;
    Ok((parse_duration_ms(least)?, parse_duration_ms(most)?))
}

fn parse_stall(text: &str) -> Result<Stall, String> {
    let parts: Vec<&str> = text.split(',').collect();
    let [partition, from, length] = parts[..] else {
        return Err("expected PARTITION,FROM,LENGTH, such as 2,1m,40s".to_owned());
    };
    let partition =
        partition.trim().parse().map_err(|_| "expected the number of a partition first".to_owned())?;
    Ok(Stall { partition, from_ms: parse_duration_ms(from)?, length_ms: parse_duration_ms(length)? })
}
