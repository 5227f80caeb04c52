//! The log of a store. Every commit is one checksummed, durable append, and the log decides what was committed
//! (Hyder, FlashLogging; Bulletin).
//!
//! - [`Log`] takes commits ([`Entry`], [`ChangeSet`]), writes them in groups with one sync each to one or several
//!   devices, and acknowledges them in order. [`BulkWriter`] writes many changes to a file beside the log.
//! - [`FolderIdentity`] distinguishes a log folder from an empty folder and from another store's.
//! - [`LogReader`] returns the commits ([`Commit`]) from any [`Position`] on, also during writing, and also from
//!   the archive.
//! - [`meld`] runs optimistic transactions of many executors over a shared log, as Hyder does. A store has one writer and
//!   does not use it.
//!
//! Commits are numbered from 1, without gaps. Acknowledged commits are found again after any crash, in order. If a
//! device loses data that it reported as durable, the log detects that as far as the remaining data allows. The
//! format is described in docs/format/log.md.

mod aside;
mod bulk;
mod catalog;
mod change;
#[cfg(test)]
mod compat_tests;
mod damage;
#[cfg(test)]
mod damage_tests;
mod device;
mod error;
mod folder;
mod format;
mod group;
mod heads;
mod keys;
mod log;
pub mod meld;
mod queue;
mod read_ahead;
mod reader;
mod record;
mod recover;
mod retain;
#[cfg(test)]
mod retain_tests;
mod salvage;
mod shared;
#[cfg(test)]
mod spare_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod unnamed;
mod walk;

pub use bulk::{Bulk, BulkChunk, BulkWriter};
pub use change::{Change, ChangeSet, LogTerm, NO_GRAPH};
pub use damage::Damage;
pub use error::LogError;
pub use folder::{FolderFiles, FolderId, FolderIdentity, FolderRole, IDENTITY_NAME};
pub use format::{FILE_HEADER_BYTES, FOLDER, FORMAT_VERSION, Position, StoreId};
pub use group::{Changes, Entry, KEY_BYTES_MAX};
pub use log::{Log, LogOptions, Ticket};
pub use reader::{Commit, Commits, LogReader};
pub use record::{RECORD_NAME, left_store};
pub use salvage::{Salvage, salvage};
pub use unnamed::check_unnamed;
