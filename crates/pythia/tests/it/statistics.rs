//! Functions for analysts: the statistical aggregates, and XPath's mathematical functions.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use oxrdf::NamedNode;
use pythia::{
    Database, LoadOptions, Options, QueryError, QueryOptions, ServiceError, ServiceHandler,
    ServiceSolutions,
};

use crate::support::{answer_of, database, database_with, ours};

const PREFIXES: &str = "PREFIX e: <http://e/> PREFIX agg: <http://jena.apache.org/ARQ/function/aggregate#> \
    PREFIX own: <urn:pythia:aggregate#> PREFIX math: <http://www.w3.org/2005/xpath-functions/math#> \
    PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> ";

/// Measurements at places; one of them is not a number.
const DATA: &str = "
<http://e/1> <http://e/at> <http://e/a> .
<http://e/1> <http://e/value> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/2> <http://e/at> <http://e/a> .
<http://e/2> <http://e/value> \"2.5\"^^<http://www.w3.org/2001/XMLSchema#decimal> .
<http://e/3> <http://e/at> <http://e/a> .
<http://e/3> <http://e/value> \"4\"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/4> <http://e/at> <http://e/a> .
<http://e/4> <http://e/value> \"4\"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/5> <http://e/at> <http://e/b> .
<http://e/5> <http://e/value> \"7\"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/6> <http://e/at> <http://e/c> .
<http://e/6> <http://e/value> \"none\" .
<http://e/7> <http://e/at> <http://e/c> .
<http://e/7> <http://e/value> \"3\"^^<http://www.w3.org/2001/XMLSchema#integer> .
";

/// Returns the lines of the answer, without the namespace and the datatypes, sorted. Doubles are in XPath's form.
fn answer_from(database: &Database, query: &str) -> Vec<String> {
    let answer = ours(database, &format!("{PREFIXES}{query}"));
    let answer = answer.unwrap_or_else(|error| panic!("{query}: {error}"));
    let plain = |cell: &str| {
        let (text, datatype) = cell.split_once("^^").unwrap_or((cell, ""));
        let text = text.trim_matches('"');
        match text.parse::<f64>() {
            Ok(number) if datatype.ends_with("#double>") && number.is_finite() => {
                let text = format!("{number:E}");
                let (digits, exponent) = text.split_once('E').expect("an exponent");
                let point = if digits.contains('.') { "" } else { ".0" };
                format!("{digits}{point}E{exponent}")
            }
            _ => text.replace("<http://e/", "").replace('>', ""),
        }
    };
    let line = |line: &String| {
        line.split('\t')
            .map(plain)
            .collect::<Vec<String>>()
            .join(" ")
    };
    answer.sorted().lines.iter().map(line).collect()
}

fn answer(query: &str) -> Vec<String> {
    answer_from(&database(DATA), query)
}

fn error(query: &str) -> String {
    match ours(&database(DATA), &format!("{PREFIXES}{query}")) {
        Ok(_) => panic!("{query} has an answer"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn groups_have_statistics() {
    assert_eq!(
        answer(
            "SELECT ?at (agg:var_pop(?v) AS ?x) (agg:stdev(DISTINCT ?v) AS ?y) { ?s e:at ?at ; e:value ?v } GROUP BY ?at"
        ),
        ["a 1.546875E0 1.5E0", "b 0.0E0 -", "c - -"]
    );
    assert_eq!(
        answer(
            "SELECT ?at (own:median(?v) AS ?x) (own:percentile-75(?v) AS ?y) (own:mode(?v) AS ?z) { ?s e:at ?at ; e:value ?v } GROUP BY ?at"
        ),
        ["a 3.25E0 4.0E0 4", "b 7.0E0 7.0E0 7", "c - - none"]
    );
    // In expressions, with other aggregates, in HAVING and in ORDER BY.
    assert_eq!(
        answer(
            "SELECT ?at (ROUND(agg:stdev(?v) * 100) + COUNT(?v) AS ?x) { ?s e:at ?at ; e:value ?v } GROUP BY ?at HAVING (agg:stdev(?v) > 1)"
        ),
        ["a 1.48E2"]
    );
    assert_eq!(
        answer(
            "SELECT ?at { ?s e:at ?at ; e:value ?v } GROUP BY ?at HAVING (own:median(DISTINCT ?v) < 3)"
        ),
        ["a"]
    );
    assert_eq!(
        answer(
            "SELECT ?at { ?s e:at ?at ; e:value ?v } GROUP BY ?at ORDER BY DESC(agg:var_pop(?v)) LIMIT 1"
        ),
        ["a"]
    );
}

#[test]
fn the_whole_is_one_group() {
    assert_eq!(
        answer(
            "SELECT (agg:stdev(?v) AS ?x) (own:median(?v) AS ?y) (own:mode(?at) AS ?z) { ?s e:at ?at ; e:value ?v FILTER(ISNUMERIC(?v)) }"
        ),
        ["2.01038968030247E0 3.5E0 a"]
    );
    // A group without rows, and no group.
    assert_eq!(
        answer(
            "SELECT (agg:stdev(?v) AS ?x) (own:median(?v) AS ?y) (own:mode(?v) AS ?z) { ?s e:none ?v }"
        ),
        ["- - -"]
    );
    assert!(answer("SELECT ?s (agg:stdev(?v) AS ?x) { ?s e:none ?v } GROUP BY ?s").is_empty());
    // Unbound values and errors make the result unbound, as with SUM.
    assert_eq!(
        answer(
            "SELECT (agg:stdev(?w) AS ?x) (own:mode(1/?w) AS ?y) { ?s e:value ?v OPTIONAL { ?s e:at e:a ; e:value ?w } }"
        ),
        ["- -"]
    );
}

#[test]
fn plans_that_avoid_solutions_keep_statistics() {
    // Pairs without a match, products and free ends of paths are not enumerated for the aggregates that SPARQL defines.
    let pairs =
        "{ ?x a e:No } UNION { ?s e:at ?at . ?t e:value ?v FILTER NOT EXISTS { ?t e:at ?at } }";
    assert_eq!(
        answer(&format!(
            "SELECT ?at (COUNT(?v) AS ?n) (own:median(?v) AS ?m) {{ {pairs} }} GROUP BY ?at"
        )),
        answer(&format!(
            "SELECT ?at (COUNT(?v) AS ?n) (own:median(?v) AS ?m) {{ {{ SELECT * {{ {pairs} }} }} }} GROUP BY ?at"
        ))
    );
    assert_eq!(
        answer(
            "SELECT ?at (agg:var_pop(?v) AS ?x) { ?s e:at ?at . ?t e:value ?v FILTER(ISNUMERIC(?v)) FILTER NOT EXISTS { ?t e:at ?at } } GROUP BY ?at"
        ),
        answer(
            "SELECT ?at (agg:var_pop(?v) AS ?x) { ?s e:at ?at . ?t e:value ?v ; e:at ?other FILTER(ISNUMERIC(?v)) FILTER(?other != ?at) } GROUP BY ?at"
        )
    );
    assert_eq!(
        answer(
            "SELECT (agg:var_pop(?v) AS ?x) (COUNT(*) AS ?n) { ?s e:at e:a ; e:value ?v . ?t e:at ?at }"
        ),
        ["1.546875E0 28"]
    );
    assert_eq!(
        answer(
            "SELECT (agg:var_pop(DISTINCT ?v) AS ?x) { ?s e:at e:a ; e:value ?v . ?t e:at ?at }"
        ),
        ["1.5E0"]
    );
}

#[test]
fn statistics_do_not_depend_on_the_order_of_rows() {
    let value = |n: usize| format!("{}", (n * n * 7919 % 10_007) as f64 / 100.0);
    let quads = |order: &mut dyn Iterator<Item = usize>| -> String {
        let quad = |n| {
            format!(
                "<http://e/{n}> <http://e/value> \"{}\"^^<http://www.w3.org/2001/XMLSchema#double> .\n",
                value(n)
            )
        };
        order.map(quad).collect()
    };
    let (forwards, backwards) = (
        database(&quads(&mut (0..3000))),
        database(&quads(&mut (0..3000).rev())),
    );
    let query = "SELECT (agg:stdev(?v) AS ?x) (own:percentile-99.9(?v) AS ?y) (own:mode(?v) AS ?z) { ?s e:value ?v }";
    let found = answer_from(&forwards, query);
    assert_eq!(answer_from(&backwards, query), found);
    let numbers: Vec<f64> = (0..3000)
        .map(|n| value(n).parse().expect("a number"))
        .collect();
    let mean = numbers.iter().sum::<f64>() / 3000.0;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let deviation: f64 = found[0]
        .split(' ')
        .next()
        .unwrap_or_default()
        .parse()
        .expect("a number");
    assert!(
        (deviation - (squares / 2999.0).sqrt()).abs() < 1e-9,
        "{deviation}"
    );
}

#[test]
fn kept_values_are_limited_by_memory() {
    let quads: String = (0..60_000)
        .map(|n| format!("<http://e/s> <http://e/value> \"{n}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n"))
        .collect();
    let options = Options {
        memory_bytes: 600 << 10,
        ..Options::default()
    };
    let small = database_with(&quads, options);
    for (aggregate, fits) in [
        ("agg:stdev", true),
        ("own:median", false),
        ("own:mode", false),
    ] {
        let found = ours(
            &small,
            &format!("{PREFIXES}SELECT ({aggregate}(?v) AS ?x) {{ ?s e:value ?v }}"),
        );
        match found {
            Ok(_) => assert!(fits, "{aggregate}"),
            Err(QueryError::Memory(_)) => assert!(!fits, "{aggregate}"),
            Err(error) => panic!("{aggregate}: {error}"),
        }
    }
    // Few different values fit, however many rows have them.
    let found = answer_from(
        &small,
        "SELECT (own:median(FLOOR(?v / 1000)) AS ?x) { ?s e:value ?v }",
    );
    assert_eq!(found, ["2.95E1"]);
    assert_eq!(small.usage().memory_bytes, 0);
}

#[test]
fn unknown_aggregates_are_errors_with_a_place() {
    let message = error("SELECT (agg:median(?v) AS ?x) { ?s e:value ?v }");
    assert!(
        message.contains("did you mean <urn:pythia:aggregate#median>?")
            && message.contains("line 1"),
        "{message}"
    );
    let message = error("SELECT (e:first(DISTINCT ?v) AS ?x) { ?s e:value ?v }");
    assert!(
        message.contains("<http://e/first> is not an aggregate"),
        "{message}"
    );
    // In a place where SPARQL allows no aggregate, it is refused as COUNT is.
    let message = error("SELECT * { ?s e:value ?v FILTER(agg:stdev(?v) > 1) }");
    assert!(message.contains("cannot be parsed"), "{message}");
    // With an escape, and no other aggregate by IRI, the parser does not see the aggregate.
    let escaped = "SELECT (<urn:pythia:\\u0061ggregate#mode>(1) AS ?x) {}";
    let message = ours(&database(DATA), escaped)
        .err()
        .map(|error| error.to_string());
    let message = message.expect("an error");
    assert!(
        message.contains("<urn:pythia:aggregate#mode>") && message.contains("escapes"),
        "{message}"
    );
}

#[test]
fn internal_aggregates_cannot_be_called() {
    let database = database(DATA);
    let query = "SELECT ?v (<urn:pythia:plan#sumState>(?v) AS ?x) { ?s <http://e/value> ?v }";
    let prepared = database
        .prepare(query, &QueryOptions::default())
        .expect("a call of a function");
    assert!(
        prepared.warnings()[0]
            .contains("nothing implements the function <urn:pythia:plan#sumState>")
    );
    let message = error("SELECT (<urn:pythia:plan#sumState>(DISTINCT ?v) AS ?x) { ?s e:value ?v }");
    assert!(message.contains("is not an aggregate"), "{message}");
}

#[test]
fn updates_use_statistics() {
    let folder = tempfile::tempdir().expect("a folder");
    pythia::load(
        folder.path(),
        Vec::new(),
        &LoadOptions::default(),
        &Default::default(),
    )
    .expect("loaded");
    let database = Database::open_for_writing(folder.path()).expect("opened");
    let data = "INSERT DATA { e:a e:v 1 . e:b e:v 3 . e:c e:v 8 }";
    let derived = "INSERT { e:all e:median ?m } WHERE { SELECT (own:median(DISTINCT ?v) AS ?m) { ?s e:v ?v } }";
    database
        .update(&format!("{PREFIXES}{data}; {derived}"))
        .expect("updated");
    assert_eq!(
        answer_from(&database, "SELECT ?m { e:all e:median ?m }"),
        ["3.0E0"]
    );
}

/// An endpoint that keeps the queries it was asked.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

impl ServiceHandler for Asked {
    fn select(
        &self,
        _: &NamedNode,
        query: &str,
        _: Option<Instant>,
    ) -> Result<ServiceSolutions, ServiceError> {
        self.0.lock().expect("no panic").push(query.to_owned());
        Ok(ServiceSolutions {
            variables: Vec::new(),
            rows: Box::new(std::iter::empty()),
        })
    }
}

#[test]
fn endpoints_are_sent_aggregates_as_written() {
    let asked = Arc::new(Asked::default());
    let options = QueryOptions {
        service: Some(Arc::clone(&asked) as Arc<dyn ServiceHandler>),
        ..QueryOptions::default()
    };
    let query = format!(
        "{PREFIXES}SELECT * {{ SERVICE e:x {{ SELECT (agg:stdev(DISTINCT ?v) AS ?x) {{ ?s e:v ?v }} }} }}"
    );
    let prepared = database(DATA).prepare(&query, &options).expect("a query");
    answer_of(prepared.execute().expect("started")).expect("an answer");
    let asked = asked.0.lock().expect("no panic");
    let call = "<http://jena.apache.org/ARQ/function/aggregate#stdev>(DISTINCT ?v)";
    assert!(asked[0].contains(call), "{asked:?}");
}

#[test]
fn mathematical_functions_are_those_of_xpath() {
    for (call, expected) in [
        ("math:pi()", "3.141592653589793E0"),
        ("math:exp(0)", "1.0E0"),
        ("math:exp(-1e999)", "0.0E0"),
        ("math:exp10(2)", "1.0E2"),
        ("math:exp10(0.5)", "3.1622776601683795E0"),
        ("math:log(1)", "0.0E0"),
        ("math:log(0)", "-INF"),
        ("math:log(-1)", "NaN"),
        ("math:log10(1000.0)", "3.0E0"),
        ("math:pow(2, 3)", "8.0E0"),
        ("math:pow(0, -1)", "INF"),
        ("math:pow(-0e0, -3)", "-INF"),
        ("math:pow(-1, xsd:double('INF'))", "1.0E0"),
        ("math:pow(xsd:double('NaN'), 0)", "1.0E0"),
        ("math:pow(-2.5, 2.00000001)", "NaN"),
        ("math:sqrt(xsd:float(2.25))", "1.5E0"),
        ("math:sqrt(-1)", "NaN"),
        ("math:sin(0)", "0.0E0"),
        ("math:cos(math:pi())", "-1.0E0"),
        ("ROUND(math:tan(math:pi() / 4) * 1000)", "1.0E3"),
        ("math:asin(1)", "1.5707963267948966E0"),
        ("math:acos(2)", "NaN"),
        ("math:atan(xsd:double('INF'))", "1.5707963267948966E0"),
        ("math:atan2(0, -1)", "3.141592653589793E0"),
        ("math:atan2(-0e0, 1)", "-0.0E0"),
        ("math:sqrt('4')", "-"),
        ("math:sqrt(true)", "-"),
        ("math:sqrt(?nothing)", "-"),
        ("math:pow(2, e:a)", "-"),
        ("COALESCE(math:log('x'), 5)", "5"),
        ("DATATYPE(math:pow(2, 2)) = xsd:double", "true"),
        (&format!("math:sqrt(1{})", "0".repeat(60)), "1.0E30"),
    ] {
        assert_eq!(
            answer(&format!("SELECT ({call} AS ?x) {{}}")),
            [expected],
            "{call}"
        );
    }
}

#[test]
fn mathematical_functions_are_evaluated_for_each_row() {
    assert_eq!(
        answer("SELECT ?s (math:pow(?v, 2) AS ?x) { ?s e:value ?v }"),
        [
            "1 1.0E0", "2 6.25E0", "3 1.6E1", "4 1.6E1", "5 4.9E1", "6 -", "7 9.0E0"
        ]
    );
    assert_eq!(
        answer("SELECT ?s { ?s e:value ?v FILTER(math:sqrt(?v) = 2) }"),
        ["3", "4"]
    );
    // Still functions where rows are grouped.
    assert_eq!(
        answer(
            "SELECT ?r (math:sqrt(SUM(?v) - 2.5) AS ?x) (AVG(math:sqrt(?v)) AS ?y) { ?s e:at e:a ; e:value ?v } GROUP BY (math:log10(10) AS ?r)"
        ),
        ["1.0E0 3.0E0 1.6452847075210475E0"]
    );
}

#[test]
fn mathematical_functions_take_a_number_of_arguments() {
    for call in [
        "math:pow(2)",
        "math:sqrt(1, 2)",
        "math:sqrt()",
        "math:pi(1)",
        "math:atan2(1, 2, 3)",
    ] {
        let message = error(&format!("SELECT ({call} AS ?x) {{}}"));
        let name = &call["math:".len()..call.find('(').unwrap_or_default()];
        assert!(
            message.contains(&format!("math#{name}>")) && message.contains("it takes"),
            "{message}"
        );
    }
    let warnings = |query: &str| {
        let prepared =
            database(DATA).prepare(&format!("{PREFIXES}{query}"), &QueryOptions::default());
        prepared.expect("a query").warnings().to_vec()
    };
    assert!(warnings("SELECT (math:pi() AS ?x) {}").is_empty());
    assert_eq!(warnings("SELECT (math:sinh(1) AS ?x) {}").len(), 1);
}
