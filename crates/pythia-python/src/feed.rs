//! Commits, in the order of the log.

use std::sync::Mutex;

use pyo3::prelude::*;
use pythia::{Commit, Database, Feed, Position, StoreError, changed_quads};

use crate::errors::of_store;
use crate::scope::Scope;
use crate::solutions::lock;
use crate::terms::PyQuad;

/// An iterator of commits: position, time in microseconds since 1970, key, and changes.
#[pyclass(frozen, name = "Commits", module = "pythiadb._pythiadb")]
pub(crate) struct Commits {
    scope: Scope,
    commits: Mutex<Box<dyn Iterator<Item = Result<Commit, StoreError>> + Send>>,
}

type Change = (bool, PyQuad);

impl Commits {
    /// Reads the commits of a database from a position on. A store that was never open for writing has none.
    pub(crate) fn open(database: &Database, scope: Scope, from: u64) -> PyResult<Self> {
        let commits = match Feed::of_storage(database.store().pool().storage(), None) {
            Err(StoreError::NoLog) => None,
            feed => {
                let feed = feed.map_err(of_store)?;
                let first = feed.first().map_err(of_store)?;
                let from = Position(from).max(if from == 0 { first } else { Position(1) });
                Some(feed.commits_from(from).map_err(of_store)?)
            }
        };
        Ok(Self {
            scope,
            commits: Mutex::new(Box::new(commits.into_iter().flatten())),
        })
    }
}

#[pymethods]
impl Commits {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[expect(clippy::type_complexity, reason = "the parts of a commit")]
    fn __next__(
        &self,
        py: Python<'_>,
    ) -> PyResult<Option<(u64, u64, Option<String>, Vec<Change>)>> {
        self.scope.check()?;
        let read = py.detach(|| {
            let Some(commit) = lock(&self.commits).next().transpose()? else {
                return Ok(None);
            };
            let changes = changed_quads(&commit).collect::<Result<Vec<_>, _>>()?;
            Ok(Some((commit, changes)))
        });
        let Some((commit, changes)) = read.map_err(of_store)? else {
            return Ok(None);
        };
        let changes = changes
            .into_iter()
            .map(|(added, quad)| (added, PyQuad(quad)));
        Ok(Some((
            commit.position.0,
            commit.time,
            commit.key,
            changes.collect(),
        )))
    }
}
