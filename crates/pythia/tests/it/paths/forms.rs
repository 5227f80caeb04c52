//! PATHS queries, `SERVICE path:search` and `?s ??path ?o`: what is asked, and what comes of it.

use pythia::{Database, QueryError, QueryOptions, ResultFormat, write_results};

use crate::support::{database, ours, ours_with};

/// Towns joined by roads with lengths, and a family.
const DATA: &str = r#"
<http://e/a> <http://e/road> <http://e/b> .
<http://e/b> <http://e/road> <http://e/c> .
<http://e/c> <http://e/road> <http://e/d> .
<http://e/a> <http://e/ferry> <http://e/d> .
<http://e/d> <http://e/road> <http://e/a> .
<http://e/b> <http://e/toll> "2"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/c> <http://e/toll> "0.5"^^<http://www.w3.org/2001/XMLSchema#decimal> .
<http://e/d> <http://e/toll> "9"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/a> <http://e/type> <http://e/Town> .
<http://e/b> <http://e/type> <http://e/Town> .
<http://e/c> <http://e/type> <http://e/Ruin> .
<http://e/d> <http://e/type> <http://e/Town> .
<http://e/Eve> <http://e/hasChild> <http://e/Seth> .
<http://e/Seth> <http://e/hasChild> <http://e/Enos> .
<http://e/Eve> <http://e/hasGender> <http://e/female> .
<http://e/Seth> <http://e/hasGender> <http://e/male> .
<http://e/Enos> <http://e/hasGender> <http://e/male> .
"#;

fn data() -> Database {
    database(DATA)
}

/// The answer's lines with the namespace and datatypes left out.
fn lines(database: &Database, query: &str) -> Vec<String> {
    let query = format!("PREFIX : <http://e/> PREFIX path: <urn:pythia:path#> {query}");
    let answer = ours(database, &query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let short = |line: &String| {
        let line = line.replace("http://e/", "").replace(['<', '>'], "");
        let line = line.replace("^^urn:pythia:path#path", "");
        let line = line.replace("^^http://www.w3.org/2001/XMLSchema#integer", "");
        line.replace("^^http://www.w3.org/2001/XMLSchema#decimal", "")
            .replace('"', "")
    };
    answer.lines.iter().map(short).collect()
}

#[test]
fn a_path_has_ends_length_and_cost() {
    let database = data();
    let query = "PATHS START ?s = :a END ?e = :d VIA (:road|:ferry)+";
    assert_eq!(lines(&database, query), ["a\td\ta ferry d\t1\t1"]);
    let query = "PATHS START ?s = :a END ?e = :d VIA :road+";
    assert_eq!(
        lines(&database, query),
        ["a\td\ta road b road c road d\t3\t3"]
    );
    let answer = ours(
        &database,
        "PATHS START ?s = <http://e/a> END ?e VIA <http://e/road>",
    );
    assert_eq!(
        answer.unwrap().variables,
        ["s", "e", "path", "length", "cost"]
    );
}

#[test]
fn weights_are_of_the_node_reached_or_an_expression() {
    let database = data();
    let query = "PATHS START ?s = :a END ?e = :d VIA (:road|:ferry)+ WEIGHT OPTIONAL :toll";
    assert_eq!(lines(&database, query), ["a\td\ta ferry d\t1\t9"]);
    let query = "PATHS START ?s = :a END ?e = :c VIA (:road|:ferry|^:road)+ WEIGHT OPTIONAL :toll";
    assert_eq!(lines(&database, query), ["a\tc\ta road b road c\t2\t2.5"]);
    let query = "PATHS START ?s = :a END ?e = :d VIA (:road|:ferry)+ WEIGHT (IF(?predicate = :ferry, 3.5, 1))";
    assert_eq!(
        lines(&database, query),
        ["a\td\ta road b road c road d\t3\t3"]
    );
    let query = "PATHS START ?s = :a END ?e = :d VIA { ?from :road|:ferry ?to . ?to :toll ?toll } WEIGHT (?toll + 1)";
    assert_eq!(lines(&database, query), ["a\td\ta - d\t1\t10"]);
}

#[test]
fn all_shortest_and_k_shortest_come_cheapest_first() {
    let database = data();
    let query = "PATHS SHORTEST 2 SIMPLE START ?s = :a END ?e = :d VIA (:road|:ferry)+";
    assert_eq!(
        lines(&database, query),
        [
            "a\td\ta ferry d\t1\t1",
            "a\td\ta road b road c road d\t3\t3"
        ]
    );
    let query = "PATHS ALL SHORTEST ACYCLIC START ?s = :b END ?e = :d VIA (:road|^:road)+";
    assert_eq!(
        lines(&database, query).len(),
        2,
        "round either side of the ring"
    );
}

#[test]
fn restrictors_bound_all_paths() {
    let database = data();
    let count = |restrictor: &str| {
        let query = format!("PATHS ALL {restrictor} START ?s = :a END ?e = :a VIA (:road|:ferry)*");
        lines(&database, &query).len()
    };
    assert_eq!(count("ACYCLIC"), 1, "only the empty path");
    assert_eq!(count("SIMPLE"), 3, "that, by the roads, and by the ferry");
    assert_eq!(count("TRAIL"), 3);
    let query = "PATHS ALL START ?s = :a END ?e VIA :road* MAX LENGTH 2";
    assert_eq!(lines(&database, query).len(), 3);
    let query = "PATHS ALL START ?s = :a END ?e VIA :road* MIN LENGTH 2 MAX LENGTH 5";
    assert_eq!(lines(&database, query).len(), 4);
}

/// Paths of one and of two edges, through towns of sizes 5, 9, 7 and none.
#[test]
fn priorities_say_which_nodes_come_first() {
    let mut text = String::new();
    let mut add = |s: &str, p: &str, o: &str| {
        text += &format!("<http://e/{s}> <http://e/{p}> {o} .\n");
    };
    let integer = |size: u32| format!("\"{size}\"^^<http://www.w3.org/2001/XMLSchema#integer>");
    for (town, size) in [
        ("b", integer(5)),
        ("c", integer(9)),
        ("d", integer(7)),
        ("f", "\"none\"".into()),
    ] {
        add("a", "road", &format!("<http://e/{town}>"));
        add(town, "road", &format!("<http://e/{town}2>"));
        add(town, "size", &size);
    }
    for size in [8, 1] {
        add("d2", "size", &integer(size));
    }
    let database = database(&text);
    for batch in [1, 3] {
        let search = format!(
            "SELECT ?e {{ SERVICE path:search {{ :a :road+ ?e . [] path:mode path:All ;
                 path:restrictor path:Simple ; path:priority :size ; path:batch {batch} }} }}"
        );
        let found = lines(&database, &search);
        assert_eq!(found[..4], ["c", "d", "d2", "b"], "{found:?}");
        assert_eq!(found.len(), 8);
    }
    let query = "PATHS ALL SIMPLE START ?s = :a END ?e VIA :road+ PRIORITY :size LIMIT 3";
    let ends: Vec<String> = lines(&database, query);
    let ends = ends.iter().map(|line| line.split('\t').nth(1));
    assert_eq!(ends.collect::<Vec<_>>(), [Some("c"), Some("d"), Some("d2")]);
}

/// The pages of a hub's neighbours are read in batches, although each is the end of its own paths.
#[test]
fn all_paths_through_a_hub_read_ahead() {
    let mut text = String::new();
    for i in 0..400 {
        text += &format!("<http://e/hub> <http://e/p> <http://e/n{i}> .\n");
        for value in 0..400 {
            text += &format!("<http://e/n{i}> <http://e/v> \"{value} of {i}\" .\n");
        }
    }
    let database = database(&text);
    let batches = [1, 32].map(|batch| {
        database.clear_cache().unwrap();
        let before = database.counters();
        let query = format!(
            "SELECT ?e {{ SERVICE path:search {{ :hub :p+ ?e . [] path:mode path:All ;
                 path:restrictor path:Acyclic ; path:batch {batch} }} }}"
        );
        assert_eq!(lines(&database, &query).len(), 400);
        database
            .counters()
            .since(&before)
            .group("spo")
            .device_batches
    });
    assert!(batches[0] >= 2 * batches[1], "{batches:?}");
}

#[test]
fn filters_are_on_edges_and_the_nodes_they_join() {
    let database = data();
    let query = "PATHS START ?s = :a END ?e = :d VIA ?p WHERE (?p != :ferry)";
    assert_eq!(
        lines(&database, query),
        ["a\td\ta road b road c road d\t3\t3"]
    );
    let query = "PATHS START ?s = :a END ?e VIA :road+ WHERE { ?to :type :Town }";
    assert_eq!(lines(&database, query), ["a\tb\ta road b\t1\t1"]);
}

#[test]
fn starts_and_ends_are_terms_patterns_or_free() {
    let database = data();
    let query = "PATHS START ?s = { ?s :type :Ruin } END ?e = { ?e :toll ?t FILTER(?t > 1) } VIA :road+ ORDER BY ?e";
    assert_eq!(
        lines(&database, query),
        ["c\tb\tc road d road a road b\t3\t3", "c\td\tc road d\t1\t1"]
    );
    let query = "PATHS START ?s END ?e = :d VIA (:road|:ferry) ORDER BY ?s LIMIT 1";
    assert_eq!(lines(&database, query), ["a\td\ta ferry d\t1\t1"]);
    let query = "PATHS START ?s END ?e VIA :hasChild+";
    assert_eq!(lines(&database, query).len(), 3);
    let query = "PATHS START ?x END ?x VIA :road+";
    assert_eq!(lines(&database, query).len(), 4, "once round the ring");
    let query = "PATHS START ?s = { ?s :type :Town } END ?e VIA { ?from :road ?to } ORDER BY ?s ?e";
    assert_eq!(lines(&database, query).len(), 12);
}

#[test]
fn a_search_is_a_service_in_any_query() {
    let database = data();
    let query = "SELECT ?n ?i ?f ?p ?t ?inverse {
        ?s :type :Ruin .
        SERVICE path:search {
            ?s :road/^:ferry :a .
            [] path:number ?n ; path:index ?i ; path:from ?f ; path:predicate ?p ; path:to ?t ; path:inverse ?inverse
        } } ORDER BY ?i";
    assert_eq!(
        lines(&database, query),
        [
            "1\t1\tc\troad\td\tfalse^^http://www.w3.org/2001/XMLSchema#boolean",
            "1\t2\td\tferry\ta\ttrue^^http://www.w3.org/2001/XMLSchema#boolean"
        ]
    );
    let query = "SELECT * { SERVICE path:search { :Eve :hasChild+ ?e . ?p path:length ?l } FILTER(?l = 2) }";
    assert_eq!(
        lines(&database, query),
        ["Enos\tEve hasChild Seth hasChild Enos\t2"]
    );
    let query = "SELECT (COUNT(*) AS ?c) { ?s :type :Town OPTIONAL { SERVICE path:search { ?s :ferry ?e . ?p path:length ?l } } }";
    assert_eq!(lines(&database, query), ["3"]);
}

#[test]
fn the_path_papers_queries_run_as_printed() {
    let database = data();
    for (query, expected) in [
        (
            "select ?s where { ?s <isCitizenOf> <a>. ?s <hasGender> <male> }",
            vec![],
        ),
        (
            "select ?s where { <a> <participatedIn> ?s. ?s <type> <Town> }",
            vec![],
        ),
        (
            "select ?s where { ?s <type> <Town>. <a> <road> ?s }",
            vec!["b"],
        ),
        (
            "select ?s where { ?s <type> <Town>. ?s ?path <c>. pathfilter(containsOnly(??path, <road>)) }",
            vec!["a", "b", "d"],
        ),
        (
            "select ?s where { ?s ??path <Enos>. pathfilter(containsOnly(??path, <hasChild>)) }",
            vec!["Eve", "Seth"],
        ),
        (
            "select ?s where { ?s ??path <Enos>. ?s <hasGender> <male>. pathfilter(containsOnly(??path, <hasChild>)) }",
            vec!["Seth"],
        ),
    ] {
        let mut found = lines(&database, &format!("BASE <http://e/> {query}"));
        found.sort();
        assert_eq!(found, expected, "{query}");
    }
}

#[test]
fn path_patterns_give_paths_where_they_are_asked_for() {
    let database = data();
    let query = "SELECT ?e ??way { :a ??way ?e . pathfilter(containsOnly(??way, :road, :ferry) && length(??way) <= 1) }";
    let mut found = lines(&database, query);
    found.sort();
    assert_eq!(found, ["b\ta road b", "d\ta ferry d"]);
    let query = "SELECT ?e { :a ??way ?e . pathfilter(containsOnly(??way, :road, :ferry)) pathfilter(containsAny(??way, :ferry)) }";
    assert_eq!(lines(&database, query).len(), 4);
    let query =
        "SELECT ?s ?e { ?s :type :Town ; ??way ?e . pathfilter(containsOnly(??way, :ferry)) }";
    assert_eq!(lines(&database, query), ["a\td"]);
    let plan = database.prepare(
        "SELECT ?e { <http://e/a> ??way ?e . pathfilter(containsOnly(??way, <http://e/road>)) }",
        &QueryOptions::default(),
    );
    assert!(!plan.unwrap().explain().contains("PathSearch"));
}

#[test]
fn what_cannot_be_answered_says_why() {
    let database = data();
    for (query, part) in [
        (
            "PATHS START ?s = :a END ?e = :a VIA (:road|:ferry)+ WEIGHT :toll",
            "the edge <http://e/d> <http://e/road> <http://e/a> has no weight",
        ),
        (
            "PATHS START ?s = :a END ?e = :d VIA :road+ WEIGHT (0 - 1)",
            "has the weight \"-1\"",
        ),
        (
            "PATHS START ?s = :a END ?e = :d VIA :road+ WEIGHT (\"far\")",
            "which is not a number",
        ),
        (
            "PATHS ALL SHORTEST START ?s = :a END ?e = :d VIA :road+ WEIGHT (0)",
            "infinitely many cheapest walks",
        ),
        (
            "SELECT * { SERVICE path:search { :a :road+ ?e . [] path:mode path:All } }",
            "there may be infinitely many walks",
        ),
        (
            "SELECT * { SERVICE path:search { :a :road+ ?e . [] path:mod path:All } }",
            "the option path:mod is not supported: there are start, end",
        ),
        (
            "SELECT * { SERVICE path:search { :a :road+ ?e . ?x :road+ :d } }",
            "more than one path expression",
        ),
        (
            "SELECT * { SERVICE path:search { :a :road+ ?e . FILTER(?e != :d) } }",
            "?e in a filter or weight of a path's edges",
        ),
    ] {
        let query = format!("PREFIX : <http://e/> PREFIX path: <urn:pythia:path#> {query}");
        match ours(&database, &query) {
            Err(error) => assert!(error.to_string().contains(part), "{query}: {error}"),
            Ok(answer) => panic!("{query}: {answer:?}"),
        }
    }
}

#[test]
fn cycles_that_cost_nothing_end() {
    let database = data();
    let trails =
        "PATHS ALL SHORTEST TRAIL START ?s = :a END ?e = :d VIA (:road|:ferry)+ WEIGHT (0)";
    assert_eq!(lines(&database, trails).len(), 4);
    let walks = "PATHS SHORTEST 7 START ?s = :a END ?e = :d VIA (:road|:ferry)+ WEIGHT (0)";
    assert_eq!(lines(&database, walks).len(), 7);
}

#[test]
fn unknown_terms_and_paths_without_edges() {
    let database = data();
    let lines = |query: &str| lines(&database, query);
    assert!(lines("PATHS START ?s = :nowhere END ?e VIA :road+").is_empty());
    assert_eq!(
        lines("PATHS START ?s = :nowhere END ?e VIA :road*"),
        ["nowhere\tnowhere\tnowhere\t0\t0"]
    );
    assert!(lines("PATHS START ?s = :a END ?e VIA :nothing+").is_empty());
    assert_eq!(
        lines("PATHS START ?s = :a END ?e VIA :road* MAX LENGTH 0"),
        ["a\ta\ta\t0\t0"]
    );
    assert!(lines("PATHS START ?s = :a END ?e VIA :road+ MAX LENGTH 0").is_empty());
}

#[test]
fn all_paths_of_a_clique_end_with_a_limit() {
    let mut text = String::new();
    for from in 0..30 {
        for to in 0..30 {
            text += &format!("<http://e/{from}> <http://e/p> <http://e/{to}> .\n");
        }
    }
    let database = database(&text);
    let query = "PATHS ALL ACYCLIC START ?s = <http://e/0> END ?e VIA <http://e/p>+";
    let limits = |options: QueryOptions| ours_with(&database, query, &options).unwrap_err();
    let rows = QueryOptions {
        row_limit: Some(5000),
        ..QueryOptions::default()
    };
    assert!(matches!(limits(rows), QueryError::RowLimit(5000)));
    let time = QueryOptions {
        timeout: Some(std::time::Duration::from_millis(200)),
        ..QueryOptions::default()
    };
    assert!(matches!(limits(time), QueryError::Timeout));
    let memory = QueryOptions {
        memory_bytes: Some(1 << 20),
        ..QueryOptions::default()
    };
    assert!(matches!(limits(memory), QueryError::Memory(_)));
}

#[test]
fn an_expression_of_thousands_of_states_is_searched() {
    let database = data();
    let steps = vec!["<http://e/road>"; 1500].join("/");
    let query = format!("PATHS START ?s = <http://e/a> END ?e VIA {steps}");
    assert_eq!(lines(&database, &query).len(), 1);
}

#[test]
fn json_has_the_parts_of_paths_and_dot_draws_them() {
    let query =
        "PATHS START ?s = <http://e/c> END ?e = <http://e/a> VIA <http://e/road>/^<http://e/ferry>";
    let database = data();
    let text = |format: ResultFormat| {
        let mut out = Vec::new();
        write_results(database.query(query).unwrap(), format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&text(ResultFormat::Json)).unwrap();
    let path = &json["results"]["bindings"][0]["path"];
    assert_eq!(path["datatype"], "urn:pythia:path#path");
    assert_eq!(path["path"]["nodes"][1]["value"], "http://e/d");
    assert_eq!(path["path"]["edges"][0]["inverse"], false);
    assert_eq!(path["path"]["edges"][1]["inverse"], true);
    assert_eq!(
        path["path"]["edges"][1]["predicate"]["value"],
        "http://e/ferry"
    );
    let dot = text(ResultFormat::Dot);
    assert!(
        dot.contains(r#""<http://e/a>" -> "<http://e/d>" [label="ferry"];"#),
        "{dot}"
    );
    let none = database.query("SELECT * { ?s ?p ?o }").unwrap();
    let error = write_results(none, ResultFormat::Dot, Vec::new()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("dot cannot hold solutions without paths")
    );
}

#[test]
fn qualified_edges_have_the_weights_of_their_annotations() {
    let reifies = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>";
    let mut text = String::new();
    for (from, to, km) in [("a", "b", 5), ("b", "c", 5), ("a", "c", 12)] {
        let edge = format!("<http://e/{from}> <http://e/road> <http://e/{to}>");
        text += &format!("{edge} .\n_:{from}{to} {reifies} <<( {edge} )>> .\n");
        text += &format!(
            "_:{from}{to} <http://e/km> \"{km}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n"
        );
    }
    let query =
        "PATHS START ?s = :a END ?e = :c VIA { ?from :road ?to {| :km ?km |} } WEIGHT (?km)";
    assert_eq!(lines(&database(&text), query), ["a\tc\ta - b - c\t2\t10"]);
}

#[test]
fn paths_are_in_the_graphs_that_the_query_names() {
    let database = database(
        "<http://e/a> <http://e/p> <http://e/b> <http://e/g> .\n\
         <http://e/b> <http://e/p> <http://e/c> <http://e/h> .\n\
         <http://e/a> <http://e/p> <http://e/b> <http://e/h> .\n",
    );
    let paths = |dataset: &str| {
        let query = format!("PATHS ALL ACYCLIC {dataset} START ?s = :a END ?e VIA :p+");
        lines(&database, &query).len()
    };
    assert_eq!(paths(""), 0);
    assert_eq!(paths("FROM :g"), 1);
    assert_eq!(
        paths("FROM :g FROM :h"),
        2,
        "the same edge of two graphs is one"
    );
    let query = "SELECT ?e { GRAPH :h { SERVICE path:search { :a :p+ ?e } } }";
    assert_eq!(lines(&database, query), ["b", "c"]);
    let query = "SELECT ?e { GRAPH ?g { SERVICE path:search { :a :p+ ?e } } } ORDER BY ?e";
    assert_eq!(lines(&database, query), ["b", "b", "c"], "in each graph");
}

/// Edges from a sub-query are filtered by what its SELECT names, as anywhere.
#[test]
fn having_uses_names_of_the_select_in_steps_too() {
    let step = "{ SELECT ?from ?to (COUNT(*) AS ?ways) { ?from :road|:ferry|:type ?to . ?from :type ?type }
        GROUP BY ?from ?to ?type HAVING(?ways > 0 && ?type = :Town) }";
    let query = format!(
        "SELECT ?e {{ SERVICE path:search {{ [] path:start :a ; path:end ?e ; path:from ?from ; path:to ?to .
         GRAPH path:step {{ {step} }} }} }} ORDER BY ?e"
    );
    assert_eq!(lines(&data(), &query), ["Town", "a", "b", "c", "d"]);
}
