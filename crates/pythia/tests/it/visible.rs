//! Queries and updates that may not see or change all graphs: to them, the others are not there.

use std::collections::BTreeSet;

use oxigraph::io::{RdfFormat, RdfParser};
use pythia::{
    Database, GraphRules, Loader, PlanNode, Query, QueryError, QueryOptions, Update, UpdateOptions,
    UpdateReport,
};

use crate::differential::generator::Generator;
use crate::optimize::with_everything;
use crate::support::{answer_of, contents, database, dataset, quads_of, writable};

/// Data sets, and queries asked of each.
const DATA_SETS: u64 = 60;
const QUERIES: u64 = 40;

fn seeing(entries: &[&str]) -> QueryOptions {
    QueryOptions {
        visible: GraphRules::parse(entries).expect("rules"),
        ..QueryOptions::default()
    }
}

fn changing(entries: &[&str]) -> UpdateOptions {
    UpdateOptions {
        writable: GraphRules::parse(entries).expect("rules"),
        ..UpdateOptions::default()
    }
}

/// An answer's sorted lines, or what kind of error there is.
fn asked(database: &Database, query: &str, options: &QueryOptions) -> Result<Vec<String>, String> {
    let answer = database
        .prepare(query, options)
        .and_then(|prepared| answer_of(prepared.execute()?));
    match answer {
        Ok(answer) => Ok(answer.sorted().lines),
        Err(error) => Err(error.to_string()),
    }
}

/// Rules, and whether they let the graph of a line of N-Quads be seen.
pub(crate) type Rules = (&'static [&'static str], fn(&str) -> bool);

/// The graph that ends a line of the generator's data; empty for the default graph.
pub(crate) fn graph_of(line: &str) -> &str {
    let quad = line.trim_end_matches(" .").trim_end();
    ["<http://e/g0>", "<http://e/g1>", "<http://e/g2>"]
        .into_iter()
        .find(|graph| quad.ends_with(*graph))
        .unwrap_or("")
}

pub(crate) const RULES: [Rules; 6] = [
    (&["default"], |graph| graph.is_empty()),
    (&["default", "http://e/g1"], |graph| {
        graph.is_empty() || graph == "<http://e/g1>"
    }),
    (&["http://e/g*"], |graph| !graph.is_empty()),
    (&["http://e/g0", "http://e/g2*", "http://e/none"], |graph| {
        ["<http://e/g0>", "<http://e/g2>"].contains(&graph)
    }),
    (&["default", "http://e/n*"], |graph| graph.is_empty()),
    (&[], |_| false),
];

#[test]
fn a_restricted_query_answers_as_over_a_store_of_what_it_sees() {
    for seed in 0..DATA_SETS {
        let mut generator = Generator::new(0x5EE0 + seed);
        let data = generator.data();
        // Half of the stores hold a part of their quads as changes.
        let all = if seed % 2 == 0 {
            database(&data.join("\n"))
        } else {
            with_changes(&data)
        };
        let (entries, sees) = RULES[(seed % RULES.len() as u64) as usize];
        let visible: Vec<String> = data.iter().filter(|l| sees(graph_of(l))).cloned().collect();
        let some = database(&visible.join("\n"));
        for _ in 0..QUERIES {
            let mut query = generator.query();
            query.retain(|line| !line.starts_with("LIMIT "));
            let query = query.join("\n");
            let expected = asked(&some, &query, &QueryOptions::default());
            let found = asked(&all, &query, &seeing(entries));
            assert_eq!(found, expected, "{entries:?} {query}\n{}", data.join("\n"));
        }
    }
}

/// A store some of whose quads were inserted after it was loaded.
pub(crate) fn with_changes(data: &[String]) -> Database {
    let is_late = |(number, line): &(usize, &String)| number % 3 == 0 && !line.contains("_:");
    let (late, early): (Vec<_>, Vec<_>) = data.iter().enumerate().partition(is_late);
    let text = |lines: Vec<(usize, &String)>| -> String {
        lines
            .into_iter()
            .map(|(_, line)| format!("{line}\n"))
            .collect()
    };
    let database = writable(&text(early));
    let late = text(late);
    let quads = RdfParser::from_format(RdfFormat::NQuads).for_slice(late.as_bytes());
    let quads: Vec<oxrdf::Quad> = quads.map(|quad| quad.expect("a quad")).collect();
    let mut transaction = database.transaction().expect("writable");
    transaction
        .insert_all(quads.iter().map(oxrdf::Quad::as_ref))
        .expect("inserted");
    transaction.commit().expect("committed");
    database
}

/// Queries that labels, cached attributes and degrees answer.
const SHORTCUTS: [&str; 12] = [
    "SELECT * { ?x e:p1 ?y . ?x e:p0+ ?y }",
    "SELECT * { ?x e:p0 ?y . ?y e:p1* ?x }",
    "SELECT * { VALUES ?x { e:n0 e:n1 e:n2 } VALUES ?y { e:n0 e:n1 e:n2 } ?x e:p0+ ?y }",
    "ASK { e:n0 e:p0+ e:n1 }",
    "ASK { e:n1 e:p1+ e:n2 }",
    "SELECT * { GRAPH ?g { ?x e:p1 ?y . ?x e:p0+ ?y } }",
    "SELECT * { e:n0 e:p0 ?x . ?x e:p1 e:n1 }",
    "SELECT * { ?a e:p2 ?x . ?x e:p1 ?v . ?x e:p0 ?w }",
    "SELECT * { e:n1 ?p ?x . ?x e:p0 \"text 1\" }",
    "SELECT ?x (<urn:pythia:graph#outDegree>(?x) AS ?n) { ?x e:p0 ?y }",
    "SELECT ?x (<urn:pythia:graph#inDegree>(?x) AS ?n) { ?y e:p1 ?x }",
    "SELECT ?x { ?x e:p0 ?y } ORDER BY DESC(<urn:pythia:graph#inDegree>(?x)) ?x LIMIT 3",
];

/// What was added to a store was made of all graphs.
#[test]
fn labels_cached_attributes_and_degrees_tell_nothing_of_what_is_hidden() {
    for seed in 0..DATA_SETS {
        let mut generator = Generator::new(0x1ABE + seed);
        let mut data = generator.data();
        // Labels are made of a predicate that has edges in the default graph.
        let edge = |p: usize| format!("<http://e/n0> <http://e/p{p}> <http://e/n{p}>  .");
        data.extend((0..3).map(edge));
        let [_, all] = with_everything(&data.join("\n"), &["p0", "p1", "p2"]);
        let (entries, sees) = RULES[(seed % RULES.len() as u64) as usize];
        let visible: Vec<String> = data.iter().filter(|l| sees(graph_of(l))).cloned().collect();
        let some = database(&visible.join("\n"));
        let shortcuts = SHORTCUTS.map(|query| format!("PREFIX e: <http://e/> {query}"));
        let random = (0..QUERIES).map(|_| {
            let mut query = generator.query();
            query.retain(|line| !line.starts_with("LIMIT "));
            query.join("\n")
        });
        for query in shortcuts.into_iter().chain(random) {
            let expected = asked(&some, &query, &QueryOptions::default());
            let found = asked(&all, &query, &seeing(entries));
            assert_eq!(found, expected, "{entries:?} {query}\n{}", data.join("\n"));
        }
    }
}

/// The operators of a plan with what is expected of them. The order of columns, and which of two orders
/// that cost the same is read, are left to chance.
fn operators(plan: &PlanNode) -> Vec<(String, Option<f64>)> {
    let parts = plan.parts().into_iter();
    let parts = parts.filter(|part| part.operator != "Project");
    let name = |operator: &str| operator.split('(').next().unwrap_or_default().to_owned();
    parts
        .map(|part| (name(&part.operator), part.estimated_rows))
        .collect()
}

#[test]
fn what_is_hidden_shows_in_no_plan() {
    for seed in 0..DATA_SETS {
        let mut generator = Generator::new(0xB11D + seed);
        let data = generator.data();
        let (entries, sees) = RULES[(seed % RULES.len() as u64) as usize];
        let (visible, hidden): (Vec<String>, Vec<String>) =
            data.iter().cloned().partition(|line| sees(graph_of(line)));
        let other = Generator::new(0xF00D + seed).data();
        let others = other.iter().filter(|line| !sees(graph_of(line))).cloned();
        let one = database(&[visible.clone(), hidden].concat().join("\n"));
        let two: BTreeSet<String> = visible.into_iter().chain(others).collect();
        let two = database(&two.into_iter().collect::<Vec<_>>().join("\n"));
        for _ in 0..QUERIES {
            let query = generator.query().join("\n");
            // A parser makes up names of variables: one for both.
            let parsed = Query::parse(&query, None).expect("a query");
            let plans = [&one, &two].map(|database| {
                let prepared = database.prepare_parsed(&parsed, &seeing(entries));
                prepared
                    .map(|prepared| operators(&prepared.plan()))
                    .map_err(|error| error.to_string())
            });
            assert_eq!(
                plans[0],
                plans[1],
                "{entries:?} {query}\n{}",
                data.join("\n")
            );
        }
    }
}

/// Three graphs that all say something of the same nodes.
const DATA: &str = "
<http://e/a> <http://e/p> <http://e/b> .
<http://e/b> <http://e/p> <http://e/c> <http://e/hidden> .
<http://e/a> <http://e/q> \"secret\" <http://e/hidden> .
<http://e/a> <http://e/p> <http://e/d> <http://e/open/1> .
<http://e/d> <http://e/q> \"known\" <http://e/open/2> .
";

/// What each query answers if the hidden graph cannot be seen.
#[test]
fn nothing_tells_of_a_hidden_graph() {
    let database = database(DATA);
    let options = seeing(&["default", "http://e/open/*"]);
    let asked = |query: &str| asked(&database, &format!("BASE <http://e/> {query}"), &options);
    let number = |n: u32| {
        let integer = "<http://www.w3.org/2001/XMLSchema#integer>";
        Ok(vec![format!("\"{n}\"^^{integer}")])
    };
    let nothing = Ok(Vec::<String>::new());
    for (query, expected) in [
        (
            "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } }",
            number(2),
        ),
        ("SELECT (COUNT(*) AS ?n) { GRAPH ?g {} }", number(2)),
        (
            "SELECT (COUNT(*) AS ?n) { GRAPH <hidden> { ?s ?p ?o } }",
            number(0),
        ),
        (
            "SELECT (COUNT(*) AS ?n) FROM <hidden> { ?s ?p ?o }",
            number(0),
        ),
        (
            "SELECT (COUNT(*) AS ?n) FROM <hidden> FROM <open/1> { ?s ?p ?o }",
            number(1),
        ),
        (
            "SELECT ?o FROM NAMED <hidden> { GRAPH ?g { ?s ?p ?o } }",
            nothing.clone(),
        ),
        (
            "SELECT ?o { VALUES ?g { <hidden> } GRAPH ?g { ?s ?p ?o } }",
            nothing.clone(),
        ),
        (
            "SELECT ?o { BIND(<hidden> AS ?g) GRAPH ?g { <a> <q>* ?o } }",
            nothing.clone(),
        ),
        (
            "SELECT ?o { GRAPH ?g { ?s <q> ?o } FILTER(?g = <hidden>) }",
            nothing.clone(),
        ),
        ("SELECT ?o { GRAPH ?g { <a> <p>/<q> ?o } }", nothing.clone()),
        ("SELECT ?o { GRAPH ?g { <b> <p>+ ?o } }", nothing.clone()),
        ("DESCRIBE <b>", nothing.clone()),
        (
            "CONSTRUCT { ?s ?p ?o } { GRAPH <hidden> { ?s ?p ?o } }",
            nothing.clone(),
        ),
        (
            "ASK { FILTER EXISTS { GRAPH <hidden> { ?s ?p ?o } } }",
            Ok(vec!["false".to_owned()]),
        ),
        (
            "SELECT (<urn:pythia:graph#outDegree>(?x) AS ?n) { VALUES ?x { <a> } }",
            number(2),
        ),
        (
            "SELECT (<urn:pythia:graph#outDegree>(?x) AS ?n) { VALUES ?x { <b> } }",
            number(0),
        ),
        (
            "SELECT (<urn:pythia:graph#inDegree>(?x) AS ?n) { VALUES ?x { <d> } }",
            number(1),
        ),
    ] {
        assert_eq!(asked(query), expected, "{query}");
    }
    let paths = "PATHS START ?s = <a> END ?e VIA <p>+";
    assert_eq!(asked(paths).expect("paths").len(), 1);
    let paths = asked("SELECT ?path FROM <hidden> { <b> ??path ?o }");
    assert_eq!(paths.unwrap_or_default().len(), 0);
}

/// Many graphs of which some are visible: they are read in another way, and guessed at.
#[test]
fn many_visible_graphs_are_those_of_a_store_without_the_others() {
    let line = |graph: usize, n: usize| {
        let kind = if graph.is_multiple_of(3) {
            "hidden"
        } else {
            "open"
        };
        format!(
            "<http://e/n{n}> <http://e/p> <http://e/n{}> <http://e/{kind}/{graph}> .",
            n * 7 % 50
        )
    };
    let lines = |wanted: fn(usize) -> bool| -> String {
        let quads = (0..60)
            .filter(|g| wanted(*g))
            .flat_map(|g| (0..50).map(move |n| (g, n)));
        quads.map(|(g, n)| line(g, n + g % 5) + "\n").collect()
    };
    let all = database(&lines(|_| true));
    let some = database(&lines(|graph| !graph.is_multiple_of(3)));
    let options = seeing(&["http://e/open/*"]);
    for query in [
        "SELECT * { GRAPH ?g { ?s <http://e/p> ?o } }",
        "SELECT * { GRAPH ?g { ?s <http://e/p> ?o . ?o <http://e/p> ?x } }",
        "SELECT * { GRAPH ?g { <http://e/n3> ?p ?o } }",
        "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g",
        "SELECT * { GRAPH ?g { <http://e/n3> <http://e/p>+ ?o } }",
        "SELECT * { GRAPH ?g { ?s <http://e/p> ?o MINUS { ?o <http://e/p> <http://e/n0> } } }",
        "SELECT * { GRAPH ?g { OPTIONAL { ?s <http://e/p> <http://e/n1> } } }",
        "SELECT * FROM <http://e/open/1> FROM <http://e/open/2> { ?s <http://e/p> ?o }",
        "SELECT * FROM <http://e/open/1> FROM <http://e/open/2> { <http://e/n3> ?p ?o . ?o ?q ?x }",
    ] {
        let expected = asked(&some, query, &QueryOptions::default());
        assert_eq!(asked(&all, query, &options), expected, "{query}");
        let parsed = Query::parse(query, None).expect("a query");
        let measured = |database: &Database| {
            let options = QueryOptions {
                profile: true,
                ..options.clone()
            };
            let prepared = database.prepare_parsed(&parsed, &options).expect(query);
            answer_of(prepared.execute().expect(query)).expect(query);
            let plan = prepared.plan();
            let parts = plan.parts().into_iter();
            let rows = parts.map(|part| (part.operator.clone(), part.measured.map(|m| m.rows)));
            (operators(&plan), rows.collect::<Vec<_>>())
        };
        assert_eq!(measured(&all), measured(&some), "{query}");
    }
}

/// Where graphs are too many to be counted, a term of hidden graphs is guessed at as one that no graph has.
#[test]
fn no_plan_tells_whether_a_hidden_graph_has_a_term() {
    let open = (0..12).map(|n| {
        format!(
            "<http://e/n{n}> <http://e/p> <http://e/n{}> <http://e/open/{n}> .\n",
            n * 5 % 12
        )
    });
    let open: String = open.collect();
    let hidden = "<http://e/secret> <http://e/secret> <http://e/secret> <http://e/hidden> .\n\
                  <http://e/n1> <http://e/secret> <http://e/n2> <http://e/secret> .\n";
    let stores = [database(&open), database(&format!("{open}{hidden}"))];
    for query in [
        "SELECT * { GRAPH ?g { <http://e/secret> ?p ?o } }",
        "SELECT * { GRAPH ?g { ?s <http://e/secret> ?o } }",
        "SELECT * { GRAPH ?g { ?s ?p <http://e/secret> . ?s <http://e/p> ?o } }",
        "SELECT * { GRAPH ?g { ?s <http://e/p> ?o OPTIONAL { ?o <http://e/secret> ?x } } }",
        "SELECT * { GRAPH ?g { ?s <http://e/p> ?o MINUS { ?o <http://e/secret> ?x } } }",
        "SELECT * { GRAPH ?g { ?s <http://e/p> ?o FILTER NOT EXISTS { ?s ?q <http://e/secret> } } }",
        "SELECT * { GRAPH ?g { ?s (<http://e/p>|<http://e/secret>)+ ?o } }",
        "SELECT * { GRAPH ?g { ?s <http://e/secret>* ?o } }",
        "SELECT * { GRAPH ?g { <http://e/secret> <http://e/p>+ ?o } }",
        "SELECT * { GRAPH ?g { ?s !(<http://e/secret>) ?o } }",
        "SELECT * { GRAPH <http://e/open/1> { ?s <http://e/secret> ?o } }",
        "SELECT * { GRAPH <http://e/secret> { ?s ?p ?o } }",
        "SELECT * FROM <http://e/open/1> FROM <http://e/open/2> { ?s ?p <http://e/secret> }",
        "SELECT * { VALUES ?s { <http://e/secret> <http://e/n1> } GRAPH ?g { ?s ?p ?o } }",
        "SELECT ?o { GRAPH ?g { ?s <http://e/secret> ?o FILTER(?o = <http://e/n1>) } }",
    ] {
        let options = QueryOptions {
            profile: true,
            ..seeing(&["http://e/open/*"])
        };
        let parsed = Query::parse(query, None).expect(query);
        let told = stores.each_ref().map(|store| {
            let prepared = store.prepare_parsed(&parsed, &options).expect(query);
            let answer = answer_of(prepared.execute().expect(query)).expect(query);
            let plan = prepared.plan();
            let rows = plan
                .parts()
                .into_iter()
                .map(|part| part.measured.map(|m| m.rows));
            (
                answer.sorted().lines,
                operators(&plan),
                rows.collect::<Vec<_>>(),
            )
        });
        assert_eq!(told[0], told[1], "{query}");
    }
}

fn update(
    database: &Database,
    text: &str,
    options: &UpdateOptions,
) -> Result<UpdateReport, QueryError> {
    let update = Update::parse(text, Some("http://e/")).expect(text);
    database.update_parsed(&update, options, None)
}

#[test]
fn a_graph_that_may_not_be_written_is_not_and_nothing_else_is_then() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = Loader::iri_of_folder(&folder.path().canonicalize().expect("a folder"));
    std::fs::write(
        folder.path().join("x.nq"),
        "<a:s> <a:p> <a:o> <http://e/other> .",
    )
    .expect("written");
    let options = UpdateOptions {
        load: Some(std::sync::Arc::new(
            Loader::new().with_folder(folder.path()),
        )),
        query: seeing(&["default", "http://e/open/*"]),
        ..changing(&["default", "http://e/open/*"])
    };
    let load = format!("LOAD SILENT <{base}/x.nq>");
    let before = dataset(DATA);
    for (text, what) in [
        (
            "INSERT DATA { <x> <p> 1 } ; INSERT DATA { GRAPH <hidden> { <x> <p> 1 } }",
            "<http://e/hidden>",
        ),
        (
            "DELETE DATA { GRAPH <none> { <x> <p> 1 } }",
            "<http://e/none>",
        ),
        (
            "INSERT { GRAPH <none> { ?s ?p ?o } } WHERE { ?s ?p ?o FILTER(false) }",
            "<http://e/none>",
        ),
        (
            "INSERT { GRAPH ?g { ?s ?p ?o } } WHERE { ?s ?p ?o BIND(<hidden> AS ?g) }",
            "<http://e/hidden>",
        ),
        (
            "DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { ?s ?p ?o BIND(<hidden> AS ?g) }",
            "<http://e/hidden>",
        ),
        ("CLEAR SILENT GRAPH <hidden>", "<http://e/hidden>"),
        ("DROP GRAPH <none>", "<http://e/none>"),
        ("DROP NAMED", "all named graphs"),
        ("CLEAR SILENT ALL", "all graphs"),
        ("CREATE GRAPH <hidden>", "<http://e/hidden>"),
        ("COPY <open/1> TO <hidden>", "<http://e/hidden>"),
        ("MOVE <hidden> TO <open/1>", "<http://e/hidden>"),
        ("ADD SILENT <none> TO <hidden>", "<http://e/hidden>"),
        (
            "LOAD SILENT <http://nowhere/> INTO GRAPH <hidden>",
            "<http://e/hidden>",
        ),
        (&load, "<http://e/other>"),
    ] {
        let database = writable(DATA);
        match update(&database, text, &options) {
            Err(QueryError::Forbidden { what: told }) => assert!(told.contains(what), "{told}"),
            other => panic!("{text}: {other:?}"),
        }
        assert_eq!(contents(&database), before, "{text}");
    }
}

#[test]
fn an_update_changes_what_it_sees_and_may_change() {
    let options = UpdateOptions {
        query: seeing(&["default", "http://e/open/*"]),
        ..changing(&["default", "http://e/open/*"])
    };
    for (text, same_as) in [
        (
            "INSERT { GRAPH ?g { ?s <n> ?o } } WHERE { GRAPH ?g { ?s ?p ?o } }",
            "INSERT { GRAPH ?g { ?s <n> ?o } } WHERE { GRAPH ?g { ?s ?p ?o } FILTER(?g != <hidden>) }",
        ),
        ("INSERT { ?s <n> ?o } USING <hidden> WHERE { ?s ?p ?o }", ""),
        ("COPY DEFAULT TO <open/1>", "COPY DEFAULT TO <open/1>"),
        ("COPY SILENT <hidden> TO <open/1>", ""),
        ("CLEAR GRAPH <open/2>", "CLEAR GRAPH <open/2>"),
        (
            "INSERT DATA { GRAPH <open/3> { <x> <p> 1 } }",
            "INSERT DATA { GRAPH <open/3> { <x> <p> 1 } }",
        ),
    ] {
        let [restricted, free] = [writable(DATA), writable(DATA)];
        update(&restricted, text, &options).expect(text);
        update(&free, same_as, &UpdateOptions::default()).expect(same_as);
        assert_eq!(quads_of(&restricted), quads_of(&free), "{text}");
    }
}

/// To copy a hidden graph fails as to copy one that is not there.
#[test]
fn failures_do_not_tell_whether_a_hidden_graph_is_there() {
    let options = UpdateOptions {
        query: seeing(&["default"]),
        ..changing(&["*"])
    };
    for text in [
        "ADD <@> TO DEFAULT",
        "COPY <@> TO DEFAULT",
        "MOVE <@> TO DEFAULT",
        "CREATE GRAPH <@>",
        "DROP GRAPH <@>",
    ] {
        let outcome = |graph: &str| {
            let outcome = update(&writable(DATA), &text.replace('@', graph), &options);
            outcome
                .map(|_| ())
                .map_err(|error| error.to_string().replace(graph, "@"))
        };
        assert_eq!(outcome("hidden"), outcome("none"), "{text}");
    }
}

/// A graph is refused or not by its name, before it is looked for what the store has.
#[test]
fn a_refusal_does_not_tell_whether_a_hidden_iri_is_there() {
    let options = UpdateOptions {
        query: seeing(&["http://e/open/*"]),
        ..changing(&["http://e/open/*"])
    };
    for text in [
        "DELETE { GRAPH ?g { <x> <p> 1 } } WHERE { VALUES ?g { <@> } }",
        "DELETE { GRAPH ?g { <@> <@> <@> } } WHERE { VALUES ?g { <http://f/no> <@> } }",
        "DELETE { GRAPH ?g { ?s <p> 1 } } WHERE { VALUES (?g ?s) { (<open/1> <@>) (<@> <x>) } }",
        "DELETE { GRAPH ?g { <x> <p> 1 } } INSERT { <x> <p> 1 } WHERE { VALUES ?g { <@> } }",
        "DELETE { GRAPH <open/1> { ?s <p> 1 } } WHERE { VALUES ?s { <@> } }",
        "INSERT { GRAPH ?g { <x> <p> 1 } } WHERE { VALUES ?g { <@> } }",
    ] {
        let outcome = |iri: &str| {
            let outcome = update(&writable(DATA), &text.replace('@', iri), &options);
            outcome
                .map(|report| (report.added, report.removed))
                .map_err(|error| error.to_string().replace(&format!("/{iri}>"), "/@>"))
        };
        for hidden in ["hidden", "c", "q"] {
            assert_eq!(outcome(hidden), outcome("none"), "{text}");
        }
    }
}

/// Random updates by who sees the default graph and `g1` and writes `g1`: `{x}` is a random term, `{g}` a
/// random graph.
const PROBES: [&str; 22] = [
    "DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { VALUES (?g ?s) { ({g} {x}) } VALUES (?p ?o) { ({x} {x}) } }",
    "DELETE { GRAPH ?g { {x} {x} {x} } } INSERT { GRAPH {g} { {x} {x} ?g } } WHERE { VALUES ?g { {x} {g} } }",
    "DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { VALUES ?g { {x} {x} } GRAPH {g} { ?s ?p ?o } }",
    "INSERT { GRAPH ?g { ?s ?p ?o } } WHERE { VALUES ?g { {x} } GRAPH {g} { ?s ?p ?o } }",
    "DELETE { GRAPH ?g { ?s {x} 1 } } WHERE { VALUES (?g ?s) { ({g} \"literal\") (\"graph\" {x}) } }",
    "DELETE { GRAPH ?g { {x} {x} 1 } } WHERE { BIND(IRI(CONCAT(STR({x}), \"\")) AS ?g) }",
    "INSERT { GRAPH <http://e/g1> { ?s {x} ?o } } WHERE { VALUES (?s ?o) { ({x} {x}) (\"no\" {x}) } }",
    "WITH {g} DELETE { ?s ?p ?o } INSERT { ?o {x} ?s } WHERE { ?s ?p ?o FILTER(?p != {x}) }",
    "DELETE { GRAPH <http://e/g1> { ?s ?p ?o } } USING {g} WHERE { ?s ?p ?o }",
    "INSERT { GRAPH <http://e/g1> { ?s ?p ?g } } USING NAMED {g} WHERE { GRAPH ?g { ?s ?p {x} } }",
    "INSERT { GRAPH <http://e/g1> { {x} {x} ?n } } WHERE { SELECT (COUNT(*) AS ?n) { GRAPH ?g { {x} ?p ?o } } }",
    "COPY {g} TO {g}",
    "MOVE {g} TO <http://e/g1>",
    "ADD SILENT {g} TO <http://e/g1>",
    "CLEAR GRAPH {g}",
    "DROP SILENT GRAPH {x}",
    "CREATE GRAPH {g}",
    "DELETE DATA { GRAPH {g} { {x} {x} {x} } }",
    "INSERT DATA { GRAPH {g} { {x} {x} {x} } }",
    "DELETE WHERE { GRAPH ?g { {x} ?p ?o } }",
    "DELETE WHERE { GRAPH {g} { ?s ?p {x} } }",
    "LOAD {x} INTO GRAPH {g}",
];

#[test]
fn an_update_is_answered_alike_whatever_is_hidden() {
    const SEEN: [&str; 2] = ["default", "http://e/g1"];
    let options = UpdateOptions {
        query: seeing(&SEEN),
        ..changing(&SEEN[1..])
    };
    for seed in 0..DATA_SETS {
        let mut generator = Generator::new(0x0AC1 + seed);
        let sees = |line: &String| ["", "<http://e/g1>"].contains(&graph_of(line));
        let visible: Vec<String> = generator.data().into_iter().filter(sees).collect();
        let mut with_hidden = |secret: &str| {
            let hidden = generator.data().into_iter().filter(|line| !sees(line));
            let mut lines: Vec<String> = visible.iter().cloned().chain(hidden).collect();
            lines.push(format!(
                "<http://e/{secret}> <http://e/{secret}p> <http://e/n1> <http://e/g0> ."
            ));
            lines.push(format!(
                "<http://e/n1> <http://e/p1> <http://e/n2> <http://e/{secret}g> ."
            ));
            writable(&lines.join("\n"))
        };
        let stores = ["secret", "other"].map(&mut with_hidden);
        for _ in 0..QUERIES {
            let text = match generator.chance(30) {
                true => generator.update(&[]),
                false => probe(&mut generator),
            };
            let outcomes = [&stores[0], &stores[1]].map(|store| {
                let outcome = update(store, &text, &options);
                let counted =
                    |report: UpdateReport| (report.operations, report.added, report.removed);
                (
                    outcome.map(counted).map_err(|error| error.to_string()),
                    lines_seen(store, &SEEN),
                )
            });
            assert_eq!(outcomes[0], outcomes[1], "seed {seed}: {text}");
        }
    }
}

fn probe(generator: &mut Generator) -> String {
    let mut text = generator.choose(&PROBES).to_owned();
    while let Some(at) = text.find("{x}") {
        let term = generator.choose(&[
            "<http://e/secret>",
            "<http://e/secretp>",
            "<http://e/secretg>",
            "<http://e/other>",
            "<http://e/g0>",
            "<http://e/g1>",
            "<http://e/n1>",
            "<http://e/p1>",
            "<http://e/nowhere>",
        ]);
        text.replace_range(at..at + 3, term);
    }
    while let Some(at) = text.find("{g}") {
        let graph = generator.choose(&[
            "<http://e/g0>",
            "<http://e/g1>",
            "<http://e/g1>",
            "<http://e/g2>",
            "<http://e/secretg>",
            "<http://e/nowhere>",
        ]);
        text.replace_range(at..at + 3, graph);
    }
    text
}

/// The visible quads, but for the labels of blank nodes, which are new in each store.
fn lines_seen(database: &Database, entries: &[&str]) -> Vec<String> {
    let options = QueryOptions {
        visible: GraphRules::parse(entries).expect("rules"),
        ..QueryOptions::default()
    };
    let mut nquads = Vec::new();
    pythia::dump_within(
        &database.snapshot(),
        database.cores(),
        &options,
        pythia::RdfFormat::NQuads,
        &mut nquads,
    )
    .expect("dumped");
    let nquads = String::from_utf8(nquads).expect("text");
    let is_label = |word: &&str| word.starts_with("_:");
    let line = |line: &str| {
        let words = line.split(' ');
        let words = words.map(|word| if is_label(&word) { "_:" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = nquads.lines().map(line).collect();
    lines.sort();
    lines
}
