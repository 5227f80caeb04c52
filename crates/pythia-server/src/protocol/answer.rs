//! Runs work on a thread and sends what it writes as the body of an answer.
//!
//! Most answers fit into the first piece. They are sent whole, with their length and a status that tells how they
//! ended. Longer answers are sent piece by piece ([`super::handover`]). If the work fails after the first piece,
//! the connection is cut (HTTP/1.1) or the stream reset (HTTP/2) before the end of the body, so that no client
//! takes a cut answer for a whole one.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, VARY};
use http::{HeaderValue, StatusCode};
use http_body::{Frame, SizeHint};
use pythia::Overstay;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::block_in_place;

use super::caching::Caching;
use super::error::HttpError;
pub(crate) use super::handover::Delivery;
use super::handover::{Receiver, Sender, handover};

/// Size of a piece, in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Initial capacity of a piece, in bytes; most answers fit into it.
const FIRST_BYTES: usize = 4 << 10;
/// Time for which work may keep the connections of a runtime thread waiting: those of [`Company::Few`], those of
/// [`Company::Many`], which keep all cores busy, and none but a new one.
const AMONG_FEW: Duration = Duration::from_millis(2);
const AMONG_MANY: Duration = Duration::from_millis(4);
const ALONE: Duration = Duration::from_millis(10);
/// Limit on the wait for a thread that takes over the connections.
const TAKEOVER: Duration = Duration::from_millis(5);

/// The writer that a thread writes an answer to.
pub(crate) struct Output {
    head: Head,
    piece: Vec<u8>,
    /// `None` once it was sent.
    first: Option<oneshot::Sender<FirstMessage>>,
    rest: Option<Sender>,
    /// Frees the runtime's thread that the work runs on, if it does.
    overstay: Option<Arc<Overstay>>,
    delivery: Delivery,
    runtime: Handle,
}

/// The parts of an answer besides its body.
#[derive(Clone)]
struct Head {
    media_type: &'static str,
    caching: Caching,
}

/// The first message from the thread.
enum FirstMessage {
    Whole(Result<(Head, Bytes), HttpError>),
    /// The receiver of all pieces.
    Pieces(Head, Receiver),
}

/// Runs work on a thread and answers with what it writes. Sets `cancel` if the client goes away.
pub(crate) async fn answer(
    delivery: Delivery,
    work: impl FnOnce(&mut Output) -> Result<(), HttpError> + Send + 'static,
) -> Result<Response, HttpError> {
    let (first, wait) = oneshot::channel();
    let guard = CancelOnDrop::new(&delivery.cancel);
    let mut output = Output::new(first, delivery, None);
    tokio::task::spawn_blocking(move || {
        let outcome = work(&mut output);
        output.finish(outcome);
    });
    answer_of(wait, guard).await
}

/// The requests that may wait while work runs on a thread of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// None: each connection has a thread to itself.
    None,
    /// Those of a few connections.
    Few,
    /// More than get their turns.
    Many,
}

impl Company {
    /// Returns the company of a request whose connection sends one after the other. A new connection goes to the worker that
    /// has the fewest. Requests may come faster than they get their turns if there are more `open` connections than `places`
    /// for one client.
    pub(crate) fn of(open: usize, places: usize, workers: usize) -> Self {
        match open {
            _ if open > places => Self::Many,
            _ if open > workers => Self::Few,
            _ => Self::None,
        }
    }
}

/// Like [`answer`], for work that usually takes less time than waking a thread twice: it begins on a thread of the
/// runtime. If it takes longer than its company may wait or writes more than a piece, it keeps the thread, and the runtime
/// gets another. The work takes [`Output::overstay`] into its options. Many requests reach the queue first, so that an
/// overload is shed there, not left unread.
pub(crate) async fn answer_at_once(
    delivery: Delivery,
    company: Company,
    work: impl FnOnce(&mut Output) -> Result<(), HttpError> + Send + 'static,
) -> Result<Response, HttpError> {
    let (first, wait) = oneshot::channel();
    let guard = CancelOnDrop::new(&delivery.cancel);
    // A task of its own: the connection notices meanwhile that its client goes away, and sends pieces.
    tokio::spawn(async move {
        if company == Company::Many {
            tokio::task::yield_now().await;
        }
        let time = match company {
            Company::None => ALONE,
            Company::Few => AMONG_FEW,
            Company::Many => AMONG_MANY,
        };
        let overstay = Overstay::new(Instant::now() + time, leave_runtime);
        let mut output = Output::new(first, delivery, Some(Arc::new(overstay)));
        let outcome = work(&mut output);
        output.finish(outcome);
    });
    answer_of(wait, guard).await
}

/// Waits for the first message of the work.
async fn answer_of(
    wait: oneshot::Receiver<FirstMessage>,
    guard: CancelOnDrop,
) -> Result<Response, HttpError> {
    let (head, body) = match wait.await.map_err(|_| crashed())? {
        FirstMessage::Whole(outcome) => {
            guard.disarm();
            let (head, whole) = outcome?;
            (head, Body::from(whole))
        }
        FirstMessage::Pieces(head, body) => (head, Body::new(GuardedBody { body, guard })),
    };
    Ok(response(head, body))
}

/// Gives the connections of this thread of the runtime to another thread, for as long as the current task runs.
///
/// `block_in_place` starts a thread for them and takes them back at its end unless that thread has them. The pool
/// begins its tasks in order, so the thread is up once a later task has begun. It may not have taken over at that
/// moment, hence the second round; after a takeover, a round only waits for a thread.
fn leave_runtime() {
    for _ in 0..2 {
        block_in_place(|| {
            let (begun, wait) = mpsc::channel();
            tokio::task::spawn_blocking(move || begun.send(()));
            let _ = wait.recv_timeout(TAKEOVER);
        });
    }
}

fn response(head: Head, body: Body) -> Response {
    let Head {
        media_type,
        caching,
    } = head;
    let mut response = Response::new(body);
    *response.status_mut() = caching.status();
    let headers = response.headers_mut();
    if !caching.is_unmodified() {
        headers.insert(CONTENT_TYPE, content_type(media_type));
    }
    headers.insert(VARY, HeaderValue::from_static("accept"));
    caching.add_to(headers);
    response
}

/// Returns the value of `Content-Type`. Text is UTF-8, and some clients assume otherwise unless told.
fn content_type(media_type: &'static str) -> HeaderValue {
    match media_type {
        "text/csv" => HeaderValue::from_static("text/csv; charset=utf-8"),
        "text/tab-separated-values" => {
            HeaderValue::from_static("text/tab-separated-values; charset=utf-8")
        }
        "text/turtle" => HeaderValue::from_static("text/turtle; charset=utf-8"),
        other => HeaderValue::from_static(other),
    }
}

/// Runs work on a thread and returns its result.
pub(crate) async fn run<T: Send + 'static>(
    cancel: Arc<AtomicBool>,
    work: impl FnOnce() -> Result<T, HttpError> + Send + 'static,
) -> Result<T, HttpError> {
    let guard = CancelOnDrop::new(&cancel);
    let outcome = tokio::task::spawn_blocking(work).await;
    guard.disarm();
    outcome.unwrap_or_else(|_| Err(crashed()))
}

/// Returns the error if the work panicked.
fn crashed() -> HttpError {
    HttpError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal error: the request panicked; see the server's log",
    )
}

impl Output {
    fn new(
        first: oneshot::Sender<FirstMessage>,
        delivery: Delivery,
        overstay: Option<Arc<Overstay>>,
    ) -> Self {
        Self {
            head: Head {
                media_type: "application/json",
                caching: Caching::default(),
            },
            piece: Vec::with_capacity(FIRST_BYTES),
            first: Some(first),
            rest: None,
            overstay,
            delivery,
            runtime: Handle::current(),
        }
    }

    /// Returns the action to take when the work runs long.
    pub(crate) fn overstay(&self) -> Option<Arc<Overstay>> {
        self.overstay.clone()
    }

    /// Sets the media type. It is JSON unless it is set before the first byte.
    pub(crate) fn is(&mut self, media_type: &'static str) {
        self.head.media_type = media_type;
    }

    /// Sets the headers for caches, before the first byte.
    pub(crate) fn cache(&mut self, caching: Caching) {
        self.head.caching = caching;
    }

    fn send(&mut self) -> io::Result<()> {
        if let Some(overstay) = &self.overstay {
            overstay.act();
        }
        let piece = self.take_piece();
        self.piece.reserve(PIECE_BYTES);
        if let Some(first) = self.first.take() {
            let (sender, receiver) = handover(self.delivery.clone(), &self.runtime);
            self.rest = Some(sender);
            // If the client has gone, the receiver is dropped, and the next piece fails.
            let _ = first.send(FirstMessage::Pieces(self.head.clone(), receiver));
        }
        let rest = self.rest.as_ref().expect("made with the first piece");
        // Waits for the client.
        block_in_place(|| rest.push(piece))
    }

    fn take_piece(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.piece))
    }

    /// Ends the answer. Gives the turn back, since nothing is computed any more, however slowly the client reads.
    fn finish(mut self, outcome: Result<(), HttpError>) {
        self.delivery.slot.release();
        if let Some(first) = self.first.take() {
            let piece = self.take_piece();
            let whole = outcome.map(|()| (self.head.clone(), piece));
            // The receiver is gone if the client has gone.
            let _ = first.send(FirstMessage::Whole(whole));
            return;
        }
        let piece = self.take_piece();
        if let Some(rest) = self.rest.take() {
            let outcome = match outcome {
                Ok(()) if piece.is_empty() => Ok(()),
                Ok(()) => rest.push_last(piece),
                Err(error) => Err(io::Error::other(error.message)),
            };
            rest.finish(outcome);
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() + bytes.len() > PIECE_BYTES && !self.piece.is_empty() {
            self.send()?;
        }
        let taken = bytes.len().min(PIECE_BYTES);
        self.piece.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Takes all bytes, mostly at once.
    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.write(bytes)?;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Does nothing: pieces are sent when they are full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Cancels the work of a request when it is dropped while armed: its client has gone.
struct CancelOnDrop {
    cancel: Arc<AtomicBool>,
    armed: bool,
}

impl CancelOnDrop {
    fn new(cancel: &Arc<AtomicBool>) -> Self {
        Self {
            cancel: Arc::clone(cancel),
            armed: true,
        }
    }

    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.armed {
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}

/// A body that cancels its work when it is dropped. At the end of the body there is nothing left to cancel.
struct GuardedBody {
    body: Receiver,
    #[expect(dead_code, reason = "held to be dropped")]
    guard: CancelOnDrop,
}

impl http_body::Body for GuardedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::Company;

    #[test]
    fn connections_wait_for_each_other_only_on_shared_workers() {
        let (places, workers) = (8, 2);
        let company = |open| Company::of(open, places, workers);
        assert_eq!(company(1), Company::None);
        assert_eq!(company(2), Company::None);
        assert_eq!(company(3), Company::Few);
        assert_eq!(company(8), Company::Few);
        assert_eq!(company(9), Company::Many);
        // Few places are as many requests as may run: the others queue, even if each has a worker.
        assert_eq!(Company::of(2, 1, 4), Company::Many);
    }
}
