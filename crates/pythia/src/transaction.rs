//! Transactions: queries and changes on a private view, committed together.

use std::ops::Deref;

use oxrdf::{GraphNameRef, QuadRef, TermRef};
use pythia_query::update::{self, quads};
use pythia_query::{PreparedQuery, QueryError, QueryOptions, Results, UpdateOptions, Updated};
use pythia_rdf::TermId;
use pythia_sparql::{Query, Update};
use pythia_store::write::Committed;
use pythia_store::{GraphFilter, Isolation, QuadPattern, Snapshot};

use crate::Database;

/// A transaction. It reads the snapshot from its beginning together with its own changes. Others see the
/// changes when it is committed, all together. Dropping it discards them.
///
/// Two transactions that change the same quad conflict: the second one's [`Transaction::commit`] fails with
/// an error that [`QueryError::is_retryable`]. Quads that a transaction only reads are not checked for
/// conflicts, unless it is [serializable](Database::transaction_with).
///
/// ```
/// # use pythia::{Database, Options, QueryError, Results};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let text = "<http://ex.org/a> <http://ex.org/balance> 10 .";
/// # let source = pythia::Source::from_reader("a".to_owned(), text.as_bytes(),
/// #     pythia::RdfFormat::Turtle, pythia::Compression::None)?;
/// # pythia::load(folder.path(), vec![source], &Default::default(), &Default::default())?;
/// let database = Database::open_for_writing(folder.path())?;
/// loop {
///     let mut transaction = database.transaction()?;
///     let Results::Boolean(enough) =
///         transaction.query("ASK { <http://ex.org/a> <http://ex.org/balance> ?b FILTER(?b >= 3) }")?
///     else { unreachable!() };
///     if enough {
///         transaction.update(
///             "DELETE { ?a <http://ex.org/balance> ?old } INSERT { ?a <http://ex.org/balance> ?new }
///              WHERE { BIND(<http://ex.org/a> AS ?a) ?a <http://ex.org/balance> ?old
///                      BIND(?old - 3 AS ?new) }",
///         )?;
///     }
///     match transaction.commit() {
///         Err(error) if error.is_retryable() => continue,
///         committed => assert_eq!(committed?.added, 1),
///     }
///     break;
/// }
/// # let Results::Boolean(seven) =
/// #     database.query("ASK { <http://ex.org/a> <http://ex.org/balance> 7 }")? else { unreachable!() };
/// # assert!(seven);
/// # Ok(())
/// # }
/// ```
///
/// `D` leads to the database: a reference, or an `Arc` for a transaction that outlives the place where it was begun.
pub struct Transaction<D: Deref<Target = Database>> {
    database: D,
    inner: update::Transaction,
    /// True if an update has failed halfway.
    failed: bool,
}

impl Database {
    /// Begins a transaction. Any number of them may be open at once.
    ///
    /// # Errors
    /// If the database was not opened for writing ([`Options::write`](crate::Options::write)).
    pub fn transaction(&self) -> Result<Transaction<&Self>, QueryError> {
        self.transaction_with(Isolation::default())
    }

    /// Begins a transaction like [`Self::transaction`], with this isolation level. The commit of a serializable
    /// transaction also fails, with an error that [`QueryError::is_retryable`], if another commit has changed what
    /// its queries and updates have read so far, be it by what they found or by what they did not find:
    ///
    /// ```
    /// # use pythia::{Database, Isolation, Results};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let text = "<http://ex.org/ann> <http://ex.org/is> <http://ex.org/ill> .";
    /// # let source = pythia::Source::from_reader("a".to_owned(), text.as_bytes(),
    /// #     pythia::RdfFormat::Turtle, pythia::Compression::None)?;
    /// # pythia::load(folder.path(), vec![source], &Default::default(), &Default::default())?;
    /// let database = Database::open_for_writing(folder.path())?;
    /// let mut transaction = database.transaction_with(Isolation::Serializable)?;
    /// transaction.update(
    ///     "PREFIX ex: <http://ex.org/>
    ///      INSERT { ex:eve ex:is ex:on-call }
    ///      WHERE { FILTER NOT EXISTS { ?someone ex:is ex:on-call } }",
    /// )?;
    /// database.update("PREFIX ex: <http://ex.org/> INSERT DATA { ex:bob ex:is ex:on-call }")?;
    /// let error = transaction.commit().unwrap_err();
    /// assert!(error.is_retryable());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::transaction`].
    pub fn transaction_with(&self, isolation: Isolation) -> Result<Transaction<&Self>, QueryError> {
        Transaction::begin(self, isolation)
    }
}

impl<D: Deref<Target = Database>> Transaction<D> {
    /// Begins a transaction like [`Database::transaction_with`].
    ///
    /// # Errors
    /// As [`Database::transaction`].
    pub fn begin(database: D, isolation: Isolation) -> Result<Self, QueryError> {
        let inner = database.engine().begin(database.store(), isolation)?;
        Ok(Self {
            database,
            inner,
            failed: false,
        })
    }

    /// Runs a query on the transaction's current view.
    pub fn query(&self, text: &str) -> Result<Results, QueryError> {
        let options = QueryOptions::default();
        let query = self.database.parse_query(text, None, &options)?;
        self.prepare_parsed(&query, &options)?.execute()
    }

    /// Plans a parsed query on the transaction's current view. Its timeout starts now.
    pub fn prepare_parsed(
        &self,
        query: &Query,
        options: &QueryOptions,
    ) -> Result<PreparedQuery, QueryError> {
        let engine = self.database.engine();
        engine.prepare(&self.snapshot()?, query, options)
    }

    /// Runs an update.
    ///
    /// # Errors
    /// After an error, a part of the update may be done: the transaction accepts no further operations and
    /// cannot be committed. A text that is not an update is rejected before anything is done.
    pub fn update(&mut self, text: &str) -> Result<Updated, QueryError> {
        let options = UpdateOptions::default();
        let update = self.database.parse_update(text, None, &options.query)?;
        self.update_parsed(&update, &options)
    }

    /// Runs a parsed update like [`Self::update`]. Its timeout starts now.
    pub fn update_parsed(
        &mut self,
        update: &Update,
        options: &UpdateOptions,
    ) -> Result<Updated, QueryError> {
        self.change(|database, inner| database.engine().update(inner, update, options))
    }

    /// Inserts a quad, and returns whether it is new. Blank nodes denote the store's nodes with these labels.
    pub fn insert<'q>(&mut self, quad: impl Into<QuadRef<'q>>) -> Result<bool, QueryError> {
        Ok(self.insert_all([quad])? > 0)
    }

    /// Inserts quads, and returns how many are new. Fast for a few thousand at a time.
    pub fn insert_all<'q, Q: Into<QuadRef<'q>>>(
        &mut self,
        quads: impl IntoIterator<Item = Q>,
    ) -> Result<u64, QueryError> {
        let quads = quads.into_iter().map(Into::into);
        self.change(|_, inner| quads::insert(inner, quads))
    }

    /// Removes a quad, and returns whether it existed.
    pub fn remove<'q>(&mut self, quad: impl Into<QuadRef<'q>>) -> Result<bool, QueryError> {
        Ok(self.remove_all([quad])? > 0)
    }

    /// Removes quads, and returns how many existed.
    pub fn remove_all<'q, Q: Into<QuadRef<'q>>>(
        &mut self,
        quads: impl IntoIterator<Item = Q>,
    ) -> Result<u64, QueryError> {
        let quads = quads.into_iter().map(Into::into);
        self.change(|_, inner| quads::remove(inner, quads))
    }

    /// Returns whether the transaction's view contains a quad.
    pub fn contains<'q>(&self, quad: impl Into<QuadRef<'q>>) -> Result<bool, QueryError> {
        let quad = quad.into();
        let snapshot = self.snapshot()?;
        let id = |term: TermRef<'_>| snapshot.resolve(term);
        let graph = match quad.graph_name {
            GraphNameRef::DefaultGraph => Some(TermId::DEFAULT_GRAPH),
            GraphNameRef::NamedNode(node) => id(node.into())?,
            GraphNameRef::BlankNode(node) => id(node.into())?,
        };
        let (subject, predicate) = (id(quad.subject.into())?, id(quad.predicate.into())?);
        let (Some(graph), Some(_), Some(_), object @ Some(_)) =
            (graph, subject, predicate, id(quad.object)?)
        else {
            return Ok(false);
        };
        let pattern = QuadPattern {
            subject,
            predicate,
            object,
            graph: GraphFilter::One(graph),
        };
        Ok(snapshot.count(&pattern)? > 0)
    }

    /// Makes the commit fail with a retryable error if another transaction has changed this graph (`None`: any graph)
    /// since this one began. So what it has read there still holds when it is committed. A commit of no changes
    /// always succeeds.
    pub fn watch(&mut self, graph: Option<GraphNameRef<'_>>) {
        self.inner.watch(graph);
    }

    /// Returns the transaction's current view, for access below SPARQL.
    pub fn snapshot(&self) -> Result<Snapshot, QueryError> {
        self.check()?;
        Ok(self.inner.snapshot())
    }

    /// Makes the changes durable and visible to all. Nobody else sees any of them before that.
    ///
    /// # Errors
    /// An error that [`QueryError::is_retryable`] if another transaction was committed first that changed the same
    /// quads, or what this one has read if it is serializable: then repeat everything in a new transaction.
    pub fn commit(self) -> Result<Committed, QueryError> {
        self.commit_with_key(None)
    }

    /// Commits like [`Self::commit`], but at most once per key: if a commit with this key exists, nothing is
    /// changed, and its position is returned. So a program that does not know whether its commit succeeded
    /// can simply repeat it.
    pub fn commit_with_key(self, key: Option<&str>) -> Result<Committed, QueryError> {
        self.check()?;
        self.inner.commit(key)
    }

    /// Discards the changes, like dropping the transaction.
    pub fn rollback(self) {}

    fn check(&self) -> Result<(), QueryError> {
        match self.failed {
            false => Ok(()),
            true => Err(QueryError::Aborted),
        }
    }

    fn change<T>(
        &mut self,
        change: impl FnOnce(&Database, &mut update::Transaction) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        self.check()?;
        let done = change(&self.database, &mut self.inner);
        self.failed = done.is_err();
        done
    }
}
