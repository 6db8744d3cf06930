//! Key codes to dense slots, within one slice.
//!
//! Slots are given in the order in which keys appear in the slice, so the order of a window's results is a function of
//! its rows. How codes are looked up is not visible: a small range of codes is a plain array, anything else a hash
//! table (of 5 bytes a slot, so that the table of a slice with 100,000 keys stays in the cache of a core).

use std::sync::OnceLock;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::{Codes, Keys, Repeats};
use crate::block::{BLOCK, Block, bits};
use crate::scan;
use crate::snapshot::Checked;

/// A row's key as a number: the value itself for narrow columns, an interned number for all others.
pub(crate) type Code = u64;

/// What a code can be read from as it is looked up.
pub(crate) trait Key: Copy {
    fn code(self) -> Code;
}

impl Key for Code {
    fn code(self) -> Code {
        self
    }
}

impl Key for i32 {
    fn code(self) -> Code {
        self as i64 as Code
    }
}

impl Key for i64 {
    fn code(self) -> Code {
        self as Code
    }
}

/// The most slots that one slice can have.
pub(crate) const MAX_SLOTS: usize = i32::MAX as usize;

/// No slot: the only one with the highest bit.
pub(super) const EMPTY: u32 = u32::MAX;
/// Codes that span no more than this are looked up in an array, however few they are.
const SMALL_SPAN: u64 = 4_096;
/// Codes may span this many times their number for an array, which has half as many entries again.
const SPAN_PER_KEY: u64 = 4;
/// With so many keys in a hash table it is asked for the first time whether they have come to lie close together.
const FIRST_LOOK: usize = 1_024;

/// The keys of one slice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    /// The code of each slot; zero for the null key.
    codes: Vec<Code>,
    null_slot: Option<u32>,
    /// Made when a key is first looked up: most tables that several are merged into only fire.
    index: OnceLock<Index>,
    /// The number of keys for which it was last asked whether an array would do.
    looked_at: usize,
}

#[derive(Clone, Debug)]
enum Index {
    Array(Array),
    /// Slots by the hash of their code.
    Hash(HashTable<u32>),
}

/// Slots of codes that lie close together.
#[derive(Clone, Debug)]
struct Array {
    /// Code `code` is at `code - base`.
    base: Code,
    slots: Vec<u32>,
    /// The lowest and the highest code that has a slot. Codes of signed columns are sign-extended, so their order is that of i64.
    low: i64,
    high: i64,
}

/// Folded multiply (as in foldhash and wyhash): the high bits of the result depend on all bits of the code.
#[inline(always)]
pub(crate) fn hash(code: Code) -> u64 {
    let wide = (code ^ 0x243f_6a88_85a3_08d3) as u128 * 0x9e37_79b9_7f4a_7c15_u128;
    (wide as u64) ^ (wide >> 64) as u64
}

impl Slots {
    pub(crate) fn len(&self) -> usize {
        self.codes.len()
    }

    /// How many keys can be had without asking for more memory.
    pub(crate) fn room(&self) -> usize {
        self.codes.capacity()
    }

    pub(crate) fn codes(&self) -> &[Code] {
        &self.codes
    }

    pub(crate) fn null_slot(&self) -> Option<u32> {
        self.null_slot
    }

    /// An empty table that expects keys like those of `other`.
    pub(crate) fn like(other: &Slots) -> Slots {
        let index = match other.index() {
            // one that was made for more keys than there are now
            Index::Array(array) if array.slots.len() as u64 > 2 * longest_span(other.len()) => {
                return Slots::default();
            }
            Index::Array(array) => Index::Array(array.like()),
            Index::Hash(table) => Index::Hash(HashTable::with_capacity(table.capacity())),
        };
        let codes = Vec::with_capacity(other.codes.len());
        Slots { codes, null_slot: None, index: index.into(), looked_at: other.looked_at }
    }

    /// Forgets all keys, and keeps the room for them.
    pub(crate) fn clear(&mut self) {
        self.codes.clear();
        self.null_slot = None;
        match self.index.get_mut() {
            Some(Index::Array(array)) => array.clear(),
            Some(Index::Hash(table)) => table.clear(),
            None => {}
        }
    }

    /// Makes the index, for keys that are sure to be looked up: a copy of the table then has it too.
    pub(crate) fn make_index(&self) {
        self.index();
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::of(&self.codes, self.null_slot))
    }

    /// The index, beside the codes that belong to it.
    fn parts(&mut self) -> (&mut Index, &mut Vec<Code>) {
        self.index();
        (self.index.get_mut().expect("it has just been made"), &mut self.codes)
    }

    /// The slots of rows, one for each row of `blocks`; keys that are new get new slots. `keys` has those of the rows from
    /// `first` on.
    pub(crate) fn assign(
        &mut self,
        (keys, first): (&Keys<'_>, usize),
        blocks: &[Block],
        slots: &mut Vec<u32>,
    ) {
        slots.clear();
        self.look_again();
        match keys {
            Keys::One => {
                self.find(0, false).unwrap_or_else(|| self.insert(0));
                slots.resize(blocks.iter().map(Block::len).sum(), 0);
            }
            Keys::Int32(keys) => self.assign_blocks::<_, false>((keys, &[]), first, blocks, slots),
            Keys::Int64(keys) => self.assign_blocks::<_, false>((keys, &[]), first, blocks, slots),
            Keys::Codes(Codes { codes, nulls, any_null }) => match any_null {
                false => self.assign_blocks::<_, false>((codes, &[]), first, blocks, slots),
                true => self.assign_blocks::<_, true>((codes, nulls), first, blocks, slots),
            },
        }
    }

    /// `nulls` says of each key whether it is null, if there are `NULLS`.
    fn assign_blocks<K: Key, const NULLS: bool>(
        &mut self,
        (keys, nulls): (&[K], &[bool]),
        first: usize,
        blocks: &[Block],
        slots: &mut Vec<u32>,
    ) {
        for block in blocks {
            let keys = &keys[block.start - first..];
            let is_null = |row: usize| NULLS && nulls[block.start - first + row];
            let null_slot = self.null_slot.unwrap_or(EMPTY);
            match self.parts() {
                (Index::Array(array), _) => {
                    let before = slots.len();
                    find_in_array(array, keys, block.rows, slots);
                    let found = &mut slots[before..];
                    if NULLS {
                        // what was found for a null is another key's
                        for (slot, row) in found.iter_mut().zip(bits(block.rows)) {
                            *slot = if is_null(row) { null_slot } else { *slot };
                        }
                    }
                    // new keys are rare: one look at all slots is cheaper than one branch a row
                    if found.iter().fold(0, |all, &slot| all | slot) == EMPTY {
                        for (slot, row) in found.iter_mut().zip(bits(block.rows)) {
                            if *slot == EMPTY {
                                *slot = self.get_or_insert(keys[row].code(), is_null(row));
                            }
                        }
                    }
                }
                (Index::Hash(table), codes) if !NULLS => {
                    slots.extend(bits(block.rows).map(|row| find_or_insert(table, codes, keys[row].code())));
                }
                (Index::Hash(_), _) => {
                    let rows = bits(block.rows);
                    slots.extend(rows.map(|row| self.get_or_insert(keys[row].code(), is_null(row))));
                }
            }
        }
    }

    /// As [`assign`](Slots::assign), but every row gets a slot of its own, whether its key is new or not; only the null key has
    /// one slot. Nothing can be found until [`fold`](Slots::fold) has been called.
    pub(crate) fn push_rows(
        &mut self,
        (keys, first): (&Keys<'_>, usize),
        blocks: &[Block],
        slots: &mut Vec<u32>,
    ) {
        self.forget_index();
        slots.clear();
        let before = self.codes.len() as u32;
        let len = self.codes.len() + blocks.iter().map(Block::len).sum::<usize>();
        if len > self.codes.capacity() {
            // as accumulators grow, for there are as many
            self.codes.reserve_exact(len + len / 4 - self.codes.len());
        }
        match keys {
            Keys::One => self.codes.resize(len, 0),
            Keys::Int32(keys) => self.push_codes(keys, first, blocks),
            Keys::Int64(keys) => self.push_codes(keys, first, blocks),
            Keys::Codes(keys) if keys.nulls().is_none() => self.push_codes(&keys.codes, first, blocks),
            Keys::Codes(keys) => {
                for row in blocks.iter().flat_map(Block::iter) {
                    let (code, null) = keys.get(row - first);
                    let next = self.codes.len() as u32;
                    let slot = if null { *self.null_slot.get_or_insert(next) } else { next };
                    if slot == next {
                        self.codes.push(if null { 0 } else { code });
                    }
                    slots.push(slot);
                }
                return;
            }
        }
        slots.extend(before..self.codes.len() as u32);
    }

    fn push_codes<K: Key>(&mut self, keys: &[K], first: usize, blocks: &[Block]) {
        for block in blocks {
            let keys = &keys[block.start - first..];
            if let Some(keys) = keys.first_chunk::<BLOCK>().filter(|_| block.rows == u64::MAX) {
                self.codes.extend(keys.iter().map(|key| key.code()));
                continue;
            }
            let before = self.codes.len();
            self.codes.resize(before + block.len(), 0);
            let rows = bits(block.rows);
            self.codes[before..].iter_mut().zip(rows).for_each(|(code, row)| *code = keys[row].code());
        }
    }

    /// The slots of keys that have an earlier one, after rows have been [pushed](Slots::push_rows).
    pub(crate) fn repeats(&self) -> Repeats {
        Repeats::of(&self.codes, self.null_slot.as_slice(), &[])
    }

    /// Takes out the slots that are gone.
    pub(crate) fn fold(&mut self, repeats: &Repeats) {
        self.forget_index();
        self.null_slot = self.null_slot.map(|slot| slot - repeats.before(slot));
        repeats.take_out(&mut self.codes);
    }

    /// The slots of all keys of `other`, in its order; keys that are new get new slots.
    pub(crate) fn assign_all(&mut self, other: &Slots) -> Vec<u32> {
        if other.null_slot.is_none()
            && let (Index::Hash(table), codes) = self.parts()
        {
            table.reserve(other.len(), |&slot| hash(codes[slot as usize]));
            return other.codes.iter().map(|&code| find_or_insert(table, codes, code)).collect();
        }
        let is_null = |slot| other.null_slot == Some(slot);
        (0u32..).zip(&other.codes).map(|(slot, &code)| self.get_or_insert(code, is_null(slot))).collect()
    }

    /// Slots for these keys in this order; each must be another.
    pub(crate) fn restore(codes: &Codes) -> Checked<Slots> {
        let mut slots = Slots::default();
        for row in 0..codes.codes.len() {
            let (code, null) = codes.get(row);
            if slots.get_or_insert(code, null) as usize != row {
                return Err(format!("the key of slot {row} is that of an earlier one"));
            }
        }
        Ok(slots)
    }

    /// The slot of one key, made if it is new.
    pub(crate) fn get_or_insert(&mut self, code: Code, null: bool) -> u32 {
        if null {
            let next = self.codes.len() as u32;
            let slot = *self.null_slot.get_or_insert(next);
            if slot == next {
                self.codes.push(0);
            }
            return slot;
        }
        self.find(code, false).unwrap_or_else(|| self.insert(code))
    }

    /// The slot of a key, if the slice has it.
    pub(crate) fn find(&self, code: Code, null: bool) -> Option<u32> {
        if null {
            return self.null_slot;
        }
        match self.index() {
            Index::Array(array) => array.get(code),
            Index::Hash(table) => table.find(hash(code), |&slot| self.codes[slot as usize] == code).copied(),
        }
    }

    /// Puts keys behind the own ones, of which none is among them; `null_slot` is that of the null key among all.
    pub(crate) fn append(&mut self, codes: &[Code], null_slot: Option<u32>) {
        self.codes.extend_from_slice(codes);
        self.null_slot = null_slot;
        self.forget_index();
    }

    /// Gives the memory of the index back, until a key is looked up again.
    pub(crate) fn forget_index(&mut self) {
        self.index = OnceLock::new();
    }

    /// Gives a new code the next slot.
    fn insert(&mut self, code: Code) -> u32 {
        let (index, codes) = self.parts();
        let slot = codes.len() as u32;
        codes.push(code);
        match index {
            Index::Array(array) => {
                if !array.insert(code, slot, codes.len()) {
                    self.index = Index::of(&self.codes, self.null_slot).into();
                }
            }
            Index::Hash(table) => {
                table.insert_unique(hash(code), slot, |&slot| hash(codes[slot as usize]));
            }
        }
        slot
    }

    /// Replaces every code by `renamed[code]`, for codes that are interned numbers.
    pub(crate) fn rename(&mut self, renamed: &[u32]) {
        for (slot, code) in (0u32..).zip(&mut self.codes) {
            if self.null_slot != Some(slot) {
                *code = renamed[*code as usize] as u64;
            }
        }
        self.forget_index();
    }

    /// Goes over to an array if the codes have come to lie close together. They seldom do from the start, if there are many.
    /// It is asked whenever there are twice as many.
    fn look_again(&mut self) {
        if self.len() < FIRST_LOOK.max(2 * self.looked_at) {
            return;
        }
        self.looked_at = self.len();
        if matches!(self.index(), Index::Hash(_))
            && let Some(array) = Array::of(&self.codes, self.null_slot)
        {
            self.index = Index::Array(array).into();
        }
    }

    /// Marks the codes that some slot has, where they are numbers of an interner.
    pub(crate) fn mark(&self, used: &mut [bool]) {
        for (slot, &code) in (0u32..).zip(&self.codes) {
            if self.null_slot != Some(slot) {
                used[code as usize] = true;
            }
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.codes.capacity() * size_of::<Code>()
            + match self.index.get() {
                Some(Index::Array(array)) => array.slots.capacity() * size_of::<u32>(),
                Some(Index::Hash(table)) => table.allocation_size(),
                None => 0,
            }
    }

    /// Panics unless every code is found at its slot.
    pub(crate) fn validate(&self) {
        for (slot, &code) in (0u32..).zip(&self.codes) {
            let null = self.null_slot == Some(slot);
            assert_eq!(self.find(code, null), Some(slot), "slot of code {code}, null {null}");
        }
    }
}

/// What so many codes may span for an array.
fn longest_span(codes: usize) -> u64 {
    SMALL_SPAN.max(SPAN_PER_KEY * codes as u64)
}

impl Index {
    /// With room for more keys.
    fn of(codes: &[Code], null_slot: Option<u32>) -> Self {
        if let Some(array) = Array::of(codes, null_slot) {
            return Index::Array(array);
        }
        let mut table = HashTable::with_capacity(2 * codes.len());
        for (slot, code) in real(codes, null_slot) {
            table.insert_unique(hash(code), slot, |&slot| hash(codes[slot as usize]));
        }
        Index::Hash(table)
    }
}

/// The codes of all slots but the null key's.
fn real(codes: &[Code], null_slot: Option<u32>) -> impl Iterator<Item = (u32, Code)> {
    (0u32..).zip(codes.iter().copied()).filter(move |&(slot, _)| Some(slot) != null_slot)
}

/// The lowest and the highest of these codes but the null key's, if there are any.
pub(super) fn range(codes: &[Code], null_slot: Option<u32>) -> Option<(i64, i64)> {
    let (before, after) = match null_slot {
        Some(slot) => (&codes[..slot as usize], &codes[slot as usize + 1..]),
        None => (codes, &[] as _),
    };
    let (before, after) = (scan::range(before), scan::range(after));
    let (low, high) = (before.0.min(after.0), before.1.max(after.1));
    (low <= high).then_some((low, high))
}

impl Array {
    const EMPTY: Array = Array { base: 0, slots: Vec::new(), low: i64::MAX, high: i64::MIN };

    /// Of all these codes, if they lie close together.
    fn of(codes: &[Code], null_slot: Option<u32>) -> Option<Array> {
        let mut array = Array::EMPTY;
        let Some((low, high)) = range(codes, null_slot) else { return Some(array) };
        if !array.stretch(low, high, codes.len()) {
            return None;
        }
        for (slot, code) in real(codes, null_slot) {
            array.slots[code.wrapping_sub(array.base) as usize] = slot;
        }
        Some(array)
    }

    /// An empty one with as much room at the same place.
    fn like(&self) -> Array {
        Array { base: self.base, slots: vec![EMPTY; self.slots.len()], ..Array::EMPTY }
    }

    fn clear(&mut self) {
        self.slots.fill(EMPTY);
        (self.low, self.high) = (i64::MAX, i64::MIN);
    }

    fn get(&self, code: Code) -> Option<u32> {
        self.slots.get(code.wrapping_sub(self.base) as usize).copied().filter(|&slot| slot != EMPTY)
    }

    /// Takes in a code, the last of so many; returns false if they are too far apart then.
    fn insert(&mut self, code: Code, slot: u32, codes: usize) -> bool {
        let (low, high) = (self.low.min(code as i64), self.high.max(code as i64));
        let is_there = (code.wrapping_sub(self.base) as usize) < self.slots.len();
        if !is_there && !self.stretch(low, high, codes) {
            return false;
        }
        (self.low, self.high) = (low, high);
        self.slots[code.wrapping_sub(self.base) as usize] = slot;
        true
    }

    /// Makes room from `low` to `high`, within which its codes are, unless that is too much for so many. There is spare room above,
    /// and below if it has grown there; if not, what there is stays, up to that. So a growing range is moved a logarithmic number
    /// of times.
    fn stretch(&mut self, low: i64, high: i64, codes: usize) -> bool {
        let span = high.wrapping_sub(low) as u64;
        if span >= longest_span(codes) {
            return false;
        }
        let spare = (span / 4).max(16);
        let spare_below = (self.low as Code).wrapping_sub(self.base).min(spare);
        let below = if low < self.low { spare } else { spare_below };
        let base = (low as Code).wrapping_sub(below);
        let mut slots = vec![EMPTY; (below + span + 1 + spare) as usize];
        if self.low <= self.high {
            let place = |code: i64, base: Code| (code as Code).wrapping_sub(base) as usize;
            let known = &self.slots[place(self.low, self.base)..=place(self.high, self.base)];
            slots[place(self.low, base)..][..known.len()].copy_from_slice(known);
        }
        (self.base, self.slots, self.low, self.high) = (base, slots, low, high);
        true
    }
}

/// The slots of rows, [`EMPTY`] for keys that are not in the array.
#[inline]
fn find_in_array<K: Key>(array: &Array, keys: &[K], rows: u64, slots: &mut Vec<u32>) {
    let (base, table) = (array.base, array.slots.as_slice());
    let find = |key: K| table.get(key.code().wrapping_sub(base) as usize).copied().unwrap_or(EMPTY);
    match keys.first_chunk::<BLOCK>() {
        Some(keys) if rows == u64::MAX => slots.extend(keys.iter().map(|&key| find(key))),
        _ => slots.extend(bits(rows).map(|row| find(keys[row]))),
    }
}

/// The slot of a code, the next one if it is new.
#[inline]
fn find_or_insert(table: &mut HashTable<u32>, codes: &mut Vec<Code>, code: Code) -> u32 {
    let known = |&slot: &u32| codes[slot as usize] == code;
    match table.entry(hash(code), known, |&slot| hash(codes[slot as usize])) {
        Entry::Occupied(known) => *known.get(),
        Entry::Vacant(vacant) => {
            let slot = codes.len() as u32;
            vacant.insert(slot);
            codes.push(code);
            slot
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assign(slots: &mut Slots, codes: &[Code]) -> Vec<u32> {
        let mut out = vec![];
        let codes = Codes { codes: codes.to_vec(), ..Codes::default() };
        slots.assign((&Keys::Codes(&codes), 0), &Block::cover(0..codes.codes.len()), &mut out);
        out
    }

    /// The codes in order of appearance, and the slots by the definition: a new code gets the next one.
    fn by_definition(codes: &[Code]) -> (Vec<Code>, Vec<u32>) {
        let mut seen: Vec<Code> = vec![];
        let slot = |code: &Code| {
            seen.iter().position(|c| c == code).unwrap_or_else(|| {
                seen.push(*code);
                seen.len() - 1
            }) as u32
        };
        let slots = codes.iter().map(slot).collect();
        (seen, slots)
    }

    fn check(codes: &[Code]) {
        let (seen, expected) = by_definition(codes);
        for cut in [codes.len(), 1, 7] {
            let mut slots = Slots::default();
            let got: Vec<u32> = codes.chunks(cut.max(1)).flat_map(|c| assign(&mut slots, c)).collect();
            assert_eq!(got, expected);
            slots.validate();
            assert_eq!(slots.codes(), seen);
            slots.clear();
            assert_eq!((slots.len(), slots.null_slot()), (0, None));
            slots.validate();
            let backward: Vec<Code> = codes.iter().rev().copied().collect();
            assert_eq!(assign(&mut slots, &backward), by_definition(&backward).1);
            let mut like = Slots::like(&slots);
            assert_eq!(like.len(), 0);
            assert_eq!(assign(&mut like, codes), expected);
        }
    }

    #[test]
    fn slots_are_given_in_order_of_appearance() {
        check(&[]);
        check(&[5, 5, 3, 5, 4, 3]);
        check(&[(-3i64) as u64, 2, (-1i64) as u64, 0, (-3i64) as u64]);
        check(&[u64::MAX, 0, i64::MAX as u64, i64::MIN as u64, 1, u64::MAX]);
        check(&(0..5_000).map(|i| i * i % 4_999).collect::<Vec<_>>());
        check(
            &(0..5_000u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 3_000) << 40).collect::<Vec<_>>(),
        );
        check(&(0..5_000).map(|i| i % 977).collect::<Vec<_>>());
        // ranges that grow: upwards, downwards, both ways in turn, and across what is highest if read without a sign
        check(&(1_000..6_000).collect::<Vec<_>>());
        check(&(1_000..6_000).rev().collect::<Vec<_>>());
        check(&(0..2_500).flat_map(|i| [i, u64::MAX - i]).collect::<Vec<_>>());
        // ends of what is highest and lowest with one
        check(&(0..500).map(|i| i64::MAX as u64 - i).collect::<Vec<_>>());
        check(&(0..500).map(|i| i64::MIN as u64 + i).collect::<Vec<_>>());
    }

    #[test]
    fn codes_that_come_to_lie_close_together_get_an_array() {
        // a prime, so that multiples of another number leap over all codes below it
        let codes: Vec<Code> = (0..20_011).map(|i| i * 7_919 % 20_011).collect();
        let is_array = |slots: &Slots| matches!(slots.index(), Index::Array(_));
        let (mut close, mut apart) = (Slots::default(), Slots::default());
        for (number, codes) in codes.chunks(64).enumerate() {
            let spread: Vec<Code> = codes.iter().map(|code| code * SPAN_PER_KEY).collect();
            let expected: Vec<u32> = (64 * number as u32..).take(codes.len()).collect();
            assert_eq!(assign(&mut close, codes), expected);
            assert_eq!(assign(&mut apart, &spread), expected);
            assert!(number != 10 || !is_array(&close), "codes of 640 keys span 20,000");
        }
        assert!(is_array(&close) && !is_array(&apart));
        close.validate();
        // the next slice has one from the start; one that follows a slice with few keys has a small one
        let mut few = Slots::like(&close);
        assert!(is_array(&few));
        assert_eq!(assign(&mut few, &[7, 20_000, 7]), [0, 1, 0]);
        let mut next = Slots::like(&few);
        assert!(next.size() < few.size() / 100);
        assert_eq!(assign(&mut next, &[20_000, 7]), [0, 1]);
    }

    /// Keys of three kinds of columns, some rows left out, some null.
    #[test]
    fn rows_that_are_pushed_and_folded_are_rows_that_were_looked_up() {
        let numbers: Vec<i64> = (0..1_000).map(|row| row * row % 700 - 300).collect();
        let narrow: Vec<i32> = numbers.iter().map(|&key| key as i32).collect();
        let codes: Vec<Code> = numbers.iter().map(|&key| key as Code).collect();
        // rows 30 and 40 are of one key, so the slot of the null key moves
        let nulls: Vec<bool> = (0..1_000).map(|row| row > 100 && row % 9 == 5).collect();
        let without = Codes { codes: codes.clone(), ..Codes::default() };
        let with = Codes { codes, nulls, any_null: true };
        for keys in [Keys::Int64(&numbers), Keys::Int32(&narrow), Keys::Codes(&without), Keys::Codes(&with)] {
            let (mut listed, mut looked_up, mut out) = (Slots::default(), Slots::default(), vec![]);
            let (mut slots, mut expected) = (vec![], vec![]);
            for rows in [u64::MAX, 0x5555_5555_5555_5555, 1 << 63] {
                let mut blocks = Block::cover(0..1_000);
                blocks.retain_mut(|block| {
                    block.rows &= rows;
                    block.rows > 0
                });
                listed.push_rows((&keys, 0), &blocks, &mut out);
                slots.append(&mut out);
                looked_up.assign((&keys, 0), &blocks, &mut out);
                expected.append(&mut out);
            }
            // where each slot ends up
            let repeats = listed.repeats();
            let mut place: Vec<u32> = (0..listed.len() as u32).collect();
            repeats.merges.iter().for_each(|&(into, from)| place[from as usize] = into);
            slots.iter_mut().for_each(|slot| *slot = place[*slot as usize]);
            slots.iter_mut().for_each(|slot| *slot -= repeats.before(*slot));
            listed.fold(&repeats);
            assert_eq!(slots, expected);
            assert_eq!((listed.codes(), listed.null_slot()), (looked_up.codes(), looked_up.null_slot()));
            listed.validate();
        }
    }

    /// Nulls among keys that are few, many or far apart, in some blocks and not in others. A null has the code of another key.
    #[test]
    fn null_has_a_slot_among_those_of_other_keys() {
        for (spread, period) in [(1, 50), (1, 3_000), (1 << 40, 3_000)] {
            let is_null = |row: u64| row > 700 && (row % 640 < 64 && row.is_multiple_of(3) || row == 5_001);
            let key = |row: u64| if is_null(row) { (0, true) } else { (row * row % period * spread, false) };
            let keys: Vec<(Code, bool)> = (0..6_000).map(key).collect();
            // the rows of each mask come after those of the one before it
            let assign = |masks: &[u64]| {
                let (mut slots, mut all, mut out) = (Slots::default(), vec![0; keys.len()], vec![]);
                for (part, all) in keys.chunks(450).zip(all.chunks_mut(450)) {
                    let (codes, nulls): (Vec<_>, Vec<_>) = part.iter().copied().unzip();
                    let codes = Codes { any_null: nulls.contains(&true), codes, nulls };
                    for mask in masks {
                        let mut blocks = Block::cover(0..part.len());
                        blocks.iter_mut().for_each(|block| block.rows &= mask);
                        slots.assign((&Keys::Codes(&codes), 0), &blocks, &mut out);
                        let rows = blocks.iter().flat_map(Block::iter);
                        rows.zip(&out).for_each(|(row, &slot)| all[row] = slot);
                    }
                }
                slots.validate();
                (slots, all)
            };
            let mut seen: Vec<(Code, bool)> = vec![];
            let expected = keys.iter().map(|key| {
                seen.iter().position(|known| known == key).unwrap_or_else(|| {
                    seen.push(*key);
                    seen.len() - 1
                }) as u32
            });
            assert_eq!(assign(&[u64::MAX]).1, expected.collect::<Vec<_>>(), "{spread} {period}");
            let (slots, all) = assign(&[0x5555_5555_5555_5555, 0xaaaa_aaaa_aaaa_aaaa]);
            let key = |slot: u32| (slots.codes()[slot as usize], slots.null_slot() == Some(slot));
            assert!(all.iter().map(|&slot| key(slot)).eq(keys.iter().copied()), "{spread} {period}");
        }
    }

    #[test]
    fn null_is_a_key_of_its_own() {
        let mut slots = Slots::default();
        let mut out = vec![];
        let codes =
            Codes { codes: vec![0, 7, 0, 7, 0], nulls: vec![true, false, false, true, true], any_null: true };
        slots.assign((&Keys::Codes(&codes), 100), &[Block { start: 100, rows: 0b11111 }], &mut out);
        assert_eq!(out, [0, 1, 2, 0, 0]);
        assert_eq!(slots.null_slot(), Some(0));
        slots.validate();
        assert_eq!(slots.find(0, false), Some(2));
        assert_eq!(slots.find(9, false), None);
        slots.clear();
        let codes = Codes { codes: vec![7, 0], nulls: vec![false, true], any_null: true };
        slots.assign((&Keys::Codes(&codes), 0), &[Block { start: 0, rows: 0b11 }], &mut out);
        assert_eq!((out.as_slice(), slots.null_slot()), ([0, 1].as_slice(), Some(1)));
    }
}
