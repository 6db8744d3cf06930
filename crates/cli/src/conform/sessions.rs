//! Tables of questions about sessions: where one begins and ends, and which become one.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::TimeUnit;
use highwater::watermark::WatermarkStrategy;
use highwater::{Aggregate, Window, WindowOperator};
use serde_json::Value as Json;

use super::assign::{collect, pair};
use super::grid::Held;
use super::json::{flag, int, list, text};
use super::trace::Trace;
use super::verdict::{Rule, Verdict};

/// Whether a function is about sessions.
pub(crate) fn is_about(function: &str) -> bool {
    ["session", "merge", "intersects"].contains(&function)
}

/// `[start, end)`.
type Bounds = (i64, i64);

pub(crate) fn check(trace: &Trace) -> Result<Verdict, String> {
    let rows = list(&trace.expected, "rows")?;
    if rows.len() != trace.input.len() {
        return Err(format!("{} questions, {} answers", trace.input.len(), rows.len()));
    }
    let asked = trace.input.iter().map(parts).collect::<Result<Vec<_>, _>>()?;
    let answers = sessions_of(&asked)?;
    let mut rules = Vec::new();
    for (number, (question, answer)) in trace.input.iter().zip(rows).enumerate() {
        let rule = judge(question, &asked[number], &answers[number], answer)
            .map_err(|error| format!("question {number} {question}: {error}"))?;
        rules.extend(rule);
    }
    Ok(Verdict::of(rules))
}

/// Rows that make up a question: their times and gaps.
fn parts(question: &Json) -> Result<Vec<Bounds>, String> {
    let gap_of = |(start, end): Bounds| (start, end.wrapping_sub(start));
    Ok(match text(question, "fn")? {
        "session" => vec![(int(question, "ts")?, int(question, "gap")?)],
        "merge" => {
            list(question, "windows")?.iter().map(|w| pair(w).map(gap_of)).collect::<Result<_, _>>()?
        }
        "intersects" => vec![gap_of(pair(&question["a"])?), gap_of(pair(&question["b"])?)],
        other => return Err(format!("{other:?} is not about sessions")),
    })
}

/// Asks the engine: the rows of each question have a key of their own, and at the end of input its sessions fire.
fn sessions_of(questions: &[Vec<Bounds>]) -> Result<Vec<Vec<Bounds>>, String> {
    let rows =
        || (0..).zip(questions).flat_map(|(number, parts)| parts.iter().map(move |part| (number, *part)));
    let column = |read: fn((i64, Bounds)) -> i64| -> ArrayRef {
        Arc::new(rows().map(|row| Some(read(row))).collect::<Int64Array>())
    };
    let columns =
        [("ts", column(|row| row.1.0)), ("question", column(|row| row.0)), ("gap", column(|row| row.1.1))];
    let batch = RecordBatch::try_from_iter(columns).map_err(|error| error.to_string())?;
    let operator = WindowOperator::builder(batch.schema())
        .event_time("ts")
        .event_time_unit(TimeUnit::Millisecond)
        .key("question")
        .window(Window::session_by("gap"))
        .watermark(WatermarkStrategy::explicit())
        .aggregate(Aggregate::count_all())
        .build();
    operator
        .and_then(|operator| collect(operator, &batch, questions.len()))
        .map_err(|error| format!("the engine refuses: {error}"))
}

/// Whether the engine's sessions are the expected ones, or by which rule they are others.
fn judge(question: &Json, parts: &[Bounds], found: &[Bounds], answer: &Json) -> Result<Option<Rule>, String> {
    let exact = exact(parts);
    if found != exact {
        return Err(format!("by the definition {exact:?}, got {found:?}"));
    }
    let expected = match text(question, "fn")? {
        "session" => list(answer, "windows")?.iter().map(pair).collect::<Result<Vec<_>, _>>()?,
        "merge" => merged(question, answer)?,
        _ => intersection(question, answer)?,
    };
    if found == expected {
        return Ok(None);
    }
    // a lone session may wrap around; none that does is merged with others
    let wrapping: Vec<Bounds> = parts.iter().map(|&(ts, gap)| (ts, ts.wrapping_add(gap))).collect();
    match parts {
        [_] if wrapping == expected => Ok(Some(Rule::Arithmetic)),
        _ => Err(format!("expected {expected:?}, got {found:?}")),
    }
}

/// The sessions of rows by the definition, by end, then start.
fn exact(parts: &[Bounds]) -> Vec<Bounds> {
    let mut sessions: Vec<(i128, i128)> = Vec::new();
    let mut alone: Vec<_> = parts.iter().map(|&(ts, gap)| Held::alone(ts, gap, false)).collect();
    alone.sort_unstable();
    for (start, end) in alone {
        match sessions.last_mut().filter(|last| start <= last.1) {
            Some(last) => last.1 = last.1.max(end),
            None => sessions.push((start, end)),
        }
    }
    let shown = |bounds| Held::exact(bounds, 0);
    sessions.into_iter().map(shown).map(|held| (held.start, held.end)).collect()
}

/// What is left when the windows of a question have merged as the answer says: those that merge with nothing stay, and one
/// that is there twice is one.
fn merged(question: &Json, answer: &Json) -> Result<Vec<Bounds>, String> {
    let bounds = |json: &Json, field: &str| {
        list(json, field)?.iter().map(pair).collect::<Result<Vec<Bounds>, String>>()
    };
    let mut left = bounds(question, "windows")?;
    for merge in list(answer, "merges")? {
        let from = bounds(merge, "from")?;
        if let Some(strange) = from.iter().find(|part| !left.contains(part)) {
            return Err(format!("{strange:?} is not there to be merged"));
        }
        left.retain(|part| !from.contains(part));
        left.push(pair(&merge["result"])?);
    }
    left.sort_unstable_by_key(|&(start, end)| (end, start));
    left.dedup();
    Ok(left)
}

/// Two windows that intersect are one session, which is their cover; others are two.
fn intersection(question: &Json, answer: &Json) -> Result<Vec<Bounds>, String> {
    let (a, b) = (pair(&question["a"])?, pair(&question["b"])?);
    let cover = (a.0.min(b.0), a.1.max(b.1));
    if pair(&answer["cover"])? != cover {
        return Err(format!("expected the cover {}, got {cover:?}", answer["cover"]));
    }
    if int(answer, "max_timestamp_a")? != a.1 - 1 {
        return Err(format!("expected the last time {}, got {}", answer["max_timestamp_a"], a.1 - 1));
    }
    let mut apart = vec![a, b];
    apart.sort_unstable_by_key(|&(start, end)| (end, start));
    Ok(if flag(answer, "intersects") { vec![cover] } else { apart })
}
