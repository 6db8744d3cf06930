//! One shard: state and timers of its keys, and what the call at hand has done so far.

use super::KeyedProcess;
use super::context::{Keyed, Moment, Rows, Timer};
use super::keys::Keys;
use super::standing::Job;
use super::timers::{Pending, Registered, Timers};
use crate::error::{Error, Result};
use crate::key::Code;
use crate::progress::Judged;

/// The keys of a shard. Everything that lasts is in `state`.
pub(crate) struct Shard<P: KeyedProcess> {
    pub(crate) state: ShardState<P::State>,
    pub(crate) log: Log<P>,
}

/// What a shard remembers.
#[derive(Clone, Debug)]
pub(crate) struct ShardState<S> {
    pub(crate) keys: Keys<S>,
    pub(crate) timers: Timers,
    pub(crate) clock_timers: Timers,
}

/// Which time a timer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    EventTime,
    Clock,
}

/// What one call has done in a shard.
pub(crate) struct Log<P: KeyedProcess> {
    pub(crate) outputs: Vec<Emitted<P::Output>>,
    /// Firings, and registrations within them, if there are other shards to be ordered with.
    pub(crate) firings: Vec<Fired>,
    pub(crate) registrations: Vec<FiringRegistration>,
    ordered: bool,
    /// Registrations of this call.
    registered: u32,
    pub(crate) fired: u64,
    /// Rows handed back, with the number of their batch.
    pub(crate) late: Vec<(usize, Judged)>,
    pub(crate) counters: Vec<u64>,
    /// Keys that may have to be forgotten.
    leaving: Vec<u32>,
    /// How to take everything back, if the call might fail.
    undo: Option<Vec<Undo<P::State>>>,
    /// The event at hand.
    pub(crate) event: u64,
    pub(crate) error: Option<Error>,
}

/// A result, and what it is due to.
#[derive(Debug)]
pub(crate) struct Emitted<O> {
    pub(crate) event: u64,
    pub(crate) code: Code,
    pub(crate) null: bool,
    pub(crate) output: O,
}

/// A firing, as the order across shards sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fired {
    /// The advance that it is due to.
    pub(crate) event: u64,
    pub(crate) time: i64,
    pub(crate) registered: Registered,
    /// How many results and registrations there were before it.
    pub(crate) outputs: usize,
    pub(crate) registrations: usize,
}

/// A registration within a firing: its number counts within the shard until the order across shards is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FiringRegistration {
    pub(crate) kind: Kind,
    pub(crate) slot: u32,
    pub(crate) time: i64,
    pub(crate) serial: u64,
    pub(crate) number: u32,
}

/// A change, as it is taken back.
enum Undo<S> {
    Entered(u32),
    Changed(u32, Option<S>),
    Registered(Kind, u32, i64),
    Removed(Kind, Pending),
}

impl<S> ShardState<S> {
    /// No timer of a kind is due before this.
    pub(crate) fn earliest(&self, kind: Kind) -> i64 {
        match kind {
            Kind::EventTime => self.timers.earliest(),
            Kind::Clock => self.clock_timers.earliest(),
        }
    }

    pub(crate) fn timers_of(&mut self, kind: Kind) -> &mut Timers {
        match kind {
            Kind::EventTime => &mut self.timers,
            Kind::Clock => &mut self.clock_timers,
        }
    }
}

impl<P: KeyedProcess> Shard<P> {
    /// An empty shard; `ordered` if there are others.
    pub(crate) fn new(counters: usize, ordered: bool) -> Self {
        let state = ShardState { keys: Keys::new(), timers: Timers::new(), clock_timers: Timers::new() };
        let log = Log {
            outputs: vec![],
            firings: vec![],
            registrations: vec![],
            ordered,
            registered: 0,
            fired: 0,
            late: vec![],
            counters: vec![0; counters],
            leaving: vec![],
            undo: None,
            event: 0,
            error: None,
        };
        Shard { state, log }
    }

    /// Begins a call.
    pub(crate) fn begin(&mut self, at_risk: bool) {
        self.log.undo = at_risk.then(Vec::new);
        self.log.registered = 0;
    }

    /// Works off the rows of a batch, and what its watermarks make due.
    pub(crate) fn run(&mut self, process: &P, job: &Job, number: usize, rows: Option<&[u32]>) -> Result<()> {
        let mut last = None;
        self.log.event = job.row_event(0);
        if rows.map_or(job.times.len(), <[u32]>::len) > 0 {
            let mut given = Rows::new(process, self, job, number, rows);
            process.rows(&mut given)?;
            // what was left is passed over, but not the timers in between
            while given.next()?.is_some() {}
            last = given.last();
        }
        self.fire_between(process, job, last, job.times.len())
    }

    /// Fires what has become due after row `last` of a batch (from its beginning, if there is none) and before row `next`.
    #[cold]
    pub(crate) fn fire_between(
        &mut self,
        process: &P,
        job: &Job,
        last: Option<usize>,
        next: usize,
    ) -> Result<()> {
        let mut ahead = job.advances.partition_point(|&(row, _)| Some(row) <= last);
        loop {
            let earliest = self.state.timers.earliest();
            // one that was due before it was registered goes with the next advance
            ahead += job.advances[ahead..].partition_point(|&(_, watermark)| watermark < earliest);
            let Some(&(row, watermark)) = job.advances.get(ahead).filter(|&&(row, _)| row <= next) else {
                break;
            };
            let moment = Moment { event: job.advance_event(row), watermark, clock: job.clock };
            self.fire(process, Kind::EventTime, watermark, moment)?;
            ahead += 1;
        }
        Ok(())
    }

    /// Fires all timers of a kind at or before `due`, and what is registered meanwhile.
    pub(crate) fn fire(&mut self, process: &P, kind: Kind, due: i64, moment: Moment) -> Result<()> {
        self.log.event = moment.event;
        while let Some(timer) = self.state.timers_of(kind).pop(due) {
            self.removed(kind, timer);
            self.log.fired += 1;
            if self.log.ordered {
                self.log.firings.push(Fired {
                    event: moment.event,
                    time: timer.time,
                    registered: timer.registered,
                    outputs: self.log.outputs.len(),
                    registrations: self.log.registrations.len(),
                });
            }
            let mut key = Keyed::new(self, timer.slot, moment);
            match kind {
                Kind::EventTime => process.timer(Timer { time: timer.time }, &mut key)?,
                Kind::Clock => process.clock_timer(Timer { time: timer.time }, &mut key)?,
            }
        }
        Ok(())
    }

    /// The slot of a row's key.
    #[inline]
    pub(crate) fn enter(&mut self, code: Code, null: bool) -> u32 {
        let (slot, new) = self.state.keys.find_or_insert(code, null);
        if new {
            if let Some(undo) = &mut self.log.undo {
                undo.push(Undo::Entered(slot));
            }
            self.may_leave(slot);
        }
        slot
    }

    /// A key's state, which is going to be changed.
    #[inline]
    pub(crate) fn change(&mut self, slot: u32) -> &mut Option<P::State> {
        let entry = self.state.keys.entry_mut(slot);
        if let Some(undo) = &mut self.log.undo
            && !entry.saved
        {
            entry.saved = true;
            undo.push(Undo::Changed(slot, entry.state.clone()));
        }
        if !entry.leaving {
            entry.leaving = true;
            self.log.leaving.push(slot);
        }
        &mut entry.state
    }

    fn may_leave(&mut self, slot: u32) {
        let entry = self.state.keys.entry_mut(slot);
        if !entry.leaving {
            entry.leaving = true;
            self.log.leaving.push(slot);
        }
    }

    pub(crate) fn register(&mut self, kind: Kind, slot: u32, time: i64, event: u64) -> bool {
        let registered = Registered { event, number: self.log.registered };
        let timers = self.state.timers_of(kind);
        let serial = timers.next_serial();
        if !timers.register(slot, time, registered) {
            return false;
        }
        self.log.registered += 1;
        self.state.keys.entry_mut(slot).timers += 1;
        if self.log.ordered && is_firing(event) {
            let number = registered.number;
            self.log.registrations.push(FiringRegistration { kind, slot, time, serial, number });
        }
        if let Some(undo) = &mut self.log.undo {
            undo.push(Undo::Registered(kind, slot, time));
        }
        true
    }

    pub(crate) fn delete(&mut self, kind: Kind, slot: u32, time: i64) -> bool {
        let Some(timer) = self.state.timers_of(kind).delete(slot, time) else { return false };
        self.removed(kind, timer);
        true
    }

    /// Notes that a timer is gone.
    fn removed(&mut self, kind: Kind, timer: Pending) {
        self.state.keys.entry_mut(timer.slot).timers -= 1;
        self.may_leave(timer.slot);
        if let Some(undo) = &mut self.log.undo {
            undo.push(Undo::Removed(kind, timer));
        }
    }

    #[inline]
    pub(crate) fn emit(&mut self, slot: u32, event: u64, output: P::Output) {
        let entry = self.state.keys.entry(slot);
        self.log.outputs.push(Emitted { event, code: entry.code, null: entry.null, output });
    }

    /// Ends a call that has succeeded: keys without state and timers are forgotten.
    pub(crate) fn commit(&mut self) {
        let keys = &mut self.state.keys;
        for slot in self.log.leaving.drain(..) {
            let entry = keys.entry_mut(slot);
            (entry.leaving, entry.saved) = (false, false);
            if entry.is_vacant() {
                keys.remove(slot);
            }
        }
        self.state.timers.tidy();
        self.state.clock_timers.tidy();
        self.forget_call();
    }

    /// Takes back everything that the call has done.
    pub(crate) fn undo(&mut self) {
        for slot in self.log.leaving.drain(..) {
            let entry = self.state.keys.entry_mut(slot);
            (entry.leaving, entry.saved) = (false, false);
        }
        for change in self.log.undo.take().into_iter().flatten().rev() {
            match change {
                Undo::Entered(slot) => self.state.keys.remove(slot),
                Undo::Changed(slot, state) => self.state.keys.entry_mut(slot).state = state,
                Undo::Registered(kind, slot, time) => {
                    self.state.timers_of(kind).delete(slot, time);
                    self.state.keys.entry_mut(slot).timers -= 1;
                }
                Undo::Removed(kind, timer) => {
                    self.state.timers_of(kind).put_back(timer);
                    self.state.keys.entry_mut(timer.slot).timers += 1;
                }
            }
        }
        self.log.outputs.clear();
        self.log.late.clear();
        self.log.counters.fill(0);
        self.log.fired = 0;
        self.forget_call();
    }

    /// Panics if an invariant does not hold between calls.
    pub(crate) fn validate(&self) {
        let ShardState { keys, timers, clock_timers } = &self.state;
        timers.validate();
        clock_timers.validate();
        assert_eq!(keys.iter().count(), keys.len());
        let pending: usize = keys.iter().map(|(_, entry)| entry.timers as usize).sum();
        assert_eq!(pending, timers.len() + clock_timers.len(), "every timer is counted by its key");
        for (slot, entry) in keys.iter() {
            assert!(!entry.is_vacant(), "slot {slot} has nothing, and is not forgotten");
            assert!(!entry.saved && !entry.leaving, "slot {slot} is still in a call");
        }
        assert!(self.log.outputs.is_empty() && self.log.firings.is_empty() && self.log.late.is_empty());
    }

    fn forget_call(&mut self) {
        self.log.undo = None;
        // of several shards that have failed, one has told
        self.log.error = None;
        self.log.firings.clear();
        self.log.registrations.clear();
    }
}

/// Rows and firings take turns in the order of events: firings before row `n` are event `2n`, the row is `2n + 1`.
pub(crate) fn is_firing(event: u64) -> bool {
    event.is_multiple_of(2)
}
