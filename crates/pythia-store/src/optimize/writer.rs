//! Writing of folders of auxiliary files.

use std::sync::atomic::{AtomicU64, Ordering};

use pythia_io::{PageWriter, Storage};
use pythia_rdf::TermId;

use super::attribute::AttributeWriter;
use super::{OptimizeOptions, degrees};
use crate::StoreError;
use crate::auxiliary::{attribute, degrees as stored_degrees, reachability};
use crate::manifest::{
    AuxiliaryEntry, AuxiliaryId, AuxiliaryKind, Manifest, ManifestFile, Unnamed,
};
use crate::pace::Pace;
use crate::pattern::{GraphFilter, QuadPattern};
use crate::snapshot::Snapshot;

/// The numbers of folders of auxiliary files. None is used twice while a store is open.
#[derive(Debug)]
pub(crate) struct Numbers(AtomicU64);

impl Numbers {
    /// Returns the numbers after those in manifests of the store.
    pub(crate) fn after<'m>(manifests: impl IntoIterator<Item = &'m Manifest>) -> Self {
        let entries = manifests.into_iter().flat_map(|from| &from.auxiliary);
        Self(AtomicU64::new(
            entries.map(|entry| entry.id.0).max().unwrap_or(0),
        ))
    }

    fn next(&self) -> AuxiliaryId {
        AuxiliaryId(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Writer of folders of auxiliary files; removes them on drop unless [`Self::finish`] hands them over.
pub(crate) struct Writer<'s> {
    storage: &'s dyn Storage,
    snapshot: Snapshot,
    options: OptimizeOptions,
    numbers: &'s Numbers,
    pace: &'s Pace,
    written: Unnamed<'s>,
}

impl<'s> Writer<'s> {
    /// Returns a writer of what the snapshot's base has.
    pub(crate) fn new(
        storage: &'s dyn Storage,
        snapshot: Snapshot,
        options: OptimizeOptions,
        numbers: &'s Numbers,
        pace: &'s Pace,
    ) -> Self {
        Self {
            storage,
            snapshot,
            options,
            numbers,
            pace,
            written: Unnamed::new(storage),
        }
    }

    /// Returns the written folders.
    pub(crate) fn finish(self) -> Unnamed<'s> {
        self.written
    }

    /// Removes the leftovers of the last write.
    pub(crate) fn discard_last(&mut self) {
        self.written.remove_last();
    }

    pub(crate) fn write(&mut self, kind: &AuxiliaryKind) -> Result<AuxiliaryEntry, StoreError> {
        let id = self.numbers.next();
        let folder = id.folder();
        self.written.push(folder.clone());
        let names: &[&str] = match kind {
            AuxiliaryKind::Reachability { predicate } => {
                self.reachability(&folder, TermId(*predicate))?
            }
            AuxiliaryKind::Attribute { predicate, along } => {
                let along: Vec<TermId> = along.iter().map(|&id| TermId(id)).collect();
                self.attribute(&folder, TermId(*predicate), along)?
            }
            AuxiliaryKind::Degrees => {
                let directory = degrees::write(&self.snapshot, self.storage, &folder, self.pace)?;
                self.whole_file(
                    &format!("{folder}/{}", stored_degrees::DIRECTORY_NAME),
                    &directory,
                )?;
                &[stored_degrees::DIRECTORY_NAME, stored_degrees::PAGES_NAME]
            }
        };
        let mut files = Vec::new();
        for name in names {
            let bytes = self.storage.open(&format!("{folder}/{name}"))?.len();
            let name = (*name).to_owned();
            files.push(ManifestFile { name, bytes });
        }
        let kind = kind.clone();
        Ok(AuxiliaryEntry { id, kind, files })
    }

    fn reachability(
        &self,
        folder: &str,
        predicate: TermId,
    ) -> Result<&'static [&'static str], StoreError> {
        self.refuse_without_edges(predicate)?;
        let name = format!("{folder}/{}", reachability::PAGES_NAME);
        let file = self.storage.create(&name)?;
        let mut pages = PageWriter::new(file, reachability::format::PAGE_BYTES);
        let edges = super::reachability::Edges {
            snapshot: &self.snapshot,
            predicate,
            pace: self.pace,
        };
        let directory = edges.build(self.options.memory_bytes, &mut pages)?;
        pages.finish()?;
        self.whole_file(
            &format!("{folder}/{}", reachability::DIRECTORY_NAME),
            &directory,
        )?;
        Ok(&[reachability::DIRECTORY_NAME, reachability::PAGES_NAME])
    }

    fn attribute(
        &self,
        folder: &str,
        predicate: TermId,
        mut along: Vec<TermId>,
    ) -> Result<&'static [&'static str], StoreError> {
        along.sort_unstable();
        along.dedup();
        for &predicate in along.iter().chain([&predicate]) {
            self.refuse_without_edges(predicate)?;
        }
        let writer = AttributeWriter {
            snapshot: &self.snapshot,
            storage: self.storage,
            folder,
            memory_bytes: self.options.memory_bytes,
            pace: self.pace,
        };
        let directory = writer.write(predicate, &along)?;
        self.whole_file(
            &format!("{folder}/{}", attribute::DIRECTORY_NAME),
            &directory,
        )?;
        Ok(&attribute::FILE_NAMES)
    }

    /// Returns whether the predicate has edges in the default graph.
    pub(crate) fn has_edges(&self, predicate: TermId) -> Result<bool, StoreError> {
        let pattern = QuadPattern {
            predicate: Some(predicate),
            graph: GraphFilter::One(TermId::DEFAULT_GRAPH),
            ..QuadPattern::default()
        };
        Ok(self.snapshot.count(&pattern)? > 0)
    }

    fn refuse_without_edges(&self, predicate: TermId) -> Result<(), StoreError> {
        if self.has_edges(predicate)? {
            return Ok(());
        }
        // The base alone does not have terms of runs, though its quads may use them.
        let name = match self.snapshot.decode(&[predicate]) {
            Ok(terms) => terms[0].to_string(),
            Err(_) => format!("{predicate:?}"),
        };
        Err(StoreError::NotOptimizable {
            message: format!("{name} has no edges in the default graph"),
        })
    }

    fn whole_file(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let mut file = self.storage.create(name)?;
        file.append(bytes)?;
        Ok(file.sync()?)
    }
}
