//! One watermark out of many.

use std::collections::BTreeMap;

use highwater::watermark::{Reactivation, WatermarkMerge};

use super::answer::list_difference;
use super::generator::{Outputs, Said, outputs, show};
use super::json::{index, list, text};
use super::naive_merge::Naive;
use super::trace::{Item, Trace};
use super::verdict::{Rule, Verdict};

/// What a driver needs of a merger: the engine's, and the model's.
pub(crate) trait Merger {
    fn set(&mut self, p: usize, watermark: i64);
    fn advance(&mut self, p: usize, watermark: i64);
    fn refresh(&mut self);
    fn mark_idle(&mut self, p: usize);
    fn mark_active(&mut self, p: usize);
    fn add(&mut self) -> usize;
    fn remove(&mut self, p: usize);
    fn merged(&self) -> i64;
    fn is_idle(&self) -> bool;
}

impl Merger for WatermarkMerge {
    fn set(&mut self, p: usize, watermark: i64) {
        WatermarkMerge::set(self, p, watermark);
    }
    fn advance(&mut self, p: usize, watermark: i64) {
        WatermarkMerge::advance(self, p, watermark);
    }
    fn refresh(&mut self) {
        WatermarkMerge::refresh(self);
    }
    fn mark_idle(&mut self, p: usize) {
        WatermarkMerge::mark_idle(self, p);
    }
    fn mark_active(&mut self, p: usize) {
        WatermarkMerge::mark_active(self, p);
    }
    fn add(&mut self) -> usize {
        WatermarkMerge::add(self)
    }
    fn remove(&mut self, p: usize) {
        WatermarkMerge::remove(self, p);
    }
    fn merged(&self) -> i64 {
        WatermarkMerge::merged(self)
    }
    fn is_idle(&self) -> bool {
        WatermarkMerge::is_idle(self)
    }
}

/// Which of Flink's classes: they differ in what statuses they pass on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Valve,
    Multiplexer,
    Combined,
}

/// A merger behind one of Flink's classes.
struct Driver<M> {
    class: Class,
    merger: M,
    /// The merger's numbers of the trace's inputs.
    numbers: BTreeMap<usize, usize>,
    /// Idle marks that wait for the periodic call.
    deferred_idle: Vec<usize>,
    was_idle: bool,
    outputs: Outputs,
    /// Items that register an input which is there already.
    rejected: Vec<usize>,
}

impl<M: Merger> Driver<M> {
    fn new(class: Class, inputs: usize, merger: M) -> Driver<M> {
        let numbers = (0..inputs).map(|p| (p, p)).collect();
        let (deferred_idle, outputs, rejected) = (Vec::new(), Vec::new(), Vec::new());
        Driver { class, merger, numbers, deferred_idle, was_idle: false, outputs, rejected }
    }

    fn run(mut self, items: &[Item]) -> Result<(Outputs, Vec<usize>), String> {
        for (at, item) in items.iter().enumerate() {
            self.step(at, item).map_err(|error| format!("input {at}: {error}"))?;
        }
        Ok((self.outputs, self.rejected))
    }

    fn number(&self, p: usize) -> Result<usize, String> {
        self.numbers.get(&p).copied().ok_or_else(|| format!("there is no input {p}"))
    }

    fn step(&mut self, at: usize, item: &Item) -> Result<(), String> {
        let before = self.merger.merged();
        let mut passes_status = false;
        match *item {
            Item::Watermark { partition, value, deferred: true } => {
                self.merger.set(self.number(partition)?, value);
            }
            Item::Watermark { partition, value, .. } => {
                self.merger.advance(self.number(partition)?, value);
                // It may have woken an input up; no mark is passed on for that.
                self.was_idle = self.merger.is_idle();
            }
            Item::Register(p) if self.numbers.contains_key(&p) => self.rejected.push(at),
            Item::Register(p) => {
                self.numbers.insert(p, self.merger.add());
            }
            Item::Unregister(p) => {
                self.merger.remove(self.number(p)?);
                self.numbers.remove(&p);
            }
            Item::Idle { partition, deferred: true } => self.deferred_idle.push(self.number(partition)?),
            Item::Idle { partition, .. } => {
                self.merger.mark_idle(self.number(partition)?);
                passes_status = true;
            }
            Item::Active(p) => {
                self.merger.mark_active(self.number(p)?);
                passes_status = true;
            }
            Item::Periodic => {
                let idle = std::mem::take(&mut self.deferred_idle);
                idle.into_iter().for_each(|p| self.merger.mark_idle(p));
                passes_status = true;
            }
            _ => return Err(format!("{item:?} does not belong into a merger's input")),
        }
        // Flink's combined status looks again after each mark, the valve only where it sees a reason.
        if passes_status && self.class != Class::Valve {
            self.merger.refresh();
        }
        if self.merger.merged() > before {
            self.outputs.push((at, Said::Watermark(self.merger.merged())));
        }
        if passes_status {
            self.pass_status(at);
        }
        Ok(())
    }

    fn pass_status(&mut self, at: usize) {
        let idle = self.merger.is_idle();
        let was_idle = std::mem::replace(&mut self.was_idle, idle);
        match (self.class, was_idle, idle) {
            // Says it again whenever it looks, and never takes it back.
            (Class::Multiplexer, _, true) => self.outputs.push((at, Said::Idle)),
            (Class::Multiplexer, _, false) => {}
            (_, false, true) => self.outputs.push((at, Said::Idle)),
            (_, true, false) => self.outputs.push((at, Said::Active)),
            _ => {}
        }
    }
}

pub(crate) fn check(trace: &Trace) -> Result<Verdict, String> {
    let (class, rule) = match text(&trace.spec, "merge")? {
        "valve" => (Class::Valve, Reactivation::WhenCaughtUp),
        "multiplexer" => (Class::Multiplexer, Reactivation::AtOnce),
        "combined" => (Class::Combined, Reactivation::AtOnce),
        other => return Ok(Verdict::NotSupported(format!("merge {other}"))),
    };
    let (inputs, items) = (index(&trace.spec, "partitions")?, trace.items()?);
    let (found, rejected) = Driver::new(class, inputs, WatermarkMerge::new(inputs, rule)).run(&items)?;
    if let Some(different) =
        list_difference("rejected input", &rejected, &expected_rejected(trace)?, usize::to_string)
    {
        return Err(different);
    }
    let expected = outputs(&trace.expected, "outputs")?;
    let difference = |found: &Outputs, expected: &Outputs| list_difference("output", found, expected, show);
    let Some(first) = difference(&found, &expected) else { return Ok(Verdict::Ok) };
    let naive = |end_is_a_watermark| {
        let merger = Naive::new(inputs, rule, end_is_a_watermark);
        Ok::<_, String>(Driver::new(class, inputs, merger).run(&items)?.0)
    };
    if let Some(different) = difference(&found, &naive(false)?) {
        return Err(format!("{first}; by our rule: {different}"));
    }
    match difference(&naive(true)?, &expected) {
        Some(_) => Err(first),
        None => Ok(Verdict::of(vec![Rule::EndedAndIdle])),
    }
}

fn expected_rejected(trace: &Trace) -> Result<Vec<usize>, String> {
    if trace.expected["rejected"].is_null() {
        return Ok(Vec::new());
    }
    list(&trace.expected, "rejected")?.iter().map(|item| index(item, "after_input_index")).collect()
}
