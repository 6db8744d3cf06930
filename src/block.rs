//! Which rows of a batch are meant: runs of 64, and a bit for each.
//!
//! Event time is nearly in order, so most blocks are whole and are worked off as slices. A block that is not costs a
//! few cycles a row more, not a mispredicted branch at every end of a run.

use std::ops::Range;

use arrow_buffer::NullBuffer;
use arrow_buffer::bit_chunk_iterator::BitChunks;

/// The rows that one block can hold.
pub(crate) const BLOCK: usize = 64;

/// Up to 64 neighbouring rows of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The row of the lowest bit.
    pub(crate) start: usize,
    /// A bit for each row that is meant; at least one.
    pub(crate) rows: u64,
}

impl Block {
    /// A single row.
    pub(crate) fn one(row: usize) -> Self {
        Block { start: row, rows: 1 }
    }

    /// The rows of a range.
    pub(crate) fn cover(range: Range<usize>) -> Vec<Block> {
        let starts = range.clone().step_by(BLOCK);
        starts.map(|start| Block { start, rows: ones(BLOCK.min(range.end - start)) }).collect()
    }

    /// How many rows there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rows.count_ones() as usize
    }

    /// All 64, if it has all.
    #[inline]
    pub(crate) fn whole(&self) -> Option<Range<usize>> {
        (self.rows == u64::MAX).then_some(self.start..self.start + BLOCK)
    }

    /// Which of some values of the batch are those of its 64 rows; the last block of a batch can have fewer.
    #[inline]
    pub(crate) fn of<'a, T>(&self, values: &'a [T]) -> &'a [T] {
        &values[self.start..values.len().min(self.start + BLOCK)]
    }

    /// The rows that are not null.
    pub(crate) fn valid(&self, nulls: Option<&NullBuffer>) -> u64 {
        let Some(nulls) = nulls else { return self.rows };
        let len = BLOCK.min(nulls.len() - self.start);
        let valid = BitChunks::new(nulls.validity(), nulls.offset() + self.start, len);
        self.rows & valid.iter().next().unwrap_or_else(|| valid.remainder_bits())
    }

    /// The row behind the last.
    pub(crate) fn end(&self) -> usize {
        self.start + BLOCK - self.rows.leading_zeros() as usize
    }

    /// The rows in order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        let start = self.start;
        bits(self.rows).map(move |bit| start + bit)
    }
}

/// The set bits, lowest first.
#[inline]
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = set.trailing_zeros() as usize;
        if set == 0 {
            return None;
        }
        set &= set - 1;
        Some(bit)
    })
}

/// The lowest `count` bits, of which there is at least one.
pub(crate) fn ones(count: usize) -> u64 {
    u64::MAX >> (BLOCK - count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_their_rows() {
        let some = Block { start: 100, rows: 1 << 63 | 0b1011 };
        assert_eq!(some.iter().collect::<Vec<_>>(), [100, 101, 103, 163]);
        assert_eq!((some.len(), some.end(), some.whole()), (4, 164, None));
        let all = Block { start: 64, rows: ones(64) };
        assert_eq!((all.len(), all.end(), all.whole()), (64, 128, Some(64..128)));
        assert!(all.iter().eq(64..128));
        assert_eq!(Block::one(7).iter().collect::<Vec<_>>(), [7]);
        let values: Vec<usize> = (0..131).collect();
        for start in [0, 64, 100, 128] {
            let block = Block { start, rows: 0b101 };
            assert_eq!(block.of(&values), &values[start..131.min(start + 64)]);
            assert_eq!(block.valid(None), 0b101);
            for (lacking, rows) in [(start, 0b100), (start + 1, 0b101), (start + 2, 1)] {
                // nulls that begin in the middle of a byte
                let nulls: NullBuffer = (0..134).map(|row| row != lacking + 3).collect();
                assert_eq!(block.valid(Some(&nulls.slice(3, 131))), rows);
            }
        }
        for range in [0..1, 3..67, 5..205] {
            assert!(Block::cover(range.clone()).iter().flat_map(Block::iter).eq(range));
        }
    }
}
