//! The plan node of DataFusion that carries an operator.
//!
//! [`lower`] turns a plan into such nodes. One node type, [`SolutionExec`], carries every operator, so that
//! running plans can be walked, printed and rewritten. The store and all state that operators share are in the
//! task context.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::TaskContext;
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use oxrdf::Variable;
use rustc_hash::FxHashMap;

use super::batch::schema_of;
use super::common::CommonSolutions;
use super::compile::compile;
use super::context::QueryContext;
use super::measured::measured;
use super::relational::{Concatenate, Distinct};
use super::solutions::{Execute, Solutions};
use crate::error::QueryError;
use crate::explain::CostId;
use crate::expression::EvaluationContext;
use crate::plan::step::{Access, Step, StepKind};
use crate::plan::{Operator, Plan};

/// A plan node that carries an operator.
#[derive(Debug, Clone)]
pub struct SolutionExec {
    pub(super) operator: Arc<Operator>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    variables: Vec<Variable>,
    schema: SchemaRef,
    /// Made when DataFusion asks for them.
    properties: OnceLock<Arc<PlanProperties>>,
    pub(super) cost: CostId,
    pub(super) estimated_rows: Option<f64>,
    /// Solutions shared with the other nodes that have the same ones.
    common: Option<Arc<CommonSolutions>>,
}

/// The nodes with the same solutions, by number.
type Commons = FxHashMap<u32, Arc<CommonSolutions>>;

/// Makes a plan ready to run: compiles its expressions for the query, and builds its nodes.
pub fn lower(
    mut plan: Plan,
    evaluation: &EvaluationContext,
) -> Result<Arc<dyn ExecutionPlan>, QueryError> {
    compile_plan(&mut plan, evaluation)?;
    Ok(nodes(plan))
}

/// Compiles the expressions of a plan for the query.
pub(super) fn compile_plan(
    plan: &mut Plan,
    evaluation: &EvaluationContext,
) -> Result<(), QueryError> {
    compile(&mut plan.operator, &plan.inputs, evaluation)?;
    let mut inputs = plan.inputs.iter_mut();
    inputs.try_for_each(|input| compile_plan(input, evaluation))
}

/// Builds the nodes of a plan with compiled expressions.
pub(super) fn nodes(plan: Plan) -> Arc<dyn ExecutionPlan> {
    nodes_with(plan, &mut Commons::default(), false)
}

/// Builds the nodes of a part of a plan. Its first solutions may be all that are needed if it is `limited`.
fn nodes_with(plan: Plan, commons: &mut Commons, limited: bool) -> Arc<dyn ExecutionPlan> {
    let Plan {
        mut operator,
        inputs,
        variables,
        estimated_rows,
        cost,
    } = plan;
    if let Operator::Pattern(pattern) = &mut *operator
        && limited
    {
        begin_small(&mut pattern.steps, true);
    }
    let limited = match &*operator {
        Operator::Slice(slice) => slice.length.is_some(),
        Operator::Project(_) | Operator::RowLimit(_) => limited,
        _ => false,
    };
    let inputs = inputs.into_iter();
    let inputs = inputs.map(|input| nodes_with(input, commons, limited));
    let inputs = inputs.collect();
    let common = match &*operator {
        Operator::Aggregation(aggregation) => aggregation.common,
        _ => None,
    };
    let common = common.map(|number| Arc::clone(commons.entry(number).or_default()));
    if let Some(common) = &common {
        common.add_node();
    }
    Arc::new(SolutionExec {
        operator: Arc::from(operator),
        inputs,
        schema: schema_of(&variables),
        variables,
        properties: OnceLock::new(),
        cost,
        estimated_rows,
        common,
    })
}

/// Starts a plan in a running query.
pub fn start(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<QueryContext>,
) -> Result<Solutions, QueryError> {
    match plan.downcast_ref::<SolutionExec>() {
        // Only inputs take the context from a task.
        Some(node) if node.inputs.is_empty() && node.common.is_none() => {
            Ok(node.run(Vec::new(), context))
        }
        _ => Ok(plan.execute(0, context.task())?),
    }
}

/// Lets steps begin with few rows: the scan at the start of the pattern, and joins with a table.
fn begin_small(steps: &mut [Step], is_start: bool) {
    for (number, step) in steps.iter_mut().enumerate() {
        let is_start = is_start && number == 0;
        step.begins_small = is_start || matches!(step.kind, StepKind::Pattern(_, Access::Hash(_)));
        match &mut step.kind {
            StepKind::Optional(inner) => begin_small(inner, false),
            StepKind::Union(branches) => {
                branches
                    .iter_mut()
                    .for_each(|branch| begin_small(branch, is_start));
            }
            _ => {}
        }
    }
}

/// Returns the plan that nodes were made of, without what was compiled.
///
/// # Errors
/// [`QueryError::Plan`] if one of the nodes is not Pythia's.
pub fn plan_of(node: &dyn ExecutionPlan) -> Result<Plan, QueryError> {
    let Some(solutions) = node.downcast_ref::<SolutionExec>() else {
        let message = format!("{} is no operator of Pythia's", node.name());
        return Err(QueryError::Plan(message));
    };
    let inputs = solutions.inputs.iter();
    Ok(Plan {
        operator: Box::new((*solutions.operator).clone()),
        inputs: inputs
            .map(|input| plan_of(input.as_ref()))
            .collect::<Result<_, _>>()?,
        variables: solutions.variables.clone(),
        estimated_rows: solutions.estimated_rows,
        cost: solutions.cost,
    })
}

/// Runs an operator of any kind.
impl Execute for Operator {
    fn run(
        &self,
        inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions {
        match self {
            Self::Pattern(pattern) => pattern.run(inputs, schema, context),
            Self::HashJoin(join) => join.run(inputs, schema, context),
            Self::Project(project) => project.run(inputs, schema, context),
            Self::Slice(slice) => slice.run(inputs, schema, context),
            Self::RowLimit(limit) => limit.run(inputs, schema, context),
            Self::Concatenate => Concatenate.run(inputs, schema, context),
            Self::Distinct => Distinct.run(inputs, schema, context),
            Self::Sort(sort) => sort.run(inputs, schema, context),
            Self::Aggregation(aggregation) => aggregation.run(inputs, schema, context),
            Self::EachGraph(each) => each.run(inputs, schema, context),
            Self::Lateral(lateral) => lateral.run(inputs, schema, context),
            Self::Service(service) => service.run(inputs, schema, context),
            Self::PathSearch(search) => search.run(inputs, schema, context),
        }
    }
}

impl SolutionExec {
    /// Returns the variables of the solutions, one per column.
    pub(super) fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Starts the inputs.
    fn start_inputs(&self, partition: usize, task: &Arc<TaskContext>) -> Result<Vec<Solutions>> {
        let inputs = self.inputs.iter();
        let inputs = inputs.map(|input| input.execute(partition, Arc::clone(task)));
        inputs.collect()
    }

    /// Starts the operator on started inputs.
    fn run(&self, inputs: Vec<Solutions>, context: &Arc<QueryContext>) -> Solutions {
        let schema = Arc::clone(&self.schema);
        let solutions = self.operator.run(inputs, schema, Arc::clone(context));
        self.measured(solutions, context)
    }

    fn measured(&self, solutions: Solutions, context: &QueryContext) -> Solutions {
        match &context.profile {
            Some(profile) => measured(solutions, self.cost, Arc::clone(profile)),
            None => solutions,
        }
    }
}

impl DisplayAs for SolutionExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.operator.name())?;
        self.operator.describe(f)
    }
}

impl ExecutionPlan for SolutionExec {
    fn name(&self) -> &str {
        self.operator.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.properties.get_or_init(|| {
            Arc::new(PlanProperties::new(
                EquivalenceProperties::new(Arc::clone(&self.schema)),
                Partitioning::UnknownPartitioning(1),
                EmissionType::Incremental,
                Boundedness::Bounded,
            ))
        })
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            inputs: children,
            ..(*self).clone()
        }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<Solutions> {
        let context = QueryContext::of(&task)?;
        let Some(common) = &self.common else {
            return Ok(self.run(self.start_inputs(partition, &task)?, &context));
        };
        let (node, shared) = (self.clone(), Arc::clone(&context));
        let governor = context.evaluation.governor();
        let solutions = common.solutions(self.schema(), governor, move || {
            let inputs = node.start_inputs(partition, &task)?;
            Ok(node.operator.run(inputs, node.schema(), shared))
        });
        Ok(self.measured(solutions, &context))
    }
}
