//! What all requests share: settings, datasets, and what runs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use pythia::{Database, LoadOptions, StoreError};

use crate::admission::Admission;
use crate::auth::Auth;
use crate::config::{Config, ConfigError, DatasetConfig};
use crate::operate::Operations;
use crate::outbound::Outbound;
use crate::protocol::receive::Receiving;
use crate::rate::Rates;
use crate::running::Running;
use crate::server::ServerError;

/// One per server.
pub(crate) struct State {
    settings: RwLock<Arc<Settings>>,
    datasets: RwLock<Arc<Datasets>>,
    /// Who may run now.
    pub(crate) admission: Arc<Admission>,
    /// Requests that clients have left this second.
    pub(crate) rates: Rates,
    /// What runs now.
    pub(crate) running: Arc<Running>,
    /// The memory for the bodies of requests.
    pub(crate) receiving: Arc<Receiving>,
    /// What operators look at.
    pub(crate) operations: Operations,
    /// Where it listens, whatever a newer configuration says.
    pub(crate) listening: Vec<SocketAddr>,
    /// Told to stop: nothing new is begun.
    draining: AtomicBool,
}

/// What a new configuration replaces as a whole, while requests under way keep what they have.
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

/// The datasets by name, and which of them answers at the root.
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
    /// Opens a store. If its folder is new or empty, and it may be made and written, it becomes an empty one.
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

    /// The same store, at the root or not.
    pub(crate) fn served_as(self: &Arc<Self>, default: bool) -> Arc<Self> {
        if self.config.default == default {
            return Arc::clone(self);
        }
        Arc::new(Self {
            name: Arc::clone(&self.name),
            database: Arc::clone(&self.database),
            config: DatasetConfig {
                default,
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

/// What is said of a store that is not there, and is not to be made.
fn not_made(error: StoreError) -> StoreError {
    match error {
        StoreError::NotAStore { path, message } => StoreError::NotAStore {
            path,
            message: format!(
                "{message}; is its device mounted? To make an empty store there, set `create = true` for this dataset"
            ),
        },
        error => error,
    }
}

impl Datasets {
    /// The one that says so answers at the root, or the only one.
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

    /// The dataset of this name, or the one at the root.
    pub(crate) fn get(&self, name: Option<&str>) -> Option<&Arc<Dataset>> {
        match name {
            Some(name) => self.by_name.get(name),
            None => self.default.as_ref(),
        }
    }
}

impl State {
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
            receiving: Receiving::new(limits.receive_bytes),
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

    /// What requests from now on find.
    pub(crate) fn replace(&self, settings: Settings, datasets: Datasets) {
        *self.settings.write() = Arc::new(settings);
        *self.datasets.write() = Arc::new(datasets);
    }

    /// From now on, nothing new is begun.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
