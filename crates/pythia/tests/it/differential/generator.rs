//! Random graphs and random queries over them. A query is lines that can be left out one by one
//! or block by block, which is how a failing one is cut down.
//!
//! Where Oxigraph answers otherwise than SPARQL says, or SPARQL lets engines differ, the
//! generator steers around it and says why.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const PREDICATES: usize = 4;

/// A stream of random choices.
pub(crate) struct Generator {
    random: StdRng,
    nodes: usize,
    /// Whether a triple may be in several graphs. Oxigraph counts it for each of several FROM,
    /// though their graphs are merged, so those queries get data without such triples.
    pub(super) repeats: bool,
    /// Whether predicates have objects of one kind each, so that equality of their values is identity.
    plain: bool,
    /// How many variables BIND has made in this query.
    pub(super) made: usize,
    /// How many variables that only one pattern has.
    pub(super) fresh: usize,
    /// Inside EXISTS. There a variable may stand for a term that is not in the graph, and Oxigraph
    /// treats that otherwise than a constant in a path that may be empty.
    in_exists: bool,
    /// Inside LATERAL. Like in EXISTS, a variable may stand for any term; and VALUES would assign a variable
    /// that has a value before it.
    in_lateral: bool,
    /// Inside a sub-query in LATERAL, which hides the variables that it does not project. Oxigraph's FILTERs and
    /// projected expressions there see the values of these variables around LATERAL (`lateral_leaves_other_variables_alone`).
    hides: bool,
    /// Inside GRAPH ?g. There Oxigraph's solutions have ?g already, which SPARQL adds in the end
    /// (§18.6): that shows in MINUS, sub-queries and uses of ?g.
    in_graph: bool,
}

pub(crate) type Lines = Vec<String>;

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let nodes = random.random_range(3..25);
        let repeats = random.random_bool(0.5);
        let plain = random.random_bool(0.3);
        Self {
            random,
            nodes,
            repeats,
            plain,
            made: 0,
            fresh: 0,
            in_exists: false,
            in_lateral: false,
            hides: false,
            in_graph: false,
        }
    }

    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end)
    }

    pub(crate) fn choose(&mut self, texts: &[&'static str]) -> &'static str {
        texts.choose(&mut self.random).expect("a choice")
    }

    pub(super) fn node(&mut self) -> String {
        let n = self.below(self.nodes);
        format!("<http://e/n{n}>")
    }

    pub(super) fn predicate(&mut self) -> String {
        let p = self.below(PREDICATES);
        format!("<http://e/p{p}>")
    }

    pub(super) fn graph(&mut self) -> String {
        let g = self.below(3);
        format!("<http://e/g{g}>")
    }

    pub(super) fn literal(&mut self) -> String {
        let xsd = "http://www.w3.org/2001/XMLSchema#";
        let n = self.below(6);
        match self.below(8) {
            0 | 1 => format!("\"{n}\"^^<{xsd}integer>"),
            // Oxigraph keeps numbers by value, so only canonical forms can be compared.
            2 | 3 => format!("\"{n}.5\"^^<{xsd}decimal>"),
            4 => format!("\"{n}.5\"^^<{xsd}double>"),
            5 => format!("\"text {n}\""),
            6 => format!("\"text {n}\"@en"),
            // No booleans: they have an order in SPARQL (§17.3), but none in Oxigraph.
            _ => format!("\"2020-01-0{}\"^^<{xsd}date>", n + 1),
        }
    }

    /// An object of the only kind that the predicate's objects have.
    fn plain_object(&mut self, predicate: &str) -> String {
        let n = self.below(6);
        match predicate {
            "<http://e/p0>" => format!("\"text {n}\""),
            "<http://e/p1>" => format!("\"{n}\"^^<http://www.w3.org/2001/XMLSchema#integer>"),
            "<http://e/p2>" => format!("\"text {n}\"@en"),
            _ => self.node(),
        }
    }

    /// A random data set, a quad a line.
    pub(crate) fn data(&mut self) -> Lines {
        let mut quads = Lines::new();
        let mut triples = std::collections::HashSet::new();
        for _ in 0..self.random.random_range(0..100) {
            let subject = match self.below(10) {
                0 => format!("_:b{}", self.below(4)),
                _ => self.node(),
            };
            let predicate = self.predicate();
            let object = match self.below(20) {
                _ if self.plain => self.plain_object(&predicate),
                0..=11 => self.node(),
                12 | 13 => format!("_:b{}", self.below(4)),
                14 => format!(
                    "<<( {} {} {} )>>",
                    self.node(),
                    self.predicate(),
                    self.node()
                ),
                _ => self.literal(),
            };
            let triple = format!("{subject} {predicate} {object}");
            let graph = match self.chance(35) {
                true => self.graph(),
                false => String::new(),
            };
            if triples.insert(triple.clone()) || self.repeats {
                quads.push(format!("{triple} {graph} ."));
            }
        }
        quads
    }

    pub(super) fn variable(&mut self) -> String {
        self.choose(&["?a", "?b", "?c", "?d"]).to_owned()
    }

    /// A variable of patterns or of BIND.
    pub(super) fn any_variable(&mut self) -> String {
        if self.made > 0 && self.chance(15) {
            return format!("?x{}", self.below(self.made));
        }
        self.variable()
    }

    fn subject(&mut self) -> String {
        if self.chance(20) {
            self.node()
        } else {
            self.variable()
        }
    }

    fn object(&mut self) -> String {
        match self.below(30) {
            0..=5 => self.node(),
            6..=8 => self.literal(),
            // In EXISTS a triple term may stand for the subject of one, which Oxigraph stumbles on.
            9 if !self.in_exists => format!(
                "<<( {} {} {} )>>",
                self.subject(),
                self.predicate(),
                self.variable()
            ),
            _ => self.variable(),
        }
    }

    fn path(&mut self, depth: u32) -> String {
        let kind = if depth == 0 { 0 } else { self.below(10) };
        match kind {
            0 | 1 => self.predicate(),
            2 => format!("^{}", self.path_primary(depth)),
            3 => format!("{}+", self.path_primary(depth)),
            4 if !self.in_exists => format!("{}*", self.path_primary(depth)),
            5 if !self.in_exists => format!("{}?", self.path_primary(depth)),
            6 => format!("{}/{}", self.path_primary(depth), self.path_primary(depth)),
            // An alternative counts each route, outside closures (SPARQL 1.1 §18.4); Oxigraph does
            // not.
            7 => format!(
                "({}|{})+",
                self.path_primary(depth),
                self.path_primary(depth)
            ),
            // A negated set counts triples; Oxigraph does not if it knows both ends.
            8 => format!("(!({}|^{}))+", self.predicate(), self.predicate()),
            _ => format!("(!({}|{}))+", self.predicate(), self.predicate()),
        }
    }

    fn path_primary(&mut self, depth: u32) -> String {
        format!("({})", self.path(depth - 1))
    }

    /// A path of length zero connects a constant with itself even if no quad has it (SPARQL 1.1
    /// §18.4); Oxigraph wants it in the graph. So paths that may be empty get variables. As they,
    /// and those that begin with a step back, may start at a literal, which Oxigraph's optimizer
    /// does not expect, filters cannot see the start unless it is the subject of a triple.
    fn path_pattern(&mut self) -> String {
        let path = self.path(2);
        if !path.contains(['*', '?', '^']) {
            return format!("{} {path} {} .", self.subject(), self.object());
        }
        self.fresh += 1;
        let from = format!("?start{}", self.fresh);
        let to = self.variable();
        match self.chance(50) {
            true => format!("{from} {path} {to} ."),
            false => format!(
                "{from} {} {} . {from} {path} {to} .",
                self.predicate(),
                self.variable()
            ),
        }
    }

    /// A triple pattern or path. The ends of a negated set are variables that nothing else binds.
    fn triple(&mut self) -> String {
        match self.below(20) {
            0 | 1 => format!("{} {} {} .", self.subject(), self.variable(), self.object()),
            2..=4 => self.path_pattern(),
            5 => {
                self.fresh += 1;
                let (first, second) = (self.predicate(), self.predicate());
                format!("?from{0} !({first}|{second}) ?to{0} .", self.fresh)
            }
            _ => format!(
                "{} {} {} .",
                self.subject(),
                self.predicate(),
                self.object()
            ),
        }
    }

    fn values(&mut self) -> String {
        let (a, b) = (self.variable(), self.variable());
        if a == b {
            return format!("VALUES {a} {{ {} {} }}", self.node(), self.literal());
        }
        let undefined = match self.chance(30) {
            true => "UNDEF".to_owned(),
            false => self.node(),
        };
        format!(
            "VALUES ({a} {b}) {{ ({} {}) ({undefined} {}) }}",
            self.node(),
            self.node(),
            self.node()
        )
    }

    /// Adds the elements of a group, between its braces.
    fn group(&mut self, depth: u32, lines: &mut Lines) {
        let start = lines.len();
        for _ in 0..self.random.random_range(1..4) {
            let triple = self.triple();
            lines.push(triple);
        }
        if depth == 0 {
            return;
        }
        for _ in 0..self.below(3) {
            let mut part = Lines::new();
            self.part(depth - 1, &mut part);
            // Oxigraph lets an OPTIONAL that begins a group see what is around the group.
            let may_begin = !part[0].starts_with("OPTIONAL");
            let place = match may_begin && self.chance(20) {
                true => start,
                false => lines.len(),
            };
            lines.splice(place..place, part);
        }
    }

    /// Adds `keyword {`, a group and `}`.
    pub(super) fn block(&mut self, keyword: &str, depth: u32, lines: &mut Lines) {
        lines.push(format!("{keyword} {{"));
        self.group(depth, lines);
        lines.push("}".to_owned());
    }

    fn part(&mut self, depth: u32, lines: &mut Lines) {
        match self.below(20) {
            0..=3 => self.block("OPTIONAL", depth, lines),
            4 => {
                self.block("", depth, lines);
                self.block("UNION", depth, lines);
            }
            5..=7 if !self.hides => {
                let condition = self.boolean(2);
                lines.push(format!("FILTER ({condition})"));
            }
            8 if !self.in_exists && !self.in_graph => self.block("MINUS", depth, lines),
            9 => self.graph_block(depth, lines),
            10 if !self.in_lateral => {
                let values = self.values();
                lines.push(values);
            }
            11 => self.block("", depth, lines),
            12 | 13 => {
                let expression = self.expression(2);
                lines.push(format!("BIND ({expression} AS ?x{})", self.made));
                self.made += 1;
            }
            14 | 15 if !self.hides => self.exists(depth, lines),
            16 if self.may_project() => self.sub_query(depth, lines),
            17 | 18 => self.lateral(depth, lines),
            _ => {
                let triple = self.triple();
                lines.push(triple);
            }
        }
    }

    fn graph_block(&mut self, depth: u32, lines: &mut Lines) {
        if self.in_graph || self.chance(50) {
            let graph = self.graph();
            return self.block(&format!("GRAPH {graph}"), depth, lines);
        }
        self.in_graph = true;
        self.block("GRAPH ?g", depth, lines);
        self.in_graph = false;
    }

    fn exists(&mut self, depth: u32, lines: &mut Lines) {
        let outer = std::mem::replace(&mut self.in_exists, true);
        let not = self.choose(&["", "NOT "]);
        match self.below(4) {
            0 => {
                let condition = self.boolean(1);
                self.block(&format!("FILTER ({condition} || {not}EXISTS"), depth, lines);
                *lines.last_mut().expect("a brace") = "} )".to_owned();
            }
            _ => self.block(&format!("FILTER {not}EXISTS"), depth, lines),
        }
        self.in_exists = outer;
    }

    /// Whether a sub-query can be compared here.
    fn may_project(&self) -> bool {
        (!self.in_exists || self.in_lateral) && !self.in_graph
    }

    fn lateral(&mut self, depth: u32, lines: &mut Lines) {
        let outer = (self.in_exists, self.in_lateral);
        (self.in_exists, self.in_lateral) = (true, true);
        match self.below(4) {
            0 | 1 if self.may_project() => {
                lines.push("LATERAL {".to_owned());
                self.sub_query(depth, lines);
                lines.push("}".to_owned());
            }
            2 => {
                lines.push("LATERAL {".to_owned());
                self.block("OPTIONAL", depth, lines);
                lines.push("}".to_owned());
            }
            _ => self.block("LATERAL", depth, lines),
        }
        (self.in_exists, self.in_lateral) = outer;
    }

    fn sub_query(&mut self, depth: u32, lines: &mut Lines) {
        self.fresh += 1;
        let number = self.fresh;
        let head = match self.below(4) {
            0 => "SELECT DISTINCT ?a ?b".to_owned(),
            1 => format!("SELECT ?a (COUNT(?b) AS ?n{number})"),
            2 => match self.expression(1) {
                _ if self.in_lateral => "SELECT ?a ?b ?c".to_owned(),
                expression => format!("SELECT ?a ({expression} AS ?y{number})"),
            },
            _ => "SELECT ?a ?c".to_owned(),
        };
        let is_grouped = head.contains("COUNT");
        lines.push("{".to_owned());
        let outer = std::mem::replace(&mut self.hides, self.in_lateral);
        self.block(&format!("{head} WHERE"), depth, lines);
        self.hides = outer;
        if is_grouped {
            lines.push("GROUP BY ?a".to_owned());
        }
        if self.chance(30) {
            // More than there are: which solutions come first is left to the engine.
            lines.push("OFFSET 0".to_owned());
        }
        lines.push("}".to_owned());
    }

    /// An aggregate that does not depend on the order of its group, nor on how values of several
    /// types compare.
    fn aggregate(&mut self) -> String {
        match self.below(9) {
            0 => "COUNT(*)".to_owned(),
            1 => format!("COUNT(DISTINCT {})", self.any_variable()),
            2 => format!("COUNT({})", self.any_variable()),
            3 => format!("SUM({})", self.any_variable()),
            4 => format!("SUM(DISTINCT {})", self.number(1)),
            5 => format!("AVG(COALESCE(xsd:decimal({}), 0))", self.any_variable()),
            6 => format!(
                "MIN(COALESCE(xsd:double({}), xsd:double(1)))",
                self.any_variable()
            ),
            7 => format!("MAX(STRLEN(STR({})))", self.any_variable()),
            _ => "COUNT(?b)".to_owned(),
        }
    }

    fn grouped(&mut self, lines: &mut Lines, dataset: &[String]) {
        let mut body = Lines::new();
        self.group(2, &mut body);
        let key = match self.below(5) {
            // The parser library refuses a variable by itself.
            0 => match self.expression(1) {
                variable if variable.starts_with('?') => format!("(STR({variable}) AS ?k)"),
                expression => format!("({expression} AS ?k)"),
            },
            1 => "?a ?b".to_owned(),
            _ => "?a".to_owned(),
        };
        let projected = match key.contains("?k)") {
            true => "?k".to_owned(),
            false => key.clone(),
        };
        lines.push(format!("SELECT {projected}"));
        for number in 0..self.random.random_range(1..3) {
            let aggregate = self.aggregate();
            lines.push(format!("({aggregate} AS ?m{number})"));
        }
        lines.extend(dataset.iter().cloned());
        lines.push("WHERE {".to_owned());
        lines.extend(body);
        lines.push("}".to_owned());
        lines.push(format!("GROUP BY {key}"));
        if self.chance(40) {
            let operator = self.choose(&[">", "<", "!="]);
            let aggregate = self.aggregate();
            lines.push(format!("HAVING ({aggregate} {operator} {})", self.below(4)));
        }
    }

    fn dataset(&mut self) -> Lines {
        let mut clauses = Lines::new();
        if !self.chance(15) {
            return clauses;
        }
        let several = if self.repeats { 1 } else { 3 };
        for _ in 0..self.below(several) + 1 {
            clauses.push(format!("FROM {}", self.graph()));
        }
        for _ in 0..self.below(3) {
            clauses.push(format!("FROM NAMED {}", self.graph()));
        }
        // Oxigraph evaluates each clause separately, so a graph named twice counts twice.
        clauses.sort();
        clauses.dedup();
        clauses
    }

    /// A random query. Its solutions are in no particular order, unless it begins its last line
    /// but one or its last with ORDER BY; then LIMIT and OFFSET may follow on the last line.
    pub(crate) fn query(&mut self) -> Lines {
        self.made = 0;
        let mut lines = vec!["PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>".to_owned()];
        let dataset = self.dataset();
        let head = match self.below(12) {
            0 => "ASK",
            1 => "CONSTRUCT { ?a <http://e/made> ?b . ?c ?b ?a }",
            2 => "SELECT DISTINCT ?a ?b",
            3 | 4 => {
                self.grouped(&mut lines, &dataset);
                return lines;
            }
            5 => "SELECT (COUNT(*) AS ?n)",
            6 => "SELECT ?a ?b ?c",
            7 => "SELECT DISTINCT ?c",
            _ => "SELECT *",
        };
        lines.push(head.to_owned());
        lines.extend(dataset);
        self.block("WHERE", 2, &mut lines);
        if ["SELECT ?a ?b ?c", "SELECT DISTINCT ?a ?b"].contains(&head) {
            self.modifiers(&mut lines);
        }
        lines
    }

    fn modifiers(&mut self, lines: &mut Lines) {
        let order = self.choose(&["?a", "DESC(?b)", "?b ?a", "DESC(?a) ?b", "?b DESC(?a)"]);
        lines.push(format!("ORDER BY {order}"));
        if self.chance(60) {
            lines.push(format!("LIMIT {} OFFSET {}", self.below(12), self.below(6)));
        }
    }
}
