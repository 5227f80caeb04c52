//! The life of a server: opens the stores, listens, serves, stops.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::config::{Config, ConfigError, ConfigSource};
use crate::context::{Dataset, Datasets, ServerContext, Settings};
use crate::listen::{self, Listener};
use crate::operate::Operations;
use crate::operate::service::Attendant;
use crate::protocol::Service;
use crate::workers::{self, Workers};

/// Time that cancelled threads have to end.
const LAST_TIME: Duration = Duration::from_secs(5);

/// Reason why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The configuration has an error.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A store cannot be opened.
    #[error("open the dataset {name}")]
    Dataset {
        /// The dataset's name.
        name: String,
        /// The cause.
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server cannot listen on an address.
    #[error("listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("{path}: {message}")]
    Tls {
        /// The file.
        path: String,
        /// The error.
        message: String,
    },
    /// The system refuses threads.
    #[error("start the server: {0}")]
    Io(#[from] io::Error),
}

/// A server that listens, and serves once it [runs](Self::run).
pub struct Server {
    /// Accepts connections, and does what belongs to none.
    runtime: tokio::runtime::Runtime,
    workers: Arc<Workers>,
    listeners: Vec<Listener>,
    context: Arc<ServerContext>,
    stop: watch::Sender<bool>,
}

/// Controls a running server, from any thread.
#[derive(Clone)]
pub struct Handle {
    stop: watch::Sender<bool>,
}

impl Handle {
    /// Stops the server: running requests have the configured grace time to end.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

impl Server {
    /// Opens the datasets and begins to listen. Connections wait from now on until the server runs.
    pub fn start(config: Config) -> Result<Self, ServerError> {
        Self::start_from(ConfigSource::fixed(config))
    }

    /// Like [`Self::start`], with a configuration that can be reloaded while the server runs.
    pub fn start_from(source: ConfigSource) -> Result<Self, ServerError> {
        let config = source.read()?;
        let runtime = workers::runtime(config.limits.running)?;
        let workers = Workers::start(config.limits.running)?;
        let settings = Settings::new(config)?;
        let config = &settings.config;
        let datasets = open(config)?;
        let listeners = runtime.block_on(listen::listen(config))?;
        let keys = listeners.first().and_then(Listener::keys);
        let operations = Operations::start(config, source, keys)?;
        let listening = listeners.iter().map(|l| l.address).collect();
        let context = ServerContext::new(settings, datasets, operations, listening);
        context.announce();
        Ok(Self {
            runtime,
            workers: Arc::new(workers),
            listeners,
            context: Arc::new(context),
            stop: watch::Sender::new(false),
        })
    }

    /// Checks a configuration and the files it names, except stores, without serving anything.
    pub fn check(source: &ConfigSource) -> Result<Config, ServerError> {
        let config = source.read()?;
        if let Some(tls) = &config.tls {
            listen::keys(tls)?;
        }
        Ok(Settings::new(config)?.config)
    }

    /// Returns the addresses that the server listens on.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.context.listening.clone()
    }

    /// Returns a handle that controls the server while it runs.
    pub fn handle(&self) -> Handle {
        Handle {
            stop: self.stop.clone(),
        }
    }

    /// Serves until it is asked to stop, and until running requests have ended or are cancelled.
    pub fn run(self) {
        let service = Service::new(Arc::clone(&self.context));
        let (context, stop) = (Arc::clone(&self.context), self.stop);
        let workers = Arc::clone(&self.workers);
        self.runtime.block_on(async move {
            listen::serve(self.listeners, service, context, workers, stop.subscribe()).await;
        });
        self.context.end();
    }

    /// Like [`Self::run`], as a process of its own: SIGTERM and SIGINT stop it, a second one at once; SIGHUP and a
    /// change of the configuration file reload the configuration; systemd is notified.
    pub fn run_as_process(self) -> Result<(), ServerError> {
        let service = Service::new(Arc::clone(&self.context));
        let addresses = self.addresses();
        let (context, stop) = (Arc::clone(&self.context), self.stop);
        let names: Vec<_> = context.datasets().by_name.keys().cloned().collect();
        tracing::info!(?addresses, datasets = ?names, "serving");
        let workers = Arc::clone(&self.workers);
        let at_once = self.runtime.block_on(async move {
            let attendant = Attendant::new(Arc::clone(&context), stop.clone())?;
            Ok::<_, io::Error>(tokio::select! {
                () = listen::serve(self.listeners, service, context, workers, stop.subscribe()) => false,
                () = attendant.attend() => true,
            })
        })?;
        self.context.end();
        let time = (!at_once).then_some(LAST_TIME);
        match time {
            Some(time) => self.runtime.shutdown_timeout(time),
            None => self.runtime.shutdown_background(),
        }
        if let Some(workers) = Arc::into_inner(self.workers) {
            workers.shutdown(time);
        }
        // Dropping the last reference to the state writes the remaining logs and closes the stores.
        drop(self.context);
        Ok(())
    }
}

fn open(config: &Config) -> Result<Datasets, ServerError> {
    let open = config.datasets.iter().map(Dataset::open);
    let open = open.map(|dataset| dataset.map(Arc::new));
    Ok(Datasets::of(open.collect::<Result<_, _>>()?))
}
