//! The log of a store: every commit is one checksummed, durable append, and the log is the truth of
//! what was committed (Hyder, FlashLogging; Bulletin December 2010).
//!
//! - [`Log`] takes commits ([`Entry`], [`ChangeSet`]), writes them in groups with one sync each to one
//!   or several devices, and acknowledges them in order. [`BulkWriter`] puts many changes aside.
//! - [`FolderIdentity`] tells a folder that the log is written to from an empty one, and from another store's.
//! - [`LogReader`] gives them back ([`Commit`]) from any [`Position`] on, also while they are written,
//!   also from the archive where old files go.
//!
//! Commits are numbered from 1 on, without gaps. What was acknowledged comes back after any crash, in
//! order; a device that lost it, although it said that it was durable, is found out as far as what is
//! left can show it. The bytes are in docs/format/log.md.

mod aside;
mod bulk;
mod bytes;
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
mod keys;
mod log;
mod reader;
mod record;
mod recover;
mod retain;
#[cfg(test)]
mod retain_tests;
mod salvage;
mod shared;
mod state;
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
