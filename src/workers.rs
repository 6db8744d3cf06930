//! Threads: the only place that knows of them.

use std::sync::Arc;

use rayon::ThreadPool;
use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};

use crate::error::{Error, Result};

/// Work on fewer slots than this is not worth telling another thread of.
const WORTH_SHARING: usize = if cfg!(test) { 64 } else { 4_096 };

/// More than any machine has use for, and few enough for a shard each.
const MAX_THREADS: usize = 1 << 12;

/// Nobody but the caller.
static ALONE: Workers = Workers(None);

/// The threads of an operator.
#[derive(Clone, Debug)]
pub(crate) struct Workers(Option<Arc<ThreadPool>>);

impl Workers {
    /// Whether there can be so many threads.
    pub(crate) fn check(threads: usize) -> Result<()> {
        match threads {
            1..=MAX_THREADS => Ok(()),
            _ => Err(Error::invalid("threads", threads, format!("one to {MAX_THREADS}"))),
        }
    }

    pub(crate) fn new(threads: usize) -> Result<Self> {
        if threads == 1 {
            return Ok(Workers(None));
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| Error::invalid("threads", threads, error.to_string()))?;
        Ok(Workers(Some(Arc::new(pool))))
    }

    /// These, if there are so many slots to be worked on that it pays; else nobody but the caller.
    pub(crate) fn worth(&self, slots: usize) -> &Workers {
        if slots < WORTH_SHARING { &ALONE } else { self }
    }

    /// Runs `work` on one of the threads, from which the others are at hand: to wake them costs more if it is done from outside, for
    /// each piece of a call.
    pub(crate) fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// Both, perhaps at the same time.
    pub(crate) fn join<A: Send, B: Send>(
        &self,
        one: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        match &self.0 {
            Some(pool) => pool.join(one, other),
            None => (one(), other()),
        }
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
