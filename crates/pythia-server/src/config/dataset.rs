//! The configuration of a dataset: its store, how it is opened, and its memory.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use pythia::{CompactionOptions, MaintenanceOptions, WriteOptions};
use serde::{Deserialize, Serialize};

use super::{ConfigError, human};

/// Names that are paths of the server.
const RESERVED: [&str; 12] = [
    "query",
    "update",
    "sparql",
    "store",
    "data",
    "get",
    "complete",
    "find",
    "node",
    "void",
    "assets",
    ".well-known",
];

/// A store, how it is opened, and what its requests may use.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatasetConfig {
    /// The name in paths.
    #[serde(skip)]
    pub name: String,
    /// The folder of the store.
    pub path: PathBuf,
    /// Creates an empty store in a folder that is new or empty. Otherwise a missing store is an error, because its
    /// device may not be mounted.
    pub create: bool,
    /// Serves queries only. Other processes may then have the store open for reading too.
    pub read_only: bool,
    /// Serves this dataset at the root too. The only dataset of a server is always served there.
    pub default: bool,
    /// Makes the default graph of queries and of the WHERE of updates the union of all graphs, unless a request names
    /// its dataset.
    pub union_default_graph: bool,
    /// Size of the page cache, in bytes.
    #[serde(rename = "cache", with = "human")]
    pub cache_bytes: usize,
    /// Bytes that all running queries together may hold.
    #[serde(rename = "memory", with = "human")]
    pub memory_bytes: usize,
    /// Threads that compute queries at once: one for each running query, and helpers while cores are free. Default: the
    /// number of cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<NonZero<usize>>,
    /// Folder for temporary files. Default: the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spill_folder: Option<PathBuf>,
    /// Limit on the total size of temporary files, in bytes. Default: the free space of the disk.
    #[serde(
        rename = "spill_limit",
        with = "human::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub spill_bytes: Option<u64>,
    /// Log and maintenance of a dataset that can be written.
    pub write: WriteConfig,
}

/// Settings for writing a store.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct WriteConfig {
    /// Log folders on other devices, beside the store's own. The store remembers them; new ones are added. Empty:
    /// the folders that the store remembers.
    pub log_folders: Vec<PathBuf>,
    /// Archive of the log: log files move here when the store no longer needs them. The store remembers it.
    /// Default: the archive that the store remembers; without one the files are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_archive: Option<PathBuf>,
    /// Lets the archive's device take commits while all log folders are slow. The store remembers it. Default false.
    pub log_spare: bool,
    /// Bytes of log files to keep in the log although the store no longer needs them. Default 256 MiB.
    #[serde(rename = "log_retain", with = "human")]
    pub log_retain_bytes: u64,
    /// Memory for changes; more changes go to the device. Default 64 MiB.
    #[serde(rename = "changes_memory", with = "human")]
    pub changes_memory_bytes: usize,
    /// Percentage of changed quads at which compaction starts. Default 10.
    pub compaction_percent: u64,
    /// Minimum number of changed quads for a compaction. Default 65536.
    pub compaction_quads_min: u64,
    /// Memory for sorting during a compaction. Default 256 MiB.
    #[serde(rename = "compaction_memory", with = "human")]
    pub compaction_memory_bytes: usize,
    /// Limit on the write rate of merging and compaction, in bytes per second. Default: no limit.
    #[serde(
        rename = "maintenance_rate",
        with = "human::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub maintenance_bytes_per_second: Option<u64>,
    /// Rate at which all pages are read and checked continuously, in bytes per second, to find decay. Default:
    /// off.
    #[serde(
        rename = "scrub_rate",
        with = "human::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub scrub_bytes_per_second: Option<u64>,
}

impl Default for DatasetConfig {
    fn default() -> Self {
        let defaults = pythia::Options::default();
        Self {
            name: String::new(),
            path: PathBuf::new(),
            create: false,
            read_only: false,
            default: false,
            union_default_graph: false,
            cache_bytes: defaults.cache_bytes,
            memory_bytes: defaults.memory_bytes,
            threads: None,
            spill_folder: None,
            spill_bytes: None,
            write: WriteConfig::default(),
        }
    }
}

impl Default for WriteConfig {
    fn default() -> Self {
        let WriteOptions {
            log_folders,
            log_archive,
            log_spare,
            log_storages: _,
            log,
            maintenance,
        } = WriteOptions::default();
        Self {
            log_folders,
            log_archive,
            log_spare,
            log_retain_bytes: log.retain_bytes,
            changes_memory_bytes: maintenance.memory_bytes,
            compaction_percent: maintenance.compaction_percent,
            compaction_quads_min: maintenance.compaction_quads_min,
            compaction_memory_bytes: maintenance.compaction.memory_bytes,
            maintenance_bytes_per_second: maintenance.bytes_per_second,
            scrub_bytes_per_second: maintenance.scrub_bytes_per_second,
        }
    }
}

impl DatasetConfig {
    /// Returns the configuration of a store that is read and written, with the library's limits.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            path: path.into(),
            ..Self::default()
        }
    }

    /// Returns the options for opening the store.
    pub(crate) fn options(&self) -> pythia::Options {
        let write = (!self.read_only).then(|| self.write_options());
        pythia::Options {
            cache_bytes: self.cache_bytes,
            memory_bytes: self.memory_bytes,
            threads: self.threads,
            spill_folder: self.spill_folder.clone(),
            spill_bytes: self.spill_bytes.unwrap_or(u64::MAX),
            write,
        }
    }

    /// Returns the options for maintenance.
    pub(crate) fn maintenance(&self) -> MaintenanceOptions {
        // The sort files go beside the store, where there must be room for the new base anyway.
        let beside = self.spill_folder.as_ref().unwrap_or(&self.path);
        MaintenanceOptions {
            memory_bytes: self.write.changes_memory_bytes,
            compaction_percent: self.write.compaction_percent,
            compaction_quads_min: self.write.compaction_quads_min,
            bytes_per_second: self.write.maintenance_bytes_per_second,
            scrub_bytes_per_second: self.write.scrub_bytes_per_second,
            compaction: CompactionOptions {
                memory_bytes: self.write.compaction_memory_bytes,
                tmp: beside.clone(),
                ..CompactionOptions::default()
            },
            ..MaintenanceOptions::default()
        }
    }

    /// Returns whether both configurations open a store in the same way.
    pub(crate) fn opens_like(&self, other: &Self) -> bool {
        let other = Self {
            default: self.default,
            union_default_graph: self.union_default_graph,
            create: self.create,
            ..other.clone()
        };
        *self == other
    }

    fn write_options(&self) -> WriteOptions {
        let mut options = WriteOptions::default();
        options.log_folders.clone_from(&self.write.log_folders);
        options.log.retain_bytes = self.write.log_retain_bytes;
        options.log_archive.clone_from(&self.write.log_archive);
        options.log_spare = self.write.log_spare;
        options.maintenance = self.maintenance();
        options
    }

    /// Returns whether the characters of a name are allowed in a dataset's name.
    pub fn is_name(name: &str) -> bool {
        !name.is_empty() && !name.starts_with('.') && name.chars().all(is_in_name)
    }

    /// Derives a dataset name from a store's folder name.
    pub fn name_for(path: &Path) -> String {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let fitting = |c| if is_in_name(c) { c } else { '-' };
        let name: String = stem.chars().map(fitting).collect();
        match Self::is_name(&name) && !RESERVED.contains(&name.as_str()) {
            true => name,
            false => "ds".to_owned(),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let name = &self.name;
        if !Self::is_name(name) {
            return Err(ConfigError::invalid(format!(
                "a dataset is named with letters, digits, -, _ and ., unlike {name:?}"
            )));
        }
        if RESERVED.contains(&name.as_str()) {
            return Err(ConfigError::invalid(format!(
                "a dataset cannot be named {name}: /{name} is a path of the server"
            )));
        }
        if self.path.as_os_str().is_empty() {
            return Err(ConfigError::invalid(format!(
                "datasets.{name} has no path: name the folder of its store"
            )));
        }
        Ok(())
    }
}

fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Checks the datasets, each by itself and all together.
pub(super) fn check_all(datasets: &[DatasetConfig]) -> Result<(), ConfigError> {
    for (i, dataset) in datasets.iter().enumerate() {
        dataset.check()?;
        let before = &datasets[..i];
        if before.iter().any(|other| other.name == dataset.name) {
            return Err(ConfigError::invalid(format!(
                "duplicate dataset {}",
                dataset.name
            )));
        }
        if let Some(other) = before.iter().find(|other| other.path == dataset.path) {
            return Err(ConfigError::invalid(format!(
                "the datasets {} and {} have the same path",
                other.name, dataset.name
            )));
        }
    }
    let defaults: Vec<&str> = datasets
        .iter()
        .filter(|dataset| dataset.default)
        .map(|dataset| dataset.name.as_str())
        .collect();
    if let [first, second, ..] = defaults[..] {
        return Err(ConfigError::invalid(format!(
            "the datasets {first} and {second} are both marked as default"
        )));
    }
    Ok(())
}

/// Serializes datasets as a table with their names as keys.
pub(super) mod by_name {
    use serde::{Deserializer, Serializer};

    use super::{BTreeMap, DatasetConfig, Deserialize};

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<DatasetConfig>, D::Error> {
        let named = BTreeMap::<String, DatasetConfig>::deserialize(from)?;
        let with_name = |(name, dataset)| DatasetConfig { name, ..dataset };
        Ok(named.into_iter().map(with_name).collect())
    }

    pub(in crate::config) fn serialize<S: Serializer>(
        datasets: &[DatasetConfig],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(datasets.iter().map(|dataset| (&dataset.name, dataset)))
    }
}
