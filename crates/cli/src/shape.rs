//! Which windows: the flags, and what they mean to the engine.

use clap::{Args, ValueEnum};
use highwater::{CalendarUnit, TimeDelta, Weekday, Window};

use crate::aggregates::{self, Parsed};
use crate::duration;
use crate::failure::{Failure, Outcome};

/// What is computed.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Windows (one of --tumble, --hop, --cumulate, --session, --session-by, --count, --global)"
)]
pub struct ShapeArgs {
    /// Key column (repeatable; none: one result per window)
    #[arg(long, value_name = "COLUMN")]
    pub key: Vec<String>,
    /// Windows of this size, one after the other; with --zone, of the calendar
    #[arg(long, value_name = "SIZE", group = "windows", value_parser = Size::parse)]
    pub tumble: Option<Size>,
    /// Windows of SIZE, a new one every SLIDE
    #[arg(long, value_name = "SIZE,SLIDE", group = "windows", value_parser = hop)]
    pub hop: Option<(TimeDelta, TimeDelta)>,
    /// Windows of SIZE, one after the other, each with a result so far after every STEP
    #[arg(long, value_name = "SIZE,STEP", group = "windows", value_parser = cumulate)]
    pub cumulate: Option<(TimeDelta, TimeDelta)>,
    /// Sessions: rows of a key that follow each other within GAP, or exactly after it
    #[arg(long, value_name = "GAP", group = "windows", value_parser = duration::parse_length)]
    pub session: Option<TimeDelta>,
    /// Sessions with each row's gap in a column, of whole numbers that count ticks of the event time (ms for text)
    #[arg(long, value_name = "COLUMN", group = "windows")]
    pub session_by: Option<String>,
    /// Every N rows of a key, in the order in which they come; with SLIDE the last N rows after every SLIDE
    #[arg(long, value_name = "N[,SLIDE]", group = "windows", value_parser = Count::parse)]
    pub count: Option<Count>,
    /// One window for all time, which fires at the end of input or as the flags under Firing say
    #[arg(long, group = "windows")]
    pub global: bool,
    /// Count the hours, days, weeks, months, quarters or years of --tumble on the clocks of this zone, as in Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Day on which the weeks of --zone begin [default: monday]
    #[arg(long, value_enum, value_name = "DAY", requires = "zone")]
    pub week_start: Option<WeekStart>,
    /// Shift window starts from the epoch; may be negative
    #[arg(long, value_name = "D", value_parser = duration::parse, allow_hyphen_values = true)]
    pub offset: Option<TimeDelta>,
    /// What to compute, as in 'sum(usd) as usd' (repeatable) [default: count]
    ///
    /// Functions: count, count(x), sum(x), min(x), max(x), mean(x), stddev(x), var(x), stddev_pop(x), var_pop(x),
    /// first(x), last(x), max_by(x,y) (the x where y is largest), min_by(x,y), quantile(x,0.99), p99(x), approx_distinct(x),
    /// reservoir_quantile(x,0.99) or reservoir_quantile(x,0.99,CAPACITY).
    #[arg(long, value_name = "FUNCTION", value_parser = aggregates::parse)]
    pub agg: Vec<Parsed>,
    /// Keep, of each window, the N results with the largest values of --by, largest first
    #[arg(long, value_name = "N", requires = "by", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: Option<u32>,
    /// The name of the result that --top goes by: that of an --agg
    #[arg(long, value_name = "NAME", requires = "top")]
    pub by: Option<String>,
    /// Sort the results of a window by key
    #[arg(long)]
    pub sort: bool,
}

/// On which day weeks begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the days of the week")]
pub enum WeekStart {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

impl From<WeekStart> for Weekday {
    fn from(day: WeekStart) -> Self {
        match day {
            WeekStart::Monday => Weekday::Monday,
            WeekStart::Tuesday => Weekday::Tuesday,
            WeekStart::Wednesday => Weekday::Wednesday,
            WeekStart::Thursday => Weekday::Thursday,
            WeekStart::Friday => Weekday::Friday,
            WeekStart::Saturday => Weekday::Saturday,
            WeekStart::Sunday => Weekday::Sunday,
        }
    }
}

/// The size of windows that follow one another: a length of time, a number of calendar units, or what can be read as either.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    text: String,
    length: Option<TimeDelta>,
    /// Weeks begin on Mondays here.
    calendar: Option<(CalendarUnit, u32)>,
}

const UNITS: &str = "hours, days, weeks, months, quarters or years";

impl Size {
    /// Reads `90s`, `1 day`, `2 weeks`, `1 month`, `1 quarter`, `P1Y`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (length, calendar) = match quarters(text) {
            Some(count) => (None, Some((CalendarUnit::Quarter, i64::from(count)))),
            None => {
                let span = duration::parse_span(text)?;
                let calendar = calendar(&span);
                let months = span.get_years() != 0 || span.get_months() != 0;
                if months && calendar.is_none() {
                    return Err(format!(
                        "{text:?} mixes months or years with other units; allowed is a whole number of one unit: {UNITS}"
                    ));
                }
                (if months { None } else { Some(duration::parse_length(text)?) }, calendar)
            }
        };
        let calendar = match calendar {
            Some((_, count)) if count <= 0 => return Err(duration::no_length(text)),
            Some((unit, count)) => Some((unit, u32::try_from(count).map_err(|_| duration::too_long(text))?)),
            None => None,
        };
        Ok(Size { text: text.into(), length, calendar })
    }
}

/// The count in `2 quarters`, a unit that durations do not have.
fn quarters(text: &str) -> Option<u32> {
    let (count, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit())?);
    matches!(unit.trim_start().to_ascii_lowercase().as_str(), "quarter" | "quarters")
        .then(|| count.parse().ok())?
}

/// A span of one unit, if the calendar has that unit.
fn calendar(span: &jiff::Span) -> Option<(CalendarUnit, i64)> {
    let units = [
        (CalendarUnit::Hour, i64::from(span.get_hours())),
        (CalendarUnit::Day, i64::from(span.get_days())),
        (CalendarUnit::Week(Weekday::Monday), i64::from(span.get_weeks())),
        (CalendarUnit::Month, i64::from(span.get_months())),
        (CalendarUnit::Year, i64::from(span.get_years())),
    ];
    let shorter = [
        span.get_minutes(),
        span.get_seconds(),
        span.get_milliseconds(),
        span.get_microseconds(),
        span.get_nanoseconds(),
    ];
    let mut said = units.into_iter().filter(|(_, count)| *count != 0);
    let only = said.next()?;
    (said.next().is_none() && shorter == [0; 5]).then_some(only)
}

/// How many rows a window has, and after how many the next one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    size: u64,
    slide: u64,
}

impl Count {
    /// Reads `N` or `N,SLIDE`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rows = |text: &str| text.trim().parse().ok().filter(|rows| *rows > 0);
        let (size, slide) = text.split_once(',').unwrap_or((text, text));
        match (rows(size), rows(slide)) {
            (Some(size), Some(slide)) => Ok(Count { size, slide }),
            _ => Err(format!(
                "{text:?} is not N or N,SLIDE, each a number of rows; write it as in 100 or 100,10"
            )),
        }
    }
}

/// `SIZE,SLIDE`.
fn hop(text: &str) -> Result<(TimeDelta, TimeDelta), String> {
    pair(text).ok_or_else(|| format!("{text:?} is not SIZE,SLIDE; write it as in 5m,1m"))?
}

/// `SIZE,STEP`.
fn cumulate(text: &str) -> Result<(TimeDelta, TimeDelta), String> {
    pair(text).ok_or_else(|| format!("{text:?} is not SIZE,STEP; write it as in 1d,1h"))?
}

/// Two lengths, if there are two.
fn pair(text: &str) -> Option<Result<(TimeDelta, TimeDelta), String>> {
    let (first, second) = text.split_once(',')?;
    let first = duration::parse_length(first);
    Some(first.and_then(|first| Ok((first, duration::parse_length(second)?))))
}

impl ShapeArgs {
    /// The flag that says what windows there are, if there is one.
    pub(crate) fn flag(&self) -> Option<&'static str> {
        match self {
            ShapeArgs { tumble: Some(_), .. } => Some("--tumble"),
            ShapeArgs { hop: Some(_), .. } => Some("--hop"),
            ShapeArgs { cumulate: Some(_), .. } => Some("--cumulate"),
            ShapeArgs { session: Some(_), .. } => Some("--session"),
            ShapeArgs { session_by: Some(_), .. } => Some("--session-by"),
            ShapeArgs { count: Some(_), .. } => Some("--count"),
            ShapeArgs { global: true, .. } => Some("--global"),
            _ => None,
        }
    }

    pub(crate) fn is_session(&self) -> bool {
        self.session.is_some() || self.session_by.is_some()
    }

    pub(crate) fn has_no_late_rows(&self) -> bool {
        self.count.is_some() || self.global
    }

    /// The windows that the flags ask for.
    pub(crate) fn window(&self) -> Outcome<Window> {
        if let Some(zone) = &self.zone {
            return self.calendar(zone);
        }
        let window = match self {
            ShapeArgs { tumble: Some(Size { length: Some(size), .. }), .. } => Window::tumbling(*size),
            ShapeArgs { tumble: Some(Size { text, .. }), .. } => {
                return Err(Failure::usage(format_args!(
                    "--tumble: {text:?} has no fixed length; say on whose calendar by --zone, as in --zone UTC or \
                     --zone Europe/Berlin"
                )));
            }
            ShapeArgs { hop: Some((size, slide)), .. } => Window::sliding(*size, *slide),
            ShapeArgs { cumulate: Some((size, step)), .. } => Window::cumulate(*size, *step),
            ShapeArgs { session: Some(gap), .. } => Window::session(*gap),
            ShapeArgs { session_by: Some(column), .. } => Window::session_by(column),
            ShapeArgs { count: Some(Count { size, slide }), .. } => Window::count_sliding(*size, *slide),
            ShapeArgs { global: true, .. } => Window::global(),
            _ => return Err(Failure::usage("no windows are chosen")),
        };
        match (self.offset, self.flag()) {
            (Some(_), Some(flag)) if self.is_session() || self.has_no_late_rows() => {
                Err(Failure::usage(format_args!(
                    "--offset and {flag} do not go together: these windows begin where rows are, or never"
                )))
            }
            (Some(offset), _) => Ok(window.offset(offset)),
            (None, _) => Ok(window),
        }
    }

    fn calendar(&self, zone: &str) -> Outcome<Window> {
        let flag = self.flag().unwrap_or_default();
        let Some(Size { text, calendar, .. }) = &self.tumble else {
            let why = match self {
                ShapeArgs { hop: None, cumulate: None, .. } => "windows know no zone",
                _ => "takes fixed durations, which know no zone",
            };
            return Err(Failure::usage(format_args!(
                "--zone: {flag} {why}; calendar windows are those of --tumble"
            )));
        };
        let Some((unit, count)) = *calendar else {
            return Err(Failure::usage(format_args!(
                "--zone: {flag} {text:?} is a fixed duration, which knows no zone; allowed is a whole number of one unit: \
                 {UNITS}"
            )));
        };
        if self.offset.is_some() {
            return Err(Failure::usage(
                "--offset: calendar windows begin where the calendar says; leave out --offset or --zone",
            ));
        }
        let unit = match (unit, self.week_start) {
            (CalendarUnit::Week(_), Some(day)) => CalendarUnit::Week(day.into()),
            (_, Some(_)) => {
                return Err(Failure::usage(format_args!(
                    "--week-start: {flag} {text:?} does not count weeks"
                )));
            }
            (unit, None) => unit,
        };
        Ok(Window::calendar(unit, count, zone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> (Option<TimeDelta>, Option<(CalendarUnit, u32)>) {
        let Size { length, calendar, .. } = Size::parse(text).unwrap();
        (length, calendar)
    }

    #[test]
    fn sizes_are_lengths_or_calendar_units_or_both() {
        let hours = |hours: i64| Some(TimeDelta::from_hours(hours));
        let monday = CalendarUnit::Week(Weekday::Monday);
        for text in ["1 day", "1d", "P1D", " 1 day "] {
            assert_eq!(size(text), (hours(24), Some((CalendarUnit::Day, 1))), "{text}");
        }
        assert_eq!(size("24h"), (hours(24), Some((CalendarUnit::Hour, 24))));
        assert_eq!(size("2 weeks"), (hours(2 * 7 * 24), Some((monday, 2))));
        for text in ["3 months", "3mo", "P3M"] {
            assert_eq!(size(text), (None, Some((CalendarUnit::Month, 3))), "{text}");
        }
        for text in ["2 quarters", "2 Quarter", "2quarters"] {
            assert_eq!(size(text), (None, Some((CalendarUnit::Quarter, 2))), "{text}");
        }
        assert_eq!(size("1 year"), (None, Some((CalendarUnit::Year, 1))));
        for (text, minutes) in [("90m", 90), ("60m", 60), ("1h30m", 90), ("1.5h", 90), ("1d12h", 36 * 60)] {
            assert_eq!(size(text), (Some(TimeDelta::from_mins(minutes)), None), "{text}");
        }
    }

    #[test]
    fn sizes_are_refused_with_the_reason() {
        let mixed = "allowed is a whole number of one unit: hours, days, weeks, months, quarters or years";
        for (text, error) in [
            ("1 month 2 days", format!("\"1 month 2 days\" mixes months or years with other units; {mixed}")),
            ("P1Y6M", format!("\"P1Y6M\" mixes months or years with other units; {mixed}")),
            ("-1 month", "\"-1 month\" is no length; allowed is more than zero".into()),
            ("0 quarters", "\"0 quarters\" is no length; allowed is more than zero".into()),
            ("0 days", "\"0 days\" is no length; allowed is more than zero".into()),
            ("3", "\"3\" has no unit; write 3s, 3ms or 3m".into()),
            ("a quarter", "\"a quarter\" is not a duration such as 20s, 1m30s, 250ms, 7d or PT1M".into()),
        ] {
            assert_eq!(Size::parse(text), Err(error), "{text}");
        }
    }
}
