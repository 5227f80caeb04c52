//! What all requests share: settings, datasets, running requests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use pythia::{Database, LoadOptions, StoreError};

use crate::admission::Admission;
use crate::auth::Auth;
use crate::config::{Config, ConfigError, DatasetConfig};
use crate::operate::Operations;
use crate::outbound::Outbound;
use crate::protocol::receive::ReceiveMemory;
use crate::rate::Rates;
use crate::running::Running;
use crate::server::ServerError;

/// Time that cancelled tasks have to end.
const TASK_TIME: Duration = Duration::from_secs(5);

/// The settings, datasets and running requests of a server, and what they share.
pub(crate) struct ServerContext {
    settings: RwLock<Arc<Settings>>,
    datasets: RwLock<Arc<Datasets>>,
    /// Grants turns.
    pub(crate) admission: Arc<Admission>,
    /// Rate limits on clients.
    pub(crate) rates: Rates,
    /// The list of running requests.
    pub(crate) running: Arc<Running>,
    /// The memory for the bodies of requests.
    pub(crate) receiving: Arc<ReceiveMemory>,
    /// The interfaces for operators.
    pub(crate) operations: Operations,
    /// The addresses it listens on, even if a newer configuration names others.
    pub(crate) listening: Vec<SocketAddr>,
    /// True once the server is asked to stop: nothing new is started.
    draining: AtomicBool,
}

/// Settings that a reload replaces as a whole. Running requests keep the old ones.
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) auth: Auth,
    pub(crate) outbound: Outbound,
}

impl Settings {
    pub(crate) fn new(config: Config) -> Result<Self, ConfigError> {
        let auth = Auth::new(&config.security).map_err(ConfigError::invalid)?;
        auth.check_bind(&config.bind)
            .map_err(ConfigError::invalid)?;
        Ok(Self {
            auth,
            outbound: Outbound::new(&config.outbound).map_err(ConfigError::invalid)?,
            config,
        })
    }
}

/// The datasets by name, and the one that is served at the root.
#[derive(Default)]
pub(crate) struct Datasets {
    pub(crate) by_name: BTreeMap<String, Arc<Dataset>>,
    pub(crate) default: Option<Arc<Dataset>>,
}

/// An open store.
pub(crate) struct Dataset {
    pub(crate) name: Arc<str>,
    pub(crate) database: Arc<Database>,
    pub(crate) config: DatasetConfig,
}

impl Dataset {
    /// Opens a store. Creates an empty one if the folder is new or empty and the configuration allows it.
    pub(crate) fn open(config: &DatasetConfig) -> Result<Self, ServerError> {
        let database = open_or_create(config).map_err(|error| ServerError::Dataset {
            name: config.name.clone(),
            error,
        })?;
        Ok(Self {
            name: config.name.as_str().into(),
            database: Arc::new(database),
            config: config.clone(),
        })
    }

    /// Returns the same store, served with the settings that need no opening: at the root or not, and with which default
    /// graph.
    pub(crate) fn served_as(self: &Arc<Self>, config: &DatasetConfig) -> Arc<Self> {
        let DatasetConfig {
            default,
            union_default_graph,
            ..
        } = *config;
        let now = (self.config.default, self.config.union_default_graph);
        if now == (default, union_default_graph) {
            return Arc::clone(self);
        }
        Arc::new(Self {
            name: Arc::clone(&self.name),
            database: Arc::clone(&self.database),
            config: DatasetConfig {
                default,
                union_default_graph,
                ..self.config.clone()
            },
        })
    }
}

fn open_or_create(
    config: &DatasetConfig,
) -> Result<Database, Box<dyn std::error::Error + Send + Sync>> {
    let missing = match config.read_only {
        true => None,
        false => pythia::check_store(&config.path).err(),
    };
    if let Some(error) = missing {
        if !config.create {
            return Err(not_made(error).into());
        }
        pythia::load(
            &config.path,
            Vec::new(),
            &LoadOptions::default(),
            &Arc::default(),
        )?;
        tracing::info!(dataset = config.name, path = %config.path.display(), "made an empty store");
    }
    Ok(Database::open_with(&config.path, config.options())?)
}

/// Extends the error about a missing store with advice.
fn not_made(error: StoreError) -> StoreError {
    match error {
        StoreError::NotAStore { path, message } => StoreError::NotAStore {
            path,
            message: format!(
                "{message}; is its device mounted? To create an empty store there, set `create = true` for this dataset"
            ),
        },
        error => error,
    }
}

impl Datasets {
    /// Collects the datasets. The one marked as default is served at the root, or the only one.
    pub(crate) fn of(open: Vec<Arc<Dataset>>) -> Self {
        let default = open.iter().find(|dataset| dataset.config.default);
        let only = open.first().filter(|_| open.len() == 1);
        Self {
            default: default.or(only).cloned(),
            by_name: open
                .into_iter()
                .map(|dataset| (dataset.config.name.clone(), dataset))
                .collect(),
        }
    }

    /// Returns the dataset with this name, or the one at the root.
    pub(crate) fn get(&self, name: Option<&str>) -> Option<&Arc<Dataset>> {
        match name {
            Some(name) => self.by_name.get(name),
            None => self.default.as_ref(),
        }
    }
}

impl ServerContext {
    pub(crate) fn new(
        settings: Settings,
        datasets: Datasets,
        operations: Operations,
        listening: Vec<SocketAddr>,
    ) -> Self {
        let limits = &settings.config.limits;
        Self {
            admission: Admission::new(),
            rates: Rates::default(),
            running: Arc::default(),
            receiving: ReceiveMemory::new(limits.receive_bytes),
            operations,
            listening,
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

    /// Replaces the settings and datasets for new requests.
    pub(crate) fn replace(&self, settings: Settings, datasets: Datasets) {
        *self.settings.write() = Arc::new(settings);
        *self.datasets.write() = Arc::new(datasets);
    }

    /// Writes or removes the files by which programs on this machine find the server.
    pub(crate) fn announce(&self) {
        let Some(&address) = self.listening.first() else {
            return;
        };
        let is_encrypted = self.operations.is_encrypted();
        let announcements = &self.operations.announcements;
        announcements.update(&self.datasets(), address, is_encrypted);
    }

    /// Ends the tasks that can be cancelled, and removes the files by which others find the server.
    pub(crate) fn end(&self) {
        self.operations.announcements.end();
        self.operations.tasks.cancel_all(TASK_TIME);
    }

    /// Stops the start of new requests.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
