//! The changes of one predicate.

use pythia_rdf::TermId;

use super::{ChangeStream, Delta};
use crate::StoreError;
use crate::pattern::{Component, GraphFilter, Order, QuadPattern};

/// An edge of the default graph that was added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangedEdge {
    pub(crate) subject: TermId,
    pub(crate) object: TermId,
    pub(crate) is_added: bool,
}

impl Delta {
    /// Returns how many quads of a predicate the runs add and remove, in all graphs. Needs no reads.
    pub(crate) fn changes_of(&self, predicate: TermId) -> u64 {
        let in_memory = self.runs.iter().filter_map(|run| run.predicate(predicate));
        // Of those that are not added, each lowers the balance by one.
        let in_memory = in_memory.map(|change| {
            let removed = change.added as i64 - change.quads;
            change.added + u64::try_from(removed).unwrap_or(0)
        });
        let on_device = self.device.iter().map(|run| run.predicate(predicate));
        let on_device = on_device.map(|(added, removed)| added + removed);
        in_memory.sum::<u64>() + on_device.sum::<u64>()
    }

    /// Returns the changed edges of a predicate in the default graph, sorted by subject and object.
    pub(crate) fn changed_edges(&self, predicate: TermId) -> Result<Vec<ChangedEdge>, StoreError> {
        let pattern = QuadPattern {
            predicate: Some(predicate),
            graph: GraphFilter::One(TermId::DEFAULT_GRAPH),
            ..QuadPattern::default()
        };
        let components = [Component::Subject, Component::Object];
        let Some(mut changes) = ChangeStream::new(self, &pattern, Order::Pso, None, &components)?
        else {
            return Ok(Vec::new());
        };
        let mut edges = Vec::new();
        while let Some(([subject, object, ..], sum)) = changes.next_until(None)? {
            if sum != 0 {
                edges.push(ChangedEdge {
                    subject: TermId(subject),
                    object: TermId(object),
                    is_added: sum > 0,
                });
            }
        }
        Ok(edges)
    }
}
