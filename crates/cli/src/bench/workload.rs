//! The workloads: where the rows of each come from, and what is asked of them.

use highwater::{Aggregate, TimeDelta, Window};

use crate::generate;

/// A workload. All rows are generated, unless they come from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// Windows of 1 min, 1,000 Zipf keys: count, sum, min, max
    W1,
    /// Windows of 5 min every 1 min, 20 dictionary keys: count, mean, p50, p99
    W2,
    /// Windows of 10 s, 1,000,000 uniform keys: count, sum
    W3,
    /// Windows of 24 h every 15 min, 1,000 Zipf keys: count, sum, min, max
    W4,
    /// Sessions with a gap of 30 s, 100,000 uniform keys: count, sum, and their bounds
    W5,
    /// NEXMark query 5, hot items: the auctions with most bids in 10 s, every 2 s
    Q5,
    /// NEXMark query 7: the highest bid of every 10 s, its auction and its bidder
    Q7,
    /// Yahoo streaming benchmark: views a campaign and 10 s, behind a filter and a join
    Ysb,
}

impl Workload {
    /// All, in the order in which they run.
    pub const ALL: [Workload; 8] = [
        Workload::W1,
        Workload::W2,
        Workload::W3,
        Workload::W4,
        Workload::W5,
        Workload::Q5,
        Workload::Q7,
        Workload::Ysb,
    ];

    /// What the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Workload::W1 => "w1",
            Workload::W2 => "w2",
            Workload::W3 => "w3",
            Workload::W4 => "w4",
            Workload::W5 => "w5",
            Workload::Q5 => "q5",
            Workload::Q7 => "q7",
            Workload::Ysb => "ysb",
        }
    }

    /// The generated stream that it reads.
    pub fn stream(self) -> generate::Workload {
        match self {
            Workload::W1 => generate::Workload::W1,
            Workload::W2 => generate::Workload::W2,
            Workload::W3 => generate::Workload::W3,
            Workload::W4 => generate::Workload::W4,
            Workload::W5 => generate::Workload::W5,
            Workload::Q5 | Workload::Q7 => generate::Workload::Nexmark,
            Workload::Ysb => generate::Workload::Ysb,
        }
    }

    /// What is asked of its rows.
    pub fn question(self) -> Question {
        use Function::{Count, Max, MaxBy, Mean, Min, Quantile, Sum};
        let (second, minute) = (TimeDelta::from_secs, TimeDelta::from_mins);
        let plain = |size, slide, key, value, functions: &[(Function, &'static str)]| Question {
            windows: Windows::Aligned { size, slide },
            bound: second(20),
            key,
            value,
            functions: functions.to_vec(),
            step: Step::Plain,
        };
        let (key, value) = (Some("key"), Some("value"));
        let four = [(Count, "count"), (Sum, "sum"), (Min, "min"), (Max, "max")];
        let quantiles = [(Count, "count"), (Mean, "mean"), (Quantile(0.5), "p50"), (Quantile(0.99), "p99")];
        let count = [(Count, "count")];
        let bid = [(Max, "price"), (MaxBy("auction"), "auction"), (MaxBy("bidder"), "bidder")];
        match self {
            Workload::W1 => plain(minute(1), minute(1), key, value, &four),
            Workload::W2 => plain(minute(5), minute(1), Some("model"), value, &quantiles),
            Workload::W3 => plain(second(10), second(10), key, value, &four[..2]),
            Workload::W4 => plain(TimeDelta::from_hours(24), minute(15), key, value, &four),
            Workload::W5 => Question {
                windows: Windows::Session { gap: second(30) },
                ..plain(second(30), second(30), key, value, &four[..2])
            },
            Workload::Q5 => Question {
                step: Step::MostOfWindow,
                ..plain(second(10), second(2), Some("auction"), None, &count)
            },
            Workload::Q7 => plain(second(10), second(10), None, Some("price"), &bid),
            Workload::Ysb => {
                Question { step: Step::Views, ..plain(second(10), second(10), Some(CAMPAIGN), None, &count) }
            }
        }
    }
}

/// The event-time column of every workload.
pub(super) const TIME: &str = "ts";
/// The column of the advertisement in the rows of [`Step::Views`].
pub(super) const AD: &str = "ad_id";
/// The column of the kind of event in the rows of [`Step::Views`].
pub(super) const EVENT_TYPE: &str = "event_type";
/// The column of the campaign in the table of advertisements, and in the results of [`Step::Views`].
pub(super) const CAMPAIGN: &str = "campaign_id";
/// The event type that [`Step::Views`] keeps.
pub(super) const VIEW: i8 = 0;

/// The windows of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// Of `size`, a new one every `slide`.
    Aligned {
        /// How long they are.
        size: TimeDelta,
        /// How far their starts are apart.
        slide: TimeDelta,
    },
    /// Rows of a key that follow each other within a gap.
    Session {
        /// The gap.
        gap: TimeDelta,
    },
}

impl Windows {
    /// As the operator knows them.
    pub fn window(self) -> Window {
        match self {
            Windows::Aligned { size, slide } => Window::sliding(size, slide),
            Windows::Session { gap } => Window::session(gap),
        }
    }
}

/// What is asked of rows.
#[derive(Clone, Debug)]
pub struct Question {
    /// Which rows belong together.
    pub windows: Windows,
    /// How far rows may be out of order.
    pub bound: TimeDelta,
    /// The key column of the operator.
    pub key: Option<&'static str>,
    /// The column that is aggregated.
    pub value: Option<&'static str>,
    /// The aggregates of [`Question::value`], each with the name of its result.
    pub functions: Vec<(Function, &'static str)>,
    /// What is done around the operator.
    pub step: Step,
}

/// What is done around the operator, for its time too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Plain,
    /// Of the results of a window those with its highest count are kept, all that have it.
    MostOfWindow,
    /// Only rows with event type 0, a view, are pushed, with the campaign of their advertisement as the key.
    Views,
}

/// An aggregate function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    /// Rows.
    Count,
    /// Their sum.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The value of another column, of whole numbers, in the row with the largest.
    MaxBy(&'static str),
    /// The arithmetic mean.
    Mean,
    /// A quantile, 0 to 1, by a sketch.
    Quantile(f64),
}

impl Question {
    /// The columns that are read, the time first.
    pub fn columns(&self) -> Vec<&'static str> {
        match self.step {
            Step::Views => vec![TIME, AD, EVENT_TYPE],
            Step::Plain | Step::MostOfWindow => {
                std::iter::once(TIME).chain(self.key).chain(self.value).chain(self.picked()).collect()
            }
        }
    }

    /// The columns of which the value beside the largest is wanted.
    pub fn picked(&self) -> impl Iterator<Item = &'static str> {
        let picked = |&(function, _): &_| match function {
            Function::MaxBy(column) => Some(column),
            _ => None,
        };
        self.functions.iter().filter_map(picked)
    }

    /// Whether there are quantiles among the aggregates.
    pub fn has_quantiles(&self) -> bool {
        self.functions.iter().any(|(function, _)| matches!(function, Function::Quantile(_)))
    }

    /// The aggregates as the operator knows them.
    pub fn aggregates(&self) -> impl Iterator<Item = Aggregate> {
        self.functions.iter().map(|&(function, name)| {
            let column = self.value.unwrap_or_default();
            let aggregate = match function {
                Function::Count => Aggregate::count_all(),
                Function::Sum => Aggregate::sum(column),
                Function::Min => Aggregate::min(column),
                Function::Max => Aggregate::max(column),
                Function::MaxBy(picked) => Aggregate::max_by(picked, column),
                Function::Mean => Aggregate::mean(column),
                Function::Quantile(q) => Aggregate::quantile(column, q),
            };
            aggregate.alias(name)
        })
    }
}
