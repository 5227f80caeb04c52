//! Auxiliary files: optional indexes that `pythia optimize` builds from a segment's quads to answer some queries with
//! fewer reads. Everything works without them, and they can be dropped.
//!
//! Each is in a folder of its own beside the segment, and the manifest names it. They are read here;
//! [`crate::optimize`] builds them.

use std::sync::Arc;

use pythia_io::BufferPool;
use pythia_rdf::TermId;

use crate::StoreError;
use crate::manifest::{AuxiliaryEntry, AuxiliaryKind, Manifest};
use crate::segment::sealed::check_lengths;

pub mod attribute;
pub mod degrees;
pub mod reachability;

use attribute::Attribute;
use degrees::Degrees;
use reachability::Reachability;

/// The auxiliary files of a store, open for reading.
#[derive(Default)]
pub struct Auxiliaries {
    reachability: Vec<Reachability>,
    attributes: Vec<Attribute>,
    degrees: Option<Degrees>,
}

impl Auxiliaries {
    /// Opens the entries of the manifest: reads the parts that are kept in memory.
    pub(crate) fn open(pool: &Arc<BufferPool>, manifest: &Manifest) -> Result<Self, StoreError> {
        let mut auxiliaries = Self::default();
        for entry in &manifest.auxiliary {
            auxiliaries.add(pool, entry).map_err(|error| match error {
                StoreError::Corrupt {
                    file,
                    page,
                    message,
                } => {
                    let hint = "`pythia optimize --drop` drops it, and it can be built again";
                    StoreError::corrupt(file, page, format!("{message}; {hint}"))
                }
                error => error,
            })?;
        }
        Ok(auxiliaries)
    }

    fn add(&mut self, pool: &Arc<BufferPool>, entry: &AuxiliaryEntry) -> Result<(), StoreError> {
        let folder = entry.id.folder();
        let names = entry.files.iter().map(|file| file.name.clone());
        check_lengths(&**pool.storage(), &folder, &entry.files, names)?;
        match &entry.kind {
            AuxiliaryKind::Reachability { predicate } => {
                let labels = Reachability::open(pool, &folder, TermId(*predicate))?;
                self.reachability.push(labels);
            }
            AuxiliaryKind::Attribute { .. } => {
                self.attributes.push(Attribute::open(pool, &folder)?);
            }
            AuxiliaryKind::Degrees => self.degrees = Some(Degrees::open(pool, &folder)?),
        }
        Ok(())
    }

    /// Returns all reachability labels.
    pub fn all_reachability(&self) -> &[Reachability] {
        &self.reachability
    }

    /// Returns the reachability labels of a predicate.
    pub fn reachability(&self, predicate: TermId) -> Option<&Reachability> {
        let mut labels = self.reachability.iter();
        labels.find(|labels| labels.predicate() == predicate)
    }

    /// Returns all cached attributes.
    pub fn all_attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Returns the cached values of a predicate.
    pub fn attribute(&self, predicate: TermId) -> Option<&Attribute> {
        let mut attributes = self.attributes.iter();
        attributes.find(|attribute| attribute.predicate() == predicate)
    }

    /// Returns the degrees of all nodes.
    pub fn degrees(&self) -> Option<&Degrees> {
        self.degrees.as_ref()
    }

    /// Returns the approximate memory that they take while the store is open.
    pub fn memory_bytes(&self) -> usize {
        let labels = self.reachability.iter().map(Reachability::memory_bytes);
        let attributes = self.attributes.iter().map(Attribute::memory_bytes);
        let degrees = self.degrees.iter().map(Degrees::memory_bytes);
        labels.chain(attributes).chain(degrees).sum()
    }
}
