//! From SPARQL algebra to a physical plan.
//!
//! Whatever can be evaluated by extending solutions one pattern at a time becomes one fused
//! [`Pattern`](crate::exec::pattern::Pattern) node ([`builder`], [`bgp`]); what SPARQL's bottom-up
//! semantics demands to be evaluated alone ([`scope`]) is planned alone and joined by hash.
//! There is no logical plan and no rule set: the physical plan is built as the algebra is walked.

pub(crate) mod automaton;
pub(crate) mod bgp;
pub(crate) mod builder;
mod metadata;
mod order;
pub(crate) mod paths;
mod push_down;
pub(crate) mod scope;
mod sequence;
mod ways;

use std::sync::Arc;

use oxrdf::{NamedNode, Term, Triple as RdfTriple, Variable};
use pythia_rdf::TermId;
use pythia_store::{GraphFilter, QuadPattern, Snapshot};
use spargebra::algebra::{Expression, GraphPattern, PropertyPathExpression};
use spargebra::term::{GroundTerm, NamedNodePattern, TermPattern, TriplePattern};

use self::automaton::Automaton;
use self::bgp::{Element, GraphPlace, Place, Triple, join_elements};
use self::builder::{Builder, GraphScope, Planned};
use self::scope::{Variables, can_seed, certain, in_scope, term_variable, variables_of};
use crate::error::QueryError;
use crate::exec::join::{HashJoin, JoinKind};
use crate::exec::operator::SolutionExec;
use crate::exec::relational::Concatenate;
use crate::exec::step::{GraphPosition, PathStep, Position, SlotExpression, StepKind};
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

/// Plans the patterns of one query.
pub(crate) struct Planner<'a> {
    snapshot: &'a Snapshot,
    evaluation: &'a EvaluationContext,
}

/// A group's operands, taken apart: what can be joined in any order, and what follows in order.
#[derive(Default)]
struct Group<'p> {
    triples: Vec<&'p TriplePattern>,
    paths: Vec<(&'p TermPattern, &'p PropertyPathExpression, &'p TermPattern)>,
    filters: Vec<&'p Expression>,
    rest: Vec<&'p GraphPattern>,
}

impl<'a> Planner<'a> {
    /// A planner over what `snapshot` holds; constants become ids through `evaluation`.
    pub(crate) fn new(snapshot: &'a Snapshot, evaluation: &'a EvaluationContext) -> Self {
        Self {
            snapshot,
            evaluation,
        }
    }

    /// Plans a pattern by itself. `needed` are the variables the caller wants, `None` all.
    pub(crate) fn plan(
        &self,
        pattern: &GraphPattern,
        graph: &GraphScope,
        needed: Option<&Variables>,
    ) -> Result<Planned, QueryError> {
        if let Some(planned) = self.plan_sequence(pattern, graph, needed)? {
            return Ok(planned.with_estimate());
        }
        let mut builder = Builder::new();
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
        if shared_are_certain && can_seed(pattern, &builder.variables()) {
            return self.extend(builder, pattern, graph);
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
                self.extend_group(builder, &group, graph)
            }
            GraphPattern::Filter { expr, inner } => {
                let bound = certain(inner);
                if variables_of(expr).iter().all(|v| bound.contains(v)) {
                    let mut group = Group::default();
                    take_apart(pattern, &mut group);
                    self.extend_group(builder, &group, graph)
                } else {
                    self.extend(builder, inner, graph)?;
                    self.push_filter(builder, expr)
                }
            }
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
                self.push_bind(builder, variable, expression)
            }
            GraphPattern::Values {
                variables,
                bindings,
            } => self.push_values(builder, variables, bindings),
            GraphPattern::Minus { left, right } => {
                self.extend(builder, left, graph)?;
                let right = self.plan(right, graph, None)?;
                hash_join(builder, right, |_| Ok(JoinKind::Minus))
            }
            GraphPattern::Graph { name, inner } => self.extend_graph(builder, name, inner),
            GraphPattern::Service { .. } => Err(QueryError::unsupported("SERVICE").into()),
            other if !sequence::is_sequence(other) => {
                Err(QueryError::unsupported("this kind of group (LATERAL)").into())
            }
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

    fn extend_group(
        &self,
        builder: &mut Builder,
        group: &Group<'_>,
        graph: &GraphScope,
    ) -> Planning {
        let (first, after) = split_rest(builder, group);
        for pattern in first {
            self.join(builder, pattern, graph)?;
        }
        let elements = self.elements(builder, group, graph)?;
        let mut filters = group.filters.clone();
        match elements {
            Some(mut elements) => {
                let hints = self.push_down(builder, &filters, &mut elements)?;
                join_elements(builder, self.snapshot, &elements, &hints, |builder| {
                    self.place_filters(builder, &mut filters)
                })?;
            }
            None => builder_bind_nothing(builder, group),
        }
        for pattern in after {
            self.join(builder, pattern, graph)?;
        }
        for filter in filters {
            self.push_filter(builder, filter)?;
        }
        Ok(())
    }

    /// The group's triple patterns and paths with their constants as ids; `None` if one of them
    /// names a term or graph the store does not have, so that nothing can match.
    fn elements(
        &self,
        builder: &mut Builder,
        group: &Group<'_>,
        graph: &GraphScope,
    ) -> Result<Option<Vec<Element>>, PlanError> {
        let place = match graph {
            GraphScope::Fixed(filter) => GraphPlace::Filter(*filter),
            GraphScope::Absent => return Ok(None),
            GraphScope::Variable(variable) => GraphPlace::Slot(builder.slot(variable)),
        };
        if let GraphPlace::Slot(slot) = place
            && !group.paths.is_empty()
            && !builder.known.certain.contains(&slot)
        {
            self.push_graphs(builder, slot);
        }
        let mut elements = Vec::new();
        for triple in &group.triples {
            let subject = self.place(builder, &triple.subject)?;
            let predicate = match &triple.predicate {
                NamedNodePattern::NamedNode(node) => self.constant(&Term::from(node.clone()))?,
                NamedNodePattern::Variable(v) => Some(Place::Slot(builder.slot(v))),
            };
            let object = self.place(builder, &triple.object)?;
            let (Some(s), Some(p), Some(o)) = (subject, predicate, object) else {
                return Ok(None);
            };
            elements.push(Element::Triple(Triple::new(self.snapshot, s, p, o, place)?));
        }
        for (subject, path, object) in &group.paths {
            elements.push(Element::Path(
                self.path(builder, subject, path, object, place)?,
            ));
        }
        Ok(Some(elements))
    }

    fn path(
        &self,
        builder: &mut Builder,
        subject: &TermPattern,
        path: &PropertyPathExpression,
        object: &TermPattern,
        graph: GraphPlace,
    ) -> Result<PathStep, PlanError> {
        let mut resolve = |node: &NamedNode| -> Result<Option<TermId>, QueryError> {
            Ok(self.snapshot.resolve(node.as_ref().into())?)
        };
        let mut end = |term: &TermPattern| -> Result<Position, PlanError> {
            Ok(match term_variable(term) {
                Some(variable) => Position::New(builder.slot(&variable)),
                // A path of length zero connects any term with itself, known to the store or not.
                None => Position::Constant(self.evaluation.intern(ground_term(term)?)?),
            })
        };
        Ok(PathStep {
            subject: end(subject)?,
            object: end(object)?,
            graph: match graph {
                GraphPlace::Filter(filter) => GraphPosition::Filter(filter),
                GraphPlace::Slot(slot) => GraphPosition::Bound(slot),
            },
            forward: Automaton::compile(path, &mut resolve)?,
            backward: Automaton::compile(&Automaton::reversed(path), &mut resolve)?,
            text: path.to_string(),
        })
    }

    fn place(&self, builder: &mut Builder, term: &TermPattern) -> Result<Option<Place>, PlanError> {
        match term_variable(term) {
            Some(variable) => Ok(Some(Place::Slot(builder.slot(&variable)))),
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
        if shared_are_certain && can_seed(right, &builder.variables()) {
            let inside = builder.inside(|builder| {
                self.extend(builder, right, graph)?;
                match condition {
                    Some(condition) => self.push_filter(builder, condition),
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
        let right = self.plan(right, graph, None)?;
        hash_join(builder, right, |variables| {
            let condition = condition.map(|c| self.compile(c, variables)).transpose()?;
            Ok(JoinKind::Left(condition))
        })
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

    fn extend_graph(
        &self,
        builder: &mut Builder,
        name: &NamedNodePattern,
        inner: &GraphPattern,
    ) -> Planning {
        match name {
            NamedNodePattern::NamedNode(node) => {
                match self.snapshot.resolve(node.as_ref().into())? {
                    Some(id) if self.has_graph(id)? => {
                        let scope = GraphScope::Fixed(GraphFilter::One(id));
                        self.extend(builder, inner, &scope)
                    }
                    _ => {
                        self.extend(builder, inner, &GraphScope::Absent)?;
                        builder.push_nothing();
                        Ok(())
                    }
                }
            }
            NamedNodePattern::Variable(variable) => {
                if sequence::needs_evaluation_per_graph(inner) {
                    return Err(QueryError::unsupported_hint(
                        format!("a sub-query or MINUS inside GRAPH {variable}"),
                        "put the GRAPH inside the sub-query, or name the graph",
                    )
                    .into());
                }
                let mut outer = builder.variables();
                outer.insert(variable.clone());
                if !can_seed(inner, &outer) {
                    return Err(QueryError::unsupported_hint(
                        format!("a group inside GRAPH {variable} that uses {variable} itself"),
                        "put the FILTER, BIND, VALUES or OPTIONAL outside the GRAPH",
                    )
                    .into());
                }
                let scope = GraphScope::Variable(variable.clone());
                let slot = builder.slot(variable);
                // Parts that may be empty must not decide which graphs there are.
                if !certain(inner).iter().any(|v| !builder.is_certain(v))
                    || !matches!(inner, GraphPattern::Bgp { .. })
                {
                    self.push_graphs(builder, slot);
                }
                self.extend(builder, inner, &scope)
            }
        }
    }

    fn has_graph(&self, graph: TermId) -> Result<bool, QueryError> {
        if let Some(quads) = self.snapshot.statistics().graphs.quads(graph) {
            return Ok(quads > 0);
        }
        let pattern = QuadPattern {
            graph: GraphFilter::One(graph),
            ..QuadPattern::default()
        };
        Ok(self.snapshot.count(&pattern)? > 0)
    }

    fn push_graphs(&self, builder: &mut Builder, slot: usize) {
        if builder.known.certain.contains(&slot) {
            let rows = builder.known.rows;
            builder.push(StepKind::Graphs(Position::Bound(slot)), rows);
            return;
        }
        let graphs = self.snapshot.statistics().graphs.graphs.len() as f64;
        let rows = builder.known.rows * graphs.max(1.0);
        builder.push(StepKind::Graphs(Position::New(slot)), rows);
        builder.known.sorted = None;
        builder.bind(slot, graphs);
    }

    /// Adds the filters whose variables are all bound by now.
    fn place_filters(
        &self,
        builder: &mut Builder,
        filters: &mut Vec<&Expression>,
    ) -> Result<(), QueryError> {
        let mut error = None;
        filters.retain(|filter| {
            let ready = variables_of(filter).iter().all(|v| builder.is_certain(v));
            if !ready || error.is_some() {
                return true;
            }
            if let Err(e) = self.push_filter(builder, filter) {
                error = Some(e);
            }
            false
        });
        match error {
            Some(PlanError::Query(error)) => Err(error),
            _ => Ok(()),
        }
    }

    fn push_filter(&self, builder: &mut Builder, expression: &Expression) -> Planning {
        let compiled = self.compile(expression, &builder.slots)?;
        let rows = builder.known.rows * push_down::share(expression);
        builder.push(StepKind::Filter(compiled), rows);
        Ok(())
    }

    fn push_bind(
        &self,
        builder: &mut Builder,
        variable: &Variable,
        expression: &Expression,
    ) -> Planning {
        let compiled = self.compile(expression, &builder.slots)?;
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
            } else {
                builder.known.maybe.insert(*slot);
            }
        }
        builder.known.sorted = None;
        builder.push(StepKind::Values { slots, keys, rows }, estimate);
        Ok(())
    }

    /// Compiles an expression over columns named by `variables`.
    fn compile(
        &self,
        expression: &Expression,
        variables: &[Variable],
    ) -> Result<SlotExpression, QueryError> {
        let used = variables_of(expression);
        Ok(SlotExpression {
            compiled: Arc::new(CompiledExpression::compile(
                expression,
                variables,
                self.evaluation,
            )?),
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
        .chain(ends.filter_map(term_variable))
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
        .chain(ends.filter_map(term_variable))
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
            if variables_of(expr).iter().all(|v| bound.contains(v)) {
                conjuncts(expr, &mut group.filters);
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

/// The term of a pattern without variables.
fn ground_term(pattern: &TermPattern) -> Result<Term, QueryError> {
    Ok(match pattern {
        TermPattern::NamedNode(node) => node.clone().into(),
        TermPattern::Literal(literal) => literal.clone().into(),
        TermPattern::Triple(triple) => {
            let subject: oxrdf::NamedOrBlankNode = match ground_term(&triple.subject)? {
                Term::NamedNode(node) => node.into(),
                Term::BlankNode(node) => node.into(),
                _ => {
                    return Err(QueryError::unsupported(
                        "a literal as the subject of a triple term",
                    ));
                }
            };
            let NamedNodePattern::NamedNode(predicate) = &triple.predicate else {
                return Err(variable_in_triple_term());
            };
            let object = ground_term(&triple.object)?;
            RdfTriple::new(subject, predicate.clone(), object).into()
        }
        TermPattern::Variable(_) | TermPattern::BlankNode(_) => {
            return Err(variable_in_triple_term());
        }
    })
}

fn variable_in_triple_term() -> QueryError {
    QueryError::unsupported_hint(
        "a variable inside a triple term",
        "bind the triple term to a variable and take it apart with SUBJECT, PREDICATE and OBJECT",
    )
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
