//! What an operator is asked to do, checked against the schema before the first row.

mod described;

use std::sync::Arc;

use arrow_schema::{DataType, Field, TimeUnit};

use crate::accumulator::{self, Call, check_by, output_type};
use crate::aggregate::Aggregate;
use crate::error::{Error, Result};
use crate::event_time::{FutureGuard, NullPolicy};
use crate::evictor::Evictor;
use crate::fire::{LateFiring, ResultMode};
use crate::function::WindowFunction;
use crate::input::{Input, Source, find, missing};
use crate::key::MAX_SLOTS;
use crate::keyed::{Assigner, Function, Spec};
use crate::operator::Kind;
use crate::operator::WindowOperator;
use crate::output::{Assembler, Columns};
use crate::rank::Top;
use crate::state::Inputs;
use crate::time::TimeDelta;
use crate::trigger::Trigger;
use crate::watermark::{Cadence, Reactivation, WatermarkStrategy};
use crate::window::Window;
use crate::workers::Workers;

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
    trigger: Trigger,
    evictor: Option<Evictor>,
    function: Option<Arc<dyn WindowFunction>>,
    quiet_timeout: Option<TimeDelta>,
    top: Option<(usize, String)>,
    threads: usize,
    aggregates: Vec<Aggregate>,
    columns: Columns,
    sort_by_key: bool,
    limits: Limits,
    seed: u64,
}

/// What the operator needs besides state; made once.
pub(crate) struct Parts {
    pub(crate) source: Source,
    pub(crate) inputs: Inputs,
    pub(crate) assembler: Assembler,
    /// In ticks of the clock.
    pub(crate) quiet_timeout: Option<i64>,
    pub(crate) top: Option<Top>,
    pub(crate) threads: usize,
    pub(crate) limits: Limits,
    /// How the operator is built, line by line: what a snapshot of it fits.
    pub(crate) description: String,
}

/// Windows over an input that has been described already, as those of [`process`](crate::process) are.
impl From<Input> for WindowOperatorBuilder {
    fn from(input: Input) -> Self {
        WindowOperatorBuilder {
            input,
            window: None,
            allowed_lateness: TimeDelta::ZERO,
            late_firing: LateFiring::default(),
            result_mode: ResultMode::default(),
            trigger: Trigger::default(),
            evictor: None,
            function: None,
            quiet_timeout: None,
            top: None,
            threads: 1,
            aggregates: vec![],
            columns: Columns::default(),
            sort_by_key: false,
            limits: Limits::default(),
            seed: 0,
        }
    }
}

impl WindowOperatorBuilder {
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
    /// When windows fire; by default at their end, by event time.
    pub fn trigger(mut self, trigger: Trigger) -> Self {
        self.trigger = trigger;
        self
    }
    /// Removes rows from windows when they fire. The rows of a window are then kept until it expires.
    pub fn evictor(mut self, evictor: Evictor) -> Self {
        self.evictor = Some(evictor);
        self
    }
    /// A function of all rows of a window, in place of aggregates.
    pub fn process(mut self, function: impl WindowFunction + 'static) -> Self {
        self.function = Some(Arc::new(function));
        self
    }
    /// When no partition has had a row for longer than this, on the injected clock, windows that are open fire as if the
    /// watermark had reached their ends. Rows that come for them after that are late. By default they wait.
    pub fn flush_after_quiet(mut self, timeout: impl Into<TimeDelta>) -> Self {
        self.quiet_timeout = Some(timeout.into());
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
    /// How many partitions there are; by default one, at most 2^20. Each is held to have rows to come until it is finished or
    /// idle.
    pub fn partitions(mut self, partitions: usize) -> Self {
        self.input = self.input.partitions(partitions);
        self
    }
    /// How many threads [`WindowOperator::push_all`] may use; by default one, at most 4,096. The answer is the
    /// same.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }
    /// Adds an aggregate.
    pub fn aggregate(mut self, aggregate: Aggregate) -> Self {
        self.aggregates.push(aggregate);
        self
    }
    /// Keeps, of each window, the `count` results whose `column` is the largest, in this order: the aggregate's name or alias,
    /// nulls last; of equal ones the key that appeared first. A late row makes the window fire again with all of its top.
    /// Only for aligned windows that fire by event time.
    pub fn top(mut self, count: usize, column: impl Into<String>) -> Self {
        self.top = Some((count, column.into()));
        self
    }
    /// Whether results say why they fired, in a column `firing`.
    pub fn firing_column(mut self, on: bool) -> Self {
        self.columns.firing = on;
        self
    }
    /// Whether results say how often their key's window has fired before, in a column `firing_number`.
    pub fn firing_number_column(mut self, on: bool) -> Self {
        self.columns.number = on;
        self
    }
    /// Whether results have an event time of their own, in a column `window_time`: one tick before the end of the window, so
    /// that windows over results find them on time.
    pub fn window_time_column(mut self, on: bool) -> Self {
        self.columns.window_time = on;
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
        Workers::check(self.threads)?;
        let kind = self.build_kind(&source, window, lateness)?;
        let top = self.build_top(&kind, window, &outputs)?;
        let columns = Columns { retraction: self.result_mode == ResultMode::Retract, ..self.columns };
        let functions = match &kind {
            Kind::Keyed(Spec { function: Some(function), .. }) => function.schema.fields().to_vec(),
            _ => vec![],
        };
        let quiet = self.quiet_timeout.map(|timeout| source.ticks.tolerance("flush_after_quiet", timeout));
        let parts = Parts {
            quiet_timeout: quiet.transpose()?,
            top,
            assembler: Assembler::new(&source, outputs, &functions, columns, self.sort_by_key)?,
            threads: self.threads,
            limits: self.limits,
            description: self.describe(),
            source,
            inputs,
        };
        WindowOperator::new(kind, parts)
    }

    fn build_top(
        &self,
        kind: &Kind,
        window: &Window,
        outputs: &[(Field, accumulator::Output)],
    ) -> Result<Option<Top>> {
        let Some((count, column)) = &self.top else { return Ok(None) };
        if matches!(kind, Kind::Keyed(_)) {
            let given = format!("{count}, of {window}, trigger {}", self.trigger);
            let allowed = "aligned windows that fire by event time and accumulate, without firing numbers: \
                           others fire one key at a time";
            return Err(Error::invalid("top", given, allowed));
        }
        if *count == 0 {
            return Err(Error::invalid("top", 0, "one or more"));
        }
        let Some((field, output)) = outputs.iter().find(|(field, _)| field.name() == column) else {
            let names: Vec<_> = outputs.iter().map(|(field, _)| field.name().as_str()).collect();
            let available = names.join(", ");
            return Err(Error::UnknownColumn { parameter: "top".into(), column: column.clone(), available });
        };
        if field.data_type().is_nested() {
            return Err(Error::ColumnType {
                parameter: "top".into(),
                column: column.clone(),
                given: field.data_type().to_string(),
                allowed: "a type that has an order".into(),
            });
        }
        Ok(Some(Top { count: *count, output: *output }))
    }

    /// Out of slices if windows are aligned and fire by event time, else key by key.
    fn build_kind(&self, source: &Source, window: &Window, lateness: i64) -> Result<Kind> {
        let trigger = self.trigger.check(&source.schema, &source.ticks)?;
        let evictor =
            self.evictor.as_ref().map(|evictor| evictor.check(&source.schema, &source.ticks)).transpose()?;
        let plain = self.trigger == Trigger::event_time()
            && self.result_mode == ResultMode::Accumulate
            && evictor.is_none()
            && self.function.is_none()
            && !self.columns.number;
        let assigner = match Assigner::check(window, lateness, source)? {
            Assigner::Grid(grid) if plain => {
                return Ok(Kind::Sliced(grid, self.late_firing));
            }
            assigner => assigner,
        };
        let mut spec = Spec {
            assigner,
            trigger,
            lateness,
            late_firing: self.late_firing,
            mode: self.result_mode,
            evictor,
            function: self.function.as_ref().map(|f| Function::check(f, &source.schema)).transpose()?,
        };
        spec.complete(window, &self.trigger)?;
        Ok(Kind::Keyed(spec))
    }

    fn build_aggregates(&self) -> Result<(Inputs, Vec<(Field, accumulator::Output)>)> {
        match (self.aggregates.is_empty(), self.function.is_some()) {
            (true, false) => {
                return Err(missing("aggregate", "at least one, for instance Aggregate::count_all()"));
            }
            (false, true) => {
                let given = "a window function beside aggregates";
                return Err(Error::invalid("process", given, "one or the other"));
            }
            _ => {}
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
            let input = accumulator::Columns { value: find(aggregate.column())?, by: find(aggregate.by())? };
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
        let names = |number: usize| {
            let of = self.aggregates.iter().zip(&plan.outputs).filter(|(_, out)| out.accumulator == number);
            of.map(|(aggregate, _)| aggregate.name()).collect::<Vec<_>>().join(", ")
        };
        let names = (0..plan.accumulators.len()).map(names).collect();
        Ok((Inputs::new(&calls, plan.accumulators, names), outputs.into_iter().zip(plan.outputs).collect()))
    }
}
