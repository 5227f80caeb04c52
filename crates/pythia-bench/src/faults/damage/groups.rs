//! The groups in the files of a log (`docs/format/log.md`), read independently of the code under test.

use std::path::{Path, PathBuf};

use super::Contents;

const BLOCK_BYTES: usize = 4096;

/// A group of commits in a file.
struct Group {
    file: PathBuf,
    /// Its byte range in the file.
    bytes: std::ops::Range<usize>,
    epoch: u64,
    number: u64,
    /// Groups up to this were durable when it was written.
    durable_before: u64,
}

/// The header of a file.
struct Header {
    file: PathBuf,
    epoch: u64,
    /// The first group that was not durable when the header was written.
    lower: u64,
}

/// The newer block of the record `LOG`.
struct Record {
    file: PathBuf,
    bytes: std::ops::Range<usize>,
    /// Number of writes of the record.
    writes: u64,
    epoch: u64,
    /// The first group that was not known to be durable when the record was written.
    durable: u64,
}

/// All groups, the headers of their files, and the record.
pub(super) struct Groups {
    groups: Vec<Group>,
    headers: Vec<Header>,
    record: Option<Record>,
}

impl Groups {
    pub(super) fn read(contents: &Contents) -> Self {
        let mut all = Self {
            groups: Vec::new(),
            headers: Vec::new(),
            record: None,
        };
        let records = contents.iter().filter(|(path, _)| path.ends_with("LOG"));
        for (path, bytes) in records {
            let blocks = [0, BLOCK_BYTES].into_iter();
            let blocks = blocks.filter(|at| {
                bytes
                    .get(*at..)
                    .is_some_and(|at| at.starts_with(b"PythiaLR"))
            });
            let blocks = blocks.map(|at| Record {
                file: path.clone(),
                bytes: at..at + BLOCK_BYTES,
                writes: number(bytes, at + 32),
                epoch: number(bytes, at + 40),
                durable: number(bytes, at + 48),
            });
            all.record = blocks.max_by_key(|record| record.writes);
        }
        let logs = contents.iter().filter(|(path, _)| is_log(path));
        for (path, bytes) in logs {
            if bytes.starts_with(b"PythiaLg") {
                all.headers.push(Header {
                    file: path.clone(),
                    epoch: number(bytes, 32),
                    lower: number(bytes, 56),
                });
            }
            let blocks = (BLOCK_BYTES..bytes.len()).step_by(BLOCK_BYTES);
            for at in blocks.filter(|at| bytes[*at..].starts_with(b"PyLG")) {
                let payload =
                    u32::from_le_bytes(bytes[at + 12..at + 16].try_into().expect("4 bytes"));
                let length = (64 + payload as usize).next_multiple_of(BLOCK_BYTES);
                all.groups.push(Group {
                    file: path.clone(),
                    bytes: at..at + length,
                    epoch: number(bytes, at + 24),
                    number: number(bytes, at + 32),
                    durable_before: number(bytes, at + 40),
                });
            }
        }
        all
    }

    /// Returns true if nothing left by a change shows that the lost groups had been acknowledged: no later epoch, no
    /// group that records them as durable, no file that begins after them, and not the record. The headers of files must
    /// be unchanged.
    pub(super) fn are_undecidable(&self, before: &Contents, after: &Contents) -> bool {
        let is_left = |file: &Path, bytes: std::ops::Range<usize>| {
            let old = before.get(file).and_then(|old| old.get(bytes.clone()));
            let new = after.get(file).and_then(|new| new.get(bytes));
            old.is_some() && old == new
        };
        let headers_left = |header: &&Header| is_left(&header.file, 0..BLOCK_BYTES);
        if !self.headers.iter().all(|header| headers_left(&header)) {
            return false;
        }
        let (left, taken): (Vec<&Group>, Vec<&Group>) = self
            .groups
            .iter()
            .partition(|group| is_left(&group.file, group.bytes.clone()));
        let Some(first) = taken.iter().min_by_key(|group| (group.epoch, group.number)) else {
            return false;
        };
        let shows =
            |epoch: u64, durable: bool| epoch > first.epoch || (epoch == first.epoch && durable);
        let by_group = left
            .iter()
            .any(|group| shows(group.epoch, group.durable_before >= first.number));
        let by_header = self
            .headers
            .iter()
            .any(|header| shows(header.epoch, header.lower > first.number));
        let by_record = self.record.iter().any(|record| {
            is_left(&record.file, record.bytes.clone())
                && shows(record.epoch, record.durable > first.number)
        });
        !by_group && !by_header && !by_record
    }
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes
        .get(at..at + 8)
        .and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}
