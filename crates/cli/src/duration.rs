//! Durations as people write them: `20s`, `1m30s`, `250ms`, `1.5h`, `2 days`, `PT1M`.

use highwater::TimeDelta;
use jiff::Span;

/// What [`parse`] takes, for messages and help.
const ALLOWED: &str = "a duration such as 20s, 1m30s, 250ms, 7d or PT1M";

/// The most days that jiff reads, so that every duration can be shown and read again.
const MAX_DAYS: i64 = 7_304_484;

/// Reads a duration of either sign, exact to the nanosecond.
///
/// Both forms of [jiff](https://docs.rs/jiff) are taken: the friendly one and ISO 8601. Days are 24 hours and weeks
/// 7 days, because fixed durations know no zone; months and years have no fixed length and are refused. A plain `0`
/// needs no unit, every other number does.
pub fn parse(text: &str) -> Result<TimeDelta, String> {
    let span = parse_span(text)?;
    if span.get_years() != 0 || span.get_months() != 0 {
        return Err(format!(
            "{text:?} counts months or years, which have no fixed length; write it in weeks, days, hours, minutes or seconds"
        ));
    }
    let hours =
        (i128::from(span.get_weeks()) * 7 + i128::from(span.get_days())) * 24 + i128::from(span.get_hours());
    let seconds = hours * 3_600 + i128::from(span.get_minutes()) * 60 + i128::from(span.get_seconds());
    let nanos = seconds * 1_000_000_000
        + i128::from(span.get_milliseconds()) * 1_000_000
        + i128::from(span.get_microseconds()) * 1_000
        + i128::from(span.get_nanoseconds());
    let delta = TimeDelta::from_nanos(nanos);
    if delta.max(-delta) > TimeDelta::from_days(MAX_DAYS) {
        return Err(too_long(text));
    }
    Ok(delta)
}

/// Reads how many of each unit a text says, months and years included.
pub(crate) fn parse_span(text: &str) -> Result<Span, String> {
    let trimmed = text.trim();
    if trimmed == "0" {
        return Ok(Span::new());
    }
    if !trimmed.is_empty()
        && trimmed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b'-')
    {
        return Err(format!("{trimmed:?} has no unit; write {trimmed}s, {trimmed}ms or {trimmed}m"));
    }
    trimmed.parse().map_err(|error: jiff::Error| match error.is_range() {
        true => too_long(text),
        false => format!("{text:?} is not {ALLOWED}"),
    })
}

pub(crate) fn too_long(text: &str) -> String {
    format!("{text:?} is too long; allowed are at most {MAX_DAYS}d, twenty thousand years")
}

/// Reads a duration that is zero or more: a bound, a delay, a tolerance.
pub fn parse_tolerance(text: &str) -> Result<TimeDelta, String> {
    match parse(text)? {
        negative if negative.is_negative() => Err(format!("{text:?} is negative; allowed is zero or more")),
        duration => Ok(duration),
    }
}

/// Reads a duration that is more than zero: the length of something.
pub fn parse_length(text: &str) -> Result<TimeDelta, String> {
    match parse(text)? {
        duration if duration > TimeDelta::ZERO => Ok(duration),
        _ => Err(no_length(text)),
    }
}

pub(crate) fn no_length(text: &str) -> String {
    format!("{text:?} is no length; allowed is more than zero")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("20s", 20_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1m 30s", 90_000_000_000),
            ("250ms", 250_000_000),
            ("5us", 5_000),
            ("7ns", 7),
            ("1.5s", 1_500_000_000),
            ("2 minutes", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1d", 86_400_000_000_000),
            ("1w", 604_800_000_000_000),
            ("PT1M", 60_000_000_000),
            ("PT0.25S", 250_000_000),
            ("P1DT1H", 90_000_000_000_000),
            ("-5m", -300_000_000_000),
            ("-PT1S", -1_000_000_000),
            ("5m ago", -300_000_000_000),
            (" 20s ", 20_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(TimeDelta::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn refuses_with_the_reason() {
        for (text, error) in [
            ("20", "\"20\" has no unit; write 20s, 20ms or 20m"),
            ("1.5", "\"1.5\" has no unit; write 1.5s, 1.5ms or 1.5m"),
            ("", "\"\" is not a duration such as 20s, 1m30s, 250ms, 7d or PT1M"),
            ("soon", "\"soon\" is not a duration such as 20s, 1m30s, 250ms, 7d or PT1M"),
            ("1m30", "\"1m30\" is not a duration such as 20s, 1m30s, 250ms, 7d or PT1M"),
            ("10 parsecs", "\"10 parsecs\" is not a duration such as 20s, 1m30s, 250ms, 7d or PT1M"),
            (
                "8034079d19h",
                "\"8034079d19h\" is too long; allowed are at most 7304484d, twenty thousand years",
            ),
            (
                "694144494144s",
                "\"694144494144s\" is too long; allowed are at most 7304484d, twenty thousand years",
            ),
            (
                "1mo",
                "\"1mo\" counts months or years, which have no fixed length; write it in weeks, days, hours, minutes or seconds",
            ),
            (
                "P1Y",
                "\"P1Y\" counts months or years, which have no fixed length; write it in weeks, days, hours, minutes or seconds",
            ),
        ] {
            assert_eq!(parse(text), Err(error.to_string()), "{text}");
        }
    }

    #[test]
    fn signs_are_limited_by_use() {
        assert_eq!(parse_tolerance("0"), Ok(TimeDelta::ZERO));
        assert_eq!(parse_tolerance("-1s"), Err("\"-1s\" is negative; allowed is zero or more".into()));
        assert_eq!(parse_length("0s"), Err("\"0s\" is no length; allowed is more than zero".into()));
        assert_eq!(parse_length("1s"), Ok(TimeDelta::from_secs(1)));
    }
}
