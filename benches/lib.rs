//! Workloads for the benches: rows in memory, an operator for them, and the answer that it must give.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, RecordBatch};
use highwater::watermark::WatermarkStrategy;
use highwater::{Aggregate, Output, TimeDelta, Window, WindowOperator};
use highwater_cli::generate::{Disorder, KeyType, Spec, Stream, Workload};

/// Rows of a workload, and what is asked of them.
pub struct Load {
    /// `<window>/<keys>/<disorder>`.
    pub id: String,
    /// The rows, in order of arrival, 65,536 a batch.
    pub batches: Vec<RecordBatch>,
    window: (i64, i64),
    aggregates: Vec<Aggregate>,
}

const BOUND_MS: i64 = 20_000;

/// The shapes that every change is measured on: `rows` rows each.
pub fn loads(rows: u64) -> Vec<Load> {
    let minute = 60_000;
    let all = || {
        vec![
            Aggregate::count_all(),
            Aggregate::sum("value"),
            Aggregate::min("value"),
            Aggregate::max("value"),
        ]
    };
    let few = || vec![Aggregate::count_all(), Aggregate::sum("value")];
    let load = |id: &str, workload, window, aggregates, change: &dyn Fn(&mut Spec)| {
        let mut spec = Spec::new(workload);
        spec.rows = rows;
        change(&mut spec);
        let batches = Stream::new(&spec).and_then(|stream| stream.collect());
        let batches = batches.unwrap_or_else(|error| unreachable!("a fixed specification is valid: {error}"));
        Load { id: id.into(), batches, window, aggregates }
    };
    let keys = |key_type| {
        move |spec: &mut Spec| {
            spec.key_type = key_type;
        }
    };
    vec![
        load("tumbling_1m/1000_i32/jitter", Workload::W1, (minute, minute), all(), &|_| {}),
        load("tumbling_1m/1000_i32/none", Workload::W1, (minute, minute), all(), &|spec| {
            spec.disorder = Disorder::NONE;
        }),
        load("tumbling_1m/1000_utf8/jitter", Workload::W1, (minute, minute), all(), &keys(KeyType::Utf8)),
        load(
            "tumbling_1m/1000_dictionary/jitter",
            Workload::W1,
            (minute, minute),
            all(),
            &keys(KeyType::Dictionary),
        ),
        load("tumbling_10s/1000000_i64/jitter", Workload::W3, (10_000, 10_000), few(), &|_| {}),
        load(
            "sliding_24h_15m/1000_i32/jitter",
            Workload::W4,
            (24 * 60 * minute, 15 * minute),
            all(),
            &|_| {},
        ),
        load("sliding_5m_1m/1000_i32/jitter", Workload::W1, (5 * minute, minute), all(), &|_| {}),
    ]
}

impl Load {
    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }

    /// A new operator for the rows.
    pub fn operator(&self) -> WindowOperator {
        let (size, slide) = self.window;
        let mut builder = WindowOperator::builder(self.batches[0].schema())
            .event_time("ts")
            .key("key")
            .window(Window::sliding(TimeDelta::from_millis(size), TimeDelta::from_millis(slide)))
            .watermark(WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_millis(BOUND_MS)));
        for aggregate in &self.aggregates {
            builder = builder.aggregate(aggregate.clone());
        }
        builder.build().unwrap_or_else(|error| unreachable!("a fixed specification is valid: {error}"))
    }

    /// Pushes all rows and ends the input; `each` sees every output.
    pub fn run(&self, mut each: impl FnMut(Output)) -> highwater::Result<()> {
        let mut operator = self.operator();
        for batch in &self.batches {
            each(operator.push(0, batch)?);
        }
        each(operator.finish()?);
        Ok(())
    }

    /// Reads the three columns of the rows once and adds each up: what no engine can be faster than. For Int32 keys.
    pub fn scan(&self) -> (i64, i64, f64) {
        let mut sums = (0i64, 0i64, [0.0; 16]);
        for batch in &self.batches {
            let times = batch.column(0).as_primitive::<TimestampMillisecondType>().values();
            let keys = batch.column(1).as_primitive::<Int32Type>().values();
            let (values, rest) = batch.column(2).as_primitive::<Float64Type>().values().as_chunks::<16>();
            sums.0 = times.iter().fold(sums.0, |sum, &time| sum.wrapping_add(time));
            sums.1 = keys.iter().fold(sums.1, |sum, &key| sum + i64::from(key));
            for chunk in values {
                sums.2.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += value);
            }
            sums.2[0] += rest.iter().sum::<f64>();
        }
        (sums.0, sums.1, sums.2.iter().sum())
    }

    /// Compares the engine's answer with a loop over the rows and a hash map: counts and sums of every window, and the
    /// number of rows that were dropped. Values are multiples of 1/64, so sums are exact. Panics where they differ.
    pub fn check(&self) {
        let (expected, expected_late) = self.by_hand();
        let (mut got, mut late) = (HashMap::new(), 0);
        let result = self.run(|output| {
            late += output.late.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
            for batch in output.fired {
                let starts = batch.column(1).as_primitive::<TimestampMillisecondType>();
                let counts = batch.column(3).as_primitive::<Int64Type>();
                let sums = batch.column(4).as_primitive::<Float64Type>();
                for row in 0..batch.num_rows() {
                    let key = (starts.value(row), key_text(batch.column(0), row));
                    let known = got.insert(key, (counts.value(row), sums.value(row)));
                    assert!(known.is_none(), "{}: a window fired twice", self.id);
                }
            }
        });
        assert_eq!(result, Ok(()), "{}", self.id);
        assert_eq!(late, expected_late, "{}: rows dropped", self.id);
        assert!(got == expected, "{}: results differ from the loop by hand", self.id);
    }

    /// Row by row: a row joins each of its windows whose end the watermark before it has not reached.
    #[expect(clippy::type_complexity, reason = "a map from window and key to count and sum")]
    fn by_hand(&self) -> (HashMap<(i64, String), (i64, f64)>, u64) {
        let (size, slide) = self.window;
        let (mut windows, mut late) = (HashMap::<(i64, String), (i64, f64)>::new(), 0);
        let mut watermark = i64::MIN;
        for batch in &self.batches {
            let times = batch.column(0).as_primitive::<TimestampMillisecondType>();
            let values = batch.column(2).as_primitive::<Float64Type>();
            for row in 0..batch.num_rows() {
                let time = times.value(row);
                let mut start = time.div_euclid(slide) * slide;
                let mut taken = false;
                let key = key_text(batch.column(1), row);
                while start + size > time && start + size - 1 > watermark {
                    let state = windows.entry((start, key.clone())).or_default();
                    *state = (state.0 + 1, state.1 + values.value(row));
                    taken = true;
                    start -= slide;
                }
                late += u64::from(!taken);
                watermark = watermark.max(time - BOUND_MS - 1);
            }
        }
        (windows, late)
    }
}

fn key_text(column: &dyn Array, row: usize) -> String {
    use arrow_schema::DataType;
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        _ => {
            let dictionary = column.as_any_dictionary();
            dictionary.values().as_string::<i32>().value(dictionary.normalized_keys()[row]).into()
        }
    }
}
