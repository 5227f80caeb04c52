//! The figures of the paper ("Flash in a DBMS: Where and How?", Bulletin of December 2010, §3 and Figure 4; the text gives no
//! times), and the limits of this repository.

/// Time of TPC-H queries with cached updates, relative to that without updates: "almost the same performance (within 1 %)".
pub(super) const CACHED_MAX: f64 = 1.01;
/// Time of the same queries while pages are updated in place, relative to that without updates: least and most.
pub(super) const IN_PLACE: (f64, f64) = (1.6, 2.2);
/// Bytes of flash for updates, of memory, and of a transfer, beside a database of 30 GB.
pub(super) const FLASH_BYTES: u64 = 1 << 30;
pub(super) const MEMORY_BYTES: u64 = 8 << 20;
pub(super) const TRANSFER_BYTES: u64 = 64 << 10;

/// Percentage of changed quads that our limits are for.
pub(super) const LIMIT_PERCENT: f64 = 3.0;
/// Our limits of the time with changes, relative to that without: with empty caches, and with the pages in memory.
pub(super) const LIMIT_COLD: f64 = 1.02;
pub(super) const LIMIT_WARM: f64 = 1.06;
