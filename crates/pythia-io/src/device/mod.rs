//! The real device: a folder of the file system, read with direct I/O past the kernel's cache.
//!
//! The folder is opened once, and all its files are opened in it ([`folder`]). If it is moved, the storage follows
//! it.
//!
//! Reads go through io_uring, many per submission. Where io_uring is refused, they go through a pool of threads
//! that block in `preadv`; where direct I/O is refused (tmpfs, some network file systems), through the kernel's
//! cache. The environment variable `PYTHIA_IO` forces one of these. Writes are large, aligned and sequential.
//! Nothing is ever mapped into memory.

mod folder;
mod log_file;
mod open_files;
mod pread;
#[cfg(test)]
mod tests;
mod transfer;
mod uring;
mod writer;

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::IoError;
use crate::probe::{DeviceIdentity, DeviceProfile, brief};
use crate::storage::{FileVersion, LogFile, ReadFile, ReadRequest, Storage, WriteFile, check_name};
use folder::Folder;
use log_file::DirectLogFile;
use open_files::{DeviceFile, OpenFiles, SharedFile};
use pread::PreadPool;
use transfer::{Failure, Transfer, advise_random};
use uring::RingPool;
use writer::DirectWriter;

/// The way of reading, as set by `PYTHIA_IO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMode {
    /// io_uring and direct I/O, falling back where they are refused.
    #[default]
    Auto,
    /// `uring`: io_uring, or an error.
    Uring,
    /// `pread`: a pool of threads, direct I/O where the file system allows it.
    Pread,
    /// `buffered`: a pool of threads, through the kernel's cache.
    Buffered,
}

impl FromStr for IoMode {
    type Err = IoError;

    fn from_str(text: &str) -> Result<Self, IoError> {
        match text {
            "" | "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "pread" => Ok(Self::Pread),
            "buffered" => Ok(Self::Buffered),
            _ => Err(IoError::ModeUnavailable {
                mode: text.to_owned(),
                reason: "it is not one of auto, uring, pread and buffered".to_owned(),
            }),
        }
    }
}

/// The way a [`DirectStorage`] reads, as determined when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// True if reads go through io_uring, false if through a pool of threads.
    pub uring: bool,
    /// True if reads go past the kernel's cache.
    pub direct: bool,
    /// Reasons why the best way is not used, if it is not.
    pub notes: Vec<String>,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = if self.uring {
            "io_uring"
        } else {
            "pread threads"
        };
        let path = if self.direct { "direct" } else { "buffered" };
        write!(f, "{engine}, {path} I/O")?;
        for note in &self.notes {
            write!(f, " ({note})")?;
        }
        Ok(())
    }
}

enum Engine {
    Uring(RingPool),
    Pread(PreadPool),
}

/// Creates rings if the mode wants them and the system allows them, else a pool of threads. A refusal is added to
/// `notes`.
fn choose_engine(
    mode: IoMode,
    rings: impl FnOnce() -> io::Result<RingPool>,
    notes: &mut Vec<String>,
) -> Result<Engine, IoError> {
    if matches!(mode, IoMode::Auto | IoMode::Uring) {
        match rings() {
            Ok(rings) => return Ok(Engine::Uring(rings)),
            Err(error) if mode == IoMode::Uring => {
                return Err(IoError::ModeUnavailable {
                    mode: "uring".to_owned(),
                    reason: format!("this system refuses io_uring ({error})"),
                });
            }
            Err(error) => notes.push(format!("io_uring is refused: {error}")),
        }
    }
    Ok(Engine::Pread(PreadPool::new()))
}

/// A folder of the file system as a storage.
pub struct DirectStorage {
    folder: Arc<Folder>,
    engine: Engine,
    backend: Backend,
    open_files: Arc<OpenFiles>,
}

impl fmt::Debug for DirectStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DirectStorage({}, {})",
            self.root().display(),
            self.backend
        )
    }
}

impl DirectStorage {
    /// Opens a folder; creates it first if `create` is set. Reads as `PYTHIA_IO` says.
    pub fn open(root: &Path, create: bool) -> Result<Self, IoError> {
        let mode = std::env::var("PYTHIA_IO").unwrap_or_default().parse()?;
        Self::open_with(root, create, mode)
    }

    /// Opens a folder with the given way of reading; creates it first if `create` is set.
    pub fn open_with(root: &Path, create: bool, mode: IoMode) -> Result<Self, IoError> {
        let folder = Folder::open(root, create)?;
        let mut notes = Vec::new();
        let engine = choose_engine(mode, RingPool::new, &mut notes)?;
        let direct = mode != IoMode::Buffered && {
            let refused = direct_refused(folder.file());
            notes.extend(refused.iter().cloned());
            refused.is_none()
        };
        let backend = Backend {
            uring: matches!(engine, Engine::Uring(_)),
            direct,
            notes,
        };
        Ok(Self {
            folder: Arc::new(folder),
            engine,
            backend,
            open_files: OpenFiles::of_process(),
        })
    }

    /// Returns how this storage reads.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Returns the path the folder was opened with; the folder may have been moved since.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Removes the folder, if nothing is in it.
    pub fn remove_if_empty(&self) {
        let _ = std::fs::remove_dir(self.root());
    }

    /// Returns the device that the folder is on; `None` if the system does not say.
    pub fn identity(&self) -> Option<DeviceIdentity> {
        DeviceIdentity::of_file(self.folder.file()).ok()
    }

    /// Locks a file of the folder, also against other storages of this process. Creates the file if it is missing.
    /// `None` if another holder has it locked. The lock ends with the returned value, or with the process.
    pub fn try_lock(&self, name: &str, kind: LockKind) -> Result<Option<FolderLock>, IoError> {
        check_name(name)?;
        let file = self.folder.open_file(name, OFlags::RDWR | OFlags::CREATE);
        let file = file.map_err(|error| IoError::os("open", name, None, error))?;
        FolderLock::of(file, kind).map_err(|error| IoError::os("lock", name, None, error))
    }

    /// Locks the folder itself. A lock file could be replaced while processes hold its lock; a folder that they have
    /// open could not. Does nothing where the file system cannot lock folders.
    pub fn try_lock_folder(&self, kind: LockKind) -> Result<Option<FolderLock>, IoError> {
        const REFUSED: [i32; 3] = [libc::ENOTSUP, libc::EBADF, libc::EINVAL];
        let shown = self.root().display().to_string();
        let os = |error| IoError::os("lock", &shown, None, error);
        let folder = self.folder.reopened().map_err(os)?;
        match FolderLock::of(folder, kind) {
            Err(error)
                if error
                    .raw_os_error()
                    .is_some_and(|code| REFUSED.contains(&code)) =>
            {
                Ok(Some(FolderLock { _file: None }))
            }
            locked => locked.map_err(os),
        }
    }

    /// Measures the device for about 150 milliseconds by reading a file of the folder. `None` if the file is
    /// too small or the machine too busy for a result, or if reads go through the kernel's cache.
    pub fn measure_briefly(&self, name: &str) -> Result<Option<DeviceProfile>, IoError> {
        if !self.backend.direct {
            return Ok(None);
        }
        check_name(name)?;
        self.folder
            .open_file(name, OFlags::RDONLY | OFlags::DIRECT)
            .and_then(|file| brief(&file))
            .map_err(|error| IoError::os("measure the device by reading", name, None, error))
    }

    /// Checks a name that is about to be replaced or removed. Files open under it are kept open.
    fn check_replaced(&self, name: &str) -> Result<(), IoError> {
        check_name(name)?;
        let kept = self.open_files.keep(&self.folder, name);
        kept.map_err(|e| IoError::os("keep open", name, None, e))
    }

    fn read_with_engine(
        &self,
        reads: &mut [ReadRequest<'_>],
    ) -> Result<Result<(), Failure>, IoError> {
        let transfers = Transfer::split(reads, |read| {
            let file = device_file(read)?;
            file.handle().map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => IoError::Gone {
                    name: read.file.name().to_owned(),
                },
                _ => IoError::os("open", read.file.name(), None, error),
            })
        })?;
        Ok(match &self.engine {
            Engine::Uring(rings) => rings.read(transfers),
            Engine::Pread(pool) => pool.read(transfers),
        })
    }
}

impl Storage for DirectStorage {
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>, IoError> {
        check_name(name)?;
        let file = DeviceFile::open(name, &self.folder, self.backend.direct, &self.open_files)
            .map_err(|e| IoError::os("open", name, None, e))?;
        Ok(Arc::new(SharedFile(file)))
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>, IoError> {
        self.check_replaced(name)?;
        let writer = DirectWriter::create(name, &self.folder, self.backend.direct)?;
        Ok(Box::new(writer))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>, IoError> {
        self.check_replaced(name)?;
        let file = DirectLogFile::create(name, &self.folder, self.backend.direct, bytes)?;
        Ok(Box::new(file))
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>, IoError> {
        check_name(name)?;
        let file = DirectLogFile::open(name, &self.folder, self.backend.direct)?;
        Ok(Box::new(file))
    }

    fn read_batch(&self, reads: &mut [ReadRequest<'_>]) -> Result<(), IoError> {
        loop {
            let Err(failure) = self.read_with_engine(reads)? else {
                return Ok(());
            };
            let read = &reads[failure.request];
            let file = device_file(read)?;
            let invalid = failure.error.raw_os_error() == Some(libc::EINVAL);
            // Some file systems accept O_DIRECT when a file is opened, but refuse it when it is read.
            if invalid && file.give_up_direct(&failure.handle) {
                continue;
            }
            if failure.error.kind() == io::ErrorKind::UnexpectedEof {
                return Err(IoError::UnexpectedEnd {
                    name: read.file.name().to_owned(),
                    offset: read.offset,
                    wanted: read.buffer.len() as u64,
                    length: file.length_now(),
                });
            }
            return Err(IoError::os(
                "read",
                read.file.name(),
                Some(read.offset),
                failure.error,
            ));
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), IoError> {
        self.check_replaced(from)?;
        self.check_replaced(to)?;
        let renamed = self.folder.rename(from, to);
        renamed.map_err(|error| IoError::os("rename", from, None, error))?;
        self.folder.sync_name(to)?;
        if folder_of(from) != folder_of(to) {
            self.folder.sync_name(from)?;
        }
        Ok(())
    }

    fn sync_names(&self) -> Result<(), IoError> {
        self.folder.sync(&self.root().display().to_string())
    }

    fn remove(&self, name: &str) -> Result<(), IoError> {
        self.check_replaced(name)?;
        match self.folder.remove(name) {
            Ok(()) => self.folder.sync_name(name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(IoError::os("remove", name, None, error)),
        }
    }

    fn place(&self) -> Option<String> {
        Some(self.root().display().to_string())
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, IoError> {
        if !folder.is_empty() {
            check_name(folder)?;
        }
        let names = self.folder.list(folder);
        let mut names = names.map_err(|e| IoError::os("list folder", folder, None, e))?;
        names.sort_unstable();
        Ok(names)
    }

    fn read_all(&self, name: &str) -> Result<Vec<u8>, IoError> {
        check_name(name)?;
        let read = || {
            let mut bytes = Vec::new();
            let mut file = self.folder.open_file(name, OFlags::RDONLY)?;
            io::Read::read_to_end(&mut file, &mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|error| IoError::os("read", name, None, error))
    }

    fn version(&self, name: &str) -> Result<Option<FileVersion>, IoError> {
        check_name(name)?;
        let stat = self.folder.stat(name);
        let stat = stat.map_err(|error| IoError::os("look at", name, None, error))?;
        let nanoseconds = stat.st_mtime.checked_mul(1_000_000_000);
        Ok(nanoseconds.map(|seconds| FileVersion {
            number: stat.st_ino,
            written_ns: seconds + stat.st_mtime_nsec,
        }))
    }
}

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Others may hold a shared lock too.
    Shared,
    /// No other lock may be held at the same time.
    Exclusive,
}

/// A lock on a folder or on a file in it. It ends with the value, or with the process.
#[derive(Debug)]
pub struct FolderLock {
    _file: Option<File>,
}

impl FolderLock {
    fn of(file: File, kind: LockKind) -> io::Result<Option<Self>> {
        let locked = match kind {
            LockKind::Shared => file.try_lock_shared(),
            LockKind::Exclusive => file.try_lock(),
        };
        match locked {
            Ok(()) => Ok(Some(Self { _file: Some(file) })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Returns the folder that a file is in.
fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn device_file<'r>(read: &ReadRequest<'r>) -> Result<&'r Arc<DeviceFile>, IoError> {
    let file: &'r dyn ReadFile = read.file;
    let shared = file.as_any().downcast_ref::<SharedFile>();
    shared
        .map(|SharedFile(file)| file)
        .ok_or_else(|| IoError::ForeignFile {
            name: file.name().to_owned(),
        })
}

pub(crate) fn open_direct(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
}

fn open_buffered(path: &str) -> io::Result<File> {
    let file = File::open(path)?;
    advise_random(file.as_raw_fd());
    Ok(file)
}

/// Returns why the file system of a folder refuses direct I/O, if it does. Tries it on a new file without a name.
/// A folder that cannot be written counts as willing; each file is then tried when it is opened.
pub(crate) fn direct_refused(folder: &File) -> Option<String> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    match rustix::fs::openat(folder, ".", flags, mode) {
        Err(rustix::io::Errno::INVAL) => Some(
            "the file system refuses direct I/O, reads go through the kernel's cache".to_owned(),
        ),
        _ => None,
    }
}
