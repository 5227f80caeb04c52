//! The dictionary as a whole, against a sorted vector.

use std::sync::Arc;

use proptest::prelude::*;
use pythia_io::bytes::{ByteReader, ByteWriter};
use pythia_io::{
    BufferPool, FaultPlan, FaultyStorage, MemoryStorage, PageWriter, Storage, WriteFile, seal_page,
};
use pythia_rdf::{TermId, TermKey, TermKind};

use super::*;
use crate::StoreError;

const FILE: &str = "dictionary.pages";
const CACHE_BYTES: usize = 4 << 20;

/// Keys per kind, sorted, each once.
type Terms = Vec<(TermKind, Vec<Vec<u8>>)>;

fn sorted(terms: Terms) -> Terms {
    let mut all = Terms::new();
    for kind in TermKind::DICTIONARY {
        let mut keys: Vec<Vec<u8>> = terms
            .iter()
            .filter(|(of, _)| *of == kind)
            .flat_map(|(_, keys)| keys.iter().cloned())
            .collect();
        keys.sort_unstable();
        keys.dedup();
        if !keys.is_empty() {
            all.push((kind, keys));
        }
    }
    all
}

fn write(terms: &Terms, page_bytes: usize) -> (MemoryStorage, DictionaryDirectory) {
    write_on(2, terms, page_bytes, true)
}

fn write_on(
    threads: usize,
    terms: &Terms,
    page_bytes: usize,
    filters: bool,
) -> (MemoryStorage, DictionaryDirectory) {
    let storage = MemoryStorage::new();
    let pages = PageWriter::new(storage.create(FILE).unwrap(), page_bytes);
    let mut writer = DictionaryWriter::new(pages, threads, filters).unwrap();
    for (kind, keys) in terms {
        for (rank, bytes) in keys.iter().enumerate() {
            let id = writer.push(TermKey { kind: *kind, bytes }).unwrap();
            assert_eq!(id, TermId::new(*kind, rank as u64));
        }
    }
    (storage, writer.finish().unwrap())
}

fn open(storage: &MemoryStorage, directory: DictionaryDirectory) -> Result<Dictionary, StoreError> {
    let pool = BufferPool::new(Arc::new(storage.clone()), CACHE_BYTES);
    let file = pool.open(FILE, directory.page_bytes(), "dictionary")?;
    Dictionary::new(file, Arc::new(directory))
}

fn recoded(directory: &DictionaryDirectory) -> DictionaryDirectory {
    let mut writer = ByteWriter::new();
    directory.encode(&mut writer);
    let mut reader = ByteReader::new("directory", writer.as_slice());
    let decoded = DictionaryDirectory::decode(&mut reader).unwrap();
    reader.finish().unwrap();
    assert!(&decoded == directory, "the directory does not round-trip");
    decoded
}

fn key_of(dictionary: &Dictionary, id: TermId) -> Vec<u8> {
    let mut scratch = Vec::new();
    dictionary.key(id, &mut scratch).unwrap().bytes.to_vec()
}

/// Checks every lookup of a dictionary against the terms it was made of.
fn check(dictionary: &Dictionary, terms: &Terms, absent: &[Vec<u8>]) {
    let mut ids = Vec::new();
    let mut keys = Vec::new();
    for (kind, of_kind) in terms {
        assert_eq!(dictionary.count(*kind), of_kind.len() as u64);
        let mut walk = dictionary.iter(*kind);
        for (rank, bytes) in of_kind.iter().enumerate() {
            let id = TermId::new(*kind, rank as u64);
            let key = TermKey { kind: *kind, bytes };
            assert_eq!(walk.next().unwrap(), Some((id, key)));
            assert_eq!(dictionary.find(key).unwrap(), Some(id));
            assert_eq!(&key_of(dictionary, id), bytes);
            ids.push(id);
            keys.push(key);
        }
        assert_eq!(walk.next().unwrap(), None);
    }
    // Batches, with repetitions, in an order unrelated to the file's.
    let mut shuffled: Vec<usize> = (0..ids.len()).chain(0..ids.len() / 3).collect();
    shuffled.sort_by_key(|&index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7);
    let wanted: Vec<TermId> = shuffled.iter().map(|&index| ids[index]).collect();
    let mut seen = vec![0; wanted.len()];
    dictionary
        .keys(&wanted, |index, key| {
            seen[index] += 1;
            assert_eq!(key, keys[shuffled[index]]);
            Ok::<(), StoreError>(())
        })
        .unwrap();
    assert!(seen.iter().all(|&times| times == 1));

    let mut asked: Vec<TermKey<'_>> = shuffled.iter().map(|&index| keys[index]).collect();
    for kind in TermKind::DICTIONARY {
        asked.extend(absent.iter().map(|bytes| TermKey { kind, bytes }));
    }
    let found = dictionary.find_batch(&asked).unwrap();
    for (key, found) in asked.iter().zip(found) {
        let of_kind = terms.iter().find(|(kind, _)| *kind == key.kind);
        let empty = Vec::new();
        let of_kind = of_kind.map_or(&empty, |(_, keys)| keys);
        let rank = of_kind.binary_search_by(|probe| probe[..].cmp(key.bytes));
        let expected = rank.ok().map(|rank| TermId::new(key.kind, rank as u64));
        assert_eq!(found, expected);
        assert_eq!(dictionary.find(*key).unwrap(), expected);
        let bound = dictionary.lower_bound(*key).unwrap();
        assert_eq!(bound, rank.unwrap_or_else(|before| before) as u64);
        let range = dictionary.prefix_range(key.kind, key.bytes).unwrap();
        let count = of_kind[bound as usize..]
            .iter()
            .take_while(|probe| probe.starts_with(key.bytes))
            .count();
        assert_eq!(range, bound..bound + count as u64);
    }
}

fn round_trip(terms: Terms, absent: &[Vec<u8>], page_bytes: usize) -> Dictionary {
    let terms = sorted(terms);
    let (storage, directory) = write(&terms, page_bytes);
    let dictionary = open(&storage, recoded(&directory)).unwrap();
    check(&dictionary, &terms, absent);
    dictionary.verify(|_| ()).unwrap();
    dictionary
}

/// Returns `count` realistic keys: IRIs of a few namespaces.
fn iris(count: usize) -> Vec<Vec<u8>> {
    let word = |n: usize| ["Product", "Offer", "Review", "Vendor"][n % 4];
    (0..count)
        .map(|n| {
            format!(
                "http://example.org/instances/dataFrom{}{}/{}{n}",
                word(n / 7),
                n % 13,
                word(n)
            )
            .into_bytes()
        })
        .collect()
}

/// Returns text of `length` bytes that differs with `seed`, as compressible as words are.
fn text(seed: usize, length: usize) -> Vec<u8> {
    let words = [
        "alpha ",
        "beta ",
        "gamma\u{e9} ",
        "delta ",
        "epsilon ",
        "\n",
        "zeta, ",
    ];
    let mut state = seed as u64 + 1;
    let mut text = Vec::new();
    while text.len() < length {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.extend_from_slice(words[(state >> 33) as usize % words.len()].as_bytes());
    }
    text.truncate(length);
    text
}

#[test]
fn iris_come_back_from_every_page_size() {
    for page_bytes in [4 << 10, 8 << 10, 16 << 10, 64 << 10] {
        let terms = vec![(TermKind::Iri, iris(5000))];
        let absent = [b"".to_vec(), b"http".to_vec(), b"zzz".to_vec()];
        round_trip(terms, &absent, page_bytes);
    }
}

#[test]
fn empty_dictionary_answers() {
    let dictionary = round_trip(Vec::new(), &[b"a".to_vec(), Vec::new()], 4096);
    let id = TermId::new(TermKind::Iri, 0);
    assert!(dictionary.key(id, &mut Vec::new()).is_err());
    assert_eq!(dictionary.directory().total_count(), 0);
}

#[test]
fn empty_key_and_nuls_are_keys() {
    let keys = vec![
        b"".to_vec(),
        b"\0".to_vec(),
        b"\0\0".to_vec(),
        b"\0\x01".to_vec(),
        b"a\0\0en".to_vec(),
        b"\xff".to_vec(),
        b"\xff\xff".to_vec(),
    ];
    for kind in TermKind::DICTIONARY {
        round_trip(
            vec![(kind, keys.clone())],
            &[b"\0\0\0".to_vec(), vec![0xff; 3]],
            4096,
        );
    }
}

#[test]
fn literals_with_nul_separators_round_trip_compressed() {
    let keys = (0..6000usize)
        .map(|n| {
            let mut key = text(n, 20 + n % 50);
            key.extend_from_slice(b"\0\0");
            key.extend_from_slice(if n % 3 == 0 {
                b"en"
            } else {
                b"de-at\0\x01\0\0\0"
            });
            key
        })
        .collect();
    round_trip(vec![(TermKind::LangString, keys)], &[], 8192);
}

#[test]
fn keys_longer_than_a_page_overflow() {
    let mut keys = iris(300);
    for n in 0..60 {
        keys.push(text(n, 3000 + n * 700));
        // The same beginning, far past the prefix that is kept in the entry.
        keys.push([text(7, 9000), text(n, 5000)].concat());
        keys.push([text(7, 9000 + n)].concat());
    }
    keys.push(text(3, 1_000_000));
    let noise: Vec<u8> = (0..70_000u64)
        .map(|n| ((n * n) >> 3) as u8 ^ (n >> 5) as u8)
        .collect();
    keys.push(noise.clone());
    let mut absent: Vec<Vec<u8>> = Vec::new();
    for key in keys.iter().skip(250).step_by(5) {
        absent.push([&key[..], b"x"].concat());
        absent.push(key[..key.len() - 1].to_vec());
        let mut other = key.clone();
        let middle = other.len() / 2;
        other[middle] ^= 0x40;
        absent.push(other);
    }
    for page_bytes in [4096, 8192] {
        let dictionary = round_trip(vec![(TermKind::String, keys.clone())], &absent, page_bytes);
        let statistics = dictionary.directory().statistics(TermKind::String);
        assert!(statistics.overflow_pages > 50, "{statistics:?}");
    }
}

#[test]
fn escapes_at_the_end_of_overflow_pages_are_not_lost() {
    // Bytes without a symbol in any table are escaped, and page ends cut them anywhere.
    let mut keys = Vec::new();
    for n in 0..8usize {
        let mut key = text(n, 20_000);
        for (index, byte) in key.iter_mut().enumerate() {
            if index % (3 + n) == 0 {
                *byte = if index % 2 == 0 {
                    255
                } else {
                    (index * 31) as u8
                };
            }
        }
        keys.push(key);
    }
    keys.extend((0..500).map(|n| text(n, 200)));
    round_trip(vec![(TermKind::String, keys)], &[], 4096);
}

#[test]
fn keys_with_long_common_prefixes_have_short_separators() {
    let prefix = text(1, 3000);
    let keys: Vec<Vec<u8>> = (0..3000usize)
        .map(|n| [&prefix[..], format!("{n:05}").as_bytes(), &text(n, n % 900)].concat())
        .chain(iris(100))
        .collect();
    let absent = vec![
        prefix.clone(),
        [&prefix[..], b"0040"].concat(),
        [&prefix[..], b"9"].concat(),
        prefix[..600].to_vec(),
        prefix[..512].to_vec(),
    ];
    let dictionary = round_trip(vec![(TermKind::String, keys)], &absent, 4096);
    let directory = dictionary.directory();
    let pages = directory.statistics(TermKind::String).entry_pages as usize;
    assert!(pages > 40);
    let separators = directory.memory_bytes() - directory.table_count() * 2304;
    assert!(
        separators < pages * 100,
        "{separators} bytes for {pages} pages"
    );
}

#[test]
fn all_kinds_live_in_one_file() {
    let terms = TermKind::DICTIONARY
        .iter()
        .enumerate()
        .map(|(n, &kind)| {
            (
                kind,
                (0..700)
                    .map(|seed| text(seed + n, 10 + seed % 90))
                    .collect(),
            )
        })
        .collect();
    let dictionary = round_trip(terms, &[b"alpha".to_vec()], 4096);
    // Ids of inline kinds, and ids past the end, are not in the dictionary.
    for id in [
        TermId::new(TermKind::Integer, 1),
        TermId::UNBOUND,
        TermId::new(TermKind::Iri, 1 << 40),
        TermId(0x99 << 56),
    ] {
        let error = dictionary.key(id, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        assert!(
            dictionary
                .keys(&[id], |_, _| Ok::<(), StoreError>(()))
                .is_err()
        );
    }
    let key = TermKey {
        kind: TermKind::Integer,
        bytes: b"1",
    };
    assert_eq!(dictionary.find(key).unwrap(), None);
}

#[test]
fn same_keys_give_the_same_bytes_on_any_number_of_threads() {
    // Text of several batches, whose later part calls for symbols of its own.
    let texts = (0..80_000).map(|n| match n % 2 {
        0 => text(n, n % 300),
        _ => format!("~{n:06}{}", "0123456789".repeat(n % 30)).into_bytes(),
    });
    let terms = sorted(vec![
        (TermKind::Iri, iris(40_000)),
        (TermKind::String, texts.collect()),
    ]);
    let (one, directory) = write_on(1, &terms, 8192, true);
    assert!(directory.table_count() > 2, "{}", directory.table_count());
    for threads in [2, 4, 4] {
        let (other, again) = write_on(threads, &terms, 8192, true);
        assert!(directory == again);
        assert!(one.read_all(FILE).unwrap() == other.read_all(FILE).unwrap());
    }
    let dictionary = open(&one, directory).unwrap();
    check(&dictionary, &terms, &[]);
}

#[test]
fn ranges_of_ranks_can_be_walked() {
    let terms = sorted(vec![(TermKind::Iri, iris(3000))]);
    let (storage, directory) = write(&terms, 4096);
    let dictionary = open(&storage, directory).unwrap();
    let keys = &terms[0].1;
    for range in [0..0, 5..6, 100..2999, 2999..3000, 2990..9000, 8000..9000] {
        let mut walk = dictionary.iter_range(TermKind::Iri, range.clone());
        let mut count = 0;
        while let Some((id, key)) = walk.next().unwrap() {
            assert_eq!(id.payload(), range.start + count);
            assert_eq!(key.bytes, keys[id.payload() as usize]);
            count += 1;
        }
        assert_eq!(count, range.end.min(3000).saturating_sub(range.start));
    }
}

#[test]
#[should_panic(expected = "sorted")]
fn keys_out_of_order_are_refused() {
    let storage = MemoryStorage::new();
    let pages = PageWriter::new(storage.create(FILE).unwrap(), 4096);
    let mut writer = DictionaryWriter::new(pages, 2, true).unwrap();
    for bytes in [b"a", b"a"] {
        drop(writer.push(TermKey {
            kind: TermKind::Iri,
            bytes,
        }));
    }
}

#[test]
fn a_full_disk_is_an_error_of_the_writer() {
    #[derive(Debug)]
    struct Full(u64);
    impl WriteFile for Full {
        fn append(&mut self, bytes: &[u8]) -> Result<(), pythia_io::IoError> {
            self.0 += bytes.len() as u64;
            Err(pythia_io::IoError::DiskFull {
                action: "write",
                name: FILE.to_owned(),
                offset: self.0,
            })
        }
        fn len(&self) -> u64 {
            self.0
        }
        fn close(self: Box<Self>) -> Result<(), pythia_io::IoError> {
            Ok(())
        }
        fn sync(self: Box<Self>) -> Result<(), pythia_io::IoError> {
            Ok(())
        }
    }
    for count in [10usize, 60_000] {
        let mut writer =
            DictionaryWriter::new(PageWriter::new(Box::new(Full(0)), 4096), 2, true).unwrap();
        let outcome = (0..count)
            .try_for_each(|n| {
                let bytes = format!("{n:08}{}", "x".repeat(n % 200)).into_bytes();
                let key = TermKey {
                    kind: TermKind::String,
                    bytes: &bytes,
                };
                writer.push(key).map(drop)
            })
            .and_then(|()| writer.finish().map(drop));
        let error = outcome.unwrap_err();
        assert!(matches!(error, StoreError::Io(_)), "{error}");
    }
}

#[test]
fn an_abandoned_writer_ends_its_thread() {
    let storage = MemoryStorage::new();
    let pages = PageWriter::new(storage.create(FILE).unwrap(), 4096);
    let mut writer = DictionaryWriter::new(pages, 2, true).unwrap();
    writer
        .push(TermKey {
            kind: TermKind::Iri,
            bytes: b"a",
        })
        .unwrap();
    drop(writer);
}

#[test]
fn a_lookup_reads_one_page_and_a_batch_reads_each_page_once() {
    let terms = sorted(vec![(TermKind::Iri, iris(20_000))]);
    let (storage, directory) = write(&terms, 4096);
    let pages = directory.statistics(TermKind::Iri).entry_pages;
    let pool = BufferPool::new(Arc::new(storage), CACHE_BYTES);
    let file = pool.open(FILE, 4096, "dictionary").unwrap();
    let dictionary = Dictionary::new(file, Arc::new(directory)).unwrap();
    let keys = &terms[0].1;
    let reads = |f: &dyn Fn()| {
        pool.clear();
        let before = pool.counters();
        f();
        let counters = pool.counters().since(&before).group("dictionary");
        (counters.device_pages, counters.pages())
    };
    for rank in [0, 7, 9_999, keys.len() - 1] {
        let id = TermId::new(TermKind::Iri, rank as u64);
        let key = TermKey {
            kind: TermKind::Iri,
            bytes: &keys[rank],
        };
        assert_eq!(
            reads(&|| assert_eq!(dictionary.find(key).unwrap(), Some(id))),
            (1, 1)
        );
        assert_eq!(
            reads(&|| assert_eq!(key_of(&dictionary, id), key.bytes)),
            (1, 1)
        );
        let absent = [key.bytes, b"!"].concat();
        let absent = TermKey {
            kind: TermKind::Iri,
            bytes: &absent,
        };
        assert_eq!(
            reads(&|| assert_eq!(dictionary.find(absent).unwrap(), None)),
            (1, 1)
        );
    }
    let ids: Vec<TermId> = (0..keys.len() as u64)
        .rev()
        .map(|rank| TermId::new(TermKind::Iri, rank))
        .collect();
    let all = reads(&|| {
        dictionary
            .keys(&ids, |_, _| Ok::<(), StoreError>(()))
            .unwrap()
    });
    assert_eq!(all, (pages, pages));
    let asked: Vec<TermKey<'_>> = keys
        .iter()
        .map(|bytes| TermKey {
            kind: TermKind::Iri,
            bytes,
        })
        .collect();
    let all = reads(&|| {
        assert!(
            dictionary
                .find_batch(&asked)
                .unwrap()
                .iter()
                .all(Option::is_some)
        )
    });
    assert_eq!(all, (pages, pages));
}

/// Returns distinct keys in no order, which share no prefix.
fn scattered(from: u64, count: u64) -> Vec<Vec<u8>> {
    let key = |n| format!("{:016x}", crate::hashes::hash_of_node(n)).into_bytes();
    (from..from + count).map(key).collect()
}

#[test]
fn keys_that_are_not_there_are_told_apart_by_filter_pages() {
    let terms = sorted(vec![(TermKind::Iri, scattered(0, 200_000))]);
    let absent = scattered(200_000, 10_000);
    let mut asked: Vec<TermKey<'_>> = (absent.iter().chain(&terms[0].1[..10]))
        .map(|bytes| TermKey {
            kind: TermKind::Iri,
            bytes,
        })
        .collect();
    asked.sort_unstable();
    let reads = |filters: bool| {
        let (storage, directory) = write_on(2, &terms, 4096, filters);
        let pool = BufferPool::new(Arc::new(storage), CACHE_BYTES);
        let file = pool.open(FILE, 4096, "dictionary").unwrap();
        let filter_pages = directory.statistics(TermKind::Iri).filter_pages;
        let dictionary = Dictionary::new(file, Arc::new(recoded(&directory))).unwrap();
        let found = dictionary.find_batch(&asked).unwrap();
        assert_eq!(found.iter().flatten().count(), 10);
        let read = pool.counters();
        let read = ["dictionary", "filter"].map(|group| read.group(group).device_pages);
        (read, filter_pages)
    };
    // 0.3 % of the absent keys pass, and the others are on two pages.
    let ([entries, filters], filter_pages) = reads(true);
    assert!(entries <= 50, "{entries}");
    assert!((70..90).contains(&filter_pages) && filters == filter_pages);
    let ([entries, filters], filter_pages) = reads(false);
    assert!(entries > 400, "{entries}");
    assert_eq!((filters, filter_pages), (0, 0));
}

#[test]
fn few_keys_are_looked_up_without_filters() {
    let terms = sorted(vec![(TermKind::Iri, scattered(0, 20_000))]);
    let (storage, directory) = write(&terms, 4096);
    let pool = BufferPool::new(Arc::new(storage), CACHE_BYTES);
    let file = pool.open(FILE, 4096, "dictionary").unwrap();
    let dictionary = Dictionary::new(file, Arc::new(directory)).unwrap();
    let absent = scattered(20_000, 10);
    let kind = TermKind::Iri;
    let asked: Vec<TermKey<'_>> = absent.iter().map(|bytes| TermKey { kind, bytes }).collect();
    assert!(
        dictionary
            .find_batch(&asked)
            .unwrap()
            .iter()
            .all(Option::is_none)
    );
    let read = pool.counters();
    assert!((5..=10).contains(&read.group("dictionary").device_pages));
    assert_eq!(read.group("filter").device_pages, 0);
}

#[test]
fn verify_finds_a_key_that_its_filter_lacks() {
    let terms = sorted(vec![(TermKind::Iri, iris(2000))]);
    let (storage, directory) = write(&terms, 4096);
    let mut bytes = storage.read_all(FILE).unwrap();
    let is_filter = |page: &[u8]| page[4..8] == *b"dfl\x01";
    let (number, page) = (bytes.chunks_mut(4096).enumerate())
        .find(|(_, page)| is_filter(page))
        .expect("a filter page");
    page[16..1000].fill(0);
    seal_page(page, number as u64);
    storage.remove(FILE).unwrap();
    let mut file = storage.create(FILE).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
    let dictionary = open(&storage, directory).unwrap();
    let error = dictionary.verify(|_| ()).unwrap_err().to_string();
    assert!(error.contains("not in the filter of its page"), "{error}");
}

#[test]
fn a_flipped_bit_on_the_device_names_the_page() {
    let terms = sorted(vec![(TermKind::Iri, iris(2000))]);
    let (storage, directory) = write(&terms, 4096);
    let faulty = FaultyStorage::new(Arc::new(storage), FaultPlan::flip(FILE, 4096 + 2000, 3));
    let pool = BufferPool::new(Arc::new(faulty), CACHE_BYTES);
    let file = pool.open(FILE, 4096, "dictionary").unwrap();
    let dictionary = Dictionary::new(file, Arc::new(directory)).unwrap();
    assert!(
        dictionary
            .key(TermId::new(TermKind::Iri, 0), &mut Vec::new())
            .is_ok()
    );
    let error = dictionary.verify(|_| ()).unwrap_err().to_string();
    assert!(error.contains(FILE) && error.contains("page 1"), "{error}");
}

#[test]
fn a_write_that_fails_at_any_operation_is_an_error() {
    let terms = sorted(vec![(
        TermKind::String,
        (0..9000).map(|n| text(n, 100 + n % 900)).collect(),
    )]);
    for operation in 1..20 {
        let plan = FaultPlan::fail_at(operation);
        let faulty = FaultyStorage::new(Arc::new(MemoryStorage::new()), plan);
        let outcome = (|| {
            let file = faulty.create(FILE).map_err(StoreError::Io)?;
            let mut writer = DictionaryWriter::new(PageWriter::new(file, 4096), 2, true)?;
            for bytes in &terms[0].1 {
                writer.push(TermKey {
                    kind: TermKind::String,
                    bytes,
                })?;
            }
            writer.finish().map(drop)
        })();
        let done = faulty.operations() < operation;
        assert_eq!(outcome.is_ok(), done, "operation {operation}: {outcome:?}");
    }
}

#[test]
fn a_directory_of_another_file_is_refused() {
    let (storage, directory) = write(&sorted(vec![(TermKind::Iri, iris(100))]), 4096);
    let (_, other) = write(&sorted(vec![(TermKind::Iri, iris(5000))]), 4096);
    drop(open(&storage, directory).unwrap());
    let error = open(&storage, other).unwrap_err();
    assert!(error.to_string().contains(FILE), "{error}");
}

/// Runs every lookup; results may be wrong, but there must be no panic.
fn exercise(dictionary: &Dictionary, terms: &Terms) {
    let mut ids = Vec::new();
    let mut keys = Vec::new();
    let mut scratch = Vec::new();
    for (kind, of_kind) in terms {
        for (rank, bytes) in of_kind.iter().enumerate() {
            let id = TermId::new(*kind, rank as u64);
            drop(dictionary.find(TermKey { kind: *kind, bytes }));
            let _ = dictionary.key(id, &mut scratch);
            let _ = dictionary.prefix_range(*kind, &bytes[..bytes.len() / 2]);
            ids.push(id);
            keys.push(TermKey { kind: *kind, bytes });
        }
        let mut walk = dictionary.iter(*kind);
        while let Ok(Some(_)) = walk.next() {}
    }
    let _ = dictionary.keys(&ids, |_, _| Ok::<(), StoreError>(()));
    let _ = dictionary.find_batch(&keys);
    let _ = dictionary.verify(|_| ());
}

fn damage(storage: &MemoryStorage, page_bytes: usize, flips: &[(usize, u8)]) -> MemoryStorage {
    let mut bytes = storage.read_all(FILE).unwrap();
    for &(offset, flip) in flips {
        let offset = offset % bytes.len();
        bytes[offset] ^= flip;
    }
    for (number, page) in bytes.chunks_mut(page_bytes).enumerate() {
        seal_page(page, number as u64);
    }
    let damaged = MemoryStorage::new();
    let mut file = damaged.create(FILE).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
    damaged
}

fn key_strategy() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => "[ab]{0,12}".prop_map(String::into_bytes),
        6 => "http://example\\.org/(a|b|Product)/[0-9]{0,6}".prop_map(String::into_bytes),
        3 => prop::collection::vec(any::<u8>(), 0..40),
        3 => prop::collection::vec(0u8..3, 0..20),
        2 => (0usize..5, 0usize..1500).prop_map(|(seed, length)| text(seed, length)),
        1 => (0usize..3, 3900usize..4200).prop_map(|(seed, length)| text(seed, length)),
        1 => (0usize..3, 0usize..30_000).prop_map(|(seed, length)| text(seed, length)),
        1 => prop::collection::vec(any::<u8>(), 3900..9000),
    ]
}

fn terms_strategy() -> impl Strategy<Value = Terms> {
    let of_kind = prop::collection::vec(key_strategy(), 0..120);
    prop::collection::vec(
        (prop::sample::select(&TermKind::DICTIONARY[..]), of_kind),
        0..4,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn agrees_with_a_sorted_vector(
        terms in terms_strategy(),
        absent in prop::collection::vec(key_strategy(), 0..20),
        page_bytes in prop::sample::select(vec![4096usize, 8192, 16384, 65536]),
    ) {
        round_trip(terms, &absent, page_bytes);
    }

    #[test]
    fn damaged_pages_never_panic(
        terms in terms_strategy(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..6),
        header_flips in prop::collection::vec((any::<prop::sample::Index>(), 4usize..96, 1u8..), 0..4),
    ) {
        let terms = sorted(terms);
        let (storage, directory) = write(&terms, 4096);
        let length = storage.read_all(FILE).unwrap().len();
        prop_assume!(length > 0);
        let mut at: Vec<(usize, u8)> =
            flips.iter().map(|(index, flip)| (index.index(length), *flip)).collect();
        at.extend(header_flips.iter().map(|(page, offset, flip)| {
            (page.index(length / 4096) * 4096 + offset, *flip)
        }));
        let damaged = damage(&storage, 4096, &at);
        exercise(&open(&damaged, directory).unwrap(), &terms);
    }

    #[test]
    fn damaged_directories_never_panic(
        terms in terms_strategy(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let terms = sorted(terms);
        let (storage, directory) = write(&terms, 4096);
        let mut writer = ByteWriter::new();
        directory.encode(&mut writer);
        let mut bytes = writer.into_bytes();
        for (index, flip) in flips {
            let index = index.index(bytes.len());
            bytes[index] ^= flip;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(directory) = DictionaryDirectory::decode(&mut ByteReader::new("directory", &bytes))
            && directory.page_bytes() == 4096
            && let Ok(dictionary) = open(&storage, directory)
        {
            exercise(&dictionary, &terms);
        }
    }
}

#[test]
fn every_flipped_byte_of_a_small_dictionary_is_survived() {
    let mut keys = iris(40);
    keys.push(text(1, 9000));
    keys.push(text(2, 5000));
    let terms = sorted(vec![(TermKind::String, keys)]);
    let (storage, directory) = write(&terms, 4096);
    for offset in (0..600).chain(4096..4130) {
        for flip in [1, 0x80, 0xff] {
            let damaged = damage(&storage, 4096, &[(offset, flip)]);
            exercise(&open(&damaged, directory.clone()).unwrap(), &terms);
        }
    }
}
