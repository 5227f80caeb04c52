//! Planning of a group: triple patterns and paths that may be joined in any order, filters over them, and
//! other operands.

use std::borrow::Cow;

use oxrdf::{NamedNode, Term, Variable};
use pythia_rdf::TermId;
use pythia_sparql::scope::{
    self, Variables, certain, draws, in_scope, term_variables, variables_of,
};
use pythia_store::{GraphFilter, QuadPattern, StoreError};
use spargebra::algebra::{Expression, GraphPattern, PropertyPathExpression};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

use super::bind;
use super::builder::Builder;
use super::element::{Element, FilterHint, PatternGraph, PatternTerm, Triple};
use super::labelled;
use super::outer_join;
use super::path_estimate::estimate;
use super::triple_term::{Unfinished, ground_term};
use super::{PlanError, Planner, Planning, sequence};
use pythia_exec::error::QueryError;
use pythia_exec::plan::automaton::Automaton;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::slots::Slots;
use pythia_exec::plan::step::{PathGraph, PathStep, Position};

/// Maximum number of graphs that `GRAPH ?g` enumerates first; with more, all graphs are read and the quads of
/// other graphs dropped.
const GRAPHS_FIRST_MAX: usize = 4;

/// The operands of a group: those that can be joined in any order, and those that follow in order.
#[derive(Clone, Default)]
pub(super) struct Operands<'p> {
    pub(super) triples: Vec<&'p TriplePattern>,
    pub(super) paths: Vec<(&'p TermPattern, &'p PropertyPathExpression, &'p TermPattern)>,
    pub(super) filters: Vec<GroupFilter<'p>>,
    /// Other operands that can be joined at any place.
    pub(super) operands: Vec<Cow<'p, GraphPattern>>,
    pub(super) rest: Vec<&'p GraphPattern>,
}

impl Operands<'_> {
    /// Returns the variables of the triple patterns and paths.
    pub(super) fn matched(&self) -> impl Iterator<Item = Variable> {
        let ends = self.paths.iter().flat_map(|(s, _, o)| [*s, *o]);
        let triples = self.triples.iter();
        let variables = triples.flat_map(|triple| scope::triple_variables(triple));
        variables.chain(ends.flat_map(term_variables))
    }

    /// Returns whether a triple pattern has a triple term, whose assembly refers to variables by name.
    pub(super) fn has_triple_terms(&self) -> bool {
        let is_triple = |term: &TermPattern| matches!(term, TermPattern::Triple(_));
        let mut triples = self.triples.iter();
        triples.any(|triple| is_triple(&triple.subject) || is_triple(&triple.object))
    }
}

/// A filter and its variables that must be bound first.
#[derive(Clone)]
pub(super) struct GroupFilter<'p> {
    pub(super) expression: &'p Expression,
    pub(super) waits_for: Variables,
}

/// The parts of a group that follow as soon as enough is bound, and its operands.
pub(super) struct Placement<'x, 'p> {
    unfinished: Vec<Unfinished>,
    filters: &'x mut Vec<GroupFilter<'p>>,
    operands: &'x [Cow<'p, GraphPattern>],
    /// Filters that operands have replaced, with the places of these operands.
    listed: Vec<(usize, GroupFilter<'p>)>,
    graph: &'x GraphScope,
}

/// Elements to join, and the work left after joining them.
type Elements = (Vec<Element>, Vec<Unfinished>);

impl Planner<'_> {
    /// Plans a filter over a pattern. Operands of `&&` that use only certainly bound variables move to where
    /// these are bound; all apply before a MINUS, which binds nothing.
    pub(super) fn extend_filter(
        &self,
        builder: &mut Builder,
        expression: &Expression,
        inner: &GraphPattern,
        graph: &GraphScope,
    ) -> Planning {
        if let Some(moved) = bind::moved_filter(builder, expression, inner) {
            return self.extend(builder, &moved, graph);
        }
        if let GraphPattern::Minus { left, right } = inner {
            let left = Box::new(GraphPattern::Filter {
                expr: expression.clone(),
                inner: left.clone(),
            });
            let right = right.clone();
            return self.extend(builder, &GraphPattern::Minus { left, right }, graph);
        }
        let inserted = self.inserted.iter().map(|(variable, _)| variable);
        let inserted: Variables = inserted.chain(&builder.inserted).cloned().collect();
        if let Some(joined) = outer_join::joined_for(expression, inner, &inserted) {
            return self.extend_filter(builder, expression, &joined, graph);
        }
        let (bound, scope) = (certain(inner), in_scope(inner));
        let mut operands = Vec::new();
        conjuncts(expression, &mut operands);
        let without_match = operands.iter().enumerate().find_map(|(place, operand)| {
            let found = outer_join::not_exists_for(operand, inner, builder);
            found.map(|found| (place, found))
        });
        if let Some((place, (left, not_exists))) = without_match {
            operands.remove(place);
            let others = operands.into_iter().cloned();
            let all = others.fold(not_exists, |all, other| {
                Expression::And(Box::new(all), Box::new(other))
            });
            return self.extend_filter(builder, &all, left, graph);
        }
        let mut group = Operands::default();
        let mut after = Vec::new();
        for expression in operands {
            let waits_for = &variables_of(expression) & &scope;
            if waits_for.is_subset(&bound) && !draws(expression) {
                group.filters.push(GroupFilter {
                    expression,
                    waits_for,
                });
            } else {
                after.push(expression);
            }
        }
        if group.filters.is_empty() {
            self.extend(builder, inner, graph)?;
        } else {
            take_apart(inner, &mut group);
            self.extend_group(builder, group, graph)?;
        }
        for expression in after {
            self.push_filter(builder, expression, graph)?;
        }
        Ok(())
    }

    pub(super) fn extend_group(
        &self,
        builder: &mut Builder,
        group: Operands<'_>,
        graph: &GraphScope,
    ) -> Planning {
        let has_patterns_alone = group.rest.is_empty() && group.paths.is_empty();
        if builder.nested || has_patterns_alone {
            return self.extend_in_order(builder, group, graph, true);
        }
        let (builder_before, group_before) = (builder.clone(), group.clone());
        match self.extend_in_order(builder, group, graph, true) {
            Err(PlanError::Alone) => {
                *builder = builder_before;
                self.extend_in_order(builder, group_before, graph, false)
            }
            done => done,
        }
    }

    /// Extends the solutions by a group. Operands besides patterns and paths are elements of the join order, or follow. The
    /// error [`PlanError::Alone`] is an operand that turned out not to be one.
    fn extend_in_order(
        &self,
        builder: &mut Builder,
        group: Operands<'_>,
        graph: &GraphScope,
        with_operands: bool,
    ) -> Planning {
        let confined = self.confined_sub_selects(builder, &group, graph)?;
        let mut group: Operands<'_> = group;
        for (place, pattern) in &confined {
            group.rest[*place] = pattern;
        }
        let unmatched = self.take_not_exists(builder, &mut group, graph)?;
        self.start_from_exists(builder, &mut group, graph)?;
        self.join_first(builder, &mut group, graph, |builder, pattern| {
            !builder.nested && sequence::is_sequence(pattern)
        })?;
        if with_operands {
            self.take_operands(builder, &mut group, graph);
        }
        self.join_first(builder, &mut group, graph, |_, pattern| {
            matches!(pattern, GraphPattern::Values { .. })
        })?;
        let mut filters = std::mem::take(&mut group.filters);
        let outer = builder.stand_ins();
        let listed = self.simplify(builder, &mut group, &mut filters, graph)?;
        let has_contradiction = self.has_contradiction(builder, &group, &filters)?;
        let elements = match has_contradiction {
            true => None,
            false => self.elements(builder, &group, graph)?,
        };
        match elements {
            Some((mut elements, unfinished)) => {
                self.list_predicates(builder, &group, &filters, &mut elements)?;
                let hints = self.push_down(builder, &filters, &listed, &mut elements)?;
                self.count_listed(builder, &group.operands, &mut elements)?;
                // The operands of these filters are the last ones.
                let first = group.operands.len() - listed.len();
                let placement = Placement {
                    unfinished,
                    filters: &mut filters,
                    operands: &group.operands,
                    listed: (first..).zip(listed).collect(),
                    graph,
                };
                self.join_all(builder, elements, &hints, placement)?;
            }
            None => {
                builder_bind_nothing(builder, &group);
                for operand in &group.operands {
                    self.join(builder, operand, graph)?;
                }
            }
        }
        self.separate_unified(builder, outer);
        self.bind_substituted(builder, outer);
        // Each step will record the slots needed after it.
        let sets = builder.steps.len() * Slots::bytes(builder.slots.len());
        self.evaluation.governor().require_room(sets)?;
        self.place_filters(builder, &mut filters, graph)?;
        for pattern in group.rest {
            self.join(builder, pattern, graph)?;
        }
        for filter in filters {
            self.push_filter(builder, filter.expression, graph)?;
        }
        self.drop_matched(builder, unmatched, graph)
    }

    /// Joins the patterns, paths and operands of a group.
    fn join_all(
        &self,
        builder: &mut Builder,
        mut elements: Vec<Element>,
        hints: &[FilterHint],
        mut placement: Placement<'_, '_>,
    ) -> Planning {
        let operands = placement.operands;
        if elements.is_empty() && operands.len() == 1 {
            self.placed(builder, &mut placement)?;
            self.join_operand(builder, 0, &mut placement)?;
            self.placed(builder, &mut placement)?;
            return Ok(());
        }
        if let [Element::Triple(triple)] = &elements[..]
            && self.is_lone
            && operands.is_empty()
            && builder.is_unit()
        {
            self.placed(builder, &mut placement)?;
            self.join_lone(builder, triple);
            self.placed(builder, &mut placement)?;
            return Ok(());
        }
        for (place, pattern) in operands.iter().enumerate() {
            let operand = self.operand(builder, place, pattern, placement.graph)?;
            elements.push(Element::Operand(operand));
        }
        self.join_elements(builder, &elements, hints, &mut placement)
    }

    /// Applies filters to the patterns of a group where that says all that they say. Returns those that an operand of the
    /// group has replaced.
    fn simplify<'p>(
        &self,
        builder: &mut Builder,
        group: &mut Operands<'_>,
        filters: &mut Vec<GroupFilter<'p>>,
        graph: &GraphScope,
    ) -> Result<Vec<GroupFilter<'p>>, QueryError> {
        let listed = self.substitute(builder, group, filters, graph)?;
        self.unify_equal(builder, group, filters)?;
        self.drop_true(group, filters)?;
        Ok(listed)
    }

    /// Joins those operands of the rest from whose solutions the patterns of the group can start, because these always
    /// bind every variable that they share with the patterns.
    fn join_first(
        &self,
        builder: &mut Builder,
        group: &mut Operands<'_>,
        graph: &GraphScope,
        may_be: impl Fn(&Builder, &GraphPattern) -> bool,
    ) -> Planning {
        if !group.rest.iter().any(|pattern| may_be(builder, pattern)) {
            return Ok(());
        }
        let mut matched: Variables = group.matched().collect();
        for operand in &group.operands {
            matched.extend(in_scope(operand));
        }
        let (first, rest) = group.rest.iter().partition(|pattern| {
            let bound = certain(pattern);
            let is_values = matches!(pattern, GraphPattern::Values { .. });
            let mut shared = 0;
            let are_bound = in_scope(pattern).intersection(&matched).all(|variable| {
                shared += 1;
                bound.contains(variable)
            });
            may_be(builder, pattern) && are_bound && (is_values || shared > 0)
        });
        group.rest = rest;
        let first: Vec<&GraphPattern> = first;
        for pattern in first {
            self.join(builder, pattern, graph)?;
        }
        Ok(())
    }

    /// Adds what has become possible: filters whose variables are bound, and work left after a pattern was joined.
    pub(super) fn placed(
        &self,
        builder: &mut Builder,
        placement: &mut Placement<'_, '_>,
    ) -> Result<(), QueryError> {
        self.finish_elements(builder, &mut placement.unfinished)?;
        self.place_filters(builder, placement.filters, placement.graph)
    }

    /// Applies those filters that operands have replaced whose variable is bound: a lookup for each solution, which a step
    /// that reads links does for each link. Returns the places of these operands, which need not be joined any more.
    pub(super) fn place_listed(
        &self,
        builder: &mut Builder,
        placement: &mut Placement<'_, '_>,
    ) -> Result<Vec<usize>, PlanError> {
        let is_bound = |(_, filter): &mut (usize, GroupFilter<'_>)| {
            let is_bound = |v: &Variable| builder.is_certain(v) && !builder.is_unified(v);
            is_lookup(filter.expression) && filter.waits_for.iter().all(is_bound)
        };
        let bound: Vec<_> = placement.listed.extract_if(.., is_bound).collect();
        for (_, filter) in &bound {
            self.push_filter(builder, filter.expression, placement.graph)?;
        }
        Ok(bound.into_iter().map(|(place, _)| place).collect())
    }

    /// Joins an operand. It takes the filters over the variables that it binds.
    pub(super) fn join_operand(
        &self,
        builder: &mut Builder,
        place: usize,
        placement: &mut Placement<'_, '_>,
    ) -> Planning {
        placement.listed.retain(|(operand, _)| *operand != place);
        let (pattern, graph) = (&*placement.operands[place], placement.graph);
        let inside = match pattern {
            GraphPattern::Union { .. } => certain(pattern),
            GraphPattern::LeftJoin { left: inner, .. } | GraphPattern::Extend { inner, .. } => {
                certain(inner)
            }
            _ => return self.join(builder, pattern, graph),
        };
        let is_bound = |v: &Variable| inside.contains(v) || builder.is_certain(v);
        let is_taken = |filter: &GroupFilter<'_>| {
            let mut variables = filter.waits_for.iter();
            variables.all(|v| is_bound(v) && !builder.is_unified(v))
        };
        let (taken, kept) = placement.filters.drain(..).partition(is_taken);
        *placement.filters = kept;
        let taken: Vec<GroupFilter<'_>> = taken;
        self.extend_filtered(builder, pattern, &taken, graph)
    }

    /// Returns the group's triple patterns and paths with ids for their constants, and the work left after
    /// joining them. Returns `None` if nothing can match, because the store has no quad with one of the terms
    /// or graphs.
    pub(super) fn elements(
        &self,
        builder: &mut Builder,
        group: &Operands<'_>,
        graph: &GraphScope,
    ) -> Result<Option<Elements>, PlanError> {
        if *graph == GraphScope::Absent {
            return Ok(None);
        }
        let mut elements = Vec::new();
        let mut unfinished = Vec::new();
        if let GraphScope::Variable(variable) = graph {
            self.confine_graphs(builder, variable, group, &mut unfinished);
        }
        for triple in &group.triples {
            self.evaluation.check()?;
            let subject = self.place(builder, &triple.subject, &mut unfinished)?;
            let predicate = match &triple.predicate {
                NamedNodePattern::NamedNode(node) => self.constant(&Term::from(node.clone()))?,
                NamedNodePattern::Variable(v) => match builder.substituted(v).cloned() {
                    Some(term) => self.constant(&term)?,
                    None => Some(PatternTerm::Slot(builder.slot(v))),
                },
            };
            let object = self.place(builder, &triple.object, &mut unfinished)?;
            let (Some(s), Some(p), Some(o)) = (subject, predicate, object) else {
                return Ok(None);
            };
            let place = self.graph_of(builder, p, graph);
            if let (GraphScope::Merged, PatternGraph::Slot(slot, _)) = (graph, place) {
                unfinished.push(Unfinished::Merged([s, p, o], slot));
            }
            let count = |pattern: &QuadPattern| match self.is_lone {
                true => self.counts().guessed(pattern),
                false => self.matches_of(pattern),
            };
            let triple = Triple::new(self.counts(), [s, p, o], place, count)?;
            if triple.count == 0.0 {
                return Ok(None);
            }
            elements.push(Element::Triple(triple));
        }
        for (subject, path, object) in &group.paths {
            self.evaluation.check()?;
            let path = self.path(builder, subject, path, object, graph, &mut unfinished)?;
            elements.push(Element::Path(path));
        }
        Ok(Some((elements, unfinished)))
    }

    /// Returns the graph in which a triple pattern with this predicate is matched. Merged graphs need a slot for the
    /// quad's graph, by which duplicates are found, unless it is known that there are none.
    fn graph_of(
        &self,
        builder: &mut Builder,
        predicate: PatternTerm,
        graph: &GraphScope,
    ) -> PatternGraph {
        match graph {
            GraphScope::Fixed(filter) => PatternGraph::Filter(*filter),
            GraphScope::Variable(variable) => {
                PatternGraph::Slot(builder.slot(variable), GraphFilter::Named)
            }
            GraphScope::Merged | GraphScope::Absent => {
                let predicate = match predicate {
                    PatternTerm::Constant(id) => Some(id),
                    PatternTerm::Slot(_) => None,
                };
                let filter = self.dataset.merged.filter();
                let is_whole = self.dataset.merged.named.is_none();
                match is_whole && self.counts().has_distinct_triples(predicate) {
                    true => PatternGraph::Filter(filter),
                    false => PatternGraph::Slot(builder.temporary_slot(), filter),
                }
            }
        }
    }

    /// Restricts the graphs of `GRAPH ?g` to those of the dataset: beforehand if they are few or a path has
    /// to start in one, otherwise afterwards, so that each triple pattern is read once for all graphs.
    fn confine_graphs(
        &self,
        builder: &mut Builder,
        variable: &Variable,
        group: &Operands<'_>,
        unfinished: &mut Vec<Unfinished>,
    ) {
        let slot = builder.slot(variable);
        let is_bound = builder.is_certain(variable);
        let has_path = !group.paths.is_empty();
        match &self.dataset.named {
            Some(named) if !is_bound && !has_path && named.len() > GRAPHS_FIRST_MAX => {
                unfinished.push(Unfinished::Named(slot));
            }
            Some(_) => self.push_graphs(builder, slot),
            None if !is_bound && has_path => self.push_graphs(builder, slot),
            None => {}
        }
    }

    pub(super) fn path(
        &self,
        builder: &mut Builder,
        subject: &TermPattern,
        path: &PropertyPathExpression,
        object: &TermPattern,
        graph: &GraphScope,
        unfinished: &mut Vec<Unfinished>,
    ) -> Result<PathStep, PlanError> {
        let mut resolve = |node: &NamedNode| self.id_of(&node.clone().into());
        let mut end = |term: &TermPattern| -> Result<Position, PlanError> {
            Ok(match self.slot_of(builder, term, unfinished)? {
                Some(slot) => Position::New(slot),
                // A path of length zero connects any term with itself, even one that the store does not have.
                None => Position::Constant(self.evaluation.intern(ground_term(term)?)?),
            })
        };
        let (subject, object) = (end(subject)?, end(object)?);
        let forward = Automaton::compile(path, &mut resolve)?;
        let backward = Automaton::compile(&Automaton::reversed(path), &mut resolve)?;
        let counted = self.counted.as_ref().map(|variable| builder.slot(variable));
        let mut step = PathStep {
            subject,
            object,
            counted: counted.filter(|slot| [subject, object].contains(&Position::New(*slot))),
            estimate: estimate(self.counts(), &forward, &backward, subject, object)?,
            graph: match graph {
                GraphScope::Fixed(GraphFilter::One(graph)) => PathGraph::One(*graph),
                GraphScope::Variable(variable) => PathGraph::Slot(builder.slot(variable)),
                GraphScope::Fixed(_) | GraphScope::Merged | GraphScope::Absent => PathGraph::Merged,
            },
            forward,
            backward,
            labelled: None,
            text: path.to_string(),
            attribute: None,
        };
        labelled::look_up(&mut step, self.snapshot)?;
        Ok(step)
    }

    pub(super) fn place(
        &self,
        builder: &mut Builder,
        term: &TermPattern,
        unfinished: &mut Vec<Unfinished>,
    ) -> Result<Option<PatternTerm>, PlanError> {
        if let TermPattern::Variable(variable) = term
            && let Some(term) = builder.substituted(variable)
        {
            return Ok(self.constant(&term.clone())?);
        }
        match self.slot_of(builder, term, unfinished)? {
            Some(slot) => Ok(Some(PatternTerm::Slot(slot))),
            None => Ok(self.constant(&ground_term(term)?)?),
        }
    }

    pub(super) fn constant(&self, term: &Term) -> Result<Option<PatternTerm>, QueryError> {
        Ok(self.id_of(term)?.map(PatternTerm::Constant))
    }

    /// Returns the id of a term of the query, or `None` if no quad can have it. Where counts are guessed, a
    /// term that the store does not have gets a query-local id, so that it has the same plan as a term that
    /// only occurs in hidden graphs.
    pub(super) fn id_of(&self, term: &Term) -> Result<Option<TermId>, QueryError> {
        if let Some(known) = self.terms.borrow().get(term) {
            return Ok(*known);
        }
        let id = match self.snapshot.resolve(term.as_ref())? {
            None if self.counts().are_guessed() => Some(self.evaluation.intern(term.clone())?),
            known => known,
        };
        self.terms.borrow_mut().insert(term.clone(), id);
        Ok(id)
    }

    /// Returns the estimated number of matches of a pattern in the visible graphs. 0 is exact.
    pub(super) fn matches_of(&self, pattern: &QuadPattern) -> Result<f64, StoreError> {
        if let Some(known) = self.matches.borrow().get(pattern) {
            return Ok(*known);
        }
        let matches = self.counts().expected(pattern)?;
        self.matches.borrow_mut().insert(*pattern, matches);
        Ok(matches)
    }

    /// Adds the filters whose variables are all bound.
    pub(super) fn place_filters(
        &self,
        builder: &mut Builder,
        filters: &mut Vec<GroupFilter<'_>>,
        graph: &GraphScope,
    ) -> Result<(), QueryError> {
        let mut error = None;
        filters.retain(|filter| {
            let is_bound = |v: &Variable| builder.is_certain(v) && !builder.is_unified(v);
            let ready = filter.waits_for.iter().all(is_bound);
            if !ready || error.is_some() {
                return true;
            }
            if let Err(e) = self.push_filter(builder, filter.expression, graph) {
                error = Some(e);
            }
            false
        });
        match error {
            Some(PlanError::Query(error)) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Plans a group without matches: binds its variables in no solutions, so that the following operators can be
/// planned.
pub(super) fn builder_bind_nothing(builder: &mut Builder, group: &Operands<'_>) {
    builder.push_nothing();
    for variable in group.matched() {
        let slot = builder.slot(&variable);
        builder.bind(slot, 0.0);
    }
}

/// Collects the operands of a group. Filters move up from operands only if every variable that they mention
/// is bound there.
pub(super) fn take_apart<'p>(pattern: &'p GraphPattern, group: &mut Operands<'p>) {
    match pattern {
        GraphPattern::Bgp { patterns } => group.triples.extend(patterns),
        GraphPattern::Path {
            subject,
            path,
            object,
        } => group.paths.push((subject, path, object)),
        GraphPattern::Join { left, right } => {
            take_apart(left, group);
            take_apart(right, group);
        }
        GraphPattern::Filter { expr, inner } => {
            let bound = certain(inner);
            if variables_of(expr).is_subset(&bound) && !draws(expr) {
                let mut operands = Vec::new();
                conjuncts(expr, &mut operands);
                group
                    .filters
                    .extend(operands.into_iter().map(|expression| GroupFilter {
                        expression,
                        waits_for: variables_of(expression),
                    }));
                take_apart(inner, group);
            } else {
                group.rest.push(pattern);
            }
        }
        other => group.rest.push(other),
    }
}

/// Returns whether a filter looks a variable up in a list.
fn is_lookup(filter: &Expression) -> bool {
    matches!(filter, Expression::In(needle, _) if matches!(**needle, Expression::Variable(_)))
}

/// Collects the operands of `&&`.
pub(super) fn conjuncts<'p>(expression: &'p Expression, found: &mut Vec<&'p Expression>) {
    match expression {
        Expression::And(a, b) => {
            conjuncts(a, found);
            conjuncts(b, found);
        }
        other => found.push(other),
    }
}
