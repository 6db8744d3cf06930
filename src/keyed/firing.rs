//! What makes a pane fire, and what firing does to it.

use arrow_array::RecordBatch;

use super::assign::Assigner;
use super::contents::{Contents, append};
use super::emission::{Arrival, Emission, Order, Origin, Said};
use super::pane::{Fill, Given, Pane, Past, Story};
use super::work::{Row, Working};
use crate::accumulator::{Accumulator, Rows};
use crate::block::Block;
use crate::error::{Error, Result};
use crate::event_time::ticks;
use crate::fire::{Firing, LateFiring};
use crate::function::WindowContext;
use crate::trigger::Rule;
use crate::watermark::END;

/// In one jump of the watermark a window fires early at most so often. All these firings are alike, and the first ones are left
/// out; so a tiny interval and a row that is years ahead cannot fill the memory.
const MAX_EARLY_FIRINGS: i128 = 10_000;

/// What a firing is due to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause {
    /// A row, by its arrival number.
    Row(u64),
    /// The watermark has reached a time, and `since` if what was due at that time came up later.
    Watermark { time: i64, since: i64 },
    /// The clock has moved, after all that the watermark did.
    Clock,
    /// Late rows of the call are coalesced.
    EndOfCall,
}

impl Working<'_> {
    /// The trigger looks at a row that a pane has taken.
    pub(crate) fn judge_row(&mut self, id: u32, row: Row) {
        let (due, last) = (self.shard.panes.get(id).due, self.shard.panes.get(id).last);
        let counted = matches!(self.spec.assigner, Assigner::Count);
        let story = self.shard.panes.story_mut(id);
        if counted {
            let (low, high) = story.times;
            story.times = (low.min(row.time), high.max(row.time));
        }
        let firing = match due {
            _ if counted => Firing::OnTime,
            true => Firing::Late,
            false => Firing::Early,
        };
        match self.spec.trigger.when {
            Rule::Count(count) => {
                story.count += 1;
                if story.count >= count {
                    story.count = 0;
                    self.fire(id, firing, Cause::Row(row.arrival));
                }
            }
            Rule::Delta { threshold, .. } => {
                let Some(value) = row.delta else { return };
                let mark = *story.mark.get_or_insert(value);
                if value - mark > threshold {
                    story.mark = Some(value);
                    self.fire(id, firing, Cause::Row(row.arrival));
                }
            }
            _ if due => self.late(id, row.arrival),
            Rule::EarlyCount(count) => {
                story.count += 1;
                if story.count >= count {
                    story.count = 0;
                    self.fire(id, firing, Cause::Row(row.arrival));
                }
            }
            Rule::EarlyEventTime(interval) if story.early_at.is_none() => {
                let next = (row.time.div_euclid(interval)).saturating_add(1).saturating_mul(interval);
                let next = next.min(last);
                story.early_at = Some(next);
                self.schedule(id);
            }
            Rule::EventTime | Rule::EarlyEventTime(_) | Rule::EarlyClock(_) => {}
        }
    }

    /// A row has come for a window whose end the watermark has passed.
    pub(crate) fn late(&mut self, id: u32, arrival: u64) {
        match self.spec.late_firing {
            LateFiring::PerRow => self.fire(id, Firing::Late, Cause::Row(arrival)),
            LateFiring::Coalesced => {
                if !std::mem::replace(&mut self.shard.panes.get_mut(id).changed, true) {
                    self.changed.push(id);
                }
            }
        }
    }

    /// The watermark has reached `since`, and with it a time at which a pane fires early.
    pub(crate) fn early(&mut self, id: u32, time: i64, since: i64) {
        let last = self.shard.panes.get(id).last;
        if let Rule::EarlyEventTime(interval) = self.spec.trigger.when {
            let reached = self.reached(since).1.min(last);
            let reached = i128::from(reached) - i128::from(time);
            let skipped = (reached / i128::from(interval) - MAX_EARLY_FIRINGS).max(0);
            let next = i128::from(time) + (skipped + 1) * i128::from(interval);
            let next = next.min(i128::from(last)) as i64;
            self.shard.panes.story_mut(id).early_at = Some(next);
        }
        self.fire(id, Firing::Early, Cause::Watermark { time, since });
    }

    /// The arrival number of the first row that is judged by `watermark` or more, and by what. After the last row of the call
    /// that is the next one to come.
    fn reached(&self, watermark: i64) -> (Arrival, i64) {
        self.call.ladder.reached(watermark).unwrap_or((Arrival::LAST, self.watermark))
    }

    /// The clock has passed a multiple of the interval: panes with news fire early.
    pub(crate) fn clock(&mut self) {
        let live: Vec<u32> = self.shard.panes.live().collect();
        for id in live {
            let pane = self.shard.panes.get(id);
            if pane.fill == Fill::News && !pane.due {
                self.fire(id, Firing::Early, Cause::Clock);
            }
        }
    }

    /// At the end of a call: fires what late rows have changed, and fetches all that is waited for.
    pub(crate) fn settle(&mut self) {
        for id in std::mem::take(&mut self.changed) {
            if self.shard.panes.get(id).changed {
                self.fire(id, Firing::Late, Cause::EndOfCall);
            }
        }
        self.materialize();
        match &mut self.shard.contents {
            Contents::Aggregated(contents) => contents.release(&self.leaving),
            Contents::Buffered(buffer) => self.leaving.iter().for_each(|&slot| buffer.release(slot)),
        }
        self.leaving.clear();
        if let Err(error) = self.shard.compact() {
            self.error.get_or_insert(error);
        }
    }

    /// A pane fires, if it has anything to say.
    pub(crate) fn fire(&mut self, id: u32, firing: Firing, cause: Cause) {
        let pane = self.shard.panes.get_mut(id);
        pane.changed = false;
        let counted = matches!(self.spec.assigner, Assigner::Count);
        let stale = self.spec.discards() || counted;
        if pane.fill == Fill::Empty || stale && pane.fill != Fill::News {
            return;
        }
        pane.fill = Fill::Said;
        let slot = pane.slot;
        let emission = self.emission(id, firing, cause, Origin::Slot(slot));
        match self.shard.contents {
            Contents::Aggregated(_) => self.emit_slot(id, emission),
            Contents::Buffered(_) => {
                if let Err(error) = self.emit_rows(id, slot, emission, cause) {
                    self.error.get_or_insert(error);
                }
            }
        }
        // windows that are counted fire once each
        self.shard.panes.past_mut(id).number += u32::from(!counted);
        if self.spec.trigger.purging || self.spec.discards() {
            if counted {
                self.shard.panes.story_mut(id).times = Story::NONE.times;
            }
            let new = self.new_slot();
            self.shard.panes.set_slot(id, new);
            self.shard.panes.get_mut(id).fill = Fill::Empty;
            self.leaving.push(slot);
        } else if let Contents::Buffered(buffer) = &self.shard.contents {
            let fill = if buffer.is_empty(slot) { Fill::Empty } else { Fill::Said };
            self.shard.panes.get_mut(id).fill = fill;
        } else {
            self.shard.panes.get_mut(id).frozen = true;
            self.frozen.push(id);
        }
    }

    #[inline(always)]
    pub(crate) fn emission(&self, id: u32, firing: Firing, cause: Cause, origin: Origin) -> Emission {
        let Pane { first, last, .. } = *self.shard.panes.get(id);
        let Past { key, number, created } = self.shard.panes.past(id);
        let counted = matches!(self.spec.assigner, Assigner::Count);
        let (first, last) = match counted {
            // as far as an end can be shown
            true => {
                let (first, last) = self.shard.panes.story(id).times;
                (first, last.min(END - 1))
            }
            false => (first, last),
        };
        let by_event = counted || self.spec.late_firing == LateFiring::PerRow;
        let sessions = self.spec.assigner.is_session();
        let (arrival, by_row, time) = match cause {
            _ if !by_event && !sessions => (Some(Arrival::of(0)), false, 0),
            Cause::Row(arrival) => (Some(Arrival::of(arrival)), true, 0),
            Cause::Watermark { time, since } if since == time && !by_event => (None, false, time),
            Cause::Watermark { time, since } => (Some(self.reached(since).0), false, time),
            Cause::Clock => (Some(Arrival::LAST), true, 0),
            Cause::EndOfCall => (Some(Arrival::LAST), true, 1),
        };
        // ends that are shown as the same are the same
        let by_arrival =
            arrival.filter(|_| by_event).map(|arrival| arrival.row().min(i64::MAX as u64) as i64);
        let lead = by_arrival.unwrap_or(last.min(END - 1));
        let order = Order { lead, arrival, by_row, time, last, first, firing, created, number, result: true };
        let null = self.shard.keys.null_slot() == Some(key);
        Emission { order, code: self.shard.keys.codes()[key as usize], given: None, origin, null }
    }

    /// Notes down a result, and what it replaces.
    #[inline]
    fn emit_slot(&mut self, id: u32, emission: Emission) {
        if self.spec.retracts() {
            self.retract(id, &emission);
        }
        self.emitted.entries.push(emission);
    }

    /// Takes back what a pane has given, and notes that it gives something new.
    fn retract(&mut self, id: u32, emission: &Emission) {
        let now = Given { slot: self.given, said: emission.said() };
        self.given += 1;
        for given in std::mem::replace(&mut self.shard.panes.story_mut(id).given, vec![now]) {
            let order = Order { result: false, ..emission.order };
            let origin = Origin::Given(given.slot);
            let given = Some(Box::new(given));
            self.emitted.entries.push(Emission { order, given, origin, ..*emission });
        }
    }

    /// Computes a result from the rows that a pane has kept.
    fn emit_rows(&mut self, id: u32, slot: u32, mut emission: Emission, cause: Cause) -> Result<()> {
        let watermark = match cause {
            Cause::Watermark { since, .. } => self.reached(since).1,
            _ => self.watermark,
        };
        let Contents::Buffered(buffer) = &mut self.shard.contents else { return Ok(()) };
        let mut rows = buffer.rows(slot)?;
        if let Some(evictor) = self.spec.evictor.filter(|evictor| !evictor.after) {
            rows = buffer.evict(slot, &rows, evictor)?;
        }
        if matches!(self.spec.assigner, Assigner::Count) {
            let times = ticks(rows.column(self.call.source.event_time.column));
            let Order { first, last, .. } = &mut emission.order;
            *first = times.iter().copied().min().unwrap_or(*first);
            *last = times.iter().copied().max().unwrap_or(*last).min(END - 1);
        }
        let at = match &self.spec.function {
            Some(function) => {
                let Said { start, end, firing, number } = emission.said();
                let context = WindowContext { start, end, firing, number, watermark };
                let failed =
                    |message| Error::Aggregate { aggregate: format!("{:?}", function.function), message };
                let given = function.function.call(&context, &rows).map_err(failed)?;
                self.emitted.rows.push(self.spec.checked(given).map_err(failed)?);
                self.emitted.rows.len() - 1
            }
            None => {
                let result = self.aggregate(&rows);
                if self.spec.retracts() {
                    self.retract(id, &emission);
                    self.materialize_given(&result);
                }
                let at = self.emitted.accumulators.first().map_or(0, |all| all.len());
                append(&mut self.emitted.accumulators, &result);
                at
            }
        };
        self.emitted.entries.push(Emission { origin: Origin::Ready(at as u32), ..emission });
        if let (Some(evictor), Contents::Buffered(buffer)) =
            (self.spec.evictor.filter(|evictor| evictor.after), &mut self.shard.contents)
        {
            buffer.evict(slot, &rows, evictor)?;
        }
        Ok(())
    }

    /// Keeps a result that may have to be taken back, and fetches those that are.
    fn materialize_given(&mut self, result: &[Box<dyn Accumulator>]) {
        for emission in &mut self.emitted.entries[self.emitted.ready..] {
            if let Origin::Given(slot) = emission.origin {
                let at = self.emitted.accumulators.first().map_or(0, |all| all.len());
                let taken: Vec<_> = self.shard.given.iter().map(|given| given.gather(&[slot])).collect();
                append(&mut self.emitted.accumulators, &taken);
                emission.origin = Origin::Ready(at as u32);
            }
        }
        self.emitted.ready = self.emitted.entries.len();
        append(&mut self.shard.given, result);
    }

    /// The aggregates over some rows.
    fn aggregate(&self, rows: &RecordBatch) -> Vec<Box<dyn Accumulator>> {
        let columns = self.call.inputs.of(rows);
        let times = ticks(rows.column(self.call.source.event_time.column));
        let (zeros, blocks) = (vec![0; rows.num_rows()], Block::cover(0..rows.num_rows()));
        let mut accumulators = self.call.inputs.empty();
        for (accumulator, columns) in accumulators.iter_mut().zip(&columns) {
            accumulator.resize(1);
            if !blocks.is_empty() {
                accumulator.update_one(
                    &zeros,
                    &Rows {
                        column: columns.value.as_ref(),
                        by: columns.by.as_ref(),
                        times: &times,
                        first_arrival: 0,
                        blocks: &blocks,
                    },
                );
            }
        }
        accumulators
    }
}
