//! Finds the base IRIs that an RDF/XML text declares. These are the values of `xml:base`, except in XML literals.

use std::borrow::Cow;

use super::XmlMode;
use crate::parse::editor::Editor;
use crate::parse::watch::base_without_dots;

/// Length above which names and values do not matter.
const TEXT_BYTES_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Base,
    ParseType,
    Other,
}

#[derive(Debug)]
pub(super) struct XmlBases {
    /// Name of the attribute, or of the element before its first attribute.
    name: Vec<u8>,
    name_ended: bool,
    attribute: Value,
    value: Vec<u8>,
    /// True if the content of the element of this tag is a literal.
    begins_literal: bool,
    /// Depth of the element whose content is a literal.
    literal_depth: Option<usize>,
}

impl XmlBases {
    pub(super) fn new() -> Self {
        Self {
            name: Vec::new(),
            name_ended: false,
            attribute: Value::Other,
            value: Vec::new(),
            begins_literal: false,
            literal_depth: None,
        }
    }

    /// Processes a byte that changes the mode. `depth` is the depth of elements after it.
    pub(super) fn follow(
        &mut self,
        (before, after): (XmlMode, XmlMode),
        depth: usize,
        piece: &[u8],
        at: usize,
        editor: &mut Editor,
    ) {
        match (before, after) {
            (XmlMode::Opened, XmlMode::StartTag { .. }) => {
                self.name.clear();
                self.begins_literal = false;
            }
            (XmlMode::StartTag { quote: None, .. }, XmlMode::StartTag { quote: None, .. }) => {
                self.name(piece[at]);
            }
            (XmlMode::StartTag { quote: None, .. }, XmlMode::StartTag { quote: Some(_), .. }) => {
                self.begin_value(at, editor);
            }
            (
                XmlMode::StartTag { quote: Some(_), .. },
                XmlMode::StartTag { quote: Some(_), .. },
            ) => {
                add(&mut self.value, piece[at]);
            }
            (XmlMode::StartTag { quote: Some(_), .. }, XmlMode::StartTag { quote: None, .. }) => {
                self.end_value(piece, at, editor);
            }
            (XmlMode::StartTag { slash: false, .. }, XmlMode::Text) if self.begins_literal => {
                self.literal_depth.get_or_insert(depth);
            }
            (XmlMode::EndTag, XmlMode::Text) => {
                self.literal_depth = self.literal_depth.filter(|literal| *literal <= depth);
            }
            _ => {}
        }
    }

    /// Processes a byte of a tag outside of values.
    fn name(&mut self, byte: u8) {
        if byte.is_ascii_whitespace() || byte == b'=' {
            self.name_ended = true;
            return;
        }
        if std::mem::take(&mut self.name_ended) {
            self.name.clear();
        }
        add(&mut self.name, byte);
    }

    fn begin_value(&mut self, at: usize, editor: &mut Editor) {
        self.name_ended = true;
        self.value.clear();
        let local_name = self.name.rsplit(|byte| *byte == b':').next();
        self.attribute = if self.name == b"xml:base" && self.literal_depth.is_none() {
            editor.begin_base(at + 1);
            Value::Base
        } else if local_name == Some(b"parseType") {
            Value::ParseType
        } else {
            Value::Other
        };
    }

    fn end_value(&mut self, piece: &[u8], at: usize, editor: &mut Editor) {
        match self.attribute {
            Value::Base => editor.end_base(piece, at, true, |iri| replacement(iri, piece[at])),
            // Unknown types also mean a literal (RDF 1.1 XML Syntax §7.2.20).
            Value::ParseType => {
                let is_known = matches!(self.value.as_slice(), b"Resource" | b"Collection");
                self.begins_literal |= !is_known;
            }
            Value::Other => {}
        }
    }
}

fn add(text: &mut Vec<u8>, byte: u8) {
    if text.len() <= TEXT_BYTES_MAX {
        text.push(byte);
    }
}

fn replacement(written: &[u8], quote: u8) -> Option<Vec<u8>> {
    let plain = base_without_dots(written, unescaped)?;
    let plain = plain.replace('&', "&amp;").replace('\'', "&#39;");
    let mut text = plain.into_bytes();
    text.push(quote);
    Some(text)
}

/// Returns the value with its references replaced, or `None` if it refers to entities of the document.
fn unescaped(text: &str) -> Option<Cow<'_, str>> {
    quick_xml::escape::unescape(text).ok()
}
