//! Reachability labels: tell whether a path of a predicate's edges leads from one term to another, by reading a page
//! or two for each term instead of a search.
//!
//! The edges of one predicate in the default graph are condensed to their strongly connected components, which are
//! numbered so that edges lead downwards. Every component is labelled with intervals of numbers that include all
//! components it reaches. A reversed graph often has shorter labels (a tree's children all point to
//! one parent), so the shorter of both are kept. Where intervals are only approximate, [`search`] follows the
//! condensed edges kept for that.

use std::sync::Arc;

use pythia_io::{BufferPool, PagedFile};
use pythia_rdf::TermId;
use rustc_hash::FxHashMap;

use crate::StoreError;
use crate::pattern::End;

pub(crate) mod format;
mod search;
#[cfg(test)]
mod tests;

use format::{Directory, Label, NodeComponent, PAGE_BYTES, PageKind, PageView};

/// The name of the paged file.
pub(crate) const PAGES_NAME: &str = "labels.pages";
/// The name of the file that is kept in memory.
pub(crate) const DIRECTORY_NAME: &str = "directory";

/// The labels of one predicate. Clones share them.
#[derive(Clone, Debug)]
pub struct Reachability {
    directory: Arc<Directory>,
    file: PagedFile,
}

/// Properties of labels that are known without reading them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReachabilityReport {
    /// Edges of the predicate in the default graph.
    pub edges: u64,
    /// Terms at their ends.
    pub nodes: u64,
    /// Strongly connected components.
    pub components: u64,
    /// Components whose intervals decide without a search.
    pub exact: u64,
    /// Intervals of all components together.
    pub intervals: u64,
    /// Edges between components that are kept for searches.
    pub links: u64,
    /// Whether labels describe the terms that reach a term, instead of those that it reaches.
    pub reversed: bool,
}

/// The answer of a label about another component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Reached,
    Unreached,
    Unsure,
}

impl Reachability {
    /// Opens the labels in a folder: reads their directory.
    pub(super) fn open(
        pool: &Arc<BufferPool>,
        folder: &str,
        predicate: TermId,
    ) -> Result<Self, StoreError> {
        let name = format!("{folder}/{DIRECTORY_NAME}");
        let directory = Directory::from_bytes(&name, &pool.storage().read_all(&name)?)?;
        let file = pool.open(
            &format!("{folder}/{PAGES_NAME}"),
            PAGE_BYTES,
            "reachability",
        )?;
        let pages = directory.link_pages().end;
        if pages != file.page_count() || directory.predicate != predicate.0 {
            let message = format!(
                "it knows {pages} pages of {:?}, but there are {} of {predicate:?}",
                TermId(directory.predicate),
                file.page_count()
            );
            return Err(StoreError::corrupt(name, None, message));
        }
        let directory = Arc::new(directory);
        Ok(Self { directory, file })
    }

    /// Returns the predicate.
    pub fn predicate(&self) -> TermId {
        TermId(self.directory.predicate)
    }

    /// Returns the properties that are known without reading.
    pub fn report(&self) -> ReachabilityReport {
        let directory = &self.directory;
        ReachabilityReport {
            edges: directory.edges,
            nodes: directory.nodes,
            components: directory.components.into(),
            exact: directory.exact.into(),
            intervals: directory.intervals,
            links: directory.links,
            reversed: directory.reversed,
        }
    }

    /// Returns the directory.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the pages.
    pub(crate) fn file(&self) -> &PagedFile {
        &self.file
    }

    /// Returns the approximate memory of the directory.
    pub fn memory_bytes(&self) -> usize {
        self.directory.node_pages.capacity() * 8 + self.directory.label_pages.capacity() * 4
    }

    /// Returns, for each (from, to), whether a path of one or more edges leads there. Pairs may come in any order.
    /// Reads the pages of all terms as one batch, those of all labels as another; pairs that are still unsure are
    /// searched for.
    ///
    /// `watch` is called between batches of a search with the bytes that it holds; its error ends the search.
    pub fn reaches<E: From<StoreError>>(
        &self,
        pairs: &[(TermId, TermId)],
        watch: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<Vec<bool>, E> {
        let places = self.places(pairs.iter().flat_map(|&(from, to)| [from, to]))?;
        let mut found = vec![false; pairs.len()];
        // Pairs of different components, in the labels' direction.
        let mut asked: Vec<(u32, u32, usize)> = Vec::new();
        for (index, (from, to)) in pairs.iter().enumerate() {
            let (Some(from), Some(to)) = (places.get(from), places.get(to)) else {
                continue;
            };
            let (from, to) = match self.directory.reversed {
                true => (to, from),
                false => (from, to),
            };
            if from.component == to.component {
                found[index] = from.cyclic;
            } else if from.component > to.component {
                asked.push((from.component, to.component, index));
            }
        }
        asked.sort_unstable();
        let mut sources: Vec<u32> = asked.iter().map(|asked| asked.0).collect();
        sources.dedup();
        let mut unsure: Vec<(u32, u32, usize)> = Vec::new();
        let mut next = 0;
        self.labels(&sources, |source, label| {
            while let Some(&(from, to, index)) = asked.get(next).filter(|asked| asked.0 == source) {
                match label.verdict(from, to) {
                    Verdict::Reached => found[index] = true,
                    Verdict::Unreached => {}
                    Verdict::Unsure => unsure.push((from, to, index)),
                }
                next += 1;
            }
        })?;
        for group in unsure.chunk_by(|a, b| a.0 == b.0) {
            let mut targets: Vec<u32> = group.iter().map(|asked| asked.1).collect();
            targets.dedup();
            let reached = search::search(self, group[0].0, targets, watch)?;
            for (_, to, index) in group {
                found[*index] = reached.contains(to);
            }
        }
        Ok(found)
    }

    /// Returns about how many terms a term reaches ([`End::Subject`]), or is reached by, if the labels have that
    /// direction. Reads at most two pages.
    pub fn reach(&self, term: TermId, end: End) -> Result<Option<u64>, StoreError> {
        if self.directory.reversed != (end == End::Object) {
            return Ok(None);
        }
        let places = self.places([term].into_iter())?;
        let Some(place) = places.get(&term) else {
            return Ok(Some(0));
        };
        let mut numbers = 0;
        self.labels(&[place.component], |_, label| {
            numbers = label.intervals.iter().map(|interval| interval.len()).sum();
        })?;
        let per_component = self.directory.nodes as f64 / f64::from(self.directory.components);
        Ok(Some((numbers as f64 * per_component) as u64))
    }

    /// Returns the places of terms; terms that are not nodes have none.
    fn places(
        &self,
        terms: impl Iterator<Item = TermId>,
    ) -> Result<FxHashMap<TermId, NodeComponent>, StoreError> {
        let firsts = &self.directory.node_pages;
        let mut terms: Vec<TermId> = terms.collect();
        terms.sort_unstable();
        terms.dedup();
        let page_of = |term: &TermId| firsts.partition_point(|&first| first <= term.0) as u64;
        terms.retain(|term| page_of(term) > 0);
        let mut places = FxHashMap::default();
        places.reserve(terms.len());
        self.by_page(
            &terms,
            |term| page_of(term) - 1,
            PageKind::Nodes,
            |view, terms| {
                let found = terms
                    .iter()
                    .filter_map(|&term| Some((term, view.place(term.0)?)));
                places.extend(found);
                Ok(())
            },
        )?;
        Ok(places)
    }

    /// Calls `f` with the labels of components, which are sorted and distinct.
    fn labels(&self, components: &[u32], mut f: impl FnMut(u32, &Label)) -> Result<(), StoreError> {
        let firsts = &self.directory.label_pages;
        let skipped = self.directory.node_pages.len() as u64;
        let page_of = |component: &u32| {
            let after = firsts.partition_point(|first| first <= component) as u64;
            skipped + after.saturating_sub(1)
        };
        let mut label = Label::default();
        self.by_page(components, page_of, PageKind::Labels, |view, components| {
            for &component in components {
                view.label(component, &mut label)?;
                f(component, &label);
            }
            Ok(())
        })
    }

    /// Reads the pages of sorted items in one batch, and passes on each with its items.
    fn by_page<T>(
        &self,
        items: &[T],
        page_of: impl Fn(&T) -> u64,
        kind: PageKind,
        mut f: impl FnMut(&PageView<'_>, &[T]) -> Result<(), &'static str>,
    ) -> Result<(), StoreError> {
        let groups: Vec<&[T]> = items.chunk_by(|a, b| page_of(a) == page_of(b)).collect();
        let pages: Vec<u64> = groups.iter().map(|group| page_of(&group[0])).collect();
        self.file.pages(&pages, |index, page| {
            PageView::new(page, kind)
                .and_then(|view| f(&view, groups[index]))
                .map_err(|message| self.corrupt(pages[index], message))
        })
    }

    /// Returns the error for a damaged page, or a damaged directory.
    pub(crate) fn corrupt(&self, page: impl Into<Option<u64>>, message: &str) -> StoreError {
        StoreError::corrupt(self.file.name(), page, message)
    }
}

impl Label {
    /// Returns whether the label's component reaches another.
    fn verdict(&self, own: u32, other: u32) -> Verdict {
        let index = self
            .intervals
            .partition_point(|interval| interval.high() < other);
        match self
            .intervals
            .get(index)
            .filter(|interval| interval.contains(other))
        {
            Some(interval) if interval.is_exact() || own == other => Verdict::Reached,
            Some(_) => Verdict::Unsure,
            None => Verdict::Unreached,
        }
    }
}
