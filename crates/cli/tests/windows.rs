//! Which windows there are, and what is said of those that cannot be. Berlin is an hour ahead of UTC in winter and two in
//! summer; in 2024 summer began on 31 March and ended on 27 October, both at 01:00 UTC.

mod common;

use common::Place;

/// The results over rows `ts,usd` as lines of `start end sum`.
fn results(rows: &str, flags: &str) -> Vec<String> {
    common::results(&format!("ts,usd\n{rows}"), &format!("--ascending --agg sum(usd) {flags}"))
}

/// The window of 12:00 in Berlin on Wednesday, 1 May 2024.
fn window_of_may_day(flags: &str) -> String {
    let found = results("2024-05-01T10:00:00Z,1\n", flags);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].trim_end_matches(" 1").into()
}

#[test]
fn cumulating_windows_say_what_there_is_so_far() {
    let rows = "2024-05-01T00:30:00Z,1\n2024-05-01T02:10:00Z,2\n2024-05-01T04:00:00Z,4\n";
    // nothing comes in the second hour, and the results go on
    assert_eq!(
        results(rows, "--cumulate 4h,1h"),
        [
            "05-01T00:00Z 05-01T01:00Z 1",
            "05-01T00:00Z 05-01T02:00Z 1",
            "05-01T00:00Z 05-01T03:00Z 3",
            "05-01T00:00Z 05-01T04:00Z 3",
            "05-01T04:00Z 05-01T05:00Z 4",
            "05-01T04:00Z 05-01T06:00Z 4",
            "05-01T04:00Z 05-01T07:00Z 4",
            "05-01T04:00Z 05-01T08:00Z 4",
        ]
    );
    // 4 h are two steps of 90 min and one of 60 min, from 23:00 on
    assert_eq!(
        results(rows, "--cumulate 4h,90m --offset -1h"),
        [
            "04-30T23:00Z 05-01T02:00Z 1",
            "04-30T23:00Z 05-01T03:00Z 3",
            "05-01T03:00Z 05-01T04:30Z 4",
            "05-01T03:00Z 05-01T06:00Z 4",
            "05-01T03:00Z 05-01T07:00Z 4",
        ]
    );
}

#[test]
fn days_of_a_zone_follow_its_clocks() {
    let rows =
        "2024-03-30T22:59:59Z,1\n2024-03-30T23:00:00Z,2\n2024-03-31T21:59:59Z,4\n2024-03-31T22:00:00Z,8\n";
    assert_eq!(
        results(rows, "--tumble 1~day --zone Europe/Berlin"),
        [
            "03-29T23:00Z 03-30T23:00Z 1",
            "03-30T23:00Z 03-31T22:00Z 6", // of 23 hours
            "03-31T22:00Z 04-01T22:00Z 8",
        ]
    );
    assert_eq!(
        results(rows, "--tumble 1~day"),
        ["03-30T00:00Z 03-31T00:00Z 3", "03-31T00:00Z 04-01T00:00Z 12"]
    );
    // 02:30 in Berlin comes twice
    let rows = "2024-10-27T00:30:00Z,1\n2024-10-27T01:30:00Z,2\n";
    assert_eq!(
        results(rows, "--tumble 1h --zone europe/berlin"),
        ["10-27T00:00Z 10-27T01:00Z 1", "10-27T01:00Z 10-27T02:00Z 2"]
    );
}

#[test]
fn calendar_units() {
    for (size, window) in [
        ("6~hours", "05-01T10:00Z 05-01T16:00Z"), // from 12 to 18
        ("5h", "05-01T08:00Z 05-01T13:00Z"),      // from 10 to 15
        ("1d", "04-30T22:00Z 05-01T22:00Z"),
        ("1~month", "04-30T22:00Z 05-31T22:00Z"),
        ("P1M", "04-30T22:00Z 05-31T22:00Z"),
        ("1~quarter", "03-31T22:00Z 06-30T22:00Z"), // from 1 April to 1 July
        ("1~year", "2023-12-31T23:00Z 12-31T23:00Z"),
    ] {
        assert_eq!(window_of_may_day(&format!("--tumble {size} --zone Europe/Berlin")), window, "{size}");
    }
}

#[test]
fn weeks_begin_where_they_are_told_to() {
    for (flags, window) in [
        ("--zone Europe/Berlin", "04-28T22:00Z 05-05T22:00Z"), // Monday is 29 April
        ("--zone Europe/Berlin --week-start monday", "04-28T22:00Z 05-05T22:00Z"),
        ("--zone Europe/Berlin --week-start sunday", "04-27T22:00Z 05-04T22:00Z"),
        ("--zone UTC --week-start saturday", "04-27T00:00Z 05-04T00:00Z"),
        ("", "04-25T00:00Z 05-02T00:00Z"), // 7 times 24 h since 1970-01-01, a Thursday
    ] {
        assert_eq!(window_of_may_day(&format!("--tumble 1~week {flags}")), window, "{flags}");
    }
    // Monday, 29 April is day 19,842, and the first week began on day -3: 2,835 weeks, of which the last is a first half
    assert_eq!(window_of_may_day("--tumble 2~weeks --zone UTC"), "04-22T00:00Z 05-06T00:00Z");
}

#[test]
fn windows_that_cannot_be() {
    let units = "allowed is a whole number of one unit: hours, days, weeks, months, quarters or years";
    for (flags, text) in [
        (
            "--tumble 1~day --zone Europe/Berlim",
            "--zone: Europe/Berlim is not allowed: the name of an IANA time zone; did you mean Europe/Berlin?",
        ),
        (
            "--tumble 90m --zone UTC",
            &format!("--zone: --tumble \"90m\" is a fixed duration, which knows no zone; {units}"),
        ),
        (
            "--tumble 1~month",
            "--tumble: \"1 month\" has no fixed length; say on whose calendar by --zone, as in --zone UTC or --zone Europe/Berlin",
        ),
        (
            "--tumble 1~month~2~days --zone UTC",
            &format!(
                "invalid value '1 month 2 days' for '--tumble <SIZE>': \"1 month 2 days\" mixes months or years with other \
                 units; {units}"
            ),
        ),
        (
            "--tumble 36h --zone UTC",
            "--tumble: 36 hours is not allowed: at most 24 hours, for they count from each midnight",
        ),
        (
            "--hop 2d,1d --zone UTC",
            "--zone: --hop takes fixed durations, which know no zone; calendar windows are those of --tumble",
        ),
        (
            "--cumulate 1d,1h --zone UTC",
            "--zone: --cumulate takes fixed durations, which know no zone; calendar windows are those of --tumble",
        ),
        (
            "--tumble 1d --zone UTC --offset 1h",
            "--offset: calendar windows begin where the calendar says; leave out --offset or --zone",
        ),
        ("--tumble 1d --zone UTC --week-start sunday", "--week-start: --tumble \"1d\" does not count weeks"),
        ("--tumble 1w --week-start sunday", "the following required arguments were not provided:"),
        ("--cumulate 1h,2h", "--cumulate: 2h is not allowed: at most the size, which is 1h"),
        (
            "--cumulate 1h",
            "invalid value '1h' for '--cumulate <SIZE,STEP>': \"1h\" is not SIZE,STEP; write it as in 1d,1h",
        ),
        (
            "--cumulate 3ms,1500us",
            "--cumulate: 1ms500us is not a whole number of ticks of event time column \"ts\", whose unit is millisecond",
        ),
        (
            "--tumble 1h --cumulate 1h,1m",
            "the argument '--tumble <SIZE>' cannot be used with '--cumulate <SIZE,STEP>'",
        ),
    ] {
        let ran = Place::with_rows().run(&format!("window rows.csv --time ts --ascending {flags}"));
        let first = ran.err.lines().next().unwrap_or_default();
        assert_eq!((ran.code, first), (2, format!("error: {text}").as_str()), "{flags}");
    }
}
