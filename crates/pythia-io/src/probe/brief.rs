//! The brief probe: what the store most needs to know of its device, by reading a file it has.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::stream::{self, Run, Transfer};
use super::{DeviceIdentity, DeviceProfile, Origin, RandomReads, SplitMix};

/// A smaller file says little: it may be in a cache of the device as a whole.
const FILE_BYTES_MIN: u64 = 8 << 20;
/// How long each stream runs; there are at most 19 of them.
const STREAM: Duration = Duration::from_millis(13);
/// Depths tried, for each read size.
const DEPTHS: [u32; 4] = [8, 32, 64, 128];
/// How often each is tried: the best counts, as others who use the device only slow it.
const ROUNDS: usize = 2;
/// Read sizes tried.
const SIZES: [usize; 2] = [4 << 10, 16 << 10];
/// Reads of the sequential stream.
const SEQUENTIAL_BYTES: usize = 256 << 10;
const SEQUENTIAL_DEPTH: usize = 4;
/// Where a read takes longer than this, deep queues would keep whoever waits waiting.
const SLOW: Duration = Duration::from_millis(2);

/// Measures the device under a folder for about a quarter of a second by reading `file`, which is
/// open for direct reads. `None` if the file is too small to tell.
pub fn brief(folder: &Path, file: &File) -> io::Result<Option<DeviceProfile>> {
    let bytes = file.metadata()?.len();
    if bytes < FILE_BYTES_MIN {
        return Ok(None);
    }
    let mut random = Vec::new();
    for size in SIZES {
        random.push(random_reads(file, bytes, size)?);
    }
    let sequential = sequential(file, bytes)?;
    Ok(Some(DeviceProfile {
        origin: Origin::Brief,
        identity: Some(DeviceIdentity::of(folder)?),
        random,
        sequential_read_bytes: (sequential.bytes_per_second() as u64).max(1),
        ..DeviceProfile::default()
    }))
}

fn random_reads(file: &File, file_bytes: u64, size: usize) -> io::Result<RandomReads> {
    let mut latency_ns = u64::MAX;
    for _ in 0..ROUNDS {
        let alone = random_stream(file, file_bytes, size, 1)?;
        latency_ns = latency_ns.min(alone.median_ns().max(1));
    }
    let is_slow = latency_ns > SLOW.as_nanos() as u64;
    let depths = DEPTHS.into_iter().filter(|depth| !is_slow || *depth <= 32);
    let mut rates: Vec<(u32, f64)> = depths.map(|depth| (depth, 0.0)).collect();
    for _ in 0..ROUNDS {
        for (depth, rate) in &mut rates {
            let run = random_stream(file, file_bytes, size, *depth)?;
            *rate = rate.max(run.per_second());
        }
    }
    Ok(RandomReads::new(size as u64, latency_ns, &rates))
}

fn random_stream(file: &File, file_bytes: u64, size: usize, depth: u32) -> io::Result<Run> {
    let places = file_bytes / size as u64;
    let mut random = SplitMix(u64::from(depth) << 32 | size as u64);
    let begun = Instant::now();
    stream::run(file, depth as usize, size, &mut || {
        let offset = random.below(places) * size as u64;
        (begun.elapsed() < STREAM).then_some(read(offset, size))
    })
}

fn sequential(file: &File, file_bytes: u64) -> io::Result<Run> {
    let places = file_bytes / SEQUENTIAL_BYTES as u64;
    let mut place = 0;
    let begun = Instant::now();
    stream::run(file, SEQUENTIAL_DEPTH, SEQUENTIAL_BYTES, &mut || {
        let offset = place % places * SEQUENTIAL_BYTES as u64;
        place += 1;
        (begun.elapsed() < STREAM).then_some(read(offset, SEQUENTIAL_BYTES))
    })
}

fn read(offset: u64, bytes: usize) -> Transfer {
    Transfer {
        offset,
        bytes,
        write: false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_large_file_gives_a_profile_and_a_small_one_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = tempfile::tempfile_in(folder.path()).unwrap();
        file.set_len(FILE_BYTES_MIN - 1).unwrap();
        assert_eq!(brief(folder.path(), &file).unwrap(), None);
        file.write_all_at(&vec![1; FILE_BYTES_MIN as usize], 0)
            .unwrap();
        let profile = brief(folder.path(), &file).unwrap().expect("large enough");
        assert!(profile.is_plausible(), "{profile:?}");
        assert_eq!(profile.origin, Origin::Brief);
        assert_eq!(profile.random.len(), SIZES.len());
    }
}
