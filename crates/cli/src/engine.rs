//! From flags to an operator, and from the operator's errors back to flags.

use std::path::Path;

use arrow_schema::{DataType, SchemaRef};
use highwater::watermark::{Cadence, Reactivation, WatermarkStrategy};
use highwater::{
    Aggregate, Error, FutureGuard, LateFiring, Limits, NullPolicy, TickUnit, Window, WindowOperator,
};

use crate::args::{CadenceArg, LateFiringArg, OnNull, ReactivationArg, WindowArgs};
use crate::failure::{Failure, Outcome};

/// Builds the operator for rows of `schema`, or makes it again out of a snapshot.
pub(crate) fn build(
    args: &WindowArgs,
    window: &Window,
    schema: &SchemaRef,
    partitions: usize,
    snapshot: Option<&[u8]>,
) -> Outcome<WindowOperator> {
    let threads = args
        .resources
        .threads
        .map_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get), usize::from);
    let mut builder = WindowOperator::builder(schema.clone())
        .event_time(&args.input.time)
        .window(window.clone())
        .watermark(strategy(args)?)
        .cadence(match args.watermark.cadence {
            CadenceArg::EveryRow => Cadence::EveryRow,
            CadenceArg::EveryBatch => Cadence::EveryBatch,
            CadenceArg::Every(interval) => Cadence::Every(interval),
        })
        .late_firing(match args.watermark.late_firing {
            LateFiringArg::Coalesced => LateFiring::Coalesced,
            LateFiringArg::PerRow => LateFiring::PerRow,
        })
        .null_policy(match args.input.on_null {
            OnNull::Reject => NullPolicy::Reject,
            OnNull::Error => NullPolicy::Error,
            OnNull::Drop => NullPolicy::Drop,
        })
        .trigger(args.firing.trigger())
        .result_mode(args.firing.mode())
        .firing_column(args.firing.firing)
        .firing_number_column(args.firing.firing_number)
        .window_time_column(args.firing.window_time)
        .sort_by_key(args.shape.sort)
        .limits(limits(args))
        .partitions(partitions)
        .threads(threads);
    if let (DataType::Int64, Some(unit)) = (time_type(args, schema), args.input.time_unit) {
        builder = builder.event_time_unit(unit.into());
    }
    for key in &args.shape.key {
        builder = builder.key(key);
    }
    if let Some(lateness) = args.watermark.lateness {
        builder = builder.allowed_lateness(lateness);
    }
    if let (Some(column), Some(max_future)) = (&args.input.ingest_time, args.input.max_future) {
        builder = builder.future_guard(FutureGuard::ingest_time(column, max_future));
    }
    if let Some(idle) = args.watermark.idle {
        builder = builder.idle_timeout(idle);
    }
    if let Some(rule) = args.watermark.reactivation {
        builder = builder.reactivation(match rule {
            ReactivationArg::WhenCaughtUp => Reactivation::WhenCaughtUp,
            ReactivationArg::AtOnce => Reactivation::AtOnce,
        });
    }
    if let Some(quiet) = args.watermark.flush_after_quiet {
        builder = builder.flush_after_quiet(quiet);
    }
    if let Some(evictor) = args.firing.evictor() {
        builder = builder.evictor(evictor);
    }
    if let (Some(top), Some(by)) = (args.shape.top, &args.shape.by) {
        builder = builder.top(top as usize, by);
    }
    if args.shape.agg.is_empty() {
        builder = builder.aggregate(Aggregate::count_all());
    }
    for parsed in &args.shape.agg {
        builder = builder.aggregate(parsed.aggregate.clone());
    }
    let operator = match snapshot {
        None => builder.build(),
        Some(snapshot) => builder.restore(snapshot),
    };
    operator.map_err(|error| match error {
        Error::Snapshot { message, .. } => {
            let directory = args.checkpoint.checkpoint.as_deref().unwrap_or(Path::new(""));
            Failure::at(
                directory.display(),
                format_args!(
                    "the checkpoint cannot be taken up: {message}; remove the directory to start over"
                ),
            )
        }
        error => Failure::usage(in_flags(&error, args)),
    })
}

fn time_type(args: &WindowArgs, schema: &SchemaRef) -> DataType {
    schema.field_with_name(&args.input.time).map_or(DataType::Null, |field| field.data_type().clone())
}

fn strategy(args: &WindowArgs) -> Outcome<WatermarkStrategy> {
    match (args.watermark.bound, args.watermark.ascending, args.watermark.delay) {
        (Some(bound), ..) => Ok(WatermarkStrategy::bounded_out_of_orderness(bound)),
        (_, true, _) => Ok(WatermarkStrategy::ascending()),
        (.., Some(delay)) => Ok(WatermarkStrategy::delay(delay)),
        _ => Err(Failure::usage(args.missing().unwrap_or_default())),
    }
}

fn limits(args: &WindowArgs) -> Limits {
    let default = Limits::default();
    Limits {
        max_open_slices: args.resources.max_open_slices.unwrap_or(default.max_open_slices),
        max_keys: args.resources.max_keys.unwrap_or(default.max_keys),
        max_state_bytes: args.resources.max_state_bytes.unwrap_or(default.max_state_bytes),
    }
}

/// What a tick of the ingest time is worth; whole numbers count what the event time counts.
pub(crate) fn ingest_unit(
    operator: &WindowOperator,
    data_type: &DataType,
    column: &str,
) -> Outcome<TickUnit> {
    let unit = TickUnit::of(data_type, None);
    unit.or((*data_type == DataType::Int64).then(|| operator.tick_unit())).ok_or_else(|| {
        Failure::usage(format_args!(
            "--ingest-time {column}: the column is {data_type}; allowed are Timestamp, Date32, Date64 and Int64"
        ))
    })
}

/// An error of the operator in the words of the command line: its parameters are flags here.
pub(crate) fn in_flags(error: &Error, args: &WindowArgs) -> String {
    let text = error.to_string();
    let (parameter, rest) = text.split_once(": ").unwrap_or(("", &text));
    let flag = match parameter {
        "event_time" => "--time".into(),
        "ingest_time" => "--ingest-time".into(),
        "max_future" => "--max-future".into(),
        "key" => "--key".into(),
        "window" | "window size" | "window slide" | "window step" | "session gap" => {
            args.shape.flag().unwrap_or_default().into()
        }
        "trigger" | "trigger interval" => args.firing.flag().unwrap_or_default().into(),
        "top" => "--by".into(),
        "flush_after_quiet" => "--flush-after-quiet".into(),
        "evictor keep" => "--evict-time".into(),
        "result_mode" => "--mode".into(),
        "window zone" => "--zone".into(),
        "window offset" => "--offset".into(),
        "allowed_lateness" => "--lateness".into(),
        "idle_timeout" => "--idle".into(),
        "cadence" | "cadence interval" => "--cadence".into(),
        "max_open_slices limit reached" => "--max-open-slices".into(),
        "max_keys limit reached" => "--max-keys".into(),
        "max_state_bytes limit reached" => "--max-state-bytes".into(),
        "bound" | "bounded_out_of_orderness" | "watermark bound" => "--bound".into(),
        "delay" | "watermark delay" => "--delay".into(),
        "threads" => "--threads".into(),
        name if args.shape.agg.iter().any(|parsed| parsed.aggregate.name() == name) => {
            format!("--agg {name}")
        }
        "aggregate" => "--agg".into(),
        other => other.to_string(),
    };
    let rest = rest
        .replace("Int64 with event_time_unit", "whole numbers (Int64) with --time-unit")
        .replace("see Aggregate::alias", "rename it by \"as NAME\"");
    if flag.is_empty() { rest } else { format!("{flag}: {rest}") }
}
