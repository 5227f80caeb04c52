//! The degrees of all nodes: the numbers of outgoing and incoming edges, many nodes to a page.
//!
//! A column file of rows (0, node, edges out, edges in), one for each subject and object; edges are quads, of all
//! graphs.

use std::sync::Arc;

use pythia_io::bytes::ByteReader;
use pythia_io::{BufferPool, PagedFile};
use pythia_rdf::TermId;

use crate::StoreError;
use crate::pattern::End;
use crate::segment::column::{Column, ColumnDirectory, ColumnFile};

/// The name of the file that is kept in memory.
pub(crate) const DIRECTORY_NAME: &str = "directory";
/// The name of the paged file.
pub(crate) const PAGES_NAME: &str = "degrees.pages";
pub(crate) const PAGE_BYTES: usize = 4096;
pub(crate) const MAGIC: &[u8; 8] = b"pythiade";
pub(crate) const VERSION: u32 = 1;
/// The value in the place of the predicate.
pub(crate) const NO_PREDICATE: u64 = 0;

/// The degrees of all nodes. Clones share them.
#[derive(Clone)]
pub struct Degrees {
    columns: Arc<ColumnFile>,
}

impl Degrees {
    /// Opens the files in a folder: reads their directory.
    pub(super) fn open(pool: &Arc<BufferPool>, folder: &str) -> Result<Self, StoreError> {
        let name = format!("{folder}/{DIRECTORY_NAME}");
        let bytes = pool.storage().read_all(&name)?;
        let (_, mut input) = ByteReader::framed(&name, &bytes, MAGIC, VERSION..=VERSION)?;
        let directory = ColumnDirectory::read(&mut input)?;
        input.finish()?;
        let name = format!("{folder}/{PAGES_NAME}");
        let file = pool.open(&name, directory.page_bytes, "degrees")?;
        let columns = Arc::new(ColumnFile::new(file, directory)?);
        Ok(Self { columns })
    }

    /// Returns the numbers of edges of nodes (sorted, distinct) at an end: out of subjects, into objects. Reads all
    /// pages as one batch.
    pub(crate) fn of(&self, end: End, nodes: &[TermId]) -> Result<Vec<u64>, StoreError> {
        let column = match end {
            End::Subject => Column::B,
            End::Object => Column::G,
        };
        let keys: Vec<[u64; 2]> = nodes.iter().map(|node| [NO_PREDICATE, node.0]).collect();
        let mut degrees = vec![0; nodes.len()];
        let mut found = Vec::new();
        self.columns.lists(&keys, |index, page, rows| {
            found.clear();
            page.values(column, rows, &mut found)?;
            degrees[index] = found.first().copied().unwrap_or(0);
            Ok(())
        })?;
        Ok(degrees)
    }

    /// Returns the column file.
    pub(crate) fn columns(&self) -> &ColumnFile {
        &self.columns
    }

    /// Returns the pages.
    pub(crate) fn file(&self) -> &PagedFile {
        self.columns.file()
    }

    /// Returns the approximate memory of the directory.
    pub fn memory_bytes(&self) -> usize {
        self.columns.directory().memory_bytes()
    }
}
