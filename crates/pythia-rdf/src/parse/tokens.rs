//! Common tokens of N-Triples, N-Quads, Turtle and TriG, cut out of a text without copying.
//!
//! Every function here returns `None` for text of which it is not certain, whether that is invalid or only
//! unusual.

use memchr::{memchr, memchr2};

use crate::id::TermKind;

/// A blank node or IRI as written.
#[derive(Clone, Copy)]
pub(super) struct Node<'c> {
    pub(super) kind: TermKind,
    /// The text, including the brackets or `_:`.
    pub(super) text: &'c [u8],
}

impl<'c> Node<'c> {
    /// Returns the IRI or label.
    pub(super) fn content(self) -> &'c [u8] {
        match self.kind {
            TermKind::Iri => &self.text[1..self.text.len() - 1],
            _ => &self.text[2..],
        }
    }
}

pub(super) enum Suffix<'c> {
    None,
    Language(&'c [u8]),
    Datatype(&'c [u8]),
}

pub(super) enum Object<'c> {
    Node(Node<'c>),
    /// Literal. If the lexical form is `None`, it is in the buffer for unescaped text.
    Literal(Option<&'c [u8]>, Suffix<'c>),
}

/// Returns the length of the first line and the length of its end (`\n`, `\r\n`, a lone `\r`, or nothing).
pub(super) fn line_end(text: &[u8], has_carriage_returns: bool) -> (usize, usize) {
    let found = if has_carriage_returns {
        memchr2(b'\n', b'\r', text)
    } else {
        memchr(b'\n', text)
    };
    match found {
        None => (text.len(), 0),
        Some(at) if text[at..].starts_with(b"\r\n") => (at, 2),
        Some(at) => (at, 1),
    }
}

pub(super) fn skip_space(line: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t') = line.get(at) {
        at += 1;
    }
    at
}

/// Reads an IRI or a blank node.
pub(super) fn node<'c>(line: &'c [u8], at: &mut usize) -> Option<Node<'c>> {
    match line.get(*at)? {
        b'<' => iri(line, at),
        b'_' => blank_node(line, at),
        _ => None,
    }
}

/// Reads an object. A lexical form with escapes is written to `unescaped` without them.
pub(super) fn object<'c>(
    line: &'c [u8],
    at: &mut usize,
    unescaped: &mut Vec<u8>,
) -> Option<Object<'c>> {
    if line.get(*at) != Some(&b'"') {
        return node(line, at).map(Object::Node);
    }
    let start = *at + 1;
    let found = start + memchr2(b'"', b'\\', &line[start..])?;
    let lexical = if line[found] == b'"' {
        *at = found + 1;
        Some(&line[start..found])
    } else {
        unescaped.clear();
        *at = unescape(line, start, found, unescaped)?;
        None
    };
    let suffix = match line.get(*at)? {
        b'@' => Suffix::Language(language(line, at)?),
        b'^' => {
            if line.get(*at + 1) != Some(&b'^') {
                return None;
            }
            *at += 2;
            Suffix::Datatype(iri(line, at)?.content())
        }
        // oxttl decides about a suffix after a space. The caller passes on everything it does not expect there.
        _ => Suffix::None,
    };
    Some(Object::Literal(lexical, suffix))
}

/// Reads `<…>`. The text between the brackets is checked by `validate`.
pub(super) fn iri<'c>(line: &'c [u8], at: &mut usize) -> Option<Node<'c>> {
    if line.get(*at) != Some(&b'<') || line.get(*at + 1) == Some(&b'<') {
        return None;
    }
    let length = memchr(b'>', &line[*at..])? + 1;
    let text = &line[*at..*at + length];
    *at += length;
    Some(Node {
        kind: TermKind::Iri,
        text,
    })
}

/// Reads `_:label` of ASCII characters. Dots at the end are not part of the label.
fn blank_node<'c>(line: &'c [u8], at: &mut usize) -> Option<Node<'c>> {
    let start = *at;
    if line.get(start + 1) != Some(&b':') {
        return None;
    }
    let mut end = start + 2;
    if !line.get(end)?.is_ascii_alphanumeric() && line[end] != b'_' {
        return None;
    }
    while let Some(byte) = line.get(end) {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') {
            end += 1;
        } else if *byte >= 0x80 {
            return None;
        } else {
            break;
        }
    }
    while line[end - 1] == b'.' {
        end -= 1;
    }
    *at = end;
    Some(Node {
        kind: TermKind::BlankNode,
        text: &line[start..end],
    })
}

/// A prefixed name as written.
#[derive(Clone, Copy)]
pub(super) struct PrefixedName<'c> {
    pub(super) text: &'c [u8],
    pub(super) prefix: &'c [u8],
    pub(super) local: &'c [u8],
}

/// Bytes of names: 1 in the prefix and after it, 2 only after it.
const NAME: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => 1,
            b':' => 2,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

/// Reads a prefixed name of ASCII characters, without escapes. Dots at the end are not part of the name.
pub(super) fn prefixed_name<'c>(text: &'c [u8], at: &mut usize) -> Option<PrefixedName<'c>> {
    let rest = &text[*at..];
    let colon = rest.iter().position(|byte| NAME[usize::from(*byte)] != 1)?;
    let prefix = &rest[..colon];
    let is_prefix = match prefix {
        [] => true,
        [first, ..] => first.is_ascii_alphabetic() && !prefix.ends_with(b"."),
    };
    if rest[colon] != b':' || !is_prefix {
        return None;
    }
    let start = colon + 1;
    let local = &rest[start..];
    let length = local
        .iter()
        .position(|byte| NAME[usize::from(*byte)] == 0)?;
    if matches!(local[length], b'%' | b'\\' | 0x80..) || matches!(local[0], b'-' | b'.') {
        return None;
    }
    let mut local = &local[..length];
    while let Some(shorter) = local.strip_suffix(b".") {
        local = shorter;
    }
    let length = start + local.len();
    *at += length;
    Some(PrefixedName {
        text: &rest[..length],
        prefix,
        local,
    })
}

/// Reads the tag after `@`, without a base direction.
pub(super) fn language<'c>(line: &'c [u8], at: &mut usize) -> Option<&'c [u8]> {
    let start = *at + 1;
    let tail = &line[start..];
    let length = tail
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-')?;
    let tag = &tail[..length];
    if !tag.first()?.is_ascii_alphabetic()
        || tag.ends_with(b"-")
        || tag.windows(2).any(|two| two == b"--")
    {
        return None;
    }
    *at = start + length;
    Some(tag)
}

/// Resolves the escapes of a literal that starts at `start` and has its first backslash at `escape`. Returns the
/// position after the closing quote.
pub(super) fn unescape(
    line: &[u8],
    start: usize,
    escape: usize,
    out: &mut Vec<u8>,
) -> Option<usize> {
    out.extend_from_slice(&line[start..escape]);
    let mut at = escape;
    loop {
        match line[at] {
            b'"' => return Some(at + 1),
            _ => at = unescape_one(line, at + 1, out)?,
        }
        let next = at + memchr2(b'"', b'\\', &line[at..])?;
        out.extend_from_slice(&line[at..next]);
        at = next;
    }
}

/// Resolves the escape whose letter is at `at`. Returns the position after the escape.
fn unescape_one(line: &[u8], at: usize, out: &mut Vec<u8>) -> Option<usize> {
    let plain = match line.get(at)? {
        b't' => b'\t',
        b'b' => 0x08,
        b'n' => b'\n',
        b'r' => b'\r',
        b'f' => 0x0C,
        quoted @ (b'"' | b'\'' | b'\\') => *quoted,
        letter @ (b'u' | b'U') => {
            let digits = if *letter == b'u' { 4 } else { 8 };
            let hex = line.get(at + 1..at + 1 + digits)?;
            let mut code = 0;
            for &digit in hex {
                code = code << 4 | char::from(digit).to_digit(16)?;
            }
            let character = char::from_u32(code)?;
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(at + 1 + digits);
        }
        _ => return None,
    };
    out.push(plain);
    Some(at + 1)
}

#[cfg(test)]
mod tests;
