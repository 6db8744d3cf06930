//! How a slice lays out its accumulators (by slot, at places of keys that lie close together, one for each row of keys that
//! are nearly all new) must not show: not in the order of keys, not in the last bit of a sum, not in a count of keys.
#![expect(clippy::unwrap_used, reason = "a test that panics has found something")]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow_schema::DataType;
use highwater::watermark::WatermarkStrategy;
use highwater::{Aggregate, Error, Limits, Output, TimeDelta, Window, WindowOperator, WindowOperatorBuilder};

const MS: fn(i64) -> TimeDelta = TimeDelta::from_millis;

/// Numbers that look random, always the same.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The columns of a stream.
#[derive(Default)]
struct Stream {
    times: Vec<i64>,
    keys: Vec<Option<i64>>,
    values: Vec<Option<f64>>,
}

impl Stream {
    /// So many rows, so many of them in each window of 10 ms: some out of order, and some of the window before. `key` chooses a
    /// key by row and by whether it belongs to the window before.
    fn new(
        rows: usize,
        per_window: usize,
        mut key: impl FnMut(&mut Random, usize, bool) -> Option<i64>,
    ) -> Stream {
        let mut random = Random(7);
        let mut stream = Stream::default();
        for row in 0..rows {
            let straggles = random.below(40) == 0;
            let behind = if straggles { 10 } else { random.below(3) as i64 };
            stream.times.push((row * 10 / per_window) as i64 - behind);
            stream.keys.push(key(&mut random, row, straggles));
            stream.values.push(match random.below(5_000) {
                0 => None,
                1 if row > 2 * per_window => Some(f64::NAN),
                2 => Some(-0.0),
                _ => Some(random.below(1_000_000) as f64 / 7.0 - 50_000.0),
            });
        }
        stream
    }

    /// With keys of some type; `None` for what is a null.
    fn batch(&self, keys: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([
            ("ts", Arc::new(TimestampMillisecondArray::from(self.times.clone())) as ArrayRef, false),
            ("key", keys, true),
            ("value", Arc::new(Float64Array::from(self.values.clone())), true),
        ])
        .unwrap()
    }

    /// Keys as columns of several types.
    fn columns(&self) -> [(&'static str, ArrayRef); 4] {
        let narrow = |key: &Option<i64>| key.map(|key| key as i32);
        let texts: Vec<_> = self.keys.iter().map(|key| key.map(|key| format!("key {key}"))).collect();
        let dictionary: DictionaryArray<Int32Type> = texts.iter().map(Option::as_deref).collect();
        [
            ("a column of codes", Arc::new(Int64Array::from(self.keys.clone()))),
            ("a narrow one", Arc::new(Int32Array::from_iter(self.keys.iter().map(narrow)))),
            ("strings", Arc::new(StringArray::from(texts))),
            ("a dictionary", Arc::new(dictionary)),
        ]
    }

    /// What must be fired if pieces of the stream go to so many partitions in turn. By the definition: windows in order, keys in
    /// order of appearance in the first partition, then in the second, whose sums are those of their rows in order of arrival,
    /// and then one sum.
    fn results(&self, piece: usize, partitions: usize) -> Vec<Line> {
        let mut windows: BTreeMap<i64, Vec<Expected>> = BTreeMap::new();
        let mut known: BTreeMap<(i64, Option<i64>), usize> = BTreeMap::new();
        for partition in 0..partitions {
            for row in (0..self.times.len()).filter(|row| row / piece % partitions == partition) {
                let (start, key) = (self.times[row].div_euclid(10) * 10, self.keys[row]);
                let window = windows.entry(start).or_default();
                let known = *known.entry((start, key)).or_insert_with(|| {
                    window.push(Expected { key, rows: 0, values: [vec![], vec![]] });
                    window.len() - 1
                });
                window[known].rows += 1;
                window[known].values[partition].extend(self.values[row]);
            }
        }
        let highest = |high: f64, value: f64| if value.is_nan() || value > high { value } else { high };
        let mut lines = vec![];
        for (start, keys) in windows {
            for Expected { key, rows, values } in keys {
                let sums = values.iter().filter_map(|of| of.iter().copied().reduce(|sum, value| sum + value));
                let max = values.iter().flatten().copied().reduce(highest);
                lines.push(line(start, key, rows, sums.reduce(|sum, other| sum + other), max));
            }
        }
        lines
    }

    fn check(&self) {
        const PIECE: usize = 777;
        let rows = self.times.len();
        let expected = [1, 2].map(|partitions| self.results(PIECE, partitions));
        for (name, column) in self.columns() {
            let input = self.batch(column);
            for (piece, restarts, first, partitions) in [
                (rows, false, false, 1),
                (5_000, true, true, 1),
                (5_000, true, false, 1),
                (PIECE, false, false, 1),
                (PIECE, true, true, 2),
                (PIECE, true, false, 2),
                (PIECE, false, false, 2),
            ] {
                // with `first` it takes in all blocks of a slice at once, and every key is looked up
                let builder = || match first {
                    true => builder(&input).partitions(partitions).aggregate(Aggregate::first("value")),
                    false => builder(&input).partitions(partitions),
                };
                let mut operator = builder().build().unwrap();
                let mut got = vec![];
                for from in (0..rows).step_by(piece) {
                    let batch = input.slice(from, piece.min(rows - from));
                    got.extend(lines(&operator.push(from / piece % partitions, &batch).unwrap()));
                    operator.validate();
                    if restarts {
                        operator = builder().restore(&operator.snapshot().unwrap()).unwrap();
                    }
                }
                got.extend(lines(&operator.finish().unwrap()));
                let expected = &expected[partitions - 1];
                let what = format!(
                    "{name}, {piece} rows a batch, {partitions} partitions, restarts: {restarts}, first: {first}"
                );
                assert_eq!(got.len(), expected.len(), "{what}");
                for (got, expected) in got.iter().zip(expected) {
                    assert_eq!(got, expected, "{what}");
                }
            }
        }
    }
}

/// What is known of a key in a window.
struct Expected {
    key: Option<i64>,
    rows: i64,
    /// By partition.
    values: [Vec<f64>; 2],
}

/// Start, key, count, and the bits of sum and maximum.
type Line = (i64, Option<i64>, i64, Option<u64>, Option<u64>);

fn line(start: i64, key: Option<i64>, rows: i64, sum: Option<f64>, max: Option<f64>) -> Line {
    (start, key, rows, sum.map(f64::to_bits), max.map(f64::to_bits))
}

/// Tumbling windows of 10 ms that fire 20 ms late, with count, sum and maximum.
fn builder(input: &RecordBatch) -> WindowOperatorBuilder {
    WindowOperator::builder(input.schema())
        .event_time("ts")
        .key("key")
        .window(Window::tumbling(MS(10)))
        .watermark(WatermarkStrategy::bounded_out_of_orderness(MS(20)))
        .aggregate(Aggregate::count_all())
        .aggregate(Aggregate::sum("value").alias("sum"))
        .aggregate(Aggregate::max("value").alias("max"))
}

fn numbers(keys: &ArrayRef) -> Vec<Option<i64>> {
    match keys.data_type() {
        DataType::Int64 => keys.as_primitive::<Int64Type>().iter().collect(),
        DataType::Int32 => keys.as_primitive::<Int32Type>().iter().map(|key| key.map(i64::from)).collect(),
        _ => keys.as_string::<i32>().iter().map(|key| key.map(|key| key[4..].parse().unwrap())).collect(),
    }
}

/// Everything fired.
fn lines(output: &Output) -> Vec<Line> {
    assert!(output.late.is_empty());
    let mut lines = vec![];
    for batch in &output.fired {
        let starts = batch["window_start"].as_primitive::<TimestampMillisecondType>();
        let counts = batch["count"].as_primitive::<Int64Type>();
        let floats = |name: &str, row: usize| {
            let column = batch[name].as_primitive::<Float64Type>();
            column.is_valid(row).then(|| column.value(row))
        };
        for (row, &key) in numbers(&batch["key"]).iter().enumerate() {
            let (sum, max) = (floats("sum", row), floats("max", row));
            lines.push(line(starts.value(row), key, counts.value(row), sum, max));
        }
    }
    lines
}

/// Slices with many rows for each key, which fill the range that they span; then with keys beside it, between it, and null.
#[test]
fn many_rows_of_keys_that_lie_close_together() {
    const PER_WINDOW: usize = 6_000;
    let key = |random: &mut Random, row: usize, straggles: bool| {
        let common = random.below(100) as i64;
        let (window, part) = (row / PER_WINDOW, row % PER_WINDOW / (PER_WINDOW / 2));
        match (window, random.below(3_000)) {
            (1, 0) => Some(common + 60),        // above, close by
            (2, 0) => Some(common - 60),        // below
            (3, 0) => Some(1_000_000 * common), // far away
            (4, 0) => None,
            (5, 0..60) if straggles => Some(500 + common),
            (5, _) if part == 0 && common % 4 == 3 => Some(common - 1), // gaps, which are filled later
            _ => Some(common),
        }
    };
    Stream::new(36_000, PER_WINDOW, key).check();
}

/// Slices in which nearly every row has a key of its own, after some in which it has not and before others; with nulls, with
/// keys that come again after many others, and with a few keys from the middle of a slice on.
#[test]
fn keys_that_are_nearly_all_new() {
    const PER_WINDOW: usize = 16_000;
    let key = |random: &mut Random, row: usize, straggles: bool| {
        let new = random.below(200_000) as i64;
        let (window, part) = (row / PER_WINDOW, row % PER_WINDOW / (PER_WINDOW / 2));
        match (window, random.below(100)) {
            (1, 0) | (2, 50) => None,
            (2, 0..20) => Some(row as i64 / 100),  // some come often
            (3, _) if part == 1 => Some(new % 50), // few, for the rest of the slice
            (4, _) if part == 0 => Some(new % 50), // few at first
            (5, _) if straggles => Some(0),        // one in a table that is about to fire
            (5, _) => Some(7_919 * (row % 6_000) as i64), // all again, in the same order
            _ => Some(new),
        }
    };
    Stream::new(6 * PER_WINDOW, PER_WINDOW, key).check();
}

/// Ten thousand rows of nine thousand keys, the last thousand rows with the keys of the first.
#[test]
fn keys_are_counted_and_limited_whether_they_have_been_looked_up_or_not() {
    const KEYS: usize = 9_000;
    let key = |row: usize| Some(1_000 * (row % KEYS) as i64);
    let stream = Stream {
        times: vec![0; 10_000],
        keys: (0..10_000).map(key).collect(),
        values: vec![Some(1.0); 10_000],
    };
    let input = stream.batch(stream.columns()[0].1.clone());
    let piece = |number: usize| input.slice(1_000 * number, 1_000);
    for max_keys in [KEYS, KEYS - 1] {
        let limits = Limits { max_keys, ..Limits::default() };
        let mut operator = builder(&input).limits(limits).build().unwrap();
        for number in 0..8 {
            assert!(operator.push(0, &piece(number)).unwrap().is_empty());
            assert_eq!(operator.metrics().keys, 1_000 * (number + 1));
        }
        let ninth = operator.push(0, &piece(8));
        if max_keys < KEYS {
            let error = Error::LimitReached { limit: "max_keys", needed: KEYS, allowed: max_keys };
            assert_eq!(ninth.unwrap_err(), error);
            assert_eq!(operator.metrics().keys, 8_000);
        }
        assert!(operator.push(0, &piece(9)).unwrap().is_empty());
        let keys = KEYS.min(max_keys / 1_000 * 1_000);
        assert_eq!(operator.metrics().keys, keys);
        let counts: Vec<i64> = lines(&operator.finish().unwrap()).iter().map(|line| line.2).collect();
        assert_eq!((counts.len(), counts.iter().filter(|&&count| count == 2).count()), (keys, 1_000));
    }
}

/// A slice of 20,000 keys, then one of 100 keys that come again and again. Twice 20,000 rows of it may be listed before it is
/// noticed, with 40 bytes each: a sum, a count, a maximum and its opposite, and the key; and room for a quarter more.
#[test]
fn rows_of_keys_that_come_again_are_not_listed_for_long() {
    const PIECE: usize = 1_000;
    let piece = |time: i64, key: &dyn Fn(usize) -> usize| {
        let keys = (0..PIECE).map(|row| Some(key(row) as i64)).collect();
        let stream = Stream { times: vec![time; PIECE], keys, values: vec![Some(0.5); PIECE] };
        stream.batch(stream.columns()[0].1.clone())
    };
    let mut operator = builder(&piece(0, &|row| row)).build().unwrap();
    for number in 0..20 {
        let new = |row| 1_000_003 * (PIECE * number + row);
        assert!(operator.push(0, &piece(0, &new)).unwrap().is_empty());
    }
    // what is open now has been opened before the first slice was known to have so many keys
    assert_eq!(lines(&operator.push(0, &piece(100, &|row| row)).unwrap()).len(), 20_000);
    assert_eq!(lines(&operator.push(0, &piece(200, &|row| row)).unwrap()).len(), PIECE);
    for _ in 0..300 {
        assert!(operator.push(0, &piece(200, &|row| row % 100)).unwrap().is_empty());
        let metrics = operator.metrics();
        assert!(metrics.keys == PIECE && metrics.state_bytes < 50 * 41_000, "{} bytes", metrics.state_bytes);
    }
}

/// A count and a sum of floats are 16 bytes, the code of a key is 8, and both have room for a quarter more at most: 30 bytes.
#[test]
fn new_keys_take_less_than_twice_their_accumulators() {
    const PIECE: usize = 500;
    let piece = |from: usize| {
        let keys = (from..from + PIECE).map(|row| Some(1_000_003 * row as i64)).collect();
        let stream = Stream { times: vec![0; PIECE], keys, values: vec![Some(0.5); PIECE] };
        stream.batch(stream.columns()[0].1.clone())
    };
    let mut operator = WindowOperator::builder(piece(0).schema())
        .event_time("ts")
        .key("key")
        .window(Window::tumbling(MS(10)))
        .watermark(WatermarkStrategy::ascending())
        .aggregate(Aggregate::count("value"))
        .aggregate(Aggregate::sum("value"))
        .build()
        .unwrap();
    for from in (0..100_000).step_by(PIECE) {
        assert!(operator.push(0, &piece(from)).unwrap().is_empty());
        let metrics = operator.metrics();
        assert_eq!(metrics.keys, from + PIECE);
        // the first 4,096 are looked up, with room for as many again
        if metrics.keys > 8_192 {
            assert!(
                metrics.state_bytes < 32 * metrics.keys,
                "{} of {} keys",
                metrics.state_bytes,
                metrics.keys
            );
        }
    }
}
