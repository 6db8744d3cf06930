//! Snapshots: a run that is saved and restored between any two calls, by any number of threads, goes on as if nothing had
//! happened.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use highwater::process::{
    Deduplicate, Keyed, KeyedProcess, ProcessOperator, Results, Rows, Side, Timer, TwoInputOperator,
    deduplicate, interval_join, match_pairs, window_join,
};
use highwater::watermark::{PartitionStatus, Reactivation};
use highwater::{Error, Result, SnapshotFault, TimeDelta};

use crate::common::{Numbers, counted, input, lines};

pub(crate) const PARTITIONS: usize = 2;
const MS: fn(i64) -> TimeDelta = TimeDelta::from_millis;

/// Rows around a time that rises with the number of the call.
fn batch(numbers: &mut Numbers, call: usize) -> RecordBatch {
    let rows = 1 + numbers.below(12) as usize;
    let now = 10 * call as i64;
    let times: ArrayRef =
        Arc::new((0..rows).map(|_| Some(now - numbers.below(40) as i64)).collect::<Int64Array>());
    let keys: ArrayRef = Arc::new((0..rows).map(|_| numbers.key(9)).collect::<StringArray>());
    let events = (0..rows).map(|_| ["start", "end", "ping"][numbers.below(3) as usize]);
    let events: ArrayRef = Arc::new(StringArray::from_iter_values(events));
    let notes: ArrayRef =
        Arc::new((0..rows).map(|_| Some(numbers.below(1_000) as i64)).collect::<Int64Array>());
    let columns = [("ts", times), ("key", keys), ("event", events), ("note", notes)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// One call with everything that it gives, as text.
fn one_input<P: KeyedProcess>(
    operator: &mut ProcessOperator<P>,
    numbers: &mut Numbers,
    call: usize,
) -> String {
    let output = match numbers.below(8) {
        0 => operator.advance_clock(10 * call as i64),
        1 => operator.mark_idle(numbers.below(PARTITIONS as u64) as usize),
        _ => {
            let batches: Vec<_> =
                (0..PARTITIONS).map(|partition| (partition, batch(numbers, call))).collect();
            operator.push_all(&batches)
        }
    };
    let output = output.unwrap();
    operator.validate();
    format!("{:?} {:?} {:?}", lines(&output.fired), lines(&output.late), counted(operator.metrics()))
}

/// Runs `calls` calls; before each, `between` may put another operator into the place of the first.
fn run<O>(
    mut operator: O,
    seed: u64,
    call: impl Fn(&mut O, &mut Numbers, usize) -> String,
    mut between: impl FnMut(O, usize) -> O,
) -> Vec<String> {
    let mut numbers = Numbers::new(seed);
    let mut all = Vec::new();
    for number in 0..60 {
        operator = between(operator, number);
        all.push(call(&mut operator, &mut numbers, number));
    }
    all
}

fn goes_on<P: KeyedProcess>(build: impl Fn(usize) -> ProcessOperator<P>) {
    for seed in 0..8 {
        let expected = run(build(1), seed, one_input, |operator, _| operator);
        for threads in [1, 3] {
            let found = run(build(2), seed, one_input, |operator, number| {
                let snapshot = operator.snapshot().unwrap();
                assert_eq!(operator.snapshot().unwrap().len(), snapshot.len());
                let restored = build(if number % 2 == 0 { threads } else { 2 }).restore(&snapshot).unwrap();
                assert_eq!(
                    counted(restored.metrics()),
                    counted(operator.metrics()),
                    "seed {seed}, call {number}"
                );
                restored
            });
            assert_eq!(found, expected, "seed {seed}, {threads} threads");
        }
    }
}

fn goes_on_with_two<P: KeyedProcess>(build: impl Fn(usize) -> TwoInputOperator<P>) {
    let call = |operator: &mut TwoInputOperator<P>, numbers: &mut Numbers, call: usize| {
        let side = [Side::Left, Side::Right][numbers.below(2) as usize];
        let partition = numbers.below(PARTITIONS as u64) as usize;
        let output = match numbers.below(8) {
            0 => operator.mark_idle(side, partition),
            _ => operator.push(side, partition, &batch(numbers, call)),
        };
        let output = output.unwrap();
        operator.validate();
        let late = [lines(&output.left_late), lines(&output.right_late)];
        format!("{:?} {late:?} {:?}", lines(&output.fired), counted(operator.metrics()))
    };
    for seed in 0..8 {
        let expected = run(build(1), seed, call, |operator, _| operator);
        assert!(expected.iter().any(|line| !line.starts_with("[]")), "seed {seed}: something is joined");
        let found = run(build(1), seed, call, |operator, number| {
            build(1 + number % 3).restore(&operator.snapshot().unwrap()).unwrap()
        });
        assert_eq!(found, expected, "seed {seed}");
    }
}

pub(crate) fn rows() -> RecordBatch {
    batch(&mut Numbers::new(1), 0)
}

#[test]
fn pairs_and_duplicates_go_on() {
    goes_on(|threads| {
        let pairs = match_pairs(input(&rows(), PARTITIONS, 8)).event("event", ["start"], ["end"]);
        let pairs = pairs.abandon_after(MS(60)).start_columns(["note"]).end_columns(["note"]);
        pairs.threads(threads).build().unwrap()
    });
    goes_on(|threads| {
        // no columns of the start row are kept
        let pairs = match_pairs(input(&rows(), PARTITIONS, 8)).event("event", ["start"], ["end"]);
        pairs.abandon_after(MS(60)).threads(threads).build().unwrap()
    });
    goes_on(|threads| duplicates(30).threads(threads).build().unwrap());
}

pub(crate) fn duplicates(horizon: i64) -> highwater::process::DeduplicateBuilder {
    deduplicate(input(&rows(), PARTITIONS, 8)).within(MS(horizon)).allowed_lateness(MS(20))
}

#[test]
fn joins_go_on() {
    let both = || (input(&rows(), PARTITIONS, 8), input(&rows(), PARTITIONS, 8));
    goes_on_with_two(|threads| {
        let (left, right) = both();
        interval_join(left, right).between(MS(-20), MS(30)).left_outer().threads(threads).build().unwrap()
    });
    goes_on_with_two(|threads| {
        let (left, right) = both();
        window_join(left, right).window(MS(40), MS(7)).threads(threads).build().unwrap()
    });
}

/// Timers of both kinds, some registered within firings; keys that have timers and no state.
pub(crate) struct Chain {
    saved: Saved,
}

/// How the states of a [`Chain`] are saved.
#[derive(Clone, Copy)]
pub(crate) enum Saved {
    Not,
    AsNumbers,
    AsTexts,
}

impl KeyedProcess for Chain {
    type State = i64;
    type Output = i64;

    fn output_schema(&self, _: &[SchemaRef]) -> Result<SchemaRef> {
        Ok(Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)])))
    }

    fn counters(&self) -> &'static [&'static str] {
        &["rows", "firings"]
    }

    fn rows(&self, rows: &mut Rows<'_, Self>) -> Result<()> {
        while let Some(mut row) = rows.next()? {
            row.key.count(0);
            row.key.register_timer(row.time + 20);
            row.key.register_clock_timer(row.time + 35);
            if row.time % 3 == 0 {
                let count = row.key.state();
                *count = count.wrapping_add(1);
            }
        }
        Ok(())
    }

    fn timer(&self, timer: Timer, key: &mut Keyed<'_, Self>) -> Result<()> {
        key.count(1);
        if let Some(count) = key.peek().copied() {
            key.emit(timer.time.wrapping_mul(100).wrapping_add(count));
            // whatever count and time have been made of it, the chain has an end
            if (0..20).contains(&count) {
                *key.state() += 1;
                key.register_timer(timer.time.saturating_add(7 - count % 3));
            }
            if timer.time % 2 == 0 {
                key.clear();
            }
        } else {
            key.emit(timer.time);
        }
        Ok(())
    }

    fn clock_timer(&self, timer: Timer, key: &mut Keyed<'_, Self>) -> Result<()> {
        key.emit(timer.time.wrapping_neg());
        key.register_timer(timer.time);
        Ok(())
    }

    fn results(&self, outputs: Vec<i64>, _: &Results<'_>) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(Int64Array::from(outputs))])
    }

    fn save(&self, states: &[&i64]) -> Result<ArrayRef> {
        match self.saved {
            Saved::AsNumbers => {
                Ok(Arc::new(Int64Array::from_iter_values(states.iter().map(|state| **state))))
            }
            Saved::AsTexts => {
                Ok(Arc::new(StringArray::from_iter_values(states.iter().map(|state| state.to_string()))))
            }
            Saved::Not => Err(Error::Process { message: "not this one".into() }),
        }
    }

    fn restore(&self, saved: &ArrayRef) -> Result<Vec<i64>> {
        let saved = saved.as_any().downcast_ref::<Int64Array>();
        let saved = saved.ok_or_else(|| Error::Process { message: "numbers were expected".into() })?;
        Ok(saved.values().to_vec())
    }
}

pub(crate) fn chain(saved: Saved, threads: usize) -> ProcessOperator<Chain> {
    let input = input(&rows(), PARTITIONS, 8);
    ProcessOperator::builder(Chain { saved }, input).threads(threads).build().unwrap()
}

#[test]
fn timers_go_on_in_their_order() {
    goes_on(|threads| chain(Saved::AsNumbers, threads));
}

#[test]
fn what_cannot_be_restored_is_an_error() {
    let refused = |result: Result<ProcessOperator<Deduplicate>>| match result.err().unwrap() {
        Error::Snapshot { fault, message } => (fault, message),
        other => panic!("not an error of snapshots: {other}"),
    };
    let mut operator = duplicates(30).build().unwrap();
    _ = operator.push(0, &rows()).unwrap();
    let snapshot = operator.snapshot().unwrap();
    let (fault, message) = refused(duplicates(31).build().unwrap().restore(&snapshot));
    assert_eq!(fault, SnapshotFault::Configuration);
    assert!(message.starts_with("process is duplicates: Horizon(31)"), "{message}");
    let other = deduplicate(input(&rows(), 3, 8)).within(MS(30)).allowed_lateness(MS(20)).build().unwrap();
    assert_eq!(refused(other.restore(&snapshot)).0, SnapshotFault::Configuration);
    let unsaved = chain(Saved::Not, 1).snapshot().unwrap_err();
    assert!(unsaved.to_string().contains("not this one"), "{unsaved}");
}

/// One row of the schema of [`rows`].
fn row(time: i64, key: &str, event: &str) -> RecordBatch {
    let columns: [(&str, ArrayRef); 4] = [
        ("ts", Arc::new(Int64Array::from(vec![time]))),
        ("key", Arc::new(StringArray::from(vec![key]))),
        ("event", Arc::new(StringArray::from(vec![event]))),
        ("note", Arc::new(Int64Array::from(vec![time]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// Watermarks are a row's time - 8 - 1. Three requests are open until 160, 140 and 100; the partition of the third sleeps at 31, so the
/// merged watermark is 71.
#[test]
fn partitions_dealt_anew_take_minima() {
    let build = |partitions| {
        let input = input(&rows(), partitions, 8).reactivation(Reactivation::AtOnce);
        match_pairs(input).event("event", ["start"], ["end"]).abandon_after(MS(60)).build().unwrap()
    };
    let mut operator = build(3);
    for (partition, time, key) in [(0, 100, "r1"), (1, 80, "r2"), (2, 40, "r3")] {
        assert!(operator.push(partition, &row(time, key, "start")).unwrap().is_empty());
    }
    assert!(operator.mark_idle(2).unwrap().is_empty());
    assert_eq!(operator.current_watermark(), 71);
    let snapshot = operator.snapshot().unwrap();
    let refused = build(2).restore(&snapshot).unwrap_err().to_string();
    assert!(refused.contains("partitions is 2 here, but was 3 when the snapshot was taken"), "{refused}");
    for partitions in [1, 2, 5] {
        let mut dealt = build(partitions).restore_repartitioned(&snapshot).unwrap();
        dealt.validate();
        assert_eq!((dealt.current_watermark(), dealt.metrics().timers), (71, 3));
        for (number, partition) in dealt.metrics().inputs[0].partitions.iter().enumerate() {
            assert_eq!((partition.watermark, partition.status), (31, PartitionStatus::Active));
            assert_eq!(partition.rows.taken, if number == 0 { 3 } else { 0 });
        }
        // the end of r2 may come on any partition; 117 - 9 = 108 is enough for r3 when all are there
        let mut results = Vec::new();
        for partition in (0..partitions).rev() {
            assert_eq!(dealt.current_watermark(), 71);
            let end = if partition == partitions - 1 { "r2" } else { "nobody" };
            results.extend(lines(&dealt.push(partition, &row(117, end, "end")).unwrap().fired));
        }
        assert_eq!(dealt.current_watermark(), 108);
        results.extend(lines(&dealt.finish().unwrap().fired));
        assert_eq!(results, ["r2 80 117 complete", "r3 40 - abandoned", "r1 100 - abandoned"]);
        dealt.validate();
    }
}

/// Left watermarks are 91, 61 and 51, right ones 81 and 41: so it is 41 for both.
#[test]
fn both_inputs_of_a_join_may_be_dealt_anew() {
    let build = |[left, right]: [usize; 2]| {
        let input = |partitions| input(&rows(), partitions, 8).reactivation(Reactivation::AtOnce);
        let join = interval_join(input(left), input(right)).between(MS(-20), MS(30));
        join.left_columns(["ts"]).right_columns(["ts"]).build().unwrap()
    };
    let mut operator = build([3, 2]);
    for (partition, time) in [(0, 100), (1, 70), (2, 60)] {
        assert!(operator.push(Side::Left, partition, &row(time, "a", "")).unwrap().is_empty());
    }
    let pairs = operator.push(Side::Right, 0, &row(90, "a", "")).unwrap();
    assert_eq!(lines(&pairs.fired), ["a 100 90", "a 70 90", "a 60 90"]);
    let pairs = operator.push(Side::Right, 1, &row(50, "a", "")).unwrap();
    assert_eq!(lines(&pairs.fired), ["a 70 50", "a 60 50"]);
    assert_eq!(operator.current_watermark(), 41);
    let snapshot = operator.snapshot().unwrap();
    let refused = build([3, 4]).restore(&snapshot).unwrap_err().to_string();
    assert!(refused.contains("partitions is 4 here, but was 2 when the snapshot was taken"), "{refused}");
    for [left, right] in [[1, 4], [5, 1], [3, 3], [2, 2]] {
        let mut dealt = build([left, right]).restore_repartitioned(&snapshot).unwrap();
        dealt.validate();
        let own = |input: usize| -> Vec<i64> {
            dealt.metrics().inputs[input].partitions.iter().map(|partition| partition.watermark).collect()
        };
        assert_eq!(own(0), if left == 3 { vec![91, 61, 51] } else { vec![51; left] });
        assert_eq!(own(1), if right == 2 { vec![81, 41] } else { vec![41; right] });
        // 200 - 9 = 191 on the left: the right holds it at 41
        for partition in 0..left {
            assert!(dealt.push(Side::Left, partition, &row(200, "a", "")).unwrap().is_empty());
        }
        let pairs = dealt.push(Side::Right, right - 1, &row(45, "a", "")).unwrap();
        assert_eq!((lines(&pairs.fired), dealt.current_watermark()), (vec!["a 60 45".into()], 41));
        // 150 - 9 = 141: 130 is the last partner of 100, so nothing is left of the three
        for partition in 0..right {
            assert!(dealt.push(Side::Right, partition, &row(150, "a", "")).unwrap().is_empty());
        }
        let output = dealt.push(Side::Right, 0, &row(141, "a", "")).unwrap();
        assert_eq!((output.fired.len(), output.right_late[0].num_rows()), (0, 1));
        // 200 waits until 230, and 150 until 170
        assert_eq!((dealt.current_watermark(), dealt.metrics().timers), (141, 2));
        dealt.validate();
    }
}
