//! One hop costs one page read, counted.

use std::sync::Arc;

use pythia::{Database, Options};
use pythia_rdf::TermId;
use pythia_store::{End, Expansion, GraphFilter};

use crate::support::{database, stored};

const NODES: usize = 60_000;

/// A graph in which every node links to a few others, far apart.
fn graph() -> String {
    let mut text = String::new();
    for node in 0..NODES {
        for step in 1..9 {
            let other = (node * 31 + step * 7919) % NODES;
            text.push_str(&format!(
                "<http://e/{node}> <http://e/link> <http://e/{other}> .\n"
            ));
        }
    }
    text
}

fn id(database: &Database, iri: &str) -> TermId {
    let node = oxrdf::NamedNode::new(iri).unwrap();
    database
        .snapshot()
        .resolve(node.as_ref().into())
        .unwrap()
        .unwrap()
}

fn spo_pages(database: &Database) -> u64 {
    database.counters().group("spo").device_pages
}

#[test]
fn a_cold_walk_of_k_hops_reads_at_most_k_plus_one_pages() {
    let database = database(&graph());
    let link = id(&database, "http://e/link");
    let snapshot = database.snapshot();
    for (start, hops) in [(1, 2), (77, 4), (4711, 10), (59_999, 100)] {
        let mut node = id(&database, &format!("http://e/{start}"));
        database.clear_cache().unwrap();
        let before = spo_pages(&database);
        for hop in 0..hops {
            let mut found = Expansion::new(false, false);
            snapshot
                .expand(
                    End::Subject,
                    &[node],
                    Some(link),
                    GraphFilter::Any,
                    &mut found,
                )
                .unwrap();
            node = TermId(found.other[hop % found.other.len()]);
        }
        let read = spo_pages(&database) - before;
        assert!(read <= hops as u64 + 1, "{hops} hops read {read} pages");
    }
}

#[test]
fn a_cold_path_query_reads_a_page_a_hop() {
    let database = database(&graph());
    let path = ["<http://e/link>"; 3].join("/");
    let query = format!("SELECT ?x {{ <http://e/5> {path} ?x }}");
    database.clear_cache().unwrap();
    let before = database.counters();
    let answer = crate::support::ours(&database, &query).unwrap();
    assert_eq!(answer.lines.len(), 512);
    let read = database.counters().since(&before);
    // 1 + 8 + 64 nodes are visited, each on at most one page.
    assert!(read.group("spo").device_pages <= 73, "{read:?}");
}

#[test]
fn a_frontier_is_read_as_one_batch() {
    let database = database(&graph());
    let snapshot = database.snapshot();
    let link = id(&database, "http://e/link");
    let mut nodes: Vec<TermId> = (0..60)
        .map(|n| id(&database, &format!("http://e/{}", n * 997)))
        .collect();
    nodes.sort_unstable();
    database.clear_cache().unwrap();
    let before = database.counters();
    let mut found = Expansion::new(false, false);
    snapshot
        .expand(
            End::Subject,
            &nodes,
            Some(link),
            GraphFilter::Any,
            &mut found,
        )
        .unwrap();
    let read = database.counters().since(&before).group("spo");
    assert_eq!(found.other.len(), 480);
    assert!(read.device_pages > 40, "{read:?}");
    assert!(read.depth_mean() > 16.0, "{read:?}");
}

#[test]
fn a_store_larger_than_the_cache_answers_within_its_budget() {
    let options = Options {
        cache_bytes: 1 << 20,
        ..Options::default()
    };
    let memory = stored(&graph());
    assert!(
        memory.size_bytes() > 1 << 20,
        "the store has {} bytes",
        memory.size_bytes()
    );
    let small = Database::open_storage(Arc::new(memory), options).unwrap();
    let large = database(&graph());
    for query in [
        "SELECT (COUNT(*) AS ?n) { ?a <http://e/link> ?b . ?b <http://e/link> ?c }",
        "SELECT ?b { <http://e/7> <http://e/link>+ ?b }",
        "SELECT DISTINCT ?b { ?a <http://e/link> ?b } ORDER BY ?b LIMIT 50",
    ] {
        let ours = |d| crate::support::ours(d, query).unwrap().sorted();
        assert_eq!(ours(&small), ours(&large), "{query}");
    }
    let used = small.store().pool().bytes_in_use_max();
    assert!(used <= 1 << 20, "the pool used {used} bytes");
}
