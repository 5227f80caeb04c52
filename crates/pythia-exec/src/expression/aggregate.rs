//! Set functions over groups of rows: `COUNT`, `SUM`, `AVG`, `MIN`, `MAX`, `SAMPLE` and `GROUP_CONCAT`
//! (SPARQL 1.1 §18.5.1), and those of [`statistics`].
//!
//! Rows arrive in batches with the number of their group. `COUNT` skips rows whose argument is an error,
//! and `SAMPLE` takes the first that is not. The others return an error, i.e. unbound, for a group that
//! contains one. `MIN`, `MAX` and `SAMPLE` return exactly the term that they chose.

pub mod solutions;

use std::ops::Range;
use std::sync::Arc;

use oxrdf::{Term, Variable};
use pythia_rdf::{TermId, TermKind};
use pythia_sparql::Statistic;
use rustc_hash::FxHashMap;
use spargebra::algebra::{AggregateExpression, AggregateFunction};

use self::solutions::{is_solutions, number};
use super::column::Column;
use super::context::EvaluationContext;
use super::decoded::Decoded;
use super::evaluate::{CHECK_ROWS, Evaluator, Rows};
use super::exact_sum::{self, ExactSum, to_double};
use super::exists::ExistsCompiler;
use super::function::{arithmetic, spelling};
use super::memo::Memo;
use super::number::{Arithmetic, Number};
use super::order::{compare_ids, compare_values};
use super::statistics::{self, Moments, Tally};
use super::text::Text;
use super::value::Value;
use super::{CompiledExpression, PART_ROWS, in_ranges, slices};
use crate::error::QueryError;
use crate::limits::governor::{Held, Share};
use crate::limits::spill::distinct::{DistinctRows, Offered};

/// Number of rows deferred by `DISTINCT` that are added at a time.
const PUT_OFF_ROWS: usize = 4096;

/// A compiled aggregate.
pub struct CompiledAggregate {
    function: Function,
    distinct: bool,
    /// `None` for `COUNT(*)`.
    argument: Option<CompiledExpression>,
}

#[derive(Clone, Debug)]
enum Function {
    Count,
    /// The sum of numbers of solutions.
    Solutions,
    Sum,
    Avg,
    Min,
    Max,
    Sample,
    GroupConcat {
        separator: String,
    },
    /// The text of a sum from which another can be taken away.
    SumState,
    /// The text of the sum of such texts.
    MergedSums,
    Statistic(Statistic),
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
            AggregateFunction::Custom(name) if exact_sum::is_state(name) => Function::SumState,
            AggregateFunction::Custom(name) if exact_sum::is_merged(name) => Function::MergedSums,
            AggregateFunction::Custom(name) if is_solutions(name) => Function::Solutions,
            AggregateFunction::Custom(name) => match Statistic::named(name.as_str()) {
                Some(statistic) => Function::Statistic(statistic),
                None => return Err(QueryError::unsupported(format!("the aggregate {name}"))),
            },
        };
        // MIN, MAX and SAMPLE do not change when rows are repeated.
        let distinct =
            distinct && !matches!(function, Function::Min | Function::Max | Function::Sample);
        let argument = CompiledExpression::compile_with(expression, columns, context, exists)?;
        Ok(Self {
            function,
            distinct,
            argument: Some(argument),
        })
    }

    /// Returns whether equal rows may add different values.
    pub fn draws(&self) -> bool {
        let argument = self.argument.as_ref();
        argument.is_some_and(CompiledExpression::draws)
    }

    /// Returns whether repeated rows of a group are left out, in a set of its own.
    pub fn is_distinct(&self) -> bool {
        self.distinct
    }

    /// Returns accumulators without rows of this many columns, one for each of the aggregates. `share` makes the memory for the
    /// set of an aggregate with DISTINCT.
    pub fn accumulators(
        aggregates: &Arc<[Self]>,
        columns: usize,
        share: impl Fn(usize) -> Share,
    ) -> Vec<Accumulator> {
        let accumulator = |(place, aggregate): (usize, &Self)| {
            let width = aggregate.argument.as_ref().map_or(columns, |_| 1) + 1;
            Accumulator {
                state: Accumulated::new(&aggregate.function),
                aggregates: Arc::clone(aggregates),
                place,
                seen: (aggregate.distinct).then(|| DistinctRows::within(share(place), width, 0)),
                memo: Memoized::Unknown,
            }
        };
        aggregates.iter().enumerate().map(accumulator).collect()
    }
}

/// One aggregate's state for all groups.
pub struct Accumulator {
    aggregates: Arc<[CompiledAggregate]>,
    /// The aggregate's index.
    place: usize,
    state: Accumulated,
    /// With `DISTINCT`, until the end: the terms or rows, each preceded by its group. If memory does not suffice, some are
    /// counted only at the end.
    seen: Option<DistinctRows>,
    memo: Memoized,
}

/// Whether values of the argument are kept for repeated terms.
enum Memoized {
    /// No row has come yet.
    Unknown,
    /// Each row's argument is evaluated.
    No,
    Yes(Box<Memo>),
}

enum Accumulated {
    Count(Vec<u64>),
    /// Sums, and the memory of long numbers.
    Sum(Vec<Sum>, Option<Held>),
    Extreme(Vec<Extreme>),
    Sample(Vec<u64>),
    /// Texts, and their memory.
    Concat(Vec<Concat>, Option<Held>),
    /// Sums as texts, and the memory of long numbers.
    States(Vec<ExactSum>, Option<Held>),
    /// Moments, and the memory of long numbers.
    Moments(Vec<Moments>, Option<Held>),
    /// Counts of terms, or of numbers, and their memory.
    Tallies(Vec<Tally>, Option<Held>),
}

#[derive(Clone)]
struct Sum {
    /// `None` after an error.
    total: Option<Value<'static>>,
    /// Whether the total is the double of a sum of floats: in single precision, each addition of many would lose digits.
    is_float: bool,
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

impl Accumulator {
    /// Adds rows. `groups[i]` is the group of row `i` and less than `group_count`, which never decreases
    /// from call to call. `columns` are those that the aggregate was compiled for.
    pub fn update(
        &mut self,
        groups: &[u32],
        group_count: usize,
        columns: &[&[u64]],
        context: &EvaluationContext,
    ) -> Result<(), QueryError> {
        self.state.resize(group_count);
        let aggregates = Arc::clone(&self.aggregates);
        let aggregate = &aggregates[self.place];
        let Some(argument) = &aggregate.argument else {
            return self.count_rows(groups, columns);
        };
        // In parts, like other expressions, to bound the texts held at once.
        for start in (0..groups.len()).step_by(PART_ROWS) {
            context.check()?;
            let rows = start..(start + PART_ROWS).min(groups.len());
            let columns = slices(columns, rows.clone());
            self.add_part(aggregate, argument, &groups[rows], &columns, context)?;
        }
        Ok(())
    }

    /// Adds rows of existing groups.
    fn add_part(
        &mut self,
        aggregate: &CompiledAggregate,
        argument: &CompiledExpression,
        groups: &[u32],
        columns: &[&[u64]],
        context: &EvaluationContext,
    ) -> Result<(), QueryError> {
        if let Some(memo) = self.memo(aggregate, argument, columns, context) {
            let waits = memo.wait(groups, columns);
            if memo.is_full() || !waits {
                let pays = self.add_waiting(argument, context)?;
                if !pays || !waits {
                    self.memo = Memoized::No;
                }
            }
            if waits {
                return Ok(());
            }
        }
        let rows = groups.len();
        let mut evaluator = Evaluator::new(columns, context);
        let column = evaluator.evaluate(&argument.node, Rows::All(rows))?;
        let mut decoded = evaluator.decoded;
        if let Some(seen) = &mut self.seen {
            let ids = column.into_ids(rows, context)?;
            let mut new_groups = Vec::new();
            let mut new_ids = Vec::new();
            for (&group, id) in groups.iter().zip(ids) {
                // An error is not a term, and counts each time it occurs.
                if id == 0 || seen.offer(&[group.into(), id])? == Offered::New {
                    new_groups.push(group);
                    new_ids.push(id);
                }
            }
            let column = Column::Ids(new_ids.into());
            return self
                .state
                .add(aggregate, &new_groups, column, &mut decoded, context);
        }
        self.state
            .add(aggregate, groups, column, &mut decoded, context)
    }

    /// Adds the rows that wait for the values of their terms. Returns whether waiting pays.
    fn add_waiting(
        &mut self,
        argument: &CompiledExpression,
        context: &EvaluationContext,
    ) -> Result<bool, QueryError> {
        let Memoized::Yes(memo) = &mut self.memo else {
            return Ok(false);
        };
        let rows = memo.take(argument, context)?;
        let mut numbers = rows.numbers();
        let number = |_| numbers.next().flatten();
        self.state.add_numbers(&rows.groups, context, number)?;
        Ok(rows.pays)
    }

    /// Returns the memo of the argument, if it is summed and may be expensive.
    fn memo(
        &mut self,
        aggregate: &CompiledAggregate,
        argument: &CompiledExpression,
        columns: &[&[u64]],
        context: &EvaluationContext,
    ) -> Option<&mut Memo> {
        if matches!(self.memo, Memoized::Unknown) {
            let sums = matches!(
                self.state,
                Accumulated::Sum(..) | Accumulated::States(..) | Accumulated::Moments(..)
            );
            let sums = sums && !matches!(aggregate.function, Function::MergedSums);
            let memo = (sums && !aggregate.distinct).then(|| Memo::new(argument, columns, context));
            self.memo = memo
                .flatten()
                .map_or(Memoized::No, |memo| Memoized::Yes(Box::new(memo)));
        }
        match &mut self.memo {
            Memoized::Yes(memo) => Some(memo),
            _ => None,
        }
    }

    fn count_rows(&mut self, groups: &[u32], columns: &[&[u64]]) -> Result<(), QueryError> {
        let Accumulated::Count(counts) = &mut self.state else {
            unreachable!("only COUNT has no argument");
        };
        let Some(seen) = &mut self.seen else {
            for &group in groups {
                counts[group as usize] += 1;
            }
            return Ok(());
        };
        let mut key = vec![0; columns.len() + 1];
        for (row, &group) in groups.iter().enumerate() {
            key[0] = group.into();
            for (value, column) in key[1..].iter_mut().zip(columns) {
                *value = column[row];
            }
            if seen.offer(&key)? == Offered::New {
                counts[group as usize] += 1;
            }
        }
        Ok(())
    }

    /// Adds the rows that `DISTINCT` deferred.
    fn add_put_off(&mut self, context: &EvaluationContext) -> Result<(), QueryError> {
        let Some(seen) = self.seen.take() else {
            return Ok(());
        };
        let (mut groups, mut ids) = (Vec::new(), Vec::new());
        let (state, aggregate) = (&mut self.state, &self.aggregates[self.place]);
        let mut add = |groups: &mut Vec<u32>, ids: &mut Vec<u64>| {
            let column = Column::Ids(std::mem::take(ids).into());
            let groups = std::mem::take(groups);
            state.add(aggregate, &groups, column, &mut Decoded::default(), context)
        };
        seen.drain(|_, row| {
            groups.push(u32::try_from(row[0]).expect("a group's number"));
            // A row of COUNT(DISTINCT *) only has to be bound.
            ids.push(if aggregate.argument.is_some() {
                row[1]
            } else {
                1
            });
            if groups.len() < PUT_OFF_ROWS {
                return Ok(());
            }
            add(&mut groups, &mut ids)
        })?;
        add(&mut groups, &mut ids)
    }

    /// Ends the input. Must be called before [`Self::outcomes`].
    pub fn finish(
        &mut self,
        group_count: usize,
        context: &EvaluationContext,
    ) -> Result<(), QueryError> {
        self.state.resize(group_count);
        let aggregates = Arc::clone(&self.aggregates);
        if let Some(argument) = &aggregates[self.place].argument {
            self.add_waiting(argument, context)?;
        }
        self.add_put_off(context)
    }

    /// Returns the results of some groups as raw ids; 0 is an error or no value. Each group may be
    /// requested only once.
    pub fn outcomes(
        &mut self,
        groups: Range<usize>,
        context: &EvaluationContext,
    ) -> Result<Vec<u64>, QueryError> {
        let function = &self.aggregates[self.place].function;
        let is_average = matches!(function, Function::Avg);
        match &mut self.state {
            Accumulated::Count(counts) => {
                let count = |&count: &u64| i64::try_from(count).ok().map(Value::integer);
                ids_of(counts[groups].iter().map(count), context)
            }
            Accumulated::Sum(sums, _) => {
                let sums = &sums[groups];
                let made = in_ranges(sums.len(), PART_ROWS, context, |groups| {
                    let outcomes = sums[groups].iter().map(|sum| sum.outcome(is_average));
                    Ok(outcomes.map(Made::of).collect::<Vec<_>>())
                })?;
                ids_of_made(made.into_iter().flatten(), context)
            }
            Accumulated::Extreme(extremes) => {
                let id = |extreme: &Extreme| match extreme {
                    Extreme::Term(id) => id.0,
                    Extreme::Empty | Extreme::Error => 0,
                };
                Ok(extremes[groups].iter().map(id).collect())
            }
            Accumulated::Sample(ids) => Ok(ids[groups].to_vec()),
            Accumulated::States(sums, _) => {
                let texts = sums[groups].iter().map(|sum| Some(sum.to_string().into()));
                ids_of(texts, context)
            }
            Accumulated::Concat(texts, _) => {
                let texts = texts[groups].iter_mut();
                ids_of(texts.map(|text| std::mem::take(text).finish()), context)
            }
            Accumulated::Moments(moments, _) => {
                let outcomes = moments[groups].iter();
                ids_of(outcomes.map(|moments| moments.outcome(function)), context)
            }
            Accumulated::Tallies(tallies, _) => match function {
                Function::Statistic(Statistic::Percentile(percent)) => {
                    let mut outcomes = Vec::with_capacity(groups.len());
                    for tally in &mut tallies[groups] {
                        context.check()?;
                        outcomes.push(tally.percentile(*percent).map(double));
                    }
                    ids_of(outcomes, context)
                }
                _ => (tallies[groups].iter_mut())
                    .map(|tally| statistics::mode(tally, context))
                    .collect(),
            },
        }
    }

    /// Returns the most bytes that this many groups take while they are added. Sets of `DISTINCT`, texts of
    /// `GROUP_CONCAT` and long numbers are not included; they are charged as they grow.
    pub fn memory_bytes(&self, group_count: usize) -> usize {
        fn of<T>(groups: &Vec<T>, count: usize) -> usize {
            let capacity = groups.capacity();
            let slots = if count <= capacity {
                capacity
            } else {
                capacity + count.max(2 * capacity)
            };
            slots * size_of::<T>()
        }
        match &self.state {
            Accumulated::Count(groups) | Accumulated::Sample(groups) => of(groups, group_count),
            Accumulated::Sum(groups, _) => of(groups, group_count),
            Accumulated::Extreme(groups) => of(groups, group_count),
            Accumulated::Concat(groups, _) => of(groups, group_count),
            Accumulated::States(groups, _) => of(groups, group_count),
            Accumulated::Moments(groups, _) => of(groups, group_count),
            Accumulated::Tallies(groups, _) => of(groups, group_count),
        }
    }
}

impl Accumulated {
    /// Adds the number of each row to the sum of its group; `None` is an error.
    fn add_numbers<'v>(
        &mut self,
        groups: &[u32],
        context: &EvaluationContext,
        number: impl FnMut(usize) -> Option<Value<'v>>,
    ) -> Result<(), QueryError> {
        let new = || Held::new(context.governor());
        match self {
            Self::Sum(sums, held) => add_numbers(
                (sums, held.get_or_insert_with(new)),
                groups,
                context,
                number,
            ),
            Self::States(sums, held) => add_numbers(
                (sums, held.get_or_insert_with(new)),
                groups,
                context,
                number,
            ),
            Self::Moments(moments, held) => add_numbers(
                (moments, held.get_or_insert_with(new)),
                groups,
                context,
                number,
            ),
            _ => unreachable!("only sums have memos"),
        }
    }

    fn new(function: &Function) -> Self {
        match function {
            Function::Count | Function::Solutions => Self::Count(Vec::new()),
            Function::Sum | Function::Avg => Self::Sum(Vec::new(), None),
            Function::Min | Function::Max => Self::Extreme(Vec::new()),
            Function::Sample => Self::Sample(Vec::new()),
            Function::GroupConcat { .. } => Self::Concat(Vec::new(), None),
            Function::SumState | Function::MergedSums => Self::States(Vec::new(), None),
            Function::Statistic(Statistic::Variance(_) | Statistic::Deviation(_)) => {
                Self::Moments(Vec::new(), None)
            }
            Function::Statistic(Statistic::Percentile(_) | Statistic::Mode) => {
                Self::Tallies(Vec::new(), None)
            }
        }
    }

    fn resize(&mut self, group_count: usize) {
        match self {
            Self::Count(counts) => counts.resize(group_count, 0),
            Self::Sum(sums, _) => sums.resize(group_count, Sum::new()),
            Self::Extreme(extremes) => extremes.resize(group_count, Extreme::Empty),
            Self::Sample(ids) => ids.resize(group_count, 0),
            Self::Concat(texts, _) => texts.resize(group_count, Concat::default()),
            Self::States(sums, _) => sums.resize(group_count, ExactSum::default()),
            Self::Moments(moments, _) => moments.resize(group_count, Moments::default()),
            Self::Tallies(tallies, _) => tallies.resize(group_count, Tally::default()),
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
            Self::Count(counts) => add_to_counts(counts, aggregate, groups, column, context),
            Self::Sum(sums, held) => {
                let held = held.get_or_insert_with(|| Held::new(context.governor()));
                add_to_sums((sums, held), groups, &column, decoded, context)
            }
            Self::States(sums, held) => {
                let held = held.get_or_insert_with(|| Held::new(context.governor()));
                match aggregate.function {
                    Function::MergedSums => merge_sums((sums, held), groups, column, context),
                    _ => add_to_sums((sums, held), groups, &column, decoded, context),
                }
            }
            Self::Moments(moments, held) => {
                let held = held.get_or_insert_with(|| Held::new(context.governor()));
                add_to_sums((moments, held), groups, &column, decoded, context)
            }
            Self::Tallies(tallies, held) => {
                let held = held.get_or_insert_with(|| Held::new(context.governor()));
                match aggregate.function {
                    Function::Statistic(Statistic::Mode) => {
                        add_terms((tallies, held), groups, column, context)
                    }
                    _ => add_to_numbers((tallies, held), groups, &column, decoded, context),
                }
            }
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
            Self::Concat(texts, held) => {
                let held = held.get_or_insert_with(|| Held::new(context.governor()));
                let Function::GroupConcat { separator } = &aggregate.function else {
                    unreachable!("only GROUP_CONCAT concatenates");
                };
                decoded.require(context, &[&column], |_, id| {
                    !matches!(id.kind(), TermKind::BlankNode | TermKind::Triple)
                })?;
                for (row, &group) in groups.iter().enumerate() {
                    texts[group as usize].add_text(&column, row, decoded, separator, held)?;
                }
                Ok(())
            }
        }
    }
}

/// Returns the raw ids of values; 0 for none. The dictionary is read once for all of them.
fn ids_of<'v>(
    values: impl IntoIterator<Item = Option<Value<'v>>>,
    context: &EvaluationContext,
) -> Result<Vec<u64>, QueryError> {
    ids_of_made(values.into_iter().map(Made::of), context)
}

/// The id of a value, 0 for none, or the term that needs one.
enum Made {
    Id(u64),
    Term(Term),
}

impl Made {
    fn of(value: Option<Value<'_>>) -> Self {
        let Some(value) = value else {
            return Self::Id(0);
        };
        match value.to_inline() {
            Some(id) => Self::Id(id.0),
            None => Self::Term(value.into_term()),
        }
    }
}

fn ids_of_made(
    made: impl Iterator<Item = Made>,
    context: &EvaluationContext,
) -> Result<Vec<u64>, QueryError> {
    let mut ids = Vec::new();
    let (mut terms, mut places) = (Vec::new(), Vec::new());
    for made in made {
        ids.push(match made {
            Made::Id(id) => id,
            Made::Term(term) => {
                terms.push(term);
                places.push(ids.len());
                0
            }
        });
    }
    for (place, id) in places.into_iter().zip(context.intern_all(terms)?) {
        ids[place] = id.0;
    }
    Ok(ids)
}

/// A sum of one group.
trait Total {
    /// Adds a number; `None` is an error.
    fn add(&mut self, number: Option<Value<'_>>);

    /// Returns the additional memory of long numbers in bytes.
    fn long_bytes(&self) -> usize;
}

/// Counts the rows whose value is no error, or adds up numbers of solutions.
fn add_to_counts(
    counts: &mut [u64],
    aggregate: &CompiledAggregate,
    groups: &[u32],
    column: Column<'_>,
    context: &EvaluationContext,
) -> Result<(), QueryError> {
    if matches!(aggregate.function, Function::Solutions) {
        let numbers = column.into_ids(groups.len(), context)?;
        for (&group, &id) in groups.iter().zip(numbers.iter()) {
            // A count beyond 64 bits is an error, as one beyond 63 is.
            let count = &mut counts[group as usize];
            *count = count.saturating_add(number(id));
        }
        return Ok(());
    }
    for (row, &group) in groups.iter().enumerate() {
        counts[group as usize] += u64::from(column.is_bound(row));
    }
    Ok(())
}

fn add_to_sums<T: Total>(
    sums: (&mut [T], &mut Held),
    groups: &[u32],
    column: &Column<'_>,
    decoded: &mut Decoded,
    context: &EvaluationContext,
) -> Result<(), QueryError> {
    add_numbers(sums, groups, context, numbers(column, decoded, context)?)
}

/// Adds the sum of each row to that of its group. A sum is read once for all rows of the batch that have it.
fn merge_sums(
    (sums, held): (&mut [ExactSum], &mut Held),
    groups: &[u32],
    column: Column<'_>,
    context: &EvaluationContext,
) -> Result<(), QueryError> {
    let ids = column.into_ids(groups.len(), context)?;
    let mut decoded = Decoded::default();
    decoded.add(
        context,
        ids.iter()
            .map(|&id| TermId(id))
            .filter(|id| id.is_bound())
            .collect(),
    )?;
    let mut read: FxHashMap<u64, Option<ExactSum>> = FxHashMap::default();
    for (&group, &id) in groups.iter().zip(&*ids) {
        let other = read.entry(id).or_insert_with(|| {
            let value = decoded.value(TermId(id))?;
            Text::of(&value)?.text.parse().ok()
        });
        let sum = &mut sums[group as usize];
        let before = sum.memory_bytes();
        match other {
            Some(other) => sum.merge(other),
            None => sum.fail(),
        }
        let after = sum.memory_bytes();
        if after != before {
            held.set(held.bytes() + after - before)?;
        }
    }
    context.check()
}

/// Counts the terms of each row's group.
fn add_terms(
    (tallies, held): (&mut [Tally], &mut Held),
    groups: &[u32],
    column: Column<'_>,
    context: &EvaluationContext,
) -> Result<(), QueryError> {
    let ids = column.into_ids(groups.len(), context)?;
    for (&group, id) in groups.iter().zip(ids) {
        tallies[group as usize].add((id != 0).then_some(id), held)?;
    }
    Ok(())
}

/// Counts the numbers of each row's group.
fn add_to_numbers(
    (tallies, held): (&mut [Tally], &mut Held),
    groups: &[u32],
    column: &Column<'_>,
    decoded: &mut Decoded,
    context: &EvaluationContext,
) -> Result<(), QueryError> {
    let number = numbers(column, decoded, context)?;
    for (row, &group) in groups.iter().enumerate() {
        let double = number(row).as_ref().and_then(to_double);
        tallies[group as usize].add(double.map(statistics::key_of), held)?;
    }
    Ok(())
}

/// Returns the numbers of a column by row; `None` is an error.
pub(super) fn numbers<'v>(
    column: &'v Column<'_>,
    decoded: &'v mut Decoded,
    context: &EvaluationContext,
) -> Result<impl Fn(usize) -> Option<Value<'v>>, QueryError> {
    let may_be_number =
        |id: TermId| matches!(id.kind(), TermKind::TypedLiteral | TermKind::Computed);
    decoded.require(context, &[column], |_, id| may_be_number(id))?;
    let decoded = &*decoded;
    Ok(move |row| match column.id(row) {
        Some(id) if id.kind().is_inline() => Number::from_inline(id).map(Value::from),
        Some(id) if !may_be_number(id) => None,
        _ => column.value(row, decoded).filter(Value::is_numeric),
    })
}

/// Adds the number of each row to the sum of its group; `None` is an error.
fn add_numbers<'v, T: Total>(
    (sums, held): (&mut [T], &mut Held),
    groups: &[u32],
    context: &EvaluationContext,
    mut number: impl FnMut(usize) -> Option<Value<'v>>,
) -> Result<(), QueryError> {
    for (row, &group) in groups.iter().enumerate() {
        let sum = &mut sums[group as usize];
        let before = sum.long_bytes();
        sum.add(number(row));
        let after = sum.long_bytes();
        if after != before {
            held.set(held.bytes() + after - before)?;
        }
        if row.is_multiple_of(CHECK_ROWS) && after > 0 {
            context.check()?;
        }
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
    // Texts are read only if some comparison needs them, and then for the whole batch at once.
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
            total: Some(Value::integer(0)),
            is_float: false,
            count: 0,
        }
    }

    fn outcome(&self, is_average: bool) -> Option<Value<'static>> {
        let mut outcome = self.total.clone()?;
        if is_average && self.count > 0 {
            outcome = arithmetic(Arithmetic::Divide, &outcome, &Value::integer(self.count))?;
        }
        Some(match outcome {
            Value::Number(number) if self.is_float => Number::Float(number.to_float()).into(),
            outcome => outcome,
        })
    }
}

impl Total for Sum {
    fn add(&mut self, number: Option<Value<'_>>) {
        self.count += 1;
        // Most sums are of integers.
        if let (Some(Value::Number(Number::Integer(total))), Some(Value::Number(number))) =
            (&mut self.total, &number)
            && let Number::Integer(number) = number
            && let Some(sum) = total.checked_add(*number)
        {
            *total = sum;
            return;
        }
        self.total = self.total.take().zip(number).and_then(|(total, number)| {
            let (Value::Number(Number::Float(_)), Value::Number(value)) = (&number, &number) else {
                self.is_float &= !matches!(number, Value::Number(Number::Double(_)));
                return arithmetic(Arithmetic::Add, &total, &number);
            };
            self.is_float |= !matches!(total, Value::Number(Number::Double(_)));
            arithmetic(Arithmetic::Add, &total, &double(value.to_double().into()))
        });
    }

    fn long_bytes(&self) -> usize {
        match &self.total {
            Some(Value::Exact(exact)) => exact.memory_bytes(),
            _ => 0,
        }
    }
}

impl Total for ExactSum {
    fn add(&mut self, number: Option<Value<'_>>) {
        Self::add(self, number.as_ref());
    }

    fn long_bytes(&self) -> usize {
        self.memory_bytes()
    }
}

impl Total for Moments {
    fn add(&mut self, number: Option<Value<'_>>) {
        Self::add(self, number.as_ref());
    }

    fn long_bytes(&self) -> usize {
        self.memory_bytes()
    }
}

impl Moments {
    fn outcome(&self, function: &Function) -> Option<Value<'static>> {
        let outcome = match function {
            Function::Statistic(Statistic::Variance(divisor)) => self.variance(*divisor, false),
            Function::Statistic(Statistic::Deviation(divisor)) => self.variance(*divisor, true),
            _ => unreachable!("other aggregates keep no moments"),
        };
        outcome.map(double)
    }
}

fn double(value: f64) -> Value<'static> {
    Number::Double(value.into()).into()
}

impl Concat {
    /// Adds a row's term as returned by `STR` (SPARQL 1.2 §19.8.7.6). A term without such a text is an
    /// error.
    fn add_text(
        &mut self,
        column: &Column<'_>,
        row: usize,
        decoded: &Decoded,
        separator: &str,
        held: &mut Held,
    ) -> Result<(), QueryError> {
        let kind = column.id(row).map(TermId::kind);
        if matches!(kind, Some(TermKind::BlankNode | TermKind::Triple)) {
            return self.add(None, separator, held);
        }
        // Avoids copying strings.
        let value = column.value(row, decoded);
        if let Some(text) = value.as_ref().and_then(Text::of) {
            return self.add(Some(text.text), separator, held);
        }
        let term = column.term(row, decoded);
        let text = term.as_ref().and_then(|term| spelling(term.as_ref()));
        self.add(text, separator, held)
    }

    fn add(
        &mut self,
        text: Option<&str>,
        separator: &str,
        held: &mut Held,
    ) -> Result<(), QueryError> {
        let Some(text) = text else {
            self.error = true;
            return Ok(());
        };
        let separator = if self.count > 0 { separator } else { "" };
        let length = self.text.len() + separator.len() + text.len();
        if length > self.text.capacity() {
            // Copying the text and making a term of it briefly takes the same memory again.
            let capacity = length.max(2 * self.text.capacity());
            held.add(capacity - self.text.capacity())?;
            self.text.reserve_exact(capacity - self.text.len());
        }
        self.text.push_str(separator);
        self.text.push_str(text);
        self.count += 1;
        Ok(())
    }

    fn finish(self) -> Option<Value<'static>> {
        (!self.error).then(|| self.text.into())
    }
}

#[cfg(test)]
mod tests;
