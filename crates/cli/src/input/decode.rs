//! Records as columns, and the line and the reason if that cannot be.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::exact;
use super::records::{Chunk, Splitter};
use crate::failure::{Failure, plain};

/// The decoder of a text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Csv { delimiter: u8 },
    Ndjson,
}

/// What whole records become.
#[derive(Debug)]
pub(super) struct Decoding {
    kind: Kind,
    /// All columns of the file, in its order, as the decoder is to see them.
    file: SchemaRef,
    /// Those of the batches, as the decoder is to see them, and as they are when they leave.
    decoded: SchemaRef,
    wanted: SchemaRef,
}

impl Decoding {
    /// Batches of the columns of `wanted`, whose types are those that the user gave or can hold all there is.
    pub(super) fn new(kind: Kind, file: &SchemaRef, wanted: SchemaRef, given: &[String]) -> Self {
        Decoding { kind, file: exact::as_text(file, given), decoded: exact::as_text(&wanted, given), wanted }
    }

    /// Batches of text.
    pub(super) fn text(kind: Kind, file: &Schema, wanted: &Schema) -> Self {
        Self::new(kind, &all_text(file), all_text(wanted), &[])
    }

    /// Decodes whole records.
    pub(super) fn batches(&self, bytes: &[u8]) -> Result<Vec<RecordBatch>, ArrowError> {
        // Enough for any chunk: the decoder grows as rows come.
        const ROWS: usize = 8_192;
        let mut batches = Vec::new();
        let mut rest = bytes;
        match self.kind {
            Kind::Csv { delimiter } => {
                let indices = self.decoded.fields().iter().map(|field| self.file.index_of(field.name()));
                let mut decoder = arrow_csv::ReaderBuilder::new(self.file.clone())
                    .with_delimiter(delimiter)
                    .with_batch_size(ROWS)
                    .with_projection(indices.collect::<Result<_, _>>()?)
                    .build_decoder();
                while !rest.is_empty() {
                    rest = &rest[decoder.decode(rest)?..];
                    if decoder.capacity() == 0 || rest.is_empty() {
                        batches.extend(decoder.flush()?);
                    }
                }
            }
            Kind::Ndjson => {
                let mut decoder = arrow_json::ReaderBuilder::new(self.decoded.clone())
                    .with_coerce_primitive(true)
                    .with_batch_size(ROWS)
                    .build_decoder()?;
                while !rest.is_empty() {
                    rest = &rest[decoder.decode(rest)?..];
                    batches.extend(decoder.flush()?);
                }
            }
        }
        batches.iter().map(|batch| exact::with_times(batch, &self.wanted)).collect()
    }

    /// The failure to read a chunk, at the line of the first record that cannot be read alone either.
    pub(super) fn failure(
        &self,
        name: &str,
        splitter: Splitter,
        chunk: Option<&Chunk>,
        whole: &ArrowError,
    ) -> Failure {
        for (line, record) in chunk.into_iter().flat_map(|chunk| splitter.records(chunk)) {
            if let Err(error) = self.batches(record) {
                let text = match self.kind {
                    Kind::Csv { .. } => csv_text(&plain(error), &self.file),
                    Kind::Ndjson => json_text(error),
                };
                return Failure::at(format_args!("{name}:{line}"), text);
            }
        }
        Failure::at(name, plain(whole))
    }
}

fn all_text(schema: &Schema) -> SchemaRef {
    let text = |field: &Arc<Field>| Field::new(field.name(), DataType::Utf8, true);
    Arc::new(Schema::new(schema.fields().iter().map(text).collect::<Vec<_>>()))
}

/// Puts Arrow's words for a bad CSV value into ours, with the column's name and the way out.
fn csv_text(text: &str, schema: &Schema) -> String {
    let value_error = || {
        let rest = text.strip_prefix("Error while parsing value '")?;
        let (value, rest) = rest.split_once("' as type '")?;
        let (data_type, rest) = rest.split_once("' for column ")?;
        let (index, _) = rest.split_once(' ')?;
        let column = schema.fields().get(index.parse::<usize>().ok()?)?.name();
        Some(format!(
            "column {column:?}: cannot read {value:?} as {data_type}; --schema gives a column another type"
        ))
    };
    let time_error = || {
        let (index, rest) = text.strip_prefix("Error parsing column ")?.split_once(' ')?;
        let column = schema.fields().get(index.parse::<usize>().ok()?)?.name();
        let (_, reason) = rest.split_once(": ")?;
        Some(format!("column {column:?}: {}", plain(reason)))
    };
    let length_error = || {
        let (_, rest) = text.split_once("incorrect number of fields for line ")?;
        let (_, rest) = rest.split_once("expected ")?;
        let (expected, got) = rest.split_once(" got ")?;
        let got = got.strip_prefix("more than ").map_or_else(|| got.to_string(), |_| "more".to_string());
        let columns = if got == "1" { "column" } else { "columns" };
        Some(format!("the row has {got} {columns}, the header {expected}"))
    };
    let utf8_error = || {
        let (_, field) =
            text.strip_prefix("Encountered invalid UTF-8 data for line ")?.split_once("and field ")?;
        let column = schema.fields().get(field.parse::<usize>().ok()?.checked_sub(1)?)?.name();
        Some(format!("column {column:?}: the value is no UTF-8 text"))
    };
    utf8_error()
        .or_else(value_error)
        .or_else(time_error)
        .or_else(length_error)
        .unwrap_or_else(|| text.to_string())
}

pub(super) fn json_text(error: impl std::fmt::Display) -> String {
    // A record is decoded alone: where it stands in the file is said by others.
    let text = plain(error).replace(" at line 1 column ", " at column ");
    if text.contains("valid UTF-8") || text.contains("non-UTF-8") {
        return "the line is no UTF-8 text".into();
    }
    if ["Not valid JSON", "Truncated record"].iter().any(|start| text.starts_with(start)) {
        return format!("{text}; NDJSON has one whole object on each line");
    }
    text
}
