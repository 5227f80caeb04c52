//! Writes of new files: whole aligned blocks, at least a mebibyte at a time, front to back.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::OFlags;

use super::folder::Folder;
use crate::storage::{ALIGNMENT, WriteFile};
use crate::{AlignedBuffer, IoError};

/// Bytes collected before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// A new file of a [`super::DirectStorage`].
pub(super) struct DirectWriter {
    name: String,
    folder: Arc<Folder>,
    file: File,
    /// Has [`BUFFER_BYTES`] bytes, or is empty until needed.
    buffer: AlignedBuffer,
    /// Bytes waiting in `buffer`.
    waiting: usize,
    /// Bytes on the device, a multiple of [`ALIGNMENT`].
    written: u64,
}

impl DirectWriter {
    pub(super) fn create(name: &str, folder: &Arc<Folder>, direct: bool) -> Result<Self, IoError> {
        let created = create_new(name, folder, direct);
        Ok(Self {
            name: name.to_owned(),
            folder: Arc::clone(folder),
            file: created.map_err(|error| IoError::os("create", name, None, error))?,
            buffer: AlignedBuffer::zeroed(0),
            waiting: 0,
            written: 0,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        self.file
            .write_all_at(bytes, self.written)
            .map_err(|e| IoError::os("write", &self.name, Some(self.written), e))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Writes the buffer, padded to whole blocks.
    fn flush(&mut self) -> Result<(), IoError> {
        let padded = self.waiting.next_multiple_of(ALIGNMENT);
        let mut buffer = std::mem::replace(&mut self.buffer, AlignedBuffer::zeroed(0));
        buffer[self.waiting..padded].fill(0);
        let result = self.write(&buffer[..padded]);
        self.buffer = buffer;
        result
    }

    /// Writes the rest and cuts off its padding.
    fn finish(&mut self) -> Result<(), IoError> {
        let length = self.len();
        if self.waiting > 0 {
            self.flush()?;
            self.waiting = 0;
        }
        if self.written != length {
            self.file
                .set_len(length)
                .map_err(|e| IoError::os("set the length of", &self.name, Some(length), e))?;
        }
        Ok(())
    }
}

impl WriteFile for DirectWriter {
    fn append(&mut self, mut bytes: &[u8]) -> Result<(), IoError> {
        let aligned = bytes.as_ptr().addr().is_multiple_of(ALIGNMENT);
        if aligned && self.waiting == 0 && bytes.len() >= BUFFER_BYTES / 2 {
            // Large aligned appends need no copy.
            let whole = bytes.len() - bytes.len() % ALIGNMENT;
            self.write(&bytes[..whole])?;
            bytes = &bytes[whole..];
        }
        if self.buffer.is_empty() && !bytes.is_empty() {
            self.buffer = AlignedBuffer::zeroed(BUFFER_BYTES);
        }
        while !bytes.is_empty() {
            let count = bytes.len().min(BUFFER_BYTES - self.waiting);
            self.buffer[self.waiting..self.waiting + count].copy_from_slice(&bytes[..count]);
            self.waiting += count;
            bytes = &bytes[count..];
            if self.waiting == BUFFER_BYTES {
                self.flush()?;
                self.waiting = 0;
            }
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.written + self.waiting as u64
    }

    fn sync(mut self: Box<Self>) -> Result<(), IoError> {
        self.finish()?;
        self.file
            .sync_data()
            .map_err(|e| IoError::os("sync", &self.name, None, e))?;
        self.folder.sync_name(&self.name)
    }

    fn close(mut self: Box<Self>) -> Result<(), IoError> {
        self.finish()
    }
}

impl fmt::Debug for DirectWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirectWriter({}, {} bytes)", self.name, self.len())
    }
}

/// Creates a file with its folders. An existing file is replaced, not emptied, because readers may have it open.
pub(super) fn create_new(name: &str, folder: &Folder, direct: bool) -> io::Result<File> {
    folder.create_parents(name)?;
    match folder.remove_file(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    if direct {
        match folder.open_file(name, flags | OFlags::DIRECT) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                // The file may have been created before the flag was refused.
                let _ = folder.remove_file(name);
            }
            opened => return opened,
        }
    }
    folder.open_file(name, flags)
}
