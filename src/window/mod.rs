//! Windows, as users say them, and the slices that they share.

use std::fmt;

use crate::time::TimeDelta;

mod grid;
mod aligned;
mod cumulate;
mod calendar;
mod clock;

#[cfg(test)]
mod tests;

pub use calendar::{CalendarUnit, Weekday};
pub(crate) use grid::{Grid, Horizon, Slice};

/// Which windows a row belongs to.
///
/// ```
/// use highwater::{CalendarUnit, TimeDelta, Window};
/// let minute = Window::tumbling(TimeDelta::from_mins(1));
/// let five_by_one = Window::sliding(TimeDelta::from_mins(5), TimeDelta::from_mins(1)).offset(TimeDelta::from_secs(15));
/// let so_far_today = Window::cumulate(TimeDelta::from_days(1), TimeDelta::from_hours(1));
/// let day = Window::calendar(CalendarUnit::Day, 1, "Europe/Berlin");
/// assert_eq!(minute.to_string(), "tumbling 1m");
/// assert_eq!(five_by_one.to_string(), "sliding 5m by 1m, offset 15s");
/// assert_eq!(so_far_today.to_string(), "cumulate 1d by 1h");
/// assert_eq!(day.to_string(), "calendar 1 day in Europe/Berlin");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub(crate) kind: Kind,
    pub(crate) offset: TimeDelta,
}

/// What a user can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `[offset + k * slide, ... + size)` for every `k`.
    Aligned { size: TimeDelta, slide: TimeDelta },
    /// `[offset + k * size, ... + j * step)` for every `k`, and every `j` up to the size.
    Cumulate { size: TimeDelta, step: TimeDelta },
    /// From one multiple of a unit on the clocks of a zone to the next.
    Calendar { unit: CalendarUnit, count: u32, zone: String },
    /// Rows of a key, none more than a gap from the next.
    Session { gap: TimeDelta },
    /// The same, with each row's gap in a column.
    SessionBy { column: String },
    /// One for all time.
    Global,
    /// Rows of a key, counted.
    Count { size: u64, slide: u64 },
}

impl Window {
    fn of(kind: Kind) -> Self {
        Window { kind, offset: TimeDelta::ZERO }
    }

    /// Windows that follow one another without overlap.
    pub fn tumbling(size: impl Into<TimeDelta>) -> Self {
        let size = size.into();
        Window::of(Kind::Aligned { size, slide: size })
    }

    /// A window of `size` every `slide`. The size need not be a multiple of the slide; a slide longer than the size leaves
    /// gaps, whose rows belong to no window.
    pub fn sliding(size: impl Into<TimeDelta>, slide: impl Into<TimeDelta>) -> Self {
        Window::of(Kind::Aligned { size: size.into(), slide: slide.into() })
    }

    /// Windows that follow one another, each with what it has had so far after every `step`: all begin where the window
    /// of `size` does, and end one step later than the one before. The last step is shorter if the size is not a multiple of
    /// it. A key is in the results from the step of its first row on, also after steps without new rows.
    pub fn cumulate(size: impl Into<TimeDelta>, step: impl Into<TimeDelta>) -> Self {
        Window::of(Kind::Cumulate { size: size.into(), step: step.into() })
    }

    /// Windows of `count` calendar units on the clocks of a zone, which is named as in the IANA time zone database
    /// (`Europe/Berlin`, `UTC`); see [`CalendarUnit`] for where multiples count from. The database comes with the crate.
    ///
    /// A window begins at the instant at which the clocks show its beginning or jump over it. So days have 23 to 25 hours, an
    /// hour that comes twice is two windows, and a date that comes twice is one. The calendar knows the years -9999 to 9999:
    /// what is before its first boundary is one window, and the last window never ends.
    pub fn calendar(unit: CalendarUnit, count: u32, zone: impl Into<String>) -> Self {
        Window::of(Kind::Calendar { unit, count, zone: zone.into() })
    }

    /// Rows of one key that follow each other within `gap`: each row opens `[time, time + gap)`, and windows of a key that touch
    /// or overlap are one. A row that comes late can make one session of two.
    pub fn session(gap: impl Into<TimeDelta>) -> Self {
        Window::of(Kind::Session { gap: gap.into() })
    }

    /// Sessions whose gap is in a column, row by row: an integer in ticks of the event time, or a Duration of its unit.
    /// Pushing a gap that is null, zero or negative is an error.
    pub fn session_by(column: impl Into<String>) -> Self {
        Window::of(Kind::SessionBy { column: column.into() })
    }

    /// One window a key, for all time: it fires at end of input, or by its [`Trigger`](crate::Trigger).
    pub fn global() -> Self {
        Window::of(Kind::Global)
    }

    /// Every `rows` rows of a key are a window, in order of arrival; what is left at end of input is one too. The bounds of
    /// such a window are the event time of its earliest row, and one tick behind that of its latest. Rows are never late.
    pub fn count(rows: u64) -> Self {
        Window::of(Kind::Count { size: rows, slide: rows })
    }

    /// After every `slide` rows of a key, its last `size` rows are a window (Flink's `countWindow(size, slide)`).
    pub fn count_sliding(size: u64, slide: u64) -> Self {
        Window::of(Kind::Count { size, slide })
    }

    /// Whether windows lie on the time line wherever rows are.
    pub(crate) fn is_aligned(&self) -> bool {
        matches!(self.kind, Kind::Aligned { .. } | Kind::Cumulate { .. } | Kind::Calendar { .. })
    }

    /// Rows in a window and from one window to the next, where windows are counted.
    pub(crate) fn counted(&self) -> Option<(u64, u64)> {
        if let Kind::Count { size, slide } = self.kind { Some((size, slide)) } else { None }
    }

    /// Moves every window start by `offset`, which may be negative and is taken modulo the slide (cumulate: modulo the size).
    /// Calendar windows and those that are not aligned to the time line have none.
    pub fn offset(mut self, offset: impl Into<TimeDelta>) -> Self {
        self.offset = offset.into();
        self
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Aligned { size, slide } if size == slide => write!(f, "tumbling {size}")?,
            Kind::Aligned { size, slide } => write!(f, "sliding {size} by {slide}")?,
            Kind::Cumulate { size, step } => write!(f, "cumulate {size} by {step}")?,
            Kind::Calendar { unit, count, zone } => write!(f, "calendar {} in {zone}", unit.times(*count))?,
            Kind::Session { gap } => write!(f, "session {gap}")?,
            Kind::SessionBy { column } => write!(f, "session by {column:?}")?,
            Kind::Global => write!(f, "global")?,
            Kind::Count { size, slide } if size == slide => write!(f, "{size} rows")?,
            Kind::Count { size, slide } => write!(f, "{size} rows every {slide}")?,
        }
        if self.offset != TimeDelta::ZERO {
            write!(f, ", offset {}", self.offset)?;
        }
        Ok(())
    }
}
