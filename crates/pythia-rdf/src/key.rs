//! Dictionary keys: terms of dictionary kinds as bytes that sort like the terms.
//!
//! | kind | key |
//! |---|---|
//! | blank node | its label |
//! | IRI | the IRI |
//! | string | the lexical form |
//! | language-tagged string | lexical form (escaped), `00 00`, language, and `--ltr` or `--rtl` if it has a direction |
//! | other literal | lexical form (escaped), `00 00`, datatype IRI |
//! | triple term | its N-Triples text, `<<( … )>>` |
//!
//! "Escaped" means that a NUL byte is written as `00 01`, so that the separator sorts before every text.
//! [`decode`] is the exact inverse of [`encode`]; keys of one kind order like the lexical forms.

use std::borrow::Cow;

use memchr::memchr;
use oxrdf::{
    BaseDirection, BlankNode, BlankNodeRef, Literal, LiteralRef, NamedNode, NamedNodeRef, Term,
    TermRef,
};

use crate::error::KeyError;
use crate::id::{TermId, TermKind};
use crate::{inline, triple_text};

/// A dictionary key: its kind and its bytes. Keys order by kind, then bytewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TermKey<'a> {
    /// A dictionary kind.
    pub kind: TermKind,
    /// The key's bytes, in the format above.
    pub bytes: &'a [u8],
}

/// A dictionary key that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnedKey {
    /// A dictionary kind.
    pub kind: TermKind,
    /// The key's bytes.
    pub bytes: Vec<u8>,
}

impl OwnedKey {
    /// Returns the key, borrowed.
    pub fn as_key(&self) -> TermKey<'_> {
        TermKey {
            kind: self.kind,
            bytes: &self.bytes,
        }
    }
}

impl From<TermKey<'_>> for OwnedKey {
    fn from(key: TermKey<'_>) -> Self {
        key.to_owned_key()
    }
}

/// The parts of a dictionary term, borrowed from its key where possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyParts<'a> {
    /// A blank node's label.
    BlankNode(&'a str),
    /// An IRI.
    Iri(&'a str),
    /// An `xsd:string`'s lexical form.
    String(&'a str),
    /// A language-tagged string.
    LangString {
        /// The lexical form.
        value: Cow<'a, str>,
        /// The language tag, in lower case.
        language: &'a str,
        /// The base direction.
        direction: Option<BaseDirection>,
    },
    /// Any other literal.
    TypedLiteral {
        /// The lexical form.
        value: Cow<'a, str>,
        /// The datatype IRI.
        datatype: &'a str,
    },
    /// A triple term, as N-Triples text.
    Triple(&'a str),
}

impl<'a> KeyParts<'a> {
    /// Returns the parts of a term, borrowed from it; `None` for a triple term, which has no text of its own.
    pub fn of(term: TermRef<'a>) -> Option<Self> {
        let literal = match term {
            TermRef::BlankNode(node) => return Some(Self::BlankNode(node.as_str())),
            TermRef::NamedNode(node) => return Some(Self::Iri(node.as_str())),
            TermRef::Triple(_) => return None,
            TermRef::Literal(literal) => literal,
        };
        let value = literal.value();
        Some(match literal.language() {
            Some(language) => Self::LangString {
                value: value.into(),
                language,
                direction: literal.direction(),
            },
            None if literal.datatype() == oxrdf::vocab::xsd::STRING => Self::String(value),
            None => Self::TypedLiteral {
                value: value.into(),
                datatype: literal.datatype().as_str(),
            },
        })
    }

    /// Returns the term that has these parts.
    ///
    /// # Errors
    /// [`KeyError::Structure`] for a triple term whose text cannot be read.
    pub fn into_term(self) -> Result<Term, KeyError> {
        Ok(match self {
            Self::BlankNode(label) => BlankNode::new_unchecked(label).into(),
            Self::Iri(iri) => NamedNode::new_unchecked(iri).into(),
            Self::String(value) => Literal::new_simple_literal(value).into(),
            Self::LangString {
                value,
                language,
                direction,
            } => match direction {
                None => Literal::new_language_tagged_literal_unchecked(value, language),
                Some(direction) => Literal::new_directional_language_tagged_literal_unchecked(
                    value, language, direction,
                ),
            }
            .into(),
            Self::TypedLiteral { value, datatype } => {
                Literal::new_typed_literal(value, NamedNode::new_unchecked(datatype)).into()
            }
            Self::Triple(text) => {
                triple_text::read_triple(text).map_err(|(problem, offset)| KeyError::Structure {
                    kind: TermKind::Triple,
                    problem,
                    offset,
                })?
            }
        })
    }

    /// Returns the bytes of the texts.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::BlankNode(text) | Self::Iri(text) | Self::String(text) | Self::Triple(text) => {
                text.len()
            }
            Self::LangString {
                value,
                language: suffix,
                ..
            }
            | Self::TypedLiteral {
                value,
                datatype: suffix,
            } => value.len() + suffix.len(),
        }
    }
}

/// The result of [`encode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoded {
    /// The term is inside this id; `scratch` is empty.
    Inline(TermId),
    /// A dictionary term of this kind, its key's bytes in `scratch`.
    Key(TermKind),
}

impl<'a> TermKey<'a> {
    /// Returns a key with its own copy of the bytes.
    pub fn to_owned_key(self) -> OwnedKey {
        OwnedKey {
            kind: self.kind,
            bytes: self.bytes.to_vec(),
        }
    }

    /// Returns the term's parts without building the term.
    ///
    /// # Errors
    /// If the bytes are not a key of this kind.
    pub fn parts(self) -> Result<KeyParts<'a>, KeyError> {
        Ok(match self.kind {
            TermKind::BlankNode => KeyParts::BlankNode(self.text(self.bytes, 0)?),
            TermKind::Iri => KeyParts::Iri(self.text(self.bytes, 0)?),
            TermKind::String => KeyParts::String(self.text(self.bytes, 0)?),
            TermKind::Triple => KeyParts::Triple(self.text(self.bytes, 0)?),
            TermKind::TypedLiteral => {
                let (value, datatype) = self.split()?;
                KeyParts::TypedLiteral { value, datatype }
            }
            TermKind::LangString => {
                let (value, tag) = self.split()?;
                let (language, direction) = split_direction(tag);
                KeyParts::LangString {
                    value,
                    language,
                    direction,
                }
            }
            kind => return Err(KeyError::Kind(kind)),
        })
    }

    fn text(self, bytes: &'a [u8], start: usize) -> Result<&'a str, KeyError> {
        std::str::from_utf8(bytes).map_err(|error| KeyError::Utf8 {
            kind: self.kind,
            offset: start + error.valid_up_to(),
        })
    }

    /// Returns lexical form and suffix of a key with a separator.
    fn split(self) -> Result<(Cow<'a, str>, &'a str), KeyError> {
        let bytes = self.bytes;
        let mut unescaped: Option<Vec<u8>> = None;
        let mut start = 0;
        loop {
            let Some(found) = memchr(0, &bytes[start..]) else {
                return Err(self.structure("no separator", bytes.len()));
            };
            let nul = start + found;
            match bytes.get(nul + 1) {
                Some(0) => {
                    let value = match unescaped {
                        None => Cow::Borrowed(self.text(&bytes[..nul], 0)?),
                        Some(mut value) => {
                            value.extend_from_slice(&bytes[start..nul]);
                            Cow::Owned(String::from_utf8(value).map_err(|error| {
                                KeyError::Utf8 {
                                    kind: self.kind,
                                    offset: error.utf8_error().valid_up_to(),
                                }
                            })?)
                        }
                    };
                    return Ok((value, self.text(&bytes[nul + 2..], nul + 2)?));
                }
                Some(1) => {
                    unescaped
                        .get_or_insert_default()
                        .extend_from_slice(&bytes[start..=nul]);
                    start = nul + 2;
                }
                _ => return Err(self.structure("a lone NUL", nul)),
            }
        }
    }

    fn structure(self, problem: &'static str, offset: usize) -> KeyError {
        KeyError::Structure {
            kind: self.kind,
            problem,
            offset,
        }
    }
}

/// Splits `en--ltr` into the language and the base direction.
pub(crate) fn split_direction(tag: &str) -> (&str, Option<BaseDirection>) {
    if let Some(language) = tag.strip_suffix("--ltr") {
        (language, Some(BaseDirection::Ltr))
    } else if let Some(language) = tag.strip_suffix("--rtl") {
        (language, Some(BaseDirection::Rtl))
    } else {
        (tag, None)
    }
}

/// Returns the label of the blank node of a store that a name stands for: that of `_:label`, which no IRI can be. Algebra has
/// such names where it has no place for a blank node that is no variable.
pub fn label_of(name: NamedNodeRef<'_>) -> Option<&str> {
    name.as_str().strip_prefix("_:")
}

/// Returns the name that stands for a blank node of a store.
pub fn name_of(node: BlankNodeRef<'_>) -> NamedNode {
    NamedNode::new_unchecked(format!("_:{}", node.as_str()))
}

/// Encodes a term as an inline id, or as a dictionary key whose bytes replace the contents of `scratch`. A name of a blank node
/// ([`label_of`]) has the key of the node.
pub fn encode(term: TermRef<'_>, scratch: &mut Vec<u8>) -> Encoded {
    encode_scoped(term, "", scratch)
}

/// Like [`encode`], with `scope` prepended to every blank node label, including nested ones.
pub fn encode_scoped(term: TermRef<'_>, scope: &str, scratch: &mut Vec<u8>) -> Encoded {
    scratch.clear();
    match term {
        TermRef::NamedNode(node) => match label_of(node) {
            Some(label) => {
                scratch.extend_from_slice(label.as_bytes());
                Encoded::Key(TermKind::BlankNode)
            }
            None => {
                scratch.extend_from_slice(node.as_str().as_bytes());
                Encoded::Key(TermKind::Iri)
            }
        },
        TermRef::BlankNode(node) => {
            scratch.extend_from_slice(scope.as_bytes());
            scratch.extend_from_slice(node.as_str().as_bytes());
            Encoded::Key(TermKind::BlankNode)
        }
        TermRef::Literal(literal) => encode_literal(literal, scratch),
        TermRef::Triple(triple) => {
            triple_text::write_triple(triple.as_ref(), scope, scratch);
            Encoded::Key(TermKind::Triple)
        }
    }
}

fn encode_literal(literal: LiteralRef<'_>, scratch: &mut Vec<u8>) -> Encoded {
    let value = literal.value();
    if let Some(language) = literal.language() {
        push_escaped(value.as_bytes(), scratch);
        scratch.extend_from_slice(&SEPARATOR);
        scratch.extend_from_slice(language.as_bytes());
        match literal.direction() {
            None => {}
            Some(BaseDirection::Ltr) => scratch.extend_from_slice(b"--ltr"),
            Some(BaseDirection::Rtl) => scratch.extend_from_slice(b"--rtl"),
        }
        return Encoded::Key(TermKind::LangString);
    }
    let datatype = literal.datatype();
    if datatype == oxrdf::vocab::xsd::STRING {
        scratch.extend_from_slice(value.as_bytes());
        return Encoded::Key(TermKind::String);
    }
    if let Some(id) = inline::inline_literal(value, datatype.as_str()) {
        return Encoded::Inline(id);
    }
    push_escaped(value.as_bytes(), scratch);
    scratch.extend_from_slice(&SEPARATOR);
    scratch.extend_from_slice(datatype.as_str().as_bytes());
    Encoded::Key(TermKind::TypedLiteral)
}

/// Separates a lexical form from its suffix.
pub(crate) const SEPARATOR: [u8; 2] = [0, 0];

/// Appends a lexical form with its NUL bytes escaped.
pub(crate) fn push_escaped(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some(nul) = memchr(0, rest) {
        out.extend_from_slice(&rest[..=nul]);
        out.push(1);
        rest = &rest[nul + 1..];
    }
    out.extend_from_slice(rest);
}

/// Returns the term of a key: the exact inverse of [`encode`].
///
/// # Errors
/// If [`encode`] cannot have written the bytes for this kind.
pub fn decode(key: TermKey<'_>) -> Result<Term, KeyError> {
    key.parts()?.into_term()
}

#[cfg(test)]
mod tests;
