//! Sums that can be added to each other, multiplied, and from which values can be taken away again.
//!
//! A sum is a term while it goes from one operator of a plan to another. Its aggregates and its functions are for the planner
//! (`planner/complement.rs`, `planner/eager_aggregation.rs`): the parser refuses the aggregates in a query, and the functions
//! give an error for other terms.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use oxrdf::{Literal, NamedNode, Term};
use spargebra::algebra::{AggregateExpression, AggregateFunction, Expression, Function};

use super::context::CustomFunction;
use super::exact;
use super::floating::FloatingSum;
use super::function::arithmetic;
use super::number::{Arithmetic, Number};
use super::value::Value;

/// The aggregate whose result is the text of an [`ExactSum`].
const STATE: &str = "urn:pythia:plan#sumState";
/// The aggregate that adds such texts up to another.
const MERGED: &str = "urn:pythia:plan#mergedSums";
/// The function of a sum and a number that gives the sum of as many copies of all values.
const TIMES: &str = "urn:pythia:plan#sumTimes";
/// Functions of a sum, of the sum to take away, and of how many times the rest counts.
const SUM_WITHOUT: &str = "urn:pythia:plan#sumWithout";
const AVG_WITHOUT: &str = "urn:pythia:plan#avgWithout";

/// The sum of numbers of all four types.
#[derive(Clone, Debug)]
pub(super) struct ExactSum {
    /// Values that are no numbers: with one of them, the sum is an error.
    errors: i64,
    integers: i64,
    decimals: i64,
    floats: i64,
    doubles: i64,
    /// The sum of the integers and decimals.
    exact: Value<'static>,
    floating: FloatingSum,
}

impl Default for ExactSum {
    fn default() -> Self {
        Self {
            errors: 0,
            integers: 0,
            decimals: 0,
            floats: 0,
            doubles: 0,
            exact: Value::integer(0),
            floating: FloatingSum::default(),
        }
    }
}

impl ExactSum {
    /// Adds a value; `None` is an error.
    pub(super) fn add(&mut self, value: Option<&Value<'_>>) {
        match value {
            Some(Value::Number(Number::Float(float))) => {
                self.floats += 1;
                self.floating.add(f32::from(*float).into());
            }
            Some(Value::Number(Number::Double(double))) => {
                self.doubles += 1;
                self.floating.add((*double).into());
            }
            Some(value @ (Value::Number(_) | Value::Exact(_))) => {
                let Some(sum) = arithmetic(Arithmetic::Add, &self.exact, value) else {
                    self.errors += 1;
                    return;
                };
                self.exact = sum;
                match value {
                    Value::Number(Number::Integer(_)) => self.integers += 1,
                    Value::Exact(exact) if exact.is_integer() => self.integers += 1,
                    _ => self.decimals += 1,
                }
            }
            _ => self.errors += 1,
        }
    }

    /// Adds the values of another sum. A sum that is too long is an error.
    pub(super) fn merge(&mut self, other: &Self) {
        self.errors += other.errors;
        self.integers += other.integers;
        self.decimals += other.decimals;
        self.floats += other.floats;
        self.doubles += other.doubles;
        if other.integers + other.decimals > 0 {
            match arithmetic(Arithmetic::Add, &self.exact, &other.exact) {
                Some(sum) => self.exact = sum,
                None => self.errors += 1,
            }
        }
        self.floating.merge(&other.floating);
    }

    /// Counts an error.
    pub(super) fn fail(&mut self) {
        self.errors += 1;
    }

    /// Returns this sum without the values of another sum, `times` over; `None` if it is too long.
    fn without(&self, other: &Self, times: i64) -> Option<Self> {
        let exact = arithmetic(Arithmetic::Subtract, &self.exact, &other.exact)?;
        let rest = |own: i64, other: i64| own.checked_sub(other)?.checked_mul(times);
        Some(Self {
            errors: rest(self.errors, other.errors)?,
            integers: rest(self.integers, other.integers)?,
            decimals: rest(self.decimals, other.decimals)?,
            floats: rest(self.floats, other.floats)?,
            doubles: rest(self.doubles, other.doubles)?,
            exact: arithmetic(Arithmetic::Multiply, &exact, &Value::integer(times))?,
            floating: self.floating.without(&other.floating, times),
        })
    }

    /// Returns the sum, of the widest type of the values; `None` if one of them is an error.
    fn sum(&self) -> Option<Value<'static>> {
        self.divided(None)
    }

    /// Returns the sum, divided by a number if there is one. Floats are rounded to single precision after that.
    fn divided(&self, divisor: Option<i64>) -> Option<Value<'static>> {
        if self.errors != 0 {
            return None;
        }
        let divided = |sum: Value<'static>| match divisor {
            None => Some(sum),
            Some(divisor) => arithmetic(Arithmetic::Divide, &sum, &Value::integer(divisor)),
        };
        if self.doubles == 0 && self.floats == 0 {
            // The decimals that were taken away have made a decimal of the integers' sum.
            return divided(match self.decimals {
                0 => integer(&self.exact)?,
                _ => arithmetic(Arithmetic::Add, &self.exact, &decimal_zero())?,
            });
        }
        let mut floating = self.floating.clone();
        if self.integers + self.decimals > 0 {
            floating.add(to_double(&self.exact)?);
        }
        match (self.doubles, divisor) {
            (0, None) => Some(Number::Float(floating.to_float().into()).into()),
            (0, _) => match divided(Number::Double(floating.to_double().into()).into())? {
                Value::Number(number) => Some(Number::Float(number.to_float()).into()),
                _ => None,
            },
            _ => divided(Number::Double(floating.to_double().into()).into()),
        }
    }

    /// Returns the sum divided by the number of values; 0 without values.
    fn average(&self) -> Option<Value<'static>> {
        let count = self.integers + self.decimals + self.floats + self.doubles;
        self.divided(Some(count).filter(|count| *count > 0))
    }

    /// Returns the memory of long numbers in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let exact = match &self.exact {
            Value::Exact(exact) => exact.memory_bytes(),
            _ => 0,
        };
        exact + self.floating.memory_bytes()
    }
}

fn decimal_zero() -> Value<'static> {
    Number::Decimal(0_i64.into()).into()
}

/// Returns an integer, or a decimal without a fraction, as an integer.
fn integer(value: &Value<'_>) -> Option<Value<'static>> {
    match value {
        Value::Number(number) => exact::to_integer(*number),
        Value::Exact(exact) => exact.to_integer(),
        _ => None,
    }
}

/// Returns the nearest double of a number.
pub(super) fn to_double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Number(number) => Some(number.to_double().into()),
        Value::Exact(exact) => Some(exact.to_double().into()),
        _ => None,
    }
}

impl fmt::Display for ExactSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for count in [
            self.errors,
            self.integers,
            self.decimals,
            self.floats,
            self.doubles,
        ] {
            write!(f, "{count} ")?;
        }
        let Term::Literal(exact) = self.exact.clone().into_term() else {
            unreachable!("numbers are literals");
        };
        write!(f, "{} {}", exact.value(), self.floating)
    }
}

impl FromStr for ExactSum {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.splitn(7, ' ');
        let mut count = || words.next().and_then(|word| word.parse().ok()).ok_or(());
        let (errors, integers, decimals) = (count()?, count()?, count()?);
        let (floats, doubles) = (count()?, count()?);
        let exact = words.next().ok_or(())?;
        let exact = match exact.contains('.') {
            false => exact::Exact::parse_integer(exact),
            true => exact::Exact::parse_decimal(exact),
        };
        Ok(Self {
            errors,
            integers,
            decimals,
            floats,
            doubles,
            exact: exact.ok_or(())?,
            floating: words.next().ok_or(())?.parse()?,
        })
    }
}

/// Returns the aggregate that sums up an expression to a term for [`without`].
pub fn state_of(expression: Expression) -> AggregateExpression {
    AggregateExpression::FunctionCall {
        name: AggregateFunction::Custom(NamedNode::new_unchecked(STATE)),
        expr: expression,
        distinct: false,
    }
}

/// Returns the aggregate that adds up the sums that an expression gives.
pub fn merged(expression: Expression) -> AggregateExpression {
    AggregateExpression::FunctionCall {
        name: AggregateFunction::Custom(NamedNode::new_unchecked(MERGED)),
        expr: expression,
        distinct: false,
    }
}

/// Returns whether an aggregate makes the states of sums.
pub fn is_state(name: &NamedNode) -> bool {
    name.as_str() == STATE
}

/// Returns whether an aggregate adds up the states of sums.
pub(super) fn is_merged(name: &NamedNode) -> bool {
    name.as_str() == MERGED
}

/// Returns the expression for a sum of all values several times.
pub fn times(sum: Expression, number: Expression) -> Expression {
    Expression::FunctionCall(
        Function::Custom(NamedNode::new_unchecked(TIMES)),
        vec![sum, number],
    )
}

/// Returns the expression for the SUM, or the AVG, of a sum without another sum, of which the rest counts several times.
pub fn without(is_average: bool, arguments: [Expression; 3]) -> Expression {
    let name = if is_average { AVG_WITHOUT } else { SUM_WITHOUT };
    let function = Function::Custom(NamedNode::new_unchecked(name));
    Expression::FunctionCall(function, arguments.to_vec())
}

/// Returns the text of a sum without values.
pub fn empty_state() -> Literal {
    Literal::new_simple_literal(ExactSum::default().to_string())
}

/// Returns the function with this name, if it is one of sums.
pub(super) fn function(name: &str) -> Option<CustomFunction> {
    let is_average = match name {
        SUM_WITHOUT => false,
        AVG_WITHOUT => true,
        TIMES => {
            return Some(Arc::new(|arguments: &[Term]| {
                let [sum, number] = read(arguments)?;
                let sum: ExactSum = sum.parse().ok()?;
                let product = sum.without(&ExactSum::default(), number.parse().ok()?)?;
                Some(Literal::new_simple_literal(product.to_string()).into())
            }));
        }
        _ => return None,
    };
    Some(Arc::new(move |arguments: &[Term]| {
        let [all, other, times] = read(arguments)?;
        let all: ExactSum = all.parse().ok()?;
        let rest = all.without(&other.parse().ok()?, times.parse().ok()?)?;
        let value = if is_average {
            rest.average()
        } else {
            rest.sum()
        };
        Some(value?.into_term())
    }))
}

/// Returns the texts of literals.
fn read<const N: usize>(arguments: &[Term]) -> Option<[&str; N]> {
    fn text(argument: &Term) -> Option<&str> {
        match argument {
            Term::Literal(literal) => Some(literal.value()),
            _ => None,
        }
    }
    let texts: Option<Vec<&str>> = arguments.iter().map(text).collect();
    texts?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(value: &str, datatype: &str) -> Literal {
        let datatype = format!("http://www.w3.org/2001/XMLSchema#{datatype}");
        Literal::new_typed_literal(value, NamedNode::new_unchecked(datatype))
    }

    fn sum(values: &[(&str, &str)]) -> ExactSum {
        let mut sum = ExactSum::default();
        for (value, datatype) in values {
            let literal = literal(value, datatype);
            let value = Value::from_literal(&literal);
            sum.add(Some(&value).filter(|value| value.is_numeric()));
        }
        sum.to_string().parse().expect("its own text")
    }

    fn text(value: Option<Value<'_>>) -> String {
        value.map_or("error".to_owned(), |value| value.into_term().to_string())
    }

    #[test]
    fn the_rest_has_the_type_and_the_errors_of_its_values() {
        let all = sum(&[
            ("1", "integer"),
            ("2.50", "decimal"),
            ("0.1", "float"),
            ("1e300", "double"),
            ("x", "string"),
        ]);
        assert_eq!(text(all.sum()), "error");
        let rest = |taken: &[(&str, &str)]| all.without(&sum(taken), 1).expect("short");
        let taken = [("x", "string"), ("1e300", "double")];
        let sum_text = text(rest(&taken).sum());
        assert_eq!(sum_text, literal("3.6", "float").to_string());
        let taken = [("x", "string"), ("1e300", "double"), ("0.1", "float")];
        assert_eq!(
            text(rest(&taken).average()),
            literal("1.75", "decimal").to_string()
        );
        let taken = [
            ("x", "string"),
            ("1e300", "double"),
            ("0.1", "float"),
            ("2.5", "decimal"),
        ];
        assert_eq!(
            text(rest(&taken).sum()),
            literal("1", "integer").to_string()
        );
    }

    #[test]
    fn sums_count_several_times_and_may_be_long() {
        let big = "9".repeat(40);
        let all = sum(&[(&big, "integer"), ("1", "integer")]);
        let taken = sum(&[(&big, "integer")]);
        let rest = all.without(&taken, 3).expect("short enough");
        assert_eq!(text(rest.sum()), literal("3", "integer").to_string());
        let long = sum(&[(&big, "integer")]);
        let none = sum(&[]);
        let twice = long.without(&none, 2).expect("short enough");
        let expected = format!("1{}8", "9".repeat(39));
        assert_eq!(text(twice.sum()), literal(&expected, "integer").to_string());
        assert_eq!(
            text(all.without(&all, 1).expect("short").sum()),
            literal("0", "integer").to_string()
        );
        let function = function(SUM_WITHOUT).expect("known");
        let state = |sum: &ExactSum| Term::from(Literal::new_simple_literal(sum.to_string()));
        let times = Term::from(literal("1", "integer"));
        let rest = function(&[state(&all), state(&taken), times]);
        assert_eq!(rest, Some(literal("1", "integer").into()));
        assert_eq!(function(&[state(&all)]), None);
    }
}
