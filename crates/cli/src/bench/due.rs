//! The results that a call must give, and how messages speak of them.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};

use super::reference::{Reference, Tallies};
use super::sessions::Place;
use super::tally::Tally;
use super::workload::Step;
use crate::text::watermark_text;

/// What is still expected of a call.
pub(super) enum Due<'a> {
    /// Windows in order of time, the keys of each in any order.
    Windows {
        reference: &'a Reference,
        step: Step,
        starts: std::vec::IntoIter<i64>,
        /// The start of the current one, and what is left of it.
        current: Option<(i64, Tallies)>,
    },
    /// Sessions in order of their ends.
    Sessions { left: HashMap<Place, Tally>, last_end: i64 },
}

impl<'a> Due<'a> {
    pub(super) fn windows(reference: &'a Reference, step: Step) -> Self {
        Due::Windows { reference, step, starts: reference.due().into_iter(), current: None }
    }

    pub(super) fn sessions(left: HashMap<Place, Tally>) -> Self {
        Due::Sessions { left, last_end: i64::MIN }
    }

    /// How messages call a window.
    pub(super) fn place(&self, start: i64) -> String {
        let what = if let Due::Windows { .. } = self { "window" } else { "session" };
        format!("the {what} from {}", time_text(start))
    }

    /// What a result must be that has come.
    pub(super) fn take(&mut self, start: i64, end: i64, key: i64, keys: &Keys) -> Result<Tally, String> {
        if let Due::Windows { current, .. } = self
            && current.as_ref().is_none_or(|(current, _)| *current != start)
        {
            self.close(keys)?;
            self.open(start)?;
        }
        let expected = match self {
            Due::Windows { reference, .. } if end != reference.end(start) + 1 => None,
            Due::Windows { current, .. } => current.as_mut().and_then(|(_, left)| left.remove(&key)),
            Due::Sessions { last_end, .. } if end < *last_end => None,
            Due::Sessions { left, last_end } => {
                *last_end = end;
                left.remove(&(key, start, end))
            }
        };
        expected.ok_or_else(|| self.refuse(start, end, key, keys))
    }

    /// Why a result is not one that must come.
    fn refuse(&self, start: i64, end: i64, key: i64, keys: &Keys) -> String {
        let (place, to) = (format!("{}{}", self.place(start), keys.text(key)), time_text(end));
        match self {
            Due::Windows { reference, .. } if end != reference.end(start) + 1 => {
                format!("{place}: window_end is {to}")
            }
            Due::Windows { .. } => format!("{place}: a result that is not expected, or one twice"),
            Due::Sessions { last_end, .. } if end < *last_end => {
                format!(
                    "{place}: it ends at {to}, and comes behind one that ends at {}",
                    time_text(*last_end)
                )
            }
            Due::Sessions { .. } => format!("{place}, to {to}: a result that is not expected, or one twice"),
        }
    }

    /// Nothing must be left.
    pub(super) fn finish(&mut self, keys: &Keys) -> Result<(), String> {
        self.close(keys)?;
        match self {
            Due::Windows { starts, .. } => match starts.next() {
                Some(start) => Err(format!("{} has not fired", self.place(start))),
                None => Ok(()),
            },
            Due::Sessions { left, .. } => match left.keys().min() {
                Some(&(key, start, _)) => {
                    let (many, place) = (left.len(), self.place(start));
                    Err(format!("{many} sessions have not fired, one{}: {place}", keys.text(key)))
                }
                None => Ok(()),
            },
        }
    }

    /// The next window begins.
    fn open(&mut self, start: i64) -> Result<(), String> {
        let place = self.place(start);
        let Due::Windows { reference, step, starts, current } = self else { return Ok(()) };
        match starts.next() {
            Some(due) if due == start => {}
            Some(due) => return Err(format!("{place} has fired, expected {}", self.place(due))),
            None => return Err(format!("{place} has fired, expected no window")),
        }
        let mut tallies = reference.window(start);
        if *step == Step::MostOfWindow {
            let most = tallies.values().map(|tally| tally.count).max();
            tallies.retain(|_, tally| Some(tally.count) == most);
        }
        *current = Some((start, tallies));
        Ok(())
    }

    /// Nothing must be left of a window.
    fn close(&mut self, keys: &Keys) -> Result<(), String> {
        let Due::Windows { current, .. } = self else { return Ok(()) };
        let Some((start, left)) = current.take() else { return Ok(()) };
        match left.keys().min() {
            None => Ok(()),
            Some(&key) => Err(format!(
                "{}: {} of its results are missing, one{}",
                self.place(start),
                left.len(),
                keys.text(key)
            )),
        }
    }
}

fn time_text(time: i64) -> String {
    watermark_text(time, &DataType::Timestamp(TimeUnit::Millisecond, None))
}

/// Keys as numbers: whole numbers are their own, texts get one by one.
pub(super) struct Keys {
    /// What the key is called, if there is one.
    name: Option<&'static str>,
    texts: HashMap<String, i64>,
}

impl Keys {
    pub(super) fn new(name: Option<&'static str>) -> Self {
        Keys { name, texts: HashMap::new() }
    }

    /// The numbers of the keys in a column.
    pub(super) fn of(&mut self, column: Option<&ArrayRef>, rows: usize) -> Vec<i64> {
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
    pub(super) fn text(&self, key: i64) -> String {
        let Some(name) = self.name else { return String::new() };
        match self.texts.iter().find(|(_, number)| **number == key) {
            Some((text, _)) => format!(", {name} {text:?}"),
            None => format!(", {name} {key}"),
        }
    }
}
