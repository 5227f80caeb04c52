//! Makes a new segment the store: in a storage that holds no store or an empty one.
//!
//! Until [`BaseWriter::seal`] switches the manifest the store is what it was before; what a killed
//! process has left is removed by the next writer.

use std::sync::Arc;

use pythia_io::Storage;

use super::writer::{OrderDirectory, SegmentOptions, SegmentWriter};
use crate::StoreError;
use crate::device;
use crate::dictionary::DictionaryDirectory;
use crate::manifest::{FORMAT_VERSION, Manifest, SegmentId};
use crate::store::LOCK_NAME;

/// A file that is there while a segment is being written. Where it is found without a manifest,
/// an interrupted load left what is there; anything else in the folder is not ours to remove.
const LOADING_NAME: &str = "LOADING";

/// Fails if there are files that no interrupted load has left.
fn refuse_foreign_files(storage: &dyn Storage) -> Result<(), StoreError> {
    let names = storage.list("")?;
    if names.iter().any(|name| name == LOADING_NAME) {
        return Ok(());
    }
    match names
        .into_iter()
        .find(|name| name != LOCK_NAME && name != "lost+found" && !device::is_ours(name))
    {
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
}

impl BaseWriter {
    /// Starts a segment in a storage that holds no store or an empty one, and removes what
    /// interrupted writers have left there. The caller holds the store's lock.
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
        storage.create(LOADING_NAME)?.sync()?;
        Manifest::remove_leftovers(current.as_ref(), &*storage)?;
        let id = SegmentId(current.map_or(1, |manifest| manifest.segment.0 + 1));
        let segment = SegmentWriter::new(Arc::clone(&storage), id.folder(), options);
        Ok(Self {
            storage,
            id,
            segment: Some(segment),
        })
    }

    /// The segment to be written.
    pub fn segment(&self) -> &SegmentWriter {
        self.segment.as_ref().expect("there until it is sealed")
    }

    /// Makes the segment the store: on return it is durable and visible, on error or after a crash
    /// the store is what it was.
    ///
    /// # Panics
    /// If `orders` are not the four orders of the same quads.
    pub fn seal(
        mut self,
        dictionary: DictionaryDirectory,
        orders: Vec<OrderDirectory>,
    ) -> Result<SegmentId, StoreError> {
        let segment = self.segment.take().expect("sealed once");
        let sealed = segment.seal(dictionary, orders)?;
        let manifest = Manifest {
            format: FORMAT_VERSION,
            segment: self.id,
            quads: sealed.quads,
            files: sealed.files,
            auxiliary: Vec::new(),
            runs: Vec::new(),
            log: None,
        };
        if let Err(error) = manifest.switch(&*self.storage) {
            // Best effort: the next writer removes what is still there.
            let _ = self.storage.remove(&self.id.folder());
            return Err(error);
        }
        // The empty segment that this one replaces; the next writer tries again if this fails.
        let _ = Manifest::remove_leftovers(Some(&manifest), &*self.storage);
        Ok(self.id)
    }
}

impl Drop for BaseWriter {
    fn drop(&mut self) {
        // The folder goes before the mark that says whose it is. Beside a manifest the mark says
        // nothing, so it may stay if this fails.
        drop(self.segment.take());
        let _ = self.storage.remove(LOADING_NAME);
    }
}
