//! Manifest entries of auxiliary files.

use serde::{Deserialize, Serialize};

use super::ManifestFile;

/// The number of a folder of auxiliary files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AuxiliaryId(pub u64);

impl AuxiliaryId {
    /// Returns the folder.
    pub fn folder(self) -> String {
        format!("auxiliary-{:06}", self.0)
    }

    /// Returns the number in a folder's name.
    pub fn from_folder(name: &str) -> Option<Self> {
        let number = name.strip_prefix("auxiliary-")?.parse().ok()?;
        Some(Self(number))
    }
}

/// An optional index that `pythia optimize` has added to the segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuxiliaryEntry {
    /// Its folder.
    pub id: AuxiliaryId,
    /// Its kind.
    pub kind: AuxiliaryKind,
    /// Its files.
    pub files: Vec<ManifestFile>,
}

impl AuxiliaryEntry {
    /// Returns the bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// A kind of auxiliary file, with the raw ids of its predicates.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuxiliaryKind {
    /// Reachability labels of a predicate.
    Reachability {
        /// The predicate.
        predicate: u64,
    },
    /// The values of a predicate beside neighbours.
    Attribute {
        /// The predicate.
        predicate: u64,
        /// The predicates of the edges to the neighbours, sorted; empty: all.
        along: Vec<u64>,
    },
    /// The degrees of all nodes.
    Degrees,
}

impl AuxiliaryKind {
    /// Returns whether it no longer holds after a change of the quads of some predicates.
    pub(crate) fn is_stale(&self, is_changed: &dyn Fn(u64) -> bool) -> bool {
        match self {
            Self::Reachability { predicate } => is_changed(*predicate),
            Self::Attribute { predicate, along } => {
                along.is_empty()
                    || is_changed(*predicate)
                    || along.iter().any(|&along| is_changed(along))
            }
            Self::Degrees => true,
        }
    }

    /// Returns whether it replaces the other: they are the same except for details.
    pub fn replaces(&self, other: &Self) -> bool {
        let about = |kind: &Self| match kind {
            Self::Reachability { predicate } | Self::Attribute { predicate, .. } => {
                Some(*predicate)
            }
            Self::Degrees => None,
        };
        std::mem::discriminant(self) == std::mem::discriminant(other) && about(self) == about(other)
    }
}
