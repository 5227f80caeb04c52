//! The payload of a group: its commits, one after the other.

use std::borrow::Cow;

use crate::bulk::Bulk;
use crate::change::ChangeSet;
use crate::format::{FLAG_ZSTD, GROUP_HEADER_BYTES, GroupHeader, PAYLOAD_BYTES_MAX};
use crate::{LogError, StoreId};
use pythia_io::AlignedBuffer;
use pythia_io::bytes::{ByteReader, push_bytes, push_varint};

/// The longest key of a commit, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// Payloads of at least this size are compressed.
const COMPRESSED_FROM_BYTES: usize = 16 << 10;
const COMPRESSION_LEVEL: i32 = 1;

/// A commit to append to the log.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Time of the commit, in microseconds since 1970.
    pub time: u64,
    /// Idempotency key: identifies the commit, so that a client's retry does not commit twice.
    pub key: Option<&'a str>,
    /// The changes.
    pub changes: Changes<'a>,
}

/// The changes of a commit.
#[derive(Clone, Debug)]
pub enum Changes<'a> {
    /// Stored in the log itself.
    Inline(&'a ChangeSet),
    /// Stored in a bulk file, because they are many.
    Bulk(Bulk),
}

/// A commit as read from the log.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) time: u64,
    pub(crate) key: Option<String>,
    pub(crate) body: Body,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Inline(ChangeSet),
    Bulk(Bulk),
}

const HAS_KEY: u8 = 1;
const IS_BULK: u8 = 2;

impl Entry<'_> {
    /// Appends the commit to a payload.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), LogError> {
        let key = self.key.unwrap_or_default();
        if key.len() > KEY_BYTES_MAX {
            return Err(LogError::KeyTooLong {
                bytes: key.len(),
                maximum: KEY_BYTES_MAX,
            });
        }
        let is_bulk = matches!(self.changes, Changes::Bulk(_));
        let has_key = self.key.is_some();
        let flags = [(has_key, HAS_KEY), (is_bulk, IS_BULK)];
        out.push(
            flags
                .iter()
                .filter(|(is_set, _)| *is_set)
                .map(|(_, flag)| flag)
                .sum(),
        );
        out.extend_from_slice(&self.time.to_le_bytes());
        if has_key {
            push_bytes(out, key.as_bytes());
        }
        let mut body = Vec::new();
        match &self.changes {
            Changes::Inline(set) => set.encode(&mut body),
            Changes::Bulk(bulk) => bulk.encode(&mut body),
        }
        push_varint(out, body.len() as u64);
        out.append(&mut body);
        Ok(())
    }
}

/// Reads the commits of a payload.
pub(crate) fn decode_records(
    header: &GroupHeader,
    payload: &[u8],
    file: &str,
    offset: u64,
) -> Result<Vec<Record>, LogError> {
    let mut cursor = ByteReader::at(file, offset, payload);
    let mut records = Vec::new();
    while !cursor.is_at_end() {
        records.push(decode_record(&mut cursor, file, offset)?);
    }
    if records.len() != header.count as usize {
        return Err(cursor.corrupt("as many commits as its header says"));
    }
    Ok(records)
}

/// A commit's key and bulk file, if it has them.
pub(crate) type KeyAndBulk = (Option<String>, Option<Bulk>);

/// Reads the keys and bulk files of a payload's commits, without their changes.
pub(crate) fn decode_heads(
    payload: &[u8],
    file: &str,
    offset: u64,
) -> Result<Vec<KeyAndBulk>, LogError> {
    let mut cursor = ByteReader::at(file, offset, payload);
    let mut heads = Vec::new();
    while !cursor.is_at_end() {
        let head = Head::decode(&mut cursor)?;
        let mut body = ByteReader::at(file, offset, head.body);
        let bulk = head.is_bulk.then(|| Bulk::decode(&mut body)).transpose()?;
        heads.push((head.key.map(str::to_owned), bulk));
    }
    Ok(heads)
}

fn decode_record(cursor: &mut ByteReader<'_>, file: &str, offset: u64) -> Result<Record, LogError> {
    let head = Head::decode(cursor)?;
    let mut inner = ByteReader::at(file, offset, head.body);
    let body = if head.is_bulk {
        Body::Bulk(Bulk::decode(&mut inner)?)
    } else {
        Body::Inline(ChangeSet::decode(&mut inner)?)
    };
    if !inner.is_at_end() {
        return Err(inner.corrupt("the end of a commit after its changes"));
    }
    let key = head.key.map(str::to_owned);
    let time = head.time;
    Ok(Record { time, key, body })
}

/// The parts of a commit in the payload.
struct Head<'a> {
    time: u64,
    key: Option<&'a str>,
    is_bulk: bool,
    body: &'a [u8],
}

impl<'a> Head<'a> {
    fn decode(cursor: &mut ByteReader<'a>) -> Result<Self, LogError> {
        let flags = cursor.u8()?;
        if flags & !(HAS_KEY | IS_BULK) != 0 {
            return Err(cursor.corrupt("known flags of a commit"));
        }
        Ok(Self {
            time: cursor.u64()?,
            key: (flags & HAS_KEY != 0).then(|| cursor.text()).transpose()?,
            is_bulk: flags & IS_BULK != 0,
            body: cursor.bytes()?,
        })
    }
}

/// Makes the bytes of a group: header, payload (compressed if that helps), zeros up to a whole block.
pub(crate) fn seal(mut header: GroupHeader, payload: &[u8], store: StoreId) -> AlignedBuffer {
    let compressed = (payload.len() >= COMPRESSED_FROM_BYTES)
        .then(|| zstd::bulk::compress(payload, COMPRESSION_LEVEL).ok())
        .flatten()
        .filter(|compressed| compressed.len() < payload.len());
    let stored = compressed.as_deref().unwrap_or(payload);
    header.flags = if compressed.is_some() { FLAG_ZSTD } else { 0 };
    header.payload_bytes = payload.len() as u32;
    header.stored_bytes = stored.len() as u32;
    let mut bytes = AlignedBuffer::zeroed(header.total_bytes());
    bytes[GROUP_HEADER_BYTES..GROUP_HEADER_BYTES + stored.len()].copy_from_slice(stored);
    header.encode(store, &mut bytes);
    bytes
}

/// Returns the payload of a whole group.
pub(crate) fn payload<'a>(
    header: &GroupHeader,
    group: &'a [u8],
    file: &str,
    offset: u64,
) -> Result<Cow<'a, [u8]>, LogError> {
    let stored = &group[GROUP_HEADER_BYTES..GROUP_HEADER_BYTES + header.stored_bytes as usize];
    if header.flags & FLAG_ZSTD == 0 {
        return Ok(Cow::Borrowed(stored));
    }
    decompress(stored, header.payload_bytes as usize, file, offset).map(Cow::Owned)
}

/// Decompresses bytes, which must become exactly `bytes` long.
pub(crate) fn decompress(
    stored: &[u8],
    bytes: usize,
    file: &str,
    offset: u64,
) -> Result<Vec<u8>, LogError> {
    let corrupt = |message: &str| LogError::Corrupt {
        file: file.to_owned(),
        offset,
        message: message.to_owned(),
    };
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(corrupt("its uncompressed length is impossible"));
    }
    match zstd::bulk::decompress(stored, bytes) {
        Ok(payload) if payload.len() == bytes => Ok(payload),
        _ => Err(corrupt("it cannot be decompressed")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_change_set, numbered};

    fn header(count: u32) -> GroupHeader {
        GroupHeader {
            epoch: 1,
            group: 2,
            durable_before: 1,
            position: 3,
            count,
            flags: 0,
            stored_bytes: 0,
            payload_bytes: 0,
        }
    }

    proptest! {
        #[test]
        fn groups_come_back(
            commits in prop::collection::vec((any::<u64>(), any::<Option<String>>(), any_change_set()), 0..5)
        ) {
            let mut bytes = Vec::new();
            for (time, key, set) in &commits {
                let changes = Changes::Inline(set);
                Entry { time: *time, key: key.as_deref(), changes }.encode(&mut bytes).unwrap();
            }
            let store = StoreId([1; 16]);
            let sealed = seal(header(commits.len() as u32), &bytes, store);
            let (found, whole) = GroupHeader::decode(store, &sealed).unwrap();
            prop_assert!(whole);
            let back = payload(&found, &sealed, "a", 0).unwrap();
            let records = decode_records(&found, &back, "a", 0).unwrap();
            for (record, (time, key, set)) in records.iter().zip(&commits) {
                prop_assert_eq!((record.time, &record.key), (*time, key));
                let Body::Inline(found) = &record.body else { panic!("inline") };
                prop_assert_eq!(found.changes(), set.changes());
            }
        }

        #[test]
        fn random_payloads_never_panic(bytes: Vec<u8>) {
            let _ = decode_records(&header(1), &bytes, "a", 0);
            let _ = decompress(&bytes, 100, "a", 0);
        }
    }

    #[test]
    fn large_payloads_are_compressed() {
        let set = numbered(1, 100_000);
        let changes = Changes::Inline(&set);
        let mut bytes = Vec::new();
        let entry = Entry {
            time: 1,
            key: None,
            changes,
        };
        entry.encode(&mut bytes).unwrap();
        let sealed = seal(header(1), &bytes, StoreId::default());
        assert!(sealed.len() <= 8192);
        let (found, _) = GroupHeader::decode(StoreId::default(), &sealed).unwrap();
        assert_eq!(*payload(&found, &sealed, "a", 0).unwrap(), bytes);
    }

    #[test]
    fn long_keys_are_refused() {
        let set = ChangeSet::new();
        let key = "x".repeat(KEY_BYTES_MAX + 1);
        let changes = Changes::Inline(&set);
        let entry = Entry {
            time: 1,
            key: Some(&key),
            changes,
        };
        assert!(matches!(
            entry.encode(&mut Vec::new()),
            Err(LogError::KeyTooLong { .. })
        ));
    }
}
