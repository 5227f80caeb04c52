//! Execution of updates: each operation reads the transaction's state as of the operation's start, and then
//! changes it.
//!
//! ```text
//! DELETE/INSERT   solutions → template → rows ─┐
//! DATA, LOAD      terms ──────→ ids ───→ rows ─┼→ Transaction::{remove, insert}
//! CLEAR, COPY, …  scan of a graph ─────→ rows ─┘
//! ```
//!
//! An operation reads a snapshot, so that changes may be made while it is still reading. Only the insertions
//! of an operation that also deletes wait ([`rows`]) for its last deletion. Nothing is rolled back here: a
//! failed update leaves a transaction that must not be committed.

mod batch;
mod graphs;
pub mod load;
mod modify;
mod permission;
pub mod quads;
mod rows;
mod transaction;

use std::sync::Arc;
use std::time::Instant;

use oxrdf::TermRef;
use pythia_rdf::key::{self, Encoded};
use pythia_rdf::{TermId, TermKey};
use pythia_sparql::Update;
use pythia_sparql::data::Data;
use pythia_sparql::update::{Action, Operation};
use pythia_store::{Isolation, Snapshot};

use crate::engine::{Engine, QueryOptions};
use crate::graph_rules::GraphRules;
use pythia_exec::error::QueryError;
use pythia_exec::expression::Warnings;
use pythia_exec::limits::governor::{Governor, Held};

use batch::QuadBatch;
use load::LoadHandler;
use permission::Permission;
pub use transaction::Transaction;

/// A quad as raw ids: subject, predicate, object, graph.
type Row = [u64; 4];

/// Number of rows passed to the transaction at once.
const BATCH_ROWS: usize = 8192;

/// Limits and permissions of an update.
#[derive(Clone, Debug, Default)]
pub struct UpdateOptions {
    /// Limits as for a query; the time limit covers all operations together.
    pub query: QueryOptions,
    /// Handler of LOAD. Without it, LOAD is an error, even with SILENT.
    pub load: Option<Arc<dyn LoadHandler>>,
    /// Graphs that the update may change; an operation on any other fails with [`QueryError::Forbidden`]. The
    /// graphs that it reads are those visible to its query.
    pub writable: GraphRules,
    /// Isolation level of the transaction that is begun for the update; without effect on a transaction that has
    /// begun already.
    pub isolation: Isolation,
}

/// The changes that an update made in its transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Updated {
    /// Operations done.
    pub operations: u64,
    /// Quads inserted that did not exist.
    pub added: u64,
    /// Quads removed that existed.
    pub removed: u64,
    /// Hints for the author about the evaluated patterns, as [`crate::PreparedQuery::warnings`].
    pub warnings: Vec<String>,
}

impl Engine {
    /// Runs an update in a transaction. After an error a part of it may be done, so the transaction must not
    /// be committed.
    ///
    /// The time limit covers the update as a whole, the memory limit each operation.
    pub fn update(
        &self,
        transaction: &mut Transaction,
        update: &Update,
        options: &UpdateOptions,
    ) -> Result<Updated, QueryError> {
        let mut parsed = Held::new(&self.governor(&options.query));
        parsed.set(update.data_bytes())?;
        let timeout = options.query.timeout;
        let permission = Permission::new(&options.writable);
        for operation in update.operations() {
            permission.check(operation, &mut parsed)?;
        }
        let mut runner = Runner {
            engine: self,
            transaction,
            options,
            permission,
            deadline: timeout.map(|timeout| Instant::now() + timeout),
            request: rand::random(),
            updated: Updated::default(),
            warnings: Warnings::default(),
        };
        for operation in update.operations() {
            runner.run(operation)?;
            runner.updated.operations += 1;
        }
        let warnings = runner.warnings.lines();
        Ok(Updated {
            warnings,
            ..runner.updated
        })
    }
}

/// A running update.
struct Runner<'a> {
    engine: &'a Engine,
    transaction: &'a mut Transaction,
    options: &'a UpdateOptions,
    permission: Permission<'a>,
    deadline: Option<Instant>,
    /// Random number that makes new blank nodes differ from those of all other updates.
    request: u64,
    updated: Updated,
    /// Warnings of its operations.
    warnings: Warnings,
}

impl Runner<'_> {
    fn run(&mut self, operation: &Operation) -> Result<(), QueryError> {
        let governor = self.engine.governor(&self.limits());
        governor.check()?;
        let line = operation.line;
        match &operation.action {
            Action::InsertData(quads) => self.insert_data(quads, &governor),
            Action::DeleteData(quads) => self.delete_data(quads, &governor),
            Action::Modify(modify) => {
                let base_iri = operation.base_iri.as_deref().cloned();
                self.modify(modify, base_iri, &governor)
            }
            Action::Load {
                silent,
                source,
                graph,
            } => self.load(*silent, source, graph, &governor),
            Action::Clear { silent, graph } => self.clear(line, *silent, graph, &governor),
            Action::Create { silent, graph } => self.create(line, *silent, graph),
            Action::Transfer {
                silent,
                verb,
                graphs,
            } => match graphs {
                Some((from, to)) => self.transfer(line, *silent, *verb, (from, to), &governor),
                None => Ok(()),
            },
        }
    }

    /// Returns the limits of the next operation.
    fn limits(&self) -> QueryOptions {
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        QueryOptions {
            timeout: self.deadline.map(left),
            row_limit: None,
            ..self.options.query.clone()
        }
    }

    fn insert(&mut self, rows: &[Row]) -> Result<(), QueryError> {
        let transaction = &self.transaction;
        self.permission
            .check_rows(rows, || transaction.snapshot())?;
        self.updated.added += self.transaction.insert(rows)?;
        Ok(())
    }

    fn remove(&mut self, rows: &[Row]) -> Result<(), QueryError> {
        let transaction = &self.transaction;
        self.permission
            .check_rows(rows, || transaction.snapshot())?;
        self.updated.removed += self.transaction.remove(rows)?;
        Ok(())
    }

    /// Runs INSERT DATA. Its blank nodes are different from those of all other requests.
    fn insert_data(
        &mut self,
        data: &Data<spargebra::term::Quad>,
        governor: &Arc<Governor>,
    ) -> Result<(), QueryError> {
        let scope = format!("u{:016x}_", self.request);
        data.each(&mut Held::new(governor), |quads| {
            for part in quads.chunks(BATCH_ROWS) {
                governor.check()?;
                let mut batch = QuadBatch::new(&scope);
                for quad in part {
                    let subject = TermRef::from(quad.subject.as_ref());
                    let predicate = TermRef::from(quad.predicate.as_ref());
                    let graph = name(&quad.graph_name);
                    batch.push(subject, predicate, quad.object.as_ref(), graph);
                }
                let rows = batch.rows(|keys| quads::ids(self.transaction, keys))?;
                self.insert(&rows)?;
            }
            Ok(())
        })
    }

    fn delete_data(
        &mut self,
        data: &Data<spargebra::term::GroundQuad>,
        governor: &Arc<Governor>,
    ) -> Result<(), QueryError> {
        let snapshot = self.snapshot();
        data.each(&mut Held::new(governor), |quads| {
            for part in quads.chunks(BATCH_ROWS) {
                governor.check()?;
                let mut batch = QuadBatch::new("");
                for quad in part {
                    let object = oxrdf::Term::from(quad.object.clone());
                    let subject = TermRef::from(quad.subject.as_ref());
                    let predicate = TermRef::from(quad.predicate.as_ref());
                    batch.push(subject, predicate, object.as_ref(), name(&quad.graph_name));
                }
                let rows = batch.rows(|keys| Ok(snapshot.resolve_keys(keys)?))?;
                self.remove(&rows)?;
            }
            Ok(())
        })
    }

    /// Returns the id of a term, a new one if the store does not have it.
    fn id_of(&mut self, term: TermRef<'_>) -> Result<TermId, QueryError> {
        let mut bytes = Vec::new();
        match key::encode(term, &mut bytes) {
            Encoded::Inline(id) => Ok(id),
            Encoded::Key(kind) => {
                let bytes = &bytes;
                Ok(self.transaction.ids(&[TermKey { kind, bytes }])?[0])
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.transaction.snapshot()
    }
}

/// Returns the term that names a graph, or `None` for the default graph.
fn name(graph: &spargebra::term::GraphName) -> Option<TermRef<'_>> {
    match graph {
        spargebra::term::GraphName::NamedNode(node) => Some(node.as_ref().into()),
        spargebra::term::GraphName::DefaultGraph => None,
    }
}
