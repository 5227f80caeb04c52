//! Property paths as automata: a path expression is compiled to states and transitions over predicates, and
//! searched over the product with the graph.
//!
//! The automaton has no empty transitions. State 0 is the start.

use oxrdf::NamedNode;
use pythia_rdf::TermId;
use pythia_store::{QuadPattern, StoreError};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use spargebra::algebra::PropertyPathExpression as Path;

use super::counts::Counts;
use super::path_search::Wanted;

/// The edges that a transition follows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub enum Edges {
    /// Edges with this predicate.
    Predicate(TermId),
    /// Edges with any predicate except these (sorted).
    Except(Vec<TermId>),
}

/// A transition: follows edges, forward or backward, to a state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub struct Transition {
    /// The edges to follow.
    pub edges: Edges,
    /// True if edges are followed from object to subject.
    pub inverse: bool,
    /// The state reached.
    pub target: usize,
}

impl Transition {
    /// Returns whether it follows edges of one predicate.
    pub fn has_predicate(&self) -> bool {
        matches!(self.edges, Edges::Predicate(_))
    }

    /// Estimates the number of edges that the transition may follow, and of nodes that they leave.
    pub fn counts(&self, counts: Counts<'_>) -> Result<(f64, f64), StoreError> {
        let (edges, subjects, objects) = match &self.edges {
            Edges::Predicate(predicate) => {
                let known = counts.predicate(*predicate)?;
                known.map_or((0.0, 0.0, 0.0), |p| {
                    (p.quads as f64, p.subjects as f64, p.objects as f64)
                })
            }
            Edges::Except(_) => counts.all(),
        };
        Ok(match self.inverse {
            false => (edges, subjects),
            true => (edges, objects),
        })
    }

    /// Returns the pattern of the edges that the transition may follow from a node, in all graphs. Includes
    /// excluded predicates.
    pub fn edges_of(&self, node: TermId) -> QuadPattern {
        let mut pattern = QuadPattern::default();
        if let Edges::Predicate(predicate) = self.edges {
            pattern.predicate = Some(predicate);
        }
        match self.inverse {
            false => pattern.subject = Some(node),
            true => pattern.object = Some(node),
        }
        pattern
    }
}

/// A property path compiled for one direction of search.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Automaton {
    /// Transitions of each state.
    pub transitions: Vec<Vec<Transition>>,
    /// Acceptance of each state.
    pub accepting: Vec<bool>,
}

impl Automaton {
    /// Compiles a path. `resolve` returns the id of a predicate, or `None` if the store does not have it;
    /// such edges do not exist.
    pub fn compile<E>(
        path: &Path,
        resolve: &mut impl FnMut(&NamedNode) -> Result<Option<TermId>, E>,
    ) -> Result<Self, E> {
        let mut builder = Builder {
            resolve,
            empty: vec![Vec::new()],
            steps: vec![Vec::new()],
        };
        let end = builder.state();
        builder.add(path, 0, end, false)?;
        Ok(builder.finish(end))
    }

    /// Returns the reversed path, for searching from the object.
    pub fn reversed(path: &Path) -> Path {
        Path::Reverse(Box::new(path.clone()))
    }

    /// Returns whether the empty path matches.
    pub fn accepts_empty(&self) -> bool {
        self.accepting[0]
    }

    /// Returns the automaton as `E*` or `E+`, where every transition of `E` is one edge, or `None` if it has
    /// another form.
    pub fn as_closure(&self) -> Option<EdgeClosure<'_>> {
        let last = self.transitions.len() - 1;
        let turns = |out: &[Transition]| out.iter().all(|transition| transition.target == last);
        let is_closure = last < 2
            && self.accepting[last]
            && self.transitions.iter().all(|out| turns(out))
            && self.transitions[0] == self.transitions[last]
            && (last == 0 || !self.accepting[0]);
        is_closure.then(|| EdgeClosure {
            steps: &self.transitions[last],
            reflexive: last == 0,
        })
    }

    /// Returns the edges that any state follows, forward or backward.
    pub fn wanted(&self, inverse: bool) -> Wanted {
        let all = self.transitions.iter().flatten();
        let mut predicates = Vec::new();
        for transition in all.filter(|transition| transition.inverse == inverse) {
            match &transition.edges {
                Edges::Predicate(predicate) => predicates.push(predicate.0),
                Edges::Except(_) => return Wanted::All,
            }
        }
        predicates.sort_unstable();
        predicates.dedup();
        if predicates.is_empty() {
            return Wanted::None;
        }
        Wanted::Some(predicates)
    }

    /// Returns the reversed transitions that lead to each state. A bidirectional search follows them from the
    /// end of a path.
    pub fn turned_around(&self) -> Vec<Vec<Transition>> {
        let mut turned = vec![Vec::new(); self.transitions.len()];
        for (state, out) in self.transitions.iter().enumerate() {
            for transition in out {
                turned[transition.target].push(Transition {
                    edges: transition.edges.clone(),
                    inverse: !transition.inverse,
                    target: state,
                });
            }
        }
        turned
    }
}

/// The closure of single edges.
#[derive(Clone, Copy, Debug)]
pub struct EdgeClosure<'a> {
    /// Edges that one step may follow.
    pub steps: &'a [Transition],
    /// True if the empty path is included.
    pub reflexive: bool,
}

/// Thompson's construction. Empty transitions are removed at the end.
struct Builder<'r, R> {
    resolve: &'r mut R,
    empty: Vec<Vec<usize>>,
    steps: Vec<Vec<Transition>>,
}

impl<E, R: FnMut(&NamedNode) -> Result<Option<TermId>, E>> Builder<'_, R> {
    fn state(&mut self) -> usize {
        self.empty.push(Vec::new());
        self.steps.push(Vec::new());
        self.steps.len() - 1
    }

    /// Adds the path from state `from` to state `to`. If both are the same state, the path may be repeated
    /// any number of times.
    fn add(&mut self, path: &Path, from: usize, to: usize, inverse: bool) -> Result<(), E> {
        match path {
            Path::NamedNode(predicate) => {
                if let Some(id) = (self.resolve)(predicate)? {
                    self.step(from, Edges::Predicate(id), inverse, to);
                }
            }
            Path::NegatedPropertySet(predicates) => {
                let mut ids = Vec::with_capacity(predicates.len());
                for predicate in predicates {
                    ids.extend((self.resolve)(predicate)?);
                }
                ids.sort_unstable();
                self.step(from, Edges::Except(ids), inverse, to);
            }
            Path::Reverse(inner) => self.add(inner, from, to, !inverse)?,
            Path::Sequence(first, second) => {
                let (first, second) = if inverse {
                    (second, first)
                } else {
                    (first, second)
                };
                let middle = self.state();
                self.add(first, from, middle, inverse)?;
                self.add(second, middle, to, inverse)?;
            }
            Path::Alternative(a, b) => {
                self.add(a, from, to, inverse)?;
                self.add(b, from, to, inverse)?;
            }
            Path::ZeroOrOne(inner) => {
                self.empty[from].push(to);
                self.add(inner, from, to, inverse)?;
            }
            Path::ZeroOrMore(inner) => {
                let turn = self.state();
                self.empty[from].push(turn);
                self.add(inner, turn, turn, inverse)?;
                self.empty[turn].push(to);
            }
            Path::OneOrMore(inner) => {
                let (start, end) = (self.state(), self.state());
                self.empty[from].push(start);
                self.add(inner, start, end, inverse)?;
                self.empty[end].extend([start, to]);
            }
        }
        Ok(())
    }

    fn step(&mut self, from: usize, edges: Edges, inverse: bool, target: usize) {
        self.steps[from].push(Transition {
            edges,
            inverse,
            target,
        });
    }

    /// Returns the states reachable over empty transitions, including `state`.
    fn closure(&self, state: usize) -> Vec<usize> {
        let mut seen = FxHashSet::from_iter([state]);
        let mut reached = vec![state];
        let mut next = 0;
        while next < reached.len() {
            for &target in &self.empty[reached[next]] {
                if seen.insert(target) {
                    reached.push(target);
                }
            }
            next += 1;
        }
        reached
    }

    /// Removes empty transitions and unreachable states, and merges equivalent states, so that a search keeps
    /// as few (node, state) pairs as possible.
    fn finish(self, end: usize) -> Automaton {
        let mut states: Vec<usize> = vec![0];
        let mut numbers: FxHashMap<usize, usize> = FxHashMap::from_iter([(0, 0)]);
        let mut transitions: Vec<Vec<Transition>> = Vec::new();
        let mut accepting = Vec::new();
        let mut next = 0;
        while next < states.len() {
            let closure = self.closure(states[next]);
            accepting.push(closure.contains(&end));
            let mut out: Vec<Transition> = Vec::new();
            for transition in closure.iter().flat_map(|&s| &self.steps[s]) {
                let target = *numbers.entry(transition.target).or_insert_with(|| {
                    states.push(transition.target);
                    states.len() - 1
                });
                out.push(Transition {
                    target,
                    ..transition.clone()
                });
            }
            out.sort_unstable();
            out.dedup();
            transitions.push(out);
            next += 1;
        }
        merge_equal_states(Automaton {
            transitions,
            accepting,
        })
    }
}

/// Replaces each state by the first with the same transitions and acceptance, until all differ.
fn merge_equal_states(mut automaton: Automaton) -> Automaton {
    loop {
        let mut first: FxHashMap<(&[Transition], bool), usize> = FxHashMap::default();
        let mut kept: Vec<usize> = Vec::new();
        let mut numbers: Vec<usize> = Vec::with_capacity(automaton.transitions.len());
        for (state, out) in automaton.transitions.iter().enumerate() {
            let number = *first
                .entry((out, automaton.accepting[state]))
                .or_insert_with(|| {
                    kept.push(state);
                    kept.len() - 1
                });
            numbers.push(number);
        }
        if kept.len() == automaton.transitions.len() {
            return automaton;
        }
        let renumbered = |state: &usize| {
            let mut out = automaton.transitions[*state].clone();
            for transition in &mut out {
                transition.target = numbers[transition.target];
            }
            out.sort_unstable();
            out.dedup();
            out
        };
        automaton = Automaton {
            transitions: kept.iter().map(renumbered).collect(),
            accepting: kept
                .iter()
                .map(|&state| automaton.accepting[state])
                .collect(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pythia_rdf::TermKind;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    fn p(name: &str) -> Box<Path> {
        Box::new(Path::NamedNode(NamedNode::new_unchecked(name)))
    }

    fn compile(path: &Path) -> Automaton {
        Automaton::compile::<Infallible>(path, &mut |node| {
            Ok((node.as_str() != "none")
                .then(|| TermId::new(TermKind::Iri, u64::from(node.as_str().as_bytes()[0]))))
        })
        .unwrap()
    }

    /// Returns whether the automaton accepts the word (lower case forward, upper case backward).
    fn accepts(automaton: &Automaton, word: &str) -> bool {
        let mut states = vec![0];
        for letter in word.bytes() {
            let id = TermId::new(TermKind::Iri, u64::from(letter.to_ascii_lowercase()));
            states = states
                .iter()
                .flat_map(|&s: &usize| &automaton.transitions[s])
                .filter(|t| t.inverse == letter.is_ascii_uppercase())
                .filter(|t| match &t.edges {
                    Edges::Predicate(p) => *p == id,
                    Edges::Except(ids) => !ids.contains(&id),
                })
                .map(|t| t.target)
                .collect();
        }
        states.iter().any(|&s| automaton.accepting[s])
    }

    #[test]
    fn one_or_more_is_one_or_more() {
        let automaton = compile(&Path::OneOrMore(p("a")));
        assert!(!accepts(&automaton, ""));
        assert!(accepts(&automaton, "a"));
        assert!(accepts(&automaton, "aaaa"));
        assert!(!accepts(&automaton, "A"));
        assert_eq!(automaton.transitions.len(), 2);
    }

    #[test]
    fn zero_or_more_needs_one_state() {
        let automaton = compile(&Path::ZeroOrMore(p("a")));
        assert!(automaton.accepts_empty());
        assert_eq!(automaton.transitions.len(), 1);
    }

    #[test]
    fn closures_of_single_edges_are_told_from_other_paths() {
        let sequence = || Box::new(Path::Sequence(p("a"), p("b")));
        let either = || Box::new(Path::Alternative(p("a"), Box::new(Path::Reverse(p("b")))));
        let closure = |path: Path| {
            let automaton = compile(&path);
            let found = automaton.as_closure();
            found.map(|closure| (closure.steps.len(), closure.reflexive))
        };
        assert_eq!(closure(Path::OneOrMore(p("a"))), Some((1, false)));
        assert_eq!(closure(Path::ZeroOrMore(either())), Some((2, true)));
        let optional = Path::ZeroOrOne(Box::new(Path::OneOrMore(either())));
        assert_eq!(closure(optional), Some((2, true)));
        assert_eq!(closure(Path::OneOrMore(p("none"))), None);
        assert_eq!(closure(Path::ZeroOrOne(p("a"))), None);
        assert_eq!(closure(Path::OneOrMore(sequence())), None);
        let then = Path::Sequence(Box::new(Path::OneOrMore(p("a"))), p("b"));
        assert_eq!(closure(then), None);
    }

    #[test]
    fn a_path_turned_around_reads_words_backwards() {
        let path = Path::Sequence(Box::new(Path::OneOrMore(p("a"))), p("b"));
        let automaton = compile(&path);
        let turned = automaton.turned_around();
        let count = |transitions: &[Vec<Transition>]| transitions.iter().flatten().count();
        assert_eq!(count(&turned), count(&automaton.transitions));
        for (state, out) in turned.iter().enumerate() {
            for transition in out {
                let forward = Transition {
                    edges: transition.edges.clone(),
                    inverse: !transition.inverse,
                    target: state,
                };
                assert!(automaton.transitions[transition.target].contains(&forward));
            }
        }
    }

    #[test]
    fn reverse_of_sequence_turns_it_around() {
        let path = Path::Reverse(Box::new(Path::Sequence(p("a"), p("b"))));
        let automaton = compile(&path);
        assert!(accepts(&automaton, "BA"));
        assert!(!accepts(&automaton, "AB"));
    }

    #[test]
    fn nested_closures() {
        let path = Path::OneOrMore(Box::new(Path::Sequence(
            p("a"),
            Box::new(Path::ZeroOrOne(Box::new(Path::Alternative(
                p("b"),
                Box::new(Path::Reverse(p("c"))),
            )))),
        )));
        let automaton = compile(&path);
        for word in ["a", "ab", "aC", "aCab", "aaab"] {
            assert!(accepts(&automaton, word), "{word}");
        }
        for word in ["", "b", "abb", "ac"] {
            assert!(!accepts(&automaton, word), "{word}");
        }
    }

    #[test]
    fn unknown_predicate_has_no_edges_and_negation_excepts() {
        assert!(!accepts(&compile(&Path::OneOrMore(p("none"))), "n"));
        let negated = compile(&Path::NegatedPropertySet(vec![NamedNode::new_unchecked(
            "a",
        )]));
        assert!(accepts(&negated, "b"));
        assert!(!accepts(&negated, "a"));
    }

    #[test]
    fn a_long_alternative_stays_one_step() {
        let names: Vec<String> = (0..3000)
            .map(|n| format!("{}{n}", (b'a' + (n % 3) as u8) as char))
            .collect();
        let path = names
            .iter()
            .map(|name| *p(name))
            .reduce(|a, b| Path::Alternative(Box::new(a), Box::new(b)));
        let automaton = compile(&Path::ZeroOrMore(Box::new(path.unwrap())));
        assert_eq!(automaton.transitions.len(), 1);
        assert_eq!(automaton.transitions[0].len(), 3);
    }

    /// Returns the positions in the word where a path that starts at `at` may end.
    fn ends(path: &Path, word: &[u8], at: usize) -> BTreeSet<usize> {
        let from_all = |path: &Path, starts: &BTreeSet<usize>| -> BTreeSet<usize> {
            starts.iter().flat_map(|&at| ends(path, word, at)).collect()
        };
        let closure = |path: &Path, mut reached: BTreeSet<usize>| loop {
            let more = &reached | &from_all(path, &reached);
            if more == reached {
                return reached;
            }
            reached = more;
        };
        match path {
            Path::NamedNode(node) => {
                let here = word.get(at) == Some(&node.as_str().as_bytes()[0]);
                here.then_some(at + 1).into_iter().collect()
            }
            Path::Sequence(a, b) => from_all(b, &ends(a, word, at)),
            Path::Alternative(a, b) => &ends(a, word, at) | &ends(b, word, at),
            Path::ZeroOrOne(a) => &ends(a, word, at) | &BTreeSet::from([at]),
            Path::ZeroOrMore(a) => closure(a, BTreeSet::from([at])),
            Path::OneOrMore(a) => closure(a, ends(a, word, at)),
            Path::Reverse(_) | Path::NegatedPropertySet(_) => unreachable!("not generated"),
        }
    }

    fn random_path(random: &mut StdRng, depth: u32) -> Path {
        let inner = |random: &mut StdRng| Box::new(random_path(random, depth - 1));
        match if depth == 0 {
            0
        } else {
            random.random_range(0..7)
        } {
            1 | 2 => Path::Sequence(inner(random), inner(random)),
            3 => Path::Alternative(inner(random), inner(random)),
            4 => Path::ZeroOrOne(inner(random)),
            5 => Path::ZeroOrMore(inner(random)),
            6 => Path::OneOrMore(inner(random)),
            _ => *p(["a", "b"][random.random_range(0..2)]),
        }
    }

    #[test]
    fn random_paths_accept_what_they_mean() {
        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..2000 {
            let path = random_path(&mut random, 4);
            let automaton = compile(&path);
            for number in 0..31_u32 {
                let length = (number + 1).ilog2();
                let letter = |bit: u32| {
                    if (number + 1) >> bit & 1 == 1 {
                        'a'
                    } else {
                        'b'
                    }
                };
                let word: String = (0..length).map(letter).collect();
                let meant = ends(&path, word.as_bytes(), 0).contains(&word.len());
                assert_eq!(accepts(&automaton, &word), meant, "{path} on {word:?}");
            }
        }
    }
}
