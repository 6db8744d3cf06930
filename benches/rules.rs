//! Windows that fire early, or lose rows when they fire: w1's rows in windows of a minute, with a rule, and the same by
//! plain loops.

use std::collections::{BTreeMap, HashMap, VecDeque};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampMillisecondType};
use highwater::watermark::WatermarkStrategy;
use highwater::{Aggregate, Evictor, TimeDelta, Trigger, Window, WindowOperator};
use highwater_cli::bench::{Load, Workload};

use crate::{BATCH_ROWS, shape};

/// Milliseconds of a window.
const SIZE: i64 = 60_000;
/// Milliseconds that rows may be out of order.
const BOUND: i64 = 20_000;

/// When windows fire before their end, or what they keep.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// After so many rows of a key.
    EarlyCount(u64),
    /// When the watermark passes a multiple of so many milliseconds.
    EarlyEventTime(i64),
    /// At its end, with the last so many rows.
    KeepLast(usize),
}

/// Rows, and the rule for their windows.
pub struct Ruled {
    rule: Rule,
    load: Load,
}

/// One for each rule, `rows` rows each: `<window>_<rule>/<keys>/<disorder>`.
pub fn ruled(rows: u64) -> Vec<(String, Ruled)> {
    let rules = [
        ("early_count_100", Rule::EarlyCount(100)),
        ("early_event_time_10s", Rule::EarlyEventTime(10_000)),
        ("last_100", Rule::KeepLast(100)),
    ];
    let one = |(name, rule)| {
        let load = shape(Workload::W1, rows, BATCH_ROWS, |_, _| {});
        (format!("tumbling_1m_{name}/1000_i32/jitter"), Ruled { rule, load })
    };
    rules.map(one).into()
}

/// A result: start of the window, key, count and sum; sums of multiples of 1/64 are exact, so these are sums of 64ths.
type Result = (i64, i32, i64, i64);

impl Ruled {
    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.load.rows()
    }

    /// Pushes everything; gives the number of results.
    pub fn run(&self) -> u64 {
        let mut results = 0;
        self.drive(|batch| results += batch.num_rows() as u64);
        results
    }

    /// Compares the engine's answer with loops over the rows. Panics where they differ.
    pub fn check(&self, name: &str) {
        let mut given = Vec::new();
        let late = self.drive(|batch| given.extend(results_of(batch)));
        let mut expected = Plain::new(self.rule);
        for (_, batch) in &self.load.batches {
            let times = batch["ts"].as_primitive::<TimestampMillisecondType>().values();
            let keys = batch["key"].as_primitive::<Int32Type>().values();
            let values = batch["value"].as_primitive::<Float64Type>().values();
            for ((&time, &key), &value) in times.iter().zip(keys).zip(values) {
                expected.row(time, key, (value * 64.0) as i64);
            }
        }
        expected.advance(i64::MAX);
        given.sort_unstable();
        expected.results.sort_unstable();
        let different = given.iter().zip(&expected.results).find(|(given, expected)| given != expected);
        assert_eq!(different, None, "{name}");
        assert_eq!(
            (given.len(), late),
            (expected.results.len(), expected.late),
            "{name}: results, late rows"
        );
    }

    /// Pushes everything; gives the number of late rows.
    fn drive(&self, mut take: impl FnMut(&RecordBatch)) -> u64 {
        let mut run = || -> highwater::Result<u64> {
            let mut operator = self.operator()?;
            for (partition, batch) in &self.load.batches {
                operator.push(*partition, batch)?.fired.iter().for_each(&mut take);
            }
            operator.finish()?.fired.iter().for_each(&mut take);
            Ok(operator.metrics().total.dropped_late)
        };
        run().unwrap_or_else(|error| unreachable!("generated rows are valid: {error}"))
    }

    fn operator(&self) -> highwater::Result<WindowOperator> {
        let schema = self.load.batches[0].1.schema();
        let builder = WindowOperator::builder(schema)
            .event_time("ts")
            .key("key")
            .window(Window::tumbling(TimeDelta::from_millis(SIZE)))
            .watermark(WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_millis(BOUND)))
            .aggregate(Aggregate::count_all())
            .aggregate(Aggregate::sum("value"));
        match self.rule {
            Rule::EarlyCount(rows) => builder.trigger(Trigger::early_count(rows)),
            Rule::EarlyEventTime(every) => {
                builder.trigger(Trigger::early_event_time(TimeDelta::from_millis(every)))
            }
            Rule::KeepLast(rows) => builder.evictor(Evictor::count(rows as u64)),
        }
        .build()
    }
}

fn results_of(batch: &RecordBatch) -> Vec<Result> {
    let keys = batch["key"].as_primitive::<Int32Type>();
    let starts = batch["window_start"].as_primitive::<TimestampMillisecondType>();
    let counts = batch.column(3).as_primitive::<Int64Type>();
    let sums = batch.column(4).as_primitive::<Float64Type>();
    let result =
        |row| (starts.value(row), keys.value(row), counts.value(row), (sums.value(row) * 64.0) as i64);
    (0..batch.num_rows()).map(result).collect()
}

/// What must come out, in any order.
struct Plain {
    rule: Rule,
    watermark: i64,
    windows: BTreeMap<i64, HashMap<i32, Pane>>,
    /// No window fires early before this.
    earliest: i64,
    results: Vec<Result>,
    late: u64,
}

/// The rows of a key in a window.
#[derive(Default)]
struct Pane {
    count: i64,
    sum: i64,
    /// The last rows.
    kept: VecDeque<i64>,
    /// The watermark at which it fires early.
    next: Option<i64>,
}

impl Plain {
    fn new(rule: Rule) -> Self {
        let (windows, results) = (BTreeMap::new(), Vec::new());
        Plain { rule, watermark: i64::MIN, windows, earliest: i64::MAX, results, late: 0 }
    }

    fn row(&mut self, time: i64, key: i32, value: i64) {
        let start = time.div_euclid(SIZE) * SIZE;
        let last = start + SIZE - 1;
        if last > self.watermark {
            let pane = self.windows.entry(start).or_default().entry(key).or_default();
            pane.count += 1;
            pane.sum += value;
            match self.rule {
                Rule::EarlyCount(rows) if (pane.count as u64).is_multiple_of(rows) => {
                    self.results.push((start, key, pane.count, pane.sum));
                }
                Rule::EarlyCount(_) => {}
                Rule::EarlyEventTime(every) => {
                    let next = pane.next.get_or_insert((time.div_euclid(every) + 1) * every);
                    self.earliest = self.earliest.min(*next);
                }
                Rule::KeepLast(rows) => {
                    pane.kept.push_back(value);
                    if pane.kept.len() > rows {
                        pane.kept.pop_front();
                    }
                    (pane.count, pane.sum) = (pane.kept.len() as i64, pane.kept.iter().sum());
                }
            }
        } else {
            self.late += 1;
        }
        self.advance(time - BOUND - 1);
    }

    fn advance(&mut self, watermark: i64) {
        if watermark <= self.watermark {
            return;
        }
        self.watermark = watermark;
        if let Rule::EarlyEventTime(every) = self.rule
            && self.earliest <= watermark
        {
            self.earliest = i64::MAX;
            for (&start, panes) in &mut self.windows {
                for (&key, pane) in panes {
                    while let Some(next) = pane.next.as_mut().filter(|next| **next <= watermark)
                        && *next < start + SIZE - 1
                    {
                        *next += every;
                        self.results.push((start, key, pane.count, pane.sum));
                    }
                    self.earliest = self.earliest.min(pane.next.unwrap_or(i64::MAX));
                }
            }
        }
        while let Some(window) =
            self.windows.first_entry().filter(|window| window.key() + SIZE - 1 <= watermark)
        {
            let (start, panes) = window.remove_entry();
            self.results.extend(panes.into_iter().map(|(key, pane)| (start, key, pane.count, pane.sum)));
        }
    }
}
