//! `min`, `max`, `first`, `last` and the values of `max_by` of everything that is not a primitive, as bytes.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, StringArray, new_null_array,
};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType};

use super::column::for_each_row;
use super::first_last::{Place, place, replaces, restore_places, save_places};
use super::states::ObjectFunction;
use super::{Part, Rows};
use crate::block::Block;
use crate::snapshot::{Checked, Record, record};

/// A column seen as bytes whose order is that of the values: booleans, strings and binary as they are, nested types by way of
/// Arrow's row format.
#[derive(Debug)]
pub(crate) struct Bytes {
    data_type: DataType,
    /// For the types that have no bytes of their own.
    encoder: Option<RowConverter>,
}

/// Whether values of this type are bytes without being encoded first.
pub(crate) fn is_bytes(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Boolean | Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_)
    )
}

/// The type that a column of any type comes back as: dictionaries and run-ends within are flattened.
pub(crate) fn flattened(data_type: &DataType) -> Result<DataType, ArrowError> {
    let columns = encoder(data_type)?.convert_rows([])?;
    Ok(columns.first().map_or(DataType::Null, |column| column.data_type().clone()))
}

fn encoder(data_type: &DataType) -> Result<RowConverter, ArrowError> {
    RowConverter::new(vec![SortField::new(data_type.clone())])
}

impl Bytes {
    /// Of a type for which [`is_bytes`] or [`flattened`] has said yes.
    pub(crate) fn new(data_type: &DataType) -> Self {
        let encoder = if is_bytes(data_type) { None } else { encoder(data_type).ok() };
        Bytes { data_type: data_type.clone(), encoder }
    }

    /// Calls `fold` with the slot, the row and the bytes of every row that is not null.
    pub(crate) fn for_each(&self, slots: &[u32], rows: &Rows<'_>, fold: impl FnMut(usize, usize, &[u8])) {
        use DataType::*;
        let Some(column) = rows.column else { return };
        match self.data_type {
            Boolean => {
                let values = column.as_boolean();
                walk(slots, rows, |row| if values.value(row) { &[1] } else { &[0] }, fold);
            }
            Utf8 => walk(slots, rows, |row| column.as_string::<i32>().value(row).as_bytes(), fold),
            LargeUtf8 => walk(slots, rows, |row| column.as_string::<i64>().value(row).as_bytes(), fold),
            Utf8View => walk(slots, rows, |row| column.as_string_view().value(row).as_bytes(), fold),
            Binary => walk(slots, rows, |row| column.as_binary::<i32>().value(row), fold),
            LargeBinary => walk(slots, rows, |row| column.as_binary::<i64>().value(row), fold),
            BinaryView => walk(slots, rows, |row| column.as_binary_view().value(row), fold),
            FixedSizeBinary(_) => walk(slots, rows, |row| column.as_fixed_size_binary().value(row), fold),
            _ => self.encoded(column, slots, rows, fold),
        }
    }

    fn encoded(
        &self,
        column: &ArrayRef,
        slots: &[u32],
        rows: &Rows<'_>,
        fold: impl FnMut(usize, usize, &[u8]),
    ) {
        let (Some(encoder), Some(first), Some(last)) =
            (&self.encoder, rows.blocks.first(), rows.blocks.last())
        else {
            return;
        };
        let part = column.slice(first.start, last.end() - first.start);
        let encoded = encoder.convert_columns(&[part]).expect("the type of the column was tried before");
        let mut fold = fold;
        let nulls = rows.logical_nulls();
        for_each_row(slots, rows.blocks, nulls.as_ref(), |slot, row| {
            fold(slot, row, encoded.row(row - first.start).data());
        });
    }

    /// A column of such values.
    fn build(&self, values: &[Option<&[u8]>]) -> Result<ArrayRef, ArrowError> {
        let items = || values.iter().copied();
        let total: usize = items().flatten().map(<[u8]>::len).sum();
        if matches!(self.data_type, DataType::Utf8 | DataType::Binary) && i32::try_from(total).is_err() {
            return Err(ArrowError::OffsetOverflowError(total));
        }
        Ok(match self.data_type {
            DataType::Boolean => {
                Arc::new(items().map(|value| value.map(|byte| byte == [1])).collect::<BooleanArray>())
            }
            DataType::Utf8 => Arc::new(StringArray::try_from_binary(BinaryArray::from_iter(items()))?),
            DataType::LargeUtf8 => {
                Arc::new(LargeStringArray::try_from_binary(LargeBinaryArray::from_iter(items()))?)
            }
            DataType::Utf8View => Arc::new(BinaryViewArray::from_iter(items()).to_string_view()?),
            DataType::Binary => Arc::new(BinaryArray::from_iter(items())),
            DataType::LargeBinary => Arc::new(LargeBinaryArray::from_iter(items())),
            DataType::BinaryView => Arc::new(BinaryViewArray::from_iter(items())),
            DataType::FixedSizeBinary(size) => {
                Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(items(), size)?)
            }
            _ => return self.decoded(values),
        })
    }

    /// The bytes of the values of a column that `build` has made; none for nulls.
    fn unbuilt(&self, column: &ArrayRef) -> Checked<Vec<Option<Vec<u8>>>> {
        let built = match is_bytes(&self.data_type) {
            true => self.data_type.clone(),
            false => flattened(&self.data_type).map_err(|error| error.to_string())?,
        };
        if column.data_type() != &built {
            return Err(format!("values of type {built} were expected, not {}", column.data_type()));
        }
        let mut values = vec![None; column.len()];
        let slots: Vec<u32> = (0..column.len() as u32).collect();
        let blocks = Block::cover(0..column.len());
        let rows = Rows { column: Some(column), by: None, times: &[], first_arrival: 0, blocks: &blocks };
        Bytes::new(&built).for_each(&slots, &rows, |slot, _, value| values[slot] = Some(value.to_vec()));
        Ok(values)
    }

    fn decoded(&self, values: &[Option<&[u8]>]) -> Result<ArrayRef, ArrowError> {
        let Some(encoder) = &self.encoder else {
            return Err(ArrowError::NotYetImplemented(format!("values of type {}", self.data_type)));
        };
        let null = encoder.convert_columns(&[new_null_array(&self.data_type, 1)])?;
        let parser = encoder.parser();
        let rows = values.iter().map(|value| value.map_or_else(|| null.row(0), |bytes| parser.parse(bytes)));
        encoder
            .convert_rows(rows)?
            .pop()
            .ok_or_else(|| ArrowError::ComputeError("no column came back".into()))
    }
}

fn walk<'v>(
    slots: &[u32],
    rows: &Rows<'_>,
    value: impl Fn(usize) -> &'v [u8],
    mut fold: impl FnMut(usize, usize, &[u8]),
) {
    for_each_row(slots, rows.blocks, rows.nulls(), |slot, row| fold(slot, row, value(row)));
}

/// Which value stays.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pick {
    Min,
    Max,
    First,
    Last,
}

/// The picked value a slot.
#[derive(Debug)]
pub(crate) struct PickBytes {
    pub(crate) bytes: Bytes,
    pub(crate) pick: Pick,
}

/// A value and where it came from.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    place: Place,
    value: Vec<u8>,
}

impl PickBytes {
    fn offer(&self, state: &mut Option<Held>, place: Place, value: &[u8]) {
        let Some(held) = state else {
            *state = Some(Held { place, value: value.to_vec() });
            return;
        };
        let better = match self.pick {
            Pick::Min => value < held.value.as_slice(),
            Pick::Max => value > held.value.as_slice(),
            Pick::First => replaces::<false>(place, held.place),
            Pick::Last => replaces::<true>(place, held.place),
        };
        if better {
            held.place = place;
            held.value.clear();
            held.value.extend_from_slice(value);
        }
    }
}

impl ObjectFunction for PickBytes {
    type State = Option<Held>;

    fn create(&self) -> Self::State {
        None
    }
    fn update(&self, states: &mut [Self::State], slots: &[u32], rows: &Rows<'_>) -> isize {
        let mut growth = 0;
        self.bytes.for_each(slots, rows, |slot, row, value| {
            let place = place(rows.position(row));
            growth += self.tracked(&mut states[slot], |state| self.offer(state, place, value));
        });
        growth
    }
    fn merge(&self, state: &mut Self::State, other: &Self::State) {
        if let Some(held) = other {
            self.offer(state, held.place, &held.value);
        }
    }
    fn finish(&self, states: &[Self::State], _: Part) -> Result<ArrayRef, String> {
        let values: Vec<_> =
            states.iter().map(|state| state.as_ref().map(|held| held.value.as_slice())).collect();
        self.bytes.build(&values).map_err(|error| error.to_string())
    }
    fn save(&self, states: &[Self::State]) -> Checked<ArrayRef> {
        let [time, arrival] = save_places(states.iter().map(|state| state.as_ref().map(|held| held.place)));
        record(vec![time, arrival, ("value", self.finish(states, Part::Only)?)])
    }
    fn restore(&self, saved: &ArrayRef, _: &mut u64) -> Checked<Vec<Self::State>> {
        let saved = Record::of(saved)?;
        let values = self.bytes.unbuilt(saved.column("value")?)?;
        let held = restore_places(&saved)?.into_iter().zip(values).map(|held| match held {
            (Some(place), Some(value)) => Ok(Some(Held { place, value })),
            (None, None) => Ok(None),
            _ => Err("a value without a place, or the reverse".into()),
        });
        held.collect()
    }
    fn heap_size(&self, state: &Self::State) -> usize {
        state.as_ref().map_or(0, |held| held.value.capacity())
    }
    fn magnitude(&self, heap: usize) -> u128 {
        magnitude(heap)
    }
}

/// Only more bytes than the offsets of a column can count make `finish` fail.
fn magnitude(heap: usize) -> u128 {
    if i32::try_from(heap).is_ok() { 0 } else { u128::MAX }
}

/// The value that was put into the slot last, be it null; see [`Keep`](super::max_by::Keep).
#[derive(Debug)]
pub(crate) struct KeepBytes(pub(crate) Bytes);

impl ObjectFunction for KeepBytes {
    type State = Option<Box<[u8]>>;

    fn create(&self) -> Self::State {
        None
    }
    /// No slot comes twice.
    fn update(&self, states: &mut [Self::State], slots: &[u32], rows: &Rows<'_>) -> isize {
        let mut growth = 0;
        for &slot in slots {
            growth += self.tracked(&mut states[slot as usize], |state| *state = None);
        }
        self.0.for_each(slots, rows, |slot, _, value| {
            growth += self.tracked(&mut states[slot], |state| *state = Some(value.into()));
        });
        growth
    }
    fn merge(&self, state: &mut Self::State, other: &Self::State) {
        state.clone_from(other);
    }
    fn finish(&self, states: &[Self::State], _: Part) -> Result<ArrayRef, String> {
        let values: Vec<_> = states.iter().map(Option::as_deref).collect();
        self.0.build(&values).map_err(|error| error.to_string())
    }
    fn save(&self, states: &[Self::State]) -> Checked<ArrayRef> {
        self.finish(states, Part::Only)
    }
    fn restore(&self, saved: &ArrayRef, _: &mut u64) -> Checked<Vec<Self::State>> {
        let values = self.0.unbuilt(saved)?.into_iter();
        Ok(values.map(|value| value.map(Vec::into_boxed_slice)).collect())
    }
    fn heap_size(&self, state: &Self::State) -> usize {
        state.as_ref().map_or(0, |value| value.len())
    }
    fn magnitude(&self, heap: usize) -> u128 {
        magnitude(heap)
    }
}
