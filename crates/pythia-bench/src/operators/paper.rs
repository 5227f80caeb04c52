//! The figures of the papers' texts: "Designing Database Operators for Flash-enabled Memory Hierarchies" (FlashScan, FlashJoin)
//! and "Storage Class Memory Aware Data Management" (Buffered Bloom filter), both in the IEEE Data Engineering Bulletin of
//! December 2010. Their plots give no numbers.

/// FlashScan of all rows and few attributes: "up to 3X faster than the traditional scan for few projected attributes" (§3.3).
pub(super) const SCAN_GAIN: f64 = 3.0;
/// FlashScan of 0.01 % of the rows: "consistently outperforms the traditional scan by 3-4x" (§3.3).
pub(super) const SCAN_GAIN_OF_FEW_ROWS: [f64; 2] = [3.0, 4.0];
/// FlashJoin: "at least 2x faster than hybrid hash join over either traditional row-based (HNSM) or PAX layouts" (Figure 4).
pub(super) const JOIN_GAIN: f64 = 2.0;
/// "we were able to speed up queries, ranging from simple scans to multiway joins and full TPC-H queries, by up to 6x" (§5).
pub(super) const JOIN_GAIN_MAX: f64 = 6.0;

/// Buffered Bloom filter: "The BBF runs faster than the TBF provided that the buffer size is at least 32 MB" (§3), with a filter
/// of 256 MB on the device and one of 128 MB in memory.
pub(super) const BUFFER_BYTES: usize = 32 << 20;
/// Of the filter in memory that the buffered one is compared with.
pub(super) const MEMORY_FILTER_BYTES: usize = 128 << 20;
/// "an upper bound of 0.25% on the false positive rate" (§3).
pub(super) const FALSE_POSITIVE_RATE: f64 = 0.0025;
/// With 32 MB for the buffered filter and 64 MB for the one in memory, the latter "yields at least an order of magnitude more
/// false positives" (§3).
pub(super) const FALSE_POSITIVES_FACTOR: f64 = 10.0;
/// The filter in memory of that comparison.
pub(super) const SMALL_MEMORY_FILTER_BYTES: usize = 64 << 20;
