//! Windows that begin where the clocks of a zone show a multiple of a calendar unit, or jump over one.
//!
//! A slice is a window, and is named by its first tick. For days and longer units a boundary is where the clock shows the
//! midnight in question, or a later time, for the first time ever: a date that comes back does not start a second day. Hours
//! start wherever the clock says so, which it may say twice.

use std::fmt;
use std::ops::Range;

use jiff::ToSpan;
use jiff::civil::Date;

use super::clock::Clock;
use super::grid::{AFTER_ALL, Slice, clip};
use crate::error::{Error, Result};
use crate::time::{TickConverter, TickUnit};

/// What calendar windows are multiples of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// Hours of the local clock, counted from each midnight: three hours begin at 0, 3, 6 and so on, and the last of a day may
    /// be shorter. At most 24.
    Hour,
    /// Days, counted from 1970-01-01.
    Day,
    /// Weeks that begin on this day, counted from the one that has 1970-01-01 (a Thursday).
    Week(Weekday),
    /// Months, counted from January 1970.
    Month,
    /// Three months, counted from January 1970.
    Quarter,
    /// Years, counted from 1970.
    Year,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Weekday {
    /// Monday, the first day of ISO weeks.
    Monday,
    /// Tuesday.
    Tuesday,
    /// Wednesday.
    Wednesday,
    /// Thursday.
    Thursday,
    /// Friday.
    Friday,
    /// Saturday.
    Saturday,
    /// Sunday.
    Sunday,
}

impl CalendarUnit {
    fn name(self) -> &'static str {
        match self {
            CalendarUnit::Hour => "hour",
            CalendarUnit::Day => "day",
            CalendarUnit::Week(_) => "week",
            CalendarUnit::Month => "month",
            CalendarUnit::Quarter => "quarter",
            CalendarUnit::Year => "year",
        }
    }

    /// As in `2 weeks from Sunday`.
    pub(super) fn times(self, count: u32) -> String {
        let plural = if count == 1 { "" } else { "s" };
        let from = match self {
            CalendarUnit::Week(day) => format!(" from {day}"),
            _ => String::new(),
        };
        format!("{count} {}{plural}{from}", self.name())
    }
}

impl fmt::Display for Weekday {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

const SECONDS_PER_HOUR: i64 = 3_600;
const SECONDS_PER_DAY: i64 = 86_400;
const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// Days are counted from here.
const EPOCH: Date = jiff::civil::date(1970, 1, 1);

/// Calendar windows in ticks.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    unit: CalendarUnit,
    count: i64,
    clock: Clock,
    ticks: TickUnit,
    /// The days that the calendar knows.
    days: Range<i64>,
    /// The seconds of these days.
    seconds: Range<i64>,
}

impl Calendar {
    pub(super) fn new(unit: CalendarUnit, count: u32, zone: &str, ticks: &TickConverter) -> Result<Self> {
        let refused = |allowed: String| Err(Error::invalid("window", unit.times(count), allowed));
        let clock = Clock::of(zone)?;
        if count == 0 {
            return refused(format!("one {} or more", unit.name()));
        }
        if unit == CalendarUnit::Hour && count > 24 {
            return refused("at most 24 hours, for they count from each midnight".into());
        }
        if ticks.unit == TickUnit::Day {
            let days = format!("event time column {:?} counts days, which have no hours", ticks.column);
            if unit == CalendarUnit::Hour {
                return refused(format!("days or longer: {days}"));
            }
            if !clock.is_utc() {
                return Err(Error::invalid("window zone", zone, format!("UTC: {days}")));
            }
        }
        let days = day_of(Date::MIN)..day_of(Date::MAX) + 1;
        let midnights = days.start * SECONDS_PER_DAY..days.end * SECONDS_PER_DAY;
        let seconds = clock.first_showing(midnights.start)..clock.first_showing(midnights.end);
        Ok(Calendar { unit, count: i64::from(count), clock, ticks: ticks.unit, days, seconds })
    }

    pub(super) fn slice_of(&self, time: i64) -> Slice {
        let (start, end) = self.window_at(self.second(time));
        let first = start.map_or(i64::MIN, |start| clip(self.tick(start)));
        let end = end.map_or(AFTER_ALL, |end| self.tick(end));
        Slice { id: first as i128, first, last: clip(end - 1) }
    }

    /// The end of a window, unclipped.
    pub(super) fn end(&self, window: i128) -> i128 {
        self.window_at(self.second(clip(window))).1.map_or(AFTER_ALL, |end| self.tick(end))
    }

    /// The second of a tick; those outside of the calendar are all alike.
    fn second(&self, time: i64) -> i64 {
        let second = (time as i128 * self.ticks.nanos()).div_euclid(NANOS_PER_SECOND);
        second.clamp(self.seconds.start as i128 - 1, self.seconds.end as i128 - 1) as i64
    }

    /// The tick at which a window begins: a whole second, or a whole day if ticks are days.
    fn tick(&self, second: i64) -> i128 {
        second as i128 * NANOS_PER_SECOND / self.ticks.nanos()
    }

    /// The first second of the window that holds a second, and that of the next window: where the calendar knows them.
    fn window_at(&self, second: i64) -> (Option<i64>, Option<i64>) {
        if second >= self.seconds.start {
            return self.known_window_at(second);
        }
        match self.known_window_at(self.seconds.start) {
            (None, end) => (None, end),
            (first, _) => (None, first),
        }
    }

    fn known_window_at(&self, second: i64) -> (Option<i64>, Option<i64>) {
        let Range { start, end } = match self.unit {
            CalendarUnit::Hour => {
                let shown = self.hours(self.clock.shows(second));
                let last = shown.end >= self.days.end * SECONDS_PER_DAY;
                let window = self.clock.stretch(second, &shown);
                return (Some(window.start), (!last).then_some(window.end));
            }
            _ => self.days(self.clock.has_shown(second).div_euclid(SECONDS_PER_DAY)),
        };
        let boundary =
            |day| self.days.contains(&day).then(|| self.clock.first_showing(day * SECONDS_PER_DAY));
        (boundary(start), boundary(end))
    }

    /// The local seconds from one multiple of hours to the next.
    fn hours(&self, local: i64) -> Range<i64> {
        let length = self.count * SECONDS_PER_HOUR;
        let midnight = local - local.rem_euclid(SECONDS_PER_DAY);
        let start = local - (local - midnight) % length;
        start..(start + length).min(midnight + SECONDS_PER_DAY)
    }

    /// The days from one multiple of the unit to the next, of which those that are not in the calendar are only known not to be.
    fn days(&self, day: i64) -> Range<i64> {
        let months = match self.unit {
            CalendarUnit::Hour | CalendarUnit::Day => return multiple(day, self.count, 0),
            CalendarUnit::Week(first) => {
                // the day before 1970-01-01, a Thursday, on which its week began
                let back = (Weekday::Thursday as i64 - first as i64).rem_euclid(7);
                return multiple(day, 7 * self.count, -back);
            }
            CalendarUnit::Month => self.count,
            CalendarUnit::Quarter => 3 * self.count,
            CalendarUnit::Year => 12 * self.count,
        };
        let date = EPOCH.saturating_add(day.days());
        let month = (i64::from(date.year()) - 1970) * 12 + i64::from(date.month()) - 1;
        let months = multiple(month, months, 0);
        let first_day = |month: i64| {
            let year = i16::try_from(1970 + month.div_euclid(12)).ok()?;
            Date::new(year, month.rem_euclid(12) as i8 + 1, 1).ok().map(day_of)
        };
        first_day(months.start).unwrap_or(self.days.start - 1)..first_day(months.end).unwrap_or(self.days.end)
    }
}

fn day_of(date: Date) -> i64 {
    i64::from((date - EPOCH).get_days())
}

/// The multiple of `length`, counted from `origin`, that `number` is in.
fn multiple(number: i64, length: i64, origin: i64) -> Range<i64> {
    let start = number - (number - origin).rem_euclid(length);
    start..start + length
}
