//! The rows of a workload from a file.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::coalesce::BatchCoalescer;

use super::load::is_time;
use super::workload::{AD, CAMPAIGN, EVENT_TYPE, TIME};
use crate::args::InputFormat;
use crate::failure::{Failure, Outcome};
use crate::input::{Mark, OpenOptions, open, types::Overrides, unify};

/// Columns that are read from a file, and how many rows of them.
pub(super) struct Wanted<'a> {
    /// Who wants them, for messages.
    pub(super) called: &'a str,
    pub(super) columns: &'a [&'static str],
    /// At most so many rows; `None` for all.
    pub(super) rows: Option<u64>,
    /// Rows a batch, whatever they are in the file.
    pub(super) batch_rows: usize,
}

impl Wanted<'_> {
    /// Reads a file.
    ///
    /// # Errors
    /// A column that is missing or of the wrong type is a usage failure; a file that cannot be read, or has no rows, one of the
    /// run.
    pub(super) fn read(&self, path: &Path) -> Outcome<(SchemaRef, Vec<RecordBatch>)> {
        let overrides = Overrides::default();
        let options = OpenOptions {
            format: Some(format_of(path)?),
            overrides: &overrides,
            delimiter: None,
            times: &[],
            time_unit: None,
            as_it_comes: false,
            numeric: &|_| false,
        };
        let inputs = [open(path, &options)?];
        let all = unify(&inputs, &options)?;
        let wanted = self.project(path, &all)?;
        let [input] = inputs;
        let mut source = input.read(&all, &wanted, self.batch_rows, Mark::default())?;
        let mut left = self.rows.unwrap_or(u64::MAX);
        let mut coalescer = BatchCoalescer::new(wanted.clone(), self.batch_rows);
        let mut batches = Vec::new();
        while left > 0
            && let Some(batch) = source.next()?
        {
            let rows = usize::try_from(left).unwrap_or(usize::MAX).min(batch.num_rows());
            left -= rows as u64;
            coalescer.push_batch(batch.slice(0, rows)).map_err(Failure::run)?;
            batches.extend(std::iter::from_fn(|| coalescer.next_completed_batch()));
        }
        coalescer.finish_buffered_batch().map_err(Failure::run)?;
        batches.extend(std::iter::from_fn(|| coalescer.next_completed_batch()));
        if batches.is_empty() && self.rows != Some(0) {
            return Err(Failure::at(path.display(), "has no rows; allowed are files with at least one"));
        }
        let schema = timed(&wanted);
        let batches = batches.into_iter().map(|batch| cast_time(&batch, &schema)).collect::<Outcome<_>>()?;
        Ok((schema, batches))
    }

    /// The part of the file's schema that is wanted, in the order in which it is.
    fn project(&self, path: &Path, all: &SchemaRef) -> Outcome<SchemaRef> {
        let mut fields = Vec::new();
        for &name in self.columns {
            let Ok(field) = all.field_with_name(name) else {
                let there: Vec<&str> = all.fields().iter().map(|field| field.name().as_str()).collect();
                return Err(Failure::usage(format_args!(
                    "{}: there is no column {name:?}; {} reads {}; the file has {}",
                    path.display(),
                    self.called,
                    self.columns.join(", "),
                    there.join(", ")
                )));
            };
            if let Some(allowed) = refused(name, field.data_type()) {
                return Err(Failure::usage(format_args!(
                    "{}: column {name:?} is {}; allowed: {allowed}",
                    path.display(),
                    field.data_type()
                )));
            }
            fields.push(field.clone());
        }
        Ok(Arc::new(Schema::new(fields)))
    }
}

/// The types that a column may have, if `given` is none of them.
fn refused(column: &str, given: &DataType) -> Option<&'static str> {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let (fits, allowed) = match column {
        TIME => (
            is_time(given) || *given == DataType::Int64,
            "Timestamp in milliseconds, or Int64 that counts them",
        ),
        AD | CAMPAIGN => (*given == DataType::Int32, "Int32"),
        EVENT_TYPE => (*given == DataType::Int8, "Int8"),
        "value" => (*given == DataType::Float64, "Float64"),
        "auction" | "bidder" | "price" => (*given == DataType::Int64, "Int64"),
        _ => (
            [DataType::Int32, DataType::Int64, DataType::Utf8, dictionary].contains(given),
            "Int32, Int64, Utf8, or Utf8 behind a dictionary with Int32 keys",
        ),
    };
    (!fits).then_some(allowed)
}

fn format_of(path: &Path) -> Outcome<InputFormat> {
    let extension = path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
    match extension.as_deref() {
        Some("parquet" | "pq") => Ok(InputFormat::Parquet),
        Some("arrow" | "arrows" | "ipc" | "feather") => Ok(InputFormat::Arrow),
        _ => Err(Failure::usage(format_args!(
            "{}: the extension is none of those that can be read; allowed: .parquet .pq .arrow .arrows .ipc .feather",
            path.display()
        ))),
    }
}

/// The schema with times as such.
fn timed(schema: &SchemaRef) -> SchemaRef {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Int64 if field.name() == TIME => {
            field.as_ref().clone().with_data_type(DataType::Timestamp(TimeUnit::Millisecond, None))
        }
        _ => field.as_ref().clone(),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

fn cast_time(batch: &RecordBatch, schema: &SchemaRef) -> Outcome<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| arrow_cast::cast(column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>, _>>().map_err(Failure::run)?;
    RecordBatch::try_new(schema.clone(), columns).map_err(Failure::run)
}
