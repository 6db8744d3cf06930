//! Sections to a file.
//!
//! The checksum is of the whole file, and stands in its footer. So bytes are counted as they pass, the footer is held
//! back until it is whole, and the checksum is put where its zeros were.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{Field, Schema};
use crc32fast::Hasher;

use super::layout::check_type;
use super::reader::checksum_at;
use super::{
    CHECKSUM, CONFIGURATION, FORMAT, FORMAT_NAME, NO_CHECKSUM, Section, VERSION, VERSION_NUMBER, lists,
};
use crate::error::{Error, Result, SnapshotFault};

/// Passes bytes on and counts them into the checksum, or holds them back.
struct Sink<W> {
    out: W,
    hasher: Hasher,
    held: Option<Vec<u8>>,
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.held {
            Some(held) => held.extend_from_slice(bytes),
            None => {
                self.out.write_all(bytes)?;
                self.hasher.update(bytes);
            }
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn unwritten(error: impl ToString) -> Error {
    Error::snapshot(SnapshotFault::Io, error.to_string())
}

fn unsupported(section: &str) -> impl Fn(String) -> Error {
    move |message| Error::snapshot(SnapshotFault::Unsupported, format!("{section}: {message}"))
}

/// Columns for sections of these types.
pub(super) fn schema<'a>(sections: impl Iterator<Item = (&'static str, &'a ArrayRef)>) -> Schema {
    let fields = sections.map(|(name, empty)| {
        let item = Field::new_list_field(empty.data_type().clone(), true);
        Field::new_large_list(name, item, true)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// Writes a snapshot of an operator that was built as `configuration` says.
pub(crate) fn write(out: impl Write, configuration: &str, sections: Vec<Section<'_>>) -> Result<()> {
    let empty = sections.iter().map(|section| (section.name, &section.empty));
    for (name, empty) in empty.clone() {
        check_type(empty.data_type()).map_err(unsupported(name))?;
    }
    let metadata =
        [(FORMAT, FORMAT_NAME), (VERSION, &VERSION_NUMBER.to_string()), (CONFIGURATION, configuration)];
    let metadata = metadata.map(|(key, value)| (key.to_string(), value.to_string()));
    let schema = Arc::new(schema(empty.clone()).with_metadata(metadata.into()));
    let no_rows: Vec<ArrayRef> = empty
        .map(|(name, empty)| lists([0], empty.clone()).map_err(unsupported(name)))
        .collect::<Result<_>>()?;

    let sink = Sink { out, hasher: Hasher::new(), held: None };
    let mut writer = FileWriter::try_new(sink, &schema).map_err(unwritten)?;
    for (number, Section { name, pieces, .. }) in sections.into_iter().enumerate() {
        for piece in pieces {
            let piece = piece.map_err(unsupported(name))?;
            let mut columns = no_rows.clone();
            columns[number] = lists([piece.len()], piece).map_err(unsupported(name))?;
            let batch = RecordBatch::try_new(schema.clone(), columns);
            let batch = batch.map_err(|error| unsupported(name)(error.to_string()))?;
            writer.write(&batch).map_err(unwritten)?;
        }
    }
    writer.write_metadata(CHECKSUM, NO_CHECKSUM);
    writer.get_mut().held = Some(Vec::new());
    let Sink { mut out, mut hasher, held } = writer.into_inner().map_err(unwritten)?;
    let mut footer = held.unwrap_or_default();
    hasher.update(&footer);
    let place = checksum_at(&footer).ok_or_else(|| unwritten("the footer has no place for the checksum"))?;
    footer[place].copy_from_slice(format!("{:08x}", hasher.finalize()).as_bytes());
    out.write_all(&footer).and_then(|()| out.flush()).map_err(unwritten)
}
