//! Values of an expression over one column, kept by the term in the column, and evaluated for many terms at once.
//!
//! Joins repeat terms: the price of an offer comes once for each feature of the product. An expression that reads texts
//! costs a hundred times as much as looking up its last value. Terms that are not repeated are still read faster in the
//! order of their ids, in which neighbours are on one page of the dictionary. So rows wait until there are many. Then they
//! are divided by ranges of ids, and any thread looks up and evaluates the terms of any range.

use std::cell::Cell;
use std::slice;

use parking_lot::Mutex;
use pythia_rdf::TermId;
use rustc_hash::FxHashMap;

use super::aggregate::numbers;
use super::context::EvaluationContext;
use super::evaluate::{Evaluator, Rows};
use super::exact::Exact;
use super::node::Node;
use super::number::Number;
use super::value::Value;
use super::{CompiledExpression, PART_ROWS};
use crate::error::QueryError;
use crate::limits::exchange::{Divided, PARTS, Parted, ROWS_MIN, Ranges};
use crate::limits::fork::fork;
use crate::limits::governor::Held;

/// Maximum number of values that are kept for later rows, besides those of the rows that came last.
const VALUES_MAX: usize = 1 << 16;
/// Maximum number of rows that wait.
const WAITING_MAX: usize = 1 << 16;
/// Rows that wait get one of this many parts of the memory that is left.
const WAITING_SHARE: usize = 16;
/// Approximate memory of a kept value in bytes, with the free places of the table and the list.
const VALUE_BYTES: usize = 2 * (size_of::<(u64, u32)>() + size_of::<Kept>());
/// Memory of a row that waits, in bytes, with its place in a part, its value, and the one that may be kept for it.
const ROW_BYTES: usize = 3 * size_of::<u64>() + size_of::<Kept>() + VALUE_BYTES;

/// The numbers that an expression gives for terms of a column, and the rows that wait for theirs.
pub(super) struct Memo {
    column: usize,
    /// Number of columns of the rows.
    width: usize,
    /// The known terms, in parts by ranges of their ids. None before the first rows.
    parts: Vec<Mutex<Known>>,
    /// None if there is one part, because few rows came first.
    ranges: Option<Ranges>,
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
    /// The part of each row, if there are several, and the numbers of the rows of each part.
    divided: Option<Divided>,
    numbers: Vec<Vec<Kept>>,
    /// True if it pays to let rows wait: terms are repeated, or have texts.
    pub(super) pays: bool,
}

impl KnownRows {
    /// Returns the numbers of the rows, in order; `None` is an error.
    pub(super) fn numbers(&self) -> impl Iterator<Item = Option<Value<'_>>> {
        let mut parts: Vec<slice::Iter<'_, Kept>> = self.numbers.iter().map(|n| n.iter()).collect();
        let mut of_rows = self.divided.as_ref().map(Divided::parts);
        let next = move |_: &u32| {
            let part = of_rows.as_mut().map_or(Some(0), Iterator::next);
            parts[part?].next().and_then(Kept::value)
        };
        self.groups.iter().map(next)
    }
}

/// The numbers that an expression gives for terms of one part.
#[derive(Default)]
struct Known {
    /// The place of each term's number.
    places: FxHashMap<u64, u32>,
    numbers: Vec<Kept>,
}

/// The numbers of rows of one part.
struct Found {
    numbers: Vec<Kept>,
    /// Number of terms that had not come before, and how many of them have texts.
    new: usize,
    texts: usize,
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
            parts: Vec::new(),
            ranges: None,
            are_new: false,
            groups: Vec::new(),
            ids: Vec::new(),
            held: Held::new(context.governor()),
        })
    }

    /// Lets rows wait. Returns false if there is no memory for them.
    pub(super) fn wait(&mut self, groups: &[u32], columns: &[&[u64]]) -> bool {
        let rows = self.ids.len() + groups.len();
        let bytes = self.known() * VALUE_BYTES + rows * ROW_BYTES;
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

    /// Returns the number of terms that are known.
    fn known(&mut self) -> usize {
        let parts = self.parts.iter_mut();
        parts.map(|part| part.get_mut().numbers.len()).sum()
    }

    /// Evaluates the expression for the terms of the rows that wait, and returns the rows.
    pub(super) fn take(
        &mut self,
        expression: &CompiledExpression,
        context: &EvaluationContext,
    ) -> Result<KnownRows, QueryError> {
        self.make_room();
        let (ids, cores) = (&self.ids, context.governor().cores());
        let expression = (expression, self.width);
        let (divided, found) = match &self.ranges {
            None => {
                let known = self.parts[0].get_mut();
                let found = known.find(ids.iter().copied(), expression, context)?;
                (None, vec![found])
            }
            Some(ranges) => {
                let divided = Divided::new(cores, ids.len(), |rows| {
                    let ids = &ids[rows];
                    Parted::into_parts(ids.len(), |row| ranges.part(ids[row]))
                })?;
                let find = |part: usize| {
                    let ids = divided.rows(part).map(|row| ids[row]);
                    self.parts[part].lock().find(ids, expression, context)
                };
                let found = match fork(cores, PARTS, find) {
                    // There may be memory for one part at a time.
                    Err(QueryError::Memory(_)) => (0..PARTS).map(find).collect(),
                    found => found,
                }?;
                (Some(divided), found)
            }
        };
        let new: usize = found.iter().map(|found| found.new).sum();
        let texts: usize = found.iter().map(|found| found.texts).sum();
        self.are_new = new * 2 > ids.len();
        self.ids.clear();
        Ok(KnownRows {
            groups: std::mem::take(&mut self.groups),
            divided,
            numbers: found.into_iter().map(|found| found.numbers).collect(),
            pays: !self.are_new || texts * 2 > new,
        })
    }

    /// Forgets the known terms if they are too many, and makes the parts before the first rows.
    fn make_room(&mut self) {
        if self.parts.is_empty() {
            let are_many = self.ids.len() >= ROWS_MIN;
            self.ranges = are_many.then(|| Ranges::of(self.ids.iter().copied()));
            let parts = if are_many { PARTS } else { 1 };
            self.parts.resize_with(parts, Mutex::default);
        }
        // Reusing memory is faster than taking more, unless the terms come again.
        let kept_max = if self.are_new {
            VALUES_MAX / 2
        } else {
            VALUES_MAX
        };
        if self.known() > kept_max {
            self.parts
                .iter_mut()
                .for_each(|part| part.get_mut().forget());
        }
    }
}

impl Known {
    fn forget(&mut self) {
        self.places.clear();
        self.numbers.clear();
    }

    /// Returns the numbers that an expression, of rows of a width, gives for terms.
    fn find(
        &mut self,
        ids: impl Iterator<Item = u64>,
        expression: (&CompiledExpression, usize),
        context: &EvaluationContext,
    ) -> Result<Found, QueryError> {
        let known = self.numbers.len();
        let mut new: Vec<(u64, u32)> = Vec::new();
        let place = |id: u64| {
            let next = (known + new.len()) as u32;
            *self.places.entry(id).or_insert_with(|| {
                new.push((id, next));
                next
            })
        };
        let places: Vec<u32> = ids.map(place).collect();
        new.sort_unstable();
        self.numbers.resize(known + new.len(), Kept::Error);
        if let Err(error) = self.evaluate(&new, expression, context) {
            self.forget();
            return Err(error);
        }
        let numbers = places
            .iter()
            .map(|&place| self.numbers[place as usize].clone());
        let has_text = |(id, _): &&(u64, u32)| !TermId(*id).kind().is_inline();
        Ok(Found {
            numbers: numbers.collect(),
            new: new.len(),
            texts: new.iter().filter(has_text).count(),
        })
    }

    /// Evaluates the expression for new terms, and puts the numbers in their places.
    fn evaluate(
        &mut self,
        new: &[(u64, u32)],
        (expression, width): (&CompiledExpression, usize),
        context: &EvaluationContext,
    ) -> Result<(), QueryError> {
        for new in new.chunks(PART_ROWS) {
            context.check()?;
            let ids: Vec<u64> = new.iter().map(|(id, _)| *id).collect();
            let kept = Kept::all(expression, &vec![&ids[..]; width], context)?;
            for ((_, place), kept) in new.iter().zip(kept) {
                self.numbers[*place as usize] = kept;
            }
        }
        Ok(())
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
