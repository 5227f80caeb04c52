//! Building of the degrees of all nodes.

use pythia_io::bytes::ByteWriter;
use pythia_io::{PageWriter, Storage};

use super::stored_rows::StoredRows;
use crate::StoreError;
use crate::auxiliary::degrees::{Degrees, MAGIC, NO_PREDICATE, PAGE_BYTES, PAGES_NAME, VERSION};
use crate::pace::Pace;
use crate::pattern::End;
use crate::scan::DegreeScan;
use crate::segment::column::ColumnWriter;
use crate::snapshot::Snapshot;

/// Writes the paged file; returns the `directory` file.
pub(super) fn write(
    snapshot: &Snapshot,
    storage: &dyn Storage,
    folder: &str,
    pace: &Pace,
) -> Result<Vec<u8>, StoreError> {
    let file = storage.create(&format!("{folder}/{PAGES_NAME}"))?;
    let mut writer = ColumnWriter::new(PageWriter::new(file, PAGE_BYTES), PAGE_BYTES);
    rows(snapshot, &mut |[p, a, b, g]| {
        pace.step()?;
        writer.push(p, a, b, g)
    })?;
    let mut out = ByteWriter::new();
    writer.finish()?.write(&mut out);
    Ok(out.framed(MAGIC, VERSION))
}

/// Recounts and compares: for `pythia verify`. The first difference is an error.
pub(crate) fn verify(degrees: &Degrees, snapshot: &Snapshot) -> Result<(), StoreError> {
    let mut stored = StoredRows::new(degrees.columns());
    rows(snapshot, &mut |row| stored.expect(Some(row)))?;
    stored.expect(None)
}

/// Calls `f` with the rows of the file, in order.
fn rows(
    snapshot: &Snapshot,
    f: &mut dyn FnMut([u64; 4]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut out = DegreeScan::new(snapshot.base(), End::Subject);
    let mut into = DegreeScan::new(snapshot.base(), End::Object);
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
