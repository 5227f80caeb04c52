//! The log on standard error, as text or JSON.
//!
//! Events come through `tracing`. [`install`] sets their destination once for the process; [`apply`] changes the
//! levels and the format. A program that embeds the server and has its own subscriber gets the events there
//! instead.

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

/// Handles to change the settings while the process runs.
struct Control {
    targets: reload::Handle<Targets, Registry>,
    writer: reload::Handle<Writer, Filtered>,
}

static CONTROL: OnceLock<Control> = OnceLock::new();

/// Installs the subscriber, so that events are written from now on. Returns false if the process has one already.
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
        // Only the first call comes this far.
        let _ = CONTROL.set(control);
    }
    installed
}

/// Applies new settings, if [`install`] was called.
pub(crate) fn apply(config: &LogConfig) {
    if let Some(control) = CONTROL.get() {
        // Fails only if the subscriber is gone, but it lives as long as the process.
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
