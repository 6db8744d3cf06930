//! Starts and ends of the same thing, joined into one record.

use std::collections::BTreeMap;

use crate::{Timers, Value};

/// One end of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The row's running number over starts and ends, from 0.
    pub row: u64,
    /// Its event time.
    pub time: i64,
}

/// A start with its end, or abandoned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// What the two have in common.
    pub key: Vec<Value>,
    /// The start.
    pub start: Part,
    /// The end; none if it has not come in time.
    pub end: Option<Part>,
}

/// What became of the rows: `starts = matched + abandoned + replaced` and those that are open,
/// `ends = matched + unmatched`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairCounters {
    /// Rows that start something.
    pub starts: u64,
    /// Rows that end something.
    pub ends: u64,
    /// Pairs.
    pub matched: u64,
    /// Starts whose time ran out.
    pub abandoned: u64,
    /// Starts that another one of their key took the place of.
    pub replaced: u64,
    /// Ends without an open start: dropped.
    pub unmatched: u64,
    /// Timers of starts that had been replaced.
    pub stale_timers: u64,
}

/// Matches starts and ends by key. In pseudo-code:
///
/// ```text
/// start: it is the open one of its key now, whatever was open; register a timer at its time + timeout
/// end:   if one is open: give the pair, delete the timer of the open one, forget it
/// timer: if one is open, and this is its time + timeout: give it as abandoned, forget it
/// ```
///
/// No row is late: a start whose time has run out already is abandoned with the next advance of the watermark, and an end that
/// comes before that still matches it.
#[derive(Clone, Debug)]
pub struct Pairs {
    timeout: i64,
    open: BTreeMap<Vec<Value>, Part>,
    timers: Timers,
    counters: PairCounters,
}

impl Pairs {
    /// Starts are abandoned when the watermark reaches their time plus this, which saturates.
    pub fn new(timeout: i64) -> Pairs {
        assert!(timeout >= 0, "the timeout must not be negative, but is {timeout}");
        Pairs { timeout, open: BTreeMap::new(), timers: Timers::new(), counters: PairCounters::default() }
    }

    /// What became of the rows.
    pub fn counters(&self) -> &PairCounters {
        &self.counters
    }

    /// A start.
    pub fn start(&mut self, key: &[Value], time: i64) {
        let row = self.next_row();
        self.counters.starts += 1;
        let replaced = self.open.insert(key.to_vec(), Part { row, time });
        self.counters.replaced += u64::from(replaced.is_some());
        self.timers.register(key, time.saturating_add(self.timeout));
    }

    /// An end, which gives a pair if a start is open.
    pub fn end(&mut self, key: &[Value], time: i64) -> Option<Pair> {
        let row = self.next_row();
        self.counters.ends += 1;
        let Some(start) = self.open.remove(key) else {
            self.counters.unmatched += 1;
            return None;
        };
        self.counters.matched += 1;
        self.timers.delete(key, start.time.saturating_add(self.timeout));
        Some(Pair { key: key.to_vec(), start, end: Some(Part { row, time }) })
    }

    /// The watermark has risen: what is abandoned, in order of the timers.
    pub fn advance(&mut self, watermark: i64) -> Vec<Pair> {
        let mut abandoned = Vec::new();
        let (timeout, open, counters) = (self.timeout, &mut self.open, &mut self.counters);
        self.timers.advance(watermark, |_, time, key| match open.get(key) {
            Some(start) if start.time.saturating_add(timeout) == time => {
                abandoned.push(Pair { key: key.to_vec(), start: *start, end: None });
                open.remove(key);
                counters.abandoned += 1;
            }
            _ => counters.stale_timers += 1,
        });
        abandoned
    }

    /// Panics if a row was lost.
    pub fn validate(&self) {
        let c = &self.counters;
        assert_eq!(c.starts, c.matched + c.abandoned + c.replaced + self.open.len() as u64, "{c:?}");
        assert_eq!(c.ends, c.matched + c.unmatched, "{c:?}");
    }

    fn next_row(&self) -> u64 {
        self.counters.starts + self.counters.ends
    }
}
