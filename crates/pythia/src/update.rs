//! Runs a SPARQL Update as one transaction.

use std::thread;
use std::time::{Duration, Instant};

use oxrdf::GraphNameRef;
use pythia_query::{QueryError, QueryOptions, UpdateOptions};
use pythia_sparql::Update;
use pythia_store::Snapshot;

use crate::Database;

/// The most attempts of an update that conflicts with other transactions.
const ATTEMPTS: u32 = 10;

/// The result of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateReport {
    /// The number of its commit; `None` if nothing was changed.
    pub position: Option<u64>,
    /// Number of quads that are new.
    pub added: u64,
    /// Number of quads that were removed.
    pub removed: u64,
    /// Number of operations of the update.
    pub operations: u64,
    /// Hints for its author, such as unknown functions.
    pub warnings: Vec<String>,
}

/// A condition on the state that an update changes.
pub struct Precondition<'c, E> {
    /// The graph that the condition is about; `None` is the whole database.
    pub graph: Option<GraphNameRef<'c>>,
    /// Fails if a state does not meet the condition. It may be called several times, with different states.
    pub check: &'c dyn Fn(&Snapshot) -> Result<(), E>,
}

/// The reason why an attempt failed.
enum Failure<E> {
    Update(QueryError),
    Condition(E),
}

impl<E> From<QueryError> for Failure<E> {
    fn from(error: QueryError) -> Self {
        Self::Update(error)
    }
}

impl Database {
    /// Runs an update: all its operations in order, or none of them. When it returns, the changes are durable
    /// and visible to every query that starts afterwards.
    ///
    /// ```
    /// # use pythia::{Database, Results};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let text = "<http://ex.org/Zeus> <http://ex.org/hasChild> <http://ex.org/Apollo> .";
    /// # let source = pythia::Source::from_reader("a".to_owned(), text.as_bytes(),
    /// #     pythia::RdfFormat::Turtle, pythia::Compression::None)?;
    /// # pythia::load(folder.path(), vec![source], &Default::default(), &Default::default())?;
    /// let database = Database::open_for_writing(folder.path())?;
    /// let report = database.update(
    ///     "PREFIX ex: <http://ex.org/>
    ///      INSERT DATA { ex:Apollo ex:hasChild ex:Asclepius } ;
    ///      INSERT { ?a ex:hasGrandchild ?c } WHERE { ?a ex:hasChild/ex:hasChild ?c }",
    /// )?;
    /// assert_eq!((report.operations, report.added, report.removed), (2, 2, 0));
    /// let ask = "ASK { <http://ex.org/Zeus> <http://ex.org/hasGrandchild> <http://ex.org/Asclepius> }";
    /// assert!(matches!(database.query(ask)?, Results::Boolean(true)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the text is not an update, the database was not opened for writing, or an operation fails. If other
    /// transactions change the same quads, the update is retried several times before it fails with an error
    /// that [`QueryError::is_retryable`]. With [`Isolation::Serializable`](crate::Isolation) as
    /// [`UpdateOptions::isolation`], it is also retried if they change what it has read.
    pub fn update(&self, text: &str) -> Result<UpdateReport, QueryError> {
        let options = UpdateOptions::default();
        let update = self.parse_update(text, None, &options.query)?;
        self.update_parsed(&update, &options, None)
    }

    /// Runs a parsed update like [`Self::update`]. Its timeout starts now.
    ///
    /// With a key, the update is applied at most once: if a commit with this key exists, nothing is changed,
    /// and its position is reported.
    pub fn update_parsed(
        &self,
        update: &Update,
        options: &UpdateOptions,
        key: Option<&str>,
    ) -> Result<UpdateReport, QueryError> {
        repeated(options, |options| {
            self.attempt::<QueryError>(update, options, key, None)
        })
    }

    /// Runs a parsed update like [`Self::update`], if the state that it changes meets a condition. No other commit
    /// changes the condition's graph between the check and the commit of the update. An update without changes needs
    /// no commit; the state at its beginning has met the condition.
    ///
    /// # Errors
    /// The condition's error if it is not met; else as [`Self::update`].
    pub fn update_if<E: From<QueryError>>(
        &self,
        update: &Update,
        options: &UpdateOptions,
        condition: &Precondition<'_, E>,
    ) -> Result<UpdateReport, E> {
        repeated(options, |options| {
            self.attempt(update, options, None, Some(condition))
        })
    }

    fn attempt<E>(
        &self,
        update: &Update,
        options: &UpdateOptions,
        key: Option<&str>,
        condition: Option<&Precondition<'_, E>>,
    ) -> Result<UpdateReport, Failure<E>> {
        let mut transaction = self.transaction_with(options.isolation)?;
        if let Some(condition) = condition {
            transaction.watch(condition.graph);
            (condition.check)(&transaction.snapshot()?).map_err(Failure::Condition)?;
        }
        let updated = transaction.update_parsed(update, options)?;
        let committed = transaction.commit_with_key(key)?;
        Ok(UpdateReport {
            position: committed.position.map(|position| position.0),
            added: committed.added,
            removed: committed.removed,
            operations: updated.operations,
            warnings: updated.warnings,
        })
    }
}

/// Repeats an attempt while it conflicts with other transactions, within the time limit.
fn repeated<E: From<QueryError>>(
    options: &UpdateOptions,
    attempt: impl Fn(&UpdateOptions) -> Result<UpdateReport, Failure<E>>,
) -> Result<UpdateReport, E> {
    let timeout = options.query.timeout;
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut attempts = 1;
    loop {
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let query = QueryOptions {
            timeout,
            ..options.query.clone()
        };
        let options = UpdateOptions {
            query,
            ..options.clone()
        };
        match attempt(&options) {
            Ok(report) => return Ok(report),
            Err(Failure::Condition(error)) => return Err(error),
            Err(Failure::Update(error)) if error.is_retryable() && attempts < ATTEMPTS => {
                // Conflicting updates must not retry at the same moment.
                let most_us = 100 << attempts;
                thread::sleep(Duration::from_micros(rand::random_range(0..most_us)));
                attempts += 1;
            }
            Err(Failure::Update(error)) => return Err(error.into()),
        }
    }
}
