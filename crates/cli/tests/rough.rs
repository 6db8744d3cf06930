//! Inputs, outputs and times that are as bad as they come: never a panic, never a row that is lost unseen.

mod common;

use common::{Place, csv};

const FLAGS: &str = "--time ts --tumble 1m --ascending";

/// What is said about one file, with the exit code.
fn said(name: &str, content: impl AsRef<[u8]>, flags: &str) -> (i32, String) {
    let place = Place::new();
    place.file(name, content);
    let ran = place.run(&format!("window {name} {FLAGS} {flags}"));
    assert_eq!(ran.out, "", "nothing but the message");
    (ran.code, ran.err.lines().next().unwrap_or_default().to_string())
}

fn error(code: i32, text: &str) -> (i32, String) {
    (code, format!("error: {text}"))
}

#[test]
fn an_output_never_replaces_an_input() {
    let place = Place::with_rows();
    place.file("x.csv", "");
    for (flags, flag) in [
        ("--out rows.csv", "--out rows.csv"),
        ("--out ./rows.csv", "--out ./rows.csv"),
        ("--late rows.csv", "--late rows.csv"),
        ("--rejected rows.csv", "--rejected rows.csv"),
        ("--stats rows.csv", "--stats rows.csv"),
    ] {
        let ran = place.run(&format!("window rows.csv {FLAGS} {flags}"));
        let text = format!("error: {flag} is an input, which it would replace; give it another path\n");
        assert_eq!((ran.code, ran.err), (2, text), "{flags}");
        assert_eq!(place.read("rows.csv"), csv(), "{flags}");
    }
    let ran = place.run(&format!("window rows.csv {FLAGS} --out x.csv --late ./x.csv"));
    let text = "error: --out and --late both write to ./x.csv; give one of them another path\n";
    assert_eq!((ran.code, ran.err.as_str()), (2, text));
}

#[cfg(unix)]
#[test]
fn a_link_stays_one() {
    let place = Place::with_rows();
    place.file("there.csv", "old");
    std::os::unix::fs::symlink("there.csv", place.path("link.csv")).expect("a link");
    std::os::unix::fs::symlink("rows.csv", place.path("back.csv")).expect("a link");
    place.run(&format!("window rows.csv {FLAGS} --out link.csv")).ok();
    assert!(place.path("link.csv").is_symlink() && !place.path("there.csv").is_symlink());
    assert!(place.read("there.csv").starts_with("window_start,"));
    let ran = place.run(&format!("window rows.csv {FLAGS} --out back.csv"));
    assert_eq!((ran.code, place.read("rows.csv")), (2, csv()), "{ran:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn nobody_hears_what_is_said() {
    let place = Place::with_rows();
    let code = |arguments: &str| {
        let full = || std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let mut command = place.command(arguments);
        command.stderr(full()).status().expect("it runs").code()
    };
    assert_eq!(code(&format!("window rows.csv {FLAGS} --out out.csv")), Some(0));
    assert_eq!(place.read("out.csv").lines().count(), 4, "a header, and 10:00, 10:01, 10:02");
    assert_eq!(code(&format!("window missing.csv {FLAGS}")), Some(1));
    assert_eq!(code(&format!("window rows.csv {FLAGS} --key ts --key ts")), Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told() {
    let place = Place::with_rows();
    for format in ["table", "csv", "ndjson", "parquet", "arrow"] {
        let ran = place.run(&format!("window rows.csv {FLAGS} --format {format} --out /dev/full"));
        let text = "error: /dev/full: cannot be written: No space left on device (os error 28)\n";
        assert_eq!((ran.code, ran.err.as_str()), (1, text), "{format}");
    }
}

#[cfg(unix)]
#[test]
fn names_as_long_as_they_can_be() {
    let place = Place::with_rows();
    // 255 bytes are a name, 256 are none, which is said before anything is done
    let longest = format!("{}.csv", "x".repeat(251));
    place.run(&format!("window rows.csv {FLAGS} --out {longest}")).ok();
    assert_eq!(place.names(), ["rows.csv", &longest]);
    let ran = place.run(&format!("window rows.csv {FLAGS} --out x{longest} --stats -"));
    let text = format!("error: x{longest}: cannot be written: File name too long (os error 36)\n");
    let text = if cfg!(target_os = "linux") { text } else { ran.err.clone() };
    assert_eq!((ran.code, ran.out.as_str(), ran.err), (1, "", text));
}

/// It is killed when it has rejected a row, so that its outputs are open.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_is_killed_leaves_nothing_behind() {
    use std::io::{Read, Write};
    let place = Place::new();
    let flags = "--out out.csv --late late.parquet --rejected - --flush-after-quiet 1h";
    let mut command = place.command(&format!("window - {FLAGS} {flags}"));
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"ts,v\n2024-05-01T10:00:01Z,1\n,2\n").expect("it reads");
    let mut first = [0; 1];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("a rejected row");
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    assert_eq!((first, place.names()), (*b"{", vec![]));
}

#[test]
fn partitions_of_no_rows() {
    let place = Place::new();
    place.file("none.csv", "ts,k\n");
    let ran = place.run(&format!("window none.csv {FLAGS} --partition-by k --format csv --stats stats.json"));
    assert!(ran.err.starts_with("0 rows in 0 partitions: 0 taken"), "{}", ran.err);
    assert_eq!(ran.ok(), "window_start,window_end,count\n");
    let stats: serde_json::Value = serde_json::from_str(&place.read("stats.json")).expect("JSON");
    assert_eq!(stats["partitions"], serde_json::json!([]));
}

#[test]
fn five_hundred_partitions() {
    let place = Place::new();
    let name = |number: u64| format!("p{number}.csv");
    for number in 0..500 {
        // 10:00:00 to 10:08:19, a row each
        let time = format!("10:{:02}:{:02}", number / 60, number % 60);
        place.file(&name(number), format!("ts,v\n2024-05-01T{time}Z,{number}\n"));
    }
    let all: Vec<String> = (0..500).map(name).collect();
    let flags = "--time ts --tumble 10m --ascending --agg count --agg sum(v) --format csv";
    let ran = place.run(&format!("window {} {flags}", all.join(" ")));
    assert!(ran.err.starts_with("500 rows in 500 partitions: 500 taken, 0 late"), "{}", ran.err);
    // 0 + 1 + ... + 499 = 500 * 499 / 2
    let expected =
        "window_start,window_end,count,sum(v)\n2024-05-01T10:00:00Z,2024-05-01T10:10:00Z,500,124750\n";
    assert_eq!(ran.ok(), expected);
}

#[test]
fn text_that_is_none() {
    let head = b"ts,k,v\n2024-05-01T10:00:01Z,a,1\n".as_slice();
    let bad = [head, b"2024-05-01T10:00:01Z,\xFF,1\n"].concat();
    let many =
        [head, &b"2024-05-01T10:00:01Z,a,1\n".repeat(1_500), b"2024-05-01T10:00:01Z,\xFF,1\n"].concat();
    let utf16: Vec<u8> = "\u{feff}ts,k\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (name, content, text) in [
        ("a.csv", bad, "a.csv:3: column \"k\": the value is no UTF-8 text"),
        ("a.csv", many, "a.csv:1503: column \"k\": the value is no UTF-8 text"),
        ("a.csv", b"ts,\xFF\n".to_vec(), "a.csv:1: the header is no UTF-8 text"),
        ("a.ndjson", b"{\"ts\":\"\xFF\"}\n".to_vec(), "a.ndjson:1: the line is no UTF-8 text"),
        ("a.csv", utf16, "a.csv: is text in UTF-16; allowed is UTF-8"),
        (
            "a.csv",
            b"\x1F\x8B\x08\x00\x00".to_vec(),
            "a.csv: is compressed by gzip; gzip -dc writes out what is in it",
        ),
        ("a.ndjson", b"PAR1....".to_vec(), "a.ndjson: is a Parquet file; --input-format parquet reads it"),
        (
            "a.csv",
            b"ts,k\r2024-05-01T10:00:01Z,a\r".to_vec(),
            "a.csv:1: the header has a carriage return that no line feed follows; lines end with LF or CRLF",
        ),
    ] {
        assert_eq!(said(name, content, ""), error(1, text), "{text}");
    }
    // the line feed of a CRLF follows
    let place = Place::new();
    place.file("a.csv", "ts,\"k\r\nl\"\r\n2024-05-01T10:00:01Z,a\r\n");
    let results = place.run(&format!("window a.csv {FLAGS} --format csv")).ok();
    assert_eq!(results.lines().nth(1), Some("2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,1"));
}

#[test]
fn names_that_are_not_there() {
    let has = |names: &str| format!("--time: the input has no column \"ts\"; it has {names}");
    let separated = has("ts;v; --delimiter says what separates columns");
    assert_eq!(said("a.csv", "ts;v\n1;2\n", ""), error(2, &separated));
    // nothing in a message steers the terminal
    assert_eq!(said("a.csv", "a\x1b[31m,b\n1,2\n", ""), error(2, &has("a\\u{1b}[31m, b")));
    let none = has("none, for no row has a value; --schema can name columns");
    assert_eq!(said("a.ndjson", "{}\n{}\n", ""), error(2, &none));
    let row = "ts,k,v\n2024-05-01T10:00:01Z,a,1\n";
    for (flags, text) in [
        ("--schema uds:f64", "--schema: the input has no column \"uds\"; it has ts, k, v"),
        ("--key k --key k", "--key k is given twice"),
        (
            "--key window_end",
            "--key window_end: results have a column window_end of their own; give the column another name in the input",
        ),
        ("--key k --top 3 --by usd", "--by usd: nothing of that name is computed; allowed: count"),
        ("--max-keys 0", "--max-keys: this call needs 1, allowed are 0"),
    ] {
        let code = if flags.starts_with("--max") { 1 } else { 2 };
        assert_eq!(said("a.csv", row, flags), error(code, text), "{flags}");
    }
}

/// Both ends of the time line and its middle, in ticks of each unit. Windows are cut at its ends.
#[test]
fn times_at_the_edges() {
    let place = Place::new();
    let times = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX];
    let rows: String = times.iter().map(|time| format!("{{\"ts\":{time}}}\n")).collect();
    place.file("rows.ndjson", rows);
    for (unit, minute) in [("s", 60), ("ms", 60_000), ("us", 60_000_000), ("ns", 60_000_000_000)] {
        let results = |windows: &str| {
            let flags = format!("--time ts --time-unit {unit} --ascending {windows} --format csv");
            let ran = place.run(&format!("window rows.ndjson {flags}"));
            assert!(ran.err.contains(": 6 taken, 0 late, 0 rejected"), "{unit} {windows}: {}", ran.err);
            let out = ran.ok();
            out.lines().skip(1).map(str::to_string).collect::<Vec<_>>()
        };
        let lines = |windows: &[(i64, i64, u64)]| {
            windows.iter().map(|(start, end, rows)| format!("{start},{end},{rows}")).collect::<Vec<_>>()
        };
        // minutes begin at multiples of a minute: the first after the lowest time, and the last before the highest
        let (first, last) = (i64::MIN / minute * minute, i64::MAX / minute * minute);
        let expected = [(i64::MIN, first, 2), (-minute, 0, 1), (0, minute, 1), (last, i64::MAX, 2)];
        assert_eq!(results("--tumble 1m"), lines(&expected), "{unit}");
        // a session ends a minute after its last row
        let expected = [(i64::MIN, i64::MIN + 1 + minute, 2), (-1, minute, 2), (i64::MAX - 1, i64::MAX, 2)];
        assert_eq!(results("--session 1m"), lines(&expected), "{unit}");
        // pairs, from their lowest time to a tick after their highest
        let expected = [(i64::MIN, i64::MIN + 2, 2), (-1, 1, 2), (i64::MAX - 1, i64::MAX, 2)];
        assert_eq!(results("--count 2"), lines(&expected), "{unit}");
        assert_eq!(results("--global"), lines(&[(i64::MIN, i64::MAX, 6)]), "{unit}");
        // at most 100,000 early firings of each of the windows, and each on time
        let most = 4 * 100_000 + 4;
        assert!(results("--tumble 1m --early-every 1s").len() <= most, "{unit}");
    }
}
