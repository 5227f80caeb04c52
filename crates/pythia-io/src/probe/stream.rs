//! A measured stream of reads and writes, with a fixed number in flight at all times.
//!
//! A single transfer at a time uses plain `pread` and `pwrite`. Several go through a ring, in which each completed
//! transfer is replaced at once, as fio does; where rings are refused, through threads.
//!
//! Invariant: a stream returns only when the kernel has finished with all of its buffers.
#![expect(unsafe_code, reason = "submissions hand raw buffers to the kernel")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, types};
use parking_lot::Mutex;

use super::SplitMix;
use crate::AlignedBuffer;

/// One transfer of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Offset in the file.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: usize,
    /// True for a write.
    pub write: bool,
}

/// A completed transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time of its submission, since the stream began.
    pub start: Duration,
    /// Time that it took.
    pub latency: Duration,
    /// Number of bytes.
    pub bytes: usize,
    /// True for a write.
    pub write: bool,
}

/// The measurements of a stream.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    /// All transfers, in order of completion.
    pub samples: Vec<Sample>,
    /// From the first submission to the last completion.
    pub elapsed: Duration,
}

impl Measurements {
    /// Returns the transfers per second.
    pub fn per_second(&self) -> f64 {
        self.samples.len() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns the bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        let bytes: u64 = self.samples.iter().map(|sample| sample.bytes as u64).sum();
        bytes as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// The source of a stream's transfers; `None` ends the stream.
pub type Source<'s> = dyn FnMut() -> Option<Transfer> + Send + 's;

/// Runs transfers of at most `bytes_max` each on a file until the source ends, with `depth` of them in flight.
/// Writes random bytes, which no device can compress.
pub fn run(
    file: &File,
    depth: usize,
    bytes_max: usize,
    next: &mut Source<'_>,
) -> io::Result<Measurements> {
    if depth <= 1 {
        return one_at_a_time(file, bytes_max, next);
    }
    match IoUring::new(depth.next_power_of_two() as u32) {
        Ok(mut ring) => Lanes::new(file, depth, bytes_max).run(&mut ring, next),
        Err(_) => by_threads(file, depth, bytes_max, next),
    }
}

/// The next step of a chain of dependent reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads from this offset after a pause.
    Read(u64, Duration),
    /// Ends the chain.
    End,
}

/// Returns the next step of a chain, given its number and the bytes of its last read (`None` at first).
pub type Guide<'g> = dyn FnMut(usize, Option<&[u8]>) -> Step + Send + 'g;

/// Runs chains of dependent reads in parallel, each until its guide ends it. The next read of a chain is known
/// only when the previous one is done. Only this thread uses processor time for waiting.
pub fn chase(
    file: &File,
    chains: usize,
    bytes: usize,
    guide: &mut Guide<'_>,
) -> io::Result<Measurements> {
    if chains <= 1 {
        return chase_alone(file, bytes, guide);
    }
    let mut ring = IoUring::new(chains.next_power_of_two() as u32)?;
    Lanes::new(file, chains, bytes).chase(&mut ring, guide)
}

fn chase_alone(file: &File, bytes: usize, guide: &mut Guide<'_>) -> io::Result<Measurements> {
    let mut buffer = AlignedBuffer::zeroed(bytes);
    let mut run = Measurements::default();
    let begun = Instant::now();
    let mut step = guide(0, None);
    while let Step::Read(offset, pause) = step {
        let due = begun.elapsed() + pause;
        while begun.elapsed() < due {
            std::hint::spin_loop();
        }
        let now = read_of(offset, bytes);
        let start = begun.elapsed();
        transfer(file, &mut buffer, now)?;
        run.push(start, begun.elapsed(), now);
        step = guide(0, Some(&buffer));
    }
    run.elapsed = begun.elapsed();
    Ok(run)
}

fn read_of(offset: u64, bytes: usize) -> Transfer {
    Transfer {
        offset,
        bytes,
        write: false,
    }
}

fn noise(bytes: usize, seed: u64) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(bytes);
    SplitMix(seed).fill(&mut buffer);
    buffer
}

fn transfer(file: &File, buffer: &mut [u8], transfer: Transfer) -> io::Result<()> {
    let buffer = &mut buffer[..transfer.bytes];
    if transfer.write {
        file.write_all_at(buffer, transfer.offset)
    } else {
        file.read_exact_at(buffer, transfer.offset)
    }
}

fn one_at_a_time(file: &File, bytes_max: usize, next: &mut Source<'_>) -> io::Result<Measurements> {
    let mut buffer = noise(bytes_max, 1);
    let mut run = Measurements::default();
    let begun = Instant::now();
    while let Some(now) = next() {
        let start = begun.elapsed();
        transfer(file, &mut buffer, now)?;
        run.push(start, begun.elapsed(), now);
    }
    run.elapsed = begun.elapsed();
    Ok(run)
}

fn by_threads(
    file: &File,
    depth: usize,
    bytes_max: usize,
    next: &mut Source<'_>,
) -> io::Result<Measurements> {
    let next = Mutex::new(next);
    let run = Mutex::new(Measurements::default());
    let begun = Instant::now();
    let work = |seed: u64| {
        let mut buffer = noise(bytes_max, seed);
        loop {
            let Some(now) = next.lock()() else {
                return Ok(());
            };
            let start = begun.elapsed();
            transfer(file, &mut buffer, now)?;
            run.lock().push(start, begun.elapsed(), now);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..depth as u64)
            .map(|seed| scope.spawn(move || work(seed)))
            .collect();
        let joined = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        joined.collect::<io::Result<()>>()
    })?;
    let mut run = run.into_inner();
    run.elapsed = begun.elapsed();
    Ok(run)
}

impl Measurements {
    fn push(&mut self, start: Duration, end: Duration, transfer: Transfer) {
        self.samples.push(Sample {
            start,
            latency: end - start,
            bytes: transfer.bytes,
            write: transfer.write,
        });
    }
}

/// Transfers in flight, one per lane.
struct Lanes<'f> {
    file: &'f File,
    buffers: Vec<AlignedBuffer>,
    current: Vec<(Duration, Transfer)>,
    free: Vec<usize>,
}

impl<'f> Lanes<'f> {
    fn new(file: &'f File, depth: usize, bytes_max: usize) -> Self {
        let idle = Transfer {
            offset: 0,
            bytes: 0,
            write: false,
        };
        Self {
            file,
            buffers: (0..depth as u64).map(|i| noise(bytes_max, i)).collect(),
            current: vec![(Duration::ZERO, idle); depth],
            free: (0..depth).rev().collect(),
        }
    }

    fn run(mut self, ring: &mut IoUring, next: &mut Source<'_>) -> io::Result<Measurements> {
        let mut run = Measurements::default();
        let mut failure = None;
        let mut ended = false;
        let begun = Instant::now();
        loop {
            while !ended && let Some(lane) = self.free.pop() {
                let Some(transfer) = next() else {
                    self.free.push(lane);
                    ended = true;
                    break;
                };
                self.current[lane] = (begun.elapsed(), transfer);
                self.submit(ring, lane);
            }
            if self.free.len() == self.buffers.len() {
                run.elapsed = begun.elapsed();
                return failure.map_or(Ok(run), Err);
            }
            wait(ring, 1);
            let end = begun.elapsed();
            for done in ring.completion() {
                let lane = done.user_data() as usize;
                let (start, transfer) = self.current[lane];
                self.free.push(lane);
                match self.outcome(lane, done.result()) {
                    Ok(()) => run.push(start, end, transfer),
                    Err(error) => failure = Some(error),
                }
                ended |= failure.is_some();
            }
        }
    }

    fn chase(mut self, ring: &mut IoUring, guide: &mut Guide<'_>) -> io::Result<Measurements> {
        let mut run = Measurements::default();
        let mut failure = None;
        // Chains that wait for their pause to end.
        let mut waiting: BinaryHeap<Reverse<(Duration, usize, u64)>> = BinaryHeap::new();
        let mut in_flight = 0;
        let begun = Instant::now();
        for lane in 0..self.buffers.len() {
            if let Step::Read(offset, pause) = guide(lane, None) {
                waiting.push(Reverse((pause, lane, offset)));
            }
        }
        loop {
            while let Some(Reverse((due, lane, offset))) = waiting.peek().copied() {
                if due > begun.elapsed() {
                    break;
                }
                waiting.pop();
                self.current[lane] = (begun.elapsed(), read_of(offset, self.buffers[lane].len()));
                self.submit(ring, lane);
                in_flight += 1;
            }
            if in_flight == 0 && waiting.is_empty() {
                run.elapsed = begun.elapsed();
                return failure.map_or(Ok(run), Err);
            }
            // During a pause of microseconds the thread polls instead of sleeping.
            wait(ring, usize::from(waiting.is_empty()));
            for done in ring.completion() {
                let lane = done.user_data() as usize;
                let end = begun.elapsed();
                in_flight -= 1;
                let (start, transfer) = self.current[lane];
                match self.outcome(lane, done.result()) {
                    Ok(()) => run.push(start, end, transfer),
                    Err(error) => failure = Some(error),
                }
                if failure.is_some() {
                    waiting.clear();
                } else if let Step::Read(offset, pause) = guide(lane, Some(&self.buffers[lane])) {
                    waiting.push(Reverse((end + pause, lane, offset)));
                }
            }
        }
    }

    /// Returns whether a lane's transfer was completed as a whole.
    fn outcome(&self, lane: usize, result: i32) -> io::Result<()> {
        match usize::try_from(result) {
            Ok(bytes) if bytes == self.current[lane].1.bytes => Ok(()),
            // The file is as long as the source assumes, so this is a failure of the device.
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        }
    }

    fn submit(&mut self, ring: &mut IoUring, lane: usize) {
        let (_, transfer) = self.current[lane];
        let buffer = &mut self.buffers[lane];
        assert!(transfer.bytes <= buffer.len(), "no more than was announced");
        let (fd, bytes) = (types::Fd(self.file.as_raw_fd()), transfer.bytes as u32);
        let entry = if transfer.write {
            opcode::Write::new(fd, buffer.as_ptr(), bytes)
                .offset(transfer.offset)
                .build()
        } else {
            opcode::Read::new(fd, buffer.as_mut_ptr(), bytes)
                .offset(transfer.offset)
                .build()
        };
        let entry = entry.user_data(lane as u64);
        // SAFETY: the lane's buffer is not touched, and lives, until its completion is reaped.
        unsafe { ring.submission().push(&entry) }.expect("there is an entry for each lane");
    }
}

fn wait(ring: &IoUring, wanted: usize) {
    // The kernel owns the buffers until it completes the transfers, so this cannot give up.
    if let Err(error) = ring.submit_and_wait(wanted)
        && error.kind() != io::ErrorKind::Interrupted
    {
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: usize) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![7; bytes], 0).unwrap();
        file
    }

    fn count(mut left: u64, write: bool) -> impl FnMut() -> Option<Transfer> + Send {
        move || {
            left = left.checked_sub(1)?;
            Some(Transfer {
                offset: left % 16 * 4096,
                bytes: 4096,
                write,
            })
        }
    }

    #[test]
    fn every_transfer_is_done_once_at_any_depth() {
        let file = file(16 * 4096);
        for depth in [1, 3, 32] {
            for write in [false, true] {
                let run = run(&file, depth, 4096, &mut count(100, write)).unwrap();
                assert_eq!(run.samples.len(), 100);
                assert!(run.samples.iter().all(|s| s.write == write));
                assert!(run.elapsed >= run.samples[99].latency);
                assert!(run.per_second() > 0.0 && run.bytes_per_second() > 0.0);
            }
        }
        let threads = by_threads(&file, 4, 4096, &mut count(100, false)).unwrap();
        assert_eq!(threads.samples.len(), 100);
    }

    #[test]
    fn chains_read_where_the_page_before_tells_them() {
        let file = tempfile::tempfile().unwrap();
        for page in 0..64_u64 {
            let next = (page * 13 + 5) % 64;
            file.write_all_at(&vec![next as u8; 4096], page * 4096)
                .unwrap();
        }
        for chains in [1, 5, 40] {
            let mut at: Vec<u64> = (0..chains as u64).collect();
            let mut left = vec![20; chains];
            let pause = Duration::from_micros(30);
            let run = chase(&file, chains, 4096, &mut |chain, read| {
                if let Some(bytes) = read {
                    at[chain] = (at[chain] * 13 + 5) % 64;
                    assert_eq!(u64::from(bytes[0]), at[chain]);
                }
                if left[chain] == 0 {
                    return Step::End;
                }
                left[chain] -= 1;
                Step::Read(at[chain] * 4096, pause)
            });
            let run = run.unwrap();
            assert_eq!(run.samples.len(), 20 * chains);
            assert!(run.elapsed >= 20 * pause);
        }
        let past = chase(&file, 3, 4096, &mut |_, _| {
            Step::Read(64 * 4096, Duration::ZERO)
        });
        assert_eq!(past.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_stream_past_the_end_is_an_error_and_returns() {
        let file = file(4096);
        for depth in [1, 8] {
            let mut left = 20;
            let mut next = move || {
                left -= 1;
                (left > 0).then_some(Transfer {
                    offset: left * 4096,
                    bytes: 4096,
                    write: false,
                })
            };
            let error = run(&file, depth, 4096, &mut next).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
