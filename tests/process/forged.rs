//! Snapshots of operators with a process that are cut off, changed, or something else: each is refused by an error that says so, or,
//! if somebody has sealed it again, makes an operator that can be used.
#![expect(clippy::panic, reason = "a test that panics has found something")]

use std::io::Cursor;
use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use highwater::process::{
    IntervalJoinBuilder, KeyedProcess, ProcessOperator, Side, TwoInputOperator, interval_join, match_pairs,
    window_join,
};
use highwater::watermark::WatermarkStrategy;
use highwater::{Aggregate, Error, Result, SnapshotFault, TimeDelta, Window, WindowOperator};

use crate::common::input;
use crate::snapshots::{PARTITIONS, Saved, chain, duplicates, rows};

const MS: fn(i64) -> TimeDelta = TimeDelta::from_millis;

fn fault<T>(result: Result<T>) -> (SnapshotFault, String) {
    match result.err().unwrap() {
        Error::Snapshot { fault, message } => (fault, message),
        other => panic!("not an error of snapshots: {other}"),
    }
}

/// Where the checksum of a file is.
fn checksum_in(file: &[u8]) -> Range<usize> {
    let reader = FileReader::try_new(Cursor::new(file), None).unwrap();
    let digits = reader.custom_metadata()["highwater.checksum"].clone().into_bytes();
    let start = file.windows(digits.len()).rposition(|bytes| bytes == digits).unwrap();
    start..start + digits.len()
}

/// Makes the checksum fit.
fn seal(file: &mut [u8], place: &Range<usize>) {
    file[place.clone()].fill(b'0');
    let sum = crc32fast::hash(file);
    file[place.clone()].copy_from_slice(format!("{sum:08x}").as_bytes());
}

/// Cuts a file at every seventh byte and within its end, and flips each `every`-th bit of it. `restore` makes an operator of it, and uses it.
fn bits_count(snapshot: &[u8], every: usize, restore: impl Fn(&[u8]) -> Result<()>) {
    use SnapshotFault::{Configuration, Damaged, Foreign, Impossible, Newer};
    restore(snapshot).unwrap();
    let cuts = (0..snapshot.len()).filter(|length| length % 7 == 0 || length + 300 > snapshot.len());
    for length in cuts {
        let (fault, message) = fault(restore(&snapshot[..length]));
        let expected = if length < 6 { Foreign } else { Damaged };
        assert_eq!(fault, expected, "cut after {length}: {message}");
    }
    let place = checksum_in(snapshot);
    let mut impossible = 0;
    for bit in (0..8 * snapshot.len()).step_by(every) {
        let mut flipped = snapshot.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (stale, message) = fault(restore(&flipped));
        assert!(matches!(stale, Damaged | Foreign), "bit {bit}: {message}");
        seal(&mut flipped, &place);
        if let Err(error) = restore(&flipped) {
            let (sealed, message) = fault::<()>(Err(error));
            let refused = matches!(sealed, Damaged | Foreign | Newer | Configuration | Impossible);
            assert!(refused, "bit {bit}: {message}");
            impossible += usize::from(sealed == Impossible);
        }
    }
    assert!(impossible > 20, "{impossible} changed files were found to be impossible");
}

fn used<P: KeyedProcess>(operator: Result<ProcessOperator<P>>) -> Result<()> {
    let mut operator = operator?;
    operator.validate();
    // whatever they give, or refuse
    _ = operator.push(1, &rows());
    _ = operator.advance_clock(1_000);
    _ = operator.finish();
    operator.validate();
    operator.snapshot().map(drop)
}

fn used_with_two<P: KeyedProcess>(operator: Result<TwoInputOperator<P>>) -> Result<()> {
    let mut operator = operator?;
    operator.validate();
    _ = operator.push(Side::Right, 1, &rows());
    _ = operator.push(Side::Left, 0, &rows());
    _ = operator.finish();
    operator.validate();
    operator.snapshot().map(drop)
}

fn join() -> IntervalJoinBuilder {
    let input = || input(&rows(), PARTITIONS, 8);
    interval_join(input(), input()).between(MS(-20), MS(30))
}

#[test]
fn bits_of_states_and_timers_count() {
    let mut operator = chain(Saved::AsNumbers, 1);
    _ = operator.push(0, &rows()).unwrap();
    _ = operator.advance_clock(-10).unwrap();
    assert!(operator.metrics().timers > 0 && operator.metrics().clock_timers > 0);
    bits_count(&operator.snapshot().unwrap(), 31, |file| used(chain(Saved::AsNumbers, 1).restore(file)));
}

#[test]
fn bits_of_the_ready_made_count() {
    let pairs = || {
        let pairs = match_pairs(input(&rows(), PARTITIONS, 8)).event("event", ["start"], ["end"]);
        pairs.abandon_after(MS(60)).start_columns(["note"]).build().unwrap()
    };
    let mut operator = pairs();
    _ = operator.push(0, &rows()).unwrap();
    bits_count(&operator.snapshot().unwrap(), 101, |file| used(pairs().restore(file)));

    let mut operator = duplicates(30).build().unwrap();
    _ = operator.push(0, &rows()).unwrap();
    bits_count(&operator.snapshot().unwrap(), 101, |file| {
        used(duplicates(30).build().unwrap().restore(file))
    });

    let mut operator = join().build().unwrap();
    _ = operator.push(Side::Left, 0, &rows()).unwrap();
    _ = operator.push(Side::Right, 1, &rows()).unwrap();
    let restore = |file: &[u8]| used_with_two(join().build().unwrap().restore(file));
    bits_count(&operator.snapshot().unwrap(), 211, restore);

    let join = || {
        let input = || input(&rows(), PARTITIONS, 8);
        window_join(input(), input()).window(MS(40), MS(7)).build().unwrap()
    };
    let mut operator = join();
    _ = operator.push(Side::Left, 0, &rows()).unwrap();
    _ = operator.push(Side::Right, 1, &rows()).unwrap();
    bits_count(&operator.snapshot().unwrap(), 211, |file| used_with_two(join().restore(file)));
}

#[test]
fn other_files_are_told_apart() {
    let restore = |file: &[u8]| fault(duplicates(30).build().unwrap().restore(file));
    assert_eq!(restore(b"").0, SnapshotFault::Foreign);
    assert_eq!(restore(b"PAR1 and so on").0, SnapshotFault::Foreign);
    let mut arrow = Vec::new();
    let mut writer = FileWriter::try_new(&mut arrow, &rows().schema()).unwrap();
    writer.write(&rows()).unwrap();
    writer.finish().unwrap();
    drop(writer);
    assert_eq!(restore(&arrow).0, SnapshotFault::Foreign);

    let mut newer = duplicates(30).build().unwrap().snapshot().unwrap();
    let place = checksum_in(&newer);
    // the version is a text of one byte
    let one = [1, 0, 0, 0, b'1', 0];
    let places: Vec<usize> =
        (0..newer.len() - one.len()).filter(|&at| newer[at..].starts_with(&one)).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| newer[at + 4] = b'2');
    seal(&mut newer, &place);
    let (fault, message) = restore(&newer);
    assert_eq!(fault, SnapshotFault::Newer);
    assert_eq!(message, "format version 2 is newer than 1, the newest known here");
}

#[test]
fn windows_and_processes_do_not_take_each_others_files() {
    let windows = || {
        WindowOperator::builder(rows().schema())
            .event_time("ts")
            .event_time_unit(arrow_schema::TimeUnit::Millisecond)
            .key("key")
            .partitions(PARTITIONS)
            .watermark(WatermarkStrategy::bounded_out_of_orderness(MS(8)))
            .window(Window::tumbling(MS(10)))
            .aggregate(Aggregate::count_all())
    };
    let of_windows = windows().build().unwrap().snapshot().unwrap();
    let (found, message) = fault(duplicates(30).build().unwrap().restore(&of_windows));
    assert_eq!(found, SnapshotFault::Configuration);
    assert!(message.contains("here, but \"window: tumbling 10ms\" when the snapshot was taken"), "{message}");
    let of_process = duplicates(30).build().unwrap().snapshot().unwrap();
    let (found, message) = fault(windows().restore(&of_process));
    assert_eq!(found, SnapshotFault::Configuration);
    assert!(message.starts_with("\"window: tumbling 10ms\" here, but"), "{message}");
    // one input or two
    let (found, _) = fault(join().build().unwrap().restore(&of_process));
    assert_eq!(found, SnapshotFault::Configuration);
}

#[test]
fn keys_and_states_of_another_type_are_refused() {
    let snapshot = duplicates(30).build().unwrap().snapshot().unwrap();
    let numbered = RecordBatch::try_from_iter_with_nullable([
        ("ts", rows()["ts"].clone(), true),
        ("key", rows()["note"].clone(), true),
        ("event", rows()["event"].clone(), true),
        ("note", rows()["note"].clone(), true),
    ]);
    let other = highwater::process::deduplicate(input(&numbered.unwrap(), PARTITIONS, 8));
    let other = other.within(MS(30)).allowed_lateness(MS(20)).build().unwrap();
    let (found, message) = fault(other.restore(&snapshot));
    assert_eq!(found, SnapshotFault::Configuration);
    assert!(message.contains("\"key\" Int64 here, but was \"key\" Utf8"), "{message}");

    let mut operator = chain(Saved::AsNumbers, 1);
    _ = operator.push(0, &rows()).unwrap();
    let (found, message) = fault(chain(Saved::AsTexts, 1).restore(&operator.snapshot().unwrap()));
    assert_eq!(found, SnapshotFault::Impossible, "{message}");
}
