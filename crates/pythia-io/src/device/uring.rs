//! Reads through io_uring: a small pool of rings, so that concurrent queries do not wait for each other.
//!
//! Invariant: a batch leaves this module only when the kernel has finished with all of its buffers.
#![expect(unsafe_code, reason = "submissions hand raw buffers to the kernel")]

use std::io;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};
use parking_lot::Mutex;

use super::transfer::{Failure, Progress, Transfer};

/// Submissions one ring takes at once.
const RING_ENTRIES: u32 = 128;
/// Limit on rings kept for later batches.
const IDLE_RINGS_MAX: usize = 32;

/// Idle rings.
pub(super) struct RingPool {
    idle: Mutex<Vec<IoUring>>,
}

impl RingPool {
    /// Creates the pool. Fails where io_uring is refused: by seccomp, by sysctl, or by an old kernel.
    pub(super) fn new() -> io::Result<Self> {
        let ring = new_ring()?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Readv::CODE) || !probe.is_supported(opcode::Read::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self {
            idle: Mutex::new(vec![ring]),
        })
    }

    /// Reads a batch, all submitted together.
    pub(super) fn read(&self, mut transfers: Vec<Transfer>) -> Result<(), Failure> {
        // A single read waits for the device either way, and pread has the least overhead.
        if transfers.len() == 1 {
            return read_here(&mut transfers);
        }
        let idle = self.idle.lock().pop();
        let mut ring = match idle.map_or_else(new_ring, Ok) {
            Ok(ring) => ring,
            // Out of descriptors or locked memory: slower, but not an error of the query.
            Err(_) => return read_here(&mut transfers),
        };
        let result = drive(&mut ring, &mut transfers);
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_RINGS_MAX {
            idle.push(ring);
        }
        result
    }
}

fn new_ring() -> io::Result<IoUring> {
    // Without this flag, a completion interrupts this thread wherever it runs (always before Linux 5.19).
    IoUring::builder()
        .setup_coop_taskrun()
        .build(RING_ENTRIES)
        .or_else(|_| IoUring::new(RING_ENTRIES))
}

fn read_here(transfers: &mut [Transfer]) -> Result<(), Failure> {
    for transfer in transfers {
        if let Err(error) = transfer.run() {
            return Err(transfer.failure(error));
        }
    }
    Ok(())
}

/// Submits and reaps until nothing is pending or in flight. After a failure it submits nothing more, but waits for
/// what is in flight.
fn drive(ring: &mut IoUring, transfers: &mut [Transfer]) -> Result<(), Failure> {
    let mut pending: Vec<usize> = (0..transfers.len()).rev().collect();
    let mut in_flight = 0;
    let mut failure: Option<Failure> = None;
    let mut reaped: Vec<(usize, i32)> = Vec::with_capacity(transfers.len());
    loop {
        if failure.is_some() {
            pending.clear();
        }
        in_flight += submit(ring, transfers, &mut pending, in_flight);
        if in_flight == 0 {
            return failure.map_or(Ok(()), Err);
        }
        wait(ring, in_flight, pending.is_empty());
        reaped.extend(
            ring.completion()
                .map(|done| (done.user_data() as usize, done.result())),
        );
        in_flight -= reaped.len();
        for (index, result) in reaped.drain(..) {
            let result = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
            match transfers[index].advance(result) {
                Ok(Progress::Done) => {}
                Ok(Progress::Again) => pending.push(index),
                Err(error) => {
                    failure.get_or_insert(transfers[index].failure(error));
                }
            }
        }
    }
}

/// Moves pending reads to the submission queue as far as there is room. Returns how many.
fn submit(
    ring: &mut IoUring,
    transfers: &[Transfer],
    pending: &mut Vec<usize>,
    in_flight: usize,
) -> usize {
    let mut queue = ring.submission();
    let mut count = 0;
    while in_flight + count < RING_ENTRIES as usize {
        let Some(&index) = pending.last() else { break };
        let transfer = &transfers[index];
        let vectors = transfer.vectors();
        let fd = types::Fd(transfer.descriptor());
        let entry = match vectors {
            // Most reads are of one page, for which the kernel need not copy a list of buffers.
            [only] => opcode::Read::new(fd, only.iov_base.cast(), only.iov_len as u32)
                .offset(transfer.offset())
                .build(),
            several => opcode::Readv::new(fd, several.as_ptr(), several.len() as u32)
                .offset(transfer.offset())
                .build(),
        };
        let entry = entry.user_data(index as u64);
        // SAFETY: the vectors and the buffers they name outlive the read, because `drive` does not
        // return, and does not touch this transfer, until its completion has been reaped.
        if unsafe { queue.push(&entry) }.is_err() {
            break;
        }
        pending.pop();
        count += 1;
    }
    count
}

/// Submits the queue and waits for completions: for all of them if nothing is left to submit, else for enough to
/// submit more.
fn wait(ring: &mut IoUring, in_flight: usize, last: bool) {
    let wanted = if last { in_flight } else { in_flight / 4 + 1 };
    if let Err(error) = ring.submit_and_wait(wanted) {
        // The kernel owns the buffers until it completes the reads, so this cannot give up: whatever the reason (a
        // signal, a full completion queue, memory), it tries again.
        if error.kind() != io::ErrorKind::Interrupted {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}
