//! Interfaces for operators: metrics, logs, traces, administration.
//!
//! Every request has a [`record::Record`]. When its answer has been sent, [`Operations::ended`] counts it and
//! passes it to a thread that writes logs and traces.

mod admin;
mod announcement;
mod body;
pub mod logging;
pub(crate) mod metrics;
pub(crate) mod notify;
mod observer;
mod optimize;
pub(crate) mod record;
pub(crate) mod reload;
pub(crate) mod service;
mod statistics;
mod tasks;
mod trace;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::RwLock;

use crate::config::{Config, ConfigError, ConfigSource, LogConfig};
use crate::listen::Keys;
use announcement::Announcements;
use metrics::Metrics;
use observer::{EndedRequest, Observer};
use record::Record;
use tasks::Tasks;
use trace::Tracer;

pub(crate) use admin::routes;
pub use announcement::ServerFile;
pub(crate) use body::recorded;

/// The state behind a server's interfaces for operators.
pub(crate) struct Operations {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tasks: Tasks,
    /// The files by which programs on this machine find the server.
    pub(crate) announcements: Announcements,
    pub(crate) started: SystemTime,
    /// The source of the configuration, for reloads.
    source: ConfigSource,
    /// The TLS certificate and key, if connections are encrypted.
    keys: Option<Arc<Keys>>,
    /// Held during a reload.
    reloading: parking_lot::Mutex<()>,
    // Dropped before the tracer, which it uses.
    observer: Observer,
    tracer: RwLock<Option<Arc<Tracer>>>,
}

impl Operations {
    pub(crate) fn start(
        config: &Config,
        source: ConfigSource,
        keys: Option<Arc<Keys>>,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            metrics: Arc::default(),
            tasks: Tasks::default(),
            announcements: Announcements::new(),
            started: SystemTime::now(),
            source,
            keys,
            reloading: parking_lot::Mutex::new(()),
            observer: Observer::start(),
            tracer: RwLock::new(Tracer::new(&config.tracing)?),
        })
    }

    /// Returns whether connections are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.keys.is_some()
    }

    /// Records a request whose answer has been sent.
    pub(crate) fn ended(&self, record: Arc<Record>, log: &LogConfig) {
        self.metrics.record(&record);
        let slow = record.activity.get().is_some() && record.total() >= log.slow_query;
        let activity = record.activity.get();
        let warns = activity.is_some_and(|activity| activity.warns());
        let tracer = self.tracer.read().clone();
        if !(log.access || slow || warns || tracer.is_some()) {
            return;
        }
        let ended = EndedRequest {
            access: log.access,
            slow,
            warns,
            tracer,
            record,
        };
        if !self.observer.observe(ended) {
            self.metrics.lost_line();
        }
    }
}

/// Formats a time as Fuseki does.
fn time_text(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    pythia::format_time(ms.saturating_mul(1000))
}
