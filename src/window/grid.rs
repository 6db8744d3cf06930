//! Slices and windows in ticks, by number.
//!
//! Windows of one specification overlap, slices do not: a slice is a piece of time that no window bound cuts, so that a row
//! touches one slice, however many windows it is in. Slices are numbered in order of time, and windows so that their numbers
//! ascend by end, then start.
//!
//! There is a grid for each kind of windows, all with the same verbs. They say which slices a window has and where it lies;
//! what follows from that for watermarks is the same for all and is here. All arithmetic on bounds is done in `i128`, where
//! nothing wraps; a bound that `i64` cannot hold is clipped when it is shown, and a window whose end was clipped is due at
//! end of input only (SEMANTICS rule 4).

use std::ops::Range;

use super::aligned::Aligned;
use super::calendar::Calendar;
use super::cumulate::Cumulate;
use super::{Kind, Window};
use crate::error::{Error, Result};
use crate::time::{TickConverter, TimeDelta};
use crate::watermark::{END, NONE};

/// A window has at most this many slices: beyond it the results alone, one a slide, would drown the rows.
pub(crate) const MAX_SLICES_PER_WINDOW: i64 = 100_000;

/// A slice: its number, and its first and last tick, clipped to `i64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) id: i128,
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// How rows are judged while the merged watermark stays below `valid_below`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Horizon {
    /// No window of a row at or after this time is due.
    pub(crate) fresh_from: i64,
    /// All windows of a row before this time have expired.
    pub(crate) drop_below: i64,
    /// The lowest watermark at which either changes.
    pub(crate) valid_below: i64,
}

/// Far outside of every window number and bound, and safe to add to.
pub(super) const BEFORE_ALL: i128 = i128::MIN / 4;
pub(super) const AFTER_ALL: i128 = i128::MAX / 4;

/// The windows of one specification.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    windows: Windows,
    lateness: i128,
}

#[derive(Clone, Debug)]
enum Windows {
    Aligned(Aligned),
    Cumulate(Cumulate),
    Calendar(Calendar),
}

impl Grid {
    pub(crate) fn new(window: &Window, lateness: i64, ticks: &TickConverter) -> Result<Self> {
        let windows = match &window.kind {
            Kind::Aligned { size, slide } => {
                Windows::Aligned(Aligned::new(*size, *slide, window.offset, ticks)?)
            }
            Kind::Cumulate { size, step } => {
                Windows::Cumulate(Cumulate::new(*size, *step, window.offset, ticks)?)
            }
            Kind::Calendar { .. } if window.offset != TimeDelta::ZERO => {
                let allowed = "none: calendar windows begin where the calendar says";
                return Err(Error::invalid("window offset", window.offset, allowed));
            }
            Kind::Calendar { unit, count, zone } => {
                Windows::Calendar(Calendar::new(*unit, *count, zone, ticks)?)
            }
            Kind::Session { .. } | Kind::SessionBy { .. } | Kind::Global | Kind::Count { .. } => {
                return Err(Error::invalid("window", window, "one that is aligned to the time line"));
            }
        };
        let grid = Grid { windows, lateness: lateness as i128 };
        let slices = grid.slices_of_longest();
        if slices > MAX_SLICES_PER_WINDOW as i128 {
            return Err(Error::invalid(
                "window",
                window,
                format!("at most {MAX_SLICES_PER_WINDOW} slices in a window, and this one has {slices}"),
            ));
        }
        Ok(grid)
    }

    /// The slice that holds a row of this time; `None` in a gap between windows.
    pub(crate) fn slice_of(&self, time: i64) -> Option<Slice> {
        match &self.windows {
            Windows::Aligned(windows) => windows.slice_of(time),
            Windows::Cumulate(windows) => Some(windows.slice_of(time)),
            Windows::Calendar(windows) => Some(windows.slice_of(time)),
        }
    }

    /// The first tick of a slice, clipped: [`slice_of`](Grid::slice_of) has the slice for it.
    pub(crate) fn first_tick(&self, slice: i128) -> i64 {
        clip(match &self.windows {
            Windows::Aligned(windows) => windows.slice_start(slice),
            Windows::Cumulate(windows) => windows.slice_start(slice),
            Windows::Calendar(_) => slice,
        })
    }

    fn slices_of_longest(&self) -> i128 {
        match &self.windows {
            Windows::Aligned(windows) => windows.width,
            Windows::Cumulate(windows) => windows.steps,
            Windows::Calendar(_) => 1,
        }
    }

    /// Whether every window is one slice, which no other window has.
    pub(crate) fn is_single(&self) -> bool {
        self.slices_of_longest() == 1
    }

    /// The slices of a window.
    pub(crate) fn slices_of(&self, window: i128) -> Range<i128> {
        match &self.windows {
            Windows::Aligned(windows) => window..window + windows.width,
            Windows::Cumulate(windows) => windows.block_of(window)..window + 1,
            Windows::Calendar(_) => window..window + 1,
        }
    }

    /// Where the slices of a window are cut, so that windows share what is folded on either side; see
    /// [`Chain`](crate::state::Chain).
    pub(crate) fn middle_of(&self, window: i128) -> i128 {
        match &self.windows {
            Windows::Aligned(windows) => (window.div_euclid(windows.width) + 1) * windows.width,
            Windows::Cumulate(windows) => windows.block_of(window),
            Windows::Calendar(_) => window,
        }
    }

    /// The first window, in order of number, that has this slice.
    pub(crate) fn first_window_of(&self, slice: i128) -> i128 {
        match &self.windows {
            Windows::Aligned(windows) => windows.first_window_of(slice),
            Windows::Cumulate(_) | Windows::Calendar(_) => slice,
        }
    }

    /// The last window that has this slice.
    pub(crate) fn last_window_of(&self, slice: i128) -> i128 {
        match &self.windows {
            Windows::Aligned(windows) => windows.last_window_of(slice),
            Windows::Cumulate(windows) => windows.last_window_of(slice),
            Windows::Calendar(_) => slice,
        }
    }

    /// The window after `window`.
    pub(crate) fn next(&self, window: i128) -> i128 {
        match &self.windows {
            Windows::Aligned(windows) => windows.next(window),
            Windows::Cumulate(windows) => windows.next(window),
            Windows::Calendar(windows) => windows.end(window),
        }
    }

    /// Start and end of a window, unclipped.
    fn span(&self, window: i128) -> (i128, i128) {
        match &self.windows {
            Windows::Aligned(windows) => (windows.start(window), windows.start(window) + windows.size),
            Windows::Cumulate(windows) => windows.span(window),
            Windows::Calendar(windows) => (window, windows.end(window)),
        }
    }

    /// The first window that ends after this time.
    fn first_ending_after(&self, time: i128) -> i128 {
        match &self.windows {
            Windows::Aligned(windows) => windows.first_ending_after(time),
            Windows::Cumulate(windows) => windows.slice_at(time),
            Windows::Calendar(windows) => windows.slice_of(clip(time)).id,
        }
    }

    /// Start and end of a window as they are shown.
    pub(crate) fn bounds(&self, window: i128) -> (i64, i64) {
        let (start, end) = self.span(window);
        (clip(start), clip(end))
    }

    /// The watermark at which a window fires.
    pub(crate) fn due_at(&self, window: i128) -> i64 {
        reached_at(self.span(window).1, 0)
    }

    /// The watermark at which a window is gone.
    pub(crate) fn expires_at(&self, window: i128) -> i64 {
        reached_at(self.span(window).1, self.lateness)
    }

    /// The first window that is not due at this watermark.
    pub(crate) fn first_not_due(&self, watermark: i64) -> i128 {
        self.first_not_reached(watermark, 0)
    }

    /// The first slice that may be in a window that has not expired at this watermark.
    pub(crate) fn first_kept(&self, watermark: i64) -> i128 {
        self.slices_of(self.first_not_reached(watermark, self.lateness)).start
    }

    fn first_not_reached(&self, watermark: i64, lateness: i128) -> i128 {
        match watermark {
            NONE => BEFORE_ALL,
            END => AFTER_ALL,
            // a window is reached when its end <= w + 1 - lateness
            w => self.first_ending_after(w as i128 + 1 - lateness),
        }
    }

    /// How rows are judged at this watermark. At [`END`] every window is gone, whatever the times say.
    pub(crate) fn horizon(&self, watermark: i64) -> Horizon {
        if watermark == END {
            return Horizon { fresh_from: i64::MAX, drop_below: i64::MAX, valid_below: END };
        }
        if watermark == NONE {
            return Horizon { fresh_from: i64::MIN, drop_below: i64::MIN, valid_below: NONE + 1 };
        }
        let not_due = self.first_not_reached(watermark, 0);
        let not_expired = self.first_not_reached(watermark, self.lateness);
        let (fresh_from, drop_below) = match &self.windows {
            Windows::Aligned(windows) => (windows.fresh_from(not_due), windows.start(not_expired)),
            Windows::Cumulate(windows) => (windows.slice_start(not_due), windows.span(not_expired).0),
            Windows::Calendar(_) => (not_due, not_expired),
        };
        Horizon {
            fresh_from: clip(fresh_from),
            drop_below: clip(drop_below),
            valid_below: self.due_at(not_due).min(self.expires_at(not_expired)),
        }
    }
}

/// The watermark that reaches this end plus lateness.
fn reached_at(end: i128, lateness: i128) -> i64 {
    if end > i64::MAX as i128 { END } else { clip(end - 1 + lateness) }
}

/// A tick as it is shown.
pub(super) fn clip(time: i128) -> i64 {
    time.clamp(i64::MIN as i128, i64::MAX as i128) as i64
}
