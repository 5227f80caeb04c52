//! The rest of the operating system that the crates above use: wall clock, randomness, the machine's memory, and paths.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the microseconds since 1970 by the wall clock.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// Returns random bytes, for an id that no other has.
pub fn random_bytes() -> [u8; 16] {
    rand::random()
}

/// Returns a random number.
pub fn random_u64() -> u64 {
    rand::random()
}

/// Returns the bytes of the machine's memory; `None` if the system does not report them.
pub fn memory_bytes() -> Option<usize> {
    bytes_of("/proc/meminfo", "MemTotal:")
}

/// Returns the bytes of this process that are in memory; `None` if the system does not report them.
pub fn resident_bytes() -> Option<usize> {
    bytes_of("/proc/self/status", "VmRSS:")
}

/// Returns the bytes in a line of a file that begins with a name.
fn bytes_of(file: &str, name: &str) -> Option<usize> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes = line
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<usize>()
        .ok()?;
    Some(kilobytes << 10)
}

/// Returns whether both paths lead to the same folder, as far as can be determined.
pub fn is_same_folder(one: &Path, other: &Path) -> bool {
    let [one, other] =
        [one, other].map(|path| std::fs::canonicalize(path).unwrap_or_else(|_| absolute(path)));
    one == other
}

/// Returns the absolute path, by the present working directory.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
