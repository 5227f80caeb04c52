//! Tests of the pool with small budgets, damaged files, many threads and an oracle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::arena::SLAB_BYTES;
use super::*;
use crate::{
    DeviceModel, FaultPlan, FaultyStorage, LogFile, MemoryStorage, ModelClock, ModelledStorage,
    ReadFile, ReadRequest, SEAL_BYTES, WriteFile,
};

/// Returns the expected bytes of page `number` of the file `name`, valid after the seal.
fn content(name: &str, number: u64, page_bytes: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(31).wrapping_add(name.len() as u64) | 1;
    let words = (0..page_bytes / 8).flat_map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()
    });
    words.collect()
}

fn write_pages(storage: &dyn Storage, name: &str, page_bytes: usize, count: u64) {
    let mut writer = PageWriter::new(storage.create(name).unwrap(), page_bytes);
    for number in 0..count {
        let pushed = writer.push(&mut content(name, number, page_bytes)).unwrap();
        assert_eq!(pushed, number);
    }
    assert_eq!(writer.finish().unwrap(), count);
}

fn check(file: &PagedFile, page: &Page) {
    let expected = content(file.name(), page.number(), file.page_bytes());
    assert_eq!(
        page[SEAL_BYTES..],
        expected[SEAL_BYTES..],
        "page {}",
        page.number()
    );
}

fn memory(files: &[(&str, usize, u64)]) -> Arc<MemoryStorage> {
    let storage = Arc::new(MemoryStorage::new());
    for (name, page_bytes, count) in files {
        write_pages(&*storage, name, *page_bytes, *count);
    }
    storage
}

#[test]
fn pages_come_back_and_are_cached() {
    let pool = BufferPool::new(memory(&[("spo", 4096, 100)]), 4 << 20);
    let file = pool.open("spo", 4096, "spo").unwrap();
    assert_eq!(
        (file.page_count(), file.page_bytes(), file.name()),
        (100, 4096, "spo")
    );
    for _ in 0..2 {
        for number in [0, 99, 50] {
            check(&file, &file.page(number).unwrap());
        }
    }
    let counters = pool.counters().group("spo");
    assert_eq!((counters.cache_hits, counters.device_pages), (3, 3));
    assert_eq!((counters.device_batches, counters.bytes), (3, 3 * 4096));
    assert_eq!((counters.depth_max, counters.depth_sum), (1, 3));
    let tally = PageTally::of_this_thread().counts();
    assert_eq!((tally.cache_hits, tally.device_pages), (3, 3));

    let before = pool.counters();
    pool.clear();
    assert_eq!((pool.page_count(), pool.bytes_in_use()), (0, 0));
    assert!(file.cached(50).is_none());
    check(&file, &file.page(50).unwrap());
    let after = pool.counters().since(&before).group("spo");
    assert_eq!((after.cache_hits, after.device_pages), (0, 1));
}

#[test]
fn batches_are_one_submission_per_window_and_neighbours_one_read() {
    let pool = BufferPool::new(memory(&[("spo", 4096, 2000), ("pso", 16384, 50)]), 64 << 20);
    let file = pool.open("spo", 4096, "spo").unwrap();
    let numbers: Vec<u64> = (0..100).map(|i| i * 3).collect();
    let mut seen = Vec::new();
    file.pages(&numbers, |index, page| {
        check(&file, page);
        assert_eq!(numbers[index], page.number());
        seen.push(index);
        Ok::<_, IoError>(())
    })
    .unwrap();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    let counters = pool.counters().group("spo");
    assert_eq!((counters.device_pages, counters.device_batches), (100, 2));
    assert_eq!((counters.depth_max, counters.depth_sum), (64, 100));
    assert!((counters.depth_mean() - 50.0).abs() < 1e-9);

    // Neighbours: 32 pages of 16 KiB are two reads of 256 KiB.
    let columns = pool.open("pso", 16384, "pso").unwrap();
    let numbers: Vec<u64> = (0..32).collect();
    columns
        .pages(&numbers, |_, page| {
            check(&columns, page);
            Ok::<_, IoError>(())
        })
        .unwrap();
    let counters = pool.counters().group("pso");
    assert_eq!(
        (
            counters.device_pages,
            counters.device_batches,
            counters.depth_sum
        ),
        (32, 1, 2)
    );

    // A scan reads a mebibyte at a time, each page once: here and on a helper thread.
    let before = pool.counters();
    let mut next = 600;
    file.pages_sequential(600..2000, |number, page| {
        assert_eq!((number, page.number()), (next, next));
        check(&file, page);
        next += 1;
        Ok::<_, IoError>(())
    })
    .unwrap();
    assert_eq!(next, 2000);
    let counters = pool.counters().since(&before).group("spo");
    assert_eq!((counters.device_pages, counters.cache_hits), (1400, 0));
    assert!(
        counters.device_batches < 30 && counters.depth_mean() > 1.0,
        "{counters:?}"
    );
}

#[test]
fn prefetched_pages_are_there_when_asked_for() {
    let pool = BufferPool::new(memory(&[("pso", 16384, 500)]), 32 << 20);
    let file = pool.open("pso", 16384, "pso").unwrap();
    file.prefetch(490..600);
    file.prefetch(600..700);
    file.prefetch(100..100);
    file.prefetch(10..42);
    for _ in 0..5000 {
        if pool.counters().group("pso").device_pages < 42 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let numbers: Vec<u64> = (10..42).chain(490..500).collect();
    file.pages(&numbers, |_, page| {
        check(&file, page);
        Ok::<_, IoError>(())
    })
    .unwrap();
    let counters = pool.counters().group("pso");
    assert_eq!((counters.device_pages, counters.cache_hits), (42, 0));
    assert_eq!((counters.device_batches, counters.depth_sum), (2, 3));
    file.page(10).unwrap();
    assert_eq!(pool.counters().group("pso").cache_hits, 1);
}

#[test]
fn damage_found_while_reading_ahead_is_reported_where_it_is_met() {
    let memory = memory(&[("spo", 4096, 2000)]);
    let plan = FaultPlan::flip("spo", 700 * 4096 + 5, 0);
    let pool = BufferPool::new(Arc::new(FaultyStorage::new(memory, plan)), 32 << 20);
    let file = pool.open("spo", 4096, "spo").unwrap();
    let mut next = 0;
    let error = file
        .pages_sequential(0..2000, |number, page| {
            assert_eq!(number, next);
            next += 1;
            check(&file, page);
            Ok(())
        })
        .unwrap_err();
    assert!(
        matches!(error, IoError::Corrupt { page: 700, .. }),
        "{error}"
    );
    assert!((512..=700).contains(&next), "{next}");
}

#[test]
fn errors_of_the_callback_stop_and_unpin() {
    let pool = BufferPool::new(memory(&[("spo", 4096, 300)]), 1 << 20);
    let file = pool.open("spo", 4096, "spo").unwrap();
    let mut calls = 0;
    let error = file
        .pages(&(0..300).collect::<Vec<_>>(), |index, _| {
            calls += 1;
            if index == 5 {
                return Err(IoError::NotFound {
                    name: "stop".into(),
                });
            }
            Ok(())
        })
        .unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(calls, 6);
    pool.clear();
    assert_eq!(pool.bytes_in_use(), 0);
}

#[test]
fn repeated_and_unsorted_numbers_are_served_too() {
    let pool = BufferPool::new(memory(&[("spo", 4096, 50)]), 1 << 20);
    let file = pool.open("spo", 4096, "spo").unwrap();
    let numbers = [7, 7, 3, 3, 3, 49, 0, 7];
    let mut seen = Vec::new();
    file.pages(&numbers, |_, page| {
        check(&file, page);
        seen.push(page.number());
        Ok::<_, IoError>(())
    })
    .unwrap();
    assert_eq!(seen, numbers);
}

#[test]
fn damaged_pages_are_named() {
    let memory = memory(&[("seg/spo.pages", 4096, 100)]);
    let plan = FaultPlan::flip("seg/spo.pages", 42 * 4096 + 1000, 3);
    let pool = BufferPool::new(Arc::new(FaultyStorage::new(memory, plan)), 1 << 20);
    let file = pool.open("seg/spo.pages", 4096, "spo").unwrap();
    for error in [
        file.page(42).unwrap_err(),
        file.pages(&[1, 42, 60], |_, _| Ok::<_, IoError>(()))
            .unwrap_err(),
        file.pages_sequential(0..100, |_, _| Ok::<_, IoError>(()))
            .unwrap_err(),
    ] {
        assert!(
            matches!(&error, IoError::Corrupt { file, page: 42, offset: 172_032, .. } if file == "seg/spo.pages"),
            "{error}"
        );
        assert!(error.is_corruption());
    }
    // The failure leaves nothing behind: no claim, no pin.
    check(&file, &file.page(41).unwrap());
    for _ in 0..1000 {
        pool.clear();
        if pool.page_count() > 0 {
            std::thread::sleep(Duration::from_millis(1)); // A helper is still reading ahead.
        }
    }
    assert_eq!((pool.page_count(), pool.bytes_in_use()), (0, 0));
}

#[test]
fn pages_at_the_wrong_place_and_foreign_files_are_refused() {
    let storage = MemoryStorage::new();
    write_pages(&storage, "a", 4096, 3);
    let bytes = storage.read_all("a").unwrap();
    let mut swapped = storage.create("b").unwrap();
    swapped.append(&bytes[4096..8192]).unwrap();
    swapped.append(&bytes[..4096]).unwrap();
    swapped.sync().unwrap();
    let mut cut = storage.create("c").unwrap();
    cut.append(&bytes[..5000]).unwrap();
    cut.sync().unwrap();
    let pool = BufferPool::new(Arc::new(storage), 1 << 20);
    let file = pool.open("b", 4096, "spo").unwrap();
    assert!(matches!(
        file.page(0),
        Err(IoError::Corrupt { page: 0, .. })
    ));
    assert!(matches!(
        file.page(1),
        Err(IoError::Corrupt { page: 1, .. })
    ));
    assert!(matches!(
        file.page(2),
        Err(IoError::PageOutOfRange {
            page: 2,
            page_count: 2,
            ..
        })
    ));
    assert!(matches!(
        pool.open("c", 4096, "spo"),
        Err(IoError::NotPaged { length: 5000, .. })
    ));
    assert!(matches!(
        pool.open("d", 4096, "spo"),
        Err(IoError::NotFound { .. })
    ));
    for bad in [0, 1000, 128 << 10] {
        assert!(matches!(
            pool.open("a", bad, "spo"),
            Err(IoError::BadPageSize { .. })
        ));
    }
}

#[test]
fn failed_reads_are_errors_and_can_be_tried_again() {
    let memory = memory(&[("spo", 4096, 10)]);
    let faulty = FaultyStorage::new(memory, FaultPlan::fail_at(2));
    let pool = BufferPool::new(Arc::new(faulty), 1 << 20);
    let file = pool.open("spo", 4096, "spo").unwrap();
    let error = file.page(3).unwrap_err();
    assert!(
        matches!(&error, IoError::Os { name, .. } if name == "spo"),
        "{error}"
    );
    check(&file, &file.page(3).unwrap());
}

#[test]
fn a_full_pool_waits_and_then_says_raise_cache() {
    let pool = BufferPool::try_new(
        memory(&[("spo", 4096, 1000)]),
        1 << 20,
        DeviceProfile::default(),
    )
    .unwrap();
    let file = pool.open("spo", 4096, "spo").unwrap();
    let mut pinned = Vec::new();
    let error = loop {
        match file.page(pinned.len() as u64) {
            Ok(page) => pinned.push(page),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(
            error,
            IoError::CacheFull {
                budget_bytes: 1_048_576,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("raise --cache"));
    assert_eq!(pinned.len() * 4096, pool.arena.capacity_bytes());
    assert_eq!(pool.bytes_in_use_max(), pool.arena.capacity_bytes());
    for page in &pinned {
        check(&file, page);
    }
    // A page is released while another reader waits.
    let waiting = file.clone();
    let reader = std::thread::spawn(move || waiting.page(999).map(|page| page.number()));
    std::thread::sleep(Duration::from_millis(50));
    pinned.pop();
    assert_eq!(
        reader.join().expect("the reader does not panic").unwrap(),
        999
    );
    assert!(matches!(
        BufferPool::try_new(
            Arc::new(MemoryStorage::new()),
            1000,
            DeviceProfile::default()
        ),
        Err(IoError::CacheTooSmall { .. })
    ));
}

#[test]
fn clones_of_a_page_keep_it_pinned_and_outlive_the_file() {
    let pool = BufferPool::new(memory(&[("spo", 4096, 2000)]), 1 << 20);
    let file = pool.open("spo", 4096, "spo").unwrap();
    let page = file.page(7).unwrap();
    let copy = page.clone();
    drop(page);
    file.pages_sequential(0..2000, |_, _| Ok::<_, IoError>(()))
        .unwrap();
    assert!(file.cached(7).is_some());
    check(&file, &copy);
    let bytes = copy.to_vec();
    drop(file);
    // A helper may still hold the file.
    for _ in 0..1000 {
        if pool.bytes_in_use() > 4096 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert_eq!(pool.bytes_in_use(), 4096, "only the pinned page is left");
    drop(pool);
    assert_eq!(*copy, bytes[..]);
}

#[test]
fn a_scan_leaves_hot_pages_alone() {
    let pool = BufferPool::new(memory(&[("spo", 4096, 4000)]), 4 << 20);
    let file = pool.open("spo", 4096, "spo").unwrap();
    let hot: Vec<u64> = (0..300).collect();
    for _ in 0..4 {
        for &number in &hot {
            file.page(number).unwrap();
        }
    }
    file.pages_sequential(300..4000, |_, _| Ok::<_, IoError>(()))
        .unwrap();
    let kept = hot
        .iter()
        .filter(|&&number| file.cached(number).is_some())
        .count();
    assert!(
        // The number depends on when read-ahead threads run; least recently used would keep none.
        kept > 100,
        "{kept} of 300 hot pages survived a scan of four times the cache"
    );
}

#[test]
fn memory_moves_to_the_page_size_that_needs_it() {
    let pool = BufferPool::new(memory(&[("spo", 4096, 4000), ("pso", 16384, 400)]), 8 << 20);
    let tuples = pool.open("spo", 4096, "spo").unwrap();
    let columns = pool.open("pso", 16384, "pso").unwrap();
    // The small pages take everything first, and are then no longer used.
    tuples
        .pages_sequential(0..4000, |_, _| Ok::<_, IoError>(()))
        .unwrap();
    for _ in 0..40 {
        for number in 0..400 {
            check(&columns, &columns.page(number).unwrap());
        }
    }
    let before = pool.counters();
    for number in 0..400 {
        columns.page(number).unwrap();
    }
    let hits = pool.counters().since(&before).group("pso").cache_hits;
    assert!(
        hits > 250,
        "{hits} of 400 pages cached, about 470 would fit"
    );
    assert!(pool.bytes_in_use_max() <= pool.arena.capacity_bytes());
}

#[test]
fn the_smallest_budget_serves_all_page_sizes() {
    let files = [
        ("a", 4096, 500),
        ("b", 8192, 500),
        ("c", 16384, 300),
        ("d", 65536, 60),
    ];
    let pool = BufferPool::new(memory(&files), 0);
    assert_eq!(pool.budget_bytes(), BUDGET_BYTES_MIN);
    let opened = files.map(|(name, bytes, _)| pool.open(name, bytes, "all").unwrap());
    for round in 0..3 {
        for file in &opened {
            let numbers: Vec<u64> = (round..file.page_count()).step_by(3).collect();
            file.pages(&numbers, |_, page| {
                check(file, page);
                Ok::<_, IoError>(())
            })
            .unwrap();
        }
    }
    assert!(pool.bytes_in_use_max() <= pool.arena.capacity_bytes());
}

#[test]
fn many_threads_never_exceed_the_budget_and_read_right() {
    let files = [("a", 4096, 3000), ("b", 8192, 800), ("c", 16384, 400)];
    let pool = BufferPool::new(memory(&files), 3 << 20);
    let opened = files.map(|(name, bytes, _)| pool.open(name, bytes, name).unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8u64)
            .map(|seed| {
                let opened = &opened;
                scope.spawn(move || stress(opened, seed))
            })
            .collect();
        let watcher = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert!(pool.bytes_in_use() <= pool.arena.capacity_bytes());
                pool.clear();
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        for worker in workers {
            worker.join().expect("workers find what they expect");
        }
        stop.store(true, Ordering::Relaxed);
        watcher.join().expect("the budget holds");
    });
    assert!(pool.bytes_in_use_max() <= pool.arena.capacity_bytes());
    assert!(pool.arena.capacity_bytes() < pool.budget_bytes());
    pool.clear();
    assert_eq!((pool.page_count(), pool.bytes_in_use()), (0, 0));
}

fn stress(files: &[PagedFile], seed: u64) {
    let mut state = seed * 7919 + 1;
    let mut random = |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for _ in 0..150 {
        let file = &files[random(files.len() as u64) as usize];
        if random(2) == 0 {
            check(file, &file.page(random(file.page_count())).unwrap());
            continue;
        }
        let mut numbers: Vec<u64> = (0..random(100) + 1)
            .map(|_| random(file.page_count()))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut next = 0;
        file.pages(&numbers, |index, page| {
            assert_eq!(index, next);
            next += 1;
            assert_eq!(page.number(), numbers[index]);
            check(file, page);
            Ok::<_, IoError>(())
        })
        .unwrap();
        assert_eq!(next, numbers.len());
    }
}

#[test]
fn threads_that_miss_the_same_page_share_one_read() {
    let slow = DeviceModel {
        latencies: &[(1, 30_000.0)],
        bandwidth_bytes: 100_000_000,
        ..DeviceModel::PCM
    };
    let storage = ModelledStorage::new(memory(&[("spo", 4096, 64)]), slow, ModelClock::Real);
    let pool = BufferPool::new(Arc::new(storage), 1 << 20);
    let file = pool.open("spo", 4096, "spo").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| check(&file, &file.page(5).unwrap()));
        }
    });
    let counters = pool.counters().group("spo");
    assert_eq!((counters.device_pages, counters.cache_hits), (1, 7));
}

#[test]
fn a_batch_on_a_modelled_device_costs_a_fraction_of_single_reads() {
    let model = |pages: &dyn Fn(&PagedFile)| {
        let memory = memory(&[("spo", 4096, 200)]);
        let storage = Arc::new(ModelledStorage::new(
            memory,
            DeviceModel::FLASH,
            ModelClock::Virtual,
        ));
        let pool = BufferPool::new(storage.clone(), 4 << 20);
        pages(&pool.open("spo", 4096, "spo").unwrap());
        storage.elapsed()
    };
    let numbers: Vec<u64> = (0..32).map(|i| i * 5).collect();
    let single = model(&|file| {
        for &number in &numbers {
            file.page(number).unwrap();
        }
    });
    let batch = model(&|file| file.pages(&numbers, |_, _| Ok::<_, IoError>(())).unwrap());
    assert_eq!(single, Duration::from_micros(72 * 32));
    assert!(
        batch * 9 < single,
        "{batch:?} for a batch, {single:?} one by one"
    );
}

/// A storage whose reads panic: claims must be released even so.
#[derive(Debug)]
struct PanickingStorage(Arc<dyn Storage>, AtomicBool);

impl Storage for PanickingStorage {
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>, IoError> {
        self.0.open(name)
    }
    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>, IoError> {
        self.0.create(name)
    }
    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>, IoError> {
        self.0.create_log(name, bytes)
    }
    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>, IoError> {
        self.0.open_log(name)
    }
    fn read_batch(&self, reads: &mut [ReadRequest<'_>]) -> Result<(), IoError> {
        assert!(!self.1.swap(false, Ordering::Relaxed), "told to panic");
        self.0.read_batch(reads)
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), IoError> {
        self.0.rename(from, to)
    }
    fn sync_names(&self) -> Result<(), IoError> {
        self.0.sync_names()
    }
    fn remove(&self, name: &str) -> Result<(), IoError> {
        self.0.remove(name)
    }
    fn list(&self, folder: &str) -> Result<Vec<String>, IoError> {
        self.0.list(folder)
    }
    fn read_all(&self, name: &str) -> Result<Vec<u8>, IoError> {
        self.0.read_all(name)
    }
}

#[test]
fn a_panic_while_reading_leaves_no_claim_behind() {
    let storage = PanickingStorage(memory(&[("spo", 4096, 9)]), AtomicBool::new(true));
    let pool = BufferPool::new(Arc::new(storage), 1 << 20);
    let file = pool.open("spo", 4096, "spo").unwrap();
    let other = file.clone();
    assert!(std::thread::spawn(move || other.page(4)).join().is_err());
    check(&file, &file.page(4).unwrap());
}

#[test]
fn counters_print_as_a_table() {
    let pool = BufferPool::new(memory(&[("spo", 4096, 9)]), 1 << 20);
    let file = pool.open("spo", 4096, "spo").unwrap();
    file.page(1).unwrap();
    let text = pool.counters().to_string();
    assert!(text.lines().count() == 2 && text.contains("spo"), "{text}");
    assert_eq!(pool.counters().total().pages(), 1);
    assert_eq!(pool.counters().group("none"), GroupCounters::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any reads in any order return the files' bytes, and the budget holds.
    #[test]
    fn random_reads_match_the_files(
        steps in proptest::collection::vec(
            (0usize..3, proptest::collection::vec(any::<prop::sample::Index>(), 1..80), 0u8..5),
            1..30,
        ),
    ) {
        let files = [("a", 4096, 700), ("b", 8192, 300), ("c", 20480, 90)];
        let storage = memory(&files);
        let oracle = files.map(|(name, _, _)| storage.read_all(name).unwrap());
        let pool = BufferPool::new(storage, 1 << 20);
        let opened = files.map(|(name, bytes, _)| pool.open(name, bytes, name).unwrap());
        let mut held = Vec::new();
        for (which, indexes, action) in steps {
            let (file, bytes) = (&opened[which], &oracle[which]);
            let size = file.page_bytes();
            let mut numbers: Vec<u64> =
                indexes.iter().map(|i| i.index(file.page_count() as usize) as u64).collect();
            let same = |page: &Page| page[..] == bytes[page.number() as usize * size..][..size];
            match action {
                0 => {
                    let page = file.page(numbers[0]).unwrap();
                    prop_assert!(same(&page));
                    held.push((which, page));
                }
                1 => pool.clear(),
                2 => {
                    let start = numbers[0];
                    file.pages_sequential(start..(start + 40).min(file.page_count()), |number, page| {
                        assert!(number == page.number() && same(page));
                        Ok::<_, IoError>(())
                    }).unwrap();
                }
                _ => {
                    numbers.sort_unstable();
                    numbers.dedup();
                    let mut served = 0;
                    file.pages(&numbers, |index, page| {
                        assert!(numbers[index] == page.number() && same(page));
                        served += 1;
                        Ok::<_, IoError>(())
                    }).unwrap();
                    prop_assert_eq!(served, numbers.len());
                }
            }
            if held.len() > 4 {
                held.remove(0);
            }
            for (which, page) in &held {
                let size = opened[*which].page_bytes();
                prop_assert!(page[..] == oracle[*which][page.number() as usize * size..][..size]);
            }
            prop_assert!(pool.bytes_in_use() <= pool.arena.capacity_bytes());
            prop_assert_eq!(pool.arena.capacity_bytes() % SLAB_BYTES, 0);
        }
    }
}

#[test]
fn large_batches_are_served_in_order_whole_and_once() {
    let storage = memory(&[("spo", 4096, 5000)]);
    for budget in [1 << 20, 16 << 20] {
        let pool = BufferPool::new(storage.clone(), budget);
        let file = pool.open("spo", 4096, "spo").unwrap();
        // Some pages are cached, at the beginning and in the middle.
        file.pages(&[0, 3, 2700], |_, _| Ok::<_, IoError>(()))
            .unwrap();
        let numbers: Vec<u64> = (0..5000).step_by(3).collect();
        let mut next = 0;
        file.pages(&numbers, |index, page| {
            assert_eq!((index, page.number()), (next, numbers[next]));
            check(&file, page);
            next += 1;
            Ok::<_, IoError>(())
        })
        .unwrap();
        assert_eq!(next, numbers.len());
        assert!(pool.bytes_in_use_max() <= budget);
        // An error stops the batch, with no page left pinned.
        let stop = |index: usize, _: &Page| match index {
            700 => Err(IoError::NotFound { name: "x".into() }),
            _ => Ok(()),
        };
        assert!(file.pages(&numbers, stop).is_err());
    }
}
