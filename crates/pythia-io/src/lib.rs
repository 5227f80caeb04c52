//! Storage devices and the buffer pool of Pythia.
//!
//! - [`Storage`] is a folder of immutable files and log files ([`LogFile`]). Implementations: the real device
//!   ([`DirectStorage`]), memory ([`MemoryStorage`]), a device with a modelled speed ([`ModelledStorage`]), and
//!   one that fails on demand ([`FaultyStorage`]).
//! - [`BufferPool`] holds pages within a hard budget; [`PagedFile`] returns pages, one or (better) a batch at a
//!   time; [`PageWriter`] writes them.
//!
//! - [`bytes`] reads and writes the small structures of files, checked.
//! - [`at_low_priority`] does work that others should not notice.
//! - [`TemporaryFile`] is for data that does not fit into memory.
//! - [`system`] has the wall clock, randomness and the machine's memory.
//! - [`probe`] measures the speed of a device; the resulting [`DeviceProfile`] sets queue depths and read-ahead.
//!
//! Every page has a checksum of its bytes and its place ([`seal_page`]), which is verified when the page enters
//! the pool. No file is mapped into memory, and nothing above this crate touches a file of a store.

mod aligned;
pub mod bytes;
mod descriptors;
mod device;
mod error;
mod faulty;
mod low_priority;
mod memory;
mod model;
mod observed;
mod page;
mod pool;
pub mod probe;
mod reader;
mod storage;
mod subfolder;
pub mod system;
mod temporary;

pub use aligned::AlignedBuffer;
pub use descriptors::{descriptors_max, raise_descriptors_max};
pub use device::{Backend, DirectStorage, FolderLock, IoMode, LockKind};
pub use error::IoError;
pub use faulty::{FaultPlan, FaultyStorage, FlippedBit};
pub use low_priority::{at_low_priority, give_way};
pub use memory::MemoryStorage;
pub use model::{
    DeviceModel, EraseModel, ModelClock, ModelStatistics, ModelledStorage, SlowWrites, TracedBatch,
    WriteModel,
};
pub use observed::{ObservedStorage, Observer};
pub use page::{PageMismatch, SEAL_BYTES, seal_page, verify_page};
pub use pool::{
    BUDGET_BYTES_MIN, BufferPool, Counters, GroupCounters, PAGE_BYTES_MAX, Page, PageCounts,
    PageTally, PageWriter, PagedFile,
};
pub use probe::{DeviceIdentity, DeviceProfile, Origin};
pub use reader::SequentialReader;
pub use storage::{
    ALIGNMENT, FileVersion, LogFile, MERGED_READ_BYTES_MAX, ReadFile, ReadRequest, Storage,
    WriteFile, merge_reads,
};
pub use subfolder::Subfolder;
pub use temporary::{TemporaryError, TemporaryFile, TemporarySpace};
