//! Property paths against their definition: on small random graphs, the pairs of nodes that a path
//! connects are worked out as a relation, and every way of asking must agree with it.

use std::collections::BTreeSet;

use pythia::{Database, Options, QueryOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::{analyze, database, database_with, ours, ours_with};

type Relation = BTreeSet<(usize, usize)>;

/// A path: its text, and the pairs it connects.
struct Path {
    text: String,
    pairs: Relation,
}

struct Graph {
    nodes: usize,
    edges: [Relation; 3],
}

const NAMES: [&str; 3] = ["p", "q", "r"];

impl Graph {
    fn random(random: &mut StdRng) -> Self {
        let nodes = random.random_range(2..14);
        let edges = std::array::from_fn(|_| {
            let count = random.random_range(1..nodes * 2);
            let mut end = || random.random_range(0..nodes);
            (0..count).map(|_| (end(), end())).collect()
        });
        Self { nodes, edges }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, edges) in NAMES.iter().zip(&self.edges) {
            for (from, to) in edges {
                text += &format!("<http://e/{from}> <http://e/{name}> <http://e/{to}> .\n");
            }
        }
        text
    }

    /// The nodes that have an edge: an empty path connects these with themselves.
    fn same(&self) -> Relation {
        let ends = self.edges.iter().flatten().flat_map(|(a, b)| [*a, *b]);
        ends.map(|node| (node, node)).collect()
    }

    fn path(&self, random: &mut StdRng, depth: u32) -> Path {
        let kind = if depth == 0 {
            0
        } else {
            random.random_range(0..9)
        };
        let mut inner = || self.path(random, depth - 1);
        match kind {
            1 | 2 => closed(inner(), "+", &Relation::new()),
            3 | 4 => closed(inner(), "*", &self.same()),
            5 => {
                let path = inner();
                Path {
                    text: format!("({})?", path.text),
                    pairs: &path.pairs | &self.same(),
                }
            }
            6 => {
                let (a, b) = (inner(), inner());
                Path {
                    text: format!("({}/{})", a.text, b.text),
                    pairs: composed(&a.pairs, &b.pairs),
                }
            }
            7 => {
                let (a, b) = (inner(), inner());
                Path {
                    text: format!("({}|{})", a.text, b.text),
                    pairs: &a.pairs | &b.pairs,
                }
            }
            8 => {
                let path = inner();
                Path {
                    text: format!("^({})", path.text),
                    pairs: path.pairs.iter().map(|(a, b)| (*b, *a)).collect(),
                }
            }
            _ => {
                let number = random.random_range(0..NAMES.len());
                Path {
                    text: format!("<http://e/{}>", NAMES[number]),
                    pairs: self.edges[number].clone(),
                }
            }
        }
    }
}

fn composed(a: &Relation, b: &Relation) -> Relation {
    let joined = |(from, middle): &(usize, usize)| {
        let (from, middle) = (*from, *middle);
        b.range((middle, 0)..(middle + 1, 0))
            .map(move |(_, to)| (from, *to))
            .collect::<Vec<_>>()
    };
    a.iter().flat_map(joined).collect()
}

fn closed(path: Path, mark: &str, more: &Relation) -> Path {
    let mut pairs = &path.pairs | more;
    loop {
        let next = &pairs | &composed(&pairs, &path.pairs);
        if next == pairs {
            break;
        }
        pairs = next;
    }
    Path {
        text: format!("({}){mark}", path.text),
        pairs,
    }
}

/// The pairs a query gives, with the variables ?a and ?b.
fn pairs(database: &Database, query: &str, options: &QueryOptions) -> Vec<(usize, usize)> {
    let answer =
        ours_with(database, query, options).unwrap_or_else(|error| panic!("{error}\n{query}"));
    let node = |cell: &str| -> usize {
        let iri = cell.trim_start_matches("<http://e/").trim_end_matches('>');
        iri.parse().unwrap()
    };
    let mut pairs: Vec<(usize, usize)> = (answer.lines.iter())
        .map(|line| {
            let (a, b) = line.split_once('\t').expect("two columns");
            (node(a), node(b))
        })
        .collect();
    pairs.sort_unstable();
    pairs
}

fn number(database: &Database, query: &str) -> usize {
    let answer = ours(database, query).unwrap_or_else(|error| panic!("{error}\n{query}"));
    let line = answer.lines.first().expect("one row");
    let digits = line.trim_start_matches('"').split('"').next();
    digits.unwrap().parse().unwrap()
}

/// Asks for a closure of the path, which stays a path whatever its inside is, in every way.
fn check(graph: &Graph, path: &Path, database: &Database, random: &mut StdRng) {
    let text = &path.text;
    let expected: Vec<(usize, usize)> = path.pairs.iter().copied().collect();
    let all = format!("SELECT ?a ?b {{ ?a {text} ?b }}");
    let usual = QueryOptions::default();
    assert_eq!(pairs(database, &all, &usual), expected, "{all}");
    let count = format!("SELECT (COUNT(*) AS ?n) {{ ?a {text} ?b }}");
    assert_eq!(number(database, &count), expected.len(), "{count}");

    let (a, b) = (
        random.random_range(0..graph.nodes),
        random.random_range(0..graph.nodes),
    );
    let is_node = |node: usize| graph.same().contains(&(node, node));
    if is_node(a) && is_node(b) {
        let ask = format!("ASK {{ <http://e/{a}> {text} <http://e/{b}> }}");
        let answer = ours(database, &ask).unwrap().lines;
        assert_eq!(answer, [path.pairs.contains(&(a, b)).to_string()], "{ask}");
    }
    let values = |nodes: &[usize]| -> String {
        nodes
            .iter()
            .map(|node| format!("<http://e/{node}> "))
            .collect()
    };
    for (few, many) in [(1, 3), (3, 1), (9, 2), (2, 12), (12, 12)] {
        let mut some = |count: usize| -> Vec<usize> {
            let drawn = (0..count).map(|_| random.random_range(0..graph.nodes));
            let distinct: BTreeSet<usize> = drawn.filter(|node| is_node(*node)).collect();
            distinct.into_iter().collect()
        };
        let (starts, ends) = (some(few), some(many));
        let query = format!(
            "SELECT ?a ?b {{ VALUES ?a {{ {}}} VALUES ?b {{ {}}} ?a {text} ?b }}",
            values(&starts),
            values(&ends)
        );
        let wanted: Vec<(usize, usize)> = (expected.iter().copied())
            .filter(|(a, b)| starts.contains(a) && ends.contains(b))
            .collect();
        assert_eq!(pairs(database, &query, &usual), wanted, "{query}");
        let query = format!(
            "SELECT ?a (COUNT(*) AS ?n) {{ VALUES ?a {{ {}}} ?a {text} ?b }} GROUP BY ?a",
            values(&starts)
        );
        let lines = ours(database, &query).unwrap().lines;
        let counted = |start: &usize| {
            let count = expected.iter().filter(|(a, _)| a == start).count();
            let integer = "http://www.w3.org/2001/XMLSchema#integer";
            (count > 0).then(|| format!("<http://e/{start}>\t\"{count}\"^^<{integer}>"))
        };
        let counts: BTreeSet<String> = starts.iter().filter_map(counted).collect();
        assert_eq!(BTreeSet::from_iter(lines), counts, "{query}");
    }
}

#[test]
fn random_paths_connect_what_they_mean_however_they_are_asked_for() {
    let mut random = StdRng::seed_from_u64(40);
    for _ in 0..150 {
        let graph = Graph::random(&mut random);
        let database = database(&graph.text());
        for _ in 0..4 {
            let inner = graph.path(&mut random, 2);
            let path = match random.random() {
                true => closed(inner, "+", &Relation::new()),
                false => closed(inner, "*", &graph.same()),
            };
            check(&graph, &path, &database, &mut random);
        }
    }
}

#[test]
fn a_count_over_a_sequence_with_a_closure_counts_each_route_of_the_sequence() {
    let mut random = StdRng::seed_from_u64(41);
    for _ in 0..100 {
        let graph = Graph::random(&mut random);
        let database = database(&graph.text());
        let closure = closed(graph.path(&mut random, 1), "+", &Relation::new());
        let first = &graph.edges[0];
        let ends = |from: usize| closure.pairs.iter().filter(|(a, _)| *a == from).count();
        let starts = |to: usize| closure.pairs.iter().filter(|(_, b)| *b == to).count();
        let text = &closure.text;
        for (query, expected) in [
            (
                format!("?s <http://e/p>/{text} ?o"),
                first.iter().map(|(_, to)| ends(*to)).sum::<usize>(),
            ),
            (
                format!("?s {text}/<http://e/p> ?o"),
                first.iter().map(|(from, _)| starts(*from)).sum(),
            ),
            (
                format!("?s <http://e/p> ?m . ?m {text} ?o . FILTER(?s != <http://e/0>)"),
                (first.iter().filter(|(from, _)| *from != 0))
                    .map(|(_, to)| ends(*to))
                    .sum(),
            ),
        ] {
            let counted = format!("SELECT (COUNT(*) AS ?n) {{ {query} }}");
            assert_eq!(number(&database, &counted), expected, "{counted}");
            let named = format!("SELECT (COUNT(?o) AS ?n) {{ {query} }}");
            assert_eq!(number(&database, &named), expected, "{named}");
            // Whatever cannot be counted must be enumerated.
            let listed = format!("SELECT (COUNT(*) AS ?n) {{ SELECT * {{ {query} }} }}");
            assert_eq!(number(&database, &listed), expected, "{listed}");
        }
        let distinct = format!("SELECT (COUNT(DISTINCT ?o) AS ?n) {{ ?s {text} ?o }}");
        let expected: BTreeSet<usize> = closure.pairs.iter().map(|(_, b)| *b).collect();
        assert_eq!(number(&database, &distinct), expected.len(), "{distinct}");
    }
}

/// Two long chains, joined at one end of each.
fn chains(length: usize) -> String {
    let mut text = String::new();
    for node in 0..length {
        let next = node + 1;
        text += &format!("<http://e/a{node}> <http://e/p> <http://e/a{next}> .\n");
        text += &format!("<http://e/b{node}> <http://e/p> <http://e/b{next}> .\n");
        for leaf in 0..5 {
            text += &format!("<http://e/a{node}> <http://e/p> <http://e/l{node}x{leaf}> .\n");
        }
    }
    text
}

fn visited(database: &Database, query: &str) -> u64 {
    let (_, plan) = analyze(database, query);
    let visited = |part: &pythia::PlanNode| part.measured.map_or(0, |m| m.nodes_visited);
    plan.parts().into_iter().map(visited).sum()
}

#[test]
fn two_known_ends_are_searched_from_the_one_with_fewer_links() {
    let database = database(&chains(2000));
    // From a0 there are 12,000 nodes to see; towards b5 there are five.
    let apart = "ASK { <http://e/a0> <http://e/p>+ <http://e/b5> }";
    assert_eq!(ours(&database, apart).unwrap().lines, ["false"]);
    assert!(visited(&database, apart) < 30);
    let near = "ASK { <http://e/a1000> <http://e/p>+ <http://e/l1002x3> }";
    assert_eq!(ours(&database, near).unwrap().lines, ["true"]);
    assert!(visited(&database, near) < 50);
    let one_sided = "SELECT ?x { <http://e/a0> <http://e/p>+ ?x }";
    assert!(visited(&database, one_sided) > 5_000);
}

#[test]
fn what_is_reached_from_one_node_comes_sorted_for_the_join_after_it() {
    let database = database(&chains(2000));
    // Most of the graph, so that its edges are read rather than searched; and a part of it.
    for (start, reached) in [("a0", 12_000), ("b0", 2000), ("a1990", 60)] {
        let query =
            format!("SELECT ?x ?y {{ <http://e/{start}> <http://e/p>+ ?x . ?y <http://e/p> ?x }}");
        let options = QueryOptions::default();
        let plan = database.prepare(&query, &options).unwrap().plan();
        let lines = ours(&database, &query).unwrap().lines;
        // Every node reached has one link to it.
        assert_eq!(lines.len(), reached, "{plan}");
        let ends: BTreeSet<&str> = lines.iter().filter_map(|l| l.split('\t').next()).collect();
        assert_eq!(ends.len(), reached);
    }
}

#[test]
fn many_nodes_are_tested_against_all_that_a_constant_reaches() {
    let database = database(&chains(2000));
    let nodes: String = (1300..1700)
        .map(|n| format!("<http://e/a{n}> <http://e/l{n}x1> "))
        .collect();
    for (path, expected) in [
        ("?x <http://e/p>+ <http://e/a1500>", 200),
        ("?x <http://e/p>* <http://e/a1500>", 201),
        ("<http://e/a1500> <http://e/p>+ ?x", 199 + 200),
        ("<http://e/b0> <http://e/p>+ ?x", 0),
        ("?x <http://e/p>+ <http://e/unknown>", 0),
    ] {
        let query = format!("SELECT ?x {{ VALUES ?x {{ {nodes} }} {path} }}");
        assert_eq!(
            ours(&database, &query).unwrap().lines.len(),
            expected,
            "{path}"
        );
        let visits = visited(&database, &query);
        assert!(visits <= 2001 * 6, "{visits} visits: {path}");
    }
}

/// Returns links by p and q within groups of ten nodes, as pairs of nodes.
fn groups(nodes: usize) -> [Vec<(usize, usize)>; 2] {
    let mut random = StdRng::seed_from_u64(11);
    [0, 1].map(|_| {
        let link =
            |node: usize, random: &mut StdRng| (node, node / 10 * 10 + random.random_range(0..10));
        (0..nodes)
            .filter(|node| node % 3 > 0)
            .map(|node| link(node, &mut random))
            .collect()
    })
}

/// Counts the pairs of nodes that one or more links connect. They stay in their groups.
fn count_connected(nodes: usize, links: &[(usize, usize)]) -> usize {
    let mut targets = vec![Vec::new(); nodes];
    links.iter().for_each(|&(from, to)| targets[from].push(to));
    let from_node = |node: usize| {
        let (mut reached, mut rest) = (BTreeSet::new(), vec![node]);
        while let Some(node) = rest.pop() {
            rest.extend(
                targets[node]
                    .iter()
                    .filter(|target| reached.insert(**target)),
            );
        }
        reached.len()
    };
    (0..nodes).map(from_node).sum()
}

#[test]
fn a_closure_has_the_edges_of_all_its_nodes() {
    const NODES: usize = 50_000;
    let [p, q] = groups(NODES);
    let mut text = String::new();
    for (name, links) in [("p", &p), ("q", &q)] {
        for (from, to) in links {
            text += &format!("<http://e/n{from}> <http://e/{name}> <http://e/n{to}> .\n");
        }
    }
    let database = database(&text);
    let turned: Vec<(usize, usize)> = q.iter().map(|&(from, to)| (to, from)).collect();
    for (path, links) in [
        ("<http://e/p>+", p.clone()),
        (
            "(<http://e/p>|^<http://e/q>)+",
            [p.clone(), turned].concat(),
        ),
        ("(!<http://e/q>)+", p.clone()),
    ] {
        let query = format!("SELECT (COUNT(*) AS ?n) {{ ?a {path} ?b }}");
        let expected = count_connected(NODES, &links).to_string();
        let found = ours(&database, &query).unwrap().lines;
        assert!(
            found[0].contains(&format!("\"{expected}\"")),
            "{path}: {found:?}, not {expected}"
        );
    }
}

/// Two layers of nodes, each linked with all nodes of the other one, and starts that lead to all of the first layer and to a
/// node of their own.
fn layers(starts: usize, nodes: usize) -> String {
    let mut text = String::new();
    let mut link = |from: String, predicate: &str, to: String| {
        text += &format!("<http://e/{from}> <http://e/{predicate}> <http://e/{to}> .\n");
    };
    for one in 0..nodes {
        for other in 0..nodes {
            link(format!("a{one}"), "p", format!("b{other}"));
            link(format!("b{other}"), "q", format!("a{one}"));
        }
    }
    for start in 0..starts {
        link(format!("s{start}"), "is", "start".to_owned());
        link(format!("s{start}"), "p", format!("c{start}"));
        link(format!("c{start}"), "q", format!("d{start}"));
        for node in 0..nodes {
            link(format!("s{start}"), "p", format!("b{node}"));
        }
    }
    text
}

#[test]
fn many_starts_that_reach_the_same_nodes_are_searched_from_together() {
    const STARTS: usize = 100;
    const NODES: usize = 64;
    let database = database(&layers(STARTS, NODES));
    for (path, layers, own) in [
        ("(<http://e/p>/<http://e/q>)+", vec!["a"], vec!["d"]),
        // Accepts after each of the two links.
        (
            "(<http://e/p>/<http://e/q>?)+",
            vec!["a", "b"],
            vec!["c", "d"],
        ),
    ] {
        let mut expected = BTreeSet::new();
        for start in 0..STARTS {
            let mut add = |node: String| {
                expected.insert(format!("<http://e/s{start}>\t<http://e/{node}>"));
            };
            own.iter().for_each(|own| add(format!("{own}{start}")));
            for node in 0..NODES {
                layers
                    .iter()
                    .for_each(|layer| add(format!("{layer}{node}")));
            }
        }
        let all = format!("SELECT ?s ?x {{ ?s <http://e/is> <http://e/start> . ?s {path} ?x }}");
        let lines = ours(&database, &all).unwrap().lines;
        assert_eq!(lines.len(), expected.len(), "{path}");
        assert_eq!(
            lines.into_iter().collect::<BTreeSet<_>>(),
            expected,
            "{path}"
        );
        let counted = format!(
            "SELECT ?s (COUNT(?x) AS ?n) {{ ?s <http://e/is> <http://e/start> . ?s {path} ?x }} GROUP BY ?s"
        );
        let each = layers.len() * NODES + own.len();
        let lines = ours(&database, &counted).unwrap().lines;
        assert_eq!(lines.len(), STARTS, "{path}");
        let count = format!("\t\"{each}\"^^");
        assert!(
            lines.iter().all(|line| line.contains(&count)),
            "{path}: {lines:?}"
        );
    }
}

#[test]
fn all_pairs_of_a_large_component_are_given_in_little_memory() {
    const NODES: usize = 700;
    let text: String = (0..NODES)
        .map(|n| {
            format!(
                "<http://e/{n}> <http://e/p> <http://e/{}> .\n",
                (n + 1) % NODES
            )
        })
        .collect();
    for memory_bytes in [1 << 19, 1 << 20, 64 << 20] {
        let options = Options {
            memory_bytes,
            ..Options::default()
        };
        let database = database_with(&text, options);
        // Closures of two steps are searched, not condensed.
        for path in ["<http://e/p>+", "(<http://e/p>/<http://e/p>)+"] {
            let query = format!("SELECT ?a ?b {{ ?a {path} ?b }}");
            let found = pairs(&database, &query, &QueryOptions::default());
            let distinct: BTreeSet<(usize, usize)> = found.iter().copied().collect();
            let expected = match path.len() {
                13 => NODES * NODES,
                _ => NODES * NODES / 2,
            };
            assert_eq!(found.len(), expected, "{path} in {memory_bytes} bytes");
            assert_eq!(distinct.len(), found.len());
        }
        assert_eq!(database.usage().memory_bytes, 0);
    }
}
