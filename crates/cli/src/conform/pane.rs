//! What one key has in one window of the naive model, and what its trigger remembers of it.

use super::answer::{Column, Value};
use super::engine::Setup;
use super::grid::Held;
use super::model::Rules;
use super::trace::Row;
use super::when::{Evictor, Keeps, When};

#[derive(Debug)]
pub(crate) struct Pane<'a> {
    pub(crate) held: Held,
    /// Whether the watermark has come to the end.
    pub(crate) due: bool,
    /// In order of arrival, by input index.
    rows: Vec<(usize, &'a Row)>,
    counted: u64,
    /// When it fires early next.
    pub(crate) early: Option<i64>,
    /// The value at the last firing.
    mark: Option<i64>,
}

impl<'a> Pane<'a> {
    pub(crate) fn new(held: Held, due: bool) -> Self {
        Pane { held, due, rows: Vec::new(), counted: 0, early: None, mark: None }
    }

    /// Takes over what a session that has become part of this one had.
    pub(crate) fn absorb(&mut self, other: Pane<'a>) {
        self.rows.extend(other.rows);
        self.rows.sort_by_key(|(index, _)| *index);
        self.counted += other.counted;
        self.early = self.early.into_iter().chain(other.early).min();
    }

    /// Takes a row. Returns whether it makes the window fire.
    pub(crate) fn take(&mut self, index: usize, row: &'a Row, setup: &Setup, rules: Rules) -> bool {
        self.rows.push((index, row));
        if self.due && setup.trigger.is_by_time() {
            return true;
        }
        match setup.trigger.when {
            When::EventTime => false,
            When::EarlyCount(n) | When::Count(n) => {
                self.counted += 1;
                let full = self.counted >= n;
                if full {
                    self.counted = 0;
                }
                full
            }
            When::EarlyEventTime(interval) => {
                let (ts, interval) = (i128::from(row.ts), i128::from(interval));
                let behind = if rules.truncating { ts % interval } else { ts.rem_euclid(interval) };
                let next = (ts - behind + interval).min(self.held.due.into()) as i64;
                self.early.get_or_insert(next);
                false
            }
            When::Delta(threshold) => {
                let mark = *self.mark.get_or_insert(row.value);
                let far = row.value - mark > threshold;
                if far {
                    self.mark = Some(row.value);
                }
                far
            }
        }
    }

    /// The values of a firing, which may change what is left; none if there is nothing.
    pub(crate) fn fire(&mut self, setup: &Setup) -> Option<Vec<Value>> {
        if self.rows.is_empty() {
            return None;
        }
        self.evict(setup.evictor, false);
        let values = setup.columns.iter().map(|column: &Column| column.over(&self.rows)).collect();
        self.evict(setup.evictor, true);
        if setup.trigger.purging {
            self.rows.clear();
        }
        Some(values)
    }

    fn evict(&mut self, evictor: Option<Evictor>, after: bool) {
        let Some(Evictor { keeps, .. }) = evictor.filter(|evictor| evictor.after == after) else { return };
        let latest = self.rows.iter().map(|(_, row)| i128::from(row.ts)).max();
        let last = self.rows.last().map(|(_, row)| i128::from(row.value));
        match keeps {
            Keeps::Last(rows) => drop(self.rows.drain(..self.rows.len().saturating_sub(rows))),
            Keeps::Recent(keep) => {
                self.rows
                    .retain(|(_, row)| latest.is_some_and(|at| i128::from(row.ts) > at - i128::from(keep)));
            }
            Keeps::Near(by) => {
                self.rows.retain(|(_, row)| last.is_some_and(|at| at - i128::from(row.value) < by.into()));
            }
        }
    }
}
