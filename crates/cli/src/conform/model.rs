//! A naive window operator, slow and obvious: rows in lists, windows looked at one by one.
//!
//! It has the last word on differences. It can be asked by our rules or by Flink's, and the two are the same lines but for
//! the rules named in [`Rules`]. If the engine says what the model says by our rules, and the trace what the model says
//! by Flink's, then these rules are the difference, and there is no other.

use std::collections::BTreeMap;

use super::answer::{Answer, Firing, Kind};
use super::engine::Setup;
use super::grid::Held;
use super::pane::Pane;
use super::trace::{Item, Row};
use super::when::When;
use highwater::watermark::{END, NONE};

/// Which rules are Flink's; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Bounds wrap around. A row whose windows are all gone is late only if its time plus the lateness, which may wrap, is
    /// at or before the watermark; else it vanishes.
    pub(crate) wrapping: bool,
    /// The same test makes a row in a gap late.
    pub(crate) gaps_late: bool,
    /// Multiples of an interval are found by division that truncates.
    pub(crate) truncating: bool,
}

/// The question.
#[derive(Clone, Copy)]
pub(crate) struct Model<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) input: &'a [Item],
    /// The watermark after input items, ascending.
    pub(crate) watermarks: &'a [(usize, i64)],
}

/// A window's bounds before clipping, and a key.
type Place = ((i128, i128), Option<String>);

/// Where a firing stands among the others: by input item, a row's own before those of the watermark, these by the time that
/// the watermark has come to; by end, then start.
type Order = (usize, bool, i64, i64, i64);

struct State<'a> {
    rules: Rules,
    watermark: i64,
    open: BTreeMap<Place, Pane<'a>>,
    firings: Vec<(Order, Firing)>,
    late: Vec<usize>,
}

impl<'a> Model<'a> {
    /// The answer, in canonical order.
    pub(crate) fn answer(&self, rules: Rules) -> Result<Answer, String> {
        Ok(self.in_order(rules)?.canonical())
    }

    /// The answer, with firings in the order in which they are promised; but not the keys of a window.
    pub(crate) fn in_order(&self, rules: Rules) -> Result<Answer, String> {
        let (firings, late) = (Vec::new(), Vec::new());
        let mut state = State { rules, watermark: NONE, open: BTreeMap::new(), firings, late };
        let mut watermarks = self.watermarks.iter().peekable();
        for (at, item) in self.input.iter().enumerate() {
            if let Item::Row(row) = item
                && !(self.setup.filter_late && state.watermark != NONE && row.ts <= state.watermark)
            {
                self.element(&mut state, at, row)?;
            }
            if let Some(&(_, watermark)) = watermarks.next_if(|&&(after, _)| after == at) {
                self.advance(&mut state, at, watermark);
            }
        }
        let State { mut firings, late, .. } = state;
        firings.sort_by_key(|(order, _)| *order);
        let timer = |&((at, by_watermark, time, ..), _): &(Order, Firing)| by_watermark.then_some((at, time));
        let timers = firings.iter().filter_map(timer).collect();
        let firings = firings.into_iter().map(|(_, firing)| firing).collect();
        Ok(Answer { firings, late, watermarks: self.watermarks.to_vec(), timers })
    }

    /// How many rows are in no window, by the definition.
    pub(crate) fn gap_rows(&self) -> usize {
        let in_gap = |item: &&Item| matches!(item, Item::Row(row) if self.is_gap(row));
        self.input.iter().filter(in_gap).count()
    }

    fn is_gap(&self, row: &Row) -> bool {
        let shape = self.setup.shape;
        shape.gap(row.value).is_none() && shape.exact(row.ts, 0).is_empty()
    }

    fn element(&self, state: &mut State<'a>, at: usize, row: &'a Row) -> Result<(), String> {
        let (setup, key) = (self.setup, self.setup.keyed.then(|| row.key.clone()));
        let windows = match setup.shape.gap(row.value) {
            Some(gap) => vec![state.session(row.ts, gap, &key, setup.lateness)],
            None if !state.rules.wrapping => setup.shape.exact(row.ts, setup.lateness),
            None => (setup.shape.flinks(row.ts, setup.lateness))
                .ok_or_else(|| format!("input {at}: it is not known which windows are Flink's"))?,
        };
        let mut taken = false;
        for held in windows {
            if state.reached(held.gone) {
                continue;
            }
            taken = true;
            let mut pane = state.take(held, &key, setup.shape.gap(row.value).is_some());
            if pane.take(at, row, setup, state.rules) {
                let kind = if pane.due { Kind::Late } else { Kind::Early };
                state.fire(&mut pane, setup, &key, kind, (at, None));
            }
            state.open.insert((held.id, key.clone()), pane);
        }
        let past = row.ts.wrapping_add(setup.lateness) <= state.watermark;
        let is_late = match self.is_gap(row) {
            true => state.rules.gaps_late && past,
            false => !state.rules.wrapping || past,
        };
        if !taken && is_late {
            state.late.push(at);
        }
        Ok(())
    }

    fn advance(&self, state: &mut State<'a>, at: usize, watermark: i64) {
        state.watermark = watermark;
        let mut open = std::mem::take(&mut state.open);
        for ((_, key), pane) in open.iter_mut().filter(|(_, pane)| !pane.due) {
            // what never ends has nothing before the end of input
            let endless = pane.held.due == END && watermark == END;
            let last = pane.held.due;
            while let (When::EarlyEventTime(interval), Some(time)) = (self.setup.trigger.when, pane.early)
                && time < last
                && time <= watermark
                && !endless
            {
                pane.early = Some(time.saturating_add(interval).min(last));
                state.fire(pane, self.setup, key, Kind::Early, (at, Some(time)));
            }
            pane.due = state.reached(pane.held.due);
            if pane.due && self.setup.trigger.is_by_time() {
                state.fire(pane, self.setup, key, Kind::OnTime, (at, Some(last)));
            }
        }
        open.retain(|_, pane| !state.reached(pane.held.gone));
        state.open = open;
    }
}

impl<'a> State<'a> {
    /// Whether the watermark has come to `time`. To Flink "no watermark" is the lowest time.
    fn reached(&self, time: i64) -> bool {
        time <= self.watermark && (self.rules.wrapping || self.watermark != NONE)
    }

    /// The session that a row makes with those of its key that it touches.
    fn session(&self, ts: i64, gap: i64, key: &Option<String>, lateness: i64) -> Held {
        let mut all = Held::alone(ts, gap, self.rules.wrapping);
        let alone = all;
        for ((id, _), _) in self.open.iter().filter(|((id, of), _)| of == key && touch(*id, alone)) {
            all = (all.0.min(id.0), all.1.max(id.1));
        }
        match self.rules.wrapping {
            true => Held::wrapping(all, lateness),
            false => Held::exact(all, lateness),
        }
    }

    /// What there is in a window already. Of a session: what is in all those that it covers, which are gone then.
    fn take(&mut self, held: Held, key: &Option<String>, is_session: bool) -> Pane<'a> {
        let due = self.reached(held.due);
        if !is_session {
            return self.open.remove(&(held.id, key.clone())).unwrap_or_else(|| Pane::new(held, due));
        }
        let mut pane = Pane::new(held, due);
        let covered = |(id, of): &Place| of == key && touch(*id, held.id);
        let places: Vec<Place> = self.open.keys().filter(|place| covered(place)).cloned().collect();
        for place in places {
            self.open.remove(&place).into_iter().for_each(|other| pane.absorb(other));
        }
        pane
    }

    /// `cause`: the input item, and the time that the watermark has come to unless it is the row itself.
    fn fire(
        &mut self,
        pane: &mut Pane<'a>,
        setup: &Setup,
        key: &Option<String>,
        kind: Kind,
        (at, time): (usize, Option<i64>),
    ) {
        let Some(values) = pane.fire(setup) else { return };
        let Held { start, end, .. } = pane.held;
        let firing = Firing { at, kind, end, start, key: key.clone(), watermark: self.watermark, values };
        self.firings.push(((at, time.is_some(), time.unwrap_or(0), end, start), firing));
    }
}

/// Whether two sessions touch or overlap.
fn touch(a: (i128, i128), b: (i128, i128)) -> bool {
    a.0 <= b.1 && b.0 <= a.1
}
