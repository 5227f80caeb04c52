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
use crate::manifest::{FORMAT_VERSION, Manifest, ManifestFile};
use crate::pattern::{End, Order};
use crate::statistics::{GraphStatistics, Statistics};

/// The file that is kept in memory.
pub(crate) const DIRECTORY_NAME: &str = "directory";
/// The file of terms.
pub(crate) const DICTIONARY_NAME: &str = "dictionary.pages";
const MAGIC: &[u8; 8] = b"pythiadr";

/// Returns the name of an order's file.
pub(crate) fn order_file_name(order: Order) -> String {
    format!("{}.pages", order.name())
}

/// Returns the names of all files of a segment.
pub(crate) fn file_names() -> impl Iterator<Item = String> {
    [DIRECTORY_NAME.to_owned(), DICTIONARY_NAME.to_owned()]
        .into_iter()
        .chain(Order::ALL.map(order_file_name))
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
    pub(crate) dictionary: DictionaryDirectory,
    pub(crate) spo: TupleDirectory,
    pub(crate) ops: TupleDirectory,
    pub(crate) pso: ColumnDirectory,
    pub(crate) pos: ColumnDirectory,
}

impl SegmentDirectory {
    /// Returns the file: checksum, magic, version, then the parts one after the other.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = ByteWriter::new();
        self.dictionary.encode(&mut out);
        self.spo.write(&mut out);
        self.ops.write(&mut out);
        self.pso.write(&mut out);
        self.pos.write(&mut out);
        self.statistics.graphs.write(&mut out);
        self.statistics.characteristic.write(&mut out);
        out.framed(MAGIC, FORMAT_VERSION)
    }

    /// Reads the output of [`Self::to_bytes`]; `file` is for messages.
    pub(crate) fn from_bytes(file: &str, bytes: &[u8]) -> Result<Self, StoreError> {
        let (version, mut input) = ByteReader::framed(file, bytes, MAGIC, 1..=FORMAT_VERSION)?;
        let dictionary = DictionaryDirectory::decode(&mut input)?;
        let spo = TupleDirectory::read(&mut input)?;
        let ops = TupleDirectory::read(&mut input)?;
        let pso = ColumnDirectory::read(&mut input)?;
        let pos = ColumnDirectory::read(&mut input)?;
        let graphs = GraphStatistics::read(&mut input)?;
        let characteristic = match version {
            1 => CharacteristicSets::default(),
            _ => CharacteristicSets::read(&mut input)?,
        };
        let predicates = || pso.predicates.iter().zip(&pos.predicates);
        if pso.predicates.len() != pos.predicates.len()
            || predicates().any(|(a, b)| (a.predicate, a.rows) != (b.predicate, b.rows))
            || [spo.statistics.rows, ops.statistics.rows] != [pso.rows; 2]
            || graphs.total_quads() != Some(pso.rows)
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
        })
    }
}

/// A sealed segment. Immutable.
pub struct Segment {
    folder: String,
    directory_bytes: u64,
    statistics: Statistics,
    pub(crate) dictionary: Dictionary,
    pub(crate) spo: TupleFile,
    pub(crate) ops: TupleFile,
    pub(crate) pso: ColumnFile,
    pub(crate) pos: ColumnFile,
}

impl Segment {
    /// Opens the manifest's base segment.
    pub(crate) fn open_base(
        pool: &Arc<BufferPool>,
        manifest: &Manifest,
    ) -> Result<Self, StoreError> {
        let folder = manifest.segment.folder();
        Self::open(pool, &folder, manifest.quads, &manifest.files)
    }

    /// Opens the segment in a folder: reads its directory, and checks its number of quads and the length of every
    /// file.
    pub(crate) fn open(
        pool: &Arc<BufferPool>,
        folder: &str,
        quads: u64,
        files: &[ManifestFile],
    ) -> Result<Self, StoreError> {
        let storage = pool.storage();
        check_lengths(&**storage, folder, files, file_names())?;
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
        let dictionary_pages = open(
            DICTIONARY_NAME,
            directory.dictionary.page_bytes(),
            "dictionary",
        )?;
        let spo_pages = order(Order::Spo, directory.spo.page_bytes())?;
        let ops_pages = order(Order::Ops, directory.ops.page_bytes())?;
        let pso_pages = order(Order::Pso, directory.pso.page_bytes)?;
        let pos_pages = order(Order::Pos, directory.pos.page_bytes)?;
        Ok(Self {
            folder: folder.to_owned(),
            directory_bytes: bytes.len() as u64,
            statistics: directory.statistics,
            dictionary: Dictionary::new(dictionary_pages, Arc::new(directory.dictionary))?,
            spo: TupleFile::new(spo_pages, Arc::new(directory.spo))?,
            ops: TupleFile::new(ops_pages, Arc::new(directory.ops))?,
            pso: ColumnFile::new(pso_pages, directory.pso)?,
            pos: ColumnFile::new(pos_pages, directory.pos)?,
        })
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

    /// Returns the pages of an order.
    pub(crate) fn paged_file(&self, order: Order) -> &PagedFile {
        match order {
            Order::Spo => self.spo.file(),
            Order::Ops => self.ops.file(),
            Order::Pso => self.pso.file(),
            Order::Pos => self.pos.file(),
        }
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
        let new = SegmentDirectory::from_bytes(&name, &bytes).expect("sound");
        assert_eq!(new.statistics.characteristic.sets().len(), 3);
        let old = SegmentDirectory::from_bytes(&name, &format_1(&new)).expect("read as well");
        assert_eq!(
            *old.statistics.characteristic,
            CharacteristicSets::default()
        );
        assert_eq!(old.statistics.predicates, new.statistics.predicates);
    }
}
