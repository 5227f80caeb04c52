//! Reads a configuration from a file, then the environment, then flags.
//!
//! A variable `PYTHIA_SERVE_LIMITS__TIMEOUT=5s` sets what `timeout = "5s"` sets in the file's table `limits`: two
//! underscores separate table and key. Values are TOML; a value that is not valid TOML is a text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use serde::Deserialize;
use toml::{Table, Value};

use super::error::explained;
use super::{Config, ConfigError};

/// Prefix of the environment variables.
const PREFIX: &str = "PYTHIA_SERVE_";
/// The variable that names the file.
const FILE_VARIABLE: &str = "PYTHIA_SERVE_CONFIG";

/// The changes that flags make.
pub type Overlay = Arc<dyn Fn(&mut Config) + Send + Sync>;

/// The sources of a configuration, which can be read again.
#[derive(Clone)]
pub struct ConfigSource {
    file: Option<PathBuf>,
    variables: BTreeMap<String, String>,
    overlay: Overlay,
    /// State of the file just before it was last read.
    read_stamp: Arc<Mutex<FileStamp>>,
}

/// Modification time and length of the file, to detect changes.
pub(crate) type FileStamp = Option<(SystemTime, u64)>;

impl ConfigSource {
    /// Makes a source from a file, if given, the environment of this process, and flags.
    pub fn new(file: Option<PathBuf>, overlay: Overlay) -> Self {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let value = value.into_string().ok()?;
            (name.starts_with(PREFIX) && name != FILE_VARIABLE).then_some((name, value))
        });
        Self {
            file,
            variables: variables.collect(),
            overlay,
            read_stamp: Arc::default(),
        }
    }

    /// Makes a source that always returns this configuration.
    pub fn fixed(config: Config) -> Self {
        Self {
            file: None,
            variables: BTreeMap::new(),
            overlay: Arc::new(move |read| read.clone_from(&config)),
            read_stamp: Arc::default(),
        }
    }

    /// Returns the path of the file.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads and checks the configuration.
    pub fn read(&self) -> Result<Config, ConfigError> {
        *self.read_stamp.lock() = self.file_stamp();
        let mut config = match &self.file {
            Some(path) => self.read_file(path)?,
            None => self.with_variables(Table::new())?,
        };
        (self.overlay)(&mut config);
        config.check()?;
        Ok(config)
    }

    fn read_file(&self, path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::File {
            path: path.to_owned(),
            source,
        })?;
        let at = |error| ConfigError::at(path, &text, &error);
        // The file alone first: errors in it know their line.
        let config: Config = toml::from_str(&text).map_err(at)?;
        if self.variables.is_empty() {
            return Ok(config);
        }
        self.with_variables(toml::from_str(&text).map_err(at)?)
    }

    fn with_variables(&self, table: Table) -> Result<Config, ConfigError> {
        match overlaid(&table, &self.variables) {
            Ok(config) => Ok(config),
            Err(message) => Err(ConfigError::Variable {
                variable: self.culprit(&table),
                message,
            }),
        }
    }

    /// Returns the variable whose removal makes the configuration valid; all variables if there is no such one.
    fn culprit(&self, table: &Table) -> String {
        let innocent_without = |name: &&String| {
            let mut others = self.variables.clone();
            others.remove(*name);
            overlaid(table, &others).is_ok()
        };
        match self.variables.keys().find(innocent_without) {
            Some(name) => name.clone(),
            None => {
                let names = self.variables.keys().map(String::as_str);
                names.collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Returns the file's state just before it was last read.
    pub(crate) fn read_stamp(&self) -> FileStamp {
        *self.read_stamp.lock()
    }

    /// Returns when the file was last modified, and its length.
    pub(crate) fn file_stamp(&self) -> FileStamp {
        let metadata = std::fs::metadata(self.file.as_ref()?).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }
}

/// Returns the configuration of a file's table with the variables set over it.
fn overlaid(table: &Table, variables: &BTreeMap<String, String>) -> Result<Config, String> {
    let mut table = table.clone();
    for (name, text) in variables {
        let path = name[PREFIX.len()..].to_ascii_lowercase();
        let keys: Vec<&str> = path.split("__").collect();
        set(&mut table, &keys, value_of(text))?;
    }
    Config::deserialize(Value::Table(table)).map_err(|error| explained(error.message()))
}

fn set(table: &mut Table, keys: &[&str], value: Value) -> Result<(), String> {
    let (&key, below) = keys.split_first().expect("a split gives one part at least");
    if below.is_empty() {
        table.insert(key.to_owned(), value);
        return Ok(());
    }
    let entry = table
        .entry(key)
        .or_insert_with(|| Value::Table(Table::new()));
    match entry {
        Value::Table(inner) => set(inner, below, value),
        _ => Err(format!("{key} is not a table")),
    }
}

/// Reads a value in TOML; a text if it is not valid TOML.
fn value_of(text: &str) -> Value {
    let read: Option<Table> = toml::from_str(&format!("value = {text}\n")).ok();
    match read {
        Some(mut table) if table.len() == 1 => table.remove("value").expect("it is the one"),
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests;
