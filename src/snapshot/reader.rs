//! A file to sections, whatever its bytes: all that is not a whole snapshot is refused before anything of it is used.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{Block, Footer, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::Schema;
use crc32fast::Hasher;

use super::layout::{ALIGNED, check_batch};
use super::writer::schema;
use super::{
    CHECKSUM, CONFIGURATION, Checked, FORMAT, FORMAT_NAME, NO_CHECKSUM, Section, VERSION, VERSION_NUMBER,
};
use crate::error::{Error, Result, SnapshotFault};

/// The pieces of sections, by name.
pub(crate) struct Pieces(BTreeMap<&'static str, Vec<ArrayRef>>);

impl Pieces {
    /// All pieces of a section.
    pub(crate) fn of(&self, section: &str) -> &[ArrayRef] {
        self.0.get(section).map_or(&[], Vec::as_slice)
    }

    /// A section that was written whole.
    pub(crate) fn whole(&self, section: &str) -> Checked<&ArrayRef> {
        match self.of(section) {
            [one] => Ok(one),
            pieces => Err(format!("section {section:?} has {} pieces, and one was expected", pieces.len())),
        }
    }
}

const MAGIC: &[u8] = b"ARROW1";
/// The length of the footer, and the magic again.
const TRAILER: usize = 4 + MAGIC.len();
/// What a message begins with: a mark, and its length.
const MESSAGE_HEAD: usize = 8;

/// A whole snapshot of a version that is known.
pub(crate) struct File {
    data: Buffer,
    blocks: Vec<Block>,
    configuration: String,
}

/// Where the footer is in the last bytes of a file.
fn footer_at(bytes: &[u8]) -> Option<Range<usize>> {
    let end = bytes.len().checked_sub(TRAILER)?;
    let length = i32::from_le_bytes(*bytes[end..].first_chunk()?);
    Some(end.checked_sub(usize::try_from(length).ok()?)?..end)
}

fn metadata<'a>(footer: &Footer<'a>, schema: bool, key: &str) -> Option<&'a str> {
    let entries = if schema { footer.schema()?.custom_metadata() } else { footer.custom_metadata() };
    entries?.iter().find(|entry| entry.key() == Some(key))?.value()
}

/// Where the checksum is in the last bytes of a file.
pub(super) fn checksum_at(bytes: &[u8]) -> Option<Range<usize>> {
    let footer = root_as_footer(&bytes[footer_at(bytes)?]).ok()?;
    let checksum = metadata(&footer, false, CHECKSUM)?;
    let start = checksum.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
    (checksum.len() == NO_CHECKSUM.len()).then_some(start..start + checksum.len())
}

fn checksum(bytes: &[u8], place: &Range<usize>) -> String {
    let mut hasher = Hasher::new();
    hasher.update(&bytes[..place.start]);
    hasher.update(NO_CHECKSUM.as_bytes());
    hasher.update(&bytes[place.end..]);
    format!("{:08x}", hasher.finalize())
}

impl File {
    /// Checks that these bytes are what was once written as a snapshot.
    pub(crate) fn open(bytes: &[u8]) -> Result<File> {
        let refused = |fault, message: &str| Error::snapshot(fault, message);
        if !bytes.starts_with(MAGIC) {
            let shown = bytes[..bytes.len().min(8)].escape_ascii();
            let message = format!("not a snapshot: {} bytes that begin with \"{shown}\"", bytes.len());
            return Err(refused(SnapshotFault::Foreign, &message));
        }
        if !bytes.ends_with(MAGIC) || bytes.len() < MAGIC.len() + TRAILER {
            let message = format!("its end is missing after {} bytes", bytes.len());
            return Err(refused(SnapshotFault::Damaged, &message));
        }
        let damaged = || refused(SnapshotFault::Damaged, "its footer cannot be read");
        let footer = root_as_footer(&bytes[footer_at(bytes).ok_or_else(damaged)?]).map_err(|_| damaged())?;
        let Some(place) = checksum_at(bytes) else {
            let message = format!("not a snapshot: an Arrow file without {CHECKSUM:?} in its footer");
            return Err(refused(SnapshotFault::Foreign, &message));
        };
        let (found, written) = (checksum(bytes, &place), bytes[place.clone()].escape_ascii().to_string());
        if found != written {
            let message = format!("its checksum is {written}, but its bytes give {found}");
            return Err(refused(SnapshotFault::Damaged, &message));
        }
        let format = metadata(&footer, true, FORMAT).unwrap_or_default();
        if format != FORMAT_NAME {
            let message = format!("not a snapshot: {FORMAT} is {format:?}, and would be {FORMAT_NAME:?}");
            return Err(refused(SnapshotFault::Foreign, &message));
        }
        let version = metadata(&footer, true, VERSION).unwrap_or_default();
        match version.parse::<u32>() {
            Ok(VERSION_NUMBER) => {}
            Ok(newer) if newer > VERSION_NUMBER => {
                let message =
                    format!("format version {newer} is newer than {VERSION_NUMBER}, the newest known here");
                return Err(refused(SnapshotFault::Newer, &message));
            }
            _ => {
                return Err(refused(
                    SnapshotFault::Foreign,
                    &format!("there is no format version {version:?}"),
                ));
            }
        }
        let impossible = |message: &str| refused(SnapshotFault::Impossible, message);
        if footer.version() != MetadataVersion::V5 {
            return Err(impossible("its metadata is not of version 5 of Arrow's format"));
        }
        let blocks = footer.recordBatches().ok_or_else(|| impossible("it has no batches"))?;
        Ok(File {
            blocks: blocks.iter().copied().collect(),
            configuration: metadata(&footer, true, CONFIGURATION).unwrap_or_default().to_string(),
            data: Buffer::from(bytes),
        })
    }

    /// How the operator was built, as it was said when the snapshot was taken.
    pub(crate) fn configuration(&self) -> &str {
        &self.configuration
    }

    /// What it holds of sections like these, which must be all that it has.
    pub(crate) fn sections(&self, like: &[Section<'_>]) -> Checked<Pieces> {
        let schema = Arc::new(schema(like.iter().map(|section| (section.name, &section.empty))));
        let decoder = FileDecoder::new(schema.clone(), MetadataVersion::V5);
        let mut pieces = vec![Vec::new(); like.len()];
        let mut end = 0;
        for (number, block) in self.blocks.iter().enumerate() {
            let within = |message: String| format!("batch {number}: {message}");
            let data = self.block(block, &schema, &mut end).map_err(within)?;
            let batch = decoder.read_record_batch(block, &data).map_err(|error| within(error.to_string()))?;
            let Some(batch) = batch else { return Err(within("it is empty".into())) };
            for (pieces, column) in pieces.iter_mut().zip(batch.columns()) {
                if column.null_count() > 0 {
                    return Err(within("a section is null".into()));
                }
                pieces.extend(column.as_list::<i64>().iter().flatten().filter(|list| !list.is_empty()));
            }
        }
        Ok(Pieces(like.iter().map(|section| section.name).zip(pieces).collect()))
    }

    /// The bytes of a batch that can be read, which lie behind those before it.
    fn block(&self, block: &Block, schema: &Schema, end: &mut usize) -> Checked<Buffer> {
        let size =
            |bytes: i64| usize::try_from(bytes).map_err(|_| format!("{bytes} is not a number of bytes"));
        let (start, body) = (size(block.offset())?, size(block.bodyLength())?);
        let head = size(block.metaDataLength().into())?;
        let length = head.checked_add(body).ok_or("it is too long")?;
        let past = start.checked_add(length).filter(|&past| past <= self.data.len() && start >= *end);
        let aligned = start % ALIGNED as usize == 0 && head % ALIGNED as usize == 0;
        *end =
            past.filter(|_| aligned).ok_or_else(|| format!("{length} bytes at {start} are not its own"))?;
        let data = self.data.slice_with_length(start, length);
        if head < MESSAGE_HEAD || data[..4] != [0xff; 4] {
            return Err("its head is missing".into());
        }
        let message = root_as_message(&data[MESSAGE_HEAD..]).map_err(|_| "its head cannot be read")?;
        let batch = message.header_as_record_batch().ok_or("it is not a batch")?;
        check_batch(&batch, schema, body as i64)?;
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{record, write};
    use super::*;

    /// A file whose metadata is changed at one key, with a checksum that fits.
    fn forged(key: &str, value: &str) -> Vec<u8> {
        let rows = record(vec![("n", Arc::new(arrow_array::Int64Array::from(vec![1])))]).unwrap();
        let mut file = Vec::new();
        write(&mut file, "as it was", vec![Section::whole("numbers", rows)]).unwrap();
        let footer = root_as_footer(&file[footer_at(&file).unwrap()]).unwrap();
        let start = metadata(&footer, true, key).unwrap().as_ptr().addr() - file.as_ptr().addr();
        file[start..start + value.len()].copy_from_slice(value.as_bytes());
        let place = checksum_at(&file).unwrap();
        let sum = checksum(&file, &place);
        file[place].copy_from_slice(sum.as_bytes());
        file
    }

    fn refused(file: &[u8]) -> (SnapshotFault, String) {
        match File::open(file).err().unwrap() {
            Error::Snapshot { fault, message } => (fault, message),
            other => panic!("not an error of snapshots: {other}"),
        }
    }

    #[test]
    fn versions_and_formats_are_told_apart() {
        assert_eq!(File::open(&forged(VERSION, "1")).unwrap().configuration(), "as it was");
        let (fault, message) = refused(&forged(VERSION, "2"));
        assert_eq!(fault, SnapshotFault::Newer);
        assert_eq!(message, "format version 2 is newer than 1, the newest known here");
        let (fault, message) = refused(&forged(VERSION, "x"));
        assert_eq!((fault, message.as_str()), (SnapshotFault::Foreign, "there is no format version \"x\""));
        let (fault, message) = refused(&forged(FORMAT, "lowerwate"));
        assert_eq!(fault, SnapshotFault::Foreign);
        assert!(message.contains("\"lowerwate snapshot\""), "{message}");
    }
}
