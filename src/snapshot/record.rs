//! Named columns as one Arrow array, and back again with every expectation checked.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, LargeBinaryArray, LargeListArray, LargeStringArray,
    PrimitiveArray, StructArray,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::Field;

/// What a part of a snapshot is, or why it cannot be that, in words.
pub(crate) type Checked<T> = Result<T, String>;

/// Columns of one length side by side, as a struct.
pub(crate) fn record(columns: Vec<(&str, ArrayRef)>) -> Checked<ArrayRef> {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns
        .into_iter()
        .map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array))
        .unzip();
    let array = StructArray::try_new(fields.into(), arrays, None);
    Ok(Arc::new(array.map_err(|error| error.to_string())?))
}

/// Lists of these lengths, one after the other, out of `values`.
pub(crate) fn lists(lengths: impl IntoIterator<Item = usize>, values: ArrayRef) -> Checked<ArrayRef> {
    let mut ends = vec![0_i64];
    let mut end = 0;
    for length in lengths {
        end += length as i64;
        ends.push(end);
    }
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
    let array = LargeListArray::try_new(field, offsets, values, None);
    Ok(Arc::new(array.map_err(|error| error.to_string())?))
}

/// What each list of a column that [`lists`] has made holds, as `of` reads it.
pub(crate) fn each_list<T>(array: &ArrayRef, of: impl Fn(&ArrayRef) -> Checked<T>) -> Checked<Vec<T>> {
    let lists = array.as_list_opt::<i64>().filter(|lists| lists.null_count() == 0);
    let lists = lists.ok_or_else(|| format!("lists were expected, not {}", array.data_type()))?;
    lists.iter().flatten().map(|list| of(&list)).collect()
}

/// A struct whose columns are asked for by name and type.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a>(&'a StructArray);

impl<'a> Record<'a> {
    pub(crate) fn of(array: &'a ArrayRef) -> Checked<Self> {
        let found = array
            .as_struct_opt()
            .ok_or_else(|| format!("a struct was expected, not {}", array.data_type()))?;
        match found.null_count() {
            0 => Ok(Record(found)),
            nulls => Err(format!("{nulls} of {} structs are null", found.len())),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them.
    pub(crate) fn columns(&self) -> &'a [ArrayRef] {
        self.0.columns()
    }

    /// Any column.
    pub(crate) fn column(&self, name: &str) -> Checked<&'a ArrayRef> {
        self.0.column_by_name(name).ok_or_else(|| format!("there is no column {name:?}"))
    }

    fn of_type<T>(&self, name: &str, cast: impl Fn(&'a ArrayRef) -> Option<&'a T>) -> Checked<&'a T> {
        let column = self.column(name)?;
        cast(column).ok_or_else(|| format!("column {name:?} is {}", column.data_type()))
    }

    fn without_nulls<T: Array>(&self, name: &str, column: &'a T) -> Checked<&'a T> {
        match column.null_count() {
            0 => Ok(column),
            nulls => Err(format!("column {name:?} has {nulls} nulls")),
        }
    }

    /// Numbers, any of which may be null.
    pub(crate) fn optional<T: ArrowPrimitiveType>(&self, name: &str) -> Checked<&'a PrimitiveArray<T>> {
        self.of_type(name, |column| column.as_primitive_opt::<T>())
    }

    /// Numbers.
    pub(crate) fn numbers<T: ArrowPrimitiveType>(&self, name: &str) -> Checked<&'a [T::Native]> {
        Ok(self.without_nulls(name, self.optional::<T>(name)?)?.values())
    }

    /// The number in a record of one row.
    pub(crate) fn number<T: ArrowPrimitiveType>(&self, name: &str) -> Checked<T::Native> {
        match self.numbers::<T>(name)? {
            [one] => Ok(*one),
            other => Err(format!("column {name:?} has {} rows, and one was expected", other.len())),
        }
    }

    pub(crate) fn flags(&self, name: &str) -> Checked<&'a BooleanArray> {
        self.without_nulls(name, self.of_type(name, |column| column.as_boolean_opt())?)
    }

    pub(crate) fn texts(&self, name: &str) -> Checked<&'a LargeStringArray> {
        self.without_nulls(name, self.of_type(name, |column| column.as_string_opt::<i64>())?)
    }

    /// Byte strings, any of which may be null.
    pub(crate) fn bytes(&self, name: &str) -> Checked<&'a LargeBinaryArray> {
        self.of_type(name, |column| column.as_binary_opt::<i64>())
    }

    pub(crate) fn lists(&self, name: &str) -> Checked<&'a LargeListArray> {
        self.without_nulls(name, self.of_type(name, |column| column.as_list_opt::<i64>())?)
    }
}
