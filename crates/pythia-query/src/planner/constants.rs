//! `FILTER(?v = term)`, `FILTER(?v IN (...))` and `BIND(term AS ?v)` as constants of the patterns.
//!
//! A term takes the variable's place in the triple patterns of the group if `=` with the term is identity. The counts of
//! these patterns are then exact. The variable is bound to the term afterwards, or before if other operands of the group
//! mention it.

use std::borrow::Cow;

use hashbrown::HashSet;
use oxrdf::{NamedNode, Term, Variable};
use pythia_rdf::TermKind;
use pythia_sparql::scope::{Variables, mentioned, term_variables, triple_variables};
use spargebra::algebra::{Expression, Function, GraphPattern};
use spargebra::term::GroundTerm;

use super::Planner;
use super::builder::{Builder, StandIns};
use super::equality::equal_if_same;
use super::group::{GroupFilter, Operands};
use pythia_exec::error::QueryError;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::expression::SlotExpression;
use pythia_exec::plan::step::StepKind;

impl Planner<'_> {
    /// Lets terms take the place of variables that a filter or a BIND of the group says are these terms, and removes the
    /// filter or BIND. A filter that lists several terms becomes an operand; returns these filters.
    pub(super) fn substitute<'p>(
        &self,
        builder: &mut Builder,
        group: &mut Operands<'_>,
        filters: &mut Vec<GroupFilter<'p>>,
        graph: &GraphScope,
    ) -> Result<Vec<GroupFilter<'p>>, QueryError> {
        let mut listed = Vec::new();
        if group.has_triple_terms() {
            return Ok(listed);
        }
        let mut place = 0;
        while place < filters.len() {
            self.evaluation.check()?;
            let Some((variable, terms)) = self.listed(builder, group, filters[place].expression)?
            else {
                place += 1;
                continue;
            };
            if let [term] = &terms[..]
                && is_replaceable(builder, group, &variable, graph)
            {
                filters.remove(place);
                self.replace(builder, group, variable, term.clone());
            } else if is_listable(builder, group, &variable, graph) {
                listed.push(filters.remove(place));
                group.operands.push(Cow::Owned(values(variable, terms)));
            } else {
                place += 1;
            }
        }
        let mut place = 0;
        while place < group.rest.len() {
            match bound_term(group.rest[place]) {
                Some((variable, term)) if is_replaceable(builder, group, variable, graph) => {
                    group.rest.remove(place);
                    self.replace(builder, group, variable.clone(), term);
                }
                _ => place += 1,
            }
        }
        Ok(listed)
    }

    /// Binds the variables whose places terms have taken since then.
    pub(super) fn bind_substituted(&self, builder: &mut Builder, since: StandIns) {
        for (variable, term) in builder.take_substituted(since) {
            self.bind_term(builder, &variable, &term);
        }
    }

    fn replace(&self, builder: &mut Builder, group: &Operands<'_>, variable: Variable, term: Term) {
        let mut others = Variables::new();
        for pattern in &group.rest {
            mentioned(pattern, &mut others);
        }
        for pattern in &group.operands {
            mentioned(pattern, &mut others);
        }
        if others.contains(&variable) {
            self.bind_term(builder, &variable, &term);
        } else {
            builder.substitute(variable, term);
        }
    }

    /// Returns the terms of which a variable has one if the filter is true, and only then.
    fn listed(
        &self,
        builder: &Builder,
        group: &Operands<'_>,
        filter: &Expression,
    ) -> Result<Option<(Variable, Vec<Term>)>, QueryError> {
        let mut alternatives = Vec::new();
        if !add_terms(filter, &mut alternatives) {
            return Ok(None);
        }
        let Some((variable, ..)) = alternatives.first() else {
            return Ok(None);
        };
        let mut terms: Vec<Term> = Vec::with_capacity(alternatives.len());
        let mut known = HashSet::new();
        for (other, term, equality) in &alternatives {
            let is_listed = match equality {
                Equality::Same => true,
                Equality::OfValues => self.is_only(builder, group, variable, term)?,
                Equality::OfTexts => self.is_resource(builder, group, variable)?,
            };
            if other != variable || !is_listed {
                return Ok(None);
            }
            if known.insert(term) {
                terms.push(term.clone());
            }
        }
        Ok(Some(((*variable).clone(), terms)))
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

    /// Returns whether the variable cannot have literals.
    fn is_resource(
        &self,
        builder: &Builder,
        group: &Operands<'_>,
        variable: &Variable,
    ) -> Result<bool, QueryError> {
        let kinds = self.kinds(builder, group, variable)?;
        let is_resource = kinds.set.iter().all(|kind| !kind.is_literal());
        if is_resource {
            self.depend_on_kinds(kinds);
        }
        Ok(is_resource)
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

/// Returns whether only triple patterns of the group bind the variable.
fn is_replaceable(
    builder: &Builder,
    group: &Operands<'_>,
    variable: &Variable,
    graph: &GraphScope,
) -> bool {
    let mut ends = group.paths.iter().flat_map(|(s, _, o)| [*s, *o]);
    is_listable(builder, group, variable, graph)
        && !ends.any(|end| term_variables(end).contains(variable))
}

/// Returns whether triple patterns of the group bind the variable first.
fn is_listable(
    builder: &Builder,
    group: &Operands<'_>,
    variable: &Variable,
    graph: &GraphScope,
) -> bool {
    let is_graph = matches!(graph, GraphScope::Variable(graph) if graph == variable);
    let mut triples = group.triples.iter();
    !is_graph
        && !builder.is_bound(variable)
        && builder.substituted(variable).is_none()
        && triples.any(|triple| triple_variables(triple).contains(variable))
}

fn values(variable: Variable, terms: Vec<Term>) -> GraphPattern {
    let ground = |term: Term| match term {
        Term::NamedNode(node) => GroundTerm::NamedNode(node),
        Term::Literal(literal) => GroundTerm::Literal(literal),
        _ => unreachable!("other terms are no constants of expressions"),
    };
    GraphPattern::Values {
        variables: vec![variable],
        bindings: terms.into_iter().map(|t| vec![Some(ground(t))]).collect(),
    }
}

/// Comparison of a variable with a term in a filter.
enum Equality {
    /// `sameTerm`.
    Same,
    /// `=`.
    OfValues,
    /// `STR(?v) = "…"`, with the IRI's text.
    OfTexts,
}

/// Collects the variables and terms of a filter that is true only if one of the variables is equal to its term. Returns false
/// if the filter is not of this form.
fn add_terms<'f>(filter: &'f Expression, found: &mut Vec<(&'f Variable, Term, Equality)>) -> bool {
    let (a, b, equality) = match filter {
        Expression::Or(a, b) => return add_terms(a, found) && add_terms(b, found),
        Expression::In(variable, list) => {
            let Expression::Variable(variable) = &**variable else {
                return false;
            };
            let terms = list
                .iter()
                .map(|item| Some((variable, term_of(item)?, Equality::OfValues)));
            return match terms.collect::<Option<Vec<_>>>() {
                Some(terms) => {
                    found.extend(terms);
                    true
                }
                None => false,
            };
        }
        Expression::Equal(a, b) => (&**a, &**b, Equality::OfValues),
        Expression::SameTerm(a, b) => (&**a, &**b, Equality::Same),
        _ => return false,
    };
    if let (Expression::Variable(variable), other) | (other, Expression::Variable(variable)) =
        (a, b)
        && let Some(term) = term_of(other)
    {
        found.push((variable, term, equality));
        return true;
    }
    if let (Expression::FunctionCall(Function::Str, of), text)
    | (text, Expression::FunctionCall(Function::Str, of)) = (a, b)
        && let ([Expression::Variable(variable)], Some(iri)) = (&of[..], iri_of(text))
    {
        found.push((variable, iri, Equality::OfTexts));
        return true;
    }
    false
}

/// Returns the IRI with this text, if the text is one.
fn iri_of(text: &Expression) -> Option<Term> {
    match text {
        Expression::Literal(text) if text.datatype() == oxrdf::vocab::xsd::STRING => {
            NamedNode::new(text.value()).ok().map(Term::from)
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
