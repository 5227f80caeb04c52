//! FlashScan (§3.1 of "Designing Database Operators for Flash-enabled Memory Hierarchies"): a scan that reads only what a
//! query needs, compared with one that reads whole pages.
//!
//! The query projects some attributes of the rows whose first attribute is below a bound. The first attribute is among
//! those projected, and counts. The others are spread over the page.

use std::time::Instant;

use anyhow::{Result, ensure};
use pythia_io::Storage;
use serde::Serialize;

use super::relation::{
    ATTRIBUTES, Layout, Reader, Relation, VALUE_BYTES, WINDOW_BYTES, mixed, scaled, value,
};

/// Numbers of projected attributes: 4 to 100 %.
pub const PROJECTED: [usize; 7] = [1, 2, 4, 6, 10, 15, 25];
/// Selected rows in a million: 0.01, 1 and 100 %.
pub const SELECTED: [u32; 3] = [100, 10_000, MILLION];
/// Sizes of minipages, in bytes.
pub const MINIPAGE_BYTES: [usize; 8] = [
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
];
/// The size for which all shares are measured: pages of 100 KiB; the paper has pages of 8 to 128 KiB.
pub const PAPER_MINIPAGE_BYTES: usize = 4 << 10;
const MILLION: u32 = 1_000_000;
/// Rows whose attributes are fetched together.
const FETCH_ROWS: usize = 1 << 20;
/// A step between attributes of which every number below all of them is a multiple, modulo their number.
const SPREAD: usize = 7;
const NAME: &str = "scanned";

/// A way of scanning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Reads all pages.
    WholePages,
    /// Reads the minipages of the projected attributes.
    Minipages,
    /// Reads the minipages of the first attribute, and then those parts of the others that have selected rows.
    PredicateFirst,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 3] = [Self::WholePages, Self::Minipages, Self::PredicateFirst];
}

/// Measured scans of one query.
#[derive(Clone, Debug, Serialize)]
pub struct Scan {
    /// Bytes of a minipage.
    pub minipage_bytes: usize,
    /// Attributes projected, of [`ATTRIBUTES`].
    pub projected: usize,
    /// Rows selected, in a million.
    pub selected: u32,
    /// Rows found.
    pub rows: u64,
    /// One for each of [`Method::ALL`].
    pub methods: Vec<Measured>,
}

/// One method's figures.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    /// The method.
    pub method: Method,
    /// Median time of the rounds, in milliseconds.
    pub ms: f64,
    /// Device reads.
    pub reads: u64,
    /// Bytes read.
    pub bytes: u64,
}

impl Scan {
    /// Returns the time of whole pages divided by that of another method.
    pub fn gain(&self, method: Method) -> f64 {
        self.of(Method::WholePages).ms / self.of(method).ms
    }

    /// Returns the figures of a method.
    pub fn of(&self, method: Method) -> &Measured {
        let mut all = self.methods.iter();
        let found = all.find(|measured| measured.method == method);
        found.expect("all methods are measured")
    }
}

/// All scans.
#[derive(Clone, Debug, Serialize)]
pub struct Scans {
    /// Bytes of the relation, about.
    pub relation_bytes: u64,
    /// Most memory of a scan, in bytes.
    pub memory_bytes: usize,
    /// Gaps of up to this number of bytes are read, too.
    pub bridge_bytes: u64,
    /// All shares of attributes and rows with minipages of [`PAPER_MINIPAGE_BYTES`].
    pub shares: Vec<Scan>,
    /// Few attributes of all rows, and a quarter of all attributes of few rows, by size of the minipages.
    pub sizes: Vec<Scan>,
}

/// Measures all scans on relations of about these bytes, one after the other in one file.
pub(super) fn run(
    storage: &dyn Storage,
    bridge_bytes: u64,
    relation_bytes: u64,
    rounds: usize,
    mut progress: impl FnMut(&str),
) -> Result<Scans> {
    let mut scans = Scans {
        relation_bytes,
        memory_bytes: 0,
        bridge_bytes,
        shares: Vec::new(),
        sizes: Vec::new(),
    };
    for minipage_bytes in MINIPAGE_BYTES {
        progress(&format!("scan: minipages of {minipage_bytes} bytes"));
        let relation = relation(storage, minipage_bytes, relation_bytes)?;
        let mut bench = Bench {
            readers: [(); 2].map(|()| Reader::new(storage, bridge_bytes)),
            relation: &relation,
            rounds,
        };
        for (projected, selected) in [(1, MILLION), (6, MILLION), (6, SELECTED[0])] {
            scans.sizes.push(bench.measure(projected, selected)?);
        }
        if minipage_bytes == PAPER_MINIPAGE_BYTES {
            for selected in SELECTED {
                for projected in PROJECTED {
                    scans.shares.push(bench.measure(projected, selected)?);
                }
            }
        }
        let buffers = bench
            .readers
            .iter()
            .map(Reader::memory_bytes)
            .sum::<usize>();
        let memory = buffers + FETCH_ROWS * VALUE_BYTES;
        scans.memory_bytes = scans.memory_bytes.max(memory);
        storage.remove(NAME)?;
    }
    Ok(scans)
}

/// Makes a relation whose first attribute is even below a million.
fn relation(storage: &dyn Storage, minipage_bytes: usize, bytes: u64) -> Result<Relation> {
    let layout = Layout { minipage_bytes };
    let pages = (bytes as usize / layout.page_bytes()).max(1);
    Relation::create(storage, NAME, layout, pages, |row, attribute| {
        let bits = mixed(0, row, attribute);
        if attribute == 0 {
            scaled(bits, MILLION)
        } else {
            bits
        }
    })
}

struct Bench<'r> {
    relation: &'r Relation,
    /// For the pages, and for what is fetched after the predicate.
    readers: [Reader<'r>; 2],
    rounds: usize,
}

impl Bench<'_> {
    /// Measures all methods in turn; each must find the same.
    fn measure(&mut self, projected: usize, selected: u32) -> Result<Scan> {
        let attributes = attributes(projected);
        let mut times = [const { Vec::new() }; Method::ALL.len()];
        let mut methods = Vec::new();
        let mut found: Option<Found> = None;
        for round in 0..self.rounds {
            for (method, times) in Method::ALL.into_iter().zip(&mut times) {
                let before = self.read();
                let begun = Instant::now();
                let now = scan(
                    &mut self.readers,
                    self.relation,
                    &attributes,
                    selected,
                    method,
                )?;
                times.push(begun.elapsed().as_secs_f64() * 1e3);
                let expected = *found.get_or_insert(now);
                ensure!(
                    now == expected,
                    "{method:?} found {now:?}, not {expected:?}"
                );
                if round == 0 {
                    let after = self.read();
                    methods.push(Measured {
                        method,
                        ms: 0.0,
                        reads: after.0 - before.0,
                        bytes: after.1 - before.1,
                    });
                }
            }
        }
        for (measured, times) in methods.iter_mut().zip(&mut times) {
            measured.ms = super::median(times);
        }
        Ok(Scan {
            minipage_bytes: self.relation.layout.minipage_bytes,
            projected,
            selected,
            rows: found.map_or(0, |found| found.rows),
            methods,
        })
    }

    /// Returns the reads and the bytes so far.
    fn read(&self) -> (u64, u64) {
        let [pages, fetched] = &self.readers;
        (
            pages.reads + fetched.reads,
            pages.bytes_read + fetched.bytes_read,
        )
    }
}

/// Returns the first attribute and others spread over the page, ascending.
pub(super) fn attributes(count: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).map(|n| n * SPREAD % ATTRIBUTES).collect();
    all.sort_unstable();
    all
}

/// The result of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) rows: u64,
    pub(super) checksum: u64,
}

impl Found {
    /// Adds a value to the checksum, which depends on the row and attribute but not on the order.
    fn add(&mut self, row: u32, attribute: usize, value: u32) {
        let weight = u64::from(row) << 6 | (2 * attribute as u64 + 1);
        let product = u64::from(value).wrapping_mul(weight);
        self.checksum = self.checksum.wrapping_add(product);
    }
}

/// Scans a relation for the rows whose first attribute is less than `below`. `readers` are for pages and for what is
/// fetched.
pub(super) fn scan(
    readers: &mut [Reader<'_>; 2],
    relation: &Relation,
    attributes: &[usize],
    below: u32,
    method: Method,
) -> Result<Found> {
    let [pages, fetched] = readers;
    let mut found = Found::default();
    let mut selected = Vec::new();
    if method != Method::PredicateFirst {
        let whole = method == Method::WholePages;
        relation.each_page(pages, attributes, whole, |page| {
            selected.clear();
            select(page.column(0), 0, below, &mut selected);
            found.rows += selected.len() as u64;
            for &attribute in attributes {
                let values = page.column(attribute);
                for &row in &selected {
                    let number = page.first_row() + row;
                    found.add(number, attribute, value(values[row as usize]));
                }
            }
            Ok(())
        })?;
        return Ok(found);
    }
    let others = &attributes[1..];
    relation.each_page(pages, &[0], false, |page| {
        let (first, known) = (page.first_row(), selected.len());
        let values = page.column(0);
        select(values, first, below, &mut selected);
        found.rows += (selected.len() - known) as u64;
        for &row in &selected[known..] {
            found.add(row, 0, value(values[(row - first) as usize]));
        }
        if selected.len() + values.len() > FETCH_ROWS {
            fetch(fetched, relation, others, &selected, &mut found)?;
            selected.clear();
        }
        Ok(())
    })?;
    fetch(fetched, relation, others, &selected, &mut found)?;
    Ok(found)
}

/// Appends the numbers of the rows whose value is less than `below`.
fn select(values: &[[u8; VALUE_BYTES]], first: u32, below: u32, rows: &mut Vec<u32>) {
    let numbered = (first..).zip(values);
    rows.extend(numbered.filter_map(|(row, bytes)| (value(*bytes) < below).then_some(row)));
}

fn fetch(
    reader: &mut Reader<'_>,
    relation: &Relation,
    attributes: &[usize],
    rows: &[u32],
    found: &mut Found,
) -> Result<()> {
    relation.fetch(reader, rows, attributes, |index, range, piece| {
        for &row in &rows[range] {
            let value = value(piece[relation.index_in_piece(row)]);
            found.add(row, attributes[index], value);
        }
    })
}

const _: () = assert!(WINDOW_BYTES >= ATTRIBUTES * MINIPAGE_BYTES[MINIPAGE_BYTES.len() - 1]);

#[cfg(test)]
mod tests {
    use pythia_io::MemoryStorage;

    use super::*;

    #[test]
    fn attributes_are_distinct_and_ascending() {
        for count in 1..=ATTRIBUTES {
            let attributes = attributes(count);
            assert!(attributes.is_sorted_by(|a, b| a < b) && attributes[0] == 0);
            assert_eq!(attributes.len(), count);
        }
    }

    #[test]
    fn all_methods_find_what_is_there() {
        for minipage_bytes in [512, 4096, 16_384] {
            let storage = MemoryStorage::new();
            let relation = relation(&storage, minipage_bytes, 1 << 20).expect("written");
            let mut readers = [(); 2].map(|()| Reader::new(&storage, 0));
            for (projected, below) in [(1, MILLION), (3, MILLION), (4, 10_000), (25, 100), (2, 0)] {
                let attributes = attributes(projected);
                let mut expected = Found::default();
                let of = |row, attribute| mixed(0, row, attribute);
                for row in 0..relation.rows() as u32 {
                    let first = scaled(of(row, 0), MILLION);
                    if first < below {
                        expected.rows += 1;
                        expected.add(row, 0, first);
                        attributes[1..]
                            .iter()
                            .for_each(|&a| expected.add(row, a, of(row, a)));
                    }
                }
                for method in Method::ALL {
                    let found = scan(&mut readers, &relation, &attributes, below, method);
                    assert_eq!(found.expect("read"), expected, "{method:?}");
                }
            }
        }
    }

    #[test]
    fn the_predicate_first_reads_only_what_has_selected_rows() {
        let storage = MemoryStorage::new();
        let relation = relation(&storage, 4096, 4 << 20).expect("written");
        let read = |below, method| {
            let mut readers = [(); 2].map(|()| Reader::new(&storage, 0));
            scan(&mut readers, &relation, &attributes(25), below, method).expect("read");
            readers.iter().map(|reader| reader.bytes_read).sum::<u64>()
        };
        let pages = relation.pages as u64;
        assert_eq!(read(0, Method::PredicateFirst), pages * 4096);
        assert_eq!(read(0, Method::Minipages), pages * 25 * 4096);
        assert_eq!(read(MILLION, Method::PredicateFirst), pages * 25 * 4096);
    }
}
