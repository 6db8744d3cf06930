//! Calendar windows against the definition, read off the clock second by second.

use jiff::civil::{Date, DateTime};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan};

use super::*;

const DAY: i64 = 86_400;

/// In seconds since the epoch.
fn at(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_second()
}

fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

fn calendar(unit: CalendarUnit, count: u32, zone: &str, tick: TickUnit) -> Grid {
    Grid::new(&Window::calendar(unit, count, zone), 0, &ticks(tick)).unwrap()
}

fn window(g: &Grid, time: i64) -> (i64, i64) {
    let slice = g.slice_of(time).unwrap();
    let bounds = g.bounds(slice.id);
    assert_eq!(slice.first, bounds.0);
    assert!(slice.last == bounds.1 - 1 || g.due_at(slice.id) == END, "{slice:?} {bounds:?}");
    bounds
}

/// The number of the multiple that a local time is in, within its day for hours.
fn multiple_of(unit: CalendarUnit, count: i64, local: DateTime) -> i64 {
    let date = local.date();
    let days = |from: Date| i64::from((date - from).get_days());
    let months = (i64::from(date.year()) - 1970) * 12 + i64::from(date.month()) - 1;
    match unit {
        CalendarUnit::Hour => i64::from(local.hour()) / count,
        CalendarUnit::Day => days(Date::constant(1970, 1, 1)).div_euclid(count),
        CalendarUnit::Week(first) => {
            // the week of 1970-01-01, a Thursday, began on one of these days
            let start = match first {
                Weekday::Thursday => Date::constant(1970, 1, 1),
                Weekday::Wednesday => Date::constant(1969, 12, 31),
                Weekday::Tuesday => Date::constant(1969, 12, 30),
                Weekday::Monday => Date::constant(1969, 12, 29),
                Weekday::Sunday => Date::constant(1969, 12, 28),
                Weekday::Saturday => Date::constant(1969, 12, 27),
                Weekday::Friday => Date::constant(1969, 12, 26),
            };
            days(start).div_euclid(7 * count)
        }
        CalendarUnit::Month => months.div_euclid(count),
        CalendarUnit::Quarter => months.div_euclid(3 * count),
        CalendarUnit::Year => (i64::from(date.year()) - 1970).div_euclid(count),
    }
}

/// What the clock shows in a range of seconds: at full minutes, and wherever it does not just go on by a second.
fn shown(tz: &TimeZone, seconds: std::ops::Range<i64>) -> Vec<(i64, DateTime)> {
    let mut shown: Vec<(i64, DateTime)> = vec![];
    let mut expected = None;
    for second in seconds {
        let local = tz.to_datetime(Timestamp::from_second(second).unwrap());
        if local.second() == 0 || expected != Some(local) {
            shown.push((second, local));
        }
        expected = Some(local + 1.second());
    }
    shown
}

/// All boundaries in a range of seconds, by the rule: where the clock shows a multiple or jumps over one. For days and
/// longer units a time counts only when it is shown for the first time.
fn boundaries(unit: CalendarUnit, count: i64, shown: &[(i64, DateTime)]) -> Vec<i64> {
    let mut highest = shown[0].1;
    let mut found = vec![];
    for pair in shown.windows(2) {
        let ((_, before), (second, now)) = (pair[0], pair[1]);
        let boundary = if unit == CalendarUnit::Hour {
            let of = |local: DateTime| (local.date(), multiple_of(unit, count, local));
            let sharp = now.minute() == 0 && now.second() == 0;
            of(before) != of(now) || sharp && i64::from(now.hour()) % count == 0
        } else {
            let last = multiple_of(unit, count, highest);
            highest = highest.max(now);
            multiple_of(unit, count, highest) != last
        };
        if boundary {
            found.push(second);
        }
    }
    found
}

/// Clocks that do something odd, and about when (UTC).
const ODD: [(&str, &str); 18] = [
    ("UTC", "1969-12-31T00:00:00Z"),
    ("Europe/Berlin", "2024-03-31T01:00:00Z"),
    ("Europe/Berlin", "2024-10-27T01:00:00Z"),
    // midnight does not exist
    ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),
    ("America/Sao_Paulo", "2018-02-18T02:00:00Z"),
    // midnight comes twice
    ("America/Havana", "2024-11-03T05:00:00Z"),
    // at one minute past midnight back to yesterday
    ("America/St_Johns", "2006-10-29T02:31:00Z"),
    ("America/St_Johns", "2006-04-02T03:31:00Z"),
    // dates that are skipped
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    ("Pacific/Kwajalein", "1993-08-21T12:00:00Z"),
    ("Asia/Manila", "1844-12-31T15:56:00Z"),
    // a date that comes twice
    ("America/Juneau", "1867-10-19T00:31:13Z"),
    // half an hour
    ("Australia/Lord_Howe", "2024-04-06T15:00:00Z"),
    ("Australia/Lord_Howe", "2024-10-05T15:30:00Z"),
    // two hours; odd seconds; three changes in two months
    ("Antarctica/Troll", "2024-10-27T01:00:00Z"),
    ("Africa/Monrovia", "1972-01-07T00:44:30Z"),
    ("Africa/Cairo", "2014-07-31T22:00:00Z"),
    ("Asia/Tehran", "2022-03-21T20:30:00Z"),
];

const UNITS: [(CalendarUnit, u32); 14] = [
    (CalendarUnit::Hour, 1),
    (CalendarUnit::Hour, 2),
    (CalendarUnit::Hour, 3),
    (CalendarUnit::Hour, 5),
    (CalendarUnit::Hour, 24),
    (CalendarUnit::Day, 1),
    (CalendarUnit::Day, 2),
    (CalendarUnit::Day, 3),
    (CalendarUnit::Week(Weekday::Monday), 1),
    (CalendarUnit::Week(Weekday::Sunday), 1),
    (CalendarUnit::Week(Weekday::Saturday), 1),
    (CalendarUnit::Month, 1),
    (CalendarUnit::Quarter, 1),
    (CalendarUnit::Year, 2),
];

#[test]
fn windows_are_those_of_the_definition_where_clocks_are_odd() {
    for (name, change) in ODD {
        let (tz, change) = (zone(name), at(change));
        let shown = shown(&tz, change - 5 * DAY..change + 2 * DAY);
        // the first three days are there for what has been shown before
        for (unit, count) in UNITS {
            let bounds = boundaries(unit, i64::from(count), &shown);
            let g = calendar(unit, count, name, TickUnit::Second);
            let near = bounds.iter().flat_map(|&bound| [bound - 1, bound, bound + 1]);
            for second in near.chain((change - 2 * DAY..change + 2 * DAY).step_by(997)) {
                let next = bounds.partition_point(|&bound| bound <= second);
                let (start, end) = window(&g, second);
                let at = format!("{unit:?} x {count} in {name} at {second}: [{start}, {end})");
                match next.checked_sub(1).map(|last| bounds[last]) {
                    Some(expected) => assert_eq!(start, expected, "{at}"),
                    None => assert!(start <= shown[0].0, "{at}"),
                }
                match bounds.get(next) {
                    Some(&expected) => assert_eq!(end, expected, "{at}"),
                    None => assert!(end > second && end >= change + 2 * DAY, "{at}"),
                }
            }
        }
    }
}

#[test]
fn every_day_and_month_begins_with_its_first_instant() {
    for name in
        ["Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Casablanca"]
    {
        let tz = zone(name);
        let (days, months) = (CalendarUnit::Day, CalendarUnit::Month);
        let grids = [days, months].map(|unit| calendar(unit, 1, name, TickUnit::Millisecond));
        let mut date = Date::constant(1930, 1, 1);
        while date.year() < 2070 {
            let starts =
                |date: Date| date.to_zoned_datetime(tz.clone()).unwrap().timestamp().as_millisecond();
            let noon =
                date.at(12, 0, 0, 0).to_zoned_datetime(tz.clone()).unwrap().timestamp().as_millisecond();
            assert_eq!(window(&grids[0], noon), (starts(date), starts(date + 1.day())), "{name} {date}");
            let first = date.first_of_month();
            assert_eq!(window(&grids[1], noon), (starts(first), starts(first + 1.month())), "{name} {date}");
            date += 3.days();
        }
    }
}

#[test]
fn in_utc_fixed_lengths_are_tumbling_windows() {
    let hours = TimeDelta::from_hours;
    // 1970-01-01 was a Thursday: weeks from Monday began three days before
    for (unit, count, size, offset) in [
        (CalendarUnit::Hour, 1, hours(1), hours(0)),
        (CalendarUnit::Hour, 6, hours(6), hours(0)),
        (CalendarUnit::Day, 1, hours(24), hours(0)),
        (CalendarUnit::Day, 10, hours(240), hours(0)),
        (CalendarUnit::Week(Weekday::Monday), 1, hours(168), hours(-72)),
        (CalendarUnit::Week(Weekday::Friday), 2, hours(336), hours(-144)),
    ] {
        for tick in [TickUnit::Second, TickUnit::Millisecond, TickUnit::Microsecond, TickUnit::Nanosecond] {
            let g = calendar(unit, count, "UTC", tick);
            let tumbling = Grid::new(&Window::tumbling(size).offset(offset), 0, &ticks(tick)).unwrap();
            let second = (1_000_000_000 / tick.nanos()) as i64;
            for time in
                (-40..40).flat_map(|i: i64| [i * 40_000 * second, i * DAY * second - 1, i * i * i * i])
            {
                assert_eq!(window(&g, time), window(&tumbling, time), "{unit:?} x {count} at {time} {tick}");
            }
        }
    }
    let days = calendar(CalendarUnit::Week(Weekday::Sunday), 1, "UTC", TickUnit::Day);
    // 1969-12-28, day -4, was a Sunday
    assert_eq!(window(&days, 0), (-4, 3));
    assert_eq!(window(&days, -5), (-11, -4));
    let months = calendar(CalendarUnit::Month, 1, "Etc/UTC", TickUnit::Day);
    // February 1972 has 29 days and begins on day 2 * 365 + 31 = 761
    assert_eq!(window(&months, 789), (761, 790));
}

#[test]
fn multiples_count_from_1970_backwards_too() {
    let g = calendar(CalendarUnit::Month, 2, "UTC", TickUnit::Second);
    // November and December 1969; not December and January
    assert_eq!(window(&g, -1), (at("1969-11-01T00:00:00Z"), 0));
    assert_eq!(
        window(&g, at("1968-02-29T12:00:00Z")),
        (at("1968-01-01T00:00:00Z"), at("1968-03-01T00:00:00Z"))
    );
    let g = calendar(CalendarUnit::Quarter, 1, "UTC", TickUnit::Second);
    assert_eq!(
        window(&g, at("2024-05-17T00:00:00Z")),
        (at("2024-04-01T00:00:00Z"), at("2024-07-01T00:00:00Z"))
    );
    let g = calendar(CalendarUnit::Year, 10, "UTC", TickUnit::Second);
    assert_eq!(window(&g, -1), (at("1960-01-01T00:00:00Z"), 0));
    assert_eq!(
        window(&g, at("2024-05-17T00:00:00Z")),
        (at("2020-01-01T00:00:00Z"), at("2030-01-01T00:00:00Z"))
    );
}

#[test]
fn beyond_the_calendar_there_is_one_window_on_either_side() {
    // midnights of -9999-01-01 and 9999-12-31 in UTC
    let (first, last) = (-377_705_116_800, 253_402_214_400);
    let ends = |unit, count, zone| {
        let g = calendar(unit, count, zone, TickUnit::Second);
        let (below, above) = (window(&g, i64::MIN), window(&g, i64::MAX));
        assert_eq!((below.0, above.1), (i64::MIN, i64::MAX));
        assert_eq!((window(&g, below.1 - 1), window(&g, above.0)), (below, above));
        assert!(window(&g, below.1).0 == below.1 && window(&g, above.0 - 1).1 == above.0);
        let top = g.slice_of(i64::MAX).unwrap().id;
        assert_eq!((g.due_at(top), g.expires_at(top)), (END, END));
        (below.1, above.0)
    };
    assert_eq!(ends(CalendarUnit::Day, 1, "UTC"), (first, last));
    // an hour less than 253402300800, the midnight that the calendar does not have
    assert_eq!(ends(CalendarUnit::Hour, 1, "UTC"), (first, last + 23 * 3_600));
    // local mean time of Berlin is 53 min 28 s ahead, its winter time 1 h
    assert_eq!(ends(CalendarUnit::Day, 1, "Europe/Berlin"), (first - 3_208, last - 3_600));
    assert_eq!(ends(CalendarUnit::Hour, 5, "Europe/Berlin"), (first - 3_208, last + 19 * 3_600));
    assert_eq!(ends(CalendarUnit::Year, 1, "UTC"), (first, last - 364 * DAY));
    // 1970 - 1710 * 7 is the year -10000, so the first is -9993, after the leap year -9996; 1970 + 1147 * 7 = 9999
    let seven = (first + (6 * 365 + 1) * DAY, last - 364 * DAY);
    assert_eq!(ends(CalendarUnit::Year, 7, "UTC"), seven);
    // longer than all of it: from 1970 on, and before
    assert_eq!(ends(CalendarUnit::Year, u32::MAX, "UTC"), (0, 0));
    assert_eq!(ends(CalendarUnit::Day, u32::MAX, "UTC"), (0, 0));
}

#[test]
fn nanoseconds_end_before_the_calendar_does() {
    let g = calendar(CalendarUnit::Day, 1, "UTC", TickUnit::Nanosecond);
    // i64::MAX ns is 9223372036.85 s, which is 106751 days and 85636.85 s
    let top = g.slice_of(i64::MAX).unwrap().id;
    assert_eq!((g.bounds(top), g.due_at(top)), ((106_751 * DAY * 1_000_000_000, i64::MAX), END));
    assert_eq!(window(&g, i64::MIN), (i64::MIN, -106_751 * DAY * 1_000_000_000));
}

#[test]
fn what_makes_no_calendar_is_refused() {
    let refused = |window: Window, tick| Grid::new(&window, 0, &ticks(tick)).unwrap_err().to_string();
    let of = |unit, count, zone: &str| Window::calendar(unit, count, zone);
    let (day, second) = (TickUnit::Day, TickUnit::Second);
    for (window, tick, words) in [
        (of(CalendarUnit::Day, 0, "UTC"), second, ["0 days", "one day or more"]),
        (of(CalendarUnit::Hour, 25, "UTC"), second, ["25 hours", "at most 24 hours"]),
        (of(CalendarUnit::Hour, 1, "UTC"), day, ["1 hour", "event time column \"ts\" counts days"]),
        (of(CalendarUnit::Day, 1, "Europe/Berlin"), day, ["Europe/Berlin", "UTC"]),
        (of(CalendarUnit::Day, 1, "Europe/Bärlin"), second, ["Europe/Bärlin", "did you mean Europe/Berlin?"]),
        (of(CalendarUnit::Day, 1, "Etc/Unknown"), second, ["Etc/Unknown", "IANA time zone"]),
        (of(CalendarUnit::Day, 1, "UTC").offset(MS(5)), second, ["window offset: 5ms", "none"]),
    ] {
        let text = refused(window, tick);
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}
