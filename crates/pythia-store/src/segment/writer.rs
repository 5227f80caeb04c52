//! Writing of a new segment.
//!
//! A [`SegmentWriter`] provides one writer for the dictionary and one for each order; they are independent of each
//! other and may run on different threads. [`SegmentWriter::seal`] then writes the `directory` file. The segment's
//! folder is unnamed until the caller's manifest names it; dropping an unsealed writer removes the folder, unless its
//! owner keeps it.
//!
//! The dictionary of a base has a folder of its own, as it outlives the segment ([`TermsPlace`]).

use std::sync::Arc;

use pythia_io::bytes::{ByteReader, ByteWriter};
use pythia_io::{PageWriter, Storage};

use super::column::{ColumnDirectory, ColumnWriter};
use super::sealed::{self, DICTIONARY_NAME, DIRECTORY_NAME, SegmentDirectory};
use super::tuple::{ExternalPolicy, PageSink, TupleDirectory, TupleWriter};
use crate::StoreError;
use crate::characteristic::{CharacteristicCounter, CharacteristicSets};
use crate::dictionary::{DictionaryDirectory, DictionaryWriter};
use crate::manifest::{DictionaryEntry, DictionaryId, ManifestFile, SegmentEntry};
use crate::pattern::Order;
use crate::statistics::{GraphCounter, GraphStatistics, Statistics};

/// Sizes of a segment's pages, in bytes: powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentOptions {
    /// SPO and OPS pages, from 4 KiB: the unit of a hop.
    pub tuple_page_bytes: usize,
    /// PSO and POS pages, 4 to 64 KiB: the unit of a scan.
    pub column_page_bytes: usize,
    /// Dictionary pages, 4 to 64 KiB: the unit of decoding a term.
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

/// The place of a segment's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermsPlace {
    /// The segment's own folder: the terms of a run.
    Inside,
    /// A folder of their own.
    Beside(DictionaryId),
    /// They exist already: the segment has the ids of another.
    Existing,
}

/// Bytes of a page of GPSO: most reads are of one small graph.
const GRAPH_PAGE_BYTES: usize = 4 << 10;

/// A segment being written into a folder that no manifest names yet.
#[derive(Debug)]
pub struct SegmentWriter {
    storage: Arc<dyn Storage>,
    options: SegmentOptions,
    folder: String,
    terms: TermsPlace,
    /// True if the folders stay when this is dropped.
    stays: bool,
}

/// A segment whose files are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSegment {
    /// Its quads and the files in its folder.
    pub segment: SegmentEntry,
    /// Its dictionary, if that has a folder of its own and was written with it.
    pub dictionary: Option<DictionaryEntry>,
}

impl SegmentWriter {
    /// Starts a segment in a folder of its own.
    pub fn new(
        storage: Arc<dyn Storage>,
        folder: String,
        terms: TermsPlace,
        options: SegmentOptions,
    ) -> Self {
        Self {
            storage,
            options,
            folder,
            terms,
            stays: false,
        }
    }

    /// Starts or continues a segment in folders that stay in any case.
    pub(crate) fn kept(
        storage: Arc<dyn Storage>,
        folder: String,
        terms: TermsPlace,
        options: SegmentOptions,
    ) -> Self {
        let mut writer = Self::new(storage, folder, terms, options);
        writer.stays = true;
        writer
    }

    fn pages(&self, folder: &str, name: &str, page_bytes: usize) -> Result<PageWriter, StoreError> {
        let file = self.storage.create(&format!("{folder}/{name}"))?;
        Ok(PageWriter::new(file, page_bytes))
    }

    /// Returns the writer of the dictionary, which compresses keys on up to `threads` threads.
    ///
    /// # Panics
    /// If the segment has the ids of another.
    pub fn dictionary(&self, threads: usize) -> Result<DictionaryWriter, StoreError> {
        let page_bytes = self.options.dictionary_page_bytes;
        // A run keeps a filter of its terms in memory.
        let (folder, filters) = match self.terms {
            TermsPlace::Inside => (self.folder.clone(), false),
            TermsPlace::Beside(id) => (id.folder(), true),
            TermsPlace::Existing => panic!("a segment with the ids of another has no dictionary"),
        };
        let pages = self.pages(&folder, DICTIONARY_NAME, page_bytes)?;
        DictionaryWriter::new(pages, threads, filters)
    }

    /// Returns the writer of one of the orders.
    pub fn order(&self, order: Order) -> Result<OrderWriter, StoreError> {
        let name = sealed::order_file_name(order);
        let kind = match order {
            Order::Spo | Order::Ops => {
                let page_bytes = self.options.tuple_page_bytes;
                let pages = TuplePages(self.pages(&self.folder, &name, page_bytes)?);
                let policy = ExternalPolicy::for_page(page_bytes);
                OrderKind::Tuples(TupleWriter::new(pages, page_bytes, policy))
            }
            Order::Pso | Order::Pos => {
                let page_bytes = self.options.column_page_bytes;
                let pages = self.pages(&self.folder, &name, page_bytes)?;
                OrderKind::Columns(ColumnWriter::new(pages, page_bytes))
            }
            Order::Gpso => {
                let pages = self.pages(&self.folder, &name, GRAPH_PAGE_BYTES)?;
                OrderKind::Columns(ColumnWriter::uncounted(pages, GRAPH_PAGE_BYTES))
            }
        };
        Ok(OrderWriter {
            order,
            kind,
            graphs: (order == Order::Pso).then(GraphCounter::default),
            characteristic: (order == Order::Spo).then(CharacteristicCounter::default),
        })
    }

    /// Writes the `directory` file: on return all files of the segment are durable, and are kept when this is
    /// dropped. `dictionary` is `None` for a segment with the ids of another.
    ///
    /// # Panics
    /// If `orders` are not the orders of the same quads; GPSO may be missing.
    pub fn seal(
        mut self,
        dictionary: Option<DictionaryDirectory>,
        orders: Vec<OrderDirectory>,
    ) -> Result<SealedSegment, StoreError> {
        let (inside, beside) = match self.terms {
            TermsPlace::Beside(id) => (None, Some((id, dictionary.expect("it was written")))),
            TermsPlace::Inside | TermsPlace::Existing => (dictionary, None),
        };
        let is_written = |order: &Order| orders.iter().any(|written| written.order == *order);
        let written: Vec<Order> = Order::ALL.into_iter().filter(is_written).collect();
        let names = sealed::order_names(written);
        let names = names.chain(inside.is_some().then(|| DICTIONARY_NAME.to_owned()));
        let directory = assemble(inside, orders);
        let quads = directory.statistics.quads;
        let dictionary = match beside {
            Some((id, directory)) => Some(self.seal_dictionary(id, &directory, quads)?),
            None => None,
        };
        self.whole_file(&self.folder, &directory.to_bytes())?;
        let files = self.lengths(&self.folder, names)?;
        self.stays = true;
        Ok(SealedSegment {
            segment: SegmentEntry { quads, files },
            dictionary,
        })
    }

    /// Writes the `directory` file of a dictionary in a folder of its own.
    fn seal_dictionary(
        &self,
        id: DictionaryId,
        directory: &DictionaryDirectory,
        quads: u64,
    ) -> Result<DictionaryEntry, StoreError> {
        let folder = id.folder();
        self.whole_file(&folder, &sealed::dictionary_to_bytes(directory))?;
        Ok(DictionaryEntry {
            id,
            terms: directory.total_count(),
            quads,
            files: self.lengths(&folder, sealed::dictionary_names())?,
        })
    }

    fn whole_file(&self, folder: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let name = format!("{folder}/{DIRECTORY_NAME}");
        let mut file = self.storage.create(&name)?;
        file.append(bytes)?;
        Ok(file.sync()?)
    }

    fn lengths(
        &self,
        folder: &str,
        names: impl Iterator<Item = String>,
    ) -> Result<Vec<ManifestFile>, StoreError> {
        let file = |name: String| {
            let bytes = self.storage.open(&format!("{folder}/{name}"))?.len();
            Ok(ManifestFile { name, bytes })
        };
        names.map(file).collect()
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if !self.stays {
            // Best effort: the next writer removes what remains.
            let _ = self.storage.remove(&self.folder);
            if let TermsPlace::Beside(id) = self.terms {
                let _ = self.storage.remove(&id.folder());
            }
        }
    }
}

/// Assembles a segment's directory.
fn assemble(
    dictionary: Option<DictionaryDirectory>,
    orders: Vec<OrderDirectory>,
) -> SegmentDirectory {
    let (mut tuples, mut columns) = ([None, None], [None, None]);
    let (mut graph_counts, mut characteristic_sets) = (None, None);
    let mut gpso = None;
    for OrderDirectory { order, kind } in orders {
        let second = usize::from(matches!(order, Order::Ops | Order::Pos));
        match kind {
            DirectoryKind::Tuples(directory, characteristic) => {
                tuples[second] = Some(directory);
                characteristic_sets = characteristic.or(characteristic_sets);
            }
            DirectoryKind::Columns(directory, _) if order == Order::Gpso => gpso = Some(directory),
            DirectoryKind::Columns(directory, graphs) => {
                columns[second] = Some(directory);
                graph_counts = graphs.or(graph_counts);
            }
        }
    }
    let ([Some(spo), Some(ops)], [Some(pso), Some(pos)]) = (tuples, columns) else {
        panic!("a segment is sealed with the four orders of all quads");
    };
    let counts = [spo.statistics.rows, ops.statistics.rows, pso.rows, pos.rows];
    assert!(
        counts.iter().all(|&count| count == pso.rows),
        "the orders hold the same quads, not {counts:?}"
    );
    let graphs: GraphStatistics = graph_counts.unwrap_or_default();
    if let Some(gpso) = &gpso {
        let named = pso.rows - graphs.default_graph_quads();
        assert_eq!(gpso.rows, named, "GPSO holds the quads of named graphs");
    }
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
        gpso,
    }
}

/// ByteWriter of the quads in one order.
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

/// The in-memory part of one order, for [`SegmentWriter::seal`].
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

impl OrderDirectory {
    /// Returns the order.
    pub(crate) fn order(&self) -> Order {
        self.order
    }

    /// Appends the input of [`Self::read`].
    pub(crate) fn write(&self, out: &mut ByteWriter) {
        match &self.kind {
            DirectoryKind::Tuples(directory, characteristic) => {
                directory.write(out);
                characteristic.iter().for_each(|sets| sets.write(out));
            }
            DirectoryKind::Columns(directory, graphs) => {
                directory.write(out);
                graphs.iter().for_each(|graphs| graphs.write(out));
            }
        }
    }

    /// Reads the output of [`Self::write`] for this order.
    pub(crate) fn read(order: Order, input: &mut ByteReader<'_>) -> Result<Self, StoreError> {
        let kind = match order {
            Order::Spo | Order::Ops => {
                let directory = TupleDirectory::read(input)?;
                let characteristic = (order == Order::Spo)
                    .then(|| CharacteristicSets::read(input))
                    .transpose()?;
                DirectoryKind::Tuples(directory, characteristic)
            }
            Order::Pso | Order::Pos | Order::Gpso => {
                let directory = ColumnDirectory::read(input)?;
                let graphs = (order == Order::Pso)
                    .then(|| GraphStatistics::read(input))
                    .transpose()?;
                DirectoryKind::Columns(directory, graphs)
            }
        };
        Ok(Self { order, kind })
    }
}

impl OrderWriter {
    /// Returns the order.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Adds a quad: its components in the order's sequence ([`Order::components`]), raw
    /// [`TermId`](pythia_rdf::TermId) bits. Quads come sorted, each once; to GPSO, only those of named graphs.
    ///
    /// # Panics
    /// If quads are found to be out of order.
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
