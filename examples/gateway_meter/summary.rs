//! What happened, to be read by people.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use crate::KILLED;
use crate::generate::{MINUTE, PARTITIONS, START, Truth, Workload};
use crate::job::Job;
use crate::ledger::Ledger;
use crate::prices::{grouped, usd};

/// A run that is over.
pub(crate) struct Summary {
    /// What was made up.
    pub(crate) workload: Workload,
    /// How many events.
    pub(crate) events: u64,
    /// The truth about them.
    pub(crate) truth: Truth,
    /// The job, finished.
    pub(crate) job: Job,
    /// What it gave.
    pub(crate) ledger: Ledger,
}

/// What must be equal, in words and numbers.
struct Equation {
    words: &'static str,
    left: i128,
    right: Vec<i128>,
    show: fn(i128) -> String,
}

impl Equation {
    fn holds(&self) -> bool {
        self.left == self.right.iter().sum::<i128>()
    }
}

impl Summary {
    /// Whether everything that went in came out somewhere.
    pub(crate) fn adds_up(&self) -> bool {
        self.equations().iter().all(Equation::holds)
    }

    fn equations(&self) -> Vec<Equation> {
        let metrics = self.job.requests.metrics();
        let rows = metrics.inputs[0].total;
        let counter = |name: &str| metrics.counter(name).unwrap_or(0);
        let complete = counter("complete");
        let bills = self.job.bills.metrics().total;
        let missed = self.ledger.missed.iter().map(|missed| missed.micro_usd).sum();
        let truth = &self.truth;
        let count = |words, left: u64, right: &[u64]| Equation {
            words,
            left: left.into(),
            right: right.iter().copied().map(i128::from).collect(),
            show: |count| grouped(count),
        };
        let money =
            |words, left: i128, right: &[i128]| Equation { words, left, right: right.to_vec(), show: usd };
        vec![
            count("events = taken + rejected", self.events, &[rows.taken, rows.rejected()]),
            count(
                "taken = starts of requests that ended + their ends + starts of abandoned ones + repeated ends",
                rows.taken,
                &[complete, complete, counter("abandoned"), counter("unmatched")],
            ),
            count("requests that ended = billed + too late", complete, &[bills.taken, bills.dropped_late]),
            money("charged = billed + too late", self.ledger.charged, &[self.ledger.billed(), missed]),
            count("made up to be answered + to fail = ended", truth.answered + truth.failed, &[complete]),
            count("made up to crash = abandoned", truth.crashed, &[counter("abandoned")]),
            count("made up to be repeated = repeated ends", truth.repeated, &[counter("unmatched")]),
            money("made-up costs = charged", truth.micro_usd, &[self.ledger.charged]),
        ]
    }

    fn write_bills(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut tenants = BTreeMap::<&str, (i64, i128, usize, usize)>::new();
        for ((tenant, _), versions) in &self.ledger.bills {
            let total = tenants.entry(tenant).or_default();
            if let Some(bill) = versions.last() {
                total.0 += bill.requests;
                total.1 += bill.micro_usd;
            }
            total.2 += 1;
            total.3 += versions.len() - 1;
        }
        writeln!(f, "\nBills\n  tenant     requests           cost  minutes  corrections")?;
        for (tenant, (requests, micros, minutes, corrections)) in tenants {
            let (requests, cost) = (grouped(requests), usd(micros));
            writeln!(f, "  {tenant:9} {requests:>9} {cost:>14} {minutes:>8} {corrections:>12}")?;
        }
        let corrected = self.ledger.bills.iter().find(|(_, versions)| versions.len() > 1);
        if let Some(((tenant, minute), versions)) = corrected {
            let costs: Vec<_> = versions.iter().map(|bill| usd(bill.micro_usd)).collect();
            writeln!(f, "  the first correction: {tenant} at {}, {}", clock(*minute), costs.join(" then "))?;
        }
        Ok(())
    }

    fn write_missed(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nToo late for their bill, in the side output")?;
        let mut minutes = BTreeMap::<i64, (u64, i128)>::new();
        for missed in &self.ledger.missed {
            let minute = minutes.entry(missed.ts.div_euclid(MINUTE) * MINUTE).or_default();
            minute.0 += 1;
            minute.1 += missed.micro_usd;
        }
        for (minute, (requests, micros)) in minutes {
            writeln!(f, "  {} {:>6} requests {:>12}", clock(minute), grouped(requests), usd(micros))?;
        }
        Ok(())
    }

    fn write_models(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nError rates above 5 %")?;
        for alert in &self.ledger.alerts {
            let tenths = alert.failed * 1_000 / alert.requests;
            let (minute, model) = (clock(alert.minute), &alert.model);
            let (rate, failed, requests) =
                (format!("{}.{} %", tenths / 10, tenths % 10), alert.failed, alert.requests);
            writeln!(f, "  {minute}  {model:12} {rate:>7}: {failed} of {requests}")?;
        }
        let end = START + self.workload.minutes * MINUTE;
        writeln!(
            f,
            "\nLatency in the five minutes before {}\n  model            p50 ms    p99 ms  slowest in",
            clock(end)
        )?;
        let mut models: Vec<_> = self.ledger.latency.iter().filter(|((at, _), _)| *at == end).collect();
        models.sort_by_key(|(_, (_, p99))| std::cmp::Reverse(*p99));
        for ((_, model), (p50, p99)) in models {
            let show = |ms: &Option<i64>| ms.map_or("none".into(), grouped);
            let slowest = self.ledger.slowest.values().filter(|name| *name == model).count();
            let (p50, p99) = (show(p50), show(p99));
            writeln!(
                f,
                "  {model:12} {p50:>10} {p99:>9}  {slowest} of {} windows",
                self.ledger.slowest.len()
            )?;
        }
        Ok(())
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Truth { requests, failed, repeated, .. } = self.truth;
        let (events, requests) = (grouped(self.events), grouped(requests));
        let Workload { seed, minutes, .. } = self.workload;
        let (from, to) = (clock(START), clock(START + minutes * MINUTE));
        writeln!(
            f,
            "{events} events of {requests} requests from {from} to {to}, {PARTITIONS} partitions, seed {seed}"
        )?;
        let abandoned = &self.ledger.abandoned;
        writeln!(f, "{failed} failed, {} were abandoned, {repeated} ended twice", abandoned.len())?;
        if let Some((request, started)) = abandoned.first() {
            writeln!(f, "the first abandoned: {request}, started at {}", clock(*started))?;
        }
        for (request, ts, reason) in &self.ledger.rejected {
            let days = (ts - START) / (24 * 60 * MINUTE);
            writeln!(f, "rejected: {request}, {reason}, {days} days ahead")?;
        }
        writeln!(f, "killed at {}, and resumed from a snapshot", clock(KILLED))?;
        self.write_bills(f)?;
        self.write_missed(f)?;
        self.write_models(f)?;
        writeln!(f, "\nIt adds up")?;
        for equation in self.equations() {
            let right: Vec<_> = equation.right.iter().map(|&number| (equation.show)(number)).collect();
            let sign = if equation.holds() { "=" } else { "is NOT" };
            let left = (equation.show)(equation.left);
            writeln!(f, "  {}\n    {left} {sign} {}", equation.words, right.join(" + "))?;
        }
        Ok(())
    }
}

/// The time of day, in UTC.
fn clock(ms: i64) -> String {
    let seconds = ms.div_euclid(1_000).rem_euclid(86_400);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if second == 0 { format!("{hour:02}:{minute:02}") } else { format!("{hour:02}:{minute:02}:{second:02}") }
}
