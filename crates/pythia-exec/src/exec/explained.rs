//! Describes a query's plan with what is known only while the query runs: measurements, the planner's choices, and the plans
//! that operators make.

use std::any::Any;
use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion_physical_plan::ExecutionPlan;
use oxrdf::Variable;

use super::context::QueryContext;
use super::each_graph::first_graph;
use super::exists::Exists;
use super::inside::{Tested, Together};
use super::lateral::template::template;
use super::node::{SolutionExec, nodes};
use super::readable::{Names, listed, named};
use super::templates::Template;
use crate::explain::{Explainer, PlanNode, Reordered};
use crate::plan::Operator;
use crate::plan::choices::{Alternative, Choice, Rejected};
use crate::plan::describe::describe_steps;
use crate::plan::expression::SlotExpression;
use crate::plan::operators::{EachGraph, JoinKind, Lateral};
use crate::plan::step::{Step, StepKind};

/// The most rows for which an `EXISTS` that has not run is planned: about those of one batch.
const TESTED_MAX: f64 = 2048.0;

/// Describes a plan with the measurements of the query so far.
pub fn explain(plan: &dyn ExecutionPlan, query: &QueryContext) -> PlanNode {
    let explainer = query.explainer();
    let mut node = Explaining { query, explainer }.node(plan);
    node.compare_estimates();
    Names::of(plan).put_into(&mut node);
    node
}

/// Returns the variables of the first input of a node, one for each column.
fn inputs_variables(plan: &dyn ExecutionPlan) -> &[Variable] {
    let first = plan.children().into_iter().next();
    let first = first.and_then(|input| input.downcast_ref::<SolutionExec>());
    first.map_or(&[], SolutionExec::variables)
}

/// Properties of the solutions before a step.
#[derive(Clone)]
struct Known {
    /// Expected number.
    rows: f64,
    /// Slots that some of them bind.
    bound: BTreeSet<usize>,
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
        match &*solutions.operator {
            Operator::Pattern(pattern) => {
                let rows = node.inputs.first().and_then(|input| input.estimated_rows);
                let known = Known {
                    rows: rows.unwrap_or(1.0),
                    bound: pattern.input.iter().copied().collect(),
                };
                let profile = self.query.profile.as_ref();
                let changed = profile.and_then(|profile| profile.change(&pattern.steps));
                if let Some(changed) = &changed {
                    node.steps = describe_steps(&changed.steps, &pattern.slots, &self.explainer);
                    for &(place, expected, came) in &changed.places {
                        node.steps[place].reordered = Some(Reordered { expected, came });
                    }
                }
                let steps = changed
                    .as_ref()
                    .map_or(&pattern.steps, |changed| &changed.steps);
                self.add_to(steps, &mut node.steps, &pattern.slots, known);
            }
            Operator::Aggregation(aggregation) => {
                let variables = inputs_variables(plan);
                let keys = aggregation.keys.iter().flatten();
                let keys = listed(keys.filter_map(|key| variables.get(*key)));
                let results = solutions.variables().iter().skip(aggregation.keys.len());
                let named = results.map(|result| named(result).then_some(result));
                node.detail = aggregation.describe_by(&keys, named);
            }
            Operator::Project(_) => {
                node.detail = format!("[{}]", listed(solutions.variables().iter()))
            }
            Operator::HashJoin(join) => {
                let variables = inputs_variables(plan);
                let names = |keys: &[(usize, usize)]| {
                    listed(keys.iter().filter_map(|(left, _)| variables.get(*left)))
                };
                node.detail = format!("on [{}]", names(&join.keys));
                if !join.maybe.is_empty() {
                    node.detail
                        .push_str(&format!(" compatible [{}]", names(&join.maybe)));
                }
                if let JoinKind::Left(Some(condition)) = &join.kind {
                    self.add_tests(condition, &mut node, 1.0, &|_| true);
                }
            }
            Operator::Lateral(lateral) => node.steps = self.of_lateral(lateral),
            Operator::EachGraph(each) => node.steps.extend(self.of_each_graph(each)),
            Operator::Sort(sort) => {
                for key in &sort.keys {
                    self.add_tests(&key.expression, &mut node, 1.0, &|_| true);
                }
            }
            _ => {}
        }
        node
    }

    /// Adds to the descriptions of steps why they were chosen, and the plans of their `EXISTS`. `known` is what is known of the
    /// solutions that the first step gets.
    fn add_to(&self, steps: &[Step], nodes: &mut [PlanNode], slots: &[Variable], mut known: Known) {
        let Some(choices) = &self.query.choices else {
            return;
        };
        for (step, node) in steps.iter().zip(nodes) {
            if let Some(choice) = choices.of(step.cost) {
                self.add_choice(&choice, node, slots);
            }
            match &step.kind {
                StepKind::Optional(inner) => {
                    self.add_to(inner, &mut node.steps, slots, known.clone());
                }
                StepKind::Union(branches) => {
                    for (branch, node) in branches.iter().zip(&mut node.steps) {
                        self.add_to(branch, &mut node.steps, slots, known.clone());
                    }
                }
                StepKind::Filter(expression) | StepKind::Bind(_, expression) => {
                    self.add_tests(expression, node, known.rows, &|slot| {
                        known.bound.contains(&slot)
                    });
                }
                _ => {}
            }
            known.rows = step.rows;
            step.each_new(&mut |slot| {
                known.bound.insert(slot);
            });
        }
    }

    fn add_choice(&self, choice: &Choice, node: &mut PlanNode, slots: &[Variable]) {
        node.estimated_us = self.cost(choice.cost_us);
        let order = choice.order.clone();
        node.order = match self.explainer.hides_graphs() {
            true => order.map(|order| order.without_costs()),
            false => order,
        };
        let rejected = choice.rejected.iter();
        node.rejected = rejected.map(|other| self.rejected(other, slots)).collect();
    }

    fn rejected(&self, rejected: &Rejected, slots: &[Variable]) -> PlanNode {
        let mut node = match &rejected.alternative {
            Alternative::Step(step) => {
                describe_steps(slice::from_ref(&**step), slots, &self.explainer).remove(0)
            }
            Alternative::Operand {
                operator,
                slots: bound,
            } => {
                let names: Vec<_> = bound.iter().map(|slot| slots[*slot].to_string()).collect();
                PlanNode::new(*operator, names.join(" "))
            }
        };
        node.measured = None;
        node.estimated_rows = Some(rejected.rows);
        node.estimated_us = self.cost(rejected.cost_us);
        node
    }

    /// Returns an expected cost, unless graphs are hidden: costs depend on the size of the whole store.
    fn cost(&self, time_us: f64) -> Option<f64> {
        (!self.explainer.hides_graphs()).then_some(time_us)
    }

    /// Adds the plans of an expression's `EXISTS` to the description of its step or operator, which gets about `rows` rows that
    /// bind some slots.
    fn add_tests(
        &self,
        expression: &SlotExpression,
        node: &mut PlanNode,
        rows: f64,
        is_bound: &dyn Fn(usize) -> bool,
    ) {
        if self.query.choices.is_none() {
            return;
        }
        let tests = expression.tests.iter();
        for test in tests.filter_map(|test| (&**test as &dyn Any).downcast_ref::<Exists>()) {
            let rows = rows.clamp(1.0, TESTED_MAX) as usize;
            // What cannot be planned fails when it runs, with the error.
            let plans = test.plans(rows, is_bound, self.query).unwrap_or_default();
            let plans = plans.into_iter();
            node.steps
                .extend(plans.map(|(bound, tested)| self.of_test(test, &bound, tested)));
        }
    }

    /// Describes one plan of an `EXISTS`.
    fn of_test(&self, test: &Exists, bound: &[Variable], tested: Tested) -> PlanNode {
        let names: Vec<_> = bound.iter().map(Variable::to_string).collect();
        let (how, steps) = match tested {
            Tested::Together(together) => ("", self.of_pipeline(&together)),
            Tested::First { plan, .. } => {
                (" one by one, first", vec![self.node(nodes(plan).as_ref())])
            }
        };
        let detail = format!("with [{}]{how} {{ {} }}", names.join(" "), test.pattern());
        PlanNode {
            steps,
            ..PlanNode::new("Exists", detail)
        }
    }

    /// Describes the steps of a pipeline for all rows that were fed to it.
    fn of_pipeline(&self, pipeline: &Together) -> Vec<PlanNode> {
        let mut steps = describe_steps(&pipeline.steps, &pipeline.slots, &self.explainer);
        let rows = pipeline.planned as f64;
        let known = Known {
            rows,
            bound: pipeline.bound.clone(),
        };
        self.add_to(&pipeline.steps, &mut steps, &pipeline.slots, known);
        if self.explainer.measures() && pipeline.fed > 0 {
            let runs = pipeline.fed as f64 / rows.max(1.0);
            steps.iter_mut().for_each(|step| step.expect_times(runs));
        }
        steps
    }

    /// Describes the plan of an operator's first graph.
    fn of_each_graph(&self, each: &EachGraph) -> Option<PlanNode> {
        self.query.choices.as_ref()?;
        let (graph, plan) = first_graph(each, self.query).ok()??;
        Some(PlanNode {
            steps: vec![self.node(nodes(plan).as_ref())],
            ..PlanNode::new(
                "Graph",
                format!("{}, the first", self.explainer.term(graph)),
            )
        })
    }

    /// Describes the plans of a `LATERAL`, each for all combinations of terms that it was run for.
    fn of_lateral(&self, lateral: &Lateral) -> Vec<PlanNode> {
        let mut templates = self.query.templates.of(lateral.number);
        if templates.is_empty() && self.query.choices.is_some() {
            // The plan for rows that bind all variables, as it would be.
            let bound = vec![true; lateral.shared.len()];
            templates.extend(template(lateral, &bound, self.query));
        }
        let has_run = |template: &Arc<Template>| template.runs.load(Ordering::Relaxed) > 0;
        if templates.iter().any(has_run) {
            templates.retain(has_run);
        }
        let describe = |template: Arc<Template>| {
            let mut node = self.node(nodes(template.plan.clone()).as_ref());
            let runs = template.runs.load(Ordering::Relaxed);
            if self.explainer.measures() && runs > 0 {
                node.expect_times(runs as f64);
            }
            node
        };
        templates.into_iter().map(describe).collect()
    }
}
