//! Watermark generators behind Flink's emitter, with idleness on a clock that the trace moves.

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use highwater::watermark::{Cadence, IdleTimer, PartitionWatermark, WatermarkStrategy};
use highwater::{TickUnit, TimeDelta};
use serde_json::Value as Json;

use super::answer::list_difference;
use super::json::{index, int, int_or, list, text};
use super::trace::{Item, Trace};
use super::verdict::{Rule, Verdict};

/// What comes out after an input item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Watermark(i64),
    Idle,
    Active,
}

pub(crate) type Outputs = Vec<(usize, Said)>;

pub(crate) fn show(output: &(usize, Said)) -> String {
    format!("{:?} after input {}", output.1, output.0)
}

/// A list of outputs in a trace.
pub(crate) fn outputs(expected: &Json, field: &str) -> Result<Outputs, String> {
    let output = |json: &Json| {
        let said = match json["status"].as_str() {
            Some("idle") => Said::Idle,
            Some("active") => Said::Active,
            Some(other) => return Err(format!("unknown status {other:?}")),
            None => Said::Watermark(int(json, "value")?),
        };
        Ok((index(json, "after_input_index")?, said))
    };
    list(expected, field)?.iter().map(output).collect()
}

/// What measures how long it has been quiet. Readings are nanoseconds.
trait Idleness {
    fn on_row(&mut self, now: i64);
    /// Whether it is idle.
    fn check(&mut self, now: i64) -> bool;
}

impl Idleness for IdleTimer {
    fn on_row(&mut self, now: i64) {
        IdleTimer::on_row(self, Some(now));
    }
    fn check(&mut self, now: i64) -> bool {
        IdleTimer::check(self, now)
    }
}

/// The rule: more than the timeout since the last row, or since the start.
struct SinceLastRow {
    timeout: i64,
    last: i64,
}

impl Idleness for SinceLastRow {
    fn on_row(&mut self, now: i64) {
        self.last = now;
    }
    fn check(&mut self, now: i64) -> bool {
        now.saturating_sub(self.last) > self.timeout
    }
}

/// Flink's: more than the timeout since the first check without a row, where a reading of 0 is not one.
struct SinceQuietCheck {
    timeout: i64,
    had_row: bool,
    start: i64,
}

impl Idleness for SinceQuietCheck {
    fn on_row(&mut self, _now: i64) {
        self.had_row = true;
    }
    fn check(&mut self, now: i64) -> bool {
        if std::mem::take(&mut self.had_row) {
            self.start = 0;
        } else if self.start == 0 {
            self.start = now;
        } else {
            return now.saturating_sub(self.start) > self.timeout;
        }
        false
    }
}

/// One generator behind Flink's emitter: only rising watermarks leave it, and the first of them after an idle mark is
/// preceded by an active mark.
struct Emitter {
    partition: PartitionWatermark,
    idleness: Option<Box<dyn Idleness>>,
    per_record: bool,
    clock: i64,
    idle_now: bool,
    marked_idle: bool,
    raw: Outputs,
    emitted: Outputs,
}

/// The engine's generator for a specification, or why it refuses.
fn partition(spec: &Json) -> Result<PartitionWatermark, String> {
    let strategy = match text(spec, "strategy")? {
        "bounded" => {
            WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_millis(int(spec, "bound_ms")?))
        }
        "ascending" => WatermarkStrategy::ascending(),
        "max_ts_minus_delay" => WatermarkStrategy::delay(TimeDelta::from_millis(int(spec, "delay_ms")?)),
        "none" => WatermarkStrategy::explicit(),
        other => return Err(format!("unknown watermark strategy {other:?}")),
    };
    let cadence = if per_record(spec) { Cadence::EveryRow } else { Cadence::OnRequest };
    PartitionWatermark::new(&strategy, cadence, "ts", TickUnit::Millisecond)
        .map_err(|error| error.to_string())
}

fn per_record(spec: &Json) -> bool {
    spec["emit"] != "on-marker"
}

impl Emitter {
    fn new(spec: &Json, idleness: Option<Box<dyn Idleness>>) -> Result<Emitter, String> {
        Ok(Emitter {
            partition: partition(spec)?,
            idleness,
            per_record: per_record(spec),
            clock: int_or(spec, "clock_start_ns", 0)?,
            idle_now: false,
            marked_idle: false,
            raw: Vec::new(),
            emitted: Vec::new(),
        })
    }

    /// All outputs of an input: what the generator offers, and what leaves the emitter.
    fn run(mut self, items: &[Item]) -> Result<(Outputs, Outputs), String> {
        let rest = RecordBatch::new_empty(Schema::empty().into());
        for (at, item) in items.iter().enumerate() {
            let before = self.partition.emitted();
            match item {
                Item::Row(row) => {
                    self.partition.observe(&[row.ts], &rest, None);
                    self.idle_now = false;
                    if let Some(idleness) = &mut self.idleness {
                        idleness.on_row(self.clock);
                    }
                    if self.per_record {
                        self.offer(at, before);
                    }
                }
                Item::Periodic
                    if self.idleness.as_mut().is_some_and(|idleness| idleness.check(self.clock)) =>
                {
                    self.mark_idle(at);
                }
                Item::Periodic => {
                    self.idle_now = false;
                    self.partition.emit();
                    self.offer(at, before);
                }
                Item::ClockNanos(nanos) => self.clock = self.clock.saturating_add(*nanos),
                other => return Err(format!("{other:?} does not belong into a generator's input")),
            }
        }
        if self.partition.regressions() > 0 {
            return Err("the engine counts a watermark that went back".into());
        }
        Ok((self.raw, self.emitted))
    }

    fn offer(&mut self, at: usize, before: i64) {
        self.raw.extend(self.partition.proposal().map(|proposal| (at, Said::Watermark(proposal))));
        if self.partition.emitted() > before {
            if std::mem::take(&mut self.marked_idle) {
                self.emitted.push((at, Said::Active));
            }
            self.emitted.push((at, Said::Watermark(self.partition.emitted())));
        }
    }

    fn mark_idle(&mut self, at: usize) {
        if !std::mem::replace(&mut self.idle_now, true) {
            self.raw.push((at, Said::Idle));
            if !std::mem::replace(&mut self.marked_idle, true) {
                self.emitted.push((at, Said::Idle));
            }
        }
    }
}

/// The timeout in nanoseconds, if there is one.
fn timeout(spec: &Json) -> Result<Option<i64>, String> {
    if spec["idle_timeout_ms"].is_null() {
        return Ok(None);
    }
    Ok(Some(int(spec, "idle_timeout_ms")?.saturating_mul(1_000_000)))
}

pub(crate) fn check(trace: &Trace) -> Result<Verdict, String> {
    let (spec, items) = (&trace.spec, trace.items()?);
    let (timeout, start) = (timeout(spec)?, int_or(spec, "clock_start_ns", 0)?);
    let timer = timeout.map(IdleTimer::new).transpose().map_err(|error| error.to_string());
    if trace.is_refused() {
        return refused(text(&trace.expected, "message")?, timeout, timer.map(|_| ()), partition(spec));
    }
    let timer = timer?.map(|mut timer| {
        timer.start(start);
        Box::new(timer) as Box<dyn Idleness>
    });
    let expected = (outputs(&trace.expected, "raw")?, outputs(&trace.expected, "emitted")?);
    let found = Emitter::new(spec, timer)?.run(&items)?;
    let Some(first) = difference(&found, &expected) else { return Ok(Verdict::Ok) };
    let Some(timeout) = timeout else { return Err(first) };
    let ours = Emitter::new(spec, Some(Box::new(SinceLastRow { timeout, last: start })))?.run(&items)?;
    if let Some(different) = difference(&found, &ours) {
        return Err(format!("{first}; by our rule: {different}"));
    }
    let flinks = SinceQuietCheck { timeout, had_row: false, start: 0 };
    match difference(&Emitter::new(spec, Some(Box::new(flinks)))?.run(&items)?, &expected) {
        Some(_) => Err(first),
        None => Ok(Verdict::of(vec![Rule::IdleClock])),
    }
}

fn difference(found: &(Outputs, Outputs), expected: &(Outputs, Outputs)) -> Option<String> {
    list_difference("raw output", &found.0, &expected.0, show)
        .or_else(|| list_difference("emitted output", &found.1, &expected.1, show))
}

/// Flink refuses a timeout that is none, and a negative bound; so do we.
fn refused(
    message: &str,
    timeout: Option<i64>,
    timer: Result<(), String>,
    partition: Result<PartitionWatermark, String>,
) -> Result<Verdict, String> {
    let ours = match (timeout, timer, partition) {
        (Some(timeout), Err(refusal), _) if timeout <= 0 && message.contains("idleTimeout") => refusal,
        (_, Ok(()), Err(refusal)) if refusal.contains("negative") || refusal.contains("zero or more") => {
            refusal
        }
        (..) => return Err(format!("expected {message:?}, got a generator")),
    };
    if ours.is_empty() { Err(format!("expected {message:?}, got no reason")) } else { Ok(Verdict::Ok) }
}
