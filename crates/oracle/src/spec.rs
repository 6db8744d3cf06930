//! What the user asks for. All times are ticks of one unit.

use jiff::civil::Weekday;

use crate::calendar;

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

/// Which windows hold a row. Durations are positive.
#[derive(Clone, Debug, PartialEq)]
pub enum Windows {
    /// `[offset + k * slide, offset + k * slide + size)`: tumbling if `slide` equals `size`, with gaps if it is larger.
    /// Any offset, taken modulo `slide`.
    Aligned {
        /// Length of a window.
        size: i64,
        /// Distance between starts.
        slide: i64,
        /// Shifts the starts.
        offset: i64,
    },
    /// Each tumbling window of `size` as a series of windows that share its start and end a `step` later each; the
    /// last one ends with it, also if `size` is no multiple of `step`. Of those whose ends do not fit `i64` there is only
    /// the first.
    Cumulate {
        /// Length of the longest window of a series.
        size: i64,
        /// Distance between ends; at most the size.
        step: i64,
        /// Shifts the starts; any value, taken modulo `size`.
        offset: i64,
    },
    /// Rows of a key whose `[time, time + gap)` touch or overlap.
    Session {
        /// The silence that ends a session.
        gap: i64,
    },
    /// The same with a gap from the row itself; a call with a row that has a time, but no positive integer as gap, fails.
    SessionByValue {
        /// The value column with the gap.
        column: usize,
    },
    /// One window, open at both ends.
    Global,
    /// By number, not by time: after every `slide` rows of a key, its last `size` rows, as far as there are so many. What has
    /// come since then is in one more window at the end of input. (Flink's `countWindow`.)
    Count {
        /// Rows in a window.
        size: u64,
        /// Rows from one window to the next.
        slide: u64,
    },
    /// From one boundary of the local calendar to the next.
    Calendar {
        /// What is counted.
        unit: CalendarUnit,
        /// How many of them make a window. Hours count from local midnight (so at most 24), everything else from the
        /// unit that holds 1970-01-01.
        multiple: i64,
        /// The IANA name of the time zone.
        zone: String,
        /// Length of a tick: of a second at most, or of a day, for days and longer units in UTC.
        nanos_per_tick: i64,
    },
}

/// A unit of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalendarUnit {
    /// From full hour to full hour of the local clock.
    Hour,
    /// From midnight to midnight.
    Day,
    /// Seven days from this weekday.
    Week(Weekday),
    /// From the first to the first.
    Month,
    /// Three months from January, April, July, October.
    Quarter,
    /// From January to December.
    Year,
}

/// When a window fires. Those marked "on time" fire when the watermark reaches the window's last tick, and again for
/// late rows; the others leave time aside.
#[derive(Clone, Debug, PartialEq)]
pub enum Trigger {
    /// On time.
    EventTime,
    /// On time, and before that whenever so many rows have come since the last time this happened.
    EarlyCount(u64),
    /// On time, and before that when the watermark passes a multiple of the interval: the first one after the time of the first
    /// row, then every one, each on its own.
    EarlyEventTime(i64),
    /// On time, and before that when the clock reaches a multiple of the interval after a row came that no firing has
    /// shown yet: once for each reading.
    EarlyClock(i64),
    /// Whenever so many rows have come since the last firing (0: with every row). What is left over never fires.
    Count(u64),
    /// When a value exceeds the one of the last firing by more than the threshold; the first value counts as fired. Values that are
    /// no numbers are passed over.
    Delta {
        /// The value column.
        column: usize,
        /// Compared as a float.
        threshold: f64,
    },
    /// Not at all, not even at the end of input.
    Never,
}

impl Trigger {
    /// Whether the window fires on time and for late rows.
    pub(crate) fn is_by_time(&self) -> bool {
        !matches!(self, Trigger::Count(_) | Trigger::Delta { .. } | Trigger::Never)
    }
}

/// What a firing takes out of a window, for good.
#[derive(Clone, Debug, PartialEq)]
pub struct Evictor {
    /// What goes.
    pub rule: Eviction,
    /// Whether it goes after the functions have seen it.
    pub after: bool,
}

/// Which rows are evicted.
#[derive(Clone, Debug, PartialEq)]
pub enum Eviction {
    /// All but so many that arrived last.
    Count(u64),
    /// Those with a time of at most the largest in the window minus this.
    Time(i64),
    /// Those whose value lies at or more than the threshold below that of the row that arrived last. Values that are no
    /// numbers stay, and make nothing go.
    Delta {
        /// The value column.
        column: usize,
        /// Compared as a float.
        threshold: f64,
    },
}

/// How the firings of one window and key relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultMode {
    /// Each is the whole value.
    Accumulate,
    /// Each holds what came since the last; the same as [`Spec::purging`].
    Discard,
    /// Each is the whole value, and the one that it supersedes comes again right before it, as a retraction. A session
    /// that has swallowed others takes back what they gave right before its own next firing.
    Retract,
}

/// A whole query.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Which windows hold a row.
    pub window: Windows,
    /// When they fire.
    pub trigger: Trigger,
    /// Whether a firing empties the window. A window that is empty does not fire.
    pub purging: bool,
    /// What a firing takes out of the window.
    pub evictor: Option<Evictor>,
    /// How the firings of one window and key relate.
    pub result_mode: ResultMode,
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
    /// When no partition had a row for longer than this, the watermark is raised to the last tick of the windows that are open.
    pub quiet_flush: Option<i64>,
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
    /// These windows over one partition in ascending order, no lateness, `count(*)`: the plainest spec, to be changed
    /// by struct update.
    pub fn over(window: Windows) -> Spec {
        Spec {
            window,
            trigger: Trigger::EventTime,
            purging: false,
            evictor: None,
            result_mode: ResultMode::Accumulate,
            allowed_lateness: 0,
            strategy: Strategy::Ascending,
            cadence: Cadence::EveryRow,
            reactivation: Reactivation::WhenCaughtUp,
            partitions: 1,
            idle_timeout: None,
            quiet_flush: None,
            null_policy: NullPolicy::Reject,
            guard: Guard::None,
            late_firing: LateFiring::Coalesced,
            aggregates: vec![(Function::CountAll, 0)],
            max_drift: None,
        }
    }

    /// The plainest spec over tumbling windows of `size`.
    pub fn tumbling(size: i64) -> Spec {
        Spec::over(Windows::Aligned { size, slide: size, offset: 0 })
    }

    /// Whether windows grow and merge.
    pub(crate) fn has_sessions(&self) -> bool {
        matches!(self.window, Windows::Session { .. } | Windows::SessionByValue { .. })
    }

    /// Whether a firing empties the window.
    pub(crate) fn empties(&self) -> bool {
        self.purging || self.result_mode == ResultMode::Discard
    }

    /// The value columns that windows, trigger and evictor read.
    pub(crate) fn columns_read(&self) -> Vec<usize> {
        let of_window = match self.window {
            Windows::SessionByValue { column } => Some(column),
            _ => None,
        };
        let of_trigger = match self.trigger {
            Trigger::Delta { column, .. } => Some(column),
            _ => None,
        };
        let of_evictor = match self.evictor {
            Some(Evictor { rule: Eviction::Delta { column, .. }, .. }) => Some(column),
            _ => None,
        };
        of_window.into_iter().chain(of_trigger).chain(of_evictor).collect()
    }

    /// Panics if the spec makes no sense. The oracle has no error type: its users are tests.
    pub(crate) fn check(&self) {
        let positive = |what: &str, n: i64| assert!(n > 0, "{what} must be positive, not {n}");
        match &self.window {
            Windows::Aligned { size, slide, .. } => {
                positive("size", *size);
                positive("slide", *slide);
            }
            Windows::Cumulate { size, step, .. } => {
                positive("size", *size);
                positive("step", *step);
                assert!(step <= size, "a step of {step} is longer than the size, {size}");
            }
            Windows::Session { gap } => positive("gap", *gap),
            Windows::SessionByValue { .. } | Windows::Global => {}
            Windows::Count { size, slide } => {
                assert!(*size > 0 && *slide > 0, "size and slide must be positive, not {size} and {slide}");
                assert!(self.trigger == Trigger::EventTime, "a count window has no trigger of its own");
            }
            Windows::Calendar { unit, multiple, nanos_per_tick, zone } => {
                positive("multiple", *multiple);
                positive("nanos_per_tick", *nanos_per_tick);
                assert!(*unit != CalendarUnit::Hour || *multiple <= 24, "a day has no {multiple} hours");
                assert!(calendar::zone(zone).is_some(), "there is no zone {zone}");
                let has_hours = *nanos_per_tick <= 1_000_000_000;
                assert!(
                    has_hours || zone == "UTC" && *unit != CalendarUnit::Hour,
                    "ticks of days have no hours"
                );
            }
        }
        match self.trigger {
            Trigger::EarlyEventTime(interval) | Trigger::EarlyClock(interval) => {
                positive("interval", interval)
            }
            Trigger::Delta { .. } => assert!(!self.has_sessions(), "deltas of sessions cannot be merged"),
            _ => {}
        }
        assert!(
            self.result_mode != ResultMode::Retract || !self.purging,
            "what a purging trigger gives is superseded by nothing, so nothing can be retracted"
        );
        assert!(
            self.allowed_lateness >= 0,
            "lateness must not be negative, but is {}",
            self.allowed_lateness
        );
        assert!(self.partitions > 0, "there must be at least one partition");
    }
}
