//! Writing of sorted rows as tuple pages and their directory.
//!
//! Only the rows of the current tuple and of the current page are buffered: a list that cannot be on a page is only
//! counted as soon as that is known. Which lists stay on the page is decided in this order:
//! 1. a list above the policy's size is external;
//! 2. a tuple that fits the current page, or else an empty one, is written unchanged;
//! 3. otherwise its largest lists become external, as few as make it fit one page;
//! 4. a tuple that still has too many predicates is split between predicates over several pages, the first of which
//!    it begins.

use pythia_io::PageWriter;

use super::builder::{KIND_SHIFT, PageBuilder, TupleGraphs, ValueList};
use super::directory::{OpenTupleDirectory, TupleDirectory, TupleStatistics};
use super::format::{EXTERNAL_KIND, PAGE_BYTES_MAX, PAGE_BYTES_MIN, ROWS_MAX};
use crate::StoreError;

/// A sink for finished pages, in order.
pub trait PageSink {
    /// Seals and appends a page; returns its number.
    fn push_page(&mut self, page: &mut [u8]) -> Result<u64, StoreError>;
}

impl PageSink for PageWriter {
    fn push_page(&mut self, page: &mut [u8]) -> Result<u64, StoreError> {
        Ok(self.push(page)?)
    }
}

/// The choice of lists that are kept off the tuple pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalPolicy {
    /// A list that takes more bytes than this is external even if it would fit.
    pub list_bytes_max: usize,
    /// A list of fewer rows is never external, unless it does not fit a page alone.
    pub rows_min: usize,
}

impl ExternalPolicy {
    /// Returns the policy that measured best for pages of this size: see `docs/decisions/0001-tuple-pages.md`.
    pub const fn for_page(page_bytes: usize) -> Self {
        Self {
            list_bytes_max: page_bytes / 2,
            rows_min: 32,
        }
    }
}

/// The rows of one predicate of the current tuple.
#[derive(Clone, Copy, Debug)]
struct List {
    predicate: u64,
    rows: u64,
    /// `runs[run_start..run_end]` are its values by kind.
    run_start: usize,
    run_end: usize,
    /// Approximate bits of its values: the frame of the first value is the page's.
    bits: u64,
}

/// Writer of tuple pages, from sorted rows.
#[derive(Debug)]
pub struct TupleWriter<S> {
    sink: S,
    policy: ExternalPolicy,
    builder: PageBuilder,
    directory: OpenTupleDirectory,
    /// Other ends and graphs of the rows on the current page, then of the current tuple.
    others: Vec<u64>,
    graphs: Vec<u64>,
    /// Start of the current tuple in them.
    tuple_start: usize,
    /// Start of its open list in them.
    list_start: usize,
    /// The length of `others` at which the open list or the tuple has too many rows.
    rows_limit: usize,
    node: u64,
    predicate: u64,
    first_graph: u64,
    one_graph: bool,
    /// Rows of the open list that were dropped because it is external.
    dropped: u64,
    lists: Vec<List>,
    runs: Vec<ValueList>,
    trial: Vec<ValueList>,
    /// Whether pages with the first predicates of the current tuple have been written.
    split: bool,
    /// Whether the current page begins with the rest of a tuple.
    continued: bool,
}

/// Estimated bits of a value in its page's frame; only to compare lists with the policy.
const FRAME_BITS: u64 = 24;
/// Estimated bits of a graph's number, for lists over several graphs.
const GRAPH_BITS: u64 = 8;

impl<S: PageSink> TupleWriter<S> {
    /// Returns a writer of pages of `page_bytes`, a power of two from 4 KiB to 1 MiB.
    pub fn new(sink: S, page_bytes: usize, policy: ExternalPolicy) -> Self {
        assert!(
            page_bytes.is_power_of_two() && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes),
            "page size of {page_bytes} bytes"
        );
        Self {
            sink,
            policy,
            builder: PageBuilder::new(page_bytes),
            directory: OpenTupleDirectory::new(page_bytes),
            others: Vec::new(),
            graphs: Vec::new(),
            tuple_start: 0,
            list_start: 0,
            rows_limit: 0,
            node: 0,
            predicate: 0,
            first_graph: 0,
            one_graph: true,
            dropped: 0,
            lists: Vec::new(),
            runs: Vec::new(),
            trial: Vec::new(),
            split: false,
            continued: false,
        }
    }

    /// Adds a row. Rows come sorted by node, predicate, other end and graph, each once; raw
    /// [`TermId`](pythia_rdf::TermId) bits.
    ///
    /// # Panics
    /// If the rows are found to be out of order.
    #[inline]
    pub fn push(
        &mut self,
        node: u64,
        predicate: u64,
        other: u64,
        graph: u64,
    ) -> Result<(), StoreError> {
        if node != self.node || predicate != self.predicate {
            self.next_list(node, predicate, graph)?;
        }
        self.one_graph &= graph == self.first_graph;
        if self.dropped > 0 {
            self.dropped += 1;
            return Ok(());
        }
        self.others.push(other);
        self.graphs.push(graph);
        if self.others.len() >= self.rows_limit {
            self.at_limit()?;
        }
        Ok(())
    }

    /// Writes the buffered rows and the directory pages; returns the sink and the directory.
    pub fn finish(mut self) -> Result<(S, TupleDirectory), StoreError> {
        self.finish_tuple()?;
        if !self.builder.is_empty() {
            self.flush()?;
        }
        let sink = &mut self.sink;
        let directory = self.directory.finish(|page| sink.push_page(page))?;
        Ok((self.sink, directory))
    }

    /// Returns the number of rows in memory: of the current page and tuple.
    pub fn buffered_rows(&self) -> usize {
        self.others.len()
    }

    /// Returns the limit of the buffered rows of a tuple: more cannot be on one page.
    fn tuple_rows_max(&self) -> usize {
        2 * ROWS_MAX
    }

    /// Returns the limit of the buffered rows of a list: each takes at least one bit.
    fn list_rows_max(&self) -> usize {
        (self.policy.list_bytes_max * 8).clamp(self.policy.rows_min + 1, ROWS_MAX)
    }

    fn set_limit(&mut self) {
        let list = self.list_start + self.list_rows_max();
        self.rows_limit = list.min(self.tuple_start + self.tuple_rows_max());
    }

    #[inline(never)]
    fn next_list(&mut self, node: u64, predicate: u64, graph: u64) -> Result<(), StoreError> {
        if node == self.node {
            assert!(self.predicate < predicate, "rows come sorted by predicate");
            self.close_list();
        } else {
            assert!(self.node < node, "rows come sorted by node");
            self.finish_tuple()?;
            self.node = node;
            self.first_graph = graph;
            self.one_graph = true;
        }
        self.predicate = predicate;
        self.list_start = self.others.len();
        self.set_limit();
        Ok(())
    }

    /// Handles an open list, or a tuple, with too many rows.
    #[cold]
    fn at_limit(&mut self) -> Result<(), StoreError> {
        let list_rows = self.others.len() - self.list_start;
        if list_rows >= self.list_rows_max() {
            self.dropped = list_rows as u64;
            self.others.truncate(self.list_start);
            self.graphs.truncate(self.list_start);
        }
        if self.others.len() - self.tuple_start >= self.tuple_rows_max() {
            // No page holds all these rows, so the complete lists can be written now.
            let open = (
                self.others.split_off(self.list_start),
                self.graphs.split_off(self.list_start),
            );
            self.write_split()?;
            self.others.extend_from_slice(&open.0);
            self.graphs.extend_from_slice(&open.1);
        }
        self.set_limit();
        Ok(())
    }

    /// Turns the rows of the open list into runs.
    fn close_list(&mut self) {
        let list_rows = self.others.len() - self.list_start;
        let run_start = self.runs.len();
        let mut bits = 0;
        if self.dropped > 0 {
            self.runs
                .push(ValueList::external(self.predicate, self.dropped));
        } else {
            let others = &self.others[self.tuple_start..];
            let mut start = self.list_start - self.tuple_start;
            if !self.one_graph {
                bits += GRAPH_BITS * list_rows as u64;
            }
            while start < others.len() {
                let end = end_of_kind(others, start);
                let run = ValueList::inline(self.predicate, others, start, end);
                assert!(run.kind != EXTERNAL_KIND, "the end of an edge is a term");
                let before = self.runs[run_start..].last();
                assert!(
                    before.is_none_or(|before| before.kind < run.kind),
                    "rows come sorted"
                );
                bits += FRAME_BITS * run.count.min(3) + run.delta_bits();
                self.runs.push(run);
                start = end;
            }
        }
        let rows = self.dropped + list_rows as u64;
        if bits > self.policy.list_bytes_max as u64 * 8 && list_rows >= self.policy.rows_min {
            self.others.truncate(self.list_start);
            self.graphs.truncate(self.list_start);
            self.runs.truncate(run_start);
            self.runs.push(ValueList::external(self.predicate, rows));
            bits = 0;
        }
        self.dropped = 0;
        self.directory.statistics.rows += rows;
        self.lists.push(List {
            predicate: self.predicate,
            rows,
            run_start,
            run_end: self.runs.len(),
            bits,
        });
    }

    fn finish_tuple(&mut self) -> Result<(), StoreError> {
        if self.node == 0 {
            return Ok(());
        }
        self.close_list();
        if self.split {
            self.write_split()?;
            self.directory.statistics.tuples_split += 1;
        } else {
            let inline = !self.runs.iter().any(ValueList::is_external);
            if self.add(TrialOf::Runs) {
                self.directory.statistics.tuples_inline += u64::from(inline);
            } else {
                self.start_page()?;
                if self.add(TrialOf::Runs) {
                    self.directory.statistics.tuples_inline += u64::from(inline);
                } else if !self.add_with_fewer_lists() {
                    self.write_split()?;
                    self.directory.statistics.tuples_split += 1;
                }
            }
        }
        self.directory.statistics.tuples += 1;
        self.lists.clear();
        self.runs.clear();
        self.tuple_start = self.others.len();
        self.list_start = self.tuple_start;
        self.split = false;
        Ok(())
    }

    /// Adds the tuple, or the part of it in `trial`, to the current page if it fits.
    fn add(&mut self, of: TrialOf) -> bool {
        let runs = match of {
            TrialOf::Runs => &self.runs,
            TrialOf::Trial => &self.trial,
        };
        let graphs = if runs.iter().all(ValueList::is_external) {
            TupleGraphs::None
        } else if self.one_graph {
            TupleGraphs::One(self.first_graph)
        } else {
            TupleGraphs::Each
        };
        let added = self.builder.add(
            self.node,
            runs,
            graphs,
            &self.graphs[self.tuple_start..],
            self.tuple_start,
        );
        if added {
            for run in runs.iter().filter(|run| run.is_external()) {
                self.directory.statistics.external_lists += 1;
                self.directory.statistics.external_rows += run.count;
            }
        }
        added
    }

    /// Makes the largest lists external, as few as necessary for the tuple to fit the empty page. Returns false if
    /// that does not help.
    fn add_with_fewer_lists(&mut self) -> bool {
        let mut large: Vec<usize> = (0..self.lists.len())
            .filter(|&i| self.lists[i].rows >= self.policy.rows_min as u64)
            .collect();
        large.sort_by_key(|&i| std::cmp::Reverse(self.lists[i].bits));
        if !self.fits_without(&large) {
            return false;
        }
        let (mut too_few, mut enough) = (0, large.len());
        while enough - too_few > 1 {
            let middle = usize::midpoint(too_few, enough);
            if self.fits_without(&large[..middle]) {
                enough = middle;
            } else {
                too_few = middle;
            }
        }
        self.try_without(&large[..enough]);
        self.add(TrialOf::Trial)
    }

    /// Fills `trial` with the tuple without the values of some lists.
    fn try_without(&mut self, external: &[usize]) {
        let mut is_external = vec![false; self.lists.len()];
        for &list in external {
            is_external[list] = true;
        }
        self.trial.clear();
        for (list, is_external) in self.lists.iter().zip(is_external) {
            if is_external {
                let run = ValueList::external(list.predicate, list.rows);
                self.trial.push(run);
            } else {
                let runs = &self.runs[list.run_start..list.run_end];
                self.trial.extend_from_slice(runs);
            }
        }
    }

    fn fits_without(&mut self, external: &[usize]) -> bool {
        self.try_without(external);
        self.trial_fits()
    }

    /// Returns whether `trial` fits the empty page, which stays empty.
    fn trial_fits(&mut self) -> bool {
        let statistics = self.directory.statistics;
        let added = self.add(TrialOf::Trial);
        if added {
            self.builder.clear();
            self.directory.statistics = statistics;
        }
        added
    }

    /// Writes the closed lists of the tuple from the start of a page over as many pages as they need; the last page
    /// stays open.
    fn write_split(&mut self) -> Result<(), StoreError> {
        let lists = std::mem::take(&mut self.lists);
        let mut next = 0;
        while next < lists.len() {
            self.start_page()?;
            self.continued = self.split;
            let mut most = self.lists_that_fit(&lists[next..]);
            if most == 0 {
                // Its values do not fit a page alone, for example because of their many graphs.
                self.trial.clear();
                let list = &lists[next];
                self.trial
                    .push(ValueList::external(list.predicate, list.rows));
                most = 1;
            } else {
                self.try_lists(&lists[next..next + most]);
            }
            assert!(self.add(TrialOf::Trial), "it has just been tried");
            next += most;
            self.split = true;
        }
        // The written rows stay in the buffers until their page is written.
        self.runs.clear();
        self.tuple_start = self.others.len();
        self.list_start = self.others.len();
        Ok(())
    }

    fn try_lists(&mut self, lists: &[List]) {
        self.trial.clear();
        for list in lists {
            let runs = &self.runs[list.run_start..list.run_end];
            self.trial.extend_from_slice(runs);
        }
    }

    /// Returns how many of the lists fit an empty page together.
    fn lists_that_fit(&mut self, lists: &[List]) -> usize {
        let mut fits = |count: usize| {
            self.try_lists(&lists[..count]);
            self.trial_fits()
        };
        let mut step = 1;
        while step <= lists.len() && fits(step) {
            step *= 2;
        }
        let (mut most, mut too_many) = (step / 2, step.min(lists.len() + 1));
        while too_many - most > 1 {
            let middle = usize::midpoint(most, too_many);
            if fits(middle) {
                most = middle;
            } else {
                too_many = middle;
            }
        }
        most
    }

    /// Makes sure that the current page is empty.
    fn start_page(&mut self) -> Result<(), StoreError> {
        if self.builder.is_empty() {
            return Ok(());
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let (node, predicate) = self
            .builder
            .first()
            .expect("only pages with tuples are written");
        let used = self.builder.used_bytes();
        let page = self
            .builder
            .encode(&self.others, &self.graphs, self.continued);
        let number = self.sink.push_page(page)?;
        self.directory.push(number, node, predicate);
        self.directory.statistics.bytes_used += used as u64;
        self.builder.clear();
        self.continued = false;
        self.others.drain(..self.tuple_start);
        self.graphs.drain(..self.tuple_start);
        self.list_start -= self.tuple_start;
        self.tuple_start = 0;
        Ok(())
    }
}

/// The runs to be added to the page.
#[derive(Clone, Copy, Debug)]
enum TrialOf {
    /// All runs of the current tuple.
    Runs,
    /// The runs in `trial`.
    Trial,
}

/// Returns the end of the ids of `others[start]`'s kind.
fn end_of_kind(others: &[u64], start: usize) -> usize {
    let kind = others[start] >> KIND_SHIFT;
    if others[others.len() - 1] >> KIND_SHIFT == kind {
        return others.len();
    }
    start + others[start..].partition_point(|other| other >> KIND_SHIFT == kind)
}

impl TupleStatistics {
    /// Returns the mean used share of the pages' bytes.
    pub fn fill(&self, pages: usize, page_bytes: usize) -> f64 {
        self.bytes_used as f64 / (pages.max(1) * page_bytes) as f64
    }
}
