//! What must come out: one row after the other, and nothing that an engine would do.
//!
//! Watermarks are those of an [`Oracle`] for each input, whose windows nobody asks for. In pseudo-code:
//!
//! ```text
//! for each row of each batch:
//!     W := the merged watermark
//!     show the row to its input's oracle, which rejects it or moves the input's watermark
//!     unless it was rejected: do with it what is done with rows, at W
//!     if the merged watermark has risen: fire what it has reached
//! clock: fire clock timers that it has reached, then what idle partitions have set free
//! ```

use std::collections::BTreeMap;

use highwater_oracle::{
    Counters, Dedup, DedupWithin, IntervalJoin, MAX, Merge, NONE, Op, Oracle, Pairs, Reactivation, Row, Side,
    Timers, Value, Verdict, WindowJoin, Windows,
};

use super::case::{Call, ProcessCase, Task};
use super::script::{Count, Do, Event, act, result};

/// What a call gives, as plain rows. Rows are told by their running number in their input.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) results: Vec<Vec<Value>>,
    /// Input, row, and the watermark that it lost to.
    pub(crate) late: Vec<(usize, u64, i64)>,
    pub(crate) rejected: Vec<(usize, u64)>,
}

#[derive(Clone)]
pub(crate) struct Model {
    job: Job,
    inputs: Vec<Oracle>,
    partitions: Vec<usize>,
    /// The running number of the next row of each input.
    next: Vec<u64>,
    merge: Merge,
    pub(crate) watermark: i64,
    clock: Option<i64>,
}

/// What is done with rows.
#[derive(Clone)]
enum Job {
    Script(Script),
    /// Pairs, and the numbers of the rows that start or end something.
    Pairs(Pairs, Vec<u64>),
    Deduplicate(Passing, [u64; 2]),
    /// A join, the numbers of the rows of each side, and whether left rows without a partner are asked for.
    Interval(IntervalJoin, [Vec<u64>; 2], bool),
    Window(WindowJoin, [Vec<u64>; 2]),
}

/// What lets first rows pass; how many have passed, and how many were duplicates, is counted beside it.
#[derive(Clone)]
enum Passing {
    InWindow(Dedup),
    Within(DedupWithin),
}

/// A row on its way.
struct Given<'a> {
    input: usize,
    id: u64,
    time: i64,
    row: &'a Row,
    watermark: i64,
}

/// Rows that were not rejected.
fn accepted(counters: &Counters) -> u64 {
    counters.rows_in - counters.rejected_null - counters.rejected_future - counters.rejected_reference
}

fn int(number: u64) -> Value {
    Value::Int(number as i64)
}

fn tumbling(size: i64, offset: i64) -> Windows {
    Windows::Aligned { size, slide: size, offset }
}

impl Model {
    pub(crate) fn new(case: &ProcessCase) -> Model {
        let job = match case.task {
            Task::Script => Job::Script(Script::default()),
            Task::Pairs { timeout } => Job::Pairs(Pairs::new(timeout), vec![]),
            Task::Deduplicate { size, offset, lateness } => {
                let dedup = Dedup::new(tumbling(size, offset), lateness);
                Job::Deduplicate(Passing::InWindow(dedup), [0, 0])
            }
            Task::Within { horizon, lateness } => {
                Job::Deduplicate(Passing::Within(DedupWithin::new(horizon, lateness)), [0, 0])
            }
            Task::Interval { lower, upper, left_outer } => {
                Job::Interval(IntervalJoin::new(lower, upper), [vec![], vec![]], left_outer)
            }
            Task::Window { size, offset } => {
                Job::Window(WindowJoin::new(tumbling(size, offset)), [vec![], vec![]])
            }
        };
        Model {
            job,
            inputs: case.inputs.iter().cloned().map(Oracle::new).collect(),
            partitions: case.inputs.iter().map(|spec| spec.partitions).collect(),
            next: vec![0; case.inputs.len()],
            merge: Merge::new(case.inputs.len(), Reactivation::AtOnce),
            watermark: NONE,
            clock: None,
        }
    }

    /// A call; one that fails changes nothing.
    pub(crate) fn apply(&mut self, call: &Call) -> Result<Answer, String> {
        let before = self.clone();
        let mut answer = Answer::default();
        let done = self.call(call, &mut answer);
        answer.late.sort_by_key(|&(input, ..)| input);
        answer.rejected.sort_by_key(|&(input, _)| input);
        if done.is_err() {
            *self = before;
        }
        done.map(|()| answer)
    }

    fn call(&mut self, call: &Call, answer: &mut Answer) -> Result<(), String> {
        match call {
            Call::Push(batches) => {
                for (input, partition, rows) in batches {
                    for row in rows {
                        self.row(*input, *partition, row, answer)?;
                    }
                    // what is wrong with a call may be so without rows
                    self.inputs[*input].end_batch(*partition)?;
                    self.tell(*input);
                    self.advance(answer)?;
                }
            }
            Call::Of(input, op) => {
                self.inputs[*input].apply(op)?;
                self.tell(*input);
            }
            Call::All(op) => {
                for input in 0..self.inputs.len() {
                    self.inputs[input].apply(op)?;
                    self.tell(input);
                }
                if let Op::AdvanceClock(now) = op
                    && self.clock.is_none_or(|clock| clock < *now)
                {
                    self.clock = Some(*now);
                    if let Job::Script(script) = &mut self.job {
                        script.clock(*now, self.watermark, answer)?;
                    }
                }
            }
        }
        self.advance(answer)
    }

    fn row(&mut self, input: usize, partition: usize, row: &Row, answer: &mut Answer) -> Result<(), String> {
        let id = self.next[input];
        self.next[input] += 1;
        let oracle = &mut self.inputs[input];
        let before = accepted(oracle.counters(partition));
        let out = oracle.apply_row(partition, row)?;
        answer.rejected.extend(out.rejected.iter().map(|_| (input, id)));
        if let Some(time) = row.time
            && accepted(oracle.counters(partition)) > before
        {
            self.job.row(&Given { input, id, time, row, watermark: self.watermark }, answer)?;
        }
        self.tell(input);
        self.advance(answer)
    }

    /// Tells the merge of inputs how far one of them has come.
    fn tell(&mut self, input: usize) {
        let oracle = &self.inputs[input];
        let partitions = 0..self.partitions[input];
        let mut open = partitions.filter(|&p| oracle.partition_watermark(p) != MAX).peekable();
        let is_idle = open.peek().is_some() && open.all(|p| oracle.is_idle(p));
        let watermark = oracle.watermark();
        if watermark == MAX {
            self.merge.finish(input);
            return;
        }
        if !is_idle {
            self.merge.active(input);
        }
        if !self.merge.is_idle(input) {
            self.merge.set(input, watermark);
        }
        if is_idle {
            self.merge.idle(input);
        }
    }

    /// Fires what the merged watermark has reached.
    fn advance(&mut self, answer: &mut Answer) -> Result<(), String> {
        let merged = match self.inputs.as_slice() {
            [only] => only.watermark(),
            _ => self.merge.watermark(),
        };
        if merged <= self.watermark {
            return Ok(());
        }
        self.watermark = merged;
        self.job.advance(merged, answer)
    }

    pub(crate) fn counters(&self, input: usize, partition: usize) -> &Counters {
        self.inputs[input].counters(partition)
    }

    /// How many timers wait, of event time and of the clock, if that is for the model to say.
    pub(crate) fn timers(&self) -> Option<[usize; 2]> {
        match &self.job {
            Job::Script(script) => Some([script.timers.len(), script.clock_timers.len()]),
            _ => None,
        }
    }

    /// What the process has counted.
    pub(crate) fn counted(&self) -> Vec<(&'static str, u64)> {
        match &self.job {
            Job::Script(script) => vec![("touched", script.touched)],
            Job::Pairs(pairs, _) => {
                let counters = pairs.counters();
                vec![
                    ("complete", counters.matched),
                    ("abandoned", counters.abandoned),
                    ("replaced", counters.replaced),
                    ("unmatched", counters.unmatched),
                ]
            }
            Job::Deduplicate(_, [passed, duplicates]) => {
                vec![("passed", *passed), ("duplicates", *duplicates)]
            }
            Job::Interval(..) | Job::Window(..) => vec![],
        }
    }
}

/// Both inputs of a join have come so far.
fn set_both(merge: &mut Merge, watermark: i64) {
    for side in 0..2 {
        match watermark {
            MAX => merge.finish(side),
            _ => merge.set(side, watermark),
        }
    }
}

impl Job {
    fn row(&mut self, given: &Given<'_>, answer: &mut Answer) -> Result<(), String> {
        let &Given { input, id, time, row, watermark } = given;
        let side = [Side::Left, Side::Right][input];
        let key = &row.key;
        match self {
            Job::Script(script) => {
                let arg = if let Value::Int(arg) = row.values[0] { arg } else { 0 };
                if script.event(Event::Row { time, arg }, key, watermark, answer)? {
                    answer.late.push((input, id, watermark));
                }
            }
            Job::Pairs(pairs, ids) => match &row.values[2] {
                Value::Text(text) if ["a", "b"].contains(&text.as_str()) => {
                    ids.push(id);
                    pairs.start(key, time);
                }
                Value::Text(text) if ["bb", ""].contains(&text.as_str()) => {
                    ids.push(id);
                    answer.results.extend(pairs.end(key, time).map(|pair| pair_row(&pair, ids)));
                }
                _ => {}
            },
            Job::Deduplicate(passing, [passed, duplicates]) => {
                let verdict = match passing {
                    Passing::InWindow(dedup) => dedup.push(key, time),
                    Passing::Within(dedup) => dedup.push(key, time),
                };
                match verdict {
                    Verdict::First => answer.results.push(vec![int(id)]),
                    Verdict::Duplicate => {}
                    Verdict::Late => answer.late.push((input, id, watermark)),
                }
                *passed += u64::from(verdict == Verdict::First);
                *duplicates += u64::from(verdict == Verdict::Duplicate);
            }
            Job::Interval(join, ids, left_outer) => {
                ids[input].push(id);
                let before = join.counters(side).dropped_late;
                let joined = join.push(side, key, time);
                let joined = joined.iter().map(|joined| {
                    let both = [int(ids[0][joined.left as usize]), int(ids[1][joined.right as usize])];
                    [key.as_slice(), both.as_slice()].concat()
                });
                answer.results.extend(joined);
                if *left_outer {
                    answer.results.extend(alone(join, &ids[0]));
                }
                if join.counters(side).dropped_late > before {
                    answer.late.push((input, id, watermark));
                }
            }
            Job::Window(join, ids) => {
                ids[input].push(id);
                let before = join.counters(side).dropped_late;
                join.push(side, key, time);
                if join.counters(side).dropped_late > before {
                    answer.late.push((input, id, watermark));
                }
            }
        }
        Ok(())
    }

    fn advance(&mut self, watermark: i64, answer: &mut Answer) -> Result<(), String> {
        match self {
            Job::Script(script) => return script.advance(watermark, answer),
            Job::Pairs(pairs, ids) => {
                let abandoned = pairs.advance(watermark);
                answer.results.extend(abandoned.iter().map(|pair| pair_row(pair, ids)));
            }
            Job::Deduplicate(Passing::InWindow(dedup), _) => dedup.advance(watermark),
            Job::Deduplicate(Passing::Within(dedup), _) => dedup.advance(watermark),
            Job::Interval(join, ids, left_outer) => {
                set_both(join.merge(), watermark);
                if *left_outer {
                    answer.results.extend(alone(join, &ids[0]));
                }
            }
            Job::Window(join, ids) => {
                set_both(join.merge(), watermark);
                let joined = join.advance();
                answer.results.extend(joined.iter().map(|joined| {
                    let ids = [int(ids[0][joined.left as usize]), int(ids[1][joined.right as usize])];
                    let bounds = [Value::Int(joined.start), Value::Int(joined.end)];
                    [joined.key.as_slice(), bounds.as_slice(), ids.as_slice()].concat()
                }));
            }
        }
        Ok(())
    }
}

/// Left rows for which no partner can come any more.
fn alone(join: &mut IntervalJoin, ids: &[u64]) -> Vec<Vec<Value>> {
    let result = |(key, left): (Vec<Value>, u64)| [key, vec![int(ids[left as usize]), Value::Null]].concat();
    join.alone().into_iter().map(result).collect()
}

fn pair_row(pair: &highwater_oracle::Pair, ids: &[u64]) -> Vec<Value> {
    let id = |row: u64| int(ids[row as usize]);
    let end = pair.end.map_or([Value::Null, Value::Null], |end| [id(end.row), Value::Int(end.time)]);
    let [end_id, ended] = end;
    let status = if pair.end.is_some() { "complete" } else { "abandoned" };
    let record = [id(pair.start.row), end_id, Value::Int(pair.start.time), ended, Value::Text(status.into())];
    [pair.key.as_slice(), record.as_slice()].concat()
}

/// The states and timers of [`super::script::Script`].
#[derive(Clone, Default)]
struct Script {
    states: BTreeMap<Vec<Value>, Count>,
    timers: Timers,
    clock_timers: Timers,
    touched: u64,
}

impl Script {
    fn event(
        &mut self,
        event: Event,
        key: &[Value],
        watermark: i64,
        answer: &mut Answer,
    ) -> Result<bool, String> {
        let mut hand_back = false;
        for action in act(event, self.states.get(key).map_or(0, |count| count.fires)) {
            match action {
                Do::Register(time) => self.timers.register(key, time),
                Do::Delete(time) => self.timers.delete(key, time),
                Do::RegisterClock(time) => self.clock_timers.register(key, time),
                Do::DeleteClock(time) => self.clock_timers.delete(key, time),
                Do::Touch => {
                    self.states.entry(key.to_vec()).or_default().touch(event);
                    self.touched += 1;
                }
                Do::Clear => _ = self.states.remove(key),
                Do::Emit => {
                    let count = self.states.get(key).cloned().unwrap_or_default();
                    let values = result(event, watermark, &count).map(Value::Int);
                    answer.results.push([key, values.as_slice()].concat());
                }
                Do::HandBack => hand_back = true,
                Do::Fail => return Err("a row that it does not like".into()),
            }
        }
        Ok(hand_back)
    }

    fn advance(&mut self, watermark: i64, answer: &mut Answer) -> Result<(), String> {
        let mut done = Ok(());
        let mut timers = std::mem::take(&mut self.timers);
        timers.advance(watermark, |timers, time, key| {
            // within a firing they are the script's again
            std::mem::swap(timers, &mut self.timers);
            done = done.clone().and(self.event(Event::Timer(time), key, watermark, answer).map(drop));
            std::mem::swap(timers, &mut self.timers);
        });
        self.timers = timers;
        done
    }

    fn clock(&mut self, now: i64, watermark: i64, answer: &mut Answer) -> Result<(), String> {
        let mut done = Ok(());
        let mut timers = std::mem::take(&mut self.clock_timers);
        timers.advance_clock(now, |timers, time, key| {
            std::mem::swap(timers, &mut self.clock_timers);
            done = done.clone().and(self.event(Event::Clock(time), key, watermark, answer).map(drop));
            std::mem::swap(timers, &mut self.clock_timers);
        });
        self.clock_timers = timers;
        done
    }
}
