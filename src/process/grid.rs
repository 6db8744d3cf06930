//! Tumbling windows, for processes that keep rows by window.

use crate::error::Result;
use crate::time::{TickConverter, TimeDelta};

/// Windows of one size, aligned to the epoch plus an offset, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tumbling {
    size: i64,
    /// Within one size.
    offset: i64,
}

impl Tumbling {
    pub(crate) fn new(size: TimeDelta, offset: TimeDelta, ticks: &TickConverter) -> Result<Self> {
        let size = ticks.length("window size", size)?;
        let offset = ticks.wide("window offset", offset)?.rem_euclid(i128::from(size)) as i64;
        Ok(Tumbling { size, offset })
    }

    fn start(&self, time: i64) -> i128 {
        let time = i128::from(time);
        time - (time - i128::from(self.offset)).rem_euclid(i128::from(self.size))
    }

    /// The last time of the window of a time, end - 1: when the watermark is there, the window is over. A window that is
    /// open at the top is over at end of input.
    pub(crate) fn last(&self, time: i64) -> i64 {
        (self.start(time) + i128::from(self.size) - 1).min(i128::from(i64::MAX)) as i64
    }

    /// Start and end of the window that has this time as its last, clipped to what `i64` holds.
    pub(crate) fn bounds(&self, last: i64) -> (i64, i64) {
        let start = self.start(last);
        let end = (start + i128::from(self.size)).min(i128::from(i64::MAX));
        (start.max(i128::from(i64::MIN)) as i64, end as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::TickUnit;

    #[test]
    fn windows_are_floored_and_clipped() {
        let ticks = TickConverter { column: "ts".into(), unit: TickUnit::Millisecond };
        let grid = |size, offset| {
            Tumbling::new(TimeDelta::from_millis(size), TimeDelta::from_millis(offset), &ticks).unwrap()
        };
        // [-10, 0), [0, 10), and with an offset of -13, which is 7: [-3, 7)
        assert_eq!((grid(10, 0).last(-1), grid(10, 0).last(0)), (-1, 9));
        assert_eq!((grid(10, -13).last(-3), grid(10, -13).bounds(6)), (6, (-3, 7)));
        // 9223372036854775807 is in the window that starts at ...800; the lowest time in one that starts below i64
        assert_eq!(grid(100, 0).last(i64::MAX), i64::MAX);
        assert_eq!(grid(100, 0).bounds(i64::MAX), (9_223_372_036_854_775_800, i64::MAX));
        assert_eq!(grid(100, 0).last(i64::MIN), -9_223_372_036_854_775_801);
        assert_eq!(grid(100, 0).bounds(-9_223_372_036_854_775_801).0, i64::MIN);
    }
}
