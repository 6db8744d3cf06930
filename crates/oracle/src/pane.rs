//! What one key has in one window, and what comes out of it when it fires.

use crate::aggregate::{Stored, aggregate};
use crate::{Eviction, Evictor, Firing, Kind, ResultMode, Spec, Value};

/// The rows of one key in one window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pane {
    /// In order of arrival.
    pub(crate) rows: Vec<Stored>,
    /// Whether rows have come since the last firing.
    pub(crate) is_fresh: bool,
    /// The number of the next firing.
    number: u64,
    /// Results that stand until they are retracted.
    standing: Vec<Firing>,
    /// What the trigger remembers: how many rows it has counted,
    pub(crate) counted: u64,
    /// the event time of the next early firing,
    pub(crate) next_early: Option<i128>,
    /// the clock's time of the next early firing,
    pub(crate) next_by_clock: Option<i128>,
    /// the value of the last firing.
    pub(crate) last_value: Option<f64>,
}

impl Pane {
    /// Takes over a pane whose window has merged with this one's. Rows stay in order of arrival, counts add up, the earlier
    /// of two times counts, and numbers go on from the larger.
    pub(crate) fn absorb(&mut self, other: Pane) {
        let earlier = |a: Option<i128>, b: Option<i128>| a.into_iter().chain(b).min();
        self.rows.extend(other.rows);
        self.rows.sort_by_key(|stored| stored.row);
        self.is_fresh |= other.is_fresh;
        self.number = self.number.max(other.number);
        self.standing.extend(other.standing);
        self.counted += other.counted;
        self.next_early = earlier(self.next_early, other.next_early);
        self.next_by_clock = self.next_by_clock.into_iter().chain(other.next_by_clock).min();
    }

    /// Fires, unless there is nothing in it: evicts, computes, evicts, empties, as the spec says.
    pub(crate) fn fire(
        &mut self,
        spec: &Spec,
        key: &[Value],
        (start, end): (i64, i64),
        kind: Kind,
        fired: &mut Vec<Firing>,
    ) -> Result<(), String> {
        if self.rows.is_empty() {
            return Ok(());
        }
        self.evict(&spec.evictor, false);
        let of = |(function, column): &(_, usize)| {
            aggregate(function, *column, &self.rows)
                .map_err(|problem| format!("window [{start}, {end}), key {key:?}: {problem}"))
        };
        let values = spec.aggregates.iter().map(of).collect::<Result<_, _>>()?;
        let number = self.number;
        let firing = Firing { key: key.to_vec(), start, end, kind, number, retraction: false, values };
        if spec.result_mode == ResultMode::Retract {
            let superseded = std::mem::replace(&mut self.standing, vec![firing.clone()]);
            fired.extend(superseded.into_iter().map(|old| Firing { retraction: true, ..old }));
        }
        fired.push(firing);
        self.evict(&spec.evictor, true);
        if spec.empties() {
            self.rows.clear();
        }
        self.number += 1;
        self.is_fresh = false;
        self.next_by_clock = None;
        Ok(())
    }

    /// Takes out what this evictor evicts at this point.
    fn evict(&mut self, evictor: &Option<Evictor>, after: bool) {
        let rule = match evictor {
            Some(evictor) if evictor.after == after => &evictor.rule,
            _ => return,
        };
        match rule {
            Eviction::Count(keep) => {
                let evicted = self.rows.len().saturating_sub(*keep as usize);
                self.rows.drain(..evicted);
            }
            Eviction::Time(keep) => {
                let largest = self.rows.iter().map(|stored| i128::from(stored.time)).max().unwrap_or(0);
                self.rows.retain(|stored| i128::from(stored.time) > largest - i128::from(*keep));
            }
            Eviction::Delta { column, threshold } => {
                let Some(last) = self.rows.last().and_then(|stored| stored.values[*column].number()) else {
                    return;
                };
                self.rows.retain(|stored| {
                    !stored.values[*column].number().is_some_and(|value| last - value >= *threshold)
                });
            }
        }
    }
}
