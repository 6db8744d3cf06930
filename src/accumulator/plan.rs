//! Which accumulators the aggregates need, and which result each aggregate reads from which.
//!
//! Aggregates of one column that can share their state do: `count`, `sum`, `mean`, `min` and `max` are parts of one
//! summary, all quantiles of one sketch, and `count(*)` is a part of any summary there is.

use std::sync::Arc;

use arrow_schema::DataType;

use super::bytes::{Bytes, KeepBytes, Pick, PickBytes};
use super::column::{Lens, Native, Visit, visit};
use super::max_by::{Keep, MaxBy};
use super::states::{ObjectFunction, States};
use super::summary::{Extremes, Sum, Summary};
use super::{
    Accumulator, Columns, Nothing, count, dictionary, distinct, first_last, quantile, reservoir, variance,
};
use crate::aggregate::Function;

/// One of the results of an accumulator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    /// The only one that it has.
    Only,
    /// Rows, those with nulls too.
    Rows,
    /// Values that are not null.
    Count,
    Sum,
    Mean,
    Min,
    Max,
    Quantile(f64),
}

/// Where the result of an aggregate comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Output {
    /// The number of the accumulator.
    pub(crate) accumulator: usize,
    pub(crate) part: Part,
}

/// A function and its input.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) function: Function,
    /// The number of each column, and its type.
    pub(crate) input: Columns<(usize, DataType)>,
}

/// The accumulators that some aggregates need.
pub(crate) struct Plan {
    /// Each with the columns that it reads.
    pub(crate) accumulators: Vec<(Columns<usize>, Box<dyn Accumulator>)>,
    /// One for each aggregate.
    pub(crate) outputs: Vec<Output>,
}

/// An accumulator to be.
struct Need<'a> {
    columns: Columns<usize>,
    input: Columns<&'a DataType>,
    what: What<'a>,
}

enum What<'a> {
    Summary(Asked),
    Quantiles,
    One(&'a Function),
}

/// What is asked of a summary beside its count.
#[derive(Clone, Copy, Default)]
struct Asked {
    sum: bool,
    /// The sum itself, which may not fit its type; a mean always does.
    total: bool,
    extremes: bool,
}

/// Plans for functions and types that [`output_type`](super::output_type) has accepted. `seed` decides which rows a sample
/// takes.
pub(crate) fn plan(calls: &[Call], seed: u64) -> Plan {
    let mut needs: Vec<Need<'_>> = Vec::new();
    let mut outputs = vec![Output { accumulator: 0, part: Part::Only }; calls.len()];
    // counts come last, for they can be read from a summary that somebody else needs
    let is_count = |call: &Call| matches!(call.function, Function::CountAll | Function::Count);
    let (counts, others): (Vec<_>, Vec<_>) =
        calls.iter().zip(&mut outputs).partition(|(call, _)| is_count(call));
    for (Call { function, input }, output) in others.into_iter().chain(counts) {
        let (columns, input) = (input.map(|(column, _)| *column), input.map(|(_, data_type)| data_type));
        let (part, asked) = part(function, input.value);
        let shares = |need: &Need<'_>| match (part, &need.what) {
            (Part::Rows, What::Summary(_)) => true,
            (Part::Quantile(_), What::Quantiles) => need.columns == columns,
            (Part::Count | Part::Sum | Part::Mean | Part::Min | Part::Max, What::Summary(_)) => {
                need.columns == columns
            }
            _ => false,
        };
        output.part = part;
        output.accumulator = needs.iter().position(shares).unwrap_or(needs.len());
        match needs.get_mut(output.accumulator) {
            Some(Need { what: What::Summary(all), .. }) => all.join(asked),
            Some(_) => {}
            None => {
                let what = match part {
                    Part::Only => What::One(function),
                    Part::Quantile(_) => What::Quantiles,
                    // a lone count needs no summary
                    Part::Rows | Part::Count => {
                        output.part = Part::Only;
                        What::One(function)
                    }
                    _ => What::Summary(asked),
                };
                needs.push(Need { columns, input, what });
            }
        }
    }
    Plan {
        accumulators: needs
            .iter()
            .map(|need| (need.columns.clone(), need.build(need.input.value, seed)))
            .collect(),
        outputs,
    }
}

/// The part of a shared accumulator that a function is, and what it asks of it; [`Part::Only`] if it shares none.
fn part(function: &Function, input: Option<&DataType>) -> (Part, Asked) {
    let asked = |sum, total, extremes| Asked { sum, total, extremes };
    let part = match function {
        Function::CountAll => (Part::Rows, Asked::default()),
        Function::Count => (Part::Count, Asked::default()),
        Function::Sum => (Part::Sum, asked(true, true, false)),
        Function::Mean => (Part::Mean, asked(true, false, false)),
        Function::Min => (Part::Min, asked(false, false, true)),
        Function::Max => (Part::Max, asked(false, false, true)),
        Function::Quantile(q) => (Part::Quantile(*q), Asked::default()),
        _ => (Part::Only, Asked::default()),
    };
    let counts = matches!(part.0, Part::Rows | Part::Count);
    if counts || input.is_some_and(is_primitive) { part } else { (Part::Only, Asked::default()) }
}

/// Whether the values, those of a dictionary too, are natives.
pub(super) fn is_primitive(data_type: &DataType) -> bool {
    visit(plain(data_type), Nothing).is_some()
}

impl Asked {
    fn join(&mut self, other: Asked) {
        self.sum |= other.sum;
        self.total |= other.total;
        self.extremes |= other.extremes;
    }
}

impl Need<'_> {
    fn build(&self, input: Option<&DataType>, seed: u64) -> Box<dyn Accumulator> {
        let input = match (&self.what, input) {
            (What::One(Function::CountAll | Function::Count), _) | (_, None) => {
                return Box::new(count::Count::default());
            }
            (What::One(Function::Custom(function)), Some(input)) => {
                return (*function).clone().accumulator(input);
            }
            (What::One(function @ (Function::MaxBy | Function::MinBy)), Some(input)) => {
                let by = By { values: keep(input), largest: matches!(function, Function::MaxBy) };
                let chosen = self.input.by.and_then(|input| visit(plain(input), by));
                return chosen.expect("output_type and check_by have accepted the types");
            }
            (_, Some(DataType::Dictionary(_, values))) => {
                return Box::new(dictionary::Dictionary::new(self.build(Some(values), seed)));
            }
            (_, Some(input)) => input,
        };
        visit(input, Primitive { what: &self.what, seed }).unwrap_or_else(|| over_bytes(&self.what, input))
    }
}

/// The type of a column, or of the values if it is a dictionary.
fn plain(input: &DataType) -> &DataType {
    if let DataType::Dictionary(_, values) = input { plain(values) } else { input }
}

/// Builds a `max_by` or `min_by`, by a primitive column.
struct By {
    values: Box<dyn Accumulator>,
    largest: bool,
}

impl Visit for By {
    type Output = Box<dyn Accumulator>;
    fn visit<N: Native>(self, lens: Lens<N>) -> Box<dyn Accumulator> {
        match self.largest {
            true => Box::new(MaxBy::<N, true>::new(lens, self.values)),
            false => Box::new(MaxBy::<N, false>::new(lens, self.values)),
        }
    }
}

/// What holds the values of a `max_by`.
fn keep(input: &DataType) -> Box<dyn Accumulator> {
    struct Natives;
    impl Visit for Natives {
        type Output = Box<dyn Accumulator>;
        fn visit<N: Native>(self, lens: Lens<N>) -> Box<dyn Accumulator> {
            Box::new(Keep::new(lens))
        }
    }
    match input {
        DataType::Dictionary(_, values) => Box::new(dictionary::Dictionary::new(keep(values))),
        _ => visit(input, Natives).unwrap_or_else(|| states(KeepBytes(Bytes::new(input)))),
    }
}

/// Builds an accumulator over a primitive column.
struct Primitive<'a> {
    what: &'a What<'a>,
    seed: u64,
}

impl Visit for Primitive<'_> {
    type Output = Box<dyn Accumulator>;
    fn visit<N: Native>(self, lens: Lens<N>) -> Box<dyn Accumulator> {
        let function = match *self.what {
            What::Summary(Asked { sum: true, total, extremes: true }) => {
                return Box::new(Summary::<N, Sum<N>, Extremes<N>>::new(lens, total));
            }
            What::Summary(Asked { sum: true, total, .. }) => {
                return Box::new(Summary::<N, Sum<N>, ()>::new(lens, total));
            }
            What::Summary(_) => return Box::new(Summary::<N, (), Extremes<N>>::new(lens, false)),
            What::Quantiles => return states(quantile::Quantile::new(lens)),
            What::One(function) => function,
        };
        match *function {
            Function::Variance { sample, sqrt } => Box::new(variance::Variance::new(lens, sample, sqrt)),
            Function::First => Box::new(first_last::FirstLast::<N, false>::new(lens)),
            Function::Last => Box::new(first_last::FirstLast::<N, true>::new(lens)),
            Function::ReservoirQuantile { q, capacity } => {
                states(reservoir::Reservoir::new(lens, q, capacity, self.seed))
            }
            Function::ApproxDistinct => states(distinct::Distinct::new(lens)),
            // these have gone another way
            _ => Box::new(count::Count::default()),
        }
    }
}

/// Builds an accumulator over a column of any other type.
fn over_bytes(what: &What<'_>, input: &DataType) -> Box<dyn Accumulator> {
    let bytes = Bytes::new(input);
    let pick = match what {
        What::One(Function::ApproxDistinct) => return states(distinct::Distinct::new(bytes)),
        What::One(Function::Min) => Pick::Min,
        What::One(Function::Max) => Pick::Max,
        What::One(Function::First) => Pick::First,
        _ => Pick::Last,
    };
    states(PickBytes { bytes, pick })
}

fn states<F: ObjectFunction>(function: F) -> Box<dyn Accumulator> {
    Box::new(States::new(Arc::new(function)))
}
