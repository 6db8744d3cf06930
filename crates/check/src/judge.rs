//! What must hold for every case.

use std::collections::BTreeMap;

use highwater_oracle::{
    Cadence, Firing, Function, Kind, Late, LateFiring, Op, Oracle, Output, ResultMode, Row, Spec, Trigger,
    Value, Windows,
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
            (expected, got) => {
                let spec = &case.spec;
                panic!("call {number}: oracle {expected:?}, engine {got:?}, {spec:?}, {op:?}")
            }
        };
        oracle.validate();
        let mut expected_fired = clipped(expected.fired, case.shape.time);
        if !case.shape.numbered {
            expected_fired.iter_mut().for_each(|firing| firing.number = 0);
        }
        same_firings(&ordered(&got.fired), ordered(&expected_fired), &case.spec, (number, op));
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

/// Firings in their order, but for the order of keys within one window's firing. A retraction stays with the result that
/// replaces it.
fn ordered(fired: &[Firing]) -> Vec<Firing> {
    let mut groups: Vec<Vec<Firing>> =
        fired.split_inclusive(|firing| !firing.retraction).map(<[Firing]>::to_vec).collect();
    let of = |group: &[Firing]| group.last().map(|firing| (firing.start, firing.end, firing.kind));
    groups
        .chunk_by_mut(|a, b| of(a) == of(b))
        .for_each(|window| window.sort_by(|a, b| a.last().map(|f| &f.key).cmp(&b.last().map(|f| &f.key))));
    groups.concat()
}

/// Panics at the first firing that differs.
fn same_firings(got: &[Firing], mut expected: Vec<Firing>, spec: &Spec, (number, op): (usize, &Op)) {
    expected.iter_mut().zip(got).for_each(|(expected, got)| as_engine_types(expected, got, spec));
    let places = 0..got.len().max(expected.len());
    if let Some(place) = places.clone().find(|&place| got.get(place) != expected.get(place)) {
        let (one, other) = (got.get(place), expected.get(place));
        panic!(
            "call {number}, firing {place}: got {one:?}, expected {other:?}; all of {got:?}, \
             expected {expected:?}; {spec:?}, {op:?}"
        );
    }
}

/// The engine gives quantiles as floats, and rounds the mean of integers once, where the oracle rounds sum and quotient:
/// those may differ in the last bit.
fn as_engine_types(expected: &mut Firing, got: &Firing, spec: &Spec) {
    for (number, (function, column)) in spec.aggregates.iter().enumerate() {
        let value = &mut expected.values[number];
        match (function, &value, &got.values[number]) {
            (Function::Quantile(_), Value::Int(int), _) => *value = Value::Float(*int as f64),
            (Function::Mean, Value::Float(mean), Value::Float(got))
                if *column == 0 && got.to_bits().abs_diff(mean.to_bits()) == 1 =>
            {
                *value = Value::Float(*got);
            }
            _ => {}
        }
    }
}

/// Window bounds as a column of 32-bit days shows them.
fn clipped(mut fired: Vec<Firing>, time: TimeType) -> Vec<Firing> {
    for firing in &mut fired {
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
    /// Results less retractions, where both are given and late ones are coalesced.
    net: BTreeMap<String, i64>,
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
            match (&spec.late_firing, firing.kind) {
                (LateFiring::PerRow, kind) => {
                    let (number, retraction) = (firing.number, firing.retraction);
                    self.on_time.push(format!("{kind:?} {number} {retraction} {line}"));
                }
                // how often a window has fired late, and so what there is to be retracted, is a matter of the calls
                _ if spec.result_mode == ResultMode::Retract => {
                    *self.net.entry(line).or_default() += if firing.retraction { -1 } else { 1 };
                }
                // which sessions late rows have made on the way is a matter of the calls too
                (_, Kind::Late) if is_session(spec) => {}
                (_, Kind::Late) => {
                    self.late.retain(|known| !known.starts_with(&format!("{window} ")));
                    self.late.push(line);
                }
                (_, kind) => self.on_time.push(format!("{kind:?} {line}")),
            }
        }
        if spec.late_firing == LateFiring::Coalesced && spec.trigger != Trigger::EventTime {
            // within a call they come by window, and early ones of several calls do not
            self.on_time.sort_unstable();
        }
        self.net.retain(|_, count| *count != 0);
        self.handed_back.extend(output.late.iter().map(|late| format!("{late:?}")));
        self.handed_back.extend(output.rejected.iter().map(|rejected| format!("{rejected:?}")));
    }
}

fn is_session(spec: &Spec) -> bool {
    matches!(spec.window, Windows::Session { .. } | Windows::SessionByValue { .. })
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
    let spec = &case.spec;
    // what a firing takes out of a window depends on when it is, and coalesced late ones are at the end of a call
    let empties = spec.purging || spec.result_mode == ResultMode::Discard || spec.evictor.is_some();
    let cuts_matter = spec.late_firing == LateFiring::Coalesced && spec.allowed_lateness > 0 && empties;
    if spec.cadence == Cadence::EveryBatch || cuts_matter {
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
    assert_eq!(cut, whole, "in pieces of {piece}: {spec:?}");
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

/// An operator that is restored from its own snapshot before every `every`-th call goes on as one that never stopped: the
/// same output to the last bit, the same errors, and the same snapshots.
pub fn same_after_restore(case: &Case, every: usize, threads: usize) {
    let (mut never, mut again) = (Engine::new(case, 1), Engine::new(case, 1));
    for (number, op) in case.ops.iter().enumerate() {
        if number % every == 0 {
            again = again.restored(case, threads);
        }
        let (one, other) = (never.apply(op), again.apply(op));
        assert_eq!(format!("{other:?}"), format!("{one:?}"), "call {number}, {op:?}");
        let mut metrics = again.operator.metrics();
        // what is held in reserve is not restored
        metrics.state_bytes = never.operator.metrics().state_bytes;
        assert_eq!(metrics, never.operator.metrics(), "after call {number}, {op:?}");
        assert!(
            never.operator.snapshot() == again.operator.snapshot(),
            "snapshots after call {number}, {op:?}"
        );
    }
}
