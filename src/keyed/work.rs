//! The windows of some keys: rows in order of arrival, each after everything that its watermark has made due there.
//!
//! ```text
//! for each row of one of the shard's keys, with the merged watermark before it:
//!     what is due at that watermark fires, what has expired is forgotten
//!     the row is assigned to windows; sessions that it touches become one
//!     windows that have expired do not take it
//!     the trigger of each pane that takes it may fire
//! ```
//! That is Flink's window operator. Keys have nothing to do with each other, so any number of shards gives the same answer;
//! and neither have windows, so what is due happens when a row comes to the pane, or at the end of the call to all others,
//! and says when it would have happened. What is fired is only noted down; values are fetched in bulk at the end of the call,
//! or before a row changes them.

use arrow_array::ArrayRef;

use super::assign::{Assigned, Assigner, Gaps};
use super::contents::{Contents, Pending};
use super::emission::{Emitted, Origin};
use super::firing::Cause;
use super::pane::{Fill, Pane, Story};
use super::shard::Shard;
use super::{Call, Spec};
use crate::accumulator::Columns;
use crate::block::{BLOCK, Block};
use crate::error::{Error, Result};
use crate::fire::Firing;
use crate::key::Keys;
use crate::metrics::RowCounts;
use crate::progress::{Cursor, Judged, Passage, Watermarks};
use crate::route::MORSEL;
use crate::state::BatchRows;
use crate::trigger::Rule;
use crate::watermark::{END, NONE};

/// A batch on its way to the shards.
pub(crate) struct Arrivals<'a> {
    pub(crate) passage: &'a Passage,
    pub(crate) keys: &'a Keys<'a>,
    pub(crate) columns: &'a [Columns<ArrayRef>],
    /// The merged watermark before each row.
    pub(crate) watermarks: &'a Watermarks,
    pub(crate) gaps: &'a Gaps,
    /// The values that a delta trigger reads.
    pub(crate) deltas: Option<&'a [Option<f64>]>,
    /// Which rows are the shard's.
    pub(crate) mine: &'a [Block],
}

/// What became of the rows of one batch that are a shard's.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) counts: RowCounts,
    pub(crate) dropped: Vec<Judged>,
}

/// A shard during a call.
pub(crate) struct Working<'a> {
    pub(crate) call: Call<'a>,
    pub(crate) spec: &'a Spec,
    pub(crate) shard: &'a mut Shard,
    pub(crate) pending: Pending,
    pub(crate) emitted: Emitted,
    /// Panes that late rows have changed.
    pub(crate) changed: Vec<u32>,
    /// Slots of panes that are gone, whose contents may still be waited for.
    pub(crate) leaving: Vec<u32>,
    /// Panes that emissions are waiting for.
    pub(crate) frozen: Vec<u32>,
    /// How many results will have been given when nothing waits any more.
    pub(crate) given: u32,
    pub(crate) error: Option<Error>,
    /// The watermark before the row at hand, and at the end that after the call.
    pub(crate) watermark: i64,
    /// Whether a session that only gets longer has nothing else to do.
    extends: bool,
    /// Whether all that ever happens to a pane is that it fires at its end, and is gone.
    closes: bool,
    assigned: Assigned,
    cursor: Cursor,
}

/// The row at hand.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// Its place in the batch.
    pub(crate) row: usize,
    pub(crate) key: u32,
    pub(crate) time: i64,
    pub(crate) arrival: u64,
    pub(crate) delta: Option<f64>,
}

impl<'a> Working<'a> {
    pub(crate) fn new(call: Call<'a>, shard: &'a mut Shard) -> Self {
        let watermark = shard.watermark;
        let given = shard.given.first().map_or(0, |given| given.len()) as u32;
        let fires_once = call.spec.trigger.when == Rule::EventTime && !call.spec.keeps_rows();
        Working {
            call,
            spec: call.spec,
            shard,
            pending: Pending::default(),
            emitted: Emitted { accumulators: call.inputs.empty(), ..Emitted::default() },
            given,
            frozen: Vec::new(),
            changed: Vec::new(),
            leaving: Vec::new(),
            error: None,
            watermark,
            extends: fires_once && call.spec.assigner.is_session(),
            closes: fires_once && call.spec.lateness == 0 && !call.spec.retracts(),
            assigned: Assigned::default(),
            cursor: Cursor::default(),
        }
    }

    /// Takes in the shard's rows of one batch.
    pub(crate) fn rows(&mut self, batch: &Arrivals<'_>) -> Judgement {
        let mut judgement = Judgement::default();
        self.cursor = Cursor::default();
        let rows = BatchRows::new(batch.passage, batch.columns);
        match &mut self.shard.contents {
            Contents::Aggregated(_) => self.pending.reserve(batch.mine.iter().map(Block::len).sum()),
            Contents::Buffered(buffer) => buffer.enter(&batch.passage.batch),
        }
        let mut slots = Vec::new();
        for blocks in batch.mine.chunks(MORSEL / BLOCK) {
            self.shard.keys.assign((batch.keys, 0), blocks, &mut slots);
            let mut from = 0;
            for block in blocks {
                let keys = &slots[from..from + block.len()];
                from += keys.len();
                self.shard.panes.touch(keys);
                if self.extends {
                    self.session_rows(block, keys, (batch, &rows), &mut judgement);
                    continue;
                }
                for (row, &key) in block.iter().zip(keys) {
                    self.row(row, key, (batch, &rows), &mut judgement);
                }
            }
        }
        self.flush(&rows);
        judgement
    }

    /// Takes in one row. Not inlined, so that the loop over sessions that only get longer stays a small one.
    #[inline(never)]
    pub(crate) fn row(
        &mut self,
        row: usize,
        key: u32,
        (batch, rows): (&Arrivals<'_>, &BatchRows<'_>),
        judgement: &mut Judgement,
    ) {
        self.watermark = batch.watermarks.before_next(row, &mut self.cursor);
        let (time, arrival) = (rows.times[row], rows.first_arrival + row as u64);
        let delta = batch.deltas.and_then(|deltas| deltas[row]);
        let row = Row { row, key, time, arrival, delta };
        let taken = match self.spec.assigner.is_session() {
            true => self.session_row(row, batch.gaps.of(row.row), rows),
            false => self.aligned_row(row, rows),
        };
        judgement.note(taken, row, self.watermark, self.spec.knows_late());
    }

    /// Ends the call at a watermark: what is due fires, and all that has fired is fetched.
    pub(crate) fn finish(mut self, watermark: i64, clock_passed: bool) -> Result<Emitted> {
        self.watermark = watermark;
        let next = |pane: &Pane, stories: &[Story], place: usize| {
            self.spec.next_time(pane, || stories.get(place).and_then(|story| story.early_at))
        };
        let due = if watermark == NONE { Vec::new() } else { self.shard.panes.take_due(watermark, next) };
        self.emitted.entries.reserve(due.len());
        for due in due.chunks(BLOCK) {
            self.shard.touch(due.iter().map(|&(id, _)| id));
            match self.closes {
                true => self.close(due),
                false => due.iter().for_each(|&(id, since)| self.happen(id, since)),
            }
        }
        self.shard.panes.thin_out();
        if clock_passed {
            self.clock();
        }
        self.settle();
        self.shard.watermark = watermark;
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.emitted),
        }
    }

    fn flush(&mut self, rows: &BatchRows<'_>) {
        if let Contents::Aggregated(contents) = &mut self.shard.contents {
            contents.flush(&mut self.pending, rows);
        }
    }

    /// Before a pane changes: fetches what emissions still want of it.
    pub(crate) fn thaw(&mut self, id: u32, rows: &BatchRows<'_>) {
        if self.shard.panes.get(id).frozen {
            self.flush(rows);
            self.materialize();
        }
    }

    /// Fetches what emissions are waiting for.
    pub(crate) fn materialize(&mut self) {
        if let Contents::Aggregated(contents) = &mut self.shard.contents {
            let given = self.spec.retracts().then_some(&mut self.shard.given);
            contents.materialize(&mut self.emitted, given);
        }
        for id in self.frozen.drain(..) {
            self.shard.panes.get_mut(id).frozen = false;
        }
    }

    /// Whether the watermark makes something happen to a pane.
    pub(crate) fn is_due(&self, id: u32) -> bool {
        self.passed(self.next_time(id)) && self.passed(self.shard.panes.time(id))
    }

    /// What is due happens to a pane, before a row comes to it.
    pub(crate) fn catch_up(&mut self, id: u32) {
        self.happen(id, self.shard.panes.time(id));
        self.shard.panes.thin_out();
    }

    /// Everything that the watermark makes happen to a pane. What happens first has waited for the watermark `since`, or for
    /// a higher one.
    fn happen(&mut self, id: u32, since: i64) {
        loop {
            let next = self.next_time(id);
            if next > self.watermark {
                return self.schedule(id);
            }
            let cause = Cause::Watermark { time: next, since: since.max(next) };
            let pane = self.shard.panes.get_mut(id);
            if pane.due {
                if pane.changed {
                    self.fire(id, Firing::Late, cause);
                }
                return self.forget(id);
            }
            // what never ends has nothing before the end of input
            let endless = pane.last == END && self.watermark == END;
            if next < pane.last && !endless {
                self.early(id, next, since.max(next));
                continue;
            }
            pane.due = true;
            let last = pane.last;
            if self.spec.fires_at_end() {
                self.fire(id, Firing::OnTime, Cause::Watermark { time: last, since: since.max(last) });
            }
        }
    }

    /// The watermark has passed the end of these panes, each since it was as high as noted, or since the end itself if that
    /// is higher.
    fn close(&mut self, due: &[(u32, i64)]) {
        let mut entries = std::mem::take(&mut self.emitted.entries);
        entries.extend(due.iter().map(|&(id, since)| {
            let Pane { last, slot, .. } = *self.shard.panes.get(id);
            let cause = Cause::Watermark { time: last, since: since.max(last) };
            self.emission(id, Firing::OnTime, cause, Origin::Slot(slot))
        }));
        self.emitted.entries = entries;
        due.iter().for_each(|&(id, _)| self.forget(id));
    }

    /// The watermark at which something happens to a pane next.
    fn next_time(&self, id: u32) -> i64 {
        let panes = &self.shard.panes;
        self.spec.next_time(panes.get(id), || panes.story(id).early_at)
    }

    /// Something happens to a pane when its next time has come. If that is over, it happens as soon as the watermark moves.
    pub(crate) fn schedule(&mut self, id: u32) {
        let next = self.next_time(id);
        let time = if self.passed(next) { self.watermark.saturating_add(1) } else { next };
        self.shard.panes.set_time(id, time);
    }

    /// Whether the watermark has reached a time.
    pub(crate) fn passed(&self, time: i64) -> bool {
        has_passed(self.watermark, time)
    }

    /// A pane is gone, and its contents when nobody waits for them.
    pub(crate) fn forget(&mut self, id: u32) {
        self.leaving.push(self.shard.panes.get(id).slot);
        self.shard.panes.remove(id);
    }

    /// A row of aligned, global or counted windows. Returns whether any window took it, and whether all did.
    fn aligned_row(&mut self, row: Row, rows: &BatchRows<'_>) -> Taken {
        let mut assigned = std::mem::take(&mut self.assigned);
        self.spec.assigner.windows(row.time, &mut assigned);
        let (mut taken, all) = (0, assigned.windows.len());
        for &(first, last) in &assigned.windows {
            if self.passed(self.spec.expires_at(last)) {
                continue;
            }
            taken += 1;
            let place = |id: u32| (self.shard.panes.get(id).first, self.shard.panes.get(id).last);
            let ids = self.shard.panes.of_key(row.key);
            let at = ids.partition_point(|&id| place(id) < (first, last));
            let found = ids.get(at).copied().filter(|&id| place(id) == (first, last));
            if let Some(id) = found.filter(|&id| self.is_due(id)) {
                self.catch_up(id);
            }
            let id = found.unwrap_or_else(|| self.open(at, first, last, row));
            self.take(id, row, rows);
        }
        self.assigned = assigned;
        match taken {
            _ if all == 0 => Taken::NoWindow,
            0 => Taken::Dropped,
            _ if taken < all => Taken::Partly,
            _ => Taken::Whole,
        }
    }

    /// A new pane at place `at` among those of the row's key.
    pub(crate) fn open(&mut self, at: usize, first: i64, last: i64, row: Row) -> u32 {
        let mut pane = Pane::new(first, last, self.new_slot());
        pane.due = self.passed(last);
        let id = self.shard.panes.insert(row.key, at, pane, row.arrival);
        self.schedule(id);
        id
    }

    pub(crate) fn new_slot(&mut self) -> u32 {
        match &mut self.shard.contents {
            Contents::Aggregated(contents) => contents.new_slot(),
            Contents::Buffered(buffer) => buffer.new_slot(),
        }
    }

    /// A pane takes a row, and its trigger looks at it.
    #[inline]
    pub(crate) fn take(&mut self, id: u32, row: Row, rows: &BatchRows<'_>) {
        self.thaw(id, rows);
        let pane = self.shard.panes.get_mut(id);
        pane.fill = Fill::News;
        let slot = pane.slot;
        match &mut self.shard.contents {
            Contents::Aggregated(_) => self.pending.push(row.row, slot),
            Contents::Buffered(buffer) => buffer.push(row.row, slot),
        }
        if self.spec.trigger.when != Rule::EventTime || matches!(self.spec.assigner, Assigner::Count) {
            self.judge_row(id, row);
        } else if self.shard.panes.get(id).due {
            self.late(id, row.arrival);
        }
    }
}

/// Whether a watermark has reached a time.
pub(super) fn has_passed(watermark: i64, time: i64) -> bool {
    watermark != NONE && time <= watermark
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    NoWindow,
    Dropped,
    Partly,
    Whole,
}

impl Judgement {
    pub(crate) fn add(&mut self, other: Judgement) {
        self.counts.add(&other.counts);
        self.dropped.extend(other.dropped);
    }

    fn note(&mut self, taken: Taken, row: Row, watermark: i64, knows_late: bool) {
        let late = u64::from(knows_late && has_passed(watermark, row.time));
        match taken {
            Taken::NoWindow => self.counts.no_window += 1,
            Taken::Dropped => {
                self.counts.dropped_late += 1;
                self.dropped.push(Judged { row: row.row, watermark });
            }
            Taken::Partly | Taken::Whole => {
                self.counts.taken += 1;
                self.counts.late_taken += late;
                self.counts.partly_late += u64::from(taken == Taken::Partly);
            }
        }
    }
}
