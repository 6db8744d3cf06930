use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::arrivals::{Arrival, Arrivals};
use super::columns::Columns;
use super::error::Error;
use super::spec::Spec;

/// Rows per batch unless told otherwise.
pub(crate) const BATCH_ROWS: usize = 65_536;
/// Rows that are dealt out to partitions at a time.
const STRIDE: usize = 1_024;

/// The first `rows` rows of a stream, in the order of their arrival. An iterator over batches.
pub struct Stream {
    arrivals: Arrivals,
    columns: Columns,
    left: u64,
    batch_rows: usize,
    rows: Vec<Arrival>,
    partitions: u32,
}

impl Stream {
    /// Checks the specification and starts its stream.
    pub fn new(spec: &Spec) -> Result<Self, Error> {
        spec.validate()?;
        Ok(Stream {
            arrivals: Arrivals::new(spec),
            columns: Columns::new(spec),
            left: spec.rows,
            batch_rows: BATCH_ROWS,
            rows: Vec::new(),
            partitions: spec.partitions,
        })
    }

    /// Sets the number of rows per batch; the rows are the same for any.
    #[must_use]
    pub fn with_batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows.max(1);
        self
    }

    /// The schema of every batch.
    pub fn schema(&self) -> &SchemaRef {
        self.columns.schema()
    }

    /// The same rows as (partition, batch). A batch is handed out when it is full, so the partitions advance side by
    /// side; what remains comes at the end, by partition. Holds up to a batch per partition.
    pub fn split(self) -> SplitStream {
        let partitions = self.partitions as usize;
        SplitStream { stream: self, parts: vec![Vec::new(); partitions], full: VecDeque::new(), flushed: 0 }
    }

    fn next_rows(&mut self, most: usize) {
        let count = self.left.min(most as u64) as usize;
        self.rows.clear();
        self.arrivals.take(count, &mut self.rows);
        self.left -= count as u64;
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.next_rows(self.batch_rows);
        Some(self.columns.batch(self.arrivals.timeline(), &self.rows).map_err(Error::from))
    }
}

/// A stream dealt out to its partitions: see [`Stream::split`].
pub struct SplitStream {
    stream: Stream,
    parts: Vec<Vec<Arrival>>,
    /// Partitions whose batch is full, in the order in which they became so.
    full: VecDeque<usize>,
    /// Partitions whose remainder has been handed out.
    flushed: usize,
}

impl SplitStream {
    /// The schema of every batch.
    pub fn schema(&self) -> &SchemaRef {
        self.stream.schema()
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.parts.len()
    }

    /// Deals out rows until a batch is full or the stream ends.
    fn deal(&mut self) {
        while self.full.is_empty() && self.stream.left > 0 {
            // Never more than a batch can take, so that no batch grows beyond its size.
            self.stream.next_rows(STRIDE.min(self.stream.batch_rows));
            let timeline = self.stream.arrivals.timeline();
            for &row in &self.stream.rows {
                let partition = timeline.partition(row.event) as usize;
                self.parts[partition].push(row);
                if self.parts[partition].len().is_multiple_of(self.stream.batch_rows) {
                    self.full.push_back(partition);
                }
            }
        }
    }

    fn batch(&self, rows: &[Arrival]) -> Result<RecordBatch, Error> {
        Ok(self.stream.columns.batch(self.stream.arrivals.timeline(), rows)?)
    }
}

impl Iterator for SplitStream {
    type Item = Result<(usize, RecordBatch), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.deal();
        if let Some(partition) = self.full.pop_front() {
            let batch = self.batch(&self.parts[partition][..self.stream.batch_rows]);
            self.parts[partition].drain(..self.stream.batch_rows);
            return Some(batch.map(|batch| (partition, batch)));
        }
        let offset = self.parts[self.flushed..].iter().position(|rows| !rows.is_empty())?;
        let partition = self.flushed + offset;
        self.flushed = partition + 1;
        Some(self.batch(&self.parts[partition]).map(|batch| (partition, batch)))
    }
}
