//! The plans that a query has made for its `LATERAL`s. A `LATERAL` inside another one runs many times with the
//! same plans.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::explain::CostId;
use crate::plan::Plan;

/// Maximum number of plans that a query keeps. Each set of bound variables has its own.
const KEPT_MAX: usize = 64;

/// A plan that is ready to run, with placeholders for the terms of some variables.
pub(crate) struct Template {
    pub(super) plan: Plan,
    /// The plan's column for each variable that the pattern binds.
    pub(super) columns: Arc<[Option<usize>]>,
    /// The places of the variables with placeholders in a combination of terms.
    pub(super) bound: Vec<usize>,
    /// Number of combinations that it was run for, since the measurements began.
    pub(super) runs: AtomicU64,
}

/// The number of an operator, and which of its variables are bound.
type Key = (CostId, Vec<bool>);

/// Plans by operator and bound variables.
#[derive(Default)]
pub(crate) struct Templates {
    kept: Mutex<HashMap<Key, Arc<Template>>>,
}

impl Templates {
    /// Returns the plan of an operator for these bound variables, if it is kept.
    pub(super) fn get(&self, number: CostId, bound: &[bool]) -> Option<Arc<Template>> {
        self.kept.lock().get(&(number, bound.to_vec())).cloned()
    }

    /// Keeps a plan, unless there are too many.
    pub(super) fn keep(&self, number: CostId, bound: &[bool], template: &Arc<Template>) {
        let mut kept = self.kept.lock();
        if kept.len() < KEPT_MAX {
            kept.insert((number, bound.to_vec()), Arc::clone(template));
        }
    }

    /// Drops the plans of operators with this number and higher ones, which belong to a plan that has run.
    pub(super) fn drop_from(&self, number: CostId) {
        self.kept.lock().retain(|(made, _), _| *made < number);
    }

    /// Forgets how often the plans were run.
    pub(super) fn clear_runs(&self) {
        let kept = self.kept.lock();
        let kept = kept.values();
        kept.for_each(|template| template.runs.store(0, Ordering::Relaxed));
    }

    /// Returns the plans of an operator, those with fewer bound variables first.
    pub(super) fn of(&self, number: CostId) -> Vec<Arc<Template>> {
        let kept = self.kept.lock();
        let mut plans: Vec<_> = kept
            .iter()
            .filter(|((of, _), _)| *of == number)
            .map(|((_, bound), template)| (bound, Arc::clone(template)))
            .collect();
        plans.sort_by_key(|(bound, _)| *bound);
        plans.into_iter().map(|(_, template)| template).collect()
    }
}
