//! Codes back to columns.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, BinaryViewBuilder, LargeBinaryBuilder};
use arrow_array::builder::{LargeStringBuilder, StringBuilder, StringViewBuilder};
use arrow_array::types::{
    Date32Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, make_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, TimeUnit};

use super::Code;

/// A narrow column out of its codes.
pub(super) fn bits_to_array(data_type: &DataType, codes: &[Code], nulls: Option<&[bool]>) -> ArrayRef {
    use DataType::*;
    let nulls = nulls.map(|nulls| NullBuffer::from(nulls.iter().map(|null| !null).collect::<Vec<bool>>()));
    fn primitive<T: ArrowPrimitiveType>(
        data_type: &DataType,
        codes: &[Code],
        nulls: Option<NullBuffer>,
        narrow: impl Fn(Code) -> T::Native,
    ) -> ArrayRef {
        let values: Vec<T::Native> = codes.iter().map(|&code| narrow(code)).collect();
        Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(data_type.clone()))
    }
    match data_type {
        Boolean => {
            let values: BooleanBuffer = codes.iter().map(|&code| code != 0).collect();
            Arc::new(BooleanArray::new(values, nulls))
        }
        Int8 => primitive::<Int8Type>(data_type, codes, nulls, |c| c as i8),
        Int16 => primitive::<Int16Type>(data_type, codes, nulls, |c| c as i16),
        Int32 => primitive::<Int32Type>(data_type, codes, nulls, |c| c as i32),
        UInt8 => primitive::<UInt8Type>(data_type, codes, nulls, |c| c as u8),
        UInt16 => primitive::<UInt16Type>(data_type, codes, nulls, |c| c as u16),
        UInt32 => primitive::<UInt32Type>(data_type, codes, nulls, |c| c as u32),
        UInt64 => primitive::<UInt64Type>(data_type, codes, nulls, |c| c),
        Float16 => primitive::<Float16Type>(data_type, codes, nulls, |c| {
            <Float16Type as ArrowPrimitiveType>::Native::from_bits(c as u16)
        }),
        Float32 => primitive::<Float32Type>(data_type, codes, nulls, |c| f32::from_bits(c as u32)),
        Float64 => primitive::<Float64Type>(data_type, codes, nulls, f64::from_bits),
        Date32 => primitive::<Date32Type>(data_type, codes, nulls, |c| c as i32),
        Time32(TimeUnit::Second) => primitive::<Time32SecondType>(data_type, codes, nulls, |c| c as i32),
        Time32(_) => primitive::<Time32MillisecondType>(data_type, codes, nulls, |c| c as i32),
        // all that is left is stored as i64: make it so and give the buffer its own type
        _ => {
            let plain = primitive::<Int64Type>(&Int64, codes, nulls, |c| c as i64);
            let data = plain.to_data().into_builder().data_type(data_type.clone());
            match data.build() {
                Ok(data) => make_array(data),
                Err(_) => plain,
            }
        }
    }
}

/// A column of strings or binary.
pub(super) fn bytes_to_array<'a>(
    data_type: &DataType,
    strings: impl Iterator<Item = Option<&'a [u8]>>,
) -> ArrayRef {
    // interned strings came from a string column, so they are UTF-8
    let texts = |bytes: Option<&'a [u8]>| bytes.map(|bytes| std::str::from_utf8(bytes).unwrap_or("\u{fffd}"));
    match data_type {
        DataType::Utf8 => {
            let mut builder = StringBuilder::new();
            strings.for_each(|s| builder.append_option(texts(s)));
            Arc::new(builder.finish())
        }
        DataType::LargeUtf8 => {
            let mut builder = LargeStringBuilder::new();
            strings.for_each(|s| builder.append_option(texts(s)));
            Arc::new(builder.finish())
        }
        DataType::Utf8View => {
            let mut builder = StringViewBuilder::new();
            strings.for_each(|s| builder.append_option(texts(s)));
            Arc::new(builder.finish())
        }
        DataType::Binary => {
            let mut builder = BinaryBuilder::new();
            strings.for_each(|s| builder.append_option(s));
            Arc::new(builder.finish())
        }
        DataType::LargeBinary => {
            let mut builder = LargeBinaryBuilder::new();
            strings.for_each(|s| builder.append_option(s));
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = BinaryViewBuilder::new();
            strings.for_each(|s| builder.append_option(s));
            Arc::new(builder.finish())
        }
    }
}
