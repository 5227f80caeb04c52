//! Checks every kind of read of a snapshot against a sorted set of quads.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use pythia_io::{MemoryStorage, PageTally, Storage};
use pythia_rdf::{TermId, TermKey, TermKind};

use super::Snapshot;
use crate::delta::device::{DeviceRun, EachTerm, write_run};
use crate::delta::{Delta, Run, TermStore, TermView};
use crate::manifest::RunId;
use crate::pattern::{Component, End, Expansion, GraphFilter, Order, QuadPattern};
use crate::testing::{Quad, SMALL_PAGES, TERMS, component, id, open, quads, write_store};

const COMPONENTS: [Component; 4] = [
    Component::Subject,
    Component::Predicate,
    Component::Object,
    Component::Graph,
];

fn matches(pattern: &QuadPattern, quad: &Quad) -> bool {
    let bound = [pattern.subject, pattern.predicate, pattern.object];
    let fits = |(bound, id): (&Option<TermId>, &u64)| bound.is_none_or(|bound| bound.0 == *id);
    bound.iter().zip(quad).all(fits) && pattern.graph.accepts(TermId(quad[3]))
}

/// Returns the matching quads as a scan in this order must: components in the order's order.
fn expected(quads: &BTreeSet<Quad>, pattern: &QuadPattern, order: Order) -> Vec<Quad> {
    let matching = quads.iter().filter(|quad| matches(pattern, quad));
    let mut rows: Vec<Quad> = matching
        .map(|quad| order.components().map(|which| component(quad, which)))
        .collect();
    rows.sort_unstable();
    rows
}

fn collect(snapshot: &Snapshot, pattern: &QuadPattern, order: Order) -> Vec<Quad> {
    let mut scan = snapshot
        .scan(pattern, order, &order.components())
        .expect("sound");
    let mut rows = Vec::new();
    while let Some(batch) = scan.next().expect("sound") {
        assert!(
            batch.rows > 0
                && batch
                    .columns
                    .iter()
                    .all(|column| column.len() == batch.rows)
        );
        rows.extend(
            (0..batch.rows).map(|row| [0, 1, 2, 3].map(|column| batch.columns[column][row])),
        );
    }
    rows
}

/// Patterns that bind every subset of the components of some quads, and some that match nothing.
fn patterns(quads: &BTreeSet<Quad>, graph: GraphFilter) -> Vec<QuadPattern> {
    let mut seeds: Vec<Quad> = quads.iter().step_by(1 + quads.len() / 4).copied().collect();
    let hub = id(TermKind::Iri, 7);
    seeds.extend(quads.iter().find(|quad| quad[0] == hub));
    seeds.extend(quads.iter().find(|quad| quad[2] == hub));
    seeds.push([
        id(TermKind::Iri, 1),
        id(TermKind::Iri, 49),
        id(TermKind::Iri, 2),
        0,
    ]);
    let mut patterns = Vec::new();
    for seed in seeds {
        for bound in 0..8u8 {
            let bind = |bit: u8, id: u64| (bound >> bit & 1 == 1).then_some(TermId(id));
            patterns.push(QuadPattern {
                subject: bind(0, seed[0]),
                predicate: bind(1, seed[1]),
                object: bind(2, seed[2]),
                graph,
            });
        }
    }
    patterns
}

fn filters() -> impl Strategy<Value = GraphFilter> {
    prop_oneof![
        2 => Just(GraphFilter::Any),
        1 => Just(GraphFilter::Named),
        1 => Just(GraphFilter::One(TermId::DEFAULT_GRAPH)),
        1 => (100..106u64).prop_map(|rank| GraphFilter::One(TermId(id(TermKind::Iri, rank)))),
    ]
}

fn check_statistics(snapshot: &Snapshot, quads: &BTreeSet<Quad>) {
    let statistics = snapshot.statistics();
    let distinct = |which: &[usize], predicate: Option<u64>| {
        let rows = quads
            .iter()
            .filter(|quad| predicate.is_none_or(|id| id == quad[1]));
        let keys = rows.map(|quad| which.iter().map(|&index| quad[index]).collect::<Vec<_>>());
        keys.collect::<BTreeSet<_>>().len() as u64
    };
    assert_eq!(statistics.quads, quads.len() as u64);
    assert_eq!(statistics.triples, distinct(&[0, 1, 2], None));
    assert_eq!(statistics.subjects, distinct(&[0], None));
    assert_eq!(statistics.objects, distinct(&[2], None));
    assert_eq!(statistics.predicates.len() as u64, distinct(&[1], None));
    for entry in &statistics.predicates {
        let predicate = Some(entry.predicate.0);
        assert_eq!(entry.triples, distinct(&[0, 1, 2], predicate));
        assert_eq!(entry.quads, distinct(&[0, 1, 2, 3], predicate));
        assert_eq!(entry.subjects, distinct(&[0], predicate));
        assert_eq!(entry.objects, distinct(&[2], predicate));
        let most = |end: usize, other: usize| {
            let ends = quads.iter().filter(|quad| Some(quad[1]) == predicate);
            let ends: BTreeSet<_> = ends.map(|quad| (quad[end], quad[other])).collect();
            ends.chunk_by_max()
        };
        assert_eq!(entry.objects_max, most(0, 2));
        assert_eq!(entry.subjects_max, most(2, 0));
        let of_predicate = quads.iter().filter(|quad| Some(quad[1]) == predicate);
        for quad in of_predicate {
            assert!(entry.subject_kinds.contains(TermId(quad[0]).kind()));
            assert!(entry.object_kinds.contains(TermId(quad[2]).kind()));
        }
    }
}

trait ChunkByMax {
    fn chunk_by_max(&self) -> u64;
}

impl ChunkByMax for BTreeSet<(u64, u64)> {
    /// Returns the largest number of pairs with the same first component.
    fn chunk_by_max(&self) -> u64 {
        let pairs: Vec<_> = self.iter().collect();
        let chunks = pairs.chunk_by(|a, b| a.0 == b.0);
        chunks.map(|chunk| chunk.len() as u64).max().unwrap_or(0)
    }
}

fn check_seek(
    snapshot: &Snapshot,
    pattern: &QuadPattern,
    order: Order,
    rows: &[Quad],
    to: u64,
    batches_before: usize,
) {
    let bound = |which: &Component| match which {
        Component::Subject => pattern.subject.is_some(),
        Component::Predicate => pattern.predicate.is_some(),
        Component::Object => pattern.object.is_some(),
        Component::Graph => true,
    };
    let Some(key) = order.components().iter().position(|which| !bound(which)) else {
        return;
    };
    let mut scan = snapshot
        .scan(pattern, order, &order.components())
        .expect("sound");
    let mut found = Vec::new();
    let mut drain = |scan: &mut crate::QuadScan, most: usize| {
        for _ in 0..most {
            let Some(batch) = scan.next().expect("sound") else {
                break;
            };
            let row = |row: usize| [0, 1, 2, 3].map(|column| batch.columns[column][row]);
            found.extend((0..batch.rows).map(row));
        }
        found.len()
    };
    let before = drain(&mut scan, batches_before);
    // Only some of the ids are expected, and all of them are found.
    let mut ids: Vec<u64> = rows.iter().map(|row| row[key]).step_by(7).collect();
    ids.sort_unstable();
    scan.expect(&ids);
    scan.seek(TermId(to)).expect("sound");
    drain(&mut scan, usize::MAX);
    let rest = rows[before..].iter().filter(|row| row[key] >= to);
    let expected: Vec<Quad> = rows[..before].iter().chain(rest).copied().collect();
    assert_eq!(
        found, expected,
        "{pattern:?} {order:?} to {to:x} after {before}"
    );
}

fn check_expand(
    snapshot: &Snapshot,
    quads: &BTreeSet<Quad>,
    predicate: Option<u64>,
    graph: GraphFilter,
    flags: (bool, bool),
) {
    for (end, near) in [(End::Subject, 0), (End::Object, 2)] {
        let mut nodes: Vec<TermId> = quads.iter().map(|quad| TermId(quad[near])).collect();
        nodes.push(TermId(id(TermKind::Iri, 2999)));
        nodes.sort_unstable();
        nodes.dedup();
        check_expand_of(snapshot, quads, (end, &nodes), predicate, graph, flags);
    }
}

fn check_expand_of(
    snapshot: &Snapshot,
    quads: &BTreeSet<Quad>,
    (end, nodes): (End, &[TermId]),
    predicate: Option<u64>,
    graph: GraphFilter,
    flags: (bool, bool),
) {
    let (near, far) = match end {
        End::Subject => (0, 2),
        End::Object => (2, 0),
    };
    let mut out = Expansion::new(flags.0, flags.1);
    snapshot
        .expand(end, nodes, predicate.map(TermId), graph, &mut out)
        .expect("sound");
    let pattern = QuadPattern {
        predicate: predicate.map(TermId),
        graph,
        ..QuadPattern::default()
    };
    let mut rows: Vec<Quad> = quads
        .iter()
        .filter(|quad| matches(&pattern, quad))
        .filter(|quad| nodes.binary_search(&TermId(quad[near])).is_ok())
        .map(|quad| [quad[near], quad[1], quad[far], quad[3]])
        .collect();
    rows.sort_unstable();
    assert!(out.external.is_empty());
    let sources: Vec<u64> = out
        .source
        .iter()
        .map(|&source| nodes[source as usize].0)
        .collect();
    let column = |index: usize| rows.iter().map(|row| row[index]).collect::<Vec<_>>();
    assert_eq!(sources, column(0));
    assert_eq!(out.other, column(2));
    assert_eq!(out.predicate, if flags.0 { column(1) } else { Vec::new() });
    assert_eq!(out.graph, if flags.1 { column(3) } else { Vec::new() });
    // A second expansion is appended to the first.
    snapshot
        .expand(end, &nodes[..1], predicate.map(TermId), graph, &mut out)
        .expect("sound");
    assert_eq!(out.other[..rows.len()], column(2));
}

fn check_probe(snapshot: &Snapshot, quads: &BTreeSet<Quad>, graph: GraphFilter) {
    let Some(first) = quads.first() else {
        return;
    };
    let hub = id(TermKind::Iri, 7);
    let predicate = quads.iter().find(|quad| quad[0] == hub).unwrap_or(first)[1];
    let mut pairs: Vec<(TermId, TermId)> = quads
        .iter()
        .rev()
        .map(|quad| (TermId(quad[0]), TermId(quad[2])))
        .collect();
    pairs.push((TermId(1), TermId(2)));
    pairs.extend(pairs.clone().iter().step_by(3));
    let found = snapshot
        .probe(TermId(predicate), &pairs, graph)
        .expect("sound");
    let there: BTreeSet<(u64, u64)> = quads
        .iter()
        .filter(|quad| quad[1] == predicate && graph.accepts(TermId(quad[3])))
        .map(|quad| (quad[0], quad[2]))
        .collect();
    for (pair, found) in pairs.iter().zip(found) {
        assert_eq!(found, there.contains(&(pair.0.0, pair.1.0)), "{pair:?}");
    }
}

/// Checks the samples of a store without changes.
fn check_samples(snapshot: &Snapshot, quads: &BTreeSet<Quad>) {
    let predicates: BTreeSet<u64> = quads.iter().map(|quad| quad[1]).collect();
    for (end, place, other) in [(End::Subject, 0, 2), (End::Object, 2, 0)] {
        for &predicate in &predicates {
            let of_predicate = quads.iter().filter(|quad| quad[1] == predicate);
            let mut all: Vec<(u64, u64)> = of_predicate
                .map(|quad| (quad[place], quad[other]))
                .collect();
            all.sort_unstable();
            let predicate = TermId(predicate);
            for count in [1, 5, all.len(), all.len() + 9] {
                let sample = snapshot.estimates().sample(predicate, end, count);
                let slice = |row: usize| (2 * row + 1) * all.len() / (2 * count.min(all.len()));
                let expected = (0..count.min(all.len())).map(|row| TermId(all[slice(row)].0));
                assert_eq!(sample.expect("sound"), expected.collect::<Vec<_>>());
            }
            let mut nodes: Vec<TermId> = quads.iter().map(|quad| TermId(quad[place])).collect();
            nodes.sort_unstable();
            nodes.dedup();
            let links = snapshot.estimates().sample_links(predicate, end, &nodes);
            let mut links = links.expect("sound").into_iter();
            for node in nodes {
                let there = |link: TermId| all.contains(&(node.0, link.0));
                let has_links = all.iter().any(|(from, _)| *from == node.0);
                assert!(!has_links || links.next().is_some_and(there), "{node:?}");
            }
            assert_eq!(links.next(), None);
        }
    }
}

/// Puts runs on top of a base, one for each set: a quad of the set that exists is removed, another is added. Returns
/// the resulting quads, too. The first of the runs are on the device.
fn changed(
    quads: &BTreeSet<Quad>,
    sets: &[BTreeSet<Quad>],
    on_device: usize,
) -> (Snapshot, BTreeSet<Quad>) {
    let storage = write_store(quads, SMALL_PAGES);
    let opened = open(storage.clone());
    let snapshot = opened.snapshot();
    let base_terms = TermKind::DICTIONARY.map(|kind| snapshot.sorted_payloads(kind));
    let store = Arc::new(TermStore::new(&base_terms));
    let keys: Vec<String> = (0..TERMS).map(|number| format!("new{number:05}")).collect();
    store.add(keys.iter().map(|key| TermKey {
        kind: TermKind::Iri,
        bytes: key.as_bytes(),
    }));
    let terms = vec![TermView::new(store)];
    let terms_of_all = terms[0].clone();
    let mut delta = Delta::new(base_terms, Vec::new(), terms[0].clone());
    let mut quads = quads.clone();
    let mut device = Vec::new();
    for (number, set) in sets.iter().enumerate() {
        let mut changes = Vec::new();
        for quad in set {
            // Some nodes and graphs are new terms.
            let new = |id: u64| match id % 5 == 3 && TermId(id).kind() == TermKind::Iri {
                true => id + TERMS,
                false => id,
            };
            let quad = [new(quad[0]), quad[1], new(quad[2]), new(quad[3])];
            let there = quads.contains(&quad);
            if changes.iter().any(|(other, _)| *other == quad) {
                continue;
            }
            match there {
                true => quads.remove(&quad),
                false => quads.insert(quad),
            };
            changes.push((quad, if there { -1 } else { 1 }));
        }
        let run = Run::new(&changes);
        if number < on_device {
            let rows = |order| Ok(run.rows(order).iter().map(Ok));
            let id = RunId(number as u64 + 1);
            let terms = (&base_terms[..], 0, |_: EachTerm<'_>| Ok(()));
            let counted = (run.len() as u64, rows);
            let entry = write_run(storage.clone(), id, SMALL_PAGES, terms, counted, 1);
            let run = DeviceRun::open(opened.pool(), &entry.expect("memory")).expect("sound");
            device.push(Arc::new(run));
            delta = Delta::new(base_terms, device.clone(), terms_of_all.clone());
            continue;
        }
        delta = delta.with_run(Arc::new(run), terms.clone());
    }
    (snapshot.with_delta(delta), quads)
}

/// Sets of quads to change, some of them of the base.
fn change_sets() -> impl Strategy<Value = Vec<(BTreeSet<Quad>, usize)>> {
    prop::collection::vec((quads(), 1..9usize), 0..4)
}

/// Adds every n-th quad of the base to each set.
fn with_quads_of(base: &BTreeSet<Quad>, sets: Vec<(BTreeSet<Quad>, usize)>) -> Vec<BTreeSet<Quad>> {
    let with_base = |(mut set, every): (BTreeSet<Quad>, usize)| {
        set.extend(base.iter().step_by(every));
        set
    };
    sets.into_iter().map(with_base).collect()
}

fn check_scans(
    snapshot: &Snapshot,
    quads: &BTreeSet<Quad>,
    graph: GraphFilter,
    seek: prop::sample::Index,
    batches_before: usize,
) {
    for pattern in patterns(quads, graph) {
        for order in Order::OF_ALL_GRAPHS {
            let rows = expected(quads, &pattern, order);
            assert_eq!(
                collect(snapshot, &pattern, order),
                rows,
                "{pattern:?} {order:?}"
            );
            if !quads.is_empty() {
                let quad = quads.iter().nth(seek.index(quads.len())).expect("within");
                for to in [quad[0], quad[1] + 1, quad[2]] {
                    check_seek(snapshot, &pattern, order, &rows, to, batches_before);
                }
            }
            check_columns(snapshot, &pattern, order, &rows);
        }
        let count = expected(quads, &pattern, Order::Spo).len() as u64;
        assert_eq!(
            snapshot.count(&pattern).expect("sound"),
            count,
            "{pattern:?}"
        );
        check_ranges(snapshot, quads, &pattern);
    }
}

/// Checks scans that request only some components.
fn check_columns(snapshot: &Snapshot, pattern: &QuadPattern, order: Order, rows: &[Quad]) {
    for wanted in [&[][..], &order.components()[2..3], &[Component::Subject]] {
        let mut scan = snapshot.scan(pattern, order, wanted).expect("sound");
        let (mut found, mut count) = (Vec::new(), 0);
        while let Some(batch) = scan.next().expect("sound") {
            count += batch.rows;
            found.extend(batch.columns.first().into_iter().flatten().copied());
        }
        assert_eq!(count, rows.len(), "{pattern:?} {order:?} {wanted:?}");
        if let Some(which) = wanted.first() {
            let place = order.components().iter().position(|c| c == which);
            let column = rows
                .iter()
                .map(|row| row[place.expect("it is one of the four")]);
            assert_eq!(
                found,
                column.collect::<Vec<_>>(),
                "{pattern:?} {order:?} {wanted:?}"
            );
        }
    }
}

fn check_ranges(snapshot: &Snapshot, quads: &BTreeSet<Quad>, pattern: &QuadPattern) {
    let (None, Some(predicate), None) = (pattern.subject, pattern.predicate, pattern.object) else {
        return;
    };
    for (order, end) in [(Order::Pso, End::Subject), (Order::Pos, End::Object)] {
        let rows = expected(quads, pattern, order);
        let ids = id(TermKind::Iri, 5)..id(TermKind::Iri, TERMS + 4);
        let within: Vec<Quad> = rows
            .into_iter()
            .filter(|row| ids.contains(&row[1]))
            .collect();
        let count = snapshot.count_range(predicate, end, ids.clone(), pattern.graph);
        assert_eq!(count.expect("sound"), within.len() as u64);
        let scan = snapshot.scan_range(pattern, order, ids, &order.components());
        let mut scan = scan.expect("sound");
        let mut found: Vec<Quad> = Vec::new();
        while let Some(batch) = scan.next().expect("sound") {
            let row = |row: usize| [0, 1, 2, 3].map(|column| batch.columns[column][row]);
            found.extend((0..batch.rows).map(row));
        }
        assert_eq!(found, within, "{pattern:?} {order:?}");
    }
}

fn check_edges(
    snapshot: &Snapshot,
    quads: &BTreeSet<Quad>,
    graph: GraphFilter,
    flags: (bool, bool),
) {
    check_probe(snapshot, quads, graph);
    check_expand(snapshot, quads, None, graph, flags);
    for predicate in 49..56u64 {
        let predicate = id(TermKind::Iri, predicate);
        check_expand(snapshot, quads, Some(predicate), graph, flags);
    }
    for (end, place) in [(End::Subject, 0), (End::Object, 2)] {
        let nodes: BTreeSet<u64> = quads.iter().map(|quad| quad[place]).collect();
        let nodes: Vec<TermId> = nodes.into_iter().map(TermId).collect();
        let degree = |node: &TermId| quads.iter().filter(|quad| quad[place] == node.0).count();
        let degrees: Vec<u64> = nodes.iter().map(|node| degree(node) as u64).collect();
        assert_eq!(snapshot.degrees(end, &nodes).expect("sound"), degrees);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn scans_and_counts_agree_with_a_set(
        quads in quads(),
        graph in filters(),
        seek in any::<prop::sample::Index>(),
        batches_before in 0..3usize,
    ) {
        let store = open(write_store(&quads, SMALL_PAGES));
        check_scans(&store.snapshot(), &quads, graph, seek, batches_before);
    }

    #[test]
    fn expansions_and_probes_agree_with_a_set(
        quads in quads(),
        graph in filters(),
        flags in any::<(bool, bool)>(),
    ) {
        let store = open(write_store(&quads, SMALL_PAGES));
        let snapshot = store.snapshot();
        check_statistics(&snapshot, &quads);
        check_samples(&snapshot, &quads);
        check_edges(&snapshot, &quads, graph, flags);
    }

    #[test]
    fn changes_are_seen_by_every_way_in(
        base in quads(),
        sets in change_sets(),
        graph in filters(),
        flags in any::<(bool, bool)>(),
        seek in any::<prop::sample::Index>(),
        batches_before in 0..3usize,
        on_device in 0..3usize,
    ) {
        let sets = with_quads_of(&base, sets);
        let (snapshot, quads) = changed(&base, &sets, on_device);
        check_scans(&snapshot, &quads, graph, seek, batches_before);
        check_edges(&snapshot, &quads, graph, flags);
        check_counts(&snapshot, &quads);
    }
}

/// Checks which statistics of changed quads stay exact, and which are upper bounds.
fn check_counts(snapshot: &Snapshot, quads: &BTreeSet<Quad>) {
    let statistics = snapshot.statistics();
    assert_eq!(statistics.quads, quads.len() as u64);
    let distinct =
        |place: usize| -> BTreeSet<u64> { quads.iter().map(|quad| quad[place]).collect() };
    let graphs: Vec<u64> = statistics
        .graphs
        .graphs
        .iter()
        .map(|known| known.0.0)
        .collect();
    assert_eq!(graphs, distinct(3).into_iter().collect::<Vec<_>>());
    let predicates: Vec<u64> = statistics
        .predicates
        .iter()
        .map(|known| known.predicate.0)
        .collect();
    assert_eq!(predicates, distinct(1).into_iter().collect::<Vec<_>>());
    for known in &statistics.predicates {
        let of_predicate = || quads.iter().filter(|quad| quad[1] == known.predicate.0);
        assert_eq!(known.quads, of_predicate().count() as u64);
        let subjects: BTreeSet<u64> = of_predicate().map(|quad| quad[0]).collect();
        assert!(known.subjects >= subjects.len() as u64);
        for quad in of_predicate() {
            assert!(known.subject_kinds.contains(TermId(quad[0]).kind()));
            assert!(known.object_kinds.contains(TermId(quad[2]).kind()));
        }
    }
}

/// Runs every kind of query; results may be errors or wrong, but each query ends.
fn ask_everything(snapshot: &Snapshot, quads: &BTreeSet<Quad>, graph: GraphFilter) {
    for pattern in patterns(quads, graph) {
        for order in Order::OF_ALL_GRAPHS {
            let Ok(mut scan) = snapshot.scan(&pattern, order, &COMPONENTS) else {
                continue;
            };
            let _ = scan.next();
            let _ = scan.seek(TermId(id(TermKind::Iri, 9)));
            let mut rows = 0;
            while let Ok(Some(batch)) = scan.next() {
                rows += batch.rows;
                assert!(rows < 1_000_000, "rows without end");
            }
        }
        let _ = snapshot.count(&pattern);
    }
    let mut nodes: Vec<TermId> = quads.iter().map(|quad| TermId(quad[0])).collect();
    nodes.dedup();
    let pairs: Vec<_> = quads
        .iter()
        .map(|quad| (TermId(quad[0]), TermId(quad[2])))
        .collect();
    for end in [End::Subject, End::Object] {
        for predicate in [None, Some(TermId(id(TermKind::Iri, 51)))] {
            let _ = snapshot.expand(
                end,
                &nodes,
                predicate,
                graph,
                &mut Expansion::new(false, true),
            );
        }
    }
    let predicate = TermId(id(TermKind::Iri, 51));
    let _ = snapshot.probe(predicate, &pairs, graph);
    for end in [End::Subject, End::Object] {
        let _ = snapshot.estimates().sample(predicate, end, 40);
        let _ = snapshot.estimates().sample_links(predicate, end, &nodes);
    }
    let _ = snapshot.decode(&nodes);
}

/// Changes bytes of a file and makes its checksums right again.
fn damage(storage: &MemoryStorage, name: &str, hits: &[(prop::sample::Index, u8)]) {
    let mut bytes = storage.read_all(name).expect("there");
    if bytes.len() < 8 {
        return;
    }
    for (place, byte) in hits {
        let mut place = place.index(bytes.len());
        if byte % 2 == 0 {
            // Headers are a small part of a page, and control the rest of it.
            place -= place % 4096 - place % 128;
        }
        bytes[place] = *byte;
    }
    if name.ends_with(".pages") {
        for (number, page) in bytes.chunks_mut(SMALL_PAGES.tuple_page_bytes).enumerate() {
            pythia_io::seal_page(page, number as u64);
        }
    } else {
        let checksum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    }
    let mut file = storage.create(name).expect("memory");
    file.append(&bytes).expect("memory");
    file.sync().expect("memory");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn damage_that_no_checksum_sees_does_not_panic(
        quads in quads(),
        graph in filters(),
        file in prop::sample::select(vec!["spo.pages", "ops.pages", "pso.pages", "pos.pages", "directory"]),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let storage = write_store(&quads, SMALL_PAGES);
        damage(&storage, &format!("segment-000001/{file}"), &hits);
        let options = crate::OpenOptions { cache_bytes: 4 << 20 };
        if let Ok(store) = crate::Store::open_storage(storage.clone(), options) {
            ask_everything(&store.snapshot(), &quads, graph);
        }
        let options = crate::verify::VerifyOptions::default();
        crate::verify::verify(storage, options, &mut |_| {});
    }
}

/// Quads of many subjects: one predicate whose links fill several blocks of a column for one of them, between two others.
fn long_columns() -> BTreeSet<Quad> {
    let iri = |rank| id(TermKind::Iri, rank);
    let mut quads = BTreeSet::new();
    for subject in (0..2_900).filter(|subject| subject % 7 != 3) {
        for predicate in 50..53 {
            let links = match (subject, predicate) {
                (1_000, 51) => 900,
                _ => (subject * 31 + predicate) % 4,
            };
            for link in 0..links {
                let object = (subject * 17 + link * 3) % 2_900;
                let graph = [0, 0, iri(2_950), iri(2_951)][(subject + link) as usize % 4];
                quads.insert([iri(subject), iri(predicate), iri(object), graph]);
            }
        }
    }
    quads
}

#[test]
fn a_scan_that_seeks_first_reads_no_changes_before_that() {
    let quads = long_columns();
    let tenth: BTreeSet<Quad> = quads.iter().step_by(10).copied().collect();
    let (snapshot, quads) = changed(&quads, &[tenth], 1);
    let pages = || {
        let counts = PageTally::of_this_thread().counts();
        counts.cache_hits + counts.device_pages
    };
    let pattern = QuadPattern::default();
    let wanted = Order::Spo.components();
    let before = pages();
    let mut scan = snapshot.scan(&pattern, Order::Spo, &wanted).expect("sound");
    let last = quads.iter().map(|quad| quad[0]).max().expect("some");
    scan.seek(TermId(last)).expect("sound");
    assert_eq!(pages(), before);
    let mut rows = 0;
    while let Some(batch) = scan.next().expect("sound") {
        assert!(batch.columns[0].iter().all(|subject| *subject == last));
        rows += batch.rows;
    }
    assert_eq!(rows, quads.iter().filter(|quad| quad[0] == last).count());
}

#[test]
fn links_of_many_nodes_are_read_from_their_column() {
    let quads = long_columns();
    let store = open(write_store(&quads, SMALL_PAGES));
    let snapshot = store.snapshot();
    let iri = |rank| TermId(id(TermKind::Iri, rank));
    let few: Vec<TermId> = (1_000..1_001).chain(1_003..1_100).map(iri).collect();
    let spread = |step: usize| -> Vec<TermId> { (0..2_999).step_by(step).map(iri).collect() };
    for nodes in [few, spread(1), spread(8), spread(40)] {
        assert!(nodes.len() >= Expansion::STRETCH_NODES);
        for graph in [
            GraphFilter::Any,
            GraphFilter::Named,
            GraphFilter::One(iri(2_951)),
            GraphFilter::One(iri(5)),
        ] {
            for end in [End::Subject, End::Object] {
                for flags in [(false, false), (true, true)] {
                    let predicate = Some(id(TermKind::Iri, 51));
                    check_expand_of(&snapshot, &quads, (end, &nodes), predicate, graph, flags);
                }
            }
        }
    }
    for object in [0, 17, 51, 2_899] {
        let pairs = |nodes: Vec<TermId>| -> Vec<(TermId, TermId)> {
            let pairs = nodes.into_iter().rev().map(|node| (node, iri(object)));
            pairs.flat_map(|pair| [pair, pair]).collect()
        };
        for graph in [GraphFilter::Any, GraphFilter::One(iri(2_951))] {
            let pairs = pairs(spread(3));
            let predicate = iri(51);
            let found = snapshot.probe(predicate, &pairs, graph).expect("sound");
            for ((subject, object), found) in pairs.into_iter().zip(found) {
                let pattern = QuadPattern {
                    subject: Some(subject),
                    predicate: Some(predicate),
                    object: Some(object),
                    graph,
                };
                assert_eq!(found, quads.iter().any(|quad| matches(&pattern, quad)));
            }
        }
    }
    // That takes fewer pages than the nodes have.
    let pages = || {
        let counts = PageTally::of_this_thread().counts();
        counts.cache_hits + counts.device_pages
    };
    let read = |nodes: &[TermId]| {
        let before = pages();
        let mut out = Expansion::new(false, false);
        let predicate = Some(iri(51));
        let graph = GraphFilter::Any;
        snapshot
            .expand(End::Subject, nodes, predicate, graph, &mut out)
            .expect("sound");
        pages() - before
    };
    let nodes = spread(40);
    let one_by_one: u64 = nodes.chunks(25).map(read).sum();
    let together = read(&nodes);
    assert!(
        together * 3 < one_by_one,
        "{together} and {one_by_one} pages"
    );
}

#[test]
fn columns_come_in_the_order_asked() {
    let quad = [1u64, 50, 2, 100].map(|rank| id(TermKind::Iri, rank));
    let store = open(write_store(&BTreeSet::from([quad]), SMALL_PAGES));
    let snapshot = store.snapshot();
    for order in Order::OF_ALL_GRAPHS {
        for wanted in [
            &COMPONENTS[..],
            &[Component::Object, Component::Subject],
            &[],
        ] {
            let mut scan = snapshot
                .scan(&QuadPattern::default(), order, wanted)
                .expect("sound");
            let batch = scan.next().expect("sound").expect("one row");
            assert_eq!(batch.rows, 1);
            let columns: Vec<u64> = batch.columns.iter().map(|column| column[0]).collect();
            let ids: Vec<u64> = wanted
                .iter()
                .map(|&which| component(&quad, which))
                .collect();
            assert_eq!(columns, ids);
            assert_eq!(scan.next().expect("sound"), None);
        }
    }
}

#[test]
fn terms_come_back_from_their_ids() {
    let store = open(write_store(&BTreeSet::new(), SMALL_PAGES));
    let snapshot = store.snapshot();
    let term = oxrdf::NamedNode::new_unchecked("http://example.org/00042");
    let found = snapshot.resolve(term.as_ref().into()).expect("sound");
    assert_eq!(found, Some(TermId::new(TermKind::Iri, 42)));
    let absent = oxrdf::NamedNode::new_unchecked("http://example.org/absent");
    assert_eq!(
        snapshot.resolve(absent.as_ref().into()).expect("sound"),
        None
    );
    let number = oxrdf::Literal::from(17);
    let inline = snapshot
        .resolve(number.as_ref().into())
        .expect("sound")
        .expect("inline");
    let ids = [
        TermId::new(TermKind::Iri, 42),
        inline,
        TermId::new(TermKind::Iri, 42),
    ];
    let terms = snapshot.decode(&ids).expect("sound");
    assert_eq!(
        terms,
        [term.clone().into(), number.into(), oxrdf::Term::from(term)]
    );
    assert!(
        snapshot
            .decode(&[TermId::new(TermKind::Iri, 1 << 40)])
            .is_err()
    );
    assert!(snapshot.decode(&[TermId::UNBOUND]).is_err());
}
