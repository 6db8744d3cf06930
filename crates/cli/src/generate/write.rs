//! Streams to files, one batch at a time.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_json::writer::{LineDelimited, Writer as JsonWriter, WriterBuilder as JsonBuilder};
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::error::Error;
use super::stream::Stream;

/// Rows of a row group in a Parquet file.
const ROW_GROUP_ROWS: usize = 1_000_000;
/// The same when many files are open at once.
const SPLIT_ROW_GROUP_ROWS: usize = 131_072;
/// Files that may be open at once.
const MAX_FILES: usize = 1_000;

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Parquet, zstd (.parquet, .pq)
    Parquet,
    /// CSV with a header; times as ISO text (.csv)
    Csv,
    /// One JSON object a line; times as ISO text (.ndjson, .jsonl, .json)
    Ndjson,
    /// Arrow IPC file (.arrow, .feather, .ipc)
    Arrow,
    /// Arrow IPC stream (.arrows)
    #[value(alias = "arrow-stream")]
    Arrows,
}

impl Format {
    /// The format that the extension of a path stands for.
    pub fn of_path(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "parquet" | "pq" => Format::Parquet,
            "csv" => Format::Csv,
            "ndjson" | "jsonl" | "json" => Format::Ndjson,
            "arrow" | "feather" | "ipc" => Format::Arrow,
            "arrows" => Format::Arrows,
            _ => return None,
        })
    }
}

/// Writes a stream to one file, or to standard output if the path is `-`. Whoever reads standard output may stop
/// early: that is no error.
pub fn write(stream: Stream, path: &Path, format: Format) -> Result<(), Error> {
    let mut sink = Sink::open(path, format, stream.schema(), ROW_GROUP_ROWS)?;
    for batch in stream {
        if !sink.write(&batch?)? {
            return Ok(());
        }
    }
    sink.close()
}

/// Writes each partition to a file of its own, `name-0.csv`, `name-1.csv`, ... for the path `name.csv`; returns their
/// paths. Partitions without rows get a file too.
pub fn write_split(stream: Stream, path: &Path, format: Format) -> Result<Vec<PathBuf>, Error> {
    let stream = stream.split();
    if stream.partitions() > MAX_FILES {
        let given = format!("{} with --split", stream.partitions());
        return Err(Error::invalid("--partitions", given, format!("1 to {MAX_FILES} with --split")));
    }
    let paths: Vec<PathBuf> = (0..stream.partitions()).map(|partition| split_path(path, partition)).collect();
    let open = |path: &PathBuf| Sink::open(path, format, stream.schema(), SPLIT_ROW_GROUP_ROWS);
    let mut sinks = paths.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    for part in stream {
        let (partition, batch) = part?;
        sinks[partition].write(&batch)?;
    }
    sinks.into_iter().try_for_each(Sink::close)?;
    Ok(paths)
}

/// Writes one batch to a file.
pub(crate) fn write_table(table: &RecordBatch, path: &Path, format: Format) -> Result<(), Error> {
    let mut sink = Sink::open(path, format, &table.schema(), ROW_GROUP_ROWS)?;
    sink.write(table)?;
    sink.close()
}

fn split_path(path: &Path, partition: usize) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{partition}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

type Out = BufWriter<Box<dyn Write + Send>>;

struct Sink {
    path: PathBuf,
    writer: Writer,
    /// Set when nobody reads standard output any more.
    unread: Arc<AtomicBool>,
}

enum Writer {
    Parquet(Box<ArrowWriter<Out>>),
    Csv(Box<arrow_csv::Writer<Out>>),
    Ndjson(Box<JsonWriter<Out, LineDelimited>>),
    Arrow(Box<FileWriter<Out>>),
    Arrows(Box<StreamWriter<Out>>),
}

impl Sink {
    fn open(path: &Path, format: Format, schema: &SchemaRef, row_group_rows: usize) -> Result<Self, Error> {
        let failed = |source: ArrowError| Error::Write { path: path.to_owned(), source };
        let unread = Arc::new(AtomicBool::new(false));
        let target: Box<dyn Write + Send> = if path.as_os_str() == "-" {
            Box::new(Pipe { out: io::stdout(), unread: unread.clone() })
        } else {
            Box::new(File::create(path).map_err(|error| failed(error.into()))?)
        };
        let out = BufWriter::with_capacity(1 << 16, target);
        let writer = Writer::new(out, format, schema, row_group_rows).map_err(failed)?;
        Ok(Sink { path: path.to_owned(), writer, unread })
    }

    /// Says whether there is any use in writing more.
    fn write(&mut self, batch: &RecordBatch) -> Result<bool, Error> {
        let done = self.writer.write(batch);
        self.judge(done)
    }

    fn close(mut self) -> Result<(), Error> {
        let done = self.writer.finish();
        self.judge(done).map(|_| ())
    }

    fn judge(&self, done: Result<(), ArrowError>) -> Result<bool, Error> {
        match done {
            Ok(()) => Ok(true),
            Err(_) if self.unread.load(Ordering::Relaxed) => Ok(false),
            Err(source) => Err(Error::Write { path: self.path.clone(), source }),
        }
    }
}

impl Writer {
    fn new(out: Out, format: Format, schema: &SchemaRef, row_group_rows: usize) -> Result<Self, ArrowError> {
        // Three decimals always, so that columns line up; a zone only where the column has one.
        let plain = "%Y-%m-%dT%H:%M:%S%.3f".to_owned();
        let utc = format!("{plain}Z");
        Ok(match format {
            Format::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
                    .set_max_row_group_row_count(Some(row_group_rows))
                    .build();
                Writer::Parquet(Box::new(ArrowWriter::try_new(out, schema.clone(), Some(properties))?))
            }
            Format::Csv => {
                let builder = arrow_csv::WriterBuilder::new();
                let builder = builder.with_timestamp_format(plain).with_timestamp_tz_format(utc);
                let mut writer = builder.build(out);
                // The header, even if no row follows.
                writer.write(&RecordBatch::new_empty(schema.clone()))?;
                Writer::Csv(Box::new(writer))
            }
            Format::Ndjson => {
                let builder = JsonBuilder::new().with_explicit_nulls(true);
                let builder = builder.with_timestamp_format(plain).with_timestamp_tz_format(utc);
                Writer::Ndjson(Box::new(builder.build(out)))
            }
            Format::Arrow => Writer::Arrow(Box::new(FileWriter::try_new(out, schema)?)),
            Format::Arrows => Writer::Arrows(Box::new(StreamWriter::try_new(out, schema)?)),
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        match self {
            Writer::Parquet(writer) => Ok(writer.write(batch)?),
            Writer::Csv(writer) => writer.write(batch),
            Writer::Ndjson(writer) => writer.write(batch),
            Writer::Arrow(writer) => writer.write(batch),
            Writer::Arrows(writer) => writer.write(batch),
        }
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        match self {
            Writer::Parquet(writer) => {
                writer.finish()?;
                Ok(writer.inner_mut().flush().map_err(ParquetError::from)?)
            }
            // Every write is flushed already.
            Writer::Csv(_) => Ok(()),
            Writer::Ndjson(writer) => {
                writer.finish()?;
                Ok(writer.get_mut().flush()?)
            }
            Writer::Arrow(writer) => {
                writer.finish()?;
                Ok(writer.get_mut().flush()?)
            }
            Writer::Arrows(writer) => {
                writer.finish()?;
                Ok(writer.get_mut().flush()?)
            }
        }
    }
}

/// Standard output that remembers whether its reader has gone.
struct Pipe {
    out: io::Stdout,
    unread: Arc<AtomicBool>,
}

impl Pipe {
    fn note<T>(&self, done: io::Result<T>) -> io::Result<T> {
        if done.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            self.unread.store(true, Ordering::Relaxed);
        }
        done
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.note(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.flush();
        self.note(done)
    }
}
