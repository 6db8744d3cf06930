//! When something happens to a pane next, by the place of the pane.
//!
//! Panes have one time each, and most of them are put off again and again before it comes: a session with every row. So there
//! is no queue, but a tree of minima: a node holds a time that is no later than any below it, and 64 nodes have one above
//! them. A time that is put off is written in one place, and the nodes above go up when somebody next looks below them. What
//! is due is found by vectors of times, in the order of the panes in memory.

use crate::block::{BLOCK, bits};
use crate::scan::{bounds, lowest, within};
use crate::watermark::END;

/// Times of panes; [`END`] for those that have none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers {
    /// The times themselves, then of every 64 one that is no later, and so on up to at most 64.
    levels: Vec<Vec<i64>>,
}

impl Timers {
    pub(crate) fn get(&self, pane: usize) -> i64 {
        self.levels[0][pane]
    }

    pub(crate) fn set(&mut self, pane: usize, time: i64) {
        // most often the node above has an earlier one
        if let [times, minima, ..] = self.levels.as_mut_slice()
            && let (Some(known), Some(minimum)) = (times.get_mut(pane), minima.get(pane / BLOCK))
            && *minimum <= time
        {
            *known = time;
            return;
        }
        let mut place = pane;
        for level in 0.. {
            if self.levels.len() == level {
                let below = level.checked_sub(1).map(|below| &self.levels[below]);
                if below.is_some_and(|below| below.len() <= BLOCK) {
                    return;
                }
                let minima = below.map(|below| bounds(below).iter().map(|bounds| bounds.low).collect());
                self.levels.push(minima.unwrap_or_default());
            }
            let times = &mut self.levels[level];
            if times.len() <= place {
                times.resize(place + 1, END);
            }
            // a node that is new is as late as can be, and the one above it may have to be made
            match level > 0 && times[place] < time {
                true => return,
                false => times[place] = time,
            }
            place /= BLOCK;
        }
    }

    /// Finds the times up to `watermark`, in the order of their panes. `put_off` is given up to 64 times, the first pane they
    /// belong to, and a bit for each that is due: these it replaces by later ones.
    pub(crate) fn take_due(&mut self, watermark: i64, mut put_off: impl FnMut(usize, u64, &mut [i64])) {
        take(&mut self.levels, 0, watermark, &mut put_off);
    }

    pub(crate) fn size(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<i64>()).sum()
    }
}

/// The same below a node, whose children are the highest level given. Returns what is the earliest time then.
fn take(
    levels: &mut [Vec<i64>],
    node: usize,
    watermark: i64,
    put_off: &mut impl FnMut(usize, u64, &mut [i64]),
) -> i64 {
    let Some((children, below)) = levels.split_last_mut() else { return END };
    let first = node * BLOCK;
    let end = children.len().min(first + BLOCK);
    let children = &mut children[first..end];
    let due = within(children, i64::MIN, watermark);
    if below.is_empty() {
        put_off(first, due, children);
    } else {
        for child in bits(due) {
            children[child] = take(below, first + child, watermark, put_off);
        }
    }
    lowest(children)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator of Lehmer's kind: enough for times without a pattern.
    fn numbers() -> impl Iterator<Item = u64> {
        let mut state = 88_172_645_463_325_252_u64;
        std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        })
    }

    #[test]
    fn takes_out_or_puts_off_exactly_what_is_due_at_rising_watermarks() {
        // 5,000 panes make three levels
        for panes in [1, 64, 65, 5_000] {
            let (mut timers, mut model) = (Timers::default(), vec![END; panes]);
            let mut numbers = numbers();
            let mut watermark = -1_000_i64;
            let mut taken = 0;
            for _ in 0..2_000 {
                let mut number = || numbers.next().unwrap();
                for _ in 0..number() % 8 {
                    let time = match number() % 50 {
                        0 => END,
                        1 => i64::MIN,
                        2 => watermark.saturating_sub((number() % 30) as i64),
                        _ => watermark.saturating_add((number() % 3_000) as i64),
                    };
                    let pane = number() as usize % panes;
                    timers.set(pane, time);
                    model[pane] = time;
                }
                watermark = watermark.saturating_add((number() % 20) as i64);
                // every third pane is put off
                let next =
                    |pane: usize| if pane.is_multiple_of(3) { watermark.saturating_add(7) } else { END };
                let mut due = Vec::new();
                timers.take_due(watermark, |first, panes, times| {
                    for place in bits(panes) {
                        due.push((first + place, std::mem::replace(&mut times[place], next(first + place))));
                    }
                });
                let mut expected = Vec::new();
                for (pane, time) in model.iter_mut().enumerate().filter(|(_, time)| **time <= watermark) {
                    expected.push((pane, std::mem::replace(time, next(pane))));
                }
                assert_eq!(due, expected, "{panes} panes at {watermark}");
                taken += due.len();
            }
            assert!(taken > 50, "{taken} of {panes} panes");
        }
    }

    #[test]
    fn the_end_of_input_takes_out_every_pane_that_there_has_been() {
        let mut timers = Timers::default();
        timers.set(70, 5);
        timers.set(3, END);
        let mut due = Vec::new();
        timers.take_due(END, |first, panes, times| {
            due.extend(bits(panes).map(|place| (first + place, times[place])));
        });
        let expected: Vec<(usize, i64)> =
            (0..71).map(|pane| (pane, if pane == 70 { 5 } else { END })).collect();
        assert_eq!(due, expected);
        // one level, two, three, and four
        for panes in [64, 65, 64 * 64 + 1, 64 * 64 * 64 + 1] {
            let mut timers = Timers::default();
            (0..panes).for_each(|pane| timers.set(pane, END));
            let mut due = Vec::new();
            timers.take_due(END, |first, panes, _| due.extend(bits(panes).map(|place| first + place)));
            assert!(due.into_iter().eq(0..panes), "{panes} panes");
        }
    }
}
