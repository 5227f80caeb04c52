//! FlashJoin (§3.2 of "Designing Database Operators for Flash-enabled Memory Hierarchies"): a join kernel that reads the join
//! attributes only, and a fetch kernel that reads the other attributes of the rows that join. It is compared with a hybrid
//! hash join that carries the projected attributes.
//!
//! Each row of the inner relation has a key of its own, in no order. The rows of the outer relation have random keys, of which
//! a part is not in the inner relation. Both are in [`super::relation`]'s pages, and the join attribute is the first. All joins
//! have the same memory. The result is counted and hashed, row by row.

use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use pythia_io::{SequentialReader, Storage, WriteFile};
use serde::Serialize;

use super::relation::{
    ATTRIBUTES, Layout, Page, Reader, Relation, VALUE_BYTES, mixed, scaled, value,
};
use super::scan::attributes;

/// Numbers of attributes projected of each relation, without the join attribute: 4, 20 and 48 % of a row.
pub const PROJECTED: [usize; 3] = [1, 5, 12];
/// Shares of the outer rows that join, in percent.
pub const JOINING: [u32; 3] = [1, 10, 100];
/// Bytes of a minipage: the size at which a scan of one attribute gains most without pages of megabytes.
pub const MINIPAGE_BYTES: usize = 16 << 10;
/// The folder of partitions.
const SPILL_FOLDER: &str = "spilled";
/// Bytes of an output buffer of a partition.
const SPILL_BYTES: usize = 1 << 20;
/// Bytes of a reader's buffer.
const READER_BYTES: usize = super::relation::WINDOW_BYTES;

/// A way of joining.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Hybrid hash join of the projected attributes, which reads whole pages.
    WholePages,
    /// The same, which reads the minipages of the projected attributes.
    Minipages,
    /// Join kernel and fetch kernel.
    Late,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 3] = [Self::WholePages, Self::Minipages, Self::Late];
}

/// Measured joins of one query.
#[derive(Clone, Debug, Serialize)]
pub struct Join {
    /// Share of the outer rows that join, in percent.
    pub joining: u32,
    /// Attributes projected of each relation, without the join attribute.
    pub projected: usize,
    /// Rows of the result.
    pub rows: u64,
    /// The hash of the result, the same for all methods.
    pub checksum: u64,
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
    /// Bytes read from the relations.
    pub read_bytes: u64,
    /// Bytes written to partitions, and read again.
    pub spilled_bytes: u64,
    /// Most memory, in bytes.
    pub memory_bytes: usize,
}

impl Join {
    /// Returns the time of an early join divided by that of the late one.
    pub fn gain(&self, early: Method) -> f64 {
        self.of(early).ms / self.of(Method::Late).ms
    }

    /// Returns the figures of a method.
    pub fn of(&self, method: Method) -> &Measured {
        let mut all = self.methods.iter();
        let found = all.find(|measured| measured.method == method);
        found.expect("all methods are measured")
    }
}

/// All joins.
#[derive(Clone, Debug, Serialize)]
pub struct Joins {
    /// Rows of each relation.
    pub rows: usize,
    /// Bytes of each relation.
    pub relation_bytes: u64,
    /// Memory that a join may use, in bytes.
    pub memory_bytes: usize,
    /// Bytes of a minipage.
    pub minipage_bytes: usize,
    /// Each share of joining rows and number of attributes.
    pub joins: Vec<Join>,
}

/// Measures all joins of two relations of at least some rows, with some memory.
pub(super) fn run(
    storage: &Arc<dyn Storage>,
    bridge_bytes: u64,
    (rows, memory_bytes): (usize, usize),
    rounds: usize,
    mut progress: impl FnMut(&str),
) -> Result<Joins> {
    let layout = Layout {
        minipage_bytes: MINIPAGE_BYTES,
    };
    let pages = rows.div_ceil(layout.page_rows());
    let rows = pages * layout.page_rows();
    let mut bench = Bench {
        storage: Arc::clone(storage),
        bridge_bytes,
        inner: inner(&**storage, layout, pages)?,
        memory_bytes,
    };
    let mut joins = Vec::new();
    for joining in JOINING {
        progress(&format!("join: {joining} % of {rows} rows"));
        let outer = outer(&**storage, layout, pages, joining)?;
        for projected in PROJECTED {
            joins.push(bench.measure(&outer, joining, projected, rounds)?);
        }
    }
    for name in ["inner", "outer"] {
        storage.remove(name)?;
    }
    Ok(Joins {
        rows,
        relation_bytes: (rows * ATTRIBUTES * VALUE_BYTES) as u64,
        memory_bytes,
        minipage_bytes: layout.minipage_bytes,
        joins,
    })
}

/// Makes a relation with each key once.
fn inner(storage: &dyn Storage, layout: Layout, pages: usize) -> Result<Relation> {
    // A prime that does not divide the number of rows, so that its multiples are all keys in another order.
    const STEP: u64 = 2_654_435_761;
    let rows = (pages * layout.page_rows()) as u64;
    Relation::create(
        storage,
        "inner",
        layout,
        pages,
        |row, attribute| match attribute {
            0 => (u64::from(row) * STEP % rows) as u32,
            _ => mixed(1, row, attribute),
        },
    )
}

/// Makes a relation with random keys, of which about `joining` percent are in the inner relation.
fn outer(storage: &dyn Storage, layout: Layout, pages: usize, joining: u32) -> Result<Relation> {
    let keys = (pages * layout.page_rows()) as u64 * 100 / u64::from(joining);
    let keys = u32::try_from(keys).context("too many rows: their keys have 32 bits")?;
    Relation::create(storage, "outer", layout, pages, |row, attribute| {
        let bits = mixed(2, row, attribute);
        if attribute == 0 {
            scaled(bits, keys)
        } else {
            bits
        }
    })
}

/// The result of a join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    rows: u64,
    checksum: u64,
}

impl Found {
    /// Adds a row: its key, the values of the inner relation, then those of the outer one. Their order counts, that of the
    /// rows does not.
    fn add(&mut self, key: u32, inner: &[u32], outer: &[u32]) {
        const FACTOR: u64 = 0x51_7c_c1_b7_27_22_0a_95;
        let mix =
            |hash: u64, value: &u32| (hash.rotate_left(5) ^ u64::from(*value)).wrapping_mul(FACTOR);
        let hash = inner.iter().chain(outer).fold(u64::from(key), mix);
        self.checksum = self.checksum.wrapping_add(hash ^ hash >> 32);
        self.rows += 1;
    }
}

/// The result of a join and its costs.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    found: Found,
    read_bytes: u64,
    spilled_bytes: u64,
    memory_bytes: usize,
}

struct Bench {
    storage: Arc<dyn Storage>,
    bridge_bytes: u64,
    inner: Relation,
    memory_bytes: usize,
}

impl Bench {
    /// Measures all methods in turn; each must have the same result.
    fn measure(
        &mut self,
        outer: &Relation,
        joining: u32,
        projected: usize,
        rounds: usize,
    ) -> Result<Join> {
        // The first is the join attribute.
        let attributes = attributes(projected + 1);
        let mut times = [const { Vec::new() }; Method::ALL.len()];
        let mut methods: Vec<Measured> = Vec::new();
        let mut found = None;
        for round in 0..rounds {
            for (method, times) in Method::ALL.into_iter().zip(&mut times) {
                let begun = Instant::now();
                let now = self.join(outer, &attributes, method)?;
                times.push(begun.elapsed().as_secs_f64() * 1e3);
                // Not timed: removal is durable, which temporary files need not be.
                self.storage.remove(SPILL_FOLDER)?;
                let expected = *found.get_or_insert(now.found);
                ensure!(
                    now.found == expected,
                    "{method:?} found {:?}, not {expected:?}",
                    now.found
                );
                if round == 0 {
                    methods.push(Measured {
                        method,
                        ms: 0.0,
                        read_bytes: now.read_bytes,
                        spilled_bytes: now.spilled_bytes,
                        memory_bytes: now.memory_bytes,
                    });
                }
            }
        }
        for (measured, times) in methods.iter_mut().zip(&mut times) {
            measured.ms = super::median(times);
        }
        let found = found.unwrap_or_default();
        Ok(Join {
            joining,
            projected,
            rows: found.rows,
            checksum: found.checksum,
            methods,
        })
    }

    fn join(&self, outer: &Relation, attributes: &[usize], method: Method) -> Result<Outcome> {
        match method {
            Method::WholePages => self.early(outer, attributes, true),
            Method::Minipages => self.early(outer, attributes, false),
            Method::Late => self.late(outer, attributes),
        }
    }

    /// Joins by a hybrid hash join: as many partitions as the memory demands, of which the first never leaves memory.
    fn early(&self, outer: &Relation, attributes: &[usize], whole: bool) -> Result<Outcome> {
        let width = attributes.len();
        let partitions = self.partitions(width)?;
        let mut reader = Reader::new(&*self.storage, self.bridge_bytes);
        let mut outcome = Outcome::default();
        let mut table = Table::new(self.inner.rows() / partitions, width);
        let mut spilled = Spill::new(&*self.storage, "inner", partitions)?;
        self.inner
            .each_page(&mut reader, attributes, whole, |page| {
                each_row(page, attributes, |row| {
                    match partition(row[0], partitions) {
                        0 => {
                            table.insert(row);
                            Ok(())
                        }
                        other => spilled.append(other, row),
                    }
                })
            })?;
        let mut inner_spilled = spilled.finish(&mut outcome)?;
        let mut spilled = Spill::new(&*self.storage, "outer", partitions)?;
        outer.each_page(&mut reader, attributes, whole, |page| {
            each_row(page, attributes, |row| {
                match partition(row[0], partitions) {
                    0 => {
                        table.probe(row, &mut outcome.found);
                        Ok(())
                    }
                    other => spilled.append(other, row),
                }
            })
        })?;
        let buffers = (partitions - 1) * SPILL_BYTES + reader.memory_bytes();
        outcome.memory_bytes = table.memory_bytes() + buffers;
        let mut outer_spilled = spilled.finish(&mut outcome)?;
        for _ in 1..partitions {
            table.clear();
            let mut row = vec![0; width];
            each_spilled(&self.storage, inner_spilled.next(), &mut row, |row| {
                table.insert(row);
            })?;
            each_spilled(&self.storage, outer_spilled.next(), &mut row, |row| {
                table.probe(row, &mut outcome.found);
            })?;
            outcome.memory_bytes = outcome.memory_bytes.max(table.memory_bytes() + SPILL_BYTES);
        }
        outcome.read_bytes = reader.bytes_read;
        Ok(outcome)
    }

    /// Returns the number of partitions whose table fits in memory beside the buffers.
    fn partitions(&self, width: usize) -> Result<usize> {
        let rows = self.inner.rows();
        let fits = |partitions: &usize| {
            let buffers = READER_BYTES + (partitions - 1) * SPILL_BYTES;
            // Partitions by hash are not of exactly the same size.
            let rows = rows / partitions + rows / partitions / 50;
            Table::bytes(rows, width) + buffers <= self.memory_bytes
        };
        let found = (1..=self.memory_bytes / SPILL_BYTES).find(fits);
        found.with_context(|| {
            format!(
                "{} bytes of memory are not enough for a join of {rows} rows",
                self.memory_bytes
            )
        })
    }

    /// Joins row numbers by the join attributes, then fetches the other attributes of the rows that join.
    fn late(&self, outer: &Relation, attributes: &[usize]) -> Result<Outcome> {
        let mut reader = Reader::new(&*self.storage, self.bridge_bytes);
        let mut outcome = Outcome::default();
        let index = self.join_kernel(&mut reader, outer, &mut outcome)?;
        let index_bytes = index.len() * size_of::<Joined>();
        // Of each row: the values of both relations, and its place in the order of the inner rows.
        let width = attributes.len() - 1;
        let row_bytes = 2 * VALUE_BYTES * width + size_of::<u64>() + size_of::<u32>();
        let room = self.memory_bytes.saturating_sub(index_bytes + READER_BYTES);
        let chunk_rows = (room / row_bytes).max(1);
        let mut fetch = FetchKernel::default();
        for chunk in index.chunks(chunk_rows) {
            fetch.run(&mut reader, [&self.inner, outer], &attributes[1..], chunk)?;
            fetch.emit(chunk, width, &mut outcome.found);
        }
        let fetching =
            index_bytes + index.len().min(chunk_rows) * row_bytes + reader.memory_bytes();
        outcome.memory_bytes = outcome.memory_bytes.max(fetching);
        outcome.read_bytes = reader.bytes_read;
        Ok(outcome)
    }

    /// Makes the join index, in the order of the outer rows.
    fn join_kernel(
        &self,
        reader: &mut Reader<'_>,
        outer: &Relation,
        outcome: &mut Outcome,
    ) -> Result<Vec<Joined>> {
        let rows = self.inner.rows();
        let mut table = Table::new(rows, 2);
        self.inner.each_page(reader, &[0], false, |page| {
            let numbered = (page.first_row()..).zip(page.column(0));
            numbered.for_each(|(row, key)| table.insert(&[value(*key), row]));
            Ok(())
        })?;
        let room = self
            .memory_bytes
            .saturating_sub(table.memory_bytes() + READER_BYTES);
        let joined_max = room / size_of::<Joined>();
        // Memory that is never written to is not used.
        let mut index = Vec::with_capacity(joined_max.min(outer.rows()));
        outer.each_page(reader, &[0], false, |page| {
            for (row, key) in (page.first_row()..).zip(page.column(0)) {
                let key = value(*key);
                table.each_match(key, |match_| {
                    index.push(Joined {
                        key,
                        inner: match_[1],
                        outer: row,
                    });
                });
            }
            ensure!(
                index.len() <= joined_max,
                "the join index does not fit in {} bytes of memory beside the table of row numbers",
                self.memory_bytes
            );
            Ok(())
        })?;
        let index_bytes = index.len() * size_of::<Joined>();
        outcome.memory_bytes = table.memory_bytes() + index_bytes + reader.memory_bytes();
        Ok(index)
    }
}

/// An entry of a join index.
#[derive(Clone, Copy, Debug)]
struct Joined {
    key: u32,
    inner: u32,
    outer: u32,
}

/// Fetches attributes of the rows of a join index.
#[derive(Default)]
struct FetchKernel {
    /// The index's places in the order of their inner rows, which are in the upper half.
    by_inner: Vec<u64>,
    rows: Vec<u32>,
    /// Values of each entry, in the order of the index.
    inner: Vec<u32>,
    outer: Vec<u32>,
}

impl FetchKernel {
    /// Fetches the values of both relations for a part of an index, which is in the order of the outer rows.
    fn run(
        &mut self,
        reader: &mut Reader<'_>,
        [inner, outer]: [&Relation; 2],
        attributes: &[usize],
        index: &[Joined],
    ) -> Result<()> {
        let width = attributes.len();
        for values in [&mut self.inner, &mut self.outer] {
            values.resize(index.len() * width, 0);
        }
        let Self {
            by_inner,
            rows,
            inner: inner_values,
            outer: outer_values,
        } = self;
        rows.clear();
        rows.extend(index.iter().map(|joined| joined.outer));
        outer.fetch(reader, rows, attributes, |attribute, range, piece| {
            for place in range {
                let bytes = piece[outer.index_in_piece(rows[place])];
                outer_values[place * width + attribute] = value(bytes);
            }
        })?;
        let numbered = index.iter().zip(0_u64..);
        by_inner.clear();
        by_inner.extend(numbered.map(|(joined, place)| u64::from(joined.inner) << 32 | place));
        by_inner.sort_unstable();
        rows.clear();
        rows.extend(by_inner.iter().map(|entry| (entry >> 32) as u32));
        inner.fetch(reader, rows, attributes, |attribute, range, piece| {
            for (entry, row) in by_inner[range.clone()].iter().zip(&rows[range]) {
                let place = *entry as u32 as usize;
                let bytes = piece[inner.index_in_piece(*row)];
                inner_values[place * width + attribute] = value(bytes);
            }
        })
    }

    /// Adds the rows to the result.
    fn emit(&self, index: &[Joined], width: usize, found: &mut Found) {
        let values = self
            .inner
            .chunks_exact(width)
            .zip(self.outer.chunks_exact(width));
        for (joined, (inner, outer)) in index.iter().zip(values) {
            found.add(joined.key, inner, outer);
        }
    }
}

/// Calls `visit` with the values of each row of a page.
fn each_row(
    page: &Page<'_>,
    attributes: &[usize],
    mut visit: impl FnMut(&[u32]) -> Result<()>,
) -> Result<()> {
    let columns: Vec<_> = attributes.iter().map(|&a| page.column(a)).collect();
    let mut row = vec![0; columns.len()];
    for number in 0..columns[0].len() {
        for (to, column) in row.iter_mut().zip(&columns) {
            *to = value(column[number]);
        }
        visit(&row)?;
    }
    Ok(())
}

/// Returns the partition of a key.
fn partition(key: u32, partitions: usize) -> usize {
    scaled(key.wrapping_mul(0x85eb_ca6b), partitions as u32) as usize
}

/// Rows of a fixed number of values in chains by the hash of the first, the key.
struct Table {
    /// The first entry of each chain, counted from 1; 0: none.
    heads: Vec<u32>,
    /// The next entry of the chain, then the row.
    entries: Vec<u32>,
    width: usize,
    shift: u32,
}

impl Table {
    fn heads(rows: usize) -> usize {
        rows.max(2).next_power_of_two()
    }

    /// Returns the bytes of a table for a number of rows.
    fn bytes(rows: usize, width: usize) -> usize {
        (Self::heads(rows) + rows * (1 + width)) * size_of::<u32>()
    }

    fn new(rows: usize, width: usize) -> Self {
        let heads = Self::heads(rows);
        // A few more than expected, so that a partition that is a little larger does not move the table.
        let room = rows + rows / 50;
        Self {
            heads: vec![0; heads],
            entries: Vec::with_capacity(room * (1 + width)),
            width,
            shift: u32::BITS - heads.ilog2(),
        }
    }

    fn memory_bytes(&self) -> usize {
        (self.heads.len() + self.entries.capacity()) * size_of::<u32>()
    }

    fn clear(&mut self) {
        self.heads.fill(0);
        self.entries.clear();
    }

    fn chain(&self, key: u32) -> usize {
        (key.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }

    fn insert(&mut self, row: &[u32]) {
        let chain = self.chain(row[0]);
        let number = self.entries.len() / (1 + self.width) + 1;
        let next = std::mem::replace(&mut self.heads[chain], number as u32);
        self.entries.push(next);
        self.entries.extend_from_slice(row);
    }

    /// Calls `visit` with each row of a key.
    fn each_match(&self, key: u32, mut visit: impl FnMut(&[u32])) {
        let mut number = self.heads[self.chain(key)] as usize;
        while number > 0 {
            let start = (number - 1) * (1 + self.width);
            let entry = &self.entries[start..=start + self.width];
            if entry[1] == key {
                visit(&entry[1..]);
            }
            number = entry[0] as usize;
        }
    }

    /// Adds the rows that join with an outer row to the result.
    fn probe(&self, outer: &[u32], found: &mut Found) {
        self.each_match(outer[0], |inner| {
            found.add(outer[0], &inner[1..], &outer[1..])
        });
    }
}

/// Partitions of a relation in temporary files, all but the first.
struct Spill {
    files: Vec<(String, Box<dyn WriteFile>)>,
    bytes: Vec<u8>,
}

impl Spill {
    fn new(storage: &dyn Storage, name: &str, partitions: usize) -> Result<Self> {
        let files = (1..partitions).map(|partition| {
            let name = format!("{SPILL_FOLDER}/{name}-{partition}");
            let file = storage.create(&name)?;
            Ok((name, file))
        });
        Ok(Self {
            files: files.collect::<Result<_>>()?,
            bytes: Vec::new(),
        })
    }

    fn append(&mut self, partition: usize, row: &[u32]) -> Result<()> {
        self.bytes.clear();
        self.bytes
            .extend(row.iter().flat_map(|value| value.to_le_bytes()));
        self.files[partition - 1].1.append(&self.bytes)?;
        Ok(())
    }

    /// Closes the files and returns their names.
    fn finish(self, outcome: &mut Outcome) -> Result<std::vec::IntoIter<String>> {
        let mut names = Vec::new();
        for (name, file) in self.files {
            outcome.spilled_bytes += file.len();
            file.close()?;
            names.push(name);
        }
        Ok(names.into_iter())
    }
}

/// Calls `visit` with each row of a partition.
fn each_spilled(
    storage: &Arc<dyn Storage>,
    name: Option<String>,
    row: &mut [u32],
    mut visit: impl FnMut(&[u32]),
) -> Result<()> {
    let name = name.expect("each partition but the first has a file");
    let file = storage.open(&name)?;
    let row_bytes = row.len() * VALUE_BYTES;
    let mut reader = SequentialReader::new(Arc::clone(storage), file, SPILL_BYTES);
    let mut bytes = vec![0; row_bytes];
    while reader.remaining() > 0 {
        reader.read_exact(&mut bytes)?;
        for (value, bytes) in row.iter_mut().zip(bytes.as_chunks().0) {
            *value = u32::from_le_bytes(*bytes);
        }
        visit(row);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use pythia_io::MemoryStorage;

    use super::*;

    const LAYOUT: Layout = Layout {
        minipage_bytes: 4096,
    };
    const PAGES: usize = 60;

    fn bench(memory_bytes: usize) -> Bench {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        Bench {
            inner: inner(&*storage, LAYOUT, PAGES).expect("written"),
            storage,
            bridge_bytes: 0,
            memory_bytes,
        }
    }

    /// Returns the values of a relation, row by row.
    fn values(bench: &Bench, relation: &Relation, attributes: &[usize]) -> Vec<Vec<u32>> {
        let mut rows = Vec::new();
        let mut reader = Reader::new(&*bench.storage, 0);
        let visit = |page: &Page<'_>| {
            each_row(page, attributes, |row| {
                rows.push(row.to_vec());
                Ok(())
            })
        };
        relation
            .each_page(&mut reader, attributes, true, visit)
            .expect("read");
        rows
    }

    #[test]
    fn all_methods_join_the_same_rows_with_and_without_partitions() {
        let rows = PAGES * LAYOUT.page_rows();
        // Room for the row numbers of a join, but not for rows of many attributes.
        for memory_bytes in [64 << 20, READER_BYTES + 3_400_000] {
            let bench = bench(memory_bytes);
            for (joining, projected) in [(100, 12), (10, 1), (1, 14)] {
                let outer = outer(&*bench.storage, LAYOUT, PAGES, joining).expect("written");
                let attributes = attributes(projected + 1);
                let by_key: HashMap<u32, Vec<u32>> = values(&bench, &bench.inner, &attributes)
                    .into_iter()
                    .map(|row| (row[0], row))
                    .collect();
                assert_eq!(by_key.len(), rows, "keys are distinct");
                let mut expected = Found::default();
                for row in values(&bench, &outer, &attributes) {
                    if let Some(inner) = by_key.get(&row[0]) {
                        expected.add(row[0], &inner[1..], &row[1..]);
                    }
                }
                let share = expected.rows as f64 / rows as f64;
                assert!((share - f64::from(joining) / 100.0).abs() < 0.01, "{share}");
                for method in Method::ALL {
                    let outcome = bench.join(&outer, &attributes, method).expect("it fits");
                    assert_eq!(outcome.found, expected, "{method:?}");
                    assert!(
                        outcome.memory_bytes <= memory_bytes,
                        "{method:?}: {outcome:?}"
                    );
                    let spills = memory_bytes < 64 << 20 && method != Method::Late && projected > 1;
                    assert_eq!(outcome.spilled_bytes > 0, spills, "{method:?}, {projected}");
                }
            }
        }
    }

    #[test]
    fn too_little_memory_is_an_error() {
        let bench = bench(READER_BYTES + 1000);
        let outer = outer(&*bench.storage, LAYOUT, PAGES, 100).expect("written");
        for method in Method::ALL {
            let error = bench
                .join(&outer, &attributes(3), method)
                .expect_err("no room");
            assert!(error.to_string().contains("memory"), "{error}");
        }
    }

    #[test]
    fn the_result_depends_on_which_rows_join_and_not_on_their_order() {
        let found = |rows: [(u32, u32, u32); 2]| {
            let mut found = Found::default();
            rows.iter()
                .for_each(|(key, a, b)| found.add(*key, &[*a], &[*b]));
            found
        };
        assert_eq!(found([(1, 2, 3), (4, 5, 6)]), found([(4, 5, 6), (1, 2, 3)]));
        assert_ne!(found([(1, 2, 3), (4, 5, 6)]), found([(1, 5, 3), (4, 2, 6)]));
        assert_ne!(found([(1, 2, 3), (4, 5, 6)]), found([(1, 3, 2), (4, 5, 6)]));
    }
}
