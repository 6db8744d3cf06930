//! What the user asks for. All times are ticks of one unit.

/// How a partition's watermark follows from its rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// `max - bound - 1`: a row may be up to `bound` ticks behind the largest time seen.
    Bounded(i64),
    /// `Bounded(0)`.
    Ascending,
    /// `max - delay`, without the extra tick.
    Delay(i64),
    /// Rows propose nothing; the caller says it with [`Op::Watermark`](crate::Op::Watermark).
    Explicit,
    /// A row with `marker = Some(w)` proposes `w`.
    Punctuated,
}

/// When a proposed watermark is emitted. It concerns what rows propose; an explicit watermark is emitted at once.
#[derive(Clone, Debug, PartialEq)]
pub enum Cadence {
    /// After every row.
    EveryRow,
    /// At the end of every pushed batch.
    EveryBatch,
    /// After a row whose proposal exceeds the last emitted watermark by more than the interval.
    Every(i64),
    /// Only by [`Op::EmitWatermarks`](crate::Op::EmitWatermarks).
    OnRequest,
}

/// How a partition that wakes up behind the merged watermark rejoins the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reactivation {
    /// It is left out until it has reached the merged watermark.
    WhenCaughtUp,
    /// It counts at once and holds the merged watermark still until it has caught up.
    AtOnce,
}

/// What happens to a row without a time.
#[derive(Clone, Debug, PartialEq)]
pub enum NullPolicy {
    /// Handed back.
    Reject,
    /// The call fails and changes nothing.
    Error,
    /// Counted, not handed back.
    Drop,
}

/// The future guard: what a row's time is compared with. A row ahead of `reference + tolerance` is rejected.
#[derive(Clone, Debug, PartialEq)]
pub enum Guard {
    /// No guard.
    None,
    /// The reference is the row's `ingest_time`; the row is rejected if that is null.
    IngestTime(i64),
    /// The reference is the injected clock. Pushing before its first reading is an error.
    Clock(i64),
}

/// How often late rows make a fired window fire again.
#[derive(Clone, Debug, PartialEq)]
pub enum LateFiring {
    /// Once per late row and window.
    PerRow,
    /// Once per call, window and key; earlier if the window expires within the call.
    Coalesced,
}

/// An aggregate function. All but `CountAll`, `Members`, `MaxBy` and `MinBy` skip nulls.
#[derive(Clone, Debug, PartialEq)]
pub enum Function {
    /// The number of rows.
    CountAll,
    /// The number of values.
    Count,
    /// The sum: of integers exact or an error, of floats in order of arrival.
    Sum,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The sum divided by the count, as a float.
    Mean,
    /// The sample variance; null for fewer than two values.
    Variance,
    /// The value with the smallest time; of several, the one that arrived first.
    First,
    /// The value with the largest time; of several, the one that arrived last.
    Last,
    /// The value in the row with the largest value of this other column, nulls of that left out; of several, in the one with
    /// the smallest time, of those the one that arrived first.
    MaxBy(usize),
    /// As `MaxBy`, with the smallest value of the other column.
    MinBy(usize),
    /// `s[floor(q * (n - 1))]` of the sorted values.
    Quantile(f64),
    /// The running numbers of the rows, as text separated by commas.
    Members,
}

/// A whole query.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Length of a window; positive.
    pub size: i64,
    /// Distance between window starts; positive. Equal to `size`: tumbling; larger: there are gaps.
    pub slide: i64,
    /// Shifts the window starts; any value, taken modulo `slide`.
    pub offset: i64,
    /// How long a fired window is kept for late rows; not negative.
    pub allowed_lateness: i64,
    /// Where watermarks come from.
    pub strategy: Strategy,
    /// When they are emitted.
    pub cadence: Cadence,
    /// How idle partitions rejoin.
    pub reactivation: Reactivation,
    /// Number of partitions; positive.
    pub partitions: usize,
    /// A partition without rows for longer than this becomes idle.
    pub idle_timeout: Option<i64>,
    /// What happens to rows without a time.
    pub null_policy: NullPolicy,
    /// What happens to rows from the future.
    pub guard: Guard,
    /// How often late rows refire.
    pub late_firing: LateFiring,
    /// The functions, each with the index of its value column.
    pub aggregates: Vec<(Function, usize)>,
    /// How far a partition may run ahead of the slowest before it should pause.
    pub max_drift: Option<i64>,
}

impl Spec {
    /// Tumbling windows of `size` over one partition in ascending order, no lateness, `count(*)`: the plainest
    /// spec, to be changed by struct update.
    pub fn tumbling(size: i64) -> Spec {
        Spec {
            size,
            slide: size,
            offset: 0,
            allowed_lateness: 0,
            strategy: Strategy::Ascending,
            cadence: Cadence::EveryRow,
            reactivation: Reactivation::WhenCaughtUp,
            partitions: 1,
            idle_timeout: None,
            null_policy: NullPolicy::Reject,
            guard: Guard::None,
            late_firing: LateFiring::Coalesced,
            aggregates: vec![(Function::CountAll, 0)],
            max_drift: None,
        }
    }

    /// Panics if the spec makes no sense. The oracle has no error type: its users are tests.
    pub(crate) fn check(&self) {
        assert!(self.size > 0, "size must be positive, not {}", self.size);
        assert!(self.slide > 0, "slide must be positive, not {}", self.slide);
        assert!(
            self.allowed_lateness >= 0,
            "lateness must not be negative, but is {}",
            self.allowed_lateness
        );
        assert!(self.partitions > 0, "there must be at least one partition");
    }
}
