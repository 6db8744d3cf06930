//! The traces of generators (group 02) and of merging (group 03), all of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use serde_json::Value;

use super::super::*;
use crate::{TickUnit, TimeDelta};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

/// What a trace expects or gives: after which input, what.
type Outputs = Vec<(usize, Said)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Watermark(i64),
    Idle,
    Active,
}

fn read(file: &str) -> Value {
    let bytes = fs::read(Path::new(FOLDER).join(file)).expect("the golden traces are in tests/golden");
    if file.ends_with(".gz") {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("a gzip file");
        serde_json::from_str(&text).expect("JSON")
    } else {
        serde_json::from_slice(&bytes).expect("JSON")
    }
}

/// The traces of a kind, and how many of them there are in its group whatever the kind.
fn traces(group: &str, kind: &str) -> Vec<Value> {
    let index = read("index.json");
    let of_group: Vec<&Value> =
        index.as_array().expect("a list").iter().filter(|t| t["group"] == group).collect();
    assert!(of_group.iter().all(|trace| trace["kind"] == kind), "{group} has traces that are no {kind}");
    of_group.iter().map(|trace| read(trace["file"].as_str().expect("a file name"))).collect()
}

fn outputs(list: &Value) -> Outputs {
    let said = |item: &Value| match item["status"].as_str() {
        Some("idle") => Said::Idle,
        Some("active") => Said::Active,
        Some(other) => unreachable!("status {other}"),
        None => Said::Watermark(item["value"].as_i64().expect("a watermark")),
    };
    let at = |item: &Value| item["after_input_index"].as_u64().expect("an input index") as usize;
    list.as_array().expect("a list").iter().map(|item| (at(item), said(item))).collect()
}

fn partition_of(item: &Value) -> Option<usize> {
    ["partition", "idle", "active", "register", "unregister"]
        .iter()
        .find_map(|field| item[*field].as_u64())
        .map(|p| p as usize)
}

// Generators.

/// One generator behind Flink's emitter (`WatermarkToDataOutput`): only rising watermarks leave it, and the first of
/// them after an idle mark is preceded by an active mark.
struct Emitter {
    partition: PartitionWatermark,
    timer: Option<IdleTimer>,
    clock: i64,
    idle_now: bool,
    marked_idle: bool,
    raw: Outputs,
    emitted: Outputs,
}

impl Emitter {
    fn new(spec: &Value) -> crate::Result<Emitter> {
        let strategy = match spec["strategy"].as_str() {
            Some("bounded") => {
                let bound = spec["bound_ms"].as_i64().expect("a bound");
                WatermarkStrategy::bounded_out_of_orderness(TimeDelta::from_millis(bound))
            }
            Some("ascending") => WatermarkStrategy::ascending(),
            Some("none") => WatermarkStrategy::explicit(),
            other => unreachable!("strategy {other:?}"),
        };
        let cadence = match spec["emit"].as_str() {
            None | Some("per-record") => Cadence::EveryRow,
            Some("on-marker") => Cadence::OnRequest,
            other => unreachable!("emit {other:?}"),
        };
        let mut timer = match spec["idle_timeout_ms"].as_i64() {
            Some(timeout) => Some(IdleTimer::new(timeout * 1_000_000)?),
            None => None,
        };
        let clock = spec["clock_start_ns"].as_i64().unwrap_or(0);
        if let Some(timer) = &mut timer {
            timer.start(clock);
        }
        let partition = PartitionWatermark::new(&strategy, cadence, "ts", TickUnit::Millisecond)?;
        let (raw, emitted) = (Vec::new(), Vec::new());
        Ok(Emitter { partition, timer, clock, idle_now: false, marked_idle: false, raw, emitted })
    }

    fn step(&mut self, index: usize, item: &Value, per_record: bool) {
        let before = self.partition.emitted();
        if let Some(ts) = item["ts"].as_i64() {
            self.partition.observe(&[ts], &RecordBatch::new_empty(Schema::empty().into()), None);
            self.idle_now = false;
            if let Some(timer) = &mut self.timer {
                timer.on_row(Some(self.clock));
            }
            if per_record {
                self.offer(index, before);
            }
        } else if item["periodic"] == true {
            if self.timer.as_mut().is_some_and(|timer| timer.check(self.clock)) {
                self.mark_idle(index);
            } else {
                self.idle_now = false;
                self.partition.emit();
                self.offer(index, before);
            }
        } else {
            self.clock += item["advance_clock_ms"].as_i64().unwrap_or(0) * 1_000_000;
            self.clock += item["advance_clock_ns"].as_i64().unwrap_or(0);
        }
    }

    fn offer(&mut self, index: usize, before: i64) {
        self.raw.extend(self.partition.proposal().map(|proposal| (index, Said::Watermark(proposal))));
        if self.partition.emitted() > before {
            if std::mem::take(&mut self.marked_idle) {
                self.emitted.push((index, Said::Active));
            }
            self.emitted.push((index, Said::Watermark(self.partition.emitted())));
        }
    }

    fn mark_idle(&mut self, index: usize) {
        if !std::mem::replace(&mut self.idle_now, true) {
            self.raw.push((index, Said::Idle));
            if !std::mem::replace(&mut self.marked_idle, true) {
                self.emitted.push((index, Said::Idle));
            }
        }
    }
}

/// Where the clock of inactivity starts at the last row, and takes 0 for a time: the answers that differ from Flink's.
fn ours_of_idle_clock(name: &str) -> Option<(Outputs, Outputs)> {
    let raw = |offers: &[usize], idle: usize| -> Outputs {
        let said = |&at| (at, if at == idle { Said::Idle } else { Said::Watermark(89) });
        offers.iter().map(said).collect()
    };
    match name {
        // The last row comes at 901 ms, the check of input 9 at 2701 ms. Flink's clock starts with the check at 1801 ms.
        "idle_activity_resets" => {
            Some((raw(&[1, 2, 5, 7, 9, 13, 14], 9), vec![(1, Said::Watermark(89)), (9, Said::Idle)]))
        }
        // The row comes at 0 ms, the check of input 5 at 1001 ms. Flink's clock starts there, as 0 does not count.
        "idle_clock_zero_sentinel" => {
            Some((raw(&[1, 2, 3, 5], 5), vec![(1, Said::Watermark(89)), (5, Said::Idle)]))
        }
        _ => None,
    }
}

#[test]
fn generators_answer_as_flink() {
    let (mut same, mut ours, mut refused) = (0, 0, 0);
    for trace in traces("02_watermark_generators", "generator") {
        let name = trace["name"].as_str().expect("a name");
        let (spec, expected) = (&trace["spec"], &trace["expected"]);
        let emitter = Emitter::new(spec);
        if expected.get("error").is_some() {
            let error = emitter.map(|_| ()).expect_err(name).to_string();
            assert!(error.contains("idle_timeout: 0 is not allowed: more than zero"), "{name}: {error}");
            refused += 1;
            continue;
        }
        let mut emitter = emitter.expect(name);
        let per_record = spec["emit"] != "on-marker";
        for (index, item) in trace["input"].as_array().expect("a list").iter().enumerate() {
            emitter.step(index, item, per_record);
        }
        let flink = (outputs(&expected["raw"]), outputs(&expected["emitted"]));
        let answer = (emitter.raw, emitter.emitted);
        if let Some(different) = ours_of_idle_clock(name) {
            assert_ne!(different, flink, "{name}: no difference any more");
            assert_eq!(answer, different, "{name}");
            ours += 1;
        } else {
            assert_eq!(answer, flink, "{name}");
            same += 1;
        }
        assert_eq!(emitter.partition.regressions(), 0, "{name}");
    }
    assert_eq!((same, ours, refused), (15, 2, 1));
}

// Merging.

/// Which of Flink's classes: they differ in what statuses they pass on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Valve,
    Multiplexer,
    Combined,
}

struct Driver {
    class: Class,
    merge: WatermarkMerge,
    /// Numbers of the trace's partitions.
    numbers: BTreeMap<usize, usize>,
    /// Idle marks that wait for the periodic call.
    deferred_idle: Vec<usize>,
    /// Whether it was idle when Flink last looked.
    was_idle: bool,
    outputs: Outputs,
    rejected: Vec<usize>,
}

impl Driver {
    fn new(spec: &Value) -> Driver {
        let (class, rule) = match spec["merge"].as_str() {
            Some("valve") => (Class::Valve, Reactivation::WhenCaughtUp),
            Some("multiplexer") => (Class::Multiplexer, Reactivation::AtOnce),
            Some("combined") => (Class::Combined, Reactivation::AtOnce),
            other => unreachable!("merge {other:?}"),
        };
        let partitions = spec["partitions"].as_u64().expect("a number") as usize;
        Driver {
            class,
            merge: WatermarkMerge::new(partitions, rule),
            numbers: (0..partitions).map(|p| (p, p)).collect(),
            deferred_idle: Vec::new(),
            was_idle: false,
            outputs: Vec::new(),
            rejected: Vec::new(),
        }
    }

    fn step(&mut self, index: usize, item: &Value) {
        let before = self.merge.merged();
        let p = partition_of(item);
        let known = p.and_then(|p| self.numbers.get(&p).copied());
        let deferred = item["deferred"] == true;
        let mut looks_at_status = false;
        if let Some(watermark) = item["watermark"].as_i64() {
            let p = known.expect("a partition");
            if deferred {
                self.merge.set(p, watermark);
            } else {
                let rose = self.merge.advance(p, watermark);
                assert_eq!(rose, self.merge.merged() > before);
                // It may have woken an input up; no mark is passed on for that.
                self.was_idle = self.merge.is_idle();
            }
        } else if item["register"].is_u64() {
            match known {
                Some(_) => self.rejected.push(index),
                None => _ = self.numbers.insert(p.expect("a partition"), self.merge.add()),
            }
        } else if item["unregister"].is_u64() {
            self.numbers.remove(&p.expect("a partition"));
            assert!(!self.merge.remove(known.expect("a partition")));
        } else if item["idle"].is_u64() && deferred {
            self.deferred_idle.extend(known);
        } else {
            looks_at_status = true;
            self.mark(item, known);
        }
        if self.merge.merged() > before {
            self.outputs.push((index, Said::Watermark(self.merge.merged())));
        }
        if looks_at_status {
            self.pass_status(index);
        }
        self.merge.validate();
    }

    fn mark(&mut self, item: &Value, known: Option<usize>) {
        if item["periodic"] == true {
            for p in self.deferred_idle.drain(..) {
                self.merge.mark_idle(p);
            }
        } else if item["idle"].is_u64() {
            self.merge.mark_idle(known.expect("a partition"));
        } else if item["active"].is_u64() {
            self.merge.mark_active(known.expect("a partition"));
        } else {
            unreachable!("{item}");
        }
        // Flink's combined status looks again after each mark, the valve only where it sees a reason.
        if self.class != Class::Valve {
            self.merge.refresh();
        }
    }

    fn pass_status(&mut self, index: usize) {
        let idle = self.merge.is_idle();
        let was_idle = std::mem::replace(&mut self.was_idle, idle);
        match (self.class, was_idle, idle) {
            // Says it again whenever it looks, and never takes it back.
            (Class::Multiplexer, _, true) => self.outputs.push((index, Said::Idle)),
            (Class::Multiplexer, _, false) => {}
            (_, false, true) => self.outputs.push((index, Said::Idle)),
            (_, true, false) => self.outputs.push((index, Said::Active)),
            _ => {}
        }
    }
}

/// One input has ended, and the other goes idle: that is not the end of the stream.
fn ours_of_finished(name: &str) -> Option<Outputs> {
    let mut outputs =
        vec![(1, Said::Watermark(10)), (2, Said::Idle), (3, Said::Active), (4, Said::Watermark(11))];
    match name {
        "merge_valve_end_then_others_idle" | "merge_combined_end_then_others_idle" => {}
        "merge_multiplexer_end_then_others_idle" => _ = outputs.remove(2),
        _ => return None,
    }
    Some(outputs)
}

#[test]
fn merging_answers_as_flink() {
    let (mut same, mut ours) = (0, 0);
    for trace in traces("03_watermark_merge", "merge") {
        let name = trace["name"].as_str().expect("a name");
        let mut driver = Driver::new(&trace["spec"]);
        for (index, item) in trace["input"].as_array().expect("a list").iter().enumerate() {
            driver.step(index, item);
        }
        let expected = &trace["expected"];
        let rejected: Vec<usize> = expected["rejected"].as_array().map_or_else(Vec::new, |list| {
            list.iter().filter_map(|item| item["after_input_index"].as_u64()).map(|at| at as usize).collect()
        });
        assert_eq!(driver.rejected, rejected, "{name}");
        let flink = outputs(&expected["outputs"]);
        if let Some(different) = ours_of_finished(name) {
            assert_ne!(different, flink, "{name}: no difference any more");
            assert_eq!(driver.outputs, different, "{name}");
            ours += 1;
        } else {
            assert_eq!(driver.outputs, flink, "{name}");
            same += 1;
        }
    }
    assert_eq!((same, ours), (57, 3));
}
