//! Parameters of a request, from the query string or a form.

use std::time::Duration;

use http::{StatusCode, Uri};
use oxrdf::NamedNode;
use pythia::Isolation;

use super::error::HttpError;
use crate::config::{Limits, parse_time};

/// Names and values, in order.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    pairs: Vec<(String, String)>,
}

impl Parameters {
    /// Reads the parameters of a query string.
    pub(crate) fn of_uri(uri: &Uri) -> Result<Self, HttpError> {
        let mut parameters = Self::default();
        parameters.add(uri.query().unwrap_or_default().as_bytes())?;
        Ok(parameters)
    }

    /// Adds the parameters of a form.
    pub(crate) fn add(&mut self, form: &[u8]) -> Result<(), HttpError> {
        let mut from = 0;
        for pair in form.split(|byte| *byte == b'&') {
            let end = memchr::memchr(b'=', pair).unwrap_or(pair.len());
            let value = pair.get(end + 1..).unwrap_or_default();
            if !pair.is_empty() {
                let name = decode(&pair[..end]).map_err(|at| broken(from + at))?;
                let value = decode(value).map_err(|at| broken(from + end + 1 + at))?;
                self.pairs.push((name, value));
            }
            from += pair.len() + 1;
        }
        Ok(())
    }

    /// Returns all values of a parameter.
    pub(crate) fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s str> {
        let pairs = self.pairs.iter().filter(move |(key, _)| key == name);
        pairs.map(|(_, value)| value.as_str())
    }

    /// Returns the value of a parameter that may occur once.
    pub(crate) fn one<'s>(&'s self, name: &'s str) -> Result<Option<&'s str>, HttpError> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            _ => Err(HttpError::bad_request(format!(
                "the parameter {name} occurs more than once"
            ))),
        }
    }

    /// Like [`Self::one`], but removes the parameter.
    pub(crate) fn take(&mut self, name: &str) -> Result<Option<String>, HttpError> {
        self.one(name)?;
        let place = self.pairs.iter().position(|(key, _)| key == name);
        Ok(place.map(|place| self.pairs.swap_remove(place).1))
    }

    /// Returns the values of a parameter as IRIs.
    pub(crate) fn iris(&self, name: &str) -> Result<Vec<NamedNode>, HttpError> {
        self.all(name).map(|iri| self::iri(name, iri)).collect()
    }

    /// Returns the isolation level that an update asks for.
    pub(crate) fn isolation(&self) -> Result<Isolation, HttpError> {
        let Some(text) = self.one("isolation")? else {
            return Ok(Isolation::default());
        };
        let expected = Isolation::ALL.map(Isolation::name).join(" or ");
        text.parse()
            .map_err(|_| invalid("isolation", text, &expected))
    }

    /// Returns the user's limits, or lower ones that the request asks for.
    pub(crate) fn lower(&self, limits: &RequestLimits) -> Result<RequestLimits, HttpError> {
        let timeout = match self.one("timeout")? {
            None => limits.timeout,
            Some(text) => asked_time(text)
                .ok_or_else(|| invalid("timeout", text, "a time, as 2.5 (seconds), 300s or 5m"))?
                .min(limits.timeout),
        };
        let memory = match self.one("memory")? {
            None => None,
            Some(text) => Some(
                bytes(text)
                    .ok_or_else(|| invalid("memory", text, "bytes, as 64M (with K, M or G)"))?,
            ),
        };
        let rows = match self.one("rows")? {
            None => None,
            Some(text) => Some(
                text.parse::<u64>()
                    .map_err(|_| invalid("rows", text, "a number of results"))?,
            ),
        };
        Ok(RequestLimits {
            timeout,
            memory_bytes: least(memory, limits.memory_bytes),
            rows: least(rows, limits.rows),
            ..*limits
        })
    }
}

/// The limits of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimits {
    pub(crate) timeout: Duration,
    pub(crate) memory_bytes: Option<usize>,
    pub(crate) rows: Option<u64>,
    /// Of the user or address; `None` is no limit.
    pub(crate) requests_per_second: Option<u32>,
}

impl RequestLimits {
    /// Returns the server's limits.
    pub(crate) fn of(limits: &Limits) -> Self {
        Self {
            timeout: limits.timeout,
            memory_bytes: limits.query_memory_bytes,
            rows: limits.rows,
            requests_per_second: None,
        }
    }

    /// Returns the higher one of each limit; `None` is the highest.
    pub(crate) fn highest(self, other: Self) -> Self {
        fn higher<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
            a.zip(b).map(|(a, b)| a.max(b))
        }
        Self {
            timeout: self.timeout.max(other.timeout),
            memory_bytes: higher(self.memory_bytes, other.memory_bytes),
            rows: higher(self.rows, other.rows),
            requests_per_second: higher(self.requests_per_second, other.requests_per_second),
        }
    }
}

/// Reads a time above zero: seconds, or a number with a unit as in the configuration.
fn asked_time(text: &str) -> Option<Duration> {
    let time = match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 => {
            Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
        }
        Ok(_) => return None,
        Err(_) => parse_time(text).ok()?,
    };
    (!time.is_zero()).then_some(time)
}

/// Reads an IRI.
pub(crate) fn iri(name: &str, iri: &str) -> Result<NamedNode, HttpError> {
    NamedNode::new(iri)
        .map_err(|error| HttpError::bad_request(format!("{name}: <{iri}> is not an IRI: {error}")))
}

fn least<T: Ord>(asked: Option<T>, most: Option<T>) -> Option<T> {
    match (asked, most) {
        (Some(asked), Some(most)) => Some(asked.min(most)),
        (asked, most) => asked.or(most),
    }
}

fn invalid(name: &str, value: &str, wanted: &str) -> HttpError {
    HttpError::bad_request(format!("{name}={value}: expected {wanted}"))
}

/// Reads a number of bytes, such as 512, 64M or 1G.
fn bytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

/// Decodes a name or a value (WHATWG URL §5.1). The error is the place of a byte that is not percent-encoded UTF-8, which the
/// standard would replace. (The crates `form_urlencoded` and `percent-encoding` replace it, too, so each text was decoded twice.)
fn decode(text: &[u8]) -> Result<String, usize> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let escaped = (byte == b'%').then(|| digit(at + 1).zip(digit(at + 2)));
        decoded.push(match (byte, escaped) {
            (_, Some(Some((high, low)))) => (high << 4 | low) as u8,
            (_, Some(None)) => return Err(at),
            (b'+', None) => b' ',
            (_, None) => byte,
        });
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8(decoded).map_err(|error| place_of(text, error.utf8_error().valid_up_to()))
}

/// Returns the place of a byte of a decoded text in the text.
fn place_of(text: &[u8], decoded: usize) -> usize {
    (0..decoded).fold(0, |at, _| at + if text[at] == b'%' { 3 } else { 1 })
}

fn broken(at: usize) -> HttpError {
    HttpError::new(
        StatusCode::BAD_REQUEST,
        format!("the parameters are not percent-encoded UTF-8 at byte {at}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(query: &str) -> Result<Parameters, HttpError> {
        let mut parameters = Parameters::default();
        parameters.add(query.as_bytes())?;
        Ok(parameters)
    }

    #[test]
    fn values_are_decoded() {
        let parameters = of("query=a+b%20%C3%A9&x=&y&g=1&g=2").unwrap();
        assert_eq!(parameters.one("query").unwrap(), Some("a b é"));
        assert_eq!(parameters.one("x").unwrap(), Some(""));
        assert_eq!(parameters.one("y").unwrap(), Some(""));
        assert_eq!(parameters.one("z").unwrap(), None);
        assert!(parameters.one("g").is_err());
        assert_eq!(parameters.all("g").collect::<Vec<_>>(), ["1", "2"]);
        for (broken, at) in [
            ("query=%", 6),
            ("query=%4", 6),
            ("query=%zz", 6),
            ("x=%20&query=a%20%C3%A9%FF", 22),
            ("x&%C3=1", 2),
        ] {
            let error = of(broken).unwrap_err();
            assert_eq!(error.status, StatusCode::BAD_REQUEST);
            assert!(
                error.message.ends_with(&format!("at byte {at}")),
                "{broken}: {}",
                error.message
            );
        }
        // Empty parts and parts without a name or a value.
        let parameters = of("&&=1&a&b=&c=1=2&").unwrap();
        let pairs = [("", "1"), ("a", ""), ("b", ""), ("c", "1=2")];
        assert_eq!(
            parameters.pairs,
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn clients_only_lower_limits() {
        let limits = RequestLimits {
            rows: Some(100),
            memory_bytes: Some(1 << 20),
            ..RequestLimits::of(&Limits::default())
        };
        let lowered = of("timeout=1.5&memory=64K&rows=200").unwrap();
        let lowered = lowered.lower(&limits).unwrap();
        assert_eq!(lowered.timeout, Duration::from_millis(1500));
        assert_eq!(
            (lowered.memory_bytes, lowered.rows),
            (Some(64 << 10), Some(100))
        );
        let asked = of("timeout=1e9&memory=64G")
            .unwrap()
            .lower(&limits)
            .unwrap();
        assert_eq!(
            (asked.timeout, asked.memory_bytes),
            (limits.timeout, Some(1 << 20))
        );
        for (text, milliseconds) in [
            ("30s", 30_000),
            ("250ms", 250),
            ("300s", 60_000),
            ("5m", 60_000),
        ] {
            let asked = of(&format!("timeout={text}")).unwrap();
            let timeout = asked.lower(&limits).unwrap().timeout;
            assert_eq!(timeout, Duration::from_millis(milliseconds), "{text}");
        }
        for wrong in [
            "timeout=x",
            "timeout=0s",
            "timeout=3 years",
            "timeout=-1",
            "timeout=NaN",
            "memory=1X",
            "rows=many",
        ] {
            assert!(of(wrong).unwrap().lower(&limits).is_err(), "{wrong}");
        }
    }
}
