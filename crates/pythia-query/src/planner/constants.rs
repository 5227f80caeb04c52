//! `FILTER(?v = term)` and `BIND(term AS ?v)` as constants of the patterns.
//!
//! If `=` with the term is identity, the term takes the variable's place in the triple patterns of the group, whose counts
//! are then exact. The variable itself is bound to the term afterwards, or before if other operands of the group mention it.

use oxrdf::{Term, Variable};
use pythia_rdf::TermKind;
use pythia_sparql::scope::{Variables, mentioned, term_variables, triple_variables};
use spargebra::algebra::{Expression, GraphPattern};

use super::builder::Builder;
use super::equality::equal_if_same;
use super::group::{GroupFilter, Operands};
use super::{Planner, Planning};
use pythia_exec::error::QueryError;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::expression::SlotExpression;
use pythia_exec::plan::step::StepKind;

impl Planner<'_> {
    /// Lets terms take the place of variables that a filter or a BIND of the group says are these terms, and removes the
    /// filter or BIND.
    pub(super) fn substitute(
        &self,
        builder: &mut Builder,
        group: &mut Operands<'_>,
        filters: &mut Vec<GroupFilter<'_>>,
        graph: &GraphScope,
    ) -> Planning {
        if group.has_triple_terms() {
            return Ok(());
        }
        let mut place = 0;
        while place < filters.len() {
            self.evaluation.check()?;
            let found = match constant_of(filters[place].expression) {
                Some((variable, term, by_value))
                    if self.is_replaceable(builder, group, variable, graph)
                        && (!by_value || self.is_only(builder, group, variable, &term)?) =>
                {
                    Some((variable.clone(), term))
                }
                _ => None,
            };
            match found {
                Some((variable, term)) => {
                    filters.remove(place);
                    self.replace(builder, group, variable, term)?;
                }
                None => place += 1,
            }
        }
        let mut place = 0;
        while place < group.rest.len() {
            match bound_term(group.rest[place]) {
                Some((variable, term)) if self.is_replaceable(builder, group, variable, graph) => {
                    group.rest.remove(place);
                    self.replace(builder, group, variable.clone(), term)?;
                }
                _ => place += 1,
            }
        }
        Ok(())
    }

    /// Binds the variables whose places terms have taken.
    pub(super) fn bind_substituted(&self, builder: &mut Builder) -> Planning {
        for (variable, term) in builder.take_substituted() {
            self.bind_term(builder, &variable, &term);
        }
        Ok(())
    }

    fn replace(
        &self,
        builder: &mut Builder,
        group: &Operands<'_>,
        variable: Variable,
        term: Term,
    ) -> Result<(), QueryError> {
        let mut others = Variables::new();
        for pattern in &group.rest {
            mentioned(pattern, &mut others);
        }
        if others.contains(&variable) {
            self.bind_term(builder, &variable, &term);
        } else {
            builder.substitute(variable, term);
        }
        Ok(())
    }

    fn bind_term(&self, builder: &mut Builder, variable: &Variable, term: &Term) {
        let rows = builder.known.rows;
        let constant = match term {
            Term::NamedNode(node) => Expression::NamedNode(node.clone()),
            Term::Literal(literal) => Expression::Literal(literal.clone()),
            _ => unreachable!("other terms are no constants of expressions"),
        };
        let value = SlotExpression::new(&constant, &builder.slots, &GraphScope::DEFAULT);
        let slot = builder.slot(variable);
        builder.push(StepKind::Bind(slot, value), rows);
        builder.bind(slot, 1.0);
    }

    /// Returns whether only triple patterns of the group bind the variable.
    fn is_replaceable(
        &self,
        builder: &Builder,
        group: &Operands<'_>,
        variable: &Variable,
        graph: &GraphScope,
    ) -> bool {
        let is_graph = matches!(graph, GraphScope::Variable(graph) if graph == variable);
        let mut ends = group.paths.iter().flat_map(|(s, _, o)| [*s, *o]);
        let mut triples = group.triples.iter();
        !is_graph
            && !builder.has_slot(variable)
            && builder.substituted(variable).is_none()
            && triples.any(|triple| triple_variables(triple).contains(variable))
            && !ends.any(|end| term_variables(end).contains(variable))
    }

    /// Returns whether the term is the only one that the variable can have and that is equal to it.
    fn is_only(
        &self,
        builder: &Builder,
        group: &Operands<'_>,
        variable: &Variable,
        term: &Term,
    ) -> Result<bool, QueryError> {
        let kind = match term {
            Term::NamedNode(_) => TermKind::Iri,
            Term::Literal(literal) if literal.language().is_some() => TermKind::LangString,
            Term::Literal(literal) if literal.datatype() == oxrdf::vocab::xsd::STRING => {
                TermKind::String
            }
            other => match self.snapshot.resolve(other.as_ref())? {
                Some(id) => id.kind(),
                None => return Ok(false),
            },
        };
        let kinds = self.kinds(builder, group, variable)?;
        let is_only = kinds.set.iter().all(|other| equal_if_same(kind, other));
        if is_only {
            self.depend_on_kinds(kinds);
        }
        Ok(is_only)
    }
}

/// Returns the variable and the term of a filter that is true only if the variable has this term, or a term that is equal
/// to it if the last part is true.
fn constant_of(filter: &Expression) -> Option<(&Variable, Term, bool)> {
    let (a, b, by_value) = match filter {
        Expression::Equal(a, b) => (&**a, &**b, true),
        Expression::SameTerm(a, b) => (&**a, &**b, false),
        _ => return None,
    };
    match (a, b) {
        (Expression::Variable(variable), other) | (other, Expression::Variable(variable)) => {
            Some((variable, term_of(other)?, by_value))
        }
        _ => None,
    }
}

/// Returns the variable and the term of a BIND of a constant alone.
fn bound_term(pattern: &GraphPattern) -> Option<(&Variable, Term)> {
    match pattern {
        GraphPattern::Extend {
            inner,
            variable,
            expression,
        } => match &**inner {
            GraphPattern::Bgp { patterns } if patterns.is_empty() => {
                Some((variable, term_of(expression)?))
            }
            _ => None,
        },
        _ => None,
    }
}

fn term_of(expression: &Expression) -> Option<Term> {
    match expression {
        Expression::NamedNode(node) => Some(node.clone().into()),
        Expression::Literal(literal) => Some(literal.clone().into()),
        _ => None,
    }
}
