//! Files and standard input as batches of one schema.
//!
//! An input is opened ([`open`]: its schema is known then), all schemas are brought together ([`unify`]), and only then
//! is it read ([`Input::read`]), so that text can be decoded in types that fit all inputs.

mod binary;
mod decode;
mod exact;
mod records;
mod text;
pub(crate) mod types;
mod unify;

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{SchemaRef, TimeUnit};

pub(crate) use unify::unify;

use crate::args::InputFormat;
use crate::failure::{Failure, Outcome};
use binary::BinaryInput;
use text::TextInput;
use types::Overrides;

/// A stream of batches.
pub(crate) trait Batches: Send {
    /// The next batch; `None` at the end.
    fn next(&mut self) -> Outcome<Option<RecordBatch>>;

    /// A place at or before the first row of the last batch; the beginning, if no other can be gone to.
    fn mark(&self) -> Mark {
        Mark::default()
    }
}

/// A place in an input from which it can be read on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Bytes before it, in text.
    pub(crate) bytes: u64,
    /// Rows before it.
    pub(crate) rows: u64,
}

/// What must be known to open an input.
#[derive(Clone, Copy)]
pub(crate) struct OpenOptions<'a> {
    pub(crate) format: Option<InputFormat>,
    pub(crate) overrides: &'a Overrides,
    pub(crate) delimiter: Option<u8>,
    /// Columns that hold times, to be read from text as such.
    pub(crate) times: &'a [&'a str],
    pub(crate) time_unit: Option<TimeUnit>,
    /// Text is handed on as it comes, however little that is.
    pub(crate) as_it_comes: bool,
    /// Columns that must be numbers for what is computed.
    pub(crate) numeric: &'a dyn Fn(&str) -> bool,
}

/// An input whose schema is known.
pub(crate) struct Input {
    /// How messages call it: the path as given, or `stdin`.
    pub(crate) name: String,
    /// Its size if that is known.
    pub(crate) size: Option<u64>,
    /// Bytes that have been read so far.
    pub(crate) bytes_read: Arc<AtomicU64>,
    body: Body,
}

enum Body {
    Text(Box<TextInput>),
    Binary(Box<BinaryInput>),
}

impl Input {
    pub(crate) fn schema(&self) -> &SchemaRef {
        match &self.body {
            Body::Text(text) => text.schema(),
            Body::Binary(binary) => binary.schema(),
        }
    }

    fn is_text(&self) -> bool {
        matches!(self.body, Body::Text(_))
    }

    fn may_lack_columns(&self) -> bool {
        matches!(&self.body, Body::Text(text) if text.may_lack_columns())
    }

    /// Batches with exactly the columns of `wanted`, which is a part of `all`, the schema of all inputs, from a place on that
    /// batches of this input have had as their [`mark`](Batches::mark).
    pub(crate) fn read(
        self,
        all: &SchemaRef,
        wanted: &SchemaRef,
        batch_rows: usize,
        from: Mark,
    ) -> Outcome<Box<dyn Batches>> {
        let name = self.name;
        let inner: Box<dyn Batches> = match self.body {
            Body::Text(text) => Box::new(text.read(all, wanted.clone(), batch_rows, from)?),
            Body::Binary(binary) => binary.read(wanted, batch_rows, from)?,
        };
        Ok(Box::new(Aligned { name, inner, wanted: wanted.clone() }))
    }
}

/// Puts columns into the order of the schema of all inputs, and forgets what is no part of the contract: metadata and
/// whether a column may hold nulls.
struct Aligned {
    name: String,
    inner: Box<dyn Batches>,
    wanted: SchemaRef,
}

impl Batches for Aligned {
    fn next(&mut self) -> Outcome<Option<RecordBatch>> {
        let Some(batch) = self.inner.next()? else { return Ok(None) };
        let column = |name: &str| batch.column_by_name(name).cloned();
        let columns = self.wanted.fields().iter().filter_map(|field| column(field.name())).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.wanted.clone(), columns, &options)
            .map(Some)
            .map_err(|error| Failure::at(&self.name, error))
    }

    fn mark(&self) -> Mark {
        self.inner.mark()
    }
}

/// Opens a path; `-` is standard input.
pub(crate) fn open(path: &Path, options: &OpenOptions<'_>) -> Outcome<Input> {
    if is_stdin(path) {
        return open_stdin(options);
    }
    let name = path.display().to_string();
    let format = match options.format {
        Some(format) => format,
        None => by_extension(path)?,
    };
    let file = File::open(path).map_err(|error| Failure::at(&name, error))?;
    let metadata = file.metadata().map_err(|error| Failure::at(&name, error))?;
    if metadata.is_dir() {
        return Err(Failure::at(&name, "is a directory; name the files in it"));
    }
    let size = metadata.is_file().then_some(metadata.len());
    let bytes_read = Arc::new(AtomicU64::new(0));
    let body = if size == Some(0) && matches!(format, InputFormat::Parquet | InputFormat::Arrow) {
        return Err(Failure::at(&name, "is empty"));
    } else if size.is_none() {
        // A pipe by name: nothing can be read twice.
        body_of_stream(&name, Box::new(file), format, delimiter_of(path), &bytes_read, options)?
    } else {
        match format {
            InputFormat::Parquet => {
                Body::Binary(Box::new(BinaryInput::parquet(&name, file, bytes_read.clone())?))
            }
            InputFormat::Arrow => Body::Binary(Box::new(BinaryInput::ipc(&name, file, bytes_read.clone())?)),
            _ => body_of_stream(&name, Box::new(file), format, delimiter_of(path), &bytes_read, options)?,
        }
    };
    Ok(Input { name, size, bytes_read, body })
}

/// Whether a path means standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Whether a path can be read twice.
pub(crate) fn is_regular_file(path: &Path) -> bool {
    !is_stdin(path) && path.metadata().is_ok_and(|metadata| metadata.is_file())
}

fn open_stdin(options: &OpenOptions<'_>) -> Outcome<Input> {
    let name = "stdin".to_string();
    let bytes_read = Arc::new(AtomicU64::new(0));
    let mut stdin = io::stdin();
    let first = first_bytes(&mut stdin).map_err(|error| Failure::at(&name, error))?;
    let format = options.format.unwrap_or_else(|| by_first_bytes(&first));
    let source: Box<dyn Read + Send> = Box::new(Cursor::new(first).chain(stdin));
    let body = body_of_stream(&name, source, format, None, &bytes_read, options)?;
    Ok(Input { name, size: None, bytes_read, body })
}

/// As many bytes as tell the format: whoever writes to a pipe may be in no hurry to give more.
fn first_bytes(source: &mut impl Read) -> io::Result<Vec<u8>> {
    const MAGIC: usize = 6;
    const MOST: usize = 1 << 10;
    let mut first = Vec::new();
    let mut block = [0; MOST];
    while first.len() < MAGIC || (first.len() < MOST && first.iter().all(u8::is_ascii_whitespace)) {
        match source.read(&mut block) {
            Ok(0) => break,
            Ok(read) => first.extend_from_slice(&block[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(first)
}

/// What a stream holds that has no name to tell it.
fn by_first_bytes(first: &[u8]) -> InputFormat {
    let text = first.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(first);
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        _ if first.starts_with(b"PAR1") => InputFormat::Parquet,
        _ if first.starts_with(b"ARROW1") || first.starts_with(&[0xFF; 4]) => InputFormat::Arrow,
        Some(b'{') => InputFormat::Ndjson,
        _ => InputFormat::Csv,
    }
}

/// A body from bytes that come once.
fn body_of_stream(
    name: &str,
    source: Box<dyn Read + Send>,
    format: InputFormat,
    delimiter: Option<u8>,
    bytes_read: &Arc<AtomicU64>,
    options: &OpenOptions<'_>,
) -> Outcome<Body> {
    let counter = bytes_read.clone();
    Ok(match format {
        InputFormat::Csv => {
            let delimiter = options.delimiter.or(delimiter).unwrap_or(b',');
            Body::Text(Box::new(TextInput::csv(name, source, counter, delimiter, options)?))
        }
        InputFormat::Ndjson => Body::Text(Box::new(TextInput::ndjson(name, source, counter, options)?)),
        InputFormat::Parquet => {
            Body::Binary(Box::new(BinaryInput::parquet(name, spool(name, source)?, counter)?))
        }
        InputFormat::Arrow => {
            let source = without_file_magic(Counted::new(source, counter.clone()));
            let whole = source.map_err(|error| Failure::at(name, error))?;
            Body::Binary(Box::new(BinaryInput::ipc_stream(name, whole, counter)?))
        }
    })
}

/// An Arrow IPC file is its magic, zeros up to some alignment, and then a stream, which is all that can be read of it
/// without looking at its end. Anything else is passed on as it is.
fn without_file_magic(mut source: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    const WORD: u64 = 8;
    let mut word = Vec::new();
    source.by_ref().take(WORD).read_to_end(&mut word)?;
    if word.starts_with(b"ARROW1") {
        loop {
            word.clear();
            source.by_ref().take(WORD).read_to_end(&mut word)?;
            if word.is_empty() || word.iter().any(|&byte| byte != 0) {
                break;
            }
        }
    }
    Ok(Box::new(Cursor::new(word).chain(source)))
}

/// Parquet is read from its end, so a stream of it goes to a temporary file first: the disk, not the memory.
fn spool(name: &str, mut source: Box<dyn Read + Send>) -> Outcome<File> {
    let copy = || -> io::Result<File> {
        let mut file = tempfile::tempfile()?;
        io::copy(&mut source, &mut file)?;
        file.flush()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    };
    let mut copy = copy;
    copy().map_err(|error| Failure::at(name, format_args!("cannot be copied to a temporary file: {error}")))
}

/// The extensions of each format; the first is the usual one.
const EXTENSIONS: [(InputFormat, &[&str]); 4] = [
    (InputFormat::Parquet, &["parquet", "pq"]),
    (InputFormat::Csv, &["csv", "tsv"]),
    (InputFormat::Ndjson, &["ndjson", "jsonl", "json"]),
    (InputFormat::Arrow, &["arrow", "arrows", "ipc", "feather"]),
];

fn extension(path: &Path) -> Option<String> {
    path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase)
}

fn by_extension(path: &Path) -> Outcome<InputFormat> {
    let given = extension(path);
    let known =
        EXTENSIONS.iter().find(|(_, names)| given.as_deref().is_some_and(|given| names.contains(&given)));
    known.map(|(format, _)| *format).ok_or_else(|| {
        let all: Vec<String> =
            EXTENSIONS.iter().flat_map(|(_, names)| names.iter()).map(|name| format!(".{name}")).collect();
        Failure::usage(format_args!(
            "{}: the extension does not tell the format; known are {}, or use --input-format",
            path.display(),
            all.join(" ")
        ))
    })
}

fn delimiter_of(path: &Path) -> Option<u8> {
    (extension(path).as_deref() == Some("tsv")).then_some(b'\t')
}

/// Counts the bytes that pass.
pub(crate) struct Counted<R> {
    inner: R,
    bytes_read: Arc<AtomicU64>,
}

impl<R> Counted<R> {
    fn new(inner: R, bytes_read: Arc<AtomicU64>) -> Self {
        Counted { inner, bytes_read }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes_read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.inner.seek(position)
    }
}

/// Opens all paths; at most one may be standard input.
pub(crate) fn open_all(paths: &[PathBuf], options: &OpenOptions<'_>) -> Outcome<Vec<Input>> {
    if paths.iter().filter(|path| is_stdin(path)).count() > 1 {
        return Err(Failure::usage("standard input (-) is given twice; it can be read once"));
    }
    paths.iter().map(|path| open(path, options)).collect()
}
