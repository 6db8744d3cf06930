//! Which slots have seen a value that is not null.

use arrow_buffer::NullBuffer;

use super::column::{bytes, for_each_row, gather, grow};
use crate::block::Block;

/// One flag a slot, and how many are still down. Once all are up, as they are after the first morsels of a window, there is
/// nothing left to mark and a null costs no more than its check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    flags: Vec<bool>,
    unseen: usize,
}

impl Seen {
    pub(crate) fn resize(&mut self, slots: usize) {
        self.unseen += slots.saturating_sub(self.flags.len());
        grow(&mut self.flags, slots, false);
    }
    /// Slot `i` has seen a value.
    pub(crate) fn mark(&mut self, slot: usize) {
        self.unseen -= usize::from(!self.flags[slot]);
        self.flags[slot] = true;
    }
    pub(crate) fn update(&mut self, slots: &[u32], blocks: &[Block], nulls: Option<&NullBuffer>) {
        if self.unseen == 0 {
            return;
        }
        match nulls {
            None => slots.iter().for_each(|&slot| self.mark(slot as usize)),
            Some(_) => for_each_row(slots, blocks, nulls, |slot, _| self.mark(slot)),
        }
    }
    pub(crate) fn reset(&mut self, slots: &[u32]) {
        for &slot in slots {
            self.unseen += usize::from(self.flags[slot as usize]);
            self.flags[slot as usize] = false;
        }
    }
    /// Whether slot `i` has seen a value.
    pub(crate) fn get(&self, slot: usize) -> bool {
        self.flags[slot]
    }
    pub(crate) fn merge(&mut self, slots: &[u32], other: &Seen) {
        if self.unseen == 0 {
            return;
        }
        for (&slot, &seen) in slots.iter().zip(&other.flags) {
            if seen {
                self.mark(slot as usize);
            }
        }
    }
    pub(crate) fn gather(&self, slots: &[u32]) -> Seen {
        let flags = gather(&self.flags, slots);
        let unseen = flags.iter().filter(|&&seen| !seen).count();
        Seen { flags, unseen }
    }
    pub(crate) fn append(&mut self, other: &Seen) {
        self.flags.extend_from_slice(&other.flags);
        self.unseen += other.unseen;
    }
    /// The slots that have seen nothing are null.
    pub(crate) fn nulls(&self) -> Option<NullBuffer> {
        (self.unseen > 0).then(|| NullBuffer::from(self.flags.as_slice()))
    }
    pub(crate) fn size(&self) -> usize {
        bytes(&self.flags)
    }
}
