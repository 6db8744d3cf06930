//! Partitions side by side: the only place that knows of threads.
//!
//! A call comes with batches of several partitions. What they see of one another is settled first, in the order given
//! (a [`Passage`] holds the merged watermark as each batch finds it). After that the lanes have nothing to say to each other,
//! and each works off its own batches in order.

use rayon::ThreadPool;
use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};

use arrow_array::ArrayRef;

use crate::accumulator::Columns;
use crate::error::{Error, Result};
use crate::key::BatchKeys;
use crate::metrics::RowCounts;
use crate::progress::{Judged, Passage};
use crate::route::{Judge, MORSEL, Router};
use crate::state::{BatchRows, Inputs, Lane, Slices};
use crate::window::Grid;

/// The threads of an operator.
pub(crate) struct Workers(Option<ThreadPool>);

impl Workers {
    pub(crate) fn new(threads: usize) -> Result<Self> {
        if threads == 1 {
            return Ok(Workers(None));
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        Ok(Workers(Some(pool.map_err(|error| Error::invalid("threads", threads, error.to_string()))?)))
    }

    /// `work` on each item, results in the order of the items.
    pub(crate) fn map<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
        match &self.0 {
            Some(pool) if items.len() > 1 => pool.install(|| items.par_iter().map(work).collect()),
            _ => items.iter().map(work).collect(),
        }
    }

    /// As `map`, of items that are given away.
    pub(crate) fn map_each<T: Send, R: Send>(
        &self,
        items: Vec<T>,
        work: impl Fn(T) -> R + Sync + Send,
    ) -> Vec<R> {
        match &self.0 {
            Some(pool) if items.len() > 1 => pool.install(|| items.into_par_iter().map(work).collect()),
            _ => items.into_iter().map(work).collect(),
        }
    }

    /// `work` on each item.
    pub(crate) fn for_each<T: Send>(&self, items: Vec<T>, work: impl Fn(T) + Sync + Send) {
        match &self.0 {
            Some(pool) if items.len() > 1 => pool.install(|| items.into_par_iter().for_each(work)),
            _ => items.into_iter().for_each(work),
        }
    }
}

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
