//! Which partitions should wait for the slow ones.

use super::NONE;
use super::merge::{PartitionStatus, WatermarkMerge};

impl WatermarkMerge {
    /// The partitions of `group` whose watermark is more than `max_drift` ahead of the group's minimum, in the
    /// group's order: they should pause, or the windows they open will wait for the slow ones in memory. Flink's
    /// watermark alignment (`SourceCoordinator`), as a report.
    ///
    /// Idle and finished partitions, and those without a watermark yet, do not define the minimum; without one nobody
    /// pauses. A partition that is ahead pauses even when idle (it may be idle only because it was paused, and would
    /// run further ahead if that let it go); a finished one has nothing left to pause.
    ///
    /// ```
    /// use highwater::watermark::{Reactivation, WatermarkMerge};
    /// let mut merge = WatermarkMerge::new(3, Reactivation::default());
    /// merge.advance(0, 100);
    /// merge.advance(1, 130);
    /// merge.advance(2, 131);
    /// assert_eq!(merge.paused(&[0, 1, 2], 30), [2]);
    /// assert!(merge.paused(&[1, 2], 30).is_empty());
    /// ```
    pub fn paused(&self, group: &[usize], max_drift: i64) -> Vec<usize> {
        let active = group.iter().filter(|&&p| self.status(p) == PartitionStatus::Active);
        let Some(slowest) = active.map(|&p| self.watermark(p)).filter(|&watermark| watermark != NONE).min()
        else {
            return Vec::new();
        };
        let limit = slowest.saturating_add(max_drift);
        let may_run = |p| matches!(self.status(p), PartitionStatus::Active | PartitionStatus::Idle);
        group.iter().copied().filter(|&p| may_run(p) && self.watermark(p) > limit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{END, Reactivation};
    use super::*;

    #[test]
    fn who_defines_the_minimum_and_who_pauses() {
        for rule in [Reactivation::WhenCaughtUp, Reactivation::AtOnce] {
            let mut merge = WatermarkMerge::new(5, rule);
            let group = [4, 3, 2, 1, 0];
            assert_eq!(merge.paused(&group, 0), [0_usize; 0], "nobody has spoken");
            merge.advance(0, 10);
            merge.advance(1, 20);
            merge.advance(2, 40);
            assert_eq!(merge.paused(&group, 10), [2], "3 and 4 have not spoken");
            merge.mark_idle(0);
            assert_eq!(merge.paused(&group, 10), [2]);
            assert_eq!(merge.paused(&group, 20), [0_usize; 0], "the idle one no longer counts");
            merge.mark_idle(2);
            assert_eq!(merge.paused(&group, 10), [2], "idle, but ahead");
            merge.finish(2);
            assert_eq!(merge.paused(&group, 10), [0_usize; 0], "finished");
            merge.finish(1);
            assert_eq!(merge.paused(&group, 0), [0_usize; 0], "no minimum");
        }
    }

    #[test]
    fn saturates() {
        let mut merge = WatermarkMerge::new(2, Reactivation::AtOnce);
        merge.advance(0, END - 5);
        merge.advance(1, END - 1);
        assert_eq!(merge.paused(&[0, 1], 10), [0_usize; 0]);
        assert_eq!(merge.paused(&[0, 1], 3), [1]);
        assert_eq!(merge.paused(&[0, 1], i64::MAX), [0_usize; 0]);
    }
}
