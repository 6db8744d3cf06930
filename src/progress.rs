//! Everything that rows move: watermarks, clocks, counters and state.

use crate::builder::Parts;
use crate::metrics::RowCounts;
use crate::partition::Job;
use crate::state::State;
use crate::watermark::{
    Before, END, IdleTimer, NONE, PartitionStatus, PartitionWatermark, Reactivation, WatermarkMerge,
};

/// Everything that a failed call must leave as it was.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) sources: Vec<PartitionWatermark>,
    pub(crate) timers: Vec<IdleTimer>,
    pub(crate) merge: WatermarkMerge,
    pub(crate) clock: Option<i64>,
    pub(crate) counts: Vec<RowCounts>,
    /// Rows accepted so far.
    pub(crate) arrivals: u64,
    pub(crate) fired_on_time: u64,
    pub(crate) fired_late: u64,
    pub(crate) windows_fired: u64,
    pub(crate) state: State,
}

impl Progress {
    pub(crate) fn new(parts: &Parts, lanes: usize) -> Self {
        Progress {
            sources: vec![parts.generator.clone(); parts.partitions],
            timers: parts
                .idle_timer
                .as_ref()
                .map_or_else(Vec::new, |timer| vec![timer.clone(); parts.partitions]),
            merge: WatermarkMerge::new(parts.partitions, parts.reactivation),
            clock: None,
            counts: vec![RowCounts::default(); parts.partitions],
            arrivals: 0,
            fired_on_time: 0,
            fired_late: 0,
            windows_fired: 0,
            state: State::new(lanes),
        }
    }

    /// Moves a partition's watermark past the rows of a batch, and notes what each row is judged by.
    pub(crate) fn observe(&mut self, job: &mut Job, parts: &Parts) {
        let partition = job.partition;
        job.floor = self.merge.merged();
        job.first_arrival = self.arrivals;
        self.arrivals += job.times.len() as u64;
        if let Some(highest) = job.highest()
            && self.merge.status(partition) != PartitionStatus::Finished
        {
            let own = self.sources[partition].emitted();
            let any_sign = parts.reactivation == Reactivation::AtOnce;
            let marker = parts.marker.map(|column| job.batch.column(column));
            job.ceiling = self.merge.others_minimum(partition);
            job.before = self.sources[partition].observe_highest(&job.times, highest, &job.batch, marker);
            self.touch(partition);
            let simple = self.merge.status(partition) == PartitionStatus::Active && !self.merge.is_pending();
            if !simple {
                // the first rows may change what the others count for
                job.before = Before::Each(self.merge_row_by_row(
                    partition,
                    own,
                    &job.before.watermarks(&job.times),
                    any_sign,
                ));
                (job.floor, job.ceiling) = (NONE, END);
            } else if self.report(partition, own, any_sign) {
                self.merge.refresh();
            }
        }
        job.after = self.merge.merged();
    }

    /// The merged watermark before each row of a partition that has emitted `before` each row: the literal reading.
    fn merge_row_by_row(
        &mut self,
        partition: usize,
        mut own: i64,
        before: &[i64],
        any_sign: bool,
    ) -> Vec<i64> {
        let after = before[1..].iter().copied().chain([self.sources[partition].emitted()]);
        let mut merged = Vec::with_capacity(before.len());
        for after in after {
            merged.push(self.merge.merged());
            if self.tell(partition, own, after, any_sign) {
                self.merge.refresh();
            }
            own = after;
        }
        merged
    }

    /// Tells the merge of a partition whose watermark was `before`; returns whether that is news.
    pub(crate) fn report(&mut self, partition: usize, before: i64, any_sign: bool) -> bool {
        self.tell(partition, before, self.sources[partition].emitted(), any_sign)
    }

    /// A watermark that has not risen is no news, unless any sign of life counts.
    fn tell(&mut self, partition: usize, before: i64, after: i64, any_sign: bool) -> bool {
        if after <= before && !any_sign {
            return false;
        }
        if self.merge.status(partition) == PartitionStatus::Idle {
            self.merge.mark_active(partition);
        }
        self.merge.set(partition, after)
    }

    /// Notes a sign of life for the idle timeout.
    pub(crate) fn touch(&mut self, partition: usize) {
        if let Some(timer) = self.timers.get_mut(partition) {
            timer.on_row(self.clock);
        }
    }
}
