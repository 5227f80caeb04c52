//! The file `SERVER` in the folder of each store that a server writes to: how programs of the same user reach the
//! server, so that `pythia optimize` can ask it for what only the store's writer can do.
//!
//! The file has the server's address and a random token, for its owner's eyes only (mode 0600). The server removes it
//! when it ends. One that a killed server has left is harmless: nobody answers at the address, or whoever does refuses
//! the token. A file that was copied with its folder is recognised by the folder's device and inode.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::context::Datasets;
use crate::protocol::error::HttpError;

/// The name of the file in the folder of a store.
const NAME: &str = "SERVER";
/// Prefix of the tokens, by which a server knows one that was meant for another.
const PREFIX: &str = "pythia_local_";

/// The way to the server that has a store open for writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFile {
    /// The server, as `http://127.0.0.1:7878`.
    pub url: String,
    /// The name of the store's dataset.
    pub dataset: String,
    /// The bearer token that permits everything below `/$/`.
    pub token: String,
    /// The device and the inode of the folder.
    folder: (u64, u64),
}

impl ServerFile {
    /// Reads the file in the folder of a store. `None` if there is none, or it was written for another folder.
    pub fn read(store: &Path) -> Option<Self> {
        let bytes = fs::read(store.join(NAME)).ok()?;
        let found: Self = serde_json::from_slice(&bytes).ok()?;
        (found.folder == identity(store).ok()?).then_some(found)
    }

    /// Writes the file; readers see all of it or nothing.
    fn write(&self, store: &Path) -> io::Result<()> {
        let new = store.join(format!("{NAME}.new"));
        // Its permissions would be those of an earlier file.
        let _ = fs::remove_file(&new);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(&new, store.join(NAME))
    }
}

/// Returns the device and the inode of a folder.
fn identity(folder: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::metadata(folder)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// The files of a server, by the folders of the stores.
#[derive(Debug)]
pub(crate) struct Announcements {
    token: String,
    written: Mutex<BTreeMap<PathBuf, ServerFile>>,
}

impl Announcements {
    pub(crate) fn new() -> Self {
        let random: [u8; 32] = rand::random();
        Self {
            token: format!("{PREFIX}{}", hex::encode(random)),
            written: Mutex::default(),
        }
    }

    /// Writes the files of the datasets that can be written to, and removes those of others. Without the file, other
    /// programs cannot ask this server: a failure is only logged.
    pub(crate) fn update(&self, datasets: &Datasets, address: SocketAddr, is_encrypted: bool) {
        let scheme = if is_encrypted { "https" } else { "http" };
        let url = format!("{scheme}://{}", reachable(address));
        let mut written = self.written.lock();
        let mut wanted = BTreeMap::new();
        for (name, dataset) in &datasets.by_name {
            let path = &dataset.config.path;
            let Some(folder) = identity(path).ok().filter(|_| !dataset.config.read_only) else {
                continue;
            };
            let file = ServerFile {
                url: url.clone(),
                dataset: name.clone(),
                token: self.token.clone(),
                folder,
            };
            wanted.insert(path.clone(), file);
        }
        for (path, file) in written.iter() {
            if !wanted.contains_key(path) {
                remove(path, file);
            }
        }
        for (path, file) in &wanted {
            if written.get(path) != Some(file)
                && let Err(error) = file.write(path)
            {
                tracing::warn!(path = %path.display(), "cannot write {NAME}: {error}");
            }
        }
        *written = wanted;
    }

    /// Removes all files.
    pub(crate) fn end(&self) {
        for (path, file) in std::mem::take(&mut *self.written.lock()) {
            remove(&path, &file);
        }
    }

    /// Returns whether the request has this server's token.
    ///
    /// # Errors
    /// 401 if it has the token of another server.
    pub(crate) fn permits(&self, headers: &HeaderMap) -> Result<bool, HttpError> {
        let value = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let token = value.and_then(|value| value.strip_prefix("Bearer "));
        match token.filter(|token| token.starts_with(PREFIX)) {
            None => Ok(false),
            Some(token) if token.as_bytes().ct_eq(self.token.as_bytes()).into() => Ok(true),
            Some(_) => Err(HttpError::new(
                StatusCode::UNAUTHORIZED,
                "the token is that of another server",
            )),
        }
    }
}

impl Drop for Announcements {
    fn drop(&mut self) {
        self.end();
    }
}

/// Removes a file, unless another server has replaced it.
fn remove(path: &Path, file: &ServerFile) {
    if ServerFile::read(path).as_ref() == Some(file) {
        let _ = fs::remove_file(path.join(NAME));
    }
}

/// Returns the address by which programs of this machine reach a server.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_file_is_not_taken_for_that_of_the_copy() {
        let [store, copy] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let file = ServerFile {
            url: "http://127.0.0.1:1".to_owned(),
            dataset: "ds".to_owned(),
            token: format!("{PREFIX}1"),
            folder: identity(store.path()).expect("a folder"),
        };
        file.write(store.path()).expect("written");
        let path = store.path().join(NAME);
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        assert_eq!(ServerFile::read(store.path()), Some(file.clone()));
        fs::copy(&path, copy.path().join(NAME)).expect("copied");
        assert_eq!(ServerFile::read(copy.path()), None);
        let other = ServerFile {
            token: format!("{PREFIX}2"),
            ..file.clone()
        };
        remove(store.path(), &other);
        assert!(path.exists(), "it is another server's");
        remove(store.path(), &file);
        assert_eq!(ServerFile::read(store.path()), None);
    }

    #[test]
    fn only_the_own_token_is_accepted() {
        let own = Announcements::new();
        let permits = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().expect("a value"));
            own.permits(&headers)
        };
        assert!(permits(&format!("Bearer {}", own.token)).expect("its own"));
        assert!(!permits("Bearer pythia_1234").expect("not of this kind"));
        assert!(!permits("Basic YTpi").expect("not of this kind"));
        let foreign = permits(&format!("Bearer {PREFIX}1234")).expect_err("another's");
        assert_eq!(foreign.status, StatusCode::UNAUTHORIZED);
    }

    #[test]
    fn a_server_on_all_addresses_is_reached_on_this_machine() {
        let of = |text: &str| reachable(text.parse().expect("an address")).to_string();
        assert_eq!(of("0.0.0.0:7878"), "127.0.0.1:7878");
        assert_eq!(of("[::]:7878"), "[::1]:7878");
        assert_eq!(of("10.0.0.1:7878"), "10.0.0.1:7878");
    }
}
