//! Planning: from SPARQL algebra to a physical plan.
//!
//! Operators that can be evaluated by extending solutions one pattern at a time are fused into one
//! [`Pattern`](pythia_exec::plan::operators::Pattern) node ([`builder`], [`bgp`]). Operands that SPARQL's bottom-up
//! semantics requires to be evaluated alone ([`can_seed`](pythia_sparql::scope::can_seed)) are planned separately and joined by hash. There is
//! no logical plan and no rule set: the planner builds the physical plan while it walks the algebra.

mod any_predicate;
mod bgp;
mod bind;
pub(crate) mod builder;
mod cached;
mod common;
mod complement;
mod components;
mod constants;
mod eager_aggregation;
mod early_count;
mod element;
mod equality;
pub(crate) mod exists;
mod graph;
mod group;
mod join;
mod join_method;
mod labelled;
mod lateral;
mod limit;
mod link_filter;
mod long;
mod metadata;
mod operand;
mod order;
mod outer_join;
mod path_count;
mod path_estimate;
mod pattern;
mod push_down;
mod rejected;
mod rest;
mod sampled_link;
mod search;
mod semi_join;
mod sequence;
mod service;
mod set_estimate;
mod sub_select;
#[cfg(test)]
mod tests;
mod triple_term;
pub(crate) mod visible;

use std::cell::RefCell;
use std::rc::Rc;

use oxrdf::{Term, Variable};
use pythia_rdf::TermId;
use pythia_sparql::scope::Variables;
use pythia_store::{QuadPattern, Snapshot};
use rustc_hash::FxHashMap;
use spargebra::algebra::GraphPattern;

use builder::Planned;
use common::PlannedGroups;
use pythia_exec::error::QueryError;
use pythia_exec::expression::EvaluationContext;
use pythia_exec::plan::choices::Choices;
use pythia_exec::plan::counts::Counts;
use pythia_exec::plan::dataset::{Dataset, GraphScope};
use sampled_link::Samples;

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
    /// The record of the planner's choices, if they will be explained.
    choices: Option<&'a Choices>,
    /// True if the query is one triple pattern. Nothing depends on the number of its matches, unless the plan is explained.
    is_lone: bool,
    /// The groups that were planned, if this plans a whole query.
    groups: Option<&'a PlannedGroups>,
    /// Ids of the query's terms that were looked up.
    terms: Rc<RefCell<FxHashMap<Term, Option<TermId>>>>,
    /// Numbers of matches of patterns that were counted.
    matches: Rc<RefCell<FxHashMap<QuadPattern, f64>>>,
    /// Samples of links that were taken.
    samples: Rc<Samples>,
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
            choices: None,
            is_lone: false,
            groups: None,
            terms: Rc::default(),
            matches: Rc::default(),
            samples: Rc::default(),
        }
    }

    /// Lets the planner record its choices.
    pub(crate) fn with_choices(mut self, choices: Option<&'a Choices>) -> Self {
        self.choices = choices;
        self
    }

    /// Plans the pattern of a whole query; see [`Planner::plan`].
    pub(crate) fn plan_query(
        self,
        pattern: &GraphPattern,
        graph: &GraphScope,
        needed: Option<&Variables>,
    ) -> Result<Planned, QueryError> {
        let groups = PlannedGroups::default();
        let planner = Planner {
            is_lone: self.choices.is_none() && is_lone(pattern),
            groups: Some(&groups),
            ..self
        };
        let mut planned = planner.plan(pattern, graph, needed)?;
        common::keep_repeated(&mut planned.plan);
        Ok(planned)
    }

    /// Returns whether a pattern has the same solutions alone: its graphs are fixed, and no terms are inserted from outside.
    fn is_independent(&self, graph: &GraphScope) -> bool {
        graph.is_fixed() && self.inserted.is_empty()
    }

    /// Returns the cardinalities that the query may use.
    fn counts(&self) -> Counts<'a> {
        Counts::new(self.snapshot, self.dataset.visible.as_deref())
    }
}

/// Returns whether a query is one triple pattern, whose solutions are shown as they come.
fn is_lone(pattern: &GraphPattern) -> bool {
    match pattern {
        GraphPattern::Bgp { patterns } => patterns.len() == 1,
        GraphPattern::Project { inner, .. } | GraphPattern::Slice { inner, .. } => is_lone(inner),
        _ => false,
    }
}
