//! Random expressions over random terms, evaluated by Pythia and by Oxigraph: both must return the same
//! term, or both an error.
//!
//! `PYTHIA_EXPRESSION_CASES` and `PYTHIA_EXPRESSION_SEED` turn the test into a campaign. The engines differ
//! intentionally in these cases; [`excuse`] recognizes them:
//!
//! - booleans have an order in SPARQL's operator table, but not in Oxigraph;
//! - comparing with NaN is false in XPath, but an error in Oxigraph;
//! - whether a date equals one without a timezone is unknown, as in the W3C's tests, while Oxigraph returns
//!   false;
//! - Pythia keeps the lexical form of a literal, while Oxigraph first makes typed literals canonical, so
//!   all generated terms are canonical;
//! - a date and a duration add in either order, while Oxigraph's optimizer reorders operands that its
//!   evaluator accepts in one order only;
//! - `COUNT(expression)` skips errors, while in Oxigraph an error makes the count an error, so the tests
//!   count variables;
//! - a `SUBSTR` far beyond the end is empty in Pythia, and a `dayTimeDuration` cast to a
//!   `yearMonthDuration` is zero; both are errors in Oxigraph, so neither is generated;
//! - `GROUP_CONCAT` has no language, as in the W3C's tests, while Oxigraph keeps a common one;
//! - Pythia divides zero, and decimals whose quotient takes more intermediate digits than Oxigraph's
//!   numbers have;
//! - integers and decimals may have any length, while Oxigraph's overflow;
//! - Oxigraph cannot parse the `gMonthDay` of a leap day;
//! - conversions between decimals and floating-point numbers are exact or round once, while Oxigraph's
//!   round digits and quotient: [`numerics`](super::numerics) checks each cast of a case by exact
//!   arithmetic;
//! - `LANG` returns tags in the form that RFC 5646 recommends, in Oxigraph in lower case;
//! - `xsd:string` of a large or small double has an exponent, as in XPath.

mod generator;

use oxigraph::sparql::{QueryResults, SparqlEvaluator};
use oxigraph::store::Store;
use oxrdf::vocab::xsd;
use oxrdf::{NamedNodeRef, Term};
use oxsdatatypes::{Decimal, Double, Float};
use pythia_rdf::TermId;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spargebra::algebra::{AggregateExpression, Expression, Function, GraphPattern};
use spargebra::{Query, SparqlParser};

use generator::{Generator, Wanted};

use super::aggregate::CompiledAggregate;
use super::exists::no_exists;
use super::number::Number;
use super::testing::{context, variables};
use super::*;
use crate::limits::governor::Share;

const COLUMNS: [&str; 5] = ["n", "s", "d", "x", "y"];
const PREFIXES: &str = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> ";

/// One case: rows of terms to evaluate expressions on.
struct Case {
    values: String,
    terms: Vec<Vec<Option<Term>>>,
    context: EvaluationContext,
    columns: Vec<Vec<u64>>,
}

impl Case {
    fn new(rows: &[[String; 5]], random: &mut StdRng) -> Self {
        let lines = rows
            .iter()
            .enumerate()
            .map(|(number, row)| format!("({number} {})", row.join(" ")));
        let names = COLUMNS.map(|name| format!("?{name}")).join(" ");
        let lines: Vec<String> = lines.collect();
        let values = format!("VALUES (?row {names}) {{ {} }}", lines.join(" "));
        let query = format!("{PREFIXES} SELECT * {{ {values} }}");
        let parsed = SparqlParser::new()
            .parse_query(&query)
            .expect("rows of terms");
        let Query::Select { pattern, .. } = parsed else {
            unreachable!("a SELECT");
        };
        let terms = bindings(&pattern);
        // Some terms are stored and some are computed by the query.
        let stored = terms
            .iter()
            .flatten()
            .flatten()
            .filter(|_| random.random_bool(0.7));
        let context = context(stored.cloned().collect::<Vec<_>>());
        let intern = |term: &Option<Term>| {
            term.clone()
                .map_or(0, |term| context.intern(term).expect("interned").0)
        };
        let columns = (0..COLUMNS.len())
            .map(|column| terms.iter().map(|row| intern(&row[column + 1])).collect())
            .collect();
        Self {
            values,
            terms,
            context,
            columns,
        }
    }

    fn columns(&self) -> Vec<&[u64]> {
        self.columns.iter().map(Vec::as_slice).collect()
    }

    fn decode(&self, ids: &[u64]) -> Vec<Option<Term>> {
        ids.iter()
            .map(|&id| {
                (id != 0).then(|| {
                    self.context
                        .decode(&[TermId(id)])
                        .expect("a term")
                        .remove(0)
                })
            })
            .collect()
    }

    /// Evaluates an expression with Pythia.
    fn evaluate(&self, expression: &Expression) -> Vec<Option<Term>> {
        let compiled = CompiledExpression::compile(expression, &variables(&COLUMNS), &self.context);
        let ids = compiled.expect("compiled").evaluate_ids(
            &self.columns(),
            self.terms.len(),
            &self.context,
        );
        self.decode(&ids.expect("evaluated"))
    }
}

/// Returns the rows of the only `VALUES` of a pattern.
fn bindings(pattern: &GraphPattern) -> Vec<Vec<Option<Term>>> {
    match pattern {
        GraphPattern::Values { bindings, .. } => bindings
            .iter()
            .map(|row| {
                row.iter()
                    .map(|term| term.clone().map(Term::from))
                    .collect()
            })
            .collect(),
        GraphPattern::Project { inner, .. } => bindings(inner),
        other => panic!("not a VALUES: {other}"),
    }
}

fn extension(pattern: &GraphPattern) -> &Expression {
    match pattern {
        GraphPattern::Extend { expression, .. } => expression,
        GraphPattern::Project { inner, .. } => extension(inner),
        other => panic!("no expression in {other}"),
    }
}

/// Returns Oxigraph's `?row` and `?result` of each solution.
fn oxigraph(store: &Store, query: &str) -> Vec<(Option<Term>, Option<Term>)> {
    let results = SparqlEvaluator::new()
        .parse_query(query)
        .expect("a query")
        .on_store(store)
        .execute();
    let Ok(QueryResults::Solutions(solutions)) = results else {
        panic!("{query}: no solutions");
    };
    solutions
        .map(|solution| {
            let solution = solution.expect("a solution");
            (
                solution.get("row").cloned(),
                solution.get("result").cloned(),
            )
        })
        .collect()
}

/// Returns whether a difference in this row is intended (see the module's documentation).
fn excuse(expression: &Expression, case: &Case, row: usize) -> bool {
    use Expression as E;
    let outcome = case.evaluate(expression).remove(row).map(Value::from);
    match &outcome {
        Some(Value::Exact(_)) => return true,
        Some(Value::Number(number)) if converts_otherwise(*number) => return true,
        _ => {}
    }
    if let Some((argument, target)) = as_cast(expression)
        && let Some(Value::Number(number)) = case.evaluate(argument).remove(row).map(Value::from)
        && matches!(number, Number::Float(_) | Number::Double(_))
        && matches!(target, xsd::STRING | xsd::INTEGER | xsd::DECIMAL)
    {
        // Checked by exact arithmetic.
        return true;
    }
    let value = |operand| Some(Value::from(case.evaluate(operand).remove(row)?));
    let excused = match expression {
        E::Less(a, b) | E::LessOrEqual(a, b) | E::Greater(a, b) | E::GreaterOrEqual(a, b) => {
            value(a)
                .zip(value(b))
                .is_some_and(|operands| match operands {
                    (Value::Boolean(_), Value::Boolean(_)) => true,
                    (Value::Number(a), Value::Number(b)) => a.partial_cmp(&b).is_none(),
                    // The objects of triple terms may be booleans or NaN.
                    (Value::Triple(_), Value::Triple(_)) => true,
                    _ => false,
                })
        }
        E::Equal(a, b) => unknown_equality(a, b, case, row),
        E::In(a, list) => list.iter().any(|b| unknown_equality(a, b, case, row)),
        E::Add(a, b) => [a, b]
            .into_iter()
            .any(|operand| matches!(value(operand), Some(Value::Temporal(_)))),
        // Pythia capitalizes parts of language tags.
        E::FunctionCall(Function::Lang, _) => {
            matches!(&outcome, Some(Value::String(tag)) if tag.contains('-'))
        }
        E::Divide(a, b) => divides_otherwise(value(a), value(b)),
        _ => false,
    };
    let mut inner = operands(expression).into_iter();
    excused || inner.any(|inner| excuse(inner, case, row))
}

/// Returns the argument and the target type of a cast.
fn as_cast(expression: &Expression) -> Option<(&Expression, NamedNodeRef<'static>)> {
    match expression {
        Expression::FunctionCall(Function::Custom(name), arguments) => {
            Some((arguments.first()?, super::cast::target(name.as_str())?))
        }
        _ => None,
    }
}

/// Returns whether Oxigraph's library does not convert a decimal to the nearest floating-point number.
fn converts_otherwise(number: Number) -> bool {
    let Number::Decimal(decimal) = number else {
        return false;
    };
    number.to_double() != Double::from(decimal) || number.to_float() != Float::from(decimal)
}

/// Returns whether Oxigraph's library cannot divide these: the dividend is zero or takes too many
/// intermediate digits.
fn divides_otherwise(dividend: Option<Value<'_>>, divisor: Option<Value<'_>>) -> bool {
    let (Some(Value::Number(dividend)), Some(Value::Number(divisor))) = (dividend, divisor) else {
        return false;
    };
    let exact = |number: Number| match number {
        Number::Integer(value) => Some(Decimal::from(value)),
        Number::Decimal(value) => Some(value),
        Number::Float(_) | Number::Double(_) => None,
    };
    let decimals = exact(dividend).zip(exact(divisor));
    let overflows = decimals.is_some_and(|(a, b)| a.checked_div(b).is_none());
    !dividend.to_bool() || overflows
}

/// Checks all casts between numbers in an expression by exact arithmetic.
fn check_casts(expression: &Expression, case: &Case, what: &dyn Fn() -> String) -> u64 {
    let mut count = 0;
    if let Some((argument, target)) = as_cast(expression) {
        let outcomes = case.evaluate(expression);
        for (before, after) in case.evaluate(argument).iter().zip(&outcomes) {
            count += u64::from(numerics::check_cast(
                before.as_ref(),
                target,
                after.as_ref(),
                what,
            ));
        }
    }
    let inner = operands(expression).into_iter();
    count
        + inner
            .map(|inner| check_casts(inner, case, what))
            .sum::<u64>()
}

/// Returns the operands of an expression.
fn operands(expression: &Expression) -> Vec<&Expression> {
    use Expression as E;
    match expression {
        E::And(a, b)
        | E::Or(a, b)
        | E::Equal(a, b)
        | E::SameTerm(a, b)
        | E::Less(a, b)
        | E::LessOrEqual(a, b)
        | E::Greater(a, b)
        | E::GreaterOrEqual(a, b)
        | E::Add(a, b)
        | E::Subtract(a, b)
        | E::Multiply(a, b)
        | E::Divide(a, b) => vec![a, b],
        E::Not(a) | E::UnaryMinus(a) | E::UnaryPlus(a) => vec![a],
        E::If(a, b, c) => vec![a, b, c],
        E::In(a, list) => std::iter::once(&**a).chain(list).collect(),
        E::Coalesce(list) | E::FunctionCall(_, list) => list.iter().collect(),
        E::NamedNode(_) | E::Literal(_) | E::Variable(_) | E::Bound(_) | E::Exists(_) => Vec::new(),
    }
}

/// Returns whether two operands are dates of which one lacks a timezone, by themselves or in triple terms.
fn unknown_equality(a: &Expression, b: &Expression, case: &Case, row: usize) -> bool {
    let value = |operand| Some(Value::from(case.evaluate(operand).remove(row)?));
    match (value(a), value(b)) {
        (Some(Value::Temporal(a)), Some(Value::Temporal(b))) => a.equals(b).is_none(),
        (Some(Value::Triple(_)), Some(Value::Triple(_))) => true,
        _ => false,
    }
}

pub(super) fn number_from(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn shown(term: &Option<Term>) -> String {
    term.as_ref()
        .map_or_else(|| "nothing".to_owned(), Term::to_string)
}

#[test]
fn expressions_agree_with_oxigraph() {
    const ROWS: usize = 6;
    let cases = number_from("PYTHIA_EXPRESSION_CASES", 3000);
    let first_seed = number_from("PYTHIA_EXPRESSION_SEED", 1);
    let store = Store::new().expect("a store");
    let (mut bound, mut excused, mut casts) = (0_u64, 0_u64, 0_u64);
    let mut failures = Vec::new();
    for seed in first_seed..first_seed + cases {
        let mut generator = Generator {
            random: StdRng::seed_from_u64(seed),
        };
        let rows = generator.rows(ROWS);
        let depth = generator.random.random_range(1..4);
        let text = generator.expression(depth, Wanted::Any);
        let case = Case::new(&rows, &mut generator.random);
        let query = format!(
            "{PREFIXES} SELECT ?row ({text} AS ?result) {{ {} }}",
            case.values
        );
        let Ok(Query::Select { pattern, .. }) = SparqlParser::new().parse_query(&query) else {
            panic!("seed {seed}: {text} is no expression");
        };
        let expression = extension(&pattern);
        let ours = case.evaluate(expression);
        casts += check_casts(expression, &case, &|| format!("seed {seed}: {text}"));
        for (row, theirs) in oxigraph(&store, &query) {
            let row = case
                .terms
                .iter()
                .position(|terms| terms[0] == row)
                .expect("a row");
            bound += u64::from(theirs.is_some());
            if ours[row] == theirs {
                continue;
            }
            if excuse(expression, &case, row) {
                excused += 1;
                continue;
            }
            failures.push(format!(
                "seed {seed}: {text}\n  row {}\n  ours {}, Oxigraph's {}",
                rows[row].join(" "),
                shown(&ours[row]),
                shown(&theirs)
            ));
            break;
        }
    }
    let total = cases * ROWS as u64;
    println!(
        "{total} outcomes, {bound} of them terms, {excused} intended differences, \
         {casts} casts of numbers checked by exact arithmetic"
    );
    let count = failures.len();
    failures.truncate(15);
    assert!(
        failures.is_empty(),
        "{count} differences:\n{}",
        failures.join("\n")
    );
    assert!(
        bound * 4 > total,
        "most expressions are errors: the test says little"
    );
}

#[test]
fn aggregates_agree_with_oxigraph() {
    let cases = number_from("PYTHIA_EXPRESSION_CASES", 1000);
    let first_seed = number_from("PYTHIA_EXPRESSION_SEED", 1);
    let store = Store::new().expect("a store");
    for seed in first_seed..first_seed + cases {
        let mut generator = Generator {
            random: StdRng::seed_from_u64(seed),
        };
        let count = generator.random.random_range(0..7);
        let mut rows = generator.rows(count);
        if generator.random.random_bool(0.5) {
            // Errors make most aggregates errors, so half of the cases have none.
            rows.retain(|row| !row.iter().any(|text| text == "UNDEF"));
        }
        let name = generator.pick(&["COUNT", "SUM", "AVG", "GROUP_CONCAT", "COUNT", "SAMPLE"]);
        let distinct = generator.pick(&["", "DISTINCT "]);
        let argument = match name {
            "GROUP_CONCAT" => "COALESCE(CONCAT(?s, \"\"), STR(?n))".to_owned(),
            "COUNT" => generator.pick(&["?x", "?n", "*"]).to_owned(),
            "SUM" | "AVG" => generator.expression(1, Wanted::Number),
            _ => generator.expression(1, Wanted::Any),
        };
        let separator = match name {
            "GROUP_CONCAT" => generator.pick(&["", "; SEPARATOR = \", \""]),
            _ => "",
        };
        let case = Case::new(&rows, &mut generator.random);
        let aggregate = format!("{name}({distinct}{argument}{separator})");
        let query = format!(
            "{PREFIXES} SELECT ({aggregate} AS ?result) {{ {} }}",
            case.values
        );
        let Ok(Query::Select { pattern, .. }) = SparqlParser::new().parse_query(&query) else {
            panic!("seed {seed}: {query}");
        };
        let compiled = CompiledAggregate::compile(
            grouping(&pattern),
            &variables(&COLUMNS),
            &case.context,
            &no_exists,
        )
        .expect("compiled");
        let share = |_| Share::new(case.context.governor());
        let mut accumulators =
            CompiledAggregate::accumulators(&[compiled].into(), COLUMNS.len(), share);
        let mut accumulator = accumulators.remove(0);
        // In two batches, the second of one row.
        let cut = case.terms.len().saturating_sub(1);
        for range in [0..cut, cut..case.terms.len()] {
            let columns: Vec<&[u64]> = case
                .columns
                .iter()
                .map(|column| &column[range.clone()])
                .collect();
            let groups = vec![0; range.len()];
            accumulator
                .update(&groups, 1, &columns, &case.context)
                .expect("updated");
        }
        accumulator.finish(1, &case.context).expect("finished");
        let outcomes = accumulator.outcomes(0..1, &case.context);
        let ours = case.decode(&outcomes.expect("outcomes"));
        if matches!(ours[0].clone().map(Value::from), Some(Value::Exact(_))) {
            continue;
        }
        let theirs = oxigraph(&store, &query).remove(0).1;
        if let AggregateExpression::FunctionCall { expr, .. } = grouping(&pattern)
            && (0..case.terms.len()).any(|row| excuse(expr, &case, row))
        {
            continue;
        }
        if are_near_floats(ours[0].as_ref(), theirs.as_ref()) {
            continue;
        }
        assert_eq!(
            shown(&ours[0]),
            shown(&theirs),
            "seed {seed}: {aggregate} over {rows:?}"
        );
    }
}

/// Returns whether both are floats that differ in the last digits at most: Oxigraph rounds after each addition.
fn are_near_floats(ours: Option<&Term>, theirs: Option<&Term>) -> bool {
    let float = |term: Option<&Term>| match term.cloned().map(Value::from)? {
        Value::Number(Number::Float(float)) => Some(f32::from(float)),
        _ => None,
    };
    float(ours)
        .zip(float(theirs))
        .is_some_and(|(ours, theirs)| (ours - theirs).abs() <= ours.abs() * 1e-6)
}

fn grouping(pattern: &GraphPattern) -> &AggregateExpression {
    match pattern {
        GraphPattern::Group { aggregates, .. } => &aggregates[0].1,
        GraphPattern::Project { inner, .. } | GraphPattern::Extend { inner, .. } => grouping(inner),
        other => panic!("no aggregate in {other}"),
    }
}
