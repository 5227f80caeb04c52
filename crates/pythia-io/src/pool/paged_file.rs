//! A file of sealed pages, read through the pool.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ahead::Pages;
use super::counters::DeviceCounters;
use super::{BufferPool, Lookup, Page, PageKey};
use crate::IoError;
use crate::storage::ReadFile;

/// Number of windows of a large batch that are read ahead, each by a helper.
const AHEAD_WINDOWS: usize = 2;
/// Pages of such a window, as a multiple of the device's queue depth.
const AHEAD_DEPTHS: usize = 2;

/// A file of sealed pages of one size. Clones share the file.
#[derive(Clone)]
pub struct PagedFile {
    inner: Arc<FileInner>,
}

/// The file and its settings. Its pages leave the pool when it is dropped.
pub(super) struct FileInner {
    pub(super) pool: Arc<BufferPool>,
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) page_bytes: usize,
    pub(super) group: usize,
    pub(super) counters: Arc<DeviceCounters>,
    batch: Window,
    /// Pages of a large batch that are read ahead at a time, while others are served.
    ahead_pages: Option<usize>,
    scan: Window,
    id: u32,
    page_count: u64,
    /// Whether its pages stay in the pool longer than other pages do.
    pub(super) stays: bool,
}

/// Limits of one window of pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Pages served together, including cached ones; they are pinned meanwhile.
    pub(super) slots: usize,
    /// Pages read together.
    pub(super) reads: usize,
}

impl PagedFile {
    pub(super) fn new(
        pool: Arc<BufferPool>,
        file: Arc<dyn ReadFile>,
        id: u32,
        page_bytes: usize,
        group: usize,
        counters: Arc<DeviceCounters>,
    ) -> Self {
        let most = pool.window_pages(page_bytes);
        let depth = pool.device.depth(page_bytes).max(1);
        let batch = Window {
            slots: (4 * depth).min(most),
            reads: depth.min(most),
        };
        // If there is no room to keep the device busy, smaller windows would only be slower.
        let room = pool.ahead_pages(page_bytes);
        let ahead_pages = (room >= depth).then_some(room.min(AHEAD_DEPTHS * depth));
        let scan_pages = (pool.device.scan_window_bytes() / page_bytes).clamp(1, most);
        let scan = Window {
            slots: scan_pages,
            reads: scan_pages,
        };
        let page_count = file.len() / page_bytes as u64;
        Self {
            inner: Arc::new(FileInner {
                pool,
                file,
                page_bytes,
                group,
                counters,
                batch,
                ahead_pages,
                scan,
                id,
                page_count,
                stays: false,
            }),
        }
    }

    /// Returns the same file, opened again for pages that many reads need first, as those of a directory do: they stay
    /// in the pool longer than other pages, and are counted under `group`.
    #[must_use]
    pub fn staying(&self, group: &'static str) -> Self {
        let inner = &*self.inner;
        let id = inner.pool.next_file.fetch_add(1, Ordering::Relaxed);
        let (group, counters) = inner.pool.group(group);
        Self {
            inner: Arc::new(FileInner {
                pool: Arc::clone(&inner.pool),
                file: Arc::clone(&inner.file),
                group,
                counters,
                id,
                stays: true,
                ..*inner
            }),
        }
    }

    /// Returns the number of pages in the file.
    pub fn page_count(&self) -> u64 {
        self.inner.page_count
    }

    /// Returns the size of a page in bytes.
    pub fn page_bytes(&self) -> usize {
        self.inner.page_bytes
    }

    /// Returns the file's name within its storage.
    pub fn name(&self) -> &str {
        self.inner.file.name()
    }

    /// Returns the pool.
    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.inner.pool
    }

    /// Returns one page, from the pool or with one device read.
    #[inline]
    pub fn page(&self, number: u64) -> Result<Page, IoError> {
        let inner = &*self.inner;
        match inner.pool.get(inner.key(number), inner.group) {
            Lookup::Hit(page) => Ok(page),
            _ => inner.load(number),
        }
    }

    /// Returns the page if it is in the pool.
    pub fn cached(&self, number: u64) -> Option<Page> {
        let inner = &*self.inner;
        match inner.pool.get(inner.key(number), inner.group) {
            Lookup::Hit(page) => Some(page),
            _ => None,
        }
    }

    /// Returns whether the page is in the pool, without counting a use.
    pub fn contains(&self, number: u64) -> bool {
        self.inner.pool.contains(self.inner.key(number))
    }

    /// Passes pages to `f` by number, in the given order, each with its index in `numbers`.
    ///
    /// `numbers` should be sorted and distinct. Pages that are not in the pool are read in windows of the device's
    /// queue depth. Each window is submitted as one batch, in which neighbours become one read. At most one window
    /// of pages is pinned at a time. Of a large batch, helper threads read the next windows while `f` works on
    /// this one, so that the device is never idle. Stops at the first error, of a read or of `f`.
    pub fn pages<E: From<IoError>>(
        &self,
        numbers: &[u64],
        mut f: impl FnMut(usize, &Page) -> Result<(), E>,
    ) -> Result<(), E> {
        let inner = &*self.inner;
        let window = match inner.ahead_pages {
            Some(window) if numbers.len() > window => window,
            _ => return self.serve(inner.batch, numbers.len(), |index| numbers[index], f),
        };
        // Nothing is read ahead while pages are found in the pool.
        let mut next = 0;
        while let Some(page) = numbers.get(next).and_then(|number| self.cached(*number)) {
            f(next, &page)?;
            next += 1;
        }
        let windows = || numbers[next..].chunks(window);
        let hint = |pages: Option<&[u64]>| {
            if let Some(pages) = pages {
                inner
                    .pool
                    .ahead
                    .hint(&self.inner, Pages::List(pages.into()));
            }
        };
        let mut later = windows().skip(1);
        for _ in 1..AHEAD_WINDOWS {
            hint(later.next());
        }
        let mut start = next;
        for pages in windows() {
            hint(later.next());
            let serve = |index: usize, page: &Page| f(start + index, page);
            self.serve(inner.batch, pages.len(), |index| pages[index], serve)?;
            start += pages.len();
        }
        Ok(())
    }

    /// Passes all pages of a range to `f` in order, with their numbers, in large reads.
    ///
    /// At most one window (1 MiB on most devices) is pinned at a time; the next one is read meanwhile.
    pub fn pages_sequential<E: From<IoError>>(
        &self,
        range: Range<u64>,
        mut f: impl FnMut(u64, &Page) -> Result<(), E>,
    ) -> Result<(), E> {
        let inner = &*self.inner;
        let window_pages = inner.scan.reads as u64;
        let mut ahead: Option<Range<u64>> = None;
        let mut next = range.start;
        while next < range.end {
            // Reads ahead from the first miss on. On entering what was read ahead, reads on.
            let due = match &ahead {
                Some(ahead) => ahead.start <= next,
                None => !inner.pool.contains(inner.key(next)),
            };
            if due {
                let start = ahead
                    .map_or(next + window_pages, |ahead| ahead.end)
                    .min(range.end);
                let end = (start + window_pages).min(range.end);
                self.prefetch(start..end);
                ahead = Some(start..end);
            }
            let start = next;
            let end = (start + window_pages).min(range.end);
            self.serve(
                inner.scan,
                (end - start) as usize,
                |index| start + index as u64,
                |index, page| {
                    next = start + index as u64 + 1;
                    f(start + index as u64, page)
                },
            )?;
        }
        Ok(())
    }

    /// Announces that these pages will be requested soon. Of a long range, only the first window counts (1 MiB on
    /// most devices, or an eighth of a small pool). Returns at once: a helper thread reads the pages that are not
    /// in the pool, in large reads.
    pub fn prefetch(&self, pages: Range<u64>) {
        let inner = &self.inner;
        let most = pages.start.saturating_add(inner.scan.reads as u64);
        let end = pages.end.min(most).min(inner.page_count);
        if pages.start < end {
            inner.pool.ahead.hint(inner, Pages::Range(pages.start..end));
        }
    }

    fn serve<E: From<IoError>>(
        &self,
        limits: Window,
        count: usize,
        number: impl Fn(usize) -> u64,
        mut f: impl FnMut(usize, &Page) -> Result<(), E>,
    ) -> Result<(), E> {
        let inner = &*self.inner;
        let mut window: Vec<(usize, Page)> = Vec::new();
        let mut next = 0;
        while next < count {
            // Cached pages are passed on as they are found, up to the first miss.
            if let Some(page) = self.cached(number(next)) {
                f(next, &page)?;
                next += 1;
                continue;
            }
            next = inner.load_window(limits, next..count, &number, &mut |index, page| {
                window.push((index, page));
            })?;
            // Each page is released as soon as `f` is done with it.
            for (index, page) in window.drain(..) {
                f(index, &page)?;
            }
        }
        Ok(())
    }
}

impl FileInner {
    pub(super) fn key(&self, number: u64) -> PageKey {
        PageKey {
            file: self.id,
            page: number,
        }
    }

    pub(super) fn check_number(&self, number: u64) -> Result<(), IoError> {
        if number < self.page_count {
            return Ok(());
        }
        Err(IoError::PageOutOfRange {
            file: self.file.name().to_owned(),
            page: number,
            page_count: self.page_count,
        })
    }
}

impl Drop for FileInner {
    fn drop(&mut self) {
        self.pool.drop_pages(Some(self.id));
    }
}

impl fmt::Debug for PagedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.inner;
        write!(
            f,
            "PagedFile({}, {} pages of {} bytes)",
            inner.file.name(),
            inner.page_count,
            inner.page_bytes
        )
    }
}
