//! Read-ahead: few pages at first, as many queries need no more, then increasingly more.

use std::ops::Range;

use pythia_io::PagedFile;

/// Most pages that are read ahead.
const WINDOW_PAGES_MAX: usize = 32;

/// Growth factor of a window.
const GROWTH: usize = 4;

/// The number of pages to read at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadAhead {
    pages: usize,
    most: usize,
}

impl ReadAhead {
    pub(crate) fn new(file: &PagedFile) -> Self {
        Self {
            pages: 1,
            most: most(file),
        }
    }

    pub(crate) fn next(&mut self) -> usize {
        let pages = self.pages;
        self.pages = (pages * GROWTH).min(self.most);
        pages
    }
}

/// Returns the largest window: a sixty-fourth of the pool; for a small pool, a few pages up to a sixteenth.
fn most(file: &PagedFile) -> usize {
    let pool_pages = file.pool().budget_bytes() / file.page_bytes();
    let few = (pool_pages / 16).min(GROWTH);
    (pool_pages / 64).max(few).clamp(1, WINDOW_PAGES_MAX)
}

/// Pages of one file that are requested in order, a few at a time.
///
/// If each call continues where the previous one ended, the pages after it are likely to be requested next, and are
/// read along with the missing ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageSequence {
    /// The page after the last requested one; `None` before the first call.
    next: Option<u64>,
    /// Pages before this one have been read.
    read: u64,
    window: usize,
}

impl PageSequence {
    /// Returns the pages to be read along with these, which are sorted and distinct.
    pub(crate) fn along_with(&mut self, pages: &[u64], file: &PagedFile) -> Range<u64> {
        let (Some(&first), Some(&last)) = (pages.first(), pages.last()) else {
            return 0..0;
        };
        let end = last + 1;
        // A few pages may be left out.
        let reach = 2 * pages.len() as u64;
        let goes_on = self
            .next
            .is_some_and(|next| first + 1 >= next && first <= next + reach);
        self.next = Some(end);
        if !goes_on || end - first > reach {
            (self.read, self.window) = (end, 0);
            return 0..0;
        }
        if end < self.read || file.contains(last) {
            return 0..0;
        }
        self.window = (self.window * GROWTH).max(GROWTH).min(most(file));
        self.read = (end + self.window as u64).min(file.page_count());
        end..self.read
    }
}

/// The read-ahead state does not affect results: expansions are equal without it.
impl PartialEq for PageSequence {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for PageSequence {}
