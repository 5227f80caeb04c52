//! Path search by trying everything, on small graphs.

use std::collections::{BTreeMap, BTreeSet};

/// A step of a path: predicate, whether it is taken inversely, and the node it leads to.
pub(super) type Hop = (u8, bool, u8);

/// A path: its start and its steps.
pub(super) type Walk = (u8, Vec<Hop>);

/// A path expression over the predicates 0, 1, ….
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Predicate(u8),
    Inverse(Box<Expression>),
    Sequence(Box<Expression>, Box<Expression>),
    Either(Box<Expression>, Box<Expression>),
    Optional(Box<Expression>),
    Star(Box<Expression>),
    Plus(Box<Expression>),
}

impl Expression {
    /// As it is written in SPARQL.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Predicate(p) => format!("<http://e/p{p}>"),
            Self::Inverse(a) => format!("^({})", a.text()),
            Self::Sequence(a, b) => format!("({}/{})", a.text(), b.text()),
            Self::Either(a, b) => format!("({}|{})", a.text(), b.text()),
            Self::Optional(a) => format!("({})?", a.text()),
            Self::Star(a) => format!("({})*", a.text()),
            Self::Plus(a) => format!("({})+", a.text()),
        }
    }

    /// Where in the word a match that begins at `at` may end; inverted, if the expression is read
    /// from its end.
    fn ends(&self, word: &[Hop], at: usize, inverted: bool) -> BTreeSet<usize> {
        let all = |e: &Self, starts: &BTreeSet<usize>| -> BTreeSet<usize> {
            let ends = starts.iter().flat_map(|&at| e.ends(word, at, inverted));
            ends.collect()
        };
        let repeat = |e: &Self, mut reached: BTreeSet<usize>| loop {
            let more = &reached | &all(e, &reached);
            if more == reached {
                return reached;
            }
            reached = more;
        };
        match self {
            Self::Predicate(p) => {
                let taken = word
                    .get(at)
                    .is_some_and(|hop| (hop.0, hop.1) == (*p, inverted));
                taken.then_some(at + 1).into_iter().collect()
            }
            Self::Inverse(a) => a.ends(word, at, !inverted),
            Self::Sequence(a, b) => {
                let (first, second) = if inverted { (b, a) } else { (a, b) };
                all(second, &first.ends(word, at, inverted))
            }
            Self::Either(a, b) => &a.ends(word, at, inverted) | &b.ends(word, at, inverted),
            Self::Optional(a) => &a.ends(word, at, inverted) | &BTreeSet::from([at]),
            Self::Star(a) => repeat(a, BTreeSet::from([at])),
            Self::Plus(a) => repeat(a, a.ends(word, at, inverted)),
        }
    }

    fn matches(&self, word: &[Hop]) -> bool {
        self.ends(word, 0, false).contains(&word.len())
    }
}

/// A question.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) expression: Expression,
    pub(super) restrictor: &'static str,
    pub(super) length_min: usize,
    pub(super) length_max: Option<usize>,
    /// What a step that leads to a node costs, by the predicate and the node.
    pub(super) weight: Weight,
    /// A node that no step may lead to.
    pub(super) avoided: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    None,
    /// Of the node that a step leads to.
    Node,
    /// Of the predicate: one more than its number, twice that if inverse is not told apart.
    Predicate,
}

/// Edges (subject, predicate, object) without repetition, and the weights of nodes.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) edges: Vec<(u8, u8, u8)>,
    pub(super) weights: Vec<u32>,
}

impl Question {
    pub(super) fn cost(&self, graph: &Graph, walk: &Walk) -> u32 {
        let hop = |&(predicate, _, to): &Hop| match self.weight {
            Weight::None => 1,
            Weight::Node => graph.weights[usize::from(to)],
            Weight::Predicate => u32::from(predicate) + 1,
        };
        walk.1.iter().map(hop).sum()
    }

    /// All paths of at most `most` steps that the question allows, by their ends, cheapest first.
    pub(super) fn answers(
        &self,
        graph: &Graph,
        start: u8,
        most: usize,
    ) -> BTreeMap<u8, Vec<(u32, Walk)>> {
        let mut found: BTreeMap<u8, Vec<(u32, Walk)>> = BTreeMap::new();
        let mut walks: Vec<Walk> = vec![(start, Vec::new())];
        let most = self.length_max.unwrap_or(most).min(most);
        while let Some(walk) = walks.pop() {
            if walk.1.len() >= self.length_min && self.expression.matches(&walk.1) {
                let entry = (self.cost(graph, &walk), walk.clone());
                found.entry(end(&walk)).or_default().push(entry);
            }
            if walk.1.len() == most {
                continue;
            }
            let here = end(&walk);
            for &(subject, predicate, object) in &graph.edges {
                for (inverse, from, to) in [(false, subject, object), (true, object, subject)] {
                    let mut next = walk.clone();
                    next.1.push((predicate, inverse, to));
                    if from == here && Some(to) != self.avoided && self.allows(&next) {
                        walks.push(next);
                    }
                }
            }
        }
        found.values_mut().for_each(|paths| paths.sort());
        found
    }

    /// Whether the restrictor lets a walk pass; a simple one may go on only until it is back.
    fn allows(&self, (start, hops): &Walk) -> bool {
        let mut nodes = vec![*start];
        nodes.extend(hops.iter().map(|hop| hop.2));
        let distinct = |nodes: &[u8]| nodes.iter().collect::<BTreeSet<_>>().len() == nodes.len();
        match self.restrictor {
            "Acyclic" => distinct(&nodes),
            "Simple" => distinct(&nodes[1..]) && (distinct(&nodes) || nodes.last() == Some(start)),
            "Trail" => {
                let edges = hops
                    .iter()
                    .enumerate()
                    .map(|(place, &(predicate, inverse, to))| {
                        let from = nodes[place];
                        if inverse {
                            (to, predicate, from)
                        } else {
                            (from, predicate, to)
                        }
                    });
                edges.collect::<BTreeSet<_>>().len() == hops.len()
            }
            _ => true,
        }
    }
}

pub(super) fn end((start, hops): &Walk) -> u8 {
    hops.last().map_or(*start, |hop| hop.2)
}
