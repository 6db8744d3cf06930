//! Windows by number of rows.

use std::collections::BTreeMap;

use crate::aggregate::Stored;
use crate::pane::Pane;
use crate::{Firing, Kind, Spec, Value};

/// The count windows of all keys. They know neither time nor lateness; only their results have bounds: the smallest time
/// in them, and the largest plus one.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountWindows {
    /// How many rows of a key have come.
    arrived: BTreeMap<Vec<Value>, u64>,
    /// Windows that are not full, by key and number.
    open: BTreeMap<(Vec<Value>, u64), Pane>,
}

impl CountWindows {
    /// A row joins its windows; one that is full fires. Tells whether there was one.
    pub(crate) fn push(
        &mut self,
        spec: &Spec,
        (size, slide): (u64, u64),
        key: &[Value],
        row: &Stored,
        fired: &mut Vec<Firing>,
    ) -> Result<bool, String> {
        let arrived = self.arrived.entry(key.to_vec()).or_default();
        let place = *arrived;
        *arrived += 1;
        // Window k holds the places k * slide to k * slide + size - 1.
        let first = if place < size { 0 } else { (place - size) / slide + 1 };
        for k in first..=place / slide {
            let pane = self.open.entry((key.to_vec(), k)).or_default();
            pane.rows.push(row.clone());
            if place - k * slide == size - 1 {
                let mut full = self.open.remove(&(key.to_vec(), k)).unwrap_or_default();
                let bounds = bounds(&full);
                full.fire(spec, key, bounds, Kind::OnTime, fired)?;
            }
        }
        Ok(first <= place / slide)
    }

    /// The end of input: what is not full fires as it is, by end, then start.
    pub(crate) fn finish(&mut self, spec: &Spec, fired: &mut Vec<Firing>) -> Result<(), String> {
        let mut rest = Vec::new();
        for ((key, _), mut pane) in std::mem::take(&mut self.open) {
            let bounds = bounds(&pane);
            pane.fire(spec, &key, bounds, Kind::OnTime, &mut rest)?;
        }
        rest.sort_by_key(|firing| (firing.end, firing.start));
        fired.extend(rest);
        Ok(())
    }
}

fn bounds(pane: &Pane) -> (i64, i64) {
    let times = pane.rows.iter().map(|stored| stored.time);
    let (start, last) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
    (start, last.saturating_add(1))
}
