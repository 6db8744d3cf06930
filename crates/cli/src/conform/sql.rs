//! Queries over windows, and over the watermark itself.

use std::collections::BTreeSet;

use highwater::TimeDelta;
use highwater::watermark::{Cadence, END, NONE, Reactivation, WatermarkStrategy};
use serde_json::Value as Json;

use super::answer::{Answer, Column, Firing, Kind, list_difference};
use super::assign::windows_of;
use super::engine::{Driver, Replay, Setup};
use super::grid::{Form, Shape};
use super::json::{flag, index, indices, int, int_or, list, text};
use super::model::{Model, Rules};
use super::trace::{Item, Row, Trace};
use super::verdict::{Rule, Verdict};
use super::when::Trigger;
use super::window::{
    by_our_rules, expected_values, expected_watermarks, kind_not_supported, replay, shape, taken_anyway,
};

/// `WATERMARK FOR ts AS ts - INTERVAL ...`, as often as the interval allows.
#[derive(Clone, Copy)]
struct Assigner {
    delay: i64,
    interval: i64,
}

pub(crate) fn check(trace: &Trace) -> Result<Verdict, String> {
    let assigner = Assigner {
        delay: int(&trace.spec, "delay_ms")?,
        interval: int_or(&trace.spec, "auto_watermark_interval_ms", 0)?,
    };
    match text(&trace.spec, "query")? {
        "aggregate" => aggregate(trace, assigner),
        "current_watermark" => current_watermark(trace, assigner),
        "window_rows" => window_rows(trace, assigner),
        other => Ok(Verdict::NotSupported(format!("query {other}"))),
    }
}

fn setup(spec: &Json, shape: Shape, assigner: Assigner) -> Setup {
    let ms = TimeDelta::from_millis;
    let mut columns = vec![Column::Count, Column::Sum, Column::Min, Column::Max];
    if flag(spec, "members") {
        columns.push(Column::Members);
    }
    if flag(spec, "avg") {
        columns.extend([Column::Avg, Column::CountDistinct]);
    }
    if flag(spec, "percentile") {
        columns.extend([Column::Percentile("p50", 0.5), Column::Percentile("p99", 0.99)]);
    }
    let is_batch = spec["mode"] == "batch";
    Setup {
        shape,
        lateness: 0,
        trigger: Trigger::EVENT_TIME,
        evictor: None,
        // A batch query knows no watermark before the end.
        strategy: if is_batch {
            WatermarkStrategy::explicit()
        } else {
            WatermarkStrategy::delay(ms(assigner.delay))
        },
        cadence: if assigner.interval == 0 {
            Cadence::EveryRow
        } else {
            Cadence::Every(ms(assigner.interval))
        },
        partitions: 1,
        reactivation: Reactivation::default(),
        keyed: spec["keyed"].as_bool().unwrap_or(true),
        columns,
        filter_late: flag(spec, "filter_late"),
    }
}

fn aggregate(trace: &Trace, assigner: Assigner) -> Result<Verdict, String> {
    let spec = &trace.spec;
    if let Some(what) = kind_not_supported(text(&spec["window"], "kind")?) {
        return Ok(Verdict::NotSupported(what));
    }
    let (setup, items) = (setup(spec, shape(&spec["window"])?, assigner), trace.items()?);
    if trace.is_refused() {
        return refused(&setup, &items, &trace.expected);
    }
    let mut rules = Vec::new();
    let mut replay = replay(&setup, &items)?;
    let mut expected = expected(trace, &setup, &replay)?;
    let flinks = Model { setup: &setup, input: &items, watermarks: &expected.watermarks };
    let flinks = flinks.answer(Rules::default())?;
    if trace.expected["rows_in_no_window"].is_null() {
        expected.late.clone_from(&flinks.late);
    }
    let ours = Model { setup: &setup, input: &items, watermarks: &replay.answer.watermarks };
    let ours = by_our_rules(&replay.answer, &ours);
    replay.answer = replay.answer.canonical();
    match Answer::difference(&replay.answer, &expected) {
        None => drop(ours?),
        Some(first) => {
            explain_watermarks(&items, assigner, &replay.answer.watermarks, &expected.watermarks)
                .map_err(|different| format!("{first}{different}"))?;
            ours.map_err(|different| format!("{first}; by our watermarks: {different}"))?;
            if let Some(different) = Answer::difference(&flinks, &expected) {
                return Err(format!("{first}; by Flink's watermarks: {different}"));
            }
            rules.push(Rule::SqlWatermark);
        }
    }
    rules.extend(check_metric(trace, &setup, &items, &flinks, &replay.filtered)?);
    Ok(Verdict::of(rules))
}

/// The result rows; every firing of a query is on time.
fn expected(trace: &Trace, setup: &Setup, replay: &Replay) -> Result<Answer, String> {
    let is_batch = trace.spec["mode"] == "batch";
    let last = trace.input.len().saturating_sub(1);
    let mut firings: Vec<Firing> = Vec::new();
    for (number, row) in list(&trace.expected, "rows")?.iter().enumerate() {
        let firing = Firing {
            at: if is_batch { last } else { index(row, "at_input_index")? },
            kind: Kind::OnTime,
            end: int(row, "end")?,
            start: int(row, "start")?,
            key: if setup.keyed { Some(text(row, "key")?.into()) } else { None },
            watermark: if is_batch { END } else { int(row, "watermark")? },
            values: expected_values(row, &setup.columns)?,
        };
        let follows = |last: &Firing| (last.at, last.end) <= (firing.at, firing.end);
        if !is_batch && !firings.last().is_none_or(follows) {
            return Err(format!("expected.rows[{number}] is out of order"));
        }
        firings.push(firing);
    }
    let mut late = Vec::new();
    if !trace.expected["rows_in_no_window"].is_null() {
        let without = indices(&trace.expected, "rows_in_no_window")?;
        if let Some(kept) = replay.filtered.iter().find(|&index| !without.contains(index)) {
            return Err(format!("the filter takes out input {kept}, which should be in a window"));
        }
        late = without.into_iter().filter(|index| !replay.filtered.contains(index)).collect();
    }
    let watermarks = if is_batch { vec![(last, END)] } else { expected_watermarks(trace)? };
    Ok(Answer { firings, late, watermarks, ..Answer::default() }.canonical())
}

/// Whether both lists of watermarks are what the same rows give, ours from nothing, Flink's from 0.
fn explain_watermarks(
    items: &[Item],
    assigner: Assigner,
    found: &[(usize, i64)],
    expected: &[(usize, i64)],
) -> Result<(), String> {
    if found == expected {
        return Err(String::new());
    }
    let show = |(at, value): &(usize, i64)| format!("{value} after input {at}");
    let check = |what, given, start| match list_difference(
        "watermark",
        given,
        &assigner.watermarks(items, start),
        show,
    ) {
        Some(different) => Err(format!("; {what} {different}")),
        None => Ok(()),
    };
    check("from none", found, None)?;
    check("from 0", expected, Some(0))
}

impl Assigner {
    /// The watermarks after input items, the naive way, with a first value or without.
    fn watermarks(self, items: &[Item], start: Option<i64>) -> Vec<(usize, i64)> {
        let (mut highest, mut last) = (start, start);
        let mut watermarks = Vec::new();
        for (at, item) in items.iter().enumerate() {
            match item {
                Item::Row(row) => {
                    let proposal = row.ts.saturating_sub(self.delay);
                    let highest = *highest.insert(highest.map_or(proposal, |highest| highest.max(proposal)));
                    if last.is_none_or(|last| highest > last.saturating_add(self.interval)) {
                        last = Some(highest);
                        watermarks.push((at, highest));
                    }
                }
                Item::End => watermarks.push((at, END)),
                _ => {}
            }
        }
        watermarks
    }
}

/// The drop counter. In two phases Flink counts what it drops behind the first one: of the rows that share a key and a
/// slice between two flushes, one.
fn check_metric(
    trace: &Trace,
    setup: &Setup,
    items: &[Item],
    flinks: &Answer,
    filtered: &[usize],
) -> Result<Option<Rule>, String> {
    if trace.expected["late_records_dropped_metric"].is_null() {
        return Ok(None);
    }
    let metric = index(&trace.expected, "late_records_dropped_metric")?;
    let counted = match trace.spec["agg_phase"].as_str() {
        Some("ONE_PHASE") => flinks.late.len(),
        // sessions have no slices to aggregate before
        _ if setup.shape.form == Form::Session => flinks.late.len(),
        _ => partial_aggregates(setup, items, flinks, filtered),
    };
    if metric != counted {
        return Err(format!("late_records_dropped_metric: expected {metric}, where Flink counts {counted}"));
    }
    // That ours counts every row that it dropped was checked when it was driven.
    Ok((metric != flinks.late.len()).then_some(Rule::DropCounter))
}

/// How many partial aggregates are dropped. Flink's first phase flushes when the watermark has reached a slice end since it
/// last looked, and has passed the end of the earliest slice that it holds.
fn partial_aggregates(setup: &Setup, items: &[Item], flinks: &Answer, filtered: &[usize]) -> usize {
    let Shape { size, slide, offset, .. } = setup.shape;
    let [slice, offset] = [greatest_common_divisor(size, slide), offset].map(i128::from);
    let end_of = |row: &Row| (i128::from(row.ts) - offset).div_euclid(slice) * slice + offset + slice;
    let (mut counted, mut next_look) = (0, 0);
    let mut earliest: Option<i128> = None;
    let mut dropped: BTreeSet<(&str, i128)> = BTreeSet::new();
    let mut watermarks = flinks.watermarks.iter().peekable();
    for (at, item) in items.iter().enumerate() {
        if let Item::Row(row) = item
            && !filtered.contains(&at)
        {
            let end = end_of(row);
            earliest = Some(earliest.map_or(end, |earliest| earliest.min(end)));
            if flinks.late.binary_search(&at).is_ok() {
                dropped.insert((if setup.keyed { &row.key } else { "" }, end));
            }
        }
        let Some(&(_, watermark)) = watermarks.next_if(|&&(after, _)| after == at) else { continue };
        let watermark = i128::from(watermark);
        if watermark >= next_look && earliest.is_some_and(|end| watermark >= end - 1) {
            counted += std::mem::take(&mut dropped).len();
            earliest = None;
        }
        if watermark >= next_look {
            next_look = (watermark + 1).div_euclid(slice) * slice + slice - 1;
        }
    }
    counted
}

fn greatest_common_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Flink's planner refuses sizes that are not a multiple of the slide or step. We do so only where the step is the longer.
fn refused(setup: &Setup, items: &[Item], expected: &Json) -> Result<Verdict, String> {
    let message = text(expected, "message")?;
    let Shape { form, size, slide, .. } = setup.shape;
    if size <= 0 || slide <= 0 || size % slide == 0 || !message.contains("multiple") {
        return Err(format!("expected {message:?}, which the specification does not show"));
    }
    if form == Form::Cumulate && slide > size {
        return match Driver::new(setup, items) {
            Err(_) => Ok(Verdict::Ok),
            Ok(_) => Err(format!("expected {message:?}, got an operator")),
        };
    }
    taken_anyway(setup, items)?;
    Ok(Verdict::of(vec![Rule::SqlWindow]))
}

/// The watermark that each row is judged by.
fn current_watermark(trace: &Trace, assigner: Assigner) -> Result<Verdict, String> {
    const DAY: i64 = 86_400_000;
    // Any windows will do: the question is about watermarks.
    let shape = Shape { form: Form::Tumbling, size: DAY, slide: DAY, offset: 0 };
    let (setup, items) = (setup(&trace.spec, shape, assigner), trace.items()?);
    let replay = Driver::new(&setup, &items)?.row_by_row()?;
    let found = replay.answer.watermarks;
    let watermarks = expected_watermarks(trace)?;
    let mut expected = Vec::new();
    let mut late = 0;
    for row in list(&trace.expected, "rows")? {
        let at = index(row, "input_index")?;
        let Some(Item::Row(Row { ts, .. })) = items.get(at) else {
            return Err(format!("expected.rows: input {at} is no row"));
        };
        let seen = if row["current_watermark"].is_null() { NONE } else { int(row, "current_watermark")? };
        let is_late = seen != NONE && *ts <= seen;
        if flag(row, "late") != is_late {
            return Err(format!("late: expected {}, got {is_late} at input {at}", row["late"]));
        }
        late += usize::from(is_late);
        expected.push((at, seen));
    }
    let counted = index(&trace.expected, "rows_late_by_watermark")?;
    if counted != late {
        return Err(format!("rows_late_by_watermark: expected {counted}, got {late}"));
    }
    let show = |(at, value): &(usize, i64)| format!("{value} at input {at}");
    let first = list_difference("watermark", &found, &watermarks, show)
        .or_else(|| list_difference("current watermark", &replay.seen, &expected, show));
    let Some(first) = first else { return Ok(Verdict::Ok) };
    explain_watermarks(&items, assigner, &found, &watermarks).map_err(|why| format!("{first}{why}"))?;
    if replay.seen != seen(&items, &found) || expected != seen(&items, &watermarks) {
        return Err(first);
    }
    Ok(Verdict::of(vec![Rule::SqlWatermark]))
}

/// The windows of each row, of which none is dropped, late or not.
fn window_rows(trace: &Trace, assigner: Assigner) -> Result<Verdict, String> {
    let window = &trace.spec["window"];
    let kind = text(window, "kind")?;
    if !["tumbling", "sliding", "cumulate"].contains(&kind) {
        return Ok(Verdict::NotSupported(format!("rows of {kind} windows")));
    }
    let (setup, items) = (setup(&trace.spec, shape(window)?, assigner), trace.items()?);
    let rows: Vec<(usize, i64)> = (items.iter().enumerate())
        .filter_map(|(at, item)| if let Item::Row(row) = item { Some((at, row.ts)) } else { None })
        .collect();
    let times: Vec<i64> = rows.iter().map(|&(_, ts)| ts).collect();
    let windows: Result<Vec<_>, String> = windows_of(setup.shape, &times)?.into_iter().collect();
    let windows = windows.map_err(|error| format!("the engine refuses: {error}"))?;
    let of_row = |(&(at, _), windows): (&(usize, i64), Vec<(i64, i64)>)| {
        setup.shape.as_listed(windows).into_iter().map(move |(start, end)| (at, start, end))
    };
    let found: Vec<_> = rows.iter().zip(windows).flat_map(of_row).collect();
    let row = |row: &Json| Ok((index(row, "input_index")?, int(row, "start")?, int(row, "end")?));
    let expected = list(&trace.expected, "rows")?.iter().map(row).collect::<Result<Vec<_>, String>>()?;
    let watermarks = Driver::new(&setup, &items)?.row_by_row()?.answer.watermarks;
    let expected_watermarks = expected_watermarks(trace)?;
    let dropped = index(&trace.expected, "late_records_dropped_metric")?;
    let show_watermark = |(at, value): &(usize, i64)| format!("{value} after input {at}");
    let show = |(at, start, end): &(usize, i64, i64)| format!("[{start}, {end}) of input {at}");
    let different = list_difference("window", &found, &expected, show)
        .or_else(|| list_difference("watermark", &watermarks, &expected_watermarks, show_watermark))
        .or_else(|| (dropped > 0).then(|| format!("late_records_dropped_metric: expected {dropped}, got 0")));
    different.map_or(Ok(Verdict::Ok), Err)
}

/// The watermark before each row.
fn seen(items: &[Item], watermarks: &[(usize, i64)]) -> Vec<(usize, i64)> {
    let mut watermarks = watermarks.iter().peekable();
    let mut current = NONE;
    let mut seen = Vec::new();
    for (at, item) in items.iter().enumerate() {
        if matches!(item, Item::Row(_)) {
            seen.push((at, current));
        }
        if let Some(&(_, watermark)) = watermarks.next_if(|&&(after, _)| after == at) {
            current = watermark;
        }
    }
    seen
}
