//! The marker column of punctuated watermarks.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, BooleanArray, Date32Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};

use crate::error::{Error, Result};

/// A marker column, its type decided once per batch.
pub(crate) enum Markers<'a> {
    /// No markers, or a column of a type that [`check_marker`] refuses.
    Absent,
    /// A true marker says: the row's own event time.
    Flags(&'a BooleanArray),
    /// A marker that is not null is itself the watermark.
    Times { ticks: &'a [i64], nulls: Option<&'a NullBuffer> },
    /// The same, for days.
    Days(&'a Date32Array),
}

impl<'a> Markers<'a> {
    pub(crate) fn new(column: Option<&'a ArrayRef>) -> Self {
        let Some(column) = column else { return Markers::Absent };
        let ticks: &[i64] = match column.data_type() {
            DataType::Boolean => return Markers::Flags(column.as_boolean()),
            DataType::Date32 => return Markers::Days(column.as_primitive::<Date32Type>()),
            DataType::Int64 => column.as_primitive::<Int64Type>().values(),
            DataType::Date64 => column.as_primitive::<Date64Type>().values(),
            DataType::Timestamp(TimeUnit::Second, _) => column.as_primitive::<TimestampSecondType>().values(),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                column.as_primitive::<TimestampMillisecondType>().values()
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                column.as_primitive::<TimestampMicrosecondType>().values()
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                column.as_primitive::<TimestampNanosecondType>().values()
            }
            _ => return Markers::Absent,
        };
        Markers::Times { ticks, nulls: column.nulls() }
    }

    /// The watermark that `row`, whose event time is `time`, says; `None` if it says nothing.
    pub(crate) fn get(&self, row: usize, time: i64) -> Option<i64> {
        match self {
            Markers::Absent => None,
            Markers::Flags(flags) => (flags.is_valid(row) && flags.value(row)).then_some(time),
            Markers::Times { ticks, nulls } => {
                nulls.is_none_or(|nulls| nulls.is_valid(row)).then(|| ticks[row])
            }
            Markers::Days(days) => days.is_valid(row).then(|| i64::from(days.value(row))),
        }
    }
}

/// Whether `marker` can be the type of a marker column next to event times of type `event_time`.
pub(crate) fn check_marker(column: &str, marker: &DataType, event_time: &DataType) -> Result<()> {
    if *marker == DataType::Boolean || marker == event_time {
        return Ok(());
    }
    Err(Error::ColumnType {
        parameter: "punctuated watermark".into(),
        column: column.into(),
        given: marker.to_string(),
        allowed: format!("Boolean, or {event_time} like the event time"),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray, TimestampMicrosecondArray};

    use super::*;

    fn read(column: ArrayRef) -> Vec<Option<i64>> {
        let markers = Markers::new(Some(&column));
        (0..column.len()).map(|row| markers.get(row, 100 + row as i64)).collect()
    }

    #[test]
    fn every_type_of_marker() {
        let flags = BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]);
        assert_eq!(read(Arc::new(flags)), [Some(100), None, None, Some(103)]);
        let ticks = vec![None, Some(i64::MIN), Some(7), None];
        let expected = [None, Some(i64::MIN), Some(7), None];
        assert_eq!(read(Arc::new(Int64Array::from(ticks.clone()))), expected);
        assert_eq!(
            read(Arc::new(TimestampMicrosecondArray::from(ticks.clone()).with_timezone("UTC"))),
            expected
        );
        // A slice keeps values and nulls together.
        assert_eq!(read(Arc::new(Int64Array::from(ticks).slice(1, 2))), expected[1..3]);
        assert_eq!(read(Arc::new(Date32Array::from(vec![Some(3), None]))), [Some(3), None]);
    }

    #[test]
    fn other_types_are_refused_before_they_get_here() {
        assert!(check_marker("m", &DataType::Boolean, &DataType::Date32).is_ok());
        assert!(check_marker("m", &DataType::Date32, &DataType::Date32).is_ok());
        let error = check_marker("m", &DataType::Utf8, &DataType::Date32).expect_err("refused").to_string();
        assert!(error.contains("\"m\"") && error.contains("Utf8") && error.contains("Boolean"), "{error}");
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        assert_eq!(Markers::new(Some(&text)).get(0, 1), None);
    }
}
