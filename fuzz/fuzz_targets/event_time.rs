//! Any event-time column: every unit and type, sliced, with nulls over any bits, under every null policy and guard. Every
//! row is accounted for, and the rows handed back are those that have no usable time.
#![no_main]

use std::sync::Arc;

use arbitrary::{Arbitrary, Result, Unstructured};
use arrow_array::{Array, ArrayRef, RecordBatch, make_array};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use highwater::watermark::WatermarkStrategy;
use highwater::{Aggregate, FutureGuard, NullPolicy, TickUnit, TimeDelta, Window, WindowOperator};
use libfuzzer_sys::fuzz_target;

fn column(data_type: &DataType, values: &[i64], valid: &[bool]) -> ArrayRef {
    let buffer = match data_type {
        DataType::Date32 => Buffer::from_iter(values.iter().map(|&value| value as i32)),
        _ => Buffer::from_iter(values.iter().copied()),
    };
    let data = ArrayData::builder(data_type.clone())
        .len(values.len())
        .add_buffer(buffer)
        .nulls(Some(NullBuffer::from(valid.to_vec())))
        .build();
    make_array(data.expect("lengths agree"))
}

fn attempt(u: &mut Unstructured<'_>) -> Result<()> {
    let types = [
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into())),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Date32,
        DataType::Date64,
        DataType::Int64,
    ];
    let (time_type, ingest_type) = (u.choose(&types)?.clone(), u.choose(&types)?.clone());
    let unit = TickUnit::of(&time_type, Some(TimeUnit::Millisecond)).expect("all of these carry time");
    let ticks = |ticks| TimeDelta::from_ticks(ticks, unit);
    let policy = *u.choose(&[NullPolicy::Reject, NullPolicy::Drop, NullPolicy::Error])?;
    let guarded = bool::arbitrary(u)?;
    let rows: Vec<(i64, bool, i64, bool)> = Vec::arbitrary(u)?;
    let (from, tolerance) = (u.int_in_range(0..=rows.len())?, i64::from(u8::arbitrary(u)?));
    let pick = |pick: fn(&(i64, bool, i64, bool)) -> i64| rows.iter().map(pick).collect::<Vec<_>>();
    let flags = |pick: fn(&(i64, bool, i64, bool)) -> bool| rows.iter().map(pick).collect::<Vec<_>>();
    let schema = Arc::new(Schema::new(vec![
        Field::new("ts", time_type.clone(), true),
        Field::new("ingest", ingest_type.clone(), true),
    ]));
    let columns = vec![
        column(&time_type, &pick(|row| row.0), &flags(|row| row.1)),
        column(&ingest_type, &pick(|row| row.2), &flags(|row| row.3)),
    ];
    let batch = RecordBatch::try_new(schema.clone(), columns).expect("columns fit").slice(from, rows.len() - from);
    let mut builder = WindowOperator::builder(schema)
        .event_time("ts")
        .event_time_unit(TimeUnit::Millisecond)
        .window(Window::tumbling(ticks(7)))
        .watermark(WatermarkStrategy::bounded_out_of_orderness(ticks(3)))
        .null_policy(policy)
        .aggregate(Aggregate::count_all());
    if guarded {
        builder = builder.future_guard(FutureGuard::ingest_time("ingest", ticks(tolerance)));
    }
    let mut operator = builder.build().expect("a valid specification");
    let nulls = batch.column(0).null_count() as u64;
    let result = operator.push(0, &batch);
    let counts = operator.metrics().total;
    operator.validate();
    let Ok(output) = result else {
        assert!(policy == NullPolicy::Error && nulls > 0 && counts.rows_in == 0);
        return Ok(());
    };
    assert_eq!((counts.rows_in, counts.rejected_null), (batch.num_rows() as u64, nulls));
    let handed_back: usize = output.rejected.iter().map(|batch| batch.num_rows()).sum();
    let dropped = if policy == NullPolicy::Drop { nulls } else { 0 };
    assert_eq!(handed_back as u64, counts.rejected() - dropped);
    assert!(guarded || counts.rejected() == nulls);
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let _ = attempt(&mut Unstructured::new(bytes));
});
