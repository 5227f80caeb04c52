//! `EXISTS`: tests whether a pattern has a solution once a row's terms replace its variables.
//!
//! The terms are inserted at every leaf of the pattern (SPARQL 1.2 §18, "values insertion"), so all rows
//! together are the seed of the pattern's pipeline. A pattern with parts that must be evaluated separately
//! (MINUS, subqueries) is planned and run for each combination of terms.

use std::sync::Arc;

use futures::FutureExt;
use hashbrown::HashMap;
use oxrdf::Variable;
use pythia_rdf::TermId;
use rustc_hash::FxBuildHasher;
use spargebra::algebra::GraphPattern;

use super::batch::Batch;
use super::compile::compile_steps;
use super::context::QueryContext;
use super::exists_tests::{ExistsState, FedPattern, Known, TestMethod};
use super::inside::{Tested, Together};
use super::node::{compile_plan, nodes, start};
use super::pipeline::build;
use super::solutions::pull;
use super::subquery::{FedPipeline, Subquery, placeholder};
use crate::error::QueryError;
use crate::explain::CostId;
use crate::expression::{EvaluationContext, ExistsTest};
use crate::limits::governor::Share;
use crate::limits::spill::table::RowSet;
use crate::plan::Plan;
use crate::plan::dataset::GraphScope;
use pythia_sparql::path_expansion;
use pythia_sparql::scope::{Variables, mentioned};

/// The most combinations that are tested together, up to twice as many in the last round.
const MOST_ROWS: usize = 2048;
/// Number of batches that a pipeline may still return once all rows are decided. After that it is dropped
/// instead of drained.
const DRAINED_BATCHES: usize = 4;

/// The test of one `EXISTS`.
pub(crate) struct Exists {
    /// Identifies this test among those of the query.
    number: usize,
    pattern: GraphPattern,
    graph: GraphScope,
    /// The variables that the pattern shares with the rows, and their columns.
    shared: Vec<(Variable, usize)>,
}

impl ExistsTest for Exists {
    fn test(
        &self,
        columns: &[&[u64]],
        rows: &[u32],
        context: &EvaluationContext,
    ) -> Result<Vec<bool>, QueryError> {
        let query = QueryContext::of_expressions(context)?;
        let mut state = query.take_exists(self.number);
        let result = self.test_rows(columns, rows, &mut state, &query);
        query.put_exists(self.number, state);
        result
    }
}

impl Exists {
    /// Makes the test of a pattern in a graph, over rows with these columns.
    pub(super) fn new(
        pattern: &GraphPattern,
        columns: &[Variable],
        graph: &GraphScope,
        evaluation: &EvaluationContext,
    ) -> Self {
        let mut variables = Variables::new();
        mentioned(pattern, &mut variables);
        if let GraphScope::Variable(variable) = graph {
            variables.insert(variable.clone());
        }
        let is_shared = |v: &Variable| variables.contains(v) && !v.as_str().starts_with("_:");
        let shared = columns.iter().enumerate().filter(|(_, v)| is_shared(v));
        let mut body = solutions_body(pattern).clone();
        path_expansion::expand(&mut body);
        Self {
            number: evaluation.number_exists(),
            pattern: body,
            graph: graph.clone(),
            shared: shared.map(|(column, v)| (v.clone(), column)).collect(),
        }
    }

    fn test_rows(
        &self,
        columns: &[&[u64]],
        rows: &[u32],
        state: &mut ExistsState,
        query: &Arc<QueryContext>,
    ) -> Result<Vec<bool>, QueryError> {
        let mut answers = vec![false; rows.len()];
        for (bound, members) in self.by_bound(columns, rows) {
            let keys = Keys::gather(&self.bound_columns(&bound, columns), rows, &members);
            let found = self.test_keys(&bound, &keys, state, query)?;
            for (member, key) in members.iter().zip(&keys.of_row) {
                answers[*member as usize] = found[*key as usize];
            }
        }
        Ok(answers)
    }

    /// Groups the rows (as places in `rows`) by which of the shared variables they bind.
    fn by_bound(&self, columns: &[&[u64]], rows: &[u32]) -> Vec<(Vec<bool>, Vec<u32>)> {
        let mut groups: HashMap<Vec<bool>, Vec<u32>, FxBuildHasher> = HashMap::default();
        for (place, &row) in rows.iter().enumerate() {
            let bound = self.shared.iter();
            let bound: Vec<bool> = bound.map(|(_, c)| columns[*c][row as usize] != 0).collect();
            groups.entry(bound).or_default().push(place as u32);
        }
        groups.into_iter().collect()
    }

    fn bound_columns<'c>(&self, bound: &[bool], columns: &[&'c [u64]]) -> Vec<&'c [u64]> {
        let shared = self.shared.iter().zip(bound).filter(|(_, bound)| **bound);
        shared.map(|((_, column), _)| columns[*column]).collect()
    }

    fn bound_variables(&self, bound: &[bool]) -> Vec<Variable> {
        let shared = self.shared.iter().zip(bound).filter(|(_, bound)| **bound);
        shared.map(|((variable, _), _)| variable.clone()).collect()
    }

    /// Tests each distinct combination of terms.
    fn test_keys(
        &self,
        bound: &[bool],
        keys: &Keys,
        state: &mut ExistsState,
        query: &Arc<QueryContext>,
    ) -> Result<Vec<bool>, QueryError> {
        let mut answers = vec![false; keys.set.len()];
        let mut from = 0;
        while from < keys.set.len() {
            query.check()?;
            let to = match keys.set.len() {
                // Few that are left would cost a round of their own.
                all if all - from <= 2 * state.together => all,
                _ => from + state.together,
            };
            if !state.methods.contains_key(bound) {
                let method = self.method(bound, keys.set.len(), query)?;
                state.methods.insert(bound.to_vec(), method);
            }
            let finished = match state.methods.get_mut(bound).expect("made above") {
                TestMethod::OneByOne(known) => {
                    for (key, answer) in (from..to).zip(&mut answers[from..to]) {
                        let terms = keys.set.rows().row(key);
                        *answer = match known.answer(terms) {
                            Some(answer) => answer,
                            None => known.keep(terms, self.test_one(bound, terms, query)?),
                        };
                    }
                    true
                }
                TestMethod::Pipeline(pipeline) => {
                    if query.choices.is_some() {
                        query.inside.count_fed(self.number, bound, to - from);
                    }
                    pipeline.test(keys, from, &mut answers[from..to])?
                }
            };
            if !finished {
                // The pipeline still has solutions that nobody needs, and it cannot be fed before it is
                // drained.
                state.methods.remove(bound);
            }
            from = to;
            state.together = (state.together * 2).min(MOST_ROWS);
        }
        Ok(answers)
    }

    fn method(
        &self,
        bound: &[bool],
        rows: usize,
        query: &Arc<QueryContext>,
    ) -> Result<TestMethod, QueryError> {
        Ok(match self.pipeline(bound, rows, query)? {
            Some(mut planned) => {
                if query.choices.is_some() {
                    self.keep(bound, &mut planned, rows, true, query);
                }
                let width = planned.slots.len();
                TestMethod::Pipeline(FedPattern {
                    source: build(&planned.steps, width, query, &Arc::default()),
                    width,
                    row_slot: planned.row_slot,
                })
            }
            None => TestMethod::OneByOne(Known {
                terms: RowSet::new(self.bound_variables(bound).len(), 0),
                answers: Vec::new(),
                share: Share::new(query.governor()),
            }),
        })
    }

    /// Plans the pattern as a pipeline, ready to run, unless parts of it must be evaluated alone.
    fn pipeline(
        &self,
        bound: &[bool],
        rows: usize,
        query: &QueryContext,
    ) -> Result<Option<FedPipeline>, QueryError> {
        let variables = self.bound_variables(bound);
        let planner = &query.planner;
        let planned = planner.plan_fed(&self.pattern, &self.graph, &variables, rows, query)?;
        let Some(mut planned) = planned else {
            return Ok(None);
        };
        compile_steps(&mut planned.steps, &query.evaluation)?;
        Ok(Some(planned))
    }

    /// Keeps a pipeline for EXPLAIN. Its steps get the numbers of an earlier one that is alike.
    fn keep(
        &self,
        bound: &[bool],
        planned: &mut FedPipeline,
        rows: usize,
        has_run: bool,
        query: &QueryContext,
    ) {
        let mut tested = Tested::Together(Together {
            steps: planned.steps.clone(),
            slots: planned.slots.clone(),
            bound: (0..bound.iter().filter(|bound| **bound).count()).collect(),
            planned: rows,
            fed: 0,
            has_run,
        });
        query.inside.keep_test(self.number, bound, &mut tested);
        if let Tested::Together(kept) = tested {
            planned.steps = kept.steps;
        }
    }

    /// Plans the pattern with these terms inserted.
    fn plan_one(
        &self,
        bound: &[bool],
        terms: impl Iterator<Item = TermId>,
        is_shown: bool,
        query: &QueryContext,
    ) -> Result<Plan, QueryError> {
        let subquery = Subquery {
            pattern: &self.pattern,
            graph: &self.graph,
            inserted: self.bound_variables(bound).into_iter().zip(terms).collect(),
            is_test: true,
            is_shown,
        };
        let mut plan = query.planner.plan(&subquery, query)?;
        compile_plan(&mut plan, &query.evaluation)?;
        Ok(plan)
    }

    /// Returns the plans of the test for EXPLAIN, each with the variables that are bound. If it has not run yet, it is
    /// planned now, for about `rows` rows that bind these columns.
    pub(super) fn plans(
        &self,
        rows: usize,
        is_bound: &dyn Fn(usize) -> bool,
        query: &QueryContext,
    ) -> Result<Vec<(Vec<Variable>, Tested)>, QueryError> {
        let mut plans = query.inside.of_test(self.number);
        if plans.is_empty() {
            let bound: Vec<bool> = self.shared.iter().map(|(_, c)| is_bound(*c)).collect();
            match self.pipeline(&bound, rows, query)? {
                Some(mut planned) => self.keep(&bound, &mut planned, rows, false, query),
                None => {
                    let plan = self.plan_one(&bound, (0..).map(placeholder), true, query)?;
                    let has_run = false;
                    let mut first = Tested::First { plan, has_run };
                    query.inside.keep_test(self.number, &bound, &mut first);
                }
            }
            plans = query.inside.of_test(self.number);
        }
        let plans = plans.into_iter();
        Ok(plans
            .map(|(bound, tested)| (self.bound_variables(&bound), tested))
            .collect())
    }

    /// Returns the pattern of the test.
    pub(super) fn pattern(&self) -> &GraphPattern {
        &self.pattern
    }

    /// Plans and runs the pattern with these terms inserted.
    fn test_one(
        &self,
        bound: &[bool],
        terms: &[u64],
        query: &Arc<QueryContext>,
    ) -> Result<bool, QueryError> {
        let nested = query.evaluation.exists_made();
        let first_plan = CostId::next();
        let is_kept = query.choices.is_some() && !query.inside.has_run(self.number, bound);
        let ids = terms.iter().map(|id| TermId(*id));
        let plan = self.plan_one(bound, ids, is_kept, query)?;
        if is_kept {
            let (plan, has_run) = (plan.clone(), true);
            let mut first = Tested::First { plan, has_run };
            query.inside.keep_test(self.number, bound, &mut first);
        }
        let mut solutions = start(&nodes(plan), query)?;
        let found = loop {
            let batch = pull(&mut solutions).now_or_never();
            match batch.expect("our operators compute; they never wait for another task")? {
                Some(batch) if batch.num_rows() == 0 => {}
                found => break found.is_some(),
            }
        };
        if !is_kept {
            query.drop_from(nested, first_plan);
        }
        Ok(found)
    }
}

/// The distinct combinations of terms of some rows.
struct Keys {
    set: RowSet,
    /// The number of each row's combination.
    of_row: Vec<u32>,
}

impl Keys {
    fn gather(columns: &[&[u64]], rows: &[u32], members: &[u32]) -> Self {
        let mut keys = Self {
            set: RowSet::new(columns.len(), 0),
            of_row: Vec::with_capacity(members.len()),
        };
        let mut terms = vec![0; columns.len()];
        for &member in members {
            let row = rows[member as usize] as usize;
            for (term, column) in terms.iter_mut().zip(columns) {
                *term = column[row];
            }
            let (number, _) = keys.set.insert(keys.set.hash(&terms), &terms);
            keys.of_row.push(number);
        }
        keys
    }
}

impl FedPattern {
    /// Tests the combinations from `from` on, one for each of `answers`. Returns false if the pipeline
    /// still has solutions.
    fn test(&mut self, keys: &Keys, from: usize, answers: &mut [bool]) -> Result<bool, QueryError> {
        let mut seed = Batch::empty(self.width);
        seed.rows = answers.len();
        let terms = keys.set.rows().columns(from..from + answers.len());
        for (column, terms) in seed.columns.iter_mut().zip(terms) {
            *column = terms;
        }
        seed.columns[self.row_slot] = (1..=answers.len() as u64).collect();
        self.source.feed(seed);
        let mut open = answers.len();
        let mut late = 0;
        while let Some(found) = self.source.next()? {
            for &row in &found.columns[self.row_slot] {
                let answer = &mut answers[row as usize - 1];
                open -= usize::from(!*answer);
                *answer = true;
            }
            late += usize::from(open == 0);
            if late > DRAINED_BATCHES {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Strips operators that do not affect whether solutions exist. A projection at the top may be removed,
/// because only the projected variables are shared with the rows.
fn solutions_body(pattern: &GraphPattern) -> &GraphPattern {
    match pattern {
        GraphPattern::Project { inner, .. }
        | GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::OrderBy { inner, .. } => solutions_body(inner),
        other => other,
    }
}
