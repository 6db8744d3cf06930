//! Seeded event streams: what a source would have delivered, in the order in which it would have arrived.
//!
//! ```
//! use highwater_cli::generate::{Spec, Stream, Workload};
//!
//! let spec = Spec { rows: 100_000, ..Spec::new(Workload::W1) };
//! let rows: usize = Stream::new(&spec)?.map(|batch| batch.map(|b| b.num_rows())).sum::<Result<_, _>>()?;
//! assert_eq!(rows, 100_000);
//! # Ok::<(), highwater_cli::generate::Error>(())
//! ```
//!
//! # The stream
//!
//! A stream is endless; `rows` only says where to stop reading. Event `i` (0, 1, 2, ...) is a pure function of the
//! [`Spec`] and of `i`:
//!
//! ```text
//! event time   ts(i)      = start + floor(i * 1000 / rate)                          in ms
//! delay        d(i)       = min(mean * -ln(1 - u), cap)                             in µs
//!                           or, for a share of the rows, uniform in [straggler min, straggler max)
//! arrival      a(i)       = ts(i) + d(i)
//! partition    p(i)       = floor(u * partitions)
//! stall        a'(i)      = max(a(i), end + (a(i) - from) / 50)   for the stalled partition from `from` on:
//!                           it keeps its order, is silent until `end`, then catches up at fifty times the pace
//! ```
//!
//! Rows leave in the order of `(a'(i), i)`. No arrival lies before its event, so everything that arrives before time `t`
//! is known once the events before `t` have been placed: a calendar queue ([`arrivals`]) gives the exact order
//! of the whole endless stream while holding only the rows that are under way. Hence
//!
//! - the first `n` rows do not depend on how many are asked for (*prefix-stable*);
//! - memory depends on the rate and on the delays, never on the number of rows.
//!
//! # Random values
//!
//! Each `u` above is a draw of its own: output `i` of the SplitMix64 sequence that belongs to (seed, column), which can be
//! computed without the outputs before it ([`draw`]). Transcendental functions come from the `libm` crate, not from the
//! platform, so a stream has the same bits everywhere. Workload columns:
//!
//! | workload | columns, besides `ts` |
//! |---|---|
//! | `w1`, `w4` | `key` (Zipf 1.1 over 1,000), `value`; 10,000 and 250 events a second |
//! | `w2` | `model` (dictionary of 20 names, Zipf 0.8), `value` |
//! | `w3`, `w5` | `key` (uniform over 1,000,000 and 100,000), `value` |
//! | `nexmark` | `auction`, `bidder`, `price`: the bids of NEXMark |
//! | `ysb` | `ad_id`, `event_type`: the events of the Yahoo streaming benchmark; [`campaigns`] is its table |
//! | `gateway` | the requests that a language-model gateway has completed; see [`gateway`] |
//!
//! `value` is `round(64 * exp(3 + z)) / 64` with a standard normal `z`: multiples of 1/64, so that f64 sums are exact
//! whatever the order of the additions. The quantile functions of `d`, `value` and `price` are read from tables of 4,096
//! linear pieces, exact at the joints and outside of the outermost pieces ([`tables`]).

mod args;
pub mod arrivals;
mod columns;
pub mod draw;
mod error;
pub mod gateway;
mod keys;
mod spec;
mod stream;
pub mod tables;
pub(crate) mod units;
mod write;

pub use args::{Args, StreamArgs, run};
pub use columns::{campaigns, schema};
pub use error::Error;
pub use spec::{Disorder, KeyType, Poison, PoisonKind, Spec, Stall, Workload};
pub use stream::{SplitStream, Stream};
pub use write::{Format, write, write_split};
