//! What must hold for every case.

use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use highwater::{Error, LATE_WATERMARK};
use highwater_oracle::{Row, Value};

use super::case::{Call, ProcessCase, Task};
use super::model::{Answer, Model};
use super::running::{Given, Running, build};
use crate::engine::{Batches, each, id, named, ticks, value};
use crate::snapshot::refused_or_restored;

/// How the engine is driven: the answer is the same for each.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// How many threads it has.
    pub threads: usize,
    /// Rows are pushed in pieces of so many.
    pub piece: Option<usize>,
    /// Before every so many calls it is restored from its own snapshot, with another number of threads.
    pub restored_every: Option<usize>,
}

/// An operator with the batches that are made for it.
struct Engine {
    operator: Box<dyn Running>,
    batches: Vec<Batches>,
}

impl Engine {
    fn new(case: &ProcessCase, threads: usize) -> Engine {
        let batches = vec![Batches::new(&case.shape); case.inputs.len()];
        Engine { operator: build(case, threads), batches }
    }

    fn restored(self, case: &ProcessCase, threads: usize) -> Engine {
        let snapshot = self.operator.snapshot().expect("there is a snapshot of every case");
        let operator = build(case, threads).restored(&snapshot).expect("a snapshot can be restored");
        operator.validate();
        Engine { operator, ..self }
    }

    /// Makes a call. An error must have changed nothing.
    fn apply(&mut self, case: &ProcessCase, call: &Call) -> Result<Answer, Error> {
        let next: Vec<i64> = self.batches.iter().map(|batches| batches.next).collect();
        let pushed: Vec<(usize, usize, RecordBatch)> = match call {
            Call::Push(batches) => batches
                .iter()
                .map(|(input, partition, rows)| (*input, *partition, self.batches[*input].batch(rows)))
                .collect(),
            _ => vec![],
        };
        let given = self.operator.call(call, &pushed);
        self.operator.validate();
        if given.is_err() {
            self.batches.iter_mut().zip(next).for_each(|(batches, next)| batches.next = next);
        }
        Ok(plain(case, &given?))
    }
}

fn plain(case: &ProcessCase, given: &Given) -> Answer {
    let columns = |batch: &RecordBatch| match case.task {
        // its results are whole rows
        Task::Deduplicate { .. } | Task::Within { .. } => 1,
        _ => batch.num_columns(),
    };
    let cells = |batch: &RecordBatch, row: usize| -> Vec<Value> {
        (0..columns(batch)).map(|column| cell(batch.column(column), row)).collect()
    };
    let mut answer = Answer { results: each(&given.fired, cells), ..Answer::default() };
    for (input, (late, rejected)) in given.late.iter().zip(&given.rejected).enumerate() {
        answer.late.extend(each(late, |batch, row| {
            (input, id(batch, row), ticks(named(batch, LATE_WATERMARK), row))
        }));
        answer.rejected.extend(each(rejected, |batch, row| (input, id(batch, row))));
    }
    answer
}

fn cell(column: &arrow_array::ArrayRef, row: usize) -> Value {
    match column.data_type() {
        DataType::Timestamp(..) if column.is_null(row) => Value::Null,
        DataType::Timestamp(..) => Value::Int(ticks(column, row)),
        _ => value(column, row),
    }
}

/// Results of windows come by end; which key of a window comes first is the engine's to say.
fn ordered(case: &ProcessCase, mut answer: Answer) -> Answer {
    if let Task::Window { .. } = case.task {
        let of_window = |result: &Vec<Value>| {
            let keys = result.len() - 4;
            (result[keys + 1].clone(), result[keys].clone(), result[..keys].to_vec())
        };
        answer.results.sort_by_key(of_window);
    }
    answer
}

/// Compares the engine, driven in some way, with the model after every call: results in their order, rows handed back,
/// watermark, counters, pending timers, and whether the call is an error. Panics at the first difference.
pub fn against_model(case: &ProcessCase, way: Way) {
    let mut model = Model::new(case);
    let mut engine = Engine::new(case, way.threads);
    for (number, call) in case.calls.iter().enumerate() {
        if way.restored_every.is_some_and(|every| number % every == 0) {
            engine = engine.restored(case, 1 + (way.threads + number) % 4);
        }
        let expected = model.apply(call);
        let pieces = match &expected {
            // a call that fails is one: in pieces, those before the bad row would be taken
            Ok(_) if case.may_be_cut() => pieces(call, way.piece),
            _ => vec![call.clone()],
        };
        let before = engine.operator.metrics();
        let mut got: Result<Answer, Error> = Ok(Answer::default());
        for piece in &pieces {
            got = got.and_then(|all| Ok(joined(all, engine.apply(case, piece)?)));
        }
        let told = || format!("call {number} of {:?}, {way:?}: {call:?}, {:?}", case.task, case.inputs);
        match (expected, got) {
            (Ok(expected), Ok(got)) => {
                assert_eq!(ordered(case, got), ordered(case, expected), "{}", told());
            }
            (Err(_), Err(error)) => {
                let mut after = engine.operator.metrics();
                // buffers may have grown
                after.state_bytes = before.state_bytes;
                assert_eq!(after, before, "failed ({error}) and changed something: {}", told());
            }
            (expected, got) => panic!("model {expected:?}, engine {got:?}: {}", told()),
        }
        same_progress(case, &model, engine.operator.as_ref(), &told);
    }
}

/// The calls that a push is cut into.
fn pieces(call: &Call, piece: Option<usize>) -> Vec<Call> {
    match (call, piece) {
        (Call::Push(batches), Some(piece)) => {
            let cut = |(input, partition, rows): &(usize, usize, Vec<Row>)| -> Vec<Call> {
                let (input, partition) = (*input, *partition);
                rows.chunks(piece).map(|rows| Call::Push(vec![(input, partition, rows.to_vec())])).collect()
            };
            batches.iter().flat_map(cut).collect()
        }
        _ => vec![call.clone()],
    }
}

/// Two answers one after the other.
fn joined(mut one: Answer, other: Answer) -> Answer {
    one.results.extend(other.results);
    one.late.extend(other.late);
    one.late.sort_by_key(|&(input, ..)| input);
    one.rejected.extend(other.rejected);
    one.rejected.sort_by_key(|&(input, _)| input);
    one
}

fn same_progress(case: &ProcessCase, model: &Model, operator: &dyn Running, told: &impl Fn() -> String) {
    let metrics = operator.metrics();
    assert_eq!(metrics.watermark, model.watermark, "merged watermark: {}", told());
    for (input, spec) in case.inputs.iter().enumerate() {
        for partition in 0..spec.partitions {
            let (rows, expected) =
                (metrics.inputs[input].partitions[partition].rows, model.counters(input, partition));
            let got = [rows.rows_in, rows.rejected_null, rows.rejected_future, rows.rejected_reference];
            let rejected = [expected.rejected_null, expected.rejected_future, expected.rejected_reference];
            let [null, future, reference] = rejected;
            assert_eq!(got, [expected.rows_in, null, future, reference], "rows of {input}: {}", told());
            let kept = rows.rows_in - rejected.iter().sum::<u64>();
            assert_eq!(rows.taken + rows.dropped_late, kept, "rows of {input}: {}", told());
        }
    }
    for (name, count) in model.counted() {
        assert_eq!(metrics.counter(name), Some(count), "{name}: {}", told());
    }
    if let Some(timers) = model.timers() {
        assert_eq!([metrics.timers, metrics.clock_timers], timers, "timers: {}", told());
    }
}

/// Takes a snapshot in the middle of a case, and edits its bytes. A changed file is refused. With a checksum that fits,
/// it may be accepted if an operator can be in such a state, and this operator then goes on without a panic.
pub fn edited_process_snapshots_are_refused_or_used(case: &ProcessCase, edits: &[u8]) {
    let at = edits.first().map_or(0, |&at| usize::from(at) % case.calls.len());
    let (before, after) = case.calls.split_at(at);
    let mut engine = Engine::new(case, 1);
    for call in before {
        let _ = engine.apply(case, call);
    }
    let snapshot = engine.operator.snapshot().expect("there is a snapshot of every case");
    let restore = |bytes: &[u8]| build(case, 1).restored(bytes);
    if let Some(operator) = refused_or_restored(&snapshot, edits.get(1..).unwrap_or_default(), restore) {
        operator.validate();
        let mut restored = Engine { operator, ..engine };
        for call in after {
            let _ = restored.apply(case, call);
        }
    }
}
