//! The figures of the paper (§4 and Figure 2; the text gives no times).

/// Records of the trace.
pub(super) const RECORDS: u64 = 5_000_000;
/// Bytes of the buffer.
pub(super) const BUFFER_BYTES: u64 = 20 << 20;
/// Bytes of the database.
pub(super) const DATABASE_BYTES: f64 = 360e6;
/// Bytes of log records in a log sector of 512 bytes, on average.
pub(super) const LOG_BYTES: f64 = 135.0;
/// Percent by which sectors of 512 bytes in PCRAM reduce the time of the insertions, against flash alone: least and most.
pub(super) const SAVED_PERCENT: (f64, f64) = (17.0, 43.0);
/// Percent by which sectors of 128 bytes reduce the time that is left further, at most ("up to almost").
pub(super) const SAVED_FURTHER_PERCENT: f64 = 50.0;
/// Factor by which sectors of 128 bytes reduce merges ("more than").
pub(super) const FEWER_MERGES: f64 = 2.0;
/// Sizes of a log sector: on flash and in PCRAM, and the smaller one in PCRAM.
pub(super) const SECTOR_BYTES: usize = 512;
pub(super) const SMALL_SECTOR_BYTES: usize = 128;
