//! Snapshots as a user sees them: what is in the file, what comes back, and every way in which it can be refused.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has found something")]

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt8Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StructArray,
    TimestampMillisecondArray,
};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::DataType;
use highwater::watermark::{Cadence, NONE, PartitionStatus, WatermarkGenerator, WatermarkStrategy};
use highwater::{
    Aggregate, AggregateFunction, Error, FutureGuard, LateFiring, Limits, NullPolicy, RowPosition,
    SnapshotFault, TimeDelta, Window, WindowOperator, WindowOperatorBuilder,
};

const MS: fn(i64) -> TimeDelta = TimeDelta::from_millis;

/// Time, tenant, amount.
type Row<'a> = (i64, Option<&'a str>, f64);

fn rows(rows: &[Row<'_>]) -> RecordBatch {
    let times = TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.0));
    let keys = StringArray::from_iter(rows.iter().map(|row| row.1));
    let values = Float64Array::from_iter_values(rows.iter().map(|row| row.2));
    RecordBatch::try_from_iter_with_nullable([
        ("ts", Arc::new(times) as ArrayRef, false),
        ("tenant", Arc::new(keys), true),
        ("usd", Arc::new(values), false),
    ])
    .unwrap()
}

/// Windows of 10 ms, kept for 10 ms more.
fn builder() -> WindowOperatorBuilder {
    WindowOperator::builder(rows(&[]).schema())
        .event_time("ts")
        .key("tenant")
        .window(Window::tumbling(MS(10)))
        .watermark(WatermarkStrategy::ascending())
        .allowed_lateness(MS(10))
        .aggregate(Aggregate::sum("usd").alias("cost"))
        .aggregate(Aggregate::count_all())
        .aggregate(Aggregate::quantile("usd", 0.5))
}

fn some_rows() -> RecordBatch {
    rows(&[(1, Some("acme"), 0.5), (2, None, 1.0), (9, Some("acme"), 0.25), (14, Some("globex"), 2.0)])
}

/// An operator of two partitions that has fired its first window, and holds it for late rows.
fn operator() -> WindowOperator {
    let mut operator = builder().partitions(2).build().unwrap();
    let _ = operator.push(0, &some_rows()).unwrap();
    let _ = operator.push(1, &rows(&[(12, Some("acme"), 4.0)])).unwrap();
    operator
}

fn fault(error: &Error) -> SnapshotFault {
    match error {
        Error::Snapshot { fault, .. } => *fault,
        other => panic!("not an error of snapshots: {other}"),
    }
}

fn refused(builder: WindowOperatorBuilder, snapshot: &[u8]) -> (SnapshotFault, String) {
    let error = builder.restore(snapshot).unwrap_err();
    (fault(&error), error.to_string())
}

/// The structs of a section, over all rows of the file.
fn section(batches: &[RecordBatch], name: &str) -> StructArray {
    let lists = batches.iter().map(|batch| batch[name].as_list::<i64>().values().clone());
    let lists: Vec<ArrayRef> = lists.filter(|list| !list.is_empty()).collect();
    let lists: Vec<&dyn Array> = lists.iter().map(|list| list.as_ref()).collect();
    arrow_select::concat::concat(&lists).unwrap().as_struct().clone()
}

#[test]
fn any_reader_of_arrow_sees_what_is_held() {
    let snapshot = operator().snapshot().unwrap();
    let reader = FileReader::try_new(Cursor::new(&snapshot), None).unwrap();
    let metadata = reader.schema().metadata().clone();
    assert_eq!(metadata["highwater.format"], "highwater snapshot");
    assert_eq!(metadata["highwater.version"], "1");
    assert!(metadata["highwater.configuration"].lines().any(|line| line == "window: tumbling 10ms"));
    assert_eq!(reader.custom_metadata()["highwater.checksum"].len(), 8);
    let batches: Vec<_> = reader.collect::<Result<_, _>>().unwrap();

    let input = section(&batches, "input");
    assert_eq!(input["watermark"].as_primitive::<Int64Type>().value(0), 11);
    assert_eq!(input["arrivals"].as_primitive::<UInt64Type>().value(0), 5);
    assert!(input["clock"].is_null(0));
    let partitions = section(&batches, "partitions");
    assert_eq!(partitions["watermark"].as_primitive::<Int64Type>().values(), &[13, 11]);
    assert_eq!(partitions["status"].as_string::<i64>().value(1), "active");
    assert_eq!(partitions["taken"].as_primitive::<UInt64Type>().values(), &[4, 1]);
    assert_eq!(section(&batches, "fired")["windows_fired"].as_primitive::<UInt64Type>().values(), &[1]);

    // [10, 20) is open in both lanes; [0, 10) has fired, so its lanes are one
    let slices = section(&batches, "slices");
    let lanes: Vec<_> = slices["lane"].as_primitive::<UInt8Type>().iter().collect();
    assert_eq!(lanes, [Some(0), Some(1), None]);
    assert_eq!(slices["start"].as_primitive::<Int64Type>().values(), &[10, 10, 0]);
    let slots = slices["slots"].as_list::<i64>().value(2);
    let key = &slots.as_struct()["key"].as_struct()["tenant"];
    assert_eq!(key.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("acme"), None]);
    let state = slots.as_struct()["state"].as_struct();
    assert_eq!(state.column_names(), ["cost, count", "quantile(usd,0.5)"]);
    let cost = state["cost, count"].as_struct();
    assert_eq!(cost["count"].as_primitive::<UInt64Type>().values(), &[2, 1]);
    assert_eq!(cost["sum"].as_ref(), &Float64Array::from(vec![0.75, 1.0]) as &dyn Array);
}

#[test]
fn what_has_fired_does_not_fire_again_and_late_rows_find_their_window() {
    let mut never = operator();
    let mut restored = builder().partitions(2).threads(2).restore(&never.snapshot().unwrap()).unwrap();
    let calls: [(usize, &[Row<'_>]); 4] = [
        (0, &[(3, Some("acme"), 0.125), (15, Some("acme"), 8.0)]),
        (1, &[(5, None, 1.0), (25, Some("new"), 1.0)]),
        (0, &[(30, Some("acme"), 1.0), (4, Some("acme"), 1.0)]),
        (1, &[(31, None, -0.0)]),
    ];
    for (partition, batch) in calls {
        let (one, other) = (never.push(partition, &rows(batch)), restored.push(partition, &rows(batch)));
        assert_eq!(format!("{:?}", other.unwrap()), format!("{:?}", one.unwrap()));
        restored.validate();
    }
    assert_eq!(format!("{:?}", restored.finish()), format!("{:?}", never.finish()));
    assert_eq!(restored.snapshot(), never.snapshot());
}

/// More keys than a piece of the file has, in several lanes and slices, and a dictionary long enough to be forgotten.
#[test]
fn many_keys_in_many_pieces_come_back_in_their_order() {
    let build = || builder().partitions(3).window(Window::sliding(MS(30), MS(10)));
    let mut never = build().build().unwrap();
    let keys: Vec<String> = (0..40_000).map(|number| format!("tenant {}", number * 7_919 % 40_000)).collect();
    for (partition, step) in [(0, 1), (1, 3), (2, 2)] {
        let batch = |from: i64| {
            let row = |(number, key): (usize, &String)| {
                (from + number as i64 % 20, key.clone(), number as f64 / 3.0)
            };
            let all: Vec<_> = keys.iter().enumerate().step_by(step).map(row).collect();
            let mut all: Vec<_> =
                all.iter().map(|(time, key, usd)| (*time, Some(key.as_str()), *usd)).collect();
            all.sort_by_key(|row| row.0);
            rows(&all)
        };
        let _ = never.push(partition, &batch(0)).unwrap();
        let _ = never.push(partition, &batch(35)).unwrap();
    }
    let snapshot = never.snapshot().unwrap();
    let batches = FileReader::try_new(Cursor::new(&snapshot), None).unwrap();
    let slices = section(&batches.collect::<Result<Vec<_>, _>>().unwrap(), "slices");
    let starts = slices["start"].as_primitive::<Int64Type>();
    assert!(starts.values().windows(2).any(|two| two[0] == two[1]), "one is in two parts: {starts:?}");
    let mut restored = build().restore(&snapshot).unwrap();
    restored.validate();
    assert_eq!(restored.snapshot().unwrap(), snapshot);
    assert_eq!(format!("{:?}", restored.finish()), format!("{:?}", never.finish()));
}

#[test]
fn every_bit_counts() {
    let snapshot = operator().snapshot().unwrap();
    let build = || builder().partitions(2);
    assert!(build().restore(&snapshot).is_ok());
    for length in 0..snapshot.len() {
        let (fault, message) = refused(build(), &snapshot[..length]);
        let expected = if length < 6 { SnapshotFault::Foreign } else { SnapshotFault::Damaged };
        assert_eq!(fault, expected, "cut after {length}: {message}");
    }
    // the bytes of one word of each eight, and all of the footer
    let mut foreign = 0;
    for bit in (0..8 * snapshot.len()).filter(|bit| bit % 61 == 0 || bit / 8 > snapshot.len() - 200) {
        let mut flipped = snapshot.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (fault, message) = refused(build(), &flipped);
        foreign += usize::from(fault == SnapshotFault::Foreign);
        assert!(matches!(fault, SnapshotFault::Damaged | SnapshotFault::Foreign), "bit {bit}: {message}");
    }
    assert!(foreign < 200, "{foreign} flips were taken for other files");
    let mut longer = snapshot.clone();
    longer.push(0);
    assert_eq!(refused(build(), &longer).0, SnapshotFault::Damaged);
}

#[test]
fn other_files_are_told_from_damaged_ones() {
    let (fault, message) = refused(builder(), b"PAR1 and so on");
    assert_eq!(fault, SnapshotFault::Foreign);
    assert_eq!(message, "snapshot: not a snapshot: 14 bytes that begin with \"PAR1 and\"");
    assert_eq!(refused(builder(), b"").0, SnapshotFault::Foreign);
    let mut arrow = Vec::new();
    let mut writer = FileWriter::try_new(&mut arrow, &some_rows().schema()).unwrap();
    writer.write(&some_rows()).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let (fault, message) = refused(builder(), &arrow);
    assert_eq!(fault, SnapshotFault::Foreign);
    assert!(message.contains("Arrow file without \"highwater.checksum\""), "{message}");
}

#[test]
fn an_operator_built_otherwise_names_the_first_difference() {
    let snapshot = builder().build().unwrap().snapshot().unwrap();
    let b = builder;
    let other = || {
        let renamed = RecordBatch::try_from_iter([("ts", some_rows()["ts"].clone())]).unwrap();
        WindowOperator::builder(renamed.schema())
            .event_time("ts")
            .window(Window::tumbling(MS(10)))
            .watermark(WatermarkStrategy::ascending())
            .aggregate(Aggregate::count_all())
    };
    let cases = [
        (b().window(Window::tumbling(MS(20))), "window is tumbling 20ms here, but was tumbling 10ms when"),
        (b().window(Window::tumbling(MS(10)).offset(MS(3))), "window is tumbling 10ms, offset 3ms here"),
        (b().allowed_lateness(MS(11)), "allowed_lateness is 11ms here, but was 10ms"),
        (b().watermark(WatermarkStrategy::delay(MS(1))), "watermark is delay 1ms here, but was ascending"),
        (b().cadence(Cadence::EveryBatch), "cadence is every batch here, but was every row"),
        (b().late_firing(LateFiring::PerRow), "late_firing is PerRow here, but was Coalesced"),
        (b().null_policy(NullPolicy::Drop), "null_policy is Drop here, but was Reject"),
        (b().seed(7), "seed is 7 here, but was 0"),
        (b().key("usd"), "\"key 1: \"usd\"\" here, but \"watermark: ascending\" when"),
        (b().idle_timeout(MS(5)), "\"idle_timeout: 5ms\" here, but \"reactivation: WhenCaughtUp\" when"),
        (b().future_guard(FutureGuard::clock(MS(1))), "\"future_guard: 1ms past the clock\" here"),
        (
            b().aggregate(Aggregate::min("usd")),
            "\"aggregate 3: \"min(usd)\" = Min(\"usd\")\" here, but \"seed: 0\"",
        ),
        (other(), "\"event_time: \"ts\"\" here, but \"column 1: \"tenant\" Utf8\" when"),
        (b().partitions(2), "partitions is 2 here, but was 1 when the snapshot was taken"),
    ];
    for (builder, expected) in cases {
        let (fault, message) = refused(builder, &snapshot);
        assert_eq!(fault, SnapshotFault::Configuration);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn what_the_state_does_not_depend_on_may_change() {
    let snapshot = operator().snapshot().unwrap();
    let changed = builder().partitions(2).threads(2).firing_column(true).sort_by_key(true);
    let limits = Limits { max_keys: 3, ..Limits::default() };
    let mut restored = changed.alignment([0, 1], MS(1)).limits(limits).restore(&snapshot).unwrap();
    assert_eq!(restored.paused(), [0]);
    // two keys are held in the first window, one in each lane of the second
    let error = restored.push(0, &rows(&[(16, Some("new"), 1.0)])).unwrap_err();
    assert!(matches!(error, Error::LimitReached { limit: "max_keys", needed: 5, allowed: 3 }), "{error}");
}

#[test]
fn a_restored_sum_still_knows_how_large_it_can_be() {
    let batch = |ts: i64, value: i64| {
        let ts: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![ts]));
        RecordBatch::try_from_iter([("ts", ts), ("value", Arc::new(Int64Array::from(vec![value])) as _)])
            .unwrap()
    };
    let build = || {
        WindowOperator::builder(batch(0, 0).schema())
            .event_time("ts")
            .window(Window::tumbling(MS(10)))
            .watermark(WatermarkStrategy::ascending())
            .aggregate(Aggregate::sum("value"))
    };
    let mut operator = build().build().unwrap();
    let _ = operator.push(0, &batch(1, i64::MAX)).unwrap();
    let mut restored = build().restore(&operator.snapshot().unwrap()).unwrap();
    let _ = restored.push(0, &batch(2, 1)).unwrap();
    let before = restored.metrics();
    // the window does not fit, and the call that would have fired it has done nothing
    assert!(matches!(restored.push(0, &batch(20, 1)), Err(Error::Overflow { .. })));
    assert_eq!(restored.metrics(), before);
}

#[test]
fn a_writer_that_refuses_is_an_error_of_its_own() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("no space left"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let error = operator().snapshot_to(Full).unwrap_err();
    assert_eq!(fault(&error), SnapshotFault::Io);
    assert!(error.to_string().contains("no space left"), "{error}");
}

/// The longest text; its states are saved if it is asked to.
#[derive(Debug)]
struct Longest {
    saves: bool,
}

impl AggregateFunction for Longest {
    type State = String;
    fn return_type(&self, _: &DataType) -> Result<DataType, String> {
        Ok(DataType::Utf8)
    }
    fn create(&self) -> String {
        String::new()
    }
    fn add(&self, state: &mut String, input: &ArrayRef, row: usize, _: RowPosition) {
        self.merge(state, &input.as_string::<i32>().value(row).to_string());
    }
    fn merge(&self, state: &mut String, other: &String) {
        if other.len() > state.len() {
            state.clone_from(other);
        }
    }
    fn finish(&self, states: &[String]) -> Result<ArrayRef, String> {
        Ok(Arc::new(StringArray::from_iter_values(states)))
    }
    fn save(&self, states: &[String]) -> Result<ArrayRef, String> {
        if self.saves { self.finish(states) } else { Err("not today".into()) }
    }
    fn restore(&self, saved: &ArrayRef) -> Result<Vec<String>, String> {
        let states = saved.as_string_opt::<i32>().ok_or("texts were expected")?;
        Ok(states.iter().map(|state| state.unwrap_or_default().to_string()).collect())
    }
}

#[test]
fn a_users_function_is_saved_if_it_says_how() {
    let build = |saves| {
        WindowOperator::builder(rows(&[]).schema())
            .event_time("ts")
            .window(Window::tumbling(MS(10)))
            .watermark(WatermarkStrategy::ascending())
            .aggregate(Aggregate::custom("longest", Longest { saves }, "tenant"))
    };
    let mut operator = build(true).build().unwrap();
    let _ = operator.push(0, &rows(&[(1, Some("acme"), 0.0), (2, Some("globex"), 0.0)])).unwrap();
    let mut restored = build(true).restore(&operator.snapshot().unwrap()).unwrap();
    let output = restored.push(0, &rows(&[(3, Some("a"), 0.0), (10, None, 0.0)])).unwrap();
    assert_eq!(output.fired[0]["longest(tenant)"].as_string::<i32>().value(0), "globex");

    let error = build(false).build().unwrap().snapshot().unwrap_err();
    assert_eq!(fault(&error), SnapshotFault::Unsupported);
    assert_eq!(error.to_string(), "snapshot: aggregate longest(tenant): not today");
}

/// The highest time of every second row.
#[derive(Clone, Debug, Default)]
struct EverySecond {
    rows: u64,
    highest: Option<i64>,
}

impl WatermarkGenerator for EverySecond {
    fn on_event(&mut self, timestamp: i64, _: &RecordBatch, _: usize) {
        self.rows += 1;
        if self.rows.is_multiple_of(2) {
            self.highest = self.highest.max(Some(timestamp));
        }
    }
    fn watermark(&self) -> i64 {
        self.highest.unwrap_or(NONE)
    }
    fn boxed_clone(&self) -> Box<dyn WatermarkGenerator> {
        Box::new(self.clone())
    }
    fn save(&self) -> Result<Vec<u8>, String> {
        let highest = self.highest.map_or_else(Vec::new, |highest| highest.to_le_bytes().to_vec());
        Ok([self.rows.to_le_bytes().to_vec(), highest].concat())
    }
    fn restore(&mut self, saved: &[u8]) -> Result<(), String> {
        let (rows, highest) = saved.split_first_chunk().ok_or("a count of rows is missing")?;
        *self = EverySecond {
            rows: u64::from_le_bytes(*rows),
            highest: highest.first_chunk().map(|highest| i64::from_le_bytes(*highest)),
        };
        Ok(())
    }
}

#[test]
fn a_users_generator_is_saved_if_it_says_how() {
    #[derive(Clone, Debug)]
    struct Silent;
    impl WatermarkGenerator for Silent {
        fn on_event(&mut self, _: i64, _: &RecordBatch, _: usize) {}
        fn watermark(&self) -> i64 {
            NONE
        }
        fn boxed_clone(&self) -> Box<dyn WatermarkGenerator> {
            Box::new(self.clone())
        }
    }
    let build = || builder().watermark(WatermarkStrategy::custom(EverySecond::default()));
    let mut operator = build().build().unwrap();
    let _ = operator.push(0, &rows(&[(1, None, 0.0), (5, None, 0.0), (8, None, 0.0)])).unwrap();
    let mut restored = build().restore(&operator.snapshot().unwrap()).unwrap();
    assert_eq!(restored.current_watermark(), 5);
    let _ = restored.push(0, &rows(&[(7, None, 0.0)])).unwrap();
    assert_eq!(restored.current_watermark(), 7);

    let silent = builder().watermark(WatermarkStrategy::custom(Silent));
    let error = silent.build().unwrap().snapshot().unwrap_err();
    assert_eq!(fault(&error), SnapshotFault::Unsupported);
    assert!(error.to_string().contains("WatermarkGenerator::save is not implemented"), "{error}");
}

#[test]
fn partitions_dealt_anew_take_minima() {
    let mut operator = builder().partitions(3).idle_timeout(MS(100)).build().unwrap();
    let _ = operator.advance_clock(0).unwrap();
    for (partition, time) in [(0, 14), (1, 12), (2, 3)] {
        let _ = operator.push(partition, &rows(&[(time, Some("acme"), 1.0)])).unwrap();
    }
    // the third sleeps, so the minimum is that of the other two: 11, and [0, 10) has fired
    let _ = operator.mark_idle(2).unwrap();
    assert_eq!(operator.metrics().windows_fired, 1);
    let snapshot = operator.snapshot().unwrap();
    for partitions in [1, 2, 5] {
        let build = || builder().partitions(partitions).idle_timeout(MS(100));
        let mut dealt = build().restore_repartitioned(&snapshot).unwrap();
        dealt.validate();
        let metrics = dealt.metrics();
        assert_eq!(
            (metrics.watermark, metrics.windows_fired, metrics.keys),
            (11, 1, operator.metrics().keys.min(1 + partitions.min(2)))
        );
        for (number, partition) in metrics.partitions.iter().enumerate() {
            assert_eq!((partition.watermark, partition.status), (2, PartitionStatus::Active), "{number}");
            assert_eq!(partition.rows.taken, if number == 0 { 3 } else { 0 });
        }
        // they start behind, and the merged watermark waits for the first that has caught up
        let last = partitions - 1;
        assert!(dealt.push(last, &rows(&[(11, Some("acme"), 1.0)])).unwrap().is_empty());
        assert_eq!(dealt.current_watermark(), 11);
        let fired: Vec<_> =
            (0..partitions).map(|p| dealt.push(p, &rows(&[(30, None, 0.0)])).unwrap()).collect();
        let costs: Vec<_> = fired.iter().flat_map(|output| &output.fired).collect();
        // 14, 12 and 11 are in [10, 20); [0, 10) does not fire again
        assert_eq!(costs.len(), 1);
        assert_eq!(costs[0]["cost"].as_ref(), &Float64Array::from(vec![3.0]) as &dyn Array);
    }
}

#[test]
fn partitions_that_have_ended_stay_so() {
    let mut operator = builder().partitions(2).build().unwrap();
    let _ = operator.push(0, &some_rows()).unwrap();
    let _ = operator.finish().unwrap();
    let mut dealt = builder().partitions(3).restore_repartitioned(&operator.snapshot().unwrap()).unwrap();
    dealt.validate();
    assert_eq!(dealt.current_watermark(), i64::MAX);
    assert_eq!(dealt.push(2, &some_rows()).unwrap().late[0].num_rows(), 4);
}
