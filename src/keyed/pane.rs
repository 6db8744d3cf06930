//! Panes: what one key has in one window.

use super::emission::Said;
use super::timers::Timers;
use crate::block::{BLOCK, bits};
use crate::watermark::END;

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
    /// In a home, the panes of its key: the one that starts last, and before it nothing, a pane that is not at home, or the
    /// place of the list of all panes, if there are more.
    of_key: [u32; 2],
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
    pub(crate) said: Said,
}

/// The panes of a shard, by number; those of a key also by start. Few keys have more than one, so each has room for one, its
/// home, which has the number of the key; others are kept apart. What there is of either is a pair, homes first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Panes {
    homes: Vec<Pane>,
    others: Vec<Pane>,
    /// By the slot of the contents, which stays the same where a pane is moved.
    pasts: Vec<Past>,
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
            of_key: [NOTHING; 2],
            due: false,
            changed: false,
            fill: Fill::Empty,
            frozen: false,
        }
    }

    fn is_there(&self) -> bool {
        self.slot != NOTHING
    }

    /// In a home, where the list of the panes of its key is, if there is one.
    fn crowd(&self) -> Option<usize> {
        Some(self.of_key[0]).filter(|first| first & OTHER == 0).map(|crowd| crowd as usize)
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
        self.pasts[self.get(id).slot as usize]
    }

    pub(crate) fn past_mut(&mut self, id: u32) -> &mut Past {
        let slot = self.get(id).slot;
        &mut self.pasts[slot as usize]
    }

    fn set_past(&mut self, slot: u32, past: Past) {
        if self.pasts.len() <= slot as usize {
            self.pasts.resize(slot as usize + 1, past);
        }
        self.pasts[slot as usize] = past;
    }

    /// The contents of a pane are in another slot now.
    pub(crate) fn set_slot(&mut self, id: u32, slot: u32) {
        self.set_past(slot, self.past(id));
        self.get_mut(id).slot = slot;
    }

    /// Gives all panes new slots without gaps. Returns which they had before, in the order of the new ones.
    pub(crate) fn renumber_slots(&mut self) -> Vec<u32> {
        let panes = self.homes.iter_mut().chain(&mut self.others).filter(|pane| pane.is_there());
        let before: Vec<u32> =
            (0..).zip(panes).map(|(new, pane)| std::mem::replace(&mut pane.slot, new)).collect();
        self.pasts = before.iter().map(|&slot| self.pasts[slot as usize]).collect();
        before
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

    /// Takes out the times up to `watermark`, with the panes to which something happens; others have been put off, to when
    /// `next` says: it is told where the story of the pane is, if it has one.
    pub(crate) fn take_due(
        &mut self,
        watermark: i64,
        next: impl Fn(&Pane, &[Story], usize) -> i64,
    ) -> Vec<(u32, i64)> {
        let Panes { homes, others, timers, stories, .. } = self;
        let mut due = Vec::new();
        for (which, (panes, timers)) in [homes, others].into_iter().zip(timers).enumerate() {
            timers.take_due(watermark, |first, places, times| {
                for child in bits(places) {
                    let (place, time) = (first + child, &mut times[child]);
                    let pane = &panes[place];
                    let next = if pane.is_there() { next(pane, &stories[which], place) } else { END };
                    if next > watermark {
                        *time = next;
                        continue;
                    }
                    if pane.is_there() {
                        due.push((place as u32 | (which as u32) << 31, *time));
                    }
                    *time = END;
                }
            });
        }
        due
    }

    /// The panes of a key, from the earliest to the latest.
    #[inline]
    pub(crate) fn of_key(&self, key: u32) -> &[u32] {
        let Some(home) = self.homes.get(key as usize) else { return &[] };
        match &home.of_key {
            [NOTHING, NOTHING] => &[],
            [NOTHING, latest] => std::slice::from_ref(latest),
            pair if home.crowd().is_none() => pair,
            [crowd, _] => &self.crowds[*crowd as usize],
        }
    }

    /// Rows by their key and time; `last` says what the last tick of the session is that each would have for itself. Those that
    /// only make longer a session that is at home, starts last, and has not been reached by the watermark, are done with, up
    /// to the first that does more. Returns how many these are, and writes down their slots.
    #[inline(always)]
    pub(crate) fn lengthen(
        &mut self,
        keys: &[u32],
        times: &[i64],
        last: impl Fn(usize, i64) -> i64,
        watermark: i64,
        slots: &mut [u32; BLOCK],
    ) -> usize {
        let homes = self.homes.as_mut_slice();
        for (place, ((&key, &time), slot)) in keys.iter().zip(times).zip(slots).enumerate() {
            let Some(pane) = homes.get_mut(key as usize) else { return place };
            // one tick behind its end still touches it
            let span = pane.last.saturating_add(1).wrapping_sub(pane.first) as u64;
            let touches = time.wrapping_sub(pane.first) as u64 <= span;
            if !(touches && pane.of_key[1] == key && pane.last > watermark) {
                return place;
            }
            pane.last = pane.last.max(last(place, time));
            pane.fill = Fill::News;
            *slot = pane.slot;
        }
        keys.len()
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
        self.make_room(key);
        self.set_past(pane.slot, Past { key, number: 0, created });
        self.len += 1;
        let home = &self.homes[key as usize];
        let (is_free, is_fixed) = (!home.is_there(), home.frozen || home.changed);
        let ids = self.of_key(key);
        let moves = at == ids.len() && ids.last() == Some(&key) && !is_fixed;
        if moves {
            self.move_out(key, self.time(key));
        }
        let id = match is_free || moves {
            true => key,
            false => self.put_aside(pane.clone()),
        };
        self.enlist(key, at, id);
        if id == key {
            pane.of_key = self.homes[key as usize].of_key;
            self.homes[key as usize] = pane;
        }
        id
    }

    /// A session that begins behind the one or two that its key has, if it has any, and the latest of these is at home and has
    /// not been reached by the watermark. Returns whether it is so; if not, nothing has changed.
    pub(crate) fn begin(&mut self, key: u32, mut pane: Pane, created: u64, watermark: i64) -> bool {
        self.make_room(key);
        let home = &self.homes[key as usize];
        match home.of_key {
            [NOTHING, NOTHING] => {
                self.timers[0].set(key as usize, pane.last);
                self.homes[key as usize].of_key = [NOTHING, key];
            }
            [earlier, latest] => {
                let is_behind = home.last.saturating_add(1) < pane.first;
                let is_alone = latest == key && home.crowd().is_none();
                if !is_alone || !is_behind || home.last <= watermark || home.frozen || home.changed {
                    return false;
                }
                // the home keeps a time that is earlier than need be, which is found out when it comes
                self.move_out(key, home.last);
                self.enlist(key, 1 + usize::from(earlier != NOTHING), key);
            }
        }
        self.len += 1;
        self.set_past(pane.slot, Past { key, number: 0, created });
        pane.of_key = self.homes[key as usize].of_key;
        self.homes[key as usize] = pane;
        true
    }

    /// A session that becomes part of one of the one or two that its key has: of the latest, which is at home, in front of it,
    /// or of the one before that; if it touches one only, and the watermark has not reached that. Returns the slot.
    pub(crate) fn join(&mut self, key: u32, (first, last): (i64, i64), watermark: i64) -> Option<u32> {
        let home = self.homes.get_mut(key as usize).filter(|home| home.of_key[1] == key)?;
        let earlier = match home.of_key[0] {
            NOTHING => None,
            id => Some(self.others.get_mut(split(id).1).filter(|_| id & OTHER != 0)?),
        };
        let reaches_home = last.saturating_add(1) >= home.first;
        let behind = |pane: &Pane| pane.last.saturating_add(1) < first;
        let pane = match earlier {
            _ if reaches_home && earlier.as_deref().is_none_or(behind) && first <= home.last => home,
            Some(pane) if !reaches_home && !behind(pane) && last.saturating_add(1) >= pane.first => pane,
            _ => return None,
        };
        if pane.last <= watermark {
            return None;
        }
        (pane.first, pane.last, pane.fill) = (pane.first.min(first), pane.last.max(last), Fill::News);
        Some(pane.slot)
    }

    fn make_room(&mut self, key: u32) {
        if self.homes.len() <= key as usize {
            self.homes.resize(key as usize + 1, Pane::new(0, 0, NOTHING));
        }
    }

    /// The pane that is at home with a key, and starts last, is put aside; something happens to it at `time`, and no earlier.
    fn move_out(&mut self, key: u32, time: i64) {
        let home = self.homes[key as usize].clone();
        let crowd = home.crowd();
        let moved = self.put_aside(home);
        self.set_time(moved, time);
        if let Some(story) = self.take_story(key).filter(|story| *story != Story::NONE) {
            *self.story_mut(moved) = story;
        }
        self.homes[key as usize].of_key[1] = moved;
        if let Some(last) = crowd.and_then(|crowd| self.crowds[crowd].last_mut()) {
            *last = moved;
        }
    }

    /// Puts a pane at its place among those of its key.
    fn enlist(&mut self, key: u32, at: usize, id: u32) {
        let of_key = match self.homes[key as usize].of_key {
            [NOTHING, NOTHING] => [NOTHING, id],
            [NOTHING, latest] if at == 1 && latest & OTHER != 0 => [latest, id],
            [NOTHING, latest] if at == 0 && id & OTHER != 0 => [id, latest],
            _ => {
                let number = self.crowd(key);
                let crowd = &mut self.crowds[number];
                crowd.insert(at, id);
                [number as u32, crowd[crowd.len() - 1]]
            }
        };
        self.homes[key as usize].of_key = of_key;
    }

    /// The list of the panes of a key.
    fn crowd(&mut self, key: u32) -> usize {
        if let Some(crowd) = self.homes[key as usize].crowd() {
            return crowd;
        }
        let free = self.free_crowds.pop().map_or(self.crowds.len(), |free| free as usize);
        if free == self.crowds.len() {
            self.crowds.push(Vec::new());
        }
        let mut crowd = std::mem::take(&mut self.crowds[free]);
        crowd.extend_from_slice(self.of_key(key));
        self.crowds[free] = crowd;
        free
    }

    /// A pane that is not at home.
    fn put_aside(&mut self, pane: Pane) -> u32 {
        if let Some(id) = self.free.pop() {
            let (_, place) = split(id);
            self.others[place] = pane;
            return id;
        }
        self.others.push(pane);
        (self.others.len() as u32 - 1) | OTHER
    }

    /// A pane is gone; its time is not, for that will be passed over. Before another one comes, keys that had more than two
    /// are to be [thinned out](Panes::thin_out).
    pub(crate) fn remove(&mut self, id: u32) {
        let key = if id & OTHER == 0 { id } else { self.past(id).key };
        let pane = self.get_mut(id);
        (pane.slot, pane.changed) = (NOTHING, false);
        let home = &mut self.homes[key as usize];
        match home.of_key {
            _ if home.crowd().is_some() => self.thinned.push((key, id)),
            [earlier, latest] if latest == id => home.of_key = [NOTHING, earlier],
            [_, latest] => home.of_key = [NOTHING, latest],
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
            let Some(number) = self.homes[key as usize].crowd() else { continue };
            let mut crowd = std::mem::take(&mut self.crowds[number]);
            match crowd.iter().position(|&other| other == id).filter(|_| gone.len() == 1) {
                Some(place) => drop(crowd.remove(place)),
                None => crowd.retain(|&id| self.get(id).is_there()),
            }
            let home = &mut self.homes[key as usize];
            home.of_key = match crowd[..] {
                [] => [NOTHING; 2],
                [one] => [NOTHING, one],
                [earlier, latest] if earlier & OTHER != 0 => [earlier, latest],
                [.., latest] => [number as u32, latest],
            };
            if home.crowd().is_none() {
                crowd.clear();
                self.free_crowds.push(number as u32);
            }
            self.crowds[number] = crowd;
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
            + self.pasts.capacity() * size_of::<Past>()
            + bytes(&self.stories)
            + self.timers.iter().map(Timers::size).sum::<usize>()
            + (numbers + self.free.capacity()) * size_of::<u32>()
    }
}
