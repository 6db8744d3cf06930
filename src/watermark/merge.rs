//! One watermark out of many.

use super::minima::{Minima, VACANT};
use super::{END, NONE};

/// How a partition that wakes up behind the merged watermark joins the others again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reactivation {
    /// It is left out of the minimum until it has reached the merged watermark, which goes on without it. While a
    /// partition is marked idle, its watermarks are ignored. Flink's `StatusWatermarkValve`, in front of an operator
    /// with several inputs.
    #[default]
    WhenCaughtUp,
    /// It counts at once, so that the merged watermark stands still until it has caught up. A watermark is a sign of
    /// life. Flink's `CombinedWatermarkStatus`, behind `WatermarkOutputMultiplexer` (the splits of a source) and
    /// `IndexedCombinedWatermarkStatus` (the two inputs of a join).
    AtOnce,
}

/// What a partition is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionStatus {
    /// Its rows are awaited.
    Active,
    /// It has been quiet for too long; nobody waits for it.
    Idle,
    /// Its input has ended, for good.
    Finished,
    /// It was removed; its number may be given to another.
    Removed,
}

/// The merged watermark of a set of partitions.
///
/// The merged watermark is the minimum over the partitions that count, and never goes back. Who counts:
///
/// | partition | [`WhenCaughtUp`](Reactivation::WhenCaughtUp) | [`AtOnce`](Reactivation::AtOnce) |
/// |---|---|---|
/// | active, never idle | yes, and it holds at [`NONE`] before its first watermark | the same |
/// | active again after idling | once it has reached the merged watermark | yes |
/// | idle | no | no |
/// | finished | no: it is left out for good | no |
///
/// When nobody is active any more, but some are idle, the merged watermark moves to the maximum over the idle ones:
/// under `AtOnce` always; under `WhenCaughtUp` only if the partition that was the last to leave stood exactly at the
/// merged watermark, that is, if it was the one that held it. One that left while still behind held nothing back, so
/// its leaving sets nothing free.
///
/// # Where this is not Flink
///
/// In Flink a finished partition stands at the maximum and counts as active, so that one that has ended while all others
/// merely sleep ends the stream for all. Here it is left out of the minimum and of the maximum of the idle, and the
/// merged watermark is [`END`] only when all partitions are finished. For `WhenCaughtUp` this means:
///
/// * "The last active one" is the last of those that are not finished. Its leaving sets the maximum free by the rule
///   above, however many have finished before.
/// * A partition that finishes as the last active one leaves as if it had gone idle: the others' maximum comes out if
///   the partition's last watermark before its end was the merged one. Its own end is no watermark, and not part of
///   the maximum.
/// * A partition that finishes while others are active leaves as if its last word had been `END` (Flink): the minimum
///   is taken over those that remain. If all that remain are still behind, the merged watermark stays.
/// * An idle partition may finish without waking up first. In Flink's valve its `END` would be ignored.
///
/// # Partitions
///
/// Partitions are numbered from 0. Methods that take a number panic if there never was such a partition, as indexing a
/// slice does.
///
/// # Example
///
/// ```
/// use highwater::watermark::{END, NONE, Reactivation, WatermarkMerge};
/// let mut merge = WatermarkMerge::new(2, Reactivation::WhenCaughtUp);
/// assert!(!merge.advance(0, 100)); // partition 1 has not spoken
/// assert_eq!(merge.merged(), NONE);
/// assert!(merge.advance(1, 50));
/// assert_eq!((merge.merged(), merge.holding_back()), (50, Some(1)));
/// assert!(merge.mark_idle(1));
/// assert_eq!(merge.merged(), 100);
/// merge.mark_active(1);
/// merge.advance(1, 60); // behind: the others do not wait
/// assert!(merge.advance(0, 110));
/// merge.finish(0);
/// merge.finish(1);
/// assert_eq!(merge.merged(), END);
/// ```
#[derive(Clone, Debug)]
pub struct WatermarkMerge {
    rule: Reactivation,
    pub(super) partitions: Vec<Partition>,
    pub(super) merged: i64,
    active: usize,
    idle: usize,
    pub(super) finished: usize,
    /// The watermarks of the partitions that count.
    counting: Minima,
    /// The watermarks of those active or idle, turned over by `!`, so that the minimum is their maximum.
    unfinished: Minima,
    /// Numbers of removed partitions.
    free: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Partition {
    pub(super) watermark: i64,
    pub(super) status: PartitionStatus,
    /// Active, and not behind as one that has yet to catch up.
    pub(super) aligned: bool,
}

impl WatermarkMerge {
    /// So many partitions, all active and without a watermark.
    pub fn new(partitions: usize, rule: Reactivation) -> Self {
        let mut merge = WatermarkMerge {
            rule,
            partitions: Vec::with_capacity(partitions),
            merged: NONE,
            active: 0,
            idle: 0,
            finished: 0,
            counting: Minima::new(partitions),
            unfinished: Minima::new(partitions),
            free: Vec::new(),
        };
        for _ in 0..partitions {
            merge.add();
        }
        merge
    }

    /// Records that `p` has come to `watermark`, and moves the merged watermark; true if that rose. [`END`] is
    /// [`finish`](WatermarkMerge::finish). A watermark that is no news for `p` moves nothing.
    pub fn advance(&mut self, p: usize, watermark: i64) -> bool {
        if watermark == END {
            return self.finish(p);
        }
        let rose = self.set(p, watermark);
        // The multiplexer looks no further if the news is not above the merged watermark. That shows only after a
        // removal, or after `set` without `refresh`.
        rose && (self.rule == Reactivation::WhenCaughtUp || watermark > self.merged) && self.refresh()
    }

    /// Records that `p` has come to `watermark`, without moving the merged watermark before the next
    /// [`refresh`](WatermarkMerge::refresh); true if that is a rise for `p`.
    ///
    /// An idle partition is woken up by it under `AtOnce`, and ignored under `WhenCaughtUp`; a finished one is
    /// ignored. The end of input cannot be said here: a watermark of [`END`] is taken as one less.
    pub fn set(&mut self, p: usize, watermark: i64) -> bool {
        let watermark = watermark.min(END - 1);
        let mut partition = self.partitions[p];
        match (partition.status, self.rule) {
            (PartitionStatus::Active, _) => {}
            (PartitionStatus::Idle, Reactivation::AtOnce) => {
                self.mark_active(p);
                partition = self.partitions[p];
            }
            _ => return false,
        }
        if watermark <= partition.watermark {
            return false;
        }
        partition.watermark = watermark;
        partition.aligned |= watermark >= self.merged;
        self.put(p, partition);
        true
    }

    /// Moves the merged watermark up to what the partitions say now; true if it rose.
    pub fn refresh(&mut self) -> bool {
        self.raise(self.target())
    }

    /// Takes `p` out of the minimum; true if the merged watermark rose.
    pub fn mark_idle(&mut self, p: usize) -> bool {
        self.partitions[p].status == PartitionStatus::Active && self.leave(p, PartitionStatus::Idle)
    }

    /// Puts `p` back among those that are awaited, by the rule. The merged watermark does not move.
    ///
    /// Like Flink's valve it does not move even if it could ([`is_pending`](WatermarkMerge::is_pending)).
    pub fn mark_active(&mut self, p: usize) {
        let mut partition = self.partitions[p];
        if partition.status != PartitionStatus::Idle {
            return;
        }
        self.idle -= 1;
        self.active += 1;
        partition.status = PartitionStatus::Active;
        partition.aligned = self.aligned_on_arrival(partition.watermark);
        self.put(p, partition);
    }

    /// The input of `p` has ended: it is left out for good. True if the merged watermark rose; to [`END`] if this was
    /// the last one that had not finished.
    pub fn finish(&mut self, p: usize) -> bool {
        match self.partitions[p].status {
            PartitionStatus::Active => self.leave(p, PartitionStatus::Finished),
            PartitionStatus::Idle => {
                self.retire(p, PartitionStatus::Finished);
                // Among idle ones alone nothing is set free: they have had their maximum.
                (self.active > 0 || self.idle == 0) && self.refresh()
            }
            PartitionStatus::Finished | PartitionStatus::Removed => false,
        }
    }

    /// A new partition, active and without a watermark; its number may be that of one that was removed. Flink's
    /// `registerNewOutput`.
    ///
    /// Under `AtOnce` it holds the merged watermark where it is until it has caught up; under `WhenCaughtUp` it counts
    /// only then.
    pub fn add(&mut self) -> usize {
        let partition = Partition {
            watermark: NONE,
            status: PartitionStatus::Active,
            aligned: self.aligned_on_arrival(NONE),
        };
        let p = self.free.pop().unwrap_or(self.partitions.len());
        if p == self.partitions.len() {
            self.partitions.push(partition);
            self.counting.grow(p + 1);
            self.unfinished.grow(p + 1);
        }
        self.active += 1;
        self.put(p, partition);
        p
    }

    /// Forgets `p`; true if the merged watermark rose. Under `AtOnce` that moves nothing before the next
    /// [`refresh`](WatermarkMerge::refresh) (Flink's `unregisterOutput`); under `WhenCaughtUp`, where Flink has no
    /// such thing, an active one leaves as one that goes idle does.
    pub fn remove(&mut self, p: usize) -> bool {
        let status = self.partitions[p].status;
        if status == PartitionStatus::Removed {
            return false;
        }
        self.free.push(p);
        if self.rule == Reactivation::WhenCaughtUp && status == PartitionStatus::Active {
            return self.leave(p, PartitionStatus::Removed);
        }
        self.retire(p, PartitionStatus::Removed);
        false
    }

    /// The merged watermark: [`NONE`] at first, [`END`] when all have finished.
    pub fn merged(&self) -> i64 {
        self.merged
    }

    /// Whether every partition that has not finished is idle, and there is one.
    pub fn is_idle(&self) -> bool {
        self.active == 0 && self.idle > 0
    }

    /// What `p` is doing.
    pub fn status(&self, p: usize) -> PartitionStatus {
        self.partitions[p].status
    }

    /// The last watermark of `p`: [`NONE`] if it never had one, [`END`] once it has finished.
    pub fn watermark(&self, p: usize) -> i64 {
        self.partitions[p].watermark
    }

    /// Whether `p` counts in the minimum: it is active, and not one that has yet to catch up.
    pub fn is_aligned(&self, p: usize) -> bool {
        self.partitions[p].aligned
    }

    /// The minimum over the partitions that count, other than `p`; [`END`] if there are none. With it,
    /// `max(merged, min(w, others_minimum))` is the merged watermark after an aligned `p` has come to any `w`.
    pub fn others_minimum(&self, p: usize) -> i64 {
        self.counting.min_without(p)
    }

    /// Whether a [`refresh`](WatermarkMerge::refresh) would move the merged watermark.
    ///
    /// Under `WhenCaughtUp` this is so when a partition wakes up that is ahead while all other active ones are behind:
    /// its waking up alone moves nothing, the next news of any active partition does. Under `AtOnce` it is so between a
    /// `set` or a removal and the next `refresh`. Who judges rows by a watermark that they move themselves cannot use
    /// [`others_minimum`](WatermarkMerge::others_minimum) until the first of them has moved it.
    pub fn is_pending(&self) -> bool {
        self.target() > self.merged
    }

    /// The active partition that keeps the merged watermark where it is: the lowest of those that count, and the
    /// first among equals. If all active ones have yet to catch up, the lowest of them. `None` if nobody is active.
    pub fn holding_back(&self) -> Option<usize> {
        let behind = || {
            let active = |p: &usize| self.partitions[*p].status == PartitionStatus::Active;
            (0..self.partitions.len()).filter(active).min_by_key(|&p| self.partitions[p].watermark)
        };
        self.counting.first_min().or_else(behind)
    }

    /// What the partitions say together, whether or not that is ahead of the merged watermark.
    fn target(&self) -> i64 {
        if self.active > 0 {
            match self.counting.min() {
                VACANT => NONE,
                min => min,
            }
        } else if self.idle > 0 {
            match self.rule {
                Reactivation::AtOnce => self.highest_unfinished(),
                Reactivation::WhenCaughtUp => NONE,
            }
        } else if self.finished > 0 {
            END
        } else {
            NONE
        }
    }

    /// An active partition leaves the minimum, and what it held back is set free.
    fn leave(&mut self, p: usize, status: PartitionStatus) -> bool {
        let stood_at_merged = self.partitions[p].watermark == self.merged;
        self.retire(p, status);
        match self.rule {
            Reactivation::AtOnce => self.refresh(),
            Reactivation::WhenCaughtUp if self.is_idle() => {
                stood_at_merged && self.raise(self.highest_unfinished())
            }
            // One that ends has said END as its last word, which is news whatever it had said before.
            Reactivation::WhenCaughtUp => {
                (stood_at_merged || status == PartitionStatus::Finished) && self.refresh()
            }
        }
    }

    /// Takes `p` out of the minimum, and off the count of its old status.
    pub(super) fn retire(&mut self, p: usize, status: PartitionStatus) {
        let mut partition = self.partitions[p];
        match partition.status {
            PartitionStatus::Active => self.active -= 1,
            PartitionStatus::Idle => self.idle -= 1,
            PartitionStatus::Finished => self.finished -= 1,
            PartitionStatus::Removed => {}
        }
        match status {
            PartitionStatus::Active => self.active += 1,
            PartitionStatus::Idle => self.idle += 1,
            PartitionStatus::Finished => (self.finished, partition.watermark) = (self.finished + 1, END),
            PartitionStatus::Removed => {}
        }
        (partition.status, partition.aligned) = (status, false);
        self.put(p, partition);
    }

    /// Whether one that becomes active at `watermark` counts at once.
    fn aligned_on_arrival(&self, watermark: i64) -> bool {
        self.rule == Reactivation::AtOnce || watermark >= self.merged
    }

    /// Stores a partition, and its places in the two trees.
    pub(super) fn put(&mut self, p: usize, partition: Partition) {
        self.partitions[p] = partition;
        self.counting.set(p, if partition.aligned { partition.watermark } else { VACANT });
        let unfinished = matches!(partition.status, PartitionStatus::Active | PartitionStatus::Idle);
        self.unfinished.set(p, if unfinished { !partition.watermark } else { VACANT });
    }

    /// The highest watermark of those active or idle; `NONE` if there are none (`!VACANT` is `NONE`).
    fn highest_unfinished(&self) -> i64 {
        !self.unfinished.min()
    }

    fn raise(&mut self, target: i64) -> bool {
        let rises = target > self.merged;
        self.merged = self.merged.max(target);
        rises
    }
}

#[cfg(test)]
impl WatermarkMerge {
    /// Panics if an invariant does not hold.
    pub(super) fn validate(&self) {
        use PartitionStatus::{Active, Finished, Idle, Removed};
        let count = |status| self.partitions.iter().filter(|partition| partition.status == status).count();
        assert_eq!((self.active, self.idle, self.finished), (count(Active), count(Idle), count(Finished)));
        assert_eq!(self.free.len(), count(Removed));
        assert!(!self.partitions.iter().any(|p| p.aligned && p.status != Active), "only active ones count");
        if self.rule == Reactivation::AtOnce {
            assert!(
                self.partitions.iter().all(|p| p.aligned == (p.status == Active)),
                "active ones count at once"
            );
        } else {
            assert!(self.counting.min() >= self.merged, "the merged watermark is ahead of one that counts");
        }
    }
}
