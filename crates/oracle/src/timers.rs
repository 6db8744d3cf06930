//! Event-time timers of keyed state.

use std::collections::BTreeMap;

use crate::{NONE, Value};

/// The timers of all keys. There is one for each key and time.
///
/// A clock's readings do as well as watermarks: timers by an injected clock are the same thing. But the lowest reading is
/// one like any other, where the lowest watermark is none.
///
/// ```
/// use highwater_oracle::{Timers, Value};
///
/// let key = [Value::Int(7)];
/// let mut timers = Timers::new();
/// timers.register(&key, 10);
/// timers.register(&key, 10);
/// let mut fired = Vec::new();
/// timers.advance(12, |timers, time, key| {
///     fired.push(time);
///     // Reached by the same watermark: fires in the same advance.
///     if time == 10 {
///         timers.register(key, 11);
///     }
/// });
/// assert_eq!(fired, [10, 11]);
/// ```
#[derive(Clone, Debug)]
pub struct Timers {
    /// The key, by time and number of registration.
    pending: BTreeMap<(i64, u64), Vec<Value>>,
    registered: u64,
    /// The watermark or reading of the last advance, or of the one going on.
    reached: Option<i64>,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers::new()
    }
}

impl Timers {
    /// No timers, and no watermark yet.
    pub fn new() -> Timers {
        Timers { pending: BTreeMap::new(), registered: 0, reached: None }
    }

    /// The watermark of the last advance, or of the one going on.
    pub fn watermark(&self) -> i64 {
        self.reached.unwrap_or(NONE)
    }

    /// How many timers wait.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// One that is there already stays as it is. Any time will do: one that the watermark has passed fires with the next advance.
    pub fn register(&mut self, key: &[Value], time: i64) {
        if self.find(key, time).is_none() {
            self.pending.insert((time, self.registered), key.to_vec());
            self.registered += 1;
        }
    }

    /// Takes out the timer of exactly this key and time, if there is one.
    pub fn delete(&mut self, key: &[Value], time: i64) {
        if let Some(place) = self.find(key, time) {
            self.pending.remove(&place);
        }
    }

    /// The watermark has risen to `watermark`: every timer up to there fires, in order of time, then registration, those included
    /// that `on_timer` registers meanwhile. A watermark that is no higher than the last is no advance, and [`NONE`] is no watermark.
    pub fn advance(&mut self, watermark: i64, on_timer: impl FnMut(&mut Timers, i64, &[Value])) {
        if watermark != NONE {
            self.advance_clock(watermark, on_timer);
        }
    }

    /// The same for a clock that shows `reading`.
    pub fn advance_clock(&mut self, reading: i64, mut on_timer: impl FnMut(&mut Timers, i64, &[Value])) {
        if self.reached.is_some_and(|reached| reading <= reached) {
            return;
        }
        self.reached = Some(reading);
        while let Some(((time, number), key)) = self.pending.pop_first() {
            if time > reading {
                self.pending.insert((time, number), key);
                return;
            }
            on_timer(self, time, &key);
        }
    }

    fn find(&self, key: &[Value], time: i64) -> Option<(i64, u64)> {
        let mut at_time = self.pending.range((time, 0)..=(time, u64::MAX));
        at_time.find(|(_, other)| *other == key).map(|(place, _)| *place)
    }
}
