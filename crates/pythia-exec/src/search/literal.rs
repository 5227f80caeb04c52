//! Paths as terms: literals of the datatype `<urn:pythia:path#path>`.
//!
//! The lexical form alternates the path's nodes and predicates, in N-Triples syntax, separated by spaces. `^`
//! precedes a predicate whose edge is followed from object to subject: `<a> <knows> <b> ^<knows> <c>`. A path
//! without edges is a single node. `-` stands for the predicate if an edge of a pattern has none.

use std::str::FromStr;

use oxrdf::{Literal, NamedNode, NamedNodeRef, Term};

/// Datatype of paths.
pub const DATATYPE: NamedNodeRef<'static> = NamedNodeRef::new_unchecked("urn:pythia:path#path");

/// A path parsed from its literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Nodes, one more than edges.
    pub nodes: Vec<Term>,
    /// Edges; edge `i` leads from node `i` to node `i + 1`.
    pub edges: Vec<PathEdge>,
}

/// An edge of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEdge {
    /// Predicate; `None` if the edge is a solution of a pattern without a predicate.
    pub predicate: Option<NamedNode>,
    /// True if followed from object to subject.
    pub inverse: bool,
}

impl Path {
    /// Parses a term, and returns `None` if it is not a path.
    pub fn of_term(term: &Term) -> Option<Self> {
        match term {
            Term::Literal(literal) if literal.datatype() == DATATYPE => {
                Self::parse(literal.value())
            }
            _ => None,
        }
    }

    /// Draws the path in one line, with short names: `a ─knows→ b ←likes─ c`.
    pub fn drawing(&self) -> String {
        let mut drawing = Self::label(&self.nodes[0]);
        for (edge, node) in self.edges.iter().zip(&self.nodes[1..]) {
            let predicate = edge.predicate.clone().map(Term::from);
            let name = predicate.map_or_else(String::new, |predicate| Self::label(&predicate));
            let arrow = match edge.inverse {
                true => format!(" ←{name}─ "),
                false => format!(" ─{name}→ "),
            };
            drawing.push_str(&arrow);
            drawing.push_str(&Self::label(node));
        }
        drawing
    }

    /// Returns a short name of a term: the part of an IRI after the last `/`, `#` or `:`, or the text of a
    /// literal.
    pub fn label(term: &Term) -> String {
        match term {
            Term::NamedNode(node) => {
                let iri = node.as_str();
                let short = iri.trim_end_matches(['/', '#', ':']);
                let start = short.rfind(['/', '#', ':']).map_or(0, |at| at + 1);
                iri[start..].to_owned()
            }
            Term::Literal(literal) => literal.value().to_owned(),
            other => other.to_string(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut path = Self {
            nodes: Vec::new(),
            edges: Vec::new(),
        };
        for (place, part) in parts(text).into_iter().enumerate() {
            if place % 2 == 0 {
                path.nodes.push(Term::from_str(part).ok()?);
                continue;
            }
            let (inverse, predicate) = match part.strip_prefix('^') {
                Some(predicate) => (true, predicate),
                None => (false, part),
            };
            let predicate = match predicate {
                "-" => None,
                predicate => Some(NamedNode::from_str(predicate).ok()?),
            };
            path.edges.push(PathEdge { predicate, inverse });
        }
        (path.nodes.len() == path.edges.len() + 1).then_some(path)
    }
}

/// Returns the literal of a lexical form.
pub fn literal(lexical: String) -> Literal {
    Literal::new_typed_literal(lexical, DATATYPE)
}

/// Splits the text at spaces outside IRIs, strings and triple terms.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut in_iri, mut in_string) = (false, false);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        match rest[0] {
            b'\\' if in_string => at += 1,
            b'"' if !in_iri => in_string = !in_string,
            _ if in_string => {}
            b'>' if in_iri => in_iri = false,
            _ if in_iri => {}
            _ if rest.starts_with(b"<<(") => {
                depth += 1;
                at += 2;
            }
            _ if rest.starts_with(b")>>") => {
                depth = depth.saturating_sub(1);
                at += 2;
            }
            b'<' => in_iri = true,
            b' ' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_back() {
        let text = r#"<http://e/a> <http://e/p> "a \" <b> c"@en ^<http://e/q> <<( <http://e/s> <http://e/p> "x y" )>> - _:b1"#;
        let path = Path::of_term(&literal(text.to_owned()).into()).unwrap();
        assert_eq!(path.nodes.len(), 4);
        assert!(path.edges[1].inverse && !path.edges[0].inverse);
        assert_eq!(path.edges[2].predicate, None);
        assert!(path.drawing().starts_with("a ─p→ a \" <b> c ←q─ <<( "));
        let alone = Path::of_term(&literal("<http://e/a>".to_owned()).into()).unwrap();
        assert_eq!((alone.nodes.len(), alone.edges.len()), (1, 0));
        for wrong in ["", "<http://e/a> <http://e/p>", "a b c"] {
            assert_eq!(Path::of_term(&literal(wrong.to_owned()).into()), None);
        }
    }
}
