//! Joins of two inputs on their keys, and on time.

mod interval;
mod window;

use arrow_array::ArrayRef;
use arrow_schema::Field;

pub use interval::{IntervalJoin, IntervalJoinBuilder, IntervalPlan, IntervalState, interval_join};
pub use window::{WindowJoin, WindowJoinBuilder, WindowPlan, WindowState, window_join};

use super::OperatorBuilder;
use super::stored::{Bytes, Stored, two_sides};
use crate::error::{Error, Result};
use crate::input::{Input, Source, check_all, find};

/// What is to be joined: on what, and which columns are wanted.
#[derive(Clone, Debug)]
pub struct JoinPlan<O> {
    on: O,
    /// By side; all but the keys where none are chosen.
    columns: [Option<Vec<String>>; 2],
}

impl<O> JoinPlan<O> {
    fn new(on: O) -> Self {
        JoinPlan { on, columns: [None, None] }
    }
}

impl<O> OperatorBuilder<JoinPlan<O>, 2> {
    /// The columns that results have of the left row; by default all but the keys.
    pub fn left_columns<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.process.columns[0] = Some(columns.into_iter().map(Into::into).collect());
        self
    }
    /// The columns that results have of the right row; by default all but the keys.
    pub fn right_columns<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.process.columns[1] = Some(columns.into_iter().map(Into::into).collect());
        self
    }
}

/// What results have of a pair of rows.
#[derive(Debug)]
struct Sides {
    left: Stored,
    right: Stored,
}

/// A pair of rows that belong together; without a right one where a left row has found none.
#[derive(Debug)]
pub struct Joined {
    left: Bytes,
    right: Option<Bytes>,
    /// The last time of their window, if they are joined by window.
    last: i64,
}

impl Sides {
    /// All columns but the keys, or those that were chosen; and their fields in results, behind the `reserved` names.
    fn new(
        [left, right]: [&Source; 2],
        chosen: &[Option<Vec<String>>; 2],
        reserved: &[&str],
        right_may_be_null: bool,
    ) -> Result<(Sides, Vec<Field>)> {
        let stored = |source: &Source, parameter: &str, chosen: &Option<Vec<String>>| {
            let columns = match chosen {
                Some(names) => {
                    names.iter().map(|name| find(&source.schema, parameter, name)).collect::<Result<_>>()?
                }
                None => (0..source.schema.fields().len())
                    .filter(|column| !source.keys.columns().contains(column))
                    .collect(),
            };
            Stored::new(parameter, &source.schema, columns)
        };
        let left_side = stored(left, "left_columns", &chosen[0])?;
        let right_side = stored(right, "right_columns", &chosen[1])?;
        let mut taken: Vec<&str> = left.keys.fields.iter().map(|field| field.name().as_str()).collect();
        taken.extend(reserved);
        let sides = [("left", &left_side), ("right", &right_side)];
        let fields = two_sides(&taken, sides, [false, right_may_be_null])?;
        Ok((Sides { left: left_side, right: right_side }, fields))
    }

    fn of(&self, input: usize) -> &Stored {
        if input == 0 { &self.left } else { &self.right }
    }

    /// What is kept, in words.
    fn describe(&self) -> String {
        format!("[{}], [{}]", self.left.describe(), self.right.describe())
    }

    fn decode(&self, pairs: &[Joined]) -> Result<Vec<ArrayRef>> {
        let mut columns = self.left.decode(pairs.iter().map(|pair| Some(&pair.left)))?;
        columns.extend(self.right.decode(pairs.iter().map(|pair| pair.right.as_ref()))?);
        Ok(columns)
    }
}

/// Bytes that a kept row takes beside its place in a list.
fn heap_size(row: &Bytes) -> usize {
    row.len() + 2 * size_of::<usize>()
}

/// Checks both inputs.
fn check(inputs: &[Input; 2]) -> Result<[Source; 2]> {
    check_all(inputs)?.try_into().map_err(|_| Error::invalid("inputs", "others", "two"))
}
