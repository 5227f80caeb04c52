//! What operators look at, and what they do: metrics, logs, traces, administration.
//!
//! Every request has a [`record::Record`]; when its answer has gone out, [`Operations::ended`] counts it
//! and hands it to a thread that writes logs and traces.

mod admin;
mod body;
pub mod logging;
pub(crate) mod metrics;
pub(crate) mod notify;
mod observer;
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
use metrics::Metrics;
use observer::{Ended, Observer};
use record::Record;
use tasks::Tasks;
use trace::Tracer;

pub(crate) use admin::routes;
pub(crate) use body::recorded;

/// What one server keeps for its operators.
pub(crate) struct Operations {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tasks: Tasks,
    pub(crate) started: SystemTime,
    /// Where the configuration comes from.
    source: ConfigSource,
    /// What connections are encrypted with, if they are.
    keys: Option<Arc<Keys>>,
    /// Held while the configuration is read again.
    reloading: parking_lot::Mutex<()>,
    // It ends before the tracer, which it uses.
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
            started: SystemTime::now(),
            source,
            keys,
            reloading: parking_lot::Mutex::new(()),
            observer: Observer::start(),
            tracer: RwLock::new(Tracer::new(&config.tracing)?),
        })
    }

    /// Takes note of a request whose answer has gone out.
    pub(crate) fn ended(&self, record: Arc<Record>, log: &LogConfig) {
        self.metrics.record(&record);
        let slow = record.activity.get().is_some() && record.total() >= log.slow_query;
        let activity = record.activity.get();
        let warns = activity.is_some_and(|activity| activity.warns());
        let tracer = self.tracer.read().clone();
        if !(log.access || slow || warns || tracer.is_some()) {
            return;
        }
        let ended = Ended {
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

/// A time as Fuseki writes it.
fn time_text(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    pythia::format_time(ms.saturating_mul(1000))
}
