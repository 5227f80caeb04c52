//! Transactions.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pythia::{Database, Isolation, QueryError, QueryOptions, Transaction, Update, UpdateOptions};

use crate::database::LocalDatabase;
use crate::errors::{closed, of_query};
use crate::interrupt;
use crate::matching::Matching;
use crate::scope::Scope;
use crate::solutions::{Source, lock, results};
use crate::terms::quad_of;

/// Quads that are given to the store together.
const BATCH: usize = 4096;

/// A private view of a database, with changes that others see when it is committed. `pythiadb.Transaction` extends it.
#[pyclass(
    frozen,
    subclass,
    name = "LocalTransaction",
    module = "pythiadb._pythiadb"
)]
pub(crate) struct LocalTransaction {
    /// `None` once it has ended.
    inner: Mutex<Option<Transaction<Arc<Database>>>>,
    database: Arc<Database>,
    scope: Scope,
}

impl LocalTransaction {
    /// Works with the open transaction, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        cancel: &Arc<AtomicBool>,
        text: &str,
        work: impl FnOnce(&mut Transaction<Arc<Database>>) -> Result<T, QueryError> + Send,
    ) -> PyResult<T> {
        self.scope.check()?;
        let inner = &self.inner;
        let done = interrupt::run(py, cancel, || lock(inner).as_mut().map(work))?;
        done.ok_or_else(|| closed("transaction"))?
            .map_err(|error| of_query(error, text))
    }

    /// Adds or removes quads, batch by batch.
    fn change(&self, quads: &Bound<'_, PyAny>, adds: bool) -> PyResult<u64> {
        let py = quads.py();
        let cancel = Arc::default();
        let mut changed = 0;
        let mut batch = Vec::with_capacity(BATCH);
        let mut quads = quads.try_iter()?;
        loop {
            for quad in quads.by_ref().take(BATCH) {
                batch.push(quad_of(&quad?)?);
            }
            if batch.is_empty() {
                return Ok(changed);
            }
            let taken = std::mem::take(&mut batch);
            changed += self.with(py, &cancel, "", |inner| match adds {
                true => inner.insert_all(&taken),
                false => inner.remove_all(&taken),
            })?;
        }
    }
}

#[pymethods]
impl LocalTransaction {
    #[new]
    fn new(database: &Bound<'_, LocalDatabase>, serializable: bool) -> PyResult<Self> {
        let isolation = match serializable {
            true => Isolation::Serializable,
            false => Isolation::Snapshot,
        };
        let scope = database.get().scope.clone();
        let database = database.get().open()?;
        let inner = Transaction::begin(Arc::clone(&database), isolation);
        Ok(Self {
            inner: Mutex::new(Some(inner.map_err(|error| of_query(error, ""))?)),
            database,
            scope,
        })
    }

    /// Adds a quad; returns whether it is new.
    fn add(&self, py: Python<'_>, quad: &Bound<'_, PyAny>) -> PyResult<bool> {
        let quad = quad_of(quad)?;
        self.with(py, &Arc::default(), "", |inner| inner.insert(&quad))
    }

    /// Removes a quad; returns whether it existed.
    fn remove(&self, py: Python<'_>, quad: &Bound<'_, PyAny>) -> PyResult<bool> {
        let quad = quad_of(quad)?;
        self.with(py, &Arc::default(), "", |inner| inner.remove(&quad))
    }

    /// Adds all quads of an iterable; returns how many are new.
    fn extend(&self, quads: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.change(quads, true)
    }

    /// Removes all quads of an iterable; returns how many existed.
    fn remove_all(&self, quads: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.change(quads, false)
    }

    /// Runs a query on the transaction's view.
    fn _query(&self, py: Python<'_>, text: String, native: bool) -> PyResult<Py<PyAny>> {
        let cancel = Arc::<AtomicBool>::default();
        let options = QueryOptions {
            cancel: Some(Arc::clone(&cancel)),
            ..QueryOptions::default()
        };
        let database = &self.database;
        let found = self.with(py, &cancel, &text, |inner| {
            let query = database.parse_query(&text, None, &options)?;
            inner.prepare_parsed(&query, &options)?.execute()
        })?;
        let source = Source {
            scope: self.scope.clone(),
            cancel,
            text,
            native,
        };
        results(py, found, source)
    }

    /// Runs an update in the transaction; returns the numbers of quads added and removed.
    fn _update(&self, py: Python<'_>, text: String) -> PyResult<(u64, u64)> {
        let cancel = Arc::<AtomicBool>::default();
        let options = UpdateOptions::default();
        let done = self.with(py, &cancel, &text, |inner| {
            inner.update_parsed(&Update::parse(&text, None)?, &options)
        })?;
        Ok((done.added, done.removed))
    }

    /// Returns the quads of the transaction's view that match a pattern.
    #[pyo3(signature = (subject = None, predicate = None, object = None, graph_name = None))]
    fn quads(
        &self,
        py: Python<'_>,
        subject: Option<&Bound<'_, PyAny>>,
        predicate: Option<&Bound<'_, PyAny>>,
        object: Option<&Bound<'_, PyAny>>,
        graph_name: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Matching> {
        let snapshot = self.with(py, &Arc::default(), "", |inner| inner.snapshot())?;
        let pattern = [subject, predicate, object];
        Matching::new(py, snapshot, self.scope.clone(), pattern, graph_name)
    }

    fn __contains__(&self, py: Python<'_>, quad: &Bound<'_, PyAny>) -> PyResult<bool> {
        let quad = quad_of(quad)?;
        self.with(py, &Arc::default(), "", |inner| inner.contains(&quad))
    }

    /// Makes the changes durable; returns the position of the commit, and the numbers of quads added and removed.
    #[pyo3(signature = (key = None))]
    fn _commit(&self, py: Python<'_>, key: Option<String>) -> PyResult<(Option<u64>, u64, u64)> {
        self.scope.check()?;
        let inner = lock(&self.inner)
            .take()
            .ok_or_else(|| closed("transaction"))?;
        let done = py.detach(|| inner.commit_with_key(key.as_deref()));
        let done = done.map_err(|error| of_query(error, ""))?;
        Ok((
            done.position.map(|position| position.0),
            done.added,
            done.removed,
        ))
    }

    /// Discards the changes.
    fn rollback(&self) {
        *lock(&self.inner) = None;
    }

    /// True once the transaction is committed or rolled back.
    #[getter]
    fn closed(&self) -> bool {
        lock(&self.inner).is_none()
    }
}
