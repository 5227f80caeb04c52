//! Records why the planner chose the steps of a plan, for EXPLAIN. It is kept beside the plan, which only says what to do.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::step::Step;
use crate::explain::{CostId, JoinOrder};

/// Maximum number of recorded choices. A query may plan patterns again and again while it runs.
const RECORDED_MAX: usize = 10_000;

/// The choices that led to the steps of a query's plans.
#[derive(Debug, Default)]
pub struct Choices {
    made: Mutex<FxHashMap<CostId, Arc<Choice>>>,
}

/// The choice of one step.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Expected time of the step in microseconds.
    pub cost_us: f64,
    /// Origin of the order, at its first step.
    pub order: Option<JoinOrder>,
    /// The cheapest alternatives, in order.
    pub rejected: Vec<Rejected>,
}

/// A rejected alternative.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// The alternative.
    pub alternative: Alternative,
    /// Expected number of solutions after it.
    pub rows: f64,
    /// Expected time in microseconds.
    pub cost_us: f64,
}

/// A step that could stand at the place of another.
#[derive(Clone, Debug)]
pub enum Alternative {
    /// A step over the slots of the pipeline.
    Step(Box<Step>),
    /// An operand of the group whose steps are not planned yet.
    Operand {
        /// Its name in plans.
        operator: &'static str,
        /// The slots that it binds.
        slots: Vec<usize>,
    },
}

impl Choices {
    /// Records the choice of the step whose cost has this number, unless there are too many.
    pub fn record(&self, step: CostId, choice: Choice) {
        let mut made = self.made.lock();
        if made.len() < RECORDED_MAX {
            made.insert(step, Arc::new(choice));
        }
    }

    /// Returns the choice of a step.
    pub(crate) fn of(&self, step: CostId) -> Option<Arc<Choice>> {
        self.made.lock().get(&step).cloned()
    }
}
