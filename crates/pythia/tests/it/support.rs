//! Loading text into stores, and answers in a form that can be compared.

use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

use oxigraph::io::{RdfFormat as OxFormat, RdfParser};
use oxigraph::sparql::{QueryResults, SparqlEvaluator};
use pythia::{Compression, Database, LoadOptions, Options, RdfFormat, Results, Source};
use pythia_io::{MemoryStorage, Storage};

/// A database in memory holding the N-Quads.
pub(crate) fn database(nquads: &str) -> Database {
    database_with(nquads, Options::default())
}

/// The same with limits.
pub(crate) fn database_with(nquads: &str, options: Options) -> Database {
    Database::open_storage(Arc::new(stored(nquads)), options).unwrap()
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
}

/// A term in N-Triples syntax; blank nodes, which each engine labels as it likes, all alike.
fn text(term: &oxrdf::Term) -> String {
    match term {
        oxrdf::Term::BlankNode(_) => "_:b".to_owned(),
        term => term.to_string(),
    }
}

/// Our answer.
pub(crate) fn ours(database: &Database, query: &str) -> Result<Answer, pythia::QueryError> {
    answer_of(database.query(query)?)
}

/// Our results as an answer.
pub(crate) fn answer_of(results: Results) -> Result<Answer, pythia::QueryError> {
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

/// Oxigraph's answer.
pub(crate) fn theirs(store: &oxigraph::store::Store, query: &str) -> Result<Answer, String> {
    let results = SparqlEvaluator::new()
        .parse_query(query)
        .map_err(|e| e.to_string())?
        .on_store(store)
        .execute()
        .map_err(|e| e.to_string())?;
    Ok(match results {
        QueryResults::Boolean(value) => Answer {
            variables: Vec::new(),
            lines: vec![value.to_string()],
        },
        QueryResults::Graph(triples) => {
            let mut lines = triples
                .map(|t| t.map(|t| triple_text(&t)).map_err(|e| e.to_string()))
                .collect::<Result<Vec<_>, _>>()?;
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
            }
            Answer {
                variables: names.iter().map(|v| v.as_str().to_owned()).collect(),
                lines,
            }
        }
    })
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
