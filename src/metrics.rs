//! What an operator counts.

use crate::watermark::PartitionStatus;

/// What became of rows. At every moment `rows_in = taken + dropped_late + no_window + rejected()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowCounts {
    /// Rows pushed.
    pub rows_in: u64,
    /// Rows that at least one window took.
    pub taken: u64,
    /// Rows that no window took, because all of theirs had expired.
    pub dropped_late: u64,
    /// Rows in a gap between windows.
    pub no_window: u64,
    /// Rows without event time.
    pub rejected_null: u64,
    /// Rows beyond the future guard.
    pub rejected_future: u64,
    /// Rows that the future guard could not judge, for want of an ingest time.
    pub rejected_reference: u64,
    /// Of the taken rows: those that were late (time at or before the watermark).
    pub late_taken: u64,
    /// Of the taken rows: those that some of their windows refused, being expired.
    pub partly_late: u64,
}

impl RowCounts {
    /// Rows rejected for any reason.
    pub fn rejected(&self) -> u64 {
        self.rejected_null + self.rejected_future + self.rejected_reference
    }

    pub(crate) fn add(&mut self, other: &RowCounts) {
        self.rows_in += other.rows_in;
        self.taken += other.taken;
        self.dropped_late += other.dropped_late;
        self.no_window += other.no_window;
        self.rejected_null += other.rejected_null;
        self.rejected_future += other.rejected_future;
        self.rejected_reference += other.rejected_reference;
        self.late_taken += other.late_taken;
        self.partly_late += other.partly_late;
    }
}

/// One partition's part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionMetrics {
    /// What became of its rows.
    pub rows: RowCounts,
    /// Its own watermark; [`NONE`](crate::watermark::NONE) before the first.
    pub watermark: i64,
    /// Watermarks proposed below its own one, and ignored.
    pub watermark_regressions: u64,
    /// Whether it counts for the merged watermark.
    pub status: PartitionStatus,
}

/// What an operator has done and holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// The merged watermark.
    pub watermark: i64,
    /// What became of all rows.
    pub total: RowCounts,
    /// The same by partition.
    pub partitions: Vec<PartitionMetrics>,
    /// Result rows that fired early.
    pub fired_early: u64,
    /// Result rows that fired on time.
    pub fired_on_time: u64,
    /// Result rows that fired late.
    pub fired_late: u64,
    /// Windows that fired on time, each once for all of its keys.
    pub windows_fired: u64,
    /// Slices that have rows; where keys have windows of their own (sessions, triggers), windows, each once for every key.
    pub open_slices: usize,
    /// Keys, each counted once for every open slice that has it. To count them takes a look at all rows of slices in which
    /// nearly every row has brought a new one: some nanoseconds each.
    pub keys: usize,
    /// Bytes of keys and accumulators.
    pub state_bytes: usize,
}
