//! A sealed segment: its `directory` file, which is kept in memory, and its paged files, which are read through the
//! pool.

use std::sync::Arc;

use pythia_io::bytes::{ByteReader, ByteWriter};
use pythia_io::{BufferPool, PagedFile, Storage};

use super::column::{ColumnDirectory, ColumnFile};
use super::tuple::{TupleDirectory, TupleFile};
use super::writer::SegmentOptions;
use crate::StoreError;
use crate::characteristic::CharacteristicSets;
use crate::dictionary::{Dictionary, DictionaryDirectory};
use crate::manifest::{DictionaryEntry, Manifest, ManifestFile, SegmentEntry};
use crate::pattern::{End, Order};
use crate::statistics::{GraphStatistics, Statistics};

/// The file that is kept in memory.
pub(crate) const DIRECTORY_NAME: &str = "directory";
/// The file of terms.
pub(crate) const DICTIONARY_NAME: &str = "dictionary.pages";
const MAGIC: &[u8; 8] = b"pythiadr";
/// The last version of a `directory` that always has a dictionary, and never GPSO.
const FOUR_ORDERS: u32 = 2;
const VERSION: u32 = 3;
/// Bits of the byte after the version: whether there is a dictionary, and GPSO.
const HAS_TERMS: u8 = 1;
const HAS_GRAPHS: u8 = 2;
const TERMS_MAGIC: &[u8; 8] = b"pythiadt";
const TERMS_VERSION: u32 = 1;

/// Returns the name of an order's file.
pub(crate) fn order_file_name(order: Order) -> String {
    format!("{}.pages", order.name())
}

/// Returns the names of the files of a segment with these orders and without a dictionary.
pub(crate) fn order_names(orders: impl IntoIterator<Item = Order>) -> impl Iterator<Item = String> {
    std::iter::once(DIRECTORY_NAME.to_owned()).chain(orders.into_iter().map(order_file_name))
}

/// Returns the names of the files of a dictionary in a folder of its own.
pub(crate) fn dictionary_names() -> impl Iterator<Item = String> {
    [DIRECTORY_NAME, DICTIONARY_NAME]
        .map(str::to_owned)
        .into_iter()
}

/// Returns the `directory` file of a dictionary in a folder of its own.
pub(crate) fn dictionary_to_bytes(directory: &DictionaryDirectory) -> Vec<u8> {
    let mut out = ByteWriter::new();
    directory.encode(&mut out);
    out.framed(TERMS_MAGIC, TERMS_VERSION)
}

/// Reads the `directory` file of the dictionary in a folder.
pub(crate) fn read_dictionary(
    storage: &dyn Storage,
    folder: &str,
) -> Result<DictionaryDirectory, StoreError> {
    let name = format!("{folder}/{DIRECTORY_NAME}");
    let bytes = storage.read_all(&name)?;
    let versions = TERMS_VERSION..=TERMS_VERSION;
    let (_, mut input) = ByteReader::framed(&name, &bytes, TERMS_MAGIC, versions)?;
    let directory = DictionaryDirectory::decode(&mut input)?;
    input.finish()?;
    Ok(directory)
}

/// Opens the dictionary of a manifest entry: reads its directory, and checks the length of every file.
fn open_dictionary(
    pool: &Arc<BufferPool>,
    entry: &DictionaryEntry,
) -> Result<Arc<Dictionary>, StoreError> {
    let (storage, folder) = (&**pool.storage(), entry.id.folder());
    check_lengths(storage, &folder, &entry.files, dictionary_names())?;
    let directory = read_dictionary(storage, &folder)?;
    open_pages(pool, &folder, directory)
}

/// Opens the terms in a folder, given their directory.
fn open_pages(
    pool: &Arc<BufferPool>,
    folder: &str,
    directory: DictionaryDirectory,
) -> Result<Arc<Dictionary>, StoreError> {
    let name = format!("{folder}/{DICTIONARY_NAME}");
    let pages = pool.open(&name, directory.page_bytes(), "dictionary")?;
    Ok(Arc::new(Dictionary::new(pages, Arc::new(directory))?))
}

/// Fails if a folder's files are not those that the manifest lists, or have other lengths.
pub(crate) fn check_lengths(
    storage: &dyn Storage,
    folder: &str,
    listed: &[ManifestFile],
    names: impl Iterator<Item = String>,
) -> Result<(), StoreError> {
    for name in names {
        let listed = listed.iter().find(|file| file.name == name);
        let name = format!("{folder}/{name}");
        let Some(listed) = listed else {
            let message = "the manifest does not list it";
            return Err(StoreError::corrupt(name, None, message));
        };
        let bytes = storage.open(&name)?.len();
        if bytes != listed.bytes {
            let message = format!("it has {bytes} bytes, the manifest says {}", listed.bytes);
            return Err(StoreError::corrupt(name, None, message));
        }
    }
    Ok(())
}

/// The contents of the `directory` file.
#[derive(Debug)]
pub(crate) struct SegmentDirectory {
    pub(crate) statistics: Statistics,
    /// `None`: the dictionary has a folder of its own.
    pub(crate) dictionary: Option<DictionaryDirectory>,
    pub(crate) spo: TupleDirectory,
    pub(crate) ops: TupleDirectory,
    pub(crate) pso: ColumnDirectory,
    pub(crate) pos: ColumnDirectory,
    /// `None` in segments of programs that did not write it.
    pub(crate) gpso: Option<ColumnDirectory>,
}

impl SegmentDirectory {
    /// Returns the file: checksum, magic, version, then the parts one after the other.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = ByteWriter::new();
        let has_terms = self.dictionary.as_ref().map_or(0, |_| HAS_TERMS);
        let has_graphs = self.gpso.as_ref().map_or(0, |_| HAS_GRAPHS);
        out.u8(has_terms | has_graphs);
        if let Some(dictionary) = &self.dictionary {
            dictionary.encode(&mut out);
        }
        self.spo.write(&mut out);
        self.ops.write(&mut out);
        self.pso.write(&mut out);
        self.pos.write(&mut out);
        if let Some(gpso) = &self.gpso {
            gpso.write(&mut out);
        }
        self.statistics.graphs.write(&mut out);
        self.statistics.characteristic.write(&mut out);
        out.framed(MAGIC, VERSION)
    }

    /// Reads the output of [`Self::to_bytes`]; `file` is for messages.
    pub(crate) fn from_bytes(file: &str, bytes: &[u8]) -> Result<Self, StoreError> {
        let (version, mut input) = ByteReader::framed(file, bytes, MAGIC, 1..=VERSION)?;
        let parts = match version {
            ..=FOUR_ORDERS => HAS_TERMS,
            _ => input.u8()?,
        };
        if parts & !(HAS_TERMS | HAS_GRAPHS) != 0 {
            return Err(input.corrupt("a byte of known parts"));
        }
        let dictionary = (parts & HAS_TERMS != 0)
            .then(|| DictionaryDirectory::decode(&mut input))
            .transpose()?;
        let spo = TupleDirectory::read(&mut input)?;
        let ops = TupleDirectory::read(&mut input)?;
        let pso = ColumnDirectory::read(&mut input)?;
        let pos = ColumnDirectory::read(&mut input)?;
        let gpso = (parts & HAS_GRAPHS != 0)
            .then(|| ColumnDirectory::read(&mut input))
            .transpose()?;
        let graphs = GraphStatistics::read(&mut input)?;
        let characteristic = match version {
            1 => CharacteristicSets::default(),
            _ => CharacteristicSets::read(&mut input)?,
        };
        let predicates = || pso.predicates.iter().zip(&pos.predicates);
        if pso.predicates.len() != pos.predicates.len()
            || predicates().any(|(a, b)| (a.predicate, a.rows) != (b.predicate, b.rows))
            || [spo.statistics.rows, ops.statistics.rows] != [pso.rows; 2]
            || !(pso.is_counted() && pos.is_counted())
            || graphs.total_quads() != Some(pso.rows)
            || gpso
                .as_ref()
                .is_some_and(|gpso| gpso.rows != pso.rows - graphs.default_graph_quads())
            || (version > 1 && characteristic.total_subjects() != Some(spo.statistics.tuples))
        {
            return Err(input.corrupt("the same counts in all orders"));
        }
        input.finish()?;
        let statistics = Statistics::assemble(
            &spo.statistics,
            &ops.statistics,
            &pso,
            &pos,
            graphs,
            characteristic,
        );
        Ok(Self {
            statistics,
            dictionary,
            spo,
            ops,
            pso,
            pos,
            gpso,
        })
    }
}

/// A sealed segment. Immutable.
pub struct Segment {
    folder: String,
    directory_bytes: u64,
    statistics: Statistics,
    /// Shared by the segments whose ids it assigns.
    pub(crate) dictionary: Arc<Dictionary>,
    pub(crate) spo: TupleFile,
    pub(crate) ops: TupleFile,
    pub(crate) pso: ColumnFile,
    pub(crate) pos: ColumnFile,
    /// `None` in segments of programs that did not write it.
    pub(crate) gpso: Option<ColumnFile>,
}

impl Segment {
    /// Opens the manifest's base segment.
    pub(crate) fn open_base(
        pool: &Arc<BufferPool>,
        manifest: &Manifest,
    ) -> Result<Self, StoreError> {
        let folder = manifest.segment.folder();
        match &manifest.dictionary {
            None => Self::open(pool, &folder, manifest.quads, &manifest.files),
            Some(entry) => {
                let dictionary = open_dictionary(pool, entry)?;
                Self::open_with(
                    pool,
                    &folder,
                    manifest.quads,
                    &manifest.files,
                    Some(dictionary),
                )
            }
        }
    }

    /// Opens a segment that has the ids of this one.
    pub(crate) fn open_beside(
        &self,
        pool: &Arc<BufferPool>,
        folder: &str,
        entry: &SegmentEntry,
    ) -> Result<Self, StoreError> {
        let dictionary = Arc::clone(&self.dictionary);
        Self::open_with(pool, folder, entry.quads, &entry.files, Some(dictionary))
    }

    /// Opens the segment in a folder, with its dictionary: reads its directory, and checks its number of quads and
    /// the length of every file.
    pub(crate) fn open(
        pool: &Arc<BufferPool>,
        folder: &str,
        quads: u64,
        files: &[ManifestFile],
    ) -> Result<Self, StoreError> {
        Self::open_with(pool, folder, quads, files, None)
    }

    fn open_with(
        pool: &Arc<BufferPool>,
        folder: &str,
        quads: u64,
        files: &[ManifestFile],
        dictionary: Option<Arc<Dictionary>>,
    ) -> Result<Self, StoreError> {
        let storage = pool.storage();
        let own_terms = dictionary.is_none().then(|| DICTIONARY_NAME.to_owned());
        let is_listed = |order: &Order| {
            let name = order_file_name(*order);
            *order != Order::Gpso || files.iter().any(|file| file.name == name)
        };
        let names = order_names(Order::ALL.into_iter().filter(is_listed));
        check_lengths(&**storage, folder, files, names.chain(own_terms))?;
        let directory_name = format!("{folder}/{DIRECTORY_NAME}");
        let bytes = storage.read_all(&directory_name)?;
        let directory = SegmentDirectory::from_bytes(&directory_name, &bytes)?;
        if directory.statistics.quads != quads {
            let message = format!(
                "it knows {} quads, the manifest {quads}",
                directory.statistics.quads
            );
            return Err(StoreError::corrupt(directory_name, None, message));
        }
        let open =
            |name: &str, page_bytes: usize, group: &'static str| -> Result<PagedFile, StoreError> {
                Ok(pool.open(&format!("{folder}/{name}"), page_bytes, group)?)
            };
        let order = |order: Order, page_bytes: usize| {
            open(&order_file_name(order), page_bytes, order.name())
        };
        let dictionary = match (dictionary, directory.dictionary) {
            (None, Some(directory)) => open_pages(pool, folder, directory)?,
            (Some(dictionary), None) => dictionary,
            (given, _) => {
                let message = match given {
                    Some(_) => "it has a dictionary, but the manifest says that it has none",
                    None => "it has no dictionary, but the manifest says that it has one",
                };
                return Err(StoreError::corrupt(directory_name, None, message));
            }
        };
        let spo_pages = order(Order::Spo, directory.spo.page_bytes())?;
        let ops_pages = order(Order::Ops, directory.ops.page_bytes())?;
        let pso_pages = order(Order::Pso, directory.pso.page_bytes)?;
        let pos_pages = order(Order::Pos, directory.pos.page_bytes)?;
        let gpso = directory.gpso.map(|directory| {
            let pages = order(Order::Gpso, directory.page_bytes)?;
            ColumnFile::new(pages, directory)
        });
        Ok(Self {
            folder: folder.to_owned(),
            directory_bytes: bytes.len() as u64,
            statistics: directory.statistics,
            dictionary,
            spo: TupleFile::new(spo_pages, Arc::new(directory.spo))?,
            ops: TupleFile::new(ops_pages, Arc::new(directory.ops))?,
            pso: ColumnFile::new(pso_pages, directory.pso)?,
            pos: ColumnFile::new(pos_pages, directory.pos)?,
            gpso: gpso.transpose()?,
        })
    }

    /// Returns whether an id has the same term in both segments.
    pub(crate) fn shares_ids_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.dictionary, &other.dictionary)
    }

    /// Returns the segment's folder in its storage.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Returns the approximate memory of the directory while the segment is open.
    pub fn memory_bytes(&self) -> usize {
        self.dictionary.directory().memory_bytes()
            + self.spo.directory().memory_bytes()
            + self.ops.directory().memory_bytes()
            + self.pso.directory().memory_bytes()
            + self.pos.directory().memory_bytes()
            + self
                .gpso
                .as_ref()
                .map_or(0, |gpso| gpso.directory().memory_bytes())
    }

    /// Returns whether its files are those that this program writes: with directory and filter pages, and GPSO.
    pub(crate) fn is_of_newest_format(&self) -> bool {
        let columns = [Some(&self.pso), Some(&self.pos), self.gpso.as_ref()];
        let is_new = |file: &ColumnFile| file.directory().is_on_pages();
        columns.into_iter().all(|file| file.is_some_and(is_new))
            && self.spo.directory().is_on_pages()
            && self.ops.directory().is_on_pages()
            && self.dictionary.directory().is_of_newest_format()
    }

    /// Returns the sizes of its pages.
    pub fn options(&self) -> SegmentOptions {
        SegmentOptions {
            tuple_page_bytes: self.spo.directory().page_bytes(),
            column_page_bytes: self.pso.directory().page_bytes,
            dictionary_page_bytes: self.dictionary.directory().page_bytes(),
        }
    }

    /// Returns the length of the `directory` file.
    pub fn directory_bytes(&self) -> u64 {
        self.directory_bytes
    }

    /// Returns the statistics of the quads.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the pages of an order; `None` if the segment does not have it.
    pub(crate) fn paged_file(&self, order: Order) -> Option<&PagedFile> {
        match order {
            Order::Spo => Some(self.spo.file()),
            Order::Ops => Some(self.ops.file()),
            Order::Pso | Order::Pos | Order::Gpso => self.column_file(order).map(ColumnFile::file),
        }
    }

    /// Returns the columns of an order; `None` if the segment does not have them.
    pub(crate) fn column_file(&self, order: Order) -> Option<&ColumnFile> {
        match order {
            Order::Pso => Some(&self.pso),
            Order::Pos => Some(&self.pos),
            Order::Gpso => self.gpso.as_ref(),
            Order::Spo | Order::Ops => None,
        }
    }

    /// Returns the pages of the orders that the segment has.
    pub(crate) fn paged_files(&self) -> impl Iterator<Item = &PagedFile> {
        Order::ALL
            .into_iter()
            .filter_map(|order| self.paged_file(order))
    }

    /// Returns the tuple file keyed by an end.
    pub(crate) fn tuples(&self, end: End) -> &TupleFile {
        match end {
            End::Subject => &self.spo,
            End::Object => &self.ops,
        }
    }

    /// Returns the columns that are sorted by an end after the predicate: they hold the external lists of that end's
    /// tuples.
    pub(crate) fn columns(&self, end: End) -> &ColumnFile {
        match end {
            End::Subject => &self.pso,
            End::Object => &self.pos,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pythia_rdf::TermKind;

    use super::*;
    use crate::testing::{SMALL_PAGES, id, write_store};

    /// Returns a directory as a program of format 1 wrote it.
    fn format_1(directory: &SegmentDirectory) -> Vec<u8> {
        let mut sets = ByteWriter::new();
        directory.statistics.characteristic.write(&mut sets);
        let mut body = directory.to_bytes().split_off(4);
        body.truncate(body.len() - sets.len());
        body[MAGIC.len()..][..4].copy_from_slice(&1_u32.to_le_bytes());
        body.remove(MAGIC.len() + 4);
        [crc32c::crc32c(&body).to_le_bytes().to_vec(), body].concat()
    }

    #[test]
    fn a_directory_of_format_1_is_read_without_sets() {
        let iri = |rank| id(TermKind::Iri, rank);
        let quads: BTreeSet<_> = (0..100)
            .map(|n| [iri(n), iri(500 + n % 3), iri(7), 0])
            .collect();
        let storage = write_store(&quads, SMALL_PAGES);
        let name = format!("segment-000001/{DIRECTORY_NAME}");
        let bytes = storage.read_all(&name).expect("just written");
        let mut new = SegmentDirectory::from_bytes(&name, &bytes).expect("sound");
        let dictionary = read_dictionary(&*storage, "dictionary-000001").expect("sound");
        (new.dictionary, new.gpso) = (Some(dictionary), None);
        assert_eq!(new.statistics.characteristic.sets().len(), 3);
        let old = SegmentDirectory::from_bytes(&name, &format_1(&new)).expect("read as well");
        assert_eq!(
            *old.statistics.characteristic,
            CharacteristicSets::default()
        );
        assert_eq!(old.statistics.predicates, new.statistics.predicates);
    }
}
