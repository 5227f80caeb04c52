//! Reading all pages again and again, slowly: what goes bad on the device is found while a backup
//! still has it (Hyder §3.1).

use std::sync::Arc;

use parking_lot::Mutex;
use pythia_io::{BUDGET_BYTES_MIN, BufferPool, DeviceProfile, IoError, PagedFile};

use super::Writer;
use crate::StoreError;
use crate::manifest::{MANIFEST_NAME, Manifest};
use crate::pace::Pace;
use crate::pattern::Order;
use crate::segment::Segment;
use crate::verify::Problem;

/// Pages read at a time.
const PAGES: u64 = 16;

/// What scrubbing has found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Times that all pages were read.
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
    /// Reads all pages of base and runs once, at a pace, past the cache.
    pub(crate) fn scrub(&self, pace: &Pace) -> Result<(), StoreError> {
        let manifest = self.manifest();
        let storage = Arc::clone(self.pool.storage());
        let pool = BufferPool::try_new(storage, BUDGET_BYTES_MIN, DeviceProfile::default())?;
        for folder in segments(&pool, &manifest) {
            match folder {
                Ok(segment) => self.scrub_segment(&segment, pace)?,
                // A new state has taken its place: the next round reads that.
                Err(StoreError::Io(error)) if error.is_not_found() => return Ok(()),
                Err(error) => self.scrubbed.lock().add(Problem::new(MANIFEST_NAME, error)),
            }
        }
        self.scrubbed.lock().rounds += 1;
        Ok(())
    }

    fn scrub_segment(&self, segment: &Segment, pace: &Pace) -> Result<(), StoreError> {
        let files = Order::ALL.map(|order| segment.paged_file(order));
        for file in files.into_iter().chain([segment.dictionary.file()]) {
            scrub_file(file, pace, &self.scrubbed)?;
        }
        Ok(())
    }

    /// What scrubbing has found so far.
    pub(crate) fn scrubbed(&self) -> Scrubbed {
        self.scrubbed.lock().clone()
    }
}

/// All segments that a manifest names.
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
            if let Err(error) = file.page(number) {
                let error: IoError = error;
                found.lock().add(Problem::new(file.name(), error.into()));
            }
        }
        found.lock().pages += end - first;
        pace.passed((end - first) as usize * file.page_bytes());
        first = end;
    }
    Ok(())
}
