//! Neither how rows are decoded nor how many threads there are shows in any output; and the replay clock, which moves
//! in strides, cannot be told from one that moves row by row.

mod common;

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, TimestampMillisecondArray};
use common::Place;
use highwater::watermark::{Reactivation, WatermarkStrategy};
use highwater::{Aggregate, FutureGuard, LateFiring, TimeDelta, Window, WindowOperator};

/// A small generator of numbers, the same in every run (Knuth's MMIX constants).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit) as i64
    }
}

#[derive(Clone, Copy)]
struct Row {
    time: Option<i64>,
    seen: i64,
    shard: i64,
    usd: i64,
}

/// Rows of one input: seen in order with silences of up to a minute, up to 20 s out of order, now and then far in the
/// future or without a time.
fn rows(numbers: &mut Numbers, count: usize) -> Vec<Row> {
    let mut seen = 1_714_557_600_000 + numbers.below(5_000);
    (0..count)
        .map(|_| {
            seen += if numbers.below(100) == 0 { numbers.below(60_000) } else { numbers.below(400) };
            let time = match numbers.below(200) {
                0 => None,
                1 => Some(seen + 10_000_000),
                _ => Some(seen - numbers.below(20_000)),
            };
            Row { time, seen, shard: numbers.below(3), usd: numbers.below(1_000) }
        })
        .collect()
}

fn csv(rows: &[Row]) -> String {
    let line = |row: &Row| {
        let time = row.time.map_or(String::new(), |time| time.to_string());
        format!("{time},{},{},{}\n", row.seen, row.shard, row.usd)
    };
    format!("ts,seen,shard,usd\n{}", rows.iter().map(line).collect::<String>())
}

const COMMON: &str = "--time ts --time-unit ms --key shard --bound 5s --firing \
                      --agg sum(usd)~as~usd --agg count --agg mean(usd) --agg last(usd) --late late.csv --rejected \
                      rejected.ndjson --stats stats.json --out out.csv";

/// Everything that a run writes.
fn outputs(place: &Place, inputs: &str, flags: &str) -> [String; 4] {
    place.run(&format!("window {inputs} {COMMON} {flags}")).ok();
    ["out.csv", "late.csv", "rejected.ndjson", "stats.json"].map(|name| place.read(name))
}

/// Four inputs, the last of which has no rows.
fn inputs() -> Place {
    let place = Place::new();
    let mut numbers = Numbers(1);
    for (name, count) in [("a.csv", 3_000), ("b.csv", 1_024), ("c.csv", 700)] {
        place.file(name, csv(&rows(&mut numbers, count)));
    }
    place.file("d.csv", "ts,seen,shard,usd\n");
    place
}

/// All that is written must be the same however rows are decoded, and with any number of threads.
fn nothing_shows(place: &Place, inputs: &str, flags: &str) {
    let expected = outputs(place, inputs, &format!("{flags} --batch-rows 1000 --threads 1"));
    assert!(expected[0].lines().count() > 20, "{flags}: there is something to compare");
    for (batch_rows, threads) in [(1, 2), (7, 1), (65_536, 4)] {
        let found = outputs(place, inputs, &format!("{flags} --batch-rows {batch_rows} --threads {threads}"));
        for (found, expected) in found.iter().zip(&expected) {
            assert!(found == expected, "{inputs} {flags}: {batch_rows} rows at a time, {threads} threads");
        }
    }
}

#[test]
fn neither_batches_nor_threads_show() {
    let place = inputs();
    for (inputs, mode) in [
        ("a.csv", ""),
        ("a.csv b.csv c.csv d.csv", ""),
        ("a.csv b.csv c.csv d.csv", "--late-firing per-row --sort"),
        ("a.csv b.csv c.csv d.csv", "--cadence every-batch"),
        ("a.csv b.csv c.csv d.csv", "--ingest-time seen"),
        ("a.csv b.csv c.csv d.csv", "--ingest-time seen --max-future 1h --idle 10s"),
        ("a.csv b.csv c.csv d.csv", "--ingest-time seen --max-future 1h --idle 3s --reactivation at-once"),
        ("a.csv b.csv", "--partition-by shard --max-future 1h --ingest-time seen"),
        ("a.csv c.csv", "--partition-by shard --idle 2s --ingest-time seen"),
    ] {
        nothing_shows(&place, inputs, &format!("--tumble 10s --lateness 3s {mode}"));
    }
}

#[test]
fn nor_do_they_in_windows_of_keys() {
    let place = inputs();
    for flags in [
        "--session 1s --lateness 3s --firing-number",
        "--session 1s --lateness 3s --mode retract --early-count 3",
        "--session 1s --early-every 500ms --mode discard --late-firing per-row --lateness 3s",
        "--count 7",
        "--count 20,3 --sort --window-time",
        "--global --trigger-count 10 --purging",
        "--hop 20s,5s --early-every 3s --mode discard --lateness 3s",
        "--tumble 10s --early-count 5 --mode retract --firing-number --late-firing per-row --lateness 3s",
        "--cumulate 20s,5s --trigger-delta usd,100",
    ] {
        nothing_shows(
            &place,
            "a.csv b.csv c.csv d.csv",
            &format!("{flags} --ingest-time seen --max-future 1h"),
        );
        nothing_shows(&place, "a.csv", flags);
    }
}

/// The literal reading: rows merged by ingest time, one call a row, the clock set before each.
fn row_by_row(inputs: &[Vec<Row>], idle: i64, rule: Reactivation) -> (Vec<String>, u64) {
    let all: Vec<RecordBatch> = inputs.iter().map(|rows| batch(rows)).collect();
    let mut operator = WindowOperator::builder(all[0].schema())
        .event_time("ts")
        .window(Window::tumbling(TimeDelta::from_secs(10)))
        .watermark(WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_secs(5)))
        .late_firing(LateFiring::PerRow)
        .allowed_lateness(TimeDelta::from_secs(3))
        .future_guard(FutureGuard::ingest_time("seen", TimeDelta::from_hours(1)))
        .idle_timeout(TimeDelta::from_millis(idle))
        .reactivation(rule)
        .partitions(inputs.len())
        .aggregate(Aggregate::sum("usd").alias("usd"))
        .aggregate(Aggregate::count_all())
        .build()
        .expect("an operator");
    let mut order: Vec<(i64, usize, usize)> = Vec::new();
    for (input, rows) in inputs.iter().enumerate() {
        order.extend(rows.iter().enumerate().map(|(row, at)| (at.seen, input, row)));
    }
    order.sort();
    let mut fired = Vec::new();
    let mut left: Vec<usize> = inputs.iter().map(Vec::len).collect();
    for (seen, input, row) in order {
        fired.extend(operator.advance_clock(seen).expect("the clock").fired);
        fired.extend(operator.push(input, &all[input].slice(row, 1)).expect("a row").fired);
        left[input] -= 1;
        if left[input] == 0 && left.iter().any(|&rows| rows > 0) {
            fired.extend(operator.finish_partition(input).expect("an end").fired);
        }
    }
    fired.extend(operator.finish().expect("the end").fired);
    let mut writer = arrow_csv::WriterBuilder::new().with_header(false).build(Vec::new());
    fired.iter().for_each(|batch| writer.write(batch).expect("text"));
    let text = String::from_utf8(writer.into_inner()).expect("text");
    (text.lines().map(str::to_string).collect(), operator.metrics().total.dropped_late)
}

fn batch(rows: &[Row]) -> RecordBatch {
    let times = |time: fn(&Row) -> Option<i64>| -> arrow_array::ArrayRef {
        Arc::new(rows.iter().map(time).collect::<TimestampMillisecondArray>().with_timezone("+00:00"))
    };
    RecordBatch::try_from_iter_with_nullable([
        ("ts", times(|row| row.time), true),
        ("seen", times(|row| Some(row.seen)), true),
        ("usd", Arc::new(rows.iter().map(|row| Some(row.usd)).collect::<Int64Array>()) as _, true),
    ])
    .expect("columns of one length")
}

#[test]
fn the_replay_clock_reads_as_if_it_were_set_before_each_row() {
    let mut numbers = Numbers(7);
    for (idle, rule, name) in [
        (200, Reactivation::WhenCaughtUp, "when-caught-up"),
        (1_000, Reactivation::AtOnce, "at-once"),
        (5_000, Reactivation::WhenCaughtUp, "when-caught-up"),
        (20_000, Reactivation::AtOnce, "at-once"),
    ] {
        let place = Place::new();
        let inputs: Vec<Vec<Row>> = [800, 500, 40].iter().map(|&count| rows(&mut numbers, count)).collect();
        for (rows, name) in inputs.iter().zip(["a.ndjson", "b.ndjson", "c.ndjson"]) {
            let line = |row: &Row| {
                let time = row.time.map_or("null".to_string(), |time| time.to_string());
                format!("{{\"ts\":{time},\"seen\":{},\"usd\":{}}}\n", row.seen, row.usd)
            };
            place.file(name, rows.iter().map(line).collect::<String>());
        }
        let (expected, dropped) = row_by_row(&inputs, idle, rule);
        let flags = format!(
            "--schema ts:timestamp_ms,seen:timestamp_ms --time ts --tumble 10s --bound 5s --lateness 3s --late-firing \
             per-row --ingest-time seen --max-future 1h --idle {idle}ms --reactivation {name} --agg sum(usd)~as~usd \
             --agg count --format csv"
        );
        let ran = place.run(&format!("window a.ndjson b.ndjson c.ndjson {flags}"));
        assert!(ran.err.contains(&format!("{dropped} late, ")), "{dropped} late: {}", ran.err);
        let found: Vec<String> = ran.ok().lines().skip(1).map(str::to_string).collect();
        assert_eq!(found, expected, "idle after {idle} ms, {name}");
        assert!(dropped > 0 || idle > 1_000, "idleness made rows late");
    }
}
