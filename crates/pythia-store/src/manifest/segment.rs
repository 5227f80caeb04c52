//! Manifest entries of segments.

use serde::{Deserialize, Serialize};

/// A segment's number in its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SegmentId(pub u64);

impl SegmentId {
    /// Returns the segment's folder.
    pub fn folder(self) -> String {
        format!("segment-{:06}", self.0)
    }

    /// Returns the number in a folder's name.
    pub fn from_folder(name: &str) -> Option<Self> {
        let number = name.strip_prefix("segment-")?.parse().ok()?;
        Some(Self(number))
    }
}

/// A file of a segment and its length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Name within the segment's folder.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
}

/// A sealed segment's quads and files, as in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEntry {
    /// Its quads.
    pub quads: u64,
    /// Its files.
    pub files: Vec<ManifestFile>,
}

impl SegmentEntry {
    /// Returns the bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}
