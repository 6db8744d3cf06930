//! Rows in memory, and the operator that they are for.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, TimestampMillisecondType};
use arrow_array::{Array, Int32Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use highwater::WindowOperator;
use highwater::watermark::WatermarkStrategy;

use super::workload::{AD, CAMPAIGN, Question, Step, TIME};
use crate::failure::{Failure, Outcome};
use crate::generate::{Spec, Stream, campaigns};

/// Times beyond this are no times: sums with windows and bounds stay within 64 bits.
const MAX_TIME: i64 = 1 << 60;

/// The rows of a workload, ready to be pushed.
#[derive(Debug)]
pub struct Load {
    /// What is asked of them.
    pub question: Question,
    /// Batches in the order in which they are pushed, each with its partition.
    pub batches: Vec<(usize, RecordBatch)>,
    /// The campaign of every advertisement, if they are asked for.
    pub(super) campaigns: Option<Int32Array>,
    /// What the operator sees.
    schema: SchemaRef,
    partitions: usize,
    threads: usize,
}

impl Load {
    /// Generates the rows, all in one partition.
    ///
    /// # Errors
    /// A specification that is not valid: a usage failure.
    pub fn generate(spec: &Spec, question: Question, batch_rows: usize) -> Outcome<Self> {
        let stream = Stream::new(spec).map_err(Failure::usage)?.with_batch_rows(batch_rows);
        let columns = question.columns();
        let schema = stream.schema();
        let numbers: Vec<usize> = columns.iter().filter_map(|name| schema.index_of(name).ok()).collect();
        let schema = Arc::new(schema.project(&numbers).map_err(Failure::run)?);
        let batches =
            stream.map(|batch| batch.map_err(Failure::run)?.project(&numbers).map_err(Failure::run));
        let batches = batches.collect::<Outcome<Vec<_>>>()?;
        let table = match question.step {
            Step::Views => Some(campaigns(spec).map_err(Failure::run)?),
            Step::Plain | Step::MostOfWindow => None,
        };
        Self::new(question, &schema, batches, table.as_ref())
    }

    /// Takes rows that have exactly the columns of the question, all in one partition. `table` says which campaign an
    /// advertisement belongs to.
    ///
    /// # Errors
    /// Rows that the workload cannot have: nulls, numbers that are none, unknown advertisements.
    pub fn new(
        question: Question,
        schema: &SchemaRef,
        batches: Vec<RecordBatch>,
        table: Option<&RecordBatch>,
    ) -> Outcome<Self> {
        let campaigns = table.map(campaign_by_ad).transpose()?;
        for batch in &batches {
            check_rows(batch, campaigns.as_ref().map(|campaigns| campaigns.len()))?;
        }
        let schema = match question.step {
            Step::Plain | Step::MostOfWindow => schema.clone(),
            Step::Views => {
                let time = schema.field_with_name(TIME).map_err(Failure::run)?.clone();
                Arc::new(Schema::new(vec![time, Field::new(CAMPAIGN, DataType::Int32, false)]))
            }
        };
        let batches = batches.into_iter().map(|batch| (0, batch)).collect();
        Ok(Load { question, batches, campaigns, schema, partitions: 1, threads: 1 })
    }

    /// Deals out the batches to so many partitions, in turns.
    #[must_use]
    pub fn with_partitions(mut self, partitions: usize) -> Self {
        self.partitions = partitions.max(1);
        for (number, (partition, _)) in self.batches.iter_mut().enumerate() {
            *partition = number % self.partitions;
        }
        self
    }

    /// Lets the operator use so many threads.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|(_, batch)| batch.num_rows() as u64).sum()
    }

    /// How many partitions they come from.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// How many threads work on them.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The schema of the batches that the operator sees.
    pub(super) fn operator_schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A new operator for the rows.
    ///
    /// # Errors
    /// Durations that the operator does not take: a usage failure in the words of the command line.
    pub fn operator(&self) -> Outcome<WindowOperator> {
        let question = &self.question;
        let mut builder = WindowOperator::builder(self.schema.clone())
            .event_time(TIME)
            .window(question.windows.window())
            .watermark(WatermarkStrategy::bounded_out_of_orderness(question.bound))
            .partitions(self.partitions)
            .threads(self.threads);
        if let Some(key) = question.key {
            builder = builder.key(key);
        }
        for aggregate in question.aggregates() {
            builder = builder.aggregate(aggregate);
        }
        builder.build().map_err(|error| Failure::usage(in_flags(&error.to_string())))
    }
}

/// The operator's parameters are flags here.
fn in_flags(text: &str) -> String {
    let flags = [
        ("window size: ", "--size: "),
        ("window slide: ", "--slide: "),
        ("window: ", "--size: "),
        ("session gap: ", "--gap: "),
    ];
    let found = flags.iter().find_map(|(name, flag)| Some(format!("{flag}{}", text.strip_prefix(name)?)));
    found.unwrap_or_else(|| text.replacen("bounded_out_of_orderness: ", "--bound: ", 1))
}

/// The type that a workload's time has in memory.
pub(super) fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(TimeUnit::Millisecond, _))
}

/// The event times of a batch in milliseconds.
pub(super) fn times(batch: &RecordBatch) -> &[i64] {
    batch.column(0).as_primitive::<TimestampMillisecondType>().values()
}

/// The table of advertisements as an array: campaign `i` is that of advertisement `i`.
fn campaign_by_ad(table: &RecordBatch) -> Outcome<Int32Array> {
    let ads = table.column(0).as_primitive::<Int32Type>();
    let campaigns = table.column(1).as_primitive::<Int32Type>();
    if ads.null_count() + campaigns.null_count() > 0 {
        return Err(Failure::run(
            "the table of campaigns: a null is not allowed; allowed: values in all rows",
        ));
    }
    let mut by_ad = vec![None; ads.len()];
    for (&ad, &campaign) in ads.values().iter().zip(campaigns.values()) {
        match usize::try_from(ad).ok().and_then(|ad| by_ad.get_mut(ad)) {
            Some(place @ None) => *place = Some(campaign),
            _ => {
                return Err(Failure::run(format_args!(
                    "the table of campaigns: {AD} {ad} is not allowed here; allowed: each of 0 to {} once",
                    ads.len().saturating_sub(1)
                )));
            }
        }
    }
    Ok(by_ad.into_iter().flatten().collect::<Vec<i32>>().into())
}

fn check_rows(batch: &RecordBatch, ads: Option<usize>) -> Outcome<()> {
    let schema = batch.schema_ref();
    for (column, field) in batch.columns().iter().zip(schema.fields()) {
        let refuse = |given: String, allowed: &str| {
            Err(Failure::run(format_args!(
                "column {:?}: {given} is not allowed; allowed: {allowed}",
                field.name()
            )))
        };
        if column.logical_null_count() > 0 {
            return refuse("a null".into(), "values in all rows");
        }
        match column.data_type() {
            data_type if is_time(data_type) => {
                let outside = |time: &&i64| !(-MAX_TIME..=MAX_TIME).contains(*time);
                if let Some(time) =
                    column.as_primitive::<TimestampMillisecondType>().values().iter().find(outside)
                {
                    return refuse(format!("{time} ms"), "-2^60 to 2^60 ms since the epoch");
                }
            }
            DataType::Float64 => {
                let values = column.as_primitive::<Float64Type>().values();
                if let Some(value) = values.iter().find(|value| !value.is_finite()) {
                    return refuse(value.to_string(), "finite numbers");
                }
            }
            DataType::Int32 if field.name() == AD => {
                let ads = ads.unwrap_or_default();
                let known = |ad: i32| usize::try_from(ad).is_ok_and(|ad| ad < ads);
                if let Some(ad) = column.as_primitive::<Int32Type>().values().iter().find(|&&ad| !known(ad)) {
                    return refuse(
                        ad.to_string(),
                        &format!("0 to {}, as in the table of campaigns", ads.saturating_sub(1)),
                    );
                }
            }
            _ => {}
        }
    }
    Ok(())
}
