//! Values of an expression over one column, kept by the term in the column, and evaluated for many terms at once.
//!
//! Joins repeat terms: the price of an offer comes once for each feature of the product. An expression that reads texts
//! costs a hundred times as much as looking up its last value. Terms that are not repeated are still read faster in the
//! order of their ids, in which neighbours are on one page of the dictionary. So rows wait until there are many.

use std::cell::Cell;

use pythia_rdf::TermId;
use rustc_hash::FxHashMap;
use spargebra::algebra::Function;

use super::CompiledExpression;
use super::context::EvaluationContext;
use super::evaluate::{Evaluator, Rows};
use super::exact::Exact;
use super::node::Node;
use super::number::Number;
use super::value::Value;
use crate::error::QueryError;
use crate::limits::governor::Held;

/// Maximum number of values that are kept for later rows, besides those of the rows that came last.
const VALUES_MAX: usize = 1 << 16;
/// Maximum number of rows that wait.
const WAITING_MAX: usize = 1 << 16;
/// Number of terms that are evaluated at a time, to bound the texts held at once.
const TERMS_AT_ONCE: usize = 1 << 12;
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
    /// Returns an empty memo; `None` if the expression is not over one column, is cheap, or may give different values for
    /// one term.
    pub(super) fn new(
        expression: &CompiledExpression,
        width: usize,
        context: &EvaluationContext,
    ) -> Option<Self> {
        Some(Self {
            column: only_column(&expression.node)?,
            width,
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
            // The other half is for evaluation.
            let has_memory = self.held.left() + self.held.bytes() >= 2 * bytes;
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
        for terms in new.chunks(TERMS_AT_ONCE) {
            context.check()?;
            self.evaluate(expression, terms, context)?;
        }
        let has_text = |(id, _): &&(u64, u32)| !TermId(*id).kind().is_inline();
        let texts = new.iter().filter(has_text).count();
        Ok(KnownRows {
            groups: std::mem::take(&mut self.groups),
            pays: !self.are_new || texts * 2 > new.len(),
            places,
        })
    }

    /// Evaluates the expression for terms, and keeps their numbers at their places.
    fn evaluate(
        &mut self,
        expression: &CompiledExpression,
        terms: &[(u64, u32)],
        context: &EvaluationContext,
    ) -> Result<(), QueryError> {
        let ids: Vec<u64> = terms.iter().map(|(id, _)| *id).collect();
        let columns = vec![&ids[..]; self.width];
        let mut evaluator = Evaluator::new(&columns, context);
        let column = evaluator.evaluate(&expression.node, Rows::All(ids.len()))?;
        let mut decoded = evaluator.decoded;
        decoded.require(context, &[&column], |_, _| true)?;
        for (row, (_, place)) in terms.iter().enumerate() {
            self.numbers[*place as usize] = match column.value(row, &decoded) {
                Some(Value::Number(number)) => Kept::Number(number),
                Some(Value::Exact(exact)) => Kept::Exact(exact),
                _ => Kept::Error,
            };
        }
        Ok(())
    }

    /// Returns the number at a place; `None` is an error.
    pub(super) fn number(&self, place: u32) -> Option<Value<'_>> {
        match &self.numbers[place as usize] {
            Kept::Error => None,
            Kept::Number(number) => Some(Value::Number(*number)),
            Kept::Exact(exact) => Some(Value::Exact(exact.clone())),
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
