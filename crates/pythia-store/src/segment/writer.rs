//! Writes a new segment and makes it the store.
//!
//! A [`SegmentWriter`] gives one writer for the dictionary and one for each order; they are
//! independent of each other and may be driven from different threads. [`SegmentWriter::seal`] then
//! writes the `directory` file and switches the manifest. Until that one step the store is what it
//! was before; a writer that is dropped instead removes its folder, and what a killed process has
//! left is removed by the next writer.

use std::sync::Arc;

use pythia_io::{PageWriter, Storage};

use super::column::{ColumnDirectory, ColumnWriter};
use super::sealed::{self, DICTIONARY_NAME, DIRECTORY_NAME, SegmentDirectory};
use super::tuple::{ExternalPolicy, PageSink, TupleDirectory, TupleWriter};
use crate::StoreError;
use crate::characteristic::{CharacteristicCounter, CharacteristicSets};
use crate::device;
use crate::dictionary::{DictionaryDirectory, DictionaryWriter};
use crate::manifest::{FORMAT_VERSION, Manifest, ManifestFile, SegmentId};
use crate::pattern::Order;
use crate::statistics::{GraphCounter, GraphStatistics, Statistics};
use crate::store::LOCK_NAME;

/// Sizes of a segment's pages, in bytes: powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentOptions {
    /// SPO and OPS pages, from 4 KiB: what one hop reads.
    pub tuple_page_bytes: usize,
    /// PSO and POS pages, 4 to 64 KiB: what a scan reads.
    pub column_page_bytes: usize,
    /// Dictionary pages, 4 to 64 KiB: what decoding a term reads.
    pub dictionary_page_bytes: usize,
}

impl Default for SegmentOptions {
    fn default() -> Self {
        Self {
            tuple_page_bytes: 4 << 10,
            column_page_bytes: 16 << 10,
            dictionary_page_bytes: crate::dictionary::PAGE_BYTES_DEFAULT,
        }
    }
}

/// A file that is there while a segment is being written. Where it is found without a manifest,
/// an interrupted load left what is there; anything else in the folder is not ours to remove.
const LOADING_NAME: &str = "LOADING";

/// Fails if there are files that no interrupted load has left.
fn refuse_foreign_files(storage: &dyn Storage) -> Result<(), StoreError> {
    let names = storage.list("")?;
    if names.iter().any(|name| name == LOADING_NAME) {
        return Ok(());
    }
    match names
        .into_iter()
        .find(|name| name != LOCK_NAME && name != "lost+found" && !device::is_ours(name))
    {
        Some(name) => Err(StoreError::ForeignFiles { name }),
        None => Ok(()),
    }
}

/// A segment being written.
#[derive(Debug)]
pub struct SegmentWriter {
    storage: Arc<dyn Storage>,
    options: SegmentOptions,
    id: SegmentId,
    sealed: bool,
}

impl SegmentWriter {
    /// Starts a segment in a storage that holds no store or an empty one, and removes what
    /// interrupted writers have left there. The caller holds the store's lock.
    pub fn create(storage: Arc<dyn Storage>, options: SegmentOptions) -> Result<Self, StoreError> {
        let current = Manifest::read(&*storage)?;
        if let Some(manifest) = &current
            && manifest.quads > 0
        {
            return Err(StoreError::NotEmpty {
                quads: manifest.quads,
            });
        }
        if current.is_none() {
            refuse_foreign_files(&*storage)?;
        }
        storage.create(LOADING_NAME)?.sync()?;
        Manifest::remove_leftovers(current.as_ref(), &*storage)?;
        let number = current.map_or(1, |manifest| manifest.segment.0 + 1);
        Ok(Self {
            storage,
            options,
            id: SegmentId(number),
            sealed: false,
        })
    }

    /// The segment's number.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    fn pages(&self, name: &str, page_bytes: usize) -> Result<PageWriter, StoreError> {
        let name = format!("{}/{name}", self.id.folder());
        Ok(PageWriter::new(self.storage.create(&name)?, page_bytes))
    }

    /// The writer of the dictionary.
    pub fn dictionary(&self) -> Result<DictionaryWriter, StoreError> {
        DictionaryWriter::new(self.pages(DICTIONARY_NAME, self.options.dictionary_page_bytes)?)
    }

    /// The writer of one of the orders.
    pub fn order(&self, order: Order) -> Result<OrderWriter, StoreError> {
        let name = sealed::order_file_name(order);
        let kind = match order {
            Order::Spo | Order::Ops => {
                let page_bytes = self.options.tuple_page_bytes;
                let pages = TuplePages(self.pages(&name, page_bytes)?);
                let policy = ExternalPolicy::for_page(page_bytes);
                OrderKind::Tuples(TupleWriter::new(pages, page_bytes, policy))
            }
            Order::Pso | Order::Pos => {
                let page_bytes = self.options.column_page_bytes;
                let pages = self.pages(&name, page_bytes)?;
                OrderKind::Columns(ColumnWriter::new(pages, page_bytes))
            }
        };
        Ok(OrderWriter {
            order,
            kind,
            graphs: (order == Order::Pso).then(GraphCounter::default),
            characteristic: (order == Order::Spo).then(CharacteristicCounter::default),
        })
    }

    /// Makes the segment the store: on return it is durable and visible, on error or after a crash
    /// the store is what it was.
    ///
    /// # Panics
    /// If `orders` are not the four orders of the same quads.
    pub fn seal(
        mut self,
        dictionary: DictionaryDirectory,
        orders: Vec<OrderDirectory>,
    ) -> Result<SegmentId, StoreError> {
        let directory = assemble(dictionary, orders);
        let quads = directory.statistics.quads;
        let folder = self.id.folder();
        let mut file = self.storage.create(&format!("{folder}/{DIRECTORY_NAME}"))?;
        file.append(&directory.to_bytes())?;
        file.sync()?;
        let mut files = Vec::new();
        for name in sealed::file_names() {
            let bytes = self.storage.open(&format!("{folder}/{name}"))?.len();
            files.push(ManifestFile { name, bytes });
        }
        let manifest = Manifest {
            format: FORMAT_VERSION,
            segment: self.id,
            quads,
            files,
            auxiliary: Vec::new(),
        };
        manifest.switch(&*self.storage)?;
        self.sealed = true;
        // Beside a manifest the marker says nothing, so it may stay if this fails.
        let _ = self.storage.remove(LOADING_NAME);
        // The empty segment that this one replaces; the next writer tries again if this fails.
        let _ = Manifest::remove_leftovers(Some(&manifest), &*self.storage);
        Ok(self.id)
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if !self.sealed {
            // Best effort: the next writer removes what is still there.
            let _ = self.storage.remove(&self.id.folder());
            let _ = self.storage.remove(LOADING_NAME);
        }
    }
}

/// Puts a segment's directory together.
fn assemble(dictionary: DictionaryDirectory, orders: Vec<OrderDirectory>) -> SegmentDirectory {
    let (mut tuples, mut columns) = ([None, None], [None, None]);
    let (mut graph_counts, mut characteristic_sets) = (None, None);
    for OrderDirectory { order, kind } in orders {
        let second = usize::from(matches!(order, Order::Ops | Order::Pos));
        match kind {
            DirectoryKind::Tuples(directory, characteristic) => {
                tuples[second] = Some(directory);
                characteristic_sets = characteristic.or(characteristic_sets);
            }
            DirectoryKind::Columns(directory, graphs) => {
                columns[second] = Some(directory);
                graph_counts = graphs.or(graph_counts);
            }
        }
    }
    let ([Some(spo), Some(ops)], [Some(pso), Some(pos)]) = (tuples, columns) else {
        panic!("a segment is sealed with all four orders");
    };
    let counts = [spo.statistics.rows, ops.statistics.rows, pso.rows, pos.rows];
    assert!(
        counts.iter().all(|&count| count == pso.rows),
        "the orders hold the same quads, not {counts:?}"
    );
    let graphs = graph_counts.unwrap_or_default();
    let statistics = Statistics::assemble(
        &spo.statistics,
        &ops.statistics,
        &pso,
        &pos,
        graphs,
        characteristic_sets.unwrap_or_default(),
    );
    SegmentDirectory {
        statistics,
        dictionary,
        spo,
        ops,
        pso,
        pos,
    }
}

/// Writes the quads in one order.
pub struct OrderWriter {
    order: Order,
    kind: OrderKind,
    graphs: Option<GraphCounter>,
    characteristic: Option<CharacteristicCounter>,
}

enum OrderKind {
    Tuples(TupleWriter<TuplePages>),
    Columns(ColumnWriter),
}

/// What one order leaves in memory; for [`SegmentWriter::seal`].
#[derive(Debug)]
pub struct OrderDirectory {
    order: Order,
    kind: DirectoryKind,
}

#[derive(Debug)]
enum DirectoryKind {
    /// With SPO, the characteristic sets.
    Tuples(TupleDirectory, Option<CharacteristicSets>),
    /// With PSO, the quads per graph.
    Columns(ColumnDirectory, Option<GraphStatistics>),
}

impl OrderWriter {
    /// The order.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Adds a quad: its components as the order has them ([`Order::components`]), raw
    /// [`TermId`](pythia_rdf::TermId) bits. Quads come sorted, each once.
    ///
    /// # Panics
    /// If they are seen to be out of order.
    #[inline]
    pub fn push(&mut self, [first, second, third, graph]: [u64; 4]) -> Result<(), StoreError> {
        if let Some(graphs) = &mut self.graphs {
            graphs.count(graph);
        }
        if let Some(characteristic) = &mut self.characteristic {
            characteristic.count(first, second);
        }
        match &mut self.kind {
            OrderKind::Tuples(writer) => writer.push(first, second, third, graph),
            OrderKind::Columns(writer) => writer.push(first, second, third, graph),
        }
    }

    /// Writes the rest; the order's file is durable on return.
    pub fn finish(self) -> Result<OrderDirectory, StoreError> {
        let kind = match self.kind {
            OrderKind::Tuples(writer) => {
                let (pages, directory) = writer.finish()?;
                pages.0.finish()?;
                let characteristic = self.characteristic.map(CharacteristicCounter::finish);
                DirectoryKind::Tuples(directory, characteristic)
            }
            OrderKind::Columns(writer) => {
                let graphs = self.graphs.map(GraphCounter::finish);
                DirectoryKind::Columns(writer.finish()?, graphs)
            }
        };
        Ok(OrderDirectory {
            order: self.order,
            kind,
        })
    }
}

struct TuplePages(PageWriter);

impl PageSink for TuplePages {
    fn push_page(&mut self, page: &mut [u8]) -> Result<u64, StoreError> {
        Ok(self.0.push(page)?)
    }
}
