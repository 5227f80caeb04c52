//! Values of an expression over one column, kept by the term in the column, and evaluated for many terms at once.
//!
//! Joins repeat terms: the price of an offer comes once for each feature of the product. An expression that reads texts
//! costs a hundred times as much as looking up its last value. Terms that are not repeated are still read faster in the
//! order of their ids, in which neighbours are on one page of the dictionary. So rows wait until there are many.

use std::cell::Cell;

use pythia_rdf::TermId;
use rustc_hash::FxHashMap;

use super::aggregate::numbers;
use super::context::EvaluationContext;
use super::evaluate::{Evaluator, Rows};
use super::exact::Exact;
use super::node::Node;
use super::number::Number;
use super::value::Value;
use super::{CompiledExpression, in_ranges};
use crate::error::QueryError;
use crate::limits::governor::Held;

/// Maximum number of values that are kept for later rows, besides those of the rows that came last.
const VALUES_MAX: usize = 1 << 16;
/// Maximum number of rows that wait.
const WAITING_MAX: usize = 1 << 16;
/// Rows that wait get one of this many parts of the memory that is left.
const WAITING_SHARE: usize = 16;
/// Approximate memory of a kept value in bytes, with the free places of the table and the list.
const VALUE_BYTES: usize = 2 * (size_of::<(u64, u32)>() + size_of::<Kept>());
/// Memory of a row that waits, in bytes, with the value that it may need.
const ROW_BYTES: usize = size_of::<u32>() + size_of::<u64>() + VALUE_BYTES;

/// The numbers that an expression gives for terms of a column, and the rows that wait for theirs.
pub(super) struct Memo {
    column: usize,
    /// Number of columns of the rows.
    width: usize,
    /// The place of each term's number.
    places: FxHashMap<u64, u32>,
    numbers: Vec<Kept>,
    /// True if most terms of the rows that came last had not come before.
    are_new: bool,
    /// The group and the term of each row that waits.
    groups: Vec<u32>,
    ids: Vec<u64>,
    held: Held,
}

/// A number in less space than a value takes.
#[derive(Clone)]
enum Kept {
    /// An error, or a value that is no number.
    Error,
    Number(Number),
    Exact(Box<Exact>),
}

/// Rows of a sum whose numbers are known.
pub(super) struct KnownRows {
    pub(super) groups: Vec<u32>,
    /// The place of the number of each row.
    pub(super) places: Vec<u32>,
    /// True if it pays to let rows wait: terms are repeated, or have texts.
    pub(super) pays: bool,
}

impl Memo {
    /// Returns an empty memo; `None` if the expression is not over one column, is cheap for the first rows, or may give
    /// different values for one term.
    pub(super) fn new(
        expression: &CompiledExpression,
        columns: &[&[u64]],
        context: &EvaluationContext,
    ) -> Option<Self> {
        let is_text = |id: &u64| TermId(*id).is_bound() && !TermId(*id).kind().is_inline();
        let column = match expression.as_column() {
            Some(column) => Some(column).filter(|&column| columns[column].iter().any(is_text)),
            None => only_column(&expression.node),
        };
        Some(Self {
            column: column?,
            width: columns.len(),
            places: FxHashMap::default(),
            numbers: Vec::new(),
            are_new: false,
            groups: Vec::new(),
            ids: Vec::new(),
            held: Held::new(context.governor()),
        })
    }

    /// Lets rows wait. Returns false if there is no memory for them.
    pub(super) fn wait(&mut self, groups: &[u32], columns: &[&[u64]]) -> bool {
        let rows = self.ids.len() + groups.len();
        let bytes = self.numbers.len() * VALUE_BYTES + rows * ROW_BYTES;
        if bytes > self.held.bytes() {
            // The rest is for evaluation, and for the memos of other parts.
            let has_memory = self.held.left() + self.held.bytes() >= WAITING_SHARE * bytes;
            if !has_memory || self.held.set(bytes).is_err() {
                return false;
            }
        }
        self.groups.extend_from_slice(groups);
        self.ids.extend_from_slice(columns[self.column]);
        true
    }

    /// Returns whether the maximum number of rows waits.
    pub(super) fn is_full(&self) -> bool {
        self.ids.len() >= WAITING_MAX
    }

    /// Evaluates the expression for the terms of the rows that wait, and returns the rows.
    pub(super) fn take(
        &mut self,
        expression: &CompiledExpression,
        context: &EvaluationContext,
    ) -> Result<KnownRows, QueryError> {
        // Reusing memory is faster than taking more, unless the terms come again.
        let kept_max = if self.are_new {
            VALUES_MAX / 2
        } else {
            VALUES_MAX
        };
        if self.numbers.len() > kept_max {
            self.places.clear();
            self.numbers.clear();
        }
        let known = self.numbers.len();
        let mut new: Vec<(u64, u32)> = Vec::new();
        let place = |&id: &u64| {
            let next = (known + new.len()) as u32;
            *self.places.entry(id).or_insert_with(|| {
                new.push((id, next));
                next
            })
        };
        let places: Vec<u32> = self.ids.iter().map(place).collect();
        self.ids.clear();
        new.sort_unstable();
        self.numbers.resize(known + new.len(), Kept::Error);
        self.are_new = new.len() * 2 > places.len();
        let ids: Vec<u64> = new.iter().map(|(id, _)| *id).collect();
        let found = in_ranges(ids.len(), context, |terms| {
            context.check()?;
            let columns = vec![&ids[terms]; self.width];
            Kept::all(expression, &columns, context)
        })?;
        for ((_, place), kept) in new.iter().zip(found.into_iter().flatten()) {
            self.numbers[*place as usize] = kept;
        }
        let has_text = |(id, _): &&(u64, u32)| !TermId(*id).kind().is_inline();
        let texts = new.iter().filter(has_text).count();
        Ok(KnownRows {
            groups: std::mem::take(&mut self.groups),
            pays: !self.are_new || texts * 2 > new.len(),
            places,
        })
    }

    /// Returns the number at a place; `None` is an error.
    pub(super) fn number(&self, place: u32) -> Option<Value<'_>> {
        self.numbers[place as usize].value()
    }
}

impl Kept {
    /// Returns the numbers that an expression gives for rows.
    fn all(
        expression: &CompiledExpression,
        columns: &[&[u64]],
        context: &EvaluationContext,
    ) -> Result<Vec<Self>, QueryError> {
        let rows = columns.first().map_or(0, |column| column.len());
        let mut evaluator = Evaluator::new(columns, context);
        let column = evaluator.evaluate(&expression.node, Rows::All(rows))?;
        let mut decoded = evaluator.decoded;
        let number = numbers(&column, &mut decoded, context)?;
        let kept = |row| match number(row) {
            Some(Value::Number(number)) => Self::Number(number),
            Some(Value::Exact(exact)) => Self::Exact(exact),
            _ => Self::Error,
        };
        Ok((0..rows).map(kept).collect())
    }

    /// Returns the number; `None` is an error.
    fn value(&self) -> Option<Value<'_>> {
        match self {
            Self::Error => None,
            Self::Number(number) => Some(Value::Number(*number)),
            Self::Exact(exact) => Some(Value::Exact(exact.clone())),
        }
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
            node => return node.draws(),
        };
        others.set(others.get() || found.get().is_some_and(|other| other != column));
        found.set(Some(column));
        false
    });
    let calls = node.any(&|node| matches!(node, Node::Call(_) | Node::Cast(..)));
    found.get().filter(|_| calls && !is_hard && !others.get())
}
