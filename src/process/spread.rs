//! Keys as codes, and which shard each key is in.

use std::ops::Range;

use super::KeyedProcess;
use super::shard::Shard;
use crate::key::{BatchKeys, Code, Codes, Interner, hash};

/// The codes of keys, and their spread over shards. Which shard a key is in shows nowhere.
#[derive(Debug)]
pub(crate) struct Spread {
    pub(crate) interner: Interner,
    /// The shard of each interned key.
    shard_of: Vec<u32>,
    shards: usize,
}

impl Spread {
    pub(crate) fn new(shards: usize) -> Self {
        Spread { interner: Interner::default(), shard_of: vec![], shards }
    }

    /// The codes of some rows of a batch.
    pub(crate) fn encode(&mut self, keys: &mut BatchKeys, rows: Range<usize>) -> Codes {
        let mut codes = Codes::default();
        keys.encode(rows.start, rows.end, &mut self.interner, &mut codes);
        self.assign();
        codes
    }

    /// Gives interned keys that are new a shard.
    pub(crate) fn assign(&mut self) {
        if self.shards > 1 {
            let known = self.shard_of.len();
            let shard = |number: usize| (number % self.shards) as u32;
            self.shard_of.extend((known..self.interner.len()).map(shard));
        }
    }

    /// The shard of a key.
    pub(crate) fn shard(&self, code: Code, null: bool, interned: bool) -> usize {
        match (null, interned) {
            _ if self.shards == 1 => 0,
            (true, _) => 0,
            (false, true) => self.shard_of[code as usize] as usize,
            // bits in the middle: the tables of the shards use those at both ends
            (false, false) => {
                let middle = (hash(code) >> 20) as u32;
                ((u64::from(middle) * self.shards as u64) >> 32) as usize
            }
        }
    }

    /// The rows of each shard, if there are several.
    pub(crate) fn rows(&self, codes: &Codes, interned: bool) -> Vec<Vec<u32>> {
        if self.shards == 1 {
            return vec![];
        }
        let mut rows = vec![Vec::with_capacity(codes.codes.len() / self.shards + 1); self.shards];
        for row in 0..codes.codes.len() {
            let (code, null) = codes.get(row);
            rows[self.shard(code, null, interned)].push(row as u32);
        }
        rows
    }

    /// Forgets interned keys that no shard has any more, now and then.
    pub(crate) fn sweep<P: KeyedProcess>(&mut self, shards: &mut [Shard<P>]) {
        if !self.interner.wants_retain() {
            return;
        }
        let mut used = vec![false; self.interner.len()];
        for shard in shards.iter() {
            for (_, entry) in shard.state.keys.iter().filter(|(_, entry)| !entry.null) {
                used[entry.code as usize] = true;
            }
        }
        let renamed = self.interner.retain(&used);
        shards.iter_mut().for_each(|shard| shard.state.keys.rename(&renamed));
        let kept = std::mem::take(&mut self.shard_of).into_iter().zip(&used);
        self.shard_of = kept.filter(|&(_, &used)| used).map(|(shard, _)| shard).collect();
    }

    pub(crate) fn size(&self) -> usize {
        self.interner.size() + self.shard_of.capacity() * size_of::<u32>()
    }
}
