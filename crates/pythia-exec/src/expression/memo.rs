//! Values of an expression over one column, kept by the term in the column.
//!
//! Joins repeat terms: the price of an offer comes once for each feature of the product. An expression that reads texts
//! costs a hundred times as much as looking up its last value.

use std::cell::Cell;

use rustc_hash::FxHashMap;
use spargebra::algebra::Function;

use super::CompiledExpression;
use super::context::EvaluationContext;
use super::evaluate::{Evaluator, Rows};
use super::node::Node;
use super::value::Value;
use crate::error::QueryError;
use crate::limits::governor::Held;

/// Maximum number of kept values.
const VALUES_MAX: usize = 1 << 16;
/// Number of rows after which it is decided whether terms are repeated: as many as there may be values.
const ROWS_TO_DECIDE: usize = VALUES_MAX;
/// Approximate memory of a kept value in bytes, with the table's free places.
const VALUE_BYTES: usize = 2 * (size_of::<u64>() + size_of::<Option<Value<'static>>>());

/// The numbers that an expression gives for terms of a column.
pub(super) struct Memo {
    column: usize,
    /// `None` is an error, or a value that is no number.
    numbers: FxHashMap<u64, Option<Value<'static>>>,
    held: Held,
    /// Rows, and evaluated terms among them, since the last decision.
    rows: usize,
    evaluated: usize,
}

impl Memo {
    /// Returns an empty memo; `None` if the expression is not over one column, is cheap, or may give different values for
    /// one term.
    pub(super) fn new(
        expression: &CompiledExpression,
        context: &EvaluationContext,
    ) -> Option<Self> {
        Some(Self {
            column: only_column(&expression.node)?,
            numbers: FxHashMap::default(),
            held: Held::new(context.governor()),
            rows: 0,
            evaluated: 0,
        })
    }

    /// Evaluates the expression for those terms of the column that have no value yet. Returns the terms; `None` if there
    /// is no memory for their values.
    pub(super) fn fill<'c>(
        &mut self,
        expression: &CompiledExpression,
        columns: &[&'c [u64]],
        context: &EvaluationContext,
    ) -> Result<Option<&'c [u64]>, QueryError> {
        let ids = columns[self.column];
        let bytes = (self.numbers.len() + ids.len()) * VALUE_BYTES;
        if bytes > self.held.bytes() && self.held.set(bytes).is_err() {
            self.numbers = FxHashMap::default();
            self.held.set(0)?;
            return Ok(None);
        }
        if self.numbers.len() + ids.len() > VALUES_MAX {
            self.numbers.clear();
        }
        let mut new: Vec<u64> = Vec::new();
        for &id in ids {
            self.numbers.entry(id).or_insert_with(|| {
                new.push(id);
                None
            });
        }
        self.rows += ids.len();
        self.evaluated += new.len();
        let columns: Vec<&[u64]> = columns.iter().map(|_| &new[..]).collect();
        let mut evaluator = Evaluator::new(&columns, context);
        let column = evaluator.evaluate(&expression.node, Rows::All(new.len()))?;
        let mut decoded = evaluator.decoded;
        decoded.require(context, &[&column], |_, _| true)?;
        for (row, id) in new.iter().enumerate() {
            let value = column.value(row, &decoded).filter(Value::is_numeric);
            self.numbers.insert(*id, value.map(Value::into_owned));
        }
        Ok(Some(ids))
    }

    /// Returns the number for a term that was filled in; `None` is an error.
    pub(super) fn number(&self, id: u64) -> Option<Value<'_>> {
        self.numbers[&id].as_ref().map(Value::borrow)
    }

    /// Returns whether enough terms are repeated, as far as is known.
    pub(super) fn pays(&mut self) -> bool {
        if self.rows < ROWS_TO_DECIDE {
            return true;
        }
        let (rows, evaluated) = (self.rows, self.evaluated);
        (self.rows, self.evaluated) = (0, 0);
        evaluated * 2 < rows
    }
}

/// Returns the only column that an expensive, repeatable expression is over.
fn only_column(node: &Node) -> Option<usize> {
    let (found, others) = (Cell::new(None), Cell::new(false));
    let is_hard = node.any(&|node| {
        let column = match node {
            Node::Variable(column) | Node::Bound(column) | Node::InIris(column, _) => *column,
            Node::CompareConstant(comparison) => comparison.column,
            Node::Degree(..) | Node::Custom(_) | Node::Exists(_) => return true,
            Node::Call(call) => {
                return matches!(
                    call.function,
                    Function::Rand | Function::Uuid | Function::StrUuid | Function::BNode
                );
            }
            _ => return false,
        };
        others.set(others.get() || found.get().is_some_and(|other| other != column));
        found.set(Some(column));
        false
    });
    let calls = node.any(&|node| matches!(node, Node::Call(_) | Node::Cast(..)));
    found.get().filter(|_| calls && !is_hard && !others.get())
}
