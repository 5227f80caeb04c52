//! Numbers about a store, for `pythia stats`: sizes, shares and degrees.
//!
//! [`StoreReport`] comes from the directory alone. [`DegreeDistribution`] reads one order.

use pythia_rdf::TermKind;

use crate::StoreError;
use crate::dictionary::KindStatistics;
use crate::manifest::AuxiliaryKind;
use crate::pattern::{End, Order};
use crate::scan::DegreeScan;
use crate::segment::Segment;
use crate::segment::tuple::TupleStatistics;
use crate::snapshot::Snapshot;
use crate::statistics::Statistics;
use crate::store::Store;

mod changes;

pub use changes::{ChangesReport, NextStep, RunReport};

/// Sizes of a store and its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreReport {
    /// The counts.
    pub statistics: Statistics,
    /// The orders that the store has, in [`Order::ALL`]'s order.
    pub orders: Vec<OrderReport>,
    /// The dictionary's file.
    pub dictionary: FileReport,
    /// Terms and their bytes per kind; kinds without terms are left out.
    pub kinds: Vec<(TermKind, KindStatistics)>,
    /// Length of the `directory` file.
    pub directory_bytes: u64,
    /// Approximate memory of the directories.
    pub directory_memory_bytes: usize,
    /// Auxiliary files of the segment, with their bytes.
    pub auxiliary: Vec<(AuxiliaryKind, u64)>,
}

/// Size of a paged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Pages.
    pub pages: u64,
}

impl FileReport {
    /// Returns the length of the file.
    pub fn bytes(&self) -> u64 {
        self.pages * self.page_bytes as u64
    }
}

/// One order of the quads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OrderReport {
    /// The order.
    pub order: Order,
    /// Its file.
    pub file: FileReport,
    /// The contents of its pages.
    pub contents: OrderContents,
}

/// The contents of the pages of an order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OrderContents {
    /// SPO, OPS: tuples.
    Tuples(TupleStatistics),
    /// PSO, POS: bytes used by page headers, predicate runs, the order's second and third component and the graph.
    Columns {
        /// Page headers.
        header_bytes: u64,
        /// Predicates.
        predicate_bytes: u64,
        /// Subjects in PSO, objects in POS.
        second_bytes: u64,
        /// Objects in PSO, subjects in POS.
        third_bytes: u64,
        /// Graphs.
        graph_bytes: u64,
    },
}

impl OrderReport {
    /// Returns, for tuples, the share of those that are whole on one page, from 0 to 1.
    pub fn share_on_one_page(&self) -> Option<f64> {
        match &self.contents {
            OrderContents::Tuples(tuples) => {
                Some(tuples.tuples_inline as f64 / tuples.tuples.max(1) as f64)
            }
            OrderContents::Columns { .. } => None,
        }
    }
}

impl StoreReport {
    /// Makes the report on a store. Reads nothing.
    pub fn new(store: &Store) -> Self {
        let snapshot = store.snapshot();
        let segment = snapshot.base();
        let dictionary = segment.dictionary.directory();
        let kinds = TermKind::DICTIONARY.map(|kind| (kind, dictionary.statistics(kind)));
        let used = |(_, statistics): &(TermKind, KindStatistics)| statistics.terms > 0;
        Self {
            statistics: snapshot.statistics().clone(),
            orders: Order::ALL
                .into_iter()
                .filter_map(|order| order_report(segment, order))
                .collect(),
            dictionary: FileReport {
                page_bytes: dictionary.page_bytes(),
                pages: dictionary.page_count(),
            },
            kinds: kinds.into_iter().filter(used).collect(),
            directory_bytes: segment.directory_bytes(),
            directory_memory_bytes: segment.memory_bytes() + snapshot.auxiliaries().memory_bytes(),
            auxiliary: store
                .manifest()
                .auxiliary
                .iter()
                .map(|entry| (entry.kind.clone(), entry.bytes()))
                .collect(),
        }
    }

    /// Returns the bytes of the orders.
    pub fn order_bytes(&self) -> u64 {
        self.orders.iter().map(|order| order.file.bytes()).sum()
    }

    /// Returns the bytes of all files.
    pub fn total_bytes(&self) -> u64 {
        let auxiliary: u64 = self.auxiliary.iter().map(|(_, bytes)| bytes).sum();
        self.order_bytes() + self.dictionary.bytes() + self.directory_bytes + auxiliary
    }

    /// Returns `bytes` per quad; 0 for an empty store.
    pub fn per_quad(&self, bytes: u64) -> f64 {
        match self.statistics.quads {
            0 => 0.0,
            quads => bytes as f64 / quads as f64,
        }
    }
}

fn order_report(segment: &Segment, order: Order) -> Option<OrderReport> {
    let pages = segment.paged_file(order)?;
    let contents = match order {
        Order::Spo => OrderContents::Tuples(segment.spo.directory().statistics),
        Order::Ops => OrderContents::Tuples(segment.ops.directory().statistics),
        Order::Pso | Order::Pos | Order::Gpso => {
            let [
                header_bytes,
                predicate_bytes,
                second_bytes,
                third_bytes,
                graph_bytes,
            ] = segment.column_file(order)?.directory().used_bytes;
            OrderContents::Columns {
                header_bytes,
                predicate_bytes,
                second_bytes,
                third_bytes,
                graph_bytes,
            }
        }
    };
    Some(OrderReport {
        order,
        file: FileReport {
            page_bytes: pages.page_bytes(),
            pages: pages.page_count(),
        },
        contents,
    })
}

/// The distribution of nodes by their number of edges at one end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DegreeDistribution {
    /// Nodes with at least one edge.
    pub nodes: u64,
    /// Edges: quads.
    pub edges: u64,
    /// The most edges of a node.
    pub degree_max: u64,
    /// Bucket `k` counts the nodes with 2^k up to 2^(k+1) − 1 edges.
    pub buckets: Vec<u64>,
}

impl DegreeDistribution {
    /// Counts edges out of subjects ([`End::Subject`]) or into objects. Reads all pages of SPO or OPS.
    pub fn new(snapshot: &Snapshot, end: End) -> Result<Self, StoreError> {
        let mut degrees = Self::default();
        let mut scan = DegreeScan::new(snapshot.base(), end);
        while let Some((_, degree)) = scan.next()? {
            degrees.count(degree);
        }
        Ok(degrees)
    }

    fn count(&mut self, degree: u64) {
        let Some(bucket) = degree.checked_ilog2() else {
            return;
        };
        let bucket = bucket as usize;
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.nodes += 1;
        self.edges += degree;
        self.degree_max = self.degree_max.max(degree);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::testing::{SMALL_PAGES, open, quads, write_store};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn degrees_agree_with_a_count(quads in quads()) {
            let store = open(write_store(&quads, SMALL_PAGES));
            for (end, near) in [(End::Subject, 0), (End::Object, 2)] {
                let found = DegreeDistribution::new(&store.snapshot(), end).expect("sound");
                let mut degrees: BTreeMap<u64, u64> = BTreeMap::new();
                for quad in &quads {
                    *degrees.entry(quad[near]).or_default() += 1;
                }
                let mut expected = DegreeDistribution::default();
                degrees.values().for_each(|&degree| expected.count(degree));
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn an_empty_store_has_a_report() {
        let store = open(write_store(&BTreeSet::new(), SMALL_PAGES));
        let report = StoreReport::new(&store);
        assert_eq!(report.order_bytes(), 0);
        assert_eq!(report.per_quad(report.total_bytes()), 0.0);
        let degrees = DegreeDistribution::new(&store.snapshot(), End::Subject);
        assert_eq!(degrees.expect("nothing to read").nodes, 0);
    }
}
