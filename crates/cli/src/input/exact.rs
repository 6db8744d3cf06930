//! Text as times of which nothing is lost.
//!
//! The unit of a time column is inferred from the first rows, and Arrow cuts off what a unit cannot hold without a word: rows
//! after the first could change their places, and results. So these columns are decoded as text, and become times here.
//! A type that the user gives says how much of a time is wanted; then the cut is what was asked for.
//!
//! *A road not taken:* nanoseconds for all text. No digit could be lost, but bounds, watermarks and files would be in
//! nanoseconds too, and no time before 1677 or after 2262 could be read.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::timezone::Tz;
use arrow_array::types::{
    ArrowTimestampType, Date32Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{ArrayRef, PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow_cast::parse::{Parser, string_to_datetime};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};

use super::types::{self, UTC};
use crate::failure::plain;

/// Whether text becomes this type here.
fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..) | DataType::Date32)
}

/// A schema with text where there will be times, other than those whose type the user gave.
pub(super) fn as_text(schema: &SchemaRef, given: &[String]) -> SchemaRef {
    let field = |field: &Arc<Field>| match is_time(field.data_type()) && !given.contains(field.name()) {
        true => Arc::new(Field::new(field.name(), DataType::Utf8, true)),
        false => field.clone(),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// Makes times of the text columns that [`as_text`] has made of `wanted`.
///
/// # Errors
/// The first text that is no time, or more than its column can hold.
pub(super) fn with_times(batch: &RecordBatch, wanted: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(wanted.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() {
            return Ok(column.clone());
        }
        times(column.as_string(), field.data_type()).map_err(|error| {
            ArrowError::ParseError(format!("column {:?}: {}", field.name(), error.said(field.name())))
        })
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(wanted.clone(), columns.collect::<Result<_, _>>()?, &options)
}

/// Why a text is no time of its column.
enum Misfit {
    /// What Arrow says.
    NoTime(String),
    Number(String),
    /// It needs a unit that is finer than the column's, if there is one.
    Finer {
        text: String,
        than: &'static str,
        needs: Option<&'static str>,
    },
    TooFar(String),
}

impl Misfit {
    fn said(self, column: &str) -> String {
        match self {
            Misfit::NoTime(error) => error,
            Misfit::Number(text) => format!(
                "{text} is a number, where ISO 8601 text was expected; --schema {column}:i64 and --time-unit read numbers"
            ),
            Misfit::Finer { text, than, needs: Some(needs) } => format!(
                "{text:?} is finer than {than}, which is all that the first rows need; --schema {column}:{needs} \
                 reads it whole"
            ),
            Misfit::Finer { text, than, needs: None } => format!(
                "{text:?} is finer than {than}, and nothing finer is known; --schema {column}:timestamp_ns cuts it there"
            ),
            Misfit::TooFar(text) => format!(
                "{text:?} is not within reach of nanoseconds, which are for 1677 to 2262; --schema {column}:timestamp_us \
                 reads it, without what is finer"
            ),
        }
    }
}

fn times(texts: &StringArray, data_type: &DataType) -> Result<ArrayRef, Misfit> {
    let DataType::Timestamp(unit, zone) = data_type else { return dates(texts) };
    let tz: Tz = zone.as_deref().unwrap_or(UTC).parse().map_err(|error| Misfit::NoTime(plain(error)))?;
    let zone = zone.clone();
    Ok(match unit {
        TimeUnit::Second => Arc::new(instants::<TimestampSecondType>(texts, tz)?.with_timezone_opt(zone)),
        TimeUnit::Millisecond => {
            Arc::new(instants::<TimestampMillisecondType>(texts, tz)?.with_timezone_opt(zone))
        }
        TimeUnit::Microsecond => {
            Arc::new(instants::<TimestampMicrosecondType>(texts, tz)?.with_timezone_opt(zone))
        }
        TimeUnit::Nanosecond => {
            Arc::new(instants::<TimestampNanosecondType>(texts, tz)?.with_timezone_opt(zone))
        }
    })
}

fn instants<T: ArrowTimestampType>(texts: &StringArray, tz: Tz) -> Result<PrimitiveArray<T>, Misfit> {
    let (than, digits) = match T::UNIT {
        TimeUnit::Second => ("seconds", 0),
        TimeUnit::Millisecond => ("milliseconds", 3),
        TimeUnit::Microsecond => ("microseconds", 6),
        TimeUnit::Nanosecond => ("nanoseconds", 9),
    };
    let instant = |text: &str| {
        let instant = string_to_datetime(&tz, text).map_err(|error| match text.parse::<f64>() {
            Ok(_) => Misfit::Number(text.into()),
            Err(_) => Misfit::NoTime(plain(error)),
        })?;
        let needs = match digits_that_count(text) {
            needed if needed <= digits => {
                return T::from_datetime(instant).ok_or_else(|| Misfit::TooFar(text.into()));
            }
            ..=3 => Some("timestamp_ms"),
            4..=6 => Some("timestamp_us"),
            7..=9 => Some("timestamp_ns"),
            _ => None,
        };
        Err(Misfit::Finer { text: text.into(), than, needs })
    };
    texts.iter().map(|text| text.map(instant).transpose()).collect()
}

/// The digits of the seconds' fraction without zeros at its end.
fn digits_that_count(text: &str) -> usize {
    // "2024-05-01T10:00:00" has 19 bytes
    let Some((b'.', fraction)) = text.as_bytes().get(19..).and_then(<[u8]>::split_first) else { return 0 };
    let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit());
    digits.enumerate().filter(|(_, digit)| **digit != b'0').last().map_or(0, |(at, _)| at + 1)
}

fn dates(texts: &StringArray) -> Result<ArrayRef, Misfit> {
    let date = |text: &str| {
        // Arrow takes a time for its date; years of more than four digits have a sign.
        if text.len() > "2024-05-01".len() && !text.starts_with(['+', '-']) {
            return Err(match string_to_datetime(&types::chrono_utc(), text) {
                Err(error) => Misfit::NoTime(plain(error)),
                Ok(_) => Misfit::Finer { text: text.into(), than: "days", needs: Some("timestamp_ms") },
            });
        }
        Date32Type::parse(text).ok_or_else(|| Misfit::NoTime(format!("{text:?} is no date")))
    };
    let dates: PrimitiveArray<Date32Type> =
        texts.iter().map(|text| text.map(date).transpose()).collect::<Result<_, _>>()?;
    Ok(Arc::new(dates))
}
