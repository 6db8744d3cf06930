//! Sessions: windows of a key that grow and merge.
//!
//! A row opens `[time, time + gap)`, and takes in whatever it touches; only then is it judged. A session that has fired and is
//! still there can be extended: if its new end has not been reached it fires again when it is.

use std::ops::Range;

use super::assign::Gaps;
use super::contents::Contents;
use super::pane::{Fill, Pane, Panes};
use super::work::{Arrivals, Judgement, Row, Taken, Working, has_passed};
use crate::block::{BLOCK, Block};
use crate::state::BatchRows;

/// The last tick of the session that a row would have for itself: the end of time if its end cannot be said in 64 bits.
fn last_tick(time: i64, gap: i64) -> i64 {
    // a saturating addition takes twice as many instructions
    let more = gap - 1;
    time.min(i64::MAX - more) + more
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
    /// Takes rows of one block. Most of them do nothing but make the latest session of their key longer, and are done with
    /// here: a session that has not been reached by the watermark has nothing to do before.
    pub(crate) fn session_rows(
        &mut self,
        block: &Block,
        keys: &[u32],
        (batch, rows): (&Arrivals<'_>, &BatchRows<'_>),
        judgement: &mut Judgement,
    ) {
        // no row of the block is judged by more
        let watermark = batch.watermarks.behind_block(block.start);
        // the times of the rows, and their gaps, side by side with the keys
        let side_by_side = |all: &[i64], room: &mut [i64; BLOCK]| {
            room.iter_mut().zip(block.iter()).for_each(|(own, row)| *own = all[row]);
        };
        let (mut gathered, mut gaps) = ([0; BLOCK], [0; BLOCK]);
        let times = match block.whole() {
            Some(whole) => &rows.times[whole],
            None => {
                side_by_side(rows.times, &mut gathered);
                &gathered[..keys.len()]
            }
        };
        if let Gaps::Each(all) = batch.gaps {
            side_by_side(all, &mut gaps);
        }
        let (mut at, mut rest, mut slots) = (0, block.rows, [0; BLOCK]);
        while at < keys.len() {
            let (panes, keys_left, times_left) = (&mut self.shard.panes, &keys[at..], &times[at..]);
            let taken = match batch.gaps {
                Gaps::Same(gap) => panes.lengthen(
                    keys_left,
                    times_left,
                    |_, time| last_tick(time, *gap),
                    watermark,
                    &mut slots,
                ),
                Gaps::Each(_) => {
                    let last = |place: usize, time| last_tick(time, gaps[at + place]);
                    panes.lengthen(keys_left, times_left, last, watermark, &mut slots)
                }
            };
            let before = rest;
            (0..taken).for_each(|_| rest &= rest - 1);
            let lengthened = Block { start: block.start, rows: before ^ rest };
            self.lengthened(lengthened, &slots[..taken], (batch, watermark), judgement);
            at += taken;
            if let Some(&key) = keys.get(at) {
                let row = block.start + rest.trailing_zeros() as usize;
                let (time, arrival) = (times[at], rows.first_arrival + row as u64);
                let session = (time, last_tick(time, batch.gaps.of(row)));
                match time > watermark && self.begins_or_joins((row, key), session, arrival, watermark) {
                    true => judgement.counts.taken += 1,
                    false => self.row(row, key, (batch, rows), judgement),
                }
                rest &= rest - 1;
                at += 1;
            }
        }
    }

    /// Takes a row that is not late, if all that it does is to [begin](Panes::begin) or to [join](Panes::join) a session.
    fn begins_or_joins(
        &mut self,
        (row, key): (usize, u32),
        (first, last): (i64, i64),
        arrival: u64,
        watermark: i64,
    ) -> bool {
        let Contents::Aggregated(contents) = &mut self.shard.contents else { return false };
        let panes = &mut self.shard.panes;
        let mut new = Pane::new(first, last, contents.next_slot());
        new.fill = Fill::News;
        let slot = match panes.begin(key, new, arrival, watermark) {
            true => Some(contents.new_slot()),
            false => panes.join(key, (first, last), watermark),
        };
        if let Some(slot) = slot {
            self.pending.push(row, slot);
        }
        slot.is_some()
    }

    /// Notes the rows of a block that have made sessions longer; `watermark` is no less than what any of them is judged by.
    fn lengthened(
        &mut self,
        taken: Block,
        slots: &[u32],
        (batch, watermark): (&Arrivals<'_>, i64),
        judgement: &mut Judgement,
    ) {
        if taken.rows == 0 {
            return;
        }
        let passage = batch.passage;
        if passage.bounds[taken.start / BLOCK].low <= watermark {
            let late = |&row: &usize| {
                let time = passage.times[row];
                time <= watermark && has_passed(batch.watermarks.before(row), time)
            };
            judgement.counts.late_taken += taken.iter().filter(late).count() as u64;
        }
        self.pending.push_block(taken, slots);
        judgement.counts.taken += slots.len() as u64;
    }

    /// A row of a session.
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
