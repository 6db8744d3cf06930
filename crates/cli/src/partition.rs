//! Which partition a row belongs to: its input, or a column's value.

use std::collections::HashMap;
use std::fmt::Write;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;

use crate::failure::{Failure, Outcome};

/// The partitions by a column's values, numbered in the order in which the values appear. Values are told apart by their
/// text; null is one like any other.
#[derive(Debug, Default)]
pub(crate) struct Values {
    numbers: HashMap<String, usize>,
    null: Option<usize>,
    names: Vec<String>,
}

/// The partition of a value that the first reading has not seen, as when a file grows meanwhile.
const UNKNOWN: &str = "a partition has appeared that was not there when the input was first read";

impl Values {
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The values as text, by number.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Notes the values of a column; refuses more than `most` in all.
    pub(crate) fn learn(&mut self, column: &ArrayRef, name: &str, most: usize) -> Outcome<()> {
        runs(column, |text, _, _| {
            if self.number(text).is_some() {
                return Ok(());
            }
            let number = self.names.len();
            if number == most {
                return Err(Failure::usage(format_args!(
                    "--partition-by {name} has more than {most} values; --max-partitions allows more"
                )));
            }
            match text {
                None => self.null = Some(number),
                Some(text) => {
                    self.numbers.insert(text.to_string(), number);
                }
            }
            self.names.push(text.unwrap_or("null").to_string());
            Ok(())
        })
    }

    fn number(&self, text: Option<&str>) -> Option<usize> {
        match text {
            None => self.null,
            Some(text) => self.numbers.get(text).copied(),
        }
    }

    /// Runs of rows of one partition each: its number, the first row and the number of rows.
    pub(crate) fn split(&self, column: &ArrayRef) -> Outcome<Vec<(usize, usize, usize)>> {
        let mut parts = Vec::new();
        runs(column, |text, start, length| {
            let number = self.number(text).ok_or_else(|| Failure::run(UNKNOWN))?;
            parts.push((number, start, length));
            Ok(())
        })?;
        Ok(parts)
    }
}

/// Calls `each` with every run of equal values: the value's text, the first row, the number of rows.
fn runs(column: &ArrayRef, mut each: impl FnMut(Option<&str>, usize, usize) -> Outcome<()>) -> Outcome<()> {
    let plain = match column.data_type() {
        DataType::Dictionary(_, values) => &arrow_cast::cast(column, values).map_err(Failure::run)?,
        _ => column,
    };
    let options = FormatOptions::new().with_display_error(true);
    let formatter = ArrayFormatter::try_new(plain.as_ref(), &options).map_err(Failure::run)?;
    let strings = plain.as_string_opt::<i32>();
    let write = |row: usize, text: &mut String| {
        text.clear();
        match strings {
            Some(strings) => text.push_str(strings.value(row)),
            // Writing to a string does not fail, and errors of the value are displayed.
            None => drop(write!(text, "{}", formatter.value(row))),
        }
    };
    let (mut current, mut next) = (String::new(), String::new());
    let (mut start, mut current_null) = (0, false);
    for row in 0..plain.len() {
        let null = plain.is_null(row);
        if !null {
            write(row, &mut next);
        }
        if row > 0 && (null != current_null || (!null && next != current)) {
            each((!current_null).then_some(&current), start, row - start)?;
            start = row;
        }
        current_null = null;
        if !null {
            std::mem::swap(&mut current, &mut next);
        }
    }
    if plain.is_empty() {
        Ok(())
    } else {
        each((!current_null).then_some(&current), start, plain.len() - start)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float64Array, StringArray};

    use super::*;

    #[test]
    fn values_are_numbered_as_they_appear() {
        let mut values = Values::default();
        let column: ArrayRef =
            Arc::new(StringArray::from(vec![Some("b"), Some("b"), None, Some("a"), Some("null")]));
        values.learn(&column, "shard", 4).unwrap();
        assert_eq!(values.names(), ["b", "null", "a", "null"]);
        assert_eq!(values.split(&column).unwrap(), [(0, 0, 2), (1, 2, 1), (2, 3, 1), (3, 4, 1)]);
        let more: ArrayRef = Arc::new(StringArray::from(vec!["c"]));
        assert!(matches!(values.split(&more), Err(Failure::Run(text)) if text == UNKNOWN));
        let Err(Failure::Usage(text)) = values.learn(&more, "shard", 4) else {
            panic!("a fifth value is too many")
        };
        assert_eq!(text, "--partition-by shard has more than 4 values; --max-partitions allows more");
    }

    #[test]
    fn other_types_are_told_apart_by_their_text() {
        let mut values = Values::default();
        let column: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None, None, Some(1.5)]));
        values.learn(&column, "x", 9).unwrap();
        assert_eq!(values.names(), ["1.5", "null"]);
        assert_eq!(values.split(&column).unwrap(), [(0, 0, 1), (1, 1, 2), (0, 3, 1)]);
    }
}
