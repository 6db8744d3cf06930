//! A set of keys that can take a key for another: small enough to stay in the cache where the keys do not.

use super::slots::{Code, hash};

/// A bit for each hash, or for several.
pub(super) struct Filter {
    words: Vec<u64>,
    /// What is left of a hash has as many bits as there are bits in `words` to be numbered.
    shift: u32,
}

impl Filter {
    /// With eight to sixteen bits for each key.
    pub(super) fn new(keys: usize) -> Self {
        let bits = (8 * keys).next_power_of_two().max(64);
        Filter { words: vec![0; bits / 64], shift: u64::BITS - bits.trailing_zeros() }
    }

    pub(super) fn clear(&mut self) {
        self.words.fill(0);
    }

    #[inline]
    fn bit(&self, code: Code) -> (usize, u32) {
        let bit = hash(code) >> self.shift;
        ((bit / 64) as usize, (bit % 64) as u32)
    }

    /// Whether this key, or one that is taken for it, was there before.
    #[inline]
    pub(super) fn add(&mut self, code: Code) -> bool {
        let (word, bit) = self.bit(code);
        let word = &mut self.words[word];
        let before = *word >> bit & 1;
        *word |= 1 << bit;
        before != 0
    }

    pub(super) fn add_all(&mut self, codes: &[Code]) {
        codes.iter().for_each(|&code| _ = self.add(code));
    }

    /// Whether this key is there, or one that is taken for it.
    #[inline]
    pub(super) fn has(&self, code: Code) -> bool {
        let (word, bit) = self.bit(code);
        self.words[word] >> bit & 1 != 0
    }
}
