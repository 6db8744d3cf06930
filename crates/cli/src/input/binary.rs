//! Parquet and Arrow IPC.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::{Batches, Counted, Mark};
use crate::failure::{Failure, Outcome, plain};

/// A binary input whose schema has been read.
pub(crate) struct BinaryInput {
    name: String,
    schema: SchemaRef,
    bytes_read: Arc<AtomicU64>,
    body: Body,
}

enum Body {
    Parquet { reader: Box<ParquetRecordBatchReaderBuilder<File>>, size: u64 },
    IpcFile(Box<FileReader<BufReader<Counted<File>>>>),
    IpcStream(Box<StreamReader<BufReader<Box<dyn Read + Send>>>>),
}

impl BinaryInput {
    pub(crate) fn parquet(name: &str, file: File, bytes_read: Arc<AtomicU64>) -> Outcome<Self> {
        let size = file.metadata().map_err(|error| Failure::at(name, error))?.len();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| {
            Failure::at(name, format_args!("cannot be read as Parquet: {}", parquet_text(error)))
        })?;
        let schema = reader.schema().clone();
        Ok(BinaryInput {
            name: name.into(),
            schema,
            bytes_read,
            body: Body::Parquet { reader: Box::new(reader), size },
        })
    }

    /// An Arrow IPC file or stream; the first bytes tell which.
    pub(crate) fn ipc(name: &str, mut file: File, bytes_read: Arc<AtomicU64>) -> Outcome<Self> {
        let mut magic = Vec::new();
        let start = Read::by_ref(&mut file)
            .take(6)
            .read_to_end(&mut magic)
            .and_then(|_| file.seek(SeekFrom::Start(0)));
        start.map_err(|error| Failure::at(name, error))?;
        let source = Counted::new(file, bytes_read.clone());
        if magic != b"ARROW1" {
            return Self::ipc_stream(name, Box::new(source), bytes_read);
        }
        let reader =
            FileReader::try_new(BufReader::new(source), None).map_err(|error| ipc_failure(name, error))?;
        let schema = reader.schema();
        Ok(BinaryInput { name: name.into(), schema, bytes_read, body: Body::IpcFile(Box::new(reader)) })
    }

    /// An Arrow IPC stream.
    pub(crate) fn ipc_stream(
        name: &str,
        source: Box<dyn Read + Send>,
        bytes_read: Arc<AtomicU64>,
    ) -> Outcome<Self> {
        let reader = StreamReader::try_new(BufReader::with_capacity(256 << 10, source), None)
            .map_err(|error| ipc_failure(name, error))?;
        let schema = reader.schema();
        Ok(BinaryInput { name: name.into(), schema, bytes_read, body: Body::IpcStream(Box::new(reader)) })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Batches that have the columns of `wanted` and perhaps others.
    pub(crate) fn read(self, wanted: &SchemaRef, batch_rows: usize, from: Mark) -> Outcome<Box<dyn Batches>> {
        let name = self.name;
        match self.body {
            Body::Parquet { reader, size } => {
                let rows = reader.metadata().file_metadata().num_rows().max(1) as u64;
                let roots =
                    wanted.fields().iter().filter_map(|field| self.schema.index_of(field.name()).ok());
                let mask = ProjectionMask::roots(reader.parquet_schema(), roots);
                let reader = reader
                    .with_projection(mask)
                    .with_batch_size(batch_rows)
                    .with_offset(usize::try_from(from.rows).unwrap_or(usize::MAX))
                    .build()
                    .map_err(|error| Failure::at(&name, parquet_text(error)))?;
                Ok(Box::new(ParquetBatches {
                    name,
                    reader,
                    size,
                    rows,
                    rows_read: from.rows,
                    before: from.rows,
                    bytes_read: self.bytes_read,
                }))
            }
            Body::IpcFile(reader) => Ok(Box::new(IpcBatches { name, batches: reader, number: 0 })),
            Body::IpcStream(reader) => Ok(Box::new(IpcBatches { name, batches: reader, number: 0 })),
        }
    }
}

fn parquet_text(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    text.strip_prefix("Parquet error: ").map_or_else(|| text.clone(), str::to_string)
}

fn ipc_failure(name: &str, error: ArrowError) -> Failure {
    Failure::at(name, format_args!("cannot be read as Arrow IPC: {}", plain(error)))
}

struct ParquetBatches {
    name: String,
    reader: ParquetRecordBatchReader,
    size: u64,
    rows: u64,
    rows_read: u64,
    /// Rows before the last batch.
    before: u64,
    bytes_read: Arc<AtomicU64>,
}

impl Batches for ParquetBatches {
    fn next(&mut self) -> Outcome<Option<RecordBatch>> {
        let Some(batch) = self.reader.next() else { return Ok(None) };
        let batch = batch.map_err(|error| {
            let row = self.rows_read + 1;
            Failure::at(
                &self.name,
                format_args!("cannot be read from row {row} on: {}", parquet_text(plain(error))),
            )
        })?;
        // Pages are read in no simple order: the share of rows stands for the share of bytes.
        let done = |rows: u64| (u128::from(self.size) * u128::from(rows) / u128::from(self.rows)) as u64;
        self.before = self.rows_read;
        self.rows_read += batch.num_rows() as u64;
        self.bytes_read.fetch_add(done(self.rows_read).saturating_sub(done(self.before)), Ordering::Relaxed);
        Ok(Some(batch))
    }

    fn mark(&self) -> Mark {
        Mark { bytes: 0, rows: self.before }
    }
}

struct IpcBatches<I> {
    name: String,
    batches: Box<I>,
    number: u64,
}

impl<I: Iterator<Item = Result<RecordBatch, ArrowError>> + Send> Batches for IpcBatches<I> {
    fn next(&mut self) -> Outcome<Option<RecordBatch>> {
        self.number += 1;
        match self.batches.next() {
            None => Ok(None),
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(error)) => Err(Failure::at(
                &self.name,
                format_args!("batch {} cannot be read: {}", self.number, plain(error)),
            )),
        }
    }
}
