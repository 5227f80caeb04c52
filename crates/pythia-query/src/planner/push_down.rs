//! Pushes filters into scans: comparisons and prefixes become ranges of ids. Also estimates the selectivity
//! of filters.

use std::borrow::Cow;
use std::ops::Range;

use hashbrown::HashSet;
use oxrdf::Variable;
use pythia_rdf::TermId;
use pythia_sparql::scope::{variables_of, visit};
use pythia_store::statistics::KindSet;
use pythia_store::{End, Order};
use rustc_hash::FxHashMap;
use spargebra::algebra::{Expression, Function, GraphPattern};

use super::Planner;
use super::builder::Builder;
use super::element::{Confined, Element, FilterHint, PatternGraph, PatternTerm, Triple};
use super::group::GroupFilter;
use super::pattern::ground;
use pythia_exec::error::QueryError;
use pythia_exec::expression::CompiledExpression;
use pythia_exec::expression::id_set::{IdSet, all_of, intersection, normal};
use pythia_exec::plan::expression::SlotExpression;
use pythia_exec::plan::step::{Position, Step, StepKind};

/// Minimum matches of a pattern for which ranges are worthwhile.
pub(super) const MATCHES_MIN: f64 = 1000.0;
/// Maximum number of ranges; more are merged into one, because each costs a seek.
const RANGES_MAX: usize = 64;
/// Share of solutions with a datatype or language.
const TAG_SHARE: f64 = 0.2;
/// Cost of reading a text of the dictionary, in microseconds.
const TEXT: f64 = 0.2;
/// Maximum number of terms of VALUES whose matches are counted.
const LISTED_MAX: usize = 16;
/// Maximum number of counts of such terms in a group.
const LISTED_COUNTS_MAX: usize = 256;

impl Planner<'_> {
    /// Restricts patterns by the filters over one variable. `listed` are filters that an operand of the group has replaced.
    /// Returns the properties of all other filters for the join order.
    pub(super) fn push_down(
        &self,
        builder: &mut Builder,
        filters: &[GroupFilter<'_>],
        listed: &[GroupFilter<'_>],
        elements: &mut [Element],
    ) -> Result<Vec<FilterHint>, QueryError> {
        let mut hints = Vec::with_capacity(filters.len());
        // The share of each slot's ids that the filters before keep.
        let mut kept: FxHashMap<usize, f64> = FxHashMap::default();
        for (place, filter) in filters.iter().chain(listed).enumerate() {
            self.evaluation.check()?;
            let filter = filter.expression;
            let variables = variables_of(filter);
            let slots: Vec<usize> = variables.iter().map(|v| builder.slot(v)).collect();
            if let (Some(variable), [slot], true) =
                (variables.iter().next(), &slots[..], names_ids(filter))
            {
                self.confine(filter, variable, *slot, elements)?;
            }
            let counted = elements.iter().filter_map(|element| match element {
                Element::Triple(triple) => triple.share_of(&slots),
                Element::Path(_) | Element::Operand(_) => None,
            });
            let share = match (counted.reduce(f64::min), &slots[..]) {
                (Some(counted), [slot]) if is_test_of_ids(filter) => {
                    let before = kept.insert(*slot, counted).unwrap_or(1.0);
                    (counted / before).min(1.0)
                }
                (Some(counted), _) => share(filter).min(counted),
                (None, _) => share(filter),
            };
            if place < filters.len() {
                let cost = test_cost(filter);
                hints.push(FilterHint { slots, share, cost });
            }
        }
        Ok(hints)
    }

    /// Counts the matches of patterns with the terms that VALUES of the group list for a variable.
    pub(super) fn count_listed(
        &self,
        builder: &mut Builder,
        operands: &[Cow<'_, GraphPattern>],
        elements: &mut [Element],
    ) -> Result<(), QueryError> {
        let mut counts = 0;
        for operand in operands {
            let GraphPattern::Values {
                variables,
                bindings,
            } = &**operand
            else {
                continue;
            };
            let [variable] = &variables[..] else {
                continue;
            };
            if bindings.len() > LISTED_MAX || bindings.iter().any(|row| row[0].is_none()) {
                continue;
            }
            let slot = builder.slot(variable);
            let terms: HashSet<_> = bindings.iter().flatten().flatten().collect();
            if counts + terms.len() * elements.len() > LISTED_COUNTS_MAX {
                break;
            }
            counts += terms.len() * elements.len();
            self.evaluation.check()?;
            for element in &mut *elements {
                let Element::Triple(triple) = element else {
                    continue;
                };
                let is_its = |place: PatternTerm| place == PatternTerm::Slot(slot);
                if triple.count < MATCHES_MIN || is_its(triple.subject) == is_its(triple.object) {
                    continue;
                }
                let mut count = 0.0;
                for term in &terms {
                    let mut pattern = triple.constants();
                    let id = self.id_of(&ground(term))?;
                    match is_its(triple.subject) {
                        true => pattern.subject = id,
                        false => pattern.object = id,
                    }
                    if id.is_some() {
                        count += self.matches_of(&pattern)?;
                    }
                }
                triple.listed.push((slot, count));
            }
        }
        Ok(())
    }

    /// Restricts the patterns with the variable's slot to ids that can pass the filter.
    fn confine(
        &self,
        filter: &Expression,
        variable: &Variable,
        slot: usize,
        elements: &mut [Element],
    ) -> Result<(), QueryError> {
        let scanned = |element: &Element| match element {
            Element::Triple(triple) => scanned_end(triple, slot),
            Element::Path(_) | Element::Operand(_) => None,
        };
        let mut kinds = KindSet::default();
        for (end, predicate) in elements.iter().filter_map(scanned) {
            kinds.0 |= self.kinds_at(end, predicate)?.0;
        }
        if kinds == KindSet::default() {
            return Ok(());
        }
        let Some(wanted) = may_pass(self, filter, variable, kinds)? else {
            return Ok(());
        };
        for element in elements {
            let end = scanned(element);
            if let (Element::Triple(triple), Some((end, predicate))) = (element, end) {
                self.confine_triple(triple, end, predicate, &wanted)?;
            }
        }
        Ok(())
    }

    /// Returns the kinds of the terms at an end of the predicate's quads.
    fn kinds_at(&self, end: End, predicate: TermId) -> Result<KindSet, QueryError> {
        let counts = self.counts().predicate(predicate)?;
        Ok(counts.map_or(KindSet::default(), |predicate| match end {
            End::Subject => predicate.subject_kinds,
            End::Object => predicate.object_kinds,
        }))
    }

    /// Restricts a pattern to the ids among `wanted` that can occur at its end, and counts its matches. A restriction of
    /// the other end stays if it has fewer.
    fn confine_triple(
        &self,
        triple: &mut Triple,
        end: End,
        predicate: TermId,
        wanted: &[Range<u64>],
    ) -> Result<(), QueryError> {
        let PatternGraph::Filter(graph) = triple.graph else {
            return Ok(());
        };
        let there = self.kinds_at(end, predicate)?.iter().map(all_of);
        let mut ids = intersection(wanted, &normal(there.collect()));
        if let Some(before) = &triple.confined
            && before.end == end
        {
            ids = intersection(&ids, &before.ids);
        }
        if ids.len() > RANGES_MAX {
            let last = ids.last().map_or(0, |range| range.end);
            ids.truncate(1);
            ids[0].end = last;
        }
        let mut count = 0;
        let mut kept = IdSet::new();
        for range in ids {
            let matches =
                self.snapshot
                    .estimates()
                    .count_range(predicate, end, range.clone(), graph)?;
            if matches > 0 {
                count += matches;
                kept.push(range);
            }
        }
        let count = count as f64;
        let is_best = match &triple.confined {
            Some(before) => before.end == end || count < before.count,
            None => true,
        };
        if is_best {
            let ids = kept.into();
            triple.confined = Some(Confined { end, ids, count });
        }
        Ok(())
    }
}

/// Returns the ids of these kinds with which a filter over one variable may be true; `None` if it may be with all.
pub(super) fn may_pass(
    planner: &Planner<'_>,
    filter: &Expression,
    variable: &Variable,
    kinds: KindSet,
) -> Result<Option<IdSet>, QueryError> {
    let columns = std::slice::from_ref(variable);
    let compiled = CompiledExpression::compile(filter, columns, planner.evaluation)?;
    let ids = |kind, prefix: &[u8]| Ok(planner.snapshot.ids_with_prefix(kind, prefix)?);
    compiled.id_set(0, kinds, &ids)
}

/// Returns the end of a pattern at which the slot is, if a scan of the pattern can be sorted by it.
fn scanned_end(triple: &Triple, slot: usize) -> Option<(End, TermId)> {
    let worthwhile = triple.count >= MATCHES_MIN;
    match (triple.subject, triple.predicate, triple.object) {
        (PatternTerm::Slot(s), PatternTerm::Constant(predicate), PatternTerm::Slot(o))
            if worthwhile && s != o =>
        {
            if o == slot {
                Some((End::Object, predicate))
            } else {
                (s == slot).then_some((End::Subject, predicate))
            }
        }
        _ => None,
    }
}

/// Returns whether a filter may translate to ids: comparisons with a constant, prefixes, tests of kinds.
pub(super) fn names_ids(filter: &Expression) -> bool {
    use Expression as E;
    let is_constant = |e: &E| match e {
        E::Literal(_) | E::NamedNode(_) => true,
        E::UnaryMinus(e) | E::UnaryPlus(e) => matches!(**e, E::Literal(_)),
        _ => false,
    };
    match filter {
        E::And(a, b) | E::Or(a, b) => names_ids(a) && names_ids(b),
        E::Equal(a, b)
        | E::Less(a, b)
        | E::LessOrEqual(a, b)
        | E::Greater(a, b)
        | E::GreaterOrEqual(a, b) => is_constant(a) || is_constant(b),
        E::In(_, list) => list.iter().all(is_constant),
        E::FunctionCall(
            Function::StrStarts | Function::Regex | Function::LangMatches,
            arguments,
        ) => arguments.iter().skip(1).all(is_constant),
        E::Not(inner) => match &**inner {
            E::FunctionCall(..) => names_ids(inner),
            E::Equal(a, b) => is_constant(a) && is_tag(b) || is_tag(a) && is_constant(b),
            _ => false,
        },
        E::FunctionCall(
            Function::IsIri
            | Function::IsBlank
            | Function::IsLiteral
            | Function::IsTriple
            | Function::IsNumeric
            | Function::HasLang,
            _,
        ) => true,
        _ => false,
    }
}

/// Returns whether a filter that [`names_ids`] is true for nearly all ids that it names.
fn is_test_of_ids(filter: &Expression) -> bool {
    use Expression as E;
    match filter {
        E::And(a, b) | E::Or(a, b) => is_test_of_ids(a) && is_test_of_ids(b),
        E::Less(a, b) | E::LessOrEqual(a, b) | E::Greater(a, b) | E::GreaterOrEqual(a, b) => {
            [a, b].iter().any(|side| matches!(***side, E::Variable(_)))
        }
        E::Not(inner) => matches!(**inner, E::FunctionCall(..)) && is_test_of_ids(inner),
        E::FunctionCall(
            Function::IsIri
            | Function::IsBlank
            | Function::IsLiteral
            | Function::IsTriple
            | Function::IsNumeric
            | Function::StrStarts,
            arguments,
        ) => match &arguments[..] {
            [E::FunctionCall(Function::Str, term), ..] => matches!(term[..], [E::Variable(_)]),
            [first, ..] => matches!(first, E::Variable(_)),
            [] => false,
        },
        _ => false,
    }
}

/// Returns whether a step reads ranges of the ids for which a filter is true. The filter then keeps nearly all solutions.
pub(super) fn is_read_in_ranges(filter: &SlotExpression, steps: &[Step]) -> bool {
    let expression = &filter.source.expression;
    let [tested] = filter.slots[..] else {
        return false;
    };
    let reads = |step: &Step| match &step.kind {
        StepKind::Ranges(pattern, Order::Pso, _) => pattern.subject == Position::New(tested),
        StepKind::Ranges(pattern, Order::Pos, _) => pattern.object == Position::New(tested),
        _ => false,
    };
    names_ids(expression) && is_test_of_ids(expression) && steps.iter().any(reads)
}

/// Returns whether an expression is the datatype or the language of a term, of which there are few.
fn is_tag(expression: &Expression) -> bool {
    use Function as F;
    matches!(
        expression,
        Expression::FunctionCall(F::Datatype | F::Lang, _)
    )
}

/// Guesses the cost of testing a solution, in microseconds.
fn test_cost(filter: &Expression) -> f64 {
    use Function as F;
    let mut reads_text = false;
    visit(filter, &mut |part| {
        reads_text |= matches!(
            part,
            Expression::FunctionCall(
                F::Lang
                    | F::LangMatches
                    | F::Str
                    | F::StrLen
                    | F::SubStr
                    | F::UCase
                    | F::LCase
                    | F::Contains
                    | F::StrStarts
                    | F::StrEnds
                    | F::StrBefore
                    | F::StrAfter
                    | F::Concat
                    | F::Replace
                    | F::Regex,
                _,
            )
        );
    });
    if reads_text { TEXT } else { 0.0 }
}

/// Guesses the share of solutions that pass a filter.
pub(super) fn share(filter: &Expression) -> f64 {
    match filter {
        Expression::Not(inner) => 1.0 - share(inner),
        Expression::And(a, b) => share(a) * share(b),
        Expression::Or(a, b) => (share(a) + share(b)).min(1.0),
        Expression::Equal(a, b) if is_tag(a) || is_tag(b) => TAG_SHARE,
        Expression::Equal(..) | Expression::SameTerm(..) => 0.05,
        Expression::In(_, list) => (0.05 * list.len() as f64).min(0.5),
        Expression::Bound(_) => 0.9,
        Expression::FunctionCall(Function::Regex | Function::StrStarts | Function::Contains, _) => {
            0.1
        }
        _ => 0.3,
    }
}
