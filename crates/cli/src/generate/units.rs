//! Values as people write them: durations, shares, instants.

/// Parses `250ms`, `20s`, `1m30s`, `2h`, `1d` into milliseconds.
pub(crate) fn parse_duration_ms(text: &str) -> Result<u64, String> {
    duration_ms(text.trim()).ok_or_else(|| "expected a duration such as 250ms, 20s, 1m30s or 2h".to_owned())
}

fn duration_ms(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let (mut rest, mut total) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let count: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        rest = &rest[letters..];
        total = total.checked_add(count.checked_mul(unit)?)?;
    }
    (!text.is_empty()).then_some(total)
}

/// Writes milliseconds the way they are read.
pub(crate) fn format_ms(ms: u64) -> String {
    match ms {
        0 => "0".to_owned(),
        _ if ms.is_multiple_of(86_400_000) => format!("{}d", ms / 86_400_000),
        _ if ms.is_multiple_of(1000) => format!("{}s", ms / 1000),
        _ => format!("{ms}ms"),
    }
}

/// Parses a share: `0.005` or `0.5%`.
pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text.trim(), 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if (0.0..=unit).contains(&value) => Ok(value / unit),
        _ => Err("expected a share from 0 to 1, or from 0% to 100%".to_owned()),
    }
}

/// Parses a count; underscores and the suffixes k and M (thousands and millions) are read too.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let plain = text.trim().replace('_', "");
    let (digits, unit) = match plain.as_bytes().last() {
        Some(b'k') => (&plain[..plain.len() - 1], 1_000),
        Some(b'M') => (&plain[..plain.len() - 1], 1_000_000),
        _ => (plain.as_str(), 1),
    };
    let count = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit));
    count.ok_or_else(|| "expected a whole number such as 5000, 5k or 50M".to_owned())
}

/// Parses an instant such as `2026-01-15T10:00:00Z` into milliseconds since the epoch.
pub(crate) fn parse_instant_ms(text: &str) -> Result<i64, String> {
    match arrow_cast::parse::string_to_timestamp_nanos(text) {
        Ok(nanos) if nanos % 1_000_000 == 0 => Ok(nanos / 1_000_000),
        _ => Err("expected an instant in whole milliseconds, such as 2026-01-15T10:00:00Z".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in
            [("0", 0), ("250ms", 250), ("1m30s", 90_000), ("2h", 7_200_000), ("1d1ms", 86_400_001)]
        {
            assert_eq!(parse_duration_ms(text), Ok(ms), "{text}");
        }
        for text in ["", "20", "s", "1.5s", "-1s", "1w", "99999999999999999999s", "18446744073709551615d"] {
            assert!(parse_duration_ms(text).is_err(), "{text}");
        }
        for ms in [0, 250, 1000, 90_000, 86_400_000] {
            assert_eq!(parse_duration_ms(&format_ms(ms)), Ok(ms));
        }
    }

    #[test]
    fn shares_counts_and_instants() {
        assert_eq!(parse_share("0.5%"), Ok(0.005));
        assert_eq!(parse_share("1"), Ok(1.0));
        assert!(["1.1", "-0.1", "101%", "NaN", "x"].iter().all(|text| parse_share(text).is_err()));
        assert_eq!(parse_count("50M"), Ok(50_000_000));
        assert_eq!(parse_count("2_400"), Ok(2_400));
        assert!(["", "k", "-1", "1.5k", "99999999999999M"].iter().all(|text| parse_count(text).is_err()));
        assert_eq!(parse_instant_ms("1970-01-01T00:00:01.5Z"), Ok(1500));
        assert!(["tomorrow", "1970-01-01T00:00:01.0001Z"].iter().all(|text| parse_instant_ms(text).is_err()));
    }
}
