//! One way through the rows of a workload: what is timed.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{BooleanArray, Int32Array, RecordBatch, TimestampMillisecondArray};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter_record_batch;
use highwater::{Output, WindowOperator};
use multiversion::multiversion;

use super::load::{Load, times};
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
    campaigns: &Int32Array,
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

/// A filter and a join in one loop. The load has checked that every advertisement is in the table.
fn views(
    events: &RecordBatch,
    campaigns: &Int32Array,
    schema: &SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    let [_, ads, types] = events.columns() else {
        return Err(ArrowError::SchemaError("events have a time, an advertisement and a type".into()));
    };
    let (ads, types) = (ads.as_primitive::<Int32Type>().values(), types.as_primitive::<Int8Type>().values());
    let columns = times(events).chunks(WORD).zip(ads.chunks(WORD)).zip(types.chunks(WORD));
    let (mut view_times, mut view_campaigns) = (Vec::with_capacity(ads.len()), Vec::with_capacity(ads.len()));
    for ((times, ads), types) in columns {
        let (mut some_times, mut some_campaigns) = ([0; WORD], [0; WORD]);
        let (mut rest, mut found) = (rows_of_type(types, VIEW), 0);
        while rest != 0 {
            let row = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            some_times[found % WORD] = times[row];
            some_campaigns[found % WORD] = campaigns.values()[ads[row] as usize];
            found += 1;
        }
        view_times.extend_from_slice(&some_times[..found]);
        view_campaigns.extend_from_slice(&some_campaigns[..found]);
    }
    let times =
        TimestampMillisecondArray::from(view_times).with_data_type(schema.field(0).data_type().clone());
    RecordBatch::try_new(schema.clone(), vec![Arc::new(times), Arc::new(Int32Array::from(view_campaigns))])
}

/// So many rows have a bit each in one number.
const WORD: usize = 64;

/// A bit for each event, at most 64, that is of this type.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn rows_of_type(types: &[i8], wanted: i8) -> u64 {
    let marked = |(row, &event): (usize, &i8)| if event == wanted { 1 << row } else { 0 };
    types.iter().enumerate().map(marked).fold(0, |bits, bit| bits | bit)
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
    use arrow_array::{ArrayRef, Int8Array, Int64Array};
    use arrow_schema::{DataType, Field, Schema, TimeUnit};

    use super::*;

    #[test]
    fn views_are_the_events_of_one_type_each_with_its_campaign() {
        let row = |row: i64| (row * 1_000, (row * 7 % 10) as i32, (row % 3) as i8);
        let campaigns = Int32Array::from_iter_values((0..10).map(|ad| ad / 2));
        let schema = |names: &[(&str, DataType)]| {
            let fields = names.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), false));
            Arc::new(Schema::new(fields.collect::<Vec<_>>()))
        };
        let time = DataType::Timestamp(TimeUnit::Millisecond, None);
        let wanted = schema(&[("ts", time.clone()), ("campaign_id", DataType::Int32)]);
        let given = schema(&[("ts", time), ("ad_id", DataType::Int32), ("event_type", DataType::Int8)]);
        // none, some, whole words and more
        for rows in [0, 1, 63, 64, 65, 200] {
            let all = || (0..rows).map(row);
            let columns: Vec<ArrayRef> = vec![
                Arc::new(TimestampMillisecondArray::from_iter_values(all().map(|row| row.0))),
                Arc::new(Int32Array::from_iter_values(all().map(|row| row.1))),
                Arc::new(Int8Array::from_iter_values(all().map(|row| row.2))),
            ];
            let found =
                views(&RecordBatch::try_new(given.clone(), columns).unwrap(), &campaigns, &wanted).unwrap();
            let kept = || all().filter(|row| row.2 == VIEW);
            assert_eq!(times(&found), kept().map(|row| row.0).collect::<Vec<_>>());
            let campaigns = found.column(1).as_primitive::<Int32Type>().values();
            assert_eq!(campaigns, &kept().map(|row| row.1 / 2).collect::<Vec<_>>());
        }
    }

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
