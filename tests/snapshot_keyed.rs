//! Snapshots of windows that each key has for itself: rows and results that are kept come back as they were, on any number of
//! threads.
#![expect(clippy::unwrap_used, reason = "a test that panics has found something")]

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field, Schema};
use highwater::watermark::WatermarkStrategy;
use highwater::{
    Aggregate, Evictor, ResultMode, TimeDelta, Trigger, Window, WindowContext, WindowFunction,
    WindowOperator, WindowOperatorBuilder,
};

const MS: fn(i64) -> TimeDelta = TimeDelta::from_millis;

/// Rows of 50 tenants whose names are in a dictionary of 8-bit keys: 50 of them in each of `batches` batches, other names in
/// every one, so that no one dictionary could hold them all.
fn batches(from: i64, batches: i64) -> Vec<RecordBatch> {
    let batch = |number: i64| {
        let time = |row: i64| from + 10 * number + row / 9;
        let names: Vec<String> = (0..50).map(|row| format!("tenant {}", (number * 31 + row) % 400)).collect();
        let tenants: DictionaryArray<Int8Type> = names.iter().map(|name| Some(name.as_str())).collect();
        let values = (0..50).map(|row| if row % 7 == 0 { None } else { Some(row as f64 / 3.0) });
        RecordBatch::try_from_iter_with_nullable([
            (
                "ts",
                Arc::new((0..50).map(|row| Some(time(row))).collect::<TimestampMillisecondArray>())
                    as ArrayRef,
                true,
            ),
            ("tenant", Arc::new(tenants), true),
            ("usd", Arc::new(values.collect::<Float64Array>()), true),
        ])
        .unwrap()
    };
    (0..batches).map(batch).collect()
}

fn builder() -> WindowOperatorBuilder {
    WindowOperator::builder(batches(0, 1)[0].schema())
        .event_time("ts")
        .key("tenant")
        .watermark(WatermarkStrategy::bounded_out_of_orderness(MS(15)))
        .allowed_lateness(MS(40))
}

/// Pushes some rows, takes a snapshot, and pushes more to the operator and to one restored on `threads` threads.
fn goes_on(build: impl Fn() -> WindowOperatorBuilder, threads: usize) {
    let mut never = build().threads(3).build().unwrap();
    for batch in batches(0, 9) {
        let _ = never.push(0, &batch).unwrap();
    }
    let snapshot = never.snapshot().unwrap();
    let mut restored = build().threads(threads).restore(&snapshot).unwrap();
    restored.validate();
    assert!(restored.snapshot().unwrap() == snapshot, "saved again");
    assert!(never.metrics().keys > 100, "{:?}", never.metrics());
    // late rows, rows that go on, and the end
    let mut fired = 0;
    for batch in batches(30, 6).iter().chain(&batches(90, 9)) {
        let (one, other) = (never.push(0, batch).unwrap(), restored.push(0, batch).unwrap());
        fired += one.fired.len();
        assert_eq!(format!("{other:?}"), format!("{one:?}"));
    }
    assert_eq!(format!("{:?}", restored.finish()), format!("{:?}", never.finish()));
    assert!(fired > 0);
}

#[test]
fn sessions_and_what_they_take_back() {
    for threads in [1, 2, 5] {
        goes_on(
            || {
                builder()
                    .window(Window::session(MS(25)))
                    .result_mode(ResultMode::Retract)
                    .trigger(Trigger::early_count(2))
                    .firing_number_column(true)
                    .aggregate(Aggregate::sum("usd"))
                    .aggregate(Aggregate::last("usd"))
            },
            threads,
        );
    }
}

#[test]
fn rows_that_an_evictor_has_left() {
    for threads in [1, 4] {
        let evicted = || builder().evictor(Evictor::time(MS(20))).aggregate(Aggregate::sum("usd"));
        goes_on(|| evicted().window(Window::sliding(MS(60), MS(20))), threads);
        goes_on(|| evicted().window(Window::session(MS(25))).result_mode(ResultMode::Retract), threads);
        goes_on(|| builder().window(Window::count_sliding(4, 2)).aggregate(Aggregate::sum("usd")), threads);
    }
}

/// The tenants of a window's rows, one after the other.
#[derive(Debug)]
struct Names;

impl WindowFunction for Names {
    fn output(&self, _: &Schema) -> Result<Vec<Field>, String> {
        Ok(vec![Field::new("names", DataType::Utf8, true), Field::new("rows", DataType::Int64, true)])
    }
    fn call(&self, _: &WindowContext, rows: &RecordBatch) -> Result<RecordBatch, String> {
        let tenants = rows["tenant"].as_any().downcast_ref::<DictionaryArray<Int8Type>>();
        let tenants = tenants.and_then(|tenants| tenants.downcast_dict::<StringArray>());
        let tenants: Vec<&str> = tenants.ok_or("a dictionary was expected")?.into_iter().flatten().collect();
        RecordBatch::try_from_iter_with_nullable([
            ("names", Arc::new(StringArray::from(vec![tenants.join(",")])) as ArrayRef, true),
            ("rows", Arc::new(Int64Array::from(vec![rows.num_rows() as i64])), true),
        ])
        .map_err(|error| error.to_string())
    }
}

#[test]
fn rows_that_a_function_waits_for() {
    for threads in [1, 2] {
        goes_on(|| builder().window(Window::tumbling(MS(100))).process(Names), threads);
        goes_on(|| builder().window(Window::session(MS(25))).process(Names), threads);
    }
}
