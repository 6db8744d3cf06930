//! Streams through a window operator.

use highwater::TimeDelta;
use highwater::watermark::{Cadence, END, Reactivation, WatermarkStrategy};
use serde_json::Value as Json;

use super::answer::{Answer, Column, Firing, Kind, Value, list_difference};
use super::engine::{Driver, Replay, Setup};
use super::grid::{Form, Shape};
use super::json::{flag, float, index, indices, int, int_or, list, text};
use super::model::{Model, Rules};
use super::trace::{Item, Trace};
use super::verdict::{Rule, Verdict};
use super::when::{Evictor, Trigger};

/// How windows fire and what they keep; or what the engine has no answer to.
fn supported(spec: &Json) -> Result<Result<(Trigger, Option<Evictor>), String>, String> {
    if let Some(what) = kind_not_supported(text(&spec["window"], "kind")?) {
        return Ok(Err(what));
    }
    if let Some(unknown) = list(spec, "aggregates")?.iter().find(|name| column(name).is_err()) {
        return Ok(Err(format!("aggregate {unknown}")));
    }
    let (trigger, evictor) = (Trigger::read(spec)?, Evictor::read(spec)?);
    Ok(trigger.and_then(|trigger| Ok((trigger, evictor?))))
}

/// Why windows of this kind are not supported.
pub(crate) fn kind_not_supported(kind: &str) -> Option<String> {
    let known = ["tumbling", "sliding", "cumulate", "session", "session_dynamic", "global"];
    (!known.contains(&kind)).then(|| format!("{kind} windows"))
}

fn column(name: &Json) -> Result<Column, String> {
    name.as_str().and_then(Column::by_name).ok_or_else(|| format!("unknown aggregate {name}"))
}

/// The shape of windows in a specification.
pub(crate) fn shape(window: &Json) -> Result<Shape, String> {
    let size = || int(window, "size_ms");
    let (form, size, slide) = match text(window, "kind")? {
        "tumbling" => (Form::Tumbling, size()?, size()?),
        "sliding" => (Form::Sliding, size()?, int(window, "slide_ms")?),
        "cumulate" => (Form::Cumulate, size()?, int(window, "step_ms")?),
        "session" => (Form::Session, int(window, "gap_ms")?, 1),
        "session_dynamic" => (Form::SessionByValue, 1, 1),
        "global" => (Form::Global, 1, 1),
        other => return Err(format!("unknown windows {other:?}")),
    };
    Ok(Shape { form, size, slide, offset: int_or(window, "offset_ms", 0)? })
}

/// How the watermarks of a stream come about.
pub(crate) struct Watermarks {
    pub(crate) strategy: WatermarkStrategy,
    pub(crate) cadence: Cadence,
    pub(crate) partitions: usize,
    pub(crate) reactivation: Reactivation,
}

pub(crate) fn watermarks(spec: &Json) -> Result<Watermarks, String> {
    let watermark = &spec["watermark"];
    let ms = |field: &str| Ok::<_, String>(TimeDelta::from_millis(int(watermark, field)?));
    let strategy = match text(watermark, "strategy")? {
        "bounded" => WatermarkStrategy::bounded_out_of_orderness(ms("bound_ms")?),
        "ascending" => WatermarkStrategy::ascending(),
        "max_ts_minus_delay" => WatermarkStrategy::delay(ms("delay_ms")?),
        "none" | "explicit" => WatermarkStrategy::explicit(),
        other => return Err(format!("unknown watermark strategy {other:?}")),
    };
    let cadence = match text(watermark, "emit")? {
        "on-marker" => Cadence::OnRequest,
        "per-record" | "explicit" => Cadence::EveryRow,
        other => return Err(format!("unknown emission {other:?}")),
    };
    let reactivation = match text(watermark, "merge")? {
        "multiplexer" => Reactivation::AtOnce,
        "none" | "valve" => Reactivation::WhenCaughtUp,
        other => return Err(format!("unknown merge {other:?}")),
    };
    let partitions = index(watermark, "partitions")?;
    Ok(Watermarks { strategy, cadence, partitions, reactivation })
}

fn setup(spec: &Json, trigger: Trigger, evictor: Option<Evictor>) -> Result<Setup, String> {
    let Watermarks { strategy, cadence, partitions, reactivation } = watermarks(spec)?;
    let mut columns = list(spec, "aggregates")?.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    if flag(spec, "members") {
        columns.push(Column::Members);
    }
    Ok(Setup {
        shape: shape(&spec["window"])?,
        lateness: int(spec, "allowed_lateness_ms")?,
        trigger,
        evictor,
        strategy,
        cadence,
        partitions,
        reactivation,
        keyed: true,
        columns,
        filter_late: false,
    })
}

pub(crate) fn check(trace: &Trace) -> Result<Verdict, String> {
    let (trigger, evictor) = match supported(&trace.spec)? {
        Ok(supported) => supported,
        Err(what) => return Ok(Verdict::NotSupported(what)),
    };
    let (setup, items) = (setup(&trace.spec, trigger, evictor)?, trace.items()?);
    if trace.is_refused() {
        return refused(&setup, &items, &trace.expected);
    }
    let replay = replay(&setup, &items)?;
    let mut rules = Vec::new();
    let expected = expected(trace, &setup, &mut rules)?;
    let side_output = flag(&trace.spec, "late_side_output");
    check_counter(&expected, index(&trace.expected, "dropped")?, side_output, &mut rules)?;
    let model = Model { setup: &setup, input: &items, watermarks: &expected.watermarks };
    rules.extend(explain(&replay, &expected, &model)?);
    Ok(Verdict::of(rules))
}

/// Pushes the rows one by one, and once more in runs; both must say the same in the same order.
pub(crate) fn replay(setup: &Setup, items: &[Item]) -> Result<Replay, String> {
    let replay = Driver::new(setup, items)?.row_by_row()?;
    if setup.filter_late {
        return Ok(replay);
    }
    let runs = Driver::new(setup, items)?.in_runs()?;
    let bare = |firings: &[Firing]| -> Vec<Firing> {
        firings.iter().map(|firing| Firing { at: 0, watermark: 0, ..firing.clone() }).collect()
    };
    let (rows_first, runs_first) = (bare(&replay.answer.firings), bare(&runs.answer.firings));
    let different = list_difference("firing", &runs_first, &rows_first, Firing::to_string)
        .or_else(|| list_difference("late row", &runs.answer.late, &replay.answer.late, usize::to_string));
    match different {
        Some(different) => Err(format!("rows pushed in runs, against one by one: {different}")),
        None => Ok(replay),
    }
}

/// Whether the engine's answer is that of the model by our rules, in the order that is promised.
/// Returns the model's.
pub(crate) fn by_our_rules(found: &Answer, model: &Model<'_>) -> Result<Answer, String> {
    let ours = model.in_order(Rules::default())?;
    if let Some(different) = Answer::difference(&found.clone().canonical(), &ours.clone().canonical()) {
        return Err(different);
    }
    let order = |firing: &Firing| (firing.at, firing.kind, firing.start, firing.end);
    let mut pairs = found.firings.iter().zip(&ours.firings);
    match pairs.find(|(found, ours)| order(found) != order(ours)) {
        Some((found, ours)) => Err(format!("the engine's firings are out of order: {found} before {ours}")),
        None => Ok(ours.canonical()),
    }
}

/// Flink's drop counter: the dropped rows, or nothing where there is a side output for them.
fn check_counter(
    expected: &Answer,
    counter: usize,
    side_output: bool,
    rules: &mut Vec<Rule>,
) -> Result<(), String> {
    let flinks = if side_output { 0 } else { expected.late.len() };
    if counter != flinks {
        return Err(format!("dropped: expected {counter}, where Flink counts {flinks}"));
    }
    if counter != expected.late.len() {
        rules.push(Rule::DropCounter);
    }
    Ok(())
}

/// Compares the engine's answer with the expected one. Where they differ it names the rules that explain the whole of it,
/// or fails with the first difference.
pub(crate) fn explain(replay: &Replay, expected: &Answer, model: &Model<'_>) -> Result<Vec<Rule>, String> {
    let found = replay.answer.clone().canonical();
    let gaps = model.gap_rows() as u64;
    if replay.no_window != gaps {
        return Err(format!("rows in no window: expected {gaps}, got {}", replay.no_window));
    }
    let ours = by_our_rules(&replay.answer, model);
    let Some(first) = Answer::difference(&found, expected) else {
        let show = |(at, time): &(usize, i64)| format!("{time} at input {at}");
        let different = list_difference("timer", &ours?.timers, &expected.timers, show);
        return different.map_or(Ok(Vec::new()), Err);
    };
    if found.watermarks != expected.watermarks {
        return Err(first);
    }
    ours.map_err(|different| format!("{first}; by our rules: {different}"))?;
    // every choice of those that can matter, the smaller ones first
    let can = [true, model.setup.trigger.is_early_by_time(), gaps > 0];
    let choices = (1..8).map(|choice| [4, 2, 1].map(|bit| choice & bit > 0));
    for [wrapping, truncating, gaps_late] in
        choices.filter(|choice| choice.iter().zip(can).all(|(chosen, can)| can || !chosen))
    {
        if model.answer(Rules { wrapping, gaps_late, truncating })? == *expected {
            let rules = [
                gaps_late.then_some(Rule::Gap),
                truncating.then_some(Rule::TriggerInterval),
                wrapping.then_some(Rule::Arithmetic),
            ];
            return Ok(rules.into_iter().flatten().collect());
        }
    }
    Err(first)
}

/// The trace's answer, checked for what it says twice.
fn expected(trace: &Trace, setup: &Setup, rules: &mut Vec<Rule>) -> Result<Answer, String> {
    let answer = &trace.expected;
    let (mut firings, mut timers) = (Vec::new(), Vec::new());
    let mut last: Option<(usize, bool, i64)> = None;
    for (number, json) in list(answer, "firings")?.iter().enumerate() {
        let at = |error: String| format!("expected.firings[{number}]: {error}");
        let firing = expected_firing(json, setup).map_err(at)?;
        // Timers come by time. A row's windows come latest start first, where ours come by end, then start.
        let order = match json["cause"] == "timer" {
            true => (firing.at, true, int(json, "timer_ts").map_err(at)?),
            false => (firing.at, false, firing.start.wrapping_neg()),
        };
        if last.is_some_and(|last| last > order) {
            return Err(format!("expected.firings[{number}] is out of order"));
        }
        if !order.1 && last.is_some_and(|last| (last.0, last.1) == (order.0, order.1)) {
            rules.push(Rule::RefireOrder);
        }
        timers.extend(order.1.then_some((order.0, order.2)));
        last = Some(order);
        firings.push(firing);
    }
    let (late, dropped) = (indices(answer, "late")?, indices(answer, "dropped_indices")?);
    let side_output = flag(&trace.spec, "late_side_output");
    let (late, other) = if side_output { (late, dropped) } else { (dropped, late) };
    if !other.is_empty() {
        return Err("expected: rows are late by both side output and counter".into());
    }
    Ok(Answer { firings, late, watermarks: expected_watermarks(trace)?, timers }.canonical())
}

/// The watermarks that reach the operator. At the end of input Flink's channels end one after the other, which can show in
/// between; the last word counts.
pub(crate) fn expected_watermarks(trace: &Trace) -> Result<Vec<(usize, i64)>, String> {
    let is_end = |at: usize| trace.input.get(at).is_some_and(|item| flag(item, "end"));
    let mut watermarks: Vec<(usize, i64)> = Vec::new();
    for said in list(&trace.expected, "watermarks")? {
        let (at, value) = (index(said, "after_input_index")?, int(said, "value")?);
        match watermarks.last_mut() {
            Some(last) if last.0 == at && is_end(at) && value > last.1 => last.1 = value,
            _ => watermarks.push((at, value)),
        }
    }
    if watermarks.windows(2).any(|pair| pair[0].0 >= pair[1].0 || pair[0].1 >= pair[1].1) {
        return Err("expected.watermarks do not rise".into());
    }
    Ok(watermarks)
}

fn expected_firing(json: &Json, setup: &Setup) -> Result<Firing, String> {
    // a window for all time has no bounds
    let (start, end, last) = match setup.shape.form {
        Form::Global if json["start"].is_null() && json["end"].is_null() => (i64::MIN, END, END),
        Form::Global => return Err("a window for all time has bounds".into()),
        _ => (int(json, "start")?, int(json, "end")?, int(json, "end")?.wrapping_sub(1)),
    };
    let trigger = setup.trigger;
    let (by_time, by_row) = (trigger.is_early_by_time(), trigger.is_early_by_row());
    let kind = match (text(json, "firing")?, text(json, "cause")?) {
        ("main", "timer") if trigger.is_by_time() && int(json, "timer_ts")? == last => Kind::OnTime,
        ("early", "timer") if by_time && int(json, "timer_ts")? < last => Kind::Early,
        ("early", "element") if by_row => Kind::Early,
        ("late", "element") => Kind::Late,
        (firing, cause) => return Err(format!("a {firing} firing by {cause} is not one of this trigger")),
    };
    if int(json, "result_ts")? != last {
        return Err("result_ts is not the last time of the window".into());
    }
    Ok(Firing {
        at: index(json, "at_input_index")?,
        kind,
        end,
        start,
        key: Some(text(json, "key")?.into()),
        watermark: int(json, "watermark")?,
        values: expected_values(json, &setup.columns)?,
    })
}

/// The values of result columns.
pub(crate) fn expected_values(json: &Json, columns: &[Column]) -> Result<Vec<Value>, String> {
    let value = |column: &Column| match column {
        Column::Members => {
            let members = indices(json, column.name())?;
            Ok(Value::List(members.into_iter().map(|index| index as i64).collect()))
        }
        Column::Percentile(name, _) => float(json, name).map(Value::near),
        _ => int(json, column.name()).map(Value::Int),
    };
    columns.iter().map(value).collect()
}

/// Flink refuses. So do we, for a reason that the specification shows; or we do not, by rule 2, and the answer is then that
/// of the definition.
fn refused(setup: &Setup, items: &[Item], expected: &Json) -> Result<Verdict, String> {
    let message = text(expected, "message")?;
    let Shape { size, slide, offset, .. } = setup.shape;
    let no_gap = |item: &Item| matches!(item, Item::Row(row) if setup.shape.gap(row.value).is_some_and(|gap| gap <= 0));
    let no_gap = items.iter().any(no_gap);
    let reason = match () {
        () if setup.lateness < 0 => Some(("lateness", "allowed_lateness")),
        () if size <= 0 => Some(("size", "window size")),
        () if slide <= 0 => Some(("slide", "window slide")),
        () if no_gap => Some(("gap", "session gap")),
        () => None,
    };
    let answer = Driver::new(setup, items).and_then(Driver::row_by_row).map(|_| ());
    match (reason, answer) {
        (Some((theirs, ours)), Err(error)) if message.contains(theirs) && error.contains(ours) => {
            Ok(Verdict::Ok)
        }
        (None, Ok(())) if message.contains("offset") && offset.unsigned_abs() >= slide.unsigned_abs() => {
            taken_anyway(setup, items)?;
            Ok(Verdict::of(vec![Rule::Offset]))
        }
        (_, Err(error)) => Err(format!("expected {message:?}, got {error:?}")),
        (_, Ok(())) => Err(format!("expected {message:?}, got an operator")),
    }
}

/// What Flink refuses and we take has the answer of the definition.
pub(crate) fn taken_anyway(setup: &Setup, items: &[Item]) -> Result<(), String> {
    let replay = replay(setup, items)?;
    let model = Model { setup, input: items, watermarks: &replay.answer.watermarks };
    by_our_rules(&replay.answer, &model).map(|_| ()).map_err(|different| format!("by our rules: {different}"))
}
