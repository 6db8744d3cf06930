//! Times at which something happens to a pane, in order.
//!
//! Watermarks never go back, so what is wanted is a monotone priority queue: the radix heap of Ahuja, Mehlhorn, Orlin and
//! Tarjan, "Faster algorithms for the shortest path problem" (1990), section 2. An entry lies in the bucket of the highest bit
//! in which it differs from the last watermark, and moves down at most once a bit: a few appends, no comparison of entries,
//! and no memory access out of order. When the watermark changes in bit `b`, all that lies in lower buckets is due, what lies
//! in that of `b` is told apart, and the buckets above stay as they are.

/// Something will happen to a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) time: i64,
    pub(crate) pane: u32,
    /// Which of the panes that have had this number.
    pub(crate) generation: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Timers {
    /// Bucket `b > 0` has the entries whose highest bit that differs from `last` is bit `b - 1`; bucket 0 has those that do
    /// not differ, and those that are overdue.
    buckets: Vec<Vec<Entry>>,
    /// The watermark up to which entries have been taken out.
    last: u64,
}

/// An empty bucket keeps room for no more than this.
const ROOM: usize = 4_096;

/// Integers in order, as unsigned ones.
fn ordered(time: i64) -> u64 {
    time as u64 ^ (1 << 63)
}

/// How many bits there are up to the highest one in which a time differs from an earlier one.
#[inline]
fn bucket(time: u64, last: u64) -> usize {
    (u64::BITS - (time ^ last).leading_zeros()) as usize
}

impl Timers {
    pub(crate) fn new() -> Self {
        Timers { buckets: vec![Vec::new(); 65], last: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        let bucket = bucket(ordered(entry.time).max(self.last), self.last);
        self.buckets[bucket].push(entry);
    }

    /// Takes out the entries up to `watermark`, in no particular order.
    pub(crate) fn take_due(&mut self, watermark: i64, due: &mut Vec<Entry>) {
        let now = ordered(watermark).max(self.last);
        let changed = bucket(now, self.last);
        self.last = now;
        let (below, rest) = self.buckets.split_at_mut(changed);
        for bucket in below.iter_mut() {
            due.append(bucket);
            bucket.shrink_to(ROOM);
        }
        if let Some(mixed) = rest.first_mut() {
            for entry in mixed.drain(..) {
                match below.get_mut(bucket(ordered(entry.time).max(now), now)) {
                    Some(later) if entry.time > watermark => later.push(entry),
                    _ => due.push(entry),
                }
            }
            mixed.shrink_to(ROOM);
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.buckets.iter().map(|bucket| bucket.capacity() * size_of::<Entry>()).sum()
    }
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
    fn takes_out_exactly_what_is_due_at_rising_watermarks() {
        let (mut timers, mut model) = (Timers::new(), Vec::new());
        let mut numbers = numbers();
        let mut watermark = -1_000_i64;
        for round in 0..3_000_u32 {
            let mut number = || numbers.next().unwrap();
            for _ in 0..number() % 4 {
                let time = match number() % 50 {
                    0 => i64::MAX,
                    1 => i64::MIN,
                    2 => watermark.saturating_sub((number() % 30) as i64),
                    _ => watermark.saturating_add((number() % 3_000) as i64),
                };
                let entry = Entry { time, pane: round, generation: 0 };
                timers.push(entry);
                model.push(entry);
            }
            watermark = watermark.saturating_add((number() % 20) as i64);
            let mut due = Vec::new();
            timers.take_due(watermark, &mut due);
            let (mut expected, rest): (Vec<_>, Vec<_>) =
                model.into_iter().partition(|entry: &Entry| entry.time <= watermark);
            let by_time = |entry: &Entry| (entry.time, entry.pane);
            due.sort_by_key(by_time);
            expected.sort_by_key(by_time);
            assert_eq!(due, expected, "at {watermark}");
            model = rest;
        }
        let mut due = Vec::new();
        timers.take_due(i64::MAX, &mut due);
        assert_eq!(due.len(), model.len());
        assert!(!model.is_empty());
        assert!(timers.buckets.iter().all(Vec::is_empty), "what was never due is left");
    }

    #[test]
    fn what_has_been_taken_out_leaves_little_room_behind() {
        let mut timers = Timers::new();
        // over 17 bits: most are in the highest buckets
        (0..100_000).for_each(|time| timers.push(Entry { time, pane: 0, generation: 0 }));
        assert!(timers.size() >= 100_000 * size_of::<Entry>());
        let mut due = Vec::new();
        for watermark in [70_000, 100_000] {
            timers.take_due(watermark, &mut due);
        }
        assert_eq!(due.len(), 100_000);
        // the two buckets that had most, and what lay below them
        assert!(timers.size() <= 20 * ROOM * size_of::<Entry>(), "{}", timers.size());
    }
}
