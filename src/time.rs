//! Durations and ticks: what a user says, and what the engine counts in.
//!
//! The engine works in the ticks of the event-time column, whatever their unit, over the whole range of `i64`.
//! Durations are exact nanoseconds until they meet a column; one that is not a whole number of its ticks is an
//! error (SEMANTICS rule 1).

use std::fmt;

use arrow_schema::{DataType, TimeUnit};

use crate::error::{Error, Result};

/// A signed length of time, exact to the nanosecond and wide enough for every tick of every unit.
///
/// ```
/// use highwater::TimeDelta;
/// assert_eq!(TimeDelta::from_secs(90).to_string(), "1m30s");
/// assert_eq!(TimeDelta::from(std::time::Duration::from_millis(250)), TimeDelta::from_millis(250));
/// assert_eq!(-TimeDelta::from_hours(1), TimeDelta::from_secs(-3600));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeDelta {
    nanos: i128,
}

const NANOS_PER_MICRO: i128 = 1_000;
const NANOS_PER_MILLI: i128 = 1_000_000;
const NANOS_PER_SECOND: i128 = 1_000_000_000;
const NANOS_PER_DAY: i128 = 86_400 * NANOS_PER_SECOND;

impl TimeDelta {
    /// No time at all.
    pub const ZERO: TimeDelta = TimeDelta { nanos: 0 };

    /// So many nanoseconds.
    pub const fn from_nanos(nanos: i128) -> Self {
        TimeDelta { nanos }
    }
    /// So many microseconds.
    pub const fn from_micros(micros: i64) -> Self {
        TimeDelta { nanos: micros as i128 * NANOS_PER_MICRO }
    }
    /// So many milliseconds.
    pub const fn from_millis(millis: i64) -> Self {
        TimeDelta { nanos: millis as i128 * NANOS_PER_MILLI }
    }
    /// So many seconds.
    pub const fn from_secs(secs: i64) -> Self {
        TimeDelta { nanos: secs as i128 * NANOS_PER_SECOND }
    }
    /// So many minutes.
    pub const fn from_mins(mins: i64) -> Self {
        TimeDelta { nanos: mins as i128 * 60 * NANOS_PER_SECOND }
    }
    /// So many hours.
    pub const fn from_hours(hours: i64) -> Self {
        TimeDelta { nanos: hours as i128 * 3_600 * NANOS_PER_SECOND }
    }
    /// So many days of 24 hours.
    pub const fn from_days(days: i64) -> Self {
        TimeDelta { nanos: days as i128 * NANOS_PER_DAY }
    }
    /// So many ticks of an event-time unit.
    pub const fn from_ticks(ticks: i64, unit: TickUnit) -> Self {
        TimeDelta { nanos: ticks as i128 * unit.nanos() }
    }
    /// The length in nanoseconds.
    pub const fn as_nanos(self) -> i128 {
        self.nanos
    }
    /// Whether it is shorter than nothing.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The length in whole ticks, which may exceed `i64`; `None` if it is not a whole number of them.
    pub const fn ticks(self, unit: TickUnit) -> Option<i128> {
        if self.nanos % unit.nanos() == 0 { Some(self.nanos / unit.nanos()) } else { None }
    }
}

impl std::ops::Neg for TimeDelta {
    type Output = TimeDelta;
    fn neg(self) -> TimeDelta {
        TimeDelta { nanos: -self.nanos }
    }
}

impl From<std::time::Duration> for TimeDelta {
    fn from(duration: std::time::Duration) -> Self {
        TimeDelta { nanos: duration.as_secs() as i128 * NANOS_PER_SECOND + duration.subsec_nanos() as i128 }
    }
}

impl fmt::Display for TimeDelta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0s");
        }
        if self.nanos < 0 {
            f.write_str("-")?;
        }
        let mut rest = self.nanos.unsigned_abs();
        for (unit, nanos) in [
            ("d", NANOS_PER_DAY),
            ("h", 3_600 * NANOS_PER_SECOND),
            ("m", 60 * NANOS_PER_SECOND),
            ("s", NANOS_PER_SECOND),
            ("ms", NANOS_PER_MILLI),
            ("us", NANOS_PER_MICRO),
            ("ns", 1),
        ] {
            let whole = rest / nanos as u128;
            rest %= nanos as u128;
            if whole > 0 {
                write!(f, "{whole}{unit}")?;
            }
        }
        Ok(())
    }
}

/// What one tick of an event-time column is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TickUnit {
    /// One nanosecond.
    Nanosecond,
    /// One microsecond.
    Microsecond,
    /// One millisecond.
    Millisecond,
    /// One second.
    Second,
    /// One day of 24 hours (Date32).
    Day,
}

impl TickUnit {
    /// Nanoseconds in a tick.
    pub const fn nanos(self) -> i128 {
        match self {
            TickUnit::Nanosecond => 1,
            TickUnit::Microsecond => NANOS_PER_MICRO,
            TickUnit::Millisecond => NANOS_PER_MILLI,
            TickUnit::Second => NANOS_PER_SECOND,
            TickUnit::Day => NANOS_PER_DAY,
        }
    }

    /// The unit of a column that can carry event time: Timestamp, Date32, Date64, or Int64 when `declared` says
    /// what it counts. `None` for any other type.
    pub fn of(data_type: &DataType, declared: Option<TimeUnit>) -> Option<TickUnit> {
        match (data_type, declared) {
            (DataType::Timestamp(unit, _), _) => Some((*unit).into()),
            (DataType::Date32, _) => Some(TickUnit::Day),
            (DataType::Date64, _) => Some(TickUnit::Millisecond),
            (DataType::Int64, Some(unit)) => Some(unit.into()),
            _ => None,
        }
    }
}

impl From<TimeUnit> for TickUnit {
    fn from(unit: TimeUnit) -> Self {
        match unit {
            TimeUnit::Second => TickUnit::Second,
            TimeUnit::Millisecond => TickUnit::Millisecond,
            TimeUnit::Microsecond => TickUnit::Microsecond,
            TimeUnit::Nanosecond => TickUnit::Nanosecond,
        }
    }
}

impl fmt::Display for TickUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TickUnit::Nanosecond => "nanosecond",
            TickUnit::Microsecond => "microsecond",
            TickUnit::Millisecond => "millisecond",
            TickUnit::Second => "second",
            TickUnit::Day => "day",
        })
    }
}

/// Turns a user's durations into ticks of one event-time column, with errors that name both.
#[derive(Clone, Debug)]
pub(crate) struct TickConverter {
    pub(crate) column: String,
    pub(crate) unit: TickUnit,
}

impl TickConverter {
    /// Exact ticks, of any size.
    pub(crate) fn wide(&self, parameter: &str, duration: TimeDelta) -> Result<i128> {
        duration.ticks(self.unit).ok_or_else(|| Error::NotWholeTicks {
            parameter: parameter.into(),
            duration: duration.to_string(),
            column: self.column.clone(),
            unit: self.unit.to_string(),
        })
    }

    /// Ticks of a tolerance (bound, lateness, timeout): not negative; beyond `i64` it saturates, as everything
    /// that is computed with it does.
    pub(crate) fn tolerance(&self, parameter: &str, duration: TimeDelta) -> Result<i64> {
        if duration.is_negative() {
            return Err(Error::invalid(parameter, duration, "zero or more"));
        }
        Ok(i64::try_from(self.wide(parameter, duration)?).unwrap_or(i64::MAX))
    }

    /// Ticks of a length that shapes windows: at least one, and within `i64`.
    pub(crate) fn length(&self, parameter: &str, duration: TimeDelta) -> Result<i64> {
        let ticks = self.wide(parameter, duration)?;
        match i64::try_from(ticks) {
            Ok(ticks) if ticks > 0 => Ok(ticks),
            _ => Err(Error::invalid(
                parameter,
                duration,
                format!("more than zero and at most {} ticks of one {}", i64::MAX, self.unit),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_as_people_write_it() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (-61 * NANOS_PER_SECOND, "-1m1s"),
            (NANOS_PER_DAY + NANOS_PER_MILLI, "1d1ms"),
            (1_500 * NANOS_PER_MICRO, "1ms500us"),
        ] {
            assert_eq!(TimeDelta::from_nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn ticks_are_whole_or_refused() {
        let ms = TickConverter { column: "ts".into(), unit: TickUnit::Millisecond };
        assert_eq!(ms.length("size", TimeDelta::from_secs(60)), Ok(60_000));
        let error = ms.length("size", TimeDelta::from_micros(1_500)).unwrap_err().to_string();
        assert!(
            error.contains("1ms500us") && error.contains("millisecond") && error.contains("\"ts\""),
            "{error}"
        );
        assert!(ms.length("size", TimeDelta::ZERO).is_err());
        assert!(ms.length("size", TimeDelta::from_secs(-1)).is_err());
        // 2^63 s are more milliseconds than i64 holds: too long for a window, saturated for a bound
        let long = TimeDelta::from_secs(i64::MAX);
        assert!(ms.length("size", long).is_err());
        assert_eq!(ms.tolerance("bound", long), Ok(i64::MAX));
        assert!(ms.tolerance("bound", TimeDelta::from_secs(-1)).is_err());
        let day = TickConverter { column: "d".into(), unit: TickUnit::Day };
        assert_eq!(day.length("size", TimeDelta::from_hours(48)), Ok(2));
        assert!(day.length("size", TimeDelta::from_hours(36)).is_err());
    }

    #[test]
    fn int64_needs_a_declared_unit() {
        assert_eq!(TickUnit::of(&DataType::Int64, None), None);
        assert_eq!(TickUnit::of(&DataType::Int64, Some(TimeUnit::Second)), Some(TickUnit::Second));
        assert_eq!(TickUnit::of(&DataType::Date64, None), Some(TickUnit::Millisecond));
        assert_eq!(TickUnit::of(&DataType::Utf8, Some(TimeUnit::Second)), None);
    }
}
