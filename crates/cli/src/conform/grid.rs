//! Which windows hold a time, computed twice without the engine: exactly, as the engine promises it, and as Flink does
//! it, in 64 bits that wrap around. The window of either kind says when it is due and when it is gone.

use highwater::watermark::END;

/// A shape of windows in milliseconds, as a trace gives it: nothing is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Shape {
    pub(crate) size: i64,
    pub(crate) slide: i64,
    pub(crate) offset: i64,
    /// One window a time, whatever the size; only Flink makes a difference.
    pub(crate) tumbling: bool,
}

/// A window that holds a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Its start before clipping: what tells it from others.
    pub(crate) id: i128,
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The watermark at which it fires.
    pub(crate) due: i64,
    /// The watermark at which it is gone.
    pub(crate) gone: i64,
}

/// No trace has a row in more windows than this; a wrapped loop of Flink's would.
const MAX_WINDOWS: usize = 10_000_000;

impl Shape {
    /// The windows of a time by the definition, earliest first: those `offset + k * slide <= ts < offset + k * slide +
    /// size` in arithmetic that has room, with bounds clipped to 64 bits. One whose end was clipped is due at the end of
    /// input.
    pub(crate) fn exact(&self, ts: i64, lateness: i64) -> Vec<Held> {
        let [ts, size, slide, offset] = [ts, self.size, self.slide, self.offset].map(i128::from);
        let last = (ts - offset).div_euclid(slide);
        let first = (ts - offset - size).div_euclid(slide) + 1;
        let held = |k: i128| {
            let start = offset + k * slide;
            let end = start + size;
            let at = |watermark: i128| if end > i128::from(i64::MAX) { END } else { clip(watermark) };
            let (due, gone) = (at(end - 1), at(end - 1 + i128::from(lateness)));
            Held { id: start, start: clip(start), end: clip(end), due, gone }
        };
        (first..=last).map(held).collect()
    }

    /// Flink's `getWindowStartWithOffset`, for the slide.
    pub(crate) fn flinks_start(&self, ts: i64) -> i64 {
        let remainder = ts.wrapping_sub(self.offset).wrapping_rem(self.slide);
        let behind = if remainder < 0 { remainder.wrapping_add(self.slide) } else { remainder };
        ts.wrapping_sub(behind)
    }

    /// The windows of a time as Flink's assigners list them, latest start first. `None` if they would not come to an end.
    pub(crate) fn flinks(&self, ts: i64, lateness: i64) -> Option<Vec<Held>> {
        let mut windows = Vec::new();
        let mut start = self.flinks_start(ts);
        while self.tumbling || start > ts.wrapping_sub(self.size) {
            let end = start.wrapping_add(self.size);
            let due = end.wrapping_sub(1);
            let gone = due.checked_add(lateness).unwrap_or(END);
            windows.push(Held { id: start.into(), start, end, due, gone });
            if self.tumbling {
                break;
            }
            if windows.len() > MAX_WINDOWS {
                return None;
            }
            start = start.wrapping_sub(self.slide);
        }
        Some(windows)
    }
}

fn clip(time: i128) -> i64 {
    time.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
