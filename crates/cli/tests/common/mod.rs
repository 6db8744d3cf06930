//! Runs the built command on real files.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of it")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A directory with files, and the command that is run in it.
pub struct Place {
    pub directory: tempfile::TempDir,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
    pub bytes: Vec<u8>,
}

impl Ran {
    /// Standard output of a run that went well.
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }
}

/// The rows of most tests. Worked out by hand, with windows of one minute and a bound of 20 s:
///
/// ```text
/// time          tenant  usd     watermark before it   what becomes of it
/// 10:00:01      acme    0.5     none                  taken
/// 10:00:30      globex  0.25    09:59:40.999          taken
/// 10:01:10.250  acme    1       10:00:09.999          taken
/// 10:00:59      acme    0.125   10:00:50.249          taken, not late
/// null          acme    8                             rejected
/// 10:02:30      acme    0.0625  10:00:50.249          taken; fires 10:00 and 10:01
/// 10:00:31      globex  2       10:02:09.999          late, and 10:00 has expired: dropped
/// ```
pub const ROWS: [(Option<&str>, &str, &str); 7] = [
    (Some("2024-05-01T10:00:01Z"), "acme", "0.5"),
    (Some("2024-05-01T10:00:30Z"), "globex", "0.25"),
    (Some("2024-05-01T10:01:10.250Z"), "acme", "1"),
    (Some("2024-05-01T10:00:59Z"), "acme", "0.125"),
    (None, "acme", "8"),
    (Some("2024-05-01T10:02:30Z"), "acme", "0.0625"),
    (Some("2024-05-01T10:00:31Z"), "globex", "2"),
];

/// The results of [`ROWS`] as CSV.
pub const RESULTS: &str = "\
tenant,window_start,window_end,usd,count
acme,2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,0.625,2
globex,2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,0.25,1
acme,2024-05-01T10:01:00Z,2024-05-01T10:02:00Z,1.0,1
acme,2024-05-01T10:02:00Z,2024-05-01T10:03:00Z,0.0625,1
";

/// The flags for [`RESULTS`].
pub const FLAGS: &str = "--time ts --key tenant --tumble 1m --bound 20s --agg sum(usd)~as~usd --agg count";

pub fn csv() -> String {
    let row =
        |(ts, tenant, usd): &(Option<&str>, &str, &str)| format!("{},{tenant},{usd}\n", ts.unwrap_or(""));
    format!("ts,tenant,usd\n{}", ROWS.iter().map(row).collect::<String>())
}

pub fn ndjson() -> String {
    let row = |(ts, tenant, usd): &(Option<&str>, &str, &str)| {
        let ts = ts.map_or("null".to_string(), |ts| format!("{ts:?}"));
        format!("{{\"ts\":{ts},\"tenant\":{tenant:?},\"usd\":{usd}}}\n")
    };
    ROWS.iter().map(row).collect()
}

/// The results over CSV rows under a header as lines of words, without the year and the seconds of 2024.
pub fn results(rows: &str, flags: &str) -> Vec<String> {
    let place = Place::new();
    place.file("rows.csv", rows);
    let out = place.run(&format!("window rows.csv --time ts --format csv {flags}")).ok();
    let short = |word: &str| word.replace("2024-", "").replace(":00Z", "Z");
    let line = |line: &str| line.split(',').map(short).collect::<Vec<_>>().join(" ");
    out.lines().skip(1).map(line).collect()
}

impl Place {
    pub fn new() -> Self {
        Place { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    /// With the rows of [`ROWS`] in `rows.csv`.
    pub fn with_rows() -> Self {
        let place = Self::new();
        place.file("rows.csv", csv());
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path(name), content).expect("a file can be written");
        self
    }

    pub fn read(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).expect("text")
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("a file")
    }

    /// The names of all files, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).expect("a directory");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The command with arguments that are separated by spaces; `~` is a space inside of one.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.current_dir(self.directory.path());
        command.args(arguments.split_whitespace().map(|argument| argument.replace('~', " ")));
        command
    }

    pub fn run(&self, arguments: &str) -> Ran {
        self.run_with(arguments, b"")
    }

    pub fn run_with(&self, arguments: &str, stdin: &[u8]) -> Ran {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let mut pipe = child.stdin.take().expect("a pipe");
        let stdin = stdin.to_vec();
        // The command may end without having read it all.
        let feeder = std::thread::spawn(move || drop(pipe.write_all(&stdin)));
        let output = child.wait_with_output().expect("the command ends");
        feeder.join().expect("the feeder ends");
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            bytes: output.stdout,
        }
    }
}
