//! Pythia's operators as DataFusion physical plan nodes.
//!
//! An [`Operator`] describes what is done with the solutions of its inputs. All running state is in the
//! stream that it returns; the store is in the task context. One node type, [`SolutionExec`], carries every
//! operator, so that plans can be walked, printed, rewritten and, on a cluster, sent elsewhere.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::{Stream, StreamExt};
use oxrdf::Variable;

use super::batch::schema_of;
use super::context::QueryContext;
use super::profile::{PartId, measured};
use crate::error::QueryError;
use crate::explain::{Explainer, PlanNode};
use crate::plan::duplicates::ignored;

/// A stream of solutions.
pub(crate) type Solutions = SendableRecordBatchStream;

/// The description of one operation on the solutions of its inputs.
pub(crate) trait Operator: fmt::Debug + Send + Sync {
    /// Returns the operator's name in plans.
    fn name(&self) -> &'static str;

    /// Writes the rest of the operator's line in EXPLAIN. Lines after the first are indented by `indent`.
    fn describe(&self, indent: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Returns the operator's steps, for EXPLAIN.
    fn steps(&self, _: &Explainer<'_>) -> Vec<PlanNode> {
        Vec::new()
    }

    /// Returns the same operator for a reader that ignores duplicates, if that is less work.
    fn ignoring_duplicates(&self) -> Option<Arc<dyn Operator>> {
        None
    }

    /// Returns whether duplicates in the input only cause duplicates in the output, in the same order.
    fn passes_solutions(&self) -> bool {
        false
    }

    /// Starts the operator. `schema` is the schema of its output.
    fn run(
        &self,
        inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions;
}

/// A plan node that carries an [`Operator`].
#[derive(Debug, Clone)]
pub(crate) struct SolutionExec {
    operator: Arc<dyn Operator>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    /// The number under which the node's cost is measured.
    part: PartId,
    estimated_rows: Option<f64>,
}

impl SolutionExec {
    /// Makes a node whose solutions are over `variables`, in one partition.
    pub(crate) fn plan(
        operator: impl Operator + 'static,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        variables: &[Variable],
    ) -> Arc<dyn ExecutionPlan> {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema_of(variables)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Arc::new(Self {
            operator: Arc::new(operator),
            inputs,
            properties: Arc::new(properties),
            part: PartId::next(),
            estimated_rows: None,
        })
    }

    /// Attaches the estimated number of solutions to the plan, for EXPLAIN.
    pub(crate) fn estimated(plan: Arc<dyn ExecutionPlan>, rows: f64) -> Arc<dyn ExecutionPlan> {
        match plan.downcast_ref::<Self>() {
            Some(solutions) if solutions.estimated_rows.is_none() => Arc::new(Self {
                estimated_rows: Some(rows),
                ..solutions.clone()
            }),
            _ => plan,
        }
    }

    /// Returns the plan for a reader that ignores duplicates, if it differs.
    pub(crate) fn ignoring_duplicates(&self) -> Option<Arc<dyn ExecutionPlan>> {
        let mut changed = self.clone();
        if let Some(operator) = self.operator.ignoring_duplicates() {
            changed.operator = operator;
        } else if self.operator.passes_solutions() {
            let inputs = self.inputs.iter().cloned();
            changed.inputs = inputs.map(ignored).collect();
        } else {
            return None;
        }
        Some(Arc::new(changed))
    }

    /// Describes this node for EXPLAIN, without its inputs.
    pub(crate) fn explain(&self, explainer: &Explainer<'_>) -> PlanNode {
        let detail = DisplayDetail(self.operator.as_ref()).to_string();
        PlanNode {
            estimated_rows: self.estimated_rows,
            measured: explainer.measured(self.part),
            steps: self.operator.steps(explainer),
            ..PlanNode::new(self.operator.name(), detail.trim_end())
        }
    }
}

impl DisplayAs for SolutionExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.operator.name())?;
        self.operator.describe(0, f)
    }
}

impl ExecutionPlan for SolutionExec {
    fn name(&self) -> &str {
        self.operator.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
        let inputs = self
            .inputs
            .iter()
            .map(|input| input.execute(partition, Arc::clone(&task)))
            .collect::<Result<Vec<_>>>()?;
        let context = QueryContext::of(&task)?;
        let profile = context.profile.clone();
        let solutions = self.operator.run(inputs, self.schema(), context);
        Ok(match profile {
            Some(profile) => measured(solutions, self.part, profile),
            None => solutions,
        })
    }
}

/// An operator's description of itself.
struct DisplayDetail<'a>(&'a dyn Operator);

impl fmt::Display for DisplayDetail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe(0, f)
    }
}

/// Wraps a stream of batches.
pub(crate) fn solutions(
    schema: SchemaRef,
    stream: impl Stream<Item = Result<RecordBatch, QueryError>> + Send + 'static,
) -> Solutions {
    let stream = stream.map(|item| item.map_err(DataFusionError::from));
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

/// Returns the next batch of an input, with Pythia's error type.
pub(crate) async fn pull(input: &mut Solutions) -> Result<Option<RecordBatch>, QueryError> {
    match input.next().await {
        Some(Ok(batch)) => Ok(Some(batch)),
        Some(Err(error)) => Err(QueryError::from(error)),
        None => Ok(None),
    }
}

impl From<QueryError> for DataFusionError {
    fn from(error: QueryError) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        match error {
            DataFusionError::External(inner) => match inner.downcast::<Self>() {
                Ok(error) => *error,
                Err(other) => Self::Execution(other.to_string()),
            },
            DataFusionError::ResourcesExhausted(message) => Self::Memory(message),
            DataFusionError::Context(_, inner) => Self::from(*inner),
            other => Self::Execution(other.to_string()),
        }
    }
}
