//! Operators with much open state, and their snapshots.

use arrow_array::RecordBatch;
use highwater::watermark::WatermarkStrategy;
use highwater::{Aggregate, TimeDelta, Window, WindowOperator, WindowOperatorBuilder};
use highwater_cli::bench::{Load, Workload};

use crate::{BATCH_ROWS, shape};

/// An operator that has taken in its rows and has everything open, and its snapshot.
pub struct Held {
    builder: WindowOperatorBuilder,
    operator: WindowOperator,
    snapshot: Vec<u8>,
}

/// Open windows out of `rows` rows: `<window>/<keys>`.
pub fn held(rows: u64) -> Vec<(String, Held)> {
    let day = TimeDelta::from_days(1);
    // as many rows a key as w3 and w5 have
    let keys = (rows / 5).clamp(1_000, 1_000_000);
    let load = shape(Workload::W3, rows, BATCH_ROWS, |spec, _| spec.keys = keys);
    [("tumbling_1d", Window::tumbling(day)), ("session_1d", Window::session(day))]
        .map(|(name, window)| (format!("{name}/{keys}_i64"), Held::new(&load, window)))
        .into()
}

impl Held {
    fn new(load: &Load, window: Window) -> Self {
        let builder = WindowOperator::builder(load.batches[0].1.schema())
            .event_time("ts")
            .key("key")
            .window(window)
            .watermark(WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_secs(20)))
            .aggregate(Aggregate::count_all())
            .aggregate(Aggregate::sum("value"));
        let make = || -> highwater::Result<_> {
            let mut operator = builder.clone().build()?;
            for (partition, batch) in &load.batches {
                let output = operator.push(*partition, batch)?;
                assert!(output.is_empty(), "a day is longer than the rows");
            }
            let snapshot = operator.snapshot()?;
            Ok((operator, snapshot))
        };
        let (operator, snapshot) =
            make().unwrap_or_else(|error| unreachable!("generated rows are valid: {error}"));
        Held { builder, operator, snapshot }
    }

    /// The bytes of the snapshot.
    pub fn bytes(&self) -> u64 {
        self.snapshot.len() as u64
    }

    /// Takes a snapshot; gives its length.
    pub fn write(&self) -> u64 {
        self.operator.snapshot().map_or(0, |snapshot| snapshot.len() as u64)
    }

    /// Makes an operator of the snapshot; gives the bytes that it holds.
    pub fn restore(&self) -> u64 {
        self.restored().metrics().state_bytes as u64
    }

    fn restored(&self) -> WindowOperator {
        let restored = self.builder.clone().restore(&self.snapshot);
        restored.unwrap_or_else(|error| unreachable!("it is a snapshot of this operator: {error}"))
    }

    /// Compares what the restored operator gives at end of input with what the one gives that was saved. Panics where they
    /// differ.
    pub fn check(mut self, name: &str) {
        let finish = |operator: &mut WindowOperator| -> Vec<RecordBatch> {
            operator.finish().map(|output| output.fired).unwrap_or_default()
        };
        let restored = finish(&mut self.restored());
        assert!(!restored.is_empty(), "{name} has no results");
        assert_eq!(finish(&mut self.operator), restored, "{name}");
    }
}
