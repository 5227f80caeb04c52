//! Verification of a store: proves it sound, or lists its problems. For `pythia verify`.
//!
//! Reads every page of every file and checks
//! - checksums: of the manifest, the directory and every page;
//! - structure: pages hold valid contents, sorted within and across pages, that agree with the directory (first keys,
//!   bounds, counts);
//! - terms: dictionary keys are well-formed, sorted and found where their ranks say; ids of quads are in the
//!   dictionary's ranges and of kinds that their places may have;
//! - agreement: the orders hold the same quads, by counts per predicate and by a fingerprint of 128 bits that
//!   does not depend on order;
//! - runs: all of this for their segments; their filters admit their nodes and terms; their terms are new; they add
//!   only missing quads and remove only existing ones;
//! - the log: it can be read from the first commit that base and runs do not have;
//! - auxiliary files: if everything else is sound, they are rebuilt and compared.
//!
//! A problem does not end the check; only the checks that depend on the damaged part are left out.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pythia_io::{BufferPool, IoError, PagedFile, Storage};
use pythia_rdf::{TermId, TermKind};

use crate::StoreError;
use crate::auxiliary::Auxiliaries;
use crate::delta::device::merge::term_runs;
use crate::dictionary::Dictionary;
use crate::manifest::{MANIFEST_NAME, Manifest, RunEntry};
use crate::optimize;
use crate::pattern::{End, Order};
use crate::segment::Segment;
use crate::segment::sealed::order_file_name;
use crate::snapshot::Snapshot;

mod columns;
mod fingerprint;
mod runs;
#[cfg(test)]
mod tests;
mod tuples;

use fingerprint::Fingerprint;

/// Options of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Memory for pages, in bytes.
    pub cache_bytes: usize,
    /// Limit of the listed problems; more are only counted.
    pub problems_max: usize,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
            problems_max: 100,
        }
    }
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// The problems found; empty for a sound store.
    pub problems: Vec<Problem>,
    /// Number of problems beyond the listed ones.
    pub unlisted_problems: u64,
    /// Pages read.
    pub pages: u64,
    /// Terms read.
    pub terms: u64,
    /// Quads in base and runs, as far as they could be read.
    pub quads: u64,
    /// Commits that are only in the log.
    pub commits: u64,
}

impl VerifyReport {
    /// Returns whether there are no problems.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// A problem in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, relative to the store.
    pub file: String,
    /// The page, if it concerns one page.
    pub page: Option<u64>,
    /// The problem.
    pub message: String,
}

impl Problem {
    /// Makes a problem of an error that occurred while `file` was read; the error may name a more specific file.
    pub(crate) fn new(file: &str, error: StoreError) -> Self {
        let (file, page, message) = match error {
            StoreError::Corrupt {
                file,
                page,
                message,
            } => (file, page, message),
            StoreError::Io(IoError::Corrupt {
                file,
                page,
                expected,
                found,
                ..
            }) => {
                let message = format!("its checksum is {found:08x}, its bytes give {expected:08x}");
                (file, Some(page), message)
            }
            error => (file.to_owned(), None, error.to_string()),
        };
        Self {
            file,
            page,
            message,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(page) = self.page {
            write!(f, ", page {page}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Progress of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Pages read.
    pub pages: u64,
    /// Total number of pages.
    pub pages_total: u64,
}

/// Verifies the store in a storage. The caller holds a reader's lock.
pub fn verify(
    storage: Arc<dyn Storage>,
    options: VerifyOptions,
    progress: &mut dyn FnMut(VerifyProgress),
) -> VerifyReport {
    let mut check = Check {
        report: VerifyReport::default(),
        problems_max: options.problems_max,
        pages_total: 0,
        progress,
    };
    let manifest = match Manifest::read(&*storage) {
        Ok(Some(manifest)) => manifest,
        Ok(None) => {
            check.problem(
                MANIFEST_NAME,
                None,
                "there is none: this is not a Pythia store",
            );
            return check.report;
        }
        Err(error) => {
            check.error(MANIFEST_NAME, error);
            return check.report;
        }
    };
    let folder = manifest.segment.folder();
    let pool = BufferPool::new(storage, options.cache_bytes);
    match Segment::open_base(&pool, &manifest) {
        Ok(segment) => {
            let segment = Arc::new(segment);
            check.segment(&segment, &IdRanges::of_base(&segment.dictionary, &manifest));
            check.report.quads = segment.statistics().quads;
            check.auxiliaries(&pool, &manifest, Arc::clone(&segment));
            check.runs(&pool, &manifest, &segment);
        }
        Err(error) => check.error(&folder, error),
    }
    match &manifest.log {
        Some(log) => check.log(&pool, log),
        None => check.no_log(pool.storage()),
    }
    check.report
}

/// A verification in progress.
struct Check<'p> {
    report: VerifyReport,
    problems_max: usize,
    pages_total: u64,
    progress: &'p mut dyn FnMut(VerifyProgress),
}

/// The result of checking an order.
struct OrderSummary {
    quads: u64,
    fingerprint: Fingerprint,
    /// Those of named graphs; counted in columns only.
    named_quads: u64,
    named_fingerprint: Fingerprint,
}

/// Returns the file of an order.
fn order_name(segment: &Segment, order: Order) -> String {
    format!("{}/{}", segment.folder(), order_file_name(order))
}

impl Check<'_> {
    fn segment(&mut self, segment: &Segment, ids: &IdRanges) {
        let files = segment.paged_files().chain([segment.dictionary.file()]);
        self.pages_total += files.map(PagedFile::page_count).sum::<u64>();
        self.dictionary(&segment.dictionary);
        let pso = self.columns(segment, Order::Pso, ids);
        let pos = self.columns(segment, Order::Pos, ids);
        let gpso = self.columns(segment, Order::Gpso, ids);
        let spo = self.tuples(segment, End::Subject, ids);
        let ops = self.tuples(segment, End::Object, ids);
        if let (Some(pso), Some(gpso)) = (&pso, gpso)
            && (gpso.quads, gpso.fingerprint) != (pso.named_quads, pso.named_fingerprint)
        {
            let file = order_name(segment, Order::Gpso);
            let message = format!(
                "its quads ({}) are not those of named graphs in pso ({})",
                gpso.quads, pso.named_quads
            );
            self.problem(&file, None, message);
        }
        let orders = [
            (Order::Pso, pso),
            (Order::Pos, pos),
            (Order::Spo, spo),
            (Order::Ops, ops),
        ];
        // Orders with problems of their own are not compared: they cannot agree.
        let mut whole = orders
            .into_iter()
            .filter_map(|(order, summary)| Some((order, summary?)));
        let Some((first_order, first)) = whole.next() else {
            return;
        };
        for (order, summary) in whole {
            if summary.quads != first.quads || summary.fingerprint != first.fingerprint {
                let file = order_name(segment, order);
                let message = format!(
                    "its quads ({}) are not those of {} ({})",
                    summary.quads,
                    first_order.name(),
                    first.quads
                );
                self.problem(&file, None, message);
            }
        }
    }

    /// Checks auxiliary files: their checksums, and that they match the quads of a sound segment.
    fn auxiliaries(&mut self, pool: &Arc<BufferPool>, manifest: &Manifest, base: Arc<Segment>) {
        let auxiliaries = match Auxiliaries::open(pool, manifest) {
            Ok(auxiliaries) => Arc::new(auxiliaries),
            Err(error) => return self.error(MANIFEST_NAME, error),
        };
        let snapshot = Snapshot::new(base, Arc::clone(&auxiliaries));
        for labels in auxiliaries.all_reachability() {
            let file = labels.file();
            self.pages_total += file.page_count();
            let whole = self.pages(file, 0..file.page_count(), |_, _| {});
            if whole
                && self.report.is_sound()
                && let Err(error) = optimize::reachability::verify(labels, &snapshot)
            {
                self.error(file.name(), error);
            }
        }
        for attribute in auxiliaries.all_attributes() {
            let mut whole = true;
            for file in attribute.files() {
                self.pages_total += file.page_count();
                whole &= self.pages(file, 0..file.page_count(), |_, _| {});
            }
            if whole
                && self.report.is_sound()
                && let Err(error) = optimize::attribute::verify(attribute, &snapshot)
            {
                self.error(MANIFEST_NAME, error);
            }
        }
        if let Some(degrees) = auxiliaries.degrees() {
            let file = degrees.file();
            self.pages_total += file.page_count();
            let whole = self.pages(file, 0..file.page_count(), |_, _| {});
            if whole
                && self.report.is_sound()
                && let Err(error) = optimize::degrees::verify(degrees, &snapshot)
            {
                self.error(file.name(), error);
            }
        }
    }

    fn dictionary(&mut self, dictionary: &Dictionary) {
        let file = dictionary.file();
        let pages = 0..file.page_count();
        let whole = self.pages(file, pages, |_, _| {});
        if !whole {
            return;
        }
        if let Err(error) = dictionary.verify(|_| {}) {
            self.error(file.name(), error);
            return;
        }
        for kind in TermKind::DICTIONARY {
            let mut keys = dictionary.iter(kind);
            loop {
                match keys.next() {
                    Ok(None) => break,
                    Ok(Some((id, key))) => {
                        self.report.terms += 1;
                        if let Err(error) = key.parts() {
                            self.problem(file.name(), None, format!("{id:?}: {error}"));
                        }
                    }
                    Err(error) => {
                        self.error(file.name(), error);
                        break;
                    }
                }
            }
        }
    }

    /// Reads pages in batches and calls `f` for each readable page. Returns whether all were readable.
    fn pages(
        &mut self,
        file: &PagedFile,
        pages: std::ops::Range<u64>,
        mut f: impl FnMut(&mut Self, u64),
    ) -> bool {
        const WINDOW: u64 = 64;
        let mut whole = true;
        let mut start = pages.start;
        while start < pages.end {
            let end = (start + WINDOW).min(pages.end);
            let batch = file.pages_sequential::<IoError>(start..end, |_, _| Ok(()));
            for number in start..end {
                // At least one of them is bad: find out which.
                if batch.is_err()
                    && let Err(error) = file.page(number)
                {
                    self.error(file.name(), error.into());
                    whole = false;
                } else {
                    f(self, number);
                }
            }
            self.report.pages += end - start;
            (self.progress)(VerifyProgress {
                pages: self.report.pages,
                pages_total: self.pages_total,
            });
            start = end;
        }
        whole
    }

    /// Checks the checksums of the directory pages, which are after the other pages of a file.
    fn directory_pages(&mut self, file: &PagedFile, pages: u64) -> bool {
        self.pages(file, pages..file.page_count(), |_, _| {})
    }

    fn problem(&mut self, file: &str, page: Option<u64>, message: impl Into<String>) {
        if self.report.problems.len() >= self.problems_max {
            self.report.unlisted_problems += 1;
            return;
        }
        self.report.problems.push(Problem {
            file: file.to_owned(),
            page,
            message: message.into(),
        });
    }

    /// Lists an error under the file and page that it names, otherwise under `file`.
    fn error(&mut self, file: &str, error: StoreError) {
        let Problem {
            file,
            page,
            message,
        } = Problem::new(file, error);
        self.problem(&file, page, message);
    }
}

/// The ids that a store can have.
struct IdRanges {
    /// The payloads of terms, by the kind's number; `None` for a kind that is not in the dictionary.
    terms: [Option<Vec<Range<u64>>>; 256],
}

impl IdRanges {
    fn new(dictionary: &Dictionary) -> Self {
        let mut terms = [const { None }; 256];
        for kind in TermKind::DICTIONARY {
            let base = 0..dictionary.count(kind);
            terms[kind as usize] = Some(vec![base]);
        }
        Self { terms }
    }

    /// Returns the ids that quads of the base can have: compactions that keep ids leave the terms in the first runs.
    fn of_base(dictionary: &Dictionary, manifest: &Manifest) -> Self {
        let mut ids = Self::new(dictionary);
        for run in &manifest.runs[..term_runs(&manifest.runs)] {
            ids.extend(run);
        }
        ids
    }

    /// Adds the new terms of a run.
    fn extend(&mut self, run: &RunEntry) {
        for span in &run.terms {
            let Some(ranges) = &mut self.terms[usize::from(span.kind)] else {
                continue;
            };
            match ranges.last_mut() {
                Some(last) if last.end == span.first => last.end = span.end(),
                _ => ranges.push(span.first..span.end()),
            }
        }
    }

    fn is_term(&self, id: u64) -> bool {
        let id = TermId(id);
        match &self.terms[usize::from(id.kind_number())] {
            Some(ranges) => ranges.iter().any(|range| range.contains(&id.payload())),
            None => id.kind().is_inline(),
        }
    }

    /// Returns whether a quad can have these ids.
    fn accept(&self, [s, p, o, g]: [u64; 4]) -> bool {
        let node = |id: u64| {
            let kind = TermId(id).kind();
            matches!(kind, TermKind::Iri | TermKind::BlankNode) && self.is_term(id)
        };
        let subject = node(s) || (TermId(s).kind() == TermKind::Triple && self.is_term(s));
        let predicate = TermId(p).kind() == TermKind::Iri && self.is_term(p);
        subject && predicate && self.is_term(o) && (g == TermId::DEFAULT_GRAPH.0 || node(g))
    }
}
