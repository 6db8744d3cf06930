//! What a user can see of the operator beyond its results: errors that change nothing, limits, rows handed back, keys of all
//! types, memory that is given back.
#![expect(clippy::unwrap_used, reason = "a test that panics has found something")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    FixedSizeBinaryArray, Float32Array, Int8Array, Int64Array, LargeStringArray, RecordBatch, StringArray,
    StringViewArray, TimestampMillisecondArray, TimestampSecondArray, UInt64Array,
};
use arrow_schema::{DataType, TimeUnit};
use highwater::watermark::{END, NONE, WatermarkStrategy};
use highwater::{
    Aggregate, Error, FutureGuard, LATE_WATERMARK, Limits, NullPolicy, Output, TimeDelta, Window,
    WindowOperator, WindowOperatorBuilder,
};

const MS: fn(i64) -> TimeDelta = TimeDelta::from_millis;

fn batch(times: &[Option<i64>], key: ArrayRef, values: &[i64]) -> RecordBatch {
    RecordBatch::try_from_iter([
        ("ts", Arc::new(TimestampMillisecondArray::from(times.to_vec())) as ArrayRef),
        ("key", key),
        ("value", Arc::new(Int64Array::from(values.to_vec())) as ArrayRef),
    ])
    .unwrap()
}

fn rows(rows: &[(i64, &str, i64)]) -> RecordBatch {
    let times: Vec<_> = rows.iter().map(|row| Some(row.0)).collect();
    let keys = StringArray::from_iter_values(rows.iter().map(|row| row.1).collect::<Vec<_>>());
    batch(&times, Arc::new(keys), &rows.iter().map(|row| row.2).collect::<Vec<_>>())
}

/// Tumbling windows of 10 ms, ascending times, count and sum.
fn builder(batch: &RecordBatch) -> WindowOperatorBuilder {
    WindowOperator::builder(batch.schema())
        .event_time("ts")
        .key("key")
        .window(Window::tumbling(MS(10)))
        .watermark(WatermarkStrategy::ascending())
        .aggregate(Aggregate::count_all())
        .aggregate(Aggregate::sum("value").alias("sum"))
}

/// `(start, key, sum)` of everything fired.
fn sums(output: &Output) -> Vec<(i64, String, i64)> {
    let mut all = vec![];
    for batch in &output.fired {
        let keys = batch.column(0).as_string::<i32>();
        let starts = batch["window_start"].as_primitive::<TimestampMillisecondType>();
        let sums = batch["sum"].as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            all.push((starts.value(row), keys.value(row).to_string(), sums.value(row)));
        }
    }
    all
}

#[test]
fn a_null_time_is_an_error_that_names_the_row_and_changes_nothing() {
    let good = rows(&[(1, "a", 1), (2, "b", 2)]);
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "a", "a"]));
    let bad = batch(&[Some(30), None, Some(31)], keys, &[1, 1, 1]);
    let mut operator = builder(&good).null_policy(NullPolicy::Error).build().unwrap();
    assert!(operator.push(0, &good).unwrap().is_empty());
    let before = operator.metrics();
    let error = operator.push(0, &bad).unwrap_err();
    assert_eq!(error, Error::NullEventTime { column: "ts".into(), partition: 0, row: 1 });
    // one bad batch, and none of the call is taken; of several it is told which
    assert_eq!(operator.push_all(&[(0, bad.clone())]).unwrap_err(), error);
    let at = Error::At { place: "batch 1".into(), error: Box::new(error) };
    assert_eq!(operator.push_all(&[(0, good.clone()), (0, bad)]).unwrap_err(), at);
    assert_eq!(operator.metrics(), before);
    assert_eq!(operator.current_watermark(), 1);
}

#[test]
fn a_sum_that_does_not_fit_names_window_and_key_and_the_call_can_be_made_again() {
    let big = rows(&[(1, "a", i64::MAX), (2, "b", 5)]);
    let mut operator = builder(&big).build().unwrap();
    assert!(operator.push(0, &big).unwrap().is_empty());
    // i64::MAX + 7 does not fit; the window [0, 10) is due at 20
    let overflow = rows(&[(3, "a", 7), (20, "a", 1)]);
    let before = operator.metrics();
    let error = operator.push(0, &overflow).unwrap_err().to_string();
    assert!(error.contains("[0, 10)") && error.contains("key=\"a\"") && error.contains("sum"), "{error}");
    assert_eq!(operator.metrics().total, before.total);
    // MAX + 7 - 7 fits: only the result is checked, not the way to it
    let output = operator.push(0, &rows(&[(3, "a", 7), (3, "a", -7), (20, "a", 1)])).unwrap();
    assert_eq!(sums(&output), [(0, "a".into(), i64::MAX), (0, "b".into(), 5)]);
    operator.validate();
}

#[test]
fn max_by_chooses_among_the_rows_of_all_partitions() {
    // Arrival c, d, e, f, a, b; partition 0 comes first when partitions are merged, but a did not arrive first.
    let second = rows(&[(3, "c", 9), (3, "d", 9), (14, "e", 7), (15, "f", 1)]);
    let first = rows(&[(3, "a", 9), (12, "b", 9)]);
    let mut operator = WindowOperator::builder(first.schema())
        .event_time("ts")
        .window(Window::sliding(MS(20), MS(10)))
        .watermark(WatermarkStrategy::ascending())
        .allowed_lateness(MS(100))
        .partitions(2)
        .aggregate(Aggregate::max_by("key", "value"))
        .aggregate(Aggregate::min_by("key", "value").alias("least"))
        .aggregate(Aggregate::max_by("value", "ts").alias("newest"))
        .build()
        .unwrap();
    let chosen = |output: &Output| {
        let row = |batch: &RecordBatch, row: usize| {
            let start = batch["window_start"].as_primitive::<TimestampMillisecondType>().value(row);
            let key = |name: &str| batch[name].as_string::<i32>().value(row).to_string();
            let newest = batch["newest"].as_primitive::<Int64Type>().value(row);
            (start, key("max_by(key,value)") + &key("least"), newest)
        };
        let rows = |batch: &RecordBatch| (0..batch.num_rows()).map(|i| row(batch, i)).collect::<Vec<_>>();
        output.fired.iter().flat_map(rows).collect::<Vec<_>>()
    };
    assert!(operator.push(1, &second).unwrap().is_empty());
    // Watermark 11 fires [-10, 10): a, c and d at time 3, all with 9.
    assert_eq!(chosen(&operator.push(0, &first).unwrap()), [(-10, "cc".into(), 9)]);
    // Watermark 20 fires [0, 20), where b has 9 too, but at 12.
    assert!(operator.push(1, &rows(&[(21, "g", 2)])).unwrap().is_empty());
    let fired = chosen(&operator.push(0, &rows(&[(21, "h", 3)])).unwrap());
    assert_eq!(fired, [(0, "cf".into(), 1)]);
    // A late row at time 2 comes before c in [-10, 10) and [0, 20).
    let late = chosen(&operator.push(0, &rows(&[(2, "i", 9)])).unwrap());
    assert_eq!(late, [(-10, "ii".into(), 9), (0, "if".into(), 1)]);
    // [10, 30): b with 9, f with 1, and of g and h at 21 g arrived first; [20, 40): h with 3, g with 2.
    let rest = chosen(&operator.finish().unwrap());
    assert_eq!(rest, [(10, "bf".into(), 2), (20, "hg".into(), 2)]);
    operator.validate();
}

#[test]
fn max_by_says_which_of_its_columns_is_wrong() {
    let some = rows(&[(1, "a", 1)]);
    let refused = |aggregate| builder(&some).aggregate(aggregate).build().unwrap_err();
    assert_eq!(
        refused(Aggregate::max_by("key", "cost")),
        Error::UnknownColumn {
            parameter: "max_by(key,cost)".into(),
            column: "cost".into(),
            available: "ts, key, value".into(),
        }
    );
    assert_eq!(
        refused(Aggregate::min_by("value", "key").alias("least")),
        Error::ColumnType {
            parameter: "least".into(),
            column: "key".into(),
            given: "Utf8".into(),
            allowed: "numbers, dates, times, timestamps, durations and dictionaries of these".into(),
        }
    );
}

#[test]
fn limits_are_errors_and_the_call_does_nothing() {
    let first = rows(&[(1, "a", 1), (2, "b", 1)]);
    let limits = Limits { max_keys: 3, max_open_slices: 2, ..Limits::default() };
    let mut operator = builder(&first).limits(limits).build().unwrap();
    assert!(operator.push(0, &first).unwrap().is_empty());
    let before = operator.metrics();
    let error = operator.push(0, &rows(&[(3, "c", 1), (4, "d", 1)])).unwrap_err();
    assert_eq!(error, Error::LimitReached { limit: "max_keys", needed: 4, allowed: 3 });
    assert_eq!(operator.metrics().total, before.total);
    assert_eq!((operator.metrics().keys, operator.metrics().open_slices), (2, 1));
    // a third key fits, and firing makes room: [0, 10) goes at 20
    assert!(operator.push(0, &rows(&[(3, "c", 1)])).unwrap().is_empty());
    assert_eq!(operator.push(0, &rows(&[(25, "d", 1)])).unwrap().fired[0].num_rows(), 3);

    let limits = Limits { max_open_slices: 2, ..Limits::default() };
    let slow =
        |limits| builder(&first).watermark(WatermarkStrategy::explicit()).limits(limits).build().unwrap();
    let error = slow(limits).push(0, &rows(&[(1, "a", 1), (11, "a", 1), (21, "a", 1)])).unwrap_err();
    assert_eq!(error, Error::LimitReached { limit: "max_open_slices", needed: 3, allowed: 2 });

    let limits = Limits { max_state_bytes: 20_000, ..Limits::default() };
    let mut operator = slow(limits);
    let wide: Vec<String> = (0..500).map(|i| format!("a key of some length {i}")).collect();
    let many: Vec<_> = wide.iter().map(|key| (1, key.as_str(), 1)).collect();
    assert!(operator.push(0, &rows(&many[..1])).unwrap().is_empty());
    let error = operator.push(0, &rows(&many)).unwrap_err();
    assert!(
        matches!(error, Error::LimitReached { limit: "max_state_bytes", allowed: 20_000, .. }),
        "{error}"
    );
    assert_eq!(operator.metrics().keys, 1);
}

#[test]
fn wrong_calls_are_told_what_was_expected() {
    let first = rows(&[(1, "a", 1)]);
    let mut operator = builder(&first).partitions(2).build().unwrap();
    let error = operator.push(2, &first).unwrap_err().to_string();
    assert_eq!(error, "partition 2 does not exist: the operator was built with 2 (0 to 1)");
    let error = operator.advance_watermark(0, 5).unwrap_err().to_string();
    assert!(error.contains("WatermarkStrategy::explicit"), "{error}");
    let other = first.project(&[0, 1]).unwrap();
    let error = operator.push(0, &other).unwrap_err().to_string();
    assert_eq!(error, "batch schema differs at column 2: given nothing, built for \"value\" Int64");
    let guarded = builder(&first).future_guard(FutureGuard::clock(MS(5))).build();
    assert_eq!(guarded.unwrap().push(0, &first).unwrap_err(), Error::ClockNotSet);
}

#[test]
fn specifications_are_refused_in_words() {
    let first = rows(&[(1, "a", 1)]);
    let refused = |builder: WindowOperatorBuilder| builder.build().unwrap_err().to_string();
    let text = refused(builder(&first).key("nobody"));
    assert_eq!(text, "key: no column \"nobody\"; the schema has ts, key, value");
    let text = refused(builder(&first).event_time("key"));
    assert!(text.contains("column \"key\" is Utf8") && text.contains("Timestamp"), "{text}");
    let text = refused(builder(&first).window(Window::tumbling(TimeDelta::from_micros(1_500))));
    assert!(text.contains("1ms500us") && text.contains("millisecond"), "{text}");
    let text = refused(builder(&first).allowed_lateness(MS(-1)));
    assert!(text.starts_with("allowed_lateness: -1ms"), "{text}");
    let text = refused(builder(&first).aggregate(Aggregate::sum("key")));
    assert!(text.contains("\"key\"") && text.contains("Utf8") && text.contains("integers"), "{text}");
    let text = refused(builder(&first).aggregate(Aggregate::count_all()));
    assert!(text.contains("\"count\""), "two columns of one name: {text}");
    let text = refused(builder(&first).idle_timeout(TimeDelta::ZERO));
    assert!(text.contains("0"), "{text}");
    for given in [0, (1 << 20) + 1, usize::MAX] {
        let text = refused(builder(&first).partitions(given));
        assert_eq!(text, format!("partitions: {given} is not allowed: one to 1048576"));
    }
    for given in [0, 4_097, usize::MAX] {
        let text = refused(builder(&first).threads(given));
        assert_eq!(text, format!("threads: {given} is not allowed: one to 4096"));
    }
    assert!(refused(WindowOperator::builder(first.schema())).starts_with("event_time"));
}

#[test]
fn late_rows_come_back_with_the_watermark_they_lost_to() {
    let first = rows(&[(5, "a", 1), (12, "a", 2), (3, "b", 4), (25, "a", 8), (13, "b", 16)]);
    let mut operator = builder(&first).build().unwrap();
    let output = operator.push(0, &first).unwrap();
    // 12 moves the watermark to 11, past [0, 10): 3 is dropped. 25 moves it to 24: 13 is dropped.
    assert_eq!(sums(&output), [(0, "a".into(), 1), (10, "a".into(), 2)]);
    let late = &output.late[0];
    assert_eq!(late["ts"].as_primitive::<TimestampMillisecondType>().values(), &[3, 13]);
    assert_eq!(late[LATE_WATERMARK].as_primitive::<TimestampMillisecondType>().values(), &[11, 24]);
    assert_eq!(late.schema(), operator.late_schema());
    assert_eq!(output.fired[0].schema(), operator.output_schema());
    let total = operator.metrics().total;
    assert_eq!((total.rows_in, total.taken, total.dropped_late), (5, 3, 2));
}

#[test]
fn the_partition_that_holds_back_is_named() {
    let first = rows(&[(100, "a", 1)]);
    let mut operator = builder(&first).partitions(3).alignment([0, 1, 2], MS(50)).build().unwrap();
    for (partition, time) in [(0, 100), (1, 90), (2, 20)] {
        let _ = operator.push(partition, &rows(&[(time, "a", 1)])).unwrap();
    }
    assert_eq!((operator.current_watermark(), operator.holding_back()), (19, Some(2)));
    // 99 - 19 and 89 - 19 exceed 50
    assert_eq!(operator.paused(), [0, 1]);
    let output = operator.mark_idle(2).unwrap();
    assert_eq!((operator.current_watermark(), operator.holding_back()), (89, Some(1)));
    assert_eq!(sums(&output), [(20, "a".into(), 1)]);
    let _ = operator.finish().unwrap();
    assert_eq!((operator.current_watermark(), operator.holding_back()), (END, None));
}

#[test]
fn idle_partitions_need_only_the_injected_clock() {
    let first = rows(&[(100, "a", 1)]);
    let mut operator = builder(&first).partitions(2).idle_timeout(MS(1_000)).build().unwrap();
    assert!(operator.advance_clock(0).unwrap().is_empty());
    assert!(operator.push(0, &first).unwrap().is_empty());
    assert!(operator.advance_clock(1_000).unwrap().is_empty());
    assert_eq!(operator.current_watermark(), NONE);
    // strictly more than the timeout: both go, and the watermark moves to the maximum
    assert!(operator.advance_clock(1_001).unwrap().is_empty());
    assert_eq!(operator.current_watermark(), 99);
}

/// Every key type: three rows of two keys and a null, in an order that shows which is which.
#[test]
fn keys_of_every_type_come_out_as_they_went_in() {
    let texts = vec![Some("x"), None, Some("y"), Some("x")];
    let dictionary: DictionaryArray<Int32Type> = texts.clone().into_iter().collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int8Array::from(vec![Some(-1), None, Some(7), Some(-1)])),
        Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(0), Some(u64::MAX)])),
        Arc::new(Float32Array::from(vec![Some(1.5), None, Some(f32::INFINITY), Some(1.5)])),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)])),
        Arc::new(StringArray::from(texts.clone())),
        Arc::new(LargeStringArray::from(texts.clone())),
        Arc::new(StringViewArray::from(texts.clone())),
        Arc::new(BinaryArray::from(vec![Some(&b"x"[..]), None, Some(b""), Some(b"x")])),
        Arc::new(Date32Array::from(vec![Some(-5), None, Some(19_000), Some(-5)])),
        Arc::new(TimestampSecondArray::from(vec![Some(1), None, Some(-1), Some(1)]).with_timezone("+02:00")),
        Arc::new(
            Decimal128Array::from(vec![Some(12_345), None, Some(-1), Some(12_345)])
                .with_precision_and_scale(30, 2)
                .unwrap(),
        ),
        Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                vec![Some([1u8, 2]), None, Some([3, 4]), Some([1, 2])].into_iter(),
                2,
            )
            .unwrap(),
        ),
    ];
    for column in &columns {
        check_key(column, column);
    }
    check_key(&(Arc::new(dictionary) as ArrayRef), &(Arc::new(StringArray::from(texts)) as ArrayRef));
}

fn check_key(column: &ArrayRef, expected: &ArrayRef) {
    let times = [Some(1), Some(2), Some(3), Some(4)];
    let whole = batch(&times, column.clone(), &[1, 2, 4, 8]);
    // once as it is, once as a slice of something longer, for offsets are easily forgotten
    let longer = arrow_select::concat::concat_batches(&whole.schema(), [&whole, &whole, &whole]).unwrap();
    for input in [whole.clone(), longer.slice(4, 4)] {
        let mut operator = builder(&whole).build().unwrap();
        assert!(operator.push(0, &input).unwrap().is_empty());
        let fired = &operator.finish().unwrap().fired[0];
        let what = column.data_type();
        assert_eq!(fired["sum"].as_primitive::<Int64Type>().values(), &[9, 2, 4], "{what}");
        assert_eq!(fired.column(0).as_ref(), expected.slice(0, 3).as_ref(), "{what}");
        assert_eq!(fired.column(0).data_type(), expected.data_type());
    }
}

#[test]
fn results_can_be_sorted_by_key() {
    let first = rows(&[(1, "b", 1), (2, "c", 2), (3, "a", 4), (11, "b", 8), (12, "a", 16)]);
    let mut operator = builder(&first).sort_by_key(true).build().unwrap();
    let mut all = sums(&operator.push(0, &first).unwrap());
    all.extend(sums(&operator.finish().unwrap()));
    let expected = [(0, "a", 4), (0, "b", 1), (0, "c", 2), (10, "a", 16), (10, "b", 8)];
    assert_eq!(all, expected.map(|(start, key, sum)| (start, key.to_string(), sum)));
}

/// A million keys that are each seen once: what is held must follow what is open, not what has been.
#[test]
fn keys_of_expired_windows_are_forgotten() {
    let key = |i: i64| format!("request-{i:012}");
    let batch_of = |from: i64| {
        let keys: Vec<String> = (from..from + 10_000).map(key).collect();
        rows(
            &keys
                .iter()
                .enumerate()
                .map(|(i, key)| ((from + i as i64) / 100, key.as_str(), 1))
                .collect::<Vec<_>>(),
        )
    };
    let mut operator = builder(&batch_of(0)).partitions(2).build().unwrap();
    let (mut results, mut highest) = (0, 0);
    for number in 0..100 {
        // both partitions, so that lanes and the numbers of lane 0 are swept too
        let output = operator.push(number as usize % 2, &batch_of(number * 10_000)).unwrap();
        results += output.fired.iter().map(|batch| batch.num_rows()).sum::<usize>();
        highest = highest.max(operator.metrics().state_bytes);
        operator.validate();
    }
    results += operator.finish().unwrap().fired.iter().map(|batch| batch.num_rows()).sum::<usize>();
    assert_eq!(results as u64, operator.metrics().total.taken);
    // a million keys of 20 bytes alone are 20 MB for each lane; two windows and a sweep's slack are far less
    assert!(highest < 40_000_000, "{highest} bytes");
    assert!(operator.metrics().keys == 0 && operator.metrics().open_slices == 0);
}

/// Keys that come little by little: what is held beside the accumulators, and the room that they have to spare.
#[test]
fn a_key_and_slice_take_less_than_twice_their_accumulators() {
    const WINDOWS: i64 = 3;
    for keys in [1_000, 3_000, 10_000] {
        let batch_of = |row: i64| {
            // the next 50 keys at a time, in each of the windows
            let times: Vec<_> = (0..50 * WINDOWS).map(|i| Some(10 * (i % WINDOWS))).collect();
            let keys = Int64Array::from_iter_values((0..50 * WINDOWS).map(|i| 7 * (row + i / WINDOWS)));
            batch(&times, Arc::new(keys), &[1; 50 * WINDOWS as usize])
        };
        let mut operator = builder(&batch_of(0))
            .aggregate(Aggregate::count("value"))
            .aggregate(Aggregate::min("value"))
            .aggregate(Aggregate::max("value"))
            .watermark(WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_secs(60)))
            .build()
            .unwrap();
        for row in (0..keys).step_by(50) {
            assert!(operator.push(0, &batch_of(row)).unwrap().is_empty());
        }
        let metrics = operator.metrics();
        assert_eq!(metrics.keys as i64, keys * WINDOWS);
        // a count of 8 bytes, a sum of 16 that begins at a multiple of 16, and two extremes of 8
        let accumulators = 48 * metrics.keys;
        assert!(metrics.state_bytes < 2 * accumulators, "{} for {accumulators} bytes", metrics.state_bytes);
    }
}

/// Windows with more keys than what makes a table worth keeping, each with a fifth of its keys new: what a table has held
/// before must not show in the next window that has its memory.
#[test]
fn large_tables_are_used_again_and_nothing_of_them_is_left() {
    const KEYS: i64 = 5_000;
    let batch_of = |window: i64, partition: i64| {
        let times: Vec<_> = (0..KEYS).map(|row| Some(window * 10 + row * 10 / KEYS)).collect();
        let keys = Int64Array::from_iter_values((0..KEYS).map(|row| 1_000 * (window + row) + window));
        let values: Vec<_> = (0..KEYS).map(|row| row + 100 * partition).collect();
        batch(&times, Arc::new(keys), &values)
    };
    for partitions in [1, 3] {
        let mut operator = builder(&batch_of(0, 0)).partitions(partitions as usize).build().unwrap();
        let mut fired = Vec::new();
        for window in 0..8 {
            for partition in 0..partitions {
                let output = operator.push(partition as usize, &batch_of(window, partition)).unwrap();
                fired.extend(output.fired);
                operator.validate();
            }
        }
        fired.extend(operator.finish().unwrap().fired);
        let mut got = Vec::new();
        for batch in &fired {
            let keys = batch["key"].as_primitive::<Int64Type>().values();
            let starts = batch["window_start"].as_primitive::<TimestampMillisecondType>().values();
            let counts = batch["count"].as_primitive::<Int64Type>().values();
            let sums = batch["sum"].as_primitive::<Int64Type>().values();
            got.extend((0..batch.num_rows()).map(|row| (starts[row], keys[row], counts[row], sums[row])));
        }
        // each partition has each key of a window once: row + 100 * partition, for partitions 0, 1, 2
        let of_partitions = 100 * partitions * (partitions - 1) / 2;
        let row = |window, row| {
            (10 * window, 1_000 * (window + row) + window, partitions, partitions * row + of_partitions)
        };
        let expected: Vec<_> =
            (0..8).flat_map(|window| (0..KEYS).map(move |number| row(window, number))).collect();
        assert_eq!(got.len(), expected.len());
        assert!(got == expected, "{partitions} partitions");
    }
}

#[test]
fn an_int64_time_has_the_unit_that_is_declared() {
    let times: ArrayRef = Arc::new(Int64Array::from(vec![0, 59, 60]));
    let input = RecordBatch::try_from_iter([("at", times)]).unwrap();
    let mut operator = WindowOperator::builder(input.schema())
        .event_time("at")
        .event_time_unit(TimeUnit::Second)
        .window(Window::tumbling(TimeDelta::from_mins(1)))
        .watermark(WatermarkStrategy::ascending())
        .aggregate(Aggregate::count_all())
        .build()
        .unwrap();
    let output = operator.push(0, &input).unwrap();
    assert_eq!(output.fired[0]["window_end"].as_primitive::<Int64Type>().values(), &[60]);
    assert_eq!(output.fired[0]["count"].as_primitive::<Int64Type>().values(), &[2]);
    assert_eq!(output.fired[0]["count"].data_type(), &DataType::Int64);
}

#[test]
fn nulls_where_none_were_announced_are_refused_before_anything_happens() {
    let announced = rows(&[(5, "a", 1)]);
    let mut operator = builder(&announced).build().unwrap();
    assert!(!announced.schema().field(2).is_nullable());
    let columns =
        [announced.columns()[..2].to_vec(), vec![Arc::new(Int64Array::from(vec![None])) as ArrayRef]];
    let names = ["ts", "key", "value"];
    let fields = names.into_iter().zip(columns.concat()).map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(fields).unwrap();
    let error = operator.push(0, &batch).unwrap_err().to_string();
    assert!(error.contains("\"value\" Int64 with 1 nulls") && error.contains("without nulls"), "{error}");
    assert_eq!(operator.metrics().total.rows_in, 0);
}
