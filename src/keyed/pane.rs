//! Panes: what one key has in one window.

use crate::fire::Firing;

/// No pane, no slot.
pub(crate) const NOTHING: u32 = u32::MAX;

/// What every row of a pane looks at: one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Pane {
    /// The first and the last tick of its window. The last one is the watermark at which the window is due, so one that cannot
    /// be said in 64 bits is [`END`](crate::watermark::END).
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// The slot of its key.
    pub(crate) key: u32,
    /// Where its contents are.
    pub(crate) slot: u32,
    /// The pane of this key that starts before it.
    pub(crate) next: u32,
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
    /// The earliest time it has asked for.
    pub(crate) scheduled: Option<i64>,
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

/// The panes of a shard; those of a key are a list from the latest start to the earliest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Panes {
    pub(crate) panes: Vec<Pane>,
    pub(crate) stories: Vec<Story>,
    free: Vec<u32>,
    /// The latest pane of each key.
    pub(crate) heads: Vec<u32>,
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
    pub(crate) fn story(&mut self, id: u32) -> &mut Story {
        &mut self.stories[id as usize]
    }

    /// The latest pane of a key.
    #[inline]
    pub(crate) fn head(&self, key: u32) -> u32 {
        self.heads.get(key as usize).copied().unwrap_or(NOTHING)
    }

    /// Looks at the latest pane of each of these keys. Rows are then taken one after the other, each as soon as its pane has come
    /// from memory; here the processor waits for many of them at once.
    pub(crate) fn touch(&self, keys: &[u32]) {
        let latest = keys.iter().map(|&key| self.panes.get(self.head(key) as usize));
        std::hint::black_box(latest.fold(0, |all, pane| all ^ pane.map_or(0, |pane| pane.last)));
    }

    /// A new pane, behind `after` in the list of its key, or at its head if that is [`NOTHING`].
    pub(crate) fn insert(&mut self, after: u32, mut pane: Pane, created: u64) -> u32 {
        if self.heads.len() <= pane.key as usize {
            self.heads.resize(pane.key as usize + 1, NOTHING);
        }
        let story = Story {
            created,
            number: 0,
            count: 0,
            early_at: None,
            mark: None,
            scheduled: None,
            times: (i64::MAX, i64::MIN),
            given: Vec::new(),
        };
        pane.next = match after {
            NOTHING => self.heads[pane.key as usize],
            after => self.get(after).next,
        };
        let key = pane.key as usize;
        let id = match self.free.pop() {
            Some(id) => {
                pane.generation = self.get(id).generation + 1;
                (self.panes[id as usize], self.stories[id as usize]) = (pane, story);
                id
            }
            None => {
                self.panes.push(pane);
                self.stories.push(story);
                self.panes.len() as u32 - 1
            }
        };
        match after {
            NOTHING => self.heads[key] = id,
            after => self.get_mut(after).next = id,
        }
        id
    }

    /// Takes a pane out of the list of its key.
    pub(crate) fn remove(&mut self, id: u32) {
        let Pane { key, next, .. } = *self.get(id);
        let mut at = self.heads[key as usize];
        if at == id {
            self.heads[key as usize] = next;
        } else {
            while self.get(at).next != id {
                at = self.get(at).next;
            }
            self.get_mut(at).next = next;
        }
        let pane = self.get_mut(id);
        pane.generation = pane.generation.wrapping_add(1);
        pane.slot = NOTHING;
        self.free.push(id);
    }

    /// The pane that an entry of the queue means, if it is still there.
    pub(crate) fn is_live(&self, id: u32, generation: u32) -> bool {
        let pane = self.get(id);
        pane.generation == generation && pane.slot != NOTHING
    }

    /// The panes of a key, from the latest to the earliest.
    pub(super) fn of_key(&self, key: u32) -> impl Iterator<Item = u32> {
        let head = self.head(key);
        std::iter::successors((head != NOTHING).then_some(head), |&id| {
            let next = self.get(id).next;
            (next != NOTHING).then_some(next)
        })
    }

    /// All panes, by key, each key's from the latest to the earliest.
    pub(crate) fn live(&self) -> impl Iterator<Item = u32> {
        (0..self.heads.len() as u32).flat_map(|key| self.of_key(key))
    }

    /// Keys have new slots: these are their panes.
    pub(crate) fn set_heads(&mut self, heads: Vec<u32>) {
        self.heads = heads;
        for key in 0..self.heads.len() {
            let mut at = self.heads[key];
            while at != NOTHING {
                let pane = self.get_mut(at);
                pane.key = key as u32;
                at = pane.next;
            }
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.panes.capacity() * (size_of::<Pane>() + size_of::<Story>())
            + (self.free.capacity() + self.heads.capacity()) * size_of::<u32>()
    }
}
