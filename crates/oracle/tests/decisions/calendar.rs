//! Rule 4b: windows of the local calendar. Every zone here does something odd on the day chosen.

use highwater_oracle::{CalendarUnit, Op, Row, Spec, Strategy, Weekday, Windows, windows};
use jiff::Timestamp;

use crate::{Checked, on_time};
use CalendarUnit::{Day, Hour, Month, Quarter, Week, Year};

fn spec(unit: CalendarUnit, multiple: i64, zone: &str) -> Spec {
    let zone = zone.to_owned();
    Spec::over(Windows::Calendar { unit, multiple, zone, nanos_per_tick: 1_000_000_000 })
}

/// Seconds.
fn instant(text: &str) -> i64 {
    let full = if text.len() == 10 { format!("{text}T00:00:00Z") } else { format!("{text}:00Z") };
    full.parse::<Timestamp>().expect("an instant").as_second()
}

/// Asserts that the window of each time is `[start, end)`, all in UTC.
fn assert_window(spec: &Spec, times: &[&str], start: &str, end: &str) {
    for time in times {
        let (from, to) = (instant(start), instant(end));
        assert_eq!(windows(spec, instant(time)), [(from, to)], "{time}: not from {start} to {end}");
    }
    assert_eq!(windows(spec, instant(start)), [(instant(start), instant(end))], "the first second");
    assert_eq!(windows(spec, instant(end) - 1), [(instant(start), instant(end))], "the last second");
}

#[test]
fn days_have_23_to_25_hours() {
    // Berlin, 31 March 2024: from 02:00 CET to 03:00 CEST; 27 October: from 03:00 CEST to 02:00 CET.
    let berlin = spec(Day, 1, "Europe/Berlin");
    assert_window(&berlin, &["2024-03-31T00:59", "2024-03-31T01:00"], "2024-03-30T23:00", "2024-03-31T22:00");
    assert_window(&berlin, &["2024-10-27T00:30", "2024-10-27T01:30"], "2024-10-26T22:00", "2024-10-27T23:00");
    assert_window(&berlin, &["2024-07-01T12:00"], "2024-06-30T22:00", "2024-07-01T22:00");
}

#[test]
fn an_hour_that_comes_twice_is_two_windows_and_one_left_out_is_none() {
    let berlin = spec(Hour, 1, "Europe/Berlin");
    assert_window(&berlin, &["2024-10-27T00:30"], "2024-10-27T00:00", "2024-10-27T01:00");
    assert_window(&berlin, &["2024-10-27T01:30"], "2024-10-27T01:00", "2024-10-27T02:00");
    assert_window(&berlin, &["2024-03-31T00:30"], "2024-03-31T00:00", "2024-03-31T01:00");
    assert_window(&berlin, &["2024-03-31T01:30"], "2024-03-31T01:00", "2024-03-31T02:00");
}

#[test]
fn hours_count_from_local_midnight() {
    // 2 o'clock is jumped over, so the window that starts with it starts with the jump, and 4 o'clock is an hour later.
    let two = spec(Hour, 2, "Europe/Berlin");
    assert_window(&two, &["2024-03-31T00:30"], "2024-03-30T23:00", "2024-03-31T01:00");
    assert_window(&two, &["2024-03-31T01:30"], "2024-03-31T01:00", "2024-03-31T02:00");
    // 24 hours are no multiple of 9: 00, 09, 18, and 00 again.
    let nine = spec(Hour, 9, "UTC");
    assert_window(&nine, &["2024-01-01T17:30"], "2024-01-01T09:00", "2024-01-01T18:00");
    assert_window(&nine, &["2024-01-01T18:30"], "2024-01-01T18:00", "2024-01-02");
}

#[test]
fn a_jump_of_half_an_hour() {
    // Lord Howe, 7 April 2024, 02:00 +11:00: back to 01:30 +10:30, so 02:00 comes 90 minutes after 01:00.
    let hour = spec(Hour, 1, "Australia/Lord_Howe");
    assert_window(&hour, &["2024-04-06T15:10"], "2024-04-06T14:00", "2024-04-06T15:30");
    // 6 October, 02:00 +10:30: on to 02:30 +11:00, so 03:00 comes 30 minutes after the jump over 02:00.
    assert_window(&hour, &["2024-10-05T15:40"], "2024-10-05T15:30", "2024-10-05T16:00");
}

#[test]
fn a_day_without_midnight_starts_with_the_jump() {
    // São Paulo, 4 November 2018: 00:00 -03:00 is 01:00 -02:00.
    let sao_paulo = spec(Day, 1, "America/Sao_Paulo");
    assert_window(&sao_paulo, &["2018-11-04T12:00"], "2018-11-04T03:00", "2018-11-05T02:00");
    // Toronto, 30 March 1919: from 23:30 EST to 00:30 EDT of the 31st.
    let toronto = spec(Day, 1, "America/Toronto");
    assert_window(&toronto, &["1919-03-31T12:00"], "1919-03-31T04:30", "1919-04-01T04:00");
}

#[test]
fn a_date_that_comes_back_starts_no_second_day() {
    // Havana, 5 November 2023: 01:00 -04:00 is 00:00 -05:00. Midnight comes twice, the day once; its first hour is two.
    assert_window(
        &spec(Day, 1, "America/Havana"),
        &["2023-11-05T05:30"],
        "2023-11-05T04:00",
        "2023-11-06T05:00",
    );
    assert_window(
        &spec(Hour, 1, "America/Havana"),
        &["2023-11-05T05:30"],
        "2023-11-05T05:00",
        "2023-11-05T06:00",
    );
    // Goose Bay, 7 November 2010: one minute after midnight -03:00 back to 23:01 -04:00 of the 6th.
    let goose_bay = spec(Day, 1, "America/Goose_Bay");
    assert_window(&goose_bay, &["2010-11-07T03:30"], "2010-11-07T03:00", "2010-11-08T04:00");
    assert_window(&goose_bay, &["2010-11-07T02:30"], "2010-11-06T03:00", "2010-11-07T03:00");
    // The hour is another one with the jump, and with the second midnight.
    let hourly = spec(Hour, 1, "America/Goose_Bay");
    assert_window(&hourly, &["2010-11-07T02:30"], "2010-11-07T02:00", "2010-11-07T03:00");
    assert_window(&hourly, &["2010-11-07T03:00"], "2010-11-07T03:00", "2010-11-07T03:01");
    assert_window(&hourly, &["2010-11-07T03:30"], "2010-11-07T03:01", "2010-11-07T04:00");
}

#[test]
fn a_date_that_is_left_out_is_no_window() {
    // Apia went from 29 December 2011 -10:00 straight to the 31st +14:00.
    let apia = spec(Day, 1, "Pacific/Apia");
    assert_window(&apia, &["2011-12-30T09:00"], "2011-12-29T10:00", "2011-12-30T10:00");
    assert_window(&apia, &["2011-12-30T11:00"], "2011-12-30T10:00", "2011-12-31T10:00");
}

#[test]
fn weeks_start_on_the_day_chosen() {
    // 31 March 2024 is a Sunday.
    let week = |day, multiple| spec(Week(day), multiple, "Europe/Berlin");
    assert_window(&week(Weekday::Monday, 1), &["2024-03-31T12:00"], "2024-03-24T23:00", "2024-03-31T22:00");
    assert_window(&week(Weekday::Sunday, 1), &["2024-03-31T12:00"], "2024-03-30T23:00", "2024-04-06T22:00");
    // 1970-01-01, a Thursday, lies in week 0, which starts on Monday 29 December 1969.
    let two = spec(Week(Weekday::Monday), 2, "UTC");
    assert_window(&two, &["1970-01-01"], "1969-12-29", "1970-01-12");
    assert_window(&spec(Week(Weekday::Thursday), 1, "UTC"), &["1970-01-01"], "1970-01-01", "1970-01-08");
    assert_window(&spec(Week(Weekday::Friday), 1, "UTC"), &["1970-01-01"], "1969-12-26", "1970-01-02");
}

#[test]
fn months_quarters_and_years() {
    assert_window(&spec(Month, 1, "UTC"), &["2024-02-29"], "2024-02-01", "2024-03-01");
    assert_window(&spec(Month, 1, "UTC"), &["1900-02-28T23:59"], "1900-02-01", "1900-03-01");
    // Month 645 from January 1970 is October 2023, the last multiple of 5 before January 2024 (648).
    assert_window(&spec(Month, 5, "UTC"), &["2024-01-15"], "2023-10-01", "2024-03-01");
    assert_window(
        &spec(Quarter, 1, "Europe/Berlin"),
        &["2024-05-01"],
        "2024-03-31T22:00",
        "2024-06-30T22:00",
    );
    assert_window(&spec(Quarter, 2, "UTC"), &["2024-05-01"], "2024-01-01", "2024-07-01");
    assert_window(
        &spec(Year, 1, "Asia/Tokyo"),
        &["2023-12-31T16:00"],
        "2023-12-31T15:00",
        "2024-12-31T15:00",
    );
    assert_window(&spec(Year, 4, "UTC"), &["1969-12-31"], "1966-01-01", "1970-01-01");
}

#[test]
fn several_days_count_from_1970() {
    // 19723 days from 1970-01-01 to 2024-01-01; the last multiple of 10 is 19720, 29 December 2023.
    assert_window(&spec(Day, 10, "UTC"), &["2024-01-01"], "2023-12-29", "2024-01-08");
    assert_window(&spec(Day, 10, "UTC"), &["1969-12-31"], "1969-12-22", "1970-01-01");
}

#[test]
fn any_unit_of_ticks() {
    let windows_of = |nanos_per_tick, ts| {
        let zone = "Europe/Berlin".to_owned();
        windows(&Spec::over(Windows::Calendar { unit: Month, multiple: 1, zone, nanos_per_tick }), ts)
    };
    let (start, end) = (instant("2024-02-29T23:00"), instant("2024-03-31T22:00"));
    assert_eq!(windows_of(1_000_000, end * 1000 - 1), [(start * 1000, end * 1000)]);
}

#[test]
fn ticks_of_days() {
    let months = |ts| {
        let zone = "UTC".to_owned();
        let nanos_per_tick = 86_400 * 1_000_000_000;
        windows(&Spec::over(Windows::Calendar { unit: Month, multiple: 1, zone, nanos_per_tick }), ts)
    };
    assert_eq!((19_783 * 86_400, 19_814 * 86_400), (instant("2024-03-01"), instant("2024-04-01")));
    assert_eq!(months(19_800), [(19_783, 19_814)]);
    assert_eq!(months(19_814), [(19_814, 19_844)]);
}

#[test]
fn the_calendar_ends_with_its_years() {
    // 1 January -9999 and 31 December 9999. The parser takes no instant that close to the ends.
    let (first, last) = (instant("-009999-01-03T00:00") - 2 * 86_400, instant("9999-12-30") + 86_400);
    let daily = spec(Day, 1, "UTC");
    assert_eq!(windows(&daily, first), [(first, first + 86_400)]);
    for before in [i64::MIN, -1_000_000_000_000, first - 1] {
        assert_eq!(windows(&daily, before), [(i64::MIN, first)], "{before}");
    }
    assert_eq!(windows(&daily, last - 1), [(last - 86_400, last)]);
    for after in [last, last + 86_400, 1_000_000_000_000, i64::MAX] {
        assert_eq!(windows(&daily, after), [(last, i64::MAX)], "{after}");
    }
    // The last hour that is a multiple of 7 is 21 o'clock; the last multiple of 3 years from 1970 is 1970 + 8028.
    let hourly = spec(Hour, 7, "UTC");
    assert_eq!(windows(&hourly, i64::MAX), [(last + 21 * 3_600, i64::MAX)]);
    assert_eq!(windows(&hourly, i64::MIN), [(i64::MIN, first)]);
    assert_eq!(windows(&spec(Year, 3, "UTC"), i64::MAX), [(instant("9998-01-01"), i64::MAX)]);
}

#[test]
fn calendar_windows_fire_like_any_other() {
    let spec = Spec { strategy: Strategy::Explicit, ..spec(Day, 1, "Europe/Berlin") };
    let mut oracle = Checked::new(spec);
    let rows =
        ["2024-03-31T21:59", "2024-03-31T22:00"].map(|t| Row { time: Some(instant(t)), ..Row::default() });
    oracle.apply(Op::Push(0, rows.to_vec()));
    let last = instant("2024-03-31T22:00") - 1;
    assert_eq!(on_time(&oracle.apply(Op::Watermark(0, last - 1))), []);
    assert_eq!(on_time(&oracle.apply(Op::Watermark(0, last))), [(instant("2024-03-30T23:00"), last + 1, 1)]);
}

#[test]
#[should_panic(expected = "there is no zone Europe/Atlantis")]
fn a_zone_must_exist() {
    Checked::new(spec(Day, 1, "Europe/Atlantis"));
}
