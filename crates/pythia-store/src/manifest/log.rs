//! Manifest entries of the log and its folders.

use std::path::Path;

use pythia_log::{FolderId, Position, StoreId};
use serde::{Deserialize, Serialize};

/// The log of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// The id of the log's store, which all files of the log carry.
    pub store: StoreId,
    /// The first commit that the segment and the runs do not have.
    pub position: Position,
    /// Log folders outside the store's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<LogFolder>,
    /// The archive, for log files that are no longer needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<LogFolder>,
}

impl LogEntry {
    /// Returns a log in the store's own folder alone.
    pub fn new(store: StoreId, position: Position) -> Self {
        Self {
            store,
            position,
            devices: Vec::new(),
            archive: None,
        }
    }
}

/// A log folder outside the store's own, or the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenFolder")]
pub struct LogFolder {
    /// Its path.
    pub path: String,
    /// The folder's identity, as recorded in its `log/FOLDER`. Folders of format 4 had none; they get one when the
    /// store is next opened for writing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<FolderId>,
    /// True for a log folder on the archive's device that gets groups only while all other log folders are slow. Programs that
    /// do not know this use it like the others.
    #[serde(rename = "spare", skip_serializing_if = "std::ops::Not::not")]
    pub is_spare: bool,
}

impl LogFolder {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        Path::new(&self.path)
    }
}

/// A folder as manifests record it: in format 4, its path alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenFolder {
    Path(String),
    Folder {
        path: String,
        id: Option<FolderId>,
        #[serde(default)]
        spare: bool,
    },
}

impl From<WrittenFolder> for LogFolder {
    fn from(written: WrittenFolder) -> Self {
        match written {
            WrittenFolder::Path(path) => Self {
                path,
                id: None,
                is_spare: false,
            },
            WrittenFolder::Folder { path, id, spare } => Self {
                path,
                id,
                is_spare: spare,
            },
        }
    }
}
