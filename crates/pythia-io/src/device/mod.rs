//! The real device: a folder of the file system, read with direct I/O past the kernel's cache.
//!
//! Reads go through io_uring, many per submission; where that is refused, through a pool of threads
//! that block in `preadv`; where direct I/O is refused (tmpfs, some network file systems), through
//! the kernel's cache. The environment variable `PYTHIA_IO` forces one of these.
//! Writes are large, aligned and sequential. Nothing is ever mapped into memory.

mod log_file;
mod pread;
#[cfg(test)]
mod tests;
mod transfer;
mod uring;
mod writer;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use crate::IoError;
use crate::probe::{DeviceIdentity, DeviceProfile, brief};
use crate::storage::{FileVersion, LogFile, ReadFile, ReadRequest, Storage, WriteFile, check_name};
use log_file::DirectLogFile;
use pread::PreadPool;
use transfer::{Failure, Transfer, advise_random};
use uring::RingPool;
use writer::DirectWriter;

/// How to read: what `PYTHIA_IO` says.
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

/// How a [`DirectStorage`] reads, found out when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Whether reads go through io_uring, else through a pool of threads.
    pub uring: bool,
    /// Whether reads go past the kernel's cache.
    pub direct: bool,
    /// Why the best way is not taken, if it is not.
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

/// Rings where they are wanted and allowed, else threads; `notes` says why if they are not allowed.
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

/// A folder of the file system.
pub struct DirectStorage {
    root: PathBuf,
    engine: Engine,
    backend: Backend,
}

impl fmt::Debug for DirectStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DirectStorage({}, {})",
            self.root.display(),
            self.backend
        )
    }
}

impl DirectStorage {
    /// Opens a folder, creating it if `create`; reads as `PYTHIA_IO` says.
    pub fn open(root: &Path, create: bool) -> Result<Self, IoError> {
        let mode = std::env::var("PYTHIA_IO").unwrap_or_default().parse()?;
        Self::open_with(root, create, mode)
    }

    /// Opens a folder, creating it if `create`, with the given way of reading.
    pub fn open_with(root: &Path, create: bool, mode: IoMode) -> Result<Self, IoError> {
        let shown = root.display().to_string();
        if create && !root.exists() {
            fs::create_dir_all(root).map_err(|e| IoError::os("create folder", &shown, None, e))?;
            // The new folder's own name should survive a crash like all in it.
            if let Some(parent) = root.parent().filter(|parent| *parent != Path::new("")) {
                sync_folder(parent, &shown)?;
            }
        }
        let metadata = fs::metadata(root).map_err(|e| IoError::os("open", &shown, None, e))?;
        if !metadata.is_dir() {
            return Err(IoError::os(
                "open",
                &shown,
                None,
                io::ErrorKind::NotADirectory.into(),
            ));
        }
        let mut notes = Vec::new();
        let engine = choose_engine(mode, RingPool::new, &mut notes)?;
        let direct = mode != IoMode::Buffered && {
            let refused = direct_refused(root);
            notes.extend(refused.iter().cloned());
            refused.is_none()
        };
        let backend = Backend {
            uring: matches!(engine, Engine::Uring(_)),
            direct,
            notes,
        };
        Ok(Self {
            root: root.to_owned(),
            engine,
            backend,
        })
    }

    /// How this storage reads.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The device the folder is on; `None` where the system does not tell.
    pub fn identity(&self) -> Option<DeviceIdentity> {
        DeviceIdentity::of(&self.root).ok()
    }

    /// Measures the device for about a quarter of a second by reading a file of the folder. `None`
    /// if the file is too small, or the machine too busy, to tell, or reads go through the kernel's
    /// cache.
    pub fn measure_briefly(&self, name: &str) -> Result<Option<DeviceProfile>, IoError> {
        if !self.backend.direct {
            return Ok(None);
        }
        open_direct(&self.path(name)?)
            .and_then(|file| brief(&self.root, &file))
            .map_err(|error| IoError::os("measure the device by reading", name, None, error))
    }

    fn path(&self, name: &str) -> Result<PathBuf, IoError> {
        check_name(name)?;
        Ok(self.root.join(name))
    }

    fn read_with_engine(
        &self,
        reads: &mut [ReadRequest<'_>],
    ) -> Result<Result<(), Failure>, IoError> {
        let transfers = Transfer::split(reads, |read| Ok(device_file(read)?.descriptor()))?;
        Ok(match &self.engine {
            Engine::Uring(rings) => rings.read(transfers),
            Engine::Pread(pool) => pool.read(transfers),
        })
    }
}

impl Storage for DirectStorage {
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>, IoError> {
        let path = self.path(name)?;
        let file = DeviceFile::open(name, path, self.backend.direct)
            .map_err(|e| IoError::os("open", name, None, e))?;
        Ok(Arc::new(file))
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>, IoError> {
        let path = self.path(name)?;
        let writer = DirectWriter::create(name, path, &self.root, self.backend.direct)?;
        Ok(Box::new(writer))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>, IoError> {
        let path = self.path(name)?;
        let file = DirectLogFile::create(name, &path, &self.root, self.backend.direct, bytes)?;
        Ok(Box::new(file))
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>, IoError> {
        let file = DirectLogFile::open(name, &self.path(name)?, self.backend.direct)?;
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
            // Some file systems accept O_DIRECT when opening and refuse it when reading.
            if invalid && file.give_up_direct(failure.fd) {
                continue;
            }
            if failure.error.kind() == io::ErrorKind::UnexpectedEof {
                return Err(IoError::UnexpectedEnd {
                    name: file.name.clone(),
                    offset: read.offset,
                    wanted: read.buffer.len() as u64,
                    length: fs::metadata(&file.path).map_or(0, |metadata| metadata.len()),
                });
            }
            return Err(IoError::os(
                "read",
                &file.name,
                Some(read.offset),
                failure.error,
            ));
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), IoError> {
        let (source, target) = (self.path(from)?, self.path(to)?);
        fs::rename(&source, &target).map_err(|e| IoError::os("rename", from, None, e))?;
        sync_folders(&target, &self.root, to)?;
        if source.parent() != target.parent() {
            sync_folders(&source, &self.root, from)?;
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), IoError> {
        let path = self.path(name)?;
        let removed = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match removed {
            Ok(()) => sync_folders(&path, &self.root, name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(IoError::os("remove", name, None, error)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, IoError> {
        let path = if folder.is_empty() {
            self.root.clone()
        } else {
            self.path(folder)?
        };
        let os = |error| IoError::os("list folder", folder, None, error);
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(os)? {
            names.push(
                entry
                    .map_err(os)?
                    .file_name()
                    .to_string_lossy()
                    .into_owned(),
            );
        }
        names.sort_unstable();
        Ok(names)
    }

    fn read_all(&self, name: &str) -> Result<Vec<u8>, IoError> {
        fs::read(self.path(name)?).map_err(|e| IoError::os("read", name, None, e))
    }

    fn version(&self, name: &str) -> Result<Option<FileVersion>, IoError> {
        let metadata = fs::metadata(self.path(name)?);
        let metadata = metadata.map_err(|e| IoError::os("look at", name, None, e))?;
        let nanoseconds = metadata.mtime().checked_mul(1_000_000_000);
        Ok(nanoseconds.map(|seconds| FileVersion {
            number: metadata.ino(),
            written_ns: seconds + metadata.mtime_nsec(),
        }))
    }
}

/// A file open for reading.
#[derive(Debug)]
struct DeviceFile {
    name: String,
    path: PathBuf,
    length: u64,
    /// Open for direct I/O, where that was allowed, else through the kernel's cache.
    file: File,
    direct: bool,
    /// The same file opened through the kernel's cache, once direct reads have been refused.
    buffered: OnceLock<File>,
}

impl DeviceFile {
    fn open(name: &str, path: PathBuf, direct: bool) -> io::Result<Self> {
        let (file, direct) = if direct {
            match open_direct(&path) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    (open_buffered(&path)?, false)
                }
                opened => (opened?, true),
            }
        } else {
            (open_buffered(&path)?, false)
        };
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Self {
            name: name.to_owned(),
            path,
            length: metadata.len(),
            file,
            direct,
            buffered: OnceLock::new(),
        })
    }

    fn descriptor(&self) -> RawFd {
        self.buffered.get().unwrap_or(&self.file).as_raw_fd()
    }

    /// Goes on through the kernel's cache after a read of `refused` has failed; false if that was
    /// not direct, or is not possible.
    fn give_up_direct(&self, refused: RawFd) -> bool {
        if !self.direct || refused != self.file.as_raw_fd() {
            return false;
        }
        if self.buffered.get().is_some() {
            return true; // Another thread was first.
        }
        // The name may mean another file by now, the descriptor does not.
        let same = PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        match open_buffered(&same).or_else(|_| open_buffered(&self.path)) {
            Ok(file) => {
                let _ = self.buffered.set(file);
                true
            }
            Err(_) => false,
        }
    }
}

impl ReadFile for DeviceFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

fn device_file<'r>(read: &ReadRequest<'r>) -> Result<&'r DeviceFile, IoError> {
    let file: &'r dyn ReadFile = read.file;
    file.as_any()
        .downcast_ref()
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

fn open_buffered(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    advise_random(file.as_raw_fd());
    Ok(file)
}

/// Says why the file system of a folder refuses direct I/O, if it does: tries it on a nameless new
/// file. A folder we cannot write to counts as willing; each file is tried when it is opened.
pub(crate) fn direct_refused(root: &Path) -> Option<String> {
    let attempt = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT | libc::O_TMPFILE)
        .mode(0o600)
        .open(root);
    match attempt {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Some(
            "the file system refuses direct I/O, reads go through the kernel's cache".to_owned(),
        ),
        _ => None,
    }
}

/// Makes the entries of the folders from the file at `path` up to the root durable.
fn sync_folders(path: &Path, root: &Path, name: &str) -> Result<(), IoError> {
    for folder in path.ancestors().skip(1) {
        sync_folder(folder, name)?;
        if folder == root {
            break;
        }
    }
    Ok(())
}

fn sync_folder(folder: &Path, name: &str) -> Result<(), IoError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|e| IoError::os("sync the folder of", name, None, e))
}
