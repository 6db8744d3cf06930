//! One small test per decision, computed by hand.

use highwater_oracle::{Firing, Kind, Op, Oracle, Output, Row, Spec, Value};

mod calendar;
mod counting;
mod firing;
mod input;
mod keyed;
mod merging;
mod results;
mod sessions;
mod triggers;
mod values;
mod watermarks;
mod windowing;

/// A row of one key with one integer.
fn row(time: i64, value: i64) -> Row {
    Row { time: Some(time), values: vec![Value::Int(value)], ..Row::default() }
}

/// An oracle that checks itself after every call.
struct Checked(Oracle);

impl Checked {
    fn new(spec: Spec) -> Checked {
        Checked(Oracle::new(spec))
    }

    fn apply(&mut self, op: Op) -> Output {
        let output = self.0.apply(&op).expect("a valid call");
        self.0.validate();
        output
    }

    fn refuse(&mut self, op: Op) -> String {
        let problem = self.0.apply(&op).expect_err("an invalid call");
        self.0.validate();
        problem
    }

    /// Pushes rows with these times, all of value 1, to partition `p`.
    fn times(&mut self, p: usize, times: &[i64]) -> Output {
        self.apply(Op::Push(p, times.iter().map(|&time| row(time, 1)).collect()))
    }

    fn watermarks(&self, partitions: usize) -> Vec<i64> {
        (0..partitions).map(|p| self.0.partition_watermark(p)).collect()
    }
}

/// The firings, as `(start, end, kind, first value)`.
fn fired(output: &Output) -> Vec<(i64, i64, Kind, Value)> {
    output.fired.iter().map(|f| (f.start, f.end, f.kind, f.values[0].clone())).collect()
}

/// The firings of `count(*)`, as `(start, end, kind, number, retraction, count)`.
fn results(output: &Output) -> Vec<(i64, i64, Kind, u64, bool, i64)> {
    let count = |value: &Value| if let Value::Int(n) = value { *n } else { unreachable!("{value:?}") };
    let simple = |f: &Firing| (f.start, f.end, f.kind, f.number, f.retraction, count(&f.values[0]));
    output.fired.iter().map(simple).collect()
}

/// On-time firings of `count(*)`, as `(start, end, count)`; panics at a late one.
fn on_time(output: &Output) -> Vec<(i64, i64, i64)> {
    let simple = |(start, end, kind, value): (i64, i64, Kind, Value)| {
        assert_eq!(kind, Kind::OnTime);
        let Value::Int(count) = value else { unreachable!("{value:?} is no count") };
        (start, end, count)
    };
    fired(output).into_iter().map(simple).collect()
}
