//! `first(column)` and `last(column)` of primitive values; see `bytes` for all others.

use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{ArrayRef, Int64Array, UInt64Array};

use super::column::{Lens, Native, bytes, fill, for_each_row, gather, grow};
use super::seen::Seen;
use super::{Accumulator, FinishError, Part, Rows, same};
use crate::aggregate::RowPosition;
use crate::snapshot::{Checked, Record, record};

/// Event time, then arrival.
pub(crate) type Place = (i64, u64);

/// Whether a value at `place` replaces the one at `held`. Two rows never share a place, so equality only ever
/// meets [`nowhere`], which has to give way.
pub(crate) fn replaces<const LAST: bool>(place: Place, held: Place) -> bool {
    if LAST { place >= held } else { place <= held }
}

/// The place of no value at all.
pub(crate) const fn nowhere<const LAST: bool>() -> Place {
    if LAST { (i64::MIN, u64::MIN) } else { (i64::MAX, u64::MAX) }
}

/// The place of a row.
pub(crate) fn place(at: RowPosition) -> Place {
    (at.time, at.arrival)
}

/// Places as columns of a snapshot.
pub(crate) fn save_places(
    places: impl Iterator<Item = Option<Place>> + Clone,
) -> [(&'static str, ArrayRef); 2] {
    let times = places.clone().map(|place| place.map(|(time, _)| time));
    let arrivals = places.map(|place| place.map(|(_, arrival)| arrival));
    [
        ("time", Arc::new(times.collect::<Int64Array>())),
        ("arrival", Arc::new(arrivals.collect::<UInt64Array>())),
    ]
}

/// The places of a record; none for slots that have seen nothing.
pub(crate) fn restore_places(saved: &Record<'_>) -> Checked<Vec<Option<Place>>> {
    let (times, arrivals) = (saved.optional::<Int64Type>("time")?, saved.optional::<UInt64Type>("arrival")?);
    let places = times.iter().zip(arrivals).map(|place| match place {
        (Some(time), Some(arrival)) => Ok(Some((time, arrival))),
        (None, None) => Ok(None),
        _ => Err("a time without an arrival, or the reverse".into()),
    });
    places.collect()
}

/// The value with the largest place a slot if `LAST`, else with the smallest.
#[derive(Clone, Debug)]
pub(crate) struct FirstLast<N: Native, const LAST: bool> {
    lens: Lens<N>,
    places: Vec<Place>,
    values: Vec<N>,
    seen: Seen,
}

impl<N: Native, const LAST: bool> FirstLast<N, LAST> {
    pub(crate) fn new(lens: Lens<N>) -> Self {
        FirstLast { lens, places: Vec::new(), values: Vec::new(), seen: Seen::default() }
    }
}

impl<N: Native, const LAST: bool> Accumulator for FirstLast<N, LAST> {
    fn len(&self) -> usize {
        self.values.len()
    }
    fn resize(&mut self, slots: usize) {
        grow(&mut self.places, slots, nowhere::<LAST>());
        grow(&mut self.values, slots, N::default());
        self.seen.resize(slots);
    }
    fn clear(&mut self) {
        self.places.clear();
        self.values.clear();
        self.seen = Seen::default();
    }
    fn reset(&mut self, slots: &[u32]) {
        fill(&mut self.places, slots, &nowhere::<LAST>());
        fill(&mut self.values, slots, &N::default());
        self.seen.reset(slots);
    }
    fn update(&mut self, slots: &[u32], rows: &Rows<'_>) {
        let (values, nulls) = (self.lens.view(rows), rows.nulls());
        self.seen.update(slots, rows.blocks, nulls);
        for_each_row(slots, rows.blocks, nulls, |slot, row| {
            let place = place(rows.position(row));
            if replaces::<LAST>(place, self.places[slot]) {
                self.places[slot] = place;
                self.values[slot] = values[row];
            }
        });
    }
    fn merge(&mut self, slots: &[u32], other: &dyn Accumulator) {
        let other = same::<Self>(other);
        for (from, &slot) in slots.iter().enumerate() {
            let slot = slot as usize;
            if other.seen.get(from) && replaces::<LAST>(other.places[from], self.places[slot]) {
                self.places[slot] = other.places[from];
                self.values[slot] = other.values[from];
            }
        }
        self.seen.merge(slots, &other.seen);
    }
    fn gather(&self, slots: &[u32]) -> Box<dyn Accumulator> {
        Box::new(FirstLast::<N, LAST> {
            lens: self.lens.clone(),
            places: gather(&self.places, slots),
            values: gather(&self.values, slots),
            seen: self.seen.gather(slots),
        })
    }
    fn append(&mut self, other: &dyn Accumulator) {
        let other = same::<Self>(other);
        self.places.extend_from_slice(&other.places);
        self.values.extend_from_slice(&other.values);
        self.seen.append(&other.seen);
    }
    fn finish(&self, _: Part) -> Result<ArrayRef, FinishError> {
        Ok(self.lens.build(self.values.clone(), self.seen.nulls()))
    }
    fn size(&self) -> usize {
        bytes(&self.places) + bytes(&self.values) + self.seen.size()
    }
    fn save(&self) -> Checked<ArrayRef> {
        let places = (0..self.len()).map(|slot| self.seen.get(slot).then_some(self.places[slot]));
        let [time, arrival] = save_places(places);
        record(vec![time, arrival, ("value", self.lens.build(self.values.clone(), self.seen.nulls()))])
    }
    fn restore(&self, saved: &ArrayRef, _: &mut u64) -> Checked<Box<dyn Accumulator>> {
        let saved = Record::of(saved)?;
        let (values, nulls) = self.lens.unbuilt(saved.column("value")?)?;
        let mut restored = Self::new(self.lens.clone());
        restored.resize(values.len());
        for (slot, place) in restore_places(&saved)?.into_iter().enumerate() {
            if place.is_some() == nulls.is_some_and(|nulls| nulls.is_null(slot)) {
                return Err("a value without a place, or the reverse".into());
            }
            if let Some(place) = place {
                restored.places[slot] = place;
                restored.values[slot] = values[slot];
                restored.seen.mark(slot);
            }
        }
        Ok(Box::new(restored))
    }
    fn boxed_clone(&self) -> Box<dyn Accumulator> {
        Box::new(self.clone())
    }
}
