//! Whole column files: rows and row numbers come back as written.

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;
use pythia_io::bytes::{ByteReader, ByteWriter};
use pythia_io::{BufferPool, MemoryStorage, PageWriter, Storage};
use pythia_rdf::TermId;

use super::directory::ColumnDirectory;
use super::format::Column;
use super::{ColumnFile, ColumnPage, ColumnWriter, minipage_places};
use crate::pattern::GraphFilter;

type Row = [u64; 4];

fn write(storage: &dyn Storage, rows: &[Row], page_bytes: usize) -> ColumnDirectory {
    let pages = PageWriter::new(storage.create("test.pages").expect("memory"), page_bytes);
    let mut writer = ColumnWriter::new(pages, page_bytes);
    writer.push_rows(rows).expect("memory");
    let directory = writer.finish().expect("memory");
    let mut out = ByteWriter::new();
    directory.write(&mut out);
    let bytes = out.into_bytes();
    let read = ColumnDirectory::read(&mut ByteReader::new("test", &bytes)).expect("just written");
    assert_eq!(read, directory);
    directory
}

fn open(storage: Arc<MemoryStorage>, directory: ColumnDirectory) -> ColumnFile {
    let pool = BufferPool::new(storage, 4 << 20);
    let file = pool
        .open("test.pages", directory.page_bytes, "test")
        .expect("whole pages");
    ColumnFile::new(file, directory).expect("they belong together")
}

fn build(rows: &[Row], page_bytes: usize) -> ColumnFile {
    let storage = Arc::new(MemoryStorage::new());
    let directory = write(&*storage, rows, page_bytes);
    open(storage, directory)
}

fn read_all(file: &ColumnFile) -> Vec<Row> {
    let numbers: Vec<u64> = (0..file.directory().pages() as u64).collect();
    let mut rows = Vec::new();
    file.read(&numbers, |_, page| {
        let all = 0..page.rows();
        let mut columns: [Vec<u64>; 4] = Default::default();
        page.predicates(all.clone(), &mut columns[0]);
        for column in Column::ALL {
            page.values(column, all.clone(), &mut columns[column as usize + 1])?;
        }
        rows.extend(all.map(|row| [0, 1, 2, 3].map(|column: usize| columns[column][row])));
        Ok(())
    })
    .expect("just written");
    rows
}

/// Returns the rows that start with a prefix.
fn range(rows: &[Row], prefix: &[u64]) -> Range<u64> {
    let start = rows.partition_point(|row| &row[..prefix.len()] < prefix);
    let end = rows.partition_point(|row| &row[..prefix.len()] <= prefix);
    if start == end {
        0..0
    } else {
        start as u64..end as u64
    }
}

fn normal(range: Range<u64>) -> Range<u64> {
    if range.start >= range.end {
        0..0
    } else {
        range
    }
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let kind = prop::sample::select(vec![0x10u64 << 56, 0x10 << 56, 0x08 << 56, 0x29 << 56]);
    let spread = prop::sample::select(vec![1u64, 3, 50, 4000, 1 << 20, 1 << 50]);
    let predicates = prop_oneof![3 => 1..6u64, 1 => Just(2000u64)];
    let row = (any::<[u64; 3]>(), kind, 0..4u64);
    let raw = prop::collection::vec(row, 0..4000);
    (raw, predicates, [spread.clone(), spread], any::<bool>()).prop_map(
        |(raw, predicates, [a_spread, b_spread], one_graph)| {
            let row = |([p, a, b], kind, g): ([u64; 3], u64, u64)| {
                let g = if one_graph { 0 } else { g };
                [
                    p % predicates,
                    (0x10 << 56) | (a % a_spread),
                    kind | (b % b_spread),
                    g,
                ]
            };
            let mut rows: Vec<Row> = raw.into_iter().map(row).collect();
            rows.sort_unstable();
            rows.dedup();
            rows
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn rows_are_found_again(
        rows in rows(),
        page_bytes in prop::sample::select(vec![4096usize, 16384, 65536]),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 8),
    ) {
        let file = build(&rows, page_bytes);
        prop_assert_eq!(file.directory().rows, rows.len() as u64);
        prop_assert_eq!(&read_all(&file), &rows);
        prop_assert_eq!(file.find(&[]).expect("sound"), 0..rows.len() as u64);
        for pick in picks {
            let Some(row) = rows.get(pick.index(rows.len().max(1))) else {
                break;
            };
            for length in 1..=3 {
                for change in [-1i64, 0, 1] {
                    let mut prefix = row[..length].to_vec();
                    prefix[length - 1] = prefix[length - 1].wrapping_add_signed(change);
                    let found = file.find(&prefix).expect("sound");
                    prop_assert_eq!(normal(found.clone()), range(&rows, &prefix), "{:?}", prefix);
                    let first = rows.partition_point(|row| row[..length] < prefix[..]) as u64;
                    prop_assert_eq!(file.seek(&prefix).expect("sound"), first, "{:?}", prefix);
                    for graph in [GraphFilter::Named, GraphFilter::One(TermId(2))] {
                        let within = range(&rows, &prefix);
                        let within = &rows[within.start as usize..within.end as usize];
                        let count = within.iter().filter(|row| graph.accepts(TermId(row[3]))).count();
                        prop_assert_eq!(file.count(found.clone(), graph).expect("sound"), count as u64);
                    }
                }
            }
        }
    }

    #[test]
    fn damaged_pages_do_not_panic(
        rows in rows(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        in_header in any::<bool>(),
    ) {
        let storage = MemoryStorage::new();
        write(&storage, &rows, 4096);
        let mut bytes = storage.read_all("test.pages").expect("just written");
        let area = if in_header { 80 } else { 4096 };
        for page in bytes.chunks_mut(4096) {
            for (index, byte) in &hits {
                page[index.index(area)] = *byte;
            }
            let Ok(view) = ColumnPage::new(page) else {
                continue;
            };
            for column in Column::ALL {
                let _ = view.values(column, 0..view.rows(), &mut Vec::new());
                let _ = view.values(column, view.rows() / 3..view.rows() / 2, &mut Vec::new());
            }
            for row in rows.iter().step_by(100) {
                let _ = view.find(&row[..2]);
                let _ = view.find(&row[..3]);
            }
        }
    }

    #[test]
    fn damaged_directories_do_not_panic(
        rows in rows(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let directory = write(&MemoryStorage::new(), &rows, 4096);
        let mut out = ByteWriter::new();
        directory.write(&mut out);
        let mut bytes = out.into_bytes();
        for (index, byte) in hits {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = ColumnDirectory::read(&mut ByteReader::new("test", &bytes));
    }
}

/// Returns rows like those of a benchmark: offers with ten properties each, in PSO order.
fn offers(count: u64) -> Vec<Row> {
    let iri = 0x10u64 << 56;
    let scattered = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let mut rows = Vec::new();
    for p in 0..10u64 {
        for offer in 0..count {
            let object = match p {
                0 => iri | 7,
                1 => iri | (1_000_000 + scattered(offer) % 30_000),
                2 => iri | (2_000_000 + offer / 2000),
                3 => 0x22 << 56 | (scattered(offer) % 100_000),
                4 => 0x29 << 56 | (1 + scattered(offer) % 7),
                5 | 6 => 0x31 << 56 | (86_400_000_000 * (15_000 + scattered(offer) % 900)),
                7 => iri | (3_000_000 + offer),
                _ => 0x20 << 56 | (scattered(offer * p) % 1_000_000),
            };
            rows.push([iri | (100 + p), iri | (500_000 + offer), object, 0]);
        }
    }
    rows
}

#[test]
fn pages_are_full_and_small() {
    let rows = offers(20_000);
    for page_bytes in [4096, 16384, 65536] {
        let file = build(&rows, page_bytes);
        let directory = file.directory();
        let used: u64 = directory.used_bytes.iter().sum();
        // The last page has the rest.
        let full = ((directory.pages() - 1) * page_bytes) as u64;
        assert!(
            used * 1000 >= full * 990,
            "{used} bytes used of {full} and a page"
        );
        let bits = used * 8 / rows.len() as u64;
        assert!(bits < 14, "{bits} bits a row");
    }
}

#[test]
fn an_empty_file_has_no_rows() {
    let file = build(&[], 16384);
    assert_eq!(file.find(&[]).expect("nothing to read"), 0..0);
    assert_eq!(file.find(&[1, 2]).expect("nothing to read"), 0..0);
    assert_eq!(file.seek(&[1, 2]).expect("nothing to read"), 0);
    assert_eq!(file.seek(&[1]).expect("nothing to read"), 0);
    assert_eq!(
        file.count(0..0, GraphFilter::Named)
            .expect("nothing to read"),
        0
    );
    assert_eq!(read_all(&file), [] as [Row; 0]);
}

#[test]
fn a_page_of_long_constant_runs_stays_bounded() {
    let rows: Vec<Row> = (0..600_000u64).map(|a| [1, a, 5, 0]).collect();
    let file = build(&rows, 16384);
    assert_eq!(file.directory().pages(), 3);
    assert_eq!(read_all(&file), rows);
    assert_eq!(file.find(&[1, 300_000]).expect("sound"), 300_000..300_001);
}

#[test]
fn a_key_is_found_by_two_pages_at_most() {
    let rows = offers(20_000);
    let storage = Arc::new(MemoryStorage::new());
    let directory = write(&*storage, &rows, 4096);
    let file = open(storage, directory);
    let pool = Arc::clone(file.file().pool());
    for row in rows.iter().step_by(997) {
        pool.clear();
        let before = pool.counters();
        file.find(&row[..2]).expect("sound");
        let pages = pool.counters().since(&before).total().device_pages;
        assert!(pages <= 2, "{pages} pages");
        pool.clear();
        let before = pool.counters();
        file.find(&row[..1]).expect("sound");
        assert_eq!(pool.counters().since(&before).total().device_pages, 0);
    }
}

#[test]
#[should_panic(expected = "in order")]
fn rows_out_of_order_are_refused() {
    let rows = [[1, 2, 3, 0], [1, 2, 2, 0]];
    write(&MemoryStorage::new(), &rows, 4096);
}

/// Returns the seconds this thread has run, regardless of the load on the machine.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text
        .split(' ')
        .next()
        .and_then(|first| first.parse::<f64>().ok());
    nanos.unwrap_or_default() / 1e9
}

/// `cargo test --release -p pythiadb-store column_speed -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn column_speed() {
    let rows = offers(400_000);
    let storage = Arc::new(MemoryStorage::new());
    let start = cpu_seconds();
    let directory = write(&*storage, &rows, 16384);
    let seconds = cpu_seconds() - start;
    let bytes = directory.pages() * directory.page_bytes;
    println!(
        "write: {:.1} M rows/s, {:.2} bytes a row, used {:?}",
        rows.len() as f64 / seconds / 1e6,
        bytes as f64 / rows.len() as f64,
        directory
            .used_bytes
            .map(|used| used as f64 * 8.0 / rows.len() as f64),
    );
    let pool = BufferPool::new(storage, 256 << 20);
    let pages = pool
        .open("test.pages", directory.page_bytes, "test")
        .expect("whole pages");
    let file = ColumnFile::new(pages, directory).expect("they belong together");
    for round in 0..3 {
        let start = cpu_seconds();
        let (mut a, mut b, mut sum) = (Vec::new(), Vec::new(), 0u64);
        let numbers: Vec<u64> = (0..file.directory().pages() as u64).collect();
        file.read(&numbers, |_, page| {
            a.clear();
            b.clear();
            page.values(Column::A, 0..page.rows(), &mut a)?;
            page.values(Column::B, 0..page.rows(), &mut b)?;
            sum = sum.wrapping_add(a[0] ^ b[b.len() - 1]);
            Ok(())
        })
        .expect("sound");
        let rate = rows.len() as f64 / (cpu_seconds() - start) / 1e6;
        println!("read a and b, round {round}: {rate:.0} M rows/s ({sum})");
    }
    let keys: Vec<&Row> = rows.iter().step_by(1009).collect();
    let start = cpu_seconds();
    for key in &keys {
        assert!(!file.find(&key[..2]).expect("sound").is_empty());
    }
    let each = (cpu_seconds() - start) / keys.len() as f64;
    println!("find(p, a), warm: {:.2} µs", each * 1e6);
}

#[test]
fn minipages_follow_each_other_and_a_constant_column_has_none() {
    let storage = MemoryStorage::new();
    // The second component ascends, the third is in no order, and the graph is the same in all rows.
    let rows: Vec<Row> = (0..500).map(|n| [7, n, n * 7919 % 1000, 3]).collect();
    write(&storage, &rows, 4096);
    let bytes = storage.read_all("test.pages").expect("memory");
    let [a, b, graph] = minipage_places(&bytes[..4096]).expect("a column page");
    assert!(!a.is_empty() && b.len() > a.len(), "{a:?} {b:?}");
    assert_eq!((a.end, b.end), (b.start, graph.start));
    assert!(graph.is_empty() && graph.end <= 4096);
    assert_eq!(minipage_places(&[0; 4096]), None);
}
