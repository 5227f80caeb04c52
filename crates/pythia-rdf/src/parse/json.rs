//! Watch for JSON-LD on the way to its parser. It limits the nesting of brackets and finds blank text and base
//! IRIs.
//!
//! A base IRI is the value of `@base` in a context. Something that looks like a base IRI may also be part of a
//! JSON literal. `@json` marks such a literal, and it may stand anywhere in the literal's object or in any
//! context. So a context is decided at once if it is in the root object, in such a context, or if the keys that
//! lead to it show that it is a context. Every other context waits for the end of the root object.

use std::borrow::Cow;

use memchr::memchr2;

use super::editor::Editor;
use super::watch::{BRACKETS_MAX, Refusal, Watch, replacement_of_base, too_deep};

/// Length above which a string, as written, cannot be a keyword.
const KEYWORD_BYTES_MAX: usize = 64;

/// Kind of an object or array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Node,
    Context,
    /// Definition of a term in a context.
    Definition,
    /// Object or array that contains no context.
    Opaque,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Context,
    Base,
    Value,
    /// Key whose values are nodes of the same kind as the object that holds them.
    Nodes,
    Other,
}

/// An open object or array.
#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: Kind,
    is_object: bool,
    /// True if no JSON literal can contain it.
    is_certain: bool,
    /// True if it contains `@json`.
    is_json: bool,
    /// True if the next string is a key.
    expects_key: bool,
    key: Key,
    /// Number of base IRIs that waited when it began.
    undecided: usize,
}

/// State of the watch over a JSON text.
#[derive(Debug, Default)]
pub(crate) struct JsonText {
    frames: Vec<Frame>,
    in_string: bool,
    escaped: bool,
    /// The current string so far, as written.
    string: Vec<u8>,
    in_base: bool,
    in_blank: bool,
    /// True if a context of the root object contains `@json`.
    has_json_terms: bool,
}

impl Watch for JsonText {
    fn pass(&mut self, piece: &[u8], editor: &mut Editor) -> Result<(), Refusal> {
        let mut at = 0;
        while at < piece.len() {
            if self.escaped {
                self.escaped = false;
                self.note(&piece[at..=at]);
            } else if self.in_string {
                let length = memchr2(b'"', b'\\', &piece[at..]).unwrap_or(piece.len() - at);
                self.note(&piece[at..at + length]);
                at += length;
                if at < piece.len() {
                    self.string(piece, at, editor);
                }
            } else {
                at += self.blank(piece, at, editor);
                if at < piece.len() {
                    self.token(piece[at], at, editor)?;
                }
            }
            at += 1;
        }
        Ok(())
    }
}

impl JsonText {
    fn open(&mut self, is_object: bool, editor: &Editor) {
        let outer = self.frames.last();
        let (kind, is_certain) = match outer {
            None => (Kind::Node, true),
            Some(outer) => (inner_kind(outer, is_object), is_certain(outer)),
        };
        if is_object && !self.frames.iter().any(|frame| frame.is_object) {
            self.has_json_terms = false;
        }
        self.frames.push(Frame {
            kind,
            is_object,
            is_certain,
            is_json: false,
            expects_key: is_object,
            key: Key::Other,
            undecided: editor.undecided(),
        });
    }

    fn close(&mut self, editor: &mut Editor) {
        let Some(frame) = self.frames.pop() else {
            return;
        };
        if editor.undecided() == 0 {
            return;
        }
        if frame.is_json {
            editor.leave_undecided(frame.undecided);
        }
        let is_root = frame.is_object && !self.frames.iter().any(|frame| frame.is_object);
        if is_root && self.has_json_terms {
            editor.leave_undecided(0);
        }
        if is_root {
            editor.decide();
        }
    }

    fn begin_string(&mut self, at: usize, editor: &mut Editor) {
        self.in_string = true;
        self.string.clear();
        let is_base = |frame: &Frame| {
            frame.kind == Kind::Context && frame.key == Key::Base && !frame.expects_key
        };
        if self.frames.last().is_some_and(is_base) {
            self.in_base = true;
            editor.begin_base(at + 1);
        }
    }

    /// Handles the quote that ends a string, or a backslash in a string.
    fn string(&mut self, piece: &[u8], at: usize, editor: &mut Editor) {
        if piece[at] == b'"' {
            self.end_string(piece, at, editor);
        } else {
            self.escaped = true;
            self.note(b"\\");
        }
    }

    /// Adds text to the current string.
    fn note(&mut self, text: &[u8]) {
        // One byte more than the maximum shows that the string is longer.
        let missing = (KEYWORD_BYTES_MAX + 1).saturating_sub(self.string.len());
        self.string
            .extend_from_slice(&text[..text.len().min(missing)]);
    }

    /// Skips the white space at `at` and returns its length.
    fn blank(&mut self, piece: &[u8], at: usize, editor: &mut Editor) -> usize {
        let is_white = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let rest = &piece[at..];
        let length = rest.iter().position(|byte| !is_white(byte));
        let length = length.unwrap_or(rest.len());
        if length > 0 && !self.in_blank {
            self.in_blank = true;
            editor.begin_blank(at);
        }
        if length < rest.len() && self.in_blank {
            self.in_blank = false;
            editor.end_blank(piece, at + length);
        }
        length
    }

    /// Handles a byte between tokens, or a byte of a token that is not a string.
    fn token(&mut self, byte: u8, at: usize, editor: &mut Editor) -> Result<(), Refusal> {
        match byte {
            b'"' => self.begin_string(at, editor),
            b'[' | b'{' => {
                self.open(byte == b'{', editor);
                if self.frames.len() > BRACKETS_MAX {
                    return Err(too_deep(at, "brackets", BRACKETS_MAX));
                }
            }
            b']' | b'}' => self.close(editor),
            b',' => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.expects_key = frame.is_object;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end_string(&mut self, piece: &[u8], at: usize, editor: &mut Editor) {
        self.in_string = false;
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        if std::mem::take(&mut self.in_base) {
            let replace = |iri: &[u8]| replacement_of_base(iri, b'"', unescaped);
            return editor.end_base(piece, at, frame.is_certain, replace);
        }
        let text = match self.string.len() <= KEYWORD_BYTES_MAX {
            true => std::str::from_utf8(&self.string).ok().and_then(unescaped),
            false => None,
        };
        let text = text.as_deref().unwrap_or_default();
        if frame.expects_key {
            frame.expects_key = false;
            frame.key = match text {
                "@context" => Key::Context,
                "@base" => Key::Base,
                "@value" => Key::Value,
                "@graph" | "@included" => Key::Nodes,
                _ => Key::Other,
            };
        } else if text == "@json" {
            self.note_json();
        }
    }

    /// Records that the object of this value may be a JSON literal, or that a term may be defined as one.
    fn note_json(&mut self) {
        let is_in_node = |frame: &Frame| frame.kind == Kind::Node;
        self.has_json_terms |= !self.frames.last().is_some_and(is_in_node);
        if let Some(object) = self.frames.iter_mut().rfind(|frame| frame.is_object) {
            object.is_json = true;
        }
    }
}

fn is_certain(outer: &Frame) -> bool {
    let leads_on = match outer.kind {
        Kind::Node if outer.is_object => matches!(outer.key, Key::Context | Key::Nodes),
        _ => true,
    };
    outer.is_certain && leads_on
}

/// Returns the kind of an object or array that is a value in `outer`.
fn inner_kind(outer: &Frame, is_object: bool) -> Kind {
    match (outer.kind, outer.is_object) {
        (Kind::Node, false) => Kind::Node,
        (Kind::Node, true) => match outer.key {
            Key::Context => Kind::Context,
            Key::Value => Kind::Opaque,
            _ => Kind::Node,
        },
        (Kind::Context, false) if is_object => Kind::Context,
        (Kind::Context, true) if is_object => Kind::Definition,
        (Kind::Definition, true) if outer.key == Key::Context => Kind::Context,
        _ => Kind::Opaque,
    }
}

/// Returns the text without JSON escapes, or `None` if it contains an escape that no IRI needs.
fn unescaped(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('\\') {
        return Some(Cow::Borrowed(text));
    }
    let mut parts = text.split('\\');
    let mut string = parts.next()?.to_owned();
    for part in parts {
        let length = match part.as_bytes().first()? {
            b'/' => {
                string.push('/');
                1
            }
            b'u' => {
                let hex = part.get(1..5)?;
                if !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return None;
                }
                string.push(char::from_u32(u32::from_str_radix(hex, 16).ok()?)?);
                5
            }
            _ => return None,
        };
        string.push_str(&part[length..]);
    }
    Some(Cow::Owned(string))
}
