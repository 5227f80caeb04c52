//! Reading of a column file: keys to row numbers, rows to pages.

use std::ops::Range;

use pythia_io::{Page, PagedFile};

use super::directory::{ColumnDirectory, PageEntry};
use super::format::{BadPage, Column};
use super::page::ColumnPage;
use crate::StoreError;
use crate::directory_pages::{self, Held};
use crate::pattern::GraphFilter;
use pythia_rdf::TermId;

/// An order of a segment in columns.
pub(crate) struct ColumnFile {
    file: PagedFile,
    directory_pages: PagedFile,
    directory: ColumnDirectory,
}

/// The effect of a graph filter on a page's rows, judged by the page's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageGraphs {
    /// No row passes.
    None,
    /// All rows pass.
    All,
    /// Some rows may pass.
    Some,
}

impl PageEntry {
    /// Returns the effect of a filter on the page, without reading it.
    pub(crate) fn graphs(&self, graph: GraphFilter) -> PageGraphs {
        let [min, max] = self.g;
        match graph {
            GraphFilter::Any => PageGraphs::All,
            GraphFilter::Named if max == 0 => PageGraphs::None,
            GraphFilter::Named if min > 0 => PageGraphs::All,
            GraphFilter::One(TermId(id)) if id < min || id > max => PageGraphs::None,
            GraphFilter::One(_) if min == max => PageGraphs::All,
            _ => PageGraphs::Some,
        }
    }
}

impl ColumnPage<'_> {
    /// Fails unless the page has as many rows as the directory says: row numbers come from there.
    pub(crate) fn check_rows(&self, rows: &Range<u64>) -> Result<(), BadPage> {
        match self.rows() as u64 == rows.end - rows.start {
            true => Ok(()),
            false => Err(BadPage("not as many rows as the directory says")),
        }
    }
}

impl ColumnFile {
    /// Returns the file with its directory, which must agree on the number of pages.
    pub(crate) fn new(file: PagedFile, directory: ColumnDirectory) -> Result<Self, StoreError> {
        if file.page_count() != directory.entries.file_pages() {
            let message = format!(
                "the directory knows {} pages, the file has {}",
                directory.entries.file_pages(),
                file.page_count()
            );
            return Err(StoreError::corrupt(file.name(), None, message));
        }
        Ok(Self {
            directory_pages: file.staying(directory_pages::GROUP),
            file,
            directory,
        })
    }

    pub(crate) fn directory(&self) -> &ColumnDirectory {
        &self.directory
    }

    pub(crate) fn file(&self) -> &PagedFile {
        &self.file
    }

    /// Returns the rows whose key starts with `prefix`: a predicate, then values of a and b. Reads nothing for a
    /// predicate that the directory counts, otherwise at most two pages.
    pub(crate) fn find(&self, prefix: &[u64]) -> Result<Range<u64>, StoreError> {
        let Some(&predicate) = prefix.first() else {
            return Ok(0..self.directory.rows);
        };
        if self.directory.is_counted() {
            let Some(entry) = self.directory.predicate(predicate) else {
                return Ok(0..0);
            };
            if prefix.len() == 1 {
                return Ok(entry.first_row..entry.first_row + entry.rows);
            }
        }
        let mut held = Held::default();
        let pages = self.pages_of(&mut held, prefix)?;
        if pages.is_empty() {
            return Ok(0..0);
        }
        let (first, last) = (pages.start as u64, pages.end as u64 - 1);
        let first_rows = self.entry(&mut held, pages.start)?.rows;
        let last_rows = self.entry(&mut held, pages.end - 1)?.rows;
        let mut rows = 0..0;
        let numbers = [first, last];
        let numbers = if first == last {
            &numbers[..1]
        } else {
            &numbers[..]
        };
        self.read(numbers, |number, page| {
            if number == first {
                page.check_rows(&first_rows)?;
                rows.start = first_rows.start + page.position(prefix, false)? as u64;
            }
            if number == last {
                page.check_rows(&last_rows)?;
                rows.end = last_rows.start + page.position(prefix, true)? as u64;
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// Returns the first row whose key is not less than `prefix`. Reads nothing for a predicate that the directory
    /// counts, otherwise at most one page.
    pub(crate) fn seek(&self, prefix: &[u64]) -> Result<u64, StoreError> {
        if let (&[predicate], true) = (prefix, self.directory.is_counted()) {
            let predicates = &self.directory.predicates;
            let index = predicates.partition_point(|entry| entry.predicate < predicate);
            return Ok(predicates
                .get(index)
                .map_or(self.directory.rows, |entry| entry.first_row));
        }
        let mut held = Held::default();
        let Some(page_number) = self.pages_before(&mut held, prefix, false)?.checked_sub(1) else {
            return Ok(0);
        };
        let rows = self.entry(&mut held, page_number)?.rows;
        let mut row = rows.start;
        self.read(&[page_number as u64], |_, page| {
            page.check_rows(&rows)?;
            row += page.position(prefix, false)? as u64;
            Ok(())
        })?;
        Ok(row)
    }

    /// Returns the pages that may hold rows whose key starts with `prefix`. Reads directory pages only. `held` is that
    /// of the last lookup.
    pub(crate) fn pages_of(
        &self,
        held: &mut Held,
        prefix: &[u64],
    ) -> Result<Range<usize>, StoreError> {
        let end = self.pages_before(held, prefix, true)?;
        let start = self.pages_before(held, prefix, false)?;
        Ok(start.saturating_sub(1).min(end)..end)
    }

    /// As [`ColumnDirectory::pages_before`].
    pub(crate) fn pages_before(
        &self,
        held: &mut Held,
        prefix: &[u64],
        after: bool,
    ) -> Result<usize, StoreError> {
        let file = &self.directory_pages;
        self.directory.pages_before(file, held, prefix, after)
    }

    /// As [`ColumnDirectory::page_of_row`].
    pub(crate) fn page_of_row(&self, held: &mut Held, row: u64) -> Result<usize, StoreError> {
        self.directory.page_of_row(&self.directory_pages, held, row)
    }

    /// As [`ColumnDirectory::entry`].
    pub(crate) fn entry(&self, held: &mut Held, page: usize) -> Result<PageEntry, StoreError> {
        self.directory.entry(&self.directory_pages, held, page)
    }

    /// Counts the `rows` that pass the filter. Reads only pages with rows of different graphs.
    pub(crate) fn count(&self, rows: Range<u64>, graph: GraphFilter) -> Result<u64, StoreError> {
        if graph == GraphFilter::Any || rows.is_empty() {
            return Ok(rows.end.saturating_sub(rows.start));
        }
        let mut count = 0;
        let (mut mixed, mut mixed_rows) = (Vec::new(), Vec::new());
        let mut held = Held::default();
        let first = self.page_of_row(&mut held, rows.start)?;
        for number in first..self.directory.pages() {
            let entry = self.entry(&mut held, number)?;
            if entry.rows.start >= rows.end {
                break;
            }
            match entry.graphs(graph) {
                PageGraphs::None => {}
                PageGraphs::All => {
                    let within = intersection(&entry.rows, &rows);
                    count += within.end - within.start;
                }
                PageGraphs::Some => {
                    mixed.push(number as u64);
                    mixed_rows.push(entry.rows);
                }
            }
        }
        let mut graphs = Vec::new();
        let mut mixed_rows = mixed_rows.iter();
        self.read(&mixed, |_, page| {
            let page_rows = mixed_rows.next().expect("one for each page");
            page.check_rows(page_rows)?;
            let within = intersection(page_rows, &rows);
            let local =
                (within.start - page_rows.start) as usize..(within.end - page_rows.start) as usize;
            graphs.clear();
            page.values(Column::G, local, &mut graphs)?;
            let accepted = graphs.iter().filter(|&&id| graph.accepts(TermId(id)));
            count += accepted.count() as u64;
            Ok(())
        })?;
        Ok(count)
    }

    /// Calls `f` with the pages of these sorted, distinct numbers, read in batches.
    pub(crate) fn read(
        &self,
        numbers: &[u64],
        mut f: impl FnMut(u64, &ColumnPage<'_>) -> Result<(), BadPage>,
    ) -> Result<(), StoreError> {
        self.file.pages(numbers, |index, page| {
            let number = numbers[index];
            let result = ColumnPage::new(page).and_then(|view| f(number, &view));
            result.map_err(|problem| self.corrupt(number, problem))
        })
    }

    /// Returns these pages, read as one batch; they stay in the cache while they are held.
    pub(crate) fn hold(&self, numbers: &[u64]) -> Result<Vec<Page>, StoreError> {
        let mut pages = Vec::with_capacity(numbers.len());
        self.file.pages(numbers, |_, page| {
            pages.push(page.clone());
            Ok::<_, StoreError>(())
        })?;
        Ok(pages)
    }

    /// Returns a view of a page of this file, which must have as many rows as the directory says.
    pub(crate) fn view<'a>(
        &self,
        entry: &PageEntry,
        number: u64,
        page: &'a Page,
    ) -> Result<ColumnPage<'a>, StoreError> {
        let view = ColumnPage::new(page).and_then(|view| {
            view.check_rows(&entry.rows)?;
            Ok(view)
        });
        view.map_err(|problem| self.corrupt(number, problem))
    }

    /// Returns the error for a damaged page.
    pub(crate) fn corrupt(&self, number: u64, problem: BadPage) -> StoreError {
        StoreError::corrupt(self.file.name(), number, problem.0)
    }

    /// Calls `f`, for each of the sorted, distinct `keys` (p, a or p, a, b), with its index and its rows on each
    /// page, in order. Reads the pages of all keys in batches.
    pub(crate) fn lists<const N: usize>(
        &self,
        keys: &[[u64; N]],
        mut f: impl FnMut(usize, &ColumnPage<'_>, Range<usize>) -> Result<(), BadPage>,
    ) -> Result<(), StoreError> {
        let mut numbers: Vec<u64> = Vec::new();
        let mut ranges = Vec::with_capacity(keys.len());
        let mut held = Held::default();
        for key in keys {
            let pages = self.pages_of(&mut held, key)?;
            let pages = pages.start as u64..pages.end as u64;
            // Neighbouring keys may share a page.
            let unlisted = numbers.last().map_or(0, |last| last + 1).max(pages.start);
            numbers.extend(unlisted..pages.end);
            ranges.push(pages);
        }
        let mut first_key = 0;
        self.read(&numbers, |number, page| {
            while ranges
                .get(first_key)
                .is_some_and(|pages| pages.end <= number)
            {
                first_key += 1;
            }
            let keys = keys.iter().zip(&ranges).enumerate().skip(first_key);
            for (index, (key, _)) in keys.take_while(|(_, (_, pages))| pages.start <= number) {
                let rows = page.find(key)?;
                if !rows.is_empty() {
                    f(index, page, rows)?;
                }
            }
            Ok(())
        })
    }
}

fn intersection(left: &Range<u64>, right: &Range<u64>) -> Range<u64> {
    left.start.max(right.start)..left.end.min(right.end)
}
