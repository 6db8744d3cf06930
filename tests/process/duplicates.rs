//! Duplicates within a horizon, and within a window.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use highwater::process::{DeduplicateBuilder, deduplicate};
use highwater::watermark::NONE;
use highwater::{Output, TimeDelta};

use crate::common::{Marks, Numbers, compare, cut, input, lines, show};

const PARTITIONS: usize = 2;
const BOUND: i64 = 15;
const MS: fn(i64) -> TimeDelta = TimeDelta::from_millis;

#[derive(Clone, Copy, Debug)]
enum Scope {
    Horizon(i64),
    Window(i64, i64),
}

#[derive(Clone, Debug)]
struct Given {
    partition: usize,
    time: i64,
    key: Option<String>,
}

fn random(seed: u64) -> Vec<Given> {
    let mut numbers = Numbers::new(seed);
    let (mut now, mut partition) = (-300, 0);
    let mut row = |_| {
        now += numbers.below(3) as i64;
        if numbers.one_in(6) {
            partition = numbers.below(PARTITIONS as u64) as usize;
        }
        Given { partition, time: now - numbers.below(45) as i64, key: numbers.key(8) }
    };
    (0..600).map(&mut row).collect()
}

fn batch(rows: &[Given]) -> RecordBatch {
    let times: Int64Array = rows.iter().map(|row| Some(row.time)).collect();
    let keys: StringArray = rows.iter().map(|row| row.key.as_deref()).collect();
    let numbers = Int64Array::from_iter_values(0..rows.len() as i64);
    let columns: [(&str, ArrayRef); 3] =
        [("ts", Arc::new(times)), ("key", Arc::new(keys)), ("number", Arc::new(numbers))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// The definition: what has passed is remembered for good, and only the rows that may be duplicates of something forgotten are
/// handed back.
fn model(rows: &[Given], scope: Scope, lateness: i64) -> (Vec<String>, Vec<String>, u64) {
    let mut marks = Marks::new(PARTITIONS, BOUND);
    let mut passed: BTreeMap<&Option<String>, Vec<i64>> = BTreeMap::new();
    let (mut results, mut late, mut duplicates) = (vec![], vec![], 0);
    for (number, Given { partition, time, key }) in rows.iter().enumerate() {
        let (time, watermark) = (*time, marks.merged);
        let known = passed.entry(key).or_default();
        // what matters up to the watermark is forgotten
        let kept = known
            .iter()
            .copied()
            .filter(|&before| watermark == NONE || last(scope, before) + lateness > watermark);
        let duplicate = kept.into_iter().any(|before| match scope {
            Scope::Horizon(horizon) => (before - time).abs() < horizon,
            Scope::Window(..) => last(scope, before) == last(scope, time),
        });
        let over = match scope {
            Scope::Horizon(_) => time,
            Scope::Window(..) => last(scope, time),
        };
        if duplicate {
            duplicates += 1;
        } else if watermark != NONE && over + lateness <= watermark {
            late.push(format!("{time} {} {number} {watermark}", show(key.as_ref())));
        } else {
            results.push(format!("{time} {} {number}", show(key.as_ref())));
            known.push(time);
        }
        marks.row(*partition, time);
    }
    (results, late, duplicates)
}

/// The last time at which a row that has passed can have a duplicate that is not late.
fn last(scope: Scope, time: i64) -> i64 {
    match scope {
        Scope::Horizon(horizon) => time + horizon - 1,
        Scope::Window(size, offset) => (time - offset).div_euclid(size) * size + offset + size - 1,
    }
}

fn run(
    all: &RecordBatch,
    rows: &[Given],
    builder: DeduplicateBuilder,
    seed: u64,
) -> (Vec<String>, Vec<String>, u64) {
    let mut operator = builder.build().unwrap();
    let mut numbers = Numbers::new(seed);
    let partitions: Vec<usize> = rows.iter().map(|row| row.partition).collect();
    let (mut results, mut late) = (vec![], vec![]);
    let longest = 1 + numbers.below(60);
    for call in cut(&partitions, &mut numbers, longest) {
        let call: Vec<_> =
            call.into_iter().map(|(p, range)| (p, all.slice(range.start, range.len()))).collect();
        let Output { fired, late: back, .. } = operator.push_all(&call).unwrap();
        results.extend(lines(&fired));
        late.extend(lines(&back));
        operator.validate();
    }
    assert_eq!(operator.output_schema(), all.schema());
    assert!(operator.finish().unwrap().is_empty());
    let metrics = operator.metrics();
    assert_eq!((metrics.keys, metrics.timers), (0, 0), "nothing is left");
    assert_eq!(metrics.counter("passed"), Some(results.len() as u64));
    (results, late, metrics.counter("duplicates").unwrap())
}

#[test]
fn what_passes_is_what_the_definition_lets_pass() {
    let (mut back, mut repeated) = (0, 0);
    for seed in 0..20 {
        let rows = random(seed);
        let all = batch(&rows);
        for (scope, lateness) in [
            (Scope::Horizon(20), 0),
            (Scope::Horizon(20), 9),
            (Scope::Horizon(1), 0),
            (Scope::Window(25, -7), 0),
            (Scope::Window(10, 0), 4),
            (Scope::Window(1, 0), 0),
        ] {
            let (results, late, duplicates) = model(&rows, scope, lateness);
            (back, repeated) = (back + late.len(), repeated + duplicates);
            for threads in 1..=4 {
                let builder = deduplicate(input(&all, PARTITIONS, BOUND)).threads(threads);
                let builder = builder.allowed_lateness(MS(lateness));
                let builder = match scope {
                    Scope::Horizon(horizon) => builder.within(MS(horizon)),
                    Scope::Window(size, offset) => builder.in_window(MS(size), MS(offset)),
                };
                let found = run(&all, &rows, builder, 50 * seed + threads as u64);
                let what = format!("seed {seed}, {threads} threads, {scope:?}, {lateness}");
                compare(&what, &found.0, &results);
                compare(&format!("{what}, late"), &found.1, &late);
                assert_eq!(found.2, duplicates, "{what}");
            }
        }
    }
    assert!(back > 1_000 && repeated > 1_000, "{back} late, {repeated} duplicates");
}

#[test]
fn a_scope_is_a_positive_whole_number_of_ticks() {
    let all = batch(&random(1));
    let error = |builder: DeduplicateBuilder| builder.build().unwrap_err().to_string();
    let plain = || deduplicate(input(&all, 1, 0));
    assert_eq!(error(plain()), "deduplicate: nothing is not allowed: within or in_window");
    assert!(error(plain().within(TimeDelta::ZERO)).contains("horizon: 0s is not allowed"));
    assert!(
        error(plain().in_window(TimeDelta::from_micros(1), TimeDelta::ZERO)).contains("window size: 1us")
    );
}

#[test]
fn both_ends_of_time_have_their_duplicates() {
    let rows: Vec<Given> = [i64::MIN, i64::MIN, -1, 0, i64::MAX, i64::MAX - 1, i64::MAX]
        .map(|time| Given { partition: 0, time, key: None })
        .to_vec();
    let all = batch(&rows);
    let input = input(&all, 1, 0);
    let mut operator = deduplicate(input).within(MS(2)).build().unwrap();
    // -1 and 0 are one apart; the watermark after MAX is MAX - 1, and MAX - 1 repeats MAX
    let output = operator.push(0, &all).unwrap();
    let passed: Vec<String> = lines(&output.fired);
    let expected = [(i64::MIN, 0), (-1, 2), (i64::MAX, 4)].map(|(time, number)| format!("{time} - {number}"));
    assert_eq!(passed, expected);
    assert_eq!(operator.metrics().counter("duplicates"), Some(4));
    assert!(operator.finish().unwrap().is_empty());
    assert_eq!(operator.metrics().keys, 0);
}
