//! Pipes whose writers take their time: what is given while nobody has closed them.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::Place;

/// A run that is being written to.
struct Live {
    _place: Place,
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Live {
    fn start(flags: &str) -> Self {
        let place = Place::new();
        let mut command = place.command(&format!("window - --time ts --tumble 1m --ascending {flags}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let (stdin, stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Live { _place: place, child, stdin, lines }
    }

    fn write(&mut self, text: &str) {
        self.stdin.write_all(text.as_bytes()).expect("the command reads");
    }

    /// The next line, which must come although the pipe stays open.
    fn line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(60)).expect("a line while the pipe is open")
    }

    /// Closes the pipe; what else is printed, and the summary.
    fn close(mut self) -> (Vec<String>, String) {
        drop(self.stdin);
        let mut summary = String::new();
        let mut stderr = self.child.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut summary).expect("text");
        assert!(self.child.wait().expect("it ends").success(), "{summary}");
        (self.lines.iter().collect(), summary)
    }
}

#[test]
fn open_windows_fire_when_nothing_has_come_for_a_while() {
    let mut live = Live::start("--flush-after-quiet 200ms --agg sum(v) --firing --format csv");
    live.write("ts,v\n2024-05-01T10:00:01Z,1\n2024-05-01T10:00:31Z,2\n");
    assert_eq!(live.line(), "window_start,window_end,sum(v),firing");
    // 1 + 2, although the watermark of the rows is 10:00:30.999
    assert_eq!(live.line(), "2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,3,on_time");
    // the first of these has lost its window, the other is of the next one, which the end of input fires
    live.write("2024-05-01T10:00:41Z,4\n2024-05-01T10:01:41Z,8\n");
    let (rest, summary) = live.close();
    assert_eq!(rest, ["2024-05-01T10:01:00Z,2024-05-01T10:02:00Z,8,on_time"]);
    assert!(summary.starts_with("4 rows in 1 partition: 3 taken, 1 late, 0 rejected"), "{summary}");
}

#[test]
fn early_results_by_the_clock() {
    for (head, row, expected) in [
        (
            "",
            (|second, v| format!("{{\"ts\":\"2024-05-01T10:00:{second}Z\",\"v\":{v}}}\n"))
                as fn(&str, i64) -> _,
            ["1 early", "3 early", "3 on_time"],
        ),
        (
            "ts,v\n",
            |second, v| format!("2024-05-01T10:00:{second}Z,{v}\n"),
            ["1 early", "3 early", "3 on_time"],
        ),
    ] {
        let mut live = Live::start("--early-clock 50ms --agg sum(v) --firing --format table");
        let result = |line: String| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
        live.write(&format!("{head}{}", row("01", 1)));
        assert_eq!(result(live.line()), "sum(v) firing");
        assert_eq!(result(live.line()), "------ ------");
        assert_eq!(result(live.line()), expected[0]);
        // no more of it until there is something new
        live.write(&row("31", 2));
        assert_eq!(result(live.line()), expected[1]);
        let (rest, summary) = live.close();
        assert_eq!(rest.into_iter().map(result).collect::<Vec<_>>(), [expected[2]]);
        assert!(summary.contains("1 window fired: 1 result, and 2 early results"), "{summary}");
    }
}

#[test]
fn a_bad_row_ends_a_run_by_the_clock() {
    let place = Place::new();
    let flags = "window - --time ts --tumble 1m --ascending --flush-after-quiet 1h --agg sum(v)";
    let ran = place.run_with(flags, b"ts,v\n2024-05-01T10:00:01Z,1\n2024-05-01T10:00:01Z\n");
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: stdin:3: the row has 1 column, the header 2\n"));
}

#[test]
fn what_the_clock_does_not_go_with() {
    let place = Place::with_rows();
    for (arguments, text) in [
        (
            "rows.csv --tumble 1m --early-clock 1s",
            "--early-clock: rows.csv is a file, which never keeps anybody waiting; allowed is a pipe, as in - for standard \
             input",
        ),
        (
            "rows.csv - --tumble 1m --flush-after-quiet 1s",
            "--flush-after-quiet: 2 inputs are given; allowed is one, a pipe, as in - for standard input",
        ),
        (
            "- --global --flush-after-quiet 1s",
            "--flush-after-quiet and --global do not go together: these windows have no end that the watermark could be \
             raised to",
        ),
        (
            "- --tumble 1m --flush-after-quiet 1s --checkpoint ck",
            "--flush-after-quiet and --checkpoint do not go together: what came when cannot be repeated",
        ),
        (
            "- --tumble 1m --early-clock 1s --ingest-time seen --idle 1s",
            "--early-clock and --idle do not go together: its clock is the ingest time",
        ),
        (
            "- --tumble 1m --early-clock 1s --partition-by tenant",
            "--early-clock and --partition-by do not go together: it reads the input twice",
        ),
    ] {
        let ran = place.run(&format!("window {arguments} --time ts --ascending"));
        assert_eq!((ran.code, ran.err), (2, format!("error: {text}\n")), "{arguments}");
    }
}
