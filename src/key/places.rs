//! Keys whose codes lie close together, at places that follow from their codes.
//!
//! To find the slot of a key takes a look into memory; the place of a code is its distance from the lowest, which costs
//! a vector of keys next to nothing. A slice whose keys fill most of the range that they span has its accumulators at
//! these places while it takes in many rows.

use super::slots::{Key, range};
use super::{Code, Keys, Slots};
use crate::block::{BLOCK, Block, bits};
use crate::scan::distances;

/// What so many codes may span: the places that stay empty are accumulators that nobody needs.
fn longest_span(codes: usize) -> u64 {
    (codes + codes / 2) as u64
}

/// A block that lacks no more rows than this may be worked off as if it lacked none.
const LACKING: u32 = 24;

/// Where the accumulators of a slice are, if not at the slots of their keys.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The lowest code, whose place is 1.
    low: Code,
    /// Whether the key of each place has a slot. Place 0 is for rows that are not meant, and counts as known.
    known: Vec<bool>,
    /// How many places are not known.
    unknown: usize,
}

impl Places {
    /// For the keys of a slice, and all between them, if they fill most of what they span; the null key has no place.
    pub(crate) fn of(slots: &Slots) -> Option<Places> {
        let (low, high) = range(slots.codes(), slots.null_slot())?;
        let span = (high.wrapping_sub(low) as u64).saturating_add(1);
        if slots.null_slot().is_some() || span > longest_span(slots.len()) {
            return None;
        }
        let unknown = span as usize - slots.len();
        let mut places = Places { low: low as Code, known: vec![false; span as usize + 1], unknown };
        places.known[0] = true;
        for &code in slots.codes() {
            let place = places.of_code(code);
            places.known[place as usize] = true;
        }
        Some(places)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// The place of a code, if it has one; else any number.
    pub(crate) fn of_code(&self, code: Code) -> u32 {
        (code.wrapping_sub(self.low) as u32).wrapping_add(1)
    }

    /// The places of the rows of blocks, behind those in `found`, up to the first block with a key that has none; keys that are
    /// new get the next slots. `keys` has those of the rows from `first` on. If it is allowed to `waste`, a block that is nearly
    /// whole is taken for a whole one, with the rows that it lacked at place 0. What it takes the blocks for is put into `taken`.
    pub(crate) fn assign(
        &mut self,
        slots: &mut Slots,
        (keys, first): (&Keys<'_>, usize),
        blocks: &[Block],
        waste: bool,
        (taken, found): (&mut Vec<Block>, &mut Vec<u32>),
    ) {
        for &block in blocks {
            let (from, before) = (block.start - first, found.len());
            let block = match keys {
                Keys::Int32(keys) => self.find(&keys[from..], block, waste, found),
                Keys::Int64(keys) => self.find(&keys[from..], block, waste, found),
                Keys::Codes(codes) if codes.nulls().is_none() => {
                    self.find(&codes.codes[from..], block, waste, found)
                }
                Keys::Codes(_) | Keys::One => None,
            };
            let Some(block) = block else {
                found.truncate(before);
                return;
            };
            if self.unknown > 0 {
                self.give_slots(&found[before..], slots);
            }
            taken.push(block);
        }
    }

    #[inline]
    fn find<K: Key>(&self, keys: &[K], block: Block, waste: bool, found: &mut Vec<u32>) -> Option<Block> {
        let (before, span) = (found.len(), self.known.len() as u64 - 1);
        let lacking = block.rows.count_zeros();
        if let Some(keys) = keys.first_chunk::<BLOCK>()
            && (lacking == 0 || waste && lacking <= LACKING)
        {
            found.resize(before + BLOCK, 0);
            let places = found[before..].first_chunk_mut().expect("it has just been made so long");
            return distances(keys, block.rows, self.low, span, places)
                .then_some(Block { rows: u64::MAX, ..block });
        }
        found.extend(bits(block.rows).map(|row| self.of_code(keys[row].code())));
        let is_near = |row: usize| keys[row].code().wrapping_sub(self.low) < span;
        bits(block.rows).all(is_near).then_some(block)
    }

    /// Gives slots to keys that are new, in the order of these places.
    fn give_slots(&mut self, places: &[u32], slots: &mut Slots) {
        let known = self.known.as_mut_slice();
        if places.iter().fold(true, |all, &place| all & known[place as usize]) {
            return;
        }
        for &place in places {
            if !std::mem::replace(&mut known[place as usize], true) {
                self.unknown -= 1;
                slots.append(&[self.low.wrapping_add(Code::from(place) - 1)], None);
            }
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.known.capacity()
    }

    /// Panics unless they are those of these slots.
    pub(crate) fn validate(&self, slots: &Slots) {
        let mut known = vec![false; self.len()];
        known[0] = true;
        slots.codes().iter().for_each(|&code| known[self.of_code(code) as usize] = true);
        assert_eq!((&self.known, slots.null_slot()), (&known, None), "known places");
        assert_eq!(self.unknown, known.iter().filter(|known| !**known).count(), "unknown places");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Codes;

    fn slots_of(codes: &[i64]) -> Slots {
        let mut slots = Slots::default();
        codes.iter().for_each(|&code| _ = slots.get_or_insert(code as Code, false));
        slots
    }

    #[test]
    fn keys_have_places_if_they_fill_what_they_span() {
        let len = |codes: &[i64]| Places::of(&slots_of(codes)).map(|places| places.len());
        assert_eq!(len(&[]), None);
        assert_eq!(len(&[i64::MIN]), Some(2));
        // a range of five with three keys is too long, with four it is not; one place is no key's
        assert_eq!(len(&[4, 0, 2]), None);
        assert_eq!(len(&[4, 0, 2, 1]), Some(6));
        assert_eq!(len(&[-1, 1, 0]), Some(4));
        assert_eq!(len(&[i64::MIN, i64::MAX]), None);
        let mut null = slots_of(&[1, 2]);
        null.get_or_insert(0, true);
        assert!(Places::of(&null).is_none());
    }

    #[test]
    fn places_are_distances_and_new_keys_get_slots_in_order() {
        let mut slots = slots_of(&[-7, -2, -3, -4]);
        let mut places = Places::of(&slots).unwrap();
        places.validate(&slots);
        // 100 keys in -7..=-2, from a row on that is not the first of its batch
        let keys: Vec<i64> = (0..100).map(|row| -2 - row * row % 6).collect();
        let all = Block { start: 1_000, rows: u64::MAX };
        for (rows, lacking, becomes) in [
            (u64::MAX, 0, u64::MAX),
            (!(1 << 63 | 0b101), 3, u64::MAX),
            (u64::MAX << 24, 24, u64::MAX),
            (u64::MAX << 25, 25, u64::MAX << 25),
        ] {
            assert_eq!(rows.count_zeros(), lacking);
            let (mut taken, mut found) = (vec![], vec![]);
            let blocks = [Block { rows, ..all }, Block { start: 1_064, rows: 0b1001 }];
            places.assign(&mut slots, (&Keys::Int64(&keys), 1_000), &blocks, true, (&mut taken, &mut found));
            assert_eq!(taken, [Block { rows: becomes, ..all }, blocks[1]]);
            let place = |row: usize| (keys[row] + 8) as u32;
            let first = (0..64).filter(|row| becomes >> row & 1 == 1);
            let first = first.map(|row| if rows >> row & 1 == 1 { place(row) } else { 0 });
            assert_eq!(found, first.chain([place(64), place(67)]).collect::<Vec<_>>());
            places.validate(&slots);
        }
        // -2 - row^2 mod 6 is -2, -3, -6, -5, ...: -6 and -5 are new, in this order, and no square is 2 or 5 modulo 6
        let signed: Vec<i64> = slots.codes().iter().map(|&code| code as i64).collect();
        assert_eq!(signed, [-7, -2, -3, -4, -6, -5]);
    }

    #[test]
    fn what_has_no_place_ends_it() {
        let mut slots = slots_of(&[10, 11, 12]);
        let mut places = Places::of(&slots).unwrap();
        let mut keys = vec![11; 200];
        let blocks = Block::cover(0..200);
        for (row, key) in [(70, 9), (70, 13), (199, i64::MIN), (199, i64::MAX), (0, -1)] {
            keys[row] = key;
            let (mut taken, mut found) = (vec![], vec![]);
            places.assign(&mut slots, (&Keys::Int64(&keys), 0), &blocks, true, (&mut taken, &mut found));
            assert_eq!((taken.as_slice(), found), (&blocks[..row / 64], vec![2; row / 64 * 64]), "{key}");
            keys[row] = 11;
        }
        // and null, though its code is one that has a place
        let codes = Codes { codes: vec![11, 11], nulls: vec![false, true], any_null: true };
        let (mut taken, mut found) = (vec![], vec![]);
        let block = [Block { start: 0, rows: 0b11 }];
        places.assign(&mut slots, (&Keys::Codes(&codes), 0), &block, true, (&mut taken, &mut found));
        assert!(taken.is_empty() && found.is_empty());
    }
}
