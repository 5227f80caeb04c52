//! Set functions over groups of rows: `COUNT`, `SUM`, `AVG`, `MIN`, `MAX`, `SAMPLE` and
//! `GROUP_CONCAT` (SPARQL 1.1 §18.5.1).
//!
//! Rows arrive in batches with the number of their group. `COUNT` leaves out rows whose argument
//! is an error and `SAMPLE` takes the first that is none; the others give an error, that is
//! unbound, for a group with one. `MIN`, `MAX` and `SAMPLE` give back the very term they chose.

use oxrdf::Variable;
use pythia_rdf::{TermId, TermKind};
use rustc_hash::FxHashSet;
use spargebra::algebra::{AggregateExpression, AggregateFunction};

use super::CompiledExpression;
use super::column::{Column, Decoded};
use super::context::EvaluationContext;
use super::evaluate::{Evaluator, Rows};
use super::exists::ExistsCompiler;
use super::number::{Arithmetic, Number};
use super::order::{compare_ids, compare_values};
use super::text::Text;
use super::value::Value;
use crate::error::QueryError;

/// An aggregate ready to run.
pub struct CompiledAggregate {
    function: Function,
    distinct: bool,
    /// `None` for `COUNT(*)`.
    argument: Option<CompiledExpression>,
}

#[derive(Clone, Debug)]
enum Function {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    Sample,
    GroupConcat { separator: String },
}

impl CompiledAggregate {
    /// Compiles an aggregate over rows with these columns.
    pub fn compile(
        aggregate: &AggregateExpression,
        columns: &[Variable],
        context: &EvaluationContext,
        exists: ExistsCompiler<'_>,
    ) -> Result<Self, QueryError> {
        let (name, expression, distinct) = match aggregate {
            AggregateExpression::CountSolutions { distinct } => {
                return Ok(Self {
                    function: Function::Count,
                    distinct: *distinct,
                    argument: None,
                });
            }
            AggregateExpression::FunctionCall {
                name,
                expr,
                distinct,
            } => (name, expr, *distinct),
        };
        let function = match name {
            AggregateFunction::Count => Function::Count,
            AggregateFunction::Sum => Function::Sum,
            AggregateFunction::Avg => Function::Avg,
            AggregateFunction::Min => Function::Min,
            AggregateFunction::Max => Function::Max,
            AggregateFunction::Sample => Function::Sample,
            AggregateFunction::GroupConcat { separator } => Function::GroupConcat {
                separator: separator.clone().unwrap_or_else(|| " ".to_owned()),
            },
            AggregateFunction::Custom(name) => {
                return Err(QueryError::unsupported(format!("the aggregate {name}")));
            }
        };
        // Smallest, largest and any do not change when rows are repeated.
        let distinct =
            distinct && !matches!(function, Function::Min | Function::Max | Function::Sample);
        let argument = CompiledExpression::compile_with(expression, columns, context, exists)?;
        Ok(Self {
            function,
            distinct,
            argument: Some(argument),
        })
    }

    /// Whether this is `COUNT(*)` without `DISTINCT`, for which groups' sizes are enough.
    pub fn is_plain_count(&self) -> bool {
        matches!(self.function, Function::Count) && self.argument.is_none() && !self.distinct
    }

    /// An accumulator without rows.
    pub fn accumulator(&self) -> Accumulator<'_> {
        let state = match &self.function {
            Function::Count => State::Count(Vec::new()),
            Function::Sum | Function::Avg => State::Sum(Vec::new()),
            Function::Min | Function::Max => State::Extreme(Vec::new()),
            Function::Sample => State::Sample(Vec::new()),
            Function::GroupConcat { .. } => State::Concat(Vec::new()),
        };
        Accumulator {
            aggregate: self,
            state,
            seen_terms: FxHashSet::default(),
            seen_rows: FxHashSet::default(),
        }
    }
}

/// One aggregate's values so far, for all groups.
pub struct Accumulator<'a> {
    aggregate: &'a CompiledAggregate,
    state: State,
    /// With `DISTINCT`: the terms of each group.
    seen_terms: FxHashSet<(u32, u64)>,
    /// With `COUNT(DISTINCT *)`: the rows, each with its group in front.
    seen_rows: FxHashSet<Box<[u64]>>,
}

enum State {
    Count(Vec<u64>),
    Sum(Vec<Sum>),
    Extreme(Vec<Extreme>),
    Sample(Vec<u64>),
    Concat(Vec<Concat>),
}

#[derive(Clone)]
struct Sum {
    /// `None` after an error.
    total: Option<Number>,
    count: i64,
}

#[derive(Clone, Copy)]
enum Extreme {
    Empty,
    Term(TermId),
    Error,
}

#[derive(Clone, Default)]
struct Concat {
    text: String,
    count: u64,
    error: bool,
}

impl Accumulator<'_> {
    /// Adds rows: `groups[i]` is the group of row `i` and less than `group_count`, which never
    /// falls from call to call; `columns` are those the aggregate was compiled for.
    pub fn update(
        &mut self,
        groups: &[u32],
        group_count: usize,
        columns: &[&[u64]],
        context: &EvaluationContext,
    ) -> Result<(), QueryError> {
        self.state.resize(group_count);
        let Some(argument) = &self.aggregate.argument else {
            self.count_rows(groups, columns);
            return Ok(());
        };
        let rows = groups.len();
        let mut evaluator = Evaluator::new(columns, context);
        let column = evaluator.evaluate(&argument.node, Rows::All(rows))?;
        let mut decoded = evaluator.decoded;
        if self.aggregate.distinct {
            let ids = column.into_ids(rows, context)?;
            let mut new_groups = Vec::new();
            let mut new_ids = Vec::new();
            for (&group, id) in groups.iter().zip(ids) {
                // An error is not a term, and has its effect however often it comes.
                if id == 0 || self.seen_terms.insert((group, id)) {
                    new_groups.push(group);
                    new_ids.push(id);
                }
            }
            let column = Column::Ids(new_ids.into());
            return self
                .state
                .add(self.aggregate, &new_groups, column, &mut decoded, context);
        }
        self.state
            .add(self.aggregate, groups, column, &mut decoded, context)
    }

    fn count_rows(&mut self, groups: &[u32], columns: &[&[u64]]) {
        let State::Count(counts) = &mut self.state else {
            unreachable!("only COUNT has no argument");
        };
        for (row, &group) in groups.iter().enumerate() {
            let is_new = !self.aggregate.distinct || {
                let terms = columns.iter().map(|column| column[row]);
                let key = std::iter::once(u64::from(group)).chain(terms);
                self.seen_rows.insert(key.collect())
            };
            counts[group as usize] += u64::from(is_new);
        }
    }

    /// The outcome of each group, as raw ids: 0 is an error or no value.
    pub fn finish(
        mut self,
        group_count: usize,
        context: &EvaluationContext,
    ) -> Result<Vec<u64>, QueryError> {
        self.state.resize(group_count);
        let is_average = matches!(self.aggregate.function, Function::Avg);
        let intern = |value: Option<Value<'_>>| match value {
            Some(value) => context.intern_value(value).map(|id| id.0),
            None => Ok(0),
        };
        match self.state {
            State::Count(counts) => counts
                .into_iter()
                .map(|count| intern(i64::try_from(count).ok().map(Value::integer)))
                .collect(),
            State::Sum(sums) => sums
                .into_iter()
                .map(|sum| intern(sum.finish(is_average).map(Value::from)))
                .collect(),
            State::Extreme(extremes) => Ok(extremes
                .into_iter()
                .map(|extreme| match extreme {
                    Extreme::Term(id) => id.0,
                    Extreme::Empty | Extreme::Error => 0,
                })
                .collect()),
            State::Sample(ids) => Ok(ids),
            State::Concat(texts) => texts
                .into_iter()
                .map(|text| intern(text.finish()))
                .collect(),
        }
    }

    /// About how many bytes the groups take.
    pub fn memory_bytes(&self) -> usize {
        let state = match &self.state {
            State::Count(counts) => counts.capacity() * size_of::<u64>(),
            State::Sum(sums) => sums.capacity() * size_of::<Sum>(),
            State::Extreme(extremes) => extremes.capacity() * size_of::<Extreme>(),
            State::Sample(ids) => ids.capacity() * size_of::<u64>(),
            State::Concat(texts) => {
                let text = texts.iter().map(|text| text.text.capacity()).sum::<usize>();
                text + texts.capacity() * size_of::<Concat>()
            }
        };
        let row = self
            .seen_rows
            .iter()
            .next()
            .map_or(0, |row| row.len() * size_of::<u64>());
        state
            + self.seen_terms.capacity() * size_of::<(u32, u64)>()
            + self.seen_rows.capacity() * (size_of::<Box<[u64]>>() + row)
    }
}

impl State {
    fn resize(&mut self, group_count: usize) {
        match self {
            Self::Count(counts) => counts.resize(group_count, 0),
            Self::Sum(sums) => sums.resize(group_count, Sum::new()),
            Self::Extreme(extremes) => extremes.resize(group_count, Extreme::Empty),
            Self::Sample(ids) => ids.resize(group_count, 0),
            Self::Concat(texts) => texts.resize(group_count, Concat::default()),
        }
    }

    fn add(
        &mut self,
        aggregate: &CompiledAggregate,
        groups: &[u32],
        column: Column<'_>,
        decoded: &mut Decoded,
        context: &EvaluationContext,
    ) -> Result<(), QueryError> {
        match self {
            Self::Count(counts) => {
                for (row, &group) in groups.iter().enumerate() {
                    let bound = column.is_bound(row);
                    counts[group as usize] += u64::from(bound);
                }
                Ok(())
            }
            Self::Sum(sums) => add_to_sums(sums, groups, &column, decoded, context),
            Self::Extreme(extremes) => {
                let ids = column.into_ids(groups.len(), context)?;
                let largest = matches!(aggregate.function, Function::Max);
                add_to_extremes(extremes, groups, &ids, largest, decoded, context)
            }
            Self::Sample(samples) => {
                let ids = column.into_ids(groups.len(), context)?;
                for (&group, id) in groups.iter().zip(ids) {
                    let sample = &mut samples[group as usize];
                    if *sample == 0 {
                        *sample = id;
                    }
                }
                Ok(())
            }
            Self::Concat(texts) => {
                let Function::GroupConcat { separator } = &aggregate.function else {
                    unreachable!("only GROUP_CONCAT concatenates");
                };
                decoded.require(context, &[&column], |_, id| {
                    matches!(
                        id.kind(),
                        TermKind::String | TermKind::LangString | TermKind::Computed
                    )
                })?;
                for (row, &group) in groups.iter().enumerate() {
                    let refused = column.id(row).is_some_and(|id| {
                        matches!(
                            id.kind(),
                            TermKind::Iri
                                | TermKind::BlankNode
                                | TermKind::TypedLiteral
                                | TermKind::Triple
                        )
                    });
                    let value = if refused {
                        None
                    } else {
                        column.value(row, decoded)
                    };
                    texts[group as usize].add(value.as_ref().and_then(Text::of), separator);
                }
                Ok(())
            }
        }
    }
}

fn add_to_sums(
    sums: &mut [Sum],
    groups: &[u32],
    column: &Column<'_>,
    decoded: &mut Decoded,
    context: &EvaluationContext,
) -> Result<(), QueryError> {
    let may_be_number =
        |id: TermId| matches!(id.kind(), TermKind::TypedLiteral | TermKind::Computed);
    decoded.require(context, &[column], |_, id| may_be_number(id))?;
    for (row, &group) in groups.iter().enumerate() {
        let number = match column.id(row) {
            Some(id) if id.kind().is_inline() => Number::from_inline(id),
            Some(id) if !may_be_number(id) => None,
            _ => column
                .value(row, decoded)
                .and_then(|value| value.as_number()),
        };
        sums[group as usize].add(number);
    }
    Ok(())
}

fn add_to_extremes(
    extremes: &mut [Extreme],
    groups: &[u32],
    ids: &[u64],
    largest: bool,
    decoded: &mut Decoded,
    context: &EvaluationContext,
) -> Result<(), QueryError> {
    // Text is read only if some comparison needs it, and then for the whole batch at once.
    let mut has_text = false;
    for (row, (&group, &id)) in groups.iter().zip(ids).enumerate() {
        let id = TermId(id);
        let extreme = &mut extremes[group as usize];
        let best = match *extreme {
            Extreme::Error => continue,
            _ if !id.is_bound() => {
                *extreme = Extreme::Error;
                continue;
            }
            Extreme::Empty => {
                *extreme = Extreme::Term(id);
                continue;
            }
            Extreme::Term(best) => best,
        };
        let ordering = match compare_ids(id, best, context) {
            Some(ordering) => ordering,
            None => {
                if !has_text {
                    let rest = ids[row..].iter().map(|&id| TermId(id));
                    let bests =
                        groups[row..]
                            .iter()
                            .filter_map(|&group| match extremes[group as usize] {
                                Extreme::Term(id) => Some(id),
                                Extreme::Empty | Extreme::Error => None,
                            });
                    let wanted = rest.chain(bests);
                    let wanted = wanted.filter(|id| id.is_bound() && !id.kind().is_inline());
                    decoded.add(context, wanted.collect())?;
                    has_text = true;
                }
                let (a, b) = (decoded.value(id), decoded.value(best));
                let (a, b) = a.zip(b).expect("bound ids have values");
                compare_values(&a, &b)
            }
        };
        if ordering
            == if largest {
                std::cmp::Ordering::Greater
            } else {
                std::cmp::Ordering::Less
            }
        {
            extremes[group as usize] = Extreme::Term(id);
        }
    }
    Ok(())
}

impl Sum {
    fn new() -> Self {
        Self {
            total: Some(Number::from_i64(0)),
            count: 0,
        }
    }

    fn add(&mut self, number: Option<Number>) {
        self.count += 1;
        self.total = match (self.total, number) {
            (Some(total), Some(number)) => total.apply(Arithmetic::Add, number),
            _ => None,
        };
    }

    fn finish(self, is_average: bool) -> Option<Number> {
        let total = self.total?;
        if !is_average || self.count == 0 {
            return Some(total);
        }
        total.apply(Arithmetic::Divide, Number::from_i64(self.count))
    }
}

impl Concat {
    /// As `CONCAT` does, but the result has no language.
    fn add(&mut self, text: Option<Text<'_>>, separator: &str) {
        let Some(text) = text else {
            self.error = true;
            return;
        };
        if self.count > 0 {
            self.text.push_str(separator);
        }
        self.text.push_str(text.text);
        self.count += 1;
    }

    fn finish(self) -> Option<Value<'static>> {
        (!self.error).then(|| self.text.into())
    }
}

#[cfg(test)]
mod tests;
