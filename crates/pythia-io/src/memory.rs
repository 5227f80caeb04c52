//! A storage in memory, for tests and for stores that need no disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::IoError;
use crate::storage::{
    ALIGNMENT, LogFile, ReadFile, ReadRequest, Storage, WriteFile, bytes_in_file, check_log_write,
    check_name,
};

type Files = Arc<RwLock<BTreeMap<String, Arc<Vec<u8>>>>>;

/// Files in memory. Clones share the same files.
#[derive(Clone, Debug, Default)]
pub struct MemoryStorage {
    files: Files,
}

impl MemoryStorage {
    /// Makes an empty storage.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an independent storage with the same files.
    pub fn copy(&self) -> Self {
        Self {
            files: Arc::new(RwLock::new(self.files.read().clone())),
        }
    }

    /// Returns the size of all files, in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.files
            .read()
            .values()
            .map(|file| file.len() as u64)
            .sum()
    }

    fn get(&self, name: &str) -> Result<Arc<Vec<u8>>, IoError> {
        check_name(name)?;
        self.files
            .read()
            .get(name)
            .cloned()
            .ok_or_else(|| IoError::NotFound {
                name: name.to_owned(),
            })
    }
}

#[derive(Debug)]
struct MemoryFile {
    name: String,
    bytes: Arc<Vec<u8>>,
}

impl ReadFile for MemoryFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

struct MemoryWriter {
    name: String,
    bytes: Vec<u8>,
    files: Files,
}

impl std::fmt::Debug for MemoryWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemoryWriter({}, {} bytes)", self.name, self.bytes.len())
    }
}

impl WriteFile for MemoryWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn sync(self: Box<Self>) -> Result<(), IoError> {
        self.close()
    }

    fn close(self: Box<Self>) -> Result<(), IoError> {
        self.files.write().insert(self.name, Arc::new(self.bytes));
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryLogFile {
    name: String,
    length: u64,
    files: Files,
}

impl LogFile for MemoryLogFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        check_log_write(&self.name, self.length, offset, bytes)?;
        let mut files = self.files.write();
        let file = files.get_mut(&self.name).ok_or_else(|| IoError::NotFound {
            name: self.name.clone(),
        })?;
        let start = offset as usize;
        Arc::make_mut(file)[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> Result<(), IoError> {
        Ok(())
    }

    fn trim(&self, bytes: u64) -> Result<(), IoError> {
        if let Some(file) = self.files.write().get_mut(&self.name) {
            Arc::make_mut(file).truncate(bytes as usize);
        }
        Ok(())
    }
}

impl Storage for MemoryStorage {
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>, IoError> {
        Ok(Arc::new(MemoryFile {
            name: name.to_owned(),
            bytes: self.get(name)?,
        }))
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>, IoError> {
        check_name(name)?;
        self.files
            .write()
            .insert(name.to_owned(), Arc::new(Vec::new()));
        Ok(Box::new(MemoryWriter {
            name: name.to_owned(),
            bytes: Vec::new(),
            files: Arc::clone(&self.files),
        }))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>, IoError> {
        check_name(name)?;
        let length = bytes.next_multiple_of(ALIGNMENT as u64);
        let zeros = Arc::new(vec![0; length as usize]);
        self.files.write().insert(name.to_owned(), zeros);
        self.open_log(name)
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>, IoError> {
        Ok(Box::new(MemoryLogFile {
            name: name.to_owned(),
            length: self.get(name)?.len() as u64,
            files: Arc::clone(&self.files),
        }))
    }

    fn read_batch(&self, reads: &mut [ReadRequest<'_>]) -> Result<(), IoError> {
        for read in reads {
            let Some(file) = read.file.as_any().downcast_ref::<MemoryFile>() else {
                return Err(IoError::ForeignFile {
                    name: read.file.name().to_owned(),
                });
            };
            let count = bytes_in_file(read)?;
            let start = read.offset as usize;
            read.buffer[..count].copy_from_slice(&file.bytes[start..start + count]);
            read.buffer[count..].fill(0);
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), IoError> {
        check_name(from)?;
        check_name(to)?;
        let mut files = self.files.write();
        let moved = take_tree(&mut files, from);
        if moved.is_empty() {
            return Err(IoError::NotFound {
                name: from.to_owned(),
            });
        }
        drop(take_tree(&mut files, to));
        for (name, bytes) in moved {
            files.insert(format!("{to}{}", &name[from.len()..]), bytes);
        }
        Ok(())
    }

    fn sync_names(&self) -> Result<(), IoError> {
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), IoError> {
        check_name(name)?;
        take_tree(&mut self.files.write(), name);
        Ok(())
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, IoError> {
        let prefix = if folder.is_empty() {
            String::new()
        } else {
            check_name(folder)?;
            format!("{folder}/")
        };
        let files = self.files.read();
        let mut names: Vec<String> = files
            .range(prefix.clone()..)
            .take_while(|(name, _)| name.starts_with(&prefix))
            .map(|(name, _)| {
                let rest = &name[prefix.len()..];
                rest.split_once('/')
                    .map_or(rest, |(first, _)| first)
                    .to_owned()
            })
            .collect();
        if names.is_empty() && !folder.is_empty() {
            return Err(IoError::NotFound {
                name: folder.to_owned(),
            });
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn read_all(&self, name: &str) -> Result<Vec<u8>, IoError> {
        Ok(self.get(name)?.to_vec())
    }
}

/// Takes out a file, or all files of a folder.
fn take_tree(
    files: &mut BTreeMap<String, Arc<Vec<u8>>>,
    name: &str,
) -> Vec<(String, Arc<Vec<u8>>)> {
    let inside = format!("{name}/");
    let names: Vec<String> = files
        .keys()
        .filter(|key| *key == name || key.starts_with(&inside))
        .cloned()
        .collect();
    names
        .into_iter()
        .filter_map(|key| files.remove_entry(&key))
        .collect()
}
