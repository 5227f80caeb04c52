//! Tests of expressions as in a query: compiled from text, run over columns of ids.

use std::num::NonZero;
use std::sync::Arc;

use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNode, Term, Triple};
use pythia_rdf::key::KeyParts;
use pythia_rdf::{TermId, TermKind};

use super::testing::{context, expression, term, variables};
use super::*;
use crate::limits::cores::Cores;
use crate::limits::governor::Governor;

/// Returns the result of an expression without variables, in N-Triples syntax.
fn outcome(text: &str) -> Option<String> {
    outcome_in(text, &context([]))
}

fn outcome_in(text: &str, context: &EvaluationContext) -> Option<String> {
    let compiled = CompiledExpression::compile(&expression(text), &[], context)
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let ids = compiled.evaluate_ids(&[], 1, context).expect("evaluated");
    assert_eq!(ids.len(), 1);
    (ids[0] != 0).then(|| context.decode(&[TermId(ids[0])]).expect("decoded")[0].to_string())
}

/// Returns the results for each of some terms as `?x`; `None` in the list is unbound.
fn outcomes(text: &str, terms: &[Option<Term>]) -> Vec<Option<String>> {
    let context = context(terms.iter().flatten().cloned());
    let ids: Vec<u64> = terms
        .iter()
        .map(|term| {
            term.clone()
                .map_or(0, |term| context.intern(term).expect("interned").0)
        })
        .collect();
    let compiled = CompiledExpression::compile(&expression(text), &variables(&["x"]), &context)
        .expect("compiled");
    let ids = compiled
        .evaluate_ids(&[&ids], ids.len(), &context)
        .expect("evaluated");
    ids.into_iter()
        .map(|id| (id != 0).then(|| context.decode(&[TermId(id)]).expect("decoded")[0].to_string()))
        .collect()
}

fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let expected = (*expected != "error").then(|| term(expected).to_string());
        assert_eq!(outcome(text), expected, "{text}");
    }
}

#[test]
fn logic_has_three_values() {
    check(&[
        ("true && (1/0 = 1)", "error"),
        ("false && (1/0 = 1)", "false"),
        ("(1/0 = 1) && false", "false"),
        ("true || (1/0 = 1)", "true"),
        ("(1/0 = 1) || false", "error"),
        ("!(1/0 = 1)", "error"),
        ("!\"\"", "true"),
        ("IF(1/0 = 1, 1, 2)", "error"),
        ("IF(\"a\", 1, 1/0)", "1"),
        ("COALESCE(1/0, ?nothing, 3)", "3"),
        ("COALESCE()", "error"),
        ("2 IN (1/0, 2)", "true"),
        ("3 IN (1/0, 2)", "error"),
        ("3 NOT IN (1, 2)", "true"),
        ("3 IN ()", "false"),
        ("BOUND(?nothing)", "false"),
    ]);
}

#[test]
fn spelling_is_kept_and_computed_values_are_canonical() {
    check(&[
        ("01", "01"),
        ("+01", "1"),
        ("STR(01)", "\"01\""),
        ("STR(1.50)", "\"1.50\""),
        ("xsd:string(1.50)", "\"1.5\""),
        ("IF(true, 01, 2)", "01"),
        ("COALESCE(?x, 01)", "01"),
        ("STRDT(\"01\", xsd:integer)", "01"),
        ("OBJECT(TRIPLE(<urn:s>, <urn:p>, 01))", "01"),
        (
            "DATATYPE(\"1\"^^xsd:byte)",
            "<http://www.w3.org/2001/XMLSchema#byte>",
        ),
        ("\"1\"^^xsd:byte + 1", "2"),
        ("SAMETERM(01, 1)", "false"),
        ("01 = 1", "true"),
        ("STRLANG(\"a\", \"EN\")", "\"a\"@en"),
    ]);
}

#[test]
fn variables_pass_through_unchanged() {
    let terms = [
        "01",
        "1.50",
        "\"a\"@en",
        "<urn:a>",
        "\"2024-01-01T00:00:00.1230Z\"^^xsd:dateTime",
    ];
    let terms: Vec<Option<Term>> = terms
        .iter()
        .map(|text| Some(term(text)))
        .chain([None])
        .collect();
    let expected: Vec<_> = terms
        .iter()
        .map(|term| Some(term.as_ref()?.to_string()))
        .collect();
    assert_eq!(outcomes("?x", &terms), expected);
    assert_eq!(outcomes("COALESCE(?x, ?y)", &terms), expected);
    assert_eq!(outcomes("IF(BOUND(?x), ?x, ?x)", &terms), expected);
}

#[test]
fn strings() {
    check(&[
        ("STRLEN(\"日本\"@ja)", "2"),
        ("SUBSTR(\"foobar\"@en, 4)", "\"bar\"@en"),
        ("SUBSTR(\"foobar\", 4, 1)", "\"b\""),
        ("SUBSTR(\"foobar\", 1.5)", "error"),
        ("UCASE(\"straße\")", "\"STRASSE\""),
        ("CONCAT(\"a\"@en, \"b\"@en)", "\"ab\"@en"),
        ("CONCAT(\"a\"@en, \"b\")", "\"ab\""),
        ("CONCAT()", "\"\""),
        ("CONCAT(\"a\", 1)", "error"),
        ("STRBEFORE(\"abc\"@en, \"b\")", "\"a\"@en"),
        ("STRBEFORE(\"abc\"@en, \"z\"@en)", "\"\""),
        ("STRAFTER(\"abc\", \"\")", "\"abc\""),
        ("STRAFTER(\"abc\"@en, \"b\"@fr)", "error"),
        ("CONTAINS(\"abc\"@en, \"b\")", "true"),
        ("STRSTARTS(\"abc\", \"b\"@en)", "error"),
        ("ENCODE_FOR_URI(\"a b\"@en)", "\"a%20b\""),
        ("REPLACE(\"abcb\"@en, \"b\", \"Z\")", "\"aZcZ\"@en"),
        ("REPLACE(\"abc\", \"(a)(b)\", \"$2$1\")", "\"bac\""),
        ("REGEX(\"Alice\", \"^ali\", \"i\")", "true"),
        ("REGEX(1, \"1\")", "error"),
        ("REGEX(\"a\", \"(\")", "error"),
        ("LANGMATCHES(LANG(\"a\"@de-CH), \"de\")", "true"),
        ("LANG(\"a\")", "\"\""),
        ("LANG(<urn:a>)", "error"),
        ("MD5(\"abc\")", "\"900150983cd24fb0d6963f7d28e17f72\""),
        ("SHA1(\"abc\"@en)", "error"),
        ("STRDT(\"a\"@en, xsd:string)", "error"),
    ]);
}

#[test]
fn directions_and_triple_terms() {
    check(&[
        ("LANGDIR(\"a\"@ar--rtl)", "\"rtl\""),
        ("HASLANGDIR(\"a\"@ar)", "false"),
        ("HASLANG(\"a\"@ar--rtl)", "true"),
        ("STRLANGDIR(\"a\", \"ar\", \"rtl\")", "\"a\"@ar--rtl"),
        ("STRLANGDIR(\"a\", \"ar\", \"RTL\")", "error"),
        ("ISTRIPLE(TRIPLE(<urn:s>, <urn:p>, 1))", "true"),
        ("SUBJECT(TRIPLE(<urn:s>, <urn:p>, 1))", "<urn:s>"),
        ("TRIPLE(\"s\", <urn:p>, 1)", "error"),
        (
            "TRIPLE(<urn:s>, <urn:p>, 1) = TRIPLE(<urn:s>, <urn:p>, 1.0)",
            "true",
        ),
        (
            "SAMETERM(TRIPLE(<urn:s>, <urn:p>, 1), TRIPLE(<urn:s>, <urn:p>, 1.0))",
            "false",
        ),
        ("OBJECT(1)", "error"),
    ]);
}

#[test]
fn numbers_and_casts() {
    check(&[
        ("1 + 2.0", "\"3\"^^xsd:decimal"),
        ("7 / 2", "3.5"),
        ("9223372036854775807 + 1", "9223372036854775808"),
        ("ROUND(2.5)", "\"3\"^^xsd:decimal"),
        ("ROUND(-2.5e0)", "\"-2\"^^xsd:double"),
        ("CEIL(\"a\")", "error"),
        ("ABS(-1)", "1"),
        ("-\"1\"", "error"),
        ("xsd:integer(\" 12 \")", "12"),
        ("xsd:integer(\"1.5\")", "error"),
        ("xsd:integer(1.9)", "1"),
        ("xsd:boolean(\"1\")", "true"),
        ("xsd:boolean(\"yes\")", "error"),
        ("xsd:double(\"infinity\")", "error"),
        ("xsd:string(<urn:a>)", "\"urn:a\""),
        (
            "xsd:dateTime(\"2024-01-01T00:00:00Z\")",
            "\"2024-01-01T00:00:00Z\"^^xsd:dateTime",
        ),
        (
            "xsd:date(\"2024-01-01T10:00:00Z\"^^xsd:dateTime)",
            "\"2024-01-01Z\"^^xsd:date",
        ),
        ("1 < \"NaN\"^^xsd:double", "false"),
        ("false < true", "true"),
    ]);
}

#[test]
fn dates() {
    check(&[
        ("NOW()", "\"2024-05-06T07:08:09Z\"^^xsd:dateTime"),
        ("YEAR(NOW()) + MONTH(NOW()) + DAY(NOW())", "2035"),
        ("HOURS(NOW()) * 100 + MINUTES(NOW())", "708"),
        ("SECONDS(\"2024-01-01T00:00:01.5Z\"^^xsd:dateTime)", "1.5"),
        ("TZ(NOW())", "\"Z\""),
        ("TZ(\"2024-01-01T00:00:00\"^^xsd:dateTime)", "\"\""),
        ("TIMEZONE(\"2024-01-01T00:00:00\"^^xsd:dateTime)", "error"),
        (
            "TIMEZONE(\"2024-01-01T00:00:00-05:00\"^^xsd:dateTime)",
            "\"-PT5H\"^^xsd:dayTimeDuration",
        ),
        (
            "\"2024-01-01\"^^xsd:date < \"2024-01-02\"^^xsd:date",
            "true",
        ),
        ("TZ(xsd:gMonthDay(\"2024-02-29Z\"^^xsd:date))", "\"Z\""),
        ("SUBSTR(\"a\", 9223372036854775807, 2)", "\"\""),
        (
            "xsd:yearMonthDuration(\"P1D\"^^xsd:dayTimeDuration)",
            "\"P0M\"^^xsd:yearMonthDuration",
        ),
        (
            "\"P1M\"^^xsd:yearMonthDuration + \"2024-01-31\"^^xsd:date",
            "\"2024-02-29\"^^xsd:date",
        ),
        (
            "\"2024-01-31\"^^xsd:date + \"P1M\"^^xsd:yearMonthDuration",
            "\"2024-02-29\"^^xsd:date",
        ),
    ]);
}

#[test]
fn iris_resolve_against_the_base() {
    let base = oxiri::Iri::parse("http://example.org/a/b".to_owned()).expect("an IRI");
    let context = context([]).with_base_iri(Some(base));
    assert_eq!(
        outcome_in("IRI(\"c\")", &context).as_deref(),
        Some("<http://example.org/a/c>")
    );
    assert_eq!(outcome("IRI(\"c\")"), None);
    assert_eq!(outcome("IRI(\"urn:c\")").as_deref(), Some("<urn:c>"));
    assert_eq!(outcome("IRI(\"urn:c\"@en)"), None);
}

#[test]
fn blank_nodes_are_one_per_text_and_solution() {
    let context = context([term("<urn:1>"), term("<urn:2>")]);
    let ids = [
        TermId::new(TermKind::Iri, 0).0,
        TermId::new(TermKind::Iri, 1).0,
    ];
    let columns = variables(&["x"]);
    let evaluate = |text: &str| {
        let compiled = CompiledExpression::compile(&expression(text), &columns, &context);
        compiled
            .expect("compiled")
            .evaluate_ids(&[&ids], 2, &context)
            .expect("evaluated")
    };
    let a = evaluate("BNODE(\"a\")");
    assert_ne!(a[0], a[1]);
    assert_eq!(a, evaluate("BNODE(CONCAT(\"\", \"a\"))"));
    assert_ne!(a[0], evaluate("BNODE(\"b\")")[0]);
    assert_ne!(evaluate("BNODE()"), evaluate("BNODE()"));
    assert_eq!(outcome("BNODE(1)"), None);
}

#[test]
fn custom_functions_see_terms() {
    let name = NamedNode::new_unchecked("urn:spelling");
    let spell: CustomFunction = std::sync::Arc::new(|arguments| match arguments {
        [Term::Literal(literal)] => Some(Literal::new_simple_literal(literal.value()).into()),
        _ => None,
    });
    let functions = std::iter::once((name, spell)).collect();
    let context = context([]).with_functions(std::sync::Arc::new(functions));
    assert_eq!(
        outcome_in("<urn:spelling>(01)", &context).as_deref(),
        Some("\"01\"")
    );
    assert_eq!(outcome_in("<urn:spelling>(1/0)", &context), None);
}

#[test]
fn what_is_not_supported_says_so() {
    let context = context([]);
    for text in ["xsd:integer(1, 2)", "EXISTS { ?s ?p ?o }"] {
        let compiled = CompiledExpression::compile(&expression(text), &[], &context);
        assert!(
            matches!(compiled, Err(QueryError::Unsupported { .. })),
            "{text}"
        );
    }
    let deep = "(".repeat(40) + "1" + &")".repeat(40);
    assert_eq!(outcome(&deep).as_deref(), outcome("1").as_deref());
    let chain = |count: usize| expression(&vec!["?x"; count].join(" + "));
    let columns = variables(&["x"]);
    let compiled = CompiledExpression::compile(&chain(250), &columns, &context).expect("compiled");
    let one = context.intern(term("1")).expect("interned").0;
    let sum = compiled
        .evaluate_ids(&[&[one]], 1, &context)
        .expect("evaluated");
    assert_eq!(sum, [context.intern(term("250")).expect("interned").0]);
    let compiled = CompiledExpression::compile(&chain(1000), &columns, &context);
    assert!(matches!(compiled, Err(QueryError::Unsupported { .. })));
    let long = vec!["?x = 1"; 3000].join(" || ") + " || true";
    assert!(outcome(&long).is_some());
}

#[test]
fn functions_that_nothing_implements_are_errors_with_a_warning() {
    let context = context([]);
    assert_eq!(outcome_in("<urn:unknown>(1)", &context), None);
    assert_eq!(
        outcome_in("COALESCE(<urn:unknown>(?x), <urn:unknown>(1), 2)", &context),
        outcome("2")
    );
    let warning = "nothing implements the function <urn:unknown>, so calls of it are errors";
    assert_eq!(context.warnings(), [warning]);
}

#[test]
fn many_unknown_functions_make_few_warnings() {
    let calls: Vec<String> = (0..1000).map(|n| format!("<urn:{n}>()")).collect();
    let long = format!("<urn:{}>()", "x".repeat(100_000));
    let text = format!("COALESCE({long}, {})", calls.join(", "));
    let context = context([]);
    assert_eq!(outcome_in(&text, &context), None);
    let warnings = context.warnings();
    assert_eq!(warnings.len(), 21);
    assert_eq!(warnings[20], "and 981 more like these");
    assert!(warnings.iter().all(|warning| warning.len() < 300));
}

#[test]
fn compiling_stops_when_the_query_is_cancelled() {
    let calls: Vec<String> = (0..1000).map(|n| format!("<urn:{n}>()")).collect();
    let governor = Arc::new(Governor::unlimited().with_checks_max(100));
    let context = context([]).with_governor(governor);
    let all = expression(&format!("COALESCE({})", calls.join(", ")));
    let compiled = CompiledExpression::compile(&all, &[], &context);
    assert!(matches!(compiled, Err(QueryError::Cancelled)));
}

/// Makes a context with this much memory in addition to the free memory of batches.
fn context_within(bytes: usize) -> EvaluationContext {
    context([]).with_governor(Arc::new(Governor::with_memory(bytes)))
}

/// Returns the results of an expression where `?x` is the same term in all rows.
fn repeated(
    text: &str,
    value: Term,
    rows: usize,
    context: &EvaluationContext,
) -> Result<Vec<u64>, QueryError> {
    let columns = variables(&["x"]);
    let compiled = CompiledExpression::compile(&expression(text), &columns, context)?;
    let ids = vec![context.intern(value)?.0; rows];
    compiled.evaluate_ids(&[&ids], rows, context)
}

#[test]
fn texts_copied_for_each_row_are_charged_for() {
    let long = format!("http://e/{}", "x".repeat(100_000));
    let node = NamedNode::new_unchecked(long);
    for text in [
        "STR(?x)",
        "STRLEN(STR(?x))",
        "STRDT(STR(?x), <d>)",
        "DATATYPE(STRDT(STR(?x), <d>))",
        "xsd:string(?x)",
        "IF(true, TRIPLE(?x, <p>, ?x), 1)",
    ] {
        let text = text
            .replace("<d>", "<http://e/d>")
            .replace("<p>", "<http://e/p>");
        let context = context_within(8 << 20);
        let outcome = repeated(&text, node.clone().into(), 4000, &context);
        assert!(matches!(outcome, Err(QueryError::Memory(_))), "{text}");
    }
}

#[test]
fn parts_are_evaluated_one_by_one_if_memory_is_for_one() {
    let cores = Arc::new(Cores::new(NonZero::new(4)));
    let governor = Governor::with_memory(8 << 20).with_cores(&cores);
    let context = context([]).with_governor(Arc::new(governor));
    let node = NamedNode::new_unchecked(format!("http://e/{}", "x".repeat(1000)));
    let rows = 8 * PART_ROWS;
    for _ in 0..4 {
        let ids = repeated("STR(?x)", node.clone().into(), rows, &context).unwrap();
        assert!(ids.len() == rows && ids[0] != 0);
    }
    assert!(cores.jobs() > 0);
}

#[test]
fn strings_are_not_copied_by_str() {
    let context = context_within(8 << 20);
    let long: Term = Literal::new_simple_literal("x".repeat(1 << 20)).into();
    let lengths = repeated("STRLEN(STR(?x))", long.clone(), 4000, &context).unwrap();
    let length = context.intern(term("1048576")).unwrap().0;
    assert!(lengths.iter().all(|found| *found == length));
    let ids = repeated("STR(?x)", long.clone(), 4000, &context).unwrap();
    assert_eq!(ids[0], context.intern(long).unwrap().0);
}

#[test]
fn arithmetic_with_long_numbers_stops_when_the_query_is_cancelled() {
    let long = format!("{}.{}", "7".repeat(2000), "3".repeat(2000));
    for text in ["?x * ?x", "?x / 7", "-?x", "xsd:decimal(?x)", "?x < ?x + 1"] {
        let governor = Arc::new(Governor::unlimited().with_checks_max(20));
        let context = context([]).with_governor(governor);
        let value: Term = Literal::new_typed_literal(long.clone(), xsd::DECIMAL).into();
        let outcome = repeated(text, value, 4000, &context);
        assert!(matches!(outcome, Err(QueryError::Cancelled)), "{text}");
    }
}

#[test]
fn constant_comparisons_agree_with_values() {
    // Every operator for every pair: by the loops on ids, with the constant hidden in a second column, and
    // by value alone.
    let texts = [
        "1",
        "01",
        "0",
        "\"-1\"^^xsd:integer",
        "1.0",
        "1.5",
        "1e0",
        "\"NaN\"^^xsd:double",
        "\"INF\"^^xsd:float",
        "36028797018963967",
        "9007199254740993",
        "9007199254740992e0",
        "\"5\"^^xsd:byte",
        "true",
        "false",
        "\"1\"^^xsd:boolean",
        "\"a\"",
        "\"b\"",
        "\"a\"@en",
        "\"a\"@fr",
        "<urn:a>",
        "<urn:b>",
        "\"2024-01-01\"^^xsd:date",
        "\"2024-01-01Z\"^^xsd:date",
        "\"2024-01-02+14:00\"^^xsd:date",
        "\"2024-01-01T12:00:00\"^^xsd:dateTime",
        "\"2024-01-01T12:00:00Z\"^^xsd:dateTime",
        "\"2024-01-01T13:00:00+01:00\"^^xsd:dateTime",
        "\"2024-01-05T13:00:00.123456\"^^xsd:dateTime",
        "\"2024\"^^xsd:gYear",
        "\"2024Z\"^^xsd:gYear",
        "\"2025\"^^xsd:gYear",
        "\"-0001\"^^xsd:gYear",
        "\"x\"^^<urn:datatype>",
        "\"abc\"^^xsd:integer",
    ];
    let terms: Vec<Term> = texts.iter().map(|text| term(text)).collect();
    // Half of the terms are stored, half are computed by the query.
    let context = context(terms.iter().step_by(2).cloned());
    let ids: Vec<u64> = terms
        .iter()
        .map(|term| context.intern(term.clone()).expect("interned").0)
        .collect();
    for operator in ["=", "!=", "<", "<=", ">", ">="] {
        for (text, &id) in texts.iter().zip(&ids) {
            for (text, columns) in [
                (format!("?x {operator} {text}"), format!("?x {operator} ?y")),
                (format!("{text} {operator} ?x"), format!("?y {operator} ?x")),
            ] {
                let run = |text: &str| {
                    let compiled = CompiledExpression::compile(
                        &expression(text),
                        &variables(&["x", "y"]),
                        &context,
                    )
                    .expect("compiled");
                    let constant = vec![id; ids.len()];
                    compiled
                        .evaluate_ids(&[&ids, &constant], ids.len(), &context)
                        .expect("evaluated")
                };
                let by_value = format!("IF(true, ?x, ?x) {operator} IF(true, ?y, ?y)");
                assert_eq!(run(&text), run(&columns), "{text}");
                if text.starts_with("?x") {
                    assert_eq!(run(&text), run(&by_value), "{text}");
                }
            }
        }
    }
}

#[test]
fn functions_of_columns_agree_with_those_of_single_terms() {
    let dates = [
        "\"2024-02-29\"^^xsd:date",
        "\"1969-12-31-14:00\"^^xsd:date",
        "\"-0044-03-15Z\"^^xsd:date",
        "\"2024-12-31T23:59:59.5+05:30\"^^xsd:dateTime",
        "\"0000-01-01T00:00:00\"^^xsd:dateTime",
    ];
    let years = ["\"2024\"^^xsd:gYear", "\"12024Z\"^^xsd:gYear"];
    let numbers = [
        "\"-7\"^^xsd:integer",
        "2.5",
        "\"-2.5\"^^xsd:decimal",
        "\"-0.5\"^^xsd:float",
        "\"-1e3\"^^xsd:double",
        "\"NaN\"^^xsd:double",
    ];
    let odd = [
        "\"-9223372036854775808\"^^xsd:integer",
        "\"99999999999999999999999999.5\"^^xsd:decimal",
        "\"12:30:00\"^^xsd:time",
        "\"2024-01-01T12:00:00.123456\"^^xsd:dateTime",
        "\"text\"",
        "<urn:a>",
        "true",
    ];
    let columns = [&dates[..], &years, &numbers, &odd];
    let all = columns.concat();
    for function in [
        "ABS", "CEIL", "FLOOR", "ROUND", "YEAR", "MONTH", "DAY", "HOURS", "MINUTES", "SECONDS",
    ] {
        for texts in columns.iter().copied().chain([&all[..]]) {
            let terms = texts.iter().map(|text| Some(term(text))).chain([None]);
            let together = outcomes(&format!("{function}(?x)"), &terms.collect::<Vec<_>>());
            let alone = texts
                .iter()
                .map(|text| outcome(&format!("{function}({text})")));
            assert_eq!(
                together,
                alone.chain([None]).collect::<Vec<_>>(),
                "{function}"
            );
        }
    }
    check(&[
        ("YEAR(\"-0044-03-15Z\"^^xsd:date)", "\"-44\"^^xsd:integer"),
        ("MONTH(\"1969-12-31-14:00\"^^xsd:date)", "12"),
        (
            "MINUTES(\"2024-12-31T23:59:59.5+05:30\"^^xsd:dateTime)",
            "59",
        ),
        (
            "ABS(\"-9223372036854775808\"^^xsd:integer)",
            "9223372036854775808",
        ),
    ]);
}

#[test]
fn membership_in_iris_runs_on_ids() {
    let terms: Vec<Option<Term>> = (0..20)
        .map(|n| Some(NamedNode::new_unchecked(format!("urn:{n}")).into()))
        .chain([Some(term("\"a\"")), None])
        .collect();
    for count in [1, 8, 15] {
        let list: Vec<String> = (0..count).map(|n| format!("<urn:{n}>")).collect();
        let found = outcomes(&format!("?x IN ({})", list.join(", ")), &terms);
        for (n, outcome) in found.iter().enumerate() {
            let expected = if n == 21 { None } else { Some(n < count) };
            let expected = expected.map(|found| term(&found.to_string()).to_string());
            assert_eq!(*outcome, expected, "{n} of {count}");
        }
    }
}

#[test]
fn cheap_conditions_spare_text() {
    /// Fails to decode one term.
    struct Guarded(super::testing::MemoryDictionary);
    impl TermResolver for Guarded {
        fn resolve(&self, term: oxrdf::TermRef<'_>) -> Result<Option<TermId>, QueryError> {
            self.0.resolve(term)
        }
        fn read(&self, ids: &[TermId], f: &mut TermReader<'_>) -> Result<(), QueryError> {
            let mut check = |index: usize, term: FoundTerm<'_>| {
                let unwanted = FoundTerm::Parts(KeyParts::String("untouched"));
                assert_ne!(term, unwanted, "read in vain");
                f(index, term)
            };
            self.0.read(ids, &mut check)
        }
    }
    let terms = [
        term("\"untouched\""),
        term("\"wanted\""),
        term("<urn:a>"),
        term("<urn:b>"),
    ];
    let dictionary = super::testing::MemoryDictionary::new(terms.iter().cloned());
    let now = "2024-01-01T00:00:00Z".parse().expect("a dateTime");
    let context =
        super::testing::context_over(std::sync::Arc::new(Guarded(dictionary))).with_now(now);
    let id = |term: &Term| context.intern(term.clone()).expect("interned").0;
    let labels = [id(&terms[0]), id(&terms[1])];
    let types = [id(&terms[2]), id(&terms[3])];
    for text in [
        "REGEX(?label, \"wan\") && ?type = <urn:b>",
        "?type != <urn:a> && CONTAINS(?label, \"wan\")",
        "IF(?type = <urn:a>, false, STRLEN(?label) = 6)",
        "!(?type = <urn:a> || STRSTARTS(?label, \"x\"))",
        "ISLITERAL(?label) && LANG(?label) = \"\" && ?type = <urn:b>",
    ] {
        let compiled = CompiledExpression::compile(
            &expression(text),
            &variables(&["label", "type"]),
            &context,
        );
        let kept = compiled
            .expect("compiled")
            .filter(&[&labels, &types], 2, &context);
        assert_eq!(kept.expect("evaluated"), [false, true], "{text}");
    }
}

#[test]
fn triple_terms_round_trip() {
    let triple = Triple::new(
        NamedNode::new_unchecked("urn:s"),
        NamedNode::new_unchecked("urn:p"),
        Literal::new_typed_literal("01", oxrdf::vocab::xsd::INTEGER),
    );
    let terms = [Some(Term::from(triple.clone()))];
    assert_eq!(
        outcomes("?x", &terms),
        [Some(Term::from(triple).to_string())]
    );
    assert_eq!(
        outcomes("OBJECT(?x)", &terms),
        [Some(term("01").to_string())]
    );
    assert_eq!(
        outcomes("?x = ?x", &terms),
        [Some(term("true").to_string())]
    );
}

#[test]
fn in_is_the_disjunction_of_its_equalities() {
    let xsd = "http://www.w3.org/2001/XMLSchema#";
    let texts = [
        "1",
        "2",
        "7",
        "1.0",
        "2.5",
        "1e0",
        "\"01\"",
        "\"1\"",
        "\"a\"",
        "\"b\"",
        "\"a\"@en",
        "<urn:a>",
        "<urn:b>",
        "true",
        "\"x\"",
        "123456789012345678901234567890",
    ];
    let typed = ["int", "date", "string", "unknown", "double"].map(|name| {
        Literal::new_typed_literal("1", NamedNode::new_unchecked(format!("{xsd}{name}")))
    });
    let mut terms: Vec<Option<Term>> = texts.iter().map(|text| Some(term(text))).collect();
    terms.extend(typed.map(|literal| Some(literal.into())));
    terms.push(Some(oxrdf::BlankNode::default().into()));
    terms.push(None);
    for list in [
        &["1", "2"][..],
        &["1", "<urn:a>"],
        &["\"a\"", "\"1\""],
        &["\"a\"", "<urn:b>"],
        &["\"a\"", "1"],
        &["\"a\"@en", "\"a\""],
        &["1.0", "1"],
        &["true", "<urn:a>", "1"],
        &["123456789012345678901234567890", "1"],
        &["\"absent\"", "\"b\""],
        &["1/0", "1"],
    ] {
        let equalities: Vec<String> = list.iter().map(|item| format!("?x = {item}")).collect();
        assert_eq!(
            outcomes(&format!("?x IN ({})", list.join(", ")), &terms),
            outcomes(&equalities.join(" || "), &terms),
            "{list:?}"
        );
    }
}
