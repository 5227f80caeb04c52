//! The Buffered Bloom filter (§3 of "Storage Class Memory Aware Data Management"): a filter on the device whose reads and writes
//! are deferred, compared with filters in memory.
//!
//! The bits of [`BufferedFilter`] are divided among pages; the hash of a key determines one page, and all its bits are there.
//! Each page has a block in memory, which buffers half a hash for each key to insert, or each key to probe for. When a block is
//! full, its page is read, the block is applied, and, after inserts, the page is written.
//!
//! Keys are hashed with foldhash, and bits are chosen by two halves of one hash (Kirsch and Mitzenmacher), in all filters.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use foldhash::quality::FixedState;
use pythia_io::{
    ALIGNMENT, AlignedBuffer, DirectStorage, LogFile, MERGED_READ_BYTES_MAX, ReadFile, ReadRequest,
    Storage,
};
use serde::Serialize;

/// Bits set for a key on the device, as in the paper.
pub const STORED_HASHES: u32 = 2;
/// Bits set for a key in memory, as in the paper.
pub const MEMORY_HASHES: u32 = 3;
/// Bits of the block that has all bits of a key in a blocked filter: a line of the processor's cache.
const BLOCK_BITS: u64 = 512;
/// Pages of a filter on the device.
const PAGES: usize = 128;
const NAME: &str = "bloom";

/// Parameters.
#[derive(Clone, Debug)]
pub struct Options {
    /// Keys inserted, and probes.
    pub keys: u64,
    /// Bytes of the filter on the device, a power of two.
    pub stored_bytes: usize,
    /// Bytes of one of its pages, a power of two.
    pub page_bytes: usize,
    /// Sizes of the buffer to measure, in bytes.
    pub buffer_bytes: Vec<usize>,
    /// Sizes of filters in memory to measure, in bytes, powers of two.
    pub memory_bytes: Vec<usize>,
}

impl Options {
    /// The paper's number of keys, and the bytes of its filter on the device.
    pub const PAPER: (u64, usize) = (50_000_000, 256 << 20);

    /// Returns the sizes for a filter on the device, in the paper's proportions: pages of a 128th, buffers from a 16th to a
    /// half, and filters in memory from a half down. Errors if the size is not a power of two, or is too small for pages.
    pub fn new(keys: u64, stored_bytes: usize) -> Result<Self, String> {
        if !stored_bytes.is_power_of_two() || stored_bytes < PAGES * ALIGNMENT {
            return Err(format!(
                "the size of a filter is a power of two from {} on, not {stored_bytes}",
                PAGES * ALIGNMENT
            ));
        }
        Ok(Self {
            keys,
            stored_bytes,
            page_bytes: stored_bytes / PAGES,
            buffer_bytes: [16, 8, 4, 2].map(|part| stored_bytes / part).to_vec(),
            memory_bytes: [2, 4, 8].map(|part| stored_bytes / part).to_vec(),
        })
    }
}

/// A kind of filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// In memory, the bits of a key anywhere.
    Classic,
    /// In memory, the bits of a key in one block of 64 bytes.
    Blocked,
    /// On the device, with buffered keys.
    Buffered,
}

/// The figures of one filter.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    /// The kind.
    pub kind: Kind,
    /// Bytes of its bits.
    pub filter_bytes: usize,
    /// Bytes of the buffer of a filter on the device.
    pub buffer_bytes: Option<usize>,
    /// Bytes of memory: the bits, or the buffer with one page.
    pub memory_bytes: usize,
    /// Bits set for a key.
    pub hashes: u32,
    /// Seconds to insert all keys.
    pub build_seconds: f64,
    /// Seconds of all probes.
    pub probe_seconds: f64,
    /// Probes of keys that were not inserted.
    pub absent: u64,
    /// Those that the filter lets pass.
    pub false_positives: u64,
    /// Bytes read from and written to the device.
    pub read_bytes: u64,
    /// See `read_bytes`.
    pub written_bytes: u64,
}

impl Measured {
    /// Returns the time of inserts and probes.
    pub fn seconds(&self) -> f64 {
        self.build_seconds + self.probe_seconds
    }

    /// Returns the share of false positives.
    pub fn false_positive_rate(&self) -> f64 {
        self.false_positives as f64 / self.absent.max(1) as f64
    }
}

/// All filters.
#[derive(Clone, Debug, Serialize)]
pub struct Filters {
    /// Keys inserted, and probes: every other probe is of an inserted key.
    pub keys: u64,
    /// Bytes of a page on the device.
    pub page_bytes: usize,
    /// Each filter.
    pub filters: Vec<Measured>,
}

impl Filters {
    /// Returns the filters of a kind.
    pub(super) fn all(&self, kind: Kind) -> impl Iterator<Item = &Measured> {
        self.filters
            .iter()
            .filter(move |filter| filter.kind == kind)
    }
}

/// Measures all filters, by turns in each round.
pub(super) fn run(
    storage: &Arc<DirectStorage>,
    options: &Options,
    rounds: usize,
    mut progress: impl FnMut(&str),
) -> Result<Filters> {
    let plans = options.plans();
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); plans.len()];
    for _ in 0..rounds {
        for (plan, runs) in plans.iter().zip(&mut runs) {
            progress(&plan.describe());
            runs.push(plan.run(storage, options)?);
        }
    }
    storage.remove(NAME)?;
    let filters = plans
        .iter()
        .zip(&runs)
        .map(|(plan, runs)| plan.measured(runs));
    Ok(Filters {
        keys: options.keys,
        page_bytes: options.page_bytes,
        filters: filters.collect(),
    })
}

/// A filter to measure.
#[derive(Clone, Copy)]
struct Plan {
    kind: Kind,
    /// Bytes of a filter in memory, or of the buffer of one on the device.
    bytes: usize,
    hashes: u32,
}

/// One round of a filter.
#[derive(Clone, Copy)]
struct Run {
    build_seconds: f64,
    probe_seconds: f64,
    absent: u64,
    false_positives: u64,
    facts: Facts,
}

impl Options {
    /// Returns all filters: those in memory, then those on the device.
    fn plans(&self) -> Vec<Plan> {
        let plan = |kind, hashes| {
            move |bytes: &usize| Plan {
                kind,
                bytes: *bytes,
                hashes,
            }
        };
        let classic = self.memory_bytes.iter();
        let mut plans: Vec<Plan> = classic.map(plan(Kind::Classic, MEMORY_HASHES)).collect();
        // The blocked one shows what a filter made for caches can do; its size makes no other difference.
        let blocked = self.memory_bytes.first();
        plans.extend(blocked.map(plan(Kind::Blocked, MEMORY_HASHES)));
        let buffers = self.buffer_bytes.iter();
        plans.extend(buffers.map(plan(Kind::Buffered, STORED_HASHES)));
        // With one bit more for a key, false positives are fewer.
        let more = self.buffer_bytes.get(1);
        plans.extend(more.map(plan(Kind::Buffered, STORED_HASHES + 1)));
        plans
    }
}

impl Plan {
    fn describe(&self) -> String {
        let Self {
            kind,
            bytes,
            hashes,
        } = self;
        let kib = bytes >> 10;
        match kind {
            Kind::Buffered => {
                format!("bloom: on the device, a buffer of {kib} KiB, {hashes} bits")
            }
            _ => format!("bloom: {kib} KiB in memory, {kind:?}"),
        }
    }

    /// Measures one round of a new filter.
    fn run(&self, storage: &Arc<DirectStorage>, options: &Options) -> Result<Run> {
        let (kind, keys) = (self.kind, options.keys);
        if kind == Kind::Buffered {
            let (bytes, page) = (options.stored_bytes, options.page_bytes);
            let filter = BufferedFilter::create(storage, bytes, page, self.bytes, self.hashes)?;
            return measure(kind, keys, filter);
        }
        let is_blocked = kind == Kind::Blocked;
        measure(
            kind,
            keys,
            MemoryFilter::new(self.bytes, self.hashes, is_blocked),
        )
    }

    /// Returns the figures of its rounds: median times. All else is the same in each round.
    fn measured(&self, runs: &[Run]) -> Measured {
        let last = runs.last().expect("there is a round");
        let median = |seconds: fn(&Run) -> f64| {
            super::median(&mut runs.iter().map(seconds).collect::<Vec<_>>())
        };
        Measured {
            kind: self.kind,
            filter_bytes: last.facts.filter_bytes,
            buffer_bytes: last.facts.buffer_bytes,
            memory_bytes: last.facts.memory_bytes,
            hashes: last.facts.hashes,
            build_seconds: median(|run| run.build_seconds),
            probe_seconds: median(|run| run.probe_seconds),
            absent: last.absent,
            false_positives: last.false_positives,
            read_bytes: last.facts.read_bytes,
            written_bytes: last.facts.written_bytes,
        }
    }
}

/// A filter to be filled, and then probed. The answers of probes may come later, and in another order.
trait Filter {
    fn insert(&mut self, key: u64) -> Result<()>;
    /// Ends the inserts.
    fn seal(&mut self) -> Result<()>;
    /// Probes for a key. `passes` gets the keys that pass, of this and of earlier probes.
    fn probe(&mut self, key: u64, passes: &mut dyn FnMut(u64)) -> Result<()>;
    /// Answers all probes.
    fn finish(&mut self, passes: &mut dyn FnMut(u64)) -> Result<()>;
    /// Returns its sizes, and the bytes that it read and wrote.
    fn facts(&self) -> Facts;
}

#[derive(Clone, Copy)]
struct Facts {
    filter_bytes: usize,
    buffer_bytes: Option<usize>,
    memory_bytes: usize,
    hashes: u32,
    read_bytes: u64,
    written_bytes: u64,
}

/// Returns the key with a number; different numbers have different keys.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns the number of a key.
fn number(key: u64) -> u64 {
    const INVERSE: u64 = 0xf1de_83e1_9937_733d;
    const { assert!(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(INVERSE) == 1) };
    key.wrapping_mul(INVERSE)
}

/// Inserts keys 0 to `keys`, then probes for inserted keys and others by turns.
fn measure(kind: Kind, keys: u64, mut filter: impl Filter) -> Result<Run> {
    let begun = Instant::now();
    for number in 0..keys {
        filter.insert(key(number))?;
    }
    filter.seal()?;
    let build_seconds = begun.elapsed().as_secs_f64();
    let (mut found, mut false_positives) = (0, 0);
    let mut passes = |key| match number(key) < keys {
        true => found += 1,
        false => false_positives += 1,
    };
    let begun = Instant::now();
    for probe in 0..keys {
        // The low bit decides; inserted keys are probed in another order than they were inserted.
        let inserted = probe.wrapping_mul(0x9e37_79b1) % keys;
        let number = if probe & 1 == 0 {
            inserted
        } else {
            keys + probe
        };
        filter.probe(key(number), &mut passes)?;
    }
    filter.finish(&mut passes)?;
    let probe_seconds = begun.elapsed().as_secs_f64();
    ensure!(
        found == keys.div_ceil(2),
        "{kind:?}: {found} of {} inserted keys were found",
        keys.div_ceil(2)
    );
    Ok(Run {
        build_seconds,
        probe_seconds,
        absent: keys / 2,
        false_positives,
        facts: filter.facts(),
    })
}

/// Returns the hash of a key.
fn hash(key: u64) -> u64 {
    FixedState::with_seed(0).hash_one(key)
}

/// Returns the places of a key's bits among a power of two of them.
fn bits(hash: u64, hashes: u32, count: u64) -> impl Iterator<Item = usize> {
    // The step is odd, so that a key's bits differ.
    let (first, step) = (hash, hash >> 32 | 1);
    (0..u64::from(hashes))
        .map(move |n| (first.wrapping_add(n.wrapping_mul(step)) & (count - 1)) as usize)
}

/// Returns a hash for the bits in a page from the lower half of a key's hash, which is all that an insert keeps. Among the keys
/// of a page, few have the same half.
fn spread(half: u32) -> u64 {
    u64::from(half).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Sets bits.
fn set(bytes: &mut [u8], bits: impl Iterator<Item = usize>) {
    bits.for_each(|bit| bytes[bit / 8] |= 1 << (bit % 8));
}

/// Returns whether all bits are set.
fn has(bytes: &[u8], mut bits: impl Iterator<Item = usize>) -> bool {
    bits.all(|bit| bytes[bit / 8] >> (bit % 8) & 1 == 1)
}

/// A filter in memory.
struct MemoryFilter {
    bytes: Vec<u8>,
    hashes: u32,
    blocked: bool,
}

impl MemoryFilter {
    fn new(bytes: usize, hashes: u32, blocked: bool) -> Self {
        Self {
            bytes: vec![0; bytes],
            hashes,
            blocked,
        }
    }

    /// Returns the bytes that have all bits of a key.
    fn block(&self, hash: u64) -> std::ops::Range<usize> {
        const BLOCK_BYTES: usize = BLOCK_BITS as usize / 8;
        let blocks = (self.bytes.len() / BLOCK_BYTES) as u64;
        let start = (((hash >> 32) * blocks) >> 32) as usize * BLOCK_BYTES;
        start..start + BLOCK_BYTES
    }
}

impl Filter for MemoryFilter {
    fn insert(&mut self, key: u64) -> Result<()> {
        let hash = hash(key);
        if self.blocked {
            let block = self.block(hash);
            set(&mut self.bytes[block], bits(hash, self.hashes, BLOCK_BITS));
        } else {
            let count = 8 * self.bytes.len() as u64;
            set(&mut self.bytes, bits(hash, self.hashes, count));
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<()> {
        Ok(())
    }

    fn probe(&mut self, key: u64, passes: &mut dyn FnMut(u64)) -> Result<()> {
        let hash = hash(key);
        let has = if self.blocked {
            let block = self.block(hash);
            has(&self.bytes[block], bits(hash, self.hashes, BLOCK_BITS))
        } else {
            let count = 8 * self.bytes.len() as u64;
            has(&self.bytes, bits(hash, self.hashes, count))
        };
        if has {
            passes(key);
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut dyn FnMut(u64)) -> Result<()> {
        Ok(())
    }

    fn facts(&self) -> Facts {
        Facts {
            filter_bytes: self.bytes.len(),
            buffer_bytes: None,
            memory_bytes: self.bytes.len(),
            hashes: self.hashes,
            read_bytes: 0,
            written_bytes: 0,
        }
    }
}

/// A filter on the device. Its file is read while it is written, which not every storage allows.
struct BufferedFilter {
    storage: Arc<DirectStorage>,
    reads: Arc<dyn ReadFile>,
    writes: Box<dyn LogFile>,
    /// The page in work.
    page: AlignedBuffer,
    /// Blocks of the same size, one for each page: a word for each key to insert or, once sealed, two for each to probe for.
    words: Vec<u32>,
    /// The words in each block.
    lengths: Vec<usize>,
    /// Pages that were written; the others have no bit set.
    written: Vec<bool>,
    hashes: u32,
    read_bytes: u64,
    written_bytes: u64,
}

impl BufferedFilter {
    /// Makes an empty filter. All sizes are powers of two, except that of the buffer.
    fn create(
        storage: &Arc<DirectStorage>,
        bytes: usize,
        page_bytes: usize,
        buffer_bytes: usize,
        hashes: u32,
    ) -> Result<Self> {
        let pages = bytes / page_bytes;
        // An even number, for probes.
        let block_words = buffer_bytes / pages / size_of::<u64>() * 2;
        ensure!(
            bytes.is_power_of_two() && page_bytes.is_power_of_two() && page_bytes >= ALIGNMENT,
            "a filter and its pages have powers of two bytes, and pages at least {ALIGNMENT}"
        );
        ensure!(
            pages > 1 && block_words > 0,
            "a filter of {bytes} bytes with pages of {page_bytes} needs a larger buffer, or more pages"
        );
        Ok(Self {
            storage: Arc::clone(storage),
            writes: storage.create_log(NAME, bytes as u64)?,
            reads: storage.open(NAME)?,
            page: AlignedBuffer::zeroed(page_bytes),
            words: vec![0; pages * block_words],
            lengths: vec![0; pages],
            written: vec![false; pages],
            hashes,
            read_bytes: 0,
            written_bytes: 0,
        })
    }

    /// Returns the page of a hash: by the upper bits, as the lower half chooses the bits there.
    fn page_of(&self, hash: u64) -> usize {
        (hash >> (u64::BITS - self.lengths.len().ilog2())) as usize
    }

    /// Buffers words for a page. Returns whether its block is full now.
    fn push<const COUNT: usize>(&mut self, page: usize, words: [u32; COUNT]) -> bool {
        let block_words = self.words.len() / self.lengths.len();
        let length = &mut self.lengths[page];
        let start = page * block_words + *length;
        self.words[start..start + COUNT].copy_from_slice(&words);
        *length += COUNT;
        *length == block_words
    }

    /// Reads a page, and returns it with the words of its block, which is empty then.
    fn take(&mut self, page: usize) -> Result<(&mut [u8], &[u32])> {
        let start = (page * self.page.len()) as u64;
        if self.written[page] {
            let chunks = self.page.chunks_mut(MERGED_READ_BYTES_MAX);
            let offsets = (start..).step_by(MERGED_READ_BYTES_MAX);
            let reads = offsets.zip(chunks).map(|(offset, buffer)| ReadRequest {
                file: &*self.reads,
                offset,
                buffer,
            });
            self.storage.read_batch(&mut reads.collect::<Vec<_>>())?;
            self.read_bytes += self.page.len() as u64;
        } else {
            self.page.fill(0);
        }
        let first = page * (self.words.len() / self.lengths.len());
        let length = std::mem::take(&mut self.lengths[page]);
        Ok((&mut self.page, &self.words[first..first + length]))
    }

    /// Sets the bits of a page's buffered keys.
    fn insert_block(&mut self, page: usize) -> Result<()> {
        let hashes = self.hashes;
        let (bytes, words) = self.take(page)?;
        let count = 8 * bytes.len() as u64;
        for &word in words {
            set(bytes, bits(spread(word), hashes, count));
        }
        let start = (page * self.page.len()) as u64;
        self.writes.write_at(start, &self.page)?;
        self.written[page] = true;
        self.written_bytes += self.page.len() as u64;
        Ok(())
    }

    /// Answers the probes for a page's buffered keys.
    fn probe_block(&mut self, page: usize, passes: &mut dyn FnMut(u64)) -> Result<()> {
        let hashes = self.hashes;
        let (bytes, words) = self.take(page)?;
        let count = 8 * bytes.len() as u64;
        for [low, high] in words.as_chunks().0 {
            let key = u64::from(*high) << 32 | u64::from(*low);
            if has(bytes, bits(spread(hash(key) as u32), hashes, count)) {
                passes(key);
            }
        }
        Ok(())
    }

    /// Returns the pages with keys in their blocks.
    fn waiting(&self) -> Vec<usize> {
        let pages = 0..self.lengths.len();
        pages.filter(|&page| self.lengths[page] > 0).collect()
    }
}

impl Filter for BufferedFilter {
    fn insert(&mut self, key: u64) -> Result<()> {
        let hash = hash(key);
        let page = self.page_of(hash);
        match self.push(page, [hash as u32]) {
            true => self.insert_block(page),
            false => Ok(()),
        }
    }

    fn seal(&mut self) -> Result<()> {
        let mut pages = self.waiting().into_iter();
        pages.try_for_each(|page| self.insert_block(page))
    }

    fn probe(&mut self, key: u64, passes: &mut dyn FnMut(u64)) -> Result<()> {
        let page = self.page_of(hash(key));
        match self.push(page, [key as u32, (key >> 32) as u32]) {
            true => self.probe_block(page, passes),
            false => Ok(()),
        }
    }

    fn finish(&mut self, passes: &mut dyn FnMut(u64)) -> Result<()> {
        let mut pages = self.waiting().into_iter();
        pages.try_for_each(|page| self.probe_block(page, passes))
    }

    fn facts(&self) -> Facts {
        Facts {
            filter_bytes: self.page.len() * self.lengths.len(),
            buffer_bytes: Some(self.words.len() * size_of::<u32>()),
            memory_bytes: self.page.len() + self.words.len() * size_of::<u32>(),
            hashes: self.hashes,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    /// Inserts keys, probes for others, and returns those that pass.
    fn passing(filter: &mut dyn Filter, keys: &[u64], probes: &[u64]) -> Vec<u64> {
        keys.iter()
            .try_for_each(|key| filter.insert(*key))
            .expect("inserted");
        filter.seal().expect("sealed");
        let mut passed = Vec::new();
        let mut passes = |key| passed.push(key);
        let mut probe = |key: &u64| filter.probe(*key, &mut passes);
        probes.iter().try_for_each(&mut probe).expect("probed");
        filter.finish(&mut passes).expect("finished");
        passed
    }

    fn storage() -> (TempDir, Arc<DirectStorage>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let storage = DirectStorage::open(folder.path(), false).expect("opened");
        (folder, Arc::new(storage))
    }

    fn filters(storage: &Arc<DirectStorage>, buffer_bytes: usize) -> [Box<dyn Filter>; 3] {
        let buffered =
            BufferedFilter::create(storage, 64 << 10, 8 << 10, buffer_bytes, STORED_HASHES);
        [
            Box::new(MemoryFilter::new(32 << 10, MEMORY_HASHES, false)),
            Box::new(MemoryFilter::new(32 << 10, MEMORY_HASHES, true)),
            Box::new(buffered.expect("created")),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn every_inserted_key_passes_as_often_as_it_is_probed_for(
            keys in proptest::collection::vec(any::<u64>(), 0..2000),
            others in proptest::collection::vec(any::<u64>(), 0..500),
            buffer_bytes in 64_usize..20_000,
        ) {
            let (_folder, storage) = storage();
            let probes: Vec<u64> = keys.iter().chain(&others).chain(&keys).copied().collect();
            let inserted: HashSet<u64> = keys.iter().copied().collect();
            for filter in &mut filters(&storage, buffer_bytes) {
                let passed = passing(&mut **filter, &keys, &probes);
                let mut found: Vec<u64> = passed.into_iter().filter(|key| inserted.contains(key)).collect();
                found.sort_unstable();
                let mut expected: Vec<u64> = probes.iter().copied().filter(|key| inserted.contains(key)).collect();
                expected.sort_unstable();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn false_positives_are_as_few_as_the_formula_says() {
        let (keys, probes) = (12_500, 400_000);
        let inserted: Vec<u64> = (0..keys).map(key).collect();
        let absent: Vec<u64> = (keys..keys + probes).map(key).collect();
        let formula = |bits: f64, hashes: i32| {
            let set = 1.0 - (-f64::from(hashes) * keys as f64 / bits).exp();
            set.powi(hashes)
        };
        let (_folder, storage) = storage();
        let memory = formula(8.0 * 32.0 * 1024.0, 3);
        // The blocks of a blocked filter have unequal numbers of keys, which costs some.
        let expected = [memory, 1.5 * memory, formula(8.0 * 64.0 * 1024.0, 2)];
        for (filter, expected) in filters(&storage, 4096).iter_mut().zip(expected) {
            let rate = passing(&mut **filter, &inserted, &absent).len() as f64 / probes as f64;
            assert!(rate < 1.2 * expected, "{rate}, not {expected}");
        }
    }

    #[test]
    fn a_larger_buffer_saves_reads_and_writes() {
        let keys: Vec<u64> = (0..10_000).map(key).collect();
        let mut read = Vec::new();
        for buffer_bytes in [2 << 10, 16 << 10, 512 << 10] {
            let (_folder, storage) = storage();
            let [_, _, mut filter] = filters(&storage, buffer_bytes);
            passing(&mut *filter, &keys, &keys);
            let facts = filter.facts();
            assert_eq!(facts.buffer_bytes, Some(buffer_bytes));
            read.push((facts.read_bytes, facts.written_bytes));
        }
        assert!(read.is_sorted_by(|a, b| a.0 > b.0 && a.1 > b.1), "{read:?}");
        // All keys fit: each page is written once, and read once for the probes.
        assert_eq!(read[2], (64 << 10, 64 << 10));
    }

    #[test]
    fn filters_take_turns_in_each_round() {
        let (_folder, storage) = storage();
        let options = Options::new(500, 1 << 20).expect("a power of two");
        let mut steps = Vec::new();
        let filters = run(&storage, &options, 3, |step| steps.push(step.to_owned()));
        let filters = filters.expect("measured").filters;
        let rounds: Vec<&[String]> = steps.chunks(filters.len()).collect();
        let different: HashSet<&String> = rounds[0].iter().collect();
        assert_eq!(different.len(), filters.len(), "{steps:?}");
        assert_eq!(rounds, [rounds[0]; 3]);
        let kinds: Vec<Kind> = filters.iter().map(|filter| filter.kind).collect();
        assert!(kinds.starts_with(&[Kind::Classic, Kind::Classic, Kind::Classic, Kind::Blocked]));
        assert!(filters.iter().all(|filter| filter.absent == 250));
    }

    #[test]
    fn sizes_that_make_no_sense_are_errors() {
        let (_folder, storage) = storage();
        let create = |bytes, page, buffer| BufferedFilter::create(&storage, bytes, page, buffer, 2);
        assert!(create(64 << 10, 3 << 10, 4096).is_err());
        assert!(create(64 << 10, 64 << 10, 4096).is_err());
        assert!(create(64 << 10, 4 << 10, 8).is_err());
        assert!(Options::new(10, 1000).is_err());
        assert!(Options::new(10, 3 << 20).is_err());
        let (keys, bytes) = Options::PAPER;
        let options = Options::new(keys, bytes).expect("the paper's sizes");
        assert_eq!(options.page_bytes, 2 << 20);
        assert!(options.buffer_bytes.contains(&(32 << 20)));
        assert!(options.memory_bytes.contains(&(128 << 20)));
    }

    #[test]
    fn keys_and_numbers_belong_to_each_other() {
        for n in [0, 1, 49_999_999, u64::MAX] {
            assert_eq!(number(key(n)), n);
        }
    }
}
