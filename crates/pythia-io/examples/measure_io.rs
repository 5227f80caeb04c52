//! Measures the pool and the device: `cargo run --release -p pythia-io --example measure_io [FOLDER] [MIB]`.
//!
//! Prints the time of finding a cached page, the rate of random 4 KiB reads by batch size for each
//! way of reading, and the rate of sequential writes and scans.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pythia_io::{
    ALIGNMENT, AlignedBuffer, BufferPool, DirectStorage, IoError, IoMode, PageWriter, PagedFile,
    ReadRequest, Storage,
};

const PAGE_BYTES: usize = 4096;
const FILE: &str = "measure.pages";

fn main() -> Result<(), IoError> {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments.next().unwrap_or_else(|| "/tmp".to_owned());
    let mib: u64 = arguments
        .next()
        .and_then(|a| a.parse().ok())
        .unwrap_or(1024);
    let folder = Path::new(&parent).join(format!("pythia-measure-{}", std::process::id()));
    let result = measure(&folder, mib << 20);
    let _ = std::fs::remove_dir_all(&folder);
    result
}

fn measure(folder: &Path, bytes: u64) -> Result<(), IoError> {
    let storage: Arc<dyn Storage> = Arc::new(DirectStorage::open(folder, true)?);
    println!("{storage:?}");
    write_pages(&storage, bytes)?;
    for mode in [IoMode::Uring, IoMode::Pread, IoMode::Buffered] {
        match DirectStorage::open_with(folder, false, mode) {
            Ok(storage) => {
                println!("{}:", storage.backend());
                random_reads(&storage)?;
                scan(Arc::new(storage))?;
            }
            Err(error) => println!("{error}"),
        }
    }
    cached_pages(&storage)
}

fn write_pages(storage: &Arc<dyn Storage>, bytes: u64) -> Result<(), IoError> {
    let (cpu, started) = (cpu_seconds(), Instant::now());
    let mut writer = PageWriter::new(storage.create(FILE)?, PAGE_BYTES);
    let mut page = vec![0; PAGE_BYTES];
    for number in 0..bytes / PAGE_BYTES as u64 {
        page[8..16].copy_from_slice(&number.to_le_bytes());
        writer.push(&mut page)?;
    }
    writer.finish()?;
    println!(
        "write {:.0} MB/s, {:.2} CPU s",
        rate(bytes, started),
        cpu_seconds() - cpu
    );
    Ok(())
}

fn rate(bytes: u64, started: Instant) -> f64 {
    bytes as f64 / 1e6 / started.elapsed().as_secs_f64()
}

/// Random reads straight from the device, a batch at a time.
fn random_reads(storage: &DirectStorage) -> Result<(), IoError> {
    let file = storage.open(FILE)?;
    let blocks = file.len() / ALIGNMENT as u64;
    let mut random = Random(7);
    for batch in [1, 8, 32, 64, 128] {
        let mut buffers: Vec<_> = (0..batch)
            .map(|_| AlignedBuffer::zeroed(ALIGNMENT))
            .collect();
        let rounds = (8_000 / batch).min(2_000);
        let cpu = cpu_seconds();
        let started = Instant::now();
        for _ in 0..rounds {
            let mut reads: Vec<_> = buffers
                .iter_mut()
                .map(|buffer| ReadRequest {
                    file: &*file,
                    offset: random.below(blocks) * ALIGNMENT as u64,
                    buffer,
                })
                .collect();
            storage.read_batch(&mut reads)?;
        }
        let seconds = started.elapsed().as_secs_f64();
        let reads = (rounds * batch) as f64;
        println!(
            "  random 4 KiB, batches of {batch:3}: {:6.0} reads/s, {:6.0} µs a batch, {:5.1} CPU µs a read",
            reads / seconds,
            seconds / rounds as f64 * 1e6,
            (cpu_seconds() - cpu) / reads * 1e6,
        );
    }
    Ok(())
}

/// All pages in order through a small pool.
fn scan(storage: Arc<dyn Storage>) -> Result<(), IoError> {
    let pool = BufferPool::new(storage, 16 << 20);
    let file = pool.open(FILE, PAGE_BYTES, "measure")?;
    let bytes = file.page_count() * PAGE_BYTES as u64;
    let (cpu, started) = (cpu_seconds(), Instant::now());
    file.pages_sequential(0..file.page_count(), |_, _| Ok::<_, IoError>(()))?;
    println!(
        "  scan of 4 KiB pages through a pool of 16 MiB: {:.0} MB/s, {:.2} CPU µs a page",
        rate(bytes, started),
        (cpu_seconds() - cpu) / file.page_count() as f64 * 1e6,
    );
    Ok(())
}

/// Pages that are in the pool already.
fn cached_pages(storage: &Arc<dyn Storage>) -> Result<(), IoError> {
    let pool = BufferPool::new(Arc::clone(storage), 256 << 20);
    let file = pool.open(FILE, PAGE_BYTES, "measure")?;
    for pages in [1_000, 50_000] {
        let pages = file.page_count().min(pages);
        let all: Vec<u64> = (0..pages).collect();
        file.pages(&all, |_, _| Ok::<_, IoError>(()))?;
        for threads in [1, 2] {
            let cpu = cpu_seconds();
            std::thread::scope(|scope| {
                for seed in 0..threads {
                    let file = &file;
                    scope.spawn(move || look_up(file, pages, seed));
                }
            });
            let nanoseconds = (cpu_seconds() - cpu) * 1e9 / (LOOKUPS * threads) as f64;
            println!("cached page of {pages}, {threads} threads: {nanoseconds:.0} CPU ns each");
        }
        let cpu = cpu_seconds();
        for _ in 0..LOOKUPS / pages {
            file.pages(&all, |_, page| {
                std::hint::black_box(page);
                Ok::<_, IoError>(())
            })?;
        }
        let looked_up = LOOKUPS / pages * pages;
        let nanoseconds = (cpu_seconds() - cpu) * 1e9 / looked_up as f64;
        println!("cached pages of {pages} as a batch: {nanoseconds:.0} CPU ns a page");
    }
    println!("{}", pool.counters());
    drop((file, pool));
    peak_memory(storage)
}

/// How much memory a pool takes beyond its budget when it is used for four times as much.
fn peak_memory(storage: &Arc<dyn Storage>) -> Result<(), IoError> {
    let budget = storage.open(FILE)?.len() as usize / 4;
    let before = resident_bytes();
    let pool = BufferPool::new(Arc::clone(storage), budget);
    let file = pool.open(FILE, PAGE_BYTES, "measure")?;
    let mut random = Random(3);
    let mut most = before;
    for _ in 0..file.page_count() / 64 {
        let mut numbers: Vec<u64> = (0..64).map(|_| random.below(file.page_count())).collect();
        numbers.sort_unstable();
        numbers.dedup();
        file.pages(&numbers, |_, _| Ok::<_, IoError>(()))?;
        most = most.max(resident_bytes());
    }
    println!(
        "a pool of {} MiB took {} MiB of memory",
        budget >> 20,
        (most - before) >> 20
    );
    Ok(())
}

const LOOKUPS: u64 = 5_000_000;

fn look_up(file: &PagedFile, pages: u64, seed: u64) {
    let mut random = Random(seed);
    for _ in 0..LOOKUPS {
        let page = file.page(random.below(pages));
        std::hint::black_box(page.is_ok());
    }
}

/// A linear congruential generator: where to read need not be very random.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Memory this process has now; 0 where it cannot be told.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = statm.split_whitespace().nth(1).and_then(|n| n.parse().ok());
    pages.unwrap_or(0) * 4096
}

/// CPU time of this process so far, in seconds; 0 where it cannot be told.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    ticks as f64 / 100.0
}
