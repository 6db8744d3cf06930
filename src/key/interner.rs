//! Byte strings to small numbers: each distinct one is kept once.
//!
//! Most keys are short, so a string of up to 15 bytes is a word of 16 with its length in the last: to look one up takes no
//! call and no look at another place, whatever its bytes.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::Dictionary;
use super::rows::Layout;

/// Numbers byte strings in order of appearance. The numbers are never visible outside: only equality counts.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    table: HashTable<u32>,
    strings: Vec<Word>,
    long: Long,
    /// If the strings are rows of several columns: those of the values of each.
    columns: Vec<Column>,
    /// Strings kept by the last [`Interner::retain`].
    kept: usize,
    /// The last dictionary whose strings were numbered.
    pub(super) known: Option<Arc<Dictionary>>,
}

/// The values of one column of rows.
#[derive(Debug)]
struct Column {
    /// Where rows have numbers of this interner, one more than they are; nowhere if values are not interned.
    at: Option<usize>,
    interner: Interner,
}

/// A short string: its bytes, zeros, and its length. A long one: its hash, its place among the long ones, and [`LONG`].
pub(super) type Word = [u8; 16];

/// The longest string that is kept in a word.
pub(super) const SHORT: usize = size_of::<Word>() - 1;
/// In the place of a length.
const LONG: u8 = u8::MAX;

const HASHER: FixedState = FixedState::with_seed(0);

/// For each length the bytes of a word that are a string's.
const MASKS: [u128; SHORT + 1] = {
    let mut masks = [0; SHORT + 1];
    let mut len = 1;
    while len <= SHORT {
        masks[len] = masks[len - 1] << 8 | 0xff;
        len += 1;
    }
    masks
};

/// A string of at most [`SHORT`] bytes as a word.
#[inline]
fn short(string: &[u8]) -> Word {
    // two parts that overlap, each of a width that there is an instruction for
    fn halves<const N: usize>(string: &[u8]) -> Option<([u8; N], [u8; N])> {
        Some((*string.first_chunk()?, *string.last_chunk()?))
    }
    let len = string.len();
    let bits = if let Some((first, last)) = halves(string) {
        u128::from(u64::from_le_bytes(first)) | u128::from(u64::from_le_bytes(last)) << (8 * (len - 8))
    } else if let Some((first, last)) = halves(string) {
        u128::from(u32::from_le_bytes(first)) | u128::from(u32::from_le_bytes(last)) << (8 * (len - 4))
    } else {
        (0..).zip(string).fold(0, |bits, (place, &byte)| bits | u128::from(byte) << (8 * place))
    };
    (bits | (len as u128) << (8 * SHORT)).to_le_bytes()
}

/// Long strings, one behind the other.
#[derive(Debug, Default)]
struct Long {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Long {
    fn push(&mut self, string: &[u8], hash: u64) -> Word {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
        let place = (self.ends.len() - 1) as u128;
        (u128::from(hash) | place << 64 | u128::from(LONG) << (8 * SHORT)).to_le_bytes()
    }

    /// The string that a word stands for, which has this hash.
    fn get(&self, word: &Word) -> &[u8] {
        let place = (u128::from_le_bytes(*word) >> 64) as u32 as usize;
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.bytes[start..self.ends[place]]
    }
}

fn hash_of(word: &Word) -> u64 {
    let bits = u128::from_le_bytes(*word);
    if word[SHORT] == LONG { bits as u64 } else { HASHER.hash_one(bits) }
}

impl Interner {
    pub(crate) fn len(&self) -> usize {
        self.strings.len()
    }

    pub(crate) fn get(&self, number: u32) -> &[u8] {
        match &self.strings[number as usize] {
            word if word[SHORT] == LONG => self.long.get(word),
            word => &word[..word[SHORT] as usize],
        }
    }

    /// The number of a string, new or known.
    #[inline]
    pub(crate) fn intern(&mut self, string: &[u8]) -> u32 {
        if string.len() > SHORT {
            return self.intern_long(string);
        }
        self.intern_word(short(string))
    }

    /// The number of a string that has other bytes behind it: to take those too and forget them again costs less than to ask how long
    /// it is.
    #[inline]
    pub(super) fn intern_within(&mut self, bytes: &[u8], Range { start, end }: Range<usize>) -> u32 {
        match (bytes[start..].first_chunk(), MASKS.get(end - start)) {
            (Some(&word), Some(mask)) => {
                let bits = u128::from_le_bytes(word) & mask | ((end - start) as u128) << (8 * SHORT);
                self.intern_word(bits.to_le_bytes())
            }
            _ => self.intern(&bytes[start..end]),
        }
    }

    /// The number of a short string.
    #[inline]
    pub(super) fn intern_word(&mut self, word: Word) -> u32 {
        let hash = hash_of(&word);
        match self.table.find(hash, |&number| self.strings[number as usize] == word) {
            Some(&number) => number,
            None => self.insert(word, hash),
        }
    }

    #[inline(never)]
    fn intern_long(&mut self, string: &[u8]) -> u32 {
        let hash = HASHER.hash_one(string);
        let found = self.table.find(hash, |&number| {
            let word = &self.strings[number as usize];
            word[SHORT] == LONG && hash_of(word) == hash && self.long.get(word) == string
        });
        match found {
            Some(&number) => number,
            None => {
                let word = self.long.push(string, hash);
                self.insert(word, hash)
            }
        }
    }

    #[inline(never)]
    fn insert(&mut self, word: Word, hash: u64) -> u32 {
        let number = self.strings.len() as u32;
        self.strings.push(word);
        self.table.insert_unique(hash, number, |&number| hash_of(&self.strings[number as usize]));
        number
    }

    /// The interner of one column of rows.
    pub(super) fn column(&mut self, number: usize, layout: &Layout) -> &mut Interner {
        &mut self.columns_at(layout.strings())[number].interner
    }

    /// The columns, made if there are none yet.
    fn columns_at(&mut self, places: impl Iterator<Item = Option<usize>>) -> &mut [Column] {
        if self.columns.is_empty() {
            self.columns.extend(places.map(|at| Column { at, interner: Interner::default() }));
        }
        &mut self.columns
    }

    /// The interner of one column of rows that there are.
    pub(super) fn of_column(&self, number: usize) -> &Interner {
        &self.columns[number].interner
    }

    /// The number here of a string of another interner.
    pub(crate) fn adopt(&mut self, other: &Interner, number: u32) -> u32 {
        if other.columns.is_empty() {
            return self.intern(other.get(number));
        }
        let mut row = other.get(number).to_vec();
        let columns = self.columns_at(other.columns.iter().map(|column| column.at));
        for (mine, theirs) in columns.iter_mut().zip(&other.columns) {
            theirs.renumber(&mut row, |number| mine.interner.adopt(&theirs.interner, number));
        }
        self.intern(&row)
    }

    /// Whether so many strings have come since the last [`Interner::retain`] that another one pays.
    pub(crate) fn wants_retain(&self) -> bool {
        // a dictionary can bring values that no row has
        self.len() > 2 * self.kept + 65_536
            || self.columns.iter().any(|column| column.interner.wants_retain())
    }

    /// Forgets all but the used strings. Returns the new number of each old one (`u32::MAX` for the forgotten).
    pub(crate) fn retain(&mut self, used: &[bool]) -> Vec<u32> {
        let mut kept = Interner::default();
        let renamed = (0u32..)
            .zip(used)
            .map(|(number, &used)| if used { kept.adopt(self, number) } else { u32::MAX })
            .collect();
        kept.kept = kept.len();
        kept.columns.iter_mut().for_each(|column| column.interner.kept = column.interner.len());
        *self = kept;
        renamed
    }

    pub(crate) fn size(&self) -> usize {
        self.strings.capacity() * size_of::<Word>()
            + self.long.bytes.capacity()
            + self.long.ends.capacity() * size_of::<usize>()
            + self.table.allocation_size()
            + self.columns.iter().map(|column| column.interner.size()).sum::<usize>()
    }
}

impl Column {
    /// Replaces this column's number in a row, if it has one there.
    fn renumber(&self, row: &mut [u8], new: impl FnOnce(u32) -> u32) {
        let Some(bytes) = self.at.and_then(|at| row[at..].first_chunk_mut()) else { return };
        if let Some(number) = u32::from_le_bytes(*bytes).checked_sub(1) {
            *bytes = (new(number) + 1).to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Every length around those where the form changes, of strings that differ in one byte, or only in zeros at an end.
    #[test]
    fn strings_of_all_lengths_have_the_numbers_of_their_first_appearance() {
        let mut strings: Vec<Vec<u8>> = Vec::new();
        for len in 0..40_usize {
            for filler in [0, 1, b'a', u8::MAX] {
                strings.push(vec![filler; len]);
                for place in 0..len {
                    let mut other = vec![filler; len];
                    other[place] = other[place].wrapping_add(7);
                    strings.push(other);
                }
            }
        }
        let mut interner = Interner::default();
        let mut expected: BTreeMap<&[u8], u32> = BTreeMap::new();
        for string in strings.iter().chain(&strings) {
            let next = expected.len() as u32;
            let number = *expected.entry(string).or_insert(next);
            assert_eq!(interner.intern(string), number, "{string:?}");
            assert_eq!(interner.get(number), string);
            for around in [0, 1, 20] {
                let within = [vec![3; around], string.clone(), vec![9; around]].concat();
                assert_eq!(interner.intern_within(&within, around..around + string.len()), number);
            }
        }
        assert_eq!(interner.len(), expected.len());
        // 40 lengths, 4 fillers and a place more for each byte, of which those without bytes are all the same
        assert_eq!(interner.len(), 4 * (40 * 39 / 2 + 39) + 1);
        let held = strings.iter().filter(|string| string.len() > SHORT).map(Vec::len).sum::<usize>();
        assert!(interner.size() >= held + 16 * interner.len());
    }

    #[test]
    fn equal_strings_have_equal_numbers_also_after_forgetting() {
        let mut interner = Interner::default();
        let words: Vec<String> = (0..1_000).map(|i| format!("key-{}", i % 400)).collect();
        let numbers: Vec<u32> = words.iter().map(|w| interner.intern(w.as_bytes())).collect();
        assert_eq!(interner.len(), 400);
        for (word, &number) in words.iter().zip(&numbers) {
            assert_eq!(interner.get(number), word.as_bytes());
        }
        let used: Vec<bool> = (0..400).map(|n| n % 3 == 0).collect();
        let renamed = interner.retain(&used);
        assert_eq!(interner.len(), 134);
        for old in (0..400).step_by(3) {
            assert_eq!(interner.get(renamed[old]), words[old].as_bytes());
            assert_eq!(interner.intern(words[old].as_bytes()), renamed[old]);
        }
        assert_eq!(renamed[1], u32::MAX);
        assert_eq!(interner.intern(b""), 134);
        assert_eq!(interner.get(134), b"");
    }
}
