//! Where batches are written: a format over a file or standard output.
//!
//! A file takes its name when it is complete (see [`crate::fresh`]), so that nobody ever sees half
//! of one under it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use arrow_csv::writer::{Writer as CsvWriter, WriterBuilder as CsvWriterBuilder};
use arrow_ipc::writer::FileWriter;
use arrow_json::writer::{LineDelimited, Writer as JsonWriter, WriterBuilder as JsonWriterBuilder};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::args::OutputFormat;
use crate::checkpoint::{Committed, Kept};
use crate::failure::{Failure, Outcome, plain};
use crate::fresh::Fresh;
use crate::table::Table;
use crate::text::readable;

/// Rows of a Parquet row group, which is held in memory until it is full.
const ROW_GROUP: usize = 65_536;

/// Whether the reader of standard output has gone. There is one standard output.
static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether a path means standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The place that a path means, by whichever of its names: `./a.csv` is `a.csv`, and so is a link to it.
pub(crate) fn place_of(path: &Path) -> PathBuf {
    if let Ok(place) = path.canonicalize() {
        return place;
    }
    let directory = directory_of(path).canonicalize();
    directory.ok().zip(path.file_name()).map_or_else(|| path.into(), |(directory, name)| directory.join(name))
}

pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The file that a link leads to: that one is replaced, and the link stays.
fn through_links(path: &Path) -> PathBuf {
    let leads_to_file = path.is_symlink() && path.metadata().is_ok_and(|metadata| metadata.is_file());
    if leads_to_file { place_of(path) } else { path.into() }
}

/// What bytes go to.
enum Raw {
    Stdout(io::Stdout),
    /// A file that takes its name at the end.
    Fresh(Fresh),
    /// What is not a plain file: a device, a pipe.
    Direct(File),
}

impl Write for Raw {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Raw::Stdout(stdout) => note_closed(stdout.write(bytes)),
            Raw::Fresh(file) => file.write(bytes),
            Raw::Direct(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Raw::Stdout(stdout) => note_closed(stdout.flush()),
            Raw::Fresh(file) => file.flush(),
            Raw::Direct(file) => file.flush(),
        }
    }
}

fn note_closed<T>(result: io::Result<T>) -> io::Result<T> {
    if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        STDOUT_CLOSED.store(true, Ordering::Relaxed);
    }
    result
}

type Bytes = BufWriter<Raw>;

enum Encoder {
    Table(Table<Bytes>),
    Csv(Box<CsvWriter<Bytes>>),
    Ndjson(JsonWriter<Bytes, LineDelimited>),
    Parquet(Box<ArrowWriter<Bytes>>),
    Arrow(Box<FileWriter<Bytes>>),
    Kept(Box<Kept>),
}

/// An open output.
pub(crate) struct Sink {
    path: PathBuf,
    schema: SchemaRef,
    encoder: Encoder,
}

/// The format that a path asks for by its extension.
pub(crate) fn format_of(path: &Path) -> Option<OutputFormat> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "csv" => Some(OutputFormat::Csv),
        "ndjson" | "jsonl" | "json" => Some(OutputFormat::Ndjson),
        "parquet" | "pq" => Some(OutputFormat::Parquet),
        "arrow" | "ipc" | "feather" => Some(OutputFormat::Arrow),
        "txt" => Some(OutputFormat::Table),
        _ => None,
    }
}

impl Sink {
    /// Opens `path` for batches of a schema. `flag` is named in messages.
    pub(crate) fn create(flag: &str, path: &Path, format: OutputFormat, schema: &SchemaRef) -> Outcome<Self> {
        let schema = written_as(flag, path, format, schema)?;
        let path = &through_links(path);
        let raw = if is_stdout(path) {
            Raw::Stdout(io::stdout())
        } else {
            open(path)
                .map_err(|error| Failure::at(path.display(), format_args!("cannot be written: {error}")))?
        };
        let mut sink = Sink { path: path.into(), encoder: encoder(format, raw, &schema, path)?, schema };
        // A CSV file without rows still has its header.
        if let Encoder::Csv(_) = sink.encoder {
            sink.write(&RecordBatch::new_empty(sink.schema.clone()))?;
        }
        Ok(sink)
    }

    /// Opens `path` for a run with checkpoints: with nothing in it, or with what was committed.
    pub(crate) fn keep(
        flag: &str,
        path: &Path,
        format: OutputFormat,
        schema: &SchemaRef,
        committed: Option<Committed>,
    ) -> Outcome<Self> {
        let schema = written_as(flag, path, format, schema)?;
        let path = &through_links(path);
        let kept = match committed {
            Some(committed) => Kept::cut(path, format, committed)?,
            None => Kept::create(path, format, &schema)?,
        };
        Ok(Sink { path: path.into(), encoder: Encoder::Kept(Box::new(kept)), schema })
    }

    /// Makes what has been written outlast a crash; `None` if it is not kept for that.
    pub(crate) fn commit(&mut self) -> Outcome<Option<Committed>> {
        match &mut self.encoder {
            Encoder::Kept(kept) => kept.commit().map(Some),
            _ => Ok(None),
        }
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Outcome<()> {
        let columns = batch.columns().iter().zip(self.schema.fields()).map(|(column, field)| {
            if column.data_type() == field.data_type() {
                return Ok(column.clone());
            }
            arrow_cast::cast(column, field.data_type())
        });
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(Failure::run)?;
        let batch = RecordBatch::try_new(self.schema.clone(), columns).map_err(Failure::run)?;
        let written = match &mut self.encoder {
            Encoder::Table(table) => table.write(&readable(batch)?).map_err(|error| error.to_string()),
            Encoder::Csv(csv) => csv.write(&readable(batch)?).map_err(plain),
            Encoder::Ndjson(json) => json.write(&readable(batch)?).map_err(plain),
            Encoder::Parquet(parquet) => parquet.write(&batch).map_err(plain),
            Encoder::Arrow(arrow) => arrow.write(&batch).map_err(plain),
            Encoder::Kept(kept) => kept.write(&readable(batch)?),
        };
        written.map_err(|text| self.failure(&text))
    }

    /// Lets whoever reads along see what has been written. A file and what comes in pieces wait for the end.
    pub(crate) fn flush(&mut self) -> Outcome<()> {
        let flushed = match &mut self.encoder {
            Encoder::Table(table) => table.flush(),
            Encoder::Ndjson(json) => json.get_mut().flush(),
            Encoder::Csv(_) | Encoder::Parquet(_) | Encoder::Arrow(_) | Encoder::Kept(_) => Ok(()),
        };
        flushed.map_err(|error| self.failure(&error.to_string()))
    }

    /// Completes the output; only now does a file have its name.
    pub(crate) fn finish(self) -> Outcome<()> {
        let path = self.path;
        let bytes = match self.encoder {
            Encoder::Table(table) => table.finish().map_err(|error| error.to_string()),
            Encoder::Csv(csv) => Ok(csv.into_inner()),
            Encoder::Ndjson(mut json) => json.finish().map(|()| json.into_inner()).map_err(plain),
            Encoder::Parquet(parquet) => parquet.into_inner().map_err(plain),
            Encoder::Arrow(arrow) => arrow.into_inner().map_err(plain),
            Encoder::Kept(kept) => return kept.finish(),
        };
        let done = bytes.and_then(|bytes| {
            let mut raw = bytes.into_inner().map_err(|error| error.to_string())?;
            raw.flush().map_err(|error| error.to_string())?;
            match raw {
                Raw::Fresh(file) => file.persist(&path).map_err(|error| error.to_string()),
                Raw::Stdout(_) | Raw::Direct(_) => Ok(()),
            }
        });
        done.map_err(|text| write_failure(&path, &text))
    }

    fn failure(&self, text: &str) -> Failure {
        write_failure(&self.path, text)
    }
}

/// The columns as they are written; refuses those that the format cannot hold.
fn written_as(flag: &str, path: &Path, format: OutputFormat, schema: &SchemaRef) -> Outcome<SchemaRef> {
    let schema = Arc::new(Schema::new(schema.fields().iter().map(|field| flat(field)).collect::<Vec<_>>()));
    match schema.fields().iter().find(|field| field.data_type().is_nested()) {
        Some(field) if format == OutputFormat::Csv => Err(Failure::usage(format_args!(
            "{flag} {}: CSV cannot hold column {:?} of type {}; .ndjson, .parquet and .arrow can",
            path.display(),
            field.name(),
            field.data_type()
        ))),
        _ => Ok(schema),
    }
}

pub(crate) fn write_failure(path: &Path, text: &str) -> Failure {
    if is_stdout(path) && STDOUT_CLOSED.load(Ordering::Relaxed) {
        return Failure::ClosedPipe;
    }
    let place = if is_stdout(path) { "standard output".into() } else { path.display().to_string() };
    Failure::at(place, format_args!("cannot be written: {text}"))
}

/// Dictionaries differ from batch to batch, and few formats can follow that: values are written as such.
fn flat(field: &Field) -> Field {
    match field.data_type() {
        DataType::Dictionary(_, values) => {
            Field::new(field.name(), values.as_ref().clone(), field.is_nullable())
        }
        _ => field.clone(),
    }
}

fn encoder(format: OutputFormat, raw: Raw, schema: &SchemaRef, path: &Path) -> Outcome<Encoder> {
    let bytes = BufWriter::with_capacity(64 << 10, raw);
    Ok(match format {
        OutputFormat::Table => Encoder::Table(Table::new(bytes, schema)),
        OutputFormat::Csv => Encoder::Csv(Box::new(CsvWriterBuilder::new().with_header(true).build(bytes))),
        OutputFormat::Ndjson => {
            Encoder::Ndjson(JsonWriterBuilder::new().with_explicit_nulls(true).build(bytes))
        }
        OutputFormat::Parquet => {
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::default()))
                .set_max_row_group_row_count(Some(ROW_GROUP))
                .build();
            let writer = ArrowWriter::try_new(bytes, schema.clone(), Some(properties));
            Encoder::Parquet(Box::new(writer.map_err(|error| write_failure(path, &plain(error)))?))
        }
        OutputFormat::Arrow => {
            let writer = FileWriter::try_new(bytes, schema);
            Encoder::Arrow(Box::new(writer.map_err(|error| write_failure(path, &plain(error)))?))
        }
    })
}

fn open(path: &Path) -> io::Result<Raw> {
    if let Ok(metadata) = path.metadata() {
        if metadata.is_dir() {
            return Err(io::Error::other("it is a directory"));
        }
        if !metadata.is_file() {
            return File::options().write(true).open(path).map(Raw::Direct);
        }
    }
    Fresh::for_place(path).map(Raw::Fresh)
}

/// Writes a whole text to a path or standard output.
pub(crate) fn write_text(path: &Path, text: &str) -> Outcome<()> {
    let write = || -> io::Result<()> {
        if is_stdout(path) {
            let mut stdout = Raw::Stdout(io::stdout());
            stdout.write_all(text.as_bytes())?;
            return stdout.flush();
        }
        let path = &through_links(path);
        match open(path)? {
            Raw::Fresh(mut file) => {
                file.write_all(text.as_bytes())?;
                file.persist(path)
            }
            mut other => other.write_all(text.as_bytes()),
        }
    };
    write().map_err(|error| write_failure(path, &error.to_string()))
}
