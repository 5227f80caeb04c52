//! Files open for reading, whose descriptors are closed while too many are open.
//!
//! A process may have so many descriptors, and a store with many runs and many snapshots has more files.
//! So all storages of a process share a budget ([`OpenFiles`]), a part of what the system allows. A file
//! beyond it is closed, by how lately it was read, and opened again when it is read next.
//!
//! Invariants:
//! - A read holds the descriptor that it reads through ([`Handle`]): none is closed under a read.
//! - A name may come to mean another file. What is opened again is the file that was opened first, or it is
//!   an error; and before this process gives a name away, it opens the files that had it, for good
//!   ([`DeviceFile::keep`]).

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

/// The part of the process's descriptors that may be files of stores, as a divisor: the rest is for
/// connections, logs, rings and temporary files.
const DESCRIPTORS_PART: usize = 2;
/// So many files may be open in any case.
const OPEN_MIN: usize = 4;

/// How many files may be open, and which are.
#[derive(Debug)]
pub(super) struct OpenFiles {
    most: usize,
    open: AtomicUsize,
    /// Those that may be closed, in the order in which that is considered.
    queue: Mutex<VecDeque<Weak<DeviceFile>>>,
    /// All that somebody uses, with a descriptor or without.
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

    /// Those of the process.
    pub(super) fn of_process() -> Arc<Self> {
        static OF_PROCESS: LazyLock<Arc<OpenFiles>> =
            LazyLock::new(|| OpenFiles::new(descriptors_max() / DESCRIPTORS_PART));
        Arc::clone(&OF_PROCESS)
    }

    /// Descriptors that are open.
    #[cfg(test)]
    pub(super) fn open_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Opens a descriptor; where the system has none left, one of a file that waits is closed first.
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

    /// Closes a file that was not read lately; false if there is none that can be closed.
    fn close_one(&self) -> bool {
        let mut queue = self.queue.lock();
        // Each is passed over once at most for having been read.
        for _ in 0..2 * queue.len() {
            let Some(weak) = queue.pop_front() else {
                return false;
            };
            let Some(file) = weak.upgrade() else { continue };
            if file.was_read.swap(false, Ordering::Relaxed) {
                queue.push_back(weak);
                continue;
            }
            // Who holds it may be waiting for the queue.
            let Some(mut state) = file.state.try_lock() else {
                queue.push_back(weak);
                continue;
            };
            match &state.handle {
                _ if state.is_kept => {}
                // Closing it would end nothing before the reads through it end.
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

    /// Keeps the files open that have a name, or are in the folder that has it, as others are about to, or
    /// none.
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

/// Does what needs a descriptor for a moment; where the system has none left, files of stores that wait are
/// closed first.
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

/// A descriptor; closed when the last read through it has ended and its file lets it go.
#[derive(Debug)]
pub(super) struct Handle {
    file: File,
    /// Whether reads go past the kernel's cache.
    direct: bool,
    files: Arc<OpenFiles>,
}

impl Handle {
    pub(super) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// One for tests that read nothing.
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

/// What tells a file from others that get its name later, also if they get its number.
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

/// A file open for reading, with a descriptor or without.
#[derive(Debug)]
pub(super) struct DeviceFile {
    name: String,
    folder: Arc<Folder>,
    length: u64,
    identity: Identity,
    files: Arc<OpenFiles>,
    was_read: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    handle: Option<Arc<Handle>>,
    /// Whether the file system takes direct reads of it, as far as is known.
    direct: bool,
    /// Its name is no longer its own, so it must stay open.
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
            state: Mutex::new(State {
                direct: handle.direct,
                handle: Some(handle),
                is_kept: false,
            }),
        });
        files.add(&file);
        Ok(file)
    }

    /// Whether it has a name in a folder, or is in the folder of that name there.
    fn is_in(&self, folder: &Folder, name: &str) -> bool {
        let rest = self.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            && self.folder.is_same(folder)
    }

    /// How long it is, as it may have been cut short; 0 if that cannot be found out.
    pub(super) fn length_now(self: &Arc<Self>) -> u64 {
        let metadata = self.handle().and_then(|handle| handle.file.metadata());
        metadata.map_or(0, |metadata| metadata.len())
    }

    /// What it is read through.
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

    /// Opens the same file again; another that has its name is as good as none.
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

    /// Opens the file if it is closed, for as long as it is used: its name is about to go.
    pub(super) fn keep(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.handle.is_none() {
            state.handle = Some(self.reopened(state.direct)?);
        }
        state.is_kept = true;
        Ok(())
    }

    /// Goes on through the kernel's cache after a read of `refused` has failed; false if that was
    /// not direct, or is not possible.
    pub(super) fn give_up_direct(&self, refused: &Handle) -> bool {
        if !refused.direct {
            return false;
        }
        let mut state = self.state.lock();
        if !state.direct {
            return true; // Another thread was first.
        }
        // The name may mean another file by now, the descriptor does not.
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

    /// Whether it reads past the kernel's cache.
    #[cfg(test)]
    pub(super) fn is_direct(&self) -> bool {
        self.state.lock().direct
    }
}

/// Opens a file for direct I/O if that is wanted and allowed; whether it was.
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

/// A [`DeviceFile`] as the storage hands it out.
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
