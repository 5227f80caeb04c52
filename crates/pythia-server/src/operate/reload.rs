//! Reloading a configuration while the server runs: all of it takes effect, or nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::trace::Tracer;
use super::{logging, notify};
use crate::config::{Config, ConfigError, DatasetConfig};
use crate::context::{Dataset, Datasets, ServerContext, Settings};
use crate::server::ServerError;

/// The result of a reload.
#[derive(Debug, Default)]
pub(crate) struct Reloaded {
    /// Datasets that were added.
    added: Vec<String>,
    /// Datasets that were removed.
    removed: Vec<String>,
    /// Changed settings that take effect only after a restart.
    restart: Vec<String>,
}

impl Reloaded {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "reloaded": true,
            "datasets_added": self.added,
            "datasets_removed": self.removed,
            "needs_restart": self.restart,
        })
    }
}

impl ServerContext {
    /// Reads the configuration again. Running requests keep their settings.
    ///
    /// # Errors
    /// The mistake in the configuration; everything stays as it was.
    pub(crate) fn reload(&self) -> Result<Reloaded, ServerError> {
        let _one_at_a_time = self.operations.reloading.lock();
        notify::reloading();
        let outcome = self.take_over();
        match &outcome {
            Ok(Reloaded {
                added,
                removed,
                restart,
            }) => {
                tracing::info!(?added, ?removed, "reloaded the configuration");
                for setting in restart {
                    tracing::warn!("{setting} takes effect after a restart");
                }
            }
            Err(error) => tracing::error!("reload failed, the old configuration stays: {error}"),
        }
        notify::ready(match outcome {
            Ok(_) => "serving",
            Err(_) => "serving with the old configuration: the new one has an error",
        });
        outcome
    }

    fn take_over(&self) -> Result<Reloaded, ServerError> {
        let operations = &self.operations;
        let old = self.settings();
        let config = operations.source.read()?;
        let mut reloaded = Reloaded {
            restart: needing_restart(&old.config, &config),
            ..Reloaded::default()
        };
        // Everything that can fail comes first.
        let settings = Settings::new(config)?;
        // The server stays on its addresses.
        let auth = &settings.auth;
        auth.check_succeeds(&old.auth)
            .and_then(|()| auth.check_bind(&self.listening))
            .map_err(ConfigError::invalid)?;
        let config = &settings.config;
        let tracer = match config.tracing == old.config.tracing {
            true => None,
            false => Some(Tracer::new(&config.tracing)?),
        };
        let datasets = self.reopen(&config.datasets, &mut reloaded)?;
        if let (Some(keys), Some(tls)) = (&operations.keys, &config.tls) {
            keys.reload(tls)?;
        }
        logging::apply(&config.log);
        if let Some(tracer) = tracer {
            *operations.tracer.write() = tracer;
        }
        self.replace(settings, datasets);
        self.announce();
        Ok(reloaded)
    }

    /// Opens new datasets and keeps those that are open.
    fn reopen(
        &self,
        wanted: &[DatasetConfig],
        reloaded: &mut Reloaded,
    ) -> Result<Datasets, ServerError> {
        let open = self.datasets();
        let mut gone: BTreeMap<&str, _> = open.by_name.iter().map(|(n, d)| (&**n, d)).collect();
        let mut datasets = Vec::new();
        for config in wanted {
            let same = gone.remove(config.name.as_str());
            if let Some(dataset) = same.filter(|dataset| dataset.config.path == config.path) {
                if !dataset.config.opens_like(config) {
                    let setting = format!("datasets.{}", config.name);
                    reloaded.restart.push(setting);
                }
                datasets.push(dataset.served_as(config));
                continue;
            }
            if same.is_some() {
                reloaded.removed.push(config.name.clone());
            }
            datasets.push(Arc::new(Dataset::open(config)?));
            reloaded.added.push(config.name.clone());
        }
        reloaded
            .removed
            .extend(gone.keys().map(|name| (*name).to_owned()));
        Ok(Datasets::of(datasets))
    }
}

/// Returns the changed settings that are read only when the server starts.
fn needing_restart(old: &Config, new: &Config) -> Vec<String> {
    let (limits, old_limits) = (&new.limits, &old.limits);
    let changed = [
        ("bind", old.bind != new.bind),
        ("tls", old.tls.is_some() != new.tls.is_some()),
        (
            "limits.connections",
            old_limits.connections != limits.connections,
        ),
        (
            "limits.receive_memory",
            old_limits.receive_bytes != limits.receive_bytes,
        ),
        ("limits.running", old_limits.running < limits.running),
    ];
    let changed = changed.into_iter().filter(|(_, changed)| *changed);
    changed.map(|(name, _)| name.to_owned()).collect()
}
