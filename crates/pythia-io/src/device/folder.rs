//! A folder that is held open. Names are looked up in it, never again by the path it was opened with. If the
//! folder is moved and another takes its place, files of the two are not mixed up.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::open_files::with_descriptor;
use crate::IoError;

/// A folder of the file system. Names in it are relative, with `/` between folders.
#[derive(Debug)]
pub(crate) struct Folder {
    file: File,
    /// The path it was opened with, for messages.
    path: PathBuf,
    /// Device and inode number, which no other folder has while this one is open.
    identity: (u64, u64),
}

impl Folder {
    /// Opens a folder; creates it first if `create` is set.
    pub(crate) fn open(path: &Path, create: bool) -> Result<Self, IoError> {
        let shown = path.display().to_string();
        if create && !path.exists() {
            let made = fs::create_dir_all(path);
            made.map_err(|error| IoError::os("create folder", &shown, None, error))?;
            // The new folder's own name must survive a crash like everything in it.
            if let Some(parent) = path.parent().filter(|parent| *parent != Path::new("")) {
                let synced = File::open(parent).and_then(|parent| parent.sync_all());
                synced.map_err(|error| sync_error(&shown, error))?;
            }
        }
        let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = retry_on_intr(|| rustix::fs::open(path, folder, Mode::empty()));
        let os = |error| IoError::os("open", &shown, None, error);
        let file = File::from(opened.map_err(|error| os(error.into()))?);
        let metadata = file.metadata().map_err(os)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            identity: (metadata.dev(), metadata.ino()),
        })
    }

    /// Returns whether both are the same folder.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.identity == other.identity
    }

    /// Returns the path it was opened with; the folder may have been moved since.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the descriptor of the folder.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Opens the folder once more. Locks on the two descriptors are independent.
    pub(crate) fn reopened(&self) -> io::Result<File> {
        self.open_file(".", OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens a file. The permissions of a new file follow the process's umask.
    pub(crate) fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        open_at(&self.file, name.as_ref(), flags)
    }

    /// Creates the folders in a file's name.
    pub(crate) fn create_parents(&self, name: &str) -> io::Result<()> {
        for (end, _) in name.match_indices('/') {
            let folder = &name[..end];
            let made = retry_on_intr(|| {
                rustix::fs::mkdirat(&self.file, folder, Mode::from_raw_mode(0o777))
            });
            match made {
                Err(error) if error != Errno::EXIST => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the metadata of a file.
    pub(crate) fn stat(&self, name: &str) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.file, name, AtFlags::empty())?)
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.file, from, &self.file, to)?)
    }

    /// Removes a file.
    pub(crate) fn remove_file(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.file, name, AtFlags::empty())?)
    }

    /// Removes a file, or a folder with everything in it.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        remove_at(&self.file, name.as_ref())
    }

    /// Returns the names in a folder; `""` is this one.
    pub(crate) fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let folder = if folder.is_empty() { "." } else { folder };
        let folder = self.open_file(folder, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let names = names(&folder)?;
        let names = names.iter().map(|name| OsStr::from_bytes(name));
        Ok(names
            .map(|name| name.to_string_lossy().into_owned())
            .collect())
    }

    /// Makes the names in this folder durable.
    pub(crate) fn sync(&self, name: &str) -> Result<(), IoError> {
        self.file
            .sync_all()
            .map_err(|error| sync_error(name, error))
    }

    /// Makes a file's name durable, with the names of the folders that contain it.
    pub(crate) fn sync_name(&self, name: &str) -> Result<(), IoError> {
        for (end, _) in name.rmatch_indices('/') {
            let folder = self.open_file(&name[..end], OFlags::RDONLY | OFlags::DIRECTORY);
            let synced = folder.and_then(|folder| folder.sync_all());
            synced.map_err(|error| sync_error(name, error))?;
        }
        self.sync(name)
    }
}

fn sync_error(name: &str, error: io::Error) -> IoError {
    IoError::os("sync the folder of", name, None, error)
}

fn open_at(folder: &File, name: &OsStr, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let open = || retry_on_intr(|| rustix::fs::openat(folder, name, flags, mode));
    with_descriptor(|| Ok(open()?.into()))
}

/// Returns the names in a folder, without `.` and `..`.
fn names(folder: &File) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in with_descriptor(|| Ok(Dir::read_from(folder)?))? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}

fn remove_at(parent: &File, name: &OsStr) -> io::Result<()> {
    let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Ok(rustix::fs::unlinkat(parent, name, AtFlags::empty())?);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let folder = open_at(parent, name, flags)?;
    for name in names(&folder)? {
        match remove_at(&folder, OsStr::from_bytes(&name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}
