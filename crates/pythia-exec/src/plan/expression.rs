//! Expressions of a plan.

use std::fmt;
use std::sync::Arc;

use oxrdf::Variable;
use spargebra::algebra::{AggregateExpression, Expression};

use super::dataset::GraphScope;
use crate::expression::aggregate::CompiledAggregate;
use crate::expression::{CompiledExpression, ExistsTest};
use pythia_sparql::scope::variables_of;
use serde::{Deserialize, Serialize};

/// An expression over slots, or over columns of solutions. Cheap to clone.
#[derive(Clone, Deserialize, Serialize)]
pub struct SlotExpression {
    /// The slots that it reads, sorted.
    pub slots: Vec<usize>,
    /// The expression as written.
    #[serde(with = "super::shared")]
    pub source: Arc<ExpressionSource>,
    /// The compiled expression, once the plan is made ready to run.
    #[serde(skip)]
    pub compiled: Option<Arc<CompiledExpression>>,
    /// The tests of the expression's `EXISTS`, in order, once the plan is made ready to run.
    #[serde(skip)]
    pub tests: Vec<Arc<dyn ExistsTest>>,
}

/// An expression in SPARQL's algebra.
#[derive(Debug, Deserialize, Serialize)]
pub struct ExpressionSource {
    /// The expression.
    #[serde(with = "super::form")]
    pub expression: Expression,
    /// The variable of each slot that it reads.
    #[serde(with = "super::form")]
    pub variables: Vec<Variable>,
    /// The graph in which the patterns of `EXISTS` are matched.
    pub graph: GraphScope,
}

impl SlotExpression {
    /// Makes an expression over slots with these variables. A variable that is not among them is unbound.
    pub fn new(expression: &Expression, variables: &[Variable], graph: &GraphScope) -> Self {
        let mut used = variables_of(expression);
        if let GraphScope::Variable(variable) = graph {
            used.insert(variable.clone());
        }
        let slots = (0..variables.len()).filter(|slot| used.contains(&variables[*slot]));
        let slots: Vec<usize> = slots.collect();
        let source = ExpressionSource {
            expression: expression.clone(),
            variables: slots.iter().map(|s| variables[*s].clone()).collect(),
            graph: graph.clone(),
        };
        Self {
            slots,
            source: Arc::new(source),
            compiled: None,
            tests: Vec::new(),
        }
    }

    /// Returns the variables by slot, up to the last slot that the expression reads. Other slots have a name
    /// that no variable has.
    pub fn columns(&self) -> Vec<Variable> {
        let count = self.slots.last().map_or(0, |slot| slot + 1);
        let mut columns = vec![Variable::new_unchecked(""); count];
        for (slot, variable) in self.slots.iter().zip(&self.source.variables) {
            columns[*slot] = variable.clone();
        }
        columns
    }

    /// Returns the compiled expression.
    ///
    /// # Panics
    /// If the plan was not made ready to run.
    pub fn compiled(&self) -> &CompiledExpression {
        self.compiled.as_deref().expect("compiled before it runs")
    }
}

/// Prints the expression as written.
impl fmt::Debug for SlotExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source.expression)
    }
}

/// The aggregates of a grouping, over the columns of its input.
#[derive(Clone, Deserialize, Serialize)]
pub struct Aggregates {
    /// The aggregates in SPARQL's algebra.
    #[serde(with = "super::form")]
    pub expressions: Vec<AggregateExpression>,
    /// The graph in which the patterns of `EXISTS` are matched.
    pub graph: GraphScope,
    /// The compiled aggregates, once the plan is made ready to run.
    #[serde(skip)]
    pub compiled: Option<Arc<[CompiledAggregate]>>,
}

impl Aggregates {
    /// Returns the compiled aggregates.
    ///
    /// # Panics
    /// If the plan was not made ready to run.
    pub fn compiled(&self) -> &Arc<[CompiledAggregate]> {
        self.compiled.as_ref().expect("compiled before they run")
    }
}
