//! Sizes and times as people write them: `512M`, `30s`.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserializer, Serializer};

/// Reads a size: a number with an optional K, M, G or T (powers of 1024).
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let upper = text.trim().to_ascii_uppercase();
    let upper = upper.trim_end_matches("IB").trim_end_matches('B');
    let (number, shift) = match upper.as_bytes().last() {
        Some(b'K') => (&upper[..upper.len() - 1], 10),
        Some(b'M') => (&upper[..upper.len() - 1], 20),
        Some(b'G') => (&upper[..upper.len() - 1], 30),
        Some(b'T') => (&upper[..upper.len() - 1], 40),
        _ => (upper, 0),
    };
    let number: f64 = number
        .trim()
        .parse()
        .map_err(|_| "write a size as a number with K, M, G or T, for example 512M".to_owned())?;
    let value = number * (1_u64 << shift) as f64;
    if !(0.0..=usize::MAX as f64).contains(&value) {
        return Err("the size is out of range".to_owned());
    }
    Ok(value as usize)
}

/// Reads a time: a number with ms, s, m, h or d; without one, seconds.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let wrong =
        || "write a time as a number with ms, s, m, h or d, for example 30s or 1.5h".to_owned();
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| "the time is out of range".to_owned())
}

/// Formats a size in the largest unit that gives a whole number.
fn written_bytes(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let fits = |(shift, _): &&(u32, &str)| bytes > 0 && bytes.is_multiple_of(1 << shift);
    match units.iter().find(fits) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// Formats a time in the largest unit that gives a whole number.
fn written_time(time: Duration) -> String {
    let ms = time.as_millis();
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    match units
        .iter()
        .find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit))
    {
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None => format!("{ms}ms"),
    }
}

/// A value that is written as a text with a unit.
pub(crate) trait Human: Sized {
    /// The expected form, for messages.
    const EXPECTED: &'static str;
    fn parse(text: &str) -> Result<Self, String>;
    fn write(&self) -> String;
}

impl Human for usize {
    const EXPECTED: &'static str = "a size, for example \"512M\"";

    fn parse(text: &str) -> Result<Self, String> {
        parse_bytes(text)
    }

    fn write(&self) -> String {
        written_bytes(*self as u64)
    }
}

impl Human for u64 {
    const EXPECTED: &'static str = usize::EXPECTED;

    fn parse(text: &str) -> Result<Self, String> {
        parse_bytes(text).map(|bytes| bytes as Self)
    }

    fn write(&self) -> String {
        written_bytes(*self)
    }
}

impl Human for Duration {
    const EXPECTED: &'static str = "a time, for example \"30s\"";

    fn parse(text: &str) -> Result<Self, String> {
        parse_time(text)
    }

    fn write(&self) -> String {
        written_time(*self)
    }
}

struct HumanVisitor<T>(PhantomData<T>);

impl<T: Human> Visitor<'_> for HumanVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::parse(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// Deserializes a text with a unit, or a plain number, for `#[serde(with = "human")]`.
pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: Human>(from: D) -> Result<T, D::Error> {
    from.deserialize_any(HumanVisitor(PhantomData))
}

pub(crate) fn serialize<S: Serializer, T: Human>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&value.write())
}

/// The same for optional values.
pub(crate) mod optional {
    use serde::{Deserializer, Serializer};

    use super::Human;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: Human>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        super::deserialize(from).map(Some)
    }

    pub(crate) fn serialize<S: Serializer, T: Human>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::serialize(value, to),
            None => to.serialize_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("64M"), Ok(64 << 20));
        assert_eq!(parse_bytes("1.5g"), Ok(3 << 29));
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        for wrong in ["many", "", "-1", "NaN", "inf", "1e99", "12é"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(written_bytes(64 << 20), "64M");
        assert_eq!(written_bytes(0), "0");
        assert_eq!(written_bytes(1025), "1025");
    }

    #[test]
    fn times_are_read_and_written() {
        assert_eq!(parse_time("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_time("2"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_time("250 ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_time("1.5h"), Ok(Duration::from_secs(5_400)));
        for wrong in ["soon", "", "-1s", "3 fortnights", "1e99d"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
        for text in ["250ms", "30s", "2m", "3h", "1d", "0ms"] {
            let time = parse_time(text).expect("a time");
            assert_eq!(written_time(time), text);
        }
    }
}
