//! The identity of the device that a folder is on.
#![expect(
    unsafe_code,
    reason = "fstatvfs is a system call without a safe wrapper"
)]

use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The file system of a folder and the device below it, as far as the system provides them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceIdentity {
    /// Major and minor number of the device (`st_dev` of `stat`).
    pub device: (u32, u32),
    /// The type of the file system, for example `ext4`; empty if unknown.
    pub file_system: String,
    /// The file system's id (`f_fsid` of `statvfs`; for many types derived from its UUID).
    pub file_system_id: u64,
    /// The model that the device reports; empty if it reports none.
    pub model: String,
}

impl DeviceIdentity {
    /// Returns the device of a folder.
    pub fn of(folder: &Path) -> io::Result<Self> {
        Self::of_file(&File::open(folder)?)
    }

    /// Returns the device of a file or folder.
    pub fn of_file(file: &File) -> io::Result<Self> {
        let number = file.metadata()?.dev();
        let device = (libc::major(number), libc::minor(number));
        Ok(Self {
            device,
            file_system: file_system(device),
            file_system_id: statvfs(file)?.f_fsid,
            model: model(device),
        })
    }

    /// Returns a description in one line.
    pub fn describe(&self) -> String {
        let (major, minor) = self.device;
        let device = format!("device {major}:{minor}");
        let parts = [&device, &self.model, &self.file_system];
        let known: Vec<&str> = parts
            .into_iter()
            .map(String::as_str)
            .filter(|part| !part.is_empty())
            .collect();
        known.join(", ")
    }
}

/// Returns the free bytes of a folder's file system.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let found = statvfs(&File::open(folder)?)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

fn statvfs(file: &File) -> io::Result<libc::statvfs> {
    let mut found = MaybeUninit::uninit();
    // SAFETY: the descriptor is open and `found` has room for the answer.
    if unsafe { libc::fstatvfs(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it has filled the answer in.
    Ok(unsafe { found.assume_init() })
}

/// Returns the type of the file system that is mounted from a device.
fn file_system((major, minor): (u32, u32)) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let number = format!("{major}:{minor}");
    let kind = mounts.lines().find_map(|line| {
        let (mount, rest) = line.split_once(" - ")?;
        (mount.split(' ').nth(2)? == number).then(|| rest.split(' ').next())?
    });
    kind.unwrap_or_default().to_owned()
}

/// Returns the model of a block device, or of the device it is a partition of.
fn model((major, minor): (u32, u32)) -> String {
    let folder = format!("/sys/dev/block/{major}:{minor}");
    let names = ["device/model", "../device/model"];
    let found = names
        .iter()
        .find_map(|name| fs::read_to_string(format!("{folder}/{name}")).ok());
    found.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_on_one_device_and_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let identity = DeviceIdentity::of(folder.path()).unwrap();
        assert_eq!(identity, DeviceIdentity::of(folder.path()).unwrap());
        assert!(identity.describe().starts_with("device "));
        assert!(free_bytes(folder.path()).unwrap() > 0);
        assert!(DeviceIdentity::of(&folder.path().join("missing")).is_err());
    }
}
