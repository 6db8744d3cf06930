//! The operator: rows in, results out.

use std::collections::{BTreeMap, BTreeSet};

use crate::aggregate::{Stored, aggregate};
use crate::watermark::Generator;
use crate::window::Window;
use crate::{
    Cadence, Counters, Firing, Function, Guard, Kind, Late, LateFiring, MAX, Merge, NONE, NullPolicy, Op,
    Output, Reactivation, Reason, Rejected, Row, Spec, Strategy, Value,
};

type Key = Vec<Value>;

/// The naive operator. See the crate's documentation for its pseudo-code.
#[derive(Clone, Debug)]
pub struct Oracle {
    spec: Spec,
    merge: Merge,
    generators: Vec<Generator>,
    counters: Vec<Counters>,
    /// When each partition was last active, by the clock; unknown before the first reading.
    last_activity: Vec<Option<i64>>,
    clock: Option<i64>,
    /// The merged watermark up to which windows have fired. Equal to the merge's between calls.
    watermark: i64,
    /// The rows of every window that exists, by key, in order of arrival.
    windows: BTreeMap<Window, BTreeMap<Key, Vec<Stored>>>,
    /// What late rows have changed and is not yet fired again (`Coalesced` only; empty between calls).
    dirty: BTreeSet<(Window, Key)>,
    rows_seen: u64,
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
            clock: None,
            watermark: NONE,
            windows: BTreeMap::new(),
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
            Op::AdvanceClock(reading) => self.advance_clock(*reading),
            Op::EmitWatermarks => self.emit_all(),
            Op::FinishPartition(p) => self.merge.finish(*p),
            Op::Finish => (0..self.spec.partitions).for_each(|p| self.merge.finish(p)),
        }
        self.catch_up(&mut out)?;
        self.fire_dirty(|_| true, &mut out)?;
        if self.spec.late_firing == LateFiring::Coalesced {
            out.fired.sort_by_key(|f| (f.end, f.start));
        }
        Ok(out)
    }

    /// The merged watermark.
    pub fn watermark(&self) -> i64 {
        self.merge.watermark()
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
        assert_eq!(self.watermark, self.merge.watermark(), "windows lag behind the merged watermark");
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
            assert!(!keys.is_empty() && keys.values().all(|rows| !rows.is_empty()), "empty: {window:?}");
        }
    }

    /// Everything that makes a call fail before it starts.
    fn check(&self, op: &Op) -> Result<(), String> {
        let partitions: Vec<usize> = match op {
            Op::Push(p, _)
            | Op::Watermark(p, _)
            | Op::MarkIdle(p)
            | Op::MarkActive(p)
            | Op::FinishPartition(p) => {
                vec![*p]
            }
            Op::PushAll(batches) => batches.iter().map(|(p, _)| *p).collect(),
            Op::AdvanceClock(_) | Op::EmitWatermarks | Op::Finish => vec![],
        };
        if let Some(p) = partitions.iter().find(|&&p| p >= self.spec.partitions) {
            return Err(format!("there is no partition {p}, only {}", self.spec.partitions));
        }
        match op {
            Op::Push(_, rows) => self.check_rows(rows),
            Op::PushAll(batches) => batches.iter().try_for_each(|(_, rows)| self.check_rows(rows)),
            Op::Watermark(..) if self.spec.strategy != Strategy::Explicit => {
                Err(format!("the watermark follows from the rows: {:?}", self.spec.strategy))
            }
            _ => Ok(()),
        }
    }

    fn check_rows(&self, rows: &[Row]) -> Result<(), String> {
        if matches!(self.spec.guard, Guard::Clock(_)) && self.clock.is_none() {
            return Err("the clock has not been read".to_owned());
        }
        if self.spec.null_policy == NullPolicy::Error && rows.iter().any(|row| row.time.is_none()) {
            return Err("a row has no time".to_owned());
        }
        for (function, column) in &self.spec.aggregates {
            let reads = !matches!(function, Function::CountAll | Function::Members);
            if reads && rows.iter().any(|row| *column >= row.values.len()) {
                return Err(format!("a row has no value column {column}"));
            }
        }
        Ok(())
    }

    fn push(&mut self, p: usize, rows: &[Row], out: &mut Output) -> Result<(), String> {
        for row in rows {
            let id = self.rows_seen;
            self.rows_seen += 1;
            self.counters[p].rows_in += 1;
            if let Some(time) = self.accept(p, id, row, out) {
                self.judge(p, id, time, row, out)?;
                self.feed(p, time, row);
                self.catch_up(out)?;
            }
        }
        if self.spec.cadence == Cadence::EveryBatch {
            self.emit(p);
            self.catch_up(out)?;
        }
        Ok(())
    }

    /// The row's time, unless it is unusable. Then the row is counted, handed back and forgotten: it is no activity,
    /// and no generator sees it.
    fn accept(&mut self, p: usize, id: u64, row: &Row, out: &mut Output) -> Option<i64> {
        let counters = &mut self.counters[p];
        let Some(time) = row.time else {
            counters.rejected_null += 1;
            if self.spec.null_policy == NullPolicy::Reject {
                out.rejected.push(Rejected { row: id, reason: Reason::NullTime });
            }
            return None;
        };
        let (reference, tolerance) = match self.spec.guard {
            Guard::None => return Some(time),
            Guard::IngestTime(tolerance) => (row.ingest_time, tolerance),
            Guard::Clock(tolerance) => (self.clock, tolerance),
        };
        let Some(reference) = reference else {
            counters.rejected_reference += 1;
            out.rejected.push(Rejected { row: id, reason: Reason::NullReference });
            return None;
        };
        if time > reference.saturating_add(tolerance) {
            counters.rejected_future += 1;
            out.rejected.push(Rejected { row: id, reason: Reason::Future });
            return None;
        }
        Some(time)
    }

    /// A row is judged by the watermark before it.
    fn judge(&mut self, p: usize, id: u64, time: i64, row: &Row, out: &mut Output) -> Result<(), String> {
        let (watermark, lateness) = (self.watermark, self.spec.allowed_lateness);
        let counters = &mut self.counters[p];
        let all = Window::of(&self.spec, time);
        if all.is_empty() {
            counters.no_window += 1;
            return Ok(());
        }
        let open: Vec<Window> = all.iter().copied().filter(|w| !w.is_expired(watermark, lateness)).collect();
        if open.is_empty() {
            counters.dropped_late += 1;
            out.late.push(Late { row: id, watermark });
            return Ok(());
        }
        counters.taken += 1;
        counters.late_taken += u64::from(watermark != NONE && time <= watermark);
        counters.partly_late += u64::from(open.len() < all.len());

        for window in open {
            let stored = Stored { row: id, time, values: row.values.clone() };
            let keys = self.windows.entry(window).or_default();
            keys.entry(row.key.clone()).or_default().push(stored);
            if window.is_due(watermark) {
                match self.spec.late_firing {
                    LateFiring::PerRow => out.fired.push(self.fire(&window, &row.key, Kind::Late)?),
                    LateFiring::Coalesced => {
                        self.dirty.insert((window, row.key.clone()));
                    }
                }
            }
        }
        Ok(())
    }

    /// The judged row is a sign of life and goes to its partition's generator. A finished partition has none.
    fn feed(&mut self, p: usize, time: i64, row: &Row) {
        self.last_activity[p] = self.clock;
        if self.merge.is_finished(p) {
            return;
        }
        if self.spec.reactivation == Reactivation::AtOnce {
            self.merge.active(p);
        }
        let own = self.merge.own(p);
        if self.spec.strategy == Strategy::Punctuated && row.marker.is_some_and(|w| w < own) {
            self.counters[p].watermark_regressions += 1;
        }
        self.generators[p].see(time, row.marker);
        match self.spec.cadence {
            Cadence::EveryRow => self.emit(p),
            Cadence::Every(interval) => {
                if own == NONE || self.generators[p].proposal() > own.saturating_add(interval) {
                    self.emit(p);
                }
            }
            Cadence::EveryBatch | Cadence::OnRequest => {}
        }
    }

    /// Emits what the partition's generator proposes, if it is news. That wakes the partition.
    fn emit(&mut self, p: usize) {
        let proposal = self.generators[p].proposal();
        if proposal > self.merge.own(p) {
            self.merge.active(p);
            self.merge.set(p, proposal);
        }
    }

    /// The same for all partitions, before the merged watermark moves once.
    fn emit_all(&mut self) {
        for p in 0..self.spec.partitions {
            let proposal = self.generators[p].proposal();
            if proposal > self.merge.own(p) {
                self.merge.active(p);
                self.merge.record(p, proposal);
            }
        }
        self.merge.recompute();
    }

    fn explicit_watermark(&mut self, p: usize, w: i64) {
        if w == MAX {
            self.merge.finish(p);
            return;
        }
        if self.merge.is_finished(p) {
            return;
        }
        self.counters[p].watermark_regressions += u64::from(w < self.merge.own(p));
        if self.spec.reactivation == Reactivation::AtOnce || w > self.merge.own(p) {
            self.merge.active(p);
            self.merge.set(p, w);
        }
    }

    fn advance_clock(&mut self, reading: i64) {
        if self.clock.is_some_and(|clock| reading < clock) {
            return;
        }
        self.clock = Some(reading);
        for p in 0..self.spec.partitions {
            let last = *self.last_activity[p].get_or_insert(reading);
            let quiet = i128::from(reading) - i128::from(last);
            if self.spec.idle_timeout.is_some_and(|timeout| quiet > i128::from(timeout)) {
                self.merge.idle(p);
            }
        }
    }

    /// Brings the windows up to the merged watermark: what became due fires, by end, then start; what expired goes.
    fn catch_up(&mut self, out: &mut Output) -> Result<(), String> {
        let (before, now, lateness) = (self.watermark, self.merge.watermark(), self.spec.allowed_lateness);
        if now == before {
            return Ok(());
        }
        self.watermark = now;
        for (window, keys) in &self.windows {
            if !window.is_due(before) && window.is_due(now) {
                for key in keys.keys() {
                    out.fired.push(self.fire(window, key, Kind::OnTime)?);
                }
            }
        }
        self.fire_dirty(|window| window.is_expired(now, lateness), out)?;
        self.windows.retain(|window, _| !window.is_expired(now, lateness));
        Ok(())
    }

    /// Fires what late rows have changed, in the windows chosen.
    fn fire_dirty(&mut self, chosen: impl Fn(&Window) -> bool, out: &mut Output) -> Result<(), String> {
        let (now, later) =
            std::mem::take(&mut self.dirty).into_iter().partition(|(window, _)| chosen(window));
        self.dirty = later;
        let now: BTreeSet<(Window, Key)> = now;
        for (window, key) in now {
            out.fired.push(self.fire(&window, &key, Kind::Late)?);
        }
        Ok(())
    }

    /// The result of one key in one window, over all rows it holds now.
    fn fire(&self, window: &Window, key: &Key, kind: Kind) -> Result<Firing, String> {
        let (start, end) = window.clipped();
        let rows = &self.windows[window][key];
        let of = |(function, column): &(Function, usize)| {
            aggregate(function, *column, rows)
                .map_err(|problem| format!("window [{start}, {end}), key {key:?}: {problem}"))
        };
        let values = self.spec.aggregates.iter().map(of).collect::<Result<_, _>>()?;
        Ok(Firing { key: key.clone(), start, end, kind, values })
    }
}
