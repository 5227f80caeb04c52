//! Terms that the expressions of a batch read.
//!
//! Text is decoded once per batch and id, in sorted batches, and only if an operation needs it. All texts are in one
//! buffer: a term of its own would take two allocations for each price of a catalogue.

use std::borrow::Cow;
use std::ops::Range;

use oxrdf::{BaseDirection, BlankNodeRef, LiteralRef, NamedNodeRef, Term, TermRef, Triple};
use pythia_rdf::inline::inline_to_literal;
use pythia_rdf::key::KeyParts;
use pythia_rdf::{KeyError, TermId, TermKind};
use rustc_hash::FxHashMap;

use super::column::{Cell, Column};
use super::context::EvaluationContext;
use super::table::FoundTerm;
use super::value::Value;
use crate::error::QueryError;
use crate::limits::fork::fork;
use crate::limits::governor::Working;

/// Memory of a term besides its texts, in bytes, with the free places of the table.
const ENTRY_BYTES: usize = 2 * size_of::<(u64, Entry)>();
/// Minimum number of ids that one of several threads decodes: some hundred microseconds.
const IDS_MIN: usize = 512;
/// Number of parts that several threads decode. Parts take different times.
const PARTS: usize = 8;

/// Terms decoded so far for one batch.
#[derive(Default)]
pub(crate) struct Decoded {
    terms: FxHashMap<u64, Entry>,
    texts: String,
    triples: Vec<Triple>,
    /// The memory of the terms.
    working: Option<Working>,
}

/// A term whose texts are in a buffer.
struct Entry {
    kind: EntryKind,
    /// The label, the IRI or the lexical form.
    text: Range<usize>,
    /// End of the language or of the datatype, which follows the lexical form.
    suffix_end: usize,
}

enum EntryKind {
    BlankNode,
    Iri,
    String,
    LangString(Option<BaseDirection>),
    TypedLiteral,
    /// A triple term with its place among the triples.
    Triple(usize),
}

/// A term that is borrowed where possible.
pub(crate) enum AnyTerm<'v> {
    Borrowed(TermRef<'v>),
    Owned(Term),
}

impl AnyTerm<'_> {
    pub(crate) fn as_ref(&self) -> TermRef<'_> {
        match self {
            Self::Borrowed(term) => *term,
            Self::Owned(term) => term.as_ref(),
        }
    }

    pub(crate) fn into_owned(self) -> Term {
        match self {
            Self::Borrowed(term) => term.into_owned(),
            Self::Owned(term) => term,
        }
    }
}

impl Decoded {
    /// Decodes the ids of some columns for which `needed` returns true.
    pub(crate) fn require(
        &mut self,
        context: &EvaluationContext,
        columns: &[&Column<'_>],
        needed: impl Fn(usize, TermId) -> bool,
    ) -> Result<(), QueryError> {
        let mut ids = Vec::new();
        for (position, column) in columns.iter().enumerate() {
            let mut add = |id: TermId| {
                if id.is_bound() && !id.kind().is_inline() && needed(position, id) {
                    ids.push(id);
                }
            };
            match column {
                Column::Ids(column) => column.iter().for_each(|&id| add(TermId(id))),
                Column::Cells(cells) => cells.iter().for_each(|cell| match cell {
                    Cell::Id(id) => add(*id),
                    Cell::Error | Cell::Value(_) | Cell::Term(_) => (),
                }),
                Column::Truths(_) | Column::Numbers(_) | Column::Constant(_) | Column::Error => (),
            }
        }
        self.add(context, ids)
    }

    /// Returns whether no term was decoded.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Decodes ids that are not inline.
    pub(crate) fn add(
        &mut self,
        context: &EvaluationContext,
        mut ids: Vec<TermId>,
    ) -> Result<(), QueryError> {
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|id| !self.terms.contains_key(&id.0));
        if ids.is_empty() {
            return Ok(());
        }
        self.terms.reserve(ids.len());
        let cores = context.governor().cores();
        if ids.len() < 2 * IDS_MIN || !cores.are_free() {
            return self.read(context, &ids);
        }
        // Threads read ranges of ids: only pages at the bounds of ranges are read twice.
        let length = (ids.len() / PARTS).max(IDS_MIN);
        let parts: Vec<&[TermId]> = ids.chunks(length).collect();
        let parts = fork(cores, parts.len(), |part| {
            let mut decoded = Self::default();
            decoded.read(context, parts[part])?;
            Ok(decoded)
        })?;
        parts
            .into_iter()
            .try_for_each(|part| self.append(part, context))
    }

    /// Decodes sorted ids that were not decoded before.
    fn read(&mut self, context: &EvaluationContext, ids: &[TermId]) -> Result<(), QueryError> {
        let mut working = self
            .working
            .take()
            .unwrap_or_else(|| Working::new(context.governor()));
        let add = |index: usize, term: FoundTerm<'_>| self.insert(ids[index], term);
        let read = context.read_charged(ids, ENTRY_BYTES, &mut working, add);
        self.working = Some(working);
        read
    }

    /// Adds terms that were decoded elsewhere.
    fn append(&mut self, mut other: Self, context: &EvaluationContext) -> Result<(), QueryError> {
        let bytes = other.working.take().map_or(0, |working| working.bytes());
        let working = &mut self.working;
        let working = working.get_or_insert_with(|| Working::new(context.governor()));
        working.add(bytes)?;
        let (text, triple) = (self.texts.len(), self.triples.len());
        self.texts.push_str(&other.texts);
        self.triples.append(&mut other.triples);
        let moved = other.terms.into_iter().map(|(id, mut entry)| {
            entry.text = text + entry.text.start..text + entry.text.end;
            entry.suffix_end += text;
            if let EntryKind::Triple(place) = &mut entry.kind {
                *place += triple;
            }
            (id, entry)
        });
        self.terms.extend(moved);
        Ok(())
    }

    fn insert(&mut self, id: TermId, term: FoundTerm<'_>) -> Result<(), KeyError> {
        let parts = match &term {
            FoundTerm::Parts(KeyParts::Triple(_)) | FoundTerm::Triple(_) => None,
            FoundTerm::Parts(parts) => Some(parts),
        };
        let (kind, text, suffix) = match parts {
            Some(KeyParts::BlankNode(label)) => (EntryKind::BlankNode, *label, ""),
            Some(KeyParts::Iri(iri)) => (EntryKind::Iri, *iri, ""),
            Some(KeyParts::String(text)) => (EntryKind::String, *text, ""),
            Some(KeyParts::LangString {
                value,
                language,
                direction,
            }) => (EntryKind::LangString(*direction), &**value, *language),
            Some(KeyParts::TypedLiteral { value, datatype }) => {
                (EntryKind::TypedLiteral, &**value, *datatype)
            }
            Some(KeyParts::Triple(_)) | None => {
                if let Term::Triple(triple) = term.into_term()? {
                    self.triples.push(*triple);
                }
                (EntryKind::Triple(self.triples.len() - 1), "", "")
            }
        };
        let start = self.texts.len();
        self.texts.push_str(text);
        let end = self.texts.len();
        self.texts.push_str(suffix);
        let entry = Entry {
            kind,
            text: start..end,
            suffix_end: self.texts.len(),
        };
        self.terms.insert(id.0, entry);
        Ok(())
    }

    /// Returns the kind, the text and the suffix of a term that was decoded before.
    fn text(&self, id: TermId) -> (&EntryKind, &str, &str) {
        let found = self.terms.get(&id.0);
        let found = found.expect("an operation decodes the terms it reads");
        let suffix = &self.texts[found.text.end..found.suffix_end];
        (&found.kind, &self.texts[found.text.clone()], suffix)
    }

    /// Returns the term of an id that is inline or was decoded; `None` if unbound.
    pub(crate) fn term(&self, id: TermId) -> Option<AnyTerm<'_>> {
        match id.kind() {
            TermKind::Nothing => return None,
            kind if kind.is_inline() => {
                return inline_to_literal(id).map(|literal| AnyTerm::Owned(literal.into()));
            }
            _ => {}
        }
        let (kind, text, suffix) = self.text(id);
        let literal = match kind {
            EntryKind::BlankNode => {
                return Some(AnyTerm::Borrowed(BlankNodeRef::new_unchecked(text).into()));
            }
            EntryKind::Iri => {
                return Some(AnyTerm::Borrowed(NamedNodeRef::new_unchecked(text).into()));
            }
            EntryKind::Triple(place) => {
                return Some(AnyTerm::Borrowed(TermRef::Triple(&self.triples[*place])));
            }
            EntryKind::String => LiteralRef::new_simple_literal(text),
            EntryKind::LangString(None) => {
                LiteralRef::new_language_tagged_literal_unchecked(text, suffix)
            }
            EntryKind::LangString(Some(direction)) => {
                LiteralRef::new_directional_language_tagged_literal_unchecked(
                    text, suffix, *direction,
                )
            }
            EntryKind::TypedLiteral => {
                LiteralRef::new_typed_literal(text, NamedNodeRef::new_unchecked(suffix))
            }
        };
        Some(AnyTerm::Borrowed(literal.into()))
    }

    /// Returns the value of an id that is inline or was decoded; `None` if unbound.
    pub(crate) fn value(&self, id: TermId) -> Option<Value<'_>> {
        match id.kind() {
            TermKind::Nothing => return None,
            kind if kind.is_inline() => return Value::from_inline(id),
            _ => {}
        }
        let (kind, text, suffix) = self.text(id);
        Some(match kind {
            EntryKind::BlankNode => Value::BlankNode(text.into()),
            EntryKind::Iri => Value::NamedNode(text.into()),
            EntryKind::String => Value::String(text.into()),
            EntryKind::LangString(direction) => Value::LangString {
                text: text.into(),
                language: suffix.into(),
                direction: *direction,
            },
            EntryKind::TypedLiteral => Value::from_typed(text, suffix),
            EntryKind::Triple(place) => Value::Triple(Cow::Borrowed(&self.triples[*place])),
        })
    }
}
