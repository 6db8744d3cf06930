//! The engine under test: a case's calls as record batches, its answers as plain rows.

use std::sync::Arc;

use arrow_array::builder::{StringDictionaryBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Date64Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use highwater::watermark::{self, WatermarkStrategy};
use highwater::{
    Aggregate, FutureGuard, Input, LATE_WATERMARK, REJECT_REASON, TickUnit, TimeDelta, WindowOperator,
    WindowOperatorBuilder,
};
use highwater_oracle::{
    Cadence, Firing, Function, Guard, Kind, Late, LateFiring, NullPolicy, Op, Output, Reactivation, Reason,
    Rejected, Row, Spec, Strategy, Value,
};

use crate::case::{Case, KeyShape, Shape, TimeType};
use crate::vocabulary;

/// A [`WindowOperator`] built for a case.
pub(crate) struct Engine {
    pub(crate) operator: WindowOperator,
    batches: Batches,
}

/// Makes batches of rows.
#[derive(Clone)]
pub(crate) struct Batches {
    shape: Shape,
    pub(crate) schema: SchemaRef,
    pub(crate) keys: usize,
    /// The running number of the next row.
    pub(crate) next: i64,
}

impl Engine {
    pub(crate) fn new(case: &Case, threads: usize) -> Engine {
        let batches = Batches::new(&case.shape);
        let operator = builder(case, &batches, threads).build().expect("a case is a valid specification");
        Engine { operator, batches }
    }

    /// The engine again, after its operator has gone through a snapshot.
    pub(crate) fn restored(&self, case: &Case, threads: usize) -> Engine {
        let snapshot = self.operator.snapshot().expect("there is a snapshot of every case");
        let operator = builder(case, &self.batches, threads).restore(&snapshot);
        self.with(operator.expect("a snapshot can be restored"))
    }

    /// The engine with an operator out of these bytes.
    pub(crate) fn restored_from(&self, case: &Case, snapshot: &[u8]) -> Result<Engine, highwater::Error> {
        Ok(self.with(builder(case, &self.batches, 1).restore(snapshot)?))
    }

    fn with(&self, operator: WindowOperator) -> Engine {
        operator.validate();
        Engine { operator, batches: self.batches.clone() }
    }

    /// Makes a call. An error must have changed nothing.
    pub(crate) fn apply(&mut self, op: &Op) -> Result<Output, highwater::Error> {
        let first = self.batches.next;
        let output = match op {
            Op::Push(partition, rows) => {
                let batch = self.batches.batch(rows);
                self.operator.push(*partition, &batch)
            }
            Op::PushAll(batches) => {
                let batches: Vec<_> =
                    batches.iter().map(|(p, rows)| (*p, self.batches.batch(rows))).collect();
                self.operator.push_all(&batches)
            }
            Op::Watermark(partition, watermark) => self.operator.advance_watermark(*partition, *watermark),
            Op::MarkIdle(partition) => self.operator.mark_idle(*partition),
            Op::MarkActive(partition) => self.operator.mark_active(*partition),
            Op::AdvanceClock(now) => self.operator.advance_clock(*now),
            Op::EmitWatermarks => self.operator.emit_watermarks(),
            Op::FinishPartition(partition) => self.operator.finish_partition(*partition),
            Op::Finish => self.operator.finish(),
        };
        self.operator.validate();
        if output.is_err() {
            self.batches.next = first;
        }
        Ok(self.plain(&output?))
    }

    fn plain(&self, output: &highwater::Output) -> Output {
        Output {
            fired: output
                .fired
                .iter()
                .flat_map(|batch| (0..batch.num_rows()).map(|row| self.firing(batch, row)))
                .collect(),
            late: each(&output.late, |batch, row| Late {
                row: id(batch, row),
                watermark: ticks(named(batch, LATE_WATERMARK), row),
            }),
            rejected: each(&output.rejected, |batch, row| Rejected {
                row: id(batch, row),
                reason: match named(batch, REJECT_REASON).as_string::<i32>().value(row) {
                    "null_event_time" => Reason::NullTime,
                    "future_event_time" => Reason::Future,
                    _ => Reason::NullReference,
                },
            }),
        }
    }

    fn firing(&self, batch: &RecordBatch, row: usize) -> Firing {
        let columns = batch.columns();
        let number = batch.column_by_name("firing_number");
        let retraction = batch.column_by_name("retraction");
        let values =
            columns.iter().zip(batch.schema_ref().fields()).filter(|(_, f)| f.name().starts_with('a'));
        Firing {
            key: columns[..self.batches.keys].iter().map(|column| value(column, row)).collect(),
            start: ticks(named(batch, "window_start"), row),
            end: ticks(named(batch, "window_end"), row),
            kind: match named(batch, "firing").as_string::<i32>().value(row) {
                "early" => Kind::Early,
                "on_time" => Kind::OnTime,
                _ => Kind::Late,
            },
            number: number.map_or(0, |column| column.as_primitive::<Int64Type>().value(row) as u64),
            retraction: retraction.is_some_and(|column| column.as_boolean().value(row)),
            values: values.map(|(column, _)| value(column, row)).collect(),
        }
    }
}

impl Batches {
    pub(crate) fn new(shape: &Shape) -> Batches {
        let schema = schema(shape);
        let keys = schema.fields().iter().filter(|field| field.name().starts_with('k')).count();
        Batches { shape: shape.clone(), schema, keys, next: 0 }
    }

    pub(crate) fn batch(&mut self, rows: &[Row]) -> RecordBatch {
        let ids: Vec<i64> = (self.next..).take(rows.len()).collect();
        self.next += rows.len() as i64;
        let times =
            |pick: fn(&Row) -> Option<i64>| time_array(self.shape.time, rows.iter().map(pick).collect());
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(ids)),
            times(|row| row.time),
            times(|row| row.ingest_time),
            times(|row| row.marker),
        ];
        for key in 0..self.keys {
            let data_type = self.schema.field(columns.len()).data_type();
            columns.push(value_array(data_type, rows.iter().map(|row| &row.key[key])));
        }
        for value in 0..crate::case::VALUE_COLUMNS {
            let data_type = self.schema.field(columns.len()).data_type();
            columns.push(value_array(data_type, rows.iter().map(|row| &row.values[value])));
        }
        RecordBatch::try_new(self.schema.clone(), columns).expect("columns are made for the schema")
    }
}

/// The running number of a row that comes back.
pub(crate) fn id(batch: &RecordBatch, row: usize) -> u64 {
    batch.column(0).as_primitive::<Int64Type>().value(row) as u64
}

pub(crate) fn spans(shape: &Shape) -> impl Fn(i64) -> TimeDelta + Copy {
    let unit = tick_unit(shape.time);
    move |ticks| TimeDelta::from_ticks(ticks, unit)
}

/// The input of a case as it is asked of the engine.
pub(crate) fn input(spec: &Spec, batches: &Batches) -> Input {
    let span = spans(&batches.shape);
    let mut input = Input::new(batches.schema.clone())
        .event_time("ts")
        .event_time_unit(TimeUnit::Millisecond)
        .watermark(strategy(&spec.strategy, span))
        .cadence(match spec.cadence {
            Cadence::EveryRow => watermark::Cadence::EveryRow,
            Cadence::EveryBatch => watermark::Cadence::EveryBatch,
            Cadence::Every(interval) => watermark::Cadence::Every(span(interval)),
            Cadence::OnRequest => watermark::Cadence::OnRequest,
        })
        .null_policy(match spec.null_policy {
            NullPolicy::Reject => highwater::NullPolicy::Reject,
            NullPolicy::Error => highwater::NullPolicy::Error,
            NullPolicy::Drop => highwater::NullPolicy::Drop,
        })
        .reactivation(match spec.reactivation {
            Reactivation::WhenCaughtUp => watermark::Reactivation::WhenCaughtUp,
            Reactivation::AtOnce => watermark::Reactivation::AtOnce,
        })
        .partitions(spec.partitions);
    for key in 0..batches.keys {
        input = input.key(format!("k{key}"));
    }
    if let Some(timeout) = spec.idle_timeout {
        input = input.idle_timeout(span(timeout));
    }
    match spec.guard {
        Guard::None => input,
        Guard::IngestTime(tolerance) => {
            input.future_guard(FutureGuard::ingest_time("ingest", span(tolerance)))
        }
        Guard::Clock(tolerance) => input.future_guard(FutureGuard::clock(span(tolerance))),
    }
}

/// The case as it is asked of the engine.
fn builder(case: &Case, batches: &Batches, threads: usize) -> WindowOperatorBuilder {
    let (spec, span) = (&case.spec, spans(&case.shape));
    let mut builder = WindowOperatorBuilder::from(input(spec, batches))
        .allowed_lateness(span(spec.allowed_lateness))
        .late_firing(match spec.late_firing {
            LateFiring::PerRow => highwater::LateFiring::PerRow,
            LateFiring::Coalesced => highwater::LateFiring::Coalesced,
        })
        .threads(threads)
        .firing_column(true)
        .firing_number_column(case.shape.numbered);
    builder = vocabulary::build(builder, spec, span);
    for (number, aggregate) in spec.aggregates.iter().enumerate() {
        builder = builder.aggregate(as_aggregate(aggregate).alias(format!("a{number}")));
    }
    builder
}

pub(crate) fn each<T>(batches: &[RecordBatch], make: impl Fn(&RecordBatch, usize) -> T) -> Vec<T> {
    batches
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).map(|row| make(batch, row)).collect::<Vec<_>>())
        .collect()
}

pub(crate) fn named<'a>(batch: &'a RecordBatch, name: &str) -> &'a ArrayRef {
    batch.column_by_name(name).expect("the output has this column")
}

fn strategy(strategy: &Strategy, span: impl Fn(i64) -> TimeDelta) -> WatermarkStrategy {
    match strategy {
        Strategy::Bounded(bound) => WatermarkStrategy::bounded_out_of_orderness(span(*bound)),
        Strategy::Ascending => WatermarkStrategy::ascending(),
        Strategy::Delay(delay) => WatermarkStrategy::delay(span(*delay)),
        Strategy::Explicit => WatermarkStrategy::explicit(),
        Strategy::Punctuated => WatermarkStrategy::punctuated("marker"),
    }
}

fn as_aggregate((function, column): &(Function, usize)) -> Aggregate {
    let names = ["v0", "v1", "v2"];
    let column = names[*column];
    match function {
        Function::CountAll => Aggregate::count_all(),
        Function::Count => Aggregate::count(column),
        Function::Sum => Aggregate::sum(column),
        Function::Min => Aggregate::min(column),
        Function::Max => Aggregate::max(column),
        Function::Mean => Aggregate::mean(column),
        Function::Variance => Aggregate::variance(column),
        Function::First => Aggregate::first(column),
        Function::Last => Aggregate::last(column),
        Function::MaxBy(by) => Aggregate::max_by(column, names[*by]),
        Function::MinBy(by) => Aggregate::min_by(column, names[*by]),
        // exact while a window has no more rows than this
        Function::Quantile(q) => Aggregate::reservoir_quantile(column, *q, 1 << 20),
        Function::Members => unreachable!("no case asks for members"),
    }
}

fn tick_unit(time: TimeType) -> TickUnit {
    match time {
        TimeType::Seconds => TickUnit::Second,
        TimeType::MillisInZone | TimeType::DeclaredMillis | TimeType::Date64 => TickUnit::Millisecond,
        TimeType::Micros => TickUnit::Microsecond,
        TimeType::Nanos => TickUnit::Nanosecond,
        TimeType::Date32 => TickUnit::Day,
    }
}

fn time_array(time: TimeType, ticks: Vec<Option<i64>>) -> ArrayRef {
    match time {
        TimeType::Seconds => Arc::new(TimestampSecondArray::from(ticks)),
        TimeType::MillisInZone => Arc::new(TimestampMillisecondArray::from(ticks).with_timezone("+02:00")),
        TimeType::Micros => Arc::new(TimestampMicrosecondArray::from(ticks)),
        TimeType::Nanos => Arc::new(TimestampNanosecondArray::from(ticks)),
        TimeType::DeclaredMillis => Arc::new(Int64Array::from(ticks)),
        TimeType::Date64 => Arc::new(Date64Array::from(ticks)),
        TimeType::Date32 => Arc::new(Date32Array::from_iter(ticks.iter().map(|t| t.map(|t| t as i32)))),
    }
}

fn schema(shape: &Shape) -> SchemaRef {
    let time = time_array(shape.time, vec![]).data_type().clone();
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let keys = match shape.key {
        KeyShape::Unkeyed => vec![],
        KeyShape::Int32 => vec![DataType::Int32],
        KeyShape::Int64 => vec![DataType::Int64],
        KeyShape::Float64 => vec![DataType::Float64],
        KeyShape::Boolean => vec![DataType::Boolean],
        KeyShape::Utf8 => vec![DataType::Utf8],
        KeyShape::Utf8View => vec![DataType::Utf8View],
        KeyShape::Dictionary => vec![dictionary],
        KeyShape::Pair => vec![DataType::Int32, DataType::Utf8],
        KeyShape::FloatAndDictionary => vec![DataType::Float64, dictionary],
    };
    let values = [DataType::Int64, DataType::Float64, DataType::Utf8];
    let mut fields = vec![Field::new("id", DataType::Int64, false)];
    fields.extend(["ts", "ingest", "marker"].map(|name| Field::new(name, time.clone(), true)));
    fields.extend(keys.into_iter().enumerate().map(|(i, t)| Field::new(format!("k{i}"), t, true)));
    fields.extend(values.into_iter().enumerate().map(|(i, t)| Field::new(format!("v{i}"), t, true)));
    Arc::new(Schema::new(fields))
}

fn value_array<'a>(data_type: &DataType, values: impl Iterator<Item = &'a Value>) -> ArrayRef {
    let int = |value: &Value| if let Value::Int(int) = value { Some(*int) } else { None };
    let text = |value: &'a Value| if let Value::Text(text) = value { Some(text.as_str()) } else { None };
    match data_type {
        DataType::Int32 => Arc::new(values.map(|v| int(v).map(|v| v as i32)).collect::<Int32Array>()),
        DataType::Int64 => Arc::new(values.map(int).collect::<Int64Array>()),
        DataType::Float64 => Arc::new(
            values.map(|v| if let Value::Float(f) = v { Some(*f) } else { None }).collect::<Float64Array>(),
        ),
        DataType::Boolean => Arc::new(
            values.map(|v| if let Value::Bool(b) = v { Some(*b) } else { None }).collect::<BooleanArray>(),
        ),
        DataType::Utf8 => Arc::new(values.map(text).collect::<StringArray>()),
        DataType::Utf8View => {
            let mut builder = StringViewBuilder::new();
            values.for_each(|v| builder.append_option(text(v)));
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = StringDictionaryBuilder::<Int32Type>::new();
            values.for_each(|v| builder.append_option(text(v)));
            Arc::new(builder.finish())
        }
    }
}

pub(crate) fn value(column: &ArrayRef, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Int32 => Value::Int(column.as_primitive::<Int32Type>().value(row) as i64),
        DataType::Int64 => Value::Int(column.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => Value::Int(column.as_primitive::<UInt64Type>().value(row) as i64),
        DataType::Float64 => Value::Float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => Value::Bool(column.as_boolean().value(row)),
        DataType::Utf8 => Value::Text(column.as_string::<i32>().value(row).into()),
        DataType::Utf8View => Value::Text(column.as_string_view().value(row).into()),
        other => unreachable!("no case has an output of type {other}"),
    }
}

pub(crate) fn ticks(column: &ArrayRef, row: usize) -> i64 {
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => column.as_primitive::<TimestampSecondType>().value(row),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            column.as_primitive::<TimestampMillisecondType>().value(row)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            column.as_primitive::<TimestampMicrosecondType>().value(row)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            column.as_primitive::<TimestampNanosecondType>().value(row)
        }
        DataType::Date32 => column.as_primitive::<Date32Type>().value(row) as i64,
        DataType::Date64 => column.as_primitive::<Date64Type>().value(row),
        _ => column.as_primitive::<Int64Type>().value(row),
    }
}
