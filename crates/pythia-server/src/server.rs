//! A server's life: open the stores, listen, serve, stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::admission::PARKED_MAX;
use crate::config::{Config, ConfigError, ConfigSource};
use crate::listen::{self, Listener};
use crate::operate::Operations;
use crate::operate::service::Attendant;
use crate::protocol::Service;
use crate::state::{Dataset, Datasets, Settings, State};

/// How long threads whose work was cancelled may take to see it.
const LAST_TIME: Duration = Duration::from_secs(5);

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The configuration asks for what cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A store does not open.
    #[error("open the dataset {name}")]
    Dataset {
        /// The dataset's name.
        name: String,
        /// Why.
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It cannot listen.
    #[error("listen on {address}: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("{path}: {message}")]
    Tls {
        /// The file.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// The system refuses threads.
    #[error("start the server: {0}")]
    Io(#[from] io::Error),
}

/// A server that listens, and answers once it [runs](Self::run).
pub struct Server {
    runtime: tokio::runtime::Runtime,
    listeners: Vec<Listener>,
    state: Arc<State>,
    stop: watch::Sender<bool>,
}

/// Tells a running server what to do, from any thread.
#[derive(Clone)]
pub struct Handle {
    stop: watch::Sender<bool>,
}

impl Handle {
    /// Stops it: running requests end within the grace time of the configuration.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

impl Server {
    /// Opens the datasets, and begins to listen. From now on connections wait to be served.
    pub fn start(config: Config) -> Result<Self, ServerError> {
        Self::start_from(ConfigSource::fixed(config))
    }

    /// The same with a configuration that can be read again while the server runs.
    pub fn start_from(source: ConfigSource) -> Result<Self, ServerError> {
        let config = source.read()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            // Those that compute, those that wait for readers, and others for short work.
            .max_blocking_threads(config.limits.running + PARKED_MAX + 64)
            // Deeply nested queries are planned by recursion.
            .thread_stack_size(16 << 20)
            .thread_name("pythia")
            .build()?;
        let settings = Settings::new(config)?;
        let config = &settings.config;
        let datasets = open(config)?;
        let listeners = runtime.block_on(listen::listen(config))?;
        let keys = listeners.first().and_then(Listener::keys);
        let operations = Operations::start(config, source, keys)?;
        let listening = listeners.iter().map(|l| l.address).collect();
        Ok(Self {
            runtime,
            listeners,
            state: Arc::new(State::new(settings, datasets, operations, listening)),
            stop: watch::Sender::new(false),
        })
    }

    /// Reads a configuration, and what files it names but stores, without serving anything.
    pub fn check(source: &ConfigSource) -> Result<Config, ServerError> {
        let config = source.read()?;
        if let Some(tls) = &config.tls {
            listen::keys(tls)?;
        }
        Ok(Settings::new(config)?.config)
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.state.listening.clone()
    }

    /// To tell it what to do while it runs.
    pub fn handle(&self) -> Handle {
        Handle {
            stop: self.stop.clone(),
        }
    }

    /// Serves until it is told to stop, and what runs by then has ended or is cancelled.
    pub fn run(self) {
        let service = Service::new(Arc::clone(&self.state));
        let (state, stop) = (Arc::clone(&self.state), self.stop);
        self.runtime.block_on(async move {
            listen::serve(self.listeners, service, state, stop.subscribe()).await;
        });
    }

    /// The same as a process of its own: SIGTERM and SIGINT stop it, a second one at once; SIGHUP, and a
    /// change of its file, has the configuration read again; systemd is told how it is.
    pub fn run_as_process(self) -> Result<(), ServerError> {
        let service = Service::new(Arc::clone(&self.state));
        let addresses = self.addresses();
        let (state, stop) = (Arc::clone(&self.state), self.stop);
        let names: Vec<_> = state.datasets().by_name.keys().cloned().collect();
        tracing::info!(?addresses, datasets = ?names, "serving");
        let at_once = self.runtime.block_on(async move {
            let attendant = Attendant::new(Arc::clone(&state), stop.clone())?;
            Ok::<_, io::Error>(tokio::select! {
                () = listen::serve(self.listeners, service, state, stop.subscribe()) => false,
                () = attendant.attend() => true,
            })
        })?;
        match at_once {
            true => self.runtime.shutdown_background(),
            false => self.runtime.shutdown_timeout(LAST_TIME),
        }
        // Whoever holds the state last writes what is left of the logs, and closes the stores.
        drop(self.state);
        Ok(())
    }
}

fn open(config: &Config) -> Result<Datasets, ServerError> {
    let open = config.datasets.iter().map(Dataset::open);
    let open = open.map(|dataset| dataset.map(Arc::new));
    Ok(Datasets::of(open.collect::<Result<_, _>>()?))
}
