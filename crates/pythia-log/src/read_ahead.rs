//! Reads the log files of several devices at the same time.
//!
//! Each device has a thread that reads its files one after the other, and waits with a file until the walk takes it. So a
//! device has at most one file in memory beside those that the walk holds, and the order of files and errors is the walk's.
//! The files of a single device are read when they are taken, without a thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use pythia_io::IoError;

use crate::catalog::{CatalogFile, Scan};

/// The files of a log, to be taken in a given order.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    /// Address of the storage → its thread; empty for a single device.
    lanes: BTreeMap<usize, Lane>,
}

/// A thread that reads the files of a device.
#[derive(Debug)]
struct Lane {
    /// One scan of each file. Dropping it ends the thread.
    scans: Option<Receiver<Result<Scan, IoError>>>,
    thread: Option<JoinHandle<()>>,
}

impl ReadAhead {
    /// Begins to read files, which will be taken in this order.
    pub(crate) fn new<'f>(files: impl Iterator<Item = &'f CatalogFile>) -> Self {
        let mut of_device: BTreeMap<usize, Vec<CatalogFile>> = BTreeMap::new();
        for file in files {
            of_device
                .entry(address(file))
                .or_default()
                .push(file.clone());
        }
        if of_device.len() < 2 {
            return Self::default();
        }
        let lanes = of_device.into_iter();
        let lanes = lanes.filter_map(|(device, files)| Some((device, Lane::start(files)?)));
        Self {
            lanes: lanes.collect(),
        }
    }

    /// Returns the next file. Reads it now if no thread has read it.
    pub(crate) fn take(&self, file: &CatalogFile) -> Result<Scan, IoError> {
        let lane = self.lanes.get(&address(file));
        let scans = lane.and_then(|lane| lane.scans.as_ref());
        match scans.map(Receiver::recv) {
            Some(Ok(scan)) => scan,
            Some(Err(_)) | None => Scan::read(file),
        }
    }
}

impl Lane {
    /// Starts a thread; `None` if the system has none to spare.
    fn start(files: Vec<CatalogFile>) -> Option<Self> {
        let (sender, scans) = sync_channel(0);
        let read = move || {
            // The walk may end before the last file.
            let _ = files
                .iter()
                .try_for_each(|file| sender.send(Scan::read(file)));
        };
        let thread = std::thread::Builder::new().name("log reader".to_owned());
        Some(Self {
            scans: Some(scans),
            thread: Some(thread.spawn(read).ok()?),
        })
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.scans = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has sent nothing, and its file was read again.
            let _ = thread.join();
        }
    }
}

fn address(file: &CatalogFile) -> usize {
    Arc::as_ptr(&file.storage).cast::<()>().addr()
}

#[cfg(test)]
mod tests {
    use pythia_io::{MemoryStorage, Storage};

    use super::*;
    use crate::catalog::Catalog;
    use crate::tests::{Devices, STORE, commit, options};
    use crate::{Log, LogError};

    fn log(count: usize) -> (Devices, Vec<CatalogFile>) {
        let devices: Devices = (0..count)
            .map(|_| Arc::new(MemoryStorage::new()) as Arc<dyn Storage>)
            .collect();
        for first in (1..100).step_by(33) {
            let log = match first {
                1 => Log::create(devices.clone(), STORE, options()),
                _ => Log::open(devices.clone(), STORE, crate::Position(1), options())
                    .map(|(log, _)| log),
            };
            let log = log.unwrap();
            for number in first..first + 33 {
                commit(&log, number..number + 1).unwrap();
            }
            log.close().unwrap();
        }
        let files = Catalog::list(&devices, None, STORE).unwrap().files;
        (devices, files)
    }

    fn groups(scan: Result<Scan, IoError>) -> usize {
        scan.unwrap().groups.len()
    }

    #[test]
    fn files_come_in_order_and_errors_in_their_place() {
        for count in [1, 3] {
            let (devices, files) = log(count);
            assert!(files.len() > 4);
            let gone = &files[files.len() / 2];
            devices[gone.device as usize].remove(&gone.name).unwrap();
            let reads = ReadAhead::new(files.iter());
            assert_eq!(reads.lanes.len() > 1, count > 1, "threads for several");
            for file in &files {
                match reads.take(file) {
                    Err(error) => {
                        assert!(error.is_not_found(), "{error}");
                        assert_eq!((&file.name, file.device), (&gone.name, gone.device));
                    }
                    read => assert_eq!(groups(read), groups(Scan::read(file))),
                }
            }
        }
    }

    #[test]
    fn threads_end_with_the_reader() -> Result<(), LogError> {
        let (devices, files) = log(3);
        let reads = ReadAhead::new(files.iter());
        assert!(groups(reads.take(&files[0])) > 0);
        drop(reads);
        drop(files);
        for device in devices {
            assert_eq!(Arc::strong_count(&device), 1, "no thread holds it");
        }
        Ok(())
    }
}
