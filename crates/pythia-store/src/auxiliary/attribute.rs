//! Cached attributes: the values of one predicate, stored beside the neighbours in adjacency lists, so that one read
//! returns an edge and the attribute of the node at its other end.
//!
//! For each end there is a column file like PSO and POS, but with the attribute's value in the place of the graph:
//! rows (edge's predicate, node, neighbour, value), one for each value of the neighbour, and none if it has none.
//! This is exactly the join of the two patterns. All quads are of the default graph.

use std::sync::Arc;

use pythia_io::bytes::ByteReader;
use pythia_io::{BufferPool, PagedFile};
use pythia_rdf::TermId;

use crate::StoreError;
use crate::pattern::{End, Expansion, GraphFilter};
use crate::scan::append_list;
use crate::segment::column::{ColumnDirectory, ColumnFile};

/// The name of the file that is kept in memory.
pub(crate) const DIRECTORY_NAME: &str = "directory";
/// The names of the paged files, by subject and by object.
pub(crate) const PAGES_NAMES: [&str; 2] = ["subjects.pages", "objects.pages"];
/// The names of all its files.
pub(crate) const FILE_NAMES: [&str; 3] = [DIRECTORY_NAME, PAGES_NAMES[0], PAGES_NAMES[1]];
pub(crate) const ENDS: [End; 2] = [End::Subject, End::Object];
/// One read answers one list, so pages are no larger than a cheap read.
pub(crate) const PAGE_BYTES: usize = 4096;
pub(crate) const MAGIC: &[u8; 8] = b"pythiaat";
pub(crate) const VERSION: u32 = 1;
/// The values of one predicate beside neighbours. Clones share them.
#[derive(Clone)]
pub struct Attribute {
    predicate: TermId,
    /// The predicates of edges, sorted; empty: all.
    along: Arc<[TermId]>,
    columns: Arc<[ColumnFile; 2]>,
}

impl Attribute {
    /// Opens the files in a folder: reads their directory.
    pub(super) fn open(pool: &Arc<BufferPool>, folder: &str) -> Result<Self, StoreError> {
        let name = format!("{folder}/{DIRECTORY_NAME}");
        let bytes = pool.storage().read_all(&name)?;
        let (_, mut input) = ByteReader::framed(&name, &bytes, MAGIC, VERSION..=VERSION)?;
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

    /// Returns the column file by an end.
    pub(crate) fn columns(&self, end: End) -> &ColumnFile {
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
}
