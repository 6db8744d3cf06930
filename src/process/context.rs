//! What a user's function sees: rows one after the other, and the state, timers and results of a key.

use arrow_array::RecordBatch;

use super::KeyedProcess;
use super::shard::{Kind, Shard};
use super::standing::Job;
use crate::error::Result;
use crate::progress::Judged;
use crate::watermark::NONE;

/// The rows of one batch whose keys are in one shard.
///
/// [`next`](Rows::next) gives them in order, and lets timers fire in between where they are due.
pub struct Rows<'a, P: KeyedProcess> {
    process: &'a P,
    shard: &'a mut Shard<P>,
    job: &'a Job,
    /// The batch's number in the call.
    number: usize,
    /// Row numbers; `None` for all rows of the batch.
    rows: Option<&'a [u32]>,
    taken: usize,
}

/// A row, and what there is to its key.
pub struct Row<'a, P: KeyedProcess> {
    /// Which row of the batch it is.
    pub index: usize,
    /// Its event time, in ticks.
    pub time: i64,
    /// Its key.
    pub key: Keyed<'a, P>,
    number: usize,
}

/// A timer that has fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The time that it was registered for, in ticks.
    pub time: i64,
}

/// Where a row is, until the end of the call: see [`Results::batches`](super::Results::batches).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The batch's number in the call.
    pub batch: usize,
    /// The row of the batch.
    pub row: usize,
}

/// A key during a row or a firing: its state, its timers, and the results that it gives.
pub struct Keyed<'a, P: KeyedProcess> {
    shard: &'a mut Shard<P>,
    slot: u32,
    event: u64,
    watermark: i64,
    clock: Option<i64>,
}

/// When a key's row or firing happens.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    /// The place in the order of all events.
    pub(crate) event: u64,
    pub(crate) watermark: i64,
    pub(crate) clock: Option<i64>,
}

impl<'a, P: KeyedProcess> Rows<'a, P> {
    pub(crate) fn new(
        process: &'a P,
        shard: &'a mut Shard<P>,
        job: &'a Job,
        number: usize,
        rows: Option<&'a [u32]>,
    ) -> Self {
        Rows { process, shard, job, number, rows, taken: 0 }
    }

    /// The whole batch, whose rows [`Row::index`] counts. Columns can be looked up once, before the first row.
    pub fn batch(&self) -> &'a RecordBatch {
        &self.job.batch
    }

    /// Which input the batch came from: 0, or 1 for the right one of two.
    pub fn input(&self) -> usize {
        self.job.input
    }

    /// The next row; timers that are due before it have fired by then. `None` at the end.
    ///
    /// # Errors
    /// That of a timer's function.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a row borrows its key, and firing can fail")]
    pub fn next(&mut self) -> Result<Option<Row<'_, P>>> {
        let index = match self.rows {
            None if self.taken == self.job.times.len() => return Ok(None),
            None => self.taken,
            Some(rows) if self.taken == rows.len() => return Ok(None),
            Some(rows) => rows[self.taken] as usize,
        };
        let watermark = self.job.watermarks[index];
        if self.shard.state.timers.earliest() <= watermark {
            self.shard.fire_between(self.process, self.job, self.last(), index)?;
        }
        self.taken += 1;
        let (code, null) = self.job.codes.get(index);
        let slot = self.shard.enter(code, null);
        let moment = Moment { event: self.job.row_event(index), watermark, clock: self.job.clock };
        self.shard.log.event = moment.event;
        let key = Keyed::new(self.shard, slot, moment);
        Ok(Some(Row { index, time: self.job.times[index], key, number: self.number }))
    }

    /// The last row that was given.
    pub(crate) fn last(&self) -> Option<usize> {
        self.taken.checked_sub(1).map(|taken| self.rows.map_or(taken, |rows| rows[taken] as usize))
    }
}

impl<P: KeyedProcess> Row<'_, P> {
    /// Whether the row's time is at or before the watermark.
    pub fn is_late(&self) -> bool {
        self.time <= self.key.watermark && self.key.watermark != NONE
    }

    /// Where the row is, until the end of the call.
    pub fn position(&self) -> Position {
        Position { batch: self.number, row: self.index }
    }

    /// Hands the row back in [`Output::late`](crate::Output::late), with the watermark that it lost to.
    pub fn hand_back(self) {
        let judged = Judged { row: self.index, watermark: self.key.watermark };
        self.key.shard.log.late.push((self.number, judged));
    }
}

impl<'a, P: KeyedProcess> Keyed<'a, P> {
    #[inline]
    pub(crate) fn new(shard: &'a mut Shard<P>, slot: u32, moment: Moment) -> Self {
        let Moment { event, watermark, clock } = moment;
        Keyed { shard, slot, event, watermark, clock }
    }

    /// The state, the default one if there is none.
    #[inline]
    pub fn state(&mut self) -> &mut P::State {
        self.shard.change(self.slot).get_or_insert_default()
    }

    /// The state, if there is one; nothing is made, or noted as changed.
    #[inline]
    pub fn peek(&self) -> Option<&P::State> {
        self.shard.state.keys.entry(self.slot).state.as_ref()
    }

    /// The state, if there is one, to be changed.
    #[inline]
    pub fn peek_mut(&mut self) -> Option<&mut P::State> {
        self.peek()?;
        self.shard.change(self.slot).as_mut()
    }

    /// Forgets the state.
    pub fn clear(&mut self) {
        if self.peek().is_some() {
            *self.shard.change(self.slot) = None;
        }
    }

    /// Registers a timer that fires when the watermark reaches `time`. False if there is one for this time already.
    #[inline]
    pub fn register_timer(&mut self, time: i64) -> bool {
        self.shard.register(Kind::EventTime, self.slot, time, self.event)
    }

    /// Deletes the timer of exactly this time. False if there is none.
    #[inline]
    pub fn delete_timer(&mut self, time: i64) -> bool {
        self.shard.delete(Kind::EventTime, self.slot, time)
    }

    /// Registers a timer that fires when the injected clock reaches `time`. False if there is one for this time already.
    pub fn register_clock_timer(&mut self, time: i64) -> bool {
        self.shard.register(Kind::Clock, self.slot, time, self.event)
    }

    /// Deletes the clock timer of exactly this time. False if there is none.
    pub fn delete_clock_timer(&mut self, time: i64) -> bool {
        self.shard.delete(Kind::Clock, self.slot, time)
    }

    /// Gives a result.
    #[inline]
    pub fn emit(&mut self, output: P::Output) {
        self.shard.emit(self.slot, self.event, output);
    }

    /// Adds one to a counter, by its place in [`KeyedProcess::counters`]; one that has no name there is not kept.
    #[inline]
    pub fn count(&mut self, counter: usize) {
        if let Some(count) = self.shard.log.counters.get_mut(counter) {
            *count += 1;
        }
    }

    /// The merged watermark: for a row the one before it, for a firing the one that it is due to. [`NONE`] before the first.
    pub fn watermark(&self) -> i64 {
        self.watermark
    }

    /// The injected clock, if it has been set.
    pub fn clock(&self) -> Option<i64> {
        self.clock
    }
}
