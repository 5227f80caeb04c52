//! Writing a dictionary from sorted keys.
//!
//! The caller's thread only copies keys into batches; a thread of the writer front-codes, compresses and packs them,
//! and writes the pages. Batches are split by bytes alone and encoded in order, so the same keys always give the same
//! file.

use std::panic::resume_unwind;
use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};
use fsst::{Compressor, CompressorBuilder};
use pythia_io::{IoError, PageWriter};
use pythia_rdf::{TermId, TermKey, TermKind};

use super::build::{Continuation, PageBuilder, Stored};
use super::common_prefix;
use super::directory::{DictionaryDirectory, OpenDirectory};
use super::format::{LARGE_PREFIX_BYTES, PAGE_BYTES_MAX, PAGE_BYTES_MIN, inline_key_bytes_max};
use super::separators::{SEPARATOR_BYTES_MAX, separator};
use super::symbols::SymbolTable;
use crate::StoreError;

/// Key bytes in a batch, unless a single key has more.
const BATCH_BYTES: usize = 1 << 20;
/// Most keys in a batch: short ones cost more than their bytes.
const BATCH_KEYS: usize = 1 << 16;
/// Batches that may wait for the encoding thread.
const BATCHES_WAITING: usize = 2;

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
    /// `None` once the encoding thread has been told to end.
    batches: Option<Sender<Batch>>,
    emptied: Receiver<Batch>,
    thread: Option<JoinHandle<Result<Encoder, StoreError>>>,
    batch: Batch,
    next_rank: u64,
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
}

impl Batch {
    fn key(&self, index: usize) -> &[u8] {
        let start = match index.checked_sub(1) {
            Some(before) => self.ends[before],
            None => 0,
        };
        &self.bytes[start..self.ends[index]]
    }

    fn clear(&mut self) {
        self.kind = None;
        self.bytes.clear();
        self.ends.clear();
        if self.bytes.capacity() > 4 * BATCH_BYTES {
            self.bytes = Vec::new();
        }
    }
}

impl DictionaryWriter {
    /// Returns a writer into an empty paged file.
    ///
    /// # Panics
    /// If the page size is not 4 to 64 KiB.
    pub fn new(pages: PageWriter) -> Result<Self, StoreError> {
        let encoder = Encoder::new(pages);
        let (batches, received) = bounded::<Batch>(BATCHES_WAITING);
        let (recycle, emptied) = bounded(BATCHES_WAITING + 1);
        let thread = Builder::new()
            .name("dictionary".to_owned())
            .spawn(move || encoder.run(&received, &recycle))
            .map_err(|source| IoError::os("start a thread for", "the dictionary", None, source))?;
        Ok(Self {
            batches: Some(batches),
            emptied,
            thread: Some(thread),
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
        // The thread has ended too early, so it has an error to report.
        match self.join() {
            Ok(_) => Err(StoreError::Abandoned {
                what: "the dictionary being written",
            }),
            Err(error) => Err(error),
        }
    }

    fn join(&mut self) -> Result<Encoder, StoreError> {
        self.batches = None;
        let Some(thread) = self.thread.take() else {
            return Err(StoreError::Abandoned {
                what: "the dictionary being written",
            });
        };
        match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl Drop for DictionaryWriter {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            // The file is abandoned, so an error does not matter.
            drop(thread.join());
        }
    }
}

/// The encoding thread's state.
struct Encoder {
    pages: PageWriter,
    page: PageBuilder,
    /// Entries and key bytes of the open page.
    page_entries: u64,
    page_key_bytes: u64,
    directory: OpenDirectory,
    kind: Option<TermKind>,
    coder: Coder,
    /// The last key as used by groups, and its beginning as used by separators.
    last_form: Vec<u8>,
    last_start: Vec<u8>,
}

/// The current compressor, and the time to look for a better one.
struct Coder {
    compressor: Compressor,
    table: u16,
    trained: bool,
    kind_bytes: u64,
    retrain_at: u64,
    codes: Vec<u8>,
    ends: Vec<u64>,
}

impl Encoder {
    fn new(pages: PageWriter) -> Self {
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
            directory: OpenDirectory::new(page_bytes),
            kind: None,
            coder: Coder::new(),
            last_form: Vec::new(),
            last_start: Vec::new(),
        }
    }

    fn run(
        mut self,
        batches: &Receiver<Batch>,
        recycle: &Sender<Batch>,
    ) -> Result<Self, StoreError> {
        for mut batch in batches {
            self.encode(&batch)?;
            if batch.last {
                self.close_page()?;
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
        let entry_pages = self.pages.page_count();
        let pages = &mut self.pages;
        let directory = self.directory.finish(|page| pages.push(page))?;
        assert_eq!(
            entry_pages,
            directory.page_count(),
            "every page is of a kind"
        );
        self.pages.finish()?;
        Ok(directory)
    }

    fn encode(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let Some(kind) = batch.kind else {
            return Ok(());
        };
        if self.kind != Some(kind) {
            self.close_page()?;
            self.kind = Some(kind);
            self.coder.start_kind();
            self.last_form.clear();
            self.last_start.clear();
        }
        let inline_max = inline_key_bytes_max(self.directory.page_bytes());
        let count = batch.ends.len();
        let mut suffixes = Vec::with_capacity(count);
        let mut before = &self.last_form[..];
        for index in 0..count {
            let form = form(batch.key(index), inline_max);
            suffixes.push(&form[common_prefix(before, form)..]);
            before = form;
        }
        if self.coder.is_due(batch.bytes.len() as u64)
            && self.coder.retrain(&suffixes, &mut self.directory)
        {
            self.close_page()?;
        }
        let mut codes = std::mem::take(&mut self.coder.codes);
        let mut ends = std::mem::take(&mut self.coder.ends);
        codes.clear();
        ends.clear();
        self.coder.compress_all(&suffixes, &mut codes, &mut ends);
        let mut start = 0;
        for (index, suffix) in suffixes.iter().enumerate() {
            let end = ends[index] as usize;
            let before = match index.checked_sub(1) {
                Some(before) => batch.key(before),
                None => &[],
            };
            self.place(
                batch.first_rank + index as u64,
                (index > 0).then_some(before),
                batch.key(index),
                Stored::shorter(suffix, &codes[start..end]),
                suffix.len(),
            )?;
            start = end;
        }
        self.coder.codes = codes;
        self.coder.ends = ends;
        if let Some(last) = count.checked_sub(1) {
            let key = batch.key(last);
            self.last_form.clear();
            self.last_form.extend_from_slice(form(key, inline_max));
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
            let compressed = self.coder.compress_large(rest, &mut rest_codes);
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
            self.coder.compress(&form[shared..], &mut codes);
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
            self.coder.compress(form, &mut codes);
            self.page.start(
                kind as u8,
                self.coder.table,
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

impl Coder {
    fn new() -> Self {
        Self {
            compressor: CompressorBuilder::new().build(),
            table: 0,
            trained: false,
            kind_bytes: 0,
            retrain_at: 0,
            codes: Vec::new(),
            ends: Vec::new(),
        }
    }

    fn start_kind(&mut self) {
        self.trained = false;
        self.kind_bytes = 0;
        self.retrain_at = 0;
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

    /// Trains a table on these suffixes and adopts it if the kind has none yet, or if it compresses them clearly
    /// better. Returns whether there is a new one.
    fn retrain(&mut self, suffixes: &[&[u8]], directory: &mut OpenDirectory) -> bool {
        let total: usize = suffixes.iter().map(|suffix| suffix.len()).sum();
        let candidate = if total < TRAINING_BYTES_MIN {
            if self.trained {
                return false;
            }
            CompressorBuilder::new().build()
        } else {
            Compressor::train(&suffixes.to_vec())
        };
        if self.trained {
            let sample = sample(suffixes, COMPARISON_BYTES);
            let (old, new) = (
                compressed_bytes(&self.compressor, &sample),
                compressed_bytes(&candidate, &sample),
            );
            if new + new / RETRAIN_GAIN >= old {
                return false;
            }
        }
        let Some(table) = directory.add_table(SymbolTable::of(&candidate)) else {
            return false;
        };
        self.table = table;
        self.compressor = candidate;
        self.trained = true;
        true
    }

    fn compress_all(&self, values: &[&[u8]], codes: &mut Vec<u8>, ends: &mut Vec<u64>) {
        self.compressor
            .compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(values, codes, ends);
    }

    fn compress(&mut self, value: &[u8], codes: &mut Vec<u8>) {
        self.ends.clear();
        codes.clear();
        self.compressor
            .compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(
                &[value],
                codes,
                &mut self.ends,
            );
    }

    /// Compresses piece by piece, since each piece needs room for twice its bytes. Stops and returns false if that
    /// saves nothing.
    fn compress_large(&mut self, value: &[u8], codes: &mut Vec<u8>) -> bool {
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
