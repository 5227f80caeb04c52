//! Evaluates a compiled expression over a batch, one column per node.
//!
//! Operands of the logical operators, `IF` and `COALESCE` are evaluated only for the rows that need them,
//! unless evaluating all rows is cheaper than choosing. So a text that a cheap condition has ruled out is
//! never fetched.

use std::borrow::Cow;

use oxrdf::vocab::xsd;
use oxrdf::{NamedNodeRef, Term};
use pythia_rdf::inline::calendar_fields;
use pythia_rdf::{TermId, TermKind};
use rustc_hash::FxHashMap;
use spargebra::algebra::Function;

use super::cast::{cast, cast_string_of};
use super::casts::{Floating, NumberCast, TERMS_MIN, is_read};
use super::column::{Cell, Column};
use super::compare::{Comparison, ERROR, FALSE, TRUE, Truth, truth};
use super::context::EvaluationContext;
use super::decoded::{AnyTerm, Decoded};
use super::degree::degrees;
use super::exact;
use super::exact_sum::to_double;
use super::function::{self, CallState};
use super::id_loop;
use super::math::Math;
use super::node::{Call, CustomCall, InList, Node, is_predicate};
use super::number::{Arithmetic, Number};
use super::order::compare_ids;
use super::value::Value;
use crate::error::QueryError;
use crate::limits::governor::Working;

/// The rows of a batch to evaluate: all of them, or those at some positions.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'r> {
    All(usize),
    At(&'r [u32]),
}

impl Rows<'_> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::All(count) => count,
            Self::At(positions) => positions.len(),
        }
    }

    /// Returns the position of a row in the batch.
    pub(crate) fn position(self, row: usize) -> usize {
        match self {
            Self::All(_) => row,
            Self::At(positions) => positions[row] as usize,
        }
    }

    /// Returns the numbers and the positions of the rows whose number `chosen` accepts.
    fn choose(self, chosen: impl Fn(usize) -> bool) -> (Vec<u32>, Vec<u32>) {
        let rows = (0..self.len()).filter(|&row| chosen(row));
        rows.map(|row| {
            let narrow = |n| u32::try_from(n).expect("a batch has fewer than 2^32 rows");
            (narrow(row), narrow(self.position(row)))
        })
        .unzip()
    }
}

/// Evaluates over one batch of rows.
pub(crate) struct Evaluator<'a> {
    columns: &'a [&'a [u64]],
    context: &'a EvaluationContext,
    pub(crate) decoded: Decoded,
    state: CallState,
    /// The memory of computed texts.
    working: Working,
}

/// Number of rows after which functions check the deadline.
pub(super) const CHECK_ROWS: usize = 64;

/// Number of bytes of computed texts after which they are charged for.
const CHARGED_BYTES: usize = 16 << 10;

impl<'a> Evaluator<'a> {
    /// Makes an evaluator. `columns` holds raw ids, one column per variable that the expression was
    /// compiled for.
    pub(crate) fn new(columns: &'a [&'a [u64]], context: &'a EvaluationContext) -> Self {
        Self {
            columns,
            context,
            decoded: Decoded::default(),
            state: CallState::default(),
            working: Working::new(context.governor()),
        }
    }

    /// Evaluates a node for some rows.
    pub(crate) fn evaluate(
        &mut self,
        node: &'a Node,
        rows: Rows<'_>,
    ) -> Result<Column<'a>, QueryError> {
        match node {
            Node::Error => Ok(Column::Error),
            Node::Constant(constant) => Ok(Column::Constant(constant)),
            Node::Variable(column) => Ok(Column::Ids(self.ids(*column, rows))),
            Node::Arithmetic(operator, operands) => {
                let left = self.evaluate(&operands.0, rows)?;
                let right = self.evaluate(&operands.1, rows)?;
                self.arithmetic(*operator, &left, &right, rows.len())
            }
            Node::Plus(inner) => self.unary(inner, rows, |value| match value {
                Value::Number(_) | Value::Exact(_) | Value::Duration(_) => Some(value.into_owned()),
                _ => None,
            }),
            Node::Minus(inner) => self.unary(inner, rows, |value| match value {
                Value::Number(number) => match number.negate() {
                    Some(negated) => Some(negated.into()),
                    None => exact::negate(&value),
                },
                Value::Exact(_) => exact::negate(&value),
                Value::Duration(duration) => Some(duration.negate()?.into()),
                _ => None,
            }),
            Node::Cast(target, inner) => match &**inner {
                Node::Cast(xsd::STRING, inner) => self.cast(inner, rows, *target, true),
                inner => self.cast(inner, rows, *target, false),
            },
            Node::If(parts) => self.conditional(&parts.0, &parts.1, &parts.2, rows),
            Node::Coalesce(alternatives) => self.coalesce(alternatives, rows),
            Node::Math(function, arguments) => self.math(*function, arguments, rows),
            Node::Custom(call) => self.custom(call, rows),
            Node::Degree(end, column) => degrees(*end, &self.ids(*column, rows), self.context),
            Node::Call(call) if !is_predicate(&call.function) => self.call(call, rows),
            Node::Call(_)
            | Node::Bound(_)
            | Node::Not(_)
            | Node::And(_)
            | Node::Or(_)
            | Node::Compare(..)
            | Node::CompareConstant(_)
            | Node::SameTerm(_)
            | Node::In(..)
            | Node::InIris(..)
            | Node::Exists(_) => Ok(Column::Truths(self.truths(node, rows)?)),
        }
    }

    /// Returns the effective boolean values of a node for some rows.
    pub(crate) fn truths(
        &mut self,
        node: &'a Node,
        rows: Rows<'_>,
    ) -> Result<Vec<Truth>, QueryError> {
        match node {
            Node::Bound(column) => Ok(id_loop::bound(&self.ids(*column, rows))),
            Node::InIris(column, set) => Ok(id_loop::in_set(&self.ids(*column, rows), set)),
            Node::CompareConstant(comparison) => {
                let ids = self.ids(comparison.column, rows);
                id_loop::compare_constant(&ids, comparison, self.context, &mut self.decoded)
            }
            Node::Not(inner) => {
                let mut truths = self.truths(inner, rows)?;
                truths.iter_mut().for_each(|truth| *truth = TRUE - *truth);
                Ok(truths)
            }
            Node::And(children) => self.logical(children, rows, FALSE, Truth::min),
            Node::Or(children) => self.logical(children, rows, TRUE, Truth::max),
            Node::Compare(operator, operands) => {
                let left = self.evaluate(&operands.0, rows)?;
                let right = self.evaluate(&operands.1, rows)?;
                self.compare(*operator, &left, &right, rows.len())
            }
            Node::SameTerm(operands) => self.same_term(&operands.0, &operands.1, rows),
            Node::In(list) => self.in_list(list, rows),
            Node::Exists(test) => {
                let (_, positions) = rows.choose(|_| true);
                let found = test.test(self.columns, &positions, self.context)?;
                Ok(found.into_iter().map(|found| truth(Some(found))).collect())
            }
            Node::Call(call) if is_predicate(&call.function) => self.test(call, rows),
            _ => {
                let column = self.evaluate(node, rows)?;
                column.into_truths(rows.len(), self.context, &mut self.decoded)
            }
        }
    }

    fn ids(&self, column: usize, rows: Rows<'_>) -> Cow<'a, [u64]> {
        let ids = self.columns[column];
        match rows {
            Rows::All(count) => Cow::Borrowed(&ids[..count]),
            Rows::At(positions) => positions.iter().map(|&at| ids[at as usize]).collect(),
        }
    }

    /// Evaluates `&&` or `||`. A row is decided once a child returns `decisive`.
    fn logical(
        &mut self,
        children: &'a [Node],
        rows: Rows<'_>,
        decisive: Truth,
        combine: fn(Truth, Truth) -> Truth,
    ) -> Result<Vec<Truth>, QueryError> {
        let mut result = vec![TRUE - decisive; rows.len()];
        for child in children {
            if child.is_cheap() {
                let truths = self.truths(child, rows)?;
                for (result, truth) in result.iter_mut().zip(truths) {
                    *result = combine(*result, truth);
                }
                continue;
            }
            let (open, positions) = rows.choose(|row| result[row] != decisive);
            if open.is_empty() {
                break;
            }
            let truths = self.truths(child, Rows::At(&positions))?;
            for (row, truth) in open.into_iter().zip(truths) {
                let result = &mut result[row as usize];
                *result = combine(*result, truth);
            }
        }
        Ok(result)
    }

    fn compare(
        &mut self,
        operator: Comparison,
        left: &Column<'_>,
        right: &Column<'_>,
        rows: usize,
    ) -> Result<Vec<Truth>, QueryError> {
        if let Some(truths) = compare_numbers(operator, left, right, rows) {
            return Ok(truths);
        }
        let mut result = vec![ERROR; rows];
        let mut undecided = Vec::new();
        let mut wanted = Vec::new();
        for (row, result) in result.iter_mut().enumerate() {
            let decision = match (left.id(row), right.id(row)) {
                (Some(left), Some(right)) => operator
                    .decide(left, right)
                    .or_else(|| compare_strings(operator, left, right, self.context)),
                (Some(TermId::UNBOUND), _) | (_, Some(TermId::UNBOUND)) => Some(ERROR),
                _ => None,
            };
            match decision {
                Some(truth) => *result = truth,
                None => {
                    undecided.push(row);
                    wanted.extend(
                        [left, right]
                            .into_iter()
                            .filter_map(|side| side.text_id(row)),
                    );
                }
            }
        }
        self.decoded.add(self.context, wanted)?;
        for (number, row) in undecided.into_iter().enumerate() {
            if number.is_multiple_of(CHECK_ROWS) {
                self.context.check()?;
            }
            let left = left.value(row, &self.decoded);
            let right = right.value(row, &self.decoded);
            let outcome = left.zip(right);
            result[row] = truth(outcome.and_then(|(left, right)| operator.apply(&left, &right)));
        }
        Ok(result)
    }

    fn same_term(
        &mut self,
        left: &'a Node,
        right: &'a Node,
        rows: Rows<'_>,
    ) -> Result<Vec<Truth>, QueryError> {
        let left = self
            .evaluate(left, rows)?
            .into_ids(rows.len(), self.context)?;
        let right = self
            .evaluate(right, rows)?
            .into_ids(rows.len(), self.context)?;
        let pairs = left.into_iter().zip(right);
        let truths =
            pairs.map(|(left, right)| truth((left != 0 && right != 0).then_some(left == right)));
        Ok(truths.collect())
    }

    /// Evaluates `IN`, the disjunction of `=` over the list (§17.4.1.9).
    fn in_list(&mut self, list: &'a InList, rows: Rows<'_>) -> Result<Vec<Truth>, QueryError> {
        let mut result = vec![FALSE; rows.len()];
        let mut open = vec![true; rows.len()];
        if let Node::Variable(column) = list.needle {
            for (row, id) in self.ids(column, rows).iter().enumerate() {
                if let Some(found) = list.by_id.contain(*id) {
                    (result[row], open[row]) = (truth(Some(found)), false);
                }
            }
        }
        let (open, positions) = rows.choose(|row| open[row]);
        if open.is_empty() {
            return Ok(result);
        }
        let rows = Rows::At(&positions);
        let needle = self.evaluate(&list.needle, rows)?;
        // With an empty list, an error in the operand is still an error.
        for (at, row) in open.iter().enumerate().filter(|_| list.items.is_empty()) {
            result[*row as usize] = if needle.is_bound(at) { FALSE } else { ERROR };
        }
        for item in &list.items {
            self.context.check()?;
            let item = self.evaluate(item, rows)?;
            let equal = self.compare(Comparison::Equal, &needle, &item, rows.len())?;
            for (row, truth) in open.iter().zip(equal) {
                let result = &mut result[*row as usize];
                *result = (*result).max(truth);
            }
        }
        Ok(result)
    }

    fn arithmetic(
        &mut self,
        operator: Arithmetic,
        left: &Column<'_>,
        right: &Column<'_>,
        rows: usize,
    ) -> Result<Column<'a>, QueryError> {
        self.decoded
            .require(self.context, &[left, right], |_, id| may_compute(id))?;
        if let Some(numbers) = self.number_arithmetic(operator, left, right, rows) {
            return Ok(Column::Numbers(numbers));
        }
        let decoded = &self.decoded;
        let cells = cells(self.context, &mut self.working, rows, |row| {
            if skips(left, row) || skips(right, row) {
                return Cell::Error;
            }
            let operands = left.value(row, decoded).zip(right.value(row, decoded));
            operands
                .and_then(|(left, right)| function::arithmetic(operator, &left, &right))
                .into()
        });
        Ok(Column::Cells(cells?))
    }

    /// Computes with numbers and errors. Returns `None` if there is another value, or if the result may be
    /// too long for a [`Number`].
    fn number_arithmetic(
        &self,
        operator: Arithmetic,
        left: &Column<'_>,
        right: &Column<'_>,
        rows: usize,
    ) -> Option<Vec<Option<Number>>> {
        let operand = |column: &Column<'_>, row| {
            if skips(column, row) || !column.is_bound(row) {
                return Some(None);
            }
            column.number(row, &self.decoded).map(Some)
        };
        let outcome = |row| match operand(left, row)?.zip(operand(right, row)?) {
            Some((left, right)) => left.apply(operator, right).map(Some),
            None => Some(None),
        };
        // After a join, many rows in succession have the same operands.
        let mut last = None;
        let outcomes = (0..rows).map(|row| {
            let ids = left.id(row).zip(right.id(row));
            match last {
                Some((before, known)) if ids == Some(before) => Some(known),
                _ => {
                    let found = outcome(row)?;
                    last = ids.map(|ids| (ids, found));
                    Some(found)
                }
            }
        });
        outcomes.collect()
    }

    /// Evaluates a function of one value whose lexical form does not matter.
    fn unary<C: Into<Cell>>(
        &mut self,
        inner: &'a Node,
        rows: Rows<'_>,
        apply: impl Fn(Value<'_>) -> C,
    ) -> Result<Column<'a>, QueryError> {
        let column = self.evaluate(inner, rows)?;
        self.decoded
            .require(self.context, &[&column], |_, _| true)?;
        let decoded = &self.decoded;
        let cells = cells(
            self.context,
            &mut self.working,
            rows.len(),
            |row| match column.value(row, decoded) {
                Some(value) => apply(value).into(),
                None => Cell::Error,
            },
        );
        Ok(Column::Cells(cells?))
    }

    /// Casts values, or their strings.
    fn cast(
        &mut self,
        inner: &'a Node,
        rows: Rows<'_>,
        target: NamedNodeRef<'static>,
        of_string: bool,
    ) -> Result<Column<'a>, QueryError> {
        let cast = match of_string {
            true => cast_string_of,
            false => cast,
        };
        if !matches!(target, xsd::FLOAT | xsd::DOUBLE) {
            return self.unary(inner, rows, |value| cast(value, target));
        }
        let column = self.evaluate(inner, rows)?;
        let apply = |value: Value<'_>| match cast(value, target) {
            Cell::Value(Value::Number(number)) => Some(number),
            _ => None,
        };
        let number_cast = NumberCast {
            target: match target {
                xsd::FLOAT => Floating::Float,
                _ => Floating::Double,
            },
            of_string,
        };
        let numbers = match &column {
            Column::Ids(ids) if ids.iter().filter(|id| is_read(**id)).count() >= TERMS_MIN => {
                self.cast_terms(ids, number_cast, apply)
            }
            column => self.cast_values(column, rows.len(), apply),
        };
        Ok(Column::Numbers(numbers?))
    }

    /// Casts terms to numbers, which may have been done before.
    fn cast_terms(
        &mut self,
        ids: &[u64],
        cast: NumberCast,
        apply: impl Fn(Value<'_>) -> Option<Number>,
    ) -> Result<Vec<Option<Number>>, QueryError> {
        let casts = self.context.casts();
        let mut found = casts.find(cast, ids);
        let new: Vec<usize> = (0..ids.len()).filter(|&row| found[row].is_none()).collect();
        let new_ids: Vec<u64> = new.iter().map(|&row| ids[row]).collect();
        let numbers = self.cast_values(&Column::Ids((&new_ids).into()), new.len(), apply)?;
        casts.keep(cast, &new_ids, &numbers);
        for (row, number) in new.into_iter().zip(numbers) {
            found[row] = Some(number);
        }
        let known = |number: Option<_>| number.expect("found or cast");
        Ok(found.into_iter().map(known).collect())
    }

    /// Casts values to numbers.
    fn cast_values(
        &mut self,
        column: &Column<'_>,
        rows: usize,
        apply: impl Fn(Value<'_>) -> Option<Number>,
    ) -> Result<Vec<Option<Number>>, QueryError> {
        self.decoded.require(self.context, &[column], |_, _| true)?;
        let mut numbers = Vec::with_capacity(rows);
        for row in 0..rows {
            if row.is_multiple_of(CHECK_ROWS) {
                self.context.check()?;
            }
            numbers.push(column.value(row, &self.decoded).and_then(&apply));
        }
        Ok(numbers)
    }

    fn conditional(
        &mut self,
        condition: &'a Node,
        yes: &'a Node,
        no: &'a Node,
        rows: Rows<'_>,
    ) -> Result<Column<'a>, QueryError> {
        let truths = self.truths(condition, rows)?;
        let mut cells = vec![Cell::Error; rows.len()];
        for (wanted, branch) in [(TRUE, yes), (FALSE, no)] {
            let (chosen, positions) = rows.choose(|row| truths[row] == wanted);
            if chosen.is_empty() {
                continue;
            }
            let mut column = self.evaluate(branch, Rows::At(&positions))?;
            for (from, to) in chosen.into_iter().enumerate() {
                cells[to as usize] = column.take(from);
            }
        }
        Ok(Column::Cells(cells))
    }

    fn coalesce(
        &mut self,
        alternatives: &'a [Node],
        rows: Rows<'_>,
    ) -> Result<Column<'a>, QueryError> {
        let mut cells = vec![Cell::Error; rows.len()];
        for alternative in alternatives {
            let (open, positions) = rows.choose(|row| matches!(cells[row], Cell::Error));
            if open.is_empty() {
                break;
            }
            let mut column = self.evaluate(alternative, Rows::At(&positions))?;
            for (from, to) in open.into_iter().enumerate() {
                cells[to as usize] = column.take(from);
            }
        }
        Ok(Column::Cells(cells))
    }

    fn custom(&mut self, call: &'a CustomCall, rows: Rows<'_>) -> Result<Column<'a>, QueryError> {
        let arguments = self.arguments(&call.arguments, rows)?;
        let columns: Vec<&Column<'_>> = arguments.iter().collect();
        self.decoded.require(self.context, &columns, |_, _| true)?;
        let decoded = &self.decoded;
        let cells = cells(self.context, &mut self.working, rows.len(), |row| {
            let terms = arguments
                .iter()
                .map(|column| column.term(row, decoded).map(AnyTerm::into_owned));
            let terms: Option<Vec<Term>> = terms.collect();
            terms.and_then(|terms| (call.function)(&terms)).into()
        });
        Ok(Column::Cells(cells?))
    }

    /// Evaluates a function of doubles. Other numbers are promoted.
    fn math(
        &mut self,
        function: Math,
        arguments: &'a [Node],
        rows: Rows<'_>,
    ) -> Result<Column<'a>, QueryError> {
        let arguments = self.arguments(arguments, rows)?;
        let columns: Vec<&Column<'_>> = arguments.iter().collect();
        self.decoded
            .require(self.context, &columns, |_, id| may_compute(id))?;
        let decoded = &self.decoded;
        let double = |column: &Column<'_>, row| match column.id(row) {
            Some(id) if id.kind().is_inline() => Some(Number::from_inline(id)?.to_double().into()),
            _ if skips(column, row) => None,
            _ => to_double(&column.value(row, decoded)?),
        };
        let mut numbers = Vec::with_capacity(function.arity());
        let results = (0..rows.len()).map(|row| {
            numbers.clear();
            for column in &arguments {
                numbers.push(double(column, row)?);
            }
            Some(Number::Double(function.apply(&numbers).into()))
        });
        Ok(Column::Numbers(results.collect()))
    }

    fn arguments(
        &mut self,
        arguments: &'a [Node],
        rows: Rows<'_>,
    ) -> Result<Vec<Column<'a>>, QueryError> {
        let columns = arguments
            .iter()
            .map(|argument| self.evaluate(argument, rows));
        columns.collect()
    }

    /// Evaluates a function that returns a boolean.
    fn test(&mut self, call: &'a Call, rows: Rows<'_>) -> Result<Vec<Truth>, QueryError> {
        let arguments = self.arguments(&call.arguments, rows)?;
        let columns: Vec<&Column<'_>> = arguments.iter().collect();
        let function = &call.function;
        self.decoded.require(self.context, &columns, |_, id| {
            function::test_kind(function, id.kind()).is_none()
                && !function::refuses_kind(function, id.kind())
        })?;
        let Self { decoded, state, .. } = self;
        let mut values = Vec::with_capacity(arguments.len());
        let mut test = |row: usize| {
            if let [argument] = &arguments[..]
                && let Some(id) = argument.id(row)
                && let Some(truth) = function::test_kind(function, id.kind())
            {
                return truth;
            }
            values.clear();
            for argument in &arguments {
                match row_value(argument, row, decoded, function) {
                    Some(value) => values.push(value),
                    None => return ERROR,
                }
            }
            truth(function::test(call, &values, state))
        };
        let mut truths = Vec::with_capacity(rows.len());
        for row in 0..rows.len() {
            if row.is_multiple_of(CHECK_ROWS) {
                self.context.check()?;
            }
            truths.push(test(row));
        }
        Ok(truths)
    }

    /// Evaluates a function that does not return a boolean.
    fn call(&mut self, call: &'a Call, rows: Rows<'_>) -> Result<Column<'a>, QueryError> {
        let arguments = self.arguments(&call.arguments, rows)?;
        let columns: Vec<&Column<'_>> = arguments.iter().collect();
        let function = &call.function;
        if function::is_term_function(function) {
            return self.term_call(function, &arguments, rows.len());
        }
        if matches!(function, Function::BNode) && !arguments.is_empty() {
            return self.scoped_blank_nodes(&arguments[0], rows);
        }
        self.decoded.require(self.context, &columns, |_, id| {
            !function::refuses_kind(function, id.kind())
        })?;
        if let [argument] = &arguments[..]
            && let Some(numbers) = self.number_call(call, argument, rows.len())
        {
            return Ok(Column::Numbers(numbers));
        }
        let (decoded, state, context) = (&self.decoded, &mut self.state, self.context);
        let mut values = Vec::with_capacity(arguments.len());
        let mut cell = |row: usize, state: &mut CallState| {
            values.clear();
            for argument in &arguments {
                match row_value(argument, row, decoded, function) {
                    Some(value) => values.push(value),
                    None => return Cell::Error,
                }
            }
            function::call(call, &values, context, state).into()
        };
        let mut cells = Vec::with_capacity(rows.len());
        for row in 0..rows.len() {
            if row.is_multiple_of(CHECK_ROWS) {
                context.check()?;
            }
            let cell = cell(row, state);
            if state.too_long {
                return Err(QueryError::Memory(format!(
                    "{function} gives too long a text"
                )));
            }
            self.working.add(cell.text_bytes())?;
            cells.push(cell);
        }
        Ok(Column::Cells(cells))
    }

    /// Evaluates a function that gives numbers from numbers, or from dates. Returns `None` if it is another function, or a
    /// result is too long for a [`Number`].
    fn number_call(
        &mut self,
        call: &Call,
        argument: &Column<'_>,
        rows: usize,
    ) -> Option<Vec<Option<Number>>> {
        let function = &call.function;
        let apply = function::of_numbers(function);
        let field = function::of_calendar(function);
        if apply.is_none() && field.is_none() {
            return None;
        }
        let value = |row: usize| {
            let id = argument.id(row);
            if id.is_some_and(|id| !id.is_bound() || function::refuses_kind(function, id.kind())) {
                return Some(None);
            }
            let number = apply.and_then(|apply| apply(argument.number(row, &self.decoded)?));
            if number.is_some() {
                return Some(number);
            }
            if let (Some(field), Some(fields)) = (field, id.and_then(calendar_fields)) {
                return Some(field(fields).map(Number::from_i64));
            }
            let Some(value) = argument.value(row, &self.decoded) else {
                return Some(None);
            };
            match function::call(call, &[value], self.context, &mut self.state) {
                None => Some(None),
                Some(Value::Number(number)) => Some(Some(number)),
                Some(_) => None,
            }
        };
        (0..rows).map(value).collect()
    }

    /// Evaluates a function of terms whose lexical form matters.
    fn term_call(
        &mut self,
        function: &Function,
        arguments: &[Column<'_>],
        rows: usize,
    ) -> Result<Column<'a>, QueryError> {
        let columns: Vec<&Column<'_>> = arguments.iter().collect();
        self.decoded.require(self.context, &columns, |_, id| {
            function::term_of_id(function, id).is_none()
        })?;
        let decoded = &self.decoded;
        let mut terms = Vec::with_capacity(arguments.len());
        let cells = cells(self.context, &mut self.working, rows, |row| {
            let id = match arguments {
                [argument] => argument.id(row),
                _ => None,
            };
            if let Some(cell) = id.and_then(|id| function::term_of_id(function, id)) {
                return cell;
            }
            terms.clear();
            for argument in arguments {
                match argument.term(row, decoded) {
                    Some(term) => terms.push(term),
                    None => return Cell::Error,
                }
            }
            // Avoids copying long texts for each row.
            match (id, &terms[..]) {
                (Some(id), [term]) if function::is_itself(function, term.as_ref()) => Cell::Id(id),
                _ => function::call_with_terms(function, &terms),
            }
        });
        Ok(Column::Cells(cells?))
    }

    /// Evaluates `BNODE(text)`: one blank node per text and solution (§17.4.2.9). A solution is identified
    /// by its bindings of stored terms, so that two `BIND`s of one solution agree.
    fn scoped_blank_nodes(
        &mut self,
        argument: &Column<'_>,
        rows: Rows<'_>,
    ) -> Result<Column<'a>, QueryError> {
        self.decoded
            .require(self.context, &[argument], |_, _| true)?;
        let seed = self.context.blank_node_seed();
        let mut solutions: FxHashMap<usize, u64> = FxHashMap::default();
        let (decoded, columns) = (&self.decoded, self.columns);
        let cells = cells(self.context, &mut self.working, rows.len(), |row| {
            let Some(Value::String(text)) = argument.value(row, decoded) else {
                return Cell::Error;
            };
            let position = rows.position(row);
            let solution = *solutions.entry(position).or_insert_with(|| {
                let bound = columns.iter().map(|column| TermId(column[position]));
                function::solution_hash(seed, bound.filter(|id| id.kind() != TermKind::Computed))
            });
            Some(function::scoped_blank_node(solution, &text)).into()
        });
        Ok(Column::Cells(cells?))
    }
}

/// Computes the cells of some rows. Checks the deadline meanwhile, and charges for computed texts.
fn cells(
    context: &EvaluationContext,
    working: &mut Working,
    rows: usize,
    mut cell: impl FnMut(usize) -> Cell,
) -> Result<Vec<Cell>, QueryError> {
    let mut cells = Vec::with_capacity(rows);
    let mut bytes = 0;
    for row in 0..rows {
        if row.is_multiple_of(CHECK_ROWS) {
            context.check()?;
        }
        let cell = cell(row);
        bytes += cell.text_bytes();
        if bytes >= CHARGED_BYTES {
            working.add(std::mem::take(&mut bytes))?;
        }
        if matches!(cell, Cell::Value(Value::Exact(_))) {
            // Similar values may take as long as many rows.
            context.check()?;
        }
        cells.push(cell);
    }
    working.add(bytes)?;
    Ok(cells)
}

/// Compares strings by their ranks in the dictionary. Returns `None` for other terms and for strings without a rank.
fn compare_strings(
    operator: Comparison,
    left: TermId,
    right: TermId,
    context: &EvaluationContext,
) -> Option<Truth> {
    let are_strings = [left, right].iter().all(|id| id.kind() == TermKind::String);
    let ordering = are_strings.then(|| compare_ids(left, right, context))??;
    Some(truth(Some(operator.accepts(ordering))))
}

/// Compares computed numbers with each other, with inline ones or with a constant. Returns `None` for other operands.
fn compare_numbers(
    operator: Comparison,
    left: &Column<'_>,
    right: &Column<'_>,
    rows: usize,
) -> Option<Vec<Truth>> {
    if !matches!(left, Column::Numbers(_)) && !matches!(right, Column::Numbers(_)) {
        return None;
    }
    let number = |column: &Column<'_>, row: usize| match column {
        Column::Numbers(numbers) => Some(numbers[row]),
        Column::Constant(constant) => constant.value.as_number().map(Some),
        Column::Ids(ids) => Number::from_inline(TermId(ids[row])).map(Some),
        _ => None,
    };
    let compare = |row| {
        let operands = number(left, row)?.zip(number(right, row)?);
        Some(truth(
            operands.map(|(left, right)| operator.apply_numbers(left, right)),
        ))
    };
    (0..rows).map(compare).collect()
}

/// Returns whether an id can be an operand of arithmetic and must be decoded.
fn may_compute(id: TermId) -> bool {
    matches!(id.kind(), TermKind::TypedLiteral | TermKind::Computed)
}

/// Returns whether a row's id cannot be an operand of arithmetic, so that it was not decoded.
fn skips(column: &Column<'_>, row: usize) -> bool {
    matches!(column, Column::Ids(_) | Column::Cells(_))
        && column
            .id(row)
            .is_some_and(|id| !id.kind().is_inline() && !may_compute(id))
}

/// Returns an argument's value; `None` also if its kind alone makes the call an error.
fn row_value<'v>(
    argument: &'v Column<'_>,
    row: usize,
    decoded: &'v Decoded,
    function: &Function,
) -> Option<Value<'v>> {
    let id = argument.id(row);
    if id.is_some_and(|id| function::refuses_kind(function, id.kind())) {
        return None;
    }
    argument.value(row, decoded)
}
