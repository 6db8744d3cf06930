//! The windows that must come out, row by row and without any of the engine's code.
//!
//! ```text
//! for each row (partition p, time t), in the order in which rows are pushed:
//!     join every window [s, s + size) with s <= t < s + size and s + size - 1 > W
//!     late, if t lies in windows and joins none
//!     own[p] = max(own[p], t - bound - 1);   W = min over all partitions of own   (none until each has one)
//! ```
//!
//! A row that joins all of its windows is added to its *slice*, a piece of time that no window's bound cuts; a window is the
//! sum of its slices. The few rows that join only some of their windows are added to each of these windows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::tally::{Tally, Values};
use super::watermarks::{NONE, Watermarks};

/// Rows by key.
pub(super) type Tallies = HashMap<i64, Tally>;

/// The rows of windows that are still to fire. All times are milliseconds.
pub(super) struct Reference {
    size: i64,
    slide: i64,
    slice: i64,
    watermarks: Watermarks,
    /// Windows up to this watermark have been handed out.
    fired: i64,
    slices: BTreeMap<i64, Tallies>,
    partly: BTreeMap<i64, Tallies>,
    /// Rows that joined no window.
    pub(super) late: u64,
}

impl Reference {
    pub(super) fn new(size: i64, slide: i64, bound: i64, partitions: usize) -> Self {
        Reference {
            size,
            slide,
            slice: greatest_common_divisor(size, slide),
            watermarks: Watermarks::new(bound, partitions),
            fired: NONE,
            slices: BTreeMap::new(),
            partly: BTreeMap::new(),
            late: 0,
        }
    }

    /// Takes a row.
    pub(super) fn row(&mut self, partition: usize, time: i64, key: i64, values: &Values<'_>, row: usize) {
        let (newest, watermark) = (self.newest_start(time), self.watermarks.merged);
        if time < newest + self.size {
            let oldest = newest - (newest + self.size - 1 - time) / self.slide * self.slide;
            if self.end(oldest) > watermark {
                let slice = self.slices.entry(time.div_euclid(self.slice) * self.slice).or_default();
                slice.entry(key).or_default().add(values, row);
            } else if self.end(newest) > watermark {
                let mut start = newest;
                while self.end(start) > watermark {
                    let window = self.partly.entry(start).or_default();
                    window.entry(key).or_default().add(values, row);
                    start -= self.slide;
                }
            } else {
                self.late += 1;
            }
        }
        self.watermarks.advance(partition, time);
    }

    /// Ends the input: everything is due.
    pub(super) fn finish(&mut self) {
        self.watermarks.finish();
    }

    /// The windows with rows that have become due since [`Reference::forget`], by their start.
    pub(super) fn due(&self) -> Vec<i64> {
        let mut starts: BTreeSet<i64> = self.partly.keys().copied().collect();
        for &slice in self.slices.keys() {
            let mut start = self.newest_start(slice);
            while slice < start + self.size {
                starts.insert(start);
                start -= self.slide;
            }
        }
        let due = |end| self.fired < end && end <= self.watermarks.merged;
        starts.into_iter().filter(|&start| due(self.end(start))).collect()
    }

    /// The rows of the window that starts at `start`.
    pub(super) fn window(&self, start: i64) -> Tallies {
        let mut window = self.partly.get(&start).cloned().unwrap_or_default();
        for slice in self.slices.range(start..start + self.size).map(|(_, slice)| slice) {
            for (key, tally) in slice {
                window.entry(*key).or_default().merge(tally);
            }
        }
        window
    }

    /// Forgets what is due.
    pub(super) fn forget(&mut self) {
        self.fired = self.watermarks.merged;
        let (size, slide, merged) = (self.size, self.slide, self.fired);
        self.partly.retain(|start, _| start + size - 1 > merged);
        self.slices.retain(|slice, _| slice.div_euclid(slide) * slide + size - 1 > merged);
    }

    /// The start of the last window that begins at or before a time.
    fn newest_start(&self, time: i64) -> i64 {
        time.div_euclid(self.slide) * self.slide
    }

    /// The last millisecond of a window: the watermark that makes it due.
    pub(super) fn end(&self, start: i64) -> i64 {
        start + self.size - 1
    }
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(reference: &Reference) -> Vec<(i64, i64)> {
        let count = |start| reference.window(start).values().map(|tally| tally.count).sum();
        reference.due().into_iter().map(|start| (start, count(start))).collect()
    }

    /// Windows of 10 every 5 with a bound of 2: the row at 9 comes when [0, 10) is due and [5, 15) is not, that at 3
    /// when both of its windows are.
    #[test]
    fn rows_join_the_windows_that_are_not_due() {
        let mut reference = Reference::new(10, 5, 2, 1);
        for time in [1, 12, 9, 3] {
            reference.row(0, time, 0, &Values::NONE, 0);
        }
        assert_eq!((counts(&reference), reference.late), (vec![(-5, 1), (0, 1)], 1));
        reference.forget();
        assert_eq!(counts(&reference), []);
        reference.finish();
        assert_eq!(counts(&reference), [(5, 2), (10, 1)]);
    }

    #[test]
    fn the_slowest_partition_holds_the_watermark() {
        let mut reference = Reference::new(10, 10, 0, 2);
        reference.row(0, 100, 0, &Values::NONE, 0);
        reference.row(1, 5, 0, &Values::NONE, 0);
        assert_eq!(counts(&reference), []);
        reference.row(1, 50, 0, &Values::NONE, 0);
        assert_eq!(counts(&reference), [(0, 1)]);
    }

    /// Windows of 2 every 10 have gaps between them: rows there are not late, they are in no window.
    #[test]
    fn rows_in_gaps_are_not_late() {
        let mut reference = Reference::new(2, 10, 0, 1);
        for time in [1, 5, 25, 5, 1] {
            reference.row(0, time, 0, &Values::NONE, 0);
        }
        assert_eq!((counts(&reference), reference.late), (vec![(0, 1)], 1));
    }
}
