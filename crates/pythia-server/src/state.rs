//! What all requests share: settings, datasets, and what runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use pythia::{Database, Options, QueryError};
use tokio::sync::Semaphore;

use crate::admission::Admission;
use crate::auth::Auth;
use crate::config::{Config, DatasetConfig};
use crate::outbound::Outbound;
use crate::running::Running;

/// One per server.
pub(crate) struct State {
    settings: RwLock<Arc<Settings>>,
    datasets: RwLock<Arc<Datasets>>,
    /// Who may run now.
    pub(crate) admission: Arc<Admission>,
    /// What runs now.
    pub(crate) running: Arc<Running>,
    /// Bytes that request texts may still take in memory.
    pub(crate) receiving: Arc<Semaphore>,
    /// Told to stop: nothing new is begun.
    draining: AtomicBool,
}

/// What a new configuration replaces as a whole, while requests under way keep what they have.
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) auth: Auth,
    pub(crate) outbound: Outbound,
}

/// The datasets by name, and which of them answers at the root.
#[derive(Default)]
pub(crate) struct Datasets {
    pub(crate) by_name: BTreeMap<String, Arc<Dataset>>,
    pub(crate) default: Option<Arc<Dataset>>,
}

/// An open store.
pub(crate) struct Dataset {
    pub(crate) name: Arc<str>,
    pub(crate) database: Database,
    pub(crate) config: DatasetConfig,
}

impl Dataset {
    pub(crate) fn open(config: &DatasetConfig) -> Result<Self, QueryError> {
        let options = Options {
            cache_bytes: config.cache_bytes,
            memory_bytes: config.memory_bytes,
            write: (!config.read_only).then(|| config.write.clone()),
            ..Options::default()
        };
        Ok(Self {
            name: config.name.as_str().into(),
            database: Database::open_with(&config.path, options)?,
            config: config.clone(),
        })
    }
}

impl Datasets {
    pub(crate) fn of(open: Vec<Arc<Dataset>>) -> Self {
        let default = open.iter().find(|dataset| dataset.config.default);
        Self {
            default: default.or(open.first()).cloned(),
            by_name: open
                .into_iter()
                .map(|dataset| (dataset.config.name.clone(), dataset))
                .collect(),
        }
    }

    /// The dataset of this name, or the one at the root.
    pub(crate) fn get(&self, name: Option<&str>) -> Option<&Arc<Dataset>> {
        match name {
            Some(name) => self.by_name.get(name),
            None => self.default.as_ref(),
        }
    }
}

impl State {
    pub(crate) fn new(settings: Settings, datasets: Datasets) -> Self {
        let limits = &settings.config.limits;
        Self {
            admission: Admission::new(),
            running: Arc::default(),
            receiving: Arc::new(Semaphore::new(
                limits.receive_bytes.min(Semaphore::MAX_PERMITS),
            )),
            draining: AtomicBool::new(false),
            settings: RwLock::new(Arc::new(settings)),
            datasets: RwLock::new(Arc::new(datasets)),
        }
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read())
    }

    pub(crate) fn datasets(&self) -> Arc<Datasets> {
        Arc::clone(&self.datasets.read())
    }

    /// From now on, nothing new is begun.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
