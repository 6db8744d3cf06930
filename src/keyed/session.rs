//! Sessions: windows of a key that grow and merge.
//!
//! A row opens `[time, time + gap)`, and takes in whatever it touches; only then is it judged. A session that has fired and is
//! still there can be extended: if its new end has not been reached it fires again when it is.

use std::ops::Range;

use super::contents::Contents;
use super::pane::{Fill, Panes};
use super::work::{Row, Taken, Working};
use crate::state::BatchRows;

/// The last tick of the session that a row would have for itself: the end of time if its end cannot be said in 64 bits.
fn last_tick(time: i64, gap: i64) -> i64 {
    time.saturating_add(gap - 1)
}

impl Panes {
    /// Which sessions of a key one from `first` to `last` touches, by their place.
    fn touched(&self, key: u32, first: i64, last: i64) -> Range<usize> {
        let ids = self.of_key(key);
        let from = ids.partition_point(|&id| self.get(id).last.saturating_add(1) < first);
        let touched = ids[from..].iter().take_while(|&&id| self.get(id).first <= last.saturating_add(1));
        from..from + touched.count()
    }
}

impl Working<'_> {
    /// Takes a row that does nothing but make the latest session of its key longer, if it is one. Most rows are.
    #[inline]
    pub(crate) fn extend_session(&mut self, row: usize, key: u32, time: i64, gap: i64) -> bool {
        let watermark = self.watermark;
        let Some((pane, only)) = self.shard.panes.latest(key) else { return false };
        let last = last_tick(time, gap);
        // a row behind the start does not touch what lies before
        let begins = time >= pane.first || only && pane.first <= last.saturating_add(1);
        // one that has not been reached has nothing to do before
        if !begins || time > pane.last.saturating_add(1) || pane.last <= watermark || pane.frozen {
            return false;
        }
        (pane.first, pane.last) = (pane.first.min(time), pane.last.max(last));
        pane.fill = Fill::News;
        self.pending.push(row, pane.slot);
        true
    }

    /// A row of a session. Not inlined, so that the loop over rows that need no more than the above is a small one.
    #[inline(never)]
    pub(crate) fn session_row(&mut self, row: Row, gap: i64, rows: &BatchRows<'_>) -> Taken {
        let (first, last) = (row.time, last_tick(row.time, gap));
        while let Some(id) = self.due_session(row.key, first, last) {
            self.catch_up(id);
        }
        let panes = &self.shard.panes;
        let (ids, Range { start: from, end: to }) =
            (panes.of_key(row.key), panes.touched(row.key, first, last));
        let id = match to - from {
            0 if self.passed(self.spec.expires_at(last)) => return Taken::Dropped,
            0 => {
                let id = self.open(from, first, last, row);
                self.take(id, row, rows);
                return Taken::Whole;
            }
            1 => ids[from],
            _ => {
                let others = ids[from + 1..to].to_vec();
                self.bridge(ids[from], &others, rows)
            }
        };
        self.thaw(id, rows);
        let pane = self.shard.panes.get_mut(id);
        let extended = last > pane.last;
        (pane.first, pane.last) = (pane.first.min(first), pane.last.max(last));
        if extended && pane.due && last > self.watermark {
            // it has fired, and goes on
            (pane.due, pane.changed) = (false, false);
            self.schedule(id);
        }
        self.take(id, row, rows);
        Taken::Whole
    }

    /// A session for which something is due before a row comes: one that it touches, or the first of its key, so that there
    /// are not many more of them than if all were up to date.
    fn due_session(&self, key: u32, first: i64, last: i64) -> Option<u32> {
        let panes = &self.shard.panes;
        let ids = panes.of_key(key);
        let touched = &ids[panes.touched(key, first, last)];
        ids.first().into_iter().chain(touched).copied().find(|&id| self.is_due(id))
    }

    /// Sessions that follow one another become one: the earliest of them. Returns it.
    fn bridge(&mut self, earliest: u32, others: &[u32], rows: &BatchRows<'_>) -> u32 {
        self.thaw(earliest, rows);
        for &id in others {
            self.thaw(id, rows);
        }
        for &id in others {
            self.swallow(earliest, id);
        }
        self.shard.panes.thin_out();
        let pane = self.shard.panes.get_mut(earliest);
        pane.changed &= pane.due;
        if pane.changed {
            self.changed.push(earliest);
        }
        self.schedule(earliest);
        earliest
    }

    /// Merges session `id` into `into`, which starts before it.
    fn swallow(&mut self, into: u32, id: u32) {
        let pane = self.shard.panes.get(id).clone();
        let story = self.shard.panes.take_story(id);
        let kept = self.shard.panes.get_mut(into);
        kept.last = kept.last.max(pane.last);
        kept.due &= pane.due;
        kept.changed |= pane.changed;
        kept.fill = kept.fill.max(pane.fill);
        let slot = kept.slot;
        let (past, kept) = (self.shard.panes.past(id), self.shard.panes.past_mut(into));
        kept.created = kept.created.min(past.created);
        kept.number = kept.number.max(past.number);
        if let Some(story) = story {
            let mine = self.shard.panes.story_mut(into);
            mine.count += story.count;
            mine.early_at = [mine.early_at, story.early_at].into_iter().flatten().min();
            mine.given.extend(story.given);
        }
        match &mut self.shard.contents {
            Contents::Aggregated(contents) => contents.merge(slot, pane.slot),
            Contents::Buffered(buffer) => buffer.merge(slot, pane.slot),
        }
        self.shard.panes.remove(id);
    }
}
