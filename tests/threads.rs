//! Threads and lanes: large tables of several partitions, of which many windows fire in one call.
#![expect(clippy::unwrap_used, reason = "a test that panics has found something")]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use highwater::watermark::WatermarkStrategy;
use highwater::{Aggregate, Output, TimeDelta, Window, WindowOperator, WindowOperatorBuilder};

const MS: fn(i64) -> TimeDelta = TimeDelta::from_millis;

const PARTITIONS: usize = 5;
const CALLS: usize = 3;
/// Of each partition in a call, so that the lanes of a window have some 30,000 keys together.
const ROWS: usize = 16_000;
const KEYS: u64 = 40_000;
/// Rows are no more than this out of order.
const JITTER: i64 = 300;

fn draw(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// A second of rows a call, of keys that `key` makes of numbers and null.
fn calls(key: impl Fn(Vec<Option<i64>>) -> ArrayRef) -> Vec<Vec<(usize, RecordBatch)>> {
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    let mut batch = |call: usize| {
        let time = |row: usize, seed: &mut u64| {
            (call * 1_000 + row * 1_000 / ROWS) as i64 + (draw(seed) % JITTER as u64) as i64
        };
        let times = (0..ROWS).map(|row| time(row, &mut seed)).collect::<Vec<_>>();
        let keys =
            (0..ROWS).map(|_| Some((draw(&mut seed) % KEYS) as i64 * 1_000_003).filter(|&key| key > 0));
        let keys = key(keys.collect());
        let values = (0..ROWS).map(|_| (draw(&mut seed) % 1_000) as f64 / 7.0).collect::<Vec<_>>();
        RecordBatch::try_from_iter_with_nullable([
            ("ts", Arc::new(TimestampMillisecondArray::from(times)) as ArrayRef, false),
            ("key", keys, true),
            ("value", Arc::new(Float64Array::from(values)) as ArrayRef, false),
        ])
        .unwrap()
    };
    (0..CALLS).map(|call| (0..PARTITIONS).map(|partition| (partition, batch(call))).collect()).collect()
}

fn numbers(keys: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from(keys))
}

fn strings(keys: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(StringArray::from_iter(keys.into_iter().map(|key| key.map(|key| format!("key {key}")))))
}

fn builder(calls: &[Vec<(usize, RecordBatch)>], bound: i64) -> WindowOperatorBuilder {
    WindowOperator::builder(calls[0][0].1.schema())
        .event_time("ts")
        .key("key")
        .partitions(PARTITIONS)
        .watermark(WatermarkStrategy::bounded_out_of_orderness(MS(bound)))
        .aggregate(Aggregate::count_all())
        .aggregate(Aggregate::sum("value").alias("sum"))
        .aggregate(Aggregate::first("value").alias("first"))
}

fn outputs(mut operator: WindowOperator, calls: &[Vec<(usize, RecordBatch)>]) -> Vec<Output> {
    let mut outputs = Vec::new();
    for call in calls {
        outputs.push(operator.push_all(call).unwrap());
        operator.validate();
    }
    outputs.push(operator.finish().unwrap());
    outputs
}

fn same_on_any_threads(
    calls: &[Vec<(usize, RecordBatch)>],
    build: impl Fn() -> WindowOperatorBuilder,
) -> Vec<Output> {
    let alone = outputs(build().build().unwrap(), calls);
    for threads in [2, 3, 8] {
        let together = outputs(build().threads(threads).build().unwrap(), calls);
        for (alone, together) in alone.iter().zip(&together) {
            assert_eq!(alone.fired, together.fired, "{threads} threads");
            assert_eq!(alone.late, together.late, "{threads} threads");
        }
    }
    alone
}

/// Start, key and the bits of the sum of each result, in order.
type Sums = Vec<(i64, Option<i64>, u64)>;

/// The definition: keys in order of lane and appearance; sums first within a lane, then lane by lane.
fn by_definition(calls: &[Vec<(usize, RecordBatch)>], size: i64) -> Sums {
    #[derive(Default)]
    struct OfWindow {
        keys: Vec<Option<i64>>,
        sums: BTreeMap<Option<i64>, f64>,
    }
    let mut windows: BTreeMap<i64, OfWindow> = BTreeMap::new();
    for lane in 0..PARTITIONS {
        let mut own: BTreeMap<i64, OfWindow> = BTreeMap::new();
        for (_, batch) in calls.iter().flatten().filter(|(partition, _)| *partition == lane) {
            let times = batch["ts"].as_primitive::<TimestampMillisecondType>().values();
            let values = batch["value"].as_primitive::<Float64Type>().values();
            for ((key, time), value) in batch["key"].as_primitive::<Int64Type>().iter().zip(times).zip(values)
            {
                let OfWindow { keys, sums } = own.entry(time.div_euclid(size) * size).or_default();
                *sums.entry(key).or_insert_with(|| {
                    keys.push(key);
                    -0.0
                }) += value;
            }
        }
        for (start, own) in own {
            let OfWindow { keys, sums } = windows.entry(start).or_default();
            for key in own.keys {
                *sums.entry(key).or_insert_with(|| {
                    keys.push(key);
                    -0.0
                }) += own.sums[&key];
            }
        }
    }
    let results = windows.into_iter().flat_map(|(start, OfWindow { keys, sums })| {
        keys.into_iter().map(move |key| (start, key, sums[&key].to_bits()))
    });
    results.collect()
}

fn sums(outputs: &[Output]) -> Sums {
    let mut all = Vec::new();
    for batch in outputs.iter().flat_map(|output| &output.fired) {
        let starts = batch["window_start"].as_primitive::<TimestampMillisecondType>().values();
        let sums = batch["sum"].as_primitive::<Float64Type>().values();
        let keys = batch["key"].as_primitive::<Int64Type>().iter();
        all.extend(keys.zip(starts).zip(sums).map(|((key, &start), sum)| (start, key, sum.to_bits())));
    }
    all
}

#[test]
fn results_are_in_order_of_lane_and_appearance_to_the_last_bit() {
    let calls = calls(numbers);
    let build = || builder(&calls, JITTER).window(Window::tumbling(MS(400)));
    let outputs = same_on_any_threads(&calls, build);
    // several windows fire in one call
    assert!(outputs[1].fired.len() > 1);
    let (sums, expected) = (sums(&outputs), by_definition(&calls, 400));
    assert!(sums.iter().any(|(_, key, _)| key.is_none()));
    assert!(sums == expected);
}

#[test]
fn keys_that_each_lane_numbers_for_itself_come_together() {
    let (of_numbers, calls) = (calls(numbers), calls(strings));
    let build = || builder(&calls, JITTER).window(Window::tumbling(MS(400)));
    let outputs = same_on_any_threads(&calls, build);
    let numbered = outputs.into_iter().map(|mut output| {
        for batch in &mut output.fired {
            let keys = batch["key"].as_string::<i32>();
            let number = |key: &str| key.trim_start_matches("key ").parse::<i64>().unwrap();
            let keys = Int64Array::from_iter(keys.iter().map(|key| key.map(number)));
            let columns = ["window_start", "sum"].map(|name| (name, batch[name].clone()));
            let columns = columns.into_iter().chain([("key", Arc::new(keys) as ArrayRef)]);
            *batch = RecordBatch::try_from_iter(columns).unwrap();
        }
        output
    });
    assert!(sums(&numbered.collect::<Vec<_>>()) == by_definition(&of_numbers, 400));
}

#[test]
fn windows_that_share_slices_and_fire_again_give_the_same_bits_on_any_threads() {
    let calls = calls(numbers);
    let late = || {
        let builder = builder(&calls, 50).window(Window::tumbling(MS(400))).allowed_lateness(MS(400));
        builder.firing_column(true)
    };
    let outputs = same_on_any_threads(&calls, late);
    let mut batches = outputs.iter().flat_map(|output| &output.fired);
    assert!(
        batches.any(|batch| batch["firing"].as_string::<i32>().iter().flatten().any(|why| why == "late"))
    );
    let sliding = || builder(&calls, 50).window(Window::sliding(MS(700), MS(300))).allowed_lateness(MS(400));
    same_on_any_threads(&calls, sliding);
    let sorted = || builder(&calls, JITTER).window(Window::sliding(MS(700), MS(300))).sort_by_key(true);
    same_on_any_threads(&calls, sorted);
}
