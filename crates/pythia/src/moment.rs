//! Commit times: microseconds since 1970, and their text form.

use std::str::FromStr;

use oxsdatatypes::{DateTime, DayTimeDuration, Decimal, Integer};

const EPOCH: &str = "1970-01-01T00:00:00Z";

fn epoch() -> DateTime {
    DateTime::from_str(EPOCH).expect("a dateTime")
}

/// Parses a time like `2026-11-22T07:30:00Z`, or a day like `2026-11-22`, into microseconds since 1970.
/// Without a time zone it is in UTC.
///
/// # Errors
/// A message that describes the expected form.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let expected = || {
        format!("{text:?} is not a time; write it as 2026-11-22T07:30:00Z, or a day as 2026-11-22")
    };
    let time = DateTime::from_str(text)
        .or_else(|_| DateTime::from_str(&format!("{text}T00:00:00Z")))
        .map_err(|_| expected())?;
    let time = match time.timezone_offset() {
        Some(_) => time,
        None => DateTime::from_str(&format!("{time}Z")).map_err(|_| expected())?,
    };
    let since = time.checked_sub(epoch()).ok_or_else(expected)?;
    let microseconds = since.as_seconds().checked_mul(1_000_000);
    let whole = microseconds.and_then(|value| Integer::try_from(value).ok());
    let number = whole.map(i64::from).ok_or_else(expected)?;
    u64::try_from(number).map_err(|_| format!("{text} is before 1970"))
}

/// Formats a time in microseconds since 1970 as an `xsd:dateTime` in UTC.
pub fn format_time(microseconds: u64) -> String {
    let number = i64::try_from(microseconds).unwrap_or(i64::MAX);
    let seconds = Decimal::from(number).checked_div(1_000_000);
    let time = seconds
        .and_then(|seconds| epoch().checked_add_day_time_duration(DayTimeDuration::new(seconds)));
    time.map_or_else(
        || format!("{number} µs since 1970"),
        |time| time.to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back() {
        for text in [
            "2026-11-22T07:30:00Z",
            "1970-01-01T00:00:00.000001Z",
            "2026-02-28T23:59:59.5Z",
        ] {
            assert_eq!(format_time(parse_time(text).unwrap()), text);
        }
        assert_eq!(parse_time("1970-01-02"), Ok(86_400_000_000));
        assert_eq!(parse_time("1970-01-02T00:00:00"), Ok(86_400_000_000));
        assert_eq!(parse_time("1970-01-01T01:00:00+01:00"), Ok(0));
        for wrong in ["", "yesterday", "1969-12-31", "2026-11-22T25:00:00Z"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
        assert!(!format_time(u64::MAX).is_empty());
    }
}
