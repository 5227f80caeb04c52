//! Cached attributes: the values of one predicate, stored beside the neighbours in adjacency lists, so that one read
//! returns an edge and the attribute of the node at its other end.
//!
//! For each end there is a column file like PSO and POS, but with the attribute's value in the place of the graph:
//! rows (edge's predicate, node, neighbour, value), one for each value of the neighbour, and none if it has none.
//! This is exactly the join of the two patterns. All quads are of the default graph.

use std::sync::Arc;

use pythia_io::{BufferPool, PageWriter, PagedFile, Storage};
use pythia_rdf::TermId;

use super::stored_rows::StoredRows;
use crate::StoreError;
use crate::codec::{Reader, Writer};
use crate::pattern::{Component, End, Expansion, GraphFilter, IdBatch, Order, QuadPattern};
use crate::segment::column::{ColumnDirectory, ColumnFile, ColumnWriter};
use crate::snapshot::{Snapshot, append_list};

/// The name of the file that is kept in memory.
pub(super) const DIRECTORY_NAME: &str = "directory";
/// The names of the paged files, by subject and by object.
pub(super) const PAGES_NAMES: [&str; 2] = ["subjects.pages", "objects.pages"];
/// The names of all its files.
pub(super) const FILE_NAMES: [&str; 3] = [DIRECTORY_NAME, PAGES_NAMES[0], PAGES_NAMES[1]];
const ENDS: [End; 2] = [End::Subject, End::Object];
/// One read answers one list, so pages are no larger than a cheap read.
const PAGE_BYTES: usize = 4096;
const MAGIC: &[u8; 8] = b"pythiaat";
const VERSION: u32 = 1;
/// Bytes of a value in memory while building.
const VALUE_BYTES: u64 = 16;

/// The values of one predicate beside neighbours. Clones share them.
#[derive(Clone)]
pub struct Attribute {
    predicate: TermId,
    /// The predicates of edges, sorted; empty: all.
    along: Arc<[TermId]>,
    columns: Arc<[ColumnFile; 2]>,
}

/// Writer of the paged files of an attribute.
pub(super) struct AttributeWriter<'s> {
    pub(super) snapshot: &'s Snapshot,
    pub(super) storage: &'s dyn Storage,
    pub(super) folder: &'s str,
    pub(super) memory_bytes: usize,
}

impl AttributeWriter<'_> {
    /// Writes the paged files; returns the `directory` file.
    pub(super) fn write(&self, predicate: TermId, along: &[TermId]) -> Result<Vec<u8>, StoreError> {
        let values = Values::read(self.snapshot, predicate, self.memory_bytes)?;
        let mut out = Writer::new();
        out.varint(predicate.0);
        out.varint(along.len() as u64);
        along.iter().for_each(|along| out.varint(along.0));
        for (end, name) in ENDS.into_iter().zip(PAGES_NAMES) {
            let file = self.storage.create(&format!("{}/{name}", self.folder))?;
            let mut writer = ColumnWriter::new(PageWriter::new(file, PAGE_BYTES), PAGE_BYTES);
            rows(self.snapshot, &values, along, end, &mut |[p, a, b, v]| {
                writer.push(p, a, b, v)
            })?;
            writer.finish()?.write(&mut out);
        }
        Ok(out.framed(MAGIC, VERSION))
    }
}

impl Attribute {
    /// Opens the files in a folder: reads their directory.
    pub(super) fn open(pool: &Arc<BufferPool>, folder: &str) -> Result<Self, StoreError> {
        let name = format!("{folder}/{DIRECTORY_NAME}");
        let bytes = pool.storage().read_all(&name)?;
        let (_, mut input) = Reader::framed(&name, &bytes, MAGIC, VERSION..=VERSION)?;
        let predicate = TermId(input.varint()?);
        let count = input.count(1)?;
        let along: Result<Vec<TermId>, _> =
            (0..count).map(|_| input.varint().map(TermId)).collect();
        let along = along?;
        if !along.is_sorted() {
            return Err(input.corrupt("predicates in order"));
        }
        let mut column = |pages: &str| -> Result<ColumnFile, StoreError> {
            let directory = ColumnDirectory::read(&mut input)?;
            let name = format!("{folder}/{pages}");
            let file = pool.open(&name, directory.page_bytes, "attribute")?;
            ColumnFile::new(file, directory)
        };
        let columns = Arc::new([column(PAGES_NAMES[0])?, column(PAGES_NAMES[1])?]);
        input.finish()?;
        Ok(Self {
            predicate,
            along: along.into(),
            columns,
        })
    }

    /// Returns the predicate of the values.
    pub fn predicate(&self) -> TermId {
        self.predicate
    }

    /// Returns the predicates whose edges have the values beside them; all if it is empty.
    pub fn along(&self) -> &[TermId] {
        &self.along
    }

    /// Returns whether values are stored beside the edges of a predicate.
    pub fn is_along(&self, predicate: TermId) -> bool {
        self.along.is_empty() || self.along.binary_search(&predicate).is_ok()
    }

    /// Appends to `out` the edges with `predicate` of `nodes` (sorted, distinct), in order of node, other end and
    /// value; the values of the nodes at the other ends take the place of graphs. Reads the pages of all lists as one
    /// batch.
    pub fn expand(
        &self,
        end: End,
        nodes: &[TermId],
        predicate: TermId,
        value: GraphFilter,
        out: &mut Expansion,
    ) -> Result<(), StoreError> {
        let keys: Vec<[u64; 2]> = nodes.iter().map(|node| [predicate.0, node.0]).collect();
        self.columns(end).lists(&keys, |index, page, rows| {
            append_list(
                page,
                rows,
                value,
                out.with_graph,
                &mut out.other,
                &mut out.graph,
            )?;
            out.source.resize(out.other.len(), index as u32);
            if out.with_predicate {
                out.predicate.resize(out.other.len(), predicate.0);
            }
            Ok(())
        })
    }

    fn columns(&self, end: End) -> &ColumnFile {
        match end {
            End::Subject => &self.columns[0],
            End::Object => &self.columns[1],
        }
    }

    /// Returns the pages.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PagedFile> {
        self.columns.iter().map(ColumnFile::file)
    }

    /// Returns the approximate memory of the directory.
    pub fn memory_bytes(&self) -> usize {
        let columns = self.columns.iter();
        columns.map(|file| file.directory().memory_bytes()).sum()
    }

    /// Recomputes the rows and compares them: for `pythia verify`. The first difference is an error.
    pub(crate) fn verify(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let values = Values::read(snapshot, self.predicate, usize::MAX)?;
        for end in ENDS {
            let mut stored = StoredRows::new(self.columns(end));
            let compare = &mut |row| stored.expect(Some(row));
            rows(snapshot, &values, &self.along, end, compare)?;
            stored.expect(None)?;
        }
        Ok(())
    }
}

/// Calls `f` with the rows of a file by end, in order.
fn rows(
    snapshot: &Snapshot,
    values: &Values,
    along: &[TermId],
    end: End,
    f: &mut dyn FnMut([u64; 4]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let all = snapshot.statistics().predicates.iter();
    let all: Vec<TermId> = all.map(|counts| counts.predicate).collect();
    let (order, near, far) = match end {
        End::Subject => (Order::Pso, Component::Subject, Component::Object),
        End::Object => (Order::Pos, Component::Object, Component::Subject),
    };
    for &predicate in if along.is_empty() { &all[..] } else { along } {
        let mut edges = snapshot.scan(&default_graph(predicate), order, &[near, far])?;
        let mut batch = IdBatch::default();
        while edges.next_into(&mut batch)? {
            for (&node, &neighbour) in batch.columns[0].iter().zip(&batch.columns[1]) {
                for value in values.of(neighbour) {
                    f([predicate.0, node, neighbour, value])?;
                }
            }
        }
    }
    Ok(())
}

fn default_graph(predicate: TermId) -> QuadPattern {
    QuadPattern {
        predicate: Some(predicate),
        graph: GraphFilter::One(TermId::DEFAULT_GRAPH),
        ..QuadPattern::default()
    }
}

/// All values of a predicate, by node.
struct Values {
    /// (node, value), sorted.
    pairs: Vec<(u64, u64)>,
}

impl Values {
    fn read(
        snapshot: &Snapshot,
        predicate: TermId,
        memory_bytes: usize,
    ) -> Result<Self, StoreError> {
        let count = snapshot.count(&default_graph(predicate))?;
        let needed_bytes = count * VALUE_BYTES;
        if needed_bytes > memory_bytes as u64 {
            return Err(StoreError::MemoryTooSmall {
                what: "caching an attribute",
                needed_bytes,
                given_bytes: memory_bytes as u64,
            });
        }
        let mut pairs = Vec::with_capacity(count as usize);
        let wanted = [Component::Subject, Component::Object];
        let mut scan = snapshot.scan(&default_graph(predicate), Order::Pso, &wanted)?;
        let mut batch = IdBatch::default();
        while scan.next_into(&mut batch)? {
            let nodes = batch.columns[0].iter().copied();
            pairs.extend(nodes.zip(batch.columns[1].iter().copied()));
        }
        Ok(Self { pairs })
    }

    fn of(&self, node: u64) -> impl Iterator<Item = u64> {
        let first = self.pairs.partition_point(|pair| pair.0 < node);
        let own = self.pairs[first..].iter();
        own.take_while(move |pair| pair.0 == node)
            .map(|pair| pair.1)
    }
}
