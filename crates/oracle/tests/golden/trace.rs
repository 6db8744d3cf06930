//! Reading the traces.

use std::fs::File;
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value as Json;

fn read(file: &str) -> Json {
    let path = format!("{}/../../tests/golden/{file}", env!("CARGO_MANIFEST_DIR"));
    let mut opened = File::open(&path).unwrap_or_else(|e| unreachable!("{path}: {e}"));
    let mut text = String::new();
    if file.ends_with(".gz") {
        GzDecoder::new(opened).read_to_string(&mut text).expect("gzipped text");
    } else {
        opened.read_to_string(&mut text).expect("text");
    }
    serde_json::from_str(&text).expect("JSON")
}

/// All traces of a group, by the index.
pub(crate) fn group(name: &str) -> Vec<Json> {
    let index = read("index.json");
    let of_group = list(&index).iter().filter(|entry| entry["group"] == name);
    of_group.map(|entry| read(text(&entry["file"]))).collect()
}

pub(crate) fn list(json: &Json) -> &Vec<Json> {
    json.as_array().expect("a list")
}

pub(crate) fn text(json: &Json) -> &str {
    json.as_str().expect("a string")
}

/// A time: always an exact `i64`.
pub(crate) fn time(json: &Json) -> i64 {
    json.as_i64().expect("an i64")
}

pub(crate) fn index(json: &Json) -> usize {
    json.as_u64().expect("an index") as usize
}

pub(crate) fn has_tag(trace: &Json, tag: &str) -> bool {
    list(&trace["tags"]).iter().any(|t| t == tag)
}
