//! The terms that a running query computes, and the mapping between term ids and terms.
//!
//! Within a query, equal terms have equal ids: a computed term is inline if it fits, has the dictionary's
//! id if the store contains it, and otherwise gets an id of the query's own table. So joins, `DISTINCT` and
//! grouping compare ids regardless of where the terms came from.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use oxrdf::{BlankNode, NamedNode, Term, TermRef, Triple};
use parking_lot::Mutex;
use pythia_rdf::inline::inline_literal;
use pythia_rdf::key::{self, KeyParts};
use pythia_rdf::{KeyError, TermId, TermKind, term_text_bytes, triple_text_bytes};
use pythia_store::End;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::error::QueryError;
use crate::limits::governor::Governor;

/// The smallest step in which the table reserves memory.
const CHARGE_BYTES: usize = 4 << 10;

/// A term as the store, or the query's table, has it.
#[derive(Debug, PartialEq)]
pub enum FoundTerm<'t> {
    /// Texts.
    Parts(KeyParts<'t>),
    /// A computed triple term.
    Triple(&'t Triple),
}

impl<'t> FoundTerm<'t> {
    pub(super) fn of(term: &'t Term) -> Self {
        match (term, KeyParts::of(term.as_ref())) {
            (Term::Triple(triple), _) => Self::Triple(triple),
            (_, parts) => Self::Parts(parts.expect("only triple terms have no parts")),
        }
    }

    pub(super) fn into_term(self) -> Result<Term, KeyError> {
        match self {
            Self::Parts(parts) => parts.into_term(),
            Self::Triple(triple) => Ok(triple.clone().into()),
        }
    }

    pub(super) fn text_bytes(&self) -> usize {
        match self {
            Self::Parts(parts) => parts.text_bytes(),
            Self::Triple(triple) => triple_text_bytes(triple),
        }
    }
}

/// A function that takes terms, each by its index in a list of ids.
pub type TermReader<'f> = dyn FnMut(usize, FoundTerm<'_>) -> Result<(), KeyError> + 'f;

/// The dictionary of the store that a query reads.
pub trait TermResolver: Send + Sync {
    /// Returns the id of a term if the store contains it.
    fn resolve(&self, term: TermRef<'_>) -> Result<Option<TermId>, QueryError>;

    /// Returns the ids of several terms, in order. A store reads all pages as one batch.
    fn resolve_all(&self, terms: &[TermRef<'_>]) -> Result<Vec<Option<TermId>>, QueryError> {
        terms.iter().map(|term| self.resolve(*term)).collect()
    }

    /// Calls `f` with each dictionary id's index in `ids` and its term, in any order. Sorted, distinct ids
    /// are fastest.
    fn read(&self, ids: &[TermId], f: &mut TermReader<'_>) -> Result<(), QueryError>;

    /// Counts the quads that have each of the terms (sorted, distinct ids) as subject or as object.
    fn degrees(&self, end: End, ids: &[TermId]) -> Result<Vec<u64>, QueryError> {
        let _ = end;
        Ok(vec![0; ids.len()])
    }

    /// Returns the payload up to which (exclusive) the ids of a dictionary kind compare like their terms.
    /// The default, 0, promises nothing.
    fn sorted_payloads(&self, kind: TermKind) -> u64 {
        let _ = kind;
        0
    }
}

/// A resolver without a store, for tests and for expressions without data.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStore;

impl TermResolver for NoStore {
    fn resolve(&self, _term: TermRef<'_>) -> Result<Option<TermId>, QueryError> {
        Ok(None)
    }

    fn read(&self, ids: &[TermId], _: &mut TermReader<'_>) -> Result<(), QueryError> {
        assert!(ids.is_empty(), "no store has given out {:?}", ids[0]);
        Ok(())
    }
}

/// The terms computed by one query. Shared by its operators and threads.
#[derive(Debug, Default)]
pub struct TermTable {
    table: Mutex<Terms>,
}

#[derive(Debug, Default)]
struct Terms {
    /// Each term looked up so far with its id: from the dictionary, or computed from its index.
    terms: Vec<(Term, TermId)>,
    /// Indexes into `terms`, by term.
    index: HashTable<u32>,
    text_bytes: usize,
    /// Bytes charged to the query's budget so far.
    charged_bytes: usize,
}

impl TermTable {
    /// Makes an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the id of a term. Reads the store's dictionary when a term that does not fit into an id is
    /// seen for the first time. The table's growth is charged to the query until it ends.
    pub fn intern(
        &self,
        term: Term,
        resolver: &dyn TermResolver,
        governor: &Governor,
    ) -> Result<TermId, QueryError> {
        if let Some(id) = inline(&term) {
            return Ok(id);
        }
        let term = plain(term);
        let hash = FxBuildHasher.hash_one(&term);
        if let Some(id) = self.table.lock().find(hash, &term) {
            return Ok(id);
        }
        // The lock is not held while the store reads.
        let stored = resolver.resolve(term.as_ref())?;
        let mut state = self.table.lock();
        match state.find(hash, &term) {
            Some(id) => Ok(id),
            None => state.insert(hash, term, stored, governor),
        }
    }

    /// Returns the ids of several terms, in order. Reads the store's dictionary once, for all terms that
    /// are seen for the first time.
    pub fn intern_all(
        &self,
        terms: Vec<Term>,
        resolver: &dyn TermResolver,
        governor: &Governor,
    ) -> Result<Vec<TermId>, QueryError> {
        let terms: Vec<Term> = terms.into_iter().map(plain).collect();
        let hash = |term: &Term| FxBuildHasher.hash_one(term);
        let known: Vec<Option<TermId>> = {
            let state = self.table.lock();
            let id = |term: &Term| inline(term).or_else(|| state.find(hash(term), term));
            terms.iter().map(id).collect()
        };
        let (mut distinct, mut places) = (Vec::new(), FxHashMap::default());
        let mut new = Vec::new();
        for (term, _) in terms.iter().zip(&known).filter(|(_, id)| id.is_none()) {
            new.push(*places.entry(term).or_insert_with(|| {
                distinct.push(term.as_ref());
                distinct.len() - 1
            }));
        }
        // The lock is not held while the store reads.
        let stored = resolver.resolve_all(&distinct)?;
        let mut new = new.into_iter();
        let mut state = self.table.lock();
        let ids = terms.into_iter().zip(known).map(|(term, known)| {
            if let Some(id) = known {
                return Ok(id);
            }
            let place = new.next().expect("a place for each");
            match state.find(hash(&term), &term) {
                Some(id) => Ok(id),
                None => state.insert(hash(&term), term, stored[place], governor),
            }
        });
        ids.collect()
    }

    /// Calls `f` with each computed id's index in `ids` and its term.
    ///
    /// # Panics
    /// If an id was not returned by this table.
    pub fn read(&self, ids: &[TermId], f: &mut TermReader<'_>) -> Result<(), QueryError> {
        let state = self.table.lock();
        for (index, id) in ids.iter().enumerate() {
            debug_assert_eq!(id.kind(), TermKind::Computed);
            let place = usize::try_from(id.payload()).expect("an index this table gave out");
            let term = &state.terms[place].0;
            let read = f(index, FoundTerm::of(term));
            read.map_err(|error| QueryError::Execution(format!("{term}: {error}")))?;
        }
        Ok(())
    }

    /// Returns the terms looked up so far with their ids, in the order of the table.
    pub fn entries(&self) -> Vec<(Term, TermId)> {
        self.table.lock().terms.clone()
    }

    /// Adds the entries of another table, which must be the first.
    pub fn restore(
        &self,
        entries: Vec<(Term, TermId)>,
        governor: &Governor,
    ) -> Result<(), QueryError> {
        let mut table = self.table.lock();
        for (term, id) in entries {
            let stored = (id.kind() != TermKind::Computed).then_some(id);
            let hash = FxBuildHasher.hash_one(&term);
            if table.insert(hash, term, stored, governor)? != id {
                let message = "the ids of its terms are not in order".to_owned();
                return Err(QueryError::Plan(message));
            }
        }
        Ok(())
    }

    /// Returns the approximate memory of the table in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.table.lock().memory_bytes()
    }
}

impl Terms {
    fn find(&self, hash: u64, term: &Term) -> Option<TermId> {
        self.index
            .find(hash, |&index| self.terms[index as usize].0 == *term)
            .map(|&index| self.terms[index as usize].1)
    }

    fn memory_bytes(&self) -> usize {
        self.text_bytes
            + self.terms.capacity() * size_of::<(Term, TermId)>()
            + self.index.allocation_size()
    }

    fn insert(
        &mut self,
        hash: u64,
        term: Term,
        stored: Option<TermId>,
        governor: &Governor,
    ) -> Result<TermId, QueryError> {
        let index = u32::try_from(self.terms.len()).expect("fewer than 2^32 computed terms");
        let id = stored.unwrap_or_else(|| TermId::new(TermKind::Computed, index.into()));
        self.text_bytes += term_text_bytes(&term);
        self.terms.push((term, id));
        let Self {
            terms,
            index: table,
            ..
        } = self;
        table.insert_unique(hash, index, |&index| {
            FxBuildHasher.hash_one(&terms[index as usize].0)
        });
        let bytes = self.memory_bytes();
        if bytes > self.charged_bytes {
            // Charged in advance, so that few terms have to reserve memory.
            let bytes = bytes + CHARGE_BYTES;
            governor.reserve(bytes - self.charged_bytes)?;
            self.charged_bytes = bytes;
        }
        Ok(id)
    }
}

/// Returns the id of a literal that fits into one.
/// Returns the term that a query means: a blank node for its name.
fn plain(term: Term) -> Term {
    match term {
        Term::NamedNode(node) => node_or_blank(node),
        term => term,
    }
}

/// Returns the blank node that a name stands for, or the node with that IRI.
pub(crate) fn node_or_blank(node: NamedNode) -> Term {
    match key::label_of(node.as_ref()) {
        Some(label) => BlankNode::new_unchecked(label).into(),
        None => node.into(),
    }
}

fn inline(term: &Term) -> Option<TermId> {
    match term {
        Term::Literal(literal) if literal.language().is_none() => {
            inline_literal(literal.value(), literal.datatype().as_str())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use oxrdf::vocab::xsd;
    use oxrdf::{Literal, NamedNode};

    use super::*;

    struct OneTerm;

    impl TermResolver for OneTerm {
        fn resolve(&self, term: TermRef<'_>) -> Result<Option<TermId>, QueryError> {
            Ok((term.to_string() == "<urn:stored>").then(|| TermId::new(TermKind::Iri, 7)))
        }

        fn read(&self, _: &[TermId], _: &mut TermReader<'_>) -> Result<(), QueryError> {
            Ok(())
        }
    }

    #[test]
    fn equal_terms_have_equal_ids() {
        let table = TermTable::new();
        let intern = |term: Term| {
            table
                .intern(term, &OneTerm, &Governor::unlimited())
                .expect("interned")
        };
        let stored = intern(NamedNode::new_unchecked("urn:stored").into());
        assert_eq!(stored, TermId::new(TermKind::Iri, 7));
        let new = intern(NamedNode::new_unchecked("urn:new").into());
        assert_eq!(new.kind(), TermKind::Computed);
        assert_eq!(new, intern(NamedNode::new_unchecked("urn:new").into()));
        assert_eq!(
            stored,
            intern(NamedNode::new_unchecked("urn:stored").into())
        );
        let mut read = Vec::new();
        let mut add = |_: usize, term: FoundTerm<'_>| {
            read.push(term.into_term()?.to_string());
            Ok(())
        };
        table.read(&[new], &mut add).expect("read");
        assert_eq!(read, ["<urn:new>"]);
        assert!(table.memory_bytes() > 0);
    }

    #[test]
    fn small_values_are_inline_and_odd_spellings_are_not() {
        let table = TermTable::new();
        let intern = |lexical: &str| {
            let literal = Literal::new_typed_literal(lexical, xsd::INTEGER);
            table
                .intern(literal.into(), &NoStore, &Governor::unlimited())
                .expect("interned")
        };
        assert_eq!(intern("1").kind(), TermKind::Integer);
        assert_eq!(intern("01").kind(), TermKind::Computed);
        assert_ne!(intern("1"), intern("01"));
    }
}
