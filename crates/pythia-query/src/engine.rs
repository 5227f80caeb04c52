//! Planning and running queries: from parsed text and a snapshot to results.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use datafusion_execution::TaskContext;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::memory_pool::GreedyMemoryPool;
use datafusion_execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion_physical_plan::ExecutionPlan;
use oxrdf::Variable;
use oxsdatatypes::DateTime;
use pythia_store::Snapshot;
use spargebra::algebra::{GraphPattern, QueryDataset};
use spargebra::term::TriplePattern;

use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::explain::{Explainer, PlanNode};
use crate::expression::{CustomFunctions, EvaluationContext, random_seed};
use crate::plan::Planner;
use crate::plan::dataset::Dataset;
use crate::plan::duplicates::ignored;
use crate::plan::paths;
use crate::plan::scope::in_scope;
use crate::result::{Results, SolutionStream, TripleStream};
use crate::service::ServiceHandler;
use crate::syntax::Query;

/// What queries share: memory limits and the execution runtime. Make one per process.
#[derive(Debug)]
pub struct Engine {
    runtime: Arc<RuntimeEnv>,
    config: SessionConfig,
}

/// Limits of one query, and what it may use.
#[derive(Clone, Default)]
pub struct QueryOptions {
    /// Stop with [`QueryError::Timeout`] after this long.
    pub timeout: Option<Duration>,
    /// Set to stop the query with [`QueryError::Cancelled`].
    pub cancel: Option<Arc<AtomicBool>>,
    /// Measure what each part of the plan costs, for [`PreparedQuery::explain`] after the results
    /// are read.
    pub profile: bool,
    /// Asks the endpoints of `SERVICE`. Without it, `SERVICE` is an error, also if SILENT.
    pub service: Option<Arc<dyn ServiceHandler>>,
    /// Functions of the embedding program, which queries call by their IRI.
    pub functions: Arc<CustomFunctions>,
}

impl fmt::Debug for QueryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryOptions")
            .field("timeout", &self.timeout)
            .field("service", &self.service.is_some())
            .field("profile", &self.profile)
            .field("functions", &self.functions.keys())
            .finish_non_exhaustive()
    }
}

/// What a query asks for.
#[derive(Debug)]
pub(crate) enum Form {
    Select,
    Ask,
    Construct(Vec<TriplePattern>),
    Describe,
}

/// A planned query, bound to a snapshot.
#[derive(Debug)]
pub struct PreparedQuery {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) variables: Vec<Variable>,
    form: Form,
    context: Arc<QueryContext>,
    task: Arc<TaskContext>,
}

impl Engine {
    /// An engine whose queries together hold at most `memory_bytes` in joins, groups, sorts and
    /// visited sets.
    pub fn new(memory_bytes: usize) -> Result<Self, QueryError> {
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(GreedyMemoryPool::new(memory_bytes)))
            .build_arc()?;
        Ok(Self {
            runtime,
            config: SessionConfig::new(),
        })
    }

    /// Plans a query against a snapshot.
    pub fn prepare(
        &self,
        snapshot: &Snapshot,
        query: &Query,
        options: &QueryOptions,
    ) -> Result<PreparedQuery, QueryError> {
        let (form, pattern, dataset, base) = take_apart(&query.algebra);
        let evaluation =
            EvaluationContext::new(Arc::new(snapshot.clone()), DateTime::now(), random_seed())
                .with_base_iri(base)
                .with_functions(Arc::clone(&options.functions));
        let dataset = Arc::new(Dataset::of_query(dataset, &evaluation)?);
        let expanded = paths::expand(pattern);
        let pattern = expanded.as_ref().unwrap_or(pattern);
        let wanted = match form {
            Form::Ask => Default::default(),
            _ => in_scope(pattern),
        };
        let planned = Planner::new(snapshot, &evaluation, &dataset).plan(
            pattern,
            &dataset.default,
            Some(&wanted),
        )?;
        let context = QueryContext::new(
            snapshot.clone(),
            evaluation,
            dataset,
            options,
            &self.runtime,
            &self.config,
        );
        Ok(PreparedQuery {
            plan: match form {
                Form::Ask => ignored(planned.plan),
                _ => planned.plan,
            },
            variables: planned.variables,
            form,
            task: context.task(),
            context,
        })
    }
}

impl PreparedQuery {
    /// The plan as text: one line per operator and step, inputs indented, with estimated rows and,
    /// with [`QueryOptions::profile`] and after the results were read, what each part took.
    pub fn explain(&self) -> String {
        self.plan().to_string()
    }

    /// What [`Self::explain`] tells, as JSON.
    pub fn explain_json(&self) -> String {
        serde_json::to_string_pretty(&self.plan()).expect("a plan has only names and numbers")
    }

    /// What [`Self::explain`] tells, as a tree.
    pub fn plan(&self) -> PlanNode {
        let explainer = Explainer {
            context: &self.context,
        };
        explainer.plan(self.plan.as_ref())
    }

    /// The variables of the solutions, in order.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Runs it. Solutions are computed as they are asked for.
    pub fn execute(&self) -> Result<Results, QueryError> {
        if let Some(profile) = &self.context.profile {
            profile.clear();
        }
        let stream = self.plan.execute(0, Arc::clone(&self.task))?;
        let mut solutions =
            SolutionStream::new(self.variables.clone(), stream, Arc::clone(&self.context));
        Ok(match &self.form {
            Form::Select => Results::Solutions(solutions),
            Form::Ask => Results::Boolean(solutions.next_ids()?.is_some()),
            Form::Construct(template) => {
                Results::Graph(TripleStream::construct(template.clone(), solutions))
            }
            Form::Describe => Results::Graph(TripleStream::describe(solutions)),
        })
    }
}

type Parts<'q> = (
    Form,
    &'q GraphPattern,
    Option<&'q QueryDataset>,
    Option<oxiri::Iri<String>>,
);

fn take_apart(query: &spargebra::Query) -> Parts<'_> {
    match query {
        spargebra::Query::Select {
            dataset,
            pattern,
            base_iri,
        } => (Form::Select, pattern, dataset.as_ref(), base_iri.clone()),
        spargebra::Query::Ask {
            dataset,
            pattern,
            base_iri,
        } => (Form::Ask, pattern, dataset.as_ref(), base_iri.clone()),
        spargebra::Query::Construct {
            template,
            dataset,
            pattern,
            base_iri,
        } => (
            Form::Construct(template.clone()),
            pattern,
            dataset.as_ref(),
            base_iri.clone(),
        ),
        spargebra::Query::Describe {
            dataset,
            pattern,
            base_iri,
        } => (Form::Describe, pattern, dataset.as_ref(), base_iri.clone()),
    }
}
