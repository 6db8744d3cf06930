//! Timers that rows register and delete, and what their firing does.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use highwater::process::{Keyed, KeyedProcess, ProcessOperator, Results, Rows, Timer};
use highwater::watermark::{END, NONE};
use serde_json::Value as Json;

use super::answer::list_difference;
use super::json::{index, int, int_or, list, text};
use super::process::{Stream, rows, watermark_difference};
use super::trace::Trace;
use super::verdict::{Rule, Verdict};

/// What a timer does when it fires, from a trace's specification.
#[derive(Clone, Copy, Debug, Default)]
struct OnTimer {
    /// Registers so much later, while the key has fired less often than this.
    register: Option<(i64, i64)>,
    delete: Option<i64>,
}

impl OnTimer {
    fn of(spec: &Json) -> Result<Self, String> {
        let on_timer = &spec["on_timer"];
        let register = match on_timer["register_delta_ms"].is_null() {
            true => None,
            false => Some((int(on_timer, "register_delta_ms")?, int(on_timer, "max_fires_per_key")?)),
        };
        let has_delete = !on_timer["delete_delta_ms"].is_null();
        let delete = has_delete.then(|| int(on_timer, "delete_delta_ms")).transpose()?;
        Ok(OnTimer { register, delete })
    }
}

/// What happened: a row that saw a watermark, or a timer that fired.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Happened {
    /// The time of the timer; none for a row.
    timer: Option<i64>,
    key: String,
    watermark: i64,
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.timer {
            Some(timer) => write!(f, "timer {timer} of {:?} at watermark {}", self.key, self.watermark),
            None => write!(f, "a row of {:?} that sees watermark {}", self.key, self.watermark),
        }
    }
}

/// The process: its state is how often the key's timers have fired.
struct Scripted(OnTimer);

impl KeyedProcess for Scripted {
    type State = i64;
    type Output = (Option<i64>, i64);

    fn output_schema(&self, _: &[SchemaRef]) -> highwater::Result<SchemaRef> {
        let field = |name, nullable| Field::new(name, DataType::Int64, nullable);
        Ok(Arc::new(Schema::new(vec![field("timer", true), field("watermark", false)])))
    }

    fn rows(&self, rows: &mut Rows<'_, Self>) -> highwater::Result<()> {
        let batch = rows.batch();
        let ops = batch["op"].as_string::<i32>();
        let times = batch["timer_ts"].as_primitive::<Int64Type>();
        while let Some(mut row) = rows.next()? {
            let (op, time) = (ops.value(row.index), times.value(row.index));
            match op {
                "register" => _ = row.key.register_timer(time),
                "delete" => _ = row.key.delete_timer(time),
                _ => {}
            }
            let watermark = row.key.watermark();
            row.key.emit((None, watermark));
        }
        Ok(())
    }

    fn timer(&self, timer: Timer, key: &mut Keyed<'_, Self>) -> highwater::Result<()> {
        let watermark = key.watermark();
        key.emit((Some(timer.time), watermark));
        *key.state() += 1;
        let fired = *key.state();
        if let Some((later, max_fires)) = self.0.register
            && fired < max_fires
        {
            key.register_timer(timer.time + later);
        }
        if let Some(later) = self.0.delete {
            key.delete_timer(timer.time + later);
        }
        Ok(())
    }

    fn results(&self, outputs: Vec<Self::Output>, _: &Results<'_>) -> highwater::Result<Vec<ArrayRef>> {
        let (timers, watermarks): (Vec<Option<i64>>, Vec<i64>) = outputs.into_iter().unzip();
        Ok(vec![Arc::new(Int64Array::from(timers)), Arc::new(Int64Array::from(watermarks))])
    }
}

fn read(batch: &RecordBatch) -> Result<Vec<Happened>, String> {
    let keys = batch["key"].as_string::<i32>();
    let (timers, watermarks) =
        (batch["timer"].as_primitive::<Int64Type>(), batch["watermark"].as_primitive::<Int64Type>());
    let happened = |row| Happened {
        timer: timers.is_valid(row).then(|| timers.value(row)),
        key: keys.value(row).to_owned(),
        watermark: watermarks.value(row),
    };
    Ok((0..batch.num_rows()).map(happened).collect())
}

fn batch(trace: &Trace, stream: &[super::trace::Item]) -> Result<RecordBatch, String> {
    let rows: Vec<&Json> = rows(trace, stream).map(|(_, json)| json).collect();
    let ints = |field: &str| -> Result<ArrayRef, String> {
        let values = rows.iter().map(|row| int_or(row, field, 0)).collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(Int64Array::from(values)))
    };
    let texts = |field: &str| -> Result<ArrayRef, String> {
        let values = rows.iter().map(|row| text(row, field)).collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(StringArray::from(values)))
    };
    let columns =
        [("ts", ints("ts")?), ("key", texts("key")?), ("op", texts("op")?), ("timer_ts", ints("timer_ts")?)];
    RecordBatch::try_from_iter(columns).map_err(|error| error.to_string())
}

pub(crate) fn check(trace: &Trace) -> Result<Verdict, String> {
    let items = trace.items()?;
    let stream = Stream::new(trace, &items, batch(trace, &items)?)?;
    let on_timer = OnTimer::of(&trace.spec)?;
    let build = |threads| {
        let input = stream.input(stream.rows.schema());
        ProcessOperator::builder(Scripted(on_timer), input).threads(threads).build()
    };
    let replay = stream.replay(build, read)?;
    if let Some(different) = watermark_difference(trace, &replay)? {
        return Err(different);
    }
    let show = |(at, happened): &(usize, Happened)| format!("{happened}, input {at}");
    let model = model(trace, on_timer, &replay.watermarks)?;
    let (found, expected) = (replay.results, expected(trace, &items)?);
    if let Some(different) = list_difference("event", &canonical(&found), &canonical(&expected), show) {
        return Err(different);
    }
    if let Some(different) = list_difference("event", &found, &model, show) {
        return Err(format!("by our rules: {different}"));
    }
    Ok(Verdict::of(if found == expected { vec![] } else { vec![Rule::TimerTies] }))
}

/// Timers of one time in an order that does not depend on who fired them.
fn canonical(happened: &[(usize, Happened)]) -> Vec<(usize, Happened)> {
    let mut canonical = happened.to_vec();
    let tie = |(at, happened): &(usize, Happened)| (*at, happened.timer);
    canonical.chunk_by_mut(|a, b| a.1.timer.is_some() && tie(a) == tie(b)).for_each(<[_]>::sort);
    canonical
}

/// The trace's answer: what rows saw, and the firings behind it.
fn expected(trace: &Trace, items: &[super::trace::Item]) -> Result<Vec<(usize, Happened)>, String> {
    let mut all = Vec::new();
    let seen = list(&trace.expected, "seen")?;
    for ((at, row), seen) in rows(trace, items).zip(seen) {
        if index(seen, "input_index")? != at {
            return Err(format!("expected.seen: {seen} is not of input {at}"));
        }
        let watermark = int(seen, "current_watermark")?;
        all.push((at, Happened { timer: None, key: text(row, "key")?.into(), watermark }));
    }
    if seen.len() != all.len() || all.len() != rows(trace, items).count() {
        return Err("expected.seen does not have one entry a row".into());
    }
    for timer in list(&trace.expected, "timers")? {
        let (at, watermark) = (index(timer, "at_input_index")?, int(timer, "watermark")?);
        let happened =
            Happened { timer: Some(int(timer, "timer_ts")?), key: text(timer, "key")?.into(), watermark };
        all.push((at, happened));
    }
    // a row comes before the timers of the watermark that it leads to; those are in order already
    all.sort_by_key(|(at, _)| *at);
    Ok(all)
}

/// The answer by definition, given how the watermark moves: a list of timers in order of registration, of which the first of
/// the lowest times that are due fires next.
fn model(
    trace: &Trace,
    on_timer: OnTimer,
    watermarks: &[(usize, i64)],
) -> Result<Vec<(usize, Happened)>, String> {
    let mut timers: Vec<(i64, String)> = Vec::new();
    let mut fires: BTreeMap<String, i64> = BTreeMap::new();
    let mut all = Vec::new();
    let mut watermark = NONE;
    let register = |timers: &mut Vec<(i64, String)>, time: i64, key: &str| {
        if !timers.iter().any(|timer| (timer.0, timer.1.as_str()) == (time, key)) {
            timers.push((time, key.to_owned()));
        }
    };
    for (at, item) in trace.input.iter().enumerate() {
        if item.get("ts").is_some() {
            let (key, time) = (text(item, "key")?, int_or(item, "timer_ts", 0)?);
            match text(item, "op")? {
                "register" => register(&mut timers, time, key),
                "delete" => timers.retain(|timer| (timer.0, timer.1.as_str()) != (time, key)),
                _ => {}
            }
            all.push((at, Happened { timer: None, key: key.into(), watermark }));
        }
        let Some(&(_, advanced)) = watermarks.iter().find(|advance| advance.0 == at) else { continue };
        watermark = advanced;
        while let Some(time) = timers.iter().map(|timer| timer.0).filter(|&time| time <= watermark).min()
            && let Some(next) = timers.iter().position(|timer| timer.0 == time)
        {
            let (_, key) = timers.remove(next);
            let fired = fires.entry(key.clone()).or_default();
            *fired += 1;
            if let Some((later, max_fires)) = on_timer.register
                && *fired < max_fires
            {
                register(&mut timers, time + later, &key);
            }
            if let Some(later) = on_timer.delete {
                timers.retain(|timer| *timer != (time + later, key.clone()));
            }
            all.push((at, Happened { timer: Some(time), key, watermark }));
        }
    }
    let ended = trace.input.last().is_some_and(|item| item.get("end").is_some());
    match ended && watermark != END {
        true => Err("the end of input is not the end of time".into()),
        false => Ok(all),
    }
}
