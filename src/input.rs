//! What an operator reads: rows of partitions, with their own time, keys and watermarks.

mod described;

use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};

use crate::error::{Error, Result};
use crate::event_time::{
    Admitted, EventTime, FutureGuard, Guard, NullPolicy, REJECT_REASON, Reference, with_column,
};
use crate::key::KeyColumns;
use crate::output::{LATE_WATERMARK, bound_type};
use crate::time::{TickConverter, TickUnit, TimeDelta};
use crate::watermark::{Cadence, IdleTimer, PartitionWatermark, Reactivation, WatermarkStrategy};

/// More than any source has, and few enough to keep a watermark for each.
const MAX_PARTITIONS: usize = 1 << 20;

/// Describes what an operator reads: the schema, which column is the event time, the keys, and how watermarks follow from
/// the rows. Checked against the schema when an operator is built.
///
/// [`WindowOperatorBuilder`](crate::WindowOperatorBuilder) has the same methods for its one input; operators with two
/// inputs, or with a function of the user's, take an `Input` for each.
#[derive(Clone, Debug)]
#[must_use]
pub struct Input {
    schema: SchemaRef,
    event_time: Option<String>,
    event_time_unit: Option<TimeUnit>,
    keys: Vec<String>,
    watermark: Option<WatermarkStrategy>,
    cadence: Cadence,
    null_policy: NullPolicy,
    future_guard: Option<FutureGuard>,
    idle_timeout: Option<TimeDelta>,
    reactivation: Reactivation,
    alignment: Vec<(Vec<usize>, TimeDelta)>,
    partitions: usize,
}

/// An [`Input`] that has been checked.
pub(crate) struct Source {
    pub(crate) schema: SchemaRef,
    pub(crate) event_time: EventTime,
    pub(crate) keys: KeyColumns,
    /// The type of times in results.
    pub(crate) time_type: DataType,
    pub(crate) late_schema: SchemaRef,
    pub(crate) ticks: TickConverter,
    pub(crate) marker: Option<usize>,
    pub(crate) explicit: bool,
    pub(crate) reactivation: Reactivation,
    pub(crate) generator: PartitionWatermark,
    pub(crate) idle_timer: Option<IdleTimer>,
    pub(crate) alignment: Vec<(Vec<usize>, i64)>,
    pub(crate) partitions: usize,
}

impl Input {
    /// Batches of this schema.
    pub fn new(schema: SchemaRef) -> Self {
        Input {
            schema,
            event_time: None,
            event_time_unit: None,
            keys: vec![],
            watermark: None,
            cadence: Cadence::default(),
            null_policy: NullPolicy::default(),
            future_guard: None,
            idle_timeout: None,
            reactivation: Reactivation::default(),
            alignment: vec![],
            partitions: 1,
        }
    }

    /// The column that holds each row's own time: Timestamp of any unit, Date32, Date64, or Int64 with a declared unit.
    pub fn event_time(mut self, column: impl Into<String>) -> Self {
        self.event_time = Some(column.into());
        self
    }
    /// What an Int64 event-time column counts.
    pub fn event_time_unit(mut self, unit: TimeUnit) -> Self {
        self.event_time_unit = Some(unit);
        self
    }
    /// Adds a key column. Without any, all rows of a window are one result.
    pub fn key(mut self, column: impl Into<String>) -> Self {
        self.keys.push(column.into());
        self
    }
    /// How each partition claims how far it has come.
    pub fn watermark(mut self, strategy: WatermarkStrategy) -> Self {
        self.watermark = Some(strategy);
        self
    }
    /// When a partition's watermark may move; by default after every row.
    pub fn cadence(mut self, cadence: Cadence) -> Self {
        self.cadence = cadence;
        self
    }
    /// What becomes of rows without event time; by default they are handed back.
    pub fn null_policy(mut self, policy: NullPolicy) -> Self {
        self.null_policy = policy;
        self
    }
    /// Rejects rows from the future before they can move a watermark.
    pub fn future_guard(mut self, guard: FutureGuard) -> Self {
        self.future_guard = Some(guard);
        self
    }
    /// A partition without rows for longer than this, on the injected clock, is idle and holds nothing back.
    pub fn idle_timeout(mut self, timeout: impl Into<TimeDelta>) -> Self {
        self.idle_timeout = Some(timeout.into());
        self
    }
    /// How a partition that wakes up behind the merged watermark rejoins.
    pub fn reactivation(mut self, rule: Reactivation) -> Self {
        self.reactivation = rule;
        self
    }
    /// Adds a group of partitions that should not drift apart: see [`WindowOperator::paused`](crate::WindowOperator::paused).
    pub fn alignment(
        mut self,
        partitions: impl IntoIterator<Item = usize>,
        max_drift: impl Into<TimeDelta>,
    ) -> Self {
        self.alignment.push((partitions.into_iter().collect(), max_drift.into()));
        self
    }
    /// How many partitions there are; by default one, at most 2^20. Each is held to have rows to come until it is finished or
    /// idle.
    pub fn partitions(mut self, partitions: usize) -> Self {
        self.partitions = partitions;
        self
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Checks everything against the schema.
    pub(crate) fn check(&self) -> Result<Source> {
        let schema = &self.schema;
        let event_time = self.build_event_time()?;
        let ticks = TickConverter { column: event_time.name.clone(), unit: event_time.unit };
        let strategy = self.watermark.as_ref().ok_or_else(|| missing("watermark", "a WatermarkStrategy"))?;
        let marker = match strategy.marker_column() {
            None => None,
            Some(name) => {
                let column = find(schema, "watermark", name)?;
                strategy.check_marker(
                    schema.field(column).data_type(),
                    schema.field(event_time.column).data_type(),
                )?;
                Some(column)
            }
        };
        let keys = self.keys.iter().map(|name| find(schema, "key", name)).collect::<Result<Vec<_>>>()?;
        if let Some(again) = (1..keys.len()).find(|&key| keys[..key].contains(&keys[key])) {
            return Err(Error::invalid("key", format!("{:?} twice", self.keys[again]), "each column once"));
        }
        let time_type = bound_type(schema.field(event_time.column).data_type());
        let idle_timeout =
            self.idle_timeout.map(|timeout| ticks.tolerance("idle_timeout", timeout)).transpose()?;
        if !(1..=MAX_PARTITIONS).contains(&self.partitions) {
            return Err(Error::invalid("partitions", self.partitions, format!("one to {MAX_PARTITIONS}")));
        }
        Ok(Source {
            keys: KeyColumns::new(schema, keys)?,
            late_schema: with_column(schema, Field::new(LATE_WATERMARK, time_type.clone(), false))?,
            time_type,
            generator: PartitionWatermark::resolve(strategy, self.cadence, &ticks)?,
            explicit: matches!(strategy, WatermarkStrategy::Explicit),
            idle_timer: idle_timeout.map(IdleTimer::new).transpose()?,
            alignment: self.build_alignment(&ticks)?,
            schema: schema.clone(),
            reactivation: self.reactivation,
            partitions: self.partitions,
            event_time,
            ticks,
            marker,
        })
    }

    fn build_event_time(&self) -> Result<EventTime> {
        let schema = &self.schema;
        let name = self.event_time.as_deref().ok_or_else(|| missing("event_time", "the name of a column"))?;
        let column = find(schema, "event_time", name)?;
        let data_type = schema.field(column).data_type();
        let unit = TickUnit::of(data_type, self.event_time_unit).ok_or_else(|| Error::ColumnType {
            parameter: "event_time".into(),
            column: name.into(),
            given: data_type.to_string(),
            allowed: "Timestamp, Date32, Date64, or Int64 with event_time_unit".into(),
        })?;
        let ticks = TickConverter { column: name.into(), unit };
        let guard = match &self.future_guard {
            None => None,
            Some(guard) => {
                ticks.tolerance("max_future", guard.max_future)?;
                let ingest_time = match &guard.reference {
                    Reference::Clock => None,
                    Reference::IngestTime(name) => {
                        let column = find(schema, "ingest_time", name)?;
                        let given = schema.field(column).data_type();
                        let declared = (*given == DataType::Int64).then_some(unit);
                        let unit =
                            TickUnit::of(given, None).or(declared).ok_or_else(|| Error::ColumnType {
                                parameter: "ingest_time".into(),
                                column: name.clone(),
                                given: given.to_string(),
                                allowed: "Timestamp, Date32, Date64 or Int64".into(),
                            })?;
                        Some((column, unit))
                    }
                };
                Some(Guard { ingest_time, max_future: guard.max_future })
            }
        };
        let rejected_schema = with_column(schema, Field::new(REJECT_REASON, DataType::Utf8, false))?;
        Ok(EventTime {
            column,
            name: name.into(),
            unit,
            null_policy: self.null_policy,
            guard,
            rejected_schema,
        })
    }

    fn build_alignment(&self, ticks: &TickConverter) -> Result<Vec<(Vec<usize>, i64)>> {
        let mut groups = Vec::new();
        for (group, max_drift) in &self.alignment {
            if let Some(&given) = group.iter().find(|&&partition| partition >= self.partitions) {
                return Err(Error::UnknownPartition { given, partitions: self.partitions });
            }
            groups.push((group.clone(), ticks.tolerance("max_drift", *max_drift)?));
        }
        Ok(groups)
    }
}

impl Source {
    pub(crate) fn check_partition(&self, given: usize) -> Result<()> {
        let partitions = self.partitions;
        if given < partitions { Ok(()) } else { Err(Error::UnknownPartition { given, partitions }) }
    }

    /// Checks a batch and sorts out rows without a usable time; `clock` is the injected one.
    pub(crate) fn admit(
        &self,
        partition: usize,
        batch: &RecordBatch,
        clock: Option<i64>,
    ) -> Result<Admitted> {
        self.check_partition(partition)?;
        self.check_schema(batch.schema_ref())?;
        self.check_nulls(batch)?;
        self.event_time.admit(partition, batch, clock)
    }

    /// A column that was said to have no nulls has none. Rows without event time are another matter, unless they are handed back
    /// with that column as it is.
    fn check_nulls(&self, batch: &RecordBatch) -> Result<()> {
        let handed_back = self.event_time.null_policy == NullPolicy::Reject;
        let nulls = |&index: &usize| {
            let spared = index == self.event_time.column && !handed_back;
            !spared && !self.schema.field(index).is_nullable() && batch.column(index).null_count() > 0
        };
        match (0..batch.num_columns()).find(nulls) {
            None => Ok(()),
            Some(index) => {
                let field = self.schema.field(index);
                let (name, data_type) = (field.name(), field.data_type());
                let nulls = batch.column(index).null_count();
                Err(Error::SchemaMismatch {
                    index,
                    given: format!("{name:?} {data_type} with {nulls} nulls"),
                    expected: format!("{name:?} {data_type} without nulls"),
                })
            }
        }
    }

    fn check_schema(&self, given: &SchemaRef) -> Result<()> {
        let expected = &self.schema;
        if given == expected {
            return Ok(());
        }
        let differs = |(a, b): (&FieldRef, &FieldRef)| a.name() != b.name() || a.data_type() != b.data_type();
        let pairs = given.fields().iter().zip(expected.fields());
        let index = pairs.clone().position(differs).unwrap_or(pairs.len());
        if index >= given.fields().len().max(expected.fields().len()) {
            return Ok(());
        }
        let show = |schema: &SchemaRef| match schema.fields().get(index) {
            Some(field) => format!("{:?} {}", field.name(), field.data_type()),
            None => "nothing".into(),
        };
        Err(Error::SchemaMismatch { index, given: show(given), expected: show(expected) })
    }
}

pub(crate) fn missing(parameter: &str, allowed: &str) -> Error {
    Error::invalid(parameter, "nothing", allowed)
}

pub(crate) fn find(schema: &Schema, parameter: &str, column: &str) -> Result<usize> {
    let names = || schema.fields().iter().map(|field| field.name().as_str());
    let mut places = names().enumerate().filter(|(_, name)| *name == column).map(|(place, _)| place);
    match (places.next(), places.next()) {
        (Some(place), None) => Ok(place),
        (Some(_), Some(_)) => Err(Error::invalid(
            parameter,
            format!("column {column:?}"),
            "a name that only one column of the schema has",
        )),
        (None, _) => Err(Error::UnknownColumn {
            parameter: parameter.into(),
            column: column.into(),
            available: names().collect::<Vec<_>>().join(", "),
        }),
    }
}

/// Checks the inputs of one operator; of two, an error says which it is about.
pub(crate) fn check_all(inputs: &[Input]) -> Result<Vec<Source>> {
    let check = |(number, input): (usize, &Input)| match inputs.len() {
        1 => input.check(),
        _ => input.check().map_err(|error| error.of_input(SIDES[number])),
    };
    inputs.iter().enumerate().map(check).collect()
}

/// What two inputs are called.
pub(crate) const SIDES: [&str; 2] = ["left", "right"];
