//! Property paths as automata: a path expression becomes states and transitions over predicates,
//! searched over the product with the graph (DESIGN §7).
//!
//! The automaton has no empty transitions. State 0 is the start.

use oxrdf::NamedNode;
use pythia_rdf::TermId;
use spargebra::algebra::PropertyPathExpression as Path;

/// Which edges a transition follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edges {
    /// Edges with this predicate.
    Predicate(TermId),
    /// Edges whose predicate is none of these (sorted).
    Except(Vec<TermId>),
}

/// One transition: follow edges, forward or backward, to a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    /// Which edges.
    pub(crate) edges: Edges,
    /// From object to subject.
    pub(crate) inverse: bool,
    /// The state reached.
    pub(crate) target: usize,
}

/// A property path compiled for one direction of search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Automaton {
    /// Per state, its transitions.
    pub(crate) transitions: Vec<Vec<Transition>>,
    /// Per state, whether a path may end there.
    pub(crate) accepting: Vec<bool>,
}

impl Automaton {
    /// Compiles a path. `resolve` gives a predicate's id, or `None` where the store does not have
    /// it: its edges then do not exist.
    pub(crate) fn compile<E>(
        path: &Path,
        resolve: &mut impl FnMut(&NamedNode) -> Result<Option<TermId>, E>,
    ) -> Result<Self, E> {
        let mut builder = Builder {
            resolve,
            empty: vec![Vec::new()],
            steps: vec![Vec::new()],
        };
        let end = builder.add(path, 0, false)?;
        Ok(builder.finish(end))
    }

    /// The automaton of the reversed path, for searching from the object.
    pub(crate) fn reversed(path: &Path) -> Path {
        Path::Reverse(Box::new(path.clone()))
    }

    /// Whether the empty path matches.
    pub(crate) fn accepts_empty(&self) -> bool {
        self.accepting[0]
    }
}

/// Thompson's construction; empty transitions are removed at the end.
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

    /// Adds the path from state `from`; returns the state where it ends.
    fn add(&mut self, path: &Path, from: usize, inverse: bool) -> Result<usize, E> {
        Ok(match path {
            Path::NamedNode(predicate) => {
                let to = self.state();
                if let Some(id) = (self.resolve)(predicate)? {
                    self.step(from, Edges::Predicate(id), inverse, to);
                }
                to
            }
            Path::NegatedPropertySet(predicates) => {
                let to = self.state();
                let mut ids = Vec::with_capacity(predicates.len());
                for predicate in predicates {
                    ids.extend((self.resolve)(predicate)?);
                }
                ids.sort_unstable();
                self.step(from, Edges::Except(ids), inverse, to);
                to
            }
            Path::Reverse(inner) => self.add(inner, from, !inverse)?,
            Path::Sequence(first, second) => {
                let (first, second) = if inverse {
                    (second, first)
                } else {
                    (first, second)
                };
                let middle = self.add(first, from, inverse)?;
                self.add(second, middle, inverse)?
            }
            Path::Alternative(a, b) => {
                let end_a = self.add(a, from, inverse)?;
                let end_b = self.add(b, from, inverse)?;
                let to = self.state();
                self.empty[end_a].push(to);
                self.empty[end_b].push(to);
                to
            }
            Path::ZeroOrOne(inner) => {
                let start = self.state();
                self.empty[from].push(start);
                let end = self.add(inner, start, inverse)?;
                self.empty[start].push(end);
                end
            }
            Path::OneOrMore(inner) | Path::ZeroOrMore(inner) => {
                let start = self.state();
                self.empty[from].push(start);
                let end = self.add(inner, start, inverse)?;
                self.empty[end].push(start);
                let to = self.state();
                self.empty[end].push(to);
                if matches!(path, Path::ZeroOrMore(_)) {
                    self.empty[start].push(to);
                }
                to
            }
        })
    }

    fn step(&mut self, from: usize, edges: Edges, inverse: bool, target: usize) {
        self.steps[from].push(Transition {
            edges,
            inverse,
            target,
        });
    }

    /// States reachable over empty transitions, itself included.
    fn closure(&self, state: usize) -> Vec<usize> {
        let mut reached = vec![state];
        let mut next = 0;
        while next < reached.len() {
            for &target in &self.empty[reached[next]] {
                if !reached.contains(&target) {
                    reached.push(target);
                }
            }
            next += 1;
        }
        reached
    }

    /// Removes empty transitions and the states that no longer can be reached, and merges states
    /// that behave alike, so that a search keeps as few (node, state) pairs as possible.
    fn finish(self, end: usize) -> Automaton {
        let mut numbers: Vec<usize> = vec![0];
        let mut transitions: Vec<Vec<Transition>> = Vec::new();
        let mut accepting = Vec::new();
        let mut next = 0;
        while next < numbers.len() {
            let closure = self.closure(numbers[next]);
            accepting.push(closure.contains(&end));
            let mut out: Vec<Transition> = Vec::new();
            for transition in closure.iter().flat_map(|&s| &self.steps[s]) {
                let target = match numbers.iter().position(|&n| n == transition.target) {
                    Some(number) => number,
                    None => {
                        numbers.push(transition.target);
                        numbers.len() - 1
                    }
                };
                let transition = Transition {
                    target,
                    ..transition.clone()
                };
                if !out.contains(&transition) {
                    out.push(transition);
                }
            }
            transitions.push(out);
            next += 1;
        }
        merge_equal_states(Automaton {
            transitions,
            accepting,
        })
    }
}

/// Repeatedly replaces a state by an earlier one with the same transitions and acceptance.
fn merge_equal_states(mut automaton: Automaton) -> Automaton {
    loop {
        let count = automaton.transitions.len();
        let twin = (1..count).find_map(|later| {
            (0..later)
                .find(|&earlier| {
                    automaton.accepting[earlier] == automaton.accepting[later]
                        && automaton.transitions[earlier] == automaton.transitions[later]
                })
                .map(|earlier| (earlier, later))
        });
        let Some((keep, drop)) = twin else {
            return automaton;
        };
        automaton.transitions.remove(drop);
        automaton.accepting.remove(drop);
        for transition in automaton.transitions.iter_mut().flatten() {
            if transition.target == drop {
                transition.target = keep;
            } else if transition.target > drop {
                transition.target -= 1;
            }
        }
        for out in &mut automaton.transitions {
            let mut seen: Vec<Transition> = Vec::with_capacity(out.len());
            for transition in out.drain(..) {
                if !seen.contains(&transition) {
                    seen.push(transition);
                }
            }
            *out = seen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pythia_rdf::TermKind;
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

    /// Whether the word (lower case forward, upper case backward) is accepted.
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
}
