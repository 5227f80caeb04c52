//! The plans that `EXISTS` and `GRAPH ?g` have made while their query runs, kept for EXPLAIN. Nothing is kept for a query that
//! will not be explained.

use std::collections::{BTreeSet, HashMap};

use oxrdf::Variable;
use parking_lot::Mutex;
use pythia_rdf::TermId;

use crate::explain::CostId;
use crate::plan::Plan;
use crate::plan::step::{Step, StepKind};

/// Maximum number of tests, and of graph operators, whose plans are kept.
const KEPT_MAX: usize = 256;
/// Maximum number of different plans of one test. A test may plan its pattern again for more rows.
const PLANS_MAX: usize = 4;

/// The number of a test, and which of its variables are bound.
type Key = (usize, Vec<bool>);

/// The kept plans of one query.
#[derive(Default)]
pub(crate) struct Inside {
    tests: Mutex<HashMap<Key, Vec<Tested>>>,
    graphs: Mutex<HashMap<CostId, (TermId, Plan)>>,
}

/// A plan of an `EXISTS`.
#[derive(Clone)]
pub(super) enum Tested {
    /// The pipeline of all rows.
    Together(Together),
    /// The plan of the first combination of terms that was tested by itself.
    First {
        plan: Plan,
        /// False if no row was tested with the plan.
        has_run: bool,
    },
}

/// A pipeline that rows are fed to.
#[derive(Clone)]
pub(super) struct Together {
    pub(super) steps: Vec<Step>,
    pub(super) slots: Vec<Variable>,
    /// The slots that the rows bind.
    pub(super) bound: BTreeSet<usize>,
    /// Number of rows for which it was planned.
    pub(super) planned: usize,
    /// Number of rows that were fed to it since the measurements began.
    pub(super) fed: usize,
    /// False if it was planned only to be explained.
    pub(super) has_run: bool,
}

impl Tested {
    fn has_run(&self) -> bool {
        match self {
            Self::Together(together) => together.has_run,
            Self::First { has_run, .. } => *has_run,
        }
    }
}

impl Inside {
    /// Returns whether a plan with which rows were tested is kept for a test.
    pub(super) fn has_run(&self, test: usize, bound: &[bool]) -> bool {
        let tests = self.tests.lock();
        let kept = tests.get(&(test, bound.to_vec()));
        kept.is_some_and(|kept| kept.iter().any(Tested::has_run))
    }

    /// Keeps a plan of a test. A pipeline like one before gets its numbers, so that both are measured as one.
    pub(super) fn keep_test(&self, test: usize, bound: &[bool], tested: &mut Tested) {
        let mut tests = self.tests.lock();
        let is_full = tests.len() >= KEPT_MAX;
        let key = (test, bound.to_vec());
        if is_full && !tests.contains_key(&key) {
            return;
        }
        let kept = tests.entry(key).or_default();
        if let Tested::Together(new) = tested {
            let like = |old: &Tested| matches!(old, Tested::Together(old) if alike(&old.steps, &new.steps));
            if let Some(place) = kept.iter().position(like)
                && let Tested::Together(old) = kept.remove(place)
            {
                renumber(&mut new.steps, &old.steps);
                if old.has_run {
                    (new.planned, new.fed) = (old.planned, old.fed);
                }
            }
        }
        if tested.has_run() {
            kept.retain(Tested::has_run);
        }
        if kept.len() < PLANS_MAX {
            kept.push(tested.clone());
        }
    }

    /// Counts rows that are fed to the last pipeline of a test.
    pub(super) fn count_fed(&self, test: usize, bound: &[bool], rows: usize) {
        let mut tests = self.tests.lock();
        let last = tests.get_mut(&(test, bound.to_vec()));
        if let Some(Tested::Together(last)) = last.and_then(|kept| kept.last_mut()) {
            last.fed += rows;
        }
    }

    /// Forgets how many rows were fed to the pipelines.
    pub(super) fn clear_fed(&self) {
        for kept in self.tests.lock().values_mut().flatten() {
            if let Tested::Together(together) = kept {
                together.fed = 0;
            }
        }
    }

    /// Returns the plans of a test with the variables that are bound, those with fewer of them first.
    pub(super) fn of_test(&self, test: usize) -> Vec<(Vec<bool>, Tested)> {
        let tests = self.tests.lock();
        let kept = tests.iter().filter(|((number, _), _)| *number == test);
        let kept = kept.flat_map(|((_, bound), kept)| kept.iter().map(move |one| (bound, one)));
        let mut kept: Vec<_> = kept
            .map(|(bound, one)| (bound.clone(), one.clone()))
            .collect();
        kept.sort_by(|(a, _), (b, _)| a.cmp(b));
        kept
    }

    /// Drops the plans of tests with this number and higher ones, which belong to a plan that has run.
    pub(super) fn drop_tests_from(&self, number: usize) {
        self.tests.lock().retain(|(made, _), _| *made < number);
    }

    /// Keeps the plan of the first graph in which an operator evaluates its pattern.
    pub(super) fn keep_graph(&self, operator: CostId, graph: TermId, plan: &Plan) {
        let mut graphs = self.graphs.lock();
        if graphs.len() < KEPT_MAX {
            graphs
                .entry(operator)
                .or_insert_with(|| (graph, plan.clone()));
        }
    }

    /// Returns the plan of an operator's first graph.
    pub(super) fn of_graph(&self, operator: CostId) -> Option<(TermId, Plan)> {
        self.graphs.lock().get(&operator).cloned()
    }

    /// Drops the plans of operators with this number and higher ones.
    pub(super) fn drop_graphs_from(&self, number: CostId) {
        self.graphs.lock().retain(|made, _| *made < number);
    }
}

/// Returns whether two pipelines do the same, apart from their estimates and numbers.
fn alike(a: &[Step], b: &[Step]) -> bool {
    let steps = || a.iter().zip(b);
    let filters = |step: &Step| format!("{:?}", step.filters);
    a.len() == b.len()
        && steps().all(|(a, b)| filters(a) == filters(b))
        && steps().all(|(a, b)| match (&a.kind, &b.kind) {
            (StepKind::Optional(a), StepKind::Optional(b)) => alike(a, b),
            (StepKind::Union(a), StepKind::Union(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
            }
            (a, b) => format!("{a:?}") == format!("{b:?}"),
        })
}

/// Gives the steps of a pipeline the numbers of one that is alike.
fn renumber(new: &mut [Step], old: &[Step]) {
    for (new, old) in new.iter_mut().zip(old) {
        new.cost = old.cost;
        match (&mut new.kind, &old.kind) {
            (StepKind::Optional(new), StepKind::Optional(old)) => renumber(new, old),
            (StepKind::Union(new), StepKind::Union(old)) => {
                new.iter_mut()
                    .zip(old)
                    .for_each(|(new, old)| renumber(new, old));
            }
            _ => {}
        }
    }
}
