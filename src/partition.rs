//! Partitions side by side.
//!
//! A call comes with batches of several partitions. What they see of one another is settled first, in the order given
//! (a [`Passage`] holds the merged watermark as each batch finds it). After that the lanes have nothing to say to each other,
//! and each works off its own batches in order.

use arrow_array::ArrayRef;

use crate::accumulator::Columns;
use crate::key::BatchKeys;
use crate::metrics::RowCounts;
use crate::progress::{Judged, Passage};
use crate::route::{Judge, MORSEL, Router};
use crate::state::{BatchRows, Inputs, Lane, Slices};
use crate::window::Grid;
use crate::workers::Workers;

/// A batch on its way to the slices.
pub(crate) struct Job {
    pub(crate) passage: Passage,
    keys: BatchKeys,
    columns: Vec<Columns<ArrayRef>>,
    /// What became of its rows.
    pub(crate) counts: RowCounts,
    pub(crate) late: Vec<Judged>,
    pub(crate) dropped: Vec<Judged>,
}

impl Job {
    pub(crate) fn new(passage: Passage, keys: BatchKeys, inputs: &Inputs) -> Self {
        let columns = inputs.of(&passage.batch);
        Job { passage, keys, columns, counts: RowCounts::default(), late: vec![], dropped: vec![] }
    }

    pub(crate) fn rows(&self) -> BatchRows<'_> {
        BatchRows::new(&self.passage, &self.columns)
    }

    /// Judges all rows, and applies the fresh ones.
    fn run(&mut self, lane: &mut Lane, slices: &mut Slices, (grid, inputs): (&Grid, &Inputs)) {
        let passage = &self.passage;
        let mut router = Router::new(grid, Judge::new(passage));
        let rows = BatchRows::new(passage, &self.columns);
        let total = passage.times.len();
        for from in (0..total).step_by(MORSEL) {
            let to = total.min(from + MORSEL);
            let targets = router.morsel(&passage.times, &passage.bounds, from, to);
            if targets.iter().any(|target| !target.blocks.is_empty()) {
                lane.apply(slices, targets, &rows, from..to, &mut self.keys, inputs);
            }
        }
        self.counts = router.counts;
        self.late = router.late;
        self.dropped = router.dropped;
    }
}

/// Runs the jobs of each lane in order, lanes side by side.
pub(crate) fn run(
    jobs: &mut [Job],
    lanes: &mut [Lane],
    fresh: &mut [Slices],
    windows: (&Grid, &Inputs),
    workers: &Workers,
) {
    let count = lanes.len();
    let mut work: Vec<(&mut Lane, &mut Slices, Vec<&mut Job>)> =
        lanes.iter_mut().zip(fresh).map(|(lane, slices)| (lane, slices, Vec::new())).collect();
    for job in jobs.iter_mut().filter(|job| !job.passage.times.is_empty()) {
        work[job.passage.partition % count].2.push(job);
    }
    work.retain(|(_, _, jobs)| !jobs.is_empty());
    workers.for_each(work, |(lane, slices, jobs)| {
        for job in jobs {
            job.run(lane, slices, windows);
        }
    });
}
