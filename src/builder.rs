//! What an operator is asked to do, checked against the schema before the first row.

use arrow_schema::{DataType, Field, SchemaRef, TimeUnit};

use crate::accumulator::{self, Call, Columns, check_by, output_type};
use crate::aggregate::Aggregate;
use crate::error::{Error, Result};
use crate::event_time::{FutureGuard, NullPolicy};
use crate::fire::{LateFiring, ResultMode};
use crate::input::{Input, Source, find, missing};
use crate::key::MAX_SLOTS;
use crate::operator::WindowOperator;
use crate::output::Assembler;
use crate::state::Inputs;
use crate::time::TimeDelta;
use crate::watermark::{Cadence, Reactivation, WatermarkStrategy};
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
    input: Input,
    window: Option<Window>,
    allowed_lateness: TimeDelta,
    late_firing: LateFiring,
    result_mode: ResultMode,
    threads: usize,
    aggregates: Vec<Aggregate>,
    firing_column: bool,
    sort_by_key: bool,
    limits: Limits,
    seed: u64,
}

/// What the operator needs besides state; made once.
pub(crate) struct Parts {
    pub(crate) source: Source,
    pub(crate) inputs: Inputs,
    pub(crate) assembler: Assembler,
    pub(crate) threads: usize,
    pub(crate) limits: Limits,
}

impl WindowOperatorBuilder {
    pub(crate) fn new(schema: SchemaRef) -> Self {
        WindowOperatorBuilder {
            input: Input::new(schema),
            window: None,
            allowed_lateness: TimeDelta::ZERO,
            late_firing: LateFiring::default(),
            result_mode: ResultMode::default(),
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
        self.input = self.input.event_time(column);
        self
    }
    /// What an Int64 event-time column counts.
    pub fn event_time_unit(mut self, unit: TimeUnit) -> Self {
        self.input = self.input.event_time_unit(unit);
        self
    }
    /// Adds a key column. Without any, all rows of a window are one result.
    pub fn key(mut self, column: impl Into<String>) -> Self {
        self.input = self.input.key(column);
        self
    }
    /// The windows.
    pub fn window(mut self, window: Window) -> Self {
        self.window = Some(window);
        self
    }
    /// How each partition claims how far it has come.
    pub fn watermark(mut self, strategy: WatermarkStrategy) -> Self {
        self.input = self.input.watermark(strategy);
        self
    }
    /// When a partition's watermark may move; by default after every row.
    pub fn cadence(mut self, cadence: Cadence) -> Self {
        self.input = self.input.cadence(cadence);
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
        self.input = self.input.null_policy(policy);
        self
    }
    /// Rejects rows from the future before they can move a watermark.
    pub fn future_guard(mut self, guard: FutureGuard) -> Self {
        self.input = self.input.future_guard(guard);
        self
    }
    /// A partition without rows for longer than this, on the injected clock, is idle and holds nothing back.
    pub fn idle_timeout(mut self, timeout: impl Into<TimeDelta>) -> Self {
        self.input = self.input.idle_timeout(timeout);
        self
    }
    /// How a partition that wakes up behind the merged watermark rejoins.
    pub fn reactivation(mut self, rule: Reactivation) -> Self {
        self.input = self.input.reactivation(rule);
        self
    }
    /// Adds a group of partitions that should not drift apart: see [`WindowOperator::paused`].
    pub fn alignment(
        mut self,
        partitions: impl IntoIterator<Item = usize>,
        max_drift: impl Into<TimeDelta>,
    ) -> Self {
        self.input = self.input.alignment(partitions, max_drift);
        self
    }
    /// How many partitions there are; by default one. Each is held to have rows to come until it is finished or idle.
    pub fn partitions(mut self, partitions: usize) -> Self {
        self.input = self.input.partitions(partitions);
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
        let source = self.input.check()?;
        let lateness = source.ticks.tolerance("allowed_lateness", self.allowed_lateness)?;
        let window =
            self.window.as_ref().ok_or_else(|| missing("window", "for instance Window::tumbling"))?;
        let (inputs, outputs) = self.build_aggregates()?;
        if self.threads == 0 {
            return Err(Error::invalid("threads", 0, "one or more"));
        }
        let grid = Grid::new(window, lateness, &source.ticks)?;
        let parts = Parts {
            assembler: Assembler::new(&source, outputs, self.firing_column, self.sort_by_key)?,
            threads: self.threads,
            limits: self.limits,
            source,
            inputs,
        };
        WindowOperator::new(grid, self.late_firing, parts)
    }

    fn build_aggregates(&self) -> Result<(Inputs, Vec<(Field, accumulator::Output)>)> {
        if self.aggregates.is_empty() {
            return Err(missing("aggregate", "at least one, for instance Aggregate::count_all()"));
        }
        let schema = self.input.schema();
        let mut calls = Vec::new();
        let mut outputs = Vec::new();
        for aggregate in &self.aggregates {
            let parameter = aggregate.name();
            let find = |name: Option<&str>| -> Result<_> {
                let column = name.map(|name| find(schema, parameter, name)).transpose()?;
                Ok(column.map(|column| (column, schema.field(column).data_type().clone())))
            };
            let input = Columns { value: find(aggregate.column())?, by: find(aggregate.by())? };
            let refused = |input: &Option<(usize, DataType)>, allowed| match input {
                Some((column, data_type)) => Error::ColumnType {
                    parameter: parameter.into(),
                    column: schema.field(*column).name().clone(),
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
}
