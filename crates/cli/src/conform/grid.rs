//! Which windows hold a time, computed twice without the engine: exactly, as the engine promises it, and as Flink does
//! it, in 64 bits that wrap around. The window of either kind says when it is due and when it is gone.

use highwater::watermark::END;

/// A shape of windows in milliseconds, as a trace gives it: nothing is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Shape {
    pub(crate) form: Form,
    pub(crate) size: i64,
    /// The slide or step; of tumbling windows the size.
    pub(crate) slide: i64,
    pub(crate) offset: i64,
}

/// How windows follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Form {
    /// One window a time, whatever the size; only Flink makes a difference to sliding ones.
    Tumbling,
    Sliding,
    /// Each a step longer than the one before, up to the size.
    Cumulate,
    /// Rows no further apart than the size, which is the gap.
    Session,
    /// Each row's value is its gap.
    SessionByValue,
    /// One for all time.
    Global,
}

/// A window that holds a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Its bounds before clipping: what tells it from others.
    pub(crate) id: (i128, i128),
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The watermark at which it fires.
    pub(crate) due: i64,
    /// The watermark at which it is gone.
    pub(crate) gone: i64,
}

impl Held {
    /// A window in arithmetic that has room, its bounds clipped to 64 bits. One whose end was clipped is due at the end of
    /// input.
    pub(crate) fn exact((start, end): (i128, i128), lateness: i64) -> Held {
        let at = |watermark: i128| if end > i128::from(i64::MAX) { END } else { clip(watermark) };
        let (due, gone) = (at(end - 1), at(end - 1 + i128::from(lateness)));
        Held { id: (start, end), start: clip(start), end: clip(end), due, gone }
    }

    /// A window as Flink sees it, whose bounds have wrapped around to fit 64 bits.
    pub(crate) fn wrapping((start, end): (i128, i128), lateness: i64) -> Held {
        let (from, to) = (start as i64, end as i64);
        let due = to.wrapping_sub(1);
        let gone = due.checked_add(lateness).unwrap_or(END);
        Held { id: (start, end), start: from, end: to, due, gone }
    }

    /// The bounds of the session of one row, either way. Ends that no time can come to are alike.
    pub(crate) fn alone(ts: i64, gap: i64, wrapping: bool) -> (i128, i128) {
        let (start, end) = (i128::from(ts), i128::from(ts) + i128::from(gap));
        (start, if wrapping { i128::from(ts.wrapping_add(gap)) } else { end.min(i128::from(i64::MAX) + 1) })
    }
}

/// No trace has a row in more windows than this; a wrapped loop of Flink's would.
const MAX_WINDOWS: usize = 10_000_000;

impl Shape {
    /// The gap of sessions, for a row of this value.
    pub(crate) fn gap(&self, value: i64) -> Option<i64> {
        match self.form {
            Form::Session => Some(self.size),
            Form::SessionByValue => Some(value),
            _ => None,
        }
    }

    /// The windows of a time by the definition, earliest first; not those of sessions.
    pub(crate) fn exact(&self, ts: i64, lateness: i64) -> Vec<Held> {
        let held = |bounds: (i128, i128)| Held::exact(bounds, lateness);
        if self.form == Form::Global {
            return vec![held((i64::MIN.into(), i128::from(i64::MAX) + 1))];
        }
        let [ts, size, slide, offset] = [ts, self.size, self.slide, self.offset].map(i128::from);
        if self.form == Form::Cumulate {
            // those of the block around ts that end after it; of those whose end is clipped only the first
            let start = offset + (ts - offset).div_euclid(size) * size;
            let steps = (ts - start) / slide + 1..=(size + slide - 1) / slide;
            let mut windows: Vec<Held> =
                steps.map(|step| held((start, start + size.min(step * slide)))).collect();
            windows.dedup_by_key(|held| held.due);
            return windows;
        }
        // those with offset + k * slide <= ts < offset + k * slide + size
        let last = (ts - offset).div_euclid(slide);
        let first = (ts - offset - size).div_euclid(slide) + 1;
        (first..=last).map(|k| offset + k * slide).map(|start| held((start, start + size))).collect()
    }

    /// In Flink's order: cumulating windows as they end, others latest start first.
    pub(crate) fn as_listed(&self, mut earliest_first: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
        if self.form != Form::Cumulate {
            earliest_first.reverse();
        }
        earliest_first
    }

    /// Flink's `getWindowStartWithOffset`, for the slide.
    pub(crate) fn flinks_start(&self, ts: i64) -> i64 {
        let remainder = ts.wrapping_sub(self.offset).wrapping_rem(self.slide);
        let behind = if remainder < 0 { remainder.wrapping_add(self.slide) } else { remainder };
        ts.wrapping_sub(behind)
    }

    /// The windows of a time as Flink's assigners list them, latest start first. `None` if they would not come to an end, and
    /// for cumulating windows, which must be those of the definition.
    pub(crate) fn flinks(&self, ts: i64, lateness: i64) -> Option<Vec<Held>> {
        if self.form == Form::Cumulate {
            return None;
        }
        if self.form == Form::Global {
            return Some(self.exact(ts, lateness));
        }
        let tumbling = self.form == Form::Tumbling;
        let mut windows = Vec::new();
        let mut start = self.flinks_start(ts);
        while tumbling || start > ts.wrapping_sub(self.size) {
            let end = start.wrapping_add(self.size);
            windows.push(Held::wrapping((start.into(), end.into()), lateness));
            if tumbling {
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
