//! What the passing of time makes fire: event time by the watermark, and the clock.

use std::collections::BTreeSet;

use crate::window::Window;
use crate::{Kind, MAX, NONE, Oracle, Output, Trigger, Value, Windows, trigger};

/// What is to fire at which time: by time, then window, then key.
type Agenda = BTreeSet<(i128, Window, Vec<Value>, Kind)>;

/// Early firings of a window in one jump of the watermark, beside the first: they are all alike.
const MOST_EARLY: i128 = 10_000;

impl Oracle {
    /// The clock moves watermarks first; then what is still open fires early.
    pub(crate) fn advance_clock(&mut self, reading: i64, out: &mut Output) -> Result<(), String> {
        if self.clock.is_some_and(|clock| reading < clock) {
            return Ok(());
        }
        self.clock = Some(reading);
        for p in 0..self.spec.partitions {
            let last = *self.last_activity[p].get_or_insert(reading);
            let quiet = i128::from(reading) - i128::from(last);
            if self.spec.idle_timeout.is_some_and(|timeout| quiet > i128::from(timeout)) {
                self.merge.idle(p);
            }
        }
        self.catch_up(out)?;
        let quiet = i128::from(reading) - i128::from(*self.last_row.get_or_insert(reading));
        if self.spec.quiet_flush.is_some_and(|limit| quiet > i128::from(limit)) {
            self.flush();
            self.catch_up(out)?;
        }
        self.fire_by_clock(reading, out)
    }

    /// Raises the watermark to the last tick of the last open window. Windows without an end that fits `i64` do not count:
    /// they wait for the end of input. Partitions go on as if nothing had happened; what they say is merged as before, and
    /// counts once it is above this.
    fn flush(&mut self) {
        let ends = self.windows.keys().filter(|window| !window.is_open());
        let last = ends.map(|window| window.end - 1).max().and_then(|last| i64::try_from(last).ok());
        self.flushed = self.flushed.max(last.unwrap_or(NONE));
    }

    /// Early firings by the clock: once for each reading. A window that is due has nothing new, for it fires on time and for
    /// each late row. A row that came before the first reading counts as come with it.
    fn fire_by_clock(&mut self, reading: i64, out: &mut Output) -> Result<(), String> {
        let Trigger::EarlyClock(interval) = self.spec.trigger else { return Ok(()) };
        for (window, keys) in &mut self.windows {
            for (key, pane) in keys {
                match pane.next_by_clock {
                    Some(time) if time <= reading.into() => {
                        pane.fire(&self.spec, key, window.clipped(), Kind::Early, &mut out.fired)?;
                    }
                    None if pane.is_fresh => pane.next_by_clock = Some(trigger::after(reading, interval)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Brings the windows up to the merged watermark: what became due fires, each at its time; what expired goes.
    pub(crate) fn catch_up(&mut self, out: &mut Output) -> Result<(), String> {
        let (before, now, lateness) = (self.watermark, self.watermark(), self.spec.allowed_lateness);
        if now == before {
            return Ok(());
        }
        self.watermark = now;
        let mut agenda = self.agenda(before);
        while let Some((_, window, key, kind)) = agenda.pop_first() {
            self.fire(&window, &key, kind, out)?;
            if let (Kind::Early, Some(time)) = (kind, self.step_early(&window, &key)) {
                agenda.insert((time, window, key, kind));
            }
        }
        self.fire_dirty(|window| window.is_expired(now, lateness), out)?;
        self.windows.retain(|window, _| !window.is_expired(now, lateness));
        if let (MAX, Windows::Count { size, .. }) = (now, &self.spec.window) {
            self.count_windows.finish(&self.spec, *size, &mut out.fired)?;
        }
        Ok(())
    }

    /// What the watermark has reached since it was at `before`. A window that was due then has nothing left to do.
    fn agenda(&self, before: i64) -> Agenda {
        let mut agenda = Agenda::new();
        if !self.spec.trigger.is_by_time() {
            return agenda;
        }
        for (window, keys) in self.windows.iter().filter(|(window, _)| !window.is_due(before)) {
            for (key, pane) in keys {
                if window.is_due(self.watermark) {
                    agenda.insert((window.end - 1, *window, key.clone(), Kind::OnTime));
                }
                if let Some(time) = pane.next_early.filter(|&time| self.is_early(window, time)) {
                    agenda.insert((time, *window, key.clone(), Kind::Early));
                }
            }
        }
        agenda
    }

    /// Whether an early firing is due at this time: before the last tick, and reached by the watermark. The end of input
    /// reaches what a window without end has left at once, and on time.
    fn is_early(&self, window: &Window, time: i128) -> bool {
        let is_reached = time <= i128::from(self.watermark) && !(window.is_open() && self.watermark == MAX);
        is_reached && time < window.end - 1
    }

    /// One interval on, but not beyond the last tick; the new time if the watermark has reached that too. Of very many that it has
    /// reached in one jump, only the last ones are given.
    fn step_early(&mut self, window: &Window, key: &[Value]) -> Option<i128> {
        let Trigger::EarlyEventTime(interval) = self.spec.trigger else { return None };
        let reached = i128::from(self.watermark).min(window.end - 1);
        let pane = self.windows.get_mut(window)?.get_mut(key)?;
        let (time, interval) = (pane.next_early?, i128::from(interval));
        let left_out = ((reached - time) / interval - MOST_EARLY).max(0);
        let next = (time + (left_out + 1) * interval).min(window.end - 1);
        pane.next_early = Some(next);
        self.is_early(window, next).then_some(next)
    }

    /// Fires what late rows have changed, in the windows chosen.
    pub(crate) fn fire_dirty(
        &mut self,
        chosen: impl Fn(&Window) -> bool,
        out: &mut Output,
    ) -> Result<(), String> {
        let all = std::mem::take(&mut self.dirty);
        let (now, later): (BTreeSet<_>, BTreeSet<_>) =
            all.into_iter().partition(|(window, _)| chosen(window));
        self.dirty = later;
        now.iter().try_for_each(|(window, key)| self.fire(window, key, Kind::Late, out))
    }

    /// A session that has become part of another has nothing of its own to fire.
    fn fire(&mut self, window: &Window, key: &[Value], kind: Kind, out: &mut Output) -> Result<(), String> {
        match self.windows.get_mut(window).and_then(|keys| keys.get_mut(key)) {
            Some(pane) => pane.fire(&self.spec, key, window.clipped(), kind, &mut out.fired),
            None => Ok(()),
        }
    }
}
