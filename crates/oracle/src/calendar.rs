//! Windows of a calendar in a time zone.
//!
//! A boundary is an instant at which the local clock shows the start of a unit, or jumps over one. A zone is taken as what it is: a
//! list of stretches of time with one offset each. In each stretch the local clock runs evenly, so the boundaries in
//! it are found by arithmetic; what is left is the start of the stretch, where the clock jumps.
//!
//! The calendar knows the days of the years -9999 to 9999. There are no boundaries but in these, so one window lies before all of
//! them, and the last one never ends.

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::CalendarUnit;

const DAY: i128 = 86_400;
const HOUR: i128 = 3_600;
const NANOS: i128 = 1_000_000_000;

/// The zone of this name, by the rules that come with the library.
pub(crate) fn zone(name: &str) -> Option<TimeZone> {
    TimeZoneDatabase::bundled().get(name).ok()
}

/// The window that holds tick `ts`, as `(start, end)` in ticks.
pub(crate) fn bounds(
    unit: CalendarUnit,
    multiple: i64,
    name: &str,
    nanos_per_tick: i64,
    ts: i128,
) -> (i128, i128) {
    #[expect(clippy::expect_used, reason = "the spec was checked")]
    let zone = zone(name).expect("a zone that exists");
    let nanos_per_tick = i128::from(nanos_per_tick);
    let known =
        first_instant(&zone, first_day_of_year(-9999))..first_instant(&zone, first_day_of_year(10_000));
    // What lies outside is all alike.
    let second = (ts * nanos_per_tick).div_euclid(NANOS).clamp(known.start - 1, known.end - 1);
    let mut boundaries = match unit {
        CalendarUnit::Hour => hours(&zone, i128::from(multiple), second),
        _ => dates(&zone, unit, i128::from(multiple), second),
    };
    boundaries.retain(|second| known.contains(second));
    let ticks = boundaries.iter().map(|second| (second * NANOS).div_euclid(nanos_per_tick));
    let start = ticks.clone().filter(|&tick| tick <= ts).max().unwrap_or(i128::from(i64::MIN));
    let end = ticks.filter(|&tick| tick > ts).min().unwrap_or(i128::from(i64::MAX) + 1);
    (start, end)
}

/// A time with one offset: from this second on, until the next stretch begins.
struct Stretch {
    from: i128,
    to: i128,
    offset: i128,
}

/// The stretches of a zone between two seconds; the first begins and the last ends there.
fn stretches(zone: &TimeZone, from: i128, to: i128) -> Vec<Stretch> {
    let clamp = |second: i128| {
        let known = Timestamp::MIN.as_second().into()..=Timestamp::MAX.as_second().into();
        let second = second.clamp(*known.start(), *known.end()) as i64;
        Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
    };
    let first = Stretch { from, to, offset: zone.to_offset(clamp(from)).seconds().into() };
    let mut found = vec![first];
    for transition in zone.following(clamp(from)) {
        let at = i128::from(transition.timestamp().as_second());
        if at >= to {
            break;
        }
        if let Some(last) = found.last_mut() {
            last.to = at;
        }
        found.push(Stretch { from: at, to, offset: transition.offset().seconds().into() });
    }
    found
}

/// Where the clock shows an hour that is a multiple of `multiple`, or jumps over one, in the days around `second`.
fn hours(zone: &TimeZone, multiple: i128, second: i128) -> Vec<i128> {
    let shown = |local: i128| local.rem_euclid(HOUR) == 0 && local.rem_euclid(DAY) / HOUR % multiple == 0;
    let mut found = Vec::new();
    let mut before: Option<i128> = None;
    for stretch in stretches(zone, second - 3 * DAY, second + 3 * DAY) {
        // The first full hour of the stretch, then all others.
        let (from, to) = (stretch.from + stretch.offset, stretch.to + stretch.offset);
        let mut local = -(-from).div_euclid(HOUR) * HOUR;
        while local < to {
            if shown(local) {
                found.push(local - stretch.offset);
            }
            local += HOUR;
        }
        // What the clock jumped over, forward (the time before the jump was not shown any more) or back (nor was that).
        let left = before.unwrap_or(from);
        if (left..from).any(shown) || (from + 1..left).any(shown) {
            found.push(stretch.from);
        }
        before = Some(to);
    }
    found
}

/// The first instants of the dates that start a window, around the date at `second`.
fn dates(zone: &TimeZone, unit: CalendarUnit, multiple: i128, second: i128) -> Vec<i128> {
    let Some(here) = stretches(zone, second, second + 1).pop() else { return vec![] };
    let today = (second + here.offset).div_euclid(DAY);
    let window = number_of(unit, today).div_euclid(multiple);
    // A date that has come back, or was left out, is not far away.
    (window - 2..=window + 3).map(|k| first_instant(zone, first_day_of(unit, k * multiple))).collect()
}

/// The first instant at which the local date is at least this day (since 1970-01-01).
fn first_instant(zone: &TimeZone, day: i128) -> i128 {
    let midnight = day * DAY;
    let instants = stretches(zone, midnight - 3 * DAY, midnight + 3 * DAY)
        .into_iter()
        .map(|stretch| (stretch.from.max(midnight - stretch.offset), stretch.to))
        .find(|&(instant, to)| instant < to);
    instants.map_or(midnight, |(instant, _)| instant)
}

/// The number of the unit that holds a day; the one that holds 1970-01-01 has number 0.
fn number_of(unit: CalendarUnit, day: i128) -> i128 {
    let (year, month) = year_and_month(day);
    match unit {
        CalendarUnit::Hour | CalendarUnit::Day => day,
        CalendarUnit::Week(_) => (day - first_day_of(unit, 0)).div_euclid(7),
        CalendarUnit::Month => (year - 1970) * 12 + month,
        CalendarUnit::Quarter => ((year - 1970) * 12 + month).div_euclid(3),
        CalendarUnit::Year => year - 1970,
    }
}

/// The first day of the unit with this number.
fn first_day_of(unit: CalendarUnit, number: i128) -> i128 {
    match unit {
        CalendarUnit::Hour | CalendarUnit::Day => number,
        // 1970-01-01 was a Thursday, day 3 of a week from Monday.
        CalendarUnit::Week(start) => {
            number * 7 - (3 - i128::from(start.to_monday_zero_offset())).rem_euclid(7)
        }
        CalendarUnit::Month => day_of_month(number),
        CalendarUnit::Quarter => day_of_month(number * 3),
        CalendarUnit::Year => first_day_of_year(1970 + number),
    }
}

fn first_day_of_year(year: i128) -> i128 {
    day_of_month((year - 1970) * 12)
}

/// The first day of a month; January 1970 is month 0.
fn day_of_month(month: i128) -> i128 {
    let (year, month) = (1970 + month.div_euclid(12), month.rem_euclid(12) as usize);
    let before = year - 1;
    let leap_days = |year: i128| year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let new_year = 365 * (year - 1970) + leap_days(before) - leap_days(1969);
    let lengths = lengths_of_months(year);
    new_year + lengths[..month].iter().sum::<i128>()
}

/// The year that holds a day, and its month from 0.
fn year_and_month(day: i128) -> (i128, i128) {
    // 400 years have 146,097 days, so this is at most one year off.
    let mut year = 1970 + (day * 400).div_euclid(146_097);
    while first_day_of_year(year) > day {
        year -= 1;
    }
    while first_day_of_year(year + 1) <= day {
        year += 1;
    }
    let months = (0..12).rev().find(|month| day_of_month((year - 1970) * 12 + month) <= day);
    (year, months.unwrap_or(0))
}

fn lengths_of_months(year: i128) -> [i128; 12] {
    let leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}
