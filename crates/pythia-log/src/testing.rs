//! Helpers for the tests of this crate.

use proptest::prelude::*;
use pythia_rdf::{TermId, TermKey, TermKind};

use crate::{Change, ChangeSet, LogTerm, NO_GRAPH};

/// Returns a strategy for change sets: terms of all kinds, quads of them, in named graphs and the default graph.
pub(crate) fn any_change_set() -> impl Strategy<Value = ChangeSet> {
    let term = (0..TermKind::DICTIONARY.len() + 1, any::<Vec<u8>>());
    let quad = (any::<bool>(), any::<[u32; 4]>());
    let terms = prop::collection::vec(term, 1..20);
    (terms, prop::collection::vec(quad, 0..20)).prop_map(|(terms, quads)| {
        let mut set = ChangeSet::new();
        for (kind, bytes) in &terms {
            set.add_term(match TermKind::DICTIONARY.get(*kind) {
                Some(&kind) => LogTerm::Key(TermKey { kind, bytes }),
                None => LogTerm::Inline(TermId::new(TermKind::Integer, bytes.len() as u64)),
            });
        }
        let count = terms.len() as u32;
        for (added, quad) in quads {
            let [s, p, o, g] = quad.map(|index| index % count);
            let g = if quad[3] % 2 == 0 { NO_GRAPH } else { g };
            let quad = [s, p, o, g];
            set.push(Change { added, quad });
        }
        set
    })
}

/// Returns a change set that adds one quad, identified by `number` and padded to about `bytes`.
pub(crate) fn numbered(number: u64, bytes: usize) -> ChangeSet {
    let mut set = ChangeSet::new();
    let iri = format!("http://example.org/{number}/{}", "x".repeat(bytes));
    let key = TermKey {
        kind: TermKind::Iri,
        bytes: iri.as_bytes(),
    };
    let term = set.add_term(LogTerm::Key(key));
    set.push(Change {
        added: true,
        quad: [term, term, term, NO_GRAPH],
    });
    set
}
