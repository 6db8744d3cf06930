//! Windows that begin where rows are: sessions, counted windows, one for all time.

mod common;

use common::{Place, results};

/// The results over rows `time user usd`, the time as in `10:00:30`, as lines of `user start end sum count`.
fn of_users(rows: &str, flags: &str) -> Vec<String> {
    let row = |row: &str| {
        let words: Vec<&str> = row.split_whitespace().collect();
        format!("2024-05-01T{}Z,{},{}\n", words[0], words[1], words[2])
    };
    let rows: String = rows.lines().filter(|line| !line.trim().is_empty()).map(row).collect();
    let lines = results(
        &format!("ts,user,usd\n{rows}"),
        &format!("--key user --agg sum(usd) --agg count --sort {flags}"),
    );
    lines.into_iter().map(|line| line.replace("05-01T", "")).collect()
}

#[test]
fn sessions_end_a_gap_after_their_last_row() {
    let rows = "
        10:00:00 ann 1
        10:00:30 ann 2
        10:00:40 bob 8
        10:01:01 ann 4
        10:05:00 ann 16";
    // 10:00:30 is exactly the gap after 10:00:00, and joins; 10:01:01 is 31 s after 10:00:30, and does not
    assert_eq!(
        of_users(rows, "--session 30s --ascending"),
        [
            "ann 10:00Z 10:01Z 3 2",
            "bob 10:00:40Z 10:01:10Z 8 1",
            "ann 10:01:01Z 10:01:31Z 4 1",
            "ann 10:05Z 10:05:30Z 16 1",
        ]
    );
    // a second more, and it joins too: from 10:00:00 to 10:01:01 + 31 s
    assert_eq!(
        of_users(rows, "--session 31s --ascending"),
        ["bob 10:00:40Z 10:01:11Z 8 1", "ann 10:00Z 10:01:32Z 7 3", "ann 10:05Z 10:05:31Z 16 1",]
    );
}

#[test]
fn a_row_between_two_sessions_makes_them_one() {
    let rows = "
        10:00:00 ann 1
        10:00:50 ann 2
        10:00:25 ann 4
        10:09:00 ann 8";
    // with a bound of a minute both are open when 10:00:25 comes, which touches [10:00:00, 10:00:30) and the start of
    // [10:00:50, 10:01:20)
    assert_eq!(
        of_users(rows, "--session 30s --bound 1m"),
        ["ann 10:00Z 10:01:20Z 7 3", "ann 10:09Z 10:09:30Z 8 1"]
    );
    // Without a bound the first has fired at 10:00:50, and is gone. The row's own session would end at 10:00:55, after
    // the watermark, and touches the second one: it joins that.
    assert_eq!(
        of_users(rows, "--session 30s --ascending"),
        ["ann 10:00Z 10:00:30Z 1 1", "ann 10:00:25Z 10:01:20Z 6 2", "ann 10:09Z 10:09:30Z 8 1"]
    );
    // If fired sessions are kept for a minute, it is still there to be joined: nothing fires for the row itself, for the
    // end of the whole is yet to come.
    assert_eq!(
        of_users(rows, "--session 30s --ascending --lateness 1m --firing"),
        [
            "ann 10:00Z 10:00:30Z 1 1 on_time",
            "ann 10:00Z 10:01:20Z 7 3 on_time",
            "ann 10:09Z 10:09:30Z 8 1 on_time"
        ]
    );
}

#[test]
fn rows_of_sessions_that_are_gone_are_late() {
    let place = Place::new();
    let row = |time: &str, usd: u32| format!("2024-05-01T{time}Z,ann,{usd}\n");
    let rows = [row("10:00:00", 1), row("10:02:00", 2), row("10:00:10", 4), row("10:01:45", 8)];
    place.file("rows.csv", format!("ts,user,usd\n{}", rows.concat()));
    let flags = "--time ts --key user --ascending --agg sum(usd) --format csv --late late.csv --session 30s";
    let out = place.run(&format!("window rows.csv {flags}")).ok();
    // The watermark is a tick before 10:02:00. 10:00:10 would end at 10:00:40: late. 10:01:45 would end at 10:02:15, and
    // joins the session of 10:02:00.
    assert_eq!(
        out,
        "user,window_start,window_end,sum(usd)\n\
         ann,2024-05-01T10:00:00Z,2024-05-01T10:00:30Z,1\n\
         ann,2024-05-01T10:01:45Z,2024-05-01T10:02:30Z,10\n"
    );
    assert_eq!(
        place.read("late.csv"),
        "ts,user,usd,late_watermark\n2024-05-01T10:00:10Z,ann,4,2024-05-01T10:01:59.999Z\n"
    );
}

#[test]
fn late_rows_of_fired_sessions_make_them_fire_again() {
    let rows = "
        10:00:00 ann 1
        10:02:00 ann 2
        10:00:10 ann 4";
    // [10:00:00, 10:00:30) has fired and is kept until 10:05:29.999; with 10:00:10 it ends at 10:00:40, which is past
    assert_eq!(
        of_users(rows, "--session 30s --ascending --lateness 5m --firing"),
        [
            "ann 10:00Z 10:00:30Z 1 1 on_time",
            "ann 10:00Z 10:00:40Z 5 2 late",
            "ann 10:02Z 10:02:30Z 2 1 on_time",
        ]
    );
    // what it takes back is what it gave
    assert_eq!(
        of_users(rows, "--session 30s --ascending --lateness 5m --firing --mode retract"),
        [
            "ann 10:00Z 10:00:30Z 1 1 on_time false",
            "ann 10:00Z 10:00:30Z 1 1 on_time true",
            "ann 10:00Z 10:00:40Z 5 2 late false",
            "ann 10:02Z 10:02:30Z 2 1 on_time false",
        ]
    );
}

/// Rows with a gap in milliseconds.
fn with_gaps(rows: &str) -> String {
    format!("ts,ms\n{}", rows.replace("10:", "2024-05-01T10:"))
}

#[test]
fn gaps_in_a_column() {
    let rows = with_gaps("10:00:00Z,60000\n10:00:59Z,1000\n10:01:01Z,1000\n10:01:02Z,5\n");
    // The first reaches to 10:01:00 and so does the second; the third begins a second later, and reaches to where the
    // fourth begins.
    assert_eq!(
        results(&rows, "--session-by ms --ascending --agg count"),
        ["05-01T10:00Z 05-01T10:01Z 2", "05-01T10:01:01Z 05-01T10:01:02.005Z 2"]
    );
}

#[test]
fn gaps_that_are_none() {
    let good = "10:00:00Z,60000\n".repeat(3);
    for (gap, given) in [("", "null"), ("0", "0"), ("-5", "-5")] {
        let place = Place::new();
        // a row without time is not taken, so its gap is not asked for
        place.file("a.csv", with_gaps(&format!("{good},\n{good}")));
        place.file("b.csv", with_gaps(&format!("{good}10:00:01Z,{gap}\n")));
        let ran = place.run("window a.csv b.csv --time ts --ascending --session-by ms --quiet");
        let text = format!(
            "error: b.csv: row 4: --session-by: column \"ms\" has the gap {given}; allowed is more than zero\n"
        );
        assert_eq!((ran.code, ran.out.as_str(), ran.err), (1, "", text));
    }
    let place = Place::new();
    place.file("a.csv", with_gaps("10:00:00Z,0.5\n"));
    let ran = place.run("window a.csv --time ts --ascending --session-by ms");
    let text = "error: --session-by: column \"ms\" is Float64; allowed: integers that count milliseconds, or a Duration in \
                milliseconds\n";
    assert_eq!((ran.code, ran.err.as_str()), (2, text));
}

#[test]
fn windows_of_so_many_rows() {
    let rows = "
        10:00:00 ann 1
        10:00:07 bob 2
        10:00:05 ann 4
        10:00:02 ann 8
        10:00:09 bob 16
        10:00:08 ann 32
        10:00:06 ann 64";
    // By key, in the order in which they come: ann has 1 + 4, then 8 + 32, and 64 is left at the end; bob 2 + 16. A window
    // is from its earliest row to a tick behind its latest, and no row is late.
    assert_eq!(
        of_users(rows, "--count 2 --ascending"),
        [
            "ann 10:00Z 10:00:05.001Z 5 2",
            "bob 10:00:07Z 10:00:09.001Z 18 2",
            "ann 10:00:02Z 10:00:08.001Z 40 2",
            "ann 10:00:06Z 10:00:06.001Z 64 1",
        ]
    );
    // the last three after every two: ann 1 + 4, 4 + 8 + 32, and 8 is past when 64 is left: 8 + 32 + 64 at the end
    assert_eq!(
        of_users(rows, "--count 3,2 --ascending"),
        [
            "ann 10:00Z 10:00:05.001Z 5 2",
            "bob 10:00:07Z 10:00:09.001Z 18 2",
            "ann 10:00:02Z 10:00:08.001Z 44 3",
            "ann 10:00:02Z 10:00:08.001Z 104 3",
        ]
    );
}

#[test]
fn one_window_for_all_time() {
    let rows = "
        10:00:00 ann 1
        10:00:07 bob 2
        09:00:00 ann 4";
    // its bounds are those of time itself, which no calendar reaches: ticks
    assert_eq!(
        of_users(rows, "--global --ascending"),
        [
            "ann -9223372036854775808 9223372036854775807 5 2",
            "bob -9223372036854775808 9223372036854775807 2 1",
        ]
    );
}
