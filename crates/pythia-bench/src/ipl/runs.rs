//! The product's way of writing on the same devices: changes gather in memory, and are written as sorted runs.
//!
//! As in `pythia-store/src/delta/`: a change is looked up first, because only real changes are kept; runs are written in
//! sequence and never changed; each has the product's own filter in memory, so that a lookup reads only pages that may
//! have the key; four neighbouring runs within a factor of four become one. Filters, first keys and changes in memory
//! count towards the buffer; the rest of it caches pages. What is not modelled: the base, into which the product merges
//! all runs, and its four orders; a record here is in one order.
//!
//! Commits are durable by a log beside the runs ([`CommitLog`]). The trace of the paper has no commits, so their time is
//! reported apart.

use std::collections::BTreeMap;

use pythia_io::probe::SplitMix;
use pythia_store::delta::device::{FilterBuilder, StoredFilter};

use super::RecordStore;
use super::cache::Cache;
use super::commit_log::CommitLog;
use super::devices::{BLOCK_BYTES, Flash, Medium, Meter, Phase, place};
use super::page::{PAGE_BYTES, Page};

/// Runs that are merged into one, and the factor within which their sizes are.
const MERGE_RUNS: usize = 4;
/// Bytes that a change in memory takes besides its value.
const CHANGE_BYTES: usize = 40;
const PAGES_PER_BLOCK: usize = BLOCK_BYTES / PAGE_BYTES;

/// Records in sorted runs.
#[derive(Debug)]
pub(super) struct Runs {
    /// Changes that are not in a run yet.
    changes: BTreeMap<u64, Vec<u8>>,
    changes_bytes: usize,
    /// The bytes of memory, of which changes take a quarter.
    buffer_bytes: usize,
    /// The runs, the newest last.
    runs: Vec<Run>,
    flash: Flash,
    cache: Cache<Page>,
    page_count: u32,
    meter: Meter,
    pub(super) logs: Vec<CommitLog>,
}

/// A sorted run.
#[derive(Debug)]
struct Run {
    blocks: Vec<u32>,
    /// The first key of each page.
    first_keys: Vec<u64>,
    /// The number of its first page in the cache.
    first_page: u32,
    records: u64,
    filter: StoredFilter,
}

impl Runs {
    /// Returns an empty store with this many bytes of memory, and logs that all record the same commits.
    pub(super) fn new(buffer_bytes: usize, logs: Vec<CommitLog>) -> Self {
        let mut runs = Self {
            changes: BTreeMap::new(),
            changes_bytes: 0,
            buffer_bytes,
            runs: Vec::new(),
            flash: Flash::default(),
            cache: Cache::new(1),
            page_count: 0,
            meter: Meter::default(),
            logs,
        };
        runs.divide_memory();
        runs
    }

    /// Returns the bytes of its blocks.
    pub(super) fn bytes(&self) -> u64 {
        (self.flash.in_use() * BLOCK_BYTES) as u64
    }

    /// Returns the number of pages of the runs.
    pub(super) fn page_count(&self) -> u64 {
        self.runs
            .iter()
            .map(|run| run.first_keys.len() as u64)
            .sum()
    }

    /// Gives the cache what the other parts of memory leave.
    fn divide_memory(&mut self) {
        let run_bytes = |run: &Run| run.filter.memory_bytes() + 8 * run.first_keys.len();
        let of_runs: usize = self.runs.iter().map(run_bytes).sum();
        let rest = self
            .buffer_bytes
            .saturating_sub(self.changes_max() + of_runs);
        self.cache.set_capacity(rest / PAGE_BYTES);
    }

    fn changes_max(&self) -> usize {
        self.buffer_bytes / 4
    }

    /// Writes the changes as a run, and merges runs.
    fn write_changes(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        self.changes_bytes = 0;
        if changes.is_empty() {
            return;
        }
        let mut writer = RunWriter::new(changes.len() as u64);
        for (key, value) in &changes {
            writer.add(self, *key, value);
        }
        let run = writer.finish(self);
        self.runs.push(run);
        while let Some(first) = self.neighbours_to_merge() {
            self.merge(first);
        }
        self.divide_memory();
    }

    /// Returns the first of neighbours that become one run.
    fn neighbours_to_merge(&self) -> Option<usize> {
        self.runs.windows(MERGE_RUNS).position(|runs| {
            let records = runs.iter().map(|run| run.records);
            let (min, max) = (records.clone().min(), records.max());
            max <= min.map(|min| min * MERGE_RUNS as u64)
        })
    }

    fn merge(&mut self, first: usize) {
        let inputs: Vec<Run> = self.runs.drain(first..first + MERGE_RUNS).collect();
        let mut readers: Vec<RunReader<'_>> = inputs.iter().map(RunReader::new).collect();
        let mut writer = RunWriter::new(inputs.iter().map(|run| run.records).sum());
        while let Some(key) = readers
            .iter_mut()
            .filter_map(|reader| reader.key(self))
            .min()
        {
            let mut newest = Vec::new();
            for reader in &mut readers {
                if reader.key(self) == Some(key) {
                    newest = reader.next();
                }
            }
            writer.add(self, key, &newest);
        }
        let run = writer.finish(self);
        self.runs.insert(first, run);
        for block in inputs.into_iter().flat_map(|run| run.blocks) {
            self.flash.erase(block);
            self.meter.erase();
        }
        self.meter.counts.merges += 1;
    }

    /// Looks a key up in a run.
    fn get_in(&mut self, run: usize, key: u64) -> Option<Vec<u8>> {
        let run = &self.runs[run];
        if !run.filter.may_hold(hash(key)) {
            return None;
        }
        let index = run
            .first_keys
            .partition_point(|first| *first <= key)
            .checked_sub(1)?;
        let number = run.first_page + index as u32;
        if self.cache.get(number).is_none() {
            let block = run.blocks[index / PAGES_PER_BLOCK];
            let at = index % PAGES_PER_BLOCK * PAGE_BYTES;
            let bytes = at..at + PAGE_BYTES;
            self.meter.read(&[place(block, bytes.clone())], &[]);
            self.meter.counts.pages_read += 1;
            let page = Page::copy_of(self.flash.read(block, bytes));
            self.cache.insert(number, page);
        }
        let page = self.cache.get(number).expect("it is in the cache");
        page.get(key).map(<[u8]>::to_vec)
    }
}

impl RecordStore for Runs {
    fn insert(&mut self, key: u64, value: &[u8]) {
        if self.get(key).is_some_and(|old| old == value) {
            return;
        }
        for log in &mut self.logs {
            log.commit(8 + value.len() as u64);
        }
        let old = self.changes.insert(key, value.to_vec());
        self.changes_bytes += value.len() + CHANGE_BYTES;
        self.changes_bytes -= old.map_or(0, |old| old.len() + CHANGE_BYTES);
        if self.changes_bytes > self.changes_max() {
            self.write_changes();
        }
    }

    fn get(&mut self, key: u64) -> Option<Vec<u8>> {
        if let Some(value) = self.changes.get(&key) {
            return Some(value.clone());
        }
        (0..self.runs.len())
            .rev()
            .find_map(|run| self.get_in(run, key))
    }

    fn flush(&mut self) {
        self.write_changes();
        for log in &mut self.logs {
            log.write();
        }
    }

    fn take_phase(&mut self) -> Phase {
        self.meter.take()
    }
}

fn hash(key: u64) -> u64 {
    SplitMix(key).next_u64()
}

/// Writes a run, a block at a time.
struct RunWriter {
    filter: FilterBuilder,
    records: u64,
    blocks: Vec<u32>,
    first_keys: Vec<u64>,
    page: Page,
    /// Full pages of the block.
    pages: Vec<Page>,
}

impl RunWriter {
    fn new(records_max: u64) -> Self {
        Self {
            filter: FilterBuilder::new(records_max),
            records: 0,
            blocks: Vec::new(),
            first_keys: Vec::new(),
            page: Page::new(),
            pages: Vec::new(),
        }
    }

    fn add(&mut self, runs: &mut Runs, key: u64, value: &[u8]) {
        self.filter.add(hash(key));
        self.records += 1;
        if self.page.insert(key, value) {
            return;
        }
        self.end_page(runs);
        let fits = self.page.insert(key, value);
        assert!(fits, "a record fits a page");
    }

    fn end_page(&mut self, runs: &mut Runs) {
        let page = std::mem::replace(&mut self.page, Page::new());
        self.first_keys.push(page.record(0).0);
        self.pages.push(page);
        if self.pages.len() == PAGES_PER_BLOCK {
            self.write_block(runs);
        }
    }

    fn write_block(&mut self, runs: &mut Runs) {
        if self.pages.is_empty() {
            return;
        }
        let block = runs.flash.take();
        for (index, page) in self.pages.iter().enumerate() {
            runs.flash.write(block, index * PAGE_BYTES, page.bytes());
        }
        let range = place(block, 0..self.pages.len() * PAGE_BYTES);
        runs.meter.write(Medium::Flash, range);
        runs.meter.counts.pages_written += self.pages.len() as u64;
        self.blocks.push(block);
        self.pages.clear();
    }

    fn finish(mut self, runs: &mut Runs) -> Run {
        if self.page.len() > 0 {
            self.end_page(runs);
        }
        self.write_block(runs);
        let first_page = runs.page_count;
        runs.page_count += self.first_keys.len() as u32;
        Run {
            blocks: self.blocks,
            first_keys: self.first_keys,
            first_page,
            records: self.records,
            filter: self.filter.finish(),
        }
    }
}

/// Reads a run in order, a block at a time.
struct RunReader<'r> {
    run: &'r Run,
    /// Pages before the one that is read.
    page_index: usize,
    page: Option<Page>,
    record_index: usize,
}

impl<'r> RunReader<'r> {
    fn new(run: &'r Run) -> Self {
        Self {
            run,
            page_index: 0,
            page: None,
            record_index: 0,
        }
    }

    /// Returns the key of the next record.
    fn key(&mut self, runs: &mut Runs) -> Option<u64> {
        if self
            .page
            .as_ref()
            .is_some_and(|page| self.record_index == page.len())
        {
            self.page = None;
            self.page_index += 1;
            self.record_index = 0;
        }
        if self.page.is_none() {
            self.page = self.read_page(runs);
        }
        let page = self.page.as_ref()?;
        Some(page.record(self.record_index).0)
    }

    /// Returns the value of the record whose key was asked for, and goes on to the next.
    fn next(&mut self) -> Vec<u8> {
        let page = self.page.as_ref().expect("its key was asked for");
        let value = page.record(self.record_index).1.to_vec();
        self.record_index += 1;
        value
    }

    fn read_page(&self, runs: &mut Runs) -> Option<Page> {
        let pages = self.run.first_keys.len();
        if self.page_index == pages {
            return None;
        }
        let block = self.run.blocks[self.page_index / PAGES_PER_BLOCK];
        let slot = self.page_index % PAGES_PER_BLOCK;
        if slot == 0 {
            let count = PAGES_PER_BLOCK.min(pages - self.page_index);
            runs.meter.read(&[place(block, 0..count * PAGE_BYTES)], &[]);
            runs.meter.counts.pages_read += count as u64;
        }
        let bytes = slot * PAGE_BYTES..(slot + 1) * PAGE_BYTES;
        Some(Page::copy_of(runs.flash.read(block, bytes)))
    }
}
