//! `highwater conform` over the golden traces, and over golden traces that have been tampered with.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::read::GzDecoder;
use serde_json::{Value, json};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

fn conform<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_highwater")).arg("conform").args(arguments).output().expect("it runs")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("text")
}

/// What is said of each trace in a directory, by name.
fn verdicts(directory: &Path) -> BTreeMap<String, Value> {
    let output = conform([directory.to_str().expect("a path"), "--json"]);
    let lines = stdout(&output).lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let of_traces = lines.filter(|line| line.get("verdict").is_some());
    of_traces.map(|line| (line["name"].as_str().expect("a name").to_owned(), line)).collect()
}

fn read(path: &Path) -> Value {
    let mut text = String::new();
    let mut file = File::open(path).expect("a trace");
    match path.extension().is_some_and(|extension| extension == "gz") {
        true => GzDecoder::new(file).read_to_string(&mut text),
        false => file.read_to_string(&mut text),
    }
    .expect("text");
    serde_json::from_str(&text).expect("JSON")
}

fn traces() -> Vec<Value> {
    let index = read(&golden().join("index.json"));
    let files = index.as_array().expect("a list").iter().map(|entry| entry["file"].as_str().expect("a file"));
    files.map(|file| read(&golden().join(file))).collect()
}

#[test]
fn every_golden_trace_has_its_verdict() {
    let output = conform([golden().to_str().expect("a path")]);
    let last = stdout(&output).lines().last().expect("a total");
    assert_eq!(last, "275 traces: 173 ok, 102 differ on purpose, 0 not supported, 0 FAIL");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output).lines().count(), 276);

    let quiet = conform([golden().to_str().expect("a path"), "--quiet"]);
    assert_eq!(stdout(&quiet).lines().collect::<Vec<_>>(), [last]);
}

#[test]
fn every_trace_of_every_group_is_answered() {
    let verdicts = verdicts(&golden());
    let mut answered: BTreeMap<String, usize> = BTreeMap::new();
    for trace in traces() {
        let verdict = &verdicts[trace["name"].as_str().expect("a name")];
        assert!(verdict["verdict"] == "ok" || verdict["verdict"] == "differs on purpose", "{verdict}");
        *answered.entry(trace["group"].as_str().expect("a group").to_owned()).or_default() += 1;
    }
    let answered: Vec<(&str, usize)> =
        answered.iter().map(|(group, count)| (group.as_str(), *count)).collect();
    assert_eq!(
        answered,
        [
            ("01_assign", 9),
            ("02_watermark_generators", 18),
            ("03_watermark_merge", 60),
            ("04_tumbling", 22),
            ("05_sliding", 11),
            ("06_session", 15),
            ("07_trigger", 21),
            ("08_evictor", 7),
            ("09_timers", 23),
            ("10_sql", 44),
            ("11_worked_examples", 13),
            ("12_random", 32)
        ]
    );
}

/// Changes to one value each: numbers by one, a null to a number, words to other words, an item of a list left out.
/// `keep` picks them by their number.
struct Changes<'a> {
    keep: &'a dyn Fn(usize) -> bool,
    number: usize,
    kept: Vec<(String, Value)>,
}

impl Changes<'_> {
    fn offer(&mut self, path: &str, value: impl FnOnce() -> Value) {
        if !is_not_compared(path) && (self.keep)(self.number) {
            self.kept.push((path.to_owned(), value()));
        }
        self.number += 1;
    }

    fn of(&mut self, value: &Value, path: &str) {
        match value {
            Value::Number(_) => self.offer(path, || {
                let more = |number: i64| number.checked_add(1).unwrap_or_else(|| number - 1);
                json!(value.as_i64().map_or(1, more))
            }),
            Value::Null => self.offer(path, || json!(1)),
            Value::Bool(flag) => self.offer(path, || json!(!flag)),
            Value::String(text) => self.offer(path, || json!(format!("not {text}"))),
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.offer(path, || {
                        let others = items.iter().enumerate().filter(|(other, _)| *other != at);
                        others.map(|(_, item)| item.clone()).collect()
                    });
                    self.of(item, &format!("{path}/{at}"));
                }
            }
            Value::Object(fields) => {
                fields.iter().for_each(|(field, value)| self.of(value, &format!("{path}/{field}")));
            }
        }
    }
}

/// Where a trace says something about Flink alone, or in the words of Flink's messages.
fn is_not_compared(path: &str) -> bool {
    ["/statuses", "/sql", "/error", "/message", "/rejected/0/error"]
        .iter()
        .any(|start| path.starts_with(start))
        || (path.starts_with("/rows/") && (path.ends_with("/error") || path.ends_with("/message")))
}

/// Writes changed copies of a trace, each under a name that says what was changed.
fn write_changes(trace: &Value, directory: &Path, keep: &dyn Fn(usize) -> bool) -> usize {
    let mut changes = Changes { keep, number: 0, kept: Vec::new() };
    changes.of(&trace["expected"], "");
    let written = changes.kept.len();
    let name = trace["name"].as_str().expect("a name");
    for (number, (path, value)) in changes.kept.into_iter().enumerate() {
        let mut changed = trace.clone();
        *changed["expected"].pointer_mut(&path).expect("the path of a value") = value;
        changed["name"] = json!(format!("{name}{path} #{number}"));
        let file = directory.join(format!("{name}.{number}.json"));
        fs::write(file, changed.to_string()).expect("written");
    }
    written
}

fn all_fail(directory: &Path, written: usize) {
    let verdicts = verdicts(directory);
    assert_eq!(verdicts.len(), written);
    let survivors: Vec<&Value> = verdicts.values().filter(|verdict| verdict["verdict"] != "FAIL").collect();
    assert!(survivors.is_empty(), "{} changes go unnoticed: {survivors:#?}", survivors.len());
}

#[test]
fn every_change_to_a_small_trace_is_a_failure() {
    let directory = tempfile::tempdir().expect("a directory");
    let verdicts = verdicts(&golden());
    let (mut written, mut ok, mut on_purpose) = (0, 0, 0);
    for trace in traces() {
        let verdict = &verdicts[trace["name"].as_str().expect("a name")]["verdict"];
        // Those that agree are many and alike.
        let limit = if verdict == "ok" { 1_200 } else { 4_000 };
        if verdict == "not supported" || trace["expected"].to_string().len() > limit {
            continue;
        }
        (ok, on_purpose) = (ok + usize::from(verdict == "ok"), on_purpose + usize::from(verdict != "ok"));
        written += write_changes(&trace, directory.path(), &|_| true);
    }
    assert!(
        written > 4_000 && ok > 60 && on_purpose > 30,
        "{written} changes of {ok} and {on_purpose} traces"
    );
    all_fail(directory.path(), written);
}

#[test]
fn changes_to_large_traces_are_failures() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut written = 0;
    for trace in traces() {
        let name = trace["name"].as_str().expect("a name");
        let step = match name {
            "random_sliding_gaps_1p" | "random_sliding_gaps_counter" | "random_sliding_1p_lateness" => 997,
            "random_members_sliding" | "merge_valve_random_1" => 101,
            "timer_random_0" | "assembler_random" => 499,
            "random_session_1p_lateness" | "random_session_3p_multiplexer_counter" => 1_999,
            "random_trigger_continuous_1p" | "random_trigger_purging_count_sliding" => 1_999,
            "random_evictor_time_sliding" => 997,
            "random_members_session" | "sql_session_delay_5s" | "sql_tumble_percentile" => 211,
            "session_merge_sets" | "window_intersects_cover" => 97,
            "sql_tumble_delay_0s" | "sql_hop_delay_5s" | "sql_tumble_unkeyed_batch" => 211,
            "sql_random_cumulate" | "sql_cumulate_offset" | "sql_cumulate_batch" => 499,
            "sql_window_rows_cumulate" | "sql_window_rows_hop" => 101,
            "assign_sliding" | "assign_tumbling" | "assign_window_start" => 1_499,
            "assign_sql_hop" | "assign_sql_cumulate" => 1_499,
            _ => continue,
        };
        written += write_changes(&trace, directory.path(), &|number| number % step == 0);
    }
    assert!(written > 100, "{written}");
    all_fail(directory.path(), written);
}

#[test]
fn an_engine_that_answers_another_question_fails() {
    // The input is changed instead of the answer, which must show as well.
    let directory = tempfile::tempdir().expect("a directory");
    let mut written = 0;
    for mut trace in traces() {
        let name = trace["name"].as_str().expect("a name").to_owned();
        let change = match name.as_str() {
            "tumbling_extreme_timestamps_high" => ("/input/0/ts", json!(1_000)),
            "sliding_gaps" => ("/spec/window/size_ms", json!(5)),
            "reject_negative_lateness" => ("/spec/allowed_lateness_ms", json!(0)),
            "reject_tumbling_offset_too_large" => ("/spec/window/offset_ms", json!(9)),
            "sql_reject_hop_size_not_multiple" => ("/spec/window/size_ms", json!(30_000)),
            "sql_reject_cumulate_size_not_multiple" => ("/spec/window/step_ms", json!(5_000)),
            "sql_cumulate_quiet_steps" => ("/spec/window/step_ms", json!(20_000)),
            "sql_window_rows_cumulate" => ("/spec/window/size_ms", json!(120_000)),
            "sql_negative_times" => ("/spec/delay_ms", json!(1)),
            "session_lateness_boundary" => ("/spec/window/gap_ms", json!(11)),
            "session_dynamic_gap" => ("/input/0/value", json!(1_000)),
            "reject_session_dynamic_zero_gap" => ("/input/0/value", json!(1)),
            "trigger_count_3" => ("/spec/trigger/n", json!(2)),
            "trigger_continuous_negative_times" => ("/spec/trigger/interval_ms", json!(20)),
            "trigger_purging_session" => ("/spec/trigger", json!({"kind": "event_time"})),
            "evictor_count_after" => ("/spec/evictor/after", json!(false)),
            "evictor_delta" => ("/spec/evictor/threshold", json!(31)),
            "idle_clock_zero_sentinel" => ("/spec/idle_timeout_ms", json!(3_000)),
            "idle_zero_timeout" => ("/spec/idle_timeout_ms", json!(1)),
            "merge_valve_all_idle_behind_output_low" => ("/spec/merge", json!("combined")),
            "timer_reregister_in_on_timer" => ("/spec/on_timer/register_delta_ms", json!(11)),
            "assembler_random" => ("/spec/abandon_ms", json!(299_999)),
            _ => continue,
        };
        *trace.pointer_mut(change.0).expect("a value") = change.1;
        fs::write(directory.path().join(format!("{name}.json")), trace.to_string()).expect("written");
        written += 1;
    }
    let verdicts = verdicts(directory.path());
    let survivors: Vec<&Value> = verdicts.values().filter(|verdict| verdict["verdict"] != "FAIL").collect();
    let names: Vec<&str> = survivors.iter().filter_map(|verdict| verdict["name"].as_str()).collect();
    assert_eq!((written, names), (22, vec![]));
}

#[test]
fn a_step_longer_than_the_size_is_refused_by_both() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut trace = read(&golden().join("sql_reject_cumulate_size_not_multiple.json"));
    trace["spec"]["window"]["step_ms"] = json!(30_000);
    fs::write(directory.path().join("trace.json"), trace.to_string()).expect("written");
    let verdicts = verdicts(directory.path());
    assert_eq!(verdicts["sql_reject_cumulate_size_not_multiple"]["verdict"], "ok", "{verdicts:?}");
}

/// Flink's own default for windows for all time is never to fire, and the engine has no such trigger.
#[test]
fn windows_that_never_fire_are_not_supported() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut trace = read(&golden().join("trigger_global_end_of_stream.json"));
    trace["spec"]["window"] = json!({"kind": "global"});
    fs::write(directory.path().join("trace.json"), trace.to_string()).expect("written");
    let verdict = &verdicts(directory.path())["trigger_global_end_of_stream"];
    assert_eq!(verdict["detail"], "windows that never fire", "{verdict}");
}

#[test]
fn exit_codes_and_messages() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let failing = |arguments: &[&str], code: i32, words: &[&str]| {
        let output = conform(arguments.iter().copied());
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + stdout(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{words:?} in {text}");
    };
    failing(&[], 2, &["Usage"]);
    failing(&[&path("absent.json")], 1, &["absent.json"]);
    failing(&[directory.path().to_str().expect("a path")], 1, &["no *.json"]);
    fs::write(path("foreign.json"), "{\"rows\": []}").expect("written");
    failing(&[&path("foreign.json")], 1, &["foreign.json", "not a trace", "event-time-golden/1"]);
    fs::write(path("broken.json"), "{").expect("written");
    failing(&[&path("broken.json")], 1, &["broken.json", "not a trace"]);
    fs::write(path("plain.json.gz"), "{}").expect("written");
    failing(&[&path("plain.json.gz")], 1, &["plain.json.gz"]);

    let mut trace = read(&golden().join("tumbling_ascending.json"));
    trace["expected"]["firings"][1]["count"] = json!(1_000);
    fs::write(path("changed.json"), trace.to_string()).expect("written");
    failing(
        &[&path("changed.json"), "--quiet"],
        1,
        &["FAIL  tumbling_ascending: firing 1: expected", "1000", "1 FAIL"],
    );
    trace["expected"]["firings"] = json!("none");
    fs::write(path("changed.json"), trace.to_string()).expect("written");
    failing(&[&path("changed.json")], 1, &["FAIL  tumbling_ascending: \"firings\" is not a list"]);
}
