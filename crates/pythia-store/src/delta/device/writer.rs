//! Writes a run to the device.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pythia_io::Storage;
use pythia_io::bytes::ByteWriter;
use pythia_rdf::{TermId, TermKey};

use super::filter::{FilterBuilder, StoredFilter, members_max};
use super::terms::{MAP_NAME, RunTerms, RunTermsWriter};
use super::{DIRECTORY_NAME, MAGIC, VERSION};
use crate::StoreError;
use crate::hashes::{hash_of_edge, hash_of_node};
use crate::manifest::{ADDED, ManifestFile, REMOVED, RunEntry, RunId};
use crate::pattern::Order;
use crate::segment::{OrderDirectory, OrderWriter, SegmentOptions, SegmentWriter, TermsPlace};

/// A run being written into a folder that no manifest names yet. Orders and terms are independent of each other and
/// may be written from different threads.
#[derive(Debug)]
pub struct DeviceRunWriter {
    storage: Arc<dyn Storage>,
    id: RunId,
    /// `None` once they are sealed.
    segments: Option<[SegmentWriter; 2]>,
    sealed: bool,
}

impl DeviceRunWriter {
    /// Starts a run.
    pub fn new(storage: Arc<dyn Storage>, id: RunId, options: SegmentOptions) -> Self {
        let segment = |name| {
            let folder = format!("{}/{name}", id.folder());
            SegmentWriter::new(Arc::clone(&storage), folder, TermsPlace::Inside, options)
        };
        Self {
            segments: Some([segment(ADDED), segment(REMOVED)]),
            storage,
            id,
            sealed: false,
        }
    }

    fn segments(&self) -> &[SegmentWriter; 2] {
        self.segments.as_ref().expect("there until it is sealed")
    }

    /// Returns the writer of at most `terms_max` new terms; `first` has the payload of the first term of each kind in
    /// [`TermKind::DICTIONARY`](pythia_rdf::TermKind::DICTIONARY).
    pub fn terms(&self, first: &[u64], terms_max: u64) -> Result<RunTermsWriter, StoreError> {
        let [added, _] = self.segments();
        Ok(RunTermsWriter::new(added.dictionary(1)?, first, terms_max))
    }

    /// Returns the writer of one of the orders, whose rows begin with at most this many nodes and edges.
    pub fn order(&self, order: Order, nodes_max: u64) -> Result<RunOrderWriter, StoreError> {
        let [added, removed] = self.segments();
        let by_node = matches!(order, Order::Spo | Order::Ops);
        Ok(RunOrderWriter {
            added: added.order(order)?,
            removed: removed.order(order)?,
            nodes: by_node.then(|| FilterBuilder::new(nodes_max)),
            last: None,
        })
    }

    /// Ends a run that has terms and no quads, like [`Self::seal`].
    pub fn seal_terms(self, terms: RunTermsWriter) -> Result<RunEntry, StoreError> {
        let orders = Order::ALL.map(|order| self.order(order, 0)?.finish());
        let orders = orders.into_iter().collect::<Result<Vec<_>, _>>()?;
        self.seal(terms, orders)
    }

    /// Ends the run: on return all its files are durable, and are kept when this is dropped.
    ///
    /// # Panics
    /// If `orders` are not the orders of the same quads, or ids of terms are missing; GPSO may be missing.
    pub fn seal(
        mut self,
        terms: RunTermsWriter,
        orders: Vec<WrittenOrder>,
    ) -> Result<RunEntry, StoreError> {
        let folder = self.id.folder();
        let mut terms = terms.finish()?;
        let map = terms.write_map(&*self.storage, &folder)?;
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        let mut filters = Vec::new();
        for order in orders {
            added.push(order.added);
            removed.push(order.removed);
            filters.extend(order.nodes.map(|filter| (order.order, filter)));
        }
        filters.sort_unstable_by_key(|(order, _)| *order == Order::Ops);
        let mut out = ByteWriter::new();
        for (_, filter) in &filters {
            filter.write(&mut out);
        }
        RunTerms::encode(&terms.filter, map.as_ref(), &mut out);
        let bytes = out.framed(MAGIC, VERSION);
        let mut file = self.storage.create(&format!("{folder}/{DIRECTORY_NAME}"))?;
        file.append(&bytes)?;
        file.sync()?;
        let mut files = vec![ManifestFile {
            name: DIRECTORY_NAME.to_owned(),
            bytes: bytes.len() as u64,
        }];
        if map.is_some() {
            files.push(ManifestFile {
                name: MAP_NAME.to_owned(),
                bytes: self.storage.open(&format!("{folder}/{MAP_NAME}"))?.len(),
            });
        }
        let nothing = self.segments()[1].dictionary(1)?.finish()?;
        let [added_writer, removed_writer] = self.segments.take().expect("sealed once");
        let entry = RunEntry {
            id: self.id,
            added: added_writer.seal(Some(terms.dictionary), added)?.segment,
            removed: removed_writer.seal(Some(nothing), removed)?.segment,
            files,
            terms: terms.spans,
        };
        self.sealed = true;
        Ok(entry)
    }
}

impl Drop for DeviceRunWriter {
    fn drop(&mut self) {
        if !self.sealed {
            // Best effort: the next writer removes what remains.
            drop(self.segments.take());
            let _ = self.storage.remove(&self.id.folder());
        }
    }
}

/// ByteWriter of the signed rows of one order.
pub struct RunOrderWriter {
    added: OrderWriter,
    removed: OrderWriter,
    /// The nodes that the order is sorted by, in SPO and OPS.
    nodes: Option<FilterBuilder>,
    /// The last node and predicate that were added.
    last: Option<[u64; 2]>,
}

/// Adds the node and the edge that a row begins with to a filter.
pub(crate) fn add_edge(filter: &mut FilterBuilder, last: &mut Option<[u64; 2]>, edge: [u64; 2]) {
    let before = last.replace(edge);
    if before == Some(edge) {
        return;
    }
    let [node, predicate] = edge;
    if before.is_none_or(|before| before[0] != node) {
        filter.add(hash_of_node(node));
    }
    filter.add(hash_of_edge(node, predicate));
}

/// An order of a run, written.
pub struct WrittenOrder {
    order: Order,
    added: OrderDirectory,
    removed: OrderDirectory,
    nodes: Option<StoredFilter>,
}

impl RunOrderWriter {
    /// Adds a row of the order, as added or as removed. Rows come sorted, each once.
    #[inline]
    pub fn push(&mut self, row: [u64; 4], added: bool) -> Result<(), StoreError> {
        if let Some(nodes) = &mut self.nodes {
            add_edge(nodes, &mut self.last, [row[0], row[1]]);
        }
        match added {
            true => self.added.push(row),
            false => self.removed.push(row),
        }
    }

    /// Writes the rest; the order's files are durable on return.
    pub fn finish(self) -> Result<WrittenOrder, StoreError> {
        Ok(WrittenOrder {
            order: self.added.order(),
            added: self.added.finish()?,
            removed: self.removed.finish()?,
            nodes: self.nodes.map(FilterBuilder::finish),
        })
    }
}

/// A callback for a term of a run.
pub type EachTerm<'e> = &'e mut dyn FnMut(TermKey<'_>, TermId) -> Result<(), StoreError>;

/// Writes a run of changes on some threads: `rows` returns at most `rows_max` rows of an order, sorted, and `terms` passes on
/// the new terms with their ids, sorted by their keys.
pub fn write_run<R: Iterator<Item = Result<([u64; 4], bool), StoreError>>>(
    storage: Arc<dyn Storage>,
    id: RunId,
    options: SegmentOptions,
    (first, count, terms): (
        &[u64],
        u64,
        impl FnOnce(EachTerm<'_>) -> Result<(), StoreError>,
    ),
    (rows_max, rows): (u64, impl Fn(Order) -> Result<R, StoreError> + Sync),
    threads: usize,
) -> Result<RunEntry, StoreError> {
    let writer = DeviceRunWriter::new(storage, id, options);
    let mut out = writer.terms(first, count)?;
    terms(&mut |key, id| out.push(key, id))?;
    let write = |order: Order| {
        let mut out = writer.order(order, members_max(rows_max))?;
        for row in rows(order)? {
            let (row, added) = row?;
            out.push(row, added)?;
        }
        out.finish()
    };
    let next = AtomicUsize::new(0);
    let some_orders = || -> Result<Vec<WrittenOrder>, StoreError> {
        let mut written = Vec::new();
        while let Some(&order) = Order::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            written.push(write(order)?);
        }
        Ok(written)
    };
    let orders = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(some_orders)).collect();
        let mut orders = some_orders();
        for other in others {
            let theirs = other.join().unwrap_or_else(|panic| resume_unwind(panic));
            orders = orders.and_then(|mut orders| {
                orders.extend(theirs?);
                Ok(orders)
            });
        }
        orders
    })?;
    writer.seal(out, orders)
}
