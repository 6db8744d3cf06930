//! Which rows a window keeps.

use arrow_schema::Schema;

use crate::accumulator::is_number;
use crate::error::{Error, Result};
use crate::input::find;
use crate::time::{TickConverter, TimeDelta};

/// Removes rows from a window when it fires, before (the default) or after its results are computed. What is removed is gone
/// for later firings too, as in Flink.
///
/// ```
/// use highwater::Evictor;
/// assert_eq!(Evictor::count(100).to_string(), "the last 100 rows");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Evictor {
    keeps: Keeps,
    after: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Keeps {
    Last(u64),
    Recent(TimeDelta),
    Near { column: String, threshold: f64 },
}

/// An [`Evictor`] in ticks and column numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EvictorRule {
    pub(crate) keeps: KeepRule,
    pub(crate) after: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum KeepRule {
    Last(u64),
    Recent(i64),
    Near { column: usize, threshold: f64 },
}

impl Evictor {
    /// Keeps the last `rows` rows, in order of arrival.
    pub fn count(rows: u64) -> Self {
        Evictor { keeps: Keeps::Last(rows), after: false }
    }
    /// Keeps rows that are less than `keep` before the latest event time in the window.
    pub fn time(keep: impl Into<TimeDelta>) -> Self {
        Evictor { keeps: Keeps::Recent(keep.into()), after: false }
    }
    /// Removes rows whose value of `column` is `threshold` or more below that of the last row. A null removes nothing.
    pub fn delta(column: impl Into<String>, threshold: f64) -> Self {
        Evictor { keeps: Keeps::Near { column: column.into(), threshold }, after: false }
    }
    /// Removes rows after the results have been computed.
    pub fn after(mut self) -> Self {
        self.after = true;
        self
    }

    pub(crate) fn check(&self, schema: &Schema, ticks: &TickConverter) -> Result<EvictorRule> {
        let keeps = match &self.keeps {
            Keeps::Last(rows) => KeepRule::Last(*rows),
            Keeps::Recent(keep) => KeepRule::Recent(ticks.tolerance("evictor keep", *keep)?),
            Keeps::Near { column, threshold } => {
                let index = find(schema, "evictor", column)?;
                let given = schema.field(index).data_type();
                if !is_number(given) {
                    return Err(Error::ColumnType {
                        parameter: "evictor".into(),
                        column: column.clone(),
                        given: given.to_string(),
                        allowed: "integers, floats and Decimal128".into(),
                    });
                }
                if threshold.is_nan() {
                    return Err(Error::invalid("evictor threshold", threshold, "a number"));
                }
                KeepRule::Near { column: index, threshold: *threshold }
            }
        };
        Ok(EvictorRule { keeps, after: self.after })
    }
}

impl std::fmt::Display for Evictor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.keeps {
            Keeps::Last(rows) => write!(f, "the last {rows} rows"),
            Keeps::Recent(keep) => write!(f, "rows of the last {keep}"),
            Keeps::Near { column, threshold } => write!(f, "rows within {threshold} of the last {column:?}"),
        }?;
        if self.after { write!(f, ", removed after firing") } else { Ok(()) }
    }
}
