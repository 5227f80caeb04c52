//! Pieces of an answer on their way from the thread that computes them to the connection that sends them.
//!
//! A client may read an answer more slowly than it is computed. A few pieces wait in memory. If no piece moves for
//! [`PATIENCE`], the following ones go to a temporary file, so that the work can end and release its turn, memory
//! and thread. For a client with several unread answers, the work does not wait at all. The file may grow with
//! what the client has already read. When it may not grow further, the thread waits without a turn. A client that
//! reads below the minimum rate loses the answer.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::{Condvar, Mutex};
use pythia::{Database, QueryError, SpilledBytes, SpilledPiece};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::admission::{Client, Slot};
use crate::exchange::Hangup;
use crate::operate::metrics::Metrics;

/// Limit on pieces that wait in memory.
const PIECES: usize = 4;
/// Time for which the work waits for the client before it writes to a file.
const PATIENCE: Duration = Duration::from_millis(100);
/// Limits on the file: its initial size, and the growth per byte that the client has read. A client that reads
/// nothing must not cause much computation, neither once nor with every retry.
const FILE_BYTES: u64 = 512 << 10;
const FILE_BYTES_PER_TAKEN: u64 = 4;
/// Free space in the file, in bytes, that lets waiting work go on.
const STEP_BYTES: u64 = 512 << 10;
/// Interval at which waiting work checks for cancellation.
const LOOK: Duration = Duration::from_secs(1);

/// Delivery of an answer to a slow reader.
#[derive(Clone)]
pub(crate) struct Delivery {
    /// The database that makes the temporary files.
    pub(crate) database: Arc<Database>,
    /// The turn of the work.
    pub(crate) slot: Arc<Slot>,
    /// Limit on the size of the file, in bytes.
    pub(crate) unread_bytes: u64,
    /// Minimum rate at which the client must read, averaged over `window`, while there is something to read; 0 is
    /// no minimum.
    pub(crate) bytes_per_second: u64,
    pub(crate) window: Duration,
    /// Deadline of the work, also while it waits.
    pub(crate) deadline: Option<Instant>,
    /// Cancels the work.
    pub(crate) cancel: Arc<AtomicBool>,
    /// Ends the connection.
    pub(crate) hangup: Option<Hangup>,
    pub(crate) metrics: Arc<Metrics>,
    /// For the log.
    pub(crate) id: Arc<str>,
    pub(crate) client: Client,
}

impl Delivery {
    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// The state that thread and connection share.
struct Handover {
    delivery: Delivery,
    queue: Mutex<PieceQueue>,
    /// Signals that a piece was read, or that none will be.
    taken: Condvar,
}

#[derive(Default)]
struct PieceQueue {
    /// These come before the pieces in the file.
    pieces: VecDeque<Bytes>,
    kept: VecDeque<SpilledPiece>,
    file: Option<Arc<SpilledBytes>>,
    /// The outcome of the work.
    end: Option<io::Result<()>>,
    /// True if no more pieces will be read.
    is_over: bool,
    /// Wakes the connection, which waits for a piece.
    waits: Option<Waker>,
    taken_bytes: u64,
    /// True if the connection has waited in this window.
    has_waited: bool,
}

/// The thread's end. If it is dropped without [`Self::finish`], the answer is cut.
pub(super) struct Sender {
    handover: Arc<Handover>,
    runtime: Handle,
}

/// The connection's end: the body of the answer.
pub(super) struct Receiver {
    handover: Arc<Handover>,
    /// The piece that is being read from the file.
    reading: Option<JoinHandle<Result<Vec<u8>, QueryError>>>,
    has_ended: bool,
}

/// Result of writing a piece to the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpillOutcome {
    Whole,
    /// The file has reached its limit.
    Full,
    /// The file cannot be written.
    Failed,
}

/// Makes both ends.
pub(super) fn handover(delivery: Delivery, runtime: &Handle) -> (Sender, Receiver) {
    let handover = Arc::new(Handover {
        delivery,
        queue: Mutex::default(),
        taken: Condvar::new(),
    });
    if handover.delivery.bytes_per_second > 0 {
        runtime.spawn(watch(Arc::downgrade(&handover)));
    }
    let sender = Sender {
        handover: Arc::clone(&handover),
        runtime: runtime.clone(),
    };
    let receiver = Receiver {
        handover,
        reading: None,
        has_ended: false,
    };
    (sender, receiver)
}

/// Checks the client's rate once per window.
async fn watch(handover: Weak<Handover>) {
    let mut before = 0;
    loop {
        let Some(window) = handover.upgrade().map(|shared| shared.delivery.window) else {
            return;
        };
        tokio::time::sleep(window).await;
        match handover.upgrade() {
            Some(shared) if shared.is_taken_since(&mut before) => {}
            _ => return,
        }
    }
}

impl Handover {
    /// Returns whether the client keeps the minimum rate; cuts the answer if not.
    fn is_taken_since(&self, before: &mut u64) -> bool {
        let Delivery {
            bytes_per_second,
            window,
            ..
        } = self.delivery;
        let mut queue = self.queue.lock();
        if queue.is_over {
            return false;
        }
        let taken = queue.taken_bytes - *before;
        *before = queue.taken_bytes;
        let has_waited = std::mem::take(&mut queue.has_waited) || queue.waits.is_some();
        if has_waited || taken as f64 >= bytes_per_second as f64 * window.as_secs_f64() {
            return true;
        }
        drop(queue);
        self.give_up(&format!(
            "the client read {taken} bytes in {window:?}, less than {bytes_per_second} bytes per second \
             (limits.answer_rate)"
        ));
        false
    }

    /// Cuts the answer and drops everything that is kept for it.
    fn give_up(&self, why: &str) {
        let Delivery { client, id, .. } = &self.delivery;
        tracing::warn!(%client, %id, "gave up an answer: {why}");
        self.delivery.metrics.slow_reader();
        self.delivery.cancel.store(true, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        queue.over();
        queue.end = Some(Err(io::Error::other(why.to_owned())));
        queue.wake();
        drop(queue);
        self.taken.notify_all();
        if let Some(hangup) = &self.delivery.hangup {
            hangup.hang_up();
        }
    }
}

impl PieceQueue {
    fn has_room(&self) -> bool {
        self.kept.is_empty() && self.pieces.len() < PIECES
    }

    /// Returns the current limit on the file's size.
    fn file_bytes_max(&self, unread_bytes: u64) -> u64 {
        let earned = self.taken_bytes.saturating_mul(FILE_BYTES_PER_TAKEN);
        unread_bytes.min(FILE_BYTES.saturating_add(earned))
    }

    /// Drops all pieces.
    fn over(&mut self) {
        self.is_over = true;
        self.pieces.clear();
        self.kept.clear();
        self.file = None;
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waits.take() {
            waker.wake();
        }
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the client has gone")
}

impl Sender {
    /// Passes a piece on. May block as long as the client does; the turn is given back meanwhile.
    ///
    /// # Errors
    /// If no more pieces will be read.
    pub(super) fn push(&self, piece: Bytes) -> io::Result<()> {
        loop {
            if self.hand_over(&piece)? {
                return Ok(());
            }
            let unread_bytes = self.handover.delivery.unread_bytes;
            match self.keep(&piece, |queue| queue.file_bytes_max(unread_bytes)) {
                SpillOutcome::Whole => return Ok(()),
                kept => self.park(kept)?,
            }
        }
    }

    /// Queues a piece in memory. Returns false if pieces in the file come first, or if there was no room for some
    /// time.
    fn hand_over(&self, piece: &Bytes) -> io::Result<bool> {
        let patience = match self.handover.delivery.slot.is_behind() {
            true => Duration::ZERO,
            false => PATIENCE,
        };
        let mut queue = self.handover.queue.lock();
        let until = Instant::now() + patience;
        while !queue.is_over && queue.kept.is_empty() && !queue.has_room() {
            if self
                .handover
                .taken
                .wait_until(&mut queue, until)
                .timed_out()
            {
                break;
            }
        }
        if queue.is_over {
            return Err(gone());
        }
        if !queue.has_room() {
            return Ok(false);
        }
        // The file was read completely: frees its space.
        queue.file = None;
        queue.pieces.push_back(piece.clone());
        queue.wake();
        Ok(true)
    }

    /// Passes the last piece on without waiting: keeping it costs no more than cutting the answer.
    ///
    /// # Errors
    /// If no more pieces will be read.
    pub(super) fn push_last(&self, piece: Bytes) -> io::Result<()> {
        {
            let mut queue = self.handover.queue.lock();
            if queue.is_over {
                return Err(gone());
            }
            if queue.kept.is_empty() {
                queue.pieces.push_back(piece);
                queue.wake();
                return Ok(());
            }
        }
        match self.keep(&piece, |_| u64::MAX) {
            SpillOutcome::Whole => Ok(()),
            SpillOutcome::Full | SpillOutcome::Failed => self.push(piece),
        }
    }

    /// Appends a piece to the file, if the limit allows it.
    fn keep(&self, piece: &Bytes, bytes_max: impl Fn(&PieceQueue) -> u64) -> SpillOutcome {
        let delivery = &self.handover.delivery;
        let (file, most) = {
            let queue = self.handover.queue.lock();
            (queue.file.clone(), bytes_max(&queue))
        };
        let length = file.as_ref().map_or(0, |file| file.len());
        if length + piece.len() as u64 > most {
            return SpillOutcome::Full;
        }
        let written = match file {
            Some(file) => file.append(piece).map(|place| (file, place)),
            None => delivery.database.spilled_bytes().and_then(|file| {
                let place = file.append(piece)?;
                Ok((Arc::new(file), place))
            }),
        };
        match written {
            Ok((file, place)) => {
                let mut queue = self.handover.queue.lock();
                if !queue.is_over {
                    queue.file = Some(file);
                    queue.kept.push_back(place);
                    queue.wake();
                }
                SpillOutcome::Whole
            }
            Err(error) => {
                let id = &delivery.id;
                tracing::debug!(%id, "an answer waits in memory instead of a file: {error}");
                SpillOutcome::Failed
            }
        }
    }

    /// Waits without a turn until there is room in memory, or in the file if that was only full.
    fn park(&self, kept: SpillOutcome) -> io::Result<()> {
        let delivery = &self.handover.delivery;
        let Ok(parked) = delivery.slot.pause() else {
            let why = "too many answers wait for slow clients";
            self.handover.give_up(why);
            return Err(gone());
        };
        let mut queue = self.handover.queue.lock();
        loop {
            if queue.is_over || delivery.cancel.load(Ordering::Relaxed) {
                return Err(gone());
            }
            if delivery.is_late() {
                return Err(io::Error::other(QueryError::Timeout));
            }
            let length = queue.file.as_ref().map_or(0, |file| file.len());
            let may_grow = length + STEP_BYTES <= queue.file_bytes_max(delivery.unread_bytes);
            let may_grow = may_grow && kept == SpillOutcome::Full && !queue.kept.is_empty();
            if queue.has_room() || may_grow {
                break;
            }
            self.handover.taken.wait_for(&mut queue, LOOK);
        }
        drop(queue);
        delivery.slot.resume(parked, &self.runtime);
        Ok(())
    }

    /// Sets the outcome of the work: the answer is complete, or is to be cut.
    pub(super) fn finish(self, outcome: io::Result<()>) {
        self.handover.queue.lock().end.get_or_insert(outcome);
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // The work has ended, perhaps by a panic.
        self.handover.delivery.slot.release();
        let mut queue = self.handover.queue.lock();
        let unfinished = || Err(io::Error::other("the answer was not finished"));
        queue.end.get_or_insert_with(unfinished);
        queue.wake();
    }
}

impl Receiver {
    /// Returns the next piece in memory, or begins to read one from the file, or waits.
    fn next(&mut self, context: &Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let mut queue = self.handover.queue.lock();
        if let Some(piece) = queue.pieces.pop_front() {
            queue.taken_bytes += piece.len() as u64;
            self.handover.taken.notify_one();
            return Poll::Ready(Some(Ok(piece)));
        }
        if let (Some(place), Some(file)) = (queue.kept.pop_front(), queue.file.clone()) {
            self.handover.taken.notify_one();
            self.reading = Some(tokio::task::spawn_blocking(move || file.read(place)));
            return Poll::Pending;
        }
        match queue.end.take() {
            Some(outcome) => {
                self.has_ended = true;
                Poll::Ready(outcome.err().map(Err))
            }
            None => {
                queue.has_waited = true;
                queue.waits = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Polls the piece that is being read.
    fn poll_reading(
        &mut self,
        reading: &mut JoinHandle<Result<Vec<u8>, QueryError>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Bytes>> {
        let read = std::task::ready!(Pin::new(reading).poll(context));
        let read = read
            .map_err(io::Error::other)
            .and_then(|read| read.map_err(io::Error::other));
        if let Ok(bytes) = &read {
            self.handover.queue.lock().taken_bytes += bytes.len() as u64;
        }
        Poll::Ready(read.map(Bytes::from))
    }
}

impl http_body::Body for Receiver {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if self.reading.is_none() {
            let next = self.next(context);
            if self.reading.is_none() {
                return next.map(|next| next.map(|piece| piece.map(Frame::data)));
            }
        }
        let mut reading = self.reading.take().expect("it is being read");
        match self.poll_reading(&mut reading, context) {
            Poll::Pending => {
                self.reading = Some(reading);
                Poll::Pending
            }
            Poll::Ready(read) => {
                self.has_ended = read.is_err();
                Poll::Ready(Some(read.map(Frame::data)))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.handover.queue.lock().over();
        self.handover.taken.notify_all();
    }
}

#[cfg(test)]
mod tests;
