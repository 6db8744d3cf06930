//! When a quiet partition counts as idle.

use crate::error::{Error, Result};

/// Measures how long a partition has been quiet, on a clock that the caller reads. Flink's `WatermarksWithIdleness`.
///
/// The clock starts at the last row, or at its own first reading if there has been no row since: a partition that was
/// quiet before anybody looked at a clock counts as active at that moment. (Flink starts it at the first check that
/// finds no new row, and takes a reading of 0 for "not started".) The clock never runs backwards here: a reading
/// before the last activity finds the partition active.
///
/// ```
/// use highwater::watermark::IdleTimer;
/// let mut timer = IdleTimer::new(1_000)?;
/// timer.on_row(Some(0));
/// assert!(!timer.check(1_000)); // exactly the timeout is not yet idle
/// assert!(timer.check(1_001));
/// timer.on_row(Some(1_001));
/// assert!(!timer.check(2_000));
/// assert!(IdleTimer::new(0).is_err());
/// # Ok::<(), highwater::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct IdleTimer {
    timeout: i64,
    last_activity: Option<i64>,
}

impl IdleTimer {
    /// A timer that has seen neither a row nor a clock. The timeout is in ticks of the caller's clock, and more than
    /// zero.
    pub fn new(timeout: i64) -> Result<Self> {
        if timeout <= 0 {
            return Err(Error::invalid("idle_timeout", timeout, "more than zero"));
        }
        Ok(IdleTimer { timeout, last_activity: None })
    }

    /// A row has come, or the caller says that the partition is active. `now` is the last reading of the clock;
    /// without one the partition counts as active when the clock is first read.
    pub fn on_row(&mut self, now: Option<i64>) {
        self.last_activity = self.last_activity.max(now);
    }

    /// The first reading of the clock. Later ones change nothing.
    pub fn start(&mut self, now: i64) {
        self.last_activity.get_or_insert(now);
    }

    /// Whether the partition has been quiet for more than the timeout, strictly. A first reading starts the clock.
    pub fn check(&mut self, now: i64) -> bool {
        let last = *self.last_activity.get_or_insert(now);
        // Wider than the clock, so that no distance between two readings wraps or saturates.
        i128::from(now) - i128::from(last) > i128::from(self.timeout)
    }

    /// The same timer as it was when it had last seen activity then.
    pub(crate) fn active_at(&self, last_activity: Option<i64>) -> Self {
        IdleTimer { last_activity, ..*self }
    }

    /// When the partition was last active; `None` before the clock has been read.
    pub fn last_activity(&self) -> Option<i64> {
        self.last_activity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_reading_counts_as_activity() {
        let mut timer = IdleTimer::new(10).expect("a positive timeout");
        timer.on_row(None);
        assert_eq!(timer.last_activity(), None);
        assert!(!timer.check(1_000));
        assert_eq!(timer.last_activity(), Some(1_000));
        timer.start(0);
        assert!(!timer.check(1_010));
        assert!(timer.check(1_011));
    }

    #[test]
    fn extremes_neither_wrap_nor_stall() {
        let mut timer = IdleTimer::new(i64::MAX).expect("a positive timeout");
        timer.start(i64::MIN);
        assert!(!timer.check(-1));
        assert!(timer.check(0));
        let mut timer = IdleTimer::new(1).expect("a positive timeout");
        timer.start(i64::MAX);
        assert!(!timer.check(i64::MIN));
    }

    #[test]
    fn timeout_must_be_positive() {
        for timeout in [0, -1, i64::MIN] {
            let error = IdleTimer::new(timeout).expect_err("refused").to_string();
            assert!(error.contains("idle_timeout") && error.contains(&timeout.to_string()), "{error}");
        }
    }
}
