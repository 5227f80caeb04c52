//! Writing of a store's first segment, in a storage that holds no store or an empty one.
//!
//! Until [`BaseWriter::seal`] switches the manifest the store is unchanged; the next writer removes the leftovers of
//! a killed process.

use std::sync::Arc;

use pythia_io::Storage;

use super::writer::{OrderDirectory, SegmentOptions, SegmentWriter, TermsPlace};
use crate::StoreError;
use crate::device;
use crate::dictionary::DictionaryDirectory;
use crate::locks::LOCK_NAME;
use crate::manifest::{DictionaryId, FORMAT_WRITTEN, LOADING_NAME, Manifest, SegmentId, Unnamed};

/// Returns a file that, by its name, is not the leftover of an interrupted load.
fn foreign_file(storage: &dyn Storage) -> Result<Option<String>, StoreError> {
    let is_foreign = |name: &String| {
        ![LOCK_NAME, LOADING_NAME, "lost+found"].contains(&name.as_str()) && !device::is_ours(name)
    };
    Ok(storage.list("")?.into_iter().find(is_foreign))
}

/// Fails if there are files that are not leftovers of an interrupted load.
fn refuse_foreign_files(storage: &dyn Storage) -> Result<(), StoreError> {
    if storage.exists(LOADING_NAME)? {
        return Ok(());
    }
    match foreign_file(storage)? {
        Some(name) => Err(StoreError::ForeignFiles { name }),
        None => Ok(()),
    }
}

/// A store's first segment being written.
#[derive(Debug)]
pub struct BaseWriter {
    storage: Arc<dyn Storage>,
    id: SegmentId,
    /// `None` once it is sealed.
    segment: Option<SegmentWriter>,
    /// Whether there certainly is a store, possibly the empty one from before.
    is_store: bool,
}

impl BaseWriter {
    /// Starts a segment in a storage that holds no store or an empty one, and removes the leftovers of interrupted
    /// writers. The caller holds the store's lock.
    pub fn create(storage: Arc<dyn Storage>, options: SegmentOptions) -> Result<Self, StoreError> {
        let current = Manifest::read(&*storage)?;
        if let Some(manifest) = &current
            && manifest.quads > 0
        {
            return Err(StoreError::NotEmpty {
                quads: manifest.quads,
            });
        }
        if current.is_none() {
            refuse_foreign_files(&*storage)?;
        }
        Manifest::remove_leftovers(current.as_ref(), &*storage)?;
        storage.create(LOADING_NAME)?.sync()?;
        let is_store = current.is_some();
        let id = SegmentId(current.map_or(1, |manifest| manifest.segment.0 + 1));
        let terms = TermsPlace::Beside(DictionaryId(id.0));
        let segment = SegmentWriter::new(Arc::clone(&storage), id.folder(), terms, options);
        Ok(Self {
            storage,
            id,
            segment: Some(segment),
            is_store,
        })
    }

    /// Returns the segment being written.
    pub fn segment(&self) -> &SegmentWriter {
        self.segment.as_ref().expect("there until it is sealed")
    }

    /// Makes the segment the store: on return it is durable and visible; on error or after a crash the store is
    /// unchanged.
    ///
    /// # Panics
    /// If `orders` are not the orders of the same quads; GPSO may be missing.
    pub fn seal(
        mut self,
        dictionary: DictionaryDirectory,
        orders: Vec<OrderDirectory>,
    ) -> Result<SegmentId, StoreError> {
        let segment = self.segment.take().expect("sealed once");
        let sealed = segment.seal(Some(dictionary), orders)?;
        let manifest = Manifest {
            format: FORMAT_WRITTEN,
            segment: self.id,
            quads: sealed.segment.quads,
            files: sealed.segment.files,
            dictionary: sealed.dictionary,
            auxiliary: Vec::new(),
            runs: Vec::new(),
            log: None,
        };
        let mut unnamed = Unnamed::new(&*self.storage);
        for folder in manifest.folders() {
            unnamed.push(folder);
        }
        manifest.switch(&*self.storage, unnamed)?;
        self.is_store = true;
        // Removes the empty segment that this one replaces; the next writer tries again if this fails.
        let _ = Manifest::remove_leftovers(Some(&manifest), &*self.storage);
        Ok(self.id)
    }
}

impl Drop for BaseWriter {
    fn drop(&mut self) {
        drop(self.segment.take());
        // The mark shows the origin of the files: it is removed only once they are gone, or certainly a store's. A
        // rename that failed may still be undone.
        let is_clear =
            || -> Result<bool, StoreError> { Ok(foreign_file(&*self.storage)?.is_none()) };
        if self.is_store || is_clear().unwrap_or(false) {
            let _ = self.storage.remove(LOADING_NAME);
        }
    }
}
