//! Stores with what `pythia optimize` adds: the same answers, with less work.

use std::path::Path;
use std::sync::Arc;

use pythia::{
    Auxiliary, CachedAttribute, Database, OptimizeOptions, Options, Pace, PlanNode, QueryOptions,
};
use pythia_io::Storage;
use pythia_rdf::TermId;
use pythia_store::manifest::AuxiliaryKind;
use pythia_store::store::{Change, optimize};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::{analyze, answer_of, ours, stored};

/// The data without anything added, and with reachability labels of `http://e/<name>`.
fn databases(nquads: &str, labelled: &[&str]) -> [Database; 2] {
    optimized(nquads, labelled, |predicate| AuxiliaryKind::Reachability {
        predicate,
    })
}

/// The same with cached values of `http://e/<name>`.
fn with_cached(nquads: &str, attributes: &[&str]) -> [Database; 2] {
    optimized(nquads, attributes, |predicate| AuxiliaryKind::Attribute {
        predicate,
        along: Vec::new(),
    })
}

/// The same with everything that can be added of these predicates.
pub(crate) fn with_everything(nquads: &str, names: &[&str]) -> [Database; 2] {
    with_kinds(nquads, names, |predicate| {
        let along = Vec::new();
        vec![
            AuxiliaryKind::Reachability { predicate },
            AuxiliaryKind::Attribute { predicate, along },
            AuxiliaryKind::Degrees,
        ]
    })
}

fn optimized(nquads: &str, names: &[&str], kind: impl Fn(u64) -> AuxiliaryKind) -> [Database; 2] {
    with_kinds(nquads, names, |predicate| vec![kind(predicate)])
}

/// With what is to be added of each predicate; it is added once.
fn with_kinds(
    nquads: &str,
    names: &[&str],
    kinds: impl Fn(u64) -> Vec<AuxiliaryKind>,
) -> [Database; 2] {
    let plain = Database::open_storage(Arc::new(stored(nquads)), Options::default()).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(stored(nquads));
    let id = |name: &&str| {
        let iri = format!("http://e/{name}");
        let node = oxrdf::NamedNodeRef::new(&iri).unwrap();
        plain.snapshot().resolve(node.into()).unwrap()
    };
    let mut add: Vec<AuxiliaryKind> = Vec::new();
    for TermId(predicate) in names.iter().filter_map(id) {
        for kind in kinds(predicate) {
            if !add.iter().any(|known| known.replaces(&kind)) {
                add.push(kind);
            }
        }
    }
    let change = Change {
        add,
        drop: Vec::new(),
    };
    optimize(Arc::clone(&storage), &change, Default::default()).unwrap();
    let verified = pythia_store::verify::verify(
        Arc::clone(&storage),
        pythia::VerifyOptions::default(),
        &mut |_| {},
    );
    assert_eq!(verified.problems, []);
    let optimized = Database::open_storage(storage, Options::default()).unwrap();
    [plain, optimized]
}

fn uses(plan: &PlanNode, operator: &str) -> bool {
    plan.parts().iter().any(|part| part.operator == operator)
}

/// Random edges of `p` and `q` over few nodes, some in a named graph, some to literals.
fn random_graph(random: &mut StdRng) -> String {
    let nodes = random.random_range(2..40);
    let mut text = String::new();
    for _ in 0..random.random_range(1..3 * nodes) {
        let (from, to) = (random.random_range(0..nodes), random.random_range(0..nodes));
        let object = match random.random_range(0..8) {
            0 => format!("\"{to}\""),
            _ => format!("<http://e/n{to}>"),
        };
        let graph = match random.random_range(0..6) {
            0 => "<http://e/g>",
            _ => "",
        };
        let predicate = ["p", "p", "p", "q"][random.random_range(0..4)];
        text.push_str(&format!(
            "<http://e/n{from}> <http://e/{predicate}> {object} {graph} .\n"
        ));
    }
    text.push_str("<http://e/n0> <http://e/p> <http://e/n1> .\n");
    text.push_str("<http://e/n1> <http://e/q> <http://e/n0> .\n");
    text
}

const QUERIES: [&str; 16] = [
    "SELECT * { ?x e:q ?y . ?x e:p+ ?y }",
    "SELECT * { ?x e:q ?y . ?x e:p* ?y }",
    "SELECT * { ?x e:q ?y . ?y ^e:p+ ?x }",
    "SELECT * { ?x e:q ?y . ?x (^e:p)* ?y }",
    "SELECT * { ?x e:q ?y . ?x e:p+ ?x }",
    "SELECT * { ?x e:q ?y . ?x e:p* e:n1 }",
    "SELECT * { ?x e:q ?y . e:n0 e:p+ ?y }",
    "SELECT * { ?x e:q ?y . ?y e:p+ \"1\" }",
    "SELECT * { ?x e:q ?y . ?y e:p* e:nowhere }",
    "SELECT * { VALUES ?x { e:n1 e:n2 e:nowhere \"1\" } VALUES ?y { e:n1 e:n3 e:nowhere \"1\" } ?x e:p* ?y }",
    "ASK { e:n0 e:p+ e:n5 }",
    "ASK { e:nowhere e:p* e:nowhere }",
    "SELECT * { GRAPH e:g { ?x e:q ?y . ?x e:p+ ?y } }",
    "SELECT * { ?x e:q ?y FILTER NOT EXISTS { ?x e:p+ ?y } }",
    "SELECT * { ?x e:q ?y OPTIONAL { ?z e:q ?x . ?z e:p+ ?y } }",
    "SELECT DISTINCT ?x { ?x e:q ?y . ?y e:p+ ?z . ?z e:p* ?x }",
];

#[test]
fn labels_and_searches_give_the_same_answers() {
    let mut random = StdRng::seed_from_u64(23);
    for round in 0..60 {
        let text = random_graph(&mut random);
        let [plain, labelled] = databases(&text, &["p"]);
        for query in QUERIES {
            let query = format!("PREFIX e: <http://e/> {query}");
            let expected = ours(&plain, &query).unwrap().sorted();
            let found = ours(&labelled, &query).unwrap().sorted();
            assert_eq!(found, expected, "round {round}: {query}\n{text}");
        }
    }
}

/// Places in a tree of regions, and things that are at places; few of them are marked.
fn places() -> String {
    let mut text = String::new();
    for i in 1..2000 {
        let up = i / 3;
        text.push_str(&format!(
            "<http://e/r{i}> <http://e/in> <http://e/r{up}> .\n"
        ));
        text.push_str(&format!(
            "<http://e/t{i}> <http://e/at> <http://e/r{i}> .\n"
        ));
        if i % 500 == 0 {
            text.push_str(&format!(
                "<http://e/t{i}> <http://e/is> <http://e/rare> .\n"
            ));
        }
    }
    text
}

#[test]
fn known_ends_need_no_search() {
    let [plain, labelled] = databases(&places(), &["in"]);
    let query = "PREFIX e: <http://e/> SELECT * { ?t e:is e:rare . ?t e:at ?r . ?r e:in+ e:r0 }";
    let (expected, without) = analyze(&plain, query);
    let (found, with) = analyze(&labelled, query);
    assert_eq!(found, expected);
    assert_eq!(found.len(), 3);
    assert!(!uses(&without, "Reachable"), "{without}");
    assert!(uses(&with, "Reachable"), "{with}");
    let both = "PREFIX e: <http://e/> ASK { e:r1999 e:in+ e:r2 }";
    let (found, plan) = analyze(&labelled, both);
    assert_eq!(found, ["true"]);
    assert!(uses(&plan, "Reachable") && plan.pages() <= 4, "{plan}");
}

#[test]
fn the_planner_searches_where_that_is_less_work() {
    let [_, labelled] = databases(&places(), &["in"]);
    // A small region: few places are in it, and everything is at some place.
    let query = "PREFIX e: <http://e/> SELECT * { ?t e:at ?r . ?r e:in+ e:r600 }";
    let (found, plan) = analyze(&labelled, query);
    assert_eq!(found.len(), 3);
    assert!(uses(&plan, "Path"), "{plan}");
}

/// Loads text into a folder.
fn load(path: &Path, text: &str) {
    let text = std::io::Cursor::new(text.to_owned().into_bytes());
    let (format, compression) = (pythia::RdfFormat::NQuads, pythia::Compression::None);
    let source = pythia::Source::from_reader("test".to_owned(), text, format, compression);
    let options = pythia::LoadOptions {
        memory_bytes: 128 << 20,
        ..pythia::LoadOptions::default()
    };
    pythia::load(path, vec![source.unwrap()], &options, &Arc::default()).unwrap();
}

fn labels_of(name: &str) -> Auxiliary {
    Auxiliary {
        reachability: vec![name.to_owned()],
        ..Auxiliary::default()
    }
}

#[test]
fn a_folder_is_optimized_by_names() {
    let folder = tempfile::tempdir().unwrap();
    load(folder.path(), &places());
    let options = OptimizeOptions::default();
    let added = pythia::optimize(folder.path(), &labels_of("<http://e/in>"), options).unwrap();
    assert!(added[0].bytes > 0);
    let database = Database::open(folder.path()).unwrap();
    let report = pythia::StoreReport::new(database.store());
    let what = pythia::describe_auxiliary(&report.auxiliary[0].0, &database.snapshot()).unwrap();
    assert_eq!(what, "reachability of <http://e/in>");
    let busy = pythia::optimize(folder.path(), &labels_of("http://e/in"), options).unwrap_err();
    assert!(busy.to_string().contains("in use"), "{busy}");
    drop(database);
    for (name, said) in [
        ("in", "did you mean http://e/in?"),
        ("http://e/att", "did you mean http://e/at?"),
        ("http://e/loves", "`pythia stats` lists"),
        ("not an IRI", "no predicate not an IRI"),
    ] {
        let error = pythia::optimize(folder.path(), &labels_of(name), options).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    let verified = pythia::verify(folder.path(), Default::default(), &mut |_| {}).unwrap();
    assert_eq!(verified.problems, []);
    // What is damaged is named, and can be dropped all the same.
    let directory = folder.path().join("auxiliary-000001/directory");
    let mut bytes = std::fs::read(&directory).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&directory, bytes).unwrap();
    let error = Database::open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("auxiliary-000001/directory"), "{error}");
    assert!(error.contains("`pythia optimize --drop`"), "{error}");
    let dropped = pythia::drop_auxiliary(folder.path(), &Auxiliary::default()).unwrap();
    assert_eq!(dropped.len(), 1);
    assert!(
        Database::open(folder.path())
            .unwrap()
            .store()
            .manifest()
            .auxiliary
            .is_empty()
    );
}

const STARS: [&str; 14] = [
    "SELECT * { ?s e:p e:n1 . ?s e:q ?v }",
    "SELECT * { ?s e:p e:n1 . ?s e:q e:n2 }",
    "SELECT * { e:n1 e:p ?o . ?o e:q ?v }",
    "SELECT * { e:n0 e:p ?o . ?o e:q e:n0 }",
    "SELECT * { ?s e:p ?o . ?o e:q ?v }",
    "SELECT * { ?s e:p ?o . ?s e:q ?o }",
    "SELECT * { ?s e:p ?o . ?o e:p ?t . ?t e:q ?v FILTER(?v != ?o) }",
    "SELECT * { VALUES ?s { e:n1 e:n2 e:nowhere } ?s e:p ?o . ?o e:q ?s }",
    "SELECT * { e:n1 e:p ?o . ?o e:q ?o }",
    "SELECT * { GRAPH e:g { e:n1 e:p ?o . ?o e:q ?v } }",
    "SELECT * { GRAPH ?g { ?s e:p e:n1 . ?s e:q ?v } }",
    "SELECT (COUNT(*) AS ?n) { ?s e:p e:n1 . ?s e:q ?v }",
    "SELECT DISTINCT ?s { ?s e:p e:n1 . ?s e:q ?v }",
    "SELECT * { e:n1 e:p ?o . ?o e:q ?v OPTIONAL { ?v e:p ?w . ?w e:q ?x } }",
];

/// Closures whose ends have an attribute, with both kinds of edges cached or one.
const CLOSURES: [&str; 15] = [
    "SELECT * { ?s e:p+ e:n1 . ?s e:q ?v }",
    "SELECT * { ?s e:p+ e:n1 . ?s e:q e:n2 }",
    "SELECT * { e:n1 e:p+ ?o . ?o e:q ?v }",
    "SELECT * { e:n1 e:p+/^e:p ?o . ?o e:q ?v }",
    "SELECT * { e:n0 (e:p|^e:p)+ ?o . ?o e:q ?v }",
    "SELECT * { e:n0 e:p* ?o . ?o e:q ?v }",
    "SELECT * { e:n0 (e:p|e:q)+ ?o . ?o e:q ?v }",
    "SELECT * { e:n1 e:p+ ?o . ?o e:q ?o }",
    "SELECT * { VALUES ?s { e:n1 e:n1 e:n2 e:nowhere } ?s e:p+ ?o . ?o e:q ?v }",
    "SELECT * { VALUES (?s ?v) { (e:n1 e:n0) (e:n0 e:n0) (e:n0 e:n1) } ?s e:p+ ?o . ?o e:q ?v }",
    "SELECT DISTINCT ?o { e:n1 e:p+ ?o . ?o e:q ?v }",
    "SELECT (COUNT(*) AS ?n) { ?s e:p+ e:n1 . ?s e:q ?v }",
    "SELECT * { e:n1 e:p+ ?o . ?o e:q ?v OPTIONAL { ?v e:p+ ?w . ?w e:q ?x } }",
    "SELECT * { GRAPH e:g { e:n1 e:p+ ?o . ?o e:q ?v } }",
    "SELECT * { { SELECT ?s { ?s e:p ?t } } ?s e:p+ ?o . ?o e:q ?v . ?o e:p ?x }",
];

#[test]
fn cached_attributes_give_the_same_answers() {
    let mut random = StdRng::seed_from_u64(29);
    let mut used = [0; 2];
    for round in 0..40 {
        let text = random_graph(&mut random);
        let [plain, cached] = with_cached(&text, &["q"]);
        for query in STARS.into_iter().chain(CLOSURES) {
            let query = format!("PREFIX e: <http://e/> {query}");
            let expected = ours(&plain, &query).unwrap().sorted();
            let found = ours(&cached, &query).unwrap().sorted();
            assert_eq!(found, expected, "round {round}: {query}\n{text}");
            let plan = cached.prepare(&query, &QueryOptions::default()).unwrap();
            let plan = plan.plan().to_string();
            used[0] += usize::from(plan.contains("Cached("));
            used[1] += usize::from(plan.contains("Cached path"));
        }
    }
    assert!(
        used[0] > 100 && used[1] > 100,
        "{used:?} plans used the cache"
    );
}

/// Joins from many nodes, which read the closure's edges once, and the values of all its nodes with them.
#[test]
fn cached_attributes_are_joined_with_whole_closures() {
    let mut text = String::new();
    for i in 0..600 {
        let line = |p: &str, o: String| format!("<http://e/n{i}> <http://e/{p}> {o} .\n");
        text += &line("p", format!("<http://e/n{}>", (i + 1 + i / 50 * 7) % 600));
        text += &line("q", format!("\"{}\"", i % 3));
        text += &line("of", format!("<http://e/set{}>", i % 2));
    }
    // With these, the values of all nodes cost more than those of the closure's.
    for i in 600..60_000 {
        text += &format!("<http://e/n{i}> <http://e/q> \"{}\" .\n", i % 3);
    }
    let [plain, cached] = with_cached(&text, &["q"]);
    for value in ["?v", "\"1\""] {
        let query = format!(
            "PREFIX e: <http://e/> SELECT (COUNT(*) AS ?n) (COUNT(DISTINCT ?o) AS ?ends) {{
                 {{ SELECT ?s {{ ?s e:of e:set1 }} }} ?s e:p+ ?o . ?o e:q {value} }}"
        );
        let (expected, _) = analyze(&plain, &query);
        let (found, plan) = analyze(&cached, &query);
        assert_eq!(found, expected);
        assert!(uses(&plan, "Cached path"), "{plan}");
    }
}

/// The values at all ends of a closure take more memory than there is, those of a few searches do not.
#[test]
fn values_that_exceed_the_memory_are_read_search_by_search() {
    const VALUES: usize = 60;
    let mut text = String::new();
    for i in 0..600 {
        let line = |p: &str, o: String| format!("<http://e/n{i}> <http://e/{p}> {o} .\n");
        let next = i / 20 * 20 + (i + 1) % 20;
        text += &line("p", format!("<http://e/n{next}>"));
        text += &line("of", format!("<http://e/set{}>", i % 2));
        for value in 0..VALUES {
            text += &line("q", format!("\"{i} {value}\""));
        }
    }
    for i in 600..60_000 {
        text += &format!("<http://e/n{i}> <http://e/q> \"{}\" .\n", i % 3);
    }
    let [_, cached] = with_cached(&text, &["q"]);
    let query = "PREFIX e: <http://e/> SELECT (COUNT(*) AS ?n) {
        { SELECT ?s { ?s e:of e:set1 } } ?s e:p+ ?o . ?o e:q ?v }";
    for memory_bytes in [None, Some(1 << 19)] {
        let options = QueryOptions {
            memory_bytes,
            ..QueryOptions::default()
        };
        let prepared = cached.prepare(query, &options).unwrap();
        let plan = prepared.plan();
        assert!(uses(&plan, "Cached path"), "{plan}");
        let found = answer_of(prepared.execute().unwrap()).unwrap();
        let count = 300 * 20 * VALUES;
        assert!(found.lines[0].contains(&count.to_string()), "{found:?}");
    }
}

/// Indexes that are built while a database is used give the same answers after each of the updates that follow.
#[test]
fn indexes_of_an_open_database_give_the_same_answers_after_updates() {
    let mut random = StdRng::seed_from_u64(43);
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [plain, indexed] = folders.each_ref().map(|folder| {
        load(
            folder.path(),
            "<http://e/n0> <http://e/p> <http://e/n1> .\n",
        );
        Database::open_for_writing(folder.path()).unwrap()
    });
    let all = Auxiliary {
        attributes: vec![CachedAttribute {
            predicate: "http://e/q".to_owned(),
            along: Vec::new(),
        }],
        degrees: true,
        ..labels_of("http://e/p")
    };
    let mut used = [0; 2];
    for round in 0..24 {
        let text = random_graph(&mut random);
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("/g>")).collect();
        let (removed, added) = lines.split_at(lines.len() / 3);
        let update = format!(
            "DELETE DATA {{ {} }}; INSERT DATA {{ {} }}; DELETE WHERE {{ <http://e/n{}> ?p ?o }}",
            removed.join(" "),
            added.join(" "),
            round % 7
        );
        for database in [&plain, &indexed] {
            database.update(&update).unwrap();
        }
        if round % 6 == 0 {
            let pace = Pace::default();
            let added = indexed.optimize(&all, OptimizeOptions::default(), &pace);
            assert_eq!(added.unwrap().len(), 3);
        }
        for query in QUERIES.into_iter().chain(STARS).chain(CLOSURES) {
            let query = format!("PREFIX e: <http://e/> {query}");
            let expected = ours(&plain, &query).unwrap().sorted();
            let found = ours(&indexed, &query).unwrap().sorted();
            assert_eq!(found, expected, "round {round}: {query}");
            let plan = indexed.prepare(&query, &QueryOptions::default()).unwrap();
            let plan = plan.plan().to_string();
            used[0] += usize::from(plan.contains("Reachable"));
            used[1] += usize::from(plan.contains("Cached"));
        }
    }
    assert!(used[0] > 50 && used[1] > 50, "{used:?} plans used an index");
    let dropped = indexed.drop_auxiliary(&Auxiliary::default()).unwrap();
    assert_eq!(dropped.len(), 3);
    assert!(indexed.store().manifest().auxiliary.is_empty());
}

/// Citizens of few countries, each with a gender, and a name that nothing asks for.
fn citizens() -> String {
    let mut text = String::new();
    for i in 0..6000 {
        let number = i * 7919 % 6000;
        let (country, gender) = (i % 3 + i / 5900 * 7, ["male", "female"][i / 3 % 2]);
        text.push_str(&format!(
            "<http://e/c{number}> <http://e/isCitizenOf> <http://e/country{country}> .\n\
             <http://e/c{number}> <http://e/hasGender> <http://e/{gender}> .\n\
             <http://e/c{number}> <http://e/name> \"a name of some length, number {number}\" .\n"
        ));
    }
    text
}

/// Counts pages that a query reads when nothing is in the cache.
fn pages(database: &Database, query: &str) -> (usize, u64, PlanNode) {
    database.clear_cache().unwrap();
    let (lines, plan) = analyze(database, query);
    (lines.len(), plan.pages(), plan)
}

#[test]
fn citizens_that_are_male_cost_no_extra_reads() {
    let [plain, cached] = with_cached(&citizens(), &["hasGender"]);
    for (country, count) in [("country8", 16), ("country0", 984)] {
        let query = format!(
            "PREFIX e: <http://e/> SELECT ?s {{ ?s e:isCitizenOf e:{country} . ?s e:hasGender e:male }}"
        );
        let (expected, without, _) = pages(&plain, &query);
        let (found, with, plan) = pages(&cached, &query);
        assert_eq!((found, expected), (count, count));
        assert!(uses(&plan, "Cached(Object)"), "{plan}");
        assert!(
            with <= 4 && with < without,
            "{with} pages, not {without}: {plan}"
        );
    }
}

/// Ancestors, each with a gender and a name of its own that fills pages.
fn ancestors() -> String {
    let mut text = String::new();
    for i in 0..4000 {
        let line = |p: &str, o: String| format!("<http://e/p{i}> <http://e/{p}> {o} .\n");
        if i % 100 > 0 {
            text += &line("hasChild", format!("<http://e/p{}>", i - 1));
        }
        text += &line(
            "hasGender",
            format!("<http://e/{}>", ["male", "female"][i % 2]),
        );
        for name in 0..12 {
            text += &line("name", format!("\"name {name} of number {i}\""));
        }
    }
    text
}

/// Query 6 of the Pythia paper's experiment.
#[test]
fn ancestors_with_a_gender_read_no_tuple_of_an_ancestor() {
    let [plain, cached] = with_cached(&ancestors(), &["hasGender"]);
    let query = "PREFIX e: <http://e/>
        SELECT ?s { ?s e:hasChild+ e:p300 . ?s e:hasGender e:male }";
    let ancestors = "PREFIX e: <http://e/> SELECT ?s { ?s e:hasChild+ e:p300 }";
    let (of_path, pages_of_path, _) = pages(&cached, ancestors);
    let (expected, without, _) = pages(&plain, query);
    let (found, with, plan) = pages(&cached, query);
    assert_eq!((of_path, found, expected), (99, 49, 49));
    assert!(uses(&plan, "Cached path"), "{plan}");
    assert!(
        with <= pages_of_path + 3 && with < without,
        "{with} pages with the cache, {without} without, {pages_of_path} without genders: {plan}"
    );
}

#[test]
fn degrees_are_functions_and_cost_few_pages() {
    let [plain, counted] = optimized(&citizens(), &["name"], |_| AuxiliaryKind::Degrees);
    for (function, pattern) in [("outDegree", "?x ?p ?y"), ("inDegree", "?y ?p ?x")] {
        let counts = format!("SELECT ?x (COUNT(*) AS ?n) {{ {pattern} }} GROUP BY ?x");
        let expected = ours(&plain, &counts).unwrap().sorted();
        let query = format!(
            "SELECT ?x (<urn:pythia:graph#{function}>(?x) AS ?n) {{
                SELECT DISTINCT ?x {{ {pattern} }} }}"
        );
        for database in [&plain, &counted] {
            assert_eq!(
                ours(database, &query).unwrap().sorted(),
                expected,
                "{query}"
            );
        }
    }
    let nowhere = "SELECT (<urn:pythia:graph#inDegree>(?x) AS ?n)
        { VALUES ?x { <http://e/nowhere> UNDEF } }";
    let zero = "\"0\"^^<http://www.w3.org/2001/XMLSchema#integer>";
    for database in [&plain, &counted] {
        let lines = ours(database, nowhere).unwrap().sorted().lines;
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0], zero, "{lines:?}");
    }
    let popular = "PREFIX g: <urn:pythia:graph#> SELECT ?x { ?y <http://e/isCitizenOf> ?x }
        GROUP BY ?x ORDER BY DESC(g:inDegree(?x)) ?x LIMIT 2";
    assert_eq!(
        ours(&counted, popular).unwrap().lines,
        ["<http://e/country0>", "<http://e/country1>"]
    );
    let all = "PREFIX g: <urn:pythia:graph#> SELECT (SUM(?d) AS ?n)
        { ?x <http://e/name> ?name BIND(g:outDegree(?x) AS ?d) }";
    let ((_, without, _), (_, with, _)) = (pages(&plain, all), pages(&counted, all));
    assert!(with < without / 4, "{with} pages, {without} without");
    let wrong = "PREFIX g: <urn:pythia:graph#> SELECT ?x { ?x ?p ?y FILTER(g:outDegree(1) > 0) }";
    let error = ours(&plain, wrong).unwrap_err().to_string();
    assert!(error.contains("one variable"), "{error}");
}

#[test]
fn a_log_of_queries_says_what_is_worth_building() {
    let text = format!("{}{}", places(), citizens());
    let [plain, _] = databases(&text, &["in"]);
    let log = [
        "SELECT * { ?t <http://e/is> <http://e/rare> . ?t <http://e/at> ?r . ?r <http://e/in>+ <http://e/r0> }",
        "ASK { <http://e/r9> <http://e/in>* <http://e/r0> }",
        "SELECT ?s { ?s <http://e/isCitizenOf> <http://e/country1> . ?s <http://e/hasGender> <http://e/male> }",
        "SELECT ?s { ?s <http://e/isCitizenOf> <http://e/country1> . ?s <http://e/name> ?name }",
        "ASK { <http://e/r9> <http://e/nothing>+ <http://e/r0> }",
        "SELECT ?s WHERE",
    ];
    let advice = pythia::advise(&plain.snapshot(), log).unwrap();
    assert_eq!((advice.queries, advice.unreadable), (6, 1));
    let [labels, attribute] = &advice.advised[..] else {
        panic!("{:?}", advice.advised);
    };
    assert_eq!(labels.auxiliary, labels_of("http://e/in"));
    assert_eq!(labels.queries, 2);
    assert_eq!(attribute.auxiliary.attributes.len(), 1);
    assert_eq!(
        attribute.auxiliary.attributes[0].predicate,
        "http://e/hasGender"
    );
    assert_eq!(
        attribute.auxiliary.attributes[0].along,
        ["http://e/isCitizenOf"]
    );
    // Once it is built, it is not advised again, and not much larger than was said.
    let folder = tempfile::tempdir().unwrap();
    load(folder.path(), &text);
    let mut all = Auxiliary::default();
    advice
        .advised
        .iter()
        .for_each(|a| all.add(a.auxiliary.clone()));
    let added = pythia::optimize(folder.path(), &all, OptimizeOptions::default()).unwrap();
    for (added, advised) in added.iter().zip(&advice.advised) {
        // How far it can be packed depends on the data.
        assert!(added.bytes < 3 * advised.bytes, "{added:?} but {advised:?}");
    }
    let database = Database::open(folder.path()).unwrap();
    let again = pythia::advise(&database.snapshot(), log).unwrap();
    assert_eq!(again.advised, []);
}
