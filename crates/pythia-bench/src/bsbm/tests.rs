//! Draws from generated data, and the templates compared with the official driver's queries.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pythia::{Compression, RdfFormat, Source};
use pythia_generate::{Part, bsbm};

use super::*;
use crate::contest::{Contest, Kind};
use crate::queries;
use crate::system::{Endpoint, System};

const EXPLORE_EACH: Options = Options {
    use_case: UseCase::Explore,
    selection: Selection::Each(4),
    seed: 1,
    redraws: 20,
};

fn store(folder: &Path, products: u64) -> Database {
    let path = folder.join("store");
    let config = bsbm::Config::new(products).expect("valid");
    let reader = Box::new(bsbm::reader(&config, Part::WHOLE));
    let format = RdfFormat::NTriples;
    let source = Source::from_reader("bsbm".to_owned(), reader, format, Compression::None);
    let sources = vec![source.expect("plain text")];
    pythia::load(&path, sources, &Default::default(), &Default::default()).expect("loaded");
    Database::open(&path).expect("opened")
}

fn empty(database: &Database, queries: &[NamedQuery]) -> Vec<String> {
    let finds = |query: &&NamedQuery| !finds(database, &query.query).expect(&query.id);
    queries
        .iter()
        .filter(finds)
        .map(|query| query.id.clone())
        .collect()
}

#[test]
fn queries_drawn_from_a_store_find_something_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = store(folder.path(), 300);
    for use_case in [UseCase::Explore, UseCase::BusinessIntelligence] {
        let drawn = draw(
            &database,
            &Options {
                use_case,
                ..EXPLORE_EACH
            },
        )
        .expect("drawn");
        assert_eq!(drawn.queries.len(), 4 * use_case.templates().len());
        let told: usize = drawn.templates.iter().map(|one| one.empty).sum();
        let empty = empty(&database, &drawn.queries);
        assert_eq!(empty.len(), told, "{}", drawn.text());
        // Few products share three features with another in so small a tree.
        assert!(
            empty.len() * 5 <= drawn.queries.len(),
            "{empty:?}\n{}",
            drawn.text()
        );
        let read = queries::read(&drawn.lines().expect("lines")).expect("a file of queries");
        assert_eq!(read, drawn.queries);
    }
}

#[test]
fn the_same_seed_draws_the_same_queries_and_another_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = store(folder.path(), 100);
    let mixes = Options {
        selection: Selection::Mixes(2),
        redraws: 0,
        ..EXPLORE_EACH
    };
    let first = draw(&database, &mixes).expect("drawn").queries;
    assert_eq!(first.len(), 50);
    assert_eq!(
        (first[1].id.as_str(), first[49].id.as_str()),
        ("Q2-0.1", "Q12-1.24")
    );
    assert_eq!(draw(&database, &mixes).expect("drawn again").queries, first);
    let other = draw(&database, &Options { seed: 2, ..mixes })
        .expect("drawn")
        .queries;
    assert!(
        first
            .iter()
            .zip(&other)
            .filter(|(one, two)| one == two)
            .count()
            < 5
    );
}

#[test]
fn a_store_without_products_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let text: &[u8] = b"<http://e/a> <http://e/b> <http://e/c> .\n";
    let format = RdfFormat::NTriples;
    let source = Source::from_reader("text".to_owned(), Box::new(text), format, Compression::None);
    let path = folder.path().join("store");
    let sources = vec![source.expect("plain text")];
    pythia::load(&path, sources, &Default::default(), &Default::default()).expect("loaded");
    let database = Database::open(&path).expect("opened");
    let error = draw(&database, &EXPLORE_EACH).expect_err("no products");
    assert!(
        error.to_string().contains("pythia generate bsbm"),
        "{error}"
    );
}

#[test]
fn months_lie_between_the_first_review_and_the_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = store(folder.path(), 100);
    let mut data = Data::new(&database, 1).expect("BSBM");
    let first = data.month(0.0, 0).expect("a date");
    let last = data.month(0.999_999, 2).expect("a date");
    let (earliest, latest) = bsbm::Parameters::REVIEW_DATES;
    assert!(
        *earliest <= *first && first < last && *last <= *latest,
        "{first} {last}"
    );
}

#[test]
fn levels_of_a_tree_are_never_none() {
    use Levels::*;
    for depth in 1..6 {
        for levels in [Root, AboveLeaves, BelowRoot, LowestTwo, Leaves] {
            let range = levels.of(depth);
            assert!(
                !range.is_empty() && range.end <= depth,
                "{levels:?} of {depth}: {range:?}"
            );
        }
    }
    assert_eq!(
        (AboveLeaves.of(4), BelowRoot.of(4), LowestTwo.of(4)),
        (0..3, 1..4, 2..4)
    );
}

/// Returns the values, by name, that turn a template into a query; `None` if there are none.
fn values<'q>(template: &str, query: &'q str) -> Option<FxHashMap<String, &'q str>> {
    let mut parts = template.split('%');
    let mut rest = query.strip_prefix(parts.next()?)?;
    let mut values = FxHashMap::default();
    while let (Some(name), Some(text)) = (parts.next(), parts.next()) {
        let end = if text.is_empty() {
            rest.len()
        } else {
            rest.find(text)?
        };
        let (value, after) = (&rest[..end], &rest[end + text.len()..]);
        if *values.entry(name.to_owned()).or_insert(value) != value {
            return None;
        }
        rest = after;
    }
    rest.is_empty().then_some(values)
}

#[test]
fn templates_are_the_official_drivers_queries() {
    let folder = std::env::var_os("PYTHIA_SHARED_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let words = |text: &str| {
        text.split_whitespace()
            .filter(|w| *w != "#")
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (file, use_case) in [
        ("bsbm-1m-explore.jsonl", UseCase::Explore),
        ("bsbm-1m-explore-mix.jsonl", UseCase::Explore),
        ("bsbm-1m-bi.jsonl", UseCase::BusinessIntelligence),
    ] {
        let path = folder.join("queries").join(file);
        let Ok(text) = std::fs::read_to_string(&path) else {
            let message = format!(
                "\nSKIPPED: no {}; set PYTHIA_SHARED_DATA\n\n",
                path.display()
            );
            std::io::stderr()
                .write_all(message.as_bytes())
                .expect("standard error");
            return;
        };
        let official = queries::read(&text).expect("queries");
        for query in &official {
            let template = use_case
                .templates()
                .iter()
                .find(|one| one.name == query.template);
            let template = template.expect(&query.template);
            let text = words(&query.query);
            let found = values(&words(template.text()), &text);
            let found = found.unwrap_or_else(|| panic!("{} is not by its template", query.id));
            let mut names: Vec<_> = found.keys().map(String::as_str).collect();
            let mut known: Vec<_> = template.parameters.iter().map(|(name, _)| *name).collect();
            names.sort_unstable();
            known.sort_unstable();
            assert_eq!(names, known, "{}", query.id);
        }
        if file.contains("mix") {
            let list = use_case.list(Selection::Mixes(official.len() / 25));
            assert!(
                list.iter()
                    .zip(&official)
                    .all(|((id, _), query)| *id == query.id)
            );
        }
    }
}

#[test]
fn product_types_drill_down_from_mix_to_mix() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = store(folder.path(), 300);
    let options = mixes::MixOptions {
        use_case: UseCase::BusinessIntelligence,
        count: 8,
        updates: false,
        drill_down: true,
        seed: 1,
        redraws: 0,
    };
    let drawn = mixes::draw(&database, &options).expect("drawn");
    let data = Data::new(&database, 1).expect("BSBM");
    let leaf = data.levels().len() - 1;
    assert!(leaf > 1, "several levels");
    let levels: Vec<Option<usize>> = drawn.iter().map(|mix| mix[3].level).collect();
    let expected: Vec<Option<usize>> = (0..8).map(|mix| Some(mix % leaf + 1)).collect();
    assert_eq!(drawn[0][3].template, "BI4");
    assert_eq!(levels, expected);
    // BI7 is about the root, and BI1 about no type.
    assert!(
        drawn
            .iter()
            .all(|mix| mix[6].level.is_none() && mix[0].level.is_none())
    );
    let type_of = |mix: usize| {
        let types = data.levels().iter().flatten();
        let mut found = types.filter(|one| drawn[mix][3].text.contains(one.as_str()));
        found.next().expect("a type").clone()
    };
    assert!(data.subtypes(&type_of(0)).contains(&type_of(1).as_str()));
}

const TIMEOUT: Duration = Duration::from_secs(60);

fn run_options(use_case: UseCase) -> RunOptions {
    RunOptions {
        use_case,
        updates: false,
        clients: vec![1, 2],
        mixes: 2,
        warm_up: 1,
        rounds: 2,
        drill_down: true,
        seed: 1,
        redraws: 5,
        budget: None,
        timeout: TIMEOUT,
    }
}

/// Each U1 adds a product under new names and each U2 removes another offer; nothing is left of them.
#[test]
fn updates_of_a_mix_change_the_store_and_are_taken_back() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(store(folder.path(), 100));
    let options = pythia::Options {
        write: Some(pythia::WriteOptions::default()),
        ..pythia::Options::default()
    };
    let open = || Database::open_with(folder.path().join("store"), options.clone());
    let database = open().expect("opened");
    let dump = || {
        let mut text = Vec::new();
        let snapshot = database.snapshot();
        pythia::dump(&snapshot, database.cores(), RdfFormat::NQuads, &mut text).expect("memory");
        let text = String::from_utf8(text).expect("N-Quads");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let before = dump();
    let systems = [System::in_process("pythia", &database, TIMEOUT)];
    let mut options = run_options(UseCase::Explore);
    options.updates = true;
    let report = run(&database, &systems, &options, |_| {}).expect("a report");
    assert!(dump() == before, "some changes are not taken back");
    assert!(report.left_out.is_empty(), "{}", report.text());
    let found = |template: &str| &report.found[template];
    assert_eq!((found("U1").queries, found("U1").empty), (2, 0));
    assert_eq!((found("U2").queries, found("U2").empty), (8, 0));
    // A product has about 20 offers and 10 reviews.
    assert!(found("U1").rows > 2 * 100, "{}", report.text());
    assert!(found("U2").rows > 8 * 5, "{}", report.text());
    for test in &report.tests {
        let templates = test.systems[0].templates.iter();
        let names: Vec<&str> = templates.map(|one| one.template.as_str()).collect();
        assert_eq!(names[..3], ["U1", "U2", "Q1"]);
        assert_eq!(test.systems[0].templates[1].latency.count, 2 * 2 * 4);
    }
    let text = report.text();
    assert!(
        text.contains("Explore and Update") && !text.contains("Beside LOD2"),
        "{text}"
    );
    // Two clients would repeat one of three mixes.
    options.mixes = 3;
    let error = run(&database, &systems, &options, |_| {}).expect_err("three mixes");
    assert!(error.to_string().contains("a multiple"), "{error}");
    options.mixes = 2;
    drop(systems);

    // A store that is not open for writing refuses them.
    drop(database);
    let database = Database::open(folder.path().join("store")).expect("opened");
    let systems = [System::in_process("pythia", &database, TIMEOUT)];
    let error = run(&database, &systems, &options, |_| {}).expect_err("read only");
    assert!(error.to_string().starts_with("U1: "), "{error}");
}

/// The report prints the figures of LOD2 D2.1.4 beside ours, for the numbers of clients that both have.
#[test]
fn a_report_has_the_printed_figures_beside_ours() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = store(folder.path(), 100);
    let systems = [System::in_process("pythia", &database, TIMEOUT)];
    for (use_case, figure) in [
        (UseCase::Explore, "80.8 %"),
        // 4,832,691 queries/h over a scale factor of 500, 25 a mix.
        (UseCase::Explore, "387"),
        (UseCase::BusinessIntelligence, "34.4 %"),
    ] {
        let options = RunOptions {
            rounds: 1,
            ..run_options(use_case)
        };
        let report = run(&database, &systems, &options, |_| {}).expect("a report");
        let text = report.text();
        assert!(text.contains("Beside LOD2 D2.1.4, 1 client"), "{text}");
        assert!(!text.contains("Beside LOD2 D2.1.4, 2"), "{text}");
        assert!(text.contains(figure), "{text}");
    }
}

/// A system that refuses updates is measured without them; one that loses the way back ends the run.
#[test]
fn systems_that_refuse_updates_are_left_out_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let reader = store(folder.path(), 100);
    let copy = folder.path().join("copy");
    crate::faults::copy_folder(&folder.path().join("store"), &copy).expect("copied");
    let writing = pythia::Options {
        write: Some(pythia::WriteOptions::default()),
        ..pythia::Options::default()
    };
    let database = Database::open_with(&copy, writing).expect("opened");
    let systems = [
        System::in_process("pythia", &database, TIMEOUT),
        System::in_process("reader", &reader, TIMEOUT),
    ];
    let mut options = run_options(UseCase::Explore);
    options.updates = true;
    let report = run(&database, &systems, &options, |_| {}).expect("a report");
    let reasons = &report.left_out.reasons()[1];
    let refused: Vec<&str> = reasons.keys().map(String::as_str).collect();
    assert_eq!(refused, ["U1", "U2"], "{}", report.text());

    let quads = || database.snapshot().statistics().quads;
    let before = quads();
    let mut source = QuerySource::new(&database, 1).expect("BSBM");
    let changes = changes::Changes::default().of_mix(&mut source);
    let mut insertion = changes.expect("drawn").remove(0);
    let mut client = systems[0].client();
    insertion.time(&mut client).expect("inserted");
    assert!(quads() > before + 100);
    insertion.take_back(&mut client).expect("taken back");
    assert_eq!(quads(), before);
    let Kind::Update(change) = &mut insertion.kind else {
        panic!("U1 is an update");
    };
    change.undo = "DELETE NOTHING".to_owned();
    let parts = [vec![insertion]];
    let error = Contest::check(&systems[0], &systems[..1], &parts).err();
    let error = error.expect("it cannot be taken back").to_string();
    assert!(error.contains("pythia still has the change"), "{error}");
    assert!(quads() > before + 100);
}

#[test]
fn a_run_has_the_times_of_all_templates_and_names_who_does_not_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = store(folder.path(), 100);
    let timeout = TIMEOUT;
    let refused = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = refused.local_addr().expect("an address");
    drop(refused);
    let nobody = Endpoint::parse(&format!("http://{address}/")).expect("a URL");
    let systems = [
        System::in_process("pythia", &database, timeout),
        System::in_process("again", &database, timeout),
        System::endpoint("nobody", nobody, timeout),
    ];
    let options = run_options;
    for use_case in [UseCase::Explore, UseCase::BusinessIntelligence] {
        let templates = use_case.templates().len();
        let report = run(&database, &systems[..2], &options(use_case), |_| {}).expect("a report");
        assert!(report.text().contains("mixes/h"), "{}", report.text());
        for test in &report.tests {
            for system in &test.systems {
                assert_eq!(system.templates.len(), templates);
                let shares: f64 = system.templates.iter().map(|one| one.time_share).sum();
                assert!((shares - 1.0).abs() < 1e-6);
                assert!(system.power > 0.0 && system.throughput > 0.0);
                let runs: u64 = system.templates.iter().map(|one| one.latency.count).sum();
                assert_eq!(runs as usize, use_case.mix().len() * 2 * 2);
                assert_eq!(
                    system.levels.is_empty(),
                    use_case == UseCase::Explore,
                    "{}",
                    report.text()
                );
            }
        }
    }
    let report = run(&database, &systems, &options(UseCase::Explore), |_| {}).expect("a report");
    assert!(report.html().contains("Left out"), "{}", report.text());
    let test = &report.tests[0];
    assert_eq!(
        (
            test.systems[0].templates.len(),
            test.systems[2].templates.len()
        ),
        (11, 0)
    );
    assert!(serde_json::to_string(&report).is_ok());
}
