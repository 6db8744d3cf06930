//! What can be decided before any row is read: formats, columns, contradictions.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{DataType, Schema, SchemaRef, TimeUnit};
use highwater::Window;

use crate::aggregates::Parsed;
use crate::args::{OutputFormat, WindowArgs};
use crate::failure::{Failure, Outcome};
use crate::firing::refuse_contradictions;
use crate::input::is_regular_file;
use crate::live;
use crate::output::{format_of, is_stdout, place_of};
use crate::text::listed;

/// The windows, and the format of each output.
pub(crate) struct Plan {
    pub(crate) window: Window,
    pub(crate) out: OutputFormat,
    pub(crate) late: Option<OutputFormat>,
    pub(crate) rejected: Option<OutputFormat>,
}

impl WindowArgs {
    /// A choice that has not been made, and what to choose from.
    pub fn missing(&self) -> Option<&'static str> {
        if self.shape.flag().is_none() {
            return Some(
                "choose the windows: --tumble SIZE (one after the other), --hop SIZE,SLIDE (overlapping, a new one every \
                 SLIDE), --cumulate SIZE,STEP (one after the other, with a result so far after every STEP), --session GAP (rows \
                 that follow each other within GAP), --session-by COLUMN (with each row's gap in a column), --count N (every N \
                 rows), or --global (one for all time)",
            );
        }
        let watermark = &self.watermark;
        if watermark.bound.is_none() && !watermark.ascending && watermark.delay.is_none() {
            return Some(
                "choose how the watermark follows the rows: --bound D (rows are at most D out of order), --ascending \
                 (they are never out of order), or --delay D (Flink SQL's ts - INTERVAL)",
            );
        }
        None
    }

    /// The columns that hold times.
    pub(crate) fn time_columns(&self) -> Vec<&str> {
        [Some(&self.input.time), self.input.ingest_time.as_ref()]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect()
    }

    /// The columns that windows and triggers read, with their flags.
    fn number_columns(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let gap = self.shape.session_by.as_deref().map(|column| ("--session-by", column));
        let delta = self.firing.trigger_delta.as_ref();
        gap.into_iter().chain(delta.map(|delta| ("--trigger-delta", delta.column.as_str())))
    }

    /// Whether only numbers, or numbers and times, are taken from a column.
    pub(crate) fn needs_number(&self, column: &str) -> bool {
        self.number_columns().any(|(_, named)| named == column)
            || self.shape.agg.iter().any(|Parsed { aggregate, numeric }| {
                *numeric && aggregate.column() == Some(column) || aggregate.by() == Some(column)
            })
    }
}

impl Plan {
    pub(crate) fn new(args: &WindowArgs) -> Outcome<Self> {
        if let Some(text) = args.missing() {
            return Err(Failure::usage(text));
        }
        refuse_contradictions(args)?;
        live::check(args)?;
        check_top(args)?;
        let output = &args.output;
        let out = match (output.format, is_stdout(&output.out)) {
            (Some(format), _) => format,
            (None, true) => OutputFormat::Table,
            (None, false) => by_extension("--out", &output.out, " or use --format")?,
        };
        let side = |flag: &str, path: &Option<std::path::PathBuf>| match path {
            None => Ok(None),
            Some(path) if is_stdout(path) => Ok(Some(OutputFormat::Ndjson)),
            Some(path) => by_extension(flag, path, "").map(Some),
        };
        let plan = Plan {
            window: args.shape.window()?,
            out,
            late: side("--late", &output.late)?,
            rejected: side("--rejected", &output.rejected)?,
        };
        plan.refuse_collisions(args)?;
        Ok(plan)
    }

    /// No two outputs into one place, except JSON after a table, and none into an input.
    fn refuse_collisions(&self, args: &WindowArgs) -> Outcome<()> {
        let output = &args.output;
        let mut places: Vec<(&str, &Path)> = vec![("--out", &output.out)];
        let others = [("--late", &output.late), ("--rejected", &output.rejected), ("--stats", &output.stats)];
        for (flag, path) in
            others.iter().filter_map(|(flag, path)| path.as_ref().map(|path| (*flag, path.as_path())))
        {
            let taken = places.iter().find(|(_, other)| place_of(other) == place_of(path));
            let after_table = flag == "--stats" && is_stdout(path) && self.out == OutputFormat::Table;
            match taken {
                Some((other, _)) if !(after_table && *other == "--out") => {
                    let place = if is_stdout(path) {
                        "standard output".to_string()
                    } else {
                        path.display().to_string()
                    };
                    return Err(Failure::usage(format_args!(
                        "{other} and {flag} both write to {place}; give one of them another path"
                    )));
                }
                _ => places.push((flag, path)),
            }
        }
        let inputs = args.inputs.iter().filter(|path| is_regular_file(path));
        let inputs: HashSet<PathBuf> = inputs.map(|path| place_of(path)).collect();
        let overwritten =
            places.iter().find(|(_, path)| !is_stdout(path) && inputs.contains(&place_of(path)));
        overwritten.map_or(Ok(()), |(flag, path)| {
            Err(Failure::usage(format_args!(
                "{flag} {} is an input, which it would replace; give it another path",
                path.display()
            )))
        })
    }

    /// The columns that are read: those that flags name, or all of them if whole rows are kept.
    pub(crate) fn columns(&self, args: &WindowArgs, all: &SchemaRef) -> Outcome<SchemaRef> {
        let mut named: Vec<(String, &str)> = vec![("--time".into(), &args.input.time)];
        named.extend(args.shape.key.iter().map(|column| ("--key".into(), column.as_str())));
        for parsed in &args.shape.agg {
            let flag = format!("--agg {}", parsed.aggregate.name());
            let columns = [parsed.aggregate.column(), parsed.aggregate.by()];
            named.extend(columns.into_iter().flatten().map(|column| (flag.clone(), column)));
        }
        named.extend(args.number_columns().map(|(flag, column)| (flag.into(), column)));
        named.extend(args.input.ingest_time.iter().map(|column| ("--ingest-time".into(), column.as_str())));
        named.extend(args.input.partition_by.iter().map(|column| ("--partition-by".into(), column.as_str())));
        let typed = args.input.schema.iter().flat_map(|types| types.iter());
        let typed: Vec<(String, &str)> = typed.map(|(column, _)| ("--schema".into(), column)).collect();
        if let Some((flag, column)) =
            named.iter().chain(&typed).find(|(_, column)| all.index_of(column).is_err())
        {
            return Err(Failure::usage(format_args!(
                "{flag}: the input has no column {column:?}; it has {}",
                known_columns(all)
            )));
        }
        check_time(args, all)?;
        if self.late.is_some() || self.rejected.is_some() {
            return Ok(all.clone());
        }
        let used = all.fields().iter().filter(|field| named.iter().any(|(_, column)| column == field.name()));
        Ok(Arc::new(Schema::new(used.cloned().collect::<Vec<_>>())))
    }
}

/// --by names what is computed.
fn check_top(args: &WindowArgs) -> Outcome<()> {
    let Some(by) = &args.shape.by else { return Ok(()) };
    let given: Vec<&str> = args.shape.agg.iter().map(|parsed| parsed.aggregate.name()).collect();
    let names = if given.is_empty() { vec!["count"] } else { given };
    if names.contains(&by.as_str()) {
        return Ok(());
    }
    Err(Failure::usage(format_args!(
        "--by {by}: nothing of that name is computed; allowed: {}",
        listed(names.iter().copied())
    )))
}

/// The columns that there are, and what may explain that there are no others.
fn known_columns(all: &Schema) -> String {
    let names = listed(all.fields().iter().map(|field| field.name().as_str()));
    match all.fields().len() {
        0 => "none, for no row has a value; --schema can name columns".into(),
        1 if names.contains([';', '\t', '|']) => format!("{names}; --delimiter says what separates columns"),
        _ => names,
    }
}

/// The time column must say, or be told, what it counts.
fn check_time(args: &WindowArgs, all: &SchemaRef) -> Outcome<()> {
    let column = &args.input.time;
    let data_type = all.field_with_name(column).map_err(Failure::usage)?.data_type();
    let given: Option<TimeUnit> = args.input.time_unit.map(Into::into);
    match (data_type, given) {
        (DataType::Int64, None) => Err(Failure::usage(format_args!(
            "--time {column}: the column holds whole numbers; say what they count since 1970 by --time-unit s, ms, us or ns"
        ))),
        (DataType::Timestamp(unit, _), Some(given)) if *unit != given => Err(Failure::usage(format_args!(
            "--time-unit: column {column:?} is {data_type} already; --time-unit is for whole numbers and text"
        ))),
        (DataType::Date32 | DataType::Date64, Some(_)) => Err(Failure::usage(format_args!(
            "--time-unit: column {column:?} is {data_type}; --time-unit is for whole numbers and text"
        ))),
        _ => Ok(()),
    }
}

fn by_extension(flag: &str, path: &Path, hint: &str) -> Outcome<OutputFormat> {
    format_of(path).ok_or_else(|| {
        Failure::usage(format_args!(
            "{flag} {}: the extension does not tell the format; known are .csv .ndjson .jsonl .json .parquet .pq .arrow \
             .ipc .feather .txt{hint}",
            path.display()
        ))
    })
}
