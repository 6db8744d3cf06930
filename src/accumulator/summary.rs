//! `count`, `sum`, `mean`, `min` and `max` of one column of primitives, side by side.
//!
//! One record a slot holds all that the aggregates of a column ask for, so that a row touches one cache line and its
//! value is read once. Sums and extremes are compiled in only where somebody asks for them.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::column::{Lens, Native, bytes, fill, for_each, for_each_row, gather, grow};
use super::total::Total;
use super::{Accumulator, Additive, FinishError, Part, Rows, same, spend};
use crate::block::bits;
use crate::key::Repeats;
use crate::scan::{all, outside};
use crate::snapshot::{Checked, Record as Saved, record};

/// The type of the sum of a column of numbers.
pub(crate) fn sum_type(input: &DataType) -> DataType {
    match *input {
        DataType::Decimal128(_, scale) => DataType::Decimal128(38, scale),
        _ if input.is_floating() => DataType::Float64,
        _ if input.is_unsigned_integer() => DataType::UInt64,
        _ => DataType::Int64,
    }
}

/// What a record holds beside its count: `()` is nothing.
pub(crate) trait Piece<N: Native>: Copy + Debug + Send + Sync + 'static {
    /// Has seen nothing.
    const NEW: Self;
    fn take(&mut self, value: N);
    /// The same for a value that is simple, as all before it were ([`Native::is_simple`]).
    fn take_simple(&mut self, value: N) {
        self.take(value);
    }
    /// Takes those of up to 64 neighbouring values that have a bit in `rows`, in order.
    fn take_rows(&mut self, values: &[N], rows: u64) {
        match rows {
            u64::MAX => values.iter().for_each(|&value| self.take(value)),
            _ => bits(rows).for_each(|row| self.take(values[row])),
        }
    }
    fn merge(&mut self, other: &Self);
}

impl<N: Native> Piece<N> for () {
    const NEW: Self = ();
    fn take(&mut self, _: N) {}
    fn take_rows(&mut self, _: &[N], _: u64) {}
    fn merge(&mut self, (): &Self) {}
}

/// A running sum: integers and decimals exact, floats added in the order of the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum<N: Native>(N::Total);

impl<N: Native> Piece<N> for Sum<N> {
    const NEW: Self = Sum(N::Total::NOTHING);
    fn take(&mut self, value: N) {
        self.0 = self.0.plus(value.total());
    }
    fn merge(&mut self, other: &Self) {
        self.0 = self.0.plus(other.0);
    }
}

/// The smallest and the largest value, in the order of rule 27.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extremes<N: Native> {
    /// The opposite of the smallest, and the largest: both are raised alike, which takes one instruction.
    ends: [N; 2],
}

impl<N: Native> Extremes<N> {
    fn low(&self) -> N {
        self.ends[0].opposite()
    }
    fn high(&self) -> N {
        self.ends[1]
    }
    fn lower(&mut self, low: N) {
        self.ends[0] = low.canonical().opposite();
    }
    fn raise(&mut self, high: N) {
        self.ends[1] = high.canonical();
    }
}

impl<N: Native> Piece<N> for Extremes<N> {
    const NEW: Self = Extremes { ends: [N::OPPOSITE_OF_HIGHEST, N::LOWEST] };
    fn take(&mut self, value: N) {
        if value.below(self.low()) {
            self.lower(value);
        }
        if self.high().below(value) {
            self.raise(value);
        }
    }
    /// Without a branch: while a window is young its extremes change often, and at random. The only NaN among the ends is that
    /// of a slot without values, which is not above any.
    fn take_simple(&mut self, value: N) {
        for (end, value) in self.ends.iter_mut().zip([value.opposite(), value]) {
            *end = if *end > value { *end } else { value };
        }
    }
    /// Values strictly between the extremes change nothing.
    fn take_rows(&mut self, values: &[N], rows: u64) {
        let perhaps = outside::<N, true, true>(values, self.low(), self.high()) & rows;
        bits(perhaps).for_each(|row| self.take(values[row]));
    }
    fn merge(&mut self, other: &Self) {
        if other.low().below(self.low()) {
            self.ends[0] = other.ends[0];
        }
        if self.high().below(other.high()) {
            self.ends[1] = other.ends[1];
        }
    }
}

/// What one slot has seen.
#[derive(Clone, Copy, Debug)]
struct Record<S, E> {
    /// Values that are not null.
    count: u64,
    sum: S,
    extremes: E,
}

impl<S, E> Record<S, E> {
    fn merge<N: Native>(&mut self, other: &Self)
    where
        S: Piece<N>,
        E: Piece<N>,
    {
        self.count += other.count;
        self.sum.merge(&other.sum);
        self.extremes.merge(&other.extremes);
    }
}

/// A summary a slot. `S` is [`Sum`] or nothing, `E` is [`Extremes`] or nothing.
#[derive(Clone, Debug)]
pub(crate) struct Summary<N: Native, S, E> {
    lens: Lens<N>,
    records: Vec<Record<S, E>>,
    /// Rows whose value is null, for `count(*)`; no longer than the highest slot that has one.
    nulls: Vec<u64>,
    /// Whether all values, as far as extremes are asked for, are known to be simple ([`Native::is_simple`]).
    simple: bool,
    /// At least the sum of the magnitudes of all values taken in, whatever their slots, if a sum is asked for: so it
    /// bounds every slot, and still does after slots have been merged.
    bound: Option<u128>,
}

/// What is read out of a record, whatever it holds.
pub(crate) trait Held<N: Native>: Sized {
    /// Whether it holds a sum.
    const SUM: bool = false;
    /// Whether it holds extremes.
    const EXTREMES: bool = false;
    /// One that holds these, as far as it holds any.
    fn of(total: N::Total, extremes: (N, N)) -> Self;
    fn total(&self) -> N::Total {
        N::Total::NOTHING
    }
    fn extremes(&self) -> (N, N) {
        (N::HIGHEST, N::LOWEST)
    }
}

impl<N: Native> Held<N> for () {
    fn of(_: N::Total, _: (N, N)) -> Self {}
}

impl<N: Native> Held<N> for Sum<N> {
    const SUM: bool = true;
    fn of(total: N::Total, _: (N, N)) -> Self {
        Sum(total)
    }
    fn total(&self) -> N::Total {
        self.0
    }
}

impl<N: Native> Held<N> for Extremes<N> {
    const EXTREMES: bool = true;
    fn of(_: N::Total, (low, high): (N, N)) -> Self {
        Extremes { ends: [low.opposite(), high] }
    }
    fn extremes(&self) -> (N, N) {
        (self.low(), self.high())
    }
}

impl<N: Native, S: Piece<N> + Held<N>, E: Piece<N> + Held<N>> Summary<N, S, E> {
    const NEW: Record<S, E> = Record { count: 0, sum: S::NEW, extremes: E::NEW };

    /// Without slots. `can_overflow`: whether a sum comes out in a type that it may not fit.
    pub(crate) fn new(lens: Lens<N>, can_overflow: bool) -> Self {
        let bound = can_overflow.then_some(0);
        Summary { lens, records: Vec::new(), nulls: Vec::new(), simple: true, bound }
    }

    fn count_nulls(&mut self, slots: &[u32], rows: &Rows<'_>, nulls: &NullBuffer) {
        for_each_row(slots, rows.blocks, None, |slot, row| {
            if nulls.is_null(row) {
                grow(&mut self.nulls, slot + 1, 0);
                self.nulls[slot] += 1;
            }
        });
    }

    /// Whether the values of these rows, and all before them, are simple. It notes what it finds.
    fn stays_simple(&mut self, rows: &Rows<'_>, values: &[N]) -> bool {
        if let Some(span) = rows.span() {
            self.simple = self.simple && all(&values[span], N::is_simple);
        }
        self.simple
    }

    fn fold(&mut self, slots: &[u32], rows: &Rows<'_>, values: &[N], take: impl Fn(&mut E, N)) {
        let records = self.records.as_mut_slice();
        for_each(slots, rows.blocks, values, rows.nulls(), |slot, value| {
            let record = &mut records[slot];
            record.count += 1;
            record.sum.take(value);
            take(&mut record.extremes, value);
        });
    }

    /// Notes how large `count` of the values can make a sum.
    fn raise_bound(&mut self, rows: &Rows<'_>, values: &[N], count: usize) {
        if self.bound.is_some()
            && let Some(span) = rows.span()
        {
            self.add_bound(N::magnitude(&values[span]).saturating_mul(count as u128));
        }
    }

    /// The slots that have seen nothing are null.
    fn validity(&self) -> Option<NullBuffer> {
        let seen = |record: &Record<S, E>| record.count > 0;
        // most often all have: found out without a branch for each
        let all = self.records.iter().fold(true, |all, record| all & seen(record));
        (!all).then(|| self.records.iter().map(seen).collect())
    }

    fn counts(&self) -> impl Iterator<Item = i64> {
        self.records.iter().map(|record| record.count as i64)
    }

    fn extremes(&self, of: impl Fn((N, N)) -> N) -> ArrayRef {
        let values = self.records.iter().map(|record| of(record.extremes.extremes()));
        self.lens.build(values.collect(), self.validity())
    }

    /// One of the extremes of slots that have seen so many values.
    fn restore_extremes(&self, saved: &ArrayRef, counts: &[u64], new: N) -> Checked<Vec<N>> {
        let (values, nulls) = self.lens.unbuilt(saved)?;
        let value = |(slot, (&count, &value))| match nulls.is_some_and(|nulls| nulls.is_null(slot)) {
            true if count > 0 => Err("an extreme is null, but values have been seen".into()),
            true => Ok(new),
            false => Ok(value),
        };
        counts.iter().zip(values).enumerate().map(value).collect()
    }

    fn add_bound(&mut self, more: u128) {
        self.bound = self.bound.map(|bound| bound.saturating_add(more));
    }
}

impl<N: Native, S: Piece<N> + Held<N>, E: Piece<N> + Held<N>> Accumulator for Summary<N, S, E> {
    fn len(&self) -> usize {
        self.records.len()
    }
    fn resize(&mut self, slots: usize) {
        grow(&mut self.records, slots, Self::NEW);
    }
    fn clear(&mut self) {
        self.records.clear();
        self.nulls.clear();
        self.simple = true;
        self.bound = self.bound.map(|_| 0);
    }
    fn reset(&mut self, slots: &[u32]) {
        fill(&mut self.records, slots, &Self::NEW);
        for &slot in slots {
            if let Some(nulls) = self.nulls.get_mut(slot as usize) {
                *nulls = 0;
            }
        }
    }
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>) {
        let (values, nulls) = (self.lens.view(rows), rows.nulls());
        self.raise_bound(rows, values, slots.len());
        let simple = E::EXTREMES && self.stays_simple(rows, values);
        match simple {
            true => self.fold(slots, rows, values, E::take_simple),
            false => self.fold(slots, rows, values, E::take),
        }
        if let Some(nulls) = nulls {
            self.count_nulls(slots, rows, nulls);
        }
    }
    /// The record stays in registers. A sum takes the values one after the other all the same, for the bits of floats.
    fn update_one(&mut self, zeros: &[u32], rows: &Rows<'_>) {
        let Some(mut record) = self.records.first().copied() else { return };
        let (values, nulls) = (self.lens.view(rows), rows.nulls());
        self.raise_bound(rows, values, zeros.len());
        self.simple = false; // what cannot change an extreme is not looked at
        for block in rows.blocks {
            let (values, rows) = (block.of(values), block.valid(nulls));
            record.count += u64::from(rows.count_ones());
            record.sum.take_rows(values, rows);
            record.extremes.take_rows(values, rows);
        }
        self.records[0] = record;
        if let Some(nulls) = nulls {
            self.count_nulls(zeros, rows, nulls);
        }
    }
    fn is_light(&self) -> bool {
        true
    }
    fn as_additive(&mut self) -> Option<&mut dyn Additive> {
        Some(self)
    }
    fn merge(&mut self, slots: &[u32], other: &dyn Accumulator) {
        let other = same::<Self>(other);
        for (&slot, record) in slots.iter().zip(&other.records) {
            self.records[slot as usize].merge(record);
        }
        for (&slot, &nulls) in slots.iter().zip(&other.nulls) {
            grow(&mut self.nulls, slot as usize + 1, 0);
            self.nulls[slot as usize] += nulls;
        }
        self.simple &= other.simple;
        self.add_bound(other.bound.unwrap_or(0));
    }
    fn gather(&self, slots: &[u32]) -> Box<dyn Accumulator> {
        let nulls = |&slot: &u32| self.nulls.get(slot as usize).copied().unwrap_or(0);
        Box::new(Summary {
            lens: self.lens.clone(),
            records: gather(&self.records, slots),
            nulls: if self.nulls.is_empty() { Vec::new() } else { slots.iter().map(nulls).collect() },
            ..*self
        })
    }
    fn reserve(&mut self, more: usize) {
        self.records.reserve(more);
    }
    fn append(&mut self, other: &dyn Accumulator) {
        let other = same::<Self>(other);
        if !other.nulls.is_empty() {
            self.nulls.resize(self.records.len(), 0);
            self.nulls.extend_from_slice(&other.nulls);
        }
        self.records.extend_from_slice(&other.records);
        self.simple &= other.simple;
        self.add_bound(other.bound.unwrap_or(0));
    }
    fn finish(&self, part: Part) -> Result<ArrayRef, FinishError> {
        let records = self.records.iter();
        Ok(match part {
            Part::Count => Arc::new(Int64Array::from(self.counts().collect::<Vec<_>>())),
            Part::Rows => {
                let nulls = self.nulls.iter().map(|&nulls| nulls as i64).chain(std::iter::repeat(0));
                Arc::new(Int64Array::from(
                    self.counts().zip(nulls).map(|(own, more)| own + more).collect::<Vec<_>>(),
                ))
            }
            Part::Mean => Arc::new(
                records
                    .map(|r| (r.count > 0).then(|| r.sum.total().mean(r.count, self.lens.divisor)))
                    .collect::<Float64Array>(),
            ),
            Part::Min => self.extremes(|(low, _)| low),
            Part::Max => self.extremes(|(_, high)| high),
            _ => {
                let totals = records.map(|record| record.sum.total()).collect();
                return N::Total::column(totals, self.validity(), &sum_type(&self.lens.data_type));
            }
        })
    }
    fn size(&self) -> usize {
        bytes(&self.records) + bytes(&self.nulls)
    }
    fn magnitude(&self) -> u128 {
        self.bound.unwrap_or(0)
    }
    fn save(&self) -> Checked<ArrayRef> {
        let nulls = self.nulls.iter().copied().chain(std::iter::repeat(0)).take(self.len());
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            (
                "count",
                Arc::new(UInt64Array::from_iter_values(self.records.iter().map(|record| record.count))),
            ),
            ("nulls", Arc::new(UInt64Array::from_iter_values(nulls))),
        ];
        if S::SUM {
            columns.push((
                "sum",
                N::Total::save(self.records.iter().map(|record| record.sum.total()).collect())?,
            ));
        }
        if E::EXTREMES {
            columns.push(("min", self.extremes(|(low, _)| low)));
            columns.push(("max", self.extremes(|(_, high)| high)));
        }
        record(columns)
    }
    fn restore(&self, saved: &ArrayRef, left: &mut u64) -> Checked<Box<dyn Accumulator>> {
        let saved = Saved::of(saved)?;
        let (counts, nulls) = (saved.numbers::<UInt64Type>("count")?, saved.numbers::<UInt64Type>("nulls")?);
        spend(left, counts.iter().chain(nulls))?;
        let mut records = vec![Self::NEW; counts.len()];
        records.iter_mut().zip(counts).for_each(|(record, &count)| record.count = count);
        let (mut simple, mut bound) = (true, self.bound);
        if S::SUM {
            for (record, total) in records.iter_mut().zip(N::Total::restore(&saved, "sum")?) {
                if !total.possible(record.count) {
                    return Err(format!("a sum of {} values is out of range", record.count));
                }
                record.sum = S::of(total, (N::HIGHEST, N::LOWEST));
                bound = bound.map(|bound| bound.saturating_add(total.magnitude()));
            }
        }
        if E::EXTREMES {
            let low = self.restore_extremes(saved.column("min")?, counts, N::HIGHEST)?;
            let high = self.restore_extremes(saved.column("max")?, counts, N::LOWEST)?;
            for (record, extremes) in records.iter_mut().zip(low.into_iter().zip(high)) {
                simple &= record.count == 0 || (extremes.0.is_simple() && extremes.1.is_simple());
                record.extremes = E::of(N::Total::NOTHING, extremes);
            }
        }
        let any_null = nulls.iter().any(|&nulls| nulls > 0);
        let nulls = if any_null { nulls.to_vec() } else { Vec::new() };
        Ok(Box::new(Summary::<N, S, E> { lens: self.lens.clone(), records, nulls, simple, bound }))
    }
    fn boxed_clone(&self) -> Box<dyn Accumulator> {
        Box::new(self.clone())
    }
}

impl<N: Native, S: Piece<N> + Held<N>, E: Piece<N> + Held<N>> Additive for Summary<N, S, E> {
    fn fold(&mut self, repeats: &Repeats) {
        for &(into, from) in &repeats.merges {
            let record = self.records[from as usize];
            self.records[into as usize].merge(&record);
        }
        repeats.take_out(&mut self.records);
        if !self.nulls.is_empty() {
            self.nulls.resize(self.records.len() + repeats.gone.len(), 0);
            for &(into, from) in &repeats.merges {
                self.nulls[into as usize] += self.nulls[from as usize];
            }
            repeats.take_out(&mut self.nulls);
        }
    }
}
