//! Copies files and commits.

use std::io::BufRead;
use std::sync::Arc;

use pythia_io::{IoError, SequentialReader, Storage};
use pythia_log::{Changes, Commit, Entry, Log, LogError, Ticket};

const COPY_BYTES: usize = 1 << 20;

/// Copies a file durably, and returns its length and checksum.
pub(super) fn copy_file(
    from: &Arc<dyn Storage>,
    name: &str,
    to: &dyn Storage,
    copy: &str,
) -> Result<(u64, u32), IoError> {
    let mut reader = SequentialReader::new(Arc::clone(from), from.open(name)?, COPY_BYTES);
    let mut writer = to.create(copy)?;
    let (mut bytes, mut checksum) = (0, 0);
    loop {
        let filled = reader.fill()?;
        let count = filled.len();
        if count == 0 {
            break;
        }
        checksum = crc32c::crc32c_append(checksum, filled);
        writer.append(filled)?;
        bytes += count as u64;
        reader.consume(count);
    }
    writer.sync()?;
    Ok((bytes, checksum))
}

/// Appends a commit to another log, which assigns it the same position.
pub(super) fn copy_commit(commit: &Commit, log: &Log) -> Result<Ticket, LogError> {
    assert_eq!(
        commit.position,
        log.next_position(),
        "commits are copied in order"
    );
    let entry = |changes| Entry {
        time: commit.time,
        key: commit.key.as_deref(),
        changes,
    };
    let mut sets = commit.changes();
    if commit.is_bulk() {
        let mut writer = log.begin_bulk()?;
        for set in sets {
            writer.push(&set?)?;
        }
        return log.submit(&[entry(Changes::Bulk(writer.finish()?))]);
    }
    let set = sets.next().transpose()?.unwrap_or_default();
    log.submit(&[entry(Changes::Inline(&set))])
}
