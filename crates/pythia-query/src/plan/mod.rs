//! From SPARQL algebra to a physical plan.
//!
//! Whatever can be evaluated by extending solutions one pattern at a time becomes one fused
//! [`Pattern`](crate::exec::pattern::Pattern) node ([`builder`], [`bgp`]); what SPARQL's bottom-up
//! semantics demands to be evaluated alone ([`scope`]) is planned alone and joined by hash.
//! There is no logical plan and no rule set: the physical plan is built as the algebra is walked.

pub(crate) mod automaton;
pub(crate) mod bgp;
pub(crate) mod builder;
pub(crate) mod dataset;
pub(crate) mod duplicates;
mod equality;
mod exists;
mod graph;
mod metadata;
mod order;
pub(crate) mod paths;
mod push_down;
pub(crate) mod scope;
mod sequence;
mod service;
mod triple_term;
mod ways;

use std::sync::Arc;

use oxrdf::{NamedNode, Term, Triple as RdfTriple, Variable};
use pythia_rdf::TermId;
use pythia_store::{GraphFilter, Snapshot};
use spargebra::algebra::{Expression, GraphPattern, PropertyPathExpression};
use spargebra::term::{GroundTerm, NamedNodePattern, TermPattern, TriplePattern};

use self::automaton::Automaton;
use self::bgp::{Element, GraphPlace, Place, Triple, join_elements};
use self::builder::{Builder, GraphScope, Planned};
use self::dataset::Dataset;
use self::scope::{Variables, can_seed, certain, in_scope, term_variables, variables_of};
use self::triple_term::{Unfinished, ground_term};
use crate::error::QueryError;
use crate::exec::join::{HashJoin, JoinKind};
use crate::exec::operator::SolutionExec;
use crate::exec::relational::Concatenate;
use crate::exec::step::{PathGraph, PathStep, Position, SlotExpression, StepKind};
use crate::expression::{CompiledExpression, EvaluationContext};

/// Why a pattern could not be planned as asked.
enum PlanError {
    /// It cannot be part of the pipeline and must be evaluated alone.
    Alone,
    /// It cannot be planned at all.
    Query(QueryError),
}

impl<E: Into<QueryError>> From<E> for PlanError {
    fn from(error: E) -> Self {
        Self::Query(error.into())
    }
}

type Planning = Result<(), PlanError>;

/// What a group joins, and what is left to do once that is joined.
type Elements = (Vec<Element>, Vec<Unfinished>);

/// Plans the patterns of one query.
pub(crate) struct Planner<'a> {
    snapshot: &'a Snapshot,
    evaluation: &'a EvaluationContext,
    dataset: &'a Dataset,
    /// Terms put in for variables at every leaf: the row an `EXISTS` is tested for.
    inserted: Vec<(Variable, TermId)>,
}

/// A group's operands, taken apart: what can be joined in any order, and what follows in order.
#[derive(Default)]
struct Group<'p> {
    triples: Vec<&'p TriplePattern>,
    paths: Vec<(&'p TermPattern, &'p PropertyPathExpression, &'p TermPattern)>,
    filters: Vec<GroupFilter<'p>>,
    rest: Vec<&'p GraphPattern>,
}

/// A filter, and the variables of it that must be bound first.
struct GroupFilter<'p> {
    expression: &'p Expression,
    waits_for: Variables,
}

impl<'a> Planner<'a> {
    /// A planner over what `snapshot` holds; constants become ids through `evaluation`.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        evaluation: &'a EvaluationContext,
        dataset: &'a Dataset,
    ) -> Self {
        Self {
            snapshot,
            evaluation,
            dataset,
            inserted: Vec::new(),
        }
    }

    /// Plans a pattern by itself. `needed` are the variables the caller wants, `None` all.
    pub(crate) fn plan(
        &self,
        pattern: &GraphPattern,
        graph: &GraphScope,
        needed: Option<&Variables>,
    ) -> Result<Planned, QueryError> {
        self.evaluation.check()?;
        if let Some(planned) = self.plan_sequence(pattern, graph, needed)? {
            return Ok(planned.with_estimate());
        }
        let mut builder = Builder::new();
        self.insert_terms(&mut builder, pattern, graph);
        if let GraphScope::Variable(variable) = graph
            && !matches!(pattern, GraphPattern::Bgp { patterns } if !patterns.is_empty())
        {
            // Evaluated for each graph, also those in which the pattern's parts find nothing.
            let slot = builder.slot(variable);
            self.push_graphs(&mut builder, slot);
        }
        match self.extend(&mut builder, pattern, graph) {
            Ok(()) => Ok(builder.finish(needed).with_estimate()),
            Err(PlanError::Query(error)) => Err(error),
            Err(PlanError::Alone) => unreachable!("only a nested pipeline cannot take a hash join"),
        }
    }

    /// Joins the pipeline with a pattern: from its solutions where that is sound, else by hash.
    fn join(&self, builder: &mut Builder, pattern: &GraphPattern, graph: &GraphScope) -> Planning {
        if builder.is_unit() {
            return self.extend(builder, pattern, graph);
        }
        let shared_are_certain = in_scope(pattern)
            .iter()
            .all(|v| !builder.is_bound(v) || builder.is_certain(v));
        let sees_the_same = matches!(pattern, GraphPattern::Service { .. })
            || can_seed(pattern, &builder.joined_variables());
        if shared_are_certain && sees_the_same {
            return self.extend(builder, pattern, graph);
        }
        if builder.nested {
            return Err(PlanError::Alone);
        }
        let right = self.plan(pattern, graph, None)?;
        hash_join(builder, right, |_| Ok(JoinKind::Inner))
    }

    /// Extends the pipeline's solutions by a pattern, which may be seeded (see [`scope`]).
    fn extend(
        &self,
        builder: &mut Builder,
        pattern: &GraphPattern,
        graph: &GraphScope,
    ) -> Planning {
        match pattern {
            GraphPattern::Bgp { .. } | GraphPattern::Path { .. } | GraphPattern::Join { .. } => {
                let mut group = Group::default();
                take_apart(pattern, &mut group);
                self.extend_group(builder, group, graph)
            }
            GraphPattern::Filter { expr, inner } => self.extend_filter(builder, expr, inner, graph),
            GraphPattern::LeftJoin {
                left,
                right,
                expression,
            } => {
                self.extend(builder, left, graph)?;
                self.left_join(builder, right, expression.as_ref(), graph)
            }
            GraphPattern::Union { left, right } => self.union(builder, left, right, graph),
            GraphPattern::Extend {
                inner,
                variable,
                expression,
            } => {
                self.extend(builder, inner, graph)?;
                self.push_bind(builder, variable, expression, graph)
            }
            GraphPattern::Values {
                variables,
                bindings,
            } => self.push_values(builder, variables, bindings),
            GraphPattern::Minus { left, right } => {
                if builder.nested {
                    return Err(PlanError::Alone);
                }
                self.extend(builder, left, graph)?;
                self.minus(builder, right, graph)
            }
            GraphPattern::Graph { name, inner } => self.extend_graph(builder, name, inner),
            GraphPattern::Service {
                name,
                inner,
                silent,
            } => self.service(builder, name, inner, *silent),
            other if !sequence::is_sequence(other) => {
                Err(QueryError::unsupported("this kind of group (LATERAL)").into())
            }
            _ if builder.nested => Err(PlanError::Alone),
            sequence if builder.is_unit() => {
                let planned = self.plan(sequence, graph, None)?;
                *builder = Builder::from_planned(planned);
                Ok(())
            }
            sequence => {
                let planned = self.plan(sequence, graph, None)?;
                hash_join(builder, planned, |_| Ok(JoinKind::Inner))
            }
        }
    }

    /// A filter over a pattern. The operands of its `&&` that see nothing but what is bound for
    /// certain go where that is bound.
    fn extend_filter(
        &self,
        builder: &mut Builder,
        expression: &Expression,
        inner: &GraphPattern,
        graph: &GraphScope,
    ) -> Planning {
        let (bound, scope) = (certain(inner), in_scope(inner));
        let mut operands = Vec::new();
        conjuncts(expression, &mut operands);
        let mut group = Group::default();
        let mut after = Vec::new();
        for expression in operands {
            let waits_for = &variables_of(expression) & &scope;
            if waits_for.is_subset(&bound) {
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

    fn extend_group(
        &self,
        builder: &mut Builder,
        mut group: Group<'_>,
        graph: &GraphScope,
    ) -> Planning {
        let (first, after) = split_rest(builder, &group);
        for pattern in first {
            self.join(builder, pattern, graph)?;
        }
        let mut filters = std::mem::take(&mut group.filters);
        self.unify_equal(builder, &group, &mut filters)?;
        match self.elements(builder, &group, graph)? {
            Some((mut elements, mut unfinished)) => {
                let hints = self.push_down(builder, &filters, &mut elements)?;
                join_elements(builder, self.snapshot, &elements, &hints, |builder| {
                    self.finish_elements(builder, &mut unfinished)?;
                    self.place_filters(builder, &mut filters, graph)
                })?;
            }
            None => builder_bind_nothing(builder, &group),
        }
        self.separate_unified(builder)?;
        self.place_filters(builder, &mut filters, graph)?;
        for pattern in after {
            self.join(builder, pattern, graph)?;
        }
        for filter in filters {
            self.push_filter(builder, filter.expression, graph)?;
        }
        Ok(())
    }

    /// The group's triple patterns and paths with their constants as ids, and what is left to do
    /// once they are joined; `None` if one of them names a term or graph the store does not have,
    /// so that nothing can match.
    fn elements(
        &self,
        builder: &mut Builder,
        group: &Group<'_>,
        graph: &GraphScope,
    ) -> Result<Option<Elements>, PlanError> {
        if *graph == GraphScope::Absent {
            return Ok(None);
        }
        if let GraphScope::Variable(variable) = graph
            && (!group.paths.is_empty() || self.dataset.named.is_some())
            && !builder.is_certain(variable)
        {
            let slot = builder.slot(variable);
            self.push_graphs(builder, slot);
        }
        let mut elements = Vec::new();
        let mut unfinished = Vec::new();
        for triple in &group.triples {
            let place = match graph {
                GraphScope::Fixed(filter) => GraphPlace::Filter(*filter),
                GraphScope::Variable(variable) => GraphPlace::Slot(builder.slot(variable)),
                GraphScope::Merged | GraphScope::Absent => {
                    GraphPlace::Slot(builder.temporary_slot())
                }
            };
            let subject = self.place(builder, &triple.subject, &mut unfinished)?;
            let predicate = match &triple.predicate {
                NamedNodePattern::NamedNode(node) => self.constant(&Term::from(node.clone()))?,
                NamedNodePattern::Variable(v) => Some(Place::Slot(builder.slot(v))),
            };
            let object = self.place(builder, &triple.object, &mut unfinished)?;
            let (Some(s), Some(p), Some(o)) = (subject, predicate, object) else {
                return Ok(None);
            };
            if let (GraphScope::Merged, GraphPlace::Slot(slot)) = (graph, place) {
                unfinished.push(Unfinished::Merged([s, p, o], slot));
            }
            elements.push(Element::Triple(Triple::new(self.snapshot, s, p, o, place)?));
        }
        for (subject, path, object) in &group.paths {
            let path = self.path(builder, subject, path, object, graph, &mut unfinished)?;
            elements.push(Element::Path(path));
        }
        Ok(Some((elements, unfinished)))
    }

    fn path(
        &self,
        builder: &mut Builder,
        subject: &TermPattern,
        path: &PropertyPathExpression,
        object: &TermPattern,
        graph: &GraphScope,
        unfinished: &mut Vec<Unfinished>,
    ) -> Result<PathStep, PlanError> {
        let mut resolve = |node: &NamedNode| -> Result<Option<TermId>, QueryError> {
            Ok(self.snapshot.resolve(node.as_ref().into())?)
        };
        let mut end = |term: &TermPattern| -> Result<Position, PlanError> {
            Ok(match self.slot_of(builder, term, unfinished)? {
                Some(slot) => Position::New(slot),
                // A path of length zero connects any term with itself, known to the store or not.
                None => Position::Constant(self.evaluation.intern(ground_term(term)?)?),
            })
        };
        Ok(PathStep {
            subject: end(subject)?,
            object: end(object)?,
            graph: match graph {
                GraphScope::Fixed(GraphFilter::One(graph)) => PathGraph::One(*graph),
                GraphScope::Variable(variable) => PathGraph::Slot(builder.slot(variable)),
                GraphScope::Fixed(_) | GraphScope::Merged | GraphScope::Absent => PathGraph::Merged,
            },
            forward: Automaton::compile(path, &mut resolve)?,
            backward: Automaton::compile(&Automaton::reversed(path), &mut resolve)?,
            text: path.to_string(),
        })
    }

    fn place(
        &self,
        builder: &mut Builder,
        term: &TermPattern,
        unfinished: &mut Vec<Unfinished>,
    ) -> Result<Option<Place>, PlanError> {
        match self.slot_of(builder, term, unfinished)? {
            Some(slot) => Ok(Some(Place::Slot(slot))),
            None => Ok(self.constant(&ground_term(term)?)?),
        }
    }

    fn constant(&self, term: &Term) -> Result<Option<Place>, QueryError> {
        Ok(self.snapshot.resolve(term.as_ref())?.map(Place::Constant))
    }

    fn left_join(
        &self,
        builder: &mut Builder,
        right: &GraphPattern,
        condition: Option<&Expression>,
        graph: &GraphScope,
    ) -> Planning {
        let shared_are_certain = in_scope(right)
            .iter()
            .all(|v| !builder.is_bound(v) || builder.is_certain(v));
        if shared_are_certain && can_seed(right, &builder.joined_variables()) {
            let inside = builder.inside(|builder| {
                self.extend(builder, right, graph)?;
                match condition {
                    Some(condition) => self.push_filter(builder, condition, graph),
                    None => Ok(()),
                }
            });
            match inside {
                Ok((steps, inner)) => {
                    let rows = builder.known.rows.max(inner.rows);
                    let new = &(&inner.certain | &inner.maybe) - &builder.known.certain;
                    builder.known.maybe.extend(new);
                    builder.known.sorted = None;
                    builder.push(StepKind::Optional(steps), rows);
                    return Ok(());
                }
                Err(PlanError::Alone) if !builder.nested => {}
                Err(error) => return Err(error),
            }
        }
        if builder.nested {
            return Err(PlanError::Alone);
        }
        let right = self.plan(right, graph, None)?;
        hash_join(builder, right, |variables| {
            let condition = condition.map(|c| self.compile(c, variables, graph));
            Ok(JoinKind::Left(condition.transpose()?))
        })
    }

    /// Drops the solutions that are compatible with one of the right side's and share a variable
    /// with it: by looking for one from each, where that is the same and there are fewer of them.
    fn minus(&self, builder: &mut Builder, right: &GraphPattern, graph: &GraphScope) -> Planning {
        let alone = self.plan(right, graph, None)?;
        let bound = certain(right);
        let mut shared = in_scope(right);
        shared.retain(|v| builder.is_bound(v));
        let are_certain = shared
            .iter()
            .all(|v| builder.is_certain(v) && bound.contains(v));
        if !shared.is_empty()
            && are_certain
            && builder.inserted.is_empty()
            && builder.known.rows < alone.rows
            && can_seed(right, &builder.variables())
        {
            match builder.inside(|builder| self.extend(builder, right, graph)) {
                Ok((steps, _)) => {
                    let rows = builder.known.rows * 0.5;
                    builder.push(StepKind::Without(steps), rows);
                    return Ok(());
                }
                Err(PlanError::Alone) => {}
                Err(error) => return Err(error),
            }
        }
        hash_join(builder, alone, |_| Ok(JoinKind::Minus))
    }

    fn union(
        &self,
        builder: &mut Builder,
        left: &GraphPattern,
        right: &GraphPattern,
        graph: &GraphScope,
    ) -> Planning {
        let mut branches = Vec::new();
        union_branches(left, &mut branches);
        union_branches(right, &mut branches);
        let mut planned = Vec::new();
        for branch in &branches {
            match builder.inside(|builder| self.extend(builder, branch, graph)) {
                Ok(branch) => planned.push(branch),
                Err(PlanError::Alone) if !builder.nested => {
                    let union = self.concatenate(&branches, graph)?;
                    if builder.is_unit() {
                        *builder = Builder::from_planned(union);
                        return Ok(());
                    }
                    return hash_join(builder, union, |_| Ok(JoinKind::Inner));
                }
                Err(error) => return Err(error),
            }
        }
        let mut rows = 0.0;
        let mut certain = planned[0].1.certain.clone();
        let mut all = builder.known.maybe.clone();
        for (_, known) in &planned {
            rows += known.rows;
            certain = &certain & &known.certain;
            all.extend(&known.certain | &known.maybe);
        }
        builder.known.maybe = &all - &certain;
        builder.known.certain = certain;
        builder.known.sorted = None;
        let steps = planned.into_iter().map(|(steps, _)| steps).collect();
        builder.push(StepKind::Union(steps), rows);
        Ok(())
    }

    /// The solutions of patterns planned alone, one after the other.
    fn concatenate(
        &self,
        branches: &[&GraphPattern],
        graph: &GraphScope,
    ) -> Result<Planned, QueryError> {
        let branches: Vec<Planned> = branches
            .iter()
            .map(|branch| self.plan(branch, graph, None))
            .collect::<Result<_, _>>()?;
        let mut variables: Vec<Variable> = Vec::new();
        for variable in branches.iter().flat_map(|b| &b.variables) {
            if !variables.contains(variable) {
                variables.push(variable.clone());
            }
        }
        let certain = variables
            .iter()
            .filter(|v| branches.iter().all(|b| b.certain.contains(v)))
            .cloned()
            .collect();
        let rows = branches.iter().map(|b| b.rows).sum();
        let inputs = branches
            .into_iter()
            .map(|branch| sequence::project(branch, &variables).plan)
            .collect();
        Ok(Planned {
            plan: SolutionExec::plan(Concatenate, inputs, &variables),
            variables,
            certain,
            rows,
        })
    }

    /// Adds the filters whose variables are all bound by now.
    fn place_filters(
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

    fn push_filter(
        &self,
        builder: &mut Builder,
        expression: &Expression,
        graph: &GraphScope,
    ) -> Planning {
        let compiled = self.compile(expression, &builder.slots, graph)?;
        let rows = builder.known.rows * push_down::share(expression);
        builder.push(StepKind::Filter(compiled), rows);
        Ok(())
    }

    fn push_bind(
        &self,
        builder: &mut Builder,
        variable: &Variable,
        expression: &Expression,
        graph: &GraphScope,
    ) -> Planning {
        let compiled = self.compile(expression, &builder.slots, graph)?;
        let slot = builder.slot(variable);
        let rows = builder.known.rows;
        builder.push(StepKind::Bind(slot, compiled), rows);
        builder.known.maybe.insert(slot);
        builder.known.distinct.insert(slot, rows);
        Ok(())
    }

    fn push_values(
        &self,
        builder: &mut Builder,
        variables: &[Variable],
        bindings: &[Vec<Option<GroundTerm>>],
    ) -> Planning {
        let slots: Vec<usize> = variables.iter().map(|v| builder.slot(v)).collect();
        let keys: Vec<usize> = slots
            .iter()
            .copied()
            .filter(|slot| builder.known.certain.contains(slot))
            .collect();
        let mut rows = Vec::with_capacity(bindings.len());
        for binding in bindings {
            let row = binding
                .iter()
                .map(|term| match term {
                    Some(term) => Ok(self.evaluation.intern(ground(term))?.0),
                    None => Ok(0),
                })
                .collect::<Result<Vec<u64>, QueryError>>()?;
            rows.push(row);
        }
        let estimate = if keys.is_empty() {
            builder.known.rows * rows.len() as f64
        } else {
            builder.known.rows
        };
        for (place, slot) in slots.iter().enumerate() {
            if rows.iter().all(|row| row[place] != 0) {
                builder.bind(*slot, rows.len() as f64);
            } else if !keys.contains(slot) {
                builder.known.maybe.insert(*slot);
            }
        }
        builder.known.sorted = None;
        builder.push(StepKind::Values { slots, keys, rows }, estimate);
        Ok(())
    }

    /// Compiles an expression over columns named by `variables`. An `EXISTS` in it looks at
    /// `graph`.
    fn compile(
        &self,
        expression: &Expression,
        variables: &[Variable],
        graph: &GraphScope,
    ) -> Result<SlotExpression, QueryError> {
        let mut used = variables_of(expression);
        if let GraphScope::Variable(variable) = graph {
            used.insert(variable.clone());
        }
        let exists = |pattern: &GraphPattern| self.exists(pattern, variables, graph);
        let compiled =
            CompiledExpression::compile_with(expression, variables, self.evaluation, &exists)?;
        Ok(SlotExpression {
            compiled: Arc::new(compiled),
            slots: (0..variables.len())
                .filter(|slot| used.contains(&variables[*slot]))
                .collect(),
            text: expression.to_string(),
        })
    }
}

/// Joins the pipeline so far with an independent plan.
fn hash_join(
    builder: &mut Builder,
    right: Planned,
    kind: impl FnOnce(&[Variable]) -> Result<JoinKind, QueryError>,
) -> Planning {
    if builder.nested {
        return Err(PlanError::Alone);
    }
    let needed = builder.variables();
    let inserted = builder.inserted.clone();
    let left = std::mem::take(builder).finish(Some(&needed));
    let mut keys = Vec::new();
    let mut maybe = Vec::new();
    let mut added = Vec::new();
    let mut variables = left.variables.clone();
    for (r, variable) in right.variables.iter().enumerate() {
        match left.variables.iter().position(|v| v == variable) {
            Some(l) if left.certain.contains(variable) && right.certain.contains(variable) => {
                keys.push((l, r));
            }
            Some(l) => maybe.push((l, r)),
            None => {
                added.push(r);
                variables.push(variable.clone());
            }
        }
    }
    let kind = kind(&variables)?;
    let (mut certain, mut rows) = (left.certain, left.rows);
    match &kind {
        JoinKind::Inner => {
            certain = &certain | &right.certain;
            rows = if keys.is_empty() {
                rows * right.rows
            } else {
                rows.max(right.rows)
            };
        }
        JoinKind::Left(_) => rows = rows.max(right.rows),
        JoinKind::Minus => {
            added.clear();
            variables.truncate(left.variables.len());
            if keys.is_empty() && maybe.is_empty() {
                *builder = Builder::from_planned(Planned {
                    plan: left.plan,
                    variables,
                    certain,
                    rows,
                });
                builder.inserted = inserted;
                return Ok(());
            }
        }
    }
    let join = HashJoin {
        kind,
        keys,
        maybe,
        added,
    };
    let plan = SolutionExec::plan(join, vec![left.plan, right.plan], &variables);
    *builder = Builder::from_planned(Planned {
        plan,
        variables,
        certain,
        rows,
    });
    builder.inserted = inserted;
    Ok(())
}

/// Inline data and sub-queries come first where the patterns can then start from their
/// solutions: everything they share with the patterns must be bound in all of those.
fn split_rest<'p>(
    builder: &Builder,
    group: &Group<'p>,
) -> (Vec<&'p GraphPattern>, Vec<&'p GraphPattern>) {
    let ends = group.paths.iter().flat_map(|(s, _, o)| [*s, *o]);
    let matched: Variables = group
        .triples
        .iter()
        .flat_map(|t| scope::triple_variables(t))
        .chain(ends.flat_map(term_variables))
        .collect();
    group.rest.iter().partition(|pattern| {
        let shared: Vec<Variable> = in_scope(pattern).intersection(&matched).cloned().collect();
        let bound = certain(pattern);
        let early = match pattern {
            GraphPattern::Values { .. } => true,
            pattern => !builder.nested && sequence::is_sequence(pattern) && !shared.is_empty(),
        };
        early && shared.iter().all(|v| bound.contains(v))
    })
}

/// A group that cannot match: binds its variables, so that what follows can be planned, to no
/// solutions.
fn builder_bind_nothing(builder: &mut Builder, group: &Group<'_>) {
    builder.push_nothing();
    let ends = group.paths.iter().flat_map(|(s, _, o)| [*s, *o]);
    let variables: Vec<Variable> = group
        .triples
        .iter()
        .flat_map(|t| scope::triple_variables(t))
        .chain(ends.flat_map(term_variables))
        .collect();
    for variable in variables {
        let slot = builder.slot(&variable);
        builder.bind(slot, 0.0);
    }
}

/// Takes a group apart. Filters move up from operands only where every variable they mention is
/// bound below them.
fn take_apart<'p>(pattern: &'p GraphPattern, group: &mut Group<'p>) {
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
            if variables_of(expr).is_subset(&bound) {
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

/// The operands of `&&`.
fn conjuncts<'p>(expression: &'p Expression, found: &mut Vec<&'p Expression>) {
    match expression {
        Expression::And(a, b) => {
            conjuncts(a, found);
            conjuncts(b, found);
        }
        other => found.push(other),
    }
}

/// The branches of nested UNIONs, flat.
fn union_branches<'p>(pattern: &'p GraphPattern, branches: &mut Vec<&'p GraphPattern>) {
    match pattern {
        GraphPattern::Union { left, right } => {
            union_branches(left, branches);
            union_branches(right, branches);
        }
        other => branches.push(other),
    }
}

/// A term of VALUES.
fn ground(term: &GroundTerm) -> Term {
    match term {
        GroundTerm::NamedNode(node) => node.clone().into(),
        GroundTerm::Literal(literal) => literal.clone().into(),
        GroundTerm::Triple(triple) => RdfTriple::new(
            triple.subject.clone(),
            triple.predicate.clone(),
            ground(&triple.object),
        )
        .into(),
    }
}
