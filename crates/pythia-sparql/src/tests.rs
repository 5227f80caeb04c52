//! Invalid queries and their error messages.

use crate::error::SparqlError;
use crate::grammar::{self, Language};
use crate::parser::for_the_parser;
use crate::position::place_of;
use crate::query::projected;
use crate::update::{Action, Transfer};
use crate::{Query, Update};

fn place(text: &str) -> (usize, usize, String) {
    match Query::parse(text, None) {
        Err(SparqlError::Syntax {
            line,
            column,
            message,
        }) => (line, column, message),
        other => panic!("{text}: {other:?}"),
    }
}

/// Invalid queries with `⟦` at the position of the error, and a part of the message.
const BAD: &[(&str, &str)] = &[
    // Keywords.
    ("⟦SELCT * WHERE { ?s ?p ?o }", "did you mean SELECT?"),
    ("PREFX a: <http://a/> SELECT * {}", "did you mean PREFIX?"),
    (
        "⟦CONSTRUKT { ?s ?p ?o } { ?s ?p ?o }",
        "did you mean CONSTRUCT?",
    ),
    ("SELECT * ⟦WEHRE { ?s ?p ?o }", "did you mean WHERE?"),
    (
        "SELECT * { ?s ?p ?o ⟦FITLER(?o > 3) }",
        "did you mean FILTER?",
    ),
    (
        "SELECT * { ?s ?p ?o . ⟦OPTINAL { ?s ?q ?r } }",
        "did you mean OPTIONAL?",
    ),
    (
        "SELECT * { ?s ?p ?o } ⟦GROUPBY ?s",
        "did you mean GROUP BY?",
    ),
    ("SELECT * { ?s ?p ?o } ⟦LIMTI 10", "did you mean LIMIT?"),
    (
        "SELECT * { { ?s ?p ?o } ⟦UNOIN { ?s ?p ?o } }",
        "did you mean UNION?",
    ),
    ("SELECT * { ?s ?p ?o } ORDER ⟦?s", "expected BY, found ?s"),
    ("SELECT * { ?s ?p ?o } LIMIT 5 ⟦ORDER BY ?s", "out of order"),
    (
        "SELECT * { ?s ?p ?o } LIMIT ⟦-1",
        "a whole number after LIMIT",
    ),
    ("SELECT * { ⟦NOT EXISTS { ?s ?p ?o } }", "FILTER NOT EXISTS"),
    (
        "⟦INSERT DATA { <a:b> <a:b> <a:b> }",
        "run it with `pythia update`",
    ),
    // Paths.
    ("⟦PTAHS START ?s END ?e VIA <a:p>", "did you mean PATHS?"),
    ("PATHS ⟦STRAT ?s END ?e VIA <a:p>", "did you mean START?"),
    (
        "PATHS START ?s = <a:a> END ?e ⟦VAI <a:p>",
        "did you mean VIA?",
    ),
    (
        "PATHS START ⟦<a:a> END ?e VIA <a:p>",
        "a variable after START",
    ),
    ("PATHS START ?s END ⟦?path VIA <a:p>", "use another name"),
    ("PATHS SHORTEST ⟦0 START ?s END ?e VIA <a:p>", "at least 1"),
    ("PATHS ANY ⟦START ?s END ?e VIA <a:p>", "expected SHORTEST"),
    ("⟦PATHS ALL START ?s END ?e VIA <a:p>", "add MAX LENGTH"),
    (
        "PATHS START ?s END ?e VIA <a:p> ⟦LIMTI 3",
        "did you mean LIMIT?",
    ),
    (
        "PATHS START ?s END ?e VIA <a:p> MAX LENGTH ⟦-1",
        "a whole number, at least 0",
    ),
    (
        "PATHS START ?s END ?e VIA <a:p> MAX LENGTH 1 ⟦MAX LENGTH 2",
        "duplicate MAX",
    ),
    (
        "PATHS START ?s END ?e VIA ⟦x:p+",
        "the prefix x: is not declared",
    ),
    ("PATHS START ?s END ?e VIA <a:p> WEIGHT ⟦?w", "after WEIGHT"),
    (
        "PATHS ALL SIMPLE START ?s END ?e VIA <a:p> PRIORITY ⟦?w",
        "after PRIORITY",
    ),
    (
        "⟦PATHS START ?s END ?e VIA <a:p> PRIORITY <a:w>",
        "other searches go by cost",
    ),
    (
        "PATHS START ?s = { ?s <a:p> ⟦} END ?e VIA <a:p>",
        "expected an object",
    ),
    (
        "SELECT * { ?s ??p ?o . ⟦pathfilter(containsOnly(??q, <a:p>)) }",
        "no triple of this group has the path ??q",
    ),
    (
        "SELECT * { ?s ??p ?o pathfilter(⟦contains(??p, <a:p>)) }",
        "containsOnly(??path, <p>)",
    ),
    (
        "SELECT * { ?s ??p ?o pathfilter(length(??p) <= ⟦?n) }",
        "the number of edges",
    ),
    (
        "SELECT ??p { ?s <a:p> ?x ; ⟦??p ?o }",
        "a triple of its own",
    ),
    ("SELECT ⟦??q { ?s ??p ?o }", "no triple has the path ??q"),
    (
        "SELECT * { SERVICE <urn:pythia:path#search> { ?s <a:p>+ ?e . [] ⟦<urn:pythia:path#mod> 3 } }",
        "there are start, end, mode",
    ),
    (
        "PREFIX path: <urn:pythia:path#> SELECT * { SERVICE <a:b> {} ⟦SERVICE path:search { ?s <a:p> ?e . ?x <a:q> ?y } }",
        "more than one path expression",
    ),
    // Functions and expressions.
    (
        "SELECT * { ?s ?p ?o FILTER(⟦STRLN(?o) > 3) }",
        "did you mean STRLEN?",
    ),
    (
        "SELECT * { ?s ?p ?o FILTER ⟦REGXE(?o, 'a') }",
        "did you mean REGEX?",
    ),
    (
        "SELECT (⟦CUONT(*) AS ?n) { ?s ?p ?o }",
        "did you mean COUNT?",
    ),
    (
        "SELECT * { ?s ?p ?o FILTER(⟦WITHIN(?o)) }",
        "WITHIN is not a SPARQL function",
    ),
    (
        "SELECT * { ?s ?p ?o FILTER(STRLEN⟦(?o, 1) > 3) }",
        "STRLEN takes one argument, found 2",
    ),
    (
        "SELECT * { ?s ?p ?o FILTER(REGEX⟦(?o)) }",
        "REGEX takes 2 to 3 arguments, found 1",
    ),
    (
        "SELECT * { ?s ?p ?o FILTER(BOUND(⟦1)) }",
        "a variable in BOUND",
    ),
    (
        "SELECT * { ?s ?p ?o FILTER ⟦?o > 3 }",
        "takes an expression in brackets: FILTER(…)",
    ),
    (
        "SELECT * { ?s ?p ?o FILTER(?o ⟦== 3) }",
        "write = for equal",
    ),
    (
        "SELECT * { ?s ?p ?o FILTER(?o ⟦<> 3) }",
        "write != for not equal",
    ),
    (
        "SELECT * { ?s ?p ?o FILTER(?o > 3 ⟦and ?o < 5) }",
        "write && for and",
    ),
    (
        "SELECT * { ?s ?p ?o FILTER(?o > 3 ⟦& ?o < 5) }",
        "write && for and",
    ),
    (
        "SELECT * { ?s ?p ?o FILTER(1 < ?o ⟦< 5) }",
        "cannot be chained",
    ),
    ("SELECT * { ?s ?p ?o FILTER(?o > ⟦) }", "expected a value"),
    (
        "SELECT * { ?s ?p ?o BIND(?o + 1⟦) }",
        "expected AS and a variable",
    ),
    (
        "SELECT * { ?s ?p ?o BIND(1 AS ⟦?o) }",
        "already has a value",
    ),
    (
        "SELECT (SUM(⟦COUNT(?x)) AS ?y) { ?x ?p ?o }",
        "aggregates cannot be nested",
    ),
    (
        "SELECT * { ?s ?p ?o FILTER EXISTS { SELECT (SUM(⟦COUNT(?x)) AS ?y) { ?x ?p ?o } } }",
        "aggregates cannot be nested",
    ),
    // Aggregates by IRI.
    (
        "PREFIX a: <http://jena.apache.org/ARQ/function/aggregate#> SELECT (⟦a:stdv(?x) AS ?y) { ?x ?p ?o }",
        "<http://jena.apache.org/ARQ/function/aggregate#stdv> is not an aggregate; did you mean <http",
    ),
    (
        "SELECT (SUM(?x) AS ?y) { ?x ?p ?o } HAVING(⟦<http://jena.apache.org/ARQ/function/aggregate#median>(?x) > 1)",
        "did you mean <urn:pythia:aggregate#median>?",
    ),
    (
        "SELECT (⟦<urn:pythia:aggregate#percentile-101>(?x) AS ?y) { ?x ?p ?o }",
        "a number from 0 to 100",
    ),
    (
        "PREFIX e: <http://aggregate/> SELECT (⟦e:f(DISTINCT ?x) AS ?y) { ?x ?p ?o }",
        "<http://aggregate/f> is not an aggregate, so it does not take DISTINCT",
    ),
    (
        "BASE <http://e/> SELECT ?s (⟦<#f>(DISTINCT ?o) AS ?x) { ?s ?p ?o } GROUP BY ?s",
        "<http://e/#f> is not an aggregate, so it does not take DISTINCT",
    ),
    (
        "SELECT (⟦<urn:pythia:plan#sumState>(DISTINCT ?x) AS ?y) { ?x ?p ?o }",
        "<urn:pythia:plan#sumState> is not an aggregate",
    ),
    (
        "SELECT (<urn:pythia:aggregate#mode>(?x⟦, 2) AS ?y) { ?x ?p ?o }",
        "an aggregate takes one expression",
    ),
    (
        "SELECT (<urn:pythia:aggregate#mode>(⟦) AS ?y) { ?x ?p ?o }",
        "expected a value",
    ),
    (
        "SELECT (<urn:pythia:aggregate#mode>(⟦*) AS ?y) { ?x ?p ?o }",
        "expected a value",
    ),
    (
        "SELECT (SUM(⟦<urn:pythia:aggregate#mode>(?x)) AS ?y) { ?x ?p ?o }",
        "aggregates cannot be nested",
    ),
    (
        "SELECT ⟦?x (<urn:pythia:aggregate#mode>(DISTINCT ?p) AS ?y) { ?x ?p ?o }",
        "add it to GROUP BY",
    ),
    // Brackets and quotes.
    (
        "SELECT * WHERE ⟦{\n  ?s ?p ?o .\n",
        "this { is never closed",
    ),
    (
        "SELECT * {\n  ?s ?p ?o\n  OPTIONAL ⟦{ ?s ?q ?r\n",
        "this { is never closed",
    ),
    (
        "SELECT * { ?s ?p ?o FILTER(STR(?o) = 'a' ⟦}",
        ") to close the ( of line 1, column 27",
    ),
    ("SELECT * { ?s ?p ?o } ⟦}", "unmatched }"),
    (
        "SELECT * {\n ?s ?p ⟦\"unclosed }\n}",
        "this \" is never closed",
    ),
    (
        "SELECT * { ?s ?p ⟦'''unclosed' }",
        "this ''' is never closed",
    ),
    ("SELECT * { ?s ?p 'a⟦\\qb' }", "\\ must be followed by"),
    ("SELECT * { ?s ?p ⟦“x” }", "straight quotes"),
    ("SELECT * WHERE ⟦?s ?p ?o", "expected {, found ?s"),
    // IRIs and prefixes.
    (
        "SELECT * {\n  ?s ⟦foaf:name ?o }",
        "add PREFIX foaf: <http://xmlns.com/foaf/0.1/>",
    ),
    (
        "SELECT * { ?s a ⟦ex:Thing }",
        "the prefix ex: is not declared; add PREFIX ex: <…>",
    ),
    (
        "SELECT * { ?s ?p '1'^^⟦xsd:int }",
        "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>",
    ),
    (
        "SELECT * { ?s <http://e/a⟦ b> ?o }",
        "cannot contain a space; write %20",
    ),
    (
        "SELECT * { ?s <http://e/⟦{a}> ?o }",
        "cannot contain {; write %7B",
    ),
    ("SELECT * { ?s ⟦<http://e/a ?o }", "an IRI ends with >"),
    ("SELECT * { ?s ⟦<a> ?o }", "this IRI is relative"),
    ("PREFIX ⟦ex <http://e/> SELECT * {}", "a prefix and a colon"),
    (
        "PREFIX ⟦a:: <http://e/> SELECT * {}",
        "a prefix and a colon",
    ),
    (
        "PREFIX ⟦_a: <http://e/> SELECT * {}",
        "a prefix and a colon",
    ),
    (
        "PREFIX a: <http://b:> SELECT * { ?s ⟦a:x ?o }",
        "this is not an IRI",
    ),
    ("SELECT * { ?s ?p ⟦<a:\\u0020> }", "this is not an IRI"),
    ("SELECT * { ?s ?p 'a⟦\\u12' }", "hexadecimal digits"),
    ("SELECT * { ?s ?p ⟦_: }", "a blank node needs a label"),
    (
        "PREFIX ex: ⟦http://e/ SELECT * {}",
        "the prefix's IRI in < >",
    ),
    // Triples.
    (
        "SELECT * WHERE {\n  ?s ?p ⟦}",
        "expected an object, found }",
    ),
    ("SELECT * { ?s ⟦}", "expected a predicate"),
    ("SELECT * { ?s ?p ?o ⟦?a ?b ?c }", "missing dot"),
    ("SELECT * { ⟦. ?s ?p ?o }", "no triple before this dot"),
    (
        "SELECT * { ?s ⟦name ?o }",
        "found name; a name needs a prefix (ex:name)",
    ),
    (
        "SELECT * { _:a ?p ?o { ⟦_:a ?q ?r } }",
        "is used in another group",
    ),
    ("SELECT * { ?s ?p 'a'⟦@e }", "not a language tag"),
    (
        "SELECT * { ?s (<a:b>/<a:c>) ?o ⟦~ ?r }",
        "only a triple can be annotated",
    ),
    (
        "SELECT * { ?s ?p 'a'⟦@toolonglanguage }",
        "not a language tag",
    ),
    ("SELECT * { ?s ?p ⟦$ }", "a variable needs a name"),
    (
        "SELECT * { ?s (<a:b>|⟦?p) ?o }",
        "expected a step of the path",
    ),
    // SELECT and VALUES.
    ("SELECT ?a⟦, ?b { ?a ?p ?b }", "separated by spaces"),
    (
        "SELECT ⟦COUNT(*) { ?s ?p ?o }",
        "takes an expression in brackets: (COUNT(*) AS ?count)",
    ),
    ("SELECT ?s ⟦?s { ?s ?p ?o }", "in the SELECT twice"),
    ("DESCRIBE ?s ⟦?s { ?s ?p ?o }", "in the DESCRIBE twice"),
    (
        "SELECT * { VALUES (?a ⟦?a) { (1 2) } }",
        "in the VALUES twice",
    ),
    (
        "SELECT (<<( ?s ?p ⟦STR(?o) )>> AS ?t) { ?s ?p ?o }",
        "the object of a triple term",
    ),
    ("SELECT ⟦{ ?s ?p ?o }", "* or the variables"),
    (
        "SELECT ⟦?s (COUNT(*) AS ?n) { ?s ?p ?o }",
        "add it to GROUP BY",
    ),
    ("SELECT (1 AS ⟦?s) { ?s ?p ?o }", "already has a value"),
    (
        "SELECT * { VALUES (?a ?b) { (1 2) ⟦(3) } }",
        "1 values for 2 variables; write UNDEF",
    ),
    ("SELECT * { VALUES ?a { ⟦?b } }", "values, not variables"),
    ("SELECT * { VALUES ?a { 1 ⟦UNDFE } }", "did you mean UNDEF?"),
    ("⟦", "expected SELECT, CONSTRUCT, ASK, DESCRIBE or PATHS"),
];

#[test]
fn errors_say_where_and_what() {
    let mut wrong = Vec::new();
    for (marked, part) in BAD {
        let at = marked.find('⟦').unwrap_or(0);
        let text = marked.replace('⟦', "");
        let expected = place_of(&text, at);
        match Query::parse(&text, None) {
            Err(SparqlError::Syntax {
                line,
                column,
                message,
            }) if (line, column) == expected && message.contains(part) => {}
            other => wrong.push(format!("{marked}\n   {:?}", other.map(drop))),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        BAD.len(),
        wrong.join("\n")
    );
}

#[test]
fn what_the_grammar_says_is_shown_with_its_line() {
    let text = "SELECT * {\n\t?s foaf:name ?o\n}";
    let error = Query::parse(text, None).unwrap_err();
    assert_eq!(
        error.snippet(text).as_deref(),
        Some("2 |  ?s foaf:name ?o\n  |     ^")
    );
    let long = format!(
        "SELECT * {{ ?s ?p '{}' . ?s foaf:x ?o . ?s ?p '{}' }}",
        "é".repeat(500),
        "x".repeat(500)
    );
    let snippet = Query::parse(&long, None)
        .unwrap_err()
        .snippet(&long)
        .unwrap();
    let [line, caret] = snippet.lines().collect::<Vec<_>>()[..] else {
        panic!("{snippet}")
    };
    assert!(line.chars().count() < 120, "{snippet}");
    let column = caret.chars().position(|c| c == '^').unwrap();
    assert_eq!(
        line.chars().skip(column).take(4).collect::<String>(),
        "foaf"
    );
}

/// The grammar must accept everything that the parser accepts; otherwise it reports a wrong error.
#[test]
fn good_queries_have_no_fault() {
    for text in GOOD {
        assert!(Query::parse(text, Some("http://e/")).is_ok(), "{text}");
        let (_, fault) = grammar::read(text, Some("http://example.org/"), Language::Query);
        assert!(fault.is_none(), "{text}\n{fault:?}");
    }
}

pub(crate) const GOOD: &[&str] = &[
    "PREFIX a: <http://a/> prefix : <http://b/>\n# c: d\nSELECT * { _:x a:p 'e:f' , :g ; <h:i> ?j . }",
    "BASE <http://b/> SELECT DISTINCT ?a (?b + 1 AS ?c) FROM <g> FROM NAMED <h> WHERE { ?a <p> ?b } \
     ORDER BY DESC(?a) ?b STR(?c) LIMIT 3 OFFSET 4 VALUES ?b { 1 UNDEF 'x'@en 2.5 -1e3 }",
    "SELECT ?s (COUNT(DISTINCT *) AS ?n) (GROUP_CONCAT(?o; SEPARATOR = ',') AS ?l) { ?s ?p ?o } \
     GROUP BY ?s (STR(?p) AS ?q) HAVING (COUNT(?o) > 1) (?n < 3)",
    "SELECT * { ?s (<a>|^<b>)/<c>*/!(a|^<d>)+/(<e>/<f>?) ?o , [ <p> 1 ] ; <q> ( 1 ?x ( ) ) . [] a <T> . \
     [ <p> ?z ] . OPTIONAL { ?s ?p ?o FILTER(?o<?s&&?s>3) } MINUS { ?s ?p 1 } \
     { SELECT ?k { ?k ?l ?m } } UNION { } GRAPH ?g { ?s ?p ?o } SERVICE SILENT <s> { } \
     FILTER NOT EXISTS { ?a ?b ?c } FILTER(?x NOT IN (1, 2) || !BOUND(?y) && IF(1, 2, 3) = <f>(?x)) \
     BIND(COALESCE() AS ?new) VALUES (?v ?w) { (1 2) (UNDEF <i>) } }",
    "CONSTRUCT { ?s ?p _:b . _:b a ?o } WHERE { ?s ?p ?o }",
    "CONSTRUCT WHERE { ?s ?p ?o }",
    "DESCRIBE <a> ?x WHERE { ?x ?y ?z }",
    "DESCRIBE <a>",
    "SELECT (SUM(?n) AS ?y) { { SELECT (COUNT(?x) AS ?n) { ?x ?p TRUE } } FILTER(FALSE) }",
    "ASK { ?s ?p ?o ~ ?r {| <p> 1 |} . << ?a ?b ?c ~ <r> >> ?p <<( ?s a 1 )>> . << ?a ?b ?c >> . }",
    "SELECT (<<( ?s <p> 1 )>> AS ?t) (TRIPLE(?s, ?p, ?o) AS ?u) { ?s ?p ?o FILTER isTRIPLE(?t) }",
    "VERSION '1.2' SELECT * { ?s ?p 'a'@ar--rtl , '''x'y''' , \"\"\"a\"\"b\"\"\" FILTER(?s < 3 + -1 * 2 / 4) }",
    "SELECT * { { } . ?s ?p ?o . }",
    "PREFIX a: <http://jena.apache.org/ARQ/function/aggregate#> PREFIX p: <urn:pythia:aggregate#percentile-> \
     BASE <http://jena.apache.org/ARQ/function/aggregate> SELECT ?s (a:stdev(?o) + 1 AS ?n) (a:var_pop ( distinct\n?o || 1 ) AS ?m) \
     (<#var_samp>(DISTINCT ?o) AS ?x) { ?s ?p ?o } GROUP BY ?s HAVING (p:99.9(?o) > 2) (p:5(DISTINCT ?o) < 3) ORDER BY a:stdev(?o)",
    "PREFIX math: <http://www.w3.org/2005/xpath-functions/math#> SELECT ?s (math:sqrt(SUM(?o)) AS ?n) { ?s ?p ?o } GROUP BY ?s",
    "SELECT * { SERVICE <http://e/s> { SELECT (<http://jena.apache.org/ARQ/function/aggregate#own>(1) AS ?x) { } } }",
];

#[test]
fn aggregates_by_iri_are_in_the_algebra() {
    let algebra = |text: &str| {
        let query = Query::parse(text, None).unwrap_or_else(|error| panic!("{text}: {error}"));
        query.algebra().to_string()
    };
    for (call, written) in [
        ("a:stdev(?o)", "aggregate#stdev>(?o)"),
        ("a:stdev(DISTINCT ?o)", "aggregate#stdev>(DISTINCT ?o)"),
        (
            "a:stdev( distinct ?o || ?p || 1 )",
            "aggregate#stdev>(DISTINCT ((?o || ?p) || ",
        ),
        ("a:stdev(?o || ?p)", "aggregate#stdev>((?o || ?p))"),
        (
            "<urn:pythia:aggregate#percentile-99.9>(DISTINCT -?o)",
            "percentile-99.9>(DISTINCT -?o)",
        ),
        ("pct:2.5(?o)", "percentile-2.5>(?o)"),
    ] {
        for (start, end) in [
            ("", ""),
            ("SELECT * { SERVICE <http://e/s> { ", "} }"),
            ("SELECT * { ?a ?b ?c FILTER EXISTS { ", " } }"),
        ] {
            let prefixes = "PREFIX a: <http://jena.apache.org/ARQ/function/aggregate#> \
                            PREFIX pct: <urn:pythia:aggregate#percentile-> ";
            let text = format!("{prefixes}{start}SELECT ({call} AS ?x) {{ ?s ?p ?o }}{end}");
            let found = algebra(&text).replace(" , ", ", ");
            assert!(found.contains(written), "{text}\n{found}");
            assert!(!found.contains('\u{FDD0}'), "{found}");
        }
    }
}

#[test]
fn many_aggregates_by_iri_are_refused() {
    let text = |count| {
        let calls = "<urn:pythia:aggregate#mode>(?o),".repeat(count);
        format!("SELECT (COALESCE({calls}1) AS ?x) {{ ?s ?p ?o }}")
    };
    assert!(Query::parse(&text(100), None).is_ok());
    let (_, _, message) = place(&text(6000));
    assert!(message.contains("too many aggregates"), "{message}");
}

#[test]
fn booleans_are_read_in_any_case() {
    let text = "SELECT (TRUE AS ?TRUE) { ?s :False 'TRUE', False, <TRUE>, TRUE:x }";
    let read = "SELECT (true AS ?TRUE) { ?s :False 'TRUE', false, <TRUE>, TRUE:x }";
    assert_eq!(for_the_parser(text), read);
}

#[test]
fn base_iris_lose_their_dot_segments_and_nothing_moves() {
    let text =
        "BASE <http://a/é/../d;p?q> PREFIX b: </./x> SELECT * { <?y> ?p '/..', <http://a/../b> }";
    let read =
        "BASE <http://a/d;p?q>       PREFIX b: </./x> SELECT * { <?y> ?p '/..', <http://a/../b> }";
    assert_eq!(for_the_parser(text), read);
    let iris = |query: &str, base| {
        let query = Query::parse(query, base).expect("a query");
        query.algebra.to_string()
    };
    let query = "SELECT * { <?y> <#f> <g> , <> }";
    let expected = "<http://a/b?y> <http://a/b#f> <http://a/g>";
    for found in [
        iris(query, Some("http://a/x/../b")),
        iris(&format!("BASE <http://a/./b> {query}"), None),
        iris(&format!("BASE <x/../b> {query}"), Some("http://a/c/../")),
    ] {
        assert!(found.contains("http://a/b?y"), "{found} lacks {expected}");
        assert!(
            found.contains("http://a/b#f") && found.contains("<http://a/b>"),
            "{found}"
        );
    }
}

#[test]
fn deep_nesting_is_refused_not_recursed_into() {
    for (open, close) in [
        ("(", ")"),
        ("!", ""),
        ("STR(", ")"),
        ("?x <((", "))>"),
        ("EXISTS { FILTER (", ")}"),
    ] {
        let text = format!(
            "SELECT * {{ FILTER({}1{}) }}",
            open.repeat(10_000),
            close.repeat(10_000)
        );
        let (_, _, message) = place(&text);
        assert!(message.contains("nested"), "{open}: {message}");
    }
    for (open, close) in [
        ("{", "}"),
        ("?s ?p [ ", "]"),
        ("?s ?p (", ")"),
        ("<<( ?s ?p ", " )>>"),
        ("?s ?p ?o {| ", "|}"),
    ] {
        let text = format!(
            "SELECT * {{ {}{} }}",
            open.repeat(10_000),
            close.repeat(10_000)
        );
        let (_, _, message) = place(&text);
        assert!(message.contains("nested"), "{open}: {message}");
    }
}

#[test]
fn brackets_in_strings_and_iris_do_not_nest() {
    let brackets = "(".repeat(1000);
    let text = format!("SELECT * {{ ?s ?p \"{brackets}\" . ?s <http://e/a(b)> ?o }} # {brackets}");
    assert!(Query::parse(&text, None).is_ok());
}

#[test]
fn long_lists_are_read_and_long_chains_are_refused() {
    let repeated = |text: &str, count: usize, between: &str| vec![text; count].join(between);
    let in_filter = |text: String| format!("SELECT * {{ FILTER({text}) }}");
    let in_group = |text: String| format!("SELECT * {{ {text} }}");
    let rows = repeated("(-1 <a:b>)", 1_000_000, " ");
    for text in [
        in_filter(format!("?x IN ({})", repeated("-1", 100_000, ","))),
        in_group(format!("VALUES (?x ?y) {{ {rows} }}")),
        in_group(repeated("?s <a:b> -1", 100_000, " . ")),
        in_group(format!("?s <a:b> {}", repeated("'x'", 100_000, " , "))),
        in_group(repeated("{ ?s ?p ?o }", 4000, " UNION ")),
        in_group(repeated("OPTIONAL { ?s ?p ?o }", 200, " ")),
        in_group(repeated("LATERAL { ?s ?p ?o }", 40, " ")),
        in_filter(repeated("?x", 2001, " || ")),
        in_group(format!("?s {} ?o", repeated("<a:b>", 2001, "/"))),
    ] {
        assert!(Query::parse(&text, None).is_ok(), "{}", &text[..60]);
    }
    for text in [
        in_group(repeated("{ ?s ?p ?o }", 5000, " UNION ")),
        in_group(repeated("OPTIONAL { ?s ?p ?o }", 5000, " ")),
        in_group(repeated("LATERAL { ?s ?p ?o }", 5000, " ")),
        in_group(repeated("FILTER(?x)", 100_000, " ")),
        in_filter(repeated("?x", 10_000, " || ")),
        in_filter(repeated("?x", 10_000, " && ")),
        in_filter(repeated("?x", 10_000, " + ")),
        in_filter(format!("({}) + 1", repeated("?x", 2001, " + "))),
        in_group(format!("?s {} ?o", repeated("<a:b>", 10_000, "/"))),
        format!("SELECT {} {{ }}", repeated("?x", 100_000, " ")),
        format!("SELECT {} {{ }}", repeated("(1 AS ?x)", 10_000, " ")),
        format!(
            "SELECT * {{ }} ORDER BY {}",
            repeated("SUM(?x)", 10_000, " ")
        ),
    ] {
        let (_, _, message) = place(&text);
        assert!(message.contains("too many"), "{}: {message}", &text[..60]);
    }
}

#[test]
fn the_columns_of_a_star_come_in_the_order_of_the_text() {
    for (text, expected) in [
        ("SELECT * { ?s ?p ?o }", "s p o"),
        (
            "# select ?x\nSELECT DISTINCT * { ?z ?b 1 OPTIONAL { ?a ?b ?z } } LIMIT 3",
            "z b a",
        ),
        (
            "SELECT * { { SELECT ?n ?m { ?m ?n ?l } } ?m ?q ?n }",
            "n m q",
        ),
    ] {
        let query = Query::parse(text, None).unwrap();
        let spargebra::Query::Select { mut pattern, .. } = query.algebra else {
            panic!("{text}");
        };
        let names: Vec<&str> = projected(&mut pattern)
            .unwrap()
            .iter()
            .map(|v| v.as_str())
            .collect();
        assert_eq!(names.join(" "), expected, "{text}");
    }
}

#[test]
fn texts_that_end_anywhere_are_refused_or_read() {
    for text in [
        "PREFIX : <http://e/> PATHS SHORTEST 3 SIMPLE FROM :g START ?s = :a END ?e = { ?e :p ?x } VIA (:p|^:q)+ WEIGHT OPTIONAL (?to * 2) WHERE { ?to :q 'é' } MIN LENGTH 1 MAX LENGTH 4 ORDER BY ?e LIMIT 3 # end",
        "PREFIX : <http://e/> SELECT ??p { ?s ??p ?o . pathfilter(containsOnly(??p, :a, :b) && length(??p) < 4) pathfilter(containsAny(??p, :a)) }",
        "PREFIX : <http://e/> PATHS START ?s END ?e VIA { ?from :p ?to {| :w ?w |} } WEIGHT (?w)",
    ] {
        Query::parse(text, None).unwrap_or_else(|error| panic!("{text}: {error}"));
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            if let Err(error) = Query::parse(&text[..end], None) {
                assert!(matches!(error, SparqlError::Syntax { .. }), "{error}");
                assert!(error.snippet(text).is_some(), "{error}");
            }
        }
    }
}

/// Invalid updates with `⟦` at the position of the error, and a part of the message.
const BAD_UPDATES: &[(&str, &str)] = &[
    ("⟦SELECT * { ?s ?p ?o }", "run it with `pythia query`"),
    ("⟦INSRT DATA { <a:a> <a:a> <a:a> }", "did you mean INSERT?"),
    (
        "INSERT ⟦DTAA { <a:a> <a:a> <a:a> }",
        "expected { and quads, found DTAA",
    ),
    ("INSERT DATA { <a:a> <a:a> ⟦?x }", "cannot have variables"),
    (
        "DELETE DATA { <a:a> <a:a> ⟦_:x }",
        "match it with a variable",
    ),
    (
        "DELETE DATA { <a:a> <a:a> 1 ⟦{| <a:a> 1 |} }",
        "match it with a variable",
    ),
    ("INSERT DATA { ⟦3 <a:a> 1 }", "an IRI or a blank node"),
    (
        "DELETE { ⟦[] <a:a> ?x } WHERE { }",
        "match it with a variable",
    ),
    ("DELETE WHERE { ?x <a:a> ⟦_:x }", "match it with a variable"),
    ("INSERT DATA { <a:a> ⟦foaf:name 1 }", "PREFIX foaf: <http"),
    (
        "INSERT { ?s ?p ?o } ⟦WEHRE { ?s ?p ?o }",
        "did you mean WHERE?",
    ),
    (
        "INSERT DATA { <a:a> <a:a> 1 }\n⟦DELETE DATA { <a:a> <a:a> 1 }",
        "missing ;",
    ),
    (
        "INSERT DATA { <a:a> <a:a> 1 } ;\nPREFIX b: <b:> INSERT DATA { b:a b:a ⟦?o }",
        "cannot have variables",
    ),
    (
        "INSERT DATA { _:x <a:a> 1 } ; BASE <b:> INSERT DATA { ⟦_:x <a:a> 2 }",
        "_:x is in an INSERT DATA before",
    ),
    ("LOAD ⟦'file'", "the IRI to load from"),
    ("LOAD <a:a> INTO ⟦<a:b>", "expected GRAPH"),
    ("CLEAR ⟦<a:a>", "GRAPH and an IRI, DEFAULT, NAMED or ALL"),
    ("DROP ⟦DEFUALT", "did you mean DEFAULT?"),
    ("CREATE ⟦DEFAULT", "expected GRAPH"),
    ("COPY <a:a> ⟦<a:b>", "expected TO"),
    (
        "WITH <a:a> ⟦DLETE { ?s ?p ?o } WHERE { }",
        "did you mean DELETE?",
    ),
    ("DELETE DATA ⟦{ <a:a> <a:a> 1", "never closed"),
    (
        "DELETE { ?s ?p ?o } WHERE { ?s ?p ?o ⟦FITLER(?o > 3) }",
        "did you mean FILTER?",
    ),
    (
        "INSERT { ?s ?p ?o } WHERE { ?s ?p ?o } ⟦LIMIT 3",
        "; or the end of the update",
    ),
];

#[test]
fn errors_of_updates_say_where_and_what() {
    let mut wrong = Vec::new();
    for (marked, part) in BAD_UPDATES {
        let at = marked.find('⟦').unwrap_or(0);
        let text = marked.replace('⟦', "");
        let expected = place_of(&text, at);
        match Update::parse(&text, None) {
            Err(SparqlError::Syntax {
                line,
                column,
                message,
            }) if (line, column) == expected && message.contains(part) => {}
            other => wrong.push(format!("{marked}\n   {:?}", other.map(drop))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Updates with their number of operations.
pub(crate) const GOOD_UPDATES: &[(&str, usize)] = &[
    ("", 0),
    ("# nothing", 0),
    ("PREFIX a: <a:>", 0),
    (
        "INSERT DATA { <a> <b> _:c . GRAPH <g> { <a> <b> [] } . }",
        1,
    ),
    ("DELETE DATA { <a> <b> 'c'@en, <<( <a> <b> 3 )>> };", 1),
    ("DELETE WHERE { ?s ?p ?o . GRAPH ?g { ?s ?p ?o } }", 1),
    (
        "WITH <g> DELETE { ?s ?p ?o } INSERT { ?s ?p [ <q> ?o ] } USING <h> USING NAMED <i> WHERE { ?s ?p ?o }",
        1,
    ),
    ("INSERT { <a> <b> TRUE } WHERE { FILTER(True) }", 1),
    (
        "LOAD SILENT <x> INTO GRAPH <g> ; CLEAR DEFAULT; DROP SILENT NAMED; CREATE GRAPH <g>",
        4,
    ),
    (
        "COPY <g> TO <h>; ADD SILENT GRAPH <g> TO DEFAULT; MOVE DEFAULT TO <g>",
        3,
    ),
    (
        "COPY <g> TO <g>; COPY <g> TO <h>; MOVE DEFAULT TO DEFAULT",
        3,
    ),
    (
        "PREFIX e: <http://e/> ADD <http://e/g> TO e:g; COPY e:g TO <h>; DROP ALL",
        3,
    ),
    (
        "PREFIX a: <a:> INSERT DATA { a:a a:b ';' } ; # a; b\nPREFIX b: <b:> BASE <c:> DELETE DATA { a:a b:b <c> };",
        2,
    ),
    (
        "INSERT { ?s <p> ?o } WHERE { ?s ??path ?o . pathfilter(containsOnly(??path, <p>)) }",
        1,
    ),
    ("VERSION '1.2' CLEAR ALL", 1),
];

#[test]
fn good_updates_have_their_operations_and_no_fault() {
    for (text, count) in GOOD_UPDATES {
        let update = Update::parse(text, Some("http://e/"));
        assert_eq!(update.map(|u| u.len()).ok(), Some(*count), "{text}");
        let (_, fault) = grammar::read(text, Some("http://example.org/"), Language::Update);
        assert!(fault.is_none(), "{text}\n{fault:?}");
    }
}

#[test]
fn what_the_parser_forgets_of_transfers_is_known() {
    let text = "\nCOPY <a:g> TO DEFAULT ;\n MOVE SILENT GRAPH <a:g> TO <a:h>; ADD <a:g> TO <a:g>";
    let update = Update::parse(text, None).unwrap();
    let known: Vec<_> = update
        .operations
        .iter()
        .map(|operation| match &operation.action {
            Action::Transfer {
                silent,
                verb,
                graphs,
            } => {
                let graphs = graphs.as_ref().map(|(a, b)| format!("{a} {b}"));
                (operation.line, *silent, *verb, graphs)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        known,
        [
            (2, false, Transfer::Copy, Some("<a:g> DEFAULT".to_owned())),
            (3, true, Transfer::Move, Some("<a:g> <a:h>".to_owned())),
            (3, false, Transfer::Add, None),
        ]
    );
}

#[test]
fn long_updates_are_read() {
    let graphs: String = (0..5000)
        .map(|n| format!("GRAPH <a:{n}> {{ <a:a> <a:a> {n} }} "))
        .collect();
    let update = Update::parse(&format!("INSERT DATA {{ {graphs} }}"), None).unwrap();
    assert_eq!(update.len(), 1);
    let statements = "DELETE { ?s ?p ?o } WHERE { ?s ?p ?o OPTIONAL { ?s ?p 1 } } ;".repeat(5000);
    assert_eq!(Update::parse(&statements, None).unwrap().len(), 5000);
    let prologues = "PREFIX a: <a:> INSERT DATA { a:a a:a a:a } ;\n".repeat(300);
    assert_eq!(Update::parse(&prologues, None).unwrap().len(), 300);
    let too_many = "PREFIX a: <a:> INSERT DATA { a:a a:a a:a } ;\n".repeat(20_000);
    let error = Update::parse(&too_many, None).unwrap_err();
    assert!(error.to_string().contains("too many prologues"), "{error}");
}
