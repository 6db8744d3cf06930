//! Times as text, also those that no calendar reaches.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use highwater::watermark::{END, NONE};

use crate::failure::{Failure, Outcome};

/// Calendars reach a little further than this many seconds from the epoch, in both directions: 250,000 years.
const CALENDAR_SECONDS: i128 = 7_889_400_000_000;

/// Ticks in this many nanoseconds; `None` if the type is no instant.
fn tick_nanos(data_type: &DataType) -> Option<i128> {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => Some(1_000_000_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) | DataType::Date64 => Some(1_000_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(1_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(1),
        DataType::Date32 => Some(86_400 * 1_000_000_000),
        _ => None,
    }
}

/// A batch that can be written as text: a time that no calendar reaches, such as the bound of a clipped window, is
/// written as its number of ticks.
pub(crate) fn readable(batch: RecordBatch) -> Outcome<RecordBatch> {
    let columns = batch.columns().iter().map(readable_column).collect::<Outcome<Vec<_>>>()?;
    if columns.iter().zip(batch.columns()).all(|(new, old)| new.data_type() == old.data_type()) {
        return Ok(batch);
    }
    let fields = batch.schema_ref().fields().iter().zip(&columns);
    let fields: Vec<Field> =
        fields.map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(Failure::run)
}

fn readable_column(column: &ArrayRef) -> Outcome<ArrayRef> {
    let Some(nanos) = tick_nanos(column.data_type()) else { return Ok(column.clone()) };
    let ticks = arrow_cast::cast(column, &DataType::Int64).map_err(Failure::run)?;
    let ticks: &Int64Array = ticks.as_primitive::<Int64Type>();
    let reached = |tick: i64| i128::from(tick) * nanos / 1_000_000_000;
    let beyond = |tick: i64| reached(tick).abs() > CALENDAR_SECONDS;
    if !ticks.iter().flatten().any(beyond) {
        return Ok(column.clone());
    }
    let options = FormatOptions::new().with_display_error(true);
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options).map_err(Failure::run)?;
    let text = |(row, tick): (usize, Option<i64>)| {
        tick.map(|tick| if beyond(tick) { tick.to_string() } else { formatter.value(row).to_string() })
    };
    Ok(Arc::new(ticks.iter().enumerate().map(text).collect::<StringArray>()))
}

/// A watermark as text: an instant, `none` or `end of input`.
pub(crate) fn watermark_text(ticks: i64, data_type: &DataType) -> String {
    match ticks {
        NONE => "none".into(),
        END => "end of input".into(),
        _ => instant(ticks, data_type).unwrap_or_else(|| ticks.to_string()),
    }
}

fn instant(ticks: i64, data_type: &DataType) -> Option<String> {
    let array: ArrayRef = match data_type {
        DataType::Date32 => Arc::new(arrow_array::Date32Array::from(vec![i32::try_from(ticks).ok()?])),
        _ => arrow_cast::cast(&Int64Array::from(vec![ticks]), data_type).ok()?,
    };
    let array = readable_column(&array).ok()?;
    let options = FormatOptions::new();
    let formatter = ArrayFormatter::try_new(array.as_ref(), &options).ok()?;
    (array.len() == 1).then(|| formatter.value(0).to_string())
}

/// A number with its thousands set apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 window`, `2 windows`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A value on one line that cannot steer the terminal.
pub(crate) fn tame(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_string();
    }
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// Names after one another: of many only the first, of long ones only the beginning.
pub(crate) fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const MOST: usize = 50;
    const LONGEST: usize = 100;
    let more = names.len().saturating_sub(MOST);
    let short = |name: &'a str| match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_string(),
    };
    let mut text = names.take(MOST).map(short).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {} more", grouped(more as u64)));
    }
    text
}

#[cfg(test)]
mod tests {
    use arrow_array::TimestampMillisecondArray;

    use super::*;

    #[test]
    fn watermarks_read_as_times() {
        let ms = DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into()));
        assert_eq!(watermark_text(NONE, &ms), "none");
        assert_eq!(watermark_text(END, &ms), "end of input");
        assert_eq!(watermark_text(1_714_557_599_999, &ms), "2024-05-01T09:59:59.999Z");
        assert_eq!(watermark_text(END - 1, &ms), "9223372036854775806");
        assert_eq!(watermark_text(-1, &DataType::Date32), "1969-12-31");
        assert_eq!(watermark_text(-5, &DataType::Int64), "-5");
    }

    #[test]
    fn times_beyond_calendars_are_ticks() {
        let column: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![Some(0), None, Some(i64::MIN)]));
        let text = readable_column(&column).unwrap();
        let expected =
            StringArray::from(vec![Some("1970-01-01T00:00:00"), None, Some("-9223372036854775808")]);
        assert_eq!(text.as_string::<i32>(), &expected);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(2_000, "row"), "2,000 rows");
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(listed(["a", "b"].into_iter()), "a, b");
        assert_eq!(listed(["ä".repeat(101).as_str()].into_iter()), format!("{}...", "ä".repeat(100)));
        let names = vec!["x"; 52];
        assert_eq!(listed(names.iter().copied()), format!("{} and 2 more", vec!["x"; 50].join(", ")));
    }
}
