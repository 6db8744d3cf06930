//! Any specification is built or refused in words, whatever the schema; what was built takes an empty batch and ends.
#![no_main]

use std::sync::Arc;

use arbitrary::{Arbitrary, Result, Unstructured};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use highwater::watermark::{Cadence, WatermarkStrategy};
use highwater::{Aggregate, FutureGuard, Limits, TimeDelta, Window, WindowOperator};
use libfuzzer_sys::fuzz_target;

fn data_type(u: &mut Unstructured<'_>, depth: usize) -> Result<DataType> {
    use DataType::*;
    let unit = |u: &mut Unstructured<'_>| {
        u.choose(&[TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond]).copied()
    };
    Ok(match u.int_in_range(0..=18)? {
        0 => Int64,
        1 => Int32,
        2 => UInt64,
        3 => UInt8,
        4 => Float64,
        5 => Float32,
        6 => Float16,
        7 => Utf8,
        8 => Utf8View,
        9 => LargeBinary,
        10 => Boolean,
        11 => Date32,
        12 => Date64,
        13 => Timestamp(unit(u)?, None),
        14 => Timestamp(unit(u)?, Some("+01:00".into())),
        15 => Decimal128(u.int_in_range(1..=38)?, u.int_in_range(-5..=30)?),
        16 => Duration(unit(u)?),
        17 if depth < 2 => Dictionary(Box::new(Int32), Box::new(data_type(u, depth + 1)?)),
        18 if depth < 2 => List(Arc::new(Field::new("item", data_type(u, depth + 1)?, true))),
        _ => Null,
    })
}

fn delta(u: &mut Unstructured<'_>) -> Result<TimeDelta> {
    Ok(match u.int_in_range(0..=4)? {
        0 => TimeDelta::from_nanos(i128::arbitrary(u)? >> 20),
        1 => TimeDelta::from_millis(i64::arbitrary(u)?),
        2 => TimeDelta::from_days(i64::from(i16::arbitrary(u)?)),
        3 => TimeDelta::ZERO,
        _ => TimeDelta::from_secs(i64::from(u8::arbitrary(u)?)),
    })
}

fn attempt(u: &mut Unstructured<'_>) -> Result<()> {
    let names = ["a", "b", "c", "window_start", "late_watermark"];
    let name = |u: &mut Unstructured<'_>| u.choose(&names).copied();
    let fields = (0..u.int_in_range(0..=4)?)
        .map(|i| Ok(Field::new(names[i], data_type(u, 0)?, true)))
        .collect::<Result<Vec<_>>>()?;
    let schema = Arc::new(Schema::new(fields));
    let mut builder = WindowOperator::builder(schema.clone())
        .event_time(name(u)?)
        .window(Window::sliding(delta(u)?, delta(u)?).offset(delta(u)?))
        .watermark(match u.int_in_range(0..=3)? {
            0 => WatermarkStrategy::bounded_out_of_orderness(delta(u)?),
            1 => WatermarkStrategy::delay(delta(u)?),
            2 => WatermarkStrategy::punctuated(name(u)?),
            _ => WatermarkStrategy::explicit(),
        })
        .allowed_lateness(delta(u)?)
        .partitions(u.int_in_range(0..=40)?)
        .limits(Limits { max_keys: usize::arbitrary(u)?, ..Limits::default() });
    if u.arbitrary()? {
        builder = builder.event_time_unit(TimeUnit::Millisecond).cadence(Cadence::Every(delta(u)?));
    }
    if u.arbitrary()? {
        builder = builder.idle_timeout(delta(u)?).future_guard(FutureGuard::ingest_time(name(u)?, delta(u)?));
    }
    for _ in 0..u.int_in_range(0..=2)? {
        builder = builder.key(name(u)?);
    }
    for _ in 0..u.int_in_range(0..=3)? {
        let column = name(u)?;
        builder = builder.aggregate(match u.int_in_range(0..=11)? {
            0 => Aggregate::count_all(),
            1 => Aggregate::count(column),
            2 => Aggregate::sum(column),
            3 => Aggregate::min(column),
            4 => Aggregate::mean(column),
            5 => Aggregate::stddev(column),
            6 => Aggregate::first(column),
            7 => Aggregate::quantile(column, f64::arbitrary(u)?),
            8 => Aggregate::reservoir_quantile(column, 0.5, usize::arbitrary(u)?),
            9 => Aggregate::max_by(column, name(u)?),
            10 => Aggregate::min_by(column, name(u)?),
            _ => Aggregate::approx_distinct(column),
        });
    }
    match builder.build() {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(mut operator) => {
            let pushed = operator.push(0, &RecordBatch::new_empty(schema));
            assert!(pushed.is_ok_and(|output| output.is_empty()));
            assert!(operator.finish().is_ok_and(|output| output.is_empty()));
        }
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let _ = attempt(&mut Unstructured::new(bytes));
});
