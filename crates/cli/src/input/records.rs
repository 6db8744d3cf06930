//! Cuts text into records, so that an error can name its line.
//!
//! The decoders of Arrow take bytes and count rows at best. Here whole records are handed to them, a chunk at a time, and
//! when one is refused its chunk is still at hand to look for the line (see [`super::text`]).

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::{memchr, memchr2};

/// Bytes asked of the source at a time.
const BLOCK: usize = 256 << 10;
/// A record longer than this is no record: most likely a quote or a bracket is never closed.
const MAX_RECORD: usize = 64 << 20;
/// A chunk is closed at so many bytes, however few records they are.
const MAX_CHUNK: usize = 8 << 20;

/// Whole records and the line that the first of them starts on.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) bytes: Vec<u8>,
    /// Counted from 1.
    pub(crate) first_line: u64,
    /// Bytes of the source before it.
    pub(crate) at: u64,
}

/// Finds the end of a record; CSV records may hold line ends between quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Splitter {
    Lines,
    Csv { delimiter: u8 },
}

/// Where the search for the end of a record has got to.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    at: usize,
    in_quotes: bool,
    /// The position after the last closing quote: another quote there is an escaped one.
    closed: usize,
}

impl Splitter {
    /// The length of the first record in `bytes`, line end included, or `None` if it does not end there.
    fn find(self, bytes: &[u8], scan: &mut Scan) -> Option<usize> {
        match self {
            Splitter::Lines => {
                let found = memchr(b'\n', &bytes[scan.at..]).map(|at| scan.at + at + 1);
                scan.at = found.unwrap_or(bytes.len());
                found
            }
            Splitter::Csv { delimiter } => Self::find_csv(delimiter, bytes, scan),
        }
    }

    fn find_csv(delimiter: u8, bytes: &[u8], scan: &mut Scan) -> Option<usize> {
        loop {
            let rest = &bytes[scan.at..];
            let found = if scan.in_quotes { memchr(b'"', rest) } else { memchr2(b'"', b'\n', rest) };
            let Some(at) = found.map(|at| scan.at + at) else {
                scan.at = bytes.len();
                return None;
            };
            scan.at = at + 1;
            if scan.in_quotes {
                scan.in_quotes = false;
                scan.closed = at + 1;
            } else if bytes[at] == b'\n' {
                return Some(at + 1);
            } else if at == 0 || bytes[at - 1] == delimiter || scan.closed == at {
                // Anywhere else a quote is a character like any other.
                scan.in_quotes = true;
            }
        }
    }

    /// The records of a chunk with the line that each starts on.
    pub(crate) fn records(self, chunk: &Chunk) -> impl Iterator<Item = (u64, &[u8])> {
        let (mut rest, mut line) = (chunk.bytes.as_slice(), chunk.first_line);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let length = self.find(rest, &mut Scan::default()).unwrap_or(rest.len());
            let (record, after) = rest.split_at(length);
            let start = line;
            line += count_lines(record);
            rest = after;
            Some((start, record))
        })
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Reads chunks of whole records.
pub(crate) struct RecordReader {
    source: Box<dyn Read + Send>,
    splitter: Splitter,
    buffer: Vec<u8>,
    start: usize,
    line: u64,
    /// Bytes of the source that have been handed out.
    at: u64,
    ended: bool,
    eager: bool,
    bytes_read: Arc<AtomicU64>,
}

impl RecordReader {
    /// A byte order mark at the beginning is skipped.
    pub(crate) fn new(
        source: Box<dyn Read + Send>,
        splitter: Splitter,
        bytes_read: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let mut reader = RecordReader {
            source,
            splitter,
            buffer: Vec::new(),
            start: 0,
            line: 1,
            at: 0,
            ended: false,
            eager: false,
            bytes_read,
        };
        while reader.buffer.len() < 3 && !reader.ended {
            reader.fill()?;
        }
        if reader.buffer.starts_with(b"\xEF\xBB\xBF") {
            (reader.start, reader.at) = (3, 3);
        }
        Ok(reader)
    }

    /// Makes chunks of the records that are there, and waits only if there is none.
    pub(crate) fn eager(mut self, on: bool) -> Self {
        self.eager = on;
        self
    }

    pub(crate) fn splitter(&self) -> Splitter {
        self.splitter
    }

    /// What has been read and not been handed out.
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// The line that comes next.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let length = self.buffer.len();
        self.buffer.resize(length + BLOCK, 0);
        let read = loop {
            match self.source.read(&mut self.buffer[length..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(length + *read.as_ref().unwrap_or(&0));
        let read = read?;
        self.ended = read == 0;
        self.bytes_read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The length of the next record in the buffer; `None` at the end of the source.
    fn next_length(&mut self) -> io::Result<Option<usize>> {
        let mut scan = Scan::default();
        loop {
            if let Some(length) = self.splitter.find(&self.buffer[self.start..], &mut scan) {
                return Ok(Some(length));
            }
            if self.ended {
                if scan.in_quotes {
                    return Err(io::Error::other("a quote that is opened in this record is never closed"));
                }
                let rest = self.buffer.len() - self.start;
                return Ok((rest > 0).then_some(rest));
            }
            if self.buffer.len() - self.start > MAX_RECORD {
                return Err(io::Error::other("a record of more than 64 MiB"));
            }
            self.fill()?;
        }
    }

    /// Passes over everything before byte `at` of the source, where a record begins.
    pub(crate) fn skip_to(&mut self, at: u64) -> io::Result<()> {
        while self.at < at {
            if self.start == self.buffer.len() {
                self.fill()?;
                if self.ended {
                    return Err(io::Error::other(format!("it ends before byte {at}")));
                }
            }
            let rest = &self.buffer[self.start..];
            let length = rest.len().min(usize::try_from(at - self.at).unwrap_or(usize::MAX));
            self.line += count_lines(&rest[..length]);
            self.start += length;
            self.at += length as u64;
        }
        Ok(())
    }

    /// Up to `records` records, blank lines included; `None` at the end. The last one may lack its line end: it is
    /// given one.
    pub(crate) fn next_chunk(&mut self, records: usize) -> io::Result<Option<Chunk>> {
        let mut chunk = Chunk { bytes: Vec::new(), first_line: self.line, at: self.at };
        for _ in 0..records {
            let enough = self.eager && !chunk.bytes.is_empty();
            if enough && self.splitter.find(self.buffered(), &mut Scan::default()).is_none() {
                break;
            }
            let Some(length) = self.next_length()? else { break };
            let record = &self.buffer[self.start..self.start + length];
            self.line += count_lines(record);
            chunk.bytes.extend_from_slice(record);
            self.start += length;
            self.at += length as u64;
            if chunk.bytes.len() >= MAX_CHUNK {
                break;
            }
        }
        if chunk.bytes.last().is_some_and(|&last| last != b'\n') {
            chunk.bytes.push(b'\n');
        }
        Ok((!chunk.bytes.is_empty()).then_some(chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str, splitter: Splitter) -> Vec<(u64, String)> {
        let mut reader =
            RecordReader::new(Box::new(io::Cursor::new(text.as_bytes().to_vec())), splitter, Arc::default())
                .unwrap();
        let mut all = Vec::new();
        while let Some(chunk) = reader.next_chunk(2).unwrap() {
            all.extend(
                splitter
                    .records(&chunk)
                    .map(|(line, text)| (line, String::from_utf8_lossy(text).into_owned())),
            );
        }
        all
    }

    #[test]
    fn lines_are_lines() {
        let found = records("\u{feff}a\n\nb\"\nc", Splitter::Lines);
        assert_eq!(found, [(1, "a\n".into()), (2, "\n".into()), (3, "b\"\n".into()), (4, "c\n".into())]);
    }

    #[test]
    fn quoted_line_ends_do_not_end_a_record() {
        let found = records(
            "a,\"x\ny\"\"\n\",1\nb,5\",2\n\"\"\"\n\"\"\",3\n,\"\"\n",
            Splitter::Csv { delimiter: b',' },
        );
        assert_eq!(
            found,
            [
                (1, "a,\"x\ny\"\"\n\",1\n".into()),
                (4, "b,5\",2\n".into()),
                (5, "\"\"\"\n\"\"\",3\n".into()),
                (7, ",\"\"\n".into())
            ]
        );
    }

    #[test]
    fn an_open_quote_is_an_error() {
        let source = Box::new(io::Cursor::new(b"a,b\n1,\"x\n2,y\n".to_vec()));
        let mut reader =
            RecordReader::new(source, Splitter::Csv { delimiter: b',' }, Arc::default()).unwrap();
        assert!(reader.next_chunk(1).unwrap().is_some());
        assert_eq!(reader.line(), 2);
        let error = reader.next_chunk(1).unwrap_err().to_string();
        assert_eq!(error, "a quote that is opened in this record is never closed");
    }
}
