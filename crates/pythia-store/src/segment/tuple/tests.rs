//! Rows → pages → the same rows, by every kind of read, against a sorted set of rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use pythia_io::{BufferPool, MemoryStorage, PageWriter, Storage};
use pythia_rdf::{TermId, TermKind};

use super::*;
use crate::pattern::{Expansion, GraphFilter};

type Row = (u64, u64, u64, u64);

const NAME: &str = "spo.pages";

/// A file made of rows, beside the rows.
struct Case {
    rows: BTreeSet<Row>,
    file: TupleFile,
    pool: Arc<BufferPool>,
}

fn case(rows: impl IntoIterator<Item = Row>, page_bytes: usize, policy: ExternalPolicy) -> Case {
    let rows: BTreeSet<Row> = rows.into_iter().collect();
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let pages = PageWriter::new(storage.create(NAME).unwrap(), page_bytes);
    let mut writer = TupleWriter::new(pages, page_bytes, policy);
    for &(node, predicate, other, graph) in &rows {
        writer.push(node, predicate, other, graph).unwrap();
    }
    let (pages, directory) = writer.finish().unwrap();
    pages.finish().unwrap();
    let pool = BufferPool::new(storage, 64 << 20);
    let file = pool.open(NAME, page_bytes, "spo").unwrap();
    let file = TupleFile::new(file, Arc::new(directory)).unwrap();
    Case { rows, file, pool }
}

fn small(page_bytes: usize) -> ExternalPolicy {
    ExternalPolicy {
        list_bytes_max: page_bytes / 4,
        rows_min: 4,
    }
}

impl Case {
    /// Returns all rows of the scan; external lists are filled in from the expected rows.
    fn scanned(&self) -> Vec<Row> {
        let mut scan = self.file.scan();
        let mut batch = TupleRows::default();
        let mut all = Vec::new();
        while scan.next_batch(&mut batch).unwrap() {
            let mut gaps = batch.gaps.iter().peekable();
            for row in 0..=batch.len() {
                while let Some(gap) = gaps.next_if(|gap| gap.row == row) {
                    let list = self.list(gap.node, gap.predicate);
                    assert_eq!(list.len() as u64, gap.count);
                    all.extend(list);
                }
                if row < batch.len() {
                    all.push((
                        batch.node[row],
                        batch.predicate[row],
                        batch.other[row],
                        batch.graph[row],
                    ));
                }
            }
        }
        all
    }

    fn list(&self, node: u64, predicate: u64) -> Vec<Row> {
        let range = (node, predicate, 0, 0)..=(node, predicate, u64::MAX, u64::MAX);
        self.rows.range(range).copied().collect()
    }

    /// Returns the rows of an expansion, sorted; external lists are filled in and filtered.
    fn expanded(&self, nodes: &[TermId], found: &Expansion, graph: GraphFilter) -> Vec<Row> {
        let mut rows: Vec<Row> = (0..found.len())
            .map(|row| {
                (
                    nodes[found.source[row] as usize].0,
                    found.predicate[row],
                    found.other[row],
                    found.graph[row],
                )
            })
            .collect();
        assert!(rows.is_sorted(), "an expansion is in order");
        for list in &found.external {
            let members = self.list(nodes[list.source as usize].0, list.predicate.0);
            assert_eq!(members.len() as u64, list.count);
            rows.extend(members.iter().filter(|row| graph.accepts(TermId(row.3))));
        }
        rows.sort_unstable();
        rows
    }

    fn check(&self, graphs: &[GraphFilter]) {
        let expected: Vec<Row> = self.rows.iter().copied().collect();
        assert_eq!(self.scanned(), expected);
        let statistics = self.file.directory().statistics;
        assert_eq!(statistics.rows, expected.len() as u64);

        let nodes: BTreeSet<u64> = self.rows.iter().map(|row| row.0).collect();
        let predicates: BTreeSet<u64> = self.rows.iter().map(|row| row.1).collect();
        assert_eq!(statistics.tuples, nodes.len() as u64);
        // Includes nodes next to the existing ones.
        let nodes: BTreeSet<TermId> = nodes
            .iter()
            .flat_map(|&node| [node - 1, node, node + 1])
            .filter(|&node| node > 0)
            .map(TermId)
            .collect();
        let nodes: Vec<TermId> = nodes.into_iter().collect();
        let mut predicates: Vec<TermId> = predicates.into_iter().map(TermId).collect();
        predicates.push(TermId(u64::MAX));
        predicates.truncate(40);
        for &graph in graphs {
            self.check_expansions(&nodes, &predicates, graph);
            self.check_probes(&nodes, &predicates, graph);
        }
        self.check_counts(&nodes, &predicates);
    }

    fn check_expansions(&self, nodes: &[TermId], predicates: &[TermId], graph: GraphFilter) {
        let each = predicates.iter().copied().map(Some);
        for predicate in each.chain([None]) {
            let expected: Vec<Row> = self
                .rows
                .iter()
                .copied()
                .filter(|row| graph.accepts(TermId(row.3)))
                .filter(|row| predicate.is_none_or(|one| one.0 == row.1))
                .collect();
            let mut found = Expansion::new(true, true);
            self.file
                .expand(nodes, predicate, graph, &mut found)
                .unwrap();
            assert_eq!(self.expanded(nodes, &found, graph), expected);
            let mut one_by_one = Expansion::new(true, true);
            for (source, &node) in nodes.iter().enumerate() {
                self.file
                    .expand_one(node, source as u32, predicate, graph, &mut one_by_one)
                    .unwrap();
            }
            assert_eq!(
                self.expanded(nodes, &one_by_one, graph),
                self.expanded(nodes, &found, graph)
            );
            let mut narrow = Expansion::new(false, false);
            self.file
                .expand(nodes, predicate, graph, &mut narrow)
                .unwrap();
            assert_eq!(narrow.other, found.other);
            assert_eq!(narrow.source, found.source);
            assert!(narrow.predicate.is_empty() && narrow.graph.is_empty());
        }
    }

    fn check_probes(&self, nodes: &[TermId], predicates: &[TermId], graph: GraphFilter) {
        let others: BTreeSet<u64> = self.rows.iter().map(|row| row.2).take(20).collect();
        for &predicate in predicates.iter().take(5) {
            let mut pairs = BTreeSet::new();
            for &node in nodes.iter().take(200) {
                pairs.extend(others.iter().map(|&other| (node, TermId(other))));
                let list = self.list(node.0, predicate.0);
                pairs.extend(list.iter().take(50).map(|row| (node, TermId(row.2))));
            }
            let pairs: Vec<(TermId, TermId)> = pairs.into_iter().collect();
            let mut answers = vec![Probe::Yes];
            self.file
                .probe_batch(predicate, &pairs, graph, &mut answers)
                .unwrap();
            assert_eq!(answers.len(), pairs.len() + 1);
            for (&(node, other), &answer) in pairs.iter().zip(&answers[1..]) {
                let first = (node.0, predicate.0, other.0, 0);
                let last = (node.0, predicate.0, other.0, u64::MAX);
                let exists = self
                    .rows
                    .range(first..=last)
                    .any(|row| graph.accepts(TermId(row.3)));
                let one = self.file.probe(node, predicate, other, graph).unwrap();
                assert_eq!(one, answer);
                match answer {
                    Probe::Yes => assert!(exists),
                    Probe::No => assert!(!exists),
                    Probe::External => assert!(self.list(node.0, predicate.0).len() >= 4),
                }
            }
        }
    }

    fn check_counts(&self, nodes: &[TermId], predicates: &[TermId]) {
        for &node in nodes {
            let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
            let range = (node.0, 0, 0, 0)..=(node.0, u64::MAX, u64::MAX, u64::MAX);
            for row in self.rows.range(range) {
                *counts.entry(row.1).or_default() += 1;
            }
            let mut found = Vec::new();
            self.file.predicates(node, &mut found).unwrap();
            let expected: Vec<(TermId, u64)> = counts
                .iter()
                .map(|(&p, &count)| (TermId(p), count))
                .collect();
            assert_eq!(found, expected);
            let total: u64 = counts.values().sum();
            assert_eq!(self.file.count(node, None).unwrap(), total);
            for predicate in predicates {
                let expected = counts.get(&predicate.0).copied().unwrap_or(0);
                let count = self.file.count(node, Some(*predicate)).unwrap();
                assert_eq!(count, expected);
            }
        }
    }
}

fn iri(rank: u64) -> u64 {
    TermId::new(TermKind::Iri, rank).0
}

/// Generates a term of any kind, often one of a few.
fn term() -> impl Strategy<Value = u64> {
    let kinds = vec![
        TermKind::BlankNode,
        TermKind::Iri,
        TermKind::String,
        TermKind::Integer,
        TermKind::Double,
        TermKind::Triple,
    ];
    let payload = prop_oneof![
        3 => 0_u64..50,
        2 => 0_u64..100_000,
        1 => 0_u64..=TermId::PAYLOAD_MAX - 1,
    ];
    (prop::sample::select(kinds), payload).prop_map(|(kind, payload)| TermId::new(kind, payload).0)
}

fn graph() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(0),
        2 => (0_u64..4).prop_map(iri),
        1 => (0_u64..1000).prop_map(iri),
        1 => (0_u64..9).prop_map(|rank| TermId::new(TermKind::BlankNode, rank).0),
    ]
}

/// Generates some random rows, some lists, some similar nodes.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let predicate = || (0_u64..12).prop_map(|rank| iri(rank * rank * 7));
    let node = || term().prop_map(|node| node.max(1));
    let loose = prop::collection::vec((node(), predicate(), term(), graph()), 0..150);
    let list = (
        node(),
        predicate(),
        0_u64..1000,
        1_u64..40,
        2_u64..2500,
        prop::sample::select(vec![1_u64, 1, 2, 7]),
    )
        .prop_map(|(node, predicate, first, step, count, graphs)| {
            (0..count)
                .map(|i| (node, predicate, iri(first + i * step), i % graphs * iri(3)))
                .collect::<Vec<Row>>()
        });
    let alike = (0_u64..1000, 1_u64..300, 1_u64..8, graph()).prop_map(
        |(first, count, predicates, graph)| {
            (first..first + count)
                .flat_map(|node| {
                    (0..predicates).map(move |p| (iri(node), iri(p), iri(node * 31 % 977), graph))
                })
                .collect::<Vec<Row>>()
        },
    );
    (
        loose,
        prop::collection::vec(list, 0..3),
        prop::collection::vec(alike, 0..3),
    )
        .prop_map(|(mut rows, lists, alikes)| {
            rows.extend(lists.into_iter().flatten());
            rows.extend(alikes.into_iter().flatten());
            // Multiples of an IRI are not graphs.
            for row in &mut rows {
                if row.3 >> 56 > 0x10 {
                    row.3 = iri(row.3 & 0xff);
                }
            }
            rows
        })
}

const FILTERS: [GraphFilter; 4] = [
    GraphFilter::Any,
    GraphFilter::Named,
    GraphFilter::One(TermId::DEFAULT_GRAPH),
    GraphFilter::One(TermId(0x10 << 56 | 3)),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_way_finds_the_rows(
        rows in rows(),
        page_bytes in prop::sample::select(vec![4096_usize, 8192, 16_384, 32_768]),
        part in prop::sample::select(vec![1_usize, 2, 4, 64]),
    ) {
        let policy = ExternalPolicy {
            list_bytes_max: page_bytes / part,
            rows_min: 4,
        };
        case(rows, page_bytes, policy).check(&FILTERS);
    }

    /// Arbitrary bytes below the checksum give an error or rows, but no panic.
    #[test]
    fn damaged_pages_do_no_harm(
        rows in rows(),
        flips in prop::collection::vec((0_usize..4096, 0_u8..8), 1..6),
        in_head in any::<bool>(),
    ) {
        let mut pages = Pages::default();
        let mut writer = TupleWriter::new(&mut pages, 4096, small(4096));
        for &(node, predicate, other, graph) in &rows.iter().copied().collect::<BTreeSet<_>>() {
            writer.push(node, predicate, other, graph).unwrap();
        }
        writer.finish().unwrap();
        for page in &mut pages.0 {
            for &(byte, bit) in &flips {
                page[if in_head { byte % 200 } else { byte }] ^= 1 << bit;
            }
            use_page(page);
        }
    }

    #[test]
    fn any_bytes_do_no_harm(mut page in prop::collection::vec(any::<u8>(), 60..4096)) {
        page[4] = format::PAGE_TYPE;
        use_page(&page);
    }
}

#[derive(Default)]
struct Pages(Vec<Vec<u8>>);

impl PageSink for &mut Pages {
    fn push_page(&mut self, page: &mut [u8]) -> Result<u64, crate::StoreError> {
        let mut page = page.to_vec();
        page.resize(4096, 0);
        self.0.push(page);
        Ok(self.0.len() as u64 - 1)
    }
}

/// Reads the page in every way.
fn use_page(bytes: &[u8]) {
    let Ok(page) = TuplePage::parse(bytes) else {
        return;
    };
    let mut rows = TupleRows::default();
    let _ = scan::scan_page(&page, &mut rows);
    assert!(rows.len() <= page.rows() + format::ROWS_MAX);
    for number in (0..page.tuples()).step_by(page.tuples().div_ceil(50)) {
        let node = page.node(number);
        let _ = page.find(node);
        let Ok(tuple) = page.tuple(number) else {
            continue;
        };
        let mut seen = 0;
        let _ = page.visit(&tuple, page.all_columns(), |entry| {
            if !entry.is_external() {
                seen += entry.count;
                let columns = page.columns_of(page.predicate(&entry));
                assert!(columns.len() <= format::COUNT_MAX);
                let _ = page.rows_of(&entry, node).len();
                page.graph(page.graph_number(&entry, 0));
            }
            Ok::<(), PageError>(())
        });
        assert!(seen <= page.rows() as u64);
    }
    for filter in FILTERS {
        page.graph_numbers(filter);
    }
}

#[test]
fn an_empty_file_answers_with_nothing() {
    let case = case([], 4096, small(4096));
    case.check(&FILTERS);
    let mut found = Expansion::new(true, true);
    let nodes = [TermId(1), TermId(2)];
    for nodes in [&nodes[..], &nodes[..1], &[]] {
        case.file
            .expand(nodes, None, GraphFilter::Any, &mut found)
            .unwrap();
    }
    assert!(found.is_empty());
    assert_eq!(case.file.count(TermId(1), None).unwrap(), 0);
    let mut answers = Vec::new();
    case.file
        .probe_batch(
            TermId(1),
            &[(TermId(1), TermId(1))],
            GraphFilter::Any,
            &mut answers,
        )
        .unwrap();
    assert_eq!(answers, [Probe::No]);
}

#[test]
fn a_node_with_thousands_of_predicates_continues_over_pages() {
    for page_bytes in [4096, 8192, 32_768] {
        let before = (0..50).map(|node| (iri(node), iri(1), iri(node * 7), 0));
        let wide = (0..6000).map(|p| (iri(100), iri(p * 3), iri(p * p % 100_003), 0));
        let after = (0..50).map(|node| (iri(200 + node), iri(1), iri(node * 7), 0));
        let case = case(
            before.chain(wide).chain(after),
            page_bytes,
            small(page_bytes),
        );
        assert_eq!(case.file.directory().statistics.tuples_split, 1);
        case.check(&[GraphFilter::Any]);
        // One predicate of the node is on one page.
        for p in (0..6000).step_by(97) {
            case.pool.clear();
            let counters = case.pool.counters();
            let node = TermId(iri(100));
            let predicate = Some(TermId(iri(p * 3)));
            let mut found = Expansion::default();
            case.file
                .expand_one(node, 0, predicate, GraphFilter::Any, &mut found)
                .unwrap();
            assert_eq!(found.other, [iri(p * p % 100_003)]);
            let pages = case.pool.counters().since(&counters).group("spo");
            assert_eq!(pages.device_pages, 1);
        }
    }
}

#[test]
fn many_lists_make_way_before_a_tuple_is_cut() {
    // Thirty lists of some hundred bytes: some must be external, the others stay.
    let rows = (0..30).flat_map(|p| (0..300).map(move |i| (iri(5), iri(p), iri(i * 1001 + p), 0)));
    let case = case(rows, 4096, small(4096));
    let statistics = case.file.directory().statistics;
    assert_eq!(statistics.tuples_split, 0);
    assert!(statistics.external_lists > 0 && statistics.external_lists < 30);
    assert_eq!(case.file.directory().pages(), 1);
    case.check(&[GraphFilter::Any]);
}

#[test]
fn a_heavy_node_is_only_counted() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let pages = PageWriter::new(storage.create(NAME).unwrap(), 4096);
    let mut writer = TupleWriter::new(pages, 4096, ExternalPolicy::for_page(4096));
    let count = 3_000_000;
    for predicate in [iri(1), iri(2)] {
        for other in 0..count {
            writer.push(iri(9), predicate, iri(other), 0).unwrap();
        }
    }
    writer.push(iri(9), iri(3), iri(77), 0).unwrap();
    assert!(writer.buffered_rows() < 100_000);
    let (pages, directory) = writer.finish().unwrap();
    assert_eq!((directory.pages(), pages.finish().unwrap()), (1, 2));
    assert_eq!(directory.statistics.external_rows, 2 * count);
    let pool = BufferPool::new(storage, 16 << 20);
    let file = pool.open(NAME, 4096, "spo").unwrap();
    let file = TupleFile::new(file, Arc::new(directory)).unwrap();
    let node = TermId(iri(9));
    assert_eq!(file.count(node, None).unwrap(), 2 * count + 1);
    let mut found = Expansion::new(true, false);
    file.expand(&[node], None, GraphFilter::Any, &mut found)
        .unwrap();
    assert_eq!(found.other, [iri(77)]);
    let external: Vec<(u64, u64)> = found
        .external
        .iter()
        .map(|list| (list.predicate.0, list.count))
        .collect();
    assert_eq!(external, [(iri(1), count), (iri(2), count)]);
}

#[test]
fn a_tuple_of_many_lists_is_written_while_it_comes() {
    // Far more rows than fit a page, in lists too small to be external.
    let mut pages = Pages::default();
    let policy = ExternalPolicy {
        list_bytes_max: 4096,
        rows_min: 1000,
    };
    let mut writer = TupleWriter::new(&mut pages, 4096, policy);
    let mut rows = Vec::new();
    for p in 0..400 {
        for i in 0..900 {
            let row = (iri(1), iri(p), iri(p + i), 0);
            rows.push(row);
            writer.push(row.0, row.1, row.2, row.3).unwrap();
            assert!(writer.buffered_rows() <= 5 * format::ROWS_MAX);
        }
    }
    let (_, directory) = writer.finish().unwrap();
    assert_eq!(directory.statistics.tuples, 1);
    assert_eq!(directory.statistics.tuples_split, 1);
    let case = case(rows, 4096, policy);
    assert_eq!(case.file.directory(), &directory);
    case.check(&[GraphFilter::Any]);
}

#[test]
fn lists_over_very_many_graphs_are_kept_or_counted() {
    let rows = (0..4000).map(|i| (iri(1), iri(2), iri(i / 4), iri(i * 1_000_003)));
    let few = (0..30).map(|i| (iri(2), iri(2), iri(9), iri(i * 1_000_003)));
    let case = case(
        rows.chain(few),
        4096,
        ExternalPolicy {
            list_bytes_max: 1 << 16,
            rows_min: 10,
        },
    );
    case.check(&[
        GraphFilter::Any,
        GraphFilter::One(TermId(iri(4 * 1_000_003))),
    ]);
}

#[test]
fn a_hop_reads_one_page_and_a_frontier_one_batch() {
    let rows = (0..20_000).flat_map(|node| {
        (0..3).map(move |p| (iri(node), iri(p), iri((node * 7919 + p) % 20_000), 0))
    });
    let case = case(rows, 4096, ExternalPolicy::for_page(4096));
    case.pool.clear();
    let start = case.pool.counters();
    let mut found = Expansion::default();
    let nodes: Vec<TermId> = (0..20_000)
        .step_by(1000)
        .map(|node| TermId(iri(node)))
        .collect();
    for &node in &nodes {
        let before = case.pool.counters();
        case.file
            .expand(&[node], None, GraphFilter::Any, &mut found)
            .unwrap();
        let pages = case.pool.counters().since(&before).group("spo");
        assert_eq!(pages.device_pages, 1);
    }
    assert_eq!(found.len(), 60);
    case.pool.clear();
    let between = case.pool.counters();
    let mut batch = Expansion::default();
    case.file
        .expand(&nodes, None, GraphFilter::Any, &mut batch)
        .unwrap();
    assert_eq!(batch.other, found.other);
    let pages = case.pool.counters().since(&between).group("spo");
    assert_eq!(
        pages.device_pages,
        between.since(&start).group("spo").device_pages
    );
    assert!(pages.device_batches <= 2, "{pages:?}");
}

#[test]
fn a_foreign_file_or_page_is_named() {
    let case = case([(iri(1), iri(2), iri(3), 0)], 4096, small(4096));
    let empty = directory::OpenTupleDirectory::new(4096)
        .finish(|_| Ok(0))
        .unwrap();
    let message = TupleFile::new(case.file.file().clone(), Arc::new(empty))
        .unwrap_err()
        .to_string();
    assert!(message.contains(NAME), "{message}");
    let message = case.file.corrupt(3, PageError("broken")).to_string();
    assert!(
        message.contains(NAME) && message.contains("page 3"),
        "{message}"
    );
}
