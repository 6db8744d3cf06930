//! Pending timers: one for each key and time, taken out in order of time, then registration.
//!
//! Two structures hold the same timers. A hash table finds a timer by key and time, so that a second registration is
//! noticed and a deletion costs one look. A radix heap gives them out in order: time is what watermarks pass once and never
//! come back to, so a timer can lie in bucket `b`, where `b` is the highest bit in which its time differs from the last
//! time that was given out, and needs to be looked at again only when the watermark reaches that bucket. Every move
//! is a sequential copy of a few bytes to a lower bucket, where a binary heap of ten million would miss the cache at each
//! of its 23 levels.
//!
//! ```text
//! bucket 0        time == last, in order of registration
//! bucket b        time agrees with last above bit b - 1, and differs there (so it is later)
//! overdue         time < last: registered too late, in a small ordered map
//! ```
//!
//! A deleted timer leaves the table at once and the heap when its turn comes, or when such leftovers are the larger part.

use std::collections::BTreeMap;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::key::hash;

/// Where in the order of all events something was registered, across shards: the event, and the number within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Registered {
    pub(crate) event: u64,
    pub(crate) number: u32,
}

/// A pending timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) time: i64,
    pub(crate) slot: u32,
    pub(crate) registered: Registered,
    /// The order of registration within the shard; no two timers have the same.
    pub(crate) serial: u64,
}

/// The timers of one shard, of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    pending: HashTable<Pending>,
    queue: Queue,
    next_serial: u64,
}

#[inline]
fn hash_of(slot: u32, time: i64) -> u64 {
    hash((time as u64).wrapping_add(u64::from(slot).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

fn rehash(timer: &Pending) -> u64 {
    hash_of(timer.slot, timer.time)
}

impl Timers {
    pub(crate) fn new() -> Self {
        Timers { pending: HashTable::new(), queue: Queue::new(), next_serial: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// No timer is due before this; the highest time if there is none.
    #[inline]
    pub(crate) fn earliest(&self) -> i64 {
        self.queue.earliest
    }

    /// Registers a timer; false if there is one for this key and time already.
    pub(crate) fn register(&mut self, slot: u32, time: i64, registered: Registered) -> bool {
        let same = |timer: &Pending| timer.slot == slot && timer.time == time;
        let Entry::Vacant(vacant) = self.pending.entry(hash_of(slot, time), same, rehash) else {
            return false;
        };
        let serial = self.next_serial;
        vacant.insert(Pending { time, slot, registered, serial });
        self.next_serial += 1;
        self.queue.push(Item { time, slot, serial });
        true
    }

    /// Deletes the timer of exactly this key and time.
    pub(crate) fn delete(&mut self, slot: u32, time: i64) -> Option<Pending> {
        let same = |timer: &Pending| timer.slot == slot && timer.time == time;
        let found = self.pending.find_entry(hash_of(slot, time), same).ok()?;
        Some(found.remove().0)
    }

    /// Takes out the next timer at or before `due`.
    pub(crate) fn pop(&mut self, due: i64) -> Option<Pending> {
        while let Some(item) = self.queue.pop(due) {
            let same = |timer: &Pending| timer.serial == item.serial;
            if let Ok(found) = self.pending.find_entry(hash_of(item.slot, item.time), same) {
                return Some(found.remove().0);
            }
        }
        None
    }

    /// Takes back a registration, or a removal, of this call.
    pub(crate) fn put_back(&mut self, timer: Pending) {
        self.pending.insert_unique(rehash(&timer), timer, rehash);
        self.queue.put_back(Item { time: timer.time, slot: timer.slot, serial: timer.serial });
    }

    /// Gives a timer that is still pending its final place in the order of all shards.
    pub(crate) fn renumber(&mut self, slot: u32, time: i64, serial: u64, number: u32) {
        if let Some(timer) = self.pending.find_mut(hash_of(slot, time), |timer| timer.serial == serial) {
            timer.registered.number = number;
        }
    }

    /// All of them, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.pending.iter()
    }

    /// The serial that the next registration gets.
    pub(crate) fn next_serial(&self) -> u64 {
        self.next_serial
    }

    /// Drops what deleted timers have left behind, if it is the larger part.
    pub(crate) fn tidy(&mut self) {
        if self.queue.len > 2 * self.pending.len() + 1_024 {
            let pending = &self.pending;
            self.queue.retain(|item| {
                pending.find(hash_of(item.slot, item.time), |timer| timer.serial == item.serial).is_some()
            });
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.pending.allocation_size() + self.queue.size()
    }

    /// Panics unless every pending timer is in the queue, and none before the earliest time.
    pub(crate) fn validate(&self) {
        let mut queued: Vec<u64> = self.queue.items().map(|item| item.serial).collect();
        queued.sort_unstable();
        for timer in &self.pending {
            assert!(queued.binary_search(&timer.serial).is_ok(), "{timer:?} is not in the queue");
            assert!(timer.time >= self.queue.earliest, "{timer:?} is before {}", self.queue.earliest);
        }
        assert_eq!(queued.len(), self.queue.len);
    }
}

/// What the queue holds of a timer.
#[derive(Clone, Copy, Debug)]
struct Item {
    time: i64,
    slot: u32,
    serial: u64,
}

/// A radix heap over times, first in first out among equal ones.
#[derive(Clone, Debug)]
struct Queue {
    /// The last time that was given out.
    last: i64,
    /// The items of each bucket, and the lowest of their times.
    buckets: Vec<Bucket>,
    /// How many of bucket 0 have been given out.
    head: usize,
    overdue: BTreeMap<(i64, u64), u32>,
    earliest: i64,
    len: usize,
}

#[derive(Clone, Debug)]
struct Bucket {
    items: Vec<Item>,
    low: i64,
}

/// An empty bucket keeps room for no more than this.
const ROOM: usize = 4_096;

impl Queue {
    fn new() -> Self {
        let bucket = Bucket { items: Vec::new(), low: i64::MAX };
        Queue {
            last: i64::MIN,
            buckets: vec![bucket; 65],
            head: 0,
            overdue: BTreeMap::new(),
            earliest: i64::MAX,
            len: 0,
        }
    }

    #[inline]
    fn push(&mut self, item: Item) {
        self.earliest = self.earliest.min(item.time);
        if item.time >= self.last {
            self.place(item);
        } else if self.overdue.insert((item.time, item.serial), item.slot).is_some() {
            return;
        }
        self.len += 1;
    }

    /// Puts an item at or after `last` into its bucket.
    #[inline]
    fn place(&mut self, item: Item) {
        // both are on the same side of zero, or the sign is the highest bit in which they differ
        let bucket = u64::BITS - (item.time ^ self.last).leading_zeros();
        let bucket = &mut self.buckets[bucket as usize];
        bucket.low = bucket.low.min(item.time);
        bucket.items.push(item);
    }

    /// An item that was taken out, and comes before its equals again; or one that is still there: twice does no harm.
    fn put_back(&mut self, item: Item) {
        if item.time != self.last {
            return self.push(item);
        }
        let first = &mut self.buckets[0];
        let at = self.head + first.items[self.head..].partition_point(|other| other.serial < item.serial);
        first.items.insert(at, item);
        self.len += 1;
        self.earliest = self.earliest.min(item.time);
    }

    fn pop(&mut self, due: i64) -> Option<Item> {
        if self.earliest > due || self.len == 0 {
            return None;
        }
        let item = match self.overdue.pop_first() {
            Some(((time, serial), slot)) => Item { time, slot, serial },
            None => {
                if self.head == self.buckets[0].items.len() {
                    self.refill();
                }
                let item = self.buckets[0].items[self.head];
                self.head += 1;
                item
            }
        };
        self.len -= 1;
        self.earliest = self.peek();
        Some(item)
    }

    /// Moves the lowest times to bucket 0; there is an item, and none that is overdue or in bucket 0.
    fn refill(&mut self) {
        self.buckets[0].items.clear();
        self.head = 0;
        let Some(lowest) = self.buckets.iter().position(|bucket| !bucket.items.is_empty()) else { return };
        let mut moved = std::mem::take(&mut self.buckets[lowest].items);
        self.last = std::mem::replace(&mut self.buckets[lowest].low, i64::MAX);
        for item in moved.drain(..) {
            self.place(item);
        }
        if moved.capacity() <= ROOM {
            self.buckets[lowest].items = moved;
        }
    }

    fn peek(&self) -> i64 {
        if let Some(((time, _), _)) = self.overdue.first_key_value() {
            return *time;
        }
        if self.head < self.buckets[0].items.len() {
            return self.last;
        }
        let later = self.buckets[1..].iter().find(|bucket| !bucket.items.is_empty());
        later.map_or(i64::MAX, |bucket| bucket.low)
    }

    fn items(&self) -> impl Iterator<Item = Item> {
        let overdue = self.overdue.iter().map(|(&(time, serial), &slot)| Item { time, slot, serial });
        let first = self.buckets[0].items[self.head..].iter();
        let later = self.buckets[1..].iter().flat_map(|bucket| &bucket.items);
        overdue.chain(first.chain(later).copied())
    }

    fn retain(&mut self, keep: impl Fn(&Item) -> bool) {
        let mut kept = Queue::new();
        kept.last = self.last;
        self.items().filter(keep).for_each(|item| kept.push(item));
        *self = kept;
    }

    fn size(&self) -> usize {
        let items: usize = self.buckets.iter().map(|bucket| bucket.items.capacity()).sum();
        items * size_of::<Item>() + self.overdue.len() * size_of::<((i64, u64), u32)>()
    }
}

#[cfg(test)]
mod tests;
