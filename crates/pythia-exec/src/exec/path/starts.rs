//! Start nodes of paths.

use std::ops::ControlFlow;

use pythia_rdf::TermId;
use pythia_store::{Component, GraphFilter, Order, QuadPattern};

use super::walk::push;
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::exec::several_graphs;
use crate::limits::governor::Held;
use crate::plan::automaton::{Automaton, Edges};

/// Returns whether a quad of the graphs has the term as subject or object.
pub(in crate::exec) fn is_node(
    context: &QueryContext,
    term: TermId,
    graphs: &[GraphFilter],
) -> Result<bool, QueryError> {
    let as_subject = QuadPattern {
        subject: Some(term),
        ..QuadPattern::default()
    };
    let as_object = QuadPattern {
        object: Some(term),
        ..QuadPattern::default()
    };
    Ok(
        several_graphs::has_match(context, graphs, &as_subject, Order::Spo)?
            || several_graphs::has_match(context, graphs, &as_object, Order::Ops)?,
    )
}

/// Returns every node that a path of the automaton can start at, sorted: all nodes of the graph if the
/// empty path matches, else the ends of the first edges.
pub(super) fn start_nodes(
    context: &QueryContext,
    automaton: &Automaton,
    graphs: &[GraphFilter],
    held: &mut Held,
) -> Result<Vec<TermId>, QueryError> {
    let mut nodes = Vec::new();
    let mut scan = |predicate: Option<TermId>, component: Component| -> Result<(), QueryError> {
        let order = match component {
            Component::Subject => [Order::Spo, Order::Pso],
            _ => [Order::Ops, Order::Pos],
        }[usize::from(predicate.is_some())];
        let pattern = QuadPattern {
            predicate,
            ..QuadPattern::default()
        };
        let wanted = [component];
        let _ = several_graphs::scan(context, graphs, &pattern, order, None, &wanted, |found| {
            for &node in &found.columns[0] {
                if nodes.last() != Some(&TermId(node)) {
                    push(&mut nodes, TermId(node), held)?;
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(())
    };
    if automaton.accepts_empty() {
        scan(None, Component::Subject)?;
        scan(None, Component::Object)?;
    } else {
        for transition in &automaton.transitions[0] {
            let component = if transition.inverse {
                Component::Object
            } else {
                Component::Subject
            };
            match &transition.edges {
                Edges::Predicate(predicate) => scan(Some(*predicate), component)?,
                Edges::Except(_) => scan(None, component)?,
            }
        }
    }
    nodes.sort_unstable();
    nodes.dedup();
    nodes.shrink_to_fit();
    held.set(nodes.capacity() * size_of::<TermId>())?;
    Ok(nodes)
}

/// Counts the edges that the first step of a path can follow, in all graphs.
pub(super) fn first_edges(
    context: &QueryContext,
    automaton: &Automaton,
) -> Result<u64, QueryError> {
    let mut edges = 0.0;
    for transition in &automaton.transitions[0] {
        edges += transition.counts(context.counts())?.0;
    }
    Ok(edges as u64)
}
