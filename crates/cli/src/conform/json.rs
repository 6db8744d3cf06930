//! Fields of a JSON object, or a message that names the one that is missing.

use serde_json::Value;

fn wanted(value: &Value, field: &str, what: &str) -> String {
    let mut text = value.to_string();
    if text.len() > 120 {
        text = text.chars().take(120).collect::<String>() + "...";
    }
    format!("{field:?} is not {what} in {text}")
}

pub(crate) fn int(value: &Value, field: &str) -> Result<i64, String> {
    value[field].as_i64().ok_or_else(|| wanted(value, field, "a 64-bit integer"))
}

pub(crate) fn float(value: &Value, field: &str) -> Result<f64, String> {
    value[field].as_f64().ok_or_else(|| wanted(value, field, "a number"))
}

/// An integer that may be left out.
pub(crate) fn int_or(value: &Value, field: &str, otherwise: i64) -> Result<i64, String> {
    if value[field].is_null() { Ok(otherwise) } else { int(value, field) }
}

/// An input index, a partition, a count.
pub(crate) fn index(value: &Value, field: &str) -> Result<usize, String> {
    let index = value[field].as_u64().and_then(|index| usize::try_from(index).ok());
    index.ok_or_else(|| wanted(value, field, "an index"))
}

pub(crate) fn index_or(value: &Value, field: &str, otherwise: usize) -> Result<usize, String> {
    if value[field].is_null() { Ok(otherwise) } else { index(value, field) }
}

pub(crate) fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    value[field].as_str().ok_or_else(|| wanted(value, field, "a text"))
}

pub(crate) fn list<'a>(value: &'a Value, field: &str) -> Result<&'a [Value], String> {
    value[field].as_array().map(Vec::as_slice).ok_or_else(|| wanted(value, field, "a list"))
}

pub(crate) fn indices(value: &Value, field: &str) -> Result<Vec<usize>, String> {
    let read = |item: &Value| item.as_u64().and_then(|index| usize::try_from(index).ok());
    let all = list(value, field)?.iter().map(read).collect::<Option<Vec<_>>>();
    all.ok_or_else(|| wanted(value, field, "a list of indices"))
}

/// Whether a switch is on; left out, it is off.
pub(crate) fn flag(value: &Value, field: &str) -> bool {
    value[field].as_bool().unwrap_or(false)
}
