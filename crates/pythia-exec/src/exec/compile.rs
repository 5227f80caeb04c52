//! Compiles the expressions of a plan for the query that will run it.

use std::cell::RefCell;
use std::sync::Arc;

use spargebra::algebra::GraphPattern;

use super::exists::Exists;
use crate::error::QueryError;
use crate::expression::aggregate::CompiledAggregate;
use crate::expression::{CompiledExpression, EvaluationContext, ExistsTest};
use crate::plan::expression::{Aggregates, SlotExpression};
use crate::plan::operators::JoinKind;
use crate::plan::path_search::{EdgeSource, WeightKind};
use crate::plan::step::{Step, StepKind};
use crate::plan::{Operator, Plan};

/// Compiles the expressions of an operator with these inputs.
pub(super) fn compile(
    operator: &mut Operator,
    inputs: &[Plan],
    evaluation: &EvaluationContext,
) -> Result<(), QueryError> {
    match operator {
        Operator::Pattern(pattern) => compile_steps(&mut pattern.steps, evaluation),
        Operator::HashJoin(join) => match &mut join.kind {
            JoinKind::Left(Some(condition)) => compile_expression(condition, evaluation),
            JoinKind::Left(None) | JoinKind::Inner | JoinKind::Minus => Ok(()),
        },
        Operator::Sort(sort) => {
            let mut keys = sort.keys.iter_mut();
            keys.try_for_each(|key| compile_expression(&mut key.expression, evaluation))
        }
        Operator::Aggregation(aggregation) => {
            compile_aggregates(&mut aggregation.aggregates, &inputs[0], evaluation)
        }
        Operator::PathSearch(search) => {
            let EdgeSource::Store(edges) = &mut search.edges else {
                return Ok(());
            };
            if let Some(filter) = &mut edges.filter {
                compile_expression(filter, evaluation)?;
            }
            match edges.weight.as_mut().map(|weight| &mut weight.kind) {
                Some(WeightKind::Expression(weight)) => compile_expression(weight, evaluation),
                Some(WeightKind::Value(_)) | None => Ok(()),
            }
        }
        Operator::Project(_)
        | Operator::Slice(_)
        | Operator::RowLimit(_)
        | Operator::Concatenate
        | Operator::Distinct
        | Operator::EachGraph(_)
        | Operator::Lateral(_)
        | Operator::Service(_) => Ok(()),
    }
}

/// Compiles the expressions of the steps of a pipeline.
pub(super) fn compile_steps(
    steps: &mut [Step],
    evaluation: &EvaluationContext,
) -> Result<(), QueryError> {
    for step in steps {
        for filter in &mut step.filters {
            compile_expression(filter, evaluation)?;
        }
        match &mut step.kind {
            StepKind::Filter(expression) | StepKind::Bind(_, expression) => {
                compile_expression(expression, evaluation)?;
            }
            StepKind::Optional(inner) => {
                compile_steps(inner, evaluation)?;
            }
            StepKind::Union(branches) => {
                for branch in branches {
                    compile_steps(branch, evaluation)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn compile_expression(
    slots: &mut SlotExpression,
    evaluation: &EvaluationContext,
) -> Result<(), QueryError> {
    let columns = slots.columns();
    let graph = &slots.source.graph;
    let tests = RefCell::new(Vec::new());
    let exists = |pattern: &GraphPattern| -> Result<Arc<dyn ExistsTest>, QueryError> {
        let test: Arc<dyn ExistsTest> = Arc::new(Exists::new(pattern, &columns, graph, evaluation));
        tests.borrow_mut().push(Arc::clone(&test));
        Ok(test)
    };
    let expression = &slots.source.expression;
    let compiled = CompiledExpression::compile_with(expression, &columns, evaluation, &exists)?;
    slots.compiled = Some(Arc::new(compiled));
    slots.tests = tests.into_inner();
    Ok(())
}

fn compile_aggregates(
    aggregates: &mut Aggregates,
    input: &Plan,
    evaluation: &EvaluationContext,
) -> Result<(), QueryError> {
    let columns = &input.variables;
    let graph = &aggregates.graph;
    let exists = |pattern: &GraphPattern| -> Result<Arc<dyn ExistsTest>, QueryError> {
        Ok(Arc::new(Exists::new(pattern, columns, graph, evaluation)))
    };
    let compiled = aggregates
        .expressions
        .iter()
        .map(|aggregate| CompiledAggregate::compile(aggregate, columns, evaluation, &exists));
    aggregates.compiled = Some(compiled.collect::<Result<_, _>>()?);
    Ok(())
}
