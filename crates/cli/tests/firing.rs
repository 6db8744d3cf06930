//! When results are given before, at and after the end of a window, and what they say.

mod common;

use common::{Place, results};

/// The results of `usd` over rows of 1 May 2024 as lines of `start end ...`, without the date.
fn of(rows: &[(&str, i64)], flags: &str) -> Vec<String> {
    let rows: String = rows.iter().map(|(time, usd)| format!("2024-05-01T{time}Z,{usd}\n")).collect();
    let lines = results(&format!("ts,usd\n{rows}"), &format!("--ascending --agg sum(usd) {flags}"));
    lines.into_iter().map(|line| line.replace("05-01T", "")).collect()
}

const ROWS: [(&str, i64); 6] = [
    ("10:00:10", 1),
    ("10:00:20", 2),
    ("10:00:30", 4),
    ("10:01:00", 8),
    ("10:00:40", 16), // late
    ("10:01:10", 32),
];

#[test]
fn results_after_every_so_many_rows() {
    // 1 + 2 early; on time with 4 when 10:01:00 comes; 8 + 32 early, and on time at the end
    assert_eq!(
        of(&ROWS, "--tumble 1m --early-count 2 --firing"),
        [
            "10:00Z 10:01Z 3 early",
            "10:00Z 10:01Z 7 on_time",
            "10:01Z 10:02Z 40 early",
            "10:01Z 10:02Z 40 on_time"
        ]
    );
    // With lateness 16 is taken, and fires the window again. Results of a call are in order of the windows' ends.
    assert_eq!(
        of(&ROWS, "--tumble 1m --early-count 2 --lateness 1m --firing --firing-number"),
        [
            "10:00Z 10:01Z 3 early 0",
            "10:00Z 10:01Z 7 on_time 1",
            "10:00Z 10:01Z 23 late 2",
            "10:01Z 10:02Z 40 early 0",
            "10:01Z 10:02Z 40 on_time 1",
        ]
    );
    // only then: 1 + 2, and 8 + 32; 4 is in no result
    assert_eq!(
        of(&ROWS, "--tumble 1m --trigger-count 2 --firing"),
        ["10:00Z 10:01Z 3 early", "10:01Z 10:02Z 40 early"]
    );
    // emptied each time
    assert_eq!(
        of(&ROWS[..3], "--tumble 1m --trigger-count 1 --purging"),
        ["10:00Z 10:01Z 1", "10:00Z 10:01Z 2", "10:00Z 10:01Z 4"]
    );
}

#[test]
fn results_whenever_the_watermark_passes_a_multiple() {
    // The multiples of 15 s after 10:00:10 are :15, :30 and :45. The watermark is a tick before the latest time: 10:00:20
    // passes :15, 10:01:00 passes :30 (with 1, 2 and 4) and :45; 10:01:10 passes none. The end of input passes :15, :30 and :45 of the next minute.
    assert_eq!(
        of(&ROWS, "--tumble 1m --early-every 15s --firing"),
        [
            "10:00Z 10:01Z 3 early",
            "10:00Z 10:01Z 7 early",
            "10:00Z 10:01Z 7 early",
            "10:00Z 10:01Z 7 on_time",
            "10:01Z 10:02Z 40 early",
            "10:01Z 10:02Z 40 early",
            "10:01Z 10:02Z 40 early",
            "10:01Z 10:02Z 40 on_time",
        ]
    );
}

#[test]
fn what_is_new_and_what_is_taken_back() {
    let flags = "--tumble 1m --early-count 2 --lateness 1m";
    // 1 + 2; 4; 16; 8 + 32, after which nothing is new on time
    assert_eq!(
        of(&ROWS, &format!("{flags} --mode discard --firing")),
        [
            "10:00Z 10:01Z 3 early",
            "10:00Z 10:01Z 4 on_time",
            "10:00Z 10:01Z 16 late",
            "10:01Z 10:02Z 40 early",
        ]
    );
    // each result after a copy of the one before it
    assert_eq!(
        of(&ROWS, &format!("{flags} --mode retract")),
        [
            "10:00Z 10:01Z 3 false",
            "10:00Z 10:01Z 3 true",
            "10:00Z 10:01Z 7 false",
            "10:00Z 10:01Z 7 true",
            "10:00Z 10:01Z 23 false",
            "10:01Z 10:02Z 40 false",
            "10:01Z 10:02Z 40 true",
            "10:01Z 10:02Z 40 false",
        ]
    );
}

#[test]
fn results_when_a_column_has_risen() {
    let rows =
        [("10:00:00", 100), ("10:00:01", 103), ("10:00:02", 104), ("10:00:03", 107), ("10:00:04", 109)];
    // 103 is no more than 3 above 100; 104 is 4 above it; 107 no more than 3 above 104; 109 is 5 above it
    let found = of(&rows, "--global --agg last(usd) --trigger-delta usd,3");
    let values: Vec<Vec<&str>> = found.iter().map(|line| line.split(' ').skip(2).collect()).collect();
    // 100 + 103 + 104 = 307, + 107 + 109 = 523
    assert_eq!(values, [["307", "104"], ["523", "109"]]);
}

#[test]
fn windows_keep_their_last_rows() {
    // of 1, 2, 4 the last two; of 8, 32 both. 16 is too late.
    assert_eq!(of(&ROWS, "--tumble 1m --evict-count 2"), ["10:00Z 10:01Z 6", "10:01Z 10:02Z 40"]);
    // less than 10 s before the latest, 10:00:30 and 10:01:10
    assert_eq!(of(&ROWS, "--tumble 1m --evict-time 10s"), ["10:00Z 10:01Z 4", "10:01Z 10:02Z 32"]);
    assert_eq!(of(&ROWS, "--tumble 1m --evict-time 10001ms"), ["10:00Z 10:01Z 6", "10:01Z 10:02Z 40"]);
    // What is removed is gone: 2 and 4 are left on time, and 4 and 16 when 16 comes.
    assert_eq!(
        of(&ROWS, "--tumble 1m --evict-count 2 --lateness 1m --firing"),
        ["10:00Z 10:01Z 6 on_time", "10:00Z 10:01Z 20 late", "10:01Z 10:02Z 40 on_time"]
    );
    // the last three rows after every second one
    let found = of(&ROWS, "--global --trigger-count 2 --evict-count 3");
    let sums: Vec<&str> = found.iter().map(|line| line.rsplit(' ').next().unwrap_or_default()).collect();
    // 1 + 2; 2 + 4 + 8; 8 + 16 + 32
    assert_eq!(sums, ["3", "14", "56"]);
}

#[test]
fn the_largest_results_of_a_window() {
    let rows = "ts,k,v\n2024-05-01T10:00:01Z,a,1\n2024-05-01T10:00:02Z,b,4\n2024-05-01T10:00:03Z,c,4\n\
                2024-05-01T10:00:04Z,d,\n2024-05-01T10:00:05Z,a,2\n2024-05-01T10:01:05Z,d,\n2024-05-01T10:01:06Z,a,1\n";
    let top =
        |flags: &str| results(rows, &format!("--ascending --tumble 1m --key k --agg sum(v)~as~v {flags}"));
    let of_first = ["b 05-01T10:00Z 05-01T10:01Z 4", "c 05-01T10:00Z 05-01T10:01Z 4"];
    // b and c have 4 each, and b came first; a has 1 + 2, d nothing
    assert_eq!(top("--top 1 --by v"), [of_first[0], "a 05-01T10:01Z 05-01T10:02Z 1"]);
    let second = ["a 05-01T10:01Z 05-01T10:02Z 1", "d 05-01T10:01Z 05-01T10:02Z "];
    let third = "a 05-01T10:00Z 05-01T10:01Z 3";
    assert_eq!(top("--top 3 --by v"), [&of_first[..], &[third], &second[..]].concat());
}

#[test]
fn an_event_time_of_results() {
    assert_eq!(
        of(&ROWS, "--hop 2m,1m --window-time"),
        ["09:59Z 10:01Z 10:00:59.999Z 7", "10:00Z 10:02Z 10:01:59.999Z 63", "10:01Z 10:03Z 10:02:59.999Z 40",]
    );
}

#[test]
fn statistics_of_early_results() {
    let place = Place::with_rows();
    let flags = "--time ts --tumble 1m --bound 20s --early-count 1 --stats stats.json";
    let ran = place.run(&format!("window rows.csv {flags}"));
    // five rows are taken, each of which fires; three windows fire on time
    assert!(ran.err.contains("3 windows fired: 3 results, and 5 early results"), "{ran:?}");
    let stats: serde_json::Value = serde_json::from_str(&place.read("stats.json")).expect("JSON");
    assert_eq!((&stats["results_early"], &stats["results_on_time"]), (&5.into(), &3.into()));
    // the last window's row had fired, and its end had not come
    assert_eq!(stats["before_end_of_input"]["results_held_back"], 1);
}

#[test]
fn flags_that_do_not_go_together() {
    let one_by_one = "windows whose keys fire one by one have no results to compare";
    let counted = "a window of so many rows fires once, when it is full or at the end of input";
    for (flags, text) in [
        ("--count 5 --early-count 2", format!("--early-count and --count do not go together: {counted}")),
        ("--count 5 --trigger-delta usd,1", format!("--trigger-delta and --count do not go together: {counted}")),
        ("--count 5 --purging", format!("--purging and --count do not go together: {counted}")),
        ("--count 5 --mode retract", format!("--mode retract and --count do not go together: {counted}")),
        (
            "--global --lateness 5s",
            "--lateness and --global do not go together: rows are never late for these windows".into(),
        ),
        (
            "--count 5 --lateness 5s",
            "--lateness and --count do not go together: rows are never late for these windows".into(),
        ),
        (
            "--session 5s --trigger-delta usd,1",
            "--trigger-delta and --session do not go together: what a column was at the last firing of two sessions cannot \
             be merged"
                .into(),
        ),
        (
            "--tumble 1m --trigger-count 5 --purging --mode retract",
            "--purging and --mode retract do not go together: what a window gave before it was emptied is not replaced by \
             anything"
                .into(),
        ),
        (
            "--session 5s --offset 1s",
            "--offset and --session do not go together: these windows begin where rows are, or never".into(),
        ),
        (
            "--session-by usd --zone UTC",
            "--zone: --session-by windows know no zone; calendar windows are those of --tumble".into(),
        ),
        (
            "--tumble 1m --early-count 5 --early-every 5s",
            "the argument '--early-count <N>' cannot be used with '--early-every <D>'".into(),
        ),
        (
            "--count 5 --evict-count 3",
            "--evict-count and --count do not go together: a window of so many rows has those; --global with \
             --trigger-count may keep fewer"
                .into(),
        ),
        ("--session 5s --top 3 --by count", format!("--top and --session do not go together: {one_by_one}")),
        (
            "--tumble 5s --evict-time 1s --top 3 --by count",
            format!("--top and --evict-time do not go together: {one_by_one}"),
        ),
        (
            "--tumble 5s --mode retract --top 3 --by count",
            format!("--top and --mode retract do not go together: {one_by_one}"),
        ),
        (
            "--tumble 5s --evict-time 1s --evict-count 3",
            "the argument '--evict-time <D>' cannot be used with '--evict-count <N>'".into(),
        ),
        (
            "--session 5s --global",
            "the argument '--session <GAP>' cannot be used with '--global'".into(),
        ),
    ] {
        let ran = Place::with_rows().run(&format!("window rows.csv --time ts --ascending {flags}"));
        let first = ran.err.lines().next().unwrap_or_default();
        assert_eq!((ran.code, first), (2, format!("error: {text}").as_str()), "{flags}");
    }
}

#[test]
fn values_that_cannot_be() {
    for (flags, text) in [
        (
            "--tumble 1m --early-count 0",
            "invalid value '0' for '--early-count <N>': 0 is not in 1..18446744073709551615",
        ),
        (
            "--count 0",
            "invalid value '0' for '--count <N[,SLIDE]>': \"0\" is not N or N,SLIDE, each a number of rows; write it as in \
             100 or 100,10",
        ),
        (
            "--session 0s",
            "invalid value '0s' for '--session <GAP>': \"0s\" is no length; allowed is more than zero",
        ),
        (
            "--session 1500us",
            "--session: 1ms500us is not a whole number of ticks of event time column \"ts\", whose unit is millisecond",
        ),
        (
            "--tumble 1m --early-every 1500us",
            "--early-every: 1ms500us is not a whole number of ticks of event time column \"ts\", whose unit is millisecond",
        ),
        (
            "--tumble 1m --trigger-delta usd",
            "invalid value 'usd' for '--trigger-delta <COLUMN,THRESHOLD>': \"usd\" is not COLUMN,THRESHOLD; write it as in \
             odometer,100 or usd,0.5",
        ),
        (
            "--tumble 1m --trigger-delta km,1",
            "--trigger-delta: the input has no column \"km\"; it has ts, tenant, usd",
        ),
        ("--session-by gap", "--session-by: the input has no column \"gap\"; it has ts, tenant, usd"),
        (
            "--tumble 1m --trigger-delta tenant,1",
            "--trigger-delta: column \"tenant\" is Utf8; allowed: integers, floats and Decimal128",
        ),
        (
            "--tumble 1m --window-time --agg count~as~window_time",
            "--agg: name \"window_time\" is not allowed: a name that no key, window or other aggregate column of the output \
             has; rename it by \"as NAME\"",
        ),
    ] {
        let ran = Place::with_rows().run(&format!("window rows.csv --time ts --ascending {flags}"));
        let first = ran.err.lines().next().unwrap_or_default();
        assert_eq!((ran.code, first), (2, format!("error: {text}").as_str()), "{flags}");
    }
}
