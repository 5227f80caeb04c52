//! The degrees of all nodes: the numbers of outgoing and incoming edges, many nodes to a page.
//!
//! A column file of rows (0, node, edges out, edges in), one for each subject and object; edges are quads, of all
//! graphs.

use std::sync::Arc;

use pythia_io::{BufferPool, PageWriter, PagedFile, Storage};
use pythia_rdf::TermId;

use super::stored_rows::StoredRows;
use crate::StoreError;
use crate::codec::{Reader, Writer};
use crate::degree::DegreeScan;
use crate::pattern::End;
use crate::segment::column::{Column, ColumnDirectory, ColumnFile, ColumnWriter};
use crate::snapshot::Snapshot;

/// The name of the file that is kept in memory.
pub(super) const DIRECTORY_NAME: &str = "directory";
/// The name of the paged file.
pub(super) const PAGES_NAME: &str = "degrees.pages";
const PAGE_BYTES: usize = 4096;
const MAGIC: &[u8; 8] = b"pythiade";
const VERSION: u32 = 1;
/// The value in the place of the predicate.
const NO_PREDICATE: u64 = 0;

/// The degrees of all nodes. Clones share them.
#[derive(Clone)]
pub struct Degrees {
    columns: Arc<ColumnFile>,
}

/// Writes the paged file; returns the `directory` file.
pub(super) fn write(
    snapshot: &Snapshot,
    storage: &dyn Storage,
    folder: &str,
) -> Result<Vec<u8>, StoreError> {
    let file = storage.create(&format!("{folder}/{PAGES_NAME}"))?;
    let mut writer = ColumnWriter::new(PageWriter::new(file, PAGE_BYTES), PAGE_BYTES);
    rows(snapshot, &mut |[p, a, b, g]| writer.push(p, a, b, g))?;
    let mut out = Writer::new();
    writer.finish()?.write(&mut out);
    Ok(out.framed(MAGIC, VERSION))
}

impl Degrees {
    /// Opens the files in a folder: reads their directory.
    pub(super) fn open(pool: &Arc<BufferPool>, folder: &str) -> Result<Self, StoreError> {
        let name = format!("{folder}/{DIRECTORY_NAME}");
        let bytes = pool.storage().read_all(&name)?;
        let (_, mut input) = Reader::framed(&name, &bytes, MAGIC, VERSION..=VERSION)?;
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

    /// Returns the pages.
    pub(crate) fn file(&self) -> &PagedFile {
        self.columns.file()
    }

    /// Returns the approximate memory of the directory.
    pub fn memory_bytes(&self) -> usize {
        self.columns.directory().memory_bytes()
    }

    /// Recounts and compares: for `pythia verify`. The first difference is an error.
    pub(crate) fn verify(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let mut stored = StoredRows::new(&self.columns);
        rows(snapshot, &mut |row| stored.expect(Some(row)))?;
        stored.expect(None)
    }
}

/// Calls `f` with the rows of the file, in order.
fn rows(
    snapshot: &Snapshot,
    f: &mut dyn FnMut([u64; 4]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut out = DegreeScan::new(snapshot, End::Subject);
    let mut into = DegreeScan::new(snapshot, End::Object);
    let (mut subject, mut object) = (out.next()?, into.next()?);
    loop {
        let nodes = [subject, object].into_iter().flatten();
        let Some(node) = nodes.map(|(node, _)| node).min() else {
            return Ok(());
        };
        let mut degrees = [0; 2];
        if let Some((_, degree)) = subject.filter(|found| found.0 == node) {
            degrees[0] = degree;
            subject = out.next()?;
        }
        if let Some((_, degree)) = object.filter(|found| found.0 == node) {
            degrees[1] = degree;
            object = into.next()?;
        }
        f([NO_PREDICATE, node, degrees[0], degrees[1]])?;
    }
}
