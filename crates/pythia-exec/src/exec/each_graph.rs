//! `GRAPH ?g` around patterns that must be evaluated in one graph at a time.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pythia_rdf::TermId;
use pythia_store::GraphFilter;

use super::batch::{id_columns, record_batch};
use super::context::QueryContext;
use super::node::lower;
use super::solutions::{Execute, NextBatch, Solutions, pull, solutions_of};
use super::subquery::Subquery;
use crate::error::QueryError;
use crate::explain::CostId;
use crate::limits::governor::Held;
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
                self.context.templates.drop_from(current.first);
                self.current = None;
            }
            if self.left.is_none() {
                self.left = Some(self.graphs()?);
            }
            let Some(graph) = self.left.as_mut().and_then(Vec::pop) else {
                return Ok(None);
            };
            self.start(graph)?;
        }
    }
}

impl Running {
    /// Returns the graphs in which the pattern is evaluated, last first.
    fn graphs(&mut self) -> Result<Vec<TermId>, QueryError> {
        let mut inserted = self.each.inserted.iter();
        if let Some((_, known)) = inserted.find(|(v, _)| *v == self.each.graph) {
            let is_graph = self.context.is_dataset_graph(*known)?;
            return Ok(is_graph.then_some(*known).into_iter().collect());
        }
        let mut graphs = self.context.dataset_graphs(&mut self.charged)?;
        graphs.reverse();
        Ok(graphs)
    }

    fn start(&mut self, graph: TermId) -> Result<(), QueryError> {
        let context = &self.context;
        let subquery = Subquery {
            pattern: &self.each.pattern,
            graph: &GraphScope::Fixed(GraphFilter::One(graph)),
            inserted: self.each.inserted.clone(),
            is_test: false,
        };
        let first = CostId::next();
        let plan = context.planner.plan(&subquery, context)?;
        let column_of = |variable| plan.variables.iter().position(|found| found == variable);
        self.current = Some(Current {
            graph,
            columns: self.each.variables.iter().map(column_of).collect(),
            own: column_of(&self.each.graph),
            first,
            solutions: lower(plan, &context.evaluation)?.execute(0, context.task())?,
        });
        Ok(())
    }
}
