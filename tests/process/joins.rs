//! Interval and window joins, against pairs of loops.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::TimeUnit;
use highwater::process::{KeyedProcess, Side, TwoInputOperator, interval_join, window_join};
use highwater::watermark::{Cadence, END, NONE, Reactivation, WatermarkStrategy};
use highwater::{Input, TimeDelta};

use crate::common::{Numbers, compare, input, lines, show};

const BOUND: i64 = 10;
const MS: fn(i64) -> TimeDelta = TimeDelta::from_millis;

#[derive(Clone, Debug)]
struct Given {
    side: usize,
    time: i64,
    key: Option<String>,
}

#[derive(Clone, Debug)]
enum Step {
    Row(usize),
    Idle(usize),
    FinishSide(usize),
}

/// Rows of both sides; now and then a side sleeps, and the next of its rows wakes it up.
fn random(seed: u64) -> (Vec<Given>, Vec<Step>) {
    let mut numbers = Numbers::new(seed);
    let (mut rows, mut steps): (Vec<Given>, Vec<Step>) = (vec![], vec![]);
    let mut now = 0;
    while rows.len() < 300 {
        let side = numbers.below(2) as usize;
        for _ in 0..=numbers.below(10) {
            now += numbers.below(4) as i64;
            steps.push(Step::Row(rows.len()));
            rows.push(Given { side, time: now - numbers.below(25) as i64, key: numbers.key(4) });
        }
        if numbers.one_in(8) {
            steps.push(Step::Idle(numbers.below(2) as usize));
        }
    }
    let first = numbers.below(2) as usize;
    steps.extend([
        Step::FinishSide(first),
        Step::Row(rows.len()),
        Step::FinishSide(1 - first),
        Step::Row(rows.len() + 1),
    ]);
    rows.extend([1 - first, first].map(|side| Given { side, time: now, key: numbers.key(1) }));
    (rows, steps)
}

/// The watermark of two sides of one partition each: the lowest of those that are awake, the highest if none is.
struct Sides {
    /// Highest time, asleep, ended.
    sides: [(i64, bool, bool); 2],
    merged: i64,
}

impl Sides {
    fn new() -> Self {
        Sides { sides: [(NONE, false, false); 2], merged: NONE }
    }
    fn row(&mut self, side: usize, time: i64) -> bool {
        let (highest, asleep, _) = &mut self.sides[side];
        (*highest, *asleep) = (time.max(*highest), false);
        self.refresh()
    }
    fn refresh(&mut self) -> bool {
        let own =
            |&(highest, ..): &(i64, bool, bool)| if highest == NONE { NONE } else { highest - BOUND - 1 };
        let left: Vec<_> = self.sides.iter().filter(|side| !side.2).collect();
        let awake = left.iter().filter(|side| !side.1).map(|side| own(side)).min();
        let asleep = left.iter().map(|side| own(side)).max();
        let before = self.merged;
        self.merged = before.max(awake.or(asleep).unwrap_or(END));
        self.merged > before
    }
}

fn batch(rows: &[Given]) -> RecordBatch {
    let times: Int64Array = rows.iter().map(|row| Some(row.time)).collect();
    let keys: StringArray = rows.iter().map(|row| row.key.as_deref()).collect();
    let numbers = Int64Array::from_iter_values(0..rows.len() as i64);
    let columns: [(&str, ArrayRef); 3] =
        [("ts", Arc::new(times)), ("key", Arc::new(keys)), ("number", Arc::new(numbers))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

fn inputs(all: &RecordBatch) -> [Input; 2] {
    let one = || input(all, 1, BOUND).reactivation(Reactivation::AtOnce);
    [one(), one()]
}

/// What a call gave: results, then late rows of the left and the right.
type Answer = [Vec<String>; 3];

fn run<P: KeyedProcess>(
    mut operator: TwoInputOperator<P>,
    all: &RecordBatch,
    (rows, steps): (&[Given], &[Step]),
    numbers: &mut Numbers,
) -> Answer {
    let side = |number: usize| if number == 0 { Side::Left } else { Side::Right };
    let mut answer = Answer::default();
    let longest = 1 + numbers.below(30) as usize;
    let mut at = 0;
    while at < steps.len() {
        let mut call = vec![];
        while let Some(Step::Row(row)) = steps.get(at)
            && (call.is_empty() || !numbers.one_in(3))
        {
            let same =
                |step: &&Step| matches!(step, Step::Row(other) if rows[*other].side == rows[*row].side);
            let length = steps[at..].iter().take(longest).take_while(same).count();
            call.push((side(rows[*row].side), 0, all.slice(*row, length)));
            at += length;
        }
        let output = match steps.get(at) {
            _ if call.len() == 1 => operator.push(call[0].0, 0, &call[0].2),
            _ if !call.is_empty() => operator.push_all(&call),
            Some(Step::Idle(number)) => operator.mark_idle(side(*number), 0),
            Some(Step::FinishSide(number)) => operator.finish_side(side(*number)),
            _ => unreachable!(),
        };
        at += usize::from(call.is_empty());
        let output = output.unwrap();
        for (all, batches) in answer.iter_mut().zip([output.fired, output.left_late, output.right_late]) {
            all.extend(lines(&batches));
        }
        operator.validate();
    }
    let metrics = operator.metrics();
    assert_eq!((metrics.keys, metrics.timers, metrics.watermark), (0, 0, END), "nothing is left");
    for (input, late) in metrics.inputs.iter().zip(&answer[1..]) {
        assert_eq!(input.total.dropped_late, late.len() as u64);
        assert_eq!(input.total.rows_in, input.total.taken + input.total.dropped_late);
    }
    answer
}

fn late_line(number: usize, row: &Given, watermark: i64) -> String {
    format!("{} {} {number} {watermark}", row.time, show(row.key.as_ref()))
}

/// The definition: rows that were not late are remembered for good; only when a left row can have no partner any more
/// is a matter of watermarks.
fn interval_model(rows: &[Given], steps: &[Step], (lower, upper): (i64, i64), outer: bool) -> Answer {
    let mut sides = Sides::new();
    let mut answer = Answer::default();
    let mut taken: Vec<usize> = vec![];
    // left rows without a partner, in order of registration of what says that none will come
    let mut alone: Vec<(i64, usize)> = vec![];
    // one timer for each key and time, whose place is that of its first registration
    let mut timers: Vec<(i64, &Option<String>)> = vec![];
    let show_left =
        |number: usize| format!("{} {} {number}", show(rows[number].key.as_ref()), rows[number].time);
    for step in steps {
        let rises = match step {
            Step::Row(number) => {
                let (row, watermark) = (&rows[*number], sides.merged);
                if watermark != NONE && row.time <= watermark {
                    answer[1 + row.side].push(late_line(*number, row, watermark));
                } else {
                    let partners: Vec<usize> = taken
                        .iter()
                        .copied()
                        .filter(|&other| rows[other].side != row.side && rows[other].key == row.key)
                        .filter(|&other| {
                            let later = (rows[other].time - row.time) * if row.side == 0 { 1 } else { -1 };
                            (lower..=upper).contains(&later)
                        })
                        .collect();
                    for &other in &partners {
                        let (left, right) = if row.side == 0 { (*number, other) } else { (other, *number) };
                        alone.retain(|(_, alone)| *alone != left);
                        answer[0].push(format!("{} {} {right}", show_left(left), rows[right].time));
                    }
                    let last = row.time + if row.side == 0 { upper } else { -lower };
                    let over = watermark != NONE && last <= watermark;
                    if !over && !timers.contains(&(last, &row.key)) {
                        timers.push((last, &row.key));
                    }
                    match row.side == 0 && outer && partners.is_empty() {
                        true if over => answer[0].push(format!("{} - -", show_left(*number))),
                        true => alone.push((last, *number)),
                        false => {}
                    }
                    taken.push(*number);
                }
                sides.row(row.side, row.time)
            }
            Step::Idle(side) => {
                sides.sides[*side].1 = true;
                sides.refresh()
            }
            Step::FinishSide(side) => {
                sides.sides[*side].2 = true;
                sides.refresh()
            }
        };
        while rises && let Some(time) = timers.iter().map(|t| t.0).filter(|&time| time <= sides.merged).min()
        {
            let (_, key) = timers.remove(timers.iter().position(|timer| timer.0 == time).unwrap());
            let over = |(last, number): &(i64, usize)| *last == time && rows[*number].key == *key;
            answer[0]
                .extend(alone.iter().filter(|one| over(one)).map(|one| format!("{} - -", show_left(one.1))));
            alone.retain(|one| !over(one));
        }
    }
    answer
}

#[test]
fn interval_joins_are_those_of_the_definition() {
    let (mut outer_alone, mut pairs, mut late) = (0, 0, 0);
    for seed in 0..15 {
        let (rows, steps) = random(seed);
        let all = batch(&rows);
        for (number, bounds) in [(-8, 6), (0, 0), (3, 12), (-30, -5)].into_iter().enumerate() {
            for outer in [false, true] {
                let expected = interval_model(&rows, &steps, bounds, outer);
                late += expected[1].len() + expected[2].len();
                pairs += expected[0].len();
                outer_alone += expected[0].iter().filter(|line| line.ends_with("- -")).count();
                for threads in 1..=4 {
                    let [left, right] = inputs(&all);
                    let builder =
                        interval_join(left, right).between(MS(bounds.0), MS(bounds.1)).threads(threads);
                    let builder = if outer { builder.left_outer() } else { builder };
                    let mut numbers = Numbers::new(seed * 100 + number as u64 * 10 + threads as u64);
                    let found = run(builder.build().unwrap(), &all, (&rows, &steps), &mut numbers);
                    for (what, (found, expected)) in
                        ["results", "left late", "right late"].iter().zip(found.iter().zip(&expected))
                    {
                        let what =
                            format!("seed {seed}, {bounds:?}, outer {outer}, {threads} threads, {what}");
                        compare(&what, found, expected);
                    }
                }
            }
        }
    }
    assert!(outer_alone > 500 && pairs > 5_000 && late > 500, "{outer_alone} {pairs} {late}");
}

fn window_model(rows: &[Given], steps: &[Step], (size, offset): (i64, i64)) -> Answer {
    let mut sides = Sides::new();
    let mut answer = Answer::default();
    let start = |time: i64| (time - offset).div_euclid(size) * size + offset;
    // windows in order of appearance of their key
    let mut open: Vec<(i64, &Option<String>)> = vec![];
    let mut taken: BTreeMap<(i64, &Option<String>), [Vec<usize>; 2]> = BTreeMap::new();
    for step in steps {
        let rises = match step {
            Step::Row(number) => {
                let (row, watermark) = (&rows[*number], sides.merged);
                let window = (start(row.time), &row.key);
                if watermark != NONE && window.0 + size - 1 <= watermark {
                    answer[1 + row.side].push(late_line(*number, row, watermark));
                } else {
                    if !open.contains(&window) {
                        open.push(window);
                    }
                    taken.entry(window).or_default()[row.side].push(*number);
                }
                sides.row(row.side, row.time)
            }
            Step::Idle(side) => {
                sides.sides[*side].1 = true;
                sides.refresh()
            }
            Step::FinishSide(side) => {
                sides.sides[*side].2 = true;
                sides.refresh()
            }
        };
        let is_over = |window: &(i64, &Option<String>), merged: i64| window.0 + size - 1 <= merged;
        while rises
            && let Some(first) = open.iter().map(|w| w.0).filter(|s| s + size - 1 <= sides.merged).min()
        {
            let at = open.iter().position(|window| window.0 == first).unwrap();
            let window = open.remove(at);
            assert!(is_over(&window, sides.merged));
            let [left, right] = taken.remove(&window).unwrap();
            for left in left {
                for right in &right {
                    let key = show(window.1.as_ref());
                    answer[0].push(format!("{key} {first} {} {left} {right}", first + size));
                }
            }
        }
    }
    answer
}

#[test]
fn window_joins_are_those_of_the_definition() {
    let (mut pairs, mut late) = (0, 0);
    for seed in 0..15 {
        let (rows, steps) = random(seed);
        let all = batch(&rows);
        for (number, window) in [(20, 0), (7, -3), (1, 0), (1_000, 5)].into_iter().enumerate() {
            let expected = window_model(&rows, &steps, window);
            late += expected[1].len() + expected[2].len();
            pairs += expected[0].len();
            for threads in 1..=4 {
                let [left, right] = inputs(&all);
                let operator = window_join(left, right)
                    .window(MS(window.0), MS(window.1))
                    .left_columns(["number"])
                    .right_columns(["number"])
                    .threads(threads)
                    .build()
                    .unwrap();
                let names =
                    operator.output_schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
                assert_eq!(names, ["key", "window_start", "window_end", "left_number", "right_number"]);
                let mut numbers = Numbers::new(seed * 100 + number as u64 * 10 + threads as u64);
                let found = run(operator, &all, (&rows, &steps), &mut numbers);
                for (what, (found, expected)) in
                    ["results", "left late", "right late"].iter().zip(found.iter().zip(&expected))
                {
                    compare(&format!("seed {seed}, {window:?}, {threads} threads, {what}"), found, expected);
                }
            }
        }
    }
    assert!(pairs > 5_000 && late > 500, "{pairs} {late}");
}

#[test]
fn inputs_that_are_not_alike_are_refused() {
    let all = batch(&random(1).0);
    let [left, right] = inputs(&all);
    let error = |left: &Input, right: &Input| {
        let built = interval_join(left.clone(), right.clone()).between(MS(0), MS(1)).build();
        built.unwrap_err().to_string()
    };
    let seconds = right.clone().event_time_unit(TimeUnit::Second).watermark(WatermarkStrategy::ascending());
    assert_eq!(
        error(&left, &seconds),
        "event_time: ts of the right input, a second is not allowed: a millisecond, as on the left"
    );
    let other_key = Input::new(all.schema())
        .event_time("ts")
        .event_time_unit(TimeUnit::Millisecond)
        .key("number")
        .watermark(WatermarkStrategy::ascending());
    assert_eq!(
        error(&left, &other_key),
        "key: (Int64) of the right input is not allowed: (Utf8), as on the left"
    );
    let wrong = interval_join(left.clone(), right.clone()).between(MS(2), MS(1)).build().unwrap_err();
    assert_eq!(wrong.to_string(), "between: 2ms is not allowed: a lower bound up to the upper one, 1ms");
    let wrong = interval_join(left.clone(), right.clone()).build().unwrap_err();
    assert!(wrong.to_string().contains("between: nothing"), "{wrong}");
    let twice = window_join(left, right).window(MS(1), MS(0)).left_columns(["number", "number"]).build();
    assert!(
        twice
            .unwrap_err()
            .to_string()
            .contains("left_columns: \"number\" twice is not allowed: each column once")
    );
}

/// The partners of a right row at the lowest time + 13 would be 20 to 59 earlier: there is no such time, and the lowest one
/// is none of them. At the top it is the same for left rows.
#[test]
fn nothing_is_near_a_time_beyond_the_ends() {
    let given = |side, time| Given { side, time, key: None };
    let all =
        batch(&[given(0, i64::MIN), given(1, i64::MIN + 13), given(0, i64::MAX - 13), given(1, i64::MAX)]);
    let mut operator =
        interval_join(input(&all, 1, BOUND), input(&all, 1, BOUND)).between(MS(20), MS(59)).build().unwrap();
    for (side, row) in [(Side::Left, 0), (Side::Right, 1), (Side::Left, 2), (Side::Right, 3)] {
        assert!(operator.push(side, 0, &all.slice(row, 1)).unwrap().is_empty());
        operator.validate();
    }
    assert!(operator.finish().unwrap().is_empty());
    assert_eq!(operator.metrics().keys, 0);
}

/// The left side sleeps with a row at 50, and the right one has ended: the merged watermark is 50 - 10 - 1, for right rows too.
#[test]
fn rows_of_a_side_that_has_ended_are_judged_like_any_others() {
    let given = |side, time| Given { side, time, key: None };
    let all = batch(&[given(0, 50), given(1, 45), given(1, 39)]);
    let [left, right] = inputs(&all);
    let mut operator = interval_join(left, right).between(MS(-20), MS(20)).build().unwrap();
    assert!(operator.push(Side::Left, 0, &all.slice(0, 1)).unwrap().is_empty());
    assert!(operator.mark_idle(Side::Left, 0).unwrap().is_empty());
    assert!(operator.finish_side(Side::Right).unwrap().is_empty());
    assert_eq!(operator.current_watermark(), 39);
    let output = operator.push(Side::Right, 0, &all.slice(1, 2)).unwrap();
    assert_eq!((output.fired[0].num_rows(), lines(&output.right_late)), (1, vec!["39 - 2 39".into()]));
    operator.validate();
}

/// A batch that takes an idle input back in has one end, however its rows are looked at: its watermark, 20 - 1, comes behind all
/// of them.
#[test]
fn a_batch_that_wakes_an_input_has_one_end() {
    let given = |time| Given { side: 0, time, key: None };
    let all = batch(&[given(10), given(5), given(20), given(6)]);
    for rule in [Reactivation::AtOnce, Reactivation::WhenCaughtUp] {
        let input = || input(&all, 1, 0).cadence(Cadence::EveryBatch).reactivation(rule);
        let mut operator = interval_join(input(), input()).between(MS(0), MS(20)).build().unwrap();
        for side in [Side::Left, Side::Right] {
            assert!(operator.mark_idle(side, 0).unwrap().is_empty());
        }
        assert!(operator.push(Side::Left, 0, &all).unwrap().is_empty(), "none is late");
        assert_eq!(
            (operator.current_watermark(), operator.metrics().inputs[0].partitions[0].rows.taken),
            (19, 4)
        );
        operator.validate();
    }
}
