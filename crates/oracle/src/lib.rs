//! The executable specification of Highwater.
//!
//! This crate answers one question: *what must come out?* It takes rows one at a time, keeps every row of every
//! open window in a sorted map, and computes each result from scratch when it fires. It is slow on purpose. The
//! real engine is compared with it on random input; where the two differ, the engine is wrong, or this is.
//!
//! In pseudo-code, and in the order in which a row meets the modules:
//!
//! ```text
//! for each row of each batch:
//!     reject it if its time is null, or too far ahead of a reference        (input)
//!     W := the merged watermark
//!     for each window of the row                                            (window, calendar)
//!         a session is what the row would make of the sessions it touches   (judge)
//!         skip it if it has expired at W; else add the row to it
//!         if it is due at W and goes by time: fire it again, as late
//!         else: fire it if its trigger says so                              (trigger)
//!     if every window had expired: the row is dropped, with W
//!     show the row to its partition's generator                             (watermark)
//!     let the cadence decide whether the partition's watermark rises        (input)
//!     recompute the merged watermark                                        (merge)
//!     fire what became due, by time, end, start; forget what expired        (fire)
//!
//! fire a window and key:                                                    (pane)
//!     nothing if it has no rows
//!     evict, compute every aggregate from scratch, evict                    (aggregate)
//!     retract the results that this one supersedes, give it, number it
//!     empty the window if it purges
//!
//! when the clock advances:                                                  (fire)
//!     partitions that are quiet become idle
//!     if all have been quiet for long: W := the last tick of the windows that are open
//!     fire early what the clock has reached and has new rows
//!
//! windows by number of rows have neither W nor lateness                     (count)
//! ```
//!
//! Keyed state has oracles of its own, which know nothing of windows that aggregate: [`Timers`], [`Pairs`] (starts and ends),
//! [`IntervalJoin`], [`WindowJoin`], [`Dedup`] and [`DedupWithin`].
//!
//! ```
//! use highwater_oracle::{Function, Kind, Op, Oracle, Row, Spec, Strategy, Value};
//!
//! let spec = Spec {
//!     strategy: Strategy::Bounded(2),
//!     aggregates: vec![(Function::Sum, 0)],
//!     ..Spec::tumbling(10)
//! };
//! let mut oracle = Oracle::new(spec);
//! let row = |ts, v| Row { time: Some(ts), values: vec![Value::Int(v)], ..Row::default() };
//!
//! // 12 - 2 - 1 = 9: the watermark reaches the last tick of [0, 10).
//! let out = oracle.apply(&Op::Push(0, vec![row(3, 1), row(7, 2), row(12, 4)])).expect("valid rows");
//! assert_eq!((out.fired[0].start, out.fired[0].end, out.fired[0].kind), (0, 10, Kind::OnTime));
//! assert_eq!(out.fired[0].values, [Value::Int(3)]);
//! ```

mod aggregate;
mod calendar;
mod check;
mod count;
mod dedup;
mod fire;
mod input;
mod interval_join;
mod io;
mod judge;
mod merge;
mod oracle;
mod pairs;
mod pane;
mod spec;
mod timers;
mod trigger;
mod value;
mod watermark;
mod window;
mod window_join;

pub use dedup::{Dedup, DedupWithin, Verdict};
pub use interval_join::{IntervalJoin, JoinCounters, Joined, Side};
pub use io::{Counters, Firing, Kind, Late, Op, Output, Reason, Rejected, Row};
pub use jiff::civil::Weekday;
pub use merge::Merge;
pub use oracle::Oracle;
pub use pairs::{Pair, PairCounters, Pairs, Part};
pub use spec::{
    Cadence, CalendarUnit, Eviction, Evictor, Function, Guard, LateFiring, NullPolicy, Reactivation,
    ResultMode, Spec, Strategy, Trigger, Windows,
};
pub use timers::Timers;
pub use value::Value;
pub use window::windows;
pub use window_join::{JoinedInWindow, WindowJoin};

/// The watermark of someone who has not spoken: nothing is late and nothing is due.
pub const NONE: i64 = i64::MIN;

/// The watermark at the end of input: everything is due and expired. Only the end of input says it.
pub const MAX: i64 = i64::MAX;
