//! Which windows hold a time, and when they are due and expired.

use crate::{MAX, NONE, Spec, Windows, calendar};

/// `[start, end)` in exact arithmetic. Windows are ordered by end, then start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Window {
    pub(crate) end: i128,
    pub(crate) start: i128,
}

impl Window {
    /// The windows that hold `ts`, by end, then start. For sessions: the row alone, with this gap, before it is merged with what
    /// is there. Count windows know no time, and give none.
    pub(crate) fn of(windows: &Windows, ts: i64, gap: i64) -> Vec<Window> {
        let ts = i128::from(ts);
        match windows {
            Windows::Aligned { size, slide, offset } => aligned(ts, *size, *slide, *offset),
            Windows::Cumulate { size, step, offset } => cumulate(ts, *size, *step, *offset),
            Windows::Session { .. } | Windows::SessionByValue { .. } => {
                // all that no tick can say is the same end
                let end = (ts + i128::from(gap)).min(i128::from(i64::MAX) + 1);
                vec![Window { start: ts, end }]
            }
            Windows::Global => vec![Window { start: i64::MIN.into(), end: i128::from(i64::MAX) + 1 }],
            Windows::Count { .. } => vec![],
            Windows::Calendar { unit, multiple, zone, nanos_per_tick } => {
                let (start, end) = calendar::bounds(*unit, *multiple, zone, *nanos_per_tick, ts);
                vec![Window { start, end }]
            }
        }
    }

    /// Whether the two overlap, or one ends where the other starts.
    pub(crate) fn touches(&self, other: &Window) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// The smallest window that holds both.
    pub(crate) fn cover(&self, other: &Window) -> Window {
        Window { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The bounds as far as `i64` can hold them.
    pub(crate) fn clipped(&self) -> (i64, i64) {
        let clip = |t: i128| t.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        (clip(self.start), clip(self.end))
    }

    /// Whether the end does not fit `i64`: then only the end of input closes the window.
    pub(crate) fn is_open(&self) -> bool {
        self.end > i128::from(i64::MAX)
    }

    /// Whether the window fires at this watermark: it has reached the last tick.
    pub(crate) fn is_due(&self, watermark: i64) -> bool {
        match watermark {
            NONE => false,
            MAX => true,
            w => !self.is_open() && i128::from(w) >= self.end - 1,
        }
    }

    /// Whether the window's state is gone at this watermark: it has reached the last tick plus the lateness.
    /// A sum beyond `i64` is reached at the end of input, like everything.
    pub(crate) fn is_expired(&self, watermark: i64, lateness: i64) -> bool {
        match watermark {
            NONE => false,
            MAX => true,
            w => !self.is_open() && i128::from(w) >= self.end - 1 + i128::from(lateness),
        }
    }
}

/// The last point at or before `ts` of the grid with this distance.
fn floor(ts: i128, distance: i64, offset: i64) -> i128 {
    let distance = i128::from(distance);
    let offset = i128::from(offset).rem_euclid(distance);
    offset + (ts - offset).div_euclid(distance) * distance
}

/// From the last start at or before `ts` one slide back at a time, while the window still holds it.
fn aligned(ts: i128, size: i64, slide: i64, offset: i64) -> Vec<Window> {
    let (size, mut start) = (i128::from(size), floor(ts, slide, offset));
    let mut found = Vec::new();
    while ts < start + size {
        found.push(Window { start, end: start + size });
        start -= i128::from(slide);
    }
    found.reverse();
    found
}

/// Ends one step after the other up to the last; only one of them open.
fn cumulate(ts: i128, size: i64, step: i64, offset: i64) -> Vec<Window> {
    let start = floor(ts, size, offset);
    let last = start + i128::from(size);
    let mut found = Vec::new();
    let mut end = start;
    while end < last && !found.last().is_some_and(Window::is_open) {
        end = (end + i128::from(step)).min(last);
        if ts < end {
            found.push(Window { start, end });
        }
    }
    found
}

/// The windows of a spec that hold `ts`, as clipped `(start, end)`, by end, then start. Empty in a gap. Sessions as the row
/// alone would make them; count windows and sessions whose gap is in the row have no answer, so the list is empty.
pub fn windows(spec: &Spec, ts: i64) -> Vec<(i64, i64)> {
    let gap = match spec.window {
        Windows::Session { gap } => gap,
        Windows::SessionByValue { .. } => return vec![],
        _ => 0,
    };
    Window::of(&spec.window, ts, gap).iter().map(Window::clipped).collect()
}
