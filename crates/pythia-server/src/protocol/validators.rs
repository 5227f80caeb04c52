//! Conditional requests (RFC 9110 §13): `If-Match` and `If-None-Match`, evaluated against the tag of the current state.
//!
//! A strong tag has parts, `"STATE-REPRESENTATION-LAYOUT"`, and `-CODING` if the body was compressed. The *state*
//! names the content, the *representation* its form: the format, and what else decides about it. The *layout* names
//! the order of ids, in which a graph is written. So two equal strong tags mean equal bytes.
//!
//! - `If-Match` compares states: whoever has read the graph in another form, or before a compaction, knows its state as
//!   well. A weak tag matches never (§13.1.1).
//! - `If-None-Match` compares all but the layout. The client's coding must be one that it accepts now.
//!
//! There are no dates, so `If-Modified-Since` and `If-Unmodified-Since` are ignored (§13.1.3, §13.1.4).

use http::header::{ACCEPT_ENCODING, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The tag of the current state of a resource, before its body is compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Validator {
    /// The same tag means the same bytes.
    Strong {
        state: String,
        representation: String,
        layout: String,
    },
    /// The same tag means the same content, perhaps in another order.
    Weak(String),
}

impl Validator {
    /// Returns the value of `ETag`.
    pub(crate) fn header(&self) -> HeaderValue {
        let text = match self {
            Self::Strong {
                state,
                representation,
                layout,
            } => format!("\"{state}-{representation}-{layout}\""),
            Self::Weak(hash) => format!("W/\"{hash}\""),
        };
        HeaderValue::from_str(&text).expect("hexadecimal digits")
    }
}

/// A tag that a client has sent (§8.8.3).
#[derive(Clone, Debug, PartialEq, Eq)]
struct SentTag {
    is_weak: bool,
    /// The text between the quotes.
    opaque: Vec<u8>,
}

impl SentTag {
    /// Returns state, representation and coding (empty if there is none) of a tag with a layout.
    fn parts(&self) -> Option<(&str, &str, &str)> {
        let text = std::str::from_utf8(&self.opaque).ok()?;
        let mut parts = text.splitn(4, '-');
        let (state, representation, _layout) = (parts.next()?, parts.next()?, parts.next()?);
        Some((state, representation, parts.next().unwrap_or_default()))
    }

    fn header(&self) -> Option<HeaderValue> {
        let prefix: &[u8] = if self.is_weak { b"W/\"" } else { b"\"" };
        HeaderValue::from_bytes(&[prefix, &self.opaque, b"\""].concat()).ok()
    }
}

/// The value of `If-Match` or `If-None-Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SentTags {
    /// `*`: any state of a resource that exists.
    Any,
    Listed(Vec<SentTag>),
}

/// A header that is not a list of tags.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} must be * or a list of entity tags, such as \"a\", W/\"b\"")]
pub(crate) struct Malformed(HeaderName);

/// The conditions of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    matching: Option<SentTags>,
    none_matching: Option<SentTags>,
    /// The codings that the client accepts, in lower case.
    codings: Vec<String>,
}

/// The answer to a read under conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The body.
    Whole,
    /// 304: the client's copy with this tag is current.
    NotModified(HeaderValue),
    /// 412: the state is none that `If-Match` lists.
    Failed,
}

/// The condition that a write does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmet {
    Match,
    NoneMatch,
}

impl Conditions {
    /// Reads the conditions of a write.
    pub(crate) fn of_write(headers: &HeaderMap) -> Result<Self, Malformed> {
        Ok(Self {
            matching: SentTags::of(headers, IF_MATCH)?,
            none_matching: SentTags::of(headers, IF_NONE_MATCH)?,
            codings: Vec::new(),
        })
    }

    /// Reads the conditions of a read. A malformed `If-None-Match` matches nothing: the body is always an answer.
    pub(crate) fn of_read(headers: &HeaderMap) -> Result<Self, Malformed> {
        Ok(Self {
            matching: SentTags::of(headers, IF_MATCH)?,
            none_matching: SentTags::of(headers, IF_NONE_MATCH).unwrap_or(None),
            codings: accepted_codings(headers),
        })
    }

    /// Returns whether the request has no conditions.
    pub(crate) fn is_empty(&self) -> bool {
        self.matching.is_none() && self.none_matching.is_none()
    }

    /// Evaluates the conditions of a read of an existing resource (§13.2.2). `None` is one whose state has no tag.
    pub(crate) fn for_read(&self, current: Option<&Validator>) -> Reading {
        let state = match current {
            Some(Validator::Strong { state, .. }) => Some(state.as_str()),
            Some(Validator::Weak(_)) | None => None,
        };
        if !self.matches(true, state) {
            return Reading::Failed;
        }
        let Some(current) = current else {
            return Reading::Whole;
        };
        let known = match &self.none_matching {
            None => None,
            Some(SentTags::Any) => Some(current.header()),
            Some(SentTags::Listed(tags)) => {
                let same = tags.iter().find(|tag| self.is_copy(tag, current));
                same.and_then(SentTag::header)
            }
        };
        known.map_or(Reading::Whole, Reading::NotModified)
    }

    /// Evaluates the conditions of a write on a resource in this state; `None` if it does not exist.
    pub(crate) fn for_write(&self, state: Option<&str>) -> Result<(), Unmet> {
        if !self.matches(state.is_some(), state) {
            return Err(Unmet::Match);
        }
        let is_named = |tag: &SentTag| tag.parts().map(|(sent, ..)| sent) == state;
        let is_met = match (&self.none_matching, state) {
            (None, _) | (_, None) => true,
            (Some(SentTags::Any), _) => false,
            (Some(SentTags::Listed(tags)), _) => !tags.iter().any(is_named),
        };
        is_met.then_some(()).ok_or(Unmet::NoneMatch)
    }

    /// Evaluates `If-Match`, given the state if it has strong tags.
    fn matches(&self, exists: bool, state: Option<&str>) -> bool {
        match &self.matching {
            None => true,
            Some(SentTags::Any) => exists,
            Some(SentTags::Listed(tags)) => tags.iter().any(|tag| {
                let sent = tag.parts().map(|(sent, ..)| sent);
                !tag.is_weak && sent.is_some() && sent == state
            }),
        }
    }

    /// Returns whether a tag is that of a copy of the current content that the client can use.
    fn is_copy(&self, tag: &SentTag, current: &Validator) -> bool {
        match current {
            Validator::Weak(hash) => tag.opaque == hash.as_bytes(),
            Validator::Strong {
                state,
                representation,
                ..
            } => tag.parts().is_some_and(|(sent, form, coding)| {
                sent == state && form == representation && self.accepts(coding)
            }),
        }
    }

    fn accepts(&self, coding: &str) -> bool {
        coding.is_empty()
            || self
                .codings
                .iter()
                .any(|known| known == coding || known == "*")
    }
}

/// Returns the codings that `Accept-Encoding` lists with a weight above 0.
fn accepted_codings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let codings = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let accepted = codings.filter_map(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight
            .trim()
            .trim_start_matches(['q', 'Q'])
            .trim_start_matches('=');
        let is_refused = weight.parse::<f32>() == Ok(0.0);
        (!is_refused).then(|| name.trim().to_ascii_lowercase())
    });
    accepted.collect()
}

impl SentTags {
    /// Reads a header that may occur several times, which is the same as one list.
    fn of(headers: &HeaderMap, name: HeaderName) -> Result<Option<Self>, Malformed> {
        let mut found: Option<Self> = None;
        for value in headers.get_all(&name) {
            let tags = Self::parse(value.as_bytes());
            found = Some(match (found, tags) {
                (None, Some(tags)) => tags,
                (Some(Self::Listed(mut all)), Some(Self::Listed(more))) => {
                    all.extend(more);
                    Self::Listed(all)
                }
                _ => return Err(Malformed(name)),
            });
        }
        Ok(found)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        if text.trim_ascii() == b"*" {
            return Some(Self::Any);
        }
        let (mut tags, mut rest) = (Vec::new(), text);
        loop {
            rest = rest.trim_ascii_start();
            // A list may have empty elements (§5.6.1).
            if let [b',', after @ ..] = rest {
                rest = after;
                continue;
            }
            if rest.is_empty() {
                break;
            }
            let (tag, after) = SentTag::parse(rest)?;
            tags.push(tag);
            rest = after.trim_ascii_start();
            if !matches!(rest, [] | [b',', ..]) {
                return None;
            }
        }
        (!tags.is_empty()).then_some(Self::Listed(tags))
    }
}

impl SentTag {
    /// Reads a tag, which may contain commas, and returns what follows it.
    fn parse(text: &[u8]) -> Option<(Self, &[u8])> {
        let (is_weak, quoted) = match text.strip_prefix(b"W/") {
            Some(quoted) => (true, quoted),
            None => (false, text),
        };
        let inner = quoted.strip_prefix(b"\"")?;
        let end = inner.iter().position(|&byte| byte == b'"')?;
        let is_valid = |byte: &u8| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..);
        let opaque = inner[..end].to_vec();
        let is_valid = opaque.iter().all(is_valid);
        is_valid.then_some((Self { is_weak, opaque }, &inner[end + 1..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
            headers.append(name, value);
        }
        headers
    }

    fn conditions(pairs: &[(&str, &str)]) -> Conditions {
        Conditions::of_read(&headers(pairs)).expect("well formed")
    }

    fn strong() -> Validator {
        Validator::Strong {
            state: "5".to_owned(),
            representation: "nt".to_owned(),
            layout: "7".to_owned(),
        }
    }

    fn listed(value: &[u8]) -> Option<Vec<(bool, String)>> {
        match SentTags::parse(value)? {
            SentTags::Any => None,
            SentTags::Listed(tags) => Some(
                tags.into_iter()
                    .map(|tag| {
                        (
                            tag.is_weak,
                            String::from_utf8_lossy(&tag.opaque).into_owned(),
                        )
                    })
                    .collect(),
            ),
        }
    }

    #[test]
    fn lists_of_tags_are_read() {
        let tag = |is_weak: bool, text: &str| (is_weak, text.to_owned());
        let cases = [
            (r#""a""#, vec![tag(false, "a")]),
            (r#"W/"a""#, vec![tag(true, "a")]),
            (r#""""#, vec![tag(false, "")]),
            (
                r#" "a" , W/"b","c""#,
                vec![tag(false, "a"), tag(true, "b"), tag(false, "c")],
            ),
            (r#", "a",, "b" ,"#, vec![tag(false, "a"), tag(false, "b")]),
            (r#""a,b", "W/""#, vec![tag(false, "a,b"), tag(false, "W/")]),
            (r#""*""#, vec![tag(false, "*")]),
            ("\"\u{e9}\\\"", vec![tag(false, "\u{e9}\\")]),
        ];
        for (text, expected) in cases {
            assert_eq!(listed(text.as_bytes()), Some(expected), "{text}");
        }
        assert_eq!(SentTags::parse(b" * "), Some(SentTags::Any));
    }

    #[test]
    fn what_is_no_list_of_tags_is_malformed() {
        for text in [
            "",
            " ",
            ",",
            "a",
            "\"a",
            "a\"",
            "\"\"\"",
            "w/\"a\"",
            "W/ \"a\"",
            "W/a",
            "\"a\" \"b\"",
            "*, \"a\"",
            "\"a\", *",
            "**",
            "\"a b\"",
            "\"a\tb\"",
            "\"a\";q=1",
            "\"a\"b",
        ] {
            assert_eq!(SentTags::parse(text.as_bytes()), None, "{text}");
            let [matching, none] =
                ["if-match", "if-none-match"].map(|name| headers(&[(name, text)]));
            assert!(Conditions::of_read(&matching).is_err(), "{text}");
            assert!(Conditions::of_write(&matching).is_err(), "{text}");
            assert!(Conditions::of_write(&none).is_err(), "{text}");
            let read = Conditions::of_read(&none).expect("ignored");
            assert_eq!(read.for_read(Some(&strong())), Reading::Whole, "{text}");
        }
        let twice = [("if-match", "*"), ("if-match", "\"a\"")];
        let message = Conditions::of_write(&headers(&twice))
            .expect_err("mixed")
            .to_string();
        assert!(
            message.starts_with("if-match must be * or a list"),
            "{message}"
        );
    }

    #[test]
    fn several_headers_are_one_list() {
        let of = conditions(&[
            ("if-none-match", "\"1-nt-1\""),
            ("if-none-match", "\"5-nt-1\""),
        ]);
        let same = HeaderValue::from_static("\"5-nt-1\"");
        assert_eq!(of.for_read(Some(&strong())), Reading::NotModified(same));
        assert!(conditions(&[("accept", "*")]).is_empty() && !of.is_empty());
    }

    #[test]
    fn a_write_needs_a_state_that_is_listed_by_a_strong_tag() {
        let write = |value, state| conditions(&[("if-match", value)]).for_write(state);
        let failed = Err(Unmet::Match);
        assert_eq!(write("\"5-nt-7\"", Some("5")), Ok(()));
        // Another form, layout and coding of the same state.
        assert_eq!(write("\"1-nt-7\", \"5-ttl-8-gzip\"", Some("5")), Ok(()));
        assert_eq!(write("\"6-nt-7\"", Some("5")), failed);
        assert_eq!(write("W/\"5-nt-7\"", Some("5")), failed);
        assert_eq!(write("\"5\"", Some("5")), failed);
        assert_eq!(write("\"other\"", None), failed);
        assert_eq!(write("\"5-nt-7\"", None), failed);
        assert_eq!(write("*", Some("5")), Ok(()));
        assert_eq!(write("*", None), failed);
    }

    #[test]
    fn a_write_may_need_that_there_is_no_graph() {
        let write = |value, state| conditions(&[("if-none-match", value)]).for_write(state);
        let failed = Err(Unmet::NoneMatch);
        assert_eq!(write("*", None), Ok(()));
        assert_eq!(write("*", Some("5")), failed);
        assert_eq!(write("\"5-nt-7\"", Some("5")), failed);
        assert_eq!(write("W/\"5-nt-8-gzip\"", Some("5")), failed);
        assert_eq!(write("\"6-nt-7\", \"other\"", Some("5")), Ok(()));
        assert_eq!(write("\"other\"", None), Ok(()));
        let both = conditions(&[("if-match", "\"6-nt-7\""), ("if-none-match", "*")]);
        assert_eq!(
            both.for_write(Some("5")),
            Err(Unmet::Match),
            "it is the first"
        );
        assert_eq!(Conditions::default().for_write(None), Ok(()));
    }

    #[test]
    fn a_reader_with_a_copy_gets_its_tag_back() {
        let read = |value: &str, codings: &str| {
            let sent = [("if-none-match", value), ("accept-encoding", codings)];
            match conditions(&sent).for_read(Some(&strong())) {
                Reading::NotModified(tag) => Some(tag.to_str().expect("ASCII").to_owned()),
                Reading::Whole => None,
                Reading::Failed => panic!("{value}"),
            }
        };
        let same = |value: &str, codings| assert_eq!(read(value, codings).as_deref(), Some(value));
        same("\"5-nt-7\"", "");
        same("\"5-nt-6\"", "");
        same("W/\"5-nt-7\"", "");
        same("\"5-nt-7\"", "gzip");
        same("\"5-nt-7-gzip\"", "br, GZIP;q=0.5");
        same("\"5-nt-7-zstd\"", "*");
        assert_eq!(
            read("\"1-nt-7\", \"5-nt-6\"", "").as_deref(),
            Some("\"5-nt-6\"")
        );
        assert_eq!(read("*", "").as_deref(), Some("\"5-nt-7\""));
        assert_eq!(read("\"5-nt-7-gzip\"", ""), None);
        assert_eq!(read("\"5-nt-7-gzip\"", "gzip;q=0, zstd"), None);
        assert_eq!(read("\"5-ttl-7\"", ""), None);
        assert_eq!(read("\"6-nt-7\"", ""), None);
        assert_eq!(read("\"5-nt\"", ""), None);
        assert_eq!(read("\"\u{e9}\"", ""), None);
    }

    #[test]
    fn weak_tags_match_readers_alone() {
        let current = Validator::Weak("abc".to_owned());
        assert_eq!(current.header(), "W/\"abc\"");
        let read = |name, value| conditions(&[(name, value)]).for_read(Some(&current));
        let known = |tag: &'static str| Reading::NotModified(HeaderValue::from_static(tag));
        assert_eq!(read("if-none-match", "W/\"abc\""), known("W/\"abc\""));
        assert_eq!(read("if-none-match", "\"abc\""), known("\"abc\""));
        assert_eq!(read("if-none-match", "\"ab\""), Reading::Whole);
        assert_eq!(read("if-match", "\"abc\""), Reading::Failed);
        assert_eq!(read("if-match", "W/\"abc\""), Reading::Failed);
        assert_eq!(read("if-match", "*"), Reading::Whole);
    }

    #[test]
    fn if_match_is_evaluated_before_if_none_match() {
        let read = |matching| {
            let sent = [("if-match", matching), ("if-none-match", "\"5-nt-7\"")];
            conditions(&sent).for_read(Some(&strong()))
        };
        assert_eq!(read("\"6-nt-7\""), Reading::Failed);
        assert!(matches!(read("\"5-ttl-9\""), Reading::NotModified(_)));
        assert_eq!(strong().header(), "\"5-nt-7\"");
    }

    #[test]
    fn a_state_without_a_tag_is_read_whole() {
        let read = |name, value| conditions(&[(name, value)]).for_read(None);
        assert_eq!(read("if-none-match", "*"), Reading::Whole);
        assert_eq!(read("if-none-match", "\"5-nt-7\""), Reading::Whole);
        assert_eq!(read("if-match", "*"), Reading::Whole);
        assert_eq!(read("if-match", "\"5-nt-7\""), Reading::Failed);
    }
}
