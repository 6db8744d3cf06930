//! The operator: rows in, results out.

use std::collections::{BTreeMap, BTreeSet};

use crate::count::CountWindows;
use crate::pane::Pane;
use crate::watermark::Generator;
use crate::window::Window;
use crate::{Counters, Firing, LateFiring, Merge, NONE, Op, Output, Row, Spec, Value, Windows};

type Key = Vec<Value>;

/// The naive operator. See the crate's documentation for its pseudo-code.
#[derive(Clone, Debug)]
pub struct Oracle {
    pub(crate) spec: Spec,
    pub(crate) merge: Merge,
    pub(crate) generators: Vec<Generator>,
    pub(crate) counters: Vec<Counters>,
    /// When each partition was last active, by the clock; unknown before the first reading.
    pub(crate) last_activity: Vec<Option<i64>>,
    /// When any partition last had a row.
    pub(crate) last_row: Option<i64>,
    pub(crate) clock: Option<i64>,
    /// The watermark up to which windows have fired. Equal to the merged one between calls.
    pub(crate) watermark: i64,
    /// To where quiet has raised the watermark.
    pub(crate) flushed: i64,
    /// Every window that exists, by key.
    pub(crate) windows: BTreeMap<Window, BTreeMap<Key, Pane>>,
    /// Those that count rows.
    pub(crate) count_windows: CountWindows,
    /// What late rows have changed and is not yet fired again (`Coalesced` only; empty between calls).
    pub(crate) dirty: BTreeSet<(Window, Key)>,
    pub(crate) rows_seen: u64,
}

impl Oracle {
    /// An operator that has seen nothing. Panics if the spec makes no sense.
    pub fn new(spec: Spec) -> Oracle {
        spec.check();
        Oracle {
            merge: Merge::new(spec.partitions, spec.reactivation),
            generators: vec![Generator::new(spec.strategy.clone()); spec.partitions],
            counters: vec![Counters::default(); spec.partitions],
            last_activity: vec![None; spec.partitions],
            last_row: None,
            clock: None,
            watermark: NONE,
            flushed: NONE,
            windows: BTreeMap::new(),
            count_windows: CountWindows::default(),
            dirty: BTreeSet::new(),
            rows_seen: 0,
            spec,
        }
    }

    /// Applies one call. An error found in the input (a null time by policy, no clock, no such partition or column)
    /// leaves the operator as it was; after an error in an aggregate (a sum that does not fit) it is unusable.
    pub fn apply(&mut self, op: &Op) -> Result<Output, String> {
        self.check(op)?;
        let mut out = Output::default();
        match op {
            Op::Push(p, rows) => self.push(*p, rows, &mut out)?,
            Op::PushAll(batches) => {
                for (p, rows) in batches {
                    self.push(*p, rows, &mut out)?;
                }
            }
            Op::Watermark(p, w) => self.explicit_watermark(*p, *w),
            Op::MarkIdle(p) => self.merge.idle(*p),
            Op::MarkActive(p) => {
                self.merge.active(*p);
                self.last_activity[*p] = self.clock;
            }
            Op::AdvanceClock(reading) => self.advance_clock(*reading, &mut out)?,
            Op::EmitWatermarks => self.emit_all(),
            Op::FinishPartition(p) => self.merge.finish(*p),
            Op::Finish => (0..self.spec.partitions).for_each(|p| self.merge.finish(p)),
        }
        self.settle(out)
    }

    /// One row of a batch that goes on, for those who do something of their own with each row. What comes of it is what would
    /// come of a batch of this row, but that its end is left to [`end_batch`](Oracle::end_batch).
    pub fn apply_row(&mut self, p: usize, row: &Row) -> Result<Output, String> {
        let rows = std::slice::from_ref(row);
        self.check(&Op::Push(p, rows.to_vec()))?;
        let mut out = Output::default();
        self.take_rows(p, rows, &mut out)?;
        self.settle(out)
    }

    /// The end of a batch whose rows were given one by one.
    pub fn end_batch(&mut self, p: usize) -> Result<Output, String> {
        self.apply(&Op::Push(p, vec![]))
    }

    fn settle(&mut self, mut out: Output) -> Result<Output, String> {
        self.catch_up(&mut out)?;
        self.fire_dirty(|_| true, &mut out)?;
        if self.spec.late_firing == LateFiring::Coalesced {
            out.fired = self.by_window(&out.fired);
        }
        Ok(out)
    }

    /// The merged watermark.
    pub fn watermark(&self) -> i64 {
        self.merge.watermark().max(self.flushed)
    }

    /// The partition's emitted watermark; `MAX` once it has finished.
    pub fn partition_watermark(&self, p: usize) -> i64 {
        self.merge.own(p)
    }

    /// The partition's counters.
    pub fn counters(&self, p: usize) -> &Counters {
        &self.counters[p]
    }

    /// Whether the partition is idle.
    pub fn is_idle(&self, p: usize) -> bool {
        self.merge.is_idle(p)
    }

    /// The partitions that are too far ahead of the slowest one. Those that are idle, finished or have not spoken
    /// are neither reported nor waited for.
    pub fn paused(&self) -> Vec<usize> {
        let Some(max_drift) = self.spec.max_drift else { return Vec::new() };
        let counts = |p: &usize| {
            let silent = self.merge.own(*p) == NONE;
            !self.merge.is_idle(*p) && !self.merge.is_finished(*p) && !silent
        };
        let group: Vec<usize> = (0..self.spec.partitions).filter(counts).collect();
        let Some(slowest) = group.iter().map(|&p| self.merge.own(p)).min() else { return Vec::new() };
        let limit = slowest.saturating_add(max_drift);
        group.into_iter().filter(|&p| self.merge.own(p) > limit).collect()
    }

    /// Panics if an invariant does not hold. To be called between calls, while no aggregate has failed.
    pub fn validate(&self) {
        self.merge.validate();
        assert_eq!(self.watermark, self.watermark(), "windows lag behind the merged watermark");
        assert!(self.dirty.is_empty(), "a late firing is owed");
        for (p, c) in self.counters.iter().enumerate() {
            let rejected = c.rejected_null + c.rejected_future + c.rejected_reference;
            assert_eq!(
                c.rows_in,
                c.taken + c.dropped_late + c.no_window + rejected,
                "partition {p} lost a row"
            );
            assert!(c.partly_late <= c.late_taken && c.late_taken <= c.taken, "partition {p}: {c:?}");
        }
        let rows_in: u64 = self.counters.iter().map(|c| c.rows_in).sum();
        assert_eq!(rows_in, self.rows_seen, "a row belongs to no partition");
        for (window, keys) in &self.windows {
            assert!(
                !window.is_expired(self.watermark, self.spec.allowed_lateness),
                "expired, but kept: {window:?}"
            );
            let may_be_empty = self.spec.empties() || self.spec.evictor.is_some();
            let is_empty = |pane: &Pane| pane.rows.is_empty() && !may_be_empty;
            assert!(!keys.is_empty() && !keys.values().any(is_empty), "empty: {window:?}");
            let merges = |other: &Window| other != window && other.touches(window);
            let touching = self.windows.iter().filter(|(other, _)| self.spec.has_sessions() && merges(other));
            for (other, theirs) in touching {
                let both = keys.keys().find(|key| theirs.contains_key(*key));
                assert!(both.is_none(), "key {both:?} has two sessions that touch: {window:?}, {other:?}");
            }
        }
    }

    /// The firings of a call by end, then start; of one window in order of events. A retraction stays with the firing that
    /// supersedes it. Sessions of one end stay in order of events too, for one of them may have become the other. Count windows
    /// have no other order than that.
    fn by_window(&self, fired: &[Firing]) -> Vec<Firing> {
        let place = |firing: &Firing| match self.spec.window {
            Windows::Count { .. } => (0, 0),
            _ if self.spec.has_sessions() => (firing.end, 0),
            _ => (firing.end, firing.start),
        };
        let mut superseding: Vec<&[Firing]> = fired.split_inclusive(|firing| !firing.retraction).collect();
        superseding.sort_by_key(|group| group.last().map(place));
        superseding.concat()
    }
}
