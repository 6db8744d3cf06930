//! The keys of several tables as one list: those of the first, then those of the second that the first has not, and so on.
//!
//! No index of all of them is made. A key is looked up in the tables before its own, whose indexes are there, and since nothing
//! is written meanwhile, ranges of keys are looked up side by side. The indexes of large tables are no longer in the cache when
//! this is done, so a filter, which fits there, first says of most keys that are in none of the tables that they are not.

use std::ops::Range;

use super::filter::Filter;
use super::slots::{Code, EMPTY, Slots};
use crate::workers::Workers;

/// Keys that one worker looks up at a time.
const RANGE: usize = if cfg!(test) { 100 } else { 8_192 };

/// Fewer keys than this are looked up without a filter.
const WORTH_FILTERING: usize = if cfg!(test) { 400 } else { 16_384 };

/// What becomes of the slots of several tables.
#[derive(Debug)]
pub(crate) struct Union {
    /// For each table but the first: the slot in the list of each of its keys.
    pub(crate) slots: Vec<Vec<u32>>,
    /// The codes in the list behind those of the first table.
    pub(crate) added: Vec<Code>,
    /// The slot of the null key in the list.
    pub(crate) null_slot: Option<u32>,
}

impl Union {
    /// Of tables of which `first` comes before `rest`.
    pub(crate) fn of(first: &Slots, rest: &[&Slots], workers: &Workers) -> Self {
        let more = rest.iter().map(|part| part.len()).sum();
        let mut union =
            Union { slots: Vec::new(), added: Vec::with_capacity(more), null_slot: first.null_slot() };
        let keys = first.len() + more;
        let mut filter = (keys >= WORTH_FILTERING).then(|| Filter::new(keys));
        filter.iter_mut().for_each(|filter| filter.add_all(first.codes()));
        for (number, part) in rest.iter().enumerate() {
            let ranges = (0..part.len()).step_by(RANGE).map(|from| from..part.len().min(from + RANGE));
            let slots = workers.map(&ranges.collect::<Vec<_>>(), |range| {
                let mut slots = Lookup::new(part, range.clone(), filter.as_ref());
                slots.look_in(first, |slot| slot);
                for (before, of_union) in rest[..number].iter().zip(&union.slots) {
                    slots.look_in(before, |slot| of_union[slot as usize]);
                }
                slots.found
            });
            union.add(part, first.len(), slots.concat());
            filter.iter_mut().for_each(|filter| filter.add_all(part.codes()));
        }
        union
    }

    /// Gives slots to the keys of `part` that have none.
    fn add(&mut self, part: &Slots, first: usize, mut slots: Vec<u32>) {
        for ((own, slot), &code) in (0u32..).zip(&mut slots).zip(part.codes()) {
            if *slot == EMPTY {
                *slot = (first + self.added.len()) as u32;
                self.added.push(code);
                if part.null_slot() == Some(own) {
                    self.null_slot = Some(*slot);
                }
            }
        }
        self.slots.push(slots);
    }
}

/// A search for a range of the keys of one table in others.
struct Lookup<'a> {
    of: &'a Slots,
    range: Range<usize>,
    /// The slot of each key of the range, [`EMPTY`] as long as it has not been found.
    found: Vec<u32>,
    /// The keys that are still to be found, by their place in the range.
    left: Vec<u32>,
}

impl<'a> Lookup<'a> {
    fn new(of: &'a Slots, range: Range<usize>, filter: Option<&Filter>) -> Self {
        let codes = &of.codes()[range.clone()];
        let found = vec![EMPTY; codes.len()];
        let mut left: Vec<u32> = (0..codes.len() as u32).collect();
        if let Some(filter) = filter {
            left.retain(|&place| filter.has(codes[place as usize]));
        }
        Lookup { of, range, found, left }
    }

    /// Finds those of the keys that `table` has; `slot` makes a slot of the list out of one of the table.
    fn look_in(&mut self, table: &Slots, slot: impl Fn(u32) -> u32) {
        let (codes, start) = (&self.of.codes()[self.range.clone()], self.range.start);
        let null = self.of.null_slot().map(|slot| (slot as usize).wrapping_sub(start) as u32);
        let found = &mut self.found;
        self.left.retain(|&place| match table.find(codes[place as usize], null == Some(place)) {
            Some(known) => {
                found[place as usize] = slot(known);
                false
            }
            None => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(codes: &[Code], null: Option<usize>) -> Slots {
        let mut slots = Slots::default();
        for (place, &code) in codes.iter().enumerate() {
            slots.get_or_insert(code, null == Some(place));
        }
        slots
    }

    /// What the keys come to, one after the other.
    fn by_definition(parts: &[&Slots]) -> (Slots, Vec<Vec<u32>>) {
        let mut all = Slots::default();
        let slots = parts.iter().map(|part| {
            let keys = (0u32..).zip(part.codes());
            keys.map(|(slot, &code)| all.get_or_insert(code, part.null_slot() == Some(slot))).collect()
        });
        let slots = slots.collect();
        (all, slots)
    }

    fn check(parts: &[Slots]) {
        let parts: Vec<&Slots> = parts.iter().collect();
        let (all, slots) = by_definition(&parts);
        for threads in [1, 3] {
            let union = Union::of(parts[0], &parts[1..], &Workers::new(threads).unwrap());
            assert_eq!(union.slots, slots[1..]);
            assert_eq!(union.null_slot, all.null_slot());
            let mut first = parts[0].clone();
            first.append(&union.added, union.null_slot);
            assert_eq!(first.codes(), all.codes());
            first.validate();
        }
    }

    #[test]
    fn keys_are_listed_once_in_order_of_table_and_slot() {
        let near = |from: u64, to: u64| (from..to).collect::<Vec<Code>>();
        let far = |from, to| {
            near(from, to).iter().map(|c| c.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect::<Vec<_>>()
        };
        check(&[table(&near(0, 10), None)]);
        for spread in [&near as &dyn Fn(u64, u64) -> Vec<Code>, &far] {
            check(&[table(&spread(0, 1), None), table(&spread(0, 1), None)]);
            check(&[
                table(&spread(0, 500), None),
                table(&spread(250, 750), None),
                table(&spread(600, 1_100), None),
            ]);
            check(&[
                table(&spread(0, 300), None),
                table(&spread(300, 600), Some(250)),
                table(&spread(0, 900), Some(7)),
            ]);
            check(&[
                table(&spread(5, 300), Some(0)),
                table(&spread(0, 5), Some(4)),
                table(&spread(0, 6), None),
            ]);
            check(&[
                table(&near(0, 300), None),
                table(&spread(0, 300), None),
                table(&far(0, 300), Some(299)),
            ]);
        }
    }
}
