//! CSV and NDJSON: what the columns are, batches of them, and the line of what cannot be read.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::records::{Chunk, RecordReader, Splitter};
use super::types::{self, Overrides};
use super::{Batches, Mark, OpenOptions};
use crate::failure::{Failure, Outcome, plain};

/// Rows that types are inferred from.
const SAMPLE: usize = 1_000;

/// The decoder of a text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Csv { delimiter: u8 },
    Ndjson,
}

/// A text input whose first rows have been looked at.
pub(crate) struct TextInput {
    name: String,
    kind: Kind,
    records: RecordReader,
    head: Option<Chunk>,
    /// The columns in the order of the file; type Null where no value was seen.
    schema: SchemaRef,
}

impl TextInput {
    pub(crate) fn csv(
        name: &str,
        source: Box<dyn Read + Send>,
        bytes_read: Arc<AtomicU64>,
        delimiter: u8,
        options: &OpenOptions<'_>,
    ) -> Outcome<Self> {
        let mut records = RecordReader::new(source, Splitter::Csv { delimiter }, bytes_read)
            .map_err(|error| Failure::at(name, error))?
            .eager(options.as_it_comes);
        refuse_other_formats(name, records.buffered())?;
        let Chunk { bytes: header, first_line, .. } = header(&mut records, name)?;
        let head = next_chunk(&mut records, name, SAMPLE)?;
        let mut sample = header;
        sample.extend_from_slice(head.as_ref().map_or(&[], |chunk| &chunk.bytes));
        let format = arrow_csv::reader::Format::default().with_header(true).with_delimiter(delimiter);
        let kind = Kind::Csv { delimiter };
        let schema = match format.infer_schema(sample.as_slice(), None) {
            Ok((schema, _)) => schema,
            Err(error) => {
                let header = format.infer_schema(sample.as_slice(), Some(0));
                let Ok((header, _)) = header else {
                    return Err(Failure::at(format_args!("{name}:{first_line}"), header_text(&plain(error))));
                };
                let text = all_text(&header);
                return Err(locate(name, kind, records.splitter(), &text, head.as_ref(), plain(error)));
            }
        };
        refuse_duplicates(name, &schema)?;
        TextInput { name: name.into(), kind, records, head, schema: Arc::new(schema) }.settle(options)
    }

    pub(crate) fn ndjson(
        name: &str,
        source: Box<dyn Read + Send>,
        bytes_read: Arc<AtomicU64>,
        options: &OpenOptions<'_>,
    ) -> Outcome<Self> {
        let mut records = RecordReader::new(source, Splitter::Lines, bytes_read)
            .map_err(|error| Failure::at(name, error))?
            .eager(options.as_it_comes);
        refuse_other_formats(name, records.buffered())?;
        let head = next_chunk(&mut records, name, SAMPLE)?;
        let infer =
            |bytes: &[u8]| arrow_json::reader::infer_json_schema(bytes, None).map(|(schema, _)| schema);
        let inferred = match &head {
            None => Ok(Schema::empty()),
            Some(chunk) => infer(&chunk.bytes),
        };
        let schema = inferred.map_err(|error| {
            let lines = head.iter().flat_map(|chunk| Splitter::Lines.records(chunk));
            let bad = lines.into_iter().find_map(|(line, text)| infer(text).err().map(|error| (line, error)));
            match bad {
                Some((line, error)) => Failure::at(format_args!("{name}:{line}"), json_text(error)),
                None => Failure::at(name, json_text(error)),
            }
        })?;
        TextInput { name: name.into(), kind: Kind::Ndjson, records, head, schema: Arc::new(schema) }
            .settle(options)
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether a column that the file does not have is a column of nulls: so it is in JSON, where a row may leave out
    /// what it does not know.
    pub(crate) fn may_lack_columns(&self) -> bool {
        self.kind == Kind::Ndjson
    }

    /// Gives the columns the types of `--schema` and makes the time columns times.
    fn settle(mut self, options: &OpenOptions<'_>) -> Outcome<Self> {
        let mut fields = Vec::new();
        for field in self.schema.fields() {
            let data_type = match options.overrides.get(field.name()) {
                Some(given) => given.clone(),
                None if options.times.contains(&field.name().as_str()) => {
                    self.time_type(field, options.time_unit)?
                }
                None if *field.data_type() == DataType::Utf8 && (options.numeric)(field.name()) => {
                    let batches = self.texts(field.name())?;
                    types::number_type(strings(&batches))
                }
                None => field.data_type().clone(),
            };
            fields.push(Field::new(field.name(), data_type, true));
        }
        if self.kind == Kind::Ndjson {
            self.add_columns(options.overrides, &mut fields);
        }
        self.schema = Arc::new(Schema::new(fields));
        Ok(self)
    }

    /// Columns that `--schema` knows although the first rows lack them.
    fn add_columns(&self, overrides: &Overrides, fields: &mut Vec<Field>) {
        for (name, data_type) in overrides.iter() {
            if fields.iter().all(|field| field.name() != name) {
                fields.push(Field::new(name, data_type.clone(), true));
            }
        }
    }

    fn time_type(&self, field: &Field, unit: Option<TimeUnit>) -> Outcome<DataType> {
        match field.data_type() {
            DataType::Null | DataType::Utf8 | DataType::Timestamp(..) => {}
            other => return Ok(other.clone()),
        }
        let batches = self.texts(field.name())?;
        types::timestamp_type(strings(&batches), unit).map_err(|first| {
            Failure::at(
                &self.name,
                format_args!(
                    "column {:?} is no time: its first value is {first:?}; allowed are ISO 8601 text, as in \
                     2024-05-01T10:00:00Z, and whole numbers with --time-unit",
                    field.name()
                ),
            )
        })
    }

    /// A column of the first rows as it is written.
    fn texts(&self, column: &str) -> Outcome<Vec<RecordBatch>> {
        let Some(head) = &self.head else { return Ok(Vec::new()) };
        let text = all_text(&self.schema);
        let wanted: SchemaRef = Arc::new(Schema::new(vec![Field::new(column, DataType::Utf8, true)]));
        decode(self.kind, &text, &wanted, &head.bytes).map_err(|error| {
            locate(&self.name, self.kind, self.records.splitter(), &text, Some(head), plain(error))
        })
    }

    /// Batches of the columns of `wanted`, which this input has, in the types that `wanted` says.
    pub(crate) fn read(
        mut self,
        types: &Schema,
        wanted: SchemaRef,
        batch_rows: usize,
        from: Mark,
    ) -> Outcome<TextBatches> {
        if self.head.as_ref().is_some_and(|head| head.at < from.bytes) {
            self.head = None;
            let failure = |error| Failure::at(&self.name, error);
            self.records.skip_to(from.bytes).map_err(failure)?;
        }
        let typed = |field: &Arc<Field>| match types.field_with_name(field.name()) {
            Ok(known) => Field::new(field.name(), known.data_type().clone(), true),
            Err(_) => field.as_ref().clone(),
        };
        let file_schema: SchemaRef =
            Arc::new(Schema::new(self.schema.fields().iter().map(typed).collect::<Vec<_>>()));
        Ok(TextBatches {
            name: self.name,
            kind: self.kind,
            records: self.records,
            head: self.head,
            file_schema,
            wanted,
            batch_rows,
            ready: Vec::new(),
            mark: from,
            rows: from.rows,
        })
    }
}

/// The first line that is not blank. The decoder would take a carriage return within it for its end, and what follows for rows.
fn header(records: &mut RecordReader, name: &str) -> Outcome<Chunk> {
    let chunk = loop {
        match next_chunk(records, name, 1)? {
            Some(chunk) if chunk.bytes.iter().all(u8::is_ascii_whitespace) => {}
            Some(chunk) => break chunk,
            None => return Err(Failure::at(name, "is empty; a CSV file starts with a header")),
        }
    };
    let line = chunk.bytes.trim_ascii_end();
    let mut in_quotes = false;
    for &byte in line {
        in_quotes ^= byte == b'"';
        if byte == b'\r' && !in_quotes {
            return Err(Failure::at(
                format_args!("{name}:{}", chunk.first_line),
                "the header has a carriage return that no line feed follows; lines end with LF or CRLF",
            ));
        }
    }
    Ok(chunk)
}

/// What its first bytes say is no text.
fn refuse_other_formats(name: &str, first: &[u8]) -> Outcome<()> {
    let formats: [(&[u8], &str); 6] = [
        (b"\x1F\x8B", "is compressed by gzip; gzip -dc writes out what is in it"),
        (b"\x28\xB5\x2F\xFD", "is compressed by zstd; zstd -dc writes out what is in it"),
        (b"PAR1", "is a Parquet file; --input-format parquet reads it"),
        (b"ARROW1", "is an Arrow file; --input-format arrow reads it"),
        (b"\xFF\xFE", "is text in UTF-16; allowed is UTF-8"),
        (b"\xFE\xFF", "is text in UTF-16; allowed is UTF-8"),
    ];
    let found = formats.iter().find(|(magic, _)| first.starts_with(magic));
    found.map_or(Ok(()), |(_, text)| Err(Failure::at(name, text)))
}

fn header_text(text: &str) -> String {
    if text.contains("UTF-8") { "the header is no UTF-8 text".into() } else { text.to_string() }
}

fn strings(batches: &[RecordBatch]) -> impl Iterator<Item = &str> {
    batches.iter().flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten())
}

fn refuse_duplicates(name: &str, schema: &Schema) -> Outcome<()> {
    for (index, field) in schema.fields().iter().enumerate() {
        if schema.index_of(field.name()).is_ok_and(|first| first != index) {
            return Err(Failure::at(name, format_args!("the header has column {:?} twice", field.name())));
        }
    }
    Ok(())
}

fn all_text(schema: &Schema) -> SchemaRef {
    let text = |field: &Arc<Field>| Field::new(field.name(), DataType::Utf8, true);
    Arc::new(Schema::new(schema.fields().iter().map(text).collect::<Vec<_>>()))
}

fn next_chunk(records: &mut RecordReader, name: &str, rows: usize) -> Outcome<Option<Chunk>> {
    records.next_chunk(rows).map_err(|error| Failure::at(format_args!("{name}:{}", records.line()), error))
}

/// Decodes whole records.
fn decode(
    kind: Kind,
    file_schema: &SchemaRef,
    wanted: &SchemaRef,
    bytes: &[u8],
) -> Result<Vec<RecordBatch>, arrow_schema::ArrowError> {
    // Enough for any chunk: the decoder grows as rows come.
    const ROWS: usize = 8_192;
    let mut batches = Vec::new();
    match kind {
        Kind::Csv { delimiter } => {
            let indices = wanted.fields().iter().map(|field| file_schema.index_of(field.name()));
            let mut decoder = arrow_csv::ReaderBuilder::new(file_schema.clone())
                .with_delimiter(delimiter)
                .with_batch_size(ROWS)
                .with_projection(indices.collect::<Result<_, _>>()?)
                .build_decoder();
            let mut rest = bytes;
            while !rest.is_empty() {
                rest = &rest[decoder.decode(rest)?..];
                if decoder.capacity() == 0 || rest.is_empty() {
                    batches.extend(decoder.flush()?);
                }
            }
        }
        Kind::Ndjson => {
            let mut decoder = arrow_json::ReaderBuilder::new(wanted.clone())
                .with_coerce_primitive(true)
                .with_batch_size(ROWS)
                .build_decoder()?;
            let mut rest = bytes;
            while !rest.is_empty() {
                rest = &rest[decoder.decode(rest)?..];
                batches.extend(decoder.flush()?);
            }
        }
    }
    Ok(batches)
}

/// The failure to read a chunk, at the line of the first record that cannot be read alone either.
fn locate(
    name: &str,
    kind: Kind,
    splitter: Splitter,
    file_schema: &SchemaRef,
    chunk: Option<&Chunk>,
    whole: String,
) -> Failure {
    for (line, record) in chunk.into_iter().flat_map(|chunk| splitter.records(chunk)) {
        if let Err(error) = decode(kind, file_schema, file_schema, record) {
            let text = match kind {
                Kind::Csv { .. } => csv_text(&plain(error), file_schema),
                Kind::Ndjson => json_text(error),
            };
            return Failure::at(format_args!("{name}:{line}"), text);
        }
    }
    Failure::at(name, whole)
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

fn json_text(error: impl std::fmt::Display) -> String {
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

/// Batches of a text input.
pub(crate) struct TextBatches {
    name: String,
    kind: Kind,
    records: RecordReader,
    head: Option<Chunk>,
    file_schema: SchemaRef,
    wanted: SchemaRef,
    batch_rows: usize,
    /// Decoded and not yet handed out, the next one last.
    ready: Vec<RecordBatch>,
    /// Where the chunk begins that was decoded last.
    mark: Mark,
    /// Rows of all chunks that have been decoded.
    rows: u64,
}

impl Batches for TextBatches {
    fn next(&mut self) -> Outcome<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop() {
                return Ok(Some(batch));
            }
            let chunk = match self.head.take() {
                Some(chunk) => chunk,
                None => match next_chunk(&mut self.records, &self.name, self.batch_rows)? {
                    Some(chunk) => chunk,
                    None => return Ok(None),
                },
            };
            self.ready = match decode(self.kind, &self.file_schema, &self.wanted, &chunk.bytes) {
                Ok(batches) => batches,
                Err(error) => {
                    // CSV values are looked at in the columns that are read only; the place of those in the file's
                    // schema is what the message needs.
                    let schema = if self.kind == Kind::Ndjson { &self.wanted } else { &self.file_schema };
                    let splitter = self.records.splitter();
                    return Err(locate(&self.name, self.kind, splitter, schema, Some(&chunk), plain(error)));
                }
            };
            self.mark = Mark { bytes: chunk.at, rows: self.rows };
            self.rows += self.ready.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
            self.ready.reverse();
        }
    }

    fn mark(&self) -> Mark {
        self.mark
    }
}
