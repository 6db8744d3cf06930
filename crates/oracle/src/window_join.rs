//! Rows of two inputs that lie in the same window.

use std::collections::BTreeMap;

use crate::window::Window;
use crate::{JoinCounters, Merge, Reactivation, Side, Spec, Value, Windows};

/// Two rows of one window and key, by their running numbers in their inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedInWindow {
    /// The window's start, clipped to `i64`.
    pub start: i64,
    /// Its end, clipped to `i64`.
    pub end: i64,
    /// What the two have in common.
    pub key: Vec<Value>,
    /// The left row.
    pub left: u64,
    /// The right row.
    pub right: u64,
}

/// The rows of both inputs, by number.
type Rows = [Vec<u64>; 2];

/// Joins rows of equal keys (null equals null) in each window, when the watermark reaches its last tick: every left row with
/// every right row, in order of the left one's arrival, then the right one's. Windows come by end, then start; inside a window keys
/// by value. There is no lateness: a window that has fired is gone, and a row all of whose windows are gone is dropped.
#[derive(Clone, Debug)]
pub struct WindowJoin {
    windows: Windows,
    merge: Merge,
    open: BTreeMap<Window, BTreeMap<Vec<Value>, Rows>>,
    counters: [JoinCounters; 2],
}

impl WindowJoin {
    /// Panics if a row alone does not tell its windows.
    pub fn new(windows: Windows) -> WindowJoin {
        let by_time = !matches!(
            windows,
            Windows::Session { .. } | Windows::SessionByValue { .. } | Windows::Count { .. }
        );
        assert!(by_time, "rows are joined in windows that their times tell, not in {windows:?}");
        Spec::over(windows.clone()).check();
        WindowJoin {
            windows,
            merge: Merge::new(2, Reactivation::AtOnce),
            open: BTreeMap::new(),
            counters: [JoinCounters::default(); 2],
        }
    }

    /// The inputs' watermarks, to be moved by the caller, who then asks what has [fired](WindowJoin::advance).
    pub fn merge(&mut self) -> &mut Merge {
        &mut self.merge
    }

    /// What became of an input's rows.
    pub fn counters(&self, side: Side) -> &JoinCounters {
        &self.counters[side as usize]
    }

    /// A row joins all its windows that have not fired.
    pub fn push(&mut self, side: Side, key: &[Value], time: i64) {
        let watermark = self.merge.watermark();
        let all = Window::of(&self.windows, time, 0);
        let counters = &mut self.counters[side as usize];
        let row = counters.rows_in;
        counters.rows_in += 1;
        let open: Vec<&Window> = all.iter().filter(|window| !window.is_due(watermark)).collect();
        match (all.is_empty(), open.is_empty()) {
            (true, _) => counters.no_window += 1,
            (_, true) => counters.dropped_late += 1,
            _ => counters.taken += 1,
        }
        for window in open {
            let keys = self.open.entry(*window).or_default();
            keys.entry(key.to_vec()).or_default()[side as usize].push(row);
        }
    }

    /// What the merged watermark has reached.
    pub fn advance(&mut self) -> Vec<JoinedInWindow> {
        let watermark = self.merge.watermark();
        let mut joined = Vec::new();
        for (window, keys) in self.open.iter().filter(|(window, _)| window.is_due(watermark)) {
            let (start, end) = window.clipped();
            for (key, [lefts, rights]) in keys {
                let pairs = lefts.iter().flat_map(|&left| rights.iter().map(move |&right| (left, right)));
                joined.extend(pairs.map(|(left, right)| JoinedInWindow {
                    start,
                    end,
                    key: key.clone(),
                    left,
                    right,
                }));
            }
        }
        self.open.retain(|window, _| !window.is_due(watermark));
        joined
    }
}
