//! Panes: what one key has in one window.

use super::timers::Timers;
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
    /// Where its contents are; [`NOTHING`] if the pane is gone.
    pub(crate) slot: u32,
    /// In a home, the pane of the key that starts last, which most rows are for.
    latest: u32,
    /// In a home, where all panes of the key are, if there are several.
    crowd: u32,
    /// The watermark has passed its end.
    pub(crate) due: bool,
    /// Late rows have changed it since it last fired.
    pub(crate) changed: bool,
    pub(crate) fill: Fill,
    /// An emission reads its contents later.
    pub(crate) frozen: bool,
}

/// Whether a pane has anything to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fill {
    /// It has no contents.
    Empty,
    /// No row has come since it last fired.
    Said,
    /// Rows have come.
    News,
}

/// What is looked at when a pane fires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Past {
    /// The slot of its key.
    pub(crate) key: u32,
    /// How often it has fired.
    pub(crate) number: u32,
    /// The arrival number of its first row.
    pub(crate) created: u64,
}

/// What only some triggers and modes want to know of a pane.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Story {
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

impl Story {
    pub(crate) const NONE: Story =
        Story { count: 0, early_at: None, mark: None, times: (i64::MAX, i64::MIN), given: Vec::new() };
}

static NO_STORY: Story = Story::NONE;

/// A result that has been given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Given {
    pub(crate) slot: u32,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) firing: Firing,
    pub(crate) number: u32,
}

/// The panes of a shard, by number; those of a key also by start. Few keys have more than one, so each has room for one, its
/// home, which has the number of the key; others are kept apart. What there is of either is a pair, homes first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Panes {
    homes: Vec<Pane>,
    others: Vec<Pane>,
    pasts: [Vec<Past>; 2],
    timers: [Timers; 2],
    /// Up to the last pane that has one.
    stories: [Vec<Story>; 2],
    free: Vec<u32>,
    len: usize,
    /// The panes of keys that have several, from the earliest to the latest.
    crowds: Vec<Vec<u32>>,
    free_crowds: Vec<u32>,
    /// Keys that have lost one of several panes, and which, as long as it is still in their list.
    thinned: Vec<(u32, u32)>,
}

/// The bit that the number of a pane has if it is not that of its key.
const OTHER: u32 = 1 << 31;

/// Which of two vectors has what belongs to a pane, and where.
fn split(id: u32) -> (usize, usize) {
    ((id >> 31) as usize, (id & !OTHER) as usize)
}

impl Pane {
    /// One whose window has been opened, and has taken nothing.
    pub(crate) fn new(first: i64, last: i64, slot: u32) -> Self {
        Pane {
            first,
            last,
            slot,
            latest: NOTHING,
            crowd: NOTHING,
            due: false,
            changed: false,
            fill: Fill::Empty,
            frozen: false,
        }
    }

    fn is_there(&self) -> bool {
        self.slot != NOTHING
    }
}

impl Panes {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> &Pane {
        match split(id) {
            (0, place) => &self.homes[place],
            (_, place) => &self.others[place],
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Pane {
        match split(id) {
            (0, place) => &mut self.homes[place],
            (_, place) => &mut self.others[place],
        }
    }

    pub(crate) fn past(&self, id: u32) -> Past {
        let (which, place) = split(id);
        self.pasts[which][place]
    }

    pub(crate) fn past_mut(&mut self, id: u32) -> &mut Past {
        let (which, place) = split(id);
        &mut self.pasts[which][place]
    }

    pub(crate) fn story(&self, id: u32) -> &Story {
        let (which, place) = split(id);
        self.stories[which].get(place).unwrap_or(&NO_STORY)
    }

    pub(crate) fn story_mut(&mut self, id: u32) -> &mut Story {
        let (which, place) = split(id);
        let stories = &mut self.stories[which];
        if stories.len() <= place {
            stories.resize(place + 1, Story::NONE);
        }
        &mut stories[place]
    }

    /// The story of a pane, if it has one.
    pub(crate) fn take_story(&mut self, id: u32) -> Option<Story> {
        let (which, place) = split(id);
        self.stories[which].get_mut(place).map(|story| std::mem::replace(story, Story::NONE))
    }

    /// When something happens to a pane next, or a time before.
    pub(crate) fn time(&self, id: u32) -> i64 {
        let (which, place) = split(id);
        self.timers[which].get(place)
    }

    /// Something happens to a pane at this time, and no earlier.
    pub(crate) fn set_time(&mut self, id: u32, time: i64) {
        let (which, place) = split(id);
        self.timers[which].set(place, time);
    }

    /// Takes out the times up to `watermark`, with their panes.
    pub(crate) fn take_due(&mut self, watermark: i64) -> Vec<(u32, i64)> {
        let [homes, others] = &mut self.timers;
        let mut due = Vec::new();
        homes.take_due(watermark, |place, time| due.push((place as u32, time)));
        others.take_due(watermark, |place, time| due.push((place as u32 | OTHER, time)));
        due.retain(|&(id, _)| self.get(id).is_there());
        due
    }

    /// The panes of a key, from the earliest to the latest.
    #[inline]
    pub(crate) fn of_key(&self, key: u32) -> &[u32] {
        match self.homes.get(key as usize) {
            None | Some(&Pane { latest: NOTHING, .. }) => &[],
            Some(Pane { latest, crowd: NOTHING, .. }) => std::slice::from_ref(latest),
            Some(home) => &self.crowds[home.crowd as usize],
        }
    }

    /// The pane at home with a key, if none of the key starts after it.
    #[inline]
    pub(crate) fn latest_at_home(&mut self, key: u32) -> Option<&mut Pane> {
        self.homes.get_mut(key as usize).filter(|home| home.latest == key)
    }

    /// Looks at the homes of these keys. Rows are then taken one after the other, each as soon as its pane has come from memory;
    /// here the processor waits for many of them at once.
    pub(crate) fn touch(&self, keys: &[u32]) {
        let homes = keys.iter().map(|&key| self.homes.get(key as usize).map_or(0, |home| home.last));
        std::hint::black_box(homes.fold(0, |all, last| all ^ last));
    }

    /// A new pane of a key, which comes at place `at` among those that the key has. If it starts last it gets the home of its
    /// key, unless somebody knows the pane that is there by its number. Returns its own number.
    pub(crate) fn insert(&mut self, key: u32, at: usize, mut pane: Pane, created: u64) -> u32 {
        let past = Past { key, number: 0, created };
        if self.homes.len() <= key as usize {
            self.homes.resize(key as usize + 1, Pane::new(0, 0, NOTHING));
            self.pasts[0].resize(key as usize + 1, past);
        }
        self.len += 1;
        let home = &mut self.homes[key as usize];
        let Pane { latest, crowd, .. } = *home;
        (pane.latest, pane.crowd) = (key, crowd);
        if latest == NOTHING {
            (*home, self.pasts[0][key as usize]) = (pane, past);
            return key;
        }
        let crowd = self.crowd(key);
        let last = at == self.crowds[crowd].len();
        let id = match &self.homes[key as usize] {
            home if !home.is_there() => key,
            home if last && latest == key && !home.frozen && !home.changed => {
                let (before, past, time) = (home.clone(), self.past(key), self.time(key));
                let moved = self.put_aside(before, past);
                self.set_time(moved, time);
                if let Some(story) = self.take_story(key).filter(|story| *story != Story::NONE) {
                    *self.story_mut(moved) = story;
                }
                self.crowds[crowd][at - 1] = moved;
                key
            }
            _ => self.put_aside(pane.clone(), past),
        };
        self.crowds[crowd].insert(at, id);
        let latest = self.crowds[crowd][self.crowds[crowd].len() - 1];
        let home = &mut self.homes[key as usize];
        if id == key {
            (*home, self.pasts[0][key as usize]) = (pane, past);
        }
        (home.latest, home.crowd) = (latest, crowd as u32);
        id
    }

    /// The list of the panes of a key that has some.
    fn crowd(&mut self, key: u32) -> usize {
        let Pane { latest, crowd, .. } = self.homes[key as usize];
        if crowd != NOTHING {
            return crowd as usize;
        }
        let free = self.free_crowds.pop().map_or(self.crowds.len(), |free| free as usize);
        if free == self.crowds.len() {
            self.crowds.push(Vec::new());
        }
        self.crowds[free].push(latest);
        free
    }

    /// A pane that is not at home.
    fn put_aside(&mut self, pane: Pane, past: Past) -> u32 {
        if let Some(id) = self.free.pop() {
            let (_, place) = split(id);
            (self.others[place], self.pasts[1][place]) = (pane, past);
            return id;
        }
        self.others.push(pane);
        self.pasts[1].push(past);
        (self.others.len() as u32 - 1) | OTHER
    }

    /// A pane is gone; its time is not, for that will be passed over. Before another one comes, keys that had several are to be [thinned out](Panes::thin_out).
    pub(crate) fn remove(&mut self, id: u32) {
        let pane = self.get_mut(id);
        (pane.slot, pane.changed) = (NOTHING, false);
        let key = self.past(id).key;
        let home = &mut self.homes[key as usize];
        match home.crowd {
            NOTHING => home.latest = NOTHING,
            _ => self.thinned.push((key, id)),
        }
        if id != key {
            self.free.push(id);
        }
        self.len -= 1;
        self.take_story(id);
    }

    /// Takes panes that are gone out of the lists of their keys.
    pub(crate) fn thin_out(&mut self) {
        let mut thinned = std::mem::take(&mut self.thinned);
        thinned.sort_unstable();
        for gone in thinned.chunk_by(|(key, _), (other, _)| key == other) {
            let (key, id) = gone[0];
            let number = self.homes[key as usize].crowd;
            let mut crowd = std::mem::take(&mut self.crowds[number as usize]);
            match crowd.iter().position(|&other| other == id).filter(|_| gone.len() == 1) {
                Some(place) => drop(crowd.remove(place)),
                None => crowd.retain(|&id| self.get(id).is_there()),
            }
            let home = &mut self.homes[key as usize];
            home.latest = crowd.last().copied().unwrap_or(NOTHING);
            if crowd.len() < 2 {
                crowd.clear();
                self.free_crowds.push(number);
                home.crowd = NOTHING;
            }
            self.crowds[number as usize] = crowd;
        }
        thinned.clear();
        self.thinned = thinned;
    }

    /// All panes, by key, each key's from the earliest to the latest.
    pub(crate) fn live(&self) -> impl Iterator<Item = u32> {
        self.by_key().flat_map(|(_, ids)| ids).copied()
    }

    /// The panes of each key, from the earliest to the latest, for keys that have any.
    pub(crate) fn by_key(&self) -> impl Iterator<Item = (u32, &[u32])> {
        let keys = (0..self.homes.len() as u32).map(|key| (key, self.of_key(key)));
        keys.filter(|(_, ids)| !ids.is_empty())
    }

    /// Keys without panes are gone, and the others have new slots in the same order.
    pub(crate) fn renumber_keys(&mut self) {
        let mut before = std::mem::take(self);
        let used: Vec<Vec<u32>> = before.by_key().map(|(_, ids)| ids.to_vec()).collect();
        for (key, ids) in (0..).zip(used) {
            for (at, id) in ids.into_iter().enumerate() {
                let Past { number, created, .. } = before.past(id);
                let new = self.insert(key, at, before.get(id).clone(), created);
                self.past_mut(new).number = number;
                self.set_time(new, before.time(id));
                if let Some(story) = before.take_story(id) {
                    *self.story_mut(new) = story;
                }
            }
        }
    }

    pub(crate) fn size(&self) -> usize {
        fn bytes<T>(of: &[Vec<T>; 2]) -> usize {
            of.iter().map(Vec::capacity).sum::<usize>() * size_of::<T>()
        }
        let numbers: usize = self.crowds.iter().map(Vec::capacity).sum();
        (self.homes.capacity() + self.others.capacity()) * size_of::<Pane>()
            + bytes(&self.pasts)
            + bytes(&self.stories)
            + self.timers.iter().map(Timers::size).sum::<usize>()
            + (numbers + self.free.capacity()) * size_of::<u32>()
    }
}
