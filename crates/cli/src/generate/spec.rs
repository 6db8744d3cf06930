use super::error::Error;
use super::units::format_ms;

/// 2024-01-01T00:00:00Z
const BENCH_START_MS: i64 = 1_704_067_200_000;
/// 2026-01-15T10:00:00Z
const GATEWAY_START_MS: i64 = 1_768_471_200_000;
const DAY_MS: u64 = 86_400_000;
/// Row numbers take 40 bits in the queue of arrivals; this leaves room for the rows under way at the end.
const MAX_ROWS: u64 = 1_000_000_000_000;
/// Rows that may be under way at once, 8 bytes each.
const MAX_UNDER_WAY: f64 = 5e8;

/// What a stream is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// 1,000 Zipf keys and a value, 10,000 events a second
    W1,
    /// 20 model names (dictionary) and a value, 10,000 events a second
    W2,
    /// 1,000,000 uniform keys and a value, 10,000 events a second
    W3,
    /// As w1 with 250 events a second: months of event time
    W4,
    /// 100,000 uniform keys and a value, 10,000 events a second: sessions
    W5,
    /// The bids of NEXMark: auction, bidder, price
    Nexmark,
    /// The ad events of the Yahoo streaming benchmark: ad_id, event_type
    Ysb,
    /// The completed requests of a language-model gateway
    Gateway,
}

/// The type of the key column of w1 to w5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum KeyType {
    /// 32-bit integers
    I32,
    /// 64-bit integers
    I64,
    /// Strings of 12 bytes, `key-00000042`
    Utf8,
    /// Strings behind a dictionary, `model-07`
    Dictionary,
}

/// How far rows lag behind their events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disorder {
    /// Mean of the exponential delay.
    pub mean_ms: u64,
    /// The longest ordinary delay.
    pub cap_ms: u64,
    /// The share of rows that are stragglers instead, 0 to 1.
    pub straggler_share: f64,
    /// The shortest delay of a straggler.
    pub straggler_min_ms: u64,
    /// The longest delay of a straggler, itself excluded.
    pub straggler_max_ms: u64,
}

impl Disorder {
    /// No delays: rows arrive in the order of their events.
    pub const NONE: Disorder =
        Disorder { mean_ms: 0, cap_ms: 0, straggler_share: 0.0, straggler_min_ms: 0, straggler_max_ms: 0 };

    /// No row is later than this.
    pub fn max_ms(&self) -> u64 {
        let ordinary = if self.mean_ms == 0 { 0 } else { self.cap_ms };
        if self.straggler_share > 0.0 { ordinary.max(self.straggler_max_ms) } else { ordinary }
    }
}

/// A partition that delivers nothing for a while and then catches up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Which one.
    pub partition: u32,
    /// When it falls silent, counted from the start of the stream.
    pub from_ms: u64,
    /// For how long.
    pub length_ms: u64,
}

/// What is wrong with the event time of a poison row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PoisonKind {
    /// It lies in the year 2999
    Future,
    /// It is null
    Null,
    /// Future and null in turns
    Mixed,
}

/// Rows with an event time that nobody should trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poison {
    /// The number of the first poison event.
    pub first: u64,
    /// Another one every so many events; 0 for no other.
    pub every: u64,
    /// What is wrong with them.
    pub kind: PoisonKind,
}

impl Poison {
    /// Counts the poison events before event `i`, or says that `i` is none.
    #[inline(always)]
    fn turn(&self, i: u64) -> Option<u64> {
        match (i.checked_sub(self.first)?, self.every) {
            (0, _) => Some(0),
            (_, 0) => None,
            (past, every) => past.is_multiple_of(every).then(|| past / every),
        }
    }

    /// The poison of event `i`, if any: never `Mixed`.
    #[inline(always)]
    pub fn at(&self, i: u64) -> Option<PoisonKind> {
        let turn = self.turn(i)?;
        Some(match self.kind {
            PoisonKind::Mixed if turn.is_multiple_of(2) => PoisonKind::Future,
            PoisonKind::Mixed => PoisonKind::Null,
            kind => kind,
        })
    }
}

/// Everything that determines a stream. Start from [`Spec::new`] and change fields; [`super::Stream::new`] checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Which columns, and how they are drawn.
    pub workload: Workload,
    /// How many rows of the endless stream to take.
    pub rows: u64,
    /// Another seed, another stream.
    pub seed: u64,
    /// Events per second of event time.
    pub rate: u64,
    /// The time of event 0, in ms since the epoch.
    pub start_ms: i64,
    /// Distinct keys (w1 to w5), ads (ysb) or tenants (gateway); not used by nexmark.
    pub keys: u64,
    /// Zipf exponent of the keys; 0 is uniform. Not used by nexmark and ysb.
    pub zipf: f64,
    /// Type of the key column; only w1 to w5 have a choice.
    pub key_type: KeyType,
    /// Delays.
    pub disorder: Disorder,
    /// Partitions; rows are spread evenly.
    pub partitions: u32,
    /// A partition that stalls.
    pub stall: Option<Stall>,
    /// Rows with an unusable time.
    pub poison: Option<Poison>,
    /// Whether to write the arrival time as column `ingest_ts`.
    pub ingest_column: bool,
    /// Whether to write the column `partition`.
    pub partition_column: bool,
}

impl Spec {
    /// The usual form of a workload: one partition (gateway: four), no stall, no poison.
    pub fn new(workload: Workload) -> Self {
        use KeyType::{Dictionary, I32, I64, Utf8};
        let (seed, rate, keys, zipf, key_type) = match workload {
            Workload::W1 => (101, 10_000, 1_000, 1.1, I32),
            Workload::W2 => (102, 10_000, 20, 0.8, Dictionary),
            Workload::W3 => (103, 10_000, 1_000_000, 0.0, I64),
            Workload::W4 => (104, 250, 1_000, 1.1, I32),
            Workload::W5 => (105, 10_000, 100_000, 0.0, I64),
            Workload::Nexmark => (106, 10_000, 0, 0.0, I64),
            Workload::Ysb => (107, 10_000, 1_000, 0.0, I32),
            Workload::Gateway => (7, 20, 4, 0.7, Utf8),
        };
        let gateway = workload == Workload::Gateway;
        let mut disorder = Disorder {
            mean_ms: 2_000,
            cap_ms: 20_000,
            straggler_share: 0.005,
            straggler_min_ms: 20_000,
            straggler_max_ms: 60_000,
        };
        if gateway {
            // Retry buffers give up after half a minute.
            disorder = Disorder { straggler_share: 0.01, straggler_max_ms: 30_000, ..disorder };
        }
        Spec {
            workload,
            rows: if gateway { 5_000 } else { 1_000_000 },
            seed,
            rate,
            start_ms: if gateway { GATEWAY_START_MS } else { BENCH_START_MS },
            keys,
            zipf,
            key_type,
            disorder,
            partitions: if gateway { 4 } else { 1 },
            stall: None,
            poison: None,
            ingest_column: gateway,
            partition_column: gateway,
        }
    }

    /// Whether the event time may be null.
    pub fn has_null_times(&self) -> bool {
        self.poison.is_some_and(|poison| poison.kind != PoisonKind::Future)
    }

    /// Checks every field; the message names the flag of the command line that sets it.
    pub fn validate(&self) -> Result<(), Error> {
        self.validate_keys()?;
        self.validate_delays()?;
        within("--rows", self.rows, 0, MAX_ROWS)?;
        within("--rate", self.rate, 1, 10_000_000)?;
        within("--partitions", u64::from(self.partitions), 1, 65_536)?;
        // Far enough from both ends of i64 for every row there can be; also the years that text formats can hold.
        if !(-62_135_596_800_000..=253_402_300_799_999).contains(&self.start_ms) {
            return Err(Error::invalid("--start", self.start_ms, "the years 1 to 9999"));
        }
        if let Some(stall) = self.stall {
            within("--stall (partition)", u64::from(stall.partition), 0, u64::from(self.partitions) - 1)?;
            within_ms("--stall (from)", stall.from_ms, 36_500 * DAY_MS)?;
            within_ms("--stall (length)", stall.length_ms, 7 * DAY_MS)?;
        }
        self.validate_under_way()
    }

    fn validate_keys(&self) -> Result<(), Error> {
        let most = match (self.workload, self.key_type) {
            (Workload::Nexmark, _) => return Ok(()),
            (Workload::Gateway, _) => 100_000,
            (Workload::Ysb, _) | (_, KeyType::Dictionary) => 1_000_000,
            _ if self.zipf > 0.0 => 1 << 24,
            (_, KeyType::Utf8) => 100_000_000,
            (_, KeyType::I32) => i32::MAX as u64,
            (_, KeyType::I64) => i64::MAX as u64,
        };
        within("--keys", self.keys, 1, most)?;
        if !(0.0..=10.0).contains(&self.zipf) {
            return Err(Error::invalid("--zipf", self.zipf, "0 (uniform) to 10"));
        }
        Ok(())
    }

    fn validate_delays(&self) -> Result<(), Error> {
        let d = &self.disorder;
        within_ms("--delay-mean", d.mean_ms, 7 * DAY_MS)?;
        within_ms("--delay-cap", d.cap_ms, 7 * DAY_MS)?;
        within_ms("--straggler-delay", d.straggler_max_ms, 7 * DAY_MS)?;
        if !(0.0..=1.0).contains(&d.straggler_share) {
            return Err(Error::invalid("--stragglers", d.straggler_share, "0 to 1"));
        }
        if d.straggler_share > 0.0 && d.straggler_min_ms >= d.straggler_max_ms {
            let given = format!("{},{}", format_ms(d.straggler_min_ms), format_ms(d.straggler_max_ms));
            return Err(Error::invalid("--straggler-delay", given, "MIN,MAX with MIN below MAX"));
        }
        Ok(())
    }

    fn validate_under_way(&self) -> Result<(), Error> {
        let d = &self.disorder;
        let stalled = self.stall.map_or(0.0, |s| s.length_ms as f64 / f64::from(self.partitions));
        let mean = d.mean_ms.min(d.cap_ms) as f64 + d.straggler_share * d.straggler_max_ms as f64 + stalled;
        let rows = self.rate as f64 * mean / 1000.0;
        if rows > MAX_UNDER_WAY {
            let given = format!("{} events a second (about {rows:.0} rows delayed at a time)", self.rate);
            return Err(Error::invalid(
                "--rate",
                given,
                format!("delays that keep at most {MAX_UNDER_WAY:.0} rows"),
            ));
        }
        Ok(())
    }
}

fn within(flag: &'static str, given: u64, least: u64, most: u64) -> Result<(), Error> {
    if (least..=most).contains(&given) {
        return Ok(());
    }
    Err(Error::invalid(flag, given, format!("{least} to {most}")))
}

fn within_ms(flag: &'static str, given: u64, most: u64) -> Result<(), Error> {
    if given <= most {
        Ok(())
    } else {
        Err(Error::invalid(flag, format_ms(given), format!("0 to {}", format_ms(most))))
    }
}
