//! What makes a window fire, other than its last tick.

use crate::Trigger;
use crate::aggregate::Stored;
use crate::pane::Pane;
use crate::window::Window;

impl Trigger {
    /// Tells the trigger of a row that a pane has taken. If the trigger goes by time, the window is not due yet. Returns whether
    /// the pane fires at once.
    pub(crate) fn see(&self, pane: &mut Pane, window: &Window, row: &Stored, clock: Option<i64>) -> bool {
        match self {
            Trigger::EventTime | Trigger::Never => false,
            Trigger::EarlyCount(n) | Trigger::Count(n) => {
                pane.counted += 1;
                let is_full = pane.counted >= *n;
                if is_full {
                    pane.counted = 0;
                }
                is_full
            }
            Trigger::EarlyEventTime(interval) => {
                let interval = i128::from(*interval);
                let floor = i128::from(row.time).div_euclid(interval) * interval;
                pane.next_early.get_or_insert((floor + interval).min(window.end - 1));
                false
            }
            Trigger::EarlyClock(interval) => {
                if pane.next_by_clock.is_none() {
                    pane.next_by_clock = clock.map(|now| after(now, *interval));
                }
                false
            }
            Trigger::Delta { column, threshold } => {
                let Some(value) = row.values[*column].number() else { return false };
                let last = *pane.last_value.get_or_insert(value);
                let is_far = value - last > *threshold;
                if is_far {
                    pane.last_value = Some(value);
                }
                is_far
            }
        }
    }
}

/// The first multiple of the interval after this reading of the clock.
pub(crate) fn after(now: i64, interval: i64) -> i128 {
    (i128::from(now.div_euclid(interval)) + 1) * i128::from(interval)
}
