//! Measures the dictionary on the terms of real files:
//!
//! ```text
//! cargo run --release -p pythiadb-store --example dictionary -- FILE…
//! ```
//!
//! Prints, per page size, what each kind of term takes, and what writing, decoding and finding
//! cost while all pages are in the pool, in processor time.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pythia_io::{BufferPool, DirectStorage, MemoryStorage, PageWriter, Storage};
use pythia_rdf::{
    OwnedKey, ParseOptions, Progress, QuadSink, SinkError, Source, TermError, TermId, TermKey,
    TermKind, parse_sources,
};
use pythia_store::StoreError;
use pythia_store::dictionary::{Dictionary, DictionaryDirectory, DictionaryWriter};

type Failure = Box<dyn std::error::Error>;

const LOOKUPS: usize = 200_000;
const BATCH: usize = 200;
const WRITES: usize = 4;
const COLD_ROUNDS: usize = 25;
const NEW_TERMS: usize = 10_000;

/// Seconds of processor time this process has used: on a busy machine the clock says little.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let ticks = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<f64>().ok())
    };
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}

/// Nanoseconds of processor time the calling thread has used.
fn thread_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|field| field.parse().ok()).unwrap_or(0.0)
}

/// Keeps each key once.
#[derive(Default)]
struct Terms(HashSet<OwnedKey>);

impl QuadSink for Terms {
    type Term = ();

    fn key(
        &mut self,
        key: TermKey<'_>,
        validate: impl FnOnce() -> Result<(), TermError>,
    ) -> Result<(), TermError> {
        validate()?;
        self.0.insert(key.to_owned_key());
        Ok(())
    }

    fn inline(&mut self, _: TermId) {}

    fn default_graph(&mut self) {}

    fn quad(&mut self, (): (), (): (), (): (), (): ()) -> Result<(), SinkError> {
        Ok(())
    }
}

fn main() -> Result<(), Failure> {
    for file in std::env::args().skip(1) {
        let mut sinks = [Terms::default()];
        let source = Source::from_path(Path::new(&file), None, None)?;
        let options = ParseOptions::default().with_lenient(true);
        parse_sources(vec![source], &options, &mut sinks, &Progress::default())?;
        let [Terms(terms)] = sinks;
        let mut terms: Vec<OwnedKey> = terms.into_iter().collect();
        terms.sort_unstable();
        let key_bytes: usize = terms.iter().map(|term| term.bytes.len()).sum();
        println!("{file}: {} terms, {key_bytes} bytes", terms.len());
        for page_bytes in [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10] {
            measure(&terms, key_bytes, page_bytes)?;
        }
    }
    Ok(())
}

fn measure(terms: &[OwnedKey], key_bytes: usize, page_bytes: usize) -> Result<(), Failure> {
    let (started, started_thread) = (cpu_seconds(), thread_ns());
    let mut written = None;
    for _ in 0..WRITES {
        let storage = MemoryStorage::new();
        let pages = PageWriter::new(storage.create("dictionary.pages")?, page_bytes);
        let mut writer = DictionaryWriter::new(pages, 1, true)?;
        for term in terms {
            writer.push(term.as_key())?;
        }
        written = Some((storage, writer.finish()?));
    }
    let rate = |seconds: f64| (key_bytes * WRITES) as f64 / seconds / 1e6;
    let pushing = rate((thread_ns() - started_thread) / 1e9);
    let writing = rate(cpu_seconds() - started);
    let (storage, directory) = written.expect("written at least once");
    let file_bytes = directory.page_count() * page_bytes as u64;
    println!(
        "  {:2} KiB pages: {:.1} bytes/term, {:.3} of the text; {} tables, directory {} KB; \
         per CPU second {writing:.0} MB of text, of the pushing thread's {pushing:.0} MB",
        page_bytes >> 10,
        file_bytes as f64 / terms.len() as f64,
        file_bytes as f64 / key_bytes as f64,
        directory.table_count(),
        directory.memory_bytes() / 1000,
    );
    if page_bytes == 8 << 10 {
        print_kinds(&directory, page_bytes);
    }
    let directory = Arc::new(directory);
    let folder = tempfile::tempdir_in(std::env::var_os("TMPDIR").unwrap_or_else(|| ".".into()))?;
    let device = DirectStorage::open(folder.path(), true)?;
    let mut copy = device.create("dictionary.pages")?;
    copy.append(&storage.read_all("dictionary.pages")?)?;
    copy.sync()?;
    let budget_bytes = 2 * file_bytes as usize + (64 << 20);
    let open = |storage: Arc<dyn Storage>| -> Result<(Arc<BufferPool>, Dictionary), Failure> {
        let pool = BufferPool::new(storage, budget_bytes);
        let file = pool.open("dictionary.pages", page_bytes, "dictionary")?;
        Ok((pool, Dictionary::new(file, directory.clone())?))
    };
    read(&open(Arc::new(storage))?.1, terms)?;
    let device: Arc<dyn Storage> = Arc::new(device);
    read_cold(|| Ok(open(device.clone())?.1))?;
    let (pool, dictionary) = open(device)?;
    find_new(&pool, &dictionary, terms)
}

/// Looks up terms that are not there, spread over all kinds.
fn find_new(pool: &BufferPool, dictionary: &Dictionary, terms: &[OwnedKey]) -> Result<(), Failure> {
    let mut new: Vec<OwnedKey> = Vec::new();
    for number in 1..=NEW_TERMS as u64 {
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let mut term = terms[hash as usize % terms.len()].clone();
        term.bytes.extend_from_slice(b"-new");
        new.push(term);
    }
    let keys: Vec<TermKey<'_>> = new.iter().map(OwnedKey::as_key).collect();
    let started = Instant::now();
    dictionary.find_batch(&keys)?;
    let elapsed = started.elapsed().as_secs_f64() * 1e3;
    let read = pool.counters();
    println!(
        "      cold, {NEW_TERMS} new terms: {elapsed:.1} ms, {} entry pages, {} filter pages",
        read.group("dictionary").device_pages,
        read.group("filter").device_pages,
    );
    Ok(())
}

/// The clock here, since it is the device that works.
fn read_cold(open: impl Fn() -> Result<Dictionary, Failure>) -> Result<(), Failure> {
    let (mut single, mut batch) = (Vec::new(), Vec::new());
    for round in 0..COLD_ROUNDS as u64 {
        let dictionary = open()?;
        let mut ids = Vec::new();
        for kind in TermKind::DICTIONARY {
            ids.extend((0..dictionary.count(kind)).map(|rank| TermId::new(kind, rank)));
        }
        let random = |n: u64| {
            let hash = (round * 1_000 + n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            ids[hash as usize % ids.len()]
        };
        let wanted: Vec<TermId> = (1..=BATCH as u64).map(random).collect();
        let started = Instant::now();
        dictionary.key(random(0), &mut Vec::new())?;
        single.push(started.elapsed().as_secs_f64() * 1e6);
        let started = Instant::now();
        dictionary.keys(&wanted, |_, _| Ok::<(), StoreError>(()))?;
        batch.push(started.elapsed().as_secs_f64() * 1e6);
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    println!(
        "      cold, direct I/O, median: key {:.0} µs, {BATCH} keys {:.0} µs",
        median(single),
        median(batch)
    );
    Ok(())
}

fn print_kinds(directory: &DictionaryDirectory, page_bytes: usize) {
    for kind in TermKind::DICTIONARY {
        let statistics = directory.statistics(kind);
        if statistics.terms > 0 {
            let stored = (statistics.entry_pages + statistics.overflow_pages) * page_bytes as u64;
            println!(
                "      {kind:?}: {} terms, {:.1} bytes each, stored in {:.1} ({:.3})",
                statistics.terms,
                statistics.key_bytes as f64 / statistics.terms as f64,
                stored as f64 / statistics.terms as f64,
                stored as f64 / statistics.key_bytes as f64,
            );
        }
    }
}

fn read(dictionary: &Dictionary, terms: &[OwnedKey]) -> Result<(), Failure> {
    let mut ids = Vec::new();
    for kind in TermKind::DICTIONARY {
        ids.extend((0..dictionary.count(kind)).map(|rank| TermId::new(kind, rank)));
    }
    let random: Vec<usize> = (0..LOOKUPS as u64)
        .map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize % terms.len())
        .collect();
    let wanted: Vec<TermId> = random.iter().map(|&index| ids[index]).collect();

    let started = thread_ns();
    let mut walked = 0;
    for kind in TermKind::DICTIONARY {
        let mut keys = dictionary.iter(kind);
        while let Some((_, key)) = keys.next()? {
            assert_eq!(key, terms[walked].as_key());
            walked += 1;
        }
    }
    let walk = (thread_ns() - started) / walked as f64;
    assert_eq!(walked, terms.len());

    let started = thread_ns();
    let mut scratch = Vec::new();
    let mut bytes = 0;
    for &id in &wanted {
        bytes += dictionary.key(id, &mut scratch)?.bytes.len();
    }
    let single = (thread_ns() - started) / LOOKUPS as f64;

    let started = thread_ns();
    for batch in wanted.chunks(BATCH) {
        dictionary.keys(batch, |_, key| {
            bytes -= key.bytes.len();
            Ok::<(), StoreError>(())
        })?;
    }
    let batch = (thread_ns() - started) / 1e3 / (LOOKUPS / BATCH) as f64;
    assert_eq!(bytes, 0);

    let started = thread_ns();
    for (&index, &id) in random.iter().zip(&wanted) {
        assert_eq!(dictionary.find(terms[index].as_key())?, Some(id));
    }
    let find = (thread_ns() - started) / LOOKUPS as f64;
    println!(
        "      walk {walk:.0} ns/term; random: key {single:.0} ns, {BATCH} keys {batch:.0} µs, \
         find {find:.0} ns"
    );
    Ok(())
}
