//! Writing a dictionary from sorted keys.
//!
//! ```text
//! keys → batches ─┬─ front coding and compression ─┬─ pages, written to the device (one thread)
//!                 └─ (some threads)               ─┘
//! ```
//!
//! The caller's thread only copies keys into batches. Batches are split by bytes alone. Symbol tables are chosen, and pages made,
//! in the order of the batches, so the same keys always give the same file.

use std::fmt::{self, Debug};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};
use fsst::{Compressor, CompressorBuilder};
use pythia_io::{IoError, PageWriter};
use pythia_rdf::{TermId, TermKey, TermKind};

use super::build::{Continuation, PageBuilder, Stored};
use super::common_prefix;
use super::directory::{DictionaryDirectory, OpenDirectory};
use super::filter_page::OpenFilter;
use super::format::{LARGE_PREFIX_BYTES, PAGE_BYTES_MAX, PAGE_BYTES_MIN, inline_key_bytes_max};
use super::separators::{SEPARATOR_BYTES_MAX, separator};
use super::symbols::SymbolTable;
use crate::StoreError;
use crate::hashes::hash_of_key;

/// Key bytes in a batch, unless a single key has more.
const BATCH_BYTES: usize = 1 << 20;
/// Most keys in a batch: short ones cost more than their bytes.
const BATCH_KEYS: usize = 1 << 16;
/// Batches that may wait to be compressed.
const BATCHES_WAITING: usize = 2;
/// Most threads that compress: the one that makes pages cannot keep up with more.
const CODERS_MAX: usize = 4;
/// Most batches kept for reuse.
const BATCHES_KEPT: usize = 8;

/// Kinds with less text than this are not worth a symbol table.
const TRAINING_BYTES_MIN: usize = 4 << 10;
/// A better table is tried after this many key bytes, or this part of the kind so far: the number of tables grows
/// with the logarithm of the text.
const RETRAIN_BYTES_MIN: u64 = 4 << 20;
const RETRAIN_SHARE: u64 = 16;
/// A new table must save this part of the bytes.
const RETRAIN_GAIN: usize = 32;
/// Bytes of a batch that tables are compared on.
const COMPARISON_BYTES: usize = 64 << 10;
/// Large keys are compressed in pieces of this size.
const LARGE_CHUNK_BYTES: usize = 64 << 10;

/// Writer of the pages of a dictionary, from sorted keys.
///
/// Dropping a writer without [`finish`](Self::finish) abandons the file.
#[derive(Debug)]
pub struct DictionaryWriter {
    /// `None` once the threads have been told to end.
    batches: Option<Sender<Batch>>,
    emptied: Receiver<Batch>,
    threads: Option<Threads>,
    batch: Batch,
    next_rank: u64,
}

#[derive(Debug)]
struct Threads {
    coders: Vec<JoinHandle<()>>,
    pages: JoinHandle<Result<Encoder, StoreError>>,
}

/// Keys of one kind, in order.
#[derive(Debug, Default)]
struct Batch {
    kind: Option<TermKind>,
    first_rank: u64,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Whether this is the last batch of a finished writer.
    last: bool,
    coded: Coded,
}

/// The keys of a batch, front-coded and compressed.
#[derive(Debug, Default)]
struct Coded {
    /// The symbols that the keys are compressed with; new ones come with their table.
    symbols: Option<Symbols>,
    new_table: Option<SymbolTable>,
    /// The bytes of each key after the prefix that it shares with the one before.
    suffix_bytes: Vec<u32>,
    codes: Vec<u8>,
    ends: Vec<u64>,
    /// The hash of each key, if the dictionary has filters.
    hashes: Vec<u64>,
}

impl Batch {
    fn key(&self, index: usize) -> &[u8] {
        let start = match index.checked_sub(1) {
            Some(before) => self.ends[before],
            None => 0,
        };
        &self.bytes[start..self.ends[index]]
    }

    /// Returns each key, as in entries, after the prefix that it shares with the one before.
    fn suffixes(&self, before: &[u8], inline_max: usize) -> Vec<&[u8]> {
        let mut suffixes = Vec::with_capacity(self.ends.len());
        let mut before = before;
        for index in 0..self.ends.len() {
            let form = form(self.key(index), inline_max);
            suffixes.push(&form[common_prefix(before, form)..]);
            before = form;
        }
        suffixes
    }

    fn clear(&mut self) {
        self.kind = None;
        self.bytes.clear();
        self.ends.clear();
        if self.bytes.capacity() > 4 * BATCH_BYTES {
            self.bytes = Vec::new();
            self.coded = Coded::default();
        }
    }
}

impl DictionaryWriter {
    /// Returns a writer into an empty paged file. It compresses keys on up to `threads` threads, and writes filter pages if
    /// `filters` is true.
    ///
    /// # Panics
    /// If the page size is not 4 to 64 KiB.
    pub fn new(pages: PageWriter, threads: usize, filters: bool) -> Result<Self, StoreError> {
        let encoder = Encoder::new(pages, filters);
        let inline_max = inline_key_bytes_max(encoder.directory.page_bytes());
        let (batches, received) = bounded(BATCHES_WAITING);
        let (to_write, coded) = bounded(CODERS_MAX);
        let (recycle, emptied) = bounded(BATCHES_KEPT);
        let coder = Coder {
            batches: received,
            coded: to_write,
            tables: Arc::new(Mutex::new(Tables::new(inline_max))),
            inline_max,
            hashes: filters,
        };
        let threads = Threads {
            coders: start_coders(coder, threads)?,
            pages: thread("dictionary", move || encoder.run(&coded, &recycle))?,
        };
        Ok(Self {
            batches: Some(batches),
            emptied,
            threads: Some(threads),
            batch: Batch::default(),
            next_rank: 0,
        })
    }

    /// Adds the next key and returns its id, which is its rank in its kind.
    ///
    /// # Panics
    /// If the key is not above the previous one, or not of a dictionary kind.
    pub fn push(&mut self, key: TermKey<'_>) -> Result<TermId, StoreError> {
        if self.batch.kind != Some(key.kind) {
            assert!(
                key.kind.is_dictionary(),
                "{:?} is not a dictionary kind",
                key.kind
            );
            if let Some(kind) = self.batch.kind {
                assert!(kind < key.kind, "dictionary kinds must come in id order");
                self.send(false)?;
            }
            self.batch.kind = Some(key.kind);
            self.next_rank = 0;
            self.batch.first_rank = 0;
        } else {
            // A batch that has a kind has a key: it is sent only when the next key has arrived.
            let last = self.batch.key(self.batch.ends.len() - 1);
            assert!(
                last < key.bytes,
                "dictionary keys must come sorted, each once"
            );
            if self.batch.bytes.len() + key.bytes.len() > BATCH_BYTES
                || self.batch.ends.len() >= BATCH_KEYS
            {
                self.send(false)?;
                self.batch.kind = Some(key.kind);
                self.batch.first_rank = self.next_rank;
            }
        }
        self.batch.bytes.extend_from_slice(key.bytes);
        self.batch.ends.push(self.batch.bytes.len());
        let id = TermId::new(key.kind, self.next_rank);
        self.next_rank += 1;
        Ok(id)
    }

    /// Writes the rest, makes the file durable and returns the part to keep in memory.
    pub fn finish(mut self) -> Result<DictionaryDirectory, StoreError> {
        self.send(true)?;
        let encoder = self.join()?;
        encoder.finish()
    }

    fn send(&mut self, last: bool) -> Result<(), StoreError> {
        let mut next = self.emptied.try_recv().unwrap_or_default();
        next.clear();
        let mut batch = std::mem::replace(&mut self.batch, next);
        batch.last = last;
        let batches = self.batches.as_ref();
        let sent = batches.is_some_and(|batches| batches.send(batch).is_ok());
        if sent {
            return Ok(());
        }
        // The threads have ended too early, so there is an error to report.
        match self.join() {
            Ok(_) => Err(StoreError::Abandoned {
                what: "the dictionary being written",
            }),
            Err(error) => Err(error),
        }
    }

    fn join(&mut self) -> Result<Encoder, StoreError> {
        self.batches = None;
        let Some(threads) = self.threads.take() else {
            return Err(StoreError::Abandoned {
                what: "the dictionary being written",
            });
        };
        let (coders, pages) = threads.join();
        // If a thread that compresses panics, the one that makes pages only misses a batch.
        for coder in coders {
            coder.unwrap_or_else(|panic| resume_unwind(panic));
        }
        pages.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Drop for DictionaryWriter {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(threads) = self.threads.take() {
            // The file is abandoned, so an error does not matter.
            drop(threads.join());
        }
    }
}

type Joined<T> = std::thread::Result<T>;

impl Threads {
    fn join(self) -> (Vec<Joined<()>>, Joined<Result<Encoder, StoreError>>) {
        let coders = self.coders.into_iter().map(JoinHandle::join);
        (coders.collect(), self.pages.join())
    }
}

fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StoreError> {
    let started = Builder::new().name(name.to_owned()).spawn(work);
    Ok(started
        .map_err(|source| IoError::os("start a thread for", "the dictionary", None, source))?)
}

/// The state of the thread that makes pages.
#[derive(Debug)]
struct Encoder {
    pages: PageWriter,
    page: PageBuilder,
    /// Entries and key bytes of the open page, and the hashes of its keys if there are filters.
    page_entries: u64,
    page_key_bytes: u64,
    page_hashes: Vec<u64>,
    filter: Option<OpenFilter>,
    directory: OpenDirectory,
    kind: Option<TermKind>,
    symbols: Symbols,
    /// The beginning of the last key as used by separators.
    last_start: Vec<u8>,
}

/// A thread that compresses keys.
#[derive(Clone, Debug)]
struct Coder {
    batches: Receiver<Batch>,
    /// For each batch, in order, a channel through which it comes when it is compressed.
    coded: Sender<Receiver<Batch>>,
    tables: Arc<Mutex<Tables>>,
    inline_max: usize,
    /// True if keys are hashed.
    hashes: bool,
}

/// The symbol tables, chosen batch after batch.
#[derive(Debug)]
struct Tables {
    inline_max: usize,
    kind: Option<TermKind>,
    symbols: Symbols,
    /// Number of symbol tables.
    count: usize,
    /// Whether the symbols are of this kind, and the time to look for better ones.
    trained: bool,
    kind_bytes: u64,
    retrain_at: u64,
    /// The last key as used by groups.
    last_form: Vec<u8>,
}

/// Symbols that texts are compressed with, and the number of their table.
#[derive(Clone)]
struct Symbols {
    compressor: Arc<Compressor>,
    table: u16,
}

impl Encoder {
    fn new(pages: PageWriter, filters: bool) -> Self {
        let page_bytes = pages.page_bytes();
        assert!(
            (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes),
            "dictionary pages have 4 to 64 KiB"
        );
        Self {
            pages,
            page: PageBuilder::new(page_bytes),
            page_entries: 0,
            page_key_bytes: 0,
            page_hashes: Vec::new(),
            filter: filters.then(|| OpenFilter::new(page_bytes)),
            directory: OpenDirectory::new(page_bytes),
            kind: None,
            symbols: Symbols::none(),
            last_start: Vec::new(),
        }
    }

    fn run(
        mut self,
        coded: &Receiver<Receiver<Batch>>,
        recycle: &Sender<Batch>,
    ) -> Result<Self, StoreError> {
        for batch in coded {
            let Ok(mut batch) = batch.recv() else {
                break;
            };
            self.encode(&mut batch)?;
            if batch.last {
                self.close_kind()?;
                return Ok(self);
            }
            batch.clear();
            // If there are enough batches, this one is dropped.
            drop(recycle.try_send(batch));
        }
        Err(StoreError::Abandoned {
            what: "the dictionary being written",
        })
    }

    fn finish(mut self) -> Result<DictionaryDirectory, StoreError> {
        let page_count = self.pages.page_count();
        let pages = &mut self.pages;
        let directory = self.directory.finish(|page| pages.push(page))?;
        assert_eq!(
            page_count,
            directory.page_count(),
            "every page is of a kind"
        );
        self.pages.finish()?;
        Ok(directory)
    }

    fn encode(&mut self, batch: &mut Batch) -> Result<(), StoreError> {
        let Some(kind) = batch.kind else {
            return Ok(());
        };
        if self.kind != Some(kind) {
            self.close_kind()?;
            self.kind = Some(kind);
            self.last_start.clear();
        }
        if let Some(table) = batch.coded.new_table.take() {
            self.close_page()?;
            self.directory.add_table(table);
        }
        self.symbols = batch.coded.symbols.take().expect("the batch is coded");
        let mut start = 0;
        for (index, &suffix_bytes) in batch.coded.suffix_bytes.iter().enumerate() {
            let end = batch.coded.ends[index] as usize;
            let before = match index.checked_sub(1) {
                Some(before) => batch.key(before),
                None => &[],
            };
            let key = batch.key(index);
            let form = form(key, inline_key_bytes_max(self.directory.page_bytes()));
            let suffix = &form[form.len() - suffix_bytes as usize..];
            self.place(
                batch.first_rank + index as u64,
                (index > 0).then_some(before),
                key,
                Stored::shorter(suffix, &batch.coded.codes[start..end]),
                suffix.len(),
            )?;
            self.page_hashes.extend(batch.coded.hashes.get(index));
            start = end;
        }
        if let Some(last) = batch.ends.len().checked_sub(1) {
            let key = batch.key(last);
            self.last_start.clear();
            self.last_start
                .extend_from_slice(&key[..key.len().min(SEPARATOR_BYTES_MAX + 1)]);
        }
        Ok(())
    }

    /// Puts a key into the open page, or into a new one.
    fn place(
        &mut self,
        rank: u64,
        before: Option<&[u8]>,
        key: &[u8],
        suffix: Stored<'_>,
        suffix_bytes: usize,
    ) -> Result<(), StoreError> {
        let form = form(key, inline_key_bytes_max(self.directory.page_bytes()));
        let rest = &key[form.len()..];
        let mut rest_codes = Vec::new();
        let continuation = (!rest.is_empty()).then(|| {
            let compressed = self.symbols.compress_large(rest, &mut rest_codes);
            Continuation {
                stored: Stored {
                    bytes: if compressed { &rest_codes } else { rest },
                    compressed,
                },
                key_bytes: rest.len(),
            }
        });
        let mut codes = Vec::new();
        let placed = if self.page.is_empty() {
            false
        } else if self.page.at_restart() {
            let shared = common_prefix(self.page.reference(), form);
            self.symbols.compress(&form[shared..], &mut codes);
            let suffix = Stored::shorter(&form[shared..], &codes);
            self.page.push(shared, suffix, continuation)
        } else {
            self.page
                .push(form.len() - suffix_bytes, suffix, continuation)
        };
        if !placed {
            self.close_page()?;
            let kind = self.kind.expect("set when the batch began");
            let before = before.unwrap_or(&self.last_start);
            let separator = if rank == 0 {
                &[]
            } else {
                separator(before, key)
            };
            let number = self.pages.page_count();
            self.directory.add_page(kind, number, separator);
            self.symbols.compress(form, &mut codes);
            self.page.start(
                kind as u8,
                self.symbols.table,
                rank,
                form,
                Stored::shorter(form, &codes),
                continuation,
            );
        }
        self.page_entries += 1;
        self.page_key_bytes += key.len() as u64;
        Ok(())
    }

    fn close_page(&mut self) -> Result<(), StoreError> {
        if self.page.is_empty() {
            return Ok(());
        }
        let pages = &mut self.pages;
        let number = pages.page_count();
        let overflow_pages = self
            .page
            .finish(number, |page| pages.push(page).map(drop))?;
        let kind = self.kind.expect("a page has a kind");
        self.directory
            .close_page(kind, self.page_entries, self.page_key_bytes, overflow_pages);
        self.page_entries = 0;
        self.page_key_bytes = 0;
        let filter = self.filter.as_mut();
        let full = filter.and_then(|filter| filter.add_page(&mut self.page_hashes));
        self.push_filter(kind, full)
    }

    /// Closes the last pages of a kind.
    fn close_kind(&mut self) -> Result<(), StoreError> {
        self.close_page()?;
        let Some(kind) = self.kind else {
            return Ok(());
        };
        let rest = self.filter.as_mut().and_then(OpenFilter::take);
        self.push_filter(kind, rest)
    }

    /// Writes a filter page of some entry pages, if there is one.
    fn push_filter(
        &mut self,
        kind: TermKind,
        filter: Option<(Vec<u8>, usize)>,
    ) -> Result<(), StoreError> {
        if let Some((mut page, entry_pages)) = filter {
            let number = self.pages.push(&mut page)?;
            self.directory.add_filter(kind, number, entry_pages);
        }
        Ok(())
    }
}

/// Returns the key as stored in entries: whole, or the prefix of a large key.
fn form(key: &[u8], inline_max: usize) -> &[u8] {
    if key.len() > inline_max {
        &key[..LARGE_PREFIX_BYTES]
    } else {
        key
    }
}

/// Starts up to `threads` threads like this one.
fn start_coders(coder: Coder, threads: usize) -> Result<Vec<JoinHandle<()>>, StoreError> {
    let start = |coder: Coder| thread("dictionary keys", move || coder.run());
    let coders = std::iter::repeat_n(coder, threads.clamp(1, CODERS_MAX));
    coders.map(start).collect()
}

impl Coder {
    fn run(self) {
        // If nobody receives a batch, the other thread has an error to report.
        while let Some((mut batch, before, coded)) = self.next() {
            self.code(&mut batch, &before);
            if coded.send(batch).is_err() {
                return;
            }
        }
    }

    /// Takes the next batch, and its symbols. Also returns the last key before it, and where it goes when it is compressed.
    fn next(&self) -> Option<(Batch, Vec<u8>, Sender<Batch>)> {
        let mut tables = self.tables.lock().expect("nothing panics holding it");
        let mut batch = self.batches.recv().ok()?;
        let before = tables.choose(&mut batch);
        let (coded, to_come) = bounded(1);
        self.coded.send(to_come).ok()?;
        Some((batch, before, coded))
    }

    fn code(&self, batch: &mut Batch, before: &[u8]) {
        let mut coded = std::mem::take(&mut batch.coded);
        // A batch without a kind has no keys.
        if let Some(symbols) = &coded.symbols {
            let suffixes = batch.suffixes(before, self.inline_max);
            coded.suffix_bytes.clear();
            let lengths = suffixes.iter().map(|suffix| suffix.len() as u32);
            coded.suffix_bytes.extend(lengths);
            symbols.compress_all(&suffixes, &mut coded.codes, &mut coded.ends);
        }
        coded.hashes.clear();
        if let Some(kind) = batch.kind.filter(|_| self.hashes) {
            let keys = (0..batch.ends.len()).map(|index| batch.key(index));
            let hashes = keys.map(|bytes| hash_of_key(TermKey { kind, bytes }));
            coded.hashes.extend(hashes);
        }
        batch.coded = coded;
    }
}

impl Tables {
    fn new(inline_max: usize) -> Self {
        Self {
            inline_max,
            kind: None,
            symbols: Symbols::none(),
            count: 0,
            trained: false,
            kind_bytes: 0,
            retrain_at: 0,
            last_form: Vec::new(),
        }
    }

    /// Chooses the symbols of the next batch. Returns the last key of its kind before it.
    fn choose(&mut self, batch: &mut Batch) -> Vec<u8> {
        let (Some(kind), Some(last)) = (batch.kind, batch.ends.len().checked_sub(1)) else {
            return Vec::new();
        };
        if self.kind != Some(kind) {
            self.kind = Some(kind);
            self.trained = false;
            self.kind_bytes = 0;
            self.retrain_at = 0;
            self.last_form.clear();
        }
        let before = std::mem::take(&mut self.last_form);
        let is_due = self.is_due(batch.bytes.len() as u64);
        batch.coded.new_table = is_due
            .then(|| self.retrain(&batch.suffixes(&before, self.inline_max)))
            .flatten();
        batch.coded.symbols = Some(self.symbols.clone());
        self.last_form = form(batch.key(last), self.inline_max).to_vec();
        before
    }

    /// Counts a batch of the kind, and returns whether to try another table.
    fn is_due(&mut self, batch_bytes: u64) -> bool {
        let due = self.kind_bytes >= self.retrain_at;
        self.kind_bytes += batch_bytes;
        if due {
            self.retrain_at =
                self.kind_bytes + RETRAIN_BYTES_MIN.max(self.kind_bytes / RETRAIN_SHARE);
        }
        due
    }

    /// Trains symbols on these suffixes and adopts them if the kind has none yet, or if they compress clearly better.
    /// Returns their table.
    fn retrain(&mut self, suffixes: &[&[u8]]) -> Option<SymbolTable> {
        let total: usize = suffixes.iter().map(|suffix| suffix.len()).sum();
        let candidate = if total < TRAINING_BYTES_MIN {
            if self.trained {
                return None;
            }
            CompressorBuilder::new().build()
        } else {
            Compressor::train(&suffixes.to_vec())
        };
        if self.trained {
            let sample = sample(suffixes, COMPARISON_BYTES);
            let (old, new) = (
                compressed_bytes(&self.symbols.compressor, &sample),
                compressed_bytes(&candidate, &sample),
            );
            if new + new / RETRAIN_GAIN >= old {
                return None;
            }
        }
        // Pages can refer to no more tables.
        let table = u16::try_from(self.count).ok()?;
        self.count += 1;
        self.trained = true;
        let of_table = SymbolTable::of(&candidate);
        self.symbols = Symbols {
            compressor: Arc::new(candidate),
            table,
        };
        Some(of_table)
    }
}

impl Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Symbols({})", self.table)
    }
}

impl Symbols {
    /// Returns the symbols before the first table.
    fn none() -> Self {
        Self {
            compressor: Arc::new(CompressorBuilder::new().build()),
            table: 0,
        }
    }

    /// Compresses values, one after the other, and returns where each ends. The buffers are reused.
    fn compress_all(&self, values: &[&[u8]], codes: &mut Vec<u8>, ends: &mut Vec<u64>) {
        codes.clear();
        ends.clear();
        self.compressor
            .compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(values, codes, ends);
    }

    fn compress(&self, value: &[u8], codes: &mut Vec<u8>) {
        self.compress_all(&[value], codes, &mut Vec::new());
    }

    /// Compresses piece by piece, since each piece needs room for twice its bytes. Stops and returns false if that
    /// saves nothing.
    fn compress_large(&self, value: &[u8], codes: &mut Vec<u8>) -> bool {
        let mut piece_codes = Vec::new();
        let mut done = 0;
        for piece in value.chunks(LARGE_CHUNK_BYTES) {
            self.compress(piece, &mut piece_codes);
            codes.extend_from_slice(&piece_codes);
            done += piece.len();
            if codes.len() >= done {
                return false;
            }
        }
        true
    }
}

/// Returns some of the values, evenly spaced, of about `bytes` together.
fn sample<'a>(values: &[&'a [u8]], bytes: usize) -> Vec<&'a [u8]> {
    let total: usize = values.iter().map(|value| value.len()).sum();
    let step = total.div_ceil(bytes).max(1);
    values.iter().step_by(step).copied().collect()
}

/// Returns the bytes of these values, each stored in its shorter encoding.
fn compressed_bytes(compressor: &Compressor, values: &[&[u8]]) -> usize {
    let (mut codes, mut ends) = (Vec::new(), Vec::new());
    compressor
        .compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(values, &mut codes, &mut ends);
    let mut start = 0;
    values.iter().zip(&ends).fold(0, |sum, (value, &end)| {
        let length = (end - start) as usize;
        start = end;
        sum + length.min(value.len())
    })
}
