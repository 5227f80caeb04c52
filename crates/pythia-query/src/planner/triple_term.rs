//! Triple terms in patterns, and other work left after a pattern is joined.
//!
//! A triple term with inner variables, `<<( ?s :p ?o )>>`, is a variable of its own in its pattern. Once this
//! variable is bound, the term is taken apart; if its parts are bound first, the term is composed.

use oxrdf::{NamedOrBlankNode, Term, Triple, Variable};
use pythia_sparql::scope::{term_variable, term_variables};
use spargebra::algebra::{Expression, Function};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

use super::builder::Builder;
use super::element::PatternTerm;
use super::{PlanError, Planner};
use pythia_exec::error::QueryError;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::expression::SlotExpression;
use pythia_exec::plan::step::{GraphPosition, Position, SlotPattern, StepKind};

/// Work that follows a joined pattern.
pub(super) enum Unfinished {
    /// The quad was matched in all graphs, or all named graphs; it must be in a graph that is merged into the default
    /// graph, and each triple counts once.
    Merged([PatternTerm; 3], usize),
    /// The slot holds a graph found in the whole store; it must be in the dataset.
    Named(usize),
    /// The slot holds a triple term with these parts.
    TripleTerm {
        slot: usize,
        parts: [PatternTerm; 3],
        /// Expression that composes the term.
        composed: Expression,
    },
}

impl Planner<'_> {
    /// Returns the slot of a term in a pattern, or `None` if the term is constant.
    pub(super) fn slot_of(
        &self,
        builder: &mut Builder,
        term: &TermPattern,
        unfinished: &mut Vec<Unfinished>,
    ) -> Result<Option<usize>, PlanError> {
        let TermPattern::Triple(triple) = term else {
            return Ok(term_variable(term).map(|variable| builder.slot(&variable)));
        };
        if term_variables(term).is_empty() {
            return Ok(None);
        }
        let predicate = match &triple.predicate {
            NamedNodePattern::NamedNode(node) => TermPattern::NamedNode(node.clone()),
            NamedNodePattern::Variable(variable) => TermPattern::Variable(variable.clone()),
        };
        let mut parts = [PatternTerm::Slot(0); 3];
        for (part, term) in parts
            .iter_mut()
            .zip([&triple.subject, &predicate, &triple.object])
        {
            *part = match self.slot_of(builder, term, unfinished)? {
                Some(slot) => PatternTerm::Slot(slot),
                // It may be part of a term that only this query creates.
                None => PatternTerm::Constant(self.evaluation.intern(ground_term(term)?)?),
            };
        }
        let slot = builder.temporary_slot();
        unfinished.push(Unfinished::TripleTerm {
            slot,
            parts,
            composed: composed(triple),
        });
        Ok(Some(slot))
    }

    /// Does the work that has become possible.
    pub(super) fn finish_elements(
        &self,
        builder: &mut Builder,
        unfinished: &mut Vec<Unfinished>,
    ) -> Result<(), QueryError> {
        while let Some(place) = unfinished.iter().position(|u| u.is_ready(builder)) {
            match unfinished.remove(place) {
                Unfinished::Merged(places, graph) => {
                    let [subject, predicate, object] = places.map(bound_position);
                    let pattern = SlotPattern {
                        subject,
                        predicate,
                        object,
                        graph: GraphPosition::Bound(graph),
                    };
                    let rows = builder.known.rows;
                    builder.push(StepKind::Merged(pattern), rows);
                }
                Unfinished::Named(graph) => self.push_graphs(builder, graph),
                Unfinished::TripleTerm { slot, parts, .. }
                    if builder.known.certain.contains(&slot) =>
                {
                    take_apart(builder, slot, parts);
                }
                Unfinished::TripleTerm { slot, composed, .. } => {
                    self.put_together(builder, slot, &composed)?;
                }
            }
        }
        Ok(())
    }

    fn put_together(
        &self,
        builder: &mut Builder,
        slot: usize,
        composed: &Expression,
    ) -> Result<(), QueryError> {
        let rows = builder.known.rows;
        let term = SlotExpression::new(composed, &builder.slots, &GraphScope::DEFAULT);
        builder.push(StepKind::Bind(slot, term), rows);
        // Parts that form no triple, such as a literal as subject, match nothing.
        let is_made = Expression::Bound(builder.slots[slot].clone());
        let is_made = SlotExpression::new(&is_made, &builder.slots, &GraphScope::DEFAULT);
        builder.push(StepKind::Filter(is_made), rows);
        builder.bind(slot, rows);
        Ok(())
    }
}

impl Unfinished {
    fn is_ready(&self, builder: &Builder) -> bool {
        let is_bound = |place: &PatternTerm| match place {
            PatternTerm::Constant(_) => true,
            PatternTerm::Slot(slot) => builder.known.certain.contains(slot),
        };
        match self {
            Self::Merged(places, graph) => {
                builder.known.certain.contains(graph) && places.iter().all(is_bound)
            }
            Self::Named(graph) => builder.known.certain.contains(graph),
            Self::TripleTerm { slot, parts, .. } => {
                builder.known.certain.contains(slot) || parts.iter().all(is_bound)
            }
        }
    }
}

fn bound_position(place: PatternTerm) -> Position {
    match place {
        PatternTerm::Constant(id) => Position::Constant(id),
        PatternTerm::Slot(slot) => Position::Bound(slot),
    }
}

fn take_apart(builder: &mut Builder, slot: usize, parts: [PatternTerm; 3]) {
    let rows = builder.known.rows;
    let mut equal = Vec::new();
    let mut taken: Vec<usize> = Vec::new();
    let parts = parts.map(|part| match part {
        PatternTerm::Constant(id) => Position::Constant(id),
        PatternTerm::Slot(part) if builder.known.certain.contains(&part) => Position::Bound(part),
        PatternTerm::Slot(part) if taken.contains(&part) => {
            let temporary = builder.temporary_slot();
            equal.push((part, temporary));
            Position::New(temporary)
        }
        PatternTerm::Slot(part) => {
            taken.push(part);
            Position::New(part)
        }
    });
    builder.push(StepKind::TakeApart(slot, parts), rows);
    for part in parts {
        if let Position::New(part) = part {
            builder.bind(part, rows);
        }
    }
    for (a, b) in equal {
        builder.push(StepKind::Equal(a, b), rows * 0.1);
    }
}

/// Returns the expression that composes the triple term.
fn composed(triple: &TriplePattern) -> Expression {
    let predicate = match &triple.predicate {
        NamedNodePattern::NamedNode(node) => Expression::NamedNode(node.clone()),
        NamedNodePattern::Variable(variable) => Expression::Variable(variable.clone()),
    };
    let parts = vec![part(&triple.subject), predicate, part(&triple.object)];
    Expression::FunctionCall(Function::Triple, parts)
}

fn part(term: &TermPattern) -> Expression {
    match term {
        TermPattern::NamedNode(node) => Expression::NamedNode(node.clone()),
        TermPattern::Literal(literal) => Expression::Literal(literal.clone()),
        TermPattern::Triple(triple) => composed(triple),
        TermPattern::Variable(variable) => Expression::Variable(variable.clone()),
        TermPattern::BlankNode(_) => {
            let variable: Option<Variable> = term_variable(term);
            Expression::Variable(variable.expect("a blank node of a pattern is a variable"))
        }
    }
}

/// Returns the term of a pattern without variables.
pub(super) fn ground_term(pattern: &TermPattern) -> Result<Term, QueryError> {
    Ok(match pattern {
        TermPattern::NamedNode(node) => node.clone().into(),
        TermPattern::Literal(literal) => literal.clone().into(),
        TermPattern::Triple(triple) => {
            let subject: NamedOrBlankNode = match ground_term(&triple.subject)? {
                Term::NamedNode(node) => node.into(),
                Term::BlankNode(node) => node.into(),
                _ => {
                    return Err(QueryError::unsupported(
                        "a literal as the subject of a triple term",
                    ));
                }
            };
            let NamedNodePattern::NamedNode(predicate) = &triple.predicate else {
                unreachable!("a term with a variable inside has a slot");
            };
            let object = ground_term(&triple.object)?;
            Triple::new(subject, predicate.clone(), object).into()
        }
        TermPattern::Variable(_) | TermPattern::BlankNode(_) => {
            unreachable!("variables have a slot")
        }
    })
}
