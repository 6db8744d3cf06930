//! The state of some keys: their windows, and all that goes with these.

use super::Spec;
use super::buffer::Buffer;
use super::contents::{Aggregated, Contents};
use super::pane::Panes;
use super::work::has_passed;
use crate::accumulator::Accumulator;
use crate::error::Result;
use crate::input::Source;
use crate::key::Slots;
use crate::state::Inputs;
use crate::watermark::NONE;

/// Panes, and all that belongs to them.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) keys: Slots,
    pub(crate) panes: Panes,
    pub(crate) contents: Contents,
    /// Results as they were given, where they may have to be taken back.
    pub(crate) given: Vec<Box<dyn Accumulator>>,
    /// The watermark that it has seen.
    pub(crate) watermark: i64,
}

impl Shard {
    pub(crate) fn new(spec: &Spec, inputs: &Inputs, source: &Source) -> Self {
        let contents = match spec.keeps_rows() {
            true => Contents::Buffered(Buffer::new(source.schema.clone(), source.event_time.column)),
            false => Contents::Aggregated(Aggregated::new(inputs)),
        };
        Shard {
            keys: Slots::default(),
            panes: Panes::default(),
            contents,
            given: inputs.empty(),
            watermark: NONE,
        }
    }

    /// Looks at the keys of panes that will probably fire: see [`Panes::touch`].
    pub(crate) fn touch(&self, ids: impl Iterator<Item = u32>) {
        let codes = ids.map(|id| self.keys.codes()[self.panes.past(id).key as usize]);
        std::hint::black_box(codes.fold(0, |all, code| all ^ code));
    }

    /// Leaves behind what nobody needs any more, once that is most of it.
    pub(crate) fn compact(&mut self) -> Result<()> {
        let panes = self.panes.len();
        if let Contents::Aggregated(contents) = &mut self.contents
            && contents.wants_compaction()
        {
            contents.compact(self.panes.renumber_slots());
        }
        let given = self.given.first().map_or(0, |given| given.len());
        if given > 2 * panes + 4_096 {
            let live: Vec<u32> = self.panes.live().collect();
            let mut kept = Vec::new();
            for id in live {
                for given in &mut self.panes.story_mut(id).given {
                    kept.push(given.slot);
                    given.slot = kept.len() as u32 - 1;
                }
            }
            self.given.iter_mut().for_each(|given| *given = given.gather(&kept));
        }
        if self.keys.len() > 2 * panes + 4_096 {
            let mut keys = Slots::default();
            for (slot, _) in self.panes.by_key() {
                let null = self.keys.null_slot() == Some(slot);
                keys.get_or_insert(self.keys.codes()[slot as usize], null);
            }
            self.keys = keys;
            self.panes.renumber_keys();
        }
        match &mut self.contents {
            Contents::Aggregated(_) => Ok(()),
            Contents::Buffered(buffer) => buffer.compact(),
        }
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn validate(&self, spec: &Spec, watermark: i64) {
        assert_eq!(self.panes.live().count(), self.panes.len(), "every pane is in the list of its key");
        for (key, ids) in self.panes.by_key() {
            for &id in ids {
                let pane = self.panes.get(id);
                assert_eq!(self.panes.past(id).key, key);
                let passed = |time| has_passed(watermark, time);
                assert!(!passed(spec.expires_at(pane.last)), "expired, but kept: {pane:?}");
                assert_eq!(pane.due, passed(pane.last), "{pane:?} at {watermark}");
                assert!(!pane.changed && !pane.frozen, "owes something: {pane:?}");
            }
            for ids in ids.windows(2) {
                let (before, pane) = (self.panes.get(ids[0]), self.panes.get(ids[1]));
                assert!((before.first, before.last) < (pane.first, pane.last), "{before:?}, then {pane:?}");
                if spec.assigner.is_session() {
                    assert!(before.last < pane.first - 1, "sessions that touch: {before:?}, {pane:?}");
                }
            }
        }
    }

    pub(crate) fn size(&self) -> usize {
        let contents = match &self.contents {
            Contents::Aggregated(contents) => contents.size(),
            Contents::Buffered(buffer) => buffer.size(),
        };
        let given: usize = self.given.iter().map(|given| given.size()).sum();
        self.keys.size() + self.panes.size() + contents + given
    }

    /// See [`Accumulator::magnitude`].
    pub(crate) fn magnitude(&self, inputs: &Inputs) -> u128 {
        match &self.contents {
            Contents::Aggregated(contents) => contents.magnitude(),
            Contents::Buffered(buffer) => buffer.magnitude(inputs),
        }
    }
}
