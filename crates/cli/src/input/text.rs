//! CSV and NDJSON: what the columns are, batches of them, and the line of what cannot be read.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::decode::{Decoding, Kind, json_text};
use super::records::{Chunk, RecordReader, Splitter};
use super::types::{self, Overrides};
use super::{Batches, Mark, OpenOptions};
use crate::failure::{Failure, Outcome, plain};

/// Rows that types are inferred from.
const SAMPLE: usize = 1_000;

/// A text input whose first rows have been looked at.
pub(crate) struct TextInput {
    name: String,
    kind: Kind,
    records: RecordReader,
    head: Option<Chunk>,
    /// The columns in the order of the file; type Null where no value was seen.
    schema: SchemaRef,
    /// Columns whose type was not inferred.
    given: Vec<String>,
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
                let text = Decoding::text(kind, &header, &header);
                return Err(text.failure(name, records.splitter(), head.as_ref(), &error));
            }
        };
        refuse_duplicates(name, &schema)?;
        TextInput { name: name.into(), kind, records, head, schema: Arc::new(schema), given: vec![] }
            .settle(options)
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
        TextInput {
            name: name.into(),
            kind: Kind::Ndjson,
            records,
            head,
            schema: Arc::new(schema),
            given: vec![],
        }
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
        self.given.extend(options.overrides.iter().map(|(name, _)| name.to_string()));
        if options.time_unit.is_some() {
            self.given.extend(options.times.iter().map(|name| name.to_string()));
        }
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
        let wanted = Schema::new(vec![Field::new(column, DataType::Utf8, true)]);
        let text = Decoding::text(self.kind, &self.schema, &wanted);
        text.batches(&head.bytes)
            .map_err(|error| text.failure(&self.name, self.records.splitter(), Some(head), &error))
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
            decoding: Decoding::new(self.kind, &file_schema, wanted, &self.given),
            records: self.records,
            head: self.head,
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

fn next_chunk(records: &mut RecordReader, name: &str, rows: usize) -> Outcome<Option<Chunk>> {
    records.next_chunk(rows).map_err(|error| Failure::at(format_args!("{name}:{}", records.line()), error))
}

/// Batches of a text input.
pub(crate) struct TextBatches {
    name: String,
    decoding: Decoding,
    records: RecordReader,
    head: Option<Chunk>,
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
            self.ready = self.decoding.batches(&chunk.bytes).map_err(|error| {
                self.decoding.failure(&self.name, self.records.splitter(), Some(&chunk), &error)
            })?;
            self.mark = Mark { bytes: chunk.at, rows: self.rows };
            self.rows += self.ready.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
            self.ready.reverse();
        }
    }

    fn mark(&self) -> Mark {
        self.mark
    }
}
