//! Panes: what one key has in one window.

use crate::fire::Firing;

/// No pane, no slot.
pub(crate) const NOTHING: u32 = u32::MAX;

/// What every row of a pane looks at: half a cache line.
#[derive(Clone, Debug)]
#[repr(align(32))]
pub(crate) struct Pane {
    /// The first and the last tick of its window. The last one is the watermark at which the window is due, so one that cannot
    /// be said in 64 bits is [`END`](crate::watermark::END).
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// Where its contents are.
    pub(crate) slot: u32,
    /// That of the one entry in the queue that means this pane; all others are stale.
    pub(crate) generation: u32,
    /// The watermark has passed its end.
    pub(crate) due: bool,
    /// Late rows have changed it since it last fired.
    pub(crate) changed: bool,
    /// Rows have come since it last fired.
    pub(crate) news: bool,
    /// It has contents.
    pub(crate) filled: bool,
    /// An emission reads its contents later.
    pub(crate) frozen: bool,
}

/// What is looked at when something happens to a pane.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    /// The slot of its key.
    pub(crate) key: u32,
    /// The arrival number of its first row.
    pub(crate) created: u64,
    /// How often it has fired.
    pub(crate) number: u32,
    /// Rows counted by its trigger.
    pub(crate) count: u64,
    /// When it fires early: by the watermark, or by the clock.
    pub(crate) early_at: Option<i64>,
    /// The value at the last firing of a delta trigger.
    pub(crate) mark: Option<f64>,
    /// The lowest and highest event time, where windows are counted.
    pub(crate) times: (i64, i64),
    /// Results that are to be retracted before the next one.
    pub(crate) given: Vec<Given>,
}

/// A result that has been given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) slot: u32,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) firing: Firing,
    pub(crate) number: u32,
}

/// The panes of a shard, by number; those of a key also by start. Few keys have more than one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Panes {
    panes: Vec<Pane>,
    stories: Vec<Story>,
    free: Vec<u32>,
    keys: Vec<OfKey>,
    /// The panes of keys that have several, from the earliest to the latest.
    crowds: Vec<Vec<u32>>,
    free_crowds: Vec<u32>,
}

/// What a key has.
#[derive(Clone, Copy, Debug)]
struct OfKey {
    /// The pane that starts last, which most rows are for.
    latest: u32,
    /// Where all are, if there are several.
    crowd: u32,
}

impl OfKey {
    const NOTHING: OfKey = OfKey { latest: NOTHING, crowd: NOTHING };
}

impl Panes {
    pub(crate) fn len(&self) -> usize {
        self.panes.len() - self.free.len()
    }

    pub(crate) fn get(&self, id: u32) -> &Pane {
        &self.panes[id as usize]
    }
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Pane {
        &mut self.panes[id as usize]
    }
    pub(crate) fn story(&self, id: u32) -> &Story {
        &self.stories[id as usize]
    }
    pub(crate) fn story_mut(&mut self, id: u32) -> &mut Story {
        &mut self.stories[id as usize]
    }

    /// The panes of a key, from the earliest to the latest.
    #[inline]
    pub(crate) fn of_key(&self, key: u32) -> &[u32] {
        match self.keys.get(key as usize) {
            None | Some(&OfKey { latest: NOTHING, .. }) => &[],
            Some(OfKey { latest, crowd: NOTHING }) => std::slice::from_ref(latest),
            Some(of_key) => &self.crowds[of_key.crowd as usize],
        }
    }

    /// The pane of a key that starts last, and whether it is the only one.
    #[inline]
    pub(crate) fn latest(&self, key: u32) -> Option<(u32, bool)> {
        let of_key = self.keys.get(key as usize).filter(|of_key| of_key.latest != NOTHING)?;
        Some((of_key.latest, of_key.crowd == NOTHING))
    }

    /// Looks at the latest panes of these keys. Rows are then taken one after the other, each as soon as its pane has come from
    /// memory; here the processor waits for many of them at once.
    pub(crate) fn touch_keys(&self, keys: &[u32]) {
        // what is no pane's number is out of bounds
        self.touch(
            keys.iter().map(|&key| self.keys.get(key as usize).map_or(NOTHING, |of_key| of_key.latest)),
        );
    }

    /// Looks at these panes.
    pub(crate) fn touch(&self, ids: impl Iterator<Item = u32>) {
        let panes = ids.map(|id| self.panes.get(id as usize));
        std::hint::black_box(panes.fold(0, |all, pane| all ^ pane.map_or(0, |pane| pane.last)));
    }

    /// A new pane of a key, which comes at place `at` among those that the key has.
    pub(crate) fn insert(&mut self, key: u32, at: usize, mut pane: Pane, created: u64) -> u32 {
        let story = Story {
            key,
            created,
            number: 0,
            count: 0,
            early_at: None,
            mark: None,
            times: (i64::MAX, i64::MIN),
            given: Vec::new(),
        };
        let id = match self.free.pop() {
            Some(id) => {
                pane.generation = self.get(id).generation;
                (self.panes[id as usize], self.stories[id as usize]) = (pane, story);
                id
            }
            None => {
                self.panes.push(pane);
                self.stories.push(story);
                self.panes.len() as u32 - 1
            }
        };
        if self.keys.len() <= key as usize {
            self.keys.resize(key as usize + 1, OfKey::NOTHING);
        }
        let of_key = &mut self.keys[key as usize];
        if of_key.latest == NOTHING {
            of_key.latest = id;
        } else {
            if of_key.crowd == NOTHING {
                of_key.crowd = self.free_crowds.pop().unwrap_or(self.crowds.len() as u32);
                if of_key.crowd as usize == self.crowds.len() {
                    self.crowds.push(Vec::new());
                }
                self.crowds[of_key.crowd as usize].push(of_key.latest);
            }
            let crowd = &mut self.crowds[of_key.crowd as usize];
            crowd.insert(at, id);
            of_key.latest = crowd[crowd.len() - 1];
        }
        id
    }

    /// Takes a pane away from its key.
    pub(crate) fn remove(&mut self, id: u32) {
        let of_key = &mut self.keys[self.stories[id as usize].key as usize];
        match self.crowds.get_mut(of_key.crowd as usize) {
            None => of_key.latest = NOTHING,
            Some(crowd) => {
                crowd.retain(|&other| other != id);
                of_key.latest = crowd[crowd.len() - 1];
                if crowd.len() == 1 {
                    crowd.clear();
                    self.free_crowds.push(of_key.crowd);
                    of_key.crowd = NOTHING;
                }
            }
        }
        let pane = self.get_mut(id);
        pane.generation = pane.generation.wrapping_add(1);
        pane.changed = false;
        self.free.push(id);
    }

    /// All panes, by key, each key's from the earliest to the latest.
    pub(crate) fn live(&self) -> impl Iterator<Item = u32> {
        self.by_key().flat_map(|(_, ids)| ids).copied()
    }

    /// The panes of each key, from the earliest to the latest, for keys that have any.
    pub(crate) fn by_key(&self) -> impl Iterator<Item = (u32, &[u32])> {
        let keys = (0..self.keys.len() as u32).map(|key| (key, self.of_key(key)));
        keys.filter(|(_, ids)| !ids.is_empty())
    }

    /// Keys without panes are gone, and the others have new slots in the same order.
    pub(crate) fn renumber_keys(&mut self) {
        self.keys.retain(|of_key| of_key.latest != NOTHING);
        for key in 0..self.keys.len() {
            for place in 0..self.of_key(key as u32).len() {
                let id = self.of_key(key as u32)[place];
                self.story_mut(id).key = key as u32;
            }
        }
    }

    pub(crate) fn size(&self) -> usize {
        let numbers: usize = self.crowds.iter().map(Vec::capacity).sum();
        self.panes.capacity() * (size_of::<Pane>() + size_of::<Story>())
            + self.keys.capacity() * size_of::<OfKey>()
            + (numbers + self.free.capacity()) * size_of::<u32>()
    }
}
