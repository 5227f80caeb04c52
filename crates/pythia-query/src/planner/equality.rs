//! `FILTER(?a = ?b)` as a join.
//!
//! If one of the variables is bound only to IRIs or blank nodes, `=` is identity. Then both variables share a
//! slot while the patterns of the group are joined; the second variable is bound to its value afterwards.

use oxrdf::Variable;
use pythia_rdf::TermKind;
use pythia_sparql::scope::{term_variable, triple_variables};
use pythia_store::QuadPattern;
use spargebra::algebra::Expression;
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

use super::builder::Builder;
use super::group::{GroupFilter, Operands};
use super::{Planner, Planning};
use pythia_exec::error::QueryError;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::expression::SlotExpression;
use pythia_exec::plan::step::StepKind;

impl Planner<'_> {
    /// Lets variables share a slot if a filter says they are equal, and removes that filter.
    pub(super) fn unify_equal(
        &self,
        builder: &mut Builder,
        group: &Operands<'_>,
        filters: &mut Vec<GroupFilter<'_>>,
    ) -> Result<(), QueryError> {
        // The assembly of triple terms refers to variables by name.
        let has_triple_term = |t: &&TriplePattern| {
            [&t.subject, &t.object]
                .iter()
                .any(|term| matches!(term, TermPattern::Triple(_)))
        };
        if group.triples.iter().any(has_triple_term) {
            return Ok(());
        }
        let mut place = 0;
        while place < filters.len() {
            self.evaluation.check()?;
            if let Some((kept, other)) = self.unifiable(builder, group, &filters[place])? {
                builder.unify(kept, other);
                filters.remove(place);
            } else {
                place += 1;
            }
        }
        Ok(())
    }

    /// Binds the variables that shared the slot of another.
    pub(super) fn separate_unified(&self, builder: &mut Builder) -> Planning {
        for (other, kept) in builder.take_unified() {
            let rows = builder.known.rows;
            let copy = Expression::Variable(kept);
            let copy = SlotExpression::new(&copy, &builder.slots, &GraphScope::DEFAULT);
            let slot = builder.slot(&other);
            builder.push(StepKind::Bind(slot, copy), rows);
            builder.bind(slot, rows);
        }
        Ok(())
    }

    /// Returns the two variables of a filter that is true exactly if they are the same term. The first may be
    /// bound already, the second is not.
    fn unifiable(
        &self,
        builder: &Builder,
        group: &Operands<'_>,
        filter: &GroupFilter<'_>,
    ) -> Result<Option<(Variable, Variable)>, QueryError> {
        let (a, b, by_value) = match filter.expression {
            Expression::Equal(a, b) => (&**a, &**b, true),
            Expression::SameTerm(a, b) => (&**a, &**b, false),
            _ => return Ok(None),
        };
        let (Expression::Variable(a), Expression::Variable(b)) = (a, b) else {
            return Ok(None);
        };
        let matched = |v: &Variable| {
            group
                .triples
                .iter()
                .any(|t| triple_variables(t).contains(v))
        };
        let is_free = |v: &Variable| !builder.has_slot(v) && matched(v);
        let (kept, other) = match (is_free(a), is_free(b)) {
            (_, true) if a != b && (is_free(a) || builder.is_certain(a)) => (a, b),
            (true, false) if builder.is_certain(b) => (b, a),
            _ => return Ok(None),
        };
        if by_value && !self.is_resource(a, group)? && !self.is_resource(b, group)? {
            return Ok(None);
        }
        Ok(Some((kept.clone(), other.clone())))
    }

    /// Returns whether a pattern of the group binds the variable only to IRIs and blank nodes.
    fn is_resource(&self, variable: &Variable, group: &Operands<'_>) -> Result<bool, QueryError> {
        for triple in &group.triples {
            if self.binds_resource(variable, triple)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn binds_resource(
        &self,
        variable: &Variable,
        triple: &TriplePattern,
    ) -> Result<bool, QueryError> {
        let is_here = |term: &TermPattern| term_variable(term).as_ref() == Some(variable);
        if is_here(&triple.subject) {
            return Ok(true);
        }
        match &triple.predicate {
            NamedNodePattern::Variable(predicate) => Ok(predicate == variable),
            NamedNodePattern::NamedNode(predicate) if is_here(&triple.object) => {
                let Some(predicate) = self.id_of(&predicate.clone().into())? else {
                    return Ok(false);
                };
                let counts = self.counts();
                let is_resource = counts.predicate(predicate)?.is_some_and(|statistics| {
                    let mut kinds = statistics.object_kinds.iter();
                    kinds.all(|kind| matches!(kind, TermKind::Iri | TermKind::BlankNode))
                });
                if is_resource {
                    // A literal would be compared by its value.
                    counts.depend_on(&QuadPattern {
                        predicate: Some(predicate),
                        ..QuadPattern::default()
                    });
                }
                Ok(is_resource)
            }
            NamedNodePattern::NamedNode(_) => Ok(false),
        }
    }
}
