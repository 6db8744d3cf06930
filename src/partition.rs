//! Partitions side by side: the only place that knows of threads.
//!
//! A call comes with batches of several partitions. What they see of one another is settled first, in the order given
//! ([`Job`] holds the merged watermark as each batch finds it). After that the lanes have nothing to say to each other,
//! and each works off its own batches in order.

use rayon::ThreadPool;
use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::ScalarBuffer;

use crate::accumulator::Columns;
use crate::builder::Parts;
use crate::error::{Error, Result};
use crate::event_time::Admitted;
use crate::key::BatchKeys;
use crate::metrics::RowCounts;
use crate::route::{Judge, Judged, MORSEL, Router};
use crate::scan::Bounds;
use crate::state::{BatchRows, Lane, Slices};
use crate::watermark::{Before, NONE};

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

    fn for_each<T: Send>(&self, items: Vec<T>, work: impl Fn(T) + Sync + Send) {
        match &self.0 {
            Some(pool) if items.len() > 1 => pool.install(|| items.into_par_iter().for_each(work)),
            _ => items.into_iter().for_each(work),
        }
    }
}

/// A batch whose rows can be trusted, before anything has been changed by it.
pub(crate) struct Prepared {
    pub(crate) partition: usize,
    pub(crate) admitted: Admitted,
    pub(crate) keys: BatchKeys,
}

/// A batch, and all that it needs to know about the others.
pub(crate) struct Job {
    pub(crate) partition: usize,
    pub(crate) batch: RecordBatch,
    pub(crate) times: ScalarBuffer<i64>,
    bounds: Vec<Bounds>,
    pub(crate) keys: BatchKeys,
    pub(crate) columns: Vec<Columns<ArrayRef>>,
    /// The arrival number of its first row.
    pub(crate) first_arrival: u64,
    pub(crate) before: Before,
    pub(crate) floor: i64,
    pub(crate) ceiling: i64,
    /// The merged watermark after it.
    pub(crate) after: i64,
    /// What became of its rows.
    pub(crate) counts: RowCounts,
    pub(crate) late: Vec<Judged>,
    pub(crate) dropped: Vec<Judged>,
}

impl Job {
    pub(crate) fn new(
        partition: usize,
        admitted: Admitted,
        keys: BatchKeys,
        columns: Vec<Columns<ArrayRef>>,
    ) -> Self {
        let Admitted { batch, times, bounds, .. } = admitted;
        Job {
            partition,
            batch,
            times,
            bounds,
            keys,
            columns,
            first_arrival: 0,
            before: Before::Constant(NONE),
            floor: NONE,
            ceiling: NONE,
            after: NONE,
            counts: RowCounts::default(),
            late: vec![],
            dropped: vec![],
        }
    }

    pub(crate) fn rows(&self) -> BatchRows<'_> {
        BatchRows { columns: &self.columns, times: &self.times, first_arrival: self.first_arrival }
    }

    /// The highest event time; none without rows.
    pub(crate) fn highest(&self) -> Option<i64> {
        self.bounds.iter().map(|bounds| bounds.high).max()
    }

    /// Judges all rows, and applies the fresh ones.
    fn run(&mut self, lane: &mut Lane, slices: &mut Slices, parts: &Parts) {
        let judge = Judge::new(&self.before, self.floor, self.ceiling);
        let mut router = Router::new(&parts.grid, judge);
        let rows =
            BatchRows { columns: &self.columns, times: &self.times, first_arrival: self.first_arrival };
        let total = self.times.len();
        for from in (0..total).step_by(MORSEL) {
            let to = total.min(from + MORSEL);
            let targets = router.morsel(&self.times, &self.bounds, from, to);
            if targets.iter().any(|target| !target.blocks.is_empty()) {
                lane.apply(slices, targets, &rows, from..to, &mut self.keys, &parts.inputs);
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
    parts: &Parts,
    workers: &Workers,
) {
    let count = lanes.len();
    let mut work: Vec<(&mut Lane, &mut Slices, Vec<&mut Job>)> =
        lanes.iter_mut().zip(fresh).map(|(lane, slices)| (lane, slices, Vec::new())).collect();
    for job in jobs.iter_mut().filter(|job| !job.times.is_empty()) {
        work[job.partition % count].2.push(job);
    }
    work.retain(|(_, _, jobs)| !jobs.is_empty());
    workers.for_each(work, |(lane, slices, jobs)| {
        for job in jobs {
            job.run(lane, slices, parts);
        }
    });
}
