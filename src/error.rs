//! The one error type: what was given, what was allowed, and where.

use std::fmt::Display;

/// Everything that can go wrong, from building an operator to firing a window.
///
/// An error returned by a method of the operator means that the call did nothing: no row of it was taken, no
/// watermark moved.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter of the builder has a value that is not allowed.
    #[error("{parameter}: {given} is not allowed: {allowed}")]
    InvalidParameter {
        /// The builder method or flag, in its own words (`window size`, `allowed_lateness`).
        parameter: String,
        /// The value as given.
        given: String,
        /// What would be allowed.
        allowed: String,
    },
    /// A column is named that the schema does not have.
    #[error("{parameter}: no column {column:?}; the schema has {available}")]
    UnknownColumn {
        /// The parameter that named the column.
        parameter: String,
        /// The name as given.
        column: String,
        /// The names that the schema has, separated by commas.
        available: String,
    },
    /// A column has a type that its use does not allow.
    #[error("{parameter}: column {column:?} is {given}; allowed: {allowed}")]
    ColumnType {
        /// The parameter that named the column.
        parameter: String,
        /// The column.
        column: String,
        /// Its data type.
        given: String,
        /// The types that are allowed.
        allowed: String,
    },
    /// A duration is not a whole number of ticks of the event-time column.
    #[error(
        "{parameter}: {duration} is not a whole number of ticks of event time column {column:?}, whose unit is {unit}"
    )]
    NotWholeTicks {
        /// The parameter that holds the duration.
        parameter: String,
        /// The duration as given.
        duration: String,
        /// The event-time column.
        column: String,
        /// The unit of its ticks.
        unit: String,
    },
    /// A pushed batch does not have the schema that the operator was built for.
    #[error("batch schema differs at column {index}: given {given}, built for {expected}")]
    SchemaMismatch {
        /// The first column that differs.
        index: usize,
        /// What the batch has there.
        given: String,
        /// What the operator was built for.
        expected: String,
    },
    /// A partition number beyond those the operator was built with.
    #[error("partition {given} does not exist: the operator was built with {partitions} (0 to {})", partitions - 1)]
    UnknownPartition {
        /// The number as given.
        given: usize,
        /// How many there are.
        partitions: usize,
    },
    /// A row has no event time, and the null policy is to refuse it.
    #[error("event time column {column:?} is null in row {row} of the batch for partition {partition}")]
    NullEventTime {
        /// The event-time column.
        column: String,
        /// The partition the batch was pushed to.
        partition: usize,
        /// The first such row of the batch, counted from 0.
        row: usize,
    },
    /// The future guard compares with the injected clock, but the clock was never set.
    #[error("the future guard needs a clock: call advance_clock before the first push")]
    ClockNotSet,
    /// A call that the watermark strategy of this operator has no use for.
    #[error("{call} needs {needs}")]
    WrongStrategy {
        /// The method called.
        call: &'static str,
        /// What the operator would have to be built with.
        needs: &'static str,
    },
    /// The value of an aggregate does not fit its output type.
    #[error("{aggregate} of window [{start}, {end}){key} does not fit {output_type}: {value}")]
    Overflow {
        /// The output column.
        aggregate: String,
        /// Window start, in ticks.
        start: i64,
        /// Window end, in ticks.
        end: i64,
        /// The key, as ` key (column=value, ...)`; empty without key columns.
        key: String,
        /// The value that does not fit.
        value: String,
        /// The type that it does not fit.
        output_type: String,
    },
    /// A limit of the configuration has been reached.
    #[error("{limit} limit reached: this call needs {needed}, allowed are {allowed}")]
    LimitReached {
        /// `max_open_slices`, `max_keys` or `max_state_bytes`.
        limit: &'static str,
        /// What the call would have needed.
        needed: usize,
        /// The configured limit.
        allowed: usize,
    },
    /// A user's aggregate function has failed.
    #[error("aggregate {aggregate}: {message}")]
    Aggregate {
        /// The output column.
        aggregate: String,
        /// The function's own words.
        message: String,
    },
    /// A snapshot could not be taken, or an operator not be restored from it.
    #[error("snapshot: {message}")]
    Snapshot {
        /// What kind of thing is wrong.
        fault: SnapshotFault,
        /// What exactly, and where.
        message: String,
    },
    /// One of several batches of a call, or something that was said to one of two inputs, is at fault.
    #[error("{place}: {error}")]
    At {
        /// Which of them, as in `batch 1, right input`; batches are counted from 0.
        place: String,
        /// What is wrong with it.
        error: Box<Error>,
    },
    /// A process has failed, in its own words.
    #[error("process: {message}")]
    Process {
        /// What went wrong.
        message: String,
    },
    /// Arrow refused an operation.
    #[error("arrow: {0}")]
    Arrow(String),
}

/// What is wrong with a snapshot, for those who want to act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SnapshotFault {
    /// It is some other file.
    Foreign,
    /// It was a snapshot, but bytes are missing or have changed.
    Damaged,
    /// It was written in a format that is newer than this version of the engine.
    Newer,
    /// It was taken of an operator that was built otherwise.
    Configuration,
    /// Its bytes are as they were written, but no operator can be in such a state.
    Impossible,
    /// The operator holds a state that has no way into a snapshot: that of a user's own function or generator which does
    /// not say how.
    Unsupported,
    /// The bytes could not be written.
    Io,
}

impl From<arrow_schema::ArrowError> for Error {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Error::Arrow(error.to_string())
    }
}

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn invalid(
        parameter: impl Into<String>,
        given: impl Display,
        allowed: impl Into<String>,
    ) -> Self {
        Error::InvalidParameter {
            parameter: parameter.into(),
            given: given.to_string(),
            allowed: allowed.into(),
        }
    }

    /// The same of one input of two, if it is about a parameter.
    pub(crate) fn of_input(mut self, side: &str) -> Self {
        if let Error::InvalidParameter { parameter, .. }
        | Error::UnknownColumn { parameter, .. }
        | Error::ColumnType { parameter, .. }
        | Error::NotWholeTicks { parameter, .. } = &mut self
        {
            *parameter = format!("{parameter} of the {side} input");
        }
        self
    }

    pub(crate) fn snapshot(fault: SnapshotFault, message: impl Into<String>) -> Self {
        Error::Snapshot { fault, message: message.into() }
    }
}
