//! Tests of search and counts, with and without hidden graphs.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use oxrdf::NamedNode;
use pythia::{Compression, GraphRules, RdfFormat, Source};
use serde_json::{Value, json};

use super::reader::Reader;
use super::{complete, description, find, node, void};
use crate::config::DatasetConfig;
use crate::context::Dataset;
use crate::protocol::parameters::Parameters;

const DATA: &str = r#"
    @prefix : <http://e/> .
    @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
    @prefix foaf: <http://xmlns.com/foaf/0.1/> .
    :Paris a :City ; rdfs:label "Paris"@en, "Parigi"@it ; :in :France ; :population 2100000 .
    :ParisTexas a :City ; rdfs:label "Paris, Texas"@en ; :in :USA .
    :Lyon a :City ; rdfs:label "Lyon" ; :in :France .
    :France a :Country ; rdfs:label "France" .
    :USA a :Country ; rdfs:label "USA" .
    :ann a foaf:Person ; foaf:name "ann" ; foaf:knows :bob ; :livesIn :Paris .
    :bob a foaf:Person ; foaf:name "Bob" ; foaf:knows :ann, :cyd ; :livesIn :Paris .
    :cyd a foaf:Person ; foaf:name "Cyd" .
    :secret {
        :Paros a :Island ; rdfs:label "Paros" ; :in :Greece .
        :ann foaf:knows :dan ; :hates :bob .
        :Paris rdfs:label "Panam" ; :in :France .
    }
    :open {
        :Paris :in :France .
    }
"#;

struct Store {
    dataset: Arc<Dataset>,
    _folder: tempfile::TempDir,
}

impl Store {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ds");
        let source = Source::from_reader(
            "data".to_owned(),
            Cursor::new(DATA.as_bytes()),
            RdfFormat::TriG,
            Compression::None,
        );
        let sources = vec![source.expect("a source")];
        pythia::load(&path, sources, &Default::default(), &Default::default()).expect("loaded");
        let dataset = Dataset::open(&DatasetConfig::new("ds", path)).expect("a store");
        Self {
            dataset: Arc::new(dataset),
            _folder: folder,
        }
    }

    fn reader(&self, rules: GraphRules) -> Reader {
        let time = Duration::from_secs(60);
        Reader::new(
            Arc::clone(&self.dataset.database),
            rules,
            time,
            Arc::default(),
        )
    }

    fn all(&self) -> Reader {
        self.reader(GraphRules::all())
    }

    /// Returns a reader that sees everything but `:secret`.
    fn restricted(&self) -> Reader {
        self.reader(GraphRules::parse(&["default", "http://e/open"]).expect("rules"))
    }

    fn update(&self, update: &str) {
        self.dataset.database.update(update).expect("done");
    }
}

fn found(reader: &Reader, text: &str) -> Vec<String> {
    let items = find::find(reader, text, 10).expect("found");
    let items = serde_json::to_value(items).expect("JSON");
    let items = items.as_array().expect("a list").iter();
    let local = |item: &Value| {
        item["iri"]
            .as_str()
            .expect("an IRI")
            .replace("http://e/", "")
    };
    items.map(local).collect()
}

#[test]
fn things_are_found_by_the_beginning_of_a_name_or_iri() {
    let store = Store::new();
    let all = store.all();
    for (text, expected) in [
        // Exact names first, then by the number of triples.
        ("Paris", vec!["Paris", "ParisTexas"]),
        ("par", vec!["Paris", "ParisTexas", "Paros"]),
        ("PARIS, T", vec!["ParisTexas"]),
        ("paris, t", vec!["ParisTexas"]),
        ("usa", vec!["USA"]),
        ("Ann", vec!["ann"]),
        ("bo", vec!["bob"]),
        ("http://e/cy", vec!["cyd"]),
        ("<http://e/cyd>", vec!["cyd"]),
        ("foaf:Per", vec!["http://xmlns.com/foaf/0.1/Person"]),
        ("nowhere", vec![]),
        (" ", vec![]),
    ] {
        assert_eq!(found(&all, text), expected, "{text}");
    }
    let items = find::find(&all, "parig", 10).expect("found");
    assert_eq!(
        serde_json::to_value(items).expect("JSON"),
        json!([{"iri": "http://e/Paris", "label": "Parigi", "types": ["http://e/City"], "matched": "label"}])
    );
}

#[test]
fn nothing_of_a_hidden_graph_is_found() {
    let store = Store::new();
    let some = store.restricted();
    assert_eq!(found(&some, "par"), ["Paris", "ParisTexas"]);
    assert_eq!(found(&some, "Paros"), [""; 0]);
    assert_eq!(found(&some, "Panam"), [""; 0]);
    assert_eq!(found(&some, "http://e/da"), [""; 0]);
    assert_eq!(found(&store.all(), "Panam"), ["Paris"]);
    assert_eq!(found(&store.reader(GraphRules::none()), "Paris"), [""; 0]);
}

#[test]
fn what_changed_is_found() {
    let store = Store::new();
    store.update(
        "PREFIX : <http://e/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
         INSERT DATA { :Parma rdfs:label 'Parma'@it ; :in :Italy } ; DELETE WHERE { :Lyon ?p ?o }",
    );
    assert_eq!(found(&store.all(), "Parm"), ["Parma"]);
    assert_eq!(found(&store.all(), "Lyon"), [""; 0]);
}

fn around(reader: &Reader, query: &str) -> Value {
    let mut parameters = Parameters::default();
    parameters.add(query.as_bytes()).expect("parameters");
    let request = node::Request::of(&parameters).expect("a request");
    serde_json::to_value(node::node(reader, &request).expect("a node")).expect("JSON")
}

fn groups(node: &Value) -> Vec<(String, String, u64, usize, bool)> {
    let groups = node["groups"].as_array().expect("a list").iter();
    let group = |group: &Value| {
        let text = |name: &str| group[name].as_str().expect("text").to_owned();
        let predicate = text("predicate");
        let local = predicate
            .rsplit(['/', '#'])
            .next()
            .unwrap_or_default()
            .to_owned();
        let items = group["items"].as_array().expect("a list").len();
        let count = group["count"].as_u64().expect("a number");
        (
            local,
            text("direction"),
            count,
            items,
            group["more"] == json!(true),
        )
    };
    let mut groups: Vec<_> = groups.map(group).collect();
    groups.sort();
    groups
}

fn group(
    name: &str,
    direction: &str,
    count: u64,
    items: usize,
) -> (String, String, u64, usize, bool) {
    let more = items < count as usize;
    (name.to_owned(), direction.to_owned(), count, items, more)
}

#[test]
fn a_node_has_its_triples_by_direction_and_predicate() {
    let store = Store::new();
    let paris = around(&store.all(), "iri=http://e/Paris");
    assert_eq!(paris["label"], "Paris");
    assert_eq!(paris["types"], json!(["http://e/City"]));
    let expected = [
        // A triple in several graphs counts once.
        group("in", "out", 1, 1),
        group("label", "out", 3, 3),
        group("livesIn", "in", 2, 2),
        group("population", "out", 1, 1),
        group("type", "out", 1, 1),
    ];
    assert_eq!(groups(&paris), expected);
    let mut lives = paris["groups"].as_array().expect("a list").iter();
    let lives = lives.rfind(|group| group["direction"] == "in");
    assert_eq!(
        lives.expect("somebody lives there")["items"][1],
        json!({"term": {"type": "uri", "value": "http://e/bob"}, "label": "Bob"})
    );
    let few = around(&store.all(), "iri=http://e/Paris&limit=1&direction=in");
    assert_eq!(groups(&few), [group("livesIn", "in", 2, 1)]);
    let page = around(
        &store.all(),
        "iri=http://e/Paris&predicate=http://e/livesIn&limit=1&offset=1",
    );
    assert_eq!(groups(&page)[0].2, 2);
    assert_eq!(page["groups"][0]["items"][0]["label"], "Bob");
    assert_eq!(page["groups"][0]["more"], false);
    let nothing = around(&store.all(), "iri=http://e/nowhere");
    assert_eq!(nothing["groups"], json!([]));
}

#[test]
fn a_node_shows_nothing_of_a_hidden_graph() {
    let store = Store::new();
    let some = store.restricted();
    let ann = groups(&around(&some, "iri=http://e/ann&direction=out"));
    assert_eq!(
        ann,
        [
            group("knows", "out", 1, 1),
            group("livesIn", "out", 1, 1),
            group("name", "out", 1, 1),
            group("type", "out", 1, 1)
        ]
    );
    let paris = around(
        &some,
        "iri=http://e/Paris&predicate=http://www.w3.org/2000/01/rdf-schema%23label",
    );
    assert_eq!(paris["groups"][0]["count"], 2);
    for hidden in ["Paros", "dan", "Island"] {
        let node = around(&some, &format!("iri=http://e/{hidden}"));
        assert_eq!(
            (&node["groups"], &node["label"]),
            (&json!([]), &Value::Null)
        );
        assert_eq!(node["types"], json!([]));
    }
}

#[test]
fn a_hub_is_counted_without_being_read_to_its_end() {
    let store = Store::new();
    store.update("DROP ALL");
    let many: String = (0..30_000)
        .map(|n| format!("<http://e/{n}> <http://e/p> <http://e/hub> . <http://e/{n}> <http://e/q> <http://e/hub> . "))
        .collect();
    store.update(&format!("INSERT DATA {{ {many} }}"));
    let hub = around(&store.all(), "iri=http://e/hub&limit=3");
    assert_eq!(
        groups(&hub),
        [group("p", "in", 30_000, 3), group("q", "in", 30_000, 3)]
    );
    let some = store.reader(GraphRules::parse(&["default"]).expect("rules"));
    let same = around(&some, "iri=http://e/hub&limit=3");
    assert_eq!(same, hub);
}

/// Returns the suggestions in place of `¦`.
fn suggested(reader: &Reader, text: &str) -> Vec<Value> {
    let before = text.split('¦').next().expect("marked");
    let request = json!({
        "query": text.replacen('¦', "", 1),
        "cursor": before.encode_utf16().count(),
        "limit": 50,
    });
    let request = serde_json::from_value(request).expect("a request");
    let completion = complete::complete(reader, &request).expect("completed");
    let completion = serde_json::to_value(completion).expect("JSON");
    completion["items"].as_array().expect("a list").clone()
}

fn inserts(reader: &Reader, text: &str, kind: &str) -> Vec<String> {
    let items = suggested(reader, text).into_iter();
    let items = items.filter(|item| item["kind"] == kind);
    items
        .map(|item| item["insert"].as_str().expect("text").to_owned())
        .collect()
}

const PROLOGUE: &str = "PREFIX : <http://e/> PREFIX foaf: <http://xmlns.com/foaf/0.1/> SELECT * { ";

#[test]
fn predicates_are_those_that_can_follow_in_the_query() {
    let store = Store::new();
    let all = store.all();
    let predicates = |group: &str| inserts(&all, &format!("{PROLOGUE}{group}"), "predicate");
    // Predicates of cities come first, those of other things behind.
    let cities = predicates("?c a :City ; ¦");
    assert_eq!(cities[..4], ["rdfs:label", ":in", "a", ":population"]);
    assert!(cities[4..].contains(&"foaf:knows".to_owned()), "{cities:?}");
    assert_eq!(predicates("?c a :City ; pop¦")[0], ":population");
    assert_eq!(predicates("?p foaf:kn¦"), ["foaf:knows"]);
    assert_eq!(
        predicates("?p a foaf:Person ; foaf:knows/liv¦")[0],
        ":livesIn"
    );
    assert_eq!(predicates("?x ^li¦ . ?x a foaf:Person")[0], ":livesIn");
    let label = &suggested(&all, &format!("{PROLOGUE}?c lab¦"))[0];
    assert_eq!(label["insert"], "rdfs:label");
    assert_eq!(
        label["prefix"],
        json!({"name": "rdfs", "iri": "http://www.w3.org/2000/01/rdf-schema#"})
    );
    assert_eq!(label["count"], 8);
    assert_eq!(predicates("?c <http://e/p¦"), ["<http://e/population>"]);
}

#[test]
fn classes_objects_nodes_and_graphs_are_suggested() {
    let store = Store::new();
    let all = store.all();
    let kind = |group: &str, kind: &str| inserts(&all, &format!("{PROLOGUE}{group}"), kind);
    let classes = kind("?x a ¦", "class");
    assert_eq!(classes[..2], [":City", "foaf:Person"]);
    assert_eq!(kind("?x :livesIn ?y . ?x a ¦", "class")[0], "foaf:Person");
    assert_eq!(kind("?x a Cou¦", "class"), [":Country"]);
    assert_eq!(kind("?x :livesIn ¦", "node"), [":Paris"]);
    assert_eq!(
        kind("?x foaf:name ¦", "node"),
        ["\"Bob\"", "\"Cyd\"", "\"ann\""]
    );
    assert_eq!(kind("?x :in ly¦", "node"), [":Lyon"]);
    assert_eq!(kind("?x :in fra¦", "node"), [":France"]);
    assert_eq!(kind("lyo¦ :in ?y", "node"), [":Lyon"]);
    assert_eq!(kind("GRAPH ¦", "graph"), [":secret", ":open"]);
    assert_eq!(kind("?some ?other ?thing . ?so¦", "variable"), ["?some"]);
    assert_eq!(kind("?x ?p ?o . OPT¦", "keyword"), ["OPTIONAL"]);
    assert_eq!(kind("?x ?p ?o . LAT¦", "keyword"), ["LATERAL"]);
    assert_eq!(kind("?x :in ?y LATERAL { ?x :in ly¦", "node"), [":Lyon"]);
}

#[test]
fn nothing_of_a_hidden_graph_is_suggested() {
    let store = Store::new();
    let some = store.restricted();
    let kind = |group: &str, kind: &str| inserts(&some, &format!("{PROLOGUE}{group}"), kind);
    assert!(!kind("?x ¦", "predicate").contains(&":hates".to_owned()));
    assert_eq!(kind("?x hat¦", "predicate"), [""; 0]);
    assert!(!kind("?x a ¦", "class").contains(&":Island".to_owned()));
    assert_eq!(kind("GRAPH ¦", "graph"), [":open"]);
    assert_eq!(kind("?x :in Par¦", "node"), [":Paris", ":ParisTexas"]);
    let knows = suggested(&some, &format!("{PROLOGUE}?x foaf:kn¦"));
    assert_eq!(knows[0]["count"], 3);
}

#[test]
fn places_are_counted_in_utf_16() {
    let store = Store::new();
    let text = "SELECT * { ?é\u{1f600} a 'x\u{1f600}' . ?x livesI";
    let request = json!({"query": text, "cursor": text.encode_utf16().count()});
    let request = serde_json::from_value(request).expect("a request");
    let completion = complete::complete(&store.all(), &request).expect("completed");
    let completion = serde_json::to_value(completion).expect("JSON");
    let from = text
        .find("livesI")
        .map(|at| text[..at].encode_utf16().count());
    assert_eq!(completion["from"].as_u64(), from.map(|from| from as u64));
    assert_eq!(completion["items"][0]["insert"], "<http://e/livesIn>");
}

fn described(reader: &Reader) -> String {
    let iri = |iri: &str| NamedNode::new_unchecked(iri);
    let description = void::describe(reader, iri("http://s/void#dataset"), iri("http://s/sparql"));
    let text = description.expect("described").write(RdfFormat::NTriples);
    String::from_utf8(text.expect("written")).expect("text")
}

#[test]
fn void_counts_what_is_seen() {
    let store = Store::new();
    let integer = |count: u64| format!("\"{count}\"^^<http://www.w3.org/2001/XMLSchema#integer>");
    let all = described(&store.all());
    let says = |text: &str, name: &str, count: u64| {
        let line = format!(
            "<http://s/void#dataset> <http://rdfs.org/ns/void#{name}> {} .",
            integer(count)
        );
        assert!(text.contains(&line), "{line} in\n{text}");
    };
    says(&all, "triples", 34);
    says(&all, "properties", 8);
    says(&all, "classes", 4);
    assert!(
        all.contains("<http://rdfs.org/ns/void#class> <http://e/Island>"),
        "{all}"
    );
    let some = described(&store.restricted());
    says(&some, "triples", 27);
    says(&some, "properties", 7);
    says(&some, "classes", 3);
    assert!(
        !some.contains("Island") && !some.contains("hates"),
        "{some}"
    );
    let none = described(&store.reader(GraphRules::none()));
    says(&none, "triples", 0);
    says(&none, "properties", 0);
}

#[test]
fn a_description_names_the_graphs_that_are_seen() {
    let store = Store::new();
    let endpoint = description::Endpoint {
        url: NamedNode::new_unchecked("http://s/sparql"),
        updates: true,
        federated: false,
        union: true,
    };
    let text = |reader: &Reader| {
        let description = description::describe(reader, &endpoint).expect("described");
        let text = description.write(RdfFormat::NTriples).expect("written");
        String::from_utf8(text).expect("text")
    };
    let sd = "http://www.w3.org/ns/sparql-service-description#";
    let all = text(&store.all());
    for line in [
        format!("<http://s/sparql> <{sd}endpoint> <http://s/sparql> ."),
        format!("<http://s/sparql> <{sd}supportedLanguage> <{sd}SPARQL11Update> ."),
        format!("<http://s/sparql> <{sd}feature> <{sd}UnionDefaultGraph> ."),
        format!("<{sd}name> <http://e/secret> ."),
    ] {
        assert!(all.contains(&line), "{line} in\n{all}");
    }
    let some = text(&store.restricted());
    assert!(
        some.contains("<http://e/open>") && !some.contains("secret"),
        "{some}"
    );
}
