//! The format of log files (docs/format/log.md): a header block, then groups, each a multiple of a block.

use std::fmt;
use std::str::FromStr;

use hex::FromHex;
use pythia_io::ALIGNMENT;
use serde::{Deserialize, Serialize};

use crate::LogError;
use pythia_io::bytes::ByteReader;

/// The log format that this program writes, and the newest it reads. Files of format 1 were begun without a record
/// and have no nonce.
pub const FORMAT_VERSION: u32 = 2;
/// The folder of a storage that holds log files.
pub const FOLDER: &str = "log";

const FILE_MAGIC: [u8; 8] = *b"PythiaLg";
const GROUP_MAGIC: [u8; 4] = *b"PyLG";

/// Size of a block, in bytes. Log files are written in whole blocks.
pub(crate) const BLOCK_BYTES: usize = ALIGNMENT;
/// Size of a group's header, in bytes.
pub(crate) const GROUP_HEADER_BYTES: usize = 64;
/// Size of a log file's header, in bytes. It is at the start of the first block.
pub const FILE_HEADER_BYTES: usize = 104;
/// Flag of a group with a compressed payload.
pub(crate) const FLAG_ZSTD: u32 = 1;
/// Limit on the length of a payload, compressed or not, in bytes.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 256 << 20;

/// The position of a commit: 1, 2, 3 …
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Position(pub u64);

impl Position {
    /// The position of the first commit.
    pub const FIRST: Self = Self(1);

    /// Returns the next position.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a store, which prevents that a log file is taken for another store's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StoreId(pub [u8; 16]);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl FromStr for StoreId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = parse_hex(text).map(Self);
        bytes.ok_or_else(|| format!("{text:?} is not a store's id of 32 hexadecimal digits"))
    }
}

impl TryFrom<String> for StoreId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<StoreId> for String {
    fn from(id: StoreId) -> Self {
        id.to_string()
    }
}

/// Parses 32 hexadecimal digits.
pub(crate) fn parse_hex(text: &str) -> Option<[u8; 16]> {
    <[u8; 16]>::from_hex(text).ok()
}

/// Returns the name of a log file. The files of a device are numbered from 1.
pub(crate) fn file_name(device: u32, sequence: u64) -> String {
    format!("{FOLDER}/{device:02}-{sequence:010}.log")
}

/// Returns device and sequence number from the name of a log file within its folder.
pub(crate) fn parse_file_name(name: &str) -> Option<(u32, u64)> {
    let (device, sequence) = name.strip_suffix(".log")?.split_once('-')?;
    Some((device.parse().ok()?, sequence.parse().ok()?))
}

/// Returns the name of a bulk file.
pub(crate) fn bulk_name(epoch: u64, number: u64) -> String {
    format!("{FOLDER}/{epoch:06}-{number:06}.bulk")
}

/// Returns whether a name within the folder is that of a bulk file.
pub(crate) fn is_bulk_name(name: &str) -> bool {
    let numbers = name.strip_suffix(".bulk").and_then(|n| n.split_once('-'));
    numbers.is_some_and(|(epoch, number)| [epoch, number].iter().all(|n| n.parse::<u64>().is_ok()))
}

/// A group's number and the position of its first commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogPoint {
    pub(crate) group: u64,
    pub(crate) position: u64,
}

/// The header of a log file, in its first block. It is written with the file's first group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) store: StoreId,
    pub(crate) device: u32,
    /// The epoch: the number of times that the log was opened for writing.
    pub(crate) epoch: u64,
    /// The place where the epoch begins. Groups of older epochs from there on do not count.
    pub(crate) begin: LogPoint,
    /// Everything before this place was durable when the header was written, and the file holds nothing before it.
    pub(crate) lower: LogPoint,
    /// The device's earlier files hold nothing from this place on.
    pub(crate) upper: LogPoint,
    /// A random number that distinguishes the file from others with its name; 0 in format 1.
    pub(crate) nonce: u64,
}

impl FileHeader {
    pub(crate) fn encode(&self, block: &mut [u8]) {
        let mut out = Vec::with_capacity(FILE_HEADER_BYTES);
        out.extend_from_slice(&FILE_MAGIC);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&self.device.to_le_bytes());
        out.extend_from_slice(&self.store.0);
        out.extend_from_slice(&self.epoch.to_le_bytes());
        for place in [self.begin, self.lower, self.upper] {
            out.extend_from_slice(&place.group.to_le_bytes());
            out.extend_from_slice(&place.position.to_le_bytes());
        }
        out.extend_from_slice(&self.nonce.to_le_bytes());
        let checksum = crc32c::crc32c(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        block[..out.len()].copy_from_slice(&out);
    }

    /// Reads the header of a file; `None` if it is missing, incomplete or damaged.
    pub(crate) fn decode(bytes: &[u8], file: &str) -> Result<Option<Self>, LogError> {
        let Some(bytes) = bytes.get(..FILE_HEADER_BYTES) else {
            return Ok(None);
        };
        let mut cursor = ByteReader::at(file, 0, bytes);
        if cursor.array()? != FILE_MAGIC {
            return Ok(None);
        }
        let version = cursor.u32()?;
        if version > FORMAT_VERSION {
            // A newer format, unless the rest is exactly as this program writes it.
            let mut header = bytes.to_vec();
            header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
            if Self::decode(&header, file)?.is_some() {
                return Ok(None);
            }
            return Err(LogError::Version {
                file: file.to_owned(),
                found: version,
                supported: FORMAT_VERSION,
            });
        }
        let device = cursor.u32()?;
        let store = StoreId(cursor.array()?);
        let epoch = cursor.u64()?;
        let mut place = || -> Result<LogPoint, LogError> {
            let group = cursor.u64()?;
            let position = cursor.u64()?;
            Ok(LogPoint { group, position })
        };
        let header = Self {
            store,
            device,
            epoch,
            begin: place()?,
            lower: place()?,
            upper: place()?,
            nonce: if version > 1 { cursor.u64()? } else { 0 },
        };
        let checksum = crc32c::crc32c(&bytes[..FILE_HEADER_BYTES - cursor.remaining()]);
        Ok((cursor.u32()? == checksum).then_some(header))
    }
}

/// The header of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    pub(crate) epoch: u64,
    pub(crate) group: u64,
    /// The highest group that was durable, with all before it, when this one was written.
    pub(crate) durable_before: u64,
    /// The position of its first commit, or of the next commit if it has none.
    pub(crate) position: u64,
    pub(crate) count: u32,
    pub(crate) flags: u32,
    /// Length of the payload in the file.
    pub(crate) stored_bytes: u32,
    /// Length of the payload uncompressed.
    pub(crate) payload_bytes: u32,
}

impl GroupHeader {
    /// Returns the size of the group in the file, in bytes.
    pub(crate) fn total_bytes(&self) -> usize {
        group_bytes(self.stored_bytes as usize)
    }

    /// Writes header and checksum in front of the payload, which is already in `group`.
    pub(crate) fn encode(&self, store: StoreId, group: &mut [u8]) {
        let mut out = Vec::with_capacity(GROUP_HEADER_BYTES);
        out.extend_from_slice(&GROUP_MAGIC);
        out.extend_from_slice(&[0; 4]);
        for number in [
            self.flags,
            self.stored_bytes,
            self.payload_bytes,
            self.count,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.epoch, self.group, self.durable_before, self.position] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        group[..out.len()].copy_from_slice(&out);
        let end = GROUP_HEADER_BYTES + self.stored_bytes as usize;
        let checksum = checksum(store, &group[8..end]);
        group[4..8].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Reads the header of the group that begins here. Also returns whether the group is whole. `None` if no group
    /// begins here.
    pub(crate) fn decode(store: StoreId, bytes: &[u8]) -> Option<(Self, bool)> {
        let mut cursor = ByteReader::at("", 0, bytes);
        if cursor.array().ok()? != GROUP_MAGIC {
            return None;
        }
        let expected = cursor.u32().ok()?;
        let [flags, stored_bytes, payload_bytes, count] =
            [(); 4].map(|()| cursor.u32().unwrap_or(0));
        let [epoch, group, durable_before, position] = [(); 4].map(|()| cursor.u64().unwrap_or(0));
        let header = Self {
            epoch,
            group,
            durable_before,
            position,
            count,
            flags,
            stored_bytes,
            payload_bytes,
        };
        let whole = bytes.get(8..GROUP_HEADER_BYTES + stored_bytes as usize);
        Some((
            header,
            whole.is_some_and(|b| checksum(store, b) == expected),
        ))
    }
}

const _: () = assert!(FILE_HEADER_BYTES == 8 + 4 + 4 + 16 + 8 + 6 * 8 + 8 + 4 + 4);
const _: () = assert!(GROUP_HEADER_BYTES >= 4 + 4 + 4 * 4 + 4 * 8);

/// Returns the size in the file, in bytes, of a group with a payload of this length.
pub(crate) fn group_bytes(stored_bytes: usize) -> usize {
    (GROUP_HEADER_BYTES + stored_bytes).next_multiple_of(BLOCK_BYTES)
}

/// Computes a checksum that covers the store's id too, so that no group is taken for another store's.
pub(crate) fn checksum(store: StoreId, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&store.0), bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header() -> FileHeader {
        let place = |group, position| LogPoint { group, position };
        FileHeader {
            store: StoreId(*b"0123456789abcdef"),
            device: 3,
            epoch: 4,
            begin: place(5, 6),
            lower: place(7, 8),
            upper: place(9, 10),
            nonce: 11,
        }
    }

    #[test]
    fn file_headers_come_back_or_are_none() {
        let mut block = vec![0; BLOCK_BYTES];
        header().encode(&mut block);
        assert_eq!(FileHeader::decode(&block, "a").unwrap(), Some(header()));
        assert_eq!(FileHeader::decode(&[0; 4096], "a").unwrap(), None);
        for bit in (0..FILE_HEADER_BYTES - 4).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
            let mut damaged = block.clone();
            damaged[bit.0] ^= 1 << bit.1;
            let decoded = FileHeader::decode(&damaged, "a");
            assert!(!matches!(decoded, Ok(Some(_))), "bit {bit:?}");
        }
    }

    #[test]
    fn names_come_back() {
        let name = file_name(1, 12);
        assert_eq!(name, "log/01-0000000012.log");
        assert_eq!(parse_file_name(&name[4..]), Some((1, 12)));
        assert!(is_bulk_name(&bulk_name(3, 4)[4..]));
        for other in ["a", "01-0000000012.log.new", "x-1.log", "x-1.bulk"] {
            assert_eq!(parse_file_name(other), None);
            assert!(!is_bulk_name(other));
        }
    }

    #[test]
    fn store_ids_are_text() {
        let id = header().store;
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("12".parse::<StoreId>().is_err());
    }

    proptest! {
        #[test]
        fn group_headers_come_back(numbers: [u32; 3], longs: [u64; 4], payload: Vec<u8>) {
            let header = GroupHeader {
                flags: numbers[0], payload_bytes: numbers[1], count: numbers[2],
                epoch: longs[0], group: longs[1], durable_before: longs[2], position: longs[3],
                stored_bytes: payload.len() as u32,
            };
            let mut bytes = vec![0; header.total_bytes()];
            bytes[GROUP_HEADER_BYTES..GROUP_HEADER_BYTES + payload.len()].copy_from_slice(&payload);
            let store = StoreId([7; 16]);
            header.encode(store, &mut bytes);
            prop_assert_eq!(GroupHeader::decode(store, &bytes), Some((header, true)));
            prop_assert_eq!(GroupHeader::decode(StoreId([8; 16]), &bytes), Some((header, false)));
            let end = GROUP_HEADER_BYTES + payload.len();
            bytes[end - 1] ^= 1;
            prop_assert!(!matches!(GroupHeader::decode(store, &bytes), Some((_, true))) || payload.is_empty());
        }

        #[test]
        fn random_bytes_never_panic(mut bytes: Vec<u8>) {
            let _ = FileHeader::decode(&bytes, "a");
            bytes.splice(0..0, GROUP_MAGIC);
            let _ = GroupHeader::decode(StoreId::default(), &bytes);
            let _ = parse_file_name(&String::from_utf8_lossy(&bytes));
        }
    }
}
