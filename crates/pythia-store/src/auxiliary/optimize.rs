//! Adding and dropping auxiliary files, as one change of the store.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pythia_io::{PageWriter, Storage};
use pythia_rdf::TermId;

use super::attribute::{self, AttributeWriter};
use super::{AuxiliaryKind, degrees, reachability};
use crate::StoreError;
use crate::manifest::{AuxiliaryEntry, AuxiliaryId, Manifest, ManifestFile, Unnamed};
use crate::pattern::{GraphFilter, QuadPattern};
use crate::snapshot::Snapshot;
use crate::store::{OpenOptions, Store, StoreLock, open_folder};

/// A change of the auxiliary files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Auxiliary files to build; existing ones are rebuilt.
    pub add: Vec<AuxiliaryKind>,
    /// Auxiliary files to drop.
    pub drop: Vec<AuxiliaryKind>,
}

/// Resources of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptimizeOptions {
    /// Memory for building, in bytes: a hard limit.
    pub memory_bytes: usize,
    /// Memory for pages, in bytes.
    pub cache_bytes: usize,
}

impl Default for OptimizeOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            cache_bytes: 64 << 20,
        }
    }
}

impl OptimizeOptions {
    fn open(self) -> OpenOptions {
        OpenOptions {
            cache_bytes: self.cache_bytes,
        }
    }
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

/// Changes the auxiliary files of the store in a folder; needs exclusive access. `change` is called with the store
/// opened without its auxiliary files, so that damaged ones can be dropped.
pub fn optimize_in(
    path: &Path,
    options: OptimizeOptions,
    change: impl FnOnce(&Store) -> Result<Change, StoreError>,
) -> Result<Vec<Added>, StoreError> {
    let storage = Arc::new(open_folder(path)?);
    let _lock = StoreLock::exclusive(&storage)?;
    let storage: Arc<dyn Storage> = storage;
    let store = Store::open_bare(Arc::clone(&storage), options.open())?;
    let change = change(&store)?;
    optimize(storage, &change, options)
}

/// Changes the auxiliary files of the store in a storage atomically: on an error, or after a crash, they are
/// unchanged. The caller holds the store's exclusive lock.
pub fn optimize(
    storage: Arc<dyn Storage>,
    change: &Change,
    options: OptimizeOptions,
) -> Result<Vec<Added>, StoreError> {
    let store = Store::open_bare(Arc::clone(&storage), options.open())?;
    let mut manifest = Manifest::clone(&store.manifest());
    refuse_unknown(&manifest, change)?;
    Store::check_whole(Arc::clone(&storage), options.open())?;
    Manifest::remove_leftovers(Some(&manifest), &*storage)?;
    let mut writer = Writer::new(&*storage, store.snapshot(), options, &manifest.auxiliary);
    let mut added = Vec::new();
    for kind in &change.add {
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
    for kind in &change.drop {
        manifest
            .auxiliary
            .retain(|entry| !kind.replaces(&entry.kind));
    }
    manifest.format = manifest.format_needed();
    manifest.switch(&*storage, writer.finish())?;
    // Removes dropped files; the next writer tries again if this fails.
    let _ = Manifest::remove_leftovers(Some(&manifest), &*storage);
    Ok(added)
}

fn refuse_unknown(manifest: &Manifest, change: &Change) -> Result<(), StoreError> {
    let is_there = |kind: &AuxiliaryKind| manifest.auxiliary.iter().any(|e| kind.replaces(&e.kind));
    match change.drop.iter().find(|kind| !is_there(kind)) {
        Some(kind) => Err(StoreError::NotOptimizable {
            message: format!("the store has no {kind:?} that could be dropped"),
        }),
        None => Ok(()),
    }
}

/// Writer of folders of auxiliary files; removes them on drop unless [`Self::finish`] hands them over.
pub(super) struct Writer<'s> {
    storage: &'s dyn Storage,
    snapshot: Snapshot,
    options: OptimizeOptions,
    next: u64,
    written: Unnamed<'s>,
}

impl<'s> Writer<'s> {
    /// Returns a writer whose folders are not among `old`.
    pub(super) fn new(
        storage: &'s dyn Storage,
        snapshot: Snapshot,
        options: OptimizeOptions,
        old: &[AuxiliaryEntry],
    ) -> Self {
        let used = old.iter().map(|entry| entry.id.0).max();
        Self {
            storage,
            snapshot,
            options,
            next: used.unwrap_or(0) + 1,
            written: Unnamed::new(storage),
        }
    }

    /// Returns the written folders.
    pub(super) fn finish(self) -> Unnamed<'s> {
        self.written
    }

    /// Removes the leftovers of the last write.
    pub(super) fn discard_last(&mut self) {
        self.written.remove_last();
    }

    pub(super) fn write(&mut self, kind: &AuxiliaryKind) -> Result<AuxiliaryEntry, StoreError> {
        let id = AuxiliaryId(self.next);
        self.next += 1;
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
                let directory = degrees::write(&self.snapshot, self.storage, &folder)?;
                self.whole_file(&format!("{folder}/{}", degrees::DIRECTORY_NAME), &directory)?;
                &[degrees::DIRECTORY_NAME, degrees::PAGES_NAME]
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
        let mut pages = PageWriter::new(file, reachability::page_bytes());
        let memory_bytes = self.options.memory_bytes;
        let directory = reachability::build(&self.snapshot, predicate, memory_bytes, &mut pages)?;
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
        };
        let directory = writer.write(predicate, &along)?;
        self.whole_file(
            &format!("{folder}/{}", attribute::DIRECTORY_NAME),
            &directory,
        )?;
        Ok(&attribute::FILE_NAMES)
    }

    /// Returns whether the predicate has edges in the default graph.
    pub(super) fn has_edges(&self, predicate: TermId) -> Result<bool, StoreError> {
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
        let name = match self.snapshot.decode(&[predicate])?.first() {
            Some(term) => term.to_string(),
            None => format!("{predicate:?}"),
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
