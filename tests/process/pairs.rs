//! Pairs of start and end rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray};
use highwater::process::{MatchPairs, MatchPairsBuilder, ProcessOperator, match_pairs};
use highwater::{Error, TimeDelta};

use crate::common::{Marks, Numbers, compare, cut, input, lines, show};

const TIMEOUT: i64 = 30;
const PARTITIONS: usize = 2;
const BOUND: i64 = 8;

#[derive(Clone, Debug)]
struct Given {
    partition: usize,
    time: i64,
    key: Option<String>,
    event: Option<&'static str>,
    /// What both rows bring along.
    note: i64,
}

fn random(seed: u64) -> Vec<Given> {
    let mut numbers = Numbers::new(seed);
    let mut now = 0;
    let mut partition = 0;
    let events = [Some("start"), Some("start"), Some("end"), Some("end"), Some("ping"), None];
    (0..600)
        .map(|note| {
            now += numbers.below(4) as i64;
            if numbers.one_in(5) {
                partition = numbers.below(PARTITIONS as u64) as usize;
            }
            let time = now - numbers.below(40) as i64;
            let kinds = if numbers.one_in(4) { 6 } else { 4 };
            let event = events[numbers.below(kinds) as usize];
            Given { partition, time, key: numbers.key(12), event, note }
        })
        .collect()
}

fn batch(rows: &[Given]) -> RecordBatch {
    let ints = |get: fn(&Given) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from(rows.iter().map(get).collect::<Vec<_>>()))
    };
    let keys: StringArray = rows.iter().map(|row| row.key.as_deref()).collect();
    let events: DictionaryArray<Int8Type> = rows.iter().map(|row| row.event).collect();
    let columns = [
        ("ts", ints(|row| row.time)),
        ("key", Arc::new(keys) as ArrayRef),
        ("event", Arc::new(events) as _),
        ("note", ints(|row| row.note)),
        ("status", ints(|row| row.note + 1_000)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

#[derive(Default)]
struct Counts {
    complete: u64,
    abandoned: u64,
    replaced: u64,
    unmatched: u64,
    other: u64,
}

/// The definition: a record is `key note(start) status(start) note(end) started ended status`.
fn model(rows: &[Given]) -> (Vec<String>, Counts) {
    let mut marks = Marks::new(PARTITIONS, BOUND);
    let mut open: BTreeMap<&Option<String>, &Given> = BTreeMap::new();
    let mut timers: Vec<(i64, &Option<String>)> = vec![];
    let (mut records, mut counts) = (vec![], Counts::default());
    for step in 0..=rows.len() + 1 {
        let rises = match rows.get(step) {
            None => marks.finish(step - rows.len()),
            Some(row) => {
                match row.event {
                    Some("start") => {
                        let timer = (row.time + TIMEOUT, &row.key);
                        if !timers.contains(&timer) {
                            timers.push(timer);
                        }
                        counts.replaced += u64::from(open.insert(&row.key, row).is_some());
                    }
                    Some("end") => match open.remove(&row.key) {
                        Some(start) => {
                            timers.retain(|timer| *timer != (start.time + TIMEOUT, &row.key));
                            records.push(format!(
                                "{} {} {}",
                                record(start),
                                row.note,
                                ended(start, Some(row.time))
                            ));
                            counts.complete += 1;
                        }
                        None => counts.unmatched += 1,
                    },
                    _ => counts.other += 1,
                }
                marks.row(row.partition, row.time)
            }
        };
        while rises && let Some(time) = timers.iter().map(|t| t.0).filter(|&time| time <= marks.merged).min()
        {
            let (_, key) = timers.remove(timers.iter().position(|timer| timer.0 == time).unwrap());
            if let Some(start) = open.get(key).copied().filter(|start| start.time + TIMEOUT == time) {
                open.remove(key);
                records.push(format!("{} - {}", record(start), ended(start, None)));
                counts.abandoned += 1;
            }
        }
    }
    assert!(open.is_empty());
    (records, counts)
}

fn record(start: &Given) -> String {
    format!("{} {} {}", show(start.key.as_ref()), start.note, start.note + 1_000)
}

fn ended(start: &Given, ended: Option<i64>) -> String {
    let status = if ended.is_some() { "complete" } else { "abandoned" };
    format!("{} {} {status}", start.time, show(ended))
}

fn builder(all: &RecordBatch) -> MatchPairsBuilder {
    match_pairs(input(all, PARTITIONS, BOUND))
        .event("event", ["start"], ["end"])
        .abandon_after(TimeDelta::from_millis(TIMEOUT))
        .start_columns(["note", "status"])
        .end_columns(["note"])
}

fn run(
    all: &RecordBatch,
    rows: &[Given],
    threads: usize,
    seed: u64,
) -> (Vec<String>, ProcessOperator<MatchPairs>) {
    let mut operator = builder(all).threads(threads).build().unwrap();
    let mut numbers = Numbers::new(seed);
    let partitions: Vec<usize> = rows.iter().map(|row| row.partition).collect();
    let mut records = vec![];
    let longest = 1 + numbers.below(60);
    for call in cut(&partitions, &mut numbers, longest) {
        let call: Vec<_> =
            call.into_iter().map(|(p, range)| (p, all.slice(range.start, range.len()))).collect();
        records.extend(lines(&operator.push_all(&call).unwrap().fired));
        operator.validate();
    }
    for partition in 0..PARTITIONS {
        records.extend(lines(&operator.finish_partition(partition).unwrap().fired));
    }
    (records, operator)
}

#[test]
fn pairs_are_those_of_the_definition() {
    let mut totals = [0; 3];
    for seed in 0..20 {
        let rows = random(seed);
        let (records, counts) = model(&rows);
        totals = [totals[0] + counts.complete, totals[1] + counts.abandoned, totals[2] + counts.replaced];
        let all = batch(&rows);
        for threads in 1..=4 {
            let (found, operator) = run(&all, &rows, threads, 50 * seed + threads as u64);
            compare(&format!("seed {seed}, {threads} threads"), &found, &records);
            let metrics = operator.metrics();
            let Counts { complete, abandoned, replaced, unmatched, other } = counts;
            let expected = [complete, abandoned, replaced, unmatched, other];
            assert_eq!(metrics.counters.iter().map(|counter| counter.1).collect::<Vec<_>>(), expected);
            assert_eq!((metrics.keys, metrics.timers), (0, 0), "nothing is left");
        }
    }
    assert!(totals.iter().all(|&total| total > 500), "{totals:?}");
}

#[test]
fn clashing_names_get_their_sides_prefix() {
    let operator = builder(&batch(&random(1))).build().unwrap();
    let schema = operator.output_schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["key", "start_note", "start_status", "end_note", "started", "ended", "status"]);
}

#[test]
fn what_cannot_be_is_refused() {
    let all = batch(&random(1));
    let error = |builder: MatchPairsBuilder| builder.build().unwrap_err().to_string();
    let plain = || match_pairs(input(&all, 1, 0));
    assert!(error(plain()).contains("event: nothing is not allowed"));
    assert!(error(plain().event("event", ["a"], ["b"])).contains("abandon_after: nothing is not allowed"));
    let same = plain().event("event", ["a", "b"], ["c", "b"]).abandon_after(TimeDelta::from_secs(1));
    assert!(
        error(same)
            .contains("event: \"b\" for start and end is not allowed: values that are one or the other")
    );
    let none = plain().event("event", ["a"], [""; 0]).abandon_after(TimeDelta::from_secs(1));
    assert!(error(none).contains("event: nothing is not allowed: values of starts and of ends"));
    assert!(matches!(
        builder(&all).event("note", ["a"], ["b"]).build().unwrap_err(),
        Error::ColumnType { column, .. } if column == "note"
    ));
    assert!(matches!(
        builder(&all).end_columns(["nothing"]).build().unwrap_err(),
        Error::UnknownColumn { parameter, .. } if parameter == "end_columns"
    ));
    assert!(error(builder(&all).abandon_after(TimeDelta::from_secs(-1))).contains("abandon_after: -1s"));
    assert!(error(builder(&all).abandon_after(TimeDelta::from_micros(1))).contains("whole number of ticks"));
    assert!(error(builder(&all).start_columns(["note"])).contains("start_columns: \"note\""));
    assert!(error(builder(&all).threads(0)).contains("threads: 0"));
}
