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
    /// Its window has expired, so nobody knows: dropped.
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
