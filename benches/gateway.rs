//! A key of several columns: the model gateway's requests by tenant and model, and the same by plain loops.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use highwater::watermark::WatermarkStrategy;
use highwater::{Aggregate, TimeDelta, Window, WindowOperator};
use highwater_cli::generate::{Spec, Stream, Workload};

/// Milliseconds of a window.
const SIZE: i64 = 60_000;

/// Requests of a hundred tenants, a few thousand a minute.
pub struct Gateway {
    batches: Vec<RecordBatch>,
}

/// `<window>/<keys>/<disorder>`, `rows` rows.
pub fn gateway(rows: u64) -> Vec<(String, Gateway)> {
    let spec = Spec { rows, rate: 100, keys: 100, partitions: 1, ..Spec::new(Workload::Gateway) };
    let stream = Stream::new(&spec).map(|stream| stream.collect::<Result<Vec<_>, _>>());
    let wanted = |batch: &RecordBatch| {
        let columns = ["ts", "tenant_id", "model", "prompt_tokens"].map(|name| (name, batch[name].clone()));
        RecordBatch::try_from_iter(columns)
    };
    match stream {
        Ok(Ok(all)) => {
            let batches = all.iter().map(wanted).collect::<Result<_, _>>();
            let batches =
                batches.unwrap_or_else(|error| unreachable!("columns of a batch make a batch: {error}"));
            vec![("tumbling_1m/tenant_and_model/jitter".to_string(), Gateway { batches })]
        }
        Ok(Err(error)) | Err(error) => unreachable!("a fixed specification is valid: {error:?}"),
    }
}

impl Gateway {
    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }

    /// Pushes everything; gives the number of results.
    pub fn run(&self) -> u64 {
        let mut results = 0;
        self.drive(|batch| results += batch.num_rows() as u64);
        results
    }

    /// Compares the engine's answer with loops over the rows. Panics where they differ.
    pub fn check(&self, name: &str) {
        let mut given = Vec::new();
        self.drive(|batch| {
            let starts = batch["window_start"].as_primitive::<TimestampMillisecondType>();
            let (tenants, models) =
                (batch["tenant_id"].as_string::<i32>(), batch["model"].as_string::<i32>());
            let (counts, sums) =
                (batch["requests"].as_primitive::<Int64Type>(), batch["tokens"].as_primitive::<Int64Type>());
            given.extend((0..batch.num_rows()).map(|row| {
                let key = (starts.value(row), tenants.value(row).to_string(), models.value(row).to_string());
                (key, (counts.value(row), sums.value(row)))
            }));
        });
        let mut expected: BTreeMap<_, (i64, i64)> = BTreeMap::new();
        for batch in &self.batches {
            let times = batch["ts"].as_primitive::<TimestampMillisecondType>();
            let (tenants, models) =
                (batch["tenant_id"].as_string::<i32>(), batch["model"].as_string::<i32>());
            let tokens = batch["prompt_tokens"].as_primitive::<Int64Type>();
            for row in 0..batch.num_rows() {
                let start = times.value(row).div_euclid(SIZE) * SIZE;
                let key = (start, tenants.value(row).to_string(), models.value(row).to_string());
                let (count, sum) = expected.entry(key).or_default();
                (*count, *sum) = (*count + 1, *sum + tokens.value(row));
            }
        }
        given.sort_unstable();
        assert!(given.into_iter().eq(expected), "{name}");
    }

    /// Pushes everything, with a bound that no row exceeds.
    fn drive(&self, mut take: impl FnMut(&RecordBatch)) {
        let mut run = || -> highwater::Result<()> {
            let mut operator = WindowOperator::builder(self.batches[0].schema())
                .event_time("ts")
                .key("tenant_id")
                .key("model")
                .window(Window::tumbling(TimeDelta::from_millis(SIZE)))
                .watermark(WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_mins(2)))
                .aggregate(Aggregate::count_all().alias("requests"))
                .aggregate(Aggregate::sum("prompt_tokens").alias("tokens"))
                .build()?;
            for batch in &self.batches {
                operator.push(0, batch)?.fired.iter().for_each(&mut take);
            }
            operator.finish()?.fired.iter().for_each(&mut take);
            Ok(())
        };
        run().unwrap_or_else(|error| unreachable!("generated rows are valid: {error}"));
    }
}
