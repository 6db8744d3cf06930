//! Windows out of slices: each window is the end of one block of slices and the beginning of the next.
//!
//! Slices are cut into blocks as long as a window, aligned to the time line. Every window is then a suffix of one block
//! followed by a prefix of the next, or a whole block. Suffixes are folded once a block, the prefix grows by one slice a
//! slide, so a window costs about three merges, whatever its length (van Herk, "A fast algorithm for local minimum and
//! maximum filters", 1992; Gil and Werman, 1993). Windows that cumulate are prefixes of one block.
//!
//! ```text
//! block k                block k + 1
//! |  a  b  c  d  |  e  f  g  h  |          suffixes: bcd = b+(c+d), cd = c+d, d
//!      [== bcd ======== e )                prefix:   e, e+f, (e+f)+g
//! ```
//!
//! A late row spoils what has been folded with its slice. Most come for one of the newest slices, so as many of these as
//! late rows have lately come for are left out of the prefix, and merged when a window fires.
//!
//! The blocks do not depend on when anything happened, so the order in which floats are added is a function of the
//! window alone: [`combine`] does the same for a few keys at a time, from the slices, with the same bits.

use std::ops::Range;

use super::table::Table;
use super::{Shared, Slices};
use crate::key::Slots;

/// The partial results that windows to come can use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain {
    /// Where the last window was cut: the slices before it are folded from the right, the others from the left.
    middle: Option<i128>,
    /// Everything from this slice to the end of its block.
    suffixes: Slices,
    suffixes_good: bool,
    /// Everything from `middle` to before `prefix_end`.
    prefix: Option<Shared>,
    prefix_end: i128,
    /// The slices of the last window.
    window: Range<i128>,
    /// How many of the newest slices are not folded yet, because late rows still come for them.
    tail: i128,
    /// How far behind the newest slice a late row has come in this block.
    deepest: i128,
}

impl Chain {
    /// The combination of the slices of a window, which is cut at `middle`; `None` if there are none. Windows are asked for
    /// in ascending order, and the next one begins with `next` or a later slice.
    pub(crate) fn window(
        &mut self,
        slices: &Slices,
        window: Range<i128>,
        middle: i128,
        next: i128,
    ) -> Option<Shared> {
        if self.middle != Some(middle) {
            self.middle = Some(middle);
            self.suffixes_good = false;
            self.prefix = None;
            self.prefix_end = middle;
            self.tail = std::mem::take(&mut self.deepest);
        }
        if !self.suffixes_good {
            self.fold_suffixes(slices, window.start, middle);
        }
        let settled = self.prefix_end.max(window.end - self.tail);
        fold(&mut self.prefix, slices, self.prefix_end..settled);
        self.prefix_end = settled;
        let mut prefix = self.prefix.clone();
        fold(&mut prefix, slices, settled..window.end);
        let suffix = self.suffixes.range(window.start..middle).next().map(|(&id, _)| id);
        self.window = window;
        // a suffix that no later window begins with is given away
        let suffix = suffix.and_then(|id| match id < next {
            true => self.suffixes.remove(&id),
            false => self.suffixes.get(&id).cloned(),
        });
        match (suffix, prefix) {
            (Some(mut suffix), Some(prefix)) => {
                Shared::make_mut(&mut suffix).merge(&prefix);
                Some(suffix)
            }
            (suffix, prefix) => suffix.or(prefix),
        }
    }

    fn fold_suffixes(&mut self, slices: &Slices, from: i128, middle: i128) {
        self.suffixes.clear();
        let mut later: Option<Shared> = None;
        for (&id, table) in slices.range(from..middle).rev() {
            let mut suffix = table.clone();
            if let Some(later) = &later {
                Shared::make_mut(&mut suffix).merge(later);
            }
            self.suffixes.insert(id, suffix.clone());
            later = Some(suffix);
        }
        self.suffixes_good = true;
    }

    /// Forgets what has been folded with a slice that has changed.
    pub(crate) fn touch(&mut self, slice: i128) {
        let Some(middle) = self.middle else { return };
        if slice < self.window.start {
            return;
        }
        self.deepest = self.deepest.max(self.window.end - slice);
        if slice < middle {
            self.suffixes_good = false;
        } else if slice < self.prefix_end {
            self.prefix = None;
            self.prefix_end = middle;
            self.tail = self.tail.max(self.deepest);
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.suffixes.values().chain(&self.prefix).map(|table| table.size()).sum()
    }
}

/// Merges the tables of some slices into `into`, in order.
fn fold(into: &mut Option<Shared>, slices: &Slices, range: Range<i128>) {
    for (_, table) in slices.range(range) {
        match into {
            None => *into = Some(table.clone()),
            Some(into) => Shared::make_mut(into).merge(table),
        }
    }
}

/// The combination of a window's slices for the wanted keys only.
pub(crate) fn combine(slices: &Slices, window: Range<i128>, middle: i128, wanted: &Slots) -> Option<Table> {
    let some = |table: Table| (table.len() > 0).then_some(table);
    let mut suffix: Option<Table> = None;
    for (_, table) in slices.range(window.start..middle.min(window.end)).rev() {
        let Some(mut part) = some(table.select(wanted)) else { continue };
        if let Some(later) = &suffix {
            part.merge(later);
        }
        suffix = Some(part);
    }
    let mut prefix: Option<Table> = None;
    for (_, table) in slices.range(middle..window.end) {
        let Some(part) = some(table.select(wanted)) else { continue };
        match &mut prefix {
            None => prefix = Some(part),
            Some(prefix) => prefix.merge(&part),
        }
    }
    match (suffix, prefix) {
        (Some(mut suffix), Some(prefix)) => {
            suffix.merge(&prefix);
            Some(suffix)
        }
        (suffix, prefix) => suffix.or(prefix),
    }
}
