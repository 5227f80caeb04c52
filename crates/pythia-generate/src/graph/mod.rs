//! Random graphs: each node has edges of one predicate to random other nodes, no two to the same.
//!
//! - [`Shape::Uniform`]: the random graph of the Pythia paper's experiment: out-degrees uniform in a range (3 to 30),
//!   all nodes equally likely at the other end.
//! - [`Shape::PowerLaw`]: few nodes have most edges. Out-degrees and in-degrees follow power laws of the same exponent,
//!   independently of each other; the hubs are random nodes.
//!
//! The lines of a node are consecutive: its label, if configured, then its edges.

mod endpoints;

use crate::random::Stream;
use crate::stream::{Pieces, write_pieces};
use crate::text::{Vocabulary, push_number};
use crate::{GenerateError, Part, Summary, TripleReader};
use endpoints::{Endpoints, PowerLaw};
use std::collections::HashSet;
use std::io::Write;
use std::ops::{Range, RangeInclusive};

const NODES_MAX: u64 = 1 << 48;
/// Largest degree; a node's edges are held in memory while they are drawn.
const DEGREE_MAX: u32 = 1 << 24;
/// Nodes written at a time.
const PIECE_NODES: u64 = 16;
/// Largest degree at which scanning all neighbours beats hashing them.
const LINEAR_DEGREE_MAX: usize = 48;
/// Draws that may repeat a neighbour before the next free node is taken.
const TRIES_MAX: u32 = 16;

/// The distribution of edges over nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// All nodes alike.
    Uniform,
    /// The probability of degree d falls with d to the power of minus this exponent, which must be
    /// above 2 (the mean degree is infinite otherwise) and at most 10. Real networks have 2 to 3.
    PowerLaw {
        /// The exponent.
        exponent: f64,
    },
}

/// Streams of random numbers of a node.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Edges = 101,
    Label,
    Ranks,
}

/// A graph to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    nodes: u64,
    degrees: RangeInclusive<u32>,
    shape: Shape,
    seed: u64,
    namespace: String,
    predicate: String,
    labels: bool,
}

impl Config {
    /// Configures a uniform random graph with `nodes` nodes (1 to 2^48), each with 3 to 30 edges to others.
    pub fn new(nodes: u64) -> Result<Self, GenerateError> {
        if !(1..=NODES_MAX).contains(&nodes) {
            return Err(GenerateError::config(
                "the number of nodes",
                nodes,
                "from 1 to 2^48",
            ));
        }
        Ok(Self {
            nodes,
            degrees: 3..=30,
            shape: Shape::Uniform,
            seed: 1,
            namespace: "http://example.org/node/".to_owned(),
            predicate: "http://example.org/edge".to_owned(),
            labels: false,
        })
    }

    /// Sets the smallest and largest number of edges from a node. A node never has more edges than there are other nodes.
    pub fn with_degrees(mut self, degrees: RangeInclusive<u32>) -> Result<Self, GenerateError> {
        if degrees.is_empty() || *degrees.end() > DEGREE_MAX {
            return Err(GenerateError::config(
                "the range of degrees",
                format_args!("{}..={}", degrees.start(), degrees.end()),
                "not empty and at most 2^24",
            ));
        }
        self.degrees = degrees;
        Ok(self)
    }

    /// Sets the distribution of edges.
    pub fn with_shape(mut self, shape: Shape) -> Result<Self, GenerateError> {
        if let Shape::PowerLaw { exponent } = shape
            && !(exponent > 2.0 && exponent <= 10.0)
        {
            return Err(GenerateError::config(
                "the exponent",
                exponent,
                "above 2 and at most 10",
            ));
        }
        self.shape = shape;
        Ok(self)
    }

    /// Selects another graph of the same kind.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the IRI prefix of nodes; the node's number follows it.
    pub fn with_namespace(mut self, namespace: &str) -> Result<Self, GenerateError> {
        self.namespace = check_iri("the namespace", namespace)?;
        Ok(self)
    }

    /// Sets the predicate of the edges.
    pub fn with_predicate(mut self, predicate: &str) -> Result<Self, GenerateError> {
        self.predicate = check_iri("the predicate", predicate)?;
        Ok(self)
    }

    /// Sets whether each node also has an `rdfs:label`.
    #[must_use]
    pub fn with_labels(mut self, labels: bool) -> Self {
        self.labels = labels;
        self
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Returns the IRI of a node, by its number below [`nodes`](Self::nodes).
    pub fn node_iri(&self, node: u64) -> String {
        format!("{}{node}", self.namespace)
    }

    /// Returns the IRI of the predicate of the edges.
    pub fn predicate_iri(&self) -> &str {
        &self.predicate
    }

    /// Returns the range of degrees that the number of nodes permits.
    fn possible_degrees(&self) -> (u32, u32) {
        let others = u32::try_from(self.nodes - 1).unwrap_or(u32::MAX);
        let (min, max) = (*self.degrees.start(), *self.degrees.end());
        (min.min(others), max.min(others))
    }
}

/// Accepts only absolute IRIs without characters that must be escaped.
fn check_iri(name: &'static str, iri: &str) -> Result<String, GenerateError> {
    let forbidden = |c: char| c <= ' ' || "<>\"{}|^`\\".contains(c);
    let scheme = iri.split(':').next().unwrap_or_default();
    let valid_scheme = scheme.len() < iri.len()
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if iri.contains(forbidden) || !valid_scheme {
        return Err(GenerateError::config(name, iri, "an absolute IRI"));
    }
    Ok(iri.to_owned())
}

/// Writes a part of the graph as N-Triples.
///
/// Writes in large pieces: the writer needs no buffer.
pub fn write_ntriples(
    config: &Config,
    part: Part,
    out: &mut impl Write,
) -> Result<Summary, GenerateError> {
    write_pieces(&mut Generator::new(config, part), out)
}

/// Returns a reader of a part of the graph as N-Triples.
pub fn reader(config: &Config, part: Part) -> TripleReader<Generator> {
    TripleReader::over(Generator::new(config, part))
}

/// Returns the expected number of triples of the whole graph.
///
/// The exact number is known only after the generation: [`Summary::triples`].
pub fn expected_triples(config: &Config) -> u64 {
    let (min, max) = config.possible_degrees();
    let degree = match config.shape {
        Shape::Uniform => f64::from(min) / 2.0 + f64::from(max) / 2.0,
        Shape::PowerLaw { exponent } => PowerLaw::new(exponent, min, max).mean(),
    };
    (config.nodes as f64 * (degree + f64::from(u8::from(config.labels)))).round() as u64
}

/// A generator of one part.
#[derive(Debug)]
pub struct Generator {
    config: Config,
    degrees: Degrees,
    endpoints: Endpoints,
    left: Range<u64>,
    neighbours: Neighbours,
    subject: Vec<u8>,
    predicate: Vec<u8>,
    object: Vec<u8>,
}

#[derive(Debug)]
enum Degrees {
    Uniform(u32, u32),
    PowerLaw(PowerLaw),
}

impl Generator {
    fn new(config: &Config, part: Part) -> Self {
        let (min, max) = config.possible_degrees();
        let (degrees, endpoints) = match config.shape {
            Shape::Uniform => (Degrees::Uniform(min, max), Endpoints::uniform(config.nodes)),
            Shape::PowerLaw { exponent } => (
                Degrees::PowerLaw(PowerLaw::new(exponent, min, max)),
                Endpoints::power_law(config.nodes, exponent, config.seed, Kind::Ranks as u64),
            ),
        };
        let range = part.of(u128::from(config.nodes));
        let own = |position: u128| u64::try_from(position).expect("at most the number of nodes");
        Self {
            degrees,
            endpoints,
            left: own(range.start)..own(range.end),
            neighbours: Neighbours::default(),
            subject: Vec::new(),
            predicate: format!("> <{}> <{}", config.predicate, config.namespace).into_bytes(),
            object: Vec::new(),
            config: config.clone(),
        }
    }

    fn node(&mut self, node: u64, out: &mut Vec<u8>) -> u64 {
        self.subject.clear();
        self.subject.push(b'<');
        self.subject
            .extend_from_slice(self.config.namespace.as_bytes());
        push_number(&mut self.subject, node);
        let mut triples = 0;
        if self.config.labels {
            self.label(node, out);
            triples += 1;
        }
        // The edge's line up to the number of the other node.
        self.subject.extend_from_slice(&self.predicate);
        let mut random = Stream::new(self.config.seed, Kind::Edges as u64, node);
        let degree = match &self.degrees {
            Degrees::Uniform(min, max) => random.between(*min, *max),
            Degrees::PowerLaw(degrees) => degrees.sample(&mut random),
        };
        self.neighbours.clear(degree);
        for _ in 0..degree {
            let neighbour =
                self.neighbours
                    .add(node, || self.endpoints.draw(&mut random), self.config.nodes);
            out.extend_from_slice(&self.subject);
            self.object.clear();
            push_number(&mut self.object, neighbour);
            self.object.extend_from_slice(b"> .\n");
            out.extend_from_slice(&self.object);
        }
        triples + u64::from(degree)
    }

    /// Appends a label of two words and the number: readable and unique.
    fn label(&self, node: u64, out: &mut Vec<u8>) {
        const LABEL: &[u8] = b"> <http://www.w3.org/2000/01/rdf-schema#label> \"";
        let mut random = Stream::new(self.config.seed, Kind::Label as u64, node);
        out.extend_from_slice(&self.subject);
        out.extend_from_slice(LABEL);
        Vocabulary::get().push_text(&mut random, 2, out);
        out.push(b' ');
        push_number(out, node);
        out.extend_from_slice(b"\" .\n");
    }
}

impl Pieces for Generator {
    fn next_piece(&mut self, out: &mut Vec<u8>) -> Option<u64> {
        let end = self
            .left
            .end
            .min(self.left.start.saturating_add(PIECE_NODES));
        if self.left.start >= end {
            return None;
        }
        let nodes = self.left.start..end;
        self.left.start = end;
        Some(nodes.map(|node| self.node(node, out)).sum())
    }
}

/// The neighbours of one node so far.
#[derive(Debug, Default)]
struct Neighbours {
    list: Vec<u64>,
    set: HashSet<u64>,
    hashed: bool,
}

impl Neighbours {
    fn clear(&mut self, degree: u32) {
        self.list.clear();
        self.set.clear();
        self.hashed = degree as usize > LINEAR_DEGREE_MAX;
    }

    /// Adds a node that is neither a neighbour yet nor the node itself. There must be one.
    fn add(&mut self, node: u64, mut draw: impl FnMut() -> u64, nodes: u64) -> u64 {
        let mut candidate = draw();
        let mut tries = 1;
        while candidate == node || !self.insert(candidate) {
            candidate = if tries < TRIES_MAX {
                draw()
            } else {
                (candidate + 1) % nodes
            };
            tries += 1;
        }
        candidate
    }

    fn insert(&mut self, node: u64) -> bool {
        if self.hashed {
            return self.set.insert(node);
        }
        let new = !self.list.contains(&node);
        if new {
            self.list.push(node);
        }
        new
    }
}

#[cfg(test)]
mod tests;
