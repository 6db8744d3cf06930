//! Compares every result of a run with the [`Reference`] or the [`Sessions`], while it runs: memory
//! holds open windows only.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, Int64Type, TimestampMillisecondType};
use highwater::{TickUnit, TimeDelta};

use super::drive::Call;
use super::due::{Due, Keys};
use super::load::{Load, times};
use super::reference::Reference;
use super::sessions::Sessions;
use super::tally::{Column, Values, adds_exactly};
use super::workload::{EVENT_TYPE, Step, VIEW, Windows};

/// What a check has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The first difference; `None` if the answer is right.
    pub difference: Option<String>,
    /// The largest relative error of a quantile, if there are any.
    pub quantile_error: Option<f64>,
}

/// A check that is under way.
pub struct Check<'a> {
    load: &'a Load,
    expected: Expected,
    keys: Keys,
    /// Rows so far.
    arrived: u64,
    /// Whether all values so far add up to the same sum in any order.
    exact: bool,
    difference: Option<String>,
    worst: f64,
}

/// What must come out.
enum Expected {
    Windows(Reference),
    Sessions(Sessions),
}

impl Expected {
    fn row(&mut self, partition: usize, time: i64, key: i64, values: &Values<'_>, row: usize) {
        match self {
            Expected::Windows(windows) => windows.row(partition, time, key, values, row),
            Expected::Sessions(sessions) => sessions.row(partition, time, key, values, row),
        }
    }

    fn finish(&mut self) {
        match self {
            Expected::Windows(windows) => windows.finish(),
            Expected::Sessions(sessions) => sessions.finish(),
        }
    }

    fn late(&self) -> u64 {
        match self {
            Expected::Windows(windows) => windows.late,
            Expected::Sessions(sessions) => sessions.late,
        }
    }
}

impl<'a> Check<'a> {
    /// Starts a check.
    pub fn new(load: &'a Load) -> Self {
        let question = &load.question;
        let (bound, partitions) = (milliseconds(question.bound), load.partitions());
        let expected = match question.windows {
            Windows::Aligned { size, slide } => {
                let (size, slide) = (milliseconds(size).max(1), milliseconds(slide).max(1));
                Expected::Windows(Reference::new(size, slide, bound, partitions))
            }
            Windows::Session { gap } => {
                Expected::Sessions(Sessions::new(milliseconds(gap).max(1), bound, partitions))
            }
        };
        let keys = Keys::new(question.key);
        Check { load, expected, keys, arrived: 0, exact: true, difference: None, worst: 0.0 }
    }

    /// Takes the rows of a call and the results that it gave.
    pub fn call(&mut self, call: &Call, results: &[RecordBatch]) {
        if self.difference.is_some() {
            return;
        }
        for (partition, batch) in call {
            self.rows(*partition, batch);
        }
        self.results(results);
    }

    /// Takes the results of the end of input, and the number of late rows.
    pub fn finish(mut self, results: &[RecordBatch], late: u64) -> Verdict {
        if self.difference.is_none() {
            self.expected.finish();
            self.results(results);
        }
        if self.difference.is_none() && late != self.expected.late() {
            self.difference = Some(format!("{late} rows are late, expected {}", self.expected.late()));
        }
        let quantile_error = self.load.question.has_quantiles().then_some(self.worst);
        Verdict { difference: self.difference, quantile_error }
    }

    fn rows(&mut self, partition: usize, batch: &RecordBatch) {
        let question = &self.load.question;
        let times = times(batch);
        let column = Column::of(question.value.and_then(|name| batch.column_by_name(name)));
        self.exact &= adds_exactly(column);
        let picked = question.picked().filter_map(|name| batch.column_by_name(name));
        let values = Values {
            column,
            picked: picked.map(|column| &column.as_primitive::<Int64Type>().values()[..]).collect(),
            times,
            first_arrival: self.arrived,
            keep: question.has_quantiles(),
        };
        self.arrived += times.len() as u64;
        if question.step == Step::Views {
            let campaigns = self.load.campaigns.as_ref();
            let (ads, types) =
                (batch.column(1).as_primitive::<Int32Type>(), batch[EVENT_TYPE].as_primitive::<Int8Type>());
            for row in (0..times.len()).filter(|&row| types.value(row) == VIEW) {
                let campaign = campaigns.map_or(0, |campaigns| campaigns.value(ads.value(row) as usize));
                self.expected.row(partition, times[row], i64::from(campaign), &values, row);
            }
            return;
        }
        let keys = self.keys.of(question.key.and_then(|name| batch.column_by_name(name)), times.len());
        for (row, (&time, &key)) in times.iter().zip(&keys).enumerate() {
            self.expected.row(partition, time, key, &values, row);
        }
    }

    fn results(&mut self, results: &[RecordBatch]) {
        let Check { load, expected, keys, exact, worst, .. } = self;
        let question = &load.question;
        let mut due = match expected {
            Expected::Windows(windows) => Due::windows(windows, question.step),
            Expected::Sessions(sessions) => Due::sessions(sessions.take_due()),
        };
        let mut compare = |batch: &RecordBatch| {
            let bounds = |name| batch[name].as_primitive::<TimestampMillisecondType>().values();
            let (starts, ends) = (bounds("window_start"), bounds("window_end"));
            let numbers = keys.of(question.key.map(|_| batch.column(0)), batch.num_rows());
            for row in 0..batch.num_rows() {
                let (start, end, key) = (starts[row], ends[row], numbers[row]);
                due.take(start, end, key, keys)?
                    .compare(&question.functions, batch, row, *exact, worst)
                    .map_err(|text| format!("{}{}: {text}", due.place(start), keys.text(key)))?;
            }
            Ok(())
        };
        let compared = results.iter().try_for_each(&mut compare);
        self.difference = compared.and_then(|()| due.finish(keys)).err();
        if let Expected::Windows(windows) = expected {
            windows.forget();
        }
    }
}

/// A duration of a question; what has no whole number of milliseconds the operator has refused.
fn milliseconds(delta: TimeDelta) -> i64 {
    delta.ticks(TickUnit::Millisecond).and_then(|ticks| i64::try_from(ticks).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests;
