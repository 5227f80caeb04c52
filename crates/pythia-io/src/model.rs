//! A device with a modelled speed in front of another storage: to measure access patterns on devices that are not
//! available, and to test that reads are batched.
//!
//! # Reads
//!
//! The model gives the time of a read of 4 KiB for some numbers of reads in flight, up to the number that
//! saturates the device; between these it interpolates linearly. Beyond saturation the time grows with the number
//! in flight (Little's law). The bandwidth is never exceeded. The model has means only, no deviations, except for
//! slow writes that are asked for ([`SlowWrites`]).
//!
//! Two devices are those of the Pythia paper (§3, Tables 2 and 4). Its text states: PCM takes 36 µs alone and
//! 57 µs with 8 in flight, and gives 800 MB/s with 16; flash takes 72 µs alone and 65 µs with 2, is best with 32,
//! and gives 700 MB/s with large pages. It follows: PCM with 16 in flight takes 82 µs; flash with 4 takes 7 % less
//! than that, and with 16 it takes 2.5 times as long as PCM; PCM with 4 then takes 42 µs (its rate is 22 % above
//! flash with 16), and flash with 8 twice what PCM takes. With 32 in flight flash is slower by a factor of 1.5,
//! the smallest in the paper.
//!
//! # Writes
//!
//! A write returns when its bytes are durable (the paper measured with `O_SYNC`), so a sync takes no time. It takes its
//! latency, and the bytes beyond those of the latency their time at the bandwidth of writes ([`WriteModel`]).
//! Meanwhile it keeps the device busy only for a part of this time. Reads and writes share the device: each waits until
//! those before it no longer keep it busy. A write does not count among the reads in flight.
//!
//! The paper states (Tables 2 and 4, Appendix B): a write of 4 KiB takes 241 µs on flash and 386 µs on PCM (deviations
//! of 21 % and 11 %, which the model leaves out). PCM writes 40 MB/s with pages of 4 KiB, flash 550 MB/s with 16 KiB;
//! flash serves 88,000 requests of 4 KiB a second of which 30 % are writes. It follows: a write of 4 KiB keeps PCM busy
//! for 102 µs, so four in flight saturate it. A read of 4 KiB keeps flash busy for 7.7 µs (32 take 246 µs), so a write
//! does for 19.9 µs: (1 / 88,000 s − 0.7 × 7.7 µs) / 0.3. The paper does not state how a write on PCM delays reads.
//! The model assumes the same as on flash.
//!
//! # Chips
//!
//! [`DeviceModel::NAND_CHIP`] and [`DeviceModel::PCRAM_CHIP`] are single chips without a controller, of the Bulletin's
//! "Accelerating In-Page Logging with Non-Volatile Memory" (Table 2, §2.2, §4): a chip does one thing at a time, its
//! program erases blocks of flash itself ([`DeviceModel::erase_us`]), and a few bytes of PCRAM are read or written
//! alone. The two devices of the Pythia paper erase on their own; the means of their writes contain that time.

mod files;
mod write;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::IoError;
use crate::probe::{DeviceProfile, Origin, RandomReads};
use crate::storage::{
    FileVersion, LogFile, ReadFile, ReadRequest, Storage, WriteFile, merge_reads,
};

pub use write::{EraseModel, SlowWrites, WriteModel};

/// The speed of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceModel {
    /// Bytes of the reads in `latencies`: the smallest read, which others are multiples of.
    pub read_bytes: u64,
    /// Reads of this size in flight, and the microseconds that each then takes: from 1 on, ascending. The last number
    /// saturates the device.
    pub latencies: &'static [(u32, f32)],
    /// Bytes per second, for reads of any size.
    pub bandwidth_bytes: u64,
    /// True if the rest of a larger read is transferred while others are being located; false if each read in flight
    /// adds the time of its own transfer.
    pub overlaps: bool,
    /// Writes and erases.
    pub writes: WriteModel,
}

impl DeviceModel {
    /// The Pythia paper's flash array: 72 µs, 700 MB/s with 32 reads in flight.
    pub const FLASH: Self = Self {
        read_bytes: 4096,
        latencies: &[
            (1, 72.0),
            (2, 65.0),
            (4, 76.6),
            (8, 114.0),
            (16, 205.0),
            (32, 246.0),
        ],
        bandwidth_bytes: 700_000_000,
        overlaps: false,
        writes: WriteModel {
            latencies: &[(4096, 241.0)],
            bandwidth_bytes: 550_000_000,
            busy_us: 19.9,
            erase: None,
            slow: None,
        },
    };
    /// The Pythia paper's phase change memory: 36 µs, 800 MB/s with 16 reads in flight.
    pub const PCM: Self = Self {
        read_bytes: 4096,
        latencies: &[(1, 36.0), (4, 42.0), (8, 57.0), (16, 81.92)],
        bandwidth_bytes: 800_000_000,
        overlaps: true,
        writes: WriteModel {
            latencies: &[(4096, 386.0)],
            bandwidth_bytes: 40_000_000,
            busy_us: 0.0,
            erase: None,
            slow: None,
        },
    };
    /// The Bulletin's NAND flash chip: 75 µs to read and 250 µs to write a page of 2 KiB, 213 µs to write a sector of 512
    /// bytes, 1.5 ms to erase a block of 128 KiB.
    pub const NAND_CHIP: Self = Self {
        read_bytes: 2048,
        latencies: &[(1, 75.0)],
        bandwidth_bytes: 2048 * 1_000_000 / 75,
        overlaps: false,
        writes: WriteModel {
            latencies: &[(512, 213.0), (2048, 250.0)],
            bandwidth_bytes: 2048 * 1_000_000 / 250,
            busy_us: 250.0,
            erase: Some(EraseModel {
                block_bytes: 128 << 10,
                us: 1500.0,
            }),
            slow: None,
        },
    };
    /// The Bulletin's PCRAM chip: 206 ns to read and 7.1 µs to write 32 bytes, of which 78 ns are the same for any size.
    pub const PCRAM_CHIP: Self = Self {
        read_bytes: 32,
        latencies: &[(1, 0.206)],
        bandwidth_bytes: 32 * 1_000_000_000 / (206 - 78),
        overlaps: false,
        writes: WriteModel {
            latencies: &[(32, 7.1)],
            bandwidth_bytes: 32 * 1_000_000_000 / (7100 - 78),
            busy_us: 7.1,
            erase: None,
            slow: None,
        },
    };

    /// Returns the time of one read of the smallest size on an idle device.
    pub fn latency(&self) -> Duration {
        self.latency_at(1)
    }

    /// Returns the number of reads of the smallest size in flight that saturates the device.
    pub fn saturation_depth(&self) -> u32 {
        self.latencies.last().map_or(1, |(depth, _)| *depth)
    }

    /// Returns the time of one read of the smallest size with `depth` reads in flight. Beyond saturation the time stays the
    /// same.
    pub fn latency_at(&self, depth: u32) -> Duration {
        let depth = depth.clamp(1, self.saturation_depth());
        let above = self.latencies.partition_point(|(known, _)| *known < depth);
        let (high, high_us) = self.latencies[above];
        let (low, low_us) = self.latencies[above.saturating_sub(1)];
        let share = f64::from(depth - low) / f64::from((high - low).max(1));
        let us = f64::from(low_us) + share * f64::from(high_us - low_us);
        Duration::from_nanos((us * 1e3) as u64)
    }

    /// Returns the time in microseconds of one read of this size with `depth` such reads in flight.
    pub fn read_us(&self, bytes: u64, depth: u32) -> f64 {
        let depth = depth.max(1);
        let saturated = f64::from(depth) / f64::from(self.saturation_depth());
        let found = self.latency_at(depth).as_secs_f64() * 1e6 * saturated.max(1.0);
        let pass_us = |bytes: u64| bytes as f64 * 1e6 / self.bandwidth_bytes as f64;
        let rest = pass_us(bytes.saturating_sub(self.read_bytes));
        let all = f64::from(depth) * pass_us(bytes);
        if self.overlaps {
            (found + rest).max(all)
        } else {
            (found + f64::from(depth) * rest).max(all)
        }
    }

    /// Returns the time in microseconds of a batch of this many reads with this many bytes in all, on an idle device.
    pub fn batch_us(&self, reads: u32, bytes: u64) -> f64 {
        let all = self.latency_at(reads).max(self.transfer(bytes));
        all.as_secs_f64() * 1e6
    }

    /// Returns the time in microseconds of one write of this size on an idle device.
    pub fn write_us(&self, bytes: u64) -> f64 {
        self.writes.write_us(bytes)
    }

    /// Returns the time in microseconds to erase the blocks that hold this many bytes; 0 if the device erases on its own.
    pub fn erase_us(&self, bytes: u64) -> f64 {
        self.writes.erase_us(bytes)
    }

    /// Returns the profile that a probe would find.
    fn profile(&self) -> DeviceProfile {
        let depth = self.saturation_depth();
        let rate = f64::from(depth) / self.latency_at(depth).as_secs_f64().max(1e-9);
        DeviceProfile {
            origin: Origin::Modelled,
            identity: None,
            random: vec![RandomReads {
                bytes: self.read_bytes,
                latency_ns: (self.latency().as_nanos() as u64).max(1),
                depth,
                per_second: (rate as u64).max(1),
            }],
            sequential_read_bytes: self.bandwidth_bytes.max(1),
            sequential_write_bytes: Some(self.writes.bandwidth_bytes.max(1)),
            sync_ns: Some((self.write_us(1) * 1e3) as u64),
        }
    }

    /// Returns the time that these bytes take at full bandwidth.
    fn transfer(&self, bytes: u64) -> Duration {
        let nanoseconds =
            u128::from(bytes) * 1_000_000_000 / u128::from(self.bandwidth_bytes.max(1));
        Duration::from_nanos(nanoseconds as u64)
    }
}

/// The clock of a modelled device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelClock {
    /// Reads sleep until the model has served them.
    Real,
    /// Reads return at once and the clock is advanced. Exact and fast, but meant for one thread: batches of
    /// several threads are served one after the other.
    Virtual,
}

/// Statistics of a modelled device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelStatistics {
    /// Batches served.
    pub batches: u64,
    /// Reads served; neighbours count as one read.
    pub reads: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Writes served.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// The reads of a batch: the file of each, and its bytes.
pub type TracedBatch = Vec<(String, u64)>;

/// A storage whose reads and writes take the time that a modelled device would take.
#[derive(Debug)]
pub struct ModelledStorage {
    inner: Arc<dyn Storage>,
    device: Arc<Device>,
}

#[derive(Debug)]
struct Device {
    model: DeviceModel,
    clock: ModelClock,
    started: Instant,
    state: Mutex<Timeline>,
}

#[derive(Debug, Default)]
struct Timeline {
    /// The virtual clock.
    now: Duration,
    /// Time up to which the reads and writes so far keep the device busy.
    busy_until: Duration,
    /// End and number of the reads in flight.
    in_flight: Vec<(Duration, u32)>,
    statistics: ModelStatistics,
    /// The reads of each batch, if they are asked for.
    trace: Option<Vec<TracedBatch>>,
}

impl Timeline {
    /// Keeps the device busy for a time, after those before. Returns the end.
    fn occupy(&mut self, now: Duration, time: Duration) -> Duration {
        self.busy_until = self.busy_until.max(now) + time;
        self.busy_until
    }
}

impl ModelledStorage {
    /// Puts a modelled device in front of `inner`.
    pub fn new(inner: Arc<dyn Storage>, model: DeviceModel, clock: ModelClock) -> Self {
        Self {
            inner,
            device: Arc::new(Device {
                model,
                clock,
                started: Instant::now(),
                state: Mutex::default(),
            }),
        }
    }

    /// Returns the time on the device's clock since it was made.
    pub fn elapsed(&self) -> Duration {
        match self.device.clock {
            ModelClock::Real => self.device.started.elapsed(),
            ModelClock::Virtual => self.device.state.lock().now,
        }
    }

    /// Returns the statistics of the device.
    pub fn statistics(&self) -> ModelStatistics {
        self.device.state.lock().statistics
    }

    /// Starts a trace, and returns the batches since the last call, in their order; none at the first call.
    pub fn take_trace(&self) -> Vec<TracedBatch> {
        let trace = self.device.state.lock().trace.replace(Vec::new());
        trace.unwrap_or_default()
    }

    /// Returns the model.
    pub fn model(&self) -> DeviceModel {
        self.device.model
    }
}

impl Device {
    fn trace(&self, reads: &[ReadRequest<'_>]) {
        if let Some(trace) = &mut self.state.lock().trace {
            let read =
                |read: &ReadRequest<'_>| (read.file.name().to_owned(), read.buffer.len() as u64);
            trace.push(reads.iter().map(read).collect());
        }
    }

    /// Serves a batch of reads.
    fn read(&self, reads: u32, bytes: u64) {
        self.serve(|state, now| {
            let others: u32 = state.in_flight.iter().map(|(_, count)| count).sum();
            let found = now + self.model.latency_at(reads.saturating_add(others));
            let end = state.occupy(now, self.model.transfer(bytes)).max(found);
            state.in_flight.push((end, reads));
            state.statistics.batches += 1;
            state.statistics.reads += u64::from(reads);
            state.statistics.bytes += bytes;
            end
        });
    }

    /// Serves a write.
    fn write(&self, bytes: u64) {
        self.serve(|state, now| {
            state.statistics.writes += 1;
            state.statistics.written_bytes += bytes;
            let writes = &self.model.writes;
            let time = writes.time(bytes, state.statistics.writes);
            let busy = writes.busy(bytes);
            // The rest of the time begins when the device is no longer busy with those before.
            state.occupy(now, busy) + time.saturating_sub(busy)
        });
    }

    /// Lets the time pass up to the end that `end` returns for the present time.
    fn serve(&self, end: impl FnOnce(&mut Timeline, Duration) -> Duration) {
        let mut state = self.state.lock();
        let now = match self.clock {
            ModelClock::Real => self.started.elapsed(),
            ModelClock::Virtual => state.now,
        };
        state.in_flight.retain(|(end, _)| *end > now);
        let end = end(&mut state, now);
        match self.clock {
            ModelClock::Virtual => state.now = state.now.max(end),
            ModelClock::Real => {
                drop(state);
                std::thread::sleep(end.saturating_sub(self.started.elapsed()));
            }
        }
    }
}

impl Storage for ModelledStorage {
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>, IoError> {
        self.inner.open(name)
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>, IoError> {
        Ok(Box::new(files::ModelledWriter::new(
            self.inner.create(name)?,
            &self.device,
        )))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>, IoError> {
        let inner = self.inner.create_log(name, bytes)?;
        Ok(Box::new(files::ModelledLogFile::new(inner, &self.device)))
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>, IoError> {
        let inner = self.inner.open_log(name)?;
        Ok(Box::new(files::ModelledLogFile::new(inner, &self.device)))
    }

    fn read_batch(&self, reads: &mut [ReadRequest<'_>]) -> Result<(), IoError> {
        if reads.is_empty() {
            return Ok(());
        }
        let count = merge_reads(reads).count() as u32;
        let bytes = reads.iter().map(|read| read.buffer.len() as u64).sum();
        self.inner.read_batch(reads)?;
        self.device.trace(reads);
        self.device.read(count, bytes);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), IoError> {
        self.inner.rename(from, to)
    }

    fn sync_names(&self) -> Result<(), IoError> {
        self.inner.sync_names()
    }

    fn remove(&self, name: &str) -> Result<(), IoError> {
        self.inner.remove(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, IoError> {
        self.inner.list(folder)
    }

    fn place(&self) -> Option<String> {
        self.inner.place()
    }

    fn device(&self) -> DeviceProfile {
        self.device.model.profile()
    }

    fn version(&self, name: &str) -> Result<Option<FileVersion>, IoError> {
        self.inner.version(name)
    }

    fn read_all(&self, name: &str) -> Result<Vec<u8>, IoError> {
        let bytes = self.inner.read_all(name)?;
        self.device.read(1, bytes.len() as u64);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlignedBuffer, MemoryStorage};

    fn device(model: DeviceModel, clock: ModelClock) -> (ModelledStorage, Arc<dyn ReadFile>) {
        let memory = Arc::new(MemoryStorage::new());
        let mut file = memory.create("a").unwrap();
        file.append(&vec![7; 4 << 20]).unwrap();
        file.sync().unwrap();
        let storage = ModelledStorage::new(memory, model, clock);
        let file = storage.open("a").unwrap();
        (storage, file)
    }

    /// Reads `count` pages, no two of them neighbours, as one batch.
    fn read(storage: &ModelledStorage, file: &dyn ReadFile, count: usize) {
        let mut buffers: Vec<_> = (0..count).map(|_| AlignedBuffer::zeroed(4096)).collect();
        let mut reads: Vec<_> = buffers
            .iter_mut()
            .enumerate()
            .map(|(i, buffer)| ReadRequest {
                file,
                offset: i as u64 * 8192,
                buffer,
            })
            .collect();
        storage.read_batch(&mut reads).unwrap();
        drop(reads);
        assert!(buffers.iter().all(|buffer| buffer[4095] == 7));
    }

    #[test]
    fn a_batch_costs_far_less_than_its_reads_one_by_one() {
        for (model, single_us, batch_us, count) in [
            (DeviceModel::FLASH, 72, 246, 32),
            (DeviceModel::PCM, 36, 81, 16),
        ] {
            let (storage, file) = device(model, ModelClock::Virtual);
            assert!(storage.take_trace().is_empty());
            for _ in 0..count {
                read(&storage, &*file, 1);
            }
            assert_eq!(
                storage.elapsed(),
                Duration::from_micros(single_us) * count as u32
            );
            let before = storage.elapsed();
            read(&storage, &*file, count);
            assert_eq!((storage.elapsed() - before).as_micros(), batch_us);
            assert_eq!(storage.statistics().batches, count as u64 + 1);
            assert_eq!(storage.statistics().reads, 2 * count as u64);
            let trace = storage.take_trace();
            assert_eq!(trace.len(), count + 1);
            assert_eq!(trace[count], vec![("a".to_owned(), 4096); count]);
            assert!(storage.take_trace().is_empty());
        }
    }

    #[test]
    fn beyond_saturation_the_bandwidth_decides() {
        let (storage, file) = device(DeviceModel::FLASH, ModelClock::Virtual);
        read(&storage, &*file, 320);
        let expected = 320.0 * 4096.0 / 700e6;
        assert!((storage.elapsed().as_secs_f64() - expected).abs() < 1e-6);
    }

    /// Writes a file of `count` appends.
    fn write(storage: &ModelledStorage, count: usize, bytes: usize) -> Duration {
        let before = storage.elapsed();
        let mut file = storage.create("b").unwrap();
        for _ in 0..count {
            file.append(&vec![1; bytes]).unwrap();
        }
        file.sync().unwrap();
        storage.elapsed() - before
    }

    #[test]
    fn writes_cost_more_than_their_bytes() {
        for (model, single_us, mebibyte_us) in [
            (
                DeviceModel::FLASH,
                241.0,
                241.0 + (1_048_576.0 - 4096.0) / 550.0,
            ),
            (
                DeviceModel::PCM,
                386.0,
                386.0 + (1_048_576.0 - 4096.0) / 40.0,
            ),
        ] {
            let (storage, _) = device(model, ModelClock::Virtual);
            let us = |time: Duration| time.as_secs_f64() * 1e6;
            assert!((us(write(&storage, 10, 4096)) - 10.0 * single_us).abs() < 0.1);
            assert!((us(write(&storage, 1, 100)) - single_us).abs() < 0.1);
            assert!((us(write(&storage, 1, 1 << 20)) - mebibyte_us).abs() < 0.1);
            let statistics = storage.statistics();
            assert_eq!((statistics.writes, statistics.reads), (12, 0));
            assert_eq!(statistics.written_bytes, 40_960 + 100 + (1 << 20));
        }
    }

    #[test]
    fn a_write_keeps_the_device_busy_for_a_part_of_its_time() {
        for (model, busy_ns) in [(DeviceModel::FLASH, 19_900), (DeviceModel::PCM, 102_400)] {
            let (storage, _) = device(model, ModelClock::Virtual);
            write(&storage, 1, 4096);
            let busy_until = storage.device.state.lock().busy_until;
            assert_eq!(busy_until, Duration::from_nanos(busy_ns));
            assert!(storage.elapsed() > 2 * busy_until);
        }
        // Ten threads write at the bandwidth, which is less than ten times the rate of one.
        let (storage, _) = device(DeviceModel::PCM, ModelClock::Real);
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| storage.device.write(40_960));
            }
        });
        assert!(storage.elapsed() >= Duration::from_micros(10_240));
    }

    #[test]
    fn every_few_writes_one_is_slow() {
        let slow = |earlier| SlowWrites {
            every: 3,
            earlier,
            time: Duration::from_millis(5),
        };
        for earlier in 0..3 {
            let model = DeviceModel {
                writes: WriteModel {
                    slow: Some(slow(earlier)),
                    ..DeviceModel::FLASH.writes
                },
                ..DeviceModel::FLASH
            };
            let memory = Arc::new(MemoryStorage::new());
            let storage = ModelledStorage::new(memory, model, ModelClock::Virtual);
            let log = storage.create_log("log", 8192).unwrap();
            let mut slow = 0;
            for number in 1..=3 {
                let before = storage.elapsed();
                log.write_at(0, &AlignedBuffer::zeroed(4096)).unwrap();
                log.sync().unwrap();
                if storage.elapsed() - before == Duration::from_millis(5) {
                    slow = number;
                }
            }
            assert_eq!(slow, 3 - earlier);
            assert_eq!(storage.elapsed(), Duration::from_micros(2 * 241 + 5000));
        }
    }

    #[test]
    fn real_clocks_sleep() {
        let (storage, file) = device(DeviceModel::FLASH, ModelClock::Real);
        let started = Instant::now();
        for _ in 0..10 {
            read(&storage, &*file, 1);
        }
        assert!(started.elapsed() >= Duration::from_micros(720));
    }

    #[test]
    fn throughput_rises_with_depth_up_to_saturation() {
        let rates: Vec<f64> = [1, 2, 4, 8, 16, 32]
            .map(|depth| f64::from(depth) / DeviceModel::FLASH.latency_at(depth).as_secs_f64())
            .to_vec();
        assert!(rates.is_sorted());
        assert!(rates[5] > 9.0 * rates[0]);
        assert!((rates[5] * 4096.0 - 533e6).abs() < 1e6);
    }

    #[test]
    fn the_devices_are_those_of_the_paper() {
        let (pcm, flash) = (DeviceModel::PCM, DeviceModel::FLASH);
        let close = |found: f64, expected: f64| {
            assert!(
                (found / expected - 1.0).abs() < 0.03,
                "{found}, not {expected}"
            );
        };
        close(pcm.read_us(4096, 8), 57.0);
        close(flash.read_us(4096, 2), 65.0);
        // 2.5 times at 16 in flight, 1.5 from 32 on.
        close(flash.read_us(4096, 16) / pcm.read_us(4096, 16), 2.5);
        close(flash.read_us(4096, 32) / pcm.read_us(4096, 32), 1.5);
        close(flash.read_us(4096, 192) / pcm.read_us(4096, 192), 1.5);
        // PCM with 16 takes 7 % longer than flash with 4.
        close(pcm.read_us(4096, 16) / flash.read_us(4096, 4), 1.07);
        // PCM with 4 gives 22 % more than flash with 16.
        let rate = |us: f64, depth: f64| depth / us;
        let pcm_4 = rate(pcm.read_us(4096, 4), 4.0);
        close(pcm_4 / rate(flash.read_us(4096, 16), 16.0), 1.22);
        // Large pages: PCM is saturated by 4 reads, flash not even by 16 of 32 KiB.
        close(16_384.0 * 4.0 / pcm.read_us(16_384, 4), 800.0);
        let flash_rate =
            |bytes, depth: u32| f64::from(depth) * bytes as f64 / flash.read_us(bytes, depth);
        assert!(flash_rate(32_768, 16) < 650.0);
        assert!(flash_rate(32_768, 32) > 650.0 && flash_rate(16_384, 32) > 630.0);
        // Writes: 40 MB/s with 4 KiB, 550 MB/s with 16 KiB, and a mix of 4 KiB.
        let busy_us = |model: &DeviceModel, bytes| model.writes.busy(bytes).as_secs_f64() * 1e6;
        close(4096.0 / busy_us(&pcm, 4096), 40.0);
        close(16_384.0 / busy_us(&flash, 16_384), 550.0);
        let mixed_us = 0.7 * flash.read_us(4096, 32) / 32.0 + 0.3 * busy_us(&flash, 4096);
        close(1e6 / mixed_us, 88_000.0);
    }

    #[test]
    fn the_chips_are_those_of_the_bulletin() {
        let (nand, pcram) = (DeviceModel::NAND_CHIP, DeviceModel::PCRAM_CHIP);
        let close = |found: f64, expected: f64| {
            assert!(
                (found / expected - 1.0).abs() < 0.001,
                "{found}, not {expected}"
            );
        };
        close(nand.batch_us(1, 2048), 75.0);
        close(nand.batch_us(2, 8192), 300.0);
        close(nand.write_us(512), 213.0);
        close(nand.write_us(2048), 250.0);
        close(nand.write_us(8192), 1000.0);
        close(nand.erase_us(128 << 10), 1500.0);
        close(nand.erase_us((128 << 10) + 1), 3000.0);
        close(pcram.batch_us(1, 32), 0.206);
        close(pcram.write_us(32), 7.1);
        // 78 ns once, and the same time for each byte.
        close(pcram.read_us(512, 1), 0.078 + 16.0 * (0.206 - 0.078));
        close(pcram.write_us(512), 0.078 + 16.0 * (7.1 - 0.078));
        assert_eq!(pcram.erase_us(512), 0.0);
    }
}
