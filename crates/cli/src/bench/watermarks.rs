//! The watermark that the rows so far have led to, one row at a time.

/// No watermark yet.
pub(super) const NONE: i64 = i64::MIN;

/// Watermarks of partitions that are out of order by at most a bound, in milliseconds.
pub(super) struct Watermarks {
    bound: i64,
    /// Of each partition.
    own: Vec<i64>,
    /// Of all: the lowest.
    pub(super) merged: i64,
}

impl Watermarks {
    pub(super) fn new(bound: i64, partitions: usize) -> Self {
        Watermarks { bound, own: vec![NONE; partitions], merged: NONE }
    }

    /// A row has been judged, and may move them.
    pub(super) fn advance(&mut self, partition: usize, time: i64) {
        let watermark = time - self.bound - 1;
        if watermark > self.own[partition] {
            let held_back = self.own[partition] == self.merged;
            self.own[partition] = watermark;
            if held_back {
                self.merged = self.own.iter().copied().min().unwrap_or(NONE);
            }
        }
    }

    /// Ends the input: everything is due.
    pub(super) fn finish(&mut self) {
        self.merged = i64::MAX;
    }
}
