//! A simulated store that updates pages in place, for the paper's comparison. The product has none.
//!
//! Each changed quad costs some pages: a random page of a file is read and written back, one after the other, and the file is
//! synced after the changes of a commit. The file is as large as the store's orders and on the same device, and is read and
//! written past the kernel's cache. A store that keeps one order, as the paper's table, changes one page for a changed
//! quad; one with the four orders of this store changes six if a quad's object changes: one in SPO and in PSO, two in OPS and POS.
//! Nothing is saved by a buffer pool, which would help where updates are frequent or pages hot; and there is no log, for
//! which the sync of the pages stands.

use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use pythia_io::AlignedBuffer;
use pythia_io::probe::{SplitMix, TestFile};

/// Bytes of a page that an update changes.
const CHANGED_BYTES: usize = 64;

/// The pages.
pub(super) struct Pages {
    file: TestFile,
    buffer: AlignedBuffer,
    random: SplitMix,
}

impl Pages {
    /// Creates pages of this size in a file without a name.
    pub(super) fn create(folder: &Path, bytes: u64, page_bytes: usize, seed: u64) -> Result<Self> {
        Ok(Self {
            file: TestFile::create(folder, bytes).context("make a file of pages to update")?,
            buffer: AlignedBuffer::zeroed(page_bytes),
            random: SplitMix(seed),
        })
    }

    /// Returns the reason why pages go through the kernel's cache, if they do.
    pub(super) fn not_direct(&self) -> Option<&str> {
        self.file.not_direct()
    }

    /// Updates this number of random pages and syncs the file.
    pub(super) fn update(&mut self, pages: u64) -> Result<()> {
        let page_bytes = self.buffer.len();
        let places = self.file.bytes() / page_bytes as u64;
        let file = self.file.file();
        for _ in 0..pages {
            let offset = self.random.below(places) * page_bytes as u64;
            file.read_exact_at(&mut self.buffer, offset)
                .context("read a page to update")?;
            let start = self.random.below((page_bytes - CHANGED_BYTES) as u64) as usize;
            self.random
                .fill(&mut self.buffer[start..start + CHANGED_BYTES]);
            file.write_all_at(&self.buffer, offset)
                .context("write an updated page")?;
        }
        file.sync_data().context("sync updated pages")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_change_pages_in_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut pages = Pages::create(folder.path(), 16 << 20, 8192, 1).expect("it is made");
        let all = |pages: &Pages| {
            let mut bytes = AlignedBuffer::zeroed(pages.file.bytes() as usize);
            let file = pages.file.file();
            file.read_exact_at(&mut bytes, 0).expect("it is read");
            bytes
        };
        let before = all(&pages);
        pages.update(5).expect("the device works");
        let after = all(&pages);
        let changed = before.chunks(8192).zip(after.chunks(8192));
        let changed = changed.filter(|(before, after)| before != after).count();
        assert!((1..=5).contains(&changed), "{changed} pages");
    }
}
