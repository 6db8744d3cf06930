//! The keys of one shard: what is kept for each, in a slab that gives a forgotten key's place to the next one.

use hashbrown::HashTable;

use crate::key::{Code, hash};

/// What is kept for each key of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Keys<S> {
    table: HashTable<u32>,
    null: Option<u32>,
    entries: Vec<Entry<S>>,
    /// Slots of forgotten keys.
    free: Vec<u32>,
}

/// What is kept for one key.
#[derive(Clone, Debug)]
pub(crate) struct Entry<S> {
    pub(crate) code: Code,
    pub(crate) null: bool,
    pub(crate) state: Option<S>,
    /// Timers of either kind that are pending.
    pub(crate) timers: u32,
    /// This call has saved the state already.
    pub(crate) saved: bool,
    /// This call is going to look at whether the key can be forgotten.
    pub(crate) leaving: bool,
}

impl<S> Entry<S> {
    /// Whether nothing is kept.
    pub(crate) fn is_vacant(&self) -> bool {
        self.state.is_none() && self.timers == 0
    }
}

impl<S> Keys<S> {
    pub(crate) fn new() -> Self {
        Keys { table: HashTable::new(), null: None, entries: Vec::new(), free: Vec::new() }
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn entry(&self, slot: u32) -> &Entry<S> {
        &self.entries[slot as usize]
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, slot: u32) -> &mut Entry<S> {
        &mut self.entries[slot as usize]
    }

    /// The slot of a key, and whether it is new.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, code: Code, null: bool) -> (u32, bool) {
        let entries = &self.entries;
        let known = match null {
            true => self.null,
            false => self.table.find(hash(code), |&slot| entries[slot as usize].code == code).copied(),
        };
        match known {
            Some(slot) => (slot, false),
            None => (self.insert(code, null), true),
        }
    }

    fn insert(&mut self, code: Code, null: bool) -> u32 {
        let entry = Entry { code, null, state: None, timers: 0, saved: false, leaving: false };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        if null {
            self.null = Some(slot);
        } else {
            let entries = &self.entries;
            self.table.insert_unique(hash(code), slot, |&slot| hash(entries[slot as usize].code));
        }
        slot
    }

    /// Forgets a key.
    pub(crate) fn remove(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.state = None;
        if entry.null {
            self.null = None;
        } else if let Ok(known) = self.table.find_entry(hash(entry.code), |&other| other == slot) {
            known.remove();
        }
        self.free.push(slot);
    }

    /// All keys with their slots, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Entry<S>)> {
        self.table.iter().copied().chain(self.null).map(|slot| (slot, self.entry(slot)))
    }

    /// Replaces every code by `renamed[code]`, for codes that are interned numbers.
    pub(crate) fn rename(&mut self, renamed: &[u32]) {
        let slots: Vec<u32> = self.table.drain().collect();
        let entries = &mut self.entries;
        for &slot in &slots {
            let code = &mut entries[slot as usize].code;
            *code = Code::from(renamed[*code as usize]);
        }
        for slot in slots {
            let code = entries[slot as usize].code;
            self.table.insert_unique(hash(code), slot, |&slot| hash(entries[slot as usize].code));
        }
    }

    /// Bytes of the table and the slab, without what states have on the heap.
    pub(crate) fn size(&self) -> usize {
        self.table.allocation_size()
            + self.entries.capacity() * size_of::<Entry<S>>()
            + self.free.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgotten_keys_make_room_and_are_new_when_they_come_back() {
        let mut keys: Keys<u64> = Keys::new();
        let slots: Vec<u32> = (0..100).map(|code| keys.find_or_insert(code * 7, false).0).collect();
        assert_eq!(keys.find_or_insert(0, true), (100, true));
        for &slot in &slots {
            keys.entry_mut(slot).state = Some(u64::from(slot));
        }
        for &slot in slots.iter().step_by(2) {
            keys.remove(slot);
        }
        keys.remove(100);
        assert_eq!(keys.len(), 50);
        assert_eq!(keys.find_or_insert(7, false), (slots[1], false));
        let (slot, new) = keys.find_or_insert(0, false);
        assert!(new && keys.entry(slot).is_vacant());
        assert_eq!(keys.len(), 51);
        // codes 0, 7, 21, 35, ...: each to twice its value, and one more
        let renamed: Vec<u32> = (0..700).map(|code| 2 * code + 1).collect();
        keys.rename(&renamed);
        assert_eq!(keys.find_or_insert(15, false), (slots[1], false));
        assert_eq!(keys.entry(slots[1]).state, Some(1));
        assert!(keys.find_or_insert(7, false).1);
        assert_eq!(keys.iter().count(), keys.len());
    }
}
