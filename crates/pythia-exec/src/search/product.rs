//! The product's states: the automaton of a path expression. Forward, it is determinised lazily, so that each
//! sequence of edges is one run. Backward, it is used as it is, only for distances.

use rustc_hash::FxHashMap;

use crate::plan::automaton::{Automaton, Edges, Transition};

/// The automaton of a path expression, for both directions. State 0 is the start.
#[derive(Debug)]
pub(crate) struct Product {
    automaton: Automaton,
    /// Sets of automaton states, sorted, by deterministic state.
    subsets: Vec<Box<[u32]>>,
    numbers: FxHashMap<Box<[u32]>, u32>,
    accepting: Vec<bool>,
    moves: FxHashMap<(u32, u64, bool), Option<u32>>,
    /// For each state of the automaton, the transitions that lead to it, with their source as target.
    sources: Vec<Vec<Transition>>,
}

impl Product {
    pub(crate) fn new(automaton: Automaton) -> Self {
        let mut sources = vec![Vec::new(); automaton.transitions.len()];
        for (state, out) in automaton.transitions.iter().enumerate() {
            for transition in out {
                sources[transition.target].push(Transition {
                    target: state,
                    ..transition.clone()
                });
            }
        }
        let mut product = Self {
            automaton,
            subsets: Vec::new(),
            numbers: FxHashMap::default(),
            accepting: Vec::new(),
            moves: FxHashMap::default(),
            sources,
        };
        product.number(Box::new([0]));
        product
    }

    /// Returns whether a path may end in a deterministic state.
    pub(crate) fn accepts(&self, state: u32) -> bool {
        self.accepting[state as usize]
    }

    /// Returns the automaton's states in a deterministic state.
    pub(crate) fn subset(&self, state: u32) -> &[u32] {
        &self.subsets[state as usize]
    }

    /// Returns the automaton's accepting states.
    pub(crate) fn ends(&self) -> Vec<u32> {
        let states = 0..self.automaton.accepting.len();
        let ends = states.filter(|&state| self.automaton.accepting[state]);
        ends.map(|state| state as u32).collect()
    }

    /// Returns the state that an edge leads to from a deterministic state.
    pub(crate) fn follow(&mut self, state: u32, predicate: u64, inverse: bool) -> Option<u32> {
        let key = (state, predicate, inverse);
        if let Some(&known) = self.moves.get(&key) {
            return known;
        }
        let subset = self.subset(state).iter();
        let out = subset.flat_map(|&state| &self.automaton.transitions[state as usize]);
        let taken = out.filter(|transition| takes(transition, predicate, inverse));
        let mut targets: Vec<u32> = taken.map(|transition| transition.target as u32).collect();
        targets.sort_unstable();
        targets.dedup();
        let target = (!targets.is_empty()).then(|| self.number(targets.into()));
        self.moves.insert(key, target);
        target
    }

    /// Adds the automaton's states from which an edge leads to `state`.
    pub(crate) fn precede(&self, state: u32, predicate: u64, inverse: bool, out: &mut Vec<u32>) {
        let into = self.sources[state as usize].iter();
        let taken = into.filter(|transition| takes(transition, predicate, inverse));
        out.extend(taken.map(|transition| transition.target as u32));
        out.sort_unstable();
        out.dedup();
    }

    /// Returns the approximate number of bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let members: usize = self.subsets.iter().map(|subset| subset.len()).sum();
        self.moves.capacity() * 32 + self.subsets.len() * 96 + members * 8
    }

    fn number(&mut self, subset: Box<[u32]>) -> u32 {
        if let Some(&number) = self.numbers.get(&subset) {
            return number;
        }
        let number = self.subsets.len() as u32;
        let accepting = subset.iter();
        let accepting = accepting.map(|&state| self.automaton.accepting[state as usize]);
        self.accepting.push(accepting.fold(false, |a, b| a | b));
        self.subsets.push(subset.clone());
        self.numbers.insert(subset, number);
        number
    }
}

fn takes(transition: &Transition, predicate: u64, inverse: bool) -> bool {
    transition.inverse == inverse
        && match &transition.edges {
            Edges::Predicate(only) => only.0 == predicate,
            Edges::Except(except) => !except.iter().any(|other| other.0 == predicate),
        }
}
