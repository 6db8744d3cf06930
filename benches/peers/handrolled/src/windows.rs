//! Tumbling and sliding windows over slices ("panes") of event time, one hash map of keys per pane.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::hash::Hash;

/// Rows between two watermarks.
pub const WATERMARK_EVERY: usize = 1000;

/// Open panes; the one that the last row fell into is kept aside, for the next row is likely to fall into it too.
struct Panes<K, A> {
    open: BTreeMap<i64, FxHashMap<K, A>>,
    current: FxHashMap<K, A>,
    number: Option<i64>,
}

impl<K: Hash + Eq, A: Default> Panes<K, A> {
    fn new() -> Self {
        Panes { open: BTreeMap::new(), current: FxHashMap::default(), number: None }
    }

    #[inline(always)]
    fn slot(&mut self, pane: i64, key: K) -> &mut A {
        if self.number != Some(pane) {
            self.switch(pane);
        }
        self.current.entry(key).or_default()
    }

    #[cold]
    fn switch(&mut self, pane: i64) {
        self.park();
        self.current = self.open.remove(&pane).unwrap_or_default();
        self.number = Some(pane);
    }

    fn park(&mut self) {
        if let Some(number) = self.number.take() {
            self.open.insert(number, std::mem::take(&mut self.current));
        }
    }
}

/// Aggregates rows into windows of `SIZE` ms, one every `SLIDE` ms, and hands each finished one to `emit`.
///
/// `key_of` is `None` for rows that are filtered out or belong to another thread. A watermark (highest time - bound - 1)
/// is issued every 1,000 rows. A row is dropped from the windows that the watermark has passed, which is Flink's rule.
/// Window w holds the panes w..w + SIZE / SLIDE: a pane is dead once the window of its number has closed.
pub fn windows<const SIZE: i64, const SLIDE: i64, K: Hash + Eq + Copy, A: Default>(
    times: &[i64],
    bound: i64,
    key_of: impl Fn(usize) -> Option<K>,
    add: impl Fn(&mut A, usize),
    merge: impl Fn(&mut A, &A),
    mut emit: impl FnMut(i64, &FxHashMap<K, A>),
) {
    let mut panes = Panes::new();
    let (mut highest, mut first_open) = (i64::MIN, i64::MIN);
    for (row, &time) in times.iter().enumerate() {
        highest = highest.max(time);
        if let Some(key) = key_of(row) {
            let pane = time.div_euclid(SLIDE);
            if pane >= first_open {
                add(panes.slot(pane, key), row);
            }
        }
        if (row + 1) % WATERMARK_EVERY == 0 {
            let open_from = (highest - bound - SIZE).div_euclid(SLIDE) + 1;
            if open_from > first_open {
                fire::<SIZE, SLIDE, K, A>(&mut panes, first_open, open_from, &merge, &mut emit);
                first_open = open_from;
            }
        }
    }
    fire::<SIZE, SLIDE, K, A>(&mut panes, first_open, i64::MAX, &merge, &mut emit);
}

/// Emits the windows from `first_open` up to, not including, `open_from`, and drops the panes that no window needs any more.
fn fire<const SIZE: i64, const SLIDE: i64, K: Hash + Eq + Copy, A: Default>(
    panes: &mut Panes<K, A>,
    first_open: i64,
    open_from: i64,
    merge: &impl Fn(&mut A, &A),
    emit: &mut impl FnMut(i64, &FxHashMap<K, A>),
) {
    panes.park();
    let in_window = SIZE / SLIDE;
    let (Some(oldest), Some(newest)) = (panes.open.keys().next(), panes.open.keys().next_back()) else {
        return;
    };
    for window in first_open.max(oldest - in_window + 1)..open_from.min(newest + 1) {
        let mut members = panes.open.range(window..window + in_window).map(|(_, pane)| pane);
        if in_window == 1 {
            members.for_each(|pane| emit(window * SLIDE, pane));
        } else if let Some(first) = members.next() {
            let mut whole: FxHashMap<K, A> = FxHashMap::default();
            for pane in std::iter::once(first).chain(members) {
                for (key, partial) in pane {
                    merge(whole.entry(*key).or_default(), partial);
                }
            }
            emit(window * SLIDE, &whole);
        }
    }
    panes.open = panes.open.split_off(&open_from);
}
