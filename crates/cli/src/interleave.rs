//! The order of rows over several inputs: a pure function of the rows, never of how they were decoded.
//!
//! Without ingest time the inputs take turns of [`TURN`] rows. With it, rows are merged by ingest time: of the rows at the
//! head of each input the one with the smallest ingest time comes next, of equal ones that of the first input. Inside an
//! input the order never changes, so an ingest time that is null or steps back counts as the largest seen so far.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use arrow_select::concat::concat_batches;

use crate::failure::{Failure, Outcome};
use crate::input::{Batches, Mark};

/// Rows of a turn, and the most that stand in one [`Stretch`].
pub(crate) const TURN: usize = 1_024;

/// Rows of one input that follow each other in the order of all rows.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub(crate) input: usize,
    /// The number of the first row in its input, from 1.
    pub(crate) first_row: u64,
    pub(crate) batch: RecordBatch,
    /// The ingest time of each row in ticks of its column, never falling; empty without ingest time.
    pub(crate) ingest: Vec<i64>,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Item {
    Rows(Stretch),
    /// This input has no more rows.
    Ended(usize),
}

/// How far an input has been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) rows: u64,
    /// The largest ingest time so far; `i64::MIN` without any.
    pub(crate) largest: i64,
    /// Where to read on from, at or before the next row.
    pub(crate) mark: Mark,
}

impl Default for Taken {
    fn default() -> Self {
        Taken { rows: 0, largest: i64::MIN, mark: Mark::default() }
    }
}

/// Where the order of all rows stands, between two items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// By input.
    pub(crate) taken: Vec<Taken>,
    /// The inputs that have rows left, whose turn it is first.
    pub(crate) line: Vec<usize>,
    /// Inputs whose end has not been told yet.
    pub(crate) ended: Vec<usize>,
}

impl Standing {
    /// The beginning.
    pub(crate) fn start(inputs: usize) -> Self {
        Standing { taken: vec![Taken::default(); inputs], line: (0..inputs).collect(), ended: Vec::new() }
    }
}

/// All inputs in one order.
pub(crate) struct Interleaver {
    cursors: Vec<Cursor>,
    order: Order,
    ended: VecDeque<usize>,
}

enum Order {
    /// The inputs that are left, whose turn it is first.
    Turns(VecDeque<usize>),
    /// The head of each input that is left.
    Merge(BinaryHeap<Reverse<(i64, usize)>>),
}

impl Interleaver {
    /// `ingest` is the column to merge by. Each input begins at the mark that `standing` has of it.
    pub(crate) fn new(
        inputs: Vec<Box<dyn Batches>>,
        schema: &SchemaRef,
        ingest: Option<usize>,
        standing: &Standing,
    ) -> Outcome<Self> {
        let cursor = |(batches, taken): (_, &Taken)| Cursor {
            batches,
            schema: schema.clone(),
            ingest,
            batch: RecordBatch::new_empty(schema.clone()),
            at: 0,
            times: Vec::new(),
            largest: taken.largest,
            taken: *taken,
        };
        let mut interleaver = Interleaver {
            cursors: inputs.into_iter().zip(&standing.taken).map(cursor).collect(),
            order: match ingest {
                None => Order::Turns(VecDeque::new()),
                Some(_) => Order::Merge(BinaryHeap::new()),
            },
            ended: standing.ended.iter().copied().collect(),
        };
        for &input in &standing.line {
            interleaver.cursors[input].skip()?;
            interleaver.line_up(input)?;
        }
        Ok(interleaver)
    }

    /// Where it stands.
    pub(crate) fn standing(&self) -> Standing {
        let line = match &self.order {
            Order::Turns(line) => line.iter().copied().collect(),
            Order::Merge(heads) => heads.iter().map(|Reverse((_, input))| *input).collect(),
        };
        let ended = self.ended.iter().copied().collect();
        Standing { taken: self.cursors.iter().map(Cursor::taken).collect(), line, ended }
    }

    /// Puts an input back in line, or among those that have ended.
    fn line_up(&mut self, input: usize) -> Outcome<()> {
        if !self.cursors[input].load()? {
            self.ended.push_back(input);
            return Ok(());
        }
        match &mut self.order {
            Order::Turns(line) => line.push_back(input),
            Order::Merge(heads) => heads.push(Reverse((self.cursors[input].head(), input))),
        }
        Ok(())
    }

    /// The next rows; `None` when all inputs have ended.
    pub(crate) fn next(&mut self) -> Outcome<Option<Item>> {
        if let Some(input) = self.ended.pop_front() {
            return Ok(Some(Item::Ended(input)));
        }
        let (input, stretch) = match &mut self.order {
            Order::Turns(line) => {
                let Some(input) = line.pop_front() else { return Ok(None) };
                (input, self.cursors[input].take(input, |_| true)?)
            }
            Order::Merge(heads) => {
                let Some(Reverse((_, input))) = heads.pop() else { return Ok(None) };
                let next = heads.peek().map(|Reverse(head)| *head);
                let before = |time| next.is_none_or(|next| (time, input) < next);
                (input, self.cursors[input].take(input, before)?)
            }
        };
        self.line_up(input)?;
        Ok(Some(Item::Rows(stretch)))
    }
}

/// A place in an input.
struct Cursor {
    batches: Box<dyn Batches>,
    schema: SchemaRef,
    ingest: Option<usize>,
    batch: RecordBatch,
    at: usize,
    /// The ingest time of each row of `batch`.
    times: Vec<i64>,
    /// Of all rows of `batch` and before it.
    largest: i64,
    /// Up to row `at`, but for its mark, which is where it has been read from.
    taken: Taken,
}

impl Cursor {
    fn taken(&self) -> Taken {
        Taken { mark: self.batches.mark(), ..self.taken }
    }

    /// Passes over the rows between the mark and what has been taken.
    fn skip(&mut self) -> Outcome<()> {
        let mut rows = self.taken.rows.saturating_sub(self.taken.mark.rows);
        while rows > 0 {
            if !self.load()? {
                return Err(Failure::run(format_args!(
                    "an input has ended before row {}, up to which it had been read",
                    self.taken.rows
                )));
            }
            let passed = rows.min((self.batch.num_rows() - self.at) as u64);
            self.at += passed as usize;
            rows -= passed;
        }
        Ok(())
    }

    /// Whether there is a row; reads on if need be.
    fn load(&mut self) -> Outcome<bool> {
        while self.at == self.batch.num_rows() {
            let Some(batch) = self.batches.next()? else { return Ok(false) };
            self.times.clear();
            if let Some(column) = self.ingest {
                let ticks = arrow_cast::cast(batch.column(column), &DataType::Int64).map_err(Failure::run)?;
                let ticks = ticks.as_primitive::<Int64Type>();
                self.times.extend((0..ticks.len()).map(|row| {
                    if ticks.is_valid(row) {
                        self.largest = self.largest.max(ticks.value(row));
                    }
                    self.largest
                }));
            }
            self.batch = batch;
            self.at = 0;
        }
        Ok(true)
    }

    fn head(&self) -> i64 {
        self.times.get(self.at).copied().unwrap_or(i64::MIN)
    }

    /// The rows up to the first whose time is not `before` the head of another input; at most a turn. Pieces of several
    /// batches are put together, so that it does not matter how the rows were decoded.
    fn take(&mut self, input: usize, before: impl Fn(i64) -> bool) -> Outcome<Stretch> {
        let first_row = self.taken.rows + 1;
        let (mut pieces, mut ingest, mut rows) = (Vec::new(), Vec::new(), 0);
        while rows < TURN && self.load()? {
            let most = (self.batch.num_rows() - self.at).min(TURN - rows);
            let length = if self.ingest.is_some() {
                let times = &self.times[self.at..self.at + most];
                let length = times.partition_point(|&time| before(time));
                ingest.extend_from_slice(&times[..length]);
                length
            } else {
                most
            };
            if length > 0 {
                pieces.push(self.batch.slice(self.at, length));
            }
            self.at += length;
            rows += length;
            if length < most {
                break;
            }
        }
        self.taken.rows += rows as u64;
        self.taken.largest = ingest.last().copied().unwrap_or(self.taken.largest);
        let batch = match pieces.len() {
            1 => pieces.remove(0),
            _ => concat_batches(&self.schema, &pieces).map_err(Failure::run)?,
        };
        Ok(Stretch { input, first_row, batch, ingest })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use arrow_schema::{Field, Schema};

    use super::*;

    struct Cut(Vec<RecordBatch>);

    impl Batches for Cut {
        fn next(&mut self) -> Outcome<Option<RecordBatch>> {
            Ok((!self.0.is_empty()).then(|| self.0.remove(0)))
        }
    }

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("seen", DataType::Int64, true)]))
    }

    fn cut(values: &[Option<i64>], rows: usize) -> Box<dyn Batches> {
        let batch = |part: &[Option<i64>]| {
            RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(part.to_vec()))]).unwrap()
        };
        Box::new(Cut(values.chunks(rows).map(batch).collect()))
    }

    /// Each stretch as (input, its rows), each end as (input, nothing).
    fn order(
        inputs: &[Vec<Option<i64>>],
        rows: usize,
        ingest: Option<usize>,
    ) -> Vec<(usize, Vec<Option<i64>>)> {
        let cuts = inputs.iter().map(|values| cut(values, rows)).collect();
        let mut interleaver =
            Interleaver::new(cuts, &schema(), ingest, &Standing::start(inputs.len())).unwrap();
        let mut all = Vec::new();
        while let Some(item) = interleaver.next().unwrap() {
            all.push(match item {
                Item::Ended(input) => (input, vec![]),
                Item::Rows(stretch) => {
                    let column = stretch.batch.column(0).as_primitive::<Int64Type>();
                    (stretch.input, column.iter().collect())
                }
            });
        }
        all
    }

    #[test]
    fn turns_are_of_1024_rows_however_the_inputs_are_cut() {
        let inputs = [
            (0..1500).map(Some).collect(),
            (0..3).map(Some).collect(),
            vec![],
            (0..1024).map(Some).collect(),
        ];
        for rows in [1, 7, 1000, 65_536] {
            let found: Vec<(usize, usize)> =
                order(&inputs, rows, None).iter().map(|(input, rows)| (*input, rows.len())).collect();
            // input 2 is empty; 1 and 3 end with their first turn
            assert_eq!(
                found,
                [(2, 0), (0, 1024), (1, 3), (1, 0), (3, 1024), (3, 0), (0, 476), (0, 0)],
                "{rows} rows at a time"
            );
        }
    }

    #[test]
    fn merging_is_by_ingest_time_then_input() {
        let a = vec![Some(1), Some(5), None, Some(3), Some(9)];
        let b = vec![Some(1), Some(1), Some(5), Some(7)];
        let expected = vec![
            (0, vec![Some(1)]),
            (1, vec![Some(1), Some(1)]),
            // the null and the step back to 3 count as 5, and 5 of the first input comes before 5 of the second
            (0, vec![Some(5), None, Some(3)]),
            (1, vec![Some(5), Some(7)]),
            (1, vec![]),
            (0, vec![Some(9)]),
            (0, vec![]),
        ];
        for rows in [1, 2, 3, 100] {
            assert_eq!(order(&[a.clone(), b.clone()], rows, Some(0)), expected, "{rows} rows at a time");
        }
    }
}
