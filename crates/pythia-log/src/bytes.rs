//! Integers and lengths within a group: little endian, or varints with seven bits per byte.

use crate::LogError;

/// Appends `value` with seven bits per byte, least significant first. The top bit is set on all bytes but the
/// last.
pub(crate) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length and that many bytes.
pub(crate) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what the functions above wrote. Checks everything; errors say what is wrong, and where.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The file, for messages.
    file: &'a str,
    /// Offset of the bytes in the file.
    offset: u64,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], file: &'a str, offset: u64) -> Self {
        Self {
            bytes,
            at: 0,
            file,
            offset,
        }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Returns the number of bytes left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn error(&self, message: &'static str) -> LogError {
        LogError::Corrupt {
            file: self.file.to_owned(),
            offset: self.offset,
            message: format!("{message} (byte {} of the payload)", self.at),
        }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], LogError> {
        let Some(taken) = self.bytes[self.at..].get(..count) else {
            return Err(self.error("it ends too early"));
        };
        self.at += count;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], LogError> {
        let taken = self.take(N)?;
        let mut array = [0; N];
        array.copy_from_slice(taken);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, LogError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, LogError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, LogError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn varint(&mut self) -> Result<u64, LogError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error("a number is too large"))
    }

    /// Reads a count of items that take at least one byte each.
    pub(crate) fn count(&mut self) -> Result<usize, LogError> {
        match usize::try_from(self.varint()?) {
            Ok(count) if count <= self.left() => Ok(count),
            _ => Err(self.error("a count exceeds what is there")),
        }
    }

    /// Reads a length and that many bytes.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], LogError> {
        let count = self.count()?;
        self.take(count)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, LogError> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.error("text is not UTF-8"))
    }
}
