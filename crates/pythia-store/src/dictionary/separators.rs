//! Separators of pages, in memory: each is above every key before its page, and not above the page's first key.
//!
//! A separator is the shortest such prefix of the page's first key, cut off at [`SEPARATOR_BYTES_MAX`] so that long
//! common prefixes cannot fill the memory (pages with equal, cut separators are told apart by reading them).
//! Separators are front-coded in blocks: IRIs of one namespace differ only at their ends.

use std::cmp::Ordering;

use pythia_io::bytes::{ByteReader, ByteWriter, push_varint};

use super::common_prefix;
use crate::StoreError;

/// Longest separator.
pub(super) const SEPARATOR_BYTES_MAX: usize = 512;

/// Separators from one that is stored whole to the next.
const BLOCK: usize = 16;

/// Separators in order, front-coded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Separators {
    count: usize,
    /// Start of each block in `bytes`.
    blocks: Vec<usize>,
    /// Per separator: shared bytes (varint, 0 at the start of a block), length of the rest
    /// (varint), the rest.
    bytes: Vec<u8>,
    last: Vec<u8>,
}

/// Returns the separator of a page that starts with `key` where the previous page ends with `before`.
pub(super) fn separator<'k>(before: &[u8], key: &'k [u8]) -> &'k [u8] {
    let length = common_prefix(before, key) + 1;
    &key[..length.min(key.len()).min(SEPARATOR_BYTES_MAX)]
}

impl Separators {
    /// Adds the next separator.
    pub(super) fn push(&mut self, separator: &[u8]) {
        let mut shared = 0;
        if self.count.is_multiple_of(BLOCK) {
            self.blocks.push(self.bytes.len());
        } else {
            shared = common_prefix(&self.last, separator);
        }
        push_varint(&mut self.bytes, shared as u64);
        push_varint(&mut self.bytes, (separator.len() - shared) as u64);
        self.bytes.extend_from_slice(&separator[shared..]);
        self.last.clear();
        self.last.extend_from_slice(separator);
        self.count += 1;
    }

    /// Returns the bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.blocks.len() * size_of::<usize>()
    }

    /// Returns the number of separators that compare to `key` as `most` or less.
    pub(super) fn partition(&self, key: &[u8], most: Ordering) -> usize {
        let within = self.blocks.partition_point(|&start| {
            let (_, first, _) = self.entry(start);
            first.cmp(key) <= most
        });
        let Some(block) = within.checked_sub(1) else {
            return 0;
        };
        let (_, first, mut position) = self.entry(self.blocks[block]);
        let mut matched = common_prefix(first, key);
        let mut index = block * BLOCK + 1;
        let end = (block * BLOCK + BLOCK).min(self.count);
        while index < end {
            let (shared, rest, next) = self.entry(position);
            // As in a page: an entry that shares more with its predecessor than the key does is on the same side of
            // the key; one that shares less is above it.
            match shared.cmp(&matched) {
                Ordering::Greater => {}
                Ordering::Less => break,
                Ordering::Equal => {
                    let key_rest = &key[matched..];
                    if rest.cmp(key_rest) > most {
                        break;
                    }
                    matched += common_prefix(rest, key_rest);
                }
            }
            position = next;
            index += 1;
        }
        index
    }

    /// Returns the shared length and the rest of the separator at `position` in the bytes, and the position of the
    /// next.
    #[inline]
    fn entry(&self, position: usize) -> (usize, &[u8], usize) {
        let (shared, position) = self.length(position);
        let (length, position) = self.length(position);
        let end = position + length;
        (shared, &self.bytes[position..end], end)
    }

    /// Reads a varint of at most [`SEPARATOR_BYTES_MAX`], written by [`Self::push`]. Tuned, instead of
    /// [`pythia_io::bytes::take_varint`]: every lookup of a term reads two for each separator of a block, and the bytes
    /// are this program's own, in memory, so there is nothing to check.
    #[inline]
    fn length(&self, position: usize) -> (usize, usize) {
        let byte = usize::from(self.bytes[position]);
        if byte < 0x80 {
            (byte, position + 1)
        } else {
            let high = usize::from(self.bytes[position + 1]);
            (byte & 0x7f | high << 7, position + 2)
        }
    }

    /// Calls `f` with all separators, in order.
    pub(super) fn for_each(&self, mut f: impl FnMut(&[u8])) {
        let mut separator = Vec::new();
        let mut position = 0;
        for _ in 0..self.count {
            let (shared, rest, next) = self.entry(position);
            separator.truncate(shared);
            separator.extend_from_slice(rest);
            position = next;
            f(&separator);
        }
    }

    /// Appends the separators' bytes; the reader must know their number.
    pub(super) fn encode(&self, writer: &mut ByteWriter) {
        let mut before = Vec::new();
        self.for_each(|separator| {
            let shared = common_prefix(&before, separator);
            writer.varint(shared as u64);
            writer.bytes(&separator[shared..]);
            before.clear();
            before.extend_from_slice(separator);
        });
    }

    /// Reads `count` separators.
    pub(super) fn decode(reader: &mut ByteReader<'_>, count: usize) -> Result<Self, StoreError> {
        let mut separators = Self::default();
        let mut separator = Vec::new();
        for index in 0..count {
            let shared = reader.varint()?;
            let rest = reader.bytes()?;
            let shared = usize::try_from(shared)
                .ok()
                .filter(|&shared| shared <= separator.len())
                .filter(|&shared| shared + rest.len() <= SEPARATOR_BYTES_MAX)
                .ok_or_else(|| {
                    reader.corrupt::<StoreError>("a separator of at most 512 bytes before this")
                })?;
            separator.truncate(shared);
            separator.extend_from_slice(rest);
            if index == 0 && !separator.is_empty() {
                return Err(reader.corrupt("an empty first separator before this place"));
            }
            if separator < separators.last {
                return Err(reader.corrupt("separators in order before this place"));
            }
            separators.push(&separator);
        }
        Ok(separators)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_agree_with_a_sorted_vector(
            mut strings in prop::collection::vec("[ab]{0,6}|[ab]{0,2}x{130,140}[ab]{0,3}", 1..80),
            keys in prop::collection::vec("[ab]{0,7}|[ab]{0,2}x{130,140}[ab]{0,3}", 1..40),
        ) {
            strings.push(String::new());
            strings.sort_unstable();
            let mut separators = Separators::default();
            for string in &strings {
                separators.push(string.as_bytes());
            }
            let mut writer = ByteWriter::new();
            separators.encode(&mut writer);
            let mut reader = ByteReader::new("test", writer.as_slice());
            prop_assert_eq!(&Separators::decode(&mut reader, strings.len()).unwrap(), &separators);
            for key in keys.iter().chain(&strings) {
                prop_assert_eq!(
                    separators.partition(key.as_bytes(), Ordering::Less),
                    strings.partition_point(|string| string < key)
                );
                prop_assert_eq!(
                    separators.partition(key.as_bytes(), Ordering::Equal),
                    strings.partition_point(|string| string <= key)
                );
            }
        }

        #[test]
        fn a_separator_divides(a: Vec<u8>, b: Vec<u8>) {
            let (a, b) = if a < b { (a, b) } else { (b, a) };
            prop_assume!(a != b);
            let separator = separator(&a, &b);
            prop_assert!(&a[..] < separator && separator <= &b[..]);
        }
    }
}
