//! What cannot be is refused: with what was given, what would do, and where; and the operator is as it was before.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, RunArray, StringArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use highwater::process::{
    Keyed, KeyedProcess, ProcessOperator, Results, Rows, Side, Timer, TwoInputOperator, deduplicate,
    interval_join, match_pairs, window_join,
};
use highwater::watermark::{END, WatermarkStrategy};
use highwater::{Error, Input, Result, TimeDelta};

use crate::common::{counted, lines};

const MS: fn(i64) -> TimeDelta = TimeDelta::from_millis;

fn batch(times: &[i64]) -> RecordBatch {
    let text = |text: &str| Arc::new(StringArray::from(vec![text; times.len()])) as ArrayRef;
    let times = Arc::new(Int64Array::from(times.to_vec())) as ArrayRef;
    RecordBatch::try_from_iter([
        ("ts", times.clone()),
        ("key", text("a")),
        ("event", text("start")),
        ("v", times),
    ])
    .unwrap()
}

fn over(schema: SchemaRef) -> Input {
    let input = Input::new(schema).event_time("ts").event_time_unit(TimeUnit::Millisecond);
    input.watermark(WatermarkStrategy::ascending())
}

fn input() -> Input {
    over(batch(&[]).schema()).key("key")
}

fn said<T>(result: Result<T>) -> String {
    result.map_or_else(|error| error.to_string(), |_| "all is well".into())
}

#[test]
fn a_column_is_named_once_and_is_one() {
    let within = |input: Input| said(deduplicate(input).within(MS(1)).build());
    assert_eq!(within(input().key("v").key("key")), "key: \"key\" twice is not allowed: each column once");
    let twice = [("ts", DataType::Int64), ("key", DataType::Utf8), ("key", DataType::Int64)];
    let twice = twice.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec();
    let twice = over(Arc::new(Schema::new(twice)));
    assert_eq!(within(twice.clone()), "all is well");
    let refused = "column \"key\" is not allowed: a name that only one column of the schema has";
    assert_eq!(within(twice.clone().key("key")), format!("key: {refused}"));
    let chosen = interval_join(twice.clone(), twice).between(MS(0), MS(1)).right_columns(["key"]).build();
    assert_eq!(said(chosen), format!("right_columns: {refused}"));
    let pairs = match_pairs(input()).event("event", ["start"], ["end"]).abandon_after(MS(1));
    let chosen = pairs.start_columns(["v", "key", "v"]).build();
    assert_eq!(said(chosen), "start_columns: \"v\" twice is not allowed: each column once");
}

#[test]
fn of_two_inputs_it_is_told_which() {
    let join = |left: Input, right: Input| said(interval_join(left, right).between(MS(0), MS(1)).build());
    let schema = batch(&[]).schema();
    assert_eq!(
        join(input(), over(schema.clone()).key("kye")),
        "key of the right input: no column \"kye\"; the schema has ts, key, event, v"
    );
    assert_eq!(
        join(input().partitions(0), input()),
        "partitions of the left input: 0 is not allowed: one to 1048576"
    );
    let timeless = Input::new(schema.clone()).event_time("ts").key("key");
    let allowed = "allowed: Timestamp, Date32, Date64, or Int64 with event_time_unit";
    assert_eq!(
        join(input(), timeless),
        format!("event_time of the right input: column \"ts\" is Int64; {allowed}")
    );
    let silent = Input::new(schema).event_time("ts").event_time_unit(TimeUnit::Millisecond).key("key");
    let joined = window_join(input(), silent).window(MS(1), MS(0)).build();
    assert_eq!(said(joined), "watermark of the right input: nothing is not allowed: a WatermarkStrategy");
    let half = TimeDelta::from_micros(1_500);
    let joined = TwoInputOperator::builder(Gives(Answer::Right), input(), input().idle_timeout(half)).build();
    let unit = "is not a whole number of ticks of event time column \"ts\", whose unit is millisecond";
    assert_eq!(said(joined), format!("idle_timeout of the right input: 1ms500us {unit}"));
}

#[test]
fn of_many_batches_it_is_told_which() {
    let wrong = batch(&[1]).project(&[0, 1, 2]).unwrap();
    let differs = "batch schema differs at column 3: given nothing, built for \"v\" Int64";
    let mut one = deduplicate(input()).within(MS(5)).build().unwrap();
    assert_eq!(said(one.push(0, &wrong)), differs);
    assert_eq!(said(one.push_all(&[(0, wrong.clone())])), differs);
    let before = counted(one.metrics());
    let all = [(0, batch(&[1, 2])), (0, batch(&[])), (0, wrong.clone())];
    assert_eq!(said(one.push_all(&all)), format!("batch 2: {differs}"));
    let partition = "partition 3 does not exist: the operator was built with 1 (0 to 0)";
    assert_eq!(said(one.push_all(&[(0, batch(&[1])), (3, batch(&[1]))])), format!("batch 1: {partition}"));
    assert_eq!(counted(one.metrics()), before);

    let mut two = interval_join(input(), input()).between(MS(0), MS(5)).build().unwrap();
    let before = counted(two.metrics());
    assert_eq!(said(two.push(Side::Right, 0, &wrong)), format!("right input: {differs}"));
    let all = [(Side::Right, 0, batch(&[1])), (Side::Left, 0, wrong)];
    assert_eq!(said(two.push_all(&all)), format!("batch 1, left input: {differs}"));
    assert_eq!(said(two.mark_idle(Side::Left, 3)), format!("left input: {partition}"));
    let explicit =
        "right input: advance_watermark needs an operator built with WatermarkStrategy::explicit()";
    assert_eq!(said(two.advance_watermark(Side::Right, 0, 1)), explicit);
    let error = two.push(Side::Left, 3, &batch(&[1])).unwrap_err();
    let inner = Error::UnknownPartition { given: 3, partitions: 1 };
    assert_eq!(error, Error::At { place: "left input".into(), error: Box::new(inner) });
    assert_eq!(counted(two.metrics()), before);
    two.validate();
}

#[test]
fn no_parameter_is_overlooked() {
    let both = deduplicate(input()).within(MS(1)).in_window(MS(10), MS(0)).build();
    assert_eq!(said(both), "deduplicate: within and in_window is not allowed: one of them");
    for threads in [0, 4_097, usize::MAX] {
        let built = deduplicate(input()).within(MS(1)).threads(threads).build();
        assert_eq!(said(built), format!("threads: {threads} is not allowed: one to 4096"));
    }
}

#[test]
fn a_snapshot_of_something_else_is_called_that() {
    let pairs = match_pairs(input()).event("event", ["start"], ["end"]).abandon_after(MS(5)).build().unwrap();
    let snapshot = pairs.snapshot().unwrap();
    let was = "but was pairs of [\"start\"] and [\"end\"] in column 2 within 5 ticks; [], [] when the snapshot was taken";
    let join = interval_join(input(), input()).between(MS(0), MS(1)).build().unwrap();
    let here = "interval join from 0 to 1 ticks, outer: false; [\"ts\", \"event\", \"v\"], [\"ts\", \"event\", \"v\"]";
    assert_eq!(said(join.restore(&snapshot)), format!("snapshot: process is {here} here, {was}"));
    let other = match_pairs(input().key("v")).event("event", ["start"], ["end"]).abandon_after(MS(6));
    let here = "pairs of [\"start\"] and [\"end\"] in column 2 within 6 ticks; [], []";
    assert_eq!(
        said(other.build().unwrap().restore(&snapshot)),
        format!("snapshot: process is {here} here, {was}")
    );
}

/// What a process makes of one result for each row, and one for each timer a millisecond later.
#[derive(Clone, Copy)]
enum Answer {
    Right,
    TwoColumns,
    AnotherType,
    OneMore,
    Nulls,
    /// Nothing but how many there are.
    NoColumns,
}

struct Gives(Answer);

/// The same by one that says that it cannot fail.
struct Certain(Gives);

impl KeyedProcess for Certain {
    type State = ();
    type Output = i64;

    const FALLIBLE: bool = false;

    fn output_schema(&self, inputs: &[SchemaRef]) -> Result<SchemaRef> {
        self.0.output_schema(inputs)
    }

    fn rows(&self, rows: &mut Rows<'_, Self>) -> Result<()> {
        while let Some(mut row) = rows.next()? {
            *row.key.state() = ();
            let time = row.time;
            row.key.emit(time);
        }
        Ok(())
    }

    fn results(&self, outputs: Vec<i64>, results: &Results<'_>) -> Result<Vec<ArrayRef>> {
        self.0.results(outputs, results)
    }
}

impl KeyedProcess for Gives {
    type State = ();
    type Output = i64;

    fn output_schema(&self, _: &[SchemaRef]) -> Result<SchemaRef> {
        Ok(Arc::new(match self.0 {
            Answer::NoColumns => Schema::empty(),
            _ => Schema::new(vec![Field::new("at", DataType::Int64, false)]),
        }))
    }

    fn rows(&self, rows: &mut Rows<'_, Self>) -> Result<()> {
        while let Some(mut row) = rows.next()? {
            let time = row.time;
            row.key.register_timer(time + 1);
            row.key.emit(time);
        }
        Ok(())
    }

    fn timer(&self, timer: Timer, key: &mut Keyed<'_, Self>) -> Result<()> {
        if key.watermark() != END {
            key.register_timer(timer.time + 100);
        }
        key.emit(timer.time);
        Ok(())
    }

    fn results(&self, outputs: Vec<i64>, _: &Results<'_>) -> Result<Vec<ArrayRef>> {
        let (column, rows): (ArrayRef, _) = (Arc::new(Int64Array::from(outputs.clone())), outputs.len());
        Ok(match self.0 {
            Answer::Right => vec![column],
            Answer::TwoColumns => vec![column.clone(), column],
            Answer::AnotherType => vec![Arc::new(Float64Array::from(vec![0.0; rows]))],
            Answer::OneMore => vec![Arc::new(Int64Array::from(vec![0; rows + 1]))],
            Answer::Nulls => vec![Arc::new(Int64Array::from(vec![None; rows]))],
            Answer::NoColumns => vec![],
        })
    }
}

#[test]
fn a_process_gives_what_it_says() {
    for (answer, message) in [
        (Answer::TwoColumns, "results gives 2 columns; output_schema has 1: at"),
        (Answer::AnotherType, "results gives column \"at\" as Float64; output_schema says Int64"),
        (Answer::OneMore, "results gives 4 values of column \"at\" for 3 outputs"),
        (Answer::Nulls, "results gives column \"at\" 3 nulls; output_schema says none"),
    ] {
        let mut operator = ProcessOperator::builder(Gives(answer), input()).build().unwrap();
        let before = counted(operator.metrics());
        // rows at 1 and 5, and the timer of the first, for the watermark comes to 4
        assert_eq!(said(operator.push(0, &batch(&[1, 5]))), format!("process: {message}"));
        assert_eq!(counted(operator.metrics()), before);
        operator.validate();
    }
}

#[test]
fn one_that_fails_although_it_cannot_is_done() {
    let build = || ProcessOperator::builder(Certain(Gives(Answer::Nulls)), input()).build().unwrap();
    let mut operator = build();
    let failure = "process: results gives column \"at\" 2 nulls; output_schema says none";
    assert_eq!(said(operator.push(0, &batch(&[1, 5]))), failure);
    let over = format!(
        "process: an earlier call has failed halfway, although the process says that it is not FALLIBLE ({failure}); this \
         operator can be used no more, and a new one be restored from a snapshot of before"
    );
    assert_eq!(said(operator.push(0, &batch(&[6]))), over);
    assert_eq!(said(operator.finish()), over);
    assert_eq!(said(operator.snapshot()), over);
    assert_eq!(said(operator.restore(&[])), over);
}

/// A dictionary can have a null among its values, and then rows without a null in the column have none in truth. Runs have no nulls
/// of their own either: what is null in an outer join or an abandoned pair is not taken for the first of them.
#[test]
fn nulls_that_do_not_look_like_it() {
    let values = Arc::new(StringArray::from(vec![None, Some("x")])) as ArrayRef;
    let dictionary = DictionaryArray::<Int8Type>::new(vec![0, 1, 0].into(), values);
    let runs =
        RunArray::<Int32Type>::try_new(&vec![2, 3].into(), &StringArray::from(vec!["r", "s"])).unwrap();
    let rows = |times: &[i64]| {
        let columns: [(&str, ArrayRef); 5] = [
            ("ts", Arc::new(Int64Array::from(times.to_vec()))),
            ("key", Arc::new(StringArray::from(vec!["a"; times.len()]))),
            ("event", Arc::new(StringArray::from(vec!["start"; times.len()]))),
            ("d", Arc::new(dictionary.slice(0, times.len()))),
            ("r", Arc::new(runs.slice(0, times.len()))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let all = rows(&[1, 2, 300]);
    assert!(!all.schema().field(3).is_nullable());
    let text = |column: &ArrayRef| -> Vec<String> {
        let show = |value: Option<&str>| value.unwrap_or("-").to_string();
        match column.as_any().downcast_ref::<RunArray<Int32Type>>() {
            Some(runs) => runs.downcast::<StringArray>().unwrap().into_iter().map(show).collect(),
            None => column.as_string::<i32>().iter().map(show).collect(),
        }
    };
    let join =
        interval_join(over(all.schema()).key("key"), over(all.schema()).key("key")).between(MS(0), MS(0));
    let mut join = join.left_outer().left_columns(["d", "r"]).right_columns(["d", "r"]).build().unwrap();
    assert!(join.push(Side::Left, 0, &all).unwrap().is_empty());
    let joined = join.push(Side::Right, 0, &rows(&[1])).unwrap().fired;
    assert_eq!(joined[0].columns()[1..].iter().map(text).collect::<Vec<_>>(), [["-"], ["r"], ["-"], ["r"]]);
    let alone = join.finish().unwrap().fired;
    let expected = [["x", "-"], ["r", "s"], ["-", "-"], ["-", "-"]];
    assert_eq!(alone[0].columns()[1..].iter().map(text).collect::<Vec<_>>(), expected);

    let pairs = match_pairs(over(all.schema())).event("event", ["start"], ["end"]).abandon_after(MS(5));
    let mut pairs = pairs.start_columns(["r"]).end_columns(["d", "r"]).build().unwrap();
    assert!(pairs.push(0, &all).unwrap().is_empty());
    let abandoned = pairs.finish().unwrap().fired;
    assert_eq!(abandoned[0].columns()[..3].iter().map(text).collect::<Vec<_>>(), [["s"], ["-"], ["-"]]);
}

#[test]
fn results_without_columns_are_counted() {
    let mut operator =
        ProcessOperator::builder(Gives(Answer::NoColumns), over(batch(&[]).schema())).build().unwrap();
    let output = operator.push(0, &batch(&[1, 5])).unwrap();
    assert_eq!((output.fired[0].num_columns(), output.fired[0].num_rows()), (0, 3));
    let unkeyed = || over(batch(&[]).schema());
    let join = interval_join(unkeyed(), unkeyed()).between(MS(0), MS(5)).left_columns([""; 0]);
    let mut join = join.right_columns([""; 0]).build().unwrap();
    assert!(join.push(Side::Left, 0, &batch(&[1, 5])).unwrap().is_empty());
    // 3 is up to 5 after 1, and 6 after both
    assert_eq!(join.push(Side::Right, 0, &batch(&[3, 6])).unwrap().fired[0].num_rows(), 3);
}

/// One that stops at the end, as the documentation of timers asks it to.
#[test]
fn timers_that_register_the_next_one_can_end() {
    let mut operator = ProcessOperator::builder(Gives(Answer::Right), input()).build().unwrap();
    // the watermark comes to 249, behind the rows
    let rows = operator.push(0, &batch(&[1, 250])).unwrap();
    assert_eq!(lines(&rows.fired), ["a 1", "a 250", "a 2", "a 102", "a 202"]);
    assert_eq!(lines(&operator.finish().unwrap().fired), ["a 251", "a 302"]);
    assert_eq!(operator.metrics().timers, 0);
}

/// Keys of eight bits count 128 values, those of one dictionary; this call has 300 in three.
#[test]
fn dictionaries_that_are_too_many_for_one_result() {
    let part = |from: usize| {
        let texts: Vec<String> = (from..from + 100).map(|number| format!("k{number}")).collect();
        let keys: DictionaryArray<Int8Type> = texts.iter().map(String::as_str).collect();
        let times = Arc::new(Int64Array::from(vec![1; 100])) as ArrayRef;
        RecordBatch::try_from_iter([("ts", times), ("key", Arc::new(keys) as _)]).unwrap()
    };
    let parts = [0, 100, 200].map(|from| (0, part(from)));
    let mut operator = deduplicate(over(part(0).schema()).key("key")).within(MS(5)).build().unwrap();
    let before = counted(operator.metrics());
    let message = "process: the rows of this call that pass have more values in column \"key\" than a Dictionary(Int8, Utf8) \
                   can count; push fewer batches at a time, or give the column wider keys";
    assert_eq!(said(operator.push_all(&parts)), message);
    assert_eq!(counted(operator.metrics()), before);
    for (partition, part) in &parts {
        assert_eq!(operator.push(*partition, part).unwrap().fired[0].num_rows(), 100);
    }
}
