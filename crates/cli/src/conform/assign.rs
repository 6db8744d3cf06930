//! Tables of questions: which windows hold a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::TimeUnit;
use highwater::watermark::WatermarkStrategy;
use highwater::{Aggregate, WindowOperator};
use serde_json::Value as Json;

use super::engine::window;
use super::grid::{Form, Shape};
use super::json::{int, int_or, list, text};
use super::sessions;
use super::trace::Trace;
use super::verdict::{Rule, Verdict};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    /// Where the window starts.
    Start,
    /// All windows, in Flink's order.
    Windows,
}

struct Question {
    function: Function,
    ts: i64,
    shape: Shape,
}

/// The windows of a time as `(start, end)`, earliest first; or why the engine refuses the shape.
pub(crate) type Answer = Result<Vec<(i64, i64)>, String>;

pub(crate) fn check(trace: &Trace) -> Result<Verdict, String> {
    if trace.input.iter().all(|question| question["fn"].as_str().is_some_and(sessions::is_about)) {
        return sessions::check(trace);
    }
    let mut questions = Vec::new();
    for json in &trace.input {
        match question(json)? {
            Ok(question) => questions.push(question),
            Err(what) => return Ok(Verdict::NotSupported(what)),
        }
    }
    let rows = list(&trace.expected, "rows")?;
    if rows.len() != questions.len() {
        return Err(format!("{} questions, {} answers", questions.len(), rows.len()));
    }
    let answers = ask(&questions)?;
    let mut rules = Vec::new();
    for (number, (question, (answer, expected))) in questions.iter().zip(answers.iter().zip(rows)).enumerate()
    {
        let rule = judge(question, answer, expected)
            .map_err(|error| format!("question {number} {}: {error}", trace.input[number]))?;
        rules.extend(rule);
    }
    Ok(Verdict::of(rules))
}

/// A question, or what it asks for that is not supported.
fn question(json: &Json) -> Result<Result<Question, String>, String> {
    let (function, form, slide) = match text(json, "fn")? {
        "window_start" => (Function::Start, Form::Tumbling, "size"),
        "tumbling" | "sql_tumble" => (Function::Windows, Form::Tumbling, "size"),
        "sliding" | "sql_hop" => (Function::Windows, Form::Sliding, "slide"),
        "sql_cumulate" => (Function::Windows, Form::Cumulate, "step"),
        other => return Ok(Err(format!("function {other}"))),
    };
    let (size, slide) = (int(json, "size")?, int(json, slide)?);
    let shape = Shape { form, size, slide, offset: int_or(json, "offset", 0)? };
    Ok(Ok(Question { function, ts: int(json, "ts")?, shape }))
}

/// Asks the engine all questions, those of one shape at once.
fn ask(questions: &[Question]) -> Result<Vec<Answer>, String> {
    let mut by_shape: BTreeMap<Shape, Vec<usize>> = BTreeMap::new();
    for (number, question) in questions.iter().enumerate() {
        by_shape.entry(question.shape).or_default().push(number);
    }
    let mut answers = vec![Ok(Vec::new()); questions.len()];
    for (shape, numbers) in by_shape {
        let times: Vec<i64> = numbers.iter().map(|&number| questions[number].ts).collect();
        for (&number, answer) in numbers.iter().zip(windows_of(shape, &times)?) {
            answers[number] = answer;
        }
    }
    Ok(answers)
}

/// Asks the engine for the windows of many times at once: each time is a row with a key of its own, and at the end of input
/// every window that has it fires.
pub(crate) fn windows_of(shape: Shape, times: &[i64]) -> Result<Vec<Answer>, String> {
    let numbers = (0..times.len() as i64).map(Some).collect::<Int64Array>();
    let rows = times.iter().copied().map(Some).collect::<Int64Array>();
    let columns: [(&str, ArrayRef); 2] = [("ts", Arc::new(rows)), ("question", Arc::new(numbers))];
    let batch = RecordBatch::try_from_iter(columns).map_err(|error| error.to_string())?;
    let operator = WindowOperator::builder(batch.schema())
        .event_time("ts")
        .event_time_unit(TimeUnit::Millisecond)
        .key("question")
        .window(window(shape))
        .watermark(WatermarkStrategy::explicit())
        .aggregate(Aggregate::count_all())
        .build();
    match operator {
        Err(refusal) => Ok(vec![Err(refusal.to_string()); times.len()]),
        Ok(operator) => collect(operator, &batch, times.len())
            .map(|windows| windows.into_iter().map(Ok).collect())
            .map_err(|error| error.to_string()),
    }
}

/// The windows that fire for each of so many keys, which are numbers.
pub(crate) fn collect(
    mut operator: WindowOperator,
    batch: &RecordBatch,
    keys: usize,
) -> highwater::Result<Vec<Vec<(i64, i64)>>> {
    let mut windows = vec![Vec::new(); keys];
    let pushed = operator.push(0, batch)?;
    for fired in pushed.fired.iter().chain(&operator.finish()?.fired) {
        let column = |number: usize| fired.column(number).as_primitive::<Int64Type>().values();
        for ((&number, &start), &end) in column(0).iter().zip(column(1)).zip(column(2)) {
            windows[number as usize].push((start, end));
        }
    }
    Ok(windows)
}

/// Whether an answer is the expected one, or by which rule it is another.
fn judge(question: &Question, answer: &Answer, expected: &Json) -> Result<Option<Rule>, String> {
    let Question { ts, shape, .. } = *question;
    if expected.get("error").is_some() {
        return judge_refusal(question, answer, text(expected, "message")?);
    }
    let windows = answer.as_ref().map_err(|refusal| format!("the engine refuses: {refusal}"))?;
    let expected = match question.function {
        Function::Start => vec![(int(expected, "start")?, 0)],
        Function::Windows => list(expected, "windows")?.iter().map(pair).collect::<Result<_, _>>()?,
    };
    let found = match question.function {
        Function::Start => windows.last().map(|&(start, _)| (start, 0)).into_iter().collect(),
        Function::Windows => shape.as_listed(windows.clone()),
    };
    if found == expected {
        return Ok(None);
    }
    let first = format!("expected {expected:?}, got {found:?}");
    by_definition(question, windows).map_err(|error| format!("{first}; {error}"))?;
    let flinks = match question.function {
        Function::Start => Some(vec![(shape.flinks_start(ts), 0)]),
        Function::Windows => shape
            .flinks(ts, 0)
            .map(|windows| windows.iter().map(|held| (held.start, held.end)).collect::<Vec<_>>()),
    };
    if flinks == Some(expected) { Ok(Some(Rule::Arithmetic)) } else { Err(first) }
}

pub(crate) fn pair(json: &Json) -> Result<(i64, i64), String> {
    match (json[0].as_i64(), json[1].as_i64()) {
        (Some(start), Some(end)) => Ok((start, end)),
        _ => Err(format!("not a window: {json}")),
    }
}

/// Whether the engine's windows are those of exact arithmetic.
fn by_definition(question: &Question, windows: &[(i64, i64)]) -> Result<(), String> {
    let exact = question.shape.exact(question.ts, 0);
    let exact: Vec<_> = exact.iter().map(|held| (held.start, held.end)).collect();
    if windows == exact { Ok(()) } else { Err(format!("by the definition {exact:?}, got {windows:?}")) }
}

/// Flink refuses. So must we, unless it is for an offset, for a step that does not divide the size, or for its mark of a
/// missing time.
fn judge_refusal(question: &Question, answer: &Answer, message: &str) -> Result<Option<Rule>, String> {
    let Shape { form, size, slide, offset } = question.shape;
    let uneven = form == Form::Cumulate && size % slide.max(1) != 0 && message.contains("multiple");
    let windows = match answer {
        Err(_) if size <= 0 || slide <= 0 => return Ok(None),
        // Too many windows a row, for either.
        Err(_) if message.contains("size / slide") => return Ok(None),
        Err(_) if uneven && slide > size => return Ok(None),
        Err(refusal) => return Err(format!("expected {message:?}, got {refusal:?}")),
        Ok(windows) => windows,
    };
    let rule = if message.contains("offset") && offset.unsigned_abs() >= slide.unsigned_abs() {
        Rule::Offset
    } else if question.ts == i64::MIN && message.contains("Long.MIN_VALUE") {
        Rule::LowestTime
    } else if uneven {
        Rule::SqlWindow
    } else {
        return Err(format!("expected {message:?}, got {windows:?}"));
    };
    by_definition(question, windows)?;
    Ok(Some(rule))
}
