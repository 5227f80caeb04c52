//! Conversion of quads of terms to quads of ids. All keys of a batch are looked up at once.

use std::ops::Range;

use oxrdf::TermRef;
use pythia_rdf::key::{self, Encoded};
use pythia_rdf::{TermId, TermKey, TermKind};

use super::Row;
use pythia_exec::error::QueryError;

/// A term: an inline id, or the number of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Id(TermId),
    Key(usize),
}

/// Some quads, and the keys of their terms.
#[derive(Debug, Default)]
pub(super) struct QuadBatch {
    /// Prefix of the labels of blank nodes.
    scope: String,
    bytes: Vec<u8>,
    keys: Vec<(TermKind, Range<usize>)>,
    quads: Vec<[Slot; 4]>,
    scratch: Vec<u8>,
}

impl QuadBatch {
    pub(super) fn new(scope: &str) -> Self {
        Self {
            scope: scope.to_owned(),
            ..Self::default()
        }
    }

    /// Adds a key and returns its slot.
    pub(super) fn key(&mut self, key: TermKey<'_>) -> Slot {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key.bytes);
        self.keys.push((key.kind, start..self.bytes.len()));
        Slot::Key(self.keys.len() - 1)
    }

    /// Adds a quad of slots.
    pub(super) fn quad(&mut self, quad: [Slot; 4]) {
        self.quads.push(quad);
    }

    /// Adds a quad; `None` is the default graph.
    pub(super) fn push(
        &mut self,
        subject: TermRef<'_>,
        predicate: TermRef<'_>,
        object: TermRef<'_>,
        graph: Option<TermRef<'_>>,
    ) {
        let quad = [
            self.term(subject),
            self.term(predicate),
            self.term(object),
            graph.map_or(Slot::Id(TermId::DEFAULT_GRAPH), |graph| self.term(graph)),
        ];
        self.quads.push(quad);
    }

    fn term(&mut self, term: TermRef<'_>) -> Slot {
        let mut scratch = std::mem::take(&mut self.scratch);
        let slot = match key::encode_scoped(term, &self.scope, &mut scratch) {
            Encoded::Inline(id) => Slot::Id(id),
            Encoded::Key(kind) => self.key(TermKey {
                kind,
                bytes: &scratch,
            }),
        };
        self.scratch = scratch;
        slot
    }

    /// Returns the quads as ids, which `resolve` finds for the keys, without quads that have an unknown term.
    /// Empties the batch.
    pub(super) fn rows(
        &mut self,
        resolve: impl FnOnce(&[TermKey<'_>]) -> Result<Vec<Option<TermId>>, QueryError>,
    ) -> Result<Vec<Row>, QueryError> {
        let keys: Vec<TermKey<'_>> = self
            .keys
            .iter()
            .map(|(kind, range)| TermKey {
                kind: *kind,
                bytes: &self.bytes[range.clone()],
            })
            .collect();
        let ids = resolve(&keys)?;
        let mut rows = Vec::with_capacity(self.quads.len());
        for quad in self.quads.drain(..) {
            let found = quad.map(|slot| match slot {
                Slot::Id(id) => Some(id.0),
                Slot::Key(number) => ids[number].map(|id| id.0),
            });
            if let [Some(s), Some(p), Some(o), Some(g)] = found {
                rows.push([s, p, o, g]);
            }
        }
        self.keys.clear();
        self.bytes.clear();
        Ok(rows)
    }
}
