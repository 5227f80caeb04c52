//! The keys and bulk files that the commits of a log file name. Opening a log finds them while it reads the files for their
//! groups, so that it reads each file once.

use crate::LogError;
use crate::catalog::{CatalogFile, Scan};
use crate::format::{BLOCK_BYTES, GroupHeader};
use crate::group::{KeyAndBulk, decode_heads, payload};

/// Contents of a log file, except for the changes of its commits.
#[derive(Debug)]
pub(crate) struct FileHeads {
    /// End of the last whole group, in bytes.
    pub(crate) end: usize,
    /// The file's length without the zeros at its end.
    pub(crate) used: usize,
    /// The whole groups, and the keys and bulk files of their commits.
    pub(crate) groups: Vec<(GroupHeader, Result<Vec<KeyAndBulk>, LogError>)>,
}

impl FileHeads {
    /// Reads the heads of a file's groups.
    pub(crate) fn of(file: &CatalogFile, scan: &Scan) -> Self {
        // Remains of a crash behind the last group stay, because they cannot be told from a damaged group.
        let content = scan.bytes.iter().rposition(|byte| *byte != 0);
        let content = content.map_or(0, |last| (last + 1).next_multiple_of(BLOCK_BYTES));
        let heads = |(offset, header): &(usize, GroupHeader)| {
            let (group, at) = (scan.group(*offset, header), *offset as u64);
            let heads = payload(header, group, &file.name, at)
                .and_then(|bytes| decode_heads(&bytes, &file.name, at));
            (*header, heads)
        };
        Self {
            end: scan.end,
            used: content.max(scan.end),
            groups: scan.groups.iter().map(heads).collect(),
        }
    }
}
