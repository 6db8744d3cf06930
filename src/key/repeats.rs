//! Keys that a list has more than once, found all at a time.
//!
//! To look up each key as it comes costs a cache miss or two, and most of an operator's time where nearly every row has a
//! key of its own. A whole list can be gone through in order instead, with a filter that fits the cache: what has met no
//! bit of its own in it is no repeat, and only keys of which some may be one are looked up.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::filter::Filter;
use super::slots::{Code, hash};

/// The slots of a list whose keys earlier slots have.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Repeats {
    /// Slots to be merged: the first of each pair takes in the second. In the order in which this is to be done.
    pub(crate) merges: Vec<(u32, u32)>,
    /// So many of them, the first ones, are within a part.
    pub(crate) within: usize,
    /// The second slots of all pairs, ascending.
    pub(crate) gone: Vec<u32>,
}

/// The slots of a key, in the part of the list that is gone through.
struct Known {
    code: Code,
    /// The first of all.
    first: u32,
    /// The first of the part.
    here: u32,
}

impl Repeats {
    /// Of a list that has one part behind the other, up to these ends. What the parts have is merged within each, in
    /// order, before parts are. `nulls` are slots of the null key, one a part at most.
    pub(crate) fn of(codes: &[Code], nulls: &[u32], ends: &[usize]) -> Repeats {
        let mut repeats = Repeats::default();
        let mut across = Vec::new();
        let candidates = candidates(codes, nulls);
        // most are two of a key
        let mut table: HashTable<Known> = HashTable::with_capacity(candidates.len() / 2);
        let mut ends = ends.iter().copied();
        let (mut start, mut end) = (0, ends.next().unwrap_or(codes.len()));
        for slot in candidates {
            while slot as usize >= end {
                start = end as u32;
                end = ends.next().unwrap_or(codes.len());
            }
            let code = codes[slot as usize];
            match table.entry(hash(code), |known| known.code == code, |known| hash(known.code)) {
                Entry::Vacant(vacant) => _ = vacant.insert(Known { code, first: slot, here: slot }),
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    if known.here >= start {
                        repeats.merges.push((known.here, slot));
                    } else {
                        across.push((known.first, slot));
                        known.here = slot;
                    }
                    repeats.gone.push(slot);
                }
            }
        }
        repeats.within = repeats.merges.len();
        repeats.merges.append(&mut across);
        if let [first, more @ ..] = nulls
            && !more.is_empty()
        {
            repeats.merges.extend(more.iter().map(|&slot| (*first, slot)));
            repeats.gone.extend(more);
            repeats.gone.sort_unstable();
        }
        repeats
    }

    /// How many of the slots before this one are gone.
    pub(crate) fn before(&self, slot: u32) -> u32 {
        self.gone.partition_point(|&gone| gone < slot) as u32
    }

    /// Takes the slots that are gone out of a column of a value a slot.
    pub(crate) fn take_out<T: Copy>(&self, values: &mut Vec<T>) {
        let Some(&first) = self.gone.first() else { return };
        let mut to = first as usize;
        let ends = self.gone[1..].iter().map(|&slot| slot as usize).chain([values.len()]);
        for (&gone, end) in self.gone.iter().zip(ends) {
            let kept = gone as usize + 1..end;
            let count = kept.len();
            values.copy_within(kept, to);
            to += count;
        }
        values.truncate(to);
    }
}

/// The slots of keys that may be listed more than once, ascending; those of the null key are not among them.
fn candidates(codes: &[Code], nulls: &[u32]) -> Vec<u32> {
    let mut seen = Filter::new(codes.len());
    let again = slots_where(codes, |code| seen.add(code));
    if again.is_empty() {
        return again;
    }
    seen.clear();
    let mut repeated = seen;
    again.iter().for_each(|&slot| _ = repeated.add(codes[slot as usize]));
    let mut found = slots_where(codes, |code| repeated.has(code));
    if !nulls.is_empty() {
        found.retain(|slot| !nulls.contains(slot));
    }
    found
}

/// The slots whose codes are so, found without a branch for each, which nobody could foresee.
#[inline]
fn slots_where(codes: &[Code], mut is_so: impl FnMut(Code) -> bool) -> Vec<u32> {
    const PIECE: usize = 1_024;
    let mut all = Vec::with_capacity(codes.len() / 8);
    let mut found = [0; PIECE];
    for (first, codes) in (0u32..).step_by(PIECE).zip(codes.chunks(PIECE)) {
        let mut count = 0;
        for (slot, &code) in (first..).zip(codes) {
            found[count % PIECE] = slot;
            count += usize::from(is_so(code));
        }
        all.extend_from_slice(&found[..count]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which slots have the same key, by comparing each with all before it. Values are lists of the slots that went in.
    fn by_definition(codes: &[Code], nulls: &[u32], ends: &[usize]) -> (Vec<Vec<u32>>, usize) {
        let key = |slot: usize| (!nulls.contains(&(slot as u32))).then(|| codes[slot]);
        let part = |slot: usize| ends.iter().filter(|&&end| end <= slot).count();
        // within each part first
        let mut lists: Vec<(usize, Vec<u32>)> = Vec::new();
        let mut within = 0;
        for slot in 0..codes.len() {
            let same = |&(first, _): &(usize, Vec<u32>)| key(first) == key(slot) && part(first) == part(slot);
            match lists.iter().position(same) {
                Some(known) => {
                    lists[known].1.push(slot as u32);
                    within += 1;
                }
                None => lists.push((slot, vec![slot as u32])),
            }
        }
        let mut all: Vec<(usize, Vec<u32>)> = Vec::new();
        for (slot, list) in lists {
            match all.iter().position(|&(first, _)| key(first) == key(slot)) {
                Some(known) => all[known].1.extend(list),
                None => all.push((slot, list)),
            }
        }
        (all.into_iter().map(|(_, list)| list).collect(), within)
    }

    fn check(codes: &[Code], nulls: &[u32], ends: &[usize]) {
        let repeats = Repeats::of(codes, nulls, ends);
        let mut lists: Vec<Vec<u32>> = (0..codes.len() as u32).map(|slot| vec![slot]).collect();
        for (number, &(into, from)) in repeats.merges.iter().enumerate() {
            let list = std::mem::take(&mut lists[from as usize]);
            let part = |slot: u32| ends.iter().filter(|&&end| end <= slot as usize).count();
            assert_eq!(part(into) == part(from), number < repeats.within);
            lists[into as usize].extend(list);
        }
        let gone: Vec<u32> =
            (0..codes.len() as u32).filter(|&slot| lists[slot as usize].is_empty()).collect();
        assert_eq!(repeats.gone, gone);
        let (expected, within) = by_definition(codes, nulls, ends);
        assert_eq!(repeats.within, within);
        for slot in 0..codes.len() as u32 {
            assert_eq!(repeats.before(slot) as usize, gone.iter().filter(|&&gone| gone < slot).count());
        }
        let mut firsts: Vec<u32> = (0..codes.len() as u32).collect();
        repeats.take_out(&mut firsts);
        assert!(firsts.iter().eq(expected.iter().map(|list| &list[0])));
        lists.retain(|list| !list.is_empty());
        assert_eq!(lists, expected);
    }

    #[test]
    fn keys_are_merged_within_parts_and_then_across_them() {
        check(&[], &[], &[]);
        check(&[7], &[], &[]);
        check(&[1, 2, 3], &[], &[]);
        check(&[5, 5, 5, 4, 5], &[], &[5]);
        check(&[5, 4, 5, 5, 4, 4, 3, 5, 5, 3], &[], &[3, 7, 10]);
        // a null's code is that of another key
        check(&[0, 1, 0, 0, 1, 0], &[2], &[]);
        check(&[0, 1, 0, 0, 1, 0, 2, 0], &[2, 3, 7], &[3, 6, 8]);
        check(&[0, 0, 0], &[0, 1, 2], &[1, 2, 3]);
        let spread = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for (len, period) in [(1_500, 1_400), (1_500, 40), (1_024, 2_000), (1_025, 1_024)] {
            let codes: Vec<Code> = (0..len).map(|slot| spread(slot * slot % period) >> 40 << 40).collect();
            check(&codes, &[], &[]);
            check(&codes, &[13, 700], &[100, 900, len as usize]);
        }
    }

    #[test]
    fn nothing_is_taken_out_of_a_list_without_repeats() {
        let mut values = vec![1, 2, 3];
        Repeats::default().take_out(&mut values);
        assert_eq!(values, [1, 2, 3]);
        Repeats { gone: vec![0, 2], ..Repeats::default() }.take_out(&mut values);
        assert_eq!(values, [2]);
    }
}
