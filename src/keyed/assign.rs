//! Which windows a row belongs to, for windows that each key has for itself.

use arrow_array::RecordBatch;
use arrow_schema::DataType;

use crate::accumulator::integers;
use crate::error::{Error, Result};
use crate::input::{Source, find};
use crate::time::{TickUnit, TimeDelta};
use crate::watermark::END;
use crate::window::{Grid, Kind, Window};

/// How windows are assigned, in ticks.
#[derive(Clone, Debug)]
pub(crate) enum Assigner {
    /// Aligned windows.
    Grid(Grid),
    /// Sessions with this gap.
    Session(i64),
    /// Sessions whose gap is in a column, row by row.
    SessionBy(usize),
    /// One window for all time.
    Global,
    /// Windows of so many rows.
    Count,
}

/// The windows of the last row, which are those of every row in the same slice: most often of the next one too.
#[derive(Debug)]
pub(crate) struct Assigned {
    /// From which tick to which.
    first: i64,
    last: i64,
    /// The first and the last tick of each window.
    pub(crate) windows: Vec<(i64, i64)>,
}

impl Assigned {
    const NO_ROW: (i64, i64) = (i64::MAX, i64::MIN);
}

impl Default for Assigned {
    fn default() -> Self {
        let (first, last) = Assigned::NO_ROW;
        Assigned { first, last, windows: Vec::new() }
    }
}

/// The session gaps of a batch.
pub(crate) enum Gaps {
    Same(i64),
    Each(Vec<i64>),
}

impl Gaps {
    #[inline]
    pub(crate) fn of(&self, row: usize) -> i64 {
        match self {
            Gaps::Same(gap) => *gap,
            Gaps::Each(gaps) => gaps[row],
        }
    }
}

impl Assigner {
    /// The windows that a user asks for, in ticks of the input.
    pub(crate) fn check(window: &Window, lateness: i64, source: &Source) -> Result<Self> {
        if window.offset != TimeDelta::ZERO && !window.is_aligned() {
            let given = format!("{} with {window}", window.offset);
            return Err(Error::invalid(
                "window offset",
                given,
                "none: these windows are not aligned to the time line",
            ));
        }
        match &window.kind {
            Kind::Session { gap } => Ok(Assigner::Session(source.ticks.length("session gap", *gap)?)),
            Kind::SessionBy { column } => {
                let index = find(&source.schema, "session gap", column)?;
                let given = source.schema.field(index).data_type();
                let unit = match given {
                    DataType::Duration(unit) => Some(TickUnit::from(*unit)),
                    other if other.is_integer() => Some(source.ticks.unit),
                    _ => None,
                };
                if unit != Some(source.ticks.unit) {
                    return Err(Error::ColumnType {
                        parameter: "session gap".into(),
                        column: column.clone(),
                        given: given.to_string(),
                        allowed: format!(
                            "integers that count {0}s, or a Duration in {0}s",
                            source.ticks.unit
                        ),
                    });
                }
                Ok(Assigner::SessionBy(index))
            }
            Kind::Global => Ok(Assigner::Global),
            Kind::Count { size, slide } if *size == 0 || *slide == 0 => {
                Err(Error::invalid("window", window, "at least one row"))
            }
            Kind::Count { .. } => Ok(Assigner::Count),
            Kind::Aligned { .. } | Kind::Cumulate { .. } | Kind::Calendar { .. } => {
                Ok(Assigner::Grid(Grid::new(window, lateness, &source.ticks)?))
            }
        }
    }

    pub(crate) fn is_session(&self) -> bool {
        matches!(self, Assigner::Session(_) | Assigner::SessionBy(_))
    }

    /// The gaps of a batch's rows.
    ///
    /// # Errors
    /// A gap that is null, or not positive.
    pub(crate) fn gaps(&self, batch: &RecordBatch) -> Result<Gaps> {
        let column = match self {
            Assigner::Session(gap) => return Ok(Gaps::Same(*gap)),
            Assigner::SessionBy(column) => *column,
            _ => return Ok(Gaps::Same(0)),
        };
        let gaps = integers(batch.column(column));
        if let Some(row) = gaps.iter().position(|gap| gap.is_none_or(|gap| gap <= 0)) {
            let given = gaps[row].map_or("null".into(), |gap| gap.to_string());
            let name = batch.schema_ref().field(column).name().clone();
            return Err(Error::invalid(
                format!("session gap in column {name:?}, row {row} of the rows with a usable time"),
                given,
                "a positive number of ticks of the event time",
            ));
        }
        Ok(Gaps::Each(gaps.into_iter().flatten().collect()))
    }

    /// The aligned windows of a row, by end, then start, as their first and last ticks; none in a gap between windows.
    pub(crate) fn windows(&self, time: i64, assigned: &mut Assigned) {
        if (assigned.first..=assigned.last).contains(&time) {
            return;
        }
        let Assigned { first, last, windows } = assigned;
        (*first, *last) = Assigned::NO_ROW;
        windows.clear();
        let Assigner::Grid(grid) = self else {
            (*first, *last) = (i64::MIN, i64::MAX);
            return windows.push((i64::MIN, END));
        };
        let Some(slice) = grid.slice_of(time) else { return };
        (*first, *last) = (slice.first, slice.last);
        let mut window = grid.first_window_of(slice.id);
        while window <= grid.last_window_of(slice.id) {
            windows.push((grid.bounds(window).0, grid.due_at(window)));
            window = grid.next(window);
        }
    }
}
