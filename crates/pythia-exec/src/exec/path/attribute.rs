//! Values of an attribute of the nodes that a closure of edges leads to. They are cached beside the edges, so those beside the
//! last edges are read: the lists of all nodes that the closure passes, in batches, and no tuple of its ends.

use pythia_rdf::TermId;
use pythia_store::{End, Expansion, GraphFilter};

use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::limits::governor::{Held, Working};
use crate::plan::automaton::{EdgeClosure, Edges};
use crate::plan::step::{EXPAND_NODES, EndAttribute, Position};

/// The values of an attribute at the ends of edges.
pub(super) struct EndValues {
    /// End and value, sorted and distinct.
    pairs: Vec<(u64, u64)>,
    _held: Held,
}

impl EndValues {
    /// Reads the values beside the edges that a step of `closure` follows from `nodes`.
    pub(super) fn read(
        context: &QueryContext,
        closure: EdgeClosure<'_>,
        attribute: EndAttribute,
        mut nodes: Vec<TermId>,
    ) -> Result<Self, QueryError> {
        nodes.sort_unstable();
        nodes.dedup();
        let cached = context.snapshot.attribute(attribute.predicate)?;
        let cached = cached.expect("the planner found it in this snapshot");
        let value = match attribute.value {
            Position::Constant(value) => GraphFilter::One(value),
            Position::Bound(_) | Position::New(_) => GraphFilter::Any,
        };
        let governor = context.governor();
        let (mut held, mut pairs) = (Held::new(governor), Vec::new());
        let mut distinct = EXPAND_NODES;
        let mut working = Working::new(governor);
        for step in closure.steps {
            let Edges::Predicate(predicate) = step.edges else {
                unreachable!("values are cached along predicates");
            };
            let end = match step.inverse {
                true => End::Object,
                false => End::Subject,
            };
            for nodes in nodes.chunks(EXPAND_NODES) {
                context.check()?;
                let mut links = Expansion::new(false, true).within(governor.clone() as _);
                cached.expand(end, nodes, predicate, value, &mut links)?;
                working.set(links.bytes())?;
                held.set((pairs.capacity() + links.len()) * size_of::<(u64, u64)>())?;
                pairs.extend(links.other.into_iter().zip(links.graph));
                // Many edges may lead to the same ends.
                if pairs.len() >= 2 * distinct {
                    sort_distinct(&mut pairs);
                    distinct = pairs.len().max(EXPAND_NODES);
                }
            }
        }
        sort_distinct(&mut pairs);
        held.set(pairs.capacity() * size_of::<(u64, u64)>())?;
        Ok(Self { pairs, _held: held })
    }

    /// Returns the values of an end, each with the end.
    pub(super) fn of(&self, end: u64) -> &[(u64, u64)] {
        let first = self.pairs.partition_point(|pair| pair.0 < end);
        let count = self.pairs[first..].partition_point(|pair| pair.0 == end);
        &self.pairs[first..first + count]
    }
}

fn sort_distinct(pairs: &mut Vec<(u64, u64)>) {
    pairs.sort_unstable();
    pairs.dedup();
}
