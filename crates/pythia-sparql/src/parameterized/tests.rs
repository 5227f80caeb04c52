//! The kept algebra with constants is the algebra that the parser makes of the text.

use super::*;
use crate::charge::Unlimited;
use crate::fuzz::corpus;
use crate::grammar::Language;
use crate::tests::GOOD;

/// Returns the result of parsing as text, in which the parser's random names are numbered.
fn shown(result: Result<Query, SparqlError>) -> Result<String, String> {
    let algebra = result.map_err(|error| error.to_string())?.algebra;
    let (dataset, base) = (algebra.dataset(), algebra.base_iri());
    let text = format!("{} {dataset:?} {base:?}", algebra.to_sse());
    let mut names: Vec<&str> = Vec::new();
    let mut shown = String::new();
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    for part in text.split_inclusive(|c| !is_hex(c)) {
        let digits = part.trim_end_matches(|c| !is_hex(c));
        // Random names have 32 digits, less the zeros at their start.
        if digits.len() < 24 {
            shown.push_str(part);
            continue;
        }
        let known = names.iter().position(|name| *name == digits);
        let number = known.unwrap_or_else(|| {
            names.push(digits);
            names.len() - 1
        });
        shown.push_str(&format!("name {number}{}", &part[digits.len()..]));
    }
    Ok(shown)
}

fn parse(queries: &ParameterizedQueries, text: &str, base: Option<&str>) -> Result<String, String> {
    shown(queries.parse_within(text, base, Box::<Unlimited>::default()))
}

/// Returns the number of kept queries with an algebra.
fn kept(queries: &ParameterizedQueries) -> usize {
    let kept = queries.kept();
    let entries = kept.queries.values();
    entries.filter(|entry| entry.algebra.is_some()).count()
}

#[test]
fn queries_that_come_again_mean_what_the_parser_says() {
    let mut texts: Vec<String> = GOOD.iter().map(|text| (*text).to_owned()).collect();
    texts.extend(corpus(Language::Query));
    let mut with_algebra = 0;
    for text in &texts {
        for base in [None, Some("http://e/x/../y")] {
            let queries = ParameterizedQueries::default();
            let plain = shown(Query::parse(text, base));
            for time in 0..3 {
                assert!(parse(&queries, text, base) == plain, "{time}: {text}");
            }
            with_algebra += kept(&queries);
        }
    }
    // Most are kept; few have errors, escapes or forms of their own.
    assert!(with_algebra > texts.len(), "{with_algebra}");
}

/// Pairs of texts that differ only in constants.
const PAIRS: &[(&str, &str)] = &[
    (
        "SELECT * { <http://e/a> <http://e/p> ?o . ?o <http://e/q> 'x' }",
        "SELECT * { <https://f/b#c> <http://p> ?o . ?o <http://e/r?s=1&t> 'a \"b\" \u{e9}' }",
    ),
    (
        "ASK { ?s ?p 1 , 01 , 'a'@en , 'b'^^<http://e/d> FILTER(?s > 5 && ?p = <http://e/a>) }",
        "ASK { ?s ?p 22 , 022 , ''@en , 'zz'^^<http://e/d> FILTER(?s > 0006 && ?p = <http://e/b>) }",
    ),
    (
        "SELECT * { VALUES (?a ?b) { (<http://e/a> 1) ('x' UNDEF) } GRAPH <http://e/g> { ?a (<http://e/p>|^<http://e/q>)* ?b } }",
        "SELECT * { VALUES (?a ?b) { (<http://e/b> 2) ('y' UNDEF) } GRAPH <http://e/h> { ?a (<http://e/r>|^<http://e/s>)* ?b } }",
    ),
    (
        "CONSTRUCT { ?s <http://e/p> 'made' } { ?s !(<http://e/a>|^<http://e/b>) ?o OPTIONAL { ?o ?q 7 FILTER(?o != 'n') } }",
        "CONSTRUCT { ?s <http://e/q> 'done' } { ?s !(<http://e/c>|^<http://e/d>) ?o OPTIONAL { ?o ?q 8 FILTER(?o != 'm') } }",
    ),
    ("DESCRIBE <http://e/a>", "DESCRIBE <http://e/b_(film)>"),
    (
        "SELECT (COUNT(*) * 1 AS ?n) (SUM(?x * 2) AS ?m) { ?s ?p ?x FILTER NOT EXISTS { ?s <http://e/p> 3 } } \
         GROUP BY ?s HAVING (MAX(?x) > 4) ORDER BY (?s = <http://e/a>)",
        "SELECT (COUNT(*) * 6 AS ?n) (SUM(?x * 7) AS ?m) { ?s ?p ?x FILTER NOT EXISTS { ?s <http://e/q> 8 } } \
         GROUP BY ?s HAVING (MAX(?x) > 9) ORDER BY (?s = <http://e/b>)",
    ),
    (
        "SELECT * { << ?s <http://e/p> 'a' >> <http://e/q> <<( <http://e/s> <http://e/p> 1 )>> }",
        "SELECT * { << ?s <http://e/r> 'b' >> <http://e/t> <<( <http://e/u> <http://e/r> 2 )>> }",
    ),
    (
        "SELECT * { BIND(IF(?x IN (1, 'a', <http://e/a>), CONCAT('b', STR(2)), REGEX('c', \"d\", 'i')) AS ?y) }",
        "SELECT * { BIND(IF(?x IN (9, 'z', <http://e/z>), CONCAT('y', STR(8)), REGEX('x', \"w\", 'i')) AS ?y) }",
    ),
    (
        "SELECT * { { SELECT ?s { ?s a <http://e/A> } LIMIT 3 } MINUS { ?s ?p [ <http://e/q> 'x' ] } } LIMIT 3",
        "SELECT * { { SELECT ?s { ?s a <http://e/B> } LIMIT 3 } MINUS { ?s ?p [ <http://e/r> 'y' ] } } LIMIT 3",
    ),
];

#[test]
fn constants_take_the_places_of_parameters() {
    for base in [None, Some("http://base/")] {
        for (first, other) in PAIRS {
            let queries = ParameterizedQueries::default();
            for text in [first, other, other, first] {
                let plain = shown(Query::parse(text, base));
                assert!(plain.is_ok(), "{text}: {plain:?}");
                assert_eq!(parse(&queries, text, base), plain, "{text}");
            }
            assert_eq!(kept(&queries), 1, "{first}");
        }
    }
}

/// Texts of which each must not be read as the one before.
const DIFFERENT: &[&[&str]] = &[
    &[
        "SELECT * { ?s ?p ?o } LIMIT 1",
        "SELECT * { ?s ?p ?o } LIMIT 2",
        "SELECT * { ?s ?p ?o } LIMIT 2 OFFSET 1",
    ],
    &[
        "PREFIX : <http://a/> SELECT * { ?s :p ?o }",
        "PREFIX : <http://b/> SELECT * { ?s :p ?o }",
    ],
    &[
        "BASE <http://a/> SELECT * { ?s <p> ?o }",
        "BASE <http://b/> SELECT * { ?s <p> ?o }",
        "BASE <http://b/> SELECT * { ?s <q> ?o }",
    ],
    &[
        "SELECT * FROM <http://a/> FROM NAMED <http://g/> { ?s ?p ?o }",
        "SELECT * FROM <http://b/> FROM NAMED <http://g/> { ?s ?p ?o }",
        "SELECT * FROM <http://b/> FROM NAMED <http://h/> { ?s ?p ?o }",
    ],
    &[
        "SELECT * { ?s ?p 'x'^^<http://a/> }",
        "SELECT * { ?s ?p 'x'^^<http://b/> }",
        "SELECT * { ?s ?p 'x'@en }",
        "SELECT * { ?s ?p 'x' }",
        "SELECT * { ?s ?p 1 }",
        "SELECT * { ?s ?p 1.0 }",
        "SELECT * { ?s ?p -1 }",
        "SELECT * { ?s ?p +1 }",
    ],
    &[
        "SELECT (<http://a/f>(?o) AS ?x) { ?s ?p ?o }",
        "SELECT (<http://b/f>(?o) AS ?x) { ?s ?p ?o }",
        "SELECT (<urn:pythia:aggregate#median>(?o) AS ?x) { ?s ?p ?o }",
    ],
    &[
        "SELECT (GROUP_CONCAT(?o; SEPARATOR = 'a') AS ?x) { ?s ?p ?o }",
        "SELECT (GROUP_CONCAT(?o; SEPARATOR = 'b') AS ?x) { ?s ?p ?o }",
    ],
    &[
        "SELECT * { FILTER(<http://a/> = <http://a/>) }",
        "SELECT * { FILTER(<http://a/> = <http://b/>) }",
        "SELECT * { FILTER('http://a/' = <http://a/>) }",
    ],
    &[
        "SELECT * { ?s ?p <http://a/b/../c> }",
        "SELECT * { ?s ?p <http://a/c> }",
        "SELECT * { ?s ?p <http://a/\\u0041> }",
        "SELECT * { ?s ?p <b> }",
        "SELECT * { ?s ?p <mailto:a@b> }",
        "SELECT * { ?s ?p <urn:a> }",
        "SELECT * { ?s ?p <urn:b> }",
    ],
    // The parser reads comparisons where the longest token is an IRI.
    &[
        "PREFIX urn: <http://e/> SELECT * { ?s ?p ?a FILTER(?a<urn:x&&?b>?c\n) }",
        "PREFIX urn: <http://e/> SELECT * { ?s ?p ?a FILTER(?a<urn:y&&?b>?c\n) }",
        "PREFIX http: <http://e/> SELECT * { ?s ?p ?a FILTER(?a<http:x&&?b>?c\n) }",
        "PREFIX http: <http://e/> SELECT * { ?s ?p ?a FILTER(?a<http://x&&?b>?c\n) }",
        "PREFIX http: <http://e/> SELECT * { ?s ?p ?a FILTER(?a<http://y&&?b>?c\n) }",
        "PREFIX http: <http://e/> SELECT * { ?s ?p ?a FILTER(?a<http://x(?b)>?c\n) }",
        "PREFIX http: <http://e/> SELECT * { ?s ?p ?a FILTER(?a<http://y(?b)>?c\n) }",
    ],
    &[
        "SELECT * { ?s ?p '''a\nb''' , 'a\\nb' }",
        "SELECT * { ?s ?p '''a\nc''' , 'a\\nb' }",
    ],
];

/// Texts whose constants are more than constants, after one of the same shape.
const SPECIAL: &[&[&str]] = &[
    // The parser reads another token than the lexer.
    &[
        "SELECT * { ?s ?p ?a FILTER(?a<<http://parameter/5>) }",
        "SELECT * { ?s ?p ?a FILTER(?a<<http://parameter/6>) }",
    ],
    // Words for which a text is rewritten first.
    &[
        "SELECT (COUNT(?s) AS ?n) { ?s ?p ?x } GROUP BY (EXISTS { ?x ?q 'a' }) (?x AS ?y)",
        "SELECT (COUNT(?s) AS ?n) { ?s ?p ?x } GROUP BY (EXISTS { ?x ?q 'paths' }) (?x AS ?y)",
    ],
    &[
        "SELECT (COUNT(?s) AS ?n) (COALESCE(?n,0) AS ?m) (COALESCE(?z,0) AS ?k) { ?s ?p ?o FILTER(?o != 'a') }",
        "SELECT (COUNT(?s) AS ?n) (COALESCE(?n,0) AS ?m) (COALESCE(?z,0) AS ?k) { ?s ?p ?o FILTER(?o != '??') }",
    ],
    // Words and characters for which calls are aggregates.
    &[
        "PREFIX p: <urn:pythia:aggregate#percentile-9> SELECT (p:7(?o) AS ?x) { ?s <http://e/1> ?o }",
        "PREFIX p: <urn:pythia:aggregate#percentile-9> SELECT (p:7(?o) AS ?x) { ?s <http://e/97> ?o }",
    ],
    &[
        "SELECT (<http://f>('a' || ?o) AS ?x) { ?s ?p ?o }",
        "SELECT (<http://f>('\u{FDD0}' || ?o) AS ?x) { ?s ?p ?o }",
    ],
    // Aggregates that the parser computes once.
    &[
        "SELECT (SUM(?x + 1) AS ?n) (SUM(?x + (2)) AS ?m) { ?s ?p ?x }",
        "SELECT (SUM(?x + 1) AS ?n) (SUM(?x + (1)) AS ?m) { ?s ?p ?x }",
    ],
    &[
        "SELECT (SUM(EXISTS { ?x ?q 1.0 , 'a' }) AS ?n) (SUM(EXISTS { ?x ?q 1.0 , '''b''' }) AS ?m) { ?s ?p ?x }",
        "SELECT (SUM(EXISTS { ?x ?q 1.0 , 'b' }) AS ?n) (SUM(EXISTS { ?x ?q 1.0 , '''b''' }) AS ?m) { ?s ?p ?x }",
    ],
    &[
        "PREFIX e: <http://e/> SELECT (COUNT(?x = e:a) AS ?n) (COUNT(?x = <http://e/b>) AS ?m) { ?s ?p ?x }",
        "PREFIX e: <http://e/> SELECT (COUNT(?x = e:a) AS ?n) (COUNT(?x = <http://e/a>) AS ?m) { ?s ?p ?x }",
    ],
];

#[test]
fn special_constants_are_parsed_with_their_text() {
    for base in [None, Some("http://jena.apache.org/ARQ/function/aggregate")] {
        for texts in SPECIAL {
            let queries = ParameterizedQueries::default();
            let first = [texts[0]; 3].into_iter();
            for text in first.chain(texts.iter().copied()) {
                let plain = shown(Query::parse(text, base));
                assert_eq!(parse(&queries, text, base), plain, "{text}");
            }
        }
    }
    let base = Some("http://jena.apache.org/ARQ/function/aggregate");
    let queries = ParameterizedQueries::default();
    let plain = "SELECT (<#stdev>(?o) AS ?x) { ?s <http://e/p> ?o }";
    let named = "SELECT (<#stdev>(?o) AS ?x) { ?s <http://e/aggregate> ?o }";
    for text in [plain, plain, plain, named] {
        assert_eq!(parse(&queries, text, base), shown(Query::parse(text, base)));
    }
}

#[test]
fn a_long_constant_that_the_algebra_repeats_is_charged() {
    let text = |length: usize| {
        let iri = "x".repeat(length);
        let objects = vec!["1"; 34].join(",");
        format!("SELECT * {{ <http://e/{iri}> ?p {objects} }}")
    };
    let queries = ParameterizedQueries::default();
    let limits = crate::testing::TestLimits::of_memory(256 << 10);
    let parse = |text: &str| queries.parse_within(text, None, limits.charge());
    for _ in 0..3 {
        assert!(parse(&text(3)).is_ok());
    }
    assert_eq!(kept(&queries), 1);
    assert!(matches!(parse(&text(8000)), Err(SparqlError::Memory(_))));
}

#[test]
fn a_wrong_constant_does_not_keep_others_from_being_kept() {
    let queries = ParameterizedQueries::default();
    let text = |iri: &str| format!("SELECT * {{ ?s ?p <http://{iri}/> }}");
    assert!(parse(&queries, &text("e"), None).is_ok());
    assert!(parse(&queries, &text("e:port"), None).is_err());
    assert!(parse(&queries, &text("e"), None).is_ok());
    assert_eq!(kept(&queries), 1);
}

#[test]
fn what_the_parser_uses_is_not_a_constant() {
    for base in [None, Some("http://base/a/b")] {
        for texts in DIFFERENT {
            let queries = ParameterizedQueries::default();
            for text in texts.iter().flat_map(|text| [text; 3]) {
                let plain = shown(Query::parse(text, base));
                assert_eq!(parse(&queries, text, base), plain, "{text}");
            }
        }
    }
}

#[test]
fn each_text_has_its_own_errors() {
    let good = "SELECT * { ?s <http://e/p> <http://e/o> }";
    let bad = "SELECT * { ?s <http://e/p> <http://e:port/> }";
    let queries = ParameterizedQueries::default();
    for text in [good, good, good, bad, good] {
        assert_eq!(parse(&queries, text, None), shown(Query::parse(text, None)));
    }
    let late = "SELECT * {\n ?s <http://e/p> <http://e/o> . ?s }";
    let later = "SELECT * {\n ?s <http://e/predicate> <http://e/o> . ?s }";
    for text in [late, later, late, later] {
        let plain = shown(Query::parse(text, None));
        assert!(plain.is_err());
        assert_eq!(parse(&queries, text, None), plain);
    }
    for base in ["no base", "", "http://e/\nSELECT"] {
        let plain = shown(Query::parse(good, Some(base)));
        assert!(plain.is_err());
        assert_eq!(parse(&queries, good, Some(base)), plain, "{base}");
    }
}

#[test]
fn only_some_queries_are_kept() {
    let queries = ParameterizedQueries::default();
    let text = |number: usize| format!("SELECT ?v{number} {{ ?s ?p <http://e/{number}> }}");
    for number in 0..10 * KEPT_MAX {
        assert!(parse(&queries, &text(number), None).is_ok());
        assert!(parse(&queries, &text(number), None).is_ok());
        assert!(parse(&queries, &text(0), None).is_ok());
        assert!(kept(&queries) <= KEPT_MAX);
    }
    let key = queries.parameters.read(&text(0), None).unwrap().key;
    let kept = queries.kept();
    assert!(kept.queries.contains_key(&key), "used all the time");
    assert!(kept.once.len() <= ONCE_MAX);
}

#[test]
fn long_texts_and_those_for_others_are_parsed_as_before() {
    let many: String = (0..=CONSTANTS_MAX).map(|n| format!("({n})")).collect();
    let many = format!("SELECT * {{ VALUES (?x) {{ {many} }} }}");
    let long = format!("SELECT * {{ ?s ?p '{}' }}", "x".repeat(TEXT_BYTES_MAX));
    let numbers = format!("SELECT * {{ VALUES (?x) {{ {} }} }}", "(1)".repeat(2000));
    let asks = "SELECT * { SERVICE <http://e/> { ?s ?p <http://e/o> } }";
    let asks_at_once = "PREFIX e: <http://e/> SELECT * { SERVICEe:x { ?s ?p ?o } }";
    let paths = "PATHS START ?a = <http://e/a> END ?b VIA <http://e/p>";
    for text in [&many, &long, &numbers, asks, asks_at_once, paths] {
        let queries = ParameterizedQueries::default();
        for _ in 0..3 {
            assert_eq!(parse(&queries, text, None), shown(Query::parse(text, None)));
        }
        assert_eq!(kept(&queries), 0, "{text}");
    }
}
