//! SPARQL expressions over columns of term ids.
//!
//! [`CompiledExpression`] evaluates a batch of rows at a time, [`aggregate`] aggregates groups of rows, and
//! [`order`] makes the sort keys of `ORDER BY`. All work on raw ids ([`TermId`] bits, 0 = unbound) and
//! fetch a term's text only if its kind and the operation require it, in sorted batches. Terms that a query
//! computes get ids from its [`TermTable`], so equal terms always have equal ids within a query.
//!
//! An error of an expression is a value (unbound, or false in a filter). A [`QueryError`] means that the
//! store failed or a construct is not supported.

pub mod aggregate;
mod cast;
mod casts;
mod column;
mod compare;
mod compile;
mod context;
mod decoded;
mod degree;
mod digest;
mod evaluate;
mod exact;
pub mod exact_sum;
mod exists;
mod floating;
mod function;
mod id_loop;
mod id_range;
pub mod id_set;
mod math;
mod memo;
mod node;
mod number;
pub mod order;
mod pattern;
mod statistics;
mod table;
mod temporal;
mod text;
mod value;
mod warnings;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod numerics;
#[cfg(test)]
mod rational;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::ops::Range;

use oxrdf::Variable;
use pythia_rdf::TermId;
use pythia_store::statistics::KindSet;
use spargebra::algebra::Expression;

use crate::error::QueryError;
use crate::limits::fork::fork;

pub use context::{CustomFunction, CustomFunctions, EvaluationContext};
pub use exact::Exact;
pub(crate) use exact::written_units;
pub use exists::{ExistsCompiler, ExistsTest};
pub use number::{Arithmetic, Number};
pub use table::{FoundTerm, NoStore, TermReader, TermResolver, TermTable};
pub use temporal::{AnyDuration, Component, Temporal};
pub use value::Value;
pub use warnings::Warnings;

use compare::TRUE;
use evaluate::{Evaluator, Rows};
use node::Node;

/// A compiled expression that runs over batches of rows.
pub struct CompiledExpression {
    node: Node,
}

impl CompiledExpression {
    /// Compiles an expression over rows with these columns. A variable that is not among them is unbound.
    /// Constants are looked up in the dictionary, and parts without variables are evaluated.
    pub fn compile(
        expression: &Expression,
        columns: &[Variable],
        context: &EvaluationContext,
    ) -> Result<Self, QueryError> {
        Self::compile_with(expression, columns, context, &exists::no_exists)
    }

    /// Does the same as [`Self::compile`], with a compiler for `EXISTS`.
    pub fn compile_with(
        expression: &Expression,
        columns: &[Variable],
        context: &EvaluationContext,
        exists: ExistsCompiler<'_>,
    ) -> Result<Self, QueryError> {
        Ok(Self {
            node: compile::compile(expression, columns, context, exists)?,
        })
    }

    /// Returns the column if the expression is just a variable.
    pub fn as_column(&self) -> Option<usize> {
        match self.node {
            Node::Variable(column) => Some(column),
            _ => None,
        }
    }

    /// Returns the id if the expression is the same term in every row; [`TermId::UNBOUND`] if it is an
    /// error in every row.
    pub fn as_constant(&self) -> Option<TermId> {
        match &self.node {
            Node::Constant(constant) => Some(constant.id),
            Node::Error => Some(TermId::UNBOUND),
            _ => None,
        }
    }

    /// Returns the ids of a column of terms of these kinds for which the expression may be true, as sorted
    /// ranges; `None` if that is possible for all. `ids` looks up prefixes in the dictionary.
    pub fn id_set(
        &self,
        column: usize,
        kinds: KindSet,
        ids: id_set::PrefixIds<'_>,
    ) -> Result<Option<id_set::IdSet>, QueryError> {
        id_set::may_be_true(&self.node, column, kinds, ids)
    }

    /// Returns whether the expression runs on ids alone in tight loops, without reading any text.
    pub fn is_cheap(&self) -> bool {
        self.node.is_cheap()
    }

    /// Returns whether the expression calls a function on terms that a row binds, and is best evaluated for
    /// many rows in the order of their ids. False if it needs more from the store than terms.
    pub fn looks_at_texts(&self) -> bool {
        self.node.any(&|node| matches!(node, Node::Call(_)))
            && !self
                .node
                .any(&|node| matches!(node, Node::Exists(_) | Node::Custom(_) | Node::Degree(..)))
    }

    /// Returns the ids of the results, 0 for errors. A term that is passed through keeps its id.
    pub fn evaluate_ids(
        &self,
        columns: &[&[u64]],
        rows: usize,
        context: &EvaluationContext,
    ) -> Result<Vec<u64>, QueryError> {
        self.in_parts(columns, rows, PART_ROWS, context, |columns, rows| {
            let mut evaluator = Evaluator::new(columns, context);
            let column = evaluator.evaluate(&self.node, Rows::All(rows))?;
            column.into_ids(rows, context)
        })
    }

    /// Returns the values of the results, `None` for errors.
    pub fn evaluate(
        &self,
        columns: &[&[u64]],
        rows: usize,
        context: &EvaluationContext,
    ) -> Result<Vec<Option<Value<'static>>>, QueryError> {
        let mut evaluator = Evaluator::new(columns, context);
        let column = evaluator.evaluate(&self.node, Rows::All(rows))?;
        evaluator
            .decoded
            .require(context, &[&column], |_, _| true)?;
        let values = (0..rows).map(|row| {
            let value = column.value(row, &evaluator.decoded);
            value.map(Value::into_owned)
        });
        Ok(values.collect())
    }

    /// Returns which rows have a true effective boolean value.
    pub fn filter(
        &self,
        columns: &[&[u64]],
        rows: usize,
        context: &EvaluationContext,
    ) -> Result<Vec<bool>, QueryError> {
        self.filter_in_parts(columns, rows, PART_ROWS, context)
    }

    /// Returns which rows have a true effective boolean value. The rows are in the order of the terms that are looked up first, so
    /// that small parts read pages of the dictionary again only at their bounds.
    pub fn filter_sorted(
        &self,
        columns: &[&[u64]],
        rows: usize,
        context: &EvaluationContext,
    ) -> Result<Vec<bool>, QueryError> {
        let part_rows = rows
            .div_ceil(SORTED_PARTS)
            .clamp(SORTED_ROWS_MIN, PART_ROWS);
        self.filter_in_parts(columns, rows, part_rows, context)
    }

    fn filter_in_parts(
        &self,
        columns: &[&[u64]],
        rows: usize,
        part_rows: usize,
        context: &EvaluationContext,
    ) -> Result<Vec<bool>, QueryError> {
        self.in_parts(columns, rows, part_rows, context, |columns, rows| {
            let mut evaluator = Evaluator::new(columns, context);
            let truths = evaluator.truths(&self.node, Rows::All(rows))?;
            Ok(truths.into_iter().map(|truth| truth == TRUE).collect())
        })
    }

    /// Evaluates parts of that many rows, on all free cores if that may take long, and returns the values of all rows.
    fn in_parts<T: Send>(
        &self,
        columns: &[&[u64]],
        rows: usize,
        part_rows: usize,
        context: &EvaluationContext,
        evaluate: impl Fn(&[&[u64]], usize) -> Result<Vec<T>, QueryError> + Sync,
    ) -> Result<Vec<T>, QueryError> {
        let mut values = Vec::with_capacity(rows);
        let evaluate = |rows: Range<usize>| {
            context.check()?;
            let length = rows.len();
            evaluate(&slices(columns, rows), length)
        };
        if self.is_cheap() || self.as_column().is_some() || self.draws() {
            for start in (0..rows).step_by(PART_ROWS) {
                values.append(&mut evaluate(start..(start + PART_ROWS).min(rows))?);
            }
            return Ok(values);
        }
        for mut part in in_ranges(rows, part_rows, context, evaluate)? {
            values.append(&mut part);
        }
        Ok(values)
    }

    /// Returns whether the expression may give different values for equal rows.
    fn draws(&self) -> bool {
        self.node.any(&Node::draws)
    }
}

/// Number of rows of the parts in which large batches are evaluated. Parts bound the texts held at once,
/// and the deadline is checked between them. Smaller ones would read a page of the dictionary more often.
const PART_ROWS: usize = 4096;
/// Minimum number of parts of rows in the order of their terms, so that all threads end at about the same time, and the minimum number of
/// rows of a part, which goes before.
const SORTED_PARTS: usize = 32;
const SORTED_ROWS_MIN: usize = 2048;

/// Evaluates parts of that many rows on all free cores, and returns what was made of each. If memory does not suffice for several
/// parts at once, it evaluates one after the other.
fn in_ranges<T: Send>(
    rows: usize,
    part_rows: usize,
    context: &EvaluationContext,
    evaluate: impl Fn(Range<usize>) -> Result<T, QueryError> + Sync,
) -> Result<Vec<T>, QueryError> {
    if rows <= part_rows {
        return Ok(vec![evaluate(0..rows)?]);
    }
    let parts = rows.div_ceil(part_rows);
    let part = |part: usize| evaluate(part * part_rows..((part + 1) * part_rows).min(rows));
    match fork(context.governor().cores(), parts, part) {
        Err(QueryError::Memory(_)) => (0..parts).map(part).collect(),
        done => done,
    }
}

/// Returns some rows of columns.
fn slices<'c>(columns: &[&'c [u64]], rows: Range<usize>) -> Vec<&'c [u64]> {
    let columns = columns.iter();
    columns.map(|column| &column[rows.clone()]).collect()
}
