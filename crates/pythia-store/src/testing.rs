//! Small stores for tests: quads of ids, written through [`BaseWriter`] into memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use pythia_io::{MemoryStorage, Storage};
use pythia_rdf::{TermId, TermKey, TermKind};

use crate::manifest::SegmentId;
use crate::pattern::{Component, Order};
use crate::store::{OpenOptions, Store};
use crate::{BaseWriter, SegmentOptions, StoreError};

/// Subject, predicate, object, graph: raw ids.
pub(crate) type Quad = [u64; 4];

/// Number of terms of each dictionary kind in test stores.
pub(crate) const TERMS: u64 = 3000;

/// The smallest possible pages, so that few rows make many.
pub(crate) const SMALL_PAGES: SegmentOptions = SegmentOptions {
    tuple_page_bytes: 4096,
    column_page_bytes: 4096,
    dictionary_page_bytes: 4096,
};

pub(crate) fn id(kind: TermKind, payload: u64) -> u64 {
    TermId::new(kind, payload).0
}

pub(crate) fn component(quad: &Quad, component: Component) -> u64 {
    match component {
        Component::Subject => quad[0],
        Component::Predicate => quad[1],
        Component::Object => quad[2],
        Component::Graph => quad[3],
    }
}

/// Writes a store of these quads.
pub(crate) fn write_store(quads: &BTreeSet<Quad>, options: SegmentOptions) -> Arc<MemoryStorage> {
    let storage = Arc::new(MemoryStorage::new());
    write_segment(storage.clone(), quads, options).expect("memory does not fail");
    storage
}

/// Writes a segment of these quads, on a device that may fail.
pub(crate) fn write_segment(
    storage: Arc<dyn Storage>,
    quads: &BTreeSet<Quad>,
    options: SegmentOptions,
) -> Result<SegmentId, StoreError> {
    write_segment_of(storage, quads, options, TERMS)
}

/// As [`write_segment`], with this many terms of each kind.
pub(crate) fn write_segment_of(
    storage: Arc<dyn Storage>,
    quads: &BTreeSet<Quad>,
    options: SegmentOptions,
    terms: u64,
) -> Result<SegmentId, StoreError> {
    let writer = BaseWriter::create(storage, options)?;
    let mut dictionary = writer.segment().dictionary(1)?;
    for kind in TermKind::DICTIONARY {
        let prefix = match kind {
            TermKind::Iri => "http://example.org/",
            TermKind::Triple => "<<( ",
            _ => "term",
        };
        for rank in 0..terms {
            let bytes = match kind {
                TermKind::LangString => format!("{rank:05}\0\0en"),
                TermKind::TypedLiteral => format!("{rank:05}\0\0http://example.org/type"),
                TermKind::Triple => {
                    format!("<<( <http://example.org/{rank:05}> <http://example.org/p> \"o\" )>>")
                }
                _ => format!("{prefix}{rank:05}"),
            };
            let bytes = bytes.as_bytes();
            dictionary.push(TermKey { kind, bytes })?;
        }
    }
    let dictionary = dictionary.finish()?;
    let mut orders = Vec::new();
    for order in Order::ALL {
        let mut rows: Vec<Quad> = quads
            .iter()
            .filter(|quad| order.has_graph(quad[3]))
            .map(|quad| order.components().map(|which| component(quad, which)))
            .collect();
        rows.sort_unstable();
        let mut out = writer.segment().order(order)?;
        for row in rows {
            out.push(row)?;
        }
        orders.push(out.finish()?);
    }
    writer.seal(dictionary, orders)
}

pub(crate) fn open(storage: Arc<dyn Storage>) -> Store {
    let options = OpenOptions {
        cache_bytes: 4 << 20,
    };
    Store::open_storage(storage, options).expect("a whole store")
}

/// Generates a node: often from a few, so that patterns match; of all kinds that a subject or object can have.
fn node(object: bool) -> impl Strategy<Value = u64> {
    let iri = prop_oneof![3 => 0..20u64, 1 => 0..TERMS].prop_map(|rank| id(TermKind::Iri, rank));
    let blank = (0..10u64).prop_map(|rank| id(TermKind::BlankNode, rank));
    let literal = prop_oneof![
        (0..TERMS).prop_map(|rank| id(TermKind::String, rank)),
        (0..5u64).prop_map(|rank| id(TermKind::LangString, rank)),
        any::<u32>().prop_map(|value| id(TermKind::Integer, u64::from(value))),
        (0..TERMS).prop_map(|rank| id(TermKind::Triple, rank)),
    ];
    if object {
        prop_oneof![3 => iri, 1 => blank, 2 => literal].boxed()
    } else {
        prop_oneof![4 => iri, 1 => blank].boxed()
    }
}

fn graph() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => Just(0u64),
        2 => (100..104u64).prop_map(|rank| id(TermKind::Iri, rank)),
    ]
}

/// Generates random quads, with hubs: one subject and one object with very many edges.
pub(crate) fn quads() -> impl Strategy<Value = BTreeSet<Quad>> {
    let predicate = (50..56u64).prop_map(|rank| id(TermKind::Iri, rank));
    let random = (node(false), predicate.clone(), node(true), graph());
    let random = prop::collection::vec(random, 0..400);
    let hub = (predicate, 0..4000u64, graph(), any::<bool>());
    let hubs = prop::collection::vec(hub, 0..3);
    (random, hubs).prop_map(|(random, hubs)| {
        let mut quads: BTreeSet<Quad> = random.into_iter().map(<[u64; 4]>::from).collect();
        for (predicate, edges, graph, out) in hubs {
            let hub = id(TermKind::Iri, 7);
            for edge in 0..edges {
                let other = id(TermKind::Iri, edge.wrapping_mul(2_654_435_761) % TERMS);
                let graph = if edge % 7 == 0 { 0 } else { graph };
                quads.insert(match out {
                    true => [hub, predicate, other, graph],
                    false => [other, predicate, hub, graph],
                });
            }
        }
        quads
    })
}
