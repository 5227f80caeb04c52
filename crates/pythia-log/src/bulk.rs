//! Bulk changes: a file beside the log, durable before the commit that names it.
//!
//! The file is a block that identifies it, followed by chunks: compressed change sets with lengths and checksum.
//! The commit holds the file's length and the number of chunks. Each checksum covers the chunk's number, so that
//! chunks cannot be cut off, exchanged or repeated unnoticed.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use pythia_io::{IoError, SequentialReader, Storage, WriteFile};

use crate::change::{Change, ChangeSet, NO_GRAPH};
use crate::format::{PAYLOAD_BYTES_MAX, checksum};
use crate::group::decompress;
use crate::{LogError, StoreId};
use pythia_io::bytes::{ByteReader, push_bytes, push_varint};

const MAGIC: [u8; 8] = *b"PythiaBk";
/// Stored length, uncompressed length, checksum.
const CHUNK_HEADER_BYTES: usize = 12;
const COMPRESSION_LEVEL: i32 = 1;
const READ_BYTES: usize = 1 << 20;
/// Limits on a chunk: changes, and bytes of their terms.
const CHUNK_CHANGES: usize = 64 << 10;
const CHUNK_KEY_BYTES: usize = 8 << 20;

/// A file with changes, as the commit names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bulk {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) chunks: u64,
}

impl Bulk {
    /// Returns the file's name within its storage.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        push_bytes(out, self.name.as_bytes());
        push_varint(out, self.bytes);
        push_varint(out, self.chunks);
    }

    pub(crate) fn decode(cursor: &mut ByteReader<'_>) -> Result<Self, LogError> {
        Ok(Self {
            name: cursor.text()?.to_owned(),
            bytes: cursor.varint()?,
            chunks: cursor.varint()?,
        })
    }
}

/// A compressed chunk of changes without its number. It can be made on any thread, and is written by
/// [`BulkWriter::push_chunk`].
#[derive(Debug)]
pub struct BulkChunk {
    bytes: u32,
    stored: Vec<u8>,
}

impl BulkChunk {
    /// Encodes and compresses changes, in chunks of a size that is read at once.
    pub fn all_of(changes: &ChangeSet) -> Result<Vec<Self>, LogError> {
        if changes.changes().len() <= CHUNK_CHANGES && changes.key_bytes() <= CHUNK_KEY_BYTES {
            return Ok(vec![Self::new(changes)?]);
        }
        let mut chunks = Vec::new();
        let mut part = ChunkBuilder::default();
        for change in changes.changes() {
            part.push(changes, change);
            if part.set.changes().len() == CHUNK_CHANGES || part.set.key_bytes() > CHUNK_KEY_BYTES {
                chunks.push(Self::new(&part.set)?);
                part = ChunkBuilder::default();
            }
        }
        chunks.push(Self::new(&part.set)?);
        Ok(chunks)
    }

    fn new(changes: &ChangeSet) -> Result<Self, LogError> {
        let mut encoded = Vec::new();
        changes.encode(&mut encoded);
        let stored = zstd::bulk::compress(&encoded, COMPRESSION_LEVEL)
            .map_err(|error| IoError::os("compress", "changes", None, error))?;
        Ok(Self {
            bytes: encoded.len() as u32,
            stored,
        })
    }
}

/// Writes changes to a file beside the log.
#[derive(Debug)]
pub struct BulkWriter {
    file: Box<dyn WriteFile>,
    store: StoreId,
    name: String,
    chunks: u64,
}

impl BulkWriter {
    pub(crate) fn create(
        storage: &dyn Storage,
        name: String,
        store: StoreId,
    ) -> Result<Self, LogError> {
        let mut file = storage.create(&name)?;
        file.append(&MAGIC)?;
        file.append(&store.0)?;
        Ok(Self {
            file,
            store,
            name,
            chunks: 0,
        })
    }

    /// Returns the file's name within its storage.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Appends changes, in chunks of a size that is read at once.
    pub fn push(&mut self, changes: &ChangeSet) -> Result<(), LogError> {
        let chunks = BulkChunk::all_of(changes)?;
        chunks.iter().try_for_each(|chunk| self.push_chunk(chunk))
    }

    /// Appends a chunk.
    pub fn push_chunk(&mut self, chunk: &BulkChunk) -> Result<(), LogError> {
        let stored = &chunk.stored;
        let mut header = [0; CHUNK_HEADER_BYTES];
        header[..4].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        header[4..8].copy_from_slice(&chunk.bytes.to_le_bytes());
        let checksum = chunk_checksum(self.store, self.chunks, &header[..8], stored);
        header[8..].copy_from_slice(&checksum.to_le_bytes());
        self.file.append(&header)?;
        self.file.append(stored)?;
        self.chunks += 1;
        Ok(())
    }

    /// Closes the file and returns its name.
    pub(crate) fn abandon(self) -> String {
        self.name
    }

    /// Makes the file durable. If no commit names it, it is removed after the log is opened again.
    pub fn finish(self) -> Result<Bulk, LogError> {
        let bytes = self.file.len();
        self.file.sync()?;
        Ok(Bulk {
            name: self.name,
            bytes,
            chunks: self.chunks,
        })
    }
}

/// A part of a change set, with only the terms that it needs.
#[derive(Default)]
struct ChunkBuilder {
    set: ChangeSet,
    indexes: HashMap<u32, u32>,
}

impl ChunkBuilder {
    fn push(&mut self, whole: &ChangeSet, change: &Change) {
        let Self { set, indexes } = self;
        let quad = change.quad.map(|index| match index {
            NO_GRAPH => NO_GRAPH,
            index => *indexes
                .entry(index)
                .or_insert_with(|| set.add_term(whole.term(index))),
        });
        let added = change.added;
        set.push(Change { added, quad });
    }
}

fn chunk_checksum(store: StoreId, number: u64, lengths: &[u8], stored: &[u8]) -> u32 {
    let first = checksum(store, &number.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(first, lengths), stored)
}

/// The change sets of a file, in order.
pub(crate) struct BulkReader {
    reader: SequentialReader,
    store: StoreId,
    bulk: Bulk,
    read: u64,
}

impl BulkReader {
    pub(crate) fn open(
        storage: &Arc<dyn Storage>,
        store: StoreId,
        bulk: &Bulk,
    ) -> Result<Self, LogError> {
        let file = storage.open(&bulk.name)?;
        if file.len() != bulk.bytes {
            let message = format!("it has {} bytes, not {}", file.len(), bulk.bytes);
            return Err(corrupt(bulk, file.len(), message));
        }
        let mut reader = SequentialReader::new(Arc::clone(storage), file, READ_BYTES);
        let mut first = [0; 24];
        read_exact(&mut reader, bulk, &mut first)?;
        if first[..8] != MAGIC || first[8..] != store.0 {
            return Err(corrupt(
                bulk,
                0,
                "it does not begin as changes of this store".into(),
            ));
        }
        Ok(Self {
            reader,
            store,
            bulk: bulk.clone(),
            read: 0,
        })
    }

    fn chunk(&mut self) -> Result<ChangeSet, LogError> {
        let offset = self.bulk.bytes - self.reader.remaining();
        let mut header = [0; CHUNK_HEADER_BYTES];
        read_exact(&mut self.reader, &self.bulk, &mut header)?;
        let mut cursor = ByteReader::at(&self.bulk.name, offset, &header);
        let stored_bytes = cursor.u32()? as usize;
        let (bytes, expected) = (cursor.u32()? as usize, cursor.u32()?);
        if stored_bytes as u64 > self.reader.remaining() || bytes > PAYLOAD_BYTES_MAX {
            return Err(corrupt(
                &self.bulk,
                offset,
                "a chunk's length is impossible".into(),
            ));
        }
        let mut stored = vec![0; stored_bytes];
        read_exact(&mut self.reader, &self.bulk, &mut stored)?;
        if chunk_checksum(self.store, self.read, &header[..8], &stored) != expected {
            return Err(corrupt(
                &self.bulk,
                offset,
                "a chunk's checksum does not match".into(),
            ));
        }
        let payload = decompress(&stored, bytes, &self.bulk.name, offset)?;
        let mut cursor = ByteReader::at(&self.bulk.name, offset, &payload);
        let set = ChangeSet::decode(&mut cursor)?;
        self.read += 1;
        Ok(set)
    }
}

impl Iterator for BulkReader {
    type Item = Result<ChangeSet, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.read == self.bulk.chunks {
            return None;
        }
        let chunk = self.chunk();
        if chunk.is_err() {
            self.read = self.bulk.chunks;
        }
        Some(chunk)
    }
}

fn corrupt(bulk: &Bulk, offset: u64, message: String) -> LogError {
    LogError::Corrupt {
        file: bulk.name.clone(),
        offset,
        message,
    }
}

fn read_exact(
    reader: &mut SequentialReader,
    bulk: &Bulk,
    bytes: &mut [u8],
) -> Result<(), LogError> {
    let offset = bulk.bytes - reader.remaining();
    if (bytes.len() as u64) > reader.remaining() {
        return Err(corrupt(bulk, offset, "it ends too early".into()));
    }
    reader
        .read_exact(bytes)
        .map_err(|error| IoError::os("read", &bulk.name, Some(offset), error).into())
}

#[cfg(test)]
mod tests {
    use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage};
    use pythia_rdf::{TermId, TermKind};

    use super::*;
    use crate::LogTerm;
    use crate::testing::numbered;

    const STORE: StoreId = StoreId([5; 16]);

    fn written(storage: &dyn Storage) -> Bulk {
        let mut writer =
            BulkWriter::create(storage, "log/000001-000001.bulk".into(), STORE).unwrap();
        for number in 0..5 {
            writer.push(&numbered(number, 2000)).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn chunks_come_back_in_order() {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let bulk = written(&*storage);
        let sets: Result<Vec<_>, _> = BulkReader::open(&storage, STORE, &bulk).unwrap().collect();
        let sets = sets.unwrap();
        assert_eq!(sets.len(), 5);
        for (number, set) in sets.iter().enumerate() {
            let expected = numbered(number as u64, 2000);
            assert!(set.terms().eq(expected.terms()));
        }
    }

    #[test]
    fn many_changes_become_chunks_with_the_terms_they_need() {
        let mut set = ChangeSet::new();
        let terms: Vec<u32> = (0..1000)
            .map(|number| set.add_term(LogTerm::Inline(TermId::new(TermKind::Integer, number))))
            .collect();
        for number in 0..150_000 {
            let [s, o] = [number, number / 1000].map(|n: usize| terms[n % 1000]);
            let graph = if number % 3 == 0 { NO_GRAPH } else { s };
            let quad = [s, terms[0], o, graph];
            set.push(Change {
                added: number % 2 == 0,
                quad,
            });
        }
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let mut writer = BulkWriter::create(&*storage, "a".into(), STORE).unwrap();
        writer.push(&set).unwrap();
        let bulk = writer.finish().unwrap();
        assert_eq!(bulk.chunks, 3);
        let resolved = |set: &ChangeSet| -> Vec<_> {
            let term = |index| (index != NO_GRAPH).then(|| format!("{:?}", set.term(index)));
            let changes = set.changes().iter();
            changes.map(|c| (c.added, c.quad.map(term))).collect()
        };
        let reader = BulkReader::open(&storage, STORE, &bulk).unwrap();
        let back: Vec<_> = reader.flat_map(|chunk| resolved(&chunk.unwrap())).collect();
        assert_eq!(back, resolved(&set));
    }

    #[test]
    fn every_flipped_byte_is_found() {
        let memory = Arc::new(MemoryStorage::new());
        let bulk = written(&*memory);
        for offset in 0..bulk.bytes {
            let plan = FaultPlan::flip(&bulk.name, offset, 3);
            let storage: Arc<dyn Storage> = Arc::new(FaultyStorage::new(memory.clone(), plan));
            let read = BulkReader::open(&storage, STORE, &bulk)
                .and_then(|reader| reader.collect::<Result<Vec<_>, _>>());
            assert!(
                read.is_err_and(|error| error.is_corruption()),
                "byte {offset}"
            );
        }
    }
}
