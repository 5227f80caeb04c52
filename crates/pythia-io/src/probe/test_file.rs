//! A file for measurements.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::stream::{self, Measurements, Transfer};
use super::{DeviceIdentity, free_bytes};
use crate::device::direct_refused;
use crate::{AlignedBuffer, IoError};

/// The smallest useful size of a test file, in bytes.
pub const TEST_FILE_BYTES_MIN: u64 = 16 << 20;
/// Share of the free space that is left alone, as a divisor.
const LEFT_FREE: u64 = 10;
/// Size and depth of the writes that fill the file.
const FILL_BYTES: usize = 1 << 20;
const FILL_DEPTH: usize = 4;

/// A file filled with random bytes, without a name: the system removes it when it is closed, also when the process
/// is killed.
#[derive(Debug)]
pub struct TestFile {
    folder: PathBuf,
    file: File,
    /// The same file, opened so that each write goes through to the device.
    synchronous: File,
    bytes: u64,
    /// The reason why reads and writes go through the kernel's cache, if they do.
    not_direct: Option<String>,
    fill: Measurements,
}

impl TestFile {
    /// Creates a file in `folder` and fills it. It has the requested size, or nine tenths of the free space if
    /// that is less.
    ///
    /// # Errors
    /// If the folder is missing, is not writable, or has no room for 16 MiB.
    pub fn create(folder: &Path, bytes: u64) -> Result<Self, IoError> {
        let name = folder.display().to_string();
        let os = |action| {
            let name = name.clone();
            move |error| IoError::os(action, &name, None, error)
        };
        if !fs::metadata(folder).map_err(os("open"))?.is_dir() {
            return Err(os("open")(io::ErrorKind::NotADirectory.into()));
        }
        let free = free_bytes(folder).map_err(os("look at the free space of"))?;
        let room = free - free / LEFT_FREE;
        if room < TEST_FILE_BYTES_MIN {
            return Err(IoError::DiskFull {
                action: "make a test file of 16 MiB",
                name,
                offset: 0,
            });
        }
        let bytes = bytes.clamp(TEST_FILE_BYTES_MIN, room) / FILL_BYTES as u64 * FILL_BYTES as u64;
        let refused = direct_refused(&File::open(folder).map_err(os("open"))?);
        let direct = if refused.is_none() { libc::O_DIRECT } else { 0 };
        let kind = DeviceIdentity::of(folder).map_err(os("open"))?.file_system;
        let is_memory = matches!(kind.as_str(), "tmpfs" | "ramfs");
        let not_direct = refused.or(is_memory.then(|| format!("{kind} keeps files in memory")));
        let file = nameless(folder, direct).map_err(os("make a test file in"))?;
        let synchronous =
            again(&file, direct | libc::O_SYNC).map_err(os("open again a file of"))?;
        let fill = fill(&file, bytes).map_err(os("write a test file in"))?;
        file.sync_all().map_err(os("sync a test file in"))?;
        Ok(Self {
            folder: folder.to_owned(),
            file,
            synchronous,
            bytes,
            not_direct,
            fill,
        })
    }

    /// Writes new contents, a mebibyte at a time. `fill` gets the offset and the bytes to set.
    pub fn rewrite(&self, mut fill: impl FnMut(u64, &mut [u8])) -> Result<(), IoError> {
        let mut buffer = AlignedBuffer::zeroed(FILL_BYTES);
        for offset in (0..self.bytes).step_by(FILL_BYTES) {
            fill(offset, &mut buffer);
            self.file.write_all_at(&buffer, offset).map_err(|error| {
                let name = self.folder.display().to_string();
                IoError::os("write a test file in", &name, Some(offset), error)
            })?;
        }
        Ok(())
    }

    /// Returns the folder that the file is in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the file's length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the file, opened past the kernel's cache if the file system allows that.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the file, opened so that each write waits for the device (`O_SYNC`).
    pub fn synchronous(&self) -> &File {
        &self.synchronous
    }

    /// Returns the reason why the figures are those of the kernel's cache, if they are.
    pub fn not_direct(&self) -> Option<&str> {
        self.not_direct.as_deref()
    }

    /// Returns the measurements of filling the file with large sequential writes.
    pub fn fill(&self) -> &Measurements {
        &self.fill
    }
}

/// Creates a file without a name, or one whose name is removed as soon as it is open.
fn nameless(folder: &Path, direct: libc::c_int) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let nameless = options.custom_flags(direct | libc::O_TMPFILE).open(folder);
    match nameless {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {}
        opened => return opened,
    }
    let path = folder.join(format!(".pythia-probe-{}", std::process::id()));
    let file = options.custom_flags(direct).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Opens a file without a name once more, with other flags.
fn again(file: &File, flags: libc::c_int) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn fill(file: &File, bytes: u64) -> io::Result<Measurements> {
    let mut offset = 0;
    stream::run(file, FILL_DEPTH, FILL_BYTES, &mut || {
        let now = Transfer {
            offset,
            bytes: FILL_BYTES,
            write: true,
        };
        offset += FILL_BYTES as u64;
        (now.offset < bytes).then_some(now)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_filled_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = TestFile::create(folder.path(), 1).unwrap();
        assert_eq!(file.bytes(), TEST_FILE_BYTES_MIN);
        assert_eq!(file.file().metadata().unwrap().len(), file.bytes());
        assert_eq!(file.fill().samples.len(), 16);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(file.folder(), folder.path());
        file.rewrite(|offset, bytes| bytes.fill((offset >> 20) as u8))
            .unwrap();
        let mut last = AlignedBuffer::zeroed(4096);
        file.file()
            .read_exact_at(&mut last, file.bytes() - 4096)
            .unwrap();
        assert_eq!(last[4095], 15);
    }

    #[test]
    fn folders_that_are_not_there_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let error = TestFile::create(&missing, 1).unwrap_err().to_string();
        assert!(error.contains("missing: no such file or folder"), "{error}");
        fs::write(folder.path().join("file"), "text").unwrap();
        let error = TestFile::create(&folder.path().join("file"), 1).unwrap_err();
        assert!(error.to_string().contains("file: cannot open"), "{error}");
    }
}
