//! How far the inputs have come, and what that says of each row of a batch.

use arrow_array::RecordBatch;
use arrow_buffer::ScalarBuffer;

use super::spread::Spread;
use crate::event_time::Admitted;
use crate::input::Source;
use crate::key::{BatchKeys, Codes};
use crate::metrics::RowCounts;
use crate::progress::{Judged, Passage, Progress, Signal};
use crate::watermark::{END, NONE, PartitionStatus, Reactivation, SavedMerge, WatermarkMerge};

/// How far the inputs have come, each by itself and all together.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) progress: Vec<Progress>,
    /// The inputs' watermarks, if there is more than one.
    merge: WatermarkMerge,
    /// The merged watermark up to which timers have fired.
    pub(crate) watermark: i64,
    /// Places in the order of events that have been given away.
    pub(crate) places: u64,
}

/// A batch whose rows can be trusted, before anything has been changed by it.
pub(crate) struct Prepared {
    pub(crate) input: usize,
    pub(crate) partition: usize,
    pub(crate) keys: BatchKeys,
    /// Rows that have gone on.
    pub(crate) taken: usize,
}

/// A batch on its way to the shards.
pub(crate) struct Job {
    pub(crate) input: usize,
    pub(crate) batch: RecordBatch,
    pub(crate) times: ScalarBuffer<i64>,
    /// The merged watermark before each row.
    pub(crate) watermarks: Vec<i64>,
    /// Where it rises: the row before which it does, and to what; the row behind the last for the watermark after the batch.
    pub(crate) advances: Vec<(usize, i64)>,
    pub(crate) codes: Codes,
    pub(crate) clock: Option<i64>,
    /// The rows of each shard, if there is more than one.
    pub(crate) rows: Vec<Vec<u32>>,
    pub(crate) passage: Passage,
    first_place: u64,
}

impl Standing {
    pub(crate) fn new(sources: &[Source]) -> Self {
        Standing {
            progress: sources.iter().map(Progress::new).collect(),
            merge: WatermarkMerge::new(sources.len(), Reactivation::AtOnce),
            watermark: NONE,
            places: 0,
        }
    }

    /// Another one like this, as it was when it was saved. `merged_as` is what
    /// [`merged_as`](Standing::merged_as) was.
    pub(super) fn restored(
        &self,
        progress: Vec<Progress>,
        merged_as: &[i64],
        watermark: i64,
        places: u64,
    ) -> Result<Standing, String> {
        if merged_as.len() != progress.len() {
            return Err(format!("{} inputs are merged, and there are {}", merged_as.len(), progress.len()));
        }
        let states = progress.iter().zip(merged_as).map(|(progress, &watermark)| {
            let status = match (progress.watermark(), progress.merge.is_idle()) {
                (END, _) => PartitionStatus::Finished,
                (_, true) => PartitionStatus::Idle,
                (_, false) => PartitionStatus::Active,
            };
            SavedMerge { watermark, status, aligned: status == PartitionStatus::Active }
        });
        let merge = match progress.as_slice() {
            [_] => self.merge.clone(),
            _ => WatermarkMerge::restore(Reactivation::AtOnce, watermark, &states.collect::<Vec<_>>())?,
        };
        let restored = Standing { progress, merge, watermark, places };
        for (number, (progress, &merged_as)) in restored.progress.iter().zip(merged_as).enumerate() {
            let own = progress.watermark();
            let (active, single) = (!progress.merge.is_idle(), restored.progress.len() == 1);
            if !single && (merged_as > own || active && merged_as < own) {
                return Err(format!("input {number} is at {own} and cannot count as {merged_as}"));
            }
        }
        match restored.merged() == watermark {
            true => Ok(restored),
            false => Err(format!("the merged watermark cannot be {watermark}")),
        }
    }

    /// The watermark by which each input counts for the merged one.
    pub(super) fn merged_as(&self) -> Vec<i64> {
        (0..self.progress.len()).map(|input| self.merge.saved(input).watermark).collect()
    }

    /// The injected clock, which is one for all inputs.
    pub(crate) fn clock(&self) -> Option<i64> {
        self.progress[0].clock
    }

    /// What the inputs say together.
    pub(crate) fn merged(&self) -> i64 {
        match self.progress.as_slice() {
            [only] => only.watermark(),
            _ => self.merge.merged(),
        }
    }

    /// Takes in a signal that makes sense.
    pub(crate) fn apply(&mut self, input: usize, signal: Signal, source: &Source) {
        self.progress[input].apply(signal, source);
        self.merge_input(input);
    }

    /// Moves the watermarks past the rows of a batch. One whose first rows may take an idle input back in is cut behind each of
    /// them: by any sign of life, or by a watermark that moves with it.
    pub(crate) fn observe(
        &mut self,
        mut batch: Prepared,
        mut admitted: Admitted,
        (source, spread): (&Source, &mut Spread),
        jobs: &mut Vec<Job>,
    ) {
        let wakes = source.reactivation == Reactivation::AtOnce || source.generator.moves_within_batches();
        let may_wake = wakes && self.progress.len() > 1;
        while may_wake && admitted.times.len() > 1 && self.progress[batch.input].merge.is_idle() {
            let rest = admitted.split_off(1);
            let first = std::mem::replace(&mut admitted, rest);
            jobs.push(self.observe_piece(&mut batch, first, source, spread));
        }
        jobs.push(self.observe_piece(&mut batch, admitted, source, spread));
    }

    fn observe_piece(
        &mut self,
        batch: &mut Prepared,
        admitted: Admitted,
        source: &Source,
        spread: &mut Spread,
    ) -> Job {
        let input = batch.input;
        let passage = self.progress[input].observe(batch.partition, admitted, source);
        let mut watermarks = passage.watermarks();
        if self.progress.len() > 1 {
            self.judge(input, &mut watermarks);
            self.merge_input(input);
        }
        let after = self.merged();
        let mut last = std::mem::replace(&mut self.watermark, after);
        let mut advances = Vec::new();
        for (row, watermark) in watermarks.iter().copied().chain([after]).enumerate() {
            if watermark > last {
                advances.push((row, watermark));
                last = watermark;
            }
        }
        let rows = passage.times.len();
        let codes = spread.encode(&mut batch.keys, batch.taken..batch.taken + rows);
        batch.taken += rows;
        let first_place = self.places;
        // one more than rows: what is due after the batch comes before what the next one brings
        self.places += rows as u64 + 1;
        Job {
            input,
            batch: passage.batch.clone(),
            times: passage.times.clone(),
            watermarks,
            advances,
            rows: spread.rows(&codes, source.keys.interns()),
            codes,
            clock: self.clock(),
            passage,
            first_place,
        }
    }

    /// Tells the merge of inputs how far one of them has come.
    fn merge_input(&mut self, input: usize) {
        let progress = &self.progress[input];
        let (watermark, idle) = (progress.watermark(), progress.merge.is_idle());
        if watermark == END {
            self.merge.finish(input);
            return;
        }
        if !idle {
            self.merge.mark_active(input);
        }
        if self.merge.status(input) == PartitionStatus::Active {
            self.merge.advance(input, watermark);
        }
        if idle {
            self.merge.mark_idle(input);
        }
    }

    /// Turns an input's watermark before each row into that of all inputs.
    fn judge(&self, input: usize, watermarks: &mut [i64]) {
        let (floor, others) = (self.merge.merged(), self.merge.others_minimum(input));
        // one that sleeps or has ended does not count, however far it has come by itself
        let counts = self.merge.status(input) == PartitionStatus::Active;
        for watermark in watermarks {
            *watermark = if counts { floor.max(others.min(*watermark)) } else { floor };
        }
    }
}

impl Job {
    /// The place of a row in the order of events.
    #[inline]
    pub(crate) fn row_event(&self, row: usize) -> u64 {
        2 * (self.first_place + row as u64) + 1
    }

    /// The place of the firings that come before a row.
    pub(crate) fn advance_event(&self, row: usize) -> u64 {
        2 * (self.first_place + row as u64)
    }

    /// Counts what became of the rows, of which `late` were handed back.
    pub(crate) fn count(&self, late: &[Judged], counts: &mut RowCounts) {
        let is_late = |time: i64, watermark: i64| time <= watermark && watermark != NONE;
        let judged = self.times.iter().zip(&self.watermarks);
        let all_late = judged.filter(|&(&time, &watermark)| is_late(time, watermark)).count();
        let back = late.iter().filter(|judged| is_late(self.times[judged.row], judged.watermark)).count();
        counts.taken += (self.times.len() - late.len()) as u64;
        counts.dropped_late += late.len() as u64;
        counts.late_taken += (all_late - back) as u64;
    }
}
