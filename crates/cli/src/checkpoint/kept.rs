//! An output that can be cut back to what was committed.
//!
//! Until the end it has a name of its own beside its place, always the same, so that the next run finds it. It may be longer
//! than what was committed, by what the killed run had written since.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_csv::writer::WriterBuilder as CsvWriterBuilder;
use arrow_json::writer::{LineDelimited, WriterBuilder as JsonWriterBuilder};
use arrow_schema::SchemaRef;
use crc32fast::Hasher;

use super::sync_directory_of;
use crate::args::OutputFormat;
use crate::failure::{Failure, Outcome, plain};
use crate::output::write_failure;

/// What is sure to be in an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) bytes: u64,
    /// Of these bytes.
    pub(crate) crc: u32,
}

/// Counts the bytes that pass, and sums them up.
struct Summed {
    file: BufWriter<File>,
    hasher: Hasher,
    bytes: u64,
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    /// Every batch ends with a flush, and there may be many small ones.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An open output of this kind.
pub(crate) struct Kept {
    path: PathBuf,
    format: OutputFormat,
    out: Summed,
}

/// Where an output is until it is complete.
fn part_of(path: &Path) -> PathBuf {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    path.with_file_name(format!(".{name}.part"))
}

impl Kept {
    /// A new one, with the header if the format has one.
    pub(crate) fn create(path: &Path, format: OutputFormat, schema: &SchemaRef) -> Outcome<Self> {
        let file = File::create(part_of(path)).map_err(|error| write_failure(path, &error.to_string()))?;
        let mut kept = Kept::new(path, format, file, Hasher::new(), 0);
        if format == OutputFormat::Csv {
            let mut csv = CsvWriterBuilder::new().with_header(true).build(&mut kept.out);
            let header = csv.write(&RecordBatch::new_empty(schema.clone()));
            drop(csv);
            header.map_err(|error| write_failure(path, &plain(error)))?;
        }
        Ok(kept)
    }

    /// One that there is, cut back to what was committed.
    pub(crate) fn cut(path: &Path, format: OutputFormat, committed: Committed) -> Outcome<Self> {
        let part = part_of(path);
        let failure = |text: String| {
            Failure::at(
                part.display(),
                format_args!("{text}; remove the checkpoint's directory to start over"),
            )
        };
        if !part.exists() && path.exists() {
            // the run was killed when it had put its outputs into their places, but before it said so
            fs::rename(path, &part).map_err(|error| failure(error.to_string()))?;
        }
        let open = || -> io::Result<(File, Hasher, u64)> {
            let mut file = File::options().read(true).write(true).open(&part)?;
            let (hasher, bytes) = sum(&mut (&file).take(committed.bytes))?;
            if bytes == committed.bytes {
                file.set_len(bytes)?;
                file.seek(SeekFrom::Start(bytes))?;
            }
            Ok((file, hasher, bytes))
        };
        let (file, hasher, bytes) = open().map_err(|error| failure(error.to_string()))?;
        if bytes < committed.bytes {
            return Err(failure(format!("has {bytes} bytes, but {} had been committed", committed.bytes)));
        }
        if hasher.clone().finalize() != committed.crc {
            return Err(failure("has been changed since the checkpoint".into()));
        }
        Ok(Kept::new(path, format, file, hasher, bytes))
    }

    fn new(path: &Path, format: OutputFormat, file: File, hasher: Hasher, bytes: u64) -> Self {
        let file = BufWriter::with_capacity(64 << 10, file);
        Kept { path: path.into(), format, out: Summed { file, hasher, bytes } }
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        match self.format {
            OutputFormat::Csv => {
                CsvWriterBuilder::new().with_header(false).build(&mut self.out).write(batch).map_err(plain)
            }
            _ => JsonWriterBuilder::new()
                .with_explicit_nulls(true)
                .build::<_, LineDelimited>(&mut self.out)
                .write(batch)
                .map_err(plain),
        }
    }

    /// Makes everything outlast a crash of the machine.
    pub(crate) fn commit(&mut self) -> Outcome<Committed> {
        let synced = self.out.file.flush().and_then(|()| self.out.file.get_ref().sync_all());
        synced.map_err(|error| write_failure(&self.path, &error.to_string()))?;
        sync_directory_of(&self.path)?;
        Ok(Committed { bytes: self.out.bytes, crc: self.out.hasher.clone().finalize() })
    }

    /// Completes it: now it has its name.
    pub(crate) fn finish(mut self) -> Outcome<()> {
        self.commit()?;
        fs::rename(part_of(&self.path), &self.path)
            .map_err(|error| write_failure(&self.path, &error.to_string()))?;
        sync_directory_of(&self.path)
    }
}

/// The checksum of what is left to be read, and how many bytes that is.
pub(super) fn sum(source: &mut impl Read) -> io::Result<(Hasher, u64)> {
    let (mut hasher, mut bytes) = (Hasher::new(), 0);
    let mut block = vec![0; 64 << 10];
    loop {
        match source.read(&mut block)? {
            0 => return Ok((hasher, bytes)),
            read => {
                hasher.update(&block[..read]);
                bytes += read as u64;
            }
        }
    }
}
