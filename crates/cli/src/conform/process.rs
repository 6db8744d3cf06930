//! A process operator, driven by a trace's input.

use std::collections::BTreeSet;

use arrow_array::RecordBatch;
use arrow_schema::{SchemaRef, TimeUnit};
use highwater::process::{KeyedProcess, ProcessOperator};
use highwater::watermark::Reactivation;
use highwater::{Input, Output};
use serde_json::Value as Json;

use super::answer::list_difference;
use super::trace::{Item, Trace};
use super::window::{Watermarks, expected_watermarks, watermarks};

/// Rows of an input, and the operator that takes them.
pub(crate) struct Stream<'a> {
    /// The whole input, with one row for each row of it.
    pub(crate) rows: RecordBatch,
    items: &'a [Item],
    watermarks: Watermarks,
}

/// What the engine gave, item by item.
#[derive(Debug, Default)]
pub(crate) struct Replay<T> {
    /// Results in the engine's own order, each with the item that caused it.
    pub(crate) results: Vec<(usize, T)>,
    /// The merged watermark after the items that moved it.
    pub(crate) watermarks: Vec<(usize, i64)>,
    /// Timers that fired, by item.
    pub(crate) fired: Vec<(usize, u64)>,
}

/// A batch of results, read.
pub(crate) type Read<T> = fn(&RecordBatch) -> Result<Vec<T>, String>;

impl<'a> Stream<'a> {
    /// `rows` is made of the items that are rows.
    pub(crate) fn new(trace: &Trace, items: &'a [Item], rows: RecordBatch) -> Result<Self, String> {
        Ok(Stream { rows, items, watermarks: watermarks(&trace.spec)? })
    }

    /// What the operator is to read.
    pub(crate) fn input(&self, schema: SchemaRef) -> Input {
        Input::new(schema)
            .event_time("ts")
            .event_time_unit(TimeUnit::Millisecond)
            .key("key")
            .watermark(self.watermarks.strategy.clone())
            .cadence(self.watermarks.cadence)
            .partitions(self.watermarks.partitions)
            .reactivation(self.watermarks.reactivation)
    }

    /// Each row in a call of its own, then rows in runs, on one thread and on three: all must say the same in the same
    /// order.
    pub(crate) fn replay<P: KeyedProcess, T: PartialEq + std::fmt::Debug>(
        &self,
        build: impl Fn(usize) -> highwater::Result<ProcessOperator<P>>,
        read: Read<T>,
    ) -> Result<Replay<T>, String> {
        let run = |threads: usize, runs: bool| {
            let operator = build(threads).map_err(|error| format!("the engine refuses: {error}"))?;
            self.drive(operator, runs, read)
        };
        let replay = run(1, false)?;
        for (threads, how) in [(1, "in runs"), (3, "in runs, on three threads")] {
            let other = run(threads, true)?;
            let bare = |replay: &[(usize, T)]| -> Vec<String> {
                replay.iter().map(|(_, result)| format!("{result:?}")).collect()
            };
            let different =
                list_difference("result", &bare(&other.results), &bare(&replay.results), String::clone);
            if let Some(different) = different {
                return Err(format!("rows pushed {how}, against one by one: {different}"));
            }
        }
        Ok(replay)
    }

    fn drive<P: KeyedProcess, T>(
        &self,
        mut operator: ProcessOperator<P>,
        runs: bool,
        read: Read<T>,
    ) -> Result<Replay<T>, String> {
        let mut replay = Replay { results: vec![], watermarks: vec![], fired: vec![] };
        let mut idle = BTreeSet::new();
        let (mut index, mut position) = (0, 0);
        while let Some(item) = self.items.get(index) {
            let (before, fired) = (operator.current_watermark(), operator.metrics().timers_fired);
            let mut length = 1;
            let output = match item {
                Item::Row(row) => {
                    let same = |item: &&Item| matches!(item, Item::Row(r) if r.partition == row.partition);
                    if runs {
                        length = self.items[index..].iter().take_while(same).count();
                    }
                    position += length;
                    operator.push(row.partition, &self.rows.slice(position - length, length))
                }
                other => self.call(&mut operator, &mut idle, other)?,
            };
            let output = output.map_err(|error| format!("input {index}: {error}"))?;
            if !output.late.is_empty() || !output.rejected.is_empty() {
                return Err(format!("input {index}: the engine hands a row back"));
            }
            operator.validate();
            for batch in &output.fired {
                replay.results.extend(read(batch)?.into_iter().map(|result| (index, result)));
            }
            let metrics = operator.metrics();
            if metrics.watermark != before {
                replay.watermarks.push((index, metrics.watermark));
            }
            if metrics.timers_fired != fired {
                replay.fired.push((index, metrics.timers_fired - fired));
            }
            index += length;
        }
        Ok(replay)
    }

    fn call<P: KeyedProcess>(
        &self,
        operator: &mut ProcessOperator<P>,
        idle: &mut BTreeSet<usize>,
        item: &Item,
    ) -> Result<highwater::Result<Output>, String> {
        let behind_valve = self.watermarks.reactivation == Reactivation::WhenCaughtUp;
        Ok(match item {
            Item::Watermark { partition, .. } if behind_valve && idle.contains(partition) => {
                Ok(Output::default())
            }
            Item::Watermark { partition, value, .. } => operator.advance_watermark(*partition, *value),
            Item::Idle { partition, .. } => {
                idle.insert(*partition);
                operator.mark_idle(*partition)
            }
            Item::Active(partition) => {
                idle.remove(partition);
                operator.mark_active(*partition)
            }
            Item::Periodic => operator.emit_watermarks(),
            Item::End => operator.finish(),
            other => return Err(format!("{other:?} does not belong into a stream of rows")),
        })
    }
}

/// The input's rows, as the trace has them.
pub(crate) fn rows<'a>(trace: &'a Trace, items: &'a [Item]) -> impl Iterator<Item = (usize, &'a Json)> {
    let rows = trace.input.iter().zip(items).enumerate();
    rows.filter_map(|(index, (json, item))| matches!(item, Item::Row(_)).then_some((index, json)))
}

/// Where the watermarks are not the expected ones.
pub(crate) fn watermark_difference<T>(trace: &Trace, replay: &Replay<T>) -> Result<Option<String>, String> {
    let show = |(at, value): &(usize, i64)| format!("{value} after input {at}");
    Ok(list_difference("watermark", &replay.watermarks, &expected_watermarks(trace)?, show))
}
