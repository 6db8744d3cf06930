//! Runs with `--checkpoint` that are killed, and what they have written in the end.

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::Place;

/// Small numbers that are the same in every run of the test.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// So many rows of 10 ms each: 30 keys, up to 1.5 s of disorder, every 50th row 20 s late, every 997th without a time. `seen` is
/// when a row was received; every 10,000 rows there is a minute of silence.
fn rows(rows: u64, seed: u64) -> Vec<(Option<i64>, u64, u64, i64)> {
    let mut draw = Draw(seed);
    let row = |number: u64| {
        let seen = 1_700_000_000_000 + (number * 10 + number / 10_000 * 60_000) as i64;
        let delay = draw.below(1_500) as i64 + if number % 50 == 7 { 20_000 } else { 0 };
        let time = (number % 997 != 5).then_some(seen - delay);
        (time, draw.below(30), draw.below(1_000), seen)
    };
    (0..rows).map(row).collect()
}

fn csv(rows: &[(Option<i64>, u64, u64, i64)]) -> String {
    let mut text = "ts,k,x,seen\n".to_string();
    for (time, key, x, seen) in rows {
        let time = time.map_or(String::new(), |time| time.to_string());
        text += &format!("{time},\"k\n{key}\",{x},{seen}\n");
    }
    text
}

fn ndjson(rows: &[(Option<i64>, u64, u64, i64)]) -> String {
    let line = |(time, key, x, seen): &(Option<i64>, u64, u64, i64)| {
        let time = time.map_or("null".into(), |time: i64| time.to_string());
        format!("{{\"ts\":{time},\"k\":\"k{key}\",\"x\":{x},\"seen\":{seen}}}\n\n")
    };
    rows.iter().map(line).collect()
}

/// The next number of the checkpoint that stands, and whether the run is complete.
fn standing(place: &Place) -> (u64, bool) {
    let Ok(text) = std::fs::read_to_string(place.path("ck/checkpoint.json")) else { return (0, false) };
    let state: serde_json::Value = serde_json::from_str(&text).expect("never half of a checkpoint");
    (state["number"].as_u64().unwrap_or_default(), state["complete"] == true)
}

/// Kills the command again and again, at random moments, every other time after another checkpoint, then lets it end. Gives the numbers of the checkpoints that
/// stood after each kill.
fn kill_until_done(place: &Place, command: &str, kills: u64, seed: u64) -> Vec<u64> {
    let mut draw = Draw(seed);
    let mut stood = Vec::new();
    for kill in 0..kills {
        let mut child = place.command(command).stderr(Stdio::null()).spawn().expect("the command starts");
        if kill % 2 == 0 {
            std::thread::sleep(Duration::from_millis(15 + draw.below(25 * (kill + 2))));
        } else {
            // so that there is progress however slow the machine is
            let before = standing(place);
            while standing(place) == before && child.try_wait().expect("a child").is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(draw.below(40)));
        }
        child.kill().expect("a child that is not waited for can be killed");
        child.wait().expect("it ends");
        let (number, complete) = standing(place);
        if complete {
            break;
        }
        stood.push(number);
    }
    place.run(command).ok();
    stood
}

/// A run that is killed many times gives what an undisturbed one gives, which takes no checkpoints.
fn killed_is_as_undisturbed(place: &Place, flags: &str, free: &str, seed: u64) {
    let outputs =
        |side: &str| format!("--out {side}.csv --late {side}-late.ndjson --rejected {side}-bad.csv");
    let whole = place.run(&format!("window {flags} {} --stats whole.json", outputs("whole"))).err;
    let command = format!(
        "window {flags} {free} {} --stats killed.json --checkpoint ck --checkpoint-every 20000",
        outputs("killed")
    );
    let stood = kill_until_done(place, &command, 15, seed);
    let resumed = stood.iter().filter(|&&number| number > 0).count();
    assert!(stood.len() >= 5 && resumed >= 3, "{flags}: the kills were too late or too early: {stood:?}");
    for output in [".csv", "-late.ndjson", "-bad.csv", ".json"] {
        let (whole, killed) = (format!("whole{output}"), format!("killed{output}"));
        assert!(place.bytes(&whole) == place.bytes(&killed), "{flags}: {killed} after {stood:?} ({whole:?})");
        // which rows are too late depends on the windows
        let says_something = output == "-late.ndjson" || place.bytes(&whole).len() > 1_000;
        assert!(says_something, "{flags}: {output} says something");
    }
    assert!(whole.contains("rows in"), "{whole}");
    // nothing is left but the results, and what says that all is done
    assert!(place.names().iter().all(|name| !name.ends_with(".part")), "{:?}", place.names());
    let before = place.bytes("killed.csv");
    let again = place.run(&command);
    assert_eq!((again.code, again.out.as_str()), (0, ""));
    assert!(again.err.starts_with("this run is complete, as ck says: nothing was done"), "{}", again.err);
    assert_eq!(place.bytes("killed.csv"), before);
}

const FLAGS: &str = "--time ts --time-unit ms --key k --agg count --agg sum(x) --agg p50(x) --agg last(x)";

#[test]
fn a_run_killed_at_any_moment_loses_no_row_and_has_none_twice() {
    let place = Place::new();
    place.file("a.csv", csv(&rows(150_000, 1)));
    place.file("b.ndjson", ndjson(&rows(100_000, 2)));
    let flags = format!("a.csv b.ndjson {FLAGS} --tumble 5s --bound 2s --lateness 19s --firing");
    killed_is_as_undisturbed(&place, &flags, "--threads 2 --batch-rows 1000", 3);
}

#[test]
fn sessions_go_on_too() {
    let place = Place::new();
    place.file("a.csv", csv(&rows(150_000, 10)));
    let flags = format!("a.csv {FLAGS} --session 200ms --bound 2s --lateness 3s");
    killed_is_as_undisturbed(&place, &flags, "--threads 2", 11);
}

/// With --idle the clock is part of the state; every minute of silence makes the other input idle.
#[test]
fn a_replay_goes_on_with_its_clock() {
    let place = Place::new();
    place.file("a.csv", csv(&rows(120_000, 4)));
    let short = rows(120_000, 5).into_iter().filter(|(.., seen)| seen % 100_000 < 50_000).collect::<Vec<_>>();
    place.file("b.csv", csv(&short));
    let flags = format!(
        "a.csv b.csv {FLAGS} --ingest-time seen --idle 5s --hop 10s,5s --bound 2s --late-firing per-row"
    );
    killed_is_as_undisturbed(&place, &flags, "--threads 1", 6);
}

/// A checkpoint of a run that has stopped at the bad last row of its second file.
fn stopped() -> Place {
    let place = Place::new();
    place.file("a.csv", csv(&rows(40_000, 7)));
    place.file("bad.csv", csv(&rows(40_000, 8)) + "1,k,not a number,2\n");
    let ran = place.run(&command("--tumble 5s"));
    assert!(ran.code == 1 && ran.err.contains("bad.csv:"), "{ran:?}");
    assert!(place.names().contains(&".out.csv.part".into()) && standing(&place).0 > 0, "{:?}", place.names());
    place
}

fn command(shape: &str) -> String {
    format!(
        "window a.csv bad.csv --quiet {FLAGS} {shape} --bound 2s --out out.csv --checkpoint ck --checkpoint-every 1"
    )
}

#[test]
fn another_command_or_other_inputs_are_refused() {
    let place = stopped();
    let refused = |arguments: &str| {
        let ran = place.run(arguments);
        assert_eq!(ran.code, 2, "{ran:?}");
        ran.err
    };
    let end = "when the checkpoint was written; give the same command again, or another directory\n";
    assert_eq!(
        refused(&command("--tumble 6s")),
        format!("error: --checkpoint ck: --tumble is 6s here, but was 5s {end}")
    );
    assert_eq!(
        refused(&command("--tumble 5s --lateness 1s")),
        format!("error: --checkpoint ck: --lateness 1s was not there {end}")
    );
    place.file("bad.csv", csv(&rows(40_000, 8)));
    let bytes = place.bytes("bad.csv").len();
    let error = refused(&command("--tumble 5s"));
    assert_eq!(
        error,
        format!("error: --checkpoint ck: bad.csv has {bytes} bytes, but had {} {end}", bytes + 19)
    );
    place.file("bad.csv", csv(&rows(40_000, 8)) + "1,k,not a nombre,2\n");
    let error = refused(&command("--tumble 5s"));
    assert_eq!(error, format!("error: --checkpoint ck: bad.csv is not the file that it was {end}"));
}

#[test]
fn an_output_that_is_not_what_was_committed_is_refused() {
    let place = stopped();
    let part = place.bytes(".out.csv.part");
    let refused = |content: &[u8]| {
        place.file(".out.csv.part", content);
        let ran = place.run(&command("--tumble 5s --threads 1"));
        assert_eq!(ran.code, 1, "{ran:?}");
        ran.err
    };
    let mut changed = part.clone();
    changed[30] ^= 1;
    assert!(refused(&changed).contains(".out.csv.part: has been changed since the checkpoint"));
    assert!(refused(&part[..40]).contains(".out.csv.part: has 40 bytes, but "));
    // what it has more than that is cut off; then the run comes to the bad row again
    assert!(refused(&[part.as_slice(), b"half a li"].concat()).contains("bad.csv:"));
    // no word of it is taken that is not the one that was written
    let checkpoint = place.read("ck/checkpoint.json");
    let state: serde_json::Value = serde_json::from_str(&checkpoint).expect("JSON");
    for path in
        ["/position/line", "/position/ended", "/position/inputs/0/rows", "/outputs", "/inputs", "/complete"]
    {
        let mut changed = state.clone();
        *changed.pointer_mut(path).expect(path) = serde_json::json!("x");
        place.file("ck/checkpoint.json", changed.to_string());
        let ran = place.run(&command("--tumble 5s"));
        let text = "error: ck/checkpoint.json: it has been changed since it was written; remove the directory to start over\n";
        assert_eq!((ran.code, ran.err.as_str()), (1, text), "{path}");
    }
    place.file("ck/checkpoint.json", &checkpoint);
    let operator = format!("ck/operator-{}.arrow", state["number"]);
    std::fs::remove_file(place.path(&operator)).expect("it was there");
    let ran = place.run(&command("--tumble 5s"));
    let text = format!(
        "error: {operator}: No such file or directory (os error 2); remove the directory to start over\n"
    );
    assert_eq!((ran.code, ran.err), (1, text));
    place.file("ck/checkpoint.json", "{");
    assert!(place.run(&command("--tumble 5s")).err.contains("ck/checkpoint.json: it is no checkpoint"));
}

/// Killed after the results have been put into their place, and before the checkpoint says so.
#[test]
fn results_that_are_in_their_place_already_are_taken_back_and_completed() {
    let place = Place::new();
    place.file("rows.csv", csv(&rows(80_000, 9)));
    let command = |out: &str| {
        format!(
            "window rows.csv --quiet {FLAGS} --tumble 5s --bound 2s --out {out}.csv --checkpoint {out}-ck --checkpoint-every 1"
        )
    };
    place.run(&command("a")).ok();
    let complete = std::fs::read_to_string(place.path("a-ck/checkpoint.json")).unwrap();
    assert!(complete.contains("\"complete\": true"), "{complete}");
    // the same run, stopped for want of a place for its statistics
    let stopped = place.run(&format!("{} --stats no/stats.json", command("b")));
    assert_eq!(stopped.code, 1, "{stopped:?}");
    assert!(!place.names().contains(&".b.csv.part".into()), "{:?}", place.names());
    place.run(&command("b")).ok();
    assert_eq!(place.read("a.csv"), place.read("b.csv"));
}

#[test]
fn what_cannot_be_cut_back_or_read_again_is_refused() {
    let place = Place::with_rows();
    for (arguments, reason) in [
        ("rows.csv", "standard output cannot be cut back to what was committed; --out must be"),
        ("rows.csv --out out.parquet", "out.parquet cannot be cut back to what was committed; --out must be"),
        (
            "rows.csv --out out.csv --late late.arrow",
            "late.arrow cannot be cut back to what was committed; --late must",
        ),
        (
            "- --out out.csv",
            "standard input is not a file, and what has been read of it cannot be read again",
        ),
    ] {
        let ran = place.run(&format!("window {arguments} {} --checkpoint ck", common::FLAGS));
        assert!(ran.code == 2 && ran.err.contains(&format!("--checkpoint: {reason}")), "{ran:?}");
    }
    assert_eq!(place.names(), ["rows.csv"]);
}
