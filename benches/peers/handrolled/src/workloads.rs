//! One loop for each workload, and how two threads share it: with few keys each takes every other block of rows, and
//! partial windows are merged at the end; with many keys each takes its share of the keys.

use crate::data::{Columns, Row, Sink};
use crate::sessions::sessions;
use crate::windows::{WATERMARK_EVERY, windows};
use rustc_hash::FxHashMap;

struct Summary {
    count: i64,
    sum: f64,
    min: f64,
    max: f64,
}

impl Default for Summary {
    fn default() -> Self {
        Summary { count: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Summary {
    #[inline(always)]
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        if value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
        }
    }

    fn merge(&mut self, other: &Summary) {
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    fn row(&self, window: i64, key: i32) -> Row {
        let Summary { count, sum, min, max } = *self;
        Row { window, key: key.into(), count, sum, min, max, ..Row::default() }
    }
}

/// A histogram with buckets of 2 %: the cheapest quantile sketch that can be merged.
struct Histogram {
    count: i64,
    sum: f64,
    buckets: Vec<u32>,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { count: 0, sum: 0.0, buckets: vec![0; 1024] }
    }
}

impl Histogram {
    #[inline(always)]
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        let bucket = ((value.ln() * 50.0).floor() as i64 + 256).clamp(0, 1023);
        self.buckets[bucket as usize] += 1;
    }

    fn merge(&mut self, other: &Histogram) {
        self.count += other.count;
        self.sum += other.sum;
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
    }

    fn quantile(&self, q: f64) -> f64 {
        let wanted = q * self.count as f64;
        let mut seen = 0;
        let reaches = |count: &u32| {
            seen += u64::from(*count);
            seen as f64 >= wanted
        };
        let bucket = self.buckets.iter().position(reaches).unwrap_or(0);
        ((bucket as f64 - 256.0 + 0.5) / 50.0).exp()
    }
}

/// A thread's share of the rows.
#[derive(Clone, Copy)]
pub struct Share {
    pub thread: usize,
    pub threads: usize,
}

impl Share {
    #[inline(always)]
    fn has_row(self, row: usize) -> bool {
        self.threads == 1 || row / WATERMARK_EVERY % self.threads == self.thread
    }

    #[inline(always)]
    pub fn has_key(self, key: usize) -> bool {
        self.threads == 1 || key % self.threads == self.thread
    }
}

/// Whether the threads' results are partial windows, or tops of windows, that [`combine`] must see.
pub fn needs_combining(workload: &str) -> bool {
    !matches!(workload, "w2" | "w3" | "w5")
}

/// Count, sum, minimum and maximum a key, rows shared out in blocks.
fn summaries<const SIZE: i64, const SLIDE: i64>(data: &Columns, bound: i64, share: Share, sink: &mut Sink) {
    windows::<SIZE, SLIDE, _, _>(
        &data.ts,
        bound,
        |i| share.has_row(i).then(|| data.key32[i]),
        |a: &mut Summary, i| a.add(data.value[i]),
        Summary::merge,
        |window, keys| keys.iter().for_each(|(key, a)| sink.put(a.row(window, *key))),
    );
}

/// Runs a share of a workload; the windows go to `sink`.
pub fn run(workload: &str, data: &Columns, bound: i64, share: Share, sink: &mut Sink) {
    let Columns { ts, key32, key64, value, bidder, price, event_type, campaign } = data;
    match workload {
        "w1" => summaries::<60_000, 60_000>(data, bound, share, sink),
        "w2" => windows::<300_000, 60_000, _, _>(
            ts,
            bound,
            |i| share.has_key(key32[i] as usize).then(|| key32[i]),
            |a: &mut Histogram, i| a.add(value[i]),
            Histogram::merge,
            |window, keys| {
                for (key, a) in keys {
                    let (p50, p99) = (a.quantile(0.5), a.quantile(0.99));
                    sink.put(Row {
                        window,
                        key: (*key).into(),
                        count: a.count,
                        sum: a.sum,
                        p50,
                        p99,
                        ..Row::default()
                    });
                }
            },
        ),
        "w3" => windows::<10_000, 10_000, _, _>(
            ts,
            bound,
            |i| share.has_key(key64[i] as usize).then(|| key64[i]),
            |a: &mut (u32, f64), i| *a = (a.0 + 1, a.1 + value[i]),
            |a, b| *a = (a.0 + b.0, a.1 + b.1),
            |window, keys| {
                for (key, a) in keys {
                    sink.put(Row { window, key: *key, count: a.0.into(), sum: a.1, ..Row::default() });
                }
            },
        ),
        "w4" => summaries::<86_400_000, 900_000>(data, bound, share, sink),
        "w5" => sessions::<30_000>(data, bound, share, sink),
        "q5" => windows::<10_000, 2_000, _, _>(
            ts,
            bound,
            |i| share.has_key(key64[i] as usize).then(|| key64[i]),
            |a: &mut i64, _| *a += 1,
            |a, b| *a += b,
            |window, keys| {
                let top = keys.values().copied().max().unwrap_or(0);
                for (key, count) in keys.iter().filter(|(_, count)| **count == top) {
                    sink.put(Row { window, key: *key, count: *count, ..Row::default() });
                }
            },
        ),
        "q7" => windows::<10_000, 10_000, _, _>(
            ts,
            bound,
            |i| share.has_row(i).then_some(0u8),
            |a: &mut (i64, usize), i| {
                if price[i] > a.0 {
                    *a = (price[i], i);
                }
            },
            |a, b| *a = (*a).max(*b),
            |window, all| {
                for (price, i) in all.values() {
                    let (key, count, sum) = (key64[*i], bidder[*i], *price as f64);
                    sink.put(Row { window, key, count, sum, ..Row::default() });
                }
            },
        ),
        _ => windows::<10_000, 10_000, _, _>(
            ts,
            bound,
            |i| (share.has_row(i) && event_type[i] == 0).then(|| campaign[key32[i] as usize]),
            |a: &mut i64, _| *a += 1,
            |a, b| *a += b,
            |window, keys| {
                for (key, count) in keys {
                    sink.put(Row { window, key: (*key).into(), count: *count, ..Row::default() });
                }
            },
        ),
    }
}

/// Merges the threads' results into whole windows.
pub fn combine(workload: &str, parts: Vec<Vec<Row>>) -> Vec<Row> {
    let rows = parts.into_iter().flatten();
    match workload {
        "w2" | "w3" | "w5" => rows.collect(),
        "q5" => {
            let rows: Vec<Row> = rows.collect();
            let mut top: FxHashMap<i64, i64> = FxHashMap::default();
            for row in &rows {
                let best = top.entry(row.window).or_default();
                *best = row.count.max(*best);
            }
            rows.into_iter().filter(|row| row.count == top[&row.window]).collect()
        }
        "q7" => fold(
            rows,
            |row| (row.window, 0),
            |best, row| {
                if row.sum > best.sum {
                    *best = row;
                }
            },
        ),
        _ => fold(
            rows,
            |row| (row.window, row.key),
            |whole, row| {
                whole.count += row.count;
                whole.sum += row.sum;
                whole.min = whole.min.min(row.min);
                whole.max = whole.max.max(row.max);
            },
        ),
    }
}

fn fold(rows: impl Iterator<Item = Row>, id: fn(&Row) -> (i64, i64), merge: fn(&mut Row, Row)) -> Vec<Row> {
    let mut place: FxHashMap<(i64, i64), usize> = FxHashMap::default();
    let mut whole: Vec<Row> = Vec::new();
    for row in rows {
        match place.get(&id(&row)) {
            Some(&at) => merge(&mut whole[at], row),
            None => {
                place.insert(id(&row), whole.len());
                whole.push(row);
            }
        }
    }
    whole
}
