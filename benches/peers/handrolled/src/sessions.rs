//! Sessions: a hash map of keys, each with its open sessions, and a calendar that says when to look at which key again.

use crate::data::{Columns, Row, Sink};
use crate::windows::WATERMARK_EVERY;
use crate::workloads::Share;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Milliseconds of a page of the calendar: about as much as lies between two watermarks.
const PAGE: i64 = 128;

#[derive(Clone, Copy)]
struct Session {
    start: i64,
    end: i64,
    count: i64,
    sum: f64,
}

impl Session {
    /// Whether it overlaps or touches another.
    #[inline(always)]
    fn meets(&self, other: &Session) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    #[inline(always)]
    fn absorb(&mut self, other: &Session) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.count += other.count;
        self.sum += other.sum;
    }
}

/// The open sessions of a key, and the page on which it stands; older entries of it are void.
struct Key {
    open: Vec<Session>,
    page: i64,
}

/// Counts and adds up sessions with a gap of `GAP` ms. A watermark (highest time - bound - 1) is issued every 1,000 rows.
/// A row is late if the session that it would open has passed, and no open session meets it, which is Flink's rule.
pub fn sessions<const GAP: i64>(data: &Columns, bound: i64, share: Share, sink: &mut Sink) {
    let mut keys: FxHashMap<i64, Key> = FxHashMap::default();
    let mut calendar: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let (mut highest, mut watermark) = (i64::MIN, i64::MIN);
    for (row, &time) in data.ts.iter().enumerate() {
        highest = highest.max(time);
        let id = data.key64[row];
        if share.has_key(id as usize) {
            let key = keys.entry(id).or_insert(Key { open: Vec::new(), page: i64::MAX });
            let alone = Session { start: time, end: time + GAP, count: 1, sum: data.value[row] };
            if let Some(at) = key.open.iter().position(|session| session.meets(&alone)) {
                key.open[at].absorb(&alone);
                if key.open.len() > 1 {
                    join(&mut key.open, at);
                }
            } else if alone.end - 1 > watermark {
                key.open.push(alone);
                let page = alone.end.div_euclid(PAGE);
                if page < key.page {
                    key.page = page;
                    calendar.entry(page).or_default().push(id);
                }
            }
        }
        if (row + 1) % WATERMARK_EVERY == 0 {
            watermark = highest - bound - 1;
            fire(watermark, &mut keys, &mut calendar, sink);
        }
    }
    fire(i64::MAX - 1, &mut keys, &mut calendar, sink);
}

/// A session has grown, and takes in those behind it that it meets now.
#[cold]
fn join(open: &mut Vec<Session>, at: usize) {
    let mut grown = open[at];
    for other in (at + 1..open.len()).rev() {
        if open[other].meets(&grown) {
            grown.absorb(&open.swap_remove(other));
        }
    }
    open[at] = grown;
}

/// Emits the sessions that the watermark has passed.
fn fire(
    watermark: i64,
    keys: &mut FxHashMap<i64, Key>,
    calendar: &mut BTreeMap<i64, Vec<i64>>,
    sink: &mut Sink,
) {
    let today = (watermark + 1).div_euclid(PAGE);
    let mut again = Vec::new();
    while let Some(page) = calendar.first_entry().filter(|page| *page.key() <= today) {
        let (number, ids) = page.remove_entry();
        for id in ids {
            let Some(key) = keys.get_mut(&id).filter(|key| key.page == number) else { continue };
            key.open.retain(|session| {
                let Session { start, end, count, sum } = *session;
                let passed = end - 1 <= watermark;
                if passed {
                    sink.put(Row { window: start, key: id, count, sum, max: end as f64, ..Row::default() });
                }
                !passed
            });
            match key.open.iter().map(|session| session.end.div_euclid(PAGE)).min() {
                Some(page) => {
                    key.page = page;
                    again.push((page, id));
                }
                None => _ = keys.remove(&id),
            }
        }
    }
    for (page, id) in again {
        calendar.entry(page).or_default().push(id);
    }
}
