//! `device.json`: the measured speed of the store's device.
//!
//! The file is beside the manifest and is not part of the store's state: if it is missing or damaged, the store
//! measures or assumes a profile. If the store was moved to another device, opening it measures that device briefly.

use pythia_io::{DeviceProfile, DirectStorage, Storage};
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::manifest::Manifest;

/// The file's name in the store.
pub const DEVICE_NAME: &str = "device.json";
const NEW_DEVICE_NAME: &str = "device.json.new";

#[derive(Serialize, Deserialize)]
struct Contents {
    device: DeviceProfile,
    /// CRC-32C of the profile as compact JSON, in hexadecimal.
    checksum: String,
}

fn checksum(device: &DeviceProfile) -> String {
    let json = serde_json::to_string(device).expect("numbers and names are JSON");
    format!("{:08x}", crc32c::crc32c(json.as_bytes()))
}

/// Returns the profile kept in a store; `None` if there is none or it cannot be trusted.
pub fn read(storage: &dyn Storage) -> Option<DeviceProfile> {
    let bytes = storage.read_all(DEVICE_NAME).ok()?;
    let contents: Contents = serde_json::from_slice(&bytes).ok()?;
    let sound = contents.checksum == checksum(&contents.device);
    (sound && contents.device.is_plausible()).then_some(contents.device)
}

/// Keeps a profile in a store.
pub fn write(storage: &dyn Storage, device: &DeviceProfile) -> Result<(), StoreError> {
    let contents = Contents {
        device: device.clone(),
        checksum: checksum(device),
    };
    let mut json = serde_json::to_vec_pretty(&contents).expect("numbers and names are JSON");
    json.push(b'\n');
    let mut file = storage.create(NEW_DEVICE_NAME)?;
    file.append(&json)?;
    file.sync()?;
    storage.rename(NEW_DEVICE_NAME, DEVICE_NAME)?;
    Ok(())
}

/// Returns whether a file in a store's folder is one of these: they may exist before the store does.
pub(crate) fn is_ours(name: &str) -> bool {
    name == DEVICE_NAME || name == NEW_DEVICE_NAME
}

/// Returns the profile of the store's device: the kept one if it is of this device. Otherwise measures by reading the
/// store's largest file for about 150 milliseconds, and keeps the result if writing is allowed. Never fails: if
/// it cannot measure, it assumes a profile.
pub fn of_store(storage: &DirectStorage, manifest: &Manifest) -> DeviceProfile {
    let identity = storage.identity();
    if let Some(kept) = read(storage)
        && kept.identity == identity
    {
        return kept;
    }
    let orders = manifest
        .files
        .iter()
        .map(|file| (manifest.segment.folder(), file));
    let terms = manifest.dictionary.iter();
    let terms = terms.flat_map(|entry| entry.files.iter().map(|file| (entry.id.folder(), file)));
    let largest = orders.chain(terms).max_by_key(|(_, file)| file.bytes);
    let name = largest.map(|(folder, file)| format!("{folder}/{}", file.name));
    let measured = name.and_then(|name| storage.measure_briefly(&name).ok().flatten());
    match measured {
        Some(profile) => {
            // A store on a read-only file system is measured again the next time it is opened.
            let _ = write(storage, &profile);
            profile
        }
        None => storage.device(),
    }
}

#[cfg(test)]
mod tests {
    use pythia_io::{MemoryStorage, Origin};

    use super::*;

    fn profile() -> DeviceProfile {
        let mut profile = DeviceProfile {
            origin: Origin::Full,
            sync_ns: Some(123),
            ..DeviceProfile::default()
        };
        profile.random[0].depth = 17;
        profile
    }

    #[test]
    fn it_comes_back() {
        let storage = MemoryStorage::new();
        assert_eq!(read(&storage), None);
        write(&storage, &profile()).expect("memory");
        assert_eq!(read(&storage), Some(profile()));
        assert_eq!(storage.list("").expect("memory"), [DEVICE_NAME]);
    }

    #[test]
    fn damage_is_never_more_than_a_missing_file() {
        let storage = MemoryStorage::new();
        write(&storage, &profile()).expect("memory");
        let whole = storage.read_all(DEVICE_NAME).expect("just written");
        let put = |bytes: &[u8]| {
            let mut file = storage.create(DEVICE_NAME).expect("memory");
            file.append(bytes).expect("memory");
            file.sync().expect("memory");
        };
        for length in 0..whole.len() - 2 {
            put(&whole[..length]);
            assert_eq!(read(&storage), None, "cut at {length}");
        }
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            put(&damaged);
            // White space may change; numbers may not.
            if let Some(read) = read(&storage) {
                assert_eq!(read, profile(), "bit {bit}");
            }
        }
        let mut nonsense = profile();
        nonsense.random.clear();
        write(&storage, &nonsense).expect("memory");
        assert_eq!(read(&storage), None);
    }
}
