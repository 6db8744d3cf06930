//! Column types of text: what `--schema` says, and what is made of what Arrow infers.

use arrow_cast::parse::string_to_datetime;
use arrow_schema::{DataType, TimeUnit};

/// The zone of timestamps that come from text: UTC, in the form that needs no zone database.
pub(crate) const UTC: &str = "+00:00";

/// What `--schema` says about columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides(Vec<(String, DataType)>);

impl Overrides {
    /// The type that is given for a column, if any.
    pub fn get(&self, column: &str) -> Option<&DataType> {
        self.0.iter().find(|(name, _)| name == column).map(|(_, data_type)| data_type)
    }

    /// All columns with a type, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &DataType)> {
        self.0.iter().map(|(name, data_type)| (name.as_str(), data_type))
    }
}

const TYPES: &str = "i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, bool, utf8, date, timestamp_s, timestamp_ms, \
                     timestamp_us, timestamp_ns, decimal(p,s)";

/// Reads `ts:timestamp_ms,usd:decimal(18,6)`. A column's name may hold colons, for the type is what follows the last one.
pub(crate) fn parse(text: &str) -> Result<Overrides, String> {
    let mut columns: Vec<(String, DataType)> = Vec::new();
    for item in split_outside_parentheses(text) {
        let (name, given) = item.rsplit_once(':').ok_or_else(|| format!("{item:?} is not COLUMN:TYPE"))?;
        let (name, given) = (name.trim(), given.trim());
        let data_type = data_type(given)
            .ok_or_else(|| format!("{given:?} is no type of column {name:?}; allowed: {TYPES}"))?;
        if columns.iter().any(|(other, _)| other == name) {
            return Err(format!("column {name:?} is given twice"));
        }
        columns.push((name.to_string(), data_type));
    }
    Ok(Overrides(columns))
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0usize);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn data_type(name: &str) -> Option<DataType> {
    let timestamp = |unit| DataType::Timestamp(unit, Some(UTC.into()));
    Some(match name.to_ascii_lowercase().as_str() {
        "i8" | "int8" => DataType::Int8,
        "i16" | "int16" => DataType::Int16,
        "i32" | "int32" => DataType::Int32,
        "i64" | "int64" | "int" => DataType::Int64,
        "u8" | "uint8" => DataType::UInt8,
        "u16" | "uint16" => DataType::UInt16,
        "u32" | "uint32" => DataType::UInt32,
        "u64" | "uint64" => DataType::UInt64,
        "f32" | "float32" => DataType::Float32,
        "f64" | "float64" | "float" => DataType::Float64,
        "bool" | "boolean" => DataType::Boolean,
        "utf8" | "string" | "text" => DataType::Utf8,
        "date" | "date32" => DataType::Date32,
        "timestamp_s" => timestamp(TimeUnit::Second),
        "timestamp_ms" => timestamp(TimeUnit::Millisecond),
        "timestamp_us" => timestamp(TimeUnit::Microsecond),
        "timestamp_ns" => timestamp(TimeUnit::Nanosecond),
        other => return decimal(other),
    })
}

fn decimal(name: &str) -> Option<DataType> {
    let (precision, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
    ((1..=38).contains(&precision) && (0..=38).contains(&scale) && scale as u8 <= precision)
        .then_some(DataType::Decimal128(precision, scale))
}

/// The type of a time column that holds these texts: a UTC timestamp of milliseconds, or finer if a value has more
/// digits; no type without any. An error is the first text, if that is no ISO 8601 instant. One that comes later is left to the decoder,
/// which names its line.
pub(crate) fn timestamp_type<'a>(
    mut texts: impl Iterator<Item = &'a str>,
    unit: Option<TimeUnit>,
) -> Result<DataType, String> {
    let Some(first) = texts.next() else { return Ok(DataType::Null) };
    if string_to_datetime(&chrono_utc(), first).is_err() {
        return Err(first.to_string());
    }
    let digits = texts.map(fraction_digits).max().unwrap_or(0).max(fraction_digits(first));
    let unit = unit.unwrap_or(match digits {
        0..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    });
    Ok(DataType::Timestamp(unit, Some(UTC.into())))
}

/// The type of a column that must hold numbers, of which Arrow says that it is text. If the first is a number, others are
/// mistakes: the decoder will name the line of the first one.
pub(crate) fn number_type<'a>(mut texts: impl Iterator<Item = &'a str>) -> DataType {
    let Some(first) = texts.next().filter(|first| first.parse::<f64>().is_ok()) else {
        return DataType::Utf8;
    };
    let mut numbers = std::iter::once(first).chain(texts).filter(|text| text.parse::<f64>().is_ok());
    if numbers.all(|number| number.parse::<i64>().is_ok()) { DataType::Int64 } else { DataType::Float64 }
}

pub(super) fn chrono_utc() -> arrow_array::timezone::Tz {
    // The constant is a valid offset.
    UTC.parse().unwrap_or_else(|_| unreachable!("{UTC} is an offset"))
}

fn fraction_digits(text: &str) -> usize {
    text.split_once('.').map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count())
}

/// The one type that holds what two text inputs were inferred to hold, if there is one.
pub(crate) fn widen(one: &DataType, other: &DataType) -> Option<DataType> {
    match (one, other) {
        (one, other) if one == other => Some(one.clone()),
        (DataType::Null, known) | (known, DataType::Null) => Some(known.clone()),
        (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => {
            Some(DataType::Float64)
        }
        (DataType::Timestamp(a, zone), DataType::Timestamp(b, other_zone)) if zone == other_zone => {
            Some(DataType::Timestamp(*a.max(b), zone.clone()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_overrides() {
        let overrides = parse("ts:timestamp_us, usd:decimal(18,6),a:b:F64").unwrap();
        assert_eq!(overrides.get("ts"), Some(&DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))));
        assert_eq!(overrides.get("usd"), Some(&DataType::Decimal128(18, 6)));
        assert_eq!(overrides.get("a:b"), Some(&DataType::Float64));
        assert_eq!(overrides.get("x"), None);
        assert_eq!(parse("ts"), Err("\"ts\" is not COLUMN:TYPE".into()));
        assert_eq!(parse("ts:i64,ts:i64"), Err("column \"ts\" is given twice".into()));
        for bad in ["x:money", "x:decimal(50,2)", "x:decimal(2,5)", "x:decimal(2)"] {
            let error = parse(bad).unwrap_err();
            assert_eq!(
                error,
                format!("{:?} is no type of column \"x\"; allowed: {TYPES}", &bad[2..]),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_number_first_means_numbers() {
        assert_eq!(number_type(["1", "x", "2"].into_iter()), DataType::Int64);
        assert_eq!(number_type(["1", "x", "2.5"].into_iter()), DataType::Float64);
        assert_eq!(number_type(["x", "1"].into_iter()), DataType::Utf8);
        assert_eq!(number_type([].into_iter()), DataType::Utf8);
    }

    #[test]
    fn digits_decide_the_unit() {
        let unit = |texts: &[&str], unit| match timestamp_type(texts.iter().copied(), unit) {
            Ok(DataType::Timestamp(unit, _)) => Ok(unit),
            Ok(other) => Err(format!("{other:?}")),
            Err(text) => Err(text),
        };
        assert_eq!(unit(&["2024-05-01T10:00:00Z"], None), Ok(TimeUnit::Millisecond));
        assert_eq!(
            unit(&["2024-05-01 10:00:00.5", "2024-05-01T10:00:00.1234+02:00"], None),
            Ok(TimeUnit::Microsecond)
        );
        assert_eq!(unit(&["2024-05-01T10:00:00.1234567Z"], None), Ok(TimeUnit::Nanosecond));
        assert_eq!(unit(&["2024-05-01T10:00:00.1234567Z"], Some(TimeUnit::Second)), Ok(TimeUnit::Second));
        assert_eq!(unit(&[], None), Err("Null".into()));
        assert_eq!(unit(&["yesterday"], None), Err("yesterday".into()));
    }
}
