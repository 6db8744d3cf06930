//! Ten timers for each key, set by ten rows: all fired at once by the end of input, or one after the other as the watermark
//! passes.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use highwater::process::{Keyed, KeyedProcess, ProcessOperator, Results, Rows, Timer};
use highwater::watermark::WatermarkStrategy;
use highwater::{Input, Result};

use crate::BATCH_ROWS;

/// Timers of a key.
const TIMERS: i64 = 10;
/// Milliseconds between a row and its timer, where they are fired one after the other.
const DELAY: i64 = 100_000;

/// When the timers fire.
#[derive(Clone, Copy, Debug)]
enum Firing {
    AtOnce,
    Gradually,
}

/// Rows, one for each timer.
pub struct Timers {
    firing: Firing,
    rows: i64,
    batches: Vec<RecordBatch>,
}

/// Both ways with so many timers: `<firing>/<keys>`.
pub fn timers(timers: u64) -> Vec<(String, Timers)> {
    let keys = timers.div_ceil(TIMERS as u64);
    let one = |firing, name| (format!("{name}/{keys}_i64"), Timers::new(keys as i64, firing));
    vec![one(Firing::AtOnce, "at_once"), one(Firing::Gradually, "gradually")]
}

impl Timers {
    fn new(keys: i64, firing: Firing) -> Self {
        let rows = keys * TIMERS;
        let batch = |from: i64| {
            let rows = from..rows.min(from + BATCH_ROWS as i64);
            let times = rows.clone().map(|row| time(firing, row));
            let columns: [(&str, ArrayRef); 3] = [
                ("ts", Arc::new(TimestampMillisecondArray::from_iter_values(times))),
                ("key", Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row % keys)))),
                ("timer", Arc::new(Int64Array::from_iter_values(rows.map(|row| timer(firing, row, keys))))),
            ];
            RecordBatch::try_from_iter(columns).unwrap_or_else(|error| unreachable!("of one length: {error}"))
        };
        Timers { firing, rows, batches: (0..rows).step_by(BATCH_ROWS).map(batch).collect() }
    }

    /// How many timers there are.
    pub fn timers(&self) -> u64 {
        self.rows as u64
    }

    /// Pushes everything; gives the number of results.
    pub fn run(&self) -> u64 {
        self.results().iter().map(|batch| batch.num_rows() as u64).sum()
    }

    /// Compares the sums that the keys give with those of their timers' times. Panics where they differ.
    pub fn check(&self, name: &str) {
        let keys = self.rows / TIMERS;
        let mut sums = vec![0; keys as usize];
        for batch in self.results() {
            let key = batch["key"].as_primitive::<Int64Type>().values().clone();
            let given = batch["times"].as_primitive::<Int64Type>().values().clone();
            key.iter().zip(given.iter()).for_each(|(&key, times)| sums[key as usize] += times);
        }
        let expected = (0..keys)
            .map(|key| (0..TIMERS).map(|place| timer(self.firing, place * keys + key, keys)).sum::<i64>());
        assert!(sums.into_iter().eq(expected), "{name}: sums of times");
    }

    fn results(&self) -> Vec<RecordBatch> {
        let run = || -> Result<Vec<RecordBatch>> {
            let input = Input::new(self.batches[0].schema()).event_time("ts").key("key");
            let input = input.watermark(WatermarkStrategy::ascending());
            let mut operator = ProcessOperator::builder(AddUp, input).build()?;
            let mut results = Vec::new();
            for batch in &self.batches {
                results.extend(operator.push(0, batch)?.fired);
            }
            results.extend(operator.finish()?.fired);
            Ok(results)
        };
        run().unwrap_or_else(|error| unreachable!("the rows are valid: {error}"))
    }
}

/// The event time of a row.
fn time(firing: Firing, row: i64) -> i64 {
    match firing {
        Firing::AtOnce => 0,
        Firing::Gradually => row,
    }
}

/// The time of the timer that a row sets. A key's are all different: they are in different rounds, one for all keys.
fn timer(firing: Firing, row: i64, keys: i64) -> i64 {
    let scattered = (row % keys) * 7_919 % keys;
    match firing {
        Firing::AtOnce => row / keys * keys + scattered + 1,
        Firing::Gradually => row / keys * keys + scattered + keys.max(DELAY),
    }
}

/// Adds up the times of a key's timers, and gives the sum with the last of them.
struct AddUp;

#[derive(Clone, Default)]
struct Fired {
    count: i64,
    times: i64,
}

impl KeyedProcess for AddUp {
    type State = Fired;
    type Output = i64;
    const FALLIBLE: bool = false;

    fn output_schema(&self, _inputs: &[SchemaRef]) -> Result<SchemaRef> {
        Ok(Arc::new(Schema::new(vec![Field::new("times", DataType::Int64, false)])))
    }

    fn rows(&self, rows: &mut Rows<'_, Self>) -> Result<()> {
        let timers = rows.batch()["timer"].as_primitive::<Int64Type>().values().clone();
        while let Some(mut row) = rows.next()? {
            row.key.register_timer(timers[row.index]);
        }
        Ok(())
    }

    fn timer(&self, timer: Timer, key: &mut Keyed<'_, Self>) -> Result<()> {
        let fired = key.state();
        fired.count += 1;
        fired.times += timer.time;
        let Fired { count, times } = *fired;
        if count == TIMERS {
            key.clear();
            key.emit(times);
        }
        Ok(())
    }

    fn results(&self, outputs: Vec<i64>, _: &Results<'_>) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(Int64Array::from(outputs))])
    }
}
