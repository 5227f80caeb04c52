//! Loading text into stores, and answers in a form that can be compared.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use oxigraph::io::{RdfFormat as OxFormat, RdfParser};
use oxigraph::sparql::{CancellationToken, QueryResults, SparqlEvaluator};
use oxrdf::Dataset;
use oxrdf::dataset::CanonicalizationAlgorithm;
use pythia::{
    Compression, Database, LoadOptions, Options, PlanNode, PreparedQuery, QueryError, QueryOptions,
    RdfFormat, Results, Source, WriteOptions,
};
use pythia_io::{MemoryStorage, Storage};
use pythia_store::write::MaintenanceOptions;
use sparesults::{QueryResultsFormat, QueryResultsSerializer};

use crate::exact_casts;

/// A database in memory holding the N-Quads.
pub(crate) fn database(nquads: &str) -> Database {
    database_with(nquads, Options::default())
}

/// The same with limits.
pub(crate) fn database_with(nquads: &str, options: Options) -> Database {
    Database::open_storage(Arc::new(stored(nquads)), options).unwrap()
}

/// A database in memory holding the N-Quads, to be changed.
pub(crate) fn writable(nquads: &str) -> Database {
    let options = Options {
        write: Some(WriteOptions::default()),
        ..Options::default()
    };
    database_with(nquads, options)
}

/// The same with a store whose recent changes are moved to the device and into a new base all the
/// time.
pub(crate) fn restless(nquads: &str) -> Database {
    let maintenance = MaintenanceOptions {
        memory_bytes: 24 << 10,
        compaction_percent: 30,
        compaction_quads_min: 32,
        ..MaintenanceOptions::default()
    };
    let options = Options {
        write: Some(WriteOptions {
            maintenance,
            ..WriteOptions::default()
        }),
        ..Options::default()
    };
    database_with(nquads, options)
}

/// All that a database holds.
pub(crate) fn quads_of(database: &Database) -> Dataset {
    let mut nquads = Vec::new();
    pythia::dump(
        &database.snapshot(),
        database.cores(),
        RdfFormat::NQuads,
        &mut nquads,
    )
    .unwrap();
    let quads = RdfParser::from_format(OxFormat::NQuads).for_slice(&nquads);
    quads.map(Result::unwrap).collect()
}

/// All that a database holds, with canonical blank nodes.
pub(crate) fn contents(database: &Database) -> Dataset {
    let mut dataset = quads_of(database);
    dataset.canonicalize(CanonicalizationAlgorithm::Unstable);
    dataset
}

/// N-Quads as a dataset with canonical blank nodes.
pub(crate) fn dataset(nquads: &str) -> Dataset {
    let quads = RdfParser::from_format(OxFormat::NQuads).for_slice(nquads);
    let mut dataset: Dataset = quads.map(Result::unwrap).collect();
    dataset.canonicalize(CanonicalizationAlgorithm::Unstable);
    dataset
}

/// The quads as sorted lines, with all blank nodes alike.
pub(crate) fn collapsed(dataset: &Dataset) -> Vec<String> {
    let line = |quad: oxrdf::QuadRef<'_>| {
        let subject = text(&quad.subject.into_owned().into());
        let object = text(&quad.object.into_owned());
        format!("{subject} {} {object} {}", quad.predicate, quad.graph_name)
    };
    let mut lines: Vec<String> = dataset.iter().map(line).collect();
    lines.sort_unstable();
    lines
}

/// A store in memory holding the N-Quads.
pub(crate) fn stored(nquads: &str) -> MemoryStorage {
    let memory = MemoryStorage::new();
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let source = Source::from_reader(
        "test".to_owned(),
        Cursor::new(nquads.to_owned().into_bytes()),
        RdfFormat::NQuads,
        Compression::None,
    )
    .unwrap();
    let load = LoadOptions {
        memory_bytes: 128 << 20,
        ..LoadOptions::default()
    };
    pythia_store::load::load(storage, vec![source], &load, &Arc::default()).unwrap();
    memory
}

/// The same data in Oxigraph.
pub(crate) fn oxigraph(nquads: &str) -> oxigraph::store::Store {
    let store = oxigraph::store::Store::new().unwrap();
    store
        .load_from_reader(RdfParser::from_format(OxFormat::NQuads), nquads.as_bytes())
        .unwrap();
    store
}

/// An answer as lines: one a solution or triple, terms in N-Triples syntax.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) variables: Vec<String>,
    pub(crate) lines: Vec<String>,
}

impl Answer {
    /// Sorted, for answers whose order says nothing.
    pub(crate) fn sorted(mut self) -> Self {
        self.lines.sort();
        self
    }

    /// With its columns in this order; `None` if they are others. `SELECT *` has no particular one.
    pub(crate) fn with_columns(self, variables: &[String]) -> Option<Self> {
        if self.variables == variables {
            return Some(self);
        }
        let place = |wanted: &String| self.variables.iter().position(|ours| ours == wanted);
        let order = variables.iter().map(place).collect::<Option<Vec<_>>>()?;
        if order.len() != self.variables.len() {
            return None;
        }
        let reordered = |line: &String| {
            let cells: Vec<&str> = line.split('\t').collect();
            let cells: Vec<&str> = order.iter().map(|&column| cells[column]).collect();
            cells.join("\t")
        };
        Some(Self {
            lines: self.lines.iter().map(reordered).collect(),
            variables: variables.to_vec(),
        })
    }
}

/// A term in N-Triples syntax; blank nodes, which each engine labels as it likes, all alike.
fn text(term: &oxrdf::Term) -> String {
    match term {
        oxrdf::Term::BlankNode(_) => "_:b".to_owned(),
        oxrdf::Term::Triple(triple) => format!("<<( {} )>>", triple_text(triple)),
        term => term.to_string(),
    }
}

/// Our answer.
pub(crate) fn ours(database: &Database, query: &str) -> Result<Answer, QueryError> {
    ours_with(database, query, &QueryOptions::default())
}

/// Our answer within limits.
pub(crate) fn ours_with(
    database: &Database,
    query: &str,
    options: &QueryOptions,
) -> Result<Answer, QueryError> {
    answer_of(database.prepare(query, options)?.execute()?)
}

/// The same query with its plan written to bytes and read again.
pub(crate) fn reread(
    database: &Database,
    prepared: &PreparedQuery,
    options: &QueryOptions,
) -> PreparedQuery {
    let bytes = prepared.write().expect("a plan that can be written");
    let read = database.prepare_written(prepared.snapshot(), &bytes, options);
    let read = read.expect("a plan that can be read");
    assert_eq!(read.explain(), prepared.explain());
    read
}

/// Our answer, its lines sorted, and the plan with what each part took.
pub(crate) fn analyze(database: &Database, query: &str) -> (Vec<String>, PlanNode) {
    analyze_with(database, query, false)
}

/// Does the same. The plan has the plans of `EXISTS`, too.
pub(crate) fn analyze_inside(database: &Database, query: &str) -> (Vec<String>, PlanNode) {
    analyze_with(database, query, true)
}

fn analyze_with(database: &Database, query: &str, explain: bool) -> (Vec<String>, PlanNode) {
    let options = QueryOptions {
        profile: true,
        explain,
        ..QueryOptions::default()
    };
    let prepared = database.prepare(query, &options).unwrap();
    let answer = answer_of(prepared.execute().unwrap()).unwrap();
    (answer.sorted().lines, prepared.plan())
}

/// Our results as an answer.
pub(crate) fn answer_of(results: Results) -> Result<Answer, QueryError> {
    Ok(match results {
        Results::Boolean(value) => Answer {
            variables: Vec::new(),
            lines: vec![value.to_string()],
        },
        Results::Graph(mut triples) => {
            let mut lines = Vec::new();
            while let Some(triple) = triples.next_triple()? {
                lines.push(triple_text(&triple));
            }
            lines.sort();
            lines.dedup();
            Answer {
                variables: Vec::new(),
                lines,
            }
        }
        Results::Solutions(mut solutions) => {
            let variables = solutions
                .variables()
                .iter()
                .map(|v| v.as_str().to_owned())
                .collect();
            let mut lines = Vec::new();
            while let Some(batch) = solutions.next_batch()? {
                for row in 0..batch.len() {
                    lines.push(line(batch.row(row).map(|(_, term)| term.map(text))));
                }
            }
            Answer { variables, lines }
        }
    })
}

/// Oxigraph with some data.
pub(crate) struct Peer {
    store: oxigraph::store::Store,
    /// Whether it gives up on queries that take long or give much.
    is_hasty: bool,
    /// Whether a query came to numbers that its own cannot hold.
    is_beyond: Arc<AtomicBool>,
}

impl Peer {
    /// A hasty peer gives no more lines.
    const LINES_MAX: usize = 50_000;

    pub(crate) fn new(nquads: &str) -> Self {
        Self {
            store: oxigraph(nquads),
            is_hasty: false,
            is_beyond: Arc::default(),
        }
    }

    /// For random queries: it gives up on those that take long or give much.
    pub(crate) fn hasty(nquads: &str) -> Self {
        Self {
            is_hasty: true,
            ..Self::new(nquads)
        }
    }

    fn results(&self, query: &str) -> Result<QueryResults<'_>, String> {
        let token = CancellationToken::new();
        if self.is_hasty {
            watch(token.clone());
        }
        self.is_beyond.store(false, Ordering::Relaxed);
        exact_casts::with_casts(SparqlEvaluator::new(), &self.is_beyond)
            .with_cancellation_token(token)
            .parse_query(&exact_casts::rewritten(query))
            .map_err(|e| e.to_string())?
            .on_store(&self.store)
            .execute()
            .map_err(|e| e.to_string())
    }

    /// Runs an update.
    pub(crate) fn update(&self, update: &str) -> Result<(), String> {
        let token = CancellationToken::new();
        if self.is_hasty {
            watch(token.clone());
        }
        SparqlEvaluator::new()
            .with_cancellation_token(token)
            .parse_update(update)
            .map_err(|e| e.to_string())?
            .on_store(&self.store)
            .execute()
            .map_err(|e| e.to_string())
    }

    /// All it holds.
    pub(crate) fn quads(&self) -> Dataset {
        self.store.iter().map(Result::unwrap).collect()
    }

    /// Oxigraph's answer.
    pub(crate) fn answer(&self, query: &str) -> Result<Answer, String> {
        let answer = self.answer_of(self.results(query)?)?;
        if self.is_beyond.load(Ordering::Relaxed) {
            return Err("numbers that it cannot hold".to_owned());
        }
        Ok(answer)
    }

    fn answer_of(&self, results: QueryResults<'_>) -> Result<Answer, String> {
        Ok(match results {
            QueryResults::Boolean(value) => Answer {
                variables: Vec::new(),
                lines: vec![value.to_string()],
            },
            QueryResults::Graph(triples) => {
                let mut lines = Vec::new();
                for triple in triples {
                    lines.push(triple_text(&triple.map_err(|e| e.to_string())?));
                    if self.is_hasty && lines.len() > Self::LINES_MAX {
                        return Err("too many triples".to_owned());
                    }
                }
                lines.sort();
                lines.dedup();
                Answer {
                    variables: Vec::new(),
                    lines,
                }
            }
            QueryResults::Solutions(solutions) => {
                let names = solutions.variables().to_vec();
                let mut lines = Vec::new();
                for solution in solutions {
                    let solution = solution.map_err(|e| e.to_string())?;
                    lines.push(line(names.iter().map(|v| solution.get(v).map(text))));
                    if self.is_hasty && lines.len() > Self::LINES_MAX {
                        return Err("too many solutions".to_owned());
                    }
                }
                Answer {
                    variables: names.iter().map(|v| v.as_str().to_owned()).collect(),
                    lines,
                }
            }
        })
    }

    /// Its answer as a section of a `.sparqltest` file: the section's name and text.
    pub(crate) fn section(&self, query: &str) -> (&'static str, String) {
        let results = match self.results(query) {
            Ok(results) => results,
            Err(error) => return ("error", error),
        };
        match results {
            QueryResults::Boolean(value) => ("boolean", format!("{value}\n")),
            QueryResults::Graph(triples) => {
                let triples = triples.map(|triple| format!("{} .\n", triple.expect("a triple")));
                ("graph", triples.collect())
            }
            QueryResults::Solutions(solutions) => {
                let serializer = QueryResultsSerializer::from_format(QueryResultsFormat::Tsv)
                    .serialize_solutions_to_writer(Vec::new(), solutions.variables().to_vec());
                let mut serializer = serializer.expect("in memory");
                for solution in solutions {
                    let solution = solution.expect("a solution");
                    serializer.serialize(&solution).expect("in memory");
                }
                let bytes = serializer.finish().expect("in memory");
                ("rows", String::from_utf8(bytes).expect("text"))
            }
        }
    }
}

/// Cancels queries that run for long.
fn watch(token: CancellationToken) {
    const SECONDS: u64 = 10;
    static WATCHED: Mutex<VecDeque<(Instant, CancellationToken)>> = Mutex::new(VecDeque::new());
    static WATCHER: Once = Once::new();
    WATCHER.call_once(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let mut watched = WATCHED.lock().expect("no panic");
                while watched
                    .front()
                    .is_some_and(|(start, _)| start.elapsed().as_secs() > SECONDS)
                {
                    let (_, token) = watched.pop_front().expect("there is one");
                    token.cancel();
                }
            }
        });
    });
    let mut watched = WATCHED.lock().expect("no panic");
    watched.push_back((Instant::now(), token));
}

fn triple_text(triple: &oxrdf::Triple) -> String {
    let subject = text(&triple.subject.clone().into());
    format!("{subject} {} {}", triple.predicate, text(&triple.object))
}

fn line(terms: impl Iterator<Item = Option<String>>) -> String {
    terms
        .map(|term| term.unwrap_or_else(|| "-".to_owned()))
        .collect::<Vec<_>>()
        .join("\t")
}

/// The folder of shared real data, if this machine has it; says loudly if not.
pub(crate) fn shared_data() -> Option<PathBuf> {
    let folder = std::env::var_os("PYTHIA_SHARED_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!(
        "SKIPPED: no shared data at {}; set PYTHIA_SHARED_DATA",
        folder.display()
    );
    None
}

/// Reads a compressed text.
pub(crate) fn read_zst(path: &Path) -> String {
    let mut text = String::new();
    zstd::stream::read::Decoder::new(File::open(path).unwrap())
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}
