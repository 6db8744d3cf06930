//! The first row of each key in a window.

use std::collections::BTreeSet;

use crate::window::Window;
use crate::{NONE, Spec, Value, Windows};

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first of its key in its window: passed on at once.
    First,
    /// Not the first: dropped.
    Duplicate,
    /// What it might repeat has been forgotten, so nobody knows: dropped.
    Late,
}

/// Keeps the first row of each key in each window, in order of arrival. A window is forgotten when the watermark reaches its
/// last tick plus the lateness.
#[derive(Clone, Debug)]
pub struct Dedup {
    windows: Windows,
    allowed_lateness: i64,
    watermark: i64,
    seen: BTreeSet<(Window, Vec<Value>)>,
}

impl Dedup {
    /// Panics unless the windows are such that every time lies in exactly one.
    pub fn new(windows: Windows, allowed_lateness: i64) -> Dedup {
        let has_one = match windows {
            Windows::Aligned { size, slide, .. } => size == slide,
            Windows::Calendar { .. } | Windows::Global => true,
            _ => false,
        };
        assert!(has_one, "a row must lie in exactly one window, not in {windows:?}");
        Spec { allowed_lateness, ..Spec::over(windows.clone()) }.check();
        Dedup { windows, allowed_lateness, watermark: NONE, seen: BTreeSet::new() }
    }

    /// Judges a row by the watermark before it.
    pub fn push(&mut self, key: &[Value], time: i64) -> Verdict {
        let window = Window::of(&self.windows, time, 0)[0];
        if window.is_expired(self.watermark, self.allowed_lateness) {
            Verdict::Late
        } else if self.seen.insert((window, key.to_vec())) {
            Verdict::First
        } else {
            Verdict::Duplicate
        }
    }

    /// The watermark has risen.
    pub fn advance(&mut self, watermark: i64) {
        self.watermark = self.watermark.max(watermark);
        self.seen.retain(|(window, _)| !window.is_expired(self.watermark, self.allowed_lateness));
    }

    /// How many keys are remembered.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}

/// Lets a row pass unless one of its key has passed whose time is less than the horizon from its own, before or after. In
/// pseudo-code:
///
/// ```text
/// row: if one of its key is remembered whose time is less than the horizon away: it is a duplicate
///      if its time + lateness <= the watermark: it is late; nobody remembers all that it might repeat
///      pass it on, and remember it
/// watermark: forget all rows with time + horizon - 1 + lateness <= the watermark
/// ```
#[derive(Clone, Debug)]
pub struct DedupWithin {
    horizon: i64,
    allowed_lateness: i64,
    watermark: i64,
    /// Key and time of what has passed and is remembered.
    passed: Vec<(Vec<Value>, i64)>,
}

impl DedupWithin {
    /// Panics unless the horizon is positive and the lateness not negative.
    pub fn new(horizon: i64, allowed_lateness: i64) -> DedupWithin {
        assert!(horizon > 0 && allowed_lateness >= 0, "no horizon: {horizon}, lateness {allowed_lateness}");
        DedupWithin { horizon, allowed_lateness, watermark: NONE, passed: vec![] }
    }

    /// Whether the watermark has reached a time and the lateness after it.
    fn is_over(&self, time: i64) -> bool {
        self.watermark != NONE && time.saturating_add(self.allowed_lateness) <= self.watermark
    }

    /// Judges a row by the watermark before it.
    pub fn push(&mut self, key: &[Value], time: i64) -> Verdict {
        let repeats = |(other, passed): &(Vec<Value>, i64)| {
            other == key && passed.abs_diff(time) < self.horizon.unsigned_abs()
        };
        if self.passed.iter().any(repeats) {
            Verdict::Duplicate
        } else if self.is_over(time) {
            Verdict::Late
        } else {
            self.passed.push((key.to_vec(), time));
            Verdict::First
        }
    }

    /// The watermark has risen.
    pub fn advance(&mut self, watermark: i64) {
        self.watermark = self.watermark.max(watermark);
        let passed = std::mem::take(&mut self.passed);
        let last = |time: i64| time.saturating_add(self.horizon - 1);
        self.passed = passed.into_iter().filter(|&(_, time)| !self.is_over(last(time))).collect();
    }

    /// How many rows are remembered.
    pub fn len(&self) -> usize {
        self.passed.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.passed.is_empty()
    }
}
