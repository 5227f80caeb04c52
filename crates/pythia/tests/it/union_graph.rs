//! The union of all graphs as the default graph: queries answer as over a store whose default graph has the triples of
//! all graphs.

use std::time::Duration;

use pythia::{Database, GraphRules, QueryError, QueryOptions, UpdateOptions};

use crate::differential::generator::Generator;
use crate::optimize::with_everything;
use crate::support::{answer_of, contents, database, dataset, reread, writable};
use crate::visible::{RULES, graph_of, with_changes};

/// Data sets, and random queries asked of each.
const DATA_SETS: u64 = 60;
const QUERIES: u64 = 30;

/// Queries of kinds that the generator does not make, or seldom.
const SPECIAL: [&str; 27] = [
    "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }",
    "SELECT (COUNT(*) AS ?n) { ?s e:p1 ?o }",
    "SELECT (COUNT(DISTINCT ?s) AS ?n) { ?s ?p ?o }",
    "SELECT (COUNT(DISTINCT ?o) AS ?n) { ?s e:p0 ?o }",
    "SELECT (COUNT(*) AS ?n) { e:n1 ?p ?o }",
    "SELECT (COUNT(*) AS ?n) { e:n1 e:p1 ?o . ?s e:p1 e:n2 }",
    "SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p",
    "SELECT ?p (COUNT(?s) AS ?n) (COUNT(DISTINCT ?o) AS ?m) { ?s ?p ?o } GROUP BY ?p",
    "SELECT DISTINCT ?p { ?s ?p ?o }",
    "SELECT (COUNT(*) AS ?n) { ?a e:p0 ?b . ?b e:p1 ?c . ?c e:p2 ?d }",
    "SELECT ?a (COUNT(*) AS ?n) { ?a e:p0 ?b . ?b e:p1 ?c } GROUP BY ?a",
    "SELECT (COUNT(*) AS ?n) { ?a e:p0 ?b FILTER NOT EXISTS { ?b e:p1 ?c } }",
    "SELECT (COUNT(*) AS ?n) { ?a e:p0+ ?b }",
    "SELECT ?a (COUNT(?b) AS ?n) { ?a (e:p0|e:p1)* ?b } GROUP BY ?a",
    "SELECT * { VALUES ?x { e:n0 e:n1 e:n2 } VALUES ?y { e:n0 e:n1 e:n2 } ?x e:p0+ ?y }",
    "SELECT * { ?x e:p1 ?y . ?x e:p0+ ?y }",
    "SELECT * { ?x e:p0 ?x . ?x ?p ?x }",
    "SELECT * { e:n0 e:p0 ?x . ?x e:p1 e:n1 }",
    "SELECT * { ?a e:p2 ?x . ?x e:p1 ?v . ?x e:p0 ?w }",
    "SELECT * { ?s e:p1 ?n FILTER(?n > 2) }",
    "SELECT * { ?s ?p <<( ?a ?b ?c )>> . ?a ?q ?c }",
    "SELECT ?o { ?s e:p0 ?o OPTIONAL { ?s e:p1 ?x } MINUS { ?s e:p2 ?y } } ORDER BY ?o LIMIT 5",
    "DESCRIBE e:n0 e:n1",
    "CONSTRUCT WHERE { ?s e:p0 ?o }",
    "PATHS ALL START ?s = e:n0 END ?e VIA e:p0+ MAX LENGTH 3",
    "SELECT * { GRAPH ?g { SELECT (COUNT(*) AS ?n) { ?s ?p ?o } } FILTER EXISTS { ?g ?p ?o } }",
    "SELECT * { GRAPH e:g0 { ?s e:p0 ?o } ?o ?p ?x }",
];

/// Random queries that run longer, or return more rows, are not compared.
const TIMEOUT: Duration = Duration::from_secs(2);
const ROWS_MAX: u64 = 20_000;

fn union(rules: GraphRules) -> QueryOptions {
    QueryOptions {
        union_default_graph: true,
        visible: rules,
        ..plain()
    }
}

fn plain() -> QueryOptions {
    QueryOptions {
        timeout: Some(TIMEOUT),
        row_limit: Some(ROWS_MAX),
        ..QueryOptions::default()
    }
}

/// Compares the answers of a store and of one whose default graph has the same triples; returns whether there were two.
fn agree(
    several: &Database,
    options: &QueryOptions,
    one: &Database,
    query: &str,
    about: &str,
) -> bool {
    let found = asked(several, query, options);
    let expected = asked(one, query, &plain());
    let is_late = |answer: &Result<_, String>| {
        let late = QueryError::Timeout.to_string();
        answer.as_ref().is_err_and(|error| *error == late)
    };
    if is_late(&found) || is_late(&expected) {
        return false;
    }
    assert_eq!(found, expected, "{about} {query}");
    true
}

/// An answer's sorted lines, or the error. The plan is written and read on the way.
fn asked(database: &Database, query: &str, options: &QueryOptions) -> Result<Vec<String>, String> {
    let answer = database
        .prepare(query, options)
        .and_then(|prepared| answer_of(reread(database, &prepared, options).execute()?));
    match answer {
        Ok(answer) => Ok(answer.sorted().lines),
        Err(error) => Err(error.to_string()),
    }
}

/// Quads with their triples in the default graph too.
fn flattened(data: &[String]) -> String {
    let triple = |line: &String| {
        let quad = line.trim_end_matches(" .").trim_end();
        format!("{} .\n", quad.trim_end_matches(graph_of(line)))
    };
    let triples = data.iter().map(triple);
    let quads = data.iter().map(|line| format!("{line}\n"));
    quads.chain(triples).collect()
}

fn queries(generator: &mut Generator) -> Vec<String> {
    let special = SPECIAL
        .iter()
        .map(|query| format!("PREFIX e: <http://e/> {query}"));
    let random = (0..QUERIES).map(|_| {
        let mut query = generator.query();
        query.retain(|line| !line.starts_with("LIMIT "));
        query.join("\n")
    });
    special.chain(random).collect()
}

#[test]
fn the_union_of_all_graphs_answers_like_one_graph() {
    let (options, mut compared) = (union(GraphRules::all()), 0);
    for seed in 0..DATA_SETS {
        let mut generator = Generator::new(0x0a11 + seed);
        let mut data = generator.data();
        let edge = |p: usize| format!("<http://e/n0> <http://e/p{p}> <http://e/n{p}>  .");
        data.extend((0..3).map(edge));
        let several = match seed % 3 {
            0 => database(&data.join("\n")),
            1 => with_changes(&data),
            // Labels, cached attributes and degrees are those of the default graph or of all quads.
            _ => {
                let [_, optimized] = with_everything(&data.join("\n"), &["p0", "p1", "p2"]);
                optimized
            }
        };
        let one = database(&flattened(&data));
        for query in queries(&mut generator) {
            let about = format!("seed {seed}: {}\n", data.join("\n"));
            compared += u64::from(agree(&several, &options, &one, &query, &about));
        }
    }
    assert!(compared > DATA_SETS * QUERIES, "{compared}");
}

#[test]
fn the_union_has_only_graphs_that_are_visible() {
    let mut compared = 0;
    for seed in 0..DATA_SETS {
        let mut generator = Generator::new(0x5ee1 + seed);
        let data = generator.data();
        let several = match seed % 2 {
            0 => database(&data.join("\n")),
            _ => with_changes(&data),
        };
        let (entries, sees) = RULES[(seed % RULES.len() as u64) as usize];
        let rules = GraphRules::parse(entries).expect("rules");
        let visible: Vec<String> = data.iter().filter(|l| sees(graph_of(l))).cloned().collect();
        let one = database(&flattened(&visible));
        for query in queries(&mut generator) {
            let about = format!("{entries:?} {}\n", data.join("\n"));
            compared += u64::from(agree(&several, &union(rules.clone()), &one, &query, &about));
        }
    }
    assert!(compared > DATA_SETS * QUERIES, "{compared}");
}

const DATA: &str = "
<http://e/a> <http://e/p> <http://e/b> .
<http://e/a> <http://e/p> <http://e/b> <http://e/one> .
<http://e/b> <http://e/p> <http://e/c> <http://e/one> .
<http://e/b> <http://e/p> <http://e/c> <http://e/two> .
<http://e/c> <http://e/q> \"x\" <http://e/two> .
";

#[test]
fn a_dataset_that_the_query_names_wins() {
    let database = database(DATA);
    let count = |clauses: &str, pattern: &str| {
        let query = format!("BASE <http://e/> SELECT (COUNT(*) AS ?n) {clauses} {{ {pattern} }}");
        let lines = asked(&database, &query, &union(GraphRules::all())).expect("an answer");
        let digits: String = lines[0]
            .chars()
            .skip(1)
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse::<u64>().expect("a number")
    };
    for (clauses, expected) in [
        ("", 3),
        ("FROM <one>", 2),
        ("FROM <one> FROM <two>", 3),
        ("FROM NAMED <one>", 0),
        ("FROM <none>", 0),
        // The names of Apache Jena.
        ("FROM <urn:x-arq:DefaultGraph>", 1),
        ("FROM <urn:x-arq:UnionGraph>", 3),
        ("FROM <urn:x-arq:DefaultGraph> FROM <two>", 3),
        (
            "FROM <urn:x-arq:DefaultGraph> FROM <urn:x-arq:UnionGraph>",
            3,
        ),
    ] {
        assert_eq!(count(clauses, "?s ?p ?o"), expected, "{clauses}");
    }
    assert_eq!(count("", "GRAPH ?g { ?s ?p ?o }"), 4);
    assert_eq!(count("", "GRAPH <one> { ?s ?p ?o }"), 2);
    assert_eq!(count("", "<a> <p>/<p>/<q> ?o"), 1);
    assert_eq!(count("FROM <urn:x-arq:UnionGraph>", "<a> <p>+ ?o"), 2);
    // Without the option as well.
    let query = "SELECT * FROM <urn:x-arq:UnionGraph> { ?s ?p ?o }";
    let rows = asked(&database, query, &QueryOptions::default()).expect("an answer");
    assert_eq!(rows.len(), 3);
    let one = QueryOptions {
        visible: GraphRules::parse(&["http://e/two"]).expect("rules"),
        ..QueryOptions::default()
    };
    assert_eq!(asked(&database, query, &one).expect("an answer").len(), 2);
}

/// The WHERE of an update sees the union, unless USING or WITH names graphs; templates write the store's default graph.
#[test]
fn updates_read_the_union_and_write_the_default_graph() {
    let after = |update: &str| {
        let database = writable(DATA);
        let options = UpdateOptions {
            query: union(GraphRules::all()),
            ..UpdateOptions::default()
        };
        let update = format!("BASE <http://e/> {update}");
        let update = pythia::Update::parse(&update, None).expect("an update");
        let report = database.update_parsed(&update, &options, None);
        report.expect("an update that runs");
        contents(&database)
    };
    let with = |more: &str| dataset(&format!("{DATA}{more}"));
    let without = |gone: &str| dataset(&DATA.replacen(gone, "", 1));
    assert_eq!(
        after(
            "INSERT { ?o <r> ?s } WHERE { ?s <q> ?o . ?x <p> ?s FILTER(isLiteral(?o)) } ;
               INSERT { ?s <r> ?x } WHERE { ?s <q> ?o . ?x <p> ?s }"
        ),
        with("<http://e/c> <http://e/r> <http://e/b> .")
    );
    assert_eq!(
        after("INSERT { ?s <r> ?s } USING <one> WHERE { ?s <q> ?o }"),
        with("")
    );
    assert_eq!(
        after("INSERT { ?s <r> ?s } USING <two> WHERE { ?s <q> ?o }"),
        with("<http://e/c> <http://e/r> <http://e/c> .")
    );
    assert_eq!(
        after("WITH <one> INSERT { ?s <r> ?s } WHERE { ?s <q> ?o }"),
        with("")
    );
    assert_eq!(
        after("WITH <two> INSERT { ?s <r> ?s } WHERE { ?s <q> ?o }"),
        with("<http://e/c> <http://e/r> <http://e/c> <http://e/two> .")
    );
    // Of all the triples that are found, those in the default graph are removed.
    let first = "<http://e/a> <http://e/p> <http://e/b> .\n";
    assert_eq!(after("DELETE WHERE { ?s ?p ?o }"), without(first));
    assert_eq!(
        after("DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }"),
        without(first)
    );
    assert_eq!(after("DELETE DATA { <c> <q> \"x\" }"), with(""));
    assert_eq!(after("CLEAR DEFAULT"), without(first));
}

#[test]
fn the_plan_says_that_it_reads_the_union() {
    let plan = |nquads: &str, query: &str| {
        let query = format!("BASE <http://e/> SELECT * {{ {query} }}");
        let database = database(nquads);
        let prepared = database.prepare(&query, &union(GraphRules::all()));
        prepared.expect("a plan").explain()
    };
    let merged = plan(DATA, "?s <p> ?o . ?o ?q ?x");
    assert!(merged.contains("Merged graphs"), "{merged}");
    assert!(merged.contains("or the default graph"), "{merged}");
    // No two graphs have a triple of <q> in common, so there is nothing to compare.
    let distinct = plan(DATA, "?s <q> ?o");
    assert!(
        distinct.contains("in the union of all graphs"),
        "{distinct}"
    );
    assert!(!distinct.contains("Merged graphs"), "{distinct}");
    let path = plan(DATA, "?s <p>+ ?o");
    assert!(path.contains("in the merged graphs"), "{path}");
}

/// Graphs are not listed one by one: what is read depends on the quads that match.
#[test]
fn the_union_of_many_graphs_is_read_at_once() {
    let graphs = 3000;
    let line = |graph: usize| {
        format!(
            "<http://e/s{}> <http://e/p> <http://e/o{}> <http://e/g{graph}> .\n\
             <http://e/s{graph}> <http://e/in> <http://e/g{graph}> <http://e/g{graph}> .\n",
            graph % 50,
            graph % 100,
        )
    };
    let database = database(&(0..graphs).map(line).collect::<String>());
    for (query, rows) in [
        ("?s <p> ?o", 100),
        ("<s7> <p> ?o", 2),
        ("<s7> <p> ?o . <s7> <in> ?g", 2),
        ("?s <in> ?g . ?s <p> ?o", 100),
        ("<s7> (<p>|^<p>)+ ?x", 3),
    ] {
        let text = format!("BASE <http://e/> SELECT * {{ {query} }}");
        let options = QueryOptions {
            profile: true,
            ..union(GraphRules::all())
        };
        let prepared = database.prepare(&text, &options).expect("a plan");
        let answer = answer_of(prepared.execute().expect("runs")).expect("an answer");
        let plan = prepared.plan();
        assert_eq!(answer.lines.len(), rows, "{plan}");
        let measured = plan.parts().into_iter().filter_map(|part| part.measured);
        let most = measured.map(|measured| measured.rows).max();
        assert!(most <= Some(graphs as u64), "{plan}");
        assert!(!plan.to_string().contains("Graphs"), "{plan}");
    }
}

/// For a user who sees many graphs of many, paths and descriptions read all graphs at once, and drop those that are
/// hidden.
#[test]
fn paths_read_many_visible_graphs_at_once() {
    for (graphs, nodes) in [(60, 40), (3000, 200)] {
        let line = |graph: usize, n: usize| {
            let kind = match graph.is_multiple_of(3) {
                true => "hidden",
                false => "open",
            };
            format!(
                "<http://e/n{n}> <http://e/p{}> <http://e/n{}> <http://e/{kind}/{graph}> .\n",
                graph % 2,
                (n * 7 + graph) % nodes
            )
        };
        let quads = |wanted: fn(usize) -> bool| -> Vec<String> {
            let seen = (0..graphs).filter(|graph| wanted(*graph));
            seen.flat_map(|g| (0..2).map(move |n| (g, (n + g) % nodes)))
                .map(|(g, n)| line(g, n).trim_end().to_owned())
                .collect()
        };
        let several = database(&quads(|_| true).join("\n"));
        let visible = quads(|graph| !graph.is_multiple_of(3));
        let triples = visible.iter().map(|quad| {
            let triple = quad
                .rsplit_once(" <http://e/open")
                .expect("a named graph")
                .0;
            format!("{triple} .\n")
        });
        let one = database(&triples.collect::<String>());
        let options = union(GraphRules::parse(&["http://e/open/*"]).expect("rules"));
        for query in [
            "SELECT * { e:n3 e:p0+ ?o }",
            "SELECT * { e:n3 (e:p0|^e:p1)* ?o }",
            "SELECT * { ?s e:p0+ e:n4 }",
            "SELECT * { ?s e:p1+ ?o }",
            "SELECT * { ?s !e:p1 ?o . ?o e:p0* e:n1 }",
            "SELECT * { e:n3 (e:p0|e:p1)+ e:n4 }",
            "SELECT (COUNT(*) AS ?n) { ?s e:p0+ ?o }",
            "SELECT * { ?s e:p0? ?o }",
            "SELECT * { VALUES ?s { e:n1 e:none } ?s e:p0* ?o }",
            "DESCRIBE e:n3",
            "PATHS ANY SHORTEST START ?s = e:n1 END ?e VIA e:p0+ MAX LENGTH 2",
            "SELECT * { ?s e:p0 ?o . ?o e:p1 ?x }",
        ] {
            let query = format!("PREFIX e: <http://e/> {query}");
            let found = asked(&several, &query, &options);
            let expected = asked(&one, &query, &QueryOptions::default());
            assert_eq!(found, expected, "{graphs} graphs: {query}");
        }
    }
}
