use oxrdf::{Literal, Term};
use spargebra::algebra::GraphPattern;

use super::*;
use crate::expression::exists::no_exists;
use crate::expression::testing::{context, term, variables};
use crate::limits::governor::Governor;

fn aggregate(text: &str) -> AggregateExpression {
    let query = format!(
        "PREFIX agg: <http://jena.apache.org/ARQ/function/aggregate#> PREFIX own: <urn:pythia:aggregate#> \
         PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> SELECT ({text} AS ?result) {{ }}"
    );
    let query = pythia_sparql::Query::parse(&query, None).expect("a query");
    let spargebra::Query::Select { mut pattern, .. } = query.algebra().clone() else {
        panic!("no SELECT");
    };
    loop {
        pattern = match pattern {
            GraphPattern::Project { inner, .. } | GraphPattern::Extend { inner, .. } => *inner,
            GraphPattern::Group { mut aggregates, .. } => return aggregates.remove(0).1,
            other => panic!("no aggregate in {other}"),
        };
    }
}

/// Returns the accumulator of an aggregate over rows of one column.
fn accumulator(compiled: CompiledAggregate, context: &EvaluationContext) -> Accumulator {
    let share = |_| Share::new(context.governor());
    CompiledAggregate::accumulators(&[compiled].into(), 1, share).remove(0)
}

/// Returns the results of groups 0, 1, … of rows `(group, ?x)`.
fn outcomes(text: &str, rows: &[(u32, &str)], group_count: usize) -> Vec<String> {
    let bound = rows
        .iter()
        .filter(|(_, text)| *text != "UNDEF")
        .map(|(_, text)| term(text));
    let context = context(bound.step_by(2).collect::<Vec<_>>());
    let compiled =
        CompiledAggregate::compile(&aggregate(text), &variables(&["x"]), &context, &no_exists);
    let compiled = compiled.expect("compiled");
    let mut accumulator = accumulator(compiled, &context);
    for batch in rows.chunks(2) {
        let groups: Vec<u32> = batch.iter().map(|(group, _)| *group).collect();
        let ids = batch.iter().map(|(_, text)| match *text {
            "UNDEF" => 0,
            text => context.intern(term(text)).expect("interned").0,
        });
        let ids: Vec<u64> = ids.collect();
        accumulator
            .update(&groups, group_count, &[&ids], &context)
            .expect("updated");
    }
    accumulator.finish(group_count, &context).expect("finished");
    let ids = accumulator
        .outcomes(0..group_count, &context)
        .expect("outcomes");
    ids.into_iter()
        .map(|id| match id {
            0 => "nothing".to_owned(),
            id => context.decode(&[TermId(id)]).expect("decoded")[0].to_string(),
        })
        .collect()
}

fn check(text: &str, rows: &[(u32, &str)], expected: &[&str]) {
    let shown = |text: &&str| match *text {
        "nothing" => "nothing".to_owned(),
        text => Term::to_string(&term(text)),
    };
    let expected: Vec<String> = expected.iter().map(shown).collect();
    assert_eq!(
        outcomes(text, rows, expected.len()),
        expected,
        "{text} over {rows:?}"
    );
}

#[test]
fn empty_groups_have_the_neutral_outcome() {
    for (text, expected) in [
        ("COUNT(*)", "0"),
        ("COUNT(?x)", "0"),
        ("SUM(?x)", "0"),
        ("AVG(?x)", "0"),
        ("MIN(?x)", "nothing"),
        ("SAMPLE(?x)", "nothing"),
        ("GROUP_CONCAT(?x)", "\"\""),
        ("agg:stdev(?x)", "nothing"),
        ("agg:var_pop(?x)", "nothing"),
        ("own:median(?x)", "nothing"),
        ("own:percentile-95(?x)", "nothing"),
        ("own:mode(?x)", "nothing"),
    ] {
        check(text, &[], &[expected]);
    }
}

#[test]
fn counts() {
    let rows = [
        (0, "1"),
        (1, "1"),
        (0, "UNDEF"),
        (0, "1"),
        (0, "1.0"),
        (1, "2"),
    ];
    check("COUNT(*)", &rows, &["4", "2"]);
    check("COUNT(DISTINCT *)", &rows, &["3", "2"]);
    check("COUNT(?x)", &rows, &["3", "2"]);
    check("COUNT(DISTINCT ?x)", &rows, &["2", "2"]);
    check("COUNT(1/(?x - 1))", &rows, &["0", "1"]);
}

#[test]
fn sums_promote_and_errors_spread() {
    let rows = [
        (0, "1"),
        (1, "1"),
        (0, "0.5"),
        (1, "\"a\""),
        (0, "1"),
        (2, "\"2\"^^<http://www.w3.org/2001/XMLSchema#byte>"),
    ];
    check("SUM(?x)", &rows, &["2.5", "nothing", "2"]);
    check("SUM(DISTINCT ?x)", &rows, &["1.5", "nothing", "2"]);
    check(
        "AVG(?x)",
        &rows,
        &[
            "0.833333333333333333",
            "nothing",
            "\"2\"^^<http://www.w3.org/2001/XMLSchema#decimal>",
        ],
    );
    check(
        "SUM(?x)",
        &[(0, "9223372036854775807"), (0, "1")],
        &["9223372036854775808"],
    );
    check("SUM(?x)", &[(0, "UNDEF"), (0, "1")], &["nothing"]);
}

#[test]
fn floats_are_added_in_double_precision() {
    let float = |number: &str| format!("\"{number}\"^^<http://www.w3.org/2001/XMLSchema#float>");
    let (large, one, sum) = (float("16777216"), float("1"), float("16777218"));
    let rows = [(0, large.as_str()), (0, one.as_str()), (0, one.as_str())];
    check("SUM(?x)", &rows, &[sum.as_str()]);
    check("AVG(?x)", &rows, &[float("5592406").as_str()]);
    // A double among them makes a double, whichever is first.
    let double = "\"16777218\"^^<http://www.w3.org/2001/XMLSchema#double>";
    check("SUM(?x)", &[(0, &large), (0, "2e0")], &[double]);
    check("SUM(?x)", &[(0, "2e0"), (0, &large)], &[double]);
    check("SUM(?x)", &[(0, "1"), (0, &one)], &[float("2").as_str()]);
}

#[test]
fn extremes_give_the_term_back() {
    let rows = [
        (0, "2"),
        (0, "01"),
        (0, "1.5"),
        (1, "\"b\""),
        (1, "\"a\"@en"),
        (1, "\"c\""),
        (2, "UNDEF"),
        (2, "1"),
    ];
    check("MIN(?x)", &rows, &["01", "\"a\"@en", "nothing"]);
    check("MAX(?x)", &rows, &["2", "\"c\"", "nothing"]);
    check(
        "MAX(DISTINCT ?x)",
        &[(0, "<urn:a>"), (0, "1"), (0, "\"z\"")],
        &["1"],
    );
    check("SAMPLE(?x)", &rows, &["2", "\"b\"", "1"]);
    check("MIN(STRLEN(?x))", &[(0, "\"abc\""), (0, "\"d\"")], &["1"]);
}

#[test]
fn concatenation() {
    let rows = [
        (0, "\"a\""),
        (0, "\"b\""),
        (0, "\"a\""),
        (1, "\"a\"@en"),
        (1, "\"b\"@en"),
        (2, "1"),
    ];
    check(
        "GROUP_CONCAT(?x)",
        &rows,
        &["\"a b a\"", "\"a b\"", "\"1\""],
    );
    check(
        "GROUP_CONCAT(DISTINCT ?x; SEPARATOR=\"\")",
        &rows,
        &["\"ab\"", "\"ab\"", "\"1\""],
    );
    check(
        "GROUP_CONCAT(STR(?x))",
        &rows,
        &["\"a b a\"", "\"a b\"", "\"1\""],
    );
}

/// Adds rows of these terms to the groups in turn.
fn add(
    text: &str,
    terms: Vec<Term>,
    groups: usize,
    context: &EvaluationContext,
) -> Result<(), QueryError> {
    let columns = variables(&["x"]);
    let compiled = CompiledAggregate::compile(&aggregate(text), &columns, context, &no_exists)?;
    let mut accumulator = accumulator(compiled, context);
    let rows = 0..terms.len();
    let of_row: Vec<u32> = rows.map(|row| (row % groups) as u32).collect();
    let resolved = |term: &Term| context.resolver().resolve(term.as_ref());
    let ids = terms
        .iter()
        .map(|term| resolved(term).map(|id| id.expect("a stored term").0));
    let ids: Vec<u64> = ids.collect::<Result<_, _>>()?;
    accumulator.update(&of_row, groups, &[&ids], context)?;
    accumulator.finish(groups, context)
}

#[test]
fn long_sums_of_many_groups_are_charged_for() {
    let long = "7".repeat(8000);
    let value = term(&long);
    for text in ["SUM(?x)", "AVG(?x)"] {
        for (groups, fits) in [(50, true), (2000, false)] {
            let governor = Arc::new(Governor::with_memory(1 << 20));
            let context = context([value.clone()]).with_governor(Arc::clone(&governor));
            let added = add(text, vec![value.clone(); 2000], groups, &context);
            match added {
                Ok(()) => assert!(fits, "{text}"),
                Err(QueryError::Memory(_)) => assert!(!fits, "{text}"),
                Err(error) => panic!("{error}"),
            }
            assert!(governor.memory_used() < 1 << 16, "it was given back");
        }
    }
}

#[test]
fn arguments_of_large_batches_are_evaluated_in_parts() {
    let text = |row: usize| Literal::new_simple_literal(format!("{row:01000}")).into();
    let terms: Vec<Term> = (0..16_384).map(text).collect();
    for aggregate in ["COUNT(STRLEN(?x))", "MAX(STRLEN(?x))", "MIN(?x)"] {
        let governor = Arc::new(Governor::with_memory(8 << 20));
        let context = context(terms.clone()).with_governor(governor);
        add(aggregate, terms.clone(), 1, &context).expect(aggregate);
    }
}

#[test]
fn statistics_take_numbers_of_all_types() {
    let rows = [
        (0, "2"),
        (0, "\"4\"^^<http://www.w3.org/2001/XMLSchema#float>"),
        (0, "4.0"),
        (0, "4e0"),
        (0, "5"),
        (0, "5"),
        (0, "7"),
        (0, "\"9\"^^<http://www.w3.org/2001/XMLSchema#byte>"),
        (1, "1"),
        (2, "1"),
        (2, "\"a\""),
        (3, "1"),
        (3, "UNDEF"),
        (4, "<urn:a>"),
    ];
    let nothing = ["nothing"; 3];
    let double = |text: &str| match text {
        "nothing" => text.to_owned(),
        text => Literal::from(text.parse::<f64>().expect("a number")).to_string(),
    };
    for (text, first, single) in [
        ("agg:var_pop(?x)", "4.0E0", "0.0E0"),
        ("agg:stdev_pop(?x)", "2.0E0", "0.0E0"),
        ("agg:variance(?x)", "4.571428571428571E0", "nothing"),
        ("agg:var_samp(?x)", "4.571428571428571E0", "nothing"),
        ("agg:stdev(?x)", "2.138089935299395E0", "nothing"),
        ("agg:stdev_samp(?x * 1.0)", "2.138089935299395E0", "nothing"),
        ("own:median(?x)", "4.5E0", "1.0E0"),
        ("own:percentile-25(?x)", "4.0E0", "1.0E0"),
        ("own:percentile-99.5(?x)", "8.93E0", "1.0E0"),
        // Equal numbers are different terms, except for the two fives.
        ("agg:var_pop(DISTINCT ?x)", "4.571428571428571E0", "0.0E0"),
        ("own:median(DISTINCT ?x)", "4.0E0", "1.0E0"),
        ("agg:stdev(DISTINCT 1 || ?x)", "nothing", "nothing"),
    ] {
        let (first, single) = (double(first), double(single));
        let expected = [&[&*first, &*single][..], &nothing].concat();
        check(text, &rows, &expected);
    }
    let long = "1".repeat(60);
    check(
        "own:median(?x)",
        &[(0, &long), (0, "1")],
        &[&format!(
            "\"{}\"^^<http://www.w3.org/2001/XMLSchema#double>",
            5.555_555_555_555_556e58
        )],
    );
}

#[test]
fn modes_are_terms() {
    let rows = [
        (0, "<urn:b>"),
        (0, "<urn:a>"),
        (0, "<urn:b>"),
        (0, "1"),
        // Ties: the first in the order of ORDER BY, or by spelling.
        (1, "\"b\""),
        (1, "\"a\"@en"),
        (1, "7"),
        (1, "<urn:z>"),
        (2, "1.0"),
        (2, "01"),
        (2, "1"),
        (2, "1e0"),
        (2, "2"),
        (3, "UNDEF"),
        (3, "1"),
        (4, "2"),
        (4, "10"),
    ];
    let second = "\"01\"^^<http://www.w3.org/2001/XMLSchema#integer>";
    check(
        "own:mode(?x)",
        &rows,
        &["<urn:b>", "<urn:z>", second, "nothing", "2"],
    );
    check(
        "own:mode(DISTINCT ?x)",
        &rows,
        &["<urn:a>", "<urn:z>", second, "nothing", "2"],
    );
    check(
        "own:mode(?x + 1)",
        &rows[15..],
        &["nothing", "nothing", "nothing", "nothing", "3"],
    );
    let backwards: Vec<(u32, &str)> = rows.iter().rev().copied().collect();
    check(
        "own:mode(?x)",
        &backwards,
        &["<urn:b>", "<urn:z>", second, "nothing", "2"],
    );
}

#[test]
fn statistics_of_many_values_are_charged_for() {
    let number = |n: usize| Literal::new_simple_literal(format!("{n:05}")).into();
    let terms: Vec<Term> = (0..60_000).map(number).collect();
    for (text, memory, fits) in [
        ("own:mode(?x)", 8 << 20, true),
        ("own:mode(?x)", 1 << 20, false),
        ("own:median(xsd:integer(?x))", 8 << 20, true),
        ("own:median(xsd:integer(?x))", 1 << 20, false),
        ("own:median(FLOOR(xsd:integer(?x) / 1000))", 1 << 20, true),
        ("agg:stdev(xsd:integer(?x))", 1 << 20, true),
    ] {
        let governor = Arc::new(Governor::with_memory(memory));
        let context = context(terms.clone()).with_governor(Arc::clone(&governor));
        match add(text, terms.clone(), 10, &context) {
            Ok(()) => assert!(fits, "{text}"),
            Err(QueryError::Memory(_)) => assert!(!fits, "{text}"),
            Err(error) => panic!("{error}"),
        }
        assert!(governor.memory_used() < 1 << 16, "it was given back");
    }
}

#[test]
fn other_aggregates_are_refused_by_name() {
    let name = oxrdf::NamedNode::new_unchecked("http://e/sum");
    let aggregate = AggregateExpression::FunctionCall {
        name: AggregateFunction::Custom(name),
        expr: spargebra::algebra::Expression::Literal(1.into()),
        distinct: false,
    };
    let error = CompiledAggregate::compile(&aggregate, &[], &context([]), &no_exists).err();
    let message = error.expect("refused").to_string();
    assert!(message.contains("<http://e/sum>"), "{message}");
}
