//! A checked byte cursor for the structures of files: little-endian integers, variable-length integers (LEB128) and
//! length-prefixed bytes.
//!
//! [`ByteReader`] trusts nothing that it reads: every length is checked against the bytes left before anything is
//! allocated, and an error names the file and the offset. Decoders in loops over a page have code of their own, which says
//! why.

use std::ops::RangeInclusive;

/// Longest encoding of a `u64` as a variable-length integer.
pub const VARINT_BYTES_MAX: usize = 10;

/// A writer that appends values to a byte vector.
#[derive(Debug, Default)]
pub struct ByteWriter {
    bytes: Vec<u8>,
}

impl ByteWriter {
    /// Returns an empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Appends two bytes, little endian.
    pub fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends four bytes, little endian.
    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends eight bytes, little endian.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends LEB128: seven bits per byte, least significant first, the top bit set on all but the last.
    pub fn varint(&mut self, value: u64) {
        push_varint(&mut self.bytes, value);
    }

    /// Appends a length (varint) and that many bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        push_bytes(&mut self.bytes, bytes);
    }

    /// Appends bytes whose number the reader knows.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the number of bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the written bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the written bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the written bytes as a file: a checksum of everything after it, a magic number, the version, and the
    /// bytes.
    pub fn framed(self, magic: &[u8; 8], version: u32) -> Vec<u8> {
        let version = version.to_le_bytes();
        let checksum = crc32c::crc32c(&[&magic[..], &version, &self.bytes].concat());
        [&checksum.to_le_bytes()[..], magic, &version, &self.bytes].concat()
    }
}

/// Appends `value` as LEB128: seven bits per byte, least significant first, the top bit set on all but the last.
#[inline]
pub fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes a LEB128 integer of at most 64 bits off the front of `bytes`. `None`, with `bytes` as they were, if there is
/// none.
#[inline]
pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        if index == VARINT_BYTES_MAX - 1 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

/// Appends a length (varint) and that many bytes.
#[inline]
pub fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Returns the length in bytes of `value` as LEB128.
#[inline]
pub const fn varint_bytes(value: u64) -> usize {
    // 64 - leading zeros of (value | 1) significant bits, seven to a byte.
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Bytes that are not what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BytesError {
    /// Something else was expected at a position.
    #[error("{file}, at byte {position}: {message}")]
    Corrupt {
        /// The file.
        file: String,
        /// The offset in the file of the bytes that the reader was given.
        offset: u64,
        /// The position within these bytes.
        position: usize,
        /// The expected content.
        message: String,
    },
    /// A file has a version that this program does not read.
    #[error("{file}: it has version {found}, and this program reads up to {supported}")]
    Version {
        /// The file.
        file: String,
        /// Its version.
        found: u32,
        /// The latest version that this program reads.
        supported: u32,
    },
}

/// A reader of values from bytes; every read is checked.
#[derive(Clone, Debug)]
pub struct ByteReader<'a> {
    file: &'a str,
    offset: u64,
    bytes: &'a [u8],
    position: usize,
}

impl<'a> ByteReader<'a> {
    /// Returns a reader of `bytes`, which are the content of `file` (for messages).
    pub fn new(file: &'a str, bytes: &'a [u8]) -> Self {
        Self::at(file, 0, bytes)
    }

    /// Returns a reader of `bytes`, which are in `file` at `offset` (for messages).
    pub fn at(file: &'a str, offset: u64, bytes: &'a [u8]) -> Self {
        Self {
            file,
            offset,
            bytes,
            position: 0,
        }
    }

    /// Reads a file made by [`ByteWriter::framed`], if it has this magic number and one of these versions. Returns the
    /// version and a reader of the rest.
    pub fn framed(
        file: &'a str,
        bytes: &'a [u8],
        magic: &[u8; 8],
        versions: RangeInclusive<u32>,
    ) -> Result<(u32, Self), BytesError> {
        let Some((checksum, body)) = bytes.split_first_chunk::<4>() else {
            return Err(Self::new(file, bytes).corrupt("a checksum"));
        };
        let (found, expected) = (u32::from_le_bytes(*checksum), crc32c::crc32c(body));
        if found != expected {
            let expected = format!("the checksum {expected:08x} of its bytes, not {found:08x}");
            return Err(Self::new(file, bytes).corrupt(&expected));
        }
        let mut input = Self::new(file, body);
        if input.raw(magic.len())? != magic {
            return Err(input.corrupt("the mark of a file of this kind"));
        }
        let version = input.u32()?;
        if !versions.contains(&version) {
            return Err(BytesError::Version {
                file: file.to_owned(),
                found: version,
                supported: *versions.end(),
            });
        }
        Ok((version, input))
    }

    /// Returns the offset of the next byte.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns whether everything was read.
    pub fn is_at_end(&self) -> bool {
        self.remaining() == 0
    }

    /// Returns the number of bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Returns an error at the current position: `expected` was not found there.
    pub fn corrupt<E: From<BytesError>>(&self, expected: &str) -> E {
        E::from(BytesError::Corrupt {
            file: self.file.to_owned(),
            offset: self.offset,
            position: self.position,
            message: format!("expected {expected}"),
        })
    }

    /// Reads bytes whose number is known.
    #[inline]
    pub fn raw(&mut self, count: usize) -> Result<&'a [u8], BytesError> {
        let rest = &self.bytes[self.position..];
        if count > rest.len() {
            return Err(self.corrupt(&format!("{count} bytes, {} are left", rest.len())));
        }
        self.position += count;
        Ok(&rest[..count])
    }

    /// Reads an array of bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], BytesError> {
        let mut array = [0; N];
        array.copy_from_slice(self.raw(N)?);
        Ok(array)
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Result<u8, BytesError> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads two bytes, little endian.
    pub fn u16(&mut self) -> Result<u16, BytesError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Reads four bytes, little endian.
    pub fn u32(&mut self) -> Result<u32, BytesError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads eight bytes, little endian.
    pub fn u64(&mut self) -> Result<u64, BytesError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a LEB128 integer of at most 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, BytesError> {
        let mut rest = &self.bytes[self.position..];
        let Some(value) = take_varint(&mut rest) else {
            return Err(self.corrupt("a variable-length integer of at most 64 bits"));
        };
        self.position = self.bytes.len() - rest.len();
        Ok(value)
    }

    /// Reads a varint that counts items of at least `bytes_each` bytes. Fails if they exceed the bytes left, so it is
    /// safe to reserve space for them.
    pub fn count(&mut self, bytes_each: usize) -> Result<usize, BytesError> {
        let count = self.varint()?;
        let most = self.remaining() / bytes_each.max(1);
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(self.corrupt(&format!("at most {most} entries, {count} are announced"))),
        }
    }

    /// Reads a length (varint) and that many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], BytesError> {
        let count = self.count(1)?;
        self.raw(count)
    }

    /// Reads a length (varint) and that many bytes, which are text.
    pub fn text(&mut self) -> Result<&'a str, BytesError> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.corrupt("text in UTF-8 before this place"))
    }

    /// Checks that everything was read.
    pub fn finish(self) -> Result<(), BytesError> {
        match self.remaining() {
            0 => Ok(()),
            _ => Err(self.corrupt("the end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_round_trip(a: u8, b: u16, c: u32, d: u64, v in prop_oneof![any::<u64>(), 0..300u64], s: Vec<u8>) {
            let mut writer = ByteWriter::new();
            writer.u8(a);
            writer.u16(b);
            writer.u32(c);
            writer.u64(d);
            let before = writer.len();
            writer.varint(v);
            prop_assert_eq!(writer.len() - before, varint_bytes(v));
            writer.bytes(&s);
            let bytes = writer.into_bytes();
            let mut reader = ByteReader::new("test", &bytes);
            prop_assert_eq!(reader.u8().unwrap(), a);
            prop_assert_eq!(reader.u16().unwrap(), b);
            prop_assert_eq!(reader.u32().unwrap(), c);
            prop_assert_eq!(reader.u64().unwrap(), d);
            prop_assert_eq!(reader.varint().unwrap(), v);
            prop_assert_eq!(reader.bytes().unwrap(), &s[..]);
            reader.finish().unwrap();
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut reader = ByteReader::new("test", &bytes);
            while reader.varint().is_ok() && reader.bytes().is_ok() {}
            let _ = ByteReader::new("test", &bytes).count(8);
        }
    }

    #[test]
    fn errors_name_file_and_offset() {
        let mut reader = ByteReader::new("directory", &[1, 2]);
        reader.u8().unwrap();
        let message = reader.u32().unwrap_err().to_string();
        assert!(
            message.contains("directory") && message.contains("byte 1"),
            "{message}"
        );
        let overlong = [0xff; 11];
        assert!(ByteReader::new("directory", &overlong).varint().is_err());
    }
}
