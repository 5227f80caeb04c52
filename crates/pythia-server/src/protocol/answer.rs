//! Runs work on a thread and sends what it writes as the body of an answer.
//!
//! Most answers fit into the first piece. They are sent whole, with their length and a status that tells how they
//! ended. Longer answers are sent piece by piece ([`super::handover`]). If the work fails after the first piece,
//! the connection is cut (HTTP/1.1) or the stream reset (HTTP/2) before the end of the body, so that no client
//! takes a cut answer for a whole one.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, VARY};
use http::{HeaderValue, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::caching::Caching;
use super::error::HttpError;
pub(crate) use super::handover::Delivery;
use super::handover::{Receiver, Sender, handover};

/// Size of a piece, in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Initial capacity of a piece, in bytes; most answers fit into it.
const FIRST_BYTES: usize = 4 << 10;
/// Time limit for work that is tried on a runtime thread: all connections of the thread wait for it.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(2);

/// The writer that a thread writes an answer to.
pub(crate) struct Output {
    head: Head,
    piece: Vec<u8>,
    /// `None`, like `rest`, if the work is tried at once.
    first: Option<oneshot::Sender<FirstMessage>>,
    rest: Option<Sender>,
    /// True if the work was tried at once and wrote more than one piece.
    is_long: bool,
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
    let guard = CancelOnDrop {
        cancel: Arc::clone(&delivery.cancel),
        armed: true,
    };
    let (first, wait) = oneshot::channel();
    let mut output = Output::new(Some(first), delivery);
    tokio::task::spawn_blocking(move || {
        let outcome = work(&mut output);
        output.finish(outcome);
    });
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

/// Like [`answer`], for work that usually takes less time than waking a thread twice: it is tried on the runtime
/// thread first. The work calls [`Output::is_tried`] and ends with [`StatusCode::GATEWAY_TIMEOUT`] after
/// [`AT_ONCE`]. Then, or if it writes more than a piece, it is started again on a thread.
pub(crate) async fn answer_at_once(
    delivery: Delivery,
    work: impl Fn(&mut Output) -> Result<(), HttpError> + Send + 'static,
) -> Result<Response, HttpError> {
    // Lets other new requests reach the queue, so that an overload is shed there, not left unread.
    tokio::task::yield_now().await;
    let mut output = Output::new(None, delivery.clone());
    let tried = catch_unwind(AssertUnwindSafe(|| work(&mut output)));
    match tried.unwrap_or_else(|_| Err(crashed())) {
        Ok(()) => Ok(response(output.head, output.piece.into())),
        Err(error) if !output.is_long && error.status != StatusCode::GATEWAY_TIMEOUT => Err(error),
        Err(_) => answer(delivery, work).await,
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
    let guard = CancelOnDrop {
        cancel,
        armed: true,
    };
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
    fn new(first: Option<oneshot::Sender<FirstMessage>>, delivery: Delivery) -> Self {
        Self {
            head: Head {
                media_type: "application/json",
                caching: Caching::default(),
            },
            piece: Vec::with_capacity(FIRST_BYTES),
            first,
            rest: None,
            is_long: false,
            delivery,
            runtime: Handle::current(),
        }
    }

    /// Returns whether this is a try with the time limit [`AT_ONCE`].
    pub(crate) fn is_tried(&self) -> bool {
        self.first.is_none() && self.rest.is_none()
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
        if self.is_tried() {
            self.is_long = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let piece = self.take_piece();
        self.piece.reserve(PIECE_BYTES);
        if let Some(first) = self.first.take() {
            let (sender, receiver) = handover(self.delivery.clone(), &self.runtime);
            self.rest = Some(sender);
            // If the client has gone, the receiver is dropped, and the next piece fails.
            let _ = first.send(FirstMessage::Pieces(self.head.clone(), receiver));
        }
        self.rest.as_ref().expect("it is no try").push(piece)
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
        self.piece.extend_from_slice(bytes);
        Ok(bytes.len())
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
