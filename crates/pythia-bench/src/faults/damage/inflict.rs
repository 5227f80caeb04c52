//! Damages to a store's files.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pythia_log::FILE_HEADER_BYTES;
use rand::Rng;
use rand::rngs::SmallRng;

use crate::faults::copy_folder;
use crate::faults::store::StoreFolder;

/// Bytes of a block of log files and pages.
const BLOCK_BYTES: usize = 4096;

/// A damage to a file or a folder of a store.
pub(super) struct Damage {
    /// Its path relative to the home.
    path: PathBuf,
    /// Names that a message may mention: its own, those of the folders it is in, and of the files below a folder.
    names: Vec<String>,
    kind: Kind,
    is_folder: bool,
}

impl fmt::Debug for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {}", self.kind, self.path.display())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A bit of the first bytes is flipped.
    FlipHeader,
    /// A bit of any nonzero byte is flipped.
    FlipAny,
    /// A bit of the last nonzero block is flipped.
    FlipTail,
    ZeroHeader,
    /// Some blocks become zeros.
    ZeroBlocks,
    /// All blocks from some block on become zeros.
    ZeroTail,
    Empty,
    /// The file is cut off somewhere.
    Truncate,
    /// The file is cut off within its last nonzero blocks.
    TruncateTail,
    Remove,
    /// The folder is emptied.
    EmptyFolder,
    /// The other store's file or folder replaces it.
    Foreign,
}

const OF_FILES: [Kind; 11] = [
    Kind::FlipHeader,
    Kind::FlipAny,
    Kind::FlipTail,
    Kind::ZeroHeader,
    Kind::ZeroBlocks,
    Kind::ZeroTail,
    Kind::Empty,
    Kind::Truncate,
    Kind::TruncateTail,
    Kind::Remove,
    Kind::Foreign,
];
const OF_FOLDERS: [Kind; 3] = [Kind::Remove, Kind::EmptyFolder, Kind::Foreign];

impl Damage {
    /// Draws a target and a kind of damage: mostly files of the log, the newest of them more than others.
    pub(super) fn draw(home: &StoreFolder, random: &mut SmallRng) -> Result<Self> {
        let mut files = Vec::new();
        let mut folders = Vec::new();
        list(home.folder(), Path::new(""), &mut files, &mut folders)?;
        let is_log = |path: &PathBuf| path.extension().is_some_and(|name| name == "log");
        let logs: Vec<PathBuf> = files.iter().filter(|path| is_log(path)).cloned().collect();
        let newest: Vec<PathBuf> = logs.iter().rev().take(2).cloned().collect();
        let pages = files.iter().filter(|path| {
            let text = path.to_string_lossy();
            text.contains("/segment-") || text.contains("/run-")
        });
        let pages: Vec<PathBuf> = pages.cloned().collect();
        let is_log_folder = |path: &&PathBuf| {
            let names = [
                OsStr::new("log"),
                OsStr::new("second-log"),
                OsStr::new("archive"),
                OsStr::new("spare"),
            ];
            path.file_name().is_some_and(|name| names.contains(&name))
        };
        let log_folders: Vec<PathBuf> = folders.iter().filter(is_log_folder).cloned().collect();
        let (candidates, is_folder) = match random.random_range(0..24) {
            20.. => (&log_folders, true),
            0..7 => (&newest, false),
            7..11 => (&logs, false),
            11..14 => (&pages, false),
            14..16 => (&files, false),
            _ => (&folders, true),
        };
        ensure!(!candidates.is_empty(), "there is nothing to damage");
        let path = candidates[random.random_range(0..candidates.len())].clone();
        let kinds = if is_folder {
            &OF_FOLDERS[..]
        } else {
            &OF_FILES
        };
        let kind = kinds[random.random_range(0..kinds.len())];
        let below = files.iter().filter(|file| file.starts_with(&path));
        // The names of the folders of the whole store or its second log are not specific.
        let own = path.iter().skip(usize::from(path.iter().count() > 1));
        let names: Vec<&OsStr> = match (path.iter().next(), is_folder) {
            // Any message contains "log": these are named by their places.
            (Some(first), true) if is_beside_store(first) => vec![first],
            _ => own
                .chain(below.filter_map(|file| file.file_name()))
                .collect(),
        };
        let names = names
            .into_iter()
            .map(|name| name.to_string_lossy().into_owned());
        let names = names.collect();
        Ok(Self {
            path,
            names,
            kind,
            is_folder,
        })
    }

    pub(super) fn needs_other_store(&self) -> bool {
        self.kind == Kind::Foreign
    }

    /// Returns true if a message names the damaged file or folder.
    pub(super) fn is_named_by(&self, message: &str) -> bool {
        self.names.iter().any(|name| message.contains(name))
    }

    /// Returns true if the damage is to the log.
    pub(super) fn is_of_log(&self) -> bool {
        let is_log = |name: &OsStr| name == "log" || name == "LOG" || is_beside_store(name);
        self.path.iter().any(is_log)
    }

    /// Returns the path of the damaged file or folder.
    pub(super) fn place(&self, home: &StoreFolder) -> PathBuf {
        home.folder().join(&self.path)
    }

    /// Returns true if a folder is removed.
    pub(super) fn has_removed_folder(&self) -> bool {
        self.kind == Kind::Remove && self.is_folder
    }

    /// Inflicts the damage. A file or folder that the other store lacks is removed.
    pub(super) fn inflict(
        &self,
        home: &StoreFolder,
        other: Option<&StoreFolder>,
        random: &mut SmallRng,
    ) -> Result<()> {
        let path = self.place(home);
        let place = || format!("{self:?}");
        if path.is_dir() {
            fs::remove_dir_all(&path).with_context(place)?;
            if self.kind == Kind::EmptyFolder {
                fs::create_dir(&path)?;
            }
        } else if matches!(self.kind, Kind::Remove | Kind::Foreign) {
            fs::remove_file(&path).with_context(place)?;
        } else {
            let bytes = self.changed(fs::read(&path).with_context(place)?, random);
            fs::write(&path, bytes)?;
        }
        let foreign = other.map(|other| other.folder().join(&self.path));
        match foreign {
            Some(foreign) if foreign.is_dir() => copy_folder(&foreign, &path),
            Some(foreign) if foreign.is_file() => {
                fs::copy(foreign, path)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn changed(&self, mut bytes: Vec<u8>, random: &mut SmallRng) -> Vec<u8> {
        let length = bytes.len();
        let used = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        // Up to the last nonzero block.
        let blocks = used.div_ceil(BLOCK_BYTES).max(1);
        let last_block = (blocks - 1) * BLOCK_BYTES;
        let mut flip = |from: usize, to: usize| {
            if from < to {
                let at = random.random_range(from..to);
                bytes[at] ^= 1 << random.random_range(0..8);
            }
        };
        match self.kind {
            Kind::FlipHeader => flip(0, FILE_HEADER_BYTES.min(length)),
            Kind::FlipAny => flip(0, used),
            Kind::FlipTail => flip(last_block, used),
            Kind::ZeroHeader => bytes[..BLOCK_BYTES.min(length)].fill(0),
            Kind::ZeroBlocks => {
                let from = random.random_range(0..blocks) * BLOCK_BYTES;
                let to = from + random.random_range(1..4) * BLOCK_BYTES;
                bytes[from.min(length)..to.min(length)].fill(0);
            }
            Kind::ZeroTail => {
                let from = random.random_range(0..blocks) * BLOCK_BYTES;
                bytes[from.min(length)..].fill(0);
            }
            Kind::Empty => bytes.clear(),
            Kind::Truncate => bytes.truncate(random.random_range(0..=used)),
            Kind::TruncateTail => {
                let from = blocks.saturating_sub(3) * BLOCK_BYTES;
                bytes.truncate(random.random_range(from..=used.max(from)));
            }
            Kind::Remove | Kind::EmptyFolder | Kind::Foreign => {}
        }
        bytes
    }
}

/// Returns true for the folders of a home that the store knows by their paths.
fn is_beside_store(name: &OsStr) -> bool {
    name == "second-log" || name == "archive"
}

/// Lists files and folders by name, except the home's own and those of backups.
fn list(
    home: &Path,
    below: &Path,
    files: &mut Vec<PathBuf>,
    folders: &mut Vec<PathBuf>,
) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(home.join(below))? {
        names.push(entry?.file_name());
    }
    names.sort();
    for name in names {
        let path = below.join(name);
        if home.join(&path).is_dir() {
            // A store without its folder never existed.
            if path != Path::new("store") {
                folders.push(path.clone());
            }
            list(home, &path, files, folders)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
