//! A batch: what one worker parsed until its share of the memory was full, with its own sorted
//! vocabulary and its quads as ranks in it.
//!
//! Rank 0 of every vocabulary is the default graph. Rows hold `[subject rank, predicate position,
//! object rank]` and, only if the batch has a named graph, a graph position; positions are those in the
//! batch's sorted lists of predicates and graphs.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::LoadError;
use super::table::TermTable;
use super::temp::{Run, TempFile, TempSpace};
use super::vocabulary::{self, Vocabulary};

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

    /// How many quads there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> usize {
        // The graph column grows by doubling.
        self.count * 12 + self.graphs.capacity() * 4
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

    fn write(&self, file: &Arc<TempFile>) -> Result<Run, LoadError> {
        let mut out = file.run();
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
        out.finish()
    }
}

/// What [`Rows::renumber`] found out.
struct Renumbered {
    predicates: Vec<u32>,
    graphs: Vec<u32>,
    ends: [u32; 2],
}

/// A short list of terms in order, found by their ordinals.
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
        let mut sorted: Vec<u32> = by_ordinal.keys().map(|&ordinal| ranks[ordinal as usize]).collect();
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

/// A sealed batch's rows, wherever they are.
#[derive(Debug)]
pub(super) enum BatchRows {
    /// In memory.
    Memory(Rows),
    /// In a temporary file.
    Run(Run),
}

/// A sealed batch.
#[derive(Debug)]
pub(super) struct Batch {
    /// Its distinct terms.
    pub(super) vocabulary: Vocabulary,
    /// Its quads.
    pub(super) rows: BatchRows,
    /// How many quads.
    pub(super) row_count: usize,
    /// Ranks of its predicates, sorted.
    pub(super) predicates: Vec<u32>,
    /// Ranks of its graphs, sorted; empty if all quads are in the default graph.
    pub(super) graphs: Vec<u32>,
    /// The highest rank of a subject and of an object.
    pub(super) ends: [u32; 2],
}

/// Where a worker's batches are spilled.
#[derive(Debug)]
pub(super) struct BatchFiles {
    keys: Arc<TempFile>,
    rows: Arc<TempFile>,
}

impl BatchFiles {
    /// Two files for one worker.
    pub(super) fn new(space: &Arc<TempSpace>) -> Result<Self, LoadError> {
        Ok(Self {
            keys: space.file("terms")?,
            rows: space.file("quads")?,
        })
    }
}

impl Batch {
    /// Seals what `table` and `rows` hold and spills it; they are empty afterwards.
    pub(super) fn spill(
        table: &mut TermTable,
        rows: &mut Rows,
        files: &BatchFiles,
    ) -> Result<Self, LoadError> {
        let sorted = vocabulary::sort(table.arena(), table.len());
        let numbers = rows.renumber(&sorted.ranks);
        let run = vocabulary::write_run(table.arena(), &sorted.records, files.keys.run())?;
        let batch = Self {
            vocabulary: Vocabulary::Run {
                run,
                keys: sorted.records.len() as u32,
            },
            row_count: rows.len(),
            rows: BatchRows::Run(rows.write(&files.rows)?),
            predicates: numbers.predicates,
            graphs: numbers.graphs,
            ends: numbers.ends,
        };
        table.clear();
        rows.clear();
        Ok(batch)
    }

    /// Seals `table` and `rows` where they are.
    pub(super) fn keep(table: TermTable, mut rows: Rows) -> Self {
        let key_count = table.len();
        let arena = table.into_arena();
        let sorted = vocabulary::sort(&arena, key_count);
        let numbers = rows.renumber(&sorted.ranks);
        rows.spare = Vec::new();
        Self {
            vocabulary: Vocabulary::Memory {
                arena,
                records: sorted.records,
            },
            row_count: rows.len(),
            rows: BatchRows::Memory(rows),
            predicates: numbers.predicates,
            graphs: numbers.graphs,
            ends: numbers.ends,
        }
    }
}

impl BatchRows {
    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Memory(rows) => rows.bytes(),
            Self::Run(_) => 0,
        }
    }

    /// Hands out all rows, `[subject, predicate, object, graph]`, a block at a time, and frees them.
    pub(super) fn drain(
        self,
        has_graphs: bool,
        buffer_bytes: usize,
        mut take: impl FnMut(&mut dyn Iterator<Item = [u32; 4]>) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        match self {
            Self::Memory(rows) => {
                let mut graphs = rows.graphs.iter().copied().chain(std::iter::repeat(0));
                for block in rows.triples {
                    take(&mut block.iter().zip(&mut graphs).map(|(&[s, p, o], g)| [s, p, o, g]))?;
                }
            }
            Self::Run(run) => {
                let row_bytes = if has_graphs { 16 } else { 12 };
                let mut reader = run.reader(buffer_bytes);
                while !reader.is_at_end() {
                    let ready = reader.peek(row_bytes)?;
                    let whole = ready.len() - ready.len() % row_bytes;
                    let number = |row: &[u8], at: usize| {
                        row[4 * at..]
                            .first_chunk()
                            .map_or(0, |bytes| u32::from_le_bytes(*bytes))
                    };
                    take(&mut ready[..whole].chunks_exact(row_bytes).map(|row| {
                        [number(row, 0), number(row, 1), number(row, 2), number(row, 3)]
                    }))?;
                    if whole == 0 {
                        return Err(reader.cut_short());
                    }
                    reader.consume(whole);
                }
            }
        }
        Ok(())
    }
}
