//! How far an input has come: watermarks, clocks, counters, and what each row is judged by.

mod saved;

use arrow_array::RecordBatch;
use arrow_buffer::ScalarBuffer;

use crate::block::BLOCK;
use crate::error::{Error, Result};
use crate::event_time::{Admitted, take_with};
use crate::input::Source;
use crate::metrics::{PartitionMetrics, RowCounts};
use crate::output::ticks_to_array;
use crate::scan::{Bounds, highest};
use crate::watermark::{
    Before, END, IdleTimer, NONE, PartitionStatus, PartitionWatermark, Reactivation, WatermarkMerge,
};

/// Everything that the rows of an input move, but for what an operator makes of them.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) sources: Vec<PartitionWatermark>,
    pub(crate) timers: Vec<IdleTimer>,
    pub(crate) merge: WatermarkMerge,
    pub(crate) clock: Option<i64>,
    pub(crate) counts: Vec<RowCounts>,
    /// Rows accepted so far.
    pub(crate) arrivals: u64,
    /// The clock when the last row came; its first reading before that.
    pub(crate) last_row: Option<i64>,
    /// To where quiet has raised the merged watermark.
    pub(crate) raised: i64,
}

/// News of an input that is no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// No more rows at or before `watermark` will come to a partition.
    Watermark { partition: usize, watermark: i64 },
    /// A partition holds nothing back until it shows life again.
    Idle(usize),
    /// A partition is back.
    Active(usize),
    /// The injected clock shows this.
    Clock(i64),
    /// Every partition emits the watermark that its rows have earned.
    Emit,
    /// A partition has ended.
    FinishPartition(usize),
    /// All have ended.
    Finish,
}

/// A batch on its way: its rows have a usable time, and it is known what each is judged by.
pub(crate) struct Passage {
    pub(crate) partition: usize,
    pub(crate) batch: RecordBatch,
    pub(crate) times: ScalarBuffer<i64>,
    pub(crate) bounds: Vec<Bounds>,
    /// The arrival number of its first row.
    pub(crate) first_arrival: u64,
    /// The partition's own watermark before each row.
    pub(crate) before: Before,
    /// The merged watermark before the batch.
    pub(crate) floor: i64,
    /// The minimum over the other partitions.
    pub(crate) ceiling: i64,
    /// The merged watermark after it.
    pub(crate) after: i64,
}

/// The merged watermark before each row of a batch, for those who ask for that of a few rows only.
#[derive(Debug)]
pub(crate) struct Watermarks {
    /// The arrival number of the first row.
    pub(crate) first_arrival: u64,
    /// The merged watermark after the batch.
    pub(crate) after: i64,
    times: ScalarBuffer<i64>,
    own: Before,
    /// For a running maximum, what it is before each block of rows.
    highest: Vec<i64>,
    floor: i64,
    ceiling: i64,
}

/// A row of a batch, and the highest event time of its partition before it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    row: usize,
    highest: i64,
}

impl Watermarks {
    /// The merged watermark before a row; behind the last row, that after the batch.
    pub(crate) fn before(&self, row: usize) -> i64 {
        self.before_next(row, &mut Cursor::default())
    }

    /// The same for rows that are asked for one after the other.
    pub(crate) fn before_next(&self, row: usize, cursor: &mut Cursor) -> i64 {
        if row == self.times.len() {
            return self.after;
        }
        let own = match &self.own {
            Before::Constant(own) => *own,
            Before::Each(own) => own[row],
            Before::RunningMax { lag, .. } => {
                let start = row - row % BLOCK;
                if !(start + 1..=row).contains(&cursor.row) {
                    *cursor = Cursor { row: start, highest: self.highest[row / BLOCK] };
                }
                let highest = match &self.times[cursor.row..row] {
                    [] => cursor.highest,
                    [time] => cursor.highest.max(*time),
                    times => highest(times, cursor.highest),
                };
                *cursor = Cursor { row, highest };
                lag.watermark(cursor.highest)
            }
        };
        self.floor.max(own.min(self.ceiling))
    }

    /// The merged watermark behind a block of rows that starts at this one, or that after the batch.
    pub(crate) fn behind_block(&self, start: usize) -> i64 {
        self.before((start + BLOCK).min(self.times.len()))
    }

    /// The first row that is judged by `watermark` or more; as many as there are if none is.
    pub(crate) fn reached(&self, watermark: i64) -> usize {
        let (mut row, mut end) = (0, self.times.len());
        while row < end {
            let middle = row.midpoint(end);
            match self.before(middle) < watermark {
                true => row = middle + 1,
                false => end = middle,
            }
        }
        row
    }
}

/// A row of a batch, and the merged watermark that it was judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) row: usize,
    pub(crate) watermark: i64,
}

impl Passage {
    /// The highest event time; none without rows.
    fn highest(&self) -> Option<i64> {
        self.bounds.iter().map(|bounds| bounds.high).max()
    }

    /// The merged watermark before each row.
    pub(crate) fn watermarks(&self) -> Vec<i64> {
        let mut before = self.before.watermarks(&self.times);
        before.iter_mut().for_each(|own| *own = self.floor.max((*own).min(self.ceiling)));
        before
    }

    /// The same, without a list of them, for a batch that nobody else asks.
    pub(crate) fn take_watermarks(&mut self) -> Watermarks {
        let own = std::mem::replace(&mut self.before, Before::Constant(NONE));
        let highest = match own {
            Before::RunningMax { max, .. } => {
                let after = self.bounds.iter().scan(max, |max, bounds| {
                    *max = bounds.high.max(*max);
                    Some(*max)
                });
                std::iter::once(max).chain(after).collect()
            }
            Before::Constant(_) | Before::Each(_) => Vec::new(),
        };
        Watermarks {
            first_arrival: self.first_arrival,
            after: self.after,
            times: self.times.clone(),
            own,
            highest,
            floor: self.floor,
            ceiling: self.ceiling,
        }
    }

    /// These rows, each with the watermark it lost to.
    pub(crate) fn late(&self, dropped: &[Judged], source: &Source) -> Result<Option<RecordBatch>> {
        if dropped.is_empty() {
            return Ok(None);
        }
        let rows = dropped.iter().map(|judged| judged.row as u32).collect();
        let watermarks =
            ticks_to_array(dropped.iter().map(|judged| judged.watermark).collect(), &source.time_type);
        take_with(&self.batch, rows, watermarks, &source.late_schema).map(Some)
    }
}

impl Progress {
    pub(crate) fn new(source: &Source) -> Self {
        let partitions = source.partitions;
        Progress {
            sources: vec![source.generator.clone(); partitions],
            timers: source.idle_timer.as_ref().map_or_else(Vec::new, |timer| vec![timer.clone(); partitions]),
            merge: WatermarkMerge::new(partitions, source.reactivation),
            clock: None,
            counts: vec![RowCounts::default(); partitions],
            arrivals: 0,
            last_row: None,
            raised: NONE,
        }
    }

    /// The merged watermark.
    pub(crate) fn watermark(&self) -> i64 {
        self.merge.merged().max(self.raised)
    }

    /// Whether no partition has had a row for longer than this, by the clock.
    pub(crate) fn is_quiet(&self, timeout: i64) -> bool {
        let quiet = self.clock.zip(self.last_row).map(|(now, last)| i128::from(now) - i128::from(last));
        quiet.is_some_and(|quiet| quiet > i128::from(timeout))
    }

    /// Raises the merged watermark, whatever the partitions say.
    pub(crate) fn raise(&mut self, watermark: i64) {
        self.raised = self.raised.max(watermark);
    }

    /// Whether a signal makes sense.
    pub(crate) fn check(signal: Signal, source: &Source) -> Result<()> {
        match signal {
            Signal::Watermark { .. } if !source.explicit => {
                let needs = "an operator built with WatermarkStrategy::explicit()";
                Err(Error::WrongStrategy { call: "advance_watermark", needs })
            }
            Signal::Watermark { partition, .. }
            | Signal::Idle(partition)
            | Signal::Active(partition)
            | Signal::FinishPartition(partition) => source.check_partition(partition),
            Signal::Clock(_) | Signal::Emit | Signal::Finish => Ok(()),
        }
    }

    /// Takes in a signal that makes sense.
    pub(crate) fn apply(&mut self, signal: Signal, source: &Source) {
        match signal {
            Signal::Watermark { partition, watermark: END } | Signal::FinishPartition(partition) => {
                self.merge.finish(partition);
            }
            Signal::Watermark { partition, watermark } => {
                self.advance(partition, watermark, source.reactivation)
            }
            Signal::Idle(partition) => {
                self.merge.mark_idle(partition);
            }
            Signal::Active(partition) => {
                self.touch(partition);
                self.merge.mark_active(partition);
            }
            Signal::Clock(now) => self.advance_clock(now),
            Signal::Emit => self.emit(),
            Signal::Finish => {
                for partition in 0..self.sources.len() {
                    self.merge.finish(partition);
                }
            }
        }
    }

    fn advance(&mut self, partition: usize, watermark: i64, reactivation: Reactivation) {
        if self.merge.status(partition) == PartitionStatus::Finished {
            return;
        }
        let before = self.sources[partition].emitted();
        self.sources[partition].explicit(watermark);
        if self.report(partition, before, reactivation == Reactivation::AtOnce) {
            self.merge.refresh();
        }
    }

    /// Partitions that have been without rows for longer than the idle timeout are marked idle.
    fn advance_clock(&mut self, now: i64) {
        if self.clock.is_some_and(|clock| now < clock) {
            return;
        }
        let first = self.clock.is_none();
        self.clock = Some(now);
        self.last_row.get_or_insert(now);
        for partition in 0..self.timers.len() {
            if first {
                self.timers[partition].start(now);
            }
            let active = self.merge.status(partition) == PartitionStatus::Active;
            if active && self.timers[partition].check(now) {
                self.merge.mark_idle(partition);
            }
        }
    }

    fn emit(&mut self) {
        for partition in 0..self.sources.len() {
            if self.merge.status(partition) != PartitionStatus::Finished {
                let before = self.sources[partition].emitted();
                self.sources[partition].emit();
                self.report(partition, before, false);
            }
        }
        self.merge.refresh();
    }

    /// Moves a partition's watermark past the rows of a batch, and notes what each row is judged by.
    pub(crate) fn observe(&mut self, partition: usize, admitted: Admitted, source: &Source) -> Passage {
        let Admitted { batch, times, bounds, counts, goes_on, .. } = admitted;
        self.counts[partition].add(&counts);
        let mut passage = Passage {
            partition,
            batch,
            times,
            bounds,
            first_arrival: self.arrivals,
            before: Before::Constant(NONE),
            floor: self.watermark(),
            ceiling: NONE,
            after: NONE,
        };
        self.arrivals += passage.times.len() as u64;
        if !passage.times.is_empty() {
            self.last_row = self.clock;
        }
        if let Some(highest) = passage.highest()
            && self.merge.status(partition) != PartitionStatus::Finished
        {
            self.observe_rows(&mut passage, (highest, goes_on), source);
        }
        passage.after = self.watermark();
        passage
    }

    fn observe_rows(&mut self, passage: &mut Passage, (highest, goes_on): (i64, bool), source: &Source) {
        let partition = passage.partition;
        let own = self.sources[partition].emitted();
        let any_sign = source.reactivation == Reactivation::AtOnce;
        let marker = source.marker.map(|column| passage.batch.column(column));
        passage.ceiling = self.merge.others_minimum(partition);
        let Passage { times, batch, .. } = &*passage;
        passage.before = self.sources[partition].observe_part(times, highest, batch, marker, goes_on);
        self.touch(partition);
        let simple = self.merge.status(partition) == PartitionStatus::Active && !self.merge.is_pending();
        if !simple {
            // the first rows may change what the others count for
            let before = passage.before.watermarks(&passage.times);
            passage.before = Before::Each(self.merge_row_by_row(partition, own, &before, any_sign));
            (passage.floor, passage.ceiling) = (self.raised, END);
        } else if self.report(partition, own, any_sign) {
            self.merge.refresh();
        }
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
    fn report(&mut self, partition: usize, before: i64, any_sign: bool) -> bool {
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
    fn touch(&mut self, partition: usize) {
        if let Some(timer) = self.timers.get_mut(partition) {
            timer.on_row(self.clock);
        }
    }

    /// Partitions that have run ahead of their alignment group by more than its drift.
    pub(crate) fn paused(&self, source: &Source) -> Vec<usize> {
        let groups = source.alignment.iter();
        let mut paused: Vec<usize> =
            groups.flat_map(|(group, max_drift)| self.merge.paused(group, *max_drift)).collect();
        paused.sort_unstable();
        paused.dedup();
        paused
    }

    /// What has become of the rows of each partition.
    pub(crate) fn metrics(&self) -> Vec<PartitionMetrics> {
        (0..self.sources.len())
            .map(|partition| PartitionMetrics {
                rows: self.counts[partition],
                watermark: self.sources[partition].emitted(),
                watermark_regressions: self.sources[partition].regressions(),
                status: self.merge.status(partition),
            })
            .collect()
    }

    /// Panics if a row is not accounted for.
    pub(crate) fn validate(&self) {
        for counts in &self.counts {
            assert_eq!(
                counts.rows_in,
                counts.taken + counts.dropped_late + counts.no_window + counts.rejected(),
                "every row is accounted for: {counts:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::Schema;

    use super::*;
    use crate::scan::bounds;
    use crate::watermark::Lag;

    /// Times that go up and down, three blocks of them and a part of a fourth.
    fn times() -> Vec<i64> {
        (0..203_i64).map(|row| row + row * 7_919 % 31 - 40).collect()
    }

    fn passage(times: &[i64], before: Before, (floor, ceiling): (i64, i64)) -> Passage {
        let own = before.watermarks(times).last().copied().unwrap_or(NONE);
        Passage {
            partition: 0,
            batch: RecordBatch::new_empty(Schema::empty().into()),
            times: times.to_vec().into(),
            bounds: bounds(times),
            first_arrival: 1_000,
            before,
            floor,
            ceiling,
            after: floor.max(own.saturating_add(3).min(ceiling)),
        }
    }

    #[test]
    fn a_watermark_that_is_asked_for_is_that_of_the_list() {
        let times = times();
        let rising = (0..times.len() as i64).map(|row| row / 5).collect();
        let kinds = [
            Before::Constant(NONE),
            Before::Constant(7),
            Before::RunningMax { max: NONE, lag: Lag { ticks: 20, inclusive: true } },
            Before::RunningMax { max: 90, lag: Lag { ticks: 0, inclusive: false } },
            Before::Each(rising),
        ];
        for before in kinds {
            for limits in [(NONE, END), (30, END), (NONE, 55), (10, 12)] {
                let mut passage = passage(&times, before.clone(), limits);
                let list = passage.watermarks();
                let asked = passage.take_watermarks();
                let mut cursor = Cursor::default();
                for (row, &expected) in list.iter().enumerate() {
                    assert_eq!(asked.before(row), expected, "row {row} of {before:?} in {limits:?}");
                    // every third row, as somebody would who looks at a few
                    if row % 3 == 0 {
                        assert_eq!(asked.before_next(row, &mut cursor), expected, "row {row}, on the way");
                    }
                    assert!(asked.behind_block(row - row % BLOCK) >= expected);
                }
                assert_eq!(asked.before(times.len()), asked.after);
                for watermark in -70..240 {
                    let expected = list.iter().position(|&before| before >= watermark);
                    assert_eq!(asked.reached(watermark), expected.unwrap_or(times.len()), "{watermark}");
                }
            }
        }
    }
}
