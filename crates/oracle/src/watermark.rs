//! What a partition's rows propose.

use crate::{MAX, NONE, Strategy};

/// The generator of one partition.
#[derive(Clone, Debug)]
pub(crate) struct Generator {
    strategy: Strategy,
    /// The largest time seen.
    max_time: Option<i64>,
    /// The largest marker seen.
    max_marker: Option<i64>,
}

impl Generator {
    pub(crate) fn new(strategy: Strategy) -> Generator {
        Generator { strategy, max_time: None, max_marker: None }
    }

    /// A row that was judged, whatever the judgement.
    pub(crate) fn see(&mut self, time: i64, marker: Option<i64>) {
        self.max_time = self.max_time.max(Some(time));
        self.max_marker = self.max_marker.max(marker);
    }

    /// The watermark that it would emit now. Never `MAX`: that is for the end of input.
    pub(crate) fn proposal(&self) -> i64 {
        let proposed = match (&self.strategy, self.max_time) {
            (Strategy::Bounded(bound), Some(max)) => max.saturating_sub(*bound).saturating_sub(1),
            (Strategy::Ascending, Some(max)) => max.saturating_sub(1),
            (Strategy::Delay(delay), Some(max)) => max.saturating_sub(*delay),
            (Strategy::Punctuated, _) => self.max_marker.unwrap_or(NONE),
            (Strategy::Explicit, _) | (_, None) => NONE,
        };
        proposed.min(MAX - 1)
    }
}
