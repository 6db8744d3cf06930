//! A process that does everything that a process can, against a list of timers.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use highwater::process::{Keyed, KeyedProcess, ProcessMetrics, ProcessOperator, Results, Row, Rows, Timer};
use highwater::watermark::NONE;
use highwater::{Error, Output, Result};

use crate::common::{Marks, Numbers, compare, cut, input, lines, show};

#[derive(Clone, Debug, Default, PartialEq)]
struct Count {
    events: i64,
    fires: i64,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Row { time: i64, arg: i64 },
    Timer(i64),
    Clock(i64),
}

#[derive(Clone, Copy, Debug)]
enum Do {
    Register(i64),
    Delete(i64),
    RegisterClock(i64),
    DeleteClock(i64),
    Touch,
    Clear,
    Emit,
    HandBack,
}

/// What happens at an event: the same for engine and model.
fn act(event: Event, fires: i64) -> Vec<Do> {
    use Do::*;
    match event {
        Event::Row { time, arg } => match arg.rem_euclid(9) {
            0 => vec![Touch, Register(time + arg % 50), Emit],
            1 => vec![Register(time - 20), Register(time - 21)],
            2 => vec![Delete(time + arg % 50), Delete(time - 20)],
            3 => vec![Touch, Emit],
            4 => vec![Clear],
            5 => vec![RegisterClock(arg % 200), Register(time + 1)],
            6 => vec![Emit, HandBack],
            7 => vec![Touch, Register(time + 5), Register(time + 10), Register(time + 10), Emit],
            _ => vec![DeleteClock(arg % 200), Register(time)],
        },
        Event::Timer(time) if fires < 6 => match time.rem_euclid(5) {
            0 => vec![Touch, Register(time), Emit],
            1 => vec![Touch, Emit, Register(time + 3), Register(time + 34)],
            2 => vec![Touch, Delete(time + 1), Register(time - 7), Emit],
            3 => vec![Emit, Clear],
            _ => vec![RegisterClock(time + 20), Emit],
        },
        Event::Timer(_) => vec![Emit, Clear],
        Event::Clock(time) if time % 2 == 0 => vec![Emit, Register(time), Delete(time + 1)],
        Event::Clock(time) => vec![Emit, Register(time), RegisterClock(time - 7), RegisterClock(time + 7)],
    }
}

fn line(event: Event, watermark: i64, count: &Count) -> [i64; 5] {
    let (kind, time) = match event {
        Event::Row { time, .. } => (0, time),
        Event::Timer(time) => (1, time),
        Event::Clock(time) => (2, time),
    };
    [kind, time, watermark, count.events, count.fires]
}

/// Fails at rows whose argument is this, after having changed everything.
const POISON: i64 = i64::MIN;

struct Everything;

impl Everything {
    fn act(event: Event, key: &mut Keyed<'_, Self>) -> bool {
        let fires = key.peek().map_or(0, |count| count.fires);
        let mut hand_back = false;
        for action in act(event, fires) {
            match action {
                Do::Register(time) => _ = key.register_timer(time),
                Do::Delete(time) => _ = key.delete_timer(time),
                Do::RegisterClock(time) => _ = key.register_clock_timer(time),
                Do::DeleteClock(time) => _ = key.delete_clock_timer(time),
                Do::Touch => {
                    key.state().events += 1;
                    key.state().fires += i64::from(matches!(event, Event::Timer(_)));
                    key.count(0);
                }
                Do::Clear => key.clear(),
                Do::Emit => {
                    let count = key.peek().cloned().unwrap_or_default();
                    key.emit(line(event, key.watermark(), &count));
                }
                Do::HandBack => hand_back = true,
            }
        }
        hand_back
    }
}

impl KeyedProcess for Everything {
    type State = Count;
    type Output = [i64; 5];

    fn output_schema(&self, _: &[SchemaRef]) -> Result<SchemaRef> {
        let fields = ["kind", "time", "watermark", "events", "fires"];
        let fields = fields.map(|name| Field::new(name, DataType::Int64, false));
        Ok(Arc::new(Schema::new(fields.to_vec())))
    }

    fn counters(&self) -> &'static [&'static str] {
        &["touched"]
    }

    fn rows(&self, rows: &mut Rows<'_, Self>) -> Result<()> {
        let args = rows.batch()["arg"].as_primitive::<Int64Type>();
        while let Some(mut row) = rows.next()? {
            let arg = args.value(row.index);
            let poison = arg == POISON;
            let event = Event::Row { time: row.time, arg: if poison { 7 } else { arg } };
            let hand_back = Everything::act(event, &mut row.key);
            if poison {
                return Err(Error::Process { message: format!("poison in row {}", row.index) });
            }
            if hand_back {
                Row::hand_back(row);
            }
        }
        Ok(())
    }

    fn timer(&self, timer: Timer, key: &mut Keyed<'_, Self>) -> Result<()> {
        Everything::act(Event::Timer(timer.time), key);
        Ok(())
    }

    fn clock_timer(&self, timer: Timer, key: &mut Keyed<'_, Self>) -> Result<()> {
        Everything::act(Event::Clock(timer.time), key);
        Ok(())
    }

    fn results(&self, outputs: Vec<[i64; 5]>, _: &Results<'_>) -> Result<Vec<ArrayRef>> {
        let column = |column| outputs.iter().map(|line| line[column]).collect::<Vec<i64>>();
        Ok((0..5).map(|number| Arc::new(Int64Array::from(column(number))) as ArrayRef).collect())
    }
}

/// The definition: everything happens one after the other, and timers are a list in order of registration.
struct Model {
    marks: Marks,
    clock: i64,
    states: BTreeMap<Option<String>, Count>,
    /// Of event time, and of the clock.
    timers: [Vec<(i64, Option<String>)>; 2],
    touched: u64,
    fired: u64,
    results: Vec<String>,
    late: Vec<String>,
}

impl Model {
    fn event(&mut self, event: Event, key: &Option<String>) -> bool {
        let mut hand_back = false;
        for action in act(event, self.states.get(key).map_or(0, |count| count.fires)) {
            let (kind, time) = match action {
                Do::Register(time) | Do::Delete(time) => (0, time),
                Do::RegisterClock(time) | Do::DeleteClock(time) => (1, time),
                _ => (0, 0),
            };
            let (timers, timer) = (&mut self.timers[kind], (time, key.clone()));
            match action {
                Do::Register(_) | Do::RegisterClock(_) if timers.contains(&timer) => {}
                Do::Register(_) | Do::RegisterClock(_) => timers.push(timer),
                Do::Delete(_) | Do::DeleteClock(_) => timers.retain(|known| *known != timer),
                Do::Touch => {
                    let count = self.states.entry(key.clone()).or_default();
                    count.events += 1;
                    count.fires += i64::from(matches!(event, Event::Timer(_)));
                    self.touched += 1;
                }
                Do::Clear => _ = self.states.remove(key),
                Do::Emit => {
                    let count = self.states.get(key).cloned().unwrap_or_default();
                    let cells = line(event, self.marks.merged, &count).map(|cell| cell.to_string());
                    self.results.push(format!("{} {}", show(key.as_ref()), cells.join(" ")));
                }
                Do::HandBack => hand_back = true,
            }
        }
        hand_back
    }

    fn fire(&mut self, kind: usize, due: i64) {
        while let Some(time) = self.timers[kind].iter().map(|timer| timer.0).filter(|&time| time <= due).min()
        {
            let first = self.timers[kind].iter().position(|timer| timer.0 == time).unwrap();
            let (_, key) = self.timers[kind].remove(first);
            self.fired += 1;
            self.event(if kind == 0 { Event::Timer(time) } else { Event::Clock(time) }, &key);
        }
    }

    fn step(&mut self, step: &Step, rows: &[Given]) {
        let rises = match step {
            Step::Row(row) => {
                let Given { partition, time, key, arg } = &rows[*row];
                if self.event(Event::Row { time: *time, arg: *arg }, key) {
                    self.late.push(format!("{time} {} {arg} {}", show(key.as_ref()), self.marks.merged));
                }
                self.marks.row(*partition, *time)
            }
            Step::Clock(now) => {
                if *now > self.clock {
                    self.clock = *now;
                    self.fire(1, *now);
                }
                false
            }
            Step::Finish(partition) => self.marks.finish(*partition),
        };
        if rises {
            self.fire(0, self.marks.merged);
        }
    }
}

#[derive(Clone, Debug)]
struct Given {
    partition: usize,
    time: i64,
    key: Option<String>,
    arg: i64,
}

#[derive(Clone, Debug)]
enum Step {
    Row(usize),
    Clock(i64),
    Finish(usize),
}

const PARTITIONS: usize = 3;
const BOUND: i64 = 12;

fn batch(rows: &[Given]) -> RecordBatch {
    let ints = |get: fn(&Given) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from(rows.iter().map(get).collect::<Vec<_>>()))
    };
    let keys: StringArray = rows.iter().map(|row| row.key.as_deref()).collect();
    let columns = [("ts", ints(|row| row.time)), ("key", Arc::new(keys) as _), ("arg", ints(|row| row.arg))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// Rows in runs of one partition, with the clock and ends in between.
fn random(seed: u64) -> (Vec<Given>, Vec<Step>) {
    let mut numbers = Numbers::new(seed);
    let (mut rows, mut steps): (Vec<Given>, Vec<Step>) = (vec![], vec![]);
    let (mut now, mut clock) = (0, 0);
    for _ in 0..60 {
        let partition = numbers.below(PARTITIONS as u64) as usize;
        for _ in 0..=numbers.below(12) {
            now += numbers.below(5) as i64;
            let time = now - numbers.below(25) as i64;
            let (key, arg) = (numbers.key(5), numbers.below(1_000) as i64);
            steps.push(Step::Row(rows.len()));
            rows.push(Given { partition, time, key, arg });
        }
        if numbers.one_in(3) {
            clock += numbers.below(15) as i64 - 3;
            steps.push(Step::Clock(clock));
        }
    }
    steps.extend((0..PARTITIONS).map(Step::Finish));
    steps.push(Step::Row(rows.len()));
    rows.push(Given { partition: 0, time: now, key: numbers.key(5), arg: 6 });
    (rows, steps)
}

fn model(rows: &[Given], steps: &[Step]) -> Model {
    let mut model = Model {
        marks: Marks::new(PARTITIONS, BOUND),
        clock: NONE,
        states: BTreeMap::new(),
        timers: [vec![], vec![]],
        touched: 0,
        fired: 0,
        results: vec![],
        late: vec![],
    };
    steps.iter().for_each(|step| model.step(step, rows));
    model
}

/// Drives the engine over the steps, rows cut at random; `poison` tries calls that fail in between.
fn run(
    (rows, steps): (&[Given], &[Step]),
    threads: usize,
    numbers: &mut Numbers,
    poison: bool,
) -> (Vec<String>, Vec<String>, ProcessMetrics) {
    let all = batch(rows);
    let input = input(&all, PARTITIONS, BOUND);
    let mut operator = ProcessOperator::builder(Everything, input).threads(threads).build().unwrap();
    let (mut results, mut late) = (vec![], vec![]);
    let mut take = |output: Output| {
        results.extend(lines(&output.fired));
        late.extend(lines(&output.late));
    };
    let longest = 1 + numbers.below(40);
    let mut at = 0;
    while at < steps.len() {
        let first = match steps[at] {
            Step::Row(row) => row,
            Step::Clock(now) => {
                take(operator.advance_clock(now).unwrap());
                at += 1;
                continue;
            }
            Step::Finish(partition) => {
                take(operator.finish_partition(partition).unwrap());
                at += 1;
                continue;
            }
        };
        let run = steps[at..].iter().take_while(|step| matches!(step, Step::Row(_))).count();
        let partitions: Vec<usize> = rows[first..first + run].iter().map(|row| row.partition).collect();
        for call in cut(&partitions, numbers, longest) {
            if poison && numbers.one_in(2) {
                fails_without_a_trace(&mut operator, &all, numbers);
            }
            let batches: Vec<(usize, RecordBatch)> = call
                .iter()
                .map(|(partition, range)| (*partition, all.slice(first + range.start, range.len())))
                .collect();
            take(match batches.as_slice() {
                [(partition, batch)] => operator.push(*partition, batch).unwrap(),
                _ => operator.push_all(&batches).unwrap(),
            });
            operator.validate();
        }
        at += run;
    }
    (results, late, operator.metrics())
}

/// Pushes rows that change everything and then fail.
fn fails_without_a_trace(
    operator: &mut ProcessOperator<Everything>,
    all: &RecordBatch,
    numbers: &mut Numbers,
) {
    let before = operator.metrics();
    let mut times = vec![];
    let (mut keys, mut args) = (vec![], vec![]);
    // also at the end of input, when nothing is to be moved any more
    let highest = before.watermark.clamp(0, 1_000_000) + 40;
    for _ in 0..20 {
        times.push(highest + numbers.below(30) as i64);
        keys.push(if numbers.one_in(4) { Some("new".into()) } else { numbers.key(5) });
        args.push(numbers.below(1_000) as i64);
    }
    args.push(POISON);
    times.push(highest);
    keys.push(Some("key-1".into()));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(times)),
        Arc::new(keys.into_iter().collect::<StringArray>()),
        Arc::new(Int64Array::from(args)),
    ];
    let bad = RecordBatch::try_new(all.schema(), columns).unwrap();
    let calls: Vec<(usize, RecordBatch)> = (0..PARTITIONS)
        .map(|partition| (partition, bad.slice(0, 20)))
        .chain([(1, bad.slice(10, 11))])
        .collect();
    let error = operator.push_all(&calls).unwrap_err();
    assert_eq!(error, Error::Process { message: "poison in row 10".into() });
    let after = operator.metrics();
    // room that was made is not state
    let bare = |metrics: ProcessMetrics| format!("{metrics:?}").split("state_bytes").next().map(String::from);
    assert_eq!(bare(after), bare(before));
    operator.validate();
}

#[test]
fn any_cut_and_any_number_of_threads_gives_what_the_definition_gives() {
    for seed in 0..25 {
        let (rows, steps) = random(seed);
        let model = model(&rows, &steps);
        assert!(model.results.len() > 300 && model.late.len() > 10 && model.fired > 100, "{}", model.fired);
        for threads in 1..=4 {
            for poison in [false, true] {
                let mut numbers = Numbers::new(1_000 + seed * 8 + threads as u64);
                let what = format!("seed {seed}, {threads} threads, poison {poison}");
                let (results, late, metrics) = run((&rows, &steps), threads, &mut numbers, poison);
                compare(&what, &results, &model.results);
                compare(&format!("{what}, late"), &late, &model.late);
                check_metrics(&metrics, &model, rows.len());
            }
        }
    }
}

fn check_metrics(metrics: &ProcessMetrics, model: &Model, rows: usize) {
    let [timers, clock_timers] = &model.timers;
    let mut keys: Vec<_> =
        model.states.keys().chain(timers.iter().chain(clock_timers).map(|t| &t.1)).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(metrics.keys, keys.len());
    assert_eq!((metrics.timers, metrics.clock_timers), (timers.len(), clock_timers.len()));
    assert_eq!((metrics.timers_fired, metrics.results), (model.fired, model.results.len() as u64));
    assert_eq!(metrics.counter("touched"), Some(model.touched));
    let total = metrics.inputs[0].total;
    assert_eq!(total.rows_in, rows as u64);
    assert_eq!(total.dropped_late, model.late.len() as u64);
    assert_eq!(total.taken, (rows - model.late.len()) as u64);
}
