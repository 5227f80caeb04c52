//! Whole loads: the store holds the quads of the files, and a load that fails leaves no store.

use std::collections::BTreeSet;
use std::io::Write;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use oxrdf::{GraphName, Quad, Term};
use proptest::prelude::*;
use pythia_io::{
    DeviceProfile, DirectStorage, FaultPlan, FaultyStorage, MemoryStorage, Origin, Storage,
};
use pythia_rdf::{Compression, ParseError, RdfFormat, Source, TermId};

use super::tests::statement;
use super::{LoadError, LoadOptions, LoadProgress, LoadReport, load};
use crate::pattern::{Component, GraphFilter, Order, QuadPattern};
use crate::store::load_into;
use crate::{OpenOptions, Snapshot, Store, StoreError, device};

const COMPONENTS: [Component; 4] = [
    Component::Subject,
    Component::Predicate,
    Component::Object,
    Component::Graph,
];

pub(crate) fn source(text: &str) -> Source {
    let bytes = std::io::Cursor::new(text.to_owned().into_bytes());
    let name = "input".to_owned();
    Source::from_reader(name, bytes, RdfFormat::NQuads, Compression::None).expect("a source")
}

pub(crate) fn options(memory_bytes: usize, threads: usize) -> LoadOptions {
    LoadOptions {
        memory_bytes,
        threads: NonZero::new(threads),
        ..LoadOptions::default()
    }
}

pub(crate) fn load_texts(
    storage: &Arc<dyn Storage>,
    texts: &[String],
    options: &LoadOptions,
) -> Result<LoadReport, LoadError> {
    let sources = texts.iter().map(|text| source(text)).collect();
    load(
        Arc::clone(storage),
        sources,
        options,
        &Arc::new(LoadProgress::default()),
    )
}

pub(crate) fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new())
}

/// Returns all quads of a store, read in one of its orders.
fn quads_of(storage: &Arc<dyn Storage>, order: Order) -> BTreeSet<String> {
    let store = Store::open_storage(Arc::clone(storage), OpenOptions::default()).expect("a store");
    quads_in(&store.snapshot(), order)
}

/// Returns all quads of a snapshot, read in one of its orders.
pub(crate) fn quads_in(snapshot: &Snapshot, order: Order) -> BTreeSet<String> {
    let pattern = QuadPattern {
        subject: None,
        predicate: None,
        object: None,
        graph: GraphFilter::Any,
    };
    let mut scan = snapshot.scan(&pattern, order, &COMPONENTS).expect("a scan");
    let mut quads = BTreeSet::new();
    while let Some(batch) = scan.next().expect("rows") {
        let columns: Vec<Vec<Option<Term>>> = batch
            .columns
            .iter()
            .map(|column| {
                let bound: Vec<TermId> = column
                    .iter()
                    .filter(|id| **id != 0)
                    .map(|id| TermId(*id))
                    .collect();
                let mut terms = snapshot.decode(&bound).expect("terms").into_iter();
                column
                    .iter()
                    .map(|id| (*id != 0).then(|| terms.next()).flatten())
                    .collect()
            })
            .collect();
        for row in 0..batch.rows {
            let terms: Vec<String> = columns
                .iter()
                .filter_map(|column| column[row].as_ref().map(Term::to_string))
                .collect();
            assert!(quads.insert(terms.join(" ")), "a quad comes twice");
        }
    }
    quads
}

/// Returns the quads of texts, by another parser.
pub(crate) fn expected_quads(texts: &[String]) -> BTreeSet<String> {
    let parser = oxrdfio::RdfParser::from_format(RdfFormat::NQuads);
    let text = texts.concat();
    let quads = parser.for_slice(text.as_bytes());
    quads
        .map(|quad| {
            let Quad {
                subject,
                predicate,
                object,
                graph_name,
            } = quad.expect("a statement");
            match graph_name {
                GraphName::DefaultGraph => format!("{subject} {predicate} {object}"),
                graph => format!("{subject} {predicate} {object} {graph}"),
            }
        })
        .collect()
}

fn all_files(storage: &Arc<dyn Storage>) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for folder in ["", "segment-000001"] {
        for name in storage.list(folder).expect("a folder") {
            let path = if folder.is_empty() {
                name
            } else {
                format!("{folder}/{name}")
            };
            if let Ok(bytes) = storage.read_all(&path) {
                files.push((path, bytes));
            }
        }
    }
    files
}

fn check(texts: &[String], memory_bytes: usize, threads: usize) {
    let storage = memory();
    let report = load_texts(&storage, texts, &options(memory_bytes, threads)).expect("loaded");
    let expected = expected_quads(texts);
    assert_eq!(report.quads, expected.len() as u64);
    for order in [Order::Spo, Order::Ops, Order::Pso, Order::Pos] {
        assert!(quads_of(&storage, order) == expected, "{order:?} differs");
    }
}

#[test]
fn what_is_loaded_comes_back() {
    let statements: Vec<String> = (0..9000).map(statement).collect();
    let texts = [statements[..6000].concat(), statements[3000..].concat()];
    check(&texts, 1 << 30, 2);
    check(&texts, 1 << 16, 2);
}

#[test]
fn no_quads_make_an_empty_store() {
    check(&[String::new()], 1 << 20, 2);
    check(&["# only a comment\n".to_owned()], 1 << 20, 1);
}

#[test]
fn segments_are_equal_byte_by_byte_for_any_budget_and_threads() {
    let statements: Vec<String> = (0..30_000).map(statement).collect();
    let texts = [statements.concat()];
    let mut reversed = statements.clone();
    reversed.reverse();
    let reversed: Vec<String> = reversed.chunks(4000).map(|part| part.concat()).collect();
    let first = memory();
    load_texts(&first, &texts, &options(1 << 30, 1)).expect("loaded");
    let expected = all_files(&first);
    assert!(
        expected
            .iter()
            .any(|(name, bytes)| name.ends_with("spo.pages") && bytes.len() > 100_000)
    );
    for (texts, memory_bytes, threads) in [
        (&texts[..], 1 << 30, 2),
        (&texts[..], 1 << 18, 2),
        (&reversed[..], 1 << 18, 1),
        (&reversed[..], 1 << 15, 2),
        (&reversed[..], 1 << 30, 3),
    ] {
        let storage = memory();
        let report = load_texts(&storage, texts, &options(memory_bytes, threads)).expect("loaded");
        assert_eq!(memory_bytes < 1 << 30, report.tmp_bytes_written > 0);
        assert_eq!(memory_bytes < 1 << 30, report.rows_spilled);
        for ((name, bytes), (expected_name, expected_bytes)) in
            all_files(&storage).iter().zip(&expected)
        {
            assert_eq!(name, expected_name);
            assert!(
                bytes == expected_bytes,
                "{name} differs with {memory_bytes} bytes, {threads} threads"
            );
        }
    }
}

fn term() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..9_u8).prop_map(|n| format!("<http://example.org/{n}>")),
        (0..5_u8).prop_map(|n| format!("_:b{n}")),
    ]
}

fn object() -> impl Strategy<Value = String> {
    prop_oneof![
        term(),
        "[ -~]{0,8}"
            .prop_map(|text| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))),
        (0..20_i32).prop_map(|n| format!("\"{n}\"^^<http://www.w3.org/2001/XMLSchema#integer>")),
        (0..20_i32).prop_map(|n| format!("\"0{n}\"^^<http://www.w3.org/2001/XMLSchema#decimal>")),
        (
            "[a-c]{0,3}",
            prop_oneof![Just("en"), Just("en--ltr"), Just("ja")]
        )
            .prop_map(|(text, language)| format!("\"{text}\"@{language}")),
        (term(), term()).prop_map(|(s, o)| format!("<<( {s} <http://example.org/p> {o} )>>")),
    ]
}

fn graph() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        (0..4_u8).prop_map(|n| format!("<http://example.org/g{n}>"))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_quads_come_back(
        quads in prop::collection::vec((term(), 0..4_u8, object(), graph()), 0..300),
        named in any::<bool>(),
        memory_bytes in prop_oneof![Just(1_usize << 12), Just(1 << 30)],
        threads in 1..3_usize,
    ) {
        let lines: Vec<String> = quads
            .iter()
            .map(|(s, p, o, g)| format!("{s} <http://example.org/p{p}> {o} {} .\n", if named { g } else { "" }))
            .collect();
        let texts: Vec<String> = lines.chunks(40).map(|part| part.concat()).collect();
        check(&texts, memory_bytes, threads);
    }
}

#[test]
fn files_of_all_kinds_load_and_keep_their_blank_nodes_apart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(
        path("a.ttl"),
        "@prefix : <http://example.org/> . _:x :p 1, 01 ; :q [ :r _:x ] .",
    )
    .expect("written");
    std::fs::write(
        path("b.trig"),
        "@prefix : <http://example.org/> . :g { _:x :p true } _:x :p 1 .",
    )
    .expect("written");
    let file = std::fs::File::create(path("c.nt.gz")).expect("created");
    let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    gzip.write_all(
        b"_:x <http://example.org/p> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n",
    )
    .expect("written");
    gzip.finish().expect("written");
    let sources = ["a.ttl", "b.trig", "c.nt.gz"]
        .iter()
        .enumerate()
        .map(|(scope, name)| {
            let source = Source::from_path(&path(name), None, None).expect("a source");
            source.with_blank_node_scope(Some(scope as u64))
        });
    let store = path("store");
    let progress = Arc::new(LoadProgress::default());
    let report =
        load_into(&store, sources.collect(), &options(1 << 26, 2), &progress).expect("loaded");
    // a: 4, b: 2, c: 1
    assert_eq!((report.quads_read, report.quads), (7, 7));
    assert_eq!(progress.phase(), None);
    let opened = Store::open(&store, OpenOptions::default()).expect("a store");
    assert_eq!(opened.snapshot().statistics().quads, 7);
    // A second load adds the quads that the store lacks, and blank nodes of its own.
    drop(opened);
    let text = "_:x <http://example.org/p> <http://example.org/q> .\n\
                <http://example.org/q> <http://example.org/p> <http://example.org/q> .\n";
    for (quads, known_quads) in [(2, 0), (1, 1)] {
        let sources = vec![source(text)];
        let report = load_into(&store, sources, &options(1 << 26, 2), &progress).expect("loaded");
        assert_eq!((report.quads, report.known_quads), (quads, known_quads));
    }
    let opened = Store::open(&store, OpenOptions::default()).expect("a store");
    assert_eq!(opened.snapshot().statistics().quads, 10);
}

fn assert_no_store(folder: &Path) {
    let error = Store::open(folder, OpenOptions::default())
        .err()
        .expect("no store");
    assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
    // The load has removed a folder that it made itself.
    let left = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| name == "LOCK"), "{left:?}");
}

#[test]
fn a_syntax_error_names_its_place_and_loads_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut lines: Vec<String> = (0..20_000).map(statement).collect();
    lines[12_345] = "<http://example.org/s> <http://example.org/p> oops .\n".to_owned();
    let progress = Arc::new(LoadProgress::default());
    let error = load_into(
        folder.path(),
        vec![source(&lines.concat())],
        &options(1 << 16, 2),
        &progress,
    );
    let Err(LoadError::Parse(ParseError::Syntax(problem))) = error else {
        panic!("a syntax error, not {error:?}");
    };
    assert_eq!((&*problem.source, problem.line), ("input", 12_346));
    assert_no_store(folder.path());
    // The same place can be loaded into afterwards; leniently, everything except that line.
    let lenient = LoadOptions {
        lenient: true,
        ..options(1 << 16, 2)
    };
    let report = load_into(
        folder.path(),
        vec![source(&lines.concat())],
        &lenient,
        &progress,
    )
    .expect("loaded");
    assert_eq!((report.skipped, report.quads_read), (1, 19_999));
    assert_eq!(report.first_skipped[0].line, 12_346);
}

#[test]
fn a_full_disk_is_named_and_leaves_no_store() {
    let texts = [(0..20_000).map(statement).collect::<String>()];
    let whole = memory();
    load_texts(&whole, &texts, &options(1 << 30, 2)).expect("loaded");
    let bytes: usize = all_files(&whole).iter().map(|(_, bytes)| bytes.len()).sum();
    for part in [0, 1, 3, 5, 7] {
        let inner = memory();
        let plan = FaultPlan::disk_of((bytes * part / 8) as u64);
        let full: Arc<dyn Storage> = Arc::new(FaultyStorage::new(Arc::clone(&inner), plan));
        let error = load_texts(&full, &texts, &options(1 << 30, 2)).expect_err("a full disk");
        assert!(error.to_string().contains("no space left"), "{error}");
        assert!(matches!(
            Store::open_storage(inner, OpenOptions::default()),
            Err(StoreError::NotAStore { .. })
        ));
    }
}

#[test]
fn a_crash_at_any_point_leaves_no_store_or_a_whole_one() {
    let texts = [(0..3000).map(statement).collect::<String>()];
    let counted = FaultyStorage::new(memory(), FaultPlan::none());
    let counted = Arc::new(counted);
    load_texts(
        &(counted.clone() as Arc<dyn Storage>),
        &texts,
        &options(1 << 30, 1),
    )
    .expect("loaded");
    let expected = expected_quads(&texts);
    for number in 1..=counted.operations() {
        let inner = memory();
        let faulty = Arc::new(FaultyStorage::new(
            Arc::clone(&inner),
            FaultPlan::crash_at(number, number),
        ));
        let outcome = load_texts(&(faulty as Arc<dyn Storage>), &texts, &options(1 << 30, 1));
        match Store::open_storage(Arc::clone(&inner), OpenOptions::default()) {
            Ok(_) => assert!(
                quads_of(&inner, Order::Spo) == expected,
                "crash at {number}"
            ),
            Err(error) => {
                assert!(outcome.is_err(), "crash at {number}");
                assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
                // The next load succeeds.
                load_texts(&inner, &texts, &options(1 << 30, 1)).expect("loaded");
                assert!(
                    quads_of(&inner, Order::Ops) == expected,
                    "after a crash at {number}"
                );
            }
        }
    }
}

#[test]
fn terms_longer_than_any_buffer_come_back() {
    let long = |letter: &str, bytes: usize| letter.repeat(bytes);
    let lines = [
        format!(
            "<http://example.org/s> <http://example.org/p> \"{}\" .\n",
            long("a", 6 << 20)
        ),
        format!(
            "<http://example.org/s> <http://example.org/p> \"{}b\" .\n",
            long("a", 6 << 20)
        ),
        format!(
            "<http://example.org/{}> <http://example.org/p> \"x\"@en .\n",
            long("i", 300_000)
        ),
        format!(
            "<http://example.org/{}> <http://example.org/p> \"\" .\n",
            long("i", 299_999)
        ),
    ];
    check(&lines, 1 << 20, 2);
    check(&[lines.concat()], 1 << 30, 1);
}

#[test]
fn a_missing_temporary_folder_is_named_and_leaves_no_store() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text: String = (0..20_000).map(statement).collect();
    let options = LoadOptions {
        tmp: folder.path().join("missing"),
        ..options(1 << 16, 2)
    };
    let store = folder.path().join("store");
    let progress = Arc::new(LoadProgress::default());
    let error = load_into(&store, vec![source(&text)], &options, &progress).expect_err("no folder");
    assert!(
        matches!(
            error,
            LoadError::Temporary {
                action: "create",
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("missing"), "{error}");
    assert_no_store(&store);
    assert!(!store.exists(), "the folder that the load has made is left");
}

/// A stream that breaks, or whose reader panics.
struct Broken {
    text: std::io::Cursor<Vec<u8>>,
    panics: bool,
}

impl std::io::Read for Broken {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.text.read(buffer)? {
            0 if self.panics => panic!("a bug"),
            0 => Err(std::io::Error::other("the cable was pulled")),
            bytes => Ok(bytes),
        }
    }
}

#[test]
fn broken_streams_and_panics_are_errors_and_leave_no_store() {
    for panics in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let text: String = (0..20_000).map(statement).collect();
        let reader = Broken {
            text: std::io::Cursor::new(text.into_bytes()),
            panics,
        };
        let source = Source::from_reader(
            "stream".to_owned(),
            reader,
            RdfFormat::NQuads,
            Compression::None,
        );
        let progress = Arc::new(LoadProgress::default());
        let error = load_into(
            folder.path(),
            vec![source.expect("a source")],
            &options(1 << 16, 2),
            &progress,
        );
        let error = error.expect_err("broken");
        assert_eq!(matches!(error, LoadError::Panic { .. }), panics, "{error}");
        assert!(
            panics || error.to_string().contains("the cable was pulled"),
            "{error}"
        );
        assert_no_store(folder.path());
    }
}

#[test]
fn a_folder_that_was_probed_before_decides_the_page_size() {
    let load_in = |folder: &Path| {
        let progress = Arc::new(LoadProgress::default());
        let text = source("<http://a> <http://b> <http://c> .\n");
        load_into(folder, vec![text], &options(1 << 26, 1), &progress).expect("loaded");
        let store = Store::open(folder, OpenOptions::default()).expect("a store");
        let pages = crate::report::StoreReport::new(&store).orders[0].file;
        (pages.page_bytes, store.device().origin)
    };
    for (moved, expected) in [
        (false, (8192, Origin::Full)),
        // Measurements of another device do not apply to this one.
        (true, (4096, Origin::Assumed)),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = DirectStorage::open(folder.path(), false).expect("a folder");
        let mut identity = storage.identity();
        if let (true, Some(identity)) = (moved, &mut identity) {
            identity.file_system_id ^= 1;
        }
        let mut device = DeviceProfile {
            origin: Origin::Full,
            identity,
            ..DeviceProfile::default()
        };
        let mut larger = device.random[0];
        larger.bytes = 8192;
        device.random.push(larger);
        device::write(&storage, &device).expect("written");
        assert_eq!(load_in(folder.path()), expected);
    }
}
