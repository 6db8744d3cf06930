use super::*;

fn at(event: u64) -> Registered {
    Registered { event, number: 0 }
}

/// A generator of numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The definition: a list in order of registration, of which the first of the lowest times comes first.
#[derive(Default)]
struct Naive(Vec<(u32, i64, u64)>);

impl Naive {
    fn register(&mut self, slot: u32, time: i64, event: u64) -> bool {
        let new = !self.0.iter().any(|&(s, t, _)| (s, t) == (slot, time));
        if new {
            self.0.push((slot, time, event));
        }
        new
    }
    fn delete(&mut self, slot: u32, time: i64) -> bool {
        let before = self.0.len();
        self.0.retain(|&(s, t, _)| (s, t) != (slot, time));
        self.0.len() < before
    }
    fn pop(&mut self, due: i64) -> Option<(u32, i64, u64)> {
        let lowest = self.0.iter().map(|timer| timer.1).filter(|&time| time <= due).min()?;
        let first = self.0.iter().position(|timer| timer.1 == lowest)?;
        Some(self.0.remove(first))
    }
}

#[test]
fn timers_come_in_order_of_time_then_registration() {
    for (seed, spread) in [(1, 20), (2, 1_000), (3, 1_000_000_000_000), (4, 3)] {
        let mut numbers = Numbers(seed);
        let (mut timers, mut naive) = (Timers::new(), Naive::default());
        let mut due = -(spread as i64) / 2;
        for event in 0..4_000 {
            let slot = numbers.below(5) as u32;
            let time = due + numbers.below(spread) as i64 - spread as i64 / 4;
            match numbers.below(10) {
                0..=5 => {
                    assert_eq!(timers.register(slot, time, at(event)), naive.register(slot, time, event))
                }
                6..=7 => assert_eq!(timers.delete(slot, time).is_some(), naive.delete(slot, time)),
                _ => due += numbers.below(spread / 3 + 1) as i64,
            }
            // not all that are due: what a firing registers is pushed between two of them
            for _ in 0..numbers.below(6) {
                let popped = timers.pop(due).map(|timer| (timer.slot, timer.time, timer.registered.event));
                assert_eq!(popped, naive.pop(due), "seed {seed}, event {event}, due {due}");
            }
            timers.tidy();
            timers.validate();
            assert_eq!(timers.len(), naive.0.len());
        }
    }
}

#[test]
fn both_ends_of_time_are_times_like_any_other() {
    let mut timers = Timers::new();
    for (event, time) in [i64::MAX, 0, i64::MIN, -1, 1, i64::MAX - 1].into_iter().enumerate() {
        assert!(timers.register(7, time, at(event as u64)));
    }
    let order: Vec<i64> = std::iter::from_fn(|| timers.pop(i64::MAX).map(|timer| timer.time)).collect();
    assert_eq!(order, [i64::MIN, -1, 0, 1, i64::MAX - 1, i64::MAX]);
    assert_eq!(timers.pop(i64::MAX), None);
}

#[test]
fn what_is_put_back_comes_again_in_its_old_place() {
    let mut timers = Timers::new();
    for slot in 0..6 {
        timers.register(slot, i64::from(slot) / 3 * 10, at(u64::from(slot)));
    }
    let deleted = timers.delete(4, 10).unwrap();
    let taken: Vec<Pending> = (0..4).map(|_| timers.pop(10).unwrap()).collect();
    assert_eq!(taken.iter().map(|timer| timer.slot).collect::<Vec<_>>(), [0, 1, 2, 3]);
    for timer in taken.into_iter().rev().chain([deleted]) {
        timers.put_back(timer);
    }
    timers.validate();
    let order: Vec<u32> = std::iter::from_fn(|| timers.pop(10).map(|timer| timer.slot)).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn leftovers_of_deleted_timers_are_dropped() {
    let mut timers = Timers::new();
    for time in 0..10_000 {
        timers.register(0, time, at(0));
        timers.delete(0, time);
        timers.tidy();
        assert!(timers.queue.len <= 1_025);
    }
    timers.register(0, 5, at(0));
    assert_eq!(timers.pop(i64::MAX).map(|timer| timer.time), Some(5));
}
