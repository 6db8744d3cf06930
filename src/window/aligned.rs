//! Windows of one size, one a slide.
//!
//! Windows start at `offset + k * slide` for every integer `k` and are `size` long. There is one slice a slide, or two if the
//! size is not a multiple of the slide. A window is named by the number of its first slice:
//!
//! ```text
//! size = 2 slides               size = 2.5 slides, two slices a slide      slide > size: one slice, then a gap
//! |--0--|--1--|--2--|--3--|     |0-|1-|2-|3-|4-|5-|6-|7-|                  |-0-|    |-1-|    |-2-|
//! [== k=0 ====)                 [==== k=0 =====)                           [k=0)    [k=1)    [k=2)
//!       [== k=1 ====)                 [==== k=1 =====)
//! ```

use super::grid::{Slice, clip};
use crate::error::Result;
use crate::time::{TickConverter, TimeDelta};

/// Tumbling and sliding windows in ticks.
#[derive(Clone, Debug)]
pub(super) struct Aligned {
    pub(super) size: i128,
    pub(super) slide: i64,
    /// In `0..slide`.
    pub(super) offset: i64,
    /// Where the second slice of a slide starts, if there are two.
    pub(super) cut: Option<i64>,
    /// Slices in a window.
    pub(super) width: i128,
    /// Slices in a slide: 1 or 2. Windows start at multiples of it.
    pub(super) step: i128,
}

impl Aligned {
    pub(super) fn new(
        size: TimeDelta,
        slide: TimeDelta,
        offset: TimeDelta,
        ticks: &TickConverter,
    ) -> Result<Self> {
        let size = ticks.length("window size", size)?;
        let slide = ticks.length("window slide", slide)?;
        let offset = ticks.wide("window offset", offset)?.rem_euclid(slide as i128) as i64;
        let rest = size % slide;
        let cut = (size > slide && rest != 0).then_some(rest);
        let step = if cut.is_some() { 2 } else { 1 };
        let whole = (size / slide).max(1);
        let width = whole as i128 * step + i128::from(cut.is_some());
        Ok(Aligned { size: size as i128, slide, offset, cut, width, step })
    }

    /// The slice that holds a row of this time; `None` in a gap between windows.
    pub(super) fn slice_of(&self, time: i64) -> Option<Slice> {
        let k = match time.checked_sub(self.offset) {
            Some(shifted) => shifted.div_euclid(self.slide),
            None => (time as i128 - self.offset as i128).div_euclid(self.slide as i128) as i64,
        };
        let (k, slide) = (k as i128, self.slide as i128);
        let start = self.offset as i128 + k * slide;
        let within = time as i128 - start;
        let (id, first, end) = match self.cut {
            Some(cut) if within < cut as i128 => (2 * k, start, start + cut as i128),
            Some(cut) => (2 * k + 1, start + cut as i128, start + slide),
            None if within >= self.size => return None,
            None => (k, start, start + slide.min(self.size)),
        };
        Some(Slice { id, first: clip(first), last: clip(end - 1) })
    }

    pub(super) fn start(&self, window: i128) -> i128 {
        self.offset as i128 + window.div_euclid(self.step) * self.slide as i128
    }

    /// The first tick of a slice.
    pub(super) fn slice_start(&self, slice: i128) -> i128 {
        let second = slice.rem_euclid(self.step) == 1;
        self.start(slice) + self.cut.filter(|_| second).map_or(0, i128::from)
    }

    pub(super) fn first_window_of(&self, slice: i128) -> i128 {
        let lowest = slice - self.width + 1;
        lowest + (-lowest).rem_euclid(self.step)
    }

    pub(super) fn last_window_of(&self, slice: i128) -> i128 {
        slice.div_euclid(self.step) * self.step
    }

    pub(super) fn next(&self, window: i128) -> i128 {
        window + self.step
    }

    /// The first window that ends after this time: window `k` does not if `offset + k * slide + size <= time`.
    pub(super) fn first_ending_after(&self, time: i128) -> i128 {
        let latest_start = time - self.size - self.offset as i128;
        (latest_start.div_euclid(self.slide as i128) + 1) * self.step
    }

    /// The end of the window before this one: rows from there on are in no earlier window.
    pub(super) fn fresh_from(&self, window: i128) -> i128 {
        self.start(window) - self.slide as i128 + self.size
    }
}
