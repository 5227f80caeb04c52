//! The planner, as far as operators need it: some patterns are planned while their query runs.

use oxrdf::Variable;
use pythia_rdf::{TermId, TermKind};
use spargebra::algebra::GraphPattern;

use super::context::QueryContext;
use crate::error::QueryError;
use crate::plan::Plan;
use crate::plan::dataset::GraphScope;
use crate::plan::step::Step;

/// Plans patterns for operators of a running query: those of `EXISTS` and `LATERAL`, and those that are evaluated
/// in one graph at a time.
pub trait SubqueryPlanner: Send + Sync {
    /// Plans a pattern by itself.
    fn plan(&self, subquery: &Subquery<'_>, query: &QueryContext) -> Result<Plan, QueryError>;

    /// Plans a pattern as a pipeline whose input is about `rows` rows that bind these variables. Returns
    /// `None` if parts of the pattern must be evaluated alone.
    fn plan_fed(
        &self,
        pattern: &GraphPattern,
        graph: &GraphScope,
        variables: &[Variable],
        rows: usize,
        query: &QueryContext,
    ) -> Result<Option<FedPipeline>, QueryError>;

    /// Orders again the steps that are left of a pattern, after many more solutions came than were expected. Returns `None`
    /// if no other order is better.
    fn plan_rest(
        &self,
        rest: &RestOfPattern<'_>,
        query: &QueryContext,
    ) -> Result<Option<Vec<Step>>, QueryError>;
}

/// The rest of a pattern after some of its steps.
#[derive(Debug)]
pub struct RestOfPattern<'a> {
    /// The steps that are left.
    pub steps: &'a [Step],
    /// The variable of each slot.
    pub slots: &'a [Variable],
    /// The slots of the pattern's solutions.
    pub output: &'a [usize],
    /// Number of solutions that were expected before these steps.
    pub expected: f64,
    /// Number of solutions that came, at least.
    pub rows: f64,
    /// Number of distinct terms per slot; 0 for slots that have none yet.
    pub distinct: Vec<f64>,
}

/// A pattern to be planned by itself.
#[derive(Debug)]
pub struct Subquery<'a> {
    /// The pattern.
    pub pattern: &'a GraphPattern,
    /// The graph in which it is matched.
    pub graph: &'a GraphScope,
    /// Terms substituted for variables at every leaf.
    pub inserted: Vec<(Variable, TermId)>,
    /// True if no variable's values are needed, only whether there are solutions.
    pub is_test: bool,
    /// True to record the planner's choices, if the query will be explained.
    pub is_shown: bool,
}

/// Returns an id that no term has, to be replaced by a term when the plan is run.
pub(super) fn placeholder(number: u64) -> TermId {
    // The last id is that of a graph that no store has.
    TermId::new(TermKind::Computed, TermId::PAYLOAD_MAX - 1 - number)
}

/// A pattern as a pipeline with rows as input.
#[derive(Debug)]
pub struct FedPipeline {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The variable of each slot; the first ones are the bound variables.
    pub slots: Vec<Variable>,
    /// Slot that is passed on from each row to its solutions.
    pub row_slot: usize,
}
