//! A batch: the input that one worker parsed until its share of the memory was full, with its own sorted vocabulary
//! and its quads as ranks in it.
//!
//! Rank 0 of every vocabulary is the default graph. Rows hold `[subject rank, predicate position, object rank]` and,
//! only if the batch has a named graph, a graph position; positions are indexes into the batch's sorted lists of
//! predicates and graphs.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::LoadError;
use super::runs::{BLOCK_BYTES, RunFile, RunSpace, WrittenRun};
use super::table::TermTable;
use super::vocabulary::{KeySorter, Vocabulary};

/// Rows of a block.
const BLOCK_ROWS: usize = 1 << 16;

/// Quads as numbers: ordinals while a batch grows, ranks and positions once it is sealed.
#[derive(Debug, Default)]
pub(super) struct Rows {
    triples: Vec<Vec<[u32; 3]>>,
    spare: Vec<Vec<[u32; 3]>>,
    /// Empty while all quads are in the default graph.
    graphs: Vec<u32>,
    count: usize,
}

impl Rows {
    /// Appends a quad.
    #[inline]
    pub(super) fn push(&mut self, triple: [u32; 3], graph: u32) {
        match self.triples.last_mut() {
            Some(block) if block.len() < BLOCK_ROWS => block.push(triple),
            _ => self.push_block(triple),
        }
        if graph != 0 || !self.graphs.is_empty() {
            self.graphs.resize(self.count, 0);
            self.graphs.push(graph);
        }
        self.count += 1;
    }

    fn push_block(&mut self, triple: [u32; 3]) {
        let mut block = self
            .spare
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(BLOCK_ROWS));
        block.push(triple);
        self.triples.push(block);
    }

    /// Returns the number of quads.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns the bytes of memory in use.
    pub(super) fn bytes(&self) -> usize {
        // The graph column grows by doubling.
        self.count * 12 + self.graphs.capacity() * 4
    }

    /// Returns the bytes of memory kept for new quads.
    pub(super) fn spare_bytes(&self) -> usize {
        self.spare.len() * BLOCK_ROWS * 12
    }

    /// Frees the memory kept for new quads.
    pub(super) fn shrink(&mut self) {
        self.spare = Vec::new();
    }

    fn clear(&mut self) {
        for mut block in self.triples.drain(..) {
            block.clear();
            self.spare.push(block);
        }
        self.graphs.clear();
        self.count = 0;
    }

    /// Replaces ordinals by ranks and positions.
    fn renumber(&mut self, ranks: &[u32]) -> Renumbered {
        let predicates = Positions::of(self.triples.iter().flatten().map(|row| row[1]), ranks);
        let graphs = Positions::of(self.graphs.iter().copied(), ranks);
        let mut last = (u32::MAX, 0);
        let mut ends = [0; 2];
        for row in self.triples.iter_mut().flatten() {
            if row[1] != last.0 {
                last = (row[1], predicates.by_ordinal[&row[1]]);
            }
            *row = [ranks[row[0] as usize], last.1, ranks[row[2] as usize]];
            ends = [ends[0].max(row[0]), ends[1].max(row[2])];
        }
        for graph in &mut self.graphs {
            *graph = graphs.by_ordinal[graph];
        }
        Renumbered {
            predicates: predicates.ranks,
            graphs: graphs.ranks,
            ends,
        }
    }

    fn write(&self, file: &Arc<RunFile>) -> Result<BatchRows, LoadError> {
        let mut out = file.run(BLOCK_BYTES);
        let mut bytes = Vec::new();
        let mut graphs = self.graphs.iter();
        for block in &self.triples {
            for rows in block.chunks(4096) {
                bytes.clear();
                for row in rows {
                    for number in row {
                        bytes.extend_from_slice(&number.to_le_bytes());
                    }
                    if let Some(graph) = graphs.next() {
                        bytes.extend_from_slice(&graph.to_le_bytes());
                    }
                }
                out.write(&bytes)?;
            }
        }
        Ok(BatchRows {
            run: out.finish()?,
            count: self.count,
            has_graphs: !self.graphs.is_empty(),
        })
    }
}

/// The results of [`Rows::renumber`].
struct Renumbered {
    predicates: Vec<u32>,
    graphs: Vec<u32>,
    ends: [u32; 2],
}

/// A short sorted list of terms, with an index by ordinal.
struct Positions {
    ranks: Vec<u32>,
    by_ordinal: FxHashMap<u32, u32>,
}

impl Positions {
    fn of(ordinals: impl Iterator<Item = u32>, ranks: &[u32]) -> Self {
        let mut by_ordinal = FxHashMap::default();
        let mut last = None;
        for ordinal in ordinals {
            if last != Some(ordinal) {
                by_ordinal.insert(ordinal, 0);
                last = Some(ordinal);
            }
        }
        let mut sorted: Vec<u32> = by_ordinal
            .keys()
            .map(|&ordinal| ranks[ordinal as usize])
            .collect();
        sorted.sort_unstable();
        for (ordinal, position) in &mut by_ordinal {
            let found = sorted.binary_search(&ranks[*ordinal as usize]);
            *position = found.expect("every rank was collected") as u32;
        }
        Self {
            ranks: sorted,
            by_ordinal,
        }
    }
}

/// A sealed batch.
#[derive(Debug)]
pub(super) struct Batch {
    vocabulary: Vocabulary,
    header: BatchHeader,
}

/// A batch without its vocabulary.
#[derive(Debug)]
pub(super) struct BatchHeader {
    /// Its quads.
    pub(super) rows: BatchRows,
    /// Ranks of its predicates, sorted.
    pub(super) predicates: Vec<u32>,
    /// Ranks of its graphs, sorted; empty if all quads are in the default graph.
    pub(super) graphs: Vec<u32>,
    /// The highest rank of a subject and of an object.
    pub(super) ends: [u32; 2],
}

/// The files that batches are written to.
#[derive(Debug)]
pub(super) struct BatchFiles {
    keys: Arc<RunFile>,
    rows: Arc<RunFile>,
}

impl BatchFiles {
    /// Returns new files in `space`.
    pub(super) fn new(space: &Arc<RunSpace>) -> Self {
        Self {
            keys: space.file("terms"),
            rows: space.file("quads"),
        }
    }
}

impl Batch {
    /// Seals the contents of `table` and `rows`; both are empty afterwards.
    pub(super) fn seal(
        table: &mut TermTable,
        rows: &mut Rows,
        sorter: &mut KeySorter,
        files: &BatchFiles,
    ) -> Result<Self, LoadError> {
        sorter.sort(table.arena(), table.len());
        let numbers = rows.renumber(sorter.ranks());
        let keys = files.keys.run(BLOCK_BYTES);
        let batch = Self {
            vocabulary: Vocabulary::write(table.arena(), sorter.records(), keys)?,
            header: BatchHeader {
                rows: rows.write(&files.rows)?,
                predicates: numbers.predicates,
                graphs: numbers.graphs,
                ends: numbers.ends,
            },
        };
        table.clear();
        rows.clear();
        Ok(batch)
    }

    /// Returns the number of distinct terms.
    pub(super) fn term_count(&self) -> u32 {
        self.vocabulary.len()
    }

    /// Returns the vocabulary, and the rest.
    pub(super) fn split(self) -> (Vocabulary, BatchHeader) {
        (self.vocabulary, self.header)
    }
}

/// A sealed batch's rows.
#[derive(Debug)]
pub(super) struct BatchRows {
    run: WrittenRun,
    count: usize,
    has_graphs: bool,
}

impl BatchRows {
    /// Returns the number of quads.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Passes on all rows, `[subject, predicate, object, graph]`, some at a time.
    pub(super) fn drain(
        self,
        buffer_bytes: usize,
        mut take: impl FnMut(&mut dyn Iterator<Item = [u32; 4]>) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let row_bytes = if self.has_graphs { 16 } else { 12 };
        let mut reader = self.run.into_reader(buffer_bytes);
        loop {
            let ready = reader.peek(row_bytes)?;
            if ready.is_empty() {
                return Ok(());
            }
            let whole = ready.len() - ready.len() % row_bytes;
            if whole == 0 {
                return Err(reader.cut_short());
            }
            let mut rows = ready[..whole].chunks_exact(row_bytes).map(|row| {
                let (words, _) = row.as_chunks::<4>();
                let number = |at: usize| words.get(at).map_or(0, |word| u32::from_le_bytes(*word));
                [number(0), number(1), number(2), number(3)]
            });
            take(&mut rows)?;
            reader.consume(whole);
        }
    }
}
