//! Sessions: windows of a key that grow and merge.
//!
//! A row opens `[time, time + gap)`, and takes in whatever it touches; only then is it judged. A session that has fired and is
//! still there can be extended: if its new end has not been reached it fires again when it is.

use super::contents::Contents;
use super::pane::{NOTHING, Pane};
use super::work::{Row, Taken, Working};
use crate::state::BatchRows;
use crate::watermark::END;

impl Working<'_> {
    /// A row of a session.
    pub(crate) fn session_row(&mut self, row: Row, gap: i64, rows: &BatchRows<'_>) -> Taken {
        let (first, last) = (row.time, row.time.saturating_add(gap - 1));
        let last = if row.time > i64::MAX - gap { END } else { last };
        let touches =
            |pane: &Pane| first <= pane.last.saturating_add(1) && pane.first <= last.saturating_add(1);
        let (mut before, mut at) = (NOTHING, self.shard.panes.head(row.key));
        while at != NOTHING && self.shard.panes.get(at).first > last.saturating_add(1) {
            (before, at) = (at, self.shard.panes.get(at).next);
        }
        if at == NOTHING || !touches(self.shard.panes.get(at)) {
            if self.passed(self.spec.expires_at(last)) {
                return Taken::Dropped;
            }
            let id = self.open(before, first, last, row);
            self.take(id, row, rows);
            return Taken::Whole;
        }
        // the sessions that touch follow one another in the list
        let next = self.shard.panes.get(at).next;
        if next != NOTHING && touches(self.shard.panes.get(next)) {
            at = self.bridge(at, touches, rows);
        }
        self.thaw(at, rows);
        let pane = self.shard.panes.get_mut(at);
        let extended = last > pane.last;
        (pane.first, pane.last) = (pane.first.min(first), pane.last.max(last));
        if extended && pane.due && last > self.watermark {
            // it has fired, and goes on
            (pane.due, pane.changed) = (false, false);
            let next = self.next_time(at);
            self.schedule(at, next);
        }
        self.take(at, row, rows);
        Taken::Whole
    }

    /// Sessions from `latest` on become one, as long as they touch the row: the earliest of them. Returns it.
    fn bridge(&mut self, latest: u32, touches: impl Fn(&Pane) -> bool, rows: &BatchRows<'_>) -> u32 {
        let mut ids = vec![latest];
        let mut next = self.shard.panes.get(latest).next;
        while next != NOTHING && touches(self.shard.panes.get(next)) {
            ids.push(next);
            next = self.shard.panes.get(next).next;
        }
        for &id in &ids {
            self.thaw(id, rows);
        }
        let earliest = ids.remove(ids.len() - 1);
        for &id in ids.iter().rev() {
            self.swallow(earliest, id);
        }
        let pane = self.shard.panes.get_mut(earliest);
        pane.changed &= pane.due;
        if pane.changed {
            self.changed.push((earliest, pane.generation));
        }
        let next = self.next_time(earliest);
        self.schedule(earliest, next);
        earliest
    }

    /// Merges session `id` into `into`, which starts before it.
    fn swallow(&mut self, into: u32, id: u32) {
        let pane = self.shard.panes.get(id).clone();
        let story = self.shard.panes.story(id).clone();
        let kept = self.shard.panes.get_mut(into);
        kept.last = kept.last.max(pane.last);
        kept.due &= pane.due;
        kept.changed |= pane.changed;
        kept.news |= pane.news;
        kept.filled |= pane.filled;
        let slot = kept.slot;
        let mine = self.shard.panes.story(into);
        mine.created = mine.created.min(story.created);
        mine.number = mine.number.max(story.number);
        mine.count += story.count;
        mine.early_at = [mine.early_at, story.early_at].into_iter().flatten().min();
        mine.given.extend(story.given);
        match &mut self.shard.contents {
            Contents::Aggregated(contents) => contents.merge(slot, pane.slot),
            Contents::Buffered(buffer) => buffer.merge(slot, pane.slot),
        }
        self.shard.panes.remove(id);
    }
}
