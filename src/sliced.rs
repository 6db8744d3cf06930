//! Aligned windows that fire by event time, out of the slices that they share.

use arrow_array::ArrayRef;

use crate::builder::Parts;
use crate::error::Result;
use crate::fire::{Fire, Fired, LateFiring};
use crate::output::Output;
use crate::partition::{self, Job};
use crate::progress::Progress;
use crate::snapshot::{Checked, Section};
use crate::state::{Context, Lanes, State};
use crate::watermark::END;
use crate::window::Grid;
use crate::workers::Workers;

/// Open slices, and how windows are made of them.
pub(crate) struct Sliced {
    grid: Grid,
    late_firing: LateFiring,
    pub(crate) lanes: Lanes,
    pub(crate) state: State,
}

impl Sliced {
    pub(crate) fn new(grid: Grid, late_firing: LateFiring, parts: &Parts) -> Self {
        let lanes = Lanes::new(parts.source.partitions, &parts.source.keys);
        let state = State::new(lanes.lanes.len());
        Sliced { grid, late_firing, lanes, state }
    }

    /// Takes in the rows of one call, and fires what they make due.
    pub(crate) fn push(
        &mut self,
        mut jobs: Vec<Job>,
        progress: &mut Progress,
        parts: &Parts,
        workers: &Workers,
        output: &mut Output,
    ) -> Result<Vec<Fired>> {
        partition::run(
            &mut jobs,
            &mut self.lanes.lanes,
            &mut self.state.fresh,
            (&self.grid, &parts.inputs),
            workers,
        );
        for lane in &mut self.lanes.lanes {
            self.state.open.extend(lane.opened.drain(..));
        }
        let mut fired = Vec::new();
        for job in &jobs {
            progress.counts[job.passage.partition].add(&job.counts);
            let rows = job.late.iter().map(|judged| judged.row as u32).collect::<Vec<_>>();
            let codes = match rows.is_empty() {
                true => None,
                false => {
                    let batch = &job.passage.batch;
                    Some(parts.source.keys.encode_rows(batch, &rows, self.lanes.interner())?)
                }
            };
            let mut fire = self.fire(parts, workers, &mut fired);
            if let Some(codes) = codes {
                fire.late_rows(&job.late, &codes, &job.rows());
            }
            fire.up_to(job.passage.after);
            output.late.extend(job.passage.late(&job.dropped, &parts.source)?);
        }
        self.settle(&mut fired, parts, workers);
        Ok(fired)
    }

    /// Fires what is due at a watermark that has moved without rows.
    pub(crate) fn advance(&mut self, watermark: i64, parts: &Parts, workers: &Workers) -> Vec<Fired> {
        let mut fired = Vec::new();
        self.fire(parts, workers, &mut fired).up_to(watermark);
        self.settle(&mut fired, parts, workers);
        fired
    }

    /// Fires what late rows have changed.
    fn settle(&mut self, fired: &mut Vec<Fired>, parts: &Parts, workers: &Workers) {
        self.fire(parts, workers, fired).late_changes(|_, _| true);
        if self.late_firing == LateFiring::Coalesced {
            fired.sort_by_key(|fired| fired.window);
        }
    }

    fn fire<'a>(&'a mut self, parts: &'a Parts, workers: &'a Workers, fired: &'a mut Vec<Fired>) -> Fire<'a> {
        Fire {
            grid: &self.grid,
            inputs: &parts.inputs,
            late_firing: self.late_firing,
            whole: parts.top.is_some(),
            state: &mut self.state,
            lanes: &mut self.lanes,
            workers,
            fired,
        }
    }

    /// Makes batches of what has fired, and keeps the memory of its tables.
    pub(crate) fn emit(
        &mut self,
        fired: Vec<Fired>,
        parts: &Parts,
        workers: &Workers,
        output: &mut Output,
    ) -> Result<()> {
        let keys = (&parts.source.keys, &*self.lanes.interner());
        output.fired = parts.assembler.fired(&fired, &self.grid, keys, workers)?;
        self.lanes.recycle(fired.into_iter().map(|fired| fired.table));
        let State { fresh, sealed, chain, .. } = &mut self.state;
        if self.lanes.forget_dead_keys(fresh, sealed) {
            *chain = Default::default();
        }
        Ok(())
    }

    /// Goes back to a saved state after a call that has failed.
    pub(crate) fn restore(&mut self, saved: State) {
        self.state = saved;
        self.lanes.lanes.iter_mut().for_each(|lane| lane.opened.clear());
    }

    /// The latest end of an open window, as the watermark that reaches it; windows without an end do not count.
    pub(crate) fn latest_end(&self) -> Option<i64> {
        self.state.open.iter().rev().find_map(|&slice| {
            let first = self.grid.first_window_of(slice);
            let windows = std::iter::successors(Some(first), |&window| Some(self.grid.next(window)));
            let windows = windows.take_while(|&window| window <= self.grid.last_window_of(slice));
            windows.map(|window| self.grid.due_at(window)).filter(|&due| due != END).max()
        })
    }

    /// The open slices, for a snapshot.
    pub(crate) fn save<'a>(&'a self, parts: &'a Parts) -> Checked<Section<'a>> {
        let of = Context { grid: &self.grid, inputs: &parts.inputs, keys: &parts.source.keys };
        self.state.save(&self.lanes, of)
    }

    /// Takes in slices that were open when everything due at `fired_to` had fired; `rows` were taken by windows.
    pub(crate) fn restore_slices(
        &mut self,
        pieces: &[ArrayRef],
        fired_to: i64,
        rows: u64,
        parts: &Parts,
    ) -> Checked<()> {
        let of = Context { grid: &self.grid, inputs: &parts.inputs, keys: &parts.source.keys };
        self.state.fired_to = fired_to;
        self.state.restore(pieces, &mut self.lanes, of, rows)
    }

    /// Bytes held.
    pub(crate) fn size(&self) -> usize {
        self.state.size() + self.lanes.size()
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn validate(&self, watermark: i64) {
        self.state.validate(&self.grid);
        assert_eq!(self.state.fired_to, watermark, "everything due has fired");
    }
}
