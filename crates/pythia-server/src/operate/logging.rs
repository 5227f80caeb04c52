//! What the process writes to standard error, as text or JSON.
//!
//! Events come from anywhere by way of `tracing`; [`install`] says once, for the process, where they go,
//! and [`apply`] changes what is written and how. A program that embeds the server and has a subscriber
//! of its own gets the events there instead.

use std::io;
use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, Layered, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::{fmt, reload};

use crate::config::{Level, LogConfig, LogFormat};

type Filtered = Layered<reload::Layer<Targets, Registry>, Registry>;
type Writer = Box<dyn Layer<Filtered> + Send + Sync>;

/// What can be changed while the process runs.
struct Control {
    targets: reload::Handle<Targets, Registry>,
    writer: reload::Handle<Writer, Filtered>,
}

static CONTROL: OnceLock<Control> = OnceLock::new();

/// Writes events from now on. The first call counts; whether it was this one.
pub fn install(config: &LogConfig) -> bool {
    let (targets, targets_handle) = reload::Layer::new(targets(config));
    let (writer, writer_handle) = reload::Layer::new(writer(config));
    let subscriber = Registry::default().with(targets).with(writer);
    let installed = tracing::subscriber::set_global_default(subscriber).is_ok();
    if installed {
        let control = Control {
            targets: targets_handle,
            writer: writer_handle,
        };
        // Nobody else comes this far.
        let _ = CONTROL.set(control);
    }
    installed
}

/// Writes what this configuration says from now on, if [`install`] was called.
pub(crate) fn apply(config: &LogConfig) {
    if let Some(control) = CONTROL.get() {
        // They fail if the subscriber is gone, which lives as long as the process.
        let _ = control.writer.reload(writer(config));
        let _ = control.targets.reload(targets(config));
    }
}

fn targets(config: &LogConfig) -> Targets {
    let others = config.targets.iter();
    Targets::new()
        .with_default(filter(config.level))
        .with_targets(others.map(|(target, level)| (target.clone(), filter(*level))))
}

fn writer(config: &LogConfig) -> Writer {
    let layer = fmt::layer().with_writer(io::stderr);
    match config.format {
        LogFormat::Text => layer.with_ansi(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    }
}

fn filter(level: Level) -> LevelFilter {
    match level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    }
}
