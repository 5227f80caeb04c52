//! Manifest entries of dictionaries that are not among the files of a segment.

use serde::{Deserialize, Serialize};

use super::ManifestFile;

/// The number of a dictionary's folder: that of the segment that was written with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DictionaryId(pub u64);

impl DictionaryId {
    /// Returns the folder.
    pub fn folder(self) -> String {
        format!("dictionary-{:06}", self.0)
    }

    /// Returns the number in a folder's name.
    pub fn from_folder(name: &str) -> Option<Self> {
        let number = name.strip_prefix("dictionary-")?.parse().ok()?;
        Some(Self(number))
    }
}

/// The sorted terms of the base, as of the last load or full compaction. Later terms are those of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DictionaryEntry {
    /// Its folder.
    pub id: DictionaryId,
    /// Its terms.
    pub terms: u64,
    /// The quads of the segment that was written with it: those use all of its terms.
    pub quads: u64,
    /// Its files.
    pub files: Vec<ManifestFile>,
}

impl DictionaryEntry {
    /// Returns the bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}
