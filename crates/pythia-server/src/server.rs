//! A server's life: open the stores, listen, serve, stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use pythia::QueryError;
use tokio::sync::watch;

use crate::auth::Auth;
use crate::config::Config;
use crate::listen::{self, Listener};
use crate::outbound::Outbound;
use crate::protocol::{self, Service};
use crate::state::{Dataset, Datasets, Settings, State};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The configuration asks for what cannot be.
    #[error("{0}")]
    Config(String),
    /// A store does not open.
    #[error("dataset {name}: {error}")]
    Dataset {
        /// The dataset's name.
        name: String,
        /// Why.
        #[source]
        error: Box<QueryError>,
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
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .max_blocking_threads(config.limits.running + 64)
            // Deeply nested queries are planned by recursion.
            .thread_stack_size(16 << 20)
            .thread_name("pythia")
            .build()?;
        let datasets = open(&config)?;
        let listeners = runtime.block_on(listen::listen(&config))?;
        let settings = Settings {
            auth: Auth::open(),
            outbound: Outbound::default(),
            config,
        };
        Ok(Self {
            runtime,
            listeners,
            state: Arc::new(State::new(settings, datasets)),
            stop: watch::Sender::new(false),
        })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(|l| l.address).collect()
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
        let (state, stop) = (self.state, self.stop);
        self.runtime.block_on(async move {
            listen::serve(self.listeners, service, state, stop.subscribe()).await;
        });
    }
}

fn open(config: &Config) -> Result<Datasets, ServerError> {
    let mut open = Vec::new();
    for dataset in &config.datasets {
        let name = dataset.name.as_str();
        check_name(name)?;
        if open.iter().any(|other: &Arc<Dataset>| *other.name == *name) {
            return Err(ServerError::Config(format!(
                "there are two datasets {name}"
            )));
        }
        let opened = Dataset::open(dataset).map_err(|error| ServerError::Dataset {
            name: name.to_owned(),
            error: Box::new(error),
        })?;
        open.push(Arc::new(opened));
    }
    Ok(Datasets::of(open))
}

/// Whether a dataset can have this name in paths.
pub(crate) fn check_name(name: &str) -> Result<(), ServerError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let wrong = if name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
        "use letters, digits, -, _ and ."
    } else if protocol::RESERVED.contains(&name) {
        "that is a path of the default dataset"
    } else {
        return Ok(());
    };
    Err(ServerError::Config(format!(
        "a dataset cannot be called {name:?}: {wrong}"
    )))
}
