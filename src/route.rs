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
//! The real code decides for 64 rows at a time. What is fresh for the watermark after all of them is fresh for each, and
//! goes to its slice by a mask; for nearly every block one slice has all 64, which the lowest and the highest time tell.
//! Only rows below that line are looked at one by one.
//!
//! Fresh rows of a call can all be applied before any late row and any firing: a window that fires in this call, or that a
//! late row touches, is due at that point, and a row after it that still belongs to one of its slices is not fresh.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::block::{BLOCK, Block, bits, ones};
use crate::metrics::RowCounts;
use crate::progress::{Judged, Passage};
use crate::scan::{Bounds, within};
use crate::watermark::{Before, END, NONE};
use crate::window::{Grid, Horizon, Slice};

/// Rows are routed, encoded and aggregated in runs of this many, so that all that lies between stays in cache.
pub(crate) const MORSEL: usize = 32 * BLOCK;

/// How many of the newest targets are looked at before the slice is computed.
const FEW: usize = 8;

/// Fresh rows of a morsel that go to one slice.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) slice: Slice,
    pub(crate) blocks: Vec<Block>,
}

impl Target {
    /// Adds rows that lie behind those it has.
    #[inline]
    fn push(&mut self, block: Block) {
        match self.blocks.last_mut() {
            Some(last) if last.start == block.start => last.rows |= block.rows,
            _ => self.blocks.push(block),
        }
    }
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
    pub(crate) fn new(passage: &'a Passage) -> Self {
        let Passage { before, floor, ceiling, .. } = passage;
        let (floor, ceiling) = (*floor, *ceiling);
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
        self.before_with(row, self.highest)
    }

    /// Before `row`, if the highest time of all rows before it is `highest`.
    #[inline]
    fn before_with(&self, row: usize, highest: i64) -> i64 {
        self.merged(match self.before {
            Before::Constant(own) => *own,
            Before::RunningMax { lag, .. } => lag.watermark(highest),
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

    /// Routes rows `from..to`, the next ones; returns the slices of the fresh ones, each with its rows. `bounds` are those
    /// of each block of the batch, and `from` is where a block begins.
    pub(crate) fn morsel(&mut self, times: &[i64], bounds: &[Bounds], from: usize, to: usize) -> &[Target] {
        self.used = 0;
        self.current = usize::MAX;
        self.by_slice.clear();
        for start in (from..to).step_by(BLOCK) {
            let end = to.min(start + BLOCK);
            self.block(&times[start..end], start, bounds[start / BLOCK]);
        }
        &self.targets[..self.used]
    }

    /// Routes the rows from `start` on, at most 64.
    fn block(&mut self, times: &[i64], start: usize, Bounds { low, high }: Bounds) {
        let last = start + times.len() - 1;
        let (before, after) = (self.judge.before(start), self.judge.after(last, high));
        if after >= self.ahead.valid_below {
            self.ahead = self.grid.horizon(after);
        }
        // rows from here on are fresh, whatever their place in the block
        let fresh_from = if after == NONE { i64::MIN } else { self.ahead.fresh_from };
        if after == END {
            // every window is gone, that of the highest time too
            self.one_by_one(times, start, ones(times.len()));
        } else if low >= fresh_from && self.enter(low) && high <= self.targets[self.current].slice.last {
            self.targets[self.current].push(Block { start, rows: ones(times.len()) });
            self.count_fresh(times, start, ones(times.len()), (low, before, after));
        } else {
            let all = ones(times.len());
            let fresh = if low >= fresh_from { all } else { within(times, fresh_from, i64::MAX) };
            let rest = all & !fresh;
            let taken = self.distribute(times, start, fresh, Bounds { low: low.max(fresh_from), high });
            self.count_fresh(times, start, taken, (low, before, after));
            self.one_by_one(times, start, rest);
        }
        self.judge.pass(high);
    }

    /// Fresh rows of several slices, within these bounds; returns those that have a slice.
    fn distribute(&mut self, times: &[i64], start: usize, fresh: u64, bounds: Bounds) -> u64 {
        let Bounds { mut low, mut high } = bounds;
        let (mut left, mut taken) = (fresh, 0);
        while left != 0 {
            let first = left.trailing_zeros() as usize;
            if self.enter(times[first]) {
                let target = &mut self.targets[self.current];
                let Slice { first, last, .. } = target.slice;
                let (from_low, to_high) = (first <= low, high <= last);
                let rows =
                    if from_low && to_high { left } else { within(times, first.max(low), last) & left };
                target.push(Block { start, rows });
                left &= !rows;
                taken |= rows;
                // what is left lies beside the slice
                low = if from_low { last.saturating_add(1) } else { low };
                high = if to_high { first.saturating_sub(1) } else { high };
            } else {
                self.counts.no_window += 1;
                left &= left - 1;
            }
        }
        taken
    }

    /// Counts fresh rows, and those among them that the watermark had passed: surely so if it had before the block, surely
    /// not if it has not after it.
    #[inline]
    fn count_fresh(&mut self, times: &[i64], start: usize, rows: u64, (low, before, after): (i64, i64, i64)) {
        self.counts.taken += u64::from(rows.count_ones());
        if low > after || after == NONE {
            return;
        }
        let surely = if before == NONE { 0 } else { within(times, i64::MIN, before) & rows };
        self.counts.late_taken += u64::from(surely.count_ones());
        let perhaps = within(times, i64::MIN, after) & rows & !surely;
        for row in bits(perhaps) {
            let watermark = self.before(times, start, row);
            self.counts.late_taken += u64::from(times[row] <= watermark && watermark != NONE);
        }
    }

    /// The merged watermark before a row of the block from `start` on.
    fn before(&self, times: &[i64], start: usize, row: usize) -> i64 {
        let highest = times[..row].iter().fold(self.judge.highest, |highest, &time| highest.max(time));
        self.judge.before_with(start + row, highest)
    }

    /// Each row on its own.
    fn one_by_one(&mut self, times: &[i64], start: usize, rows: u64) {
        for bit in bits(rows) {
            let (row, time, watermark) = (start + bit, times[bit], self.before(times, start, bit));
            if watermark >= self.horizon.valid_below {
                self.horizon = self.grid.horizon(watermark);
            }
            let late = time <= watermark && watermark != NONE;
            if !self.enter(time) {
                self.counts.no_window += 1;
            } else if watermark != END && time >= self.horizon.fresh_from {
                self.targets[self.current].push(Block { start, rows: 1 << bit });
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

    #[inline(never)]
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
                target.blocks.clear();
            }
            None => self.targets.push(Target { slice, blocks: Vec::new() }),
        }
        true
    }
}
