//! Watermarks of partitions as plain values, for snapshots.

use super::merge::{Partition, PartitionStatus, Reactivation, WatermarkMerge};
use super::partition::{PartitionWatermark, Source};
use super::{END, HIGHEST, NONE};

/// What rows and calls have made of a [`PartitionWatermark`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SavedWatermark {
    pub(crate) emitted: i64,
    pub(crate) regressions: u64,
    /// The highest event time, or the highest marker; [`NONE`] if the strategy looks at neither.
    pub(crate) highest: i64,
    /// What a user's own generator has saved.
    pub(crate) generator: Option<Vec<u8>>,
}

/// What a [`WatermarkMerge`] knows of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedMerge {
    pub(crate) watermark: i64,
    pub(crate) status: PartitionStatus,
    /// Whether it counts in the minimum.
    pub(crate) aligned: bool,
}

impl PartitionWatermark {
    pub(crate) fn saved(&self) -> Result<SavedWatermark, String> {
        let (highest, generator) = match &self.source {
            Source::Highest { max, .. } => (*max, None),
            Source::Explicit => (NONE, None),
            Source::Punctuated { highest } => (*highest, None),
            Source::Custom(generator) => (NONE, Some(generator.save()?)),
        };
        Ok(SavedWatermark { emitted: self.emitted, regressions: self.regressions, highest, generator })
    }

    /// One like this, as it was when it was saved.
    pub(crate) fn restored(&self, saved: &SavedWatermark) -> Result<Self, String> {
        let mut restored = self.clone();
        (restored.emitted, restored.regressions) = (saved.emitted, saved.regressions);
        match (&mut restored.source, &saved.generator) {
            (Source::Highest { max, .. }, None) => *max = saved.highest,
            (Source::Explicit, None) if saved.highest == NONE => {}
            (Source::Punctuated { highest }, None) if saved.highest <= HIGHEST => *highest = saved.highest,
            (Source::Custom(generator), Some(state)) if saved.highest == NONE => generator.restore(state)?,
            _ => return Err("its watermark is that of another strategy".into()),
        }
        match saved.emitted <= HIGHEST {
            true => Ok(restored),
            false => Err("it has emitted the end of input, which no generator can".into()),
        }
    }
}

impl WatermarkMerge {
    /// As many partitions as there are states, which are those of one merge by this rule.
    pub(crate) fn restore(rule: Reactivation, merged: i64, states: &[SavedMerge]) -> Result<Self, String> {
        use PartitionStatus::{Active, Finished};
        let mut merge = WatermarkMerge::new(states.len(), rule);
        merge.merged = merged;
        for (p, &SavedMerge { watermark, status, aligned }) in states.iter().enumerate() {
            let possible = (status == Finished) == (watermark == END)
                && match rule {
                    Reactivation::AtOnce => aligned == (status == Active),
                    Reactivation::WhenCaughtUp => !aligned || status == Active && watermark >= merged,
                };
            if !possible {
                return Err(format!("partition {p} cannot be {status:?} at {watermark}, aligned: {aligned}"));
            }
            merge.retire(p, status);
            merge.put(p, Partition { watermark, status, aligned });
        }
        match (merged == END) == (merge.finished == states.len()) {
            true => Ok(merge),
            false => {
                Err(format!("the merged watermark cannot be {merged}: {} have finished", merge.finished))
            }
        }
    }

    /// What [`restore`](WatermarkMerge::restore) needs of a partition.
    pub(crate) fn saved(&self, p: usize) -> SavedMerge {
        let Partition { watermark, status, aligned } = self.partitions[p];
        SavedMerge { watermark, status, aligned }
    }
}
