//! Planning: from SPARQL algebra to a physical plan.
//!
//! Operators that can be evaluated by extending solutions one pattern at a time are fused into one
//! [`Pattern`](crate::exec::pattern::Pattern) node ([`builder`], [`bgp`]). Operands that SPARQL's bottom-up
//! semantics requires to be evaluated alone ([`scope`]) are planned separately and joined by hash. There is
//! no logical plan and no rule set: the planner builds the physical plan while it walks the algebra.

pub(crate) mod automaton;
pub(crate) mod bgp;
pub(crate) mod builder;
mod cached;
pub(crate) mod counts;
pub(crate) mod dataset;
pub(crate) mod duplicates;
mod equality;
mod exists;
mod graph;
mod group;
mod join;
pub(crate) mod labelled;
mod long;
mod metadata;
mod order;
mod path_count;
mod path_estimate;
pub(crate) mod paths;
mod push_down;
pub(crate) mod scope;
pub(crate) mod search;
mod sequence;
mod service;
#[cfg(test)]
mod tests;
mod triple_term;
pub(crate) mod visible;
mod ways;

use std::sync::Arc;

use oxrdf::{Term, Triple as RdfTriple, Variable};
use pythia_rdf::TermId;
use pythia_store::Snapshot;
use spargebra::algebra::{Expression, GraphPattern};
use spargebra::term::GroundTerm;

use self::builder::{Builder, GraphScope, Planned};
use self::counts::Counts;
use self::dataset::Dataset;
use self::group::{Group, take_apart};
use self::join::hash_join;
use self::scope::{Variables, variables_of};
use crate::error::QueryError;
use crate::exec::join::JoinKind;
use crate::exec::step::{SlotExpression, StepKind};
use crate::expression::{CompiledExpression, EvaluationContext};

/// The reason why a pattern could not be planned as requested.
enum PlanError {
    /// The pattern cannot be part of the pipeline and must be evaluated alone.
    Alone,
    /// The pattern cannot be planned at all.
    Query(QueryError),
}

impl<E: Into<QueryError>> From<E> for PlanError {
    fn from(error: E) -> Self {
        Self::Query(error.into())
    }
}

type Planning = Result<(), PlanError>;

/// Planner of the patterns of one query.
pub(crate) struct Planner<'a> {
    snapshot: &'a Snapshot,
    evaluation: &'a EvaluationContext,
    dataset: &'a Dataset,
    /// Terms substituted for variables at every leaf: the row that an `EXISTS` tests.
    inserted: Vec<(Variable, TermId)>,
    /// End of a path that is counted instead of enumerated; see [`path_count`].
    counted: Option<Variable>,
}

impl<'a> Planner<'a> {
    /// Creates a planner over `snapshot`; `evaluation` maps constants to ids.
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
            counted: None,
        }
    }

    /// Returns the cardinalities that the query may use.
    fn counts(&self) -> Counts<'a> {
        Counts::new(self.snapshot, self.dataset.visible.as_deref())
    }

    /// Plans a pattern by itself. `needed` are the variables that the caller uses, `None` for all.
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
            // The pattern is evaluated in each graph, even in those without matches for its parts.
            let slot = builder.slot(variable);
            self.push_graphs(&mut builder, slot);
        }
        match self.extend(&mut builder, pattern, graph) {
            Ok(()) => Ok(builder.finish(needed).with_estimate()),
            Err(PlanError::Query(error)) => Err(error),
            Err(PlanError::Alone) => unreachable!("only a nested pipeline cannot take a hash join"),
        }
    }

    /// Extends the pipeline's solutions by a pattern; the caller ensures that the pattern can be seeded (see
    /// [`scope`]).
    fn extend(
        &self,
        builder: &mut Builder,
        pattern: &GraphPattern,
        graph: &GraphScope,
    ) -> Planning {
        self.evaluation.check()?;
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
            GraphPattern::Service { name, inner, .. } if search::is_search(name) => {
                self.search(builder, inner, graph)
            }
            GraphPattern::Service {
                name,
                inner,
                silent,
            } => self.service(builder, name, inner, *silent, false),
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

    /// Compiles an expression over columns named by `variables`. `EXISTS` in it is evaluated in `graph`.
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

/// Converts a term of VALUES.
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
