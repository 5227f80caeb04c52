//! Random updates, and random queries between them, done by us and by Oxigraph. After each request
//! both must hold the same dataset, up to the names of blank nodes.
//!
//! ```text
//! PYTHIA_DIFFERENTIAL_UPDATES=100000 PYTHIA_DIFFERENTIAL_SEED=1 \
//!     cargo test --release --workspace --test it random_updates
//! ```

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oxrdf::{Dataset, NamedOrBlankNode, Quad, Term};
use pythia::{Update, UpdateOptions};

use super::check::{Pair, Verdict, check};
use super::generator::{Generator, Lines};
use super::number;
use crate::support::{Peer, collapsed, contents, database, quads_of, restless, writable};

/// How many requests run in the tests.
const REQUESTS: u64 = 1_500;
/// Requests to each graph.
const PER_GRAPH: u64 = 15;
/// A graph with more is given up: the next one is as good, and faster.
const QUADS_MAX: usize = 1000;
/// With more blank nodes, their names are compared no more, only what is with them.
const BLANK_NODES_MAX: usize = 9;

impl Generator {
    /// A random request to a dataset that holds these quads.
    pub(crate) fn update(&mut self, quads: &[Quad]) -> String {
        self.made = 0;
        // Copies put triples into several graphs.
        self.repeats = true;
        let mut operations = vec![self.operation(quads)];
        while self.chance(30) {
            // What a graph has now is not known here, and Oxigraph minds.
            operations.push(self.change(quads));
        }
        let prefix = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n";
        format!("{prefix}{}", operations.join(" ;\n"))
    }

    fn operation(&mut self, quads: &[Quad]) -> String {
        match self.below(8) {
            0 => {
                let verb = self.choose(&["CLEAR", "DROP"]);
                let which = match self.below(6) {
                    0 => "DEFAULT".to_owned(),
                    1 => "NAMED".to_owned(),
                    _ => format!("GRAPH {}", self.graph()),
                };
                format!("{verb} SILENT {which}")
            }
            1 => {
                // Oxigraph forgets that SILENT keeps the destination if there is no source.
                let has = |graph: &str| quads.iter().any(|q| q.graph_name.to_string() == graph);
                let mut from: Vec<String> = (0..3).map(|g| format!("<http://e/g{g}>")).collect();
                from.retain(|graph| has(graph));
                from.push("DEFAULT".to_owned());
                let from = from[self.below(from.len())].clone();
                let to = match self.chance(25) {
                    true => "DEFAULT".to_owned(),
                    false => self.graph(),
                };
                let verb = self.choose(&["ADD", "COPY", "MOVE"]);
                format!("{verb} {from} TO {to}")
            }
            2 => format!("CREATE SILENT GRAPH {}", self.graph()),
            _ => self.change(quads),
        }
    }

    /// An operation on quads.
    fn change(&mut self, quads: &[Quad]) -> String {
        match self.below(8) {
            0 | 1 => {
                let mut lines = self.data();
                lines.truncate(1 + self.below(6));
                // No two operations of a request may have a blank node with the same label.
                self.fresh += 1;
                let label = format!("_:o{}_", self.fresh);
                let quads = in_graphs(&lines).replace("_:", &label);
                format!("INSERT DATA {{\n{quads}}}")
            }
            2 => {
                let named = |quad: &&Quad| !format!("{quad}").contains("_:");
                let known: Vec<String> = quads
                    .iter()
                    .filter(named)
                    .map(|q| format!("{q} ."))
                    .collect();
                let mut lines = self.data();
                lines.retain(|line| !line.contains("_:"));
                lines.truncate(2);
                for _ in 0..self.below(6) {
                    if !known.is_empty() {
                        lines.push(known[self.below(known.len())].clone());
                    }
                }
                format!("DELETE DATA {{\n{}}}", in_graphs(&lines))
            }
            3 => {
                let mut pattern = self.template(false);
                pattern.truncate(2);
                format!("DELETE WHERE {{\n{}\n}}", pattern.join("\n"))
            }
            _ => self.modify(),
        }
    }

    fn modify(&mut self) -> String {
        let mut text = String::new();
        if self.chance(20) {
            text.push_str(&format!("WITH {}\n", self.graph()));
        }
        let kind = self.below(3);
        if kind < 2 {
            text.push_str(&format!(
                "DELETE {{\n{}\n}}\n",
                self.template(false).join("\n")
            ));
        }
        if kind > 0 {
            text.push_str(&format!(
                "INSERT {{\n{}\n}}\n",
                self.template(true).join("\n")
            ));
        }
        if self.chance(10) {
            text.push_str(&format!("USING {}\n", self.graph()));
        }
        if text.contains("USING") && self.chance(50) {
            text.push_str(&format!("USING NAMED {}\n", self.graph()));
        }
        let mut lines = Lines::new();
        self.block("WHERE", 1, &mut lines);
        text.push_str(&lines.join("\n"));
        text
    }

    /// Quads with variables, and with blank nodes if they are to be inserted.
    fn template(&mut self, inserted: bool) -> Lines {
        let count = 1 + self.below(3);
        let mut quads = Lines::new();
        for _ in 0..count {
            let subject = match self.below(12) {
                0 if inserted => "_:n".to_owned(),
                1 | 2 => self.node(),
                _ => self.variable(),
            };
            let predicate = match self.below(6) {
                0 => self.variable(),
                _ => self.predicate(),
            };
            let object = match self.below(14) {
                0 if inserted => self.choose(&["_:n", "_:m", "[]"]).to_owned(),
                1 | 2 => self.node(),
                3 => self.literal(),
                4 => format!(
                    "<<( {} {} {} )>>",
                    self.variable(),
                    self.predicate(),
                    self.variable()
                ),
                _ => self.variable(),
            };
            let triple = format!("{subject} {predicate} {object} .");
            quads.push(match self.below(8) {
                0 => format!("GRAPH ?g {{ {triple} }}"),
                1 | 2 => format!("GRAPH {} {{ {triple} }}", self.graph()),
                _ => triple,
            });
        }
        quads
    }
}

/// Lines of N-Quads as they are in INSERT DATA.
fn in_graphs(lines: &[String]) -> String {
    let quad = |line: &String| {
        let line = line.trim_end_matches(['.', ' ']);
        match line.rsplit_once(" <http://e/g") {
            Some((triple, graph)) if graph.len() == 2 => {
                format!("GRAPH <http://e/g{graph} {{ {triple} }}\n")
            }
            _ => format!("{line} .\n"),
        }
    };
    lines.iter().map(quad).collect()
}

/// What came of a request.
enum Step {
    /// What the dataset is now.
    Done(Vec<Quad>),
    /// It takes too long, or makes too much.
    GivenUp,
    Differ(String),
}

fn step(pair: &Pair, request: &str) -> Step {
    let update = match Update::parse(request, None) {
        Ok(update) => update,
        Err(error) => return Step::Differ(format!("{error}")),
    };
    let mut options = UpdateOptions::default();
    options.query.timeout = Some(Duration::from_secs(5));
    match pair.pythia.update_parsed(&update, &options, None) {
        Ok(_) => {}
        Err(pythia::QueryError::Timeout) => return Step::GivenUp,
        Err(error) => return Step::Differ(format!("{error}")),
    }
    if pair.oxigraph.update(request).is_err() {
        return Step::GivenUp;
    }
    let theirs = pair.oxigraph.quads();
    if theirs.len() > QUADS_MAX {
        return Step::GivenUp;
    }
    let ours = quads_of(&pair.pythia);
    if collapsed(&ours) != collapsed(&theirs) {
        return Step::Differ(format!("OURS\n{ours}\nOXIGRAPH\n{theirs}"));
    }
    if blank_nodes(&theirs) <= BLANK_NODES_MAX {
        let mut canonical = theirs.clone();
        canonical.canonicalize(oxrdf::dataset::CanonicalizationAlgorithm::Unstable);
        if contents(&pair.pythia) != canonical {
            return Step::Differ(format!("BLANK NODES: OURS\n{ours}\nOXIGRAPH\n{theirs}"));
        }
    }
    Step::Done(owned(&theirs))
}

fn owned(dataset: &Dataset) -> Vec<Quad> {
    dataset.iter().map(oxrdf::QuadRef::into_owned).collect()
}

fn blank_nodes(dataset: &Dataset) -> usize {
    let mut labels: Vec<String> = Vec::new();
    for quad in dataset {
        let quad = quad.into_owned();
        if let NamedOrBlankNode::BlankNode(node) = quad.subject {
            labels.push(node.into_string());
        }
        if let Term::BlankNode(node) = quad.object {
            labels.push(node.into_string());
        }
    }
    labels.sort_unstable();
    labels.dedup();
    labels.len()
}

/// The requests of one seed; the first difference.
fn run(seed: u64, given_up: &AtomicU64) -> Option<String> {
    let mut generator = Generator::new(seed);
    let data = generator.data().join("\n");
    let pair = Pair {
        pythia: match seed % 2 {
            0 => writable(&data),
            _ => restless(&data),
        },
        oxigraph: Peer::hasty(&data),
    };
    let mut quads = owned(&pair.oxigraph.quads());
    let mut history = data;
    for _ in 0..PER_GRAPH {
        let request = generator.update(&quads);
        history.push_str(&format!("\n--\n{request}"));
        match step(&pair, &request) {
            Step::Done(dataset) => quads = dataset,
            Step::GivenUp => {
                given_up.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            Step::Differ(problem) => return Some(format!("seed {seed}\n{history}\n\n{problem}")),
        }
        for _ in 0..3 {
            let query = generator.query();
            let Verdict::Differ(problem) = check(&pair, &query) else {
                continue;
            };
            // What differs of a fresh store too is none of the updates' business.
            let nquads = quads_of(&pair.pythia).to_string();
            let fresh = Pair {
                pythia: database(&nquads),
                oxigraph: Peer::hasty(&nquads),
            };
            if !matches!(check(&fresh, &query), Verdict::Differ(_)) {
                let query = query.join("\n");
                return Some(format!("seed {seed}\n{history}\n--\n{query}\n\n{problem}"));
            }
        }
    }
    None
}

#[test]
fn random_updates_agree_with_oxigraph() {
    let first = number("PYTHIA_DIFFERENTIAL_SEED").unwrap_or(0);
    let requests = number("PYTHIA_DIFFERENTIAL_UPDATES").unwrap_or(REQUESTS);
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let (seeds, given_up) = (AtomicU64::new(first), AtomicU64::new(0));
    let graphs = requests.div_ceil(PER_GRAPH);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = seeds.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + graphs || !failures.lock().expect("no panic").is_empty() {
                        return;
                    }
                    if let Some(failure) = run(seed, &given_up) {
                        failures.lock().expect("no panic").push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    let given_up = given_up.into_inner();
    assert!(
        given_up * 3 < graphs,
        "{given_up} of {graphs} graphs are given up"
    );
}
