//! The key column of the benchmark workloads.

use std::sync::Arc;

use arrow_array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, StringArray, builder::StringBuilder};
use arrow_schema::{ArrowError, DataType};

use super::arrivals::Arrival;
use super::draw::{Column, Draw};
use super::spec::{KeyType, Spec};
use super::tables::Alias;

/// Draws keys: uniform or Zipf.
pub(crate) struct Picker {
    draw: Draw,
    choice: Choice,
}

enum Choice {
    Uniform(u64),
    Zipf(Alias),
}

impl Picker {
    /// Zipf ranks get their ids by a seeded permutation if `scatter`, so that hot keys do not lie side by side;
    /// otherwise key 0 is the hottest.
    pub(crate) fn new(spec: &Spec, scatter: bool) -> Self {
        let choice = if spec.zipf == 0.0 {
            Choice::Uniform(spec.keys)
        } else {
            let n = spec.keys as u32;
            let ids = if scatter {
                Draw::new(spec.seed, Column::KeyOrder).permutation(n)
            } else {
                (0..n).collect()
            };
            Choice::Zipf(Alias::zipf(spec.zipf, &ids))
        };
        Picker { draw: Draw::new(spec.seed, Column::Key), choice }
    }

    /// One value per row, made of its key.
    #[inline]
    pub(crate) fn map<T>(&self, rows: &[Arrival], make: impl Fn(u64) -> T) -> Vec<T> {
        match &self.choice {
            Choice::Uniform(n) => rows.iter().map(|row| make(self.draw.below(row.event, *n))).collect(),
            Choice::Zipf(alias) => {
                rows.iter().map(|row| make(u64::from(alias.at(self.draw.bits(row.event))))).collect()
            }
        }
    }
}

/// Keys as a column of the wanted type.
pub(crate) struct KeyColumn {
    picker: Picker,
    key_type: KeyType,
    /// The values of a dictionary column, shared by all batches.
    names: Option<ArrayRef>,
}

impl KeyColumn {
    pub(crate) fn new(spec: &Spec) -> Self {
        let names = (spec.key_type == KeyType::Dictionary).then(|| {
            let width = (spec.keys - 1).to_string().len().max(2);
            let names = (0..spec.keys).map(|key| format!("model-{key:0width$}"));
            Arc::new(StringArray::from_iter_values(names)) as ArrayRef
        });
        KeyColumn { picker: Picker::new(spec, true), key_type: spec.key_type, names }
    }

    pub(crate) fn array(&self, rows: &[Arrival]) -> Result<ArrayRef, ArrowError> {
        Ok(match (self.key_type, &self.names) {
            (KeyType::Dictionary, Some(names)) => {
                let keys = Int32Array::from(self.picker.map(rows, |key| key as i32));
                Arc::new(DictionaryArray::try_new(keys, names.clone())?)
            }
            (KeyType::I64, _) => Arc::new(Int64Array::from(self.picker.map(rows, |key| key as i64))),
            (KeyType::Utf8, _) => Arc::new(texts(&self.picker.map(rows, |key| key))),
            (KeyType::I32 | KeyType::Dictionary, _) => {
                Arc::new(Int32Array::from(self.picker.map(rows, |key| key as i32)))
            }
        })
    }
}

pub(crate) fn data_type(key_type: KeyType) -> DataType {
    match key_type {
        KeyType::I32 => DataType::Int32,
        KeyType::I64 => DataType::Int64,
        KeyType::Utf8 => DataType::Utf8,
        KeyType::Dictionary => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    }
}

/// `key-00000042`
fn texts(keys: &[u64]) -> StringArray {
    let mut builder = StringBuilder::with_capacity(keys.len(), keys.len() * 12);
    let mut text = *b"key-00000000";
    for &key in keys {
        let mut rest = key;
        for digit in text[4..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        builder.append_value(std::str::from_utf8(&text).unwrap_or_default());
    }
    builder.finish()
}
