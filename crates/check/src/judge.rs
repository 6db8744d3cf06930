//! What must hold for every case.

use highwater_oracle::{
    Cadence, Firing, Function, Kind, Late, LateFiring, Op, Oracle, Output, Row, Spec, Value,
};

use crate::case::{Case, TimeType};
use crate::engine::Engine;

/// Compares the engine with the oracle after every call: results, rows handed back, watermarks, counters, and whether
/// the call is an error. Panics at the first difference. Cases with wild floats are not for the oracle.
pub fn against_oracle(case: &Case) {
    if case.shape.wild_floats {
        return;
    }
    let mut oracle = Oracle::new(case.spec.clone());
    let mut engine = Engine::new(case, 1);
    for (number, op) in case.ops.iter().enumerate() {
        let expected = oracle.apply(op);
        let before = engine.operator.metrics();
        let got = engine.apply(op);
        let (expected, got) = match (expected, got) {
            (Ok(expected), Ok(got)) => (expected, got),
            (Err(_), Err(error)) => {
                let mut after = engine.operator.metrics();
                // buffers may have grown
                after.state_bytes = before.state_bytes;
                assert_eq!(after, before, "call {number} failed ({error}) and changed something");
                if error.to_string().contains("does not fit") {
                    // the oracle's state is undefined after an overflow
                    return;
                }
                continue;
            }
            (expected, got) => panic!("call {number}, {op:?}: oracle {expected:?}, engine {got:?}"),
        };
        oracle.validate();
        let mut expected_fired = clipped(expected.fired, case.shape.time);
        as_engine_types(&mut expected_fired, &got.fired, &case.spec);
        assert_eq!(ordered(&got.fired), ordered(&expected_fired), "fired by call {number}, {op:?}");
        let shown = |mut late: Late| {
            late.watermark = shown(late.watermark, case.shape.time);
            late
        };
        let expected_late: Vec<Late> = expected.late.into_iter().map(shown).collect();
        assert_eq!(got.late, expected_late, "late rows of call {number}, {op:?}");
        assert_eq!(got.rejected, expected.rejected, "rejected rows of call {number}, {op:?}");
        same_progress(&oracle, &engine, &case.spec, number);
    }
}

fn same_progress(oracle: &Oracle, engine: &Engine, spec: &Spec, number: usize) {
    let metrics = engine.operator.metrics();
    assert_eq!(metrics.watermark, oracle.watermark(), "merged watermark after call {number}");
    for partition in 0..spec.partitions {
        let (rows, expected) = (metrics.partitions[partition].rows, oracle.counters(partition));
        let got = [
            rows.rows_in,
            rows.taken,
            rows.dropped_late,
            rows.no_window,
            rows.rejected_null,
            rows.rejected_future,
            rows.rejected_reference,
            rows.late_taken,
            rows.partly_late,
            metrics.partitions[partition].watermark_regressions,
        ];
        let expected = [
            expected.rows_in,
            expected.taken,
            expected.dropped_late,
            expected.no_window,
            expected.rejected_null,
            expected.rejected_future,
            expected.rejected_reference,
            expected.late_taken,
            expected.partly_late,
            expected.watermark_regressions,
        ];
        assert_eq!(got, expected, "counters of partition {partition} after call {number}");
    }
}

/// Firings in their order, but for the order of keys within one window's firing.
fn ordered(fired: &[Firing]) -> Vec<Firing> {
    let mut fired = fired.to_vec();
    fired
        .chunk_by_mut(|a, b| (a.start, a.end, a.kind) == (b.start, b.end, b.kind))
        .for_each(|firing| firing.sort_by(|a, b| a.key.cmp(&b.key)));
    fired
}

/// The engine gives quantiles as floats, and rounds the mean of integers once, where the oracle rounds sum and quotient:
/// those may differ in the last bit.
fn as_engine_types(expected: &mut [Firing], got: &[Firing], spec: &Spec) {
    for (number, (function, column)) in spec.aggregates.iter().enumerate() {
        for firing in expected.iter_mut() {
            let engine = got
                .iter()
                .filter(|got| (&got.key, got.start, got.kind) == (&firing.key, firing.start, firing.kind));
            let value = &mut firing.values[number];
            match (function, &value) {
                (Function::Quantile(_), Value::Int(int)) => *value = Value::Float(*int as f64),
                (Function::Mean, Value::Float(mean)) if *column == 0 => {
                    for got in engine {
                        if let Value::Float(got) = got.values[number]
                            && got.to_bits().abs_diff(mean.to_bits()) == 1
                        {
                            *value = Value::Float(got);
                            break;
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

/// Window bounds as a column of 32-bit days shows them. The engine does not number its firings.
fn clipped(mut fired: Vec<Firing>, time: TimeType) -> Vec<Firing> {
    for firing in &mut fired {
        firing.number = 0;
        (firing.start, firing.end) = (shown(firing.start, time), shown(firing.end, time));
    }
    fired
}

fn shown(ticks: i64, time: TimeType) -> i64 {
    if time == TimeType::Date32 { ticks.clamp(i32::MIN as i64, i32::MAX as i64) } else { ticks }
}

/// Every answer of a run, as text that shows the bits of floats.
#[derive(Debug, Default, PartialEq)]
struct Answers {
    on_time: Vec<String>,
    /// Late firings; of coalesced ones only the last for a window and key.
    late: Vec<String>,
    handed_back: Vec<String>,
    counters: Vec<String>,
}

impl Answers {
    fn take(&mut self, output: &Output, spec: &Spec) {
        let bits = |values: &[Value]| {
            let show = |value: &Value| match value {
                Value::Float(f) => format!("{f}/{:x}", f.to_bits()),
                other => format!("{other:?}"),
            };
            values.iter().map(show).collect::<Vec<_>>().join(",")
        };
        for firing in &output.fired {
            let window = format!("[{}, {}) {}", firing.start, firing.end, bits(&firing.key));
            let line = format!("{window} {}", bits(&firing.values));
            match firing.kind {
                Kind::Early | Kind::OnTime => self.on_time.push(line),
                Kind::Late if spec.late_firing == LateFiring::PerRow => {
                    self.on_time.push(format!("late {line}"))
                }
                Kind::Late => {
                    self.late.retain(|known| !known.starts_with(&format!("{window} ")));
                    self.late.push(line);
                }
            }
        }
        self.handed_back.extend(output.late.iter().map(|late| format!("{late:?}")));
        self.handed_back.extend(output.rejected.iter().map(|rejected| format!("{rejected:?}")));
    }
}

fn run(case: &Case, ops: impl IntoIterator<Item = Op>, threads: usize) -> Option<Answers> {
    let mut engine = Engine::new(case, threads);
    let mut answers = Answers::default();
    for op in ops {
        // a call that fails is one unit: in pieces, the pieces before the bad row would be taken
        answers.take(&engine.apply(&op).ok()?, &case.spec);
    }
    let metrics = engine.operator.metrics();
    answers.counters = metrics.partitions.iter().map(|partition| format!("{partition:?}")).collect();
    answers.late.sort_unstable();
    answers.handed_back.sort_unstable();
    Some(answers)
}

/// Rows pushed in pieces, and several partitions pushed one after the other, give the same answers to the last bit.
pub fn same_for_every_cut(case: &Case, piece: usize) {
    if case.spec.cadence == Cadence::EveryBatch {
        return;
    }
    let cut = |op: &Op| -> Vec<Op> {
        let pieces = |partition: usize, rows: &[Row]| -> Vec<Op> {
            rows.chunks(piece.max(1)).map(|rows| Op::Push(partition, rows.to_vec())).collect()
        };
        match op {
            Op::Push(partition, rows) => pieces(*partition, rows),
            Op::PushAll(batches) => {
                batches.iter().flat_map(|(partition, rows)| pieces(*partition, rows)).collect()
            }
            other => vec![other.clone()],
        }
    };
    let (Some(whole), Some(cut)) =
        (run(case, case.ops.clone(), 1), run(case, case.ops.iter().flat_map(cut), 1))
    else {
        return;
    };
    assert_eq!(cut, whole, "in pieces of {piece}");
}

/// Any number of threads gives the same output to the last bit, calls that fail included.
pub fn same_for_all_threads(case: &Case, threads: usize) {
    let (mut one, mut many) = (Engine::new(case, 1), Engine::new(case, threads));
    for op in &case.ops {
        let (one, many) = (one.apply(op), many.apply(op));
        assert_eq!(format!("{many:?}"), format!("{one:?}"), "{threads} threads, {op:?}");
    }
    assert_eq!(many.operator.metrics().total, one.operator.metrics().total);
}
