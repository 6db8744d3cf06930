//! Snapshots that say what cannot be, and were sealed all the same.

use super::*;
use crate::watermark::{END, NONE, WatermarkStrategy};
use crate::{Aggregate, TimeDelta, Window};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, LargeBinaryArray, LargeListArray, LargeStringArray,
    RecordBatch, StringArray, TimestampMillisecondArray, UInt8Array, UInt32Array,
};

fn rows(rows: &[(i64, &str)]) -> RecordBatch {
    let times = TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.0));
    let keys = StringArray::from_iter_values(rows.iter().map(|row| row.1));
    RecordBatch::try_from_iter([("ts", Arc::new(times) as ArrayRef), ("key", Arc::new(keys))]).unwrap()
}

fn builder() -> WindowOperatorBuilder {
    WindowOperator::builder(rows(&[]).schema())
        .event_time("ts")
        .key("key")
        .window(Window::tumbling(TimeDelta::from_millis(10)))
        .watermark(WatermarkStrategy::ascending())
        .allowed_lateness(TimeDelta::from_millis(10))
        .partitions(2)
        .aggregate(Aggregate::count_all())
}

/// `[0, 10)` has fired and is kept; `[10, 20)` is open in both lanes. Watermarks are 13 and 11.
fn operator() -> WindowOperator {
    let mut operator = builder().build().unwrap();
    let _ = operator.push(0, &rows(&[(1, "a"), (2, "b"), (14, "a")])).unwrap();
    let _ = operator.push(1, &rows(&[(12, "b")])).unwrap();
    operator
}

/// A whole file in which one column is another.
fn forged(operator: &WindowOperator, section: &str, path: &[&str], with: ArrayRef) -> Vec<u8> {
    let sections = operator.sections().unwrap();
    snapshot::forged::forged(&operator.parts.description, sections, section, path, &with)
}

#[track_caller]
fn refuses(section: &str, path: &[&str], with: impl Array + 'static, expected: &str) {
    refuses_of(&operator(), builder(), section, path, Arc::new(with), expected);
}

#[track_caller]
fn refuses_of(
    operator: &WindowOperator,
    builder: WindowOperatorBuilder,
    section: &str,
    path: &[&str],
    with: ArrayRef,
    expected: &str,
) {
    let forged = forged(operator, section, path, with);
    let Error::Snapshot { fault, message } = builder.restore(&forged).unwrap_err() else {
        panic!("not an error of snapshots");
    };
    assert_eq!(fault, SnapshotFault::Impossible);
    assert!(message.contains(expected), "{message}");
}

fn counts(values: &[u64]) -> UInt64Array {
    UInt64Array::from(values.to_vec())
}

fn times(values: &[i64]) -> Int64Array {
    Int64Array::from(values.to_vec())
}

#[test]
fn forging_nothing_is_no_forgery() {
    let operator = operator();
    let input = operator.progress.save_input().unwrap();
    let same = input.as_struct().column_by_name("arrivals").unwrap().clone();
    assert_eq!(forged(&operator, "input", &["arrivals"], same), operator.snapshot().unwrap());
}

#[test]
fn counters_must_add_up() {
    refuses("partitions", &["taken"], counts(&[2, 1]), "partition 0: rows are not accounted for");
    refuses("partitions", &["late_taken"], counts(&[0, 2]), "partition 1: rows are not accounted for");
    refuses("partitions", &["rejected_null"], counts(&[u64::MAX, 0]), "partition 0: rows are not");
    refuses("input", &["arrivals"], counts(&[5]), "4 rows were accepted, but 5 have arrived");
    refuses("partitions", &["regressions"], counts(&[u64::MAX, u64::MAX]), "more than can be counted");
    refuses("fired", &["fired_late"], counts(&[u64::MAX]), "fired_late cannot be");
    let slots = &["slots", "state", "count", "count"];
    refuses(
        "slices",
        slots,
        counts(&[1, 1, 2, 1]),
        "aggregate count: more rows are counted than have been taken",
    );
}

#[test]
fn watermarks_must_be_those_of_one_merge() {
    refuses("input", &["watermark"], times(&[12]), "partition 1 cannot be Active at 11, aligned: true");
    refuses("input", &["watermark"], times(&[END]), "cannot be Active at 13");
    refuses("partitions", &["watermark"], times(&[END, 11]), "partition 0: it has emitted the end of input");
    refuses("partitions", &["merged_as"], times(&[END, 11]), "partition 0 cannot be Active");
    refuses(
        "partitions",
        &["status"],
        LargeStringArray::from(vec!["active", "asleep"]),
        "no status \"asleep\"",
    );
    refuses(
        "partitions",
        &["status"],
        LargeStringArray::from(vec!["active", "idle"]),
        "partition 1 cannot be Idle",
    );
    let aligned = BooleanArray::from(vec![Some(true), None]);
    refuses("partitions", &["aligned"], aligned, "column \"aligned\" has 1 nulls");
    let generators = LargeBinaryArray::from(vec![None, Some(&[1_u8][..])]);
    refuses(
        "partitions",
        &["generator"],
        generators,
        "partition 1: its watermark is that of another strategy",
    );
    // the merged watermark decides which windows are due
    let mut behind = operator();
    let _ = behind.finish_partition(0).unwrap();
    let forged = forged(&behind, "input", &["watermark"], Arc::new(times(&[NONE])));
    let error = builder().restore(&forged).unwrap_err().to_string();
    assert!(error.contains("its lanes are merged, but no window of it is due"), "{error}");
}

#[test]
fn slices_must_be_open_where_they_are() {
    // lane 0 and lane 1 from 10 on, and the merged one from 0 on
    refuses("slices", &["start"], times(&[11, 10, 0]), "the slice from 11 on: no slice begins there");
    refuses("slices", &["start"], times(&[10, 10, -10]), "the slice from -10 on: it has expired");
    refuses("slices", &["start"], times(&[0, 10, 0]), "the slice from 0 on: its lanes are not merged");
    refuses("slices", &["start"], times(&[10, 10, 10]), "the slice from 10 on: its lanes are merged");
    refuses("slices", &["lane"], UInt8Array::from(vec![0, 1, 2]), "the slice from 0 on: its lanes are not");
    refuses(
        "slices",
        &["slots", "key", "key"],
        StringArray::from(vec!["a", "b", "a", "a"]),
        "slot 1 is that of an earlier",
    );
    let none = snapshot::lists(
        [0, 0, 0],
        operator().sections().unwrap().remove(3).empty.as_struct()["slots"].as_list::<i64>().values().clone(),
    );
    let none: LargeListArray = none.unwrap().as_list::<i64>().clone();
    refuses("slices", &["slots"], none, "it has no keys");
}

#[test]
fn sections_must_be_whole() {
    let operator = operator();
    let write = |sections| {
        let mut file = Vec::new();
        snapshot::write(&mut file, &operator.parts.description, sections).unwrap();
        file
    };
    let refused = |sections, expected: &str| {
        let error = builder().restore(&write(sections)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let sections = || operator.sections().unwrap();
    let without = |name| sections().into_iter().filter(move |section| section.name != name).collect();
    refused(without("fired"), "batch 0: ");
    let mut twice = sections();
    twice[1].pieces = Box::new(sections().remove(1).pieces.chain(sections().remove(1).pieces));
    refused(twice, "section \"partitions\" has 2 pieces, and one was expected");
    let mut empty = sections();
    empty[0].pieces = Box::new(std::iter::empty());
    refused(empty, "section \"input\" has 0 pieces");
    let mut odd = sections();
    let flags = Arc::new(BooleanArray::from(vec![true]));
    odd[2] = Section::whole("fired", record(vec![("fired_on_time", flags)]).unwrap());
    refused(odd, "batch 0: ");
}

#[test]
fn windows_of_keys_must_be_possible() {
    let ms = TimeDelta::from_millis;
    let sessions = || builder().window(Window::session(ms(5))).partitions(1).allowed_lateness(ms(15));
    let mut operator = sessions().build().unwrap();
    // [1, 7) and [20, 25) of a; [19, 24) of b
    let _ = operator.push(0, &rows(&[(1, "a"), (2, "a"), (19, "b"), (20, "a")])).unwrap();
    let refuses = |path: &[&str], with: ArrayRef, expected: &str| {
        refuses_of(&operator, sessions(), "panes", path, with, expected);
    };
    let int = |values: [i64; 3]| -> ArrayRef { Arc::new(times(&values)) };
    refuses(&["first"], int([7, 20, 19]), "the window from 7 to 6: there is no such window");
    refuses(&["first"], int([1, 7, 19]), "the window from 7 to 24: it does not follow the one before");
    refuses(&["last"], int([6, 24, 9]), "there is no such window");
    refuses(&["last"], int([2, 24, 23]), "the window from 1 to 2: it has expired");
    refuses(&["early_at"], int([0, 21, 20]), "the window from 1 to 6: it cannot fire early outside of it");
    let numbers = UInt32Array::from(vec![0, u32::MAX, 0]);
    refuses(&["number"], Arc::new(numbers), "it cannot have fired 4294967295 times");
    refuses(
        &["count"],
        Arc::new(counts(&[2, 3, 0])),
        "the window from 20 to 24: it cannot have counted 3 rows",
    );
    refuses(&["contents", "count", "count"], Arc::new(counts(&[2, 2, 1])), "more rows are counted");
    let none = snapshot::lists(
        [0, 0, 0],
        operator.sections().unwrap()[3].empty.as_struct()["contents"].as_list::<i64>().values().clone(),
    );
    refuses(&["contents"], none.unwrap(), "it cannot be in 0 parts");

    let kept = || builder().evictor(crate::Evictor::count(2));
    let mut operator = kept().build().unwrap();
    let _ = operator.push(0, &rows(&[(1, "a"), (2, "a"), (3, "a")])).unwrap();
    let refuses = |path: &[&str], with: ArrayRef, expected: &str| {
        refuses_of(&operator, kept(), "panes", path, with, expected);
    };
    refuses(
        &["rows"],
        snapshot::lists([3], Arc::new(counts(&[0, 1, 3]))).unwrap(),
        "are not among the 3 that are kept",
    );
    refuses(
        &["rows"],
        snapshot::lists([3], Arc::new(counts(&[0, 2, 2]))).unwrap(),
        "are not among the 3 that are kept",
    );
    refuses(
        &["rows"],
        snapshot::lists([0], Arc::new(counts(&[]))).unwrap(),
        "a window is filled, but has no rows",
    );
    refuses(&["last"], Arc::new(times(&[8])), "the window from 0 to 8: there is no such window");
}
