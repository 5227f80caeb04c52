//! The changes of a commit: a table of terms, and quads of indexes into it that are added or removed.
//!
//! Terms are held as dictionary keys or inline values, never as dictionary ids, so that changes stay valid when
//! ids change.

use pythia_rdf::{TermId, TermKey, TermKind};

use crate::LogError;
use pythia_io::bytes::{ByteReader, push_bytes, push_varint};

/// The index of the default graph in a [`Change`].
pub const NO_GRAPH: u32 = u32::MAX;

/// A term of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogTerm<'a> {
    /// A value that is inside its id.
    Inline(TermId),
    /// A term of the dictionary.
    Key(TermKey<'a>),
}

/// A quad that was added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// True if the quad was added, false if it was removed.
    pub added: bool,
    /// Subject, predicate, object and graph as indexes into the table of terms; [`NO_GRAPH`] is the default graph.
    pub quad: [u32; 4],
}

/// A table of terms, and changes that use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    terms: Vec<Term>,
    /// The bytes of all keys, one after the other.
    keys: Vec<u8>,
    changes: Vec<Change>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Term {
    Inline(TermId),
    Key {
        kind: TermKind,
        start: usize,
        bytes: usize,
    },
}

/// Tag of an inline term. The tag of a key is its kind's number.
const INLINE: u8 = 0;

impl ChangeSet {
    /// Makes an empty change set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a term to the table, without looking for duplicates, and returns its index.
    pub fn add_term(&mut self, term: LogTerm<'_>) -> u32 {
        let index = u32::try_from(self.terms.len()).unwrap_or(NO_GRAPH);
        assert!(
            index < NO_GRAPH,
            "a change set has less than 2^32 - 1 terms"
        );
        let term = match term {
            LogTerm::Inline(id) => Term::Inline(id),
            LogTerm::Key(key) => {
                let start = self.keys.len();
                self.keys.extend_from_slice(key.bytes);
                Term::Key {
                    kind: key.kind,
                    start,
                    bytes: key.bytes.len(),
                }
            }
        };
        self.terms.push(term);
        index
    }

    /// Adds a change, whose terms must be in the table.
    pub fn push(&mut self, change: Change) {
        let [subject, predicate, object, graph] = change.quad;
        let count = self.terms.len();
        let known = |index: u32| (index as usize) < count;
        assert!(
            known(subject) && known(predicate) && known(object),
            "terms are added to the table first"
        );
        assert!(graph == NO_GRAPH || known(graph), "so is the graph");
        self.changes.push(change);
    }

    /// Returns the term at an index from [`Self::add_term`].
    pub fn term(&self, index: u32) -> LogTerm<'_> {
        match self.terms[index as usize] {
            Term::Inline(id) => LogTerm::Inline(id),
            Term::Key { kind, start, bytes } => LogTerm::Key(TermKey {
                kind,
                bytes: &self.keys[start..start + bytes],
            }),
        }
    }

    /// Returns all terms of the table, in order.
    pub fn terms(&self) -> impl ExactSizeIterator<Item = LogTerm<'_>> {
        (0..self.terms.len() as u32).map(|index| self.term(index))
    }

    /// Returns the changes, in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the number of bytes of all keys.
    pub(crate) fn key_bytes(&self) -> usize {
        self.keys.len()
    }

    /// Returns the memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        self.keys.capacity()
            + self.terms.capacity() * size_of::<Term>()
            + self.changes.capacity() * size_of::<Change>()
    }

    /// Removes all terms and changes, but keeps the memory.
    pub fn clear(&mut self) {
        self.terms.clear();
        self.keys.clear();
        self.changes.clear();
    }

    /// Appends the encoding.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        push_varint(out, self.terms.len() as u64);
        for term in self.terms() {
            match term {
                LogTerm::Inline(id) => {
                    out.push(INLINE);
                    out.extend_from_slice(&id.0.to_le_bytes());
                }
                LogTerm::Key(key) => {
                    out.push(key.kind as u8);
                    push_bytes(out, key.bytes);
                }
            }
        }
        push_varint(out, self.changes.len() as u64);
        for change in &self.changes {
            let [subject, predicate, object, graph] = change.quad.map(u64::from);
            push_varint(out, subject << 1 | u64::from(change.added));
            push_varint(out, predicate);
            push_varint(out, object);
            let is_default = graph == u64::from(NO_GRAPH);
            push_varint(out, if is_default { 0 } else { graph + 1 });
        }
    }

    /// Reads what [`Self::encode`] wrote.
    pub(crate) fn decode(cursor: &mut ByteReader<'_>) -> Result<Self, LogError> {
        let mut set = Self::new();
        for _ in 0..cursor.count(1)? {
            let term = decode_term(cursor)?;
            set.add_term(term);
        }
        let count = cursor.count(1)?;
        set.changes.reserve(count.min(cursor.remaining() / 4 + 1));
        for _ in 0..count {
            let change = decode_change(cursor, set.terms.len() as u64)?;
            set.changes.push(change);
        }
        Ok(set)
    }
}

fn decode_term<'a>(cursor: &mut ByteReader<'a>) -> Result<LogTerm<'a>, LogError> {
    let tag = cursor.u8()?;
    if tag == INLINE {
        let id = TermId(cursor.u64()?);
        if !id.kind().is_inline() {
            return Err(cursor.corrupt("an inline term of an inline kind"));
        }
        return Ok(LogTerm::Inline(id));
    }
    match TermKind::from_u8(tag) {
        Some(kind) if kind.is_dictionary() => {
            let bytes = cursor.bytes()?;
            Ok(LogTerm::Key(TermKey { kind, bytes }))
        }
        _ => Err(cursor.corrupt("a term of a known kind")),
    }
}

fn decode_change(cursor: &mut ByteReader<'_>, term_count: u64) -> Result<Change, LogError> {
    let first = cursor.varint()?;
    let (subject, predicate, object) = (first >> 1, cursor.varint()?, cursor.varint()?);
    let graph = cursor.varint()?;
    if subject.max(predicate).max(object) >= term_count || graph > term_count {
        return Err(cursor.corrupt("a change of terms that are in the table"));
    }
    let graph = graph.checked_sub(1).map_or(NO_GRAPH, |graph| graph as u32);
    Ok(Change {
        added: first & 1 == 1,
        quad: [subject as u32, predicate as u32, object as u32, graph],
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::any_change_set;

    proptest! {
        #[test]
        fn changes_come_back(set in any_change_set()) {
            let mut bytes = Vec::new();
            set.encode(&mut bytes);
            let mut cursor = ByteReader::at("log", 0, &bytes);
            let back = ChangeSet::decode(&mut cursor).unwrap();
            prop_assert!(cursor.is_at_end());
            prop_assert_eq!(back.changes(), set.changes());
            prop_assert!(back.terms().eq(set.terms()));
        }

        #[test]
        fn bytes_cut_or_changed_never_panic(
            set in any_change_set(), cut: prop::sample::Index, at: prop::sample::Index, bit in 0..8u8,
        ) {
            let mut bytes = Vec::new();
            set.encode(&mut bytes);
            let cut = cut.index(bytes.len());
            prop_assert!(ChangeSet::decode(&mut ByteReader::at("log", 0, &bytes[..cut])).is_err());
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let _ = ChangeSet::decode(&mut ByteReader::at("log", 0, &bytes));
        }

        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            let _ = ChangeSet::decode(&mut ByteReader::at("log", 0, &bytes));
        }
    }
}
