//! Windows by number of rows.

use std::collections::BTreeMap;

use crate::aggregate::Stored;
use crate::pane::Pane;
use crate::{Firing, Kind, Spec, Value};

/// The count windows of all keys. They know neither time nor lateness; only their results have bounds: the smallest time
/// in them, and the largest plus one.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountWindows {
    /// The rows of each key that windows to come can hold, and how many have come since the last window.
    keys: BTreeMap<Vec<Value>, (Vec<Stored>, u64)>,
}

impl CountWindows {
    /// A row of a key. After every `slide` of them, the last `size` are a window, as far as there are so many.
    pub(crate) fn push(
        &mut self,
        spec: &Spec,
        (size, slide): (u64, u64),
        key: &[Value],
        row: &Stored,
        fired: &mut Vec<Firing>,
    ) -> Result<(), String> {
        let (rows, since) = self.keys.entry(key.to_vec()).or_default();
        rows.push(row.clone());
        *since += 1;
        if *since < slide {
            return Ok(());
        }
        *since = 0;
        rows.drain(..rows.len().saturating_sub(size as usize));
        fire(spec, key, rows, fired)?;
        if size == slide {
            rows.clear();
        }
        Ok(())
    }

    /// The end of input: rows that have come since the last window are in one more, by end, then start.
    pub(crate) fn finish(&mut self, spec: &Spec, size: u64, fired: &mut Vec<Firing>) -> Result<(), String> {
        let mut rest = Vec::new();
        for (key, (mut rows, since)) in std::mem::take(&mut self.keys) {
            if since > 0 {
                rows.drain(..rows.len().saturating_sub(size as usize));
                fire(spec, &key, &rows, &mut rest)?;
            }
        }
        rest.sort_by_key(|firing| (firing.end, firing.start));
        fired.extend(rest);
        Ok(())
    }
}

fn fire(spec: &Spec, key: &[Value], rows: &[Stored], fired: &mut Vec<Firing>) -> Result<(), String> {
    let mut pane = Pane::default();
    pane.rows = rows.to_vec();
    let bounds = bounds(&pane);
    pane.fire(spec, key, bounds, Kind::OnTime, fired)
}

fn bounds(pane: &Pane) -> (i64, i64) {
    let times = pane.rows.iter().map(|stored| stored.time);
    let (start, last) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
    (start, last.saturating_add(1))
}
