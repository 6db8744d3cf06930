//! Sessions, triggers, evictors, window functions, result modes and operators in a row. What should come out is worked out in
//! comments; that random cases agree with the oracle is tested in `crates/check`.
#![expect(clippy::unwrap_used, reason = "a test that panics has found something")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema};
use highwater::watermark::WatermarkStrategy;
use highwater::{
    Aggregate, Error, Evictor, LateFiring, Limits, Output, ResultMode, TimeDelta, Trigger, Window,
    WindowContext, WindowFunction, WindowOperator, WindowOperatorBuilder,
};

const MS: fn(i64) -> TimeDelta = TimeDelta::from_millis;

fn rows(rows: &[(i64, &str, i64)]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([
        (
            "ts",
            Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|r| r.0))) as ArrayRef,
            true,
        ),
        ("key", Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.1))), true),
        ("value", Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.2))), true),
    ])
    .unwrap()
}

fn keyed(window: Window) -> WindowOperatorBuilder {
    WindowOperator::builder(rows(&[]).schema())
        .event_time("ts")
        .key("key")
        .window(window)
        .watermark(WatermarkStrategy::ascending())
        .firing_column(true)
        .firing_number_column(true)
}

fn builder(window: Window) -> WindowOperatorBuilder {
    keyed(window).aggregate(Aggregate::sum("value").alias("sum"))
}

/// `start-end key=value firing number` of everything fired, a minus before what is retracted.
fn fired(output: &Output) -> Vec<String> {
    let mut all = vec![];
    for batch in &output.fired {
        let values = batch.column_by_name("sum").unwrap_or_else(|| &batch["found"]);
        for row in 0..batch.num_rows() {
            let time = |name: &str| batch[name].as_primitive::<TimestampMillisecondType>().value(row);
            let retracted =
                batch.column_by_name("retraction").is_some_and(|column| column.as_boolean().value(row));
            all.push(format!(
                "{}{}-{} {}={} {} {}",
                if retracted { "-" } else { "" },
                time("window_start"),
                time("window_end"),
                batch["key"].as_string::<i32>().value(row),
                values.as_primitive::<Int64Type>().value(row),
                batch["firing"].as_string::<i32>().value(row),
                batch["firing_number"].as_primitive::<Int64Type>().value(row),
            ));
        }
    }
    all
}

fn push(operator: &mut WindowOperator, batch: &[(i64, &str, i64)]) -> Vec<String> {
    let output = operator.push(0, &rows(batch)).unwrap();
    operator.validate();
    fired(&output)
}

#[test]
fn sessions_that_touch_are_one_and_a_row_between_two_joins_them() {
    let late = TimeDelta::from_secs(1);
    let bounded = WatermarkStrategy::bounded_out_of_orderness(late);
    let mut operator = builder(Window::session(MS(10))).watermark(bounded).build().unwrap();
    // a: [0, 10) and [10, 20) touch; [30, 40) does not, until 20 gives [20, 30), which touches both
    // b: [5, 15) alone
    assert!(push(&mut operator, &[(0, "a", 1), (10, "a", 2), (5, "b", 7), (30, "a", 4)]).is_empty());
    assert_eq!(operator.metrics().keys, 3);
    assert!(push(&mut operator, &[(20, "a", 8)]).is_empty());
    assert_eq!(operator.metrics().keys, 2);
    assert_eq!(fired(&operator.finish().unwrap()), ["5-15 b=7 on_time 0", "0-40 a=15 on_time 0"]);
    assert_eq!((operator.metrics().keys, operator.metrics().windows_fired), (0, 2));
}

#[test]
fn rows_join_whichever_sessions_of_their_key_they_touch() {
    let late = TimeDelta::from_secs(1);
    let bounded = WatermarkStrategy::bounded_out_of_orderness(late);
    let mut operator = builder(Window::session(MS(10))).watermark(bounded).build().unwrap();
    let opened = [100, 130, 160].map(|time| (time, "a", 1));
    assert!(push(&mut operator, &opened).is_empty());
    assert!(push(&mut operator, &[100, 130].map(|time| (time, "b", 1))).is_empty());
    assert!(push(&mut operator, &[100, 130].map(|time| (time, "c", 1))).is_empty());
    assert_eq!(operator.metrics().keys, 7);
    // a: [95, 110) in front of the first, 138 behind the second, 155 in front of the third and 168 behind it: [95, 110),
    // [130, 148), [155, 178)
    assert!(push(&mut operator, &[95, 138, 155, 168].map(|time| (time, "a", 2))).is_empty());
    // b: 125 in front of the second, 108 behind the first: [100, 118), [125, 140); c: 119 touches neither 110 nor 130
    assert!(push(&mut operator, &[(125, "b", 2), (108, "b", 2), (119, "c", 2)]).is_empty());
    assert_eq!(operator.metrics().keys, 8);
    // a: 148 touches the second and the third; b: [115, 125) both
    assert!(push(&mut operator, &[(148, "a", 4), (115, "b", 4)]).is_empty());
    assert_eq!(operator.metrics().keys, 6);
    assert_eq!(
        fired(&operator.finish().unwrap()),
        [
            "95-110 a=3 on_time 0",
            "100-110 c=1 on_time 0",
            "119-129 c=2 on_time 0",
            "100-140 b=10 on_time 0",
            "130-140 c=1 on_time 0",
            "130-178 a=12 on_time 0",
        ]
    );
}

#[test]
fn a_row_at_the_beginning_of_time_does_not_touch_a_session_at_its_end() {
    let mut operator = builder(Window::session(MS(10))).build().unwrap();
    assert!(push(&mut operator, &[(i64::MAX, "a", 1)]).is_empty());
    // W is one less than the highest time: the row is late
    let output = operator.push(0, &rows(&[(i64::MIN, "a", 2)])).unwrap();
    assert_eq!((fired(&output).len(), output.late[0].num_rows()), (0, 1));
    // an end that cannot be said is shown as the highest time
    let last = fired(&operator.finish().unwrap());
    assert_eq!(last, [format!("{0}-{0} a=1 on_time 0", i64::MAX)]);
}

#[test]
fn a_session_that_has_fired_goes_on_within_lateness_and_numbers_its_firings() {
    let mut operator = builder(Window::session(MS(10))).allowed_lateness(MS(100)).build().unwrap();
    // W = 19: [0, 10) of a is due
    assert_eq!(push(&mut operator, &[(0, "a", 1), (20, "z", 0)]), ["0-10 a=1 on_time 0"]);
    // 5 makes it [0, 15): still due, so it fires again at the end of the call, once
    assert_eq!(push(&mut operator, &[(5, "a", 2), (5, "a", 4)]), ["0-15 a=7 late 1"]);
    // 12 makes it [0, 22), beyond W: it fires when W reaches 21
    assert!(push(&mut operator, &[(12, "a", 8)]).is_empty());
    assert_eq!(push(&mut operator, &[(22, "z", 0)]), ["0-22 a=15 on_time 2"]);
}

#[test]
fn gaps_can_come_from_a_column() {
    let mut operator = builder(Window::session_by("value")).build().unwrap();
    // [0, 5) and [6, 16) do not touch; W reaches the end of input
    assert_eq!(push(&mut operator, &[(0, "a", 5), (6, "a", 10)]), ["0-5 a=5 on_time 0"]);
    let before = operator.metrics();
    for bad in [0, -3] {
        let error = operator.push(0, &rows(&[(50, "a", 1), (51, "a", bad)])).unwrap_err().to_string();
        for word in ["session gap", "\"value\"", "row 1", &bad.to_string(), "positive"] {
            assert!(error.contains(word), "{word:?} in {error}");
        }
    }
    let null = Int64Array::from(vec![None]);
    let columns = [rows(&[(50, "a", 1)]).columns()[..2].to_vec(), vec![Arc::new(null) as ArrayRef]].concat();
    let batch = RecordBatch::try_new(rows(&[]).schema(), columns).unwrap();
    assert!(operator.push(0, &batch).unwrap_err().to_string().contains("null"));
    assert_eq!(operator.metrics(), before, "a call that fails changes nothing");
    let error = builder(Window::session_by("key")).build().unwrap_err().to_string();
    assert!(error.contains("Utf8") && error.contains("millisecond"), "{error}");
}

#[test]
fn counted_windows_hold_the_last_rows_whatever_their_times() {
    let mut operator = builder(Window::count(2)).build().unwrap();
    let all = [(50, "a", 1), (7, "a", 2), (60, "b", 4), (70, "a", 8)];
    assert_eq!(push(&mut operator, &all), ["7-51 a=3 on_time 0"]);
    assert_eq!(fired(&operator.finish().unwrap()), ["60-61 b=4 on_time 0", "70-71 a=8 on_time 0"]);
    // after every row the last three
    let mut sliding = builder(Window::count_sliding(3, 1)).build().unwrap();
    let all = [(1, "a", 1), (2, "a", 2), (3, "a", 4), (4, "a", 8)];
    let expected = ["1-2 a=1 on_time 0", "1-3 a=3 on_time 0", "1-4 a=7 on_time 0", "2-5 a=14 on_time 0"];
    assert_eq!(push(&mut sliding, &all), expected);
    assert!(fired(&sliding.finish().unwrap()).is_empty());
}

#[test]
fn counted_windows_are_counted_alike_in_any_cut() {
    // two windows, of a and of b, both from 0 to 1
    let all = [(0, "a", 1), (0, "a", 2), (0, "b", 4), (0, "b", 8)];
    for cut in 1..=4 {
        let mut operator = builder(Window::count(2)).build().unwrap();
        all.chunks(cut).for_each(|rows| drop(push(&mut operator, rows)));
        assert_eq!(operator.metrics().windows_fired, 2, "{cut} rows a call");
    }
}

#[test]
fn early_firings_come_before_the_window_ends() {
    let window = Window::tumbling(MS(100));
    let mut by_count = builder(window.clone()).trigger(Trigger::early_count(2)).build().unwrap();
    let all = [(1, "a", 1), (2, "a", 2), (3, "a", 4), (100, "z", 0)];
    assert_eq!(push(&mut by_count, &all), ["0-100 a=3 early 0", "0-100 a=7 on_time 1"]);
    assert_eq!(push(&mut by_count, &[(101, "z", 0)]), ["100-200 z=0 early 0"]);
    assert_eq!((by_count.metrics().fired_early, by_count.metrics().fired_on_time), (2, 1));

    // every 40 ms of event time: at 40 and 80, each once, then at the end
    let mut by_time = builder(window.clone()).trigger(Trigger::early_event_time(MS(40))).build().unwrap();
    let expected = ["0-100 a=1 early 0", "0-100 a=1 early 1", "0-100 a=1 on_time 2"];
    assert_eq!(push(&mut by_time, &[(5, "a", 1), (110, "z", 0)]), expected);

    // when the clock passes a multiple of 40, if rows have come
    let mut by_clock = builder(window).trigger(Trigger::early_clock(MS(40))).build().unwrap();
    assert!(fired(&by_clock.advance_clock(1_000).unwrap()).is_empty());
    assert!(push(&mut by_clock, &[(5, "a", 1)]).is_empty());
    assert!(fired(&by_clock.advance_clock(1_039).unwrap()).is_empty());
    assert_eq!(fired(&by_clock.advance_clock(1_040).unwrap()), ["0-100 a=1 early 0"]);
    assert!(fired(&by_clock.advance_clock(1_080).unwrap()).is_empty());
}

/// A row at 0 in a window of a day, an interval of a millisecond, and a row of the next day: of the firings at 1, 2, ...,
/// 86,399,998 the first is given, then those from 86,390,000 on, together 10,000; and the one at the end.
#[test]
fn a_jump_over_very_many_intervals_gives_the_last_of_them() {
    let day = 86_400_000;
    let mut operator =
        builder(Window::tumbling(MS(day))).trigger(Trigger::early_event_time(MS(1))).build().unwrap();
    assert!(push(&mut operator, &[(0, "a", 7)]).is_empty());
    let given = push(&mut operator, &[(day, "b", 1)]);
    assert_eq!(given.len(), 10_001);
    assert_eq!(given[9_999], "0-86400000 a=7 early 9999");
    assert_eq!(given[10_000], "0-86400000 a=7 on_time 10000");
}

#[test]
fn each_mode_tells_the_same_story() {
    let early = |mode| {
        let window = Window::tumbling(MS(100));
        let builder = builder(window).trigger(Trigger::early_count(2)).result_mode(mode);
        let mut operator = builder.build().unwrap();
        push(&mut operator, &[(1, "a", 1), (2, "a", 2), (3, "a", 4), (101, "z", 0)])
    };
    assert_eq!(early(ResultMode::Accumulate), ["0-100 a=3 early 0", "0-100 a=7 on_time 1"]);
    assert_eq!(early(ResultMode::Discard), ["0-100 a=3 early 0", "0-100 a=4 on_time 1"]);
    let retract = ["0-100 a=3 early 0", "-0-100 a=3 early 0", "0-100 a=7 on_time 1"];
    assert_eq!(early(ResultMode::Retract), retract);
}

#[test]
fn sessions_that_merge_take_back_what_each_has_given() {
    let builder = builder(Window::session(MS(10))).allowed_lateness(MS(100)).result_mode(ResultMode::Retract);
    let mut operator = builder.late_firing(LateFiring::PerRow).build().unwrap();
    let two = push(&mut operator, &[(0, "a", 1), (15, "a", 2), (40, "z", 0)]);
    assert_eq!(two, ["0-10 a=1 on_time 0", "15-25 a=2 on_time 0"]);
    // 8 gives [8, 18), which touches both
    let one = ["-0-10 a=1 on_time 0", "-15-25 a=2 on_time 0", "0-25 a=7 late 1"];
    assert_eq!(push(&mut operator, &[(8, "a", 4)]), one);
}

#[test]
fn evictors_take_rows_out_for_good() {
    let window = Window::tumbling(MS(100));
    let keep = builder(window.clone()).evictor(Evictor::count(2)).trigger(Trigger::early_count(3));
    // the third row fires with the last two, 2 + 4; at the end 4 and 8 are the last two of 2, 4, 8
    let all = [(1, "a", 1), (2, "a", 2), (3, "a", 4), (4, "a", 8), (101, "z", 0)];
    assert_eq!(push(&mut keep.build().unwrap(), &all), ["0-100 a=6 early 0", "0-100 a=12 on_time 1"]);
    // less than 2 ms before the latest: 3 and 4
    let recent = builder(window.clone()).evictor(Evictor::time(MS(2)));
    assert_eq!(push(&mut recent.build().unwrap(), &all), ["0-100 a=12 on_time 0"]);
    // values less than 5 below the last one, 8
    let near = builder(window).evictor(Evictor::delta("value", 5.0));
    assert_eq!(push(&mut near.build().unwrap(), &all), ["0-100 a=12 on_time 0"]);
}

/// How many rows there are; fails at 13.
#[derive(Debug)]
struct Found;

impl WindowFunction for Found {
    fn output(&self, _: &Schema) -> Result<Vec<Field>, String> {
        Ok(vec![Field::new("found", DataType::Int64, false)])
    }
    fn call(&self, window: &WindowContext, rows: &RecordBatch) -> Result<RecordBatch, String> {
        let values = rows["value"].as_primitive::<Int64Type>();
        if values.values().contains(&13) {
            return Err(format!("13 in [{}, {})", window.start, window.end));
        }
        // a line for each row, in order of arrival
        RecordBatch::try_from_iter([("found", Arc::new(values.clone()) as ArrayRef)])
            .map_err(|e| e.to_string())
    }
}

#[test]
fn window_functions_get_all_rows_and_their_failure_undoes_the_call() {
    let mut operator = keyed(Window::tumbling(MS(10))).process(Found).build().unwrap();
    assert!(push(&mut operator, &[(3, "a", 1), (1, "b", 2), (2, "a", 4)]).is_empty());
    let before = operator.metrics();
    let error = operator.push(0, &rows(&[(4, "a", 13), (20, "z", 0)])).unwrap_err();
    assert!(error.to_string().contains("13 in [0, 10)"), "{error}");
    let after = operator.metrics();
    assert_eq!((after.total, after.keys, after.watermark), (before.total, before.keys, before.watermark));
    let all = push(&mut operator, &[(5, "a", 8), (20, "z", 0)]);
    assert_eq!(all, ["0-10 a=1 on_time 0", "0-10 a=4 on_time 0", "0-10 a=8 on_time 0", "0-10 b=2 on_time 0"]);
}

/// The watermark that a window fires at.
#[derive(Debug)]
struct Reached;

impl WindowFunction for Reached {
    fn output(&self, _: &Schema) -> Result<Vec<Field>, String> {
        Ok(vec![Field::new("found", DataType::Int64, false)])
    }
    fn call(&self, window: &WindowContext, _: &RecordBatch) -> Result<RecordBatch, String> {
        let watermark: ArrayRef = Arc::new(Int64Array::from(vec![window.watermark]));
        RecordBatch::try_from_iter([("found", watermark)]).map_err(|error| error.to_string())
    }
}

#[test]
fn what_a_firing_says_does_not_depend_on_which_keys_are_looked_at_together() {
    let keys = ["a", "b", "c", "d", "e", "f"];
    let mut all: Vec<(i64, &str, i64)> = keys.iter().map(|key| (1, *key, 0)).collect();
    all.extend([(12, "z", 0), (25, "z", 0), (40, "z", 0)]);
    all.extend(keys.iter().map(|key| (50, *key, 0)));
    // [0, 10) is due at 9, which the watermark passes with the row at 12: it is 11 then. [10, 20) and [20, 30) of z see 24 and 39
    let mut expected: Vec<String> = keys.iter().map(|key| format!("0-10 {key}=11 on_time 0")).collect();
    expected.extend(["10-20 z=24 on_time 0".into(), "20-30 z=39 on_time 0".into()]);
    // the rows at 50 bring it to 49
    expected.push("40-50 z=49 on_time 0".into());
    for threads in [1, 2, 3, 8] {
        for cut in [1, 4, all.len()] {
            let window = Window::tumbling(MS(10));
            let mut operator = keyed(window).process(Reached).threads(threads).build().unwrap();
            let got: Vec<String> = all.chunks(cut).flat_map(|rows| push(&mut operator, rows)).collect();
            assert_eq!(got, expected, "{threads} threads, {cut} rows a call");
        }
    }
}

#[test]
fn the_window_of_the_lowest_time_fires_when_there_is_a_watermark() {
    let window = builder(Window::tumbling(MS(1))).trigger(Trigger::early_count(1));
    let mut operator = window.late_firing(LateFiring::PerRow).build().unwrap();
    let low = i64::MIN;
    // the second row is judged by no watermark yet, for there is none below the lowest time; the third by 4, the end by 5
    let got = push(&mut operator, &[(low, "a", 1), (5, "b", 2), (6, "b", 4)]);
    let window = format!("{low}-{} a=1", low + 1);
    let expected = [
        format!("{window} early 0"),
        "5-6 b=2 early 0".into(),
        format!("{window} on_time 1"),
        "6-7 b=4 early 0".into(),
        "5-6 b=2 on_time 1".into(),
    ];
    assert_eq!(got, expected);
}

#[test]
fn how_often_a_window_fires_early_does_not_depend_on_which_keys_are_looked_at_together() {
    let keys = ["a", "b", "c", "d", "e", "f"];
    let mut all: Vec<(i64, &str, i64)> = keys.iter().map(|key| (0, *key, 0)).collect();
    // three jumps of less than ten thousand: at each of 1 to 17,999 the six fire
    all.extend([(6_000, "z", 0), (12_000, "z", 0), (18_000, "z", 0)]);
    for threads in [1, 2, 3, 8] {
        let trigger = Trigger::early_event_time(MS(1));
        let builder = builder(Window::tumbling(MS(100_000))).trigger(trigger).threads(threads);
        let got = push(&mut builder.build().unwrap(), &all);
        for key in keys {
            let of_key = format!(" {key}=");
            let count = got.iter().filter(|line| line.contains(&of_key)).count();
            assert_eq!(count, 17_999, "{key}, {threads} threads");
        }
    }
}

#[test]
fn limits_and_overflow_leave_sessions_as_they_were() {
    let limits = Limits { max_keys: 2, ..Limits::default() };
    let mut operator = builder(Window::session(MS(10))).limits(limits).build().unwrap();
    push(&mut operator, &[(0, "a", i64::MAX), (1, "b", 1)]);
    let before = operator.metrics();
    let error = operator.push(0, &rows(&[(2, "c", 1)])).unwrap_err();
    assert_eq!(error, Error::LimitReached { limit: "max_keys", needed: 3, allowed: 2 });
    assert_eq!(operator.metrics().total, before.total);
    // MAX + 1 fits no column, and the row is not taken
    let error = operator.push(0, &rows(&[(3, "a", 1), (30, "b", 1)])).unwrap_err().to_string();
    assert!(error.contains("[0, 13)") && error.contains("key=\"a\""), "{error}");
    assert_eq!(operator.metrics().total, before.total);
    let rest = fired(&operator.finish().unwrap());
    assert_eq!(rest, [format!("0-10 a={} on_time 0", i64::MAX), "1-11 b=1 on_time 0".into()]);
}

#[test]
fn what_does_not_go_together_is_refused_by_name() {
    let refused = |builder: WindowOperatorBuilder, words: &[&str]| {
        let error = builder.build().unwrap_err().to_string();
        words.iter().for_each(|word| assert!(error.contains(word), "{word:?} in {error}"));
    };
    let session = || builder(Window::session(MS(10)));
    refused(session().trigger(Trigger::delta("value", 1.0)), &["trigger", "session 10ms", "merge"]);
    refused(session().trigger(Trigger::delta("key", 1.0)), &["trigger", "\"key\"", "Utf8"]);
    refused(builder(Window::session(MS(10)).offset(MS(1))), &["offset", "session"]);
    refused(builder(Window::session(MS(0))), &["session gap", "more than zero"]);
    refused(builder(Window::count(0)), &["at least one row"]);
    let counted = || builder(Window::count(5));
    refused(counted().trigger(Trigger::count(2)), &["5 rows", "Window::global"]);
    let purging = Trigger::event_time().purging();
    refused(session().trigger(purging).result_mode(ResultMode::Retract), &["retract", "purging"]);
    refused(
        keyed(Window::global()).process(Found).result_mode(ResultMode::Retract),
        &["retract", "function"],
    );
    refused(session().process(Found), &["process", "one or the other"]);
    refused(session().top(3, "sum"), &["top", "session"]);
}

#[test]
fn when_nothing_comes_for_a_while_what_is_open_fires() {
    for window in [Window::tumbling(MS(10)), Window::session(MS(10))] {
        let mut operator = builder(window.clone())
            .firing_number_column(window != Window::tumbling(MS(10)))
            .flush_after_quiet(MS(1_000))
            .build()
            .unwrap();
        assert!(operator.advance_clock(0).unwrap().is_empty());
        assert!(operator.push(0, &rows(&[(0, "a", 1)])).unwrap().is_empty());
        assert!(operator.advance_clock(1_000).unwrap().is_empty());
        assert_eq!(operator.advance_clock(1_001).unwrap().fired[0].num_rows(), 1, "{window}");
        // W is now the last tick of the window, so a row for it is late
        assert_eq!(operator.current_watermark(), 9);
        assert_eq!(operator.push(0, &rows(&[(0, "a", 1)])).unwrap().late[0].num_rows(), 1, "{window}");
    }
}

/// Per minute and key a sum; of each minute the two largest.
#[test]
fn the_top_of_each_window_comes_in_order_and_again_when_late_rows_change_it() {
    let top = builder(Window::tumbling(MS(10))).firing_number_column(false).top(2, "sum");
    let mut operator = top.allowed_lateness(MS(100)).build().unwrap();
    let keys = |output: &Output| {
        let batches = output.fired.iter();
        let lines = |batch: &RecordBatch| {
            let (keys, sums) = (batch["key"].as_string::<i32>().clone(), batch["sum"].clone());
            let sums = sums.as_primitive::<Int64Type>().clone();
            (0..keys.len()).map(move |row| (keys.value(row).to_string(), sums.value(row))).collect::<Vec<_>>()
        };
        batches.flat_map(lines).collect::<Vec<_>>()
    };
    let named = |lines: &[(&str, i64)]| lines.iter().map(|(k, v)| (k.to_string(), *v)).collect::<Vec<_>>();
    // c and b are equal, and c came first
    let all = [(1, "a", 1), (2, "c", 5), (3, "b", 5), (4, "d", 2), (11, "z", 0)];
    assert_eq!(keys(&operator.push(0, &rows(&all)).unwrap()), named(&[("c", 5), ("b", 5)]));
    // a is 1 + 5 = 6 now
    assert_eq!(keys(&operator.push(0, &rows(&[(9, "a", 5)])).unwrap()), named(&[("a", 6), ("c", 5)]));
    let error = builder(Window::tumbling(MS(10))).firing_number_column(false).top(2, "nothing").build();
    let error = error.unwrap_err().to_string();
    assert!(error.contains("nothing") && error.contains("sum"), "{error}");
}

/// A second window over the results of the first: sums per key and 10 ms, of which the largest per 20 ms, from two operators
/// whose watermarks differ.
#[test]
fn operators_in_a_row_never_see_results_late() {
    let first = || {
        let builder = builder(Window::tumbling(MS(10))).window_time_column(true);
        builder.firing_column(false).firing_number_column(false).build().unwrap()
    };
    let (mut left, mut right) = (first(), first());
    let mut second = WindowOperator::builder(left.output_schema())
        .event_time("window_time")
        .window(Window::tumbling(MS(20)))
        .watermark(WatermarkStrategy::explicit())
        .partitions(2)
        .aggregate(Aggregate::max("sum").alias("largest"))
        .build()
        .unwrap();
    let mut largest = vec![];
    for step in 0..40 {
        for (side, operator) in [&mut left, &mut right].into_iter().enumerate() {
            // the right one runs behind
            let at = step * 3 - side as i64 * 25;
            let output = operator.push(0, &rows(&[(at, "a", step), (at - 1, "b", 1)])).unwrap();
            let output = second.push_results(side, &output, operator.current_watermark()).unwrap();
            assert!(output.late.is_empty(), "{:?}", output.late);
            second.validate();
            // by minimum: never ahead of any that goes before
            assert!(second.current_watermark() <= operator.current_watermark());
            largest.extend(output.fired.iter().flat_map(|batch| {
                let starts =
                    batch["window_start"].as_primitive::<TimestampMillisecondType>().values().to_vec();
                starts.into_iter().zip(batch["largest"].as_primitive::<Int64Type>().values().to_vec())
            }));
        }
    }
    assert_eq!(second.metrics().total.late_taken, 0);
    // of [20, 40) the largest is what the right one has in [20, 30): its steps 15 to 18 are at 20, 23, 26 and 29
    assert!(largest.contains(&(20, 15 + 16 + 17 + 18)), "{largest:?}");
    for (side, operator) in [&mut left, &mut right].into_iter().enumerate() {
        let output = operator.finish().unwrap();
        let end = operator.current_watermark();
        let output = second.push_results(side, &output, end).unwrap();
        assert!(output.late.is_empty());
    }
    assert_eq!(second.current_watermark(), highwater::watermark::END);
    assert_eq!(second.metrics().open_slices, 0);
}
