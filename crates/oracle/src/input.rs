//! A row's way from the call to the watermark.

use crate::{
    Cadence, Guard, MAX, NONE, NullPolicy, Oracle, Output, Reactivation, Reason, Rejected, Row, Strategy,
};

impl Oracle {
    pub(crate) fn push(&mut self, p: usize, rows: &[Row], out: &mut Output) -> Result<(), String> {
        self.take_rows(p, rows, out)?;
        if self.spec.cadence == Cadence::EveryBatch {
            self.emit(p);
            self.catch_up(out)?;
        }
        Ok(())
    }

    pub(crate) fn take_rows(&mut self, p: usize, rows: &[Row], out: &mut Output) -> Result<(), String> {
        for row in rows {
            let id = self.rows_seen;
            self.rows_seen += 1;
            self.counters[p].rows_in += 1;
            if let Some(time) = self.accept(p, id, row, out) {
                self.judge(p, id, time, row, out)?;
                self.feed(p, time, row);
                self.catch_up(out)?;
            }
        }
        Ok(())
    }

    /// The row's time, unless it is unusable. Then the row is counted, handed back and forgotten: it is no activity,
    /// and no generator sees it.
    fn accept(&mut self, p: usize, id: u64, row: &Row, out: &mut Output) -> Option<i64> {
        let counters = &mut self.counters[p];
        let Some(time) = row.time else {
            counters.rejected_null += 1;
            if self.spec.null_policy == NullPolicy::Reject {
                out.rejected.push(Rejected { row: id, reason: Reason::NullTime });
            }
            return None;
        };
        let (reference, tolerance) = match self.spec.guard {
            Guard::None => return Some(time),
            Guard::IngestTime(tolerance) => (row.ingest_time, tolerance),
            Guard::Clock(tolerance) => (self.clock, tolerance),
        };
        let Some(reference) = reference else {
            counters.rejected_reference += 1;
            out.rejected.push(Rejected { row: id, reason: Reason::NullReference });
            return None;
        };
        if time > reference.saturating_add(tolerance) {
            counters.rejected_future += 1;
            out.rejected.push(Rejected { row: id, reason: Reason::Future });
            return None;
        }
        Some(time)
    }

    /// The judged row is a sign of life and goes to its partition's generator. A finished partition has none.
    fn feed(&mut self, p: usize, time: i64, row: &Row) {
        self.last_activity[p] = self.clock;
        self.last_row = self.clock;
        if self.merge.is_finished(p) {
            return;
        }
        if self.spec.reactivation == Reactivation::AtOnce {
            self.merge.active(p);
        }
        let own = self.merge.own(p);
        if self.spec.strategy == Strategy::Punctuated && row.marker.is_some_and(|w| w < own) {
            self.counters[p].watermark_regressions += 1;
        }
        self.generators[p].see(time, row.marker);
        match self.spec.cadence {
            Cadence::EveryRow => self.emit(p),
            Cadence::Every(interval) => {
                if own == NONE || self.generators[p].proposal() > own.saturating_add(interval) {
                    self.emit(p);
                }
            }
            Cadence::EveryBatch | Cadence::OnRequest => {}
        }
    }

    /// Emits what the partition's generator proposes, if it is news. That wakes the partition.
    fn emit(&mut self, p: usize) {
        let proposal = self.generators[p].proposal();
        if proposal > self.merge.own(p) {
            self.merge.active(p);
            self.merge.set(p, proposal);
        }
    }

    /// The same for all partitions, before the merged watermark moves once.
    pub(crate) fn emit_all(&mut self) {
        for p in 0..self.spec.partitions {
            let proposal = self.generators[p].proposal();
            if proposal > self.merge.own(p) {
                // what is recorded wakes a partition that counts at once
                if self.spec.reactivation == Reactivation::WhenCaughtUp {
                    self.merge.active(p);
                }
                self.merge.record(p, proposal);
            }
        }
        self.merge.recompute();
    }

    pub(crate) fn explicit_watermark(&mut self, p: usize, w: i64) {
        if w == MAX {
            self.merge.finish(p);
            return;
        }
        if self.merge.is_finished(p) {
            return;
        }
        self.counters[p].watermark_regressions += u64::from(w < self.merge.own(p));
        if self.spec.reactivation == Reactivation::AtOnce || w > self.merge.own(p) {
            self.merge.active(p);
            self.merge.set(p, w);
        }
    }
}
