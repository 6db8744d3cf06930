//! One way through the rows of a workload: what is timed.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, BooleanArray, DictionaryArray, Int8Array, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::{FilterBuilder, filter_record_batch};
use highwater::{Output, WindowOperator};

use super::load::Load;
use super::workload::{Step, VIEW};
use crate::failure::{Failure, Outcome};

/// An operator, and what the workload does around it.
pub struct Drive<'a> {
    load: &'a Load,
    operator: WindowOperator,
}

/// Batches that are pushed in one call.
pub type Call = [(usize, RecordBatch)];

impl Load {
    /// The calls of a run: one for a batch, or for a batch of every partition.
    pub fn calls(&self) -> impl ExactSizeIterator<Item = &Call> {
        self.batches.chunks(self.partitions())
    }
}

impl<'a> Drive<'a> {
    /// A new operator.
    pub fn new(load: &'a Load) -> Outcome<Self> {
        Ok(Drive { load, operator: load.operator()? })
    }

    /// Pushes the batches of a call; gives the results.
    pub fn push(&mut self, call: &Call) -> Outcome<Vec<RecordBatch>> {
        match (self.load.question.step, &self.load.campaigns) {
            (Step::Views, Some(campaigns)) => {
                let views = views_of(call, campaigns, self.load.operator_schema(), self.load.threads())?;
                self.push_all(&views)
            }
            _ => self.push_all(call),
        }
    }

    fn push_all(&mut self, call: &Call) -> Outcome<Vec<RecordBatch>> {
        let output = match call {
            [(0, batch)] => self.operator.push(0, batch),
            _ => self.operator.push_all(call),
        };
        self.results(output)
    }

    /// Ends the input; gives the last results.
    pub fn finish(&mut self) -> Outcome<Vec<RecordBatch>> {
        let output = self.operator.finish();
        self.results(output)
    }

    fn results(&self, output: highwater::Result<Output>) -> Outcome<Vec<RecordBatch>> {
        let fired = output.map_err(Failure::run)?.fired;
        match self.load.question.step {
            Step::MostOfWindow => most_of_window(&fired).map_err(Failure::run),
            Step::Plain | Step::Views => Ok(fired),
        }
    }

    /// Pushes everything; gives the number of results.
    pub fn all(mut self) -> Outcome<u64> {
        let count =
            |batches: Vec<RecordBatch>| batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        let mut rows = 0;
        for call in self.load.calls() {
            rows += count(self.push(call)?);
        }
        rows += count(self.finish()?);
        Ok(rows)
    }

    /// The operator.
    pub fn operator(&self) -> &WindowOperator {
        &self.operator
    }
}

/// The views among the events of a call, each with its campaign; the batches side by side on so many threads.
fn views_of(
    call: &Call,
    campaigns: &ArrayRef,
    schema: &SchemaRef,
    threads: usize,
) -> Outcome<Vec<(usize, RecordBatch)>> {
    let some = |part: &Call| -> Result<Vec<_>, ArrowError> {
        part.iter().map(|(partition, batch)| Ok((*partition, views(batch, campaigns, schema)?))).collect()
    };
    let share = call.len().div_ceil(threads.max(1)).max(1);
    if share >= call.len() {
        return some(call).map_err(Failure::run);
    }
    std::thread::scope(|scope| {
        let parts: Vec<_> = call.chunks(share).map(|part| scope.spawn(|| some(part))).collect();
        let mut all = Vec::with_capacity(call.len());
        for part in parts {
            let part = part.join().map_err(|_| Failure::run("a thread that filters rows has panicked"))?;
            all.extend(part.map_err(Failure::run)?);
        }
        Ok(all)
    })
}

/// A dictionary is a join: its keys are the advertisements as they are, its values the table of their campaigns. Nothing is
/// done for a row but to filter it.
fn views(events: &RecordBatch, campaigns: &ArrayRef, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let [times, ads, types] = events.columns() else {
        return Err(ArrowError::SchemaError("events have a time, an advertisement and a type".into()));
    };
    let keep = arrow_ord::cmp::eq(types, &Int8Array::new_scalar(VIEW))?;
    let filter = FilterBuilder::new(&keep).optimize().build();
    let ads = filter.filter(ads)?.as_primitive::<Int32Type>().clone();
    let campaign = DictionaryArray::try_new(ads, campaigns.clone())?;
    RecordBatch::try_new(schema.clone(), vec![filter.filter(times)?, Arc::new(campaign)])
}

/// The rows whose count is the highest of their window. A window's rows are side by side, perhaps in several batches.
fn most_of_window(fired: &[RecordBatch]) -> Result<Vec<RecordBatch>, ArrowError> {
    let columns = |batch: &RecordBatch| {
        let starts = batch["window_start"].as_primitive::<TimestampMillisecondType>().values().clone();
        (starts, batch["count"].as_primitive::<Int64Type>().values().clone())
    };
    // The windows in order: start and highest count.
    let mut peaks: Vec<(i64, i64)> = Vec::new();
    for batch in fired {
        let (starts, counts) = columns(batch);
        for (&start, &count) in starts.iter().zip(counts.iter()) {
            match peaks.last_mut() {
                Some((last, peak)) if *last == start => *peak = (*peak).max(count),
                _ => peaks.push((start, count)),
            }
        }
    }
    let mut windows = peaks.iter();
    let mut window = windows.next();
    let mut kept = Vec::with_capacity(fired.len());
    for batch in fired {
        let (starts, counts) = columns(batch);
        let keep = starts.iter().zip(counts.iter()).map(|(&start, &count)| {
            if window.is_some_and(|(current, _)| *current != start) {
                window = windows.next();
            }
            window.is_some_and(|(_, peak)| *peak == count)
        });
        let keep = BooleanArray::new(keep.collect::<BooleanBuffer>(), None);
        kept.push(filter_record_batch(batch, &keep)?);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, TimestampMillisecondArray};

    use super::*;

    #[test]
    fn all_rows_with_the_highest_count_stay_and_windows_may_be_cut() {
        let batch = |rows: &[(i64, i64, i64)]| {
            let column = |get: fn(&(i64, i64, i64)) -> i64| rows.iter().map(get).collect::<Vec<_>>();
            RecordBatch::try_from_iter([
                ("auction", Arc::new(Int64Array::from(column(|row| row.0))) as ArrayRef),
                ("window_start", Arc::new(TimestampMillisecondArray::from(column(|row| row.1)))),
                ("count", Arc::new(Int64Array::from(column(|row| row.2)))),
            ])
            .unwrap()
        };
        let fired =
            [batch(&[(1, 0, 5), (2, 0, 5), (3, 0, 4), (4, 2, 1), (5, 2, 2)]), batch(&[(6, 2, 3), (7, 4, 1)])];
        let kept = most_of_window(&fired).unwrap();
        let auctions: Vec<i64> = kept
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
            .collect();
        assert_eq!(auctions, [1, 2, 6, 7]);
    }
}
