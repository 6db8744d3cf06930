//! A naive window operator, slow and obvious: rows in lists, windows looked at one by one.
//!
//! It has the last word on differences. It can be asked by our rules or by Flink's, and the two are the same lines but for
//! the rules named in [`Rules`]. If the engine says what the model says by our rules, and the trace what the model says
//! by Flink's, then these rules are the difference, and there is no other.

use std::collections::BTreeMap;

use super::answer::{Answer, Column, Firing, Kind};
use super::grid::{Held, Shape};
use super::trace::{Item, Row};
use highwater::watermark::NONE;

/// Which rules are Flink's; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Bounds wrap around. A row whose windows are all gone is late only if its time plus the lateness, which may wrap, is
    /// at or before the watermark; else it vanishes.
    pub(crate) wrapping: bool,
    /// The same test makes a row in a gap late.
    pub(crate) gaps_late: bool,
}

/// The question.
pub(crate) struct Model<'a> {
    pub(crate) shape: Shape,
    pub(crate) lateness: i64,
    pub(crate) keyed: bool,
    pub(crate) columns: &'a [Column],
    pub(crate) input: &'a [Item],
    /// The watermark after input items, ascending.
    pub(crate) watermarks: &'a [(usize, i64)],
    /// Whether rows at or before the watermark are left out before they reach any window.
    pub(crate) filter_late: bool,
}

struct Open<'a> {
    held: Held,
    fired: bool,
    rows: Vec<(usize, &'a Row)>,
}

struct State<'a> {
    rules: Rules,
    watermark: i64,
    open: BTreeMap<((i128, i128), Option<String>), Open<'a>>,
    answer: Answer,
}

impl<'a> Model<'a> {
    /// The answer, in canonical order.
    pub(crate) fn answer(&self, rules: Rules) -> Result<Answer, String> {
        let answer = Answer { watermarks: self.watermarks.to_vec(), ..Answer::default() };
        let mut state = State { rules, watermark: NONE, open: BTreeMap::new(), answer };
        let mut watermarks = self.watermarks.iter().peekable();
        for (at, item) in self.input.iter().enumerate() {
            if let Item::Row(row) = item
                && !(self.filter_late && state.watermark != NONE && row.ts <= state.watermark)
            {
                self.element(&mut state, at, row)?;
            }
            if let Some(&(_, watermark)) = watermarks.next_if(|&&(after, _)| after == at) {
                self.advance(&mut state, at, watermark);
            }
        }
        Ok(state.answer.canonical())
    }

    /// How many rows are in no window, by the definition.
    pub(crate) fn gap_rows(&self) -> usize {
        let in_gap = |item: &&Item| matches!(item, Item::Row(row) if self.is_gap(row.ts));
        self.input.iter().filter(in_gap).count()
    }

    fn is_gap(&self, ts: i64) -> bool {
        self.shape.exact(ts, 0).is_empty()
    }

    fn element(&self, state: &mut State<'a>, at: usize, row: &'a Row) -> Result<(), String> {
        let windows = match state.rules.wrapping {
            false => self.shape.exact(row.ts, self.lateness),
            true => self
                .shape
                .flinks(row.ts, self.lateness)
                .ok_or_else(|| format!("input {at}: it is not known which windows are Flink's"))?,
        };
        let mut taken = false;
        for held in windows {
            if state.reached(held.gone) {
                continue;
            }
            taken = true;
            let is_due = state.reached(held.due);
            let key = self.keyed.then(|| row.key.clone());
            let open = state.open.entry((held.id, key.clone()));
            let open = open.or_insert_with(|| Open { held, fired: is_due, rows: Vec::new() });
            open.rows.push((at, row));
            if is_due {
                let firing = self.firing(at, Kind::Late, key, state.watermark, open);
                state.answer.firings.push(firing);
            }
        }
        let past = row.ts.wrapping_add(self.lateness) <= state.watermark;
        let is_late = match self.is_gap(row.ts) {
            true => state.rules.gaps_late && past,
            false => !state.rules.wrapping || past,
        };
        if !taken && is_late {
            state.answer.late.push(at);
        }
        Ok(())
    }

    fn advance(&self, state: &mut State<'a>, at: usize, watermark: i64) {
        state.watermark = watermark;
        let mut open = std::mem::take(&mut state.open);
        for ((_, key), open) in &mut open {
            if !open.fired && state.reached(open.held.due) {
                open.fired = true;
                let firing = self.firing(at, Kind::OnTime, key.clone(), watermark, open);
                state.answer.firings.push(firing);
            }
        }
        open.retain(|_, open| !state.reached(open.held.gone));
        state.open = open;
    }

    fn firing(&self, at: usize, kind: Kind, key: Option<String>, watermark: i64, open: &Open<'_>) -> Firing {
        let values = self.columns.iter().map(|column| column.over(&open.rows)).collect();
        let Held { start, end, .. } = open.held;
        Firing { at, kind, end, start, key, watermark, values }
    }
}

impl State<'_> {
    /// Whether the watermark has come to `time`. To Flink "no watermark" is the lowest time.
    fn reached(&self, time: i64) -> bool {
        time <= self.watermark && (self.rules.wrapping || self.watermark != NONE)
    }
}
