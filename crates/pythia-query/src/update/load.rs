//! LOAD: parses the document that an IRI names, and inserts its quads.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oxrdf::{NamedNode, TermRef};
use percent_encoding::percent_decode_str;
use pythia_rdf::error::{ParseError, SinkError, TermError};
use pythia_rdf::format::detect;
use pythia_rdf::parse::{ParseOptions, Progress, QuadSink, parse_sources};
use pythia_rdf::{RdfFormat, Source, TermId, TermKey};
use spargebra::term::GraphName;
use ureq::Agent;

use super::batch::{QuadBatch, Slot};
use super::quads::ids;
use super::rows::Rows;
use super::{Runner, Transaction, name};
use pythia_exec::error::QueryError;
use pythia_exec::limits::governor::Governor;
use pythia_exec::service::{told, within};

/// Decides what LOAD may read, and opens it. An embedding program may supply its own handler.
pub trait LoadHandler: Send + Sync {
    /// Opens the document that the IRI names. The calling update gives up at `deadline`.
    fn open(&self, iri: &NamedNode, deadline: Option<Instant>) -> Result<Source, SourceError>;
}

impl fmt::Debug for dyn LoadHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoadHandler")
    }
}

/// A readable reason why an IRI cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// Loads files of a folder by `file:` IRIs, and documents by `http:` and `https:` IRIs if allowed.
#[derive(Debug, Default)]
pub struct Loader {
    folder: Option<PathBuf>,
    /// HTTP client, and the maximum bytes of one source.
    agent: Option<(Agent, u64)>,
}

impl Loader {
    /// Creates a loader that allows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows files in this folder and its subfolders. Symbolic links that lead outside are not followed.
    #[must_use]
    pub fn with_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Allows documents on HTTP servers. Anyone who may run updates can then make this program send requests
    /// to any server that it reaches.
    #[must_use]
    pub fn with_http(self) -> Self {
        let config = Agent::config_builder()
            .timeout_connect(Some(Duration::from_secs(10)))
            .user_agent(concat!("pythia/", env!("CARGO_PKG_VERSION")))
            .build();
        self.with_agent(config.into(), u64::MAX)
    }

    /// Allows documents through the given HTTP client, which may refuse addresses. `bytes_max` is the maximum
    /// size of a source.
    #[must_use]
    pub fn with_agent(mut self, agent: Agent, bytes_max: u64) -> Self {
        self.agent = Some((agent, bytes_max));
        self
    }

    /// Returns the `file:` IRI of a folder, as the base of its files' IRIs.
    pub fn iri_of_folder(folder: &Path) -> String {
        let mut iri = "file://".to_owned();
        for byte in folder.as_os_str().as_encoded_bytes() {
            match byte {
                b'/' | b'-' | b'_' | b'.' | b'~' => iri.push(char::from(*byte)),
                byte if byte.is_ascii_alphanumeric() => iri.push(char::from(*byte)),
                byte => iri.push_str(&format!("%{byte:02X}")),
            }
        }
        iri.push('/');
        iri
    }

    fn file(&self, path: &Path) -> Result<Source, SourceError> {
        let Some(folder) = &self.folder else {
            return Err(SourceError(
                "files may not be loaded; allow a folder with --load-folder".to_owned(),
            ));
        };
        let failed = |path: &Path, error| SourceError(format!("{}: {error}", path.display()));
        let real = folder.canonicalize().map_err(|e| failed(folder, e))?;
        let outside = || SourceError(format!("only files in {} may be loaded", real.display()));
        let is_below = |path: &Path| {
            let climbs = path.components().any(|part| part == Component::ParentDir);
            !climbs && (path.starts_with(&real) || path.starts_with(folder))
        };
        let path = match path.canonicalize() {
            Ok(path) => path,
            // The error does not reveal whether a file outside exists.
            Err(error) if is_below(path) => return Err(failed(path, error)),
            Err(_) => return Err(outside()),
        };
        if !path.starts_with(&real) {
            return Err(outside());
        }
        Source::from_path(&path, None, None).map_err(|error| SourceError(error.to_string()))
    }

    fn http(&self, iri: &NamedNode, deadline: Option<Instant>) -> Result<Source, SourceError> {
        const ACCEPT: &str = "application/n-quads, application/n-triples, application/trig;q=0.9, \
                              text/turtle;q=0.9, application/rdf+xml;q=0.7, application/ld+json;q=0.5";
        let Some((agent, bytes_max)) = &self.agent else {
            return Err(SourceError(
                "loading over HTTP is disabled; allow it with --load-http".to_owned(),
            ));
        };
        let request = within(agent.get(iri.as_str()), deadline);
        let response = request
            .header("Accept", ACCEPT)
            .call()
            .map_err(|error| SourceError(told(&error)))?;
        if !response.status().is_success() {
            return Err(SourceError(format!(
                "refused with status {}",
                response.status()
            )));
        }
        let path = iri.as_str().split(['?', '#']).next().unwrap_or_default();
        let (by_name, compression) = detect(Path::new(path));
        let media_type = response.headers().get("content-type");
        let media_type = media_type.and_then(|value| value.to_str().ok());
        let by_type = media_type.and_then(RdfFormat::from_media_type);
        let Some(format) = by_type.or(by_name) else {
            let media_type = media_type.unwrap_or("no type");
            return Err(SourceError(format!(
                "the server answered with {media_type}, which is not an RDF format"
            )));
        };
        let body = response.into_body().into_with_config();
        let reader = body.limit(*bytes_max).reader();
        let source = Source::from_reader(iri.as_str().to_owned(), reader, format, compression);
        source.map_err(|error| SourceError(error.to_string()))
    }
}

impl LoadHandler for Loader {
    fn open(&self, iri: &NamedNode, deadline: Option<Instant>) -> Result<Source, SourceError> {
        let (scheme, rest) = iri.as_str().split_once(':').unwrap_or_default();
        match scheme.to_ascii_lowercase().as_str() {
            "file" => self.file(&path_of(rest)?),
            "http" | "https" => self.http(iri, deadline),
            scheme => Err(SourceError(format!(
                "{scheme}: IRIs cannot be loaded, only file:, http: and https:"
            ))),
        }
    }
}

/// Returns the path of a `file:` IRI, given without its scheme.
fn path_of(rest: &str) -> Result<PathBuf, SourceError> {
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(rest) => {
            let slash = rest.find('/').unwrap_or(rest.len());
            let (host, path) = rest.split_at(slash);
            if !host.is_empty() && host != "localhost" {
                return Err(SourceError(format!("files of {host} cannot be loaded")));
            }
            path
        }
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let invalid = || SourceError("the path is not percent-encoded UTF-8".to_owned());
    let path = percent_decode_str(path).decode_utf8();
    Ok(PathBuf::from(path.map_err(|_| invalid())?.as_ref()))
}

impl Runner<'_> {
    pub(super) fn load(
        &mut self,
        silent: bool,
        iri: &NamedNode,
        graph: &GraphName,
        governor: &Arc<Governor>,
    ) -> Result<(), QueryError> {
        let Some(handler) = self.options.load.clone() else {
            return Err(QueryError::unsupported_hint(
                "LOAD without an allowed source",
                "allow it with --load-folder, --load-http or [outbound] on a server (UpdateOptions::load in a program)",
            ));
        };
        match self.parsed(&*handler, iri, graph, governor) {
            // Quads read before the failure are dropped.
            Err(QueryError::Load { .. }) if silent => Ok(()),
            Err(error) => Err(error),
            Ok(rows) => rows.drain(|rows| self.insert(rows)),
        }
    }

    /// Parses a source into quads.
    fn parsed(
        &mut self,
        handler: &dyn LoadHandler,
        iri: &NamedNode,
        graph: &GraphName,
        governor: &Arc<Governor>,
    ) -> Result<Rows, QueryError> {
        let failed = |message: String| QueryError::Load {
            iri: iri.as_str().to_owned(),
            message,
        };
        let source = handler
            .open(iri, self.deadline)
            .map_err(|error| failed(error.to_string()))?;
        let graph = match name(graph) {
            Some(TermRef::NamedNode(node)) => Some(node.into_owned()),
            _ => None,
        };
        let base = source
            .base
            .clone()
            .unwrap_or_else(|| iri.as_str().to_owned());
        let source = source
            .with_base(Some(base))
            .with_graph(graph)
            .with_blank_node_scope(Some(rand::random()));
        let mut sinks = [Sink {
            transaction: &mut *self.transaction,
            governor,
            batch: QuadBatch::new(""),
            rows: Rows::new(governor),
        }];
        let options = ParseOptions::default().with_threads(1);
        let parsed = parse_sources(vec![source], &options, &mut sinks, &Progress::default());
        let [sink] = sinks;
        match parsed {
            Ok(_) => Ok(sink.rows),
            Err(ParseError::Sink(error)) => Err(match error.downcast::<QueryError>() {
                Ok(error) => error,
                Err(error) => failed(error.to_string()),
            }),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

/// Receives parsed quads, and maps their terms to ids of the transaction.
struct Sink<'a> {
    transaction: &'a mut Transaction,
    governor: &'a Governor,
    batch: QuadBatch,
    rows: Rows,
}

impl QuadSink for Sink<'_> {
    type Term = Slot;

    fn key(
        &mut self,
        key: TermKey<'_>,
        validate: impl FnOnce() -> Result<(), TermError>,
    ) -> Result<Slot, TermError> {
        validate()?;
        Ok(self.batch.key(key))
    }

    fn inline(&mut self, id: TermId) -> Slot {
        Slot::Id(id)
    }

    fn default_graph(&mut self) -> Slot {
        Slot::Id(TermId::DEFAULT_GRAPH)
    }

    fn quad(
        &mut self,
        subject: Slot,
        predicate: Slot,
        object: Slot,
        graph: Slot,
    ) -> Result<(), SinkError> {
        self.batch.quad([subject, predicate, object, graph]);
        Ok(())
    }

    fn end_batch(&mut self) -> Result<(), SinkError> {
        self.take_batch().map_err(SinkError::new)
    }
}

impl Sink<'_> {
    fn take_batch(&mut self) -> Result<(), QueryError> {
        self.governor.check()?;
        let Self {
            transaction,
            batch,
            rows,
            ..
        } = self;
        let found = batch.rows(|keys| ids(transaction, keys))?;
        found.iter().try_for_each(|row| rows.push(row))
    }
}
