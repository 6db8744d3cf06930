//! Which windows take a row, and what that makes fire.

use crate::aggregate::Stored;
use crate::pane::Pane;
use crate::window::Window;
use crate::{Kind, Late, LateFiring, MAX, NONE, Oracle, Output, Row, Value, Windows};

impl Oracle {
    /// A row is judged by the watermark before it.
    pub(crate) fn judge(
        &mut self,
        p: usize,
        id: u64,
        time: i64,
        row: &Row,
        out: &mut Output,
    ) -> Result<(), String> {
        let stored = Stored { row: id, time, values: row.values.clone() };
        if let Windows::Count { size, slide } = self.spec.window {
            return self.count(p, (size, slide), &row.key, &stored, out);
        }
        let (watermark, lateness) = (self.watermark, self.spec.allowed_lateness);
        let all = self.windows_of(time, row);
        let counters = &mut self.counters[p];
        if all.is_empty() {
            counters.no_window += 1;
            return Ok(());
        }
        let open: Vec<Window> = all.iter().copied().filter(|w| !w.is_expired(watermark, lateness)).collect();
        if open.is_empty() {
            counters.dropped_late += 1;
            out.late.push(Late { row: id, watermark });
            return Ok(());
        }
        let is_late = watermark != NONE && time <= watermark && self.spec.window != Windows::Global;
        counters.taken += 1;
        counters.late_taken += u64::from(is_late);
        counters.partly_late += u64::from(open.len() < all.len());
        open.into_iter().try_for_each(|window| self.add(window, &row.key, &stored, out))
    }

    /// Count windows take every row until the end of input.
    fn count(
        &mut self,
        p: usize,
        size_and_slide: (u64, u64),
        key: &[Value],
        stored: &Stored,
        out: &mut Output,
    ) -> Result<(), String> {
        if self.watermark == MAX {
            self.counters[p].dropped_late += 1;
            out.late.push(Late { row: stored.row, watermark: MAX });
        } else {
            self.count_windows.push(&self.spec, size_and_slide, key, stored, &mut out.fired)?;
            self.counters[p].taken += 1;
        }
        Ok(())
    }

    /// The windows of a row. A session is merged first and judged after: it is the one that the row would make of what is
    /// there.
    fn windows_of(&self, time: i64, row: &Row) -> Vec<Window> {
        let gap = match self.spec.window {
            Windows::Session { gap } => gap,
            Windows::SessionByValue { column } => match row.values[column] {
                Value::Int(gap) => gap,
                _ => 0,
            },
            _ => return Window::of(&self.spec.window, time, 0),
        };
        let alone = Window::of(&self.spec.window, time, gap);
        let merged = |window: &Window| {
            let there = self.windows.iter().filter(|(_, keys)| keys.contains_key(&row.key));
            let touching = there.map(|(other, _)| other).filter(|other| other.touches(window));
            touching.fold(*window, |all, other| all.cover(other))
        };
        alone.iter().map(merged).collect()
    }

    /// A window that has not expired takes the row. If it is due it fires again for it, as late; else its trigger decides.
    fn add(
        &mut self,
        window: Window,
        key: &[Value],
        stored: &Stored,
        out: &mut Output,
    ) -> Result<(), String> {
        let mut pane = self.take(&window, key);
        pane.rows.push(stored.clone());
        pane.is_fresh = true;
        let is_due = window.is_due(self.watermark);
        let fires = if is_due && self.spec.trigger.is_by_time() {
            if self.spec.late_firing == LateFiring::Coalesced {
                self.dirty.insert((window, key.to_vec()));
            }
            self.spec.late_firing == LateFiring::PerRow
        } else {
            self.spec.trigger.see(&mut pane, &window, stored, self.clock)
        };
        if fires {
            let kind = if is_due { Kind::Late } else { Kind::Early };
            pane.fire(&self.spec, key, window.clipped(), kind, &mut out.fired)?;
        }
        self.windows.entry(window).or_default().insert(key.to_vec(), pane);
        Ok(())
    }

    /// What the key has in this window. Of a session: what it has in all sessions that the window covers, which are gone then,
    /// and with them the late firings that they owed.
    fn take(&mut self, window: &Window, key: &[Value]) -> Pane {
        if !self.spec.has_sessions() {
            let keys = self.windows.entry(*window).or_default();
            return keys.remove(key).unwrap_or_default();
        }
        let mut pane = Pane::default();
        for (_, keys) in self.windows.iter_mut().filter(|(other, _)| other.touches(window)) {
            if let Some(part) = keys.remove(key) {
                pane.absorb(part);
            }
        }
        self.windows.retain(|_, keys| !keys.is_empty());
        pane
    }
}
