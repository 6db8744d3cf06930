//! Which windows hold a time, and when they are due and expired.

use crate::{MAX, NONE, Spec};

/// Window `k` of a spec: `[offset + k * slide, offset + k * slide + size)`, in exact arithmetic.
///
/// Windows of one spec have one size, so ordering them by start is ordering them by end, then start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Window {
    start: i128,
    end: i128,
}

impl Window {
    /// The windows that hold `ts`, by start.
    pub(crate) fn of(spec: &Spec, ts: i64) -> Vec<Window> {
        let (size, slide, ts) = (i128::from(spec.size), i128::from(spec.slide), i128::from(ts));
        let offset = i128::from(spec.offset).rem_euclid(slide);
        // The last start at or before ts, then one slide back at a time while the window still holds ts.
        let mut start = offset + (ts - offset).div_euclid(slide) * slide;
        let mut found = Vec::new();
        while ts < start + size {
            found.push(Window { start, end: start + size });
            start -= slide;
        }
        found.reverse();
        found
    }

    /// The bounds as far as `i64` can hold them.
    pub(crate) fn clipped(&self) -> (i64, i64) {
        let clip = |t: i128| t.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        (clip(self.start), clip(self.end))
    }

    /// Whether the end does not fit `i64`: then only the end of input closes the window.
    fn is_open(&self) -> bool {
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

/// The windows of a spec that hold `ts`, as clipped `(start, end)`, by end, then start. Empty in a gap.
pub fn windows(spec: &Spec, ts: i64) -> Vec<(i64, i64)> {
    Window::of(spec, ts).iter().map(Window::clipped).collect()
}
