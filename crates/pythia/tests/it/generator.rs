//! Random graphs and random queries over them.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const PREDICATES: usize = 4;

/// A stream of random choices.
pub(crate) struct Generator {
    random: StdRng,
    nodes: usize,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let nodes = random.random_range(3..25);
        Self { random, nodes }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end)
    }

    fn node(&mut self) -> String {
        let n = self.below(self.nodes);
        format!("<http://e/n{n}>")
    }

    fn predicate(&mut self) -> String {
        let p = self.below(PREDICATES);
        format!("<http://e/p{p}>")
    }

    fn graph(&mut self) -> String {
        let g = self.below(3);
        format!("<http://e/g{g}>")
    }

    fn literal(&mut self) -> String {
        let xsd = "http://www.w3.org/2001/XMLSchema#";
        let n = self.below(6);
        match self.below(9) {
            0 | 1 => format!("\"{n}\"^^<{xsd}integer>"),
            // Oxigraph keeps numbers by value, so only canonical forms can be compared.
            2 | 3 => format!("\"{n}.5\"^^<{xsd}decimal>"),
            4 => format!("\"{n}.5\"^^<{xsd}double>"),
            5 => format!("\"text {n}\""),
            6 => format!("\"text {n}\"@en"),
            7 => format!("\"2020-01-0{}\"^^<{xsd}date>", n + 1),
            _ => format!("\"{}\"^^<{xsd}boolean>", n.is_multiple_of(2)),
        }
    }

    /// A random data set as N-Quads.
    pub(crate) fn data(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..self.random.random_range(0..120) {
            let subject = if self.chance(10) {
                format!("_:b{}", self.below(4))
            } else {
                self.node()
            };
            let predicate = self.predicate();
            let object = match self.below(10) {
                0..=5 => self.node(),
                6 => format!("_:b{}", self.below(4)),
                _ => self.literal(),
            };
            let graph = if self.chance(25) {
                self.graph()
            } else {
                String::new()
            };
            text.push_str(&format!("{subject} {predicate} {object} {graph} .\n"));
        }
        text
    }

    fn variable(&mut self) -> String {
        ["?a", "?b", "?c", "?d"]
            .choose(&mut self.random)
            .unwrap()
            .to_string()
    }

    fn subject(&mut self) -> String {
        if self.chance(20) {
            self.node()
        } else {
            self.variable()
        }
    }

    fn object(&mut self) -> String {
        match self.below(10) {
            0 | 1 => self.node(),
            2 => self.literal(),
            _ => self.variable(),
        }
    }

    fn path(&mut self, depth: u32) -> String {
        let kind = if depth == 0 { 0 } else { self.below(10) };
        match kind {
            0 | 1 => self.predicate(),
            2 => format!("^{}", self.path_primary(depth)),
            3 => format!("{}+", self.path_primary(depth)),
            4 => format!("{}*", self.path_primary(depth)),
            5 => format!("{}?", self.path_primary(depth)),
            6 => format!("{}/{}", self.path_primary(depth), self.path_primary(depth)),
            // An alternative counts each route, outside closures (SPARQL 1.1 §18.4); Oxigraph does
            // not.
            7 => format!(
                "({}|{})+",
                self.path_primary(depth),
                self.path_primary(depth)
            ),
            8 => format!("(!({}|^{}))+", self.predicate(), self.predicate()),
            _ => format!("!({}|{})", self.predicate(), self.predicate()),
        }
    }

    fn path_primary(&mut self, depth: u32) -> String {
        format!("({})", self.path(depth - 1))
    }

    fn triple(&mut self) -> String {
        match self.below(10) {
            0 => format!("{} {} {} .", self.subject(), self.variable(), self.object()),
            1 | 2 => self.path_pattern(),
            _ => format!(
                "{} {} {} .",
                self.subject(),
                self.predicate(),
                self.object()
            ),
        }
    }

    /// A path of length zero connects a constant with itself even if no quad has it (SPARQL 1.1
    /// §18.4); Oxigraph wants it in the graph. So paths that may be empty get variables.
    fn path_pattern(&mut self) -> String {
        let path = self.path(2);
        if !path.contains(['*', '?']) {
            return format!("{} {path} {} .", self.subject(), self.object());
        }
        let (from, mut to) = (self.variable(), self.variable());
        // A sequence that ends where it began counts routes too, which Oxigraph does not.
        while path.contains('/') && from == to {
            to = self.variable();
        }
        format!("{from} {path} {to} .")
    }

    fn expression(&mut self, depth: u32) -> String {
        let kind = if depth == 0 {
            self.below(3)
        } else {
            self.below(13)
        };
        let next = depth.saturating_sub(1);
        match kind {
            0 => self.variable(),
            1 => self.literal(),
            2 => self.node(),
            3..=6 => {
                let operator = ["=", "!=", "<", ">", "<=", ">="]
                    .choose(&mut self.random)
                    .unwrap()
                    .to_string();
                format!("({} {operator} {})", self.expression(0), self.expression(0))
            }
            7 => format!("({} && {})", self.expression(next), self.expression(next)),
            8 => format!("({} || {})", self.expression(next), self.expression(next)),
            9 => format!("(!{})", self.expression(next)),
            10 => format!("BOUND({})", self.variable()),
            11 => format!("ISIRI({})", self.variable()),
            _ => format!("({} + {})", self.expression(next), self.expression(next)),
        }
    }

    fn values(&mut self) -> String {
        let (a, b) = (self.variable(), self.variable());
        if a == b {
            return format!("VALUES {a} {{ {} {} }}", self.node(), self.node());
        }
        let undefined = if self.chance(30) {
            "UNDEF".to_owned()
        } else {
            self.node()
        };
        format!(
            "VALUES ({a} {b}) {{ ({} {}) ({undefined} {}) }}",
            self.node(),
            self.node(),
            self.node()
        )
    }

    fn group(&mut self, depth: u32) -> String {
        let mut text = String::new();
        for _ in 0..self.random.random_range(1..4) {
            text.push_str(&self.triple());
            text.push(' ');
        }
        if depth > 0 {
            for _ in 0..self.below(3) {
                let part = self.part(depth - 1);
                if self.chance(20) {
                    text.insert_str(0, &part);
                } else {
                    text.push_str(&part);
                }
                text.push(' ');
            }
        }
        text
    }

    fn part(&mut self, depth: u32) -> String {
        match self.below(12) {
            0..=2 => format!("OPTIONAL {{ {} }}", self.group(depth)),
            3 => format!(
                "{{ {} }} UNION {{ {} }}",
                self.group(depth),
                self.group(depth)
            ),
            4..=6 => format!("FILTER {}", self.filter()),
            7 => format!("MINUS {{ {} }}", self.group(depth)),
            8 => {
                let graph = if self.chance(50) {
                    self.graph()
                } else {
                    "?g".to_owned()
                };
                format!("GRAPH {graph} {{ {} }}", self.simple_group())
            }
            9 => self.values(),
            10 => format!("{{ {} }}", self.group(depth)),
            _ => format!("BIND({} AS ?x{})", self.expression(1), self.below(100_000)),
        }
    }

    /// A group without sub-queries and MINUS, for inside GRAPH.
    fn simple_group(&mut self) -> String {
        let mut text = self.triple();
        if self.chance(30) {
            text.push_str(&self.triple());
        }
        if self.chance(20) {
            text.push_str(&format!(" OPTIONAL {{ {} }}", self.triple()));
        }
        text
    }

    fn filter(&mut self) -> String {
        format!("({})", self.expression(2))
    }

    /// A random query. Its solutions are in no particular order.
    pub(crate) fn query(&mut self) -> String {
        let group = self.group(2);
        match self.below(10) {
            0 => format!("ASK {{ {group} }}"),
            1 => format!("CONSTRUCT {{ ?a <http://e/made> ?b . ?c ?b ?a }} WHERE {{ {group} }}"),
            2 => format!("SELECT DISTINCT ?a ?b WHERE {{ {group} }}"),
            3 => format!(
                "SELECT ?a (COUNT(?b) AS ?n) (SUM(?c) AS ?m) WHERE {{ {group} }} GROUP BY ?a"
            ),
            4 => format!("SELECT (COUNT(*) AS ?n) WHERE {{ {group} }}"),
            5 => format!(
                "SELECT ?a ?n WHERE {{ ?a <http://e/p0> ?d {{ SELECT ?a (COUNT(DISTINCT ?b) AS ?n) \
                 WHERE {{ {group} }} GROUP BY ?a }} }}"
            ),
            _ => format!("SELECT * WHERE {{ {group} }}"),
        }
    }
}
