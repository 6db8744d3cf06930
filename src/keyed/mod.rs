//! Windows that each key has for itself: sessions, and whatever fires by another trigger than the end of the window, keeps
//! rows, or takes results back.
//!
//! Aligned windows that fire by event time are made of slices (see `sliced.rs`), many keys at a time. Here every key goes its
//! own way, row by row. Keys are spread over as many shards as there are threads; every shard sees the rows of its keys in
//! order of arrival, and what the shards fire is put in an order that does not know of them.

mod assign;
mod buffer;
mod contents;
mod emission;
mod firing;
mod pane;
mod restored;
mod saved;
mod session;
mod shard;
mod sort;
mod timers;
mod work;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;

pub(crate) use assign::{Assigner, Gaps};
use contents::append;
use emission::{Arrival, Emitted, Origin};
pub(crate) use emission::{Emission, Order, Said};
use pane::Pane;
pub(crate) use shard::Shard;
use sort::sort;
use work::{Arrivals, Judgement, Working};

use crate::accumulator::{Accumulator, Columns, floats};
use crate::block::Block;
use crate::builder::Parts;
use crate::error::{Error, Result};
use crate::evictor::{EvictorRule, KeepRule};
use crate::fire::{Firing, LateFiring, ResultMode};
use crate::function::WindowFunction;
use crate::input::Source;
use crate::key::{BatchKeys, Codes, Interner};
use crate::output::Output;
use crate::progress::{Passage, Progress, Watermarks};
use crate::state::Inputs;
use crate::trigger::{Rule, Trigger, TriggerRule};
use crate::watermark::{END, NONE};
use crate::window::Window;
use crate::workers::Workers;

/// How windows are assigned, when they fire, and what they keep.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) assigner: Assigner,
    pub(crate) trigger: TriggerRule,
    pub(crate) lateness: i64,
    pub(crate) late_firing: LateFiring,
    pub(crate) mode: ResultMode,
    pub(crate) evictor: Option<EvictorRule>,
    pub(crate) function: Option<Function>,
}

/// A user's function, and the schema of what it gives.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) function: Arc<dyn WindowFunction>,
    pub(crate) schema: Arc<Schema>,
}

impl Function {
    pub(crate) fn check(function: &Arc<dyn WindowFunction>, input: &Schema) -> Result<Self> {
        let failed = |message| Error::Aggregate { aggregate: format!("{function:?}"), message };
        let fields = function.output(input).map_err(failed)?;
        Ok(Function { function: function.clone(), schema: Arc::new(Schema::new(fields)) })
    }
}

impl Spec {
    /// Fills in what follows from the kind of window, and refuses what does not go together.
    pub(crate) fn complete(&mut self, window: &Window, trigger: &Trigger) -> Result<()> {
        if self.function.is_some() && self.retracts() {
            let given = "retract, with a window function";
            return Err(Error::invalid(
                "result_mode",
                given,
                "accumulate or discard: its results cannot be kept",
            ));
        }
        if self.trigger.purging && self.retracts() {
            let given = format!("retract, with {trigger}");
            let allowed = "accumulate or discard: what a purging trigger gives is not replaced by anything";
            return Err(Error::invalid("result_mode", given, allowed));
        }
        if self.assigner.is_session() && matches!(self.trigger.when, Rule::Delta { .. }) {
            let given = format!("{trigger}, with {window}");
            return Err(Error::invalid(
                "trigger",
                given,
                "windows that do not merge: its mark cannot be merged",
            ));
        }
        if let Some((size, slide)) = window.counted() {
            if self.evictor.is_some() || *trigger != Trigger::event_time() {
                let given = format!("a trigger or an evictor, with {window}");
                return Err(Error::invalid("window", given, "Window::global with a trigger and an evictor"));
            }
            self.trigger = TriggerRule { when: Rule::Count(slide), purging: size == slide };
            // each window fires once, so there is never anything to take back
            self.mode = ResultMode::Accumulate;
            if size != slide {
                self.evictor = Some(EvictorRule { keeps: KeepRule::Last(size), after: false });
            }
        }
        Ok(())
    }

    fn retracts(&self) -> bool {
        self.mode == ResultMode::Retract
    }

    fn discards(&self) -> bool {
        self.mode == ResultMode::Discard
    }

    /// The watermark at which a window that ends with `last` is gone.
    fn expires_at(&self, last: i64) -> i64 {
        if last == END { END } else { last.saturating_add(self.lateness) }
    }

    /// The watermark at which something happens to a pane next, where `early_at` says when that is earlier.
    fn next_time(&self, pane: &Pane, early_at: impl FnOnce() -> Option<i64>) -> i64 {
        match pane.due {
            true => self.expires_at(pane.last),
            false if self.is_early_by_event_time() => {
                early_at().map_or(pane.last, |early| early.min(pane.last))
            }
            false => pane.last,
        }
    }

    fn fires_at_end(&self) -> bool {
        let by_rows = matches!(self.trigger.when, Rule::Count(_) | Rule::Delta { .. });
        !by_rows || matches!(self.assigner, Assigner::Count)
    }

    fn is_early_by_event_time(&self) -> bool {
        matches!(self.trigger.when, Rule::EarlyEventTime(_))
    }

    /// Whether the clock has passed a multiple of the interval that a trigger waits for.
    pub(crate) fn clock_passed(&self, before: Option<i64>, now: Option<i64>) -> bool {
        match (self.trigger.when, before, now) {
            (Rule::EarlyClock(interval), Some(before), Some(now)) => {
                now.div_euclid(interval) > before.div_euclid(interval)
            }
            _ => false,
        }
    }

    /// Whether rows can come late for their windows.
    fn knows_late(&self) -> bool {
        !matches!(self.assigner, Assigner::Global | Assigner::Count)
    }

    /// What a function has given, if it is what it said.
    fn checked(&self, given: RecordBatch) -> Result<RecordBatch, String> {
        let Some(Function { schema, .. }) = &self.function else { return Ok(given) };
        let types =
            |schema: &Schema| schema.fields().iter().map(|f| f.data_type().clone()).collect::<Vec<_>>();
        let (expected, got) = (types(schema), types(given.schema_ref()));
        if expected != got {
            return Err(format!("it gives columns of types {got:?}, but said {expected:?}"));
        }
        RecordBatch::try_new(schema.clone(), given.columns().to_vec()).map_err(|error| error.to_string())
    }

    /// Whether windows keep their rows.
    pub(crate) fn keeps_rows(&self) -> bool {
        self.evictor.is_some() || self.function.is_some()
    }
}

/// What all shards know of a call.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    spec: &'a Spec,
    inputs: &'a Inputs,
    ladder: &'a Ladder,
    source: &'a Source,
}

/// The merged watermark before each row of a call, batch by batch.
#[derive(Debug, Default)]
pub(crate) struct Ladder(Vec<Watermarks>);

impl Ladder {
    /// The arrival number of the first row that is judged by `watermark` or more, and by what; none if no row is.
    fn reached(&self, watermark: i64) -> Option<(Arrival, i64)> {
        // no claim reaches nothing, not even the lowest time
        let watermark = watermark.max(NONE + 1);
        let rung = self.0.get(self.0.partition_point(|rung| rung.after < watermark))?;
        // the first row behind a batch is judged by what there is after it
        let row = rung.reached(watermark);
        Some((Arrival::of(rung.first_arrival + row as u64), rung.before(row)))
    }
}

/// All that a call has fired, from every shard.
#[derive(Debug, Default)]
pub(crate) struct Fired {
    entries: Vec<Emission>,
    /// The order of the entries, by their number.
    order: Vec<u32>,
    /// How many results fire a window on time that another key's has fired.
    repeated: u64,
    pub(crate) accumulators: Vec<Box<dyn Accumulator>>,
    pub(crate) rows: Vec<RecordBatch>,
}

/// A batch on its way to the shards.
pub(crate) struct Job {
    pub(crate) passage: Passage,
    pub(crate) keys: BatchKeys,
    pub(crate) gaps: Gaps,
}

/// Windows of keys, and what a failed call need not undo.
pub(crate) struct Keyed {
    pub(crate) spec: Spec,
    /// Keys are spread over them by their hash.
    pub(crate) shards: Vec<Shard>,
    pub(crate) interner: Interner,
}

/// What a batch gives, apart from its keys.
struct Batch {
    columns: Vec<Columns<ArrayRef>>,
    deltas: Option<Vec<Option<f64>>>,
    mine: Vec<Vec<Block>>,
}

impl Keyed {
    pub(crate) fn new(spec: Spec, parts: &Parts) -> Self {
        let shards = vec![Shard::new(&spec, &parts.inputs, &parts.source); parts.threads];
        Keyed { spec, shards, interner: Interner::default() }
    }

    /// Takes in the rows of one call, and fires what they make due.
    pub(crate) fn push(
        &mut self,
        mut jobs: Vec<Job>,
        progress: &mut Progress,
        parts: &Parts,
        workers: &Workers,
        output: &mut Output,
    ) -> Result<Fired> {
        let Keyed { spec, shards, interner } = self;
        let ladder = Ladder(jobs.iter_mut().map(|job| job.passage.take_watermarks()).collect());
        let mut codes: Vec<Codes> = jobs.iter().map(|_| Codes::default()).collect();
        let mut batches = Vec::with_capacity(jobs.len());
        for ((job, codes), rung) in jobs.iter_mut().zip(&mut codes).zip(&ladder.0) {
            let Job { passage, keys, gaps } = job;
            let rows = passage.times.len();
            let keys = keys.morsel(0..rows, interner, codes);
            let batch = Batch {
                columns: parts.inputs.of(&passage.batch),
                deltas: match spec.trigger.when {
                    Rule::Delta { column, .. } => Some(floats(passage.batch.column(column))),
                    _ => None,
                },
                mine: keys.shards(rows, shards.len()),
            };
            batches.push((&*passage, keys, &*gaps, batch, rung));
        }
        let call = Call { spec, inputs: &parts.inputs, ladder: &ladder, source: &parts.source };
        let after = progress.watermark();
        let numbered: Vec<(usize, &mut Shard)> = shards.iter_mut().enumerate().collect();
        let done = workers.map_each(numbered, |(number, shard)| {
            let mut working = Working::new(call, shard);
            let judged: Vec<Judgement> = batches
                .iter()
                .map(|(passage, keys, gaps, batch, rung)| {
                    working.rows(&Arrivals {
                        passage,
                        keys,
                        columns: &batch.columns,
                        watermarks: rung,
                        gaps,
                        deltas: batch.deltas.as_deref(),
                        mine: &batch.mine[number],
                    })
                })
                .collect();
            (judged, working.finish(after, false))
        });
        let mut emitted = Vec::with_capacity(done.len());
        let mut judgements: Vec<Judgement> = batches.iter().map(|_| Judgement::default()).collect();
        for (judged, given) in done {
            judgements.iter_mut().zip(judged).for_each(|(all, judged)| all.add(judged));
            emitted.push(given?);
        }
        for ((passage, ..), mut judgement) in batches.iter().zip(judgements) {
            progress.counts[passage.partition].add(&judgement.counts);
            judgement.dropped.sort_unstable_by_key(|judged| judged.row);
            output.late.extend(passage.late(&judgement.dropped, &parts.source)?);
        }
        Ok(Fired::of(emitted, &ladder))
    }

    /// Fires what is due at a watermark that has moved without rows, and then what has waited for the clock.
    pub(crate) fn advance(&mut self, watermark: i64, clock_passed: bool, parts: &Parts) -> Result<Fired> {
        let ladder = Ladder::default();
        let call = Call { spec: &self.spec, inputs: &parts.inputs, ladder: &ladder, source: &parts.source };
        let emitted =
            self.shards.iter_mut().map(|shard| Working::new(call, shard).finish(watermark, clock_passed));
        Ok(Fired::of(emitted.collect::<Result<_>>()?, &ladder))
    }

    /// Makes batches of what has fired.
    pub(crate) fn emit(
        &mut self,
        fired: Fired,
        parts: &Parts,
        workers: &Workers,
        output: &mut Output,
    ) -> Result<()> {
        output.fired = match &self.spec.function {
            None => parts.assembler.lines(&fired, (&parts.source.keys, &self.interner), workers)?,
            Some(function) => {
                parts.assembler.functions(&fired, &function.schema, &parts.source.keys, &self.interner)?
            }
        };
        if parts.source.keys.interns() && self.interner.wants_retain() {
            let mut used = vec![false; self.interner.len()];
            self.shards.iter().for_each(|shard| shard.keys.mark(&mut used));
            let renamed = self.interner.retain(&used);
            self.shards.iter_mut().for_each(|shard| shard.keys.rename(&renamed));
        }
        Ok(())
    }

    /// Open windows, counted once for each key.
    pub(crate) fn panes(&self) -> usize {
        self.shards.iter().map(|shard| shard.panes.len()).sum()
    }

    /// The latest end of an open window, as the watermark that reaches it; windows without an end do not count.
    pub(crate) fn latest_end(&self) -> Option<i64> {
        let panes = self.shards.iter().flat_map(|shard| shard.panes.live().map(|id| shard.panes.get(id)));
        panes.map(|pane| pane.last).filter(|&last| last != END).max()
    }

    /// Bytes held.
    pub(crate) fn size(&self) -> usize {
        self.interner.size() + self.shards.iter().map(Shard::size).sum::<usize>()
    }

    /// See [`Accumulator::magnitude`].
    pub(crate) fn magnitude(&self, inputs: &Inputs) -> u128 {
        self.shards.iter().map(|shard| shard.magnitude(inputs)).max().unwrap_or(0)
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn validate(&self, watermark: i64) {
        self.shards.iter().for_each(|shard| shard.validate(&self.spec, watermark));
    }
}

impl Fired {
    /// What is fired, in order.
    pub(crate) fn entries(&self) -> Vec<&Emission> {
        self.order.iter().map(|&place| &self.entries[place as usize]).collect()
    }

    /// What is a result, in no particular order.
    pub(crate) fn results(&self) -> impl Iterator<Item = &Order> {
        self.entries.iter().map(|entry| &entry.order).filter(|order| order.result)
    }

    /// How many windows have fired on time, counted once for all keys. Windows of rows that are counted are each key's own, and
    /// fire at a row of their own.
    pub(crate) fn windows(&self) -> u64 {
        let on_time = self.results().filter(|order| order.firing == Firing::OnTime);
        on_time.count() as u64 - self.repeated
    }

    /// What all shards have fired, in order.
    fn of(emitted: Vec<Emitted>, ladder: &Ladder) -> Self {
        let mut emitted = emitted.into_iter();
        let first = emitted.next().unwrap_or_default();
        let Emitted { mut entries, mut accumulators, mut rows, .. } = first;
        for more in emitted {
            let before = match more.rows.is_empty() {
                true => accumulators.first().map_or(0, |all| all.len()),
                false => rows.len(),
            };
            entries.extend(more.entries.into_iter().map(|mut entry| {
                entry.origin = Origin::Ready(entry.place() + before as u32);
                entry
            }));
            append(&mut accumulators, &more.accumulators);
            rows.extend(more.rows);
        }
        // entries are large, and seldom need more than the first word of their order
        let mut places: Vec<(i64, u32)> = entries.iter().map(|entry| entry.order.lead).zip(0..).collect();
        sort(&mut places);
        let (mut repeated, mut windows) = (0, Vec::new());
        for same in places.chunk_by_mut(|(lead, _), (other, _)| lead == other).filter(|same| same.len() > 1) {
            // when that was matters only if they have not all waited for the same watermark
            let order = |&(_, place): &(i64, u32)| &entries[place as usize].order;
            let time = order(&same[0]).time;
            if !same.iter().map(order).all(|order| order.arrival.is_none() && order.time == time) {
                for &(_, place) in same.iter() {
                    let order = &mut entries[place as usize].order;
                    let reached = || ladder.reached(order.time).map_or(Arrival::LAST, |(row, _)| row);
                    order.arrival = Some(order.arrival.unwrap_or_else(reached));
                }
            }
            same.sort_unstable_by(|&(_, one), &(_, other)| {
                let order = |place: u32| &entries[place as usize].order;
                order(one).cmp(order(other)).then(one.cmp(&other))
            });
            let orders = same.iter().map(|&(_, place)| &entries[place as usize].order);
            let on_time = orders.filter(|order| order.result && order.firing == Firing::OnTime);
            windows.clear();
            windows.extend(on_time.map(|order| (order.last, order.first, order.arrival)));
            let all = windows.len();
            windows.sort_unstable();
            windows.dedup();
            repeated += (all - windows.len()) as u64;
        }
        let order = places.into_iter().map(|(_, place)| place).collect();
        Fired { entries, order, repeated, accumulators, rows }
    }
}
