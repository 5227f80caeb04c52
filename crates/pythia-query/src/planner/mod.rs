//! Planning: from SPARQL algebra to a physical plan.
//!
//! Operators that can be evaluated by extending solutions one pattern at a time are fused into one
//! [`Pattern`](pythia_exec::plan::operators::Pattern) node ([`builder`], [`bgp`]). Operands that SPARQL's bottom-up
//! semantics requires to be evaluated alone ([`can_seed`](pythia_sparql::scope::can_seed)) are planned separately and joined by hash. There is
//! no logical plan and no rule set: the planner builds the physical plan while it walks the algebra.

mod any_predicate;
mod bgp;
pub(crate) mod builder;
mod cached;
mod complement;
mod components;
mod constant_bind;
mod constants;
mod count_product;
mod element;
mod equality;
pub(crate) mod exists;
mod graph;
mod group;
mod join;
mod join_method;
mod labelled;
mod lateral;
mod long;
mod metadata;
mod operand;
mod order;
mod path_count;
mod path_estimate;
mod pattern;
mod push_down;
mod rejected;
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

use oxrdf::Variable;
use pythia_rdf::TermId;
use pythia_store::Snapshot;

use pythia_exec::error::QueryError;
use pythia_exec::expression::EvaluationContext;
use pythia_exec::plan::choices::Choices;
use pythia_exec::plan::counts::Counts;
use pythia_exec::plan::dataset::Dataset;

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
        }
    }

    /// Lets the planner record its choices.
    pub(crate) fn with_choices(mut self, choices: Option<&'a Choices>) -> Self {
        self.choices = choices;
        self
    }

    /// Returns the cardinalities that the query may use.
    fn counts(&self) -> Counts<'a> {
        Counts::new(self.snapshot, self.dataset.visible.as_deref())
    }
}
