//! String functions. A string is an `xsd:string` or language-tagged. Most functions keep the language and
//! direction of their first argument (SPARQL 1.1 §17.4.3.1).

use oxrdf::{BaseDirection, Literal};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use spargebra::algebra::Function;

use super::number::Number;
use super::value::Value;

/// All characters but RFC 3986's unreserved ones.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// A string with or without a language.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'v> {
    pub(crate) text: &'v str,
    pub(crate) language: Option<(&'v str, Option<BaseDirection>)>,
}

impl<'v> Text<'v> {
    /// Returns the string in a value.
    pub(crate) fn of(value: &'v Value<'_>) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self {
                text,
                language: None,
            }),
            Value::LangString {
                text,
                language,
                direction,
            } => Some(Self {
                text,
                language: Some((language, *direction)),
            }),
            _ => None,
        }
    }

    /// Returns another text in the same language.
    pub(crate) fn with_text(self, text: String) -> Value<'static> {
        match self.language {
            None => text.into(),
            Some((language, direction)) => Value::LangString {
                text: text.into(),
                language: language.to_owned().into(),
                direction,
            },
        }
    }
}

/// Returns two strings that a function may combine: the second has no language, or the same one.
pub(crate) fn compatible<'v>(
    first: &'v Value<'_>,
    second: &'v Value<'_>,
) -> Option<(Text<'v>, &'v str)> {
    let (first, second) = (Text::of(first)?, Text::of(second)?);
    let compatible = second.language.is_none() || first.language == second.language;
    compatible.then_some((first, second.text))
}

/// Evaluates a string function that returns a value.
pub(crate) fn call(function: &Function, arguments: &[Value<'_>]) -> Option<Value<'static>> {
    use Function as F;
    Some(match (function, arguments) {
        (F::StrLen, [value]) => {
            let length = Text::of(value)?.text.chars().count();
            Value::integer(i64::try_from(length).ok()?)
        }
        (F::SubStr, [source, start, length @ ..]) => {
            let source = Text::of(source)?;
            let length = match length {
                [] => None,
                [length, ..] => Some(round_to_integer(length)?),
            };
            let part = substring(source.text, round_to_integer(start)?, length);
            source.with_text(part.to_owned())
        }
        (F::UCase, [value]) => {
            let value = Text::of(value)?;
            value.with_text(value.text.to_uppercase())
        }
        (F::LCase, [value]) => {
            let value = Text::of(value)?;
            value.with_text(value.text.to_lowercase())
        }
        (F::EncodeForUri, [value]) => percent_encode(Text::of(value)?.text).into(),
        (F::Concat, values) => concat(values)?,
        (F::StrBefore, [value, separator]) => {
            let (value, separator) = compatible(value, separator)?;
            match value.text.find(separator) {
                Some(at) => value.with_text(value.text[..at].to_owned()),
                None => String::new().into(),
            }
        }
        (F::StrAfter, [value, separator]) => {
            let (value, separator) = compatible(value, separator)?;
            match value.text.find(separator) {
                Some(at) => value.with_text(value.text[at + separator.len()..].to_owned()),
                None => String::new().into(),
            }
        }
        (F::StrLang, [value, language]) => {
            let (value, language) = (value.as_simple_string()?, language.as_simple_string()?);
            let literal = Literal::new_language_tagged_literal(value, language).ok()?;
            Value::from_literal(&literal).into_owned()
        }
        (F::StrLangDir, [value, language, direction]) => {
            let direction = match direction.as_simple_string()? {
                "ltr" => BaseDirection::Ltr,
                "rtl" => BaseDirection::Rtl,
                _ => return None,
            };
            let (value, language) = (value.as_simple_string()?, language.as_simple_string()?);
            let literal =
                Literal::new_directional_language_tagged_literal(value, language, direction);
            Value::from_literal(&literal.ok()?).into_owned()
        }
        _ => return None,
    })
}

/// Evaluates `CONCAT`. The result has a language if all arguments have the same one.
fn concat(values: &[Value<'_>]) -> Option<Value<'static>> {
    let mut result = String::new();
    let mut language = None;
    for (position, value) in values.iter().enumerate() {
        let value = Text::of(value)?;
        if position == 0 {
            language = value.language;
        } else if language != value.language {
            language = None;
        }
        result.push_str(value.text);
    }
    let text = Text { text: "", language };
    Some(text.with_text(result))
}

/// Returns an integer argument of `SUBSTR`. F&O rounds other numbers, which SPARQL does not allow.
fn round_to_integer(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Number(Number::Integer(value)) => Some((*value).into()),
        _ => None,
    }
}

/// Returns `length` characters, or all, from `start` (counted from 1) on (F&O §5.4.3).
fn substring(text: &str, start: i64, length: Option<i64>) -> &str {
    let end = length.map_or(i64::MAX, |length| start.saturating_add(length));
    let skipped = usize::try_from(start.saturating_sub(1)).unwrap_or(0);
    let taken = usize::try_from(end.saturating_sub(start.max(1))).unwrap_or(0);
    let byte_of = |text: &str, count: usize| {
        text.char_indices()
            .nth(count)
            .map_or(text.len(), |(at, _)| at)
    };
    let rest = &text[byte_of(text, skipped)..];
    &rest[..byte_of(rest, taken)]
}

/// Evaluates `ENCODE_FOR_URI`: encodes all but RFC 3986's unreserved characters.
fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Evaluates `LANGMATCHES` (RFC 4647 basic filtering).
pub(crate) fn language_matches(tag: &str, range: &str) -> bool {
    if range == "*" {
        return !tag.is_empty();
    }
    match (tag.get(..range.len()), tag.get(range.len()..)) {
        (Some(start), Some(rest)) => {
            start.eq_ignore_ascii_case(range) && (rest.is_empty() || rest.starts_with('-'))
        }
        _ => false,
    }
}

/// Makes a random (version 4) UUID of 128 random bits.
pub(crate) fn uuid(random: u128) -> String {
    let uuid = uuid::Builder::from_random_bytes(random.to_be_bytes());
    uuid.into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substrings_count_characters_from_one() {
        for (text, start, length, expected) in [
            ("motor car", 6, None, " car"),
            ("metadata", 4, Some(3), "ada"),
            ("12345", 0, Some(3), "12"),
            ("12345", 5, Some(-3), ""),
            ("12345", -3, Some(5), "1"),
            ("12345", 7, None, ""),
            ("12345", i64::MIN, Some(i64::MAX), ""),
            ("12345", 2, Some(i64::MAX), "2345"),
            ("åé日z", 2, Some(2), "é日"),
            ("", 1, Some(3), ""),
        ] {
            assert_eq!(
                substring(text, start, length),
                expected,
                "{text} {start} {length:?}"
            );
        }
    }

    #[test]
    fn language_ranges() {
        assert!(language_matches("de-ch", "DE"));
        assert!(language_matches("de", "de"));
        assert!(!language_matches("deu", "de"));
        assert!(!language_matches("de", "de-ch"));
        assert!(language_matches("en", "*"));
        assert!(!language_matches("", "*"));
        assert!(!language_matches("é", "e"));
    }

    #[test]
    fn uuids_have_their_version_and_variant() {
        for random in [0, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let uuid = uuid(random);
            assert_eq!(uuid.len(), 36);
            assert_eq!(&uuid[14..15], "4");
            assert!("89ab".contains(&uuid[19..20]), "{uuid}");
        }
    }

    #[test]
    fn percent_encoding() {
        assert_eq!(percent_encode("Los Angeles~ä"), "Los%20Angeles~%C3%A4");
    }
}
