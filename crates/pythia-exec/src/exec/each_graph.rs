//! `GRAPH ?g` around patterns that must be evaluated in one graph at a time.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pythia_rdf::TermId;
use pythia_store::GraphFilter;

use super::batch::{id_columns, record_batch};
use super::context::QueryContext;
use super::node::{compile_plan, nodes, start};
use super::solutions::{Execute, NextBatch, Solutions, pull, solutions_of};
use super::subquery::Subquery;
use crate::error::QueryError;
use crate::explain::CostId;
use crate::limits::governor::Held;
use crate::plan::Plan;
use crate::plan::dataset::GraphScope;
use crate::plan::operators::EachGraph;

impl Execute for EachGraph {
    fn run(&self, _: Vec<Solutions>, schema: SchemaRef, context: Arc<QueryContext>) -> Solutions {
        let state = Running {
            each: self.clone(),
            left: None,
            charged: Held::new(context.governor()),
            current: None,
            schema: Arc::clone(&schema),
            context,
        };
        solutions_of(schema, state)
    }
}

struct Running {
    each: EachGraph,
    /// The remaining graphs, last first.
    left: Option<Vec<TermId>>,
    charged: Held,
    current: Option<Current>,
    schema: SchemaRef,
    context: Arc<QueryContext>,
}

/// A graph whose solutions are being returned.
struct Current {
    graph: TermId,
    solutions: Solutions,
    /// The solutions' column for each of the operator's variables.
    columns: Vec<Option<usize>>,
    /// The solutions' column for the graph's variable, if the pattern has it too.
    own: Option<usize>,
    /// A number below those of the plan's operators.
    first: CostId,
    /// True if the plan is kept for EXPLAIN.
    is_kept: bool,
}

impl Current {
    /// Returns a batch's solutions by column, the graph last.
    fn columns_of(&self, batch: &RecordBatch) -> (Vec<Vec<u64>>, usize) {
        let found = id_columns(batch);
        let agrees = |row: &usize| {
            let own = self.own.map_or(0, |own| found[own][*row]);
            own == 0 || own == self.graph.0
        };
        let rows: Vec<usize> = (0..batch.num_rows()).filter(agrees).collect();
        let pick = |column: &Option<usize>| match column {
            Some(column) => rows.iter().map(|row| found[*column][*row]).collect(),
            None => Vec::new(),
        };
        let mut columns: Vec<Vec<u64>> = self.columns.iter().map(pick).collect();
        columns.push(vec![self.graph.0; rows.len()]);
        (columns, rows.len())
    }
}

impl NextBatch for Running {
    async fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        loop {
            self.context.check()?;
            if let Some(current) = &mut self.current {
                if let Some(batch) = pull(&mut current.solutions).await? {
                    let (columns, rows) = current.columns_of(&batch);
                    return Ok(Some(record_batch(&self.schema, columns, rows)?));
                }
                if !current.is_kept {
                    self.context.drop_plans_from(current.first);
                }
                self.current = None;
            }
            if self.left.is_none() {
                self.left = Some(graphs(&self.each, &self.context, &mut self.charged)?);
            }
            let Some(graph) = self.left.as_mut().and_then(Vec::pop) else {
                return Ok(None);
            };
            self.start(graph)?;
        }
    }
}

impl Running {
    fn start(&mut self, graph: TermId) -> Result<(), QueryError> {
        let context = &self.context;
        let first = CostId::next();
        let number = self.each.number;
        let is_kept = context.choices.is_some() && context.inside.of_graph(number).is_none();
        let plan = plan_in(&self.each, graph, is_kept, context)?;
        if is_kept {
            context.inside.keep_graph(number, graph, &plan);
        }
        let column_of = |variable| plan.variables.iter().position(|found| found == variable);
        self.current = Some(Current {
            is_kept,
            graph,
            columns: self.each.variables.iter().map(column_of).collect(),
            own: column_of(&self.each.graph),
            first,
            solutions: start(&nodes(plan), context)?,
        });
        Ok(())
    }
}

/// Returns the graphs in which an operator evaluates its pattern, last first.
fn graphs(
    each: &EachGraph,
    context: &QueryContext,
    charged: &mut Held,
) -> Result<Vec<TermId>, QueryError> {
    let mut inserted = each.inserted.iter();
    if let Some((_, known)) = inserted.find(|(v, _)| *v == each.graph) {
        let is_graph = context.is_dataset_graph(*known)?;
        return Ok(is_graph.then_some(*known).into_iter().collect());
    }
    let mut graphs = context.dataset_graphs(charged)?;
    graphs.reverse();
    Ok(graphs)
}

/// Returns the plan of an operator's pattern in one graph, ready to run.
fn plan_in(
    each: &EachGraph,
    graph: TermId,
    is_shown: bool,
    context: &QueryContext,
) -> Result<Plan, QueryError> {
    let subquery = Subquery {
        pattern: &each.pattern,
        graph: &GraphScope::Fixed(GraphFilter::One(graph)),
        inserted: each.inserted.clone(),
        is_test: false,
        is_shown,
    };
    let mut plan = context.planner.plan(&subquery, context)?;
    compile_plan(&mut plan, &context.evaluation)?;
    Ok(plan)
}

/// Returns the first graph in which an operator evaluates its pattern, and the plan there. If the operator has not run yet, it
/// is planned now.
pub(super) fn first_graph(
    each: &EachGraph,
    context: &QueryContext,
) -> Result<Option<(TermId, Plan)>, QueryError> {
    if let Some(kept) = context.inside.of_graph(each.number) {
        return Ok(Some(kept));
    }
    let mut charged = Held::new(context.governor());
    let Some(first) = graphs(each, context, &mut charged)?.pop() else {
        return Ok(None);
    };
    let plan = plan_in(each, first, true, context)?;
    Ok(Some((first, plan)))
}
