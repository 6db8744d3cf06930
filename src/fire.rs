//! Windows that are due: in order, in bulk, and gone when they have expired.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::block::Block;
use crate::key::Codes;
use crate::progress::Judged;
use crate::state::{BatchRows, Inputs, Lanes, Shared, State, Table, combine};
use crate::window::Grid;
use crate::workers::Workers;

/// Why a window fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Firing {
    /// Before the watermark reached its end.
    Early,
    /// Because the watermark reached its end.
    OnTime,
    /// Because a late row changed it.
    Late,
}

impl Firing {
    /// As in the `firing` column.
    pub fn as_str(self) -> &'static str {
        match self {
            Firing::Early => "early",
            Firing::OnTime => "on_time",
            Firing::Late => "late",
        }
    }
}

/// When a window that has fired fires again for late rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LateFiring {
    /// Once a call, with all late rows of the call.
    #[default]
    Coalesced,
    /// Once for each late row, as Flink does.
    PerRow,
}

/// What a firing holds in relation to the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultMode {
    /// Each firing has the full value.
    #[default]
    Accumulate,
    /// Each firing has what has come since the one before it; if nothing has, there is none.
    Discard,
    /// As `Accumulate`, and each firing is preceded by the result that it replaces, marked as a retraction. What sessions that
    /// have become one had given is retracted before their next result.
    Retract,
}

/// A window's results: keys and accumulators as they were when it fired.
#[derive(Debug)]
pub(crate) struct Fired {
    pub(crate) window: i128,
    pub(crate) firing: Firing,
    pub(crate) table: Shared,
}

/// The state of an operator and what it takes to fire it.
pub(crate) struct Fire<'a> {
    pub(crate) grid: &'a Grid,
    pub(crate) inputs: &'a Inputs,
    pub(crate) late_firing: LateFiring,
    /// Whether a late firing has all keys of its window, not only those that late rows have touched.
    pub(crate) whole: bool,
    pub(crate) state: &'a mut State,
    pub(crate) lanes: &'a mut Lanes,
    pub(crate) workers: &'a Workers,
    pub(crate) fired: &'a mut Vec<Fired>,
}

impl Fire<'_> {
    /// Fires everything that is due at this watermark, and forgets everything that has expired.
    pub(crate) fn up_to(&mut self, watermark: i64) {
        if watermark <= self.state.fired_to {
            return;
        }
        self.late_changes(|grid, window| grid.expires_at(window) <= watermark);
        self.seal(watermark);
        let mut window = self.grid.first_not_due(self.state.fired_to);
        while let Some(due) = self.next_window(window).filter(|&due| self.grid.due_at(due) <= watermark) {
            self.on_time(due, watermark);
            window = self.grid.next(due);
        }
        let first_kept = self.grid.first_kept(watermark);
        self.state.fired_to = watermark;
        self.state.sealed = self.state.sealed.split_off(&first_kept);
        self.state.open = self.state.open.split_off(&first_kept);
    }

    /// The first window from `window` on that has an open slice.
    fn next_window(&self, window: i128) -> Option<i128> {
        let slice = *self.state.open.range(self.grid.slices_of(window).start..).next()?;
        Some(window.max(self.grid.first_window_of(slice)))
    }

    /// Merges the lanes of every slice that a due window has.
    fn seal(&mut self, watermark: i64) {
        let State { fresh, sealed, .. } = &mut *self.state;
        let end = self.grid.first_not_due(watermark);
        let due = |id: &i128| self.grid.first_window_of(*id) < end;
        let ids = fresh.iter().flat_map(|slices| slices.keys().copied().take_while(due)).collect();
        sealed.extend(self.lanes.seal(fresh, &ids, !self.grid.is_single(), self.workers));
    }

    fn on_time(&mut self, window: i128, watermark: i64) {
        let State { sealed, chain, .. } = &mut *self.state;
        let slices = self.grid.slices_of(window);
        let table = if !self.grid.is_single() {
            chain.window(sealed, slices, self.grid.middle_of(window), self.grid.next(window))
        } else if self.grid.expires_at(window) <= watermark {
            sealed.remove(&window)
        } else {
            sealed.get(&window).cloned()
        };
        if let Some(table) = table {
            self.fired.push(Fired { window, firing: Firing::OnTime, table });
        }
    }

    /// Applies late rows of one batch, in order, with the firings that come between them. `codes` are those of the
    /// late rows.
    pub(crate) fn late_rows(&mut self, late: &[Judged], codes: &Codes, rows: &BatchRows<'_>) {
        let mut next = 0;
        while next < late.len() {
            let watermark = late[next].watermark;
            self.up_to(watermark);
            // up to the next window that becomes due or expires, rows can be applied together
            let unchanged = self.grid.horizon(watermark).valid_below;
            let more = late[next + 1..].iter().take_while(|judged| judged.watermark < unchanged).count();
            let group = match self.late_firing {
                LateFiring::Coalesced => next..next + 1 + more,
                LateFiring::PerRow => next..next + 1,
            };
            next = group.end;
            self.late_group(late, group, codes, rows, watermark);
            if self.late_firing == LateFiring::PerRow {
                self.late_changes(|_, _| true);
            }
        }
    }

    /// Applies late rows for which the same windows are due, and notes what they change.
    fn late_group(
        &mut self,
        late: &[Judged],
        group: Range<usize>,
        codes: &Codes,
        rows: &BatchRows<'_>,
        watermark: i64,
    ) {
        let mut by_slice: BTreeMap<i128, Vec<usize>> = BTreeMap::new();
        for number in group {
            if let Some(slice) = self.grid.slice_of(rows.times[late[number].row]) {
                by_slice.entry(slice.id).or_default().push(number);
            }
        }
        for (slice, numbers) in by_slice {
            let table = self.state.sealed.entry(slice);
            let table = table.or_insert_with(|| Shared::new(Table::new(self.inputs, None)));
            let keys = || numbers.iter().map(|&number| codes.get(number));
            let which: Vec<_> = numbers.iter().map(|&n| Block::one(late[n].row)).collect();
            Shared::make_mut(table).update_keys(rows, &which, keys());
            self.state.open.insert(slice);
            self.state.chain.touch(slice);
            let mut window = self.grid.first_window_of(slice);
            while window <= self.grid.last_window_of(slice) && self.grid.due_at(window) <= watermark {
                if self.grid.expires_at(window) > watermark {
                    let changed = self.state.changed.entry(window).or_default();
                    keys().for_each(|(code, null)| _ = changed.get_or_insert(code, null));
                }
                window = self.grid.next(window);
            }
        }
    }

    /// Fires the changed windows that `which` picks, by end, then start.
    pub(crate) fn late_changes(&mut self, which: impl Fn(&Grid, i128) -> bool) {
        let picked: Vec<i128> =
            self.state.changed.keys().copied().filter(|&window| which(self.grid, window)).collect();
        for window in picked {
            let Some(mut keys) = self.state.changed.remove(&window) else { continue };
            if self.whole {
                let tables = self.state.sealed.range(self.grid.slices_of(window));
                tables.for_each(|(_, table)| _ = keys.assign_all(&table.slots));
            }
            let (slices, middle) = (self.grid.slices_of(window), self.grid.middle_of(window));
            if let Some(table) = combine(&self.state.sealed, slices, middle, &keys) {
                self.fired.push(Fired { window, firing: Firing::Late, table: Shared::new(table) });
            }
        }
    }
}
