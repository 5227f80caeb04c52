//! `log/FOLDER`, the identity of a log folder: the store it belongs to and its role. It is beside the log files,
//! so that an unmounted, emptied or foreign folder can be told from the one that the store knows. The store's own
//! folder has none, because `MANIFEST` and `LOG` are beside its files.
//!
//! The file has five lines of text; the last is the checksum of the others (docs/format/log.md).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use pythia_io::{Storage, system};
use serde::{Deserialize, Serialize};

use crate::catalog::{Header, list_folder, read_header};
use crate::format::{FOLDER, parse_file_name, parse_hex};
use crate::{LogError, StoreId};

/// Name of the identity file in the storage of a log folder.
pub const IDENTITY_NAME: &str = "log/FOLDER";
const NEW_NAME: &str = "log/FOLDER.new";
const FIRST_LINE: &str = "Pythia log folder";
/// The format of the identity file.
const VERSION: u32 = 1;

/// A random id that distinguishes a folder from all others, including earlier ones at the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FolderId(pub [u8; 16]);

impl FolderId {
    /// Makes the id of a new folder.
    pub fn random() -> Self {
        Self(system::random_bytes())
    }
}

impl fmt::Display for FolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl FromStr for FolderId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = parse_hex(text).map(Self);
        bytes.ok_or_else(|| format!("{text:?} is not a folder's id of 32 hexadecimal digits"))
    }
}

impl TryFrom<String> for FolderId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<FolderId> for String {
    fn from(id: FolderId) -> Self {
        id.to_string()
    }
}

/// The role of a folder in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderRole {
    /// Device 1, 2, 3 … of the log.
    Device(u32),
    /// The archive of the log.
    Archive,
}

impl fmt::Display for FolderRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(number) => write!(f, "folder {number} of the log"),
            Self::Archive => write!(f, "the archive of the log"),
        }
    }
}

/// The identity of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderIdentity {
    /// The store that the log belongs to.
    pub store: StoreId,
    /// The folder's role in that log.
    pub role: FolderRole,
    /// The folder's id.
    pub id: FolderId,
}

impl FolderIdentity {
    /// Reads the identity of a folder; `None` if it has none.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if it is damaged, [`LogError::Version`] if a newer program wrote it.
    pub fn read(storage: &dyn Storage) -> Result<Option<Self>, LogError> {
        match storage.read_all(IDENTITY_NAME) {
            Ok(bytes) => Self::decode(&bytes).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the identity into a folder, durably and atomically.
    pub fn write(&self, storage: &dyn Storage) -> Result<(), LogError> {
        let mut file = storage.create(NEW_NAME)?;
        file.append(self.encode().as_bytes())?;
        file.sync()?;
        Ok(storage.rename(NEW_NAME, IDENTITY_NAME)?)
    }

    fn encode(&self) -> String {
        let role = match self.role {
            FolderRole::Device(number) => format!("folder {number}"),
            FolderRole::Archive => "archive".to_owned(),
        };
        let (store, id) = (self.store, self.id);
        let body = format!("{FIRST_LINE} {VERSION}\nstore {store}\n{role}\nid {id}\n");
        let checksum = crc32c::crc32c(body.as_bytes());
        format!("{body}{checksum:08x}\n")
    }

    fn decode(bytes: &[u8]) -> Result<Self, LogError> {
        let corrupt = |message: &str| LogError::Corrupt {
            file: IDENTITY_NAME.to_owned(),
            offset: 0,
            message: message.to_owned(),
        };
        let text = std::str::from_utf8(bytes).map_err(|_| corrupt("it is not text"))?;
        let lines: Vec<&str> = text.split('\n').collect();
        let &[first, store, role, id, checksum, ""] = &*lines else {
            return Err(corrupt("it does not have its five lines"));
        };
        let body_bytes = text.len() - checksum.len() - 1;
        if checksum != format!("{:08x}", crc32c::crc32c(&bytes[..body_bytes])) {
            return Err(corrupt("its checksum does not fit its contents"));
        }
        let version = first.strip_prefix(FIRST_LINE).map(str::trim);
        let version: Option<u32> = version.and_then(|version| version.parse().ok());
        match version {
            Some(VERSION) => {}
            Some(found) => {
                return Err(LogError::Version {
                    file: IDENTITY_NAME.to_owned(),
                    found,
                    supported: VERSION,
                });
            }
            None => return Err(corrupt("its first line is not that of an identity")),
        }
        let number = role.strip_prefix("folder ").map(str::parse);
        let role = match (role, number) {
            ("archive", _) => FolderRole::Archive,
            (_, Some(Ok(number))) => FolderRole::Device(number),
            _ => return Err(corrupt("its third line does not say which folder it is")),
        };
        let [store, id] = [("store ", store), ("id ", id)]
            .map(|(name, line)| line.strip_prefix(name).and_then(parse_hex));
        match (store, id) {
            (Some(store), Some(id)) => Ok(Self {
                store: StoreId(store),
                role,
                id: FolderId(id),
            }),
            _ => Err(corrupt("it has no ids of 32 hexadecimal digits")),
        }
    }
}

/// The owner of a folder, as its files show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderFiles {
    /// Nothing was ever written to the files, or there are none.
    None,
    /// No file shows the owner.
    Unknown,
    /// The files belong to this store.
    Own {
        /// The devices of the files.
        devices: BTreeSet<u32>,
    },
    /// A file belongs to another store.
    Foreign {
        /// The file's name.
        file: String,
        /// The other store.
        store: StoreId,
    },
}

impl FolderFiles {
    /// Reads the headers of the log files in a folder.
    pub fn of(storage: &dyn Storage, store: StoreId) -> Result<Self, LogError> {
        let mut devices = BTreeSet::new();
        let mut has_others = false;
        for name in list_folder(storage)? {
            let path = format!("{FOLDER}/{name}");
            if path == IDENTITY_NAME || path == NEW_NAME {
                continue;
            }
            let Some((device, _)) = parse_file_name(&name) else {
                has_others = true;
                continue;
            };
            match read_header(storage, &path)? {
                Header::Whole(header, _) if header.store != store => {
                    return Ok(Self::Foreign {
                        file: path,
                        store: header.store,
                    });
                }
                Header::Whole(..) => {
                    devices.insert(device);
                }
                Header::Gone => {}
                Header::None | Header::Short => has_others |= has_content(storage, &path)?,
            }
        }
        Ok(match (devices.is_empty(), has_others) {
            (false, _) => Self::Own { devices },
            (true, true) => Self::Unknown,
            (true, false) => Self::None,
        })
    }
}

fn has_content(storage: &dyn Storage, name: &str) -> Result<bool, LogError> {
    match storage.read_all(name) {
        Ok(bytes) => Ok(bytes.iter().any(|byte| *byte != 0)),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage};

    use super::*;
    use crate::tests::{STORE, commit, options};
    use crate::{Log, LogOptions};

    fn identity(role: FolderRole) -> FolderIdentity {
        FolderIdentity {
            store: STORE,
            role,
            id: FolderId([9; 16]),
        }
    }

    #[test]
    fn an_identity_comes_back() {
        for role in [FolderRole::Device(7), FolderRole::Archive] {
            let storage = MemoryStorage::new();
            assert_eq!(FolderIdentity::read(&storage).unwrap(), None);
            identity(role).write(&storage).unwrap();
            let read = FolderIdentity::read(&storage).unwrap();
            assert_eq!(read, Some(identity(role)));
            assert_eq!(storage.list(FOLDER).unwrap(), ["FOLDER"]);
        }
    }

    #[test]
    fn every_flipped_bit_of_an_identity_is_found() {
        let bytes = identity(FolderRole::Device(1)).encode().into_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(FolderIdentity::decode(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            let cut = FolderIdentity::decode(&bytes[..length]);
            let error = cut.expect_err("cut off").to_string();
            assert!(error.contains(IDENTITY_NAME), "{error}");
        }
    }

    #[test]
    fn an_identity_of_a_newer_program_is_told_from_damage() {
        let newer = identity(FolderRole::Archive).encode();
        let body = newer.replace("folder 1\n", "folder 2\n");
        let body = &body[..body.len() - 9];
        let newer = format!("{body}{:08x}\n", crc32c::crc32c(body.as_bytes()));
        let error = FolderIdentity::decode(newer.as_bytes()).expect_err("newer");
        assert!(
            matches!(error, LogError::Version { found: 2, .. }),
            "{error}"
        );
    }

    #[test]
    fn a_crash_leaves_no_identity_or_the_whole() {
        for crash in 1..6 {
            let storage = FaultyStorage::new(
                Arc::new(MemoryStorage::new()),
                FaultPlan::crash_at(crash, 1),
            );
            let written = identity(FolderRole::Device(1)).write(&storage).is_ok();
            storage.restart(FaultPlan::none()).unwrap();
            let read = FolderIdentity::read(&storage).expect("never half an identity");
            assert!(read.is_some() || !written, "crash at {crash}");
        }
    }

    #[test]
    fn log_files_say_whose_a_folder_is() {
        let devices: Vec<Arc<dyn Storage>> = (0..2)
            .map(|_| Arc::new(MemoryStorage::new()) as _)
            .collect();
        let of = |device: usize, store| FolderFiles::of(&*devices[device], store).unwrap();
        assert_eq!(of(1, STORE), FolderFiles::None);
        identity(FolderRole::Device(1)).write(&*devices[1]).unwrap();
        let zeros = devices[1].create_log("log/01-0000000009.log", 8192);
        drop(zeros.unwrap());
        assert_eq!(of(1, STORE), FolderFiles::None);
        let mut file = devices[1].create("log/000001-000001.bulk").unwrap();
        file.append(b"changes").unwrap();
        file.sync().unwrap();
        assert_eq!(of(1, STORE), FolderFiles::Unknown);
        // No log is created beside bulk files that may belong to another one.
        assert!(Log::create(devices.clone(), STORE, options()).is_err());
        devices[1].remove("log/000001-000001.bulk").unwrap();
        let log = LogOptions {
            reissue: false,
            ..options()
        };
        let log = Log::create(devices.clone(), STORE, log).unwrap();
        for number in 1..100 {
            commit(&log, number..number + 1).unwrap();
        }
        log.close().unwrap();
        let used: Vec<u32> = (0..2)
            .filter(|device| {
                // A device that got no group has no folder.
                let names = devices[*device as usize].list(FOLDER);
                names.is_ok_and(|names| names.iter().any(|name| name.ends_with(".log")))
            })
            .collect();
        assert!(!used.is_empty());
        for device in used {
            let own = of(device as usize, STORE);
            let devices = BTreeSet::from([device]);
            assert_eq!(own, FolderFiles::Own { devices });
            let other = of(device as usize, StoreId([5; 16]));
            assert!(matches!(other, FolderFiles::Foreign { store: STORE, .. }));
        }
    }
}
