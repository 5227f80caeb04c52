//! The brief probe: measures the most important properties of a device by reading an existing file.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use super::stream::{self, Measurements, Transfer};
use super::{DeviceIdentity, DeviceProfile, Origin, RandomReads, SplitMix};

/// Minimum size of the file. A smaller one may be in a cache of the device as a whole.
const FILE_BYTES_MIN: u64 = 8 << 20;
/// Duration of each stream of random reads; there are at most 20 of them.
const RANDOM: Duration = Duration::from_millis(6);
/// Duration of the sequential stream, whose reads are longer.
const SEQUENTIAL: Duration = Duration::from_millis(13);
/// Depths tried for each read size.
const DEPTHS: [u32; 4] = [8, 32, 64, 128];
/// Number of times each is tried. The best counts, because other users of the device can only slow it down.
const ROUNDS: usize = 2;
/// Read sizes tried.
const SIZES: [usize; 2] = [4 << 10, 16 << 10];
/// Read size of the sequential stream, in bytes, and its depth.
const SEQUENTIAL_BYTES: usize = 256 << 10;
const SEQUENTIAL_DEPTH: usize = 4;
/// If a read takes longer than this, deep queues would make other readers wait.
const SLOW: Duration = Duration::from_millis(2);

/// Minimum depth that the brief probe reports. A short measurement cannot show that a deeper queue gains nothing,
/// and a deeper queue costs little on a device that is not slow.
const DEPTH_MIN: u32 = 32;
/// If half of the reads take this multiple of the quickest tenth, they have waited for a processor, not for the
/// device.
const BUSY: u64 = 4;

/// Measures the device of a file for about 150 milliseconds by reading the file, which must be open for
/// direct reads. `None` if the file is too small or the machine too busy for a result.
pub fn brief(file: &File) -> io::Result<Option<DeviceProfile>> {
    let bytes = file.metadata()?.len();
    if bytes < FILE_BYTES_MIN {
        return Ok(None);
    }
    let mut random = Vec::new();
    for size in SIZES {
        match random_reads(file, bytes, size)? {
            Some(reads) => random.push(reads),
            None => return Ok(None),
        }
    }
    let sequential = sequential(file, bytes)?.bytes_per_second() as u64;
    // Data that can be read at random can be read sequentially at the same rate.
    let at_random = random.iter().map(|reads| reads.bytes * reads.per_second);
    let sequential = at_random.fold(sequential, u64::max).max(1);
    Ok(Some(DeviceProfile {
        origin: Origin::Brief,
        identity: Some(DeviceIdentity::of_file(file)?),
        random,
        sequential_read_bytes: sequential,
        ..DeviceProfile::default()
    }))
}

fn random_reads(file: &File, file_bytes: u64, size: usize) -> io::Result<Option<RandomReads>> {
    let mut latencies = Vec::new();
    for _ in 0..ROUNDS {
        let alone = random_stream(file, file_bytes, size, 1)?;
        latencies.extend(alone.samples.iter().map(|s| s.latency.as_nanos() as u64));
    }
    let Some(latency_ns) = undisturbed_median(latencies) else {
        return Ok(None);
    };
    let is_slow = latency_ns > SLOW.as_nanos() as u64;
    let depths = DEPTHS.into_iter().filter(|depth| !is_slow || *depth <= 32);
    let mut rates: Vec<(u32, f64)> = depths.map(|depth| (depth, 0.0)).collect();
    for _ in 0..ROUNDS {
        for (depth, rate) in &mut rates {
            let run = random_stream(file, file_bytes, size, *depth)?;
            *rate = rate.max(run.per_second());
        }
    }
    let mut reads = RandomReads::new(size as u64, latency_ns, &rates);
    if !is_slow {
        reads.depth = reads.depth.max(DEPTH_MIN);
    }
    Ok(Some(reads))
}

/// Returns the median; `None` if it shows the machine's load rather than the device.
fn undisturbed_median(mut nanoseconds: Vec<u64>) -> Option<u64> {
    nanoseconds.sort_unstable();
    let quick = *nanoseconds.get(nanoseconds.len() / 10)?;
    let median = nanoseconds[nanoseconds.len() / 2].max(1);
    (median <= BUSY * quick.max(1)).then_some(median)
}

fn random_stream(
    file: &File,
    file_bytes: u64,
    size: usize,
    depth: u32,
) -> io::Result<Measurements> {
    let places = file_bytes / size as u64;
    let mut random = SplitMix(u64::from(depth) << 32 | size as u64);
    let begun = Instant::now();
    stream::run(file, depth as usize, size, &mut || {
        let offset = random.below(places) * size as u64;
        (begun.elapsed() < RANDOM).then_some(read(offset, size))
    })
}

fn sequential(file: &File, file_bytes: u64) -> io::Result<Measurements> {
    let places = file_bytes / SEQUENTIAL_BYTES as u64;
    let mut place = 0;
    let begun = Instant::now();
    stream::run(file, SEQUENTIAL_DEPTH, SEQUENTIAL_BYTES, &mut || {
        let offset = place % places * SEQUENTIAL_BYTES as u64;
        place += 1;
        (begun.elapsed() < SEQUENTIAL).then_some(read(offset, SEQUENTIAL_BYTES))
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
        assert_eq!(brief(&file).unwrap(), None);
        file.write_all_at(&vec![1; FILE_BYTES_MIN as usize], 0)
            .unwrap();
        // `None`: other tests keep the machine busy.
        if let Some(profile) = brief(&file).unwrap() {
            assert!(profile.is_plausible(), "{profile:?}");
            assert_eq!(profile.origin, Origin::Brief);
            assert_eq!(profile.random.len(), SIZES.len());
            assert!(profile.depth(4096) >= 32);
        }
    }

    #[test]
    fn reads_that_wait_for_a_processor_tell_nothing() {
        let device = [40, 41, 44, 45, 46, 47, 50, 60, 90, 4000];
        assert_eq!(undisturbed_median(device.to_vec()), Some(47));
        let busy = [40, 41, 44, 3900, 4000, 4000, 4100, 4200, 8000, 8000];
        assert_eq!(undisturbed_median(busy.to_vec()), None);
        assert_eq!(undisturbed_median(Vec::new()), None);
        assert_eq!(undisturbed_median(vec![8_000_000]), Some(8_000_000));
    }
}
