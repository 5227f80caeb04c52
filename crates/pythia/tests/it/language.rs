//! Constructs of the language whose planning is not that of joins: EXISTS, datasets, GRAPH around
//! sub-queries, triple terms, SERVICE, functions of the embedding program.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use oxrdf::{Literal, NamedNode, Term, Variable};
use pythia::{
    Database, LoadOptions, QueryError, QueryOptions, ServiceError, ServiceHandler, ServiceSolutions,
};

use crate::support::{answer_of, database, ours};

const DATA: &str = "
<http://e/a> <http://e/p> <http://e/b> .
<http://e/a> <http://e/p> <http://e/c> .
<http://e/b> <http://e/p> <http://e/c> .
<http://e/b> <http://e/n> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/c> <http://e/n> \"2\"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/x> <http://e/p> <http://e/y> <http://e/g1> .
<http://e/x> <http://e/p> <http://e/y> <http://e/g2> .
<http://e/y> <http://e/p> <http://e/z> <http://e/g2> .
<http://e/z> <http://e/q> <http://e/z> <http://e/g3> .
<http://e/r1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> <<( <http://e/a> <http://e/p> <http://e/b> )>> .
<http://e/r2> <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> <<( <http://e/b> <http://e/p> <http://e/c> )>> .
<http://e/r3> <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> <<( <http://e/b> <http://e/s> <http://e/b> )>> .
<http://e/r4> <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> <<( <http://e/b> <http://e/s> <<( <http://e/c> <http://e/t> <http://e/b> )>> )>> .
";

/// The answer's lines with the namespace taken out, sorted.
fn answer(query: &str) -> Vec<String> {
    let database = database(DATA);
    let text = format!(
        "PREFIX e: <http://e/> PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> {query}"
    );
    let answer = ours(&database, &text).unwrap_or_else(|error| panic!("{query}: {error}"));
    let lines = answer.sorted().lines;
    let xsd = "^^<http://www.w3.org/2001/XMLSchema#";
    let plain = |line: &String| {
        let line = line
            .replace(&format!("{xsd}integer>"), "")
            .replace(&format!("{xsd}boolean>"), "");
        line.replace("<http://e/", "").replace(['>', '"'], "")
    };
    lines.iter().map(plain).collect()
}

fn rows(query: &str) -> usize {
    answer(query).len()
}

#[test]
fn exists_sees_the_row() {
    assert_eq!(
        answer("SELECT ?s { ?s e:p e:c FILTER EXISTS { ?s e:p e:b } }"),
        ["a"]
    );
    assert_eq!(
        answer("SELECT ?s { ?s e:p e:c FILTER NOT EXISTS { ?s e:p e:b } }"),
        ["b"]
    );
    // Inside filters of the pattern too.
    assert_eq!(
        answer("SELECT ?s { ?s e:n ?n FILTER EXISTS { ?t e:n ?m FILTER(?m > ?n) } }"),
        ["b"]
    );
    assert_eq!(
        answer("SELECT ?s { ?s e:n ?n FILTER EXISTS { FILTER(?n = 2) } }"),
        ["c"]
    );
}

#[test]
fn exists_in_any_expression() {
    assert_eq!(
        answer("SELECT DISTINCT ?s ?e { ?s e:p ?o BIND(EXISTS { ?s e:n ?n } AS ?e) }"),
        ["a\tfalse", "b\ttrue"]
    );
    assert_eq!(
        answer("SELECT ?s { ?s e:n ?n } ORDER BY (EXISTS { ?s e:p ?o }) LIMIT 1"),
        ["c"]
    );
    assert_eq!(
        answer("SELECT ?s { ?s e:p ?o } GROUP BY ?s HAVING(EXISTS { ?s e:n ?n })"),
        ["b"]
    );
    assert_eq!(
        rows(
            "SELECT * { ?s e:p ?o OPTIONAL { ?o e:n ?n FILTER(?n = 1 || EXISTS { ?s e:n 1 }) } FILTER(BOUND(?n)) }"
        ),
        2
    );
}

#[test]
fn exists_with_parts_that_stand_alone() {
    assert_eq!(
        answer("SELECT DISTINCT ?s { ?s e:p ?o FILTER EXISTS { SELECT ?s { ?s e:n ?n } } }"),
        ["b"]
    );
    // What a sub-query does not show is its own.
    assert_eq!(
        rows("SELECT ?o { e:a e:p ?o FILTER EXISTS { SELECT ?n { ?o e:n ?n FILTER(?n = 1) } } }"),
        2
    );
    assert_eq!(
        answer(
            "SELECT DISTINCT ?s { ?s e:p ?o FILTER EXISTS {
               { SELECT ?s (COUNT(*) AS ?c) { ?s e:p ?x } GROUP BY ?s HAVING(COUNT(*) > 1) } } }"
        ),
        ["a"]
    );
    assert_eq!(
        answer(
            "SELECT DISTINCT ?s { ?s e:p ?o FILTER EXISTS { ?s e:p ?x MINUS { ?x e:n 1 } } FILTER NOT EXISTS { ?s e:p ?x MINUS { ?x e:n 2 } } }"
        ),
        ["b"]
    );
}

#[test]
fn exists_where_a_shared_variable_is_unbound() {
    assert_eq!(
        rows("SELECT * { ?s e:p ?o OPTIONAL { ?o e:p ?x } FILTER EXISTS { ?x e:n 2 } }"),
        3
    );
    assert_eq!(
        rows("SELECT * { ?s e:p ?o OPTIONAL { ?o e:p ?x } FILTER EXISTS { ?x e:n 1 } }"),
        2
    );
}

#[test]
fn exists_looks_at_the_graph_it_stands_in() {
    assert_eq!(
        answer("SELECT ?g { GRAPH ?g { ?s e:p e:y FILTER EXISTS { e:y e:p ?z } } }"),
        ["g2"]
    );
    assert_eq!(
        rows("SELECT ?g { GRAPH ?g { ?s e:p e:y } FILTER EXISTS { e:y e:p ?z } }"),
        0
    );
    assert_eq!(
        answer("SELECT ?s { ?s e:p ?o FILTER EXISTS { GRAPH ?g { e:x e:p e:y } } }"),
        ["a", "a", "b"]
    );
}

#[test]
fn graphs_named_by_from_are_merged() {
    assert_eq!(rows("SELECT * FROM e:g1 FROM e:g2 { ?s ?p ?o }"), 2);
    assert_eq!(rows("SELECT * FROM e:g1 FROM e:g2 { ?s e:p/e:p ?o }"), 1);
    assert_eq!(rows("SELECT * FROM e:g1 FROM e:g2 { e:x e:p+ ?o }"), 2);
    assert_eq!(rows("SELECT * FROM e:g1 FROM e:g2 { ?s e:p* ?o }"), 6);
    assert_eq!(
        rows("SELECT * FROM e:g1 FROM e:g2 { GRAPH ?g { ?s ?p ?o } }"),
        0
    );
    assert_eq!(
        rows("SELECT * FROM e:g1 FROM NAMED e:g2 { ?s ?p ?o GRAPH ?g { ?s ?p ?o } }"),
        1
    );
    assert_eq!(rows("SELECT * FROM NAMED e:g2 { ?s ?p ?o }"), 0);
    assert_eq!(
        rows("SELECT * FROM NAMED e:g2 { GRAPH ?g { ?s ?p ?o } }"),
        2
    );
    assert_eq!(
        rows("SELECT * FROM NAMED e:g2 { GRAPH e:g1 { ?s ?p ?o } }"),
        0
    );
    assert_eq!(rows("DESCRIBE e:x FROM e:g1"), 1);
    assert_eq!(rows("DESCRIBE e:y FROM e:g1 FROM e:g2"), 1);
}

#[test]
fn anything_may_stand_inside_graph() {
    assert_eq!(
        answer("SELECT ?g ?n { GRAPH ?g { SELECT (COUNT(*) AS ?n) { ?s ?p ?o } } }"),
        ["g1\t1", "g2\t2", "g3\t1"]
    );
    assert_eq!(
        answer("SELECT ?g { GRAPH ?g { ?s e:p ?o MINUS { ?y e:p e:z } } }"),
        ["g1", "g2", "g2"]
    );
    assert_eq!(
        answer("SELECT ?g { GRAPH ?g { ?s e:p ?o MINUS { ?o e:p e:z } } }"),
        ["g1", "g2"]
    );
    // The graph's variable is not visible inside (SPARQL 1.1 §18.6).
    assert_eq!(
        rows("SELECT ?g { GRAPH ?g { ?s ?p ?o FILTER(?g = e:g1) } }"),
        0
    );
    assert_eq!(
        rows("SELECT ?g { GRAPH ?g { ?s ?p ?o } FILTER(?g = e:g1) }"),
        1
    );
}

#[test]
fn triple_terms_are_matched_inside() {
    assert_eq!(
        answer("SELECT ?r ?s { ?r rdf:reifies <<( ?s e:p e:c )>> }"),
        ["r2\tb"]
    );
    assert_eq!(
        answer("SELECT ?r { ?r rdf:reifies <<( ?x ?p ?x )>> }"),
        ["r3"]
    );
    assert_eq!(
        answer("SELECT ?r ?z { ?r rdf:reifies <<( ?x ?p <<( ?y e:t ?z )>> )>> }"),
        ["r4\tb"]
    );
    // Every triple and who says so.
    assert_eq!(
        answer("SELECT ?s ?o ?r { ?s e:p ?o OPTIONAL { ?r rdf:reifies <<( ?s e:p ?o )>> } }"),
        ["a\tb\tr1", "a\tc\t-", "b\tc\tr2"]
    );
    assert_eq!(answer("SELECT ?s { << ?s e:p ?o >> ?x ?y }").len(), 2);
}

/// An endpoint that knows who likes whom, and keeps the queries it was asked.
#[derive(Default)]
struct Likes(Mutex<Vec<String>>);

impl ServiceHandler for Likes {
    fn select(
        &self,
        endpoint: &NamedNode,
        query: &str,
        _: Option<Instant>,
    ) -> Result<ServiceSolutions, ServiceError> {
        self.0.lock().unwrap().push(query.to_owned());
        if endpoint.as_str() != "http://e/likes" {
            return Err(ServiceError("not there".to_owned()));
        }
        let node = |name: &str| {
            Some(Term::from(NamedNode::new_unchecked(format!(
                "http://e/{name}"
            ))))
        };
        Ok(ServiceSolutions {
            variables: vec![Variable::new_unchecked("o"), Variable::new_unchecked("s")],
            rows: Box::new(
                [
                    vec![node("b"), node("a")],
                    vec![node("a"), node("b")],
                    vec![None, node("c")],
                ]
                .into_iter()
                .map(Ok),
            ),
        })
    }
}

fn with_service(query: &str, likes: &Arc<Likes>) -> Result<Vec<String>, QueryError> {
    let database = database(DATA);
    let options = QueryOptions {
        service: Some(Arc::clone(likes) as Arc<dyn ServiceHandler>),
        ..QueryOptions::default()
    };
    let text = format!("PREFIX e: <http://e/> {query}");
    let mut lines = answer_of(database.prepare(&text, &options)?.execute()?)?.lines;
    lines.sort();
    Ok(lines)
}

#[test]
fn service_joins_what_an_endpoint_answers() {
    let likes = Arc::new(Likes::default());
    let found = with_service(
        "SELECT ?s ?o { ?s e:p ?o SERVICE e:likes { ?s e:likes ?o } }",
        &likes,
    );
    assert_eq!(found.unwrap(), ["<http://e/a>\t<http://e/b>"]);
    let asked = likes.0.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert!(
        asked[0].contains("VALUES") && asked[0].contains("<http://e/likes>"),
        "{asked:?}"
    );
    // Alone, and where the answer leaves a variable unbound.
    let found = with_service("SELECT ?s ?o { SERVICE e:likes { ?s e:likes ?o } }", &likes);
    assert_eq!(found.unwrap().len(), 3);
    let found = with_service(
        "SELECT ?s ?o { ?s e:n 2 SERVICE e:likes { ?s e:likes ?o } }",
        &likes,
    );
    assert_eq!(found.unwrap(), ["<http://e/c>\t-"]);
    let query = "SELECT ?s { VALUES ?e { e:likes } ?s e:n 2 SERVICE ?e { ?s e:likes ?o } }";
    assert_eq!(with_service(query, &likes).unwrap().len(), 1);
}

#[test]
fn a_silent_service_that_fails_binds_nothing() {
    let likes = Arc::new(Likes::default());
    let query = "SELECT ?s ?o { ?s e:n 2 SERVICE e:absent { ?s e:likes ?o } }";
    let error = with_service(query, &likes).unwrap_err().to_string();
    assert!(
        error.contains("http://e/absent") && error.contains("not there"),
        "{error}"
    );
    let silent = query.replace("SERVICE", "SERVICE SILENT");
    assert_eq!(with_service(&silent, &likes).unwrap(), ["<http://e/c>\t-"]);
    let error = ours(
        &database(DATA),
        "SELECT * { SERVICE <http://e/x> { ?s ?p ?o } }",
    );
    assert!(matches!(error, Err(QueryError::Unsupported { .. })));
}

#[test]
fn programs_bring_their_own_functions() {
    let shout: pythia::CustomFunction = Arc::new(|arguments: &[Term]| match arguments {
        [Term::NamedNode(node)] => {
            Some(Literal::new_simple_literal(node.as_str().to_uppercase()).into())
        }
        _ => None,
    });
    let name = NamedNode::new_unchecked("http://e/shout");
    let options = QueryOptions {
        functions: Arc::new([(name, shout)].into()),
        ..QueryOptions::default()
    };
    let query = "SELECT (<http://e/shout>(?s) AS ?x) (<http://e/shout>(?n) AS ?y) { ?s <http://e/n> ?n } ORDER BY ?s LIMIT 1";
    let database = database(DATA);
    let results = database
        .prepare(query, &options)
        .unwrap()
        .execute()
        .unwrap();
    assert_eq!(answer_of(results).unwrap().lines, ["\"HTTP://E/B\"\t-"]);
}

#[test]
fn equal_variables_are_joined_not_compared() {
    assert_eq!(
        answer("SELECT ?x ?y ?z { ?x e:p ?y . ?z e:n ?n FILTER(?y = ?z) }"),
        ["a\tb\tb", "a\tc\tc", "b\tc\tc"]
    );
    assert_eq!(
        rows("SELECT * { ?x e:p ?y . ?z e:n ?n FILTER(?y = ?z && ?z != e:b) }"),
        2
    );
    assert_eq!(
        rows("SELECT * { ?x e:p ?y . ?y2 e:p ?z . ?z2 e:n ?n FILTER(?y = ?y2) FILTER(?z2 = ?z) }"),
        1
    );
    assert_eq!(
        rows("SELECT * { ?x e:n ?n . ?y e:n ?m FILTER(?n = ?m) }"),
        2
    );
    assert_eq!(
        rows("SELECT * { ?x e:p ?y . ?z e:n ?n FILTER(SAMETERM(?y, ?z)) OPTIONAL { ?z e:p ?w } }"),
        3
    );
}

#[test]
fn what_is_drawn_is_drawn_for_each_solution() {
    let quads: String = (0..200)
        .map(|n| format!("<http://e/{n}> <http://e/p> <http://e/{}> .\n", n % 3))
        .collect();
    let database = database(&quads);
    for query in [
        "SELECT * { ?s <http://e/p> ?o FILTER(RAND() < 0.5) }",
        "SELECT * { { ?s <http://e/p> ?o FILTER(RAND() < 0.5) } }",
        "SELECT * { ?s <http://e/p> ?o FILTER(STRLEN(STR(?o)) > 0 && RAND() < 0.5) }",
    ] {
        let rows = ours(&database, query).unwrap().lines.len();
        assert!((20..180).contains(&rows), "{rows} of 200: {query}");
    }
}

/// Each solution of a group draws once, however many solutions of other groups it is joined with.
#[test]
fn a_solution_draws_once_before_joins() {
    let mut data = String::new();
    for n in 0..50 {
        data.push_str(&format!(
            "<http://e/{n}> <http://e/p> <http://e/{}> .\n",
            n % 3
        ));
        for name in 0..4 {
            data.push_str(&format!("<http://e/{n}> <http://e/name> \"{name}\" .\n"));
        }
    }
    let database = database(&data);
    for (pattern, solutions, drawn) in [
        ("?s e:p ?o BIND(UUID() AS ?x) ?s e:name ?n", 200, 50),
        ("{ ?s e:p ?o BIND(RAND() AS ?x) } ?s e:name ?n", 200, 50),
        ("?s e:name ?n { ?s e:p ?o BIND(STRUUID() AS ?x) }", 200, 50),
        (
            "?s e:name ?n OPTIONAL { ?s e:p ?o BIND(RAND() AS ?x) }",
            200,
            50,
        ),
        (
            "?s e:name ?n { ?s e:p ?o BIND(RAND() AS ?x) } UNION { ?s e:q ?o }",
            200,
            50,
        ),
        (
            "?s e:name ?n { SELECT ?s (BNODE() AS ?x) { ?s e:p ?o } }",
            200,
            50,
        ),
        (
            "?s e:p ?o BIND(RAND() AS ?y) ?s e:name ?n BIND(?y + 1 AS ?x)",
            200,
            50,
        ),
        ("?s e:p ?o . ?s e:name ?n BIND(UUID() AS ?x)", 200, 200),
        (
            "?s e:p ?o LATERAL { ?s e:name ?n BIND(RAND() AS ?x) }",
            200,
            200,
        ),
    ] {
        let query = format!(
            "PREFIX e: <http://e/> SELECT (COUNT(*) AS ?n) (COUNT(DISTINCT ?x) AS ?d) {{ {pattern} }}"
        );
        let lines = ours(&database, &query).unwrap().lines;
        let integer = "^^<http://www.w3.org/2001/XMLSchema#integer>";
        let expected = format!("\"{solutions}\"{integer}\t\"{drawn}\"{integer}");
        assert_eq!(lines, [expected], "{pattern}");
    }
}

#[test]
fn unknown_functions_are_warned_of_in_plans() {
    let database = database(DATA);
    let query = "SELECT * { ?s ?p ?o FILTER(<http://e/unknown>(?o)) }";
    let prepared = database.prepare(query, &QueryOptions::default()).unwrap();
    let warning = "nothing implements the function <http://e/unknown>, so calls of it are errors";
    assert_eq!(prepared.warnings(), [warning]);
    assert!(
        prepared
            .explain()
            .ends_with(&format!("warning: {warning}\n"))
    );
    assert!(prepared.explain_json().contains(warning));
    let plain = database
        .prepare("ASK {}", &QueryOptions::default())
        .unwrap();
    assert!(plain.warnings().is_empty() && !plain.explain().contains("warning"));
}

#[test]
fn unknown_functions_are_warned_of_in_reports_of_updates() {
    let folder = tempfile::tempdir().unwrap();
    let (options, progress) = (LoadOptions::default(), Default::default());
    pythia::load(folder.path(), Vec::new(), &options, &progress).unwrap();
    let database = Database::open_for_writing(folder.path()).unwrap();
    let insert = "INSERT {<http://e/a> <http://e/p> ?x} WHERE {BIND(<http://e/unknown>(1) AS ?x)}";
    let report = database.update(&format!("{insert};{insert}")).unwrap();
    let warning = "nothing implements the function <http://e/unknown>, so calls of it are errors";
    assert_eq!(
        (report.added, report.warnings),
        (0, vec![warning.to_owned()])
    );
}

#[test]
fn language_tags_leave_in_the_form_of_rfc_5646() {
    let database = database(
        "<http://e/a> <http://e/p> \"x\"@EN-gb .\n\
         <http://e/r> <http://e/p> <<( <http://e/a> <http://e/p> \"y\"@zh-HANT )>> .\n\
         <http://e/s> <http://e/p> \"z\"@ar-eg--rtl .\n",
    );
    let written = |query: &str, format| {
        let prepared = database.prepare(query, &QueryOptions::default()).unwrap();
        let mut bytes = Vec::new();
        pythia::write_results(prepared.execute().unwrap(), format, &mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let has_form = |text: &str| {
        ["en-GB", "zh-Hant", "ar-EG"]
            .iter()
            .all(|tag| text.contains(tag))
            && !text.contains("en-gb")
    };
    for format in [
        pythia::ResultFormat::Json,
        pythia::ResultFormat::Xml,
        pythia::ResultFormat::Tsv,
    ] {
        let text = written("SELECT ?o { ?s ?p ?o }", format);
        assert!(has_form(&text), "{format:?}: {text}");
    }
    for query in [
        "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }",
        "DESCRIBE ?s { ?s ?p ?o }",
    ] {
        let text = written(query, pythia::ResultFormat::NTriples);
        assert!(has_form(&text), "{query}: {text}");
    }
    let mut dump = Vec::new();
    pythia::dump(
        &database.snapshot(),
        database.cores(),
        pythia::RdfFormat::NQuads,
        &mut dump,
    )
    .unwrap();
    assert!(has_form(&String::from_utf8(dump).unwrap()));
    let table = written("SELECT ?o { ?s ?p ?o }", pythia::ResultFormat::Arrow);
    assert!(table.contains("en-GB"));
}

#[test]
fn services_that_nothing_implements_are_errors_unless_silent() {
    let database = database(DATA);
    let options = QueryOptions {
        service: Some(Arc::new(pythia::HttpService::default())),
        ..QueryOptions::default()
    };
    let label =
        "SERVICE %SILENT% <http://wikiba.se/ontology#label> { <http://e/x> <http://e/y> \"en\" }";
    for pattern in [
        label,
        "?s <http://e/p> ?o . %LABEL%",
        // Also where nothing is left that it could be asked for.
        "?s <http://e/nothing> ?o . %LABEL%",
        "?s <http://e/p> ?o SERVICE %SILENT% <urn:other> { ?s ?q ?x }",
    ] {
        let query = |silent: &str| {
            let pattern = pattern
                .replace("%LABEL%", label)
                .replace("%SILENT%", silent);
            format!("SELECT * {{ {pattern} }}")
        };
        let error = database.prepare(&query(""), &options).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("nothing implements this service"),
            "{error}"
        );
        let prepared = database.prepare(&query("SILENT"), &options).unwrap();
        answer_of(prepared.execute().unwrap()).unwrap();
    }
}
