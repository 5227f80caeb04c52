//! The change feed: commits in order, from the log and its archive.
//!
//! A commit is written as an RDF patch: header lines with its position and time, `TX`, a line for each quad
//! added (`A`) or removed (`D`), `TC` (docs/backup.md).

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use oxrdf::{GraphName, NamedOrBlankNode, Quad, Term};
use pythia_io::{DirectStorage, Storage};
use pythia_log::{ChangeSet, Commit, LogReader, LogTerm, NO_GRAPH, Position};
use pythia_rdf::inline::inline_to_literal;
use pythia_rdf::language::recommend_form;
use pythia_store::folders::{log_archive, log_devices};
use pythia_store::manifest::Manifest;
use pythia_store::open_folder;
use pythia_store::{StoreError, StoreLock};

use crate::moment::format_time;

/// The log of a store, which can be read while the store is being written to.
#[derive(Debug)]
pub struct Feed {
    reader: LogReader,
    _lock: Option<StoreLock>,
}

/// The error of reading or writing commits.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// The log could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The output failed.
    #[error("write changes: {0}")]
    Io(#[from] io::Error),
}

impl Feed {
    /// Opens the log of the store in a folder, with its archive in another folder. Without `archive`, uses
    /// the archive known to the store, if it is available.
    ///
    /// # Errors
    /// [`StoreError::NoLog`] if the store was never opened for writing.
    pub fn open(path: &Path, archive: Option<&Path>) -> Result<Self, StoreError> {
        let storage = Arc::new(open_folder(path)?);
        let lock = StoreLock::shared(&storage)?;
        let storage: Arc<dyn Storage> = storage;
        let archive = archive
            .map(|path| DirectStorage::open(path, false))
            .transpose()?;
        let archive = archive.map(|storage| Arc::new(storage) as Arc<dyn Storage>);
        let mut feed = Self::of_storage(&storage, archive)?;
        feed._lock = lock;
        Ok(feed)
    }

    /// Opens the log of the store in a storage of any kind, without locking.
    pub fn of_storage(
        storage: &Arc<dyn Storage>,
        archive: Option<Arc<dyn Storage>>,
    ) -> Result<Self, StoreError> {
        let manifest = Manifest::read(&**storage)?;
        let log = manifest
            .and_then(|manifest| manifest.log)
            .ok_or(StoreError::NoLog)?;
        let devices = log_devices(storage, &log)?;
        // Most readers want commits that are in the log, so a missing archive is not an error.
        let archive = archive.or_else(|| log_archive(storage, &log).ok().flatten());
        Ok(Self {
            reader: LogReader::open(devices, archive, log.store),
            _lock: None,
        })
    }

    /// Returns the first commit that the log still contains, or the next commit's position if there is none.
    pub fn first(&self) -> Result<Position, StoreError> {
        Ok(self.reader.first()?)
    }

    /// Returns the durable commits from a position on. They are never taken back.
    pub fn commits_from(
        &self,
        position: Position,
    ) -> Result<impl Iterator<Item = Result<Commit, StoreError>> + use<>, StoreError> {
        let end = self.reader.durable_end(position)?;
        // Callers that wait for new commits poll often.
        let commits = (end > position).then(|| self.reader.commits_from(position));
        let commits = commits.transpose()?.into_iter().flatten();
        let durable = move |commit: &Result<Commit, StoreError>| {
            commit.as_ref().map_or(true, |commit| commit.position < end)
        };
        Ok(commits.map(|commit| Ok(commit?)).take_while(durable))
    }
}

/// Writes a commit as an RDF patch.
pub fn write_patch(commit: &Commit, out: &mut impl Write) -> Result<(), FeedError> {
    let xsd = "http://www.w3.org/2001/XMLSchema#";
    let (position, time) = (commit.position, format_time(commit.time));
    writeln!(out, "H position \"{position}\"^^<{xsd}integer> .")?;
    writeln!(out, "H time \"{time}\"^^<{xsd}dateTime> .")?;
    if let Some(key) = &commit.key {
        writeln!(out, "H key {} .", oxrdf::Literal::from(key.as_str()))?;
    }
    writeln!(out, "TX .")?;
    for changes in commit.changes() {
        write_changes(&changes.map_err(StoreError::from)?, out)?;
    }
    writeln!(out, "TC .")?;
    Ok(())
}

/// Returns the changes of a commit in order, as terms: whether the quad was added, and the quad.
pub fn changed_quads(
    commit: &Commit,
) -> impl Iterator<Item = Result<(bool, Quad), StoreError>> + '_ {
    let sets = commit
        .changes()
        .map(|changes| changes.map_err(StoreError::from));
    sets.flat_map(|changes| match changes {
        Ok(changes) => {
            let quads = changes.changes().iter();
            quads
                .map(|change| Ok((change.added, quad(&changes, change.quad)?)))
                .collect()
        }
        Err(error) => vec![Err(error)],
    })
}

fn quad(changes: &ChangeSet, [s, p, o, g]: [u32; 4]) -> Result<Quad, StoreError> {
    let wrong =
        || StoreError::corrupt("log", None, "a term in a place where RDF has no such terms");
    let node = |index: u32| match term(changes.term(index))? {
        Term::NamedNode(node) => Ok(NamedOrBlankNode::from(node)),
        Term::BlankNode(node) => Ok(node.into()),
        _ => Err(wrong()),
    };
    let NamedOrBlankNode::NamedNode(predicate) = node(p)? else {
        return Err(wrong());
    };
    let graph = match g {
        NO_GRAPH => GraphName::DefaultGraph,
        g => match node(g)? {
            NamedOrBlankNode::NamedNode(node) => node.into(),
            NamedOrBlankNode::BlankNode(node) => node.into(),
        },
    };
    Ok(Quad::new(
        node(s)?,
        predicate,
        term(changes.term(o))?,
        graph,
    ))
}

fn write_changes(changes: &ChangeSet, out: &mut impl Write) -> Result<(), FeedError> {
    for change in changes.changes() {
        out.write_all(if change.added { b"A" } else { b"D" })?;
        for index in change.quad {
            if index != NO_GRAPH {
                write!(out, " {}", term(changes.term(index))?)?;
            }
        }
        out.write_all(b" .\n")?;
    }
    Ok(())
}

fn term(term: LogTerm<'_>) -> Result<Term, StoreError> {
    let decoded = match term {
        LogTerm::Inline(id) => inline_to_literal(id).map(Term::from),
        LogTerm::Key(key) => pythia_rdf::key::decode(key).ok().map(|mut term| {
            recommend_form(&mut term);
            term
        }),
    };
    decoded.ok_or_else(|| StoreError::corrupt("log", None, "a term that is not RDF"))
}
