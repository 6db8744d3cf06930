//! What an operator is asked to do, checked against the schema before the first row.

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::accumulator::{self, Call, Columns, check_by, output_type};
use crate::aggregate::Aggregate;
use crate::error::{Error, Result};
use crate::event_time::{EventTime, FutureGuard, Guard, NullPolicy, REJECT_REASON, Reference, with_column};
use crate::fire::{LateFiring, ResultMode};
use crate::key::{KeyColumns, MAX_SLOTS};
use crate::operator::WindowOperator;
use crate::output::{Assembler, LATE_WATERMARK, bound_type};
use crate::state::Inputs;
use crate::time::{TickConverter, TickUnit, TimeDelta};
use crate::watermark::{Cadence, IdleTimer, PartitionWatermark, Reactivation, WatermarkStrategy};
use crate::window::{Grid, Window};

/// How much an operator may hold. Reaching a limit is [`Error::LimitReached`]; the call that would have passed it does
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Slices (pieces of time that windows share) that have rows; by default a million.
    pub max_open_slices: usize,
    /// Keys, each counted once for every open slice that has it; by default 2^31 - 1.
    pub max_keys: usize,
    /// Bytes of keys and accumulators; by default unlimited.
    pub max_state_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_open_slices: 1_000_000, max_keys: MAX_SLOTS, max_state_bytes: usize::MAX }
    }
}

/// Builds a [`WindowOperator`]; everything is checked in [`build`](WindowOperatorBuilder::build).
#[derive(Clone, Debug)]
#[must_use]
pub struct WindowOperatorBuilder {
    schema: SchemaRef,
    event_time: Option<String>,
    event_time_unit: Option<TimeUnit>,
    keys: Vec<String>,
    window: Option<Window>,
    watermark: Option<WatermarkStrategy>,
    cadence: Cadence,
    allowed_lateness: TimeDelta,
    late_firing: LateFiring,
    result_mode: ResultMode,
    null_policy: NullPolicy,
    future_guard: Option<FutureGuard>,
    idle_timeout: Option<TimeDelta>,
    reactivation: Reactivation,
    alignment: Vec<(Vec<usize>, TimeDelta)>,
    partitions: usize,
    threads: usize,
    aggregates: Vec<Aggregate>,
    firing_column: bool,
    sort_by_key: bool,
    limits: Limits,
    seed: u64,
}

/// What the operator needs besides state; made once.
pub(crate) struct Parts {
    pub(crate) schema: SchemaRef,
    pub(crate) event_time: EventTime,
    pub(crate) marker: Option<usize>,
    pub(crate) explicit: bool,
    pub(crate) grid: Grid,
    pub(crate) keys: KeyColumns,
    pub(crate) inputs: Inputs,
    pub(crate) assembler: Assembler,
    pub(crate) late_firing: LateFiring,
    pub(crate) reactivation: Reactivation,
    pub(crate) generator: PartitionWatermark,
    pub(crate) idle_timer: Option<IdleTimer>,
    pub(crate) alignment: Vec<(Vec<usize>, i64)>,
    pub(crate) partitions: usize,
    pub(crate) threads: usize,
    pub(crate) limits: Limits,
}

impl WindowOperatorBuilder {
    pub(crate) fn new(schema: SchemaRef) -> Self {
        WindowOperatorBuilder {
            schema,
            event_time: None,
            event_time_unit: None,
            keys: vec![],
            window: None,
            watermark: None,
            cadence: Cadence::default(),
            allowed_lateness: TimeDelta::ZERO,
            late_firing: LateFiring::default(),
            result_mode: ResultMode::default(),
            null_policy: NullPolicy::default(),
            future_guard: None,
            idle_timeout: None,
            reactivation: Reactivation::default(),
            alignment: vec![],
            partitions: 1,
            threads: 1,
            aggregates: vec![],
            firing_column: false,
            sort_by_key: false,
            limits: Limits::default(),
            seed: 0,
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
    /// The windows.
    pub fn window(mut self, window: Window) -> Self {
        self.window = Some(window);
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
    /// How long a window is kept for late rows after it has fired; by default not at all.
    pub fn allowed_lateness(mut self, lateness: impl Into<TimeDelta>) -> Self {
        self.allowed_lateness = lateness.into();
        self
    }
    /// Whether late rows fire their window one by one or once a call (the default).
    pub fn late_firing(mut self, late_firing: LateFiring) -> Self {
        self.late_firing = late_firing;
        self
    }
    /// What a firing holds in relation to the one before it.
    pub fn result_mode(mut self, mode: ResultMode) -> Self {
        self.result_mode = mode;
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
    /// Adds a group of partitions that should not drift apart: see [`WindowOperator::paused`].
    pub fn alignment(
        mut self,
        partitions: impl IntoIterator<Item = usize>,
        max_drift: impl Into<TimeDelta>,
    ) -> Self {
        self.alignment.push((partitions.into_iter().collect(), max_drift.into()));
        self
    }
    /// How many partitions there are; by default one. Each is held to have rows to come until it is finished or idle.
    pub fn partitions(mut self, partitions: usize) -> Self {
        self.partitions = partitions;
        self
    }
    /// How many threads [`WindowOperator::push_all`] may use; by default one. The answer is the same.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }
    /// Adds an aggregate.
    pub fn aggregate(mut self, aggregate: Aggregate) -> Self {
        self.aggregates.push(aggregate);
        self
    }
    /// Whether results say why they fired, in a column `firing`.
    pub fn firing_column(mut self, on: bool) -> Self {
        self.firing_column = on;
        self
    }
    /// Whether the results of a window are sorted by key (nulls first). Otherwise they come in the order in which the keys
    /// appeared.
    pub fn sort_by_key(mut self, on: bool) -> Self {
        self.sort_by_key = on;
        self
    }
    /// How much may be held.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
    /// The seed of sampling aggregates.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Checks everything and makes the operator.
    ///
    /// # Errors
    /// A missing or unknown column, a type that its use does not allow, a duration that is not a whole number of ticks or out
    /// of range: each named with what was given and what would be allowed.
    pub fn build(self) -> Result<WindowOperator> {
        let schema = &self.schema;
        let event_time = self.build_event_time()?;
        let ticks = TickConverter { column: event_time.name.clone(), unit: event_time.unit };
        let lateness = ticks.tolerance("allowed_lateness", self.allowed_lateness)?;
        let window = self.window.ok_or_else(|| missing("window", "Window::tumbling or Window::sliding"))?;
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
        let key_columns =
            self.keys.iter().map(|name| find(schema, "key", name)).collect::<Result<Vec<_>>>()?;
        let keys = KeyColumns::new(schema, key_columns)?;
        let (inputs, outputs) = self.build_aggregates()?;
        let time_type = bound_type(schema.field(event_time.column).data_type());
        let late_schema = with_column(schema, Field::new(LATE_WATERMARK, time_type.clone(), false))?;
        let idle_timeout =
            self.idle_timeout.map(|timeout| ticks.tolerance("idle_timeout", timeout)).transpose()?;
        let alignment = self.build_alignment(&ticks)?;
        for (parameter, given) in [("partitions", self.partitions), ("threads", self.threads)] {
            if given == 0 {
                return Err(Error::invalid(parameter, 0, "one or more"));
            }
        }
        WindowOperator::new(Parts {
            grid: Grid::new(&window, lateness, &ticks)?,
            generator: PartitionWatermark::resolve(strategy, self.cadence, &ticks)?,
            explicit: matches!(strategy, WatermarkStrategy::Explicit),
            assembler: Assembler::new(
                &keys,
                outputs,
                time_type,
                late_schema,
                self.firing_column,
                self.sort_by_key,
            )?,
            idle_timer: idle_timeout.map(IdleTimer::new).transpose()?,
            schema: self.schema.clone(),
            late_firing: self.late_firing,
            reactivation: self.reactivation,
            partitions: self.partitions,
            threads: self.threads,
            limits: self.limits,
            event_time,
            marker,
            keys,
            inputs,
            alignment,
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

    fn build_aggregates(&self) -> Result<(Inputs, Vec<(Field, accumulator::Output)>)> {
        if self.aggregates.is_empty() {
            return Err(missing("aggregate", "at least one, for instance Aggregate::count_all()"));
        }
        let mut calls = Vec::new();
        let mut outputs = Vec::new();
        for aggregate in &self.aggregates {
            let parameter = aggregate.name();
            let find = |name: Option<&str>| -> Result<_> {
                let column = name.map(|name| find(&self.schema, parameter, name)).transpose()?;
                Ok(column.map(|column| (column, self.schema.field(column).data_type().clone())))
            };
            let input = Columns { value: find(aggregate.column())?, by: find(aggregate.by())? };
            let refused = |input: &Option<(usize, DataType)>, allowed| match input {
                Some((column, data_type)) => Error::ColumnType {
                    parameter: parameter.into(),
                    column: self.schema.field(*column).name().clone(),
                    given: data_type.to_string(),
                    allowed,
                },
                None => Error::Aggregate { aggregate: parameter.into(), message: allowed },
            };
            let function = aggregate.function.clone();
            let output = output_type(&function, input.value.as_ref().map(|(_, data_type)| data_type))
                .map_err(|allowed| refused(&input.value, allowed))?;
            if let Some((_, data_type)) = &input.by {
                check_by(data_type).map_err(|allowed| refused(&input.by, allowed))?;
            }
            outputs.push(Field::new(parameter, output, true));
            calls.push(Call { function, input });
        }
        let plan = accumulator::plan(&calls, self.seed);
        Ok((Inputs::new(&calls, plan.accumulators), outputs.into_iter().zip(plan.outputs).collect()))
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

fn missing(parameter: &str, allowed: &str) -> Error {
    Error::invalid(parameter, "nothing", allowed)
}

fn find(schema: &Schema, parameter: &str, column: &str) -> Result<usize> {
    schema.index_of(column).map_err(|_| Error::UnknownColumn {
        parameter: parameter.into(),
        column: column.into(),
        available: schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", "),
    })
}
