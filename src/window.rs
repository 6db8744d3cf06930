//! Windows, and the slices that they share.
//!
//! Windows of a specification start at `offset + k * slide` for every integer `k` and are `size` long. A slice is a
//! piece of time that no window bound cuts, so that a row touches one slice, whatever size and slide are:
//!
//! ```text
//! size = 2 slides               size = 2.5 slides, two slices a slide      slide > size: one slice, then a gap
//! |--0--|--1--|--2--|--3--|     |0-|1-|2-|3-|4-|5-|6-|7-|                  |-0-|    |-1-|    |-2-|
//! [== k=0 ====)                 [==== k=0 =====)                           [k=0)    [k=1)    [k=2)
//!       [== k=1 ====)                 [==== k=1 =====)
//! ```
//!
//! A slice is named by its number on the time line, a window by the number of its first slice. All arithmetic on bounds
//! is done in `i128`, where nothing wraps; a bound that `i64` cannot hold is clipped when it is shown, and a window
//! whose end was clipped is due at end of input only (SEMANTICS rule 4).

use crate::error::{Error, Result};
use crate::time::{TickConverter, TimeDelta};
use crate::watermark::{END, NONE};

/// Which windows a row belongs to.
///
/// ```
/// use highwater::{TimeDelta, Window};
/// let minute = Window::tumbling(TimeDelta::from_mins(1));
/// let five_by_one = Window::sliding(TimeDelta::from_mins(5), TimeDelta::from_mins(1)).offset(TimeDelta::from_secs(15));
/// assert_eq!(minute.to_string(), "tumbling 1m");
/// assert_eq!(five_by_one.to_string(), "sliding 5m by 1m, offset 15s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    size: TimeDelta,
    slide: TimeDelta,
    offset: TimeDelta,
}

impl Window {
    /// Windows that follow one another without overlap.
    pub fn tumbling(size: impl Into<TimeDelta>) -> Self {
        let size = size.into();
        Window { size, slide: size, offset: TimeDelta::ZERO }
    }

    /// A window of `size` every `slide`. The size need not be a multiple of the slide; a slide longer than the size leaves
    /// gaps, whose rows belong to no window.
    pub fn sliding(size: impl Into<TimeDelta>, slide: impl Into<TimeDelta>) -> Self {
        Window { size: size.into(), slide: slide.into(), offset: TimeDelta::ZERO }
    }

    /// Moves every window start by `offset`, which may be negative and is taken modulo the slide.
    pub fn offset(mut self, offset: impl Into<TimeDelta>) -> Self {
        self.offset = offset.into();
        self
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.size == self.slide {
            write!(f, "tumbling {}", self.size)?;
        } else {
            write!(f, "sliding {} by {}", self.size, self.slide)?;
        }
        if self.offset != TimeDelta::ZERO {
            write!(f, ", offset {}", self.offset)?;
        }
        Ok(())
    }
}

/// A window has at most this many slices: beyond it the results alone, one a slide, would drown the rows.
pub(crate) const MAX_SLICES_PER_WINDOW: i64 = 100_000;

/// The windows of one specification in ticks.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    size: i128,
    slide: i64,
    /// In `0..slide`.
    offset: i64,
    lateness: i128,
    /// Where the second slice of a slide starts, if there are two.
    cut: Option<i64>,
    /// Slices in a window.
    pub(crate) width: i128,
    /// Slices in a slide: 1 or 2. Windows start at multiples of it.
    step: i128,
}

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

/// Far outside of every window number, and safe to add to.
const BEFORE_ALL: i128 = i128::MIN / 4;
const AFTER_ALL: i128 = i128::MAX / 4;

impl Grid {
    pub(crate) fn new(window: &Window, lateness: i64, ticks: &TickConverter) -> Result<Self> {
        let size = ticks.length("window size", window.size)?;
        let slide = ticks.length("window slide", window.slide)?;
        let offset = ticks.wide("window offset", window.offset)?.rem_euclid(slide as i128) as i64;
        let rest = size % slide;
        let cut = (size > slide && rest != 0).then_some(rest);
        let step = if cut.is_some() { 2 } else { 1 };
        let whole = (size / slide).max(1);
        let width = whole as i128 * step + i128::from(cut.is_some());
        if width > MAX_SLICES_PER_WINDOW as i128 {
            return Err(Error::invalid(
                "window",
                window,
                format!("at most {MAX_SLICES_PER_WINDOW} slices in a window, and this one has {width}"),
            ));
        }
        Ok(Grid { size: size as i128, slide, offset, lateness: lateness as i128, cut, width, step })
    }

    /// The slice that holds a row of this time; `None` in a gap between windows.
    pub(crate) fn slice_of(&self, time: i64) -> Option<Slice> {
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

    /// The first tick of a slice, unclipped.
    #[cfg(test)]
    fn first_tick(&self, id: i128) -> i128 {
        let start = self.start(id.div_euclid(self.step) * self.step);
        if id.rem_euclid(self.step) == 1 { start + self.cut.unwrap_or(0) as i128 } else { start }
    }

    fn start(&self, window: i128) -> i128 {
        self.offset as i128 + window.div_euclid(self.step) * self.slide as i128
    }

    /// Start and end of a window as they are shown.
    pub(crate) fn bounds(&self, window: i128) -> (i64, i64) {
        let start = self.start(window);
        (clip(start), clip(start + self.size))
    }

    /// The watermark at which a window fires.
    pub(crate) fn due_at(&self, window: i128) -> i64 {
        self.reached_at(window, 0)
    }

    /// The watermark at which a window is gone.
    pub(crate) fn expires_at(&self, window: i128) -> i64 {
        self.reached_at(window, self.lateness)
    }

    fn reached_at(&self, window: i128, lateness: i128) -> i64 {
        let end = self.start(window) + self.size;
        if end > i64::MAX as i128 { END } else { clip(end - 1 + lateness) }
    }

    /// The first window, in order of time, that has this slice.
    pub(crate) fn first_window_of(&self, slice: i128) -> i128 {
        let lowest = slice - self.width + 1;
        lowest + (-lowest).rem_euclid(self.step)
    }

    /// The last window that has this slice.
    pub(crate) fn last_window_of(&self, slice: i128) -> i128 {
        slice.div_euclid(self.step) * self.step
    }

    /// The window after `window`.
    pub(crate) fn next(&self, window: i128) -> i128 {
        window + self.step
    }

    /// The first window that is not due at this watermark.
    pub(crate) fn first_not_due(&self, watermark: i64) -> i128 {
        self.first_not_reached(watermark, 0)
    }

    /// The first window that has not expired at this watermark. Slices before it are in expired windows only.
    pub(crate) fn first_not_expired(&self, watermark: i64) -> i128 {
        self.first_not_reached(watermark, self.lateness)
    }

    fn first_not_reached(&self, watermark: i64, lateness: i128) -> i128 {
        match watermark {
            NONE => BEFORE_ALL,
            END => AFTER_ALL,
            w => {
                // window k is reached when its end = offset + k * slide + size <= w + 1 - lateness
                let latest_start = w as i128 + 1 - lateness - self.size - self.offset as i128;
                (latest_start.div_euclid(self.slide as i128) + 1) * self.step
            }
        }
    }

    /// How rows are judged at this watermark. At [`END`] every window is gone, whatever the times say.
    pub(crate) fn horizon(&self, watermark: i64) -> Horizon {
        let slide = self.slide as i128;
        if watermark == END {
            return Horizon { fresh_from: i64::MAX, drop_below: i64::MAX, valid_below: END };
        }
        if watermark == NONE {
            return Horizon { fresh_from: i64::MIN, drop_below: i64::MIN, valid_below: NONE + 1 };
        }
        let (not_due, not_expired) = (self.first_not_due(watermark), self.first_not_expired(watermark));
        Horizon {
            fresh_from: clip(self.start(not_due) - slide + self.size),
            drop_below: clip(self.start(not_expired)),
            valid_below: self.due_at(not_due).min(self.expires_at(not_expired)),
        }
    }
}

fn clip(time: i128) -> i64 {
    time.clamp(i64::MIN as i128, i64::MAX as i128) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::TickUnit;

    fn grid(size: i64, slide: i64, offset: i64, lateness: i64) -> Grid {
        let ms = TimeDelta::from_millis;
        let ticks = TickConverter { column: "ts".into(), unit: TickUnit::Millisecond };
        Grid::new(&Window::sliding(ms(size), ms(slide)).offset(ms(offset)), lateness, &ticks).unwrap()
    }

    /// The windows of a row by the definition: every k with start <= time < end, or an open top.
    fn windows_by_definition(g: &Grid, time: i64) -> Vec<(i64, i64)> {
        let t = time as i128;
        let k = (t - g.offset as i128).div_euclid(g.slide as i128);
        (k - g.size / g.slide as i128 - 1..=k)
            .map(|k| g.offset as i128 + k * g.slide as i128)
            .filter(|&start| start <= t && t < start + g.size)
            .map(|start| (clip(start), clip(start + g.size)))
            .collect()
    }

    fn windows_by_slice(g: &Grid, time: i64) -> Vec<(i64, i64)> {
        let Some(slice) = g.slice_of(time) else { return vec![] };
        let mut window = g.first_window_of(slice.id);
        let mut found = vec![];
        while window <= g.last_window_of(slice.id) {
            found.push(g.bounds(window));
            window = g.next(window);
        }
        found
    }

    const SHAPES: [(i64, i64, i64); 9] = [
        (10, 10, 0),
        (10, 5, -4),
        (10, 3, 1),
        (4, 10, 7),
        (1, 1, 0),
        (25, 10, 123_456),
        (7, 2, -1),
        (i64::MAX, i64::MAX, 5),
        (i64::MAX, i64::MAX / 3, -2),
    ];

    fn probes() -> impl Iterator<Item = i64> {
        (-60..60).chain((0..60).map(|i| i64::MAX - i)).chain((0..60).map(|i| i64::MIN + i))
    }

    #[test]
    fn slices_give_the_windows_of_the_definition() {
        for (size, slide, offset) in SHAPES {
            let g = grid(size, slide, offset, 0);
            for time in probes() {
                assert_eq!(
                    windows_by_slice(&g, time),
                    windows_by_definition(&g, time),
                    "{size} {slide} {offset} at {time}"
                );
            }
        }
    }

    #[test]
    fn slices_hold_their_rows_and_no_window_bound() {
        for (size, slide, offset) in SHAPES {
            let g = grid(size, slide, offset, 0);
            for time in probes() {
                let Some(slice) = g.slice_of(time) else { continue };
                assert!(slice.first <= time && time <= slice.last);
                assert_eq!(slice.first, clip(g.first_tick(slice.id)));
                for inside in [slice.first, slice.last] {
                    assert_eq!(g.slice_of(inside), Some(slice), "{size} {slide} {offset} at {time}");
                }
            }
        }
    }

    #[test]
    fn horizons_agree_with_due_and_expired_windows() {
        for (size, slide, offset) in SHAPES {
            for lateness in [0, 3, 17, i64::MAX] {
                let g = grid(size, slide, offset, lateness);
                for watermark in probes().filter(|&w| w != END) {
                    let h = g.horizon(watermark);
                    for time in probes() {
                        let Some(slice) = g.slice_of(time) else { continue };
                        let none = watermark == NONE;
                        let fresh = none || g.due_at(g.first_window_of(slice.id)) > watermark;
                        let dropped = !none && g.expires_at(g.last_window_of(slice.id)) <= watermark;
                        assert_eq!(
                            time >= h.fresh_from,
                            fresh,
                            "{size} {slide} {offset} w={watermark} t={time}"
                        );
                        assert_eq!(
                            time < h.drop_below,
                            dropped,
                            "{size} {slide} {offset} w={watermark} t={time}"
                        );
                    }
                    if watermark + 1 < h.valid_below {
                        let next = g.horizon(watermark + 1);
                        assert_eq!((h.fresh_from, h.drop_below), (next.fresh_from, next.drop_below));
                    }
                }
            }
        }
    }

    #[test]
    fn clipped_tops_are_due_at_end_of_input_only() {
        let g = grid(1000, 1000, 0, 0);
        // 9223372036854775807 = MAX is in the window that starts at ...775000; its true end is ...776000
        let slice = g.slice_of(i64::MAX).unwrap();
        let window = g.first_window_of(slice.id);
        assert_eq!(g.bounds(window), (9_223_372_036_854_775_000, i64::MAX));
        assert_eq!((g.due_at(window), g.expires_at(window)), (END, END));
        assert_eq!(g.due_at(window - 1), 9_223_372_036_854_774_999);
    }

    #[test]
    fn specs_that_explode_are_refused_with_the_number() {
        let ms = TimeDelta::from_millis;
        let ticks = TickConverter { column: "ts".into(), unit: TickUnit::Millisecond };
        let error = Grid::new(&Window::sliding(TimeDelta::from_days(1), ms(1)), 0, &ticks).unwrap_err();
        assert!(error.to_string().contains("86400000"), "{error}");
        assert!(
            Grid::new(&Window::sliding(TimeDelta::from_days(1), TimeDelta::from_mins(1)), 0, &ticks).is_ok()
        );
    }
}
