//! Snapshots that say what cannot be, and were sealed all the same.

use arrow_array::cast::AsArray;
use arrow_array::{RecordBatch, StringArray, TimestampMillisecondArray};

use super::*;
use crate::process::{IntervalJoin, MatchPairs, Side, WindowJoin, interval_join, match_pairs, window_join};
use crate::snapshot::forged::forged;
use crate::watermark::{END, WatermarkStrategy};
use crate::{Input, TimeDelta};

const MS: fn(i64) -> TimeDelta = TimeDelta::from_millis;

fn rows(rows: &[(i64, &str)]) -> RecordBatch {
    let times = TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.0));
    let texts = || -> ArrayRef { Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.1))) };
    let columns = [("ts", Arc::new(times) as ArrayRef), ("key", texts()), ("event", texts())];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn input(partitions: usize) -> Input {
    let input = Input::new(rows(&[]).schema()).event_time("ts").key("key").partitions(partitions);
    input.watermark(WatermarkStrategy::ascending())
}

/// Requests of one key each: what the events are called starts them.
fn pairs(partitions: usize) -> ProcessOperator<MatchPairs> {
    let pairs = match_pairs(input(partitions)).event("event", ["a"], ["z"]).start_columns(["event"]);
    pairs.abandon_after(MS(60)).build().unwrap()
}

/// Watermarks 13 and 11; one request of 14 is open until 74.
fn open_pairs() -> ProcessOperator<MatchPairs> {
    let mut operator = pairs(2);
    _ = operator.push(0, &rows(&[(14, "a")])).unwrap();
    _ = operator.push(1, &rows(&[(12, "b")])).unwrap();
    operator
}

fn interval(partitions: usize) -> TwoInputOperator<IntervalJoin> {
    interval_join(input(partitions), input(partitions)).between(MS(0), MS(30)).build().unwrap()
}

fn windows(partitions: usize) -> TwoInputOperator<WindowJoin> {
    window_join(input(partitions), input(partitions)).window(MS(10), MS(0)).build().unwrap()
}

/// Left watermark 10, right one 19; rows of 5 and 11 on the left and of 20 on the right.
fn filled<P: KeyedProcess>(mut operator: TwoInputOperator<P>) -> TwoInputOperator<P> {
    _ = operator.push(Side::Left, 0, &rows(&[(5, "a"), (11, "a")])).unwrap();
    _ = operator.push(Side::Right, 0, &rows(&[(20, "a")])).unwrap();
    operator
}

#[track_caller]
fn refuses<P: KeyedProcess>(
    filled: &Engine<P>,
    empty: Engine<P>,
    (section, path): (&str, &[&str]),
    with: impl Array + 'static,
    expected: &str,
) {
    let file = forged(&filled.description, filled.sections().unwrap(), section, path, &(Arc::new(with) as _));
    let Some(Error::Snapshot { fault, message }) = empty.restored(&file, true).err() else {
        panic!("not an error of snapshots");
    };
    assert_eq!(fault, SnapshotFault::Impossible);
    assert!(message.contains(expected), "{message}");
}

fn times(values: &[i64]) -> Int64Array {
    Int64Array::from(values.to_vec())
}

fn counts(values: &[u64]) -> UInt64Array {
    UInt64Array::from(values.to_vec())
}

#[test]
fn forging_nothing_is_no_forgery() {
    let operator = open_pairs();
    let timers = operator.engine.save_timers(Kind::EventTime, &operator.engine.spots()).unwrap();
    let same = timers.as_struct().column_by_name("time").unwrap().clone();
    assert_eq!(same.as_ref(), &times(&[74]));
    let file =
        forged(&operator.engine.description, operator.engine.sections().unwrap(), "timers", &["time"], &same);
    assert_eq!(file, operator.snapshot().unwrap());
}

#[test]
fn standing_and_counters_must_be_possible() {
    #[track_caller]
    fn refused(section: &str, path: &[&str], with: impl Array + 'static, expected: &str) {
        refuses(&open_pairs().engine, pairs(2).engine, (section, path), with, expected);
    }
    refused("process", &["watermark"], times(&[12]), "the merged watermark cannot be 12");
    refused("process", &["places"], counts(&[u64::MAX]), "places cannot be 18446744073709551615");
    refused("process", &["results"], counts(&[u64::MAX]), "results cannot be");
    refused("process", &["timers_fired"], counts(&[u64::MAX]), "timers_fired cannot be");
    let two = record(vec![("merged_as", Arc::new(times(&[11, 11])) as _)]).unwrap();
    refused("inputs", &[], two, "2 inputs are merged, and there are 1");
    refused("counters", &["count"], counts(&[0, 0, 0, 0, u64::MAX]), "a counter cannot be");
    let names = LargeStringArray::from(vec!["complete", "abandoned", "other", "unmatched", "replaced"]);
    refused("counters", &["name"], names, "its counters are");
    // nobody has taken a snapshot of no partitions, not even to deal them anew
    let none = open_pairs().engine.standing.progress[0].save_partitions().unwrap().slice(0, 0);
    refused("partitions", &[], none, "section \"partitions\" has 0 pieces, and one was expected");
}

#[test]
fn timers_must_be_those_of_a_key() {
    #[track_caller]
    fn refused(column: &str, with: impl Array + 'static, expected: &str) {
        refuses(&open_pairs().engine, pairs(2).engine, ("timers", &[column]), with, expected);
    }
    refused("key", counts(&[1]), "there is no key 1");
    refused("key", counts(&[u64::MAX]), "there is no key");
    // two batches of one row each have taken four places
    refused("event", counts(&[8]), "EventTime timer 0 is not in the order of events");
    let twice = record(vec![
        ("key", Arc::new(counts(&[0, 0])) as _),
        ("time", Arc::new(times(&[74, 74]))),
        ("event", Arc::new(counts(&[1, 1]))),
        ("number", Arc::new(UInt32Array::from(vec![0, 1]))),
    ]);
    refuses(
        &open_pairs().engine,
        pairs(2).engine,
        ("timers", &[]),
        twice.unwrap(),
        "EventTime timer 1 is there twice",
    );
    let keys = record(vec![
        ("key", record(vec![("key", Arc::new(StringArray::from(vec!["b"])) as _)]).unwrap()),
        ("has_timers", Arc::new(BooleanArray::from(vec![true]))),
    ]);
    refuses(
        &open_pairs().engine,
        pairs(2).engine,
        ("keys", &[]),
        keys.unwrap(),
        "a key has neither state nor timers",
    );
}

#[test]
fn states_must_be_those_of_a_process() {
    let (filled_pairs, key) = (open_pairs(), StringArray::from(vec![None::<&str>]));
    let refused = |path: &[&str], with: ArrayRef, expected: &str| {
        refuses(&filled_pairs.engine, pairs(2).engine, ("states", path), with, expected);
    };
    refused(&["state", "started"], Arc::new(Int64Array::from(vec![None])), "column \"started\" has 1 nulls");
    refused(&["state", "row", "event"], Arc::new(key), "column \"event\" has nulls");

    let join = filled(interval(1));
    let refused = |path: &[&str], with: ArrayRef, expected: &str| {
        refuses(&join.engine, interval(1).engine, ("states", path), with, expected);
    };
    refused(&["state", "left", "time"], Arc::new(times(&[11, 5])), "rows are not kept in order of time");
    refused(
        &["state", "arrivals"],
        Arc::new(counts(&[u64::MAX])),
        "18446744073709551615 rows cannot have come",
    );
    let twice = record(vec![("merged_as", Arc::new(times(&[9, 19])) as _)]).unwrap();
    refuses(
        &join.engine,
        interval(1).engine,
        ("inputs", &[]),
        twice,
        "input 0 is at 10 and cannot count as 9",
    );
    let ended = record(vec![("merged_as", Arc::new(times(&[10, END])) as _)]).unwrap();
    refuses(&join.engine, interval(1).engine, ("inputs", &[]), ended, "partition 1 cannot be Active");

    // [0, 10) is over; 11 is in [10, 20), 20 in [20, 30)
    let join = filled(windows(1));
    let refused = |with: &[i64]| {
        let path = &["state", "last"];
        refuses(
            &join.engine,
            windows(1).engine,
            ("states", path),
            times(with),
            "are not the last times of windows",
        );
    };
    refused(&[19, 19]);
    refused(&[18, 29]);
}
