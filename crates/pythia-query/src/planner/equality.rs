//! `FILTER(?a = ?b)` as a join.
//!
//! If the variables are bound only to terms of such kinds that equal values are the same term (IRIs, strings, integers),
//! both share a slot while the patterns of the group are joined; the second variable is bound to its value afterwards.

use oxrdf::vocab::rdf;
use oxrdf::{Literal, NamedNode, Variable};
use pythia_rdf::TermKind;
use pythia_sparql::scope::{Variables, mentioned, term_variable, triple_variables};
use pythia_store::QuadPattern;
use spargebra::algebra::{Expression, Function};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

use super::Planner;
use super::builder::{Builder, StandIns};
use super::element::Kinds;
use super::group::{GroupFilter, Operands};
use pythia_exec::error::QueryError;
use pythia_exec::expression::id_set::always;
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
        if group.has_triple_terms() {
            return Ok(());
        }
        let mut in_operands = Variables::new();
        for operand in &group.operands {
            mentioned(operand, &mut in_operands);
        }
        let mut place = 0;
        while place < filters.len() {
            self.evaluation.check()?;
            let found = self.unifiable(builder, group, &filters[place], &in_operands)?;
            if let Some((kept, other)) = found {
                builder.unify(kept, other);
                filters.remove(place);
            } else {
                place += 1;
            }
        }
        Ok(())
    }

    /// Binds the variables that have shared the slot of another since then.
    pub(super) fn separate_unified(&self, builder: &mut Builder, since: StandIns) {
        for (other, kept) in builder.take_unified(since) {
            let rows = builder.known.rows;
            let copy = Expression::Variable(kept);
            let copy = SlotExpression::new(&copy, &builder.slots, &GraphScope::DEFAULT);
            let slot = builder.slot(&other);
            builder.push(StepKind::Bind(slot, copy), rows);
            builder.bind(slot, rows);
        }
    }

    /// Returns the two variables of a filter that is true exactly if they are the same term. The first may be
    /// bound already, the second is not.
    fn unifiable(
        &self,
        builder: &Builder,
        group: &Operands<'_>,
        filter: &GroupFilter<'_>,
        in_operands: &Variables,
    ) -> Result<Option<(Variable, Variable)>, QueryError> {
        let Some((a, b, by_value)) = equal_variables(filter.expression) else {
            return Ok(None);
        };
        let matched = |v: &Variable| {
            group
                .triples
                .iter()
                .any(|t| triple_variables(t).contains(v))
        };
        let is_free = |v: &Variable| {
            !builder.has_slot(v)
                && builder.substituted(v).is_none()
                && matched(v)
                && !in_operands.contains(v)
        };
        let is_kept = |v: &Variable| {
            builder.is_certain(v)
                || (!builder.is_bound(v) && builder.substituted(v).is_none() && matched(v))
        };
        let (kept, other) = match (is_free(a), is_free(b)) {
            (_, true) if a != b && is_kept(a) => (a, b),
            (true, false) if is_kept(b) => (b, a),
            _ => return Ok(None),
        };
        if by_value && !self.is_identity(builder, group, a, b)? {
            return Ok(None);
        }
        Ok(Some((kept.clone(), other.clone())))
    }

    /// Returns whether `=` is true of the terms of two variables exactly if they are the same term.
    pub(super) fn is_identity(
        &self,
        builder: &Builder,
        group: &Operands<'_>,
        a: &Variable,
        b: &Variable,
    ) -> Result<bool, QueryError> {
        let (a, b) = (
            self.kinds(builder, group, a)?,
            self.kinds(builder, group, b)?,
        );
        let one = |a| b.set.iter().all(|b| equal_if_same(a, b));
        if !a.set.iter().all(one) {
            return Ok(false);
        }
        self.depend_on_kinds(a);
        self.depend_on_kinds(b);
        Ok(true)
    }

    /// Records that the answer depends on the kinds: a later literal of another kind would be compared by its value.
    pub(super) fn depend_on_kinds(&self, kinds: Kinds) {
        if kinds.predicate.is_some() {
            self.counts().depend_on(&QuadPattern {
                predicate: kinds.predicate,
                ..QuadPattern::default()
            });
        }
    }

    /// Removes tests of a term's kind that all terms of a predicate's subjects or objects pass, and tests that another filter
    /// implies.
    pub(super) fn drop_true(
        &self,
        group: &Operands<'_>,
        filters: &mut Vec<GroupFilter<'_>>,
    ) -> Result<(), QueryError> {
        let mut place = 0;
        while place < filters.len() {
            let filter = filters[place].expression;
            let is_implied = filters
                .iter()
                .any(|other| implies(other.expression, filter));
            if is_implied || self.is_always(group, filter, true)? {
                filters.remove(place);
            } else {
                place += 1;
            }
        }
        Ok(())
    }

    /// Returns whether a filter of a group is true for no solution, whatever the patterns match. An error is not true.
    pub(super) fn has_contradiction(
        &self,
        builder: &Builder,
        group: &Operands<'_>,
        filters: &[GroupFilter<'_>],
    ) -> Result<bool, QueryError> {
        for filter in filters {
            if self.is_contradiction(builder, group, filter)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_contradiction(
        &self,
        builder: &Builder,
        group: &Operands<'_>,
        filter: &GroupFilter<'_>,
    ) -> Result<bool, QueryError> {
        let Expression::Not(inner) = filter.expression else {
            return self.is_always(group, filter.expression, false);
        };
        if let Expression::Bound(variable) = &**inner {
            return Ok(filter.waits_for.contains(variable));
        }
        match equal_variables(inner) {
            Some((a, b, _)) if a != b || !filter.waits_for.contains(a) => Ok(false),
            // NaN is not equal to itself.
            Some((a, _, true)) => self.is_identity(builder, group, a, a),
            Some(_) => Ok(true),
            None => self.is_always(group, filter.expression, false),
        }
    }

    /// Returns whether a test of a term's kind passes, or does not pass, for all terms that a pattern allows.
    fn is_always(
        &self,
        group: &Operands<'_>,
        filter: &Expression,
        passes: bool,
    ) -> Result<bool, QueryError> {
        let (filter, passes) = match filter {
            Expression::Not(inner) => (&**inner, !passes),
            filter => (filter, passes),
        };
        let Expression::FunctionCall(function, arguments) = filter else {
            return Ok(false);
        };
        let [Expression::Variable(variable)] = &arguments[..] else {
            return Ok(false);
        };
        for triple in &group.triples {
            let kinds = match self.subject_kinds(variable, triple)? {
                Some(kinds) => kinds,
                None => self.kinds_in(variable, triple)?,
            };
            if always(passes, function, kinds.set) {
                self.depend_on_kinds(kinds);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the kinds of the subjects of a pattern's predicate, if the variable is the subject.
    fn subject_kinds(
        &self,
        variable: &Variable,
        triple: &TriplePattern,
    ) -> Result<Option<Kinds>, QueryError> {
        let NamedNodePattern::NamedNode(predicate) = &triple.predicate else {
            return Ok(None);
        };
        if term_variable(&triple.subject).as_ref() != Some(variable) {
            return Ok(None);
        }
        let Some(predicate) = self.id_of(&predicate.clone().into())? else {
            return Ok(None);
        };
        let statistics = self.counts().predicate(predicate)?;
        Ok(statistics.map(|statistics| Kinds {
            set: statistics.subject_kinds,
            predicate: Some(predicate),
        }))
    }

    /// Returns the kinds of a variable's terms, according to the pattern that allows the fewest.
    pub(super) fn kinds(
        &self,
        builder: &Builder,
        group: &Operands<'_>,
        variable: &Variable,
    ) -> Result<Kinds, QueryError> {
        let mut kinds = builder.kinds(variable);
        for triple in &group.triples {
            let here = self.kinds_in(variable, triple)?;
            if here.count() < kinds.count() {
                kinds = here;
            }
        }
        Ok(kinds)
    }

    fn kinds_in(&self, variable: &Variable, triple: &TriplePattern) -> Result<Kinds, QueryError> {
        let is_here = |term: &TermPattern| term_variable(term).as_ref() == Some(variable);
        if is_here(&triple.subject) {
            return Ok(Kinds::RESOURCES);
        }
        match &triple.predicate {
            NamedNodePattern::Variable(predicate) if predicate == variable => Ok(Kinds::RESOURCES),
            NamedNodePattern::NamedNode(predicate) if is_here(&triple.object) => {
                let Some(predicate) = self.id_of(&predicate.clone().into())? else {
                    return Ok(Kinds::ANY);
                };
                let statistics = self.counts().predicate(predicate)?;
                Ok(statistics.map_or(Kinds::ANY, |statistics| Kinds::of_objects(&statistics)))
            }
            _ => Ok(Kinds::ANY),
        }
    }
}

/// Returns the variables of a filter that says they are equal, and whether it compares values.
pub(super) fn equal_variables(filter: &Expression) -> Option<(&Variable, &Variable, bool)> {
    let (a, b, by_value) = match filter {
        Expression::Equal(a, b) => (a, b, true),
        Expression::SameTerm(a, b) => (a, b, false),
        _ => return None,
    };
    match (&**a, &**b) {
        (Expression::Variable(a), Expression::Variable(b)) => Some((a, b, by_value)),
        _ => None,
    }
}

/// Returns whether terms of these kinds are equal only if they are the same. An inline integer or boolean has the only
/// canonical form of its value.
pub(super) fn equal_if_same(a: TermKind, b: TermKind) -> bool {
    use TermKind as K;
    let is_plain = |kind| matches!(kind, K::Iri | K::BlankNode | K::String | K::LangString);
    let is_canonical = matches!((a, b), (K::Integer, K::Integer) | (K::Boolean, K::Boolean));
    is_plain(a) || is_plain(b) || is_canonical
}

/// Returns whether a filter over a literal's datatype or language is true only if another one is, too: terms that are no
/// literals have neither, and only literals of two datatypes have a language.
fn implies(filter: &Expression, other: &Expression) -> bool {
    let Some((function, of, is_equal)) = tested(filter) else {
        return false;
    };
    match other {
        Expression::FunctionCall(Function::IsLiteral, arguments) => {
            matches!(&arguments[..], [Expression::Variable(variable)] if variable == of)
        }
        Expression::Equal(..) => {
            let has_language = |datatype: &NamedNode| {
                [rdf::LANG_STRING, rdf::DIR_LANG_STRING].contains(&datatype.as_ref())
            };
            let is_untagged = matches!(is_equal, Some(Expression::NamedNode(datatype))
                if *function == Function::Datatype && !has_language(datatype));
            let no_language = matches!(tested(other), Some((Function::Lang, variable, Some(Expression::Literal(tag))))
                if variable == of && *tag == Literal::from(""));
            is_untagged && no_language
        }
        _ => false,
    }
}

/// Returns the function, DATATYPE or LANG, and the variable that a filter compares, and the constant that it must equal.
fn tested(filter: &Expression) -> Option<(&Function, &Variable, Option<&Expression>)> {
    match filter {
        Expression::Equal(a, b) => match (called(a), called(b)) {
            (Some((function, variable)), _) => Some((function, variable, Some(b))),
            (None, Some((function, variable))) => Some((function, variable, Some(a))),
            (None, None) => None,
        },
        Expression::Not(inner) => match &**inner {
            Expression::Equal(a, b) => called(a).or(called(b)),
            _ => None,
        }
        .map(|(function, variable)| (function, variable, None)),
        Expression::FunctionCall(Function::LangMatches, arguments) => {
            let (function, variable) = called(arguments.first()?)?;
            Some((function, variable, None))
        }
        _ => None,
    }
}

/// Returns the function and the variable, if an expression is DATATYPE or LANG of a variable.
fn called(expression: &Expression) -> Option<(&Function, &Variable)> {
    match expression {
        Expression::FunctionCall(function @ (Function::Datatype | Function::Lang), arguments) => {
            match &arguments[..] {
                [Expression::Variable(variable)] => Some((function, variable)),
                _ => None,
            }
        }
        _ => None,
    }
}
