//! Describes a query's plan with what is known only while the query runs: measurements, and the plans that operators make.

use std::sync::atomic::Ordering;

use datafusion_physical_plan::ExecutionPlan;

use super::context::QueryContext;
use super::node::{SolutionExec, nodes};
use crate::explain::{Explainer, PlanNode};
use crate::plan::Operator;
use crate::plan::operators::Lateral;

/// Describes a plan with the measurements of the query so far.
pub fn explain(plan: &dyn ExecutionPlan, query: &QueryContext) -> PlanNode {
    let explainer = query.explainer();
    let mut node = Explaining { query, explainer }.node(plan);
    node.compare_estimates();
    node
}

/// The description of one query's plan.
struct Explaining<'a> {
    query: &'a QueryContext,
    explainer: Explainer<'a>,
}

impl Explaining<'_> {
    fn node(&self, plan: &dyn ExecutionPlan) -> PlanNode {
        let Some(solutions) = plan.downcast_ref::<SolutionExec>() else {
            return PlanNode::new(plan.name(), "");
        };
        let mut node = solutions.operator.explain(&self.explainer);
        node.estimated_rows = solutions.estimated_rows;
        node.measured = self.explainer.measured(solutions.cost);
        let inputs = plan.children().into_iter();
        node.inputs = inputs.map(|input| self.node(input.as_ref())).collect();
        if let Operator::Lateral(lateral) = &*solutions.operator {
            node.steps = self.of_lateral(lateral);
        }
        node
    }

    /// Describes the plans of a `LATERAL`, each for all combinations of terms that it was run for.
    fn of_lateral(&self, lateral: &Lateral) -> Vec<PlanNode> {
        let templates = self.query.templates.of(lateral.number).into_iter();
        let describe = |template: std::sync::Arc<super::templates::Template>| {
            let mut node = self.node(nodes(template.plan.clone()).as_ref());
            let runs = template.runs.load(Ordering::Relaxed);
            if self.explainer.measures() && runs > 0 {
                node.expect_times(runs as f64);
            }
            node
        };
        templates.map(describe).collect()
    }
}
