//! A file of tuple pages behind the buffer pool, and requests about single nodes.

use std::ops::Range;
use std::sync::Arc;

use pythia_io::PagedFile;
use pythia_rdf::TermId;

use super::directory::TupleDirectory;
use super::page::{Entry, GraphNumbers, PageError, Tuple, TuplePage};
use crate::StoreError;
use crate::directory_pages::{self, Held};
use crate::pattern::GraphFilter;

/// The existence of an edge, as far as a tuple page knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// It exists.
    Yes,
    /// It does not.
    No,
    /// Its list is external: only the columns know.
    External,
}

/// SPO or OPS of a segment. Clones share the file.
#[derive(Clone, Debug)]
pub struct TupleFile {
    pub(super) file: PagedFile,
    directory_pages: PagedFile,
    pub(super) directory: Arc<TupleDirectory>,
}

impl TupleFile {
    /// Returns the file with its directory, which must agree on the number and size of pages.
    pub fn new(file: PagedFile, directory: Arc<TupleDirectory>) -> Result<Self, StoreError> {
        let pages = (directory.file_pages(), directory.page_bytes());
        if pages != (file.page_count(), file.page_bytes()) {
            return Err(StoreError::corrupt(
                file.name(),
                None,
                format!(
                    "{} pages of {} bytes, but the directory knows {} of {}",
                    file.page_count(),
                    file.page_bytes(),
                    pages.0,
                    pages.1
                ),
            ));
        }
        Ok(Self {
            directory_pages: file.staying(directory_pages::GROUP),
            file,
            directory,
        })
    }

    /// Returns the directory.
    pub fn directory(&self) -> &TupleDirectory {
        &self.directory
    }

    /// Returns the pages.
    pub fn file(&self) -> &PagedFile {
        &self.file
    }

    /// Returns whether the edge exists. Reads at most one page.
    pub fn probe(
        &self,
        node: TermId,
        predicate: TermId,
        other: TermId,
        graph: GraphFilter,
    ) -> Result<Probe, StoreError> {
        let mut answer = Probe::No;
        self.visit_node(node, Some(predicate), |page, tuple| {
            answer = probe_tuple(page, tuple, predicate, other, page.graph_numbers(graph))?;
            Ok(())
        })?;
        Ok(answer)
    }

    /// Probes many (node, other) pairs, sorted by node; appends one answer each. Reads all pages as one batch.
    pub fn probe_batch(
        &self,
        predicate: TermId,
        pairs: &[(TermId, TermId)],
        graph: GraphFilter,
        out: &mut Vec<Probe>,
    ) -> Result<(), StoreError> {
        debug_assert!(pairs.is_sorted_by_key(|pair| pair.0), "sorted by node");
        let start = out.len();
        out.resize(start + pairs.len(), Probe::No);
        // Runs of pairs by page; one predicate of a node is on one page.
        let mut pages: Vec<u64> = Vec::new();
        let mut firsts: Vec<usize> = Vec::new();
        let mut held = Held::default();
        for (index, pair) in pairs.iter().enumerate() {
            let located = self.locate(&mut held, pair.0.0)?;
            let located = self.narrow_to(&mut held, located, pair.0, predicate)?;
            // A node before the first page gets the first page, which does not have it.
            let page = located.start as u64;
            if pages.last() != Some(&page) {
                pages.push(page);
                firsts.push(index);
            }
        }
        if self.directory.pages() == 0 {
            return Ok(());
        }
        self.file.pages(&pages, |index, bytes| {
            let first = firsts[index];
            let end = firsts.get(index + 1).copied().unwrap_or(pairs.len());
            let answers = &mut out[start + first..start + end];
            TuplePage::parse(bytes)
                .and_then(|page| probe_page(&page, predicate, &pairs[first..end], graph, answers))
                .map_err(|error| self.corrupt(pages[index], error))
        })
    }

    /// Counts the node's edges with the predicate, or all its edges, in all graphs: exact, including external lists,
    /// without reading a value. Reads one page, or those of a split tuple.
    pub fn count(&self, node: TermId, predicate: Option<TermId>) -> Result<u64, StoreError> {
        let mut count = 0_u64;
        self.visit_node(node, predicate, |page, tuple| {
            let columns = predicate.map_or(page.all_columns(), |one| page.columns_of(one.0));
            page.visit(tuple, columns, |entry| {
                count = count.saturating_add(entry.count);
                Ok(())
            })
        })?;
        Ok(count)
    }

    /// Appends the predicates of the node, sorted, with the number of edges of each.
    pub fn predicates(&self, node: TermId, out: &mut Vec<(TermId, u64)>) -> Result<(), StoreError> {
        let start = out.len();
        self.visit_node(node, None, |page, tuple| {
            page.visit(tuple, page.all_columns(), |entry| {
                let predicate = TermId(page.predicate(&entry));
                match out[start..].last_mut() {
                    Some(last) if last.0 == predicate => {
                        last.1 = last.1.saturating_add(entry.count);
                    }
                    _ => out.push((predicate, entry.count)),
                }
                Ok(())
            })
        })
    }

    /// Calls `f` with the node's tuple, or each part of it that may have the predicate.
    fn visit_node(
        &self,
        node: TermId,
        predicate: Option<TermId>,
        mut f: impl FnMut(&TuplePage<'_>, &Tuple) -> Result<(), PageError>,
    ) -> Result<(), StoreError> {
        for number in self.pages_of(&mut Held::default(), node, predicate)? {
            let page = self.file.page(number as u64)?;
            let mut visit = || {
                let page = TuplePage::parse(&page)?;
                match page.find(node.0) {
                    Some(tuple) => f(&page, &page.tuple(tuple)?),
                    None => Ok(()),
                }
            };
            visit().map_err(|error| self.corrupt(number as u64, error))?;
        }
        Ok(())
    }

    /// Returns the pages that may hold the node's list of the predicate, or all its lists.
    #[inline]
    pub(super) fn pages_of(
        &self,
        held: &mut Held,
        node: TermId,
        predicate: Option<TermId>,
    ) -> Result<Range<usize>, StoreError> {
        let pages = self.locate(held, node.0)?;
        match predicate {
            Some(predicate) => self.narrow_to(held, pages, node, predicate),
            None => Ok(pages),
        }
    }

    /// Returns the pages that hold the node if it exists: one, unless its tuple is split; none if the node is smaller
    /// than all. `held` is that of the last node.
    #[inline]
    pub(crate) fn locate(&self, held: &mut Held, node: u64) -> Result<Range<usize>, StoreError> {
        let (file, entries) = (&self.directory_pages, &self.directory.entries);
        let end = entries.partition_point(file, held, |&[first, _]| first <= node)?;
        let Some(last) = end.checked_sub(1) else {
            return Ok(0..0);
        };
        if entries.get(file, held, last)?[0] != node {
            return Ok(last..end);
        }
        // The tuple may be split; then it begins its first page.
        let start = entries.partition_point(file, held, |&[first, _]| first < node)?;
        Ok(start..end)
    }

    /// Returns the first page that may hold the node. Reads a directory page only.
    pub fn page_of(&self, node: TermId) -> Result<u64, StoreError> {
        let pages = self.locate(&mut Held::default(), node.0)?;
        Ok(pages.start as u64)
    }

    /// Returns, of the pages of a node, those that may hold one of its predicates.
    #[inline]
    fn narrow_to(
        &self,
        held: &mut Held,
        pages: Range<usize>,
        node: TermId,
        predicate: TermId,
    ) -> Result<Range<usize>, StoreError> {
        if pages.len() <= 1 {
            return Ok(pages);
        }
        let (file, entries) = (&self.directory_pages, &self.directory.entries);
        let wanted = [node.0, predicate.0];
        let end = entries.partition_point(file, held, |entry| *entry <= wanted)?;
        Ok(end.saturating_sub(1).max(pages.start)..end.max(pages.start))
    }

    /// Returns the first node of a page, as the directory has it.
    pub(crate) fn first_node(&self, page: usize) -> Result<u64, StoreError> {
        let (file, entries) = (&self.directory_pages, &self.directory.entries);
        Ok(entries.get(file, &mut Held::default(), page)?[0])
    }

    pub(super) fn corrupt(&self, page: u64, error: PageError) -> StoreError {
        StoreError::corrupt(self.file.name(), page, error.0)
    }
}

fn probe_page(
    page: &TuplePage<'_>,
    predicate: TermId,
    pairs: &[(TermId, TermId)],
    graph: GraphFilter,
    answers: &mut [Probe],
) -> Result<(), PageError> {
    let graphs = page.graph_numbers(graph);
    let mut number = 0;
    let mut tuple: Option<(u64, Tuple)> = None;
    for (&(node, other), answer) in pairs.iter().zip(answers) {
        if tuple.as_ref().is_none_or(|(last, _)| *last != node.0) {
            number = page.lower_bound(number, node.0);
            if number >= page.tuples() {
                break;
            }
            if page.node(number) != node.0 {
                continue;
            }
            tuple = Some((node.0, page.tuple(number)?));
        }
        if let Some((_, tuple)) = &tuple {
            *answer = probe_tuple(page, tuple, predicate, other, graphs)?;
        }
    }
    Ok(())
}

fn probe_tuple(
    page: &TuplePage<'_>,
    tuple: &Tuple,
    predicate: TermId,
    other: TermId,
    graphs: GraphNumbers,
) -> Result<Probe, PageError> {
    let mut answer = Probe::No;
    page.visit(tuple, page.columns_of(predicate.0), |entry: Entry| {
        if entry.is_external() {
            answer = Probe::External;
        } else if answer == Probe::No
            && page
                .rows_of(&entry, other.0)
                .any(|row| graphs.accept(page.graph_number(&entry, row)))
        {
            answer = Probe::Yes;
        }
        Ok::<(), PageError>(())
    })?;
    Ok(answer)
}
