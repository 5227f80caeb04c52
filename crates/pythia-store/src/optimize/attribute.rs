//! Building of cached attributes.

use pythia_io::bytes::ByteWriter;
use pythia_io::{PageWriter, Storage};
use pythia_rdf::TermId;

use super::stored_rows::StoredRows;
use crate::StoreError;
use crate::auxiliary::attribute::{Attribute, ENDS, MAGIC, PAGE_BYTES, PAGES_NAMES, VERSION};
use crate::pace::Pace;
use crate::pattern::{Component, End, GraphFilter, IdBatch, Order, QuadPattern};
use crate::segment::column::ColumnWriter;
use crate::snapshot::Snapshot;

/// Bytes of a value in memory while building.
const VALUE_BYTES: u64 = 16;

/// ByteWriter of the paged files of an attribute.
pub(super) struct AttributeWriter<'s> {
    pub(super) snapshot: &'s Snapshot,
    pub(super) storage: &'s dyn Storage,
    pub(super) folder: &'s str,
    pub(super) memory_bytes: usize,
    pub(super) pace: &'s Pace,
}

impl AttributeWriter<'_> {
    /// Writes the paged files; returns the `directory` file.
    pub(super) fn write(&self, predicate: TermId, along: &[TermId]) -> Result<Vec<u8>, StoreError> {
        let values = Values::read(self.snapshot, predicate, self.memory_bytes, self.pace)?;
        let mut out = ByteWriter::new();
        out.varint(predicate.0);
        out.varint(along.len() as u64);
        along.iter().for_each(|along| out.varint(along.0));
        for (end, name) in ENDS.into_iter().zip(PAGES_NAMES) {
            let file = self.storage.create(&format!("{}/{name}", self.folder))?;
            let mut writer = ColumnWriter::new(PageWriter::new(file, PAGE_BYTES), PAGE_BYTES);
            rows(self.snapshot, &values, along, end, &mut |[p, a, b, v]| {
                self.pace.step()?;
                writer.push(p, a, b, v)
            })?;
            writer.finish()?.write(&mut out);
        }
        Ok(out.framed(MAGIC, VERSION))
    }
}

/// Recomputes the rows and compares them: for `pythia verify`. The first difference is an error.
pub(crate) fn verify(attribute: &Attribute, snapshot: &Snapshot) -> Result<(), StoreError> {
    let values = Values::read(
        snapshot,
        attribute.predicate(),
        usize::MAX,
        &Pace::default(),
    )?;
    for end in ENDS {
        let mut stored = StoredRows::new(attribute.columns(end));
        let compare = &mut |row| stored.expect(Some(row));
        rows(snapshot, &values, attribute.along(), end, compare)?;
        stored.expect(None)?;
    }
    Ok(())
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
        pace: &Pace,
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
            pace.step()?;
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
