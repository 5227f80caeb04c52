//! Regular expressions of `REGEX` and `REPLACE`: XPath's syntax and flags over the `regex` crate, which
//! runs in linear time, with a limit on the size of compiled patterns.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

/// The largest compiled pattern. Nested counted repetitions could exceed any memory.
const PROGRAM_BYTES_MAX: usize = 1 << 20;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    /// The `q` flag: pattern and replacement are plain text.
    literal: bool,
}

impl Pattern {
    /// Compiles a pattern with XPath's flags (F&O §5.6.1.1); `None` if either is invalid.
    pub(crate) fn compile(pattern: &str, flags: &str) -> Option<Self> {
        let literal = flags.contains('q');
        let mut pattern = Cow::Borrowed(pattern);
        if literal {
            pattern = regex::escape(&pattern).into();
        } else if flags.contains('x') {
            pattern = without_whitespace(&pattern).into();
        }
        let pattern = if literal {
            pattern
        } else {
            translate(&pattern, flags.contains('s'))?
                .into_owned()
                .into()
        };
        let mut builder = RegexBuilder::new(&pattern);
        builder.size_limit(PROGRAM_BYTES_MAX);
        for flag in flags.chars() {
            match flag {
                'i' => builder.case_insensitive(true),
                'm' => builder.multi_line(true),
                's' => builder.dot_matches_new_line(true),
                'x' | 'q' => &mut builder,
                _ => return None,
            };
        }
        let regex = builder.build().ok()?;
        Some(Self { regex, literal })
    }

    /// Returns whether a text matches the pattern.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Replaces every match. In the replacement `$1` is a group, `\$` a dollar and `\\` a backslash.
    /// Anything else after `$` or `\` is an error, and so is a pattern that matches the empty string (F&O
    /// §5.6.4). Stops when the result exceeds `bytes_max`.
    pub(crate) fn replace(
        &self,
        text: &str,
        replacement: &str,
        bytes_max: usize,
    ) -> Option<Result<String, TooLong>> {
        if self.regex.is_match("") {
            return None;
        }
        let parts = if self.literal {
            Replacement(vec![ReplacementPiece::Text(replacement.to_owned())])
        } else {
            Replacement::parse(replacement, self.regex.captures_len() - 1)?
        };
        let mut result = String::with_capacity(text.len());
        let mut end = 0;
        for captures in self.regex.captures_iter(text) {
            let found = captures.get(0).expect("group 0 is the match");
            result.push_str(&text[end..found.start()]);
            for part in &parts.0 {
                result.push_str(match part {
                    ReplacementPiece::Text(text) => text,
                    ReplacementPiece::Group(group) => {
                        captures.get(*group).map_or("", |found| found.as_str())
                    }
                });
            }
            if result.len() > bytes_max {
                return Some(Err(TooLong));
            }
            end = found.end();
        }
        result.push_str(&text[end..]);
        Some(Ok(result))
    }
}

/// The error for a text that exceeds its maximum length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

enum ReplacementPiece {
    Text(String),
    Group(usize),
}

/// A parsed replacement string.
struct Replacement(Vec<ReplacementPiece>);

impl Replacement {
    fn parse(text: &str, group_count: usize) -> Option<Self> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '\\' => plain.push(rest.next().filter(|c| matches!(c, '\\' | '$'))?),
                '$' => {
                    let digit = rest.next()?.to_digit(10)?;
                    let mut group = usize::try_from(digit).expect("a digit");
                    // The longest number that is a group; further digits are text.
                    while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
                        let longer = group * 10 + usize::try_from(digit).expect("a digit");
                        if longer > group_count {
                            break;
                        }
                        group = longer;
                        rest.next();
                    }
                    if !plain.is_empty() {
                        parts.push(ReplacementPiece::Text(std::mem::take(&mut plain)));
                    }
                    if group <= group_count {
                        parts.push(ReplacementPiece::Group(group));
                    }
                }
                c => plain.push(c),
            }
        }
        if !plain.is_empty() {
            parts.push(ReplacementPiece::Text(plain));
        }
        Some(Self(parts))
    }
}

/// Implements XPath's `x` flag: removes whitespace from the pattern, except in character classes. Unlike
/// with this flag in the `regex` crate, `#` does not start a comment.
fn without_whitespace(pattern: &str) -> String {
    let mut result = String::with_capacity(pattern.len());
    let mut class_depth = 0_u32;
    let mut escaped = false;
    for c in pattern.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => class_depth += 1,
            ']' => class_depth = class_depth.saturating_sub(1),
            '\t' | '\n' | '\r' | ' ' if class_depth == 0 => continue,
            _ => (),
        }
        result.push(c);
    }
    result
}

/// Returns whether a pattern refers back to one of its groups (`(a)\1`). XPath supports that, but matching
/// takes exponential time in the worst case.
pub(crate) fn has_back_reference(pattern: &str) -> bool {
    let mut escaped = false;
    pattern.chars().any(|c| {
        let found = escaped && matches!(c, '1'..='9');
        escaped = !escaped && c == '\\';
        found
    })
}

/// Translates XPath's differing syntax: class subtraction `[a-z-[aeiou]]`, the name classes `\i` and `\c`,
/// whitespace `\s`, and the dot, which excludes both line ends. `\w` keeps its usual meaning, including
/// `_`. Blocks (`\p{IsGreek}`) are not supported.
fn translate(pattern: &str, dot_all: bool) -> Option<Cow<'_, str>> {
    /// XML 1.0's NameStartChar and NameChar, as the inside of a class.
    const NAME_START: &str = r":A-Z_a-z\u{C0}-\u{D6}\u{D8}-\u{F6}\u{F8}-\u{2FF}\u{370}-\u{37D}\u{37F}-\u{1FFF}\u{200C}-\u{200D}\u{2070}-\u{218F}\u{2C00}-\u{2FEF}\u{3001}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFFD}\u{10000}-\u{EFFFF}";
    const NAME_MORE: &str = r"\-.0-9\u{B7}\u{300}-\u{36F}\u{203F}-\u{2040}";

    if !pattern.contains(['\\', '.']) && !pattern.contains("-[") {
        return Some(Cow::Borrowed(pattern));
    }
    let mut result = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut class_depth = 0_u32;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix(r"\i") {
            result.push_str(&format!("[{NAME_START}]"));
            rest = after;
        } else if let Some(after) = rest.strip_prefix(r"\I") {
            result.push_str(&format!("[^{NAME_START}]"));
            rest = after;
        } else if let Some(after) = rest.strip_prefix(r"\c") {
            result.push_str(&format!("[{NAME_START}{NAME_MORE}]"));
            rest = after;
        } else if let Some(after) = rest.strip_prefix(r"\C") {
            result.push_str(&format!("[^{NAME_START}{NAME_MORE}]"));
            rest = after;
        } else if let Some(after) = rest.strip_prefix(r"\s") {
            result.push_str(r"[\x20\t\n\r]");
            rest = after;
        } else if let Some(after) = rest.strip_prefix(r"\S") {
            result.push_str(r"[^\x20\t\n\r]");
            rest = after;
        } else if class_depth == 0 && !dot_all && c == '.' {
            result.push_str(r"[^\n\r]");
            rest = &rest[1..];
        } else if class_depth > 0 && rest.starts_with("-[") {
            result.push_str("--[");
            class_depth += 1;
            rest = &rest[2..];
        } else {
            let width = match c {
                '\\' => 1 + rest[1..].chars().next()?.len_utf8(),
                _ => c.len_utf8(),
            };
            match c {
                '[' => class_depth += 1,
                ']' => class_depth = class_depth.saturating_sub(1),
                _ => (),
            }
            result.push_str(&rest[..width]);
            rest = &rest[width..];
        }
    }
    Some(Cow::Owned(result))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, flags: &str, text: &str) -> Option<bool> {
        Some(Pattern::compile(pattern, flags)?.is_match(text))
    }

    #[test]
    fn flags() {
        assert_eq!(matches("^ALI", "i", "alice"), Some(true));
        assert_eq!(matches("^b", "m", "a\nb"), Some(true));
        assert_eq!(matches("a.b", "", "a\nb"), Some(false));
        assert_eq!(matches("a.b", "s", "a\nb"), Some(true));
        assert_eq!(matches("a.b", "", "a\rb"), Some(false));
        assert_eq!(matches(r"a\.b", "", "axb"), Some(false));
        assert_eq!(matches("a[.]b", "", "axb"), Some(false));
        assert_eq!(matches("a b # c", "x", "ab#c"), Some(true));
        assert_eq!(matches("a.b", "q", "a.b"), Some(true));
        assert_eq!(matches("a.b", "q", "axb"), Some(false));
        assert_eq!(matches("a", "k", "a"), None);
        assert_eq!(matches("(", "", "a"), None);
    }

    #[test]
    fn xpath_classes() {
        assert_eq!(matches("^[a-z-[aeiou]]+$", "", "xyz"), Some(true));
        assert_eq!(matches("^[a-z-[aeiou]]+$", "", "xaz"), Some(false));
        assert_eq!(matches(r"^\i\c*$", "", "rdf:type"), Some(true));
        assert_eq!(matches(r"^\i\c*$", "", "1a"), Some(false));
        assert_eq!(matches(r"^\d+\\$", "", "12\\"), Some(true));
        assert_eq!(matches(r"^[\sx]\s$", "", "x\t"), Some(true));
        assert_eq!(matches(r"^\s$", "", "\u{a0}"), Some(false));
        assert_eq!(matches(r"^[^\S]\S$", "", " \u{a0}"), Some(true));
    }

    #[test]
    fn back_references_are_found() {
        assert!(has_back_reference(r"(a)\1"));
        assert!(!has_back_reference(r"(a)\\1"));
        assert!(has_back_reference(r"(a)\\\1"));
    }

    #[test]
    fn oversized_patterns_are_refused() {
        assert_eq!(matches("((a{100}){100}){100}", "", "a"), None);
        // Exponential for a backtracking engine.
        assert_eq!(matches("^(a+)+$", "", &("a".repeat(40) + "b")), Some(false));
    }

    #[test]
    fn replacement_groups() {
        let replace = |pattern: &str, replacement: &str, text: &str| {
            Pattern::compile(pattern, "")?
                .replace(text, replacement, 100)?
                .ok()
        };
        assert_eq!(replace("b+", "Z", "abbcb").as_deref(), Some("aZcZ"));
        assert_eq!(replace("(a)(b)", "$2$1", "abab").as_deref(), Some("baba"));
        assert_eq!(replace("(a)", "$12", "a").as_deref(), Some("a2"));
        assert_eq!(replace("(a)", r"\$1\\", "a").as_deref(), Some(r"$1\"));
        assert_eq!(replace("a", "$", "a"), None);
        assert_eq!(replace("a", r"\n", "a"), None);
        assert_eq!(replace("a*", "x", "b"), None);
        assert_eq!(replace("a", "$1", "ab").as_deref(), Some("b"));
        assert_eq!(replace("a", &"b".repeat(60), "aaa"), None);
    }
}
