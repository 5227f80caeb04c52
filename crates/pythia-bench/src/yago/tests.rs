//! A small run of the whole experiment, on a made-up family with YAGO's relations.

use std::fmt::Write;

use pythia::{Compression, Database, LoadOptions, RdfFormat, Source};

use super::*;
use crate::queries;
use crate::timed::Output;

const PEOPLE: usize = 240;

/// Returns people with countries, genders, children and films; places within places; events. Person `i` is the parent
/// of `2i + 1` and `2i + 2`.
fn triples() -> String {
    let mut text = String::new();
    let mut add = |s: &str, p: &str, o: &str| {
        let name = "http://yago-knowledge.org/resource/";
        let p = match p {
            "a" => "http://www.w3.org/1999/02/22-rdf-syntax-ns#type".to_owned(),
            p => format!("{name}{p}"),
        };
        writeln!(text, "<{name}{s}> <{p}> <{name}{o}> .").expect("a string takes all");
    };
    let countries = ["Greece", "Switzerland", "France", "Italy"];
    for (i, country) in countries.iter().enumerate() {
        add(country, "a", "wordnet_country_108544813");
        add(country, "participatedIn", &format!("War_{}", i % 2));
        add(&format!("War_{i}"), "a", "wordnet_war_100973077");
        for city in 0..5 {
            let city = format!("City_{i}_{city}");
            add(&city, "isLocatedIn", &format!("Region_{i}"));
            add(&city, "a", "wordnet_city_108524735");
        }
        add(&format!("Region_{i}"), "isLocatedIn", country);
    }
    add("Switzerland", "dealsWith", "France");
    add("Switzerland", "dealsWith", "Italy");
    add("Italy", "a", "wikicat_Member_states_of_NATO");
    add("Henry_Fonda", "actedIn", "Film_0");
    for i in 0..PEOPLE {
        let person = format!("Person_{i}");
        add(&person, "isCitizenOf", countries[i % countries.len()]);
        add(&person, "hasGender", ["male", "female"][i / 4 % 2]);
        for child in [2 * i + 1, 2 * i + 2]
            .into_iter()
            .filter(|child| *child < PEOPLE)
        {
            add(&person, "hasChild", &format!("Person_{child}"));
        }
        add(&person, "actedIn", &format!("Film_{}", i % 30));
        add(&format!("Film_{}", i % 30), "a", "wordnet_movie_106613686");
    }
    text
}

fn database(folder: &std::path::Path) -> Database {
    let source = Source::from_reader(
        "family.nt".to_owned(),
        std::io::Cursor::new(triples().into_bytes()),
        RdfFormat::NTriples,
        Compression::None,
    )
    .expect("N-Triples from memory");
    pythia::load(
        folder,
        vec![source],
        &LoadOptions::default(),
        &Default::default(),
    )
    .expect("the triples load");
    Database::open(folder).expect("the store opens")
}

#[test]
fn the_experiment_runs_in_small() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = database(folder.path());
    let options = Options {
        clients: vec![1, 4],
        step: Duration::from_millis(40),
        cold: Some(Cold::Query),
        seed: 7,
        runs: 5,
        modelled: Some(ModelledOptions {
            devices: vec![Device::Flash, Device::Pcm],
            location: folder.path().to_owned(),
            limits: pythia::Options::default(),
        }),
    };
    let mut heard = Vec::new();
    let report = run(&database, &options, |part| heard.push(part.to_owned())).expect("it runs");

    assert!(
        heard.iter().any(|part| part.contains("4 clients")),
        "{heard:?}"
    );
    assert_eq!(report.series.len(), 2);
    for series in &report.series {
        let clients: Vec<usize> = series.steps.iter().map(|step| step.clients).collect();
        assert_eq!(clients, [1, 4]);
        for step in &series.steps {
            assert!(step.queries >= step.clients as u64);
            assert!(step.latency.p99_us >= step.latency.p50_us);
            for template in &step.templates {
                assert_eq!(template.answered, 1.0, "{}", template.name);
            }
        }
    }
    let (warm, cold) = (&report.series[0].steps[0], &report.series[1].steps[0]);
    assert_eq!(warm.device_pages_per_query, 0.0, "the store fits the cache");
    assert!(cold.device_pages_per_query >= 1.0);
    for template in &report.templates {
        assert!(template.parameter_sets > 0, "{}", template.name);
    }
    let rows: Vec<u64> = report.fixed.iter().map(|fixed| fixed.rows).collect();
    assert_eq!(rows, [PEOPLE as u64 / 8, 1, 1]);
    assert!(report.fixed.iter().all(|fixed| fixed.cold_graph_pages > 0));

    let ancestors = &report.pages[5];
    assert_eq!(
        (ancestors.name, ancestors.queries),
        ("6 ancestors, gender", 32)
    );
    assert!(ancestors.rows_mean >= 1.0 && ancestors.of("spo") >= 1.0);

    let modelled = report.modelled.as_ref().expect("asked for");
    assert!(modelled.pages_mean >= modelled.batches_mean && modelled.batches_mean >= 1.0);
    let rate = |device: Device, clients: usize| {
        let mut steps = modelled.steps.iter();
        let step = steps.find(|step| step.device == device && step.clients == clients);
        step.expect("a step for each").queries_per_second
    };
    // PCM is faster, and clients wait for the device side by side.
    assert!(rate(Device::Pcm, 1) > rate(Device::Flash, 1));
    assert!(rate(Device::Flash, 4) > 1.5 * rate(Device::Flash, 1));

    let text = report.text();
    assert!(text.contains("modelled, not measured"), "{text}");
    assert!(
        text.contains("Beside the paper") && text.contains("4,500"),
        "{text}"
    );
    let html = report.html();
    assert_eq!(html.matches("<svg").count(), 2);
    assert!(html.contains("paper, flash"));
    let json = serde_json::to_value(&report).expect("a report is JSON");
    assert_eq!(json["series"][0]["steps"][1]["clients"], 4);
}

#[test]
fn a_cached_gender_spares_the_tuples_of_ancestors() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    drop(database(folder.path()));
    let genders = pythia::Auxiliary {
        attributes: vec![pythia::CachedAttribute {
            predicate: "http://yago-knowledge.org/resource/hasGender".to_owned(),
            along: Vec::new(),
        }],
        ..pythia::Auxiliary::default()
    };
    pythia::optimize(folder.path(), &genders, Default::default()).expect("it is built");
    let database = Database::open(folder.path()).expect("the store opens");
    let mix = Mix::draw(&database, 3).expect("the data has the relations");
    let pages = pages::count(&database, &mix, 3).expect("the queries run");
    assert_eq!((pages[5].of("spo"), pages[5].of("attribute")), (0.0, 1.0));
}

#[test]
fn data_without_the_relations_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = Source::from_reader(
        "other.nt".to_owned(),
        "<http://a> <http://b> <http://c> .\n".as_bytes(),
        RdfFormat::NTriples,
        Compression::None,
    )
    .expect("N-Triples from memory");
    let path = folder.path();
    pythia::load(
        path,
        vec![source],
        &LoadOptions::default(),
        &Default::default(),
    )
    .expect("loads");
    let database = Database::open(path).expect("the store opens");
    let error = run(&database, &Options::default(), |_| {}).expect_err("there is no YAGO");
    assert!(error.to_string().contains("load YAGO"), "{error:#}");
}

#[test]
fn a_file_of_queries_is_timed_and_failures_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = database(folder.path());
    let child = "http://yago-knowledge.org/resource/hasChild";
    let lines = [
        format!("SELECT (COUNT(*) AS ?n) WHERE {{ ?a <{child}> ?b }}"),
        format!("SELECT * WHERE {{ ?a <{child}> ?b }}"),
        format!("ASK {{ ?a <{child}> ?a }}"),
        "SELECT nonsense".to_owned(),
    ]
    .iter()
    .enumerate()
    .map(|(id, query)| serde_json::json!({"id": id.to_string(), "query": query}).to_string())
    .collect::<Vec<String>>()
    .join("\n");
    let options = queries::Options {
        runs: 3,
        output: Output::Serialized,
        ..queries::Options::default()
    };
    let read = queries::read(&lines).expect("four queries");
    let report = queries::run(&database, &read, &options).expect("it runs");
    let [total, all, ask, wrong] = &report.queries[..] else {
        panic!("four reports");
    };
    let children = PEOPLE as u64 - 1;
    assert_eq!(total.rows, Some(1));
    assert!(
        total
            .value
            .as_ref()
            .is_some_and(|value| value.contains(&children.to_string()))
    );
    assert_eq!((all.rows, all.latency.count), (Some(children), 3));
    assert_eq!(ask.rows, Some(0));
    assert!(wrong.rows.is_none() && wrong.error.is_some());
    assert!(report.text().contains("3 failed"), "{}", report.text());
}
