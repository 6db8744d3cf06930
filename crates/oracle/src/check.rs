//! What makes a call fail before it starts.

use crate::{Function, Guard, NullPolicy, Op, Oracle, Row, Strategy, Value, Windows};

impl Oracle {
    /// Everything that makes a call fail before it starts.
    pub(crate) fn check(&self, op: &Op) -> Result<(), String> {
        let partitions: Vec<usize> = match op {
            Op::Push(p, _)
            | Op::Watermark(p, _)
            | Op::MarkIdle(p)
            | Op::MarkActive(p)
            | Op::FinishPartition(p) => {
                vec![*p]
            }
            Op::PushAll(batches) => batches.iter().map(|(p, _)| *p).collect(),
            Op::AdvanceClock(_) | Op::EmitWatermarks | Op::Finish => vec![],
        };
        if let Some(p) = partitions.iter().find(|&&p| p >= self.spec.partitions) {
            return Err(format!("there is no partition {p}, only {}", self.spec.partitions));
        }
        match op {
            Op::Push(_, rows) => self.check_rows(rows),
            Op::PushAll(batches) => batches.iter().try_for_each(|(_, rows)| self.check_rows(rows)),
            Op::Watermark(..) if self.spec.strategy != Strategy::Explicit => {
                Err(format!("the watermark follows from the rows: {:?}", self.spec.strategy))
            }
            _ => Ok(()),
        }
    }

    fn check_rows(&self, rows: &[Row]) -> Result<(), String> {
        if matches!(self.spec.guard, Guard::Clock(_)) && self.clock.is_none() {
            return Err("the clock has not been read".to_owned());
        }
        if self.spec.null_policy == NullPolicy::Error && rows.iter().any(|row| row.time.is_none()) {
            return Err("a row has no time".to_owned());
        }
        for (function, column) in &self.spec.aggregates {
            let reads = !matches!(function, Function::CountAll | Function::Members);
            if reads && rows.iter().any(|row| *column >= row.values.len()) {
                return Err(format!("a row has no value column {column}"));
            }
        }
        if let Some(column) = self
            .spec
            .columns_read()
            .into_iter()
            .find(|column| rows.iter().any(|row| *column >= row.values.len()))
        {
            return Err(format!("a row has no value column {column}"));
        }
        let Windows::SessionByValue { column } = self.spec.window else { return Ok(()) };
        let is_gap = |value: &Value| matches!(value, Value::Int(gap) if *gap > 0);
        let timed = rows.iter().filter(|row| row.time.is_some());
        match timed.map(|row| &row.values[column]).find(|value| !is_gap(value)) {
            Some(value) => Err(format!("the gap of a row must be a positive integer, not {value:?}")),
            None => Ok(()),
        }
    }
}
