//! Log files: allocated by writing zeros, and then written in place past the kernel's cache, so that making a
//! write durable changes no metadata of the file system.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;

use super::folder::Folder;
use super::writer::create_new;
use crate::storage::{ALIGNMENT, LogFile, check_log_write};
use crate::{AlignedBuffer, IoError};

/// Zeros written at once, in bytes.
const ZERO_BYTES: usize = 1 << 20;

/// A log file of a [`super::DirectStorage`].
#[derive(Debug)]
pub(super) struct DirectLogFile {
    name: String,
    file: File,
    length: u64,
}

impl DirectLogFile {
    pub(super) fn create(
        name: &str,
        folder: &Folder,
        direct: bool,
        bytes: u64,
    ) -> Result<Self, IoError> {
        let created = create_new(name, folder, direct);
        let log = Self {
            name: name.to_owned(),
            file: created.map_err(|error| IoError::os("create", name, None, error))?,
            length: bytes.next_multiple_of(ALIGNMENT as u64),
        };
        let allocated = log.write_zeros().and_then(|()| folder.sync_name(name));
        if let Err(error) = allocated {
            // An incomplete log file is useless and takes space that is already missing.
            let _ = folder.remove_file(name);
            return Err(error);
        }
        Ok(log)
    }

    pub(super) fn open(name: &str, folder: &Folder, direct: bool) -> Result<Self, IoError> {
        let os = |error| IoError::os("open", name, None, error);
        let opened = match direct {
            true => folder.open_file(name, OFlags::WRONLY | OFlags::DIRECT),
            false => folder.open_file(name, OFlags::WRONLY),
        };
        let file = match opened {
            Err(error) if direct && error.raw_os_error() == Some(libc::EINVAL) => {
                folder.open_file(name, OFlags::WRONLY)
            }
            opened => opened,
        };
        let file = file.map_err(os)?;
        Ok(Self {
            name: name.to_owned(),
            length: file.metadata().map_err(os)?.len(),
            file,
        })
    }

    fn write_zeros(&self) -> Result<(), IoError> {
        let zeros = AlignedBuffer::zeroed(ZERO_BYTES.min(self.length as usize));
        let mut offset = 0;
        while offset < self.length {
            let count = (self.length - offset).min(zeros.len() as u64);
            self.write_at(offset, &zeros[..count as usize])?;
            offset += count;
        }
        self.sync()
    }
}

impl LogFile for DirectLogFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        check_log_write(&self.name, self.length, offset, bytes)?;
        self.file
            .write_all_at(bytes, offset)
            .map_err(|e| IoError::os("write", &self.name, Some(offset), e))
    }

    fn sync(&self) -> Result<(), IoError> {
        self.file
            .sync_data()
            .map_err(|e| IoError::os("sync", &self.name, None, e))
    }

    fn trim(&self, bytes: u64) -> Result<(), IoError> {
        let trimmed = self.file.set_len(bytes).and_then(|()| self.file.sync_all());
        trimmed.map_err(|e| IoError::os("set the length of", &self.name, Some(bytes), e))
    }
}
