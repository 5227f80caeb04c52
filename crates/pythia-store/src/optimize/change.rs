//! Changes of a store's auxiliary files.

use std::time::{Duration, Instant};

use super::Writer;
use crate::StoreError;
use crate::manifest::{AuxiliaryKind, Manifest};

/// A change of the auxiliary files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Auxiliary files to build; existing ones are rebuilt.
    pub add: Vec<AuxiliaryKind>,
    /// Auxiliary files to drop.
    pub drop: Vec<AuxiliaryKind>,
}

/// An auxiliary file that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Its kind.
    pub kind: AuxiliaryKind,
    /// Bytes of its files.
    pub bytes: u64,
    /// Duration of the build.
    pub time: Duration,
}

impl Change {
    /// Fails if the store does not have what is to be dropped.
    pub(crate) fn check(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let is_there =
            |kind: &AuxiliaryKind| manifest.auxiliary.iter().any(|e| kind.replaces(&e.kind));
        match self.drop.iter().find(|kind| !is_there(kind)) {
            Some(kind) => Err(StoreError::NotOptimizable {
                message: format!("the store has no {kind:?} that could be dropped"),
            }),
            None => Ok(()),
        }
    }

    /// Writes the files to be added, and lists in the manifest what the store has after the change.
    pub(crate) fn write(
        &self,
        writer: &mut Writer<'_>,
        manifest: &mut Manifest,
    ) -> Result<Vec<Added>, StoreError> {
        let mut added = Vec::new();
        for kind in &self.add {
            let started = Instant::now();
            let entry = writer.write(kind)?;
            added.push(Added {
                kind: kind.clone(),
                bytes: entry.bytes(),
                time: started.elapsed(),
            });
            manifest.auxiliary.retain(|old| !kind.replaces(&old.kind));
            manifest.auxiliary.push(entry);
        }
        for kind in &self.drop {
            let auxiliary = &mut manifest.auxiliary;
            auxiliary.retain(|entry| !kind.replaces(&entry.kind));
        }
        Ok(added)
    }
}
