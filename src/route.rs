//! Where a row goes: dropped, in no window, to a slice that no due window has, or to one that some have.
//!
//! A row is judged by the merged watermark before it. While one partition's rows are judged the others stand still, so
//! the merged watermark is a simple function of the partition's own one ([`Judge`]), and that is mostly a running
//! maximum. Pseudo-code, row by row:
//!
//! ```text
//! w = merged watermark before the row
//! slice = slice of the row's time              none: no_window
//! if time <  horizon(w).drop_below             every window has expired: dropped
//! if time >= horizon(w).fresh_from             no window is due: a fresh row (late_taken if time <= w)
//! else                                         some window is due: a late row, applied after all fresh rows of the call
//! ```
//!
//! The real code decides for 64 rows at a time: if their lowest time is fresh even for the watermark after all of them,
//! above that watermark, and in the current slice with their highest time, no row needs a look of its own.
//!
//! Fresh rows of a call can all be applied before any late row and any firing: a window that fires in this call, or that a
//! late row touches, is due at that point, and a row after it that still belongs to one of its slices is not fresh.

use std::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::metrics::RowCounts;
use crate::scan::{bounds, within};
use crate::watermark::{Before, END, NONE};
use crate::window::{Grid, Horizon, Slice};

/// Rows are routed, encoded and aggregated in runs of this many, so that all that lies between stays in cache.
pub(crate) const MORSEL: usize = 2_048;

const BLOCK: usize = 64;

/// How many of the newest targets are looked at before the slice is computed.
const FEW: usize = 8;

/// Fresh rows of a morsel that go to one slice.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) slice: Slice,
    pub(crate) ranges: Vec<Range<usize>>,
}

/// A row of a batch, and the merged watermark that it was judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) row: usize,
    pub(crate) watermark: i64,
}

/// The merged watermark before each row of one batch.
pub(crate) struct Judge<'a> {
    before: &'a Before,
    /// The merged watermark before the batch.
    floor: i64,
    /// The minimum over the other partitions.
    ceiling: i64,
    /// The highest event time so far, where that is what the watermark follows.
    highest: i64,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(before: &'a Before, floor: i64, ceiling: i64) -> Self {
        let highest = match before {
            Before::RunningMax { max, .. } => *max,
            _ => NONE,
        };
        Judge { before, floor, ceiling, highest }
    }

    fn merged(&self, own: i64) -> i64 {
        self.floor.max(own.min(self.ceiling))
    }

    /// Before `row`, which is the next one.
    #[inline]
    fn before(&self, row: usize) -> i64 {
        self.merged(match self.before {
            Before::Constant(own) => *own,
            Before::RunningMax { lag, .. } => lag.watermark(self.highest),
            Before::Each(own) => own[row],
        })
    }

    /// After the rows up to `last`, whose highest time is `highest`: no row up to `last` is judged by more.
    #[inline]
    fn after(&self, last: usize, highest: i64) -> i64 {
        self.merged(match self.before {
            Before::Constant(own) => *own,
            Before::RunningMax { lag, .. } => lag.watermark(self.highest.max(highest)),
            Before::Each(own) => own[last],
        })
    }

    #[inline]
    fn pass(&mut self, time: i64) {
        self.highest = self.highest.max(time);
    }
}

/// Routes the rows of one batch, morsel by morsel.
pub(crate) struct Router<'a> {
    grid: &'a Grid,
    judge: Judge<'a>,
    /// The horizon of the row at hand.
    horizon: Horizon,
    /// The horizon after the block at hand.
    ahead: Horizon,
    targets: Vec<Target>,
    /// The target of the last row.
    current: usize,
    used: usize,
    /// Targets by slice number, for morsels that have many.
    by_slice: HashMap<i128, usize, FixedState>,
    /// Rows that some due window takes, in order.
    pub(crate) late: Vec<Judged>,
    /// Rows that no window takes any more, in order.
    pub(crate) dropped: Vec<Judged>,
    pub(crate) counts: RowCounts,
}

impl<'a> Router<'a> {
    pub(crate) fn new(grid: &'a Grid, judge: Judge<'a>) -> Self {
        let horizon = grid.horizon(judge.floor);
        Router {
            grid,
            judge,
            horizon,
            ahead: horizon,
            targets: Vec::new(),
            current: 0,
            used: 0,
            by_slice: HashMap::default(),
            late: Vec::new(),
            dropped: Vec::new(),
            counts: RowCounts::default(),
        }
    }

    /// Routes rows `from..to`, the next ones; returns the slices of the fresh ones, each with its rows.
    pub(crate) fn morsel(&mut self, times: &[i64], from: usize, to: usize) -> &[Target] {
        self.used = 0;
        self.current = usize::MAX;
        self.by_slice.clear();
        let mut start = from;
        while start < to {
            let end = to.min(start + BLOCK);
            let block = &times[start..end];
            let (low, high) = bounds(block);
            let after = self.judge.after(end - 1, high);
            if after >= self.ahead.valid_below {
                self.ahead = self.grid.horizon(after);
            }
            // rows at or after this time are fresh and on time, whatever their place in the block
            let calm =
                if after == NONE { i64::MIN } else { self.ahead.fresh_from.max(after.saturating_add(1)) };
            if after == END {
                // every window is gone, that of the highest time too
                self.rows(times, start, end);
            } else if low >= calm && self.enter(low) && high <= self.targets[self.current].slice.last {
                push(&mut self.targets[self.current].ranges, start, end);
                self.counts.taken += (end - start) as u64;
                self.judge.pass(high);
            } else if high >= calm && self.enter(high) {
                self.block(times, start, end, calm);
            } else {
                self.rows(times, start, end);
            }
            start = end;
        }
        &self.targets[..self.used]
    }

    /// A block of which some rows are calm and in the current slice: only the others are looked at one by one.
    fn block(&mut self, times: &[i64], from: usize, to: usize, calm: i64) {
        let main = self.current;
        let slice = self.targets[main].slice;
        let mut others = !within(&times[from..to], slice.first.max(calm), slice.last) & ones(to - from);
        let mut start = from;
        while others != 0 {
            let row = from + others.trailing_zeros() as usize;
            self.run(main, times, start, row);
            self.rows(times, row, row + 1);
            start = row + 1;
            others &= others - 1;
        }
        self.run(main, times, start, to);
        self.current = main;
    }

    /// Calm rows of one slice.
    fn run(&mut self, target: usize, times: &[i64], from: usize, to: usize) {
        if from < to {
            push(&mut self.targets[target].ranges, from, to);
            self.counts.taken += (to - from) as u64;
            // runs between rows of another slice are short
            let highest = times[from..to].iter().fold(i64::MIN, |highest, &time| highest.max(time));
            self.judge.pass(highest);
        }
    }

    /// Each row on its own.
    fn rows(&mut self, times: &[i64], from: usize, to: usize) {
        for (row, &time) in (from..to).zip(&times[from..to]) {
            let watermark = self.judge.before(row);
            self.judge.pass(time);
            if watermark >= self.horizon.valid_below {
                self.horizon = self.grid.horizon(watermark);
            }
            let late = time <= watermark && watermark != NONE;
            if !self.enter(time) {
                self.counts.no_window += 1;
            } else if watermark != END && time >= self.horizon.fresh_from {
                push(&mut self.targets[self.current].ranges, row, row + 1);
                self.counts.taken += 1;
                self.counts.late_taken += u64::from(late);
            } else if watermark == END || time < self.horizon.drop_below {
                self.counts.dropped_late += 1;
                self.dropped.push(Judged { row, watermark });
            } else {
                // some window of the row is due, so its time is at or before the watermark
                self.counts.taken += 1;
                self.counts.late_taken += 1;
                let slice = self.targets[self.current].slice;
                let first = self.grid.first_window_of(slice.id);
                self.counts.partly_late += u64::from(self.grid.expires_at(first) <= watermark);
                self.late.push(Judged { row, watermark });
            }
        }
    }

    /// Makes the slice of this time the current target; false in a gap between windows.
    #[inline]
    fn enter(&mut self, time: i64) -> bool {
        let holds = |target: &Target| target.slice.first <= time && time <= target.slice.last;
        if self.targets[..self.used].get(self.current).is_some_and(holds) {
            return true;
        }
        self.change_slice(time)
    }

    fn change_slice(&mut self, time: i64) -> bool {
        // the newest slices are the likeliest, and to look at a few costs less than a division
        let few = self.used.saturating_sub(FEW);
        let holds = |target: &Target| target.slice.first <= time && time <= target.slice.last;
        if let Some(known) = self.targets[few..self.used].iter().rposition(holds) {
            self.current = few + known;
            return true;
        }
        let Some(slice) = self.grid.slice_of(time) else { return false };
        if few > 0
            && let Some(&known) = self.by_slice.get(&slice.id)
        {
            self.current = known;
            return true;
        }
        self.current = self.used;
        self.used += 1;
        self.by_slice.insert(slice.id, self.current);
        match self.targets.get_mut(self.current) {
            Some(target) => {
                target.slice = slice;
                target.ranges.clear();
            }
            None => self.targets.push(Target { slice, ranges: Vec::new() }),
        }
        true
    }
}

#[inline]
fn push(ranges: &mut Vec<Range<usize>>, start: usize, end: usize) {
    match ranges.last_mut() {
        Some(last) if last.end == start => last.end = end,
        _ => ranges.push(start..end),
    }
}

fn ones(count: usize) -> u64 {
    u64::MAX >> (64 - count)
}
