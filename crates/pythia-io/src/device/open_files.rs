//! Files open for reading, whose descriptors are closed while too many are open.
//!
//! The number of descriptors of a process is limited, and a store with many runs and snapshots has more files. So
//! all storages of a process share a budget ([`OpenFiles`]), a part of the system's limit. Beyond it, the file
//! that was not read for longest is closed, and opened again for its next read.
//!
//! Invariants:
//! - A read holds the descriptor that it uses ([`Handle`]), so none is closed under a read.
//! - A name may come to mean another file. Reopening yields the file that was opened first, or an error. Before
//!   this process gives a name away, it opens the files with that name and keeps them open ([`DeviceFile::keep`]).

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::time::SystemTime;

use parking_lot::Mutex;
use rustix::fs::OFlags;

use super::folder::Folder;
use super::open_buffered;
use super::transfer::advise_random;
use crate::descriptors::descriptors_max;
use crate::storage::ReadFile;

/// Share of the process's descriptors for files of stores, as a divisor. The rest is for connections, logs, rings
/// and temporary files.
const DESCRIPTORS_PART: usize = 2;
/// Minimum number of files that may be open.
const OPEN_MIN: usize = 4;

/// The budget of open files, and the files in it.
#[derive(Debug)]
pub(super) struct OpenFiles {
    most: usize,
    open: AtomicUsize,
    /// Files that may be closed, in the order in which they are considered.
    queue: Mutex<VecDeque<Weak<DeviceFile>>>,
    /// All files in use, with or without a descriptor.
    used: Mutex<Vec<Weak<DeviceFile>>>,
}

impl OpenFiles {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(OPEN_MIN),
            open: AtomicUsize::new(0),
            queue: Mutex::default(),
            used: Mutex::default(),
        })
    }

    /// Returns the budget of the process.
    pub(super) fn of_process() -> Arc<Self> {
        static OF_PROCESS: LazyLock<Arc<OpenFiles>> =
            LazyLock::new(|| OpenFiles::new(descriptors_max() / DESCRIPTORS_PART));
        Arc::clone(&OF_PROCESS)
    }

    /// Returns the number of open descriptors.
    #[cfg(test)]
    pub(super) fn open_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Opens a descriptor. If the budget or the system has none left, closes an idle file first.
    fn descriptor(
        self: &Arc<Self>,
        open: impl Fn() -> io::Result<(File, bool)>,
    ) -> io::Result<Arc<Handle>> {
        while self.open.load(Ordering::Relaxed) >= self.most && self.close_one() {}
        let (file, direct) = loop {
            match open() {
                Err(error) if is_out_of_descriptors(&error) && self.close_one() => {}
                opened => break opened?,
            }
        };
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Handle {
            file,
            direct,
            files: Arc::clone(self),
        }))
    }

    /// Closes a file that was not read recently. Returns false if no file can be closed.
    fn close_one(&self) -> bool {
        let mut queue = self.queue.lock();
        // Each file is spared at most once for having been read.
        for _ in 0..2 * queue.len() {
            let Some(weak) = queue.pop_front() else {
                return false;
            };
            let Some(file) = weak.upgrade() else { continue };
            if file.was_read.swap(false, Ordering::Relaxed) {
                queue.push_back(weak);
                continue;
            }
            // The thread that holds it may be waiting for the queue.
            let Some(mut state) = file.state.try_lock() else {
                queue.push_back(weak);
                continue;
            };
            match &state.handle {
                _ if state.is_kept => {}
                // Closing it would free the descriptor only after the reads through it end.
                Some(handle) if Arc::strong_count(handle) > 1 => queue.push_back(weak),
                Some(_) => {
                    state.handle = None;
                    return true;
                }
                None => {}
            }
        }
        false
    }

    /// Keeps files open whose name, or whose folder's name, is about to be replaced or removed.
    pub(super) fn keep(&self, folder: &Folder, name: &str) -> io::Result<()> {
        let files: Vec<Arc<DeviceFile>> = {
            let used = self.used.lock();
            used.iter().filter_map(Weak::upgrade).collect()
        };
        let mut files = files.iter().filter(|file| file.is_in(folder, name));
        files.try_for_each(|file| match file.keep() {
            // Another process has taken the name before.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            kept => kept,
        })
    }

    fn add(&self, file: &Arc<DeviceFile>) {
        let mut used = self.used.lock();
        if used.len() == used.capacity() {
            used.retain(|file| file.strong_count() > 0);
        }
        used.push(Arc::downgrade(file));
        drop(used);
        self.enqueue(file);
    }

    fn enqueue(&self, file: &Arc<DeviceFile>) {
        let mut queue = self.queue.lock();
        queue.push_back(Arc::downgrade(file));
        if queue.len() > 64 + 2 * self.open.load(Ordering::Relaxed) {
            queue.retain(|file| file.strong_count() > 0);
        }
    }
}

/// Runs an action that needs a descriptor for a moment. If the system has none left, closes idle files of stores
/// first.
pub(super) fn with_descriptor<T>(action: impl Fn() -> io::Result<T>) -> io::Result<T> {
    loop {
        match action() {
            Err(error) if is_out_of_descriptors(&error) && OpenFiles::of_process().close_one() => {}
            done => return done,
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// A descriptor. It is closed when its file has dropped it and the last read through it has ended.
#[derive(Debug)]
pub(super) struct Handle {
    file: File,
    /// True if reads go past the kernel's cache.
    direct: bool,
    files: Arc<OpenFiles>,
}

impl Handle {
    pub(super) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Makes a handle for tests that read nothing.
    #[cfg(test)]
    pub(super) fn of_nothing() -> Arc<Self> {
        let open = || Ok((File::open("/dev/null")?, false));
        OpenFiles::new(0).descriptor(open).expect("it is there")
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.files.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The identity of a file. It differs from that of later files with the same name, even if they get the same inode
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    number: u64,
    created: Option<SystemTime>,
}

impl Identity {
    fn of(file: &File) -> io::Result<(Self, u64)> {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let identity = Self {
            device: metadata.dev(),
            number: metadata.ino(),
            created: metadata.created().ok(),
        };
        Ok((identity, metadata.len()))
    }
}

/// A file open for reading, with or without a descriptor.
#[derive(Debug)]
pub(super) struct DeviceFile {
    name: String,
    folder: Arc<Folder>,
    length: u64,
    identity: Identity,
    files: Arc<OpenFiles>,
    was_read: AtomicBool,
    state: Mutex<HandleSlot>,
}

#[derive(Debug)]
struct HandleSlot {
    handle: Option<Arc<Handle>>,
    /// True if the file system accepts direct reads of it, as far as is known.
    direct: bool,
    /// True if its name is no longer its own, so that it must stay open.
    is_kept: bool,
}

impl DeviceFile {
    pub(super) fn open(
        name: &str,
        folder: &Arc<Folder>,
        direct: bool,
        files: &Arc<OpenFiles>,
    ) -> io::Result<Arc<Self>> {
        let handle = files.descriptor(|| open(folder, name, direct))?;
        let (identity, length) = Identity::of(&handle.file)?;
        let file = Arc::new(Self {
            name: name.to_owned(),
            folder: Arc::clone(folder),
            length,
            identity,
            files: Arc::clone(files),
            was_read: AtomicBool::new(false),
            state: Mutex::new(HandleSlot {
                direct: handle.direct,
                handle: Some(handle),
                is_kept: false,
            }),
        });
        files.add(&file);
        Ok(file)
    }

    /// Returns whether the file has this name in a folder, or is in the folder with this name.
    fn is_in(&self, folder: &Folder, name: &str) -> bool {
        let rest = self.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            && self.folder.is_same(folder)
    }

    /// Returns the current length, which may be shorter than when it was opened; 0 if it cannot be determined.
    pub(super) fn length_now(self: &Arc<Self>) -> u64 {
        let metadata = self.handle().and_then(|handle| handle.file.metadata());
        metadata.map_or(0, |metadata| metadata.len())
    }

    /// Returns the descriptor to read through; opens it if needed.
    pub(super) fn handle(self: &Arc<Self>) -> io::Result<Arc<Handle>> {
        self.was_read.store(true, Ordering::Relaxed);
        let mut state = self.state.lock();
        if let Some(handle) = &state.handle {
            return Ok(Arc::clone(handle));
        }
        let handle = self.reopened(state.direct)?;
        state.handle = Some(Arc::clone(&handle));
        let is_kept = state.is_kept;
        drop(state);
        if !is_kept {
            self.files.enqueue(self);
        }
        Ok(handle)
    }

    /// Opens the same file again. Another file with its name counts as not found.
    fn reopened(&self, direct: bool) -> io::Result<Arc<Handle>> {
        let handle = self
            .files
            .descriptor(|| open(&self.folder, &self.name, direct))?;
        let (identity, _) = Identity::of(&handle.file)?;
        if identity != self.identity {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(handle)
    }

    /// Opens the file if it is closed, and keeps it open as long as it is in use, because its name is about to be
    /// replaced or removed.
    pub(super) fn keep(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.handle.is_none() {
            state.handle = Some(self.reopened(state.direct)?);
        }
        state.is_kept = true;
        Ok(())
    }

    /// Switches to the kernel's cache after a direct read through `refused` failed. Returns false if that read was
    /// not direct, or if the switch is not possible.
    pub(super) fn give_up_direct(&self, refused: &Handle) -> bool {
        if !refused.direct {
            return false;
        }
        let mut state = self.state.lock();
        if !state.direct {
            return true; // Another thread was first.
        }
        // The name may mean another file by now; the descriptor does not.
        let same = format!("/proc/self/fd/{}", refused.descriptor());
        let open = || Ok((open_buffered(&same)?, false));
        match self.files.descriptor(open) {
            Ok(handle) => {
                state.direct = false;
                state.handle = Some(handle);
                true
            }
            Err(_) => false,
        }
    }

    /// Returns whether reads go past the kernel's cache.
    #[cfg(test)]
    pub(super) fn is_direct(&self) -> bool {
        self.state.lock().direct
    }
}

/// Opens a file, for direct I/O if that is wanted and allowed. Returns whether it is.
fn open(folder: &Folder, name: &str, direct: bool) -> io::Result<(File, bool)> {
    if direct {
        match folder.open_file(name, OFlags::RDONLY | OFlags::DIRECT) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            opened => return Ok((opened?, true)),
        }
    }
    let file = folder.open_file(name, OFlags::RDONLY)?;
    advise_random(file.as_raw_fd());
    Ok((file, false))
}

/// A [`DeviceFile`] as the storage returns it.
#[derive(Clone, Debug)]
pub(super) struct SharedFile(pub(super) Arc<DeviceFile>);

impl ReadFile for SharedFile {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn len(&self) -> u64 {
        self.0.length
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
