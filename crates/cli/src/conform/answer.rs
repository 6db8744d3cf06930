//! What a stream of windows gives: the expected answer, the engine's and the model's in one form, and where two differ.

use std::fmt;

use super::trace::Row;

/// A result column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Column {
    Count,
    Sum,
    Min,
    Max,
    /// `sorted[floor(q * (n - 1))]`.
    Quantile(&'static str, f64),
    /// Input indices, in order of arrival.
    Members,
    /// Truncated towards zero.
    Avg,
    CountDistinct,
    /// Interpolated between the values around place `q * (n - 1)`.
    Percentile(&'static str, f64),
}

impl Column {
    pub(crate) fn by_name(name: &str) -> Option<Column> {
        Some(match name {
            "count" => Column::Count,
            "sum" => Column::Sum,
            "min" => Column::Min,
            "max" => Column::Max,
            "p50" => Column::Quantile("p50", 0.5),
            "p99" => Column::Quantile("p99", 0.99),
            "members" => Column::Members,
            "avg" => Column::Avg,
            "count_distinct" => Column::CountDistinct,
            _ => return None,
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Column::Count => "count",
            Column::Sum => "sum",
            Column::Min => "min",
            Column::Max => "max",
            Column::Quantile(name, _) | Column::Percentile(name, _) => name,
            Column::Members => "members",
            Column::Avg => "avg",
            Column::CountDistinct => "count_distinct",
        }
    }

    /// The value over rows, which are not none, the naive way.
    pub(crate) fn over(&self, rows: &[(usize, &Row)]) -> Value {
        let mut values: Vec<i64> = rows.iter().map(|(_, row)| row.value).collect();
        values.sort_unstable();
        let (count, sum) =
            (values.len() as i64, values.iter().fold(0, |sum: i64, value| sum.wrapping_add(*value)));
        Value::Int(match self {
            Column::Count => count,
            Column::Sum => sum,
            Column::Min => values[0],
            Column::Max => values[values.len() - 1],
            Column::Quantile(_, q) => values[(q * (values.len() - 1) as f64) as usize],
            Column::Avg => sum / count,
            Column::CountDistinct => {
                values.dedup();
                values.len() as i64
            }
            Column::Percentile(_, q) => return Value::near(percentile(&values, *q)),
            Column::Members => return Value::List(rows.iter().map(|(index, _)| *index as i64).collect()),
        })
    }
}

/// Between the values around place `q * (n - 1)`, in proportion.
pub(crate) fn percentile(sorted: &[i64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[place.floor() as usize] as f64, sorted[place.ceil() as usize] as f64);
    low + (high - low) * place.fract()
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Int(i64),
    List(Vec<i64>),
    /// A number in millionths: the last bits of a percentile depend on the formula.
    Millionths(i64),
}

impl Value {
    pub(crate) fn near(number: f64) -> Value {
        Value::Millionths((number * 1e6).round() as i64)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(value) => value.fmt(f),
            Value::List(values) => write!(f, "{values:?}"),
            Value::Millionths(number) => (*number as f64 / 1e6).fmt(f),
        }
    }
}

/// Why a window fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Early,
    Late,
    OnTime,
}

/// One result. The order of the fields is the order of comparison.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Firing {
    /// The input item that caused it.
    pub(crate) at: usize,
    pub(crate) kind: Kind,
    pub(crate) end: i64,
    pub(crate) start: i64,
    pub(crate) key: Option<String>,
    /// The watermark during the firing.
    pub(crate) watermark: i64,
    pub(crate) values: Vec<Value>,
}

impl fmt::Display for Firing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Firing { at, kind, end, start, key, watermark, values } = self;
        let kind = match kind {
            Kind::Early => "early",
            Kind::Late => "late",
            Kind::OnTime => "on time",
        };
        write!(f, "{kind} [{start}, {end})")?;
        if let Some(key) = key {
            write!(f, " {key}")?;
        }
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        write!(f, " = ({}) at input {at}, watermark {watermark}", values.join(", "))
    }
}

/// The whole answer to a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) firings: Vec<Firing>,
    /// Input indices of the rows that no window took.
    pub(crate) late: Vec<usize>,
    /// The merged watermark after the input items that moved it.
    pub(crate) watermarks: Vec<(usize, i64)>,
    /// The times that the watermark has come to when windows fire, by input item. The engine does not say.
    pub(crate) timers: Vec<(usize, i64)>,
}

impl Answer {
    /// Brings the firings into an order that does not depend on who gave the answer.
    pub(crate) fn canonical(mut self) -> Answer {
        self.firings.sort();
        self.timers.sort_unstable();
        self
    }

    /// The first thing in which `found` is not as `expected`, but for timers; both canonical.
    pub(crate) fn difference(found: &Answer, expected: &Answer) -> Option<String> {
        list_difference("watermark", &found.watermarks, &expected.watermarks, |(at, value)| {
            format!("{value} after input {at}")
        })
        .or_else(|| list_difference("firing", &found.firings, &expected.firings, Firing::to_string))
        .or_else(|| {
            list_difference("late row", &found.late, &expected.late, |index| format!("input {index}"))
        })
    }
}

/// Where two lists part.
pub(crate) fn list_difference<T: PartialEq>(
    what: &str,
    found: &[T],
    expected: &[T],
    show: impl Fn(&T) -> String,
) -> Option<String> {
    let longest = found.len().max(expected.len());
    let at = (0..longest).find(|&at| found.get(at) != expected.get(at))?;
    let show = |item: Option<&T>| item.map_or("none".to_owned(), &show);
    Some(format!("{what} {at}: expected {}, got {}", show(expected.get(at)), show(found.get(at))))
}
