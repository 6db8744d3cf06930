//! Keyed state and timers: a user's own function over rows of a key, and what is ready-made on it.
//!
//! # The way of a row
//!
//! ```text
//! (input, partition, RecordBatch)
//!   -> engine.rs     the spine: a call, and everything taken back if it fails
//!   -> standing.rs   event time and watermarks as for windows; the merged watermark before each row
//!   -> spread.rs     key columns to codes; each key belongs to one shard
//!   -> context.rs    the user's function asks for one row after the other; timers that are due come in between
//!   -> shard.rs      state and timers of a shard's keys (keys.rs, timers.rs), and what the call has done to them
//!   -> order.rs      results of all shards in the order of events
//! ```
//!
//! Shards are worked on side by side, one a thread. What a shard sees of the others is settled before: the merged watermark
//! before each row of the call. So a shard knows by itself when its timers are due, and only the order of results, and of
//! registrations within firings, is made at the end.

// The way of a row.
mod engine;
mod standing;
mod spread;
mod context;
mod shard;
mod keys;
mod timers;
mod order;

// What a user builds.
mod builder;
mod operator;
mod two_inputs;
mod metrics;
mod saved;

// Ready-made processes, and what they share.
mod pairs;
mod deduplicate;
mod join;
mod stored;
mod grid;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

pub use builder::{OperatorBuilder, ProcessOperatorBuilder, TwoInputOperatorBuilder};
pub use context::{Keyed, Position, Row, Rows, Timer};
pub use deduplicate::{Deduplicate, DeduplicateBuilder, DeduplicatePlan, Passed, deduplicate};
pub use join::{
    IntervalJoin, IntervalJoinBuilder, IntervalPlan, IntervalState, JoinPlan, Joined, WindowJoin,
    WindowJoinBuilder, WindowPlan, WindowState, interval_join, window_join,
};
pub use metrics::{InputMetrics, ProcessLimits, ProcessMetrics};
pub use operator::ProcessOperator;
pub use pairs::{MatchPairs, MatchPairsBuilder, MatchPairsPlan, OpenRequest, Pair, match_pairs};
pub use two_inputs::{Side, TwoInputOperator, TwoInputOutput};

use crate::error::Result;

/// A user's own function over the rows of each key, with state and timers. Flink's `KeyedProcessFunction`, over batches.
///
/// A process is shared by all threads and never changes: all that it remembers is the state of a key. So its answer cannot
/// depend on how keys are spread over threads, nor on how rows are cut into batches.
///
/// * Rows of a key come in order of arrival, each with the merged watermark that was in force before it. Rows at or before the
///   watermark come like any others; [`Row::is_late`] tells, and [`Row::hand_back`] puts one into
///   [`Output::late`](crate::Output::late).
/// * A timer is one for each key and time. It fires when the watermark reaches its time, before any row that is judged by
///   that watermark, in order of time, then registration. One that is registered at or before the current
///   watermark fires when the watermark next rises; within a firing, by the same watermark still.
/// * Results are in the order of the rows and firings that gave them.
/// * A key that has neither state nor timers is forgotten.
///
/// # Example
///
/// Users who have been quiet for a minute, and how many rows they had until then:
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampSecondArray};
/// use arrow_schema::{DataType, Field, Schema, SchemaRef};
/// use highwater::process::{KeyedProcess, Keyed, ProcessOperator, Results, Rows, Timer};
/// use highwater::watermark::WatermarkStrategy;
/// use highwater::{Input, Result, TimeDelta};
///
/// struct Quiet;
///
/// #[derive(Clone, Default)]
/// struct Seen { rows: i64, last: i64 }
///
/// impl KeyedProcess for Quiet {
///     type State = Seen;
///     type Output = i64;
///
///     fn output_schema(&self, _inputs: &[SchemaRef]) -> Result<SchemaRef> {
///         Ok(Arc::new(Schema::new(vec![Field::new("rows", DataType::Int64, false)])))
///     }
///
///     fn rows(&self, rows: &mut Rows<'_, Self>) -> Result<()> {
///         while let Some(mut row) = rows.next()? {
///             let seen = row.key.state();
///             let before = seen.last;
///             let last = before.max(row.time);
///             *seen = Seen { rows: seen.rows + 1, last };
///             row.key.delete_timer(before + 60);
///             row.key.register_timer(last + 60);
///         }
///         Ok(())
///     }
///
///     fn timer(&self, _timer: Timer, key: &mut Keyed<'_, Self>) -> Result<()> {
///         let rows = key.state().rows;
///         key.clear();
///         key.emit(rows);
///         Ok(())
///     }
///
///     fn results(&self, outputs: Vec<i64>, _: &Results<'_>) -> Result<Vec<ArrayRef>> {
///         Ok(vec![Arc::new(Int64Array::from(outputs))])
///     }
/// }
///
/// let batch = RecordBatch::try_from_iter([
///     ("ts", Arc::new(TimestampSecondArray::from(vec![0, 50, 70, 200])) as ArrayRef),
///     ("user", Arc::new(StringArray::from(vec!["ada", "ada", "bob", "eve"])) as _),
/// ])?;
/// let input = Input::new(batch.schema())
///     .event_time("ts")
///     .key("user")
///     .watermark(WatermarkStrategy::ascending());
/// let mut operator = ProcessOperator::builder(Quiet, input).build()?;
/// let output = operator.push(0, &batch)?;
/// // the watermark is 199: ada's minute was over at 110, bob's at 130, eve's is not
/// let expected = RecordBatch::try_from_iter([
///     ("user", Arc::new(StringArray::from(vec![Some("ada"), Some("bob")])) as ArrayRef),
///     ("rows", Arc::new(Int64Array::from(vec![2, 1])) as _),
/// ])?;
/// assert_eq!(output.fired[0].columns(), expected.columns());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KeyedProcess: Send + Sync + Sized {
    /// What is remembered of a key. It is copied before the first change of a call, if the call might fail.
    type State: Default + Clone + Send;
    /// A result, until [`results`](KeyedProcess::results) makes columns of all results of a call.
    type Output: Send;

    /// Whether `rows`, `timer`, `clock_timer` or `results` can return an error of their own. If not, states need not be
    /// copied for the case that they do; if one does all the same, its call is the operator's last.
    const FALLIBLE: bool = true;

    /// Whether results begin with the key columns. If so they are not in `output_schema`, and `results` does not give them.
    const KEY_COLUMNS: bool = true;

    /// The columns of results, given the schemas of the inputs: one, or left and right.
    fn output_schema(&self, inputs: &[SchemaRef]) -> Result<SchemaRef>;

    /// Takes in rows of one batch, as [`Rows::next`] gives them. Rows that it leaves are passed over.
    fn rows(&self, rows: &mut Rows<'_, Self>) -> Result<()>;

    /// A timer has fired.
    ///
    /// At end of input everything is due that is registered, and what firings register too. So a timer that registers the next one
    /// has to look whether [`Keyed::watermark`] is [`END`](crate::watermark::END), or it goes on to the end of time.
    fn timer(&self, _timer: Timer, _key: &mut Keyed<'_, Self>) -> Result<()> {
        Ok(())
    }

    /// A timer of the injected clock has fired: when [`advance_clock`](ProcessOperator::advance_clock) has reached its time,
    /// before the event-time timers of the same call. They do not fire at end of input.
    fn clock_timer(&self, _timer: Timer, _key: &mut Keyed<'_, Self>) -> Result<()> {
        Ok(())
    }

    /// The columns of results, in the order given.
    fn results(&self, outputs: Vec<Self::Output>, call: &Results<'_>) -> Result<Vec<ArrayRef>>;

    /// What the meaning of a saved state depends on, in a line: a snapshot is not restored where it differs. By default the
    /// name of the type.
    fn describe(&self) -> String {
        std::any::type_name::<Self>().into()
    }

    /// Names of what [`Keyed::count`] counts.
    fn counters(&self) -> &'static [&'static str] {
        &[]
    }

    /// Bytes that a state has on the heap, for [`ProcessLimits::max_state_bytes`].
    fn heap_size(&self, _state: &Self::State) -> usize {
        0
    }

    /// States as an array with one value each, in order, so that they can be kept outside of the operator.
    ///
    /// # Errors
    /// By default, that the process does not say how.
    fn save(&self, _states: &[&Self::State]) -> Result<ArrayRef> {
        Err(crate::Error::Process { message: "it does not say how its states are saved".into() })
    }

    /// The states that [`save`](KeyedProcess::save) made an array of.
    ///
    /// # Errors
    /// An array that `save` cannot have made; by default, that the process does not say how.
    fn restore(&self, _saved: &ArrayRef) -> Result<Vec<Self::State>> {
        Err(crate::Error::Process { message: "it does not say how its states are restored".into() })
    }
}

/// What [`KeyedProcess::results`] can look at beside the outputs.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a> {
    pub(crate) batches: &'a [RecordBatch],
}

impl<'a> Results<'a> {
    /// The batches of the call: what [`Position`] points into. None if the call had no rows.
    pub fn batches(&self) -> &'a [RecordBatch] {
        self.batches
    }
}
