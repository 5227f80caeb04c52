//! Advice on auxiliary files: the reachability labels and cached attributes that a query would use if `pythia
//! optimize` had built them. Labels serve paths of one predicate between two known ends; cached attributes
//! serve nodes that are found by an edge.
//!
//! Only the query's text is examined. A term counts as known if it is a constant or occurs in another
//! pattern.

use oxrdf::NamedNode;
use pythia_sparql::Query;
use pythia_sparql::scope::visit_mut;
use rustc_hash::FxHashMap;
use spargebra::algebra::{GraphPattern, PropertyPathExpression as Path};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

/// Auxiliary files that a query would use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsefulIndexes {
    /// Predicates of paths `P+` and `P*` whose ends are known.
    pub reachability: Vec<NamedNode>,
    /// Attributes, each with the predicate of an edge to the nodes that have it.
    pub cached: Vec<(NamedNode, NamedNode)>,
}

impl UsefulIndexes {
    /// Returns the auxiliary files that a query would use, without duplicates.
    pub fn of(query: &Query) -> Self {
        let mut patterns = Patterns::default();
        let (spargebra::Query::Select { pattern, .. }
        | spargebra::Query::Construct { pattern, .. }
        | spargebra::Query::Describe { pattern, .. }
        | spargebra::Query::Ask { pattern, .. }) = query.algebra();
        visit_mut(&mut pattern.clone(), &mut |pattern| patterns.add(pattern));
        patterns.useful_indexes()
    }
}

/// Patterns of a query outside GRAPH.
#[derive(Default)]
struct Patterns {
    triples: Vec<TriplePattern>,
    paths: Vec<(TermPattern, Path, TermPattern)>,
    /// Number of patterns in which each non-constant term occurs.
    uses: FxHashMap<TermPattern, usize>,
}

impl Patterns {
    fn add(&mut self, pattern: &mut GraphPattern) {
        match pattern {
            // Named graphs are not optimized.
            GraphPattern::Graph { .. } => *pattern = GraphPattern::default(),
            GraphPattern::Bgp { patterns } => {
                for triple in patterns {
                    self.count(&triple.subject, &triple.object);
                    self.triples.push(triple.clone());
                }
            }
            GraphPattern::Path {
                subject,
                path,
                object,
            } => {
                self.count(subject, object);
                self.paths
                    .push((subject.clone(), path.clone(), object.clone()));
            }
            GraphPattern::Values { variables, .. } => {
                for variable in variables {
                    let variable = TermPattern::Variable(variable.clone());
                    *self.uses.entry(variable).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    fn count(&mut self, subject: &TermPattern, object: &TermPattern) {
        *self.uses.entry(subject.clone()).or_default() += 1;
        if subject != object {
            *self.uses.entry(object.clone()).or_default() += 1;
        }
    }

    /// Returns whether the term is a constant or occurs in more than `patterns` patterns.
    fn is_known(&self, term: &TermPattern, patterns: usize) -> bool {
        let is_constant = !matches!(term, TermPattern::Variable(_) | TermPattern::BlankNode(_));
        is_constant || self.uses.get(term).is_some_and(|uses| *uses > patterns)
    }

    fn useful_indexes(&self) -> UsefulIndexes {
        let mut indexes = UsefulIndexes::default();
        for (subject, path, object) in &self.paths {
            if let Some(predicate) = closure_of(path)
                && [subject, object].iter().all(|end| self.is_known(end, 1))
            {
                indexes.reachability.push(predicate.clone());
            }
        }
        for attribute in &self.triples {
            let NamedNodePattern::NamedNode(of) = &attribute.predicate else {
                continue;
            };
            for edge in &self.triples {
                let NamedNodePattern::NamedNode(along) = &edge.predicate else {
                    continue;
                };
                let known = match &attribute.subject {
                    TermPattern::NamedNode(_) => continue,
                    node if *node == edge.subject => &edge.object,
                    node if *node == edge.object => &edge.subject,
                    _ => continue,
                };
                if edge != attribute && *known != attribute.subject && self.is_known(known, 1) {
                    indexes.cached.push((of.clone(), along.clone()));
                }
            }
        }
        indexes.reachability.sort_unstable();
        indexes.reachability.dedup();
        indexes.cached.sort_unstable();
        indexes.cached.dedup();
        indexes
    }
}

/// Returns the predicate of a path that repeats a single predicate in one direction (one or more, zero or
/// more).
fn closure_of(path: &Path) -> Option<&NamedNode> {
    match path {
        Path::OneOrMore(inner) | Path::ZeroOrMore(inner) => match &**inner {
            Path::NamedNode(predicate) => Some(predicate),
            Path::Reverse(inner) => match &**inner {
                Path::NamedNode(predicate) => Some(predicate),
                _ => None,
            },
            _ => closure_of(inner),
        },
        Path::Reverse(inner) => closure_of(inner),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexes(text: &str) -> (Vec<String>, Vec<String>) {
        let query = Query::parse(&format!("PREFIX : <e:> {text}"), None).unwrap();
        let UsefulIndexes {
            reachability,
            cached,
        } = UsefulIndexes::of(&query);
        let names = reachability.into_iter().map(NamedNode::into_string);
        let pairs = cached.iter().map(|(of, along)| {
            let (of, along) = (of.as_str(), along.as_str());
            format!("{of} beside {along}")
        });
        (names.collect(), pairs.collect())
    }

    #[test]
    fn paths_between_known_ends_wish_for_labels() {
        for (text, labels) in [
            ("ASK { :a :p+ :b }", true),
            ("SELECT * { ?x :q ?y . ?y :p* :b }", true),
            ("SELECT * { ?x :q ?y . ?y ^:p+ ?x }", true),
            ("SELECT * { VALUES ?x { :a } ?x (^:p)* :b }", true),
            ("SELECT * { ?x :q/:p+ :b }", true),
            ("SELECT * { ?x :p+ :b }", false),
            ("SELECT * { ?x :q ?y . ?y :p+ ?z }", false),
            ("ASK { :a (:p|:q)+ :b }", false),
            ("ASK { GRAPH :g { :a :p+ :b } }", false),
        ] {
            let expected: &[&str] = if labels { &["e:p"] } else { &[] };
            assert_eq!(indexes(text).0, expected, "{text}");
        }
    }

    #[test]
    fn attributes_of_what_an_edge_finds_wish_to_be_cached() {
        for (text, cached) in [
            (
                "SELECT * { ?s :p :c . ?s :g :male }",
                &["e:g beside e:p"][..],
            ),
            ("SELECT * { :a :p ?o . ?o :g ?g }", &["e:g beside e:p"]),
            ("SELECT * { ?s :p ?o . ?s :g ?g }", &[]),
            (
                "SELECT * { :a :p ?o . ?o :g :m . ?o :q ?z }",
                &["e:g beside e:p", "e:q beside e:p"],
            ),
            ("SELECT * { ?s :p ?s . ?s :g ?g }", &[]),
            ("SELECT * { GRAPH :h { ?s :p :c . ?s :g :male } }", &[]),
        ] {
            let found = indexes(text).1;
            let contains = |wanted: &&&str| found.iter().any(|found| found == **wanted);
            assert!(
                cached.iter().all(|wanted| contains(&wanted)),
                "{text}: {found:?}"
            );
            assert_eq!(found.is_empty(), cached.is_empty(), "{text}: {found:?}");
        }
    }
}
