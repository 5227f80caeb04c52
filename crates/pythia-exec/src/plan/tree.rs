//! A plan: a tree of operators, as data.

use oxrdf::Variable;
use serde::{Deserialize, Serialize};

use super::operators::Operator;
use crate::explain::CostId;

/// An operator with the plans of its inputs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Plan {
    /// The operation.
    pub operator: Box<Operator>,
    /// The plans of the operator's inputs.
    pub inputs: Vec<Plan>,
    /// The variables of the solutions, one per column.
    #[serde(with = "super::form")]
    pub variables: Vec<Variable>,
    /// Estimated number of solutions.
    pub estimated_rows: Option<f64>,
    /// The number under which the operator's cost is measured.
    pub cost: CostId,
}

impl Plan {
    /// Makes a plan whose solutions are over `variables`.
    pub fn new(operator: Operator, inputs: Vec<Self>, variables: Vec<Variable>) -> Self {
        Self {
            operator: Box::new(operator),
            inputs,
            variables,
            estimated_rows: None,
            cost: CostId::next(),
        }
    }

    /// Records the estimated number of solutions, unless there is an estimate already.
    pub fn estimate(&mut self, rows: f64) {
        self.estimated_rows.get_or_insert(rows);
    }
}
