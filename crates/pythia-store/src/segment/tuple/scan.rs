//! All rows of a file, front to back: for dumps, checks and scans without a bound node.

use std::ops::Range;

use super::file::TupleFile;
use super::page::{Entry, PageError, Tuple, TuplePage};
use crate::StoreError;

/// Maximum bytes of pages decoded at a time. The first batch is one page, as many queries need no more; each following
/// one is larger by the factor [`GROWTH`].
const BATCH_BYTES: usize = 256 << 10;
/// Growth factor of a batch.
const GROWTH: u64 = 4;

/// Rows in order of node, predicate, other end and graph; raw id bits.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TupleRows {
    /// The nodes.
    pub node: Vec<u64>,
    /// The predicates.
    pub predicate: Vec<u64>,
    /// The ids at the other end.
    pub other: Vec<u64>,
    /// The graphs.
    pub graph: Vec<u64>,
    /// External lists, whose rows are missing above, in order.
    pub gaps: Vec<Gap>,
}

/// An external list found by a scan: the caller fetches its rows from the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The row of the batch before which the list belongs.
    pub row: usize,
    /// Its node.
    pub node: u64,
    /// Its predicate.
    pub predicate: u64,
    /// Its rows.
    pub count: u64,
}

impl TupleRows {
    /// Returns the number of rows in the batch, without those of gaps.
    pub fn len(&self) -> usize {
        self.other.len()
    }

    /// Returns whether there are neither rows nor gaps.
    pub fn is_empty(&self) -> bool {
        self.other.is_empty() && self.gaps.is_empty()
    }

    /// Removes the rows and keeps the capacity.
    pub fn clear(&mut self) {
        self.node.clear();
        self.predicate.clear();
        self.other.clear();
        self.graph.clear();
        self.gaps.clear();
    }
}

/// A scan over a range of pages. Its memory is one batch.
#[derive(Clone, Debug)]
pub struct TupleScan {
    file: TupleFile,
    pages: Range<u64>,
    /// Pages of the next batch, and of the largest.
    batch_pages: u64,
    batch_pages_max: u64,
}

impl TupleFile {
    /// Returns a scan of all pages.
    pub fn scan(&self) -> TupleScan {
        self.scan_pages(0..self.directory.pages())
    }

    /// Returns a scan of some pages. A split tuple may span two such parts of the file.
    pub fn scan_pages(&self, pages: Range<usize>) -> TupleScan {
        let end = pages.end.min(self.directory.pages()) as u64;
        TupleScan {
            file: self.clone(),
            pages: (pages.start as u64).min(end)..end,
            batch_pages: 1,
            batch_pages_max: (BATCH_BYTES / self.directory.page_bytes()).max(1) as u64,
        }
    }
}

impl TupleScan {
    /// Replaces `rows` by the next batch; returns false at the end.
    pub fn next_batch(&mut self, rows: &mut TupleRows) -> Result<bool, StoreError> {
        rows.clear();
        if self.pages.is_empty() {
            return Ok(false);
        }
        let end = (self.pages.start + self.batch_pages).min(self.pages.end);
        let batch = self.pages.start..end;
        self.file.file.pages_sequential(batch, |number, page| {
            TuplePage::parse(page)
                .and_then(|page| scan_page(&page, rows))
                .map_err(|error| self.file.corrupt(number, error))
        })?;
        self.pages.start = end;
        self.batch_pages = (self.batch_pages * GROWTH).min(self.batch_pages_max);
        Ok(true)
    }
}

/// Appends all rows of a page.
pub(super) fn scan_page(page: &TuplePage<'_>, out: &mut TupleRows) -> Result<(), PageError> {
    let start = out.len();
    let mut before: Option<Tuple> = None;
    for number in 0..page.tuples() {
        let tuple = match &before {
            Some(before) => page.tuple_after(before, number)?,
            None => page.tuple(number)?,
        };
        let node = page.node(number);
        page.visit(&tuple, page.all_columns(), |entry| {
            append(page, node, &entry, out);
            if out.len() - start > page.rows() {
                return Err(PageError("more rows than the header says"));
            }
            Ok(())
        })?;
        before = Some(tuple);
    }
    if out.len() - start < page.rows() {
        return Err(PageError("fewer rows than the header says"));
    }
    Ok(())
}

fn append(page: &TuplePage<'_>, node: u64, entry: &Entry, out: &mut TupleRows) {
    let predicate = page.predicate(entry);
    if entry.is_external() {
        out.gaps.push(Gap {
            row: out.len(),
            node,
            predicate,
            count: entry.count,
        });
        return;
    }
    page.values(entry, &mut out.other);
    let end = out.other.len();
    out.node.resize(end, node);
    out.predicate.resize(end, predicate);
    if page.has_one_graph(entry) {
        let graph = page.graph(page.graph_number(entry, 0));
        out.graph.resize(end, graph);
    } else {
        let graphs = (0..entry.count as usize).map(|row| page.graph(page.graph_number(entry, row)));
        out.graph.extend(graphs);
    }
}
