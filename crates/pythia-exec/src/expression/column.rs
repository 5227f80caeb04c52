//! The result of evaluating an expression over a batch: one cell per row, in the form in which it was
//! computed.
//!
//! Ids stay ids until their value is needed, so a variable, or a branch of `IF` or `COALESCE` that is one,
//! returns exactly its term.

use std::borrow::Cow;

use oxrdf::Term;
use pythia_rdf::{TermId, TermKind, term_text_bytes};

use super::compare::{ERROR, FALSE, TRUE, Truth, truth};
use super::context::EvaluationContext;
use super::decoded::{AnyTerm, Decoded};
use super::number::Number;
use super::value::Value;
use crate::error::QueryError;

/// The result of an expression for one row.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    /// An error, or an unbound variable.
    Error,
    /// A term that has an id.
    Id(TermId),
    /// A computed value, which stands for its canonical term.
    Value(Value<'static>),
    /// A term whose lexical form matters.
    Term(Box<Term>),
}

/// A term in a query's text.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) id: TermId,
    pub(crate) term: Term,
    pub(crate) value: Value<'static>,
}

impl Constant {
    /// Returns the kind of the term, even if the store does not contain it.
    pub(crate) fn kind(&self) -> TermKind {
        match (self.id.kind(), &self.value) {
            (TermKind::Computed, Value::NamedNode(_)) => TermKind::Iri,
            (TermKind::Computed, Value::BlankNode(_)) => TermKind::BlankNode,
            (TermKind::Computed, Value::String(_)) => TermKind::String,
            (TermKind::Computed, Value::LangString { .. }) => TermKind::LangString,
            (TermKind::Computed, Value::Triple(_)) => TermKind::Triple,
            (TermKind::Computed, _) => TermKind::TypedLiteral,
            (kind, _) => kind,
        }
    }
}

/// The result of an expression for the rows of a batch.
pub(crate) enum Column<'a> {
    /// Raw ids; 0 is an error or unbound.
    Ids(Cow<'a, [u64]>),
    Cells(Vec<Cell>),
    Truths(Vec<Truth>),
    /// Computed numbers; `None` is an error.
    Numbers(Vec<Option<Number>>),
    /// The same term for every row.
    Constant(&'a Constant),
    /// An error in every row.
    Error,
}

impl<'a> Column<'a> {
    /// Returns the id of the row's term if it has one without interning: `None` for a computed value,
    /// [`TermId::UNBOUND`] for an error.
    pub(crate) fn id(&self, row: usize) -> Option<TermId> {
        match self {
            Self::Ids(ids) => Some(TermId(ids[row])),
            Self::Constant(constant) => Some(constant.id),
            Self::Error => Some(TermId::UNBOUND),
            Self::Truths(_) => None,
            Self::Numbers(numbers) => numbers[row].is_none().then_some(TermId::UNBOUND),
            Self::Cells(cells) => match &cells[row] {
                Cell::Error => Some(TermId::UNBOUND),
                Cell::Id(id) => Some(*id),
                Cell::Value(_) | Cell::Term(_) => None,
            },
        }
    }

    /// Returns the id that must be decoded before the row's value can be read, if any.
    pub(crate) fn text_id(&self, row: usize) -> Option<TermId> {
        match self {
            Self::Constant(_) => None,
            _ => self
                .id(row)
                .filter(|id| id.is_bound() && !id.kind().is_inline()),
        }
    }

    /// Returns whether the row has a term.
    pub(crate) fn is_bound(&self, row: usize) -> bool {
        match self {
            Self::Ids(ids) => ids[row] != 0,
            Self::Cells(cells) => !matches!(&cells[row], Cell::Error | Cell::Id(TermId(0))),
            Self::Truths(truths) => truths[row] != ERROR,
            Self::Numbers(numbers) => numbers[row].is_some(),
            Self::Constant(_) => true,
            Self::Error => false,
        }
    }

    /// Returns the row's value. Its id must be inline or decoded.
    pub(crate) fn value<'v>(&'v self, row: usize, decoded: &'v Decoded) -> Option<Value<'v>> {
        match self {
            Self::Ids(ids) => decoded.value(TermId(ids[row])),
            Self::Constant(constant) => Some(constant.value.borrow()),
            Self::Error => None,
            Self::Truths(truths) => match truths[row] {
                ERROR => None,
                outcome => Some(Value::Boolean(outcome == TRUE)),
            },
            Self::Numbers(numbers) => numbers[row].map(Value::Number),
            Self::Cells(cells) => match &cells[row] {
                Cell::Error => None,
                Cell::Id(id) => decoded.value(*id),
                Cell::Value(value) => Some(value.borrow()),
                Cell::Term(term) => Some(Value::from_term(term)),
            },
        }
    }

    /// Returns the row's value if it is a number. Its id must be inline or decoded.
    #[inline]
    pub(crate) fn number(&self, row: usize, decoded: &Decoded) -> Option<Number> {
        match self {
            Self::Ids(ids) if TermId(ids[row]).kind().is_inline() => {
                Number::from_inline(TermId(ids[row]))
            }
            Self::Numbers(numbers) => numbers[row],
            Self::Constant(constant) => constant.value.as_number(),
            _ => self.value(row, decoded)?.as_number(),
        }
    }

    /// Returns the row's term with its own lexical form. Its id must be inline or decoded.
    pub(crate) fn term<'v>(&'v self, row: usize, decoded: &'v Decoded) -> Option<AnyTerm<'v>> {
        match self {
            Self::Ids(ids) => decoded.term(TermId(ids[row])),
            Self::Constant(constant) => Some(AnyTerm::Borrowed(constant.term.as_ref())),
            Self::Error => None,
            Self::Truths(_) | Self::Numbers(_) => {
                Some(AnyTerm::Owned(self.value(row, decoded)?.into_term()))
            }
            Self::Cells(cells) => match &cells[row] {
                Cell::Error => None,
                Cell::Id(id) => decoded.term(*id),
                Cell::Value(value) => Some(AnyTerm::Owned(value.borrow().into_term())),
                Cell::Term(term) => Some(AnyTerm::Borrowed((**term).as_ref())),
            },
        }
    }

    /// Takes a row's cell out of the column.
    pub(crate) fn take(&mut self, row: usize) -> Cell {
        match self {
            Self::Ids(ids) if ids[row] != 0 => Cell::Id(TermId(ids[row])),
            Self::Constant(constant) => Cell::Id(constant.id),
            Self::Ids(_) | Self::Error => Cell::Error,
            Self::Truths(truths) => match truths[row] {
                ERROR => Cell::Error,
                outcome => Cell::Value(Value::Boolean(outcome == TRUE)),
            },
            Self::Numbers(numbers) => numbers[row].map(Value::Number).into(),
            Self::Cells(cells) => std::mem::replace(&mut cells[row], Cell::Error),
        }
    }

    /// Returns the effective boolean values of all rows.
    pub(crate) fn into_truths(
        self,
        rows: usize,
        context: &EvaluationContext,
        decoded: &mut Decoded,
    ) -> Result<Vec<Truth>, QueryError> {
        match self {
            Self::Truths(truths) => Ok(truths),
            Self::Error => Ok(vec![ERROR; rows]),
            Self::Constant(constant) => Ok(vec![truth(constant.value.effective_boolean()); rows]),
            column => {
                // Resources and language-tagged strings have no effective boolean value.
                decoded.require(context, &[&column], |_, id| {
                    matches!(
                        id.kind(),
                        TermKind::String | TermKind::TypedLiteral | TermKind::Computed
                    )
                })?;
                let value_less = |row| {
                    let kind = column.id(row).map(TermId::kind);
                    matches!(
                        kind,
                        Some(
                            TermKind::Nothing
                                | TermKind::Iri
                                | TermKind::BlankNode
                                | TermKind::LangString
                                | TermKind::Triple
                        )
                    )
                };
                let truths = (0..rows).map(|row| {
                    if value_less(row) {
                        return ERROR;
                    }
                    let value = column.value(row, decoded);
                    truth(value.and_then(|value| value.effective_boolean()))
                });
                Ok(truths.collect())
            }
        }
    }

    /// Returns the ids of all rows, 0 for errors. Computed terms are added to the query's table.
    pub(crate) fn into_ids(
        self,
        rows: usize,
        context: &EvaluationContext,
    ) -> Result<Vec<u64>, QueryError> {
        match self {
            Self::Ids(ids) => Ok(ids.into_owned()),
            Self::Error => Ok(vec![0; rows]),
            Self::Constant(constant) => Ok(vec![constant.id.0; rows]),
            Self::Truths(truths) => {
                let no = context.intern_value(false.into())?.0;
                let yes = context.intern_value(true.into())?.0;
                let ids = truths.into_iter().map(|truth| match truth {
                    FALSE => no,
                    TRUE => yes,
                    _ => 0,
                });
                Ok(ids.collect())
            }
            Self::Numbers(numbers) => {
                let ids = numbers.into_iter().map(|number| match number {
                    Some(number) => context.intern_value(number.into()).map(|id| id.0),
                    None => Ok(0),
                });
                ids.collect()
            }
            Self::Cells(cells) => {
                let mut ids = Vec::with_capacity(cells.len());
                let (mut terms, mut rows) = (Vec::new(), Vec::new());
                for (row, cell) in cells.into_iter().enumerate() {
                    let id = cell.into_id_or_term().unwrap_or_else(|term| {
                        terms.push(term);
                        rows.push(row);
                        0
                    });
                    ids.push(id);
                }
                for (row, id) in rows.into_iter().zip(context.intern_all(terms)?) {
                    ids[row] = id.0;
                }
                Ok(ids)
            }
        }
    }
}

impl Cell {
    /// Returns the bytes of the cell's own text or long number, if any.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Self::Value(Value::Exact(exact)) => exact.memory_bytes(),
            Self::Value(Value::Triple(triple)) => {
                64 + triple.predicate.as_str().len() + term_text_bytes(&triple.object)
            }
            Self::Value(
                Value::String(text)
                | Value::NamedNode(text)
                | Value::BlankNode(text)
                | Value::LangString { text, .. }
                | Value::Other { lexical: text, .. },
            ) => text.len(),
            Self::Term(term) => term_text_bytes(term),
            Self::Error | Self::Id(_) | Self::Value(_) => 0,
        }
    }

    /// Returns the cell's id (0 for an error), or its term if the id must be looked up.
    fn into_id_or_term(self) -> Result<u64, Term> {
        match self {
            Self::Error => Ok(0),
            Self::Id(id) => Ok(id.0),
            Self::Value(value) => match value.to_inline() {
                Some(id) => Ok(id.0),
                None => Err(value.into_term()),
            },
            Self::Term(term) => Err(*term),
        }
    }
}

impl From<Option<Value<'_>>> for Cell {
    fn from(value: Option<Value<'_>>) -> Self {
        value.map_or(Self::Error, |value| Self::Value(value.into_owned()))
    }
}

impl From<Option<Term>> for Cell {
    fn from(term: Option<Term>) -> Self {
        term.map_or(Self::Error, |term| Self::Term(Box::new(term)))
    }
}
