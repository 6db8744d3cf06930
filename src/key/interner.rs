//! Byte strings to small numbers: each distinct one is kept once.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::Dictionary;

/// Numbers byte strings in order of appearance. The numbers are never visible outside: only equality counts.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    table: HashTable<u32>,
    bytes: Vec<u8>,
    /// Where each string ends.
    ends: Vec<usize>,
    /// Strings kept by the last [`Interner::retain`].
    kept: usize,
    /// The last dictionary whose strings were numbered.
    pub(super) known: Option<Arc<Dictionary>>,
}

const HASHER: FixedState = FixedState::with_seed(0);

impl Interner {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, number: u32) -> &[u8] {
        slice(&self.bytes, &self.ends, number)
    }

    /// The number of a string, new or known.
    pub(crate) fn intern(&mut self, string: &[u8]) -> u32 {
        let Interner { table, bytes, ends, .. } = self;
        let hash = HASHER.hash_one(string);
        let found = table.find(hash, |&number| slice(bytes, ends, number) == string);
        if let Some(&number) = found {
            return number;
        }
        let number = ends.len() as u32;
        bytes.extend_from_slice(string);
        ends.push(bytes.len());
        table.insert_unique(hash, number, |&number| HASHER.hash_one(slice(bytes, ends, number)));
        number
    }

    /// Whether so many strings have come since the last [`Interner::retain`] that another one pays.
    pub(crate) fn wants_retain(&self) -> bool {
        self.len() > 2 * self.kept + 65_536
    }

    /// Forgets all but the used strings. Returns the new number of each old one (`u32::MAX` for the forgotten).
    pub(crate) fn retain(&mut self, used: &[bool]) -> Vec<u32> {
        let mut kept = Interner::default();
        let renamed = (0u32..)
            .zip(used)
            .map(|(number, &used)| if used { kept.intern(self.get(number)) } else { u32::MAX })
            .collect();
        kept.kept = kept.len();
        *self = kept;
        renamed
    }

    pub(crate) fn size(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>() + self.table.allocation_size()
    }
}

fn slice<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &bytes[start..ends[number]]
}

#[cfg(test)]
mod tests {
    use super::*;

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
