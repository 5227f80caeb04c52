//! Scrubbing: reads all pages in a slow loop, to find damage on the device while a backup still has the data (Hyder
//! §3.1).

use std::sync::Arc;

use parking_lot::Mutex;
use pythia_io::{BUDGET_BYTES_MIN, BufferPool, DeviceProfile, IoError, PagedFile};

use super::Writer;
use crate::StoreError;
use crate::manifest::{MANIFEST_NAME, Manifest};
use crate::pace::Pace;
use crate::segment::Segment;
use crate::verify::Problem;

/// Pages read at a time.
const PAGES: u64 = 16;

/// The findings of scrubbing so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Number of complete passes over all pages.
    pub rounds: u64,
    /// Pages read.
    pub pages: u64,
    /// Pages that cannot be read or whose checksum is wrong, each once.
    pub problems: Vec<Problem>,
}

impl Scrubbed {
    fn add(&mut self, problem: Problem) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

impl Writer {
    /// Reads all pages of base and runs once, at a pace, bypassing the cache.
    pub(crate) fn scrub(&self, pace: &Pace) -> Result<(), StoreError> {
        let manifest = Arc::clone(&self.state.read().manifest);
        let storage = Arc::clone(self.pool.storage());
        let pool = BufferPool::try_new(storage, BUDGET_BYTES_MIN, DeviceProfile::default())?;
        for folder in segments(&pool, &manifest) {
            let scrubbed = match folder {
                Ok(segment) => self.scrub_segment(&segment, pace),
                Err(error) if is_gone(&error) => Err(error),
                Err(error) => {
                    self.scrubbed.lock().add(Problem::new(MANIFEST_NAME, error));
                    Ok(())
                }
            };
            match scrubbed {
                // The files of a state are removed once another has replaced it: the next round reads that one.
                Err(error) if is_gone(&error) => {
                    if Arc::ptr_eq(&manifest, &self.state.read().manifest) {
                        self.scrubbed.lock().add(Problem::new(MANIFEST_NAME, error));
                    }
                    return Ok(());
                }
                scrubbed => scrubbed?,
            }
        }
        self.scrubbed.lock().rounds += 1;
        Ok(())
    }

    fn scrub_segment(&self, segment: &Segment, pace: &Pace) -> Result<(), StoreError> {
        for file in segment.paged_files().chain([segment.dictionary.file()]) {
            scrub_file(file, pace, &self.scrubbed)?;
        }
        Ok(())
    }

    /// Returns the findings so far.
    pub(crate) fn scrubbed(&self) -> Scrubbed {
        self.scrubbed.lock().clone()
    }
}

/// Returns whether a file could not be opened, or reopened after too many were open, because it is gone.
fn is_gone(error: &StoreError) -> bool {
    match error {
        StoreError::Io(error) => error.is_not_found() || matches!(error, IoError::Gone { .. }),
        _ => false,
    }
}

/// Opens all segments that a manifest names.
fn segments<'m>(
    pool: &'m Arc<BufferPool>,
    manifest: &'m Manifest,
) -> impl Iterator<Item = Result<Segment, StoreError>> + 'm {
    let base = std::iter::once_with(|| Segment::open_base(pool, manifest));
    let runs = manifest.runs.iter().flat_map(|run| run.segments());
    let runs = runs.map(|(folder, entry)| Segment::open(pool, &folder, entry.quads, &entry.files));
    base.chain(runs)
}

fn scrub_file(file: &PagedFile, pace: &Pace, found: &Mutex<Scrubbed>) -> Result<(), StoreError> {
    let mut first = 0;
    while first < file.page_count() {
        pace.check()?;
        let end = (first + PAGES).min(file.page_count());
        // One by one, so that a bad page does not hide another.
        for number in first..end {
            match file.page(number) {
                Ok(_) => {}
                Err(error @ IoError::Gone { .. }) => return Err(error.into()),
                Err(error) => found.lock().add(Problem::new(file.name(), error.into())),
            }
        }
        found.lock().pages += end - first;
        pace.passed((end - first) as usize * file.page_bytes());
        first = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use pythia_io::{LogFile, MemoryStorage, ReadFile, ReadRequest, Storage, WriteFile};

    use super::*;
    use crate::Store;
    use crate::write::tests::{change, empty, many, open};

    /// A storage that closes files at once, so that a removed file cannot be read any more.
    #[derive(Debug)]
    struct ClosingStorage {
        inner: Arc<MemoryStorage>,
        /// The first read removes the file that it reads, as another thread may.
        removes: AtomicBool,
    }

    impl Storage for ClosingStorage {
        fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>, IoError> {
            self.inner.open(name)
        }
        fn create(&self, name: &str) -> Result<Box<dyn WriteFile>, IoError> {
            self.inner.create(name)
        }
        fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>, IoError> {
            self.inner.create_log(name, bytes)
        }
        fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>, IoError> {
            self.inner.open_log(name)
        }
        fn read_batch(&self, reads: &mut [ReadRequest<'_>]) -> Result<(), IoError> {
            for read in &*reads {
                let name = read.file.name();
                if name.starts_with("run-") && self.removes.swap(false, Ordering::Relaxed) {
                    self.inner.remove(name)?;
                }
                if !self.inner.exists(name)? {
                    let name = name.to_owned();
                    return Err(IoError::Gone { name });
                }
            }
            self.inner.read_batch(reads)
        }
        fn rename(&self, from: &str, to: &str) -> Result<(), IoError> {
            self.inner.rename(from, to)
        }
        fn sync_names(&self) -> Result<(), IoError> {
            self.inner.sync_names()
        }
        fn remove(&self, name: &str) -> Result<(), IoError> {
            self.inner.remove(name)
        }
        fn list(&self, folder: &str) -> Result<Vec<String>, IoError> {
            self.inner.list(folder)
        }
        fn read_all(&self, name: &str) -> Result<Vec<u8>, IoError> {
            self.inner.read_all(name)
        }
    }

    fn with_run() -> (Arc<ClosingStorage>, Store) {
        let storage = Arc::new(ClosingStorage {
            inner: empty(),
            removes: AtomicBool::new(false),
        });
        let store = open(Arc::clone(&storage) as _).expect("memory");
        change(&store, &many(0, 100), &[]).expect("memory");
        store.flush().expect("memory");
        (storage, store)
    }

    #[test]
    fn files_that_go_with_their_state_while_they_are_scrubbed_are_no_damage() {
        let (_storage, store) = with_run();
        let writer = store.writer().expect("open for writing");
        let manifest = Arc::clone(&store.manifest());
        let pool = BufferPool::new(Arc::clone(store.pool().storage()), BUDGET_BYTES_MIN);
        let segments: Vec<Segment> = segments(&pool, &manifest)
            .map(|segment| segment.expect("sound"))
            .collect();
        store.compact().expect("memory");
        let mut gone = 0;
        for segment in &segments {
            match writer.scrub_segment(segment, &Pace::default()) {
                Err(error) if is_gone(&error) => gone += 1,
                scrubbed => scrubbed.expect("nothing else"),
            }
        }
        assert!(gone > 0, "the run was replaced");
        assert_eq!(writer.scrubbed().problems, []);
        writer.scrub(&Pace::default()).expect("the new state");
        assert_eq!(writer.scrubbed().rounds, 1);
    }

    #[test]
    fn files_of_the_present_state_that_are_gone_are_damage() {
        let (storage, store) = with_run();
        let writer = store.writer().expect("open for writing");
        storage.removes.store(true, Ordering::Relaxed);
        writer
            .scrub(&Pace::default())
            .expect("what is found is no failure");
        assert_eq!(writer.scrubbed().problems.len(), 1);
        // The next round does not even open them.
        writer
            .scrub(&Pace::default())
            .expect("what is found is no failure");
        assert_eq!(writer.scrubbed().problems.len(), 2);
        assert_eq!(writer.scrubbed().rounds, 0);
    }
}
