//! Windows that grow by steps.
//!
//! Blocks of `size` start at `offset + k * size`, and every block has windows that all start where it does, each a step longer
//! than the one before. A slice is a step, the last of a block a shorter one if the size is not a multiple. A window is named by
//! the number of its last slice:
//!
//! ```text
//! size = 3.5 steps
//! |--0--|--1--|--2--|-3|--4--|--5--|--6--|-7|
//! [= 0 =)              [= 4 =)
//! [==== 1 ====)        [==== 5 ====)
//! [======= 2 =======)  [======= 6 =======)
//! [======== 3 =========)[======== 7 ========)
//! ```

use super::grid::{AFTER_ALL, Slice, clip};
use crate::error::{Error, Result};
use crate::time::{TickConverter, TimeDelta};

/// Cumulating windows in ticks.
#[derive(Clone, Debug)]
pub(super) struct Cumulate {
    size: i128,
    step: i128,
    /// In `0..size`.
    offset: i128,
    /// Slices in a block.
    pub(super) steps: i128,
    /// The slice of the highest time. Windows after it would have the rows of the one that it names, and an end that is
    /// clipped as well.
    top: i128,
}

impl Cumulate {
    pub(super) fn new(
        size: TimeDelta,
        step: TimeDelta,
        offset: TimeDelta,
        ticks: &TickConverter,
    ) -> Result<Self> {
        let longest = size;
        let size = ticks.length("window size", size)? as i128;
        if step > longest {
            return Err(Error::invalid("window step", step, format!("at most the size, which is {longest}")));
        }
        let step = ticks.length("window step", step)? as i128;
        let offset = ticks.wide("window offset", offset)?.rem_euclid(size);
        let steps = size.div_euclid(step) + i128::from(size % step != 0);
        let mut windows = Cumulate { size, step, offset, steps, top: AFTER_ALL };
        windows.top = windows.slice_at(i64::MAX as i128);
        Ok(windows)
    }

    /// The slice that holds this time.
    pub(super) fn slice_at(&self, time: i128) -> i128 {
        let shifted = time - self.offset;
        shifted.div_euclid(self.size) * self.steps + shifted.rem_euclid(self.size) / self.step
    }

    pub(super) fn slice_of(&self, time: i64) -> Slice {
        let id = self.slice_at(time as i128);
        Slice { id, first: clip(self.slice_start(id)), last: clip(self.span(id).1 - 1) }
    }

    /// The first slice of the block that this slice is in.
    pub(super) fn block_of(&self, slice: i128) -> i128 {
        slice.div_euclid(self.steps) * self.steps
    }

    fn block_start(&self, slice: i128) -> i128 {
        self.offset + slice.div_euclid(self.steps) * self.size
    }

    pub(super) fn slice_start(&self, slice: i128) -> i128 {
        self.block_start(slice) + slice.rem_euclid(self.steps) * self.step
    }

    /// Start and end of a window; the end is also that of its last slice.
    pub(super) fn span(&self, window: i128) -> (i128, i128) {
        let start = self.block_start(window);
        let length = (window.rem_euclid(self.steps) + 1) * self.step;
        (start, start + length.min(self.size))
    }

    pub(super) fn last_window_of(&self, slice: i128) -> i128 {
        (self.block_of(slice) + self.steps - 1).min(self.top)
    }

    pub(super) fn next(&self, window: i128) -> i128 {
        if window < self.top { window + 1 } else { AFTER_ALL }
    }
}
