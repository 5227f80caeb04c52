//! Planning and execution of queries: from parsed text and a snapshot to results.

mod written;

use std::fmt;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use datafusion_execution::config::SessionConfig;
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use datafusion_physical_plan::ExecutionPlan;
use oxrdf::Variable;
use pythia_sparql::scope::in_scope;
use pythia_sparql::{ParameterizedQueries, Query, Update};
use pythia_store::Snapshot;
use serde::{Deserialize, Serialize};
use spargebra::algebra::{GraphPattern, QueryDataset};
use spargebra::term::TriplePattern;

use crate::graph_rules::GraphRules;
use crate::planner::Planner;
use crate::planner::exists::Subqueries;
use crate::planner::visible::visible;
use pythia_exec::error::QueryError;
use pythia_exec::exec::context::{QueryContext, Recorded, Resources, VisibleTerms};
use pythia_exec::exec::explained::explain;
use pythia_exec::exec::node::{lower, start};
use pythia_exec::explain::PlanNode;
use pythia_exec::expression::{CustomFunctions, EvaluationContext, TermResolver, Warnings};
use pythia_exec::limits::cores::Cores;
use pythia_exec::limits::governor::{Governor, Held, MemoryBudget, Overstay};
use pythia_exec::limits::spill::SpillSpace;
use pythia_exec::limits::spill::bytes::SpilledBytes;
use pythia_exec::plan::choices::Choices;
use pythia_exec::plan::dataset::Dataset;
use pythia_exec::plan::duplicates::ignored;
use pythia_exec::plan::operators::RowLimit;
use pythia_exec::plan::visible::Visible;
use pythia_exec::plan::{Operator, Plan};
use pythia_exec::result::{Results, SolutionStream, TripleStream};
use pythia_exec::service::ServiceHandler;

/// Resources that queries share: memory, space for temporary files and the execution runtime. Create one per
/// process.
#[derive(Debug)]
pub struct Engine {
    resources: Resources,
    cores: Arc<Cores>,
    memory: Arc<MemoryBudget>,
    spill: Arc<SpillSpace>,
    parsed: ParameterizedQueries,
}

/// Limits of all queries together.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Bytes that queries may hold in rows, tables, sorts and computed terms. Rows beyond that are spilled to
    /// temporary files, or the query fails with [`QueryError::Memory`].
    pub memory_bytes: usize,
    /// Folder for temporary files; `None` is the system's default.
    pub spill_folder: Option<PathBuf>,
    /// Maximum bytes of temporary files; beyond it, a query fails with [`QueryError::Spill`].
    pub spill_bytes: u64,
    /// Threads that compute at once: those of the queries, and helpers of those that run long. Queries do not wait for
    /// threads. `None` is the number of the machine's cores.
    pub threads: Option<NonZero<usize>>,
}

/// Memory, temporary files and threads of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory held by running queries.
    pub memory_bytes: usize,
    /// Bytes in temporary files of running queries.
    pub spill_bytes: u64,
    /// Bytes written to temporary files since the engine was created.
    pub spilled_bytes: u64,
    /// Number of times that a further thread helped a query since the engine was created.
    pub helped: u64,
}

/// Limits and permissions of one query.
#[derive(Clone, Default)]
pub struct QueryOptions {
    /// Time limit, after which the query fails with [`QueryError::Timeout`].
    pub timeout: Option<Duration>,
    /// Flag that stops the query with [`QueryError::Cancelled`] once it is set.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Action to take when the query has run until a time.
    pub overstay: Option<Arc<Overstay>>,
    /// Measures the cost of each part of the plan. [`PreparedQuery::plan`] returns the measurements, also
    /// while the results are being read.
    pub profile: bool,
    /// Records for [`PreparedQuery::plan`] why the planner chose each step, with the alternatives that it rejected. Planning
    /// takes longer.
    pub explain: bool,
    /// Handler of `SERVICE` requests. Without it, `SERVICE` is an error, even with SILENT.
    pub service: Option<Arc<dyn ServiceHandler>>,
    /// Functions of the embedding program that queries call by IRI.
    pub functions: Arc<CustomFunctions>,
    /// Bytes that the query may hold, within the budget of all queries; `None` is the whole budget.
    pub memory_bytes: Option<usize>,
    /// Maximum number of solutions or triples; a query with more fails with [`QueryError::RowLimit`] after
    /// that many.
    pub row_limit: Option<u64>,
    /// Graphs visible to the query. The others appear not to exist in the store.
    pub visible: GraphRules,
    /// Makes the default graph the union of all visible graphs: of the store's default graph and all named graphs, in
    /// which a triple occurs once. Without effect on a request that names its dataset, with FROM or USING for example.
    pub union_default_graph: bool,
}

impl fmt::Debug for QueryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryOptions")
            .field("timeout", &self.timeout)
            .field("memory_bytes", &self.memory_bytes)
            .field("row_limit", &self.row_limit)
            .field("service", &self.service.is_some())
            .field("profile", &self.profile)
            .field("explain", &self.explain)
            .field("visible", &self.visible)
            .field("union_default_graph", &self.union_default_graph)
            .field("functions", &self.functions.keys())
            .finish_non_exhaustive()
    }
}

/// The form of a query.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Form {
    Select,
    Ask,
    Construct(#[serde(with = "pythia_exec::plan::form")] Vec<TriplePattern>),
    Describe,
}

/// A query's plan and form, before it is ready to run.
struct Planned {
    plan: Plan,
    form: Form,
    /// The planner's choices, if they are wanted.
    choices: Option<Arc<Choices>>,
}

/// A planned query, bound to a snapshot.
#[derive(Debug)]
pub struct PreparedQuery {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) variables: Vec<Variable>,
    form: Form,
    row_limit: Option<u64>,
    context: Arc<QueryContext>,
}

impl Engine {
    /// Creates an engine with these limits.
    pub fn new(options: &EngineOptions) -> Result<Self, QueryError> {
        let folder = options
            .spill_folder
            .clone()
            .unwrap_or_else(std::env::temp_dir);
        Ok(Self {
            resources: Resources {
                runtime: RuntimeEnvBuilder::new().build_arc()?,
                config: SessionConfig::new(),
            },
            cores: Arc::new(Cores::new(options.threads)),
            memory: Arc::new(MemoryBudget::new(options.memory_bytes)),
            spill: Arc::new(SpillSpace::new(folder, options.spill_bytes)),
            parsed: ParameterizedQueries::default(),
        })
    }

    /// Returns the resources that running queries hold now.
    pub fn usage(&self) -> Usage {
        Usage {
            memory_bytes: self.memory.used(),
            spill_bytes: self.spill.used(),
            spilled_bytes: self.spill.written(),
            helped: self.cores.jobs(),
        }
    }

    /// Returns the cores that queries share.
    pub fn cores(&self) -> &Arc<Cores> {
        &self.cores
    }

    /// Creates a temporary file for buffered bytes, within the space limit of temporary files.
    pub fn spilled_bytes(&self) -> Result<SpilledBytes, QueryError> {
        SpilledBytes::create(&self.spill)
    }

    /// Creates the limits of a query that starts now.
    pub(crate) fn governor(&self, options: &QueryOptions) -> Arc<Governor> {
        let governor = Governor::new(
            options.cancel.clone().unwrap_or_default(),
            options.timeout.map(|timeout| Instant::now() + timeout),
            &self.memory,
            options.memory_bytes.unwrap_or(usize::MAX),
            Arc::clone(&self.spill),
        );
        let governor = governor.with_cores(&self.cores);
        Arc::new(governor.with_overstay(options.overstay.clone()))
    }

    /// Parses a query like [`Query::parse`], within the memory budget of all queries. Large syntax trees are
    /// charged before they are built, until they are dropped; small ones are free. The algebra of small queries that come again
    /// with other constants is kept ([`ParameterizedQueries`]).
    ///
    /// # Errors
    /// [`QueryError::Memory`] in addition to syntax errors.
    pub fn parse_query(
        &self,
        text: &str,
        base: Option<&str>,
        options: &QueryOptions,
    ) -> Result<Query, QueryError> {
        let charge = Box::new(Held::new(&self.governor(options)));
        Ok(self.parsed.parse_within(text, base, charge)?)
    }

    /// Parses an update like [`Update::parse`], within the memory budget of all queries. The syntax tree is
    /// charged before it is built, until it is dropped.
    ///
    /// # Errors
    /// [`QueryError::Memory`] in addition to syntax errors.
    pub fn parse_update(
        &self,
        text: &str,
        base: Option<&str>,
        options: &QueryOptions,
    ) -> Result<Update, QueryError> {
        let charge = Box::new(Held::new(&self.governor(options)));
        Ok(Update::parse_within(text, base, charge)?)
    }

    /// Plans a query against a snapshot. The query's time limit starts here.
    pub fn prepare(
        &self,
        snapshot: &Snapshot,
        query: &Query,
        options: &QueryOptions,
    ) -> Result<PreparedQuery, QueryError> {
        self.prepare_within(self.governor(options), snapshot, query, options)
    }

    /// Plans a query under limits that are shared with others.
    pub(crate) fn prepare_within(
        &self,
        governor: Arc<Governor>,
        snapshot: &Snapshot,
        query: &Query,
        options: &QueryOptions,
    ) -> Result<PreparedQuery, QueryError> {
        let (form, pattern, dataset, base) = take_apart(query.algebra());
        let visible = visible(&options.visible, snapshot, &governor)?.map(Arc::new);
        let evaluation = evaluation(governor, snapshot, visible.as_ref(), options);
        let evaluation = evaluation.with_base_iri(base);
        evaluation.check()?;
        let union = options.union_default_graph;
        let dataset = Arc::new(Dataset::of_query(dataset, union, &evaluation, visible)?);
        let wanted = match form {
            Form::Ask => Default::default(),
            _ => in_scope(pattern),
        };
        let choices = choices(options);
        let planned = Planner::new(snapshot, &evaluation, &dataset)
            .with_choices(choices.as_deref())
            .plan_query(pattern, &dataset.default, Some(&wanted))?;
        let plan = match (options.row_limit, &form) {
            (_, Form::Ask) => ignored(planned.plan),
            (Some(rows), Form::Select) => {
                let limit = Operator::RowLimit(RowLimit { rows });
                let variables = planned.plan.variables.clone();
                Plan::new(limit, vec![planned.plan], variables)
            }
            _ => planned.plan,
        };
        let planned = Planned {
            plan,
            form,
            choices,
        };
        self.ready(planned, snapshot, evaluation, dataset, options)
    }

    /// Makes a plan ready to run.
    fn ready(
        &self,
        planned: Planned,
        snapshot: &Snapshot,
        evaluation: EvaluationContext,
        dataset: Arc<Dataset>,
        options: &QueryOptions,
    ) -> Result<PreparedQuery, QueryError> {
        let Planned {
            plan,
            form,
            choices,
        } = planned;
        let variables = plan.variables.clone();
        let plan = lower(plan, &evaluation)?;
        evaluation.check()?;
        let context = QueryContext::new(
            snapshot.clone(),
            evaluation,
            dataset,
            Arc::new(Subqueries),
            Recorded {
                costs: options.profile,
                choices,
            },
            &self.resources,
        );
        Ok(PreparedQuery {
            plan,
            variables,
            form,
            row_limit: options.row_limit,
            context,
        })
    }
}

/// Returns the record of the planner's choices, if they are wanted.
fn choices(options: &QueryOptions) -> Option<Arc<Choices>> {
    options.explain.then(Arc::default)
}

/// Returns the environment of a query's expressions.
fn evaluation(
    governor: Arc<Governor>,
    snapshot: &Snapshot,
    visible: Option<&Arc<Visible>>,
    options: &QueryOptions,
) -> EvaluationContext {
    let resolver: Arc<dyn TermResolver> = match visible {
        None => Arc::new(snapshot.clone()),
        Some(visible) => Arc::new(VisibleTerms::new(snapshot, visible, &governor)),
    };
    EvaluationContext::new(resolver, governor)
        .with_functions(Arc::clone(&options.functions))
        .with_service(options.service.clone())
}

impl PreparedQuery {
    /// Returns the plan as text: one line per operator and step, with indented inputs, estimated rows and,
    /// with [`QueryOptions::profile`], the cost of each part so far; with [`QueryOptions::explain`], also the alternatives
    /// that were rejected, and the plans inside EXISTS and GRAPH.
    pub fn explain(&self) -> String {
        self.plan().to_string()
    }

    /// Returns the plan of [`Self::explain`] as JSON.
    pub fn explain_json(&self) -> String {
        serde_json::to_string_pretty(&self.plan()).expect("a plan has only names and numbers")
    }

    /// Returns the plan of [`Self::explain`] as a tree. Other threads may call this while one thread reads
    /// the results, and see the measurements so far. It costs one walk over the plan.
    pub fn plan(&self) -> PlanNode {
        let mut plan = explain(self.plan.as_ref(), &self.context);
        plan.warnings = self.warnings();
        plan
    }

    /// Returns hints for the author of the query that are not errors, such as calls of unknown functions.
    pub fn warnings(&self) -> Vec<String> {
        self.context.evaluation.warnings()
    }

    /// Returns the warnings in a form that can be merged with those of other queries.
    pub(crate) fn warned(&self) -> Warnings {
        self.context.evaluation.warned()
    }

    /// Returns the variables of the solutions, in order.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Runs the query. Solutions are computed on demand.
    pub fn execute(&self) -> Result<Results, QueryError> {
        self.context.clear_profile();
        let stream = start(&self.plan, &self.context)?;
        let mut solutions =
            SolutionStream::new(self.variables.clone(), stream, Arc::clone(&self.context));
        Ok(match &self.form {
            Form::Select => Results::Solutions(solutions),
            Form::Ask => Results::Boolean(solutions.next_ids()?.is_some()),
            Form::Construct(template) => Results::Graph(
                TripleStream::construct(template, solutions)?.limited(self.row_limit),
            ),
            Form::Describe => {
                Results::Graph(TripleStream::describe(solutions).limited(self.row_limit))
            }
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
