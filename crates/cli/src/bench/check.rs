//! Compares every result of a run with the [`Reference`], while it runs: memory holds open windows only.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use highwater::{TickUnit, TimeDelta};

use super::drive::Call;
use super::load::{Load, times};
use super::reference::{Reference, Tallies};
use super::tally::{Values, adds_exactly};
use super::workload::{EVENT_TYPE, Step, VIEW};
use crate::text::watermark_text;

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
    reference: Reference,
    keys: Keys,
    /// Whether all values so far add up to the same sum in any order.
    exact: bool,
    difference: Option<String>,
    worst: f64,
}

impl<'a> Check<'a> {
    /// Starts a check.
    pub fn new(load: &'a Load) -> Self {
        let question = &load.question;
        let ticks = |delta: TimeDelta| {
            delta.ticks(TickUnit::Millisecond).and_then(|ticks| i64::try_from(ticks).ok()).unwrap_or(1)
        };
        let (size, slide) = (ticks(question.size).max(1), ticks(question.slide).max(1));
        Check {
            load,
            reference: Reference::new(
                size,
                slide,
                ticks(question.bound),
                load.partitions(),
                question.has_quantiles(),
            ),
            keys: Keys::default(),
            exact: true,
            difference: None,
            worst: 0.0,
        }
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
            self.reference.finish();
            self.results(results);
        }
        if self.difference.is_none() && late != self.reference.late {
            self.difference = Some(format!("{late} rows are late, expected {}", self.reference.late));
        }
        let quantile_error = self.load.question.has_quantiles().then_some(self.worst);
        Verdict { difference: self.difference, quantile_error }
    }

    fn rows(&mut self, partition: usize, batch: &RecordBatch) {
        let question = &self.load.question;
        let times = times(batch);
        let values = Values::of(question.value.and_then(|name| batch.column_by_name(name)));
        self.exact &= adds_exactly(&values);
        if question.step == Step::Views {
            let campaigns =
                self.load.campaigns.as_ref().map(|campaigns| campaigns.as_primitive::<Int32Type>());
            let (ads, types) =
                (batch.column(1).as_primitive::<Int32Type>(), batch[EVENT_TYPE].as_primitive::<Int8Type>());
            for row in (0..times.len()).filter(|&row| types.value(row) == VIEW) {
                let campaign = campaigns.map_or(0, |campaigns| campaigns.value(ads.value(row) as usize));
                self.reference.row(partition, times[row], i64::from(campaign), &values, row);
            }
            return;
        }
        let keys = self.keys.of(question.key.and_then(|name| batch.column_by_name(name)), times.len());
        for (row, (&time, &key)) in times.iter().zip(&keys).enumerate() {
            self.reference.row(partition, time, key, &values, row);
        }
    }

    fn results(&mut self, results: &[RecordBatch]) {
        let mut windows = Windows { due: self.reference.due().into_iter(), current: None };
        let compared = results
            .iter()
            .try_for_each(|batch| self.batch(batch, &mut windows))
            .and_then(|()| windows.close(&self.keys))
            .and_then(|()| match windows.due.next() {
                Some(start) => Err(format!("{} has not fired", window_text(start))),
                None => Ok(()),
            });
        self.difference = compared.err();
        self.reference.forget();
    }

    fn batch(&mut self, batch: &RecordBatch, windows: &mut Windows) -> Result<(), String> {
        let question = &self.load.question;
        let starts = batch["window_start"].as_primitive::<TimestampMillisecondType>().values();
        let ends = batch["window_end"].as_primitive::<TimestampMillisecondType>().values();
        let keys = self.keys.of(question.key.map(|_| batch.column(0)), batch.num_rows());
        let size = question.size.ticks(TickUnit::Millisecond).unwrap_or_default();
        for row in 0..batch.num_rows() {
            let (start, key) = (starts[row], keys[row]);
            if windows.current.as_ref().is_none_or(|(current, _)| *current != start) {
                windows.close(&self.keys)?;
                windows.open(start, &self.reference, question.step)?;
            }
            let place = || format!("{}{}", window_text(start), self.keys.text(key, question.key));
            if i128::from(ends[row]) != i128::from(start) + size {
                return Err(format!("{}: window_end is {}", place(), time_text(ends[row])));
            }
            let expected = windows.current.as_mut().and_then(|(_, tallies)| tallies.remove(&key));
            let Some(mut expected) = expected else {
                return Err(format!("{}: a result that is not expected, or one twice", place()));
            };
            expected
                .compare(&question.functions, batch, row, self.exact, &mut self.worst)
                .map_err(|text| format!("{}: {text}", place()))?;
        }
        Ok(())
    }
}

/// The windows that are due, and what is still expected of the current one.
struct Windows {
    due: std::vec::IntoIter<i64>,
    current: Option<(i64, Tallies)>,
}

impl Windows {
    fn open(&mut self, start: i64, reference: &Reference, step: Step) -> Result<(), String> {
        match self.due.next() {
            Some(due) if due == start => {}
            Some(due) => {
                return Err(format!("{} has fired, expected {}", window_text(start), window_text(due)));
            }
            None => return Err(format!("{} has fired, expected no window", window_text(start))),
        }
        let mut tallies = reference.window(start);
        if step == Step::MostOfWindow {
            let most = tallies.values().map(|tally| tally.count).max();
            tallies.retain(|_, tally| Some(tally.count) == most);
        }
        self.current = Some((start, tallies));
        Ok(())
    }

    /// Nothing must be left of a window.
    fn close(&mut self, keys: &Keys) -> Result<(), String> {
        let Some((start, left)) = self.current.take() else { return Ok(()) };
        match left.keys().min() {
            None => Ok(()),
            Some(&key) => Err(format!(
                "{}: {} of its results are missing, one{}",
                window_text(start),
                left.len(),
                keys.text(key, Some("key"))
            )),
        }
    }
}

fn time_text(time: i64) -> String {
    watermark_text(time, &DataType::Timestamp(TimeUnit::Millisecond, None))
}

fn window_text(start: i64) -> String {
    format!("the window from {}", time_text(start))
}

/// Keys as numbers: whole numbers are their own, texts get one by one.
#[derive(Default)]
struct Keys {
    texts: HashMap<String, i64>,
}

impl Keys {
    fn of(&mut self, column: Option<&ArrayRef>, rows: usize) -> Vec<i64> {
        let Some(column) = column else { return vec![0; rows] };
        match column.data_type() {
            DataType::Int32 => {
                column.as_primitive::<Int32Type>().values().iter().map(|&key| i64::from(key)).collect()
            }
            DataType::Int64 => column.as_primitive::<Int64Type>().values().to_vec(),
            DataType::Utf8 => {
                let texts = column.as_string::<i32>();
                (0..rows).map(|row| self.number(texts.value(row))).collect()
            }
            _ => {
                let dictionary = column.as_dictionary::<Int32Type>();
                let numbers = self.of(Some(dictionary.values()), dictionary.values().len());
                dictionary.keys().values().iter().map(|&key| numbers[key as usize]).collect()
            }
        }
    }

    fn number(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.texts.get(text) {
            return number;
        }
        let number = self.texts.len() as i64;
        self.texts.insert(text.to_owned(), number);
        number
    }

    /// How messages call a key.
    fn text(&self, key: i64, name: Option<&str>) -> String {
        let Some(name) = name else { return String::new() };
        match self.texts.iter().find(|(_, number)| **number == key) {
            Some((text, _)) => format!(", {name} {text:?}"),
            None => format!(", {name} {key}"),
        }
    }
}

#[cfg(test)]
mod tests;
