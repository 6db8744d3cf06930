//! Numbers, cuts, and results as text.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use highwater::process::ProcessMetrics;
use highwater::watermark::{END, NONE, WatermarkStrategy};
use highwater::{Input, TimeDelta};

/// A generator of numbers, the same in every run.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        let mut numbers = Numbers(seed ^ 0x9e37_79b9_7f4a_7c15);
        numbers.below(10);
        numbers
    }
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
    pub(crate) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
    /// A letter, or nothing: the null key.
    pub(crate) fn key(&mut self, keys: u64) -> Option<String> {
        let key = self.below(keys + 1);
        (key < keys).then(|| format!("key-{key}"))
    }
}

/// Event time in milliseconds in `ts`, the key in `key`, bounded out of orderness.
pub(crate) fn input(batch: &RecordBatch, partitions: usize, bound: i64) -> Input {
    Input::new(batch.schema())
        .event_time("ts")
        .event_time_unit(TimeUnit::Millisecond)
        .key("key")
        .partitions(partitions)
        .watermark(WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_millis(bound)))
}

/// The watermark by its definition: each partition's highest time - bound - 1, the lowest of them all.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    bound: i64,
    /// The highest time of each partition that has not ended.
    highest: Vec<Option<Option<i64>>>,
    pub(crate) merged: i64,
}

impl Marks {
    pub(crate) fn new(partitions: usize, bound: i64) -> Self {
        Marks { bound, highest: vec![Some(None); partitions], merged: NONE }
    }
    /// Whether the merged watermark rises.
    pub(crate) fn row(&mut self, partition: usize, time: i64) -> bool {
        if let Some(highest) = &mut self.highest[partition] {
            *highest = Some(highest.map_or(time, |highest| highest.max(time)));
        }
        self.refresh()
    }
    pub(crate) fn finish(&mut self, partition: usize) -> bool {
        self.highest[partition] = None;
        self.refresh()
    }
    fn refresh(&mut self) -> bool {
        let own = |highest: Option<i64>| highest.map_or(NONE, |highest| highest - self.bound - 1);
        let lowest = self.highest.iter().flatten().map(|&highest| own(highest)).min().unwrap_or(END);
        let before = self.merged;
        self.merged = before.max(lowest);
        self.merged > before
    }
}

/// Each row of some batches as one line.
pub(crate) fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines = vec![];
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = batch.columns().iter().map(|column| cell(column, row)).collect();
            lines.push(cells.join(" "));
        }
    }
    lines
}

fn cell(column: &dyn Array, row: usize) -> String {
    if column.is_null(row) {
        return "-".into();
    }
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).into(),
        _ => column.as_primitive::<Int64Type>().value(row).to_string(),
    }
}

/// All counters, without the memory that is held in reserve.
pub(crate) fn counted(mut metrics: ProcessMetrics) -> ProcessMetrics {
    metrics.state_bytes = 0;
    metrics
}

pub(crate) fn show<T: ToString>(value: Option<T>) -> String {
    value.map_or("-".into(), |value| value.to_string())
}

/// Panics with the first line that differs.
pub(crate) fn compare(what: &str, found: &[String], expected: &[String]) {
    let differs = (0..found.len().max(expected.len())).find(|&at| found.get(at) != expected.get(at));
    let at = differs.unwrap_or(usize::MAX);
    assert_eq!(found.get(at), expected.get(at), "{what}: line {at}");
}

/// Cuts a list of rows, each with its partition, into calls of batches of neighbours of one partition.
pub(crate) fn cut(
    partitions: &[usize],
    numbers: &mut Numbers,
    longest: u64,
) -> Vec<Vec<(usize, std::ops::Range<usize>)>> {
    let mut calls = vec![];
    let mut from = 0;
    while from < partitions.len() {
        let mut call = vec![];
        for _ in 0..=numbers.below(3) {
            let most = from + 1 + numbers.below(longest) as usize;
            let same = partitions[from..].iter().take_while(|&&p| p == partitions[from]).count();
            let to = most.min(from + same);
            call.push((partitions[from], from..to));
            from = to;
            if from == partitions.len() {
                break;
            }
        }
        calls.push(call);
    }
    calls
}
