//! Start and end rows of requests, joined.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use highwater::TimeDelta;
use highwater::process::match_pairs;
use highwater::watermark::NONE;
use serde_json::Value as Json;

use super::answer::list_difference;
use super::json::{index, int, list, text};
use super::process::{Replay, Stream, rows, watermark_difference};
use super::trace::{Item, Trace};
use super::verdict::{Rule, Verdict};

/// A record of a request. The order of the fields is the order of comparison.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    /// When an abandoned one was due; lowest for those that were completed.
    deadline: i64,
    key: String,
    tenant: String,
    started: i64,
    prompt_tokens: i64,
    completed: Option<i64>,
    latency: Option<i64>,
    completion_tokens: i64,
    status: String,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

const TEXTS: [&str; 4] = ["key", "event", "tenant", "status"];
const INTS: [&str; 4] = ["ts", "prompt_tokens", "latency_ms", "completion_tokens"];

fn batch(trace: &Trace, items: &[Item]) -> Result<RecordBatch, String> {
    let rows: Vec<&Json> = rows(trace, items).map(|(_, json)| json).collect();
    let texts = TEXTS.map(|field| -> (&str, ArrayRef) {
        (field, Arc::new(rows.iter().map(|row| row[field].as_str()).collect::<StringArray>()))
    });
    let ints = INTS.map(|field| -> (&str, ArrayRef) {
        (field, Arc::new(rows.iter().map(|row| row[field].as_i64()).collect::<Int64Array>()))
    });
    RecordBatch::try_from_iter(texts.into_iter().chain(ints)).map_err(|error| error.to_string())
}

fn read(batch: &RecordBatch) -> Result<Vec<Record>, String> {
    let text = |name: &str, row| batch[name].as_string::<i32>().value(row).to_owned();
    let int = |name: &str, row| -> Option<i64> {
        let column = batch[name].as_primitive::<Int64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    let record = |row| {
        let status = text("status", row);
        let abandoned = status == "abandoned";
        let started = int("started", row).ok_or("a record that never started")?;
        Ok(Record {
            deadline: NONE,
            key: text("key", row),
            tenant: text("tenant", row),
            started,
            prompt_tokens: int("prompt_tokens", row).ok_or("a start without its columns")?,
            completed: int("ended", row),
            latency: int("latency_ms", row),
            completion_tokens: int("completion_tokens", row).unwrap_or(0),
            status: if abandoned { status } else { text("end_status", row) },
        })
    };
    (0..batch.num_rows()).map(record).collect()
}

pub(crate) fn check(trace: &Trace) -> Result<Verdict, String> {
    let items = trace.items()?;
    let stream = Stream::new(trace, &items, batch(trace, &items)?)?;
    let timeout = int(&trace.spec, "abandon_ms")?;
    let build = |threads| {
        match_pairs(stream.input(stream.rows.schema()))
            .event("event", ["RequestStarted"], ["RequestCompleted"])
            .abandon_after(TimeDelta::from_millis(timeout))
            .start_columns(["tenant", "prompt_tokens"])
            .end_columns(["latency_ms", "completion_tokens", "status"])
            .threads(threads)
            .build()
    };
    let replay = stream.replay(build, read)?;
    if let Some(different) = watermark_difference(trace, &replay)? {
        return Err(different);
    }
    let found = with_deadlines(replay.results.clone(), timeout);
    let expected = with_deadlines(expected(trace, &replay)?, timeout);
    let show = |(at, record): &(usize, Record)| format!("{record}, input {at}");
    if let Some(different) = list_difference("record", &canonical(&found), &canonical(&expected), show) {
        return Err(different);
    }
    let (records, mut firings) = model(trace, timeout, &replay.watermarks)?;
    if let Some(different) = list_difference("record", &found, &records, show) {
        return Err(format!("by our rules: {different}"));
    }
    firings.chunk_by_mut(|a, b| (a.0, a.1) == (b.0, b.1)).for_each(<[_]>::sort);
    let show = |firing: &Firing| format!("{firing:?}");
    if let Some(different) = list_difference("firing", &firings, &expected_firings(trace)?, show) {
        return Err(different);
    }
    let counted: Vec<(usize, u64)> =
        firings.chunk_by(|a, b| a.0 == b.0).map(|some| (some[0].0, some.len() as u64)).collect();
    let show = |(at, count): &(usize, u64)| format!("{count} firings at input {at}");
    if let Some(different) = list_difference("firing", &replay.fired, &counted, show) {
        return Err(different);
    }
    Ok(Verdict::of(if found == expected { vec![] } else { vec![Rule::TimerTies] }))
}

fn with_deadlines(mut records: Vec<(usize, Record)>, timeout: i64) -> Vec<(usize, Record)> {
    for (_, record) in records.iter_mut().filter(|(_, record)| record.completed.is_none()) {
        record.deadline = record.started.saturating_add(timeout);
    }
    records
}

/// Abandoned requests of one deadline in an order that does not depend on who abandoned them.
fn canonical(records: &[(usize, Record)]) -> Vec<(usize, Record)> {
    let mut canonical = records.to_vec();
    let tie = |(at, record): &(usize, Record)| (*at, record.deadline);
    canonical.chunk_by_mut(|a, b| a.1.deadline != NONE && tie(a) == tie(b)).for_each(<[_]>::sort);
    canonical
}

/// The trace's records, checked for the watermark that they were given at.
fn expected(trace: &Trace, replay: &Replay<Record>) -> Result<Vec<(usize, Record)>, String> {
    let record = |json: &Json| -> Result<(usize, Record), String> {
        let at = index(json, "at_input_index")?;
        let by_timer = match text(json, "cause")? {
            "timer" => true,
            "element" => false,
            other => return Err(format!("unknown cause {other:?}")),
        };
        // a row comes before the watermark that it leads to, a timer behind it
        let passed = replay.watermarks.partition_point(|&(moved, _)| moved < at + usize::from(by_timer));
        let watermark = passed.checked_sub(1).map_or(NONE, |last| replay.watermarks[last].1);
        if int(json, "watermark")? != watermark {
            return Err(format!("expected.outputs: {json} is not at watermark {watermark}"));
        }
        let status = text(json, "status")?;
        if by_timer != (status == "abandoned") {
            return Err(format!("expected.outputs: {json} has not the status that belongs to its cause"));
        }
        Ok((
            at,
            Record {
                deadline: NONE,
                key: text(json, "key")?.into(),
                tenant: text(json, "tenant")?.into(),
                started: int(json, "started_ts")?,
                prompt_tokens: int(json, "prompt_tokens")?,
                completed: json["completed_ts"].as_i64(),
                latency: json["latency_ms"].as_i64(),
                completion_tokens: int(json, "completion_tokens")?,
                status: status.into(),
            },
        ))
    };
    list(&trace.expected, "outputs")?.iter().map(record).collect()
}

/// A timer that fired: the item that was the cause, its time, its key, and the watermark.
type Firing = (usize, i64, String, i64);

fn expected_firings(trace: &Trace) -> Result<Vec<Firing>, String> {
    let firing = |json: &Json| -> Result<Firing, String> {
        let (at, time) = (index(json, "at_input_index")?, int(json, "timer_ts")?);
        Ok((at, time, text(json, "key")?.to_owned(), int(json, "watermark")?))
    };
    let mut firings = list(&trace.expected, "timers")?.iter().map(firing).collect::<Result<Vec<_>, _>>()?;
    // those of one time in an order that does not depend on who fired them
    firings.chunk_by_mut(|a, b| (a.0, a.1) == (b.0, b.1)).for_each(<[_]>::sort);
    Ok(firings)
}

/// A record, after the input item that it is due to.
type Emitted = (usize, Record);

/// The records and firings by definition, given how the watermark moves.
fn model(
    trace: &Trace,
    timeout: i64,
    watermarks: &[(usize, i64)],
) -> Result<(Vec<Emitted>, Vec<Firing>), String> {
    let mut open: BTreeMap<String, Record> = BTreeMap::new();
    // in order of registration
    let mut timers: Vec<(i64, String)> = Vec::new();
    let (mut records, mut firings) = (Vec::new(), Vec::new());
    for (at, item) in trace.input.iter().enumerate() {
        match item["event"].as_str() {
            Some("RequestStarted") => {
                let (key, started) = (text(item, "key")?.to_owned(), int(item, "ts")?);
                let timer = (started.saturating_add(timeout), key.clone());
                if !timers.contains(&timer) {
                    timers.push(timer.clone());
                }
                let record = Record {
                    deadline: timer.0,
                    key: key.clone(),
                    tenant: text(item, "tenant")?.into(),
                    started,
                    prompt_tokens: int(item, "prompt_tokens")?,
                    completed: None,
                    latency: None,
                    completion_tokens: 0,
                    status: "abandoned".into(),
                };
                open.insert(key, record);
            }
            Some("RequestCompleted") => {
                let key = text(item, "key")?;
                if let Some(record) = open.remove(key) {
                    timers.retain(|timer| (timer.0, timer.1.as_str()) != (record.deadline, key));
                    let record = Record {
                        deadline: NONE,
                        completed: Some(int(item, "ts")?),
                        latency: Some(int(item, "latency_ms")?),
                        completion_tokens: int(item, "completion_tokens")?,
                        status: text(item, "status")?.into(),
                        ..record
                    };
                    records.push((at, record));
                }
            }
            _ => {}
        }
        let Some(&(_, watermark)) = watermarks.iter().find(|advance| advance.0 == at) else { continue };
        // a stable sort: those of one time stay in order of registration, and firing registers nothing
        timers.sort_by_key(|timer| timer.0);
        let due = timers.partition_point(|timer| timer.0 <= watermark);
        for (time, key) in timers.drain(..due) {
            if open.get(&key).is_some_and(|record| record.deadline == time)
                && let Some(record) = open.remove(&key)
            {
                records.push((at, record));
            }
            firings.push((at, time, key, watermark));
        }
    }
    Ok((records, firings))
}
