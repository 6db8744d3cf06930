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

/// Kills the command again and again, each time a little later, then lets it end. Gives the numbers of the checkpoints that
/// stood after each kill.
fn kill_until_done(place: &Place, command: &str, kills: u64, seed: u64) -> Vec<u64> {
    let mut draw = Draw(seed);
    let mut stood = Vec::new();
    for kill in 0..kills {
        let mut child = place.command(command).stderr(Stdio::null()).spawn().expect("the command starts");
        std::thread::sleep(Duration::from_millis(15 + draw.below(25 * (kill + 2))));
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
        assert!(place.bytes(&whole).len() > 1_000, "{flags}: {output} says something");
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
