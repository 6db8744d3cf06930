//! Reading traces: one JSON object a file, the common layout, and the input items that most kinds share.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;

use super::json::{flag, index, index_or, int, int_or, list, text};

const FORMAT: &str = "event-time-golden/1";

/// A trace, as far as all kinds are alike.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) spec: Value,
    pub(crate) input: Vec<Value>,
    pub(crate) expected: Value,
}

/// One step of the input. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Row(Row),
    Watermark { partition: usize, value: i64, deferred: bool },
    Idle { partition: usize, deferred: bool },
    Active(usize),
    Periodic,
    Register(usize),
    Unregister(usize),
    ClockNanos(i64),
    End,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) ts: i64,
    pub(crate) key: String,
    pub(crate) value: i64,
    pub(crate) partition: usize,
}

impl Trace {
    /// Reads a file, which may be compressed. The error says what is wrong with it; the caller knows its name.
    pub(crate) fn read(path: &Path) -> Result<Trace, String> {
        let mut file = File::open(path).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        let zipped = path.extension().is_some_and(|extension| extension == "gz");
        let read =
            if zipped { GzDecoder::new(file).read_to_end(&mut bytes) } else { file.read_to_end(&mut bytes) };
        read.map_err(|error| error.to_string())?;
        let mut json: Value =
            serde_json::from_slice(&bytes).map_err(|error| format!("not a trace: {error}"))?;
        if json["format"] != FORMAT {
            return Err(format!("not a trace: \"format\" is {}, not {FORMAT:?}", json["format"]));
        }
        Ok(Trace {
            name: text(&json, "name")?.into(),
            group: text(&json, "group")?.into(),
            kind: text(&json, "kind")?.into(),
            input: list(&json, "input")?.to_vec(),
            spec: json["spec"].take(),
            expected: json["expected"].take(),
        })
    }

    pub(crate) fn items(&self) -> Result<Vec<Item>, String> {
        self.input.iter().map(item).collect()
    }

    /// Whether the other engine refused the specification.
    pub(crate) fn is_refused(&self) -> bool {
        flag(&self.spec, "expect_error") || self.expected.get("error").is_some()
    }
}

fn item(value: &Value) -> Result<Item, String> {
    let has = |field: &str| value.get(field).is_some();
    let deferred = flag(value, "deferred");
    let nanos = |field: &str, scale: i64| {
        let scaled = int_or(value, field, 0)?.checked_mul(scale);
        scaled.ok_or_else(|| format!("a clock beyond 64 bits in {value}"))
    };
    Ok(if has("ts") {
        Item::Row(Row {
            ts: int(value, "ts")?,
            key: value["key"].as_str().unwrap_or_default().into(),
            value: int_or(value, "value", 0)?,
            partition: index_or(value, "partition", 0)?,
        })
    } else if has("watermark") {
        let partition = index_or(value, "partition", 0)?;
        Item::Watermark { partition, value: int(value, "watermark")?, deferred }
    } else if has("idle") {
        Item::Idle { partition: index(value, "idle")?, deferred }
    } else if has("active") {
        Item::Active(index(value, "active")?)
    } else if flag(value, "periodic") {
        Item::Periodic
    } else if has("register") {
        Item::Register(index(value, "register")?)
    } else if has("unregister") {
        Item::Unregister(index(value, "unregister")?)
    } else if has("advance_clock_ms") || has("advance_clock_ns") {
        Item::ClockNanos(nanos("advance_clock_ms", 1_000_000)?.saturating_add(nanos("advance_clock_ns", 1)?))
    } else if flag(value, "end") {
        Item::End
    } else {
        return Err(format!("unknown input item {value}"));
    })
}

/// The traces behind the arguments: files as they are given, and of a directory every `.json` and `.json.gz` by name,
/// but for the index.
pub(crate) fn files(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for argument in arguments {
        if !argument.is_dir() {
            files.push(argument.clone());
            continue;
        }
        let at = |error: std::io::Error| format!("{}: {error}", argument.display());
        let mut found = Vec::new();
        for entry in fs::read_dir(argument).map_err(at)? {
            let entry = entry.map_err(at)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if (name.ends_with(".json") || name.ends_with(".json.gz")) && name != "index.json" {
                found.push(entry.path());
            }
        }
        if found.is_empty() {
            return Err(format!("{}: no *.json or *.json.gz in this directory", argument.display()));
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}
