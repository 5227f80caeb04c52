//! Handles for terms that are cut out of a text without a parser.

use super::SourceInfo;
use super::sink::QuadSink;
use super::tokens::{Node, Suffix};
use super::worker::Encoder;
use crate::error::{SinkError, TermError};
use crate::id::TermKind;
use crate::inline;
use crate::key::{SEPARATOR, TermKey, push_escaped};
use crate::validate;

/// Reason why a term has no handle.
pub(super) enum Refused {
    /// The term is not certainly valid, so oxttl decides.
    Slow,
    Sink(SinkError),
}

impl From<TermError> for Refused {
    fn from(error: TermError) -> Self {
        match error {
            TermError::Sink(error) => Self::Sink(error),
            TermError::Invalid(_) => Self::Slow,
        }
    }
}

/// Makes handles. It reuses its buffers.
#[derive(Default)]
pub(super) struct Handles {
    /// Buffer for a literal without its escapes.
    pub(super) lexical: Vec<u8>,
    /// Buffer for a key that is not a slice of the input.
    key: Vec<u8>,
    encoder: Encoder,
}

impl Handles {
    /// Returns the handle of an absolute IRI or a blank node.
    pub(super) fn node<S: QuadSink>(
        &mut self,
        node: Node<'_>,
        info: &SourceInfo,
        sink: &mut S,
    ) -> Result<S::Term, Refused> {
        let content = node.content();
        if node.kind == TermKind::Iri {
            let key = TermKey {
                kind: TermKind::Iri,
                bytes: content,
            };
            return Ok(sink.key(key, || validate::iri(content))?);
        }
        // The recogniser accepts only labels that are valid.
        if info.blank_node_prefix.is_empty() {
            let key = TermKey {
                kind: TermKind::BlankNode,
                bytes: content,
            };
            return Ok(sink.key(key, || Ok(()))?);
        }
        self.key.clear();
        self.key
            .extend_from_slice(info.blank_node_prefix.as_bytes());
        self.key.extend_from_slice(content);
        let key = TermKey {
            kind: TermKind::BlankNode,
            bytes: &self.key,
        };
        Ok(sink.key(key, || Ok(()))?)
    }

    /// Returns the handle of an IRI that is written in two parts, and checked as a whole if `is_checked`.
    pub(super) fn joined_iri<S: QuadSink>(
        &mut self,
        [start, end]: [&[u8]; 2],
        is_checked: bool,
        sink: &mut S,
    ) -> Result<S::Term, Refused> {
        self.key.clear();
        self.key.extend_from_slice(start);
        self.key.extend_from_slice(end);
        let bytes = &self.key[..];
        let key = TermKey {
            kind: TermKind::Iri,
            bytes,
        };
        let check = || match is_checked {
            true => validate::iri(bytes),
            false => Ok(()),
        };
        Ok(sink.key(key, check)?)
    }

    /// Returns the handle of a literal. `None` as its lexical form stands for [`Self::lexical`].
    pub(super) fn literal<S: QuadSink>(
        &mut self,
        lexical: Option<&[u8]>,
        suffix: &Suffix<'_>,
        sink: &mut S,
    ) -> Result<S::Term, Refused> {
        let lexical = lexical.unwrap_or(&self.lexical);
        match *suffix {
            Suffix::None => string(lexical, sink),
            Suffix::Language(tag) => {
                self.key.clear();
                push_escaped(lexical, &mut self.key);
                self.key.extend_from_slice(&SEPARATOR);
                let start = self.key.len();
                self.key.extend_from_slice(tag);
                self.key[start..].make_ascii_lowercase();
                let key = TermKey {
                    kind: TermKind::LangString,
                    bytes: &self.key,
                };
                Ok(sink.key(key, || {
                    validate::text(lexical)?;
                    validate::language(tag)
                })?)
            }
            Suffix::Datatype(datatype) => {
                if let Some(id) = inline::inline_bytes(lexical, datatype) {
                    return Ok(sink.inline(id));
                }
                if datatype == validate::XSD_STRING {
                    return string(lexical, sink);
                }
                if datatype.starts_with(validate::RDF) && validate::is_reserved_datatype(datatype) {
                    return Err(Refused::Slow);
                }
                self.key.clear();
                push_escaped(lexical, &mut self.key);
                self.key.extend_from_slice(&SEPARATOR);
                self.key.extend_from_slice(datatype);
                let key = TermKey {
                    kind: TermKind::TypedLiteral,
                    bytes: &self.key,
                };
                Ok(sink.key(key, || {
                    validate::text(lexical)?;
                    validate::iri(datatype)
                })?)
            }
        }
    }

    /// Returns the graph for statements that name no graph.
    pub(super) fn default_graph<S: QuadSink>(
        &mut self,
        info: &SourceInfo,
        sink: &mut S,
    ) -> Result<S::Term, SinkError> {
        match &info.graph {
            None => Ok(sink.default_graph()),
            Some(graph) => self.encoder.term(graph.as_ref().into(), "", sink),
        }
    }
}

fn string<S: QuadSink>(lexical: &[u8], sink: &mut S) -> Result<S::Term, Refused> {
    let key = TermKey {
        kind: TermKind::String,
        bytes: lexical,
    };
    Ok(sink.key(key, || validate::text(lexical))?)
}

/// Handles of IRIs as they are written in a text, in slots that are chosen by the end of what is written. Predicates and
/// classes repeat.
pub(super) struct RecentIris<'c, T> {
    slots: Vec<Option<(&'c [u8], T)>>,
}

const SLOT_BITS: u32 = 7;

impl<'c, T: Copy> RecentIris<'c, T> {
    pub(super) fn new() -> Self {
        Self {
            slots: vec![None; 1 << SLOT_BITS],
        }
    }

    /// Returns the handle of what is written, which is made if it is not among the recent ones.
    #[inline]
    pub(super) fn get_or_make(
        &mut self,
        text: &'c [u8],
        make: impl FnOnce() -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let slot = &mut self.slots[slot(text)];
        if let Some((known, handle)) = slot
            && *known == text
        {
            return Ok(*handle);
        }
        let handle = make()?;
        *slot = Some((text, handle));
        Ok(handle)
    }

    pub(super) fn clear(&mut self) {
        self.slots.fill(None);
    }
}

/// Returns the slot of a text, computed from its length and its last bytes.
#[inline]
fn slot(text: &[u8]) -> usize {
    let end = match text.last_chunk() {
        Some(end) => u64::from_le_bytes(*end),
        None => text.iter().fold(0, |end, byte| end << 8 | u64::from(*byte)),
    };
    let mixed = (end ^ text.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> (u64::BITS - SLOT_BITS)) as usize
}
