//! Checks of single terms that oxttl makes while parsing, for terms that are taken directly from the text.

use oxiri::Iri;
use oxrdf::Literal;

use crate::error::TermError;

pub(crate) const RDF: &[u8] = b"http://www.w3.org/1999/02/22-rdf-syntax-ns#";
pub(crate) const XSD_STRING: &[u8] = b"http://www.w3.org/2001/XMLSchema#string";

/// Returns whether a datatype is reserved for literals with a language tag.
pub(crate) fn is_reserved_datatype(datatype: &[u8]) -> bool {
    matches!(
        datatype.strip_prefix(RDF),
        Some(b"langString" | b"dirLangString")
    )
}

/// Checks that `bytes` is valid UTF-8.
pub(crate) fn text(bytes: &[u8]) -> Result<(), TermError> {
    utf8(bytes).map(|_| ())
}

fn utf8(bytes: &[u8]) -> Result<&str, TermError> {
    std::str::from_utf8(bytes)
        .map_err(|error| TermError::Invalid(format!("invalid UTF-8: {error}")))
}

/// Returns whether a text is an absolute IRI (RFC 3987). Those of the common kind are not parsed in full.
pub fn is_iri(text: &str) -> bool {
    iri(text.as_bytes()).is_ok()
}

/// Checks that `bytes` is an absolute IRI.
pub(crate) fn iri(bytes: &[u8]) -> Result<(), TermError> {
    if is_plain_http_iri(bytes) {
        return Ok(());
    }
    match Iri::parse(utf8(bytes)?) {
        Ok(_) => Ok(()),
        Err(error) => Err(TermError::Invalid(error.to_string())),
    }
}

const OTHER: u8 = 0;
/// Bytes allowed in host names and in everything after them.
const HOST: u8 = 1;
/// Bytes allowed only after the host.
const TAIL: u8 = 2;
/// Bytes that end the host.
const HOST_END: u8 = 3;
const FRAGMENT: u8 = 4;

const CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' => HOST,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':'
            | b'@' => TAIL,
            b'/' | b'?' => HOST_END,
            b'#' => FRAGMENT,
            _ => OTHER,
        };
        byte += 1;
    }
    classes
};

/// Returns whether a quick check shows that this is a valid IRI of the most common kind. If not, it may still be
/// valid.
///
/// The common kind is `http[s]://`, a host of ASCII letters and digits, perhaps a port, then everything that RFC 3986
/// allows without escapes.
fn is_plain_http_iri(bytes: &[u8]) -> bool {
    let rest = bytes.strip_prefix(b"http").unwrap_or_default();
    let rest = rest.strip_prefix(b"s").unwrap_or(rest);
    let Some(rest) = rest.strip_prefix(b"://") else {
        return false;
    };
    let host_length = rest
        .iter()
        .take_while(|byte| CLASSES[usize::from(**byte)] == HOST)
        .count();
    let (host, tail) = rest.split_at(host_length);
    let tail = match tail.strip_prefix(b":") {
        Some(tail) => {
            let digits = tail.iter().take_while(|byte| byte.is_ascii_digit());
            &tail[digits.count()..]
        }
        None => tail,
    };
    if host.is_empty()
        || tail
            .first()
            .is_some_and(|byte| CLASSES[usize::from(*byte)] < HOST_END)
    {
        return false;
    }
    let mut fragments = 0;
    for byte in tail {
        match CLASSES[usize::from(*byte)] {
            OTHER => return false,
            FRAGMENT => fragments += 1,
            _ => {}
        }
    }
    fragments <= 1
}

/// Checks that `tag` is a BCP 47 language tag.
pub(crate) fn language(tag: &[u8]) -> Result<(), TermError> {
    match Literal::new_language_tagged_literal("", utf8(tag)?) {
        Ok(_) => Ok(()),
        Err(error) => Err(TermError::Invalid(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn what_is_valid_at_a_glance_is_valid(iri in "https?:?//?[a-z0-9.~_@:%\\[é-]{0,6}:?[0-9:a]{0,3}[/?#]?[!-~]{0,6}[/?#]?[!-~é]{0,3}") {
            if is_plain_http_iri(iri.as_bytes()) {
                prop_assert!(Iri::parse(iri.as_str()).is_ok(), "{}", iri);
            }
        }
    }

    #[test]
    fn common_iris_are_valid_at_a_glance() {
        for iri in [
            "http://www.w3.org/2001/XMLSchema#string",
            "https://e.org/a/b?c=d&e#f(g)",
            "http://e",
            "http://e#a",
            "http://e.org/a:b@c",
            "http://127.0.0.1:7878/sparql",
            "https://e.org:443?a:b",
        ] {
            assert!(is_plain_http_iri(iri.as_bytes()), "{iri}");
        }
        for iri in [
            "http:///a",
            "http://[::1]/",
            "http://e/%20",
            "http://e/é",
            "http://e/a#b#c",
            "http://e/<",
            "urn:a",
            "httpx://e",
            "",
        ] {
            assert!(!is_plain_http_iri(iri.as_bytes()), "{iri}");
        }
    }
}
